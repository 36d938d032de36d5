"""16-hold-up: an attack that has a round without turns write far more than it was sent, and no round with turns."""
from __future__ import annotations

from typing import Dict, NamedTuple

from grading import Submission, points

MOST_SENT, MOST_CONNECTIONS = 1_000_000, 32
LEAST_WEAK, MOST_STRONG = 12_000_000, 5_000_000  # bytes in one round


class Attacked(NamedTuple):
    """The most bytes that one round has written into replies, how many the server has read, and its connections."""

    most: int
    sent: int
    connections: int


def attack(work: Submission, chapter: int) -> Attacked:
    """Runs attack.py against the server of a chapter, which must serve others afterwards."""
    tried = f"attack.py against the server of {chapter}"
    count_rounds = work.exercise.path("starter").read_text(encoding="utf-8")
    build = work.stage(chapter, count_rounds)
    with work.count("read_bytes") as counted, build.server(env={"IDLE_TIMEOUT_MS": "0"}) as server:
        ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=10)
        last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
        work.expect(
            ran.status == 0, tried=tried,
            came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
            expected="exit status 0, against either server",
            cause="does it wait for something that does not come, or for too long?",
        )  # fmt: skip
        sent = counted["read_bytes"]
        work.expect(server.alive(), tried=tried, came="the server is gone", expected="it is still there")
        with server.connect() as conn:
            most, connections = conn.ask("rounds")  # type: ignore[misc]
        return Attacked(most, sent, connections - 1)


_weak: Dict[str, Attacked] = {}  # by what attack.py says: once for all tests


def attack_weak(work: Submission) -> Attacked:
    """It must hold up the server of 15."""
    text = work.source("attack.py")
    if text not in _weak:
        _weak[text] = attack(work, 15)
    done = _weak[text]
    work.expect(
        done.most >= LEAST_WEAK, tried="attack.py against the server of 15",
        came=f"it wrote {done.most} bytes into replies in one round at most, for {done.sent} that you sent",
        expected=f"{LEAST_WEAK} or more",
        cause="how long is one reply, and how many connections wait for one when a round begins?",
    )  # fmt: skip
    return done


@points(5, "a long round")
def test_round(work: Submission) -> None:
    """attack.py against the server of 15. How many bytes did one round write into replies?"""
    attack_weak(work)


@points(2, "at a small price")
def test_price(work: Submission) -> None:
    """attack.py against the server of 15. How many bytes did the server read for it, and on how many connections?"""
    done = attack_weak(work)
    work.expect(
        done.sent <= MOST_SENT, came=f"{done.most} bytes in one round, for which you sent {done.sent}",
        expected=f"{MOST_SENT} bytes at most", cause="how often do you pay for a long value?",
    )  # fmt: skip
    work.expect(
        done.connections <= MOST_CONNECTIONS, came=f"{done.most} bytes in one round, on {done.connections} connections",
        expected=f"{MOST_CONNECTIONS} connections at most, over the whole attack",
    )  # fmt: skip


@points(3, "the server of 16")
def test_strong(work: Submission) -> None:
    """attack.py against the server of 15, and then against that of 16, where connections have turns."""
    attack_weak(work)
    done = attack(work, 16)
    work.expect(
        done.most <= MOST_STRONG, came=f"a round of 16 wrote {done.most} bytes into replies as well",
        expected=f"{MOST_STRONG} at most", cause="each connection has a turn in a round: how many do you have?",
    )  # fmt: skip
