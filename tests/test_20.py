"""Chapter 20: RESP. The language of Redis, spoken by the commands that we have: requests in any pieces, lines of words,
replies of version 2 and 3, errors with Redis's own texts."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 20. The rules are in book/protocol.md.
SESSIONS = [
    # the language
    "20-demo", "20-bytes", "20-inline", "20-versions", "20-unknown", "20-bad", "20-quit",
    # connections
    "20-connection", "20-hello",
    # the commands, with the names and replies of Redis
    "20-strings", "20-ttl", "20-zsets",
    pytest.param("20-zquery", marks=pytest.mark.ours("the tests teach it to Redis, the client does not")),
    pytest.param("20-limits", marks=pytest.mark.ours("they are limits of our own")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(20))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 20)


# What no transcript can say, pieces, time, memory, random requests: tests/cases/, since=20.
@pytest.mark.parametrize("case", new(20))
def test_new(case: Case) -> None:
    case(20)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(20))
def test_earlier(case: Case) -> None:
    case(20)
