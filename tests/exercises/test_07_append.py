"""07-append: values grow at their end, as far as a reply can carry them."""
from __future__ import annotations

from grading import Submission, points
from harness import Conn, Server, Status, wire

DONE, MISSING, ERROR = Status(0, b""), Status(2, b""), Status(1)
LONGEST = 4096 - 4  # bytes of a value that a reply can carry: the status takes four


def expect_done(work: Submission, conn: Conn, key: str, more: bytes, tried: str) -> None:
    """An append that must succeed."""
    came = conn.ask("append", key, more)
    work.expect(
        came == DONE,
        tried=tried,
        came=wire.show_value(came),
        expected=f"{wire.show_value(DONE)}: it is not too much",
        cause=(
            "how many bytes of a reply are left for the value, and is it right to refuse where there is just enough"
            " room?"
            if came == ERROR
            else ""
        ),
    )


def expect_value(work: Submission, conn: Conn, key: str, value: bytes, tried: str, what: str = "") -> None:
    """What get says."""
    came = conn.ask("get", key)
    work.expect(
        came == Status(0, value),
        tried=tried,
        came=what or f"another value of {key} comes back: {wire.show_value(came)}",
        expected=wire.show_value(Status(0, value)),
        cause="where does the value end, and who knows its length?"
        if not what
        else "what has been done already when the answer is an error?",
    )


def fill(work: Submission, conn: Conn, key: str, size: int) -> bytes:
    """A value of that size, set and appended to."""
    value = b"".join(b"%d " % i for i in range(size))[:size]
    conn.ask("set", key, value[:1000], expect=DONE)
    for i in range(1000, size, 1000):
        expect_done(
            work, conn, key, value[i : i + 1000], f"append to a value of {i} bytes another {len(value[i : i + 1000])}"
        )
    return value


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: values of every length, any bytes, names and numbers of arguments."""
    work.chapter_tests(
        "a_value_of_every_length or any_bytes or names_ or wrong_numbers or (random_commands and not several)"
    )


@points(3, "in steps of all sizes")
def test_steps(work: Submission) -> None:
    """A key that is not there, then bytes of all kinds, a few at a time; after each step the value is asked for."""
    with Server(7) as server, server.connect() as conn:
        expect_done(work, conn, "new", b"first", "append to a key that is not there")
        expect_value(work, conn, "new", b"first", "append first, to a key that is not there, and get")
        pieces = [b"", b"a", b"\0", b"b\0\0c", b"%s%n", b"\xff" * 33, bytes(range(256)), b"", b"\0", b"end"]
        value = b""
        for more in pieces:
            value += more
            expect_done(
                work, conn, "k", more, f"append of {wire.show_bytes(more)} to a value of {len(value) - len(more)} bytes"
            )
            expect_value(work, conn, "k", value, f"append of {wire.show_bytes(more)}, and get")
        conn.ask("set", "k", "short", expect=DONE)
        conn.pipeline(
            [
                ("APPEND", "k", "er"),
                ("get", "k"),
                ("append", "other", "x"),
                ("del", "k"),
                ("append", "k", "y"),
                ("get", "k"),
            ],
            [DONE, Status(0, b"shorter"), DONE, DONE, DONE, Status(0, b"y")],
        )
        for i in range(1000):
            conn.ask("append", "bits", "01"[i % 2], expect=DONE)
        expect_value(work, conn, "bits", b"01" * 500, "a thousand times append of one byte")


@points(3, "the longest value")
def test_longest(work: Submission) -> None:
    """A value grows to the last byte that a reply can carry; then one byte more, and a thousand."""
    for last in (1, 92, 1000):
        with Server(7) as server, server.connect() as conn:
            value = fill(work, conn, "k", LONGEST - last)
            expect_done(
                work, conn, "k", b"z" * last,
                f"append of {last} bytes, which makes {LONGEST}: the longest value that a reply can carry",
            )  # fmt: skip
            expect_value(work, conn, "k", value + b"z" * last, f"get of a value of {LONGEST} bytes")
            for more in (b"!", b"!" * 4, b"!" * 1000):
                came = conn.ask("append", "k", more)
                what = "one byte more" if len(more) == 1 else f"{len(more)} bytes more"
                work.expect(
                    came == ERROR, tried=f"append to a value of {LONGEST} bytes {what}: one byte more is too much",
                    came=wire.show_value(came),
                    expected="status 1: with it no reply could carry the value",
                    cause="which part of a reply is not the value?",
                )
            expect_done(work, conn, "k", b"", f"append of nothing to a value of {LONGEST} bytes")


@points(2, "refused without a trace")
def test_refused(work: Submission) -> None:
    """Appends that are too much, on two connections. Then the value, another key and the other client are looked at."""
    with Server(7) as server, server.connect() as conn, server.connect() as other:
        conn.ask("set", "other", "as it was", expect=DONE)
        value = fill(work, conn, "k", 4000)
        for i in range(20):
            more = b"x" * (93 + 200 * i)
            came = (conn, other)[i % 2].ask("append", "k", more)
            tried = f"append of {len(more)} bytes to a value of 4000, which must be refused"
            work.expect(came == ERROR, tried=tried, came=wire.show_value(came), expected="status 1 and a text")
            expect_value(work, conn, "k", value, f"{tried}; and then get", "the value has changed")
        expect_value(work, other, "other", b"as it was", "get of another key", "another key has changed")
        expect_done(work, other, "k", b"x" * 92, "append of the 92 bytes that there is still room for")
        expect_value(work, conn, "k", value + b"x" * 92, "get of the value then", "the value is another one")
