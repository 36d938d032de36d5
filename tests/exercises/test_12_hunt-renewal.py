"""12-hunt-renewal: every connection is timed out at its own time, whoever else is there."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Dict

from fake_clock import BEGIN, Clock
from grading import Submission, points
from harness import Conn, Server, wire

TIMEOUT = 5000
SIZE = 3 << 20  # so much that the server can write again once it was taken


def slow_reader(clock: Clock, server: Server, conn: Conn, times: int) -> None:
    """The connection asks for a large value several times, and takes nothing yet."""
    conn.ask("set", "big", b"x" * SIZE, expect=None)
    clock.moved(lambda: conn.send(wire.request("get", "big") * times))


def take_some(clock: Clock, conn: Conn) -> None:
    """It takes one of the replies; returns when the server has written on."""
    clock.moved(lambda: conn.recv_exactly(4 + 5 + SIZE))


@points(3, "others beside a slow client")
def test_others_beside_a_slow_client(work: Submission) -> None:
    """One client takes a long reply slowly. Two others say nothing, one that came before it asked, and one that came
    after."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server, ExitStack() as stack:
        slow, early = (stack.enter_context(clock.connect(server, rcvbuf=4096)) for _ in range(2))
        slow_reader(clock, server, slow, 6)
        clock.step(10)
        early.ask("get", "k", expect=None)
        clock.step(10)
        late = stack.enter_context(clock.connect(server))
        silent = [("the one that came first", early), ("the one that came last", late)]
        for _ in range(2):
            clock.step(1990)
            take_some(clock, slow)
        wait = clock.wait
        work.expect(
            0 <= wait <= 1011,
            came=f"when one has been idle for 3990 ms the server means to wait {wait} ms",
            expected="1011 ms: then that one has been idle for longer than 5000 ms",
            cause="which connection stands first in the list, and since when has it been idle?",
        )
        for ms, expected in ((1010, "both"), (1, "the one that came last"), (9, "the one that came last"), (1, "none")):
            clock.step(ms)
            there = ", ".join(name for name, conn in silent if clock.is_open(conn)) or "none"
            work.expect(
                there == expected.replace("both", "the one that came first, the one that came last"),
                came=f"{clock.now_ms - BEGIN} ms after the beginning still open: {there}",
                expected=f"{expected}: they were idle from 10 and from 20 ms on, and the timeout is 5000 ms",
                cause="is the list in the order of the times in it?",
            )


@points(2, "the slow client itself")
def test_the_slow_client(work: Submission) -> None:
    """A client takes a part of its replies every 3000 ms, for longer than the timeout. Then it takes no more."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server:
        with clock.connect(server, rcvbuf=4096) as slow:
            slow_reader(clock, server, slow, 6)
            open_files = server.fd_count()
            for i in range(3):
                clock.step(3000)
                work.expect(
                    server.fd_count() == open_files,
                    came=f"it was closed after {3 * (i + 1)} s, although 3 s ago bytes had moved to it",
                    expected="it stays: it is idle only while nothing moves",
                    cause="do bytes that are sent renew the time?",
                )
                take_some(clock, slow)
            clock.step(TIMEOUT)
            work.expect(
                server.fd_count() == open_files, came="it was closed after 5000 ms without a byte",
                expected="not before more than that",
            )  # fmt: skip
            clock.step(1)
            work.expect(
                server.fd_count() < open_files, came="it is still open 5001 ms after the last byte",
                expected="it is closed",
            )  # fmt: skip


@points(2, "to the millisecond")
def test_to_the_millisecond(work: Submission) -> None:
    """Thirty connections speak in any order, and then fall silent. When is each of them closed?"""
    rng = random.Random(12)
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server, ExitStack() as stack:
        conns = [stack.enter_context(clock.connect(server)) for _ in range(30)]
        spoke: Dict[Conn, int] = {conn: clock.now_ms for conn in conns}
        for _ in range(120):
            clock.step(rng.randrange(40))
            conn = rng.choice(conns)
            conn.ask("get", "k", expect=None)
            spoke[conn] = clock.now_ms
        last = 0
        for conn in sorted(conns, key=lambda conn: spoke[conn]):
            due = spoke[conn] + TIMEOUT
            if due > clock.now_ms:
                clock.step(due - clock.now_ms)
            if due > last:
                work.expect(
                    clock.is_open(conn), came="a connection was closed when it had been idle for 5000 ms",
                    expected="more than 5000 ms",
                )  # fmt: skip
            last = due
            if due + 1 > clock.now_ms:
                clock.step(1)
            work.expect(
                not clock.is_open(conn),
                came=f"a connection is still open {clock.now_ms - spoke[conn]} ms after its last request",
                expected="closed after 5001 ms",
                cause="is each connection in the place of the list that its time says?",
            )
        clock.rest()
        work.expect(
            clock.rounds < 1500,
            came=f"poll() was called {clock.rounds} times",
            expected="some 800 times at most: for 30 connections, 120 requests and their timers",
            cause="the loop must sleep until the first of the list is due",
        )


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: an order of renewals, connections that end in every way, replies that are taken slowly."""
    work.chapter_tests(
        "each_at_its_own_time or come_stall_and_go or replies_that_are_taken_renew or says_whom_it_removes"
    )
