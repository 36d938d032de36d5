"""12-io-timeouts: limits for a whole request and for replies that wait, beside that for idling."""
from __future__ import annotations

from contextlib import ExitStack

from fake_clock import Clock
from grading import Submission, points
from harness import Conn, Server, wire

SIZE = 27 << 20  # one reply, much larger than what two kernels hold
PIECE = 3 << 20  # so much that the server can write again once it was taken
REQUEST = wire.request("set", "key", "a value of some length")


def expect_there(work: Submission, clock: Clock, conn: Conn, there: bool, what: str, expected: str, cause: str) -> None:
    work.expect(
        clock.is_open(conn) == there, came=f"the connection is {'closed' if there else 'still open'} {what}",
        expected=expected, cause=cause,
    )  # fmt: skip


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of idle connections, of connections that come and go, and of half requests."""
    work.chapter_tests("half_a_request_is_no_activity or come_stall_and_go or zero_means_never or says_whom_it_removes")


@points(3, "requests that trickle")
def test_trickling(work: Submission) -> None:
    """READ_TIMEOUT_MS=3000 beside IDLE_TIMEOUT_MS=1000: a request comes a byte at a time, one every 400 ms."""
    for first in (1, 4, 9):
        with Clock(work) as clock, clock.server(
            IDLE_TIMEOUT_MS=1000, READ_TIMEOUT_MS=3000, WRITE_TIMEOUT_MS=0
        ) as server:
            with clock.connect(server) as conn:
                clock.step(700)
                clock.send(conn, REQUEST[:first])
                for i in range(first, first + 7):
                    clock.step(400)
                    expect_there(
                        work, clock, conn, True, f"{(i - first + 1) * 400} ms after the first byte of a request",
                        "the limit is 3000 ms",
                        "does the time begin with the first byte, and not when the connection was accepted?",
                    )  # fmt: skip
                    clock.send(conn, REQUEST[i : i + 1])
                clock.step(200)
                expect_there(
                    work, clock, conn, True, "3000 ms after the first byte of a request",
                    "it is closed when it was more than 3000 ms", "is the comparison the same as for idle connections?",
                )  # fmt: skip
                clock.step(1)
                expect_there(
                    work, clock, conn, False, "3001 ms after the first byte of a request",
                    "closed: the limit is 3000 ms for all of it", "do bytes that follow renew the time?",
                )  # fmt: skip
    with Clock(work) as clock, clock.server(
        IDLE_TIMEOUT_MS=1000, READ_TIMEOUT_MS=0, WRITE_TIMEOUT_MS=0
    ) as server, clock.connect(server) as conn:
        for i in range(len(REQUEST) - 1):
            clock.send(conn, REQUEST[i : i + 1])
            clock.step(900)
            expect_there(
                work, clock, conn, True, f"after {i + 1} bytes with READ_TIMEOUT_MS=0",
                "there is no limit for a request", "0 means: no limit",
            )  # fmt: skip
        conn.send(REQUEST[-1:])
        conn.recv(None)


@points(2, "one request after another")
def test_one_after_another(work: Submission) -> None:
    """READ_TIMEOUT_MS=1000: requests whose parts come 800 ms apart, the end of one with the beginning of the next."""
    half = len(REQUEST) // 2
    with Clock(work) as clock, clock.server(
        IDLE_TIMEOUT_MS=5000, READ_TIMEOUT_MS=1000
    ) as server, clock.connect(server) as conn:
        cause = "is the time of the first request stopped when it is taken, and begun anew for what lies behind it?"
        conn.send(REQUEST * 3 + REQUEST[:half])
        for _ in range(3):
            conn.recv(None)
        for i in range(4):
            clock.step(800)
            expect_there(
                work, clock, conn, True, f"at part {i + 2} of a stream in which no request took longer than 800 ms",
                "each request has 1000 ms", cause,
            )  # fmt: skip
            conn.send(REQUEST[half:] + REQUEST[:half])
            conn.recv(None)
        clock.step(700)
        conn.send(REQUEST[half:])
        conn.recv(None)
        clock.step(4000)
        expect_there(
            work, clock, conn, True, "4000 ms after a complete request",
            "no request has begun, and the limit for idling is 5000 ms",
            "is the timer stopped when a request is complete and nothing follows?",
        )  # fmt: skip
        conn.send(REQUEST + REQUEST[:half])
        conn.recv(None)
        clock.step(1000)
        expect_there(work, clock, conn, True, "1000 ms after the first bytes of a request", "more than 1000 ms", cause)
        clock.step(1)
        expect_there(
            work, clock, conn, False,
            "1001 ms after the first bytes of a request, which came with the end of the one before", "closed", cause,
        )  # fmt: skip


def slow_reader(clock: Clock, server: Server, stack: ExitStack, more: bytes = b"") -> Conn:
    """A connection that has asked for a large value, and has taken nothing of it yet."""
    conn = stack.enter_context(clock.connect(server, rcvbuf=4096))
    conn.ask("set", "big", b"x" * SIZE, expect=None)
    clock.moved(lambda: conn.send(wire.request("get", "big") + more))
    return conn


def take(clock: Clock, conn: Conn) -> None:
    """Takes a piece of the reply; returns when the server has written on."""
    clock.moved(lambda: conn.recv_exactly(PIECE))


@points(3, "replies that are taken slowly")
def test_replies(work: Submission) -> None:
    """WRITE_TIMEOUT_MS=3000 beside IDLE_TIMEOUT_MS=2000: a client takes a part of its replies every 1000 ms."""
    with Clock(work) as clock, clock.server(
        IDLE_TIMEOUT_MS=2000, READ_TIMEOUT_MS=0, WRITE_TIMEOUT_MS=3000
    ) as server, ExitStack() as stack:
        clock.rest()
        files = server.fd_count()
        conn = slow_reader(clock, server, stack)
        for i in range(2):
            clock.step(1000)
            take(clock, conn)
        clock.step(1000)
        work.expect(
            server.fd_count() == files + 1, came="the connection is closed 3000 ms after its replies began to wait",
            expected="more than 3000 ms",
        )  # fmt: skip
        clock.step(1)
        work.expect(
            server.fd_count() == files,
            came="the connection is still open 3001 ms after its replies began to wait",
            expected="closed: the limit is 3000 ms, and there are replies left",
            cause="do bytes that are taken renew the time?",
        )
        conn = slow_reader(clock, server, stack)
        clock.step(1900)
        conn.recv_exactly(4 + 5 + SIZE)
        conn.unanswered.clear()
        clock.rest()
        clock.step(1999)
        work.expect(
            server.fd_count() == files + 1,
            came="a connection was closed 3899 ms after its replies began to wait, though it has taken all of them",
            expected="when all is through the time is stopped",
            cause="where is the timer of the replies stopped?",
        )
    with Clock(work) as clock, clock.server(
        IDLE_TIMEOUT_MS=0, READ_TIMEOUT_MS=1000, WRITE_TIMEOUT_MS=0
    ) as server, ExitStack() as stack:
        clock.rest()
        files = server.fd_count()
        conn = slow_reader(clock, server, stack, REQUEST[:9])
        clock.step(5000)
        work.expect(
            server.fd_count() == files + 1,
            came="a connection was closed for a request of which a part lies behind replies that wait",
            expected="its time begins when the replies are through",
            cause="does the timer run while the connection writes?",
        )
        conn.recv_exactly(4 + 5 + SIZE)
        clock.rest()
        clock.step(1000)
        work.expect(
            server.fd_count() == files + 1, came="it was closed 1000 ms after the replies were through",
            expected="more than 1000 ms",
        )  # fmt: skip
        clock.step(1)
        work.expect(
            server.fd_count() == files, came="it is still open 1001 ms after the replies were through",
            expected="closed: a part of a request has been there since",
        )  # fmt: skip


@points(2, "how long the loop sleeps")
def test_sleep(work: Submission) -> None:
    """Timers of all three kinds wait, in different orders. How long does the server mean to wait in poll()?"""
    for idle, read, write in (
        (9000, 5000, 7000), (5000, 9000, 7000), (9000, 7000, 5000), (0, 0, 4000), (0, 4000, 0), (0, 0, 0)
    ):
        with Clock(work) as clock, ExitStack() as stack:
            server = stack.enter_context(
                clock.server(IDLE_TIMEOUT_MS=idle, READ_TIMEOUT_MS=read, WRITE_TIMEOUT_MS=write)
            )
            conn = stack.enter_context(clock.connect(server))
            clock.send(conn, REQUEST[:9])
            slow_reader(clock, server, stack)
            clock.step(100)
            kinds = [ms for ms in (idle, read, write) if ms]
            expected = min(kinds) - 100 + 1 if kinds else -1
            came = clock.wait
            work.expect(
                came == expected,
                tried=(
                    f"idle {idle}, read {read}, write {write} ms: a request in part and replies that wait, both for"
                    " 100 ms"
                ),
                came=f"it means to wait {came} ms" if came >= 0 else "it means to wait for ever",
                expected=f"{expected} ms, when the first of them is due" if kinds else "for ever: all are 0",
                cause="is the nearest of three deadlines taken?",
            )
            clock.step(max(kinds, default=0) + 1)
