"""09-pipeline: the client sends all its commands without waiting, and reads while it writes."""
from __future__ import annotations

import socket
import threading

from grading import Submission, points
from harness import Result, limit, run_client, wire
from harness.fake import FakeServer, read_frame

NIL = wire.frame(wire.encode_value(None))


def client(work: Submission, server: object, stdin: bytes, tried: str, seconds: float = 8) -> Result:
    """Runs the client with this input; it must come to its end."""
    try:
        return run_client(9, [], server, stdin, seconds=seconds)
    except AssertionError as error:
        if "did not end" not in str(error):
            raise
        work.fail(
            tried=tried, came=f"the client did not end within {limit(seconds):g} s",
            expected="all commands are sent, and all replies printed",
            cause="for what does it wait at that moment, and for what does the server?",
        )
        raise


def numbered(body: bytes) -> bytes:
    """The reply of a fake server: the last word of the request."""
    return wire.frame(wire.encode_value(wire.decode_request(body)[-1]))


@points(3, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of the client: one command and many lines, a terminal, a server that hangs up."""
    work.chapter_tests(
        "clients- and (many_lines or prompts or no_lines or does_not_take or one_command or in_the_middle)"
    )


@points(3, "a server that wants all first")
def test_all_first(work: Submission) -> None:
    """A server that answers nothing before it has read all of 2 to 2000 commands."""
    for n in (2, 30, 2000):

        def serve(sock: socket.socket) -> None:
            bodies = [read_frame(sock) for _ in range(n)]
            sock.sendall(b"".join(numbered(body) for body in bodies if body))
            read_frame(sock)

        with FakeServer(serve) as fake:
            stdin = b"".join(b"get key%d\n" % i for i in range(n))
            result = client(work, fake, stdin, f"{n} commands for a server that answers when it has all of them")
        work.expect(
            result == ("".join(f"(str) key{i}\n" for i in range(n)), "", 0),
            tried=f"{n} commands for a server that answers when it has all of them",
            came=(
                f"{len(result.stdout.splitlines())} lines printed, exit status {result.status}\n{result.stderr[-200:]}"
            ),
            expected=f"{n} replies in order, and exit status 0",
            cause="may one read bring many replies?",
        )


@points(4, "much in both directions")
def test_both_ways(work: Submission) -> None:
    """400 commands of 30 KB each, for a server that reads no command before its last reply is taken."""
    n, size = 400, 30_000
    values = [(b"%d." % i * size)[:size].decode() for i in range(n)]

    def serve(sock: socket.socket) -> None:
        for _ in range(n):
            sock.sendall(numbered(read_frame(sock) or b""))
        read_frame(sock)

    stdin = "".join(f"set k {value}\n" for value in values).encode()
    tried = f"{n} commands of {size} bytes, with replies of {size} bytes, each written before the next command is read"
    with FakeServer(serve) as fake:
        result = client(work, fake, stdin, tried, 10)
    work.expect(
        result.stdout.splitlines() == [f"(str) {value}" for value in values] and result.status == 0, tried=tried,
        came=f"{len(result.stdout.splitlines())} lines printed, exit status {result.status}\n{result.stderr[-200:]}",
        expected=f"{n} replies in order",
    )
    stdin = "".join(f"set key{i} {value}\nget key{i}\n" for i, value in enumerate(values)).encode()
    tried = f"{n} times set of {size} bytes and get of the same, with the server of the chapter"
    with work.stage_server(9) as server:
        result = client(work, server, stdin, tried, 10)
    right = [line for value in values for line in ("(nil)", f"(str) {value}")]
    work.expect(
        result.stdout.splitlines() == right and result.status == 0, tried=tried,
        came=f"{len(result.stdout.splitlines())} lines printed, exit status {result.status}\n{result.stderr[-200:]}",
        expected=f"{2 * n} replies in order",
    )


@points(2, "calls")
def test_calls(work: Submission) -> None:
    """Two thousand short commands, for a server that takes its time. What does the client call meanwhile?"""
    n, asked = 2000, threading.Event()

    def serve(sock: socket.socket) -> None:
        bodies = [read_frame(sock) for _ in range(n)]
        asked.wait(0.3)  # nobody sets it: the client has to wait a little
        sock.sendall(NIL * len(bodies))
        read_frame(sock)

    tried = f"{n} short commands in one input, and a server that answers a third of a second later"
    with FakeServer(serve) as fake, work.count("read", "write", "poll") as counted:
        result = client(work, fake, b"get k\n" * n, tried)
        calls = counted.now()
    work.expect(
        result.stdout == "(nil)\n" * n, tried=tried, came=f"{len(result.stdout.splitlines())} lines printed",
        expected=f"{n} times (nil)",
    )  # fmt: skip
    for name, most, cause in (
        ("write", 50, "do commands that lie ready share a call?"),
        ("read", 200, "how many replies can one call bring?"),
        ("poll", 300, "for what does it wait while it has nothing to write?"),
    ):
        work.expect(
            calls[name] <= most, tried=tried, came=f"{calls[name]} calls of {name}()", expected=f"{most} at most",
            cause=cause,
        )  # fmt: skip


@points(2, "lines that are not sent, and a server that leaves")
def test_hangs_up(work: Submission) -> None:
    """An input with lines that cannot be sent; and a server that hangs up after three replies, with commands under
    way."""
    with work.stage_server(9) as server:
        result = client(
            work, server, b'set k v\nget "k\n\nget k\nset k "a"b\ndel k\n', "six lines, of which two have wrong quotes"
        )
    work.expect(
        (result.stdout, result.status, len(result.stderr.splitlines())) == ("(nil)\n(str) v\n(int) 1\n", 1, 2),
        tried="six lines, of which two have wrong quotes, and one is empty",
        came=(
            f"exit status {result.status}, {len(result.stderr.splitlines())} lines on standard error, and"
            f" printed\n{result.stdout}"
        ),
        expected="the replies to the other three, a line on standard error for each wrong one, and exit status 1",
    )

    def leave(sock: socket.socket) -> None:
        """Answers three commands, and ends its side; what comes then finds nobody."""
        for _ in range(3):
            sock.sendall(numbered(read_frame(sock) or b""))
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(limit(2))
        try:
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass

    tried = "a thousand commands of 20 KB; the server answers three, ends its side, and reads no more"
    with FakeServer(leave) as fake:
        result = client(work, fake, b"".join(b"set k %d%s\n" % (i, b"." * 20_000) for i in range(1000)), tried)
    lines = result.stdout.splitlines()
    work.expect(
        [line[:7] for line in lines] == ["(str) 0", "(str) 1", "(str) 2"], tried=tried,
        came=f"{len(lines)} replies were printed",
        expected="the three that came", cause="what is still there to be read when a write fails?",
    )
    work.expect(
        result.status == 1 and len(result.stderr.splitlines()) == 1, tried=tried,
        came=f"exit status {result.status}, and on standard error\n{result.stderr[-200:]}",
        expected="exit status 1, and one line that says what happened",
    )
