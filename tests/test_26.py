"""Chapter 26: who wants to hear it. What others publish, and what happens to keys."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 26. The rules are in book/protocol.md.
SESSIONS = [
    "26-demo", "26-publish", "26-patterns", "26-unsubscribe", "26-pubsub", "26-listener", "26-restricted", "26-multi",
    # what happens to keys
    "26-classes", "26-events", "26-expired",
    pytest.param("26-order", marks=pytest.mark.ours("Redis 7.0 has some events behind the reply, or within it")),
    # whoever does not read
    "26-settings", "26-slow", "26-client-list",
    pytest.param("26-bounds", marks=pytest.mark.ours("Redis has no such bound")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(26))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 26)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=26.
@pytest.mark.parametrize("case", new(26))
def test_new(case: Case) -> None:
    case(26)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(26))
def test_earlier(case: Case) -> None:
    case(26)
