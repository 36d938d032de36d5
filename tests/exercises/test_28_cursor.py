"""28-cursor: a copy of one moment, written step by step while the keys change."""
from __future__ import annotations

import random
from typing import Dict, List, NamedTuple

from grading import Submission, points

Numbers = Dict[str, int]
MOST_LINES = 40  # of one command: more are in no few buckets
AT_ONCE = "who has to write an entry whose number becomes another one before the walk comes by?"


class Copy(NamedTuple):
    """A copy, and what should be in it."""

    right: Numbers
    lines: List[str]


class Script:
    """Commands for the store, and what it should have then."""

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.numbers: Numbers = {}
        self.moments: List[Numbers] = []  # what was there when each copy began

    def set(self, key: str, number: int) -> None:
        self.lines.append(f"set {key} {number}")
        self.numbers[key] = number

    def incr(self, key: str) -> None:
        self.lines.append(f"incr {key}")
        self.numbers[key] = self.numbers.get(key, 0) + 1

    def delete(self, key: str) -> None:
        self.lines.append(f"del {key}")
        self.numbers.pop(key, None)

    def begin(self) -> None:
        self.lines.append("begin")
        self.moments.append(dict(self.numbers))

    def step(self, n: int = 1) -> None:
        self.lines += ["step"] * n


def play(work: Submission, script: Script) -> List[Copy]:
    """Runs the store with the script; the copies that it has written. None may have more lines at once than a step."""
    text = "\n".join(script.lines) + "\n"
    ran = work.run([work.program("store")], stdin=text, seconds=20)
    work.expect(ran.status == 0, came=f"the store ended with status {ran.status}\n{ran.err[-500:]}",
                expected="it runs to the end of its input")  # fmt: skip
    copies: List[Copy] = []
    answers = iter(ran.out.splitlines())
    for command in script.lines:
        if command == "begin":
            copies.append(Copy(script.moments[len(copies)], []))
        for at_once, line in enumerate(answers):
            if not line.startswith("  "):
                break
            work.expect(bool(copies), came=f"a line of a copy, before one was begun:\n{line}", expected="none")
            copies[-1].lines.append(line.strip())
        else:
            work.fail(came=f"no answer to `{command}`", expected="each command has one")
        work.expect(
            at_once <= MOST_LINES, came=f"`{command}` has written {at_once} lines at once",
            expected="no more than a step of a walk finds", cause="a copy begins with nothing done",
        )  # fmt: skip
    return copies


def judge(work: Submission, copy: Copy, done: bool = True) -> None:
    """A copy must have each key that was there once, with its number then; all of them where it is done."""
    found: Numbers = {}
    for line in copy.lines:
        key, number = line.split()
        work.expect(key in copy.right, came=f"`{line}`, a key that was not there when the copy began",
                    expected="no line of it", cause="how does a new entry look to the walk?")  # fmt: skip
        work.expect(key not in found, came=f"{key} is in the copy twice", expected="once",
                    cause="which entry has the walk passed already, and how do you know?")  # fmt: skip
        found[key] = int(number)
        work.expect(
            found[key] == copy.right[key], came=f"`{line}`; when the copy began, {key} had {copy.right[key]}",
            expected="the number that it had when the copy began", cause=AT_ONCE,
        )  # fmt: skip
    missing = [key for key in copy.right if key not in found]
    work.expect(not done or not missing, came=f"{missing[:1]} is missing, and {len(missing) - 1} others",
                expected="all keys that were there when the copy began", cause=AT_ONCE)  # fmt: skip


@points(3, "between two steps")
def test_between(work: Submission) -> None:
    """Forty keys. Between two steps a key gets another number, one is deleted, one comes anew, and one is deleted and
    comes again."""
    script = Script()
    for i in range(40):
        script.set(f"k{i}", i - 5)
    script.begin()
    for i in range(40):
        script.incr(f"k{i * 7 % 40}")
        script.delete(f"k{(i * 11 + 3) % 40}")
        script.set(f"new{i}", i)
        script.delete(f"k{i}")
        script.set(f"k{i}", 1000)
        script.step()
    script.step(60)
    judge(work, play(work, script)[0])


@points(3, "grows and shrinks")
def test_sizes(work: Submission) -> None:
    """A table grows, or shrinks, in the midst of a copy; what is counted meanwhile are keys on both sides."""
    for n, last in ((3000, 110), (40, 3000)):
        for steps in (3, 7, 15, 23, 39, 63, 127, 255):
            script = Script()
            for i in range(n):
                script.set(f"k{i}", i + 1)
            script.begin()
            script.step(steps)
            for i in range(min(n, last)):
                script.incr(f"k{i}")
            for i in range(last, n):
                script.delete(f"k{i}")
            for i in range(n, last):
                script.set(f"k{i}", i)
            for _ in range(400):  # all nodes are in the table of the new size then
                script.incr("k0")
            script.step(3)
            for i in range(40):
                script.incr("k3")
                script.incr(f"k{i}")
                script.step()
            script.step(4096)
            judge(work, play(work, script)[0])


@points(3, "several copies")
def test_several(work: Submission) -> None:
    """Three copies of 500 keys. The second one is given up after some steps. Between them, keys change and come."""
    script = Script()
    for i in range(500):
        script.set(f"k{i}", i)
    for number, steps in enumerate((2048, 20, 2048)):
        script.begin()
        for i in range(steps):
            if i < 200:
                script.incr(f"k{i * 7 % 500}")
                script.set(f"new{number}:{i}", 1)
            script.step()
        for i in range(20):
            script.incr(f"k{i}")
            script.set(f"after{number}:{i}", 1)
    for number, copy in enumerate(play(work, script)):
        judge(work, copy, done=number != 1)


@points(3, "random commands, and what a call costs")
def test_cost(work: Submission) -> None:
    """Copies one after the other while random commands come: keys are counted, come and go. No call may write more than
    a step finds, and none may allocate."""
    chance = random.Random(28)
    script, without = Script(), Script()
    for _ in range(6):
        keys = chance.choice((30, 300, 3000))
        for _ in range(chance.choice((300, 3000))):
            key = f"k{chance.randrange(keys)}"
            chance.choice((script.incr, script.incr, script.delete))(key)
        script.begin()
        for _ in range(chance.choice((4, 400))):
            for _ in range(chance.randrange(12)):
                chance.choice((script.incr, script.incr, script.delete))(f"k{chance.randrange(keys)}")
            script.step()
        if chance.random() < 0.7:
            for key in [each for each in script.numbers if chance.random() < 0.95]:
                script.delete(key)
                if chance.random() < 0.2:
                    script.step()
        script.step(8192)
    for copy in play(work, script):
        judge(work, copy)
    without.lines = [line for line in script.lines if line not in ("begin", "step")]
    allocated = []
    for each in (script, without):
        with work.count("malloc") as counted:
            work.run([work.program("store")], stdin="\n".join(each.lines) + "\n", seconds=20)
            allocated.append(counted["malloc"])
    work.expect(
        allocated[0] == allocated[1],
        came=f"{allocated[0] - allocated[1]} blocks of memory are allocated for the copies",
        expected="none: what is to be remembered of an entry has room in it",
    )  # fmt: skip
