"""Chapter 22: two doors. Sixteen databases, keys under other names, times to live that are dates, statistics."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 22. The rules are in book/protocol.md.
SESSIONS = [
    "22-demo", "22-databases", "22-rename", "22-copy", "22-getting", "22-dates", "22-expired", "22-stays", "22-object",
    "22-info", "22-time", "22-memory", "22-help",
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(22))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 22)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=22.
@pytest.mark.parametrize("case", new(22))
def test_new(case: Case) -> None:
    case(22)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(22))
def test_earlier(case: Case) -> None:
    case(22)
