"""Which files of the workbook go into a package, and what becomes of links to those that do not."""
from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, Iterator, Set

from layout import ROOT, cells

TOP = ("chapters", "common", "tests", "book", "Makefile", "README.md", ".gitignore", ".clang-format")
LEFT = ("__pycache__", ".pytest_cache")
Files = Dict[str, bytes]  # path from the root -> contents


def files_of(root: Path = ROOT) -> Iterator[str]:
    """The paths of all sources from the root, sorted; nothing that was built, nothing of a learner's."""
    for name in TOP:
        if (root / name).is_file():
            yield name
        for folder, folders, names in os.walk(root / name):
            folders[:] = sorted(f for f in folders if f not in LEFT)
            for file in sorted(names):
                path = Path(folder, file)
                if not is_built(path):
                    yield str(path.relative_to(root))


def is_built(path: Path) -> bool:
    """Is it a program beside its source?"""
    return path.suffix == "" and path.with_suffix(".c").exists()


def read(paths: Iterator[str], keep: Callable[[str], bool], root: Path = ROOT) -> Files:
    """The files to keep. Links in Markdown to files that are left out become plain text, and table rows that
    begin with such a link are left out too."""
    files = {path: (root / path).read_bytes() for path in paths if keep(path)}
    there = {str(parent) for path in files for parent in (PurePosixPath(path), *PurePosixPath(path).parents)}
    for path, data in files.items():
        if path.endswith(".md"):
            files[path] = without_dead_links(path, data.decode("utf-8"), there).encode("utf-8")
    return files


def without_dead_links(path: str, text: str, there: Set[str]) -> str:
    """The Markdown of the file `path`, without links to what is not `there`."""

    def dead(target: str) -> bool:
        target = target.partition("#")[0]
        if not target or re.match(r"\w+:", target):
            return False
        return os.path.normpath(os.path.join(os.path.dirname(path), target)) not in there

    def link(match: "re.Match[str]") -> str:
        return match[1] if dead(match[2]) else match[0]

    lines = []
    for line in text.split("\n"):
        first = re.match(r"\[[^\]]*\]\(([^)\s]+)\)", (cells(line) or [""])[0])
        if not (first and dead(first[1])):
            lines.append(line)
    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, "\n".join(lines))
