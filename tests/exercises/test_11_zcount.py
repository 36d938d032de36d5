"""11-zcount: how many pairs have a score within bounds, in O(log n)."""
from __future__ import annotations

import random

from cases.zsets import Pairs, add_all
from grading import Submission, points
from harness import Err, Server
from harness.wire import ERR_ARG, ERR_TYPE
from lab import counting_server


def between(pairs: Pairs, low: float, high: float) -> int:
    return sum(low <= score <= high for score, _ in pairs.pairs)


@points(2, "what was there before")
def test_as_before(work: Submission) -> None:
    """The chapter's tests: pairs come, change and go; offsets from each rank; types; a set that is emptied."""
    work.chapter_tests("pairs_come_change_and_go or every_rank or on_every_type or emptied_set")


@points(4, "zcount against a model")
def test_zcount(work: Submission) -> None:
    """Sets of up to forty pairs, some of equal scores. All bounds: scores that pairs have, and scores between them."""
    rng = random.Random(12)
    with Server(11) as server, server.connect() as conn:
        for size in (1, 2, 3, 7, 20, 40):
            key, pairs = f"z{size}", Pairs()
            for i in range(size):
                pairs.add(rng.randrange(size // 2 + 1) / 2, b"n%d" % i)
            add_all(conn, key, rng.sample(pairs.pairs, size))
            bounds = sorted({score for score, _ in pairs.pairs} | {score + 0.25 for score, _ in pairs.pairs} | {-1.0})
            asked = [(low, high) for low in bounds for high in bounds]
            conn.pipeline([("zcount", key, *each) for each in asked], [between(pairs, *each) for each in asked])
        for _, name in rng.sample(pairs.pairs, 30):
            conn.ask("zrem", "z40", name, expect=pairs.remove(name))
            conn.ask("zcount", "z40", 2, 7, expect=between(pairs, 2, 7))


@points(2, "the ends")
def test_ends(work: Submission) -> None:
    """Pairs with infinite scores, with 0, and with scores that differ in the last bit alone."""
    inf, close = float("inf"), [1.0, 1.0000000000000002, 1.0000000000000004]
    pairs = Pairs()
    for i, score in enumerate([-inf, -inf, -5e-324, 0.0, 0.0, 5e-324, *close, 1.7976931348623157e308, inf, inf, inf]):
        pairs.add(score, b"n%d" % i)
    bounds = ["-inf", "-1e308", "-5e-324", "-0", "0", "5e-324", *map(repr, close), "1.7976931348623157e308", "inf"]
    asked = [(low, high) for low in bounds for high in bounds]
    with Server(11) as server, server.connect() as conn:
        add_all(conn, "z", pairs.pairs)
        conn.pipeline(
            [("zcount", "z", *each) for each in asked], [between(pairs, float(a), float(b)) for a, b in asked]
        )


@points(2, "what is not there, and errors")
def test_errors(work: Submission) -> None:
    """No such key, a key that holds a string, bounds that are no numbers, too few and too many arguments."""
    with Server(11) as server, server.connect() as conn:
        conn.ask("zcount", "z", 0, 1, expect=0)
        conn.ask("keys", expect=[])
        conn.ask("zadd", "z", 1, "n", expect=1)
        conn.ask("set", "s", "text", expect=None)
        conn.ask("zcount", "s", 0, 1, expect=Err(ERR_TYPE))
        for bad in ("", "x", "nan", "1e400", " 1", "0x1", "(1", "1\0"):
            conn.ask("zcount", "z", bad, 1, expect=Err(ERR_ARG))
            conn.ask("zcount", "z", 1, bad, expect=Err(ERR_ARG))
        conn.ask("zcount", "z", 0, expect=Err(ERR_ARG))
        conn.ask("zcount", "z", 0, 1, 2, expect=Err(ERR_ARG))
        conn.ask("zcount", "z", 0, 1, expect=1)


@points(4, "the work of a count")
def test_work(work: Submission) -> None:
    """Twenty thousand pairs, each with a score of its own, then all with one. How many functions does the server
    enter?"""
    n = 20_000
    with work.count("strcmp") as counted, counting_server(work).server() as server, server.connect() as conn:
        add_all(conn, "z", [(i, f"n{i}") for i in range(n)])
        add_all(conn, "one", [(7, f"n{i}") for i in range(n)])
        for key, low, high, expected in (
            ("z", 1000, 18_999, 18_000), ("z", "-inf", "inf", n), ("one", 7, 7, n), ("one", "-inf", 6, 0)
        ):
            counted.reset()
            conn.ask("zcount", key, low, high, expect=expected)
            work.expect(
                counted["strcmp"] <= 600,
                came=f"{counted['strcmp']} for `zcount {key} {low} {high}`, which is {expected}",
                expected="at most 600: the tree has some 16 levels",
                cause="does it go through the pairs that lie in between, or through those before?",
            )
