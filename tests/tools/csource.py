"""Reads one of our C files as a list of top-level items.

    for item in csource.read(path).items:
        item.kind, item.name, item.text, item.first, item.last

Kinds:
    function     a definition, `main` too
    type         struct, union, enum with a tag, typedef
    table        an initialised array
    constant     a member of an enum without a tag (each one an item of its own), a `#define`,
                 a const that is no array
    variable     anything else with storage; the members of `static struct { .. } g_data;` are its text
    include      named by the file: `base.h`, `poll.h`
    declaration  a prototype, `struct conn;`, an extern
    assert       a static_assert, named by its condition
    directive    any other line that begins with #
    banner       the heading of a section, `// ---- requests: one sentence ----`, named by its title
                 (`requests`); it has a blank line below it
    comment      any other comment that stands on its own, named by its first line
    file         the comment on line 1

The text of an item is exact and begins with the comment block directly above it (no blank line
between); `first` and `last` are line numbers from 1, `code` is the line where the comment ends and
the item begins.

This is no C parser. It relies on how we format: a top-level construct starts in column 0, what is
inside it does not, and it ends with `}`, `};` or `;`. What it cannot read raises Unreadable, which
names file, line and reason; it never guesses.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

OPEN, CLOSE = "({[", ")}]"
ATTRIBUTE = re.compile(r"\b__attribute__\s*\(\(.*?\)\)(?=\s|;|$)|\b_Noreturn\b", re.S)
BANNER = re.compile(r"^\s*(//+|/\*+)\s*([-=~*#]{3,}|.*?\s[-=~*#]{4,}\s*(\*/)?\s*$)")
CHECK = re.compile(r"_check(_\w+)?$")


class Unreadable(ValueError):
    """Source that is not laid out as ours is."""

    def __init__(self, path: object, line: int, why: str):
        super().__init__(f"{path}:{line}: {why}")


@dataclass(frozen=True)
class Item:
    kind: str
    name: str
    text: str
    first: int
    last: int
    code: int

    @property
    def key(self) -> Tuple[str, str]:
        return self.kind, self.name

    @property
    def comment(self) -> str:
        """The comment block above the item, '' where there is none."""
        return "".join(self.text.splitlines(True)[: self.code - self.first])


@dataclass(frozen=True)
class Source:
    path: str
    text: str
    bare: str  # the text with comments as blanks and the insides of strings as _
    items: List[Item]

    def find(self, name: str, kind: Optional[str] = None) -> Item:
        """The item of that name; KeyError where there is none or more than one."""
        found = [i for i in self.items if i.name == name and kind in (None, i.kind)]
        if kind is None and len(found) > 1:  # a prototype gives way to what it declares
            found = [i for i in found if i.kind != "declaration"]
        if len(found) != 1:
            raise KeyError(f"{self.path}: {len(found) or 'no'} items are called {name}")
        return found[0]

    def of_kind(self, *kinds: str) -> List[Item]:
        return [i for i in self.items if i.kind in kinds]

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


def read(path: Path, shown: object = None) -> Source:
    return parse(path.read_text(encoding="utf-8"), shown or path)


def parse(text: str, path: object = "source") -> Source:
    return Source(str(path), text, strip(text, path), _Parser(text, path).items)


TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^\\\n"])*"|'(?:\\.|[^\\\n'])*'|/\*|["']""", re.S)


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


def words(line: str) -> str:
    """What a line of a comment says, without slashes, stars and rules."""
    return squeeze(line.strip(" \t\n/*-=~#"))


def squeeze(text: str) -> str:
    return " ".join(text.split())


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


class _Parser:
    def __init__(self, text: str, path: object):
        self.path = path
        self.raw = text.splitlines(True)
        self.bare = [line.rstrip() for line in strip(text, path).splitlines()]
        self.items: List[Item] = []
        self.seen: dict = {}
        self.parse()

    def fail(self, index: int, why: str) -> Unreadable:
        return Unreadable(self.path, index + 1, why)

    def parse(self) -> None:
        at, comment = 0, None  # `comment`: where the block directly above `at` begins
        while at < len(self.raw):
            if not self.raw[at].strip():
                if comment is not None:
                    self.add_comment(comment, at - 1)
                comment, at = None, at + 1
            elif not self.bare[at]:
                end = self.comment_end(at)
                if self.raw[at].strip() == "// clang-format on" and self.touches(at):
                    self.extend(end)
                elif comment is None:
                    comment = at
                at = end + 1
            else:
                at = self.item(at, comment) + 1
                comment = None
        if comment is not None:
            self.add_comment(comment, len(self.raw) - 1)

    def comment_end(self, at: int) -> int:
        """The last line of the comment that begins on line `at`."""
        if self.raw[at][:1].isspace():
            raise self.fail(at, "a comment between items belongs in column 0")
        if self.raw[at].startswith("/*"):
            while "*/" not in self.raw[at]:
                at += 1
        return at

    def touches(self, at: int) -> bool:
        return bool(self.items) and self.items[-1].last == at

    def extend(self, last: int) -> None:
        item = self.items.pop()
        text = "".join(self.raw[item.first - 1 : last + 1])
        self.items.append(Item(item.kind, item.name, text, item.first, last + 1, item.code))

    def add(self, kind: str, name: str, first: int, last: int, code: int, text: str = "") -> None:
        before = self.seen.setdefault((kind, name), first)
        if before != first and kind not in ("comment", "directive"):
            raise self.fail(first, f"{kind} {name} stands in line {before + 1} already")
        text = text or "".join(self.raw[first : last + 1])
        self.items.append(Item(kind, name, text, first + 1, last + 1, code + 1))

    def add_comment(self, first: int, last: int) -> None:
        if first == 0:
            return self.add("file", "", first, last, first)
        banner = BANNER.match(self.raw[first])
        line = words(self.raw[first])
        if banner and not line and first < last:  # a rule above the title
            line = words(self.raw[first + 1])
        if banner:
            line = line.partition(":")[0]
        self.add("banner" if banner else "comment", line, first, last, first)

    def item(self, at: int, comment: Optional[int]) -> int:
        """Adds the item that begins on line `at`; returns its last line."""
        if self.raw[at][:1].isspace():
            raise self.fail(at, "a top-level construct starts in column 0; is a brace missing above?")
        if comment == 0:
            self.add_comment(0, at - 1)
            comment = None
        if comment is not None and BANNER.match(self.raw[comment]):
            raise self.fail(comment, "a banner needs a blank line below it")
        first = at if comment is None else comment
        if self.raw[at].startswith("#"):
            return self.directive(at, first)
        last = self.end_of_item(at)
        code = ATTRIBUTE.sub(" ", "\n".join(self.bare[at : last + 1]))
        head, brace, rest = code.partition("{")
        tail = rest.rpartition("}")[2]
        if re.match(r"enum\s*$", head) and tail.strip() == ";":
            if first < at:
                self.add_comment(first, at - 1)
            self.members(at, last)
        else:
            kind, name = self.classify(at, code, head, brace, tail)
            self.add(kind, name, first, last, at)
        return last

    def directive(self, at: int, first: int) -> int:
        last = at
        while self.raw[last].endswith("\\\n"):
            last += 1
        include = re.match(r'#\s*include\s+["<](.+?)[">]', self.raw[at])
        define = re.match(r"#\s*define\s+(\w+)", self.raw[at])
        if include:
            self.add("include", include.group(1), first, last, at)
        elif define:
            self.add("constant", define.group(1), first, last, at)
        else:
            self.add("directive", squeeze(self.bare[at]), first, last, at)
        return last

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

    def classify(self, at: int, code: str, head: str, brace: str, tail: str) -> Tuple[str, str]:
        claim = re.match(r"(?:_S|s)tatic_assert\s*\((.*)\)\s*;$", code, re.S)
        if claim:
            return "assert", squeeze(split_commas(claim.group(1))[0])
        declarator, equals, _ = self.before_equals(code)
        call = re.search(r"(\w+)\s*\(", head)
        if brace and not equals and call and head.rstrip().endswith(")"):
            return "function", call.group(1)
        if re.match(r"typedef\b", code):
            signature = re.search(r"(\w+)\s*\([^*][^()]*\)\s*;$", code)
            return "type", signature.group(1) if signature else self.declared(at, tail if brace else code)
        tag = re.match(r"(?:struct|union|enum)\s+(\w+)\s*$", head)
        if tag and brace and tail.strip() == ";":
            return "type", tag.group(1)
        forward = re.match(r"(?:struct|union|enum)\s+(\w+)\s*;$", code)
        if forward:
            return "declaration", forward.group(1)
        if not equals and not brace and call and re.search(r"\)\s*;$", code):
            if head[: call.start()].strip() and not re.match(r"\s*\*", head[call.end() :]):
                return "declaration", call.group(1)
        declarator = tail if brace and not equals else declarator.rpartition("}")[2]
        name = self.declared(at, declarator)
        if code.startswith("extern"):
            return "declaration", name
        if equals and "[" in declarator:
            return "table", name
        if re.search(r"\bconst\b[^*\[]*$", declarator):
            return "constant", name
        return "variable", name

    @staticmethod
    def before_equals(code: str) -> Tuple[str, str, str]:
        """The code before the first = that is in no bracket, `=`, and the rest."""
        depth = 0
        for index, ch in enumerate(code):
            depth += (ch in OPEN) - (ch in CLOSE)
            if ch == "=" and depth == 0:
                return code[:index], "=", code[index + 1 :]
        return code, "", ""

    def declared(self, at: int, declarator: str) -> str:
        """The one name that a declarator (the last words before = or ;) declares."""
        text = declarator.strip().rstrip(";").strip()
        if len(split_commas(text)) > 1:
            raise self.fail(at, "one variable a declaration, please")
        pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", text)
        plain = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", text)
        if not pointer and not plain or re.match(r"\w+\s*;", self.bare[at]):
            line = self.raw[at].strip()
            raise self.fail(at, f"neither function, type, table, constant nor variable: {line}")
        return (pointer or plain).group(1)

    def members(self, at: int, last: int) -> None:
        """The members of an enum without a tag, each as a constant."""
        comment: Optional[int] = None
        start, code = 0, ""
        for index in range(at, last + 1):
            line = self.bare[index]
            if index == at:
                line = line.partition("{")[2]
            if index == last:
                line = line.rpartition("}")[0]
            line = line.strip()
            if not line:
                if index in (at, last) or code:
                    continue
                if not self.raw[index].strip() and comment is not None:
                    self.add_comment(comment, index - 1)
                    comment = None
                elif self.raw[index].strip() and comment is None:
                    comment = index
                continue
            if not code:
                start = index
            code += " " + line
            rest = "".join(self.bare[index + 1 : last + 1]).partition("}")[0].strip()
            if not line.endswith(",") and rest and index < last:
                continue
            self.add_members(code, comment, start, index, at == last)
            comment, code = None, ""

    def add_members(self, code: str, comment: Optional[int], start: int, end: int, inline: bool) -> None:
        parts = [part.strip() for part in split_commas(code) if part.strip()]
        first = start if comment is None else comment
        for part in parts:
            name = re.match(r"[A-Za-z_]\w*(?=\s*(=|$))", part)
            if not name:
                raise self.fail(start, f"not a constant: {part}")
            text = part
            if len(parts) == 1 and not inline:  # the whole line, without the comma behind it
                comma = self.bare[end].rfind(",") if self.bare[end].endswith(",") else None
                line = self.raw[end]
                line = line if comma is None else line[:comma] + line[comma + 1 :]
                text = "".join(self.raw[first:end]) + line
            self.add("constant", name.group(), first, end, start, text)
