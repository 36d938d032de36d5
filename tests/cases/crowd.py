"""Many connections (16 and later): a round costs what is ready, and a connection that is silent next to nothing."""
from __future__ import annotations

import os
import resource
import signal
import socket
from contextlib import ExitStack
from typing import List

from harness import Conn, fail, settings, wait_until

from . import case
from .clock import HOUR, IDLE, Clock
from .idle import cpu_us
from .memory import KIB, Memory
from .talk import (
    SMALL, Counts, Hold, Sends, answered, asked, done, encode, encode_replies, many, paused, preload, readable, say,
    start, still_serves, talk, uses_no_cpu, watched,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = (
    "watch watch_conn set_accepting conn_done wait_for_next connection_io serve_first serve_more serve_long "
    "waits_for_us accept_new_conn next_timer_ms process_timers wait_for_events one_round try_fill_buffer state_req "
    "conn send_replies end_turns serve_events k_unsent"
)
LARGE = b"l" * 100_000


def be_busy(conn: Conn) -> None:
    """A large request, a large reply, and many small ones in one write."""
    conn.ask("set", "large", LARGE, expect=None)
    conn.ask("get", "large", expect=LARGE)
    requests, replies = talk(conn.chapter, 300, "busy")
    conn.send(encode(conn.chapter, requests))
    conn.expect_bytes(encode_replies(conn.chapter, replies))


# ---- what a round costs ----


@case(since=16, inside=True)
def the_kernel_is_told_of_changes_alone(chapter: int) -> None:
    """Beside 200 idle clients one asks again and again: nothing changes in what is waited for. Then one does not read:
    that is a change, and once more when it has read all."""
    counts, n = Counts(), 300
    with start(chapter, env=counts.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(200)]
        for conn in conns:
            say(conn)
        counts.reset()
        say(conns[7], n)
        be_busy(conns[8])
        if counts.controls or counts.polls > 3 * n:
            fail(f"for {n} requests one by one, some at once, the server called epoll_ctl() {counts.controls} times,"
                 f" and epoll_wait() {counts.polls} times")  # fmt: skip
        slow = stack.enter_context(server.connect(rcvbuf=SMALL))
        say(slow)
        counts.reset()
        slow.send(asked(chapter, "get", "large") * 10)
        wait_until(lambda: counts.controls > 0, "the server waits until the client reads")
        for _ in range(10):
            slow.expect_bytes(answered(chapter, LARGE))
        say(slow)
        if counts.controls > 10:
            fail(f"for a client that did not read, and then did, epoll_ctl() was called {counts.controls} times")


@case(since=16, time_limit=60)
def a_round_costs_what_is_ready(chapter: int) -> None:
    """500 requests, one by one, take about as much of the processor beside thousands of idle clients as beside none."""
    n, seen = many(6000), []
    with start(chapter) as server, server.connect() as conn, ExitStack() as stack:
        say(conn, 100)
        for crowd in (0, n):
            for _ in range(crowd):
                stack.enter_context(server.connect())
            say(conn, 100)
            tries = []
            for _ in range(3):
                before = cpu_us(server)
                say(conn, 500)
                tries.append(cpu_us(server) - before)
            seen.append(min(tries))
    if seen[1] > 3 * seen[0] + 5000:
        fail(f"500 requests took {seen[0]:.0f} us of the processor; beside {n} idle clients they took {seen[1]:.0f} us",
             "does each round look at all connections, or only at those that are ready?")  # fmt: skip


# ---- what a connection costs ----


@case(since=16, inside=True)
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


@case(since=16, inside=True)
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


@case(since=16, inside=True, time_limit=60)
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


# ---- one batch ----


@case(since=16)
def descriptors_that_come_back_in_the_same_round(chapter: int) -> None:
    """While the server is stopped some clients leave, with and without requests, and others come. They get the
    descriptors of the first, in the round in which these are closed, and the answers to what they have asked."""
    n = 12
    with start(chapter) as server, server.connect() as stays:
        say(stays)
        fds = server.fd_count()
        for come_first in (False, True):
            with ExitStack() as stack:
                old = [server.connect() for _ in range(n)]
                for conn in old:
                    say(conn)
                new: List[Conn] = []
                with paused(server):
                    if come_first:
                        new += [stack.enter_context(server.connect()) for _ in range(n)]
                    for i, conn in enumerate(old):
                        if i % 3:
                            conn.send(encode(chapter, talk(chapter, 4, f"old{i}")[0]))
                        conn.reset() if i % 2 else conn.close()
                    if not come_first:
                        new += [stack.enter_context(server.connect()) for _ in range(n)]
                    stays.send(encode(chapter, talk(chapter, 2, "stays")[0]))
                    for i, conn in enumerate(new):
                        conn.send(encode(chapter, talk(chapter, 6, f"new{i}")[0]))
                for i, conn in enumerate(new):
                    conn.expect_bytes(encode_replies(chapter, talk(chapter, 6, f"new{i}")[1]))
                    say(conn)
                stays.expect_bytes(encode_replies(chapter, talk(chapter, 2, "stays")[1]))
                if server.fd_count() != fds + n:
                    fail(f"{n} clients left and {n} came: the server has {server.fd_count() - fds} descriptors more")
            wait_until(lambda: server.fd_count() == fds, "those who have left are closed")


@case(since=16, inside=True)
def all_that_is_ready_is_seen_in_one_round(chapter: int) -> None:
    """300 clients send in time, while the server is stopped; when it goes on, the idle timeout of all is over. Bytes
    have moved on each connection, so none is closed."""
    clock, n = Clock(), 300
    requests, replies = talk(chapter, 2, "crowd")
    with clock.server(chapter, IDLE) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        for conn in conns:
            say(conn)
        clock.rest()
        with paused(server):
            clock.leap(IDLE + 1)
            for conn in conns:
                conn.send(encode(chapter, requests))
        for conn in conns:
            conn.expect_bytes(encode_replies(chapter, replies))


@case(since=16, inside=True)
def gone_while_it_waited_for_its_turn(chapter: int) -> None:
    """Some ask for so much that it takes several rounds, and are gone after the first one, while the server is busy
    with another. They are closed, once each; the others are served."""
    hold, n = Hold(), 5
    value = b"v" * 10_000
    with start(chapter, env=hold.env) as server, server.connect() as other, server.connect() as busy:
        other.ask("set", "v", value, expect=None)
        say(busy)
        fds = server.fd_count()
        conns = [server.connect() for _ in range(n)]
        for conn in conns:
            say(conn)
        with paused(server):
            for conn in conns:
                conn.send(asked(chapter, "get", "v") * 15)
            busy.send(asked(chapter, "get", hold.WORD))
        wait_until(hold.is_held, "the server reads the last request of the batch")
        for conn in conns:
            conn.reset()
        hold.release()
        busy.recv(None)
        wait_until(lambda: server.fd_count() == fds, "those who have gone are closed")
        say(busy)
        other.ask("get", "v", expect=value)
        still_serves(server)


@case(since=16, inside=True)
def more_to_do_is_done_behind_the_others(chapter: int) -> None:
    """One client asks for three turns' work, and others for little, all at once: these are answered in the first round.
    The first client has one turn in each round of the loop, and never two."""
    sends, n = Sends(), 20
    value = b"v" * 10_000
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        greedy = stack.enter_context(server.connect())
        others = [stack.enter_context(server.connect()) for _ in range(n)]
        greedy.ask("set", "v", value, expect=None)
        for conn in others:
            conn.ask("get", "k", expect=None)
        with paused(server):
            greedy.send(asked(chapter, "get", "v") * 20)
            for conn in others:
                conn.send(asked(chapter, "get", "k"))
            sends.reset()
        greedy.expect_bytes(answered(chapter, value) * 20)
        for conn in others:
            conn.expect_bytes(answered(chapter, None))
        seen = sends.since()
        descriptors = [fd for _, fd in seen]
        hers = max(descriptors, key=descriptors.count)
        late = [nr for nr, fd in seen if fd != hers and nr != seen[0][0]]
        if late:
            fail(f"{len(late)} of {n} short requests were not answered in the first round, {seen[0][0]}, but in {late}")
        rounds = [nr for nr, fd in seen if fd == hers]
        if rounds != list(range(seen[0][0], seen[0][0] + 3)):
            fail(f"20 replies of 10 KB were sent in the rounds {rounds}, others in {seen[0][0]}")


# ---- no room ----


@case(since=16, inside=True)
def a_descriptor_is_free_and_no_time_passes(chapter: int) -> None:
    """Out of descriptors, some wait to be accepted. One client leaves, and one of these has its place at once."""
    clock = Clock()
    with clock.server(chapter, HOUR) as server, ExitStack() as stack:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        clock.rest()
        for conn in conns:
            conn.send(encode(chapter, talk(chapter, 1, "room")[0]))
        clock.rest()
        accepted = sum(map(readable, conns))
        assert 5 < accepted < 24, accepted
        for i in range(30 - accepted):
            conns[i].close()
            clock.rest()
            if not readable(conns[accepted + i]):
                fail("a client has left, and one that waits for a descriptor is not accepted")
        before = clock.rounds
        clock.step(1000)
        if clock.rounds - before > 3:
            fail(f"nobody waits any more; in a second the server woke up {clock.rounds - before} times")


def is_closed(conn: Conn) -> bool:
    """Has the server closed the connection, on which something has come?"""
    try:
        return not conn.sock.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


@case(since=16, inside=True)
def epoll_takes_no_more(chapter: int) -> None:
    """epoll_ctl() refuses some connections (cases/epoll_full.c). They are closed, and the others served."""
    with start(chapter, env=preload("epoll_full")) as server, ExitStack() as stack:
        fds = server.fd_count()
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        closed = 0
        for conn in conns:
            conn.send(encode(chapter, talk(chapter, 2, "full")[0]))
        wait_until(lambda: all(map(readable, conns)), "each client is answered or closed")
        for conn in conns:
            if is_closed(conn):
                closed += 1
            else:
                conn.expect_bytes(encode_replies(chapter, talk(chapter, 2, "full")[1]))
        if not 8 <= closed <= 12 or server.fd_count() != fds + 30 - closed:
            fail(f"of 30 clients {closed} were closed, and there are {server.fd_count() - fds} descriptors more")
        uses_no_cpu(server, "some clients whom epoll did not take")


@case(since=16, inside=True)
def epoll_refuses_a_change(chapter: int) -> None:
    """Out of descriptors, the server stops watching for clients, and begins again, although epoll_ctl() refuses each of
    both at first (cases/epoll_mod.c)."""
    with start(chapter, nofile=24, env=preload("epoll_mod")) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        for conn in conns:
            conn.send(encode(chapter, talk(chapter, 1, "change")[0]))
        wait_until(lambda: sum(map(readable, conns)) > 5, "clients are answered")
        uses_no_cpu(server, "some clients who wait for a descriptor")
        for conn in conns[:15]:
            conn.close()
        wait_until(lambda: all(map(readable, conns[15:])), "those who waited are accepted")
        still_serves(server)


# ---- replies that are sent together ----


@case(since=16, inside=True)
def replies_of_a_round_are_sent_together(chapter: int) -> None:
    """Some ask for little, all at once, and one more does. While the server reads what she wants, nobody has a reply
    yet; then all of them have."""
    hold, n = Hold(), 20
    with start(chapter, env=hold.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        last = stack.enter_context(server.connect())
        for conn in [last, *conns, conns[0]]:  # epoll may report first whom it has reported last
            say(conn)
        last.ask("set", "large", "v" * 20_000, expect=done(chapter))
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


@case(since=16, inside=True)
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


@case(since=16, inside=True)
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
