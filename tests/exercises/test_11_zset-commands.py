"""11-zset-commands: zcard, zincrby and zremrange."""
from __future__ import annotations

import random

from cases.zsets import ALL, Pairs, add_all
from grading import Submission, points
from harness import Conn, Err, Server
from harness.model import INT64_MAX, INT64_MIN
from harness.wire import ERR_ARG, ERR_TYPE


def same_sets(conn: Conn, key: str, pairs: Pairs) -> None:
    """The whole set, and each score by its name."""
    conn.ask("zquery", key, *ALL, expect=pairs.query(float("-inf"), b""))
    names = list(pairs.scores)
    conn.pipeline([("zscore", key, name) for name in names], [pairs.scores[name] for name in names])


@points(2, "what was there before")
def test_as_before(work: Submission) -> None:
    """The chapter's tests: pairs come, change and go; the order of equal scores; types; a set that is emptied."""
    work.chapter_tests("pairs_come_change_and_go or equal_scores_go_by_name or on_every_type or emptied_set")


@points(1, "zcard")
def test_zcard(work: Submission) -> None:
    """zcard while pairs come, change and go, and of a key that is not there."""
    with Server(11) as server, server.connect() as conn:
        conn.ask("zcard", "z", expect=0)
        conn.ask("keys", expect=[])
        for i in range(20):
            conn.ask("zadd", "z", i, f"n{i}", expect=1)
            conn.ask("zadd", "z", -i, "n0", expect=0)
            conn.ask("zcard", "z", expect=i + 1)
        for i in range(20):
            conn.ask("zrem", "z", f"n{i}", expect=1)
            conn.ask("zcard", "z", expect=19 - i)


@points(3, "zincrby")
def test_zincrby(work: Submission) -> None:
    """Three hundred amounts, to names that are there and to new ones. The set is compared with a model again and
    again."""
    rng = random.Random(13)
    pairs = Pairs()
    with Server(11) as server, server.connect() as conn:
        for i in range(300):
            name, amount = b"n%d" % rng.randrange(25), rng.choice([1, 1, -1, 0.5, 0, "-0", 100, rng.random()])
            score = pairs.scores.get(name, 0.0) + float(amount)
            conn.ask("zincrby", "z", amount, name, expect=score)
            pairs.add(score, name)
            if i % 20 == 0:
                same_sets(conn, "z", pairs)
        same_sets(conn, "z", pairs)
        conn.ask("zrem", "z", "n1", expect=pairs.remove(b"n1"))
        conn.ask("zincrby", "z", -3, "n1", expect=-3.0)
        conn.ask("zincrby", "y", 1.5, "", expect=1.5)
        conn.ask("zscore", "y", "", expect=1.5)


@points(2, "a sum that is none")
def test_no_sum(work: Submission) -> None:
    """inf and -inf, sums beyond the largest double, amounts that are no numbers. After an error nothing has changed."""
    inf = float("inf")
    with Server(11) as server, server.connect() as conn:
        add_all(conn, "z", [(inf, "up"), ("-inf", "down"), (1e308, "large")])
        conn.ask("zincrby", "z", "-inf", "up", expect=Err(ERR_ARG))
        conn.ask("zincrby", "z", "inf", "down", expect=Err(ERR_ARG))
        conn.ask("zscore", "z", "up", expect=inf)
        conn.ask("zscore", "z", "down", expect=-inf)
        conn.ask("zquery", "z", *ALL, expect=[b"down", -inf, b"large", 1e308, b"up", inf])
        conn.ask("zincrby", "z", "inf", "up", expect=inf)
        conn.ask("zincrby", "z", -5, "down", expect=-inf)
        conn.ask("zincrby", "z", "1.7e308", "large", expect=inf)
        conn.ask("zincrby", "z", "-inf", "new", expect=-inf)
        conn.ask("zquery", "z", *ALL, expect=[b"down", -inf, b"new", -inf, b"large", inf, b"up", inf])
        for bad in ("", "x", "nan", "1e400", "1 "):
            conn.ask("zincrby", "z", bad, "up", expect=Err(ERR_ARG))
            conn.ask("zincrby", "none", bad, "n", expect=Err(ERR_ARG))
        conn.ask("keys", expect=[b"z"])
        conn.ask("zcard", "z", expect=4)


@points(3, "zremrange")
def test_zremrange(work: Submission) -> None:
    """Removals from every kind of place on, with every kind of limit. Each answer, and what is left, against a
    model."""
    rng = random.Random(14)
    with Server(11) as server, server.connect() as conn:
        conn.ask("zremrange", "none", 0, "", 5, expect=0)
        for turn in range(60):
            pairs, key = Pairs(), f"z{turn}"
            size = rng.randrange(1, 40)
            for i in range(size):
                pairs.add(rng.randrange(8) / 2, b"n%d" % i)
            add_all(conn, key, rng.sample(pairs.pairs, size))
            while pairs.pairs:
                score, name = rng.choice([*pairs.pairs, (rng.randrange(10) / 2 - 0.25, b""), (float("-inf"), b"")])
                limit = rng.choice([0, 1, 2, 3, 7, 40, -1, INT64_MAX, INT64_MIN, 2**32])
                gone = pairs.query(score, name, 0, limit)[::2]
                conn.ask("zremrange", key, score, name, limit, expect=len(gone))
                for each in gone:
                    pairs.remove(each)  # type: ignore[arg-type]
                conn.ask("zquery", key, *ALL, expect=pairs.query(float("-inf"), b""))
                conn.pipeline([("zscore", key, each) for each in gone], [None] * len(gone))
                conn.ask("zcard", key, expect=len(pairs.pairs))
        conn.ask("keys", expect=[])


@points(2, "errors")
def test_errors(work: Submission) -> None:
    """A key that holds a string, limits and scores that are none, too few and too many arguments."""
    with Server(11) as server, server.connect() as conn:
        conn.ask("set", "s", "text", expect=None)
        conn.ask("zadd", "z", 1, "n", expect=1)
        for words in (("zcard", "s"), ("zincrby", "s", 1, "n"), ("zremrange", "s", 0, "", 1)):
            conn.ask(*words, expect=Err(ERR_TYPE))
        for bad in ("", "x", "1.5", "-", "+1", "9223372036854775808", "inf"):
            conn.ask("zremrange", "z", 0, "", bad, expect=Err(ERR_ARG))
        for bad in ("", "x", "nan", "1e400"):
            conn.ask("zremrange", "z", bad, "", 1, expect=Err(ERR_ARG))
        for words in (
            ("zcard",), ("zcard", "z", 1), ("zincrby", "z", 1), ("zincrby", "z", 1, "n", 1), ("zremrange", "z", 0, ""),
            ("zremrange", "z", 0, "", 1, 1),
        ):  # fmt: skip
            conn.ask(*words, expect=Err(ERR_ARG))
        conn.ask("get", "s", expect=b"text")
        conn.ask("zquery", "z", *ALL, expect=[b"n", 1.0])


@points(1, "nothing stays behind")
def test_nothing_stays(work: Submission) -> None:
    """Forty times, a set is made by zincrby and emptied by zremrange. What was allocated must have been freed."""
    with work.count("malloc", "realloc", "free") as counted, Server(11) as server, server.connect() as conn:
        for turn in range(42):
            if turn == 2:
                counted.reset()
            for i in range(10):
                conn.ask("zincrby", "z", i + 1, f"n{i}", expect=float(i + 1))
            conn.ask("zremrange", "z", "-inf", "", 10, expect=10)
            conn.ask("keys", expect=[])
        now = counted.now()
    left = now["malloc"] - now["realloc"] - now["free"]
    work.expect(
        left < 20,
        came=f"{now['malloc'] - now['realloc']} pieces of memory were allocated and {now['free']} freed",
        expected="as many: 12 for each turn, and the tables of the set",
        cause="who frees the set, its table of names, and the pairs?",
    )
