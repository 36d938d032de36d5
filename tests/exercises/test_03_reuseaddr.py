"""03-reuseaddr: which end of a connection stays behind, for how long, and whom it is in the way of."""
from __future__ import annotations

from grading import Submission, points

SIDE, YES_NO = "server or client", "yes or no"


@points(4, "what is left")
def test_what_is_left(work: Submission) -> None:
    """Questions 1 to 3: the state, and the side that has it."""
    work.expect_answer(
        1,
        ["TIME-WAIT", "TIME_WAIT", "TIMEWAIT"],
        form="a state as ss writes it",
        cause="look within a minute, while nobody is connected",
    )
    work.expect_answer(2, "server", form=SIDE, cause="whose port is 1234, and in which column does it stand?")
    work.expect_answer(3, "client", form=SIDE, cause="whose port is 1234, and in which column does it stand?")


@points(3, "in the way")
def test_in_the_way(work: Submission) -> None:
    """Questions 4 to 6: what bind() says to ends that are left, and to a server that is there."""
    work.expect_answer(
        4,
        "EADDRINUSE",
        form="the name of an error",
        cause="the server prints what the error says; man 2 bind has its name",
    )
    work.expect_answer(
        5,
        "yes",
        form=YES_NO,
        cause="which port has the end that is left? And was it a minute since the experiment before?",
    )
    work.expect_answer(6, "no", form=YES_NO, cause="try it")


@points(1, "for how long")
def test_how_long(work: Submission) -> None:
    """Question 7: how long that end is kept."""
    work.expect_answer(
        7,
        60,
        form="a number of seconds",
        within=2,
        cause="ss -tano shows a timer for it; what does it begin with?",
    )


@points(4, "why", instructor=True)
def test_why(work: Submission) -> None:
    """Question 8: why it is kept, and why a listening socket need not mind."""
    work.expect_text(8, words=50)
