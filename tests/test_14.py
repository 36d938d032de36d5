"""Chapter 14: the thread pool. All that 13 says, and nobody waits while something large is freed."""
from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, List

import pytest

from cases import Case, earlier, merges, new, perhaps
from cases.idle import cpu_us, now_ms
from cases.labs import lab_passes
from cases.leaks import checked_program
from cases.processes import Frees, leaves
from cases.talk import bulk, numbered, paused, say, start, watched
from cases.ttl import GONE, until
from harness import Conn, Err, Server, check_session, fail, limit, run_program, wait_until, wire
from harness.build import program
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

PERHAPS = "a large set is freed by a thread that waits for work; the loop puts it into the queue and goes on"

LARGE = 10_000  # members; a set of more is freed by a worker


# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 14. The rules are in book/protocol.md.
SESSIONS = ["14-demo", "14-large", "14-long", "14-leaving"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(14))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 14)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=14.
@pytest.mark.parametrize("case", new(14))
def test_new(case: Case) -> None:
    case(14)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(14))
def test_earlier(case: Case) -> None:
    case(14)


# ---- large sets ----


def build(conn: Conn, key: str, n: int) -> None:
    """A sorted set n000000, n000001, .. with the scores 0, 1, .."""
    bulk(conn, numbered(range(n), "zadd", key, "######", "n######"), 1)


def by_del(conn: Conn, key: str) -> None:
    conn.ask("del", key, expect=1)


def by_set(conn: Conn, key: str) -> None:
    conn.ask("set", key, "v", expect=None)
    conn.ask("get", key, expect=b"v")
    conn.ask("del", key, expect=1)


def by_expire(conn: Conn, key: str) -> None:
    conn.ask("expire", key, "0", expect=1)


def by_the_timer(conn: Conn, key: str) -> None:
    conn.ask("pexpire", key, "1", expect=1)
    until(now_ms() + 5 + GONE)


ROADS: Dict[str, Callable[[Conn, str], None]] = {
    "del": by_del, "set over it": by_set, "a TTL of 0": by_expire, "its deadline": by_the_timer,
}  # fmt: skip
EACH_ROAD = pytest.mark.parametrize("road", ROADS)


def is_gone(conn: Conn, key: str) -> None:
    conn.ask("zscore", key, "n000000", expect=None)
    conn.ask("zquery", key, "-inf", "", "0", "10", expect=[])
    conn.ask("pttl", key, expect=-2)
    conn.ask("del", key, expect=0)


@EACH_ROAD
def test_gone_at_once(road: str) -> None:
    """And what comes in its place is new, while a worker may still be busy with the old one."""
    with start(14) as server, server.connect() as conn, server.connect() as other:
        for n in (LARGE - 1, LARGE, LARGE + 1, LARGE * 2):
            build(conn, "big", n)
            other.ask("zquery", "big", "0", "", str(n - 1), "2", expect=[b"n%06d" % (n - 1), float(n - 1)])
            ROADS[road](conn, "big")
            is_gone(other, "big")
            conn.ask("zadd", "big", "1.5", "n000001", expect=1)
            other.ask("zquery", "big", "-inf", "", "0", "10", expect=[b"n000001", 1.5])
            other.ask("zscore", "big", "n000000", expect=None)
            other.ask("set", "big", "v", expect=None)
            conn.ask("zadd", "big", "1", "n", expect=Err(3))
            conn.ask("del", "big", expect=1)
        conn.ask("keys", expect=[])


def test_emptied_one_by_one() -> None:
    n = LARGE + 500
    with start(14) as server, server.connect() as conn:
        build(conn, "big", n)
        bulk(conn, numbered(range(n), "zrem", "big", "n######"), 1)
        is_gone(conn, "big")
        conn.ask("keys", expect=[])


def test_shrunk_below_the_limit() -> None:
    """What counts is how many there are in the end."""
    with start(14) as server, server.connect() as conn:
        build(conn, "big", LARGE + 2)
        for i in range(4):
            conn.ask("zrem", "big", f"n00000{i}", expect=1)
        conn.ask("zquery", "big", "0", "", "0", "1", expect=[b"n000004", 4.0])
        conn.ask("del", "big", expect=1)
        is_gone(conn, "big")


def test_expired_and_met_before_the_timer() -> None:
    """The deadline passes while the server is stopped, and a thousand other keys are due first."""
    with start(14) as server, server.connect() as conn, server.connect() as other:
        for command in (["get", "big"], ["zadd", "big", "7", "n"], ["set", "big", "v"], ["del", "big"]):
            build(conn, "big", LARGE + 1)
            bulk(conn, numbered(range(1000), "zadd", "k######", "1", "n"), 1)
            bulk(conn, numbered(range(1000), "pexpire", "k######", "20"), 1)
            conn.ask("pexpire", "big", "22", expect=1)
            with paused(server):
                until(now_ms() + 22 + GONE)
                conn.send(wire.request(*command) + wire.request("zquery", "big", "0", "", "0", "9"))
            conn.recv({"get": None, "zadd": 1, "set": None, "del": 0}[command[0]])
            conn.recv({"get": [], "zadd": [b"n", 7.0], "set": Err(3), "del": []}[command[0]])
            other.ask("del", "big", expect=int(command[0] in ("zadd", "set")))


@perhaps("a worker frees what it is given: is one woken (pthread_cond_signal) for each set, does it take every piece "
         "of work, and free all of it?")  # fmt: skip
def test_memory_comes_back() -> None:
    """By every road: many large sets, one after another, cost no more than a few."""
    n = 20_000
    with start(14) as server, server.connect() as conn:
        before = server.rss_kb()
        build(conn, "big", n)
        one = server.rss_kb() - before
        for road in list(ROADS) * 2:
            ROADS[road](conn, "big")
            build(conn, "big", n)
        grown = server.rss_kb() - before
        if grown > 3.5 * one and not watched():
            fail(f"one set of {n} names takes {one} KiB; after nine of them, eight gone, it is {grown} KiB")


def test_many_at_once() -> None:
    """Ten large sets and many small ones go at the same time, and others are served."""
    with start(14) as server, server.connect() as conn, server.connect() as other:
        for i in range(10):
            build(conn, f"big{i}", LARGE + 1 + i)
        bulk(conn, numbered(range(500), "zadd", "small######", "1", "n"), 1)
        keys = [b"big%d" % i for i in range(10)] + [b"small%06d" % i for i in range(500)]
        random.Random(14).shuffle(keys)
        half = len(keys) // 2
        conn.send(b"".join(wire.request("del", key) for key in keys[:half]))
        conn.send(b"".join(wire.request("pexpire", key, b"1") for key in keys[half:]))
        began = now_ms()
        for _ in range(100):
            say(other)
        if now_ms() > began + limit(2000):
            fail(f"200 requests beside sets that go took {now_ms() - began:.0f} ms")
        for _ in keys:
            conn.recv(1)
        until(now_ms() + 1 + GONE)
        other.ask("keys", expect=[b"saykey"])


# ---- leaving ----


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_leaves_with_work_queued(sig: int) -> None:
    """More large sets are deleted than there are threads, and at once comes the signal. Leak checkers look."""
    with start(14) as server, server.connect() as conn:
        for i in range(8):
            build(conn, f"big{i}", LARGE + 1)
        conn.send(b"".join(wire.request("del", b"big%d" % i) for i in range(6)))
        conn.recv(1)
        leaves(server, sig, "a server with large sets to be freed, and others")


@perhaps("at the end the system takes all memory back: the queue is left as it is")
@pytest.mark.inside
def test_leaves_with_very_much_work_queued() -> None:
    """It does not free all of it first: the system takes it back sooner."""
    if watched():
        return  # a sanitizer has a free() of its own
    sets, n = 3, 10 * LARGE
    frees = Frees(rest=True)
    with start(14, env=frees.env) as server, server.connect() as conn:
        for i in range(sets):
            build(conn, f"big{i}", n)
        before = frees.now()
        conn.pipeline([("del", f"big{i}") for i in range(sets)], [1] * sets)
        leaves(server, signal.SIGTERM, f"a server with {sets * n} pairs to be freed")
    if frees.now() - before > sets * n // 2:
        fail(f"a server with {sets * n} pairs to be freed called free() {frees.now() - before} times before it ended")


def test_leaves_with_a_set_in_work() -> None:
    with start(14) as server, server.connect() as conn:
        build(conn, "big", 8 * LARGE)
        conn.ask("del", "big", expect=1)
        leaves(server, signal.SIGTERM, "a server that frees a large set")


# ---- inside ----


def threads(server: Server) -> List[Path]:
    """The folders of the threads below /proc, the loop's first."""
    return sorted(Path(f"/proc/{server.pid}/task").iterdir(), key=lambda path: int(path.name))


def times_run(server: Server) -> int:
    """How often the workers have been given a processor."""
    return sum(int((path / "schedstat").read_text().split()[2]) for path in threads(server)[1:])


@perhaps("four workers are started once, before the loop")
@pytest.mark.inside
def test_four_threads_beside_the_loop() -> None:
    with start(14) as server, server.connect() as conn:
        say(conn)
        if not os.environ.get("SAN") and not os.environ.get("WRAPPER"):
            assert len(threads(server)) == 1 + 4
        build(conn, "big", LARGE + 1)
        conn.ask("del", "big", expect=1)
        assert len(threads(server)) >= 1 + 4


@perhaps("block signals before the threads are started, and unblock them in the loop's own")
@pytest.mark.inside
def test_signals_reach_the_loop() -> None:
    """The workers block them, so that none can land where nobody looks."""
    with start(14) as server:
        blocked = _blocked_signals(server)
        for sig in (signal.SIGTERM, signal.SIGINT):
            bit = 1 << (sig - 1)
            assert not blocked[0] & bit, f"the loop blocks signal {sig}"
            assert sum(bool(mask & bit) for mask in blocked[1:]) >= 4, f"not all workers block signal {sig}"


@perhaps("take SIGSEGV, SIGBUS, SIGFPE and SIGILL out of the mask (sigdelset) before the workers are started")
@pytest.mark.inside
def test_a_crash_in_a_worker_calls_a_handler() -> None:
    """The signals that a mistake raises stay open in all threads: where they are blocked, a sanitizer is silent."""
    crash = sum(1 << (sig - 1) for sig in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))
    with start(14) as server:  # a thread that is just being created blocks all signals for a moment
        wait_until(
            lambda: sum(not mask & crash for mask in _blocked_signals(server)) >= 1 + 4,
            "the loop and the four workers leave SIGSEGV open",
        )


def _blocked_signals(server: Server) -> List[int]:
    """The masks of its threads, that of the loop first."""
    lines = [line for path in threads(server) for line in (path / "status").read_text().splitlines()]
    return [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:")]


@perhaps("the worker tidies what it has freed (common/mem_tidy.h)")
@pytest.mark.inside
def test_what_a_worker_frees_is_merged_by_the_worker() -> None:
    """While it frees, a few blocks at a time: the loop, which then needs a large block, has nothing to merge."""
    if not merges.tells():
        return
    counted = merges.Merges()
    with start(14, env=counted.env) as server, server.connect() as conn:
        build(conn, "big", 8 * LARGE)
        conn.ask("del", "big", expect=1)
        wait_until(lambda: sleeping(server), "the set is freed")
        server.connect().close()
        say(conn)
    if counted.most() > LARGE:
        fail(f"{8 * LARGE} pairs were freed, and {counted.most()} blocks waited for the loop to merge them in one go")


def sleeping(server: Server) -> bool:
    """Have all workers begun, and do they wait?"""
    stats = [(path / "stat").read_text().rpartition(")")[2].split() for path in threads(server)[1:]]
    return len(stats) == 4 and all(stat[0] == "S" for stat in stats)


@perhaps("only sets above 10000 members are handed to a worker")
@pytest.mark.inside
def test_small_sets_die_in_place() -> None:
    """Up to 10000 members the loop frees a set itself; from 10001 on a worker is woken."""
    if watched():
        return  # with threads of its own
    with start(14) as server, server.connect() as conn:
        woken = []
        for _ in range(3):  # a worker may be late to begin
            wait_until(lambda: sleeping(server), "the workers wait")
            before = times_run(server)
            build(conn, "big", LARGE)
            conn.ask("del", "big", expect=1)
            conn.ask("set", "string", b"x" * 100_000, expect=None)
            conn.ask("del", "string", expect=1)
            time.sleep(0.02)
            woken.append(times_run(server) - before)
        assert woken[-1] == 0, f"workers were woken {woken} times"
        before = times_run(server)
        build(conn, "big", LARGE + 1)
        assert times_run(server) == before
        conn.ask("del", "big", expect=1)
        wait_until(lambda: times_run(server) > before, "a worker is woken")


def loop_us(chapter: int, n: int) -> Dict[str, float]:
    """The processor time that the loop needs to be rid of a set, by road, in microseconds."""
    used = {}
    with start(chapter) as server, server.connect() as conn:
        for road in ROADS:
            build(conn, "big", n)
            build(conn, "big2", n)
            before = cpu_us(server)
            ROADS[road](conn, "big")
            ROADS[road](conn, "big2")
            is_gone(conn, "big")
            used[road] = cpu_us(server) - before
    return used


@pytest.mark.inside
def test_the_loop_does_not_wait() -> None:
    """By each road, against chapter 13, where it does all of the work."""
    if watched():
        return  # chapter 13 may not be built like this
    if not (Path(__file__).parents[1] / "chapters" / "13").exists():
        pytest.skip("chapter 13 is not in this copy of the workbook")
    tries = []
    for _ in range(3):
        alone, pool = loop_us(13, 2 * LARGE), loop_us(14, 2 * LARGE)
        tries.append(
            {
                road: f"{pool[road]:.0f} us, in chapter 13 {alone[road]:.0f} us"
                for road in ROADS
                if pool[road] > alone[road] / 3
            }
        )
        if not tries[-1]:
            return
    fail(f"the loop frees large sets itself: {tries}")


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """All work once, in order, wake-ups, the end. The thread sanitizer looks too, where it is asked to."""
    lab_passes(14, "test_thread_pool")


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program_has_no_races() -> None:
    """Built with the thread sanitizer, it runs to its end without a report."""
    if watched():
        return
    command = checked_program(14, "test_thread_pool", "thread")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit(50))
    if done.returncode or done.stderr:
        fail(
            f"test_thread_pool ends with exit status {done.returncode} and says\n{done.stderr[:2000]}",
            "what a comment in thread_pool.h calls guarded is read and written between pthread_mutex_lock() and "
            "pthread_mutex_unlock() alone",
            "no report of the thread sanitizer",
        )


@pytest.mark.inside
@pytest.mark.parametrize("what", ["get", "connect", "leave"])
def test_stall(what: str) -> None:
    """Three rounds with a server each, and what somebody waited in each."""
    out, err, status = run_program(14, "stall", ["3000", what, *program(14, "server")], seconds=20)
    if status != 0 or err or not re.fullmatch(r"   3000 pairs, wait in ms:( \d+\.\d){3}\n", out):
        fail(f"stall 3000 {what} ends with exit status {status} and prints\n{out}{err}")


@pytest.mark.inside
def test_stall_words() -> None:
    """What it does not know is refused."""
    for words in ([], ["3000", "set", "./server"], ["x", "get", "./server"], ["300", "get", "./server"]):
        out, err, status = run_program(14, "stall", words)
        if status != 1 or out or not err.startswith("usage: "):
            fail(f"stall {words} ends with exit status {status} and prints\n{out}{err}")
