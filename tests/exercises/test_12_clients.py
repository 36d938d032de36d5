"""12-clients: a command that answers how many connections there are, and how long the first of the list has been
idle."""
from __future__ import annotations

from contextlib import ExitStack

from fake_clock import Clock
from grading import Submission, points
from harness import Conn, Err, wire


def expect_clients(work: Submission, conn: Conn, n: int, idle_ms: int, after: str) -> None:
    """Asks, and compares both numbers."""
    came = conn.ask("clients")
    what = f"(arr) len=2: (int) {n}, (int) {idle_ms}"
    if not isinstance(came, list) or len(came) != 2 or not all(isinstance(each, int) for each in came):
        work.fail(
            tried=f"clients, {after}", came=wire.show_value(came), expected=what,
            cause="is it an array of two integers?",
        )  # fmt: skip
    assert isinstance(came, list)
    work.expect(
        came[0] == n,
        tried=f"clients, {after}",
        came=f"{came[0]} connections",
        expected=f"{n} connections",
        cause="is every way counted in which a connection comes and goes? All of them end in one function.",
    )
    work.expect(
        came[1] == idle_ms,
        tried=f"clients, {after}",
        came=f"{came[1]} ms as the longest time without a byte",
        expected=f"{idle_ms} ms",
        cause="is it the first of the list that you look at, and the time of now that you subtract from?",
    )


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of values of each type, and of connections that are timed out."""
    work.chapter_tests(
        "idle_connections_are_closed or zero_means_never or says_whom_it_removes or replies_byte_for_byte"
    )


@points(3, "how many")
def test_how_many(work: Submission) -> None:
    """Connections come; some close, some end their input, some send half a request, some are timed out."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=5000) as server, ExitStack() as stack:
        conn = stack.enter_context(clock.connect(server))
        expect_clients(work, conn, 1, 0, "on the only connection")
        others = [stack.enter_context(clock.connect(server)) for _ in range(5)]
        expect_clients(work, conn, 6, 0, "with five others")
        clock.close(others.pop())
        expect_clients(work, conn, 5, 0, "after one of six has closed")
        clock.noticed(others.pop().shutdown_write)
        expect_clients(work, conn, 4, 0, "after one more has ended its input, so that the server has closed it")
        clock.send(others[0], b"\7\0\0")
        expect_clients(work, conn, 4, 0, "after one has sent a part of a request")
        clock.send(others[1], wire.frame(b"nonsense"))
        expect_clients(work, conn, 4, 0, "after one has sent a bad request, and has not hung up")
        clock.step(3000)
        conn.ask("get", "k", expect=None)
        clock.step(2001)
        expect_clients(work, conn, 1, 0, "after all others have been timed out")
        others = [stack.enter_context(clock.connect(server)) for _ in range(100)]
        expect_clients(work, conn, 101, 0, "with a hundred others")
        for other in others:
            other.reset()
        clock.step(4000)
        conn.ask("get", "k", expect=None)
        clock.step(1001)
        expect_clients(work, conn, 1, 0, "after a hundred have gone with a reset")


@points(3, "for how long")
def test_how_long(work: Submission) -> None:
    """Three connections. The clock is moved; some of them speak, one only listens."""
    size = 6 << 20
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=5000) as server, ExitStack() as stack:
        one, two, three = (stack.enter_context(clock.connect(server, rcvbuf=4096)) for _ in range(3))
        expect_clients(work, one, 3, 0, "when all three have just come")
        clock.step(700)
        expect_clients(work, one, 3, 700, "700 ms later: the two others have said nothing")
        clock.step(200)
        expect_clients(work, two, 3, 900, "200 ms later on the second one: the third has still said nothing")
        clock.send(three, b"\7\0\0\0")
        expect_clients(work, two, 3, 200, "after the third has sent the four bytes of a length")
        clock.step(100)
        expect_clients(work, one, 3, 100, "100 ms later: none has been idle for longer")
        clock.close(three)
        one.ask("set", "big", b"x" * size, expect=None)
        clock.step(50)
        expect_clients(work, two, 2, 50, "50 ms later, with two left")
        clock.moved(lambda: one.send(wire.request("get", "big") * 3))
        clock.step(400)
        expect_clients(work, two, 2, 400, "400 ms after the first has asked for 18 MB, of which it has read nothing")
        clock.moved(lambda: one.recv_exactly(2 * size))
        clock.step(30)
        expect_clients(work, two, 2, 30, "30 ms after it has read two thirds of them")
        clock.close(one)
        clock.step(1234)
        expect_clients(work, two, 1, 0, "1234 ms later on the only one that is left: it was idle until it asked")


@points(1, "without a timeout")
def test_without_a_timeout(work: Submission) -> None:
    """With IDLE_TIMEOUT_MS=0 nobody is timed out, and the numbers are the same."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, ExitStack() as stack:
        one, _ = (stack.enter_context(clock.connect(server)) for _ in range(2))
        clock.step(86_400_000)
        expect_clients(
            work, one, 2, 86_400_000, "with another that has said nothing for a day, under IDLE_TIMEOUT_MS=0"
        )


@points(1, "wrong number of arguments")
def test_arguments(work: Submission) -> None:
    """clients with an argument, and in capital letters."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("clients", "x", expect=Err(wire.ERR_ARG))
        conn.ask("CLIENTS", expect=[1, 0])
