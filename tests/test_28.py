"""Chapter 28: a log that stays short. It is written anew as the keys are now, while clients are served."""
from __future__ import annotations

import pytest

from cases import Case, earlier, new
from harness import check_session
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 28. The rules are in book/protocol.md.
OURS = pytest.mark.ours("Redis has other files, and begins a rewrite when there is no log, too")
SESSIONS = [
    "28-demo", pytest.param("28-rewrite", marks=OURS), "28-automatic", "28-never",
    # what can be asked, set, and refused
    "28-info", "28-config", "28-refused", pytest.param("28-off", marks=OURS),
    pytest.param("28-many-files", marks=OURS),
    # what a crash leaves
    pytest.param("28-restart", marks=OURS),
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(28))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 28)


# What no transcript can say, a child that is killed, a disk that is full, who waits: tests/cases/, since=28.
@pytest.mark.parametrize("case", new(28))
def test_new(case: Case) -> None:
    case(28)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(28))
def test_earlier(case: Case) -> None:
    case(28)
