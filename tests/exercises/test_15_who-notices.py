"""15-who-notices: what make compiles again, and what compiler and linker can see of a mistake."""
from __future__ import annotations

import re

from grading import Submission, points

TOUCHED = ("args.c", "server.h", "clock.h", "serial.h", "avl.h")


@points(3, "what make compiles again")
def test_make(work: Submission) -> None:
    """How many files are compiled again after a change of args.c and of four headers: sections 1 to 5 of answers.md."""
    rules = work.run_ok(["sh", "-c", 'cd "$0" && cc -MM -I. src/*.c', work.path]).out
    reads = [re.split(r"[\s/]+", rule) for rule in rules.replace("\\\n", " ").splitlines()]
    for section, file in enumerate(TOUCHED, 1):
        work.expect_answer(
            section, sum(file in words for words in reads), form="a number of files", within=0,
            cause="which files read it, be it through another header?",
        )  # fmt: skip


@points(4, "who notices")
def test_who(work: Submission) -> None:
    """A name that is not static, one that is there twice, two types of a parameter, two layouts: sections 6 to 9."""
    form = "a letter from a to d"
    for section, right, cause in (
        (6, "a", "does anybody else have that name?"),
        (7, "c", "who sees both files?"),
        (8, "b", "what does poller.c include?"),
        (9, "a", "is there anything about types in an object file? What does make know without the .d files?"),
    ):
        work.expect_answer(section, right, form=form, cause=cause)


@points(3, "what a call costs", instructor=True)
def test_cost(work: Submission) -> None:
    """What a call across files costs, and how you know: section 10."""
    work.expect_text(10, words=40)
