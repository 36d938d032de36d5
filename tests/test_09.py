"""Chapter 09: serialization. A reply says what it is: nil, an error, a string, an integer, an array. `keys`; 32 MiB."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 09. The rules are in book/protocol.md.
SESSIONS = ["09-demo", "09-strings", "09-keys", "09-errors", "09-lines", "09-large"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(9))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 9)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=9.
@pytest.mark.parametrize("case", new(9))
def test_new(case: Case) -> None:
    case(9)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(9))
def test_earlier(case: Case) -> None:
    case(9)
