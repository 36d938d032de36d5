"""05-hunt-last: whoever leaves, all others are served, and the place is free."""
from __future__ import annotations

import random
from contextlib import ExitStack

from cases.talk import paused
from grading import Submission, points
from harness import Conn, Server, seed, wait_until


def echo(work: Submission, conn: Conn, data: bytes, who: str) -> None:
    """Sends the bytes; they must come back."""
    conn.send(data)
    try:
        conn.expect_bytes(data)
    except AssertionError:
        how = f"its connection was {conn.ended}" if conn.ended else "nothing came back"
        work.fail(
            came=f"{who} is served no longer: {how}", expected="all who have not left are served",
            cause="who has taken the place of the one that left, and is it still in the set?",
        )
    conn.unanswered.clear()


@points(3, "one of three leaves")
def test_one_of_three(work: Submission) -> None:
    """Three clients; one of them leaves, the first, the second or the third; the other two speak."""
    for gone in (2, 0, 1):
        with Server(5) as server, ExitStack() as stack:
            conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(3)]
            for i, conn in enumerate(conns):
                echo(work, conn, b"hello", f"number {i + 1} of 3")
            conns[gone].close()
            server.wait_line("EOF")
            for i, conn in enumerate(conns):
                if i != gone:
                    echo(work, conn, b"bye", f"after number {gone + 1} has left, number {i + 1} of 3")


@points(3, "any order")
def test_any_order(work: Submission) -> None:
    """Forty clients leave in random order, up to three at the same moment; those who are left speak each time."""
    rng = random.Random(seed())
    with Server(5) as server, ExitStack() as stack:
        echo(work, stack.enter_context(server.connect()), b"first", "the first of all")
        before = server.fd_count()
        conns = {i: stack.enter_context(server.connect(seconds=2)) for i in range(40)}
        for i, conn in conns.items():
            echo(work, conn, b"%d" % i, f"number {i}")
        while conns:
            leaving = rng.sample(sorted(conns), min(3, len(conns)))
            with paused(server):
                for i in leaving:
                    conns.pop(i).close()
            for i, conn in conns.items():
                echo(work, conn, b"still %d" % i, f"after numbers {leaving} have left, number {i}")
        wait_until(lambda: server.fd_count() == before, "the connections of those who have left are closed")
        late = stack.enter_context(server.connect(seconds=2))
        echo(work, late, b"late", "one who comes when all have left")


@points(1, "eleven hundred, one after another")
def test_one_after_another(work: Submission) -> None:
    """Two clients stay; eleven hundred others come and go, one after another. There is room for a thousand at a
    time."""
    with Server(5) as server, server.connect() as one, server.connect() as two:
        for i in range(1100):
            with server.connect() as conn:
                conn.send(b"%d" % i)
                try:
                    conn.expect_bytes(b"%d" % i)
                except AssertionError:
                    full = "no room for another client" in server.log
                    work.fail(
                        came=f"number {i + 1} is not served"
                        + "; the server printed: no room for another client" * full,
                        expected="a place is free again when its client has left",
                        cause="are places that have become empty ever used again?" if full else "",
                    )
        echo(work, one, b"one", "the first who stayed")
        echo(work, two, b"two", "the second who stayed")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of clients that come and go."""
    work.chapter_tests("gives_its_place or resets_and_answers or connections_in_any_order or no_cpu")
