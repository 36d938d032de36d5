"""The steps of a chapter: applied in order to the stage before, compiled, compared with the stage."""
from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

import book_compile
import changeform
import headers
import layout
import sources
from book_blocks import Block, BookError
from book_compile import CompileError, Job
from changeform import ELISION, EditError
from layout import ROOT, made_of
from sources import Unit, UnitError

Files = Dict[str, List[Unit]]  # "server.c", "common/buf.h" -> units

USAGE = {
    "edit": "diff step FILE edit NAME,.. [with-next]",
    "new": "c step FILE new [provisional] [with-next]",
    "add": "c step FILE add NAME,.. after=NAME [provisional] [with-next]",
    "replace": "c step FILE replace NAME,.. [provisional] [with-next]",
    "remove": "text step FILE remove NAME,.. [with-next]",
    "move": "text step FILE move NAME,.. from=FILE [after=NAME] [provisional] [with-next]",
    "rename": "sh step FILE rename from=FILE",
}
TAKE = "sh take [FILE [but=NAME,..]].. [with-next]"


class StepError(ValueError):
    """A step that cannot be understood or applied."""


@dataclass
class Step:
    """One step block, read."""

    block: Block
    file: str
    verb: str  # a word of USAGE; supplied and take, which are no edits
    names: List[str] = field(default_factory=list)
    after: str = ""
    provisional: bool = False
    with_next: bool = False
    source: str = ""  # the file that it moves from
    copied: bool = False  # done by a command that shows nothing of it
    take: str = ""  # the `make take-..` that it is a part of

    @property
    def where(self) -> str:
        return self.block.where


# ---- reading ----


def steps_in(blocks: Iterable[Block]) -> List[Step]:
    """The steps of these blocks. A block of commands may be several, and those that are folded are part of a take."""
    found: List[Step] = []
    take = ""
    for block in blocks:
        if block.words[1:2] == ["step"]:
            found.append(parse(block))
            if block.folded and not take:
                raise StepError(f"{block.where}: a step in <details> is part of a take: write {TAKE} above it")
            found[-1].take = take if block.folded else ""
        elif block.takes:
            take, steps = taken(block)
            found += steps
        elif block.kind == "supplied":
            if len(block.words) < 3:
                raise StepError(f"{block.where}: write it as c supplied FILE, and what is shown as for a listing")
            found.append(Step(block, block.words[2], "supplied"))
        elif block.copies:
            found += copied(block)
    return found


def parse(block: Block) -> Step:
    words = block.words[2:]
    if len(words) < 2 or words[1] not in USAGE:
        raise StepError(f"{block.where}: a step is one of: " + "; ".join(USAGE.values()))
    usage = USAGE[words[1]]  # says how many names there are, and which options
    options = [word for word in words[2:] if f"[{word}]" in usage]
    after = [word[6:] for word in words[2:] if word.startswith("after=")]
    source = [word[5:] for word in words[2:] if word.startswith("from=")]
    names = [word for word in words[2:] if word not in options and not word.startswith(("after=", "from="))]
    given = block.lang, len(names), len(source), len(after) or usage.count("[after=")
    if given != (usage.split()[0], usage.count(" NAME"), usage.count("from="), usage.count("after=")):
        raise StepError(f"{block.where}: write it as {usage}")
    step = Step(
        block, words[0], words[1], [name for word in names for name in word.split(",")], "".join(after),
        "provisional" in options, "with-next" in options, "".join(source), copied=words[1] == "rename",
    )  # fmt: skip
    wanted = place(step.file, step.after) if step.after else ""
    if block.label not in ("", wanted):
        raise StepError(f"{block.where}: this is not where it goes: {block.label}; write {wanted or 'nothing'}")
    if step.verb == "edit":
        said = block.code.partition("\n")[0]
        plain = [name.rpartition(":")[2].replace("-", " ") for name in (Path(step.file).name, *step.names)]
        if not re.match(r"@@ .* @@$", said) or not any(re.search(rf"\b{re.escape(name)}\b", said) for name in plain):
            wanted = f"@@ {step.file}: {', '.join(plain[1:])} @@"
            raise StepError(f"{block.where}: its first line must say what changes, as in {wanted}")
    return step


def copied(block: Block) -> List[Step]:
    """What a block of `cp` lines supplies: headers to `common`, programs of the chapter to the reader's folder."""
    files: List[str] = []
    chapter = f"chapters/{block.path.name[:2]}"
    for line in block.code.splitlines():
        command, *words = shlex.split(line)
        for word in words[:-1]:
            found = re.fullmatch(rf"\.\./(?:(common)|{chapter}|{chapter}/(src))/(\w+\.[ch])", word)
            folder = found and (found[1] or found[2] or ".")
            if command != "cp" or not found or words[-1] != folder:
                raise StepError(f"{block.where}: {word}: write it as cp ../common/X.h common, or cp ../{chapter}/X.c .")
            files.append(found[3] if folder == "." else f"{folder}/{found[3]}")
    if not files:
        raise StepError(f"{block.where}: it copies nothing")
    steps = [Step(block, file, "supplied", with_next=True, copied=True) for file in files]
    steps[-1].with_next = False
    return steps


def taken(block: Block) -> Tuple[str, List[Step]]:
    """The name of a take, and what it does to whole files: the steps folded below it are the rest."""
    name = re.fullmatch(rf"make take-({block.path.name[:2]}-[a-z0-9-]+)\n", block.code)
    if not name:
        raise StepError(f"{block.where}: a take holds one line, as make take-{block.path.name[:2]}-name")
    steps: List[Step] = []
    for word in block.words[2:]:
        if word.startswith("but=") and steps:
            steps[-1].names += word[4:].split(",")
        elif re.fullmatch(r"[\w/]+\.[ch]", word):
            steps.append(Step(block, word, "take", copied=True, take=name[1]))
        elif word != "with-next" or not steps:
            raise StepError(f"{block.where}: write it as {TAKE}")
    for step in steps[-1:]:
        step.with_next = "with-next" in block.words
    return name[1], steps


def place(file: str, after: str) -> str:
    """The line that says where new code goes, as readers see it."""
    kind, _, name = after.rpartition(":")
    spot = f"the {kind} {name.replace('-', ' ')}" if kind in ("banner", "comment") else name
    return f"@@ {file}: after {spot} @@"


def edit(old: str, new: str, said: str) -> str:
    """The code of the edit that leads from one text to the other."""
    return "".join(f"{line.rstrip()}\n" for line in [f"@@ {said} @@", *changeform.diff(old, new, 1).split("\n")])


# ---- stages ----


def read_files(paths: Dict[str, Path]) -> Files:
    return {name: sources.units(path.read_text(encoding="utf-8"), name) for name, path in paths.items()}


def stage(name: Optional[str], root: Path = ROOT, labs: bool = True) -> Files:
    """The files of a chapter, with all headers there are by then; none for None."""
    if name is None:
        return {}
    pair = [*layout.server_of(name, root), "client.c"]
    paths = {file: root / "chapters" / name / file for file in layout.files_of(name, root) if labs or file in pair}
    for header, path in headers.headers(root).items():
        if headers.built_in(path)[0] <= name:
            paths[f"common/{header}"] = path
    return read_files(paths)


def start(name: str, root: Path = ROOT) -> Files:
    """What the reader has when a chapter begins: the pair of the chapter before and its headers."""
    return stage(layout.before(name, root), root, labs=False)


def names_of(unit: Unit) -> List[str]:
    """What a unit is called; a group by what is in it."""
    return [member.name for member in unit.members if member.kind != "comment"] if unit.kind == "group" else [unit.slug]


# ---- one step ----


def apply(step: Step, files: Files, final: Files) -> List[Unit]:
    """Carries out a step on `files`; returns the units that its code holds."""
    file, was = step.file, files.get(step.file)
    if file not in final and step.verb == "take" and was is not None:
        del files[file]
        return []
    if file not in final and was is None and step.verb != "rename":  # what the chapter has no more goes, bit by bit
        raise StepError(f"{step.where}: the chapter has no {file}; it has {', '.join(sorted(final))}")
    if step.verb == "supplied":
        if was is not None:
            raise StepError(f"{step.where}: {file} is there already, and what a reader has typed stays: write {TAKE}")
        files[file] = list(final[file])
        return []
    if step.verb == "take":
        files[file] = merged(step, was or [], final[file])
        return []
    if step.source and step.source not in files:
        raise StepError(f"{step.where}: there is no {step.source}")
    if step.verb == "rename":
        files[file] = files.pop(step.source)
        return []
    if (was is None) != (step.verb == "new"):
        there = "there is no {} yet; its first step is `new`" if was is None else "{} is there already"
        raise StepError(f"{step.where}: {there.format(file)}")
    try:
        if step.verb == "move":
            files[file], found = moved(step, was or [], files)
        else:
            files[file], found = changed(step, was or [])
        if not files[file]:
            del files[file]
    except UnitError as problem:
        raise StepError(f"{step.where}: {problem}") from None
    except EditError as problem:
        line = step.block.line + problem.line
        raise StepError(f"{step.block.path.name}:{line}: {file}, {','.join(step.names)}: {problem}") from None
    return found


def merged(step: Step, was: List[Unit], final: List[Unit]) -> List[Unit]:
    """The units of the finished file, but for those that later steps write: these are as they were, or not there."""
    for name in step.names:
        if not sources.knows([*was, *final], name):
            raise StepError(f"{step.where}: there is no {name} in {step.file}")
    found: List[Unit] = []
    for unit in final:
        at = sources.index_of(was, unit)
        if not any(unit.is_called(name) for name in step.names):
            found.append(unit)
        elif at is not None:
            found.append(was[at])
    return found


def changed(step: Step, was: List[Unit]) -> Tuple[List[Unit], List[Unit]]:
    """The units of a file after a step, and those of them that the step has written."""
    code = step.block.code
    if not code.strip():
        raise StepError(f"{step.where}: the block is empty")
    gone = sorted(sources.find(was, name, step.file) for name in step.names) if step.verb != "add" else []
    if step.verb == "remove":
        check_shown(step, [was[at] for at in gone])
        return [unit for at, unit in enumerate(was) if at not in gone], []
    if gone and gone != list(range(gone[0], gone[-1] + 1)):
        raise StepError(
            f"{step.where}: changes items that do not follow one another in {step.file}; "
            "write two steps, the first with `with-next`"
        )
    first = gone[0] if gone else sources.find(was, step.after, step.file) + 1 if step.after else 0
    last = first + len(gone)
    if step.verb == "edit":
        code = changeform.patched(code[:-1], sources.join(was[first:last]))
    found = sources.units(code, "the code")
    if step.verb == "add" and [sources.find(found, name, "the code") for name in step.names] != [*range(len(found))]:
        has = ",".join(sources.label(unit, found) for unit in found)
        raise StepError(f"{step.where}: the code holds {has}, the info string says {','.join(step.names)}")
    rest = was[:first] + was[last:]
    for unit in found:
        if sources.index_of(rest, unit) is not None:
            raise StepError(f"{step.where}: {unit.label} would be in {step.file} twice")
    return was[:first] + found + was[last:], found


def moved(step: Step, was: List[Unit], files: Files) -> Tuple[List[Unit], List[Unit]]:
    """The units of a file after others have moved into it, and these. The block shows a line of each as it is from now
    on: perhaps without `static`."""
    there, shown, found = files[step.source], step.block.code.splitlines(), []
    for name in step.names:
        unit = there[sources.find(there, name, step.source)]
        bare = Unit(*unit.key, re.sub(r"^static ", "", unit.text, 1, re.M), members=unit.members)
        found += [each for each in (unit, bare) if {*shown} & {*each.text.splitlines()}][:1]
    if not len(found) == len(shown) == len(step.names):
        raise StepError(f"{step.where}: show a line of each of {','.join(step.names)}, as it is in {step.file}")
    files[step.source] = [unit for unit in there if not any(unit.same(each) for each in found)]
    first = sources.find(was, step.after, step.file) + 1 if step.after else len(was)
    return was[:first] + found + was[first:], found


def check_shown(step: Step, items: Sequence[Unit]) -> None:
    """What a `remove` shows must be lines of the items: the first of each, or all."""
    lines = {line.strip() for unit in items for line in unit.text.splitlines()}
    for line in step.block.code.splitlines():
        if line.strip() not in lines | {"", "..."}:
            raise StepError(f"{step.where}: this is no line of {','.join(step.names)}: {line.strip()}")


def text_problems(step: Step, found: Sequence[Unit], final: Sequence[Unit]) -> List[str]:
    """Where the code of a step is not what the sources have."""
    if step.verb == "edit":
        return []  # what it leaves open is looked at in the end
    targets = [next((target for target in final if target.same(unit)), None) for unit in found]
    if step.provisional:
        same = found and all(target == unit for unit, target in zip(found, targets))
        return [f"{step.where}: this is what the finished {step.file} has, so it is not provisional"] if same else []
    problems = []
    for unit, target in zip(found, targets):
        if target is None:
            problems.append(f"{step.where}: {unit.label} is not in the finished {step.file}: is it `provisional`?")
        elif target != unit:
            difference = show_diff(unit.text, target.text)
            problems.append(f"{step.where}: {unit.label} differs from the sources (+):\n{difference}")
    return problems


def show_diff(old: str, new: str, limit: int = 20) -> str:
    lines = [d for d in difflib.ndiff(old.splitlines(), new.splitlines()) if d[0] in "+-"]
    more = [f"... and {len(lines) - limit} lines more"] if len(lines) > limit else []
    return "\n".join("    " + line for line in lines[:limit] + more)


def match_elided(code: str, text: str) -> Optional[List[Tuple[int, int]]]:
    """The ranges of lines of `text` that the elisions in `code` stand for; None where it does not fit."""
    pattern = "".join(
        r"((?:.*\n)+?)" if ELISION.match(line) else re.escape(line) + "\n" for line in code.splitlines()
    )
    found = re.fullmatch(pattern, text)
    if not found:
        return None
    spans = map(found.span, range(1, found.re.groups + 1))
    return [(text.count("\n", 0, first), text.count("\n", 0, last)) for first, last in spans]


# ---- compiling ----

# What a session runs; each step is compiled with all warnings by itself. A program of one file is built as its reader
# builds it, since a page may show what comes of undefined behaviour (04). A server of many files takes long to compile,
# and need not be fast.
BUILD = ("-std=gnu11", "-w", "-pthread", "-include", "staging.h")

# What a session needs and the page does not show: output comes line by line, as on a terminal, and a program that
# has its port written into it as htons(1234) takes the session's.
STAGING = """\
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void as_on_a_terminal(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
}

__attribute__((unused)) static unsigned short port_of_the_session(void) {
    const char *text = getenv("PORT");
    return (unsigned short)(text ? atoi(text) : 1234);
}
"""


def texts_of(files: Files) -> Dict[str, str]:
    return {name: sources.join(found) for name, found in files.items()}


def jobs_of(files: Files, touched: Set[str]) -> List[Job]:
    """What must be compiled once the files in `touched` have changed."""
    texts = texts_of(files)
    several = [book_compile.SERVER] * (made_of("server", texts) != ["server.c"])
    jobs = [book_compile.job(file, texts) for file in [*sorted(texts), *several]]
    gone = [book_compile.SERVER] * bool(touched - texts.keys())  # src/ is the server where there is no server.c
    jobs = [job for job in jobs if touched & dict(job.texts).keys() or job.file in gone]
    return [job for job in jobs if not job.file.endswith(".h") or job.file in touched]


def build(files: Files, names: Iterable[str]) -> Dict[str, Path]:
    """The programs of these names that the files make."""
    texts = {
        name: re.sub(r"\bhtons\(1234\)", "htons(port_of_the_session())", text) for name, text in texts_of(files).items()
    }
    found: Dict[str, Path] = {}
    for name in sorted(set(names)):
        file = f"{name}.c" if made_of(name, texts) == [f"{name}.c"] else book_compile.SERVER
        if file in texts or file == book_compile.SERVER:
            job = book_compile.job(file, texts)
            try:
                flags = (*BUILD, *(["-O0"] if file == book_compile.SERVER else ["-O2", "-g"]))
                found[name] = book_compile.program(Job(job.file, (*job.texts, ("staging.h", STAGING))), flags)
            except CompileError as problem:
                raise BookError(f"{job.file} as it is here does not compile:\n{problem}") from None
    return found


# ---- all steps of a chapter ----


@dataclass
class Walk:
    """What came of the steps of a chapter."""

    problems: List[str] = field(default_factory=list)
    left: List[str] = field(default_factory=list)  # where the end differs from the stage
    complete: bool = False  # every step could be applied
    broken: Set[int] = field(default_factory=set)  # steps with `with-next` after which their file does not compile


def walk(steps: Sequence[Step], first: Files, final: Files, compiled_too: bool = True, done: int = 0) -> Walk:
    """Applies the steps, compiles after each group, compares the end with the stage. The first `done` steps are those
    of an earlier page, where they are looked at."""
    files = {name: list(found) for name, found in first.items()}
    result = Walk()
    jobs: List[Tuple[str, List[Job]]] = []
    between: Dict[int, List[Job]] = {}  # what the reader, who sees no `with-next`, compiles all the same
    touched: Set[str] = set()
    wrote: Dict[Tuple[str, str], str] = {}  # (file, label) -> the last step that wrote it
    for number, step in enumerate(steps):
        try:
            found = apply(step, files, final)
        except StepError as problem:
            result.problems += [str(problem), f"{step.where}: the steps behind it were not looked at"]
            break
        wrote.update({(step.file, unit.label): step.where for unit in found})
        if number < done:
            continue
        result.problems += text_problems(step, found, final.get(step.file, []))
        touched |= {step.file, step.source} - {""}
        inside = bool(step.take) and step.take in [following.take for following in steps[number + 1 : number + 2]]
        if step.with_next and number == len(steps) - 1:
            result.problems.append(f"{step.where}: `with-next`, but no step comes next")
        elif step.with_next and not inside and step.verb != "supplied":
            own = (step.file, step.source, book_compile.SERVER)
            between[number] = [job for job in jobs_of(files, {*own[:2]}) if job.file in own]
        if not (step.with_next or inside) or number == len(steps) - 1:
            jobs.append((step.where, jobs_of(files, touched)))
            touched = set()
    else:
        result.complete = True
        result.left = end_problems(files, final, wrote)
    if compiled_too:
        groups = [*(group for _, group in jobs), *between.values()]
        words = book_compile.all_words(job for group in groups for job in group)
        result.broken = {number for number, group in between.items() if any(words[job] for job in group)}
        result.problems += [
            f"{where}: after this step {job.file} does not compile:\n{book_compile.complaint(words[job])}"
            for where, group in jobs for job in group if words[job]
        ]  # fmt: skip
    return result


def end_problems(files: Files, final: Files, wrote: Dict[Tuple[str, str], str]) -> List[str]:
    """Where the files after the last step differ from the stage; `wrote` names the step that wrote what last."""
    problems = [f"{name} is not there" for name in sorted(final.keys() - files.keys())]
    problems += [f"{name} is still there, the chapter has none" for name in sorted(files.keys() - final.keys())]
    for name in sorted(files.keys() & final.keys()):
        mine = {sources.label(unit, files[name]): unit.text for unit in files[name]}
        theirs = {sources.label(unit, final[name]): unit.text for unit in final[name]}
        differs = [label for label in theirs if label in mine and mine[label] != theirs[label]]
        said = (
            ("lacks", [label for label in theirs if label not in mine]), ("has another", differs),
            ("still has", [label for label in mine if label not in theirs]),
        )  # fmt: skip
        problems += [f"{name} {verb} {', '.join(labels)}" for verb, labels in said if labels]
        for label in differs:
            if (name, label) in wrote:
                difference = show_diff(mine[label], theirs[label])
                problems.append(f"{wrote[name, label]} wrote {label} last; the sources have (+):\n{difference}")
        if mine == theirs and files[name] != final[name]:
            difference = show_diff(sources.join(files[name]), sources.join(final[name]))
            problems.append(f"{name} has another order than the sources (+):\n{difference}")
    return problems
