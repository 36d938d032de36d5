"""24-hunt-starved: the cycle comes to each database, also while one has more to do than a slice can take."""
from __future__ import annotations

from fake_clock import Clock
from grading import Submission, points
from harness import Conn
from harness.resp import OK

MANY, FEW = 30_000, 100  # keys that die in database 0, and in each of the others


def fill(conn: Conn, database: int, n: int) -> None:
    """Keys that live for a second."""
    conn.ask("select", str(database))
    for first in range(0, n, 1000):
        numbers = range(first, min(first + 1000, n))
        conn.pipeline([["set", f"key:{i}", "v", "px", "1000"] for i in numbers], [OK] * len(numbers))


@points(5, "every other database")
def test_others(work: Submission) -> None:
    """30,000 keys die in database 0 and 100 in each of the others, all at once. Then 200 ms pass by the grader's
    clock, on which a slice has time for some fifty keys."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        fill(conn, 0, MANY)
        for database in range(1, 16):
            fill(conn, database, FEW)
        clock.looks_take(0.1)
        clock.leap(1001)
        for _ in range(200):
            clock.step(1)
        left = {}
        for database in range(1, 16):
            conn.ask("select", str(database))
            left[database] = conn.ask("dbsize")
        starved = [database for database, n in left.items() if n > FEW // 10]
        work.expect(
            not starved,
            came=f"in database {', '.join(map(str, starved))} many of the {FEW} dead keys are still there",
            expected="in each of them nearly all are gone, though database 0 has enough to do for seconds",
            cause="which database is the first one of a slice, when the one before ran out of time?",
        )  # fmt: skip


@points(1, "the one that has much to do")
def test_own(work: Submission) -> None:
    """The same, for as long as it takes: the keys of database 0 go as well."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        fill(conn, 0, MANY)
        clock.leap(1001)
        for _ in range(100):
            clock.step(100)
        left = conn.ask("dbsize")
        work.expect(left == 0, came=f"after ten seconds, {left} of {MANY} dead keys are there", expected="none")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """Some tests of chapter 24: the cycle."""
    work.chapter_tests("keys_nobody_asks_for_go or dead_keys_go or keeps_its_share")
