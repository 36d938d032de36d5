"""Chapter 25: all or nothing. Requests that are done together or not at all, and keys that are watched."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 25. The rules are in book/protocol.md.
SESSIONS = [
    "25-demo", "25-lost-update", "25-queue", "25-errors", "25-discard", "25-watch", "25-databases", "25-end",
    pytest.param("25-bounds", marks=pytest.mark.ours("Redis has no such bounds")),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(25))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 25)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=25.
@pytest.mark.parametrize("case", new(25))
def test_new(case: Case) -> None:
    case(25)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(25))
def test_earlier(case: Case) -> None:
    case(25)
