"""Edits: a function that changes, shown by its changed lines, in the form of a diff.

    @@ server.c: main @@             which file, which item; not compared with anything but the info string
     if (fd < 0) {                   a line that stays: it says where we are
         // ...                      lines that stay and are not shown; `@@` alone does the same
    -    return 1;                   a line that goes
    +    die("socket");              a line that comes
"""
from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Sequence, Tuple

ELISION = re.compile(r"^\s*(//|#) \.\.\.$")
TRIVIAL = re.compile(r"[\s{}();]*$")  # says nothing about where it is
CONTEXT, MOST_CONTEXT = 1, 8  # lines that `diff` shows around a change; more where these are not enough


class EditError(ValueError):
    """An edit that cannot be read or applied; `line` is that of the block, from 1."""

    def __init__(self, line: int, why: str):
        super().__init__(why)
        self.line = line


@dataclass
class Hunk:
    """Lines of an edit with none left out between them."""

    line: int
    marks: str = ""
    lines: List[str] = field(default_factory=list)

    @property
    def old(self) -> List[str]:
        return [line for mark, line in zip(self.marks, self.lines) if mark != "+"]

    @property
    def new(self) -> List[str]:
        return [line for mark, line in zip(self.marks, self.lines) if mark != "-"]

    @property
    def changes(self) -> bool:
        return self.marks.strip() != ""


def hunks(code: str) -> List[Hunk]:
    found: List[Hunk] = []
    cut = True
    for number, line in enumerate(code.splitlines(), 1):
        if line.startswith("@@") or ELISION.match(line):
            cut = True
            continue
        mark, text = line[:1] or " ", line[1:]
        if mark not in " +-":
            raise EditError(number, f"begins with none of blank, - and +: {line}")
        if ELISION.match(text):
            raise EditError(number, "`// ...` stands for lines that stay, so it has no - or + in front")
        if cut:
            found.append(Hunk(number))
            cut = False
        found[-1].marks += mark
        found[-1].lines.append(text)
    if not any(hunk.changes for hunk in found):
        raise EditError(1, "changes nothing: no line begins with - or +")
    for hunk in found:
        if not hunk.old:
            raise EditError(
                hunk.line, "only new lines: show one that is there above or below them, with a blank in front"
            )
    return found


def spots(old: Sequence[str], lines: Sequence[str], at: int) -> List[int]:
    return [i for i in range(at, len(lines) - len(old) + 1) if list(lines[i : i + len(old)]) == list(old)]


def nearest(old: Sequence[str], lines: Sequence[str], at: int) -> str:
    """What stands where the lines of a hunk fit best."""
    if at >= len(lines):
        return "    nothing is left behind the lines above"
    best = max(range(at, len(lines)), key=lambda i: sum(a == b for a, b in zip(old, lines[i : i + len(old)])))
    there = lines[best : best + len(old)]
    if not any(a == b for a, b in zip(old, there)):
        close = difflib.get_close_matches(old[0], list(lines[at:]), 1, 0.4)
        return f"    the line most like the first: {close[0].strip()}" if close else "    no line of it is there"
    return "\n".join("    " + d for d in difflib.ndiff(list(old), list(there)) if d[0] in "+-")


def placed(code: str, lines: Sequence[str]) -> Iterator[Tuple[int, Hunk]]:
    """The hunks of an edit, each with the place of its first line among the lines that it changes, from 0."""
    at, found = 0, hunks(code)
    for hunk in found:
        hits = spots(hunk.old, lines, at)
        if not hits:
            why = (
                "these lines are not there as it is now" if not at else "these lines are not there, behind those above"
            )
            raise EditError(hunk.line, f"{why} (-: the block, +: what is there):\n{nearest(hunk.old, lines, at)}")
        if len(hits) > 1 and hunk.changes:
            raise EditError(
                hunk.line, f"these lines are there {len(hits)} times: show one more that stays, above or below"
            )
        hit = hits[-1] if hunk is found[-1] else hits[0]
        yield hit, hunk
        at = hit + len(hunk.old)


def patched(code: str, text: str) -> str:
    """The text after the edit."""
    lines, out, at = text.splitlines(), [], 0
    for hit, hunk in placed(code, lines):
        out += lines[at:hit] + hunk.new
        at = hit + len(hunk.old)
    return "".join(line + "\n" for line in out + lines[at:])


def diff(old: str, new: str, heading: str) -> str:
    """The edit that leads from one text to the other: each change with as little around it as tells where it is."""
    a, b = old.splitlines(), new.splitlines()
    for context in range(CONTEXT, MOST_CONTEXT + 1):
        code = f"@@ {heading} @@\n" + "".join(line.rstrip() + "\n" for line in _regions(a, b, context))
        try:
            if patched(code, old) == new:
                return code
        except EditError:
            continue
    body = [line for line in difflib.ndiff(a, b) if line[0] != "?"]
    return f"@@ {heading} @@\n" + "".join((line[0] + line[2:]).rstrip() + "\n" for line in body)


def _regions(a: List[str], b: List[str], context: int) -> List[str]:
    out: List[str] = []
    shown = 0  # lines of a that are done
    changes = [o for o in difflib.SequenceMatcher(None, a, b, False).get_opcodes() if o[0] != "equal"]
    for number, (_, i1, i2, j1, j2) in enumerate(changes):
        begin = _reach(a, i1, -1, context, shown)
        if number:
            if begin > shown + 1:
                out.append(" " + (re.match(r"\s*", a[begin] if begin < len(a) else a[i1 - 1]) or [""])[0] + "// ...")
            else:
                begin = shown
        out += [" " + line for line in a[begin:i1]]
        out += ["-" + line for line in a[i1:i2]] + ["+" + line for line in b[j1:j2]]
        limit = changes[number + 1][1] if number + 1 < len(changes) else len(a)
        shown = _reach(a, i2, 1, context, limit)
        out += [" " + line for line in a[i2:shown]]
    return out


def _reach(lines: List[str], at: int, step: int, context: int, limit: int) -> int:
    """How far the lines around a change go: as many as wanted, above it up to one that is not empty or a brace."""
    count = 0
    while at != limit:
        line = lines[at - 1 if step < 0 else at]
        at += step
        count += 1
        if count >= context and (step > 0 or not TRIVIAL.match(line)):
            break
    return at


def shares(code: str) -> Tuple[int, int]:
    """How many lines an edit shows that stay, and how many that change; blank lines and braces count for nothing."""
    marked = [(m, t) for hunk in hunks(code) for m, t in zip(hunk.marks, hunk.lines) if not TRIVIAL.match(t)]
    stay = sum(1 for mark, _ in marked if mark == " ")
    return stay, len(marked) - stay


def heading(code: str) -> Optional[str]:
    """What the line `@@ .. @@` says that an edit begins with."""
    found = re.match(r"@@ ?(.*?) ?(@@)?$", code.split("\n", 1)[0])
    return found.group(1) if found else None
