"""The first steps (03 and later), from simple to hard. What fails here is to be mended before anything else."""
from __future__ import annotations

import signal
import socket

from harness import Conn, Server, limit, settings
from harness.failure import Failure, cause
from harness.process import NO_STATUS, free_port, status_text

from . import case
from .talk import encode, say, start, talk

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = "server.main one_round accept_new_conn connection_io one_request try_one_request state_* conn_done"


def ask(conn: Conn, text: bytes = b"hello") -> None:
    """One request, and its answer."""
    if conn.chapter in (3, 5):
        conn.send(text)
        conn.expect_bytes(b"world" if conn.chapter == 3 else text)
        conn._answered(len(conn.unanswered))
    else:
        say(conn, 1)


@case(since=3)
def starts_where_it_is_told(chapter: int) -> None:
    """The server is started with a number in PORT, and must listen on 127.0.0.1 at that port."""
    port = free_port()
    with Server(chapter, port=port) as server:
        if server.port != port:
            raise Failure(
                f"it says that it listens on port {server.port}", [("expected", [f"port {port}, which PORT named"])],
                server.port_ignored(),
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


@case(since=4)
def a_second_request(chapter: int) -> None:
    """On the same connection, after the answer to the first."""
    with start(chapter) as server, server.connect() as conn:
        if chapter == 5:
            ask(conn)
            ask(conn, b"again")
        else:
            say(conn, 2)


@case(since=3)
def the_client_leaves(chapter: int) -> None:
    """The client has had its answer and ends its input. The server closes the connection; that of 03 at once."""
    with start(chapter) as server, server.connect() as conn:
        ask(conn)
        if chapter > 3:
            conn.shutdown_write()
        conn.expect_closed()


@case(since=5)
def two_clients_at_once(chapter: int) -> None:
    """One is connected and says nothing. Another connects, asks, and must have its answer."""
    with start(chapter) as server, server.connect(), server.connect(seconds=2) as conn:
        ask(conn)


@case(since=4, but=5)
def a_request_in_two_pieces(chapter: int) -> None:
    """The second piece comes a moment after the first: cut in the length, behind it, and before the end."""
    requests, replies = talk(chapter, 1, "piece")
    data = encode(chapter, requests)
    for at in (2, 4, len(data) - 2):
        with start(chapter) as server, server.connect(seconds=2) as conn:
            conn.send_pieces(data[:at], at, gap=0.05)
            conn.send(data[at:])
            conn.recv(replies[0])


@case(since=4, but=5)
def two_requests_in_one_write(chapter: int) -> None:
    """One read() brings both. The answers come in the order of the requests."""
    requests, replies = talk(chapter, 2, "both")
    with start(chapter) as server, server.connect(seconds=2) as conn:
        conn.pipeline(requests, replies)


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


@case(since=6)
def ends_on_sigterm(chapter: int) -> None:
    """SIGTERM, which make and kill send, ends the server in good order: exit status 0."""
    with start(chapter) as server:
        status = server.stop(signal.SIGTERM, 2)
        if status:
            raise Failure(f"after SIGTERM: {status_text(status)}", [("expected", ["exit status 0"])], NO_STATUS)
