"""Whose turn it is (16 and later): what one client may cost the others."""
from __future__ import annotations

import select
import time
from contextlib import ExitStack
from typing import Dict, Iterator, List, Tuple

from harness import ANY, AnyOrder, Conn, Err, fail, limit, resp, settings, wire
from harness.codec import codec
from harness.model import INT64_MAX
from harness.wire import DONE, ERR_2BIG

from . import SHARES, case
from .idle import timed
from .replies import LIMIT, MIB, fill_keys, filled, long_request
from .talk import Counts, Sends, answered, asked, bulk, numbered, paused, say, start, uses_no_cpu, watched
from .zsets import ALL, add_all

__tracebackhide__ = settings.__tracebackhide__

PERHAPS = SHARES


# ---- where nobody has turns ----


@case(since=9, until=15, inside=True)
def one_client_holds_up_the_others(chapter: int) -> None:
    """What our own servers do up to 15, and yours need not: all that one client has sent is answered, however long that
    takes, and who has asked at the same time waits. Five `keys` make replies that are then too big; what another client
    sets meanwhile is not there for the `get` behind them."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        fill_keys(conn, 40 * MIB, 2)
        other.ask("get", "mark", expect=None)
        with paused(server):
            conn.send(asked(chapter, "keys") * 5 + asked(chapter, "get", "mark"))
            other.send(asked(chapter, "set", "mark", "v"))
        for _ in range(5):
            conn.recv(Err(ERR_2BIG))
        conn.recv(None)
        other.recv(DONE)
        conn.ask("get", "mark", expect=b"v")


@case(since=16, ours="Redis answers all that it has read from one client before it looks at the next")
def what_others_send_comes_in_between(chapter: int) -> None:
    """The same, where connections take turns: the first long request of the one waits until what the other has sent is
    answered."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        keys = long_request(conn)
        other.ask("get", "mark", expect=None)
        with paused(server):
            conn.send(keys * 5 + asked(chapter, "get", "mark"))
            other.send(asked(chapter, "set", "mark", "v"))
        for _ in range(5):
            conn.recv()
        conn.recv(b"v")
        other.recv(DONE)


# ---- turns, and long requests, one a round ----


@case(since=16, inside=True)
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


@case(since=16, inside=True)
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


@case(since=16, inside=True)
def a_slow_request_is_not_starved(chapter: int) -> None:
    """One client has asked for so much that it waits for its next turn in every round. Another's slow request is
    answered in one of the first rounds all the same."""
    sends, times = Sends(), 400
    with start(chapter, env=sends.env) as server, server.connect() as busy, server.connect() as we:
        busy.ask("set", "value", filled(20_000), expect=DONE)
        keys = long_request(we)
        busy.ask("get", "none", expect=None)
        with paused(server):
            busy.send(asked(chapter, "get", "value") * times)
            we.send(keys)
            sends.reset()
        we.recv()
        busy.expect_bytes(answered(chapter, filled(20_000)) * times)
        order = [fd for _, fd in sends.since()]
        our = max(order)
        if order.index(our) > 2:
            fail(
                f"beside a client that had more to ask in each round, a slow request was answered after "
                f"{order.index(our)} of its turns",
                "each round ends with a slow request, if one waits, also when others wait for their next turn",
                "after two of its turns at most",
            )


@case(since=16, inside=True)
def what_comes_in_is_work(chapter: int) -> None:
    """The end of a large message comes in one read with thousands of small requests. They are more than one turn,
    though their replies are short."""
    sends, times = Sends(), 12_000
    large, small = asked(chapter, "set", "k", filled(4 * MIB)), asked(chapter, "get", "none")
    with start(chapter, env=sends.env) as server, server.connect() as conn, server.connect() as other:
        conn.send(large[:-1000])
        for _ in range(200):  # rounds, in which the server has read all of that
            other.ask("get", "none", expect=None)
        with paused(server):
            conn.send(large[-1000:] + small * times)
            sends.reset()
        conn.recv(DONE)
        conn.expect_bytes(answered(chapter, None) * times)
        turns = len(sends.since())
        if turns < len(small) * times // (80 << 10):
            fail(
                f"{times} requests with {len(small) * times >> 10} KiB were answered in {turns} turns",
                "a request costs as many bytes as it has, however short its reply: count what comes in as work",
                f"{len(small) * times // (80 << 10)} turns at least, of 64 KiB or so each",
            )


@case(since=16)
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


@case(since=16, ours="Redis has no limit for a reply")
def large_work_of_a_batch(chapter: int) -> None:
    """Sixty tiny requests in one write, and each makes a reply of 40 MiB that is then too big. Another client does not
    wait until the last of them is answered."""
    times, size = 60, len(answered(chapter, Err(ERR_2BIG, "the reply is too big"), "zquery"))
    with start(chapter) as server, server.connect(seconds=20) as conn, server.connect(seconds=20) as other:
        add_all(conn, "z", [(i, b"%d" % i * (8 * MIB)) for i in range(5)])
        say(other, tag="other")
        conn.send(asked(chapter, "zquery", "z", *ALL) * times)
        select.select([conn.sock], [], [], limit(10))
        say(other, tag="other")
        done = len(conn.sock.recv(1 << 16)) // size
        if done > times // 2:
            fail(
                f"{times} requests of one client, each with much work behind it, were sent in one write; another "
                f"client "
                f"had its answer only when {done} of them had theirs",
                "are all requests in a buffer answered in one turn? Count the work, pairs that are printed for one, "
                "and go "
                "on with the next connection when it is enough.",
                f"its answer comes before {times // 2} of the others",
            )


@case(since=16, until=wire.KEYSPACE_FROM - 1, inside=True)
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


@case(since=16, inside=True)
def many_sets_are_deleted_in_a_batch(chapter: int) -> None:
    """A short request, a short reply, and thousands of pairs to free: a batch of these is not one turn."""
    sets, pairs, counts = 24, 4000, Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn:
        for i in range(sets):
            bulk(conn, numbered(range(pairs), "zadd", f"set{i}", "1", "name:######"), 1)
        with paused(server):
            conn.send(b"".join(asked(chapter, "del", f"set{i}") for i in range(sets)))
            counts.reset()
        conn.expect_bytes(answered(chapter, 1) * sets)
        if counts.polls < 2:
            fail(
                f"to delete {sets} sets of {pairs} pairs took the server {counts.polls} rounds",
                "a short request may mean much work: count the pairs that are freed as work of the turn, and end it "
                "when "
                "that is enough",
                "two rounds at least, so that others are served in between",
            )


def costly_requests(conn: Conn) -> Iterator[Tuple[List[object], object]]:
    """Requests for which a server needs milliseconds, though neither they nor what they ask for look it: the words,
    where % is the number of the client, and the reply (ANY: a long one)."""
    bulk(conn, numbered(range(10_000), "zadd", "z", "######", "name:######"), 1)
    yield ["zquery", "z", 0, "", 0, 65_536], ANY
    conn.ask("set", "large", filled(MIB), expect=DONE)
    yield ["get", "large"], ANY
    if conn.codec.has_options:
        conn.ask("set", "a" * 6000, "v", expect=DONE)
        yield ["keys", "*" + "a" * 300 + "b"], []
    if conn.codec.has_keyspace:
        if conn.codec.has_scan:
            yield ["scan", 0, "match", "*" + "a" * 300 + "b", "count", 1000], ANY
        yield ["memory", "usage", "z", "samples", 0], ANY
        yield ["copy", "z", "z%"], 1
        for name in ("big", *(f"own{i}" for i in range(6))):
            conn.ask("set", name, filled(MIB), expect=DONE)
        yield ["copy", "big", "copy%"], 1
        yield ["rename", "own%", "new%"], DONE


@case(since=16, inside=True)
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


@case(since=16)
def our_own_queue_is_no_idleness(chapter: int) -> None:
    """Many clients ask for what takes long, so most of them wait until others have been answered. In the middle of
    that the server is stopped for longer than the idle timeout: none of them is closed for it."""
    n, times, ms = *((15, 10) if codec(chapter).has_scan else (50, 60)), int(limit(1000))
    reply = answered(chapter, [])
    with timed(chapter, ms) as server, ExitStack() as stack:
        keys = long_request(stack.enter_context(server.connect()))
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        for conn in conns:
            conn.send(keys * times)
        for conn in conns:
            conn.expect_bytes(reply)  # they take turns: by now the server has read from all of them
        with paused(server):
            time.sleep(ms / 1000 + 0.05)
        for conn in conns:
            conn.expect_bytes(reply * (times - 1))


@case(since=16, inside=True)
def keys_that_do_not_fit_are_not_printed(chapter: int) -> None:
    """The server knows beforehand that the reply is too big. So it does not make it, which the most memory that it ever
    had would show."""
    with start(chapter) as server, server.connect() as conn:
        # By a byte; in RESP by more than the head of an array, whose size is not known beforehand.
        fill_keys(conn, LIMIT + (16 if codec(chapter).is_resp else 1), 9)
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


@case(since=16, ours="Redis has no limit for a reply", time_limit=60)
def what_keys_prints_is_counted_on_every_road(chapter: int) -> None:
    """Keys come and go in every way that there is. Then the reply to `keys` is 32 MiB, to the byte; with a byte more
    there is an error in its place."""
    with start(chapter) as server, server.connect() as conn:
        for n in (1, 1500) if codec(chapter).has_options else ():  # few are freed at once, many in the background
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
        if codec(chapter).has_sorted_sets:
            for i in range(50):
                conn.ask("zadd", f"gone {i}", 1, "a", expect=1)
                conn.ask("zrem", f"gone {i}", "a", expect=1)
                conn.ask("zadd", f"set {i}", 1, "a", expect=1)
                conn.ask("set", f"set {i}", "x" * i, expect=None)
            left += [b"set %d" % i for i in range(50)]
        if codec(chapter).has_ttl:
            for i in range(50):
                conn.ask("set", f"brief {i}", "x", expect=None)
                conn.ask("expire", f"brief {i}", -(i % 2), expect=1)
                conn.ask("pexpire", f"set {i}", 10**6, expect=1)
                if i % 2:
                    conn.ask("persist", f"set {i}", expect=1)
        conn.ask("keys", expect=AnyOrder(left))
        names = fill_keys(conn, LIMIT, 5, left)
        conn.ask("keys", expect=AnyOrder(left + names))
        conn.ask("set", names[0] + b"A", "", expect=None)
        conn.ask("del", names[0], expect=1)
        conn.ask("keys", expect=Err(ERR_2BIG))


@case(since=16, until=16, inside=True, time_limit=60)
def more_pairs_than_a_reply_holds_are_not_printed(chapter: int) -> None:
    """2.4 million pairs do not fit into 32 MiB, however short the names are. `zquery` for all of them is answered with
    an error that costs no memory. (Once is enough for so many pairs: in later chapters the function is the same.)"""
    if watched():
        return  # the set alone would take minutes
    n = LIMIT // 14 + 1
    head, one = asked(chapter, "zadd", "z", "1", "####")[:-4], answered(chapter, 1)
    with start(chapter) as server, server.connect(seconds=50) as conn:
        for first in range(0, n, 20_000):
            names = range(first, min(first + 20_000, n))
            conn.send(b"".join([head + i.to_bytes(4, "big") for i in names]))
            conn.expect_bytes(one * len(names))
        before = server.peak_kb()
        conn.pipeline([("zquery", "z", *ALL)] * 10, [Err(ERR_2BIG)] * 10)
        grown = (server.peak_kb() - before) >> 10
        if grown > 4:
            fail(
                f"to answer `zquery` with an error, the server needed {grown} MiB for a moment",
                "is the reply made first, and then found to be too big? The ranks say beforehand how many pairs it "
                "has.",
                "at most 4 MiB",
            )
        conn.ask("zquery", "z", "-inf", "", 0, n - 1, expect=Err(ERR_2BIG))
        last = (n - 1).to_bytes(4, "big")
        conn.ask("zquery", "z", "-inf", "", n - 1, INT64_MAX, expect=[last, 1.0])
        conn.ask("zquery", "z", "-inf", "", n, INT64_MAX, expect=[])
