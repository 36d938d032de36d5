"""What a learner sees of a step or a listing: its lines, where they stand in the stage, what is left out."""
from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Dict, List, Sequence

import book
import book_edits
import book_steps
import book_units
from book_blocks import Block, BookError, Page
from book_steps import Files, Step
from book_units import Unit
from layout import ROOT
from website_code import Fold, Heading, Line, Part, stay

WHAT = {"new": "a new file", "add": "new", "edit": "changes", "replace": "changes", "remove": "goes", "move": "moves"}


@dataclass
class View:
    """A block of code as the page shows it."""

    file: str  # from the root
    names: List[str]
    what: str
    parts: List[Part]
    number: int = 0  # of the step
    edit: bool = False  # only what changes is shown


def views(page: Page) -> Dict[int, View]:
    """The steps of a chapter, carried out one after the other, by the lines of their blocks."""
    found: Dict[int, View] = {}
    steps = book.steps_of(page)
    files, final = (book_steps.start(page.chapter), book_steps.stage(page.chapter)) if steps else ({}, {})
    for number, step in enumerate(steps, 1):
        was = list(files.get(step.file, []))
        units = book_steps.apply(step, files, final)
        file = step.file if step.file.startswith("common/") else f"chapters/{page.chapter}/{step.file}"
        if step.verb == "supplied":
            view = listing(page, step.block)
            view.what = f"supplied: copy it from {file}"
        else:
            names = [name for unit in units for name in unit.members or (unit.name or unit.kind,)]
            names = names or list(map(plain, step.names))
            view = View(file, names, what(step, names), parts(step, was, units, files, final), 0, step.verb == "edit")
        view.number = number
        found[step.block.line] = view
    return found


def plain(name: str) -> str:
    """banner:the-poll-set as readers call it."""
    return name.rpartition(":")[2].replace("-", " ")


def some(names: Sequence[str]) -> str:
    """The first of these names, as readers call them, and how many more there are."""
    return ", ".join(map(plain, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def what(step: Step, names: List[str]) -> str:
    """What happens to the code of a step, in a word or two."""
    said = WHAT[step.verb] + (f", after {plain(step.after)}" if step.after else "")
    if step.verb == "replace" and step.names and list(map(plain, step.names)) != list(map(plain, names)):
        said = f"in place of {some(step.names)}"
    return said + (": a first version" if step.provisional else "")


def places(want: Sequence[str], lines: Sequence[str], first: int = 1) -> List[int]:
    """For each line that is wanted the number that it has among these; 0 where it is not there."""
    found = [0] * len(want)
    for a, b, size in difflib.SequenceMatcher(None, want, lines, False).get_matching_blocks():
        found[a : a + size] = range(first + b, first + b + size)
    return found


def numbers(units: Sequence[Unit], final: Sequence[Unit]) -> List[int]:
    """For each line of these units, joined, its number in the finished file."""
    found: List[int] = []
    for unit in units:
        at = book_units.index_of(final, unit)
        above = book_units.join(final[:at]).count("\n") + (1 if at else 0) if at is not None else 0
        lines = final[at].text.splitlines() if at is not None else []
        mine = places(unit.text.splitlines(), lines, above + 1)
        if len(found) > 1 and found[-2] and mine[0] == found[-2] + 2:
            found[-1] = mine[0] - 1  # the blank line between this item and the one above
        found += [*mine, 0]
    return found


def parts(step: Step, was: Sequence[Unit], units: List[Unit], files: Files, final: Files) -> List[Part]:
    """The lines of a step."""
    texts = step.block.code.splitlines()
    if step.verb in ("remove", "move"):
        mark = "del" if step.verb == "remove" else ""
        items = [was[book_units.find(was, name)] for name in step.names]
        whole = [Line(text, mark) for text in book_units.join(items).splitlines()]
        more = len(whole) > len(texts)
        return [Line(text, mark) for text in texts] + [Fold(whole, f"all {len(whole)} lines")] * more
    now, number = book_units.join(units).splitlines(), numbers(units, final[step.file])
    if step.verb == "edit":
        old = book_units.join([was[book_units.find(was, name)] for name in step.names])
        return edit(step.block.code, old, now, number)
    stays = [0] * len(now)
    if step.verb == "replace":
        stays = places(now, book_units.join([unit for unit in was if unit not in files[step.file]]).splitlines())
    changes = sum(map(bool, stays)) > len(now) / 3  # else it is as good as new
    return elided(step.block, [Line(t, "ins" if changes and not s else "", n) for t, s, n in zip(now, stays, number)])


def elided(block: Block, lines: List[Line]) -> List[Part]:
    """The lines that a block shows, with those that it leaves out folded."""
    gaps = book_steps.match_elided(block.code, "".join(line.text + "\n" for line in lines))
    if gaps is None:
        raise BookError(f"{block.where}: differs from the sources; make book-check says where")
    out: List[Part] = []
    at = 0
    for first, end in gaps:
        out += [*lines[at:first], stay(lines[first:end])]
        at = end
    return out + lines[at:]


def edit(code: str, old: str, now: Sequence[str], number: Sequence[int]) -> List[Part]:
    """The lines of an edit; `now` is the item after it, with the numbers of its lines."""
    hunks, lines = book_edits.hunks(code), old.splitlines()
    starts, at, shift = [], 0, 0
    for hunk in hunks:
        hits = book_edits.spots(hunk.old, lines, at)
        hit = hits[-1] if hunk is hunks[-1] else hits[0]
        starts.append(hit + shift)
        at, shift = hit + len(hunk.old), shift + len(hunk.new) - len(hunk.old)
    begins = {hunk.line: start for hunk, start in zip(hunks, starts)}
    out: List[Part] = []
    at = 0  # lines of `now` that are done
    for line, text in enumerate(code.splitlines(), 1):
        at = begins.get(line, at)
        if text.startswith("@@"):
            out += [Heading(text.strip("@ "))] if line > 1 else []
        elif book_edits.ELISION.match(text):
            end = begins.get(line + 1, len(now))
            out.append(stay([Line(now[i], "", number[i]) for i in range(at, end)]))
        else:
            mark = {"-": "del", "+": "ins"}.get(text[:1], "")
            out.append(Line(text[1:], mark, 0 if mark == "del" else number[at]))
            at += mark != "del"
    return out


def listing(page: Page, block: Block) -> View:
    """A listing, or what is shown of a supplied file."""
    words = [word for word in block.words[2:] if word != "with-next"]
    want = book.listing(page, block).splitlines()
    path = book.source_path(page, words[0])
    names = [] if words[1:2] == ["lines"] else [n for w in words[1:] if w != "bare" for n in w.split(",")]
    numbered = zip(want, places(want, path.read_text(encoding="utf-8").splitlines()))
    lines = [Line(text, "", number) for text, number in numbered]
    return View(str(path.relative_to(ROOT)), list(map(plain, names)), "as it is", elided(block, lines))
