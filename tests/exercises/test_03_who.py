"""03-who: the server prints the address and the port of the client that speaks."""
from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import List

from grading import Submission, points
from harness import Server, limit


def expect_lines(work: Submission, server: Server, wanted: List[str]) -> None:
    """The server must have printed these lines, in this order."""
    came = server.wait_log(len(wanted))
    for number, line in enumerate(wanted):
        other = came[number] if number < len(came) else "nothing"
        if other == line:
            continue
        peer = line.split()[1]
        port = int(peer.split(":")[1])
        cause = ""
        if f":{socket.htons(port)} " in other:
            cause = "the port is the right one in the wrong byte order: the wire has it highest byte first"
        elif f":{server.port} " in other:
            cause = "that port is the server's own: which end of the connection is asked for?"
        elif "0.0.0.0:0" in other:
            cause = "nothing was filled in: does the call know how much room there is?"
        work.fail(came=f"line {number + 1} of what the server printed is\n{other}", expected=line, cause=cause)


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of answers: clients one after another, in the queue, and those that leave."""
    work.chapter_tests("world_then_the_end or get_their_turn or leaves_does_no_harm or client_says_hello")


@points(3, "the port")
def test_port(work: Submission) -> None:
    """Three clients one after another, then ten that are connected before the first of them speaks."""
    wanted: List[str] = []
    with Server(3) as server, ExitStack() as stack:
        for word in ("hello", "x", "two words"):
            with server.connect() as conn:
                wanted.append(f"client 127.0.0.1:{conn.sock.getsockname()[1]} says: {word}")
                conn.send(word.encode())
                conn.read_to_end()
        expect_lines(work, server, wanted)
        conns = [stack.enter_context(server.connect()) for _ in range(10)]
        for i, conn in enumerate(reversed(conns)):
            conn.send(b"number %d" % (9 - i))
        for i, conn in enumerate(conns):
            wanted.append(f"client 127.0.0.1:{conn.sock.getsockname()[1]} says: number {i}")
            conn.read_to_end()
        expect_lines(work, server, wanted)


@points(3, "the address")
def test_address(work: Submission) -> None:
    """A server on all addresses of this machine, and clients that come from 127.0.0.9 and others."""
    wanted: List[str] = []
    with Server(3, env={"BIND": "0.0.0.0"}) as server:
        for mine, theirs in (("127.0.0.9", "127.0.0.1"), ("127.0.0.1", "127.0.0.5"), ("127.1.2.3", "127.0.0.9")):
            with socket.create_connection((theirs, server.port), limit(5), (mine, 0)) as sock:
                sock.sendall(f"from {mine}".encode())
                wanted.append(f"client {mine}:{sock.getsockname()[1]} says: from {mine}")
                answer = sock.recv(64)
                work.expect(answer == b"world", came=f"the answer {answer!r}", expected="world")
        expect_lines(work, server, wanted)
