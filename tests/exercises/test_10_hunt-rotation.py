"""10-hunt-rotation: a removal takes one node out of the tree, and leaves all others in it."""
from __future__ import annotations

import random
import re
from typing import List, Set, Tuple

from grading import Submission, points
from harness.process import status_text

REPORTED = "30 48 49 17 25 91 6 11 18 32 65 27 52 -30".split()


def shown(work: Submission, steps: List[str]) -> List[Tuple[Set[int], int, int]]:
    """Runs avl_show; for each step the numbers that were drawn, and depth and count of the root."""
    out, _, status = work.run([work.program("avl_show"), *steps])
    drawings = re.split(r"^(?:insert|delete) -?\d+\n", out, flags=re.M)[1:]
    if status != 0:
        at = f" at {steps[len(drawings)]}" if len(drawings) < len(steps) else ""
        work.fail(
            tried=f"./avl_show {' '.join(steps)}",
            came=f"it ended with {status_text(status)}{at}",
            expected="it runs to its end",
            cause="a pointer to a node that is not there",
        )
    found = []
    for drawing in drawings:
        labels = re.findall(r"(\d+)\((\d+),(\d+)\)", drawing)
        found.append(
            (
                {int(label[0]) for label in labels},
                int(labels[0][1]) if labels else 0,
                int(labels[0][2]) if labels else 0,
            )
        )
    return found


@points(3, "all numbers after each step")
def test_numbers(work: Submission) -> None:
    """What was reported, and a hundred runs of up to sixty numbers that are inserted and removed in any order."""
    rng = random.Random(10)
    runs = [REPORTED]
    for n in range(100):
        numbers = [str(number) for number in rng.sample(range(1000), 3 + n % 60)]
        runs.append(numbers + [f"-{number}" for number in rng.sample(numbers, len(numbers))])
    for steps in runs:
        there: Set[int] = set()
        for i, (drawn, _, _) in enumerate(shown(work, steps)):
            number = int(steps[i].lstrip("-"))
            (there.discard if steps[i].startswith("-") else there.add)(number)
            lost = sorted(there - drawn)
            work.expect(
                drawn == there,
                tried=f"./avl_show {' '.join(steps[: i + 1])}",
                came=f"after {steps[i]}, {len(drawn)} numbers are in the drawing"
                + (f"; missing: {' '.join(map(str, lost[:12]))}" if lost else ""),
                expected=f"{len(there)} numbers",
                cause="whom does a node take for its parent?",
            )


@points(2, "balanced, and counted")
def test_balance(work: Submission) -> None:
    """Numbers in rising, in falling and in mixed order, 31 of them: how deep is the tree, and how many does it
    count?"""
    n = 31
    orders = {"rising": range(n), "falling": range(n - 1, -1, -1), "mixed": [i * 12 % n for i in range(n)]}
    for order, numbers in orders.items():
        _, depth, cnt = shown(work, [str(number) for number in numbers])[-1]
        work.expect(
            depth <= 6 and cnt == n,
            came=f"in {order} order the root has the depth {depth} and counts {cnt} nodes",
            expected=f"a depth of 5 or 6, and {n} nodes",
            cause="is a node still mended on both sides, when one is too deep?",
        )


@points(3, "the tree alone")
def test_tree_alone(work: Submission) -> None:
    """test_avl.c of chapter 10, built with your header: every size, every shape of few nodes, random runs, many
    nodes."""
    lab = work.build({}, "test_avl", chapter=10)
    out, err, status = work.run([lab], seconds=20)
    last = "\n".join((out + err).splitlines()[-3:])
    work.expect(
        status == 0,
        came=f"it ended with {status_text(status)}" + (f", and its last lines are\n{last}" if last else ""),
        expected="all tests passed",
        cause="after each step, every node must know its children, its parent, its depth and its count",
    )
