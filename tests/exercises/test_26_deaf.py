"""26-deaf: an attack that makes a server whose inboxes have no limit keep far more than it was sent, and no other."""
from __future__ import annotations

from typing import Dict, NamedTuple

from grading import Submission, points

MOST_SENT, LEAST_WEAK, MOST_STRONG = 2_000_000, 100, 50  # bytes, MB, MB


class Attacked(NamedTuple):
    """How much memory a server has used at most, in MB, and how many bytes it has read."""

    mb: int
    sent: int


def attack(work: Submission, weak: bool) -> Attacked:
    """Runs attack.py against the weak server or the chapter's, which must serve others afterwards."""
    which = "the weak server" if weak else "the server of the chapter"
    starter = {name: text for name, text in work.exercise.starter().items() if name.startswith("src/")}
    build = work.stage(26, files=starter if weak else {})
    with work.count("read_bytes") as counted, build.server(env={"IDLE_TIMEOUT_MS": "0"}) as server:
        ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=10)
        last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
        work.expect(
            ran.status == 0, tried=f"attack.py against {which}",
            came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
            expected="exit status 0, against either server",
            cause="does it count on what only one of the two does?",
        )  # fmt: skip
        work.expect(
            server.alive(), tried=f"attack.py against {which}", came="the server is gone",
            expected="it is still there: memory is to grow, and no more",
        )  # fmt: skip
        sent, mb = counted["read_bytes"], server.peak_kb() >> 10
        with server.connect() as conn:
            conn.ask("set", "after the attack", "x")
            conn.ask("get", "after the attack", expect=b"x")
        return Attacked(mb, sent)


_weak: Dict[str, Attacked] = {}  # by what attack.py says: once for all tests


def attack_weak(work: Submission) -> Attacked:
    """It must make the weak server large."""
    text = work.source("attack.py")
    if text not in _weak:
        _weak[text] = attack(work, weak=True)
    done = _weak[text]
    work.expect(
        done.mb > LEAST_WEAK, tried="attack.py against the weak server",
        came=f"the server used {done.mb} MB at most, for {done.sent} bytes that you sent",
        expected=f"more than {LEAST_WEAK} MB",
        cause="how many deliveries wait in one inbox, and had the server put them there when you left?",
    )  # fmt: skip
    return done


@points(4, "the weak server swells")
def test_memory(work: Submission) -> None:
    """attack.py against the weak server. How much memory did the server use at most?"""
    attack_weak(work)


@points(2, "at a small price")
def test_cost(work: Submission) -> None:
    """attack.py against the weak server. How many bytes did the server read for it?"""
    done = attack_weak(work)
    work.expect(
        done.sent <= MOST_SENT, came=f"{done.mb} MB of memory, for which you sent {done.sent} bytes",
        expected=f"{MOST_SENT} bytes at most", cause="how many deliveries does one publication make?",
    )  # fmt: skip


@points(3, "the server of the chapter does not")
def test_strong(work: Submission) -> None:
    """attack.py against the weak server, and then against that of the chapter, whose inboxes have a limit."""
    attack_weak(work)
    done = attack(work, weak=False)
    work.expect(
        done.mb <= MOST_STRONG, came=f"the server of the chapter used {done.mb} MB as well",
        expected=f"{MOST_STRONG} MB at most",
        cause="the limit holds for each inbox: how many of them does the attack fill? And who has set it?",
    )  # fmt: skip
