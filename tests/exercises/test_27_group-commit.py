"""27-group-commit: how many changes share one call of fdatasync, and who waits for it."""
from __future__ import annotations

import re

from grading import Submission, points
from harness import Server

SHARED = "which sets have been written when a call begins, and which can only be sent when it is over?"


def calls(work: Submission, server: Server, args: str) -> int:
    """How many calls of fdatasync load.py prints for these arguments."""
    ran = work.run_ok(["python3", work.path / "load.py", str(server.port), *args.split()], seconds=30)
    found = re.search(r"(\d+) calls of fdatasync", ran.out)
    assert found, ran.out
    return int(found[1])


@points(3, "calls of fdatasync")
def test_calls(work: Submission) -> None:
    """Calls for one client, for a client with pipelines, and the least for fifty clients: sections 1 to 3."""
    folder = work.shared / "log"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    env = {"DIR": str(folder), "APPENDONLY": "yes", "APPENDFSYNC": "always", "IDLE_TIMEOUT_MS": "0"}
    with Server(27, env=env) as server:
        single, pipelines = calls(work, server, "1 1000"), calls(work, server, "1 20 50")
        rounds, fifty = 20, calls(work, server, "50 20")
    assert rounds <= fifty <= 50 * rounds, fifty
    for section, right in enumerate((single, pipelines, rounds), 1):
        work.expect_answer(section, right, form="a number of calls", cause=SHARED)


@points(2, "who waits")
def test_who(work: Submission) -> None:
    """Whose reply waits for the disk, and what the number of calls grows with: sections 4 and 5."""
    work.expect_answer(4, "b", form="a letter from a to d", cause="what does try_flush_buffer() do before it sends?")
    work.expect_answer(5, "b", form="a letter from a to d", cause="who calls sync_begin(), and when?")


@points(2, "in a second")
def test_rate(work: Submission) -> None:
    """What a call of 5 ms leaves of a second, for one client and for fifty: section 6."""
    given = work.answer(6).answer
    numbers = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", given)]
    work.expect(
        len(numbers) == 2, tried="question 6 of answers.md", came=f"answer: {given}",
        expected="two numbers of sets in a second, as `1 and 2`",
    )  # fmt: skip
    work.expect(
        numbers == [200, 50 * 200], tried="question 6 of answers.md", came=f"answer: {given}",
        expected="two numbers of sets in a second, but not this one and that one together",
        cause="how many calls are there in a second, and for how many sets is each of them?",
    )  # fmt: skip


@points(3, "expected, and found", instructor=True)
def test_text(work: Submission) -> None:
    """What you expected, what came, and why: section 7."""
    work.expect_text(7, words=40)
