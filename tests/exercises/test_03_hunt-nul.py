"""03-hunt-nul: the answer is the five bytes of `world`, whatever was said."""
from __future__ import annotations

import socket

from grading import Submission, points
from harness import Server, run_client
from harness.fake import FakeServer


@points(4, "five bytes and no more")
def test_bytes(work: Submission) -> None:
    """Clients say things of 1 to 64 bytes, some with a NUL in them. Which bytes come back, until the end?"""
    with Server(3) as server:
        for said in (b"hello", b"x", b"six by", b"a NUL \0 inside", b"\0", b"y" * 64):
            with server.connect() as conn:
                conn.send(said)
                came = conn.read_to_end()
            cause = ""
            if len(came) == len(said):
                cause = "the answer is as long as what was said"
            elif len(came) == 6:
                cause = "what is the sixth byte for, and who needs it?"
            elif len(came) == 8:
                cause = "8 is the size of a pointer on this machine"
            work.expect(
                came == b"world", came=f"to {said!r} these {len(came)} bytes came back: {came!r}",
                expected="the five bytes b'world', then the end", cause=cause,
            )


@points(2, "what the client prints")
def test_client(work: Submission) -> None:
    """The client, against your server and against another one, which answers 64 bytes."""

    def other(sock: socket.socket) -> None:
        sock.recv(64)
        sock.sendall(b"m" * 64)

    with Server(3) as server:
        out = run_client(3, [], server).stdout
        work.expect(
            out == "server says: world\n",
            came=f"with your server it printed {out!r}",
            expected=repr("server says: world\n"),
        )
    with FakeServer(other) as fake:
        out = run_client(3, [], fake).stdout
        work.expect(
            out == f"server says: {'m' * 64}\n",
            came=f"with the other server it printed {out!r}",
            expected="server says: and all 64 bytes",
            cause="was the client changed, where the fault is not the client's?",
        )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of the server, and what the client says."""
    work.chapter_tests(
        "world_then_the_end or prints_what or get_their_turn or leaves_does_no_harm or client_says_hello"
    )
