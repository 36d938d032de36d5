"""Chapter 09: data serialization."""
from __future__ import annotations

import pytest

from cases import Case, abuse, cases, clients, framing, processes, readme, replies, strings
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


@pytest.mark.parametrize("case", cases(9, framing))
def test_framing(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, abuse))
def test_abuse(case: Case) -> None:
    case(9)


@pytest.mark.parametrize("case", cases(9, readme, processes))
def test_shared(case: Case) -> None:
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
