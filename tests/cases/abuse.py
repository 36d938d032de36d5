"""Abuse (06 and later): whatever a client does, the others are served, and nothing leaks or spins."""
from __future__ import annotations

import time
from bisect import bisect_right
from contextlib import ExitStack
from itertools import accumulate

from harness import fail, limit, wait_until, wire

from . import case
from .talk import (
    done, encode, encode_replies, many, say, start, still_serves, talk, watched,
)  # fmt: skip

SMALL = 4096  # a receive buffer that fills at once


# ---- clients that leave ----


@case(since=6)
def resets_in_the_middle(chapter: int) -> None:
    """Before, in and after a request, with and without a reply under way."""
    data = encode(chapter, talk(chapter, 3, "reset")[0])
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.fd_count()
        for keep in (0, 2, 4, len(data) // 2, len(data) - 1, len(data)):
            for _ in range(5):
                conn = server.connect()
                conn.send(data[:keep])
                conn.reset()
            say(other, tag="other")
        wait_until(lambda: server.fd_count() == before, "the connections that were reset are closed")
        say(other, tag="other")


@case(since=6)
def leaves_with_answers_unread(chapter: int) -> None:
    """Writing to a client that has gone must not kill the server (SIGPIPE)."""
    data = encode(chapter, talk(chapter, 400, "unread", 1000)[0])
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.fd_count()
        for i in range(10):
            conn = server.connect(rcvbuf=SMALL)
            conn.send_some(data, 0.01)
            if i % 2:
                conn.reset()
            else:
                conn.close()
            say(other, tag="other")
        wait_until(lambda: server.fd_count() == before, "the connections that have gone are closed")
        still_serves(server)


# ---- clients that do not read, or do not send ----


@case(since=6)
def never_reads(chapter: int) -> None:
    """Its requests are not taken without end: memory stays bounded, others are served."""
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.rss_kb()
        if chapter >= 7:
            size = 4000 if chapter < 9 else 1 << 20
            other.ask("set", "big", b"x" * size, expect=done(chapter))
            data = wire.request("get", "big") * 5000  # tiny requests, huge replies
            bound = 8 << 10 if chapter < 9 else 160 << 10
        else:
            data = encode(chapter, talk(chapter, 5000, "", 4000)[0])
            bound = 8 << 10
        with server.connect(rcvbuf=SMALL) as conn:
            conn.send_some(data, 0.1)
            say(other, 4, "other")
            grown = server.rss_kb() - before
            if grown > bound + (400 << 10 if watched() else 0):
                fail(f"a client that does not read has cost {grown} KiB, {bound} are plenty")
        say(other, 4, "other")


@case(since=6)
def requests_behind_a_blocked_write(chapter: int) -> None:
    """Once the client reads again, all it had sent is answered without a further byte from it."""
    requests, replies = talk(chapter, 3000, "block", 1500)
    data = encode(chapter, requests)
    ends = list(accumulate(len(encode(chapter, [request])) for request in requests))
    with start(chapter) as server, server.connect(rcvbuf=SMALL) as conn:
        sent = conn.send_some(data, 0.1)
        whole = bisect_right(ends, sent)
        for reply in replies[:whole]:
            conn.recv(reply)
        if whole < len(ends):
            conn.send(data[sent : ends[whole]])
            conn.recv(replies[whole])
        say(conn)


@case(since=6)
def a_thousand_half_headers(chapter: int) -> None:
    """Clients that send two bytes and wait; others get their answers meanwhile."""
    n = many(1000)
    with start(chapter) as server, ExitStack() as stack:
        stalled = [stack.enter_context(server.connect()) for _ in range(n)]
        for conn in stalled:
            conn.send(b"\5\0")
        began = time.monotonic()
        with server.connect() as other:
            say(other, 50, "other")
        if time.monotonic() - began > limit(2):
            fail(f"50 requests beside {n} stalled clients took {time.monotonic() - began:.1f} s")


# ---- descriptors ----


@case(since=6)
def out_of_descriptors(chapter: int) -> None:
    """Neither an exit nor a spin: those who wait are accepted once others have left."""
    requests, replies = talk(chapter, 1, "fd")
    data, reply = encode(chapter, requests), encode_replies(chapter, replies)
    with start(chapter, nofile=24) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(60)]
        for conn in conns:
            conn.send(data)
        for conn in conns[:8]:
            conn.expect_bytes(reply)
        used = server.cpu_ms()
        time.sleep(0.3)
        used = server.cpu_ms() - used
        if used > 100:
            fail(f"out of descriptors, the server used {used} ms of processor time in 300 ms")
        for conn in conns[8:]:
            conns.pop(0).close()
            conn.expect_bytes(reply)
