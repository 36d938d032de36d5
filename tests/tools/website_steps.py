"""What a learner sees of a step or a listing: its lines, where they stand in the file, what is left out."""
from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Sequence

import book
import book_steps
import changeform
import layout
import sources
from book_blocks import Block, BookError, Page
from book_steps import Step
from layout import ROOT
from sources import Unit
from website_code import Line

WHAT = {
    "new": "a new file", "add": "new", "edit": "changes", "replace": "changes", "remove": "goes", "move": "moves here",
}  # fmt: skip


@dataclass
class View:
    """A block of code as the page shows it."""

    file: str  # from the root
    names: List[str]
    what: str
    lines: List[Line]
    number: int = 0  # of the step
    edit: bool = False  # only what changes is shown


def views(page: Page) -> Dict[int, View]:
    """The steps of a page, all of the chapter carried out one after the other, and its listings, by their lines."""
    found = {block.line: listing(page, block) for block in page.blocks if block.kind == "listing"}
    steps = book.steps_of(page)
    files, final = (book_steps.start(page.chapter), book_steps.stage(page.chapter)) if steps else ({}, {})
    number = 0
    renamed = {step.file: step.source for step in steps if step.verb == "rename"}
    for step in steps:
        was = list(files.get(step.file, []))
        units = book_steps.apply(step, files, final)
        if step.copied:
            continue  # its block is a command, and is shown as one
        number += 1
        if step.block not in page.blocks:
            continue  # of the first page of the chapter
        there = page.chapter if step.file in final else layout.before(page.chapter)  # it goes, bit by bit
        old = renamed.get(step.file, step.file)
        file = step.file if step.file.startswith("common/") else f"chapters/{there}/{old}"
        if step.verb == "supplied":
            view = listing(page, step.block)
            view.what = f"supplied: copy it from {file}"
        else:
            shown = lines(step, was, units, files.get(step.file, []))
            names = [plain(name) for name in [*named(units, shown)] or step.names]
            names = list(dict.fromkeys(names))  # a banner may be called as its function is
            view = View(file, names, what(step, names), shown, 0, step.verb == "edit")
        view.number = number
        found[step.block.line] = view
    return found


def named(units: Iterable[Unit], shown: Iterable[Line]) -> Iterator[str]:
    """What the units of a step are called; of a list of constants, those in lines that change."""
    changed = {word for line in shown if line.mark for word in re.findall(r"\w+", line.text)}
    for unit in units:
        names = book_steps.names_of(unit)
        yield from [name for name in names if unit.kind == "group" and name in changed] or names


def plain(name: str) -> str:
    """banner:the-poll-set as readers call it."""
    return name.rpartition(":")[2].replace("-", " ")


def some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def what(step: Step, names: List[str]) -> str:
    """What happens to the code of a step, in a word or two."""
    said, gone = WHAT[step.verb] + (f", after {plain(step.after)}" if step.after else ""), list(map(plain, step.names))
    if step.verb == "replace" and gone not in ([], names):
        said = f"in place of {some(gone)}"
    return said + (": a first version" if step.provisional else "")


def places(want: Sequence[str], there: Sequence[str]) -> List[int]:
    """For each line that is wanted the number that it has among these; 0 where it is not there."""
    found = [0] * len(want)
    for a, b, size in difflib.SequenceMatcher(None, want, there, False).get_matching_blocks():
        found[a : a + size] = range(b + 1, b + 1 + size)
    return found


def lines(step: Step, was: Sequence[Unit], units: List[Unit], now: Sequence[Unit]) -> List[Line]:
    """The lines of a step that makes `now` of a file that was otherwise; their numbers are those of `now`."""
    before = [was[sources.find(was, name)] for name in step.names] if step.verb not in ("new", "add", "move") else []
    old = sources.join(before).splitlines()
    if step.verb == "remove":
        shown = [line.strip() for line in step.block.code.splitlines()]
        return [Line(text, "del", 0, text.strip() not in shown) for text in old]
    first = 1 + sum(unit.text.count("\n") + 1 for unit in now[: now.index(units[0])])
    new = [Line(text, "", number) for number, text in enumerate(sources.join(units).splitlines(), first)]
    if step.verb == "move":
        return [line._replace(folded=line.text not in step.block.code.splitlines()) for line in new]
    if step.verb == "edit":
        return edit(step.block.code, old, new)
    gone = sources.join([unit for unit in was if unit not in now]).splitlines()
    stays = places([line.text for line in new], gone)
    if sum(map(bool, stays)) > len(new) / 3:  # else it is as good as new
        new = [line if old else line._replace(mark="ins") for line, old in zip(new, stays)]
    return elided(step.block, new)


def elided(block: Block, whole: List[Line]) -> List[Line]:
    """All lines, those folded that a block leaves out."""
    gaps = book_steps.match_elided(block.code, "".join(line.text + "\n" for line in whole))
    if gaps is None:
        raise BookError(f"{block.where}: differs from the sources; make book-check says where")
    return [line._replace(folded=any(a <= at < b for a, b in gaps)) for at, line in enumerate(whole)]


def edit(code: str, old: Sequence[str], now: Sequence[Line]) -> List[Line]:
    """The lines of an edit: it makes `now` of `old`."""
    out: List[Line] = []
    at = done = 0  # lines of `old` and of `now`
    for hit, hunk in changeform.placed(code[:-1], list(old)):
        skipped = now[done : done + hit - at]
        out += [line._replace(folded=True) for line in skipped] if hunk.line > 2 else []  # line 1 says what is edited
        at, done = hit + len(hunk.old), done + len(skipped)
        for mark, text in zip(hunk.signs, hunk.lines):
            out.append(Line(text, "del") if mark == "-" else now[done]._replace(mark="ins" if mark == "+" else ""))
            done += mark != "-"
    left = now[done:] if changeform.ELISION.match(code.splitlines()[-1]) else []
    return out + [line._replace(folded=True) for line in left]


def listing(page: Page, block: Block) -> View:
    """A listing, or what is shown of a supplied file."""
    words = [word for word in block.words[2:] if word != "with-next"]
    want = book.listing(page, block).splitlines()
    path = book.source_path(page, words[0])
    names = [] if words[1:2] == ["lines"] else [plain(n) for w in words[1:] if w != "bare" for n in w.split(",")]
    numbers = places(want, path.read_text(encoding="utf-8").splitlines())
    whole = [Line(text, "", number) for text, number in zip(want, numbers)]
    return View(str(path.relative_to(ROOT)), names, "as it is", elided(block, whole))
