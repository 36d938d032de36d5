"""14-condvar-from-mutexes: wait, signal and broadcast with mutexes alone."""
from __future__ import annotations

import math

from grading import Ran, Submission, points
from harness import limit

HEAD = f"enum {{ k_factor = {math.ceil(limit(1))} }};\n" + r"""
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mutex.h"

static atomic_int g_locks, g_woken, g_waiting, g_order[16];
static struct mutex g_mutex;
static void (*g_in_the_gap)(void); // called once, when a waiter has unlocked g_mutex

static inline void counted_lock(struct mutex *mutex) {
    atomic_fetch_add(&g_locks, 1);
    sched_yield();
    mutex_lock(mutex);
}

static inline void watched_unlock(struct mutex *mutex) {
    void (*gap)(void) = g_in_the_gap;
    mutex_unlock(mutex);
    if (gap && mutex == &g_mutex) {
        g_in_the_gap = NULL;
        gap();
    }
    sched_yield();
}

#define mutex_lock(m) counted_lock(m)
#define mutex_unlock(m) watched_unlock(m)

#include "cond.h"

#undef mutex_lock
#undef mutex_unlock

static struct cond g_cond;

static void check(int ok, const char *text) {
    if (!ok) {
        printf("%s\n", text);
        fflush(stdout);
        _exit(1);
    }
}

static void begin(pthread_t *thread, void *(*f)(void *), void *arg) {
    if (pthread_create(thread, NULL, f, arg) != 0) {
        abort();
    }
}

// Waits once, without a condition: who is woken for nothing is seen.
static void *wait_once(void *arg) {
    mutex_lock(&g_mutex);
    int number = atomic_fetch_add(&g_waiting, 1);
    cond_wait(&g_cond, &g_mutex);
    atomic_store(&g_order[atomic_fetch_add(&g_woken, 1)], number);
    mutex_unlock(&g_mutex);
    return arg;
}

// Begins n threads that wait, one after another; all of them are in cond_wait() when this returns.
static void begin_waiters(pthread_t *threads, int n) {
    atomic_store(&g_woken, 0);
    atomic_store(&g_waiting, 0);
    for (int i = 0; i < n; i++) {
        begin(&threads[i], wait_once, NULL);
        while (atomic_load(&g_waiting) <= i) {
            sched_yield();
        }
        mutex_lock(&g_mutex);
        mutex_unlock(&g_mutex);
    }
}

static void let_others_run(void) {
    for (int i = 0; i < 300; i++) {
        sched_yield();
    }
}

static void woken(int n) {
    while (atomic_load(&g_woken) < n) {
        sched_yield();
    }
    let_others_run();
}

static void join(pthread_t *threads, int n) {
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}
"""

ALONE = HEAD + r"""
int main(void) {
    alarm(5 * k_factor);
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        mutex_init(&g_mutex);
        cond_init(&g_cond);
        cond_signal(&g_cond);
        cond_broadcast(&g_cond);
        begin_waiters(&thread, 1);
        let_others_run();
        check(atomic_load(&g_woken) == 0, "a thread was woken, though nobody has signalled since it began to wait");
        mutex_lock(&g_mutex);
        cond_signal(&g_cond);
        let_others_run();
        check(atomic_load(&g_woken) == 0, "a thread came back from cond_wait() while another one had the mutex");
        mutex_unlock(&g_mutex);
        pthread_join(thread, NULL);
        cond_destroy(&g_cond);
        mutex_lock(&g_mutex);
        mutex_unlock(&g_mutex);
        mutex_destroy(&g_mutex);
    }
}
"""

# The signaller does all of its work right when the waiter has unlocked its mutex, before it can sleep.
GAP = r"""
static void *signaller(void *arg) {
    mutex_lock(&g_mutex);
    mutex_unlock(&g_mutex);
    SIGNAL(&g_cond);
    return arg;
}

static void signal_now(void) {
    pthread_t thread;
    begin(&thread, signaller, NULL);
    pthread_join(thread, NULL);
}

int main(void) {
    alarm(5 * k_factor);
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        mutex_init(&g_mutex);
        cond_init(&g_cond);
        g_in_the_gap = signal_now;
        atomic_store(&g_woken, 0);
        atomic_store(&g_waiting, 0);
        begin(&thread, wait_once, NULL);
        pthread_join(thread, NULL);
        cond_destroy(&g_cond);
        mutex_destroy(&g_mutex);
    }
}
"""

SEVERAL = HEAD + r"""
int main(void) {
    alarm(8 * k_factor);
    for (int round = 0; round < 30; round++) {
        pthread_t threads[6], late;
        mutex_init(&g_mutex);
        cond_init(&g_cond);
        begin_waiters(threads, 6);
        for (int i = 0; i < 3; i++) {
            cond_signal(&g_cond);
            woken(i + 1);
            check(atomic_load(&g_woken) == i + 1, "one signal has woken more than one thread");
            check(atomic_load(&g_order[i]) == i, "a thread was woken before one that had waited for longer");
        }
        cond_broadcast(&g_cond);
        woken(6);
        join(threads, 6);
        begin_waiters(&late, 1);
        let_others_run();
        check(atomic_load(&g_woken) == 0, "a broadcast has woken a thread that began to wait after it");
        cond_broadcast(&g_cond);
        pthread_join(late, NULL);
        for (int i = 0; i < 3; i++) {
            begin_waiters(&late, 1);
            cond_signal(&g_cond);
            pthread_join(late, NULL);
        }
        cond_destroy(&g_cond);
        mutex_destroy(&g_mutex);
    }
}
"""

QUIET = HEAD + r"""
int main(void) {
    pthread_t threads[6];
    alarm(8 * k_factor);
    mutex_init(&g_mutex);
    cond_init(&g_cond);
    begin_waiters(threads, 6);
    usleep(30000);
    check(atomic_load(&g_woken) == 0, "a thread came back from cond_wait(), though nobody has signalled");
    for (int i = 0; i < 6; i++) {
        cond_signal(&g_cond);
        woken(i + 1);
    }
    join(threads, 6);
    printf("%d\n", atomic_load(&g_locks));
}
"""

QUEUE = HEAD + r"""
enum {
    k_items = 3000,
    k_room = 3,
};

static struct cond g_not_full;
static int g_len, g_put, g_sum;

static void *put(void *arg) {
    for (int i = 0; i < k_items; i++) {
        mutex_lock(&g_mutex);
        while (g_len == k_room) {
            cond_wait(&g_not_full, &g_mutex);
        }
        g_len++;
        g_put++;
        mutex_unlock(&g_mutex);
        cond_signal(&g_cond);
    }
    return arg;
}

static void *take(void *arg) {
    for (int i = 0; i < k_items; i++) {
        mutex_lock(&g_mutex);
        while (g_len == 0) {
            cond_wait(&g_cond, &g_mutex);
        }
        g_len--;
        g_sum++;
        cond_signal(&g_not_full);
        mutex_unlock(&g_mutex);
    }
    return arg;
}

int main(void) {
    pthread_t threads[4];
    alarm(10 * k_factor);
    mutex_init(&g_mutex);
    cond_init(&g_cond);
    cond_init(&g_not_full);
    for (int i = 0; i < 4; i++) {
        begin(&threads[i], i % 2 ? take : put, NULL);
    }
    join(threads, 4);
    check(g_len == 0 && g_put == 2 * k_items && g_sum == 2 * k_items,
        "what was put into the queue and what was taken is not the same");
}
"""


def expect_ok(work: Submission, ran: Ran, expected: str, cause: str = "") -> None:
    came = (ran.out + ran.err).strip()[
        -300:
    ] or f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
    if ran.status == -14:
        came = "somebody waits for ever"
    work.expect(ran.status == 0, came=came, expected=expected, cause=cause)


@points(2, "one thread")
def test_one_thread(work: Submission) -> None:
    """Signals come while nobody waits. Then a thread waits, and is signalled by another one, which has the mutex. Fifty
    times."""
    ran = work.run([work.build({"alone.c": ALONE}, "alone")])
    cause = "does it give the caller's mutex back while it waits, and take it again?"
    if "nobody has signalled" in ran.out + ran.err:
        cause = "what makes it sleep? And does anything remember a signal that came when nobody waited?"
    expect_ok(work, ran, "it waits until it is signalled, and until it can have the mutex again", cause)


@points(3, "the gap")
def test_gap(work: Submission) -> None:
    """The signal, and then the broadcast, comes when the waiter has unlocked the caller's mutex, and before it does
    anything else."""
    for name in ("cond_signal", "cond_broadcast"):
        ran = work.run([work.build({"gap.c": f"{HEAD}#define SIGNAL(cond) {name}(cond)\n{GAP}"}, "gap")])
        expect_ok(
            work, ran, f"it is woken: {name}() came when it had given its mutex back",
            "is the waiter known to signallers before it unlocks the caller's mutex?",
        )  # fmt: skip


@points(2, "several threads")
def test_several(work: Submission) -> None:
    """Six threads wait. Three signals come one by one, then a broadcast; then another thread waits. Thirty times."""
    ran = work.run([work.build({"several.c": SEVERAL}, "several")], seconds=12)
    expect_ok(
        work, ran, "a signal wakes the one that has waited for longest, a broadcast all that wait",
        "is the list in order, and whole, when some have left it?",
    )  # fmt: skip


@points(1, "sleeping")
def test_sleeping(work: Submission) -> None:
    """Six threads wait for 30 ms, then six signals come. How often is a mutex locked?"""
    program = work.build({"quiet.c": QUIET}, "quiet")
    with work.count("lock", "cond_wait") as counted:
        ran = work.run([program], seconds=12)
    expect_ok(work, ran, "who waits sleeps, and is woken by a signal")
    locks = int(ran.out)
    work.expect(
        locks <= 120, came=f"mutexes were locked {locks} times",
        expected="some 30 times: a few for each wait and each signal", cause="does a waiter look again and again?",
    )  # fmt: skip
    work.expect(
        counted["lock"] + counted["cond_wait"] == 0,
        came="functions of pthread mutexes or condition variables were called",
        expected="struct mutex, and nothing else",
    )  # fmt: skip


@points(2, "a queue")
def test_queue(work: Submission) -> None:
    """Two threads put 6000 items into a queue with room for three, two others take them, and others run at every
    step."""
    ran = work.run([work.build({"queue.c": QUEUE}, "queue")], seconds=14)
    expect_ok(
        work, ran, "all items go through",
        "draw a waiter and a signaller side by side: what does each see between two steps of the other?",
    )  # fmt: skip
