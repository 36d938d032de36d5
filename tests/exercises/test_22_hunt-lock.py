"""22-hunt-lock: a key whose time is up is in the way of nobody, whichever command comes upon it."""
from __future__ import annotations

import time

from grading import Submission, points
from harness import Conn, Server


def dies_in_database_1(conn: Conn, *make: str) -> None:
    """Puts a key into database 1 that is over at once, and one of the same name into database 0."""
    conn.ask("select", "1")
    conn.ask(*make)
    conn.ask("pexpire", make[1], "1")
    conn.ask("select", "0")
    time.sleep(0.01)


@points(3, "where a dead one was")
def test_dead(work: Submission) -> None:
    """Database 1 has a key whose time is up. `move` of one with the same name, from database 0; then the whole story
    of a worker that dies."""
    with Server(22) as server, server.connect() as conn:
        for make in (("set", "k", "old"), ("zadd", "k", "1", "old")):
            dies_in_database_1(conn, *make)
            conn.ask("set", "k", "new")
            got = conn.ask("move", "k", "1")
            work.expect(
                got == 1, came=f"the time of k in database 1 is up; `move k 1` answers {got!r}", expected="(int) 1",
                cause="who says that the key is there, and does it ask what time it is?",
            )  # fmt: skip
            conn.ask("select", "1")
            found = conn.ask("get", "k")
            work.expect(found == b"new", came=f"`get k` in database 1 answers {found!r} then", expected="new")
            conn.ask("flushall")
            conn.ask("select", "0")
        for turn in range(5):
            conn.ask("set", "job", f"{turn}")
            got = conn.ask("move", "job", "1")
            work.expect(got == 1, came=f"worker {turn + 1}: `move job 1` answers {got!r}",
                        expected="(int) 1: it has it", cause="the one before died, and its time was up")  # fmt: skip
            conn.ask("select", "1")
            conn.ask("pexpire", "job", "1")
            conn.ask("select", "0")
            time.sleep(0.01)


@points(3, "what is alive")
def test_alive(work: Submission) -> None:
    """Keys that are alive stay where they are; and each database counts the keys that it has."""
    with Server(22) as server, server.connect() as conn:
        for more in ([], ["ex", "100"]):
            conn.ask("select", "1")
            conn.ask("set", "k", "old", *more)
            conn.ask("select", "0")
            conn.ask("set", "k", "new")
            got = conn.ask("move", "k", "1")
            work.expect(got == 0, came=f"k is there in database 1; `move k 1` answers {got!r}", expected="(int) 0",
                        cause="what is alive must not be replaced")  # fmt: skip
            conn.ask("flushall")
        dies_in_database_1(conn, "set", "k", "old")
        conn.ask("set", "k", "new")
        conn.ask("move", "k", "1")
        conn.ask("select", "1")
        size = conn.ask("dbsize")
        work.expect(size == 1, came=f"one key was moved to where a dead one was: dbsize says {size!r}",
                    expected="(int) 1",
                    cause="the table has two entries with one key: who took the dead one out?")  # fmt: skip
        conn.ask("del", "k")
        work.expect(conn.ask("get", "k") is None, came="after `del k`, there is a k again", expected="nil")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The tests of chapter 22 that take a key elsewhere."""
    work.chapter_tests("move or copy or rename")
