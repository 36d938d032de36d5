#!/usr/bin/env python3
"""The rules for the repetition between stages.

    stages.py check [NN]   prints what breaks the rules; exit status 1 where something does
    stages.py table NN     prints the table of chapters/NN/README.md as the sources want it; rows of the README that
                           are true stay as they are
    stages.py update       writes the lines of each server into README.md, and the table of common/README.md

A stage repeats the stage before it and adds its own. chapters/NN/README.md says what is its own, in
a table below the heading "What changed since chapter MM":

    | file | kind | name | change | what for |
    | --- | --- | --- | --- | --- |
    | server.c | function | `try_one_request` | changed | parses the message |
    | src/conn.c | constant | `k_a`, `k_b` | new | names that share a purpose may share a row |

kind is function, type, table, constant or variable (sources.py says which is which), change is new,
changed, moved (to another file of src/, otherwise the same) or gone. For server and client of every chapter but the
first:

1. Whatever is new, changed, moved or gone is in the table, and what the table says is so.
2. All else is what it was: each unit byte for byte, with the comment above it, in the same order, with the same blank
   lines in between.
3. Includes, declarations and static_asserts may be added without a row; where one is changed or gone, it
   has a row with the kind include, declaration or assert. A declaration goes with its function.
4. The comment on line 1 says what the stage adds, so it is free. A banner, or a comment that stands on
   its own, may come, go or be reworded only where something changes in its section.
5. No function is above 60 lines.
6. A stage's server with all headers it includes is at most 450 lines of code longer than the one before: more is two
   lessons. Comments, blank lines and the *_check() functions do not count, nor do lines that hold nothing but a brace:
   where braces stand is style, what stands between them is what a reader has to understand. 21 may add more: it brings
   the commands that clients of Redis take for granted, some eighty of one pattern. Their new files begin with includes,
   and server.h has a line for each function that others call. So may 26: a message needs a table of those
   who listen, an inbox, the commands, a limit that can be set, one for those who publish, and the names of events. The
   way of a message through them is the idea, and typed; most of the table, the commands, two settings that are text and
   the names are taken.
   And 27: what is written, how it is read again, and what is done where either fails are one idea. A log without
   its reader cannot be tried, and one that nobody has seen fail promises nothing. The settings in a file are taken.
7. README.md's table of the road says how many lines of code each server has.

Where server.c becomes the files of src/, what it had is looked for in all of them. `static` may go, `g_data.x` may be
the file's own variable `x`, and a comment behind a constant may stand further left or right: that alone is no change.
"""
from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import headers
import sources
from layout import (
    ROOT, Problem, all_sources, before, chapter, chapters, pair_of, quit_with, server_of, table_rows,
)  # fmt: skip
from sources import DECLARED, Source, Unit, without_static

TITLE = ["file", "kind", "name", "change", "what for"]
ADDED_FREELY = ("include", "declaration", "assert", "directive")
REMARKS = ("banner", "comment")
MAX_FUNCTION = 60
MAX_GROWTH = 450
MAX_GROWTH_OF = {"21": 1775, "26": 1030, "27": 1800}
MAX_SHOWN = 12  # lines of a difference
BLANK = "(a blank line)"

Stage = Dict[str, Source]  # by the path in the chapter's folder
VERBS = {"new": "is new", "changed": "has changed", "moved": "has moved here", "gone": "is gone"}


class Change(NamedTuple):
    file: str  # where it is now; what is gone, where it was
    kind: str
    name: str
    change: str  # new, changed, moved, gone
    old: Optional[Unit]
    new: Optional[Unit]
    was_in: str  # the file of the old one

    @property
    def key(self) -> Tuple[str, str, str, str]:
        """What a row of the table says of it."""
        return self.file, self.kind, self.name, self.change


class Row(NamedTuple):
    line: int
    file: str
    kind: str
    names: List[str]
    change: str
    what_for: str

    @property
    def keys(self) -> List[Tuple[str, str, str, str]]:
        return [(self.file, self.kind, name, self.change) for name in self.names]

    def __str__(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {self.file} | {self.kind} | {names} | {self.change} | {self.what_for} |".replace("|  |", "| |")


# ---- what differs between two stages ----


def stage(root: Path, name: str) -> Stage:
    """Server and client of a chapter."""
    folder = f"chapters/{name}"
    return {file: sources.read(root / folder / file, f"{folder}/{file}") for file in pair_of(name, root)}


def changes(old: Stage, new: Stage) -> List[Change]:
    """What differs, in the order of the new sources; what is gone comes last."""
    was, now = (
        {(file, *item.key): item for file, source in each.items() for item in source.of_kind(*DECLARED, *ADDED_FREELY)}
        for each in (old, new)
    )
    gone = {key: item for key, item in was.items() if key not in now}
    found = []
    for key, item in now.items():
        if key in was:
            as_is = aligned if item.kind == "variable" else str
            if as_is(was[key].text) != as_is(item.text):
                found.append(Change(*key, "changed", was[key], item, key[0]))
            continue
        elsewhere = [k for k in gone if k[1:] == key[1:] and k[1] in DECLARED and "client.c" not in (k[0], key[0])]
        if len(elsewhere) == 1:
            file, there = elsewhere[0][0], gone.pop(elsewhere[0])
            own = {each.name for each in new[key[0]].of_kind("variable")}
            if as_another_file_has_it(there, own) != as_another_file_has_it(item, own):
                found.append(Change(*key, "changed", there, item, file))
            elif file in new:
                found.append(Change(*key, "moved", there, item, file))
        else:
            found.append(Change(*key, "new", None, item, ""))
    return found + [Change(*k, "gone", i, None, k[0]) for k, i in gone.items() if k[0] in new or k[1] in DECLARED]


def as_another_file_has_it(item: Unit, variables: Set[str]) -> str:
    """Its text without what may differ where it has moved to a file that owns these variables."""
    text = re.sub(r"\bg_data\.(\w+)", lambda found: found[found[1] in variables], without_static(item.text))
    return aligned(text) if item.kind == "constant" else text


def aligned(text: str) -> str:
    """The text with one blank in front of a comment behind it: how many there are depends on the neighbours."""
    return re.sub(r" +//", " //", text)


def telling(found: List[Change]) -> List[Change]:
    """The changes without declarations of functions that are listed themselves, and comments that were aligned."""
    functions = {c.name for c in found if c.kind in ("function", "type")}
    return [
        c
        for c in found
        if not (c.kind == "declaration" and c.name in functions)
        and not (c.kind == "constant" and c.change == "changed" and aligned(c.old.text) == aligned(c.new.text))
    ]


def must_be_declared(found: List[Change]) -> List[Change]:
    """The changes that need a row in the table."""
    return [c for c in telling(found) if not (c.change == "new" and c.kind in ADDED_FREELY)]


def sections(source: Source) -> Dict[int, str]:
    """First line of an item -> the title of the banner that it stands under."""
    title, found = "", {}
    for item in source.items:
        title = item.name if item.kind == "banner" else title
        found[item.first] = title
    return found


def remainder(source: Source, without: List[Unit], other: Source, touched: Set[str]) -> List[Tuple[str, int]]:
    """What is left without these units: names, blank lines and remarks, and where each stands. Left out are the comment
    on line 1 and, in the sections that are touched, remarks that the other one lacks."""
    found: List[Tuple[str, int]] = []
    keys, lines, at, gap = {unit.key for unit in without}, source.text.splitlines(), 0, False
    titles, remarks = sections(source), Counter(item.text for item in other.of_kind(*REMARKS))
    for item in source.items:
        gap = gap or "" in lines[at : item.first - 1]
        at = item.last
        if item.kind in REMARKS:
            stays = remarks[item.text] > 0 or titles[item.first] not in touched
            remarks[item.text] -= stays
        else:
            stays = item.kind != "file" and item.key not in keys
        if stays:
            found += [(BLANK, item.first - 1)] if gap and found else []
            found.append((item.text.rstrip() if item.kind in REMARKS else f"{item.kind} `{item.name}`", item.first))
            gap = False
    return found


def remainder_problems(old: Source, new: Source, go: List[Unit], come: List[Unit]) -> List[str]:
    """Where a file is not what it was, besides the units that go and that come."""
    touched = {sections(old)[item.first] for item in go} | {sections(new)[item.first] for item in come}
    was, now = remainder(old, go, new, touched), remainder(new, come, old, touched)
    matcher = difflib.SequenceMatcher(None, *([name for name, _ in each] for each in (was, now)), False)
    differing = [op[1:] for op in matcher.get_opcodes() if op[0] != "equal"]
    if not differing:
        return []
    line = (now + [("", len(new.text.splitlines()))])[differing[0][2]][1]
    diff: List[str] = []
    for i1, i2, j1, j2 in differing:
        diff += [f"-{name}" for name, _ in was[i1:i2]] + [f"+{name}" for name, _ in now[j1:j2]]
    return [
        f"{new.path}:{line}: besides what the table names, a stage keeps the order, the blank lines and the comments of"
        f" the one before: make it what {old.path} has (-).{shown(diff)}"
    ]


def shown(lines: Iterable[str]) -> str:
    """The first lines of a difference, indented."""
    each = list(lines)
    more = [f"... and {len(each) - MAX_SHOWN} lines more"] if len(each) > MAX_SHOWN else []
    return "".join(f"\n      {line}" for line in each[:MAX_SHOWN] + more)


# ---- the table of a chapter's README ----


def rows(text: str, where: str) -> List[Row]:
    """The rows of the table; Problem where one cannot be understood."""
    found: List[Row] = []
    for number, row in table_rows(text, *TITLE):
        if len(row) != len(TITLE):
            raise Problem(f"{where}:{number}: a row has {len(TITLE)} cells, this one {len(row)} (write \\| for |)")
        names = re.findall(r"`([^`]+)`", row[2])
        if not names:
            raise Problem(f"{where}:{number}: the name must be in backticks: {row[2]}")
        found.append(Row(number, row[0], row[1], names, row[3], row[4]))
    return found


def readme(root: Path, name: str) -> str:
    path = root / "chapters" / name / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def table(root: Path, name: str) -> List[Row]:
    """The rows as they should be: those of the README as far as they are true, then what they lack."""
    earlier = before(name, root)
    if earlier is None:
        raise Problem(f"chapter {name} is the first, it has no table")
    found = changes(stage(root, earlier), stage(root, name))
    left = [change.key for change in found]
    result: List[Row] = []
    for row in rows(readme(root, name), f"chapters/{name}/README.md"):
        keys = [key for key in row.keys if key in left]
        left = [key for key in left if key not in keys]
        result += [row._replace(names=[key[2] for key in keys])] if keys else []
    return result + [
        Row(0, c.file, c.kind, [c.name], c.change, "...") for c in must_be_declared(found) if c.key in left
    ]


def table_text(root: Path, name: str) -> str:
    found = table(root, name)
    if not found:
        return f"Nothing: server and client differ from chapter {before(name, root)} in their first comment at most."
    return "\n".join(["| " + " | ".join(TITLE) + " |", "| --- | --- | --- | --- | --- |", *map(str, found)])


def table_problems(root: Path, name: str) -> List[str]:
    """Where the table of a chapter and its sources differ."""
    earlier, page = before(name, root), f"chapters/{name}/README.md"
    if earlier is None:
        return []
    text = readme(root, name)
    if not re.search(rf"^#+\s*What changed since chapter {earlier}\s*$", text, re.M | re.I):
        hint = f"`python3 tests/tools/stages.py table {name}` prints the table"
        return [f'{page}: no heading "What changed since chapter {earlier}"; {hint}']
    hint = f"`python3 tests/tools/stages.py table {name}` prints the whole table"
    lacking = {key: row for row in table(root, name) for key in row.keys}
    found = []
    for row in rows(text, page):
        found += [f"{page}:{row.line}: the column `what for` is empty"] if row.what_for in ("", "...") else []
        for key in row.keys:
            if not lacking.pop(key, None):
                found.append(
                    f"{page}:{row.line}: the table says that {row.kind} `{key[2]}` of {row.file} is {row.change}, and"
                    f" that is not so.\n  Take it out of the table; {hint}."
                )
    for c in changes(stage(root, earlier), stage(root, name)):
        if c.key in lacking:
            line = f":{c.new.code}" if c.new else ""
            found.append(
                f"chapters/{name}/{c.file}{line}: {c.kind} `{c.name}` {VERBS[c.change]} since chapter {earlier}, and"
                f" {page} does not say so.\n  If it is the lesson, the table needs this row ({hint}):\n"
                f"  {lacking[c.key]}\n  If not, make it what chapter {earlier} has.{difference(c)}"
            )
    return found


def difference(change: Change) -> str:
    """The lines that differ, for the eye."""
    if not change.old or not change.new or change.change == "moved":
        return ""
    old, new = change.old.text, change.new.text
    if sources.squeeze(old) == sources.squeeze(new):
        note = " Only blanks and line ends differ:"
    elif sources.squeeze(sources.strip(old)) == sources.squeeze(sources.strip(new)):
        note = " Only comments differ:"
    else:
        note = " What differs:"
    return note + shown(d for d in difflib.ndiff(old.splitlines(), new.splitlines()) if d[0] in "+-")


# ---- size ----


def long_functions(source: Source) -> List[str]:
    return [
        f"{source.path}:{item.code}: `{item.name}` has {item.last - item.code + 1} lines, the limit is {MAX_FUNCTION}"
        for item in source.of_kind("function")
        if item.last - item.code >= MAX_FUNCTION
    ]


def whole_size(root: Path, name: str) -> Dict[str, int]:
    """Lines of code of a chapter's server and of each header it includes, without *_check() and without lines that
    hold nothing but a brace."""
    server = [root / "chapters" / name / file for file in server_of(name, root)]
    used = sorted({header for file in server for header in headers.closure(file, root)})
    files = server + [root / "common" / header for header in used]
    return {str(f.relative_to(root)): sources.read(f).code_lines(checks=False, braces=False) for f in files}


def size_problems(root: Path = ROOT) -> List[str]:
    """The stages that add too much at once."""
    names, found = chapters(root), []
    for earlier, name in zip(names, names[1:]):
        old, new = (whole_size(root, each) for each in (earlier, name))
        grown = sum(new.values()) - sum(old.values())
        limit = MAX_GROWTH_OF.get(name, MAX_GROWTH)
        if grown > limit:
            parts = "".join(f"\n  {new.get(f, 0) - old.get(f, 0):+5} {f}" for f in {**old, **new})
            found.append(
                f"chapter {name}'s server has {grown} lines of code more than that of {earlier}, with its headers,"
                f" braces alone on a line and *_check() functions not counted; the limit is {limit}:{parts}"
            )
    return found


ROAD = "lines of the server"  # a column of README.md


def server_lines(root: Path, name: str) -> int:
    return sum(stage(root, name)[file].code_lines() for file in server_of(name, root))


def road(root: Path = ROOT) -> str:
    """README.md with the lines of each server in its table of the road; Problem where a row is missing."""
    text = (root / "README.md").read_text(encoding="utf-8")
    page, left = text.splitlines(keepends=True), chapters(root)
    for number, row in table_rows(text, ROAD):
        link = re.match(r"\[(\d\d)\]", row[0])
        if link and link[1] in left:
            left.remove(link[1])
            page[number - 1] = re.sub(r"[^|]*\|\s*$", f" {server_lines(root, link[1])} |\n", page[number - 1])
    if left:
        rows = ", ".join(left)
        raise Problem(f"README.md: the table that ends with `{ROAD}` has no row [NN](chapters/NN) for {rows}")
    return "".join(page)


PAGES = {"README.md": road, "common/README.md": headers.page}  # what has tables that the sources decide


def page_problems(root: Path = ROOT) -> List[str]:
    """The pages whose tables are not what the sources say."""
    found = []
    for name, page in PAGES.items():
        diff = difflib.ndiff((root / name).read_text(encoding="utf-8").splitlines(), page(root).splitlines())
        lines = [line for line in diff if line[0] in "+-"]
        found += [f"{name}: the sources say otherwise (+); make book-update writes it:{shown(lines)}"] * bool(lines)
    return found


# ---- all of it ----


def problems(root: Path, name: str) -> List[str]:
    """What breaks the rules in one chapter (the sizes apart)."""
    found = table_problems(root, name)
    earlier = before(name, root)
    if earlier:
        old, new = stage(root, earlier), stage(root, name)
        everything = changes(old, new)
        names = {c.name for c in everything if c.kind in ("function", "type")}  # their declarations go with them
        for file in new:
            sources.units(new[file].text, new[file].path)
        for file in sorted(set(old) & set(new)):
            go = [c.old for c in everything if c.old and c.was_in == file]
            come = [c.new for c in everything if c.new and c.file == file]
            go, come = (
                units + [item for item in source.of_kind("declaration") if item.name in names]
                for units, source in ((go, old[file]), (come, new[file]))
            )
            found += remainder_problems(old[file], new[file], go, come)
    return found


def main(argv: List[str], root: Path = ROOT) -> int:
    try:
        if argv == ["update"]:
            for name, page in PAGES.items():
                (root / name).write_text(page(root), encoding="utf-8")
        elif len(argv) == 2 and argv[0] == "table":
            print(table_text(root, chapter(argv[1], root)))
        elif argv[:1] == ["check"] and len(argv) <= 2:
            names = [chapter(argv[1], root)] if len(argv) == 2 else chapters(root)
            found = [p for n in names for p in problems(root, n)]
            for path in all_sources(root):
                found += long_functions(sources.read(path, path.relative_to(root)))
            found += size_problems(root) + (page_problems(root) if len(argv) == 1 else [])
            print("\n\n".join(found) or "The stages keep all the rules.")
            return 1 if found else 0
        else:
            quit_with("usage: stages.py check [NN] | table NN | update")
    except (Problem, sources.Unreadable) as problem:
        quit_with(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
