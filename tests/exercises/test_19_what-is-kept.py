"""19-what-is-kept: what a connection owns between two turns, and whom a reply wakes."""
from __future__ import annotations

from grading import Submission, points

LETTER, BYTES = "a letter from a to d", "a number of bytes"


@points(1, "left over")
def test_left_over(work: Submission) -> None:
    """Question 1: ten requests and a half."""
    work.expect_answer(1, 10, form=BYTES, cause="how large is the block into which it is copied?")


@points(1, "more than a quarter")
def test_more_than_a_quarter(work: Submission) -> None:
    """Question 2: 12,000 bytes in a buffer of 32 KB."""
    work.expect_answer(2, 32768, form=BYTES, cause="is that more than a quarter of the memory, and what follows?")


@points(1, "not more than half")
def test_not_more_than_half(work: Submission) -> None:
    """Question 3: the next turn of that connection."""
    work.expect_answer(3, 12000, form=BYTES, cause="does it borrow? Then what it has must come along.")


@points(1, "more than half")
def test_more_than_half(work: Submission) -> None:
    """Question 4: 20,000 bytes that are left."""
    work.expect_answer(4, 0, form=BYTES, cause="does it borrow at all?")


@points(1, "the next one")
def test_next_one(work: Submission) -> None:
    """Question 5: another client, while the buffer is kept."""
    work.expect_answer(5, "b", form=LETTER, cause="what is in `shared` then, and what does buf_reserve() do?")


@points(1, "two that come back")
def test_two_that_come_back(work: Submission) -> None:
    """Question 6: a second buffer is returned."""
    work.expect_answer(6, 1, form="a number", cause="which of the two does buf_return() keep?")


@points(1, "who wakes")
def test_who_wakes(work: Submission) -> None:
    """Question 7: a client on another host."""
    cause = "on which host does it sleep, and which host knows of the packet when?"
    work.expect_answer(7, "b", form=LETTER, cause=cause)


@points(3, "in your own words", instructor=True)
def test_text(work: Submission) -> None:
    """Question 8: connections that are closed while events are left."""
    work.expect_text(8, words=50)
