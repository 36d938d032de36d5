"""The sources of chapters/ and common/ as they were handed out, whatever somebody has tried out in them.

The book invites learners to change the chapters' programs and see what happens. Starters, graders and packages are not
to carry such an experiment: with WORKBOOK_PRISTINE in the environment, text() gives a file as it was committed, where
there is git, and says what to restore where there is not: the handout has a list of hashes, tests/sources.sha256.
Those who maintain the workbook see their own changes at once: their tools do not set that variable.
"""
from __future__ import annotations

import hashlib
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Dict, FrozenSet, Iterable, Optional

from layout import Problem

LIST = "tests/sources.sha256"
VARIABLE = "WORKBOOK_PRISTINE"
GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # a hook's, which point elsewhere


def wanted() -> bool:
    return bool(os.environ.get(VARIABLE))


def text(path: Path, root: Path) -> str:
    """The text of a source: as it is, or as it was handed out where that is wanted."""
    if not wanted():
        return path.read_text(encoding="utf-8")
    name = path.relative_to(root).as_posix()
    data = committed(root, name) if name in changed(root) else None
    if data is None:
        data = path.read_bytes() if path.exists() else b""
    right = hashes(root).get(name)
    if right and right != hashlib.sha256(data).hexdigest():
        raise Problem(
            f"{name} is not as it was handed out, and starters and checks are made of it. Keep what you tried under "
            f"another name, then take the file out of the handout again:\n"
            f"  tar xzf handout.tar.gz --strip-components=1 workbook/{name}"
        )
    return data.decode("utf-8")


@lru_cache(maxsize=None)
def changed(root: Path) -> FrozenSet[str]:
    """The sources that are not as they were committed; none where there is no git."""
    said = git(root, "diff", "--name-only", "--relative", "--no-ext-diff", "HEAD", "--", "chapters", "common")
    names = said.decode("utf-8", "replace").split("\n") if said is not None else []
    return frozenset(name for name in names if is_source(name))


def is_source(name: str) -> bool:
    """Is it a program of a chapter, or a header?"""
    parts = name.split("/")
    kind = (parts[0], len(parts), Path(name).suffix)
    return kind in (("chapters", 3, ".c"), ("common", 2, ".h"))


def committed(root: Path, name: str) -> Optional[bytes]:
    return git(root, "show", f"HEAD:./{name}")


def git(root: Path, *words: str) -> Optional[bytes]:
    """What git says, or None."""
    env = {key: value for key, value in os.environ.items() if key not in GIT_VARIABLES}
    try:
        done = subprocess.run(["git", *words], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


@lru_cache(maxsize=None)
def hashes(root: Path) -> Dict[str, str]:
    """The list of the handout: path -> hash; empty where there is none."""
    path = root / LIST
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {name: number for number, name in (line.split("  ", 1) for line in lines)}


def listing(files: "Iterable[tuple[str, bytes]]") -> str:
    """The list for these files, as sha256sum would print it."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files) if is_source(name))
