"""09-slow-reader: an attack that makes a server without a bound keep far more than it was sent, and no other server."""
from __future__ import annotations

from typing import NamedTuple

from grading import Submission, points
from harness import Server

MOST_SENT, LEAST_WEAK, MOST_STRONG = 2_000_000, 100, 50  # bytes, MB, MB


class Attacked(NamedTuple):
    """How much memory a server has used at most, in MB, and how many bytes it has read."""

    mb: int
    sent: int


def peak_mb(server: Server) -> int:
    """The most memory that it has had in RAM so far."""
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) >> 10


def attack(work: Submission, weak: bool) -> Attacked:
    """Runs attack.py against the weak server or the chapter's, which must serve others afterwards."""
    which = "the weak server" if weak else "the server of the chapter"
    files = {"server.c": work.starter("server.c")} if weak else {}
    build = work.stage(9, files=files)
    with work.count("read_bytes") as counted, build.server() as server:
        ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=10)
        last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
        work.expect(
            ran.status == 0, tried=f"attack.py against {which}",
            came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
            expected="exit status 0, against either server",
            cause="does it wait for more than the server sends, or for longer than it may?",
        )
        sent, mb = counted["read_bytes"], peak_mb(server)
        work.expect(
            server.alive(), tried=f"attack.py against {which}", came="the server is gone",
            expected="it is still there: memory is to grow, and no more",
        )  # fmt: skip
        with server.connect() as conn:
            conn.ask("set", "after the attack", "x", expect=None)
            conn.ask("get", "after the attack", expect=b"x")
        return Attacked(mb, sent)


def attack_weak(work: Submission) -> Attacked:
    """It must make the weak server large."""
    done = attack(work, weak=True)
    work.expect(
        done.mb > LEAST_WEAK, tried="attack.py against the weak server",
        came=f"the server used {done.mb} MB at most, for {done.sent} bytes that you sent",
        expected=f"more than {LEAST_WEAK} MB",
        cause="how large is a reply, how many wait at the same moment, and had the server answered when you left?",
    )
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
        expected=f"{MOST_SENT} bytes at most",
        cause="which part of it has to be sent only once?",
    )


@points(3, "the server of the chapter does not")
def test_strong(work: Submission) -> None:
    """attack.py against the weak server, and then against that of the chapter, which has the bound."""
    attack_weak(work)
    done = attack(work, weak=False)
    work.expect(
        done.mb <= MOST_STRONG, came=f"the server of the chapter used {done.mb} MB as well",
        expected=f"{MOST_STRONG} MB at most",
        cause="the bound holds for each connection: how many of them has the attack?",
    )
