"""14-prefer: which tool fits which situation, and why."""
from __future__ import annotations

from grading import Submission, points

FORM = "a letter from a to e"


@points(1, "a counter")
def test_counter(work: Submission) -> None:
    """Question 1: the number of all requests, over all threads."""
    work.expect_answer(
        1, "e", form=FORM, cause="does anybody have to wait here, and does anything else change in the same step?"
    )


@points(1, "ten at a time")
def test_ten(work: Submission) -> None:
    """Question 2: at most ten threads that have a file open."""
    work.expect_answer(
        2, "b", form=FORM, cause="which of the five is a number of equal things, of which each takes one?"
    )


@points(1, "the start")
def test_start(work: Submission) -> None:
    """Question 3: five threads that begin together."""
    work.expect_answer(3, "d", form=FORM, cause="who waits for whom before it begins?")


@points(1, "a queue with room for so much")
def test_queue(work: Submission) -> None:
    """Question 4: a queue that is full or empty, with items of different sizes."""
    work.expect_answer(
        4, "c", form=FORM, cause="can that for which each of them waits be written as one number that all share?"
    )


@points(1, "a table")
def test_table(work: Submission) -> None:
    """Question 5: one at a time, for a short while."""
    work.expect_answer(5, "a", form=FORM, cause="what is the simplest that lets one in at a time?")


@points(1, "a flag")
def test_flag(work: Submission) -> None:
    """Question 6: a flag and a wait that are two steps."""
    work.expect_answer(
        6, "b", form="a letter from a to d",
        cause="what does a condition variable remember of a broadcast while nobody waits?",
    )  # fmt: skip


@points(1, "an atomic number")
def test_atomic(work: Submission) -> None:
    """Question 7: two threads that count with atomic steps."""
    work.expect_answer(
        7, "c", form="a letter from a to d",
        cause="which steps are atomic here, and what may happen between two of them?",
    )  # fmt: skip


@points(3, "in your own words", instructor=True)
def test_text(work: Submission) -> None:
    """Question 8: another tool for one of the situations, and its price."""
    work.expect_text(8, words=60)
