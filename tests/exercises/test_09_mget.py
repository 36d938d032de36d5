"""09-mget: an array with a value for each key, and no more memory than a reply may need."""
from __future__ import annotations

from grading import Submission, points
from harness import Err, Server, wire

MIB = 1 << 20
LIMIT = 32 * MIB


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: keys come and go, replies byte for byte, a reply above the limit, random commands."""
    work.chapter_tests(
        "a_key_comes_and_goes or byte_for_byte or a_reply_above or names_ or wrong_numbers or keys_at_every_size"
    )


@points(3, "a value for each key")
def test_values(work: Submission) -> None:
    """mget of one key, of several, of a thousand: those that are there, those that are not, and some twice."""
    with Server(9) as server, server.connect() as conn:
        values = {b"a": b"1", b"empty": b"", b"": b"of the empty key", b"bytes": b"\0\r\n\xff", b"long": b"x" * 100_000}
        conn.pipeline([("set", key, value) for key, value in values.items()], [None] * len(values))
        for keys in (
            "a", "a none", "none", "none a", "a a none a", "bytes empty long a", "none none", "long long long"
        ):
            words = [word.encode() for word in keys.split()]
            came = conn.ask("mget", *words)
            right = [values.get(word) for word in words]
            work.expect(
                came == right, tried=f"mget {keys}", came=wire.show_value(came), expected=wire.show_value(right),
                cause="is there a place in the array for each key, whether or not the key is there?",
            )
        conn.ask("MGET", "", expect=[b"of the empty key"])
        conn.pipeline([("set", f"key{i}", f"val{i}") for i in range(0, 1023, 2)], [None] * 512)
        right = [f"val{i}".encode() if i % 2 == 0 else None for i in range(1023)]
        conn.ask("mget", *(f"key{i}" for i in range(1023)), expect=right)
        conn.pipeline([("mget", "a"), ("del", "a"), ("mget", "a", "empty"), ("set", "a", "2"), ("mget", "a")],
                      [[b"1"], 1, [None, b""], None, [b"2"]])  # fmt: skip


@points(2, "numbers of arguments")
def test_arguments(work: Submission) -> None:
    """mget without a key; and get, set, del, keys with too few and too many arguments."""
    with Server(9) as server, server.connect() as conn:
        conn.ask("set", "a", "1", expect=None)
        for words in ("mget", "get", "get a b", "set a", "set a 2 b", "del", "del a b", "keys a"):
            came = conn.ask(*words.split())
            work.expect(
                came == Err(wire.ERR_ARG), tried=words, came=wire.show_value(came),
                expected=wire.show_value(Err(wire.ERR_ARG)),
                cause="which commands may have more arguments than the table says, and which may not?",
            )
        conn.ask("mget", "a", expect=[b"1"])


@points(3, "at the limit, and above")
def test_limit(work: Submission) -> None:
    """Replies of 32 MiB and of one byte more; then two hundred times a value of a megabyte."""
    with work.count("malloc_bytes") as counted, Server(9) as server, server.connect(seconds=10) as conn:
        half = (LIMIT - 5) // 2 - 5  # the array takes 5 bytes, and each string takes 5
        conn.pipeline(
            [("set", "a", b"a" * half), ("set", "b", b"b" * (half + 1)), ("set", "c", b"c" * (half + 2))], [None] * 3
        )
        came = conn.ask("mget", "a", "b")
        work.expect(
            came == [b"a" * half, b"b" * (half + 1)],
            tried="mget of two values that together make a reply of 32 MiB, to the byte",
            came=wire.show_value(came)[:200], expected="an array of two strings: this is not above the limit",
        )
        came = conn.ask("mget", "a", "c")
        work.expect(
            came == Err(wire.ERR_2BIG), tried="mget of two values that together make one byte more",
            came=wire.show_value(came)[:200],
            expected=wire.show_value(Err(wire.ERR_2BIG)), cause="a reply is whole, or it is an error",
        )
        conn.pipeline([("del", key) for key in "abc"], [1] * 3)
        conn.ask("set", "big", b"x" * MIB, expect=None)
        counted.reset()
        came = conn.ask("mget", *["big"] * 200)
        asked = counted["malloc_bytes"] // MIB
        work.expect(
            came == Err(wire.ERR_2BIG), tried="mget of a value of 1 MiB, named two hundred times",
            came=wire.show_value(came)[:200],
            expected=wire.show_value(Err(wire.ERR_2BIG)),
        )
        work.expect(
            asked <= 256, tried="mget of a value of 1 MiB, named two hundred times: a request of 1.4 KB",
            came=f"the server asked for {asked} MiB of memory to say that the reply is too big",
            expected="256 MiB at most, for a buffer that doubles until the limit is passed",
            cause="from when on do you know that the reply will be taken back?",
        )
        conn.ask("mget", "none", "none", expect=[None, None])
