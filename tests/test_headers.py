"""The rules for common/; tests/tools/headers.py says what they are. And what may lie in the root."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Callable, List

import pytest

from harness.settings import needs

import headers
from layout import ROOT, Problem

pytestmark = pytest.mark.inside
NAMES = list(headers.headers())
COMPILERS = ["gcc", "clang"]
FLAGS = "-std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Werror -pthread".split()
IN_ROOT = re.compile(r"chapters/|common/|tests/|book/|Makefile$|README\.md$|\.")


def none(find: Callable[..., List[str]], *args: object) -> None:
    try:
        problems = find(*args)
    except Problem as problem:
        problems = [str(problem)]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def run(command: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def compiles(compiler: str, *words: str) -> None:
    needs(compiler)
    command = [compiler, *FLAGS, f"-I{ROOT / 'common'}", *words]
    found = run(command)
    if found.returncode:
        pytest.fail(f"{' '.join(command)}\n{found.stderr}", pytrace=False)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", NAMES)
def test_header_stands_alone(name: str, compiler: str, tmp_path: Path) -> None:
    """Included first, and twice."""
    source = tmp_path / "twice.c"
    source.write_text(f'#include "{name}"\n' * 2)
    compiles(compiler, "-fsyntax-only", str(source))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_in_two_files_of_one_program(compiler: str, tmp_path: Path) -> None:
    sources = [tmp_path / "one.c", tmp_path / "two.c"]
    for source, function in zip(sources, ("int main", "void other(void);\nvoid other")):
        includes = "".join(f'#include "{name}"\n' for name in NAMES)
        source.write_text(f"{includes}{function}(void) {{{' return 0; ' * ('main' in function)}}}\n")
    compiles(compiler, *map(str, sources), "-o", str(tmp_path / "both"))


@pytest.mark.parametrize("name", NAMES)
def test_header_keeps_no_state(name: str) -> None:
    none(headers.state_problems, ROOT / "common" / name)


@pytest.mark.parametrize("name", NAMES)
def test_header_says_what_it_is_and_what_its_functions_do(name: str) -> None:
    none(headers.comment_problems, ROOT / "common" / name)


def test_nobody_includes_what_is_built_later() -> None:
    none(headers.include_problems, ROOT)


def test_nothing_is_defined_twice() -> None:
    none(headers.copy_problems, ROOT)


def test_the_table_of_headers_is_true() -> None:
    none(headers.table_problems, ROOT)


def test_the_root_holds_what_it_may_hold() -> None:
    needs("git")
    found = run(["git", "-C", str(ROOT), "ls-files"])
    if found.returncode:
        pytest.skip("needs a clone of the repository")
    strays = {path.partition("/")[0] for path in found.stdout.splitlines() if not IN_ROOT.match(path)}
    assert not strays, f"not allowed in the root of the repository: {', '.join(sorted(strays))}"


@pytest.mark.parametrize("path", sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")))
def test_python_keeps_to_120_columns_and_runs_where_it_says_so(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    long = [str(number) for number, line in enumerate(text.split("\n"), 1) if len(line) > 120]
    assert not long, f"{path}: longer than 120 columns: lines {', '.join(long)}"
    assert text.startswith("#!") == bool((ROOT / path).stat().st_mode & 0o100), f"{path}: #! and executable go together"
