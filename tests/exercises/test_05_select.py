"""05-select: the loop waits in select(), and keeps descriptors out that do not fit into a set."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import List

from cases.talk import many
from grading import Submission, points, rounds_at_rest
from harness import Conn, Server, seed, wait_until

SET_SIZE = 1024
WITH_OTHERS_OPEN = (
    "import os, sys; [os.set_inheritable(os.dup(0), True) for _ in range(100)]; os.execv(sys.argv[1], sys.argv[1:])"
)


def echo(work: Submission, conn: Conn, data: bytes, who: str, cause: str = "") -> None:
    """Sends the bytes; they must come back."""
    conn.send(data)
    try:
        conn.expect_bytes(data)
    except AssertionError:
        how = f"the connection was {conn.ended}" if conn.ended else "nothing came back"
        work.fail(came=f"{who}: {how}", expected="what it has sent", cause=cause)
    conn.unanswered.clear()


@points(3, "it waits in select()")
def test_select(work: Submission) -> None:
    """Thirty clients speak in random order. In which call does the server wait?"""
    rng = random.Random(seed())
    with work.count("select", "poll") as counted, Server(5) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(30)]
        for i in list(range(29, -1, -1)) + [rng.randrange(30) for _ in range(100)]:
            echo(
                work, conns[i], b"hello %d" % i, f"client {i + 1} of 30",
                "which descriptors are in the set that select() gets, in each round?",
            )  # fmt: skip
        seen = counted.now()
    work.expect(
        seen["select"] > 0,
        came=f"the server waited {seen['poll']} times, never in select()",
        expected="select() in place of poll()",
    )
    work.expect(
        seen["poll"] - seen["select"] <= 1,  # one call may be half counted
        came=f"{seen['select']} calls of select(), and {seen['poll'] - seen['select']} of another kind",
        expected="select() alone",
    )


@points(2, "come and go")
def test_come_and_go(work: Submission) -> None:
    """Clients come and go in random order; those who are there speak; at last all have gone, and the server waits."""
    rng = random.Random(seed())
    with work.count("poll") as counted, Server(5) as server, server.connect(seconds=2) as first, ExitStack() as stack:
        echo(work, first, b"first", "the first client")
        before = server.fd_count()
        conns: List[Conn] = []
        for i in range(60):
            conns.append(stack.enter_context(server.connect(seconds=2)))
            echo(work, conns[-1], b"%d" % i, f"client {i + 2}", "is what has been closed still in the set?")
            if rng.random() < 0.8:
                conns.pop(rng.randrange(len(conns))).close()
        for conn in conns:
            conn.close()
        wait_until(lambda: server.fd_count() == before, "the connections of those who have left are closed")
        echo(work, first, b"bye", "the first client, when all others have left")
        polls = rounds_at_rest(server, counted, first, 5)
    work.expect(
        polls <= 5,
        came=f"with one silent client the server called select() {polls} times in a tenth of a second",
        expected="one call that waits",
    )


@points(3, "descriptors above the set")
def test_above_the_set(work: Submission) -> None:
    """A server that is started with a hundred descriptors open, so that its clients come to number 1024 before there
    are 950."""
    n = many(SET_SIZE + 150)
    command = [*work.wrapper(), work.python, "-c", WITH_OTHERS_OPEN, work.program("server")]
    with Server(5, command=command) as server, ExitStack() as stack:
        room = SET_SIZE - server.fd_count()
        if n < SET_SIZE + 150:
            return  # this machine does not allow so many descriptors
        conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(room)]
        echo(
            work, conns[-1], b"hello", f"client {room}, whose descriptor is 1023",
            "which is the highest descriptor that fits into a set?",
        )  # fmt: skip
        for _ in range(3):
            with server.connect(seconds=2) as late:
                try:
                    late.expect_closed()
                except AssertionError:
                    work.fail(
                        came="a client whose descriptor would be 1024 is not sent away",
                        expected="no room for another client",
                        cause="how large is a set, and who compares?",
                    )
        server.wait_line("no room for another client", 3)
        for i in (0, room // 2, room - 1):
            echo(work, conns[i], b"still there?", f"client {i + 1}, after others were sent away")
        conns.pop(5).close()
        server.wait_line("EOF")
        with server.connect(seconds=2) as late:
            echo(work, late, b"hello", "a client that comes when one has left")


@points(3, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of clients that come and go, and of a thousand and one."""
    work.chapter_tests(
        "gives_its_place or resets_and_answers or prints_what or no_cpu or limit_a_thousand or takes_answers"
    )
