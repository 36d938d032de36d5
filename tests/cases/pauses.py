"""Clients that have others wait, or end them (21 and later): `client pause` and `client kill`."""
from __future__ import annotations

from contextlib import ExitStack

from harness import Conn, fail, resp, settings, wait_until
from harness.resp import OK

from . import case
from .clock import Clock
from .replies import filled
from .talk import asked, paused, readable, start, uses_no_cpu

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "a request that a pause holds stays where it is, in front of what its client has sent behind it; the loop watches "
    "that socket for its end alone, and has its turn come back when the pause is over"
)


def flags(conn: Conn, of: Conn) -> str:
    """What `client list` says of a connection."""
    own = f"addr=127.0.0.1:{of.own_port()} ".encode()
    for line in conn.ask("client", "list").splitlines():  # type: ignore[attr-defined]
        if own in line:
            return line.split(b" flags=")[1].split()[0].decode()
    return "gone"


@case(since=21, inside=True)
def a_pause_holds_requests_in_their_place(chapter: int) -> None:
    """Of writes alone: what only reads is answered, until one behind it would change a key. Its end is exact."""
    clock = Clock()
    with clock.server(chapter, 100) as server, server.connect() as conn, server.connect() as other:
        conn.ask("client", "pause", 1000, "WRITE", expect=OK)
        other.send(b"".join(asked(chapter, *words) for words in (("get", "k"), ("incr", "k"), ("get", "k"))))
        other.recv(resp.NIL)
        conn.ask("get", "k", expect=resp.NIL)
        assert (flags(conn, other), flags(conn, conn)) == ("b", "N")
        other.send(asked(chapter, "get", "k"))
        for _ in range(10):
            clock.step(99)
            conn.ask("ping", expect=resp.PONG)
        clock.step(9)
        if readable(other):
            fail("a request that changes a key is answered before the pause has ended")
        clock.step(3)
        other.recv(1)
        other.recv(b"1")
        other.recv(b"1")
        assert flags(conn, other) == "N"


@case(since=21, inside=True)
def the_longer_and_the_stricter_pause_counts(chapter: int) -> None:
    """Of all requests, also those of who asked for it. Errors that the table knows are no requests."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn, server.connect() as other:
        conn.ask("client", "pause", 500, "write", expect=OK)
        other.ask("client", "pause", 100, "all", expect=OK)
        conn.send(asked(chapter, "client", "unpause"))
        other.ask("nothing", expect=resp.error(resp.unknown([b"nothing"])))
        other.ask("get", expect=resp.error("ERR wrong number of arguments for 'get' command"))
        other.send(asked(chapter, "quit"))
        clock.step(490)
        if readable(conn) or readable(other):
            fail("of two pauses the shorter one has counted, or the one for writes alone")
        clock.step(12)
        conn.recv(OK)
        other.recv(OK)
        other.expect_closed()


def blocked(conn: Conn) -> int:
    """How many clients wait for something else than their own requests, as INFO says."""
    told = conn.ask("info", "clients")
    assert isinstance(told, bytes)
    return int(told.partition(b"blocked_clients:")[2].split()[0])


@case(since=21)
def a_pause_is_ended(chapter: int) -> None:
    """By `client unpause`, for all that it holds; and the server rests while it holds them. INFO counts these."""
    with start(chapter) as server, ExitStack() as stack:
        conn, *others = [stack.enter_context(server.connect()) for _ in range(20)]
        conn.ask("client", "pause", 1_000_000, "write", expect=OK)
        for other in others:
            other.send(asked(chapter, "incr", "k") * 100)
        others[0].expect_silence()
        uses_no_cpu(server, "requests that a pause holds")
        wait_until(lambda: blocked(conn) == len(others), f"INFO says blocked_clients:{len(others)}")
        conn.ask("client", "unpause", expect=OK)
        for other in others:
            for _ in range(100):
                other.recv()
        wait_until(lambda: blocked(conn) == 0, "INFO says blocked_clients:0")
        conn.ask("get", "k", expect=b"1900")


@case(since=21)
def held_and_gone(chapter: int) -> None:
    """Who resets its connection while a pause holds its request, or is killed then, asks for nothing any more."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other, server.connect() as third:
        number = third.ask("client", "id")
        conn.ask("client", "pause", 1_000_000, "write", expect=OK)
        for held in (other, third):
            held.send(asked(chapter, "set", "k", "v"))
            held.expect_silence(0.05)
        other.reset()
        conn.ask("client", "kill", "id", number, expect=1)
        third.expect_closed()
        uses_no_cpu(server, "a pause, and none that it holds")
        conn.ask("client", "unpause", expect=OK)
        conn.ask("get", "k", expect=resp.NIL)
        conn.ask("client", "kill", "type", "normal", expect=0)


@case(since=21, perhaps="the one that asks is closed when its reply is sent; who else waits for a turn has a last one")
def who_is_killed(chapter: int) -> None:
    """By number and by both addresses; all but the one that asks, or with it: that has its reply first. Who was cut off
    before does not count."""
    with start(chapter) as server, ExitStack() as stack:
        conn, *others = [stack.enter_context(server.connect()) for _ in range(6)]
        for other in others:
            other.ask("ping", expect=resp.PONG)
        conn.ask("client", "kill", f"127.0.0.1:{others[0].own_port()}", expect=OK)
        others[0].expect_closed()
        conn.ask("client", "kill", "ADDR", f"127.0.0.1:{others[1].own_port()}", "laddr", "x", expect=0)
        conn.ask("client", "kill", "ADDR", f"127.0.0.1:{others[1].own_port()}", "user", "default", expect=1)
        others[1].expect_closed()
        conn.ask("client", "kill", "type", "replica", "skipme", "no", expect=0)
        conn.ask("client", "kill", "laddr", f"127.0.0.1:{server.port}", "type", "normal", expect=3)
        for other in others[2:]:
            other.expect_closed()
        conn.send(asked(chapter, "client", "kill", "skipme", "NO", "type", "normal") + asked(chapter, "set", "k", "v"))
        conn.recv(1)
        conn.expect_closed()
        with server.connect() as last, server.connect() as ended:
            last.ask("get", "k", expect=resp.NIL)
            ended.send(b"*x\r\n")
            ended.expect_refused("invalid multibulk length")  # and stays
            last.ask("client", "kill", "type", "normal", expect=0)


@case(since=21, perhaps="what a client asks for last counts")
def asked_to_be_kept(chapter: int) -> None:
    """`client list` shows it with an e, until the client takes it back."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for word, letters in (("on", "e"), ("off", "N"), ("ON", "e"), ("on", "e"), ("OFF", "N")):
            conn.ask("client", "no-evict", word, expect=OK)
            if flags(other, conn) != letters:
                fail(f"after CLIENT NO-EVICT {word}, client list says flags={flags(other, conn)}", expected=letters)


@case(since=21, inside=True)
def killed_while_they_wait(chapter: int) -> None:
    """For room for their replies, for a turn of a slow request, for nothing: their requests are not done any more, and
    the one that was killed is at its end at once."""
    with start(chapter) as server, ExitStack() as stack:
        conn, full, slow, still = [stack.enter_context(server.connect()) for _ in range(4)]
        conn.ask("set", "big", filled(1 << 20), expect=OK)
        full.send(asked(chapter, "get", "big") * 30)
        full.recv()
        with paused(server):
            conn.send(asked(chapter, "client", "kill", "type", "normal") + asked(chapter, "get", "mark"))
            slow.send(asked(chapter, "getrange", "big", 0, -1) * 3 + asked(chapter, "set", "mark", "v"))
        conn.recv(3)
        conn.recv(resp.NIL)
        full.read_to_end()
        slow.read_to_end()
        still.expect_closed()
        conn.ask("get", "mark", expect=resp.NIL)
        lines = conn.ask("client", "list").splitlines()  # type: ignore[attr-defined]
        if len(lines) != 1:
            fail(f"three of four clients were killed, and `client list` has {len(lines)} lines")
