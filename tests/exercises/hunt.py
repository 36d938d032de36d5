"""Grades a private hunt (tests/learn/hunts.py): the tests of the chapter that see its fault, and a few beside them."""
from __future__ import annotations

import os
from pathlib import Path

import faults
from grading import Submission, points

BASICS = "03- or test_vector or test_session"


class Hunted(Submission):
    """A hunt has no folder in chapters/, and needs no more of a submission than the tests of its chapter."""

    def __init__(self) -> None:
        self.scratch = Path(os.environ["SUBMISSION"]).parent
        self.fault = faults.read(os.environ["HUNT"])
        self.chapter = int(self.fault.chapter)
        self._made = 0


@points(7, "what was reported")
def test_fault() -> None:
    """The symptom in README.md is no longer there."""
    hunted = Hunted()
    path, *options = hunted.fault.test
    hunted.chapter_tests(options[1] if options else path.rpartition("::")[2].partition("[")[0])


@points(3, "nothing else is worse")
def test_chapter() -> None:
    """The first tests of the chapter, its vectors and its sessions."""
    Hunted().chapter_tests(BASICS)
