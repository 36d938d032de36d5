"""Memory (06 and later): how much there is at most while clients do their worst, and how often some is asked for.

Every allocation of the server is counted (cases/memory.c), so the numbers are the same in each run.
"""
from __future__ import annotations

import mmap
import os
import struct
import tempfile
from contextlib import ExitStack
from typing import List

from harness import Conn, Err, Server, Status, fail, settings, wait_until, wire
from harness.codec import codec
from harness.wire import DONE, Arg

from . import case
from .talk import (
    answered, asked, bulk, encode, encode_replies, numbered, preload, say, start, talk, watched,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "memory: what a buffer, a queue or a reply has held must be given back once it is empty, and be counted in bytes "
    "while not"
)

KIB, MIB = 1 << 10, 1 << 20
TOO_BIG = Err(wire.ERR_2BIG)


class Memory:
    """Counts what a server allocates: `memory = Memory()`, then `with start(9, env=memory.env) as server:`"""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(32))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.map = mmap.mmap(self.file.fileno(), 32)
        self.env = {"MEMORY_FILE": self.file.name, **preload("memory")}

    def _get(self, index: int) -> int:
        return struct.unpack_from("=Q", self.map, 8 * index)[0]

    @property
    def blocks(self) -> int:
        """How many there are now."""
        return self._get(0)

    @property
    def bytes(self) -> int:
        """How large they are together."""
        return self._get(1)

    @property
    def ever(self) -> int:
        """How many were allocated since the start, or resized."""
        return self._get(3)

    def begin(self) -> None:
        """The highest point is looked for from now on."""
        struct.pack_into("=Q", self.map, 16, 0)

    @property
    def most(self) -> int:
        """How large they were together at the highest point."""
        return self._get(2)


def come_to_rest(conn: Conn, server: Server, fds: int) -> None:
    """Waits until the server has accepted all who have connected, has that many descriptors, and has done all that it
    had to do until now. Who connected before a request was sent is accepted before its reply, and what belongs to a
    reply is done before the next request on the connection is read."""
    say(conn)
    wait_until(lambda: server.fd_count() == fds, f"the server has {fds} descriptors")
    say(conn)


# ---- at most ----


@case(since=6, inside=True)
def rejected_clients_that_stay(chapter: int) -> None:
    """Forty clients send a large good message, then a bad one and more, and stay. What they had sent is given back."""
    if watched():
        return
    memory, n = Memory(), 40
    requests, replies = talk(chapter, 2, "good", 300_000 if codec(chapter).has_values else 4000)
    good, answers = encode(chapter, requests), encode_replies(chapter, replies)
    with start(chapter, env=memory.env) as server, server.connect() as other, ExitStack() as stack:
        say(other)
        fds, before = server.fd_count(), memory.bytes
        for _ in range(n):
            conn = stack.enter_context(server.connect())
            conn.send(good + codec(chapter).bad + b"x" * (600_000 if codec(chapter).has_values else 40_000))
            conn.expect_bytes(answers)
            conn.expect_refused()
        come_to_rest(other, server, fds + n)
        each = (memory.bytes - before) // n
        if each > (140 if codec(chapter).has_values else 10) * KIB:
            fail(f"{n} clients sent something bad and stay; each costs {each >> 10} KiB")
        say(other)


@case(since=6, inside=True)
def a_hundred_that_come_again(chapter: int) -> None:
    """Clients that leave in the middle of a message, or with replies unread: afterwards the server has no more memory
    than after the first hundred, but for what a buffer may be longer, and as many descriptors."""
    if watched():
        return
    memory = Memory()
    size = 60_000 if codec(chapter).has_values else 3000
    data = encode(chapter, talk(chapter, 2, "half", size)[0])
    with start(chapter, env=memory.env) as server, server.connect() as other:
        say(other)
        fds = server.fd_count()
        seen = []
        for _ in range(3):
            for i in range(25):
                with ExitStack() as stack:
                    for part in (1, len(data) // 2, len(data) - 1, len(data)):
                        conn = stack.enter_context(server.connect())
                        conn.send_some(data[:part], 0.2)
                        if i % 2:
                            conn.reset()
            if codec(chapter).has_values:
                other.ask("set", "big", b"x" * MIB, expect=None)
                for _ in range(10):
                    with server.connect(rcvbuf=4096) as conn:
                        conn.send(asked(chapter, "get", "big") * 8)
                        conn.recv_exactly(1000)
                        conn.unanswered.clear()
                other.ask("del", "big", expect=1)
            come_to_rest(other, server, fds)
            seen.append((memory.blocks, memory.bytes))
        longer = (72 if codec(chapter).has_loans else 32) * KIB  # two shared buffers of 19 and later may have doubled
        if seen[2][0] > seen[0][0] + 4 or seen[2][1] > seen[0][1] + longer:
            fail(f"two hundred clients more have come and gone: {seen[2]} blocks and bytes, not {seen[0]}")


@case(since=9, inside=True)
def a_client_that_is_never_through(chapter: int) -> None:
    """With the end of each message comes the beginning of the next, so the buffer is never empty: it must not grow."""
    if watched():
        return
    memory, n = Memory(), 1500
    data, answer = asked(chapter, "set", "k", b"v" * 3000), answered(chapter, None, "set")
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        say(conn)
        memory.begin()
        before = memory.bytes
        conn.send(data[:100])
        for _ in range(n):
            conn.send(data[100:] + data[:100])
            conn.expect_bytes(answer)
        conn.send(data[100:])
        conn.expect_bytes(answer)
        if memory.most - before > 100 * KIB:
            fail(f"{n} messages of 3 KB, each with the beginning of the next, took {(memory.most - before) >> 10} KiB")


@case(since=9, inside=True)
def replies_that_are_too_big(chapter: int) -> None:
    """That a reply will be too big is seen before all of it is there: however much it would be, making it takes no more
    memory than the largest reply there is, and its buffer while it grows."""
    if watched():
        return
    memory, size, n = Memory(), 4 * MIB, 17
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        say(conn)
        fds = server.fd_count()
        asks: List[List[Arg]] = [["keys"]]
        for i in range(n):
            conn.ask("set", bytes([65 + i]) * size, "", expect=None)
        if codec(chapter).has_sorted_sets:
            asks.append(["zquery", "z", "0", "", "0", "1000"])
            for i in range(n):
                conn.ask("zadd", "z", "1", bytes([65 + i]) * size, expect=1)
        if codec(chapter).has_options:
            conn.ask("set", "k", b"v" * size, expect=DONE)
            asks += [["mget", *["k"] * n], ["zrange", "z", "0", "-1"], ["zrange", "z", "0", "-1", "rev", "withscores"]]
        sent = [(str(words[0]), conn.encode(words)) for words in asks]
        if codec(chapter).has_options:
            for what, name, many in (("info", b"$6\r\nclient\r\n", 200_000), ("docs", b"$6\r\nzquery\r\n", 600_000)):
                two = conn.encode(["command", what])  # and the names, which are sent as bytes: that is quicker
                sent.append((f"command {what}", two.replace(b"*2", b"*%d" % (2 + many), 1) + name * many))
        for what, request in sent:
            memory.begin()
            before = memory.bytes
            conn.send(request)
            conn.recv(expect=TOO_BIG)
            if memory.most - before > 140 * MIB:
                fail(
                    f"the reply to {what} would be too big; to see that took"
                    f" {(memory.most - before) >> 20} MiB",
                    "is all of the reply made before anybody looks how long it is? Look after each value.",
                    "at most 140 MiB, whatever the reply would have",
                )
            come_to_rest(conn, server, fds)
            if memory.bytes - before > MIB:
                fail(f"after {what}, whose reply was too big, {(memory.bytes - before) >> 20} MiB were kept")


@case(since=20, inside=True)
def room_for_many_strings(chapter: int) -> None:
    """The room for the strings of a large request is given back when it is answered."""
    if watched():
        return
    memory = Memory()
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        say(conn)
        before = memory.bytes
        data = b"*100000\r\n" + b"$3\r\nget\r\n" * 100_000
        conn.send(data, [len(data)])
        conn.recv(Err(wire.ERR_ARG))
        wait_until(lambda: conn.ask("get", "none") is None and memory.bytes - before < MIB,
                   "a request of 100,000 strings is refused, and its memory given back")  # fmt: skip


# ---- how often ----


@case(since=8, inside=True)
def allocations(chapter: int) -> None:
    """One for a new key, one for a new pair, from 22 on one for a new deadline, none for what only looks or writes
    over; and tables, heaps and buffers double, so that they are resized a few times and not again and again."""
    if watched():
        return
    memory, n, few = Memory(), 2000, 60
    expected = [(("set", "key:######", "v"), DONE, n), (("set", "key:######", "w"), DONE, 0),
                (("get", "key:######"), Status(0, b"w"), 0)]  # fmt: skip
    if codec(chapter).has_sorted_sets:
        expected += [(("zadd", "z", "######", "n######"), 1, n), (("zadd", "z", "######.5", "n######"), 0, 0),
                     (("zscore", "z", "-"), None, 0)]  # fmt: skip
    if codec(chapter).has_ttl:
        expected += [(("pexpire", "key:######", "1000000"), 1, n if codec(chapter).has_keyspace else 0),
                     (("pexpire", "key:######", "999999"), 1, 0),
                     (("pttl", "-"), -2, 0), (("persist", "key:######"), 1, 0)]  # fmt: skip
    expected += [(("del", "key:######"), 1 if codec(chapter).has_values else DONE, 0)]
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        say(conn)
        for words, reply, most in expected:
            before = memory.ever
            bulk(conn, numbered(range(n), *words), reply)
            took = memory.ever - before
            if took > most + few:  # the buffers of the connection come and go with a batch
                fail(f"{n} times {words[0]}: memory was allocated or resized {took} times, not {most}")
