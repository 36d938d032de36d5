"""Chapter 17: RESP. The language of Redis, and its commands: strings, numbers, keys, times to live, sorted sets;
errors with Redis's own texts."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 17. The rules are in book/protocol.md.
SESSIONS = [
    # the language
    "17-demo", "17-bytes", "17-inline", "17-versions", "17-unknown", "17-bad", "17-quit",
    # connections
    "17-connection", "17-hello", "17-auth", "17-clients",
    pytest.param("17-setinfo", marks=pytest.mark.ours("Redis 7.0 does not have it")),
    # strings and keys
    "17-strings", "17-set-times", "17-many", "17-numbers", "17-append", "17-type", "17-patterns", "17-ttl",
    "17-expire-options",
    # sorted sets
    "17-zadd", "17-zadd-errors", "17-zincrby", "17-zrank", "17-zrange", "17-zrange-scores",
    pytest.param("17-zquery", marks=pytest.mark.ours("the tests teach it to Redis, the client does not")),
    # the server
    "17-server", "17-info", "17-config", "17-command", "17-help",
    pytest.param("17-limits", marks=pytest.mark.ours("they are limits of our own")),
    pytest.param("17-multi", marks=pytest.mark.ours("Redis has transactions")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(17))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 17)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=17.
@pytest.mark.parametrize("case", new(17))
def test_new(case: Case) -> None:
    case(17)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(17))
def test_earlier(case: Case) -> None:
    case(17)
