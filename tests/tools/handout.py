#!/usr/bin/env python3
"""Packs the workbook for students: build/handout.tar.gz.

    handout.py [NN ...]      make handout    or    make handout CHAPTERS="03 04 05 06"

Left out are the solutions and keys of the exercises, servers that are wrong on purpose, what is for instructors, and
the tests of the workbook itself, with the targets of make that run them. `make grade` stays, so that a student's
repository can be graded where it is pushed to. With chapters named, the programs, headers, tests, exercises and text
of all others are left out too; book chapters 01 and 02 and the appendices stay. What is packed passes its own
`make test`.
"""
from __future__ import annotations

import gzip
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import List, Sequence, Set

import layout
import packing
from exercises import includes
from layout import ROOT, Problem, quit_with

TARGET = ROOT / "build" / "handout.tar.gz"
FOLDER = "workbook"  # that the archive unpacks to
NOT_FOR_STUDENTS = re.compile(
    r"chapters/\d\d/exercises/[^/]+/(solution\.change|wrong/|key\.md)"
    r"|tests/broken/|book/teaching/"
    r"|tests/test_(broken|stages|headers|tools|changes|harness|front_door|exercises|classroom|book|vectors)\.py"
    r"|tests/tools/(check|gradescope|handout|packing|classroom|prove|hours)\.py"
)
# What make cannot do without them: these targets are left out of the Makefile and of make help.
GONE = ("handout", "gradescope", "class-check", "check-all", "broken", "exercises-check", "book-check", "book-update")
NUMBERED = re.compile(r"(?:chapters/|tests/test_|tests/sessions/|tests/exercises/test_|book/)(\d\d)[./_-]")
ALWAYS = ("01", "02")  # chapters that are text alone


def headers_of(chapters: Sequence[str]) -> Set[str]:
    """The headers of common/ that the programs of these chapters include, directly or through others."""
    found: Set[str] = set()
    waiting = [path for name in chapters for path in layout.sources(name)]
    while waiting:
        for header in includes(waiting.pop().read_text(encoding="utf-8")):
            path = ROOT / "common" / header
            if header not in found and path.exists():
                found.add(header)
                waiting.append(path)
    return found


def chapters_of_vectors(path: str) -> Set[str]:
    """The chapters for which one of these vectors holds."""
    spans = [vector["chapters"] for vector in json.loads((ROOT / path).read_text(encoding="utf-8"))]
    return {name for name in layout.chapters() for first, *last in spans if first <= int(name) <= (*last, 99)[0]}


def pack(chapters: Sequence[str]) -> packing.Files:
    """The files of the handout with these chapters."""
    part = list(chapters) != layout.chapters()
    headers = headers_of(chapters) if part else set()

    def keep(path: str) -> bool:
        if NOT_FOR_STUDENTS.match(path):
            return False
        number = NUMBERED.match(path)
        if re.match(r"tests/vectors/.*\.json$", path):
            return any(chapter in chapters for chapter in chapters_of_vectors(path))
        if number and number[1] not in chapters and number[1] not in ALWAYS:
            return False
        return not part or not re.match(r"common/.*\.h$", path) or Path(path).name in headers

    files = packing.read(packing.files_of(), keep)
    for path, cut in (("Makefile", without_targets), ("tests/tools/help.txt", without_help)):
        files[path] = cut(files[path].decode("utf-8")).encode("utf-8")
    return files


def without_targets(text: str) -> str:
    """The Makefile without the targets that are gone."""
    return re.sub(rf"^(?:{'|'.join(GONE)}):(?:.*\\\n)*.*\n", "", text, flags=re.MULTILINE)


def without_help(text: str) -> str:
    """What make help says, without the targets that are gone."""
    kept = [line for line in text.splitlines(True) if not re.match(rf"  make (?:{'|'.join(GONE)})\b(?!-)", line)]
    return "".join(kept)


def write(files: packing.Files, target: Path) -> None:
    """Writes the archive: the same bytes for the same files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}")
    with open(part, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, data in sorted(files.items()):
                entry = tarfile.TarInfo(f"{FOLDER}/{path}")
                entry.size = len(data)
                entry.mode = 0o755 if (ROOT / path).stat().st_mode & 0o100 else 0o644
                archive.addfile(entry, io.BytesIO(data))
    part.replace(target)


def main(argv: List[str]) -> int:
    try:
        chapters = sorted({layout.chapter(number) for number in argv}) or layout.chapters()
        files = pack(chapters)
    except Problem as problem:
        quit_with(str(problem), 1)
    write(files, TARGET)
    there = sum(path.endswith("exercise.conf") for path in files)
    print(f"{TARGET.relative_to(ROOT)}: chapters {layout.span(chapters)}, {there} exercises, {len(files)} files")
    print(f"Students unpack it with tar xzf handout.tar.gz, and begin with {FOLDER}/README.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
