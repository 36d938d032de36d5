"""Trouble that is rare (03 and later): settings that are empty, clients that have gone at the worst moment, calls that
fail for a moment, a pipe that is full, memory that is not zero."""
from __future__ import annotations

import os
import random
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path

from harness import Server, fail, settings, wait_until
from harness.codec import codec
from harness.diagnose import may_look

from . import case
from .processes import leaves
from .talk import Hold, encode, naming, preload, say, start, still_serves

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "what is rare happens: settings that are empty, a call that fails, a client that is gone before its answer"


@case(since=3, inside=True,
      perhaps="a variable that is set and empty counts as not set: look at the first byte of getenv()")  # fmt: skip
def settings_that_are_empty(chapter: int) -> None:
    """They count as not set: port 1234 (at an address of this case's own), and 127.0.0.1."""
    rng = random.Random(os.getpid() * 1000 + chapter)
    address = f"127.{rng.randrange(64, 128)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    more = {"IDLE_TIMEOUT_MS": "", "HASH_SEED": ""}
    with Server(chapter, env={"PORT": "", "BIND": address, **more}) as server:
        assert server.lines[0] == f"listening on {address}:1234", server.lines
    with Server(chapter, env={"BIND": "", **more}) as server:
        assert re.match(r"listening on 127\.0\.0\.1:\d+$", server.lines[0]), server.lines


def ask(server: Server) -> None:
    """A new client gets an answer."""
    if codec(server.chapter).is_hello:
        with server.connect() as conn:
            conn.send(b"hello")
            conn.expect_bytes(b"world")
            conn.expect_closed()
    elif codec(server.chapter).is_echo:
        with server.connect() as conn:
            conn.send(b"hello")
            conn.expect_bytes(b"hello")
    else:
        still_serves(server)


@case(since=3, inside=True)
def accept_fails_and_the_next_one_comes(chapter: int) -> None:
    """The client has gone again, or a signal came (cases/refuse.c): that ends no server."""
    with start(chapter, env=preload("refuse")) as server:
        for _ in range(4):
            ask(server)


@case(since=3, inside=True)
def gone_while_its_answer_is_made(chapter: int) -> None:
    """The server has read the request. Before it answers, the client ends its input and then the connection: the answer
    is a write to nobody, which must fail and not kill (SIGPIPE)."""
    hold = Hold()
    text = hold.WORD.encode()
    if codec(chapter).has_messages:
        text = encode(chapter, [naming(chapter, text)])
    with start(chapter, env=hold.env) as server:
        with server.connect() as conn:
            conn.send(text)
            wait_until(hold.is_held, "the server reads the request")
            conn.shutdown_write()
            conn.reset()
        hold.release()
        ask(server)


@case(since=6, inside=True, perhaps="the pipe that the handler writes into is nonblocking: a full one has told enough")
def a_signal_while_the_pipe_is_full(chapter: int) -> None:
    """The handler writes into a pipe that takes no more, as after 65,536 signals: it must not wait for room, and the
    server must end all the same."""
    hold = Hold()
    with start(chapter, env=hold.env) as server, server.connect() as conn:
        say(conn)
        conn.send(encode(chapter, [naming(chapter, hold.WORD)]))
        wait_until(hold.is_held, "the server reads the request")
        filled = 0
        for path in Path(f"/proc/{server.pid}/fd").iterdir() if may_look(server.pid) else ():
            if int(path.name) > 2 and os.readlink(path).startswith("pipe:"):
                with suppress(OSError):
                    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                    with suppress(BlockingIOError):
                        while True:
                            filled += os.write(pipe, bytes(4096))
                    os.close(pipe)
        if not filled:
            hold.release()
            return  # no pipe: it does without (signalfd, ppoll)
        later = threading.Timer(0.05, hold.release)
        later.start()
        status = server.stop(signal.SIGTERM)
        later.join()
        if status != 0:
            fail(f"a SIGTERM came while the server's pipe was full: it ended with {status}, not with 0")


@case(since=6, inside=True)
def memory_that_is_not_zero(chapter: int) -> None:
    """What malloc() hands out is filled with a byte (by glibc, where it is told to): nothing may be read before it is
    written, in the life of a server or at its end."""
    for fill in ("165", "254"):
        with start(chapter, env={"MALLOC_PERTURB_": fill}) as server:
            before = server.fd_count()
            conns = [server.connect() for _ in range(40)]
            for conn in conns:
                say(conn)
            for conn in conns[::2]:
                conn.close()
            wait_until(lambda: server.fd_count() == before + 20, "those that have gone are closed")
            say(conns[1])
            leaves(server, signal.SIGTERM, "a server whose memory is not zero")
            for conn in conns:
                conn.close()


# ---- single chapters ----


@case(since=3, until=3, inside=True)
def a_client_that_says_nothing(chapter: int) -> None:
    """It ends its input at once: it has said nothing, and is told the same as all."""
    with start(chapter) as server:
        with server.connect() as conn:
            conn.shutdown_write()
            conn.expect_bytes(b"world")
            conn.expect_closed()
        wait_until(lambda: server.log, "a line")
        assert server.log == ["client says: "], server.log


@case(since=4, until=6, inside=True)
def a_line_of_the_log_is_cut(chapter: int) -> None:
    """It has 4096 bytes at most, all of them the client's, and the next line is a line of its own."""
    text = b"x" * 4096
    with start(chapter) as server, server.connect() as conn:
        if codec(chapter).is_echo:
            conn.send(text)
            conn.expect_bytes(text)
        else:
            conn.ask(text)
            say(conn, 1)
        wait_until(lambda: len(server.log) >= (1 if codec(chapter).is_echo else 2), "the lines")
        first, *more = server.log
        if not 4000 < len(first) < 4096 or not ("client says: " + text.decode()).startswith(first):
            fail(f"the first line of the log has {len(first)} bytes, and ends with {first[-20:]!r}")
        assert codec(chapter).is_echo or more == ["client says: say:0"], more
