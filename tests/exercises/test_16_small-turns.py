"""16-small-turns: how long others wait by the size of a turn, and what small turns cost."""
from __future__ import annotations

from typing import Dict, List, NamedTuple

from grading import Submission, points

CLIENTS, CALL, SMALL = 20, 4000, 100  # as waits.c has them
TURNS = [1 << n for n in range(10, 23, 2)]
KIB = 1024
FORM = "a number of bytes"
READ = "is it the line with that turn, and the column with the wait?"


class Row(NamedTuple):
    """What a turn does to the doctor, and to all."""

    wait: int
    calls: int
    all: int


def printed(work: Submission, requests: int, size: int) -> Dict[int, Row]:
    """What waits.c prints: by the size of a turn."""
    ran = work.run_ok([work.program("waits"), str(requests), str(size)])
    rows = [[int(word) for word in line.split()] for line in ran.out.splitlines() if line.strip()[:1].isdigit()
            and "clients" not in line]  # fmt: skip
    work.expect(
        [row[0] for row in rows if len(row) == 4] == TURNS, came=f"./waits {requests} {size} prints {len(rows)} lines",
        expected=f"a line of four numbers for each of the {len(TURNS)} turns, as before",
    )  # fmt: skip
    return {row[0]: Row(*row[1:]) for row in rows}


def right(turn: int, requests: int, size: int) -> Row:
    """The same by another way: a round is a few sums. A round begins with poll and ends with what is slow."""
    slow = size > turn
    a_turn = 1 if slow else -(-turn // size)  # requests
    left, waits, rest, now, calls = [requests] * CLIENTS, [], 0, 0, 0
    queue: List[int] = []  # of those whose request is slow, since it was refused
    while any(left):
        served = [] if slow else [i for i in range(CLIENTS) if left[i]]
        queue += [i for i in range(CLIENTS) if slow and left[i] and i not in queue]
        bytes_done = sum(min(a_turn, left[i]) for i in served) * size
        before = (1 + len(served) + 2) * CALL + bytes_done + SMALL
        waits.append(rest + before)
        for i in served:
            left[i] -= min(a_turn, left[i])
        rest = CALL + size if queue else 0
        calls += 3 + len(served) + bool(queue)
        now += before + rest
        if queue:
            left[queue.pop(0)] -= 1
    return Row(max(waits), calls, now)


@points(3, "the measure")
def test_measure(work: Submission) -> None:
    """waits with other requests than those of the questions: short ones, long ones, some slow for most turns."""
    for requests, size in ((50, 700), (3, 20_000), (7, 300_000), (2, 5_000_000)):
        rows = printed(work, requests, size)
        for turn in TURNS:
            expected, came = right(turn, requests, size), rows[turn]
            what = f"./waits {requests} {size}, with a turn of {turn}: "
            work.expect(
                came.calls == expected.calls and came.all == expected.all,
                came=f"{what}{came.calls} calls, {came.all} bytes in all", expected=f"{expected.calls}, {expected.all}",
                cause="the loop, its turns and its calls are to stay as they were",
            )  # fmt: skip
            work.expect(
                came.wait == expected.wait, came=f"{what}a longest wait of {came.wait}", expected=str(expected.wait),
                cause="when did she ask for what she has just got, and what has the server done for others since?",
            )  # fmt: skip


@points(3, "a small turn, and its price")
def test_price(work: Submission) -> None:
    """The waits with turns of 64 KiB and of 1 KiB, and what the small ones cost: sections 1 to 3 of answers.md."""
    rows = printed(work, 1000, 100)
    work.expect_answer(1, rows[64 * KIB].wait, form=FORM, cause=READ)
    work.expect_answer(2, rows[KIB].wait, form=FORM, cause=READ)
    ratio = rows[KIB].all / rows[64 * KIB].all
    cause = "divide one line of `all` by another"
    work.expect_answer(3, ratio, form="a number with one decimal", cause=cause, within=0.06)


@points(3, "why")
def test_why(work: Submission) -> None:
    """What a small turn is made of, and what it does to longer requests: sections 4 to 6."""
    work.expect_answer(4, "c", form="a letter from a to d", cause="how much of a round is work, how much are calls?")
    work.expect_answer(5, printed(work, 10, 40_000)[64 * KIB].wait, form=FORM, cause=READ)
    work.expect_answer(6, "b", form="a letter from a to d", cause="what does `may_take` say to 40,000 bytes?")


@points(1, "a turn that will do")
def test_enough(work: Submission) -> None:
    """The largest turn with which the doctor waits for at most a million bytes: section 7."""
    rows = printed(work, 1000, 100)
    largest = max(turn for turn in TURNS if rows[turn].wait <= 1_000_000)
    cause = "with a smaller turn she waits for less: how far can you go?"
    work.expect_answer(7, [largest, largest // KIB], form=FORM, cause=cause)


@points(2, "expected, counted, measured", instructor=True)
def test_clock(work: Submission) -> None:
    """What you expected, what came, and what a clock says: section 8."""
    work.expect_text(8, words=40)
