"""Chapter 03: hello. Whatever a client sends, the answer is `world`; one client after the other."""
from __future__ import annotations

import signal
import socket

import pytest

from cases import Case, case, new
from cases.talk import ask, start
from harness import Server, check_session, diagnose, limit, run_client, wait_until
from harness.codec import codec
from harness.failure import Failure, cause
from harness.fake import FakeServer
from harness.process import free_port

PERHAPS = (
    "chapter 03 reads once, answers `world`, closes, and goes back to accept(); it prints `client says: ` and the "
    "text"
)


# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 03. The rules are in book/protocol.md.
SESSIONS = ["03-demo"]


# A case, @case(since=3), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@case(since=3)
def starts_where_it_is_told(chapter: int) -> None:
    """The server is started with a number in PORT, and must listen on 127.0.0.1 at that port."""
    port = free_port()
    with Server(chapter, port=port) as server:
        if server.port != port:
            raise Failure(
                f"it says that it listens on port {server.port}", [("expected", [f"port {port}, which PORT named"])],
                diagnose.port_ignored(server),
            )  # fmt: skip
        server.connect().close()


@case(since=3)
def one_request(chapter: int) -> None:
    """A client connects, says one thing, and gets its answer."""
    with start(chapter) as server, server.connect() as conn:
        ask(conn)


@case(since=3)
def one_client_after_another(chapter: int) -> None:
    """The next one connects when the one before has left."""
    with start(chapter) as server:
        for _ in range(3):
            with server.connect() as conn:
                ask(conn)


@case(since=3)
def the_client_leaves(chapter: int) -> None:
    """The client has had its answer and ends its input. The server closes the connection; that of 03 at once."""
    with start(chapter) as server, server.connect() as conn:
        ask(conn)
        if not codec(chapter).is_hello:
            conn.shutdown_write()
        conn.expect_closed()


@case(since=3)
def listens_on_loopback_alone(chapter: int) -> None:
    """Unless BIND says otherwise. All of 127.0.0.0/8 is this machine, so 127.0.0.2 stands for the rest."""
    with Server(chapter) as server, socket.socket() as s:
        s.settimeout(limit(2))
        if s.connect_ex(("127.0.0.2", server.port)) == 0:
            raise Failure(
                "the server accepts connections to 127.0.0.2", [("expected", ["it listens on 127.0.0.1 alone"])],
                cause("is it bound to every address? That is what INADDR_ANY says, or 0.0.0.0: without BIND it "
                      "must be 127.0.0.1."),
            )  # fmt: skip
    with Server(chapter, env={"BIND": "127.0.0.2"}) as server:
        server.connect(host="127.0.0.2").close()


# Runs each function above that is marked @case, and those of tests/cases/ with since=3 (client_errors.py, leaks.py,
# logs.py, processes.py, readme.py, trouble.py).
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
