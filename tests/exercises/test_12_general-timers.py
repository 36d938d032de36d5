"""12-general-timers: timers with any deadlines in a tree, and a timeout of its own for each connection."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Dict

from fake_clock import Clock
from grading import Ran, Submission, points
from harness import Conn, Err, wire

HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timers.h"

static struct timers g_timers;
static int64_t g_now;

static void check(int ok, const char *text) {
    if (!ok) {
        printf("%s\n", text);
        exit(1);
    }
}

static uint32_t g_state = 12;

static uint32_t next_random(void) {
    g_state = g_state * 1664525 + 1013904223;
    return g_state >> 8;
}
"""

MODEL = HEAD + r"""
enum {
    k_timers = 200,
    k_steps = 30000,
};

struct item {
    int64_t deadline_ms; // the model
    int waits;           // the model
    struct timer timer;
};

static struct item g_items[k_timers];
static int64_t g_last;

static void gone_off(struct timer *timer) {
    struct item *item = container_of(timer, struct item, timer);
    check(item->waits, "a timer went off that does not wait: it was stopped, or has gone off before");
    check(item->deadline_ms < g_now, "a timer went off before its deadline was past");
    check(item->deadline_ms >= g_last, "a timer went off after another one with a later deadline");
    g_last = item->deadline_ms;
    item->waits = 0;
}

static void compare(void) {
    uint32_t n = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < k_timers; i++) {
        if (g_items[i].waits) {
            n++;
            least = g_items[i].deadline_ms < least ? g_items[i].deadline_ms : least;
        }
    }
    check(timers_next(&g_timers) == least, "timers_next() is not the nearest deadline of those that wait");
    check(avl_cnt(g_timers.root) == n, "the tree does not hold as many timers as wait");
    check(avl_check(NULL, g_timers.root), "the tree is not what avl_check() expects");
}

int main(void) {
    for (int i = 0; i < k_timers; i++) {
        timer_init(&g_items[i].timer, gone_off);
    }
    compare();
    for (int step = 0; step < k_steps; step++) {
        struct item *item = &g_items[next_random() % k_timers];
        uint32_t what = next_random() % 10;
        if (what < 6) {
            item->deadline_ms = g_now + next_random() % (step % 2 ? 40 : 4000);
            item->waits = 1;
            timer_set(&g_timers, &item->timer, item->deadline_ms);
        } else if (what < 8) {
            item->waits = 0;
            timer_stop(&g_timers, &item->timer);
        } else {
            g_now += next_random() % 30;
            g_last = INT64_MIN;
            timers_run(&g_timers, g_now);
            for (int i = 0; i < k_timers; i++) {
                check(!g_items[i].waits || g_items[i].deadline_ms >= g_now,
                    "a timer whose deadline is past has not gone off");
            }
        }
        compare();
    }
    for (int i = 0; i < k_timers; i++) {
        g_items[i].waits = 1;
        g_items[i].deadline_ms = g_now + 7;
        timer_set(&g_timers, &g_items[i].timer, g_now + 7);
    }
    compare();
    g_now += 7;
    timers_run(&g_timers, g_now);
    check(avl_cnt(g_timers.root) == k_timers,
        "timers went off in the very millisecond of their deadline: it is not past yet");
    g_now++;
    g_last = INT64_MIN;
    timers_run(&g_timers, g_now);
    check(g_timers.root == NULL, "of two hundred timers with the same deadline, not all have gone off");
}
"""

MEDDLING = HEAD + r"""
enum {
    k_timers = 60,
};

static struct timer *g_items[k_timers];
static int g_off;

// Sets, stops and frees others, and itself.
static void meddle(struct timer *timer) {
    int i = 0;
    while (i < k_timers && g_items[i] != timer) {
        i++;
    }
    check(i < k_timers, "a timer went off that had been freed");
    g_off++;
    timer_stop(&g_timers, timer); // does nothing: it does not wait any more
    for (int times = 0; times < 3; times++) {
        int other = (int)(next_random() % k_timers);
        if (!g_items[other] || g_items[other] == timer) {
            continue;
        }
        if (next_random() % 2) {
            timer_set(&g_timers, g_items[other], g_now + 1 + next_random() % 5);
        } else {
            timer_stop(&g_timers, g_items[other]);
            memset(g_items[other], 0xa5, sizeof(struct timer));
            free(g_items[other]);
            g_items[other] = NULL;
        }
    }
    if (next_random() % 2) {
        timer_set(&g_timers, timer, g_now + 3);
    } else {
        memset(timer, 0xa5, sizeof(*timer));
        free(timer);
        g_items[i] = NULL;
    }
}

int main(void) {
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < k_timers; i++) {
            if (!g_items[i]) {
                g_items[i] = malloc(sizeof(struct timer));
                timer_init(g_items[i], meddle);
                timer_set(&g_timers, g_items[i], g_now + next_random() % 4);
            }
        }
        g_now += 1 + next_random() % 3;
        timers_run(&g_timers, g_now);
        check(timers_next(&g_timers) >= g_now, "after timers_run() a timer waits whose deadline is past");
        check(avl_check(NULL, g_timers.root), "the tree is not what avl_check() expects");
    }
    check(g_off > 3000, "hardly any timer has gone off");
}
"""


def expect_ok(work: Submission, ran: Ran, cause: str) -> None:
    came = ran.out.strip()[-300:] or f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
    work.expect(ran.status == 0, came=came, expected="timers as the comments of timers.h say", cause=cause)


@points(3, "timers beside a model")
def test_model(work: Submission) -> None:
    """Two hundred timers are set, set again, stopped and go off, thirty thousand steps; many have the same deadline."""
    expect_ok(
        work, work.run([work.build({"model.c": MODEL}, "model")]),
        "is a deadline written while its timer is in the tree? What becomes of equal ones?",
    )  # fmt: skip


@points(2, "functions that meddle")
def test_meddling(work: Submission) -> None:
    """When a timer goes off, its function sets, stops and frees other timers, and itself."""
    expect_ok(
        work, work.run([work.build({"meddling.c": MEDDLING}, "meddling")]),
        "is a pointer to the next timer kept across the call of a function?",
    )  # fmt: skip


@points(4, "a timeout for each connection")
def test_own_timeouts(work: Submission) -> None:
    """Twenty connections choose timeouts, speak in any order, change their minds, and fall silent."""
    rng = random.Random(12)
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=5000) as server, ExitStack() as stack:
        conns = [stack.enter_context(clock.connect(server)) for _ in range(20)]
        timeout: Dict[Conn, int] = dict.fromkeys(conns, 5000)
        due: Dict[Conn, int] = dict.fromkeys(conns, clock.now_ms + 5000)
        for _ in range(100):
            clock.step(rng.randrange(8))
            conn = rng.choice(conns)
            if rng.random() < 0.5:
                ms = rng.choice([0, 900, 900, 1500, 5000, 7000, 2**31 - 1])
                conn.ask("timeout", str(ms), expect=timeout[conn])
                timeout[conn] = ms
            else:
                conn.ask("get", "k", expect=None)
            due[conn] = clock.now_ms + timeout[conn] if timeout[conn] else 2**62
        while conns:
            first = min(conns, key=lambda conn: due[conn])
            if due[first] > 10**9:
                break
            wait = clock.wait
            work.expect(
                wait == due[first] - clock.now_ms + 1,
                came=f"the server means to wait {wait} ms",
                expected=f"{due[first] - clock.now_ms + 1} ms, for the connection that is due first",
                cause="which timer is the nearest? Is the timeout of each connection its own?",
            )
            clock.step(due[first] - clock.now_ms + 1)
            for conn in list(conns):
                gone = due[conn] < clock.now_ms
                work.expect(
                    clock.is_open(conn) != gone,
                    came=(
                        f"a connection with a timeout of {timeout[conn]} ms is"
                        f" {'still open' if gone else 'closed'} {clock.now_ms - due[conn] + timeout[conn]} ms after it"
                        " spoke last"
                    ),
                    expected="it is closed when more than its own timeout has passed",
                )
                if gone:
                    conns.remove(conn)
        for conn in conns:
            conn.ask("timeout", "50", expect=timeout[conn])
        clock.step(51)
        work.expect(
            not any(clock.is_open(conn) for conn in conns),
            came="a connection with a timeout of 50 ms is still open after 51 ms",
            expected="closed",
            cause="does the new timeout count from now on?",
        )
        work.expect(
            clock.wait == -1, came=f"with no connection left the server means to wait {clock.wait} ms",
            expected="for ever",
        )  # fmt: skip


@points(1, "numbers that are not allowed")
def test_arguments(work: Submission) -> None:
    """timeout with numbers that are too large, negative, or none; with IDLE_TIMEOUT_MS=0 and without."""
    for idle in (0, 4000):
        with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=idle) as server, server.connect() as conn:
            for text in ("-1", "2147483648", "99999999999999999999", "x", "", "1.5"):
                conn.ask("timeout", text, expect=Err(wire.ERR_ARG))
            conn.ask("timeout", expect=Err(wire.ERR_ARG))
            conn.ask("timeout", "2147483647", expect=idle)
            conn.ask("TIMEOUT", "0", expect=2147483647)
            clock.step(10**9)
            conn.ask("timeout", "1", expect=0)


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of idle connections, of zero as the timeout, and of connections that come and go."""
    work.chapter_tests(
        "idle_connections_are_closed or zero_means_never or come_stall_and_go or says_whom_it_removes or"
        " one_poll_for_each_timer"
    )
