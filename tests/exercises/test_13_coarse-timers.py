"""13-coarse-timers: keys whose deadlines lie in the same second share an item of the heap; clients see no
difference."""
from __future__ import annotations

import random

from fake_clock import Clock
from grading import Submission, points
from harness import Conn

INT64_MAX = 2**63 - 1
COUNTED = """\
@@ heap.h, heap_upsert()
     size_t pos = *ref;
+    count_mark();

@@ heap.h, heap_delete()
     assert(pos < heap->len);
+    count_mark();

@@ heap.h
 #include "mem.h"
+
+void count_mark(void);
"""


def fill(conn: Conn, n: int, first_ms: int, step_ms: int) -> None:
    """n keys k0, k1, .. that go after first_ms, first_ms + step_ms, .."""
    conn.pipeline([("set", f"k{i}", "v") for i in range(n)], [None] * n)
    conn.pipeline([("pexpire", f"k{i}", str(first_ms + i * step_ms)) for i in range(n)], [1] * n)


@points(3, "how often the heap is touched")
def test_heap(work: Submission) -> None:
    """Two thousand keys get deadlines within ten seconds, then others in the same seconds, and lose them in any
    order."""
    n = 2000
    with Clock(work, COUNTED) as clock, work.count("mark") as touched, clock.server(
        IDLE_TIMEOUT_MS=0
    ) as server, server.connect() as conn:
        fill(conn, n, 100_000, 5)
        made = touched["mark"]
        work.expect(
            1 <= made <= 12,
            came=f"heap_upsert() and heap_delete() were called {made} times",
            expected="10 times, once for each second",
            cause="is a slot found again that is there for the same second?",
        )
        order = random.Random(13).sample(range(n), n)
        conn.pipeline([("pexpire", f"k{i}", str(100_000 + i // 200 * 1000 + (i * 7) % 1000)) for i in order], [1] * n)
        came = touched["mark"] - made
        work.expect(
            came == 0, tried="each key gets another deadline within the same second",
            came=f"heap_upsert() and heap_delete() were called {came} times", expected="not at all",
        )  # fmt: skip
        conn.pipeline([(("persist", "del")[i % 2], f"k{i}") for i in order if i % 200], [1] * (n - 10))
        came = touched["mark"] - made
        work.expect(
            came == 0, tried="each second loses all of its keys but one",
            came=f"heap_upsert() and heap_delete() were called {came} times", expected="not at all",
        )  # fmt: skip
        conn.pipeline([("persist", f"k{i}") for i in range(0, n, 200)], [1] * 10)
        came = touched["mark"] - made
        work.expect(
            10 <= came <= 12, tried="each second loses its last key",
            came=f"heap_upsert() and heap_delete() were called {came} times", expected="10 times, once for each second",
        )  # fmt: skip


@points(3, "what clients see")
def test_what_clients_see(work: Submission) -> None:
    """Keys with deadlines at the beginning, in the middle and at the end of a second, asked right before and after
    these."""
    with Clock(work, COUNTED) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        for part in (0, 1, 500, 998, 999):
            for ms in (1, 600, 1000, 2345):
                clock.step((part - clock.now_ms - ms) % 1000)
                for words in (("set", "k", "v"), ("zadd", "k", "1", "n")):
                    conn.ask(*words)
                    conn.ask("pexpire", "k", str(ms + 5000), expect=1)
                    conn.ask("pexpire", "k", str(ms), expect=1)
                    conn.ask("pttl", "k", expect=ms)
                    conn.ask("set", "beside", "v", expect=None)
                    conn.ask("pexpire", "beside", str(ms + 1), expect=1)
                    clock.step(ms)
                    left = conn.ask("pttl", "k")
                    work.expect(
                        left == 0,
                        tried=f"pexpire k {ms}, and pttl k after {ms} ms",
                        came=f"(int) {left}",
                        expected="(int) 0: the key is still there, and keeps its exact deadline",
                        cause="is the deadline of the key its own, or that of its second? When is a slot due?",
                    )
                    clock.step(1)
                    left = conn.ask("pttl", "k")
                    work.expect(
                        left == -2,
                        tried=f"pexpire k {ms}, and pttl k after {ms + 1} ms",
                        came=f"(int) {left}",
                        expected="(int) -2: it is past its deadline",
                        cause="does a lookup ask for the exact deadline?",
                    )
                    conn.ask("keys", expect=[b"beside"])
                    clock.step(1)
                    conn.ask("keys", expect=[])
    work.chapter_tests(
        "far_deadlines or deadlines_that_do_not_fit or zero_or_less_deletes or set_takes_the_ttl_away or"
        " a_new_key_has_no_ttl"
    )


@points(2, "when memory is freed")
def test_memory(work: Submission) -> None:
    """A thousand keys with deadlines in one second, another thousand in the next. How many are freed, and when?"""
    with Clock(work, COUNTED) as clock, work.count("free") as freed, clock.server(
        IDLE_TIMEOUT_MS=0
    ) as server, server.connect() as conn:
        clock.step(-clock.now_ms % 1000)
        fill(conn, 2000, 5000, 1)
        clock.rest()
        began, before = clock.now_ms, freed["free"]
        clock.step(4999)
        came = freed["free"] - before
        work.expect(came <= 3, came=f"{came} keys were freed before the first deadline", expected="none")
        for _ in range(20):
            clock.step(50)
            due, came = clock.now_ms - began - 5000, freed["free"] - before
            work.expect(
                came <= max(due, 0) + 3,
                came=f"{came} keys were freed when {max(due, 0)} were past their deadlines",
                expected="none that is not",
                cause="is a slot due at the beginning of its second, or at its end?",
            )
        polls = clock.rounds
        clock.step(1002)
        came, rounds = freed["free"] - before, clock.rounds - polls
        work.expect(
            came >= 1000,
            came=f"{came} of the first thousand keys were freed when their second had been over for 1000 ms",
            expected="all of them",
        )  # fmt: skip
        work.expect(
            rounds >= 5,
            came=f"for that the loop went round {rounds} times",
            expected="5 times at least: 200 keys in one round, so that clients have their turn",
            cause="is the work counted by the key, or by the slot?",
        )
        clock.step(1000)
        came = freed["free"] - before
        work.expect(
            2000 <= came <= 2060, came=f"at the end {came} pieces of memory were freed",
            expected="2000 keys and a few slots",
        )  # fmt: skip


@points(2, "slots that go, and far deadlines")
def test_slots(work: Submission) -> None:
    """How long does the loop sleep, with one key, with a deadline that is moved or taken away, and one at the end of
    all time?"""
    with Clock(work, COUNTED) as clock, work.count("free", "malloc") as counted, clock.server(
        IDLE_TIMEOUT_MS=0
    ) as server, server.connect() as conn:
        for take in (("persist", "k"), ("del", "k"), ("set", "k", "w"), ("pexpire", "k", "0")):
            conn.ask("set", "k", "v")
            for ms in (3000, 70_000, 9000):
                conn.ask("pexpire", "k", str(ms), expect=1)
                wait = clock.wait
                work.expect(
                    ms <= wait <= ms + 1001,
                    tried=f"pexpire k {ms}",
                    came=f"the server means to wait {wait} ms",
                    expected=f"{ms + 1} ms, or up to a second more",
                    cause="is the slot of the deadline before still there?",
                )
            conn.ask(*take)
            work.expect(
                clock.wait == -1,
                tried=" ".join(take),
                came=f"the server means to wait {clock.wait} ms, though no key has a deadline",
                expected="for ever",
                cause="does a slot go with its last key?",
            )
        clock.step((1 - clock.now_ms) % 1000)
        conn.ask("set", "k", "v")
        for less in (0, 1, 500, 807, 808, 999, 1000):
            ms = INT64_MAX - clock.now_ms - less
            conn.ask("pexpire", "k", str(ms), expect=1)
            clock.step(5000)
            left = conn.ask("pttl", "k")
            work.expect(
                left == ms - 5000,
                tried=f"pexpire k {ms}, which is {less} ms before the end of all time",
                came=f"after 5 s pttl k: (int) {left}",
                expected=f"(int) {ms - 5000}",
                cause="does the last millisecond of its second fit an int64_t?",
            )
        before = counted["malloc"] - counted["free"]
        for i in range(300):
            conn.ask("pexpire", "k", str(1000 * i + 5), expect=1)
        kept = counted["malloc"] - counted["free"] - before
        work.expect(
            kept <= 20,
            tried="one key gets three hundred deadlines, each in another second",
            came=f"{kept} more pieces of memory are in use",
            expected="hardly any more than before",
            cause="is a slot without keys freed?",
        )
