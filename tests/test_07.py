"""Chapter 07: get, set, del."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, cases, client_errors, clock, framing, leaks, logs, memory, processes, readme, strings,
    trouble,
)  # fmt: skip
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = ["07-demo", "07-commands", "07-replaced", "07-keys", "07-bytes", "07-malformed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("case", cases(7, basics))
def test_first(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, framing))
def test_framing(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, abuse))
def test_abuse(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, clock))
def test_clock(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, memory))
def test_memory(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, trouble))
def test_trouble(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, readme, processes))
def test_shared(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, client_errors))
def test_client_errors(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, leaks))
def test_leaks(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, logs))
def test_logs(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", cases(7, strings))
def test_strings(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("vector", vector_cases(7))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 7)
