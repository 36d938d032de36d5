"""SCAN (23 and later): a walk over the keys in many small steps. Whatever the table does meanwhile, a key that stays is
returned at least once, and the walk ends. It holds for Redis as well: make test-23 SERVER=redis-server.
"""
from __future__ import annotations

import random
from typing import Callable, List, Sequence, Set, Tuple

from harness import AnyOrder, Conn, Err, fail, seed
from harness.resp import OK, array

from . import case
from .clock import Clock
from .keyspace import info
from .replies import MIB
from .resp import NO_INT, SYNTAX, asks, bad_count, hello, raw
from .talk import bulk, numbered, start

PERHAPS = "the cursor must survive that the table grows and shrinks between two calls: count its bits up from the top"

NO_CURSOR = Err(4, "ERR invalid cursor")


def step(conn: Conn, cursor: bytes, *options: object) -> Tuple[bytes, List[bytes]]:
    """One call: the next cursor, and the keys."""
    reply = conn.ask("scan", cursor, *map(str, options))
    if not (isinstance(reply, list) and len(reply) == 2 and isinstance(reply[0], bytes) and reply[0].isdigit()
            and isinstance(reply[1], list)):  # fmt: skip
        fail(f"scan {cursor.decode()} answers {reply!r}", "", "an array: the next cursor, and an array of keys")
    return reply[0], reply[1]  # type: ignore[index,return-value]


def walk(conn: Conn, *options: object, meanwhile: Callable[[int], None] = lambda i: None,
most: int = 20_000) -> List[bytes]:
    """A whole walk: all that was returned. meanwhile(i) is called behind the i-th call."""
    found: List[bytes] = []
    cursor, calls = b"0", 0
    while True:
        cursor, keys = step(conn, cursor, *options)
        found += keys
        calls += 1
        if cursor == b"0":
            return found
        if calls > most:
            fail(f"scan has been called {calls} times, each time with the cursor of the time before, and does not end")
        meanwhile(calls)


def names(numbers: Sequence[int], prefix: str = "key") -> Set[bytes]:
    return {b"%s:%06d" % (prefix.encode(), i) for i in numbers}


def all_there(found: Sequence[bytes], stayed: Set[bytes], ever: Set[bytes]) -> None:
    """Fails where a key is missing that has been there all the time, or where there is one that never was."""
    missing, strange = sorted(stayed - set(found)), sorted(set(found) - ever)
    if missing or strange:
        fail(f"{len(missing)} of {len(stayed)} keys that were there all the time were not returned: {missing[:5]}; "
             f"{len(strange)} were that never existed: {strange[:5]}",
             "", "each key that stays, at least once")  # fmt: skip


@case(since=23)
def scan_of_nothing_and_little(chapter: int) -> None:
    """No keys, one, and keys of another database."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("scan 0", [b"0", []]), ("set k v", OK), ("scan 0", [b"0", [b"k"]]),
             ("SCAN 0 COUNT 100 MATCH *",              [b"0", [b"k"]]), ("select 1", OK), ("scan 0", [b"0", []]),
             ("zadd '' 1 a", 1), ("scan 0", [b"0", [b""]]), ("del ''", 1), ("scan 0", [b"0", []]))  # fmt: skip
        asks(conn, ("select 0", OK))
        raw(conn, b"scan 0\r\n", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n")
        hello(conn, 3)
        raw(conn, b"scan 0\r\n", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n")


@case(since=23)
def errors_of_scan(chapter: int) -> None:
    """The cursor first, then the options from left to right. COUNT is above 0."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("scan", bad_count("scan")))
        for cursor in ("x", "' 0'", "'0 '", "1.5", "0x1", "18446744073709551616", "1e3", '"\\n"', '"\\t0"'):
            asks(conn, (f"scan {cursor}", NO_CURSOR), (f"scan {cursor} nonsense", NO_CURSOR),
                 (f"scan {cursor} count 0", NO_CURSOR))  # fmt: skip
        for options, error in (
            ("count 0", SYNTAX), ("count -1", SYNTAX), ("count x", NO_INT), ("count ''", NO_INT), ("count 1.5", NO_INT),
            ("count 9223372036854775808", NO_INT), ("count", SYNTAX), ("match", SYNTAX), ("type", SYNTAX),
            ("nonsense", SYNTAX), ("match * count", SYNTAX), ("count x nonsense", NO_INT), ("nonsense count x", SYNTAX),
            ("count 5 count x", NO_INT), ("count 0 count x", SYNTAX), ("match * 10", SYNTAX), ("nomatch *", SYNTAX),
            ("count 5 withscores", SYNTAX),
        ):  # fmt: skip
            asks(conn, (f"scan 0 {options}", error), (f"scan 5 {options}", error))
        asks(conn, ("scan 0 count 9223372036854775807", [b"0", [b"k"]]), ("scan 0 match k match *", [b"0", [b"k"]]),
             ("scan 0 match * match none", [b"0", []]),
             ("scan 0 count 1 count 100 type zset type string", [b"0", [b"k"]]), ("scan +0", [b"0", [b"k"]]),
             ("scan 00", [b"0", [b"k"]]), ("scan ''", [b"0", [b"k"]]))  # fmt: skip


@case(since=23)
def a_call_looks_at_some_keys_whatever_it_returns(chapter: int) -> None:
    """5,000 keys, and a pattern that none of them matches. A call looks at some ten of them, and is then over."""
    n = 5000
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
        for options in (("match", "none*"), ("type", "zset"), ("match", "none*", "count", 10)):
            at, calls = b"0", 0
            while at != b"0" or not calls:
                at, keys = step(conn, at, *options)
                calls += 1
                if keys:
                    fail(f"scan with {' '.join(map(str, options))} returned {keys[:3]}", expected="no key")
            if calls < n // 25:
                fail(
                    f"{n} keys, none of them wanted, were all looked at in {calls} calls of scan",
                    "COUNT says how many keys a call looks at, not how many it returns: a pattern that nothing matches "
                    "would make one call walk through everything",
                    f"{n // 25} calls at least",
                )


@case(since=23)
def any_cursor_is_taken(chapter: int) -> None:
    """A number that no call has returned, from 0 to 2^64 - 1: the walk goes on somewhere, and ends."""
    rng = random.Random(seed())
    for n in (0, 1, 5, 1000):
        with start(chapter) as server, server.connect() as conn:
            bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
            for cursor in [1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
            *(rng.getrandbits(64) for _ in range(20))]:
                at, calls = b"%d" % cursor, 0
                while at != b"0" or not calls:
                    at, keys = step(conn, at, "count", 100)
                    calls += 1
                    if not set(keys) <= names(range(n)) or calls > 5 * n // 100 + 100:
                        fail(f"scan {cursor}: {calls} calls later the cursor is {at.decode()}, the keys are {keys[:5]}")
            asks(conn, ("scan -1 count 100000", [b"0", AnyOrder([])]) if n == 0 else ("dbsize", n))


@case(since=23)
def each_key_of_a_table_at_rest(chapter: int) -> None:
    """Of any size, with any COUNT, each key comes, and hardly any twice; COUNT is about how many come at once."""
    with start(chapter) as server, server.connect() as conn:
        have = 0
        for n in (1, 2, 7, 16, 100, 1000, 1025, 5000):
            bulk(conn, numbered(range(have, n), "set", "key:######", "v"), None)
            have = n
            for count in (1, 10, 100, 10_000):
                if n // count > 1200:
                    continue
                calls: List[int] = []
                found = walk(conn, "count", count, meanwhile=calls.append)
                all_there(found, names(range(n)), names(range(n)))
                if len(found) > 2 * n or len(calls) > 4 * n // count + 4:
                    fail(f"a walk over {n} keys, COUNT {count}: {len(calls) + 1} calls returned {len(found)} keys")
            if len(walk(conn)) < n:
                fail("without COUNT, fewer keys come")


@case(since=23)
def match_and_type(chapter: int) -> None:
    """What does not match is left out of the reply, and the walk is as long as ever."""
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(500), "set", "key:######", "v"), None)
        bulk(conn, numbered(range(500), "zadd", "zset:######", "1", "a"), 1)
        key, zset = names(range(500)), names(range(500), "zset")
        for options, expected in (
            (["match", "key:*"], key), (["match", "*:00000?"], names(range(10)) | names(range(10), "zset")),
            (["match", "none*"], set()), (["match", ""], set()), (["match", "key:000123"], {b"key:000123"}),
            (["type", "string"], key), (["type", "ZSET"], zset), (["type", "hash"], set()), (["type", "nosuch"], set()),
            (["type", ""], set()), (["type", "zset", "match", "*:00001?"], names(range(10, 20), "zset")),
            (["type", "zset", "match", "key:*"], set()), (["TYPE", "String", "COUNT", 37, "Match", "*9"],
             {each for each in key if each.endswith(b"9")}),
             (["match", "[k]ey:*[05]"], {each for each in key if each[-1] in b"05"}),
        ):  # fmt: skip
            found = walk(conn, *options)
            if set(found) != expected:
                fail(f"scan with {options} found {len(set(found))} keys", "", f"{len(expected)} keys")
        asks(conn, ("scan 0 type hash count 100000", [b"0", []]), ("set odd*name v", OK),
             ("del odd*name", 1))  # fmt: skip


@case(since=23)
def a_table_that_grows(chapter: int) -> None:
    """Keys come all the time; those that were there from the beginning are all returned. The first walk also begins
    while the table is still moving its keys to a larger one."""
    for n, count, more in ((10, 1, 20), (500, 10, 200), (1030, 7, 60), (4000, 100, 2000)):
        with start(chapter) as server, server.connect() as conn, server.connect() as other:
            bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
            have = [n]

            def grow(i: int) -> None:
                if have[0] < min(50 * n, 12_000):
                    bulk(other, numbered(range(have[0], have[0] + more), "set", "key:######", "v"), None)
                    have[0] += more

            found = walk(conn, "count", count, meanwhile=grow)
            all_there(found, names(range(n)), names(range(have[0])))


@case(since=23)
def a_table_that_shrinks(chapter: int) -> None:
    """Keys go all the time; those that stay to the end are all returned, and none after it has gone."""
    for n, count, fewer in ((1000, 1, 20), (5000, 10, 300), (20_000, 100, 3000)):
        with start(chapter) as server, server.connect() as conn, server.connect() as other:
            bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
            stay = range(0, n, 50)
            go = [i for i in range(n) if i % 50]
            random.Random(seed()).shuffle(go)
            left = len(go)

            def shrink(i: int) -> None:
                nonlocal left
                bulk(other, numbered(go[max(0, left - fewer) : left], "del", "key:######"), 1)
                left = max(0, left - fewer)

            found = walk(conn, "count", count, meanwhile=shrink)
            all_there(found, names(stay), names(range(n)))
            found = walk(conn, "count", count)
            all_there(found, names(stay), names([*stay, *go[:left]]))


@case(since=23)
def a_table_that_breathes(chapter: int) -> None:
    """It grows and shrinks at random in the middle of a walk, by much and by little; and several walk at once."""
    rng = random.Random(seed())
    stay = names(range(300), "stays")
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        bulk(conn, numbered(range(300), "set", "stays:######", "v"), None)
        for _ in range(6):
            have = 0

            def breathe(i: int) -> None:
                nonlocal have
                if rng.random() < 0.5:
                    return
                to = rng.choice([0, 0, 50, 500, 3000, 12_000])
                bulk(other, numbered(range(have, to), "set", "other:######", "v"), None)
                bulk(other, numbered(range(to, have), "del", "other:######"), 1)
                have = to

            walks: List[Tuple[bytes, Set[bytes]]] = [(b"0", set()) for _ in range(3)]
            calls = 0
            while walks:
                at, found = walks.pop(0)
                at, keys = step(conn, at, "count", rng.choice([1, 10, 50, 300]))
                found |= set(keys)
                calls += 1
                if at != b"0":
                    walks.append((at, found))
                else:
                    all_there(list(found), stay, stay | names(range(12_000), "other"))
                if calls > 20_000:
                    fail(f"three walks have taken {calls} calls, and do not end")
                breathe(calls)
            bulk(other, numbered(range(have), "del", "other:######"), 1)


def pairs_of(conn: Conn, count: int = 5,
             meanwhile: Callable[[int], None] = lambda i: None) -> Tuple[List[Tuple[bytes, bytes]], int]:  # fmt: skip
    """What a walk through the set z finds, and how many steps it took."""
    cursor, found, calls = b"0", [], 0
    while cursor != b"0" or not calls:
        cursor, words = conn.ask("zscan", "z", cursor, "count", count)  # type: ignore[misc]
        found += zip(words[::2], words[1::2])
        meanwhile(calls)
        calls += 1
    return found, calls


@case(since=23)
def a_walk_through_pairs(chapter: int) -> None:
    """Of a set that changes meanwhile, each pair that stays, with its score. A small set comes as a whole, but not one
    with a long name."""
    with start(chapter) as server, server.connect() as conn:
        hello(conn, 3)
        conn.ask("zadd", "z", *(word for i in range(100) for word in (str(i), f"p{i:03}")), expect=100)
        assert pairs_of(conn) == ([(b"p%03d" % i, b"%d" % i) for i in range(100)], 1)
        conn.ask("zadd", "z", 1, "long" * 20, expect=1)
        found, calls = pairs_of(conn)
        if calls < 5 or len(set(found)) != 101:
            fail(f"a walk through 101 pairs, of which one has a long name, finds {len(set(found))} in {calls} steps")
        conn.ask("zadd", "z", *(word for i in range(1000) for word in (str(i), f"p{i:03}")), expect=900)
        conn.ask("zrem", "z", "long" * 20, expect=1)
        rng = random.Random(seed())

        def change(i: int) -> None:
            conn.ask("zremrangebyrank", "z", 1000, 1000 + rng.randrange(1500))
            conn.ask("zadd", "z", *(word for _ in range(200) for word in ("2000", f"q{rng.randrange(2000)}")))

        found, _ = pairs_of(conn, 50, change)
        missing = {(b"p%03d" % i, b"%d" % i) for i in range(1000)} - set(found)
        if missing:
            fail(f"a walk through a set that changes misses {sorted(missing)[:5]}")


@case(since=23)
def keys_that_change_stay(chapter: int) -> None:
    """A key that is given another value, a TTL or another type has been there all the time."""
    n = 400
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        bulk(conn, numbered(range(n), "set", "key:######", "v"), None)

        def change(i: int) -> None:
            numbers = range(i % 4, n, 4)
            bulk(other, numbered(numbers, "set", "key:######", "longer" * (i % 30)), None)
            bulk(other, numbered(numbers, "expire", "key:######", "1000"), 1)
            bulk(other, numbered(numbers[::2], "append", "key:######", "x"), 1 + 6 * (i % 30))
            bulk(other, numbered(numbers[::4], "persist", "key:######"), 1)

        all_there(walk(conn, "count", 10, meanwhile=change), names(range(n)), names(range(n)))


@case(since=23)
def emptied_and_swapped_in_the_middle(chapter: int) -> None:
    """The walk ends all the same, with keys that are there now or were before; the next one finds what is new."""
    for what in ("flushdb", "flushall async", "swapdb 0 1"):
        with start(chapter) as server, server.connect() as conn, server.connect() as other:
            bulk(conn, numbered(range(3000), "set", "old:######", "v"), None)
            asks(other, ("select 1", OK))
            bulk(other, numbered(range(100), "set", "there:######", "v"), None)
            asks(other, ("select 0", OK))

            def empty(i: int) -> None:
                if i == 20:
                    other.ask(*what.split(), expect=OK)

            found = walk(conn, "count", 10, meanwhile=empty)
            all_there(found, set(), names(range(3000), "old") | names(range(100), "there"))
            bulk(other, numbered(range(50), "set", "new:######", "v"), None)
            left = names(range(50), "new") | (names(range(100), "there") if what[0] == "s" else set())
            all_there(walk(conn, "count", 10), left, left)


@case(since=23)
def expired_keys_are_not_returned(chapter: int) -> None:
    """By no call that is sent after their time, with TYPE or without; and who walks over them deletes them.

    Those of one batch die and are walked over in one turn: no timer comes in between.
    """
    n, batch = 3000, [array("set", f"at once:{i}", "v", "pxat", "1") for i in range(40)]
    with start(chapter) as server, server.connect() as conn:
        conn.send(b"".join(batch) + array("scan", "0", "count", 1000))
        for reply in [OK] * len(batch) + [[b"0", []]]:
            conn.recv(reply)
        bulk(conn, numbered(range(500), "set", "stays:######", "v"), None)
        bulk(conn, numbered(range(n), "set", "brief:######", "v", "pxat", "1"), OK)
        for options in (["count", 50], ["count", 50, "type", "string"]):
            all_there(walk(conn, *options), names(range(500), "stays"), names(range(500), "stays"))
        asks(conn, ("dbsize", 500))
        if info(conn, "stats")["expired_keys"] != str(len(batch) + n):
            found = info(conn, "stats")["expired_keys"]
            fail(f"expired_keys is {found}", "", f"{len(batch) + n}: each of the keys, once")


@case(since=23)
def calls_in_a_pipeline(chapter: int) -> None:
    """Several walks in one batch, each by itself, beside other commands."""
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(200), "set", "key:######", "v"), None)
        single = [step(conn, b"0", "count", count) for count in (1, 10, 1000)]
        conn.send(b"".join(array("scan", "0", "count", count) + array("get", "key:000007") for count in (1, 10, 1000)))
        for at, keys in single:
            conn.recv([at, keys])
            conn.recv(b"v")


@case(since=23, inside=True, time_limit=60)
def keys_too_large_for_one_reply(chapter: int) -> None:
    """Six keys of 16 and 20 million bytes, among small ones: a reply that has a key of the one kind has no room for one
    of the other. It ends before that, and the walk comes past all of them."""
    big = [bytes([97 + i]) * (16_000_000 if i % 2 else 20_000_000) for i in range(6)]
    with start(chapter, env={"HASH_SEED": "3" * 32}) as server, server.connect() as conn:
        bulk(conn, numbered(range(500), "set", "key:######", "v"), None)
        for key in big:
            conn.ask("set", key, "v", expect=OK)
        for count in (1000, 1_000_000):
            all_there(walk(conn, "count", count), names(range(500)) | set(big), names(range(500)) | set(big))


@case(since=23, ours="Redis has no limit for a reply")
def a_long_reply_ends_early(chapter: int) -> None:
    """Forty keys of a megabyte: half of the longest reply is enough for one call, whatever COUNT says, and others are
    served before the next. The walk comes past all of them."""
    big = {b"%02d" % i + b"x" * MIB for i in range(40)}
    with start(chapter) as server, server.connect() as conn:
        for key in sorted(big):
            conn.ask("set", key, "v", expect=OK)
        for count in (1000, 10**18):
            found: List[bytes] = []
            cursor = b""
            while cursor != b"0":
                cursor, keys = step(conn, cursor or b"0", "count", count)
                found += keys
                if len(keys) > 24:
                    fail(
                        f"scan with COUNT {count} answers {len(keys)} keys of 1 MiB",
                        "does it look how long the reply has become, after each step?",
                        "when there are 16 MiB the reply ends, with the cursor for the next ones",
                    )
            all_there(found, big, big)


@case(since=23, inside=True)
def a_table_that_nearly_all_have_left(chapter: int) -> None:
    """200,000 keys expire, none before all are set, and a cycle or a walk comes by. Sixteen stay, so that some are in
    buckets that were to be moved last. Then it does not take the server long to find them: the table has shrunk, or
    does so while somebody searches. A thousand times together cost less than to have set the keys.
    """
    n = 200_000
    stay = [b"stays:%d" % i for i in range(16)]
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        conn.pipeline([["set", key, "v"] for key in stay], [OK] * len(stay))
        before = server.cpu_ms()
        bulk(conn, numbered(range(n), "set", "brief:######", "v", "px", "1000"), OK)
        took = server.cpu_ms() - before
        for _ in range(30 if conn.codec.has_cycle else 1):
            clock.step(1001)
        if not conn.codec.has_cycle:
            walk(conn, "count", 1000)
        asks(conn, ("dbsize", len(stay)))
        for words in ["randomkey"], ["scan", "0", "count", "1000000"]:
            before = server.cpu_ms()
            replies = conn.pipeline([words] * 1000)
            cost = server.cpu_ms() - before
            if cost > took + 20:
                fail(
                    f"after {n} keys have gone, a thousand {' '.join(words)!r} take {cost} ms of processor time; "
                    f"setting all those keys took {took}",
                    "does each of them go through the buckets of a table that should have shrunk long ago?",
                    "less",
                )
            for reply in replies:
                if words == ["randomkey"]:
                    right = reply in stay
                else:
                    right = isinstance(reply, list) and reply[0] == b"0" and sorted(reply[1]) == sorted(stay)
                if not right:
                    fail(f"{' '.join(words)!r} replied {reply!r}", "", "a key that stays; of a scan, all of them, once")


@case(since=23, perhaps="where a pair is removed, the set's own table may have to shrink, too")
def sets_shrink(chapter: int) -> None:
    """Twenty thousand pairs go, ten stay. They are found as before, and the table that held all of them is gone."""
    n, stay = 20_000, range(0, 20_000, 2000)
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "zadd", "z", "######", "n######"), 1)
        bulk(conn, numbered([i for i in range(n) if i not in stay], "zrem", "z", "n######"), 1)
        bulk(conn, numbered(range(n), "zscore", "z", "none######"), None)  # each lookup moves a part of the table
        size = conn.ask("memory", "usage", "z", "samples", "0")
        if not isinstance(size, int) or size > 40_000:  # as many buckets as for all of them would be 128 KiB
            fail(f"a set had {n} pairs; {len(stay)} are left, and memory usage is {size}", "", "40,000 bytes at most")
        for i in stay:
            asks(conn, (f"zscore z n{i:06}", float(i)), (f"zrank z n{i:06}", i // 2000))
        bulk(conn, numbered([i for i in range(n) if i not in stay], "zadd", "z", "######", "n######"), 1)
        asks(conn, ("zcard z", n), ("zscore z n012345", 12345.0))
