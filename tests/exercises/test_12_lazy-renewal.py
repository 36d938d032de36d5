"""12-lazy-renewal: a node is moved once in 100 ms at most; nobody is closed early, and nobody much too late."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Dict, List, Tuple

from fake_clock import Clock
from grading import Counted, Submission, points
from harness import Conn, Server

TIMEOUT = 5000
LATE = 100  # ms
COUNTED = """\
@@ dlist.h, dlist_insert_before()
     target->prev->next = node;
+    count_mark();

@@ dlist.h
 #include <stdbool.h>
+
+void count_mark(void);
"""


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of idle connections, of zero as the timeout, and of connections that come and go."""
    work.chapter_tests("idle_connections_are_closed or zero_means_never or come_stall_and_go or half_a_request")


def talk(clock: Clock, moved: Counted, conns: List[Conn], ms: int, each_ms: int) -> int:
    """All connections ask once, every each_ms, for ms milliseconds. Returns how often nodes were moved."""
    moved.reset()
    for _ in range(ms // each_ms):
        for conn in conns:
            conn.ask("get", "k", expect=None)
        clock.step(each_ms)
    return moved["mark"]


@points(3, "how often nodes are moved")
def test_moves(work: Submission) -> None:
    """A connection asks every millisecond for a second; then five of them do so; then they ask once every 100 ms."""
    with Clock(work, COUNTED) as clock, work.count("mark") as moved, clock.server(
        IDLE_TIMEOUT_MS=TIMEOUT
    ) as server, ExitStack() as stack:
        conns = [stack.enter_context(clock.connect(server))]
        came = talk(clock, moved, conns, 1000, 1)
        work.expect(
            came <= 11,
            tried="one connection asks every millisecond, a thousand times",
            came=f"its node was moved {came} times",
            expected="10 times, or 11: once in 100 ms",
            cause="does a read move it, and the write that follows move it again?",
        )
        work.expect(
            came >= 9, tried="one connection asks every millisecond, a thousand times",
            came=f"its node was moved {came} times", expected="about 10 times: it must come to the end now and then",
        )  # fmt: skip
        conns += [stack.enter_context(clock.connect(server)) for _ in range(4)]
        came = talk(clock, moved, conns, 300, 1)
        work.expect(
            10 <= came <= 20,
            tried="five connections ask in turn, every millisecond, for 300 ms",
            came=f"nodes were moved {came} times",
            expected="15 times, 3 for each",
            cause="does each connection have a time of its own at which it was moved?",
        )
        clock.step(200)
        came = talk(clock, moved, conns, 1000, 100)
        work.expect(
            came >= 45, tried="five connections ask once every 100 ms, ten times",
            came=f"nodes were moved {came} times", expected="about 50 times: 100 ms have passed each time",
        )  # fmt: skip


def silence(clock: Clock, server: Server, stack: ExitStack) -> List[Tuple[int, int]]:
    """Twelve connections speak at any time for a second, then fall silent. Returns for each how long it was idle when
    it was seen open last, and when it was seen closed first."""
    rng = random.Random(12)
    conns = [stack.enter_context(clock.connect(server)) for _ in range(12)]
    spoke: Dict[Conn, int] = {conn: clock.now_ms for conn in conns}
    for _ in range(400):
        clock.step(rng.choice([0, 1, 1, 2, 3, 7]))
        conn = rng.choice(conns)
        conn.ask("get", "k", expect=None)
        spoke[conn] = clock.now_ms
    seen: Dict[Conn, int] = dict.fromkeys(conns, 0)
    found: Dict[Conn, Tuple[int, int]] = {}
    last = max(spoke.values()) + TIMEOUT + LATE + 2
    clock.step(min(spoke.values()) + TIMEOUT - 50 - clock.now_ms)
    while clock.now_ms <= last:
        for conn in set(conns) - set(found):
            idle = clock.now_ms - spoke[conn]
            if clock.is_open(conn):
                seen[conn] = idle
            else:
                found[conn] = (seen[conn], idle)
        clock.step(1)
    return [found.get(conn, (seen[conn], -1)) for conn in conns]


@points(3, "nobody early")
def test_nobody_early(work: Submission) -> None:
    """Twelve connections speak at any time, four hundred times, and then fall silent. Is anyone closed too early?"""
    with Clock(work, COUNTED) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server, ExitStack() as stack:
        for _, closed in silence(clock, server, stack):
            work.expect(
                closed < 0 or closed > TIMEOUT,
                came=f"a connection was closed when it had been idle for {closed} ms",
                expected="more than 5000 ms",
                cause="which of the two times does the timer look at: that of the last byte, or that of the last move?",
            )
    with Clock(work, COUNTED) as clock, clock.server(IDLE_TIMEOUT_MS=60) as server, clock.connect(server) as conn:
        for _ in range(20):
            clock.step(50)
            work.expect(clock.is_open(conn), tried="with IDLE_TIMEOUT_MS=60 a connection asks every 50 ms",
                        came="it was closed", expected="it stays: it has never been idle for 60 ms",
                        cause="is the time of the last byte written every time?")  # fmt: skip
            conn.ask("get", "k", expect=None)


@points(2, "nobody late, and no spinning")
def test_nobody_late(work: Submission) -> None:
    """The same twelve: is anyone closed more than 100 ms too late? And how often is poll() called when one of them is
    due?"""
    with Clock(work, COUNTED) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server, ExitStack() as stack:
        before = clock.rounds
        for seen, closed in silence(clock, server, stack):
            work.expect(
                0 < closed <= TIMEOUT + LATE + 1,
                came=f"a connection was still open when it had been idle for {seen} ms",
                expected="closed after 5000 ms, or up to 100 ms more",
                cause=(
                    "how far can the first of the list be ahead of those behind it? Is it moved when 100 ms have"
                    " passed?"
                ),
            )
        work.expect(
            clock.rounds - before < 900, came=f"poll() was called {clock.rounds - before} times",
            expected="some 450 times, for 400 requests and twelve timers",
        )  # fmt: skip
    with Clock(work, COUNTED) as clock, clock.server(IDLE_TIMEOUT_MS=TIMEOUT) as server, clock.connect(server) as conn:
        conn.ask("get", "k", expect=None)
        clock.step(90)
        conn.ask("get", "k", expect=None)
        clock.rest()
        before = clock.rounds
        clock.step(4911)
        work.expect(
            clock.rounds - before <= 2,
            tried="a connection speaks 90 ms after it was moved, and falls silent",
            came=f"poll() was called {clock.rounds - before} times when its place in the list was due, and it was not",
            expected="once at most",
        )
        clock.step(89)
        work.expect(clock.is_open(conn), came="it was closed after 5000 ms", expected="more than 5000 ms")
        clock.step(1 + LATE)
        work.expect(not clock.is_open(conn), came="it is still open after 5101 ms", expected="closed")
