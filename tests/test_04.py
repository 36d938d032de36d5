"""Chapter 04: the protocol. A message is a length and so many bytes, 4096 at most; each one is answered."""
from __future__ import annotations

import random
import signal
import socket
from typing import List

import pytest

from cases import Case, case, earlier, new
from cases.talk import ask, asked, encode, encode_replies, end_input, say, start, still_serves, talk
from harness import Server, Status, check_session, run_client, seed, wait_until, wire
from harness.codec import codec
from harness.fake import FakeServer, read_frame, replies
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import DONE, MISSING

assert vector_servers  # a fixture

PERHAPS = (
    "chapter 04 reads a length and so many bytes, prints them, answers, and goes on until the client ends its input"
)

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 04. The rules are in book/protocol.md.
SESSIONS = ["04-demo", "04-longest", "04-cut"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# A case, @case(since=4), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(4))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 4)


@case(since=4)
def a_second_request(chapter: int) -> None:
    """On the same connection, after the answer to the first."""
    with start(chapter) as server, server.connect() as conn:
        if codec(chapter).is_echo:
            ask(conn)
            ask(conn, b"again")
        else:
            say(conn, 2)


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


@case(since=4, but=5)
def one_byte_at_a_time(chapter: int) -> None:
    requests, replies = talk(chapter, 4, "bytes")
    with start(chapter) as server, server.connect() as conn:
        conn.send_pieces(encode(chapter, requests), 1)
        for reply in replies:
            conn.recv(reply)


@case(since=4, but=5)
def cut_in_two_at_every_byte(chapter: int) -> None:
    """Two requests, so that the cut also falls between them and into the second's header."""
    requests, replies = talk(chapter, 2, "cut")
    data = encode(chapter, requests)
    with start(chapter) as server, server.connect() as conn:
        for i in range(1, len(data)):
            conn.send_pieces(data[:i], i)
            conn.send(data[i:])
            for reply in replies:
                conn.recv(reply)


@case(since=4, but=5, binary=True)
def header_then_body(chapter: int) -> None:
    """Nothing is answered before the body is there."""
    requests, replies = talk(chapter, 1, "split")
    data = encode(chapter, requests)
    with start(chapter) as server, server.connect() as conn:
        conn.send(data[:4])
        conn.expect_silence(0.05)
        conn.send(data[4:])
        conn.recv(replies[0])


@case(since=4, but=5)
def cut_at_random(chapter: int) -> None:
    """Long and short requests in pieces of any length."""
    rng = random.Random(seed())
    with start(chapter) as server, server.connect() as conn:
        for i in range(10):
            requests, replies = talk(chapter, 8, f"random{i}", rng.choice([0, 50, 1000]))
            data = encode(chapter, requests)
            pos = 0
            while pos < len(data):
                size = rng.randrange(1, 600)
                conn.send_pieces(data[pos : pos + size], size)
                pos += size
            for reply in replies:
                conn.recv(reply)


@case(since=4, but=5)
def ten_thousand_in_one_write(chapter: int) -> None:
    requests, replies = talk(chapter, 10_000, "many")
    with start(chapter) as server, server.connect() as conn:
        conn.pipeline(requests, replies)
        say(conn)


@case(since=4, but=5)
def large_and_small_in_turn(chapter: int) -> None:
    """Requests that fill the buffer to the last byte before and after short ones."""
    with start(chapter) as server, server.connect() as conn:
        for size in (4000, 4050, 4060, 4064, 4068, 4072):
            for each in (0, size, 1, size, 0):
                requests, replies = talk(chapter, 2, "t", each)
                conn.pipeline(requests * 3, replies * 3)


@case(since=4, but=5)
def half_close_after_pipelining(chapter: int) -> None:
    """The client has sent all it will send: every answer comes, then the end."""
    requests, replies = talk(chapter, 1000, "half")
    with start(chapter) as server:
        with server.connect() as conn:
            conn.send(encode(chapter, requests))
            conn.shutdown_write()
            conn.expect_bytes(encode_replies(chapter, replies))
            conn.expect_closed(reset_ok=False)
        still_serves(server)


@case(since=4, but=5)
def incomplete_request_then_the_end(chapter: int) -> None:
    """Whole requests are answered, the cut one is dropped, the connection is closed."""
    requests, replies = talk(chapter, 2, "cut")
    whole = encode(chapter, requests)
    last = encode(chapter, talk(chapter, 1, "last")[0])
    with start(chapter) as server:
        for keep in (1, 3, 4, 5, len(last) - 1):
            with server.connect() as conn:
                conn.send(whole + last[:keep])
                conn.shutdown_write()
                for reply in replies:
                    conn.recv(reply)
                conn.expect_closed(reset_ok=False)
        still_serves(server)


@case(since=4, but=5)
def end_without_a_request(chapter: int) -> None:
    with start(chapter) as server:
        with server.connect() as conn:
            conn.shutdown_write()
            conn.expect_closed(reset_ok=False)
        server.connect().close()
        still_serves(server)


@case(since=4, but=5)
def length_at_the_limit(chapter: int) -> None:
    most = wire.max_msg(chapter)
    with start(chapter) as server, server.connect() as conn:
        if codec(chapter).is_text:
            text = bytes(range(32, 96)) * (most // 64)
            texts = [text, b"short", text]
            conn.pipeline([(text,) for text in texts], [codec(chapter).said(text) for text in texts])
            return
        size = codec(chapter).most
        value = (bytes(range(251)) * (size // 251 + 1))[:size]
        conn.pipeline(
            [("set", "k", value), ("get", "k"), ("get", "none")],
            [DONE, Status(0, value), MISSING],
        )


@case(since=4, but=5, binary=True)
def length_above_the_limit(chapter: int) -> None:
    """One byte more closes the connection; the request, whole as it is, is not executed."""
    most = wire.max_msg(chapter)
    too_long = wire.frame(b"x" * (most + 1))
    if codec(chapter).has_commands:
        too_long = asked(chapter, "set", "k", b"x" * (most + 1 - len(wire.body("set", "k", ""))))
    assert len(too_long) == 4 + most + 1
    with start(chapter) as server:
        with server.connect() as conn:
            conn.send_some(too_long, 1)
            conn.expect_closed()
        still_serves(server)
        if codec(chapter).has_commands:
            with server.connect() as conn:
                conn.ask("get", "k", expect=MISSING)


@case(since=4, but=5, binary=True)
def lengths_far_above_the_limit(chapter: int) -> None:
    """A server that adds 4 to 2^32-1 in 32 bits gets 3. More comes than a buffer of the limit holds."""
    most = wire.max_msg(chapter)
    more = b"abc" * 5000
    with start(chapter) as server:
        for n in (2**32 - 1, 2**32 - 2, 2**32 - 4, 2**31, 2**31 - 1, most + 5, 2**24 + most):
            with server.connect() as conn:
                conn.send(wire.u32(n) + more)
                end_input(conn)
                conn.expect_closed()
        still_serves(server)


@case(since=4, but=5, binary=True)
def length_zero(chapter: int) -> None:
    """An empty message like any other before 07, a malformed request from then on."""
    with start(chapter) as server:
        with server.connect() as conn:
            if codec(chapter).is_text:
                texts = [b"", b"", b"after"]
                conn.pipeline([(text,) for text in texts], [codec(chapter).said(text) for text in texts])
            else:
                conn.send(wire.frame(b""))
                conn.expect_closed()
        still_serves(server)


@case(since=4, but=5)
def answers_before_a_bad_length(chapter: int) -> None:
    """Earlier requests of the same write are answered in full, later ones not at all."""
    requests, replies = talk(chapter, 6, "early")
    late = encode(chapter, talk(chapter, 1, "late")[0])
    with start(chapter) as server:
        with server.connect() as conn:
            conn.send(encode(chapter, requests) + codec(chapter).bad + late * 3)
            conn.expect_bytes(encode_replies(chapter, replies))
            conn.expect_refused()
        if codec(chapter).has_commands:
            with server.connect() as conn:
                conn.ask("get", "latekey", expect=MISSING)
        still_serves(server)


@case(since=4, but=5)
def bytes_of_any_value(chapter: int) -> None:
    """NUL, newline, % and bytes above 127 come back as they were."""
    text = bytes(range(256)) + b"%s%n%x\0\n"
    with start(chapter) as server, server.connect() as conn:
        if codec(chapter).is_text:
            conn.ask(text, expect=codec(chapter).said(text))
        else:
            conn.ask("set", text, text, expect=DONE)
            conn.ask("get", text, expect=Status(0, text))
            conn.ask("get", text[:-1], expect=MISSING)


# Runs each function above that is marked @case, and those of tests/cases/ with since=4 (abuse.py, client_errors.py,
# trouble.py).
@pytest.mark.parametrize("case", new(4))
def test_new(case: Case) -> None:
    case(4)


# The cases of 03, as far as they still hold.
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
