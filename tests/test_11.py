"""Chapter 11: the sorted set."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, cases, client_errors, clients, clock, framing, leaks, logs, memory,
    merges, processes, readme, replies, strings, trouble, zsets,
)  # fmt: skip
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


@pytest.mark.parametrize("case", cases(11, basics))
def test_first(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, framing))
def test_framing(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, abuse))
def test_abuse(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, clock))
def test_clock(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, memory))
def test_memory(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, trouble))
def test_trouble(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, readme, processes))
def test_shared(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, client_errors))
def test_client_errors(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, leaks, merges))
def test_leaks(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, logs))
def test_logs(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, strings))
def test_strings(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, replies))
def test_replies(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, zsets))
def test_zsets(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, clients))
def test_clients(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("vector", vector_cases(11))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 11)


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
