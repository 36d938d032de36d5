"""Which cases of a chapter are carried: `make test` leaves them out, `make test-07` and `make test-all` run them.

A case is carried in a chapter that neither begins it, nor is the last to have it, nor changes anything that the case
looks at. What a chapter changes is what the table in its README.md says. tests/test_stages.py holds that table against
the sources: all that is not in it is byte for byte the same as in the chapter before.

With sanitizers, which take many times as long, a case is also left out where it looks `again`: at something that the
chapter changes, and the next one too. The stages of Part 3 change nearly everything, so there this goes for `make test`
as well.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from typing import Container, FrozenSet, List

import pytest

from .settings import CHAPTERS, ROOT

PART_3 = 15  # the first stage of it

OWN = "files that each chapter has of its own"  # what a case looks at that is carried nowhere


def carried(chapter: int, chapters: Container[int], looks_at: str) -> List[pytest.MarkDecorator]:
    """The mark of a case of these chapters that is carried in this one, or looks again in the next, or nothing."""
    there = [each for each in CHAPTERS if each in chapters]
    begins, ends = chapter - 1 not in there, chapter == there[-1]
    if looks_at == OWN or begins or ends:
        return []
    if not touches(chapter, looks_at):
        return [pytest.mark.carried]
    later = there[there.index(chapter) + 1]
    if later != there[-1] and not touches(later, looks_at):
        return []
    return [pytest.mark.carried if chapter >= PART_3 else pytest.mark.again]


def touches(chapter: int, looks_at: str) -> bool:
    """Does the chapter change any of this?"""
    return any(fnmatch.filter(changed(chapter), pattern) for pattern in looks_at.split())


@functools.lru_cache(None)
def changed(chapter: int) -> FrozenSet[str]:
    """The names in the table of what the chapter changes in server.c and client.c."""
    text = (ROOT / "chapters" / f"{chapter:02}" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (server|client)\.c \| \w+ \| (.*?) \| (?:new|changed|gone) \|", text, re.MULTILINE)
    names = [(program, name) for program, cell in rows for name in re.findall(r"`([^`]+)`", cell)]
    return frozenset(shown for program, name in names for shown in (name, f"{program}.{name}"))
