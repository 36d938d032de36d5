"""07-hunt-prefix: two keys are the same where all their bytes are."""
from __future__ import annotations

from itertools import permutations
from typing import Dict, Iterable

from grading import Submission, points
from harness import Conn, Server, Status, wire

DONE = Status(0, b"")


def expect_values(work: Submission, conn: Conn, values: Dict[bytes, bytes], asked: Iterable[bytes], tried: str) -> None:
    """Asks for each of the keys."""
    for key in asked:
        came = conn.ask("get", key)
        right = Status(0, values[key]) if key in values else Status(2, b"")
        work.expect(
            came == right, tried=f"{tried}; and then get {wire.show_bytes(key)}", came=wire.show_value(came),
            expected=f"it should be {wire.show_value(right)}",
            cause="which keys does the server take for each other, and how many of their bytes does it compare?",
        )


@points(3, "in every order")
def test_every_order(work: Submission) -> None:
    """Keys that begin alike are set in every order, to different values."""
    for keys in ([b"user:1", b"user:12"], [b"k", b"key", b"key1"], [b"", b"a", b"ab"]):
        for order in permutations(keys):
            with Server(7) as server, server.connect() as conn:
                values: Dict[bytes, bytes] = {}
                for key in order:
                    conn.ask("set", key, b"of " + key, expect=DONE)
                    values[key] = b"of " + key
                    shown = ", ".join(f"set {wire.show_bytes(each)}" for each in values)
                    expect_values(work, conn, values, keys, shown)


@points(2, "removed, or never set")
def test_never_set(work: Submission) -> None:
    """Of several keys that begin alike some are removed, and some were never there."""
    keys = [b"user:12", b"user:123", b"user:1", b"user:2", b"user", b"user:", b"", b"user:12 "]
    with Server(7) as server, server.connect() as conn:
        values: Dict[bytes, bytes] = {}
        for key in keys[:2]:
            conn.ask("set", key, key, expect=DONE)
            values[key] = key
        expect_values(work, conn, values, keys, "set user:12, set user:123")
        for key in keys[2:]:
            conn.ask("del", key, expect=DONE)
            expect_values(work, conn, values, keys, f"set user:12, set user:123, del {wire.show_bytes(key)}")
        for key in keys[:2]:
            conn.ask("del", key, expect=DONE)
            del values[key]
            expect_values(work, conn, values, keys, f"two keys are set, and {wire.show_bytes(key)} is removed")


@points(1, "any bytes")
def test_any_bytes(work: Submission) -> None:
    """Keys with bytes of any value in them, of the same length and of several."""
    keys = [
        b"\0", b"\0\0", b"a\0b", b"a\0c", b"a", b"a\0", b"\xff", b"\xfe", b"A", b" ", b"x" * 1000, b"x" * 999 + b"y",
        b"x" * 1001,
    ]  # fmt: skip
    with Server(7) as server, server.connect() as conn:
        values: Dict[bytes, bytes] = {}
        for i, key in enumerate(keys):
            conn.ask("set", key, b"%d" % i, expect=DONE)
            values[key] = b"%d" % i
        expect_values(work, conn, values, keys, f"{len(keys)} keys are set")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of keys: nearly the same, removed in any order, random commands."""
    work.chapter_tests("keys_ or long_keys or (random_commands and not several)")
