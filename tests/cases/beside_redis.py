"""Redis beside our server (17 and later): random commands with all their options go to both, and the bytes that come
back must be the same; from 18 on over several connections, in several databases. Where redis-server is not installed, a
line says that this was left out.
"""
from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from typing import Dict, List, Sequence, Tuple, Union

from harness import Conn, Server, fail, limit, redis, seed, settings
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
AMOUNTS = ["100", "100000", "0", "-1", "x", "9223372036854775", "9223370399119966", "-9223372036854776"]
AMOUNTS_MS = ["100000", "50000000", "0", "-1", "x", "9223372036854775807", "-9223372036854775808"]
# what stands for several words, one after the other
GRAMMAR: Dict[str, Sequence[Union[Sequence[str], str]]] = {
    "get": [KEYS], "set": [KEYS, VALUES], "del": ["keys"], "unlink": ["keys"], "exists": ["keys"], "mget": ["keys"],
    "mset": ["pairs"], "incr": [KEYS], "decr": [KEYS], "incrby": [KEYS, NUMBERS], "decrby": [KEYS, NUMBERS],
    "append": [KEYS, VALUES], "strlen": [KEYS], "type": [KEYS], "keys": [PATTERNS], "dbsize": [], "persist": [KEYS],
    "ttl": [KEYS], "zscore": [KEYS, NAMES], "zcard": [KEYS], "zrank": [KEYS, NAMES], "zrevrank": [KEYS, NAMES],
    "zrem": [KEYS, "names"], "zadd": [KEYS, "zadd options", "scores"], "zcount": [KEYS, ENDS, ENDS],
    "zrange": [KEYS, ENDS, ENDS, "range options"], "zrangebyscore": [KEYS, ENDS, ENDS, "score options"],
    "zincrby": [KEYS, [*SCORES, "nx", "CH"], NAMES], "ping": ["maybe"], "echo": [VALUES],
    "select": [["0", "x", "-1", ""]], "flushall": [["async", "sync", "now"]],
    "expire": [KEYS, AMOUNTS, "expire options"], "pexpire": [KEYS, AMOUNTS_MS, "expire options"],
}  # fmt: skip
INDEXES = ["0", "0", "1", "2", "15", "16", "-1", "x", "2147483648"]
FAR = ["4000000000", "9000000000", "50000000000"]  # seconds, not near to any that is counted from now on
DATES = [*FAR, "1", "0", "-1", "x", "9223372036854775", "9223372036854776", ""]
DATES_MS = ["4000000000499", "4000000000500", "9000000000000", "1", "0", "-5", "9223372036854775807", "1e3"]
# from 18 on; those of before may be there twice
GRAMMAR_18: Dict[str, Sequence[Union[Sequence[str], str]]] = {
    **GRAMMAR, "select": [INDEXES], "move": [KEYS, INDEXES], "swapdb": [INDEXES, INDEXES], "flushdb": ["maybe how"],
    "rename": [KEYS, KEYS], "renamenx": [KEYS, KEYS], "copy": [KEYS, KEYS, "copy options"], "touch": ["keys"],
    "randomkey": [], "scan": [["0", "0", "0 ", "x", "-1x", "99999999999999999999"], "scan options"],
    "setnx": [KEYS, VALUES],
    "getset": [KEYS, VALUES], "getdel": [KEYS], "getex": [KEYS, "getex options"], "setex": [KEYS, AMOUNTS, VALUES],
    "psetex": [KEYS, AMOUNTS_MS, VALUES], "expireat": [KEYS, DATES, "date options"],
    "pexpireat": [KEYS, DATES_MS, "date options"], "expiretime": [KEYS], "pexpiretime": [KEYS], "pttl": [KEYS],
}  # fmt: skip
OFTEN = ("set", "expireat", "pexpireat", "pexpiretime", "copy", "move", "rename")
RARELY = ("flushall", "flushdb", "swapdb")
SET = ["nx", "xx", "get", "keepttl", "NX", "ex 100", "px 100000", "ex 0", "ex x", "px -1", "ex 9223370399119966", "ex",
       "nonsense"]  # fmt: skip
ZADD = ["nx", "xx", "gt", "lt", "ch", "incr", "CH"]
EXPIRE = ["nx", "xx", "NX", "nonsense"]
RANGE = ["withscores", "byscore", "rev", "limit 0 2", "limit 1 -1", "limit x 1", "limit 1", "REV", "nonsense"]
OPTIONS_18: Dict[str, Sequence[str]] = {
    "copy options": ["replace", "db 1", "DB 0", "db 2", "db 16", "db x", "db", "nonsense"],
    "scan options": ["count 5", "count 0", "count x", "match k*", "type string", "type none", "match", "nonsense 1"],
    "getex options": ["persist", "ex 100", "px 100000", "exat 4000000000", "PXAT 4000000000500", "exat 1", "ex 0",
                      "ex x", "pxat -1", "keepttl", "ex"],
    "date options": ["nx", "xx", "gt", "lt", "GT", "nonsense"],
    "maybe how": ["async", "sync", "now"],
    "set options": ["exat 4000000000", "pxat 4000000000500", "EXAT 9000000000", "pxat 0", "exat -1", "exat x",
                    "persist"],
}  # fmt: skip
BYSCORE = ["withscores", "limit 0 2", "limit 1 1", "limit -1 1", "limit 1 x", "nonsense", "WithScores"]


def _some(rng: random.Random, options: Sequence[str], chance: float) -> List[str]:
    """None of these most of the time, or a few, each as one word or more."""
    words: List[str] = []
    while rng.random() < chance:
        words += rng.choice(options).split()
    return words


def _words(rng: random.Random, chapter: int) -> List[bytes]:
    """A command."""
    grammar, options = (GRAMMAR, {}) if chapter < KEYSPACE_FROM else (GRAMMAR_18, OPTIONS_18)
    names = [*grammar, *(name for name in OFTEN if name in grammar and chapter >= KEYSPACE_FROM)]
    name = rng.choice([name for name in names if name not in RARELY or rng.random() < 0.1])
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
            known = {"zadd options": ZADD, "range options": RANGE, "score options": BYSCORE,
                     "expire options": EXPIRE, **options}  # fmt: skip
            words += _some(rng, known[part], 0.4)
    if name == "set":
        words += _some(rng, [*SET, *options.get("set options", [])], 0.4)
    if rng.random() < 0.03:
        words = words[:-1] if len(words) > 1 and rng.random() < 0.5 else [*words, "x"]
    return [word.encode("latin-1") for word in words]


def _replies(conn: Conn, batch: Sequence[Sequence[bytes]]) -> List[bytes]:
    conn.send(b"".join(array(*words) for words in batch))
    return [conn.recv_body() for _ in batch]


def _same(words: Sequence[bytes], here: bytes, there: bytes) -> bool:
    """Are they what two servers may say that were asked one after the other? Keys come in any order, a step of SCAN has
    any of them; what was counted from now on was counted from another moment."""
    name = words[0].lower()
    if here == there or not here[:1] == there[:1]:
        return here == there
    if name == b"keys":
        return sorted(here.split(b"\r\n")) == sorted(there.split(b"\r\n"))
    if name == b"scan":
        return here[:1] == b"*"
    if name == b"randomkey":
        return here[:1] == b"$" and b"$-1\r\n" not in (here, there)
    seconds, late = name in (b"ttl", b"expiretime"), limit(5)
    if here[:1] == b":" and (seconds or name in (b"pttl", b"pexpiretime")):
        mine, theirs = int(here[1:]) / (1 if seconds else 1000), int(there[1:]) / (1 if seconds else 1000)
        dated = name in (b"expiretime", b"pexpiretime") and max(mine, theirs) >= int(FAR[0])
        return min(mine, theirs) >= 0 and abs(mine - theirs) <= late and not dated
    return False


def _all_of(conn: Conn) -> List[bytes]:
    """The keys of its database, by SCAN from its first step to its last."""
    cursor, found = b"0", set()
    while True:
        cursor, keys = conn.ask("scan", cursor, "count", "3")  # type: ignore[misc]
        found.update(keys)
        if cursor == b"0":
            return sorted(found)


@case(since=17, ours="it is Redis that ours is compared with", time_limit=300)
def the_same_bytes_as_redis(chapter: int) -> None:
    """In both versions of the protocol. DIFF_SECONDS says for how long (make fuzz: half a minute)."""
    settings.needs(redis.NAME)
    rng, end = random.Random(seed()), time.monotonic() + float(os.environ.get("DIFF_SECONDS", "1.5"))
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other, ExitStack() as stack:
        pairs: List[Tuple[Conn, Conn]] = [
            (stack.enter_context(server.connect()), stack.enter_context(other.connect()))
            for _ in range(1 if chapter < KEYSPACE_FROM else 3)
        ]
        before: List[Sequence[bytes]] = []
        while time.monotonic() < end:
            number, version = rng.randrange(len(pairs)), rng.choice(["2", "3"])
            mine, theirs = pairs[number]
            for conn in (mine, theirs):
                _replies(conn, [[b"hello", version.encode()]])
                conn.version = int(version)
            batch = [_words(rng, chapter) for _ in range(rng.choice([1, 10, 100]))]
            for words, here, there in zip(batch, _replies(mine, batch), _replies(theirs, batch)):
                before.append(words)
                if not _same(words, here, there):
                    near = [each for each in before[-40:] if set(each[1:3]) & set(words[1:3])][-12:]
                    shown = "\n".join(f"  {show_args(each)}" for each in near)
                    fail(f"in version {version} of the protocol, connection {number}\n{shown}\nis answered "
                         f"{show_bytes(here, 300)}", "", f"{show_bytes(there, 300)}, as Redis says")  # fmt: skip
            if chapter >= KEYSPACE_FROM and rng.random() < 0.1 and _all_of(mine) != _all_of(theirs):
                fail(f"a pass of SCAN finds {_all_of(mine)}", "", f"{_all_of(theirs)}, as with Redis")
