"""Chapter 12: timers. Who moves no byte for long is closed, and nobody too early."""
from __future__ import annotations

import fcntl
import os
import random
import re
import select
import signal
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from typing import Iterator, List, Tuple

import pytest

from cases import CLIENT, Case, case, earlier, new
from cases.idle import Pace, closes, in_time, now_ms, timed
from cases.processes import leaves, one_line
from cases.talk import (
    SMALL, Counts, Hold, answered, asked, encode, many, paused, printed_done, readable, say, still_serves, talk,
    uses_no_cpu,
)  # fmt: skip
from harness import Conn, Server, check_session, fail, limit, run_client, run_program, seed, wait_until
from harness.build import program
from harness.codec import codec
from harness.process import clean_env, free_port
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import DONE

assert vector_servers  # a fixture

OURS = "Redis has a timeout in seconds, which it looks at now and then"

PERHAPS = "IDLE_TIMEOUT_MS that is not set means 5000: five seconds, in milliseconds"

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 12. The rules are in book/protocol.md.
SESSIONS = ["12-demo", "12-idle", "12-stalled"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# ---- the timeout that nobody has set ----

Silent = Tuple[Conn, float, List[float]]


@pytest.fixture(scope="module")
def silent() -> Iterator[Silent]:
    """A connection to a server with the default timeout, when it said something, and when it was closed."""
    ended: List[float] = []

    def watch() -> None:
        if select.select([conn.sock], [], [], limit(10))[0]:
            ended.append(now_ms())

    with Server(12) as server, server.connect(seconds=10) as conn:
        since = now_ms()
        say(conn)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        yield conn, since, ended
        watcher.join()


def test_default_timeout_begins(silent: Silent) -> None:
    """The last test of this file sees the end of this connection: nobody waits for five seconds."""
    conn, _, ended = silent
    conn.expect_silence(0)
    assert not ended


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(12))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 12)


F_SETPIPE_SZ = 1031  # Linux
REMOVING = re.compile(r"^removing idle connection: \d+$")


def serves(server: Server) -> None:
    """A new connection gets its answers. Where we are slow it may be timed out first, so there are attempts."""
    for attempt in range(4):
        try:
            still_serves(server)
            return
        except AssertionError:
            if attempt == 3:
                raise


# A case, @case(since=12), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# ---- when, and when not ----


@case(since=12)
def idle_connections_are_closed(chapter: int) -> None:
    """One that has said nothing, and one that has had its answer; in good order, not before the time."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, ExitStack() as stack:
            before = server.fd_count()
            began = []
            for i in range(6):
                pace.begin()
                since = now_ms()
                conn = stack.enter_context(server.connect())
                if i % 2:
                    since = now_ms()
                    say(conn, 1)
                    pace.step()
                began.append((conn, since))
            for conn, since in began:
                closes(conn, since, ms)
                if conn.ended != "closed":
                    fail(
                        f"the connection was {conn.ended}",
                        "nothing lies unread on an idle connection: a plain close() ends it in good order",
                        "an end of input, which read() shows as 0",
                    )
            wait_until(lambda: server.fd_count() == before, "the descriptors of idle connections are free")
            serves(server)

    in_time(attempt)


@case(since=12)
def half_a_request_is_no_activity(chapter: int) -> None:
    """A client that stalls in a header, in a body, behind a whole request, in a long message."""
    requests, replies = talk(chapter, 1, "half")
    whole = encode(chapter, requests)
    parts = [whole[:1], whole[:2], whole[:3], whole[:4], whole[:5], whole[:-1]]
    long = codec(chapter).announce(32 << 20)
    parts += [whole + whole[:2], whole + whole[:7], whole + long + b"x" * 100_000]

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, ExitStack() as stack:
            stalled = []
            for data in parts:
                pace.begin()
                since = now_ms()
                conn = stack.enter_context(server.connect())
                conn.send(data)
                pace.step()
                if len(data) > len(whole):
                    conn.recv(replies[0])
                stalled.append((conn, since))
            for conn, since in stalled:
                closes(conn, since, ms)
            serves(server)

    in_time(attempt)


@case(since=12)
def requests_renew(chapter: int) -> None:
    """A connection that asks now and then stays, and is closed the whole timeout after its last reply."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, server.connect() as conn:
            pace.step()
            for _ in range(8):
                pace.rest(0.3)
                pace.step()
                say(conn, 1)
            closes(conn, pace.last, ms)

    in_time(attempt)


@case(since=12)
def trickling_keeps_it_open(chapter: int) -> None:
    """A request that comes a byte at a time, for longer than the timeout, gets its answer."""

    def attempt(ms: int, pace: Pace) -> None:
        requests, replies = talk(chapter, 1, "t")
        data = encode(chapter, requests)
        with timed(chapter, ms) as server, server.connect() as conn:
            pace.step()
            for i in range(len(data) - 10, len(data)):
                conn.send(data[: i + 1] if i == len(data) - 10 else data[i : i + 1])
                pace.step()
                pace.rest(0.25)
            pace.end()
            conn.recv(replies[0])

    in_time(attempt)


@case(since=12)
def replies_that_are_taken_renew(chapter: int) -> None:
    """A client that sends nothing more and takes its replies slowly stays: bytes move the other way.

    It takes three MiB at a time, so that the server surely can write again after each.
    """
    size, times = 1 << 20, 27

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server:
            with server.connect(rcvbuf=1 << 16) as conn:
                conn.ask("set", "big", b"x" * size, expect=DONE)
                pace.step()
                conn.send(asked(chapter, "get", "big") * times)
                for _ in range(times // 3):
                    pace.rest(0.25)
                    conn.recv_exactly(3 * len(answered(chapter, b"x" * size)))
                    pace.step()
                conn.unanswered.clear()
                say(conn)
            still_serves(server)

    in_time(attempt)


@case(since=12)
def takes_a_large_reply_slowly(chapter: int) -> None:
    """So slowly that the server cannot write for longer than the timeout: all it has written still waits in the system.
    Bytes move nevertheless, and in the end all have come."""
    size, piece = 8 << 20, 1 << 17

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, server.connect(rcvbuf=1 << 18) as conn:
            conn.ask("set", "big", b"x" * size, expect=DONE)
            pace.begin()
            conn.send(asked(chapter, "get", "big"))
            came = b""
            for _ in range(16):
                pace.rest(0.25)
                if not select.select([conn.sock], [], [], limit(5))[0]:
                    fail(
                        f"nothing came for 5 s behind the first {len(came)} bytes of {size}",
                        "does the server go on writing where a write took only a part? It waits for POLLOUT as long as "
                        "something is left.",
                        f"{size} bytes, a part at a time as the client takes them",
                    )
                more = conn.sock.recv(piece)
                if not more:
                    fail(
                        f"closed behind {len(came)} bytes of {size}; the client took some every {0.25 * ms:.0f} ms",
                        "is the time begun anew by reading alone? Bytes move in both directions: note the time after "
                        "each write() that took something, too.",
                        "it stays open as long as bytes move, in either direction",
                    )
                came += more
                pace.step()
            whole = answered(chapter, b"x" * size)
            came += conn.recv_exactly(len(whole) - len(came))
            if came != whole:
                fail(
                    "the reply is not the value that was set",
                    "after a write that took only a part, does the next one go on with the first byte that is left?",
                    f"{size} bytes x, behind the head of the reply",
                )
            conn.unanswered.clear()

    in_time(attempt)


@case(since=12)
def each_at_its_own_time(chapter: int) -> None:
    """The one that asked again is closed after the one that did not, although it came first."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, ExitStack() as stack:
            conns = [stack.enter_context(server.connect()) for _ in range(4)]
            began = now_ms()
            pace.step()
            for conn in conns:
                say(conn, 1)
            pace.rest(0.4)
            pace.step()
            again = now_ms()
            say(conns[0], 1)
            say(conns[2], 1)
            pace.step()
            for i in (1, 3):
                closes(conns[i], began, ms)
            if now_ms() >= again + ms:
                pace.late = True
                fail(
                    "those that did not ask again were not closed before those that did",
                    "a connection that asks again goes to the end of the list; the others are due first",
                    "the first to be closed are those that have been silent longest",
                )
            for i in (0, 2):
                closes(conns[i], again, ms)

    in_time(attempt)


@case(since=12)
def not_a_millisecond_early(chapter: int) -> None:
    """Many connections, one after another, and a loop that looks at the clock all the time because one client
    is busy."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, server.connect() as busy, ExitStack() as stack:
            idle = []
            for _ in range(40):
                since = now_ms()
                idle.append((stack.enter_context(server.connect()), since))
                pace.step()
                say(busy, 2)
            while idle:
                pace.step()
                say(busy, 1)
                if readable(idle[0][0]):
                    closes(*idle.pop(0), ms)

    in_time(attempt)


@case(since=12)
def zero_means_never(chapter: int) -> None:
    with timed(chapter, 0) as server, server.connect() as conn, server.connect() as half:
        say(conn)
        half.send(codec(chapter).half)
        uses_no_cpu(server, "connections that may idle for ever")
        conn.expect_silence(0.1)
        half.expect_silence(0)
        say(conn)


@case(since=12)
def a_timeout_of_weeks(chapter: int) -> None:
    """2^31 - 1 milliseconds: nothing overflows, so the connection stays, and the loop sleeps."""
    with timed(chapter, 2**31 - 1) as server, server.connect() as conn:
        say(conn)
        uses_no_cpu(server, "a connection that may idle for weeks")
        conn.expect_silence(0)
        say(conn)


@case(since=12, inside=True,
      perhaps="IDLE_TIMEOUT_MS is a whole number from 0 to 2147483647: strtol() with its end looked at")  # fmt: skip
def timeouts_that_are_wrong(chapter: int) -> None:
    for text in ("x", "-1", "1.5", "5s", "1e3", "2147483648", "99999999999999999999"):
        result = run_program(chapter, "server", env={"IDLE_TIMEOUT_MS": text, "PORT": "0"}, seconds=5)
        assert text in one_line(result, f"a server with IDLE_TIMEOUT_MS={text}")


# ---- whatever the client does, whatever the server has to do ----


@case(since=12)
def clients_that_do_not_read(chapter: int) -> None:
    """They have asked for more than the sockets hold. They are closed, and so never get all of it."""
    size, times = 1 << 20, 40

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, ExitStack() as stack:
            before = server.fd_count()
            with server.connect() as conn:
                conn.ask("set", "big", b"x" * size, expect=DONE)
                pace.step()
            began = now_ms()
            conns = [stack.enter_context(server.connect(rcvbuf=SMALL)) for _ in range(3)]
            for conn in conns:
                conn.send(asked(chapter, "get", "big") * times)
            pace.step()
            conns[2].shutdown_write()
            serves(server)
            wait_until(lambda: server.fd_count() == before, "clients that do not read are timed out")
            if now_ms() < began + ms:
                fail(
                    f"clients that do not read were closed after {now_ms() - began:.0f} of {ms} ms",
                    "their requests were bytes that moved: from those on the timeout is counted",
                    f"they are closed {ms} ms after the last byte that moved",
                )
            for conn in conns:
                if len(conn.read_to_end()) >= times * len(answered(chapter, b"x" * size)):
                    fail(
                        "a client that read nothing before it was timed out got all of its replies",
                        "is it closed at all? A client that does not read is idle like any other, whatever waits for "
                        "it.",
                        "the connection is closed, with the replies in it that the sockets did not hold",
                    )
            serves(server)

    in_time(attempt)


@case(since=12, inside=True)
def bytes_behind_a_bad_message_renew(chapter: int) -> None:
    """They are thrown away, but they move. A server that closed now would destroy replies on their way."""
    bad = codec(chapter).bad

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server:
            before = server.fd_count()
            with server.connect() as conn:
                conn.send(bad)
                pace.step()
                for _ in range(8):
                    pace.rest(0.3)
                    conn.send(b"more")
                    pace.step()
                    if server.fd_count() == before:
                        fail(
                            f"a client sent bytes all the time; the server closed, with an idle timeout of {ms} ms",
                            "what comes behind a bad message is thrown away, but it is read: that begins the time anew",
                            "it stays open as long as bytes come",
                        )
                conn.expect_refused()
                wait_until(lambda: server.fd_count() == before, "a client that has stopped sending is timed out")

    in_time(attempt)


@case(since=12)
def a_thousand_half_headers_time_out(chapter: int) -> None:
    """Others are served meanwhile, and afterwards nothing is left of them."""
    n = many(1000)
    with timed(chapter, 300) as server, ExitStack() as stack:
        before = server.fd_count()
        stalled = []
        for _ in range(n):
            since = now_ms()
            conn = stack.enter_context(server.connect())
            conn.send(codec(chapter).half)
            stalled.append((conn, since))
        began = now_ms()
        for _ in range(10):
            serves(server)
        if now_ms() > began + limit(4000):
            fail(
                f"20 requests beside {n} stalled clients took {now_ms() - began:.0f} ms",
                "does each request wait until a stalled client is timed out? Wait for all of them at once, with "
                "poll().",
                "they are answered at once, whatever the others do",
            )
        for i, (conn, since) in enumerate(stalled):
            closes(conn, since, 300)
            if i % 200 == 0:
                serves(server)
        wait_until(lambda: server.fd_count() == before, "the descriptors of stalled clients are free")


@case(since=12)
def a_stopped_server(chapter: int) -> None:
    """A request comes in time while the server is stopped (Ctrl-Z, a debugger). When the server goes on,
    the timeout is over, but bytes have moved: they are read before anything is closed."""

    def attempt(ms: int, pace: Pace) -> None:
        requests, replies = talk(chapter, 1, "stopped")
        with timed(chapter, ms) as server, server.connect() as conn:
            say(conn, 1)
            pace.step()
            with paused(server):
                conn.send(encode(chapter, requests))
                pace.end()
                pace.rest(1.5)
            conn.recv(replies[0])

    in_time(attempt)


@case(since=12, inside=True)
def long_work_is_not_idling(chapter: int) -> None:
    """What one client asks for takes longer than the timeout. The request of another came meanwhile, and the first may
    ask again afterwards: neither was idle."""
    requests, replies = talk(chapter, 1, "meanwhile")

    def attempt(ms: int, pace: Pace) -> None:
        hold = Hold()
        with timed(chapter, ms, env=hold.env) as server, server.connect() as busy, server.connect() as other:
            say(other, 1)
            pace.step()
            busy.send(asked(chapter, "get", hold.WORD))
            wait_until(hold.is_held, "the server reads the request")
            other.send(encode(chapter, requests))
            pace.end()
            pace.rest(2)
            hold.release()
            other.recv(replies[0])
            busy.recv(None)
            pace.begin()
            pace.rest(0.3)
            say(busy, 1)
            pace.step()

    in_time(attempt)


@case(since=12)
def out_of_descriptors_until_some_idle(chapter: int) -> None:
    """Who waits to be accepted has a turn once others have been timed out."""
    requests, replies = talk(chapter, 1, "fd")

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms, nofile=24) as server, ExitStack() as stack:
            conns = []
            for _ in range(40):
                pace.begin()
                conns.append(stack.enter_context(server.connect()))
                conns[-1].send(encode(chapter, requests))
                pace.step()
            for conn in conns:
                conn.recv(replies[0])
                conn.expect_closed()

    in_time(attempt)


@case(since=12)
def come_stall_and_go(chapter: int) -> None:
    """Connections that end in every way while timers go off. Nothing is left of any."""
    rng = random.Random(seed())
    data = encode(chapter, talk(chapter, 4, "come")[0])
    with timed(chapter, 20) as server, ExitStack() as stack:
        before = server.fd_count()
        conns: List[Conn] = []
        for _ in range(600):
            if rng.random() < 0.5 or not conns:
                conns.append(stack.enter_context(server.connect()))
            conn = rng.choice(conns)
            what = rng.randrange(8)
            if what < 4:
                with suppress(OSError):
                    conn.send_some(data[: rng.randrange(len(data))], 0)
            elif what < 6:
                conns.remove(conn)
                conn.close() if what == 4 else conn.reset()
            elif what == 6:
                with suppress(OSError):
                    conn.shutdown_write()
            else:
                time.sleep(rng.random() * 0.004)
        wait_until(lambda: server.fd_count() == before, "nothing is left of any connection")
        serves(server)


@case(since=12)
def leaves_while_timers_go_off(chapter: int) -> None:
    for wait in range(3):
        with timed(chapter, 1) as server, ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(server.connect())
            time.sleep(0.001 * wait)
            leaves(server, signal.SIGTERM, "a server that closes idle connections")


# ---- what it costs to wait ----


@case(since=12)
def no_cpu_until_the_time(chapter: int) -> None:
    with timed(chapter, 60_000) as server, ExitStack() as stack:
        for _ in range(30):
            say(stack.enter_context(server.connect()))
            stack.enter_context(server.connect()).send(codec(chapter).half)
        uses_no_cpu(server, "connections whose time is far")


@case(since=12, inside=True)
def one_poll_for_each_timer(chapter: int) -> None:
    n, counts = 20, Counts()
    with timed(chapter, 150, env=counts.env) as server, ExitStack() as stack:
        conns = []
        for _ in range(n):
            conns.append(stack.enter_context(server.connect()))
            time.sleep(0.003)
        for conn in conns:
            conn.expect_closed()
        if counts.polls > 4 * n + 10:
            fail(
                f"{n} connections came and were timed out; for that the server called poll() {counts.polls} times",
                "is poll() called again and again with a short timeout? It takes the time until the next connection is "
                "due, rounded up to a millisecond.",
                f"at most {4 * n + 10}: some for each connection that comes, one for each that is timed out",
            )


# ---- what it says ----


@case(since=12)
def says_whom_it_removes(chapter: int) -> None:
    """A line for each connection that was timed out, none for those that ended otherwise."""

    def attempt(ms: int, pace: Pace) -> None:
        with timed(chapter, ms) as server, ExitStack() as stack:
            for leave in (Conn.close, Conn.reset):
                pace.begin()
                conn = server.connect()
                say(conn)
                leave(conn)
                pace.step()
            conns = [stack.enter_context(server.connect()) for _ in range(3)]
            for conn in conns:
                conn.expect_closed()
            server.wait_line(REMOVING, times=3)
            with server.connect() as conn:
                pace.begin()
                say(conn)
                pace.step()
            found = [line for line in server.log if REMOVING.match(line)]
            if not len(set(found)) == len(found) == 3:
                fail(
                    f"three connections were timed out, and the lines about it are {found}",
                    "one line for each connection that is closed because it was idle, with its descriptor; none for "
                    "one "
                    "whose client has left",
                    "three different lines `removing idle connection: N`",
                )

    in_time(attempt)


@case(since=12)
def a_log_that_nobody_reads(chapter: int) -> None:
    """A line for each connection that is removed goes into a pipe that is full: the server goes on."""
    port = free_port()
    env = clean_env({"PORT": str(port), "IDLE_TIMEOUT_MS": "20"})
    reading, writing = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(writing, F_SETPIPE_SZ, 4096)  # full after some 140 lines
    try:
        process = subprocess.Popen(
            program(chapter, "server"), env=env, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
            start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: _accepts(port, chapter), "the server listens", 10)
            for _ in range(3):
                with ExitStack() as stack:
                    for conn in [stack.enter_context(Conn(port, chapter)) for _ in range(100)]:
                        conn.expect_closed()
            wait_until(lambda: _accepts(port, chapter), "the server still answers", 10)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(reading)
        os.close(writing)


def _accepts(port: int, chapter: int) -> bool:
    """Does the server answer? (Where we are slow, it may have hung up first.)"""
    try:
        with Conn(port, chapter, seconds=1) as conn:
            say(conn, 1)
    except AssertionError:
        return False
    return True


# ---- the client ----


@case(since=12, perhaps=CLIENT)
def client_connects_again(chapter: int) -> None:
    """Where the server has hung up between two commands it says so, and goes on; where the server has gone
    altogether, it says that and ends with status 1."""
    done = printed_done(chapter).encode()
    lines = [(b"set k v\n", done), (b"get k\n", b"(str) v\n"), (b"\n\ndel k\n", b"(int) 1\n")]
    with timed(chapter, 60) as server:
        before = server.fd_count()
        env = clean_env({"PORT": str(server.port)})
        with subprocess.Popen(
            program(chapter, "client"), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as client:  # fmt: skip
            assert client.stdin and client.stdout and client.stderr
            try:
                for line, reply in lines:
                    client.stdin.write(line)
                    client.stdin.flush()
                    said_now = client.stdout.readline()
                    if said_now != reply:
                        fail(
                            f"the client was given {line!r} and printed {said_now!r}",
                            "between two commands the server may have hung up: the client notices it when it sends or "
                            "reads, connects again, and sends the command once more",
                            f"{reply!r}",
                        )
                    wait_until(lambda: server.fd_count() == before, "the client idles and is hung up on")
                server.stop()
                client.stdin.write(b"get k\n")
                client.stdin.flush()
                assert client.wait(limit(5)) == 1
                assert client.stdout.read() == b""
                said = client.stderr.read().splitlines()
                assert 3 <= len(said) <= 5 and all(line.strip() for line in said), said
            finally:
                client.kill()


@case(since=12, perhaps=CLIENT)
def client_that_is_in_time(chapter: int) -> None:
    """Many commands on one connection, and nothing is said."""
    with timed(chapter, 0) as server:
        result = run_client(chapter, [], server, "set k v\n\nget k\n" * 50)
        assert (result.stdout, result.stderr, result.status) == ((printed_done(chapter) + "(str) v\n") * 50, "", 0)


# Runs each function above that is marked @case, and those of tests/cases/ with since=12 (client_errors.py, clock.py,
# logs.py).
@pytest.mark.parametrize("case", new(12))
def test_new(case: Case) -> None:
    case(12)


# The cases of 03 to 11, as far as they still hold.
@pytest.mark.parametrize("case", earlier(12))
def test_earlier(case: Case) -> None:
    case(12)


def test_default_timeout_ends(silent: Silent) -> None:
    """Five seconds."""
    conn, since, ended = silent
    conn.expect_closed()
    wait_until(lambda: bool(ended), "whoever watches the connection sees its end, too")
    assert 4999 <= ended[0] - since <= 5000 + limit(2000), f"closed after {ended[0] - since:.0f} ms"
