"""The one form in which the workbook keeps a change of source files: hunks that name a function and a few of its lines.

    @@ server.c, do_get()             in that function; its comment belongs to it
    -    if (ent->type != T_STR) {    lines that go, that come, that stay, as in a unified diff
    +    if (!ent) {
    @@ hashtable.h, hmap              in that struct, enum, table or variable
    @@ server.c                       anywhere in the file
    @@ server.c, after do_get()       what comes stands behind it, with a blank line between
    @@ server.c, before do_get()      the same in front of it
    @@ server.c, without do_get()     it goes, and the blank line above it
    @@ attack.py, new                 a file that comes, with all its lines
    @@ attack.py, gone                a file that goes

There are no line numbers. The lines that stay and go stand where the hunk says exactly once, before any hunk of the
change; comments behind them do not matter. So an edit elsewhere does not disturb a change, and where its own place
has changed it has a Problem instead of being put somewhere else. In front of the first @@ a file may say things about
the change, `key: value`; a line that begins with two blanks goes on with the one before, # begins a comment.
"""
from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import csource
import stagediff
from layout import Problem

Tree = Dict[str, str]  # file -> text
PLACE = re.compile(r"@@ ([^\s,]+)(?:, (?:(new|gone)|(?:(after|before|without) )?(\w+)(\(\))?))?$")
IN = ("function", "type", "table", "variable")  # kinds of items in which a hunk can be said to be
NEAR = 2  # lines between two changes that make one hunk of them


@dataclass
class Hunk:
    """One place. how: in, after, before, without, new, gone; item: `name()` or `name`, "" for the whole file."""

    file: str
    how: str = "in"
    item: str = ""
    lines: List[Tuple[str, str]] = field(default_factory=list)  # sign and text
    number: int = 0  # of its line @@

    @property
    def title(self) -> str:
        place = " ".join(word for word in (self.how if self.how != "in" else "", self.item) if word)
        return f"@@ {self.file}{f', {place}' if place else ''}"

    @property
    def old(self) -> List[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> List[str]:
        return [text for sign, text in self.lines if sign == "+"]


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

    def __str__(self) -> str:
        return as_text(self.head, self.hunks)


# ---- reading ----


def parse(text: str, where: str) -> Change:
    """Reads a change; `where` is what a Problem calls it."""
    head: List[str] = []
    hunks: List[Hunk] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("@@"):
            found = PLACE.match(line)
            if not found:
                raise Problem(f"{where}:{number}: not `@@ FILE, PLACE` as tests/changes.md describes it: {line}")
            how = found[2] or found[3] or "in"
            hunks.append(Hunk(found[1], how, (found[4] or "") + (found[5] or ""), [], number))
        elif hunks and (not line or line[0] in " +-"):
            hunks[-1].lines.append((line[:1], line[1:]))
        elif hunks and not line.startswith("#"):
            raise Problem(f"{where}:{number}: not understood: {line}")
        elif not hunks:
            head.append(line)
    for hunk in hunks:
        while hunk.lines and hunk.lines[-1] == ("", ""):  # empty lines part it from the next
            hunk.lines.pop()
        hunk.lines = [(sign or " ", text) for sign, text in hunk.lines]
        signs = {sign for sign, _ in hunk.lines}
        wanted = {"in": signs & {"-", "+"}, "without": not signs, "gone": not signs}.get(hunk.how, signs == {"+"})
        if not wanted and hunk.lines:
            raise Problem(f"{where}:{hunk.number}: {hunk.title} cannot have such lines")
        if not wanted and hunk.how != "new":
            raise Problem(f"{where}:{hunk.number}: changes nothing")
    while head and not head[-1]:
        head.pop()
    return Change(head, hunks, where)


def as_text(head: List[str], hunks: List[Hunk]) -> str:
    """The text of a change."""
    parts = [*head, ""] if head else []
    for i, hunk in enumerate(hunks):
        parts += [""] * (i > 0) + [hunk.title]
        parts += [text and sign + text if sign == " " else sign + text for sign, text in hunk.lines]
        parts[-1] = parts[-1] or " "  # a blank line that stays at the end, where an empty one would not count
    return "\n".join(parts) + "\n"


# ---- applying ----


def is_c(name: str) -> bool:
    return name.endswith((".c", ".h"))


@functools.lru_cache(maxsize=4096)
def items_of(text: str, name: str) -> List[csource.Item]:
    return csource.parse(text, name).items


def keys(lines: List[str], name: str) -> List[str]:
    """The lines as they are compared: in C without the comment behind code, since that one may be reworded."""
    if not is_c(name):
        return [line.rstrip() for line in lines]
    return [re.sub(r"(?<=\S)\s+//.*", "", line).rstrip() if "//" in line else line.rstrip() for line in lines]


@functools.lru_cache(maxsize=4096)
def keys_of(text: str, name: str) -> List[str]:
    return keys(text.split("\n"), name)


def find_item(text: str, hunk: Hunk, where: str) -> csource.Item:
    name = hunk.item.rstrip("()")
    function = hunk.item.endswith("()")
    try:
        items = items_of(text, hunk.file)
    except csource.Unreadable as problem:
        raise Problem(f"{where}: {problem}") from None
    for item in items:
        if item.name == name and (item.kind == "function") == function and item.kind in (*IN, "constant"):
            return item
    raise Problem(f"{where}: {hunk.file} has no {'function ' if function else ''}{hunk.item}")


Edit = Tuple[int, int, List[str]]  # the lines from, to that go, and those that come


def places(wanted: List[str], there: List[str], first: int, last: int) -> List[int]:
    """Where `wanted` stands in there[first:last], indices into `there`."""
    size = len(wanted)
    return [i for i in range(first, last - size + 1) if there[i : i + size] == wanted]


def edits_of(hunk: Hunk, text: str, lines: List[str], where: str) -> Iterator[Edit]:
    """What a hunk does to the lines of its file."""
    item = find_item(text, hunk, where) if hunk.item else None
    if item and hunk.how == "without":
        above = item.first > 1 and not lines[item.first - 2]
        yield item.first - 1 - above, item.last, []
        return
    if item and hunk.how == "after":
        yield item.last, item.last, ["", *hunk.new]
        return
    if item and hunk.how == "before":
        yield item.first - 1, item.first - 1, [*hunk.new, ""]
        return
    first, last, scope = (
        item.first - 1, item.last, f"{hunk.item} of {hunk.file}"
    ) if item else (0, len(lines), hunk.file)
    old = hunk.old
    found = places(keys(old, hunk.file), keys_of(text, hunk.file), first, last) if old else []
    if len(found) != 1:
        lost = [line for line, key in zip(old, keys(old, hunk.file)) if key not in keys_of(text, hunk.file)[first:last]]
        shown = "".join(f"\n    {line}" for line in lost or old)
        raise Problem(
            f"{where}: these lines stand {len(found) or 'no'} times{' together' * (not lost)} in {scope}, they must"
            " stand there once. Has the source changed? Then carry the change, or record it anew"
            f" (tests/changes.md).{shown}"
        )
    at = found[0]
    for sign, line in hunk.lines:
        if sign == "+":
            yield at, at, [line]
        else:
            yield from [(at, at + 1, [])] if sign == "-" else []
            at += 1


def apply(tree: Tree, change: Change) -> Tree:
    """The tree with the change; Problem where it does not fit."""
    result = dict(tree)
    edits: Dict[str, List[Edit]] = {}
    for hunk in change.hunks:
        where = f"{change.where}:{hunk.number}"
        if hunk.how == "new":
            if hunk.file in tree:
                raise Problem(f"{where}: makes {hunk.file}, which is there already")
            result[hunk.file] = "\n".join(hunk.new) + ("\n" if hunk.lines else "")
            continue
        if hunk.file not in tree:
            raise Problem(f"{where}: there is no {hunk.file} to change")
        if hunk.how == "gone":
            del result[hunk.file]
            continue
        text = tree[hunk.file]
        edits.setdefault(hunk.file, []).extend(edits_of(hunk, text, text.split("\n"), where))
    for name, wanted in edits.items():
        result[name] = edited(tree[name], wanted, f"{change.where}: {name}")
    return result


def edited(text: str, edits: List[Edit], where: str) -> str:
    """The text with all edits; those at one place in their order."""
    lines, out, at = text.split("\n"), [], 0
    for first, last, new in sorted(edits, key=lambda edit: edit[:2]):
        if first < at:
            raise Problem(f"{where}: two hunks change line {first + 1}: {lines[first]}")
        out += lines[at:first] + new
        at = last
    return "\n".join(out + lines[at:])


# ---- recording ----


def record(before: Tree, after: Tree) -> List[Hunk]:
    """The hunks that make one tree of the other; none where they are the same."""
    hunks: List[Hunk] = []
    for name in [*before, *sorted(set(after) - set(before))]:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            hunks.append(Hunk(name, "gone"))
        elif old is None:
            lines = new.split("\n")
            if lines.pop():
                raise Problem(f"{name}: a new file must end with a newline")
            hunks.append(Hunk(name, "new", "", [("+", line) for line in lines]))
        else:
            hunks += record_file(name, old, new)
    return hunks


def record_file(name: str, old: str, new: str) -> List[Hunk]:
    """The hunks for one file: anchored in its items where both texts are C as ours is, else by lines alone."""
    others = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # splitlines(), by which the sources are read, ends a line there too
    in_items = is_c(name) and not any(end in old + new for end in others)
    try:
        hunks = Recorder(name, old, new, in_items).hunks
        if apply({name: old}, Change([], hunks, name)) == {name: new}:
            return hunks
    except (csource.Unreadable, Problem):
        pass
    return Recorder(name, old, new, False).hunks


class Recorder:
    """Makes the hunks of one file."""

    def __init__(self, name: str, old: str, new: str, in_items: bool):
        self.name = name
        self.a, self.b = old.split("\n"), new.split("\n")
        self.keys = keys(self.a, name)
        self.items = items_of(old, name) if in_items else []
        self.fresh = items_of(new, name) if in_items else []
        self.hunks: List[Hunk] = []
        self.open: Optional[Tuple[Optional[csource.Item], List[Tuple[int, int, int, int]]]] = None
        for a1, a2, b1, b2 in self.ops(old, new, in_items):
            if not self.whole_items(a1, a2, b1, b2):
                self.lines(a1, a2, b1, b2)
        self.close()

    def ops(self, old: str, new: str, in_items: bool) -> List[Tuple[int, int, int, int]]:
        """What differs: lines a1 to a2 become b1 to b2."""
        if in_items:
            found = stagediff.opcodes(csource.parse(old, self.name), csource.parse(new, self.name))
        else:
            found = difflib.SequenceMatcher(None, self.a, self.b, False).get_opcodes()
        return [self.slid(*op[1:]) for op in found if op[0] != "equal"]

    def slid(self, a1: int, a2: int, b1: int, b2: int) -> Tuple[int, int, int, int]:
        """Lines that only come, or only go, may be said to stand a little higher: best is what begins with a blank
        line, so that it ends as an item does."""
        a, b = self.a, self.b
        if a1 == a2 and b1 < b2 and b[b2 - 1] == "" and a1 and a[a1 - 1] == "" and b[b1]:
            return a1 - 1, a1 - 1, b1 - 1, b2 - 1
        if b1 == b2 and a1 < a2 and a[a2 - 1] == "" and a1 and a[a1 - 1] == "" and a[a1]:
            return a1 - 1, a2 - 1, b1 - 1, b1 - 1
        return a1, a2, b1, b2

    def whole_items(self, a1: int, a2: int, b1: int, b2: int) -> bool:
        """Whole items that go, or that come behind or in front of another: says so, if it is that."""
        going = [item for item in self.items if a1 < item.first and item.last <= a2 and item.kind in IN]
        coming = [item for item in self.fresh if b1 < item.first and item.last <= b2]
        if any(item.kind in ("constant", "include") for item in coming) or not (going or coming):
            return False
        covered = sum(item.last - item.first + 2 for item in going)
        if covered != a2 - a1 or (going and self.a[a1]):
            return False
        hunks = [Hunk(self.name, "without", label(item)) for item in going]
        if b1 < b2:
            last = [item for item in self.items if item.last == a2 and item.kind in IN]
            following = [item for item in self.items if item.first - 1 == a2 and item.kind in IN]
            if last and not self.b[b1] and self.b[b2 - 1]:
                hunks.append(Hunk(self.name, "after", label(last[-1]), [("+", x) for x in self.b[b1 + 1 : b2]]))
            elif following and not going and not self.b[b2 - 1] and self.b[b1]:
                hunks.append(Hunk(self.name, "before", label(following[0]), [("+", x) for x in self.b[b1 : b2 - 1]]))
            elif following or not last:
                # a blank line above, and one below that was there: what comes stands in front of the item below
                below = [item for item in self.items if item.first - 2 == a2 and item.kind in IN]
                if going or not below or self.a[a2] or self.b[b1] or not self.b[b2 - 1]:
                    return False
                hunks.append(Hunk(self.name, "before", label(below[0]), [("+", x) for x in self.b[b1 + 1 : b2]]))
            else:
                return False
        self.close()
        self.hunks += hunks
        return True

    def lines(self, a1: int, a2: int, b1: int, b2: int) -> None:
        """Lines that change within an item or anywhere else; those that are near to each other make one hunk."""
        inside = [item for item in self.items if item.kind in IN and item.first - 1 <= a1 and a2 <= item.last]
        item = inside[0] if inside else None
        if self.open and (self.open[0] is not item or a1 - self.open[1][-1][1] > NEAR):
            self.close()
        if not self.open:
            self.open = item, []
        self.open[1].append((a1, a2, b1, b2))

    def close(self) -> None:
        """Makes a hunk of the lines that were gathered, with as few that stay as needed."""
        if not self.open:
            return
        (item, ops), self.open = self.open, None
        first, last = (item.first - 1, item.last) if item else (0, len(self.a))
        start, end = ops[0][0], ops[-1][1]
        up, down = next(self.contexts(first, last, start, end))
        lines: List[Tuple[str, str]] = []
        at = start - up
        for a1, a2, b1, b2 in ops:
            lines += [(" ", line) for line in self.a[at:a1]]
            lines += [("-", line) for line in self.a[a1:a2]] + [("+", line) for line in self.b[b1:b2]]
            at = a2
        lines += [(" ", line) for line in self.a[at : end + down]]
        self.hunks.append(Hunk(self.name, "in", label(item) if item else "", lines))

    def contexts(self, first: int, last: int, start: int, end: int) -> Iterator[Tuple[int, int]]:
        """How many lines above and below make the place the only one of its sort, the fewest first."""
        sizes = ((total - down, down) for total in range(last - first + 1) for down in range(total + 1))
        later = []
        for up, down in sizes:
            wanted = self.keys[start - up : end + down] if first <= start - up and end + down <= last else []
            if wanted and len(places(wanted, self.keys, first, last)) == 1:
                if not (down and not self.a[end + down - 1]):
                    yield up, down
                later.append((up, down))  # with a blank line at its end, only where nothing else will do
        yield from later
        raise Problem(f"{self.name}: nothing tells line {start + 1} from others")


def label(item: csource.Item) -> str:
    """The item's name as a hunk says it."""
    return item.name + "()" * (item.kind == "function")


def unified(before: Tree, after: Tree) -> str:
    """The difference of two trees as a unified diff, to be read."""
    parts: List[str] = []
    for name in sorted({*before, *after}):
        old, new = (tree.get(name, "").splitlines() for tree in (before, after))
        parts += difflib.unified_diff(old, new, name, name, lineterm="") if old != new else []
    return "".join(f"{line}\n" for line in parts)
