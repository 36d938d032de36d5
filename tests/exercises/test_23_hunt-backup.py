"""23-hunt-backup: a walk returns every key that stays, also while the table grows or shrinks."""
from __future__ import annotations

from typing import Set

from grading import Submission, points
from harness import Conn, Server

STAY = [b"stay:%d" % i for i in range(40)]


def walk(work: Submission, conn: Conn, moment: str) -> None:
    """Walks over all keys. Those that stay must be among them."""
    found: Set[bytes] = set()
    cursor, calls = b"0", 0
    while calls == 0 or cursor != b"0":
        cursor, keys = conn.ask("scan", cursor.decode(), "count", "40")
        found.update(keys)
        calls += 1
        work.expect(
            calls < 3000, came=f"{moment}: scan was called {calls} times, and does not end",
            expected="the cursor 0 after as many calls as there are buckets, at most",
        )  # fmt: skip
    missing = [key.decode() for key in STAY if key not in found]
    work.expect(
        not missing,
        came=f"{moment}: {len(missing)} of {len(STAY)} keys that are there were not returned: {missing[:4]}",
        expected="each key that stays, at least once",
        cause="which buckets of which table does a step visit, if there are two tables?",
    )


def fill(conn: Conn, first: int, last: int) -> None:
    conn.ask("mset", *(word for i in range(first, last) for word in (f"other:{i}", "v")))


@points(2, "still, or growing")
def test_grows(work: Submission) -> None:
    """40 keys that stay, and one more again and again, up to 600. After each: a walk over all keys."""
    with Server(23) as server, server.connect() as conn:
        conn.ask("mset", *(word for key in STAY for word in (key, "v")))
        walk(work, conn, "with 40 keys")
        for i in range(0, 600):
            fill(conn, i, i + 1)
            if i < 80 or 200 < i < 280 or 470 < i < 530:
                walk(work, conn, f"with {41 + i} keys, while they come")


@points(4, "shrinking")
def test_shrinks(work: Submission) -> None:
    """2,000 keys of which all but 40 are deleted. From the last hundred on: a walk after each, and after each of 150
    commands behind them."""
    with Server(23) as server, server.connect() as conn:
        conn.ask("mset", *(word for key in STAY for word in (key, "v")))
        fill(conn, 0, 2000)
        conn.ask("del", *(f"other:{i}" for i in range(60, 2000)))
        for i in range(60):
            conn.ask("del", f"other:{i}")
            walk(work, conn, f"when {1940 + i} of 2,040 keys have been deleted")
        for i in range(150):
            conn.ask("get", "nothing")
            walk(work, conn, f"{i + 1} commands after 2,000 of 2,040 keys have been deleted")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The tests of chapter 23 that walk over keys."""
    work.chapter_tests("breathes or that_grows or that_shrinks or at_rest or match_and_type")
