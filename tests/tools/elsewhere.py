"""Programs for another C library or another machine: built, the lab programs run, an early and a late chapter tested.

    elsewhere.py musl-gcc
    elsewhere.py gcc -m32

The words are the compiler. Warnings are errors. The programs go into build/elsewhere/ and are tested by the protocol
alone, as those of anybody are: make test-06 SERVER=... CLIENT=...
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import List

from layout import ROOT

TESTED = {"06": "", "14": '-m "not carried"'}  # with what pytest is told: what 14 carries, 06 has in good part


def make(*words: str) -> str:
    """Runs make, shows what it has printed and returns that; ends the program where it fails."""
    done = subprocess.run(
        ["make", "--no-print-directory", *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(1)
    return done.stdout


def main(compiler: List[str]) -> int:
    if not compiler:
        sys.exit(f"usage: elsewhere.py COMPILER [OPTION ...]\n{__doc__}")
    folder = "build/elsewhere/" + "".join(re.findall(r"[\w-]", "".join(compiler)))
    make("build", f"B={folder}", f"CC={shlex.join(compiler)}")
    for program in sorted((ROOT / folder).glob("*/test_*")):
        done = subprocess.run([str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"{program.relative_to(ROOT)}: {'ok' if done.returncode == 0 else done.stdout}", flush=True)
        if done.returncode:
            return 1

    def passed(chapter: str, options: str) -> int:
        """Tests a chapter; returns how many tests passed."""
        programs = [f"{name.upper()}={folder}/{chapter}/{name}" for name in ("server", "client")]
        return int(re.findall(r"^(\d+) passed", make(f"test-{chapter}", *programs, f"ARGS={options}"), re.M)[-1])

    with ThreadPoolExecutor() as pool:
        print(f"{sum(pool.map(passed, TESTED.keys(), TESTED.values()))} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
