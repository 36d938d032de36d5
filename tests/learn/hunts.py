#!/usr/bin/env python3
"""Private hunts: each student of a class gets a chapter's programs with a fault of their own, and decoys around it.

    hunts.py make ROSTER [--chapter NN ...]    make hunts ROSTER=class.csv CHAPTERS="07 08"
    hunts.py grade DIR                         make hunts SUBMISSIONS=DIR
    hunts.py plant NN-hunt-slug                decoys for the starter of a public hunt, see .github/CONTRIBUTING.md

ROSTER is a CSV with the student's name in its first column; a first line that begins with student, name or submission
is a heading. The fault is one of tests/broken/: which one follows from the name and a secret (HMAC-SHA256), so the same
class has the same hunts when they are made again, and nobody can tell another's. The secret is made at the first call
and stays in .hunts-secret, which no package has. Written to build/hunts, or --out:

    students/NAME/hunt/   for that student: the programs, with fault and decoys, and README.md with the symptom
    key/NAME/             the same without the fault
    key.csv               who has which fault

Each hunt is proven when it is made: its programs fail the fault's test, and those of the key pass all. A fault that
does not prove itself is passed over for the student's next. `grade` reads the key, so it needs no secret.
"""
from __future__ import annotations

import argparse
import csv
import hashlib
import hmac
import os
import random
import secrets
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import changeform  # noqa: E402
import decoys  # noqa: E402
import exercises  # noqa: E402
import faults  # noqa: E402
import grade  # noqa: E402
import layout  # noqa: E402
import pristine  # noqa: E402
from changeform import Tree  # noqa: E402
from compiling import Kept  # noqa: E402
from confine import hidden  # noqa: E402
from copies import from_the_book, functions  # noqa: E402
from exercises import Exercise, Handed  # noqa: E402
from faults import Fault  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

OUT = ROOT / "build" / "hunts"
SECRET = ROOT / ".hunts-secret"
MOST_DECOYS, LEAST_DECOYS = 6, 3
TRIES = 5  # faults, before we say that something else is wrong
COLUMNS = ["student", "fault", "what is wrong", "where", "decoys"]
README = """\
# A hunt of your own

These are the programs of chapter {chapter} with one fault, in one of the `.c` files or in one of the headers. Somebody
reports:

> {symptom}

Here and there the code is written otherwise than in the chapter. All of that is right but for one place: find it and
mend it, and leave the rest as it is. Nobody else in your class has the same code, and the chapter's own file in place
of yours has no points.

Put this folder into `my/` as `my/hunt`. Then

    make -C my/hunt
    make test-{chapter} SERVER=my/hunt/server CLIENT=my/hunt/client

builds it and runs the chapter's tests. Hand in the whole folder.
"""


class Variant(NamedTuple):
    """What a student gets, the same without the fault, and the functions that are decoys, as FILE, NAME."""

    given: Tree
    right: Tree
    decoys: List[Tuple[str, str]]


@dataclass(frozen=True)
class Hunt(Exercise):
    """A private hunt as an exercise: it has no folder, its starter is what the student got."""

    given: Tree = field(default_factory=dict)

    @property
    def conf(self) -> Dict[str, str]:  # type: ignore[override]
        names = " ".join(path.stem for path in layout.sources(self.chapter))
        return {
            "title": "A hunt of your own", "kind": "mend", "difficulty": "3", "minutes": "60", "points": "10",
            "submit": "*.c *.h", "programs": names, "threads": "yes" if self.chapter >= "14" else "no",
        }  # fmt: skip

    @property
    def grader(self) -> Path:
        return ROOT / "tests" / "exercises" / "hunt.py"

    def again(self, test: str) -> str:
        return f"make test-{self.chapter} SERVER=my/hunt/server CLIENT=my/hunt/client"

    def tree(self, which: str) -> Tree:
        return dict(self.given)


# ---- a variant ----


def digest(secret: bytes, *words: str) -> int:
    return int.from_bytes(hmac.new(secret, "\0".join(words).encode("utf-8"), hashlib.sha256).digest(), "big")


def in_order(secret: bytes, student: str, known: Sequence[str]) -> List[str]:
    """The faults, the student's first. A fault that is added later moves few students to another."""
    return sorted(known, key=lambda name: digest(secret, student, name))


def book(chapter: str) -> Tree:
    """The chapter's programs and their headers, in one folder."""
    tree = {path.name: pristine.text(path, ROOT) for path in layout.sources(chapter)}
    return exercises.headers.with_headers(tree)


def variant(fault: Fault, rng: random.Random) -> Variant:
    """The chapter with the fault, and with decoys in functions that the fault leaves alone."""
    right = book(fault.chapter)
    hunks = [changeform.Hunk(Path(h.file).name, h.how, h.item, h.lines, h.number) for h in fault.change.hunks]
    given = changeform.apply(right, changeform.Change([], hunks, fault.where))
    names = [name for name in right if name.endswith((".c", ".h"))]
    mine = [name for name in names if given[name] != right[name]]
    rng.shuffle(names)
    names = [*mine, *(name for name in names if name not in mine)]
    chosen: List[Tuple[str, str]] = []
    for name in names:
        before, after = functions(right[name], name), functions(given[name], name)
        free = sorted(function for function in before if before[function] == after.get(function))
        rng.shuffle(free)
        room = MOST_DECOYS - len(chosen) - (2 if name in mine else 0)
        for function in free:
            ways = list(decoys.rewrites(before[function])) if room > 0 else []
            if ways:
                new = rng.choice(ways)
                for tree in (given, right):
                    tree[name] = tree[name].replace(before[function], new, 1)
                chosen.append((name, function))
                room -= 1
    if len(chosen) < LEAST_DECOYS or not any(name in mine for name, _ in chosen):
        raise Problem(f"{fault.name}: there is no room for decoys")
    said = {
        "README.md": README.format(chapter=fault.chapter, symptom=fault.symptom),
        "Makefile": Hunt(fault.chapter, "hunt").makefile(),
    }
    return Variant({**given, **said}, {**right, **said}, chosen)


def plant(name: str) -> None:
    """Records decoys in the starter of a public hunt: the same ones each time, in functions that neither its fault nor
    any of its wrong solutions touches."""
    hunt = exercises.find(name)
    stage, starter = hunt.stage(), hunt.starter()
    solution = hunt.tree("solution")
    others = [hunt.tree(f"wrong/{wrong}") for wrong in hunt.wrong_names()]
    rng = random.Random(name)
    chosen: List[str] = []
    names = sorted(file for file in starter if file.endswith((".c", ".h")))
    for file in sorted(names, key=lambda file: starter[file] == solution[file]):  # those with the fault first
        if starter[file] == solution[file] and len(chosen) >= LEAST_DECOYS:
            continue
        now, was = functions(starter[file], file), functions(stage[file], file)
        trees = [functions(tree[file], file) for tree in (solution, *others)]
        free = [item for item in now if now[item] == was.get(item) and all(now[item] == t.get(item) for t in trees)]
        rng.shuffle(free)
        for item in free:
            ways = list(decoys.rewrites(now[item])) if len(chosen) < MOST_DECOYS else []
            if ways:
                starter[file] = starter[file].replace(now[item], rng.choice(ways), 1)
                chosen.append(f"{file} {item}()")
    if not chosen:
        raise Problem(f"{name}: there is no room for decoys")
    with tempfile.TemporaryDirectory(prefix="hunts-") as folder:
        exercises.write_tree(starter, Path(folder, "tree"))
        words = [sys.executable, str(ROOT / "tests/tools/changes.py"), "record", f"{name}/starter", f"{folder}/tree"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    print(f"{name}: {', '.join(chosen)}")


def tests_of(fault: Fault) -> str:
    """The expression for -k that chooses the tests which see the fault."""
    return fault.test[2] if len(fault.test) > 1 else fault.test[0].rpartition("::")[2].partition("[")[0]


# ---- proving and writing ----


def prove(fault: Fault, made: Variant, kept: Kept) -> str:
    """What is wrong with a variant; "" where its fault is seen, and is all that is seen."""
    hunt = Hunt(fault.chapter, "hunt", given=made.given)
    how = grade.How(variables={"HUNT_TESTS": tests_of(fault)}, kept=kept)
    right = grade.grade_tree(made.right, hunt, how)
    if not right.passed:
        return f"without its fault it has {right.score} of {right.most} points: {right.compiler}"
    wrong = grade.grade_tree(made.given, hunt, grade.How(only=["test_fault"], variables=how.variables, kept=kept))
    seen = wrong.built and wrong.tests[0].status == "failed"
    return "" if seen else f"its fault is not seen: {wrong.compiler}"


def eligible(chapters: Sequence[str]) -> List[str]:
    """The faults that a test sees at once, every time."""
    known = [faults.read(name) for name in faults.names() if name[:2] in chapters]
    return [fault.name for fault in known if fault.tries == 1]


def make_one(student: str, secret: bytes, known: Sequence[str], out: Path, kept: Kept) -> List[str]:
    """Makes a student's hunt; returns the line of the key."""
    why: List[str] = []
    for name in in_order(secret, student, known)[:TRIES]:
        fault = faults.read(name)
        try:
            made = variant(fault, random.Random(digest(secret, student, name, "decoys")))
            problem = prove(fault, made, kept)
        except Problem as found:
            problem = str(found)
        if not problem:
            exercises.write_tree(made.given, out / "students" / student / "hunt")
            exercises.write_tree(made.right, out / "key" / student)
            place = ", ".join(hunk.title[3:] for hunk in fault.change.hunks)
            return [student, name, fault.fault, place, "; ".join(f"{file} {item}()" for file, item in made.decoys)]
        why.append(f"{name}: {problem}")
    raise Problem(f"no hunt for {student}. " + "; ".join(why))


def read_roster(path: Path) -> List[str]:
    """The names in the first column."""
    if not path.is_file():
        raise Problem(f"{path}: there is no such file. A line for each student: make hunts ROSTER=class.csv")
    with open(path, newline="", encoding="utf-8-sig") as file:
        names = [row[0].strip() for row in csv.reader(file) if row and row[0].strip()]
    names = names[1:] if names and names[0].lower() in ("student", "name", "submission") else names
    bad = [name for name in names if "/" in name or name.startswith(".") or names.count(name) > 1]
    if bad or not names:
        what = f"{bad[0]!r} is there twice, or is no name of a folder" if bad else "it has no names"
        raise Problem(f"{path}: {what}")
    return names


def read_secret(path: Path) -> bytes:
    """The instructor's secret, made where it is missing."""
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        print(f"{path}: a new secret, which these hunts follow from. Keep it, and keep it to yourself")
    return path.read_bytes().strip()


def make(roster: Path, secret: Path, chapters: Sequence[str], out: Path, jobs: int) -> int:
    names, key = read_roster(roster), read_secret(secret)
    known = eligible([layout.chapter(number) for number in chapters] or layout.chapters())
    (out / "students").mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)
    with tempfile.TemporaryDirectory(prefix="hunts-") as kept, ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(lambda name: make_one(name, key, known, out, Kept(Path(kept))), names))
    with open(out / "key.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *([grade.harmless(cell) for cell in row] for row in rows)])
    print(f"{len(rows)} hunts, of {len({row[1] for row in rows})} of {len(known)} faults: {grade.shown(out)}/students")
    print(f"The key is yours alone: {grade.shown(out)}/key.csv, and key/ has what is right")
    return 0


# ---- grading ----


def grade_class(folder: Path, out: Path) -> int:
    """Grades what the students of the key handed in."""
    if not (out / "key.csv").is_file():
        raise Problem(f"{out}/key.csv: there is no such file. Make the hunts first, or say where they are: OUT=dir")
    with open(out / "key.csv", newline="", encoding="utf-8") as file:
        key = {row["student"].lstrip("'"): row["fault"] for row in csv.DictReader(file)}
    rows = []
    grades = out / "grades"
    for student, name in key.items():
        places = [folder / student / "hunt", folder / student / "my" / "hunt", folder / student]
        place = next((place for place in places if place.is_dir() and not place.is_symlink()), None)
        done = grade_student(student, name, place, out)
        (grades / student).mkdir(parents=True, exist_ok=True)
        grade.write(grades / student / "transcript.txt", done.text)
        failed = [(test.title, test.status == "failed") for test in done.result.tests]
        note, score = "; ".join(grade.notes_on(done.result)), done.result.score
        rows.append(grade.Row(student, note, {} if done.result.broken else {"hunt": score}, 10, failed))
        print(f"{student:<30} {score:>4}  {note}", flush=True)
    grade.write_grades(grades / "grades.csv", rows, ["hunt"])
    print(f"written: {grade.shown(grades)}/grades.csv, and a folder for each student")
    return 0


def grade_student(student: str, name: str, place: Optional[Path], out: Path) -> grade.Graded:
    fault = faults.read(name)
    given = exercises.read_folder(out / "students" / student / "hunt")
    right = exercises.read_folder(out / "key" / student)
    hunt = Hunt(fault.chapter, "hunt", given=given)

    def copied(handed: Handed) -> List[str]:
        names = from_the_book(handed.tree, given, right, book(fault.chapter))
        return [f"{grade.BOOK}, so nothing is counted: {', '.join(names)}"] if names else []

    return grade.grade_exercise(hunt, place, grade.How(variables={"HUNT_TESTS": tests_of(fault)}), copied)


def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(description="Private hunts.", usage=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("what", choices=("make", "grade", "plant"))
    parser.add_argument("path", type=Path, help="the roster; the folder with a folder for each student; a public hunt")
    parser.add_argument("--chapter", action="append", default=[])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--secret", type=Path, default=SECRET)
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    said = parser.parse_args(argv)
    os.environ.setdefault("NO_COLOR", "1")
    os.environ[pristine.VARIABLE] = "1"
    hide = [str(path.resolve()) for path in (said.out, said.path) if path.is_dir()]
    os.environ["GRADE_HIDDEN"] = os.pathsep.join([*hidden(), *hide])
    try:
        if said.what == "plant":
            plant(str(said.path))
            return 0
        if said.what == "make":
            return make(said.path, said.secret, said.chapter, said.out, max(1, said.j))
        if not said.path.is_dir():
            raise Problem(f"{said.path}: there is no such folder")
        return grade_class(said.path, said.out)
    except Problem as problem:
        quit_with(str(problem), 1)
    except KeyboardInterrupt:
        quit_with("interrupted", 130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
