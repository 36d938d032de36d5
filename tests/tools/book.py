#!/usr/bin/env python3
"""The book: its text and the code are one. .github/WRITING.md has the grammar of the blocks.

    book.py check [NN|FILE ...]     prints what is wrong; exit status 1 where something is
    book.py update [NN|FILE ...]    writes listings, diffs, outputs and steps anew from the sources, and
                                    says which; changes nothing when all is in step
    book.py play NN|FILE ...        writes what the commands of console blocks print into the blocks
    book.py hours                   what each chapter takes, in hours: an estimate
    book.py skeleton NN             prints a walk for the chapter: steps that all compile, in an order that
                                    works, for the author to reorder, split and explain
    book.py steps NN                lists the steps of a chapter, with numbers
    book.py remains NN              prints what the steps of a page still lack to be the stage, as blocks to paste
    book.py edits NN STEP DIR       prints the blocks that lead from the programs after that step to those in DIR
    book.py measure                 pace, old lines, length, predictions and figures of each chapter against what is
                                    allowed
    book.py apply NN [STEP] DIR     writes the programs as they are after that step, or at the end, to DIR; 0 is
                                    where the chapter begins. Files that are there are not overwritten

BOOK=dir takes the Markdown files of another folder.
"""
from __future__ import annotations

import concurrent.futures
import difflib
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
import book_edition  # noqa: E402
import book_edits  # noqa: E402
import book_hours  # noqa: E402
import book_programs  # noqa: E402
import book_skeleton  # noqa: E402
import book_steps  # noqa: E402
import book_units  # noqa: E402
import exercises  # noqa: E402
import readme_lines  # noqa: E402
import stages  # noqa: E402
from book_blocks import Block, BookError, Page  # noqa: E402
from book_steps import Step, StepError  # noqa: E402
from book_units import UnitError  # noqa: E402
from harness import build, session  # noqa: E402
from layout import ROOT, Problem, chapter, chapters, quit_with  # noqa: E402

FOREIGN = ("protocol.md",)  # its blocks are played by tests/test_vectors.py
KINDS = (
    "c listing, c supplied, c step, diff step, diff, console, text output, text captured, c sketch, text sketch, "
    "text drawing, sh "
    "(.github/WRITING.md has the grammar)"
)
TO_DO = (
    "To do one: `make start-NN-slug`, then `make check-NN-slug`, and for hints `make hint-NN-slug`; "
    "[here is how](README.md#how-to-do-the-exercises). [Appendix A1](A1-hints.md) has hints as well."
)
EXERCISE = re.compile(r"^- \[`(\d\d-[a-z0-9-]+)`\]\(([^)]*)\): (.*)", re.M)
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
    if "/" not in file and page.chapter in chapters(ROOT):
        path = ROOT / "chapters" / page.chapter / file
    if not path.is_file():
        raise BookError(f"there is no file {file}")
    return path


# ---- listings ----


def listing(page: Page, block: Block) -> str:
    """The whole text that a listing names. Its block may leave lines out."""
    words = [word for word in block.words[2:] if word not in ("with-next", "over")]
    if not words:
        raise BookError("a listing names a file: c listing FILE NAME[,NAME..] [bare]")
    path, rest = source_path(page, words[0]), words[1:]
    text = path.read_text(encoding="utf-8")
    if rest[:1] == ["lines"]:
        if len(rest) != 4 or rest[2] != "..":
            raise BookError('a range is written: c listing FILE lines "first line" .. "last line"')
        return line_range(text, rest[1], rest[3], words[0])
    bare = "bare" in rest
    names = [n for word in rest if word != "bare" for n in word.split(",") if n]
    if not names:
        return text
    found = book_units.units(text, words[0])
    chosen = [found[book_units.find(found, name, words[0])] for name in names]
    texts = [strip_comment(u) if bare else u.text for u in chosen]
    return "\n".join(texts)


def strip_comment(unit: book_units.Unit) -> str:
    lines = unit.text.splitlines(True)
    return "".join(lines[lines.index(unit.signature + "\n") :]) if unit.kind != "comment" else unit.text


def line_range(text: str, first: str, last: str, file: str) -> str:
    lines = text.splitlines(True)
    begins = [i for i, line in enumerate(lines) if line.strip().startswith(first.strip())]
    if len(begins) != 1:
        raise BookError(f'{len(begins) or "no"} lines of {file} begin with "{first}"; one must')
    indent = re.match(r"\s*", lines[begins[0]]).group()
    if last in ("}", "};"):  # the one that closes what the first line opens
        last = indent + last
    end = next((i for i in range(begins[0], len(lines)) if reaches(lines[i], last)), None)
    if end is None:
        raise BookError(f'no line of {file} behind "{first}" begins with "{last}"')
    return "".join(lines[begins[0] : end + 1])


def reaches(line: str, last: str) -> bool:
    """Does the line begin with `last`? Its indent counts only where `last` is a closing brace."""
    return line.startswith(last) if last.strip() in ("}", "};") else line.strip().startswith(last.strip())


def check_listing(page: Page, block: Block) -> None:
    want = listing(page, block)
    if book_steps.match_elided(block.code, want) is None:
        text = want
        if book_steps.elided(block.code):
            text = refit(block.code, want)
        why = "differs from the source (+):\n" + book_steps.show_diff(block.code, text or want)
        raise Stale(why, text)


def refit(code: str, want: str) -> Optional[str]:
    """A listing with elisions, after the source has changed; None where its pieces have lost their place."""
    shown, lines = code.splitlines(), want.splitlines()
    out: List[str] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, shown, lines, False).get_opcodes():
        gaps = [i for i in range(a, b) if book_steps.ELISION.match(shown[i])]
        if tag == "equal" or not gaps:
            out += lines[c:d]
        elif len(gaps) == 1:  # as many lines above and below it as there were
            out += lines[c : c + gaps[0] - a] + [shown[gaps[0]]] + lines[d - (b - gaps[0] - 1) : d]
        else:
            return None
    text = "".join(line + "\n" for line in out)
    return text if book_steps.match_elided(text, want) is not None else None


# ---- diffs ----


def diff(block: Block) -> str:
    words = block.words[1:]
    if len(words) not in (3, 4) or not all(w in chapters(ROOT) for w in words[:2]):
        raise BookError("a diff is written: diff 06 07 FILE [NAME]")
    sides = []
    for name in words[:2]:
        path = ROOT / "chapters" / name / words[2]
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if len(words) == 4 and text:
            found = book_units.units(text, words[2])
            if book_units.knows(found, words[3]):
                text = found[book_units.find(found, words[3], words[2])].text
            else:
                text = ""
        sides.append(text.splitlines())
    if sides[0] == sides[1]:
        raise BookError(f"{' '.join(words[2:])} is the same in {words[0]} and {words[1]}, or in neither")
    lines = list(difflib.unified_diff(*sides, lineterm=""))[2:]
    out: List[str] = []
    for number, line in enumerate(lines):
        if line.startswith("@@"):
            out += ["@@"] if number else []
        else:
            out.append(line)
    return "".join(line.rstrip() + "\n" for line in out)


def check_diff(page: Page, block: Block) -> None:
    want = diff(block)
    if block.code != want:
        raise Stale("differs from what the sources say (+):\n" + book_steps.show_diff(block.code, want), want)


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
    rest = block.words[3:]
    if len(block.words) < 3 or any(not re.match(r"(in=(\d\d|root|here)|exit=\d+|needs=\w+|loose)$", w) for w in rest):
        raise BookError(
            'an output is written: text output "command" [in=NN|in=root|in=here] [exit=N] [needs=TOOL] [loose]'
        )
    return dict(w.split("=", 1) for w in rest if "=" in w)


def outside() -> Dict[str, str]:
    """The environment without what make and the tests put there: what is printed must not depend on who runs it."""
    ours = re.compile(r"MAKE|MFLAGS|WORKBOOK_|TEST_|(SERVER|CLIENT|HEADERS|WRAPPER|SAN|B|JOBS)$")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


def output(page: Page, block: Block, programs: Dict[str, str]) -> str:
    """Runs the command of an output block where the chapter's programs are."""
    options = output_options(block)
    where, status = options.get("in", ""), int(options.get("exit", "0"))
    command = block.words[2]
    with tempfile.TemporaryDirectory(prefix="book-") as temp:
        cwd = ROOT if where == "root" else Path(temp)
        if where != "root":
            furnish(cwd, command, page, where, programs, block.line)
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


def furnish(cwd: Path, command: str, page: Page, where: str, programs: Dict[str, str], line: int) -> None:
    """Puts what a command runs into its folder: programs of the text, then those of the chapter."""
    names = sorted(set(re.findall(r"\./(\w+)", command)))
    early = programs_here(page, line, names) if where == "here" else {}
    for name in names:
        if name in early:
            (cwd / name).symlink_to(early[name])
            continue
        if f"{name}.c" in programs:
            (cwd / f"{name}.c").write_text(programs[f"{name}.c"])
            line = ["cc", "-O2", "-g", "-Wall", "-Wextra", f"-I{ROOT / 'common'}", f"{name}.c", "-o", name, "-lm"]
            done = subprocess.run(line, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise BookError(f"{name}.c does not compile:\n{done.stdout}")
            continue
        number = own(page, where.replace("here", ""))
        if (ROOT / "chapters" / number / f"{name}.c").exists():
            (cwd / name).symlink_to(build.program(int(number), name)[-1])


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
    if "..." not in shown:
        return shown == lines
    pattern = "".join("(?:.*\n)*?" if s == "..." else re.escape(s) + "\n" for s in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines)) is not None


# ---- sketches and commands ----


def program_of(block: Block) -> str:
    return next((w[8:] for w in block.words if w.startswith("program=")), "")


def programs_of(page: Page) -> Dict[str, str]:
    """The small programs of the text: whole, or edited from one that stands above."""
    found: Dict[str, str] = {}
    for block in page.blocks:
        if block.kind == "sketch" and program_of(block):
            old = next((w[5:] for w in block.words if w.startswith("from=")), "")
            if old and old not in found:
                raise BookError(f"{block.where}: no block above has the program {old}")
            try:
                found[program_of(block)] = book_edits.patched(block.code, found[old]) if old else block.code
            except book_edits.EditError as problem:
                raise BookError(f"{block.where}, line {problem.line} of the block: {problem}") from None
    return found


def sketch_problem(block: Block) -> str:
    flags = [w for w in block.words[2:] if not w.startswith(("program=", "from="))]
    if set(flags) - {"compiles"}:
        return f"a sketch is `{block.lang} sketch`, `c sketch compiles` or `c sketch program=NAME.c`, not: {block.info}"
    if block.kind == "sketch" and block.lang == "c" and ("compiles" in flags or program_of(block)):
        common = tuple(
            (f"common/{p.name}", p.read_text(encoding="utf-8")) for p in sorted((ROOT / "common").glob("*.h"))
        )
        job = book_steps.Compilation("sketch.c", (("sketch.c", block.code), *common))
        text = book_steps.compile_one(job)
        return f"the sketch does not compile:\n{book_steps.complaint(text)}" if text else ""
    if block.lang == "python":
        try:
            compile(block.code, block.where, "exec")
        except SyntaxError as problem:
            return f"the sketch does not compile: {problem}"
    return ""


def sh_problems(page: Page, block: Block) -> List[str]:
    """Compile lines that are not those of a chapter's README."""
    known: Set[str] = set()
    for name in chapters(ROOT):
        if page.chapter == name or page.chapter not in chapters(ROOT):
            known |= {place(v) for v in readme_lines.compile_lines(stages.readme(ROOT, name)).values()}
    found = []
    for line in block.code.splitlines():
        line = re.sub(r"^\$ ", "", line.strip())
        chapter_programs = re.search(r"\s(server|client|test_\w+|avl_show)\.c -o ", line)
        if re.match(r"cc\s", line) and chapter_programs and place(line) not in known:
            found.append(f"no README has this compile line: {line}")
    return found


def place(line: str) -> str:
    """A compile line, wherever common/ is, without a comment behind it."""
    line = re.sub(r"\s+#.*$", "", line)
    return re.sub(r"-I\S*common\b", "-Icommon", " ".join(line.split()))


# ---- sessions ----


def sessions(page: Page) -> List[Tuple[session.Session, List[Block]]]:
    """The console blocks of a page: those of one chapter are one session, until one says `fresh`.

    What the reader has typed into a file, with `cat > rude.py <<'EOF'`, is there in all sessions that begin later.
    """
    found: List[Tuple[session.Session, List[Block]]] = []
    files: Dict[str, str] = {}
    current: Dict[str, int] = {}
    for block in page.blocks:
        if block.kind != "console":
            continue
        options = [w for w in block.words[1:] if w != "fresh"]
        if len(options) > 1:
            raise BookError(f"{block.where}: a session is written: console [NN|here] [fresh]")
        here = options == ["here"]
        try:
            chapter_name = own(page, "" if here or not options else options[0])
            before_it = len(steps_of(page, block.line))
            name = f"here, {before_it}" if here else chapter_name  # after other steps it is another session
            programs = programs_here(page, block.line, re.findall(r"\./(\w+)", block.code)) if here else None
            steps = session.parse(block.code, block.line + 1)
        except (BookError, StepError, session.SessionError) as problem:
            raise BookError(f"{block.where}: {problem}") from None
        if name not in current or "fresh" in block.words:
            current[name] = len(found)
            new = session.Session(str(page.path), int(chapter_name), [], programs=programs, files=dict(files))
            found.append((new, []))
        session_now = found[current[name]][0]
        session_now.steps.extend(steps)
        files.update(match.group(1, 3) for match in (TYPED_FILE.fullmatch(s.command) for s in steps) if match)
        if programs and session_now.programs is not None:
            session_now.programs.update(programs)
        found[current[name]][1].append(block)
    return found


def play(page: Page) -> List[str]:
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
    out: List[str] = []
    lines = block.code.splitlines()
    steps = session.parse(block.code, block.line + 1)
    runs = {s.line: s for s in steps if s.kind == "run"}
    at = 0
    while at < len(lines):
        step = runs.get(block.line + 1 + at)
        out.append(lines[at])
        at += 1
        if not step:
            continue
        typed = step.command.count("\n")
        out += lines[at : at + typed]
        at += typed
        begin = at
        while at < len(lines) and not re.match(r"(\$ |server(\$ |\^C|\|)|# |#$)", lines[at]):
            at += 1
        blanks = 0
        while at > begin and not lines[at - 1].strip():
            at, blanks = at - 1, blanks + 1
        out += said.get(step.line, lines[begin:at])
    return "".join(line + "\n" for line in out)


# ---- a page ----


def steps_of(page: Page, line: Optional[int] = None) -> List[Step]:
    """The steps of a page, or those above a line."""
    return book_steps.steps_in(block for block in page.blocks if line is None or block.line < line)


def programs_here(page: Page, line: int, names: Iterable[str]) -> Dict[str, Path]:
    """The programs of these names as they are after the steps above a line, built."""
    files, final = book_steps.start(own(page), ROOT), book_steps.stage(own(page), ROOT)
    try:
        for step in steps_of(page, line):
            book_steps.apply(step, files, final)
        return book_programs.build(files, set(names), ROOT)
    except (StepError, UnitError) as problem:
        raise BookError(str(problem)) from None


def walk_problems(page: Page) -> List[str]:
    """The steps of a page, and what its chapter's README declares but the page does not show."""
    name = page.path.name
    try:
        steps = steps_of(page)
    except StepError as problem:
        return [str(problem)]
    if page.chapter not in chapters(ROOT):
        return [f"{steps[0].where}: chapter {page.chapter or 'none'} has no programs, so no steps"] if steps else []
    found = place_problems(page, steps)
    walked = book_steps.walk(steps, book_steps.start(page.chapter, ROOT), book_steps.stage(page.chapter, ROOT))
    found += walked.problems + together_problems(page, steps, walked.broken)
    if walked.left:
        found.append(
            f"{name}: after the last step this is not as in chapters/{page.chapter}:"
            + "".join(f"\n    {p}" for p in walked.left)
        )
    elif walked.complete:
        shown = walked.shown | listed(page)
        whole = {step.file for step in steps if step.over}
        for row in stages.rows(stages.readme(ROOT, page.chapter), f"chapters/{page.chapter}/README.md"):
            for each in row.names:
                missing = row.file not in whole and (row.file, each) not in shown
                if row.change in ("new", "changed") and row.kind in stages.DECLARED and missing:
                    found.append(
                        f"{name}: {row.kind} `{each}` of {row.file} is {row.change}, but no step or listing shows it"
                    )
    return found


def text_above(page: Page, steps: Sequence[Step], number: int) -> str:
    """The text between a step and the one before it that is no command which copies."""
    last = next((step.block.line for step in reversed(steps[:number]) if not step.copied), 0)
    return " ".join(line for at, line in page.prose if last < at < steps[number].block.line)


def place_problems(page: Page, steps: Sequence[Step]) -> List[str]:
    """Steps of which the text does not say where they go: readers do not see the info string."""
    found = []
    for number, step in enumerate(steps):
        if step.copied:
            continue  # the command says so
        text = text_above(page, steps, number)
        if step.block.label or step.verb == "edit" and book_edits.heading(step.block.code) is not None:
            continue  # it says so itself
        words = [Path(step.file).name, *[n.rpartition(":")[2] for n in (step.after, *step.names) if n]]
        if not any(re.search(rf"\b{re.escape(word.replace('-', ' '))}\b", text) for word in words):
            found.append(
                f"{step.where}: the text above does not say where this goes: it names none of {', '.join(words)}"
            )
    return found


def together_problems(page: Page, steps: Sequence[Step], broken: Set[int]) -> List[str]:
    """Edits that only compile together where the text above them does not say so, or counts others. The reader, who is
    told to compile after each step, would look for a mistake of his own."""
    found = []
    for first in sorted(number for number in broken if number - 1 not in broken):
        end = next((number for number in range(first, len(steps)) if number not in broken), len(steps) - 1)
        begin, last = first, end  # of all steps that `with-next` ties to these
        while begin and steps[begin - 1].with_next:
            begin -= 1
        while last + 1 < len(steps) and steps[last].with_next:
            last += 1
        said = {number: edits_together(text_above(page, steps, number)) for number in range(begin, first + 1)}
        counts = {number: count for number, count in said.items() if count is not None}
        where = f"{steps[first].where}: after this step {steps[first].file} compiles no more until line"
        if not counts:
            found.append(
                f"{where} {steps[end].block.line}, and the text above it does not say so; write there: "
                f"the next {NUMBERS[end - first + 1]} edits compile together"
            )
        elif all(
            count and (not end < number + count <= last + 1 or number + count - 1 in broken)
            for number, count in counts.items()
        ):
            (count, *_) = counts.values()
            found.append(f"{where} {steps[end].block.line}; the text says that {count} edits compile together")
    return found


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
TOGETHER = re.compile(r"((?:(?!\. |\().)*)\bcompile (?:only )?together\b")


def edits_together(text: str) -> Optional[int]:
    """How many edits a text says to compile only together: 0 where it does not count them, None where it says nothing.
    "This edit and the next two" are three."""
    said = TOGETHER.search(text)
    if not said:
        return None
    numbers = [NUMBERS.index(word) for word in said[1].lower().split() if word in NUMBERS]
    more = re.search(r"\bthis edit and the next\b", said[1], re.I) is not None
    return numbers[-1] + more if numbers else 2 * more


def listed(page: Page) -> Set[Tuple[str, str]]:
    """(file, name) of what the listings of a page show of its own chapter."""
    found: Set[Tuple[str, str]] = set()
    for block in page.blocks:
        words = block.words[2:]
        if block.kind in ("listing", "supplied") and len(words) > 1 and words[1] != "lines":
            file = words[0].replace(f"chapters/{page.chapter}/", "")
            found |= {(file, n.rpartition(":")[2]) for w in words[1:] for n in w.split(",")}
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
            elif block.kind == "diff":
                check_diff(page, block)
            elif block.kind == "output":
                check_output(page, block, programs)
            elif block.kind == "sketch":
                problem = sketch_problem(block)
                found += [f"{block.where}: {problem}"] if problem else []
            elif block.kind == "sh":
                found += [f"{block.where}: {p}" for p in sh_problems(page, block)]
            elif block.kind == "" or block.kind == "hex":
                found.append(f"{block.where}: a block must be one of {KINDS}, this is `{block.info}`")
        except Stale as problem:
            found.append(f"{block.where}: {block.info}: {problem}")
            if stale is not None and problem.text is not None:
                stale[block.line] = problem.text
                found.pop()
        except (BookError, UnitError, AssertionError) as problem:
            found.append(f"{block.where}: {problem}")
    return found


def problems(page: Page, sessions_too: bool = True) -> List[str]:
    found = book_blocks.prose_problems(page)
    if page.path.name in FOREIGN:
        return found
    found += block_problems(page)
    found += walk_problems(page)
    try:
        if sessions_too:
            found += play(page)
        else:
            sessions(page)
    except BookError as problem:
        found.append(str(problem))
    return found


# ---- exercises ----


def exercise_problems(page: Page) -> List[str]:
    """A chapter names each of its exercises as TO_DO and EXERCISE say, and appendix A1 names all of them."""
    name = page.path.name
    if name == "A1-hints.md":
        text = "\n".join(page.lines)
        named = set(re.findall(r"`(\d\d-[a-z0-9-]+)`", text))
        return [f"{name}: there is no hint for {e.name}" for e in exercises.all_exercises(ROOT) if e.name not in named]
    there = {e.name: e for e in exercises.all_exercises(ROOT) if e.chapter == page.chapter}
    text = "\n".join(page.lines)
    section = re.search(r"^## Exercises\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    said = EXERCISE.findall(section[1]) if section else []
    found = []
    if there and (not section or TO_DO not in " ".join(section[1].split())):
        found.append(f"{name}: the section Exercises must begin: {TO_DO}")
    missing = [each for each in there if each not in [named for named, *_ in said]]
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


def step_updates(page: Page) -> Tuple[Dict[int, str], List[str]]:
    """Steps whose code is no longer that of the sources, written anew."""
    new: Dict[int, str] = {}
    found: List[str] = []
    if page.chapter not in chapters(ROOT):
        return new, found
    first, final = book_steps.start(page.chapter, ROOT), book_steps.stage(page.chapter, ROOT)
    for step in steps_of(page):
        if step.provisional or step.verb == "supplied" or step.file not in final:
            continue
        if step.verb == "edit":
            text, problem = refreshed(page, step, final)
            if text:
                new[step.block.line] = text
            found += [problem] if problem else []
            continue
        target, code = final[step.file], step.block.code
        if step.verb == "remove":
            text = removed(step, first.get(step.file, []))
            if text:
                new[step.block.line] = text
            continue
        if book_steps.elided(code):
            try:
                want = target[book_units.find(target, step.names[0] if step.names else "", step.file)].text
            except UnitError as problem:
                found.append(f"{step.where}: {problem}")
                continue
            if book_steps.match_elided(code, want) is None:
                text = refit(code, want)
                if text is None:
                    found.append(f"{step.where}: its `// ...` have lost their place; write it anew:\n{want}")
                else:
                    new[step.block.line] = text
            continue
        try:
            if code.strip():
                names = [book_units.index_of(target, u) for u in book_units.units(code, step.where)]
            else:
                names = [book_units.find(target, n, step.file) for n in step.names]
            if step.verb == "new" and not code.strip():
                names = list(range(len(target)))
        except UnitError as problem:
            found.append(str(problem))
            continue
        if None in names or not names:
            found.append(f"{step.where}: holds what the finished {step.file} has not: update cannot mend that")
            continue
        text = book_units.join([target[i] for i in names])
        if text != code:
            new[step.block.line] = text
    return new, found


def refreshed(page: Page, step: Step, final: book_steps.Files) -> Tuple[str, str]:
    """What an empty edit becomes, to the sources; or why one that is there cannot be applied."""
    files = book_steps.start(page.chapter, ROOT)
    try:
        for early in steps_of(page, step.block.line):
            book_steps.apply(early, files, final)
        if step.block.code.strip():
            book_steps.apply(step, files, final)
            return "", ""
        now, target = files[step.file], final[step.file]
        old = book_units.join([now[book_units.find(now, name, step.file)] for name in step.names])
        new = book_units.join([target[book_units.find(target, name, step.file)] for name in step.names])
    except (StepError, UnitError, KeyError) as problem:
        return "", str(problem)
    if old == new:
        return "", f"{step.where}: {','.join(step.names)} is as in the sources already"
    return book_edits.diff(old, new, f"{step.file}: {', '.join(step.names)}"), ""


def removed(step: Step, was: Sequence[book_units.Unit]) -> str:
    """The lines that a `remove` should show, "" where it is right or nobody knows."""
    items = [was[book_units.find(was, n)] for n in step.names if book_units.knows(was, n)]
    if len(items) < len(step.names):
        return ""
    try:
        book_steps.check_body(step, items)
    except StepError:
        return "".join(unit.signature + "\n" for unit in items)
    return ""


def update(page: Page) -> Tuple[List[str], List[str]]:
    """Writes a page anew; returns what was changed and what could not be."""
    if page.path.name in FOREIGN:
        return [], []
    try:
        new, problems = step_updates(page)
    except StepError as problem:
        new, problems = {}, [str(problem)]
    problems += block_problems(page, new)
    if new:
        book_blocks.rewrite(page, new)
    changed = [f"{b.where}: {b.info}" for b in page.blocks if b.line in new]
    return changed, problems


# ---- for those who follow ----


def list_steps(page: Page) -> str:
    steps = enumerate(steps_of(page), 1)
    return "\n".join(f"{n:3}  {step.where}  {' '.join(step.block.words[2:]) or step.file}" for n, step in steps)


def apply_steps(page: Page, last: Optional[int], target: Path) -> List[str]:
    """Writes the programs as they are after so many steps; returns the files written."""
    steps = steps_of(page)
    if last is not None and last > len(steps):
        raise Problem(f"{page.path.name} has {len(steps)} steps")
    files, final = book_steps.start(own(page), ROOT), book_steps.stage(own(page), ROOT)
    for step in steps[:last]:
        book_steps.apply(step, files, final)
    there = [name for name in files if (target / name).exists()]
    if there:
        raise Problem(f"{target / there[0]} is there already")
    for name, found in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(book_units.join(found), encoding="utf-8")
    return sorted(files)


def remains(page: Page) -> str:
    """The blocks that lead from the end of a page's steps to the stage."""
    walked = book_steps.walk(
        steps_of(page), book_steps.start(own(page), ROOT), book_steps.stage(own(page), ROOT), False
    )
    if not walked.complete:
        raise Problem("\n".join(walked.problems))
    return book_skeleton.between(walked.files, book_steps.stage(own(page), ROOT))


def edits_to(page: Page, last: int, target: Path) -> str:
    """The blocks that lead from the programs after so many steps to those in a folder."""
    files, final = book_steps.start(own(page), ROOT), book_steps.stage(own(page), ROOT)
    for step in steps_of(page)[:last]:
        book_steps.apply(step, files, final)
    paths = {str(p.relative_to(target)): p for p in sorted([*target.glob("*.c"), *target.glob("common/*.h")])}
    return book_skeleton.between(files, {**files, **book_steps.read_files(paths)}, final)


# ---- the command line ----


def chosen(names: Sequence[str]) -> List[Page]:
    if not names:
        return book_blocks.pages(folder())
    paths = book_blocks.paths(folder())
    found = []
    for name in names:
        hits = [p for p in paths if name.isdigit() and p.name.startswith(name.zfill(2) + "-")]
        hits = (
            hits or [p for p in paths if str(p).endswith(f"/{name}")] or [p for p in paths if p.name == Path(name).name]
        )
        if not hits:
            raise Problem(f"{folder()} has no page {name}")
        found += [book_blocks.read(p) for p in hits]
    return found


def main(argv: List[str]) -> int:
    try:
        verb, names = (argv[0], argv[1:]) if argv else ("", [])
        if verb == "check":
            pages = chosen(names)
            for number in sorted({int(p.chapter) for p in pages if p.chapter in chapters(ROOT)}):
                build.ensure_built(number)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
                found = [p for each in pool.map(problems, pages) for p in each]
            found += [p for page in pages for p in exercise_problems(page)]
            found += [p for page in pages for p in book_edition.problems(page, ROOT)]
            print("\n\n".join(found) or "The text and the code agree.")
            return 1 if found else 0
        if verb == "update":
            changed, found = [], []
            for page in chosen(names):
                done, left = update(page)
                changed += done
                found += left
            found += [p for page in chosen(names) for p in walk_problems(page)]
            print("\n".join([f"changed {c}" for c in changed]) or "Nothing to change.")
            # What one step lacks, all that are built on it lack as well, and behind a place of their own.
            found = [p for p in dict.fromkeys(found) if not any(p != q and p.endswith(": " + q) for q in found)]
            print("".join(f"\n{p}\n" for p in found), end="")
            if found:
                print("\nMend these in book/ by hand, then make book-update again: what builds on them may follow.")
            return 1 if found else 0
        if verb == "play" and names:
            for page in chosen(names):
                new = fill(page)
                if new:
                    book_blocks.rewrite(page, new)
                print(f"{page.path.name}: {len(new)} blocks changed")
            return 0
        if verb == "hours" and not names:
            print(book_hours.table(chosen([])))
            return 0
        if verb == "skeleton" and len(names) == 1:
            print(book_skeleton.markdown(chapter(names[0], ROOT), ROOT))
            return 0
        if verb == "steps" and len(names) == 1:
            print(list_steps(chosen(names)[0]))
            return 0
        if verb == "remains" and len(names) == 1:
            print(remains(chosen(names)[0]) or "Nothing: the steps add up to the stage.")
            return 0
        if verb == "edits" and len(names) == 3 and names[1].isdigit():
            print(edits_to(chosen(names[:1])[0], int(names[1]), Path(names[2])) or "Nothing: they are the same.")
            return 0
        if verb == "measure" and not names:
            text, found = book_edition.report(chosen([]), ROOT)
            print(text)
            return 1 if found else 0
        if verb == "apply" and len(names) in (2, 3) and (len(names) == 2 or names[1].isdigit()):
            written = apply_steps(chosen(names[:1])[0], int(names[1]) if len(names) == 3 else None, Path(names[-1]))
            print(f"{names[-1]}: {' '.join(written)}")
            return 0
        quit_with((__doc__ or "").split("\n", 2)[2])
    except (Problem, BookError, StepError, UnitError, AssertionError) as problem:
        quit_with(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
