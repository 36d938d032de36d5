"""How results look in a terminal."""
from __future__ import annotations

from typing import List

from grade import Result, Test
from layout import coloured

SHOWN = 3  # lessons in full
MARKS = {"passed": "passed", "failed": "FAILED", "instructor": "handed in", "not run": "not run"}
COLOURS = {"passed": "32", "failed": "31", "instructor": "36", "not run": "33"}


def row(test: Test) -> str:
    """A test in the table."""
    points = f"{test.most} for the instructor" if test.status == "instructor" else f"{test.points} of {test.most}"
    return f"  {coloured(f'{MARKS[test.status]:<10}', COLOURS[test.status])}{points:<8}  {test.title}"


def lesson(test: Test) -> str:
    """What there is to learn from a test that was not passed."""
    head = f"{test.title}: {test.points} of {test.most} points"
    body = "".join(f"\n  {line}".rstrip() for line in f"{test.lesson}\n{'again':<10}{test.repeat}".splitlines())
    return f"{coloured(head, '1')}{body}"


def report(result: Result, selected: bool = False) -> str:
    """The table, and what there is to learn. selected: tests that were not run are left out."""
    tests = [test for test in result.tests if not (selected and test.status == "not run" and not test.lesson)]
    parts: List[str] = []
    if result.compiler:
        parts.append(result.compiler.rstrip("\n"))
    if not result.built:
        parts.append(coloured(f"It does not build: 0 of {result.most} points.", "31"))
    elif tests:
        parts.append("\n".join(map(row, tests)))
    if result.remarks:
        parts.append("\n".join(f"  {line}" for remark in result.remarks for line in remark.splitlines()))
    bad = [test for test in tests if test.lesson] if result.built else []
    parts += [lesson(test) for test in bad[:SHOWN]]
    if len(bad) > SHOWN:
        names = "".join(f"\n  {test.title:<40} {test.repeat}" for test in bad[SHOWN:])
        parts.append(f"The others that failed, each by its command:{names}")
    return "\n\n".join(parts)


def total(result: Result) -> str:
    """The points in one sentence."""
    text = f"{result.score} of {result.most} points"
    if result.for_instructor:
        text += f", and {result.for_instructor} that the instructor gives"
    return text
