"""What the README.md of a chapter promises (03 and later)."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import List

from harness import fail, settings
from harness.build import compile_lines
from harness.session import check_session
from harness.settings import ROOT

from . import case

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "play the session of the chapter's README by hand, line by line: where does yours begin to differ?"


@case(since=3, each=True, inside=True, time_limit=60)
def readme_session(chapter: int) -> None:
    check_session(str(ROOT / "chapters" / f"{chapter:02}" / "README.md"))


@case(since=3, each=True, inside=True,
      perhaps="the line in the README that builds the program is the one that make runs: change both")  # fmt: skip
def readme_compile_lines(chapter: int) -> None:
    """They are the very lines that make runs, one for each program."""
    folder = ROOT / "chapters" / f"{chapter:02}"
    shown = compile_lines((folder / "README.md").read_text(encoding="utf-8"))
    env = {name: value for name, value in os.environ.items() if name != "CC"}
    command = ["make", "--no-print-directory", "-n", "-B", "-C", str(folder)]
    made = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    if sorted(shown) != sorted(in_one_line(made.splitlines(), folder / "src")):
        lines = "\n".join(shown)
        fail(f"chapters/{chapter:02}: its Makefile runs\n{made}and its README.md shows\n{lines}")
    for source in folder.glob("*.c"):
        if not any(line.endswith(f" {source.name} -o {source.stem}") for line in shown):
            fail(f"chapters/{chapter:02}/README.md: no line that compiles {source.name}")


def in_one_line(made: List[str], src: Path) -> List[str]:
    """What make runs; where it compiles the files of src/ one by one, to build/NN/, and links them, the line that does
    all at once."""
    one = rf"(cc .*?)(?: -MM?D| -MP)* -c src/(\S+) -o \.\./\.\./build/{src.parent.name}/\S+"
    parts = [re.fullmatch(one, line) for line in made]
    files = sorted(part[2] for part in parts if part)
    if not files or files != sorted(path.name for path in src.glob("*.c")):
        return made
    rest = [line for line, part in zip(made, parts) if not part and not re.match(r"mkdir |cc .*\.o -o server$", line)]
    return rest + sorted({f"{part[1]} src/*.c -o server" for part in parts if part})
