"""24-dead-share: how many keys are dead and still there, with the cycle and without, and what fewer of them cost."""
from __future__ import annotations

from typing import List, Sequence

from grading import Submission, points

READ = "is it the row with equal TTLs and this strategy, and the right column?"


def row(work: Submission, strategy: str, args: Sequence[str] = ()) -> List[str]:
    """What expire_lab.c prints for equal TTLs, from the third column on."""
    out = work.variant("", ["expire_lab"], flags=["-O2"]).run("expire_lab", *args).out  # it counts for seconds
    rows = [line.split() for line in out.splitlines() if line.startswith("equal ")]
    return next(columns[2:] for columns in rows if columns[1] == strategy)


@points(4, "what the lab counts")
def test_counts(work: Submission) -> None:
    """Keys in memory with lazy deletion alone; dead keys and looks with the cycle, at two efforts: sections 1 to 4."""
    lazy, cycle, hard = row(work, "lazy"), row(work, "cycle"), row(work, "cycle", ["50000", "10"])
    for section, number in ((1, lazy[4]), (2, cycle[5]), (3, cycle[9]), (4, hard[5])):
        work.expect_answer(section, float(number), form="a number as ./expire_lab prints it", cause=READ, within=0.06)


@points(2, "lazy deletion alone")
def test_lazy(work: Submission) -> None:
    """Why lazy deletion alone keeps so many: section 5."""
    work.expect_answer(5, "c", form="a letter from a to d", cause="which keys does it delete, and when?")


@points(1, "the last tenth")
def test_last_tenth(work: Submission) -> None:
    """Why the cycle leaves some percent: section 6."""
    work.expect_answer(6, "a", form="a letter from a to d", cause="when does the cycle go on to the next database?")


@points(3, "expected, counted, measured", instructor=True)
def test_server(work: Submission) -> None:
    """What you expected, what came, and what a real server does: section 7."""
    work.expect_text(7, words=40)
