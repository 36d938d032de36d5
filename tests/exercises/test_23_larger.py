"""23-larger: an option of `scan` that leaves out small values, and changes nothing about how far a call goes."""
from __future__ import annotations

from typing import List, Tuple

from grading import Submission, points
from harness import Conn, Err, Server

SIZES = (0, 1, 7, 8, 9, 100, 5000)


def walk(conn: Conn, *options: str) -> Tuple[List[bytes], int]:
    """A whole walk: its keys, and how many calls it took."""
    found: List[bytes] = []
    cursor, calls = b"0", 0
    while calls == 0 or (cursor != b"0" and calls < 5000):
        cursor, keys = conn.ask("scan", cursor.decode(), *options)  # type: ignore[misc]
        found += keys
        calls += 1
    return found, calls


@points(3, "strings and sets of many sizes")
def test_sizes(work: Submission) -> None:
    """Strings of 0 to 5000 bytes, sets of 1 to 5000 pairs: which of them does a walk return?"""
    with Server(23) as server, server.connect() as conn:
        for size in SIZES:
            conn.ask("set", f"string:{size}", "x" * size)
            if size > 0:
                conn.ask("zadd", f"zset:{size}", *(word for i in range(size) for word in (str(i), f"n{i}")))
        for n in (*SIZES, 2, 4999, 5001, 2**62):
            for options, kinds in (([], ("string", "zset")), (["type", "zset"], ("zset",)),
                                   (["match", "string*"], ("string",))):  # fmt: skip
                expected = {f"{kind}:{size}" for kind in kinds for size in SIZES
                            if size >= n and (size > 0 or kind == "string")}  # fmt: skip
                found = {key.decode() for key in walk(conn, *options, "larger", str(n))[0]}
                work.expect(
                    found == expected,
                    came=f"a walk with {' '.join([*options, 'larger', str(n)])} found {sorted(found)}",
                    expected=str(sorted(expected)), cause="what is the size of a set?",
                )  # fmt: skip


@points(2, "how far a call goes")
def test_calls(work: Submission) -> None:
    """3,000 small keys, and a walk for large ones: it takes as many calls as one that returns all."""
    with Server(23) as server, server.connect() as conn:
        conn.ask("mset", *(word for i in range(3000) for word in (f"key:{i}", "v")))
        _, as_many = walk(conn, "count", "10")
        found, calls = walk(conn, "count", "10", "larger", "1000")
        work.expect(
            not found and as_many - 2 <= calls <= as_many + 2,
            came=f"a walk that returned {len(found)} keys took {calls} calls, and one that returns all {as_many}",
            expected="as many", cause="COUNT is how many keys a call looks at: what do you count?",
        )  # fmt: skip


@points(2, "errors, and the dead")
def test_errors(work: Submission) -> None:
    """What is no number, what is below 0, a word without a number; keys whose time is up."""
    no_int, syntax = Err(4, "ERR value is not an integer or out of range"), Err(4, "ERR syntax error")
    with Server(23) as server, server.connect() as conn:
        for options, error in ((["larger", "x"], no_int), (["larger", "-1"], syntax), (["larger"], syntax),
                               (["larger", "1", "larger", ""], no_int),
                               (["count", "0", "larger", "1"], syntax)):  # fmt: skip
            conn.ask("scan", "0", *options, expect=error)
        conn.ask("set", "dead", "x" * 100, "pxat", "1")
        conn.ask("set", "alive", "x" * 100)
        conn.ask("scan", "0", "LARGER", "5000", "larger", "100", expect=[b"0", [b"alive"]])
        size = conn.ask("dbsize")
        work.expect(size == 1, came=f"a dead key was walked over, and dbsize is {size}", expected="1: it is deleted")


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """Some tests of chapter 23 that walk over keys."""
    work.chapter_tests("errors_of_scan or match_and_type or expired_keys_are_not")
