"""What is watched with a clock in hand (12 and later).

A connection must not be closed while bytes move, which holds only where this program is in time to move
them. So cases note when they were late, and then begin again with a longer timeout.
"""
from __future__ import annotations

import time
from typing import Callable

from harness import Conn, Server, fail, limit, settings

__tracebackhide__ = settings.__tracebackhide__


def timed(chapter: int, ms: int, **options: object) -> Server:
    """A server with this idle timeout."""
    env = {"IDLE_TIMEOUT_MS": str(ms), **options.pop("env", {})}  # type: ignore[dict-item]
    return Server(chapter, env=env, **options)  # type: ignore[arg-type]


def now_ms() -> float:
    return time.monotonic() * 1000


def closes(conn: Conn, since: float, ms: int) -> None:
    """Waits until the server closes; fails where that is less than ms milliseconds after since, or
    much more."""
    conn.expect_closed()
    took = now_ms() - since
    wanted = f"it is closed {ms} ms after the last byte that moved, not a millisecond before and soon after"
    if took < ms:
        fail(
            f"the connection was closed {took:.1f} ms after a byte had moved; the idle timeout is {ms} ms",
            "clocks are rounded down to milliseconds, so a timeout is over when now > start + timeout, and poll() "
            "waits "
            "one millisecond longer than what seems to be left"
            if ms - took < 5 else
            "the time begins anew whenever a byte moves, in either direction: is it set only when the connection is "
            "accepted, or before a long piece of work instead of after it?", wanted,
        )  # fmt: skip
    if took > ms + limit(4000):
        fail(
            f"the connection was closed {took:.0f} ms after a byte had moved; the idle timeout is {ms} ms",
            "is the timeout of poll() the time until the first connection's turn, in milliseconds? And when it wakes "
            "up, "
            "are all that are due closed, or one only?", wanted,
        )  # fmt: skip


class Pace:
    """Are we in time? step() whenever a byte moves, at most 0.6 times the timeout apart."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.late = False
        self.begin()

    def begin(self) -> None:
        """A byte moves now; the time before was not ours."""
        self.last = now_ms()

    def step(self) -> None:
        self.late = self.is_late()
        self.last = now_ms()

    def end(self) -> None:
        """All that we had to send is sent: the time from here on is the server's."""
        self.step()
        self.last = float("inf")

    def is_late(self) -> bool:
        return self.late or now_ms() - self.last > 0.6 * self.ms

    def rest(self, part: float) -> None:
        """Lets this part of the timeout pass."""
        time.sleep(part * self.ms / 1000)


def in_time(attempt: Callable[[int, Pace], None]) -> None:
    """Calls attempt(ms, pace), with a longer timeout where we were late the time before."""
    for ms in (120, 400, 1500):
        pace = Pace(ms)
        try:
            attempt(ms, pace)
            if not pace.late:
                return
        except AssertionError:
            if not pace.is_late() or ms == 1500:
                raise
    fail(
        "this machine is too slow to keep a connection busy",
        "other programs hold the processor for more than a second at a time: try again when it is quiet, or set "
        "TEST_TIME_FACTOR=4",
        "a byte is moved every 900 ms",
    )


def cpu_us(server: Server) -> float:
    """The processor time of the server's main thread, in microseconds."""
    with open(f"/proc/{server.pid}/schedstat") as f:
        return int(f.read().split()[0]) / 1000
