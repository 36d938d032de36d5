"""Redis beside our server (17 and later): random commands with all their options go to both, and the bytes that come
back must be the same. Where redis-server is not installed, a line says that this was left out.
"""
from __future__ import annotations

import os
import random
import re
import time
from typing import Dict, List, Sequence, Union

from harness import Conn, Server, fail, redis, seed, settings
from harness.resp import array
from harness.wire import KEYSPACE_FROM, show_args, show_bytes

from . import case
from .talk import start

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = "server.*"

KEYS = ["k", "l", "m", "z", "y", "", "key:1", "\x00"]
NUMBERS = ["0", "1", "-1", "2", "5", "-3", "100", "x", "", "1.5", "9223372036854775807", "-9223372036854775808", "01"]
SCORES = ["0", "1", "2", "-1.5", "0.1", "inf", "-inf", "3e2", "x", "nan", "1", "0x10", "1e400"]
ENDS = [*SCORES, "(1", "(0", "(-inf", "(x", "("]
VALUES = ["v", "", "10", "-5", "long " * 20, "0", "a\r\nb"]
NAMES = ["a", "b", "c", "d", "", "aa", "\xff"]
PATTERNS = ["*", "k*", "?", "[a-l]", "key:[0-9]", "\\k", "*:*", "[^k]", "no"]
# what stands for several words, one after the other
GRAMMAR: Dict[str, Sequence[Union[Sequence[str], str]]] = {
    "get": [KEYS], "set": [KEYS, VALUES], "del": ["keys"], "unlink": ["keys"], "exists": ["keys"], "mget": ["keys"],
    "mset": ["pairs"], "incr": [KEYS], "decr": [KEYS], "incrby": [KEYS, NUMBERS], "decrby": [KEYS, NUMBERS],
    "append": [KEYS, VALUES], "strlen": [KEYS], "type": [KEYS], "keys": [PATTERNS], "dbsize": [], "persist": [KEYS],
    "ttl": [KEYS], "zscore": [KEYS, NAMES], "zcard": [KEYS], "zrank": [KEYS, NAMES], "zrevrank": [KEYS, NAMES],
    "zrem": [KEYS, "names"], "zadd": [KEYS, "zadd options", "scores"], "zcount": [KEYS, ENDS, ENDS],
    "zrange": [KEYS, ENDS, ENDS, "range options"], "zrangebyscore": [KEYS, ENDS, ENDS, "score options"],
    "zincrby": [KEYS, SCORES, NAMES], "ping": ["maybe"], "echo": [VALUES], "select": [["0", "x", "-1", ""]],
    "flushall": [["async", "sync", "now"]],
}  # fmt: skip
# the same for chapter 18 on
TIMES = ["3000000000", "3000000500", "1", "0", "-1", "x", "9223372036854775807", "9223372036854776", "1600000000"]
DBS = ["0", "1", "1", "2", "15", "16", "-1", "x", ""]
KEYSPACE: Dict[str, Sequence[Union[Sequence[str], str]]] = {
    **GRAMMAR, "select": [DBS], "move": [KEYS, DBS], "swapdb": [DBS, DBS], "rename": [KEYS, KEYS],
    "renamenx": [KEYS, KEYS], "copy": [KEYS, KEYS, "copy options"], "touch": ["keys"], "getdel": [KEYS],
    "getset": [KEYS, VALUES],
    "getex": [KEYS, "getex options"], "setnx": [KEYS, VALUES], "setex": [KEYS, ["3000", "0", "-1", "x"], VALUES],
    "psetex": [KEYS, ["3000000", "0", "-1", "x", "9223372036854775807"], VALUES], "flushdb": [["async", "sync", "now"]],
    "expireat": [KEYS, TIMES, "expire options"], "pexpireat": [KEYS, TIMES, "expire options"], "expiretime": [KEYS],
    "pexpiretime": [KEYS], "expire": [KEYS, ["0", "-1", "1000000", "x", "9223372036854775807"], "expire options"],
    "scan": [["0", "0", "0", "x", "0 "], ["count"], ["1000"], "scan options"],
}  # fmt: skip
COPY = ["replace", "REPLACE", "db 1", "db 0", "db 16", "db x", "db", "nonsense"]
GETEX = ["persist", "exat 3000000000", "pxat 1", "exat 0", "px x", "ex", "pxat 3000000000000", "nonsense", "PERSIST"]
EXPIRE = ["nx", "xx", "gt", "lt", "GT", "nonsense"]
SCAN = ["match *", "match k*", "type string", "type zset", "type hash", "count 0", "count x", "match", "count 2000"]
SET = [
    "nx", "xx", "get", "keepttl", "NX", "ex 100", "px 100000", "ex 0", "ex x", "px -1", "ex 9223370399119966",
    "nonsense", "ex",
]  # fmt: skip
ZADD = ["nx", "xx", "gt", "lt", "ch", "incr", "CH"]
RANGE = ["withscores", "byscore", "rev", "limit 0 2", "limit 1 -1", "limit x 1", "limit 1", "REV", "nonsense"]
BYSCORE = ["withscores", "limit 0 2", "limit 1 1", "limit -1 1", "limit 1 x", "nonsense", "WithScores"]


OPTIONS = {
    "zadd options": ZADD, "range options": RANGE, "score options": BYSCORE, "copy options": COPY,
    "getex options": GETEX, "expire options": EXPIRE, "scan options": SCAN,
}  # fmt: skip


def _some(rng: random.Random, options: Sequence[str], chance: float) -> List[str]:
    """None of these most of the time, or a few, each as one word or more."""
    words: List[str] = []
    while rng.random() < chance:
        words += rng.choice(options).split()
    return words


def _words(rng: random.Random, chapter: int) -> List[bytes]:
    """A command."""
    grammar = GRAMMAR if chapter < KEYSPACE_FROM else KEYSPACE
    name = rng.choice([name for name in grammar if not name.startswith("flush") or rng.random() < 0.1])
    words: List[str] = [rng.choice([name, name.upper()])]
    count = rng.choice([1, 1, 2, 3])
    for part in grammar[name]:
        if not isinstance(part, str):
            words.append(rng.choice(part))
        elif part in ("keys", "names"):
            words += [rng.choice(KEYS if part == "keys" else NAMES) for _ in range(count)]
        elif part == "pairs":
            words += [word for _ in range(count) for word in (rng.choice(KEYS), rng.choice(VALUES))]
        elif part == "scores":
            words += [word for _ in range(count) for word in (rng.choice(SCORES), rng.choice(NAMES))]
        elif part == "maybe":
            words += _some(rng, ["hi"], 0.4)
        else:
            words += _some(rng, OPTIONS[part], 0.4)
    if name == "set":
        words += _some(rng, SET if chapter < KEYSPACE_FROM else [*SET, "xx", "exat 3000000000", "pxat 0"], 0.4)
    if rng.random() < 0.03:
        words = words[:-1] if len(words) > 1 and rng.random() < 0.5 else [*words, "x"]
    return [word.encode("latin-1") for word in words]


def _replies(conn: Conn, batch: Sequence[Sequence[bytes]]) -> List[bytes]:
    conn.send(b"".join(array(*words) for words in batch))
    return [conn.recv_body() for _ in batch]


def _ordered(words: Sequence[bytes], reply: bytes) -> bytes:
    """Keys come in any order."""
    lines = reply.split(b"\r\n")
    first = {b"keys": 1, b"scan": 4}.get(words[0].lower(), 0)
    if first and reply.startswith(b"*"):
        return b"\r\n".join([*lines[:first], *sorted(lines[first:])])
    return reply


def _same_time(words: Sequence[bytes], here: bytes, there: bytes) -> bool:
    """Both servers have been given a time at the same time, or nearly."""
    told = [re.fullmatch(rb":(\d+)\r\n", reply) for reply in (here, there)]
    asks = words[0].lower() in (b"expiretime", b"pexpiretime", b"ttl")
    return asks and all(told) and abs(int(told[0][1]) - int(told[1][1])) < 60_000  # type: ignore[index]


@case(since=17, ours="it is Redis that ours is compared with", time_limit=300)
def the_same_bytes_as_redis(chapter: int) -> None:
    """In both versions of the protocol. DIFF_SECONDS says for how long (make fuzz: half a minute)."""
    settings.needs(redis.NAME)
    rng, end = random.Random(seed()), time.monotonic() + float(os.environ.get("DIFF_SECONDS", "1.5"))
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other:
        with server.connect() as mine, other.connect() as theirs:
            before: List[Sequence[bytes]] = []
            while time.monotonic() < end:
                version = rng.choice(["2", "3"])
                for conn in (mine, theirs):
                    conn.send(array("hello", version))
                    conn.recv_body()
                batch = [_words(rng, chapter) for _ in range(rng.choice([1, 10, 100]))]
                for words, here, there in zip(batch, _replies(mine, batch), _replies(theirs, batch)):
                    before.append(words)
                    if _ordered(words, here) != _ordered(words, there) and not _same_time(words, here, there):
                        shown = "\n".join(f"  {show_args(each)}" for each in before[-8:] if each[1:2] == words[1:2])
                        fail(f"in version {version} of the protocol\n{shown}\nis answered {show_bytes(here, 300)}",
                             "", f"{show_bytes(there, 300)}, as Redis says")  # fmt: skip
