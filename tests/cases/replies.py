"""Replies and buffers (09 and later): tagged values, `keys`, messages of up to 32 MiB, and what the
server's memory does meanwhile. clients.py has the client program.
"""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from harness import ANY, AnyOrder, Conn, Err, Server, exchange, fail, resp, seed, settings, wire
from harness.codec import codec
from harness.wire import ERR_2BIG, ERR_ARG

from . import case
from .talk import (
    SMALL, Counts, Sends, answered, asked, bulk, done, numbered, paused, say, start, still_serves, uses_no_cpu, watched,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = "conn try_*_buffer try_one_request state_* reply_request reject_input give_back conn_done k_turn_work"
AT_BUFFERS = "conn try_*_buffer reply_request give_back conn_done server.k_max_msg k_read_size k_max_kept"
AT_KEYS = "do_keys*"

LIMIT = 32 << 20  # of a message, in bytes
MIB = 1 << 20


def memory_below(server: Server, before_kb: int, bound_mib: int, what: str) -> None:
    """Fails where the server's memory has grown by more than that.

    Sanitizers have memory of their own; other languages have collectors that take their time.
    """
    if settings.foreign("server"):
        bound_mib = 4 * bound_mib + 64
    grown = (server.rss_kb() - before_kb) >> 10
    if grown > bound_mib and not watched():
        fail(
            f"{what}: the server's memory has grown by {grown} MiB",
            "is something kept that is used no more: a buffer as large as its largest message, a reply that was taken "
            "back, memory for a length that was only announced? Or is something never freed?",
            f"at most {bound_mib} MiB more than before",
        )


def filled(size: int, tag: int = 0) -> bytes:
    """Bytes of that many, of every value, where a shift or a swap of a part shows."""
    block = b"".join(b"%06x" % (tag << 16 | i) + bytes([i % 256, tag]) for i in range(1009))
    return (block * (size // len(block) + 1))[:size]


# ---- tagged values ----


@case(since=9, at="do_* reply_request", binary=True)
def replies_byte_for_byte(chapter: int) -> None:
    """The tag and every byte behind it; of an error the code."""
    with start(chapter) as server, server.connect() as conn:
        for words, body in (
            (["get", "k"], "00"),
            (["del", "k"], "03 0000000000000000"),
            (["keys"], "04 00000000"),
            (["set", "k", "v"], "00"),
            (["get", "k"], "02 01000000 76"),
            (["keys"], "04 01000000 02 01000000 6b"),
            (["set", "k", ""], "00"),
            (["get", "k"], "02 00000000"),
            (["del", "k"], "03 0100000000000000"),
            (["get", "k"], "00"),
            (["aaa", "bbb"], "01 01000000 0b000000 556e6b6e6f776e20636d64"),
        ):
            conn.send(asked(chapter, *words))
            conn.expect_bytes(wire.frame(bytes.fromhex(body)))
        for words in (["get"], ["get", "k", "k"], ["set", "k"], ["del"], ["keys", "k"]):
            conn.ask(*words, expect=Err(ERR_ARG))


@case(since=9, at="do_* reply_request")
def del_counts(chapter: int) -> None:
    """1 where the key was there, 0 where not, over and over."""
    with start(chapter) as server, server.connect() as conn:
        requests: List[Tuple[str, ...]] = []
        replies: List[object] = []
        for i in range(300):
            requests += [("set", f"k{i % 7}", "v"), ("del", f"k{i % 5}"), ("del", f"k{i % 5}")]
        there: Set[str] = set()
        for words in requests:
            replies.append(None if words[0] == "set" else int(words[1] in there))
            (there.add if words[0] == "set" else there.discard)(words[1])
        conn.pipeline(requests, replies)


# ---- keys ----


@case(since=9, at=AT_KEYS)
def keys_lists_every_key_once(chapter: int) -> None:
    """Also the empty key and those of any bytes; none twice after a `set`, none after a `del`."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        conn.ask("keys", expect=[])
        names = [b"", b"\0", b"k", b"k\0", b"K", b"\xff" * 300, bytes(range(256)), b"a b", b"x" * 70000]
        for name in names:
            conn.ask("set", name, b"1", expect=None)
            conn.ask("set", name, b"longer than before", expect=None)
        for each in (conn, other):
            each.ask("keys", expect=AnyOrder(names))
            each.ask("KEYS", expect=AnyOrder(names))
        while names:
            conn.ask("del", names.pop(len(names) // 2), expect=1)
            conn.ask("keys", expect=AnyOrder(list(names)))


@case(since=9, at=AT_KEYS)
def keys_at_every_size(chapter: int) -> None:
    """After each of 150 insertions, and after each removal: the table is resized in between."""
    order = random.Random(9).sample(range(150), 150)
    with start(chapter) as server, server.connect() as conn:
        requests: List[Tuple[bytes, ...]] = []
        replies: List[object] = []
        now: List[bytes] = []
        for i in range(150):
            now = now + [b"key:%d" % i]
            requests += [(b"set", now[-1], b""), (b"keys",)]
            replies += [None, AnyOrder(now)]
        for i in order:
            now = [key for key in now if key != b"key:%d" % i]
            requests += [(b"del", b"key:%d" % i), (b"keys",)]
            replies += [1, AnyOrder(now)]
        conn.pipeline(requests, replies)


@case(since=9, at=AT_KEYS)
def keys_against_a_set(chapter: int) -> None:
    """Random insertions and removals among 3,000 names, over three connections; `keys` now and then."""
    rng = random.Random(seed())
    there: Set[bytes] = set()
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(3)]
        for _ in range(30):
            requests: List[Tuple[bytes, ...]] = []
            replies: List[object] = []
            grow = rng.random()
            for _ in range(400):
                key = b"%d" % rng.randrange(3000)
                if rng.random() < grow:
                    requests.append((b"set", key, b"v"))
                    replies.append(None)
                    there.add(key)
                else:
                    requests.append((b"del", key))
                    replies.append(int(key in there))
                    there.discard(key)
            requests.append((b"keys",))
            replies.append(AnyOrder(sorted(there)))
            rng.choice(conns).pipeline(requests, replies)


# ---- long messages ----


@case(since=9, at=AT_BUFFERS)
def values_around_the_sizes_of_buffers(chapter: int) -> None:
    """A byte less, as many, a byte more than powers of two; each pipelined behind the one before."""
    sizes = [n + d for n in (512, 1024, 4096, 8192, 16384, 32768, 65536, 131072, MIB) for d in range(-40, 3, 6)]
    requests: List[Tuple[bytes, ...]] = []
    replies: List[object] = []
    for i, size in enumerate(sizes):
        value = filled(size, i % 256)
        requests += [(b"set", b"k%d" % (i % 3), value), (b"get", b"k%d" % (i % 3)), (b"get", b"none")]
        replies += [None, value, None]
    with start(chapter) as server, server.connect() as conn:
        conn.pipeline(requests, replies)


@case(since=9, at=AT_BUFFERS)
def long_messages_in_random_pieces(chapter: int) -> None:
    """Long and short requests as one stream, cut anywhere, on two connections at once."""
    rng = random.Random(seed())
    with start(chapter) as server, server.connect() as one, server.connect() as two:
        for conn, key in ((one, b"one"), (two, b"two")) * 3:
            values = [filled(rng.choice([0, 10, 3000, 20_000, 70_000, 400_000]), rng.randrange(256)) for _ in range(12)]
            data = b"".join(asked(chapter, "set", key, value) + asked(chapter, "get", key) for value in values)
            pos = 0
            while pos < len(data):
                size = rng.choice([1, 3, 100, 5000, 60_000, 300_000])
                conn.send(data[pos : pos + size])
                pos += size
            for value in values:
                conn.recv(None)
                conn.recv(value)


@case(since=9, at=AT_BUFFERS)
def memory_follows_the_bytes_that_came(chapter: int) -> None:
    """A message of 16 MiB is announced, comes in parts, and is answered; others are served all along."""
    most = 16 * MIB
    value = filled(most)
    data = asked(chapter, "set", "k", value)
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        say(other, tag="other")
        before = server.rss_kb()
        sent = 0
        for upto, bound in ((4, 1), (100, 1), (MIB, 5), (5 * MIB, 24), (most, 66)):
            conn.send(data[sent:upto])
            sent = upto
            conn.expect_silence(0.02)
            say(other, tag="other")
            memory_below(server, before, bound, f"{upto} of {len(data)} bytes of a message have come")
        conn.send(data[sent:])
        conn.recv(None)
        conn.ask("get", "k", expect=value)
        other.ask("del", "k", expect=1)
        say(other, tag="other")
        memory_below(server, before, 40, "a message of 16 MiB has come and its key is gone")


@case(since=9, at=AT_BUFFERS)
def announced_lengths_cost_nothing(chapter: int) -> None:
    """Thirty clients announce 32 MiB each, of the message and of a string in it."""
    whole = codec(chapter).announce(LIMIT) + b"k"
    pieces = [whole[:4], whole[4:15], whole[15:-1], whole[-1:]]
    with start(chapter) as server, ExitStack() as stack:
        still_serves(server)
        before = server.rss_kb()
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        for piece in pieces:
            for conn in conns:
                conn.send(piece)
            still_serves(server)  # all of it has been read
        memory_below(server, before, 4, "30 clients have announced 32 MiB each and sent 16 bytes")
        if not settings.foreign("server") and not watched() and server.peak_kb() - before > 4 << 10:
            fail(
                f"for what was announced, the server had {(server.peak_kb() - before) >> 10} MiB more for a moment",
                "a length alone must cost nothing: let the buffer grow as the bytes come, twice as large each time",
                "at most 4 MiB more",
            )


@case(since=9, binary=True)
def long_lies_about_strings(chapter: int) -> None:
    """Long messages whose strings do not add up: refused as short ones are."""
    body = bytearray(wire.body("set", "k", b"x" * MIB))
    at = len(body) - MIB - 4  # the length of the value
    with start(chapter) as server, server.connect() as other:
        for n in (MIB - 1, MIB + 1, 2**31, 2**32 - 1, 2**32 - at - 4):
            body[at : at + 4] = wire.u32(n)
            with server.connect() as conn:
                conn.send(asked(chapter, "get", "k"))
                conn.recv(None)
                conn.send(wire.frame(bytes(body)))
                conn.expect_closed()
            other.ask("get", "k", expect=None)


# ---- long replies ----


def reply_size(conn: Conn, value: object) -> int:
    """The bytes of a reply that the limit is compared with."""
    return len(conn.codec.reply(value)) - conn.codec.head


def _fill_keys(conn: Conn, total: int, n: int, beside: Sequence[bytes] = ()) -> List[bytes]:
    """Sets n keys, so that the reply to `keys`, with those that are there beside them, has `total` bytes."""
    names = [b"%c" % (65 + i) * (total // n - 100_000) for i in range(n)]
    room = total - reply_size(conn, [*names, *beside])
    names = [name + name[:1] * (room // n + (i < room % n)) for i, name in enumerate(names)]
    assert reply_size(conn, [*names, *beside]) == total
    for name in names:
        conn.ask("set", name, "", expect=None)
    return names


@case(since=9, at=AT_BUFFERS, ours="Redis has no limit for a reply")
def a_reply_at_the_limit(chapter: int) -> None:
    """A reply of 32 MiB arrives; one byte more, and there is an error in its place."""
    with start(chapter) as server, server.connect() as conn:
        names = _fill_keys(conn, LIMIT, 3)
        conn.ask("keys", expect=AnyOrder(names))
        conn.ask("del", names[0], expect=1)
        conn.ask("set", names[0] + b"A", "", expect=None)
        conn.ask("keys", expect=Err(ERR_2BIG))
        conn.ask("get", names[0], expect=None)


@case(since=9, at=AT_BUFFERS, ours="Redis has no limit for a reply")
def a_reply_above_the_limit(chapter: int) -> None:
    """It is taken back: what was answered before it in the same batch stays, what comes after follows.
    Its memory is given back."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        names = _fill_keys(conn, 40 * MIB, 5)
        conn.ask("set", "k", "v", expect=None)
        say(other, tag="other")
        before = server.rss_kb()
        around: List[Tuple[str, ...]] = [("get", "k"), ("get", "none"), ("aaa",), ("get", "k")]
        replies: List[object] = [b"v", None, Err(wire.ERR_UNKNOWN, "Unknown cmd"), b"v"]
        batch = around + [("keys",)] + around
        expect = replies + [Err(ERR_2BIG)] + replies
        conn.pipeline(batch, expect)
        other.ask("keys", expect=Err(ERR_2BIG))
        say(conn)
        memory_below(server, before, 20, "replies that were too big have been taken back")
        for name in names[:2]:
            other.ask("del", name, expect=1)
        keys = conn.ask("keys")
        if not isinstance(keys, list) or not set(keys) > set(names[2:]):
            fail(
                f"`keys` lists {len(keys) if isinstance(keys, list) else 'nothing'}, without some keys that are left",
                "a reply that was too big is taken back: afterwards the buffer ends where it did before it, and the "
                "keys "
                "are as they were",
                "the keys that were not deleted",
            )


@case(since=9)
def a_long_request_that_becomes_short(chapter: int) -> None:
    """A `keys` that takes long waits for the others, and these delete most of the keys. It is answered, and so is what
    its client asks next."""
    names = [b"%03d" % i + b"x" * 997 for i in range(70)]
    with start(chapter) as server, server.connect() as conn, ExitStack() as stack:
        others = [stack.enter_context(server.connect()) for _ in range(6)]
        conn.pipeline([(b"set", name, b"v") for name in names])
        for other in others:
            say(other)
        with paused(server):
            conn.send(asked(chapter, "keys"))
            for i, other in enumerate(others):
                other.send(b"".join(asked(chapter, "del", name) for name in names[i * 10 : i * 10 + 10]))
        conn.recv()
        for other in others:
            for _ in range(10):
                other.recv(1)
        conn.ask("get", names[-1], expect=b"v")
        uses_no_cpu(server, "after a request that took long, and no longer does")


@case(since=9, inside=True)
def keys_that_do_not_fit_are_not_printed(chapter: int) -> None:
    """The server knows beforehand that the reply is too big. So it does not make it, which the most memory that it ever
    had would show."""
    with start(chapter) as server, server.connect() as conn:
        # By a byte; in RESP by more than the head of an array, whose size is not known beforehand.
        _fill_keys(conn, LIMIT + (1 if chapter < wire.RESP_FROM else 16), 9)
        before = server.peak_kb()
        conn.pipeline([("keys",)] * 3, [Err(ERR_2BIG)] * 3)
        grown = (server.peak_kb() - before) >> 10
        if grown > 4 and not watched():
            fail(
                f"to answer `keys` with an error, the server needed {grown} MiB for a moment",
                "is the reply made first, and then found to be too big? Keep the sum of what `keys` would write while "
                "keys "
                "come and go, and look at that before.",
                "at most 4 MiB",
            )


@case(since=9, ours="Redis has no limit for a reply")
def what_keys_prints_is_counted_on_every_road(chapter: int) -> None:
    """Keys come and go in every way that there is. Then the reply to `keys` is 32 MiB, to the byte; with a byte more
    there is an error in its place."""
    with start(chapter) as server, server.connect() as conn:
        for n in (1, 1500) if chapter >= wire.RESP_FROM else ():  # few are freed at once, many in the background
            bulk(conn, numbered(range(n), "set", "flushed:######", ""), None)
            for byte in b"xy":
                conn.ask("set", bytes([byte]) * (LIMIT // 2 + MIB), "", expect=None)
            conn.ask("flushall", expect=resp.OK)
            conn.ask("keys", expect=[])
        for i in range(200):
            conn.ask("set", f"key {i}", "x" * i, expect=None)
            conn.ask("set", f"key {i}", "y" * (i % 7), expect=None)
            conn.ask("del", f"no key {i}", expect=0)
        for i in range(0, 200, 2):
            conn.ask("del", f"key {i}", expect=1)
            conn.ask("del", f"key {i}", expect=0)
        left = [b"key %d" % i for i in range(1, 200, 2)]
        if chapter >= 11:
            for i in range(50):
                conn.ask("zadd", f"gone {i}", 1, "a", expect=1)
                conn.ask("zrem", f"gone {i}", "a", expect=1)
                conn.ask("zadd", f"set {i}", 1, "a", expect=1)
                conn.ask("set", f"set {i}", "x" * i, expect=None)
            left += [b"set %d" % i for i in range(50)]
        if chapter >= 13:
            for i in range(50):
                conn.ask("set", f"brief {i}", "x", expect=None)
                conn.ask("expire", f"brief {i}", -(i % 2), expect=1)
                conn.ask("pexpire", f"set {i}", 10**6, expect=1)
                if i % 2:
                    conn.ask("persist", f"set {i}", expect=1)
        conn.ask("keys", expect=AnyOrder(left))
        names = _fill_keys(conn, LIMIT, 5, left)
        conn.ask("keys", expect=AnyOrder(left + names))
        conn.ask("set", names[0] + b"A", "", expect=None)
        conn.ask("del", names[0], expect=1)
        conn.ask("keys", expect=Err(ERR_2BIG))


@case(since=9, at="do_keys* keys_scan")
def more_keys_than_two_bytes_count(chapter: int) -> None:
    """65,537 keys are 1 where their number is kept in two bytes, and 65,536 are none."""
    with start(chapter) as server, server.connect(seconds=20) as conn:
        bulk(conn, numbered(range(65_536), "set", "######", ""), None)
        names = [b"%06d" % i for i in range(65_536)]
        conn.ask("keys", expect=AnyOrder(names))
        conn.ask("set", "x", "", expect=None)
        conn.ask("keys", expect=AnyOrder([*names, b"x"]))


def long_request(conn: Conn) -> bytes:
    """A request that takes long, and has an empty list for its reply: `keys` that looks into 131,072 buckets, as there
    were many keys and are none. From 18 on a table shrinks, so there are many keys, and none that it looks for."""
    if conn.chapter >= wire.KEYSPACE_FROM:
        bulk(conn, numbered(range(70_000), "set", "key:######", ""), None)
        return asked(conn.chapter, "keys", "none*")
    bulk(conn, numbered(range(140_000), "set", "key:######", ""), None)
    bulk(conn, numbered(range(140_000), "del", "key:######"), 1)
    return asked(conn.chapter, "keys")


@case(since=9, inside=True)
def one_long_request_a_round(chapter: int) -> None:
    """Twelve clients ask at once for what takes long, and one for something short. There is one of the long requests in
    a round, and the short one waits for none of them: it is answered in the first round, before any other."""
    sends = Sends()
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(13)]
        for conn in conns:
            conn.ask("get", "k", expect=None)
        keys = long_request(conns[0])
        with paused(server):
            for conn in conns[:-1]:
                conn.send(keys)
            conns[-1].send(asked(chapter, "get", "k"))
            sends.reset()
        for conn in conns[:-1]:
            conn.expect_bytes(answered(chapter, []))
        conns[-1].expect_bytes(answered(chapter, None))
        rounds = [nr for nr, _ in sends.since()]
        long_ones = rounds[1:]
        if len(rounds) != 13 or rounds[0] > long_ones[0] or sends.since()[0][1] != max(fd for _, fd in sends.since()):
            fail(
                f"the short request was not answered before the long ones; round and descriptor: {sends.since()}",
                "a request that takes long is left for later rounds, one in each: those that are short are answered "
                "first, "
                "whatever their connection's place in the list",
                f"{len(rounds)} replies, the first of them to the short request",
            )
        if len(set(long_ones)) < len(long_ones):
            fail(
                f"12 requests that take long were answered in {len(set(long_ones))} rounds",
                "after one request that takes long the round is over for all others of that kind: wait for new input "
                "(without sleeping), then take the next",
                "12 rounds, one in each, so that others are served in between",
            )


@case(since=9, inside=True)
def long_requests_take_turns(chapter: int) -> None:
    """One client before us and one behind us send a hundred long requests each. We send one: it is the third to be
    answered at the latest."""
    sends, times = Sends(), 100
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        first, we, last = [stack.enter_context(server.connect()) for _ in range(3)]
        for conn in (first, we, last):
            conn.ask("get", "k", expect=None)
        keys = long_request(we)
        with paused(server):
            first.send(keys * times)
            we.send(keys)
            last.send(keys * times)
            sends.reset()
        reply = answered(chapter, [])
        we.expect_bytes(reply)
        first.expect_bytes(reply * times)
        last.expect_bytes(reply * times)
        order = [fd for _, fd in sends.since()]
        our = sorted(set(order))[1]
        if order.index(our) > 2:
            fail(
                f"beside two clients with {times} long requests each, ours came after {order.index(our)} of theirs",
                "who has had a long request answered goes to the end of those that wait for one",
                "after two of theirs at most",
            )


def costly_requests(conn: Conn) -> Iterator[Tuple[List[object], object]]:
    """Requests for which a server needs milliseconds, though neither they nor what they ask for look it: the words,
    where % is the number of the client, and the reply (ANY: a long one)."""
    bulk(conn, numbered(range(10_000), "zadd", "z", "######", "name:######"), 1)
    yield ["zquery", "z", 0, "", 0, 65_536], ANY
    if conn.chapter >= wire.RESP_FROM:
        conn.ask("set", "a" * 6000, "v", expect=done(conn.chapter))
        yield ["keys", "*" + "a" * 300 + "b"], []
    if conn.chapter >= wire.KEYSPACE_FROM:
        yield ["scan", 0, "match", "*" + "a" * 300 + "b", "count", 1000], ANY
        yield ["memory", "usage", "z", "samples", 0], ANY
        yield ["copy", "z", "z%"], 1
        for name in ("big", *(f"own{i}" for i in range(6))):
            conn.ask("set", name, filled(MIB), expect=done(conn.chapter))
        yield ["copy", "big", "copy%"], 1
        yield ["rename", "own%", "new%"], done(conn.chapter)


@case(
    since=11, at="request_cost may_take out_pairs do_zquery do_keys do_scan do_copy rename_key do_memory_usage",
    inside=True,
)  # fmt: skip
def costly_requests_take_turns(chapter: int) -> None:
    """Six clients ask at once for what takes milliseconds: pairs by the thousand, a pattern that fits nearly
    everywhere, a copy of a megabyte. One of them is answered in a round, so that others are served in between."""
    sends = Sends()
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(6)]
        for conn in conns:
            conn.ask("get", "k", expect=None)
        for words, reply in costly_requests(conns[0]):
            with paused(server):
                for i, conn in enumerate(conns):
                    conn.send(asked(chapter, *(str(word).replace("%", str(i)) for word in words)))
                sends.reset()
            for conn in conns:
                conn.recv(reply)
            first: Dict[int, int] = {}
            for nr, fd in sends.since():
                first.setdefault(fd, nr)
            if len(set(first.values())) < len(conns):
                fail(
                    f"6 clients sent {' '.join(map(str, words))[:60]!r} at once, and were answered in "
                    f"{len(set(first.values()))} rounds",
                    "is all of the work counted before it is done: the pairs that are passed, the bytes that are "
                    "compared with a pattern or copied? What is more than the work of a turn waits for one of its own",
                    "6 rounds, one for each",
                )


@case(since=9, until=wire.KEYSPACE_FROM - 1, at=AT_KEYS, inside=True)
def keys_of_an_emptied_table(chapter: int) -> None:
    """There were many keys and are none, so each `keys` looks into many buckets for its short reply. A thousand of
    them, in one read, are not one turn."""
    n, times, counts = 40_000, 1000, Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", ""), None)
        bulk(conn, numbered(range(n), "del", "key:######"), 1)
        with paused(server):
            conn.send(asked(chapter, "keys") * times)
            counts.reset()
        conn.expect_bytes(answered(chapter, []) * times)
        if counts.polls < times // 8:
            fail(
                f"{times} `keys` of a table with {n // 2} buckets took the server {counts.polls} rounds",
                "buckets that are empty cost time as well: count those that are looked at as work of the turn, and "
                "end it "
                "when that is enough",
                f"{times // 8} rounds at least, so that others are served in between",
            )


@case(since=9)
def huge_replies_that_nobody_reads(chapter: int) -> None:
    """Tiny requests, all in one read, 80 MiB of replies: only a few of them are made beforehand, others
    are served, nothing spins. Then all are read: they arrive in order and without new input."""
    size = 2 * MIB
    with start(chapter) as server, server.connect() as other:
        for i in range(4):
            other.ask("set", f"k{i}", filled(size, i), expect=None)
        values = [filled(size, i) for i in range(4)]
        requests = [("get", f"k{i % 4}") if i % 2 else ("get", f"none{i}") for i in range(80)]
        expect = [values[i % 4] if i % 2 else None for i in range(80)]
        before = server.rss_kb()
        with server.connect(rcvbuf=1 << 20) as conn:
            conn.send(b"".join(asked(chapter, *words) for words in requests))
            say(other, 10, "other")
            uses_no_cpu(server, "a client that does not read 80 MiB of replies")
            memory_below(server, before, 16, "80 MiB of replies wait for a client that does not read")
            for i, body in enumerate(exchange([(conn, b"", len(requests))])[0]):
                conn.check(body, expect[i], requests[i], f"reply {i + 1} of {len(requests)}: ")
            say(conn)
        memory_below(server, before, 12, "80 MiB of replies have been read")


@case(since=9, at=AT_BUFFERS, ours="Redis makes all replies at once")
def many_that_do_not_read(chapter: int) -> None:
    """Twenty clients ask for 64 MiB each and read nothing: what one costs does not grow with what it asks."""
    with start(chapter) as server, server.connect() as other, ExitStack() as stack:
        other.ask("set", "k", filled(128 << 10), expect=None)
        before = server.rss_kb()
        for _ in range(20):
            conn = stack.enter_context(server.connect(rcvbuf=SMALL))
            conn.send(asked(chapter, "get", "k") * 512)
        say(other, 10, "other")
        memory_below(server, before, 20, "20 clients have asked for 64 MiB each and do not read")


@case(since=9, ours="Redis drops the replies of a client that has ended its input")
def half_closed_behind_long_replies(chapter: int) -> None:
    """The client has sent all it will send: each reply arrives, then the end."""
    value = filled(2 * MIB)
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", value, expect=None)
        conn.send((asked(chapter, "get", "k") + asked(chapter, "get", "none")) * 10)
        conn.shutdown_write()
        for _ in range(10):
            conn.recv(value)
            conn.recv(None)
        conn.expect_closed(reset_ok=False)


@case(since=9)
def long_replies_before_a_bad_message(chapter: int) -> None:
    """Whatever is wrong with the message: what was asked before it is answered whole, then the close."""
    value = filled(3 * MIB)
    with start(chapter) as server, server.connect() as other:
        other.ask("set", "k", value, expect=None)
        for bad in (codec(chapter).bad, *list(codec(chapter).malformed().values())[:4]):
            with server.connect() as conn:
                conn.send(asked(chapter, "get", "k") * 4 + bad + asked(chapter, "set", "k", "bad") * 10)
                for _ in range(4):
                    conn.recv(value)
                conn.expect_refused()
        other.ask("get", "k", expect=value)


@case(since=9, at=AT_BUFFERS)
def a_long_message_beside_others(chapter: int) -> None:
    """While 10 MiB come in and go out on two connections, a third has its small requests answered."""
    value = filled(10 * MIB)
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(3)]
        small = b"".join(asked(chapter, "set", "s", str(i)) + asked(chapter, "get", "s") for i in range(1000))
        jobs = [(conns[i], asked(chapter, "set", f"k{i}", value) + asked(chapter, "get", f"k{i}"), 2) for i in range(2)]
        bodies = exchange([*jobs, (conns[2], small, 2000)])
        for i in range(2):
            conns[i].check(bodies[i][0], None, ("set", f"k{i}", "..."))
            conns[i].check(bodies[i][1], value, ("get", f"k{i}"))
        for i, body in enumerate(bodies[2]):
            conns[2].check(body, b"%d" % (i // 2) if i % 2 else done(chapter))


# ---- system calls and memory ----


@case(since=9, inside=True)
def one_read_and_one_write_a_batch(chapter: int) -> None:
    """A thousand requests that lie in the socket cost a few calls, not a thousand."""
    n, counts = 1000, Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        counts.reset()
        with paused(server):
            conn.send(asked(chapter, "get", "k") * n)
        for _ in range(n):
            conn.recv(b"v")
        if not 1 <= counts.reads <= 8 or not 1 <= counts.writes <= 4:
            fail(
                f"{n} pipelined requests took {counts.reads} reads and {counts.writes} writes",
                "read as much as there is room for, answer all requests that lie in the buffer into one other buffer, "
                "and "
                "write that once",
                "1 to 8 reads and 1 to 4 writes",
            )


@case(since=9, at=AT_BUFFERS, inside=True)
def what_is_answered_is_not_moved_along(chapter: int) -> None:
    """A thousand requests come at once. Each is used up where it lies: those behind it stay where they are."""
    n, counts = 1000, Counts()
    one = asked(chapter, "get", "k")
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        say(conn)
        counts.reset()
        with paused(server):
            conn.send(one * n)
        for _ in range(n):
            conn.recv(None)
        if counts.moved > 4 * n * len(one):
            fail(
                f"{n} requests of {len(one)} bytes were answered, and memmove() has moved {counts.moved:,} bytes",
                "is the rest of the buffer moved to the front behind each request? Move a position instead, and the "
                "bytes only "
                "where there is no room behind them.",
                f"at most {4 * n * len(one):,}",
            )


@case(since=9, at=AT_BUFFERS, inside=True)
def large_buffers_are_given_back(chapter: int) -> None:
    """Twelve connections have each sent and received 4 MiB, and stay: their buffers do not."""
    size = 4 * MIB
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(12)]
        for conn in conns:
            say(conn)
        before = server.rss_kb()
        for i, conn in enumerate(conns):
            value = filled(size, i)
            conn.ask("set", "k", value, expect=None)
            conn.ask("get", "k", expect=value)
        conns[0].ask("del", "k", expect=1)
        for conn in conns:
            say(conn)  # it has had its turn since it was drained
        memory_below(server, before, 36, "12 connections have sent and received 4 MiB each, and nothing is left of it")


@case(since=9)
def the_first_byte_of_a_request_keeps_a_byte(chapter: int) -> None:
    """Three clients have sent a request of 30 MiB, and then one byte. It is the byte that is kept, and the memory for
    the request is given back; what comes behind that byte still finds it."""
    size = 30 * MIB
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(3)]
        for conn in conns:
            say(conn)
        before = server.rss_kb()
        next_one = asked(chapter, "get", b"k")
        for conn in conns:
            conn.send(asked(chapter, "get", bytes(size)) + next_one[:1])
            conn.expect_bytes(answered(chapter, None))
        for conn in conns:
            say(stack.enter_context(server.connect()))
        memory_below(server, before, 8, "three clients have sent 30 MiB, and then the first byte of a request")
        for conn in conns:
            conn.send(next_one[1:])
            conn.expect_bytes(answered(chapter, None))


@case(since=9)
def the_rest_of_a_reply_keeps_no_more_than_itself(chapter: int) -> None:
    """A client takes 24 of 30 MiB and stops. What is kept for it is what is left; then it takes that, too."""
    size = 30 * MIB
    value = filled(size)
    with start(chapter) as server, server.connect(rcvbuf=1 << 16) as conn, server.connect() as other:
        other.ask("set", "k", value, expect=None)
        say(other, tag="other")
        reply = answered(chapter, value)
        before = server.rss_kb()
        conn.send(asked(chapter, "get", "k"))
        conn.expect_bytes(reply[: 24 * MIB])
        say(other, 4, "other")
        memory_below(server, before, 12, "a client has taken 24 of 30 MiB")
        conn.expect_bytes(reply[24 * MIB :])
        say(conn)


@case(since=9)
def a_slow_reader_gets_it_all(chapter: int) -> None:
    """It takes 100 KiB, asks for a little more, and so on: every reply in its order."""
    rng = random.Random(seed())
    values = [filled(n, i) for i, n in enumerate((0, 100, 5000, 70_000, 300_000))]
    with start(chapter) as server, server.connect(rcvbuf=1 << 16) as conn:
        for i, value in enumerate(values):
            conn.ask("set", f"k{i}", value, expect=None)
        waiting: List[int] = []
        for _ in range(25):
            more = [rng.randrange(5) for _ in range(20)]
            conn.send_some(b"".join(asked(chapter, "get", f"k{i}") for i in more), 1)
            waiting += more
            while waiting and rng.random() < 0.9:
                conn.recv(values[waiting.pop(0)])
        for i in waiting:
            conn.recv(values[i])
        conn.ask("keys", expect=ANY)
