#!/usr/bin/env python3
"""Proves exercises from both sides: what is right gets all points, and what is wrong fails for the reason that it has.

    prove.py [NN-slug ...] [-j N]      all of them, or these, on N processors

For each exercise: its files are complete; the starter builds and does not get all points; the solution gets all
points that a program can give; each wrong solution, two at least, fails the test that it names, and the lesson of that
test holds the words that it names; no lesson shows a traceback; the points of the tests are those of exercise.conf.
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

TOOLS = Path(__file__).resolve().parents[1] / "tools"
if not importlib.util.find_spec("pytest"):  # graders need it, and another Python may have it
    os.execvp("sh", ["sh", str(TOOLS / "findpython.sh"), "pytest", *sys.argv])
sys.path.insert(1, str(TOOLS))

import exercises  # noqa: E402
import grade  # noqa: E402
from compiling import Kept  # noqa: E402
from exercises import Exercise  # noqa: E402
from grade import How, Result  # noqa: E402
from layout import Problem, quit_with  # noqa: E402

LEAST_WRONG = 2
# Built in less time than a submission is, whose -O2 the harness's own builds of all chapters are checked with.
QUICKLY = ["-O0", "-g0"]  # what is to fail
FASTER = ["-O1", "-g0"]  # what is to pass: half the time of -O2, and nearly all of its warnings
Way = Callable[[Exercise, Kept], List[str]]
Part = Tuple[str, Way]


class Proof(NamedTuple):
    """What one part of the proof of an exercise has found."""

    exercise: str
    part: str
    seconds: float
    problems: List[str]


def how(kept: Kept, **more: Any) -> How:
    """How to grade what is ours: unlike a submission, it may be graded by Python files that were compiled before."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(kept.folder / "python")}
    return How(kept=kept, variables=compiled, **more)


def squeezed(text: str) -> str:
    """Blanks and letter case make no difference to what a lesson says, nor do the lines that it is broken into."""
    return " ".join(text.split()).lower()


def lessons(result: Result) -> List[str]:
    """What is wrong with the lessons themselves."""
    found = []
    for test in result.tests:
        if "Traceback (most recent call last)" in test.lesson or re.search(r'^ *File "', test.lesson, re.M):
            found.append(f"the lesson of {test.name} shows a traceback:\n{test.lesson}")
    return found + [f"the grader itself is broken: {result.broken}"] * bool(result.broken)


def files(exercise: Exercise, _: Kept) -> List[str]:
    """Problems of the files alone."""
    found = []
    assert exercise.hints
    if not re.match(r"# \S", exercise.readme):
        found.append("README.md must begin with a title, # ...")
    if sum(test.points for test in exercise.tests) != exercise.points:
        total = sum(test.points for test in exercise.tests)
        found.append(f"exercise.conf says {exercise.points} points, those of the tests are {total} together")
    found += [f"{test.name} has no docstring: what is tried?" for test in exercise.tests if not test.tries]
    if len(exercise.wrong_names()) < LEAST_WRONG:
        found.append(f"there are {len(exercise.wrong_names())} wrong solutions, {LEAST_WRONG} are needed")
    names = [test.name for test in exercise.tests]
    for name in exercise.wrong_names():
        if exercise.wrong(name).fails not in names:
            found.append(f"wrong/{name}: fails: {exercise.wrong(name).fails}, but the tests are {', '.join(names)}")
    if exercise.kind in ("explain", "measure") and not (exercise.folder / "key.md").exists():
        found.append("there is no key.md for the instructor")
    return found


def starter(exercise: Exercise, kept: Kept) -> List[str]:
    result = grade.grade_tree(exercise.tree("starter"), exercise, how(kept, first_failure=True, flags=QUICKLY))
    if not result.built:
        return [f"the starter does not build:\n{result.compiler}"]
    if result.passed:
        return ["the starter passes all tests"]
    return lessons(result)


def solution(exercise: Exercise, kept: Kept) -> List[str]:
    result = grade.grade_tree(exercise.tree("solution"), exercise, how(kept, flags=FASTER))
    if not result.built:
        return [f"the solution does not build:\n{result.compiler}"]
    found = [f"the compiler says of the solution:\n{result.compiler}"] if result.compiler else []
    for test in result.tests:
        if test.status not in ("passed", "instructor"):
            found.append(f"the solution fails {test.name} ({test.status}):\n{test.lesson}")
    return found + result.remarks


def wrong(name: str) -> Way:
    """The proof of one wrong solution."""

    def proof(exercise: Exercise, kept: Kept) -> List[str]:
        said = exercise.wrong(name)
        tree = exercise.tree(f"wrong/{name}")
        result = grade.grade_tree(tree, exercise, how(kept, only=[said.fails], flags=QUICKLY))
        if not result.built:
            return [f"it does not build:\n{result.compiler}"]
        test = next(test for test in result.tests if test.name == said.fails)
        if test.status != "failed":
            return [f"{said.fails} does not fail, it is {test.status}", *result.remarks]
        if not any(squeezed(words) in squeezed(test.lesson) for words in said.says.split(" | ")):
            return [f"the lesson of {said.fails} does not say `{said.says}`:\n{test.lesson}"]
        return lessons(result)

    return proof


def parts(exercise: Exercise) -> List[Part]:
    """All that there is to prove of an exercise."""
    ways: List[Part] = [("files", files), ("starter", starter), ("solution", solution)]
    return ways + [(f"wrong/{name}", wrong(name)) for name in exercise.wrong_names()]


def run(kept: Kept, exercise: Exercise, part: str, way: Way) -> Proof:
    began = time.monotonic()
    try:
        problems = way(exercise, kept)
    except Problem as problem:
        problems = [str(problem)]
    return Proof(exercise.name, part, time.monotonic() - began, problems)


def prove(chosen: Sequence[Exercise], jobs: int) -> bool:
    """Proves the exercises; what several submissions have in common, mostly the client, is built once."""
    with tempfile.TemporaryDirectory() as folder:
        return prove_all(chosen, jobs, Kept(Path(folder)))


def prove_all(chosen: Sequence[Exercise], jobs: int, kept: Kept) -> bool:
    """Prints a line for each part, and what is wrong with it; the last line counts them.

    What failed is tried once more when nothing else runs: a limit may have been too short on a busy machine. What
    passes then is named at the end, since a grader that needs a second try wants a look.
    """
    work = [(exercise, *part) for exercise in chosen for part in parts(exercise)]
    again = []
    with ThreadPoolExecutor(jobs + 1) as pool:  # what is wrong often waits
        waiting = {pool.submit(run, kept, *job): job for job in work}
        try:
            for future in as_completed(waiting):
                show(future.result())
                again += [waiting[future]] if future.result().problems else []
        except KeyboardInterrupt:
            for future in waiting:
                future.cancel()
            raise
    if again:
        print(f"once more, one at a time: {len(again)}", flush=True)
    second = [run(kept, *job) for job in again]
    for proof in second:
        show(proof)
    late = [proof for proof in second if not proof.problems]
    failed = len(second) - len(late)
    for proof in late:
        print(f"needed a second try: {proof.exercise} {proof.part}")
    print(f"{len(work) - failed} passed, {failed} failed: {len(chosen)} exercises from both sides")
    return not failed and bool(work)


def show(proof: Proof) -> None:
    """Prints what a part of the proof has found."""
    word = "FAILED" if proof.problems else "ok"
    print(f"{proof.exercise:<28}{proof.part:<40} {word:<7}{proof.seconds:6.1f} s", flush=True)
    for problem in proof.problems:
        print("".join(f"    {line}\n" for line in problem.splitlines()), end="", flush=True)


def main(argv: List[str]) -> int:
    os.umask(0o022)
    parser = argparse.ArgumentParser(description="Proves exercises from both sides.")
    parser.add_argument("names", nargs="*", metavar="NN-slug")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    args = parser.parse_args(argv)
    try:
        chosen = [exercises.find(name) for name in args.names] or exercises.all_exercises()
        if not chosen:
            raise Problem("there are no exercises in this copy of the workbook")
        return 0 if prove(chosen, args.j) else 1
    except Problem as problem:
        quit_with(str(problem), 1)
    except KeyboardInterrupt:
        quit_with("interrupted", 130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
