#!/usr/bin/env python3
"""Packs the workbook as it was committed: for students build/handout.tar.gz, for Gradescope build/autograder.zip.

    pack.py handout [--site] [NN ...]   make handout      or    make handout CHAPTERS="03 04 05 06" SITE=yes
    pack.py gradescope [NN-slug ...]    make gradescope   or    make gradescope EXERCISE="04-buffered-reads 08-shrink"

Neither has the solutions and keys of the exercises, servers that are wrong on purpose, what is for instructors, or the
tests of the workbook itself, with the targets of make for these. `make grade` stays, so that a student's repository can
be graded where it is pushed to. With chapters named, the programs, headers, tests, exercises and text of all others are
left out of the handout too; book chapters 01 and 02 and the appendices stay. What is packed passes its own `make test`.
With --site, the pages for a browser that are made of all this are in it, in the folder site/.

Gradescope runs setup.sh when it makes the container (Ubuntu, as root), and run_autograder for each submission. With one
exercise the files may lie at the top of what is handed in; with several, each has its folder; with none named, those
that are handed in are graded.
"""
from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import List, Sequence

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import exercises  # noqa: E402
import headers  # noqa: E402
import layout  # noqa: E402
import pristine  # noqa: E402
from layout import ROOT, Problem, cells, quit_with  # noqa: E402

HANDOUT, AUTOGRADER = ROOT / "build" / "handout.tar.gz", ROOT / "build" / "autograder.zip"
SCRIPTS = Path(__file__).with_name("autograder")
FOLDER = "workbook"  # that the packages unpack to
# Patterns as git has them: a * matches slashes, too.
NOT_FOR_STUDENTS = """
    .ci .github book/teaching
    chapters/*/exercises/*/solution.change chapters/*/exercises/*/wrong/* chapters/*/exercises/*/key.md
    tests/broken tests/exercises/hunt.py tests/learn/autograder tests/learn/hunts.py tests/learn/pack.py
    tests/selftests
    tests/tools/whole.mk tests/tools/help-whole.txt
""".split()
OF_A_CHAPTER = "chapters/{0} tests/sessions/{0}-* tests/exercises/test_{0}_* book/{0}-* book/{0}[b-e]-*".split()
COMMIT = (
    "Packed is what git has committed. In a copy of the workbook without git, first\n"
    "  git init -q && git add . && git -c user.name=me -c user.email=me commit -qm workbook"
)


def git(*words: str) -> bytes:
    """What git says, or Problem in its own words."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise Problem("git is missing: sudo apt-get install git") from None
    except subprocess.CalledProcessError as error:
        raise Problem(f"{error.stderr.decode('utf-8', 'replace').strip()}\n{COMMIT}") from None


def archive(left_out: Sequence[str], *options: str) -> bytes:
    """What was committed, without what these patterns match. Says what somebody has changed since."""
    patterns = [f":(exclude){pattern}" for pattern in left_out]
    packed = git("-c", "tar.umask=0022", "archive", *options, "HEAD", "--", ".", *patterns)
    changed = git("status", "--porcelain", "--", ".").decode("utf-8", "replace").rstrip()
    if changed:
        print(f"packed as committed, without these changes:\n{changed}")
    return packed


# ---- for students ----


def of_others(chapters: Sequence[str]) -> List[str]:
    """Patterns for what belongs to other chapters than these. Cases and vectors hold for later chapters, too."""
    others = [name for name in layout.chapters() if name not in chapters]
    used = {name for each in chapters for path in layout.sources(each) for name in headers.closure(path)}
    unused = {path.name for path in (ROOT / "common").glob("*.h")} - used
    found = [pattern.format(name) for name in others for pattern in OF_A_CHAPTER]
    later = [name for name in others if name > chapters[-1]]
    found += [pattern.format(name) for name in later for pattern in ("tests/test_{}.py", "tests/vectors/{}-*")]
    return found + [f"common/{name}" for name in unused]


def without_dead_links(page: Path) -> str:
    """The Markdown of a page. Links to what is not there are text; table rows that begin with one are left out."""

    def dead(target: str) -> bool:
        file = target.partition("#")[0]
        return not re.match(r"\w+:", target) and not (page.parent / file).exists()

    lines = []
    for line in page.read_text(encoding="utf-8").split("\n"):
        first = re.match(r"\[[^\]]*\]\(([^)\s]+)\)", (cells(line) or [""])[0])
        if not (first and dead(first[1])):
            lines.append(line)
    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", lambda link: link[dead(link[2])], "\n".join(lines))


def handout(argv: List[str]) -> None:
    chapters = sorted({layout.chapter(number) for number in argv if number != "--site"}) or layout.chapters()
    with tempfile.TemporaryDirectory(prefix="handout-") as folder:
        top = Path(folder, FOLDER)
        with tarfile.open(fileobj=io.BytesIO(archive([*NOT_FOR_STUDENTS, *of_others(chapters)]))) as packed:
            packed.extractall(top)
        for page in top.rglob("*.md"):
            page.write_text(without_dead_links(page), encoding="utf-8")
        files = [path for path in top.rglob("*") if path.is_file()]
        hashes = pristine.listing((path.relative_to(top).as_posix(), path.read_bytes()) for path in files)
        (top / pristine.LIST).write_text(hashes, encoding="utf-8")
        if "--site" in argv:
            words = [sys.executable, f"{top}/tests/tools/website.py", f"{top}/site"]
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise Problem(f"the pages for a browser cannot be made: {done.stderr.strip()}")
        HANDOUT.parent.mkdir(exist_ok=True)
        with tarfile.open(HANDOUT, "w:gz") as package:
            package.add(top, FOLDER)
    there = sum(path.name == "exercise.conf" for path in files)
    print(f"{HANDOUT.relative_to(ROOT)}: chapters {layout.span(chapters, layout.chapters())}, {there} exercises")
    print(f"Students unpack it with tar xzf handout.tar.gz, and begin with {FOLDER}/README.md.")


# ---- for Gradescope ----


def gradescope(argv: List[str]) -> None:
    names = [exercises.find(name).name for name in argv]
    packed = io.BytesIO(archive([*NOT_FOR_STUDENTS, "book"], "--format=zip", f"--prefix={FOLDER}/"))
    scripts = {path.name: path.read_text(encoding="utf-8") for path in SCRIPTS.iterdir()}
    with zipfile.ZipFile(packed, "a") as package:
        for name, text in {**scripts, "exercises": "".join(f"--exercise {name}\n" for name in names)}.items():
            entry = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100755 << 16
            package.writestr(entry, text)
    AUTOGRADER.parent.mkdir(exist_ok=True)
    AUTOGRADER.write_bytes(packed.getvalue())
    print(f"{AUTOGRADER.relative_to(ROOT)}: grades {', '.join(names) or 'each exercise that is handed in'}")
    print("Upload it on Gradescope: Configure Autograder. book/teaching/README.md says how to choose its container.")


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
