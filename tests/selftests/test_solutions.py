"""The exercises from both sides: a solution gets all points that a program can give, a starter does not, and a wrong
solution fails the test that it names, in a lesson that holds the words that it names.

    make exercises-check                               all of them, and the tests of grading
    make exercises-check ARGS="-k 04-buffered-reads"   one
"""
from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Iterator

import pytest

import exercises
import grade
from compiling import QUICKLY, Kept
from copies import of_the_chapter
from exercises import Exercise
from grade import How, Result
from layout import ROOT, Problem, chapters
from warm import Warm

from harness import settings

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(300)]
LEAST_WRONG, LEAST_PLACES = 2, 4  # wrong solutions; places in which the starter of a hunt is not the chapter
# Built in less time than a submission is, whose -O2 the harness's own builds of all chapters are checked with. What is
# to fail is built QUICKLY, as the chapter's own files of a server of several always are.
FASTER = ["-O1", "-g0"]  # what a solution changes: half the time of -O2, and nearly all of its warnings
ALL = exercises.all_exercises()
WRONG = [(exercise, name) for exercise in ALL for name in exercise.wrong_names()]
each_exercise = pytest.mark.parametrize("exercise", ALL, ids=[exercise.name for exercise in ALL])


@pytest.fixture(scope="session")
def ours() -> Iterator[How]:
    """How to grade what is ours. What several submissions have in common, most files of most servers, is compiled once.
    Unlike a submission, they may be graded by Python files that were compiled before, in forks of one process."""
    os.umask(0o022)  # the submission's user reads what is written for it
    folder = settings.build_dir() / "kept"
    folder.mkdir(parents=True, exist_ok=True)
    variables = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache")}
    kept = Kept(folder, QUICKLY)
    with Warm([f"tests/test_{chapters()[-1]}.py", "tests/selftests/test_solutions.py"]) as warm:
        yield How(kept=kept, variables=variables, warm=warm)


def squeezed(text: str) -> str:
    """Blanks and letter case make no difference to what a lesson says, nor do the lines that it is broken into."""
    return " ".join(text.split()).lower()


def lessons_are_sound(result: Result) -> None:
    """No lesson shows a traceback, and the grader could do its work."""
    assert not result.broken, f"the grader itself is broken: {result.broken}"
    for test in result.tests:
        shown = re.search(r'Traceback \(most recent call last\)|^ *File "', test.lesson, re.M)
        assert not shown, f"the lesson of {test.name} shows a traceback:\n{test.lesson}"


@each_exercise
def test_the_files_are_complete(exercise: Exercise) -> None:
    assert exercise.hints
    assert re.match(r"# \S", exercise.readme), "README.md must begin with a title, # ..."
    total = sum(test.points for test in exercise.tests)
    same = total == exercise.points
    assert same, f"exercise.conf says {exercise.points} points, those of the tests are {total} together"
    for test in exercise.tests:
        assert test.tries, f"{test.name} has no docstring: what is tried?"
    wrong = [exercise.wrong(name) for name in exercise.wrong_names()]
    assert len(wrong) >= LEAST_WRONG, f"there are {len(wrong)} wrong solutions, {LEAST_WRONG} are needed"
    names = [test.name for test in exercise.tests]
    for each in wrong:
        named = f"wrong/{each.name}: fails: {each.fails}, but the tests are {', '.join(names)}"
        assert each.fails in names, named
    if exercise.kind in ("explain", "measure"):
        assert (exercise.folder / "key.md").exists(), "there is no key.md for the instructor"


@pytest.mark.parametrize("hunt", [each for each in ALL if "-hunt-" in each.name], ids=lambda each: each.name)
def test_a_diff_with_the_chapter_shows_more_than_the_fault(hunt: Exercise) -> None:
    """The starter has functions that are written otherwise than in the chapter, and right. So what was mended is not
    taken for the chapter's own file."""
    places = {(hunk.file, hunk.item) for hunk in hunt.change("starter").hunks}
    assert len(places) >= LEAST_PLACES, f"the starter is not the chapter in {len(places)} places alone"
    assert of_the_chapter(hunt.stage(), hunt)
    for which in ("starter", "solution", *(f"wrong/{name}" for name in hunt.wrong_names())):
        assert not of_the_chapter(hunt.tree(which), hunt), which


@each_exercise
def test_the_starter_fails(exercise: Exercise, ours: How) -> None:
    latest_first = [test.name for test in reversed(exercise.tests)]  # the first one often says that all is as before
    how = replace(ours, only=latest_first, first_failure=True)
    result = grade.grade_tree(exercise.tree("starter"), exercise, how)
    assert result.built, f"the starter does not build:\n{result.compiler}"
    assert not result.passed, "the starter passes all tests"
    lessons_are_sound(result)


@each_exercise
def test_the_solution_passes(exercise: Exercise, ours: How) -> None:
    how = replace(ours, kept=Kept(ours.kept.folder, FASTER))
    result = grade.grade_tree(exercise.tree("solution"), exercise, how)
    assert result.built, f"the solution does not build:\n{result.compiler}"
    assert not result.compiler, f"the compiler says of the solution:\n{result.compiler}"
    for test in result.tests:
        passed = test.status in ("passed", "instructor")
        assert passed, f"the solution fails {test.name} ({test.status}):\n{test.lesson}"
    assert not result.remarks


@pytest.mark.parametrize("exercise, name", WRONG, ids=[f"{exercise.name}/wrong/{name}" for exercise, name in WRONG])
def test_the_wrong_solution_fails_for_its_reason(exercise: Exercise, name: str, ours: How) -> None:
    wrong = exercise.wrong(name)
    result = grade.grade_tree(exercise.tree(f"wrong/{name}"), exercise, replace(ours, only=[wrong.fails]))
    assert result.built, f"it does not build:\n{result.compiler}"
    test = next(test for test in result.tests if test.name == wrong.fails)
    assert test.status == "failed", f"{wrong.fails} does not fail, it is {test.status}; {result.remarks}"
    said = any(squeezed(words) in squeezed(test.lesson) for words in wrong.says.split(" | "))
    assert said, f"the lesson of {wrong.fails} does not say `{wrong.says}`:\n{test.lesson}"
    lessons_are_sound(result)


# ---- the proof can fail ----

SAMPLE = "04-buffered-reads"


@pytest.fixture
def copy(tmp_path: Path) -> Exercise:
    """The sample exercise in a workbook of its own."""
    own = f"chapters/04/exercises/{SAMPLE[3:]}"
    for folder in ("common", "chapters/04", own):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for path in (ROOT / folder).glob("*.*"):
            shutil.copy(path, tmp_path / folder)
    shutil.copytree(ROOT / own / "wrong", tmp_path / own / "wrong")
    (tmp_path / "tests/exercises").mkdir(parents=True)
    shutil.copy(exercises.find(SAMPLE).grader, tmp_path / "tests/exercises")
    return exercises.find(SAMPLE, tmp_path)


@pytest.mark.parametrize(
    "file, old, new, why",
    [
        ("exercise.conf", "kind = build", "kind = built", "kind is one of build, mend"),
        ("exercise.conf", "kind = build", "kin = build", "`kind` is missing"),
        ("exercise.conf", "points = 10", "points = ten", "points must be a whole number"),
        ("exercise.conf", "points = 10", "points = 10\ncolour = red", "nobody knows `colour`"),
        ("exercise.conf", "[exercise]", "[exercises]", "exercise.conf: 'exercise'"),
        ("exercise.conf", "points = 10", "points = 11", "says 11 points, those of the tests are 10"),
        ("README.md", "# Fewer", "Fewer", "must begin with a title"),
        ("hints.md", "## 3", "## 4", "must have the sections"),
        ("wrong/never-moved.change", "fails: test_", "fails: tset_", "but the tests are test_answers_as_before"),
        ("wrong/never-moved.change", "says: ", "say: ", "its first lines must say `says: ...`"),
        ("../../server.c", "load_u32(rbuf)", "load_u32(&rbuf[0])", "one_request(): these lines are not there"),
    ],
)
def test_files_that_are_wrong_are_seen(copy: Exercise, file: str, old: str, new: str, why: str) -> None:
    test_the_files_are_complete(exercises.find(SAMPLE, copy.root))
    path = copy.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises((Problem, AssertionError), match=re.escape(why)):
        test_the_files_are_complete(copy)
        copy.tree("solution")


def test_a_wrong_solution_that_is_not_caught_is_seen(ours: How, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is right after all; it fails, and not for its reason."""
    exercise, name = exercises.find(SAMPLE), "length-on-its-own"
    solution, said = exercise.tree("solution"), exercise.wrong(name)
    with monkeypatch.context() as patch:
        patch.setattr(Exercise, "tree", lambda self, which: solution)
        with pytest.raises(AssertionError, match="test_few_reads does not fail, it is passed"):
            test_the_wrong_solution_fails_for_its_reason(exercise, name, ours)
    monkeypatch.setattr(Exercise, "wrong", lambda self, name: said._replace(says="the moon"))
    with pytest.raises(AssertionError, match=r"does not say `the moon`(.|\n)*called read\(\)"):
        test_the_wrong_solution_fails_for_its_reason(exercise, name, ours)
