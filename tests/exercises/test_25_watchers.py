"""25-watchers: how many connections watch a key, asked of the owner of the table."""
from __future__ import annotations

import time

from grading import Submission, points
from harness import Conn, Server


def watchers(work: Submission, conn: Conn, key: str, expected: int, after: str) -> None:
    """Asks for the watchers of the key, after what was done."""
    got = conn.ask("object", "watchers", key)
    work.expect(
        got == expected, came=f"after {after}: `object watchers {key}` answers {got!r}", expected=f"(int) {expected}",
        cause="who is in the list of that key now?",
    )  # fmt: skip


def hits_and_misses(conn: Conn) -> str:
    text = bytes(conn.ask("info", "stats")).decode()  # type: ignore[arg-type]
    return " and ".join(line for line in text.split("\r\n") if line.startswith("keyspace_"))


@points(3, "they come and go")
def test_come_and_go(work: Submission) -> None:
    """Connections watch a key, and end that by unwatch, exec, discard, reset, by a change, and by hanging up."""
    with Server(25) as server, server.connect() as asks, server.connect() as a, server.connect() as b:
        asks.ask("set", "k", "1")
        watchers(work, asks, "k", 0, "nothing")
        for ends in (("unwatch",), ("multi", "exec"), ("multi", "discard"), ("reset",)):
            a.ask("watch", "k")
            b.ask("watch", "other", "k")
            watchers(work, asks, "k", 2, "watch k of two connections")
            for line in ends:
                a.ask(line)
            watchers(work, asks, "k", 1, f"{' and '.join(ends)} of one of them")
            b.ask("unwatch")
            watchers(work, asks, "k", 0, "unwatch of the other one")
        a.ask("watch", "k")
        with server.connect() as c:
            c.ask("watch", "k")
            watchers(work, asks, "k", 2, "watch k of two connections")
        for _ in range(100):  # until the server has noticed
            if asks.ask("object", "watchers", "k") == 1:
                break
            time.sleep(0.01)
        watchers(work, asks, "k", 1, "one of them has hung up")
        asks.ask("set", "k", "2")
        watchers(work, asks, "k", 0, "a change of the key")


@points(2, "twice, or not there")
def test_twice(work: Submission) -> None:
    """A key that a connection watches twice, and one that is not there."""
    with Server(25) as server, server.connect() as asks, server.connect() as a, server.connect() as b:
        asks.ask("set", "k", "1")
        a.ask("watch", "k", "k", "none")
        a.ask("watch", "k")
        watchers(work, asks, "k", 1, "watch k k none, and watch k, of one connection")
        b.ask("watch", "k", "none")
        watchers(work, asks, "k", 2, "watch k none of another")
        watchers(work, asks, "none", 2, "all of these")
        a.ask("unwatch")
        watchers(work, asks, "k", 1, "unwatch of the first")


@points(2, "databases")
def test_databases(work: Submission) -> None:
    """The same name in two databases is two keys."""
    with Server(25) as server, server.connect() as asks, server.connect() as a:
        a.ask("select", "3")
        a.ask("watch", "k")
        watchers(work, asks, "k", 0, "watch k in database 3")
        asks.ask("select", "3")
        watchers(work, asks, "k", 1, "watch k in database 3, asked there")


@points(2, "no use; the row")
def test_no_use(work: Submission) -> None:
    """Hits and misses before and after; `command info object|watchers`."""
    with Server(25) as server, server.connect() as asks:
        asks.ask("set", "k", "1")
        before = hits_and_misses(asks)
        watchers(work, asks, "k", 0, "nothing")
        watchers(work, asks, "none", 0, "nothing")
        after = hits_and_misses(asks)
        work.expect(before == after, came=f"two questions later: {after}", expected=f"{before}: hits are for uses")
        row = asks.ask("command", "info", "object|watchers")[0]  # type: ignore[index]
        work.expect(
            bool(row) and row[:2] == [b"object|watchers", 3] and row[3:6] == [2, 2, 1],
            came=f"`command info object|watchers` answers {row!r}",
            expected="the name, 3, flags, and the places 2, 2, 1", cause="does the table have a row for it?",
        )  # fmt: skip


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The sessions of the chapter."""
    work.chapter_tests("test_session")
