"""04-hunt-length: a length above the limit ends the connection, whichever it is."""
from __future__ import annotations

from grading import Submission, points
from harness import Server, wire

IMPOSSIBLE = [
    4097, 1 << 16, 0x20544547, 0x7FFFFFFF, 0x80000000, 0x80000005, 0xE0FFD8FF, 0xFFFFEFFF, 0xFFFFFFFB, 0xFFFFFFFF
]


@points(4, "lengths that no message has")
def test_impossible_lengths(work: Submission) -> None:
    """A length, and twenty thousand bytes behind it. The answer is none: `too long`, and the end of the connection."""
    with Server(4) as server:
        for number, length in enumerate(IMPOSSIBLE):
            shown = f"the length {length} (0x{length:08X})"
            before = 3 * number  # lines: too long, what the next client says, EOF
            with server.connect(seconds=2) as conn:
                conn.send(wire.u32(length) + b"1234 and so on " * 1333)
                line = "".join(server.wait_log(before + 1, 2)[before : before + 1])[:40]
                work.expect(
                    not line or line == "too long",
                    came=f"{shown} was taken for another one; the server printed\n{line}",
                    expected="too long", cause="whether a number is negative is in the eye of its type",
                )
                work.expect(
                    line, came=f"{shown}, and the server did not say `too long`",
                    expected="a length above 4096 is refused at once, before anything behind it is read",
                    cause="which number does the comparison see?",
                )
                conn.expect_closed()
            with server.connect() as conn:
                conn.ask("still there?", expect=b"world")
            server.wait_log(before + 3)


@points(3, "lengths that messages have")
def test_possible_lengths(work: Submission) -> None:
    """Messages of 0, 1, 127, 128, 255, 256, 4095 and 4096 bytes: each is served."""
    for size in (0, 1, 127, 128, 255, 256, 4095, 4096):
        with Server(4) as server, server.connect() as conn:
            conn.send(wire.frame(b"x" * size))
            work.expect(
                server.wait_log(1)[:1] != ["too long"], came=f"a message of {size} bytes was refused as too long",
                expected="messages of up to 4096 bytes are served", cause="is the limit itself allowed?",
            )
            conn.recv(b"world")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing."""
    work.chapter_tests("04-")
