"""Chapter 03: hello. Whatever a client sends, the answer is `world`; one client after the other."""
from __future__ import annotations

import signal
import socket

import pytest

from cases import Case, new
from harness import Server, check_session, run_client, wait_until
from harness.fake import FakeServer


# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 03. The rules are in book/protocol.md.
SESSIONS = ["03-demo"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=3.
@pytest.mark.parametrize("case", new(3))
def test_new(case: Case) -> None:
    case(3)


# ---- the server ----


def test_world_then_the_end() -> None:
    with Server(3) as server, server.connect() as conn:
        conn.send(b"hello")
        assert conn.read_to_end() == b"world"
        assert conn.ended == "closed"


def test_prints_what_the_client_says() -> None:
    with Server(3) as server:
        for word in (b"hello", b"x", b"two words"):
            with server.connect() as conn:
                conn.send(word)
                assert conn.read_to_end() == b"world"
        assert server.wait_log(3) == ["client says: hello", "client says: x", "client says: two words"]


def test_one_client_after_another() -> None:
    with Server(3) as server:
        before = server.fd_count()
        for _ in range(100):
            with server.connect() as conn:
                conn.send(b"hello")
                assert conn.read_to_end() == b"world"
        wait_until(lambda: server.fd_count() == before, "every connection is closed")


def test_clients_that_wait_get_their_turn() -> None:
    """They are connected by the kernel, and in the queue that listen() made, until accept() comes."""
    with Server(3) as server:
        conns = [server.connect() for _ in range(20)]
        for conn in reversed(conns):
            conn.send(b"hello")
        for conn in conns:
            assert conn.read_to_end() == b"world"
            conn.close()


def test_a_client_that_leaves_does_no_harm() -> None:
    """Before it says anything, with a reset, or without waiting for the answer."""
    with Server(3) as server:
        for i in range(30):
            conn = server.connect()
            if i % 3:
                conn.send(b"hello")
            if i % 2:
                conn.reset()
            conn.close()
        with server.connect() as conn:
            conn.send(b"hello")
            assert conn.read_to_end() == b"world"


# ---- the client ----


def test_client_says_hello() -> None:
    heard = []

    def listen(sock: socket.socket) -> None:
        heard.append(sock.recv(64))
        sock.sendall(b"world")
        heard.append(sock.recv(64))

    with FakeServer(listen) as fake:
        assert run_client(3, [], fake) == ("server says: world\n", "", 0)
        wait_until(lambda: len(heard) == 2, "the client hangs up")
    assert heard == [b"hello", b""]


@pytest.mark.parametrize("answer", [b"moon", b"w", b"100% %s", b"x" * 64])
def test_client_prints_what_the_server_says(answer: bytes) -> None:
    def say(sock: socket.socket) -> None:
        sock.recv(64)
        sock.sendall(answer)

    with FakeServer(say) as fake:
        assert run_client(3, [], fake) == (f"server says: {answer.decode()}\n", "", 0)


def test_client_takes_another_port_and_address() -> None:
    with Server(3, env={"BIND": "127.0.0.2"}) as server:
        result = run_client(3, [], server, env={"HOST": "127.0.0.2"})
        assert result == ("server says: world\n", "", 0)


# ---- the limits that README.md names ----


@pytest.mark.inside
def test_limit_a_hello_in_two_pieces_is_answered_after_the_first() -> None:
    with Server(3) as server, server.connect() as conn:
        conn.send(b"hel")
        assert conn.read_to_end() == b"world"
        assert server.wait_log(1) == ["client says: hel"]


@pytest.mark.inside
def test_limit_of_a_long_hello_64_bytes_are_read() -> None:
    with Server(3) as server, server.connect() as conn:
        conn.send(b"x" * 65)
        conn.read_to_end()
        assert server.wait_log(1) == ["client says: " + "x" * 64]


@pytest.mark.inside
def test_limit_a_silent_client_holds_up_the_others() -> None:
    with Server(3) as server, server.connect() as silent, server.connect() as other:
        other.send(b"hello")
        other.expect_silence(0.1)
        silent.close()
        assert other.read_to_end() == b"world"


@pytest.mark.inside
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_limit_a_signal_ends_the_server_where_it_stands(sig: int) -> None:
    with Server(3) as server:
        assert server.stop(sig) == -sig
