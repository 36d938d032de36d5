"""26-hunt-silence: who has had too much for a minute is closed, and only who has had too much all that time."""
from __future__ import annotations

import re
import select
from contextlib import contextmanager
from typing import Iterator, List

from fake_clock import Clock
from grading import Submission, points
from harness import Conn, Server, limit

SOFT = 1 << 20  # bytes that may wait for longer than a minute
SIZE = 500_000  # of a message
SINCE = "when does the minute begin, and what ends it?"


def message(payload: bytes) -> bytes:
    return b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n" % (len(payload), payload)


class Recorder:
    """A subscriber that reads when it is told to, beside somebody who publishes."""

    def __init__(self, work: Submission, clock: Clock, server: Server, conn: Conn, speaker: Conn) -> None:
        self.work, self.clock, self.server, self.conn, self.speaker = work, clock, server, conn, speaker
        self.expected = bytearray()  # what it has not read yet
        speaker.ask("config", "set", "client-output-buffer-limit", "pubsub 32mb 1mb 60")
        conn.ask("subscribe", "c")

    def publish(self, times: int) -> None:
        for _ in range(times):
            payload = b"%d" % len(self.expected) * SIZE
            self.speaker.ask("publish", "c", payload[:SIZE])
            self.expected += message(payload[:SIZE])

    @property
    def waits(self) -> int:
        """How many bytes wait for it in the server; -1 where its connection is closed."""
        text = bytes(self.speaker.ask("client", "list")).decode()  # type: ignore[call-overload]
        found: List[str] = re.findall(r" sub=1 .* omem=(\d+)", text)
        return int(found[0]) if found else -1

    def read(self, most: int) -> None:
        """Reads until no more than this waits for it."""
        while self.waits > most:
            if not select.select([self.conn.sock], [], [], limit(5))[0]:
                self.work.fail(came=f"{self.waits} bytes wait for a subscriber that reads, and none comes",
                               expected="the rest of the messages")  # fmt: skip
            data = self.conn.sock.recv(1 << 16)
            self.work.expect(
                data and self.expected.startswith(data), came=f"other bytes than were published: {data[:60]!r}...",
                expected=f"{bytes(self.expected[:60])!r}...",
            )  # fmt: skip
            del self.expected[: len(data)]
        self.clock.rest()

    def reads_all(self) -> None:
        """All that was published comes."""
        self.read(0)
        self.conn.expect_bytes(bytes(self.expected))
        self.expected.clear()

    def expect_open(self, said: str) -> None:
        self.work.expect(self.waits >= 0, came=f"{said}: its connection is closed", expected="it is open", cause=SINCE)

    def expect_closed(self, said: str) -> None:
        self.work.expect(self.waits < 0, came=f"{said}: its connection is still open", expected="it is closed",
                         cause=SINCE)  # fmt: skip


@contextmanager
def recorder(work: Submission) -> Iterator[Recorder]:
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect(rcvbuf=65536) as conn:
        with server.connect() as speaker:
            yield Recorder(work, clock, server, conn, speaker)


@points(4, "has caught up")
def test_caught_up(work: Submission) -> None:
    """More than the limit waits for a subscriber; a second later it has read so much that it is less, but never all,
    for two minutes in which messages go on coming. Then it reads the rest."""
    with recorder(work) as it:
        it.publish(6)
        it.clock.step(1000)
        it.read(SOFT - 200_000)
        for second in range(10, 130, 10):
            it.clock.step(10_000)
            waits = it.waits
            it.expect_open(f"more than {SOFT} bytes waited for one second, and less for {second} s since")
            assert 0 < waits < SOFT, waits
            it.read(waits - 100_000 if waits > 600_000 else waits)
            if it.waits < 500_000:
                it.publish(1)
        it.reads_all()


@points(2, "twice")
def test_twice(work: Submission) -> None:
    """More than the limit waits at 0 s, less from 10 s on, more again from 50 s on."""
    with recorder(work) as it:
        it.publish(6)
        it.clock.step(10_000)
        it.read(SOFT - 200_000)
        it.clock.step(40_000)
        it.publish(3)
        for ms in (10_001, 30_000, 19_999):
            it.clock.step(ms)
            it.expect_open("it had too much for 10 s, then not for 40 s, and then for a minute at most")
        it.clock.step(1)
        it.expect_closed("it had too much for 10 s, then not for 40 s, and now for more than a minute")


@points(2, "does not read")
def test_deaf(work: Submission) -> None:
    """More than the limit waits all the time, for one that reads nothing, and for one that reads, but too little."""
    for reads in (False, True):
        said = "it reads a little every 20 s, but more than the limit waits" if reads else "it reads nothing"
        with recorder(work) as it:
            it.publish(12)
            for _ in range(3):
                it.clock.step(20_000)
                it.expect_open(f"{said}, for a minute at most")
                if reads:
                    it.read(it.waits - 300_000)
            it.clock.step(1)
            it.expect_closed(f"{said}, for more than a minute")
    with recorder(work) as it:
        it.speaker.ask("config", "set", "client-output-buffer-limit", "pubsub 2mb 1mb 60")
        it.publish(7)
        it.expect_closed("the hard limit is 2 MB, and 3 MB wait")


@points(2, "every byte")
def test_bytes(work: Submission) -> None:
    """Messages wait in part, and are read in pieces of all sizes."""
    with recorder(work) as it:
        for _ in range(4):
            it.publish(3)
            it.read(SIZE + 100_000)
            it.publish(1)
            it.read(SIZE // 2)
        it.reads_all()
