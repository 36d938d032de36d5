"""A C file as a list of units, with one blank line between any two.

    for unit in sources.read(path).units:
        unit.kind, unit.name, unit.text, unit.first, unit.last

Kinds of units:
    function     a definition, `main` too
    type         struct, union, enum with a tag, typedef
    table        an initialised array
    constant     a `#define`, a const that is no array
    variable     anything else with storage; the members of `static struct { .. } g_data;` are its text
    declaration  a prototype, `struct conn;`, an extern
    assert       a static_assert, named by its condition
    directive    any other line that begins with #
    banner       the heading of a section, `// ---- requests: one sentence ----`, named by its title
    comment      any other comment that stands on its own, named by its first line
    top          the comment that opens the file, `// server.c, ..`, with `#pragma once` below it
    includes     all #include lines, the first to the last
    group        what stands line by line: the constants of an enum without a tag, macros, prototypes with a heading

The last three have `members`, units that have no blank line between them: of an enum its constants and the comments
that stand alone in it, of `top` a `file` and a directive, of `includes` an `include` each, named `base.h`. `items` of a
source are its units with the members in place of those that have any.

The text of a unit is exact and begins with the comment directly above it; `first` and `last` are line numbers from 1,
`code` is the line where the comment ends.

This is no C parser. It relies on how we format: a top-level construct starts in column 0, what is inside it does not,
and it ends with `}`, `};` or `;`. What it cannot read raises Unreadable, which names file, line and reason.
"""
from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

OPEN, CLOSE = "({[", ")}]"
DECLARED = ("function", "type", "table", "constant", "variable")
SLUG = {"banner": 0, "comment": 4, "assert": 6, "directive": 6}  # kinds named by words, and by how many of them
WORDS = {"struct": "type", "union": "type", "enum": "type"}
ATTRIBUTE = re.compile(r"\b__attribute__\s*\(\(.*?\)\)(?=\s|;|$)|\b_Noreturn\b", re.S)
BANNER = re.compile(r"^\s*(//+|/\*+)\s*([-=~*#]{3,}|.*?\s[-=~*#]{4,}\s*(\*/)?\s*$)")
OPENING = re.compile(r"// [\w.]+\.[ch](:|, chapter )")
CHECK = re.compile(r"_check(_\w+)?$")
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^\\\n"])*"|'(?:\\.|[^\\\n'])*'|/\*|["']""", re.S)


class UnitError(ValueError):
    """Code that cannot be taken apart, or a name that means nothing in it."""


class Unreadable(UnitError):
    """Source that is not laid out as ours is."""

    def __init__(self, path: object, line: int, why: str):
        super().__init__(f"{path}:{line}: {why}")


@dataclass(frozen=True)
class Unit:
    kind: str
    name: str
    text: str
    first: int = field(compare=False, default=0)
    last: int = field(compare=False, default=0)
    code: int = field(compare=False, default=0)
    members: Tuple["Unit", ...] = field(compare=False, default=())

    @property
    def key(self) -> Tuple[str, str]:
        return self.kind, self.name

    @property
    def comment(self) -> str:
        """The comment block above it, "" where there is none."""
        return "".join(self.text.splitlines(True)[: self.code - self.first])

    @property
    def signature(self) -> str:
        """The first line that is no comment, of a banner or comment the first."""
        lines = self.text.splitlines()
        return next((line for line in lines if not line.startswith(("//", "/*", " *"))), lines[0])

    @property
    def slug(self) -> str:
        """The name in one word: of a banner `the-poll-set`."""
        if self.kind not in SLUG:
            return self.name
        return "-".join(re.findall(r"[\w']+", self.name)[: SLUG[self.kind] or None])

    @property
    def is_prototype(self) -> bool:
        return self.kind == "declaration" or any(member.is_prototype for member in self.members)

    @property
    def label(self) -> str:
        """The name as the book says it, where no other unit has the same name."""
        if self.is_prototype:
            return f"declaration:{self.name}"
        return self.slug if self.kind in DECLARED + ("top", "includes", "group") else f"{self.kind}:{self.slug}"

    @property
    def full_label(self) -> str:
        return f"{self.kind}:{self.name}" if self.kind in DECLARED else self.label

    def same(self, other: "Unit") -> bool:
        """Is it the same thing, perhaps with another text?"""
        if self.kind != other.kind or self.kind != "group":
            return self.key == other.key
        return bool({m.key for m in self.members} & {m.key for m in other.members})

    def is_called(self, name: str) -> bool:
        """Is it, or one of its members, what `name` or `kind:name` says?"""
        kind, _, plain = name.rpartition(":")
        if self.kind == "group":
            return any(m.name == plain and kind in ("", m.kind) for m in self.members)
        if kind:
            return self.kind == WORDS.get(kind, kind) and self.slug == plain
        return self.name == plain and self.kind in DECLARED + ("declaration", "top", "includes")


@dataclass(frozen=True)
class Source:
    path: str
    text: str
    bare: str  # the text with comments as blanks and the insides of strings as _
    units: List[Unit]

    @property
    def items(self) -> List[Unit]:
        return [item for unit in self.units for item in unit.members or (unit,)]

    def of_kind(self, *kinds: str) -> List[Unit]:
        return [item for item in self.items if item.kind in kinds]

    def code_lines(self, checks: bool = True, braces: bool = True) -> int:
        """Lines that hold code; without the *_check() functions where `checks` is False, without those
        that hold nothing but a brace where `braces` is False."""
        lines = self.bare.splitlines()
        if not checks:
            for item in self.of_kind("function"):
                if CHECK.search(item.name):
                    lines[item.first - 1 : item.last] = [""] * (item.last - item.first + 1)
        empty = ("",) if braces else ("", "{", "}", "};")
        return sum(1 for line in lines if line.strip() not in empty)


# ---- units of a file, found by name ----


def read(path: Path, shown: object = None) -> Source:
    return parse(path.read_text(encoding="utf-8"), shown or path)


@functools.lru_cache(maxsize=512)
def parse(text: str, path: object = "source") -> Source:
    return Source(str(path), text, strip(text, path), _Parser(text, path).units)


def units(text: str, path: object = "code") -> List[Unit]:
    """The units of a whole file, or of the code of a block; UnitError where more than a blank line is between two."""
    found = parse(text, path).units
    for number, (line, wanted) in enumerate(zip_longest(text.split("\n"), join(found).split("\n"))):
        if line != wanted:
            raise Unreadable(path, number + 1, "one blank line between two items, please, and none above or below all")
    return found


def join(found: Sequence[Unit]) -> str:
    return "\n".join(unit.text for unit in found)


def find(found: Sequence[Unit], name: str, where: object = "the file") -> int:
    """The index of the unit of that name; a prototype gives way to what it declares."""
    hits = [i for i, unit in enumerate(found) if unit.is_called(name)]
    if len(hits) > 1 and ":" not in name:
        hits = [i for i in hits if not found[i].is_prototype]
    if len(hits) > 1:
        choice = " or ".join(found[i].full_label for i in hits)
        raise UnitError(f"{name} is more than one thing in {where}: write {choice}")
    if not hits:
        raise UnitError(f"there is no {name} in {where}")
    return hits[0]


def knows(found: Sequence[Unit], name: str) -> bool:
    """Is there anything of that name?"""
    return any(unit.is_called(name) for unit in found)


def index_of(found: Sequence[Unit], unit: Unit) -> Optional[int]:
    return next((i for i, each in enumerate(found) if each.same(unit)), None)


def partners(was: Sequence[Unit], now: Sequence[Unit]) -> List[Optional[int]]:
    """For each unit of `now` its place in `was`, None where it is new. Of a list that is cut in two, the part that has
    more of it goes on."""
    pairs = [(-alike(old, new), i, j) for j, new in enumerate(now) for i, old in enumerate(was) if old.same(new)]
    found: Dict[int, int] = {}
    for _, i, j in sorted(pairs):
        if j not in found and i not in found.values():
            found[j] = i
    return [found.get(j) for j in range(len(now))]


def alike(one: Unit, other: Unit) -> int:
    """How many members two lists share, or a list and what is by itself."""
    return len({each.key for each in one.members or [one]} & {each.key for each in other.members or [other]})


def staying(count: int, olds: Sequence[Optional[int]]) -> Set[int]:
    """Those of so many units, by their places, that are in the same order in `olds`."""
    blocks = difflib.SequenceMatcher(None, range(count), olds, False).get_matching_blocks()
    return {place for at, _, size in blocks for place in range(at, at + size)}


def label(unit: Unit, *files: Sequence[Unit]) -> str:
    """How to name the unit so that it is clear in all of these files."""
    twins = [u for file in files for u in file if u.kind in DECLARED and u.name == unit.name and u.kind != unit.kind]
    return unit.full_label if twins else unit.label


# ---- text ----


def strip(text: str, path: object = "source") -> str:
    """The text, character for character, with comments as blanks and strings as "____"."""

    def bare(found: "re.Match[str]") -> str:
        token = found[0]
        if token[0] == "/" and token != "/*":
            return re.sub(r"[^\n]", " ", token)
        if len(token) < 2 or token == "/*":
            line = text.count("\n", 0, found.start()) + 1
            what = "this comment" if token == "/*" else f"this {token}"
            raise Unreadable(path, line, f"{what} is never closed")
        return token[0] + "_" * (len(token) - 2) + token[0]

    return TOKEN.sub(bare, text)


def squeeze(text: str) -> str:
    return " ".join(text.split())


def without_static(text: str) -> str:
    """The text of a unit as it is where other files may use it."""
    return re.sub(r"^static (?!inline)", "", text, flags=re.M)


def split_commas(text: str) -> List[str]:
    """Splits at the commas that are in no bracket."""
    parts, depth = [""], 0
    for ch in text:
        depth += (ch in OPEN) - (ch in CLOSE)
        if ch == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += ch
    return parts


# ---- parsing ----


class _Parser:
    """Lines are counted from 0 here."""

    def __init__(self, text: str, path: object):
        self.path = path
        self.raw = text.splitlines(True)
        self.bare = [line.rstrip() for line in strip(text, path).splitlines()]
        self.seen: Dict[Tuple[str, str], int] = {}
        self.units: List[Unit] = []
        at = 0
        while at < len(self.raw):
            if self.raw[at].strip():
                first, items = at, list(self.paragraph(at))
                at = items[-1].last
                self.add(first, items)
            at += 1
        self.join_includes()

    def fail(self, index: int, why: str) -> Unreadable:
        return Unreadable(self.path, index + 1, why)

    def unit(self, kind: str, name: str, first: int, last: int, code: int, text: str = "") -> Unit:
        before = self.seen.setdefault((kind, name), first)
        if before != first and kind not in ("comment", "directive"):
            raise self.fail(first, f"{kind} {name} stands in line {before + 1} already")
        return Unit(kind, name, text or "".join(self.raw[first : last + 1]), first + 1, last + 1, code + 1)

    def whole(self, kind: str, name: str, members: Sequence[Unit], first: int, last: int) -> Unit:
        text = "".join(self.raw[first - 1 : last])
        return Unit(kind, name, text, first, last, members[0].code, tuple(members))

    def add(self, first: int, items: List[Unit]) -> None:
        """Adds what stands without a blank line in between as one unit."""
        kinds = {item.kind for item in items}
        if kinds == {"declaration"} and items[0].comment:  # it stays where it is when another prototype comes first
            at, last = items[0].code - 1, items[0].last
            bare = Unit(*items[0].key, "".join(self.raw[at:last]), at + 1, last, at + 1)
            items[:1] = [self.remark(first, at - 1), bare]
        if "include" in kinds:
            self.units.append(self.whole("includes", "includes", items, first + 1, items[-1].last))
        elif "file" in kinds:
            self.units.append(self.whole("top", "top", items, 1, items[-1].last))
        elif len(items) > 1 or items[0].kind == "enum":
            members = [member for item in items for member in item.members or (item,)]
            name = next((m.name for m in members if m.kind != "comment"), members[0].name)
            self.units.append(self.whole("group", name, members, first + 1, items[-1].last))
        else:
            self.units += items

    def join_includes(self) -> None:
        """Makes one unit of all includes, if nothing but macros and comments stands between them."""
        spots = [i for i, unit in enumerate(self.units) if unit.kind == "includes"]
        run = self.units[spots[0] : spots[-1] + 1] if spots else []
        if len(run) > 1 and {u.kind for u in run} <= {"includes", "directive", "constant", "comment", "group"}:
            members = [item for unit in run for item in unit.members or (unit,)]
            whole = self.whole("includes", "includes", members, run[0].first, run[-1].last)
            self.units[spots[0] : spots[-1] + 1] = [whole]

    def paragraph(self, at: int) -> Iterator[Unit]:
        """The items from a line up to a blank one between two of them."""
        comment: Optional[int] = None  # where the one directly above begins
        last: Optional[Unit] = None
        while at < len(self.raw) and self.raw[at].strip():
            if self.bare[at]:
                if last:
                    yield last
                last = self.item(at, comment)
                comment, at = None, last.last
            else:
                end = self.comment_end(at)
                if last and comment is None and self.raw[at].strip() == "// clang-format on":
                    text = last.text + self.raw[at]
                    last = Unit(last.kind, last.name, text, last.first, end + 1, last.code, last.members)
                elif comment is None:
                    comment = at
                at = end + 1
                if self.opens(comment) and (at == len(self.raw) or not self.raw[at].startswith("//")):
                    comment, last = None, self.unit("file", "", 0, end, 0)
        if last:
            yield last
        if comment is not None:
            yield self.remark(comment, at - 1)

    def opens(self, comment: Optional[int]) -> bool:
        return comment == 0 and bool(OPENING.match(self.raw[0]))

    def comment_end(self, at: int) -> int:
        """The last line of the comment that begins on line `at`."""
        if self.raw[at][:1].isspace():
            raise self.fail(at, "a comment between items belongs in column 0")
        if self.raw[at].startswith("/*"):
            while "*/" not in self.raw[at]:
                at += 1
        return at

    def remark(self, first: int, last: int) -> Unit:
        """A comment that stands on its own."""
        title, *more = (squeeze(line.strip(" \t\n/*-=~#")) for line in self.raw[first : last + 1])
        if not BANNER.match(self.raw[first]):
            return self.unit("comment", title, first, last, first)
        title = title or "".join(more[:1])  # there is a rule above it
        return self.unit("banner", title.partition(":")[0], first, last, first)

    def item(self, at: int, comment: Optional[int]) -> Unit:
        """The item whose code begins on line `at`."""
        if self.raw[at][:1].isspace():
            raise self.fail(at, "a top-level construct starts in column 0; is a brace missing above?")
        if comment is not None and BANNER.match(self.raw[comment]):
            raise self.fail(comment, "a banner needs a blank line below it")
        first = at if comment is None else comment
        if self.raw[at].startswith("#"):
            last = at
            while self.raw[last].endswith("\\\n"):
                last += 1
            include = re.match(r'#\s*include\s+["<](.+?)[">]', self.raw[at])
            define = re.match(r"#\s*define\s+(\w+)", self.raw[at])
            kind = "include" if include else "constant" if define else "directive"
            named = include or define
            return self.unit(kind, named[1] if named else squeeze(self.bare[at]), first, last, at)
        last = self.end_of_item(at)
        code = "\n".join(self.bare[at : last + 1])
        if re.match(r"enum\s*\{.*\}\s*;$", code, re.S):
            above = [self.remark(first, at - 1)] if first < at else []
            return self.whole("enum", "", above + self.constants(at, last), first + 1, last + 1)
        return self.unit(*self.classify(at, code), first, last, at)

    def end_of_item(self, at: int) -> int:
        depth, head = 0, ""
        for index in range(at, len(self.bare)):
            line = self.bare[index]
            if depth > 0 and line[:1] not in ("", " ", "\t", "}", "#") and not re.match(r"\w+:$", line):
                why = f"column 0 inside the item that begins in line {at + 1}; is a brace missing?"
                raise self.fail(index, why)
            for ch in line:
                depth += (ch in OPEN) - (ch in CLOSE)
                if depth < 0:
                    raise self.fail(index, f"this {ch} closes nothing")
                head += "" if "{" in head else ch
            head += "" if "{" in head else "\n"
            function = re.search(r"\)\s*\{$", ATTRIBUTE.sub(" ", head)) and "=" not in head
            if depth == 0 and (line.endswith(";") or line.endswith("}") and function):
                return index
        raise self.fail(at, f"this item never ends: {self.raw[at].strip()}")

    def classify(self, at: int, code: str) -> Tuple[str, str]:
        """Kind and name of an item, by its code without what is in braces."""
        code, left = ATTRIBUTE.sub(" ", code), 1
        while left:
            code, left = re.subn(r"\{[^{}]*\}", "\0", code)
        code = squeeze(code.replace("\0", "{}"))
        claim = re.fullmatch(r"(?:_S|s)tatic_assert ?\((.*)\);", code)
        if claim:
            return "assert", squeeze(split_commas(claim[1])[0])
        head, equals, _ = code.partition("=")
        head = head.rstrip("; ")
        call = re.match(r"[^({]*?(\w+) ?\((?!\*)", head)
        if call and re.search(r"\) ?\{\}$", head):
            return "function", call[1]
        if head.startswith("typedef "):
            signature = re.search(r"(\w+) ?\([^*][^()]*\)$", head)
            return "type", signature[1] if signature else self.declared(at, head.rpartition("}")[2])
        tagged = re.fullmatch(r"(?:struct|union|enum) (\w+)( ?\{\})?", head)
        if tagged and not equals:
            return "type" if tagged[2] else "declaration", tagged[1]
        if call and not equals and head.endswith(")") and head[: call.start(1)].strip():
            return "declaration", call[1]
        declarator = head.rpartition("}")[2]
        name = self.declared(at, declarator)
        if head.startswith("extern "):
            return "declaration", name
        if equals and "[" in declarator:
            return "table", name
        return "constant" if re.search(r"\bconst\b[^*\[]*$", declarator) else "variable", name

    def declared(self, at: int, declarator: str) -> str:
        """The one name that a declarator (the last words before = or ;) declares."""
        text = declarator.strip()
        if len(split_commas(text)) > 1:
            raise self.fail(at, "one variable a declaration, please")
        pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", text)
        plain = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", text)
        if not pointer and not plain or re.match(r"\w+\s*;", self.bare[at]):
            line = self.raw[at].strip()
            raise self.fail(at, f"neither function, type, table, constant nor variable: {line}")
        return (pointer or plain)[1]

    def constants(self, at: int, last: int) -> List[Unit]:
        """The members of an enum without a tag, and the comments that stand alone between them."""
        found: List[Unit] = []
        code = "\n".join(self.bare[at : last + 1])
        start = code.index("{") + 1
        above = at + 1  # the line from which comments belong to the next one
        for part in split_commas(code[start : code.rindex("}")]):
            first, end = (at + code.count("\n", 0, i) for i in (
                start + len(part) - len(part.lstrip()), start + len(part.rstrip())
            ))
            start += len(part) + 1
            if not part.strip():
                continue
            name = re.match(r"\s*([A-Za-z_]\w*)(?=\s*(=|$))", part)
            if not name:
                raise self.fail(first, f"not a constant: {part.strip()}")
            comment = above
            for blank in [i for i in range(above, first) if not self.raw[i].strip()]:
                found += [self.remark(comment, blank - 1)] if comment < blank else []
                comment = blank + 1
            text = part.strip()
            if "\n".join(self.bare[first : end + 1]).strip().rstrip(",") == text:
                line = self.raw[end]
                comma = self.bare[end].rfind(",") if self.bare[end].endswith(",") else len(line)
                text = "".join(self.raw[comment:end]) + line[:comma] + line[comma + 1 :]
            found.append(self.unit("constant", name[1], min(comment, first), end, first, text))
            above = end + 1
        return found
