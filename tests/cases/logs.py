"""The whole log of a server (03 and later): each way in which a connection may end has its line or none, in order,
and hundreds of them leave these lines and no other.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Dict, List, NamedTuple

from harness import Server, fail, resp, seed, settings, wait_until, wire

from harness.codec import codec
from harness.diagnose import may_look
from harness.failure import Failure, cause

from . import case
from .talk import encode, paused, preload, say, start, talk, too_much

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "one line for each thing that happens, written at once, to standard error or flushed"

RESET = "read: Connection reset by peer"


class End(NamedTuple):
    """What a client says, how many replies it waits for, how it leaves (close, reset, half), and the log of that."""

    said: bytes
    replies: int
    how: str
    log: List[str]


def _ends(chapter: int) -> List[End]:
    if codec(chapter).is_hello:
        hello = ["client says: hello"]
        return [
            End(b"hello", 1, "close", hello), End(b"hello", 1, "reset", hello), End(b"", 0, "close", ["client says: "]),
            End(b"", 0, "reset", [RESET]), End(b"hello", 1, "half", hello), End(b"", 0, "half", ["client says: "]),
        ]  # fmt: skip
    if codec(chapter).is_echo:
        said = ["client says: hello"]
        return [
            End(b"", 0, "close", ["EOF"]), End(b"hello", 1, "close", [*said, "EOF"]),
            End(b"hello", 1, "half", [*said, "EOF"]),
            End(b"", 0, "reset", [RESET]), End(b"hello", 1, "reset", [*said, RESET]),
        ]  # fmt: skip
    one, two = (encode(chapter, talk(chapter, n, "t")[0]) for n in (1, 2))
    says = [f"client says: t:{i}" for i in range(2)] if codec(chapter).is_text else []
    eof, cut = (["EOF"], ["unexpected EOF"]) if codec(chapter).is_text else ([], [])
    gone = [] if codec(chapter).has_loop else [RESET]
    most, half = wire.max_msg(chapter), codec(chapter).half
    ends = [
        End(b"", 0, "close", eof),
        End(b"", 0, "half", eof),
        End(b"", 0, "reset", gone),
        End(one, 1, "close", says[:1] + eof),
        End(one, 1, "reset", says[:1] + gone),
        End(two, 2, "half", says + eof),
        End(two, 2, "reset", says + gone),
    ]
    if codec(chapter).is_resp:
        bad = [(data, [f"Protocol error: {text}"]) for data, text in resp.MALFORMED.values()]
        ends += [End(one + half, 1, "close", []), End(one + half[:1], 1, "half", []), End(half, 0, "half", [])]
        ends += [End(data, 0, "half", line) for data, line in bad]
        return ends + [End(two + data + two, 2, "close", line) for data, line in bad[:3]]
    ends += [
        End(one + b"\1", 1, "close", says[:1] + cut),
        End(one + b"\5\0\0", 1, "half", says[:1] + cut),
        End(one + b"\5\0\0\0hel", 1, "close", says[:1] + cut),
        End(b"\5\0\0\0hel", 0, "half", cut),
        End(wire.u32(most + 1), 0, "half", ["too long"]),
        End(codec(chapter).bad, 0, "close", ["too long"]),
        End(one + wire.u32(most + 1) * (50 if codec(chapter).has_loop else 1), 1, "half", [*says[:1], "too long"]),
    ]
    if codec(chapter).has_commands:
        bad = list(codec(chapter).malformed().values())
        ends += [End(data, 0, "half", ["bad req"]) for data in bad]
        ends += [End(two + data + two, 2, "close", ["bad req"]) for data in bad[:3]]
    return ends


def _leave(server: Server, end: End, idle: int) -> None:
    """One connection from its beginning to its end, which the server has seen when this returns. idle is the number
    of descriptors that it has without one."""
    with server.connect() as conn:
        wait_until(lambda: server.fd_count() > idle, "the connection is accepted")
        conn.send_some(end.said)
        if end.replies and not codec(server.chapter).has_messages:
            conn.recv_exactly(5)
        elif end.replies:
            for _ in range(end.replies):
                conn.recv()
        if end.how == "reset":
            conn.reset()
        elif end.how == "half":
            conn.shutdown_write()
            conn.read_to_end()
    wait_until(lambda: server.fd_count() == idle, "the server has closed the connection")


@case(since=3, inside=True)
def each_end_has_its_line(chapter: int) -> None:
    """One connection after the other, each with another end: these lines, in this order, and no other."""
    expect: List[str] = []
    with start(chapter) as server:
        idle = server.fd_count()
        for end in _ends(chapter):
            _leave(server, end, idle)
            expect += end.log
            if server.wait_log(len(expect)) != expect:
                raise Failure(
                    f"after a client that left with {HOW[end.how]}, the log ends with other lines",
                    [
                        ("sent", wire.hexdump(end.said, most=32) if end.said else ["nothing"]),
                        ("came", server.log[-4:] or ["no line"]),
                        ("expected", expect[-4:] or ["no line"]),
                    ],
                    cause("does each end of a connection print what the chapter says, once, or nothing?"),
                )
        server.stop(signal.SIGTERM)
        _same(server.log, expect, "all these ends")


HOW = {"close": "close()", "reset": "a reset", "half": "a half-close, and read on"}


def _show(lines: List[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) or "    nothing"


def _same(got: List[str], expect: List[str], what: str) -> None:
    if got != expect:
        at = next((i for i, pair in enumerate(zip(got, expect)) if pair[0] != pair[1]), min(len(got), len(expect)))
        here, there = (_show(lines[max(at - 2, 0) : at + 3]) for lines in (expect, got))
        fail(
            f"{what}: the log of the server has {len(got)} lines, {len(expect)} "
            f"are expected; line {at + 1} is wrong. Expected\n{here}\nnot\n{there}"
        )


@case(since=6, inside=True)
def hundreds_of_ends_and_no_other_line(chapter: int) -> None:
    """At the same time and in any order, beside clients that leave their replies unread: every line is counted."""
    rng = random.Random(seed())
    expect: Dict[str, int] = Counter()
    unread = encode(chapter, too_much(chapter)[0][:20])
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        before = server.fd_count()
        for turn in range(8):
            with ExitStack() as stack:
                ends = [rng.choice(_ends(chapter)) for _ in range(20)]
                conns = [stack.enter_context(server.connect()) for _ in ends]
                for conn, end in zip(conns, ends):
                    conn.send_some(end.said)
                late = stack.enter_context(server.connect(rcvbuf=4096))
                late.send_some(unread, 0)
                for conn, end in zip(conns, ends):
                    for _ in range(end.replies):
                        conn.recv()
                    expect.update(line for line in end.log if not line.startswith("client says: "))
                    if end.how == "half":
                        conn.shutdown_write()
                        conn.read_to_end()
                    elif end.how == "reset":
                        conn.reset()
                    else:
                        conn.close()
                late.reset()
            wait_until(lambda: server.fd_count() == before, "the connections that have gone are closed")
            say(other, 1, f"turn{turn}")
            if codec(chapter).is_text:  # the log drops lines while nobody reads it: each turn waits until it is read
                server.wait_line(f"client says: turn{turn}:0")
        server.stop(signal.SIGTERM)
        got = Counter(line for line in server.log if not line.startswith("client says: "))
        if got != expect:
            fail(f"the log must have these lines besides what clients say: {dict(expect)}, not {dict(got)}")
        if codec(chapter).has_commands and len(server.log) != sum(expect.values()):
            fail(f"the server says what clients say: {server.log[:5]}")


@case(since=6, inside=True)
def nothing_to_say(chapter: int) -> None:
    """No descriptors, a stop and a continuation, calls that are interrupted, a signal while clients are connected: that
    is no news, each time and at any rate."""
    requests, _ = talk(chapter, 1, "quiet")
    says = ["client says: quiet:0"] if codec(chapter).is_text else []
    with start(chapter, nofile=20, env=preload("interrupt")) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(40)]
        conns[0].send(encode(chapter, requests))
        conns[0].recv()
        for _ in range(3):
            with paused(server):
                pass
        conns[1].send(encode(chapter, requests))
        conns[1].recv()
        server.stop(signal.SIGTERM)
        _same(server.log, says * 2, "descriptors that run out and signals")


@case(since=12, inside=True, perhaps="this machine is busy: try again when it is quiet, or set TEST_TIME_FACTOR=4")
def one_line_for_each_that_is_idle(chapter: int) -> None:
    """In the order in which they fell silent, with the number of each; none for those that left before. Where we were
    late ourselves, once more with a longer timeout."""
    for timeout in (150, 600, 2400, 9600):
        with start(chapter, env={"IDLE_TIMEOUT_MS": str(timeout)}) as server, ExitStack() as stack:
            began = time.monotonic()
            conns = [stack.enter_context(server.connect()) for _ in range(6)]
            with suppress(AssertionError):
                for conn in conns:
                    say(conn, 1)
            if not may_look(server.pid):
                return  # see there
            numbers = _descriptors(server)
            conns[2].close()
            conns[4].reset()
            if (time.monotonic() - began) * 1000 > timeout / 2:
                continue
            for i in (0, 1, 3, 5):
                conns[i].read_to_end()
            expect = [f"removing idle connection: {numbers[i]}" for i in (0, 1, 3, 5)]
            server.wait_log(len(expect))
            server.stop(signal.SIGTERM)
            _same(server.log, expect, "four connections on which nothing moves, two that left")
            return
    fail("this machine is too slow for this case: six requests take seconds")


def _descriptors(server: Server) -> List[int]:
    """The descriptors of its connections: the sockets behind the listening one, which is the lowest."""
    folder = f"/proc/{server.pid}/fd"
    links = {int(name): os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
    return sorted(number for number, link in links.items() if link.startswith("socket:"))[1:]
