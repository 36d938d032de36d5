#!/usr/bin/env python3
"""Grades what students hand in.

    gradebook.py one DIR [--out DIR] [--exercise NN-slug ...]         make grade SUBMISSION=DIR
    gradebook.py all DIR [--out DIR] [--exercise NN-slug ...] [-j N]  make grade-all SUBMISSIONS=DIR

A submission is a folder with a folder for each exercise, as `make start-NN-slug` makes them: DIR/04-buffered-reads/.
Where one exercise is named, the files may lie in DIR itself. What is named and was not handed in has 0 points, and so
has a folder without any of the files to hand in. Where none is named, those that are there are graded. `all` takes
each folder in DIR for a submission.

One submission writes results.json (the format of Gradescope), results.xml (JUnit) and transcript.txt into
build/grades/NAME; all of them write that for each, and grades.csv and summary.txt beside them.
"""
from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import exercises
from exercises import Exercise
from layout import ROOT, Problem, quit_with

GRADES = ROOT / "build" / "grades"
SHOWN = 20  # tests in the summary
ABSENT, UNCHANGED = "was not handed in", "nothing was changed in the starter"
NOTES = ("does not build", ABSENT, UNCHANGED, "the grader itself is broken")  # what a transcript says, and grades.csv too
MOST_OUTPUT = 1 << 16  # characters of a transcript that a broken grader leaves


@dataclass
class Graded:
    """An exercise of a submission: its result, as grade.Result.as_dict() has it, or why there is none."""

    exercise: Exercise
    result: Dict[str, object]
    text: str  # for people


# ---- what was handed in ----


def handed_in(folder: Path, wanted: Sequence[str]) -> Dict[str, Optional[Path]]:
    """Exercise -> the folder with its files, None where it is wanted and not there. Problem where there is none at all."""
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


def grade_exercise(name: str, folder: Optional[Path]) -> Graded:
    """Grades one exercise of a submission."""
    from grade import How, Result, Test, grade_handed
    from reporting import report, total

    exercise = exercises.find(name)
    handed = exercises.hand_in(exercise, folder) if folder else None
    if handed and handed.taken:
        result = grade_handed(handed, exercise, How())
        if handed.tree == exercise.starter():
            result.remarks.append(UNCHANGED)
            for test in result.tests:
                test.points = 0
    else:
        tests = [Test(t.name, t.title, t.points, t.instructor, t.tries) for t in exercise.tests]
        result = Result(name, tests=tests, remarks=[f"it {ABSENT}, that is {', '.join(exercise.submit)}"])
    text = f"{name}, {exercise.title}: {total(result)}\n\n{report(result)}\n"
    return Graded(exercise, result.as_dict(), text)


# ---- one submission ----


def grade_one(folder: Path, out: Path, wanted: Sequence[str]) -> int:
    """Grades a submission, prints what came of it, writes the files. Returns the exit status: 0, also for a bad one."""
    began = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    graded = [grade_exercise(name, place) for name, place in handed_in(folder, wanted).items()]
    points = f"{sum(points_of(g) for g in graded)} of {sum(most_of(g) for g in graded)} points"
    rule = "=" * 78
    text = "".join(f"{rule}\n{g.text}\n" for g in graded) + f"{rule}\n{table(graded)}\nIn all {points}\n"
    write(out / "transcript.txt", text)
    write(out / "results.json", json.dumps(gradescope(graded, time.monotonic() - began), indent=1) + "\n")
    write(out / "results.xml", junit(graded))
    print(text, end="")
    print(f"written: {shown(out)}/results.json, results.xml, transcript.txt")
    return 0


def points_of(graded: Graded) -> int:
    return int(str(graded.result["score"]))


def most_of(graded: Graded) -> int:
    return int(str(graded.result["most"]))


def tests_of(graded: Graded) -> List[Dict[str, object]]:
    tests = graded.result["tests"]
    assert isinstance(tests, list)
    return tests


def notes_on(graded: Graded) -> List[str]:
    """What an instructor wants to know beside the points."""
    waiting = sum(int(str(test["most"])) for test in tests_of(graded) if test["status"] == "instructor")
    return [word for word in NOTES if word in graded.text] + [f"{waiting} points to mark"] * bool(waiting)


def table(graded: Sequence[Graded]) -> str:
    """A line for each exercise."""
    rows = [f"  {g.exercise.name:<28}{points_of(g):>4} of {most_of(g):>3}  {', '.join(notes_on(g))}" for g in graded]
    return "\n".join(row.rstrip() for row in rows)


def gradescope(graded: Sequence[Graded], seconds: float) -> Dict[str, object]:
    """results.json as https://gradescope-autograders.readthedocs.io describes it."""
    tests: List[Dict[str, object]] = []
    for g in graded:
        said = "\n".join([str(g.result["compiler"]), *map(str, g.result["remarks"])]).strip()  # type: ignore[call-overload]
        for test in tests_of(g):
            waits = test["status"] == "instructor"
            tests.append(
                {
                    "name": f"{g.exercise.name}: {test['title']}" + " (marked by the instructor)" * waits,
                    "score": test["points"],
                    "max_score": test["most"],
                    "status": "passed" if test["status"] in ("passed", "instructor") else "failed",
                    "output": plain(str(test["lesson"]) or ("" if test["status"] in ("passed", "instructor") else said)),
                    "visibility": "visible",
                }
            )
    text = "\n".join(plain(g.text) for g in graded if not g.result["built"] or g.result["remarks"])
    score = sum(points_of(g) for g in graded)
    notes = [f"{g.exercise.name}: {note}" for g in graded for note in notes_on(g)]
    return {
        "score": score, "execution_time": round(seconds, 1), "output": text, "visibility": "visible", "tests": tests,
        "extra_data": {"notes": notes},
    }  # fmt: skip


def junit(graded: Sequence[Graded]) -> str:
    """The same for continuous integration."""
    suites = ElementTree.Element("testsuites")
    for g in graded:
        tests = tests_of(g)
        failed = [test for test in tests if test["status"] in ("failed", "not run")]
        suite = ElementTree.SubElement(
            suites, "testsuite", name=g.exercise.name, tests=str(len(tests)), failures=str(len(failed)), errors="0"
        )
        for test in tests:
            seconds = f"{float(str(test['seconds'])):.3f}"
            case = ElementTree.SubElement(suite, "testcase", classname=g.exercise.name, name=str(test["name"]), time=seconds)
            if test in failed:
                lesson = plain(str(test["lesson"]) or g.text)
                ElementTree.SubElement(case, "failure", message=str(test["title"])).text = lesson
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
    failed: List[Tuple[str, bool]]  # tests, and whether they were failed


def grade_all(folder: Path, out: Path, wanted: Sequence[str], jobs: int) -> int:
    """Grades every folder in `folder`, each in a process of its own that may break down without harm to the others."""
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
    """Grades one of many. A submission that cannot be graded has a line that says why."""
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
            end(process)
            raise
        end(process)
        log.seek(0)
        said = log.read(MOST_OUTPUT).decode("utf-8", "replace")
    (out / "log").unlink()
    if not (out / "results.json").exists():
        last = said.strip().splitlines()[-1:] or ["nothing"]
        write(out / "transcript.txt", said)
        return Row(folder.name, note or f"was not graded: {last[0]}", {}, [])
    return row_of(folder.name, json.loads((out / "results.json").read_text(encoding="utf-8")), note)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a grader that is still there: first so that it cleans up, then by force."""
    for sig in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sig)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                pass


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
    return Row(name, "; ".join([note] * bool(note) + extra["notes"]), dict(scores), failed)


def write_grades(path: Path, rows: Sequence[Row], graded: Sequence[str]) -> None:
    """grades.csv: a line for each submission, a column for each exercise."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["submission", "total", *graded, "note"])
        for row in rows:
            cells = [row.scores.get(name, "") for name in graded]
            sheet.writerow([row.name, sum(row.scores.values()), *cells, row.note])
    part.replace(path)


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
    parser = argparse.ArgumentParser(description="Grades submissions.", usage=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("what", choices=("one", "all"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--exercise", action="append", default=[])
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    said = parser.parse_args(argv)
    out = said.out or (GRADES if said.what == "all" else GRADES / said.folder.resolve().name)
    os.environ.setdefault("NO_COLOR", "1")
    try:
        if not said.folder.is_dir():
            raise Problem(f"{said.folder}: there is no such folder")
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
