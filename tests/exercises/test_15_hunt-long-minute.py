"""15-hunt-long-minute: one time that commands go by, in one variable, with one owner."""
from __future__ import annotations

from cases.files import shared_state
from fake_clock import BEGIN, Clock
from grading import Submission, points
from harness import Err
from many_files import objects

LARGEST = 2**63 - 1 - BEGIN


@points(3, "what is left")
def test_ttl(work: Submission) -> None:
    """A key has a minute to live. `pttl` and `ttl` are asked at once, after 20 seconds, at the end and behind it."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("set", "s", "1", expect=None)
        conn.ask("pexpire", "s", "60000", expect=1)
        for after, left, seconds in ((0, 60_000, 60), (20_000, 40_000, 40), (59_400, 600, 1), (60_001, -2, -2)):
            clock.step(after - (clock.now_ms - BEGIN))
            for command, wanted in (("pttl", left), ("ttl", seconds)):
                came = conn.ask(command, "s")
                work.expect(
                    came == wanted, came=f"after {after} ms {command} answers (int) {came}", expected=f"(int) {wanted}",
                    cause="what is left is the deadline less the time: which time is it that this function sees?",
                )  # fmt: skip


@points(2, "which times are too large")
def test_too_large(work: Submission) -> None:
    """`pexpire` with the largest number of milliseconds whose deadline can be noted, and with one more."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("set", "s", "1", expect=None)
        conn.ask("pexpire", "s", str(LARGEST), expect=1)
        conn.ask("pttl", "s", expect=LARGEST)
        for more in (LARGEST + 1, 2**63 - 1):
            conn.ask("pexpire", "s", str(more), expect=Err(4))
            conn.ask("get", "s", expect=b"1")


@points(2, "each variable once")
def test_once(work: Submission) -> None:
    """The variables of each file, as nm shows them in object files that were compiled with -O0."""
    found = objects(work)
    shared = shared_state(found)
    work.expect(
        not shared, came=f"every file can reach {', '.join(shared)}", expected="state that only its own file can reach"
    )
    for name in sorted({name for of in found.values() for name in of.own}):
        files = [file for file, of in found.items() if name in of.own]
        work.expect(
            len(files) == 1, came=f"there are {len(files)} variables {name}: in {', '.join(files)}",
            expected="one, in the file that owns it", cause="what a header defines, each file that includes it has",
        )  # fmt: skip


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: a session, keys that come back while others expire."""
    work.chapter_tests("15-same or keys_come_back_while_others_expire")
