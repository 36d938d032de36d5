"""The one form of an edit of source files: hunks that name a function and a few of its lines.

    @@ server.c, do_get()             in that function; its comment belongs to it
         struct entry *ent =          lines that stay, that go, that come, as in a unified diff
    -    if (ent->type != T_STR) {
    +    if (!ent) {
         // ...                       lines that stay and are not shown
    -    out_str(out, ent);
    @@ hashtable.h, hmap              in that struct, enum, table or variable
    @@ src/reply.c                    anywhere in the file
    @@ server.c, after do_get()       what comes stands behind it, with a blank line between
    @@ server.c, before do_get()      the same in front of it
    @@ server.c, without do_get()     it goes, and the blank line above it
    @@ attack.py, new                 a file that comes, with all its lines
    @@ attack.py, gone                a file that goes

There are no line numbers. The lines that stay and go stand exactly once where the hunk says, behind those that it
shows above them. So an edit elsewhere does not disturb a change, and where its own place has changed it has a Problem
instead of being put somewhere else. Hunks are carried out one after another. In front of the first @@ a file may say
things about the change, `key: value`; a line that begins with two blanks goes on with the one before, # begins a
comment.
"""
from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

import sources
from layout import Problem

Tree = Dict[str, str]  # file -> text
PLACE = re.compile(r"@@ ([^\s,]+)(?:, (?:(new|gone)|(?:(after|before|without) )?(\w+(?:\(\))?)))?$")
ELISION = re.compile(r"\s*(//|#) \.\.\.$")
TRIVIAL = re.compile(r"[\s{}();]*$")  # says nothing about where it is
ITEMS = ("function", "type", "table", "variable")  # kinds of items in which a hunk can be said to be
MOST_CONTEXT = 8  # lines above and below a change


class EditError(Problem):
    """Lines that cannot be read, or that do not fit; `line` counts those of the hunk from 1."""

    def __init__(self, line: int, why: str):
        super().__init__(why)
        self.line = line


# ---- the lines of a hunk ----


@dataclass
class Piece:
    """Lines of a hunk with none left out between them, and their signs: blank, - or +."""

    line: int
    signs: str = ""
    lines: List[str] = field(default_factory=list)

    @property
    def old(self) -> List[str]:
        return [line for sign, line in zip(self.signs, self.lines) if sign != "+"]

    @property
    def new(self) -> List[str]:
        return [line for sign, line in zip(self.signs, self.lines) if sign != "-"]

    @property
    def changes(self) -> bool:
        return self.signs.strip() != ""


def pieces(body: str) -> List[Piece]:
    """The pieces between elisions; a line that begins with @@ parts them, too."""
    found: List[Piece] = []
    cut = True
    for number, line in enumerate(body.split("\n"), 1):
        sign, text = line[:1] or " ", line[1:]
        if line.startswith("@@") or ELISION.match(line):
            cut = True
        elif sign not in " +-":
            raise EditError(number, f"begins with none of blank, - and +: {line}")
        elif ELISION.match(text):
            raise EditError(number, "`// ...` stands for lines that stay, so it has no - or + in front")
        else:
            if cut:
                found.append(Piece(number))
                cut = False
            found[-1].signs += sign
            found[-1].lines.append(text)
    if not any(piece.changes for piece in found):
        raise EditError(1, "changes nothing: no line begins with - or +")
    for piece in found:
        if not piece.old:
            why = "only new lines: show one that is there above or below them, with a blank in front"
            raise EditError(piece.line, why)
    return found


def spots(old: Sequence[str], lines: Sequence[str], at: int) -> List[int]:
    """Where these lines stand, from `at` on."""
    return [i for i in range(at, len(lines) - len(old) + 1) if lines[i] == old[0] and lines[i : i + len(old)] == old]


def placed(body: str, lines: List[str]) -> Iterator[Tuple[int, Piece]]:
    """The pieces, each with the place of its first line among the lines that it changes, from 0."""
    at, found = 0, pieces(body)
    for piece in found:
        hits = spots(piece.old, lines, at)
        if not hits:
            there = "not there, behind those above" if at else "not there as it is now"
            near = nearest(piece.old, lines, at)
            raise EditError(piece.line, f"these lines are {there} (-: the edit, +: what is there):\n{near}")
        if len(hits) > 1 and piece.changes:
            why = f"these lines are there {len(hits)} times: show one more that stays, above or below"
            raise EditError(piece.line, why)
        hit = hits[-1] if piece is found[-1] else hits[0]
        yield hit, piece
        at = hit + len(piece.old)


def nearest(old: List[str], lines: List[str], at: int) -> str:
    """What stands where the lines fit best."""
    if at >= len(lines):
        return "    nothing is left behind the lines above"
    best = max(range(at, len(lines)), key=lambda i: sum(a == b for a, b in zip(old, lines[i : i + len(old)])))
    there = lines[best : best + len(old)]
    if not any(a == b for a, b in zip(old, there)):
        close = difflib.get_close_matches(old[0], lines[at:], 1, 0.4)
        return f"    the line most like the first: {close[0].strip()}" if close else "    no line of it is there"
    return "\n".join("    " + line for line in difflib.ndiff(old, there) if line[0] in "+-")


def patched(body: str, text: str) -> str:
    """The text after the edit; EditError where it does not fit."""
    *lines, rest = text.split("\n")
    out, at = [], 0
    for hit, piece in placed(body, lines):
        out += lines[at:hit] + piece.new
        at = hit + len(piece.old)
    return "".join(line + "\n" for line in out + lines[at:]) + rest


def diff(old: str, new: str, least: int = 0) -> str:
    """The lines of the edit that leads from one text to the other: each change with as little around it as tells
    where it is, but `least` lines at both sides."""
    a, b = old.split("\n")[:-1], new.split("\n")[:-1]
    changes = [op[1:] for op in difflib.SequenceMatcher(None, a, b, False).get_opcodes() if op[0] != "equal"]
    out: List[str] = []
    done = 0  # lines of a that are shown, or left out in front of what is
    for number, (i1, i2, j1, j2) in enumerate(changes):
        limit = changes[number + 1][0] if number + 1 < len(changes) else len(a)
        start, end = _span(a, i1, i2, done, limit, least)
        if number and start > done + 1:
            out.append(" " + (re.match(r"\s*", a[start] if start < len(a) else a[i1 - 1]) or [""])[0] + "// ...")
        elif number:
            start = done
        out += [" " + line for line in a[start:i1]]
        out += ["-" + line for line in a[i1:i2]] + ["+" + line for line in b[j1:j2]]
        out += [" " + line for line in a[i2:end]]
        done = end
    try:
        if patched("\n".join(out), old) == new:
            return "\n".join(out)
    except EditError:
        pass
    return "\n".join(line[0] + line[2:] for line in difflib.ndiff(a, b) if line[0] != "?")


def _span(a: List[str], i1: int, i2: int, first: int, last: int, least: int) -> Tuple[int, int]:
    """The lines from, to around those from i1 to i2 that stand nowhere else behind `first`, the fewest."""
    for size in range(least, MOST_CONTEXT + 1):
        for above, below in [(size, size)] if least else [(size, 0), (0, size), (size, size)]:
            start, end = max(first, i1 - above), min(last, i2 + below)
            while first < start < i1 and TRIVIAL.match(a[start]):
                start -= 1
            if start < end and len(spots(a[start:end], a, first)) == 1:
                return start, end
    return first, last


# ---- a change: hunks, and what is said about them ----


@dataclass
class Hunk:
    """One place. how: in, after, before, without, new, gone; item: `name()` or `name`, "" for the whole file."""

    file: str
    how: str = "in"
    item: str = ""
    body: str = ""  # lines with their signs
    number: int = 0  # of its line @@

    @property
    def title(self) -> str:
        place = " ".join(word for word in (self.how if self.how != "in" else "", self.item) if word)
        return f"@@ {self.file}{f', {place}' if place else ''}"

    @property
    def coming(self) -> str:
        """The text of a hunk all of whose lines come."""
        return "".join(line[1:] + "\n" for line in self.body.split("\n") if self.body)


class Change(NamedTuple):
    """What a file says of a change (its head, as it stands there), and the hunks."""

    head: List[str]
    hunks: List[Hunk]
    where: str

    def said(self) -> Dict[str, str]:
        """The head, key by key; Problem where it cannot be understood."""
        found: Dict[str, str] = {}
        for number, line in enumerate(self.head, 1):
            key, colon, value = line.partition(":")
            if line.startswith("  ") and found:
                found[list(found)[-1]] += " " + line.strip()
            elif re.fullmatch(r"\w+", key) and colon and key not in found:
                found[key] = value.strip()
            elif line and not line.startswith("#"):
                raise Problem(f"{self.where}:{number}: not understood: {line}")
        return found


def parse(text: str, where: str) -> Change:
    """Reads a change; `where` is what a Problem calls it."""
    head: List[str] = []
    hunks: List[Hunk] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("@@"):
            found = PLACE.match(line)
            if not found:
                raise Problem(f"{where}:{number}: not `@@ FILE, PLACE` as tests/changes.md describes it: {line}")
            hunks.append(Hunk(found[1], found[2] or found[3] or "in", found[4] or "", "", number))
        elif not hunks:
            head.append(line)
        elif not line or line[0] in " +-":
            hunks[-1].body += line + "\n"
        elif not line.startswith("#"):
            raise Problem(f"{where}:{number}: not understood: {line}")
    for hunk in hunks:
        hunk.body = hunk.body.rstrip("\n")  # empty lines part it from the next
        signs = {line[:1] or " " for line in hunk.body.split("\n") if hunk.body}
        if hunk.how != "in" and signs - {"+"} or hunk.how in ("without", "gone") and signs:
            raise Problem(f"{where}:{hunk.number}: {hunk.title} cannot have such lines")
        if hunk.how in ("after", "before") and not signs:
            raise Problem(f"{where}:{hunk.number}: changes nothing")
    while head and not head[-1]:
        head.pop()
    return Change(head, hunks, where)


def as_text(head: List[str], hunks: List[Hunk]) -> str:
    """The text of a change."""
    blocks = ["\n".join(head)] if head else []
    for hunk in hunks:
        # A blank line that stays at the end is written with its sign: an empty one would not count there.
        body = re.sub(r"^ $(?=\n)", "", hunk.body, flags=re.M)
        blocks.append(f"{hunk.title}\n{body}" if body else hunk.title)
    return "\n\n".join(blocks) + "\n"


# ---- carrying it out ----

Section = Tuple[str, str]  # an item's label, "" for what stands between two; its text


@functools.lru_cache(maxsize=256)
def sections(text: str, name: str) -> Tuple[Section, ...]:
    """A file as its items and what stands between them."""
    lines, found, done = text.splitlines(True), [], 0
    try:
        items = sources.parse(text, name).items
    except sources.Unreadable as problem:
        raise Problem(str(problem)) from None
    for item in items:
        if item.kind in ITEMS:
            found.append(("", "".join(lines[done : item.first - 1])))
            found.append((item.name + "()" * (item.kind == "function"), "".join(lines[item.first - 1 : item.last])))
            done = item.last
    return (*found, ("", "".join(lines[done:])))


def apply(tree: Tree, change: Change) -> Tree:
    """The tree with the change; Problem where it does not fit."""
    cut: Dict[str, List[Section]] = {name: [("", text)] for name, text in tree.items()}
    for hunk in change.hunks:
        where = f"{change.where}:{hunk.number}"
        if hunk.how == "new":
            if hunk.file in cut:
                raise Problem(f"{where}: makes {hunk.file}, which is there already")
            cut[hunk.file] = [("", hunk.coming)]
        elif hunk.file not in cut:
            raise Problem(f"{where}: there is no {hunk.file} to change")
        elif hunk.how == "gone":
            del cut[hunk.file]
        else:
            try:
                cut[hunk.file] = changed(cut[hunk.file], hunk)
            except EditError as problem:
                raise Problem(
                    f"{change.where}:{hunk.number + problem.line}: {hunk.title[3:]}: {problem}\n    Has the source"
                    " changed? Then carry the change, or record it anew (tests/changes.md)."
                ) from None
            except Problem as problem:
                raise Problem(f"{where}: {problem}") from None
    return {name: joined(found) for name, found in cut.items()}


def joined(found: Sequence[Section]) -> str:
    return "".join(text for _, text in found)


def changed(found: List[Section], hunk: Hunk) -> List[Section]:
    """The sections of a file after the hunk."""
    if not hunk.item:
        return [("", patched(hunk.body, joined(found)))]
    if hunk.item not in dict(found):  # it is not taken apart yet, or the item has come with this change
        found = list(sections(joined(found), hunk.file))
    at = next((i for i, (label, _) in enumerate(found) if label == hunk.item), None)
    if at is None:
        raise Problem(f"{hunk.file} has no {'function ' * hunk.item.endswith('()')}{hunk.item}")
    if hunk.how == "without":
        above = [(label, re.sub(r"^\n\Z", "", text, flags=re.M)) for label, text in found[at - 1 : at]]
        return [*found[: at - 1], *above, *found[at + 1 :]]
    if hunk.how == "after":
        return [*found[: at + 1], ("", "\n" + hunk.coming), *found[at + 1 :]]
    if hunk.how == "before":
        return [*found[:at], ("", hunk.coming + "\n"), *found[at:]]
    return [*found[:at], (hunk.item, patched(hunk.body, found[at][1])), *found[at + 1 :]]


# ---- recording ----


def record(before: Tree, after: Tree) -> List[Hunk]:
    """The hunks that make one tree of the other; none where they are the same."""
    hunks: List[Hunk] = []
    for name in [*before, *sorted(set(after) - set(before))]:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old and new is not None:
            hunks += record_file(name, old, new)
        else:  # what is there and empty has no lines to be found by
            hunks += [Hunk(name, "gone")] * (old is not None)
            hunks += [Hunk(name, "new", "", plus(new))] if new is not None else []
    if apply(before, parse(as_text([], hunks), "what is recorded")) != after:
        raise Problem("a change cannot say this: has a file no newline at its end, or a line that is `// ...`?")
    return hunks


def plus(text: str) -> str:
    """The lines of the text as lines that come."""
    return "\n".join("+" + line for line in text.split("\n")[:-1])


def record_file(name: str, old: str, new: str) -> List[Hunk]:
    """The hunks for one file: those of its items where both texts are C as ours is, then one for all that is left."""
    hunks: List[Hunk] = []
    found: List[Section] = [("", old)]
    if name.endswith((".c", ".h")):
        try:
            hunks = item_hunks(name, old, new)
            for hunk in hunks:
                found = changed(found, hunk)
        except Problem:
            hunks, found = [], [("", old)]
    rest = joined(found)
    hunks = hunks + ([Hunk(name, "in", "", diff(rest, new))] if rest != new else [])
    try:
        if apply({name: old}, parse(as_text([], hunks), name)) == {name: new}:
            return hunks
    except Problem:  # hardly a line is left to find the others by
        pass
    return [Hunk(name, "in", "", diff(old, new))]


def item_hunks(name: str, old: str, new: str) -> List[Hunk]:
    """Items that go, change and come; one that moves goes and comes. What comes stands behind the item above it,
    with all that is new between the two; where something old is between, it is left to the lines of the file."""
    was, now = sections(old, name), sections(new, name)
    old_text = dict(was)
    labels = [[label for label, _ in found if label] for found in (was, now)]
    blocks = difflib.SequenceMatcher(None, *labels, False).get_matching_blocks()
    stay = {label for at, _, size in blocks for label in labels[0][at : at + size]}
    hunks = [Hunk(name, "without", label) for label in labels[0] if label not in stay]
    known = set(old.split("\n"))
    above = between = ""
    for label, text in now:
        if not label:
            between = text
            continue
        if label in stay:
            if text != old_text[label]:
                hunks.append(Hunk(name, "in", label, diff(old_text[label], text)))
        elif not above or any(line and line in known for line in between.split("\n")):
            label = ""
        elif above not in stay:
            hunks[-1].body += "\n" + plus(between + text)
        elif between.startswith("\n"):
            hunks.append(Hunk(name, "after", above, plus(between[1:] + text)))
        else:
            label = ""
        above = label
    return hunks


def unified(before: Tree, after: Tree) -> str:
    """The difference of two trees as a unified diff, to be read."""
    parts: List[str] = []
    for name in sorted({*before, *after}):
        old, new = (tree.get(name, "").splitlines() for tree in (before, after))
        parts += difflib.unified_diff(old, new, name, name, lineterm="") if old != new else []
    return "".join(f"{line}\n" for line in parts)
