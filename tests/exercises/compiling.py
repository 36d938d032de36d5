"""Builds the programs of a submission inside its bounds, each with the calls counted (count.c)."""
from __future__ import annotations

import functools
import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

import compiled
from compiled import compiler
from headers import included
from harness.bounded import communicate
from harness.settings import limit
from layout import ROOT, Problem, made_of

COUNT_C = Path(__file__).with_name("count.c")
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE"]
QUICKLY = ["-O0", "-g0"]  # built in a quarter of the time
SECONDS = limit(60)  # for one program
MOST_WORDS = 1 << 16  # bytes of what the compiler says


class Built(NamedTuple):
    """One program: what the compiler said, and whether there is a program."""

    ok: bool
    words: str


def sanitizer() -> List[str]:
    """The flags for SAN=, as the Makefile has them."""
    san = os.environ.get("SAN")
    return ["-fno-omit-frame-pointer", f"-fsanitize={san}", "-fno-sanitize-recover=all"] if san else []


def counters() -> List[str]:
    """The names of what is counted, in the order of the file."""
    return re.findall(r"^ +X\((\w+)\)", COUNT_C.read_text(encoding="utf-8"), re.M)


def wrapped(threads: bool) -> List[str]:
    """The functions that count.c wraps."""
    text = COUNT_C.read_text(encoding="utf-8")
    text = text if threads else text.partition("#ifdef THREADS")[0]
    return re.findall(r"^WRAP\([^,]+, (\w+),", text, re.M)


def compile_counter(folder: Path, threads: bool) -> Path:
    """Compiles count.c into the folder, outside of any bounds: it is the grader's own."""
    words = [*compiler(), "-std=gnu11", "-O2", "-fno-builtin", "-U_FORTIFY_SOURCE", *["-DTHREADS"] * threads]

    def make(target: Path) -> None:
        done = subprocess.run([*words, "-c", str(COUNT_C), "-o", str(target)], capture_output=True, text=True)
        if done.returncode:
            raise Problem(f"count.c does not compile:\n{done.stderr}")

    return compiled.keep(folder / ("count_threads.o" if threads else "count.o"), make)


class Kept(NamedTuple):
    """What was compiled before, file by file, in a folder: many submissions have most files in common. Safe for
    threads, but not against submissions: to be used for programs of our own, which are compiled without bounds.

    Files of src/ that are as in the folder `chapter` are compiled quickly, with all that has them; all else, what takes
    code from a changed header too, is given these flags."""

    folder: Path
    flags: Sequence[str] = ()
    chapter: Optional[Path] = None

    def of_chapter(self, number: str) -> "Kept":
        return self._replace(chapter=ROOT / "chapters" / number)

    def how_fast(self, sources: Path, file: str) -> Sequence[str]:
        """The flags for a file."""
        if not self.chapter or not file.startswith("src/"):
            return self.flags
        needed = [name for name in needs(sources, file) if name == file or "/" not in name]  # those of src/ declare
        ours = {name: (self.chapter if "/" in name else ROOT / "common") / name for name in needed}
        same = all(path.is_file() and path.read_bytes() == (sources / name).read_bytes() for name, path in ours.items())
        return QUICKLY if same else self.flags

    def place(self, sources: Path, file: str, flags: Sequence[str]) -> Path:
        """Where the file's object is kept once it is compiled, for the headers that it includes."""
        texts = [(name, (sources / name).read_bytes()) for name in sorted(needs(sources, file))]
        return compiled.place(self.folder, flags, texts)


def needs(sources: Path, file: str) -> List[str]:
    """The file, and the headers that it includes, through others too."""
    names = [file]
    for name in names:  # grows meanwhile
        for header in included((sources / name).read_text(encoding="utf-8", errors="replace")):
            near = (Path(name).parent / header).as_posix()
            names += [path for path in (near, header) if path not in names and (sources / path).is_file()]
    return names


def of(name: str, sources: Path) -> List[str]:
    """The .c files of a program."""
    return made_of(name, (path.relative_to(sources).as_posix() for path in sources.rglob("*.c")))


class Ran(NamedTuple):
    """What came of a command."""

    status: int
    output: str
    late: bool
    too_much: bool


def run_bounded(command: Sequence[str], seconds: float, most: int = MOST_WORDS) -> Ran:
    """Runs a command without input to its end, which comes by force after that time or that much output (of both
    streams)."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    talk = communicate(process, b"", seconds, most)
    return Ran(process.returncode, talk.out.decode("utf-8", "replace"), talk.late, talk.too_much)


class Compiler(NamedTuple):
    """A compiler behind `wrapper`, so that it reads no more than the submission may (an #include could name any file).
    It writes into `home`; only a plain file is taken from there, and then nobody but the grader can change it."""

    wrapper: Sequence[str]
    home: Path

    def make(self, target: Path, folder: Path, words: Sequence[str], seconds: float) -> Built:
        """Has it write `target`, from within the folder."""
        fresh = self.home / "new"
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *compiler(), *words, "-o", str(fresh)]
        ran = run_bounded([*self.wrapper, *inside], seconds)
        said = ran.output + "\n(and more)\n" * ran.too_much
        if ran.late:
            return Built(False, f"{said}\nthe compiler did not end within {SECONDS:g} s\n")
        if ran.status or not fresh.exists():
            return Built(False, said or f"the compiler ended with status {ran.status} and said nothing\n")
        if fresh.is_symlink() or not stat.S_ISREG(fresh.lstat().st_mode):
            return Built(False, f"{target.name} is no plain file\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(fresh, target, follow_symlinks=False)
        fresh.unlink()
        return Built(True, said)


def compile_program(
    wrapper: Sequence[str], home: Path, sources: Path, name: str, target: Path, counter: Path,
    *, threads: bool = False, flags: Sequence[str] = (), kept: Optional[Kept] = None,
) -> Built:  # fmt: skip
    """Builds the program NAME of `sources` as `target`, file by file; takes those that were `kept` from an earlier
    time, without a word of the compiler, and the whole program where all of them were."""
    start = time.monotonic()
    cc = Compiler([] if kept else wrapper, home)
    common, flags = [*FLAGS, *sanitizer()], [*flags, *["-pthread"] * threads]
    objects = target.parent / f"{name}-objects"
    files = of(name, sources)
    flags_of = {file: [*common, *(kept.how_fast(sources, file) if kept else ()), *flags] for file in files}
    places = {file: kept.place(sources, file, flags_of[file]) for file in files} if kept else {}
    linked = kept and compiled.place(kept.folder, counter.read_bytes(), threads, sorted(map(str, places.values())))
    if linked and linked.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(linked, target)
        return Built(True, "")
    ok, said = True, ""
    for file in files:
        made, place = (objects / file).with_suffix(".o"), places.get(file)
        if place and place.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, made)
            continue
        built = cc.make(made, sources, [*flags_of[file], "-I.", "-c", file], SECONDS + start - time.monotonic())
        ok, said = ok and built.ok, said + built.words
        if len(said) > MOST_WORDS:
            break
        if place and built == (True, ""):
            compiled.keep(place, functools.partial(shutil.copyfile, made))
    if ok:
        made_here = [path.relative_to(objects).as_posix() for path in sorted(objects.rglob("*.o"))]
        words = [*common, *flags, *made_here, str(counter)]
        words += [f"-Wl,--wrap={function}" for function in wrapped(threads)]
        built = cc.make(target, objects, words, SECONDS + start - time.monotonic())
        ok, said = built.ok, said + built.words
    shutil.rmtree(objects, ignore_errors=True)
    if ok:
        target.chmod(0o755)
        if linked and not said:
            compiled.keep(linked, functools.partial(shutil.copy, target))
    return Built(ok, said)
