#!/usr/bin/env python3
"""What a chapter changes: the table, the headers that join common/, the diff.

    stagediff.py NN        from the chapter before to NN
    stagediff.py NN MM     from NN to MM, any two

The diff compares unit by unit (a function with the function of the same name), so that it never
takes half of one function for half of another. `diff -u` says the same in other hunks. Of a server of several files it
begins with server.h; what a file takes over from others is compared with what they had.
"""
from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

import headers
import sources
import stages
from layout import ROOT, Problem, before, chapter, chapters, coloured, quit_with
from sources import Source, Unit, without_static
from stages import Stage

Opcode = Tuple[str, int, int, int, int]
EMPTY = sources.parse("", "/dev/null")
COLORS = {"@": "36", "-": "31", "+": "32"}
ORDER = ("new", "changed", "moved", "gone")


class ByUnit(difflib.SequenceMatcher):
    """Compares the lines of two sources, those of a unit with those of the same unit only."""

    def __init__(self, old: Source, new: Source):
        super().__init__(None, old.text.splitlines(), new.text.splitlines(), False)
        self.units = old.units, new.units

    def get_matching_blocks(self) -> List[difflib.Match]:
        found = [difflib.Match(0, 0, 0)]
        for (a1, a2), (b1, b2) in self.pairs():
            for a, b, size in difflib.SequenceMatcher(None, self.a[a1:a2], self.b[b1:b2], False).get_matching_blocks():
                last = found[-1]
                if (last.a + last.size, last.b + last.size) == (a1 + a, b1 + b):
                    found[-1] = last._replace(size=last.size + size)
                elif size:
                    found.append(difflib.Match(a1 + a, b1 + b, size))
        return found + [difflib.Match(len(self.a), len(self.b), 0)]

    def pairs(self) -> Iterator[Tuple[Tuple[int, int], Tuple[int, int]]]:
        """The lines of each unit that both have, with the blank one above it, and what stands behind the last."""
        old, new = self.units
        known = [sources.index_of(old, unit) for unit in new]  # a group with another first member is still that group
        names = [unit.key if at is None else old[at].key for unit, at in zip(new, known)]
        matcher = difflib.SequenceMatcher(None, [unit.key for unit in old], names, False)
        for i, j, size in matcher.get_matching_blocks():
            for x, y in zip(range(i, i + size), range(j, j + size)):
                yield lines_of(old, x), lines_of(new, y)
        yield tuple((units[-1].last if units else 0, len(s)) for units, s in zip(self.units, (self.a, self.b)))


def lines_of(units: List[Unit], at: int) -> Tuple[int, int]:
    return units[at - 1].last if at else 0, units[at].last


def opcodes(old: Source, new: Source) -> List[Opcode]:
    """As difflib's: how to turn the lines of one into those of the other."""
    return ByUnit(old, new).get_opcodes()


def changed_lines(old: Source, new: Source) -> Tuple[int, int]:
    """Lines that come and lines that go."""
    changed = [op for op in opcodes(old, new) if op[0] != "equal"]
    return sum(op[4] - op[3] for op in changed), sum(op[2] - op[1] for op in changed)


def unified(old: Source, new: Source, context: int = 3) -> List[str]:
    """The lines of a unified diff; none where the two are equal."""
    matcher = ByUnit(old, new)
    out: List[str] = []
    for group in matcher.get_grouped_opcodes(context):
        a1, a2, b1, b2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        spans = [f"{x + (y > x)}" + ("" if y - x == 1 else f",{y - x}") for x, y in ((a1, a2), (b1, b2))]
        first = next(op for op in group if op[0] != "equal")
        out.append(f"@@ -{spans[0]} +{spans[1]} @@{place(old, first[1])}")
        for tag, i1, i2, j1, j2 in group:
            out += [f" {line}" for line in matcher.a[i1:i2]] if tag == "equal" else []
            out += [f"-{line}" for line in matcher.a[i1:i2]] if tag != "equal" else []
            out += [f"+{line}" for line in matcher.b[j1:j2]] if tag != "equal" else []
    return [f"--- {old.path}", f"+++ {new.path}"] + out if out else []


def place(source: Source, line: int) -> str:
    """The item that a hunk's first change is in, as `diff -p` says it; `line` counts from 0."""
    for item in source.of_kind(*sources.DECLARED):
        if item.first <= line + 1 <= item.last:
            return " " + source.text.splitlines()[item.code - 1].strip()
    return ""


# ---- two stages ----


def side_by_side(old: Stage, new: Stage) -> List[Tuple[Source, Source]]:
    """Each file of the new stage and what it is compared with, then what is left of the files that are gone."""
    gone = {file: source.units for file, source in old.items() if file not in new}
    found = []
    for file, source in new.items():
        was, there = old.get(file, EMPTY), [unit for units in gone.values() for unit in units]
        taken = [(unit, sources.index_of(there, unit)) for unit in source.units if file not in old]
        pairs = [(unit, there[at]) for unit, at in taken if at is not None and unit.kind not in ("top", "includes")]
        if pairs:
            texts = [(x if without_static(x.text) == without_static(y.text) else y).text for x, y in pairs]
            was = sources.parse("\n".join(texts), ", ".join(old[each].path for each in gone))
            gone = {each: [u for u in units if u not in [y for _, y in pairs]] for each, units in gone.items()}
        found.append((was, source))
    left = [(old[file].path, [u for u in units if u.kind in sources.DECLARED]) for file, units in gone.items()]
    return found + [(sources.parse(sources.join(units), path), EMPTY) for path, units in left if units]


def rows_of(root: Path, old: Optional[str], new: str, file: str) -> List[List[str]]:
    """Change, kind, name and purpose of all that is new, changed or gone in one program."""
    purpose: Dict[Tuple[str, ...], str] = {}
    if old == before(new, root):
        try:
            declared = stages.rows(stages.readme(root, new), "README.md")
        except Problem:  # the stage rules will tell
            declared = []
        purpose = {key: row.what_for for row in declared for key in row.keys}
    found = stages.changes(stages.stage(root, old) if old else {}, stages.stage(root, new))
    return [[c.change, c.kind, c.name, purpose.get(c.key, "")] for c in stages.telling(found) if c.file == file]


def report(root: Path, old: Optional[str], new: str) -> List[str]:
    since = f"since chapter {old}" if old else "from nothing: it is the first chapter"
    out = [f"What changes in chapter {new} {since}", ""]
    was, now = stages.stage(root, old) if old else {}, stages.stage(root, new)
    for file in [*now, *(file for file in was if file not in now)]:
        rows = [row for row in rows_of(root, old, new, file) if not old or file in was or row[1] in sources.DECLARED]
        nothing = "nothing" if file in was or not old else "what other files had"
        out += [f"{file}:" if rows else f"{file}: {nothing}"] if rows or file in now else []
        widths = [max([len(r[i]) for r in rows] + [0]) for i in range(3)]
        for row in sorted(rows, key=lambda r: ORDER.index(r[0])):
            out.append("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths + [0])).rstrip())
    after = [c for c in chapters(root) if (old or "") < c <= new]
    joined = [h for c in after for h in headers.joining(c, root)]
    out += ["", "Headers that join common/: " + (", ".join(joined) or "none")]
    both = side_by_side(was, now) + [(EMPTY, sources.read(root / "common" / h, f"common/{h}")) for h in joined]
    for pair in both:
        lines = unified(*pair)
        out += ["", *map(painted, lines)] if lines else []
    return out


def painted(line: str) -> str:
    code = "1" if line.startswith(("--- ", "+++ ")) else COLORS.get(line[:1])
    return coloured(line, code) if code else line


def main(argv: List[str], root: Path = ROOT) -> int:
    try:
        if not 1 <= len(argv) <= 2:
            raise Problem("usage: stagediff.py NN [MM]")
        new = chapter(argv[-1], root)
        old = chapter(argv[0], root) if len(argv) == 2 else before(new, root)
        if old is not None and old >= new:
            raise Problem(f"two chapters, the earlier one first: {new} is not later than {old}")
        print("\n".join(report(root, old, new)), flush=True)
    except (Problem, sources.Unreadable) as problem:
        quit_with(str(problem))
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
