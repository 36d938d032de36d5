"""06-unread-replies: an attack that stops a server whose sockets block, and does nothing to one whose sockets do
not."""
from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import Iterator, Tuple

from grading import Build, Submission, points
from harness import Server, limit, wait_until
from harness.process import clean_env

BLOCKING = """\
@@ server.c, accept_new_conn()
-    if (fd_set_nb(connfd) < 0) {
-        close(connfd);
-        return true;
-    }
"""
READY_WITHIN, MOST = 10, 64 << 20


def weak(work: Submission) -> Build:
    """The server of the chapter, whose connections block."""
    return work.stage(6, BLOCKING)


@contextmanager
def attack(work: Submission, server: Server) -> Iterator[Tuple["subprocess.Popen[bytes]", str]]:
    """Runs attack.py; yields it, and the line that it has printed within ten seconds, if any. Ends it at last."""
    words = [*work.wrapper(), work.python, str(work.path / "attack.py"), str(server.port)]
    process = subprocess.Popen(
        words, env=clean_env({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        line, end = b"", time.monotonic() + limit(READY_WITHIN)
        while not line.endswith(b"\n") and len(line) < 2000:
            if not select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            byte = os.read(process.stdout.fileno(), 1)
            if not byte:
                break
            line += byte
        yield process, line.decode(errors="replace").strip()
        process.stdin.close()
        try:
            process.wait(limit(5))
        except subprocess.TimeoutExpired:
            work.fail(
                came="attack.py has not ended 5 s after its standard input has",
                expected="it ends, and with it the attack",
            )
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        process.stdout.close()


def expect_ready(work: Submission, line: str) -> None:
    work.expect(
        line == "ready",
        came=f"attack.py printed {line!r}" if line else f"attack.py printed nothing within {READY_WITHIN} s",
        expected="the line ready",
        cause="" if line else "is it stuck itself, in a call that waits?",
    )


def answered(server: Server, seconds: float) -> bool:
    """Does a new client get an answer in time?"""
    with server.connect(seconds=seconds) as conn:
        conn.send(conn.encode(["anybody there?"]))
        try:
            conn.recv(b"anybody there?")
        except AssertionError:
            return False
    return True


@points(4, "the weak server stands still")
def test_weak(work: Submission) -> None:
    """The attack against the weak server. Does anybody else get an answer?"""
    with weak(work).server() as server:
        work.expect(
            answered(server, 5),
            came="the weak server does not answer even before the attack",
            expected="an answer",
        )
        with attack(work, server) as (_, line):
            expect_ready(work, line)
            for _ in range(2):
                work.expect(
                    not answered(server, 0.4),
                    came="the attack was ready, and another client got its answer",
                    expected="no answer, as long as the attack lasts",
                    cause="in which call does the server wait for you, and what have you done that it must?",
                )


@points(2, "afterwards")
def test_afterwards(work: Submission) -> None:
    """The attack ends. The weak server must serve others again."""
    with weak(work).server() as server:
        with attack(work, server) as (_, line):
            expect_ready(work, line)
            stood_still = not answered(server, 0.4)
        work.expect(
            stood_still,
            came="another client got its answer during the attack, so there is no afterwards",
            expected="an attack that works",
        )
        work.expect(
            answered(server, 5),
            came="the attack has ended, and others still get no answer",
            expected="their answers: nothing was broken",
        )


@points(2, "the chapter's server")
def test_strong(work: Submission) -> None:
    """The same against the server of chapter 06, whose connections do not block, once it has stopped the weak one."""
    for build, name in ((weak(work), "weak"), (work.stage(6), "good")):
        with build.server() as server, attack(work, server) as (_, line):
            expect_ready(work, line)
            served = answered(server, 0.4 if name == "weak" else 5)
            if name == "weak":
                work.expect(
                    not served,
                    came=(
                        "another client of the weak server got its answer, so it is no wonder that the good one harms"
                        " nobody"
                    ),
                    expected="an attack that works",
                )
            else:
                work.expect(
                    served,
                    came="during the attack the good server does not answer others",
                    expected="their answers: its send() never waits",
                )


@points(2, "the rules")
def test_rules(work: Submission) -> None:
    """One connection, messages that are allowed, 64 MB at most, `ready` within ten seconds; against both servers."""
    for build, name in ((work.stage(6), "good"), (weak(work), "weak")):
        with work.count("accept", "read_bytes", "write_bytes") as counted, build.server() as server:
            with attack(work, server) as (_, line):
                expect_ready(work, line)
                fds = server.fd_count()
                if name == "good":
                    work.expect(fds <= 7, came=f"the attack has {fds - 6} connections", expected="one")
            said = [entry for entry in server.log if entry in ("too long", "unexpected EOF")]
            work.expect(
                "too long" not in said,
                came="the server printed `too long`: a message was not allowed",
                expected="messages of up to 4096 bytes",
            )
            if name == "good":
                wait_until(lambda: server.fd_count() <= 6, "the attack's connection is closed")
                seen = counted.now()
                work.expect(
                    seen["read_bytes"] <= MOST,
                    came=f"the server has read {seen['read_bytes']} bytes",
                    expected=f"{MOST} at most",
                )
                work.expect(
                    seen["write_bytes"] > 0,
                    came="the server was asked for no reply at all",
                    expected="messages that are answered",
                    cause="it is a reply that nobody reads, not a request that never ends",
                )
