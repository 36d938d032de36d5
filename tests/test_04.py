"""Chapter 04: the protocol. A message is a length and so many bytes, 4096 at most; each one is answered."""
from __future__ import annotations

import signal
import socket
from typing import List

import pytest

from cases import Case, earlier, new
from harness import Server, check_session, run_client, wait_until, wire
from harness.fake import FakeServer, read_frame, replies
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 04. The rules are in book/protocol.md.
SESSIONS = ["04-demo", "04-longest", "04-cut"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(4))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 4)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=4.
@pytest.mark.parametrize("case", new(4))
def test_new(case: Case) -> None:
    case(4)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(4))
def test_earlier(case: Case) -> None:
    case(4)


# ---- the server ----


def test_prints_what_clients_say() -> None:
    with Server(4) as server:
        for words in (["hello", "two words"], ["", "bye"]):
            with server.connect() as conn:
                for word in words:
                    conn.ask(word, expect=b"world")
        log = ["client says: hello", "client says: two words", "EOF", "client says: ", "client says: bye", "EOF"]
        assert server.wait_log(len(log)) == log


def test_one_client_after_another() -> None:
    with Server(4) as server:
        before = server.fd_count()
        for _ in range(50):
            with server.connect() as conn:
                conn.ask("hello", expect=b"world")
        wait_until(lambda: server.fd_count() == before, "every connection is closed")


def test_clients_that_wait_get_their_turn() -> None:
    with Server(4) as server:
        conns = [server.connect() for _ in range(20)]
        for conn in conns:
            conn.send(conn.encode(["hello"]))
        for conn in conns:
            conn.recv(b"world")
            conn.close()


@pytest.mark.parametrize("sent", [b"", b"\5", b"\5\0\0\0hel", wire.frame(b"hello"), wire.frame(b"hello") * 100])
def test_a_client_that_leaves_does_no_harm(sent: bytes) -> None:
    """With a close or a reset, anywhere in a message, without waiting for the answer."""
    with Server(4) as server:
        for i in range(10):
            conn = server.connect()
            conn.send(sent)
            if i % 2:
                conn.reset()
            conn.close()
        with server.connect() as conn:
            conn.ask("hello", expect=b"world")


def test_a_client_that_reads_late_gets_every_answer() -> None:
    """The server waits in write() meanwhile."""
    with Server(4) as server, server.connect(rcvbuf=4096) as conn:
        data = wire.frame(b"x" * 100) * 20_000
        sent = conn.send_some(data, 0.1)
        conn.expect_bytes(wire.frame(b"world") * (sent // 104))


# ---- the client ----


def test_client_sends_three_messages_on_one_connection() -> None:
    """Each after the answer to the one before."""
    heard: List[bytes] = []
    early: List[bytes] = []

    def listen(sock: socket.socket) -> None:
        for answer in (b"one", b"two", b"three"):
            heard.append(read_frame(sock) or b"")
            sock.settimeout(0.02)
            try:
                early.append(sock.recv(1))
            except socket.timeout:
                pass
            sock.settimeout(5)
            sock.sendall(wire.frame(answer))

    with FakeServer(listen) as fake:
        result = run_client(4, [], fake)
    assert result == ("server says: one\nserver says: two\nserver says: three\n", "", 0)
    assert heard == [b"hello1", b"hello2", b"hello3"] and not early


def test_client_takes_answers_in_pieces() -> None:
    def drip(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while read_frame(sock) is not None:
            for byte in wire.frame(b"world"):
                sock.sendall(bytes([byte]))

    with FakeServer(drip) as fake:
        assert run_client(4, [], fake) == ("server says: world\n" * 3, "", 0)


@pytest.mark.parametrize("answer", [b"", b"x" * 4096, b"100% %s"])
def test_client_prints_what_the_server_says(answer: bytes) -> None:
    with FakeServer(replies(*[wire.frame(answer)] * 3)) as fake:
        assert run_client(4, [], fake) == (f"server says: {answer.decode()}\n" * 3, "", 0)


def test_client_whose_server_leaves_after_two_answers() -> None:
    with FakeServer(replies(*[wire.frame(b"world")] * 2)) as fake:
        out, err, status = run_client(4, [], fake)
    assert (out, len(err.splitlines()), status) == ("server says: world\n" * 2, 1, 1)


# ---- the limits that README.md names ----


@pytest.mark.inside
@pytest.mark.parametrize("sent", [b"", b"\5\0"])
def test_limit_a_client_waits_for_the_one_before(sent: bytes) -> None:
    with Server(4) as server, server.connect() as first, server.connect() as second:
        first.send(sent)
        second.send(second.encode(["hello"]))
        second.expect_silence(0.1)
        first.close()
        second.recv(b"world")


@pytest.mark.inside
def test_limit_a_client_that_does_not_read_holds_up_the_others() -> None:
    with Server(4) as server, server.connect(rcvbuf=4096) as first, server.connect() as second:
        first.send_some(wire.frame(b"x") * 500_000, 0.1)
        second.send(second.encode(["hello"]))
        second.expect_silence(0.1)
        first.reset()
        second.recv(b"world")


@pytest.mark.inside
def test_limit_answers_before_a_message_that_is_too_long_may_be_lost() -> None:
    with Server(4) as server, server.connect(rcvbuf=4096) as conn:
        conn.ask("hello", expect=b"world")
        connected = server.fd_count()
        conn.send_some(wire.frame(b"") * 3000 + wire.u32(4097) + b"x" * 10_000, 0.1)
        wait_until(lambda: server.fd_count() < connected, "the server closes")
        assert len(conn.read_to_end()) < 3000 * len(wire.frame(b"world"))
        assert conn.ended == "reset"


@pytest.mark.inside
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_limit_a_signal_ends_the_server_where_it_stands(sig: int) -> None:
    with Server(4) as server:
        assert server.stop(sig) == -sig
