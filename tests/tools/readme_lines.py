"""Compiles every program with the very line that its chapter's README.md shows.

    readme_lines.py gcc clang      with each of these compilers called cc

Neither a standard nor -Werror is given there, so any word from the compiler is a failure. So is a program
without a line, and a chapter's Makefile that does something else than its README. Nothing is written beside the
sources.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"^\s*(?:\$ )?(cc .*\s(\w+)\.c -o (\w+))\s*$", re.M)


def compile_lines(readme: str) -> Dict[str, str]:
    """The compile line of each program that a README shows."""
    return {match[2]: match[1] for match in LINE.finditer(readme) if match[2] == match[3]}


def copy_for(compiler: str, chapters: List[Path]) -> Path:
    """A folder with links to the sources of the chapters, to common/, and to the compiler, which is called cc there."""
    top = ROOT / "build" / "plain" / compiler
    shutil.rmtree(top, ignore_errors=True)
    for chapter in chapters:
        (top / "chapters" / chapter.name).mkdir(parents=True)
        for source in chapter.glob("*.c"):
            (top / "chapters" / chapter.name / source.name).symlink_to(source)
    (top / "common").symlink_to(ROOT / "common")
    (top / "cc").symlink_to(shutil.which(compiler) or compiler)
    return top


def made_lines(chapter: Path) -> List[str]:
    """What the chapter's own Makefile runs."""
    env = {k: v for k, v in os.environ.items() if k not in ("CC", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "--no-print-directory", "-n", "-B", "-C", str(chapter)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def problems_of(chapter: Path, copies: List[Path]) -> List[str]:
    """What is wrong with a chapter, a paragraph each; copies are those of copy_for()."""
    readme = chapter / "README.md"
    name = f"chapters/{chapter.name}"
    lines = compile_lines(readme.read_text(encoding="utf-8")) if readme.exists() else {}
    programs = sorted(source.stem for source in chapter.glob("*.c"))
    problems = [f"{name}/README.md: no line that compiles {p}.c" for p in programs if p not in lines]
    problems += [f"{name}/README.md: there is no {p}.c" for p in lines if p not in programs]
    if not problems and sorted(made_lines(chapter)) != sorted(lines.values()):
        problems.append(
            "\n".join([f"{name}: its Makefile runs", *made_lines(chapter), "and its README shows", *lines.values()])
        )
    for copy in copies:
        folder, path = copy / "chapters" / chapter.name, f"{copy}:{os.environ['PATH']}"
        for program in set(programs) & set(lines):
            done = subprocess.run(
                ["sh", "-c", lines[program]], cwd=folder, env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            if done.returncode or done.stdout:
                problems.append(f"{name}, cc being {copy.name}: {lines[program]}\n{done.stdout}")
    return problems


def main() -> int:
    chapters = [path for path in sorted((ROOT / "chapters").glob("[0-9][0-9]")) if list(path.glob("*.c"))]
    copies = [copy_for(compiler, chapters) for compiler in sys.argv[1:]]
    failed = False
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for chapter, problems in zip(chapters, pool.map(lambda each: problems_of(each, copies), chapters)):
            print(f"chapters/{chapter.name}: {'; '.join(problems) or 'ok'}", flush=True)
            failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
