"""05-accept-all: whoever waits is accepted in one round of the loop, and no failure of accept() ends or stops it."""
from __future__ import annotations

from contextlib import ExitStack

from cases.talk import paused, preload
from grading import Submission, points
from harness import Server, wait_until


@points(4, "two hundred at once")
def test_few_polls(work: Submission) -> None:
    """The server is stopped, two hundred clients connect, and it goes on. How often does it call poll() until all are
    in?"""
    n = 200
    with work.count("poll") as counted, Server(5) as server, ExitStack() as stack:
        before = server.fd_count()
        with paused(server):
            conns = [stack.enter_context(server.connect()) for _ in range(n)]
            counted.reset()
        wait_until(lambda: server.fd_count() == before + n, f"all {n} clients are accepted")
        polls = counted["poll"]
        for i in (0, n // 2, n - 1):
            conns[i].send(b"hello")
            conns[i].expect_bytes(b"hello")
    work.expect(
        polls <= 5,
        came=f"{n} clients were accepted, and the server called poll() {polls} times for it",
        expected="one or two calls: one tells that somebody waits, and then all are accepted",
        cause="does the loop around accept() end while others wait?"
        if polls < n // 2
        else "one client in a round of the loop?",
    )


@points(2, "gone again, cut short")
def test_gone_again(work: Submission) -> None:
    """Every second call of accept() is cut short by a signal (EINTR), or its client has gone again (ECONNABORTED)."""
    with Server(5, env=preload("interrupt")) as server:
        for i in range(20):
            with server.connect() as conn:
                conn.send(b"x")
                server.wait_line("client says: x", i + 1)


@points(2, "out of descriptors")
def test_out_of_descriptors(work: Submission) -> None:
    """A server that may have 12 descriptors, and twenty clients. Then some of those who are in leave."""
    with Server(5, nofile=12) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(20)]
        try:
            for _ in range(20):  # the first may be answered before descriptors have run out
                conns[0].send(b"hello")
                conns[0].expect_bytes(b"hello")
        except AssertionError:
            work.expect(
                conns[0].ended,
                came="as soon as descriptors have run out nobody is served, not even those who are in",
                expected="those who are in go on being served",
                cause="does the loop around accept() ever come to an end?",
            )
            raise
        for conn in conns[:12]:
            conn.close()
        conns[-1].send(b"hello")
        conns[-1].expect_bytes(b"hello")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of many clients, of clients that come and go, and of a thousand and one."""
    work.chapter_tests("gives_its_place or resets_and_answers or limit_a_thousand or prints_what or no_cpu")
