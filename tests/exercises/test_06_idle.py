"""06-idle: calls and slots are counted, measured, and judged."""
from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Dict, List

from grading import Submission, points
from harness import Server

IDLE = (0, 10, 100, 1000)


@points(3, "the two numbers")
def test_counter(work: Submission) -> None:
    """Servers with 0 and with 50 idle connections answer two hundred messages. What do they print at their end?"""
    for idle in (0, 50):
        with work.count("poll", "watched") as counted, Server(6) as server, ExitStack() as stack:
            busy = stack.enter_context(server.connect())
            for _ in range(idle):
                stack.enter_context(server.connect())
            for i in range(200):
                busy.ask(f"{i}", expect=b"%d" % i)
            status = server.stop()
            seen, last = counted.now(), server.log[-1]
        wanted = f"polls={seen['poll']} slots={seen['watched']}"
        found = re.fullmatch(r"polls=(\d+) slots=(\d+)", last)
        work.expect(
            found,
            came=f"the last line of a server that ended with status {status}: {last}",
            expected=f"{wanted}, beside {idle} idle connections",
        )
        assert found
        work.expect(
            int(found[1]) == seen["poll"],
            came=f"{last}, beside {idle} idle connections: polls",
            expected=wanted,
            cause="is each call of the loop counted, once?",
        )
        work.expect(
            int(found[2]) == seen["watched"], came=f"{last}, beside {idle} idle connections: slots", expected=wanted,
            cause="what is the second argument of each call?",
        )


@points(2, "the server as it was")
def test_as_before(work: Submission) -> None:
    """The chapter's tests of framing, of descriptors, and of signals."""
    work.chapter_tests("04- or used_again or many_descriptors or leaves_when or behind_a_blocked")


def table(work: Submission) -> Dict[int, List[float]]:
    """The lines of measured.txt by the number of idle connections: messages, polls, slots per poll, microseconds."""
    found: Dict[int, List[float]] = {}
    for line in work.source("measured.txt").splitlines():
        words = line.split()
        if len(words) == 5 and all(re.fullmatch(r"\d+(\.\d+)?", word) for word in words):
            found[int(float(words[0]))] = [float(word) for word in words[1:]]
    for idle in IDLE:
        work.expect(
            idle in found,
            came=f"measured.txt has no line for {idle} idle connections" if found else "measured.txt has no table",
            expected="all that measure.py prints",
        )
    return found


@points(3, "measured.txt")
def test_measured(work: Submission) -> None:
    """The table has a line for each number of idle connections, and its counts can be those of this server."""
    for idle, (messages, polls, slots, micros) in table(work).items():
        work.expect(
            messages <= polls <= 1.2 * messages + 2 * idle + 50,
            came=f"{polls:.0f} polls for {messages:.0f} messages beside {idle} idle connections",
            expected="about one call for each message",
            cause="was it measured with a server that counts?",
        )
        least, most = idle * 0.92 + 5, idle + 12
        work.expect(
            least <= slots <= most,
            came=f"{slots:.1f} slots per poll beside {idle} idle connections",
            expected="what this server looks at: there are some other slots, too",
            cause="was it measured with another server, or not at all?",
        )
        work.expect(
            micros > 0,
            came=f"{micros} microseconds a message beside {idle} idle connections",
            expected="some time",
        )


@points(3, "from the table")
def test_from_the_table(work: Submission) -> None:
    """Slots, the ratio, and the cost of one idle connection: do the first three answers follow from measured.txt?"""
    lines = table(work)
    none, many = lines[0][3], lines[1000][3]
    ratio, cost = many / none, many - none
    cause = "does it follow from the table that you hand in?"
    work.expect_answer(1, lines[1000][2], form="a number of slots", within=1.0, cause=cause)
    work.expect_answer(2, ratio, form="a number, how many times", within=0.1 + 0.06 * ratio, cause=cause)
    work.expect_answer(3, cost, form="a number of nanoseconds", within=1 + 0.1 * abs(cost), cause=cause)


@points(2, "where it goes")
def test_letters(work: Submission) -> None:
    """Where the time goes, and what becomes of it with epoll."""
    work.expect_answer(4, "b", form="a letter from a to d")
    work.expect_answer(5, "a", form="a letter from a to d", cause="what does the kernel keep, that it need not ask?")


@points(2, "when it pays", instructor=True)
def test_when_it_pays(work: Submission) -> None:
    """A claim about a busy chat server, argued with the numbers."""
    work.expect_text(6, words=40)
