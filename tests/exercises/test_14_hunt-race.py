"""14-hunt-race: what is handed to a worker cannot be reached by the loop any more, whichever of them is faster."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Dict, Iterator, Tuple

from cases.talk import bulk, numbered
from fake_clock import Clock
from grading import ROOT, Submission, points
from harness import Conn, Server

LARGE = 10_000  # members; a set of more is freed by a worker

HEAD = """
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "mem.h"

void count_mark(void);

struct work {
    void (*f)(void *arg);
    void *arg;
    struct work *next;
};

struct thread_pool {
    struct work *first;
    struct work **end;
};

static inline void *do_work(void *arg) {
    struct work *work = arg;
    work->f(work->arg);
    free(work);
    return NULL;
}

static inline void thread_pool_init(struct thread_pool *pool, size_t num_threads) {
    (void)num_threads;
    *pool = (struct thread_pool){.end = &pool->first};
}
"""

# The worker has done its work when thread_pool_queue() comes back.
FAST = HEAD + """
static inline void thread_pool_queue(struct thread_pool *pool, void (*f)(void *), void *arg) {
    struct work *work = mem_alloc(sizeof(*work));
    pthread_t thread;
    *work = (struct work){.f = f, .arg = arg};
    count_mark();
    if (pthread_create(&thread, NULL, do_work, work) != 0) {
        abort();
    }
    pthread_join(thread, NULL);
    (void)pool;
}

static inline void thread_pool_destroy(struct thread_pool *pool) {
    (void)pool;
}
"""

# The worker does not begin before the server ends.
SLOW = HEAD + """
static inline void thread_pool_queue(struct thread_pool *pool, void (*f)(void *), void *arg) {
    struct work *work = mem_alloc(sizeof(*work));
    *work = (struct work){.f = f, .arg = arg};
    count_mark();
    *pool->end = work;
    pool->end = &work->next;
}

static inline void thread_pool_destroy(struct thread_pool *pool) {
    for (struct work *work = pool->first, *next; work; work = next) {
        next = work->next;
        do_work(work);
    }
}
"""


@contextmanager
def running(work: Submission, pool: str) -> Iterator[Tuple[Clock, Server, Conn]]:
    """The submission's server with this pool; what is freed is overwritten."""
    with Clock(work, files={"thread_pool.h": pool}) as clock:
        with clock.server(IDLE_TIMEOUT_MS=0, MALLOC_PERTURB_=165) as server, server.connect() as conn:
            yield clock, server, conn


def build(conn: Conn, key: str, n: int) -> None:
    """A sorted set with n members."""
    bulk(conn, numbered(range(n), "zadd", key, "######", "n######"), 1)


def by_del(clock: Clock, conn: Conn) -> None:
    conn.ask("del", "big", expect=1)


def by_set(clock: Clock, conn: Conn) -> None:
    conn.ask("set", "big", "v", expect=None)
    conn.ask("del", "big", expect=1)


def by_expire(clock: Clock, conn: Conn) -> None:
    conn.ask("expire", "big", "0", expect=1)


def by_its_deadline(clock: Clock, conn: Conn) -> None:
    conn.ask("pexpire", "big", "50", expect=1)
    clock.step(51)


def by_a_lookup(clock: Clock, conn: Conn) -> None:
    """It is met after its deadline and before the timer comes to it: 300 others are due first."""
    conn.pipeline([("set", f"due{i}", "v") for i in range(300)])
    conn.pipeline([("pexpire", f"due{i}", "40") for i in range(300)], [1] * 300)
    conn.ask("pexpire", "big", "50", expect=1)
    clock.step(51)
    conn.ask("zscore", "big", "n000001", expect=None)


ROADS: Dict[str, Callable[[Clock, Conn], None]] = {
    "del": by_del, "set in its place": by_set, "expire 0": by_expire, "its deadline": by_its_deadline,
    "a lookup after its deadline": by_a_lookup,
}  # fmt: skip


def all_roads(work: Submission, clock: Clock, server: Server, conn: Conn, which: str) -> None:
    """A large set goes by each road, without a deadline and with one; keys beside it keep theirs, and the names come
    again."""
    for i in range(20):
        conn.ask("set", f"other{i}", "v", expect=None)
        conn.ask("pexpire", f"other{i}", str(10**9 + i), expect=1)
    began = clock.now_ms
    for name, road in ROADS.items():
        for ttl in (None, "5000000"):
            tried = (
                f"a set of {LARGE + 1} members, {'with' if ttl else 'without'} a time to live, goes by {name}; {which}"
            )
            try:
                build(conn, "big", LARGE + 1)
                if ttl:
                    conn.ask("pexpire", "big", ttl, expect=1)
                road(clock, conn)
                conn.ask("pttl", "big", expect=-2)
                conn.ask("zquery", "big", "-inf", "", "0", "9", expect=[])
                conn.ask("zadd", "big", "1", "n", expect=1)
                conn.ask("pttl", "big", expect=-1)
                conn.ask("del", "big", expect=1)
                for i in range(20):
                    conn.ask("pttl", f"other{i}", expect=10**9 + i - (clock.now_ms - began))
                clock.step(6_000_000)
                conn.ask("get", "other0", expect=b"v")
            except (AssertionError, OSError) as error:
                said = str(error)
                dead = not server.alive() or "closed" in said or "reset" in said
                work.fail(
                    tried=tried,
                    came="the server crashed" if dead else said.splitlines()[0],
                    expected="the set is gone, its name is free, and other keys keep their deadlines",
                    cause="what leads to an entry that was handed over, and what does the loop do with it after that?",
                )


@points(4, "a worker that is faster than the loop")
def test_fast_worker(work: Submission) -> None:
    """Large sets go by every road. Each is freed before thread_pool_queue() comes back."""
    with running(work, FAST) as (clock, server, conn):
        all_roads(work, clock, server, conn, "the worker is faster than the loop")


@points(3, "a worker that is slower than the loop")
def test_slow_worker(work: Submission) -> None:
    """Large sets go by every road. None of them is freed before the server ends."""
    with running(work, SLOW) as (clock, server, conn):
        all_roads(work, clock, server, conn, "the worker is slower than the loop")
        clock.step(2 * 10**9)
        conn.ask("keys", expect=[])
        work.expect(
            clock.wait == -1,
            came=f"with no key left the server means to wait {clock.wait} ms",
            expected="for ever: no deadline is left",
            cause="does the heap still hold the deadline of what was handed over?",
        )


@points(1, "who frees what")
def test_who_frees(work: Submission) -> None:
    """Sets of 10000 and of 10001 members go by every road. What is queued for the workers?"""
    with work.count("mark") as queued, running(work, SLOW) as (clock, _, conn):
        for name, road in ROADS.items():
            for n, expected in ((LARGE, 0), (LARGE + 1, 1)):
                for ttl in (False, True):
                    build(conn, "big", n)
                    if ttl:
                        conn.ask("pexpire", "big", "5000000", expect=1)
                    queued.reset()
                    road(clock, conn)
                    came = queued["mark"]
                    work.expect(
                        came == expected,
                        tried=f"a set of {n} members goes by {name}" + " after it was given a time to live" * ttl,
                        came=f"{came} pieces of work were queued",
                        expected=f"{expected}",
                        cause="large sets are the pool's to free, and small ones the loop's, whatever else they have",
                    )


@points(2, "your own pool")
def test_own_pool(work: Submission) -> None:
    """The chapter's tests with your pool, and its test program."""
    work.chapter_tests("test_many_at_once or test_leaves_with_work_queued")
    text = (ROOT / "chapters" / "14" / "test_thread_pool.c").read_text(encoding="utf-8")
    ran = work.run([work.build({"lab.c": text}, "lab")], seconds=40)
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0, tried="test_thread_pool.c of chapter 14 with your headers", came=last,
        expected="all tests passed",
    )  # fmt: skip
