"""What a chapter holds to: pace, two voices, length, predictions, figures."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import book_blocks
import changeform
from book_blocks import Block, Page
from layout import chapters

UNFINISHED = "A page that is not finished yet lies in another folder: BOOK=dir python3 tests/tools/book.py check NN"
PREDICT = re.compile(r"> \*\*Predict:\*\* \S")
FIGURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")
DRAWN = {"<title": "title", "<desc": "description", "prefers-color-scheme: dark": "dark mode"}
SENTENCE = 6  # words that follow a stop: what is still wrong


class Limit(NamedTuple):
    """How many of a thing a chapter has. The least is asked only of one with programs: the introduction and the look
    back need not be long, nor ask and draw."""

    least: int
    most: Optional[int]
    what: str
    advice: str = ""


LIMITS = {
    "words": Limit(2500, 4300, "words", f". {UNFINISHED}"),
    "predictions": Limit(3, 5, "predictions (`> **Predict:** ..`)"),
    "figures": Limit(3, None, "figures (SVG)"),
}


# Edits that a reader types between two runs: three are good.
MOST_EDITS = 5

# Pages that speak in two voices, the main line and asides; each shows the function that it is about, whole and once.
# A page that is told anew comes in. When all are here, so is each of its checks for all.
WHOLE = {
    "hello": ("server.c", "main"), "protocol": ("server.c", "one_request"),
    "nonblocking": ("server.c", "connection_io"), "event-loop": ("server.c", "state_req"),
    "four-troubles": ("server.c", "one_round"),
    "basic-server": ("common/request.h", "parse_req"), "hashtables": ("common/hashtable.h", "hm_help_resizing"),
    "chosen-keys": ("common/hash.h", "str_hash"), "what-free-puts-off": ("common/mem_tidy.h", "mem_tidy"),
    "buffers": ("common/buf.h", "buf_make_room"), "serialization": ("server.c", "reply_request"),
    "batches": ("server.c", "state_req"),
    "avl-tree": ("common/avl.h", "avl_fix"),
    "sorted-set": ("common/zset.h", "zset_query"), "values-have-a-type": ("server.c", "do_zquery"),
    "timers": ("server.c", "one_round"),
    "heap-ttl": ("server.c", "expire_key"), "heap": ("common/heap.h", "heap_update"),
    "all-at-once": ("server.c", "process_timers"),
    "thread-pool": ("common/thread_pool.h", "worker"), "the-pause": ("server.c", "destroy_zset_work"),
    "whose-turn": ("src/conn.c", "connection_io"), "what-it-costs": ("src/batch.c", "try_one_request"),
    "waiting-for-memory": ("src/db.c", "lookup_key"), "side-by-side": ("src/ahead.c", "fetch_ahead"),
    "ten-thousand-connections": ("src/main.c", "one_round"), "buffers-on-loan": ("src/conn.c", "connection_io"),
    "cycle": ("src/cycle.c", "run_cycle"), "who-is-right": ("expire_lab.c", "renew_key"),
    "all-or-nothing": ("src/watch.c", "watch_key"), "small-print": ("src/watch.c", "touch_one"),
    "the-price": ("src/t_multi.c", "do_exec"),
    "one-message-much-work": ("src/t_pubsub.c", "do_publish"), "what-happens-to-a-key": ("src/notify.c", "notify"),
    "who-wants-to-hear-it": ("src/inbox.c", "inbox_send"), "overtaken": ("src/inbox.c", "inbox_add_reply"),
    "a-good-listener": ("src/inbox.c", "end_reader"),
    "nothing-is-lost": ("src/effect.c", "effect_done"),
    "pull-the-plug": ("src/aof_batch.c", "aof_batch_right"),
    "when-the-disk-says-no": ("src/aof.c", "aof_commit"), "in-a-new-file": ("src/aof_tail.c", "begin_anew"),
    "resp": ("common/resp.h", "resp_walk"), "whose-words": ("src/batch.c", "answer_batch"),
    "what-it-can": ("src/command.c", "do_request"), "ten-pairs": ("src/turn.c", "may_take"),
    "five-stars": ("common/glob.h", "glob_match"),
    "a-log-that-stays-short": ("src/rewrite.c", "put_in_place"), "who-waits": ("src/aof_tail.c", "aof_step"),
    "the-child-alone": ("src/rewrite.c", "run_child"), "while-you-sleep": ("src/rewrite.c", "is_long"),
}  # fmt: skip
ASIDE = (20, 60)  # words
IN_BRACKETS = 6  # words in parentheses; what needs more is an aside


def problems(page: Page, root: Path) -> List[str]:
    """What a chapter does not hold to."""
    if not page.chapter:
        return []
    has_programs = page.chapter in chapters(root) or page.chapter == "02"
    runs, stops = runs_of(page)
    name, asked, drawn = page.path.name, predictions(page), figures(page)
    counts: Dict[str, List[Tuple[str, int]]] = {
        "words": [(name, book_blocks.words(page))],
        "predictions": [(name, len(asked))],
        "figures": [(name, len(drawn))],
    }
    found = []
    for key, (least, most, what, advice) in LIMITS.items():
        least //= 3 if page.earlier or page.goes_on else 1  # of a chapter of several pages
        for where, count in counts[key]:
            if most is not None and count > most or has_programs and count < least:
                span = f"{least} or more" if most is None else f"{least} to {most}" if least else f"at most {most}"
                found.append(f"{where}: {count} {what}; a chapter has {span}{advice}")
    found += edit_problems(page) + voice_problems(page) + whole_problems(page)
    if runs[-1]:
        found.append(f"{runs[-1][-1].where}: nothing is played after this last edit")
    for stop, run in zip(stops, runs[1:]):
        if run and not says_something(page, stop.line, run[0].line):
            found.append(f"{stop.where}: a stop says what is still wrong; no sentence follows it")
    for at in asked:
        if has_programs and not is_answered(page, at):
            found.append(f"{name}:{at}: no session or output follows that answers the prediction")
    for figure, text in drawn.items():
        lacks = [f"{what} ({needs})" for needs, what in DRAWN.items() if needs not in text]
        found += [f"{name}: the figure {figure} has no {what}" for what in lacks]
    return found


# ---- pace ----


def typed(page: Page) -> List[List[Block]]:
    """The edits that the reader types up to each run, whoever plays it, and those behind the last one."""
    runs: List[List[Block]] = [[]]
    stops = [block.line for block in runs_of(page)[1]]
    for block in page.blocks:
        if block.kind == "step" and not block.folded:
            runs[-1].append(block)
        elif block.line in stops or block.kind == "captured" and re.search(r"^\$ ", block.code, re.M):
            runs.append([])
    return runs


def edit_problems(page: Page) -> List[str]:
    advice = "then a run and a sentence on what is still wrong, or a take (.github/WRITING.md)"
    long = [run for run in typed(page) if len(run) > MOST_EDITS]
    return [f"{run[0].where}: {len(run)} edits; here at most {MOST_EDITS}, {advice}" for run in long]


def runs_of(page: Page) -> Tuple[List[List[Block]], List[Block]]:
    """The steps up to each stop, those behind the last one, and the stops: what runs the reader's programs so far."""
    runs: List[List[Block]] = [[]]
    stops: List[Block] = []
    changes = [len(page.lines)] if page.goes_on else [b.line for b in page.blocks if b.kind == "step" or b.takes]
    last = max(changes, default=len(page.lines))
    for block in page.blocks:
        if block.kind == "step" and not block.folded or block.takes:
            runs[-1].append(block)
        elif is_stop(block, block.line > last):
            stops.append(block)
            runs.append([])
    return runs, stops


def is_stop(block: Block, complete: bool) -> bool:
    """`complete`: what has been typed is the stage."""
    if block.kind == "console":
        return "here" in block.words or complete and not any(re.fullmatch(r"\d\d", word) for word in block.words[1:])
    if block.kind == "output":
        elsewhere = any(word.startswith("in=") for word in block.words) or "./" not in block.words[2]
        return "in=here" in block.words or complete and not elsewhere
    return False


def says_something(page: Page, first: int, last: int) -> bool:
    """Is there a sentence between two lines?"""
    said = [text for number, text in page.prose if first < number < last and not text.startswith("#")]
    return len(re.findall(r"\w+", " ".join(said))) >= SENTENCE


# ---- two voices, and the function that a page is about ----


def voice_problems(page: Page) -> List[str]:
    main, asides = book_blocks.voices(page)
    lengths = {number: book_blocks.count(text) for number, text in asides.items()}
    found = [f"{page.path.name}:{number}: an aside of {length} words; it has {ASIDE[0]} to {ASIDE[1]}"
             for number, length in lengths.items() if not ASIDE[0] <= length <= ASIDE[1]]  # fmt: skip
    text = "".join(f"{line}\n" for _, line in main)
    text = re.sub(r"`[^`]*`", lambda code: re.sub("[()]", "'", code[0]), text)
    text = re.sub(r"!\[[^\]]*\]|(?<=\])\([^)]*\)", lambda away: "\n" * away[0].count("\n"), text)
    for hit in re.finditer(r"\(([^()]*)\)", text) if page.slug in WHOLE else ():
        if book_blocks.count(hit[1]) > IN_BRACKETS:
            at = main[text.count("\n", 0, hit.start())][0]
            said = " ".join(hit[1].split()[:IN_BRACKETS])
            found.append(f"{page.path.name}:{at}: more than {IN_BRACKETS} words in parentheses ({said} ..): an aside?")
    return found


def whole_problems(page: Page) -> List[str]:
    file, name = WHOLE.get(page.slug, ("", ""))
    if not name:
        return []
    steps = [block for block in page.blocks if block.kind == "step" and block.words[2] == file]
    edits = [block.line for block in steps if name in ",".join(block.words[4:]).split(",") or defines(block, name)]
    whole = [block for block in page.blocks if not block.folded and shows_whole(block, file, name)]
    if [block.line >= max(edits, default=0) for block in whole] == [True]:
        return []
    places = ", ".join(str(block.line) for block in whole) or "nowhere"
    advice = f"behind its last edit (c listing {file} {name}); it does in line {places}"
    return [f"{page.path.name}: {name} of {file} is what the page is about: it shows it whole once, {advice}"]


def defines(block: Block, name: str) -> bool:
    """Does a function begin and end in this block, with all its lines?"""
    code = re.search(rf"^\w[^\n;]*\b{name}\([^;]*?\{{\n(.*?)^\}}", block.code, re.M | re.S)
    return code is not None and not any(changeform.ELISION.match(line) for line in code[1].splitlines())


def shows_whole(block: Block, file: str, name: str) -> bool:
    """A listing, or a step that is final."""
    final = block.kind == "listing" or (block.kind, block.lang) == ("step", "c") and "provisional" not in block.words
    return final and block.words[2] == file and defines(block, name)


# ---- predictions and figures ----


def predictions(page: Page) -> List[int]:
    return [number for number, line in page.prose if PREDICT.match(line)]


def is_answered(page: Page, at: int) -> bool:
    """Does what a prediction asks for follow, before the next heading or prediction?"""
    ends = [number for number, line in page.prose if re.match(r"#{1,6} ", line) or PREDICT.match(line)]
    end = min((number for number in ends if number > at), default=len(page.lines) + 1)
    return any(block.kind in ("console", "output", "captured") and at < block.line < end for block in page.blocks)


def figures(page: Page) -> Dict[str, str]:
    """The text of each picture; what is not there is told with the links."""
    names = dict.fromkeys(FIGURE.findall("\n".join(line for _, line in page.prose)))
    paths = {name: page.path.parent / name for name in names}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.is_file()}
