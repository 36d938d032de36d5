#!/usr/bin/env python3
"""Makes up a class, has `make grade-all` grade it, and compares the grades with what they must be.

    classroom.py N [-j JOBS]       make class-check    or    make class-check N=20

Each student hands in one exercise: as the solution has it, as a wrong solution, untouched, or something that does
harm: it does not compile, hangs, crashes, prints without end, starts processes without end, takes all memory. One in
twenty hands in nothing. The class is in build/class, what came of it in build/class-grades.
"""
from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import exercises  # noqa: E402
from exercises import Exercise  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

CLASS, GRADES = ROOT / "build" / "class", ROOT / "build" / "class-grades"
HARM = {
    "does-not-compile": "int main(void) { return 0 }\n",
    "hangs": "#include <unistd.h>\nint main(void) {\n    for (;;) {\n        pause();\n    }\n}\n",
    "crashes": "#include <stdlib.h>\nint main(void) {\n    abort();\n}\n",
    "prints-without-end": (
        '#include <stdio.h>\nint main(void) {\n    for (;;) {\n        puts("and on and on");\n    }\n}\n'
    ),
    "forks-without-end": "#include <unistd.h>\nint main(void) {\n    for (;;) {\n        fork();\n    }\n}\n",
    "takes-all-memory": (
        "#include <stdlib.h>\n#include <string.h>\nint main(void) {\n    for (;;) {\n        char *p = malloc(1 <<"
        " 24);\n        if (p) {\n            memset(p, 1, 1 << 24);\n        }\n    }\n}\n"
    ),
}
# What twenty students do; the class repeats it.
TWENTY = ["right"] * 7 + ["wrong"] * 5 + ["untouched", *HARM, "nothing"]


@dataclass
class Student:
    """Somebody of the class: what they do, and in which exercise."""

    name: str
    does: str
    exercise: Optional[Exercise]
    wrong: str = ""

    def expected(self, points: str, note: str) -> str:
        """What is wrong with the grade; "" where it is right. points is the cell of grades.csv."""
        if self.exercise is None:
            return "" if points == "" and "was not graded" in note else f"handed in nothing, and got {points or note}"
        most = sum(test.points for test in self.exercise.tests)
        sure = sum(test.points for test in self.exercise.tests if not test.instructor)
        got = int(points) if points.isdigit() else -1
        right = {"right": got == sure, "wrong": 0 <= got < sure}.get(self.does, got == 0)
        if self.does == "does-not-compile" and "does not build" not in note:
            right = False
        return (
            ""
            if right
            else f"{self.exercise.name} {self.does} {self.wrong}: {points or 'nothing'} of {most} points ({note})"
        )


def students(count: int) -> Iterator[Student]:
    """The class. Those who do harm hand in a server.c; the others, all exercises in turn."""
    known = [exercise for exercise in exercises.all_exercises() if exercise.has_solution]
    servers = [exercise for exercise in known if "server.c" in exercise.submit and "server" in exercise.programs]
    if not servers:
        raise Problem("class-check needs the exercises and their solutions, which are not in this copy of the workbook")
    wrongs = cycle([(exercise, name) for exercise in known for name in exercise.wrong_names()])
    turns, harmed = cycle(known), cycle(servers)
    for number, does in enumerate(islice(cycle(TWENTY), count), 1):
        name = f"student-{number:03}-{does}"
        if does == "nothing":
            yield Student(name, does, None)
        elif does == "wrong":
            yield Student(name, does, *next(wrongs))
        else:
            yield Student(name, does, next(harmed if does in HARM else turns))


def hand_in(student: Student) -> None:
    """Writes what the student hands in."""
    folder = CLASS / student.name
    folder.mkdir(parents=True)
    exercise = student.exercise
    if exercise is None:
        return
    which = {"right": "solution", "wrong": f"wrong/{student.wrong}"}.get(student.does, "starter")
    exercises.write_tree(exercise.tree(which), folder / exercise.name)
    if student.does in HARM:
        (folder / exercise.name / "server.c").write_text(HARM[student.does])


def grades() -> "dict[str, Tuple[str, str]]":
    """Student -> points and note, as grades.csv has them."""
    with open(GRADES / "grades.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        others = ("submission", "total", "maximum", "percent", "note")
        cells = [cell for key, cell in row.items() if key not in others and cell != ""]
        found[row["submission"]] = (cells[0] if cells else "", row["note"])
    return found


def main(argv: List[str]) -> int:
    count, jobs = int(argv[0]), argv[2] if argv[1:2] == ["-j"] else str(os.cpu_count() or 2)
    for folder in (CLASS, GRADES):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        everybody = list(students(count))
        for student in everybody:
            hand_in(student)
    except Problem as problem:
        quit_with(str(problem), 1)
    began = time.monotonic()
    command = [
        sys.executable, str(Path(__file__).with_name("grade.py")), "all", str(CLASS), "--out", str(GRADES), "-j", jobs
    ]
    subprocess.run(command, check=True)
    found = grades()
    bad = [said for student in everybody for said in [student.expected(*found.get(student.name, ("", "")))] if said]
    print("\n".join(f"WRONG GRADE: {said}" for said in bad) + "\n" * bool(bad), end="")
    print(f"{count - len(bad)} of {count} grades are right; {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
