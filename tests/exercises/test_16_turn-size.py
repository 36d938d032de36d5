"""16-turn-size: how much work a turn has is a setting, for the end of a turn and for what is slow."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Optional

from cases.files import shared_state
from cases.talk import asked, paused
from grading import Submission, points
from harness import Server, run_program
from many_files import objects

KIB = 1024


def env(size: Optional[int]) -> dict:
    return {"IDLE_TIMEOUT_MS": "0", **({} if size is None else {"TURN_WORK": str(size)})}


def rounds(work: Submission, size: Optional[int], clients: int, value: int, times: int) -> int:
    """How often poll() is called while so many clients get what they have asked for: a value, so many times."""
    with work.count("poll") as counted, Server(16, env=env(size)) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(clients)]
        conns[0].ask("set", "k", "v" * value, expect=None)
        for conn in conns:
            conn.ask("get", "none", expect=None)
        with paused(server):
            for conn in conns:
                conn.send(asked(16, "get", "k") * times)
            counted.reset()
        for conn in conns:
            for _ in range(times):
                conn.recv(b"v" * value)
        return counted.now()["poll"]


@points(3, "turns")
def test_turns(work: Submission) -> None:
    """One client asks 500 times for a short value, in one write: with turns of 2 KiB, and of a megabyte."""
    small, large = rounds(work, 2 * KIB, 1, 20, 500), rounds(work, 1 << 20, 1, 20, 500)
    work.expect(small >= 8, came=f"{small} rounds, where a turn is 2 KiB", expected="8 rounds at least",
                cause="does a turn end by the setting?")  # fmt: skip
    work.expect(large <= 5, came=f"{large} rounds, where a turn is a megabyte", expected="5 rounds at most",
                cause="does a turn end by the setting?")  # fmt: skip


@points(3, "what is slow")
def test_slow(work: Submission) -> None:
    """Twenty clients ask for a value each: of 10,000 bytes with turns of 4 KiB, of 200,000 with turns of a megabyte."""
    small, large = rounds(work, 4 * KIB, 20, 10_000, 1), rounds(work, 1 << 20, 20, 200_000, 1)
    work.expect(small >= 20, came=f"{small} rounds, for 20 values of more than a turn", expected="20 rounds at least",
                cause="is what is slow decided by the setting?")  # fmt: skip
    work.expect(large <= 15, came=f"{large} rounds, for 20 values of less than a turn", expected="15 rounds at most",
                cause="is what is slow decided by the setting?")  # fmt: skip


@points(2, "the setting")
def test_setting(work: Submission) -> None:
    """Without TURN_WORK, and with values that are wrong."""
    usual = rounds(work, None, 1, 20, 500)
    work.expect(usual <= 5, came=f"{usual} rounds without the setting", expected="5 rounds at most, as before")
    for wrong in ("1023", "1073741825", "x", "-1", "64k"):
        ran = run_program(16, "server", env={"PORT": "0", "TURN_WORK": wrong}, seconds=2)
        work.expect(
            ran.status == 1 and "TURN_WORK" in ran.stderr,
            came=f"TURN_WORK={wrong}: status {ran.status}, {ran.stderr[:80]!r}",
            expected="status 1, and one line that names TURN_WORK",
        )  # fmt: skip


@points(2, "one owner")
def test_owner(work: Submission) -> None:
    """No file can reach the setting but through a function."""
    shared = shared_state(objects(work))
    work.expect(
        not shared, came=f"every file can reach {', '.join(shared)}", expected="state that only its own file can reach",
        cause="a variable without `static` can be declared and changed anywhere",
    )  # fmt: skip
