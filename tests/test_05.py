"""Chapter 05: nonblocking. Many clients at once, and none waits for another; what they send comes back."""
from __future__ import annotations

import random
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack
from typing import List

import pytest

from cases import Case, case, earlier, new, perhaps
from cases.talk import Hammer, ask, many, paused, preload, start, uses_no_cpu
from harness import Conn, Server, check_session, fail, limit, run_client, seed, wait_until
from harness.fake import FakeServer
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

PERHAPS = "chapter 05 sends each connection what came on it, and waits for all of them in one poll()"

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 05. The rules are in book/protocol.md.
SESSIONS = ["05-demo", "05-order", "05-silent"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# A case, @case(since=5), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(5))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 5)


@case(since=5)
def two_clients_at_once(chapter: int) -> None:
    """One is connected and says nothing. Another connects, asks, and must have its answer."""
    with start(chapter) as server, server.connect(), server.connect(seconds=2) as conn:
        ask(conn)


# Runs each function above that is marked @case.
@pytest.mark.parametrize("case", new(5))
def test_new(case: Case) -> None:
    case(5)


# The cases of 03 to 04, as far as they still hold.
@pytest.mark.parametrize("case", earlier(5))
def test_earlier(case: Case) -> None:
    case(5)


def echo(conn: Conn, data: bytes) -> None:
    """Sends the bytes and waits until they have come back."""
    conn.send(data)
    conn.expect_bytes(data)
    conn.unanswered.clear()


# ---- the server ----


@pytest.mark.parametrize("data", [b"hello", b"x", bytes(range(256)), b"%s%n\r\n", b"y" * 4096])
def test_echo(data: bytes) -> None:
    with Server(5) as server, server.connect() as conn:
        for _ in range(3):
            echo(conn, data)


def test_more_than_one_read_takes() -> None:
    """The rest is read in the next rounds of the loop."""
    with Server(5) as server, server.connect() as conn:
        for size in (4097, 8192, 30_000):
            echo(conn, bytes(random.Random(size).randrange(256) for _ in range(size)))


def test_prints_what_clients_say() -> None:
    with Server(5) as server, server.connect() as one, server.connect() as two:
        echo(two, b"I am two")
        echo(one, b"I am one")
        two.close()
        server.wait_line("EOF")
        echo(one, b"bye")
        log = ["client says: I am two", "client says: I am one", "EOF", "client says: bye"]
        assert server.wait_log(len(log)) == log


def test_connections_in_any_order() -> None:
    rng = random.Random(seed())
    with Server(5) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(50)]
        for i in range(500):
            echo(rng.choice(conns), b"%d" % i * rng.randrange(1, 50))


@perhaps("does the server wait in read() for a client that is silent? Ask poll() first.")
def test_silent_clients_hold_up_nobody() -> None:
    n = many(900)
    with Server(5) as server, ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(server.connect())
        with server.connect() as conn:
            began = time.monotonic()
            for _ in range(50):
                echo(conn, b"hello")
            took = time.monotonic() - began
            if took > limit(2):
                fail(f"50 answers beside {n} silent clients took {took:.1f} s")
        uses_no_cpu(server, f"{n} silent clients")


def test_a_client_that_does_not_read_holds_up_nobody() -> None:
    with Server(5) as server, server.connect() as other:
        with server.connect(rcvbuf=4096) as conn:
            conn.send_some(b"x" * 10_000_000, 0.1)
            echo(other, b"hello")
        echo(other, b"hello")


def test_a_flood_beside_others() -> None:
    with Server(5) as server, server.connect() as other, Hammer(server):
        for _ in range(50):
            echo(other, b"hello")


def test_one_that_ends_gives_its_place_to_the_last() -> None:
    """The others are still the ones they were, whoever ends."""
    rng = random.Random(seed())
    with Server(5) as server, ExitStack() as stack:
        echo(stack.enter_context(server.connect()), b"first")
        before = server.fd_count() - 1
        conns = {i: stack.enter_context(server.connect()) for i in range(40)}
        for i, conn in conns.items():
            echo(conn, b"%d" % i)
        while conns:
            for i in rng.sample(sorted(conns), min(3, len(conns))):
                conns.pop(i).close()
            for i, conn in conns.items():
                echo(conn, b"still %d" % i)
        wait_until(lambda: server.fd_count() == before + 1, "the connections that ended are closed")


def test_resets_and_answers_unread_do_no_harm() -> None:
    with Server(5) as server, server.connect() as other:
        echo(other, b"hello")
        before = server.fd_count()
        for _ in range(3):
            conn = server.connect()
            wait_until(lambda: server.fd_count() == before + 1, "the connection is accepted")
            with paused(server):
                conn.send(b"x" * 10_000)  # for three reads: the second write finds nobody (SIGPIPE)
                conn.close()
            echo(other, b"hello")
            wait_until(lambda: server.fd_count() == before, "the connection that has gone is closed")
        for i in range(60):
            conn = server.connect()
            if i % 3:
                conn.send(b"x" * 1000 * (i % 3))
            if i % 2:
                conn.reset()
            conn.close()
            echo(other, b"hello")
        wait_until(lambda: server.fd_count() == before, "the connections that have gone are closed")


def test_no_cpu_when_idle() -> None:
    """With clients that are connected, have half-closed, or are gone."""
    with Server(5) as server, server.connect() as conn, server.connect() as half:
        echo(conn, b"hello")
        echo(half, b"hello")
        half.shutdown_write()
        half.expect_closed(reset_ok=False)
        server.connect().reset()
        uses_no_cpu(server, "idle clients")


@pytest.mark.inside
def test_interrupted_calls() -> None:
    """One of two calls on a socket ends with EINTR (cases/interrupt.c). Small messages, because what
    a write does not take is lost here, also where a signal is to blame."""
    with Server(5, env=preload("interrupt")) as server:
        for i in range(20):
            with server.connect() as conn:
                conn.send(b"x")
                server.wait_line("client says: x", i + 1)
                conn.shutdown_write()
                server.wait_line("EOF", i + 1)


# ---- the client ----


def test_client_opens_three_connections_first() -> None:
    """All three are there before it speaks, and it speaks on the third first."""
    heard: List[bytes] = []
    all_three = threading.Barrier(3)

    def listen(sock: socket.socket) -> None:
        all_three.wait(limit(5))
        while True:
            data = sock.recv(64)
            if not data:
                return
            heard.append(data)
            sock.sendall(data)

    with FakeServer(listen) as fake:
        result = run_client(5, [], fake)
    said = ["hello3", "hello1", "hello2", "bye3", "bye1", "bye2"]
    assert result == ("".join(f"server says: {text}\n" for text in said), "", 0)
    assert heard == [text.encode() for text in said]


def test_client_takes_answers_in_pieces() -> None:
    def drip(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            data = sock.recv(64)
            if not data:
                return
            for byte in data.upper():
                sock.sendall(bytes([byte]))

    with FakeServer(drip) as fake:
        said = ["HELLO3", "HELLO1", "HELLO2", "BYE3", "BYE1", "BYE2"]
        assert run_client(5, [], fake) == ("".join(f"server says: {text}\n" for text in said), "", 0)


# ---- the limits that README.md names ----


@pytest.mark.inside
def test_limit_what_a_client_does_not_take_is_lost() -> None:
    with Server(5) as server, server.connect(rcvbuf=4096) as conn:
        sent = conn.send_some(b"x" * 20_000_000, 0.1)
        server.wait_line(re.compile("bytes taken, the rest is lost$"))
        conn.shutdown_write()
        # Reading opens the window of this side, through which its own last bytes are acknowledged.
        # An EOF in its log may be a line that was dropped.
        assert len(conn.read_to_end()) < sent and conn.ended == "closed"


@pytest.mark.inside
def test_limit_there_is_no_framing() -> None:
    with Server(5) as server, server.connect() as conn:
        echo(conn, b"\5\0\0\0hel")
        echo(conn, b"lo\3\0\0\0bye\2\0")
        assert [line[:13] for line in server.wait_log(2)] == ["client says: "] * 2


@pytest.mark.inside
def test_limit_a_thousand_clients() -> None:
    if many(1010) < 1010:
        return  # this machine does not allow so many descriptors
    with Server(5) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(1000)]
        with server.connect() as late:
            late.expect_closed()
        server.wait_line("no room for another client")
        echo(conns[-1], b"hello")
        conns.pop(0).close()
        server.wait_line("EOF")
        with server.connect() as late:
            echo(late, b"hello")


@pytest.mark.inside
def test_limit_out_of_descriptors_the_loop_spins() -> None:
    """It serves those it has, and goes on accepting once one of them has left."""
    with Server(5, nofile=12) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(20)]
        echo(conns[0], b"hello")
        used = server.cpu_ms()
        wait_until(lambda: server.cpu_ms() > used + 50, "the loop spins")
        for conn in conns[:12]:
            conn.close()
        echo(conns[-1], b"hello")


@pytest.mark.inside
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_limit_a_signal_ends_the_server_where_it_stands(sig: int) -> None:
    with Server(5) as server:
        assert server.stop(sig) == -sig
