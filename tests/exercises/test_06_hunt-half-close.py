"""06-hunt-half-close: poll() is asked for what a connection waits for, and for nothing else."""
from __future__ import annotations

import time
from typing import Tuple

from grading import Counted, Submission, points, rounds_at_rest
from harness import Conn, Server, wire

MESSAGE = wire.frame(b"x" * 1000)
QUIET = 10  # calls of poll() in a stretch of time in which nothing happens


def stalled(server: Server, counted: Counted, ends: bool) -> Tuple[Conn, int]:
    """A client that sends until the server cannot send its answers, and reads nothing; how many messages it has sent.

    What is behind the answer that waits lies in the server's socket, and so does the end of the input.
    """
    conn, sent = server.connect(rcvbuf=4096), 0
    counted.reset()
    while sent < 40_000:
        conn.send(MESSAGE * 50)
        sent += 50
        end = time.monotonic() + 0.1
        while counted["write_bytes"] < sent * len(MESSAGE) and time.monotonic() < end:
            time.sleep(0.001)
        if counted["write_bytes"] < sent * len(MESSAGE):
            break
    if ends:
        conn.shutdown_write()
    return conn, sent


def expect_quiet(
    work: Submission, server: Server, counted: Counted, other: Conn, who: str, cause: str = ""
) -> None:  # fmt: skip
    """While another client waits for nothing, the server must hardly call poll(); then it serves that client."""
    polls = rounds_at_rest(server, counted, other, QUIET)
    other.ask("other", expect=b"other")
    work.expect(
        polls <= QUIET,
        came=f"with {who}, and nothing to do, the server called poll() {polls} times in a tenth of a second",
        expected="it waits in one call until there is something to do",
        cause=cause or "which events are watched while an answer waits for room?",
    )


def expect_answers(work: Submission, conn: Conn, messages: int) -> None:
    """The client reads at last, and must get all answers."""
    try:
        got = conn.recv_exactly(messages * len(MESSAGE))
    except AssertionError:
        work.fail(
            came=f"{len(conn.buffer) // len(MESSAGE)} of {messages} answers came, then "
            + (f"the connection was {conn.ended}" if conn.ended else "nothing"),
            expected="an answer to each message that it has sent",
            cause="what has become of what it sent while an answer waited for room?",
        )
        raise
    work.expect(
        got == MESSAGE * messages, came="other bytes came back than were sent", expected="each answer once, in order"
    )
    conn.unanswered.clear()


@points(3, "ended, does not read")
def test_ended_does_not_read(work: Submission) -> None:
    """A client sends until the server takes no more, ends its output, and does not read. Others say nothing."""
    with work.count("poll", "write_bytes") as counted, Server(6) as server, server.connect() as other:
        conn, _ = stalled(server, counted, ends=True)
        with conn:
            expect_quiet(work, server, counted, other, "a client that has ended its output and does not read")


@points(2, "all answers")
def test_all_answers(work: Submission) -> None:
    """The same client reads at last: the answers to all whole messages that it has sent, and then the end."""
    with work.count("write_bytes") as counted, Server(6) as server, server.connect() as other:
        conn, sent = stalled(server, counted, ends=True)
        with conn:
            other.ask("other", expect=b"other")
            expect_answers(work, conn, sent)
            conn.expect_closed(reset_ok=False)


@points(2, "does not read")
def test_does_not_read(work: Submission) -> None:
    """A client sends until the server takes no more, and does not read. Later it reads, and says some more."""
    with work.count("poll", "write_bytes") as counted, Server(6) as server, server.connect() as other:
        conn, sent = stalled(server, counted, ends=False)
        with conn:
            expect_quiet(work, server, counted, other, "a client that does not read")
            expect_answers(work, conn, sent)
            conn.ask("and now", expect=b"and now")
            expect_quiet(
                work, server, counted, other, "a client that did not read, and has read all",
                "what is watched when the answer is through?",
            )  # fmt: skip


@points(1, "nobody says anything")
def test_nobody_says_anything(work: Submission) -> None:
    """Clients that have spoken, and clients that have said nothing yet."""
    with work.count("poll") as counted, Server(
        6
    ) as server, server.connect(), server.connect() as one, server.connect() as other:
        one.ask("hello", expect=b"hello")
        expect_quiet(
            work, server, counted, other, "clients that say nothing", "what is watched when the answer is through?"
        )  # fmt: skip


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of ends, of requests behind a write that waits, and of idle clients."""
    work.chapter_tests("half_close or behind_a_blocked or no_cpu_when_idle or full_buffer or bad_length_read_late")
