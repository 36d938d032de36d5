"""Chapter 15: a program of many files. All that 14 says, and no client can tell the difference."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. To watch it,
# python3 tests/tools/play.py --show 15. The rules are in book/protocol.md.
SESSIONS = ["15-same"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(15))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 15)


# What no client can see: which file calls which, who owns what, what make compiles again: tests/cases/files.py.
@pytest.mark.parametrize("case", new(15))
def test_new(case: Case) -> None:
    case(15)


# All that came before: here that is what the chapter is about.
@pytest.mark.parametrize("case", earlier(15))
def test_earlier(case: Case) -> None:
    case(15)
