"""05-two-addresses: one loop serves the clients of two ports."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import List

from cases.talk import many
from grading import Submission, points
from harness import Conn, Server, run_program, seed, wait_until
from harness.process import LISTENING


def two_ports(work: Submission, server: Server) -> List[int]:
    """The ports that the server says it listens on."""
    try:
        wait_until(lambda: len(listening(server)) >= 2, "a second line `listening on`", 2)
    except AssertionError:
        work.fail(
            came="with PORT=0 and PORT2=0 the server printed\n" + "\n".join(server.lines),
            expected="two lines `listening on ADDRESS:PORT`",
        )
    return listening(server)


def listening(server: Server) -> List[int]:
    found = [LISTENING.match(line) for line in server.lines]
    return [int(match.group(2)) for match in found if match]


def connect(work: Submission, ports: List[int], which: int) -> Conn:
    """A client of one of the ports."""
    try:
        return Conn(ports[which], 5, seconds=2)
    except AssertionError:
        work.fail(
            came=f"a client of port {which + 1}: its connection is refused",
            expected="the server listens on both ports as long as it runs",
            cause="what does the server do with its listening sockets in a round of the loop?",
        )
        raise


def echo(work: Submission, conn: Conn, data: bytes, who: str) -> None:
    """Sends the bytes; they must come back."""
    conn.send(data)
    try:
        conn.expect_bytes(data)
    except AssertionError:
        how = f"the connection was {conn.ended}" if conn.ended else "nothing came back"
        work.fail(
            came=f"{who}: {how}",
            expected="what a client sends comes back, at both ports",
            cause="who accepts at that port, and who reads from it?",
        )
    conn.unanswered.clear()


@points(3, "both at the same time")
def test_both(work: Submission) -> None:
    """Ten clients of each port; some of them are silent, the others speak in turn."""
    with Server(5, env={"PORT2": "0"}) as server, ExitStack() as stack:
        ports = two_ports(work, server)
        conns = [[stack.enter_context(connect(work, ports, which)) for _ in range(10)] for which in range(2)]
        for i in range(4):
            for j, port in enumerate(ports):
                echo(work, conns[j][2 * i + 1], b"hello %d" % port, f"client {2 * i + 2} of port {j + 1}")
        echo(work, conns[1][9], b"bye", "a client of port 2")
        echo(work, conns[0][9], b"bye", "a client of port 1")


@points(2, "come and go")
def test_come_and_go(work: Submission) -> None:
    """Clients of both ports come and go in random order; those who are there speak each time."""
    rng = random.Random(seed())
    with Server(5, env={"PORT2": "0"}) as server, ExitStack() as stack:
        ports = two_ports(work, server)
        conns: List[Conn] = []
        before = server.fd_count()
        for i in range(60):
            which = rng.randrange(2)
            conns.append(stack.enter_context(connect(work, ports, which)))
            echo(work, conns[-1], b"%d" % i, f"client {i + 1}, of port {which + 1}")
            if rng.random() < 0.8:
                conns.pop(rng.randrange(len(conns))).close()
            for conn in conns[:5]:
                echo(work, conn, b"still %d" % i, f"one of {len(conns)} clients of both ports")
        for conn in conns:
            conn.close()
        wait_until(lambda: server.fd_count() == before, "the connections of those who have left are closed")


@points(2, "a thousand")
def test_thousand(work: Submission) -> None:
    """A thousand clients, five hundred of each port. Then one more of each, which there is no room for."""
    n = many(1000)
    with Server(5, env={"PORT2": "0"}) as server, ExitStack() as stack:
        ports = two_ports(work, server)
        conns = [stack.enter_context(connect(work, ports, i % 2)) for i in range(n)]
        for i, conn in list(enumerate(conns))[::50] + [(n - 1, conns[-1])]:
            echo(work, conn, b"hello", f"client {i + 1} of {n}, with {i} before it, up to 999 of which there is room")
        if n == 1000:
            for i, port in enumerate(ports):
                with Conn(port, 5) as late:
                    late.expect_closed()
                server.wait_line("no room for another client", i + 1)
        echo(work, conns[0], b"bye", "the first client")
        conns.pop().close()
        server.wait_line("EOF")
        with Conn(ports[1], 5) as late:
            echo(work, late, b"hello", "a client that comes when one has left")


@points(2, "no PORT2, or a wrong one")
def test_port2(work: Submission) -> None:
    """A server without PORT2, one with an empty one, and some whose PORT2 is no port number."""
    for env in ({}, {"PORT2": ""}):
        with Server(5, env=env) as server, server.connect() as conn:
            echo(work, conn, b"hello", "a client")
            ports = listening(server)
            work.expect(
                len(ports) == 1,
                came=f"without PORT2 the server listens on {len(ports)} ports",
                expected="the one of PORT",
            )
    for text in ("65536", "-1", "http", "12x"):
        ran = run_program(5, "server", env={"PORT": "0", "PORT2": text}, seconds=2)
        work.expect(
            ran.status == 1 and f"PORT2={text}" in ran.stderr,
            came=f"with PORT2={text}: exit status {ran.status}, and on standard error {ran.stderr!r}",
            expected="one line that names PORT2, and status 1",
        )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of clients that come and go."""
    work.chapter_tests("gives_its_place or resets_and_answers or prints_what or no_cpu or limit_a_thousand")
