"""Chapter 09: serialization. A reply says what it is: nil, an error, a string, an integer, an array. `keys`; 32 MiB."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import List, Set, Tuple

import pytest

from cases import Case, case, earlier, new
from cases.replies import LIMIT, MIB, fill_keys, filled, memory_below
from cases.talk import (
    SMALL, Counts, answered, asked, bulk, numbered, paused, say, start, still_serves, uses_no_cpu, watched,
)  # fmt: skip
from harness import ANY, AnyOrder, Err, check_session, exchange, fail, seed, settings, wire
from harness.codec import codec
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import DONE, ERR_2BIG, ERR_ARG

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 09. The rules are in book/protocol.md.
SESSIONS = ["09-demo", "09-strings", "09-keys", "09-errors", "09-lines", "09-large"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(9))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 9)


# A case, @case(since=9), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# ---- tagged values ----


@case(since=9, binary=True)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9)
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


@case(since=9, ours="Redis has no limit for a reply")
def a_reply_at_the_limit(chapter: int) -> None:
    """A reply of 32 MiB arrives; one byte more, and there is an error in its place."""
    with start(chapter) as server, server.connect() as conn:
        names = fill_keys(conn, LIMIT, 3)
        conn.ask("keys", expect=AnyOrder(names))
        conn.ask("del", names[0], expect=1)
        conn.ask("set", names[0] + b"A", "", expect=None)
        conn.ask("keys", expect=Err(ERR_2BIG))
        conn.ask("get", names[0], expect=None)


@case(since=9, ours="Redis has no limit for a reply")
def a_reply_above_the_limit(chapter: int) -> None:
    """It is taken back: what was answered before it in the same batch stays, what comes after follows.
    Its memory is given back."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        names = fill_keys(conn, 40 * MIB, 5)
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
def more_keys_than_two_bytes_count(chapter: int) -> None:
    """65,537 keys are 1 where their number is kept in two bytes, and 65,536 are none."""
    with start(chapter) as server, server.connect(seconds=20) as conn:
        bulk(conn, numbered(range(65_536), "set", "######", ""), None)
        names = [b"%06d" % i for i in range(65_536)]
        conn.ask("keys", expect=AnyOrder(names))
        conn.ask("set", "x", "", expect=None)
        conn.ask("keys", expect=AnyOrder([*names, b"x"]))


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


@case(since=9, ours="Redis makes all replies at once")
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


@case(since=9)
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
            conns[2].check(body, b"%d" % (i // 2) if i % 2 else DONE)


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


@case(since=9, inside=True)
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


@case(since=9, inside=True)
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


# Runs each function above that is marked @case, and those of tests/cases/ with since=9 (abuse.py, client_errors.py,
# clients.py, memory.py, turns.py).
@pytest.mark.parametrize("case", new(9))
def test_new(case: Case) -> None:
    case(9)


# The cases of 03 to 08, as far as they still hold.
@pytest.mark.parametrize("case", earlier(9))
def test_earlier(case: Case) -> None:
    case(9)
