"""Many connections (18 and later): a round costs what is ready. What a connection costs is in loans.py."""
from __future__ import annotations

import resource
from contextlib import ExitStack
from typing import List

from harness import Conn, fail, settings, wait_until

from . import SHARES, case
from .clock import HOUR, IDLE, Clock
from .idle import cpu_us
from .talk import (
    SMALL, Counts, Hold, Sends, answered, asked, encode, encode_replies, is_closed, many, paused, preload, readable,
    say, start, still_serves, talk, uses_no_cpu,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "the kernel tells which connections are ready, and only these are looked at: what waits for us is in a list of "
    "ours"
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


@case(since=18, inside=True,
      perhaps="epoll_ctl() is called where what a connection waits for changes: compare with what the kernel was told "
              "last")  # fmt: skip
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


@case(since=18, time_limit=60)
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


# ---- one batch ----


@case(since=18,
      perhaps="close connections behind the events of the round: a number that is closed may come back from accept() "
              "while an event for the old one still waits")  # fmt: skip
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


@case(since=18, inside=True)
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


@case(since=18, inside=True)
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


@case(since=18, inside=True, perhaps=SHARES)
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


@case(since=18, inside=True, perhaps="out of descriptors, whoever closes a connection looks at accept() again")
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


@case(since=18, inside=True, perhaps="where epoll_ctl() refuses a new connection, close it and free what belongs to it")
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


@case(since=18, inside=True)
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
