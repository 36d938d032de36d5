"""22-uses: how often the value of a key was used, counted where all commands find their keys."""
from __future__ import annotations

from typing import Optional, Tuple

from grading import Submission, points
from harness import Conn, Server


def uses(work: Submission, conn: Conn, key: str, expected: Optional[int], after: str) -> None:
    """Asks for the uses of the key, after what was done."""
    got = conn.ask("object", "uses", key)
    work.expect(
        got == expected,
        came=f"after {after}: `object uses {key}` answers {got!r}",
        expected="nil" if expected is None else f"(int) {expected}",
        cause="which function does that command find its key with, and does it count?",
    )


def do(conn: Conn, line: str) -> None:
    conn.ask(*line.split())


def hits_and_misses(conn: Conn) -> Tuple[int, int]:
    text = bytes(conn.ask("info", "stats")).decode()  # type: ignore[arg-type]
    found = dict(line.split(":") for line in text.split("\r\n") if ":" in line)
    return int(found["keyspace_hits"]), int(found["keyspace_misses"])


@points(3, "used, or asked about")
def test_used_or_asked_about(work: Submission) -> None:
    """Commands that use a key, one after the other; then commands that ask about it."""
    with Server(22) as server, server.connect() as conn:
        uses(work, conn, "k", None, "nothing")
        do(conn, "set k 1")
        uses(work, conn, "k", 0, "set k 1, which creates it")
        used = ("get k", "incr k", "strlen k", "mget k k", "append k 5", "touch k", "expire k 100", "persist k",
                "getex k")  # fmt: skip
        n = 0
        for line in used:
            do(conn, line)
            n += 2 if line.startswith("mget") else 1
            uses(work, conn, "k", n, line)
        about = ("exists k k", "type k", "ttl k", "pttl k", "expiretime k", "pexpiretime k", "object encoding k",
                 "object uses k")  # fmt: skip
        for line in about:
            do(conn, line)
            uses(work, conn, "k", n, f"{line}, which asks about the key")
        do(conn, "zadd z 1 a 2 b")
        uses(work, conn, "z", 0, "zadd z 1 a 2 b, which creates it")
        for i, line in enumerate(("zadd z 3 c", "zscore z a", "zrange z 0 -1", "zrem z a"), 1):
            do(conn, line)
            uses(work, conn, "z", i, line)


@points(3, "elsewhere")
def test_elsewhere(work: Submission) -> None:
    """Keys that are overwritten, grow, are renamed, moved and copied."""
    with Server(22) as server, server.connect() as conn:
        do(conn, "set k v")
        for _ in range(10):
            do(conn, "get k")
        do(conn, "set k another-and-longer-value")
        uses(work, conn, "k", 11, "ten times get k, and set k with a longer value")
        conn.ask("append", "k", "x" * 5000)
        uses(work, conn, "k", 12, "an append of 5,000 bytes")
        for line, key in (("rename k a-longer-name", "a-longer-name"), ("move a-longer-name 3", "a-longer-name")):
            before = 12
            do(conn, line)
            if line.startswith("move"):
                do(conn, "select 3")
            got = conn.ask("object", "uses", key)
            work.expect(
                got in range(before, before + 5), came=f"after {line}: `object uses` answers {got!r}, {before} before",
                expected="what it was before, or a few more", cause="is the entry the same one afterwards?",
            )  # fmt: skip
        before = int(conn.ask("object", "uses", "a-longer-name"))  # type: ignore[call-overload]
        do(conn, "copy a-longer-name copy")
        uses(work, conn, "copy", 0, "copy a-longer-name copy")
        uses(work, conn, "a-longer-name", before + 1, "copy a-longer-name copy, which reads it")
        do(conn, "zadd z 1 a")
        do(conn, "zscore z a")
        do(conn, "copy z y")
        uses(work, conn, "y", 0, "copy z y, where z is a sorted set")
        do(conn, "del z")
        do(conn, "zadd z 1 a")
        uses(work, conn, "z", 0, "del z and zadd z 1 a: it is another key")


@points(2, "hits and misses")
def test_hits_and_misses(work: Submission) -> None:
    """The counters of `info stats`, which count commands that use a key and those that ask about it."""
    rows = [("get k", 1, 0), ("exists k no", 1, 1), ("touch k no", 1, 1), ("ttl k", 1, 0), ("type no", 0, 1),
            ("set k v", 0, 0), ("append k v", 0, 0), ("object encoding k", 1, 0), ("object uses k", 1, 0)]  # fmt: skip
    with Server(22) as server, server.connect() as conn:
        do(conn, "set k v")
        for line, hits, misses in rows:
            do(conn, "config resetstat")
            do(conn, line)
            got = hits_and_misses(conn)
            work.expect(
                got == (hits, misses), came=f"{line}: {got[0]} hits and {got[1]} misses",
                expected=f"{hits} and {misses}, as before", cause="a use and a hit are not the same thing",
            )  # fmt: skip


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """Some tests of chapter 22."""
    work.chapter_tests("rename or move or copy or hits")
