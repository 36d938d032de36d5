"""06-memmove: what is left of the input moves once before a read, not once a request."""
from __future__ import annotations

import random

from grading import Submission, points
from harness import Server, wire


@points(4, "few moves")
def test_few_moves(work: Submission) -> None:
    """Two thousand messages in one write, some 28 KB. How often does the server call memmove(), and for how many
    bytes?"""
    n = 2000
    texts = [b"message %03d" % i for i in range(n)]
    with work.count("memmove", "memmove_bytes", "read") as counted, Server(6) as server, server.connect() as conn:
        conn.pipeline([(text,) for text in texts], texts)
        conn.ask("last", expect=b"last")
        seen = counted.now()
    moves = f"called memmove() {seen['memmove']} times, and moved {seen['memmove_bytes']} bytes"
    came = f"{n} answers; the server read {seen['read']} times, {moves}"
    most = seen["read"] + 2
    work.expect(
        seen["memmove"] <= most, came=came, expected=f"one move for each read at most: {most}",
        cause="does serving a request still move what is behind it?",
    )
    work.expect(
        seen["memmove_bytes"] <= 20 * most, came=came,
        expected="what moves before a read is a piece of one message, here 15 bytes at most",
        cause="are bytes moved that have been served already?",
    )


@points(3, "across the end of the buffer")
def test_across_the_end(work: Submission) -> None:
    """Messages of 0 to 4096 bytes in one stream, so that they begin anywhere in the buffer and lie across its end."""
    rng = random.Random(6)
    with Server(6) as server, server.connect(seconds=2) as conn:
        for _ in range(20):
            texts = [rng.randbytes(rng.choice([0, 1, 7, 300, 2000, 4095, 4096])) for _ in range(10)]
            conn.pipeline([(text,) for text in texts], texts)


@points(2, "the ends")
def test_ends(work: Submission) -> None:
    """Input that ends behind messages, and input that ends in the middle of one. What does the server print?"""
    hello = wire.frame(b"hello")
    said = ["client says: hello"] * 3
    for rest, line, what in (
        (b"", "EOF", "behind three messages"), (b"\5", "unexpected EOF", "one byte behind three messages"),
        (hello[:-1], "unexpected EOF", "one byte before the end of the fourth message"),
    ):  # fmt: skip
        for pieces in (True, False):
            with Server(6) as server, server.connect() as conn:
                for data in [hello] * 3 if pieces else [hello * 3]:
                    conn.send(data)
                    if pieces:
                        conn.recv(b"hello")
                conn.send(rest)
                conn.shutdown_write()
                if not pieces:
                    conn.expect_bytes(hello * 3)
                conn.expect_closed(reset_ok=False)
                came = server.wait_log(4)
            how = "sent one by one" if pieces else "sent in one piece"
            work.expect(
                came == [*said, line],
                came=f"the input ended {what}, {how}; the server printed\n" + "\n".join(came),
                expected="\n".join([*said, line]),
                cause="which bytes of the buffer have been served, and which are left?",
            )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing, of full buffers, and of requests behind a write that waits."""
    work.chapter_tests("04- or every_length or full_buffer or behind_a_blocked or used_again or small_parts")
