"""Chapter 07: get, set, del."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = ["07-demo", "07-commands", "07-replaced", "07-keys", "07-bytes", "07-malformed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("vector", vector_cases(7))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 7)


@pytest.mark.parametrize("case", new(7))
def test_new(case: Case) -> None:
    case(7)


@pytest.mark.parametrize("case", earlier(7))
def test_earlier(case: Case) -> None:
    case(7)
