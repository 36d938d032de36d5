"""Chapter 27: nothing is lost. What was answered is there again, after the server has ended in any way."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 27. The rules are in book/protocol.md.
OURS = pytest.mark.ours("Redis has no batches, and says in other words what is wrong")
SESSIONS = [
    "27-demo", "27-restart", "27-expired",
    *(pytest.param(name, marks=OURS) for name in (
        # what goes into the log
        "27-log", "27-effects", "27-multi",
        # what can be set, and asked for
        "27-start", "27-settings", "27-config", "27-file", "27-info",
        # the form of its files, and what may be wrong with them
        "27-batches", "27-torn", "27-damage", "27-manifest", "27-refused", "27-loading",
    )),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(27))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 27)


# What no transcript can say, files that are cut, a disk that is full, random ends: tests/cases/, since=27.
@pytest.mark.parametrize("case", new(27))
def test_new(case: Case) -> None:
    case(27)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(27))
def test_earlier(case: Case) -> None:
    case(27)
