"""Chapter 17: RESP."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte, in the order in which to read and to play it: tests/sessions/NAME.session
SESSIONS = [
    "17-demo", "17-connection", "17-auth", "17-hello", "17-clients", "17-quit", "17-bytes", "17-inline", "17-bad",
    "17-unknown", "17-strings", "17-set-times", "17-many", "17-numbers", "17-append", "17-type", "17-patterns",
    "17-ttl", "17-expire-options", "17-zadd", "17-zadd-errors", "17-zincrby", "17-zrank", "17-zrange",
    "17-zrange-scores",
    pytest.param("17-zquery", marks=pytest.mark.ours("the tests teach it to Redis, the client does not")),
    "17-server", "17-info", "17-config", "17-command", "17-help",
    pytest.param("17-setinfo", marks=pytest.mark.ours("Redis 7.0 does not have it")),
    pytest.param("17-limits", marks=pytest.mark.ours("they are limits of our own")),
    pytest.param("17-multi", marks=pytest.mark.ours("Redis has transactions")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


@pytest.mark.parametrize("vector", vector_cases(17))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 17)


@pytest.mark.parametrize("case", new(17))
def test_new(case: Case) -> None:
    case(17)


@pytest.mark.parametrize("case", earlier(17))
def test_earlier(case: Case) -> None:
    case(17)
