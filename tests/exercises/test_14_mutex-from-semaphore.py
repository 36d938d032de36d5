"""14-mutex-from-semaphore: lock and unlock with one semaphore, and what a mutex knows beyond that."""
from __future__ import annotations

import math

from grading import Ran, Submission, points
from harness import limit

HEAD = f"enum {{ k_factor = {math.ceil(limit(1))} }};\n" + """
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int g_waits, g_tries, g_interrupt, g_in;

static inline int counted_wait(sem_t *sem) {
    if (atomic_load(&g_interrupt) && atomic_fetch_add(&g_waits, 1) % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    atomic_fetch_add(&g_waits, 1);
    sched_yield();
    return sem_wait(sem);
}

static inline int counted_try(sem_t *sem) {
    atomic_fetch_add(&g_tries, 1);
    return sem_trywait(sem);
}

#define sem_wait(sem) counted_wait(sem)
#define sem_trywait(sem) counted_try(sem)

#include "mutex.h"

static struct mutex g_mutex;
static int g_count;

static void check(int ok, const char *text) {
    if (!ok) {
        printf("%s\\n", text);
        fflush(stdout);
        _exit(1);
    }
}

// Counts in two steps, between which others have their turn.
static void *counter(void *arg) {
    for (int i = 0; i < 2000; i++) {
        mutex_lock(&g_mutex);
        check(atomic_fetch_add(&g_in, 1) == 0, "two threads have the mutex at the same time");
        int count = g_count;
        sched_yield();
        g_count = count + 1;
        atomic_fetch_sub(&g_in, 1);
        mutex_unlock(&g_mutex);
    }
    return arg;
}

static void *take_once(void *arg) {
    mutex_lock(&g_mutex);
    atomic_fetch_add(&g_in, 1);
    return arg;
}

static void begin(pthread_t *thread, void *(*f)(void *)) {
    if (pthread_create(thread, NULL, f, NULL) != 0) {
        abort();
    }
}

static void count_together(void) {
    pthread_t threads[4];
    mutex_init(&g_mutex);
    for (int i = 0; i < 4; i++) {
        begin(&threads[i], counter);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    check(g_count == 4 * 2000, "four threads have counted together, and some of what they counted was lost");
    mutex_destroy(&g_mutex);
}
"""

ALONE = HEAD + """
int main(void) {
    alarm(4 * k_factor);
    for (int round = 0; round < 20; round++) {
        mutex_init(&g_mutex);
        for (int i = 0; i < 1000; i++) {
            mutex_lock(&g_mutex);
            mutex_unlock(&g_mutex);
        }
        mutex_lock(&g_mutex);
        pthread_t thread;
        int before = atomic_load(&g_waits);
        atomic_store(&g_in, 0);
        begin(&thread, take_once);
        while (atomic_load(&g_waits) == before && atomic_load(&g_in) == 0) {
            sched_yield();
        }
        for (int i = 0; i < 200; i++) {
            sched_yield();
        }
        check(atomic_load(&g_in) == 0, "a second thread has come through lock, while the first one has the mutex");
        mutex_unlock(&g_mutex);
        pthread_join(thread, NULL);
        mutex_unlock(&g_mutex);
        mutex_destroy(&g_mutex);
    }
}
"""

TOGETHER = HEAD + """
int main(void) {
    alarm(8 * k_factor);
    count_together();
}
"""

INTERRUPTED = HEAD + """
int main(void) {
    alarm(8 * k_factor);
    atomic_store(&g_interrupt, 1);
    count_together();
}
"""

HANDED_OVER = HEAD + """
static void *give_back(void *arg) {
    mutex_unlock(&g_mutex);
    return arg;
}

int main(void) {
    alarm(4 * k_factor);
    mutex_init(&g_mutex);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        mutex_lock(&g_mutex);
        begin(&thread, give_back);
        pthread_join(thread, NULL);
    }
    mutex_lock(&g_mutex);
    mutex_unlock(&g_mutex);
}
"""

QUIET = HEAD + """
int main(void) {
    pthread_t threads[8];
    alarm(8 * k_factor);
    mutex_init(&g_mutex);
    mutex_lock(&g_mutex);
    for (int i = 0; i < 8; i++) {
        begin(&threads[i], take_once);
    }
    while (atomic_load(&g_waits) + atomic_load(&g_tries) < 9) {
        sched_yield();
    }
    usleep(30000);
    for (int i = 0; i < 8; i++) {
        mutex_unlock(&g_mutex);
        while (atomic_load(&g_in) < i + 1) {
            sched_yield();
        }
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d\\n", atomic_load(&g_waits) + atomic_load(&g_tries));
}
"""


def expect_ok(work: Submission, ran: Ran, expected: str, cause: str = "") -> None:
    came = (ran.out + ran.err).strip()[
        -300:
    ] or f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
    if ran.status == -14:
        came = "somebody waits for ever"
    work.expect(ran.status == 0, came=came, expected=expected, cause=cause)


@points(2, "one at a time")
def test_one_at_a_time(work: Submission) -> None:
    """A thread locks and unlocks a thousand times, and locks once more. Then a second thread tries to lock."""
    ran = work.run([work.build({"alone.c": ALONE}, "alone")])
    expect_ok(
        work, ran, "the second thread waits until the first one has unlocked",
        "with which number does the semaphore begin?",
    )  # fmt: skip


@points(2, "counting together")
def test_counting(work: Submission) -> None:
    """Four threads count to 8000 together, and others run at every step."""
    ran = work.run([work.build({"together.c": TOGETHER}, "together")], seconds=12)
    expect_ok(
        work, ran, "8000, with one thread at a time in between",
        "what is the number of the semaphore when nobody has the mutex?",
    )  # fmt: skip


@points(1, "handed over")
def test_handed_over(work: Submission) -> None:
    """One thread locks, another one unlocks. Two hundred times."""
    ran = work.run([work.build({"handed.c": HANDED_OVER}, "handed")])
    expect_ok(work, ran, "the mutex is free again", "does the mutex remember who has it?")


@points(1, "sleeping")
def test_sleeping(work: Submission) -> None:
    """Eight threads wait for a mutex, for 30 ms and longer. How often do they try?"""
    program = work.build({"quiet.c": QUIET}, "quiet")
    with work.count("lock", "cond_wait") as counted:
        ran = work.run([program])
    expect_ok(work, ran, "all come through, one after another")
    tries = int(ran.out)
    work.expect(
        tries <= 40, came=f"they tried {tries} times", expected="9 times, once each: who waits sleeps",
        cause="does sem_trywait() run in a loop?",
    )  # fmt: skip
    work.expect(
        counted["lock"] + counted["cond_wait"] == 0,
        came="functions of pthread mutexes or condition variables were called",
        expected="one semaphore, and nothing else",
    )  # fmt: skip


@points(2, "interrupted")
def test_interrupted(work: Submission) -> None:
    """Four threads count together, and every second sem_wait() returns -1 with EINTR, as where a signal handler has
    run."""
    ran = work.run([work.build({"interrupted.c": INTERRUPTED}, "interrupted")], seconds=12)
    expect_ok(
        work, ran, "8000, with one thread at a time in between", "what has a thread taken whose sem_wait() returned -1?"
    )


@points(2, "questions")
def test_questions(work: Submission) -> None:
    """The three questions of answers.md."""
    form = "a letter from a to d"
    work.expect_answer(1, "c", form=form, cause="what is the number of the semaphore then?")
    work.expect_answer(2, "b", form=form, cause="who could add one to the number, and what does that thread do?")
    work.expect_answer(3, "b", form=form, cause="whom would the urgency have to be lent to?")
