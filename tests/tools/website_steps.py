"""What a learner sees of a step or a listing: its lines, where they stand in the stage, what is left out."""
from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import book
import book_edits
import book_steps
import book_units
from book_blocks import Block, BookError, Page
from book_steps import Files, Step
from book_units import Unit
from layout import ROOT
from website_code import Fold, Heading, Line, Part, stay

WHAT = {"new": "a new file", "add": "new", "edit": "changes", "remove": "goes", "move": "moves", "supplied": "supplied"}


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
        common = step.file.startswith("common/")
        file = step.file if common else f"chapters/{page.chapter}/{step.file}"
        if step.verb == "supplied":
            view = listing(page, step.block)
            view.what = f"supplied: copy it from {file}"
        else:
            names = [name for unit in units for name in unit.members or (unit.name or unit.kind,)]
            view = View(file, names or [name.rpartition(":")[2] for name in step.names], what(step), [], edit=step.verb == "edit")
            view.parts = parts(step, was, units, files, final)
        view.number = number
        found[step.block.line] = view
    return found


def what(step: Step) -> str:
    """What happens to the code of a step, in a word or two."""
    if step.provisional:
        return "a first version"
    if step.verb == "replace":
        return "becomes" if step.names else "changes"
    after = step.after.rpartition(":")[2].replace("-", " ")
    return WHAT[step.verb] + (f", after {after}" if after else "")


def numbers(units: Sequence[Unit], final: Sequence[Unit]) -> List[int]:
    """For each line of these units, joined, its number in the finished file; 0 where it is not there."""
    firsts, at = [], 1
    for unit in final:
        firsts.append(at)
        at += unit.text.count("\n") + 1
    found: List[int] = []
    for unit in units:
        place = book_units.index_of(final, unit)
        lines = [0] * unit.text.count("\n")
        if place is not None:
            pair = (unit.text.splitlines(), final[place].text.splitlines())
            for a, b, size in difflib.SequenceMatcher(None, *pair, False).get_matching_blocks():
                lines[a : a + size] = range(firsts[place] + b, firsts[place] + b + size)
        if len(found) > 1 and found[-2] and lines[0] == found[-2] + 2:
            found[-1] = lines[0] - 1  # the blank line between this item and the one above
        found += [*lines, 0]
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
    now = book_units.join(units).splitlines()
    places = numbers(units, final[step.file])
    if step.verb == "edit":
        old = book_units.join([was[book_units.find(was, name)] for name in step.names])
        return edit(step.block.code, old, now, places)
    marks = [""] * len(now)
    if step.verb == "replace":
        old = book_units.join([unit for unit in was if unit not in files[step.file]]).splitlines()
        for tag, _, _, first, end in difflib.SequenceMatcher(None, old, now, False).get_opcodes():
            marks[first:end] = ["ins" if tag != "equal" else ""] * (end - first)
    lines = [Line(text, mark, place) for text, mark, place in zip(now, marks, places)]
    return elided(step.block, lines)


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


def edit(code: str, old: str, now: Sequence[str], places: Sequence[int]) -> List[Part]:
    """The lines of an edit; `now` is the item after it, and `places` are the numbers of its lines."""
    hunks, lines = book_edits.hunks(code), old.splitlines()
    starts, at, shift = [], 0, 0
    for number, hunk in enumerate(hunks):
        hits = book_edits.spots(hunk.old, lines, at)
        hit = hits[-1] if number == len(hunks) - 1 else hits[0]
        starts.append(hit + shift)
        at, shift = hit + len(hunk.old), shift + len(hunk.new) - len(hunk.old)

    def left_out(first: int, end: int) -> Fold:
        return stay([Line(now[i], "", places[i]) for i in range(first, end)])

    out: List[Part] = []
    done, at = 0, 0  # hunks that have begun, lines of `now` that have been shown
    for number, text in enumerate(code.splitlines(), 1):
        if text.startswith("@@"):
            out += [Heading(text.strip("@ "))] if number > 1 else []
            at = starts[done] if done < len(hunks) and hunks[done].line == number + 1 else at
        elif book_edits.ELISION.match(text):
            end = starts[done] if done < len(hunks) else len(now)
            out.append(left_out(at, end))
            at = end
        else:
            if done < len(hunks) and hunks[done].line == number:
                at = starts[done]
                done += 1
            gone = text.startswith("-")
            mark = "del" if gone else "ins" if text.startswith("+") else ""
            out.append(Line(text[1:], mark, 0 if gone else places[at]))
            at += not gone
    return out


def listing(page: Page, block: Block) -> View:
    """A listing, or what is shown of a supplied file."""
    words = [word for word in block.words[2:] if word != "with-next"]
    want = book.listing(page, block).splitlines()
    path = book.source_path(page, words[0])
    names = [] if words[1:2] == ["lines"] else [n for w in words[1:] if w != "bare" for n in w.split(",")]
    lines = [Line(text, "", number) for text, number in zip(want, located(want, path))]
    names = [name.rpartition(":")[2] for name in names]
    return View(str(path.relative_to(ROOT)), names, "as it is", elided(block, lines))


def located(want: Sequence[str], path: Path) -> List[int]:
    """The numbers of lines that come from this file, in pieces as long as can be."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found: List[int] = []
    while len(found) < len(want):
        rest = want[len(found) :]
        best: Tuple[int, int] = (0, 0)
        for at, line in enumerate(lines):
            size = 0
            while line == rest[0] and size < min(len(rest), len(lines) - at) and lines[at + size] == rest[size]:
                size += 1
            best = max(best, (size, -at))
        found += range(1 - best[1], 1 - best[1] + best[0]) if best[0] > 1 or rest[0].strip() else [0]
        if not best[0]:
            raise BookError(f"{path}: has no line {rest[0]}")
    return found
