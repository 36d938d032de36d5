"""A C file as the book takes it apart: a list of units with one blank line between any two.

    top              the comment that opens the file, with `#pragma once` below it
    includes         all #include lines, the first to the last
    k_max_msg        an enum without a tag: any of its constants names it, the first one by preference;
                     so it is with macros or prototypes that stand line by line
    conn, one_round   a function, type, table, constant or variable with the comment above it; where a
                     type and a function share a name, type:lookup_key and function:lookup_key
    banner:requests  the heading of a section, its title with - for blanks (banner:the-poll-set)
    comment:a-b-c-d  a comment that stands on its own, by its first four words
    declaration:f    a prototype; likewise assert:.. and directive:..

csource.py finds the items; what it reports constant by constant or line by line is one unit here.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import csource

OPENING = re.compile(r"// [\w.]+\.[ch]\b")
KINDS = ("function", "type", "table", "constant", "variable")
WORDS = {"struct": "type", "union": "type", "enum": "type"}


class UnitError(ValueError):
    """Code that cannot be taken apart, or a name that means nothing in it."""


@dataclass(frozen=True)
class Unit:
    kind: str
    name: str
    text: str
    members: Tuple[str, ...] = ()  # of an enum without a tag

    @property
    def label(self) -> str:
        """The name as an info string has it, where no other unit has the same name."""
        if self.kind in ("top", "includes"):
            return self.kind
        return self.name if self.kind in KINDS or self.kind == "enum" else f"{self.kind}:{self.name}"

    @property
    def full_label(self) -> str:
        return f"{self.kind}:{self.name}" if self.kind in KINDS else self.label

    @property
    def signature(self) -> str:
        """The first line that is no comment, of a banner or comment the first."""
        lines = self.text.splitlines()
        return next((line for line in lines if not line.startswith(("//", "/*", " *"))), lines[0])

    def same(self, other: "Unit") -> bool:
        """Is it the same thing, perhaps with another text?"""
        if self.kind != other.kind:
            return False
        return bool(set(self.members) & set(other.members)) if self.kind == "enum" else self.name == other.name


def slug(text: str, limit: int = 0) -> str:
    found = re.findall(r"[\w']+", text)
    return "-".join(found[:limit] if limit else found)


def units(text: str, path: object = "code") -> List[Unit]:
    """The units of a whole file, or of the code of a block."""
    try:
        # A blank line in front: else a comment on line 1 is taken for that of the file.
        source = csource.parse("\n" + text, path)
    except csource.Unreadable as problem:
        raise UnitError(str(problem)) from None
    lines = ("\n" + text).splitlines(True)
    found: List[Tuple[int, int, str, str, Tuple[str, ...]]] = []
    includes = [i for i in source.items if i.kind == "include"]
    region = (includes[0].first, includes[-1].last) if includes else (0, -1)
    for item in source.items:
        if found and item.first <= found[-1][1]:
            if found[-1][2] == "enum" and item.kind == "constant":
                first, last, kind, name, members = found.pop()
                found.append((first, last, kind, name, members + (item.name,)))
            continue
        if region[0] <= item.first <= region[1]:
            if item.kind not in ("include", "directive", "constant", "comment"):
                raise UnitError(f"{path}: {item.kind} {item.name} stands between the includes")
            found.append((*region, "includes", "", ()))
            continue
        enum = _enum(lines, item)
        if enum:
            if found and found[-1][2] == "comment" and found[-1][1] == enum[0] - 1:
                enum = found.pop()[0], enum[1]
            found.append((*enum, "enum", item.name, (item.name,)))
        elif not found and OPENING.match(item.text):
            found.append((item.first, item.last, "top", "", ()))
        else:
            words = {"banner": 0, "comment": 4, "assert": 6, "directive": 6}
            name = slug(item.name, words[item.kind]) if item.kind in words else item.name
            if found and item.first == found[-1][1] + 1 and "" not in (name, found[-1][3]):
                first, _, _, old, members = found.pop()
                found.append((first, item.last, "enum", old, (members or (old,)) + (name,)))
            else:
                found.append((item.first, item.last, item.kind, name, ()))
    result = [Unit(k, n, "".join(lines[a - 1 : b]), m) for a, b, k, n, m in found]
    if join(result) != text:
        raise UnitError(
            f"{path}: one blank line between two items, please, and none before the first or after the last"
        )
    return result


def _enum(lines: Sequence[str], item: csource.Item) -> Optional[Tuple[int, int]]:
    """The lines of the enum without a tag that a constant belongs to."""
    if item.kind not in ("constant", "comment"):
        return None
    at = item.first
    if re.match(r"\S", lines[at - 1]) and not re.match(r"enum\s*\{", lines[at - 1]):
        return None
    while at > 0 and not re.match(r"enum\s*\{", lines[at - 1]):
        at -= 1
    last = at
    while not re.search(r"^\}|^enum.*\}", lines[last - 1]):
        last += 1
    return at, last


def join(found: Sequence[Unit]) -> str:
    return "\n".join(unit.text for unit in found)


def find(found: Sequence[Unit], name: str, where: object = "the file") -> int:
    """The index of the unit of that name."""
    kind, _, plain = name.rpartition(":")
    kind = WORDS.get(kind, kind)
    hits = [i for i, u in enumerate(found) if _named(u, kind, plain)]
    if len(hits) > 1 and not kind:
        hits = [i for i in hits if found[i].kind != "declaration"]
    if len(hits) > 1:
        choice = " or ".join(found[i].full_label for i in hits)
        raise UnitError(f"{name} is more than one thing in {where}: write {choice}")
    if not hits:
        raise UnitError(f"there is no {name} in {where}")
    return hits[0]


def knows(found: Sequence[Unit], name: str) -> bool:
    """Is there anything of that name?"""
    kind, _, plain = name.rpartition(":")
    return any(_named(u, WORDS.get(kind, kind), plain) for u in found)


def _named(unit: Unit, kind: str, name: str) -> bool:
    if unit.kind in ("top", "includes"):
        return not kind and name == unit.kind
    if unit.kind == "enum":
        return kind in ("", "constant") and name in unit.members
    if kind:
        return unit.kind == kind and unit.name == name
    return unit.kind in KINDS + ("declaration",) and unit.name == name


def index_of(found: Sequence[Unit], unit: Unit) -> Optional[int]:
    return next((i for i, u in enumerate(found) if u.same(unit)), None)


def label(unit: Unit, *files: Sequence[Unit]) -> str:
    """How to name the unit so that it is clear in all of these files."""
    twins = [u for file in files for u in file if u.kind in KINDS and u.name == unit.name and u.kind != unit.kind]
    return unit.full_label if twins else unit.label
