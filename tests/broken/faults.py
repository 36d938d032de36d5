#!/usr/bin/env python3
"""Programs that are wrong on purpose: one small fault each, in NN-slug.fault beside this file.

    faults.py list            all of them, with their symptoms
    faults.py show NN-slug    the fault as a unified diff of the sources
    faults.py make NN-slug    builds the wrong programs in build/broken/NN-slug and says how to test them

README.md in this folder says how a fault is written.
"""
from __future__ import annotations

import difflib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "tools"))

import csource  # noqa: E402
import headers  # noqa: E402
from layout import Problem  # noqa: E402

KEYS = ("fault", "symptom", "test", "hurry", "tries")
OPTIONAL = ("hurry", "tries")
FLAGS = "-std=gnu11 -g -O0 -pthread -w"


class Hunk(NamedTuple):
    """A change: the lines that stay (" ") and go ("-") stand once in the file, or in the function where one
    is named."""

    line: int
    path: str
    function: str
    lines: List[Tuple[str, str]]  # sign and text

    @property
    def old(self) -> List[str]:
        return [bare(text) for sign, text in self.lines if sign != "+"]

    def put_in(self, there: List[str]) -> List[str]:
        """What comes in place of the lines that were found. Those that stay are the file's own."""
        found, lines = iter(there), []
        for sign, text in self.lines:
            line = text if sign == "+" else next(found)
            lines += [line] if sign != "-" else []
        return lines


class Fault(NamedTuple):
    """What a .fault file says."""

    name: str
    fault: str
    symptom: str
    test: List[str]  # words for pytest
    hurry: str  # TEST_TIME_FACTOR for the wrong program
    tries: int  # the test sees the fault in one of so many runs, if the machine is busy
    hunks: List[Hunk]

    @property
    def chapter(self) -> str:
        return self.name[:2]

    @property
    def where(self) -> str:
        return f"tests/broken/{self.name}.fault"


# ---- reading ----


def names() -> List[str]:
    """All faults, in the order of chapters."""
    return sorted(path.stem for path in FOLDER.glob("*.fault"))


def read(name: str) -> Fault:
    """The fault; Problem where its file is not as it should be."""
    path = FOLDER / f"{name}.fault"
    if not path.exists():
        raise Problem(f"there is no {path.relative_to(ROOT)}; faults.py list shows what there is")
    return parse(name, path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Fault:
    where = f"tests/broken/{name}.fault"
    if not re.fullmatch(r"\d\d-[a-z0-9-]+", name):
        raise Problem(f"{where}: must be called NN-slug.fault, NN being the chapter")
    said: Dict[str, str] = {}
    hunks: List[Hunk] = []
    for number, line in enumerate(text.splitlines(), 1):
        key, colon, value = line.partition(": ")
        place = re.fullmatch(r"@@ (\S+?)(?:, (\w+)\(\))?", line)
        if place:
            hunks.append(Hunk(number, place.group(1), place.group(2) or "", []))
        elif hunks and (not line or line[0] in " +-"):
            hunks[-1].lines.append((line[:1] or " ", line[1:]))
        elif not hunks and colon and key in KEYS and key not in said:
            said[key] = value
        elif not hunks and line.startswith("  ") and said:
            said[list(said)[-1]] += " " + line.strip()
        elif line and not line.startswith("#"):
            raise Problem(f"{where}:{number}: not understood: {line}")
    missing = [key for key in KEYS if key not in said and key not in OPTIONAL]
    if missing:
        raise Problem(f"{where}: says nothing about `{missing[0]}`")
    for hunk in hunks:
        while hunk.lines and hunk.lines[-1] == (" ", ""):  # blank lines between hunks
            hunk.lines.pop()
    if not hunks or any(all(sign == " " for sign, _ in hunk.lines) for hunk in hunks):
        raise Problem(f"{where}: changes nothing")
    test = shlex.split(said["test"])
    if not test[0].startswith(f"tests/test_{name[:2]}.py") or (len(test) > 1 and (len(test), test[1]) != (3, "-k")):
        raise Problem(f'{where}: the test must be tests/test_{name[:2]}.py::NAME or tests/test_{name[:2]}.py -k "EXPRESSION"')
    hurry, tries = said.get("hurry", "1"), int(said.get("tries", "1"))
    return Fault(name, said["fault"], said["symptom"], test, hurry, tries, hunks)


# ---- changing the sources ----


def bare(line: str) -> str:
    """A line without the comment at its end: that one may be reworded."""
    return re.sub(r"(^|\s+)//.*", "", line).rstrip()


def find(lines: List[str], wanted: List[str], first: int, last: int) -> List[int]:
    """Where `wanted` stands in lines[first:last], indices into lines."""
    there = [bare(line) for line in lines]
    return [i for i in range(first, last - len(wanted) + 1) if there[i : i + len(wanted)] == wanted]


def changed(fault: Fault, root: Path = ROOT) -> Dict[str, Tuple[str, str]]:
    """Path -> the text as it is, and with the fault; Problem where an anchor is gone."""
    found: Dict[str, Tuple[str, str]] = {}
    for hunk in fault.hunks:
        where = f"{fault.where}:{hunk.line}"
        path = root / hunk.path
        if not path.exists():
            raise Problem(f"{where}: there is no {hunk.path}")
        before = found[hunk.path][0] if hunk.path in found else path.read_text(encoding="utf-8")
        text = found[hunk.path][1] if hunk.path in found else before
        lines = text.split("\n")
        first, last, scope = 0, len(lines), hunk.path
        if hunk.function:
            items = [i for i in csource.parse(text, hunk.path).of_kind("function") if i.name == hunk.function]
            if not items:
                raise Problem(f"{where}: {hunk.path} has no function {hunk.function}()")
            first, last, scope = items[0].first - 1, items[0].last, f"{hunk.function}() of {hunk.path}"
        at = find(lines, hunk.old, first, last)
        if len(at) != 1:
            shown = "".join(f"\n    {line}" for line in hunk.old)
            raise Problem(
                f"{where}: these lines stand {len(at) or 'no'} times in {scope}, they must stand there once. "
                f"Has the source changed? Then write the fault for what it is now.{shown}"
            )
        place = slice(at[0], at[0] + len(hunk.old))
        lines[place] = hunk.put_in(lines[place])
        found[hunk.path] = before, "\n".join(lines)
    return found


def difference(fault: Fault, root: Path = ROOT) -> str:
    """The fault as a unified diff of the sources."""
    parts = []
    for path, (before, after) in changed(fault, root).items():
        rows = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
        parts += list(rows)
    return "\n".join(parts)


# ---- building ----


def programs(chapter: str) -> List[str]:
    """The programs of a chapter: server, client, lab programs."""
    return sorted(path.stem for path in (ROOT / "chapters" / chapter).glob("*.c"))


def build(fault: Fault, folder: Path, right: Path) -> List[str]:
    """Builds in `folder`/NN the programs of the fault's chapter that have it. All others are links to what is
    in `right`. Returns the names of those with the fault."""
    paths = changed(fault)
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*right.glob("[0-9][0-9]"), *right.glob("*.so")]:
        if path.name != fault.chapter:
            link(path, folder / path.name)
    target = folder / fault.chapter
    target.mkdir(exist_ok=True)
    include = folder / "include"
    include.mkdir(exist_ok=True)
    for header in (ROOT / "common").glob("*.h"):
        link(header, include / header.name)
    for path, (_, text) in paths.items():
        copy = include / Path(path).name if path.startswith("common/") else target / Path(path).name
        copy.unlink(missing_ok=True)
        copy.write_text(text, encoding="utf-8")
    built = []
    for name in programs(fault.chapter):
        source = ROOT / "chapters" / fault.chapter / f"{name}.c"
        mine = [f"chapters/{fault.chapter}/{name}.c"] + [f"common/{h}" for h in headers.closure(source, ROOT)]
        if not any(path in paths for path in mine):
            link(right / fault.chapter / name, target / name)
            continue
        copy = target / f"{name}.c"
        (target / name).unlink(missing_ok=True)
        words = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS.split(), f"-I{include}"]
        words += [str(copy if mine[0] in paths else source), "-o", str(target / name)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Problem(f"{fault.where}: {name}.c does not compile with the fault:\n{done.stdout}")
        built.append(name)
    if not built:
        raise Problem(f"{fault.where}: no program of chapter {fault.chapter} has the fault in it")
    return built


def link(target: Path, path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target.resolve())


def environment(folder: Path, factor: str = "1") -> Dict[str, str]:
    """The variables under which pytest tests the programs in that folder."""
    return {"WORKBOOK_BUILD": str(folder), "WORKBOOK_PREBUILT": "1", "TEST_TIME_FACTOR": factor}


def main(argv: List[str]) -> int:
    try:
        if argv == ["list"]:
            for name in names():
                fault = read(name)
                print(f"{name}\n    {fault.fault}\n    {fault.symptom}\n    {shlex.join(fault.test)}")
        elif len(argv) == 2 and argv[0] == "show":
            print(difference(read(argv[1])))
        elif len(argv) == 2 and argv[0] == "make":
            fault, folder = read(argv[1]), ROOT / "build" / "broken" / argv[1]
            subprocess.run(["make", "-s", "-C", str(ROOT), f"build-{fault.chapter}"], check=True)
            print(f"built {', '.join(build(fault, folder, ROOT / 'build' / 'test'))}; the test that must fail:")
            variables = " ".join(f"{k}={v}" for k, v in environment(folder, fault.hurry).items())
            print(f"{variables} python3 -m pytest {shlex.join(fault.test)}")
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader may leave, as head does
    sys.exit(main(sys.argv[1:]))
