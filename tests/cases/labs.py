"""The lab programs of a chapter: they pass, and they see a header that is wrong."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import fail, run_program, settings
from harness.settings import ROOT, limit

__tracebackhide__ = settings.__tracebackhide__


def lab_passes(chapter: int, name: str) -> None:
    """It ends with status 0 and `all tests passed`."""
    out, err, status = run_program(chapter, name, seconds=50)
    if status != 0 or err or not out.endswith("\nall tests passed\n"):
        fail(f"{name} ends with exit status {status} and prints\n{out}{err}", expected="exit status 0, and the last "
             "line is `all tests passed`")  # fmt: skip


def lab_sees(chapter: int, name: str, header: str, right: str, wrong: str) -> None:
    """Built with a header in which one place is wrong, it names a line of its own and ends with 1."""
    text = (ROOT / "common" / header).read_text()
    if text.count(right) != 1:
        fail(
            f"{header} has {text.count(right)} times the words that this test changes:\n{right}",
            f"this tests {name}, not your code: it puts a fault into {header} and looks whether {name} notices. Where "
            "you have written these words in another way, it can say nothing.",
            "they are there once",
        )
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        for path in (ROOT / "common").glob("*.h"):
            shutil.copy(path, folder)
        Path(folder, header).write_text(text.replace(right, wrong))
        program = Path(folder, name)
        source = ROOT / "chapters" / f"{chapter:02}" / f"{name}.c"
        cc = os.environ.get("CC", "cc").split()
        subprocess.run([*cc, "-std=gnu11", "-I", folder, str(source), "-o", str(program)], check=True)
        done = subprocess.run(
            [str(program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=limit(20)
        )
    if done.returncode != 1 or not re.search(rf"^{name}\.c:\d+: this does not hold: .+", done.stdout, re.M):
        fail(f"{name} must see that {header} is wrong; exit status {done.returncode}, and it prints\n{done.stdout}")
