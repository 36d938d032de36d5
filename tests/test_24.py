"""Chapter 24: the cycle. Keys go for which nobody asks, in slices of time; and a lab that compares ways to forget."""
from __future__ import annotations

import re
from typing import Dict, List, Tuple

import pytest

from cases import Case, earlier, new
from harness import check_session, fail, run_program
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 24. The rules are in book/protocol.md.
SESSIONS = ["24-demo", "24-config"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(24))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 24)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=24.
@pytest.mark.parametrize("case", new(24))
def test_new(case: Case) -> None:
    case(24)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(24))
def test_earlier(case: Case) -> None:
    case(24)


# ---- the lab program ----

ROW = re.compile(r"(at once|equal|uniform|long tail|renewed) +(heap|lazy|cycle)((?: +\d+){5}) +(\d+\.\d|-)"
                 r"((?: +(?:\d+|never)){3}) +(\d+\.\d|-)((?: +\d+){4})")  # fmt: skip


def lab_rows(*words: str) -> Dict[Tuple[str, str], List[str]]:
    """What expire_lab prints: the columns behind the names of pattern and strategy, but for those that are measured."""
    out, err, status = run_program(24, "expire_lab", list(words), seconds=17)
    lines = out.splitlines()
    rows = [ROW.fullmatch(line) for line in lines[2:]]
    width = 86  # 80, and two digits more for each of the three times, on a busy machine
    if status != 0 or err or len(rows) != 15 or not all(rows) or max(map(len, lines)) > width:
        fail(f"expire_lab {' '.join(words)} ends with exit status {status} and prints\n{out}{err}")
    return {(row[1], row[2]): f"{row[3]} {row[4]} {row[5]} {row[6]} {row[7]}".split()[:-3] for row in rows if row}


@pytest.mark.inside
def test_lab_program() -> None:
    """The heap is on time, lazy deletion alone leaves what nobody asks for, the cycle leaves some percent."""
    rows = lab_rows("2000")
    for (pattern, strategy), columns in rows.items():
        memory, dead, (half, _, last) = columns[:5], columns[5], columns[6:9]
        wrong = {
            "heap": dead not in ("0.0", "-") or int(last) > 1,
            "lazy": half != "never" or float(dead) < 25 or int(memory[-1]) < 90,
            "cycle": last == "never" or int(last) > 10_000 or (dead != "-" and not 0.5 < float(dead) < 15),
        }[strategy]
        if wrong:
            fail(f"expire_lab 2000 says of TTLs that are {pattern}, with {strategy}: {' '.join(columns)}")
    hard = lab_rows("2000", "10")
    for pattern in ("equal", "uniform", "long tail", "renewed"):
        easily, hardly = rows[pattern, "cycle"], hard[pattern, "cycle"]
        if float(hardly[5]) >= float(easily[5]) or float(hardly[9]) <= float(easily[9]):
            fail(f"the cycle, {pattern}: {' '.join(easily)} at effort 1, {' '.join(hardly)} at effort 10")


@pytest.mark.inside
def test_lab_program_counts() -> None:
    """All but the last three columns are the same in every run. Keys that are asked for leave what they must."""
    first, second = lab_rows("1000"), lab_rows("1000")
    if first != second:
        fail("two runs of expire_lab 1000 differ", "", f"{first}\n{second}")
    if first["equal", "heap"][:5] != ["60", "100", "100", "100", "100"]:
        fail(f"of keys with equal TTLs the heap has in memory, in percent: {first['equal', 'heap'][:5]}")
    if first["at once", "lazy"][:5] != ["100", "90", "90", "90", "90"]:
        fail(f"of keys of which a tenth is asked for, lazy deletion has in memory: {first['at once', 'lazy'][:5]}")


@pytest.mark.inside
def test_lab_program_arguments() -> None:
    """What is too few, too many or no number is refused."""
    for line in ("x", "999", "5000001", "-1", "", "1000x", "1000 0", "1000 11", "1000 x", "1000 ", "1000 1 1"):
        words = line.split(" ")
        out, err, status = run_program(24, "expire_lab", words)
        if status != 1 or out or not err.startswith("usage: "):
            fail(f"expire_lab {words} ends with exit status {status} and prints\n{out}{err}")
