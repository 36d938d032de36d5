#!/usr/bin/env python3
"""Packs the workbook: for students as build/handout.tar.gz, for Gradescope as build/autograder.zip.

    pack.py handout [--site] [NN ...]   make handout      or    make handout CHAPTERS="03 04 05 06" SITE=yes
    pack.py gradescope [NN-slug ...]    make gradescope   or    make gradescope EXERCISE="04-buffered-reads 08-shrink"

Left out of the handout are the solutions and keys of the exercises, servers that are wrong on purpose, what is for
instructors, and the tests of the workbook itself, with the targets of make that run them. `make grade` stays, so that a
student's repository can be graded where it is pushed to. With chapters named, the programs, headers, tests, exercises
and text of all others are left out too; book chapters 01 and 02 and the appendices stay. What is packed passes its own
`make test`. With --site, the pages for a browser that are made of all this are in it too, in the folder site/.

Gradescope runs setup.sh when it makes the container (Ubuntu, as root), and run_autograder for each submission: the
student's files are in /autograder/submission, the results go to /autograder/results/results.json. With one exercise
the files may lie at the top of what is handed in; with several, each has its folder; with none named, those that are
handed in are graded. The graders give no solution away, and solutions are not in the package.
"""
from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, Iterator, List, Sequence, Set

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import exercises  # noqa: E402
import headers  # noqa: E402
import layout  # noqa: E402
import pristine  # noqa: E402
from layout import ROOT, Problem, cells, quit_with  # noqa: E402

TOP = (
    "chapters", "common", "tests", "book", "Makefile", "README.md", ".gitignore", ".clang-format", ".editorconfig",
    ".devcontainer",
)  # fmt: skip
LEFT = ("__pycache__", ".pytest_cache")
Files = Dict[str, bytes]  # path from the root -> contents
HANDOUT = ROOT / "build" / "handout.tar.gz"
FOLDER = "workbook"  # that the archive unpacks to
NOT_FOR_STUDENTS = re.compile(
    r"chapters/\d\d/exercises/[^/]+/(solution\.change|wrong/|key\.md)"
    r"|tests/broken/|book/teaching/|tests/exercises/later/"
    r"|tests/test_(?!\d\d\.py)\w+\.py|tests/(beginners|devtools)\.py"
    r"|tests/tools/(check|complete)\.py|tests/learn/(pack|classroom|prove|hunts|decoys)\.py|tests/exercises/hunt\.py"
)
# What make cannot do without them: these targets are left out of the Makefile and of make help.
GONE = (
    "handout", "gradescope", "hunts", "class-check", "check-all", "broken", "exercises-check", "book-check",
    "book-update", "site-check",
)  # fmt: skip
NUMBERED = re.compile(r"(?:chapters/|tests/test_|tests/sessions/|tests/exercises/test_|book/)(\d\d)[./_-]")
ALWAYS = ("01", "02")  # chapters that are text alone
AUTOGRADER = ROOT / "build" / "autograder.zip"
NOT_FOR_GRADERS = re.compile(r"chapters/\d\d/exercises/[^/]+/(solution\.change|wrong/|key\.md)|tests/broken/|book/")
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
chmod -R go-rwx /autograder/source
out=/autograder/results
mkdir -p "$out"
/usr/bin/python3 tests/learn/grade.py one /autograder/submission --out "$out"{exercises} 2>"$out/errors"
status=$?
cat "$out/errors"
[ $status = 0 ] && exit
# The grader could not do its work: no score is better than a wrong one.
if [ $status != 1 ] || grep -q '^Traceback' "$out/errors"; then
    echo "There is no score. This is for the instructor: see what stands above, and build the autograder anew."
    exit 1
fi
tail -n 1 "$out/errors" | /usr/bin/python3 -c '
import json, sys
json.dump({{"score": 0, "output": "Nothing was graded. " + sys.stdin.read()}}, sys.stdout)
' >"$out/results.json"
"""


# ---- what goes into a package ----


def files_of(root: Path = ROOT) -> Iterator[str]:
    """The paths of all sources from the root, sorted; nothing that was built, nothing of a learner's."""
    for name in TOP:
        if (root / name).is_file():
            yield name
        for folder, folders, names in os.walk(root / name):
            folders[:] = sorted(f for f in folders if f not in LEFT)
            for file in sorted(names):
                path = Path(folder, file)
                if not is_built(path):
                    yield str(path.relative_to(root))


def is_built(path: Path) -> bool:
    """Is it a program beside its source?"""
    return path.suffix == "" and path.with_suffix(".c").exists()


def read(paths: Iterator[str], keep: Callable[[str], bool], root: Path = ROOT) -> Files:
    """The files to keep. Links in Markdown to files that are left out become plain text, and table rows that
    begin with such a link are left out too."""
    files = {path: (root / path).read_bytes() for path in paths if keep(path)}
    tried = sorted(path for path in pristine.changed(root) if path in files)
    for path in tried:
        files[path] = pristine.committed(root, path) or files[path]
    if tried:
        print(f"packed as committed, not as changed since: {', '.join(tried)}", file=sys.stderr)
    there = {str(parent) for path in files for parent in (PurePosixPath(path), *PurePosixPath(path).parents)}
    for path, data in files.items():
        if path.endswith(".md"):
            files[path] = without_dead_links(path, data.decode("utf-8"), there).encode("utf-8")
    return files


def without_dead_links(path: str, text: str, there: Set[str]) -> str:
    """The Markdown of the file `path`, without links to what is not `there`."""

    def dead(target: str) -> bool:
        target = target.partition("#")[0]
        if not target or re.match(r"\w+:", target):
            return False
        return os.path.normpath(os.path.join(os.path.dirname(path), target)) not in there

    def link(match: "re.Match[str]") -> str:
        return match[1] if dead(match[2]) else match[0]

    lines = []
    for line in text.split("\n"):
        first = re.match(r"\[[^\]]*\]\(([^)\s]+)\)", (cells(line) or [""])[0])
        if not (first and dead(first[1])):
            lines.append(line)
    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, "\n".join(lines))


# ---- for students ----


def chapters_of_vectors(path: str) -> Set[str]:
    """The chapters for which one of these vectors holds."""
    spans = [vector["chapters"] for vector in json.loads((ROOT / path).read_text(encoding="utf-8"))]
    return {name for name in layout.chapters() for first, *last in spans if first <= int(name) <= (*last, 99)[0]}


def pack(chapters: Sequence[str]) -> Files:
    """The files of the handout with these chapters."""
    part = list(chapters) != layout.chapters()
    used = {name for each in chapters for path in layout.sources(each) for name in headers.closure(path)}

    def keep(path: str) -> bool:
        if NOT_FOR_STUDENTS.match(path):
            return False
        number = NUMBERED.match(path)
        if re.match(r"tests/vectors/.*\.json$", path):
            return any(chapter in chapters for chapter in chapters_of_vectors(path))
        if number and number[1] not in chapters and number[1] not in ALWAYS:
            return False
        return not part or not re.match(r"common/.*\.h$", path) or Path(path).name in used

    files = read(files_of(), keep)
    makefiles = [(path, without_targets) for path in ("Makefile", "tests/tools/upkeep.mk")]
    for path, cut in [*makefiles, ("tests/tools/help.txt", without_help)]:
        files[path] = cut(files[path].decode("utf-8")).encode("utf-8")
    files[pristine.LIST] = pristine.listing(files.items()).encode("utf-8")
    return files


def without_targets(text: str) -> str:
    """A makefile without the targets that are gone."""
    return re.sub(rf"^(?:{'|'.join(GONE)}):(?:.*\\\n)*.*\n(?:\t(?:.*\\\n)*.*\n)*", "", text, flags=re.MULTILINE)


def without_help(text: str) -> str:
    """What make help says, without the targets that are gone."""
    kept = [line for line in text.splitlines(True) if not re.match(rf"  make (?:{'|'.join(GONE)})\b(?!-)", line)]
    return "".join(kept)


def write_tar(files: Files, target: Path) -> None:
    """Writes the archive: the same bytes for the same files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}")
    with open(part, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, data in sorted(files.items()):
                entry = tarfile.TarInfo(f"{FOLDER}/{path}")
                entry.size = len(data)
                runs = (ROOT / path).exists() and (ROOT / path).stat().st_mode & 0o100
                entry.mode = 0o755 if runs else 0o644
                archive.addfile(entry, io.BytesIO(data))
    part.replace(target)


def pages(files: Files) -> Files:
    """The pages for a browser of these files."""
    with tempfile.TemporaryDirectory(prefix="handout-") as folder:
        for path, data in files.items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        command = [sys.executable, f"{folder}/tests/tools/website.py", f"{folder}/site"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise Problem(f"the pages for a browser cannot be made: {done.stderr.strip()}")
        made = (path for path in sorted(Path(folder, "site").rglob("*")) if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in made}


def handout(argv: List[str]) -> None:
    chapters = sorted({layout.chapter(number) for number in argv if number != "--site"}) or layout.chapters()
    files = pack(chapters)
    files.update(pages(files) if "--site" in argv else {})
    write_tar(files, HANDOUT)
    there = sum(path.endswith("exercise.conf") for path in files)
    print(f"{HANDOUT.relative_to(ROOT)}: chapters {layout.span(chapters)}, {there} exercises, {len(files)} files")
    print(f"Students unpack it with tar xzf handout.tar.gz, and begin with {FOLDER}/README.md.")


# ---- for Gradescope ----


def run_autograder(names: Sequence[str]) -> str:
    return RUN.format(exercises="".join(f" --exercise {name}" for name in names))


def gradescope(argv: List[str]) -> None:
    names = [exercises.find(name).name for name in argv]
    files = read(files_of(), lambda path: not NOT_FOR_GRADERS.match(path))
    AUTOGRADER.parent.mkdir(parents=True, exist_ok=True)
    part = AUTOGRADER.with_name(f".{AUTOGRADER.name}")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (("setup.sh", SETUP), ("run_autograder", run_autograder(names))):
            add(archive, name, text.encode(), True)
        for path, data in sorted(files.items()):
            add(archive, f"workbook/{path}", data, bool((ROOT / path).stat().st_mode & 0o100))
    part.replace(AUTOGRADER)
    print(f"{AUTOGRADER.relative_to(ROOT)}: grades {', '.join(names) or 'each exercise that is handed in'}")
    print("Upload it on Gradescope: Configure Autograder. book/teaching/README.md says how to choose its container.")


def add(archive: zipfile.ZipFile, name: str, data: bytes, runs: bool) -> None:
    """Adds a file with its mode, and a date that does not change."""
    entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if runs else 0o100644) << 16
    archive.writestr(entry, data)


def main(argv: List[str]) -> int:
    commands = {"handout": handout, "gradescope": gradescope}
    if argv[:1] and argv[0] in commands:
        try:
            commands[argv[0]](argv[1:])
            return 0
        except Problem as problem:
            quit_with(str(problem), 1)
    quit_with((__doc__ or "").strip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
