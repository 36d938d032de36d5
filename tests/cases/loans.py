"""Buffers on loan (19 and later): a connection that is silent has none; replies of a round are sent together."""
from __future__ import annotations

import os
import signal
from contextlib import ExitStack

from harness import fail, settings, wait_until
from harness.wire import DONE

from . import case
from .crowd import LARGE, be_busy
from .memory import Memory
from .talk import Hold, answered, asked, many, paused, readable, say, start, watched

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "a connection has buffers only while something is in them; then they go back"


# ---- what a connection costs ----


@case(since=19, inside=True, perhaps="a connection has buffers only while something is in them; then they go back")
def idle_connections_own_nothing(chapter: int) -> None:
    """300 clients are busy, one after the other, and stay. Each costs its struct, its place, and no buffer."""
    if watched():
        return
    memory, n = Memory(), 300
    with start(chapter, env=memory.env) as server, server.connect() as other, ExitStack() as stack:
        be_busy(other)
        say(other)
        before = memory.bytes
        for _ in range(n):
            be_busy(stack.enter_context(server.connect()))
        say(other)
        each = (memory.bytes - before) // n
        if each > 400:
            fail(f"{n} clients were busy, and are idle now: each of them costs {each} bytes")


@case(since=19, inside=True, perhaps="a part of a request is kept in as much memory as it needs, not in a whole buffer")
def what_is_left_over_is_kept_and_no_more(chapter: int) -> None:
    """Clients that have sent a part of a request, all of different sizes. It is kept, in a few times as many bytes; and
    when the rest comes, the answer is right."""
    if watched():
        return
    memory, n = Memory(), 100
    for size in (10, 1000, 20_000, 200_000):
        with start(chapter, env=memory.env) as server, server.connect() as other, ExitStack() as stack:
            be_busy(other)
            fds, before = server.fd_count(), memory.bytes
            conns = [stack.enter_context(server.connect()) for _ in range(n)]
            data = [asked(chapter, "set", f"key{i:03}", b"%03d" % i * (size // 3)) for i in range(n)]
            for conn, request in zip(conns, data):
                say(conn)
                conn.send(request[: size // 2])
            wait_until(lambda: server.fd_count() == fds + n, "all are accepted")
            sent = (size // 2) * n
            wait_until(lambda: memory.bytes - before > sent, "all has been read") if size > 1000 else say(other)
            say(other)
            if memory.bytes - before > 4.5 * sent + n * 450:
                fail(f"{n} clients have sent {size // 2} bytes of a request, for which the server keeps"
                     f" {(memory.bytes - before) // n} bytes each")  # fmt: skip
            for conn, request in zip(conns, data):
                conn.send(request[size // 2 :])
            for i, conn in enumerate(conns):
                conn.expect_bytes(answered(chapter, None, "set"))
                conn.ask("get", f"key{i:03}", expect=b"%03d" % i * (size // 3))


@case(since=19, inside=True, time_limit=60,
      perhaps="a connection has buffers only while something is in them; then they go back")  # fmt: skip
def thousands_that_were_busy(chapter: int) -> None:
    """Ten thousand, where this machine lets us have so many: each is sent 100 KB and answered, and stays: 10 MB."""
    n = many(9900)
    if watched():
        return
    request, reply = asked(chapter, "set", "k", LARGE), answered(chapter, None, "set")
    with start(chapter) as server, server.connect() as other, ExitStack() as stack:
        be_busy(other)
        before = server.rss_kb()
        for _ in range(n):
            conn = stack.enter_context(server.connect())
            conn.send(request)
            conn.expect_bytes(reply)
        say(other)
        grown = server.rss_kb() - before
        if grown > n + 1000:
            fail(f"{n} clients were sent 100 KB each and answered: the server has grown by {grown} KiB")


@case(since=19, inside=True,
      perhaps="at the end of a loan its memory is kept for the next one, unless it has grown large")  # fmt: skip
def what_was_lent_is_lent_again(chapter: int) -> None:
    """Small turns, one after the other, need no memory of their own. A large request and a large reply leave none
    behind."""
    if watched():
        return
    memory, n = Memory(), 200
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        be_busy(conn)
        say(conn)
        ever, before = memory.ever, memory.bytes
        for _ in range(n):
            conn.ask("get", "none", expect=None)
        if memory.ever - ever > 3 * n:  # a round asks for some, for the sake of what was freed: mem_tidy()
            fail(f"{n} requests, each by itself: memory was allocated {memory.ever - ever} times")
        conn.ask("set", "vast", LARGE * 200, expect=None)
        conn.ask("get", "vast", expect=LARGE * 200)
        conn.ask("del", "vast", expect=1)
        wait_until(lambda: conn.ask("get", "none") is None and memory.bytes - before < 1 << 20,
                   "a request of 20 MB, its reply and its key are gone, and at most 1 MiB of memory more is taken")


# ---- replies that are sent together ----


@case(since=19, inside=True, perhaps="replies are written behind the last request of the round, not after each")
def replies_of_a_round_are_sent_together(chapter: int) -> None:
    """Some ask for little, all at once, and one more does. While the server reads what she wants, nobody has a reply
    yet; then all of them have."""
    hold, n = Hold(), 20
    with start(chapter, env=hold.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        last = stack.enter_context(server.connect())
        for conn in [last, *conns, conns[0]]:  # epoll may report first whom it has reported last
            say(conn)
        last.ask("set", "large", "v" * 20_000, expect=DONE)
        last.ask("get", "large", expect=b"v" * 20_000)  # a turn with so much to send is over
        say(conns[0])
        with paused(server):
            for conn in conns:
                conn.send(asked(chapter, "get", "k"))
            last.send(asked(chapter, "get", hold.WORD))
        wait_until(hold.is_held, "the server reads the last request of the batch")
        early = sum(map(readable, conns))
        hold.release()
        for conn in [*conns, last]:
            conn.expect_bytes(answered(chapter, None))
        if early:
            fail(f"{early} of {n} clients had their replies before the last one that was ready had been read")


@case(since=19, inside=True, perhaps="what waits to be written is counted, and written before it becomes too much")
def replies_that_are_large_do_not_wait(chapter: int) -> None:
    """Some ask for 10 KB each, all at once, and one more asks for little. While the server reads what she wants, all
    but the last few of the others have their replies: it does not keep the replies of ten thousand clients."""
    hold, n = Hold(), 20
    value = b"v" * 10_000
    with start(chapter, env=hold.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        last = stack.enter_context(server.connect())
        last.ask("set", "v", value, expect=None)
        for conn in [*conns, conns[0]]:
            say(conn)
        with paused(server):
            for conn in conns:
                conn.send(asked(chapter, "get", "v"))
            last.send(asked(chapter, "get", hold.WORD))
        wait_until(hold.is_held, "the server reads the last request of the batch")
        early = sum(map(readable, conns))
        hold.release()
        for conn in conns:
            conn.expect_bytes(answered(chapter, value))
        last.expect_bytes(answered(chapter, None))
        if early < n - 10:
            fail(f"{n} clients have asked for 10 KB each; the server has read all that, and {early} have a reply")


@case(since=19, inside=True, perhaps="who has been served gets the reply, also where a signal ends the loop there")
def replies_are_sent_before_the_server_leaves(chapter: int) -> None:
    """SIGTERM comes in the middle of a round. Whoever has been served has a reply, and who comes next has none."""
    hold, n = Hold(), 5
    with start(chapter, env=hold.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        last, late = stack.enter_context(server.connect()), stack.enter_context(server.connect())
        for conn in [last, late, *conns, conns[0]]:  # epoll may report first whom it has reported last
            say(conn)
        with paused(server):
            for conn in conns:
                conn.send(asked(chapter, "get", "k"))
            last.send(asked(chapter, "get", hold.WORD))
            late.send(asked(chapter, "get", "k"))
        wait_until(hold.is_held, "the server reads the last request of the batch")
        os.kill(server.pid, signal.SIGTERM)
        hold.release()
        for conn in [*conns, last]:
            conn.expect_bytes(answered(chapter, None))
            conn.expect_closed()
        late.expect_closed()
        if server.wait_end() != 0:
            fail("the server must end with status 0")
