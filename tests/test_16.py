"""Chapter 16: ten thousand connections."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, cases, client_errors, clients, clock, crowd, framing, idle, leaks, logs, memory,
    merges, processes, readme, replies, strings, trouble, ttl, zsets,
)  # fmt: skip
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = ["16-crowd", "16-woken"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("case", cases(16, basics))
def test_first(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, framing))
def test_framing(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, abuse))
def test_abuse(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, clock))
def test_clock(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, memory))
def test_memory(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, trouble))
def test_trouble(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, readme, processes))
def test_shared(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, client_errors))
def test_client_errors(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, leaks, merges))
def test_leaks(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, logs))
def test_logs(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, strings))
def test_strings(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, replies))
def test_replies(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, clients))
def test_clients(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("vector", vector_cases(16))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 16)


@pytest.mark.parametrize("case", cases(16, zsets))
def test_zsets(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, idle))
def test_idle(case: Case) -> None:
    case(16)


@pytest.mark.parametrize("case", cases(16, ttl))
def test_ttl(case: Case) -> None:
    case(16)


# ---- many connections ----


@pytest.mark.parametrize("case", cases(16, crowd))
def test_crowd(case: Case) -> None:
    case(16)
