"""Chapter 09: data serialization."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = ["09-demo", "09-strings", "09-keys", "09-errors", "09-lines", "09-large"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("vector", vector_cases(9))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 9)


@pytest.mark.parametrize("case", new(9))
def test_new(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", earlier(9))
def test_earlier(case: Case) -> None:
    case(9)
