"""11-hunt-order: pairs are in the order of their scores, however close these are."""
from __future__ import annotations

from cases.zsets import Pairs, add_all
from grading import Submission, points
from harness import Server

RACE = [
    (9.97, b"anna"), (9.81, b"berta"), (10.02, b"carla"), (9.79, b"dora"), (9.94, b"emma"), (9.06, b"zoe"),
    (9.79, b"gerda"), (10.9, b"frida"), (9.85, b"hanna"), (10.95, b"clara"), (9.8, b"a"), (9.99, b"paula"),
]  # fmt: skip


@points(2, "the hundred metres")
def test_race(work: Submission) -> None:
    """Twelve runners, all within two seconds. The list of all, and the lists from each time on."""
    pairs = Pairs()
    with Server(11) as server, server.connect() as conn:
        for score, name in RACE:
            conn.ask("zadd", "race", score, name, expect=pairs.add(score, name))
        conn.ask("zquery", "race", "-inf", "", 0, 100, expect=pairs.query(float("-inf"), b"", 0, 100))
        for score, name in [*RACE, (9.5, b""), (9.805, b"m"), (10.93, b"a")]:
            conn.ask("zquery", "race", score, name, 0, 3, expect=pairs.query(score, name, 0, 3))
            conn.ask("zquery", "race", score, "", -1, 2, expect=pairs.query(score, b"", -1, 2))
        conn.ask("zadd", "race", 9.78, "zoe", expect=pairs.add(9.78, b"zoe"))
        conn.ask("zquery", "race", 0, "", 0, 3, expect=pairs.query(0, b"", 0, 3))
        conn.ask("zrem", "race", "dora", expect=pairs.remove(b"dora"))
        conn.ask("zquery", "race", 0, "", 0, 100, expect=pairs.query(0, b"", 0, 100))


@points(3, "close, equal, tiny, huge, infinite")
def test_all_scores(work: Submission) -> None:
    """Scores of one size that differ in the last bit, then the chapter's tests of the order, of -0 and of infinite
    scores."""
    scores = [1e-300, 2e-300, 1e-9, 1.5e-9, 0.1, 0.1 + 2**-56, 1e6, 1e6 + 1e-4, 1e18, 1e18 + 1024, 1e300, 1.1e300]
    with Server(11) as server, server.connect() as conn:
        add_all(conn, "z", [(score, f"n{99 - i}") for i, score in enumerate(scores)])
        conn.ask("zquery", "z", 0, "", 0, 99, expect=[v for i, s in enumerate(scores) for v in (b"n%d" % (99 - i), s)])
    work.chapter_tests("close_scores or equal_scores_go_by_name or minus_zero or infinities")


@points(3, "the set alone")
def test_set_alone(work: Submission) -> None:
    """test_zset.c of chapter 11, built with your headers: orders, scores, ranks, queries, random runs."""
    lab = work.build({}, "test_zset", chapter=11)
    out, err, status = work.run([lab], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0,
        came=f"it ended with {'exit status' if status >= 0 else 'signal'} {abs(status)}"
        + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause=(
            "each pair of scores is in order, equal, or the other way round; only where they are equal do the names"
            " decide"
        ),
    )
