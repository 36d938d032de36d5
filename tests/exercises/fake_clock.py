"""Time that the grader drives: the submission is built with fake_clock.h in place of clock.h, so that nothing depends
on how fast a machine is.

    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("pexpire", "k", "500", expect=1)
        clock.advance(501)      # returns when the server has done what was due, and waits in poll() again

Each server that is started inside has the same clock. poll() of such a server waits by it too.
"""
from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence, Tuple

from cases.talk import readable
from grading import Build, Edits, Submission
from harness import Conn, Server, limit

FIELDS = ("now", "wall", "until", "polls", "moves")
BEGIN = 1_000_000  # ms: the time at the beginning
WALL = 1_700_000_000_000 - BEGIN  # ms that the wall clock is ahead
FOREVER = 2**63 - 1
SPINNING = 2000  # calls of poll() while the clock stands still

_built: Dict[str, Build] = {}  # by what was changed


class Clock:
    """A clock in a file. edits and files change the submission further, as for work.variant."""

    def __init__(
        self, work: Submission, edits: Optional[Edits] = None, files: Optional[Mapping[str, str]] = None
    ) -> None:
        self.work = work
        key = repr((edits, files))
        if key not in _built:
            text = Path(__file__).with_name("fake_clock.h").read_text(encoding="utf-8")
            _built[key] = work.variant(edits, ["server"], {**(files or {}), "clock.h": text})
        self.build = _built[key]

    def __enter__(self) -> "Clock":
        handle, self.file = tempfile.mkstemp(prefix="clock-", dir=self.work.shared)
        os.write(handle, struct.pack("=5q", BEGIN, WALL, -1, 0, 0))
        os.fchmod(handle, 0o666)  # the submission may have another user
        self.map = mmap.mmap(handle, 8 * len(FIELDS))
        os.close(handle)
        return self

    def __exit__(self, *_: object) -> None:
        self.map.close()
        os.unlink(self.file)

    def server(self, **env: object) -> Server:
        """The submission's server under this clock; IDLE_TIMEOUT_MS=5000 and so on for its environment."""
        texts: Mapping[str, str] = {"FAKE_CLOCK": self.file, **{name: str(value) for name, value in env.items()}}
        self._set("until", -1)  # a server that was killed in poll() has left its own: this one does not wait yet
        return self.build.server(env=texts)

    def _get(self, field: str) -> int:
        return int(struct.unpack_from("=q", self.map, 8 * FIELDS.index(field))[0])

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("=q", self.map, 8 * FIELDS.index(field), value)

    @property
    def now(self) -> int:
        """The time in milliseconds."""
        return self._get("now")

    @property
    def wall(self) -> int:
        """The time of the wall clock in milliseconds."""
        return self.now + self._get("wall")

    def set_wall(self, ahead: int) -> None:
        """Somebody sets the wall clock: by so many milliseconds."""
        self._set("wall", self._get("wall") + ahead)

    @property
    def polls(self) -> int:
        """How often the server has called poll()."""
        return self._get("polls")

    @property
    def moves(self) -> int:
        """What the changed headers have counted."""
        return self._get("moves")

    @property
    def wait(self) -> int:
        """How long the server means to wait from now on, in milliseconds; -1 for any time."""
        self.settle()
        until = self._get("until")
        return -1 if until == FOREVER else until - self.now

    def settle(self, seconds: float = 5.0) -> None:
        """Waits until the server waits, in a poll() that does not end at the present time."""
        began, polls = time.monotonic(), self.polls
        while self._get("until") <= self.now:
            if self.polls > polls + SPINNING:
                self.work.fail(
                    came=f"poll() was called {SPINNING} times while the clock stood still and no client did anything",
                    expected="the loop waits until the next deadline",
                    cause="does next_timer_ms() look at the same time as the code that acts on it?",
                )
            if time.monotonic() > began + limit(seconds):
                self.work.fail(
                    came=f"the server did not come back to poll() within {limit(seconds):g} s",
                    expected="a round of the loop that ends",
                    cause="an endless loop, or a crash?",
                )
            time.sleep(0.0002)

    def advance(self, ms: int) -> None:
        """Lets ms milliseconds pass; returns when the server has done what was due, and waits again."""
        self.settle()
        self._set("now", self.now + ms)
        self.settle()

    def turn(self, before: int) -> None:
        """Waits until the server has called poll() more often than before, and waits again."""
        end = time.monotonic() + limit(5)
        while self.polls <= before and time.monotonic() < end:
            time.sleep(0.0002)
        self.settle()

    def connect(self, server: Server, **options: object) -> Conn:
        """A connection that the server has accepted."""
        self.settle()
        before = self.polls
        conn = server.connect(**options)
        self.turn(before)
        return conn

    def close(self, conn: Conn) -> None:
        """Closes a connection; returns when the server has noticed."""
        self.settle()
        before = self.polls
        conn.close()
        self.turn(before)

    def send(self, conn: Conn, data: bytes) -> None:
        """Sends bytes that get no answer; returns when the server has read them."""
        self.settle()
        before = self.polls
        conn.send(data)
        self.turn(before)

    def is_open(self, conn: Conn) -> bool:
        """Is the connection still there? To be asked where no reply is on its way."""
        self.settle()
        return not readable(conn)

    def open_and_closed(self, conns: Sequence[Tuple[str, Conn]]) -> Tuple[str, str]:
        """The names of those that are open, and of those that are not."""
        there = {name: self.is_open(conn) for name, conn in conns}
        return ", ".join(n for n, yes in there.items() if yes) or "none", ", ".join(
            n for n, yes in there.items() if not yes
        ) or "none"
