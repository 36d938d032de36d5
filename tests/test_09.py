"""Chapter 09: data serialization."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, cases, client_errors, clients, clock, framing, leaks, logs, memory,
    merges, processes, readme, replies, strings, trouble,
)  # fmt: skip
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = ["09-demo", "09-strings", "09-keys", "09-errors", "09-lines", "09-large"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("case", cases(9, basics))
def test_first(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, framing))
def test_framing(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, abuse))
def test_abuse(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, clock))
def test_clock(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, memory))
def test_memory(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, trouble))
def test_trouble(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, readme, processes))
def test_shared(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, client_errors))
def test_client_errors(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, leaks, merges))
def test_leaks(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, logs))
def test_logs(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, strings))
def test_strings(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, replies))
def test_replies(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, clients))
def test_clients(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("vector", vector_cases(9))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 9)
