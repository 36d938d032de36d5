#!/usr/bin/env python3
"""Grades what is handed in: one exercise, a submission, a whole class.

    grade.py one DIR [--out DIR] [--exercise NN-slug ...]         make grade SUBMISSION=DIR
    grade.py all DIR [--out DIR] [--exercise NN-slug ...] [-j N]  make grade-all SUBMISSIONS=DIR

A submission is a folder with a folder for each exercise, as `make start-NN-slug` makes them: DIR/04-buffered-reads/.
Where one exercise is named, the files may lie in DIR itself. What is named and was not handed in has 0 points, and so
has a folder without any of the files to hand in. Where none is named, those that are there are graded. `all` takes
each folder in DIR for a submission.

One submission writes results.json (the format of Gradescope) and transcript.txt into build/grades/NAME; all of them
write that for each, and grades.csv and summary.txt beside them.

    result = grade(folder, exercise)          or grade(folder, exercise, How(only=["test_reads"], ...))
    result.score, result.most, result.passed, result.built, result.tests, result.remarks

is for other programs: it builds one exercise within bounds, runs its grader in a process of its own and collects what
came of it. A submission that does not build, hangs, crashes, prints without end or starts processes without end gives
a Result like any other; Problem is raised only where the exercise itself is not as it should be. It keeps no state, so
any number may run at once, in threads or processes; where they run as root, each submission has a user id of its own
(confine.py).
"""
from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS), str(TESTS / "tools"), str(TESTS / "exercises")]

import compiling  # noqa: E402
import exercises  # noqa: E402
import pristine  # noqa: E402
from changeform import Tree  # noqa: E402
from confine import Confinement, Limits, alone, can_be_read, hidden, isolated  # noqa: E402
from confine import needed_for_a_class, sanitized  # noqa: E402
from copies import of_the_chapter  # noqa: E402
from exercises import Exercise, Handed  # noqa: E402
from harness.failure import Cause, Failure  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

if TYPE_CHECKING:
    from warm import Warm

FACTOR = "4"  # of time limits, for programs with a sanitizer
CRASH = re.compile(r"killed by SIG(SEGV|BUS|ABRT|FPE|ILL)")  # a sanitizer would name the line
START_SECONDS = 20.0  # for pytest itself, beside the tests
NOT_UNDERSTOOD, NO_TESTS = 4, 5  # exit statuses of pytest
NO_SCORE = 3  # our own
GRADES = ROOT / "build" / "grades"
SHOWN = 20  # tests in the summary
FOLD, LESSON_COLUMNS, LESSON_LINES = 106, 210, 60  # sentences are folded, what is laid out in columns is cut
ABSENT, UNCHANGED = "was not handed in", "nothing was changed in the starter"
BROKEN = "the grader itself is broken"
READABLE = "not graded in isolation: it could have read the graders and solutions"
BOOK = "this is the chapter's file, not the student's own mended"
NOTES = (ABSENT, UNCHANGED, BROKEN)  # remarks that go into grades.csv
WHOLE = (READABLE, BOOK)  # how those begin that go there as they are
MOST_OUTPUT = 1 << 16  # bytes that are read of what a grader prints


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


@dataclass
class Result:
    """What came of a submission."""

    exercise: str
    built: bool = True
    compiler: str = ""  # what it said, warnings too
    tests: List[Test] = field(default_factory=list)
    remarks: List[str] = field(default_factory=list)
    broken: str = ""  # what is wrong with the grader itself: then the score says nothing

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
    """How to grade: only: names of tests; arguments: more for pytest; first_failure: stop there; variables: of the
    environment, such as TEST_TIME_FACTOR on a slow machine; kept: what was compiled before, and how; warm: who forks
    the grader, which takes less time than to start it."""

    only: Sequence[str] = ()
    arguments: Sequence[str] = ()
    first_failure: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    kept: Optional[compiling.Kept] = None
    warm: "Optional[Warm]" = None


def grade(folder: Path, exercise: Union[Exercise, str], how: How = How()) -> Result:
    """Grades the files that somebody hands in, in `folder`."""
    exercise = exercises.find(exercise) if isinstance(exercise, str) else exercise
    return grade_handed(exercises.hand_in(exercise, folder), exercise, how)


def grade_tree(tree: Tree, exercise: Exercise, how: How = How()) -> Result:
    """Grades a tree as it is: a starter, a solution, a wrong solution."""
    return grade_handed(Handed(tree, sorted(tree), []), exercise, how)


def grade_handed(handed: Handed, exercise: Exercise, how: How) -> Result:
    """Grades what was handed in."""
    result = Result(exercise.name, tests=untested(exercise), remarks=list(handed.remarks))
    limits = Limits(processes=exercise.processes)
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
    return result


def untested(exercise: Exercise) -> List[Test]:
    """The tests of an exercise before any is run."""
    again = exercise.again
    return [Test(t.name, t.title, t.points, t.instructor, t.tries, repeat=again(t.name)) for t in exercise.tests]


# ---- building ----


def build(result: Result, exercise: Exercise, confined: Confinement, scratch: Path, how: How) -> None:
    """Builds the programs; notes in the result what the compiler said."""
    counter = compiling.compile_counter(how.kept.folder if how.kept else scratch, exercise.threads)
    if how.kept:
        counter = Path(shutil.copy2(counter, scratch))  # where the compiler may read it
    wrapper, programs = [*alone(), *confined.wrapper()], scratch / "bin" / exercise.chapter
    for name in exercise.programs:
        built = compiling.compile_program(
            wrapper, confined.home, scratch / "src", name, programs / name, counter, threads=exercise.threads,
            kept=how.kept and how.kept.of_chapter(exercise.begins_with),
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
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # what else is installed has no part in a grade, and takes time to find
    )  # fmt: skip
    if env.get("SAN"):
        env.setdefault("TEST_TIME_FACTOR", FACTOR)
    return env


def run_tests(result: Result, exercise: Exercise, confined: Confinement, scratch: Path, how: How) -> None:
    """Runs the grader; where it does not end in time, what it has not come to is not run."""
    env = {**environment(exercise, confined, scratch), **how.variables}
    if how.kept:
        env["GRADE_KEPT"] = json.dumps([str(how.kept.folder), *how.kept.flags])
    path = str(exercise.grader.relative_to(exercise.root))
    words = ["-p", "no:cacheprovider", "-q", "--tb=no", f"--confcutdir={exercise.root / 'tests'}"]
    words += [f"{path}::{name}" for name in how.only] or [path]
    words += [*how.arguments, *["-x"] * how.first_failure]
    limit = (exercise.seconds + START_SECONDS) * float(env.get("TEST_TIME_FACTOR", "1"))
    if how.warm:
        ended = how.warm.pytest(words, env, limit, alone=isolated())
        ran = compiling.Ran(-1 if ended.status is None else ended.status, ended.said, ended.late, False)
    else:
        words = [*alone(), sys.executable, "-m", "pytest", *words]
        ran = run_to_an_end(words, limit, 5, scratch / "out" / "pytest", cwd=exercise.root, env=env)
    results = scratch / "out" / "results"
    entries = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
    for test in result.tests:
        fill_in(test, entries, confined)
    if ran.late:
        result.remarks.append(f"the tests took longer than {limit:g} s and were ended")
    elif not entries and how.arguments and ran.status == NO_TESTS:
        names = ", ".join(test.name for test in result.tests)
        result.remarks.append(f"ARGS chooses none of the tests. They are called: {names}")
    elif not entries and how.arguments and ran.status == NOT_UNDERSTOOD:
        said = re.findall(r"^(?:\S+: )?error: (?!usage)(.*)", ran.output, re.M | re.I)
        result.remarks.append(f"ARGS goes to pytest, which says: {said[-1] if said else 'it is not understood'}")
    elif not entries and ran.status:
        result.broken = ran.output or f"pytest ended with status {ran.status}"
    for entry in entries:
        result.broken = result.broken or entry.get("broken", "")
    if result.broken:
        result.remarks.append(f"{BROKEN}: {result.broken}")


def run_to_an_end(
    words: Sequence[str], seconds: float, to_clean_up: float, log: Path, **options: Any
) -> compiling.Ran:
    """Runs a pytest or a grader that prints into a file. What is late is ended as Ctrl-C does, so that it cleans up,
    and then by force."""
    with open(log, "w+b") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **options
        )
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            for sig in (signal.SIGINT, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, sig)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(to_clean_up)
        output.seek(0)
        return compiling.Ran(process.returncode, output.read(MOST_OUTPUT).decode("utf-8", "replace"), late, False)


def fill_in(test: Test, entries: List[Dict[str, Any]], confined: Confinement) -> None:
    """Notes in the test what the results say. All cases of a test must pass; the first that fails gives the lesson."""
    mine = [entry for entry in entries if entry.get("test") == test.name]
    begun = any(entry.get("begin") == test.name for entry in entries)
    if not mine and begun:
        test.status = "failed"
        test.lesson = lesson(test, {"what": "no end: the time of all tests was up, or the grader was ended"})
    bad = next((entry for entry in mine if entry["status"] != "passed"), None)
    if bad:
        test.status = "not run" if bad["status"] == "skipped" else "failed"
        test.lesson = lesson(test, bad)
        if CRASH.search(test.lesson) and not os.environ.get("SAN"):
            test.lesson += f"\n{'find it':<10}{test.repeat} SAN=address,undefined"
        for event in confined.events:
            if bad["from"] <= event.at <= bad["to"] + 1:
                test.lesson += f"\n{'ended':<10}{event.what}"
        if bad["seed"]:
            test.repeat += f" TEST_SEED={bad['seed']}"
    elif mine:
        test.status = "instructor" if test.instructor else "passed"
        test.points = 0 if test.instructor else test.most


def lesson(test: Test, entry: Mapping[str, Any]) -> str:
    """What there is to learn from an entry of the results, as text."""
    blocks = entry.get("blocks", [])
    if not any(title == "tried" for title, _ in blocks):
        blocks = [("tried", [test.tries]), *blocks]
    lines = Failure(entry.get("what", ""), blocks, Cause("", entry.get("why", ""))).lesson(FOLD)
    shown = [line if len(line) <= LESSON_COLUMNS else line[:LESSON_COLUMNS] + " ..." for line in lines]
    return "\n".join(shown[:LESSON_LINES] + ["..."] * (len(lines) > LESSON_LINES))


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
    known = {exercise.name: exercise for exercise in exercises.all_exercises()}
    wanted = [exercises.find(name).name for name in wanted]
    found: Dict[str, Optional[Path]] = {}
    for name in wanted or known:
        for each in (name, known[name].old_name):
            for place in (folder / each, folder / "my" / each):
                if name not in found and place.is_dir() and not place.is_symlink():
                    found[name] = place
    if not found and folder.resolve().name in (wanted or known):
        found[folder.resolve().name] = folder
    elif not found and len(wanted) == 1:
        found[wanted[0]] = folder
    if not found and not wanted:
        raise Problem(
            f"{folder} holds no exercise. It needs a folder for each, named as `make exercises` names them "
            f"({next(iter(known), 'NN-slug')}); or say which one it is: EXERCISE=NN-slug"
        )
    return {name: found.get(name) for name in wanted} if wanted else found


def grade_exercise(exercise: Exercise, folder: Optional[Path], how: How = How()) -> Graded:
    """Grades one exercise of a submission. Nothing is counted where it is the starter, or the chapter's own file."""
    from reporting import report, total

    handed = exercises.hand_in(exercise, folder) if folder else None
    if handed and handed.taken:
        result = grade_handed(handed, exercise, how)
        copied = of_the_chapter(handed.tree, exercise)
        voided = [f"{BOOK}, so nothing is counted: {', '.join(copied)}"] * bool(copied)
        voided += [UNCHANGED] * (handed.tree == exercise.starter())
        for test in result.tests if voided else []:
            test.points = 0
        result.remarks += voided + [READABLE] * can_be_read()
    else:
        remark = f"it {ABSENT}, that is {', '.join(exercise.submit)}"
        result = Result(exercise.name, tests=untested(exercise), remarks=[remark])
    text = f"{exercise.name}, {exercise.title}: {total(result)}\n\n{report(result)}\n"
    return Graded(exercise, result, text)


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
    print(text, end="")
    print(f"written: {shown(out)}/results.json, transcript.txt")
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


def plain(text: str) -> str:
    """Without colours, and without control characters and halves of characters, which no file of text may hold."""
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
    needed_for_a_class()
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise Problem(f"{folder} holds no folders. It needs one for each submission, named after the student")
    for name in wanted:
        exercises.find(name)
    out.mkdir(parents=True, exist_ok=True)
    rows: List[Row] = []
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(grade_in_process, folder / name, out / name, wanted) for name in names]
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


def grade_in_process(folder: Path, out: Path, wanted: Sequence[str]) -> Row:
    """Grades one of many. One that cannot be graded has a line that says why."""
    command = [sys.executable, __file__, "one", str(folder), "--out", str(out)]
    command += [word for name in wanted for word in ("--exercise", name)]
    limit = time_limit(wanted, folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").unlink(missing_ok=True)
    ran = run_to_an_end(command, limit, 20, out / "log")
    (out / "log").unlink()
    note = f"took longer than {limit:g} s and was ended" if ran.late else ""
    if not (out / "results.json").exists():
        last = ran.output.strip().splitlines()[-1:] or ["nothing"]
        write(out / "transcript.txt", ran.output)
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
    try:
        if (ROOT / pristine.LIST).exists():  # in a handout it is learners who grade
            pristine.check()
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
