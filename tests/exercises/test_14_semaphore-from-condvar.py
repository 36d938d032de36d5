"""14-semaphore-from-condvar: a semaphore from a number, a mutex and a condition variable, and the pool on top of it."""
from __future__ import annotations

import math

from grading import ROOT, Ran, Submission, points
from harness import limit

LAB = (ROOT / "chapters" / "14" / "test_thread_pool.c").read_text(encoding="utf-8")

# What the programs below begin with. Every wait for a condition is counted, and so is every return from it; the waits
# can be made to come back for nothing.
HEAD = f"enum {{ k_factor = {math.ceil(limit(1))} }};\n" + """
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int g_began, g_back, g_for_nothing, g_through;

static inline int counted_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    atomic_fetch_add(&g_began, 1);
    int result = 0;
    if (atomic_load(&g_for_nothing) > 0 && atomic_fetch_sub(&g_for_nothing, 1) > 0) {
        pthread_mutex_unlock(mutex);
        sched_yield();
        pthread_mutex_lock(mutex);
    } else {
        result = pthread_cond_wait(cond, mutex);
    }
    atomic_fetch_add(&g_back, 1);
    return result;
}

#define pthread_cond_wait(cond, mutex) counted_wait(cond, mutex)

#include "sema.h"

static struct sema g_sema;

static void check(int ok, const char *text, int a, int b) {
    if (!ok) {
        printf(text, a, b);
        printf("\\n");
        fflush(stdout);
        _exit(1);
    }
}

static void *waiter(void *arg) {
    (void)arg;
    sema_wait(&g_sema);
    atomic_fetch_add(&g_through, 1);
    return NULL;
}

static void begin_waiters(pthread_t *threads, int n) {
    for (int i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, waiter, NULL) != 0) {
            abort();
        }
    }
}

static void until(atomic_int *number, int n) {
    while (atomic_load(number) < n) {
        sched_yield();
    }
}

// Waits until n threads wait; before of the waiters were through, and nobody has posted for others.
static void until_waiting(int n, int before) {
    while (atomic_load(&g_began) < n) {
        int early = atomic_load(&g_through) - before;
        check(early <= 0, "sema_wait() came back %d times, of %d, though the number was 0 and nobody has posted",
            early, n);
        sched_yield();
    }
}
"""

ALONE = HEAD + """
int main(void) {
    alarm(4 * k_factor);
    for (unsigned n = 0; n < 50; n++) {
        sema_init(&g_sema, n);
        for (unsigned i = 0; i < 1000; i++) {
            sema_post(&g_sema);
        }
        for (unsigned i = 0; i < 1000 + n; i++) {
            sema_wait(&g_sema);
        }
        check(atomic_load(&g_began) == 0,
            "a thread waited, although there were %d posts and the number was %d at the beginning", 1000, (int)n);
        pthread_t thread;
        begin_waiters(&thread, 1);
        until_waiting(1, (int)n);
        check(atomic_load(&g_through) == (int)n, "a thread came through with the number at 0 (%d before it, of %d)",
            atomic_load(&g_through), (int)n);
        sema_post(&g_sema);
        pthread_join(thread, NULL);
        atomic_store(&g_began, 0);
        sema_destroy(&g_sema);
    }
}
"""

CROWD = HEAD + """
int main(void) {
    for (int round = 0; round < 300; round++) {
        pthread_t threads[8];
        int n = 2 + round % 7;
        sema_init(&g_sema, 0);
        atomic_store(&g_began, 0);
        atomic_store(&g_through, 0);
        alarm(3 * k_factor);
        begin_waiters(threads, n);
        until_waiting(n, 0);
        for (int i = 0; i < n; i++) {
            sema_post(&g_sema);
        }
        for (int i = 0; i < n; i++) {
            pthread_join(threads[i], NULL);
        }
        alarm(0);
        check(atomic_load(&g_through) == n, "%d of %d came through", atomic_load(&g_through), n);
        sema_destroy(&g_sema);
    }
}
"""

NOTHING = HEAD + """
int main(void) {
    alarm(8 * k_factor);
    for (int round = 0; round < 200; round++) {
        pthread_t threads[4];
        sema_init(&g_sema, 0);
        atomic_store(&g_began, 0);
        atomic_store(&g_through, 0);
        atomic_store(&g_for_nothing, 12);
        begin_waiters(threads, 4);
        while (atomic_load(&g_began) < 16 && atomic_load(&g_through) == 0) {
            sched_yield();
        }
        check(atomic_load(&g_through) == 0,
            "%d of %d threads came through, although nobody has posted: they were woken for nothing",
            atomic_load(&g_through), 4);
        atomic_store(&g_for_nothing, 0);
        for (int i = 0; i < 3; i++) {
            sema_post(&g_sema);
        }
        until(&g_through, 3);
        sched_yield();
        check(atomic_load(&g_through) == 3, "%d of 4 threads came through after %d posts", atomic_load(&g_through), 3);
        sema_post(&g_sema);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        sema_destroy(&g_sema);
    }
}
"""

QUIET = HEAD + """
int main(void) {
    pthread_t threads[8];
    sema_init(&g_sema, 0);
    begin_waiters(threads, 8);
    until(&g_began, 8);
    usleep(30000);
    for (int i = 0; i < 8; i++) {
        sema_post(&g_sema);
        until(&g_through, i + 1);
        usleep(2000);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d %d\\n", atomic_load(&g_began), atomic_load(&g_back));
}
"""


def lab() -> str:
    """The test program of the chapter, without what needs a condition variable."""
    begin = LAB.index("// A condition variable may wake a thread for nothing.")
    end = LAB.index("static long cpu_ms(void) {")
    text = (LAB[:begin] + LAB[end:]).replace("    test_for_nothing();\n", "")
    return text.replace(
        "k_limit_s = 20,", f"k_limit_s = {math.ceil(limit(8))},"
    ).replace("    k_works = 100000,", "    k_works = 30000,")


def outcome(ran: Ran) -> str:
    """What came of a program."""
    if ran.status == -14:
        return "threads wait for ever, although the number is positive: there was a post for each of them"
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    return last or f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"


@points(2, "one after another")
def test_one_after_another(work: Submission) -> None:
    """A thousand posts, then as many waits, and as many more as the number was at the beginning. Then one more wait."""
    ran = work.run([work.build({"alone.c": ALONE}, "alone")], seconds=10)
    work.expect(
        ran.status == 0, came=outcome(ran),
        expected="all waits but the last come through at once; the last one when there is a post",
    )  # fmt: skip


@points(3, "a crowd")
def test_crowd(work: Submission) -> None:
    """Two to eight threads wait. Then as many posts come, one right after the other. Three hundred times."""
    ran = work.run([work.build({"crowd.c": CROWD}, "crowd")], seconds=40)
    work.expect(
        ran.status == 0,
        came=outcome(ran),
        expected="all of them come through",
        cause="is there a signal for each post, also when the number was positive already?",
    )


@points(2, "woken for nothing")
def test_for_nothing(work: Submission) -> None:
    """Four threads wait, and pthread_cond_wait() comes back a dozen times for nothing. Then three posts come, and one
    more."""
    ran = work.run([work.build({"nothing.c": NOTHING}, "nothing")], seconds=20)
    work.expect(
        ran.status == 0,
        came=outcome(ran),
        expected="nobody comes through without a post",
        cause="what does a thread look at when it was woken?",
    )


@points(1, "sleeping")
def test_sleeping(work: Submission) -> None:
    """Eight threads wait, and eight posts come one by one. How often does pthread_cond_wait() begin, and come back?"""
    ran = work.run_ok([work.build({"quiet.c": QUIET}, "quiet")], seconds=10)
    began, back = map(int, ran.out.split())
    work.expect(
        began <= 16 and back <= 16,
        came=f"it began {began} times and came back {back} times",
        expected="some 8 times each: one post is work for one thread",
        cause="is there a signal, or a broadcast?",
    )


@points(2, "the pool on top of it")
def test_pool(work: Submission) -> None:
    """The test program of chapter 14 with your pool, and large sets that are deleted in your server."""
    text = work.code("thread_pool.h")
    work.expect(
        "sema_wait" in text and "pthread_cond" not in text and "sem_wait" not in text.replace("sema_wait", ""),
        came="thread_pool.h does not wait by sema_wait() alone",
        expected="a mutex and a struct sema, and no condition variable in the pool itself",
    )
    ran = work.run([work.build({"lab.c": lab()}, "lab")], seconds=40)
    work.expect(
        ran.status == 0, came=outcome(ran), expected="all tests passed",
        cause="who posts, and how often, when the pool is to stop?",
    )  # fmt: skip
    work.chapter_tests("test_leaves_with_work_queued")
