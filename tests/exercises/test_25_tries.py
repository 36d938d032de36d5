"""25-tries: how often clients of one counter try, with optimistic locking, for each success."""
from __future__ import annotations

from grading import Submission, points
from harness import Server

READ = "is it the last number of the line, with so many clients?"


def tries(work: Submission, clients: int) -> float:
    """What tries.py prints for so many clients."""
    with Server(25) as server:
        ran = work.run(["python3", work.path / "tries.py", str(server.port), str(clients)], seconds=20)
    return float(ran.out.rpartition(":")[2])


@points(4, "tries a success")
def test_counts(work: Submission) -> None:
    """The tries of 1, 10 and 50 clients: sections 1 to 3."""
    for section, clients in ((1, 1), (2, 10), (3, 50)):
        number = tries(work, clients)
        work.expect_answer(section, number, form="a number as tries.py prints it", cause=READ, within=0.006)


@points(2, "beside incr")
def test_requests(work: Submission) -> None:
    """The requests of a success, with 50 clients: section 4."""
    work.expect_answer(
        4, 5 * tries(work, 50), form="a number of requests", cause="how many requests has a try?", within=0.1,
    )  # fmt: skip


@points(1, "who makes it fail")
def test_who(work: Submission) -> None:
    """What is sure when a try fails: section 5."""
    work.expect_answer(5, "b", form="a letter from a to d", cause="which request changes the key?")


@points(3, "expected, counted, measured", instructor=True)
def test_real(work: Submission) -> None:
    """What you expected, what came, and what real clients do: section 6."""
    work.expect_text(6, words=40)
