"""Chapter 07: get, set, del. A reply is a status (0 done, 1 an error, 2 no such key) and data; what is no request ends
its connection."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 07. The rules are in book/protocol.md.
SESSIONS = ["07-demo", "07-commands", "07-replaced", "07-keys", "07-bytes", "07-limits", "07-malformed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(7))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 7)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=7.
@pytest.mark.parametrize("case", new(7))
def test_new(case: Case) -> None:
    case(7)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(7))
def test_earlier(case: Case) -> None:
    case(7)
