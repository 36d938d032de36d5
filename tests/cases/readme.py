"""What the README.md of a chapter promises (03 and later)."""
from __future__ import annotations


from harness import fail, settings
from harness.session import check_session
from harness.settings import ROOT

from . import OWN, case

import readme_lines

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = OWN


@case(since=3, inside=True, time_limit=60)
def readme_session(chapter: int) -> None:
    check_session(str(ROOT / "chapters" / f"{chapter:02}" / "README.md"))


@case(since=3, inside=True)
def readme_compile_lines(chapter: int) -> None:
    """They are the very lines that make runs."""
    problems = readme_lines.problems_of(ROOT / "chapters" / f"{chapter:02}", [])
    if problems:
        fail("\n".join(problems))
