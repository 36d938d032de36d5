"""Chapter 11: the sorted set."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from cases.labs import lab_passes, lab_sees
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = [
    "11-demo", "11-zadd", "11-zscore", "11-zquery", "11-ties", "11-infinity", "11-errors", "11-changes", "11-types",
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("vector", vector_cases(11))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 11)


@pytest.mark.parametrize("case", new(11))
def test_new(case: Case) -> None:
    case(11)


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
