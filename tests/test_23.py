"""Chapter 23: a walk through a table that changes. SCAN, RANDOMKEY, and tables that shrink."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from cases.labs import lab_passes
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 23. The rules are in book/protocol.md.
SESSIONS = ["23-demo", "23-scan", "23-zscan", "23-random"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(23))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 23)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=23.
@pytest.mark.parametrize("case", new(23))
def test_new(case: Case) -> None:
    case(23)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(23))
def test_earlier(case: Case) -> None:
    case(23)


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_cursor() -> None:
    """Walks through tables that stand still, grow and shrink, with nodes that come and go between the steps."""
    lab_passes(23, "test_cursor")
