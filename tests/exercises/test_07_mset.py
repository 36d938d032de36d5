"""07-mset: a command sets any number of keys, or none where a value is missing."""
from __future__ import annotations

from typing import List, Tuple

from grading import Submission, points
from harness import Conn, Server, Status, wire

DONE, MISSING, ERROR = Status(0, b""), Status(2, b""), Status(1)
Pairs = List[Tuple[str, str]]


def mset(pairs: Pairs) -> List[str]:
    """The request that sets these."""
    return ["mset", *(word for pair in pairs for word in pair)]


def expect_set(work: Submission, conn: Conn, pairs: Pairs, what: str) -> None:
    """Sends it, and asks for all its keys."""
    reply = conn.ask(*mset(pairs))
    work.expect(
        reply == DONE, tried=f"mset of {what}", came=wire.show_value(reply),
        expected=f"{wire.show_value(DONE)}, as for set",
        cause="does the comparison of the number of arguments know that mset may have many?",
    )
    for key, value in dict(pairs).items():
        came = conn.ask("get", key)
        work.expect(
            came == Status(0, value.encode()), tried=f"mset of {what}, and then get of each key",
            came=f"get {key!r}: {wire.show_value(came)}", expected=f"the value {value!r}",
            cause="is every pair set, from the first to the last, in this order?",
        )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: keys come and go, names and numbers of arguments, and random commands."""
    work.chapter_tests(
        "a_key_comes_and_goes or names_ or wrong_numbers or as_many_strings or (random_commands and not several)"
    )


@points(3, "pairs, one to two hundred")
def test_pairs(work: Submission) -> None:
    """mset with one pair, with several and with many; each key is asked for afterwards."""
    with Server(7) as server, server.connect() as conn:
        expect_set(work, conn, [("k", "v")], "1 pair")
        expect_set(work, conn, [("k", "new"), ("other", "x")], "2 pairs, of which one is there already")
        expect_set(
            work, conn, [("twice", "first"), ("twice", "second"), ("third", "")],
            "3 pairs with the same key in two of them",
        )  # fmt: skip
        expect_set(work, conn, [("", "empty key"), ("v", "k"), ("k", "k")], "3 pairs, one with an empty key")
        expect_set(work, conn, [(f"key{i}", f"val{i}") for i in range(200)], "200 pairs")
        conn.ask("MSet", "a", "b", expect=DONE)
        conn.ask("get", "other", expect=Status(0, b"x"))
        conn.pipeline(
            [mset([("a", "1"), ("b", "2")]), ["get", "b"], ["del", "b"], ["get", "b"]],
            [DONE, Status(0, b"2"), DONE, MISSING],
        )  # fmt: skip


@points(3, "a value is missing")
def test_refused(work: Submission) -> None:
    """Requests in which the last key has no value, and one without any pair. Each is refused, and no key changes."""
    with Server(7) as server, server.connect() as conn:
        conn.ask("set", "old", "1", expect=DONE)
        conn.ask("set", "kept", "1", expect=DONE)
        for words in (
            [], ["old"], ["old", "2", "new"], ["new", "2", "old", "2", "kept"], ["old", "2"] * 100 + ["kept"]
        ):
            shown = f"mset {' '.join(words)}"[:60] if words else "mset alone"
            reply = conn.ask("mset", *words)
            work.expect(
                reply == ERROR, tried=shown, came=f"{wire.show_value(reply)} where we expected an error",
                expected="status 1 and a text",
                cause="each key needs a value: how many words are there then, and what if there are none?",
            )
            for key, before in (("old", Status(0, b"1")), ("kept", Status(0, b"1")), ("new", MISSING)):
                came = conn.ask("get", key)
                work.expect(
                    came == before, tried=f"{shown}, which is refused; and then get {key}",
                    came=f"{key} has changed: {wire.show_value(came)}",
                    expected=f"as before: {wire.show_value(before)}",
                    cause="was the number of words looked at before the first key was set?",
                )


@points(2, "the others as before")
def test_others(work: Submission) -> None:
    """get, set and del with too few and too many arguments: errors, and nothing is set or removed. The server has
    mset."""
    with Server(7) as server, server.connect() as conn:
        conn.ask("mset", "a", "1", "b", "2", expect=DONE)
        for words in ("get", "get a b", "set a", "set a 3 b", "set a 3 b 4", "del", "del a b", "get a b c d"):
            reply = conn.ask(*words.split())
            work.expect(
                reply == ERROR, tried=words, came=wire.show_value(reply),
                expected="status 1: a wrong number of arguments",
                cause="does `at least` hold for more commands than mset?",
            )
        conn.ask("get", "a", expect=Status(0, b"1"))
        conn.ask("get", "b", expect=Status(0, b"2"))
