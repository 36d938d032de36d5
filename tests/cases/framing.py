"""Framing (04, 06 and later): messages are found in the stream however it is cut; the limits.

Chapter 05 has no messages, so its tests do not call these.
"""
from __future__ import annotations

import random

from harness import seed, settings, wire
from harness.codec import codec

from . import case
from .talk import (
    asked, done, encode, encode_replies, end_input, found, missing, paused, say, start, still_serves, talk, too_much,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__

# What these cases look at; see the head of cases/__init__.py.
LOOKS_AT = "one_request try_one_request try_*_buffer state_* reject_input server.k_max_msg"


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


@case(since=7, ours="Redis ends a client as soon as it has read the end, whatever waits to be sent")
def the_end_comes_with_more_than_a_turn_of_work(chapter: int) -> None:
    """All requests are there, and the end of the input right behind them, before the server has read the first. It
    knows of the end long before it comes to the last request: every answer comes."""
    requests, replies = too_much(chapter)
    with start(chapter) as server, server.connect() as conn:
        say(conn)
        with paused(server):
            conn.send(encode(chapter, requests))
            conn.shutdown_write()
        conn.expect_bytes(encode_replies(chapter, replies))
        conn.expect_closed(reset_ok=False)


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


@case(since=7)
def incomplete_request_is_not_executed(chapter: int) -> None:
    """A cut `set` changes nothing, although its key is there."""
    with start(chapter) as server:
        with server.connect() as conn:
            conn.send(asked(chapter, "set", "cutkey", "value")[:-1])
            conn.shutdown_write()
            conn.expect_closed(reset_ok=False)
        with server.connect() as conn:
            conn.ask("get", "cutkey", expect=missing(chapter))


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
        if chapter < 7:
            text = bytes(range(32, 96)) * (most // 64)
            reply = b"world" if chapter == 4 else text
            conn.pipeline([(text,), (b"short",), (text,)], [reply, b"world" if chapter == 4 else b"short", reply])
            return
        size = codec(chapter).most
        value = (bytes(range(251)) * (size // 251 + 1))[:size]
        conn.pipeline(
            [("set", "k", value), ("get", "k"), ("get", "none")],
            [done(chapter), found(chapter, value), missing(chapter)],
        )


@case(since=4, but=5, binary=True)
def length_above_the_limit(chapter: int) -> None:
    """One byte more closes the connection; the request, whole as it is, is not executed."""
    most = wire.max_msg(chapter)
    too_long = wire.frame(b"x" * (most + 1))
    if chapter >= 7:
        too_long = asked(chapter, "set", "k", b"x" * (most + 1 - len(wire.body("set", "k", ""))))
    assert len(too_long) == 4 + most + 1
    with start(chapter) as server:
        with server.connect() as conn:
            conn.send_some(too_long, 1)
            conn.expect_closed()
        still_serves(server)
        if chapter >= 7:
            with server.connect() as conn:
                conn.ask("get", "k", expect=missing(chapter))


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
            if chapter < 7:
                reply = b"world" if chapter == 4 else b""
                after = b"world" if chapter == 4 else b"after"
                conn.pipeline([(b"",), (b"",), (b"after",)], [reply, reply, after])
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
        if chapter >= 7:
            with server.connect() as conn:
                conn.ask("get", "latekey", expect=missing(chapter))
        still_serves(server)


@case(since=4, but=5)
def bytes_of_any_value(chapter: int) -> None:
    """NUL, newline, % and bytes above 127 come back as they were."""
    text = bytes(range(256)) + b"%s%n%x\0\n"
    with start(chapter) as server, server.connect() as conn:
        if chapter < 7:
            conn.ask(text, expect=b"world" if chapter == 4 else text)
        else:
            conn.ask("set", text, text, expect=done(chapter))
            conn.ask("get", text, expect=found(chapter, text))
            conn.ask("get", text[:-1], expect=missing(chapter))


@case(since=7)
def malformed_requests(chapter: int) -> None:
    """Each costs its connection, after the answer to the request before, and nothing else."""
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        for name, data in codec(chapter).malformed().items():
            with server.connect() as conn:
                conn.send(asked(chapter, "set", "k", name) + data + asked(chapter, "set", "k", "late"))
                conn.recv(done(chapter))
                end_input(conn)
                conn.expect_refused()
            other.ask("get", "k", expect=found(chapter, name.encode()))
