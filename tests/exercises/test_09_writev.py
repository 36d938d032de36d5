"""09-writev: large values are sent from their entries, whole whatever becomes of the key, and are freed in the end."""
from __future__ import annotations

from typing import Callable, List, Tuple

from grading import Submission, points
from harness import Conn, Server, wire

MIB = 1 << 20


def value_of(number: int, size: int) -> bytes:
    """A value that is different at every place."""
    return b"".join(b"%d.%d " % (number, i) for i in range(size // 5 + 1))[:size]


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of replies of all sizes, of slow readers, and of writes that take a part."""
    work.chapter_tests(
        "around_the_sizes or slow_reader or small_parts or nobody_reads_the or a_reply_above or large_replies_in_parts"
        " or del_counts"
    )


@points(4, "no copies")
def test_copies(work: Submission) -> None:
    """Values of 64 KiB, 1 MiB and 20 MiB are set. Then they are asked for, some 120 MB in all, with small requests in
    between."""
    sizes = [64 << 10, MIB, 20 * MIB]
    values = [value_of(i, size) for i, size in enumerate(sizes)]
    with work.count(
        "memcpy_bytes", "memmove_bytes", "malloc_bytes", "writev"
    ) as counted, Server(9) as server, server.connect(seconds=10) as conn:
        for i, value in enumerate(values):
            conn.ask("set", f"big{i}", value, expect=None)
        conn.ask("set", "small", "s", expect=None)
        asked = [0, 1, 2, 1, 0] * 4 + [2]
        counted.reset()
        for i in asked:
            came = conn.pipeline([("get", "small"), ("get", f"big{i}"), ("get", "small")])
            work.expect(
                came == [b"s", values[i], b"s"],
                came=f"other bytes, where a value of {sizes[i]} bytes stands between two small ones",
                expected="the small one, the large one, the small one",
                cause="in which order do the pieces go out, and how long does each header say that its reply is?",
            )
        calls = counted.now()
    sent = sum(sizes[i] for i in asked)
    copied = calls["memcpy_bytes"] + calls["memmove_bytes"]
    work.expect(
        copied < sent // 10, came=f"for {sent >> 20} MB of values {copied >> 20} MB were copied by memcpy and memmove",
        expected=f"less than {sent // 10 >> 20} MB: the values stay where they are",
        cause="from where do they go to the kernel?",
    )
    work.expect(
        calls["malloc_bytes"] < sent // 10,
        came=f"for {sent >> 20} MB of values {calls['malloc_bytes'] >> 20} MB were allocated",
        expected=f"less than {sent // 10 >> 20} MB",
        cause="does a buffer grow for what is in an entry already?",
    )
    work.expect(
        calls["writev"] > 0, came="writev and sendmsg were not called at all",
        expected="they send several pieces of memory with one call",
    )  # fmt: skip


def expect_old(work: Submission, conn: Conn, values: List[bytes], tried: str) -> None:
    """The replies that come now must be these values, although they are no longer in the table."""
    cause = "who still needs the entry, and who may free it or write into it meanwhile?"
    for value in values:
        try:
            came = conn.recv_body()
        except AssertionError:
            gone = f"the connection was {conn.ended}" if conn.ended else "the rest did not come"
            work.fail(
                tried=tried, came=f"the old value did not come whole: {gone}",
                expected="all of the value that the key had when the request was answered", cause=cause,
            )  # fmt: skip
        right = wire.encode_value(value)
        if came != right:
            at = next((i for i, pair in enumerate(zip(came, right)) if pair[0] != pair[1]), min(len(came), len(right)))
            work.fail(
                tried=tried, came=f"not the old value, but other bytes from byte {at} of {len(right)} on",
                expected="the value that the key had when the request was answered", cause=cause,
            )  # fmt: skip


@points(4, "deleted and replaced meanwhile")
def test_replaced(work: Submission) -> None:
    """A client asks for a large value and reads a little. Then the key is deleted or gets another value; then the
    client reads on."""
    size = 12 * MIB
    ways: List[Tuple[str, Callable[[Conn], object]]] = [
        ("the key is deleted", lambda other: other.ask("del", "k", expect=1)),
        (
            "the key gets another value of the same length",
            lambda other: other.ask("set", "k", b"!" * size, expect=None),
        ),
        (
            "the key gets a shorter value, and then a longer one",
            lambda other: other.pipeline([("set", "k", b"?" * 100), ("set", "k", b"!" * (size + MIB))], [None, None]),
        ),
        (
            "the key is deleted, set anew and deleted again",
            lambda other: other.pipeline([("del", "k"), ("set", "k", b"!" * size), ("del", "k")], [1, None, 1]),
        ),
    ]
    with Server(9) as server:
        for i, (what, change) in enumerate(ways):
            with server.connect(
                rcvbuf=4096, seconds=10
            ) as conn, server.connect(seconds=10) as other, server.connect(rcvbuf=4096, seconds=10) as third:
                value = value_of(i, size)
                other.ask("set", "k", value, expect=None)
                other.ask("get", "small", expect=None)
                for each in (conn, third):
                    each.send(wire.request("get", "k"))
                    head = each.recv_exactly(4)
                    each.buffer[:0] = head
                change(other)
                other.pipeline([("set", f"new{j}", b"#" * (100 << j)) for j in range(12)], [None] * 12)
                tried = f"two clients ask for a value of {size >> 20} MiB, and when the first bytes have come {what}"
                expect_old(work, conn, [value], tried)
                expect_old(work, third, [value], tried)
        with server.connect(seconds=10) as conn:
            old, new = value_of(8, 3 * MIB), value_of(9, 3 * MIB)
            requests = [("set", "k", old), ("get", "k"), ("set", "k", new), ("get", "k"), ("del", "k"), ("get", "k")]
            conn.send(b"".join(wire.request(*words) for words in requests))
            right = [None, old, None, new, 1, None]
            for number, (words, each) in enumerate(zip(requests, right)):
                tried = f"set, get, set, get, del, get of a value of 3 MiB in one go; reply {number + 1}"
                expect_old(work, conn, [each], tried) if isinstance(each, bytes) else conn.recv(each)


@points(3, "all memory is given back")
def test_memory(work: Submission) -> None:
    """A hundred times a value of 2 MiB is set and asked for; every second client leaves before it has read it all."""
    size, most = 2 * MIB, 60
    with Server(9) as server, server.connect(seconds=10) as other:
        for i in range(100):
            other.ask("set", "k", b"%d" % (i % 10) * size, expect=None)
            with server.connect(rcvbuf=4096) if i % 2 else server.connect() as conn:
                if i % 2:
                    conn.send(wire.request("get", "k") * 4)
                    conn.recv_exactly(1)
                else:
                    came = conn.ask("get", "k")
                    work.expect(came == b"%d" % (i % 10) * size, came="another value", expected="the one that was set")
        other.ask("del", "k", expect=1)
        mb = server.rss_kb() >> 10
    work.expect(
        mb <= most, came=f"there are no keys left, and the server holds {mb} MB",
        expected=f"{most} MB at most: one value was there at a time",
        cause="who lets go of an entry when its value has been sent? And when the client has gone?",
    )


@points(1, "a batch is one write")
def test_batch(work: Submission) -> None:
    """A thousand small requests in one go."""
    n = 1000
    with work.count("write") as counted, Server(9) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        counted.reset()
        conn.pipeline([("get", "k")] * n, [b"v"] * n)
        calls = counted["write"]
    work.expect(
        calls <= 20, came=f"{n} small replies took {calls} calls",
        expected="20 at most: they lie side by side, and go out together",
        cause="does each reply have a call of its own now?",
    )  # fmt: skip
