"""18-events: which calls are made, and what an event means."""
from __future__ import annotations

from grading import Submission, points

LETTER, NUMBER = "a letter from a to d", "a number"


@points(1, "one by one")
def test_one_by_one(work: Submission) -> None:
    """Question 1: 500 requests of one client, one by one."""
    work.expect_answer(1, 0, form=NUMBER, cause="the kernel is told of changes: is there one in what is waited for?")


@points(1, "a close")
def test_close(work: Submission) -> None:
    """Question 2: a connection is closed."""
    work.expect_answer(2, 0, form=NUMBER, cause="does anybody have to tell epoll, or does it notice?")


@points(1, "a slow reader")
def test_slow_reader(work: Submission) -> None:
    """Question 3: a client that does not read, and then does."""
    work.expect_answer(3, 2, form=NUMBER, cause="when does the first reply not go out, and when is the last one out?")


@points(1, "who waits for a turn")
def test_who_waits_for_a_turn(work: Submission) -> None:
    """Question 4: a connection that waits for us, and has bytes in its socket."""
    work.expect_answer(4, 10, form=NUMBER, cause="what is so when each of these calls begins?")


@points(1, "level")
def test_level(work: Submission) -> None:
    """Question 5: some bytes are left in the socket."""
    work.expect_answer(5, "b", form=LETTER, cause="does a level-triggered event tell what is so, or what is new?")


@points(1, "edge")
def test_edge(work: Submission) -> None:
    """Question 6: the same, edge-triggered."""
    work.expect_answer(6, "a", form=LETTER, cause="an edge-triggered event tells what is new: what is?")


@points(1, "a number that is used again")
def test_number(work: Submission) -> None:
    """Question 7: an event for a descriptor that was closed and is in use again."""
    work.expect_answer(7, "b", form=LETTER, cause="about whom is the event, and when was it written?")


@points(3, "in your own words", instructor=True)
def test_text(work: Submission) -> None:
    """Question 8: timers before the events of a batch."""
    work.expect_text(8, words=50)
