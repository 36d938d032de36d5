"""The steps of a chapter: applied in order to the stage before, compiled, compared with the stage."""
from __future__ import annotations

import concurrent.futures
import difflib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import book_edits
import book_units
import headers
from book_blocks import Block
from book_edits import ELISION, TRIVIAL, EditError
from book_units import Unit, UnitError
from layout import ROOT, before, sources

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only"]
Files = Dict[str, List[Unit]]  # "server.c", "common/buf.h" -> units


@dataclass
class Step:
    """One step block, read."""

    block: Block
    file: str
    verb: str  # edit, new, add, replace, remove; supplied, which is no edit
    names: List[str] = field(default_factory=list)
    after: str = ""
    provisional: bool = False
    with_next: bool = False
    over: bool = False  # what is supplied takes the place of what is there
    copied: bool = False  # supplied by a command that copies it, which shows nothing of it

    @property
    def where(self) -> str:
        return self.block.where


class StepError(ValueError):
    """A step that cannot be understood or applied."""


USAGE = {
    "edit": "diff step FILE edit NAME[,NAME..]",
    "new": "c step FILE new",
    "add": "c step FILE add [NAME,..] after=NAME",
    "replace": "c step FILE replace NAME[,NAME..]",
    "remove": "text step FILE remove NAME[,NAME..]",
}


def parse(block: Block) -> Step:
    words = block.words[2:]
    if block.kind == "supplied":
        if not words:
            raise StepError(f"{block.where}: write it as c supplied FILE, and what of it is shown as for a listing")
        return Step(block, words[0], "supplied", with_next="with-next" in words, over="over" in words)
    if len(words) < 2 or words[1] not in USAGE:
        raise StepError(f"{block.where}: a step is one of: " + "; ".join(USAGE.values()))
    step = Step(block, words[0], words[1])
    for word in words[2:]:
        if word in ("provisional", "with-next"):
            setattr(step, word.replace("-", "_"), True)
        elif word.startswith("after="):
            step.after = word[6:]
        elif not step.names and "=" not in word:
            step.names = [name for name in word.split(",") if name]
        else:
            raise StepError(f"{block.where}: {word} says nothing here: {USAGE[step.verb]}")
    if (step.verb == "add") != bool(step.after) or (step.verb == "remove" and not step.names):
        raise StepError(f"{block.where}: write it as {USAGE[step.verb]}")
    if block.lang != USAGE[step.verb].split()[0] or (step.verb == "edit" and not step.names):
        raise StepError(f"{block.where}: write it as {USAGE[step.verb]}")
    if block.label and block.label != label(step):
        raise StepError(f"{block.where}: this is not where it goes: {block.label}; write {label(step) or 'nothing'}")
    if step.verb == "edit":
        if step.provisional:
            raise StepError(
                f"{block.where}: an edit needs no `provisional`: what it leaves open is looked at in the end"
            )
        said = book_edits.heading(block.code)
        names = [name.rpartition(":")[2].replace("-", " ") for name in (Path(step.file).name, *step.names)]
        if said is not None and not any(re.search(rf"\b{re.escape(name)}\b", said) for name in names):
            raise StepError(f"{block.where}: `@@ {said} @@` names none of {', '.join(names)}")
    return step


def steps_in(blocks: Iterable[Block]) -> List[Step]:
    """The steps of these blocks. One `sh supplied` block may copy several files."""
    found: List[Step] = []
    for block in blocks:
        if block.kind in ("step", "supplied"):
            found.append(parse(block))
        elif block.copies:
            found += copied(block)
    return found


def copied(block: Block) -> List[Step]:
    """What a block of `cp` lines supplies: headers to `common`, programs of the chapter to the reader's folder."""
    files: List[str] = []
    chapter = f"chapters/{block.path.name[:2]}"
    for line in block.code.splitlines():
        command, *words = shlex.split(line)
        for word in words[:-1]:
            found = re.fullmatch(rf"\.\./(common|{chapter})/(\w+\.[ch])", word)
            if command != "cp" or not found or words[-1] != ("common" if found[1] == "common" else "."):
                raise StepError(f"{block.where}: {word}: write it as cp ../common/X.h common, or cp ../{chapter}/X.c .")
            files.append(f"common/{found[2]}" if found[1] == "common" else found[2])
    if not files:
        raise StepError(f"{block.where}: it copies nothing")
    steps = [Step(block, file, "supplied", with_next=True, over=True, copied=True) for file in files]
    steps[-1].with_next = False
    return steps


def label(step: Step) -> str:
    """The first line of a step that adds, if its block says where it goes; "" for other steps."""
    kind, _, name = step.after.rpartition(":")
    spot = f"the {kind} {name.replace('-', ' ')}" if kind in ("banner", "comment") else name
    return f"@@ {step.file}: after {spot} @@" if step.verb == "add" else ""


# ---- stages ----


def read_files(paths: Dict[str, Path]) -> Files:
    return {name: book_units.units(path.read_text(encoding="utf-8"), name) for name, path in paths.items()}


def stage(name: Optional[str], root: Path = ROOT, labs: bool = True) -> Files:
    """The files of a chapter, with all headers there are by then; none for None."""
    if name is None:
        return {}
    paths = {p.name: p for p in sources(name, root) if labs or p.name in ("server.c", "client.c")}
    for header, path in headers.headers(root).items():
        if headers.built_in(path)[0] <= name:
            paths[f"common/{header}"] = path
    return read_files(paths)


def start(name: str, root: Path = ROOT) -> Files:
    """What the reader has when a chapter begins: the pair of the chapter before and its headers."""
    return stage(before(name, root), root, labs=False)


# ---- one step ----


def elided(code: str) -> bool:
    return any(ELISION.match(line) for line in code.splitlines())


def match_elided(code: str, text: str) -> Optional[List[Tuple[int, int]]]:
    """The ranges of lines of `text` that the elisions in `code` stand for; None where it does not fit."""
    shown, lines = code.splitlines(), text.splitlines()
    pieces: List[List[str]] = [[]]
    for line in shown:
        if ELISION.match(line):
            pieces.append([])
        else:
            pieces[-1].append(line)
    if len(pieces) == 1:
        return [] if shown == lines else None
    at, gaps = 0, []
    for number, piece in enumerate(pieces):
        if number == 0:
            begin = 0
        elif number == len(pieces) - 1:
            begin = len(lines) - len(piece)
        else:
            begin = next((i for i in range(at + 1, len(lines) + 1) if lines[i : i + len(piece)] == piece), -1)
        if begin < at + (number > 0) or lines[begin : begin + len(piece)] != piece:
            return None
        if number:
            gaps.append((at, begin))
        at = begin + len(piece)
    return gaps


def unfold(step: Step, now: Sequence[Unit], final: Sequence[Unit]) -> str:
    """The whole code of a `replace` with `// ...`: these stand for lines that stay as they are."""
    if len(step.names) != 1 or step.verb != "replace" or step.provisional:
        raise StepError(f"{step.where}: `// ...` needs a step that replaces one item, and is not provisional")
    old = now[book_units.find(now, step.names[0], step.file)]
    new = final[book_units.find(final, step.names[0], f"the finished {step.file}")]
    gaps = match_elided(step.block.code, new.text)
    if gaps is None:
        raise StepError(
            f"{step.where}: {step.names[0]} differs from the sources:\n" + show_diff(step.block.code, new.text)
        )
    was, lines, at = old.text.splitlines(), new.text.splitlines(), 0
    for first, last in gaps:
        left_out = lines[first:last]
        hit = next((i for i in range(at, len(was)) if was[i : i + len(left_out)] == left_out), None)
        if hit is None:
            raise StepError(
                f"{step.where}: `// ...` stands for lines that stay as they are, but these change:\n"
                + show_diff("\n".join(was), "\n".join(left_out))
            )
        at = hit + len(left_out)
    return new.text


def show_diff(old: str, new: str, limit: int = 20) -> str:
    lines = [d for d in difflib.ndiff(old.splitlines(), new.splitlines()) if d[0] in "+-"]
    more = [f"... and {len(lines) - limit} lines more"] if len(lines) > limit else []
    return "\n".join("    " + line for line in lines[:limit] + more)


def code_units(step: Step, files: Files, final: Files) -> List[Unit]:
    """The units that a step's code holds."""
    code = step.block.code
    if not code.strip():
        raise StepError(
            f"{step.where}: the block is empty; `book.py update` fills it where the info string names the items"
        )
    if elided(code):
        code = unfold(step, files.get(step.file, []), final.get(step.file, []))
    return book_units.units(code, step.where)


def check_names(step: Step, found: Sequence[Unit]) -> None:
    if step.verb == "add" and step.names:
        spots = [book_units.find(found, name, "the code of the block") for name in step.names]
        if spots != list(range(len(found))):
            has = ",".join(book_units.label(u, found) for u in found)
            raise StepError(f"{step.where}: the code holds {has}, the info string says {','.join(step.names)}")


def apply(step: Step, files: Files, final: Files) -> List[Unit]:
    """Carries out a step on `files`; returns the units that its code holds."""
    file = step.file
    if file not in final:
        raise StepError(f"{step.where}: the chapter has no {file}; it has {', '.join(sorted(final))}")
    try:
        if step.verb == "supplied":
            if (file in files) != step.over and not step.copied:
                there = "is there already: write `over` behind it" if file in files else "is not there: no `over`"
                raise StepError(f"{step.where}: {file} {there}")
            files[file] = list(final[file])
            return []
        if step.verb == "new":
            if file in files:
                raise StepError(f"{step.where}: {file} is there already")
            files[file] = code_units(step, files, final)
            return files[file]
        if file not in files:
            raise StepError(f"{step.where}: there is no {file} yet; its first step is `new`")
        now = list(files[file])
        if step.verb == "remove":
            gone = sorted(book_units.find(now, name, file) for name in step.names)
            check_body(step, [now[i] for i in gone])
            files[file] = [u for i, u in enumerate(now) if i not in gone]
            return []
        if step.verb == "edit":
            first, last = neighbours(step, now, [book_units.find(now, name, file) for name in step.names])
            found = book_units.units(edited(step, book_units.join(now[first:last])), step.where)
            files[file] = now[:first] + found + now[last:]
            return found
        found = code_units(step, files, final)
        check_names(step, found)
        if step.verb == "add":
            for unit in found:
                if book_units.index_of(now, unit) is not None:
                    raise StepError(f"{step.where}: {unit.label} is in {file} already; is this a `replace`?")
            at = spot(step, now)
            files[file] = now[:at] + found + now[at:]
            return found
        names = step.names
        if names:
            gone = [book_units.find(now, name, file) for name in names]
        else:
            gone = [i for i in (book_units.index_of(now, u) for u in found) if i is not None]
        first, last = neighbours(step, now, gone)
        for unit in found:
            if book_units.index_of(now[:first] + now[last:], unit) is not None:
                raise StepError(f"{step.where}: {unit.label} would be in {file} twice")
        files[file] = now[:first] + found + now[last:]
        return found
    except UnitError as problem:
        text = str(problem)
        raise StepError(text if text.startswith(step.where) else f"{step.where}: {text}") from None


def neighbours(step: Step, now: Sequence[Unit], spots: Sequence[int]) -> Tuple[int, int]:
    """The range of items that a step changes."""
    if not spots or list(spots) != list(range(spots[0], spots[0] + len(spots))):
        raise StepError(
            f"{step.where}: replaces items that do not follow one another in {step.file}; "
            "write two steps, the first with `with-next`"
        )
    return spots[0], spots[-1] + 1


def edited(step: Step, text: str) -> str:
    """The items of an edit, with its lines taken out and put in."""
    if not step.block.code.strip():
        raise StepError(f"{step.where}: the edit is empty; `book.py update` writes the one that leads to the sources")
    try:
        return book_edits.patched(step.block.code, text)
    except EditError as problem:
        place = f"{step.block.path.name}:{step.block.line + problem.line}"
        raise StepError(f"{place}: {step.file}, {','.join(step.names)}: {problem}") from None


def spot(step: Step, now: Sequence[Unit]) -> int:
    return book_units.find(now, step.after, step.file) + 1


def check_body(step: Step, items: Sequence[Unit]) -> None:
    """What a `remove` shows must be lines of the item: its first one, or all of it."""
    lines = {line.strip() for unit in items for line in unit.text.splitlines()}
    for line in step.block.code.splitlines():
        if line.strip() and line.strip() not in ("...", "// ...") and line.strip() not in lines:
            raise StepError(f"{step.where}: this is no line of {','.join(step.names)}: {line.strip()}")
    if not step.block.code.strip():
        raise StepError(f"{step.where}: show at least one line of {','.join(step.names)}")


def text_problems(step: Step, found: Sequence[Unit], final: Files) -> List[str]:
    """Where the code of a step is not what the sources have."""
    target = final[step.file]
    problems, as_final = [], 0
    for unit in found:
        at = book_units.index_of(target, unit)
        same = at is not None and target[at].text == unit.text
        as_final += same
        if step.provisional or same or step.verb == "edit":
            continue
        if at is None:
            problems.append(f"{step.where}: {unit.label} is not in the finished {step.file}: is it `provisional`?")
        else:
            problems.append(
                f"{step.where}: {unit.label} differs from the sources (+):\n" + show_diff(unit.text, target[at].text)
            )
    if step.provisional and found and as_final == len(found):
        problems.append(f"{step.where}: this is what the finished {step.file} has, so it is not provisional")
    return problems


# ---- compiling ----


class Compilation(NamedTuple):
    """A file to compile, with all files of ours that it includes."""

    file: str
    texts: Tuple[Tuple[str, str], ...]


@functools.lru_cache(maxsize=None)
def compiler() -> Tuple[str, str]:
    """The compiler and what it says it is."""
    cc = os.environ.get("CC") or ("gcc" if shutil.which("gcc") else "cc")
    done = subprocess.run([cc, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return cc, done.stdout


def included(text: str) -> List[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)


def closure(file: str, texts: Dict[str, str]) -> Set[str]:
    found, waiting = {file}, [file]
    while waiting:
        for name in included(texts[waiting.pop()]):
            path = f"common/{name}"
            if path in texts and path not in found:
                found.add(path)
                waiting.append(path)
    return found


def compilations(files: Files, touched: Set[str]) -> List[Compilation]:
    """What must be compiled once the files in `touched` have changed."""
    texts = {name: book_units.join(found) for name, found in files.items()}
    jobs = []
    for file in sorted(texts):
        parts = closure(file, texts)
        if parts & touched and (file.endswith(".c") or file in touched):
            jobs.append(Compilation(file, tuple((name, texts[name]) for name in sorted(parts))))
    return jobs


def compile_one(job: Compilation, cache: Optional[Path] = None) -> str:
    """The compiler's complaints, "" where there are none. Results are kept by content."""
    cc, version = compiler()
    cache = cache or ROOT / "build" / "book" / "compiled"
    key = hashlib.sha256(repr((version, FLAGS, job)).encode()).hexdigest()[:40]
    kept = cache / key
    try:
        return kept.read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        for name, text in job.texts:
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        what = [job.file]
        if job.file.endswith(".h"):
            (Path(folder) / "header.c").write_text(f'#include "{job.file}"\n')
            what = ["header.c"]
        done = subprocess.run(
            [cc, *FLAGS, "-Icommon", *what], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    result = done.stdout if done.returncode or done.stdout else ""
    cache.mkdir(parents=True, exist_ok=True)
    part = cache / f"{key}.{os.getpid()}.{id(job)}"
    part.write_text(result, encoding="utf-8")
    part.replace(kept)
    return result


def compile_all(jobs: Sequence[Compilation]) -> Dict[Compilation, str]:
    unique = list(dict.fromkeys(jobs))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return dict(zip(unique, pool.map(compile_one, unique)))


def complaint(text: str, limit: int = 8) -> str:
    """The lines of a compiler's output that matter."""
    lines = [line for line in text.splitlines() if re.search(r": (fatal )?(error|warning):", line)] or text.splitlines()
    return "\n".join("    " + line for line in lines[:limit])


# ---- all steps of a chapter ----


@dataclass
class Walk:
    """What came of the steps of a chapter."""

    problems: List[str]
    # (file, name) of what steps show, provisional ones left out
    shown: Set[Tuple[str, str]] = field(default_factory=set)
    left: List[str] = field(default_factory=list)  # where the end differs from the stage
    complete: bool = False  # every step could be applied
    broken: Set[int] = field(default_factory=set)  # steps with `with-next` after which their file does not compile
    files: Files = field(default_factory=dict)  # after the last step that could be applied
    stay: int = 0  # lines that steps which change something show although they stay
    change: int = 0


def walk(steps: Sequence[Step], first: Files, final: Files, compiled_too: bool = True) -> Walk:
    """Applies the steps, compiles after each group, compares the end with the stage."""
    files = {name: list(found) for name, found in first.items()}
    result = Walk([], files=files)
    jobs: List[Tuple[str, List[Compilation]]] = []
    between: Dict[int, List[Compilation]] = {}  # what the reader, who sees no `with-next`, compiles all the same
    touched: Set[str] = set()
    last: Dict[Tuple[str, str], str] = {}  # (file, label) -> the step that wrote it
    for number, step in enumerate(steps):
        was = list(files.get(step.file, []))
        try:
            found = apply(step, files, final)
        except (StepError, UnitError) as problem:
            result.problems += [str(problem), f"{step.where}: the steps behind it were not looked at"]
            break
        result.problems += text_problems(step, found, final)
        if step.verb in ("edit", "replace"):
            stay, change = shown_lines(step, was, files[step.file])
            result.stay, result.change = result.stay + stay, result.change + change
        last.update({(step.file, unit.label): step.where for unit in found})
        if not step.provisional:
            for unit in found:
                result.shown |= {(step.file, name) for name in (unit.members or (unit.name,))}
        touched.add(step.file)
        if step.with_next and number == len(steps) - 1:
            result.problems.append(f"{step.where}: `with-next`, but no step comes next")
        elif step.with_next and step.verb != "supplied":
            between[number] = [job for job in compilations(files, {step.file}) if job.file == step.file]
        if not step.with_next or number == len(steps) - 1:
            jobs.append((step.where, compilations(files, touched)))
            touched = set()
    else:
        result.complete = True
        result.left = end_problems(files, final, last)
    if not compiled_too:
        return result
    compiled = compile_all([job for group in [*(group for _, group in jobs), *between.values()] for job in group])
    result.broken = {number for number, group in between.items() if any(compiled[job] for job in group)}
    for where, group in jobs:
        for job in group:
            if compiled[job]:
                result.problems.append(
                    f"{where}: after this step {job.file} does not compile:\n{complaint(compiled[job])}"
                )
    return result


def shown_lines(step: Step, was: Sequence[Unit], now: Sequence[Unit]) -> Tuple[int, int]:
    """How many lines a changing step shows that stay as they were, and how many others."""
    if step.verb == "edit":
        return book_edits.shares(step.block.code)
    code = [line for line in step.block.code.splitlines() if not TRIVIAL.match(line) and not ELISION.match(line)]
    old = book_units.join([unit for unit in was if unit not in now]).splitlines()
    same = difflib.SequenceMatcher(None, [line for line in old if not TRIVIAL.match(line)], code, False)
    stay = sum(block.size for block in same.get_matching_blocks())
    return stay, len(code) - stay


def end_problems(files: Files, final: Files, last: Optional[Dict[Tuple[str, str], str]] = None) -> List[str]:
    """Where the files after the last step differ from the stage; `last` says which step wrote what last."""
    problems = []
    for name in sorted(set(files) | set(final)):
        if name not in files:
            problems.append(f"{name} is not there")
        elif name not in final:
            problems.append(f"{name} is still there, the chapter has none")
        else:
            problems += file_problems(name, files[name], final[name], last or {})
    return problems


def file_problems(name: str, now: Sequence[Unit], final: Sequence[Unit], last: Dict[Tuple[str, str], str]) -> List[str]:
    if book_units.join(now) == book_units.join(final):
        return []
    lacks, differs, has, details = [], [], [], []
    for unit in final:
        at = book_units.index_of(now, unit)
        if at is None:
            lacks.append(book_units.label(unit, final))
        elif now[at].text != unit.text:
            differs.append(book_units.label(unit, final))
            wrote = last.get((name, unit.label))
            if wrote:
                details.append(
                    f"{wrote} wrote {differs[-1]} last; the sources have (+):\n{show_diff(now[at].text, unit.text)}"
                )
    for unit in now:
        if book_units.index_of(final, unit) is None:
            has.append(book_units.label(unit, now))
    said = (("lacks", lacks), ("has another", differs), ("still has", has))
    problems = [f"{name} {verb} {', '.join(names)}" for verb, names in said if names] + details
    if not problems:
        order = [book_units.label(u, final) for u in final]
        mine = [book_units.label(u, now) for u in now]
        at = next(i for i, (a, b) in enumerate(zip(order, mine)) if a != b)
        problems.append(f"{name} has another order: {mine[at]} stands where {order[at]} should")
    return problems
