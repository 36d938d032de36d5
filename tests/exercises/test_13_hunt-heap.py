"""13-hunt-heap: every entry knows where its deadline is, whatever happens to the deadlines of others."""
from __future__ import annotations

import random
from typing import Dict

from fake_clock import BEGIN, Clock
from grading import ROOT, Submission, points


@points(3, "whose deadline is it")
def test_whose_deadline(work: Submission) -> None:
    """Up to forty keys get deadlines, and lose them through persist, set and del. Every time pttl is asked for all
    keys."""
    rng = random.Random(13)
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        for n in (1, 2, 3, 4, 7, 40):
            left: Dict[str, int] = {}
            said = []
            for step in range(6 * n):
                key = f"key{rng.randrange(n)}"
                how = rng.choice(["pexpire", "pexpire", "pexpire", "persist", "set", "del"])
                if key not in left:
                    conn.ask("set", key, "v", expect=None)
                    left[key] = -1
                words = {
                    "pexpire": ("pexpire", key, str(rng.randrange(1, 100) * 100_000)), "set": ("set", key, "v")
                }.get(how, (how, key))
                conn.ask(*words)
                said.append(" ".join(words))
                left[key] = int(words[2]) if how == "pexpire" else -1
                if how == "del":
                    del left[key]
                names = sorted(left)
                for name, came in zip(names, conn.pipeline([("pttl", name) for name in names])):
                    work.expect(
                        came == left[name],
                        tried=f"{n} keys; the last commands were " + ", ".join(said[-4:]),
                        came=f"pttl {name}: (int) {came}",
                        expected=f"(int) {left[name]}"
                        + (", since nobody has given it a deadline, or it was taken away" if left[name] < 0 else ""),
                        cause="which item of the heap does the entry take for its own?",
                    )
            for name in left:
                conn.ask("del", name, expect=1)


@points(2, "who stays and who goes")
def test_who_stays(work: Submission) -> None:
    """A hundred keys with deadlines one second apart; every third is made to stay. Then the time passes."""
    n = 100
    order = random.Random(14).sample(range(n), n)
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.pipeline([("set", f"key{i:02}", "v") for i in range(n)])
        conn.pipeline([("pexpire", f"key{i:02}", str(1000 * (i + 1))) for i in order], [1] * n)
        stay = {i for i in range(n) if i % 3 == 0}
        conn.pipeline([("persist", f"key{i:02}") for i in order if i in stay], [1] * len(stay))
        for passed in (1, 30, 60, 90, n):
            clock.step(passed * 1000 + 1 - (clock.now_ms - BEGIN))
            came = conn.ask("keys")
            assert isinstance(came, list)
            there = {int(name[3:]) for name in came}
            wanted = {i for i in range(n) if i in stay or i + 1 > passed}
            lost, late = sorted(wanted - there), sorted(there - wanted)
            if there != wanted:
                key = (lost or late)[0]
                work.fail(
                    came=f"after {passed} s key{key:02} is " + ("gone" if lost else "still there"),
                    expected="it was made to stay" if key in stay else f"it goes after {key + 1} s",
                    cause="which key was told that it has no deadline any more?",
                )


@points(2, "the heap alone")
def test_heap_alone(work: Submission) -> None:
    """test_heap.c of chapter 13, built with your headers."""
    text = (ROOT / "chapters" / "13" / "test_heap.c").read_text(encoding="utf-8")
    ran = work.run([work.build({"lab.c": text}, "lab")], seconds=30)
    last = "\n".join((ran.out + ran.err).splitlines()[-3:])
    work.expect(
        ran.status == 0,
        came=f"it ended with {'exit status' if ran.status >= 0 else 'signal'} {abs(ran.status)}"
        + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause="each item must be where its record says, no item less than its parent, and who left must know it",
    )


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: deadlines that were taken away, keys that come back while others expire."""
    work.chapter_tests("deadlines_that_were_taken_away or keys_come_back_while_others_expire or a_new_key_has_no_ttl")
