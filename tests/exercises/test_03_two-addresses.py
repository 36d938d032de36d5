"""03-two-addresses: why one thread that waits in accept() cannot serve two ports."""
from __future__ import annotations

from grading import Submission, points

LETTER = "a letter from a to d"


@points(4, "what happens")
def test_what_happens(work: Submission) -> None:
    """Questions 1 to 3: who waits, where, and for whom."""
    work.expect_answer(1, "b", form=LETTER, cause="try it: start the server, and then one client, with PORT=1235")
    work.expect_answer(2, ["accept", "accept4"], form="the name of a function", cause="strace -p shows it")
    work.expect_answer(
        3,
        6,
        form="a number from 0 to 8",
        cause="for which port is each call of accept(), in their order?",
    )


@points(4, "what else one could do")
def test_what_else(work: Submission) -> None:
    """Questions 4 and 5: sockets that do not block, and a process for each port."""
    work.expect_answer(4, "b", form=LETTER, cause="what does the loop do while nobody comes?")
    work.expect_answer(5, "c", form=LETTER, cause="what does each of the two processes do, one call after the other?")


@points(3, "the call that is missing", instructor=True)
def test_missing_call(work: Submission) -> None:
    """Question 6: what the call must be told, when it returns, and what it says."""
    work.expect_text(6, words=40)
