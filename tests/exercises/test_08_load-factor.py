"""08-load-factor: numbers that were counted with several load factors, and what follows from them."""
from __future__ import annotations

from typing import Dict

from grading import Submission, points

FOUND, MISSED = "passed by a lookup that finds its key", "passed by a lookup that does not"
BETWEEN, MOVED = "insertions between two doublings", "insertions until all has moved"
BUILT = "was load.c built anew with this load factor? Its first line says with which"


def counted(work: Submission, factor: int) -> Dict[str, float]:
    """What load.c prints with this load factor."""
    change = f"@@ hashtable.h\n-    k_max_load_factor = 2,\n+    k_max_load_factor = {factor},\n"
    out = work.variant(change, programs=["load"]).run("load").out
    lines = (line.rsplit(None, 1) for line in out.splitlines())
    return {name: float(number) for name, number in lines}


@points(2, "buckets")
def test_buckets(work: Submission) -> None:
    """The numbers of buckets with load factor 1 and with 16: sections 1 and 2 of answers.md."""
    work.expect_answer(1, counted(work, 1)["buckets"], form="a number of buckets", cause=BUILT)
    work.expect_answer(2, counted(work, 16)["buckets"], form="a number of buckets", cause=BUILT)


@points(3, "nodes that a lookup passes")
def test_passed(work: Submission) -> None:
    """How many nodes a lookup passes with load factor 1 and with 16: sections 3, 4 and 5."""
    form = "a number with two decimals"
    most = counted(work, 16)
    work.expect_answer(3, counted(work, 1)[FOUND], form=form, cause=BUILT, within=0.006)
    work.expect_answer(4, most[FOUND], form=form, cause="is it the line of lookups that find their key?", within=0.006)
    work.expect_answer(5, most[MISSED], form=form, cause="is it the line of lookups that find nothing?", within=0.006)


@points(2, "from one doubling to the next")
def test_work(work: Submission) -> None:
    """Insertions between two doublings, and until all has moved, with load factor 4: sections 6 and 7."""
    four = counted(work, 4)
    work.expect_answer(6, four[BETWEEN], form="a number of insertions", cause=BUILT)
    work.expect_answer(7, four[MOVED], form="a number of insertions", cause=BUILT)


@points(2, "a very sparse table")
def test_sparse(work: Submission) -> None:
    """Whether the moving would be done in time with one node for sixteen buckets: section 8."""
    work.expect_answer(
        8, "c", form="a letter from a to c", cause="what counts as a unit of work, besides moving a node?"
    )


@points(3, "expected, measured, chosen", instructor=True)
def test_choice(work: Submission) -> None:
    """What you expected, what a clock says, and what you would choose: section 9."""
    work.expect_text(9, words=40)
