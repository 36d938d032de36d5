"""Are the sources of chapters/ and common/ as they were handed out?

Starters and graders are made of them, and the book invites learners to try something out there. So the commands of
learners look first: compared with the commit where there is git, else with the list of hashes that a handout has.
"""
from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Iterable, List, Optional, Tuple

from layout import ROOT, Problem

LIST = "tests/sources.sha256"
GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # a hook's, which point elsewhere


def check(root: Path = ROOT) -> None:
    """Problem where a source is another one."""
    for name in changed(root):
        again = f"git checkout {name}"
        if (root / LIST).exists():
            again = f"tar xzf handout.tar.gz --strip-components=1 workbook/{name}"
        raise Problem(
            f"{name} is not as it was handed out, and starters and checks are made of it. Keep what you tried under "
            f"another name, then take the file out again:\n  {again}"
        )


def changed(root: Path = ROOT) -> List[str]:
    """The sources that are not as they were handed out; none where nothing says how they were."""
    if (root / LIST).exists():
        rows = [row.split("  ", 1) for row in (root / LIST).read_text(encoding="utf-8").splitlines()]
        return [name for number, name in rows if hash_of(root / name) != number]
    said = git(root, "diff", "--name-only", "--relative", "--no-ext-diff", "HEAD", "--", "chapters", "common") or b""
    return [name for name in said.decode("utf-8", "replace").splitlines() if is_source(name)]


def is_source(name: str) -> bool:
    """Is it a program of a chapter, or a header?"""
    return bool(re.fullmatch(r"common/[^/]+\.h|chapters/[^/]+/([^/]+\.c|src/[^/]+\.[ch])", name))


def git(root: Path, *words: str) -> Optional[bytes]:
    """What git says, or None."""
    env = {key: value for key, value in os.environ.items() if key not in GIT_VARIABLES}
    try:
        done = subprocess.run(["git", *words], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def listing(files: Iterable[Tuple[str, bytes]]) -> str:
    """The list for these files, as sha256sum would print it."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files) if is_source(name))
