"""06-max-clients: so many clients are served; one too many is told why, and that arrives."""
from __future__ import annotations

from contextlib import ExitStack
from typing import List

from cases.talk import paused
from grading import Submission, points
from harness import Conn, Server, run_program, wait_until, wire

FULL = wire.frame(b"too many clients")
MOST_STAYING = 10


def expect_refused(work: Submission, conn: Conn, who: str) -> None:
    """The client must get the message, then an orderly end."""
    try:
        got = conn.read_to_end()
    except AssertionError:
        got = bytes(conn.buffer)
    end = f"the connection was {conn.ended}" if conn.ended else "the connection is still open"
    cause = ""
    if not got:
        cause = "does the message arrive when there is input that nobody has read?"
    if not conn.ended:
        cause = "is it taken for one that has a place? whom do you count?"
    work.expect(
        got == FULL,
        came=f"{who}: {repr(got)[1:] if got else 'nothing'} came, and {end}",
        expected=f"{repr(FULL)[1:]}, and the end",
        cause=cause,
    )
    work.expect(
        conn.ended == "closed",
        came=f"{who}: the message came, and {end}",
        expected="the message, then an orderly end",
        cause="what does the kernel make of a close, where input lies unread?" if conn.ended else "",
    )


@points(3, "three places")
def test_three_places(work: Submission) -> None:
    """MAX_CLIENTS=3: three clients are served, others are told why not. When one leaves, one other is served in its
    place."""
    with Server(6, env={"MAX_CLIENTS": "3"}) as server, ExitStack() as stack:
        conns: List[Conn] = []
        for i in range(3):
            conns.append(stack.enter_context(server.connect(seconds=2)))
            conns[-1].ask(f"number {i + 1}", expect=b"number %d" % (i + 1))
        before = server.fd_count()
        for round_ in range(4):
            for _ in range(4):
                with server.connect(seconds=2) as late:
                    expect_refused(work, late, "a client that comes when three are served")
            wait_until(lambda: server.fd_count() == before, "the connections of clients that were sent away are closed")
            for conn in conns:
                conn.ask("still here", expect=b"still here")
            conns.pop(0).close()
            server.wait_line("EOF", round_ + 1)
            wait_until(lambda: server.fd_count() == before - 1, "the connection of the client that left is closed")
            conns.append(stack.enter_context(server.connect(seconds=2)))
            conns[-1].ask("in its place", expect=b"in its place")
        printed = [
            line for line in server.log if line not in ("EOF", "client says: still here", "client says: in its place")
        ]
        work.expect(
            len(printed) == 3,
            came="the server printed also\n" + "\n".join(printed[3:]),
            expected="nothing of clients that were sent away",
        )


@points(3, "requests before the refusal")
def test_requests_before(work: Submission) -> None:
    """Clients that have sent requests, little or much, before the server comes to accept them."""
    with Server(6, env={"MAX_CLIENTS": "1"}) as server, server.connect() as first:
        first.ask("first", expect=b"first")
        for size, what in ((1, "one request"), (300, "three hundred requests"), (3000, "three thousand requests")):
            with paused(server):
                late = server.connect(seconds=2)
                late.send(wire.frame(b"hello") * size)
            with late:
                expect_refused(work, late, f"a client that had sent {what} before it was accepted")
        with paused(server):
            late = server.connect(seconds=2)
            late.send(wire.u32(5000) + b"x" * 5000)
        with late:
            expect_refused(work, late, "a client that had sent a message which is too long")
        first.ask("still here", expect=b"still here")
        said = [line for line in server.log if "hello" in line or "too long" in line]
        work.expect(
            not said,
            came=f"of clients that were sent away the server printed {said[0] if said else ''!r}",
            expected="nothing",
        )


@points(3, "sent away, and still there")
def test_stays(work: Submission) -> None:
    """MAX_CLIENTS=2, and thirty clients that were sent away do not hang up. Later they do; meanwhile one of the two
    leaves."""
    with Server(6, env={"MAX_CLIENTS": "2"}) as server, ExitStack() as stack:
        idle = server.fd_count()
        one, two = (stack.enter_context(server.connect(seconds=2)) for _ in range(2))
        for conn in (one, two):
            conn.ask("hello", expect=b"hello")
        staying = []
        for i in range(30):
            conn = stack.enter_context(server.connect(seconds=2))
            if i < MOST_STAYING:
                expect_refused(work, conn, f"client {i + 1} of those that are sent away and stay")
            staying.append(conn)
        one.ask("still here", expect=b"still here")
        fds = server.fd_count() - idle
        work.expect(
            fds <= 2 + MOST_STAYING,
            came=f"two clients are served, thirty were sent away and stay; the server has {fds} descriptors for them",
            expected=f"{2 + MOST_STAYING} at most",
            cause="what bounds those that wait in STATE_BAD?",
        )
        two.close()
        wait_until(lambda: server.fd_count() == idle + fds - 1, "the connection of the client that left is closed")
        with server.connect(seconds=2) as late:
            late.send(wire.frame(b"me?"))
            try:
                got = late.recv_body()
            except AssertionError:
                got = b"nothing"
            work.expect(
                got == b"me?",
                came=(
                    "one of the two clients has left, those that were sent away stay; the next client got"
                    f" {got.decode()}"
                ),
                expected="its place",
                cause="whom do you count, from when to when?",
            )
        for conn in staying:
            conn.close()
        wait_until(lambda: server.fd_count() == idle + 1, "all that have hung up are closed")
        again = stack.enter_context(server.connect(seconds=2))
        again.ask("again", expect=b"again")
        with server.connect(seconds=2) as late:
            expect_refused(work, late, "a client that comes when two are served, and nobody else is there")


@points(1, "the value")
def test_value(work: Submission) -> None:
    """Without MAX_CLIENTS fifty clients are served; values that are no number from 1 to 100000 end the server."""
    with Server(6) as server, ExitStack() as stack:
        for i in range(50):
            stack.enter_context(server.connect(seconds=2)).ask(f"{i}", expect=b"%d" % i)
    for text in ("0", "-1", "many", "100001"):
        ran = run_program(6, "server", env={"PORT": "0", "MAX_CLIENTS": text}, seconds=2)
        work.expect(
            ran.status == 1 and "MAX_CLIENTS" in ran.stderr,
            came=f"with MAX_CLIENTS={text}: exit status {ran.status}, on standard error {ran.stderr!r}",
            expected="one line that names MAX_CLIENTS, and status 1",
        )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing, of ends, and of clients that come and go."""
    work.chapter_tests(
        "04- or used_again or many_descriptors or bad_length_read_late or resets_in_the or no_cpu"
    )
