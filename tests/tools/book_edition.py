"""What a chapter holds to: pace, old lines, length, predictions, figures."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import book_blocks
import book_steps
from book_blocks import Block, Page
from book_steps import StepError
from layout import chapters

MOST_EDITS = 10  # between two stops
MOST_OLD = 1 / 3  # of the lines in steps that change something
WORDS = (2500, 4300)
UNFINISHED = (
    ". A page that is not finished yet lies in another folder until then: BOOK=dir python3 tests/tools/book.py check NN"
)
PREDICTIONS = (3, 5)
FIGURES = 3
SENTENCE = 6  # words that follow a stop: what is still wrong
ANSWERS = ("console", "output", "captured")  # blocks that may follow a prediction
PREDICT = re.compile(r"> \*\*Predict:\*\* \S")
FIGURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")


@dataclass
class Measured:
    """A chapter in numbers, and what is wrong with these."""

    name: str
    words: int
    steps: int = 0
    stops: int = 0
    longest: int = 0  # steps without a stop
    old: Optional[float] = None
    predictions: int = 0
    figures: int = 0
    problems: List[str] = field(default_factory=list)


def is_chapter(page: Page) -> bool:
    return page.chapter != ""


def has_programs(page: Page, root: Path) -> bool:
    """Has it a stage? What has none (the introduction, the look back) need not be long, nor ask and draw."""
    return page.chapter in chapters(root) or page.chapter == "02"


def measure(page: Page, root: Path) -> Measured:
    found = Measured(page.path.name, book_blocks.words(page))
    low, high = WORDS
    if found.words > high or found.words < low and has_programs(page, root):
        what = f"{page.path.name}: {found.words} words; a chapter has {low} to {high}"
        found.problems.append(what + UNFINISHED * (found.words < low))
    pace(page, found)
    old_lines(page, root, found)
    predictions(page, root, found)
    figures(page, root, found)
    return found


# ---- pace ----


def is_stop(page: Page, block: Block, steps: Sequence[Block]) -> bool:
    """Does the block run what the reader has typed so far?"""
    done = [step for step in steps if step.line < block.line]
    own = "here" in block.words or len(done) == len(steps) and done  # after the last step that is the stage
    if block.kind == "console":
        return bool(own) and not any(re.fullmatch(r"\d\d", word) for word in block.words[1:])
    return block.kind == "output" and ("in=here" in block.words or bool(own) and not _elsewhere(block))


def _elsewhere(block: Block) -> bool:
    return any(word.startswith("in=") for word in block.words) or "./" not in block.words[2]


def pace(page: Page, found: Measured) -> None:
    steps = [block for block in page.blocks if block.kind == "step"]
    found.steps = len(steps)
    since: List[Block] = []
    last: Optional[Block] = None  # a stop that nothing has been said about yet
    for block in page.blocks:
        if block in steps:
            found.problems += _unsaid(page, last, block.line)
            last = None
            since.append(block)
            found.longest = max(found.longest, len(since))
            if len(since) == MOST_EDITS + 1:
                found.problems.append(
                    f"{block.where}: the {len(since)}th edit since the last stop ({since[0].where} is the first); "
                    f"at most {MOST_EDITS}, then `console here` and a sentence on what is still wrong"
                )
        elif is_stop(page, block, steps):
            if since:
                found.stops += 1
            since, last = [], block
    if since:
        found.problems.append(f"{since[-1].where}: nothing is played after this last edit")


def _unsaid(page: Page, stop: Optional[Block], line: int) -> List[str]:
    if stop is None:
        return []
    said = [text for number, text in page.prose if stop.line < number < line and not text.startswith("#")]
    if len(re.findall(r"\w+", " ".join(said))) >= SENTENCE:
        return []
    return [f"{stop.where}: a stop says what is still wrong; no sentence follows it"]


# ---- old lines ----


def old_lines(page: Page, root: Path, found: Measured) -> None:
    if page.chapter not in chapters(root):
        return
    try:
        steps = book_steps.steps_in(page.blocks)
        walked = book_steps.walk(
            steps, book_steps.start(page.chapter, root), book_steps.stage(page.chapter, root), False
        )  # fmt: skip
    except StepError:
        return  # test_steps_lead_to_the_stage says why
    if walked.stay + walked.change == 0:
        return
    found.old = walked.stay / (walked.stay + walked.change)
    if found.old > MOST_OLD:
        found.problems.append(
            f"{page.path.name}: {found.old:.0%} of the lines in changing steps stay as they were, at most"
            f" {MOST_OLD:.0%}: show less around the changes"
        )


# ---- predictions and figures ----


def predictions(page: Page, root: Path, found: Measured) -> None:
    places = [number for number, line in page.prose if PREDICT.match(line)]
    found.predictions = len(places)
    headings = [number for number, line in page.prose if re.match(r"#{1,6} ", line)]
    for number in places:
        ends = [n for n in headings + places if n > number] + [len(page.lines) + 1]
        if has_programs(page, root) and not any(
            block.kind in ANSWERS and number < block.line < min(ends) for block in page.blocks
        ):
            found.problems.append(
                f"{page.path.name}:{number}: no session or output follows that answers the prediction"
            )
    low, high = PREDICTIONS
    if has_programs(page, root) and not low <= len(places) <= high:
        found.problems.append(
            f"{page.path.name}: {len(places)} predictions (`> **Predict:** ..`); a chapter has {low} to {high}"
        )


def figures(page: Page, root: Path, found: Measured) -> None:
    names = list(dict.fromkeys(FIGURE.findall("\n".join(line for _, line in page.prose))))
    found.figures = len(names)
    if has_programs(page, root) and len(names) < FIGURES:
        found.problems.append(f"{page.path.name}: {len(names)} figures (SVG); a chapter has {FIGURES} or more")
    for name in names:
        path = page.path.parent / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for needs, what in (("<title", "title"), ("<desc", "description"), ("prefers-color-scheme: dark", "dark mode")):
            if text and needs not in text:
                found.problems.append(f"{page.path.name}: the figure {name} has no {what} ({needs})")


# ---- the whole book ----


def problems(page: Page, root: Path) -> List[str]:
    """What a chapter does not hold to."""
    return measure(page, root).problems if is_chapter(page) else []


def report(pages: Sequence[Page], root: Path) -> Tuple[str, List[str]]:
    """A table of all chapters, and what is wrong with them."""
    rows = [["chapter", "words", "edits", "stops", "most between", "old lines", "predictions", "figures", ""]]
    found: List[str] = []
    for m in [measure(page, root) for page in pages if is_chapter(page)]:
        state = f"{len(m.problems)} problems" if m.problems else "within the limits"
        old = "-" if m.old is None else f"{m.old:.0%}"
        rows.append([m.name, *map(str, (m.words, m.steps, m.stops, m.longest, old, m.predictions, m.figures)), state])
        found += m.problems
    rows.insert(1, ["at most", f"{WORDS[0]}-{WORDS[1]}", "", "", str(MOST_EDITS), f"{MOST_OLD:.0%}",
                    f"{PREDICTIONS[0]}-{PREDICTIONS[1]}", f"{FIGURES}+", ""])  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) if i in (0, 8) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *found]), found
