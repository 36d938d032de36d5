"""17-rounds: how often lookups and walks wait, alone and in groups, and why that is what it is."""
from __future__ import annotations

from typing import Dict, Tuple

from grading import Submission, points

FORM = "a number with two decimals"
READ = "is it the line with that size of groups, and the column of lookups or of walks?"


def counted(work: Submission) -> Dict[int, Tuple[float, float]]:
    """What rounds.c prints: for each size of groups the waits of a lookup and of a walk."""
    rows = [line.split() for line in work.variant("", ["rounds"]).run("rounds").out.splitlines()[1:]]
    return {int(row[0]): (float(row[1]), float(row[2])) for row in rows}


@points(3, "lookups in the table")
def test_lookups(work: Submission) -> None:
    """The waits of a lookup alone, in groups of 4 and in groups of 16: sections 1 to 3 of answers.md."""
    waits = counted(work)
    for section, group in ((1, 1), (2, 4), (3, 16)):
        work.expect_answer(section, waits[group][0], form=FORM, cause=READ, within=0.006)


@points(2, "walks down the tree")
def test_walks(work: Submission) -> None:
    """The waits of a walk alone, and in groups of 16: sections 4 and 5."""
    waits = counted(work)
    work.expect_answer(4, waits[1][1], form=FORM, cause=READ, within=0.006)
    work.expect_answer(5, waits[16][1], form=FORM, cause=READ, within=0.006)


@points(2, "why not a sixteenth")
def test_why(work: Submission) -> None:
    """Why a group of 16 lookups waits more than a sixteenth as often for each: section 6."""
    cause = "for the tree it is nearly a sixteenth: what is different?"
    work.expect_answer(6, "b", form="a letter from a to d", cause=cause)


@points(3, "expected, counted, measured", instructor=True)
def test_clock(work: Submission) -> None:
    """What you expected, what came, and what a clock says: section 7."""
    work.expect_text(7, words=40)
