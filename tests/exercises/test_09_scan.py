"""09-scan: a scan lists every key that is there all the time, while the table grows, in small replies."""
from __future__ import annotations

import random
from collections import Counter
from typing import Callable, List, Set

from grading import Submission, points
from harness import Conn, Err, Server, wire

SEED = {"HASH_SEED": "0123456789abcdef0123456789abcdef"}  # so that every run sees the same table
ROOM = 100  # keys that a call may list above its count


def one_call(work: Submission, conn: Conn, cursor: int, count: int) -> List[object]:
    """The next cursor and the keys; their form is looked at."""
    reply = conn.ask("scan", cursor, count)
    right = (
        isinstance(reply, list) and len(reply) == 2 and isinstance(reply[0], int) and reply[0] >= 0
        and isinstance(reply[1], list) and all(isinstance(key, bytes) for key in reply[1])
    )  # fmt: skip
    work.expect(
        right, tried=f"scan {cursor} {count}", came=wire.show_value(reply)[:300],
        expected="(arr) of two: an (int), the next cursor, and an (arr) of strings",
    )
    assert isinstance(reply, list)
    work.expect(
        len(reply[1]) <= count + ROOM, tried=f"scan {cursor} {count}", came=f"{len(reply[1])} keys in one call",
        expected=f"about {count}, and no more than {count + ROOM}",
    )
    work.expect(
        reply[0] == 0 or len(reply[1]) >= count, tried=f"scan {cursor} {count}",
        came=f"{len(reply[1])} keys, and the cursor {reply[0]}",
        expected=f"{count} keys at least, where it is not the end",
    )
    return reply


def whole_scan(
    work: Submission, conn: Conn, count: int, between: Callable[[], None], most_calls: int
) -> "Counter[bytes]":
    """How often each key is listed; `between` is called between two calls."""
    listed: "Counter[bytes]" = Counter()
    cursor, calls = 0, 0
    while True:
        cursor, keys = one_call(work, conn, cursor, count)  # type: ignore[assignment]
        listed.update(keys)  # type: ignore[arg-type]
        calls += 1
        if cursor == 0:
            return listed
        work.expect(
            calls < most_calls, tried=f"a scan with count {count}",
            came=f"after {calls} calls the cursor was still not 0",
            expected="it comes to an end: the table has only so many buckets", cause="does the cursor run in a circle?",
        )
        between()


def fill(conn: Conn, names: List[str]) -> Set[bytes]:
    """Sets the keys."""
    conn.pipeline([("set", name, "v") for name in names], [None] * len(names))
    return {name.encode() for name in names}


def expect_all(work: Submission, listed: "Counter[bytes]", keys: Set[bytes], tried: str, cause: str) -> None:
    """All keys have been listed."""
    missing = sorted(keys - set(listed))
    work.expect(
        not missing,
        tried=tried,
        came=f"{len(missing)} of {len(keys)} keys are missing, the first of them {wire.show_bytes(missing[0])}"
        if missing
        else "",
        expected="every key that is there from the first call to the last is listed",
        cause=cause,
    )


def growing(work: Submission, n: int, count: int, more: int) -> "tuple[Counter[bytes], Set[bytes], str]":
    """A scan of n keys, with `more` new ones between two calls."""
    with Server(9, env=SEED) as server, server.connect() as conn:
        keys = fill(conn, [f"key{i}" for i in range(n)])
        new = 0

        def between() -> None:
            nonlocal new
            fill(conn, [f"new{i}" for i in range(new, new + more)])
            new += more

        listed = whole_scan(work, conn, count, between, 4 * n + 100)
        return listed, keys, f"a scan of {n} keys with count {count}, with new keys after each call ({more})"


GROWING = [(7, 1, 1), (60, 1, 1), (200, 3, 2), (500, 5, 1), (1020, 8, 2), (1024, 4, 4), (1030, 9, 1), (1100, 20, 40)]


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: keys at every size, replies byte for byte, names and numbers of arguments."""
    work.chapter_tests("keys_at_every_size or keys_lists or byte_for_byte or names_ or wrong_numbers or a_key_comes")


@points(3, "a table at rest")
def test_at_rest(work: Submission) -> None:
    """Scans of tables of 0 to 3000 keys, which do not change, with counts of 1 to a million."""
    with Server(9, env=SEED) as server, server.connect() as conn:
        keys: Set[bytes] = set()
        for n in (0, 1, 5, 8, 9, 10, 17, 40, 65, 70, 300, 512, 513, 560, 2000):
            keys |= fill(conn, [f"key{i}" for i in range(len(keys), n)])
            for count in (1, 10, 1000, 1_000_000):
                if n > 100 and count == 1:
                    continue
                tried = f"a scan of {n} keys with count {count}, while nothing changes"
                listed = whole_scan(work, conn, count, lambda: None, 4 * n + 100)
                expect_all(work, listed, keys, tried, "in which of the two tables, and in which buckets, can a key be?")
                strange = sorted(set(listed) - keys)
                work.expect(
                    not strange, tried=tried, came=f"keys that were never set: {strange[:3]}",
                    expected="the keys that are there",
                )  # fmt: skip
                often = [key for key, times in listed.items() if times > 1]
                work.expect(
                    not often, tried=tried, came=f"{len(often)} keys were listed more than once",
                    expected="each key once: the table has not changed",
                    cause="while the table is growing, is a bucket of the newer one visited from two sides?",
                )


@points(4, "a table that grows")
def test_growing(work: Submission) -> None:
    """Scans during which new keys come, so that the table grows between the calls, in some of them several times."""
    for n, count, more in GROWING:
        listed, keys, tried = growing(work, n, count, more)
        expect_all(
            work, listed, keys, tried,
            "where is a key while the table grows, and where when it has grown? Which numbers have its buckets?",
        )  # fmt: skip


@points(2, "few keys twice")
def test_repeats(work: Submission) -> None:
    """The same scans: how many keys are listed more than once?"""
    for n, count, more in GROWING[3:]:
        listed, keys, tried = growing(work, n, count, more)
        expect_all(work, listed, keys, tried, "where is a key while the table grows, and where when it has grown?")
        often = sum(1 for key in keys if listed[key] > 1)
        work.expect(
            often < n / 10,
            tried=tried,
            came=f"{often} of {n} keys were listed more than once",
            expected="fewer than one in ten",
            cause=(
                "what has been visited when the table doubles: which of the buckets twice as many are done then? In"
                " which order would these be all before the cursor?"
            ),
        )


@points(1, "keys that go, and two scans")
def test_others(work: Submission) -> None:
    """Two scans in turn, while half of the keys are removed, others come, and all are asked for."""
    rng = random.Random(9)
    with Server(9, env=SEED) as server, server.connect() as conn, server.connect() as other:
        stays = fill(conn, [f"stays{i}" for i in range(700)])
        goes = [f"goes{i}" for i in range(700)]
        fill(conn, goes)
        rng.shuffle(goes)
        second: "Counter[bytes]" = Counter()
        at = 0

        def between() -> None:
            nonlocal at
            at, keys = one_call(work, other, at, 3)  # type: ignore[assignment]
            second.update(keys if at else [])  # type: ignore[arg-type]
            if goes:
                conn.ask("del", goes.pop(), expect=1)
            conn.ask("set", f"new{rng.randrange(10**6)}", "v", expect=None)

        listed = whole_scan(work, conn, 3, between, 10_000)
        tried = "a scan while keys are removed and others set, and a second scan goes on on another connection"
        expect_all(work, listed, stays, tried, "does the server remember anything of a scan?")


@points(2, "arguments")
def test_arguments(work: Submission) -> None:
    """Cursors and counts that are no numbers, or none that are allowed; and cursors that nobody has been given."""
    with Server(9, env=SEED) as server, server.connect() as conn:
        fill(conn, [f"key{i}" for i in range(100)])
        for words in (
            ["scan"], ["scan", "0"], ["scan", "0", "10", "x"], ["scan", "", "10"], ["scan", "0", ""],
            ["scan", "x", "10"], ["scan", "0", "0"],
            ["scan", "0", "-1"], ["scan", "-1", "10"], ["scan", "0", "1.5"], ["scan", "0", "1000001"],
            ["scan", "1 ", "10"], ["scan", " 1", "10"],
            ["scan", "0", "99999999999999999999999"], ["scan", "99999999999999999999999", "10"], ["scan", "0x10", "10"],
            ["scan", "0", "4294967297"],
        ):  # fmt: skip
            came = conn.ask(*words)
            work.expect(
                came == Err(wire.ERR_ARG), tried=" ".join(wire.show_bytes(word.encode()) for word in words),
                came=wire.show_value(came)[:200],
                expected=wire.show_value(Err(wire.ERR_ARG)),
                cause="a number is digits and nothing else, and not too large",
            )
        for cursor in (1, 3, 64, 127, 1000, 2**31, 2**32 + 5, 2**62, 2**63 - 1):
            reply = conn.ask("scan", cursor, 10)
            work.expect(
                isinstance(reply, (list, Err)), tried=f"scan {cursor} 10", came=wire.show_value(reply),
                expected="an array as always, or an error",
            )
        conn.ask("get", "key1", expect=b"v")
