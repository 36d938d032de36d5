"""28-copied: how many pages are copied while a child of fork() is there, by what changes and where it lies."""
from __future__ import annotations

import math
import re

from grading import Submission, points

KEYS, PAGES = 1_000_000, 15_625
HUGE = 2048  # KiB of a huge page
PAGE = "how many different pages have been written, and how many keys has a page?"


def copied(work: Submission, args: str) -> int:
    """How many pages `copied` says for these arguments."""
    ran = work.run_ok([work.program("copied"), str(KEYS), *args.split()], seconds=30)
    found = re.search(r"copied: (\d+) pages", ran.out)
    assert found, ran.out
    return int(found[1])


@points(4, "pages")
def test_pages(work: Submission) -> None:
    """Pages that are copied when keys change in a row, anywhere, or always the same, and when they are read: sections 1
    to 5."""
    lines = "1000 row", "1000 anywhere", "100000 anywhere", "100000 one", "1000 read"
    for section, line in enumerate(lines, 1):
        pages = copied(work, line)
        work.expect_answer(section, pages, form="a number of pages", cause=PAGE, within=pages // 500)


@points(2, "half of them")
def test_half(work: Submission) -> None:
    """How many changes there are until half of all pages are copied: section 6."""
    right = math.log(2) * PAGES
    assert abs(copied(work, f"{right:.0f} anywhere") - PAGES / 2) < PAGES / 100
    work.expect_answer(6, right, form="a number of changes", within=right / 20,
                       cause="how likely is it that a page has not been met by any of them?")  # fmt: skip


@points(2, "huge pages")
def test_huge(work: Submission) -> None:
    """What is copied with huge pages, in KiB, on a kernel of today, or on an old one: section 7."""
    here = 4 * copied(work, "1000 anywhere huge")
    old = -(-KEYS * 64 // 1024 // HUGE) * HUGE
    work.expect_answer(7, [here, 4 * copied(work, "1000 anywhere"), old], form="a number of KiB", within=0,
                       cause="has the array huge pages? The first line of `copied` says so.")  # fmt: skip


@points(3, "expected, and found", instructor=True)
def test_text(work: Submission) -> None:
    """What you expected, what came, and what the server says: section 8."""
    work.expect_text(8, words=40)
