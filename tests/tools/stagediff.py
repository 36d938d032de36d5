#!/usr/bin/env python3
"""What a chapter changes: the table, the headers that join common/, the diff.

    stagediff.py NN        from the chapter before to NN
    stagediff.py NN MM     from NN to MM, any two
    --color always|never|auto

The diff compares item by item (a function with the function of the same name), so that it never
takes half of one function for half of another. `diff -u` says the same in other hunks.
"""
from __future__ import annotations

import argparse
import difflib
import itertools
import os
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import csource
import headers
import stages
from csource import Source
from layout import PAIR, ROOT, Problem, before, chapter, chapters, coloured, has_colours, quit_with

Opcode = Tuple[str, int, int, int, int]
EMPTY = csource.parse("", "/dev/null")
COLORS = {"@": "36", "-": "31", "+": "32"}


class Block(NamedTuple):
    """The lines from, to of an item; it takes the lines before it that are nobody's."""

    key: Tuple[str, ...]
    first: int
    end: int


def blocks(source: Source) -> List[Block]:
    found, done, seen, lines = [], 0, {}, source.text.splitlines()
    for item in source.items:
        seen[item.key] = seen.get(item.key, 0) + 1
        found.append(Block((*item.key, str(seen[item.key])), done, max(done, item.last)))
        done = max(done, item.last)
        if item.kind == "constant" and lines[done : done + 1] == ["};"]:
            found.append(Block(("};",), done, done + 1))
            done += 1
    return found + [Block(("end",), done, len(lines))]


def opcodes(old: Source, new: Source) -> List[Opcode]:
    """As difflib's: how to turn the lines of one into those of the other."""
    a, b = old.text.splitlines(), new.text.splitlines()
    was, now = blocks(old), blocks(new)
    found: List[Opcode] = []

    def lines(a1: int, a2: int, b1: int, b2: int) -> None:
        matcher = difflib.SequenceMatcher(None, a[a1:a2], b[b1:b2], False)
        found.extend((t, a1 + w, a1 + x, b1 + y, b1 + z) for t, w, x, y, z in matcher.get_opcodes())

    matcher = difflib.SequenceMatcher(None, [x.key for x in was], [x.key for x in now], False)
    at, bt = 0, 0  # lines done
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for x, y in zip(was[i1:i2], now[j1:j2]):
                lines(x.first, x.end, y.first, y.end)
                at, bt = x.end, y.end
            continue
        x, y = small(was[i1:i2]), small(now[j1:j2])
        if x and y:  # an enum that loses one constant and gets another is still that enum
            lines(at, x[-1].end, bt, y[-1].end)
            at, bt = x[-1].end, y[-1].end
        a2 = was[i2 - 1].end if i2 > i1 else at
        b2 = now[j2 - 1].end if j2 > j1 else bt
        found.append(("replace", at, a2, bt, b2))
        at, bt = a2, b2
    return join(found)


def small(run: List[Block]) -> List[Block]:
    """The includes and constants that a run begins with."""
    kinds = ("include", "constant", "comment", "};")
    return list(itertools.takewhile(lambda x: x.key[0] in kinds, run))


def join(found: List[Opcode]) -> List[Opcode]:
    """Neighbours of the same sort as one; what is empty left out."""
    out: List[Opcode] = []
    for tag, a1, a2, b1, b2 in found:
        tag = "equal" if tag == "equal" else "replace"
        if a1 == a2 and b1 == b2:
            continue
        if out and out[-1][0] == tag:
            out[-1] = (tag, out[-1][1], a2, out[-1][3], b2)
        else:
            out.append((tag, a1, a2, b1, b2))
    return out


def changed_lines(old: Source, new: Source) -> Tuple[int, int]:
    """Lines that come and lines that go."""
    changed = [op for op in opcodes(old, new) if op[0] != "equal"]
    return sum(op[4] - op[3] for op in changed), sum(op[2] - op[1] for op in changed)


def hunks(found: List[Opcode], context: int) -> Iterator[List[Opcode]]:
    hunk: List[Opcode] = []
    for index, (tag, a1, a2, b1, b2) in enumerate(found):
        if tag == "equal":
            tail = index == len(found) - 1
            if hunk and (tail or a2 - a1 > 2 * context):
                end = min(context, a2 - a1)
                yield hunk + [(tag, a1, a1 + end, b1, b1 + end)]
                hunk = []
            if tail:
                return
            start = max(a1, a2 - context) if not hunk else a1
            hunk.append((tag, start, a2, b2 - (a2 - start), b2))
        else:
            hunk.append((tag, a1, a2, b1, b2))
    if hunk:
        yield hunk


def unified(old: Source, new: Source, context: int = 3) -> List[str]:
    """The lines of a unified diff; none where the two are equal."""
    a, b = old.text.splitlines(), new.text.splitlines()
    out: List[str] = []
    for hunk in hunks(opcodes(old, new), context):
        a1, a2, b1, b2 = hunk[0][1], hunk[-1][2], hunk[0][3], hunk[-1][4]
        spans = [f"{x + (y > x)}" + ("" if y - x == 1 else f",{y - x}") for x, y in ((a1, a2), (b1, b2))]
        first = next(op for op in hunk if op[0] != "equal")
        out.append(f"@@ -{spans[0]} +{spans[1]} @@{place(old, first[1])}")
        for tag, i1, i2, j1, j2 in hunk:
            out += [" " + line for line in a[i1:i2]] if tag == "equal" else []
            out += ["-" + line for line in a[i1:i2]] if tag != "equal" else []
            out += ["+" + line for line in b[j1:j2]] if tag != "equal" else []
    return [f"--- {old.path}", f"+++ {new.path}"] + out if out else []


def place(source: Source, line: int) -> str:
    """The item that a hunk's first change is in, as `diff -p` says it; `line` counts from 0."""
    for item in source.items:
        if item.kind in stages.DECLARED and item.first <= line + 1 <= item.last:
            return " " + source.text.splitlines()[item.code - 1].strip()
    return ""


def rows_of(root: Path, old: Optional[str], new: str, file: str) -> List[List[str]]:
    """Change, kind, name and purpose of all that is new, changed or gone in one program."""
    purpose: Dict[Tuple[str, str], str] = {}
    if old == before(new, root):
        try:
            declared = stages.rows(stages.readme(root, new), "README.md")
        except Problem:  # the stage rules will tell
            declared = []
        purpose = {(r.kind, n): r.what_for for r in declared if r.file == file for n in r.names}
    was = stages.pair(root, old, file) if old else EMPTY
    found = stages.changes(was, stages.pair(root, new, file))
    return [[c.change, c.kind, c.name, purpose.get(c.key, "")] for c in found]


def report(root: Path, old: Optional[str], new: str) -> List[str]:
    since = f"since chapter {old}" if old else "from nothing: it is the first chapter"
    out = [f"What changes in chapter {new} {since}", ""]
    for file in PAIR:
        rows = rows_of(root, old, new, file)
        out.append(f"{file}:" if rows else f"{file}: nothing")
        widths = [max([len(r[i]) for r in rows] + [0]) for i in range(3)]
        order = ("new", "changed", "gone")
        for row in sorted(rows, key=lambda r: order.index(r[0])):
            out.append("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths + [0])).rstrip())
    after = [c for c in chapters(root) if (old or "") < c <= new]
    joined = [h for c in after for h in headers.joining(c, root)]
    out += ["", "Headers that join common/: " + (", ".join(joined) or "none")]
    sources = [
        (stages.pair(root, old, f) if old else EMPTY, stages.pair(root, new, f)) for f in PAIR
    ] + [(EMPTY, csource.read(root / "common" / h, f"common/{h}")) for h in joined]
    for was, now in sources:
        lines = unified(was, now)
        out += ["", *lines] if lines else []
    return out


def paint(lines: List[str], color: bool) -> List[str]:
    if not color:
        return lines
    out, inside = [], False
    for line in lines:
        inside = inside or line.startswith("--- ")
        head = line.startswith(("--- ", "+++ "))
        code = ("1" if head else COLORS.get(line[:1], "")) if inside else ""
        out.append(coloured(line, code, bool(code)))
    return out


def main(argv: List[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="What a chapter changes.")
    parser.add_argument("chapter")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--color", choices=("always", "never", "auto"), default="auto")
    args = parser.parse_args(argv)
    try:
        new = chapter(args.other or args.chapter, root)
        old = chapter(args.chapter, root) if args.other else before(new, root)
        if old is not None and old >= new:
            raise Problem(f"two chapters, the earlier one first: {new} is not later than {old}")
        lines = report(root, old, new)
    except (Problem, csource.Unreadable) as problem:
        quit_with(str(problem))
    color = args.color == "always" or args.color == "auto" and has_colours()
    try:
        print("\n".join(paint(lines, color)), flush=True)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
