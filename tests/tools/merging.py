"""Merges texts with what git knows: how a file was in a commit, what two changes of it make together."""
from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import List, Optional, Tuple

from layout import Problem

MARKER = re.compile(r"^(<{7}|\|{7}|={7}|>{7})( |$)", re.M)


def git(root: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    try:
        command = ["git", "-C", str(root), *args]
        return subprocess.run(command, capture_output=True, encoding="utf-8")
    except FileNotFoundError:
        raise Problem("git is needed for this: apt-get install git") from None


def committed(root: Path, rev: str, path: str) -> Optional[str]:
    """A file as it is in a commit; None where the commit has no such file."""
    found = git(root, "show", f"{rev}:./{path}")
    return found.stdout if found.returncode == 0 else None


def merge(ours: str, base: str, theirs: str, labels: Tuple[str, str, str]) -> Tuple[str, bool]:
    """A three-way merge; the text, and whether it is free of conflicts."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for file, text in zip(files, (ours, base, theirs)):
            file.write_text(text, encoding="utf-8")
        names = [word for label in labels for word in ("-L", label)]
        found = git(Path(folder), "merge-file", "-p", "--diff3", *names, *map(str, files))
    if found.returncode < 0 or found.returncode > 127:
        raise Problem(f"git merge-file: {found.stderr.strip()}")
    return found.stdout, found.returncode == 0


def conflicts(text: str) -> List[int]:
    """The lines on which conflicts begin (or, half resolved, where a marker is left)."""
    lines = [text.count("\n", 0, m.start()) + 1 for m in MARKER.finditer(text)]
    begins = [text.count("\n", 0, m.start()) + 1 for m in re.finditer(r"^<{7} ", text, re.M)]
    return begins or lines[:1]
