"""06-one-write: the answers to what one read brought go out in one write."""
from __future__ import annotations

from grading import Submission, points
from harness import Server, wire


@points(4, "few writes")
def test_few_writes(work: Submission) -> None:
    """Two thousand messages in one write, some 28 KB. How often does the server call send(), or write()?"""
    n = 2000
    texts = [b"message %03d" % i for i in range(n)]
    with work.count("read", "write") as counted, Server(6) as server, server.connect() as conn:
        conn.pipeline([(text,) for text in texts], texts)
        seen = counted.now()
    most = 2 * seen["read"] + 2
    work.expect(
        seen["write"] <= most,
        came=f"{n} answers; the server read {seen['read']} times and called send() {seen['write']} times",
        expected=f"about as many writes as reads, {most} at most",
        cause="is each answer sent before the next request is looked at?",
    )


@points(2, "at once")
def test_at_once(work: Submission) -> None:
    """Messages one by one, then messages behind each of which the first bytes of the next one lie."""
    with work.count("write") as counted, Server(6) as server, server.connect(seconds=2) as conn:
        for size in (5, 0, 2000, 4096, 2041, 2042, 2043):
            conn.ask(b"x" * size, expect=b"x" * size)
        asked = counted["write"]
        both = wire.frame(b"hello") + wire.frame(b"bye")
        for i in range(10, len(both)):
            conn.send(both[:i])
            conn.recv(b"hello")
            conn.send(both[i:])
            conn.recv(b"bye")
    work.expect(asked <= 14, came=f"7 answers, one by one, took {asked} calls of send()", expected="one for each")


@points(2, "before a bad length, and before the end")
def test_ends(work: Submission) -> None:
    """Ten messages, and in the same write a bad length, the end of the input, or half a message and the end."""
    ten = b"".join(wire.frame(b"message %d" % i) for i in range(10))
    with Server(6) as server:
        for rest, what in (
            (wire.u32(4097), "a bad length"), (wire.u32(0xFFFFFFFF) + b"x" * 5000, "a bad length and more bytes"),
            (b"", "the end"), (b"\5\0\0\0h", "half a message and the end"),
        ):  # fmt: skip
            for _ in range(3):
                with server.connect(seconds=2) as conn:
                    conn.send(ten + rest)
                    if len(rest) != 4:
                        conn.shutdown_write()
                    came = conn.read_to_end()
                    whole = len(wire.split_frames(came)[0])
                    work.expect(
                        came == ten,
                        came=(
                            f"in front of {what} were ten messages; {whole} answers came, then the connection was"
                            f" {conn.ended}"
                        ),
                        expected="ten answers, then the end",
                        cause="what has been collected and not sent yet when the connection ends?",
                    )
                    work.expect(
                        conn.ended == "closed" or "bad" in what and conn.ended,
                        came=f"after ten answers, {what}: the connection was {conn.ended}",
                        expected="an orderly end",
                    )


@points(2, "who reads late")
def test_reads_late(work: Submission) -> None:
    """A client sends messages of many sizes until the server takes no more, ends its output, and begins to read."""
    data = b"".join(wire.frame(b"%d " % i * (i % 700)) for i in range(8000))
    with Server(6) as server:
        for size in (1 << 16, 4096):
            with server.connect(rcvbuf=size) as conn:
                sent = conn.send_some(data, 0.1)
                conn.shutdown_write()
                frames, _ = wire.split_frames(data[:sent])
                wanted = sum(4 + len(frame) for frame in frames)
                got = b""
                while len(got) < wanted:
                    try:
                        got += conn.recv_exactly(min(1 << 20, wanted - len(got)))
                    except AssertionError:
                        got += bytes(conn.buffer)
                        break
                same = data.startswith(got)
                answers = len(wire.split_frames(got)[0]) if same else 0
                work.expect(
                    same,
                    came="other bytes came back than were sent, or some twice",
                    expected="each answer once, in order",
                    cause="where does a send go on that took only a part?",
                )
                work.expect(
                    len(got) == wanted,
                    came=(
                        f"{answers} of {len(frames)} answers came, then"
                        f" {'the connection was ' + conn.ended if conn.ended else 'nothing'}"
                    ),
                    expected="an answer to each whole message",
                    cause="does anything wait for more input, or end before its answers are through?",
                )
                conn.expect_closed(reset_ok=False)


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing, of requests behind a write that waits, and of clients that do not read."""
    work.chapter_tests(
        "04- or behind_a_blocked or never_reads or full_buffer or bad_length_read_late or small_parts"
    )
