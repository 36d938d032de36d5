"""Chapter 21: a server that says what it can. The commands of Redis: strings, numbers, keys, times to live, sorted
sets; errors with Redis's own texts."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 21. The rules are in book/protocol.md.
SESSIONS = [
    # what a client sees first
    "21-demo", "21-bytes", "21-versions", "21-unknown",
    # connections
    "21-connection", "21-hello", "21-auth", "21-clients", "21-client-kill", "21-client-pause",
    pytest.param("21-setinfo", marks=pytest.mark.ours("Redis 7.0 does not have it")),
    # strings and keys
    "21-strings", "21-set-times", "21-many", "21-msetnx", "21-numbers", "21-incrbyfloat", "21-append", "21-getrange",
    "21-type", "21-patterns", "21-expire-options",
    # sorted sets
    "21-zadd", "21-zadd-errors", "21-zincrby", "21-zrank", "21-zmscore", "21-zrange", "21-zrange-scores",
    "21-zrevrange", "21-zlex", "21-zremrange", "21-zpop",
    # the server
    "21-server", "21-info", "21-config", "21-command", "21-help",
    pytest.param("21-limits", marks=pytest.mark.ours("they are limits of our own")),
    pytest.param("21-multi", marks=pytest.mark.ours("Redis has transactions")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(21))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 21)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=21.
@pytest.mark.parametrize("case", new(21))
def test_new(case: Case) -> None:
    case(21)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(21))
def test_earlier(case: Case) -> None:
    case(21)
