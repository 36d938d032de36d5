"""What each chapter takes, in hours: an estimate for book/teaching/README.md.

Computed, not measured: 100 words of the text and 8 lines of code are read, or typed, in a minute; a step takes one
minute more, to find its place and to compile; what the sessions and questions at the end of a chapter take is half an
hour. The exercises take what their exercise.conf says.
"""
from __future__ import annotations

from collections import defaultdict
from typing import Dict, List

import book_blocks
import exercises
from book_blocks import Page

WORDS, LINES = 100, 8  # a minute
END = 30  # minutes for the sessions and questions of a chapter with programs


def hours(minutes: float) -> str:
    """To the half hour, at least one half where there is anything."""
    return f"{max(1, round(minutes / 30)) / 2:.1f}" if minutes else "-"


def typed(block: book_blocks.Block) -> int:
    """The lines of a step that are typed."""
    if block.lang == "diff":
        return sum(1 for line in block.code.splitlines() if line.startswith("+"))
    return block.count - bool(block.label) if block.lang == "c" else 0


def table(pages: List[Page]) -> str:
    """A line for each page of a chapter, and one for all."""
    minutes: Dict[str, List[int]] = defaultdict(list)
    for exercise in exercises.all_exercises():
        minutes[exercise.chapter].append(exercise.minutes)
    rows = [["chapter", "words", "steps", "lines", "exercises", "reading", "typing", "exercises", "all"]]
    sums = [0.0] * 4
    for page in (page for page in pages if page.chapter):
        steps = [block for block in page.blocks if block.kind == "step"]
        typing = sum(typed(block) for block in steps)
        words, own = book_blocks.words(page), minutes[page.chapter]
        needs = [words / WORDS + END * bool(steps), len(steps) + typing / LINES, float(sum(own))]
        needs.append(sum(needs))
        sums = [a + b for a, b in zip(sums, needs)]
        rows.append([page.chapter, *map(str, (words, len(steps), typing, len(own))), *map(hours, needs)])
    totals = [str(sum(int(row[i]) for row in rows[1:])) for i in range(1, 5)]
    rows.append(["all", *totals, *map(hours, sums)])
    widths = (7, 6, 6, 6, 10, 8, 7, 10, 6)
    lines = ["".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join([" " * 42 + "hours for", *lines])
