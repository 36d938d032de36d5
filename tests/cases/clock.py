"""Time that stands still (06 and later): what the server does at which millisecond, without waiting for it.

The clocks of the server are ours (cases/clock.c). They go on only where a test says so, and then a test waits
until the server has nothing left to do. So every answer is exact, on a machine as slow as it may be.

What holds of a time of n milliseconds: before n have passed nothing happens. The clock is read in whole
milliseconds, so the next whole one after the n-th is the last at which it may happen.
"""
from __future__ import annotations

import mmap
import os
import random
import resource
import struct
import tempfile
import time
from contextlib import ExitStack, contextmanager
from typing import Dict, Iterator, List, Optional, Sequence

from harness import AnyOrder, Conn, Err, Model, Server, fail, limit, redis, seed, settings, wait_until, wire
from harness.codec import codec
from harness.model import INT64_MAX
from harness.wire import DONE

from . import SHARES, SPINS, case
from .talk import (
    answered, asked, bulk, encode, encode_replies, numbered, paused, preload, readable, say, talk,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = SPINS

MS = 1_000_000  # nanoseconds
HOUR = 3_600_000  # milliseconds
UPTIME = 1_000_000_500  # milliseconds: what the clock shows at first, unless a case says otherwise
TODAY = 1_700_000_000_000  # the same for the wall clock
IDLE = 5000  # milliseconds: the default


class Clock:
    """The clocks of one server, and how it waits: `clock = Clock()`, then `with clock.server(13) as server:`"""

    WORD, NUMBER = "time-passes", "0.271828"  # see passes()

    def __init__(self, uptime_ms: float = UPTIME) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(80))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.map = mmap.mmap(self.file.fileno(), 80)
        self._set(0, round(uptime_ms * MS))
        self._set(1, TODAY * MS + self._get(0) % MS)  # a millisecond begins on both at once
        self.env = {"CLOCK_FILE": self.file.name, **preload("clock")}

    def server(self, chapter: int, idle_ms: Optional[int] = 0, more: Sequence[str] = ()) -> Server:
        """A server with these clocks and this idle timeout (None: the default), and with more of cases/*.c below."""
        env = dict(self.env)
        if idle_ms is not None:
            env["IDLE_TIMEOUT_MS"] = str(idle_ms)
        env["LD_PRELOAD"] = ":".join([env["LD_PRELOAD"], *(preload(name)["LD_PRELOAD"] for name in more)])
        return _Redis(self, chapter, env) if redis.is_tested() else Server(chapter, env=env)

    def _set(self, index: int, value: int) -> None:
        struct.pack_into("=q", self.map, 8 * index, value)

    def _get(self, index: int) -> int:
        return struct.unpack_from("=q", self.map, 8 * index)[0]

    @property
    def now_ms(self) -> int:
        """The monotonic clock, in whole milliseconds."""
        return self._get(0) // MS

    @property
    def wall_ms(self) -> int:
        """The wall clock, in whole milliseconds."""
        return self._get(1) // MS

    @property
    def wall_us(self) -> int:
        """The wall clock, in whole microseconds."""
        return self._get(1) // 1000

    @property
    def rounds(self) -> int:
        """How often the server has begun to wait, or could have."""
        return self._get(6)

    @property
    def until_ms(self) -> Optional[int]:
        """Up to when the server waits, on the monotonic clock; None for ever. Rounded up."""
        ns = self._get(5)
        return None if ns == INT64_MAX else -(-ns // MS)

    @property
    def watched(self) -> int:
        """How many places of its array the server had poll() look at."""
        return self._get(7)

    def rest(self) -> None:
        """Waits until the server has done all that is to be done at this time, and waits."""
        asked, rounds = self._get(3) + 1, self.rounds
        self._set(3, asked)
        end = time.monotonic() + limit(5)
        while self._get(4) != asked:
            if time.monotonic() > end:
                fail(
                    f"nobody asks for anything and time stands still, but the server does not rest: in {limit(5):g} s"
                    f" poll() returned {self.rounds - rounds} times"
                )
            time.sleep(0.0002)

    def step(self, ms: float) -> None:
        """Both clocks go on, and the server does what is due. Before that, it does what it was asked for until now."""
        self.rest()
        self.leap(ms)
        self.rest()

    def leap(self, ms: float) -> None:
        """As step(), for a server that is stopped: when it goes on, it sees the new time."""
        self._set(0, self._get(0) + round(ms * MS))
        self._set(1, self._get(1) + round(ms * MS))

    def to(self, ms: float) -> None:
        """As step(), to this time of the monotonic clock."""
        self.step((round(ms * MS) - self._get(0)) / MS)

    def set_wall(self, ms: float) -> None:
        """Somebody sets the wall clock forth, or back."""
        self.rest()
        self._set(1, self._get(1) + round(ms * MS))
        self.rest()

    @contextmanager
    def round_by_round(self) -> Iterator[None]:
        """In this block each round of the loop is held: poll() has come back, but the server does not know it yet."""
        self._set(8, 1)
        try:
            yield
        finally:
            self._set(8, 0)

    def wait_held(self) -> None:
        """Waits until a round is held."""
        wait_until(lambda: self._get(8) == 2, "poll() comes back")

    def next_round(self) -> None:
        """Has the round that is held go on to its end, and waits until the next one is held."""
        self._set(8, 1)
        self.wait_held()

    def passes(self, ms: float) -> None:
        """From now on, the server takes this long to read a message with WORD in it, or to see what NUMBER is worth."""
        self._set(2, round(ms * MS))

    def looks_take(self, ms: float) -> None:
        """From now on, this much time passes whenever the server looks at the monotonic clock: so what it does between
        two looks takes as long, on any machine."""
        self._set(9, round(ms * MS))


class _Redis(Server):
    """Redis with these clocks, which looks whether it is to end ten times a second, by them."""

    def __init__(self, clock: Clock, chapter: int, env: Dict[str, str]) -> None:
        super().__init__(chapter, env=env)
        self.clock = clock

    def _terminate(self, sig: int, seconds: float) -> Optional[int]:
        end, status = time.monotonic() + seconds, super()._terminate(sig, 0.001)
        while status is None and time.monotonic() < end:
            self.clock.leap(100)
            time.sleep(0.001)
            status = self.exit_status()
        return status


def open_still(conn: Conn, why: str) -> None:
    """Fails where the server has closed the connection."""
    if readable(conn):
        fail(
            f"the server has closed a connection too early: {why}",
            "each byte that moves begins the time anew, in either direction. Clocks are rounded down to milliseconds, "
            "so "
            "the time is over when now > start + timeout.",
            "it is still open at this millisecond",
        )


def closed_now(conn: Conn, why: str) -> None:
    """Fails where the server has not closed the connection yet."""
    if not readable(conn):
        fail(
            f"the server has not closed a connection in time: {why}",
            "poll() waits until the first connection is due, rounded up to a millisecond; when it comes back, all "
            "that are "
            "due are closed",
            "it is closed in this millisecond",
        )
    conn.expect_closed()


# ---- without a clock in the server ----


@case(since=6, inside=True,
      perhaps="out of descriptors, accept() fails at once each time: look away from the listening socket, and back "
              "some times a second, or when a connection is closed")  # fmt: skip
def out_of_descriptors_and_nothing_happens(chapter: int) -> None:
    """Nobody sends or leaves. The server looks a few times a second whether there are descriptors again, and when
    there are, those who wait are accepted."""
    clock = Clock()
    requests, replies = talk(chapter, 1, "fd")
    with clock.server(chapter, HOUR) as server, ExitStack() as stack:
        usual = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (24, usual[1]))
        conns = [stack.enter_context(server.connect()) for _ in range(40)]
        for conn in conns:
            conn.send(encode(chapter, requests))
        clock.rest()
        before = clock.rounds
        for _ in range(50):
            clock.step(10)
        if clock.rounds - before > 20:
            fail(
                f"out of descriptors, for half a second nothing happened: poll() returned {clock.rounds - before} times"
            )
        assert not readable(conns[-1])
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, usual)
        for _ in range(3):
            clock.step(100)
        if not readable(conns[-1]):
            fail("descriptors have been free for 300 ms, and a client that waits is not accepted")
        for conn in conns:
            conn.expect_bytes(encode_replies(chapter, replies))


@case(since=6, inside=True, perhaps="accept() until it says EAGAIN, then wait for the listening socket again")
def a_client_comes_while_others_are_accepted(chapter: int) -> None:
    """That nobody waits any more is no reason to look away: the next one is accepted at once."""
    clock = Clock()
    with clock.server(chapter) as server, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(server.connect())
            clock.rest()
            if clock.until_ms is not None:
                fail(f"nothing is to be done, but poll() is to return after {clock.until_ms - clock.now_ms} ms")


@case(since=6, inside=True)
def accept_fails_for_a_moment(chapter: int) -> None:
    """A client has gone again, or a signal came: the next one is accepted nevertheless, and before any time passes."""
    clock = Clock()
    with clock.server(chapter, more=["refuse"]) as server, ExitStack() as stack:
        for _ in range(6):
            say(stack.enter_context(server.connect(seconds=3)), 1)


@case(since=6, inside=True, perhaps="a read() that ends with EINTR is tried again: it says nothing about the client")
def a_signal_while_bytes_are_thrown_away(chapter: int) -> None:
    """A client goes on sending behind a bad message. A call that is interrupted is no reason to close."""
    clock = Clock()
    with clock.server(chapter, more=["interrupt"]) as server:
        before = server.fd_count()
        with ExitStack() as stack:
            conns = [stack.enter_context(server.connect()) for _ in range(8)]
            for conn in conns:
                conn.send(codec(chapter).bad)
                conn.expect_refused()
            for _ in range(5):
                for conn in conns:
                    conn.send_some(b"xxx", 0)
                clock.rest()
            if server.fd_count() != before + len(conns):
                fail("the server has closed a connection whose client was still sending behind a bad message")
        wait_until(lambda: server.fd_count() == before, "connections that have gone are closed")


@case(since=6, inside=True, perhaps=SHARES)
def a_flood_in_many_turns(chapter: int) -> None:
    """However much one client has sent, a round of the loop does a part of it: so others have theirs in between."""
    clock = Clock()
    requests, replies = talk(chapter, 3000, "flood", 100)
    data, answers = encode(chapter, requests), encode_replies(chapter, replies)
    with clock.server(chapter) as server, server.connect() as conn:
        say(conn)
        clock.rest()
        before = clock.rounds
        with paused(server):
            sent = conn.send_some(data, 0.2)
        conn.send(data[sent:])
        conn.expect_bytes(answers)
        clock.rest()
        rounds = clock.rounds - before
        if rounds < len(data) // (64 << 10):
            fail(f"{len(data) >> 10} KiB of requests that came at once were answered in {rounds} rounds of the loop")


@case(since=6, inside=True,
      perhaps="what poll() is given shrinks when connections go: no place is left for one that is closed")  # fmt: skip
def a_burst_that_leaves(chapter: int) -> None:
    """When many connections have gone, in whichever order, poll() is given no more than before they came."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as stays, ExitStack() as stack:
        say(stays)
        clock.rest()
        before = clock.watched
        for order in (1, -1, 7):
            conns = [stack.enter_context(server.connect()) for _ in range(100)]
            clock.rest()
            for i in range(100):
                conns[i * order % 100].close()
                if i % 10 == 0:
                    clock.rest()
            clock.rest()
            if clock.watched > before:
                fail(f"poll() looks at {clock.watched} places; before 100 connections came and went it was {before}")
        say(stays)


# ---- idle connections ----


@case(since=12, inside=True)
def idle_to_the_millisecond(chapter: int) -> None:
    """Not the last fraction of a millisecond early, not a millisecond late, wherever in a millisecond it began; and no
    round of the loop in between. Where something wakes the loop right before, what is left is rounded up again."""
    for part in (0, 0.000001, 0.5, 0.999999):
        for woken in (False, True):
            clock = Clock(UPTIME + part)
            with clock.server(chapter, None) as server, server.connect() as conn, server.connect() as silent:
                say(conn)
                clock.rest()
                before = clock.rounds
                clock.step(IDLE - 1)
                clock.step(0.999999)
                if woken:
                    server.connect().close()
                    clock.rest()
                for one in (conn, silent):
                    open_still(one, f"{IDLE - 0.000001} ms without a byte; the idle timeout is {IDLE} ms")
                clock.step(0.000001)
                clock.step(1 + woken)
                for one in (conn, silent):
                    closed_now(one, f"{IDLE + 1 + woken} ms without a byte; the idle timeout is {IDLE} ms")
                if clock.rounds - before > 3 + 3 * woken:
                    fail(f"for one time to wait for, poll() returned {clock.rounds - before} times")


@case(since=12, inside=True)
def each_closed_at_its_time(chapter: int) -> None:
    """Thirty connections, three milliseconds apart, in an order that their requests change: each goes in its own
    millisecond, and each wakes the loop once."""
    rng, n = random.Random(seed()), 30
    clock = Clock()
    with clock.server(chapter, IDLE) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        clock.step(100)
        rng.shuffle(conns)
        for conn in conns:
            clock.step(3)
            say(conn, 1)
        last = clock.now_ms
        clock.to(last + IDLE - 3 * n)
        before = clock.rounds
        for i, conn in enumerate(conns):
            ends = last + IDLE - 3 * (n - 1 - i)
            clock.to(ends)
            open_still(conn, f"the last request is {IDLE} ms ago, and not more")
            clock.to(ends + 1)
            closed_now(conn, f"the last request is {IDLE + 1} ms ago")
        if clock.rounds - before > 2 * n + 4:
            fail(f"{n} connections were timed out; for that poll() returned {clock.rounds - before} times")
        if clock.until_ms is not None:
            fail(f"no connection is left, but poll() is to return after {clock.until_ms - clock.now_ms} ms")


@case(since=12, inside=True, perhaps="when the loop wakes up, all that are due are closed, not the first one alone")
def a_hundred_at_one_time(chapter: int) -> None:
    """Their time is over in the same millisecond: one round of the loop is enough for all."""
    clock = Clock()
    with clock.server(chapter, IDLE) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(100)]
        clock.rest()
        before = clock.rounds
        clock.step(IDLE + 1)
        for conn in conns:
            closed_now(conn, f"{IDLE + 1} ms without a byte")
        if clock.rounds - before > 5:
            fail(f"100 connections were timed out at the same time; that took {clock.rounds - before} rounds")


@case(since=12, inside=True)
def timers_beside_requests(chapter: int) -> None:
    """A loop that is never idle: in every round there is a request. The time of another connection is over in the first
    of them; it is closed in the next one at the latest, not only when nobody wants anything."""
    clock = Clock()
    requests, replies = talk(chapter, 1, "busy")
    with clock.server(chapter, IDLE) as server, server.connect() as conn, ExitStack() as stack:
        clock.step(10)
        busy = [stack.enter_context(server.connect()) for _ in range(3)]
        clock.rest()
        with clock.round_by_round():
            busy[0].send(encode(chapter, requests))
            clock.wait_held()
            clock.leap(IDLE + 1 - 10)
            for now, next_one in ((0, 1), (1, 2)):
                busy[next_one].send(encode(chapter, requests))
                clock.next_round()
                busy[now].recv(replies[0])
            closed_now(conn, f"{IDLE + 1} ms without a byte, and two rounds in which others were served")


@case(since=12, inside=True)
def held_up_behind_poll(chapter: int) -> None:
    """poll() has come back, for another client or because another's time is over, and the server gets no processor for
    a while. What a client sends meanwhile has not been reported, but is there in time: it is answered."""
    requests, replies = talk(chapter, 1, "meanwhile")
    for another in ("sends", "is timed out"):
        clock = Clock()
        with clock.server(chapter, IDLE) as server, server.connect() as conn, server.connect() as other:
            say(other)
            clock.step(10)
            say(conn)
            clock.rest()
            with clock.round_by_round():
                if another == "sends":
                    other.send(encode(chapter, requests))
                else:
                    clock.leap(IDLE + 1 - 10)
                clock.wait_held()
                conn.send(encode(chapter, requests))
                clock.leap(IDLE + 1)
            conn.recv(replies[0])
            if another == "sends":
                other.recv(replies[0])
            else:
                closed_now(other, "its time was over before the server was held up")


@case(since=12, inside=True)
def who_waits_for_us_is_not_idle(chapter: int) -> None:
    """A round takes longer than the timeout. Until then the server has read a part of what some clients have sent, or
    has put it off to later rounds: it is answered."""
    clock = Clock()
    size = 64 << 10  # of a reply that is all of a turn
    clock.passes(IDLE + 1)
    with clock.server(chapter, IDLE) as server:
        with server.connect() as conn, server.connect() as busy:
            busy.ask("set", "k", "v" * size, expect=None)
            with paused(server):
                conn.send(asked(chapter, "get", "k") + asked(chapter, "set", "k" * size, ""))
                busy.send(asked(chapter, "get", clock.WORD))
            conn.recv(b"v" * size)
            conn.recv(None)
            busy.recv(None)
        with ExitStack() as stack:
            *conns, busy = [stack.enter_context(server.connect()) for _ in range(4)]
            for conn in (*conns, busy):
                conn.ask("get", "no", expect=None)
            with paused(server):
                for conn in conns:
                    conn.send(asked(chapter, "keys"))
                busy.send(asked(chapter, "get", clock.WORD))
            for conn in conns:
                conn.recv(AnyOrder([b"k" * size, b"k"]))
            busy.recv(None)


@case(since=12, inside=True,
      perhaps="note the time after each read() and write() that moved a byte, also where the bytes are thrown "
              "away")  # fmt: skip
def every_byte_renews(chapter: int) -> None:
    """The first byte of a request, each one after it, bytes behind a bad message."""
    clock = Clock()
    data = encode(chapter, talk(chapter, 1, "t")[0])
    with clock.server(chapter, IDLE) as server, server.connect() as still:
        clock.step(2)
        before = server.fd_count()
        with server.connect() as slow, server.connect() as bad:
            bad.send(codec(chapter).bad)
            bad.expect_refused()  # in one direction: what it sends is still read
            for i in range(3):
                clock.step(IDLE - 1)
                closed_now(still, f"others have sent bytes, this one has not for {IDLE + 1} ms")
                if server.fd_count() != before - 1 + 2:
                    fail(f"a byte came every {IDLE - 1} ms, and yet the connection was closed")
                slow.send(data[i : i + 1])
                bad.send(b"x")
                clock.rest()
            clock.step(IDLE)
            open_still(slow, f"its last byte came {IDLE} ms ago, and no more")
            clock.step(1)
            closed_now(slow, f"its last byte came {IDLE + 1} ms ago")
            if server.fd_count() != before - 1:
                fail(f"the last byte behind a bad message came {IDLE + 1} ms ago, and the connection is still there")


@case(since=12, inside=True)
def replies_that_move_renew(chapter: int) -> None:
    """A client takes a part of its reply every few seconds, so that the server can write on."""
    size = 8 << 20
    clock = Clock()
    with clock.server(chapter, IDLE) as server, server.connect(rcvbuf=1 << 16) as conn, server.connect() as other:
        other.ask("set", "big", b"x" * size, expect=DONE)
        clock.rest()
        conn.send(asked(chapter, "get", "big"))
        clock.rest()
        for _ in range(4):
            clock.step(IDLE - 1)
            conn.recv_exactly(1 << 20)
            clock.rest()
            time.sleep(0.01)  # the system tells the server in its own time that there is room
            clock.rest()
        clock.step(IDLE - 1)
        conn.recv_exactly(len(answered(chapter, b"x" * size)) - (4 << 20))
        clock.rest()
        conn.unanswered.clear()
        say(conn)


@case(since=12, inside=True)
def work_is_not_idleness(chapter: int) -> None:
    """One request takes an hour. Others came meanwhile, on connections that are served later: they are answered, not
    timed out; and so is the next request of the one that waited for its work."""
    clock = Clock()
    requests, replies = talk(chapter, 1, "late")
    clock.passes(HOUR)
    with clock.server(chapter, IDLE) as server, server.connect() as busy, server.connect() as other:
        say(busy)
        say(other)
        clock.rest()
        with paused(server):
            busy.send(asked(chapter, "get", clock.WORD))
            other.send(encode(chapter, requests))
        busy.recv(None)
        other.recv(replies[0])
        clock.rest()
        for conn in (busy, other):
            open_still(conn, "it has had an answer at this very time")
        clock.step(IDLE)
        say(busy)
        say(other)
        clock.step(IDLE + 1)
        for conn in (busy, other):
            closed_now(conn, f"its last request is {IDLE + 1} ms ago")


@case(since=12, inside=True)
def a_clock_that_was_set(chapter: int) -> None:
    """People and NTP set the wall clock. Timers do not care: they go by the clock that only ever goes on. (From 22 on
    deadlines of keys are times of the wall clock: expiry.py.)"""
    clock, has_ttl = Clock(), codec(chapter).has_ttl and not codec(chapter).has_keyspace
    with clock.server(chapter, IDLE) as server, server.connect() as conn:
        for ms in (HOUR, -2 * HOUR, 0.5, TODAY):
            say(conn)
            clock.rest()
            if has_ttl:
                conn.ask("set", "k", "v", expect=None)
                conn.ask("pexpire", "k", "1000", expect=1)
            clock.set_wall(ms)
            server.connect().close()  # something wakes the loop
            clock.rest()
            open_still(conn, "the wall clock was set, no time has passed")
            clock.step(1000)
            if has_ttl:
                conn.ask("pttl", "k", expect=0)
                clock.step(1)
                conn.ask("pttl", "k", expect=-2)
        say(conn)
        clock.step(IDLE)
        open_still(conn, f"{IDLE} ms have passed, and not more")
        clock.step(1)
        closed_now(conn, f"{IDLE + 1} ms have passed")


@case(since=12, inside=True)
def a_machine_that_runs_for_long(chapter: int) -> None:
    """2^31 and 2^32 milliseconds are 25 and 50 days; 2^31 and 2^32 seconds come later, and half a millennium."""
    for uptime in (0, 2**31, 2**32, 2**31 * 1000, 2**32 * 1000, 2**43):
        clock = Clock(max(0, uptime - 2500))
        with clock.server(chapter, IDLE) as server, server.connect() as conn:
            say(conn)
            clock.rest()
            if codec(chapter).has_ttl:
                conn.pipeline([["set", "k", "v"], ["pexpire", "k", "4000"]], [None, 1])
            clock.step(2499)
            clock.step(1)
            clock.step(1)
            if codec(chapter).has_ttl:
                conn.ask("pttl", "k", expect=4000 - 2501)
                say(conn)
                clock.step(1499)
                conn.ask("pttl", "k", expect=0)
                clock.step(1)
                conn.ask("pttl", "k", expect=-2)
                clock.step(IDLE)
            else:
                server.connect().close()  # so that the server reads its clock
                clock.step(IDLE - 2501)
            open_still(conn, f"idle for {IDLE} ms at an uptime of {clock.now_ms} ms")
            clock.step(1)
            closed_now(conn, f"idle for {IDLE + 1} ms at an uptime of {clock.now_ms} ms")


@case(since=12, inside=True)
def the_longest_timeout(chapter: int) -> None:
    """2^31 - 1 milliseconds do not fit the int of poll() with a millisecond more."""
    longest = 2**31 - 1
    clock = Clock()
    with clock.server(chapter, longest) as server, server.connect() as conn:
        say(conn)
        clock.step(longest - 1)
        clock.step(1)
        open_still(conn, f"the idle timeout is {longest} ms, and just over")
        clock.step(1)
        closed_now(conn, f"the idle timeout was {longest} ms")


# ---- time to live ----


@case(since=13, inside=True)
def ttl_rounded_to_the_nearest(chapter: int) -> None:
    """Half a second is rounded up; and `pttl` is what was set, while time stands still."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        for ms, s in ((1, 0), (499, 0), (500, 1), (501, 1), (999, 1), (1000, 1), (1001, 1), (1499, 1), (1500, 2),
                      (1501, 2), (2499, 2), (2500, 3), (10**9 + 499, 10**6), (10**9 + 500, 10**6 + 1)):  # fmt: skip
            conn.pipeline([["pexpire", "k", str(ms)], ["pttl", "k"], ["ttl", "k"]], [1, ms, s])
        conn.pipeline([["expire", "k", "7"], ["pttl", "k"], ["ttl", "k"]], [1, 7000, 7])
        for passed, s in ((499, 7), (500, 7), (501, 6), (6500, 1), (6501, 0), (7000, 0)):
            clock.to(UPTIME + passed)
            conn.pipeline([["ttl", "k"], ["pttl", "k"]], [s, 7000 - passed])


@case(since=13, inside=True)
def seen_up_to_the_deadline(chapter: int) -> None:
    """At the millisecond of its deadline a key is there, in the next it is gone, for every command; wherever in a
    millisecond it was given its time."""
    for part in (0, 0.999999):
        clock = Clock(UPTIME + part)
        with clock.server(chapter) as server, server.connect() as conn:
            for ms in (1, 2, 1000):
                begin = clock.now_ms
                conn.pipeline([["set", "k", "v"], ["zadd", "z", "1", "n"]], [None, 1])
                conn.pipeline([["pexpire", "k", str(ms)], ["pexpire", "z", str(ms)]], [1, 1])
                clock.to(begin + ms)
                conn.pipeline(
                    [["get", "k"], ["pttl", "k"], ["zscore", "z", "n"], ["ttl", "z"], ["persist", "k"]],
                    [b"v", 0, 1.0, 0, 1],
                )
                conn.ask("pexpire", "k", str(ms), expect=1)
                clock.to(begin + ms + 0.999999)
                conn.pipeline([["pttl", "k"], ["pttl", "z"], ["zscore", "z", "n"]], [ms, 0, 1.0])
                clock.to(begin + ms + 1)
                gone = [["pttl", "z"], ["zscore", "z", "n"], ["keys"], ["pttl", "k"]]
                conn.pipeline(gone, [-2, None, [b"k"], ms - 1])
                clock.to(begin + 2 * ms + 1)
                conn.pipeline([["get", "k"], ["keys"], ["del", "k"]], [None, [], 0])
                clock.step(1 - part)
                clock.step(part)


@case(since=13, until=wire.KEYSPACE_FROM - 1, inside=True,
      perhaps="the first of the heap is due first: does an item that is taken out of the middle go up or down from "
              "there, as its deadline says?")  # fmt: skip
def the_timer_goes_at_the_deadline(chapter: int) -> None:
    """Nobody asks for the keys. Each wakes the loop once, in the first millisecond after its deadline, is freed then,
    and the loop waits for the next one."""
    clock, n = Clock(), 20
    with clock.server(chapter) as server, server.connect() as conn:
        for i in range(n):
            conn.pipeline([["set", f"k{i}", "v"], ["pexpire", f"k{i}", str(100 + 10 * ((i * 7) % n))]], [None, 1])
        begin = clock.now_ms
        clock.to(begin + 99)
        before = clock.rounds
        for i in range(n):
            due = begin + 100 + 10 * i
            clock.to(due)
            clock.to(due + 1)
            wanted = due + 10 + 1 if i < n - 1 else None
            if clock.until_ms != wanted:
                fail(f"{n - 1 - i} keys are left; the server waits until {clock.until_ms} ms, not {wanted}")
        if clock.rounds - before > 2 * n + 2:
            fail(f"{n} keys went at {n} times; for that poll() returned {clock.rounds - before} times")
        conn.ask("keys", expect=[])


@case(since=13, until=wire.KEYSPACE_FROM - 1, inside=True)
def deadlines_up_to_the_last(chapter: int) -> None:
    """The latest deadline is 2^63 - 1 on the server's clock. One millisecond more is an error, and so is a second."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        most = INT64_MAX - (TODAY if codec(chapter).is_resp else clock.now_ms)  # from 20 on also as a time of day
        conn.pipeline([["pexpire", "k", str(most)], ["pttl", "k"]], [1, most])
        clock.rest()
        conn.pipeline([["pexpire", "k", str(most + 1)], ["pttl", "k"]], [Err(wire.ERR_ARG), most])
        conn.pipeline([["expire", "k", str(most // 1000)], ["pttl", "k"]], [1, most // 1000 * 1000])
        conn.pipeline([["expire", "k", str(most // 1000 + 1)], ["pttl", "k"]], [Err(wire.ERR_ARG), most // 1000 * 1000])
        conn.ask("persist", "k", expect=1)


@case(since=13, until=wire.KEYSPACE_FROM - 1, inside=True,
      perhaps="poll() takes an int: compare in 64 bits what is left, and cut it down to INT_MAX")  # fmt: skip
def deadlines_that_are_far(chapter: int) -> None:
    """They do not fit what poll() takes, so it comes back before; the key stays to its last millisecond."""
    for ms in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**40):
        clock = Clock()
        with clock.server(chapter) as server, server.connect() as conn:
            conn.pipeline([["set", "k", "v"], ["pexpire", "k", str(ms)]], [None, 1])
            clock.rest()
            before = clock.rounds
            for _ in range(20):
                clock.step(5)
            clock.step(ms // 2)
            clock.step(ms - ms // 2 - 100)
            if clock.until_ms is None:
                fail(f"a TTL of {ms} ms is over in a millisecond, but the server waits for ever")
            if clock.rounds - before > 6:
                fail(f"before a deadline {ms} ms away, poll() returned {clock.rounds - before} times")
            conn.pipeline([["get", "k"], ["pttl", "k"]], [b"v", 0])
            clock.step(1)
            if clock.until_ms is not None:
                fail(f"a TTL of {ms} ms is over, nothing else is to come: the server waits until {clock.until_ms}")
            conn.ask("get", "k", expect=None)


@case(since=13, inside=True)
def time_passes_in_a_read(chapter: int) -> None:
    """What the server knows of the time when it answers is what it was when it had read the request, not when the
    round began; on the same connection and on the next."""
    clock = Clock()
    clock.passes(1000)
    with clock.server(chapter) as server, server.connect() as conn, server.connect() as other:
        for command, gone in (("get", None), ("pttl", -2), ("persist", 0), ("del", 0), ("zscore", None)):
            more = ["n"] * (command == "zscore")
            for asks in (conn, other):
                say(conn)
                say(other)
                conn.pipeline([["set", "k", "v"], ["pexpire", "k", "999"]], [None, 1])
                clock.rest()
                with paused(server):
                    conn.send(asked(chapter, "get", clock.WORD) + asked(chapter, command, "k", *more) * (asks is conn))
                    other.send(asked(chapter, command, "k", *more) * (asks is other))
                conn.recv(None)
                asks.recv(gone)
        say(other)
        conn.pipeline([["set", "k", "v"], ["zadd", "z", clock.NUMBER, "n"], ["pexpire", "k", "50"]], [None, 1, 1])
        conn.ask("pttl", "k", expect=50)
        clock.step(50)
        conn.ask("get", "k", expect=b"v")


@case(since=13, until=wire.KEYSPACE_FROM - 1, inside=True,
      perhaps="when the loop wakes up, it removes many of those that are due, at most 200, and comes back at once for "
              "the rest")  # fmt: skip
def many_at_one_instant(chapter: int) -> None:
    """At most 200 go in one round, and all in about as many rounds as that takes; none is seen meanwhile, and others
    are served between the rounds."""
    for pairs, n in ((1, 6000), (30, 300)):
        clock = Clock()
        with clock.server(chapter) as server, server.connect() as conn, server.connect() as other:
            for i in range(pairs):
                bulk(conn, numbered(range(n), "zadd", "key:######", "1", f"n{i}"), 1)
            bulk(conn, numbered(range(n), "pexpire", "key:######", "1000"), 1)
            other.ask("set", "stays", "v", expect=None)
            clock.rest()
            before, work = clock.rounds, n * (1 + pairs)
            with paused(server):
                clock.leap(1001)
                other.send(asked(chapter, "keys") + asked(chapter, "get", f"key:{n - 1:06}"))
            other.recv([b"stays"])
            other.recv(None)
            clock.rest()
            rounds = clock.rounds - before
            if not work // 300 <= rounds <= work // 100 + 10:
                fail(f"{n} sorted sets of {pairs} pairs expired at the same time; that took {rounds} rounds")
            conn.ask("keys", expect=[b"stays"])


@case(since=13, inside=True)
def what_is_over_gives_way(chapter: int) -> None:
    """A sorted set comes where one has just expired, before the timer has got round to that. It is found, also when the
    table has moved all of its keys meanwhile."""
    clock, n = Clock(), 20
    for others in (1024, 1000):  # the table begins to grow at 1025 keys
        with clock.server(chapter) as server, server.connect() as conn:
            bulk(conn, numbered(range(n), "zadd", "z######", "1", "old"), 1)
            bulk(conn, numbered(range(n), "pexpire", "z######", "1000"), 1)
            bulk(conn, numbered(range(others - n), "set", "k######", ""), None)
            clock.rest()
            words = [["set", "one-more", ""]] * 2 + [["zadd", f"z{i:06}", "2", "new"] for i in range(n)]
            words += [["get", "-"]] * 250 + [["zscore", f"z{i:06}", "new"] for i in range(n)]
            with paused(server):
                clock.leap(1001)
                conn.send(b"".join(asked(chapter, *one) for one in words))
            for word in words:
                conn.recv({"set": None, "zadd": 1, "get": None, "zscore": 2.0}[word[0]])
            clock.rest()
            conn.pipeline([["zscore", f"z{i:06}", "new"] for i in range(n)], [2.0] * n)


@case(since=13, inside=True)
def random_times(chapter: int) -> None:
    """Random commands on a hundred keys, and steps of time between them that often end right at a deadline. Every
    answer is known to the millisecond."""
    rng, clock = random.Random(seed()), Clock()
    model = Model(chapter, clock=lambda: clock.now_ms)
    keys = [b"k%d" % i for i in range(100)]
    with clock.server(chapter) as server, server.connect() as conn:
        for _ in range(100):
            requests = [_random_command(rng, rng.choice(keys)) for _ in range(40)]
            conn.pipeline(requests, [model.do(*words) for words in requests])
            near = [ms for ms in sorted(model.deadlines.values())[:5] if ms > clock.now_ms]
            if near and rng.random() < 0.8:
                clock.to(rng.choice(near) + rng.choice([-1, 0, 0, 1, 1]))
            else:
                clock.step(rng.choice([0, 0.3, 1, 7, 400]))
            model.do("get", "k0")  # the model forgets what is over
            conn.ask("keys", expect=model.do("keys"))
        names = (b"get", b"pttl", b"ttl", b"persist", b"pttl")
        checks: List[List[bytes]] = [[name, key] for key in keys for name in names]
        conn.pipeline(checks, [model.do(*words) for words in checks])


def _random_command(rng: random.Random, key: bytes) -> List[bytes]:
    draw = rng.random()
    if draw < 0.35:
        return [b"pexpire", key, b"%d" % rng.choice([1, 2, 499, 500, 501, 1500, 10, 20, 10**9])]
    if draw < 0.4:
        return [b"expire", key, rng.choice([b"0", b"-1", b"1", b"x", b"9" * 19])]
    if draw < 0.65:
        return [b"set", key, b"v" * rng.choice([0, 1, 1, 5, 100])]
    if draw < 0.7:
        return [b"zadd", key, b"%d" % rng.randrange(3), rng.choice([b"a", b"b"])]
    if draw < 0.75:
        return [b"zrem", key, rng.choice([b"a", b"b"])]
    return [rng.choice([b"del", b"persist", b"get", b"ttl", b"ttl", b"pttl", b"pttl"]), key]
