"""04-buffered-reads: the server reads in large pieces and serves messages from its buffer."""
from __future__ import annotations

import os
import random
from typing import List

from grading import Submission, points
from harness import Server


@points(2, "answers as before")
def test_answers_as_before(work: Submission) -> None:
    """The chapter's tests of framing: messages are found however the stream is cut, and bad lengths end it."""
    work.chapter_tests("04- or prints_what_clients_say")


@points(4, "a thousand messages, few reads")
def test_few_reads(work: Submission) -> None:
    """A thousand messages in one write, some 14 KB. How often does the server call read()?"""
    n = 1000
    with work.count("read") as counted, Server(4) as server, server.connect() as conn:
        conn.pipeline([(f"message {i:03}".encode(),) for i in range(n)], [b"world"] * n)
    reads = counted["read"]
    work.expect(
        reads <= n // 10,
        came=f"{n} answers, for which the server called read() {reads} times",
        expected=f"{n // 10} calls at most: one of them can bring hundreds of these messages",
        cause="one read for the length, one for the body?" if reads > n + 100 else "one read for each length?",
    )


@points(2, "one by one, one read each")
def test_one_by_one(work: Submission) -> None:
    """A hundred messages, each sent after the answer to the one before. None may wait for another."""
    n = 100
    with work.count("read") as counted, Server(4) as server, server.connect() as conn:
        conn.ask("first", expect=b"world")
        counted.reset()
        for i in range(n):
            conn.ask(f"message {i}", expect=b"world")
        reads = counted["read"]
    work.expect(
        reads <= n + 10,
        came=f"{n} answers, for which the server called read() {reads} times",
        expected=f"about {n}: length and body come together, and one call brings both",
        cause="does the first read of a message ask for its length alone?",
    )


@points(2, "across the end of the buffer")
def test_across_the_end(work: Submission) -> None:
    """Messages of 0 to 4096 bytes, so that some lie across the end of any buffer. What is printed of them?"""
    rng = random.Random(4)
    said: List[str] = []
    with Server(4) as server, server.connect() as conn:
        for batch in range(15):
            sizes = [rng.choice([0, 1, 7, 300, 2000, 4095, 4096]) for _ in range(10)]
            texts = [text_of(size, batch * 10 + i) for i, size in enumerate(sizes)]
            conn.pipeline([(text,) for text in texts], [b"world"] * len(texts))
            said += [f"client says: {text}"[:4000] for text in texts]
            log = [line[:4000] for line in server.wait_log(len(said))]
            first = next((i for i, line in enumerate(said) if log[i : i + 1] != [line]), -1)
            if first >= 0:
                came, wanted = (log + [""] * 150)[first], said[first]
                at = max(0, len(os.path.commonprefix([came, wanted])) - 10)
                work.fail(
                    came=f"message {first + 1} was answered, but in its line stands\n{came[at : at + 50]!r}",
                    expected=f"{wanted[at : at + 50]!r}, from byte {at} of the line on",
                    cause="is it the right place of the buffer that is printed, after bytes were moved to its front?",
                )


def text_of(size: int, number: int) -> str:
    """A text that is different at every place, and from every other one."""
    return "".join(f"{number}.{i} " for i in range(size // 3 + 1))[:size]
