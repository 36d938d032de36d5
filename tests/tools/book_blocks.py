"""The Markdown of the book: fenced blocks, prose, links, headings."""
from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Tuple

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
LABEL = re.compile(r"@@ (.+) @@$")  # the first line of a step that adds: where its code goes
NUMBERED = re.compile(r"(\d\d)([b-e]?)-(.*)\.md$")  # a page of a chapter; b: its second, and so on
FOLD = {"<details>": True, "</details>": False}


class BookError(ValueError):
    """A text that is not written as the book is."""


def shown(path: Path) -> str:
    """A page's name, with its folder where several are called that."""
    return f"{path.parent.name}/{path.name}" if path.name == "README.md" else path.name


@dataclass
class Block:
    """One fenced block; its code is in the lines line + 1 to line + count of the file (from 1)."""

    path: Path
    line: int
    indent: int
    info: str
    code: str  # without the indent of the fence; ends with a newline unless empty
    count: int
    words: List[str] = field(default_factory=list)
    label: str = ""  # the first line of a step that adds, `@@ server.c: after main @@`, which is no code
    folded: bool = False  # inside <details>: a step there is taken, not typed

    @property
    def where(self) -> str:
        return f"{shown(self.path)}:{self.line}"

    @property
    def lang(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def kind(self) -> str:
        """listing, supplied, step, output, captured, sketch, drawing, console, sh, hex; "" for none of these."""
        if self.lang in ("console", "sh", "hex"):
            return self.lang
        known = ("listing", "supplied", "step", "output", "captured", "sketch", "drawing")
        return self.words[1] if len(self.words) > 1 and self.words[1] in known else ""

    @property
    def copies(self) -> bool:
        """Is it a command that copies files which the reader does not type?"""
        return self.words[:2] == ["sh", "supplied"]

    @property
    def takes(self) -> bool:
        """Is it a `make take-NN-name`, which makes edits that the reader does not type?"""
        return self.words[:2] == ["sh", "take"]


@dataclass
class Page:
    path: Path
    lines: List[str]
    blocks: List[Block]
    prose: List[Tuple[int, str]]  # line number, line: all that is in no block
    earlier: Optional[Page] = None  # the page of the chapter that it goes on from, if it is not the first
    goes_on: bool = False  # there is another page of this chapter behind it

    @property
    def chapter(self) -> str:
        """"07" for 07-basic-server.md and 07b-more.md, "" where the name begins with no number."""
        return NUMBERED.sub(r"\1", self.path.name) if NUMBERED.match(self.path.name) else ""

    @property
    def slug(self) -> str:
        """"basic-server" for 07-basic-server.md."""
        return NUMBERED.sub(r"\3", self.path.name)


def read(path: Path) -> Page:
    lines = path.read_text(encoding="utf-8").split("\n")
    page = Page(path, lines, [], [])
    name = NUMBERED.match(path.name)
    if name:
        letters = ["", *"bcdef"]
        at = letters.index(name[2])
        page.earlier = read(next(path.parent.glob(f"{name[1]}{letters[at - 1]}-*.md"))) if at else None
        page.goes_on = any(path.parent.glob(f"{name[1]}{letters[at + 1]}-*.md"))
    at, folded = 0, False
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if not opening or (opening.group(2)[0] == "`" and "`" in opening.group(3)):
            page.prose.append((at + 1, lines[at]))
            folded = FOLD.get(lines[at].strip(), folded)
            at += 1
            continue
        indent, fence, info = len(opening.group(1)), opening.group(2), opening.group(3).strip()
        closing = re.compile(r"^ *" + re.escape(fence[0]) + "{%d,}\\s*$" % len(fence))
        end = at + 1
        while end < len(lines) and not closing.match(lines[end]):
            end += 1
        if end == len(lines):
            raise BookError(f"{path.name}:{at + 1}: this block is never closed")
        code = [line[indent:] if not line[:indent].strip() else line for line in lines[at + 1 : end]]
        try:
            words = shlex.split(info)
        except ValueError as problem:
            raise BookError(f"{path.name}:{at + 1}: the info string: {problem}") from None
        label = code[0] if words[:2] == ["c", "step"] and code and LABEL.match(code[0]) else ""
        text = "".join(line + "\n" for line in code[bool(label) :])
        page.blocks.append(Block(path, at + 1, indent, info, text, len(code), words, label, folded))
        at = end + 1
    return page


def paragraph_below(page: Page, block: Block) -> str:
    """The text right below a block, in one line; "" where something else is there."""
    prose, at, found = dict(page.prose), block.line + block.count + 2, []
    while prose.get(at) == "":
        at += 1
    while re.match(r"[^\s#<>|]", prose.get(at, "")):
        found.append(prose[at].strip())
        at += 1
    return " ".join(found)


def paths(folder: Path) -> List[Path]:
    """The Markdown files of the book, and of the folders in it."""
    return [*sorted(folder.glob("*.md")), *sorted(folder.glob("*/*.md"))]


def pages(folder: Path) -> List[Page]:
    return [read(path) for path in paths(folder)]


def rewrite(page: Page, new: Dict[int, str]) -> None:
    """Writes the file with other code in some blocks: line of the block -> its code."""
    lines = list(page.lines)
    for block in sorted(page.blocks, key=lambda b: -b.line):
        if block.line in new:
            pad = " " * block.indent
            label = [block.label] if block.label else []
            code = [pad + line if line else "" for line in [*label, *new[block.line].splitlines()]]
            lines[block.line : block.line + block.count] = code
    page.path.write_text("\n".join(lines), encoding="utf-8")


# ---- prose ----


def bare(line: str) -> str:
    """A line of prose without its `code`."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


def anchors(page: Page) -> List[str]:
    """What links may name after #, as code hosts make it from the headings."""
    found: List[str] = []
    for _, line in page.prose:
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            text = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            times = sum(1 for a in found if re.fullmatch(re.escape(text) + r"(-\d+)?", a))
            found.append(f"{text}-{times}" if text in found else text)
    return found


WORK = ("## Exercises", "## Check yourself")  # to do, not to read: they do not make a chapter longer
ASIDE = "> **Aside:** "


def voices(page: Page) -> Tuple[List[Tuple[int, str]], Dict[int, str]]:
    """The main line, without exercises and questions, line by line; and the asides, each at the number of its first."""
    main: List[Tuple[int, str]] = []
    asides: Dict[int, str] = {}
    work, aside = False, 0
    for number, line in page.prose:
        if line.startswith("## "):
            work = line.strip() in WORK
        aside = number if line.startswith(ASIDE) else aside if line.startswith(">") else 0
        if aside:
            asides[aside] = f"{asides.get(aside, '')} {line.removeprefix(ASIDE).lstrip('>')}"
        elif not work:
            main.append((number, line))
    return main, asides


def count(text: str) -> int:
    """How many words: no links' targets, no rules of tables."""
    return len(re.findall(r"[^\s|]*\w[^\s|]*", re.sub(r"\]\([^)]*\)", "]", text)))


def words(page: Page) -> int:
    """Words of the main line: no code blocks, no asides."""
    return count("\n".join(line for _, line in voices(page)[0]))


LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
RULE = re.compile(r"\|(\s*:?-+:?\s*\|)+")
HTML = re.compile(r"<(?!https?://)(?!/?(?:details|summary)>)[a-zA-Z/!][^<>]*>")


def prose_problems(page: Page) -> List[str]:
    """Raw HTML, rows of a table without its head, and links, anchors and pictures that are not there."""
    found: List[str] = []
    name = shown(page.path)
    rows = {number: line.strip() for number, line in page.prose if line.strip().startswith("|")}
    for number, row in rows.items():
        if number - 1 not in rows and not RULE.fullmatch(rows.get(number + 1, "")):
            found.append(f"{name}:{number}: not a table: the line behind its first row has to be | --- |: {row[:40]}")
    prose = [(number, bare(line)) for number, line in page.prose]
    for number, line in prose:
        for hit in HTML.findall(line):
            found.append(f"{name}:{number}: raw HTML: {hit} (only <details> and <summary> are allowed)")
    text = "\n".join(line for _, line in prose)
    numbers = [number for number, line in prose]
    for hit in LINK.finditer(text):
        picture, label, target = hit.groups()
        number = numbers[text.count("\n", 0, hit.start())]
        found += [f"{name}:{number}: {p}" for p in _link_problems(page, bool(picture), label, target)]
    defined = {m.group(1).lower() for m in re.finditer(r"^\[([^\]]+)\]:\s*\S+", text, re.M)}
    for hit in re.finditer(r"^\[([^\]]+)\]:\s*(\S+)", text, re.M):
        number = numbers[text.count("\n", 0, hit.start())]
        found += [f"{name}:{number}: {p}" for p in _link_problems(page, False, hit.group(1), hit.group(2))]
    for hit in re.finditer(r"\[([^\[\]]+)\]\[([^\[\]]*)\]", text):
        if (hit.group(2) or hit.group(1)).lower() not in defined:
            number = numbers[text.count("\n", 0, hit.start())]
            found.append(f"{name}:{number}: nothing defines the link [{hit.group(2) or hit.group(1)}]")
    return found


def _link_problems(page: Page, picture: bool, label: str, target: str) -> List[str]:
    if re.match(r"[a-z]+:", target):
        return []
    file, _, anchor = target.partition("#")
    path = (page.path.parent / file).resolve() if file else page.path
    if picture and not label.strip():
        return [f"the picture {target} has no alternative text"]
    if target.startswith("/") or not path.exists():
        return [f"there is no {'picture' if picture else 'file'} {target}"]
    if picture and path.suffix != ".svg":
        return [f"pictures are SVG, {target} is not"]
    if anchor and path.suffix == ".md" and anchor not in anchors(page if not file else read(path)):
        return [f"{file or page.path.name} has no heading #{anchor}"]
    return []
