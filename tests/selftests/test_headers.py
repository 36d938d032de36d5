"""The rules for common/; tests/tools/headers.py says what they are. And what may lie in the root."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import List

import pytest

from harness.settings import needs

import headers
from layout import ROOT, Problem

pytestmark = pytest.mark.inside
NAMES = list(headers.headers())
COMPILERS = ["gcc", "clang"]
FLAGS = "-std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Werror -pthread".split()
IN_ROOT = re.compile(r"chapters/|common/|tests/|book/|Makefile$|README\.md$|\.")


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
def test_headers_of_an_older_system(compiler: str, tmp_path: Path) -> None:
    """Up to Linux 5.8 they do not name close_range()."""
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/syscall.h").write_text("#include_next <sys/syscall.h>\n#undef SYS_close_range\n")
    sources = [path for path in ROOT.glob("chapters/*/src/*.c") if "<sys/syscall.h>" in path.read_text()]
    assert sources
    for source in sources:
        compiles(compiler, "-fsyntax-only", "-Wno-conversion", f"-I{tmp_path}", str(source))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_in_two_files_of_one_program(compiler: str, tmp_path: Path) -> None:
    sources = [tmp_path / "one.c", tmp_path / "two.c"]
    for source, function in zip(sources, ("int main", "void other(void);\nvoid other")):
        includes = "".join(f'#include "{name}"\n' for name in NAMES)
        source.write_text(f"{includes}{function}(void) {{{' return 0; ' * ('main' in function)}}}\n")
    compiles(compiler, *map(str, sources), "-o", str(tmp_path / "both"))


def state(tmp_path: Path, text: str, *words: str) -> List[str]:
    """The names of what a source keeps that may change, as gcc and nm see it."""
    needs("gcc")
    needs("nm")
    source, made = tmp_path / "state.c", tmp_path / "state.o"
    source.write_text(text)
    flags = "-std=gnu11 -w -fno-pie -fkeep-inline-functions -c".split()
    compiled = run(["gcc", *flags, *words, str(source), "-o", str(made)])
    assert not compiled.returncode, compiled.stderr
    symbols = [line.split()[-2:] for line in run(["nm", str(made)]).stdout.splitlines()]
    return [name.partition(".")[0] for sort, name in symbols if sort in "bBcCdDsS"]


def test_headers_keep_no_state(tmp_path: Path) -> None:
    found = state(tmp_path, "".join(f'#include "{name}"\n' for name in NAMES), f"-I{ROOT / 'common'}")
    assert not found, f"state in common/, which must be passed in: {', '.join(found)}"


@pytest.mark.parametrize(
    "line, found",
    [
        ("static int n;", ["n"]),
        ("static int t[] = {1};", ["t"]),
        ("static const char *p = 0;", ["p"]),
        ("static _Thread_local int n;", ["n"]),
        ("static const int t[] = {1};", []),
        ('static const char *const p = "x";', []),
        ("static inline int g(void) {\n    static int n;\n    return n;\n}", ["n"]),
        ("static inline int g(void) {\n    static const int n = 1;\n    return n;\n}", []),
    ],
)
def test_what_state_is(tmp_path: Path, line: str, found: List[str]) -> None:
    assert state(tmp_path, f"{line}\n") == found


def test_headers_keep_the_rules() -> None:
    try:
        problems = headers.problems()
    except Problem as problem:
        problems = [str(problem)]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


CRC64 = """
#include <stdio.h>
#include <string.h>
#include "crc64.h"
int main(int argc, char **argv) {
    static struct crc64 crc;
    static uint8_t data[64];
    crc64_init(&crc);
    for (int i = 1; i < argc; i++) {
        size_t len = strlen(argv[i]);
        memcpy(data, argv[i], len);
        printf("%016llx\\n", (unsigned long long)crc64_add(&crc, 0, data, len));
    }
    for (unsigned i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 37 + 11);
    }
    for (size_t shift = 0; shift < 8; shift++) {
        for (size_t len = 0; len <= 40; len++) {
            for (size_t cut = 0; cut <= len; cut++) { // in two pieces
                uint64_t sum = crc64_add(&crc, 0, data + shift, cut);
                sum = crc64_add(&crc, sum, data + shift + cut, len - cut);
                printf("%016llx\\n", (unsigned long long)sum);
            }
        }
    }
}
"""


def crc64(data: bytes) -> str:
    """The definition, a bit at a time."""
    total = 0
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ 0x95AC9329AC4BC9B5 if total & 1 else total >> 1
    return f"{total:016x}"


@pytest.mark.skipif("crc64.h" not in NAMES, reason="comes with a later chapter")
def test_crc64_is_that_of_redis(tmp_path: Path) -> None:
    """Its check value, that of nothing, and all short lengths, at every alignment, in one piece and in two."""
    (tmp_path / "sums.c").write_text(CRC64)
    compiles("gcc", "-O2", str(tmp_path / "sums.c"), "-o", str(tmp_path / "sums"))
    check, nothing, *sums = run([str(tmp_path / "sums"), "123456789", ""]).stdout.split()
    assert (check, nothing) == ("e9c6d914c4b8d9ca", "0" * 16)
    data = bytes((i * 37 + 11) % 256 for i in range(64))
    expected = [crc64(data[shift : shift + len]) for shift in range(8) for len in range(41) for _ in range(len + 1)]
    assert sums == expected


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
