"""Builds the programs of a submission inside its bounds, each with the calls counted (tests/exercises/count.c)."""
from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

from confine import run_bounded
from layout import ROOT, Problem

COUNT_C = ROOT / "tests" / "exercises" / "count.c"
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE"]
SECONDS = 60.0  # for one program
MOST_WORDS = 1 << 16  # bytes of what the compiler says


class Built(NamedTuple):
    """One program: what the compiler said, and whether there is a program."""

    ok: bool
    words: str


def compiler() -> List[str]:
    return shlex.split(os.environ.get("CC", "cc"))


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
    target = folder / ("count_threads.o" if threads else "count.o")
    if not target.exists():
        words = [*compiler(), "-std=gnu11", "-O2", "-fno-builtin", "-U_FORTIFY_SOURCE", *["-DTHREADS"] * threads]
        with tempfile.TemporaryDirectory(dir=folder) as mine:
            fresh = Path(mine) / "count.o"
            done = subprocess.run([*words, "-c", str(COUNT_C), "-o", str(fresh)], capture_output=True, text=True)
            if done.returncode:
                raise Problem(f"count.c does not compile:\n{done.stderr}")
            fresh.replace(target)  # another thread may have been as quick
    return target


class Kept:
    """Programs that were built before, in a folder: many submissions have the same client, say. Safe for threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, sources: Path, name: str, flags: Sequence[str]) -> Path:
        """Where sources/NAME.c is kept once it is built: the file's name tells all that the program was made of."""
        made_of = hashlib.sha256(" ".join([name, *flags]).encode())
        for path in sorted(sources.iterdir()):
            if path.suffix == ".h" or path.name == f"{name}.c":
                made_of.update(f"\0{path.name}\0".encode() + path.read_bytes())
        return self.folder / made_of.hexdigest()

    def keep(self, place: Path, program: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as mine:
            shutil.copy2(program, mine)
            (Path(mine) / program.name).replace(place)


def compile_program(
    wrapper: Sequence[str], home: Path, sources: Path, name: str, target: Path, counter: Path,
    *, threads: bool = False, flags: Sequence[str] = (), kept: Optional[Kept] = None,
) -> Built:  # fmt: skip
    """Builds sources/NAME.c as `target`, or takes what was `kept` from an earlier time without a word of the compiler.

    The compiler runs behind `wrapper`, so it reads no more than the submission may (an #include could name any file).
    It writes into `home`; only a plain file is taken from there, and then nobody but the grader can change it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = [*sanitizer(), *flags, *["-pthread"] * threads]
    place = kept and kept.place(sources, name, flags)
    if place and place.exists():
        shutil.copy2(place, target)
        return Built(True, "")
    fresh = home / f"new-{name}"
    words = [*compiler(), *FLAGS, *flags, "-I.", f"{name}.c", str(counter), "-o", str(fresh)]
    words += [f"-Wl,--wrap={function}" for function in wrapped(threads)]
    inside = ["sh", "-c", 'cd "$0" && exec "$@"', str(sources), *words]
    ran = run_bounded([*wrapper, *inside], SECONDS, MOST_WORDS)
    said = ran.output + "\n(and more)\n" * ran.too_much
    if ran.late:
        return Built(False, f"{said}\nthe compiler did not end within {SECONDS:g} s\n")
    if ran.status or not fresh.exists():
        return Built(False, said or f"the compiler ended with status {ran.status} and said nothing\n")
    if fresh.is_symlink() or not stat.S_ISREG(fresh.lstat().st_mode):
        return Built(False, f"{name} is no plain file\n")
    shutil.copyfile(fresh, target, follow_symlinks=False)
    target.chmod(0o755)
    fresh.unlink()
    if kept and place and not said:
        kept.keep(place, target)
    return Built(True, said)
