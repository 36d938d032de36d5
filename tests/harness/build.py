"""Finds the programs of a chapter, and has make build them where they are missing."""
from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path
from typing import Dict, List

from . import settings
from .settings import ROOT, fail

__tracebackhide__ = settings.__tracebackhide__

_built: Dict[int, str] = {}  # chapter -> "" or the reason why it could not be built


def ensure_built(chapter: int) -> None:
    """Calls make for the chapter, once a run; fails with the compiler's own words."""
    if chapter not in _built:
        _built[chapter] = _make(chapter)
    if _built[chapter]:
        fail(_built[chapter])


def _make(chapter: int) -> str:
    if os.environ.get("WORKBOOK_PREBUILT") == "1":
        return ""
    build = settings.build_dir()
    build.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    words = ["make", "-s", "-C", str(ROOT), f"build-{chapter:02}", f"B={build}"]
    with open(build / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another pytest may build the same chapter now
        try:
            done = subprocess.run(
                words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
                timeout=settings.limit(300),
            )  # fmt: skip
        except FileNotFoundError:
            return "make is not installed: on Debian and Ubuntu, sudo apt-get install make gcc"
        except subprocess.TimeoutExpired:
            return f"gave up after {settings.limit(300):g} s: {' '.join(words)}"
    if done.returncode:
        return f"chapter {chapter:02} does not build: {' '.join(words)}\n{done.stdout.rstrip()}"
    return ""


def compile_lines(readme: str) -> List[str]:
    """The lines of a README.md that compile a program."""
    return re.findall(r"^cc .*\.c -o \w+$", readme, re.M)


def sources(chapter: int) -> Path:
    """The chapter's folder with the sources of the programs that are tested: of a fault, the wrong ones."""
    wrong = settings.build_dir() / "src" / "chapters" / f"{chapter:02}"
    return wrong if wrong.exists() else ROOT / "chapters" / f"{chapter:02}"


def program(chapter: int, name: str) -> List[str]:
    """The command line of "server", "client" or a lab program of the chapter, wrapper included.

    In SERVER and CLIENT the word NN stands for the chapter: SERVER=my/NN/server.
    """
    theirs = settings.foreign(name)
    if theirs:
        return [re.sub(r"\bNN\b", f"{chapter:02}", word) for word in theirs]
    ensure_built(chapter)
    path = settings.build_dir() / f"{chapter:02}" / name
    if not os.access(path, os.X_OK):
        fail(
            f"there is no {name} of chapter {chapter:02}: {path}\n"
            f"make build-{chapter:02} builds it; SERVER= and CLIENT= name programs from elsewhere"
        )
    return settings.wrapper() + [str(path)]
