"""Chapter 13: the heap and TTL. expire, pexpire, ttl, pttl, persist; a key past its time is gone for every command."""
from __future__ import annotations

import re

import pytest

from cases import Case, earlier, new
from cases.labs import lab_passes, lab_sees
from harness import check_session, fail, run_program
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 13. The rules are in book/protocol.md.
SESSIONS = ["13-demo", "13-ttl", "13-expire", "13-persist", "13-gone", "13-sets", "13-errors", "13-replaced", "13-many"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(13))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 13)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=13.
@pytest.mark.parametrize("case", new(13))
def test_new(case: Case) -> None:
    case(13)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(13))
def test_earlier(case: Case) -> None:
    case(13)


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """Every place in every size, with every kind of values; random runs with items that move."""
    lab_passes(13, "test_heap")


@pytest.mark.inside
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("    *item.ref = (uint32_t)pos;\n", ""),
        ("    if (pos > 0 && items[heap_parent(pos)].val > items[pos].val) {", "    if (false) {"),
        ("    *heap->items[pos].ref = k_heap_none;\n", ""),
        ("items[heap_right(pos)].val < items[child].val", "false"),
    ],
    ids=["the payload is not told", "down only", "deleted and not told", "the left child"],
)
def test_lab_program_sees(right: str, wrong: str) -> None:
    lab_sees(13, "test_heap", "heap.h", right, wrong)


LEVELS = """\
the same TTL for all +0\\.00 up
any deadline +(\\d\\.\\d\\d) up
any TTL, as time goes on +\\d\\.\\d\\d up
one comes for one that goes +\\d\\.\\d\\d up, removal +(\\d\\.\\d\\d) down
"""


@pytest.mark.inside
def test_levels() -> None:
    """Items that come in order do not climb, others climb few levels; one that a removal brings up sinks nearly to the
    leaves."""
    out, err, status = run_program(13, "levels", ["1000"])
    found = re.fullmatch(LEVELS, out)
    if status != 0 or err or not found or float(found[1]) > 2 or not 6 < float(found[2]) < 9:
        fail(f"levels 1000 ends with exit status {status} and prints\n{out}{err}")
    for words in (["1"], ["x"], [str((1 << 24) + 1)]):
        out, err, status = run_program(13, "levels", words)
        if status != 1 or out or not err.startswith("levels: "):
            fail(f"levels {words} ends with exit status {status} and prints\n{out}{err}")
