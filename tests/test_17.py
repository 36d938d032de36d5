"""Chapter 17: waiting for memory. All that 14 says; requests that come together wait together."""
from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess

import pytest

from cases import Case, earlier, new
from harness import check_session, fail, run_program
from harness.build import program
from harness.settings import ROOT, limit
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 17. The rules are in book/protocol.md.
SESSIONS = ["17-batch", "17-same"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(17))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 17)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=17.
@pytest.mark.parametrize("case", new(17))
def test_new(case: Case) -> None:
    case(17)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(17))
def test_earlier(case: Case) -> None:
    case(17)


# ---- memory in advance ----

PREFETCH = {"x86_64": "prefetch", "i686": "prefetch", "aarch64": "prfm", "arm64": "prfm", "ppc64le": "dcbt"}


@pytest.mark.inside
def test_the_compiler_keeps_the_prefetches() -> None:
    """gcc takes a function that only prefetches for one without an effect, and may drop the call."""
    if platform.machine() not in PREFETCH:
        pytest.skip(f"the name of the instruction on {platform.machine()} is not known")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    source = ROOT / "chapters/17/src/ahead.c"
    command = [*compiler, "-O2", f"-I{ROOT / 'common'}", "-S", "-o", "-", str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit(15))
    assert done.returncode == 0, done.stderr
    found = re.findall(rf"^\s*{PREFETCH[platform.machine()]}\w*", done.stdout, re.MULTILINE)
    assert len(found) >= 12, f"{source}: {len(found)} prefetches are left in the compiled code"


# ---- the lab programs ----

ROW = re.compile(r" *(\d+) (KiB|MiB)( +\d+\.\d){6}")


@pytest.mark.inside
def test_lab_program() -> None:
    """A row for each size up to the one that is asked for, and a time for each number of chains."""
    for mib, sizes in (("1", "16 32 64 128 256 512 1"), ("4", "16 32 64 128 256 512 1 2 4")):
        out, err, status = run_program(17, "latency", [mib], seconds=17)
        lines = out.splitlines()
        rows = [ROW.fullmatch(line) for line in lines[1:]]
        if status != 0 or err or not all(rows) or " ".join(row[1] for row in rows if row) != sizes:
            fail(f"latency {mib} ends with exit status {status} and prints\n{out}{err}")
        if not re.fullmatch(r"ns a step( +\d+ chains?){5} +a page", lines[0]):
            fail(f"latency {mib} begins with {lines[0]!r}")


@pytest.mark.inside
def test_lab_program_sizes() -> None:
    """What is no power of two, or no number, is refused."""
    for words in (["3"], ["0"], ["x"], ["4x"], [""], ["-1"], ["4", "4"]):
        out, err, status = run_program(17, "latency", words)
        if status != 1 or out or not err.startswith("usage: "):
            fail(f"latency {words} ends with exit status {status} and prints\n{out}{err}")


@pytest.mark.inside
@pytest.mark.parametrize("words", [["2000"], ["2000", "zscore"]], ids=["get", "zscore"])
def test_lab_program_pipeline(words: list[str]) -> None:
    """A time for each length of a pipeline, of a server that it starts and ends."""
    out, err, status = run_program(17, "pipeline", [*program(17, "server"), *words], seconds=20)
    if status != 0 or err or not re.fullmatch("".join(rf"in pipelines of {n}: \d+ ns\n" for n in (1, 16, 1000)), out):
        fail(f"pipeline {words} ends with exit status {status} and prints\n{out}{err}")


@pytest.mark.inside
def test_lab_program_pipeline_words() -> None:
    """What it does not know is refused, and so is a server that does not answer like one."""
    for words in ([], ["x"], ["999"], ["1500"], ["1000", "1"], ["1000", "zscore", "1"]):
        out, err, status = run_program(17, "pipeline", ["./server", *words] if words else [])
        if status != 1 or out or not err.startswith("usage: "):
            fail(f"pipeline {words} ends with exit status {status} and prints\n{out}{err}")
    out, err, status = run_program(17, "pipeline", ["true"])
    if status != 1 or out or not err.startswith("true does not say that it listens"):
        fail(f"pipeline true ends with exit status {status} and prints\n{out}{err}")
