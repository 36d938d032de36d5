#!/usr/bin/env python3
"""Makes the edits of a chapter that its page does not have the reader type, in the reader's own files.

    make take-NN-name                in my/
    make take-NN-name MY=my/other    in another folder

The page says what a take is (.github/WRITING.md): steps that are folded, or files that become as in the stage. From the
page come the programs as they are before the take and after it. Each unit that differs between the two is looked up in
the reader's files by its name:

- as the page has it before: it becomes what the page has after;
- changed by the reader: the edit is made there, if the lines that it shows are there;
- otherwise it is named, with what to do.

Where a file goes and its units are in new ones, since server.c became the files of src/, each of the reader's goes to
the file that has it in the stage, with the names that the stage gave to what it speaks of; what is the reader's alone
goes behind what stood above it. All that the take leaves alone stays as the reader has it. All is done or nothing.
"""
from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import book  # noqa: E402
import book_blocks  # noqa: E402
import book_steps  # noqa: E402
import changeform  # noqa: E402
import sources  # noqa: E402
import stagediff  # noqa: E402
from book_blocks import Block, Page  # noqa: E402
from book_steps import Files  # noqa: E402
from layout import Problem, before, quit_with  # noqa: E402
from sources import Unit, UnitError  # noqa: E402

REMARKS = ("top", "banner", "comment")  # the reader's own words stay
CODE = ("function", "type", "table", "variable")
LONG = 400  # lines of a difference that are too many to print
Texts = Dict[str, str]


# ---- what the page says ----


class Take(NamedTuple):
    """A take of a page: the programs before it and after it."""

    page: Page
    block: Block
    was: Files
    now: Files

    @property
    def look(self) -> str:
        """The sentences below it, as a terminal shows them."""
        return re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", book_blocks.paragraph_below(self.page, self.block))


class Place(NamedTuple):
    """The programs at one place of the book, and how that is called."""

    files: Files
    name: str


def find(name: str) -> Tuple[Take, List[Place], List[Place]]:
    """The take of that name, and the places of the book that are before it and behind it."""
    pages = [page for page in book_blocks.pages(book.folder()) if page.chapter == name[:2]]
    known: List[str] = []
    for page in pages:
        takes = {block.code.split("take-")[-1].strip(): block for block in page.blocks if block.takes}
        known += takes
        if name in takes:
            return places(page, pages, name, takes[name])
    there = f"chapter {name[:2]} has {', '.join(known)}" if known else "its chapter has none"
    raise Problem(f"there is no take {name}: {there}")


def places(page: Page, pages: List[Page], name: str, block: Block) -> Tuple[Take, List[Place], List[Place]]:
    files, final = book_steps.start(page.chapter, book.ROOT), book_steps.stage(page.chapter, book.ROOT)
    early, late = before_chapter(page.chapter), []
    was = dict(files)
    begun = False
    for step in book.steps_of(pages[-1]):
        if step.take == name and not begun:
            was, begun = dict(files), True
        book_steps.apply(step, files, final)
        where = spot(next(each for each in pages if step.block in each.blocks), step.block.line)
        (late if begun else early).append(Place(dict(files), where))
        if step.take == name:
            now, late = dict(files), [Place(dict(files), where)]
    if not begun:
        raise Problem(f"{block.where}: this take makes no edit")
    return Take(page, block, was, now), early, late


def spot(page: Page, line: int) -> str:
    """A place of a page, for those who read it in an editor and for those who do in a browser."""
    heading = next((text for number, text in reversed(page.prose) if number < line and text.startswith("#")), "")
    return f'line {line} of {page.path.name}, under "{heading.lstrip("# ")}"'


def before_chapter(name: str) -> List[Place]:
    """The ends of all chapters before this one."""
    found: List[Place] = []
    earlier = before(name, book.ROOT)
    while earlier:
        found.insert(0, Place(book_steps.stage(earlier, book.ROOT, labs=False), f"the end of chapter {earlier}"))
        earlier = before(earlier, book.ROOT)
    return found


# ---- where the reader is ----


def same(mine: Files, files: Files) -> int:
    """How many units the reader has just as they are at a place of the book."""
    return len(texts(mine) & texts(files))


def texts(files: Files) -> Set[Tuple[str, str]]:
    return {(file, unit.text) for file, units in files.items() for unit in units}


# ---- the merge ----


class Merged:
    """One of the reader's files while it is changed: its units, each with the blank lines above it."""

    def __init__(self, file: str, text: str, known: Sequence[Unit] = ()):
        self.file, self.problems = file, []  # type: str, List[str]
        lines, at = text.splitlines(True), 0
        self.rows: List[Tuple[str, Unit]] = []
        for unit in split(sources.parse(text, file).units, known):
            self.rows.append(("".join(lines[at : unit.first - 1]), unit))
            at = unit.last
        self.rest = "".join(lines[at:])

    @property
    def units(self) -> List[Unit]:
        return [unit for _, unit in self.rows]

    @property
    def text(self) -> str:
        return "".join(gap + unit.text for gap, unit in self.rows) + self.rest

    def has(self, unit: Unit) -> bool:
        return sources.index_of(self.units, unit) is not None

    def refuse(self, unit: Unit, why: str) -> None:
        if unit.kind not in REMARKS:
            self.problems.append(f"{self.file}: {called(unit)} {why}")

    def carry(self, was: Sequence[Unit], now: Sequence[Unit]) -> None:
        """Makes the changes that lead from `was` to `now`."""
        olds, units = sources.partners(was, now), self.units
        mine = [None if at is None else units[at] for at in sources.partners(units, was)]
        stay = sources.staying(len(was), olds)
        for old, unit in enumerate(was):
            here = mine[old]
            if old in olds or here is None:
                continue
            if here.text == unit.text:
                self.drop(self.units.index(here))
            else:
                self.refuse(unit, "goes, and you have changed it: delete it, or give it another name")
        for number, (unit, old) in enumerate(zip(now, olds)):
            if old is None or (was[old].text == unit.text and old in stay):
                continue
            here = mine[old]
            if here is None:
                self.refuse(unit, "changes, and is not there: has it another name?")
                continue
            at = self.units.index(here)
            self.change(at, was[old], unit)
            if old not in stay:
                self.insert(self.drop(at), now[:number])
        for number, (unit, old) in enumerate(zip(now, olds)):
            at = sources.index_of(self.units, unit)
            if old is None and at is None:
                self.insert(unit, now[:number])
            elif old is None and at is not None and self.units[at].text != unit.text:
                self.refuse(unit, "comes, and you have one of your own: give yours another name")

    def change(self, at: int, old: Unit, new: Unit) -> None:
        gap, mine = self.rows[at]
        text = new.text
        if text in (mine.text, old.text):
            return
        if mine.text != old.text:
            try:
                text = changeform.patched(changeform.diff(old.text, new.text), mine.text)
            except changeform.EditError as problem:
                self.refuse(new, f"changes, and you have changed it at the same place: {problem}")
                return
        self.rows[at] = gap, sources.Unit(*new.key, text, members=new.members)

    def insert(self, unit: Unit, above: Sequence[Unit]) -> None:
        """Puts a unit behind the nearest of those above it that is there."""
        spots = (sources.index_of(self.units, each) for each in reversed(above))
        at = next((spot + 1 for spot in spots if spot is not None), 0)
        self.rows.insert(at, ("\n", unit))
        self.keep_apart()

    def drop(self, at: int) -> Unit:
        _, unit = self.rows.pop(at)
        self.keep_apart()
        return unit

    def keep_apart(self) -> None:
        """No blank line above the first unit, one or more above the second."""
        for at, (gap, unit) in enumerate(self.rows[:2]):
            self.rows[at] = at * (gap or "\n"), unit


def split(units: Iterable[Unit], known: Sequence[Unit] = ()) -> List[Unit]:
    """The units, with functions and types by themselves where no blank line is between two; but in the groups that are
    known."""
    found: List[Unit] = []
    for unit in units:
        apart = unit.kind == "group" and any(member.kind in CODE for member in unit.members)
        apart = apart and sources.index_of(known, unit) is None
        found += unit.members if apart else [unit]
    return found


def merged(mine: Texts, was: Files, now: Files) -> Tuple[Texts, List[str]]:
    """The reader's files after the change from `was` to `now`, and what could not be done."""
    gone = [file for file in was if file not in now]
    found, problems = {file: text for file, text in mine.items() if file not in gone}, []
    files: List[Merged] = []
    try:
        whole = [Merged(file, mine.get(file, ""), was[file]) for file in gone]
        cut = Cut([unit for file in gone for unit in was[file]], whole)
        for file in sorted(now, key=lambda name: (name.endswith(".h"), name)):
            text = sources.join(now[file])
            if was.get(file) == now[file]:
                continue
            if file in was and file not in mine:
                problems.append(f"{file}: changes, and is not there")
            elif file in was:
                files.append(Merged(file, mine[file], was[file]))
                files[-1].carry(was[file], now[file])
            elif mine.get(file, text) != text:
                problems.append(f"{file}: comes, and you have one of your own: give yours another name")
            elif cut.has_part(now[file]):
                files.append(cut.part(file, now[file]))
            else:
                found[file] = text
        problems += cut.rest()
    except UnitError as problem:
        problems.append(str(problem))
    found.update({each.file: each.text for each in files})
    return found, problems + [problem for each in files for problem in each.problems]


# ---- one file becomes several ----


class Cut:
    """Files that go, whose units the reader finds in others: each goes where the stage has one of that name."""

    def __init__(self, was: List[Unit], mine: List[Merged]):
        self.was, self.mine = was, [(each.file, unit) for each in mine for unit in each.units]
        self.parts: List[Tuple[Merged, Dict[str, str]]] = []
        self.placed: List[Unit] = []  # of `was`

    def pairs(self, now: Sequence[Unit]) -> List[Tuple[Unit, Unit]]:
        """The units of a new file that were elsewhere, as they were and as they are."""
        found = [(sources.index_of(self.was, unit), unit) for unit in now if unit.kind not in (*REMARKS, "includes")]
        return [(self.was[at], unit) for at, unit in found if at is not None]

    def has_part(self, now: Sequence[Unit]) -> bool:
        return bool(self.pairs(now))

    def part(self, file: str, now: Sequence[Unit]) -> Merged:
        """A new file, made of what the reader has of it."""
        pairs = self.pairs(now)
        names = owners(pairs)
        each = Merged(file, "")
        for old, _ in pairs:
            unit = next((unit for _, unit in self.mine if unit.same(old)), None)
            each.rows += [("\n", renamed(unit, names))] if unit else []
        each.keep_apart()
        each.carry([renamed(old, names) for old, _ in pairs], now)
        self.parts.append((each, names))
        self.placed += [old for old, _ in pairs]
        return each

    def rest(self) -> List[str]:
        """Puts what the reader has more behind what stands above it, and says what has no place."""
        problems = []
        for number, (file, unit) in enumerate(self.mine):
            at = sources.index_of(self.was, unit)
            if at is None and unit.kind not in ("top", "includes"):
                above = [each for _, each in reversed(self.mine[:number])]
                spots = [(part, names) for each in above for part, names in self.parts if part.has(each)]
                for part, names in spots[:1] or self.parts[:1]:
                    part.insert(renamed(unit, names), above[::-1])
            elif at is not None and sources.index_of(self.placed, unit) is None and unit.text != self.was[at].text:
                if unit.kind not in (*REMARKS, "includes"):
                    problems.append(f"{file}: {called(unit)} goes, and you have changed it: put it back as it was")
        variables = [unit for unit in self.was if unit.kind == "variable"]
        gone = "|".join(unit.name for unit in variables if sources.index_of(self.placed, unit) is None) or "(?!)"
        for part, _ in self.parts:
            for unit in part.units:
                words = dict.fromkeys(re.findall(rf"\b(?:{gone})\b[.\w]*", unit.text))
                problems += [f"{part.file}: {called(unit)} would speak of {word}, which is gone" for word in words]
        return problems


WORD = re.compile(r"\w+\.\w+|\w+|\S")


def owners(pairs: Iterable[Tuple[Unit, Unit]]) -> Dict[str, str]:
    """What became of the members of a variable in these units: g_data.conns -> g_conns. What became of one in two
    ways is not in it."""
    found: Dict[str, Set[str]] = {}
    for old, new in pairs:
        a, b = WORD.findall(old.text), WORD.findall(new.text)
        for how, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, False).get_opcodes():
            if how == "replace" and i2 - i1 == j2 - j1:
                for was, now in zip(a[i1:i2], b[j1:j2]):
                    if was.startswith("g_") and "." in was and re.match(r"\w", now):
                        found.setdefault(was, set()).add(now)
    return {was: now.pop() for was, now in found.items() if len(now) == 1}


def renamed(unit: Unit, names: Dict[str, str]) -> Unit:
    text = re.sub(r"\b\w+\.\w+\b", lambda found: names.get(found[0], found[0]), unit.text)
    return Unit(*unit.key, text, members=unit.members)


def called(unit: Unit) -> str:
    """A unit as a message names it."""
    if unit.kind in ("function", "includes"):
        return f"{unit.name}()" if unit.kind == "function" else "the list of includes"
    return f"the list with {unit.name}" if unit.kind == "group" else f"{unit.kind} {unit.name}"


# ---- the reader's folder ----


def read(folder: Path, *stages: Files) -> Texts:
    """The reader's files that are in any of these stages."""
    if not folder.is_dir():
        raise Problem(f"there is no folder {folder}: book/README.md says how to make it, and MY=folder names another")
    names = sorted({name for files in stages for name in files})
    return {name: (folder / name).read_text(encoding="utf-8") for name in names if (folder / name).is_file()}


def units(mine: Texts) -> Files:
    """What can be read of the reader's files."""
    found = {}
    for name, text in mine.items():
        try:
            found[name] = split(sources.parse(text, name).units)
        except UnitError:
            pass  # said where it is to be changed
    return found


def take(name: str, folder: Path) -> str:
    """Carries out a take; returns what to say of it."""
    found, early, late = find(name)
    mine = read(folder, found.was, found.now)
    there = units(mine)
    near = max([Place(found.was, ""), *late, *early], key=lambda place: same(there, place.files))
    if near in late:
        return f"{folder} has it already: nothing was changed"
    if near.name:
        here = spot(found.page, found.block.line)
        raise Problem(f"{folder} is not so far yet: it is nearest to {near.name}; take-{name} is for {here}")
    wanted, problems = merged(mine, found.was, found.now)
    if problems:
        tied = [p for p in early if p.files != found.was and same(there, p.files) == same(there, found.was)]
        problems += [f"Or have you come no further than {place.name}?" for place in tied[:1]]
        raise Problem("\n".join([*problems, advice(name, found)]))
    for file, text in wanted.items():
        if mine.get(file) != text:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    kept = book.ROOT / "build" / "take" / name
    for file in set(mine) - set(wanted):
        (kept / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / file, kept / file)
    return "\n".join([*report(name, folder, mine, wanted), "", textwrap.fill(found.look, 100)])


def advice(name: str, found: Take) -> str:
    """What to do where something could not be placed."""
    chapter = found.page.chapter
    steps = [step.take for step in book.steps_of(found.page)].index(name)
    return (
        f"Nothing was changed. Mend these, then type the same again. To see the programs as the page has them here:\n"
        f"    python3 tests/tools/book.py apply {chapter} {steps} my/{name}"
    )


def report(name: str, folder: Path, mine: Texts, wanted: Texts) -> List[str]:
    """What was done: the difference, of a long one how many lines, and the files that came."""
    both = [
        (sources.parse(mine[file], folder / file), sources.parse(text, folder / file))
        for file, text in wanted.items() if mine.get(file, text) != text
    ]  # fmt: skip
    lines = [line for pair in both for line in stagediff.unified(*pair)]
    out = [stagediff.painted(line) for line in lines]
    if len(lines) > LONG:
        kept = book.ROOT / "build" / "take" / f"{name}.diff"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        counts = [(new.path, *stagediff.changed_lines(old, new)) for old, new in both]
        out = [f"{file}: {more} lines come, {less} go" for file, more, less in counts]
        out.append(f"The difference is in {os.path.relpath(kept, book.ROOT)}.")
    out += [f"{folder / file}: gone, kept in build/take/{name}" for file in mine if file not in wanted]
    new = {file: text for file, text in wanted.items() if file not in mine}
    return out + [f"{folder / file}: new, {len(text.splitlines())} lines" for file, text in new.items()]


def main(argv: List[str]) -> int:
    try:
        if len(argv) != 1:
            raise Problem("usage: [MY=folder] take.py NN-name")
        print(take(argv[0], Path(os.environ.get("MY") or "my")))
    except (Problem, UnitError, book_steps.StepError, book_blocks.BookError) as problem:
        quit_with(str(problem), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
