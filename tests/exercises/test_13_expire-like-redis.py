"""13-expire-like-redis: keys expire by samples, ten times a second, and clients see no difference."""
from __future__ import annotations

import random
from typing import Dict, List

from fake_clock import Clock
from grading import Counted, Submission, points
from harness import Conn, Err

NONE = 2**40  # ms: far away


def fill(conn: Conn, names: List[str], ms: int) -> None:
    conn.pipeline([("set", name, "v") for name in names], [None] * len(names))
    conn.pipeline([("pexpire", name, str(ms)) for name in names], [1] * len(names))


def gone(counted: Counted) -> int:
    """How many pieces of memory there are less: what the allocator is tidied with each round comes and goes."""
    now = counted.now()
    return now["free"] - now["malloc"]


@points(3, "what clients see")
def test_what_clients_see(work: Submission) -> None:
    """Keys at their deadline, and one millisecond later, met by every command; deadlines that are moved and taken
    away."""
    commands: Dict[str, tuple] = {
        "get": (("get", "k"), None), "del": (("del", "k"), 0), "pttl": (("pttl", "k"), -2),
        "persist": (("persist", "k"), 0),
        "expire": (("expire", "k", "9"), 0), "zscore": (("zscore", "k", "n"), None), "set": (("set", "k", "w"), None),
        "zadd": (("zadd", "k", "1", "n"), 1), "keys": (("keys",), []),
    }  # fmt: skip
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        for name, (command, reply) in commands.items():
            for ms in (1, 99, 100, 250):
                fill(conn, ["k"], ms)
                clock.step(ms)
                conn.ask("get", "k", expect=b"v")
                conn.ask("pttl", "k", expect=0)
                clock.step(1)
                conn.ask(*command, expect=reply)
                conn.ask("pttl", "k", expect=-1 if name in ("set", "zadd") else -2)
                conn.ask("del", "k")
        names = [f"k{i}" for i in range(60)]
        fill(conn, names, 500)
        conn.pipeline([("persist", name) for name in names[0::4]], [1] * 15)
        conn.pipeline([("pexpire", name, "5000") for name in names[1::4]], [1] * 15)
        conn.pipeline([("set", name, "a longer value than it was") for name in names[2::4]], [None] * 15)
        clock.step(501)
        conn.pipeline([("pttl", name) for name in names], [-1, 4499, -1, -2] * 15)
        clock.step(10_000)
        conn.pipeline([("pttl", name) for name in names], [-1, -2, -1, -2] * 15)
        conn.pipeline([("get", name) for name in names[2::4]], [b"a longer value than it was"] * 15)
        conn.pipeline([("del", name) for name in names], [1, 0, 1, 0] * 15)
        conn.ask("pexpire", "none", "5", expect=0)
        conn.ask("pexpire", "none", "x", expect=Err(4))
    work.chapter_tests(
        "zero_or_less_deletes or far_deadlines or deadlines_that_do_not_fit or others_keep_the_ttl or"
        " a_new_key_has_no_ttl"
    )


@points(2, "ten rounds a second")
def test_rounds(work: Submission) -> None:
    """How long does the server mean to wait, without keys that expire, with one, and when that one has gone again?"""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        for words in (("persist", "k"), ("del", "k"), ("set", "k", "w")):
            work.expect(
                clock.wait == -1, came=f"without a key that expires the server means to wait {clock.wait} ms",
                expected="for ever",
            )  # fmt: skip
            conn.ask("set", "k", "v", expect=None)
            conn.ask("pexpire", "k", str(NONE), expect=1)
            work.expect(
                0 <= clock.wait <= 101,
                came=f"with a key that expires in {NONE} ms the server means to wait {clock.wait} ms",
                expected="100 ms at most: a round is every 100 ms",
                cause="the loop does not know deadlines any more",
            )
            clock.step(200)
            before = clock.rounds
            for _ in range(300):
                clock.step(10)
            polls = clock.rounds - before
            work.expect(
                27 <= polls <= 33,
                came=f"in 3000 ms without any client poll() was called {polls} times",
                expected="30 times, once for each round",
                cause="when is the next round, after one that was a little late?",
            )
            conn.ask(*words)
        work.expect(
            clock.wait == -1, came=f"after the last deadline was taken away the server means to wait {clock.wait} ms",
            expected="for ever",
        )  # fmt: skip


@points(3, "keys that nobody asks for")
def test_nobody_asks(work: Submission) -> None:
    """A thousand keys are due, alone and among two hundred that are not; others beside them have lost their deadlines.
    How many are freed after a while?"""
    rng = random.Random(13)
    for others in (0, 200):
        with Clock(work) as clock, work.count("malloc", "free") as freed, clock.server(
            IDLE_TIMEOUT_MS=0
        ) as server, server.connect() as conn:
            fill(conn, [f"stay{i}" for i in range(others)], NONE)
            conn.ask("set", "plain", "v", expect=None)
            mixed = [f"go{i}" for i in range(1000)] + [f"other{i}" for i in range(400)]
            rng.shuffle(mixed)
            fill(conn, mixed, 500)
            conn.pipeline(
                [(rng.choice(["persist", "del"]), f"other{i}") for i in rng.sample(range(400), 400)], [1] * 400
            )
            conn.pipeline([("del", f"other{i}") for i in range(400)])
            clock.step(500)
            before = gone(freed)
            for _ in range(40 + 200 * (others > 0)):
                clock.step(100)
            clock.step(1)
            came = gone(freed) - before
            work.expect(
                900 <= came <= 1020 if others else 1000 <= came <= 1020,
                tried=f"1000 keys are due, and {others} others have a time to live that is far away",
                came=f"after {40 + 200 * (others > 0)} rounds some {came} of them were freed",
                expected="nearly all of the 1000" if others else "all 1000, where there are no others",
                cause=(
                    "is every sample taken from all keys with a time to live? Is one that is due freed with its entry?"
                ),
            )
            if not others:
                work.expect(
                    clock.wait == -1, came=f"when all have gone the server means to wait {clock.wait} ms",
                    expected="for ever",
                )  # fmt: skip
                conn.ask("keys", expect=[b"plain"])
            conn.pipeline([("pttl", f"go{i}") for i in range(0, 1000, 50)], [-2] * 20)
            conn.pipeline([("get", f"stay{i}") for i in range(others)], [b"v"] * others)


@points(2, "the work of a round")
def test_work_of_a_round(work: Submission) -> None:
    """Three thousand keys are due at the same time. How many are freed in each round? And where one of 20 is due?"""
    with Clock(work) as clock, work.count("malloc", "free") as freed, clock.server(
        IDLE_TIMEOUT_MS=0
    ) as server, server.connect() as conn:
        fill(conn, [f"k{i}" for i in range(3000)], 1000)
        clock.step(1000)
        for i in range(8):
            before = gone(freed)
            clock.step(100)
            came = gone(freed) - before
            work.expect(
                came <= 325,
                came=f"{came} keys were freed in one round",
                expected="320 at most: 16 samples of 20",
                cause="is there a bound, so that clients have their turn?",
            )
            work.expect(
                i == 0 or came >= 315, came=f"{came} keys were freed in one round, while all that there are were due",
                expected="320: where 5 of 20 were due, the next sample follows at once",
            )  # fmt: skip
    with Clock(work) as clock, work.count("malloc", "free") as freed, clock.server(
        IDLE_TIMEOUT_MS=0
    ) as server, server.connect() as conn:
        fill(conn, [f"stay{i}" for i in range(1900)], NONE)
        fill(conn, [f"go{i}" for i in range(20)], 100)
        clock.step(100)
        before = gone(freed)
        for _ in range(10):
            clock.step(100)
        came = gone(freed) - before
        work.expect(
            came <= 16,
            came=f"in ten rounds {came} of 20 keys that were due were freed, among 1900 others",
            expected="a few: ten samples of 20 do not meet most of them",
            cause="does a round stop where fewer than 5 of 20 were due? Are they chosen at random?",
        )
