"""Chapter 06: the event loop, whole. Messages come back, however many at once, also to clients that
read late or not at all."""
from __future__ import annotations

import random
import signal
import socket
import time
from typing import List

import pytest

from cases import Case, case, earlier, new, perhaps
from cases.talk import start
from harness import Server, check_session, fail, limit, run_client, seed, wire
from harness.diagnose import NO_STATUS
from harness.failure import Failure
from harness.fake import FakeServer, read_frame
from harness.process import status_text
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

PERHAPS = "chapter 06 answers each message with itself, in order; it prints the message and how a connection ended"

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 06. The rules are in book/protocol.md.
SESSIONS = ["06-demo", "06-echo", "06-end", "06-others", "06-cut"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# A case, @case(since=6), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(6))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 6)


@case(since=6)
def ends_on_sigterm(chapter: int) -> None:
    """SIGTERM, which make and kill send, ends the server in good order: exit status 0."""
    with start(chapter) as server:
        status = server.stop(signal.SIGTERM, 2)
        if status:
            raise Failure(f"after SIGTERM: {status_text(status)}", [("expected", ["exit status 0"])], NO_STATUS)


# Runs each function above that is marked @case, and those of tests/cases/ with since=6 (abuse.py, clock.py, leaks.py,
# logs.py, memory.py, processes.py, trouble.py).
@pytest.mark.parametrize("case", new(6))
def test_new(case: Case) -> None:
    case(6)


# The cases of 03 to 05, as far as they still hold.
@pytest.mark.parametrize("case", earlier(6))
def test_earlier(case: Case) -> None:
    case(6)


# ---- the server ----


def test_prints_what_clients_say_and_how_they_end() -> None:
    with Server(6) as server:
        with server.connect() as one, server.connect() as two:
            two.ask("I am two", expect=b"I am two")
            one.ask("", expect=b"")
            two.close()
            server.wait_line("EOF")
            one.send(wire.frame(b"bye") + b"\1\0")
            one.recv(b"bye")
        server.wait_line("unexpected EOF")
        with server.connect() as conn:
            conn.send(wire.u32(4097))
            conn.expect_closed()
        log = [
            "client says: I am two", "client says: ", "EOF", "client says: bye", "unexpected EOF",
            "too long",
        ]  # fmt: skip
        assert server.wait_log(len(log)) == log


def test_echo_of_messages_of_every_length() -> None:
    rng = random.Random(seed())
    texts = [bytes(rng.randrange(256) for _ in range(n % 300)) for n in range(0, 3000, 7)]
    texts += [b"x" * n for n in (4095, 4096, 4093, 4092, 1, 4096, 0)]
    with Server(6) as server, server.connect() as conn:
        conn.pipeline([(text,) for text in texts], texts)


def test_the_end_of_input_in_a_full_buffer() -> None:
    """The input ends behind a message that fills the buffer to its last byte, while its answer waits
    for the client: then the answer comes, then the end."""
    with Server(6) as server, server.connect(rcvbuf=4096) as conn:
        for size in (4096, 4092, 2044):
            n = 200
            with server.connect(rcvbuf=4096) as late:
                sent = late.send_some(wire.frame(b"x" * size) * n, 0.05)
                late.shutdown_write()
                late.expect_bytes(wire.frame(b"x" * size) * (sent // (4 + size)))
                late.expect_closed(reset_ok=False)
        conn.ask("still here", expect=b"still here")


def test_descriptors_are_used_again() -> None:
    """Connections are found by descriptor: a new one gets a number that another had, and its state
    begins anew."""
    with Server(6) as server, server.connect() as other:
        for i in range(50):
            with server.connect() as conn:
                conn.ask(f"{i}", expect=b"%d" % i)
                conn.send(b"\7\0\0\0left" if i % 2 else b"\7")
            other.ask("hello", expect=b"hello")


def test_many_descriptors_then_few() -> None:
    """The tables grow; high descriptors go first, then low ones."""
    with Server(6) as server:
        conns = [server.connect() for _ in range(300)]
        for i, conn in enumerate(conns):
            conn.ask(f"{i}", expect=b"%d" % i)
        for conn in conns[150:]:
            conn.close()
        for conn in conns[:150:2]:
            conn.close()
        for i, conn in list(enumerate(conns))[1:150:2]:
            conn.ask(f"{i}", expect=b"%d" % i)
            conn.close()
        with server.connect() as conn:
            conn.ask("hello", expect=b"hello")


# ---- the client ----


def test_client_sends_all_before_it_reads() -> None:
    """The first answer comes when all three messages are there."""
    heard: List[bytes] = []

    def listen(sock: socket.socket) -> None:
        for _ in range(3):
            heard.append(read_frame(sock) or b"")
        for text in heard:
            sock.sendall(wire.frame(text.upper()))
        heard.append(sock.recv(1))

    with FakeServer(listen) as fake:
        result = run_client(6, [], fake)
    assert result == ("server says: HELLO1\nserver says: HELLO2\nserver says: HELLO3\n", "", 0)
    assert heard[:3] == [b"hello1", b"hello2", b"hello3"]


def test_client_takes_answers_however_they_are_cut() -> None:
    """All in one packet, and byte by byte."""
    answers = wire.frame(b"one") + wire.frame(b"") + wire.frame(b"x" * 4096)
    for size in (len(answers), 4, 1):

        def answer(sock: socket.socket, size: int = size) -> None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(3):
                read_frame(sock)
            for i in range(0, len(answers), size):
                sock.sendall(answers[i : i + size])
            sock.recv(1)

        with FakeServer(answer) as fake:
            result = run_client(6, [], fake)
        assert result == (f"server says: one\nserver says: \nserver says: {'x' * 4096}\n", "", 0)


def test_client_whose_server_leaves_after_two_answers() -> None:
    def leave(sock: socket.socket) -> None:
        for _ in range(3):
            read_frame(sock)
        sock.sendall(wire.frame(b"one") + wire.frame(b"two") + b"\3\0\0\0th")

    with FakeServer(leave) as fake:
        out, err, status = run_client(6, [], fake)
    assert (out, len(err.splitlines()), status) == ("server says: one\nserver says: two\n", 1, 1)


@perhaps("does a client wait for the one before? A small reply never waits: TCP_NODELAY.")
def test_clients_at_the_same_time() -> None:
    with Server(6) as server, server.connect() as silent:
        silent.send(b"\1")
        began = time.monotonic()
        for _ in range(20):
            assert run_client(6, [], server).stdout == "".join(f"server says: hello{i}\n" for i in (1, 2, 3))
        if time.monotonic() - began > limit(5):
            fail("20 clients, one after the other, took more than 5 s")
