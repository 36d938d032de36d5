#!/usr/bin/env python3
"""The rules for the repetition between stages.

    stages.py check [NN]   prints what breaks the rules; exit status 1 where something does
    stages.py table NN     prints the table of chapters/NN/README.md as the sources want it,
                           keeping what the README says under "what for"
    stages.py road         writes the lines of each server.c into README.md

A stage repeats the stage before it and adds its own. chapters/NN/README.md says what is its own, in
a table below the heading "What changed since chapter MM":

    | file | kind | name | change | what for |
    | --- | --- | --- | --- | --- |
    | server.c | function | `try_one_request` | changed | parses the message |
    | server.c | constant | `k_a`, `k_b` | new | names that share a purpose may share a row |

kind is function, type, table, constant or variable (csource.py says which is which), change is new,
changed or gone. For server.c and client.c of every chapter but the first:

1. Whatever is new, changed or gone is in the table, and what the table says is so. All else is byte
   for byte what it was, with the comment block above it.
2. What both stages have stands in the same order, with the same blank lines between neighbours.
3. Includes, declarations and static_asserts may be added without a row; where one is changed or gone, it
   has a row with the kind include, declaration or assert. A declaration goes with its function.
4. The comment on line 1 says what the stage adds, so it is free. A banner, or a comment that stands on
   its own, may come, go or be reworded only where something changes in its section.
5. No function is above 60 lines, unless more than half of it is a switch or a table.
6. A stage's server with all headers it includes is at most 450 lines of code longer than the one before: more is two
   lessons. Comments, blank lines and the *_check() functions do not count, nor do lines that hold nothing but a brace:
   where braces stand is style, what stands between them is what a reader has to understand. 17 may add more: it brings
   the commands that clients of Redis take for granted, some forty of one pattern; and 18, which brings thirty.
7. README.md's table of the road says how many lines of code each server.c has.
"""
from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import csource
import headers
from csource import Item, Source
from layout import PAIR, ROOT, Problem, all_sources, before, cells, chapter, chapters, quit_with

TITLE = ["file", "kind", "name", "change", "what for"]
DECLARED = ("function", "type", "table", "constant", "variable")
ADDED_FREELY = ("include", "declaration", "assert", "directive")
REMARKS = ("banner", "comment")
MAX_FUNCTION = 60
MAX_GROWTH = 450
MAX_GROWTH_OF = {"17": 1550, "18": 640}

Key = Tuple[str, str]


class Change(NamedTuple):
    kind: str
    name: str
    change: str  # new, changed, gone
    old: Optional[Item]
    new: Optional[Item]

    @property
    def key(self) -> Key:
        return self.kind, self.name


@dataclass
class Row:
    line: int
    file: str
    kind: str
    names: List[str]
    change: str
    what_for: str


# ---- what differs between two sources ----


def changes(old: Source, new: Source) -> List[Change]:
    """What differs, in the order of the new source; what is gone comes last."""
    was = {i.key: i for i in old.of_kind(*DECLARED, *ADDED_FREELY)}
    now = {i.key: i for i in new.of_kind(*DECLARED, *ADDED_FREELY)}
    found = []
    for key, item in now.items():
        if key not in was:
            found.append(Change(*key, "new", None, item))
        elif was[key].text != item.text:
            found.append(Change(*key, "changed", was[key], item))
    return found + [Change(*k, "gone", i, None) for k, i in was.items() if k not in now]


def must_be_declared(found: List[Change]) -> List[Change]:
    """The changes that need a row in the table."""
    functions = {c.name for c in found if c.kind in ("function", "type")}
    return [
        c
        for c in found
        if not (c.change == "new" and c.kind in ADDED_FREELY)
        and not (c.kind == "declaration" and c.name in functions)
    ]


def sections(source: Source) -> Dict[int, str]:
    """First line of an item -> the title of the banner that it stands under."""
    title, found = "", {}
    for item in source.items:
        title = item.name if item.kind == "banner" else title
        found[item.first] = title
    return found


def changed_sections(old: Source, new: Source) -> List[str]:
    was, now, found = sections(old), sections(new), []
    for change in changes(old, new):
        found += [was[change.old.first]] if change.old else []
        found += [now[change.new.first]] if change.new else []
    return found


def remark_problems(old: Source, new: Source) -> List[str]:
    """Banners and comments that come, go or change where nothing else does."""
    touched, found = changed_sections(old, new), []
    for one, other, verb in ((new, old, "is new or reworded"), (old, new, "is gone or reworded")):
        texts = [i.text for i in other.of_kind(*REMARKS)]
        titles = sections(one)
        for item in one.of_kind(*REMARKS):
            if item.text in texts:
                texts.remove(item.text)
            elif titles[item.first] not in touched:
                where = f"{one.path}:{item.first}"
                found.append(
                    f"{where}: the {item.kind} `{item.name}` {verb}, and nothing else changes in its "
                    f"section: keep what {other.path} has"
                )
    return found


def order_problems(old: Source, new: Source) -> List[str]:
    """What both have, but in another order, or with other blank lines in between."""
    kinds = DECLARED + ADDED_FREELY + ("banner",)
    was, now = old.of_kind(*kinds), new.of_kind(*kinds)
    both = {i.key for i in was} & {i.key for i in now}
    a, b = [i for i in was if i.key in both], [i for i in now if i.key in both]
    matcher = difflib.SequenceMatcher(None, [i.key for i in a], [i.key for i in b], False)
    kept = {a[m.a + k].key for m in matcher.get_matching_blocks() for k in range(m.size)}
    found = []
    for at, item in enumerate(b):
        if item.key not in kept:
            there = [i.key for i in a].index(item.key)
            place = f"behind {a[there - 1].kind} `{a[there - 1].name}`" if there else "first"
            found.append(
                f"{new.path}:{item.first}: {item.kind} `{item.name}` has moved; in {old.path} it stands {place}"
            )
    if found:
        return found
    gaps = {(x.key, y.key): old.text.splitlines()[x.last : y.first - 1] for x, y in pairs(old)}
    for x, y in pairs(new):
        gap = gaps.get((x.key, y.key))
        if gap is not None and gap != new.text.splitlines()[x.last : y.first - 1]:
            found.append(
                f"{new.path}:{y.first}: the lines between `{x.name}` and `{y.name}` are not those of {old.path}"
            )
    return found


def pairs(source: Source) -> List[Tuple[Item, Item]]:
    """Neighbours, from the second item on (the file comment is free)."""
    items = [i for i in source.items if i.kind != "file"]
    return list(zip(items, items[1:]))


# ---- the table of a chapter's README ----


def heading(text: str) -> Optional[str]:
    """The chapter that the heading "What changed since chapter MM" names."""
    found = re.search(r"^#+\s*What changed since chapter (\d\d)\s*$", text, re.M | re.I)
    return found.group(1) if found else None


def rows(text: str, shown: str) -> List[Row]:
    """The rows of the table; Problem where one cannot be understood."""
    found: List[Row] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        row = cells(line)
        if row == TITLE:
            inside = True
        elif not row:
            inside = False
        elif inside and not set(row[0]) <= set(":- "):
            where = f"{shown}:{number}"
            if len(row) != len(TITLE):
                raise Problem(f"{where}: a row has {len(TITLE)} cells, this one {len(row)} (write \\| for |)")
            file, kind, name, change, what_for = row
            names = re.findall(r"`([^`]+)`", name)
            for value, allowed in ((file, PAIR), (kind, DECLARED + ADDED_FREELY), (change, ("new", "changed", "gone"))):
                if value not in allowed:
                    raise Problem(f"{where}: `{value}` must be one of {', '.join(allowed)}")
            if not names:
                raise Problem(f"{where}: the name must be in backticks: {name}")
            found.append(Row(number, file, kind, names, change, what_for))
    return found


def row_text(file: str, kind: str, names: List[str], change: str, what_for: str) -> str:
    shown = ", ".join(f"`{n}`" for n in names)
    return f"| {file} | {kind} | {shown} | {change} | {what_for} |".replace("|  |", "| |")


def pair(root: Path, name: str, file: str) -> Source:
    return csource.read(root / "chapters" / name / file, f"chapters/{name}/{file}")


def readme(root: Path, name: str) -> str:
    path = root / "chapters" / name / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def table(root: Path, name: str) -> str:
    """The table as it should be. Rows of the README that are still true stay as they are."""
    earlier = before(name, root)
    if earlier is None:
        raise Problem(f"chapter {name} is the first, it has no table")
    kept = rows(readme(root, name), f"chapters/{name}/README.md")
    lines = ["| " + " | ".join(TITLE) + " |", "| --- | --- | --- | --- | --- |"]
    for file in PAIR:
        found = changes(pair(root, earlier, file), pair(root, name, file))
        declared = {(r.kind, n, r.change) for r in kept if r.file == file for n in r.names}
        wanted = [c for c in found if c in must_be_declared(found) or (*c.key, c.change) in declared]
        left = [(*c.key, c.change) for c in wanted]
        for change in wanted:
            key = (*change.key, change.change)
            if key not in left:
                continue
            names, what_for = [change.name], ""
            for row in kept:
                if row.file == file and (row.kind, row.change) == (key[0], key[2]) and change.name in row.names:
                    names = [n for n in row.names if (row.kind, n, row.change) in left]
                    what_for = row.what_for
            left = [k for k in left if not (k[0] == key[0] and k[2] == key[2] and k[1] in names)]
            lines.append(row_text(file, change.kind, names, change.change, what_for))
    if len(lines) == 2:
        return f"Nothing: server.c and client.c differ from chapter {earlier} in their first comment at most."
    return "\n".join(lines)


def table_problems(root: Path, name: str) -> List[str]:
    """Where the table of a chapter and its sources differ."""
    earlier, shown = before(name, root), f"chapters/{name}/README.md"
    if earlier is None:
        return []
    text = readme(root, name)
    hint = f"`python3 tests/tools/stages.py table {name}` prints the whole table"
    if heading(text) != earlier:
        return [f'{shown}: no heading "What changed since chapter {earlier}"; {hint}']
    declared = rows(text, shown)
    found = []
    for file in PAIR:
        old, new = pair(root, earlier, file), pair(root, name, file)
        actual = changes(old, new)
        listed = {(r.kind, n): r for r in declared if r.file == file for n in r.names}
        for change in must_be_declared(actual):
            row = listed.get(change.key)
            if row is None or row.change != change.change:
                says = f"says `{row.change}`" if row else "does not say so"
                where = shown if row is None else f"{shown}:{row.line}"
                found.append(
                    f"{spot(new, change)}: {change.kind} `{change.name}` {verb(change)} since chapter {earlier}, "
                    f"and {where} {says}.\n"
                    f"  If it is the lesson, the table needs this row ({hint}):\n"
                    f"  {row_text(file, change.kind, [change.name], change.change, '...')}\n"
                    f"  If not, make it what {old.path} has.{difference(change)}"
                )
        truth = {c.key for c in actual}
        for key, row in listed.items():
            if key not in truth:
                there = "as it was" if key in {i.key for i in new.items} else "in neither"
                found.append(
                    f"{shown}:{row.line}: the table says that {key[0]} `{key[1]}` of {file} is {row.change}, "
                    f"but it is {there} ({old.path}, {new.path}).\n"
                    f"  Take it out of the table; {hint}."
                )
    found += [f"{shown}:{r.line}: the column `what for` is empty" for r in declared if not r.what_for]
    return found


def spot(new: Source, change: Change) -> str:
    return f"{new.path}:{change.new.code}" if change.new else new.path


def verb(change: Change) -> str:
    return {"new": "is new", "changed": "has changed", "gone": "is gone"}[change.change]


def difference(change: Change, limit: int = 12) -> str:
    """The lines that differ, for the eye."""
    if not change.old or not change.new:
        return ""
    old, new = change.old.text, change.new.text
    if csource.squeeze(old) == csource.squeeze(new):
        note = " Only blanks and line ends differ:"
    elif csource.squeeze(csource.strip(old)) == csource.squeeze(csource.strip(new)):
        note = " Only comments differ:"
    else:
        note = " What differs:"
    lines = [d for d in difflib.ndiff(old.splitlines(), new.splitlines()) if d[0] in "+-"]
    more = [f"... and {len(lines) - limit} lines more"] if len(lines) > limit else []
    return note + "".join("\n      " + line for line in lines[:limit] + more)


# ---- size ----


def long_functions(source: Source) -> List[str]:
    """Functions above the limit that are not mostly a switch or a table."""
    bare, found = source.bare.splitlines(), []
    for item in source.of_kind("function"):
        lines = bare[item.code - 1 : item.last]
        if len(lines) <= MAX_FUNCTION:
            continue
        exempt, depth, until = 0, 0, -1
        for line in lines:
            if until < 0 and re.search(r"\bswitch\s*\(|=\s*\{\s*$", line):
                until = depth
            depth += line.count("{") - line.count("}")
            exempt += until >= 0
            if depth <= until:
                until = -1
        if exempt * 2 <= len(lines):
            found.append(
                f"{source.path}:{item.code}: `{item.name}` has {len(lines)} lines, the limit is {MAX_FUNCTION}"
            )
    return found


def whole_size(root: Path, name: str) -> Dict[str, int]:
    """Lines of code of a chapter's server and of each header it includes, without *_check() and without lines that
    hold nothing but a brace."""
    server = root / "chapters" / name / "server.c"
    files = [server] + [root / "common" / h for h in headers.closure(server, root)]
    return {str(f.relative_to(root)): csource.read(f).code_lines(checks=False, braces=False) for f in files}


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


ROAD = "lines of server.c"  # a column of README.md


def road(root: Path) -> Dict[str, Tuple[int, str]]:
    """For each chapter in README.md's table of the road: the number of that line, and the lines of server.c it says."""
    said: Dict[str, Tuple[int, str]] = {}
    inside = False
    for number, line in enumerate((root / "README.md").read_text(encoding="utf-8").splitlines(), 1):
        row = cells(line)
        inside = bool(row) and (inside or row[-1] == ROAD)
        link = re.match(r"\[(\d\d)\]", row[0]) if inside and row else None
        if link:
            said[link.group(1)] = number, row[-1]
    return said


def write_road(root: Path = ROOT) -> List[str]:
    """Writes the lines of each server.c into README.md; returns what was changed."""
    readme = root / "README.md"
    page, changed = readme.read_text(encoding="utf-8").splitlines(keepends=True), []
    for name, (number, said) in road(root).items():
        lines = str(pair(root, name, PAIR[0]).code_lines()) if name in chapters(root) else said
        if lines != said:
            page[number - 1] = re.sub(r"[^|]*\|\s*$", f" {lines} |\n", page[number - 1])
            changed.append(f"README.md:{number}: {lines} lines of code in chapter {name}")
    if changed:
        readme.write_text("".join(page), encoding="utf-8")
    return changed


def road_problems(root: Path = ROOT) -> List[str]:
    """Where README.md's table of the road and the sources differ in the lines of server.c."""
    said = road(root)
    if not said:
        return [f"README.md has no table with the last column `{ROAD}` and rows that begin with [NN](chapters/NN)"]
    found = []
    for name in chapters(root):
        lines = str(pair(root, name, PAIR[0]).code_lines())
        number, text = said.get(name, (0, ""))
        if not number:
            found.append(f"README.md: the table of the road has no row for chapter {name}, of {lines} lines")
        elif text != lines:
            found.append(
                f"README.md:{number}: the server.c of chapter {name} has {lines} lines of code: "
                f"write {lines} for {text or 'nothing'}, or make book-update"
            )
    return found


# ---- all of it ----


def problems(root: Path, name: str) -> List[str]:
    """What breaks the rules in one chapter (the sizes apart)."""
    found = table_problems(root, name)
    earlier = before(name, root)
    for file in PAIR if earlier else ():
        old, new = pair(root, earlier, file), pair(root, name, file)
        found += order_problems(old, new) + remark_problems(old, new)
    return found


def main(argv: List[str], root: Path = ROOT) -> int:
    try:
        if argv == ["road"]:
            print("".join(f"changed {c}\n" for c in write_road(root)), end="")
        elif len(argv) == 2 and argv[0] == "table":
            print(table(root, chapter(argv[1], root)))
        elif argv[:1] == ["check"] and len(argv) <= 2:
            names = [chapter(argv[1], root)] if len(argv) == 2 else chapters(root)
            found = [p for n in names for p in problems(root, n)]
            for path in all_sources(root):
                found += long_functions(csource.read(path, path.relative_to(root)))
            found += size_problems(root) + (road_problems(root) if (root / "README.md").exists() else [])
            print("\n\n".join(found) or "The stages keep all the rules.")
            return 1 if found else 0
        else:
            quit_with("usage: stages.py check [NN] | table NN | road")
    except (Problem, csource.Unreadable) as problem:
        quit_with(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
