"""What was compiled is kept by what it was made of, so that nothing is compiled twice."""
from __future__ import annotations

import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, List, Tuple


def compiler() -> List[str]:
    """The words of CC, cc where it is not set."""
    return shlex.split(os.environ.get("CC", "cc"))


@functools.lru_cache(maxsize=None)
def version(words: Tuple[str, ...]) -> str:
    """What a compiler says it is."""
    done = subprocess.run([*words, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def place(folder: Path, *made_of: object) -> Path:
    """Where in the folder is kept what this compiler makes of all that, flags and sources: anything with a repr."""
    words = compiler()
    return folder / hashlib.sha256(repr((words, version(tuple(words)), made_of)).encode()).hexdigest()[:40]


def keep(file: Path, make: Callable[[Path], object]) -> Path:
    """The file, which `make` writes where it is not there. Others may do so at once: it has its name when it is whole.
    What `make` raises comes through, and nothing is kept."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as own:
            make(Path(own) / file.name)
            (Path(own) / file.name).replace(file)
    return file
