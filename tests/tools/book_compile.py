"""Compiles the programs of the text, which stand in no folder. What came of it is kept in build/book/."""
from __future__ import annotations

import concurrent.futures
import os
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

import compiled
from headers import included
from layout import ROOT, made_of

KEPT = ROOT / "build" / "book" / "compiled"  # two outputs of chapter 14 find the sources by where a program is
WARNED = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused")
CHECK = (*WARNED, "-fsyntax-only")
OBJECT = (*WARNED, "-c")
SERVER = "server"  # what a job of all files of src/ is called


class CompileError(ValueError):
    """What the compiler has against a program."""


class Job(NamedTuple):
    """A file to compile, with the text of it and of each of ours that it includes; or SERVER, with all of src/."""

    file: str
    texts: Tuple[Tuple[str, str], ...]


def job(file: str, texts: Dict[str, str]) -> Job:
    """The file with what it includes of `texts`: headers beside it, and others, which are called common/NAME."""
    found = made_of(SERVER, texts) if file == SERVER else [file]
    for name in found:  # grows meanwhile
        folder = name[: name.rfind("/") + 1]
        there = [path for header in included(texts[name]) for path in (f"{folder}{header}", f"common/{header}")]
        found += [header for header in dict.fromkeys(there) if header in texts and header not in found]
    return Job(file, tuple((name, texts[name]) for name in sorted(found)))


def program(job: Job, flags: Sequence[str]) -> Path:
    """The program, or with -c the object, built; CompileError where that cannot be. Of a server of several files only
    those are compiled that are not kept."""

    def make(target: Path) -> None:
        done = run(job, [*flags, "-o", str(target)], ["-lm"])
        if done.returncode:
            raise CompileError(complaint(done.stdout))

    def join(target: Path) -> None:
        said = link([program(part, [*flags, "-c"]) for part in parts(job)], target)
        if said:
            raise CompileError(complaint(said))

    file = compiled.place(KEPT, flags, job) / Path(job.file).stem
    return compiled.keep(file, join if job.file == SERVER else make)


def parts(whole: Job) -> List[Job]:
    """Each file of SERVER with what it includes, and with what is for all."""
    texts = dict(whole.texts)
    found = [job(file, texts) for file in made_of(SERVER, texts)]
    for_all = [(name, text) for name, text in whole.texts if "/" not in name]
    return [Job(part.file, (*part.texts, *for_all)) for part in found]


def words(job: Job) -> str:
    """What the compiler has against a file, warnings as well but for what is unused, or the linker against a server of
    several; "" for nothing."""
    check = linked if job.file == SERVER else complaints
    file = compiled.keep(compiled.place(KEPT, CHECK, job), lambda target: target.write_text(check(job)))
    return file.read_text()


def complaints(job: Job) -> str:
    """A file of a server of several is compiled for good: its object is linked when all of them are."""
    if job.file.startswith("src/") and job.file.endswith(".c"):
        try:
            program(job, OBJECT)
            return ""
        except CompileError as problem:
            return textwrap.dedent(str(problem))
    return run(job, CHECK).stdout


def linked(whole: Job) -> str:
    """What the linker has against the files of src/; "" where one of them does not compile, which its own job says."""
    try:
        objects = [program(part, OBJECT) for part in parts(whole)]
    except CompileError:
        return ""
    return link(objects, Path(os.devnull))


def link(objects: Sequence[Path], target: Path) -> str:
    """What the linker says."""
    words = [*compiled.compiler(), *map(str, objects), "-pthread", "-lm", "-o", str(target)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if not line.startswith("collect2:"))


def all_words(jobs: Iterable[Job]) -> Dict[Job, str]:
    unique = list(dict.fromkeys(jobs))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return dict(zip(unique, pool.map(words, unique)))


def run(job: Job, flags: Sequence[str], behind: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Compiles in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        texts, file = dict(job.texts), job.file
        if file.endswith(".h"):
            file = "header.c"
            texts[file] = f'#include "{job.file}"\n'
        for name, text in texts.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        files = made_of(SERVER, texts) if file == SERVER else [file]
        return subprocess.run(
            [*compiled.compiler(), *flags, "-Icommon", *files, *behind], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip


def complaint(words: str, limit: int = 8) -> str:
    """The lines of a compiler's output that matter."""
    lines = [line for line in words.splitlines() if re.search(r"(?<!collect2): (fatal )?(error|warning):", line)]
    return "\n".join("    " + line for line in (lines or words.splitlines())[:limit])
