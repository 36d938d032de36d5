"""The client as a program (03 and later): what it prints on which stream and in which order, and its
exit status, whatever the server, its standard streams and its settings do.
"""
from __future__ import annotations

import fcntl
import os
import pty
import random
import socket
import struct
import subprocess
import termios
import threading
import time
from contextlib import ExitStack, suppress
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from harness import Err, Result, Status, fail, limit, run_client, settings, wait_until, wire
from harness.build import program
from harness.codec import codec
from harness.fake import FakeServer, read_frame, read_request
from harness.process import clean_env
from harness.wire import frame

from . import CLIENT, case
from .talk import preload

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = CLIENT

Handler = Callable[[socket.socket], None]
Words = Sequence[Union[str, bytes]]
NOT_SENT = b"not sent: a NUL, a quote that is not closed or has more behind it, or too many words\n"
NOT_SENT_20 = b"not sent: a quote that is not closed, or has more behind it\n"
CLOSED = "the server closed the connection without a whole answer"


class Talk(NamedTuple):
    """What the client of a chapter says when all is well: the bytes of its requests, in the order in which
    they come, the reply to each, and what it prints for it."""

    args: Tuple[str, ...]
    stdin: bytes
    requests: List[bytes]
    replies: List[bytes]
    printed: List[bytes]


def good_talk(chapter: int) -> Talk:
    """Three commands where the client takes commands from standard input, one where it takes arguments."""
    if codec(chapter).is_hello:
        return Talk((), b"", [b"hello"], [b"world"], [b"server says: world\n"])
    if codec(chapter).is_echo:
        words = [b"hello3", b"hello1", b"hello2", b"bye3", b"bye1", b"bye2"]
        return Talk((), b"", words, words, [b"server says: %s\n" % word for word in words])
    if codec(chapter).is_text:
        texts = [b"hello1", b"hello2", b"hello3"]
        said = [b"one", b"", b"two words"]
        printed = [b"server says: %s\n" % text for text in said]
        return Talk((), b"", [frame(text) for text in texts], [frame(text) for text in said], printed)
    if not codec(chapter).has_values:
        reply = wire.encode_reply(chapter, Status(0, b"v\0w"))
        return Talk(("get", "k"), b"", [wire.request("get", "k")], [frame(reply)], [b"server says: [0] v\0w\n"])
    values: List[object] = [b"v\0w", [1, None, Err(4, "x")], None]
    language = codec(chapter)
    requests = [language.request(*words) for words in (("get", "a"), ("echo", "x"), ("get", "b"))]
    replies = list(map(language.to_client, values))
    requests[0], replies[0] = language.greeting + requests[0], language.welcome + replies[0]
    return Talk((), b"get a\necho x\nget b", requests, replies, [language.printed(value).encode() for value in values])


def answers(requests: Sequence[bytes], replies: Sequence[bytes], then: Optional[Handler] = None) -> Handler:
    """Reads each request to its last byte and sends its reply; then(socket) does the rest."""

    def serve(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request, reply in zip(requests, replies):
            heard = _exactly(sock, len(request))
            if heard != request:
                sock.sendall(b"the client has sent " + heard)
            sock.sendall(reply)
        if then:
            then(sock)

    return serve


def _exactly(sock: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            break
        data += more
    return data


def reset(sock: socket.socket) -> None:
    """Closes with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def half_close(sock: socket.socket) -> None:
    """Ends our side, and reads on until the client has ended its own."""
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 16):
        pass


def run(
    chapter: int, args: Words, port: int, stdin: bytes = b"", *, redirect: str = "",
    env: Optional[Dict[str, str]] = None
) -> Result:
    """Runs the client with both streams in one place (2>&1), or as the shell's `redirect` says."""
    words = ["sh", "-c", f'exec "$@" {redirect or "2>&1"}', "sh", *program(chapter, "client"), *args]
    try:
        done = subprocess.run(
            words, input=stdin, env=clean_env({"PORT": str(port), **(env or {})}), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=limit(10),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        fail(f"client {' '.join(map(str, args))} {redirect} does not end within {limit(10):g} s")
    out, err = (stream.decode(errors="surrogateescape") for stream in (done.stdout, done.stderr))
    return Result(out, err, done.returncode)


def ends(
    chapter: int, handler: Union[Handler, int], printed: bytes, error: Optional[str], what: str,
    args: Optional[Words] = None, stdin: Optional[bytes] = None, env: Optional[Dict[str, str]] = None,
) -> None:  # fmt: skip
    """Fails unless the client prints this on standard output, then, where there is an error, this line on
    standard error, and ends with status 1 then, with 0 otherwise. It runs twice, the second time with
    both streams in one place. The wording of errors is compared for this project's own client only;
    a number of lines is what the others owe.
    """
    usual = good_talk(chapter)
    args = usual.args if args is None else args
    stdin = usual.stdin if stdin is None else stdin
    with ExitStack() as stack:
        port = handler if isinstance(handler, int) else stack.enter_context(FakeServer(handler)).port
        apart = run_client(chapter, args, port, stdin, env=env)
        merged = run(chapter, args, port, stdin, env=env)
    out = printed.decode(errors="surrogateescape")
    lines = [] if error is None else [error]
    foreign = settings.foreign("client")
    said = apart.stderr.splitlines()
    wrong = []
    if apart.stdout != out:
        wrong.append(f"standard output must be\n    {out!r}\nnot\n    {apart.stdout!r}")
    if len(said) != len(lines) or (said != lines and not foreign) or (said and not apart.stderr.endswith("\n")):
        wrong.append(f"standard error must be\n    {lines}\nnot\n    {said}")
    if apart.status != len(lines):
        wrong.append(f"the exit status must be {len(lines)}, not {apart.status}")
    if merged.stdout != out + apart.stderr or merged.status != apart.status:
        both = out + apart.stderr
        wrong.append(f"with 2>&1 it must print\n    {both!r}\nnot\n    {merged.stdout!r}, status {merged.status}")
    if wrong:
        fail(f"{what}: " + "\n".join(wrong))


# ---- one error after the other ----


@case(since=3)
def a_talk_without_errors(chapter: int) -> None:
    """What all the others differ from: every byte that is sent, every byte that is printed, status 0."""
    talk = good_talk(chapter)
    if codec(chapter).is_echo:
        handler, heard = _echo_on_three()
        ends(chapter, handler, b"".join(talk.printed), None, "a server that echoes")
        if heard[:3] != [b"hello1bye1", b"hello2bye2", b"hello3bye3"]:
            fail(f"on its three connections the client has sent {heard[:3]}")
        return
    ends(chapter, answers(talk.requests, talk.replies), b"".join(talk.printed), None, "a server that answers")


def _echo_on_three() -> "Tuple[Handler, List[bytes]]":
    """A handler that echoes; and what came on each connection, in the order in which they were made."""
    heard: List[bytes] = []
    lock = threading.Lock()

    def echo(sock: socket.socket) -> None:
        with lock:
            mine = len(heard)
            heard.append(b"")
        while True:
            data = sock.recv(100)
            if not data:
                return
            heard[mine] += data
            sock.sendall(data)

    return echo, heard


def _cuts(chapter: int) -> Iterator[Tuple[List[bytes], bytes, bytes, str]]:
    """Replies, of which the last is cut: (whole ones, the rest, what is printed, how to call it)."""
    talk = good_talk(chapter)
    for i, reply in enumerate(talk.replies):
        places = range(len(reply)) if len(reply) < 20 else [0, 1, 2, 3, 4, 5, len(reply) // 2, len(reply) - 1]
        for cut in places:
            yield talk.replies[:i], reply[:cut], b"".join(talk.printed[:i]), f"reply {i + 1} is cut after {cut} bytes"


@case(since=4, binary=True)
def replies_that_are_cut(chapter: int) -> None:
    """After each byte of each header, in each body; by the end of the connection and by a reset. What came
    before is printed, and stands before the error where both go to one place."""
    if codec(chapter).is_echo:
        _cut_echo()
        return
    requests = good_talk(chapter).requests
    for whole, rest, printed, what in _cuts(chapter):
        sent = [*whole, rest]
        at_once = codec(chapter).sends_all_first
        requests_now = [b"".join(requests)] if at_once else requests[: len(sent)]
        replies_now = [b"".join(sent)] if at_once else sent
        ends(chapter, answers(requests_now, replies_now, half_close), printed, CLOSED, what)
        if len(rest) in (0, 2, 5):  # a reset drops what the client has not read, so that less may be printed
            ends_in_a_reset(chapter, answers(requests_now, replies_now), printed, f"{what} by a reset")


def ends_in_a_reset(chapter: int, handler: Handler, printed: bytes, what: str) -> None:
    """One line and status 1; printed is all that may be there before, cut at the end of a reply."""
    talk = good_talk(chapter)

    def serve(sock: socket.socket) -> None:
        handler(sock)
        reset(sock)

    with FakeServer(serve) as fake:
        result = run_client(chapter, talk.args, fake, talk.stdin)
    out = result.stdout.encode(errors="surrogateescape")
    wanted = {"read: Connection reset by peer", "write: Connection reset by peer", "write: Broken pipe", CLOSED}
    lines = result.stderr.splitlines()
    said_so = len(lines) == 1 and (lines[0] in wanted or settings.foreign("client"))
    if not printed.startswith(out) or not said_so or result.status != 1:
        fail(f"{what}: at most\n    {printed!r}\nmust be printed, then one line that says why, not {result}")


def _cut_echo() -> None:
    """Chapter 05 has no messages: the third connection says less than was said, or nothing."""
    talk = good_talk(5)
    for i in range(len(talk.replies)):
        for cut in (0, 1, 3):
            count = [0]

            def echo(sock: socket.socket) -> None:
                while True:
                    data = sock.recv(100)
                    if not data:
                        return
                    count[0] += 1
                    if (count[0] - 1) % 6 == i:
                        count[0] = 0  # for the second run
                        sock.sendall(data[:cut])
                        half_close(sock)
                        return
                    sock.sendall(data)

            ends(5, echo, b"".join(talk.printed[:i]), CLOSED, f"answer {i + 1} is cut after {cut} bytes")


@case(since=3, until=3)
def the_first_server_says_nothing(chapter: int) -> None:
    """It closes, or resets, before it says a word."""
    nothing = "the server closed the connection without an answer"
    ends(3, answers([b"hello"], [b""], half_close), b"", nothing, "a server that closes")
    ends_in_a_reset(3, answers([b"hello"], [b""]), b"", "a server that resets")
    ends(3, answers([b"hello"], [b"x" * 64]), b"server says: " + b"x" * 64 + b"\n", None, "an answer of 64 bytes")


def _bad_length(chapter: int, n: int) -> str:
    if codec(chapter).is_text:
        return f"too long: the server announces an answer of {n} bytes"
    return f"bad reply: the server announces {n} bytes"


@case(since=4, binary=True)
def lengths_at_both_ends(chapter: int) -> None:
    """The shortest and the longest that may be, and one less and one more: refused before the body comes."""
    if codec(chapter).is_echo:
        return  # no messages
    talk = good_talk(chapter)
    most = wire.max_msg(chapter)
    bad = [most + 1, 2**31 - 1, 2**31, 2**32 - 1]
    bad += {"text": [], "status": [0, 1, 2, 3], "value": [0]}[codec(chapter).replies]
    for n in bad:
        sent = wire.u32(n) + b"\0" * min(n, 10)
        rest = good_talk(chapter).replies[:1] if len(talk.replies) > 1 else []
        printed = b"".join(talk.printed[: len(rest)])
        if codec(chapter).sends_all_first:
            handler = answers([b"".join(talk.requests)], [b"".join(rest) + sent], _waits)
        else:
            handler = answers(talk.requests, [*rest, sent], _waits)
        ends(chapter, handler, printed, _bad_length(chapter, n), f"a reply that announces {n} bytes, the server stays")
    if codec(chapter).is_text:
        good: List[Tuple[bytes, bytes]] = [(b"", b""), (b"x" * most, b"x" * most)]
        texts = [b"server says: %s\n" % text for _, text in good]
    elif not codec(chapter).has_values:
        good = [(wire.u32(7), b"[7]"), (wire.u32(2**32 - 1) + b"x" * (most - 4), b"[4294967295] " + b"x" * (most - 4))]
        texts = [b"server says: %s\n" % text for _, text in good]
    else:
        good = [(b"\0", b""), (b"\2" + wire.u32(300_000) + b"x" * 300_000, b"")]
        texts = [b"(nil)\n", b"(str) " + b"x" * 300_000 + b"\n"]
    for (body, _), text in zip(good, texts):
        n = len(talk.requests)
        if codec(chapter).sends_all_first:
            handler = answers([b"".join(talk.requests)], [frame(body) * n])
        else:
            handler = answers(talk.requests, [frame(body)] * n)
        ends(chapter, handler, text * n, None, f"replies of {len(body)} bytes")


def _waits(sock: socket.socket) -> None:
    """Stays until the client has gone, and sends nothing."""
    while sock.recv(1 << 16):
        pass


@case(since=9, binary=True)
def bodies_that_are_no_value(chapter: int) -> None:
    """Tags, counts and lengths that are wrong: what was good before is printed, then the error."""
    u32 = wire.u32
    table: List[Tuple[bytes, bytes]] = [
        (b"\6", b""),
        (b"\xff" + bytes(20), b""),
        (b"\0\0", b"(nil)\n"),
        (b"\1" + u32(1) + u32(4) + b"abc", b""),
        (b"\1" + u32(1) + u32(2**32 - 9) + b"abc", b""),
        (b"\2" + u32(4) + b"abc", b""),
        (b"\2" + u32(2) + b"abc", b"(str) ab\n"),
        (b"\2" + u32(2**32 - 5) + b"abc", b""),
        (b"\3" + bytes(7), b""),
        (b"\3" + bytes(9), b"(int) 0\n"),
        (b"\4" + u32(1), b"(arr) len=1\n"),
        (b"\4" + u32(0) + b"\0", b"(arr) len=0\n(arr) end\n"),
        (b"\4" + u32(2**32 - 1) + b"\0", b"(arr) len=4294967295\n(nil)\n"),
        (b"\4" + u32(2) + b"\4" + u32(1) + b"\0", b"(arr) len=2\n(arr) len=1\n(nil)\n(arr) end\n"),
        (b"\4" + u32(2) + b"\0\6", b"(arr) len=2\n(nil)\n"),
        (b"\1", b""), (b"\1" + bytes(7), b""), (b"\2", b""), (b"\2" + bytes(3), b""), (b"\4" + bytes(3), b""),
    ]  # fmt: skip
    if codec(chapter).has_sorted_sets:
        table += [(b"\5" + bytes(7), b""), (b"\5" + bytes(9), b"(dbl) 0\n")]
    else:
        table += [(b"\5" + bytes(8), b"")]
    command, good = wire.request("get", "a"), frame(wire.encode_value(b"good"))
    for body, printed in table:
        handler = answers([command, command], [good, frame(body)], _waits)
        error = f"bad reply: {len(body)} bytes that are not one value"
        what, stdin = f"the body {body.hex(' ')}", b"get a\nget a\nget a\n"
        ends(chapter, handler, b"(str) good\n" + printed, error, what, stdin=stdin)


@case(since=9, binary=True)
def nested_as_deep_as_may_be(chapter: int) -> None:
    """1000 arrays, each in the one before, with a value in the last; side by side they do not count."""
    arr = b"\4" + wire.u32(1)
    command = wire.request("keys")
    for body, printed in (
        (arr * 1000 + b"\0", b"(arr) len=1\n" * 1000 + b"(nil)\n" + b"(arr) end\n" * 1000),
        (
            b"\4" + wire.u32(2000) + b"\4\0\0\0\0" * 2000,
            b"(arr) len=2000\n" + b"(arr) len=0\n(arr) end\n" * 2000 + b"(arr) end\n",
        ),
    ):
        ends(chapter, answers([command], [frame(body)]), printed, None, "arrays within arrays", ("keys",), b"")


# ---- numbers ----

INTEGERS = [0, 1, -1, 9, 10, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 2**53 + 1, 10**18]
INTEGERS += [2**63 - 1, -(2**63)]

# the bits of a double, what is printed
DOUBLES: List[Tuple[float, str]] = [
    (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-1.0, "-1"), (2.0, "2"), (9.0, "9"), (10.0, "10"), (-10.0, "-10"),
    (20.0, "20"), (100.0, "100"),
    (123456.0, "123456"), (100000.0, "100000"), (-100000.0, "-100000"), (999999.0, "999999"), (999999.5, "999999.5"),
    (1e6, "1e+06"), (-1e6, "-1e+06"), (1234567.0, "1234567"), (-1234567.0, "-1234567"), (1200000.0, "1.2e+06"),
    (0.5, "0.5"), (-0.5, "-0.5"), (0.1, "0.1"), (0.25, "0.25"), (0.0001, "0.0001"), (0.00001, "1e-05"),
    (0.00012, "0.00012"),
    (1.5, "1.5"), (-2.5, "-2.5"), (123456.5, "123456.5"), (0.1 + 0.2, "0.30000000000000004"),
    (1 / 3, "0.3333333333333333"),
    (2 / 3, "0.6666666666666666"), (1.0000000000000002, "1.0000000000000002"),
    (0.9999999999999999, "0.9999999999999999"),
    (9007199254740991.0, "9007199254740991"), (9007199254740992.0, "9007199254740992"),
    (9007199254740994.0, "9007199254740994"),
    (1e15, "1e+15"), (1e16, "1e+16"), (1e21, "1e+21"), (1e22, "1e+22"), (1e23, "1e+23"), (1e100, "1e+100"),
    (-1e100, "-1e+100"),
    (5e-324, "5e-324"), (-5e-324, "-5e-324"), (1e-323, "1e-323"), (2.225073858507201e-308, "2.225073858507201e-308"),
    (2.2250738585072014e-308, "2.2250738585072014e-308"), (1.7976931348623157e308, "1.7976931348623157e+308"),
    (-1.7976931348623157e308, "-1.7976931348623157e+308"), (float("inf"), "inf"), (float("-inf"), "-inf"),
    (3.141592653589793, "3.141592653589793"), (5e-5, "5e-05"), (123456789012.0, "123456789012"), (4.35, "4.35"),
    (0.3, "0.3"),
]  # fmt: skip


@case(since=9, binary=True)
def numbers_at_every_edge(chapter: int) -> None:
    """Integers, codes of errors and counts of arrays; from 11 on doubles, with as few digits as read back."""
    codes = [0, 1, -1, 2**31 - 1, -(2**31)]
    bodies = [b"\3" + struct.pack("<q", n) for n in INTEGERS] + [b"\1" + struct.pack("<iI", code, 0) for code in codes]
    printed = [f"(int) {n}\n" for n in INTEGERS] + [f"(err) {code} \n" for code in codes]
    if codec(chapter).has_sorted_sets:
        bodies += [b"\5" + struct.pack("<d", value) for value, _ in DOUBLES]
        printed += [f"(dbl) {text}\n" for _, text in DOUBLES]
    command = wire.request("get", "a")
    handler = answers([command] * len(bodies), [frame(body) for body in bodies])
    ends(chapter, handler, "".join(printed).encode(), None, "numbers", stdin=b"get a\n" * len(bodies))


@case(since=7, until=8)
def every_status(chapter: int) -> None:
    """A status is any u32; data may be any bytes, a NUL and a newline too."""
    for status, data, printed in (
        (0, b"", b"[0]"), (2, b"", b"[2]"), (1, b"Unknown cmd", b"[1] Unknown cmd"), (2**31, b"", b"[2147483648]"),
        (2**32 - 1, b"100% %s", b"[4294967295] 100% %s"), (0, b"\0", b"[0] \0"), (0, b" ", b"[0]  "),
        (256, b"a\nb\xff", b"[256] a\nb\xff"),
    ):  # fmt: skip
        handler = answers([wire.request("get", "k")], [frame(wire.u32(status) + data)])
        ends(chapter, handler, b"server says: %s\n" % printed, None, f"status {status} with {data!r}")


# ---- commands as arguments ----


@case(since=7, binary=True)
def arguments_that_cannot_be_sent(chapter: int) -> None:
    """Up to 1024 words and as many bytes as a message may have are sent; one more of either is refused, with
    not a byte on the wire. Without a command, 07 and 08 say how they are called."""
    heard: List[bytes] = []

    def nil(sock: socket.socket) -> None:
        body = read_frame(sock)
        heard.append(b"" if body is None else body)
        if body is not None:
            sock.sendall(frame(wire.encode_reply(chapter, None if codec(chapter).has_values else Status(0, b""))))

    printed = b"(nil)\n" if codec(chapter).has_values else b"server says: [0]\n"
    bytes_most = wire.max_msg(chapter)
    error = f"too long: a command has at most 1024 words and {bytes_most} bytes"
    rest = 4096 - 4 - 3 * 4 - 4
    may_be_long = codec(chapter).has_values
    table: List[Tuple[List[Union[str, bytes]], bool]] = [
        (["x"], True), (["", "", ""], True), (["get", "-k", "--"], True),
        (['"a', "b'", "\\n", "a b", b"\xff\x01\n"], True),
        (["x"] + [""] * 600, True), (["set", "k", "x" * (rest - 2)], True), (["set", "k", "x" * rest], True),
        (["set", "k", "x" * (rest + 1)], may_be_long), ([""] * 1025, False), (["x"] * 1024, may_be_long),
        (["x"] * 1025, False),
    ]  # fmt: skip
    for args, sent in table:
        heard.clear()
        what = f"a command of {len(args)} words"
        ends(chapter, nil, printed if sent else b"", None if sent else error, what, args, b"")
        expect = wire.request(*args)[4:] if sent else b""
        if [body for body in heard if body] != [expect] * 2 * sent:
            fail(
                f"{what} must send the {len(expect)} bytes of its request, "
                f"not {[len(h) for h in heard]}: {heard[0][:100]!r}"
            )
    if not codec(chapter).has_values:
        name = program(chapter, "client")[-1]
        ends(chapter, nil, b"", f"usage: {name} command [argument ...]", "no command", [], b"get k\n")


# ---- settings ----


@case(since=3)
def settings_of_the_client(chapter: int) -> None:
    """PORT and HOST that are wrong, each by its line; what is not set or empty has a default."""
    for port in ("x", "65536", "-1", "80x", "1e3", "0x50", " ", "80 ", "1.5", "9" * 20, "-" + "9" * 20):
        ends(chapter, 1, b"", f"PORT={port}: not a whole number from 0 to 65535", "a wrong port", env={"PORT": port})
    wrong = ["nowhere", "localhost", "256.0.0.1", "127.0.0", "127.1", "::1", " 127.0.0.1", "127.0.0.1 ", "127.0.0.1:80"]
    for host in [*wrong, "x" * 5000]:
        line = f"HOST={host}: not an IPv4 address such as 127.0.0.1"
        ends(chapter, 1, b"", line[:4095], "a wrong host", env={"HOST": host})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # taken, but nobody listens
        port_number = taken.getsockname()[1]
        line = f"connect 127.0.0.1:{port_number}: Connection refused"
        ends(chapter, port_number, b"", line, "nobody listens")
        ends(chapter, port_number, b"", line, "nobody listens, HOST is empty", env={"HOST": ""})
        line = line.replace("127.0.0.1", "127.0.0.9")
        ends(chapter, port_number, b"", line, "nobody listens there", env={"HOST": "127.0.0.9"})


@case(since=3)
def the_port_where_none_is_named(chapter: int) -> None:
    """1234, where PORT is empty or not set; on an address that nobody else uses."""
    talk = good_talk(chapter)
    if codec(chapter).is_echo:
        handler = _echo_on_three()[0]
    elif codec(chapter).sends_all_first:
        handler = answers([b"".join(talk.requests)], [b"".join(talk.replies)])
    else:
        handler = answers(talk.requests, talk.replies)
    fake = FakeServer(handler)
    rng = random.Random()  # any address will do, and no seed shall make two runs beside each other choose the same
    with suppress(OSError), socket.socket() as probe:
        host = f"127.{rng.randrange(1, 255)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, 1234))
        probe.listen()
        fake.listener, fake.port = probe, 1234
        threading.Thread(target=fake._accept, daemon=True).start()
        for env in ({"PORT": ""}, {}):
            variables = clean_env({"HOST": host, **env})
            words = [*program(chapter, "client"), *talk.args]
            done = subprocess.run(
                words, input=talk.stdin, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                timeout=limit(10)
            )
            if (done.stdout, done.stderr, done.returncode) != (b"".join(talk.printed), b"", 0):
                fail(f"with PORT {'empty' if env else 'not set'} the client must talk to port 1234: {done}")
        return
    fail("no address of 127.0.0.0/8 has port 1234 free")


# ---- standard streams ----


def _before_the_first_reply(chapter: int) -> int:
    """How many of the three requests of a good talk the client sends before it reads."""
    return 3 if codec(chapter).sends_all_first else 1


def _one_good_talk(chapter: int) -> "Tuple[Talk, Handler, List[bytes]]":
    """The usual talk, a handler for it, and the list of all that comes on each connection."""
    talk = good_talk(chapter)
    if codec(chapter).is_echo:
        handler, heard = _echo_on_three()
        return talk, handler, heard
    heard = []

    def serve(sock: socket.socket) -> None:
        mine = len(heard)
        heard.append(b"")
        at_once = _before_the_first_reply(chapter)
        for i in range(0, len(talk.requests), at_once):
            heard[mine] += _exactly(sock, len(b"".join(talk.requests[i : i + at_once])))
            sock.sendall(b"".join(talk.replies[i : i + at_once]))
        while True:
            more = sock.recv(1 << 16)
            if not more:
                return
            heard[mine] += more

    return talk, serve, heard


@case(since=3)
def replies_that_cannot_be_printed(chapter: int) -> None:
    """A disk that is full, a pipe that nobody reads: one line, status 1, and nothing more is sent. A
    standard error that takes nothing changes neither the replies nor the status."""
    sent_at_all = _before_the_first_reply(chapter)
    reasons = ["No space left on device", "Broken pipe"]
    for why in reasons[:1] if codec(chapter).is_hello else reasons:  # SIGPIPE still ends that of 03
        talk, handler, heard = _one_good_talk(chapter)
        if why == "Broken pipe":
            reader, writer = os.pipe()
            os.close(reader)
        else:
            writer = os.open("/dev/full", os.O_WRONLY)
        with FakeServer(handler) as fake:
            done = subprocess.run(
                [*program(chapter, "client"), *talk.args], input=talk.stdin, env=clean_env({"PORT": str(fake.port)}),
                stdout=writer, stderr=subprocess.PIPE, timeout=limit(10),
            )  # fmt: skip
        os.close(writer)
        lines = done.stderr.decode().splitlines()
        line = f"write to standard output: {why}"
        if done.returncode != 1 or len(lines) != 1 or (lines != [line] and not settings.foreign("client")):
            fail(f"where printing ends in '{why}', one line ({line}) and status 1 are expected, not {done}")
        if not codec(chapter).is_echo and heard != [b"".join(talk.requests[:sent_at_all])]:
            fail(f"the client has sent {heard}, although the first reply could not be printed: {why}")
    talk, handler, _ = _one_good_talk(chapter)
    with FakeServer(handler) as fake:
        result = run(chapter, talk.args, fake.port, talk.stdin, redirect="2>/dev/full")
        assert result == (b"".join(talk.printed).decode(), "", 0), result
    result = run(chapter, talk.args, fake.port, talk.stdin, redirect="2>/dev/full")
    assert result == ("", "", 1), result


@case(since=3)
def streams_that_are_closed(chapter: int) -> None:
    """The first socket would take the number of a stream that is closed, and the server would be told what
    was meant for the screen: it must hear requests and not a byte more. What cannot be printed is an error."""
    for redirect, out in (
        (">&-", False), ("2>&-", True), ("0<&- 2>&-", True), (">&- 2>&-", False), ("0<&- >&- 2>&-", False),
        ("0<&-", True),
    ):  # fmt: skip
        talk, handler, heard = _one_good_talk(chapter)
        with FakeServer(handler) as fake:
            result = run(chapter, talk.args, fake.port, talk.stdin, redirect=redirect)
            connections = len(heard)
        nothing = codec(chapter).has_values and "0<" in redirect  # no commands
        wanted = b"".join(talk.printed).decode() if out and not nothing else ""
        if (result.stdout, result.stderr) != (wanted, "") and "2>" in redirect or (out and result.status):
            fail(f"client {redirect}: {result}, expected is {wanted!r}")
        if not out and not nothing and result.status != 1:
            fail(f"client {redirect}: nothing could be printed, so the status must be 1, not {result.status}")
        wait_until(lambda: not any(sock.fileno() >= 0 for sock in fake.connections), "the client has gone")
        expect = [b"hello1bye1", b"hello2bye2", b"hello3bye3"] if codec(chapter).is_echo else [b"".join(talk.requests)]
        if not out:  # the first reply could not be printed
            asked = b"".join(talk.requests[: _before_the_first_reply(chapter)])
            expect = [b"hello3"] if codec(chapter).is_echo else [asked]
        if [words for words in heard if words] != (expect if not nothing else []):
            fail(f"client {redirect}: the server has heard {heard} on {connections} connections, not {expect}")
        bad = (lambda sock: None) if codec(chapter).is_echo else answers(talk.requests[:1], [b""])  # hangs up
        if not nothing:
            with FakeServer(bad) as fake:
                result = run(chapter, talk.args, fake.port, talk.stdin, redirect=redirect)
            assert result.status == 1, f"client {redirect}, and the server hangs up: {result}"


@case(since=9)
def terminals_on_one_side_alone(chapter: int) -> None:
    """A prompt is for those who type and see it: none where the replies go to a file or into a pipe, and
    none where the commands come from one."""
    talk, handler, _ = _one_good_talk(chapter)
    for side in ("input", "output"):
        ours, theirs = pty.openpty()
        with FakeServer(handler) as fake, os.fdopen(ours, "r+b", buffering=0) as terminal:
            client = subprocess.Popen(
                program(chapter, "client"), env=clean_env({"PORT": str(fake.port)}),
                stdin=theirs if side == "input" else subprocess.PIPE,
                stdout=theirs if side == "output" else subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            os.close(theirs)
            if side == "input":
                terminal.write(talk.stdin + b"\n\4")
                shown, errors = client.communicate(timeout=limit(10))
            else:
                assert client.stdin and client.stderr
                client.stdin.write(talk.stdin)
                client.stdin.close()
                shown = b""
                with suppress(OSError):  # the end of a terminal
                    while True:
                        shown += terminal.read(1000)
                errors = client.stderr.read()
                client.stderr.close()
                client.wait(limit(10))
        if (shown.replace(b"\r\n", b"\n"), errors, client.returncode) != (b"".join(talk.printed), b"", 0):
            fail(
                f"with a terminal on standard {side} alone the client prints "
                f"{shown!r} {errors!r} and ends with {client.returncode}"
            )


@case(since=9)
def input_that_cannot_be_read(chapter: int) -> None:
    """A folder as standard input is no empty input."""
    with FakeServer(lambda sock: None) as fake:
        result = run(chapter, (), fake.port, redirect="2>&1 </")
    if result.status != 1 or len(result.stdout.splitlines()) != 1:
        fail(f"client </: one line and status 1 are expected, not {result}")
    if not settings.foreign("client"):
        assert result.stdout == "read from standard input: Is a directory\n"


# ---- a server that leaves between two commands ----


class Typist:
    """A client whose commands are typed one after the other: `with Typist(12, port) as client:`."""

    def __init__(self, chapter: int, port: int, limits: str = "") -> None:
        words = ["sh", "-c", f'{limits} exec "$@"', "sh", *program(chapter, "client")]
        self.process = subprocess.Popen(
            words, env=clean_env({"PORT": str(port)}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> "Typist":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def type(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def expect(self, text: bytes) -> None:
        """The next that it prints, on either stream."""
        assert self.process.stdout
        seen = b""
        timer = threading.Timer(limit(5), self.process.kill)
        timer.start()
        while len(seen) < len(text):
            more = os.read(self.process.stdout.fileno(), len(text) - len(seen))
            if not more:
                break
            seen += more
        timer.cancel()
        if seen != text:
            fail(f"the client must print {text!r}, not {seen!r}")

    def end(self) -> "Tuple[bytes, int]":
        """Ends its input: what it prints then, and its status."""
        out, _ = self.process.communicate(timeout=limit(5))
        return out, self.process.returncode


def _leaves_after_each(chapter: int, how: Handler, left: "List[int]", requests: List[bytes]) -> Handler:
    """One reply a connection, then how(socket); left grows by one when the client has been told."""

    def serve(sock: socket.socket) -> None:
        body = read_request(sock, chapter)
        if body is None:
            return
        requests.append(body)
        sock.sendall(codec(chapter).to_client(len(requests)))
        if how is half_close:
            sock.shutdown(socket.SHUT_WR)
        else:
            _until_taken(sock)
            how(sock)
        left.append(1)
        if how is half_close:
            half_close(sock)

    return serve


def bodies(chapter: int, *commands: Sequence[str]) -> List[bytes]:
    """What a server reads for these commands."""
    language = codec(chapter)
    return [language.request(*words)[language.head :] for words in commands]


def _until_taken(sock: socket.socket) -> None:
    """Waits until the client has taken all that was sent: a reset would drop it."""
    def unsent() -> int:
        return struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]

    wait_until(lambda: not unsent(), "the client's kernel has the reply")
    time.sleep(0.02)  # its program has it too


@case(since=12, inside=True)
def connects_again_between_commands(chapter: int) -> None:
    """After an end and after a reset, as often as it takes, with the descriptors that it had. Each command is
    sent once."""
    again = b"the server has closed the connection: connecting again\n"
    for how, name in ((half_close, "an end"), (reset, "a reset")):
        left: List[int] = []
        requests: List[bytes] = []
        times = 20
        handler = _leaves_after_each(chapter, how, left, requests)
        with FakeServer(handler) as fake, Typist(chapter, fake.port, "ulimit -n 12;") as client:
            client.type(b'get "\n')  # not sent: that is remembered for the exit status, and for nothing else
            client.expect(NOT_SENT_20 if codec(chapter).is_resp else NOT_SENT)
            for i in range(times):
                client.type(b"get %d\n" % i)
                client.expect((again if i else b"") + b"(int) %d\n" % (i + 1))
                wait_until(lambda: len(left) == i + 1, "the server has left")
            client.type(b"\n  \n")  # nothing to send, so no reason to connect
            out, status = client.end()
        if (out, status) != (b"", 1) or requests != bodies(chapter, *(["get", str(i)] for i in range(times))):
            fail(
                f"a server that leaves with {name} after each reply: "
                f"{out!r}, status {status}, {len(requests)} requests"
            )


@case(since=12, inside=True)
def nobody_to_connect_to_again(chapter: int) -> None:
    """The server leaves for good: it says that it connects again, and that it could not."""
    left: List[int] = []
    with FakeServer(_leaves_after_each(chapter, half_close, left, [])) as fake, Typist(chapter, fake.port) as client:
        client.type(b"get k\n")
        client.expect(b"(int) 1\n")
        wait_until(lambda: left, "the server has left")
        fake.listener.shutdown(socket.SHUT_RDWR)
        fake.listener.close()
        client.type(b"get k\nget k\n")
        out, status = client.end()
    again = "the server has closed the connection: connecting again"
    if status != 1 or out.decode() != f"{again}\nconnect 127.0.0.1:{fake.port}: Connection refused\n":
        fail(f"a server that has left for good: status {status} and {out!r}")


@case(since=22, inside=True)
def selects_its_database_again(chapter: int) -> None:
    """The server leaves between two commands, and the database was not 0: it is selected again before anything else
    is sent. Where the server refuses that, nothing more is sent."""
    again = b"the server has closed the connection: connecting again\n"
    refused = b"(err) ERR no\nthe database cannot be selected again: nothing more is sent\n"
    for then, printed, more in ((b"+OK\r\n", b"(int) 7\n", ["get k"]), (b"-ERR no\r\n", refused, [])):
        heard: List[bytes] = []
        replies = [[b"+OK\r\n", b"-ERR no\r\n", b":7\r\n"], [then, b":7\r\n"]]
        left: List[int] = []
        with FakeServer(_leaves_behind(chapter, replies, heard, left)) as fake, Typist(chapter, fake.port) as client:
            client.type(b"Select 3\nselect x\nget a\n")
            client.expect(b"(str) OK\n(err) ERR no\n(int) 7\n")
            wait_until(lambda: bool(left), "the server has left")
            client.type(b"get k\n")
            came = client.end()
        sent = [line.split() for line in ["Select 3", "select x", "get a", "Select 3", *more]]
        if came != (again + printed, int(not more)) or heard != bodies(chapter, *sent):
            fail(f"a server that leaves, and answers select with {then!r} then: {came}, and it has got {heard}",
                 "to the server, the client that connects again is a new one: its database is 0",
                 (again + printed).decode())  # fmt: skip


@case(since=25, inside=True)
def half_a_transaction_is_not_sent(chapter: int) -> None:
    """The server leaves behind a `multi` or a `watch`: what would follow must not be done alone. Once that has ended,
    the client connects again; it selects the database that a transaction has selected, if that was done."""
    gone = b"the server has closed the connection, and forgot the transaction: nothing more is sent\n"
    again = b"the server has closed the connection: connecting again\n"
    ok, queued, exec_1, nil = b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n+OK\r\n", b"_\r\n"
    said = {ok: b"(str) OK\n", queued: b"(str) QUEUED\n", nil: b"(nil)\n", b"-ERR no\r\n": b"(err) ERR no\n",
            exec_1: b"(arr) len=1\n(str) OK\n(arr) end\n"}  # fmt: skip
    for first, goes_on, more in (
        ({"Multi": ok}, False, []), ({"multi": ok, "set k v": queued}, False, []), ({"watch k": ok}, False, []),
        ({"watch k": ok, "multi": ok, "select 3": queued, "exec": nil}, True, []),
        ({"multi": ok, "select 3": queued, "exec": exec_1}, True, ["select 3"]),
        ({"multi": ok, "select 3": queued, "discard": ok}, True, []), ({"watch k": ok, "unwatch": ok}, True, []),
        ({"multi": b"-ERR no\r\n"}, True, []), ({"multi": ok, "unwatch": queued}, False, []),
        ({"multi": ok, "reset": ok}, True, []), ({"watch k": ok, "reset": ok}, True, []),
    ):  # fmt: skip
        heard: List[bytes] = []
        replies = [list(first.values()), [*[ok] * len(more), b":7\r\n"]]
        left: List[int] = []
        with FakeServer(_leaves_behind(chapter, replies, heard, left)) as fake, Typist(chapter, fake.port) as client:
            client.type("".join(f"{line}\n" for line in first).encode())
            client.expect(b"".join(said[reply] for reply in first.values()))
            wait_until(lambda: bool(left), "the server has left")
            client.type(b"get k\n")
            came = client.end()
        sent = [line.split() for line in [*first, *more, *["get k"] * goes_on]]
        expect = (again + b"(int) 7\n", 0) if goes_on else (gone, 1)
        if came != expect or heard != bodies(chapter, *sent):
            fail(f"a server that leaves behind {', '.join(first)}: {came}, and it has got {heard}",
                 "a transaction ends with its connection: what is left of it is half a transaction", str(expect))


def _leaves_behind(chapter: int, replies: List[List[bytes]], requests: List[bytes], left: List[int]) -> Handler:
    """Each connection is given the next of the replies, one a request, and an end."""

    def serve(sock: socket.socket) -> None:
        for reply in replies.pop(0):
            body = read_request(sock, chapter)
            if body is None:
                return
            requests.append(body)
            sock.sendall(reply)
        sock.shutdown(socket.SHUT_WR)
        left.append(1)
        half_close(sock)

    return serve


@case(since=9)
def a_command_is_never_sent_twice(chapter: int) -> None:
    """The server takes it and hangs up instead of an answer: nobody knows whether it was executed."""
    for how in (half_close, reset):
        requests: List[bytes] = []

        def serve(sock: socket.socket) -> None:
            requests.append(read_request(sock, chapter) or b"")
            how(sock)

        with FakeServer(serve) as fake:
            result = run(chapter, (), fake.port, b"set k v\nset k w\n")
        sent_once = requests == bodies(chapter, ["set", "k", "v"])
        if result.status != 1 or len(result.stdout.splitlines()) != 1 or not sent_once:
            fail(f"a command without an answer: {result}, and the server has got {requests}")


@case(since=9, until=11)
def a_server_that_leaves_between_commands(chapter: int) -> None:
    """Until 12 that ends the client: one line behind the reply, status 1, and the rest is not sent."""
    for how in (half_close, reset):
        left: List[int] = []
        requests: List[bytes] = []
        with FakeServer(_leaves_after_each(chapter, how, left, requests)) as fake, Typist(chapter, fake.port) as client:
            client.type(b"get k\n")
            client.expect(b"(int) 1\n")
            wait_until(lambda: left, "the server has left")
            with suppress(BrokenPipeError):
                client.type(b"get k\nget k\n")
            out, status = client.end()
        if status != 1 or len(out.splitlines()) != 1 or len(requests) != 1:
            fail(f"a server that leaves after a reply: status {status} and {out!r}, {len(requests)} requests")


# ---- calls that do less than they were asked ----


@case(since=4, inside=True)
def calls_that_are_interrupted(chapter: int) -> None:
    """Reads and writes that end with EINTR or move a few bytes only: nothing is lost, nothing sent twice."""
    env = preload("interrupt")
    talk, handler, heard = _one_good_talk(chapter)
    with FakeServer(handler) as fake:
        result = run_client(chapter, talk.args, fake, talk.stdin, env=env)
    if result != (b"".join(talk.printed).decode(), "", 0):
        fail(f"a client whose calls are interrupted: {result}")
    if not codec(chapter).is_echo and heard != [b"".join(talk.requests)]:
        fail(f"a client whose calls are interrupted has sent {heard}")
    if codec(chapter).has_values:
        long = ["set", "k", "x" * 100_000]
        value = b"y" * 300_000
        language = codec(chapter)
        asks, reply = language.greeting + language.request(*long), language.welcome + language.to_client(value)
        with FakeServer(answers([asks], [reply])) as fake:
            result = run_client(chapter, long, fake, env=env)
        if (result.stdout.encode(), result.stderr, result.status) != (b"(str) " + value + b"\n", "", 0):
            fail(
                "a client whose calls are interrupted, with a long command: "
                f"{result.stdout[:100]!r} {result.stderr!r} {result.status}"
            )
