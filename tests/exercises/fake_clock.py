"""Time that the grader drives: the clocks of the chapters' tests (cases/clock.py), so that nothing depends on how fast
a machine is.

    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("pexpire", "k", "500", expect=1)
        clock.step(501)         # returns when the server has done what was due, and waits in poll() again
"""
from __future__ import annotations

import time
from typing import Callable, Dict, Mapping, Optional, TypeVar

from cases import clock
from cases.talk import readable
from grading import Build, Submission
from harness import Conn, Server, limit
from harness.failure import Failure

BEGIN = 1_000_000  # ms: the time at the beginning
SPINNING = 2000  # calls of poll() while the clock stands still
T = TypeVar("T")

_built: Dict[str, Build] = {}  # by what was changed


class Clock(clock.Clock):
    """The clocks of the submission's server. change and files change the submission, as for work.variant."""

    def __init__(
        self, work: Submission, change: str = "", files: Optional[Mapping[str, str]] = None
    ) -> None:
        super().__init__(BEGIN)
        self.work = work
        self.changed = repr((change, files))
        if self.changed not in _built and (change or files):
            _built[self.changed] = work.variant(change, ["server"], files)

    def __enter__(self) -> "Clock":
        return self

    def __exit__(self, *_: object) -> None:
        self.map.close()
        self.file.close()

    def server(self, **env: object) -> Server:  # type: ignore[override]
        """The submission's server under this clock; IDLE_TIMEOUT_MS=5000 and so on for its environment."""
        texts = {**self.env, **{name: str(value) for name, value in env.items()}}
        self._set(5, -1)  # one that was killed in poll() has left its own
        build = _built.get(self.changed)
        return build.server(env=texts) if build else Server(self.work.chapter, env=texts)

    @property
    def wait(self) -> int:
        """How long the server means to wait from now on, in milliseconds; -1 for any time."""
        self.rest()
        return -1 if self.until_ms is None else self.until_ms - self.now_ms

    def rest(self) -> None:
        """Waits until the server has done all that is to be done at this time, and waits."""
        if self._get(5) <= self._get(0):  # else it waits for a later time; what clients do is for noticed()
            self._rest()

    def _rest(self) -> None:
        before = self.rounds
        try:
            super().rest()
        except Failure:
            if self.rounds > before + SPINNING:
                self.work.fail(
                    came=f"poll() was called {self.rounds - before} times while the clock stood still and no client did"
                    " anything",
                    expected="the loop waits until the next deadline",
                    cause="does next_timer_ms() look at the same time as the code that acts on it?",
                )
            self.work.fail(
                came=f"the server did not come back to poll() within {limit(5):g} s",
                expected="a round of the loop that ends",
                cause="an endless loop, or a crash?",
            )

    def noticed(self, act: Callable[[], T]) -> T:
        """Does something that the server notices; returns when it has called poll() since, and waits again."""
        self.rest()
        before, end = self.rounds, time.monotonic() + limit(5)
        result = act()
        while self.rounds <= before and time.monotonic() < end:
            time.sleep(0.0002)
        self._rest()  # it has looked again since, and nothing was ready
        return result

    def moved(self, act: Callable[[], T]) -> T:
        """As noticed(), for bytes of a long reply: returns when for 100 ms the server has had no room for more. An
        acknowledgement may be that late."""
        result = self.noticed(act)
        rounds, since, end = self.rounds, time.monotonic(), time.monotonic() + limit(5)
        while time.monotonic() < min(since + 0.1, end):
            time.sleep(0.005)
            if self.rounds != rounds:
                rounds, since = self.rounds, time.monotonic()
        self._rest()
        return result

    def connect(self, server: Server, **options: object) -> Conn:
        """A connection that the server has accepted."""
        return self.noticed(lambda: server.connect(**options))

    def close(self, conn: Conn) -> None:
        """Closes a connection; returns when the server has noticed."""
        self.noticed(conn.close)

    def send(self, conn: Conn, data: bytes) -> None:
        """Sends bytes that get no answer; returns when the server has read them."""
        self.noticed(lambda: conn.send(data))

    def is_open(self, conn: Conn) -> bool:
        """Is the connection still there? To be asked when the server rests, and no reply is on its way."""
        return not readable(conn)
