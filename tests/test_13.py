"""Chapter 13: the heap and TTL. expire, pexpire, ttl, pttl, persist; a key past its time is gone for every command."""
from __future__ import annotations

import random
import re
import time
from contextlib import ExitStack
from typing import List, Sequence, Tuple

import pytest

from cases import Case, case, earlier, new
from cases.idle import Pace, closes, in_time, now_ms, timed
from cases.labs import lab_passes
from cases.talk import Counts, Hammer, Hold, answered, asked, bulk, numbered, paused, say, start, uses_no_cpu, watched
from cases.ttl import FAR, GONE, about, until
from harness import (
    ANY, AnyOrder, Between, Err, Model, OneOf, check_session, fail, limit, run_program, seed, wait_until, wire,
)  # fmt: skip
from harness.codec import codec
from harness.model import BAD_INTS, INT64_MAX, INT64_MIN
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import Arg

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 13. The rules are in book/protocol.md.
SESSIONS = ["13-demo", "13-ttl", "13-expire", "13-persist", "13-gone", "13-sets", "13-errors", "13-replaced", "13-many"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(13))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 13)


def about_s(ms: int) -> Between:
    """What `ttl` may answer, in seconds."""
    return Between((ms - int(limit(20_000)) + 500) // 1000, (ms + 500) // 1000)


# A case, @case(since=13), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# ---- the commands ----


@case(since=13)
def a_key_without_and_with_a_ttl(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        for command in (["ttl", "k"], ["pttl", "k"]):
            conn.ask(*command, expect=-2)
        for command in (["expire", "k", "100"], ["pexpire", "k", "100"], ["persist", "k"]):
            conn.ask(*command, expect=0)
        for words in (["set", "k", "v"], ["zadd", "z", "1", "n"]):
            key = words[1]
            conn.ask(*words)
            conn.ask("ttl", key, expect=-1)
            conn.ask("pttl", key, expect=-1)
            conn.ask("persist", key, expect=0)
            conn.ask("expire", key, "1000", expect=1)
            conn.ask("ttl", key, expect=about_s(1_000_000))
            conn.ask("pttl", key, expect=about(1_000_000))
            conn.ask("pexpire", key, "2000000", expect=1)
            conn.ask("ttl", key, expect=about_s(2_000_000))
            conn.ask("pttl", key, expect=about(2_000_000))
            conn.ask("persist", key, expect=1)
            conn.ask("persist", key, expect=0)
            conn.ask("ttl", key, expect=-1)
            conn.ask("pttl", key, expect=-1)
        conn.ask("get", "k", expect=b"v")
        conn.ask("zscore", "z", "n", expect=1.0)


@case(since=13)
def zero_or_less_deletes(chapter: int) -> None:
    amounts = [
        "0", "-1", "-1000", str(-(2**31)), str(-(2**32)), str(-(10**15)), str(INT64_MIN), str(INT64_MIN // 1000)
    ]
    with start(chapter) as server, server.connect() as conn:
        for amount in amounts:
            for command, least in (("expire", -(INT64_MAX // 1000)), ("pexpire", INT64_MIN)):
                if codec(chapter).is_resp and int(amount) < least:
                    conn.ask(command, "k", amount, expect=Err(wire.ERR_ARG))
                    continue
                conn.ask(command, "k", amount, expect=0)
                for words in (["set", "k", "v"], ["zadd", "k", "1", "n"]):
                    for before in (None, "100"):
                        conn.ask(*words)
                        if before:
                            conn.ask("expire", "k", before, expect=1)
                        conn.ask(command, "k", amount, expect=1)
                        conn.ask("pttl", "k", expect=-2)
                        conn.ask("get", "k", expect=None)
                        conn.ask("keys", expect=[])
                        conn.ask("del", "k", expect=0)


@case(since=13)
def far_deadlines(chapter: int) -> None:
    """Numbers that do not fit 32 bits, as milliseconds, and as seconds before or after they are multiplied."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        for n in (2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 10**12, 10**15, 2**53 + 1):
            if n * 1000 < INT64_MAX - 10**15:
                conn.ask("expire", "k", str(n), expect=1)
                conn.ask("ttl", "k", expect=about_s(n * 1000))
                conn.ask("pttl", "k", expect=about(n * 1000))
            conn.ask("pexpire", "k", str(n), expect=1)
            conn.ask("ttl", "k", expect=about_s(n))
            conn.ask("pttl", "k", expect=about(n))
            conn.ask("get", "k", expect=b"v")
        for n in (2**32 // 1000, 2**32 // 1000 + 1, 2**31 // 1000 + 1, 2**63 // 1000 - 10**12):
            conn.ask("expire", "k", str(n), expect=1)
            conn.ask("pttl", "k", expect=about(n * 1000))
        conn.ask("pexpire", "k", str(INT64_MAX - 10**15), expect=1)
        conn.ask("pttl", "k", expect=about(INT64_MAX - 10**15))


@case(since=13)
def deadlines_that_do_not_fit(chapter: int) -> None:
    """An error, and nothing has changed: not the key, not its TTL, and no other one."""
    too_large = [("pexpire", INT64_MAX), ("expire", INT64_MAX), ("expire", INT64_MAX // 1000 + 1)]
    too_large += [("expire", 2**64 // 1000 + 100), ("expire", 2**62), ("expire", 10**16)]
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        conn.ask("set", "plain", "v")
        conn.ask("zadd", "z", "1", "n")
        for ttl, others in ((FAR, "k"), (-1, "plain"), (FAR, "z")):
            if ttl > 0:
                conn.ask("pexpire", others, str(ttl), expect=1)
            expect = about(ttl) if ttl > 0 else ttl
            for command, amount in too_large:
                conn.ask(command, others, str(amount), expect=Err(wire.ERR_ARG))
                conn.ask("pttl", others, expect=expect)
        conn.ask("get", "k", expect=b"v")
        conn.ask("zscore", "z", "n", expect=1.0)
        conn.ask("keys", expect=AnyOrder([b"k", b"plain", b"z"]))


@case(since=13)
def amounts_that_are_no_integers(chapter: int) -> None:
    """An error whether or not there is such a key; nothing has changed."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        conn.ask("pexpire", "k", str(FAR), expect=1)
        for amount in BAD_INTS + [b"-9223372036854775809", b"inf", b"1e3", b"\xb2", b"0x"]:
            for command in ("expire", "pexpire"):
                for key in ("k", "none"):
                    conn.ask(command, key, amount, expect=Err(wire.ERR_ARG))
        conn.ask("pttl", "k", expect=about(FAR))
        conn.ask("get", "k", expect=b"v")


@case(since=13)
def ttl_is_rounded_to_the_nearest_second(chapter: int) -> None:
    """`ttl` stands between two `pttl`, so it is known what it had to round."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        for n in (100_400, 100_499, 100_500, 100_501, 100_600, 1_000_999, 1_001_000, 1_001_001, 10_000, 999_999_501):
            conn.ask("pexpire", "k", str(n), expect=1)
            before, ttl, after = conn.pipeline([["pttl", "k"], ["ttl", "k"], ["pttl", "k"]])
            assert isinstance(before, int) and isinstance(after, int) and isinstance(ttl, int)
            if not (after + 499) // 1000 <= ttl <= (before + 500) // 1000:
                fail(
                    f"`pttl` says {before}, `ttl` {ttl}, `pttl` {after}",
                    "`ttl` rounds to the nearest second: (milliseconds + 500) / 1000, of what is left at the moment",
                    f"a `ttl` from {(after + 499) // 1000} to {(before + 500) // 1000}",
                )


@case(since=13)
def the_last_second(chapter: int) -> None:
    """A key that is there never has a TTL below 0, and what is left of 300 ms rounds to 0, never to -1 or -2."""
    with start(chapter) as server, server.connect() as conn:
        for ms in (300, 60):
            conn.ask("set", "k", "v")
            began = now_ms()
            conn.ask("pexpire", "k", str(ms), expect=1)
            rounds = 0
            while True:
                value, ttl, pttl, after = conn.pipeline([["get", "k"], ["ttl", "k"], ["pttl", "k"], ["get", "k"]])
                if value is None:
                    break
                rounds += 1
                gone = after is None
                whole = isinstance(pttl, int) and (0 <= pttl <= ms or gone and pttl == -2)
                if not whole or not (ttl == 0 or gone and ttl == -2):
                    fail(
                        f"{ms} ms before its deadline at most, a key is there, and `ttl` says {ttl}, `pttl` {pttl}",
                        "what is left is never negative: a key whose deadline has passed is not there. -1 is for a key "
                        "without a deadline, -2 for no key.",
                        f"a `ttl` of 0, a `pttl` from 0 to {ms}",
                    )
            if rounds == 0 and now_ms() <= began + ms / 2:
                fail(
                    f"`pexpire k {ms}` was answered, and the key is gone at once",
                    "`pexpire` counts milliseconds, from now: is the deadline now + ms, on one and the same clock?",
                    f"it is there for {ms} ms",
                )
            conn.ask("pttl", "k", expect=-2)


# ---- what other commands do to a TTL ----


@case(since=13)
def set_takes_the_ttl_away(chapter: int) -> None:
    """With a value of any length, also in place of a sorted set; the key outlives the deadline it had."""
    with start(chapter) as server, server.connect() as conn:
        began = now_ms()
        for i, value in enumerate(["v", "w", "", "longer" * 100, "v" * 5000]):
            conn.ask("set", f"k{i}", "v")
            conn.ask("pexpire", f"k{i}", "60", expect=1)
            conn.ask("set", f"k{i}", value, expect=None)
            conn.ask("zadd", f"z{i}", "1", "n")
            conn.ask("pexpire", f"z{i}", "60", expect=1)
            conn.ask("set", f"z{i}", value, expect=None)
        if now_ms() > began + 55:
            return  # too slow: some were gone before the `set`
        for i in range(5):
            conn.ask("pttl", f"k{i}", expect=-1)
            conn.ask("pttl", f"z{i}", expect=-1)
        until(began + 120)
        conn.ask("get", "k2", expect=b"")
        conn.ask("get", "z4", expect=b"v" * 5000)
        conn.ask("keys", expect=AnyOrder([b"%c%d" % (c, i) for c in b"kz" for i in range(5)]))
        conn.ask("persist", "k0", expect=0)


@case(since=13)
def others_keep_the_ttl(chapter: int) -> None:
    """`zadd`, `zrem` of one name of several, whatever only looks, and whatever fails."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        conn.ask("zadd", "z", "1", "a")
        conn.ask("pexpire", "k", str(FAR), expect=1)
        conn.ask("pexpire", "z", str(FAR), expect=1)
        for words, expect in (
            (["zadd", "z", "2", "a"], 0), (["zadd", "z", "2", "b"], 1), (["zadd", "z", "x", "b"], Err(4)),
            (["zrem", "z", "a"], 1), (["zrem", "z", "none"], 0), (["zscore", "z", "b"], 2.0),
            (["zquery", "z", "0", "", "0", "9"], [b"b", 2.0]), (["get", "z"], Err(3)), (["get", "k"], b"v"),
            (["zadd", "k", "1", "n"], Err(3)), (["zrem", "k", "n"], Err(3)), (["set", "k"], Err(4)),
            (["del", "other"], 0), (["expire", "k", "x"], Err(4)), (["keys"], AnyOrder([b"k", b"z"])),
        ):  # fmt: skip
            conn.ask(*words, expect=expect)
            conn.ask("pttl", "k", expect=about(FAR))
            conn.ask("pttl", "z", expect=about(FAR))


@case(since=13)
def a_new_key_has_no_ttl(chapter: int) -> None:
    """One that comes back after `del`, `zrem` of the last name, `expire 0` or its deadline."""
    with start(chapter) as server, server.connect() as conn:
        for ends in (["del", "k"], ["zrem", "k", "n"], ["expire", "k", "0"], ["pexpire", "k", "1"]):
            for words in (["set", "k", "v"], ["zadd", "k", "1", "n"]):
                conn.ask("zadd", "k", "1", "n", expect=1)
                conn.ask("pexpire", "k", "1000000", expect=1)
                conn.ask(*ends, expect=1)
                until(now_ms() + 1 + GONE)
                conn.ask(*words)
                conn.ask("pttl", "k", expect=-1)
                conn.ask("persist", "k", expect=0)
                conn.ask("del", "k", expect=1)


@case(since=13)
def the_last_expire_counts(chapter: int) -> None:
    """Longer, shorter, the same, through either command; and `persist` takes the last one away."""
    with start(chapter) as server, server.connect() as conn:
        began = now_ms()
        for key in ("longer", "shorter", "persisted", "again"):
            conn.ask("set", key, "v")
        conn.ask("pexpire", "longer", "40", expect=1)
        conn.ask("expire", "longer", "1000", expect=1)
        conn.ask("expire", "shorter", "1000", expect=1)
        conn.ask("pexpire", "shorter", "40", expect=1)
        conn.ask("pexpire", "persisted", "40", expect=1)
        conn.ask("persist", "persisted", expect=1)
        for ms in ("500000", "40", "50", "40"):
            conn.ask("pexpire", "again", ms, expect=1)
        late = now_ms()
        until(late + 50 + GONE)
        if late > began + 35:
            return  # too slow: some were gone before the next command
        for key, value in (("longer", b"v"), ("shorter", None), ("persisted", b"v"), ("again", None)):
            conn.ask("get", key, expect=value)
        conn.ask("pttl", "longer", expect=about(1_000_000))
        conn.ask("pttl", "persisted", expect=-1)


# ---- at the deadline ----


@case(since=13)
def not_a_millisecond_early(chapter: int) -> None:
    """Asked again and again, the key is seen until its deadline and not after it."""
    with start(chapter) as server, server.connect() as conn:
        for ms in (1, 2, 5, 30, 50):
            sent = now_ms()
            conn.pipeline([["set", "k", "v"], ["pexpire", "k", str(ms)]], [None, 1])
            done = now_ms()
            while True:
                asked = now_ms()
                value = conn.ask("get", "k")
                answered = now_ms()
                if value is None:
                    break
                if asked > done + ms + GONE:
                    fail(
                        f"a key with a TTL of {ms} ms was seen {asked - done:.1f} ms after the reply to `pexpire`",
                        "compare the deadline with the clock whenever a key is looked up: a timer alone is always late",
                        f"(nil) from {ms + GONE} ms on",
                    )
            if answered < sent + ms:
                fail(
                    f"a key with a TTL of {ms} ms was gone {answered - sent:.1f} ms after `pexpire` was sent",
                    "`pexpire` counts milliseconds from the moment of the request. Clocks are rounded down: the time "
                    "is "
                    "over when now > deadline.",
                    f"it is there for {ms} ms",
                )


def _gone_for(command: Sequence[str]) -> Tuple[List[object], List[object]]:
    """What a command answers on an expired key, then `get`, `pttl`, `zscore` and `zquery`."""
    none = [None, -2, None, []]
    return {
        "get": ([None], none), "del": ([0], none), "ttl": ([-2], none), "pttl": ([-2], none),
        "persist": ([0], none), "expire": ([0], none), "pexpire": ([0], none),
        "zscore": ([None], none), "zrem": ([0], none), "zquery": ([[]], none),
        "set": ([None], [b"new", -1, Err(3), Err(3)]),
        "zadd": ([1], [Err(3), -1, 5.0, [b"new", 5.0]]),
    }[command[0]]  # fmt: skip


EXPIRED = [
    ["get"], ["del"], ["ttl"], ["pttl"], ["persist"], ["expire", "100"], ["expire", "0"], ["pexpire", "100"],
    ["pexpire", "-1"], ["zscore", "n"], ["zrem", "n"], ["zquery", "-inf", "", "0", "10"], ["set", "new"],
    ["zadd", "5", "new"],
]  # fmt: skip


@case(since=13)
def an_expired_key_is_gone_for_every_command(chapter: int) -> None:
    """Strings and sorted sets, each command as the first that comes upon the key. The server is stopped
    while the time passes, and a thousand other keys are due first: the timer has not got to these yet."""
    with start(chapter) as server, server.connect() as conn:
        for kind in ("string", "set"):
            for first in ("keys", "others"):
                requests: List[List[str]] = []
                expect: List[object] = []
                keys = [f"{kind}{i}" for i in range(len(EXPIRED))]
                for key in keys:
                    words = ["set", key, "old"] if kind == "string" else ["zadd", key, "1", "n"]
                    requests += [words, ["pexpire", key, "30"]]
                conn.ask("set", "other", "v", expect=None)
                bulk(conn, numbered(range(1000), "set", "before:######", ""), None)
                bulk(conn, numbered(range(1000), "pexpire", "before:######", "28"), 1)
                conn.pipeline(requests)
                deadline = now_ms() + 30
                requests = []
                if first == "keys":
                    requests, expect = [["keys"]], [AnyOrder([b"other"])]
                for key, command in zip(keys, EXPIRED):
                    replies, after = _gone_for(command)
                    requests += [[command[0], key, *command[1:]], ["get", key], ["pttl", key]]
                    requests += [["zscore", key, "new"], ["zquery", key, "-inf", "", "0", "10"]]
                    expect += replies + after
                left = [keys[i].encode() for i, command in enumerate(EXPIRED) if command[0] in ("set", "zadd")]
                requests.append(["keys"])
                expect.append(AnyOrder([b"other", *left]))
                with paused(server):
                    conn.send(b"".join(asked(chapter, *words) for words in requests))
                    until(deadline + GONE)
                for reply in expect:
                    conn.recv(reply)
                for key in left:
                    conn.ask("del", key, expect=1)


@case(since=13)
def another_connection_sees_it_go(chapter: int) -> None:
    with start(chapter) as server, server.connect() as one, server.connect() as other:
        one.ask("set", "k", "v")
        other.ask("pexpire", "k", "20", expect=1)
        gone = now_ms() + 20 + GONE
        one.ask("pttl", "k", expect=OneOf(Between(0, 20), -2))
        until(gone)
        one.ask("get", "k", expect=None)
        other.ask("pttl", "k", expect=-2)


# ---- the timer ----


@case(since=13, but=(22, 23), inside=True)  # there is no heap any more, and no cycle yet
def keys_expire_by_themselves(chapter: int) -> None:
    """Without any request: the memory of their values comes back. Until then the loop sleeps."""
    n, size = 48, 1 << 20
    env = {"MALLOC_MMAP_THRESHOLD_": "262144"}  # glibc gives what is larger back to the system at once
    with timed(chapter, 60_000, env=env) as server, server.connect() as idle:
        say(idle)
        before = server.rss_kb()
        with server.connect() as conn:
            for i in range(n):
                conn.ask("set", f"k{i}", bytes([i]) * size, expect=None)
            for i in range(n):
                conn.ask("pexpire", f"k{i}", str(700 + i % 7), expect=1)
            gone = now_ms() + 706 + GONE
        full = server.rss_kb()
        if full <= before + n * (size >> 10) * 3 // 4:
            fail(
                f"{n} values of 1 MiB were set, and the server's memory grew by {(full - before) >> 10} MiB",
                "are the values kept? They had 700 ms to live, and less than that has passed.",
                f"about {n} MiB more",
            )
        used = server.cpu_ms()
        time.sleep(0.3)
        if server.cpu_ms() - used > 100:
            fail(
                f"waiting for a deadline took {server.cpu_ms() - used} ms of processor time in 300 ms",
                "is the timeout of poll() 0, or very short? It is the time until the next deadline, rounded up.",
                "next to none: the loop sleeps until the first deadline",
            )
        if not watched():
            wait_until(lambda: server.rss_kb() < before + (full - before) // 4, "expired values are freed")
        until(gone)
        idle.ask("keys", expect=[b"saykey"])  # that of say()


@case(since=13, until=23, inside=True)  # from 24 on nothing is done at a deadline, and the cycle wakes up by itself
def deadlines_that_were_taken_away(chapter: int) -> None:
    """Moved, taken away, deleted: they wake nobody. The heap holds the live ones alone."""
    n, counts = 20, Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        for i in range(n):
            # Together, for no pause of ours may let a deadline pass before it is taken away.
            requests: List[List[Arg]] = []
            for kind in ("set", "longer", "del", "persisted", "later", "zero", "zset"):
                requests += [["set", f"{kind}{i}", "v"], ["pexpire", f"{kind}{i}", str(200 + 5 * i)]]
            expect: List[object] = [ANY, 1] * 7
            requests += [["set", f"set{i}", "w"], ["set", f"longer{i}", "w" * 100], ["del", f"del{i}"]]
            requests += [["persist", f"persisted{i}"], ["pexpire", f"later{i}", str(FAR)], ["expire", f"zero{i}", "0"]]
            requests += [["del", f"zset{i}"], ["zadd", f"zset{i}", "1", "n"]]
            conn.pipeline(requests, [*expect, ANY, ANY, 1, 1, 1, 1, 1, 1])
        counts.reset()
        until(now_ms() + 310)
        polls = counts.polls
        if polls > 4:
            fail(
                f"TTLs of 200 to 300 ms were taken away or moved, and yet poll() returned {polls} times",
                "`set`, `del`, `persist` and a new `pexpire` take the old deadline out of the heap, or change it "
                "there: what is left behind wakes the loop for nothing",
                "4 times at most, as no deadline is near any more",
            )
        left = [f"{kind}{i}".encode() for kind in ("set", "longer", "persisted", "later", "zset") for i in range(n)]
        conn.ask("keys", expect=AnyOrder(left))


@case(since=13)
def no_cpu_while_deadlines_are_far(chapter: int) -> None:
    """They do not fit the int that poll() takes."""
    for ms in (2**31, 2**32, 10**15):
        with start(chapter) as server, server.connect() as conn:
            conn.ask("set", "k", "v")
            conn.ask("pexpire", "k", str(ms), expect=1)
            uses_no_cpu(server, f"a TTL of {ms} ms")
            conn.ask("get", "k", expect=b"v")


@case(since=13, until=23, inside=True)
def sleeps_while_deadlines_are_far(chapter: int) -> None:
    """Not even a wake-up, where the lower half of the number happens to be small."""
    counts = Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        for ms in (FAR, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**33 + 5, 2**62, INT64_MAX - 10**15):
            conn.ask("pexpire", "k", str(ms), expect=1)
            counts.reset()
            until(now_ms() + 30)
            polls = counts.polls
            if polls > 1:
                fail(
                    f"a TTL of {ms} ms: poll() returned {polls} times within 30 ms",
                    "poll() takes an int: what is left must be compared in 64 bits and cut down to INT_MAX before it "
                    "is handed over",
                    "once at most: it sleeps",
                )
        conn.ask("get", "k", expect=b"v")


@case(since=13, ours="Redis has a timeout in seconds, which it looks at now and then")
def idle_timeouts_beside_deadlines(chapter: int) -> None:
    """Both kinds of timers go off at their time, whichever is nearer."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server:
            with server.connect() as conn:
                pace.begin()
                conn.pipeline([["set", "far", "v"], ["pexpire", "far", str(FAR)], ["set", "near", "v"]])
                pace.step()
                conn.ask("pexpire", "near", "20", expect=1)
                closes(conn, pace.last, ms)
            with server.connect() as conn:
                pace.begin()
                conn.pipeline([["keys"], ["pttl", "far"]], [[b"far"], about(FAR)])
                pace.step()

    in_time(attempt)


@case(since=13)
def deadlines_beside_a_flood(chapter: int) -> None:
    """The loop never waits, and what expires is gone all the same."""
    with start(chapter) as server, server.connect() as conn, Hammer(server):
        for _ in range(5):
            conn.ask("set", "k", "v")
            conn.ask("pexpire", "k", "10", expect=1)
            until(now_ms() + 10 + GONE)
            conn.ask("get", "k", expect=None)
            conn.ask("pttl", "k", expect=-2)


# ---- many ----


@case(since=13, ours="Redis has no limit for a reply")
def keys_does_not_count_the_expired(chapter: int) -> None:
    """Together with keys that have just expired, and are still in memory, the reply would be too big. Without them it
    is not; and with one of them that has not expired, it is."""
    names = [b"%c" % (65 + i) * (11 << 20) for i in range(4)]
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "", expect=None)
        for name in names:
            conn.ask("set", name, "", expect=None)
        conn.ask("keys", expect=Err(wire.ERR_2BIG))
        for ms in (500, 2000, 8000):  # more where this machine is so busy that they begin to go before all are set
            bulk(conn, numbered(range(2000), "set", "brief ######", ""), None)
            began = now_ms()
            bulk(conn, numbered(range(2000), "pexpire", "brief ######", ms), 1)  # these are the first to be removed
            for name, left in zip(names, (FAR, ms, ms, FAR)):
                conn.ask("pexpire", name, left, expect=1)
            with paused(server):
                whole = now_ms() < began + ms
                until(now_ms() + ms + GONE)
                conn.send(asked(chapter, "keys"))
            conn.recv(AnyOrder([b"k", names[0], names[3]]))
            if whole:
                break
            for name in names[1:3]:
                conn.ask("set", name, "", expect=None)
        conn.ask("set", names[1], "", expect=None)
        conn.ask("keys", expect=Err(wire.ERR_2BIG))


@case(since=13, until=wire.KEYSPACE_FROM - 1, inside=True)
def keys_go_as_fast_as_they_come(chapter: int) -> None:
    """A round in which many keys come with a short TTL may also remove many. Otherwise they pile up for as long as the
    load lasts, and the memory with them."""
    clients, n, counts = 32, 1500, Counts()
    with start(chapter, env=counts.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(clients)]
        with paused(server):  # so that all have something in every round
            for i, conn in enumerate(conns):
                sets = numbered(range(i * n, (i + 1) * n), "set", "key:######", "").encode(chapter)
                ttls = numbered(range(i * n, (i + 1) * n), "pexpire", "key:######", "1").encode(chapter)
                conn.send(b"".join(one for pair in zip(sets, ttls) for one in pair))
            counts.reset()
        for conn in conns:
            conn.expect_bytes((answered(chapter, None, "set") + answered(chapter, 1)) * n)
        uses_no_cpu(server, "no key left")
        rounds = counts.polls
        if rounds > clients * n // 400:
            fail(
                f"{clients * n} keys came with a TTL of 1 ms; it took {rounds} rounds until all had gone",
                "does each round remove a fixed number of keys, fewer than come in a round? Let it remove more where "
                "more "
                "have come.",
                f"{clients * n // 400} rounds at most",
            )


@case(since=13, inside=True)
def the_time_of_a_request(chapter: int) -> None:
    """The server is held up where it reads a request, until the deadline of its key is over."""
    ttl, hold = 200, Hold()
    with start(chapter, env=hold.env) as server, server.connect() as conn, server.connect() as other:
        conn.ask("set", "k", "v")
        conn.ask("pexpire", "k", ttl, expect=1)
        gone = now_ms() + ttl + GONE
        conn.send(asked(chapter, "get", hold.WORD) + asked(chapter, "get", "k"))
        other.send(asked(chapter, "get", "k"))
        wait_until(hold.is_held, "the server reads the request")
        until(gone)
        hold.release()
        conn.recv(None)
        conn.recv(None)
        other.recv(None)


@case(since=13)
def none_of_many_is_seen_again(chapter: int) -> None:
    """Right at the deadline, before the timer has got round to all of them, every command is tried on
    every key, and `keys` before all."""
    n = 6000
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        keys = [b"key:%06d" % i for i in range(n)]
        bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
        other.ask("set", "stays", "v")
        gone = 0.0
        for i in range(0, n, 1000):
            ttl = 150 - i // 50
            bulk(conn, numbered(range(i, i + 1000), "pexpire", "key:######", ttl), 1)
            gone = max(gone, now_ms() + ttl + GONE)
        names = ["get", "pttl", "persist", "del", "zscore"]
        none = {"get": None, "pttl": -2, "persist": 0, "del": 0, "zscore": None}
        words = [[names[i % 5], key] + ["n"] * (i % 5 == 4) for i, key in enumerate(reversed(keys))]
        until(gone)
        other.ask("keys", expect=[b"stays"])
        conn.pipeline(words, [none[w[0]] for w in words])  # type: ignore[index]
        other.ask("keys", expect=[b"stays"])


@case(since=13)
def keys_come_back_while_others_expire(chapter: int) -> None:
    """Each key is set anew at the very time when its TTL is over. What is new must stay."""
    n = 3000
    with start(chapter) as server, server.connect() as conn:
        keys = [b"key:%06d" % i for i in range(n)]
        for words in (("set", "new"), ("zadd", "1", "new")):
            bulk(conn, numbered(range(n), "set", "key:######", "old"), None)
            bulk(conn, numbered(range(n), "pexpire", "key:######", "25"), 1)
            gone = now_ms() + 25 + GONE
            time.sleep(0.012)
            if words[0] == "zadd":
                until(gone)  # before that, it would be an error
            bulk(conn, numbered(range(n), words[0], "key:######", *words[1:]), None if words[0] == "set" else 1)
            until(gone + 5)
            conn.ask("keys", expect=AnyOrder(keys))
            conn.pipeline([["pttl", key] for key in keys], [-1] * n)
            bulk(conn, numbered(range(n), "del", "key:######"), 1)


# ---- random ----


@case(since=13, time_limit=40)
def random_deadlines(chapter: int) -> None:
    """Random commands give some hundred keys deadlines, few and many at the same time, and take them away.
    Then the keys go one by one, each at its time, and the rest stays."""
    rng = random.Random(seed())
    for base in (150, 1000, 5000):
        if _random_deadlines(chapter, rng, base):
            return
    fail(
        "three thousand commands took longer than five seconds",
        "is each of them answered by a write of its own that waits for the one before (no TCP_NODELAY)? Or is this "
        "machine busy: try again when it is quiet.",
        "they come in one write, and take some milliseconds",
    )


def _random_deadlines(chapter: int, rng: random.Random, base: int) -> bool:
    """One run, with deadlines from base ms on. Returns False where the commands took longer than that."""
    model = Model(chapter, clock=lambda: 0, slack_ms=int(limit(20_000)))
    keys = [b"k%d" % i for i in range(300)]
    requests = [_random_command(rng, rng.choice(keys), base) for _ in range(3000)]
    expect = [model.do(*words) for words in requests]
    with start(chapter) as server, server.connect() as conn:
        began = now_ms()
        try:
            conn.pipeline(requests, expect)
        except AssertionError:
            if now_ms() <= began + base:  # or the first keys had expired before the last command came
                raise
        finished = now_ms()
        if finished > began + base:
            return False
        short = {key: ms for key, ms in model.deadlines.items() if ms < FAR}
        stay = set(model.values) - set(short)
        for part in range(12):
            until(began + base + part * 10)
            asked = now_ms()
            got = conn.ask("keys")
            answered = now_ms()
            assert isinstance(got, list)
            alive = stay | {key for key, ms in short.items() if answered < began + ms}
            gone = {key for key, ms in short.items() if asked > finished + ms + GONE}
            if not alive <= set(got) <= (set(model.values) - gone) or len(set(got)) < len(got):
                fail(
                    f"{part * 10} ms after the first deadlines `keys` lists {len(got)} keys; too early gone are "
                    f"{sorted(alive - set(got))[:4]}, still there {sorted(set(got) & gone)[:4]}",
                    "when a deadline changes, its place in the heap does: up and down. And when an item moves in the "
                    "heap, "
                    "its key must know the new place."
                    if alive - set(got) else
                    "a key whose deadline has passed is not listed, whether or not the timer has come to it",
                    f"the {len(alive)} that still live, and none whose time is over",
                )
        until(finished + base + 100 + GONE)
        for key in short:
            model.do("del", key)
        checks = [[b"keys"]] + [[name, key] for key in keys for name in (b"get", b"pttl", b"persist", b"pttl")]
        conn.pipeline(checks, [model.do(*words) for words in checks])
    return True


def _random_command(rng: random.Random, key: bytes, base: int) -> List[bytes]:
    draw = rng.random()
    if draw < 0.45:
        spread = rng.choice([0, 10, 100])
        return [b"pexpire", key, b"%d" % (base + rng.randrange(spread + 1))]
    if draw < 0.5:
        return [rng.choice([b"expire", b"pexpire"]), key, rng.choice([b"%d" % (2 * FAR), b"0", b"-1", b"x", b"9" * 19])]
    if draw < 0.75:
        return [b"set", key, b"v" * rng.choice([0, 1, 1, 5, 100])]
    if draw < 0.8:
        return [b"zadd", key, b"%d" % rng.randrange(3), rng.choice([b"a", b"b"])]
    if draw < 0.84:
        return [b"zrem", key, rng.choice([b"a", b"b"])]
    return [rng.choice([b"del", b"persist", b"persist", b"get", b"ttl", b"pttl"]), key]


# Runs each function above that is marked @case, and those of tests/cases/ with since=13 (clock.py).
@pytest.mark.parametrize("case", new(13))
def test_new(case: Case) -> None:
    case(13)


# The cases of 03 to 12, as far as they still hold.
@pytest.mark.parametrize("case", earlier(13))
def test_earlier(case: Case) -> None:
    case(13)


# ---- the lab programs ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """Every place in every size, with every kind of values; random runs with items that move."""
    lab_passes(13, "test_heap")


LEVELS = """\
the same TTL for all +0\\.00 up
any deadline +(\\d\\.\\d\\d) up
any TTL, as time goes on +\\d\\.\\d\\d up
one comes for one that goes +\\d\\.\\d\\d up, removal +(\\d\\.\\d\\d) down
"""


@pytest.mark.inside
def test_levels() -> None:
    """Items that come in order do not climb, others climb few levels; one that a removal brings up sinks nearly to the
    leaves."""
    out, err, status = run_program(13, "levels", ["1000"])
    found = re.fullmatch(LEVELS, out)
    if status != 0 or err or not found or float(found[1]) > 2 or not 6 < float(found[2]) < 9:
        fail(f"levels 1000 ends with exit status {status} and prints\n{out}{err}")
    for words in (["1"], ["x"], [str((1 << 24) + 1)]):
        out, err, status = run_program(13, "levels", words)
        if status != 1 or out or not err.startswith("levels: "):
            fail(f"levels {words} ends with exit status {status} and prints\n{out}{err}")
