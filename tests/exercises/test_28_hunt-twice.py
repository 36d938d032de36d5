"""28-hunt-twice: what has changed is in front of the fork or behind it, and never on both sides."""
from __future__ import annotations

import re
import signal
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from grading import Build, Submission, points
from harness import Conn, Server, limit, wait_until
from harness.resp import OK

# A disk on which a sync lasts as long as the file HOLD is there, and a loop that sees only later that it is over: LATE
# is how many looks later.
SLOW = r"""
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

static inline int slow_fdatasync(int fd) {
    while (access(getenv("HOLD"), F_OK) == 0) {
        usleep(1000);
    }
    return fdatasync(fd);
}

static inline int late_trywait(sem_t *sem) {
    static int looks;
    int done = 0;
    sem_getvalue(sem, &done);
    if (done > 0 && looks < atoi(getenv("LATE"))) {
        looks++;
        errno = EAGAIN;
        return -1;
    }
    looks = done > 0 ? 0 : looks;
    return sem_trywait(sem);
}

#define fdatasync slow_fdatasync
#define sem_trywait late_trywait
"""
BIG = b"x" * (9 << 20)  # more than is written without a sync
TWICE = "what is in the new file of a change that was in memory when the process forked?"
History = List[str]  # which counters were counted, one after the other


_built: Dict[Path, Build] = {}  # once for all tests


def slow(work: Submission) -> Build:
    """The server on such a disk."""
    if work.scratch not in _built:
        flags = ["-O0", "-g0", "-include", "slow.h"]
        _built[work.scratch] = work.variant(programs=["server"], files={"slow.h": SLOW}, flags=flags)
    return _built[work.scratch]


def new_folder(work: Submission, name: str) -> Path:
    """A folder for a log."""
    folder = work.shared / name
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@contextmanager
def life(build: Build, folder: Path, late: int = 0) -> Iterator[Tuple[Server, Conn]]:
    """The server on that disk, with its log in this folder."""
    env = {"DIR": str(folder), "APPENDONLY": "yes", "HOLD": str(folder / "hold"), "LATE": str(late)}
    with build.server(env=env) as server, server.connect() as conn:
        server.wait_line(re.compile("Ready to accept connections"))
        yield server, conn


def number(conn: Conn, name: str) -> int:
    """One of the numbers of `info`."""
    found = re.search(rf"^{name}:(\d+)", bytes(conn.ask("info")).decode(), re.M)  # type: ignore[call-overload]
    assert found, name
    return int(found[1])


def rests(conn: Conn) -> bool:
    return not number(conn, "aof_rewrite_in_progress") and not number(conn, "aof_rewrite_scheduled")


def count(conn: Conn, history: History, name: str, n: int = 1) -> None:
    for _ in range(n):
        history.append(name)
        conn.ask("incr", name, expect=history.count(name))


def begin_while_it_syncs(conn: Conn, folder: Path, history: History, name: str) -> None:
    """A sync begins, a rewrite is asked for, and counters are counted; then the sync ends."""
    count(conn, history, "all")
    (folder / "hold").touch()
    conn.ask("set", "big", BIG, expect=OK)
    conn.ask("bgrewriteaof")
    conn.ask("del", "big", expect=1)
    for each in (name, "all", "all"):
        count(conn, history, each)
    time.sleep(0.05)  # what is due is done while it waits
    (folder / "hold").unlink()


def expect_counts(work: Submission, conn: Conn, history: History, said: str) -> None:
    """Each counter must have its number."""
    rights = Counter(history)
    found = {name: int(conn.ask("get", name) or 0) for name in rights}  # type: ignore[call-overload]
    wrong = [f"{name} is {found[name]}, too {'high' if found[name] > right else 'low'}: it was {right}"
             for name, right in rights.items() if found[name] != right]  # fmt: skip
    work.expect(not wrong, came=f"{said}: " + "\n".join(wrong[:8]), expected="each counter has its number", cause=TWICE)


@points(4, "a restart")
def test_restart(work: Submission) -> None:
    """While a sync goes on, a rewrite is asked for, and counters are counted; then the server is restarted. That six
    times."""
    build, folder, history = slow(work), new_folder(work, "restart"), []  # type: Build, Path, History
    for each in range(7):
        with life(build, folder, each) as (server, conn):
            if each > 0:
                expect_counts(work, conn, history, f"after {each} restarts")
            if each < 6:
                begin_while_it_syncs(conn, folder, history, f"page:{each}")
                wait_until(lambda: rests(conn), "the rewrite is done", 20)
                server.stop(signal.SIGTERM)


@points(3, "killed")
def test_killed(work: Submission) -> None:
    """The same, but the server is killed, three times while the rewrite goes on, three times when it is done. All was
    written: the kernel has it."""
    build, folder, history = slow(work), new_folder(work, "killed"), []  # type: Build, Path, History
    for each in range(7):
        with life(build, folder, each // 2) as (server, conn):
            if each > 0:
                expect_counts(work, conn, history, f"killed {each} times")
            if each < 6:
                begin_while_it_syncs(conn, folder, history, f"page:{each}")
                if each % 2 == 0:
                    wait_until(lambda: rests(conn), "the rewrite is done", 20)
                else:
                    server.wait_line(re.compile("rewriting started by pid"))
                    wait_until(lambda: not number(conn, "aof_pending_bio_fsync"), "the new file is there", 20)
                server.stop(signal.SIGKILL)


@points(3, "it begins all the same")
def test_begins(work: Submission) -> None:
    """A client counts without a pause, and a rewrite is asked for."""
    build, folder, history = slow(work), new_folder(work, "begins"), []  # type: Build, Path, History
    with life(build, folder) as (server, conn):
        count(conn, history, "all")
        (folder / "hold").touch()
        conn.ask("set", "big", BIG, expect=OK)
        conn.ask("bgrewriteaof")
        conn.ask("del", "big", expect=1)
        count(conn, history, "all", 20)
        (folder / "hold").unlink()
        end = time.monotonic() + limit(3)
        while not rests(conn):
            work.expect(
                time.monotonic() < end, came="three seconds later, the rewrite has not begun, or has not ended",
                expected="it begins when the sync is over", cause="what does it wait for?",
            )  # fmt: skip
            count(conn, history, "all", 20)
        server.stop(signal.SIGTERM)
    with life(build, folder) as (server, conn):
        expect_counts(work, conn, history, "after a restart")
