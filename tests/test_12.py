"""Chapter 12: timers. Who moves no byte for long is closed, and nobody too early."""
from __future__ import annotations

import select
import threading
from typing import Iterator, List, Tuple

import pytest

from cases import Case, earlier, new
from cases.idle import now_ms
from cases.talk import say
from harness import Conn, Server, check_session, limit, wait_until
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 12. The rules are in book/protocol.md.
SESSIONS = ["12-demo", "12-idle", "12-stalled"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# ---- the timeout that nobody has set ----

Silent = Tuple[Conn, float, List[float]]


@pytest.fixture(scope="module")
def silent() -> Iterator[Silent]:
    """A connection to a server with the default timeout, when it said something, and when it was closed."""
    ended: List[float] = []

    def watch() -> None:
        if select.select([conn.sock], [], [], limit(10))[0]:
            ended.append(now_ms())

    with Server(12) as server, server.connect(seconds=10) as conn:
        since = now_ms()
        say(conn)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        yield conn, since, ended
        watcher.join()


def test_default_timeout_begins(silent: Silent) -> None:
    """The last test of this file sees the end of this connection: nobody waits for five seconds."""
    conn, _, ended = silent
    conn.expect_silence(0)
    assert not ended


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(12))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 12)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=12.
@pytest.mark.parametrize("case", new(12))
def test_new(case: Case) -> None:
    case(12)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(12))
def test_earlier(case: Case) -> None:
    case(12)


def test_default_timeout_ends(silent: Silent) -> None:
    """Five seconds."""
    conn, since, ended = silent
    conn.expect_closed()
    wait_until(lambda: bool(ended), "whoever watches the connection sees its end, too")
    assert 4999 <= ended[0] - since <= 5000 + limit(2000), f"closed after {ended[0] - since:.0f} ms"
