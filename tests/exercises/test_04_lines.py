"""04-lines: messages are lines, for the server and for the client."""
from __future__ import annotations

import socket
from typing import List

from grading import Submission, points
from harness import Conn, Server, run_client
from harness.fake import FakeServer

WORLD, TOO_LONG = b"world\n", b"too long\n"


def expect_answers(work: Submission, conn: Conn, answers: List[bytes], what: str) -> None:
    """Waits for the answers; fails where others come, or not all."""
    wanted, got = b"".join(answers), b""
    try:
        got = conn.recv_exactly(len(wanted))
    except AssertionError:
        got = bytes(conn.buffer)
    if got != wanted:
        work.fail(
            came=f"{what}: "
            + (
                f"only {len(got)} of {len(wanted)} bytes of answers came: {shown(got)}"
                if wanted.startswith(got)
                else shown(got)
            ),
            expected=shown(wanted),
            cause="is every line served that is there, once, from its first byte to its newline?",
        )


def shown(data: bytes) -> str:
    return repr(data[-60:])[1:] if len(data) > 60 else repr(data)[1:]


@points(3, "lines, however they come")
def test_lines(work: Submission) -> None:
    """Lines one by one, byte by byte, all in one write, cut at every place, with bytes of all values."""
    lines = [b"hello", b"two words", b"", b"\0 a NUL", b"100% %s", b"\r", bytes(set(range(256)) - {10})]
    with Server(4) as server:
        with server.connect(seconds=2) as conn:
            for line in lines:
                conn.send(line + b"\n")
                expect_answers(work, conn, [WORLD], f"the line {shown(line)}")
            conn.send(b"\n".join(lines) + b"\n")
            expect_answers(work, conn, [WORLD] * len(lines), f"{len(lines)} lines in one write")
            conn.send_pieces(b"hello\nbye\n")
            expect_answers(work, conn, [WORLD] * 2, "two lines, byte by byte")
            for i in range(10):
                conn.send(b"hello\nbye\n"[:i])
                conn.send(b"hello\nbye\n"[i:])
                expect_answers(work, conn, [WORLD] * 2, f"two lines, cut after {i} bytes")
        printed = ["client says: hello", "client says: two words", "client says: "]
        came = server.wait_log(3)[:3]
        work.expect(came == printed, came="the server printed\n" + "\n".join(came), expected="\n".join(printed))


@points(2, "few reads")
def test_few_reads(work: Submission) -> None:
    """A thousand lines in one write, some 12 KB. How often does the server call read()?"""
    n = 1000
    with work.count("read") as counted, Server(4) as server, server.connect(seconds=2) as conn:
        conn.send(b"".join(b"message %03d\n" % i for i in range(n)))
        expect_answers(work, conn, [WORLD] * n, f"{n} lines in one write")
        reads = counted["read"]
    work.expect(
        reads <= n // 10,
        came=f"{n} answers, for which the server called read() {reads} times",
        expected=f"{n // 10} calls at most: one of them can bring hundreds of these lines",
        cause="how many bytes does a call ask for?",
    )


@points(4, "long lines")
def test_long_lines(work: Submission) -> None:
    """Lines of 4095 bytes and more; behind each of them, in the same write, come two short ones."""
    log: List[str] = []
    with Server(4) as server, server.connect(seconds=2) as conn:
        for size in (4095, 4096, 4097, 4098, 8191, 8192, 8193, 8194, 8195, 12290, 300_000):
            conn.send(b"x" * size + b"\nhello\nbye\n")
            first = WORLD if size <= 4096 else TOO_LONG
            expect_answers(work, conn, [first, WORLD, WORLD], f"a line of {size} bytes, and two short ones")
            log += [
                "client says: " + "x" * size if size <= 4096 else "too long", "client says: hello", "client says: bye"
            ]
            came = server.wait_log(len(log))
            wrong = next(
                (i for i, line in enumerate(log) if [text[:4000] for text in came[i : i + 1]] != [line[:4000]]), -1
            )
            if wrong >= 0:
                work.fail(
                    came=(
                        f"a line of {size} bytes, and two short ones; of one of them the server"
                        f" printed\n{(came + [''] * 99)[wrong][:60]}"
                    ),
                    expected=log[wrong][:60],
                    cause="which bytes belong to the line that is too long, and which to the next one?",
                )
        conn.send(b"y" * 5000)
        conn.send(b"z" * 5000 + b"\nlast\n")
        expect_answers(work, conn, [TOO_LONG, WORLD], "a long line in two parts, and a short one")
        conn.shutdown_write()
        rest = conn.read_to_end()
        work.expect(
            not rest,
            came=f"more answers than lines: behind the last one came {shown(rest)}",
            expected="one answer a line",
            cause="was a piece of a long line served?",
        )


@points(2, "the ends")
def test_ends(work: Submission) -> None:
    """Input that ends behind a line, and input that ends in the middle of one, also of a long one."""
    for sent, answers, line in (
        (b"", [], "EOF"), (b"hello\n", [WORLD], "EOF"), (b"hello\nb", [WORLD], "unexpected EOF"),
        (b"x" * 4097, [], "unexpected EOF"), (b"x" * 9000, [], "unexpected EOF"),
        (b"x" * 9000 + b"\n", [TOO_LONG], "EOF"),
    ):  # fmt: skip
        with Server(4) as server:
            with server.connect(seconds=2) as conn:
                conn.send(sent)
                conn.shutdown_write()
                expect_answers(work, conn, answers, f"{shown(sent)} and the end")
                conn.expect_closed()
            said = len(answers) + 1
            came = server.wait_log(said)
            work.expect(
                came[-1:] == [line] and len(came) == said,
                came=f"after {shown(sent)} and the end, the server printed\n" + "\n".join(s[:60] for s in came),
                expected=f"{line} at last",
                cause="had a line begun when the input ended?",
            )
            with server.connect(seconds=2) as conn:
                conn.send(b"still there?\n")
                expect_answers(work, conn, [WORLD], "the next client")


@points(3, "the client")
def test_client(work: Submission) -> None:
    """The client with your server; with a server that answers in pieces, or not to the end; and with texts it must
    refuse."""
    heard: List[bytes] = []

    def listen(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for answer in (b"one\n", b"\n", b"m" * 4096 + b"\n"):
            line = b""
            while not line.endswith(b"\n"):
                byte = sock.recv(1)
                if not byte:
                    return
                line += byte
            heard.append(line)
            for i in range(0, len(answer), 500 if len(answer) > 9 else 1):
                sock.sendall(answer[i : i + (500 if len(answer) > 9 else 1)])
        sock.recv(100)
        sock.sendall(b"half an ans")

    with Server(4) as server:
        ran = run_client(4, ["hello", "two words", ""], server)
        work.expect(
            ran == ("server says: world\n" * 3, "", 0),
            came=f"with your server and three texts: {ran}",
            expected="server says: world, three times",
        )
    with FakeServer(listen) as fake:
        ran = run_client(4, ["a", "bc", "x" * 4096, "more"], fake)
    work.expect(
        heard == [b"a\n", b"bc\n", b"x" * 4096 + b"\n"],
        came="the other server heard " + ", ".join(shown(line) for line in heard),
        expected="the texts, each with a newline",
    )
    wanted = f"server says: one\nserver says: \nserver says: {'m' * 4096}\n"
    work.expect(
        ran.stdout == wanted,
        came=f"it printed {ran.stdout[:60]!r}",
        expected=repr(wanted[:60]),
        cause="an answer may come in pieces",
    )
    work.expect(
        ran.status == 1 and len(ran.stderr.splitlines()) == 1,
        came=f"status {ran.status} and {ran.stderr!r}, when the server left inside its answer",
        expected="one line on standard error and status 1",
    )
    for text, what in (("two\nlines", "a text with a newline in it"), ("x" * 4097, "a text of 4097 bytes")):
        del heard[:]
        with FakeServer(listen) as fake:
            ran = run_client(4, ["first", text], fake)
        work.expect(
            ran.status == 1 and not heard and len(ran.stderr.splitlines()) == 1,
            came=f"{what}: status {ran.status}, {ran.stderr!r} on standard error, and the server heard {heard}",
            expected="one line on standard error, status 1, and nothing is sent",
            cause="what would the server make of it?",
        )
