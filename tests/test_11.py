"""Chapter 11: the sorted set. zadd, zrem, zscore, zquery; doubles."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from cases.labs import lab_passes, lab_sees
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 11. The rules are in book/protocol.md.
SESSIONS = [
    "11-demo", "11-zadd", "11-zscore", "11-zquery", "11-ties", "11-changes",
    "11-numbers", "11-infinity", "11-types", "11-errors",
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(11))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 11)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=11.
@pytest.mark.parametrize("case", new(11))
def test_new(case: Case) -> None:
    case(11)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(11))
def test_earlier(case: Case) -> None:
    case(11)


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """From every rank to every rank, from every start by every offset, and random runs."""
    lab_passes(11, "test_zset")


@pytest.mark.inside
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("return znode->score < score;", "return (int)(znode->score - score) < 0;"),
        ("last && offset < 0 ? znode_of(avl_offset(last, offset + 1)) : NULL", "NULL"),
        ("znode->score = score + 0.0; // -0 becomes 0", "znode->score = score;"),
    ],
    ids=["scores as integers", "past the last", "-0"],
)  # fmt: skip
def test_lab_program_sees(right: str, wrong: str) -> None:
    lab_sees(11, "test_zset", "zset.h", right, wrong)
