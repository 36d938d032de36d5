"""Programs: how a server starts, fails to start and leaves (03, 06 and later), how a client fails."""
from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import List, Sequence

from harness import Result, Server, Status, fail, limit, run_client, run_program, settings, wait_until, wire
from harness.codec import codec
from harness.diagnose import NO_STATUS, may_look
from harness.failure import Failure, cause
from harness.fake import FakeServer
from harness.process import status_text
from harness.wire import DONE

from . import CLIENT, case
from .talk import (
    SMALL, Hammer, Hold, bulk, encode, encode_replies, naming, numbered, paused, preload, say, start,
    talk, too_much, watched,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "a signal sets a flag and writes a byte into a pipe (or is waited for in ppoll); the loop looks at it in each "
    "round, also between two clients, and main() returns 0"
)

CLIENT_ARGS = ("get", "k")  # from 07 on


def client_args(chapter: int) -> Sequence[str]:
    """What a client is given when it does not matter what."""
    return CLIENT_ARGS if codec(chapter).has_commands else ()


def one_line(result: Result, what: str) -> str:
    """Fails unless a program ended with one line on standard error and status 1. Returns the line."""
    lines = result.stderr.splitlines()
    if result.status != 1 or len(lines) != 1 or result.stdout:
        raise Failure(
            f"{what}: {status_text(result.status)}, and {len(lines)} lines on standard error",
            [
                ("expected", ["exit status 1, and one line on standard error that says why"]),
                ("printed", (result.stdout + result.stderr).splitlines()[-12:] or ["nothing"]),
            ],
            cause("is an error that a call returns looked at? Print what failed, on what, and why; then exit(1)."),
        )
    return lines[0]


def _names(value: str, line: str) -> None:
    """Fails unless the line names the setting that is wrong."""
    if value not in line:
        fail(f"the line does not say which setting is wrong, {value}: {line}", "print the value too, with the message")


# ---- starting ----


@case(since=3, ours="Redis is told its port elsewhere",
      perhaps="bind() fails: one line with what failed, the address, and strerror(errno), then exit(1)")  # fmt: skip
def port_in_use(chapter: int) -> None:
    """A second server is started with the port of the first: it says so, and ends."""
    with Server(chapter) as server:
        result = run_program(chapter, "server", env={"PORT": str(server.port)}, seconds=5)
        line = one_line(result, "a server whose port is in use")
        if not settings.foreign("server"):
            assert line == f"bind 127.0.0.1:{server.port}: Address already in use", line
        assert server.alive(), "the server that had the port has ended"


@case(since=3, ours="Redis is told its port elsewhere")
def settings_that_are_wrong(chapter: int) -> None:
    """PORT and BIND that are no port and no address."""
    for port in ("x", "65536", "-1", "80x", "1e3", "99999999999999999999"):
        result = run_program(chapter, "server", env={"PORT": port}, seconds=5)
        _names(port, one_line(result, f"a server with PORT={port}"))
    for ip in ("nowhere", "256.0.0.1", "127.0.0", "192.0.2.1"):  # the last is no address of this machine
        result = run_program(chapter, "server", env={"BIND": ip, "PORT": "0"}, seconds=5)
        _names(ip, one_line(result, f"a server with BIND={ip}"))


@case(since=3)
def same_port_again_at_once(chapter: int) -> None:
    """SO_REUSEADDR: connections of the server before are still in TIME_WAIT."""
    with Server(chapter) as server:
        port, before = server.port, server.fd_count()
        conn = server.connect()
        wait_until(lambda: server.fd_count() > before, "the connection is accepted")
        server.stop(signal.SIGKILL)  # closes first, so that TIME_WAIT is on its side
        conn.close()
    with Server(chapter, port=port) as server:
        server.connect().close()


@case(since=3, inside=True,
      perhaps="0, 1 and 2 may be closed when the program starts: open /dev/null until they are taken")  # fmt: skip
def closed_descriptors(chapter: int) -> None:
    """Started without 0, 1 or 2, it opens nothing under these numbers: what it logs reaches no client, and no pipe
    that it has for itself."""
    requests, replies = talk(chapter, 4) if codec(chapter).has_messages else ([], [])
    for closed in ((0,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        with Server(chapter, closed=closed) as server:
            for fd in closed if may_look(server.pid) else ():
                held = os.readlink(f"/proc/{server.pid}/fd/{fd}")
                if held != "/dev/null":
                    fail(f"a server that is started without the descriptors {closed} uses {fd} for {held}")
            for _ in range(2):
                with server.connect() as conn:
                    if requests:
                        conn.pipeline(requests, replies)
                        conn.send(b"\0")
                    else:
                        conn.send(b"hello")
                        conn.expect_bytes(codec(chapter).said(b"hello"))
                    conn.shutdown_write()
                    conn.expect_closed()
            assert server.alive()


# ---- leaving ----


def leaves(server: Server, sig: int, what: str) -> None:
    """Fails unless the server ends with status 0 within a second of the signal. 0: it had one already."""
    seconds = 10.0 if watched() else 1.0
    began = time.monotonic()
    status = server.stop(sig, seconds + 5)
    took = time.monotonic() - began
    if status != 0:
        fail(f"{what}: {status_text(status)}, not exit status 0", NO_STATUS.words if status == -sig else "")
    if took > limit(seconds):
        fail(f"{what}: it took {took:.1f} s, {limit(seconds):g} are allowed")


@case(since=6)
def leaves_when_idle(chapter: int) -> None:
    for sig in (signal.SIGTERM, signal.SIGINT):
        with start(chapter) as server:
            leaves(server, sig, "an idle server")
        with start(chapter) as server, server.connect() as conn:
            say(conn)
            leaves(server, sig, "a server with a client")
            conn.expect_closed(reset_ok=False)


@case(since=6)
def leaves_when_busy(chapter: int) -> None:
    """The loop never waits, so that a signal never finds it in poll()."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        with start(chapter) as server, Hammer(server, 3):
            leaves(server, sig, "a busy server")


@case(since=6, inside=True)
def leaves_in_the_middle_of_a_turn(chapter: int) -> None:
    """The signal comes while the first of many that are ready is served: the others are not served any more."""
    requests = encode(chapter, talk(chapter, 1, "late")[0])
    hold = Hold()
    with start(chapter, env=hold.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(20)]
        for conn in [*conns, conns[0]]:  # epoll may report first whom it has reported last
            say(conn)
        with paused(server):
            conns[0].send(encode(chapter, [naming(chapter, hold.WORD)]))
            for conn in conns[1:]:
                conn.send(requests)
        wait_until(hold.is_held, "the server reads the first request")
        os.kill(server.pid, signal.SIGTERM)
        hold.release()
        answered = sum(bool(conn.read_to_end()) for conn in conns[1:])
        if answered:
            fail(
                f"SIGTERM came while one client was served; {answered} others had their turn before the server left",
                "the loop looks at the flag of the signal before each client that is ready, not only before the round",
                "it leaves, and none of the others is served",
            )
        leaves(server, 0, "a server in the middle of a round")


@case(since=8, inside=True,
      perhaps="at the end the system takes all memory back: do not free millions of keys one by one")  # fmt: skip
def leaves_with_many_keys(chapter: int) -> None:
    """It does not free each of them first: with millions that takes seconds."""
    n = 101_000
    if watched():
        return  # a sanitizer has a free() of its own
    many = [("keys", numbered(range(n), "set", "key:######", ""), DONE)]
    if codec(chapter).has_sorted_sets:
        many.append(("pairs in one key", numbered(range(n), "zadd", "key", "######", "n######"), 1))
    for what, requests, reply in many:
        frees = Frees()
        with start(chapter, env=frees.env) as server, server.connect() as conn:
            bulk(conn, requests, reply)
            before = frees.now()
            leaves(server, signal.SIGTERM, f"a server with {n} {what}")
        if frees.now() - before > n // 2:
            fail(f"a server with {n} {what} called free() {frees.now() - before} times before it ended")


class Frees:
    """Counts the calls of free(), and the bytes that the loop gives back (cases/frees.c): Frees().env goes to start().
    With rest, all threads but the first rest for a millisecond after each hundred calls."""

    def __init__(self, rest: bool = False) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(24))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"FREES_FILE": self.file.name, **preload("frees"), **({"FREES_REST": "1"} if rest else {})}

    def now(self) -> int:
        return int.from_bytes(Path(self.file.name).read_bytes()[:8], sys.byteorder)

    def loop_bytes(self) -> int:
        """The bytes that the loop has given back."""
        return int.from_bytes(Path(self.file.name).read_bytes()[16:], sys.byteorder)

    def in_one_go(self) -> int:
        """The most that a worker has called between two calls of sched_yield()."""
        return int.from_bytes(Path(self.file.name).read_bytes()[8:16], sys.byteorder)


@case(since=14, inside=True)
def workers_yield(chapter: int) -> None:
    """A worker frees a set of 20,000 pairs, and from 21 on a database. After every few it offers its processor to the
    loop, which may wait for it."""
    if watched():
        return  # a sanitizer has a free() of its own
    frees, n, most = Frees(), 20_000, 1000
    with start(chapter, env=frees.env) as server, server.connect() as conn:
        for line in ("del z", *["flushall"] * codec(chapter).has_options):
            if line == "del z":
                bulk(conn, numbered(range(n), "zadd", "z", "######", "n######"), 1)
            else:
                bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
                bulk(conn, numbered(range(n), "expire", "key:######", "1000"), 1)
            before = frees.now()
            conn.ask(*line.split())
            wait_until(lambda: frees.now() - before >= n, "a worker frees what has gone")
            wait_until(server.workers_sleep, "a worker frees what has gone")
            if frees.in_one_go() > most:
                fail(
                    f"behind `{line}`, of {n} pairs or keys, a worker has freed {frees.in_one_go()} blocks in one go",
                    "does it yield after every few (sched_yield)? Where the loop has the same processor, a client "
                    "waits until the kernel takes it away from the worker.",
                    f"it yields after every {most} or less",
                )


@case(since=6)
def leaves_with_clients_in_every_state(chapter: int) -> None:
    """Idle, in the middle of a header, of a body, of a reply, half-closed. Leak checkers look."""
    data = encode(chapter, too_much(chapter)[0])
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(rcvbuf=SMALL)) for _ in range(6)]
        say(conns[0])
        conns[1].send(data[:2])
        conns[2].send(data[:7])
        conns[3].send_some(data, 0.05)
        conns[4].send_some(data, 0.05)
        conns[4].shutdown_write()
        say(conns[5])
        leaves(server, signal.SIGTERM, "a server with clients in every state")


@case(since=6, inside=True)
def leaves_at_once_for_a_second_signal(chapter: int) -> None:
    """Whatever it is busy with, and whichever of the two signals came first."""
    stops = (signal.SIGTERM, signal.SIGINT)
    for first, second in ((a, b) for a in stops for b in stops):
        hold = Hold()
        with start(chapter, env=hold.env) as server, server.connect() as conn:
            conn.send(encode(chapter, [naming(chapter, hold.WORD)]))
            wait_until(hold.is_held, "the server reads the request")
            os.kill(server.pid, first)
            wait_until(lambda: not pending(server.pid), "the first signal is delivered")
            time.sleep(0.05)
            assert server.alive(), "the first signal ended it where it stood"
            status = server.stop(second, 2)
            if status != -second:
                fail(
                    f"a busy server got {first.name}, then {second.name}: exit status {status}, not killed by the"
                    " second"
                )


@case(since=6, inside=True)
def leaves_in_the_middle_of_something_long(chapter: int) -> None:
    """The signal comes while the server does what takes half a minute. It does not wait for the end of that."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        hold = Hold()
        with start(chapter, env=hold.env) as server, server.connect() as conn:
            conn.send(encode(chapter, [naming(chapter, hold.WORD)]))
            wait_until(hold.is_held, "the server reads the request")
            leaves(server, sig, "a server that is in the middle of something long")


def pending(pid: int) -> bool:
    """Does a signal wait for the process?"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:")))


@case(since=6)
def a_signal_at_any_moment(chapter: int) -> None:
    """From the line `listening on` onwards a signal ends the server in good order."""
    for _ in range(5):
        with start(chapter) as server:
            server.connect().close()
            leaves(server, signal.SIGTERM, "a server that has just started")


# ---- the client ----


@case(since=3)
def client_without_a_server(chapter: int) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # taken, but nobody listens
        result = run_client(chapter, client_args(chapter), s.getsockname()[1])
        one_line(result, "a client without a server")


@case(since=3)
def client_settings_that_are_wrong(chapter: int) -> None:
    for env in ({"PORT": "x"}, {"PORT": "65536"}, {"HOST": "nowhere"}):
        result = run_program(chapter, "client", client_args(chapter), env=env)
        one_line(result, f"a client with {env}")


@case(since=3, perhaps=CLIENT)
def client_whose_server_hangs_up(chapter: int) -> None:
    """At once, and in the middle of each malformed reply: an error message, no crash."""
    wrong = codec(chapter).malformed_replies() if codec(chapter).has_messages else {"nothing": b""}
    if codec(chapter).has_messages and not codec(chapter).has_values:
        for n in (wire.max_msg(chapter) + 1, 1 << 20):
            wrong[f"{n} bytes, all of them sent"] = wire.frame(b"x" * n)
    for name, data in wrong.items():
        with FakeServer(lambda sock: _answer_anything(sock, data)) as fake:
            result = run_client(chapter, client_args(chapter), fake.port)
            lines = result.stderr.splitlines()
            printed = "" if codec(chapter).has_values else result.stdout  # an array may be printed as far as it is good
            if result.status != 1 or len(lines) != 1 or printed:
                fail(
                    f"a reply that is wrong ({name}): one line on standard error and exit status 1 are "
                    f"expected, not status {result.status} and\n{result.stdout[-500:]}{result.stderr[-500:]}"
                )


@case(since=3, inside=True,
      perhaps="0, 1 and 2 may be closed when the program starts: open /dev/null until they are taken")  # fmt: skip
def client_with_closed_descriptors(chapter: int) -> None:
    """Started without 0, 1 or 2, it sends the server its request and nothing else."""
    reply = {3: b"world", 4: wire.frame(b"world")}.get(chapter, b"")
    if codec(chapter).has_commands:
        reply = codec(chapter).welcome + encode_replies(chapter, [Status(0, b"world")])

    def heard(closed: Sequence[int], args: Sequence[str], fails: bool) -> List[bytes]:
        """What comes on each connection of the client, which gets an answer for every piece, or the piece itself. Where
        the client is to fail, the end comes in place of an answer."""
        came: List[List[bytes]] = []
        over: List[bool] = []

        def listen(sock: socket.socket) -> None:
            pieces: List[bytes] = []
            came.append(pieces)
            try:
                for piece in iter(lambda: sock.recv(1 << 16), b""):
                    pieces.append(piece)
                    if fails:
                        sock.shutdown(socket.SHUT_WR)
                    else:
                        sock.sendall(reply or piece)
            finally:
                over.append(True)

        with FakeServer(listen) as fake:
            result = run_program(chapter, "client", args, closed=closed, env={"PORT": str(fake.port)})
            wait_until(lambda: len(over) == (3 if codec(chapter).is_echo else 1), "the client hangs up")
        status = 1 if fails or (args or codec(chapter).is_text) and 1 in closed else 0
        if result.status != status:
            fail(f"a client without the descriptors {closed}: exit status {result.status}, not {status}")
        return sorted(b"".join(pieces) for pieces in came)

    for fails in (False, True):
        usual = heard((), client_args(chapter), fails)
        for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            # What it cannot print ends it, maybe before the next request.
            came = heard(closed, client_args(chapter), fails)
            if not all(any(whole.startswith(part) for whole in usual) for part in came) or (
                1 not in closed and came != usual
            ):
                fail(f"a client that is started without the descriptors {closed} sends {came}, not {usual}")
    if codec(chapter).has_values and heard((0,), (), False) != [b""]:
        fail("a client without arguments and without standard input sends something")


def _answer_anything(sock: socket.socket, data: bytes) -> None:
    sock.recv(1 << 16)
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 16):
        pass
