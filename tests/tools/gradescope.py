#!/usr/bin/env python3
"""Packs an autograder for Gradescope: build/autograder.zip.

    gradescope.py [NN-slug ...]     make gradescope    or    make gradescope EXERCISE="04-buffered-reads 08-shrink"

Gradescope runs setup.sh when it makes the container (Ubuntu, as root), and run_autograder for each submission: the
student's files are in /autograder/submission, the results go to /autograder/results/results.json. With one exercise
the files may lie at the top of what is handed in; with several, each has its folder; with none named, those that are
handed in are graded. The graders give no solution away, and solutions are not in the package.
"""
from __future__ import annotations

import re
import sys
import zipfile
from typing import List, Sequence

import exercises
import packing
from layout import ROOT, Problem, quit_with

TARGET = ROOT / "build" / "autograder.zip"
NOT_NEEDED = re.compile(r"chapters/\d\d/exercises/[^/]+/(solution\.change|wrong/|key\.md)|tests/broken/|book/")
SETUP = """\
#!/bin/sh
# Makes the container ready: a compiler, make, pytest.
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends gcc libc6-dev make python3 python3-pytest
"""
# The container has half a processor: time limits are four times as long, and one thing is done at a time.
RUN = """\
#!/bin/sh
# Grades /autograder/submission.
export TEST_TIME_FACTOR=4
cd /autograder/source/workbook || exit 1
out=/autograder/results
mkdir -p "$out"
/usr/bin/python3 tests/tools/gradebook.py one /autograder/submission --out "$out"{exercises} 2>"$out/errors" && exit
cat "$out/errors"
tail -n 1 "$out/errors" | /usr/bin/python3 -c '
import json, sys
json.dump({{"score": 0, "output": "Nothing was graded. " + sys.stdin.read()}}, sys.stdout)
' >"$out/results.json"
"""


def run_autograder(names: Sequence[str]) -> str:
    return RUN.format(exercises="".join(f" --exercise {name}" for name in names))


def main(argv: List[str]) -> int:
    try:
        names = [exercises.find(name).name for name in argv]
    except Problem as problem:
        quit_with(str(problem), 1)
    files = packing.read(packing.files_of(), lambda path: not NOT_NEEDED.match(path))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    part = TARGET.with_name(f".{TARGET.name}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (("setup.sh", SETUP), ("run_autograder", run_autograder(names))):
            add(archive, name, text.encode(), True)
        for path, data in sorted(files.items()):
            add(archive, f"workbook/{path}", data, bool((ROOT / path).stat().st_mode & 0o100))
    part.replace(TARGET)
    print(f"{TARGET.relative_to(ROOT)}: grades {', '.join(names) or 'each exercise that is handed in'}")
    print("Upload it on Gradescope: Configure Autograder. book/teaching/README.md says how to choose its container.")
    return 0


def add(archive: zipfile.ZipFile, name: str, data: bytes, runs: bool) -> None:
    """Adds a file with its mode, and a date that does not change."""
    entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if runs else 0o100644) << 16
    archive.writestr(entry, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
