#!/usr/bin/env python3
"""Private hunts: each student of a class gets a chapter's programs with a fault of their own.

    hunts.py make ROSTER [--chapter NN ...]    make hunts ROSTER=class.csv CHAPTERS="07 08"
    hunts.py grade DIR                         make hunts SUBMISSIONS=DIR

ROSTER is a CSV with the students' names in its first column. The fault is one of tests/broken/: which one follows from
the name and a secret, so the same class has the same hunts when they are made again, and nobody can tell another's. The
secret is made at the first call. Written to build/hunts, or --out:

    students/NAME/hunt/   for that student: the programs with the fault, and README.md with the symptom
    key.csv               who has which fault
"""
from __future__ import annotations

import argparse
import csv
import hmac
import os
import re
import secrets
import sys
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Dict, List, Sequence

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import exercises  # noqa: E402
import faults  # noqa: E402
import grade  # noqa: E402
import layout  # noqa: E402
from changeform import Change  # noqa: E402
from confine import hidden, needed_for_a_class  # noqa: E402
from faults import Fault  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

OUT, SECRET = ROOT / "build" / "hunts", ROOT / ".hunts-secret"
HEADINGS = ("student", "name", "submission")  # a roster may begin with one of them
README = """\
# A hunt of your own

These are the programs of chapter {chapter} with one fault, in one of the `.c` files or in one of the headers. Somebody
reports:

> {symptom}

Find the fault and mend it: it is one place. Be ready to tell how you found it, and how it comes to what was reported.

Put this folder into `my/` as `my/hunt`. Then

    make -C my/hunt
    make test-{chapter} SERVER=my/hunt/server CLIENT=my/hunt/client

builds it and runs the chapter's tests. Hand in the whole folder.
"""


class Hunt(exercises.Exercise):
    """The fault NN-slug as an exercise of chapter NN. It has no folder: what would stand there is said here."""

    name, grader = "hunt", ROOT / "tests" / "exercises" / "hunt.py"

    @cached_property
    def fault(self) -> Fault:
        return faults.read(f"{self.chapter}-{self.slug}", self.root)

    @property
    def conf(self) -> Dict[str, str]:  # type: ignore[override]
        programs = " ".join(faults.programs(self.chapter, self.root))
        threads = "yes" if self.chapter >= "14" else "no"
        submit = "*.c *.h src/*.c src/*.h"
        return {"title": "A hunt of your own", "submit": submit, "programs": programs, "threads": threads}

    @property
    def readme(self) -> str:
        return README.format(chapter=self.chapter, symptom=self.fault.symptom)

    def again(self, test: str) -> str:
        return f"make test-{self.chapter} SERVER=my/hunt/server CLIENT=my/hunt/client"

    def change(self, which: str) -> Change:
        """The fault, in files as the starter has them: the programs and the headers of common/ lie side by side."""
        own = re.compile(r"(common|chapters/\d\d)/")
        hunks = [replace(hunk, file=own.sub("", hunk.file, 1)) for hunk in self.fault.change.hunks]
        return Change([], hunks, self.fault.where)


def eligible(chapters: Sequence[str]) -> List[str]:
    """The faults of programs that a test sees at once, every time."""
    known = [faults.read(name) for name in faults.names() if name[:2] in chapters]
    return [f.name for f in known if f.tries == 1 and not any(h.file.endswith("Makefile") for h in f.change.hunks)]


def chosen(student: str, secret: bytes, known: Sequence[str]) -> str:
    """The student's fault. One that is added later moves few students to another."""
    return min(known, key=lambda name: hmac.new(secret, f"{student}\0{name}".encode(), "sha256").digest())


def read_roster(path: Path) -> List[str]:
    """The names in the first column."""
    if not path.is_file():
        raise Problem(f"{path}: there is no such file. A line for each student: make hunts ROSTER=class.csv")
    with open(path, newline="", encoding="utf-8-sig") as file:
        names = [row[0].strip() for row in csv.reader(file) if row and row[0].strip()]
    names = names[1:] if names and names[0].lower() in HEADINGS else names
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


def make(roster: Path, secret: Path, chapters: Sequence[str], out: Path) -> None:
    names, key = read_roster(roster), read_secret(secret)
    known = eligible([layout.chapter(number) for number in chapters] or layout.chapters())
    (out / "students").mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)
    with open(out / "key.csv", "w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["student", "fault", "what is wrong", "where"])
        for student in names:
            hunt = Hunt(*chosen(student, key, known).split("-", 1))
            exercises.write_tree(hunt.starter(), out / "students" / student / "hunt")
            where = ", ".join(hunk.title[3:] for hunk in hunt.fault.change.hunks)
            sheet.writerow([grade.harmless(student), hunt.fault.name, hunt.fault.fault, where])
    print(f"{len(names)} hunts: {grade.shown(out)}/students. The key is yours alone: {grade.shown(out)}/key.csv")


def grade_class(folder: Path, out: Path) -> None:
    """Grades what the students of the key handed in."""
    needed_for_a_class()
    if not (out / "key.csv").is_file():
        raise Problem(f"{out}/key.csv: there is no such file. Make the hunts first, or say where they are: OUT=dir")
    with open(out / "key.csv", newline="", encoding="utf-8") as file:
        key = {row["student"].lstrip("'"): row["fault"] for row in csv.DictReader(file)}
    rows, grades = [], out / "grades"
    for student, fault in key.items():
        places = [folder / student / "hunt", folder / student / "my" / "hunt", folder / student]
        place = next((place for place in places if place.is_dir() and not place.is_symlink()), None)
        done = grade.grade_exercise(Hunt(*fault.split("-", 1)), place, grade.How(variables={"HUNT": fault}))
        (grades / student).mkdir(parents=True, exist_ok=True)
        grade.write(grades / student / "transcript.txt", done.text)
        rows.append(grade.row_of(student, grade.gradescope([done], 0), ""))
        rows[-1].scores = {} if done.result.broken else rows[-1].scores
        print(f"{student:<30} {done.result.score:>4}  {rows[-1].note}", flush=True)
    grade.write_grades(grades / "grades.csv", rows, ["hunt"])
    print(f"written: {grade.shown(grades)}/grades.csv, and a folder for each student")


def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(description="Private hunts.", usage=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("what", choices=("make", "grade"))
    parser.add_argument("path", type=Path, help="the roster; the folder with a folder for each student")
    parser.add_argument("--chapter", action="append", default=[])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--secret", type=Path, default=SECRET)
    said = parser.parse_args(argv)
    os.environ.setdefault("NO_COLOR", "1")
    hide = [str(path.resolve()) for path in (said.out, said.path) if path.is_dir()]
    os.environ["GRADE_HIDDEN"] = os.pathsep.join([*hidden(), *hide])
    try:
        if said.what == "make":
            make(said.path, said.secret, said.chapter, said.out)
        elif not said.path.is_dir():
            raise Problem(f"{said.path}: there is no such folder")
        else:
            grade_class(said.path, said.out)
    except Problem as problem:
        quit_with(str(problem), 1)
    except KeyboardInterrupt:
        quit_with("interrupted", 130)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
