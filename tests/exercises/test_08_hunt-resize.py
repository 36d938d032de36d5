"""08-hunt-resize: the table grows again and again, and does a bounded amount of work in each call."""
from __future__ import annotations

from grading import Submission, points
from harness import Server, Status
from harness.process import status_text

DONE, MISSING = Status(0, b""), Status(2, b"")


@points(3, "two thousand keys")
def test_two_thousand_keys(work: Submission) -> None:
    """Two thousand keys are set, found, given longer values, and every second one is removed."""
    n = 2000
    names = [f"key{i}" for i in range(n)]
    with Server(8) as server, server.connect() as conn:
        for name in names:
            conn.ask("set", name, name, expect=DONE)
        conn.pipeline([("get", name) for name in names], [Status(0, name.encode()) for name in names])
        conn.pipeline([("set", name, f"longer {name}") for name in names], [DONE] * n)
        conn.pipeline([("del", name) for name in names[::2]], [DONE] * (n // 2))
        left = [MISSING if i % 2 == 0 else Status(0, f"longer {name}".encode()) for i, name in enumerate(names)]
        conn.pipeline([("get", name) for name in names], left)


@points(2, "requests while the table grows")
def test_requests_while_it_grows(work: Submission) -> None:
    """The chapter's tests that look at all keys after each insertion, and at removals at every size."""
    work.chapter_tests("growing or all_keys_after_each_insertion or a_few_removed_at_every_size")


@points(3, "the table alone, its work counted")
def test_table_alone(work: Submission) -> None:
    """test_hashtable.c of chapter 08, built with your headers: every size, several doublings, the work of each call."""
    lab = work.build({}, "test_hashtable", chapter=8)
    out, err, status = work.run([lab], seconds=15)
    last = "\n".join(["its last lines are", *(out + err).splitlines()[-3:]])
    work.expect(
        status == 0,
        came=f"it ended with {status_text(status)}; {last}",
        expected="all tests passed",
        cause="in one call at most k_resizing_work nodes may move or buckets be passed, and in the end the older "
        "table must be empty and gone",
    )
