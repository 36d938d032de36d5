"""What is freed is merged a few blocks at a time, so that no allocation ever has to merge very many (08 and later)."""
from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import List

from harness import fail, settings, wait_until
from harness.codec import codec
from harness.wire import DONE, Arg

from . import case
from .clock import Clock
from .processes import Frees
from .talk import bulk, numbered, preload, say, start, watched

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "glibc puts small freed blocks aside and merges them all in one go: tidy a few at a time "
    "(common/mem_tidy.h)"
)


class Merges:
    """Counts the blocks that one allocation has to merge (cases/merges.c): Merges().env goes to start()."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(16))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"MERGES_FILE": self.file.name, **preload("merges")}

    def most(self) -> int:
        """The most blocks that were set aside at any time."""
        return int.from_bytes(Path(self.file.name).read_bytes()[8:16], sys.byteorder)


def tells() -> bool:
    """Is this glibc, and no sanitizer with an allocator of its own?"""
    return platform.libc_ver()[0] == "glibc" and not watched()


@case(since=8, inside=True)
def merged_a_few_at_a_time(chapter: int) -> None:
    """Twenty thousand keys are deleted, round by round. Nothing but the server's own tidying merges them."""
    if not tells():
        return
    merges, n = Merges(), 20_000
    with start(chapter, env=merges.env) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "value"), DONE)
        bulk(conn, numbered(range(n), "del", "key:######"), 1 if codec(chapter).has_values else DONE)
        say(conn)
    if merges.most() > n // 4:
        fail(f"{n} keys were deleted, and {merges.most()} of the freed blocks waited to be merged in one go")


@case(since=21, inside=True)
def merged_while_a_database_is_flushed(chapter: int) -> None:
    """Twenty thousand keys are freed by a worker. It merges what it has freed, and leaves none of that to the loop."""
    if not tells():
        return
    merges, n = Merges(), 20_000
    with start(chapter, env=merges.env) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "value"), DONE)
        bulk(conn, numbered(range(n), "expire", "key:######", "1000"), 1)
        conn.ask("flushall", expect=DONE)
        wait_until(server.workers_sleep, "the keys are freed")
        say(conn)
    if merges.most() > n // 4:
        fail(
            f"{n} keys were flushed, and {merges.most()} of the freed blocks waited to be merged in one go",
            "whoever frees many blocks merges them every now and then: else the next client that needs a large block "
            "waits until all are merged",
            "a few hundred at most",
        )


@case(since=24, inside=True)
def merged_while_keys_expire(chapter: int) -> None:
    """Twenty thousand keys that nobody asks for are over at the same moment. The cycle merges what it has freed."""
    if not tells():
        return
    merges, clock, n = Merges(), Clock(), 20_000
    clock.env.update(MERGES_FILE=merges.env["MERGES_FILE"])
    with clock.server(chapter, more=["merges"]) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "value", "px", "1000"), DONE)
        for _ in range(10):
            clock.step(1001)
        conn.ask("dbsize", expect=0)
    if merges.most() > n // 4:
        fail(
            f"{n} keys expired, and {merges.most()} of the freed blocks waited to be merged in one go",
            "whoever frees many blocks merges them every now and then: else the next client that needs a large block "
            "waits until all are merged",
            "a few hundred at most",
        )


@case(since=21, inside=True)
def merged_though_many_sets_are_deleted_at_once(chapter: int) -> None:
    """One `del` of twenty sets of 9,000 pairs: each is small enough to be freed by the loop, all of them are not."""
    if not tells():
        return
    merges, sets, pairs = Merges(), 20, 9000
    with start(chapter, env=merges.env) as server, server.connect() as conn:
        scored = [word for i in range(pairs) for word in ("1", f"name:{i}")]
        for i in range(sets):
            conn.ask("zadd", f"set{i}", *scored, expect=pairs)
        conn.ask("del", *(f"set{i}" for i in range(sets)), expect=sets)
        wait_until(server.workers_sleep, "the sets are freed")
        say(conn)
    if merges.most() > sets * pairs * 2 // 3:
        fail(
            f"{sets} sets of {pairs} pairs were deleted by one request, and {merges.most()} of the freed blocks waited "
            f"to be merged in one go",
            "does the loop free all of them itself, as each is small? When a request has done enough of that, the rest "
            "is for the workers.",
            f"as many as a turn has work, and then the workers' few; {sets * pairs * 2 // 3} at most",
        )


@case(since=14, inside=True)
def large_values_are_freed_by_workers(chapter: int) -> None:
    """However a string of 12 MiB dies, or a set with a name as long: the loop gives none of it back itself."""
    if not tells():
        return
    frees, big = Frees(), b"v" * (12 << 20)
    ways: List[List[List[Arg]]] = [
        [["del", "k"]], [["set", "k", "v"]], [["expire", "k", "0"]], [["pexpire", "k", "1"]],
    ]  # fmt: skip
    if codec(chapter).has_options:
        ways.append([["flushall"]])
    if codec(chapter).has_keyspace:
        ways.append([["set", "other", "v"], ["rename", "other", "k"]])
    with start(chapter, env=frees.env) as server, server.connect() as conn:
        for make in (["set", "k", big], ["zadd", "k", "1", big]):
            for way in ways:
                conn.ask(*make)
                say(conn)  # the request's own buffer is gone
                before = frees.loop_bytes()
                for words in way:
                    conn.ask(*words)
                if way[-1][0] == "pexpire":
                    wait_until(lambda: conn.ask("pttl", "k") == -2, "its time is up")
                given_back = frees.loop_bytes() - before
                if given_back > 2 << 20:
                    fail(
                        f"a value of 12 MiB died by {way[-1][0]}, and the loop itself gave back {given_back >> 20} MiB",
                        "to give memory back takes 0.1 ms a MiB: what is large is for the workers, whether it is one "
                        "string or many pairs",
                        "next to nothing",
                    )
                wait_until(server.workers_sleep, "it is freed")


@case(since=24, inside=True)
def sets_that_expire_are_freed_by_workers(chapter: int) -> None:
    """Thirty sets of 2,000 pairs are past their time, and nobody asks for them. A slice of the cycle frees none of them
    itself: each would take longer than the slice."""
    if not tells():
        return
    frees, sets, pairs = Frees(), 30, 2000
    with start(chapter, env=frees.env) as server, server.connect() as conn:
        scored = [word for i in range(pairs) for word in ("1", f"name:{i}")]
        for i in range(sets):
            conn.ask("zadd", f"set{i}", *scored, expect=pairs)
        conn.ask("ping")
        before = frees.loop_bytes()
        conn.pipeline([["pexpire", f"set{i}", "1"] for i in range(sets)], [1] * sets)
        wait_until(lambda: conn.ask("dbsize") == 0, "the cycle finds them")
        given_back = frees.loop_bytes() - before
        if given_back > 1 << 19:
            fail(
                f"{sets} sets of {pairs} pairs expired, and the loop itself gave back {given_back >> 10} KiB",
                "a slice has a quarter of a millisecond, and looks at the clock between its steps alone: what takes "
                "long is for the workers",
                "next to nothing",
            )
