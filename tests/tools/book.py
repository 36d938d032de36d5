#!/usr/bin/env python3
"""The book: its text and the code are one. -h says what can be done, .github/WRITING.md how a page is written."""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import book_blocks  # noqa: E402
import book_compile  # noqa: E402
import book_edition  # noqa: E402
import book_record  # noqa: E402
import book_steps  # noqa: E402
import changeform  # noqa: E402
import exercises  # noqa: E402
import sources  # noqa: E402
import stages  # noqa: E402
from book_blocks import Block, BookError, Page  # noqa: E402
from book_compile import CompileError  # noqa: E402
from book_steps import Step, StepError  # noqa: E402
from harness import build, session  # noqa: E402
from layout import ROOT, Problem, chapters, quit_with  # noqa: E402
from sources import UnitError  # noqa: E402

FOREIGN = ("protocol.md",)  # its blocks are played by tests/selftests/test_vectors.py
KINDS = (
    "c listing, c supplied, c step, diff step, text step, sh take, console, text output, text captured, c sketch, "
    "text sketch, text drawing, sh "
    "(.github/WRITING.md has the grammar)"
)
OUTPUT = 'text output "COMMAND" [in=NN|root|here] [exit=N] [needs=TOOL] [loose]'
TO_DO = (
    "To do one: `make start-NN-slug`, then `make check-NN-slug`, and for hints `make hint-NN-slug`; "
    "[here is how](README.md#how-to-do-the-exercises). [Appendix A1](A1-hints.md) has hints as well."
)
EXERCISE = re.compile(r"^- \[`(\d\d-[a-z0-9-]+)`\]\(([^)]*)\): (.*)", re.M)
PROMPT = re.compile(r"(\$ |server(\$ |\^C|\|)|# |#$)")
TYPED_FILE = re.compile(r"cat > ([\w.]+) <<'(\w+)'\n(.*\n)\2", re.S)


class Stale(ValueError):
    """A block that is not what the sources say; `text` is what it should be, if that is known."""

    def __init__(self, why: str, text: Optional[str] = None):
        super().__init__(why)
        self.text = text


def folder() -> Path:
    return Path(os.environ.get("BOOK") or ROOT / "book").resolve()


def own(page: Page, given: str = "") -> str:
    """The chapter that a block speaks of: the one it names, or that of the page."""
    name = given or page.chapter
    if name not in chapters(ROOT):
        raise BookError(f"chapter {name or '(none)'} has no programs: name one in the info string")
    return name


def source_path(page: Page, file: str) -> Path:
    path = ROOT / file
    if re.match(r"(src/)?[^/]+$", file) and page.chapter in chapters(ROOT):
        path = ROOT / "chapters" / page.chapter / file
    if not path.is_file():
        raise BookError(f"there is no file {file}")
    return path


# ---- listings ----


def listing(page: Page, block: Block) -> str:
    """The whole text that a listing names. Its block may leave lines out."""
    words = [word for word in block.words[2:] if word != "bare"]
    if not words:
        raise BookError("a listing names a file: c listing FILE NAME[,NAME..] [bare]")
    file, *rest = words
    text = source_path(page, file).read_text(encoding="utf-8")
    if rest[:1] == ["lines"]:
        if len(rest) != 4 or rest[2] != "..":
            raise BookError('a range is written: c listing FILE lines "first line" .. "last line"')
        return line_range(text, rest[1], rest[3], file)
    if not rest:
        return text
    found = sources.units(text, file)
    chosen = [found[sources.find(found, name, file)] for word in rest for name in word.split(",")]
    if "bare" in block.words:
        return "\n".join(unit.text[len(unit.comment) :] for unit in chosen)
    return sources.join(chosen)


def line_range(text: str, first: str, last: str, file: str) -> str:
    lines = text.splitlines(True)
    begins = [i for i, line in enumerate(lines) if line.strip().startswith(first.strip())]
    if len(begins) != 1:
        raise BookError(f'{len(begins) or "no"} lines of {file} begin with "{first}"; one must')
    ends = [i for i in range(begins[0], len(lines)) if lines[i].strip().startswith(last.strip())]
    if not ends:
        raise BookError(f'no line of {file} behind "{first}" begins with "{last}"')
    return "".join(lines[begins[0] : ends[0] + 1])


def check_listing(page: Page, block: Block) -> None:
    want = listing(page, block)
    if book_steps.match_elided(block.code, want) is None:
        elided = any(changeform.ELISION.match(line) for line in block.code.splitlines())
        gone = [line for line in block.code.splitlines() if line not in want.splitlines()]
        gone = [f"    {line}" for line in gone if not changeform.ELISION.match(line)]
        if elided and gone:  # the author knows what is to be shown in their place
            raise Stale("\n".join(["the source has no such lines any more:", *gone]))
        difference = book_steps.show_diff(block.code, want)
        raise Stale(f"differs from the source (+):\n{difference}", None if elided else want)


# ---- outputs ----


NORMAL = (
    (re.compile(r"0x[0-9a-fA-F]{5,}"), "0xADDRESS"),
    (re.compile(r"==\d+=="), "==PID=="),
    (re.compile(r"\bpid[ =]\d+", re.I), "pid N"),
    (re.compile(r"\b\d+(?:\.\d+)?(?= ?(?:ns|us|µs|ms|s|seconds|sec)\b)"), "N"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "HH:MM:SS"),
)


def normal(text: str, loose: bool) -> List[str]:
    for pattern, word in NORMAL:
        text = pattern.sub(word, text)
    if loose:
        text = re.sub(r"[ \t]*\d[\d.,]*", " N", text)
    return [line.rstrip() for line in text.rstrip().splitlines()]


def output_options(block: Block) -> Dict[str, str]:
    options = block.words[3:]
    if len(block.words) < 3 or any(
        not re.fullmatch(r"in=(\d\d|root|here)|exit=\d+|needs=\w+|loose", each) for each in options
    ):
        raise BookError(f"an output is written: {OUTPUT}")
    return dict(each.split("=", 1) for each in options if "=" in each)


def outside() -> Dict[str, str]:
    """The environment without what make and the tests put there: what is printed must not depend on who runs it."""
    ours = re.compile(r"MAKE|MFLAGS|WORKBOOK_|TEST_|(SERVER|CLIENT|HEADERS|WRAPPER|SAN|B|JOBS)$")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


def output(page: Page, block: Block, programs: Dict[str, str]) -> str:
    """Runs the command of an output block where the programs are that it names."""
    options, command = output_options(block), block.words[2]
    status = int(options.get("exit", "0"))
    with tempfile.TemporaryDirectory(prefix="book-") as temp:
        cwd = ROOT if options.get("in") == "root" else Path(temp)
        if cwd != ROOT:
            furnish(cwd, page, block, programs)
        try:
            done = subprocess.run(
                ["sh", "-c", command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=60, env={**outside(), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BookError(f"`{command}` has not ended after 60 s") from None
    text = done.stdout.decode(errors="backslashreplace")
    if done.returncode != status:
        raise BookError(f"`{command}` ended with status {done.returncode}, not {status}:\n{text}")
    return text


def furnish(cwd: Path, page: Page, block: Block, programs: Dict[str, str]) -> None:
    """Puts what a command runs into its folder: programs of the steps so far, of the text, or of the chapter."""
    where, names = output_options(block).get("in", ""), set(re.findall(r"\./(\w+)", block.words[2]))
    early = programs_here(page, block.line, names) if where == "here" else {}
    if where == "here":
        put_sources(cwd, page, block.line, programs)
    for name in sorted(names):
        file = f"{name}.c"
        if name in early:
            (cwd / name).symlink_to(early[name])
        elif file in programs:
            (cwd / file).write_text(programs[file], encoding="utf-8")
            try:
                here = book_steps.texts_of(after(page, steps_of(page, block.line))) if where == "here" else None
                job = job_of(page.chapter, file, programs[file], here)
                program = book_compile.program(job, ("-O2", "-g", "-Wall", "-Wextra"))
            except CompileError as problem:
                raise BookError(f"{file} does not compile:\n{problem}") from None
            (cwd / name).symlink_to(program)
        else:
            number = own(page, where.replace("here", ""))
            if name == "server" or (ROOT / "chapters" / number / file).exists():
                (cwd / name).symlink_to(build.program(int(number), name)[-1])


def put_sources(cwd: Path, page: Page, line: int, programs: Dict[str, str]) -> None:
    """The reader's folder as it is above a line: the files of the steps, and the small programs of the text."""
    for name, text in {**programs, **book_steps.texts_of(after(page, steps_of(page, line)))}.items():
        (cwd / name).parent.mkdir(exist_ok=True)
        (cwd / name).write_text(text, encoding="utf-8")


def check_output(page: Page, block: Block, programs: Dict[str, str]) -> None:
    tool = output_options(block).get("needs", "")
    if tool and not shutil.which(tool):
        return  # WRITING.md says so
    got = output(page, block, programs)
    loose = "loose" in block.words
    if not fits(normal(block.code, loose), normal(got, loose)):
        why = "the command prints something else (+):\n" + book_steps.show_diff(block.code, got)
        raise Stale(why, None if "..." in block.code.splitlines() else got.rstrip("\n") + "\n")


def fits(shown: List[str], lines: List[str]) -> bool:
    """Lines that are `...` stand for any others."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines)) is not None


# ---- sketches and commands ----


def option(block: Block, name: str) -> str:
    return next((word[len(name) + 1 :] for word in block.words if word.startswith(f"{name}=")), "")


def programs_of(page: Page) -> Dict[str, str]:
    """The small programs of the text: whole, or edited from one that stands above."""
    found = programs_of(page.earlier) if page.earlier else {}
    for block in page.blocks:
        name, old = option(block, "program"), option(block, "from")
        if block.kind == "sketch" and name:
            if old and old not in found:
                raise BookError(f"{block.where}: no block above has the program {old}")
            try:
                found[name] = changeform.patched(block.code[:-1], found[old]) if old else block.code
            except changeform.EditError as problem:
                raise BookError(f"{block.where}, line {problem.line} of the block: {problem}") from None
    return found


def job_of(chapter: str, name: str, code: str, here: Optional[Dict[str, str]] = None) -> book_compile.Job:
    """A small program of the text, with the headers that it includes: as they are `here`, in the reader's folder, where
    they are there, else as in the end."""
    paths = [*ROOT.glob("common/*.h"), *ROOT.glob(f"chapters/{chapter}/src/*.h")]
    texts = {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in paths}
    return book_compile.job(name, {**texts, **(here or {}), name: code})


def check_sketch(block: Block) -> None:
    if any(not word.startswith(("program=", "from=")) for word in block.words[2:]):
        raise BookError(f"a sketch is `{block.lang} sketch` or `c sketch program=NAME.c`, not: {block.info}")
    if block.lang == "c" and option(block, "program"):
        words = book_compile.words(job_of(block.path.name[:2], option(block, "program"), block.code))
        if words:
            raise BookError(f"the sketch does not compile:\n{book_compile.complaint(words)}")


def check_sh(page: Page, block: Block) -> None:
    """Compile lines must be those of a chapter's README."""
    names = [page.chapter] if page.chapter in chapters(ROOT) else chapters(ROOT)
    lines = [build.compile_lines(stages.readme(ROOT, name)) for name in names]
    known = {place(line) for each in lines for line in each}
    for line in block.code.splitlines():
        line = line.strip()
        if re.match(r"cc\s(.*\s)?(src/\*|server|client|test_\w+|avl_show)\.c -o ", line) and place(line) not in known:
            raise BookError(f"no README has this compile line: {line}")


def check_take(page: Page, block: Block) -> None:
    """Below it stand the sentences that it prints: what to look at."""
    said = book_blocks.paragraph_below(page, block)
    if not 1 < len(re.findall(r"[.:?!](?= |$)", said)) < 4:
        raise BookError("below a take stand two sentences, or three: what it did, and what to look at")


def place(line: str) -> str:
    """A compile line, wherever common/ is, without a comment behind it."""
    line = re.sub(r"\s+#.*$", "", line)
    return re.sub(r"-I\S*common\b", "-Icommon", " ".join(line.split()))


# ---- sessions ----


Played = Tuple[session.Session, List[Block]]  # a session, and the blocks that it is written in


def sessions(page: Page) -> List[Played]:
    """The console blocks of a page: those of one chapter are one session, until one says `fresh`.

    What the reader has typed into a file, with `cat > rude.py <<'EOF'`, is there in all sessions that begin later.
    """
    found: List[Played] = []
    current: Dict[str, Played] = {}
    files = typed_files(page.earlier) if page.earlier else {}
    for block in (block for block in page.blocks if block.kind == "console"):
        options = [word for word in block.words[1:] if word != "fresh"]
        if len(options) > 1:
            raise BookError(f"{block.where}: a session is written: console [NN|here] [fresh]")
        here = options == ["here"]
        try:
            chapter = own(page, "" if here or not options else options[0])
            programs = programs_here(page, block.line, re.findall(r"\./(\w+)", block.code)) if here else None
            # After other steps it is another session.
            name = f"here, {len(steps_of(page, block.line))}" if here else chapter
            typed = session.parse(block.code, block.line + 1)
        except (BookError, StepError, session.SessionError) as problem:
            raise BookError(f"{block.where}: {problem}") from None
        if name not in current or "fresh" in block.words:
            new = session.Session(str(page.path), int(chapter), [], programs=programs, files=dict(files))
            current[name] = new, []
            found.append(current[name])
        playing, blocks = current[name]
        playing.steps += typed
        blocks.append(block)
        if programs and playing.programs is not None:
            playing.programs.update(programs)
        files.update(written(typed))
    return found


def written(typed: Sequence[session.Step]) -> Dict[str, str]:
    """The files that these commands of a session write."""
    matches = [TYPED_FILE.fullmatch(step.command) for step in typed]
    return {match[1]: match[3] for match in matches if match}


def typed_files(page: Page) -> Dict[str, str]:
    """The files that the reader has typed in the sessions of a page."""
    found = typed_files(page.earlier) if page.earlier else {}
    for block in page.blocks:
        if block.kind == "console":
            found.update(written(session.parse(block.code, block.line + 1)))
    return found


def play_page(page: Page) -> List[str]:
    """Plays all sessions of a page."""
    found = []
    for each, blocks in sessions(page):
        differences = session.play(each)
        if any(len(b.words) > 1 for b in blocks):  # what play.py knows nothing of
            again = f"to see it again: python3 tests/tools/book.py check {page.path.name}"
            differences = [re.sub(r"to see it again: .*", again, text) for text in differences]
        found += differences
    return found


def fill(page: Page) -> Dict[int, str]:
    """The code of the console blocks with the output that their commands give now."""
    new: Dict[int, str] = {}
    for each, blocks in sessions(page):
        outputs: List[List[str]] = []

        def hear(kind: str, text: str) -> None:
            if kind == "command":
                outputs.append([])
            elif kind == "output" and outputs:
                outputs[-1].append(text)

        session.play(each, hear)
        typed = [s for s in each.steps if s.kind in ("run", "start", "interrupt")]
        if len(typed) != len(outputs):
            raise BookError(f"{page.path.name}: the session broke off; `check` says where")
        said = {s.line: out for s, out in zip(typed, outputs) if s.kind == "run"}
        for block in blocks:
            code = filled(block, said)
            if code != block.code:
                new[block.line] = code
    return new


def filled(block: Block, said: Dict[int, List[str]]) -> str:
    """The code of a block with the output of its commands, each by its line in the page."""
    lines = block.code.splitlines()
    for step in reversed(session.parse(block.code, block.line + 1)):
        if step.line in said:
            begin = end = step.line - block.line + step.command.count("\n")
            while end < len(lines) and not PROMPT.match(lines[end]):
                end += 1
            while end > begin and not lines[end - 1].strip():
                end -= 1
            lines[begin:end] = said[step.line]
    return "".join(line + "\n" for line in lines)


# ---- a page ----


def steps_of(page: Page, line: Optional[int] = None) -> List[Step]:
    """The steps of a chapter up to the end of a page, or to a line of it."""
    blocks, earlier = [block for block in page.blocks if line is None or block.line < line], page.earlier
    while earlier:
        blocks, earlier = earlier.blocks + blocks, earlier.earlier
    return book_steps.steps_in(blocks)


def programs_here(page: Page, line: int, names: Iterable[str]) -> Dict[str, Path]:
    """The programs of these names as they are after the steps above a line, built."""
    try:
        return book_steps.build(after(page, steps_of(page, line)), names)
    except StepError as problem:
        raise BookError(str(problem)) from None


def after(page: Page, steps: Sequence[Step]) -> book_steps.Files:
    """The programs as they are after these first steps of a page."""
    files, final = book_steps.start(own(page), ROOT), book_steps.stage(own(page), ROOT)
    for step in steps:
        book_steps.apply(step, files, final)
    return files


def walk_problems(page: Page) -> List[str]:
    """What is wrong with the steps of a page, and with what the text says of them."""
    try:
        steps = steps_of(page)
    except StepError as problem:
        return [str(problem)]
    if page.chapter not in chapters(ROOT):
        return [f"{steps[0].where}: chapter {page.chapter or 'none'} has no programs, so no steps"] if steps else []
    first, final = book_steps.start(page.chapter, ROOT), book_steps.stage(page.chapter, ROOT)
    done = len(steps_of(page.earlier)) if page.earlier else 0
    walked = book_steps.walk(steps, first, final, done=done)
    found = place_problems(page, steps) + walked.problems + together_problems(page, steps, walked.broken)
    if walked.left and not page.goes_on:
        left = "".join(f"\n    {problem}" for problem in walked.left)
        found.append(f"{page.path.name}: after the last step this is not as in chapters/{page.chapter}:{left}")
    return found


def text_above(page: Page, steps: Sequence[Step], number: int) -> str:
    """The text between a step of this page and the one before it that is no command which copies."""
    before = [step for step in steps[:number] if step.block in page.blocks and not step.copied]
    last = before[-1].block.line if before else 0
    return " ".join(line for at, line in page.prose if last < at < steps[number].block.line)


def place_problems(page: Page, steps: Sequence[Step]) -> List[str]:
    """Steps of which the text does not say where they go: readers do not see the info string."""
    found = []
    for number, step in enumerate(steps):
        if step.copied or step.take or step.block.label or step.verb == "edit" or step.block not in page.blocks:
            continue  # it says so itself, or need not
        words = [Path(step.file).name, *[name.rpartition(":")[2] for name in (step.after, *step.names) if name]]
        text = text_above(page, steps, number)
        if not any(re.search(rf"\b{re.escape(word.replace('-', ' '))}\b", text) for word in words):
            what = f"it names none of {', '.join(words)}"
            found.append(f"{step.where}: the text above does not say where this goes: {what}")
    return found


def together_problems(page: Page, steps: Sequence[Step], broken: Set[int]) -> List[str]:
    """Steps after which a file does not compile, where the text above the first of them does not say so. The reader,
    who is told to compile after each step, would look for a mistake of his own."""
    found = []
    for first in sorted(number for number in broken if number - 1 not in broken):
        begin = first  # of all steps that `with-next` ties to it
        while begin and steps[begin - 1].with_next:
            begin -= 1
        text = " ".join(text_above(page, steps, number) for number in range(begin, first + 1))
        if not re.search(r"\bcompile (only )?together\b", text):
            number = next(number for number in range(first, len(steps)) if number not in broken)
            found.append(
                f"{steps[first].where}: after this step {steps[first].file} compiles no more until line "
                f"{steps[number].block.line}, and the text above it does not say so; write there: "
                f"the next {number - first + 1} edits compile together"
            )
    return found


def block_problems(page: Page, stale: Optional[Dict[int, str]] = None, part: int = 0, parts: int = 1) -> List[str]:
    """Blocks that are of no kind or differ; what `update` can mend goes to `stale`. Of `parts` parts looks at one."""
    found: List[str] = []
    try:
        programs = programs_of(page)
    except BookError as problem:
        return [str(problem)]
    for block in page.blocks[part::parts]:
        try:
            if block.kind in ("listing", "supplied"):
                check_listing(page, block)
            elif block.kind == "output":
                check_output(page, block, programs)
            elif block.kind == "sketch":
                check_sketch(block)
            elif block.takes:
                check_take(page, block)
            elif block.kind == "sh":
                check_sh(page, block)
            elif block.kind in ("", "hex"):
                raise BookError(f"a block must be one of {KINDS}, this is `{block.info}`")
        except Stale as problem:
            if stale is not None and problem.text is not None:
                stale[block.line] = problem.text
            else:
                found.append(f"{block.where}: {block.info}: {problem}")
        except (BookError, UnitError, AssertionError) as problem:
            found.append(f"{block.where}: {problem}")
    return found


def problems(page: Page) -> List[str]:
    found = book_blocks.prose_problems(page)
    if page.path.name in FOREIGN:
        return found
    found += block_problems(page) + walk_problems(page)
    try:
        return found + play_page(page)
    except BookError as problem:
        return [*found, str(problem)]


# ---- exercises ----


def exercise_problems(page: Page) -> List[str]:
    """A chapter names each of its exercises as TO_DO and EXERCISE say, and appendix A1 names all of them."""
    name = page.path.name
    text = "\n".join(page.lines)
    if name == "A1-hints.md":
        named = set(re.findall(r"`(\d\d-[a-z0-9-]+)`", text))
        return [f"{name}: there is no hint for {e.name}" for e in exercises.all_exercises(ROOT) if e.name not in named]
    ours = [] if page.goes_on else exercises.all_exercises(ROOT)
    there = {e.name: e for e in ours if e.chapter == page.chapter}
    section = re.search(r"^## Exercises\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    said = EXERCISE.findall(section[1]) if section else []
    found = []
    if there and (not section or TO_DO not in " ".join(section[1].split())):
        found.append(f"{name}: the section Exercises must begin: {TO_DO}")
    missing = [each for each in there if each not in [name for name, *_ in said]]
    found += [f"{name}: Exercises does not name {each}, as a link to its README.md" for each in missing]
    for each, target, task in said:
        exercise = there.get(each)
        if not exercise:
            found.append(f"{name}: there is no exercise {each}")
        elif target != f"../{exercise.where}/README.md":
            found.append(f"{name}: {each} leads to {target}")
        elif exercise.kind != "build" and not task.startswith(f"{exercise.kind.capitalize()}: "):
            found.append(f"{name}: the task of {each} must begin with `{exercise.kind.capitalize()}: `")
    return found


# ---- update ----


def step_updates(page: Page) -> Dict[int, str]:
    """Steps that write whole items of the stage, where these have changed: line of the block -> code. Edits are for
    the author to mend."""
    new: Dict[int, str] = {}
    if page.chapter not in chapters(ROOT):
        return new
    final = book_steps.stage(page.chapter, ROOT)
    for step in (step for step in steps_of(page) if step.block in page.blocks):
        if step.verb in ("new", "add", "replace") and not step.provisional and step.file in final:
            target = final[step.file]
            spots = [sources.index_of(target, unit) for unit in sources.units(step.block.code, step.where)]
            text = sources.join([target[at] for at in spots if at is not None])
            if None not in spots and text != step.block.code:
                new[step.block.line] = text
    return new


def update_page(page: Page) -> Tuple[List[str], List[str]]:
    """Writes a page anew; returns what was changed and what could not be."""
    new: Dict[int, str] = {}
    if page.path.name in FOREIGN:
        return [], []
    found = block_problems(page, new)
    try:
        new.update(step_updates(page))
    except (StepError, UnitError) as problem:
        found.append(str(problem))
    if new:
        book_blocks.rewrite(page, new)
    return [f"{block.where}: {block.info}" for block in page.blocks if block.line in new], found


# ---- the command line ----


def pages_of(names: Sequence[str]) -> List[Page]:
    """The pages of these chapters or of these names, all for none."""
    paths = book_blocks.paths(folder())
    found = []
    for name in names:
        hits = [path for path in paths if name.isdigit() and re.match(f"{name.zfill(2)}[b-e]?-", path.name)]
        hits = hits or [path for path in paths if f"/{path}".endswith(f"/{name}") or path.name.startswith(f"{name}-")]
        hits = hits or [path for path in paths if path.name == Path(name).name]
        if not hits:
            raise Problem(f"{folder()} has no page {name}")
        found += hits
    return [book_blocks.read(path) for path in (found if names else paths)]


def first_steps(page: Page, last: Optional[int]) -> List[Step]:
    """So many steps of a page, all for None."""
    steps = steps_of(page)
    if last is not None and last > len(steps):
        raise Problem(f"{page.path.name} has {len(steps)} steps")
    return steps[:last]


def check(args: argparse.Namespace) -> int:
    """print what is wrong with the pages; exit status 1 where something is"""
    pages = pages_of(args.pages)
    for number in sorted({int(page.chapter) for page in pages if page.chapter in chapters(ROOT)}):
        build.ensure_built(number)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = [problem for each in pool.map(problems, pages) for problem in each]
    for page in pages:
        found += exercise_problems(page) + book_edition.problems(page, ROOT)
    print("\n\n".join(found) or "The text and the code agree.")
    return 1 if found else 0


def update(args: argparse.Namespace) -> int:
    """write listings, outputs and steps anew from the sources, and say which"""
    changed, found = [], []
    for page in pages_of(args.pages):
        print(f"{page.path.name} ...", flush=True)
        done, left = update_page(page)
        changed += done
        print("".join(f"changed {each}\n" for each in done), end="")
        found += left
    found += [problem for page in pages_of(args.pages) for problem in walk_problems(page)]
    print("" if changed else "Nothing was written.\n" if found else "Nothing to change.\n", end="")
    # What one step lacks, all that are built on it lack as well, and behind a place of their own.
    found = [p for p in dict.fromkeys(found) if not any(p != q and p.endswith(": " + q) for q in found)]
    print("".join(f"\n{problem}\n" for problem in found), end="")
    if found:
        print("\nMend these in book/ by hand, then make book-update again: what builds on them may follow.")
    return 1 if found else 0


def play(args: argparse.Namespace) -> int:
    """write what the commands of console blocks print into the blocks"""
    for page in pages_of(args.pages):
        new = fill(page)
        if new:
            book_blocks.rewrite(page, new)
        print(f"{page.path.name}: {len(new)} blocks changed")
    return 0


def steps(args: argparse.Namespace) -> int:
    """list the steps of a chapter, with numbers"""
    for number, step in enumerate(steps_of(args.page), 1):
        said = step.file if step.copied else " ".join(step.block.words[2:])
        print(f"{number:3}  {step.where}  {step.take and f'take-{step.take}: '}{said}")
    return 0


def apply(args: argparse.Namespace) -> int:
    """write the programs as they are after a step, or at the end, to a folder"""
    files = book_steps.texts_of(after(args.page, first_steps(args.page, args.step)))
    for name in files:
        if (args.folder / name).exists():
            raise Problem(f"{args.folder / name} is there already")
    for name, text in files.items():
        (args.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (args.folder / name).write_text(text, encoding="utf-8")
    print(f"{args.folder}: {' '.join(sorted(files))}")
    return 0


def record(args: argparse.Namespace) -> int:
    """print the steps that lead from there to the programs in a folder, or to the stage"""
    files, final = after(args.page, first_steps(args.page, args.step)), book_steps.stage(own(args.page), ROOT)
    target = final
    if args.folder:
        paths = [path for each in ("*.c", "src/*.[ch]", "common/*.h") for path in args.folder.glob(each)]
        target = book_steps.read_files({str(path.relative_to(args.folder)): path for path in sorted(paths)})
    print(book_record.record(files, target, final) or "Nothing: they are the same.")
    return 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="book.py", description="The book: its text and the code are one.",
        epilog="PAGE is a chapter's number or a file's name. BOOK=dir takes the Markdown files of another folder.",
    )  # fmt: skip
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for run in (check, update, play, steps, apply, record):
        verb = verbs.add_parser(run.__name__, help=run.__doc__, description=run.__doc__)
        verb.set_defaults(run=run)
        if run in (check, update, play):
            verb.add_argument("pages", metavar="PAGE", nargs="+" if run is play else "*", help="all without")
        else:
            verb.add_argument("page", metavar="PAGE")
    for name in ("apply", "record"):
        verb = verbs.choices[name]
        how = {"nargs": "?"} if name == "apply" else {}
        verb.add_argument("step", metavar="STEP", type=int, help="0 is where the chapter begins", **how)
        verb.add_argument("folder", metavar="DIR", type=Path, **({} if how else {"nargs": "?"}))
    return parser


def main(argv: List[str]) -> int:
    args = arguments().parse_args(argv)
    try:
        if "page" in args:
            args.page = pages_of([args.page])[-1]
        return args.run(args)
    except (Problem, BookError, StepError, UnitError, AssertionError) as problem:
        quit_with(str(problem))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
