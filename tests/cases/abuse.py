"""Abuse (06 and later): whatever a client does, others are served, and nothing leaks, grows or spins."""
from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import time
from bisect import bisect_right
from contextlib import ExitStack
from itertools import accumulate
from typing import List

from harness import Conn, Status, exchange, fail, limit, seed, settings, wait_until, wire
from harness.build import program
from harness.codec import codec
from harness.process import clean_env, free_port
from harness.wire import DONE

from . import case
from .processes import leaves
from .talk import (
    SMALL, Counts, Hammer, Hold, asked, encode, encode_replies, end_input, is_closed, many, paused, preload, readable,
    say, start, still_serves, talk, too_much, uses_no_cpu, watched,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__

WAITS = "does it wait for a client that says nothing? A connection that is not ready must hold up nobody."


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
def leaves_before_the_answers(chapter: int) -> None:
    """The second write to a client that has gone must not kill the server (SIGPIPE)."""
    data = encode(chapter, too_much(chapter)[0][:40])
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.fd_count()
        for _ in range(3):
            conn = server.connect()
            wait_until(lambda: server.fd_count() == before + 1, "the connection is accepted")
            with paused(server):
                conn.send_some(data)
                conn.close()
            say(other, tag="other")
            wait_until(lambda: server.fd_count() == before, "the connection that has gone is closed")
        still_serves(server)


@case(since=6)
def leaves_with_answers_unread(chapter: int) -> None:
    """A reset finds the server in the middle of its answers."""
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


@case(since=6, ours="Redis makes all replies at once")
def never_reads(chapter: int) -> None:
    """Its requests are not answered without end: memory stays bounded, others are served.

    From 07 on the requests are tiny, and the replies as large as they can be.
    """
    bound = (160 << 10) if codec(chapter).has_values else (8 << 10)
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        data = encode(chapter, talk(chapter, 5000, "", 4000)[0])
        if codec(chapter).has_commands:
            other.ask("set", "big", b"x" * (codec(chapter).large), expect=DONE)
            data = asked(chapter, "get", "big") * 5000
        before = server.rss_kb()
        with server.connect(rcvbuf=SMALL) as conn:
            conn.send_some(data, 0.1)
            say(other, 4, "other")
            grown = server.rss_kb() - before
            if grown > bound + (500 << 10 if watched() else 0):
                fail(
                    f"a client that does not read has cost {grown} KiB of memory",
                    "does the server read on, and keep every reply? Stop reading from a client until it takes its "
                    "replies.",
                    f"{bound} KiB at most, however much the client asks",
                )
        say(other, 4, "other")


@case(since=6)
def announces_and_does_not_send(chapter: int) -> None:
    """Memory grows with the bytes that came, not with the length that was announced."""
    with start(chapter) as server, ExitStack() as stack:
        still_serves(server)
        before = server.rss_kb()
        for _ in range(50):
            stack.enter_context(server.connect()).send(codec(chapter).announce(wire.max_msg(chapter)) + b"x" * 10)
        still_serves(server)
        grown = server.rss_kb() - before
        if grown > (16 << 10) + (500 << 10 if watched() else 0):
            fail(
                f"50 clients that sent 14 bytes each have cost {grown} KiB of memory",
                "is room made for as many bytes as the length announces? Let it grow with the bytes that come.",
                f"{16 << 10} KiB at most",
            )


@case(since=6)
def requests_behind_a_blocked_write(chapter: int) -> None:
    """Once the client reads again, all it had sent is answered without a further byte from it."""
    requests, replies = too_much(chapter)
    if codec(chapter).is_text:  # as long as they may be: send() seldom takes a part of a short one
        requests, replies = talk(chapter, 2000, "much", 4093)
    data = encode(chapter, requests)
    ends = list(accumulate(len(encode(chapter, [request])) for request in requests))
    with start(chapter) as server, server.connect(rcvbuf=1 << 16) as conn:
        sent = conn.send_some(data)
        whole = bisect_right(ends, sent)
        conn.expect_bytes(encode_replies(chapter, replies[:whole]))
        conn.unanswered.clear()
        if whole < len(ends):
            conn.send(data[sent : ends[whole]])
            conn.recv(replies[whole])
        say(conn)


@case(since=7)
def large_replies_in_parts(chapter: int) -> None:
    """Each write takes a part; the rest follows from the right place, in order."""
    size = codec(chapter).large
    values = [bytes([65 + i]) * size for i in range(4)]
    with start(chapter) as server, server.connect(rcvbuf=1 << 16) as conn:
        for i, value in enumerate(values):
            conn.ask("set", f"k{i}", value, expect=DONE)
        conn.pipeline(
            [("get", f"k{i % 4}") for i in range(40)],
            [Status(0, values[i % 4]) for i in range(40)],
        )


@case(since=6, ours="Redis drops the replies of a client that has ended its input")
def half_closed_and_not_reading(chapter: int) -> None:
    """The end of input has come, answers are still under way: no spin, and all of them arrive."""
    requests, replies = too_much(chapter)
    data = encode(chapter, requests)
    ends = list(accumulate(len(encode(chapter, [request])) for request in requests))
    with start(chapter) as server, server.connect(rcvbuf=1 << 16) as conn:
        sent = conn.send_some(data, 0.1)
        conn.shutdown_write()
        uses_no_cpu(server, "a client that has half-closed and does not read")
        conn.expect_bytes(encode_replies(chapter, replies[: bisect_right(ends, sent)]))
        conn.expect_closed(reset_ok=False)


@case(since=6)
def a_thousand_half_headers(chapter: int) -> None:
    """Clients that send two bytes and wait; others get their answers meanwhile."""
    n = many(1000)
    with start(chapter) as server, ExitStack() as stack:
        stalled = [stack.enter_context(server.connect()) for _ in range(n)]
        for conn in stalled:
            conn.send(codec(chapter).half)
        with server.connect() as other:
            began = time.monotonic()
            say(other, 100, "other")
            took = time.monotonic() - began
        if took > limit(2):
            fail(f"100 requests beside {n} stalled clients took {took:.1f} s", WAITS, f"{limit(2):g} s at most")
        uses_no_cpu(server, f"{n} stalled clients")


@case(since=6)
def a_flood_beside_others(chapter: int) -> None:
    """A client that never stops asking gets its turns, not all of them."""
    with start(chapter) as server, server.connect() as other, Hammer(server):
        began = time.monotonic()
        say(other, 50, "other")
        took = time.monotonic() - began
        if took > limit(3):
            fail(
                f"50 requests beside a client that floods the server took {took:.1f} s",
                "does a client that always has more to say keep its turn? Serve so much of it, then the others.",
                f"{limit(3):g} s at most",
            )


# ---- many connections ----


@case(since=6)
def a_burst_of_connections(chapter: int) -> None:
    """They come at once, and none waits seconds for its turn."""
    n = many(2000)
    requests, replies = talk(chapter, 1, "burst")
    data, reply = encode(chapter, requests), encode_replies(chapter, replies)
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        for conn in conns:
            conn.send(data)
        began = time.monotonic()
        for conn in conns:
            conn.expect_bytes(reply)
        took = time.monotonic() - began
        if took > limit(4):
            fail(f"the last of {n} connections was answered after {took:.1f} s", WAITS, f"{limit(4):g} s at most")
        for conn in conns[::2]:
            conn.close()
        for conn in conns[1::200]:
            say(conn, tag="late")


@case(since=6, inside=True)
def accepts_until_nobody_waits(chapter: int) -> None:
    """One round of the loop for all that wait, not one round for each."""
    counts = Counts()
    with start(chapter, env=counts.env) as server, ExitStack() as stack:
        say(stack.enter_context(server.connect()))
        before = server.fd_count()
        with paused(server):
            for _ in range(200):
                stack.enter_context(server.connect())
            counts.reset()
        wait_until(lambda: server.fd_count() == before + 200, "all who wait are accepted")
        if counts.polls > 20:
            fail(
                f"to accept 200 connections that waited, the server called poll {counts.polls} times",
                "is one connection accepted in each round? Call accept() until it says EAGAIN.", "20 times at most",
            )


@case(since=6, inside=True, perhaps="where a connection cannot be made nonblocking, close it, and go on with the next")
def some_stay_blocking(chapter: int) -> None:
    """fcntl() refuses to make some connections nonblocking (cases/stays_blocking.c). They are closed, and the others
    served."""
    with start(chapter, env=preload("stays_blocking")) as server, ExitStack() as stack:
        fds = server.fd_count()
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        for conn in conns:
            conn.send(encode(chapter, talk(chapter, 2, "mode")[0]))
        wait_until(lambda: all(map(readable, conns)), "each client is answered or closed")
        closed = 0
        for conn in conns:
            if is_closed(conn):
                closed += 1
            else:
                conn.expect_bytes(encode_replies(chapter, talk(chapter, 2, "mode")[1]))
        if closed != 10 or server.fd_count() != fds + 20:
            fail(f"of 30 clients {closed} were closed, and there are {server.fd_count() - fds} descriptors more",
                 expected="10 closed, and 20 descriptors more")  # fmt: skip


@case(since=6, inside=True)
def accepts_a_thousand_at_most(chapter: int) -> None:
    """So many wait that to accept all of them takes long: between some and the others the server looks who is ready."""
    counts, n = Counts(), many(1500)
    with start(chapter, env=counts.env) as server, ExitStack() as stack:
        say(stack.enter_context(server.connect()))
        before = server.fd_count()
        with paused(server):
            for _ in range(n):
                stack.enter_context(server.connect())
        wait_until(lambda: server.fd_count() == before + n, "all who wait are accepted")
        if counts.most_accepts > 1000:
            fail(
                f"{n} connections waited, and the server called accept {counts.most_accepts} times in one round",
                "is everybody accepted before anybody else is served?", "1000 times at most",
            )


@case(since=6)
def thousands_come_stall_reset_and_go(chapter: int) -> None:
    """No descriptor is lost, memory does not grow, and one connection through it all is served."""
    rng = random.Random(seed())
    requests, replies = talk(chapter, 2, "come")
    data = encode(chapter, requests)
    most = min(many(300), 300)
    with start(chapter) as server, server.connect() as other, ExitStack() as stack:
        say(other, tag="other")
        before, rss = server.fd_count(), 0
        stalled: List[Conn] = []
        for i in range(2000):
            conn = stack.enter_context(server.connect())
            what = rng.randrange(6)
            if what == 0:
                conn.close()
            elif what == 1:
                conn.send(data)
                conn.reset()
            elif what == 2:
                conn.send(data[: rng.randrange(1, len(data))])
                conn.reset()
            elif what == 3:
                conn.send(data)
                conn.close()
            elif what == 4:
                conn.send(data)
                for reply in replies:
                    conn.recv(reply)
                conn.close()
            else:
                conn.send(data[: rng.randrange(1, len(data))])
                stalled.append(conn)
            if len(stalled) >= most:
                for conn in stalled:
                    conn.close()
                stalled.clear()
            if i % 100 == 0:
                say(other, tag="other")
            if i == 1000:
                rss = server.rss_kb()
        for conn in stalled:
            conn.close()
        wait_until(lambda: server.fd_count() == before, "all connections but one are closed")
        say(other, tag="other")
        grown = server.rss_kb() - rss
        if grown > 4 << 10 and not watched():
            fail(
                f"1,000 connections that came and went have cost {grown} KiB of memory",
                "is everything freed that a connection had, however it ended?", "4096 KiB at most",
            )


@case(since=6)
def replies_keep_their_order(chapter: int) -> None:
    """Several connections pipeline at the same time; each gets its own answers in its own order."""
    with start(chapter) as server, ExitStack() as stack:
        talks = [talk(chapter, 500, f"c{i}") for i in range(8)]
        conns = [stack.enter_context(server.connect()) for _ in talks]
        jobs = [
            (conn, encode(chapter, requests), len(requests))
            for conn, (requests, _) in zip(conns, talks)
        ]
        for conn, (requests, replies), bodies in zip(conns, talks, exchange(jobs)):
            for request, reply, body in zip(requests, replies, bodies):
                conn.check(body, reply, request)


# ---- descriptors ----


@case(since=6, ours="Redis needs more descriptors of its own")
def out_of_descriptors(chapter: int) -> None:
    """Neither an exit nor a spin: those who wait are accepted once others have left."""
    if os.environ.get("WRAPPER"):
        return  # valgrind itself closes connections whose descriptor is above the limit
    requests, replies = talk(chapter, 1, "fd")
    data, reply = encode(chapter, requests), encode_replies(chapter, replies)
    with start(chapter, nofile=24) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(60)]
        for conn in conns:
            conn.send(data)
        for conn in conns[:8]:
            conn.expect_bytes(reply)
        uses_no_cpu(server, "a server that is out of descriptors")
        for conn in conns[8:]:
            conns.pop(0).close()
            conn.expect_bytes(reply)


@case(since=6)
def descriptors_come_back_while_busy(chapter: int) -> None:
    """Descriptors become free without a connection that closes (the limit is raised), and the loop
    is never quiet for long: those who wait are accepted all the same."""
    requests, replies = talk(chapter, 1, "fd")
    data, reply = encode(chapter, requests), encode_replies(chapter, replies)
    with start(chapter) as server, server.connect() as busy, ExitStack() as stack:
        say(busy, tag="busy")
        usual = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (24, usual[1]))
        conns = [stack.enter_context(server.connect()) for _ in range(40)]
        for conn in conns:
            conn.send(data)
        for conn in conns[:8]:
            conn.expect_bytes(reply)
        say(busy, 10, "busy")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, usual)
        end = time.monotonic() + limit(2)
        while not readable(conns[-1]) and time.monotonic() < end:
            say(busy, tag="busy")
        if not readable(conns[-1]):
            fail(
                "descriptors are free, but nobody is accepted while another client keeps the loop busy",
                "when does the server look at accept() again? A timeout of poll() never comes while there is "
                "always work.",
                "a client that waits is accepted, soon after a descriptor is free",
            )
        conns[-1].expect_bytes(reply)


# ---- nonsense ----


@case(since=6)
def random_bytes(chapter: int) -> None:
    """Noise, lies about lengths and requests with wrong bytes; one connection must notice nothing."""
    rng = random.Random(seed())
    good = encode(chapter, talk(chapter, 6, "fuzz")[0])
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.fd_count()
        for i in range(150):
            noise = rng.getrandbits(8 * 300).to_bytes(300, "little")
            kind = rng.randrange(4)
            if kind == 0:
                data = noise[: rng.randrange(1, 300)]
            elif kind == 1:
                message = asked(chapter, "set", "k", noise[:200]) if codec(chapter).is_resp else wire.frame(noise[:200])
                data = message * 3
            elif kind == 2:
                data = good[:40] + wire.u32(rng.choice([0, 3, 4, 5, 12, 2**31, 2**32 - 4])) + noise
            else:
                wrong = bytearray(good)
                for _ in range(rng.randrange(1, 6)):
                    wrong[rng.randrange(len(wrong))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
                data = bytes(wrong)
            with server.connect() as conn:
                conn.send_some(data)
                if rng.randrange(2):
                    end_input(conn)
                    conn.read_to_end()
            if i % 10 == 0:
                say(other, 4, "other")
        wait_until(lambda: server.fd_count() == before, "the connections that sent nonsense are closed")
        say(other, 4, "other")
        still_serves(server)


@case(since=6, ours="Redis closes with input unread")
def answers_before_a_bad_length_read_late(chapter: int) -> None:
    """The answers to what came before the bad message still wait in the server's socket when it
    closes. Closing with input unread would turn that into a reset, which drops them."""
    _read_late(chapter, 10_000)


@case(since=6, ours="Redis closes with input unread")
def answers_before_a_long_bad_message_read_late(chapter: int) -> None:
    """The same with more behind the bad length than one read takes, or sixteen."""
    _read_late(chapter, 1_000_000)


def _read_late(chapter: int, junk: int) -> None:
    requests, replies = talk(chapter, 40, "late", 1500)
    with start(chapter) as server, server.connect(rcvbuf=SMALL) as conn:
        conn.send_some(encode(chapter, requests) + codec(chapter).bad + b"x" * junk)
        still_serves(server)
        conn.expect_bytes(encode_replies(chapter, replies))
        conn.expect_refused()


@case(since=6)
def sends_for_ever(chapter: int) -> None:
    """A client sends on and on behind a bad message, and never reads. It is cut off, and the others are served."""
    most, sent = 256 << 20, 0
    with start(chapter) as server, socket.create_connection(("127.0.0.1", server.port), limit(10)) as sock:
        sock.sendall(codec(chapter).bad)
        with contextlib.suppress(ConnectionError):
            while sent < most:
                sent += sock.send(b"x" * 65536)
        if sent >= most:
            fail("a client has sent 256 MiB behind a bad message, and is still connected",
                 "what is thrown away has to be counted: cut off a client that sends on and on")  # fmt: skip
        still_serves(server)


@case(since=6)
def bad_length_and_no_hanging_up(chapter: int) -> None:
    """Clients that stay after the server has ended the connection, and some that go on sending: no
    spin, no memory, and their descriptors are free once they leave."""
    with start(chapter) as server, server.connect() as other, ExitStack() as stack:
        say(other, tag="other")
        before, rss = server.fd_count(), server.rss_kb()
        conns = [stack.enter_context(server.connect()) for _ in range(20)]
        for conn in conns:
            conn.send(codec(chapter).bad)
            conn.expect_refused()
        for conn in conns[::2]:
            conn.ended = ""
            conn.send_some(b"x" * 1_000_000, 0.01)
        say(other, tag="other")
        uses_no_cpu(server, "clients that stay after a bad message")
        grown = server.rss_kb() - rss
        if grown > (4 << 10) + (500 << 10 if watched() else 0):
            fail(
                f"what ten clients sent behind a bad message has cost {grown} KiB of memory",
                "are the bytes behind a bad message kept? Nobody will ever look at them.", "4096 KiB at most",
            )
        for conn in conns[::3]:
            conn.reset()
        for conn in conns:
            conn.close()
        wait_until(lambda: server.fd_count() == before, "the connections that have gone are closed")
        say(other, tag="other")


# ---- time ----


def _gaps_are_short(gaps: List[float]) -> None:
    """Fails where the second of two small replies comes 40 ms after the first."""
    if sum(gap > limit(30) for gap in gaps) >= 3:  # under a sanitizer the server alone takes longer
        fail(
            "small replies wait: between the first and the second of two that were due at once "
            f"passed {', '.join(f'{gap:.0f}' for gap in gaps)} ms",
            "is TCP_NODELAY set on accepted connections? Without it the kernel holds a small write back.",
            "a millisecond or so",
        )


@case(since=6, until=8)
def small_replies_do_not_wait(chapter: int) -> None:
    """TCP_NODELAY: without it the kernel keeps a small reply back until the one before it has been
    acknowledged, and the client's kernel delays that acknowledgement by 40 ms."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return  # not Linux: nothing delays on demand
    requests, replies = talk(chapter, 2, "delay")
    with start(chapter) as server, server.connect() as conn:
        gaps = []
        for _ in range(5):
            say(conn)  # the server is done with all before
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            conn.send(encode(chapter, requests))
            conn.recv(replies[0])
            began = time.monotonic()
            conn.recv(replies[1])
            gaps.append((time.monotonic() - began) * 1000)
    _gaps_are_short(gaps)


@case(since=9, inside=True)
def small_replies_of_two_rounds_do_not_wait(chapter: int) -> None:
    """A batch is answered with one write. So the second request comes while the server has read the first (Hold): the
    client has acknowledged nothing when the second reply is due."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return  # not Linux: nothing delays on demand
    hold = Hold()
    with start(chapter, env=hold.env) as server, server.connect() as conn:
        gaps = []
        for _ in range(5):
            say(conn)  # the server is done with all before
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            conn.send(asked(chapter, "get", hold.WORD))
            wait_until(hold.is_held, "the server reads the request")
            conn.send(asked(chapter, "get", "none"))
            hold.release()
            conn.recv(None)
            began = time.monotonic()
            conn.recv(None)
            gaps.append((time.monotonic() - began) * 1000)
    _gaps_are_short(gaps)


@case(since=6, inside=True)
def one_read_for_a_request(chapter: int) -> None:
    """No second read only to learn that there is no more."""
    counts = Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        say(conn)
        counts.reset()
        say(conn, 100)
        if (counts.reads, counts.writes) != (100, 100):
            fail(
                f"100 requests, one after another, took {counts.reads} reads and {counts.writes} writes",
                "is there a second read only to hear EAGAIN? poll() says when there is more.", "100 of each",
            )


@case(since=9, inside=True)
def one_read_and_one_write_for_a_batch(chapter: int) -> None:
    requests, replies = talk(chapter, 200, "batch")
    counts = Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        say(conn)
        counts.reset()
        conn.pipeline(requests, replies)
        if counts.reads > 3 or counts.writes > 3:
            fail(
                f"a batch of 200 took {counts.reads} reads and {counts.writes} writes",
                "is each reply written by itself? Collect the replies to all that came, then write "
                "once.", "3 of each at most",
            )


@case(since=6)
def no_cpu_when_idle(chapter: int) -> None:
    """With clients that are connected, stalled, blocked, half-closed, or gone."""
    data = encode(chapter, too_much(chapter)[0])
    with start(chapter) as server, ExitStack() as stack:
        for _ in range(20):
            say(stack.enter_context(server.connect()))
            stack.enter_context(server.connect()).send(codec(chapter).half)
            server.connect().close()
            server.connect().reset()
        for _ in range(3):
            conn = stack.enter_context(server.connect(rcvbuf=SMALL))
            conn.send_some(data, 0.02)
            conn.shutdown_write()
        uses_no_cpu(server, "idle clients")
        still_serves(server)


# ---- signals ----


@case(since=4)
def stopped_and_continued(chapter: int) -> None:
    """A call that waits may end with EINTR when the process is stopped and goes on."""
    requests, replies = talk(chapter, 2, "stop")
    data = encode(chapter, requests)
    with start(chapter) as server, server.connect() as conn:
        for i in range(20):
            conn.send(data[: i % len(data)])
            with paused(server):
                conn.send(data[i % len(data) :])
            for reply in replies:
                conn.recv(reply)


@case(since=4, but=5, inside=True)
def interrupted_calls_and_small_parts(chapter: int) -> None:
    """One of two calls on a socket ends with EINTR, the rest move a few bytes (cases/interrupt.c)."""
    requests, replies = talk(chapter, 12, "part", 300)
    with start(chapter, env=preload("interrupt")) as server:
        for _ in range(3):
            with server.connect() as conn:
                say(conn, 4)
                conn.pipeline(requests, replies)
                conn.send(encode(chapter, requests))
                conn.shutdown_write()
                conn.expect_bytes(encode_replies(chapter, replies))
                conn.expect_closed(reset_ok=False)
        if codec(chapter).has_loop:
            with ExitStack() as stack:
                for conn in [stack.enter_context(server.connect()) for _ in range(10)]:
                    say(conn)
                leaves(server, signal.SIGTERM, "a server whose calls are interrupted")


@case(since=6, inside=True)
def answers_before_a_bad_length_in_small_parts(chapter: int) -> None:
    """The bad length is seen while an answer is half written: the rest of it comes, then the end."""
    requests, replies = talk(chapter, 4, "part")
    with start(chapter, env=preload("interrupt")) as server:
        for _ in range(30):
            with server.connect() as conn:
                conn.send(encode(chapter, requests) + codec(chapter).bad)
                conn.expect_bytes(encode_replies(chapter, replies) + codec(chapter).refusal)
                conn.expect_closed(reset_ok=False)


# ---- the log ----


@case(since=4, ours="Redis is told its port elsewhere")
def nobody_reads_the_log(chapter: int) -> None:
    """What a server prints goes into a pipe that is full: it must go on all the same."""
    port, requests = free_port(), talk(chapter, 2000, "log", 100)
    env = clean_env({"PORT": str(port), "IDLE_TIMEOUT_MS": "0"})
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            program(chapter, "server"), env=env, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
            start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: _accepts(port), "the server listens", 10)
            for _ in range(2):
                with Conn(port, chapter) as conn:
                    conn.pipeline(*requests)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(reading)
        os.close(writing)


def _accepts(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@case(since=7, ours="Redis ends a client as soon as it has read the end, whatever waits to be sent")
def the_end_comes_with_more_than_a_turn_of_work(chapter: int) -> None:
    """All requests are there, and the end of the input right behind them, before the server has read the first. It
    knows of the end long before it comes to the last request: every answer comes."""
    requests, replies = too_much(chapter)
    with start(chapter) as server, server.connect() as conn:
        say(conn)
        with paused(server):
            conn.send(encode(chapter, requests))
            conn.shutdown_write()
        conn.expect_bytes(encode_replies(chapter, replies))
        conn.expect_closed(reset_ok=False)


