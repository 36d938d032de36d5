"""Requests that come together (17 and later): what one of a batch does is seen by all behind it, whatever was parsed,
hashed or fetched for them in advance.

All of it is tried on a server with so many keys that they do not fit into a processor's cache: in a small table nothing
is fetched in advance.
"""
from __future__ import annotations

import random
from typing import Iterator, List, Sequence, Tuple

from harness import Conn, Err, seed, settings, wire
from harness.wire import DONE, ERR_ARG, ERR_TYPE

from . import case
from .strings import SAME_HASH, SEED
from .talk import asked, bulk, numbered, say, start

__tracebackhide__ = settings.__tracebackhide__

SIZES = (1, 2, 16, 17, 32, 33, 65)  # of batches
MANY = 9000  # keys, or pairs of a set: more than are taken to be in the cache anyway


def fill(conn: Conn, n: int = MANY) -> None:
    """Keys fill000000, .. and the sorted set `large`, of pairs n000000 .. with the scores 0, 1, .."""
    bulk(conn, numbered(range(n), "set", "fill######", "######"), None)
    bulk(conn, numbered(range(MANY), "zadd", "large", "######", "n######"), 1)


# ---- what ends a batch ----


@case(since=17, until=19)
def a_bad_message_at_every_place(chapter: int) -> None:
    """What comes before it is answered, then the connection ends, and nothing behind it is done."""
    bad = [
        wire.u32((32 << 20) + 1), wire.frame(b""), wire.frame(wire.u32(0)), wire.frame(wire.body("get", count=2)),
        wire.frame(wire.body("get", "k") + b"x"),
    ]  # fmt: skip
    with start(chapter) as server, server.connect() as other:
        fill(other)
        for n in SIZES:
            for i in range(n + 1):
                with server.connect() as conn:
                    before = b"".join(asked(chapter, "get", f"fill{j:06}") for j in range(i))
                    behind = asked(chapter, "set", "k", "done") * (n - i)
                    conn.send(before + bad[i % len(bad)] + behind)
                    for j in range(i):
                        conn.recv(b"%06d" % j)
                    conn.expect_closed()
        other.ask("get", "k", expect=None)


@case(since=17, until=19)
def half_a_message_at_the_end(chapter: int) -> None:
    """However many come before it, and wherever it is cut: it is answered when the rest of it has come."""
    last = asked(chapter, "set", "k", "value")
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        for n in SIZES:
            for cut in range(1, len(last)):
                words = [("get", f"fill{j:06}") for j in range(n)]
                conn.send(b"".join(asked(chapter, *each) for each in words) + last[:cut])
                for j in range(n):
                    conn.recv(b"%06d" % j)
                conn.send(last[cut:] + asked(chapter, "get", "k"))
                conn.recv(None)
                conn.recv(b"value")
                conn.ask("del", "k", expect=1)


@case(since=17)
def one_that_takes_long_at_every_place(chapter: int) -> None:
    """It waits for its turn, and those behind it wait for it: the replies come in their order."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        n = 4000  # pairs: their reply is more than the work of a turn
        bulk(conn, numbered(range(n), "zadd", "large", "######", "n######"), 1)
        bulk(conn, numbered(range(MANY), "set", "fill######", "######"), None)
        slow = ("zquery", "large", "0", "", "0", str(1 << 40))
        pairs = [part for j in range(n) for part in (b"n%06d" % j, float(j))]
        for size in (16, 33):
            for i in range(size):
                requests: List[Tuple[str, ...]] = [("get", f"fill{j:06}") for j in range(size)]
                replies: List[object] = [b"%06d" % j for j in range(size)]
                requests[i], replies[i] = slow, pairs
                requests[-1 - i // 2], replies[-1 - i // 2] = requests[i], replies[i]
                conn.pipeline(requests, replies)
        say(other)


@case(since=17)
def turns_that_end_within_a_batch(chapter: int) -> None:
    """Replies of 3 to 70 KB: after some of them the turn is over, and the rest waits for the next one."""
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        for size in (3000, 9000, 40_000, 70_000):
            value = bytes(range(256)) * (size // 256)
            conn.ask("set", "value", value, expect=None)
            for n in SIZES:
                requests = [("get", "value"), ("get", "fill000001"), ("get", "none")] * n
                conn.pipeline(requests, [value, b"000001", None] * n)


@case(since=17)
def very_many_strings(chapter: int) -> None:
    """Requests of up to 1024 strings, dozens of them at once."""
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        for counts in ([1024] * 40, [1023] * 40, [513] * 40, [2] * 31 + [1024] * 3, [1024, 2, 3] * 15):
            requests: List[Sequence[str]] = []
            replies: List[object] = []
            for count in counts:
                requests += [["get"] + ["fill000007"] * (count - 1), ["get", "fill000008"]]
                replies += [b"000007" if count == 2 else Err(ERR_ARG), b"000008"]
            conn.pipeline(requests, replies)


@case(since=17)
def keys_of_every_length(chapter: int) -> None:
    """Around 1024 bytes, and very long ones; all begin alike."""
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        keys = [b"k" * n for n in (0, 1, 2, 7, 8, 9, 255, 1022, 1023, 1024, 1025, 1026, 4096, 100_000)]
        for order in (keys, keys[::-1]):
            conn.pipeline([("set", key, b"%d" % len(key)) for key in order], [None] * len(keys))
            for n in SIZES:
                wanted = [order[i % len(order)] for i in range(n)]
                conn.pipeline([("get", key) for key in wanted], [b"%d" % len(key) for key in wanted])
            conn.pipeline([("del", key) for key in order * 2], [1] * len(keys) + [0] * len(keys))
        for digits in (20, 1023, 1024, 1025, 50_000):  # of a score
            score = "0" * (digits - 4) + "5000"
            conn.pipeline(
                [("zadd", "large", score, "n005000"), ("zquery", "large", score, "", "0", "1")] * 9,
                [0, [b"n005000", 5000.0]] * 9,
            )
            name = b"n" * digits
            conn.pipeline(
                [("zadd", "large", "1", name), ("zscore", "large", name), ("zrem", "large", name)] * 9,
                [1, 1.0, 1] * 9,
            )


@case(since=17)
def long_and_short_keys_one_at_a_time(chapter: int) -> None:
    """Each request begins at the same place of the buffer as the one before: what was remembered of that is over."""
    keys = [b"s", b"short", b"x" * 1024, b"x" * 1025, b"x" * 2000, b"y" * 2000]
    with start(chapter) as server, server.connect() as conn:
        for first in keys:
            for second in keys:
                conn.ask("set", first, b"first", expect=None)
                conn.ask("set", second, b"the second", expect=None)
                conn.ask("get", first, expect=b"the second" if first == second else b"first")
                conn.ask("get", second, expect=b"the second")
                conn.ask("nothing")
                conn.ask("del", first, expect=1)
                conn.ask("del", second, expect=int(first != second))
                conn.ask("keys", expect=[])


# ---- what one of a batch does to those behind it ----


@case(since=17)
def each_command_behind_each(chapter: int) -> None:
    """On a key that is not there, a string, a small set, a large one: what the first of two in a batch deletes,
    replaces, lets expire or turns into another type, the second one finds so. They answer as they do one at a time."""
    commands = [
        ["get"], ["set", "v"], ["set", "another length"], ["del"], ["zadd", "5", "n"], ["zadd", "1", "m"],
        ["zrem", "n"], ["zscore", "n"], ["zquery", "0", "", "0", "2"], ["expire", "0"], ["expire", "1000"],
        ["persist"], ["ttl"],
    ]  # fmt: skip
    states: List[List[List[str]]] = [
        [["del"]], [["set", "value"]], [["set", "value"], ["expire", "1000"]], [["del"], ["zadd", "1", "n"]],
    ]  # fmt: skip
    requests: List[List[str]] = []
    for state in states:
        for first in commands:
            for second in commands:
                for words in [*state, first, second]:
                    requests.append([words[0], "key", *words[1:]])
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        alone = [conn.ask(*words) for words in requests]
        conn.ask("del", "key")
        for size in (5, 16, 33):
            for i in range(0, len(requests), size):
                conn.pipeline(requests[i : i + size], alone[i : i + size])
            conn.ask("del", "key")


def _random_requests(rng: random.Random, n: int) -> Iterator[List[str]]:
    """Of three keys and the large set, with names and scores that meet again and again."""
    for _ in range(n):
        key = rng.choice(["a", "b", "c", "large", "large", "fill000001", "fill008999"])
        name, score = f"n{rng.randrange(0, MANY, 7):06}", str(rng.randrange(0, MANY, 5))
        yield rng.choice(
            [
                ["get", key], ["set", key if key != "large" else "a", "v" * rng.randrange(90)], ["del", key],
                ["zadd", key, score, name], ["zadd", key, score, name], ["zrem", key, name], ["zscore", key, name],
                ["zquery", key, score, name, str(rng.randrange(-9, 9)), "3"], ["expire", key, "0"], ["ttl", key],
                ["expire", key, "9000"], ["persist", key], ["nothing", key], ["get", key, key], ["keys", key],
            ]
        )  # fmt: skip
        if rng.random() < 0.002:
            yield ["del", "large"]
            yield ["set", "large", "v"]


@case(since=17, time_limit=40)
def together_as_one_by_one(chapter: int) -> None:
    """Random requests to two servers: to the one alone, each after the reply to the one before, to the other in
    batches of any size. Both answer the same."""
    rng = random.Random(seed())
    with start(chapter) as first, start(chapter) as second, first.connect() as one, second.connect() as other:
        fill(one)
        fill(other)
        requests = list(_random_requests(rng, 4000))
        replies = [one.ask(*words) for words in requests]
        at = 0
        while at < len(requests):
            size = rng.choice(SIZES)
            other.pipeline(requests[at : at + size], replies[at : at + size])
            at += size


@case(since=17)
def tables_that_grow_within_a_batch(chapter: int) -> None:
    """Some keys are in the older table, some in the newer: each is found, and those that are set meanwhile too."""
    before = 2 * 8192  # nodes of 8192 buckets; one more, and the table grows
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(before), "set", "key######", "######"), None)
        requests: List[Tuple[str, ...]] = []
        replies: List[object] = []
        for i in range(before, before + 3000):
            old = i * 7919 % before
            requests += [("set", f"key{i:06}", f"{i}"), ("get", f"key{i:06}"), ("get", f"key{old:06}")]
            replies += [None, b"%d" % i, b"%06d" % old]
            if i % 5 == 0:
                requests += [("del", f"key{i:06}"), ("get", f"key{i:06}")]
                replies += [1, None]
        for i in range(0, len(requests), 33):
            conn.pipeline(requests[i : i + 33], replies[i : i + 33])


@case(since=17)
def keys_of_one_hash_in_a_batch(chapter: int) -> None:
    """What was fetched in advance for the one may be the other: the bytes of the key decide."""
    pairs = [(text[: len(text) // 2], text[len(text) // 2 :]) for text in SAME_HASH.split()]
    with start(chapter, env={"HASH_SEED": SEED}) as server, server.connect() as conn:
        fill(conn)
        for one, other in pairs:
            conn.pipeline(
                [
                    ["set", one, "1"], ["get", other], ["zadd", other, "2", "n"], ["get", one], ["zscore", one, "n"],
                    ["zscore", other, "n"], ["del", one], ["get", one], ["zscore", other, "n"], ["set", other, "3"],
                    ["get", one], ["get", other], ["set", one, "4"], ["get", other], ["get", one], ["del", one],
                    ["get", one], ["get", other], ["del", other],
                ],
                [
                    None, None, 1, b"1", Err(ERR_TYPE), 2.0, 1, None, 2.0, None, None, b"3", None, b"3", b"4", 1,
                    None, b"3", 1,
                ],
            )  # fmt: skip
            conn.pipeline([["zadd", "large", "7", one], ["zscore", "large", other]] * 9, [1, None] + [0, None] * 8)


@case(since=21)
def many_keys_in_one_request(chapter: int) -> None:
    """`mget`, `exists`, `mset` and `del` of as many keys as are looked up together, and more: some are there, some are
    not, some stand there twice, some are long, one is a sorted set."""
    long = b"l" * 3000
    with start(chapter) as server, server.connect() as conn:
        fill(conn)
        conn.ask("set", long, "long", expect=DONE)
        for n in SIZES:
            keys: List[bytes] = []
            values: List[object] = []
            for i in range(n):
                key, value = [(b"fill%06d" % i, b"%06d" % i), (b"none%06d" % i, None), (b"fill000007", b"000007"),
                              (long, b"long"), (b"large", None)][i % 5]  # fmt: skip
                keys.append(key)
                values.append(value)
            conn.ask("mget", *keys, expect=values)
            conn.ask("exists", *keys, expect=n - sum(key[:4] == b"none" for key in keys))
            pairs = [(b"new%06d" % i, b"%d" % i) for i in range(n)]
            conn.ask("mset", *[word for pair in pairs for word in pair], expect=DONE)
            conn.ask("mget", *[key for key, _ in pairs], expect=[value for _, value in pairs])
            conn.ask("del", *[key for key, _ in pairs], b"none", expect=n)
            conn.ask("exists", *[key for key, _ in pairs], expect=0)
