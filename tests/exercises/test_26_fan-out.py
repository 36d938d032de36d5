"""26-fan-out: what a publication costs with many listeners: deliveries, writes, bytes that are stored."""
from __future__ import annotations

import re
from typing import Dict

from grading import Submission, points
from harness import Server

READ = "is it the right line, and the right number of it?"


def fan(work: Submission, args: str) -> Dict[str, int]:
    """What fan.py prints for these arguments."""
    with Server(26, env={"IDLE_TIMEOUT_MS": "0"}) as server:
        out = work.run_ok(["python3", work.path / "fan.py", str(server.port), *args.split()]).out
    return {name: int(number) for number, name in re.findall(r"(\d+) (deliveries|writes|bytes)", out)}


@points(4, "what fan.py counts")
def test_counts(work: Submission) -> None:
    """Bytes that are stored and writes to listeners: sections 1 to 5."""
    wide, single = fan(work, "100 1 100000"), fan(work, "10 50 100")
    together, ways = fan(work, "10 50 100 together"), fan(work, "10 1 100 3")
    numbers = wide["bytes"], single["writes"], together["writes"], together["bytes"], ways["writes"]
    for section, number in enumerate(numbers, 1):
        work.expect_answer(section, number, form="a number as fan.py prints it", cause=READ)


@points(1, "who copies")
def test_who(work: Submission) -> None:
    """Who copies the bytes of a message for each listener: section 6."""
    work.expect_answer(6, "b", form="a letter from a to d", cause="what does an inbox hold, and what does sendmsg get?")


@points(2, "when it is slow")
def test_slow(work: Submission) -> None:
    """From how many listeners on a publication needs a turn of its own: section 7."""
    delivery = re.search(r"k_delivery_cost = (\d+)", work.starter("src/pubsub.c"))
    turn = re.search(r"k_turn_work = (\d+) << (\d+)", work.starter("src/server.h"))
    assert delivery and turn
    most = (int(turn[1]) << int(turn[2])) // int(delivery[1])
    work.expect_answer(
        7, most + 1, form="a number of listeners", cause="what does find_listeners() return, and what does may_take() "
                                                         "compare it with, and how?",
    )  # fmt: skip


@points(3, "expected, and found", instructor=True)
def test_text(work: Submission) -> None:
    """What you expected, what came, and what a copy for each listener costs: section 8."""
    work.expect_text(8, words=40)
