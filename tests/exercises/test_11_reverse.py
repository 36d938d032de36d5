"""11-reverse: zrevquery lists pairs from the greater to the smaller ones."""
from __future__ import annotations

import bisect
import random
from typing import List

from cases.zsets import Pairs, add_all
from grading import Submission, points
from harness import Err, Server
from harness.model import INT64_MAX, INT64_MIN
from harness.wire import ERR_ARG, ERR_TYPE
from lab import counting_server


def backwards(pairs: Pairs, score: float, name: bytes, offset: int, limit: int) -> List[object]:
    """What zrevquery answers."""
    at = bisect.bisect_right(pairs.pairs, (score, name)) - 1 - offset
    if not 0 <= at < len(pairs.pairs) or limit <= 0:
        return []
    return [value for pair in pairs.pairs[at::-1][:limit] for value in (pair[1], pair[0])]


@points(2, "what was there before")
def test_as_before(work: Submission) -> None:
    """The chapter's tests: pairs come, change and go; offsets from each rank; types; limits."""
    work.chapter_tests("pairs_come_change_and_go or every_rank or on_every_type or limits_count_pairs")


@points(5, "every start, every offset")
def test_starts(work: Submission) -> None:
    """Sets of one to twenty pairs, some of equal scores. Starts at each pair, between two, beyond both ends; all
    offsets."""
    with Server(11) as server, server.connect() as conn:
        for size in (1, 2, 3, 8, 20):
            key, pairs = f"z{size}", Pairs()
            for i in range(size):
                pairs.add(i // 3, b"n%02d" % i)
            add_all(conn, key, random.Random(size).sample(pairs.pairs, size))
            starts = [
                *pairs.pairs, *((score, name + b"\0") for score, name in pairs.pairs),
                *((score, name[:2]) for score, name in pairs.pairs)
            ]  # fmt: skip
            starts += [(score + 0.5, b"n") for score, _ in pairs.pairs]
            starts += [(-0.5, b""), (float("-inf"), b""), (size + 0.0, b"z"), (float("inf"), b"")]
            asked = [(score, name, offset, 2) for score, name in starts for offset in range(-size - 2, size + 3)]
            conn.pipeline([("zrevquery", key, *each) for each in asked], [backwards(pairs, *each) for each in asked])


@points(2, "limits, and far offsets")
def test_limits(work: Submission) -> None:
    """Limits from below 0 to beyond all pairs, and offsets up to the ends of 64 bits."""
    pairs = Pairs()
    for i in range(12):
        pairs.add(i // 2, b"n%02d" % i)
    far = [INT64_MIN, INT64_MIN + 1, INT64_MIN + 2, -(2**32), -(2**32) - 1, 2**32, 2**32 + 1, INT64_MAX - 1, INT64_MAX]
    with Server(11) as server, server.connect() as conn:
        add_all(conn, "z", pairs.pairs)
        for score, name in ((float("inf"), b""), (3.0, b"n06"), (3.0, b"n065"), (-1.0, b"")):
            for most in (INT64_MIN, -1, 0, 1, 5, 6, 7, 100, 2**32, INT64_MAX):
                for offset in (0, 1, -1, -3):
                    conn.ask(
                        "zrevquery", "z", score, name, offset, most, expect=backwards(pairs, score, name, offset, most)
                    )
            for offset in far:
                conn.ask("zrevquery", "z", score, name, offset, 3, expect=[])


@points(2, "what is not there, and errors")
def test_errors(work: Submission) -> None:
    """No such key, a key that holds a string, numbers that are none, too few and too many arguments."""
    with Server(11) as server, server.connect() as conn:
        conn.ask("zrevquery", "z", "inf", "", 0, 10, expect=[])
        conn.ask("keys", expect=[])
        conn.ask("zadd", "z", 1, "n", expect=1)
        conn.ask("set", "s", "text", expect=None)
        conn.ask("zrevquery", "s", "inf", "", 0, 10, expect=Err(ERR_TYPE))
        for bad in ("", "x", "nan", "1e400"):
            conn.ask("zrevquery", "z", bad, "", 0, 10, expect=Err(ERR_ARG))
        for bad in ("", "x", "1.5", "-", "9223372036854775808"):
            conn.ask("zrevquery", "z", 1, "", bad, 10, expect=Err(ERR_ARG))
            conn.ask("zrevquery", "z", 1, "", 0, bad, expect=Err(ERR_ARG))
        conn.ask("zrevquery", "z", 1, "", 0, expect=Err(ERR_ARG))
        conn.ask("zrevquery", "z", 1, "", 0, 1, 1, expect=Err(ERR_ARG))
        conn.ask("zrevquery", "z", 1, "n", 0, 10, expect=[b"n", 1.0])


@points(3, "the work of a page")
def test_work(work: Submission) -> None:
    """Twenty thousand pairs, and pages of ten, from the top and from far down. How many functions does the server
    enter?"""
    n = 20_000
    pairs = Pairs()
    for i in range(n):
        pairs.add(i, b"n%d" % i)
    with work.count("strcmp") as counted, counting_server(work).server() as server, server.connect() as conn:
        add_all(conn, "z", pairs.pairs)
        for offset in (0, 10_000, n - 10):
            counted.reset()
            conn.ask("zrevquery", "z", "inf", "", offset, 10, expect=backwards(pairs, float("inf"), b"", offset, 10))
            work.expect(
                counted["strcmp"] <= 2500,
                came=f"{counted['strcmp']} for ten pairs at the offset {offset}",
                expected="at most 2500, wherever the page is: the tree has some 16 levels",
                cause="does it go from pair to pair to the place, or through the set from its other end?",
            )
