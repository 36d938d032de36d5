"""Chapter 17: RESP."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, batches, beside_redis, cases, client_errors, clients, clock, crowd, expiry, framing,
    idle, leaks, logs, memory, merges, processes, readme, real_clients, replies, resp, strings, trouble, ttl, zsets,
)  # fmt: skip
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


@pytest.mark.parametrize("case", cases(17, basics))
def test_first(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, resp))
def test_resp(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, framing))
def test_framing(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, abuse))
def test_abuse(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, clock))
def test_clock(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, memory))
def test_memory(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, trouble))
def test_trouble(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, readme, processes))
def test_shared(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, client_errors))
def test_client_errors(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, leaks, merges))
def test_leaks(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, logs))
def test_logs(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, strings))
def test_strings(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, replies))
def test_replies(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, clients))
def test_clients(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, zsets))
def test_zsets(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, idle))
def test_idle(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, ttl, expiry))
def test_ttl(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", cases(17, batches, crowd))
def test_batches(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("vector", vector_cases(17))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 17)


@pytest.mark.parametrize("case", cases(17, real_clients, beside_redis))
def test_real_clients(case: Case) -> None:
    case(17)
