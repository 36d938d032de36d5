"""09-hunt-nesting: the client follows arrays as deep as it promises, and refuses what goes deeper."""
from __future__ import annotations

from typing import Tuple

from cases.clients import text_of
from grading import Submission, points
from harness import run_client, wire
from harness.fake import FakeServer, replies
from harness.process import status_text

LEVEL = bytes([wire.ARR, 1, 0, 0, 0])  # an array of one value, which follows


def expect_printed(work: Submission, body: bytes, text: str, what: str) -> None:
    """The client must print this text."""
    with FakeServer(replies(wire.frame(body))) as fake:
        out, err, status = run_client(9, ["get", "k"], fake)
    if (out, err, status) == (text, "", 0):
        return
    last = "".join(f"\n{line}" for line in (err or out).splitlines()[-1:])
    work.fail(
        tried=f"a reply of {what}", came=f"the client ended with {status_text(status)}, and said last{last}",
        expected="all of it printed, and exit status 0",
        cause="does what stands side by side count as one within another? And how deep may a reply be?",
    )


def nested(levels: int) -> Tuple[bytes, str]:
    """An integer within so many arrays: the bytes, and what the client prints for them."""
    return LEVEL * levels + wire.encode_value(7), "(arr) len=1\n" * levels + "(int) 7\n" + "(arr) end\n" * levels


@points(3, "far too deep")
def test_deep(work: Submission) -> None:
    """Replies that are arrays within arrays within arrays, 2000 to 6 million deep."""
    for levels in (2000, 200_000, 6_000_000):
        with FakeServer(replies(wire.frame(LEVEL * levels + b"\0"))) as fake:
            ran = work.run([work.program("client"), "get", "k"], env={"PORT": str(fake.port)}, seconds=15)
        work.expect(
            ran.status == 1 and "bad reply" in ran.err,
            tried=f"a reply of {levels} arrays within each other",
            came=f"the client ended with {status_text(ran.status)}"
            + (f"; it said last\n{ran.err.splitlines()[-1]}" if ran.err else ", without a word on standard error"),
            expected="it is refused: `bad reply` on standard error, and exit status 1",
            cause="how does a call know how deep it is, and how does it tell the next one?",
        )


@points(3, "not too deep")
def test_printed(work: Submission) -> None:
    """Replies that the client must print: arrays 900 deep, and arrays with thousands of values in them."""
    for levels in (3, 50, 900):
        expect_printed(work, *nested(levels), f"an integer within {levels} arrays")
    for value, what in (
        (list(range(5000)), "an array of 5000 integers"),
        ([[]] * 5000, "an array of 5000 empty arrays"),
        ([[[i, [None]], []] for i in range(3000)], "3000 arrays in an array, with arrays in them"),
    ):
        expect_printed(work, wire.encode_value(value), text_of(9, value), what)
    body, text = nested(900)
    three = bytes([wire.ARR]) + wire.u32(3) + body * 3, "(arr) len=3\n" + text * 3 + "(arr) end\n"
    expect_printed(work, *three, "an array of three values, each 900 deep")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of the client: every kind of reply, malformed ones, and lines from standard input."""
    work.chapter_tests("clients- and (every_kind or malformed or many_lines or in_pieces)")
