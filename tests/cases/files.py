"""A server of many files (15 and later): who calls whom, who owns what, and what make compiles again.

What is looked at are symbols, as nm shows them in the object files: what a file defines for others, and what it needs.
"""
from __future__ import annotations

import fcntl
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Set

import compiled
from harness import fail, settings
from harness.build import sources
from harness.settings import limit, needs

from . import case

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "src/server.h says which file has which functions for others; all else is static"

COMPILER = """#!/bin/sh
# As cc, but quick: the .d file is true, and what was to be built is not.
for last; do :; done
case "$*" in *" -c "*) exec cc -E "$@" -MT "$last" -MF "${last%.o}.d" ;; esac
: >"$last"
"""


class Symbols(NamedTuple):
    """Of one object file: functions for others, variables that others can reach, those that are its own, what it needs
    of others."""

    code: Set[str]
    data: Set[str]
    own: Set[str]
    needed: Set[str]


# ---- what there is ----


def symbols(listed: str) -> Dict[str, Symbols]:
    """What `nm -A *.o` says, by the name of the source file."""
    found: Dict[str, Symbols] = {}
    for file, kind, name in re.findall(r"^(?:.*/)?(\w+)\.o:[0-9a-f]* +(\w) (\S+)", listed, re.M):
        of = found.setdefault(f"{file}.c", Symbols(set(), set(), set(), set()))
        kinds = {"U": of.needed, "T": of.code, "W": of.code, "b": of.own, "d": of.own}
        if kind.isupper() or kind in kinds:
            kinds.get(kind, of.data).add(name)
    return found


def promised(header: str) -> Dict[str, List[str]]:
    """The functions that a header declares, below the name of their file and in its order."""
    found: Dict[str, List[str]] = {}
    header = re.sub(r"^__attribute__\(\(.*\)\) ", "", header, flags=re.M)
    pattern = r"^// (\w+\.c(?:, above \w+\.c)?)$|^[a-z][^;{}=()]*?(\w+)\([^;{}]*\);"
    for heading, function in re.findall(pattern, header, re.M):
        if heading:
            found[heading] = []
        elif found:
            found[list(found)[-1]].append(function)
    return found


def shared_state(found: Dict[str, Symbols]) -> List[str]:
    """The data that more than its own file can reach: "n of a.c"."""
    return [f"{name} of {file}" for file, of in found.items() for name in sorted(of.data)]


def calls_down(found: Dict[str, Symbols], order: Sequence[str]) -> List[str]:
    """Where a file needs one that does not stand above it in this order: "a.c needs f of b.c". One that is not in it
    stands below all others."""
    place = {file: order.index(file) if file in order else len(order) for file in found}
    owner = {name: file for file, of in found.items() for name in of.code | of.data}
    needed = [(file, name, owner[name]) for file, of in found.items() for name in sorted(of.needed) if name in owner]
    return [f"{file} needs {name} of {other}" for file, name, other in needed if place[other] >= place[file]]


@functools.lru_cache(maxsize=None)
def objects(chapter: int) -> Dict[str, Symbols]:
    """The symbols of each file of the server, which are looked up once for all pytests."""
    needs("nm")
    folder, common = sources(chapter), sources(chapter).parents[1] / "common"
    files = sorted(folder.glob("src/*.c"))
    read = [(path.name, path.read_bytes()) for path in [*files, *folder.glob("src/*.h"), *common.glob("*.h")]]
    words = ["-std=gnu11", "-O0", "-c"]

    def list_them(target: Path) -> None:
        with tempfile.TemporaryDirectory() as out:
            run([*compiled.compiler(), *words, f"-I{common}", *map(str, files)], Path(out))
            target.write_text(run(["sh", "-c", "nm -A *.o"], Path(out)))

    kept = settings.build_dir() / "symbols"
    kept.mkdir(parents=True, exist_ok=True)
    with open(kept / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the cases of a chapter may run at once
        return symbols(compiled.keep(compiled.place(kept, words, sorted(read)), list_them).read_text())


def run(words: Sequence[str], folder: Path) -> str:
    """Runs a command to its end, and returns what it prints."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=limit(60))
    if done.returncode:
        fail(f"{shlex.join(words)[:200]} ends with exit status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def header(chapter: int) -> Dict[str, List[str]]:
    """What server.h declares; and other headers, in which "// x.c, above y.c" says where a file stands in its order."""
    folder = sources(chapter) / "src"
    lists = list(promised((folder / "server.h").read_text(encoding="utf-8")).items())
    for path in sorted(folder.glob("*.h")):
        if path.name != "server.h":
            for heading, functions in promised(path.read_text(encoding="utf-8")).items():
                name, _, other = heading.partition(", above ")
                lists.insert([file for file, _ in lists].index(other), (name, functions))
    return dict(lists)


# ---- who owns what ----


@case(since=15, files=True, inside=True)
def each_function_for_others_is_in_the_file_that_the_header_names(chapter: int) -> None:
    """And what no other file may call is static."""
    lists = header(chapter)
    for file, of in objects(chapter).items():
        there, wanted = of.code - {"main"}, set(lists.get(file, []))
        if there != wanted:
            lacking, more = sorted(wanted - there), sorted(there - wanted)
            said = f"server.h lists {', '.join(lacking)} under {file}, which has no such function; " * bool(lacking)
            said += f"{file} has {', '.join(more)} for all, and server.h does not say so; " * bool(more)
            fail(said.rstrip("; "), expected="what server.h lists under a file is defined there, all else is static")


@case(since=15, files=True, inside=True,
      perhaps="where a variable is not static, any file can declare it and change it")  # fmt: skip
def no_state_is_shared(chapter: int) -> None:
    """Each variable is static in the file that owns it."""
    found = shared_state(objects(chapter))
    if found:
        fail(f"other files can reach {', '.join(found)}", expected="state that its owner alone can reach")


@case(since=15, files=True, inside=True,
      perhaps="what both need belongs into a file above them, or the one below passes it as an argument")  # fmt: skip
def no_file_calls_one_below_it(chapter: int) -> None:
    """In the order of server.h. So no two files need each other, and each can be read knowing those above it."""
    found = calls_down(objects(chapter), list(header(chapter)))
    if found:
        fail("; ".join(found), expected="a file calls only those that stand above it in server.h")


# ---- what make knows ----


@case(since=15, files=True, inside=True, time_limit=60,
      perhaps="the compiler writes the .d files (-MMD): does make read them (-include) by the same names?")  # fmt: skip
def make_compiles_what_has_changed(chapter: int) -> None:
    """A file that was touched is compiled again, and a header has all those compiled that read it; no others."""
    folder = sources(chapter)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        place = top / "chapters" / folder.name
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns("exercises"))
        shutil.copytree(folder.parents[1] / "common", top / "common")
        (top / "cc").write_text(COMPILER)
        (top / "cc").chmod(0o755)

        def made(changed: str) -> List[str]:
            if changed:
                os.utime(place / changed)
            said = run(["make", f"CC={top / 'cc'}", "server"], place)
            return sorted(re.findall(r" -c (\S+) ", said)) + ["server"] * bool(re.search(" -o server$", said, re.M))

        rules = run(["sh", "-c", "cc -MM -I../../common src/*.c"], place)
        lines = [line.partition(".o:") for line in rules.replace("\\\n", " ").splitlines()]
        reads = {f"src/{name}.c": re.split("[ /]", read) for name, _, read in lines}
        tried = {"": sorted(reads), "src/args.c": ["src/args.c"]}
        for path in ("src/server.h", "../../common/clock.h"):
            tried[path] = [file for file, read in sorted(reads.items()) if path.rpartition("/")[2] in read]
        for changed, wanted in tried.items():
            for what, expected in ((changed, [*wanted, "server"]), ("", [])):
                came = made(what)
                if came != expected:
                    fail(
                        f"{f'after a change of {what}' if what else 'then'} make builds {' '.join(came) or 'nothing'}",
                        expected=" ".join(expected) or "nothing: all is up to date",
                    )
