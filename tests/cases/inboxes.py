"""What waits for those that listen (26 and later): for how long, how much of it, whose turn it is meanwhile, and what
very many of them cost. Who gets what is in pubsub.py.
"""
from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import ExitStack
from typing import Callable, Dict, List

from harness import ANY, Conn, Err, Server, fail, limit, resp, settings, wait_until
from harness.resp import NIL, OK, PONG, array

from . import case
from .clock import IDLE, Clock, closed_now, open_still
from .memory import Memory
from .pauses import flags
from .pubsub import RESET, ends, listens, pushed, says, talking, told, up_to
from .replies import LIMIT, MIB, filled
from .resp import asks, hello
from .talk import SMALL, Rounds, Sends, asked, many, paused, start, watched
from .transactions import BOUNDED, NOT_DONE, QUEUED
from .worst import A_MILLION_STRINGS

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "a message waits in an inbox of its listener's, behind its replies; nobody waits for a listener, and one for whom "
    "too much waits is closed"
)

TOO_MANY = Err(4, "ERR too many subscriptions")
TOO_LONG = Err(4, "ERR the pattern takes too long")
LIMITS = "client-output-buffer-limit"


# ---- idle listeners ----


@case(since=26, inside=True,
      perhaps="an idle listener waits for others: it is not closed for that, as long as it listens")  # fmt: skip
def a_listener_is_never_idle(chapter: int) -> None:
    """Whoever listens to a channel or to a pattern only, stays; others are closed when their time is up, and so is a
    listener that listens no more: that time begins with the last byte."""
    clock = Clock()
    with clock.server(chapter, IDLE) as server, ExitStack() as stack:
        ear, two, three, plain = [stack.enter_context(server.connect()) for _ in range(4)]
        hello(three, 3)
        listens(ear, "x")
        listens(two, "x*", kind="psubscribe")
        listens(three, "x")
        asks(plain, ("ping", PONG))
        clock.step(IDLE)
        open_still(plain, f"{IDLE} ms without a byte")
        clock.step(1)
        closed_now(plain, f"{IDLE + 1} ms without a byte")
        clock.rest()
        before = clock.rounds
        for _ in range(50):
            clock.step(IDLE)
        if clock.rounds - before > 200:
            fail(f"three listeners are silent for {50 * IDLE} ms: poll() returned {clock.rounds - before} times")
        for each in (ear, two, three):
            open_still(each, "it listens")
        says(ear, "unsubscribe", "unsubscribe x 0")
        says(two, "punsubscribe x*", "punsubscribe x* 0")
        asks(three, ("reset", RESET))
        clock.step(IDLE)
        for each in (ear, two, three):
            open_still(each, "it has just been answered")
        clock.step(1)
        for each in (ear, two, three):
            closed_now(each, f"it has not listened for {IDLE + 1} ms, without a byte")


@case(since=26, inside=True,
      perhaps="a listener may be silent; but no reply is kept for ever for one that does not take it")  # fmt: skip
def a_listener_that_does_not_take_a_reply(chapter: int) -> None:
    """It is closed as idle, as any other client is: else one message a day would keep 30 MB for ever."""
    clock = Clock()
    with clock.server(chapter, IDLE) as server, ExitStack() as stack:
        ear, other = [stack.enter_context(server.connect(rcvbuf=SMALL)) for _ in range(2)]
        other.ask("set", "big", filled(20_000_000), expect=OK)
        hello(ear, 3)
        listens(ear, "x")
        ear.send(asked(chapter, "get", "big"))
        for _ in range(2):
            asks(other, ("pubsub numpat", 0))
            clock.step(IDLE)
        asks(other, ("pubsub numpat", 0))
        clock.step(1)
        asks(other, ("pubsub numsub x", ["x", 0]))


@case(since=26, inside=True)
def how_long_a_listener_has_been_silent(chapter: int) -> None:
    """CLIENT LIST says since when no byte has moved, although it is not closed for that. A message is a byte."""
    clock = Clock()
    with clock.server(chapter, IDLE) as server, server.connect() as ear:
        listens(ear, "x")

        def idle() -> int:
            with server.connect() as conn:
                asks(conn, ("publish none x", 0))
                rows = conn.ask("client", "list")
            assert isinstance(rows, bytes)
            return int(re.findall(rb" idle=(\d+) flags=P ", rows)[0])

        for seconds in (4, 6, 13):
            clock.step(seconds * 1000)
            clock.rest()
        if idle() != 23:
            fail(f"a listener was sent nothing for 23 s, and client list says idle={idle()}", expected="idle=23")
        with server.connect() as conn:
            asks(conn, ("publish x hi", 1))
        told(ear, "message x hi")
        clock.step(2000)
        assert idle() == 2, idle()


# ---- listeners that do not read ----


def unread(conn: Conn, texts: Callable[[int], bytes], until: Callable[[], bool], most: int = 1000) -> int:
    """Publishes these, one by one, until something has happened. Returns how many."""
    for i in range(most):
        if until():
            return i
        conn.ask("publish", "x", texts(i))
    fail(f"{most} messages were published, and it has not happened")
    return most


def nobody(conn: Conn, channel: str = "x") -> bool:
    """Does nobody listen to it?"""
    return conn.ask("pubsub", "numsub", channel) == [channel.encode(), 0]


@case(since=26)
def who_does_not_read_is_closed(chapter: int) -> None:
    """Once more waits than the hard limit, at once; nobody else notices. What it was sent until then is whole, up to
    where it is cut; nothing comes behind it."""
    with start(chapter) as server, ExitStack() as stack:
        slow, ear, other = (stack.enter_context(server.connect(rcvbuf=size)) for size in (SMALL, None, None))
        asks(other, (f"config set {LIMITS} 'pubsub 1mb 0 0'", OK))
        for version in (2, 3):
            if version == 3:
                slow = stack.enter_context(server.connect(rcvbuf=SMALL))
                hello(slow, 3)
            listens(slow, "x", "slow")
            listens(ear, "x")
            messages = [("message", "x", filled(100_000, i)) for i in range(200)]
            said = b"".join(resp.encode(pushed(slow, message), version) for message in messages)
            for message in messages:
                listeners = other.ask(*("publish", *message[1:]))
                told(ear, message)
                if listeners == 1 or nobody(other, "slow"):
                    break
            else:
                fail("20 MB wait for a listener that does not read, and the limit is 1 MB")
            wait_until(lambda: nobody(other, "slow"), "a listener that does not read is closed")
            came = slow.read_to_end()
            if not said.startswith(came):
                fail(f"the {len(came)} bytes that came are not those of the messages")
            asks(other, ("publish x bye", 1))
            told(ear, "message x bye")
            says(ear, "unsubscribe x", "unsubscribe x 0")


@case(since=26, inside=True)
def the_log_names_who_was_closed(chapter: int) -> None:
    """One line, when it is closed; and what waited for it is given back at once."""
    memory = Memory()
    env = {} if watched() else memory.env
    with start(chapter, env=env) as server, server.connect(rcvbuf=SMALL) as slow, server.connect() as other:
        listens(slow, "x")
        asks(other, ("ping", PONG))
        fds, before = server.fd_count(), memory.bytes
        unread(other, lambda i: filled(MIB, i), lambda: nobody(other))
        server.wait_line(re.compile(r"^closing a subscriber that does not read: \d+$"))
        wait_until(lambda: server.fd_count() == fds - 1, "its descriptor is closed")
        asks(other, ("ping", PONG))
        wait_until(lambda: memory.bytes - before < MIB, "the memory of what waited is given back")
        assert len(server.log) == 1, server.log


@case(since=26, inside=True)
def where_the_hard_limit_is(chapter: int) -> None:
    """32 MiB may wait in all, and not a byte more, whatever the kernel would take of it."""
    pattern = "*" * 100  # in the message, and in no request to publish: that has a limit of its own
    frame = len(resp.encode([b"pmessage", pattern.encode(), b"x", b""])) + len(str(LIMIT)) - 1
    text = filled(LIMIT - frame)
    with start(chapter) as server, server.connect() as ear, server.connect() as other:
        listens(ear, pattern, kind="psubscribe")
        for _ in range(2):
            other.ask("publish", "x", text, expect=1)
            told(ear, ("pmessage", pattern, "x", text))
        other.ask("publish", "x", text + b"x", expect=1)
        wait_until(lambda: other.ask("pubsub", "numpat") == 0, "it is closed")
        ear.expect_closed()


def waits(stack: ExitStack, server: Server, other: Conn, n: int, channel: str = "x") -> Conn:
    """A new listener for whom so many messages of 200 KB wait, of which the kernel has taken two or three."""
    slow = stack.enter_context(server.connect(rcvbuf=SMALL))
    listens(slow, channel)
    more(other, n, channel)
    return slow


def more(conn: Conn, n: int, channel: str = "x") -> None:
    """Publishes so many messages of 200 KB."""
    for _ in range(n):
        conn.ask("publish", channel, filled(200_000), expect=1)


@case(since=26, inside=True, perhaps="the time begins when more waits than the soft limit, and is forgotten when less "
                                     "does; epoll_wait() returns when the first of these times is up")  # fmt: skip
def the_soft_limit_counts_seconds(chapter: int) -> None:
    """More than that may wait for so many seconds, to the millisecond; whoever reads in time begins anew."""
    clock = Clock()
    with clock.server(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        asks(other, (f"config set {LIMITS} 'pubsub 0 1mb 10'", OK))
        waits(stack, server, other, 20)
        clock.step(10_000)
        assert not nobody(other), "10,000 ms above the soft limit are not more than 10 s"
        clock.rest()
        rounds = clock.rounds
        clock.step(1)
        assert clock.rounds - rounds < 10
        assert nobody(other), "it is above the soft limit for more than 10 s"
        slow = waits(stack, server, other, 20)
        clock.step(9_000)
        told(slow, *[("message", "x", filled(200_000))] * 20)
        asks(other, ("publish x small", 1))
        told(slow, "message x small")
        clock.step(100_000)
        assert not nobody(other), "it has read all"
        more(other, 20)
        clock.step(10_000)
        assert not nobody(other), "the time has begun anew"
        clock.step(1)
        assert nobody(other)
        server.wait_line(re.compile("^closing a subscriber that does not read: "), times=2)


@case(since=26, inside=True)
def the_soft_limit_of_several(chapter: int) -> None:
    """Each has a time of its own, however much more comes; what is below the limit may wait for ever."""
    clock = Clock()
    with clock.server(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        asks(other, (f"config set {LIMITS} 'pubsub 100mb 4mb 10'", OK))
        waits(stack, server, other, 15, "few")
        for name in "abc":
            waits(stack, server, other, 30, name)
            clock.step(3_000)
        for i, name in enumerate("abc"):  # at 9 s, 13 s, 16 s
            clock.step(1_000 if i == 0 else 2_999)
            more(other, 1, name)
            assert not nobody(other, name), f"{name} is above the limit for 10 s"
            clock.step(1)
            assert nobody(other, name), f"{name} is above the limit for more than 10 s"
        clock.step(100_000)
        assert not nobody(other, "few"), "it is below the limit"


@case(since=26, inside=True, perhaps="when the limits change, look again who is above them")
def limits_that_are_changed(chapter: int) -> None:
    """With none, nobody is closed for what was too much before; with less, whoever does not read is closed, at the next
    message at the latest."""
    clock = Clock()
    with clock.server(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        slow = waits(stack, server, other, 50)
        clock.step(30_000)
        asks(other, (f"config set {LIMITS} 'pubsub 0 0 0'", OK))
        clock.step(100_000)
        if nobody(other):
            fail("10 MB wait for a listener; then there is no limit any more, and it is closed",
                 expected="it is not closed: only a limit that is set closes anybody")  # fmt: skip
        told(slow, *[("message", "x", filled(200_000))] * 50)
        more(other, 50)
        asks(other, (f"config set {LIMITS} 'pubsub 32mb 1mb 5'", OK))
        more(other, 1)
        clock.step(5_000)
        assert not nobody(other), "the limit is 5 s"
        clock.step(1)
        assert nobody(other), "it is above the new limit for more than 5 s"
        waits(stack, server, other, 50)
        asks(other, (f"config set {LIMITS} 'pubsub 1mb 0 0'", OK))
        more(other, 1)
        assert nobody(other), "it is above the new limit"


@case(since=26)
def no_publisher_waits(chapter: int) -> None:
    """Beside a listener that does not read, 300 messages of 100 KB are published; all others hear them, and someone who
    asks for something else has an answer in between. Then the slow one reads, and has all of them."""
    n = 100
    with start(chapter) as server, ExitStack() as stack:
        slow = stack.enter_context(server.connect(rcvbuf=SMALL))
        ear, one, two, probe = [stack.enter_context(server.connect()) for _ in range(4)]
        asks(one, (f"config set {LIMITS} 'pubsub 0 0 0'", OK))
        listens(slow, "x")
        listens(ear, "x")
        message = ("message", "x", filled(100_000))
        for i in range(n):
            one.send(asked(chapter, "publish", "x", message[2]) * 2)
            two.ask("publish", "x", message[2], expect=2)
            asks(probe, ("get k", NIL))
            one.recv(2)
            one.recv(2)
            told(ear, *[message] * 3)
        told(slow, *[message] * (3 * n))
        asks(one, ("publish x bye", 2))
        told(slow, "message x bye")


# ---- turns ----


@case(since=26, inside=True, perhaps="to close a connection takes about as long as to send to it: a part in each round")
def many_who_are_closed_at_once(chapter: int) -> None:
    """One message is too much for 1500 listeners. They are closed in several rounds, so that others are served in
    between; all of them in the end, and nobody else."""
    clock, n = Clock(), 1500
    with clock.server(chapter) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect()) for _ in range(n)]
        other, stays = [stack.enter_context(server.connect()) for _ in range(2)]
        asks(other, (f"config set {LIMITS} 'pubsub 10kb 0 0'", OK))
        for ear in ears:
            listens(ear, "x")
        listens(stays, "y")
        clock.rest()
        before = clock.rounds
        other.ask("publish", "x", filled(10_240), expect=n)
        for ear in ears:
            ear.expect_closed()
        rounds = clock.rounds - before
        asks(other, ("pubsub numsub x y", ["x", 0, "y", 1]), ("publish y hi", 1))
        told(stays, "message y hi")
        if rounds < 5:  # the last one may not be over
            fail(f"{n} listeners were closed in {rounds} rounds of the loop", expected="at most some 250 in each")


@case(since=26, inside=True)
def a_probe_beside_publishers(chapter: int) -> None:
    """Two clients publish hundreds of messages each, in one write; one asks for something short. It is answered in the
    first round, though each of these fits 200 patterns of someone who does not read."""
    sends, n = Sends(), 400
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        ear = stack.enter_context(server.connect(rcvbuf=SMALL))
        conns = [stack.enter_context(server.connect()) for _ in range(3)]
        many_patterns(ear, 200)
        for conn in conns:
            asks(conn, ("get k", NIL))
        with paused(server):
            for conn in conns[:2]:
                conn.send(asked(chapter, "publish", "x", "hi") * n)
            conns[2].send(asked(chapter, "get", "k"))
            sends.reset()
        conns[2].recv(NIL)
        for conn in conns[:2]:
            conn.expect_bytes(b":200\r\n" * n)
        seen = sends.since()
        probe = max(fd for _, fd in seen)
        rounds = [nr for nr, fd in seen if fd == probe]
        if rounds != [seen[0][0]]:
            fail(f"two publishers began in round {seen[0][0]}, and a short request was answered in {rounds}",
                 expected="in the first round")  # fmt: skip
        hers = {nr for nr, fd in seen if fd == probe - 1}
        if len(hers) < n // 40:
            fail(f"{n} messages that fit 200 patterns were published in {len(hers)} rounds",
                 "a delivery is work: is it counted as work of the publisher's turn?",
                 f"at least {n // 40}, so that others are served in between")  # fmt: skip


@case(since=26, inside=True,
      perhaps="what is sent to listeners in a round is bounded; the rest is sent in the next ones")  # fmt: skip
def a_round_sends_a_part(chapter: int) -> None:
    """One message of 60 KB goes to 300 listeners: 18 MB, in many rounds, so that others are served in between."""
    sends, n = Sends(), 300
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect()) for _ in range(n)]
        other = stack.enter_context(server.connect())
        for ear in ears:
            listens(ear, "x")
        sends.reset()
        other.ask("publish", "x", filled(60_000), expect=n)
        for ear in ears:
            told(ear, ("message", "x", filled(60_000)))
        rounds = [nr for nr, _ in sends.since()]
        most = max(Counter(rounds).values())
        if most > 30:
            fail(f"in one round of the loop, messages of 60 KB were sent to {most} listeners", expected="at most 30")


@case(since=26, ours="how much waits in Redis depends on how much it reads at once",
      perhaps="who publishes more than a round sends waits, as one who asks for something slow does")  # fmt: skip
def one_who_publishes_more_than_can_be_sent(chapter: int) -> None:
    """300 listeners have room for all of it, and are not sent it as quickly as it is published, by itself, in
    transactions or by what happens to keys. At no time does much wait for any of them, so none is closed; and others
    are answered meanwhile."""
    n, times, text = 300, 150, filled(1000)
    with start(chapter) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect()) for _ in range(n)]
        conn, other = [stack.enter_context(server.connect(seconds=20)) for _ in range(2)]
        asks(other, (f"config set {LIMITS} 'pubsub 64kb 0 0'", OK), ("config set notify-keyspace-events K$", OK))
        for ear in ears:
            listens(ear, "x")
            ear.send(array("psubscribe", "__keyspace@0__:*"))
            told(ear, "psubscribe __keyspace@0__:* 2")
        event = [b"pmessage", b"__keyspace@0__:*", b"__keyspace@0__:" + text, b"set"]
        publish = asked(chapter, "publish", "x", text)
        for what, request, replies, message in (
            ("publish", publish, b":300\r\n", [b"message", b"x", text]),
            ("a publish in a transaction", asked(chapter, "multi") + publish + asked(chapter, "exec"),
             b"+OK\r\n+QUEUED\r\n*1\r\n:300\r\n", [b"message", b"x", text]),
            ("a set that is told", asked(chapter, "set", text, "v"), b"+OK\r\n", event),
        ):  # fmt: skip
            conn.send(request * times)
            for _ in range(10):
                asks(other, ("get k", NIL))
            conn.expect_bytes(replies * times)
            conn.unanswered.clear()
            if nobody(other):
                fail(f"{what}, {times} times, to {n} listeners with room for it: they are closed, as over 64 KB wait",
                     expected="the publisher waits until less waits for them")  # fmt: skip
            for ear in ears:
                ear.expect_bytes(resp.encode(message) * times)


@case(since=26, inside=True)
def a_publish_to_very_many_is_slow(chapter: int) -> None:
    """One listener has thousands of patterns that fit, which take long to compare; then seventy have seventy each: to
    deliver takes long. Six clients publish at once: one of them in a round."""
    for ears, n in ((1, 6000), (70, 70)):
        one_in_a_round(chapter, ears, n)


def one_in_a_round(chapter: int, many_ears: int, n: int) -> None:
    """Six clients publish to so many listeners with so many patterns each."""
    sends = Sends()
    with start(chapter, env=sends.env) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect()) for _ in range(many_ears)]
        conns = [stack.enter_context(server.connect()) for _ in range(6)]
        for ear in ears:
            many_patterns(ear, n)
        for conn in conns:
            asks(conn, ("get k", NIL))
        with paused(server):
            for conn in conns:
                conn.send(asked(chapter, "publish", "x", "hi"))
            sends.reset()
        for conn in conns:
            conn.recv(n * many_ears)
        first: Dict[int, int] = {}
        for nr, fd in sends.since():
            first.setdefault(fd, nr)
        publishers = sorted(first)[-6:]
        seen = [first[fd] for fd in publishers]
        if len(set(seen)) < 6:
            fail(f"six clients published to {n * many_ears} patterns at once, and were answered in the rounds {seen}",
                 "a delivery is work: is its price known before it is paid?", "6 rounds, one for each")  # fmt: skip


def many_patterns(conn: Conn, n: int) -> None:
    """Listens to so many patterns that all fit x."""
    names = [b"[x%06d]*" % i for i in range(n)]
    conn.send(array("psubscribe", *names))
    conn.expect_bytes(b"".join(resp.encode(pushed(conn, ("psubscribe", name, str(i + 1))), conn.version)
                               for i, name in enumerate(names)))  # fmt: skip
    conn.unanswered.clear()


# ---- very many ----


@case(since=26, time_limit=60)
def two_thousand_listeners(chapter: int) -> None:
    """All hear the same, in either version, by a name or a pattern; then all but one leave."""
    n = many(2000)
    with start(chapter) as server, ExitStack() as stack:
        conn = stack.enter_context(server.connect(seconds=20))
        ears = [stack.enter_context(server.connect(seconds=20)) for _ in range(n)]
        for i, ear in enumerate(ears):
            if i % 4 == 3:
                hello(ear, 3)
            ear.send(asked(chapter, "psubscribe" if i % 2 else "subscribe", "x"))
        for i, ear in enumerate(ears):
            told(ear, f"{'p' * (i % 2)}subscribe x 1")
        conn.pipeline([["publish", "x", f"{i}"] for i in range(20)], [n] * 20)
        for i, ear in enumerate(ears):
            head = [b"pmessage", b"x"] if i % 2 else [b"message"]
            wanted = [pushed(ear, [*head, b"x", b"%d" % i]) for i in range(20)]
            ear.expect_bytes(b"".join(resp.encode(each, ear.version) for each in wanted))
        for ear in ears[1:]:
            ear.close()
        wait_until(lambda: conn.ask("publish", "x", "bye") == 1, "all but one have left")
        asks(conn, ("pubsub numpat", 0), ("pubsub numsub x", [b"x", 1]))


@case(since=26, inside=True, perhaps="a message is stored once, and counted by its references: each listener has one")
def one_large_message_to_a_hundred(chapter: int) -> None:
    """8 MB to 100 listeners that do not read: the server stores it once. Whoever reads then has all of it, and with the
    last one the memory is given back."""
    n, text = 100, filled(8 * MIB)
    with start(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        other.ask("publish", "x", text, expect=0)
        ears = [stack.enter_context(server.connect(rcvbuf=SMALL)) for _ in range(n)]
        for ear in ears:
            listens(ear, "x")
        before = server.rss_kb()
        server.reset_peak()
        other.ask("publish", "x", text, expect=n)
        for ear in ears[:4]:
            told(ear, ("message", "x", text))
        asks(other, ("ping", PONG))
        grown = (server.peak_kb() - before) >> 10
        if grown > 40 and not watched():
            fail(f"one message of 8 MB to {n} listeners: the server's memory has grown by {grown} MiB", "",
                 "at most 40 MiB")  # fmt: skip
        for ear in ears[4:]:
            ear.close()
        wait_until(lambda: server.rss_kb() - before < 6 << 10 or watched(), "the memory of a message is given back")
        other.ask("publish", "x", text, expect=4)
        for ear in ears[:4]:
            told(ear, ("message", "x", text))


@case(since=26, inside=True, perhaps="an inbox that is empty again keeps no large buffer")
def memory_of_many_small_messages(chapter: int) -> None:
    """200,000 wait for a listener; when it has read them, what they took is given back."""
    if watched():
        return
    memory, n = Memory(), 200_000
    with start(chapter, env=memory.env) as server, server.connect(seconds=20) as ear, server.connect() as other:
        listens(ear, "x")
        asks(other, ("publish x hi", 1))
        told(ear, "message x hi")
        before = memory.bytes
        for _ in range(n // 10_000):
            other.send(asked(chapter, "publish", "x", "") * 10_000)
            other.expect_bytes(b":1\r\n" * 10_000)
        message = resp.encode([b"message", b"x", b""])
        for _ in range(n // 10_000):
            ear.expect_bytes(message * 10_000)
        asks(other, ("publish x bye", 1))
        told(ear, "message x bye")
        grown = (memory.bytes - before) >> 10
        if grown > 300:
            fail(f"{n} messages were published and read: {grown} KiB are kept", expected="at most 300 KiB")


@case(since=26)
def thousands_that_come_and_go(chapter: int) -> None:
    """They listen and leave, in good order or not, their confirmations and messages unread: nobody is left."""
    n = 3000
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("ping", PONG))
        fds = server.fd_count()
        for i in range(n):
            with server.connect() as ear:
                ear.send(array("subscribe", "x", f"c{i}", f"c{i % 7}") + array("psubscribe", "x*", f"p{i}*"))
                if i % 3 == 0:
                    told(ear, "subscribe x 1")
                if i % 100 == 0:
                    conn.ask("publish", "x", filled(10_000))
                if i % 2:
                    ear.reset()
        wait_until(lambda: server.fd_count() == fds, "all that have left are closed")
        asks(conn, ("pubsub channels", []), ("pubsub numpat", 0), ("pubsub numsub x", [b"x", 0]), ("publish x hi", 0))
        stats = conn.ask("info", "stats")
        assert isinstance(stats, bytes) and b"pubsub_channels:0\r\npubsub_patterns:0\r\n" in stats


@case(since=26, inside=True)
def what_listeners_leave_behind(chapter: int) -> None:
    """No memory: after the first hundreds of those who come and go, hundreds more take nothing."""
    if watched():
        return
    memory, seen = Memory(), []
    with start(chapter, env=memory.env) as server, server.connect() as conn:
        asks(conn, ("ping", PONG))
        fds = server.fd_count()
        for _ in range(3):
            for i in range(200):
                with server.connect(rcvbuf=SMALL) as ear:
                    ear.send(array("subscribe", "x", f"c{i}", "y" * 3000) + array("psubscribe", "x*", f"p{i}*"))
                    told(ear, "subscribe x 1")
                    conn.ask("publish", "x", filled(3000 if i % 50 else MIB), expect=2 if i % 50 else ANY)
                    if i % 4 == 0:
                        ear.send(array("unsubscribe", "x") + array("punsubscribe"))
                    if i % 4 == 1:
                        ear.send(array("reset"))
                    if i % 4 == 2:
                        ear.send(array("multi") + array("subscribe", "z") + array("exec"))
            wait_until(lambda: server.fd_count() == fds, "all that have left are closed")
            asks(conn, ("ping", PONG), ("pubsub channels", []), ("pubsub numpat", 0))
            wait_until(server.workers_sleep, "a worker has freed what is large")
            seen.append((memory.blocks, memory.bytes))
        if seen[2][0] > seen[0][0] + 4 or seen[2][1] > seen[0][1] + (72 << 10):
            fail(f"400 listeners more have come and gone: {seen[2]} blocks and bytes, not {seen[0]}")


@case(since=26)
def many_channels_of_one_connection(chapter: int) -> None:
    """20,000, in a few requests; each is found, and none behind the end of all."""
    n = 20_000
    names = [b"channel:%05d" % i for i in range(n)]
    with talking(chapter, 2) as (conn, other):
        for first in range(0, n, 5000):
            part = names[first : first + 5000]
            conn.send(array("subscribe", *part))
            conn.expect_bytes(b"".join(resp.encode([b"subscribe", name, first + i + 1]) for i, name in enumerate(part)))
            conn.unanswered.clear()
        asks(other, ("pubsub numsub channel:00000 channel:19999 channel:20000",
                     [b"channel:00000", 1, b"channel:19999", 1, b"channel:20000", 0]))  # fmt: skip
        listed = other.ask("pubsub", "channels", "channel:0000?")
        assert isinstance(listed, list) and sorted(listed) == names[:10]
        for i in (0, 7777, n - 1):
            other.ask("publish", names[i], "hi", expect=1)
            told(conn, ("message", names[i], "hi"))
        conn.send(array("unsubscribe", *names[:100]))
        told(conn, *(("unsubscribe", name, str(n - 1 - i)) for i, name in enumerate(names[:100])))
        ends(conn, "unsubscribe", [name.decode() for name in names[100:]], 0)
        asks(other, ("pubsub channels", []), ("publish channel:19999 hi", 0))
        asks(conn, ("get k", None))


@case(since=26, ours=BOUNDED)
def what_one_may_listen_to_is_bounded(chapter: int) -> None:
    """4 MiB for a connection, names and what belongs to each. The name that is too much is an error, those in front of
    it are listened to; when one is left, there is room again. What is listened to already takes no more."""
    with talking(chapter, 3) as (conn, two, other):
        for word, no_more in (("subscribe", "unsubscribe"), ("psubscribe", "punsubscribe")):
            names = [b"%06d" % i for i in range(40_000)]
            conn.send(array(word, *names) + array("ping", "end"))
            came = up_to(conn, b"end")
            n = came.count(word.encode())
            if not 10_000 < n < 40_000:
                fail(f"a connection may listen to {n} short names", expected="4 MiB of them")
            wanted = [resp.encode([word.encode(), name, i + 1]) for i, name in enumerate(names[:n])]
            if came != b"".join(wanted) + resp.encode(TOO_MANY) + resp.encode([b"pong", b"end"]):
                fail(f"{n} names are confirmed, and not one by one", expected="each, and one error behind them")
            conn.send(array(word, names[0], names[n], names[1]))
            told(conn, (word, names[0], str(n)))
            conn.recv(TOO_MANY)
            says(two, f"{word} {names[n].decode()}", f"{word} {names[n].decode()} 1")  # of another connection
            conn.send(array(no_more, names[5]) + array(word, names[n]))
            told(conn, (no_more, names[5], str(n - 1)), (word, names[n], str(n)))
            other.ask("publish", names[n], "hi", expect=2)
            for each in (conn, two):
                told(each, ("message", names[n], "hi") if word[0] == "s" else ("pmessage", names[n], names[n], "hi"))
                asks(each, ("reset", RESET))
        large = [b"%d" % i + filled(MIB - 1000) for i in range(5)]
        for i, name in enumerate(large):
            conn.send(array("subscribe", name))
            if i < 4:
                told(conn, ("subscribe", name, str(i + 1)))
            else:
                conn.recv(TOO_MANY)
        asks(other, ("pubsub numpat", 0))


@case(since=26, ours="Redis takes its time", perhaps="each pattern has a share of what may be compared for a message")
def patterns_that_take_too_long(chapter: int) -> None:
    """Of those that listen, for PUBLISH: such a pattern goes without the message, and all others get it. Of the one
    that asks, for PUBSUB CHANNELS: then it is an error, in a turn of its own."""
    long = b"a" * 200_000
    with talking(chapter, 3) as (conn, ear, other):
        pattern = b"*" + b"a" * 1000 + b"b"
        ear.send(array("psubscribe", pattern, "*"))
        told(ear, ("psubscribe", pattern, "1"), ("psubscribe", "*", "2"))
        conn.send(array("subscribe", long, "x"))
        told(conn, ("subscribe", long, "1"), "subscribe x 2")
        other.ask("publish", long, "hi", expect=2)
        told(conn, ("message", long, "hi"))
        told(ear, ("pmessage", "*", long, "hi"))
        asks(other, ("publish x hi", 2), ("multi", OK), ("publish x bye", QUEUED))
        other.ask("publish", long, "hi", expect=QUEUED)
        asks(other, ("exec", [2, NOT_DONE]))
        told(conn, "message x hi", "message x bye")
        told(ear, "pmessage * x hi", "pmessage * x bye")
        other.ask("pubsub", "channels", pattern, expect=TOO_LONG)
        asks(other, ("pubsub channels x", [b"x"]), ("pubsub channels b*", []))
        asks(ear, ("ping", [b"pong", b""]))
        asks(conn, ("ping", [b"pong", b""]))


@case(since=26, ours="Redis takes its time", perhaps="each pattern has a share of what may be compared for an event")
def patterns_that_take_too_long_for_an_event(chapter: int) -> None:
    """Fifty patterns take long for a long key, and none matches. Who listens to another hears of it all the same."""
    key = b"a" * 2000
    with talking(chapter, 3) as (conn, ear, other):
        asks(other, ("config set notify-keyspace-events K$", OK))
        for i in range(50):
            conn.send(array("psubscribe", b"*" + b"a" * (200 + i) + b"b"))
            conn.recv()
        for kind, name in (("psubscribe", b"__keyspace@0__:*"), ("psubscribe", b"*a*a*"), ("subscribe", b"x")):
            ear.send(array(kind, name))
            ear.recv()
        other.ask("set", key, "v", expect=OK)
        heard = sorted([ear.recv(), ear.recv()])  # type: ignore[type-var]
        channel = b"__keyspace@0__:" + key
        wanted = [[b"pmessage", name, channel, b"set"] for name in (b"*a*a*", b"__keyspace@0__:*")]
        if heard != wanted:
            fail("an event of a long key is not what came to a listener of two patterns that match")
        asks(other, ("publish x hi", 1))
        told(ear, "message x hi")


@case(since=26, ours="Redis has no limit for a reply", time_limit=60)
def names_that_do_not_fit_a_reply(chapter: int) -> None:
    """PUBSUB CHANNELS would list more than 32 MiB: an error, without the memory for it."""
    with start(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        for i in range(9):
            conn = stack.enter_context(server.connect())
            for j in range(3):
                name = b"%d:%d" % (i, j) + filled(MIB + MIB // 4)
                conn.send(array("subscribe", name))
                told(conn, ("subscribe", name, str(j + 1)))
        other.ask("pubsub", "channels", expect=Err(2, "ERR the reply is too big"))
        asks(other, ("pubsub channels 8:[0-9]x*", []), ("ping", PONG))


@case(since=26, inside=True, time_limit=120)
def the_worst_a_listener_can_do(chapter: int) -> None:
    """To begin with very many names or to end with them, in one request or by leaving, and to be sent very much by
    itself: no round of the loop takes longer than a few large values, and memory is bounded."""
    if watched():
        return  # another measure of time
    rounds = Rounds()
    with start(chapter, env=rounds.env) as server, server.connect(seconds=30) as other:
        other.ask("set", "big", filled(LIMIT - 100), expect=OK)

        def longest_ms(what: Callable[[], None]) -> float:
            rounds.reset()
            what()
            return rounds.longest_ms()

        alone_ms = max(longest_ms(lambda: other.ask("get", "big") and None) for _ in range(3))
        bound_ms = limit(max(50, 3 * alone_ms))

        def holds(what: str, before: Callable[[Conn], None], then: Callable[[Conn], None], named: float = 1) -> None:
            tries: List[float] = []
            while len(tries) < 3 and not (tries and tries[-1] <= bound_ms * named):
                with server.connect(seconds=30) as conn:
                    hello(conn, 3)
                    before(conn)
                    kb = server.rss_kb()
                    server.reset_peak()
                    tries.append(longest_ms(lambda: then(conn)))
                    grown = (server.peak_kb() - kb) >> 10
                    if grown > 150:
                        fail(f"{what}: the server's memory has grown by {grown} MiB",
                             "what a connection publishes to itself waits in its buffer: it is work, as all that is "
                             "copied", "at most 150 MiB")  # fmt: skip
                conn.close()
                asks(other, ("ping", PONG))
            if min(tries) > bound_ms * named:
                fail(f"{what}: a round of the loop took {min(tries):.0f} ms of processor time",
                     expected=f"at most {bound_ms * named:.0f} ms, as others wait for it")  # fmt: skip

        def nothing(conn: Conn) -> None:
            pass

        def answers(data: bytes) -> Callable[[Conn], None]:
            def then(conn: Conn) -> None:
                conn.send(data)
                while not conn.ended:  # all that comes, up to the end of a ping
                    conn._fill(time.monotonic() + limit(20))
                    if conn.buffer[-9:] == b"$3\r\nend\r\n":
                        break
                    del conn.buffer[:-9]

            return then

        end = array("ping", "end")
        names = [b"%06d" % i for i in range(25_000)]
        for word in ("subscribe", "psubscribe"):
            holds(f"{word} with 25,000 names", nothing, answers(array(word, *names) + end))
            holds(f"un{word} with a million names", nothing,
                  answers(array("unsubscribe" if word[0] == "s" else "punsubscribe", *["n"] * 1_000_000) + end),
                  A_MILLION_STRINGS)  # fmt: skip
            begun = answers(array(word, *names) + end)
            holds(f"the end of 25,000 times {word}", begun,
                  answers(array("unsubscribe" if word[0] == "s" else "punsubscribe") + end))
            holds(f"the end of a connection with 25,000 times {word}", begun, lambda conn: conn.close())
            holds(f"a reset of 25,000 times {word}", begun, answers(array("reset") + end))
        for n, size in ((900, 30_000), (20_000, 100)):
            begun = answers(array("psubscribe", *[b"[x%06d]*" % i for i in range(n)]) + end)
            publish = array("publish", "x", b"y" * size)
            holds(f"{size} bytes to oneself, for {n} patterns, ten times", begun, answers(publish * 10 + end))
            holds(f"{size} bytes to oneself, for {n} patterns, 50 times in a transaction", begun,
                  answers(array("multi") + publish * 50 + array("exec") + end))  # fmt: skip
        with server.connect() as ear:
            many_patterns(ear, 20_000)
            holds("to publish what fits none of 20,000 patterns, 300 times in a transaction", nothing,
                  answers(array("multi") + array("publish", "none", "y") * 300 + array("exec") + end))  # fmt: skip


@case(since=26, inside=True, perhaps="what is sent waits no more: look then, too, whether it is still too much")
def whoever_has_read_in_time_stays(chapter: int) -> None:
    """Nothing else is published to a listener that reads what was too much for it; it is closed neither for that nor
    for what comes later."""
    clock = Clock()
    with clock.server(chapter) as server, ExitStack() as stack:
        other = stack.enter_context(server.connect())
        asks(other, (f"config set {LIMITS} 'pubsub 0 1mb 10'", OK))
        slow = waits(stack, server, other, 20)
        clock.step(9_000)
        told(slow, *[("message", "x", filled(200_000))] * 20)
        clock.step(100_000)
        assert not nobody(other), "it has read all in time, and nothing more came"
        more(other, 1)
        told(slow, ("message", "x", filled(200_000)))


@case(since=26)
def a_slow_listener_whose_request_is_held(chapter: int) -> None:
    """A pause holds its request, and more happens than its socket takes. When it reads and the pause ends, all of that
    comes, then the reply; others who were held are answered, too."""
    with start(chapter) as server, ExitStack() as stack:
        slow = stack.enter_context(server.connect(rcvbuf=SMALL))
        conn, held, other = [stack.enter_context(server.connect()) for _ in range(3)]
        hello(slow, 3)
        listens(slow, "__keyevent@0__:keymiss")
        asks(conn, ("config set notify-keyspace-events Em", OK), ("client pause 1000000 write", OK))
        for one in (slow, held):
            one.send(asked(chapter, "incr", "n"))
            wait_until(lambda: flags(conn, one) in ("b", "Pb"), "its request is held")  # noqa: B023
        names = [filled(200_000, tag) for tag in range(20)]
        for name in names:
            other.ask("get", name, expect=None)
        messages = b"".join(resp.encode(pushed(slow, ("message", "__keyevent@0__:keymiss", name)), 3) for name in names)
        slow.expect_bytes(messages[:100_000])
        other.ask("ping", expect=PONG)
        asks(conn, ("client unpause", OK))
        slow.expect_bytes(messages[100_000:])
        slow.recv(ANY)
        held.recv(ANY)
        other.ask("get", "n", expect=b"2")
