"""Grades one submission: builds it within bounds, runs its grader in a process of its own, collects what came of it.

    result = grade(folder, exercise)          or grade(folder, exercise, How(seconds=30, ...))
    result.score, result.most, result.passed, result.built, result.tests, result.remarks, result.seconds

folder holds the files that the learner handed in; all others are the starter's. A submission that does not build,
hangs, crashes, prints without end or starts processes without end gives a Result like any other: grade() raises
Problem only where the exercise itself is not as it should be. It keeps no state, so any number may run at once, in
threads or processes; where they run as root, each submission has a user id of its own (confine.py).
"""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Union

import compiling
import exercises
from changeform import Tree
from confine import Confinement, Limits, sanitized
from exercises import Exercise, Handed

FACTOR = "4"  # of time limits, for programs with a sanitizer
CRASH = re.compile(r"killed by SIG(SEGV|BUS|ABRT|FPE|ILL)")  # a sanitizer would name the line
START_SECONDS = 20.0  # for pytest itself, beside the tests
NOT_UNDERSTOOD, NO_TESTS = 4, 5  # exit statuses of pytest


@dataclass
class Test:
    """What came of one test of the grader.

    status: passed, failed, instructor (there is something for the instructor to mark: `most` points), not run.
    """

    name: str
    title: str
    most: int
    instructor: bool
    tries: str
    status: str = "not run"
    points: int = 0
    lesson: str = ""
    repeat: str = ""
    seconds: float = 0.0


@dataclass
class Result:
    """What came of a submission."""

    exercise: str
    built: bool = True
    compiler: str = ""  # what it said, warnings too
    tests: List[Test] = field(default_factory=list)
    taken: List[str] = field(default_factory=list)  # the files that were the learner's
    remarks: List[str] = field(default_factory=list)
    broken: str = ""  # what is wrong with the grader itself: then the score says nothing
    seconds: float = 0.0

    @property
    def score(self) -> int:
        """The points given so far; those that are the instructor's to give come on top."""
        return sum(test.points for test in self.tests)

    @property
    def most(self) -> int:
        return sum(test.most for test in self.tests)

    @property
    def for_instructor(self) -> int:
        """Points that wait for the instructor."""
        return sum(test.most for test in self.tests if test.status == "instructor")

    @property
    def passed(self) -> bool:
        """Is everything right that can be told by a program?"""
        return self.built and bool(self.tests) and all(test.status in ("passed", "instructor") for test in self.tests)

    def as_dict(self) -> Dict[str, object]:
        """All of it, for JSON."""
        return {**asdict(self), "score": self.score, "most": self.most, "passed": self.passed}


@dataclass(frozen=True)
class How:
    """How to grade: only: names of tests; arguments: more for pytest; first_failure: stop there; seconds: for all tests
    together; variables: of the environment, such as TEST_TIME_FACTOR on a slow machine; kept: what was built before."""

    only: Sequence[str] = ()
    arguments: Sequence[str] = ()
    first_failure: bool = False
    limits: Optional[Limits] = None
    seconds: Optional[float] = None
    variables: Mapping[str, str] = field(default_factory=dict)
    kept: Optional[compiling.Kept] = None


def grade(folder: Path, exercise: Union[Exercise, str], how: How = How()) -> Result:
    """Grades the files that somebody hands in, in `folder`."""
    exercise = exercises.find(exercise) if isinstance(exercise, str) else exercise
    return grade_handed(exercises.hand_in(exercise, folder), exercise, how)


def grade_tree(tree: Tree, exercise: Exercise, how: How = How()) -> Result:
    """Grades a tree as it is: a starter, a solution, a wrong solution."""
    return grade_handed(Handed(tree, sorted(tree), []), exercise, how)


def grade_handed(handed: Handed, exercise: Exercise, how: How) -> Result:
    """Grades what was handed in."""
    began = time.monotonic()
    tests = [
        Test(t.name, t.title, t.points, t.instructor, t.tries, repeat=repeat_line(exercise, t.name))
        for t in exercise.tests
    ]
    result = Result(exercise.name, tests=tests, taken=handed.taken, remarks=list(handed.remarks))
    limits = how.limits or Limits(processes=exercise.processes)
    limits = sanitized(limits) if os.environ.get("SAN") else limits
    scratch = Path(tempfile.mkdtemp(prefix=f"grade-{exercise.name}-"))
    try:
        scratch.chmod(0o755)
        (scratch / "out").mkdir(mode=0o700)
        (scratch / "tmp").mkdir(mode=0o755)
        exercises.write_tree(handed.tree, scratch / "src")
        with Confinement(scratch, limits) as confined:
            build(result, exercise, confined, scratch, how.kept)
            if result.built:
                run_tests(result, exercise, confined, scratch, how)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def repeat_line(exercise: Exercise, test: str) -> str:
    """What to type to see this test alone."""
    return f'make check-{exercise.name} ARGS="-k {test}"'


# ---- building ----


def build(
    result: Result, exercise: Exercise, confined: Confinement, scratch: Path, kept: Optional[compiling.Kept]
) -> None:
    """Builds the programs; notes in the result what the compiler said."""
    counter = compiling.compile_counter(kept.folder if kept else scratch, exercise.threads)
    if kept:
        counter = Path(shutil.copy2(counter, scratch))  # where the compiler may read it
    for name in exercise.programs:
        built = compiling.compile_program(
            confined.wrapper(), confined.home, scratch / "src", name, scratch / "bin" / exercise.chapter / name,
            counter, threads=exercise.threads, kept=kept,
        )  # fmt: skip
        result.compiler += built.words
        result.built = result.built and built.ok
    confined.kill_all()
    if not result.built:
        result.remarks += [event.what for event in confined.events]
        names = ", ".join(exercise.submit)
        result.remarks.append(f"{names}: this is taken from your folder, all else from the starter")


# ---- the tests ----


def environment(exercise: Exercise, confined: Confinement, scratch: Path) -> Dict[str, str]:
    """The variables under which the grader runs: the submission takes the place of the chapter's programs."""
    left_out = ("SERVER", "CLIENT", "HEADERS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTEST_ADDOPTS", "CALLS_FILE")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    wrappers = {"own": confined.wrapper(), "guest": confined.wrapper(guest=True)}
    env.update(
        WORKBOOK_BUILD=str(scratch / "bin"), WORKBOOK_PREBUILT="1", WRAPPER=shlex.join(confined.wrapper()),
        SUBMISSION=str(scratch / "src"), GRADE_EXERCISE=exercise.name, GRADE_WRAPPERS=json.dumps(wrappers),
        GRADE_RESULTS=str(scratch / "out" / "results"), TMPDIR=str(scratch / "tmp"), PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH=os.pathsep.join(filter(None, [str(exercise.root / "tests" / "exercises"), env.get("PYTHONPATH")])),
    )  # fmt: skip
    if env.get("SAN"):
        env.setdefault("TEST_TIME_FACTOR", FACTOR)
    return env


def run_tests(result: Result, exercise: Exercise, confined: Confinement, scratch: Path, how: How) -> None:
    """Runs the grader; where it does not end in time, what it has not come to is not run."""
    env = {**environment(exercise, confined, scratch), **how.variables}
    path = str(exercise.grader.relative_to(exercise.root))
    words = [sys.executable, "-m", "pytest", "-p", "lessons", "-p", "no:cacheprovider", "-q", "--tb=no"]
    words.append(f"--confcutdir={exercise.root / 'tests'}")
    words += [f"{path}::{name}" for name in how.only] or [path]
    words += [*how.arguments, *["-x"] * how.first_failure]
    limit = ((how.seconds or exercise.seconds) + START_SECONDS) * float(env.get("TEST_TIME_FACTOR", "1"))
    with open(scratch / "out" / "pytest", "w+b") as output:
        process = subprocess.Popen(
            words, cwd=exercise.root, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            late = False
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            if process.poll() is None:
                end(process)
        output.seek(0)
        printed = output.read(1 << 16).decode("utf-8", "replace")
    results = scratch / "out" / "results"
    entries = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    for test in result.tests:
        fill_in(test, entries, confined)
    if late:
        result.remarks.append(f"the tests took longer than {limit:g} s and were ended")
    elif not entries and how.arguments and process.returncode == NO_TESTS:
        names = ", ".join(test.name for test in result.tests)
        result.remarks.append(f"ARGS chooses none of the tests. They are called: {names}")
    elif not entries and how.arguments and process.returncode == NOT_UNDERSTOOD:
        said = re.findall(r"^(?:\S+: )?error: (?!usage)(.*)", printed, re.M | re.I)
        result.remarks.append(f"ARGS goes to pytest, which says: {said[-1] if said else 'it is not understood'}")
    elif not entries and process.returncode:
        result.broken = printed or f"pytest ended with status {process.returncode}"
    for entry in entries:
        result.broken = result.broken or entry.get("broken", "")
    if result.broken:
        result.remarks.append(f"the grader itself is broken: {result.broken}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a pytest as Ctrl-C does, so that it ends its servers; after a while by force."""
    for sig in (signal.SIGINT, signal.SIGKILL):
        os.killpg(process.pid, sig)
        try:
            process.wait(5)
            return
        except subprocess.TimeoutExpired:
            pass
    process.wait()


def tried(test: Test) -> str:
    """The first block of a lesson."""
    return textwrap.fill(test.tries, 106, initial_indent=f"{'tried':<10}", subsequent_indent=" " * 10)


def fill_in(test: Test, entries: List[Dict[str, object]], confined: Confinement) -> None:
    """Notes in the test what the results say. All cases of a test must pass; the first that fails gives the lesson."""
    mine = [entry for entry in entries if entry.get("test") == test.name]
    begun = any(entry.get("begin") == test.name for entry in entries)
    if not mine and begun:
        test.status = "failed"
        test.lesson = f"{tried(test)}\n{'came':<10}no end: the time of all tests was up, or the grader was ended"
    for entry in mine:
        test.seconds += float(str(entry["to"])) - float(str(entry["from"]))
    bad = next((entry for entry in mine if entry["status"] != "passed"), None)
    if bad:
        lesson = str(bad["lesson"])
        test.status = "not run" if bad["status"] == "skipped" else "failed"
        test.lesson = lesson if lesson.startswith("tried ") else f"{tried(test)}\n{lesson}"
        if CRASH.search(lesson) and not os.environ.get("SAN"):
            test.lesson += f"\n{'find it':<10}{test.repeat} SAN=address,undefined"
        for event in confined.events:
            if float(str(bad["from"])) <= event.at <= float(str(bad["to"])) + 1:
                test.lesson += f"\n{'ended':<10}{event.what}"
        if bad.get("seed"):
            test.repeat += f" TEST_SEED={bad['seed']}"
    elif mine:
        test.status = "instructor" if test.instructor else "passed"
        test.points = 0 if test.instructor else test.most
