"""make check-all: all that must hold before a change is handed in, step by step, and a table at the end.

Where a tool is missing, what needs it is left out and named; with CI in the environment that is a failure. There, on a
machine that others may use as well, a test that fails has a second try by itself, and is named.
"""
from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]


class Step(NamedTuple):
    """A line of the table: what it is called, the tools that it needs, the command."""

    name: str
    tools: str
    command: str


STEPS = [
    Step("built with gcc, warnings are errors", "gcc", "make build B=build/gcc CC=gcc"),
    Step("built with clang, warnings are errors", "clang", "make build B=build/clang CC=clang"),
    Step("built with the lines of the READMEs", "gcc clang", "PYTHON tests/tools/readme_lines.py gcc clang"),
    Step("musl: built, 06 and 14 tested", "musl-gcc pytest", "PYTHON tests/tools/elsewhere.py musl-gcc"),
    Step("32 bits: built, 06 and 14 tested", "gcc -m32 pytest", "PYTHON tests/tools/elsewhere.py gcc -m32"),
    Step("layout of the sources", "clang-format", "make format-check"),
    Step("tests, stage rules among them", "gcc pytest git", "make test"),
    Step("tests of the harness and the tools", "gcc pytest git",
         "sh tests/tools/findpython.sh pytest tests/tools/runtests.py front_door harness messages tools"),  # fmt: skip
    Step("the last chapter's cases hold for Redis", "gcc pytest redis-server", "make redis-check"),
    Step("random requests, with address and undefined", "gcc pytest address,undefined", "make fuzz"),
    Step("tests fail for servers that are wrong", "gcc pytest", "make broken"),
    Step("exercises, from both sides", "gcc pytest", "make exercises-check"),
    Step("tests with address and undefined", "gcc pytest address,undefined", "make asan"),
    Step("tests with undefined, of clang", "pytest clang:undefined", "make ubsan"),
    Step("tests with the thread sanitizer", "gcc pytest thread", "make tsan"),
    Step("the text says what the sources say", "gcc pytest", "make book-check"),
    Step("the book in a browser", "pytest chromium", "make site-check"),
    Step("lab programs under valgrind", "gcc valgrind", "make valgrind"),
    Step("benchmarks, every reply checked", "gcc", "make bench-quick"),
]

PACKAGES = {
    "pytest": "python3-pytest",
    "address,undefined": "libgcc-12-dev, or the one of your gcc",
    "thread": "libgcc-12-dev, or the one of your gcc",
    "clang:undefined": "clang libclang-rt-dev",
    "-m32": "gcc-multilib",
    "musl-gcc": "musl-tools",
}


class Result(NamedTuple):
    """What came of a step."""

    step: Step
    word: str  # ok, FAILED, left out
    remark: str
    seconds: float
    passed: int
    failed: int


def has(tool: str) -> bool:
    """Is it installed? A sanitizer (clang:name for those of clang) or -m32 is when a program can be built with it."""
    if tool == "pytest":
        return python_with("pytest") is not None
    if tool in PACKAGES and shutil.which(tool) is None:
        compiler, _, name = tool.rpartition(":")
        option = tool if tool.startswith("-") else f"-fsanitize={name}"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.c"
            source.write_text("#include <sys/socket.h>\nint main(void) { return 0; }\n")
            command = [compiler or os.environ.get("CC", "cc"), option, str(source), "-o", f"{folder}/empty"]
            with contextlib.suppress(FileNotFoundError):
                return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
            return False
    return shutil.which(tool) is not None


def python_with(module: str) -> Optional[str]:
    """The Python that has this module."""
    done = subprocess.run(["sh", "tests/tools/findpython.sh", module], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def run(step: Step, in_ci: bool) -> Result:
    """Runs a step where its tools are there."""
    print(f"\n=== {step.name}: {step.command.replace('PYTHON', 'python3')} ===", flush=True)
    missing = [tool for tool in step.tools.split() if not has(tool)]
    if missing:
        packages = ", ".join(PACKAGES.get(tool, tool) for tool in missing)
        remark = f"{', '.join(missing)} missing: sudo apt-get install {packages}"
        print(remark, flush=True)
        return Result(step, "FAILED" if in_ci else "left out", remark, 0, 0, int(in_ci))
    start = time.monotonic()
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WORKBOOK_BUILD")}
    env.update({"TEST_AGAIN": "1"} if in_ci else {})
    process = subprocess.Popen(
        step.command.replace("PYTHON", sys.executable).split(), env=env, cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace",
    )  # fmt: skip
    passed = failed = second = 0
    assert process.stdout
    for line in process.stdout:
        print(line, end="", flush=True)
        second += line.startswith("passed at the second try")
        counts = re.match(r"(\d+) passed, (\d+) failed", line)
        if counts:
            passed, failed = int(counts[1]), int(counts[2])
    ok = process.wait() == 0 and not failed
    remark = f"{passed} passed" + f", {failed} failed" * (failed > 0) if passed or failed else ""
    remark += f", {second} of them at the second try" * (second > 0)
    return Result(step, "ok" if ok else "FAILED", remark, time.monotonic() - start, passed, failed or int(not ok))


def main() -> int:
    os.chdir(ROOT)
    results: List[Result] = []
    print(f"make check-all: {len(STEPS)} steps, half an hour on two processors. Ctrl-C ends it.")
    print("\n".join(f"    {step.name}" for step in STEPS), flush=True)
    try:
        for step in STEPS:
            results.append(run(step, bool(os.environ.get("CI"))))
    except KeyboardInterrupt:
        print("\ninterrupted")
    print("\n=== make check-all ===")
    for result in results:
        print(f"{result.step.name:40} {result.word:9} {result.seconds:5.0f} s   {result.remark}")
    print(f"{sum(result.passed for result in results)} passed, {sum(result.failed for result in results)} failed")
    complete = len(results) == len(STEPS)
    return 0 if complete and not any(result.word == "FAILED" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
