"""16-hunt-hunger: who has had a slow request answered waits behind all others that have one."""
from __future__ import annotations

from grading import Submission, points


@points(4, "who is next")
def test_order(work: Submission) -> None:
    """One client before us and one behind us send a hundred slow requests each. We send one."""
    work.chapter_tests("long_requests_take_turns")


@points(3, "one a round")
def test_one_a_round(work: Submission) -> None:
    """Twelve clients with a slow request each, and one with a short one; and a slow one beside a busy client."""
    work.chapter_tests("one_long_request_a_round or a_slow_request_is_not_starved")


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: slow requests and short ones, on one connection."""
    work.chapter_tests("16-slow or becomes_short")
