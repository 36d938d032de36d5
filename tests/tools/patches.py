"""Unified diffs of flat trees (file name -> text): read, put in, written.

A hunk goes where its lines stand: the nearest place where all lines that stay and all lines that go match exactly.
Its line numbers are only a hint, so a file may change elsewhere and the patch still fits. A hunk without a place is
a Problem that names patch, file and hunk.
"""
from __future__ import annotations

import difflib
import io
import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from layout import Problem

Tree = Dict[str, str]
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
NO_NEWLINE = "\\ No newline at end of file"


@dataclass
class Hunk:
    """Lines of a file before and after; `first` is the line, from 0, where they are said to stand."""

    first: int
    title: str
    before: List[str] = field(default_factory=list)
    after: List[str] = field(default_factory=list)


@dataclass
class FilePatch:
    """What becomes of one file. before is "" for a new file, after is "" for one that goes."""

    before: str
    after: str
    hunks: List[Hunk] = field(default_factory=list)


@dataclass
class Patch:
    """What a patch says in front (its head), and what it does."""

    head: List[str]
    files: List[FilePatch]


# ---- reading ----


def parse(text: str, where: str) -> Patch:
    """Reads a patch; `where` is what a Problem calls it."""
    patch = Patch([], [])
    lines = list(io.StringIO(text))
    number = 0
    while number < len(lines):
        line = lines[number].rstrip("\n")
        if _begins_file(lines, number):
            patch.files.append(FilePatch(_name(line), _name(lines[number + 1].rstrip("\n"))))
            number += 2
        elif line.startswith("@@") and patch.files:
            number = _hunk(lines, number, patch.files[-1], where)
        elif not patch.files:
            patch.head.append(line)
            number += 1
        elif line.strip():
            raise Problem(f"{where}:{number + 1}: not understood: {line}")
        else:
            number += 1
    return patch


def _begins_file(lines: List[str], number: int) -> bool:
    """Do the two lines `--- name` and `+++ name` stand here? One alone may be a line that goes."""
    return lines[number].startswith("--- ") and "".join(lines[number + 1 : number + 2]).startswith("+++ ")


def _name(line: str) -> str:
    """The file of a line `--- name` (a time may stand behind a tab); "" for /dev/null."""
    name = line[4:].partition("\t")[0].strip()
    return "" if name == "/dev/null" else name


def _hunk(lines: List[str], number: int, file: FilePatch, where: str) -> int:
    """Reads the hunk that begins on this line; returns the line behind it. How many lines it has is told by where the
    next one begins, since hands change patches; the counts only tell lines that look like `--- name` from it."""
    title = lines[number].rstrip("\n")
    found = HUNK.match(title)
    if not found:
        raise Problem(f"{where}:{number + 1}: a hunk begins with @@ -line,count +line,count @@, not: {title}")
    hunk = Hunk(max(0, int(found[1]) - 1), title)
    file.hunks.append(hunk)
    number += 1
    sizes = int(found[2] or 1), int(found[3] or 1)
    while number < len(lines) and not lines[number].startswith("@@"):
        line = lines[number]
        complete = len(hunk.before) >= sizes[0] and len(hunk.after) >= sizes[1]
        if complete and _begins_file(lines, number):
            break
        if complete and line == "\n":
            pass  # a blank line behind the hunk
        elif line.startswith("\\"):
            for side, sign in ((hunk.before, " -"), (hunk.after, " +")):
                if side and lines[number - 1][:1] in sign:
                    side[-1] = side[-1].rstrip("\n")
        elif line[:1] in " -+\n":
            text = line[1:] if line.strip("\n") else line
            if line[:1] != "+":
                hunk.before.append(text)
            if line[:1] != "-":
                hunk.after.append(text)
        else:
            raise Problem(f"{where}:{number + 1}: not understood: {line.rstrip()}")
        number += 1
    return number


# ---- putting in ----


def apply(tree: Tree, text: str, where: str) -> Tree:
    """The tree with the patch; Problem where it does not fit."""
    result = dict(tree)
    for file in parse(text, where).files:
        name = file.before or file.after
        if not file.before:
            if name in result:
                raise Problem(f"{where}: makes {name}, which is there already")
            result[name] = "".join(line for hunk in file.hunks for line in hunk.after)
            continue
        if name not in result:
            raise Problem(f"{where}: there is no {name} to change")
        changed = put_in(result.pop(name), file, where)
        if file.after:
            result[file.after] = changed
    return result


def put_in(text: str, file: FilePatch, where: str) -> str:
    """The text with all hunks, each behind the one before."""
    lines = list(io.StringIO(text))
    earliest = shift = 0
    for count, hunk in enumerate(file.hunks, 1):
        at = place(lines, hunk, earliest, hunk.first + shift)
        if at is None:
            raise Problem(
                f"{where}: {file.before}, hunk {count} of {len(file.hunks)} ({hunk.title}) has no place: its lines no "
                f"longer stand there as the patch knows them. Has the source changed? Make the patch anew."
            )
        lines[at : at + len(hunk.before)] = hunk.after
        earliest = at + len(hunk.after)
        shift = earliest - len(hunk.before) - hunk.first
    return "".join(lines)


def place(lines: List[str], hunk: Hunk, earliest: int, hint: int) -> Optional[int]:
    """Where the hunk's lines stand in `lines`, not above `earliest` and as near to `hint` as can be."""
    size = len(hunk.before)
    if not size:
        return min(max(hint, earliest), len(lines))
    found = [i for i in range(earliest, len(lines) - size + 1) if lines[i : i + size] == hunk.before]
    return min(found, key=lambda i: abs(i - hint), default=None)


# ---- writing ----


def make(before: Tree, after: Tree, head: Tuple[str, ...] = ()) -> str:
    """The patch that makes one tree of the other; "" where they are the same."""
    parts = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        rows = difflib.unified_diff(
            list(io.StringIO(old or "")), list(io.StringIO(new or "")),
            "/dev/null" if old is None else name, "/dev/null" if new is None else name,
        )  # fmt: skip
        parts += [row if row.endswith("\n") else f"{row}\n{NO_NEWLINE}\n" for row in rows]
    return "".join([*(line + "\n" for line in head), *parts]) if parts else ""
