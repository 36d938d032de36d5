"""14-pool-semaphore: the pool of chapter 14 with a mutex and a semaphore, and no condition variable."""
from __future__ import annotations

import math

from grading import ROOT, Ran, Submission, points
from harness import limit

LAB = (ROOT / "chapters" / "14" / "test_thread_pool.c").read_text(encoding="utf-8")

# Other threads get their turn wherever one of them locks, unlocks, waits or posts.
YIELDS = """
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

static inline int yield_then(int result) {
    sched_yield();
    return result;
}

#define pthread_mutex_lock(m) (sched_yield(), pthread_mutex_lock(m))
#define pthread_mutex_unlock(m) yield_then(pthread_mutex_unlock(m))
#define sem_wait(s) (sched_yield(), sem_wait(s))
#define sem_post(s) yield_then(sem_post(s))
"""

# Every second wait is interrupted, as by a signal.
INTERRUPTS = """
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

static atomic_uint g_waits;

static inline int interrupted_wait(sem_t *sem) {
    if (atomic_fetch_add(&g_waits, 1) % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return sem_wait(sem);
}

#define sem_wait(s) interrupted_wait(s)
"""

# Four workers that have nothing to do, then one thing, then nothing again.
QUIET = """
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static atomic_uint g_asks;

#define pthread_mutex_lock(m) (atomic_fetch_add(&g_asks, 1), pthread_mutex_lock(m))
#define pthread_mutex_trylock(m) (atomic_fetch_add(&g_asks, 1), pthread_mutex_trylock(m))
#define sem_wait(s) (atomic_fetch_add(&g_asks, 1), sem_wait(s))
#define sem_trywait(s) (atomic_fetch_add(&g_asks, 1), sem_trywait(s))
#define sem_timedwait(s, t) (atomic_fetch_add(&g_asks, 1), sem_timedwait(s, t))
#define sem_getvalue(s, v) (atomic_fetch_add(&g_asks, 1), sem_getvalue(s, v))

#include "thread_pool.h"

static sem_t g_done;

static void post(void *arg) {
    (void)arg;
    (sem_post)(&g_done);
}

int main(void) {
    struct thread_pool pool;
    sem_init(&g_done, 0, 0);
    thread_pool_init(&pool, 4);
    for (int i = 0; i < 10; i++) {
        thread_pool_queue(&pool, post, NULL);
        while ((sem_wait)(&g_done) < 0) {
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    unsigned asks = atomic_load(&g_asks);
    thread_pool_destroy(&pool);
    printf("%u\\n", asks);
}
"""


def lab(more: str = "") -> str:
    """The test program of the chapter, without what needs a condition variable, behind some more lines."""
    begin = LAB.index("// A condition variable may wake a thread for nothing.")
    end = LAB.index("static long cpu_ms(void) {")
    text = (LAB[:begin] + LAB[end:]).replace("    test_for_nothing();\n", "").replace(
        "k_limit_s = 20,", f"k_limit_s = {math.ceil(limit(8))},"
    )
    text = text.replace("    k_works = 100000,", f"    k_works = {4000 if more else 100000},")
    text = text.replace("    k_turns = 3000,", f"    k_turns = {600 if more else 3000},")
    return text.replace('#include "mem.h"\n', more + '#include "mem.h"\n', 1)


def passes(work: Submission, ran: Ran, cause: str) -> None:
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0,
        came=f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
        + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause=cause,
    )


@points(3, "the test program")
def test_program(work: Submission) -> None:
    """The test program of chapter 14 with your pool, all but the part that needs a condition variable."""
    ran = work.run([work.build({"lab.c": lab()}, "lab")], seconds=40)
    passes(work, ran, "say again what the semaphore counts: who posts, and who takes, at each step?")


@points(2, "no condition variable, no spinning")
def test_quiet(work: Submission) -> None:
    """Four workers wait for 100 ms, and meanwhile get ten pieces of work. How often do they take a lock or try the
    semaphore?"""
    program = work.build({"quiet.c": QUIET}, "quiet")
    with work.count("cond_wait", "cond_signal", "cond_broadcast") as counted:
        ran = work.run_ok([program])
    used = counted["cond_wait"] + counted["cond_signal"] + counted["cond_broadcast"]
    work.expect(
        used == 0, came=f"functions of condition variables were called {used} times",
        expected="a mutex and a semaphore, and nothing else to wait for",
    )  # fmt: skip
    asks = int(ran.out)
    work.expect(
        asks <= 80,
        came=f"they did so {asks} times",
        expected=(
            "some 40 times: each piece of work takes a lock to queue it, one wait, and one or two locks of a worker"
        ),
        cause="does a worker that finds nothing look again at once?",
    )


@points(2, "interrupted waits")
def test_interrupted(work: Submission) -> None:
    """The same test program, where every second sem_wait() returns -1 with EINTR, as after a signal."""
    ran = work.run([work.build({"lab.c": lab(INTERRUPTS)}, "lab")], seconds=40)
    passes(work, ran, "what has a worker claimed whose sem_wait() did not return 0?")


@points(2, "any order of steps")
def test_any_order(work: Submission) -> None:
    """The same test program, where other threads run at every step: at each lock and unlock, each wait and post."""
    ran = work.run([work.build({"lab.c": lab(YIELDS)}, "lab")], seconds=40)
    passes(work, ran, "draw two threads side by side: what does the one see between two steps of the other?")


@points(1, "the server")
def test_server(work: Submission) -> None:
    """The chapter's tests of large sets that are deleted, and of a server that leaves with work in its queue."""
    work.chapter_tests("test_many_at_once or test_leaves_with_work_queued")
