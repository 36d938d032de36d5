"""06-epoll: the loop waits in epoll_wait(), and tells the kernel what has changed, no more."""
from __future__ import annotations

from contextlib import ExitStack

from cases.talk import many, paused
from grading import Counted, Submission, points, rounds_at_rest
from harness import Conn, Server, wait_until, wire


def expect_quiet(
    work: Submission, server: Server, counted: Counted, other: Conn, who: str, most: int = 10
) -> None:  # fmt: skip
    """While another client waits for nothing, the server must hardly wake up; then it serves that client."""
    rounds = rounds_at_rest(server, counted, other, most)
    work.expect(
        rounds <= most,
        came=f"with {who}, and nothing to do, the server waited {rounds} times in a tenth of a second",
        expected="one call that waits until there is something to do",
        cause="which event is reported again and again, and who asked for it?",
    )
    other.ask("other", expect=b"other")


@points(3, "few calls")
def test_few_calls(work: Submission) -> None:
    """Two hundred idle clients, and one that says five hundred things, one by one."""
    n = 500
    with work.count("poll", "epoll_wait", "epoll_ctl") as counted, Server(6) as server, ExitStack() as stack:
        for _ in range(many(200)):
            stack.enter_context(server.connect())
        with server.connect() as conn:
            conn.ask("first", expect=b"first")
            counted.reset()
            for i in range(n):
                conn.ask(f"{i}", expect=b"%d" % i)
            seen = counted.now()
    others = seen["poll"] - seen["epoll_wait"]
    came = (
        f"{n} messages, with {seen['epoll_wait']} calls of epoll_wait(), {others} of poll() or the like, and"
        f" {seen['epoll_ctl']} of epoll_ctl()"
    )
    work.expect(
        seen["epoll_wait"] > 0 and others <= 1,  # one call may be half counted
        came=came,
        expected="epoll_wait() in place of poll()",
    )
    work.expect(
        seen["epoll_wait"] <= 2 * n,
        came=came,
        expected="about one call of epoll_wait() for each message",
        cause="does it report what nobody waits for?",
    )
    work.expect(
        seen["epoll_ctl"] <= n // 10, came=came, expected="no call of epoll_ctl() where nothing changes",
        cause="is the kernel told what it knows already?",
    )


@points(2, "much at once")
def test_much_at_once(work: Submission) -> None:
    """Thirty thousand bytes of messages in one write; then 150 clients that are ready in the same moment."""
    n = many(150)
    with Server(6) as server, ExitStack() as stack:
        with server.connect(seconds=2) as conn:
            for size in (10, 4096, 100):
                data = wire.frame(b"x" * size) * (30_000 // (4 + size) + 1)
                conn.send(data)
                conn.expect_bytes(data)
        conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(n)]
        for conn in conns:
            conn.ask("here", expect=b"here")
        with paused(server):
            for i, conn in enumerate(conns):
                conn.send(wire.frame(b"client %d" % i))
        for i, conn in enumerate(conns):
            conn.recv(b"client %d" % i)


@points(3, "clients that do not read")
def test_does_not_read(work: Submission) -> None:
    """A client sends until the server takes no more, ends its output, and waits. Then it reads all answers."""
    message = wire.frame(b"x" * 1000)
    with work.count("poll") as counted, Server(6) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        conn = stack.enter_context(server.connect(rcvbuf=1 << 16, seconds=2))
        sent = conn.send_some(message * 20_000, 0.1) // len(message)
        conn.shutdown_write()
        expect_quiet(work, server, counted, other, "a client that does not read")
        try:
            got = conn.recv_exactly(sent * len(message))
        except AssertionError:
            work.fail(
                came=f"{len(conn.buffer) // len(message)} of {sent} answers came, then nothing",
                expected="the rest, as the client takes it",
                cause="who says that there is room again, and was it asked to?",
            )
        assert got == message * sent, "other bytes came back than were sent"
        conn.expect_closed(reset_ok=False)
        expect_quiet(work, server, counted, other, "a client that has gone")


@points(2, "out of descriptors")
def test_out_of_descriptors(work: Submission) -> None:
    """A server that may have 16 descriptors, and thirty clients. The server must not spin; as some leave, others come
    in."""
    with work.count("poll") as counted, Server(6, nofile=16) as server, ExitStack() as stack:
        first = stack.enter_context(server.connect())
        first.ask("hello", expect=b"hello")
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        wait_until(lambda: server.fd_count() >= 16, "all descriptors are in use")
        expect_quiet(work, server, counted, first, "no descriptor left")
        for conn in conns:
            conn.ask("hello", expect=b"hello")
            conn.close()
        first.ask("bye", expect=b"bye")


@points(3, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing, of descriptors, of stalled and of leaving clients, of idle ones, and of
    signals."""
    work.chapter_tests(
        "04- or behind_a_blocked or used_again or many_descriptors or no_cpu or bad_length or resets_in_the or"
        " leaves_when_idle"
    )
