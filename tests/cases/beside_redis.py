"""Redis beside our server (20 and later): random commands with their options go to both, and the bytes that come
back must be the same; from 22 on over several connections, in several databases. Where redis-server is not installed, a
line says that this was left out.
"""
from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from typing import List, Sequence, Tuple

from harness import Conn, Server, fail, limit, redis, resp, seed, settings
from harness.codec import codec
from harness.grammar import LATER, RespGenerator
from harness.resp import array
from harness.wire import show_args, show_bytes

from . import case
from .talk import start

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "send the same command to redis-server with redis-cli: the reply is Redis's to the byte, its errors too"


def _is_known(words: Sequence[bytes]) -> bool:
    """Is it a command of Redis, whose name it does not take for another by chance, and without -0, which is 0 here?
    Redis reads the end of a range only up to a NUL, and each server finds in its own time a key that is set dead."""
    name = words[0].lower()
    if (b"pxat", b"1") in zip(words, words[1:]):
        return False
    is_range = name in (b"zrange", b"zrangebyscore", b"zcount", b"zrevrange", b"zrevrangebyscore", b"zremrangebyscore")
    if name in resp.NOT_IN_REDIS or b"-0" in words:
        return False
    return b"\0" not in name + b"".join(words[2:4] if is_range else [])


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
    if name in (b"scan", b"zscan"):
        return here[:1] == b"*"
    if name == b"randomkey":
        return here[:1] == b"$" and b"$-1\r\n" not in (here, there)
    seconds, late = name in (b"ttl", b"expiretime"), limit(5)
    if here[:1] == b":" and (seconds or name in (b"pttl", b"pexpiretime")):
        mine, theirs = int(here[1:]) / (1 if seconds else 1000), int(there[1:]) / (1 if seconds else 1000)
        dated = name in (b"expiretime", b"pexpiretime") and max(mine, theirs) >= int(LATER[0])
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


@case(since=20, ours="it is Redis that ours is compared with", time_limit=300)
def the_same_bytes_as_redis(chapter: int) -> None:
    """In both versions of the protocol. DIFF_SECONDS says for how long (make fuzz: half a minute)."""
    settings.needs(redis.NAME)
    rng, end = random.Random(seed()), time.monotonic() + float(os.environ.get("DIFF_SECONDS", "1.5"))
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other, ExitStack() as stack:
        pairs: List[Tuple[Conn, Conn]] = [
            (stack.enter_context(server.connect()), stack.enter_context(other.connect()))
            for _ in range(3 if codec(chapter).has_keyspace else 1)
        ]
        generator = RespGenerator(chapter, rng)
        before: List[Sequence[bytes]] = []
        while time.monotonic() < end:
            number, version = rng.randrange(len(pairs)), rng.choice(["2", "3"])
            mine, theirs = pairs[number]
            for conn in (mine, theirs):
                _replies(conn, [[b"hello", version.encode()]])
                conn.version = int(version)
            batch = list(filter(_is_known, (generator.command() for _ in range(rng.choice([1, 10, 100])))))
            for words, here, there in zip(batch, _replies(mine, batch), _replies(theirs, batch)):
                before.append(words)
                if not _same(words, here, there):
                    near = [each for each in before[-40:] if set(each[1:3]) & set(words[1:3])][-12:]
                    shown = "\n".join(f"  {show_args(each)}" for each in near)
                    fail(f"in version {version} of the protocol, connection {number}\n{shown}\nis answered "
                         f"{show_bytes(here, 300)}", "", f"{show_bytes(there, 300)}, as Redis says")  # fmt: skip
            if codec(chapter).has_scan and rng.random() < 0.1 and _all_of(mine) != _all_of(theirs):
                fail(f"a pass of SCAN finds {_all_of(mine)}", "", f"{_all_of(theirs)}, as with Redis")


@case(since=21, ours="it is Redis that ours is compared with")
def rows_of_the_table_are_those_of_redis(chapter: int) -> None:
    """Of each command the name, the arity, and where its keys are: proxies and libraries go by it."""
    settings.needs(redis.NAME)
    names = [name for name in resp.arity(chapter) if name not in resp.NOT_IN_REDIS]
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other:
        with server.connect() as mine, other.connect() as theirs:
            ours, its = (conn.ask("command", "info", *names) for conn in (mine, theirs))
    assert isinstance(ours, list) and isinstance(its, list)
    for row, as_redis in zip(ours, its):
        if row[:2] + row[3:6] != as_redis[:2] + as_redis[3:6]:
            fail(f"command info {row[0].decode()}: arity {row[1]}, keys {row[3:6]}", "is a column of its row wrong?",
                 f"arity {as_redis[1]}, keys {as_redis[3:6]}, as Redis says")  # fmt: skip
