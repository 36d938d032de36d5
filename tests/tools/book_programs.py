"""Programs from the middle of a chapter, built as the reader has them at that point, for the sessions there."""
from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Collection, Dict, Sequence

import book_steps
from book_blocks import BookError
from book_steps import Files
from layout import ROOT

FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused", "-pthread"]

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


def build(files: Files, names: Collection[str], root: Path = ROOT) -> Dict[str, Path]:
    """The programs of these names that the files make."""
    jobs = book_steps.compilations(files, {f"{name}.c" for name in names})
    return {job.file[:-2]: build_one(job, root) for job in jobs if job.file[:-2] in names}


def build_one(job: book_steps.Compilation, root: Path) -> Path:
    """One program, kept by content."""
    cc, version = book_steps.compiler()
    name = job.file[:-2]
    key = hashlib.sha256(repr((version, FLAGS, STAGING, job)).encode()).hexdigest()[:40]
    kept = root / "build" / "book" / "programs" / key / name
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        (Path(folder) / "staging.h").write_text(STAGING)
        for file, text in job.texts:
            path = Path(folder) / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(re.sub(r"\bhtons\(1234\)", "htons(port_of_the_session())", text), encoding="utf-8")
        part = kept.with_name(f"{name}.{os.getpid()}.{id(job)}")
        line: Sequence[object] = [cc, *FLAGS, "-include", "staging.h", "-Icommon", job.file, "-o", part, "-lm"]
        done = subprocess.run(
            [str(word) for word in line], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        if done.returncode:
            raise BookError(f"{job.file} as it is here does not compile:\n{book_steps.complaint(done.stdout)}")
        part.replace(kept)
    return kept
