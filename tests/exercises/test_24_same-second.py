"""24-same-second: an attack that has one slice of a cycle without a clock delete very many keys."""
from __future__ import annotations

from typing import Dict, NamedTuple

from grading import Submission, points
from harness import Server

MOST_SENT, LEAST_WEAK, MOST_STRONG = 1_000_000, 20_000, 15_000  # bytes, keys, keys

# The server of the chapter, with the counter that the weak one has.
COUNTS = r"""
@@ src/cycle.c, cycle
     size_t slices_cut_short; // that had more to do
+    size_t most_keys_a_slice;

@@ src/cycle.c, after slices_cut_short()
+size_t most_keys_a_slice(void) {
+    return cycle.most_keys_a_slice;
+}

@@ src/cycle.c, run_cycle()
     cycle.slices_cut_short += !in_time;
+    if (all.stale > cycle.most_keys_a_slice) {
+        cycle.most_keys_a_slice = all.stale;
+    }

@@ src/server.h
 size_t slices_cut_short(void);
+size_t most_keys_a_slice(void);

@@ src/info.c, info_stats()
     struct lookups lookups = get_lookups();
+    add_text(text, "most_keys_a_slice:%zu\r\n", most_keys_a_slice());
"""


class Attacked(NamedTuple):
    """The most keys that a slice has deleted, and how many bytes the server has read."""

    keys: int
    sent: int


def stats(server: Server) -> Dict[str, str]:
    with server.connect() as conn:
        text = bytes(conn.ask("info")).decode()  # type: ignore[arg-type]
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def attack(work: Submission, weak: bool) -> Attacked:
    """Runs attack.py against the weak server or the chapter's."""
    which = "the weak server" if weak else "the server of the chapter"
    starter = {name: text for name, text in work.exercise.starter().items() if name.startswith("src/")}
    build = work.stage(24, files=starter) if weak else work.stage(24, COUNTS)
    with work.count("read_bytes") as counted, build.server(env={"IDLE_TIMEOUT_MS": "0"}) as server:
        ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=10)
        last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
        work.expect(
            ran.status == 0, tried=f"attack.py against {which}",
            came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
            expected="exit status 0, against either server",
            cause="does it wait for something that does not come, or for too long?",
        )
        sent, found = counted["read_bytes"], stats(server)
        left = {name: value for name, value in found.items() if name.startswith("db")}
        work.expect(
            not left, tried=f"attack.py against {which}", came=f"it has ended, and keys are still there: {left}",
            expected="they have expired, and the cycle has deleted them", cause="how do you know that they are gone?",
        )  # fmt: skip
        return Attacked(int(found["most_keys_a_slice"]), sent)


_weak: Dict[str, Attacked] = {}  # by what attack.py says: once for all tests


def attack_weak(work: Submission) -> Attacked:
    """It must keep the weak server busy."""
    text = work.source("attack.py")
    if text not in _weak:
        _weak[text] = attack(work, weak=True)
    done = _weak[text]
    work.expect(
        done.keys >= LEAST_WEAK, tried="attack.py against the weak server",
        came=f"one slice deleted {done.keys} keys at most, for {done.sent} bytes that you sent",
        expected=f"{LEAST_WEAK} or more",
        cause="how many keys are stale when a slice begins: do they expire together, or one after the other?",
    )  # fmt: skip
    return done


@points(4, "a slice without an end")
def test_slice(work: Submission) -> None:
    """attack.py against the weak server. How many keys did one slice delete at most?"""
    attack_weak(work)


@points(2, "at a small price")
def test_cost(work: Submission) -> None:
    """attack.py against the weak server. How many bytes did the server read for it?"""
    done = attack_weak(work)
    work.expect(
        done.sent <= MOST_SENT, came=f"{done.keys} keys in one slice, for which you sent {done.sent} bytes",
        expected=f"{MOST_SENT} bytes at most", cause="what in a request could be shorter?",
    )  # fmt: skip


@points(3, "the server of the chapter")
def test_strong(work: Submission) -> None:
    """attack.py against the weak server, and then against that of the chapter, whose slices end."""
    attack_weak(work)
    done = attack(work, weak=False)
    work.expect(
        done.keys <= MOST_STRONG, came=f"a slice of the server of the chapter deleted {done.keys} keys as well",
        expected=f"{MOST_STRONG} at most", cause="a slice ends after a millisecond: what took so little time?",
    )  # fmt: skip
