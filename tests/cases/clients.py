"""The client program (09 and later): what it sends, what it prints, what it makes of nonsense; one
command as arguments, or many from standard input.
"""
from __future__ import annotations

import os
import pty
import random
import re
import select
import socket
import struct
import subprocess
import time
from typing import Callable, List, Optional, Sequence, Tuple

from harness import Err, Result, fail, limit, resp, run_client, seed, settings, wire
from harness.build import program
from harness.codec import codec
from harness.fake import FakeServer, read_request, replies
from harness.process import clean_env
from harness.wire import UNKNOWN, Arg, frame

from . import CLIENT, case
from .processes import one_line
from .talk import printed_done, start

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = CLIENT


def prints(result: Result, text: str, what: str, status: int = 0) -> None:
    """Fails unless the client has printed this on standard output, nothing on standard error, and
    ended with that status."""
    if (result.stdout, result.stderr, result.status) != (text, "", status):
        fail(
            f"{what}: the client must print\n{_quote(text)}\nand end with status {status}, not print\n"
            f"{_quote(result.stdout)}\nand on standard error\n{_quote(result.stderr)}\nand end with {result.status}"
        )


def _quote(text: str) -> str:
    shown = text if len(text) < 600 else f"{text[:300]}...{text[-200:]}"
    return "\n".join("    " + repr(line) for line in shown.splitlines(True)) or "    nothing"


def text_of(chapter: int, value: object, *words: Arg) -> str:
    """What the client prints for the reply to these words."""
    return codec(chapter).printed(value, *words)


def line_by_line(chapter: int, handler: Callable[[socket.socket, bytes], None]) -> Callable[[socket.socket], None]:
    """A handler for FakeServer: calls handler(socket, body) for each message."""

    def serve(sock: socket.socket) -> None:
        while True:
            body = read_request(sock, chapter)
            if body is None:
                return
            handler(sock, body)

    return serve


def sent_by(chapter: int, args: Sequence[Arg], stdin: Optional[bytes] = None) -> Tuple[List[List[bytes]], Result]:
    """The commands that a client sends to a server that answers nil to all; and how it ends."""
    bodies: List[bytes] = []

    def answer(sock: socket.socket, body: bytes) -> None:
        bodies.append(body)
        sock.sendall(codec(chapter).to_client(None))

    with FakeServer(line_by_line(chapter, answer)) as fake:
        result = run_client(chapter, [wire.to_bytes(arg) for arg in args], fake, stdin)
        if len(fake.connections) > 1:
            fail(f"the client has made {len(fake.connections)} connections for one run")
    language = codec(chapter)
    return [language.words(language.whole(body)) for body in bodies], result


# ---- one command ----


@case(since=9)
def one_command(chapter: int) -> None:
    """Every kind of reply of a real server. An error reply is a reply: status 0."""
    done, keys = printed_done(chapter), ["keys"] + ["*"] * codec(chapter).is_resp
    with start(chapter) as server:
        for args, text in (
            (["get", "k"], "(nil)\n"),
            (["set", "k", "v"], done),
            (["get", "k"], "(str) v\n"),
            (["GET", "k"], "(str) v\n"),
            (keys, "(arr) len=1\n(str) k\n(arr) end\n"),
            (["del", "k"], "(int) 1\n"),
            (["del", "k"], "(int) 0\n"),
            (keys, "(arr) len=0\n(arr) end\n"),
            (["aaa", "bbb"], text_of(chapter, UNKNOWN, "aaa", "bbb")),
            ([""], text_of(chapter, UNKNOWN, "")),
            (["set", "", " a  b "], done),
            (["get", ""], "(str)  a  b \n"),
            (["set", "k", "two\nlines"], done),
            (["get", "k"], "(str) two\nlines\n"),
            (["set", "k", "%s%n-"], done),
            (["get", "k"], "(str) %s%n-\n"),
        ):
            prints(run_client(chapter, args, server), text, f"client {wire.show_args(args)}")
        result = run_client(chapter, ["get"], server)
        if not re.fullmatch(r"\(err\) (4|ERR) .+\n", result.stdout) or result.status or result.stderr:
            fail(f"client get: the client must print an error of code 4, not\n{_quote(result.stdout)}")


@case(since=9)
def sends_its_arguments_as_they_are(chapter: int) -> None:
    """No quotes or escapes are looked for in them; empty ones and any bytes but NUL count."""
    for args in (
        ["get", "k"],
        ["", "", ""],
        ['"a', "b'", "\\n", "a b", "\t"],
        [b"\xff\xfe", bytes(range(1, 256))],
        ["-h", "--help", "-"],
        ["x"] * 1024,
        ["x" * 100_000, "y" * 100_000],
    ):
        requests, result = sent_by(chapter, args)
        if requests != [[wire.to_bytes(arg) for arg in args]]:
            fail(f"client {wire.show_args(args)} has sent {list(map(wire.show_args, requests))}")
        prints(result, "(nil)\n", f"client {wire.show_args(args)}")


@case(since=9)
def prints_every_kind_of_reply(chapter: int) -> None:
    values: List[object] = [
        None, 0, -1, 2**63 - 1, -(2**63), b"", b"\0\xff\n", Err(1, "Unknown cmd"), Err(-1, "x"), Err(2**31 - 1, ""),
        Err(-(2**31), "100% wrong"), [], [[]], [None, [1, [b"a", [[], b""]]], Err(4, "inside")], [b"x"] * 300,
        b"y" * 300_000,
    ]  # fmt: skip
    deep: object = 7
    for _ in range(50):
        deep = [deep]
    for value in [*values, deep]:
        with FakeServer(replies(codec(chapter).to_client(value), chapter=chapter)) as fake:
            prints(run_client(chapter, ["get",
            "k"], fake), text_of(chapter, value), f"a reply of {wire.show_value(value)}")
    every = values + [deep]
    with FakeServer(replies(*map(codec(chapter).to_client, every), chapter=chapter)) as fake:
        result = run_client(chapter, [], fake, "get k\n" * len(every))
    prints(result, "".join(text_of(chapter, value) for value in every), "all these replies, one after the other")


@case(since=11)
def prints_doubles_that_read_back(chapter: int) -> None:
    """Any double, with the fewest digits that read back to it."""
    rng = random.Random(seed())
    values = [
        0.0, 1.0, -1.0, 0.1, 0.3, 0.1 + 0.2, 1 / 3, 1e15, 1e16, 1e17, 1e22, 1e23, 5e-324, 2.5, 100.0, 1e100, 123456.0,
        1234567.0,
    ]  # fmt: skip
    values += [float("inf"), float("-inf"), 1.7976931348623157e308, 2.2250738585072014e-308, 9007199254740993.0]
    while len(values) < 300:
        (value,) = struct.unpack("<d", rng.getrandbits(64).to_bytes(8, "little"))
        values += [value] if value == value else [rng.randrange(10**6) / 1000.0]
    with FakeServer(replies(*map(codec(chapter).to_client, values), chapter=chapter)) as fake:
        result = run_client(chapter, [], fake, "get k\n" * len(values))
    prints(result, "".join(text_of(chapter, value) for value in values), "doubles")
    for value, line in zip(values, result.stdout.splitlines()):
        if float(line[len("(dbl) ") :]) != value:
            fail(f"{value!r} is printed as {line!r}, which does not read back to it")


@case(since=9)
def a_reply_of_32_mib(chapter: int) -> None:
    """As large as a message may be: printed whole."""
    whole = b"0123456789abcdef" * (2 << 20)
    value = whole[len(codec(chapter).reply(b"x" * 10**7)) - 10**7 + 1 :]
    with FakeServer(replies(codec(chapter).to_client(value), chapter=chapter)) as fake:
        result = run_client(chapter, ["get", "k"], fake)
    if result.stdout.encode() != b"(str) " + value + b"\n" or result.status:
        fail(f"a string of {len(value)} bytes: {len(result.stdout)} bytes are printed, exit status {result.status}")


@case(since=9)
def a_reply_in_pieces(chapter: int) -> None:
    """One byte at a time, the header too; then two replies that come together with the pieces."""
    data = codec(chapter).to_client([1, b"two", None, Err(3, "four")])

    def trickle(sock: socket.socket, body: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            sock.sendall(data[i : i + 1])
            time.sleep(0.0002)

    with FakeServer(line_by_line(chapter, trickle)) as fake:
        expect = text_of(chapter, [1, b"two", None, Err(3, "four")])
        prints(run_client(chapter, ["keys"], fake), expect, "a reply that comes one byte at a time")
        prints(run_client(chapter, [], fake, "keys\nkeys\n"), expect * 2, "two such replies")


# ---- malformed replies ----


def malformed(chapter: int) -> "dict[str, bytes]":
    """What a client must answer with an error message; then the server waits."""
    if codec(chapter).is_resp:
        return {**resp.BAD_REPLIES, "two values": b"_\r\n_\r\n"}
    wrong = {
        name: data
        for name, data in wire.malformed_replies(chapter).items()
        if len(data) >= 4
        and (len(data) - 4 == struct.unpack_from("<I", data)[0] or "limit" in name or "2^32-1" in name)
    }
    arr, u32 = b"\4", wire.u32
    wrong.update(
        {
            "two values": frame(b"\0" * 2),
            "a value behind an array": frame(arr + u32(1) + b"\0" + b"\0"),
            "an array that is one short": frame(arr + u32(3) + b"\0\0"),
            "an array in an array that takes what is left": frame(arr + u32(2) + arr + u32(2) + b"\0\0"),
            "a million missing elements": frame(arr + u32(10**6) + b"\0" * 1000),
            "a string of 2^31 bytes": frame(b"\2" + u32(2**31) + b"x"),
            "a string length that wraps the sum": frame(b"\2" + u32(2**32 - 5) + b"abc"),
            "an error text that wraps the sum": frame(b"\1" + u32(1) + u32(2**32 - 9) + b"abc"),
            "a string that is one byte short": frame(b"\2" + u32(4) + b"abc"),
            "a string that is one byte long": frame(b"\2" + u32(2) + b"abc"),
            "an unknown tag in an array": frame(arr + u32(2) + b"\0\6"),
            "nested a million deep": frame((arr + u32(1)) * 10**6 + b"\0"),
            "nested 100000 deep and cut": frame((arr + u32(1)) * 100000),
        }
    )
    if not codec(chapter).has_sorted_sets:
        wrong["a double before there are any"] = frame(b"\5" + bytes(8))
    return wrong


def _refuses(result: Result, what: str, most: int = 1000) -> None:
    """An error line and status 1, whatever was printed of the reply before: not more than was there."""
    if len(result.stdout) > most:
        fail(f"{what}: {len(result.stdout)} bytes are printed, more than were sent: from where?")
    if result.status != 1 or len(result.stderr.splitlines()) != 1:
        fail(
            f"{what}: one line on standard error and exit status 1 are expected, not status "
            f"{result.status} and\n{_quote(result.stderr)}"
        )


@case(since=9)
def malformed_replies(chapter: int) -> None:
    """Each is refused at once: the server sends no more and does not close."""

    def wait(data: bytes) -> Callable[[socket.socket, bytes], None]:
        return lambda sock, body: sock.sendall(data)

    for name, data in malformed(chapter).items():
        with FakeServer(line_by_line(chapter, wait(data))) as fake:
            what, most = f"a reply that is wrong ({name})", 1000 + 20 * len(data)
            _refuses(run_client(chapter, ["get", "k"], fake), what, most)
            _refuses(run_client(chapter, [], fake, "get k\nget k\n"), what + ", commands from standard input", most)


@case(since=9, binary=True)
def random_replies(chapter: int) -> None:
    """Valid replies with some bytes changed, and noise: printed, or refused; never a crash."""
    rng = random.Random(seed())
    value = [1, b"two", [None, Err(3, "x"), []], b"", -1] + [0.5] * codec(chapter).has_sorted_sets
    good = wire.encode_value(value)
    for i in range(60):
        body = bytearray(good if i % 4 else rng.getrandbits(8 * 60).to_bytes(60, "little"))
        for _ in range(rng.randrange(4)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 2, 3, 4, 5, 255, rng.randrange(256)])
        body = body[: rng.choice([len(body)] * 3 + [rng.randrange(len(body)) + 1])]
        with FakeServer(replies(frame(bytes(body)))) as fake:
            result = run_client(chapter, ["get", "k"], fake)
        try:
            expect: object = wire.decode_value(bytes(body))
        except wire.WireError as e:
            if "not a number" not in str(e):
                _refuses(result, f"a reply with the body {bytes(body).hex(' ')}")
        else:
            if codec(chapter).has_sorted_sets or b"\5" not in body:  # no doubles before 11
                prints(result, text_of(chapter, expect), f"a reply with the body {bytes(body).hex(' ')}")


@case(since=9)
def server_closes_in_the_middle(chapter: int) -> None:
    """Behind each byte of a reply; after the first of two replies."""
    value: object = b"abc" if codec(chapter).is_resp else [b"abc", 1]  # an array of RESP is printed as it comes
    data = codec(chapter).to_client(value)
    for cut in range(len(data)):
        with FakeServer(replies(data[:cut], chapter=chapter)) as fake:
            one_line(run_client(chapter, ["get", "k"], fake), f"a reply cut after {cut} of {len(data)} bytes")
    for cut in range(1, len(data), 3):
        with FakeServer(replies(data, data[:cut], chapter=chapter)) as fake:
            result = run_client(chapter, [], fake, "get k\nget k\n")
        _refuses(result, f"the second reply cut after {cut} of {len(data)} bytes")
        if result.stdout != text_of(chapter, value):
            fail(f"the reply before the one that was cut is not printed: {result.stdout!r}")


@case(since=9)
def server_that_does_not_take_the_command(chapter: int) -> None:
    """It hangs up while a long command is under way: an error line, not a death by SIGPIPE."""

    def reset(sock: socket.socket) -> None:
        sock.recv(100)

    def end_then_reset(sock: socket.socket) -> None:
        sock.recv(100)
        sock.shutdown(socket.SHUT_WR)

    for hang_up in (reset, end_then_reset):  # both with input unread
        with FakeServer(hang_up) as fake:
            result = run_client(chapter, [], fake, "set k " + "x" * (8 << 20) + "\n")
            one_line(result, "a server that hangs up while a command of 8 MiB is sent")


# ---- commands from standard input ----

# line, the words that it stands for; None: the quotes are not balanced, nothing is sent
LINES: List[Tuple[bytes, Optional[List[bytes]]]] = [
    (b"get k", [b"get", b"k"]),
    (b"  get \t k  ", [b"get", b"k"]),
    (b"get k\r", [b"get", b"k"]),
    (b'set k "a b"', [b"set", b"k", b"a b"]),
    (b"set k 'a b'", [b"set", b"k", b"a b"]),
    (b'set "" \'\'', [b"set", b"", b""]),
    (rb'set k "\n\r\t\b\a"', [b"set", b"k", b"\n\r\t\b\a"]),
    (rb'set k "\x00\x7f\xFf\xe9"', [b"set", b"k", b"\x00\x7f\xff\xe9"]),
    (rb'set k "\x41\x4a4\x4A"', [b"set", b"k", b"AJ4J"]),
    (rb'set k "\xg1\x4"', [b"set", b"k", b"xg1x4"]),
    (rb'set k "\"\\\'\q\x"', [b"set", b"k", b"\"\\'qx"]),
    (rb"set k '\'\n\x41\\x'", [b"set", b"k", rb"'\n\x41\\x"]),
    (rb"set k '\"'", [b"set", b"k", rb"\""]),
    (b"set k \"it's\"", [b"set", b"k", b"it's"]),
    (b"set k 'say \"hi\"'", [b"set", b"k", b'say "hi"']),
    (rb"set k a\nb\x41\\", [b"set", b"k", rb"a\nb\x41" + b"\\\\"]),
    (b'set k a"b c"', [b"set", b"k", b"ab c"]),
    (b"set k a'b c' d", [b"set", b"k", b"ab c", b"d"]),
    (b'"get" \'k\'', [b"get", b"k"]),
    (b'"ge\\x74" k', [b"get", b"k"]),
    (b'"get"\x0bk', [b"get", b"k"]),
    (b"s'et'\x0c\"k\" 'v'", [b"set", b"k", b"v"]),
    (b"\xc3\xbc \xff\xfe", [b"\xc3\xbc", b"\xff\xfe"]),
    (b'set k "\xc3\xbc\xff"', [b"set", b"k", b"\xc3\xbc\xff"]),
    (b"# set k", [b"#", b"set", b"k"]),
    (b"set k %s%n", [b"set", b"k", b"%s%n"]),
    (b"x", [b"x"]),
    (b"", []),
    (b" \t \r", []),
    (b'set k "a', None),
    (b"set k 'a", None),
    (b'set k "', None),
    (b"set k '", None),
    (b'set k a"', None),
    (b'set k "a\\"', None),
    (b"set k 'a\\'", None),
    (b"set k 'a\\\\'", None),
    (b'set k "a\\', None),
    (b'set k "a"b', None),
    (b"set k 'a'b", None),
    (b"set k 'a'\"b\"", None),
    (b'set k ""\'\'', None),
    (b'set k "a\'', None),
]


@case(since=9)
def words_are_quoted_as_redis_cli_does(chapter: int) -> None:
    """Line by line: what is sent, or that nothing is, one line on standard error, and status 1."""
    for line, words in LINES:
        requests, result = sent_by(chapter, [], line + b"\n")
        if requests != ([] if not words else [words]):
            fail(f"the line {line!r} must be sent as\n    {words}\nbut the client has sent\n    {requests}")
        if words is None:
            one_line(result, f"the line {line!r}, whose quotes are not balanced")
        else:
            prints(result, "(nil)\n" if words else "", f"the line {line!r}")


@case(since=9, inside=True, binary=True)
def words_with_a_nul(chapter: int) -> None:
    """A NUL stands in a word as \\x00. As it is it would cut the line off: such a line is not sent."""
    for line in (b"set k a\0b", b"get\0 k", b"\0", b"get k\0"):
        requests, result = sent_by(chapter, [], line + b"\n")
        assert requests == [], requests
        one_line(result, f"the line {line!r}")


@case(since=9)
def many_lines_on_one_connection(chapter: int) -> None:
    """All of them at once, the last without an end; those that cannot be sent do not stop the others."""
    lines = [line for line, _ in LINES] * 3
    expect = [words for _, words in LINES] * 3
    requests, result = sent_by(chapter, [], b"\n".join([*lines, b"get last"]))
    assert requests == [words for words in expect if words] + [[b"get", b"last"]]
    assert result.stdout == "(nil)\n" * len(requests)
    assert (len(result.stderr.splitlines()), result.status) == (expect.count(None), 1), result


@case(since=9)
def no_lines_at_all(chapter: int) -> None:
    """Nothing is sent, nothing printed, status 0."""
    for stdin in (b"", b"\n", b"\n\n  \n\t\r\n"):
        requests, result = sent_by(chapter, [], stdin)
        assert requests == []
        prints(result, "", f"{stdin!r} on standard input")


@case(since=9)
def a_session_from_standard_input(chapter: int) -> None:
    """With a real server; each reply is printed before the next line is read, for whoever waits for it."""
    done = printed_done(chapter)
    with start(chapter) as server:
        text = 'set k "a\\x00b"\nget k\n\nget none\nset "" \'\'\ndel k\ndel k\nget ""\nkeys{}\naaa'
        text = text.format(" *" * codec(chapter).is_resp)
        result = run_client(chapter, [], server, text)
        expect = f"{done}(str) a\0b\n(nil)\n{done}(int) 1\n(int) 0\n(str) \n(arr) len=1\n(str) \n(arr) end\n"
        prints(result, expect + text_of(chapter, UNKNOWN, "aaa"), "a session")
        env = clean_env({"PORT": str(server.port)})
        with subprocess.Popen(
            program(chapter, "client"), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as client:
            assert client.stdin and client.stdout
            for i in range(20):
                client.stdin.write(b"set k %d\nget k\n" % i)
                client.stdin.flush()
                assert _line(client.stdout.fileno()) == done.encode()
                assert _line(client.stdout.fileno()) == b"(str) %d\n" % i
            client.stdin.close()
            assert client.stdout.read() == b""
            assert client.wait(limit(5)) == 0


def _line(fd: int) -> bytes:
    """A line of what comes from there, byte by byte."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([fd], [], [], limit(5))[0]:
            fail(f"the client prints no reply while its standard input stays open; so far {line!r}")
        byte = os.read(fd, 1)
        if not byte:
            fail(f"the client's output ends after {line!r}")
        line += byte
    return line


@case(since=9, binary=True)
def lines_that_are_too_long(chapter: int) -> None:
    """A command as long as a message may be is sent; one that is longer, or of more than 1024 words, is
    not, and says so; the lines after it are."""
    most = (32 << 20) - len(wire.body("set", "k", ""))
    stdin = b"set k " + b"x" * most + b"\nget none\nset k " + b"x" * (most + 1) + b"\n" + b"x " * 1025 + b"\ndel k\n"
    with start(chapter) as server:
        result = run_client(chapter, [], server, stdin)
        assert (result.stdout, len(result.stderr.splitlines()), result.status) == ("(nil)\n(nil)\n(int) 1\n", 2, 1)
        assert run_client(chapter, [], server, b"x " * 1024 + b"\n").stdout == "(err) 1 Unknown cmd\n"
        one_line(run_client(chapter, ["x"] * 1025, server), "a command of 1025 words as arguments")


@case(since=9)
def prompts_on_a_terminal(chapter: int) -> None:
    """It asks for each line; Ctrl-D on an empty one ends it with status 0. Elsewhere there is no prompt."""
    with start(chapter) as server:
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                words = program(chapter, "client")
                os.execvpe(words[0], words, clean_env({"PORT": str(server.port)}))
            finally:
                os._exit(127)
        try:
            prompt = _terminal(terminal, b"", re.compile(rb".+"))
            for line, reply in (
                (b"set k v", printed_done(chapter).strip().encode()), (b"get k", b"(str) v"), (b"", b""),
                (b"aaa", text_of(chapter, UNKNOWN, "aaa").strip("\n").encode()),
            ):
                shown = line + b"\r\n" + reply + b"\r\n" * bool(reply)
                _terminal(terminal, line + b"\n", re.compile(re.escape(shown + prompt)))
            os.write(terminal, b"\4")
            end = time.monotonic() + limit(5)
            done, status = 0, 0
            while not done and time.monotonic() < end:
                done, status = os.waitpid(pid, os.WNOHANG)
                time.sleep(0.002)
            if not done or not os.WIFEXITED(status) or os.WEXITSTATUS(status):
                fail(
                    "Ctrl-D must end the client with status 0:"
                    f" {'it ended with %d' % status if done else 'it did not end'}"
                )
            pid = 0
        finally:
            if pid:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
            os.close(terminal)
        prints(run_client(chapter, [], server, "get k\n"), "(str) v\n", "standard input that is no terminal")


def _terminal(fd: int, typed: bytes, until: "re.Pattern[bytes]") -> bytes:
    """Types, and waits until the terminal shows that at the end. Returns all that it shows."""
    os.write(fd, typed)
    shown = b""
    end = time.monotonic() + limit(5)
    while not re.search(until.pattern + rb"\Z", shown, re.S):
        if not select.select([fd], [], [], max(end - time.monotonic(), 0))[0]:
            fail(f"typed {typed!r}; the terminal shows {shown!r}, which does not end in {until.pattern!r}")
        shown += os.read(fd, 1000)
    return shown
