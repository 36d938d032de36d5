"""18-hunt-warm: what epoll is asked for while a reply waits goes when the reply is out."""
from __future__ import annotations

import time
from contextlib import ExitStack

from cases.talk import Counts, asked, readable
from grading import Submission, points
from harness import Conn, Server, wait_until

LARGE = b"l" * 500_000


def start(counts: Counts) -> Server:
    return Server(18, env={**counts.env, "IDLE_TIMEOUT_MS": "0"})


def is_slow(server: Server, stack: ExitStack, times: int) -> Conn:
    """A client that asks so many times for a large value, and reads nothing yet."""
    conn = stack.enter_context(server.connect(rcvbuf=4096, seconds=10))
    conn.ask("get", "none", expect=None)
    conn.send(asked(18, "get", "large") * times)
    wait_until(lambda: readable(conn), "the first reply begins to come")
    time.sleep(0.1)
    return conn


def expect_quiet(work: Submission, counts: Counts, who: str) -> None:
    """The server sleeps: in a third of a second, in which nothing happens, it does not ask epoll again and again."""
    time.sleep(0.1)
    counts.reset()
    time.sleep(0.3)
    polls = counts.polls
    work.expect(
        polls <= 5,
        came=f"with {who} and nothing to do, epoll_wait() was called {polls} times in 0.3 s: a whole processor",
        expected="hardly a call", cause="what is epoll asked for, and is it nearly always so?",
    )  # fmt: skip


def read(conn: Conn, times: int) -> None:
    for _ in range(times):
        conn.recv(LARGE)


@points(3, "the night after")
def test_after_a_slow_reader(work: Submission) -> None:
    """A client is slow to take three large values. Then it has them, and nothing happens; then it asks once more."""
    counts = Counts()
    with start(counts) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        other.ask("set", "large", LARGE, expect=None)
        conn = is_slow(server, stack, 3)
        read(conn, 3)
        conn.ask("get", "none", expect=None)
        expect_quiet(work, counts, "a client that was slow to read")
        conn.ask("get", "none", expect=None)


@points(2, "while it does not read")
def test_while_it_does_not_read(work: Submission) -> None:
    """A client reads nothing, and has sent more requests meanwhile: the server waits until it reads."""
    counts = Counts()
    with start(counts) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        other.ask("set", "large", LARGE, expect=None)
        conn = is_slow(server, stack, 3)
        conn.send(asked(18, "get", "none") * 10)
        expect_quiet(work, counts, "a client that does not read, and has sent more")
        read(conn, 3)
        for _ in range(10):
            conn.recv(None)


@points(2, "thirty of them")
def test_thirty(work: Submission) -> None:
    """Thirty clients are slow, each in its turn, and all get what they have asked for."""
    counts = Counts()
    with start(counts) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        other.ask("set", "large", LARGE, expect=None)
        conns = [is_slow(server, stack, 2) for _ in range(30)]
        for conn in conns:
            read(conn, 2)
            conn.ask("get", "none", expect=None)
        expect_quiet(work, counts, "thirty clients that were slow to read")
        other.ask("get", "large", expect=LARGE)


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of what the kernel is told, and of those who wait for their turn."""
    work.chapter_tests("told_of_changes or gone_while")
