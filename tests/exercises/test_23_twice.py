"""23-twice: how many keys a walk shows twice or never, when the table changes its size in the middle of it."""
from __future__ import annotations

import re

from grading import Submission, points

WALK = "is it a walk with reversed bits, and the worst of all places?"


def most(work: Submission, what: str, *words: str) -> int:
    """What walks.c counts: the most keys of all places at which the size may change, or those of this one."""
    places = [words[3]] if len(words) > 3 else [str(n) for n in range(1, int(words[1]))]
    program = work.variant("", ["walks"])
    outs = [program.run("walks", *words[:3], place).out for place in places]
    return max(int(re.findall(what + r":[ 0-9]*\((\d+)\)", out)[0]) for out in outs)


@points(4, "twice, and never")
def test_counts(work: Submission) -> None:
    """How many keys come twice, at three changes of size, and how many never: sections 1 to 4."""
    expected = (most(work, "twice", "reversed", "8", "4", "5"), most(work, "twice", "reversed", "64", "8"),
                most(work, "twice", "reversed", "8", "64"), most(work, "never", "up", "64", "8", "40"))  # fmt: skip
    for section, number in enumerate(expected, 1):
        work.expect_answer(section, number, form="a number of keys", cause=WALK, within=0)


@points(2, "why")
def test_reasons(work: Submission) -> None:
    """Why so few come twice, and when the walk ends: sections 5 and 6."""
    work.expect_answer(5, "b", form="a letter from a to d", cause="which buckets have been seen in part?")
    work.expect_answer(6, "c", form="a letter from a to d", cause="what does cursor_next do behind the last bucket?")


@points(2, "expected, and what to do about it", instructor=True)
def test_text(work: Submission) -> None:
    """What you expected, and what a backup should do: section 7."""
    work.expect_text(7, words=30)
