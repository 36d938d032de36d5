#!/usr/bin/env python3
"""Grades what is handed in: one exercise, a submission, a whole class.

    grade.py one DIR [--out DIR] [--exercise NN-slug ...]         make grade SUBMISSION=DIR
    grade.py all DIR [--out DIR] [--exercise NN-slug ...] [-j N]  make grade-all SUBMISSIONS=DIR

A submission is a folder with a folder for each exercise, as `make start-NN-slug` makes them: DIR/04-buffered-reads/.
Where one exercise is named, the files may lie in DIR itself. What is named and was not handed in has 0 points, and so
has a folder without any of the files to hand in. Where none is named, those that are there are graded. `all` takes
each folder in DIR for a submission.

One submission writes results.json (the format of Gradescope), results.xml (JUnit) and transcript.txt into
build/grades/NAME; all of them write that for each, and grades.csv and summary.txt beside them.

    result = grade(folder, exercise)          or grade(folder, exercise, How(seconds=30, ...))
    result.score, result.most, result.passed, result.built, result.tests, result.remarks, result.seconds

is for other programs: it builds one exercise within bounds, runs its grader in a process of its own and collects what
came of it. A submission that does not build, hangs, crashes, prints without end or starts processes without end gives
a Result like any other; Problem is raised only where the exercise itself is not as it should be. It keeps no state, so
any number may run at once, in threads or processes; where they run as root, each submission has a user id of its own
(confine.py).
"""
from __future__ import annotations

import argparse
import csv
import hashlib
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
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import compiling  # noqa: E402
import exercises  # noqa: E402
import pristine  # noqa: E402
from changeform import Tree  # noqa: E402
from confine import Confinement, Limits, alone, can_be_alone, hidden, lacking, sanitized  # noqa: E402
from copies import of_the_chapter  # noqa: E402
from exercises import Exercise, Handed  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

FACTOR = "4"  # of time limits, for programs with a sanitizer
CRASH = re.compile(r"killed by SIG(SEGV|BUS|ABRT|FPE|ILL)")  # a sanitizer would name the line
START_SECONDS = 20.0  # for pytest itself, beside the tests
NOT_UNDERSTOOD, NO_TESTS = 4, 5  # exit statuses of pytest
NO_SCORE = 3  # our own
GRADES = ROOT / "build" / "grades"
SHOWN = 20  # tests in the summary
ABSENT, UNCHANGED = "was not handed in", "nothing was changed in the starter"
BROKEN, UNSAFE, TAMPERED = "the grader itself is broken", "THIS DOES NOT COUNT", "what grades was changed meanwhile"
LOOK_INTO = "look into"
BOOK = "this is the chapter's file, not the student's own mended"
NOTES = (ABSENT, UNCHANGED, BROKEN)  # remarks that go into grades.csv
WHOLE = (UNSAFE, TAMPERED, LOOK_INTO, BOOK)  # how those begin that go there as they are
# Words that a solution has no use for: somebody should read the file that has them. No points are lost by that.
SUSPECT = re.compile(
    r"solution\.(?:change|patch)|results\.json|\bout/results|tests/(?:exercises|learn|harness)|\bGRADE_\w+|WORKBOOK_\w+"
    r"|LD_PRELOAD|/proc/(?:net|\d|%)|\"/tmp/|\.incbin|\bptrace\b|\bgetppid\b|kill\s*\(\s*-\s*1\b"
)
MOST_OUTPUT = 1 << 16  # characters of a transcript that a broken grader leaves


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


@dataclass(frozen=True)
class How:
    """How to grade: only: names of tests; arguments: more for pytest; first_failure: stop there; seconds: for all tests
    together; variables: of the environment, such as TEST_TIME_FACTOR on a slow machine; kept: what was built before;
    flags: more for the compiler; later: with the tests that count from a date on, where that is over."""

    only: Sequence[str] = ()
    arguments: Sequence[str] = ()
    first_failure: bool = False
    limits: Optional[Limits] = None
    seconds: Optional[float] = None
    variables: Mapping[str, str] = field(default_factory=dict)
    kept: Optional[compiling.Kept] = None
    flags: Sequence[str] = ()
    later: bool = False


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
        Test(t.name, t.title, t.points, t.instructor, t.tries, repeat=exercise.again(t.name))
        for t in exercise.tests
    ]
    again = f"by your instructor: it counts since {exercise.due}" if how.later else ""
    tests += [Test(t.name, t.title, t.points, t.instructor, t.tries, repeat=again) for t in later_tests(exercise, how)]
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
            build(result, exercise, confined, scratch, how)
            if result.built:
                run_tests(result, exercise, confined, scratch, how)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def later_tests(exercise: Exercise, how: How) -> List[exercises.Graded]:
    return exercise.later_tests if how.later else []


# ---- building ----


def build(result: Result, exercise: Exercise, confined: Confinement, scratch: Path, how: How) -> None:
    """Builds the programs; notes in the result what the compiler said."""
    counter = compiling.compile_counter(how.kept.folder if how.kept else scratch, exercise.threads)
    if how.kept:
        counter = Path(shutil.copy2(counter, scratch))  # where the compiler may read it
    for name in exercise.programs:
        built = compiling.compile_program(
            confined.wrapper(), confined.home, scratch / "src", name, scratch / "bin" / exercise.chapter / name,
            counter, threads=exercise.threads, flags=how.flags, kept=how.kept,
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
    words = [*alone(), sys.executable, "-m", "pytest", "-p", "lessons", "-p", "no:cacheprovider", "-q", "--tb=no"]
    words.append(f"--confcutdir={exercise.root / 'tests'}")
    later = [str(exercise.later.relative_to(exercise.root))] * bool(later_tests(exercise, how))
    words += [f"{path}::{name}" for name in how.only] or [path, *later]
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
            end(process, 5)
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
        result.remarks.append(f"{BROKEN}: {result.broken}")


def end(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Ends a pytest or a grader that is still there: as Ctrl-C does, so that it cleans up, then by force."""
    for sig in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sig)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass


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


@dataclass
class Graded:
    """An exercise of a submission, and what came of it."""

    exercise: Exercise
    result: Result
    text: str  # for people


# ---- what was handed in ----


def handed_in(folder: Path, wanted: Sequence[str]) -> Dict[str, Optional[Path]]:
    """Exercise -> the folder with its files, None where it is wanted and not there. Problem where there is none at
    all."""
    if not folder.is_dir():
        raise Problem(f"{folder}: there is no such folder")
    known = [exercise.name for exercise in exercises.all_exercises()]
    for name in wanted:
        exercises.find(name)
    found: Dict[str, Optional[Path]] = {}
    for name in wanted or known:
        for place in (folder / name, folder / "my" / name):
            if place.is_dir() and not place.is_symlink():
                found[name] = place
                break
    if not found and folder.resolve().name in (wanted or known):
        found[folder.resolve().name] = folder
    elif not found and len(wanted) == 1:
        found[wanted[0]] = folder
    if not found and not wanted:
        raise Problem(
            f"{folder} holds no exercise. It needs a folder for each, named as `make exercises` names them "
            f"({known[0] if known else 'NN-slug'}); or say which one it is: EXERCISE=NN-slug"
        )
    return {name: found.get(name) for name in wanted} if wanted else found


def grade_exercise(
    exercise: Exercise, folder: Optional[Path], how: How = How(), void: Callable[[Handed], List[str]] = lambda _: [],
) -> Graded:
    """Grades one exercise of a submission. Where `void` has something to say of it, nothing is counted."""
    from reporting import report, total

    handed = exercises.hand_in(exercise, folder) if folder else None
    if handed and handed.taken:
        before = fingerprint()
        result = grade_handed(handed, exercise, replace(how, later=True))
        copied = of_the_chapter(handed.tree, exercise)
        voided = void(handed) + [f"{BOOK}, so nothing is counted: {', '.join(copied)}"] * bool(copied)
        tampered = changed_since(before)
        result.remarks += suspicions(handed) + voided
        if handed.tree == exercise.starter():
            result.remarks.append(UNCHANGED)
        if tampered:
            result.remarks.append(f"{TAMPERED}, so nothing is counted: {', '.join(tampered)}")
        if tampered or voided or handed.tree == exercise.starter():
            for test in result.tests:
                test.points = 0
        result.remarks += [f"{UNSAFE}: {what}" for what in lacking()]
    else:
        all_tests = [*exercise.tests, *exercise.later_tests]
        tests = [Test(t.name, t.title, t.points, t.instructor, t.tries) for t in all_tests]
        result = Result(exercise.name, tests=tests, remarks=[f"it {ABSENT}, that is {', '.join(exercise.submit)}"])
    text = f"{exercise.name}, {exercise.title}: {total(result)}\n\n{report(result)}\n"
    return Graded(exercise, result, text)


def suspicions(handed: Handed) -> List[str]:
    """Names files that speak of what is no part of the task."""
    found = []
    for name in handed.taken:
        words = sorted(set(SUSPECT.findall(handed.tree[name]))) if name.endswith((".c", ".h", ".py", ".sh")) else []
        found += [f"{LOOK_INTO} {name}: it speaks of {', '.join(words)}"] * bool(words)
    return found


# ---- what grades ----


def fingerprint() -> Dict[str, str]:
    """All files that have a say in the grading: path -> hash."""
    found = {}
    for top in ("tests", "chapters", "common"):
        for folder, folders, names in os.walk(ROOT / top):
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            for path in (Path(folder, name) for name in names if "." in name):
                try:
                    data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
                    found[str(path.relative_to(ROOT))] = hashlib.sha256(data).hexdigest()
                except FileNotFoundError:
                    pass  # an editor's, or a test's
    return found


def changed_since(before: Mapping[str, str]) -> List[str]:
    """The files that are not as they were, some of them where there are many."""
    now = fingerprint()
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))[:5]


# ---- one submission ----


def grade_one(folder: Path, out: Path, wanted: Sequence[str]) -> int:
    """Grades a submission, prints what came of it, writes the files. Returns the exit status: 0, also for a bad one.

    Where the grader cannot do its work, there is no score: results.json is not written, and the status is 3.
    """
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    graded = [grade_exercise(exercises.find(name), place) for name, place in handed_in(folder, wanted).items()]
    points = f"{sum(g.result.score for g in graded)} of {sum(g.result.most for g in graded)} points"
    rule = "=" * 78
    text = "".join(f"{rule}\n{g.text}\n" for g in graded) + f"{rule}\n{table(graded)}\nIn all {points}\n"
    write(out / "transcript.txt", text)
    broken = [f"{g.exercise.name}: {g.result.broken.strip().splitlines()[-1]}" for g in graded if g.result.broken]
    if broken:
        (out / "results.json").unlink(missing_ok=True)
        print(text, file=sys.stderr)
        print(f"no score, {BROKEN} (this is for the instructor to mend): {'; '.join(broken)}", file=sys.stderr)
        return NO_SCORE
    write(out / "results.json", json.dumps(gradescope(graded, time.monotonic() - began), indent=1) + "\n")
    write(out / "results.xml", junit(graded))
    print(text, end="")
    print(f"written: {shown(out)}/results.json, results.xml, transcript.txt")
    return 0


def notes_on(result: Result) -> List[str]:
    """What an instructor wants to know beside the points."""
    words = ["does not build"] * (not result.built)
    words += [word for word in NOTES if any(word in remark for remark in result.remarks)]
    words += [remark for remark in result.remarks if remark.startswith(WHOLE)]
    return words + [f"{result.for_instructor} points to mark"] * bool(result.for_instructor)


def table(graded: Sequence[Graded]) -> str:
    """A line for each exercise."""
    done = [g.result for g in graded]
    rows = [f"  {each.exercise:<28}{each.score:>4} of {each.most:>3}  {', '.join(notes_on(each))}" for each in done]
    return "\n".join(row.rstrip() for row in rows)


def gradescope(graded: Sequence[Graded], seconds: float) -> Dict[str, object]:
    """results.json as https://gradescope-autograders.readthedocs.io describes it."""
    tests: List[Dict[str, object]] = []
    for g in graded:
        said = "\n".join([g.result.compiler, *g.result.remarks]).strip()
        for test in g.result.tests:
            waits, good = test.status == "instructor", test.status in ("passed", "instructor")
            tests.append({
                "name": f"{g.exercise.name}: {test.title}" + " (marked by the instructor)" * waits,
                "score": test.points, "max_score": test.most, "status": "passed" if good else "failed",
                "output": plain(test.lesson or ("" if good else said)), "visibility": "visible",
            })  # fmt: skip
    text = "\n".join(plain(g.text) for g in graded if not g.result.built or g.result.remarks)
    notes = [f"{g.exercise.name}: {note}" for g in graded for note in notes_on(g.result)]
    return {
        "score": sum(g.result.score for g in graded), "execution_time": round(seconds, 1), "output": text,
        "visibility": "visible", "tests": tests, "extra_data": {"notes": notes},
    }  # fmt: skip


def junit(graded: Sequence[Graded]) -> str:
    """The same for continuous integration."""
    suites = ElementTree.Element("testsuites")
    for g in graded:
        name, tests = g.exercise.name, g.result.tests
        failed = [test for test in tests if test.status in ("failed", "not run")]
        counts = {"tests": str(len(tests)), "failures": str(len(failed)), "errors": "0"}
        suite = ElementTree.SubElement(suites, "testsuite", name=name, **counts)
        for test in tests:
            said = {"classname": name, "name": test.name, "time": f"{test.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", said)
            if test in failed:
                ElementTree.SubElement(case, "failure", message=test.title).text = plain(test.lesson or g.text)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def plain(text: str) -> str:
    """Without colours, and without the characters that XML cannot hold."""
    text = re.sub(r"\033\[[0-9;]*m", "", text).encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def write(path: Path, text: str) -> None:
    """Writes a file that is whole from the moment at which it has its name."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(plain(text), encoding="utf-8")
    part.replace(path)


def shown(path: Path) -> str:
    """The path as short as it can be said here."""
    path = path.resolve()
    return str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)


# ---- a whole class ----


@dataclass
class Row:
    """A student's line in grades.csv."""

    name: str
    note: str
    scores: Dict[str, int]  # of each exercise
    most: int  # points that there were to be had
    failed: List[Tuple[str, bool]]  # tests, and whether they were failed


def grade_all(folder: Path, out: Path, wanted: Sequence[str], jobs: int) -> int:
    """Grades every folder in `folder`, each in a process of its own that may break down without harm to the others."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise Problem(f"{folder} holds no folders. It needs one for each submission, named after the student")
    for name in wanted:
        exercises.find(name)
    out.mkdir(parents=True, exist_ok=True)
    if jobs > 1 and not can_be_alone():
        print("the kernel gives submissions no network of their own, so they are graded one after the other")
        jobs = 1
    rows: List[Row] = []
    before = fingerprint()
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(grade_in_process, folder / name, out / name, wanted, before) for name in names]
        try:
            for done, future in enumerate(waiting, 1):
                row = future.result()
                rows.append(row)
                print(f"{done:>4}/{len(names)}  {row.name:<30} {sum(row.scores.values()):>4}  {row.note}", flush=True)
        except KeyboardInterrupt:
            for future in waiting:
                future.cancel()
            raise
    graded = sorted({name for row in rows for name in row.scores}) if not wanted else list(wanted)
    write_grades(out / "grades.csv", rows, graded)
    summary = summary_of(rows)
    write(out / "summary.txt", summary)
    print(f"\n{summary}\nwritten: {shown(out)}/grades.csv, summary.txt, and a folder for each submission")
    return 0


def time_limit(wanted: Sequence[str], folder: Path) -> float:
    """Seconds after which the grading of a submission is ended: what its exercises may take, and as long again."""
    try:
        names = list(handed_in(folder, wanted))
    except Problem:
        names = []
    factor = float(os.environ.get("TEST_TIME_FACTOR", "1"))
    return 60 + 2 * factor * sum(exercises.find(name).seconds + 60 for name in names)


def grade_in_process(folder: Path, out: Path, wanted: Sequence[str], before: Mapping[str, str]) -> Row:
    """Grades one of many. One that cannot be graded has a line that says why. before: what grades, as it was."""
    tampered = changed_since(before)
    if tampered:
        note = f"was not graded: {', '.join(tampered)} changed since the class was begun. Put it right, and grade again"
        return Row(folder.name, note, {}, 0, [])
    command = [sys.executable, __file__, "one", str(folder), "--out", str(out)]
    command += [word for name in wanted for word in ("--exercise", name)]
    limit = time_limit(wanted, folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").unlink(missing_ok=True)
    with open(out / "log", "w+b") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        note = ""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            note = f"took longer than {limit:g} s and was ended"
        except BaseException:
            end(process, 20)
            raise
        end(process, 20)
        log.seek(0)
        said = log.read(MOST_OUTPUT).decode("utf-8", "replace")
    (out / "log").unlink()
    if not (out / "results.json").exists():
        last = said.strip().splitlines()[-1:] or ["nothing"]
        write(out / "transcript.txt", said)
        return Row(folder.name, note or f"was not graded: {last[0]}", {}, 0, [])
    return row_of(folder.name, json.loads((out / "results.json").read_text(encoding="utf-8")), note)


def row_of(name: str, results: Dict[str, object], note: str) -> Row:
    """The line of a submission that was graded."""
    scores: Counter[str] = Counter()
    failed: List[Tuple[str, bool]] = []
    tests = results["tests"]
    assert isinstance(tests, list)
    for test in tests:
        exercise = test["name"].partition(":")[0]
        scores[exercise] += test["score"]
        failed.append((test["name"], test["status"] == "failed"))
    extra = results["extra_data"]
    assert isinstance(extra, dict)
    most = sum(test["max_score"] for test in tests)
    return Row(name, "; ".join([note] * bool(note) + extra["notes"]), dict(scores), most, failed)


def write_grades(path: Path, rows: Sequence[Row], graded: Sequence[str]) -> None:
    """grades.csv: a line for each submission, a column for each exercise."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["submission", "total", "maximum", "percent", *graded, "note"])
        for row in rows:
            total = sum(row.scores.values())
            percent = f"{100 * total / row.most:.1f}" if row.most else ""
            points = [total, row.most, percent] if row.scores else ["", "", ""]
            cells = [row.scores.get(name, "") for name in graded]
            sheet.writerow([harmless(row.name), *points, *cells, harmless(row.note)])
    part.replace(path)


def harmless(cell: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else cell


def summary_of(rows: Sequence[Row]) -> str:
    """Which tests most students fail."""
    run: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for row in rows:
        for name, bad in row.failed:
            run[name] += 1
            failed[name] += bad
    lines = [f"{len(rows)} submissions, {sum(not row.scores for row in rows)} of them could not be graded."]
    worst = [(name, count) for name, count in failed.most_common(SHOWN) if count]
    lines += ["What most of them failed:"] if worst else ["Nobody failed a test."]
    lines += [f"  {count:>4} of {run[name]:<4} {name}" for name, count in worst]
    return "\n".join(lines) + "\n"


# ---- the command line ----


def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(description="Grades submissions.", usage=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("what", choices=("one", "all"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--exercise", action="append", default=[])
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    said = parser.parse_args(argv)
    out = said.out or (GRADES if said.what == "all" else GRADES / said.folder.resolve().name)
    os.environ.setdefault("NO_COLOR", "1")
    os.environ[pristine.VARIABLE] = "1"
    try:
        if not said.folder.is_dir():
            raise Problem(f"{said.folder}: there is no such folder")
        others = said.folder if said.what == "all" else said.folder.resolve().parent
        hide = [str(path.resolve()) for path in (others, out) if path.resolve() != Path("/")]
        os.environ["GRADE_HIDDEN"] = os.pathsep.join([*hidden(), *hide])
        if said.what == "one":
            return grade_one(said.folder, out, said.exercise)
        return grade_all(said.folder, out, said.exercise, max(1, said.j))
    except BrokenPipeError:  # the reader has left, as head does; the files of `one` are written by then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if said.what == "one" else 1
    except Problem as problem:
        quit_with(str(problem), 1)
    except KeyboardInterrupt:
        quit_with("interrupted", 130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
