"""RESP (20 and later): the parser, whatever comes and however it is cut; both versions of replies; what Redis's clients
ask first. All that does not say `ours` holds for Redis as well: make test-20 SERVER=redis-server.
"""
from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import time
from contextlib import ExitStack
from typing import Dict, List, Sequence, Tuple

from harness import (
    ANY, AnyOrder, Between, Conn, Err, OneOf, Server, fail, redis, resp, seed, settings, wait_until, wire,
)  # fmt: skip
from harness.codec import codec, split_replies
from harness.resp import NIL, OK, PONG, WRONG_TYPE, Map, Score, Simple, array

from . import case
from .clients import LINES
from .clock import Clock
from .replies import MIB, filled, memory_below
from .talk import Counts, end_input, say, start, still_serves, watched

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "the reply has the form that Redis gives it: redis-cli shows it, and book/protocol.md has the fields"

WRONG = Err(3, WRONG_TYPE)
NO_INT, NO_FLOAT, SYNTAX = (Err(4, text) for text in (resp.NO_INT, resp.NO_FLOAT, resp.SYNTAX))
NX_XX = Err(4, "ERR XX and NX options at the same time are not compatible")
GT_LT = Err(4, "ERR GT, LT, and/or NX options at the same time are not compatible")
ONE_PAIR = Err(4, "ERR INCR option supports a single increment-element pair")
NO_SUM = Err(4, "ERR resulting score is not a number (NaN)")
MANY = 65_536  # strings that a request may have, at least


def bad_count(name: str) -> Err:
    """What is said of a wrong number of arguments."""
    return Err(4, f"ERR wrong number of arguments for '{name}' command")


def raw(conn: Conn, sent: bytes, came: bytes) -> None:
    """These bytes are answered with those."""
    conn.send(sent)
    conn.expect_bytes(came)
    conn.unanswered.clear()


def asks(conn: Conn, *rows: Tuple[str, object]) -> None:
    """Requests, their words between blanks ("" for none), and the replies."""
    for line, reply in rows:
        conn.ask(*resp.split_inline(line.encode("latin-1")), expect=reply)


# ---- requests and replies, byte for byte ----

SAID: List[Tuple[bytes, bytes]] = [
    (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    (b"*2\r\n$4\r\nping\r\n$2\r\nhi\r\n", b"$2\r\nhi\r\n"),
    (b"*2\r\n$4\r\necho\r\n$0\r\n\r\n", b"$0\r\n\r\n"),
    (b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n", b"$-1\r\n"),
    (b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$3\r\na\r\n\r\n", b"+OK\r\n"),
    (b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n", b"$3\r\na\r\n\r\n"),
    (b"*2\r\n$3\r\nttl\r\n$1\r\nk\r\n", b":-1\r\n"),
    (b"*2\r\n$3\r\ndel\r\n$1\r\nk\r\n", b":1\r\n"),
    (b"*2\r\n$4\r\nkeys\r\n$1\r\n*\r\n", b"*0\r\n"),
    (b"*4\r\n$4\r\nzadd\r\n$1\r\nz\r\n$3\r\n1.5\r\n$1\r\na\r\n", b":1\r\n"),
    (b"*3\r\n$6\r\nzscore\r\n$1\r\nz\r\n$1\r\na\r\n", b"$3\r\n1.5\r\n"),
    (b"*2\r\n$3\r\nget\r\n$1\r\nz\r\n", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    (b"*1\r\n$3\r\nget\r\n", b"-ERR wrong number of arguments for 'get' command\r\n"),
    (b"*2\r\n$2\r\nno\r\n$1\r\nx\r\n", b"-ERR unknown command 'no', with args beginning with: 'x' \r\n"),
    (b"*3\r\n$2\r\nno\r\n$125\r\n" + b"x" * 125 + b"\r\n$1\r\ny\r\n",  # there is room for no more
     b"-ERR unknown command 'no', with args beginning with: '" + b"x" * 125 + b"' \r\n"),
    (b"PING\r\n", b"+PONG\r\n"),
    (b"set k 'two words'\n", b"+OK\r\n"),
    (b'GET "k"\r\n', b"$9\r\ntwo words\r\n"),
    (b"\r\n", b""),
    (b"*0\r\n", b""),
    (b"*-1\r\n", b""),
    (b"del k\r\n", b":1\r\n"),
    (b"del z\r\n", b":1\r\n"),
]
SAID_21: List[Tuple[bytes, bytes]] = [
    (b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$3\r\na\r\n\r\n", b"+OK\r\n"),
    (b"*2\r\n$6\r\nstrlen\r\n$1\r\nk\r\n", b":3\r\n"),
    (b"*2\r\n$4\r\nincr\r\n$1\r\nk\r\n", b"-ERR value is not an integer or out of range\r\n"),
    (b"*3\r\n$4\r\nmget\r\n$1\r\nk\r\n$4\r\nnone\r\n", b"*2\r\n$3\r\na\r\n\r\n$-1\r\n"),
    (b"*2\r\n$4\r\ndecr\r\n$1\r\nn\r\n", b":-1\r\n"),
    (b"zadd z 1.5 a\n", b":1\r\n"),
    (b"*2\r\n$4\r\ntype\r\n$1\r\nz\r\n", b"+zset\r\n"),
    (b"zrange z 0 -1 withscores\r\n", b"*2\r\n$1\r\na\r\n$3\r\n1.5\r\n"),
    (b"keys x\r\n", b"*0\r\n"),
    (b"del k n z\r\n", b":3\r\n"),
]


def said(chapter: int) -> List[Tuple[bytes, bytes]]:
    """A conversation with all kinds of replies that there are."""
    return SAID + SAID_21 * codec(chapter).has_options


@case(since=20)
def ping(chapter: int) -> None:
    """The first thing that every client asks: *1 CRLF $4 CRLF PING CRLF, and the answer is +PONG CRLF."""
    with start(chapter) as server, server.connect() as conn:
        raw(conn, *SAID[0])


@case(since=20)
def set_and_get(chapter: int) -> None:
    """A key and its value are strings of any bytes behind their lengths; `set` answers +OK, `get` a string or $-1."""
    with start(chapter) as server, server.connect() as conn:
        for sent, came in SAID[3:6]:
            raw(conn, sent, came)


@case(since=20)
def replies_byte_for_byte(chapter: int) -> None:
    """Arrays of strings and lines, each answered before the next is sent."""
    with start(chapter) as server, server.connect() as conn:
        for sent, came in said(chapter):
            raw(conn, sent, came)


@case(since=20)
def cut_at_every_byte(chapter: int) -> None:
    """All requests of a conversation as one stream, in two pieces: cut behind each of its bytes."""
    sent, came = (b"".join(parts) for parts in zip(*said(chapter)))
    with start(chapter) as server, server.connect() as conn:
        for cut in range(1, len(sent)):
            conn.send(sent[:cut])
            time.sleep(0.0002)
            raw(conn, sent[cut:], came)


@case(since=20)
def one_byte_at_a_time(chapter: int) -> None:
    """The same, every byte by itself, arrays and lines mixed; then in pieces of any length on three connections."""
    sent, came = (b"".join(parts) for parts in zip(*said(chapter)))
    rng = random.Random(seed())
    with start(chapter) as server, server.connect() as conn:
        for i in range(len(sent)):
            conn.send(sent[i : i + 1])
            time.sleep(0.0001)
        conn.expect_bytes(came)
        for _ in range(20):
            at = 0
            while at < len(sent):
                size = rng.choice([1, 2, 3, 7, 30, 200])
                conn.send(sent[at : at + size])
                at += size
            conn.expect_bytes(came)


@case(since=20)
def ten_thousand_of_both_forms(chapter: int) -> None:
    """Arrays in turn with two lines, which are not alike, in one write."""
    n = 3400
    sent = b"".join(array("set", "k", i) + b"get k\r\necho %d\r\n" % i for i in range(n))
    came = b"".join(b"+OK\r\n" + b"$%d\r\n%d\r\n" % (len(str(i)), i) * 2 for i in range(n))
    with start(chapter) as server, server.connect() as conn:
        raw(conn, sent, came)


@case(since=20)
def lines_are_quoted_as_redis_cli_does(chapter: int) -> None:
    """An inline request has the words that our client makes of such a line, too."""
    with start(chapter) as server:
        conn = server.connect()
        for line, words in LINES:
            conn.send(b"no " + line + b"\r\n")
            if words is None:
                conn.expect_refused("unbalanced quotes in request")
                conn.close()
                conn = server.connect()
            else:
                said = resp.unknown([b"no", *words])
                conn.expect_bytes(b"-%s\r\n" % said.encode("utf-8", "surrogateescape"))
                conn.unanswered.clear()
        raw(conn, b'set "\\x00\\r\\n" "\\xff \\x00"\r\n', b"+OK\r\n")
        conn.ask("get", b"\0\r\n", expect=b"\xff \0")
        conn.close()


@case(since=20)
def what_is_passed_over(chapter: int) -> None:
    """No strings, fewer than none, no words: no request, and no reply. What ends a string is two bytes of any value."""
    ping, pong = array("ping"), b"+PONG\r\n"
    for nothing in (b"*0\r\n", b"*-1\r\n", b"*-10\r\n", b"\r\n", b"\n", b" \t \r\n", b"*0\r\n\r\n*0\r\n"):
        with start(chapter) as server, server.connect() as conn:
            raw(conn, nothing * 50 + ping, pong)  # the first bytes that it reads
            raw(conn, ping + nothing + ping, pong * 2)
    with start(chapter) as server, server.connect() as conn:
        raw(conn, b"*1\r\n$4\r\nPINGxy" + ping, pong * 2)
        raw(conn, b"ping\n ping \r\n\tPING\t\r\n", pong * 3)
        conn.expect_silence(0.02)


# ---- what is no request ----


@case(since=20)
def protocol_errors(chapter: int) -> None:
    """What came before is done and answered; then Redis's own words, and the end. Nothing behind it is done."""
    with start(chapter) as server, server.connect() as other:
        for what, (bad, text) in resp.MALFORMED.items():
            with server.connect() as conn:
                conn.send(array("set", "k", what) + array("get", "k") + bad + array("set", "k", "late"))
                conn.recv(OK)
                conn.recv(what.encode())
                conn.unanswered[:] = bad
                conn.expect_refused(text)
            other.ask("get", "k", expect=what.encode())
        for bad, text in resp.ENDLESS.values():
            with server.connect() as conn:
                conn.send(array("ping") + bad)
                conn.recv(PONG)
                conn.expect_refused(text)
        say(other)


@case(since=20)
def http_is_cut_off(chapter: int) -> None:
    """A web page makes a browser send a form, with commands in its lines: none of them is carried out."""
    forms = (
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nset k evil\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\nset k evil\r\n",
        b"  post x\nset k evil\n",
    )  # fmt: skip
    with start(chapter) as server, server.connect() as other:
        for form in forms:
            came = b""
            with socket.create_connection(("127.0.0.1", server.port), settings.limit(10)) as sock:
                with contextlib.suppress(ConnectionError):
                    sock.sendall(form)
                    sock.shutdown(socket.SHUT_WR)
                    came = b"".join(iter(lambda: sock.recv(65536), b""))
            if b"+OK" in came:
                fail(f"a form of a web page is carried out: {form!r} is answered with {came!r}")
            other.ask("get", "k", expect=None)


@case(since=20)
def protocol_errors_one_byte_at_a_time(chapter: int) -> None:
    """The error is seen when its last byte comes, and not guessed before."""
    with start(chapter) as server:
        for bad, text in resp.MALFORMED.values():
            with server.connect() as conn:
                conn.send_pieces(array("ping") + bad, 1, gap=0.0001)
                conn.recv(PONG)
                conn.unanswered[:] = bad
                conn.expect_refused(text)
        still_serves(server)


@case(since=20)
def cut_requests_are_not_executed(chapter: int) -> None:
    """Ended behind each of its bytes, as an array and as a line."""
    with start(chapter) as server, server.connect() as other:
        for data in (array("set", "k", "new"), b"set k new\r"):
            for cut in range(len(data)):
                with server.connect() as conn:
                    conn.send(data[:cut])
                    conn.shutdown_write()
                    conn.expect_closed()
        other.ask("get", "k", expect=None)


@case(since=20, ours="Redis takes up to 2^31 - 1 strings of 512 MiB")
def requests_above_our_limits(chapter: int) -> None:
    """2^20 strings and 32 MiB are what there may be, of one string and of all together; of a line 64 KiB."""
    with start(chapter) as server, server.connect() as other:
        for bad, text in (
            (b"*1048577\r\n", "invalid multibulk length"), (b"*2147483647\r\n", "invalid multibulk length"),
            (b"*2\r\n$3\r\nget\r\n$33554433\r\n", "invalid bulk length"),
            (b"*2\r\n$3\r\nget\r\n$536870912\r\n", "invalid bulk length"),
        ):  # fmt: skip
            with server.connect() as conn:
                conn.send(array("ping") + bad)
                conn.recv(PONG)
                conn.expect_refused(text)
        with server.connect() as conn:  # together they are too long, each by itself is not
            conn.send_some(array("zquery", "a", b"x" * (16 * MIB), "b", b"x" * (17 * MIB), "c"), 1)
            conn.expect_refused()
        with server.connect() as conn:  # as much as there may be is taken
            data = b"*1048576\r\n$4\r\nping\r\n" + b"$0\r\n\r\n" * 1048575
            conn.send(data, [len(data)])
            conn.recv(bad_count("ping"))
            conn.ask("set", "large", b"x" * (32 * MIB - 50), expect=OK)
            asks(conn, ("del large", 1))
            line = b"echo " + b"x" * 65_531
            raw(conn, line + b"\n", b"$65531\r\n%s\r\n" % line[5:])
            conn.send(line + b"x\n")
            conn.expect_refused("too big inline request")
        say(other)


@case(since=21, ours="Redis's strings have up to 512 MiB")
def values_above_our_limits(chapter: int) -> None:
    """As many keys as there may be strings, and a value that grows to all that there may be."""
    with start(chapter) as server, server.connect() as other:
        with server.connect() as conn:
            data = b"*1048576\r\n$3\r\ndel\r\n" + b"$0\r\n\r\n" * 1048575
            conn.send(data, [len(data)])
            conn.recv(0)
            for size in (16 * MIB, 32 * MIB):
                conn.ask("append", "large", b"x" * (16 * MIB), expect=size)
            too_long = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            conn.ask("append", "large", "x", expect=Err(4, too_long))
            asks(conn, ("strlen large", 32 * MIB), ("del large", 1))
        say(other)


def mutated(rng: random.Random) -> bytes:
    """A stream of requests, arrays and lines, some with bytes changed, gone, doubled or put in."""
    data = bytearray()
    for _ in range(rng.choice([1, 2, 5, 20])):
        words = list(rng.choice(STREAM))
        if rng.random() < 0.3:
            words.append(bytes(rng.getrandbits(8) for _ in range(rng.choice([0, 1, 20, 300]))))
        data += array(*words) if rng.random() < 0.7 else b" ".join(words).replace(b"\n", b" ") + b"\r\n"
    for _ in range(rng.choice([0, 0, 1, 1, 2, 6])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.choice(BITS)
        elif kind == 2:
            del data[at : at + rng.choice([1, 1, 2, 10])]
        elif kind == 3:
            data[at:at] = data[max(0, at - 12) : at]
        elif kind == 4:
            del data[at:]
        elif at < len(data):
            data[at] = rng.choice(b"*$\r\n0123456789-\"' \0\xff")
    return bytes(data).translate(None, b"\v\f")  # blanks to some and not to others


STREAM: List[List[bytes]] = [
    line.split() for line in (
        b"ping", b"ping hi", b"echo x", b"set k v", b"get k", b"mget k l m", b"del k l", b"incr n", b"append k x",
        b"zadd z 1 a 2 b", b"zrange z 0 -1 withscores", b"zrem z a", b"zrangebyscore z -inf (5 limit 0 1",
        b"expire k 100",
        b"keys k*", b"type z", b"hello 3", b"hello 2", b"client id", b"command count", b"quit", b"nosuch a b",
        b"select 0",
        b"exists k k", b"ttl k", b"zscore z a", b"zquery z 1 a 0 5", b"mset k 1 l 2", b"config get save", b"dbsize",
    )
]  # fmt: skip
BITS = [b"*", b"$", b"\r", b"\n", b"\r\n", b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"*1\r\n",
b"$1048577\r\n", b"\0",
        b"*2147483648\r\n", b"$99999999999\r\n", b'"', b"'", b"\\", b'"\\x4', b"-", b"+", b":1\r\n", b" " * 30,
        b"0", b"\xff"]


@case(since=20, ours="Redis takes a NUL for the end of a line", time_limit=300,
      perhaps="the last lines are the stream: send it to redis-server as well, and compare")  # fmt: skip
def mutated_streams(chapter: int) -> None:
    """Each is understood as a parser in Python understands it, whatever is wrong with it and however it is cut: so many
    replies, the error, the end. FUZZ_SECONDS says for how long (make fuzz: a minute, with sanitizers)."""
    rng, end = random.Random(seed()), time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "1"))
    with start(chapter) as server:
        while time.monotonic() < end:
            data = mutated(rng)
            requests, wrong, _ = resp.understood(data)
            names = [words[0].lower() if words else b"" for words in requests]
            if b"quit" in names:
                requests, wrong = requests[: names.index(b"quit") + 1], ""
            expect = sum(bool(words) for words in requests) + bool(wrong)
            with server.connect() as conn:
                at = 0
                while at < len(data):
                    size = rng.choice([1, 3, 40, 1000, 100_000])
                    conn.send(data[at : at + size])
                    at += size
                end_input(conn)
                came = conn.read_to_end()
            replies = split_replies(conn.codec, came)[0]
            last = resp.encode(Err(4, resp.PROTOCOL + wrong)) if wrong else b""
            if len(replies) != expect or b"".join(replies) != came or wrong and replies[-1] != last:
                fail(f"{len(replies)} replies came, {expect} are expected" + f" and the last is {last!r}" * bool(wrong)
                     + f"\nsent {data!r}\ncame {came[-600:]!r}")  # fmt: skip
        still_serves(server)


# ---- what a client can claim ----


def memory_kb(server: Server, what: str) -> int:
    """VmPeak: the most memory that it has asked for, used or not."""
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(what))


@case(since=20)
def claims_cost_nothing(chapter: int) -> None:
    """Forty clients announce 2^20 strings each, and one of them. Memory follows what has come."""
    with start(chapter) as server, ExitStack() as stack:
        still_serves(server)
        before = server.rss_kb()
        conns = [stack.enter_context(server.connect()) for _ in range(40)]
        for conn in conns:
            conn.send(b"*1048576\r\n$3\r\nget\r\n")
        still_serves(server)
        memory_below(server, before, 4, "40 clients have announced 2^20 strings each")
        for conn in conns:
            conn.send(b"$9\r\n")
        still_serves(server)
        memory_below(server, before, 4, "40 clients have announced 2^20 strings each")


@case(since=20, ours="Redis asks for the memory of a long string at once, and uses it as it comes",
      perhaps="a length alone must cost nothing: let the buffer grow as the bytes come")  # fmt: skip
def claims_are_not_asked_for(chapter: int) -> None:
    """Not even as addresses, and for a moment: 2^20 strings and one of 32 MiB are announced again and again; 2^31
    strings, one of 2^40 bytes."""
    if watched():
        return
    with start(chapter) as server, ExitStack() as stack:
        still_serves(server)
        rss, peak = server.rss_kb(), memory_kb(server, "VmPeak:")
        for claim in (b"*1048576\r\n$100\r\n", b"*3\r\n$3\r\nset\r\n$33554000\r\n", b"*2147483648\r\n",
                      b"*1\r\n$1099511627776\r\n"):  # fmt: skip
            for _ in range(20):
                conn = stack.enter_context(server.connect())
                conn.send(claim + b"x" * 20)
        still_serves(server)
        memory_below(server, rss, 4, "80 clients have announced more than there is")
        grown = memory_kb(server, "VmPeak:") - peak
        if grown > 8 << 10:
            fail(f"for what was announced and never came, the server asked for {grown >> 10} MiB of addresses")


@case(since=21)
def as_many_strings_as_that(chapter: int) -> None:
    """65,536 strings in a request, several times: set, found, deleted."""
    keys = [b"key:%d" % i for i in range(MANY - 1)]
    pairs = [word for key in keys[: MANY // 2 - 1] for word in (key, b"of " + key)]
    with start(chapter) as server, server.connect() as conn:
        conn.ask("mset", *pairs, expect=OK)
        found = [b"of " + key for key in keys[: MANY // 2 - 1]]
        conn.ask("mget", *keys, expect=found + [None] * (len(keys) - len(found)))
        conn.pipeline([["exists", *keys], ["dbsize"], ["del", *keys], ["dbsize"]],
                      [MANY // 2 - 1, MANY // 2 - 1, MANY // 2 - 1, 0])  # fmt: skip
        conn.ask("zadd", "z", *(word for i, key in enumerate(keys[:30_000]) for word in (i, key)), expect=30_000)
        conn.ask("zrem", "z", *keys, expect=30_000)
        conn.send(b"mget " + b"k " * 10_000 + b"\r\n")
        conn.expect_bytes(b"*10000\r\n" + b"$-1\r\n" * 10_000)


def trickle(server: Server, conn: Conn, data: bytes, whole: int, size: int, times: int) -> int:
    """The processor time in milliseconds that the last bytes take, in pieces of this size."""
    conn.send(data[:whole])
    still_serves(server)
    before = server.cpu_ms()
    for i in range(times):
        conn.send(data[whole + i * size : whole + (i + 1) * size])
        time.sleep(0.0001)
    used = server.cpu_ms() - before
    conn.send(data[whole + times * size :])
    return used


@case(since=20, time_limit=40)
def parsed_once_however_it_comes(chapter: int) -> None:
    """The last bytes of a request of 65,536 strings, and of one of 32 MiB, come a few at a time. What has been
    understood is not looked at again, nor copied; processor time tells."""
    if watched():
        return
    times, most = 2500, 150
    keys = [b"key:%012d" % i for i in range(MANY - 1)]
    many, value = array("ping", *keys), filled(31 * MIB)
    long = array("set", "k", value)
    with start(chapter) as server, server.connect() as conn:
        used = trickle(server, conn, many, len(many) - 100_000, 20, times)
        conn.recv(bad_count("ping"))
        if used > most:
            fail(f"{times} pieces of 20 bytes, of a request of {MANY} strings, took {used} ms of processor time",
                 "is a request parsed from its beginning each time that more of it comes?",
                 f"{most} ms at most")  # fmt: skip
        used = trickle(server, conn, long, len(long) - 1_000_000, 100, times)
        conn.recv(OK)
        if used > most:
            fail(f"{times} pieces of 100 bytes, of a request of 31 MiB, took {used} ms of processor time",
                 "is the whole of it copied, or searched, each time that more of it comes?",
                 f"{most} ms at most")  # fmt: skip
        conn.ask("get", "k", expect=value)


@case(since=20)
def a_long_request_in_single_bytes(chapter: int) -> None:
    """Its head, the middle and the end byte by byte: it is whole in the end."""
    value = filled(300_000, 3)
    data = array("set", "k", value) + array("get", "k")
    with start(chapter) as server, server.connect() as conn:
        for first, last, size in ((0, 300, 1), (300, 299_000, 20_000), (299_000, 300_200, 1), (300_200, len(data), 7)):
            for at in range(first, last, size):
                conn.send(data[at : min(at + size, last)])
        conn.recv(OK)
        conn.recv(value)


# ---- versions ----


def hello(conn: Conn, version: int) -> Dict[bytes, object]:
    """Asks for a version; returns what the server says of itself."""
    conn.version = version
    reply = conn.ask("hello", version)
    if isinstance(reply, Map):
        return dict(reply)
    assert type(reply) is list and version == 2, reply
    return dict(zip(reply[::2], reply[1::2]))  # type: ignore[arg-type]


@case(since=20)
def hello_chooses_the_version(chapter: int) -> None:
    """Of this connection alone. Without a number it says which it is; another is refused, and changes nothing."""
    has_options = codec(chapter).has_options
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for version in (2, 3, 2, 3):
            said = hello(conn, version)
            names = [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]
            assert list(said) == names and said[b"proto"] == version and said[b"modules"] == [], said
            assert said[b"server"] == b"redis" and said[b"mode"] == b"standalone" and said[b"role"] == b"master", said
            assert re.fullmatch(rb"\d+\.\d+\.\d+", said[b"version"]), said  # type: ignore[arg-type]
            if has_options:
                conn.ask("client", "id", expect=said[b"id"])
            raw(conn, array("get", "none"), b"_\r\n" if version == 3 else b"$-1\r\n")
            raw(other, array("get", "none"), b"$-1\r\n")
            for bad in ("1", "4", "0", "-3", "99999999999"):
                conn.ask("hello", bad, expect=Err(4, "NOPROTO unsupported protocol version"))
            for bad in ("x", "", "3x", "99999999999999999999"):
                conn.ask("hello", bad, expect=Err(4, "ERR Protocol version is not an integer or out of range"))
            assert isinstance(conn.ask("hello"), Map if version == 3 else list)
        hello(conn, 2)
        conn.ask("hello", "3", "nonsense", expect=Err(4, "ERR Syntax error in HELLO option 'nonsense'"))
        if not has_options:
            return
        wrong_user = Err(4, "WRONGPASS invalid username-password pair or user is disabled.")
        conn.ask("hello", "3", "auth", "nobody", "secret", expect=wrong_user)
        raw(conn, array("get", "none"), b"$-1\r\n")  # what failed has changed nothing
        conn.version = 3
        assert isinstance(conn.ask("hello", "3", "auth", "default", "secret"), Map)
        conn.ask("HELLO", "3", "setname", "it-is-i", expect=ANY)
        conn.ask("client", "getname", expect=b"it-is-i")


@case(since=20)
def replies_of_version_3(chapter: int) -> None:
    """Null and doubles; all else is as before. And back."""
    with start(chapter) as server, server.connect() as conn:
        hello(conn, 3)
        for line, came in (
            ("get k", b"_\r\n"), ("set k v", b"+OK\r\n"), ("get k", b"$1\r\nv\r\n"), ("zadd z 1.5 a", b":1\r\n"),
            ("zadd z inf b", b":1\r\n"), ("zscore z a", b",1.5\r\n"), ("zscore z b", b",inf\r\n"),
            ("zscore z c", b"_\r\n"), ("ping", b"+PONG\r\n"),
        ):  # fmt: skip
            raw(conn, array(*line.split()), came)
        hello(conn, 2)
        raw(conn, array("zscore", "z", "b"), b"$3\r\ninf\r\n")


@case(since=21)
def more_replies_of_version_3(chapter: int) -> None:
    """Doubles in arrays, maps, sets, text for people."""
    with start(chapter) as server, server.connect() as conn:
        hello(conn, 3)
        for sent, came in (
            (["set", "k", "v"], b"+OK\r\n"), (["mget", "k", "none"], b"*2\r\n$1\r\nv\r\n_\r\n"),
            (["zadd", "z", "1.5", "a", "inf", "b"], b":2\r\n"), (["zrank", "z", "c"], b"_\r\n"),
            (["zrank", "z", "b"], b":1\r\n"), (["zrange", "z", "0", "0"], b"*1\r\n$1\r\na\r\n"),
            (["zrange", "z", "0", "-1", "withscores"], b"*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,inf\r\n"),
            (["zrangebyscore", "z", "1", "2", "withscores"], b"*1\r\n*2\r\n$1\r\na\r\n,1.5\r\n"),
            (["keys", "none"], b"*0\r\n"), (["config", "get", "none"], b"%0\r\n"), (["ping"], b"+PONG\r\n"),
        ):  # fmt: skip
            raw(conn, array(*sent), came)
        for words in (["info", "server"], ["client", "list"], ["client", "info"]):  # text for people: =LEN, then txt:
            conn.send(array(*words))
            head = b""
            while not head.endswith(b"\r\n"):
                head += conn.recv_exactly(1)
            text = conn.recv_exactly(int(head[1:]) + 2)
            assert head[:1] == b"=" and text.startswith(b"txt:") and text.endswith(b"\n\r\n"), head + text
        with server.connect() as other:
            hello(other, 3)
            other.send(array("command", "info", "get"))
            other.expect_bytes(b"*1\r\n*10\r\n$3\r\nget\r\n:2\r\n~")  # its flags are a set
        hello(conn, 2)
        raw(conn, array("zscore", "z", "b"), b"$3\r\ninf\r\n")
        raw(conn, array("zrange", "z", "0", "0", "withscores"), b"*2\r\n$1\r\na\r\n$3\r\n1.5\r\n")
        raw(conn, array("config", "get", "none"), b"*0\r\n")


# ---- commands ----


@case(since=20)
def names_and_their_errors(chapter: int) -> None:
    """What is no command is named, with the beginning of its arguments; what the text would break is left out."""
    with start(chapter) as server, server.connect() as conn:
        for words in (
            ["no"], ["no", "a", "b"], ["NoSuch", ""], ["get "], [b"gett\0", "k"], ["a\r\nb", "c\nd"], ["x" * 300,
            "y" * 300],
            ["x", *["word"] * 100], ["%s%n", "%d"], [b"\xff\xfe"],
        ):  # fmt: skip
            said = resp.unknown([word.encode() if isinstance(word, str) else word for word in words])
            raw(conn, array(*words), b"-%s\r\n" % said.encode("utf-8", "surrogateescape"))
        if not codec(chapter).has_options:
            return
        for line, text in (
            ("client nosuch", "ERR unknown subcommand 'nosuch'. Try CLIENT HELP."),
            ("config nosuch x", "ERR unknown subcommand 'nosuch'. Try CONFIG HELP."),
            ("command nosuch", "ERR unknown subcommand 'nosuch'. Try COMMAND HELP."),
        ):
            asks(conn, (line, Err(4, text)))
        for family in ("client", "config", "command", *(["object", "memory"] if codec(chapter).has_keyspace else [])):
            for size in (31, 32, 33, 64, 127, 128, 129, 100_000):  # longer than any name, and than room for names
                text = f"ERR unknown subcommand '{'x' * min(size, 128)}'. Try {family.upper()} HELP."
                conn.ask(family, "x" * size, expect=Err(4, text))
            say(conn)


@case(since=20)
def every_commands_number_of_arguments(chapter: int) -> None:
    """One too few for each, one too many where that is one; in capitals it has the same name in the text."""
    with start(chapter) as server, server.connect() as conn:
        for name, count in resp.arity(chapter).items():
            fewest, text = abs(count) - 1, name.decode()
            if name in resp.NOT_IN_REDIS and redis.is_tested() or name == b"exec":  # exec: cases/transactions.py
                continue
            for n in [*range(fewest), *([fewest + 1, fewest + 100] if 0 < count == resp.EVERY[name] else [])]:
                for spelt in (name, name.upper()):
                    raw(conn, array(spelt, *["1"] * n), resp.encode(bad_count(text)))
        if not codec(chapter).has_options:
            return
        asks(conn, ("mset a 1 b", bad_count("mset")), ("zadd z 1 a 2", SYNTAX), ("ping a b", bad_count("ping")),
             ("config get", bad_count("config|get")), ("client setname", bad_count("client|setname")),
             ("client id x", bad_count("client|id")), ("command count x", bad_count("command|count")),
             ("dbsize", 0))  # fmt: skip


ON_STRINGS = [
    "get k", "append k x", "strlen k", "incr k", "decr k", "incrby k 1", "decrby k 1", "incrbyfloat k 1",
    "getrange k 0 1", "setrange k 0 x", 'setrange k 0 ""',
]  # fmt: skip
ON_SETS = [
    "zadd k 1 a", "zrem k a", "zscore k a", "zcard k", "zrank k a", "zrevrank k a", "zcount k 0 1", "zrange k 0 1",
    "zrangebyscore k 0 1", 'zquery k 0 "" 0 1', "zrevrange k 0 1", "zrevrangebyscore k 1 0", "zrangebylex k - +",
    "zrevrangebylex k + -", "zlexcount k - +", "zmscore k a", "zremrangebyrank k 0 1", "zremrangebyscore k 0 1",
    "zremrangebylex k - +", "zpopmin k", "zpopmax k 0",
]  # fmt: skip


@case(since=20)
def every_command_on_the_wrong_type(chapter: int) -> None:
    """WRONGTYPE, and nothing has changed; all others take any, and mget answers nil in its place."""
    of_strings, of_sets = ([line for line in lines if line.split()[0].encode() in resp.arity(chapter)]
                           for lines in (ON_STRINGS, ON_SETS))  # fmt: skip
    with start(chapter) as server, server.connect() as conn:
        conn.ask("zadd", "k", 1, "n", expect=1)
        asks(conn, *((line, WRONG) for line in of_strings), ("zscore k n", Score(1)))
        if codec(chapter).has_options:
            asks(conn, ("mget k k", [None, None]), ("type k", Simple(b"zset")), ("exists k", 1), ("zcard k", 1))
        asks(conn, ("set k v", OK), *((line, WRONG) for line in of_sets), ("get k", b"v"), ("del k", 1))


@case(since=20)
def every_command_on_a_missing_key(chapter: int) -> None:
    """Those that only look find nothing and make nothing."""
    found: List[Tuple[str, object]] = [
        ("get k", None), ("strlen k", 0), ("mget k", [None]), ("exists k k", 0), ("del k", 0), ("unlink k", 0),
        ("type k", Simple(b"none")), ("ttl k", -2), ("pttl k", -2), ("persist k", 0), ("expire k 10", 0),
        ("zrem k a", 0), ("zscore k a", None), ("zcard k", 0), ("zrank k a", None), ("zrevrank k a", None),
        ("zcount k -inf +inf", 0), ("zrange k 0 -1", []), ("zrangebyscore k -inf +inf", []),
        ("zrevrange k 0 -1", []), ("zrevrangebyscore k +inf -inf", []), ("zrangebylex k - +", []),
        ("zrevrangebylex k + -", []), ("zlexcount k - +", 0), ("zmscore k a b", [None, None]),
        ("zremrangebyrank k 0 -1", 0), ("zremrangebyscore k 0 1", 0), ("zremrangebylex k - +", 0),
        ("zpopmin k", []), ("zpopmax k 3", []), ("getrange k 0 -1", b""), ('setrange k 5 ""', 0), ("keys *", []),
        ("dbsize", 0),
    ]  # fmt: skip
    with start(chapter) as server, server.connect() as conn:
        asks(conn, *(row for row in found if row[0].split()[0].encode() in resp.arity(chapter)))


@case(since=21)
def counting(chapter: int) -> None:
    """incr and the like: from nothing, to both ends of 64 bits and not beyond; what is no integer stays as it is."""
    top, bottom = 2**63 - 1, -(2**63)
    over = Err(4, "ERR increment or decrement would overflow")
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("incr n", 1), ("incr n", 2), ("decr n", 1), ("incrby n 41", 42), ("decrby n 50", -8), ("get n",
             b"-8"),
             (f"set n {top}", OK), ("incr n", over), ("incrby n 1", over), ("decrby n -1", over), ("get n",
             b"%d" % top),
             (f"incrby n {bottom}", -1), (f"set n {bottom}", OK), ("decr n", over), ("decrby n 1", over),
             (f"incrby n {top}", -1), (f"decrby n {bottom}", Err(4, "ERR decrement would overflow")), ("get n", b"-1"),
             ("incrby n x", NO_INT), ("incrby n 1.5", NO_INT), ('incrby n ""', NO_INT),
             ("incrby n 01", NO_INT))  # fmt: skip
        for value in ("", "x", " 1", "1 ", "01", "+1", "-0", "1.0", "9223372036854775808", "1e3"):
            conn.ask("set", "n", value, expect=OK)
            conn.ask("incr", "n", expect=NO_INT)
            conn.ask("get", "n", expect=value.encode())
        asks(conn, ("set n 7", OK), ("expire n 1000", 1), ("incr n", 8), ("ttl n", Between(900, 1000)),
             ("append n 5", 2),
             ("incr n", 86), ("ttl n", Between(900, 1000)))  # fmt: skip


@case(since=21)
def strings_that_grow(chapter: int) -> None:
    """append and strlen, of any bytes; a TTL stays."""
    with start(chapter) as server, server.connect() as conn:
        whole = b""
        for i in range(300):
            more = bytes([i % 256]) * (i % 50)
            whole += more
            conn.ask("append", "k", more, expect=len(whole))
        conn.ask("strlen", "k", expect=len(whole))
        conn.ask("get", "k", expect=whole)
        conn.ask("append", "long", "x" * MIB, expect=MIB)
        conn.ask("append", "long", "y" * MIB, expect=2 * MIB)
        conn.ask("get", "long", expect=b"x" * MIB + b"y" * MIB)
        asks(conn, ("append e ''", 0), ("exists e", 1), ("get e", b""))
        for seconds, key in (1000, "t1"), (2000, "t2"), (3000, "t3"):
            asks(conn, (f"append {key} x", 1), (f"expire {key} {seconds}", 1))
            conn.ask("append", key, "y" * 5000, expect=5001)
        asks(conn, ("persist t1", 1), ("ttl t2", Between(1900, 2000)), ("ttl t3", Between(2900, 3000)))


@case(since=21, ours="Redis's strings have up to 512 MiB")
def strings_as_long_as_a_message(chapter: int) -> None:
    """append makes a string of 32 MiB, to the byte. What would be longer is refused, and the value is whole."""
    too_long = Err(4, "ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    first, rest = filled(20 * MIB), filled(12 * MIB, 1)
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", first, expect=OK)
        for _ in range(3):  # none of them is longer than a message, the sum is
            conn.ask("append", "k", first, expect=too_long)
        conn.ask("get", "k", expect=first)
        conn.ask("append", "k", rest[:-1], expect=32 * MIB - 1)
        conn.ask("append", "k", "xy", expect=too_long)
        asks(conn, ("append k x", 32 * MIB), ("append k x", too_long), ("append k ''", 32 * MIB),
             ("strlen k", 32 * MIB))  # fmt: skip
        say(conn)


@case(since=21)
def many_keys_at_once(chapter: int) -> None:
    """mset, mget, del, unlink and exists with the same key several times; mset takes TTLs away, and any type."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("zadd", "b", 1, "n", expect=1)
        asks(conn, ("set a old", OK), ("expire a 100", 1), ("mset a 1 b 2 a 3", OK), ("mget a b c a", [b"3",
             b"2", None, b"3"]),
             ("ttl a", -1), ("exists a a b c", 3), ("del a a c", 1), ("unlink b b", 1), ("dbsize", 0))  # fmt: skip


@case(since=21)
def the_whole_key_space(chapter: int) -> None:
    """dbsize counts keys of both types; flushdb and flushall leave none, and what comes then is new."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for flush in ("flushdb", "FLUSHALL", "flushall async", "flushdb SYNC"):
            conn.pipeline([["set", f"key:{i}", "v"] for i in range(3000)], [OK] * 3000)
            conn.pipeline([["zadd", "z", i, f"n{i}"] for i in range(300)], [1] * 300)
            asks(conn, ("expire key:1 1000", 1), ("pexpire z 100000", 1), ("dbsize", 3001), (flush, OK), ("dbsize", 0),
                 ("keys *", []))  # fmt: skip
            asks(other, ("get key:1", None), ("ttl key:1", -2), ("zcard z", 0), ("set key:1 v", OK), ("ttl key:1", -1),
                 ("del key:1", 1))  # fmt: skip
        asks(conn, ("flushdb now", SYNTAX), ("flushall sync async", SYNTAX), ("select 0", OK), ("dbsize", 0))


PATTERNS: List[Tuple[bytes, List[bytes]]] = [
    (b"*", [b"", b"a", b"ab", b"abc", b"b", b"a*c", b"[x]", b"a\nb", b"\xffz", b"]", b"\\"]),
    (b"a*", [b"a", b"ab", b"abc", b"a*c", b"a\nb"]), (b"*b", [b"ab", b"b", b"a\nb"]), (b"a*c", [b"abc", b"a*c"]),
    (b"*a*b*", [b"ab", b"abc", b"a\nb"]), (b"?", [b"a", b"b", b"]", b"\\"]), (b"??", [b"ab", b"\xffz"]),
    (b"a?c", [b"abc", b"a*c"]),
    (b"[ab]", [b"a", b"b"]), (b"[a-c]", [b"a", b"b"]), (b"[c-a]", [b"a", b"b"]), (b"[^a]", [b"b", b"]", b"\\"]),
    (b"[^a-b]", [b"]", b"\\"]),
    (b"a[*]c", [b"a*c"]), (b"a\\*c", [b"a*c"]), (b"\\[x]", [b"[x]"]), (b"[[]x[]]", []), (b"[[]x]", [b"[x]"]),
    (b"[a", [b"a"]), (b"", [b""]), (b"A", []), (b"a", [b"a"]), (b"\\a", [b"a"]), (b"[\\a]", [b"a"]), (b"a**",
    [b"a", b"ab", b"abc", b"a*c", b"a\nb"]),
    (b"[]", []), (b"[b-", [b"b"]), (b"[^", [b"a", b"b", b"]", b"\\"]), (b"\xff?", [b"\xffz"]), (b"a\\", []),
    (b"[b-]", [b"a", b"b", b"]"]), (b"none*", []), (b"[\\]", [b"]"]), (b"[\\]]", [b"]"]), (b"[\\", [b"\\"]),
]  # fmt: skip


@case(since=21)
def patterns_of_keys(chapter: int) -> None:
    """* ? [a-z] [^a] and backslashes, as Redis has them."""
    with start(chapter) as server, server.connect() as conn:
        for key in PATTERNS[0][1]:
            conn.ask("set", key, "v", expect=OK)
        for pattern, keys in PATTERNS:
            conn.ask("keys", pattern, expect=AnyOrder(keys))


TOO_LONG = Err(4, "ERR the pattern takes too long")


@case(since=21, ours="Redis goes on and on")
def patterns_that_take_too_long(chapter: int) -> None:
    """A key of 60,000 bytes fits a pattern of a thousand nearly everywhere, but for the last byte. Whoever compares the
    two gives up and says so: a reply without the key would say that it does not match. Shorter ones are compared to
    the end."""
    longest, longer = "*" + "a" * 1000 + "b", "*" + "a" * 50 + "b"
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "a" * 60_000, "v", expect=OK)
        asks(conn, ("set other v", OK), (f"keys {longest}", TOO_LONG), (f"keys {longer}", []),
             ("keys oth*", [b"other"]))  # fmt: skip
        if codec(chapter).has_scan:
            asks(conn, (f"scan 0 match {longest}", TOO_LONG), (f"scan 0 count 1000 match {longer}", [b"0", []]),
                 (f"scan 0 count 1000 match {longest}", TOO_LONG),
                 ("scan 0 match oth* count 1000", [b"0", [b"other"]]))  # fmt: skip
        say(conn)


@case(since=21, ours="Redis goes on and on")
def patterns_of_many_stars(chapter: int) -> None:
    """A star costs as much as a letter, wherever it stands. Two million of them, for each of a hundred keys, are given
    up; so is a class of millions of letters."""
    stars = "*" * 2_000_000
    with start(chapter) as server, server.connect() as conn:
        conn.pipeline([["set", f"k{i:02}", "v"] for i in range(100)], [OK] * 100)
        for pattern in (f"{stars}x", f"k??{stars}x"):
            conn.ask("keys", pattern, expect=TOO_LONG)
            if codec(chapter).has_scan:
                conn.ask("scan", 0, "count", 1000, "match", pattern, expect=TOO_LONG)
        asks(conn, (f"keys {'*' * 1000}k99", [b"k99"]), (f"keys k99{'*' * 1000}", [b"k99"]))
        conn.ask("config", "get", stars * 8 + "~", expect=TOO_LONG)
        conn.ask("config", "get", "*[" + "x" * 9_000_000 + "t]*", expect=TOO_LONG)
        say(conn)


@case(since=21, inside=True)
def appending_costs_what_it_copies(chapter: int) -> None:
    """To append a few bytes to a value of 1 MiB may copy all of it. Sixty of that in one write are no single turn."""
    counts, times = Counts(), 60
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        conn.ask("set", "k", b"v" * MIB, expect=OK)
        say(conn)
        counts.reset()
        conn.pipeline([["append", "k", "sixteen bytes .."]] * times, [MIB + 16 * (i + 1) for i in range(times)])
        if counts.writes < 8:
            fail(
                f"{times} times a value of 1 MiB was appended to, and the replies left in {counts.writes} writes",
                "a turn is over when it was enough work: do the bytes that move count?",
                "four of them in a turn, or about",
            )


@case(since=21)
def sets_of_many_pairs(chapter: int) -> None:
    """Any number of pairs and names in a request. One that is wrong, and nothing of the request is done."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd z 1 a 2 b 3 c", 3), ("zadd z 4 a 4 d 5 d", 1), ("zcard z", 4),
             ("zrange z 0 -1 withscores", [b"b", 2.0, b"c", 3.0, b"a", 4.0, b"d", 5.0]),
             ("zadd z 9 a x b", NO_FLOAT), ("zadd z 9 a 1", SYNTAX), ("zadd z 9 a nan b", NO_FLOAT),
             ("zscore z a", 4.0),
             ("zadd new x a", NO_FLOAT), ("exists new", 0), ("zrank z a", 2), ("zrevrank z a", 1), ("zrank z d", 3),
             ("zrem z a none b a", 2), ("zcard z", 2), ("zrem z c d", 2), ("exists z", 0))  # fmt: skip


# What z holds, the command behind `zadd z`, its reply, what z holds then. A score is kept, or is the given one.
ZADD_OPTIONS: List[Tuple[str, str, object, str]] = [
    # a name that is there, with a score that is greater, less, the same
    *(("5 a", f"{options} {score} a", changes * options.upper().endswith("CH"), f"{score if changes else 5} a")
      for options, greater, less in (
          ("", 1, 1), ("ch", 1, 1), ("xx", 1, 1), ("xx ch", 1, 1), ("gt", 1, 0), ("GT CH", 1, 0), ("gt xx ch", 1, 0),
          ("lt", 0, 1), ("Lt Ch", 0, 1), ("xx lt ch", 0, 1), ("nx", 0, 0), ("NX CH", 0, 0), ("nx nx ch ch", 0, 0),
          ("gt gt ch", 1, 0),
      ) for score, changes in ((6, greater), (4, less), (5, 0), ("inf", greater), ("-inf", less))),
    # a name that is not there, in a set or without one
    *((before, f"{options} 1 b", int("xx" not in options), f"1 b {before}" if "xx" not in options else before)
      for options in ("", "ch", "nx", "gt", "lt", "gt ch", "lt ch", "xx", "xx ch", "xx gt", "xx lt ch")
      for before in ("5 a", "")),
    # several pairs, each by itself
    ("1 a 5 b", "nx 9 a 2 c 9 b 3 d", 2, "1 a 2 c 3 d 5 b"), ("1 a 5 b", "xx ch 2 a 2 c 5 b", 1, "2 a 5 b"),
    ("1 a 5 b", "gt ch 2 a 4 b 3 c", 2, "2 a 3 c 5 b"), ("1 a 5 b", "lt ch 2 a 4 b 3 c", 2, "1 a 3 c 4 b"),
    ("1 a 5 b", "gt 2 a 4 b 3 c", 1, "2 a 3 c 5 b"), ("1 a", "ch 2 a 3 a 1 b 4 b", 4, "3 a 4 b"),
    ("1 a", "gt ch 3 a 2 a 3 a", 1, "3 a"), ("", "nx 1 a 2 a", 1, "1 a"), ("", "gt 2 a 1 a", 1, "2 a"),
    ("1 a", "xx 2 b 3 c", 0, "1 a"),
    # the sum, where it is stored; nil where it is not
    *(("5 a", f"{options} incr {by} a", Score(5 + by) if stored else NIL, f"{5 + by if stored else 5} a")
      for options, more, less, same in (
          ("", 1, 1, 1), ("ch", 1, 1, 1), ("xx", 1, 1, 1), ("gt", 1, 0, 0), ("lt", 0, 1, 0), ("XX GT", 1, 0, 0),
          ("xx lt", 0, 1, 0), ("nx", 0, 0, 0),
      ) for by, stored in ((1, more), (-1, less), (0, same))),
    *((before, f"{options} incr 2.5 b", NIL if "xx" in options else Score(2.5),
       before if "xx" in options else f"2.5 b {before}")
      for options in ("", "nx", "gt", "lt", "ch", "xx", "xx gt") for before in ("5 a", "")),
    ("5 a", "INCR 1 a", Score(6), "6 a"), ("5 a", "incr incr ch 1 a", Score(6), "6 a"),
    ("inf a", "incr -inf a", NO_SUM, "inf a"), ("-inf a", "incr inf a", NO_SUM, "-inf a"),
    ("inf a", "gt incr -inf a", NO_SUM, "inf a"), ("inf a", "xx incr -inf a", NO_SUM, "inf a"),
    ("inf a", "nx incr -inf a", NIL, "inf a"), ("inf a", "incr inf a", Score(float("inf")), "inf a"),
    ("inf a", "incr -inf b", Score(float("-inf")), "-inf b inf a"),
    # what does not go together, before a score is looked at; what is no option is a score
    *((before, f"{options} {score} a", error, before) for before in ("5 a", "") for options, score, error in (
        ("nx xx", 1, NX_XX), ("xx nx incr", 1, NX_XX), ("nx xx gt lt", 1, NX_XX), ("nx xx", "x", NX_XX),
        ("gt lt", 1, GT_LT), ("nx gt", 1, GT_LT), ("lt nx", 1, GT_LT), ("xx lt gt ch", 1, GT_LT), ("gt lt", "x", GT_LT),
        ("incr 1 b", 1, ONE_PAIR), ("nx incr x b", "x", ONE_PAIR), ("gt lt incr 1 b", 1, GT_LT),
        ("nx", "x", NO_FLOAT), ("incr", "nan", NO_FLOAT), ("ch", "''", NO_FLOAT), ("xx", "x", NO_FLOAT),
        ("1 b nx", 2, SYNTAX), ("get", 1, SYNTAX), ("nx ch", "", SYNTAX),
        ("nx xx 1", "", NX_XX),
    )),
    ("5 a", "nx xx", SYNTAX, "5 a"), ("5 a", "gt lt incr", SYNTAX, "5 a"), ("", "ch incr", SYNTAX, ""),
]  # fmt: skip


@case(since=21)
def options_of_zadd(chapter: int) -> None:
    """NX XX GT LT CH INCR, alone and together: what is stored, what is counted, what is said of a sum."""
    with start(chapter) as server, server.connect() as conn:
        for before, line, reply, after in ZADD_OPTIONS:
            conn.ask("del", "z")
            asks(conn, *[(f"zadd z {before}", len(before.split()) // 2)] * bool(before), (f"zadd z {line}", reply),
                 ("exists z", int(bool(after))))  # fmt: skip
            words = after.split()
            pairs = [each for i in range(0, len(words), 2) for each in (words[i + 1].encode(), float(words[i]))]
            conn.ask("zrange", "z", "0", "-1", "withscores", expect=pairs)
        asks(conn, ("set s v", OK), ("zadd s nx 1 a", WRONG), ("zadd s xx 1 a", WRONG), ("zadd s incr 1 a", WRONG),
             ("zadd s nx xx 1 a", NX_XX), ("zadd s nx x a", NO_FLOAT), ("get s", b"v"))  # fmt: skip


@case(since=21)
def ranges_by_rank(chapter: int) -> None:
    """zrange: from either end, past either end, the wrong way round, with numbers of any size."""
    with start(chapter) as server, server.connect() as conn:
        for size in (0, 1, 2, 7, 200):
            names = [b"n%03d" % i for i in range(size)]
            for i, name in enumerate(names):
                conn.ask("zadd", "z", i, name, expect=1)
            ends = [0, 1, 2, size - 1, size, size + 1, -1, -2, -size, -size - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
            for first in ends:
                begin = max(0, first + size if first < 0 else first)
                expect = [names[begin : max(0, (last + size if last < 0 else last) + 1)] for last in ends]
                conn.pipeline([["zrange", "z", first, last] for last in ends], expect)
            conn.ask("del", "z")
        asks(conn, ("zadd z 1 a", 1), ("zrange z x 1", NO_INT), ("zrange z 0 1.5", NO_INT),
             ("zrange z 0 1 nonsense", SYNTAX),
             ("zrange z 0 9223372036854775808", NO_INT), ("ZRANGE z 0 0 WithScores", [b"a", 1.0]))  # fmt: skip


@case(since=21)
def a_limit_on_ranks(chapter: int) -> None:
    """LIMIT is for ranges of scores. But a count of -1 is as none at all, wherever it begins; the last one counts."""
    no_limit = Err(4, "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd z 1 a 2 b 3 c", 3), ("zrange z 0 -1 limit 0 2", no_limit),
             ("zrange z 0 -1 limit 0 0", no_limit), ("zrange z 0 -1 limit 0 -2", no_limit),
             ("zrange none 0 -1 limit 1 2", no_limit),
             ("zrange z 0 -1 limit 0 -1", [b"a", b"b", b"c"]), ("zrange z 0 1 limit 2 -1", [b"a", b"b"]),
             ("zrange z 0 -1 rev limit -5 -1", [b"c", b"b", b"a"]), ("zrange none 0 -1 limit 1 -1", []),
             ("zrange z 0 0 limit 7 -1 withscores", [b"a", 1.0]), ("zrange z x 1 limit 1 -1", NO_INT),
             ("zrange z 0 -1 limit 0 2 limit 0 -1", [b"a", b"b", b"c"]), ("zrange z 0 -1 limit x -1", NO_INT),
             ("zrange z 0 -1 limit 0 -1 limit 0 2", no_limit), ("zrange z 0 -1 limit 0 -01", NO_INT),
             ("zrange z 2 3 byscore limit 1 -1", [b"c"]))  # fmt: skip


# What stands behind `zrange z`, and the names that come of 1 a, 2 b, 3 c, 3 d, 5 e.
ZRANGE_OPTIONS: List[Tuple[str, str]] = [
    ("0 1", "ab"), ("0 1 rev", "ed"), ("-2 -1 REV", "ba"), ("1 9 rev", "dcba"), ("3 1 rev", ""),
    ("2 3 byscore", "bcd"), ("(2 3 ByScore", "cd"), ("(2 (3 byscore", ""), ("3 2 byscore", ""),
    ("-inf +inf byscore", "abcde"),
    ("3 2 byscore rev", "dcb"), ("3 (2 rev byscore", "dc"), ("(3 1 rev byscore", "ba"), ("2 3 rev byscore", ""),
    ("+inf -inf byscore rev", "edcba"), ("-inf inf byscore limit 1 2", "bc"), ("-inf inf limit 0 9 byscore", "abcde"),
    ("-inf inf byscore limit 4 9", "e"), ("-inf inf byscore limit 5 1", ""), ("-inf inf byscore limit -1 2", ""),
    ("-inf inf byscore limit 2 -1", "cde"), ("-inf inf byscore limit 2 -9", "cde"), ("-inf inf byscore limit 1 0", ""),
    ("inf -inf byscore rev limit 1 2", "dc"), ("inf -inf rev limit 3 9 byscore", "ba"),
    ("inf -inf byscore rev limit 2 -1", "cba"), ("inf -inf byscore rev limit 5 1", ""),
    ("inf -inf byscore rev limit -1 1", ""), ("3 2 byscore limit 2 1 rev", "b"),
]  # fmt: skip


@case(since=21)
def options_of_zrange(chapter: int) -> None:
    """BYSCORE, REV, LIMIT and WITHSCORES, in any order; REV and BYSCORE once, and not for zrangebyscore."""
    scores = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 3.0, "e": 5.0}
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd z 1 a 2 b 3 c 3 d 5 e", 5))
        for version in (2, 3):
            hello(conn, version)
            for options, names in ZRANGE_OPTIONS:
                pairs = [[name.encode(), scores[name]] for name in names]
                flat = pairs if version == 3 else [each for pair in pairs for each in pair]
                asks(conn, (f"zrange z {options}", [name for name, _ in pairs]), (f"zrange none {options}", []),
                     (f"zrange z {options} withscores", flat), (f"zrange z {options} WITHSCORES withscores", flat))
            asks(conn, ("zrangebyscore z (1 3 withscores", [[b"b", 2.0], [b"c", 3.0], [b"d", 3.0]] if version == 3
                        else [b"b", 2.0, b"c", 3.0, b"d", 3.0]))  # fmt: skip
        for bad in ("0 1 rev rev", "0 1 byscore byscore", "0 1 rev withscores REV", "0 1 byscore rev byscore",
                    "0 1 byscore limit 0", "0 1 limit", "0 1 nonsense", "0 1 byscore nx", "x y nonsense"):  # fmt: skip
            asks(conn, (f"zrange z {bad}", SYNTAX), (f"zrangebyscore z {bad}", SYNTAX), (f"zrange none {bad}", SYNTAX))
        asks(conn, ("zrangebyscore z 3 2 rev", SYNTAX), ("zrangebyscore z 2 3 byscore", SYNTAX),
             ("zrange z a b byscore", Err(4, "ERR min or max is not a float")), ("zrange z (1 3", NO_INT),
             ("zrange z 0 1 byscore limit 0 x", NO_INT), ("zrange z 0 1 byscore limit x 0", NO_INT))  # fmt: skip


@case(since=21)
def ranges_by_score(chapter: int) -> None:
    """zcount and zrangebyscore: ends in or out, infinite, the wrong way round; LIMIT and WITHSCORES in any order."""
    no_range = Err(4, "ERR min or max is not a float")
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd z -inf a -1 b 0 c 0 d 1.5 e inf f", 6))
        scores = [float("-inf"), -1.0, 0.0, 0.0, 1.5, float("inf")]
        for low in ("-inf", "(-inf", "-1", "(-1", "0", "(0", "1.5", "(1.5", "+inf", "(+inf", "0.5", "2e0"):
            for high in ("-inf", "(-inf", "-1", "(-1", "0", "(0", "1.5", "(1.5", "inf", "(inf", "-0.5"):
                least, most = float(low.strip("(")), float(high.strip("("))
                found = [
                    b"%c" % (97 + i) for i, score in enumerate(scores)
                    if (least < score or low[0] != "(" and least == score)
                    and (score < most or high[0] != "(" and score == most)
                ]  # fmt: skip
                conn.pipeline([["zcount", "z", low, high], ["zrangebyscore", "z", low, high]], [len(found), found])
        asks(conn, ("zrangebyscore z 0 2 withscores limit 1 2", [b"d", 0.0, b"e", 1.5]),
             ("zrangebyscore z -inf inf LIMIT 1 2 WITHSCORES", [b"b", -1.0, b"c", 0.0]),
             ("zrangebyscore z -inf inf limit 4 -1", [b"e", b"f"]), ("zrangebyscore z -inf inf limit 9 1", []),
             ("zrangebyscore z -inf inf limit -1 1", []), ("zrangebyscore z -inf inf limit 0 0", []),
             ("zrangebyscore z -inf inf limit x 1", NO_INT), ("zrangebyscore z -inf inf limit 1", SYNTAX),
             ("zrangebyscore z x 1", no_range), ("zcount z 1 (x", no_range), ("zcount z nan 1", no_range),
             ("zcount none x 1", no_range))  # fmt: skip


# ---- connections ----


@case(since=20)
def quit_ends_the_connection(chapter: int) -> None:
    """+OK, then the end; what comes behind it is not done."""
    with start(chapter) as server, server.connect() as other:
        for words in (b"QUIT\r\n", array("quit"), array("quit", "now")):
            with server.connect() as conn:
                conn.send(array("set", "k", "v") + words + array("del", "k"))
                conn.expect_bytes(b"+OK\r\n+OK\r\n")
                conn.expect_closed()
            other.ask("get", "k", expect=b"v")


@case(since=21)
def clients_have_numbers_and_names(chapter: int) -> None:
    """client id, setname, getname, list."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        mine, theirs = conn.ask("client", "id"), other.ask("client", "id")
        assert isinstance(mine, int) and isinstance(theirs, int) and mine != theirs, (mine, theirs)
        with server.connect() as later:
            number = later.ask("client", "id")
            assert isinstance(number, int) and number > max(mine, theirs)
        bad = Err(4, "ERR Client names cannot contain spaces, newlines or special characters.")
        asks(conn, ("client getname", OneOf(None, b"")), ("client setname !worker-1~", OK),
             ("client getname", b"!worker-1~"),
             ("CLIENT SETNAME 'a b'", bad), ('client setname "a\\nb"', bad), ('client setname "a\\x7f"', bad),
             ("client getname", b"!worker-1~"),
             ("client setname ''", OK), ("client getname", OneOf(None, b"")), ("client setname again", OK))  # fmt: skip
        asks(other, ("client getname", OneOf(None, b"")))
        if not redis.is_tested():  # names of any length would make `client list` as long as its clients like
            too_long = Err(4, "ERR Client names cannot be longer than 1024 bytes.")
            conn.ask("client", "setname", "n" * 1025, expect=too_long)
            asks(conn, ("client getname", b"again"))
            conn.ask("client", "setname", "n" * 1024, expect=OK)
            asks(conn, ("client getname", b"n" * 1024), ("client setname again", OK))
        listed = conn.ask("client", "list")
        assert isinstance(listed, bytes) and listed.endswith(b"\n")
        rows = [dict(word.split(b"=", 1) for word in line.split(b" ")) for line in listed.splitlines()]
        found = {int(row[b"id"]): row for row in rows}
        assert found[mine][b"name"] == b"again" and found[theirs][b"name"] == b"", rows
        assert found[mine][b"cmd"] == b"client|list" and found[mine][b"db"] == b"0", rows
        assert found[theirs][b"addr"] == b"127.0.0.1:%d" % other.own_port(), rows
        assert found[theirs][b"laddr"] == b"127.0.0.1:%d" % server.port, rows

        def own_row() -> Dict[bytes, bytes]:
            told = conn.ask("client", "info")
            assert isinstance(told, bytes)
            return dict(word.split(b"=", 1) for word in told.split())

        wait_until(lambda: int(own_row()[b"age"]) >= 1, "the connection is a second old")
        assert own_row()[b"idle"] == b"0", "a connection that has just sent something is not idle"
        told = conn.ask("info", "server")
        assert isinstance(told, bytes)
        up = re.search(rb"uptime_in_seconds:(\d+)", told)
        assert up and 1 <= int(up.group(1)) < 500, told


@case(since=21, ours="Redis has it from 7.2 on")
def libraries_say_who_they_are(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("client setinfo lib-name redis-py", OK), ("client setinfo lib-ver 5.0.0", OK))


@case(since=20)
def databases(chapter: int) -> None:
    """Number 0 is there."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("select 0", OK), ("get k", b"v"), ("select x", NO_INT),
             ("select -1", Err(4, "ERR DB index is out of range")), ("select 1000", Err(4,
             "ERR DB index is out of range")),
             ("get k", b"v"))  # fmt: skip


# ---- what clients ask a server about itself ----


def as_pairs(reply: object) -> Dict[bytes, object]:
    """A map of either version."""
    if isinstance(reply, Map):
        return dict(reply)
    assert isinstance(reply, list)
    return dict(zip(reply[::2], reply[1::2]))  # type: ignore[arg-type]


@case(since=21)
def command_describes_all(chapter: int) -> None:
    """COMMAND, COUNT and INFO agree, and each arity is Redis's."""
    with start(chapter) as server, server.connect() as conn:
        rows = conn.ask("command")
        assert isinstance(rows, list)
        conn.ask("command", "count", expect=len(rows))
        by_name = {row[0]: row for row in rows}
        for name, count in resp.arity(chapter).items():
            if name in resp.NOT_IN_REDIS and redis.is_tested():
                continue
            if by_name[name][1] != count:
                fail(f"command: {name.decode()} has the arity {by_name[name][1]}", "", f"{count}, as Redis says")
        get, sets, zadd = by_name[b"get"], by_name[b"mset"], by_name[b"zadd"]
        assert get[3:6] == [1, 1, 1] and sets[3:6] == [1, -1, 2] and zadd[3:6] == [1, 1, 1], (get, sets, zadd)
        assert Simple(b"readonly") in get[2] and Simple(b"fast") in get[2] and Simple(b"write") in sets[2], (get, sets)
        assert Simple(b"denyoom") in zadd[2] and Simple(b"readonly") not in zadd[2], zadd
        conn.ask("command", "info", "GET", "nosuch", "mset", expect=[get, None, sets])
        raw(conn, array("command", "info", "nosuch"), b"*1\r\n$-1\r\n")
        listed = conn.ask("command", "list")
        assert isinstance(listed, list) and set(by_name) <= set(listed), listed
        raw(conn, array("ping"), b"+PONG\r\n")
        hello(conn, 3)
        three = conn.ask("command", "info", "get")
        assert isinstance(three, list) and three[0][:2] == [b"get", 2], three


@case(since=21)
def command_docs(chapter: int) -> None:
    """redis-cli asks for them before its first prompt: a map of maps, with a summary and a group."""
    with start(chapter) as server, server.connect() as conn:
        docs = as_pairs(conn.ask("command", "docs", "get", "zadd", "nosuch"))
        assert list(docs) in ([b"get", b"zadd"], [b"zadd", b"get"]), docs
        for name, group in ((b"get", b"string"), (b"zadd", b"sorted-set")):
            one = as_pairs(docs[name])
            assert one[b"group"] == group and isinstance(one[b"summary"], bytes), one
        every = as_pairs(conn.ask("command", "docs"))
        assert set(resp.arity(chapter)) - {*resp.NOT_IN_REDIS} <= set(every)
        hello(conn, 3)
        assert isinstance(conn.ask("command", "docs", "get"), Map)


@case(since=21)
def config_and_info(chapter: int) -> None:
    """redis-benchmark asks for `save` and `appendonly`; libraries read the version."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("config get save", [b"save", b""]), ("config get appendonly", [b"appendonly", b"no"]),
             ("CONFIG GET nosuch", []), ("set k v", OK), ("set l v", OK), ("expire l 1000", 1))  # fmt: skip
        both = as_pairs(conn.ask("config", "get", "save", "appendonly"))
        assert set(both) == {b"save", b"appendonly"}
        assert {b"save", b"appendonly", b"maxmemory"} <= set(as_pairs(conn.ask("config", "get", "*")))
        told = conn.ask("info")
        assert isinstance(told, bytes)
        for section in (b"Server", b"Clients", b"Memory", b"Stats", b"Keyspace"):
            assert b"# " + section + b"\r\n" in told, section
        lines = dict(line.split(b":", 1) for line in told.split(b"\r\n") if b":" in line)
        assert re.fullmatch(rb"\d+\.\d+\.\d+", lines[b"redis_version"]), lines
        assert lines[b"process_id"] == b"%d" % server.pid, lines
        assert int(lines[b"connected_clients"]) == 1, lines
        for _ in range(3):
            with server.connect() as other:
                other.ask("ping")

        def number(section: str, name: bytes) -> int:
            told = conn.ask("info", section)
            assert isinstance(told, bytes)
            return int(dict(line.split(b":", 1) for line in told.split() if b":" in line)[name])

        wait_until(lambda: number("clients", b"connected_clients") == 1, "the clients that left to be counted no more")
        before = number("stats", b"total_commands_processed")
        conn.send(b"\r\n*0\r\n")  # no commands, nor are the next two: they are not carried out
        conn.pipeline([["nosuch"], ["get"], *[["ping"]] * 10])
        after = number("stats", b"total_commands_processed")
        if after != before + 11:
            fail(f"total_commands_processed was {before}, and after ten `ping` it is {after}", "", f"{before + 11}")
        assert re.fullmatch(rb"keys=2,expires=1,avg_ttl=\d+", lines[b"db0"]), lines
        told = conn.ask("info", "keyspace")
        assert isinstance(told, bytes) and told.startswith(b"# Keyspace\r\n") and b"redis_version" not in told, told


@case(since=21)
def config_sets_all_or_nothing(chapter: int) -> None:
    """Where one of several settings is wrong, none of them is set, wherever it stands."""
    failed = "ERR CONFIG SET failed (possibly related to argument '{}') - {}"
    twice, fixed = (Err(4, failed.format(name, why)) for name, why in (
        ("timeout", "duplicate parameter"), ("databases", "can't set immutable config")))  # fmt: skip
    nosuch = Err(4, "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'")
    bad = Err(4, failed.format("timeout", "argument couldn't be parsed into an integer"))
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("config set timeout 1000", OK), ("config get timeout timeout", [b"timeout", b"1000"]))
        for words, error in (
            ("timeout 5 nosuch 1", nosuch), ("nosuch 1 timeout 5", nosuch), ("timeout 5 databases 3", fixed),
            ("timeout x nosuch 1", nosuch), ("timeout 5 timeout 6", twice),
            ("TIMEOUT x", bad), ("timeout x", bad),
            ("timeout x databases 3", fixed), ("timeout 5 nosuch", SYNTAX),
        ):  # fmt: skip
            asks(conn, (f"config set {words}", error), ("config get timeout", [b"timeout", b"1000"]))


@case(since=21, ours="Redis is not told a timeout in milliseconds")
def half_a_second_is_no_never(chapter: int) -> None:
    """A timeout is told in seconds, where 0 stands for never: half a second is 1."""
    with start(chapter, env={"IDLE_TIMEOUT_MS": "500"}) as server, server.connect() as conn:
        asks(conn, ("config get timeout", [b"timeout", b"1"]))


@case(since=21)
def a_conversation_as_a_client_library_has_it(chapter: int) -> None:
    """HELLO, who it is, then a batch whose errors stand in their places, and QUIT, in one write."""
    with start(chapter) as server, server.connect() as conn:
        asked: Sequence[Sequence[str]] = [
            ["client", "setname", "app"], ["select", "0"], ["set", "k", "1"], ["incr", "k"], ["get"], ["zadd", "k",
            "1", "a"],
            ["nosuch"], ["get", "k"], ["quit"],
        ]  # fmt: skip
        conn.send(b"".join(array(*words) for words in asked))
        for reply in (OK, OK, OK, 2, bad_count("get"), WRONG, Err(1, resp.unknown([b"nosuch"])), b"2", OK):
            conn.recv(reply)
        end_input(conn)
        conn.expect_closed()


FIELDS = (
    "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll "
    "omem tot-mem events cmd user redir resp"
).split()  # fmt: skip


def rows_of(conn: Conn, what: str) -> List[Dict[str, str]]:
    """What `client list` or `client info` says of each; fails where it lacks a field or has another order."""
    told = conn.ask("client", what)
    assert isinstance(told, bytes) and told.endswith(b"\n"), told
    rows = [[word.split("=", 1) for word in line.split(" ")] for line in told.decode().splitlines()]
    for row in rows:
        if [name for name, _ in row] != FIELDS:
            fail(f"client {what}: the fields are {' '.join(name for name, _ in row)}", "", " ".join(FIELDS))
    return [dict(row) for row in rows]  # type: ignore[arg-type]


@case(since=21)
def client_list_has_all_fields(chapter: int) -> None:
    """Libraries ask for all fields of Redis 7.0, and count with the numbers: what nobody uses is 0, or -1."""
    with start(chapter) as server, server.connect() as conn, server.connect() as silent:
        conn.ask("set", "large", filled(16 * MIB), expect=OK)
        conn.ask("client", "setname", "me", expect=OK)
        (mine,) = rows_of(conn, "info")
        for name in ("sub", "psub", "ssub", "multi-mem", "oll", "omem"):
            if mine[name] != "0":
                fail(f"client info: {name}={mine[name]}, and nothing of that kind is there", "", "0")
        assert (mine["multi"], mine["redir"], mine["user"], mine["resp"]) == ("-1", "-1", "default", "2"), mine
        own = len(array("client", "info"))
        if int(mine["qbuf"]) < own or int(mine["tot-mem"]) < int(mine["qbuf"]) + int(mine["qbuf-free"]):
            fail(f"client info: {mine}", "", f"qbuf of {own} at least, this request; tot-mem with all buffers in it")
        number = silent.ask("client", "id")
        silent.send(array("get", "large") * 2)  # and reads no reply

        def waiting() -> Dict[str, str]:
            return next(row for row in rows_of(conn, "list") if row["id"] == str(number))

        wait_until(lambda: int(waiting()["omem"]) > MIB, "client list tells of replies that wait")
        row = waiting()
        assert int(row["oll"]) > 0 and int(row["tot-mem"]) >= int(row["omem"]) and row["cmd"] == "get", row
        assert row["resp"] == "2", row


@case(since=21)
def names_of_settings_in_any_case(chapter: int) -> None:
    """Asked for by name, a setting is called as it was asked for; found by a pattern, it has its own name."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("config set TimeOut 77", OK), ("config get TIMEOUT", [b"TIMEOUT", b"77"]),
             ("config get tImeOut", [b"tImeOut", b"77"]), ("config get TIMEO*", [b"timeout", b"77"]),
             ("config get TIM[D-F]OUT", [b"timeout", b"77"]), ("CONFIG GET SAV?", [b"save", b""]),
             ("config get *EOUT TIMEOUT", ANY), ("config get APPENDONL\\\\Y", ANY), ("set KEY v", OK),
             ("keys key", []), ("keys KE?", [b"KEY"]))  # fmt: skip


@case(since=21)
def each_family_has_help(chapter: int) -> None:
    """An error says `Try CLIENT HELP.`: an array of statuses, what there is and what it is for."""
    families = ["client", "command", "config", *(["object", "memory"] if codec(chapter).has_keyspace else [])]
    with start(chapter) as server, server.connect() as conn:
        for family in families:
            told = conn.ask(family, "HELP")
            assert isinstance(told, list) and all(type(line) is Simple for line in told), told
            first = f"{family.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
            assert told[0] == first.encode() and told[-2] == b"HELP" and told[-1].startswith(b"    Print"), told
            rows = conn.ask("command", "info", family)
            assert isinstance(rows, list)
            names = {row[0].partition(b"|")[2].upper() for row in rows[0][9]}
            said = {line.split()[0] for line in told[1:] if not line.startswith(b" ")}
            if not names - {b"GETKEYS", b"SETINFO"} <= said | {b"(NO"}:
                fail(f"{family} help says nothing of {names - said}")
            conn.ask(family, "help", "x", expect=bad_count(f"{family}|help"))


@case(since=21)
def command_list_is_filtered(chapter: int) -> None:
    """By a pattern, in letters of any case. There are no modules here."""
    with start(chapter) as server, server.connect() as conn:
        every = conn.ask("command", "list")
        assert isinstance(every, list) and b"client|id" in every, every
        for pattern, form in (
            ("get", "get"), ("z*", "z.*"), ("Z*", "z.*"), ("*|*", r".*[|].*"), ("CLIENT|[H-J]*", r"client[|][h-j].*"),
            ("[^a-z]*", "[^a-z].*"), ("*", ".*"), ("", ""), ("nosuch", "nosuch"),
        ):  # fmt: skip
            expect = AnyOrder([name for name in every if re.fullmatch(form, name.decode())])
            conn.ask("COMMAND", "list", "FilterBy", "PATTERN", pattern, expect=expect)
        asks(conn, ("command list filterby module x", []), ("command list filterby aclcat nosuch", []),
             ("command list filterby", SYNTAX), ("command list filterby pattern", SYNTAX),
             ("command list filterby pattern a b", SYNTAX), ("command list filterby nosuch a", SYNTAX),
             ("command list pattern a b", SYNTAX), ("command list x", SYNTAX))  # fmt: skip


@case(since=21)
def nobody_needs_a_password(chapter: int) -> None:
    """The default user has none, so any will do; a password alone is taken for a mistake."""
    without = Err(4, "ERR AUTH <password> called without any password configured for the default user. Are you sure "
                     "your configuration is correct?")  # fmt: skip
    wrong = Err(4, "WRONGPASS invalid username-password pair or user is disabled.")
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("auth x", without), ("AUTH ''", without), ("auth default x", OK), ("auth default ''", OK),
             ("auth other x", wrong), ("auth Default x", wrong), ("auth '' x", wrong), ("auth a b c", SYNTAX),
             ("auth default b c", SYNTAX), ("auth", bad_count("auth")), ("hello 2 auth DEFAULT x", wrong),
             ("hello 2 auth other x", wrong), ("ping", PONG))  # fmt: skip


@case(since=21)
def reset_begins_anew(chapter: int) -> None:
    """Version 2, database 0, no name; pools of connections send it."""
    with start(chapter) as server, server.connect() as conn:
        for _ in range(2):
            asks(conn, ("set k zero", OK), ("client setname app", OK))
            hello(conn, 3)
            if codec(chapter).has_keyspace:
                asks(conn, ("select 5", OK), ("get k", None))
            conn.ask("RESET", expect=Simple(b"RESET"))
            conn.version = 2
            raw(conn, array("get", "none"), b"$-1\r\n")
            asks(conn, ("get k", b"zero"), ("client getname", OneOf(None, b"")), ("reset now", bad_count("reset")))
            assert rows_of(conn, "info")[0]["name"] == ""


@case(since=21)
def zincrby_reads_no_options(chapter: int) -> None:
    """To Redis it is `zadd`: an option in place of the number leaves too few words. As a name, it is a name."""
    with start(chapter) as server, server.connect() as conn:
        for word in ("nx", "XX", "gt", "LT", "ch", "incr"):
            asks(conn, (f"zincrby z {word} m", SYNTAX), (f"zincrby z 1 {word}", 1.0), (f"zscore z {word}", 1.0))
        asks(conn, ("zincrby z nxx m", NO_FLOAT), ("zincrby z '' m", NO_FLOAT), ("set k v", OK),
             ("zincrby k nx m", SYNTAX), ("zcard z", 6))  # fmt: skip


@case(since=21)
def info_for_those_who_watch(chapter: int) -> None:
    """redis-cli --stat and libraries' tests read these lines. What memory holds is counted: a large value is in it."""
    with start(chapter) as server, server.connect() as conn:

        def lines(*sections: str) -> Dict[str, str]:
            told = conn.ask("info", *sections)
            assert isinstance(told, bytes)
            return dict(line.split(":", 1) for line in told.decode().split("\r\n") if ":" in line)

        told = lines()
        for name, value in (("blocked_clients", "0"), ("loading", "0"), ("cluster_enabled", "0")):
            if told.get(name) != value:
                fail(f"info: {name} is {told.get(name)}", "", value)
        assert lines("cluster") == {"cluster_enabled": "0"} and lines("persistence")["loading"] == "0"
        for all_of_it in ("default", "all", "everything"):
            if not set(told) <= set(lines(all_of_it)):
                fail(f"info {all_of_it} has no {', '.join(set(told) - set(lines(all_of_it)))}", expected="all sections")
        assert re.fullmatch(r"\d+\.\d\d[KMG]", told["used_memory_human"]), told
        before = int(told["used_memory"])
        conn.ask("set", "large", filled(24 * MIB), expect=OK)
        after = lines("memory")
        grown = (int(after["used_memory"]) - before) >> 20
        more_than_all = int(after["used_memory"]) > int(after["used_memory_rss"]) and not redis.is_tested()
        if grown < 23 or (grown > 64 and not watched()) or more_than_all:
            fail(f"with a value of 24 MiB, used_memory has grown by {grown} MiB; info memory says {after}")


@case(since=21)
def info_counts_connections(chapter: int) -> None:
    """Those that are there, and those that came, since the start or since CONFIG RESETSTAT. How long the start is ago
    is told in seconds."""
    with start(chapter) as server, server.connect() as conn:
        began = time.monotonic()

        def counts() -> List[int]:
            told = conn.ask("info")
            assert isinstance(told, bytes)
            lines = dict(line.split(":", 1) for line in told.decode().split("\r\n") if ":" in line)
            names = ("connected_clients", "total_connections_received", "uptime_in_seconds")
            return [int(lines[name]) for name in names]

        there, came, _ = counts()
        for _ in range(2):
            with server.connect() as other:
                other.ask("ping", expect=PONG)
                assert counts()[0] == there + 1
            wait_until(lambda: counts()[0] == there, "a connection is closed")
        assert counts()[1] == came + 2
        conn.ask("config", "resetstat", expect=OK)
        with server.connect() as other:
            other.ask("ping", expect=PONG)
            assert counts()[:2] == [there + 1, 1]
        while time.monotonic() < began + 0.1:  # so long that milliseconds cannot pass for seconds
            conn.ask("ping", expect=PONG)
        uptime, passed = counts()[2], time.monotonic() - began
        if uptime > passed + 30:
            fail(f"uptime_in_seconds is {uptime}, and the server was started {passed:.1f} seconds ago")


# ---- transactions, which are not here until 25 ----

NO_MULTI = Err(4, "ERR MULTI is not supported here; use a pipeline without a transaction")
NOT_DONE = Err(4, "ERR not done: it stands behind a MULTI, which is not supported here")
ABORTED = Err(4, "EXECABORT Transaction discarded because of: MULTI is not supported here; use a pipeline without a "
                 "transaction")  # fmt: skip
NO_EXEC, NO_DISCARD = Err(4, "ERR EXEC without MULTI"), Err(4, "ERR DISCARD without MULTI")
HAS_THEM, LAST = "Redis has transactions", wire.TRANSACTIONS_FROM - 1


@case(since=21)
def exec_and_discard_without_multi(chapter: int) -> None:
    """They are Redis's own errors, and nothing else happens."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("exec", NO_EXEC), ("DISCARD", NO_DISCARD), ("set k v", OK), ("exec", NO_EXEC), ("get k", b"v"))


@case(since=21, until=LAST, inside=True, ours=HAS_THEM)
def nothing_of_a_transaction_is_done(chapter: int) -> None:
    """Most libraries send MULTI, commands and EXEC in one go. None of the commands is done, wherever the bytes are cut;
    what stands around them is."""
    words = ["set k old", "multi", "set k new", "incr n", "mget k n", "flushall", "nosuch", "get", "exec", "get k",
             "MULTI", "del k", "ping", "discard", "incr m"]  # fmt: skip
    expect = [OK, NO_MULTI, *[NOT_DONE] * 6, ABORTED, b"old", NO_MULTI, NOT_DONE, NOT_DONE, NO_DISCARD, 1]
    data = b"".join(array(*line.split()) for line in words)
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        for cut in range(len(data)):  # time stands still: however long the rest takes
            conn.send(data[:cut])
            clock.rest()
            conn.send(data[cut:])
            for reply in expect:
                conn.recv(reply)
            asks(conn, ("exists n", 0), ("del m k", 2))


@case(since=21, until=LAST, ours=HAS_THEM)
def a_long_transaction_is_refused_to_its_end(chapter: int) -> None:
    """Its bytes take many reads, and the client reads no reply before it has sent all. Others are served."""
    n = 50_000
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        sets = [["set", f"key:{i}", "x" * 20] for i in range(n)]
        conn.pipeline([["multi"], *sets, ["exec"]], [NO_MULTI, *[NOT_DONE] * n, ABORTED])
        asks(other, ("dbsize", 0), ("set k v", OK))
        asks(conn, ("get k", b"v"), ("exec", NO_EXEC))


@case(since=21, until=LAST, inside=True, ours=HAS_THEM)
def who_gives_up_after_multi_is_served_again(chapter: int) -> None:
    """A client that has read the refusal owes no EXEC: a second later its commands are done again, however many it has
    sent meanwhile, one by one. A request that comes with another behind it shows that it does not wait: a second
    more."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn, server.connect() as other:
        asks(conn, ("multi", NO_MULTI))
        for _ in range(9):
            asks(conn, ("set k v", NOT_DONE))
            clock.step(111)
        asks(conn, ("get k", NOT_DONE))
        asks(other, ("get k", None), ("set l v", OK))
        clock.step(1)
        asks(conn, ("set k v", OK), ("exec", NO_EXEC), ("multi", NO_MULTI))
        clock.step(900)
        conn.pipeline([["del", "k"], ["del", "k"]], [NOT_DONE] * 2)
        clock.step(999)
        asks(conn, ("del k", NOT_DONE))
        clock.step(1)
        asks(conn, ("del k", 1))


@case(since=21, until=LAST, ours=HAS_THEM)
def what_ends_a_refusal(chapter: int) -> None:
    """EXEC, DISCARD and RESET; QUIT is obeyed. Another MULTI is refused like the first."""
    with start(chapter) as server, server.connect() as conn:
        for words, reply in (("exec", ABORTED), ("Discard", NO_DISCARD), ("reset", Simple(b"RESET"))):
            asks(conn, ("multi", NO_MULTI), ("set k v", NOT_DONE), ("multi", NO_MULTI), ("hello 3", NOT_DONE),
                 (words, reply), ("get k", None), ("exec", NO_EXEC))  # fmt: skip
        conn.send(array("multi") + array("set", "k", "v") + array("quit"))
        for reply in (NO_MULTI, NOT_DONE, OK):
            conn.recv(reply)
        conn.expect_closed()
        still_serves(server)
