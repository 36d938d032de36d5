"""Messages (26 and later): who listens to what, what each is sent, and in which order. All that does not say `ours`
holds for Redis as well: make test-26 SERVER=redis-server. What waits for listeners and what that may cost is in
inboxes.py, what happens to keys in events.py.
"""
from __future__ import annotations

import fnmatch
import itertools
import random
import re
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

from harness import ANY, Conn, Err, Server, exchange, fail, limit, redis, resp, seed, settings, wait_until
from harness.resp import NIL, OK, PONG, Push, Simple, array
from harness.wire import Arg, to_bytes

from . import case
from .pauses import flags
from .replies import MIB, filled
from .resp import asks, bad_count, hello, raw
from .talk import SMALL, asked, preload, readable, start, still_serves
from .transactions import NO_EXEC, QUEUED, explained_by

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "a table from each channel and each pattern to those that listen; a message goes to all of them, once for each way "
    "in which one listens, behind what they are to be sent already"
)

ALLOWED = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
RESET = Simple(b"RESET")
CONFIRM = (b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe")
Row = Union[str, Sequence[Arg]]  # a message: its strings, or these between blanks


def pushed(conn: Conn, row: Row) -> object:
    """A message as the connection gets it. A confirmation ends in a number; `-` is nil."""
    items: List[object] = [*map(to_bytes, row.split() if isinstance(row, str) else row)]
    if items[0] in CONFIRM:
        items = [items[0], None if items[1] == b"-" else items[1], int(items[2])]  # type: ignore[call-overload]
    return Push(items) if conn.version == 3 else items


def told(conn: Conn, *rows: Row) -> None:
    """These messages come, in this order."""
    for row in rows:
        conn.recv(pushed(conn, row))


def says(conn: Conn, line: str, *rows: Row) -> None:
    """A request, and the messages that answer it."""
    conn.send(asked(conn.chapter, *resp.split_inline(line.encode())))
    told(conn, *rows)


def listens(conn: Conn, *names: str, kind: str = "subscribe") -> None:
    """Listens to these channels or patterns, as the first ones."""
    says(conn, " ".join([kind, *names]), *(f"{kind} {name} {i + 1}" for i, name in enumerate(names)))


@contextmanager
def talking(chapter: int, n: int, version: int = 2) -> Iterator[List[Conn]]:
    """A server and n connections, the first of which speaks this version."""
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        if version == 3:
            hello(conns[0], 3)
        yield conns


# ---- who gets what ----


@case(since=26)
def a_message_reaches_all_that_listen(chapter: int) -> None:
    """To its channel, and nobody else. PUBLISH says how many."""
    with talking(chapter, 4) as (one, two, other, conn):
        asks(conn, ("publish news nobody", 0))
        listens(one, "news")
        listens(two, "sport", "news")
        listens(other, "sport")
        asks(conn, ("publish news hi", 2), ("publish sport 1:0", 2), ("publish New no", 0), ("PUBLISH news bye", 2))
        told(one, "message news hi", "message news bye")
        told(two, "message news hi", "message sport 1:0", "message news bye")
        told(other, "message sport 1:0")
        one.close()
        wait_until(lambda: conn.ask("publish", "news", "again") == 1, "who has left is sent nothing")
        told(two, "message news again")


@case(since=26)
def messages_to_the_byte(chapter: int) -> None:
    """Arrays in version 2, pushes in version 3."""
    for version, kind in ((2, b"*"), (3, b">")):
        nil = b"$-1\r\n" if version == 2 else b"_\r\n"
        with talking(chapter, 2, version) as (conn, other):
            for sent, came in (
                (b"subscribe a bc\r\n", b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
                                        b"*3\r\n$9\r\nsubscribe\r\n$2\r\nbc\r\n:2\r\n"),
                (b"PSubscribe a*\r\n", b"*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:3\r\n"),
            ):  # fmt: skip
                raw(conn, sent, came.replace(b"*3\r\n", kind + b"3\r\n"))
            raw(other, b"publish a hi\r\n", b":2\r\n")
            conn.expect_bytes(kind + b"3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n" +
                              kind + b"4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$1\r\na\r\n$2\r\nhi\r\n")  # fmt: skip
            raw(conn, b"unsubscribe bc\r\n", kind + b"3\r\n$11\r\nunsubscribe\r\n$2\r\nbc\r\n:2\r\n")
            raw(conn, b"punsubscribe\r\n", kind + b"3\r\n$12\r\npunsubscribe\r\n$2\r\na*\r\n:1\r\n")
            raw(conn, b"punsubscribe\r\n", kind + b"3\r\n$12\r\npunsubscribe\r\n" + nil + b":1\r\n")


@case(since=26)
def confirmations_and_their_counts(chapter: int) -> None:
    """One for each name, also for one that is listened to already, or was never; the count is that of channels and
    patterns together. Where there is nothing to end, the name is nil."""
    for version in (2, 3):
        with talking(chapter, 2, version) as (conn, other):
            says(conn, "unsubscribe", "unsubscribe - 0")
            says(conn, "punsubscribe", "punsubscribe - 0")
            says(conn, "unsubscribe x y", "unsubscribe x 0", "unsubscribe y 0")
            says(conn, "subscribe x", "subscribe x 1")
            says(conn, "subscribe x y x", "subscribe x 1", "subscribe y 2", "subscribe x 2")
            says(conn, "psubscribe x", "psubscribe x 3")  # a pattern is no channel
            says(conn, "psubscribe y* y*", "psubscribe y* 4", "psubscribe y* 4")
            asks(other, ("publish x hi", 2))
            told(conn, "message x hi", "pmessage x x hi")
            says(conn, "unsubscribe none y", "unsubscribe none 4", "unsubscribe y 3")
            says(conn, "unsubscribe", "unsubscribe x 2")
            says(conn, "unsubscribe", "unsubscribe - 2")
            says(conn, "punsubscribe y", "punsubscribe y 2")
            says(conn, "punsubscribe y* x y*", "punsubscribe y* 1", "punsubscribe x 0", "punsubscribe y* 0")
            says(conn, "punsubscribe", "punsubscribe - 0")
            asks(other, ("publish x hi", 0), ("pubsub channels", []), ("pubsub numpat", 0))
            asks(conn, ("get none", NIL))


@case(since=26)
def wrong_numbers_of_words(chapter: int) -> None:
    with talking(chapter, 1) as (conn,):
        for line in ("subscribe", "psubscribe", "publish", "publish a", "publish a b c", "pubsub", "pubsub numpat x"):
            name = "pubsub|numpat" if "numpat" in line else line.split()[0]
            asks(conn, (line, bad_count(name)))
        asks(conn, ("pubsub nosuch", Err(4, "ERR unknown subcommand 'nosuch'. Try PUBSUB HELP.")),
             ("pubsub channels a b", Err(4, "ERR unknown subcommand or wrong number of arguments for 'channels'. Try "
                                            "PUBSUB HELP.")))  # fmt: skip
        help = conn.ask("pubsub", "help")
        assert isinstance(help, list) and b"PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:" in help


@case(since=26)
def the_end_of_all_subscriptions(chapter: int) -> None:
    """Without names: each channel is confirmed, in any order, and patterns stay; the counts go down to theirs."""
    for version in (2, 3):
        with talking(chapter, 2, version) as (conn, other):
            names = [f"c{i}" for i in range(1000)]
            listens(conn, *names)
            says(conn, "psubscribe c1? ?", "psubscribe c1? 1001", "psubscribe ? 1002")
            asks(other, ("publish c15 hi", 2))
            told(conn, "message c15 hi", "pmessage c1? c15 hi")
            ends(conn, "unsubscribe", names, 2)
            asks(other, ("publish c15 hi", 1), ("pubsub channels", []), ("pubsub numpat", 2))
            told(conn, "pmessage c1? c15 hi")
            ends(conn, "punsubscribe", ["c1?", "?"], 0)
            asks(other, ("publish c15 hi", 0), ("pubsub numpat", 0))


def ends(conn: Conn, word: str, names: Sequence[str], left: int) -> None:
    """Listens to none of these any more, which are all that there are; so many others are left."""
    conn.send(array(word) + array("ping", "end"))
    came = up_to(conn, b"end")
    kind = b">" if conn.version == 3 else rb"\*"
    form = rb"%s3\r\n\$\d+\r\n%s\r\n\$\d+\r\n(.+)\r\n:(\d+)\r\n" % (kind, word.encode())
    seen = re.findall(form, came)
    if Counter(name.decode() for name, _ in seen) != Counter(names):
        fail(f"{word} confirms {len(seen)} names, {len(set(seen))} of them different", expected="each name once")
    if [int(count) for _, count in seen] != [len(names) - 1 - i + left for i in range(len(names))]:
        fail(f"{word} counts {[int(count) for _, count in seen]}", expected=f"one less each time, down to {left}")


@case(since=26)
def one_that_listens_in_several_ways(chapter: int) -> None:
    """Gets a message as often, and PUBLISH counts it as often; that of the channel comes first."""
    for version in (2, 3):
        with talking(chapter, 3, version) as (conn, two, other):
            listens(conn, "x")
            says(conn, "psubscribe x* ? y", "psubscribe x* 2", "psubscribe ? 3", "psubscribe y 4")
            listens(two, "?", "[xy]", kind="psubscribe")
            asks(other, ("pubsub numpat", 4), ("pubsub numsub x", [b"x", 1]), ("publish x hi", 5))
            told(conn, "message x hi")
            patterns(conn, ["?", "x*"], "x", "hi")
            patterns(two, ["?", "[xy]"], "x", "hi")
            says(two, "punsubscribe ?", "punsubscribe ? 1")
            asks(other, ("pubsub numpat", 4), ("publish x bye", 4))
            told(two, "pmessage [xy] x bye")
            says(two, "punsubscribe [xy]", "punsubscribe [xy] 0")
            asks(other, ("pubsub numpat", 3))
            told(conn, "message x bye")
            patterns(conn, ["?", "x*"], "x", "bye")


def patterns(conn: Conn, names: Sequence[str], channel: str, text: str) -> None:
    """A message comes for each of these patterns, in any order."""
    came = [conn.recv() for _ in names]
    wanted = [pushed(conn, ("pmessage", name, channel, text)) for name in names]
    if sorted(map(repr, came)) != sorted(map(repr, wanted)) or type(came[0]) is not type(wanted[0]):
        fail(f"of one message come {conn.codec.show(came)}", expected=conn.codec.show(wanted))


MATCHES: List[Tuple[str, str, bool]] = [
    ("*", "news", True), ("", "", True), ("", "x", False), ("?", "x", True), ("?", "", False),
    ("n*s", "news", True), ("n*s", "newsy", False), ("news.*", "news.", True), ("news.*", "news", False),
    ("*.*", "a.b", True), ("h[ae]llo", "hello", True), ("h[ae]llo", "hillo", False), ("h[^e]llo", "hello", False),
    ("h[^e]llo", "hallo", True), ("h[a-c]llo", "hbllo", True), ("h[c-a]llo", "hbllo", True), ("\\*", "*", True),
    ("\\*", "x", False), ("a\\?", "a?", True), ("a\\?", "ab", False), ("NEWS", "news", False), ("a**b", "ab", True),
    ("*a*b*c", "xaxbxc", True), ("*a*b*c", "xaxcxb", False), ("__key*__:*", "__keyspace@0__:k", True),
]  # fmt: skip


@case(since=26)
def which_channels_a_pattern_fits(chapter: int) -> None:
    """As `keys` has it, upper and lower case apart. PUBSUB CHANNELS goes by the same."""
    with talking(chapter, 3) as (conn, two, other):
        for pattern, channel, fits in MATCHES:
            conn.send(array("psubscribe", pattern))
            conn.recv([b"psubscribe", pattern.encode(), 1])
            two.send(array("subscribe", channel))
            two.recv([b"subscribe", channel.encode(), 1])
            if other.ask("publish", channel, "hi") != 1 + fits:
                fail(f"the pattern {pattern!r} {'does not fit' if fits else 'fits'} the channel {channel!r}")
            two.recv([b"message", channel.encode(), b"hi"])
            if fits:
                conn.recv([b"pmessage", pattern.encode(), channel.encode(), b"hi"])
            other.ask("pubsub", "channels", pattern, expect=[channel.encode()] if fits else [])
            conn.send(array("punsubscribe", pattern))
            conn.recv([b"punsubscribe", pattern.encode(), 0])
            two.send(array("unsubscribe", channel))
            two.recv([b"unsubscribe", channel.encode(), 0])


@case(since=26, ours="to Redis an empty name fits no pattern but an empty one")
def the_empty_name_fits_a_star(chapter: int) -> None:
    with talking(chapter, 2) as (conn, other):
        listens(conn, "*", "?*", kind="psubscribe")
        asks(other, ("publish '' hi", 1))
        conn.recv([b"pmessage", b"*", b"", b"hi"])


@case(since=26)
def what_pubsub_says(chapter: int) -> None:
    """CHANNELS lists those that somebody listens to by name; NUMSUB counts who does, not by patterns; NUMPAT counts
    patterns, each once."""
    with talking(chapter, 4) as (one, two, three, conn):
        asks(conn, ("pubsub channels", []), ("pubsub numsub", []), ("pubsub numsub a b", [b"a", 0, b"b", 0]),
             ("pubsub numpat", 0))  # fmt: skip
        listens(one, "a", "b")
        listens(two, "b")
        listens(three, "*", "b", kind="psubscribe")
        says(two, "psubscribe *", "psubscribe * 2")
        names = conn.ask("pubsub", "channels")
        assert isinstance(names, list) and sorted(names) == [b"a", b"b"], names
        asks(conn, ("pubsub channels [b-z]", [b"b"]), ("PUBSUB Channels x", []), ("pubsub numpat", 2),
             ("pubsub numsub b a b none", [b"b", 2, b"a", 1, b"b", 2, b"none", 0]))  # fmt: skip


@case(since=26, ours="Redis has no prices", perhaps="what a name counts for goes with the last who listens to it")
def names_that_are_gone_cost_nothing(chapter: int) -> None:
    """Eight times somebody listens to a name of three megabytes, and no more. A transaction that lists all names is as
    quick as before."""
    with talking(chapter, 2) as (conn, other):
        for i in range(8):
            name = filled(3 << 20, i)
            for word, n in (("subscribe", 1), ("unsubscribe", 0)):
                conn.ask(word, name, expect=[word.encode(), name, n])
        asks(other, ("multi", OK), ("pubsub channels", QUEUED), ("exec", [[]]))


@case(since=26)
def numsub_is_an_array_in_version_3_too(chapter: int) -> None:
    with talking(chapter, 1, 3) as (conn,):
        listens(conn, "a")
        raw(conn, b"pubsub numsub a b\r\n", b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:0\r\n")
        raw(conn, b"pubsub numsub\r\n", b"*0\r\n")
        raw(conn, b"pubsub channels\r\n", b"*1\r\n$1\r\na\r\n")


@case(since=26)
def channels_know_no_database(chapter: int) -> None:
    """And they are no keys: FLUSHALL leaves them, and a key may have the same name."""
    with talking(chapter, 2, 3) as (conn, other):
        listens(conn, "k")
        asks(conn, ("select 3", OK), ("set k v", OK))
        asks(other, ("select 5", OK), ("publish k hi", 1), ("flushall", OK), ("publish k bye", 1))
        told(conn, "message k hi", "message k bye")
        asks(other, ("exists k", 0), ("dbsize", 0), ("type k", Simple(b"none")))


@case(since=26)
def what_is_told_of_the_commands(chapter: int) -> None:
    """Their names and how many words they ask for; INFO counts channels and patterns."""
    with talking(chapter, 2) as (conn, other):
        names = ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "publish", "pubsub"]
        rows = other.ask("command", "info", *names)
        assert isinstance(rows, list)
        got = [(row[0].decode(), row[1], row[3:6]) for row in rows]
        assert got == [(name, resp.EVERY[name.encode()], [0, 0, 0]) for name in names], got
        for lines, channels, patterns in ((["subscribe a b", "psubscribe a* b*"], 2, 2), (["punsubscribe a*"], 2, 1),
                                          (["unsubscribe"], 0, 1)):  # fmt: skip
            for line in lines:
                conn.send(asked(chapter, *line.split()))
                for _ in range(max(1, len(line.split()) - 1) if " " in line else 2):
                    conn.recv()
            stats = other.ask("info", "stats")
            assert isinstance(stats, bytes)
            assert b"pubsub_channels:%d\r\npubsub_patterns:%d\r\n" % (channels, patterns) in stats, stats


# ---- what a listener may ask ----

WORDS = {
    "client": "id", "config": "get save", "object": "encoding k", "memory": "usage k", "pubsub": "channels",
    "command": "count", "info": "", "hello": "3", "auth": "x", "flushall": "", "flushdb": "",
}  # fmt: skip  # of commands that are no more than their name, or have a second word


@case(since=26)
def version_2_allows_a_listener_little(chapter: int) -> None:
    """All that is not about listening is an error that names the command, and does nothing, until the last channel and
    the last pattern are left."""
    with talking(chapter, 2) as (conn, other):
        listens(conn, "x")
        for name, count in resp.arity(chapter).items():
            word = name.decode()
            if word.endswith("subscribe") or word in ("ping", "quit", "reset", "exec", "zquery"):
                continue
            words = WORDS.get(word, " ".join(["k"] * (abs(count) - 1))).split()
            full = f"{word}|{words[0]}" if word in ("client", "config", "object", "memory", "pubsub") else word
            full += "|count" if word == "command" else ""
            conn.ask(word, *words, expect=Err(4, f"ERR Can't execute '{full}': {ALLOWED}"))
        asks(conn, ("nosuch", Err(1, "ERR unknown command 'nosuch', with args beginning with: ")),
             ("get", bad_count("get")), ("client nosuch", Err(4, "ERR unknown subcommand 'nosuch'. Try CLIENT HELP.")),
             ("subscribe", bad_count("subscribe")), ("ping a b", bad_count("ping")))  # fmt: skip
        asks(conn, ("ping", [b"pong", b""]), ("PING hi", [b"pong", b"hi"]), ("ping ''", [b"pong", b""]))
        refused = Err(4, f"ERR Can't execute 'set': {ALLOWED}")
        says(conn, "psubscribe y", "psubscribe y 2")
        says(conn, "unsubscribe x", "unsubscribe x 1")
        asks(conn, ("set k v", refused))
        asks(other, ("get k", None), ("publish y hi", 1))
        told(conn, "pmessage y y hi")
        says(conn, "punsubscribe", "punsubscribe y 0")
        asks(conn, ("set k v", OK), ("get k", b"v"), ("ping", PONG), ("ping hi", b"hi"), ("hello 9", ANY))


@case(since=26)
def a_listener_in_version_2_has_no_transaction(chapter: int) -> None:
    """MULTI is refused; so is EXEC, in its own words."""
    aborted = Err(4, f"EXECABORT Transaction discarded because of: Can't execute 'exec': {ALLOWED}")
    wrong = Err(4, "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
    with talking(chapter, 1) as (conn,):
        listens(conn, "x")
        asks(conn, ("multi", Err(4, f"ERR Can't execute 'multi': {ALLOWED}")), ("exec", aborted), ("exec x", wrong))
        says(conn, "unsubscribe", "unsubscribe x 0")
        asks(conn, ("exec", NO_EXEC), ("multi", OK), ("subscribe x", QUEUED), ("get k", QUEUED))
        asks(conn, ("exec", [[b"subscribe", b"x", 1], None]), ("exec", aborted), ("reset", RESET), ("exec", NO_EXEC))


@case(since=26)
def version_3_allows_a_listener_all(chapter: int) -> None:
    """Messages are pushes, so that they cannot be taken for replies."""
    with talking(chapter, 2, 3) as (conn, other):
        listens(conn, "x")
        says(conn, "psubscribe x*", "psubscribe x* 2")
        asks(conn, ("set k v", OK), ("get k", b"v"), ("ping", PONG), ("ping hi", b"hi"), ("incr n", 1),
             ("multi", OK), ("incr n", QUEUED), ("exec", [2]), ("watch k", OK), ("select 1", OK), ("get k", NIL))
        asks(other, ("publish x hi", 2))
        told(conn, "message x hi", "pmessage x* x hi")
        asks(conn, ("client setname ear", OK), ("client getname", b"ear"))


@case(since=26)
def the_version_changes_while_it_listens(chapter: int) -> None:
    """Each message is in the version of its moment. Back in version 2, the connection may do little again."""
    with talking(chapter, 2, 3) as (conn, other):
        listens(conn, "x")
        asks(other, ("publish x three", 1))
        told(conn, "message x three")
        asks(other, ("publish x unread", 1))
        conn.send(asked(chapter, "hello", "2"))
        told(conn, "message x unread")  # written before
        conn.version = 2
        assert isinstance(conn.recv(), list)
        asks(other, ("publish x two", 1))
        told(conn, "message x two")
        asks(conn, ("get k", Err(4, f"ERR Can't execute 'get': {ALLOWED}")), ("ping", [b"pong", b""]),
             ("hello 3", Err(4, f"ERR Can't execute 'hello': {ALLOWED}")))  # fmt: skip
        says(conn, "unsubscribe x", "unsubscribe x 0")
        hello(conn, 3)
        listens(conn, "x")
        asks(other, ("publish x again", 1))
        told(conn, "message x again")


# ---- the end of a listener ----


@case(since=26, perhaps="whatever ends a connection ends its subscriptions: QUIT and a malformed request at once, "
                        "though its socket is still open")  # fmt: skip
def all_ways_to_listen_no_more(chapter: int) -> None:
    """RESET, QUIT, a malformed request, CLIENT KILL, the end of its input, a reset of its connection: from then on
    nobody listens, and PUBSUB knows of none."""
    with start(chapter) as server, server.connect() as other:
        def gone(what: str) -> None:
            def counts() -> object:
                return other.pipeline([["pubsub", "numsub", "x"], ["pubsub", "numpat"], ["pubsub", "channels"],
                                       ["publish", "x", "hi"]])  # fmt: skip

            wait_until(lambda: counts() == [[b"x", 0], 0, [], 0], f"behind {what} nobody listens", 2)

        for what in ("reset", "quit", "malformed", "kill", "half", "close", "abort"):
            with server.connect() as conn:
                listens(conn, "x", "y")
                says(conn, "psubscribe x* *", "psubscribe x* 3", "psubscribe * 4")
                asks(other, ("publish x hi", 3))
                conn.recv()
                conn.recv()
                conn.recv()
                if what == "reset":
                    asks(conn, ("reset", RESET))
                elif what == "quit":
                    asks(conn, ("quit", OK))
                elif what == "malformed":
                    conn.send(conn.codec.bad)
                    conn.recv_body()
                elif what == "kill":
                    asks(other, ("client kill type pubsub", 1))
                elif what == "half":
                    conn.shutdown_write()
                elif what == "close":
                    conn.close()
                else:
                    conn.reset()
                gone(what)
                if what == "reset":
                    asks(conn, ("get k", NIL), ("publish x hi", 0))
                    says(conn, "unsubscribe", "unsubscribe - 0")
                elif what in ("quit", "malformed", "kill"):
                    conn.expect_closed()
                elif what == "half":
                    conn.read_to_end()  # messages may have been quicker


@case(since=26)
def a_listener_that_quits_is_sent_what_came_before(chapter: int) -> None:
    """Its messages, then the reply, then nothing more."""
    for line, reply, version in (("quit", OK, 2), ("reset", RESET, 2), ("quit", OK, 3), ("reset", RESET, 3)):
        with talking(chapter, 2, version) as (conn, other):
            listens(conn, "x")
            asks(other, *[(f"publish x {i}", 1) for i in range(50)])
            conn.send(asked(chapter, line))
            told(conn, *(f"message x {i}" for i in range(50)))
            conn.recv(reply)
            asks(other, ("publish x late", 0))
            if line == "quit":
                conn.expect_closed()
            else:
                conn.version = 2
                asks(conn, ("ping", PONG))


@case(since=26)
def listeners_are_killed_by_their_type(chapter: int) -> None:
    """A listener is of the type pubsub, and of the type normal no more."""
    with start(chapter) as server, ExitStack() as stack:
        conn, plain, one, two, left = [stack.enter_context(server.connect()) for _ in range(5)]
        hello(two, 3)
        for each in (plain, two):
            asks(each, ("ping", PONG))
        listens(one, "x")
        listens(two, "x*", kind="psubscribe")
        listens(left, "x")
        says(left, "unsubscribe", "unsubscribe x 0")
        asks(conn, ("client kill type pubsub", 2), ("publish x hi", 0), ("client kill type pubsub", 0))
        for each in (one, two):
            each.expect_closed()
        listens(left, "x")
        asks(conn, ("client kill type normal skipme yes", 1), ("publish x hi", 1), ("pubsub numsub x", [b"x", 1]))
        plain.expect_closed()
        told(left, "message x hi")


@case(since=26)
def what_client_list_says_of_a_listener(chapter: int) -> None:
    """The letter P in front of all others, and how many channels and patterns it listens to."""
    with talking(chapter, 2, 3) as (conn, other):
        number = conn.ask("client", "id")

        def row() -> Dict[bytes, bytes]:
            lines = other.ask("client", "list").splitlines()  # type: ignore[union-attr]
            own = next(line for line in lines if b"id=%d " % number in line)
            return dict(word.split(b"=", 1) for word in own.split())

        def shows(flags: str, sub: int, psub: int) -> None:
            got = row()
            if (got[b"flags"].decode(), int(got[b"sub"]), int(got[b"psub"])) != (flags, sub, psub):
                fail(f"client list says flags={got[b'flags'].decode()} sub={int(got[b'sub'])} psub={int(got[b'psub'])}",
                     expected=f"flags={flags} sub={sub} psub={psub}")  # fmt: skip

        shows("N", 0, 0)
        listens(conn, "a", "b")
        shows("P", 2, 0)
        says(conn, "psubscribe a*", "psubscribe a* 3")
        shows("P", 2, 1)
        asks(conn, ("multi", OK))
        shows("Px", 2, 1)
        asks(conn, ("unsubscribe", QUEUED), ("discard", OK))
        ends(conn, "unsubscribe", ["a", "b"], 1)
        shows("P", 0, 1)
        asks(conn, ("reset", RESET))
        shows("N", 0, 0)


# ---- transactions ----


@case(since=26)
def subscribe_in_a_transaction(chapter: int) -> None:
    """Its confirmations are where its reply would be: with two names there are more elements than were announced. What
    is published behind it comes in front of the reply to PUBLISH, in the array."""
    for version, kind, nil in ((2, b"*", b"$-1\r\n"), (3, b">", b"_\r\n")):
        with talking(chapter, 2, version) as (conn, other):
            raw(conn, b"multi\r\nsubscribe a b\r\npublish a hi\r\nget k\r\nunsubscribe b a\r\nunsubscribe\r\nexec\r\n",
                b"+OK\r\n" + b"+QUEUED\r\n" * 5 + b"*5\r\n" +
                kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" +
                kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n" +
                kind + b"3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n:1\r\n" + nil +
                kind + b"3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:1\r\n" +
                kind + b"3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n" +
                kind + b"3\r\n$11\r\nunsubscribe\r\n" + nil + b":0\r\n")  # fmt: skip
            asks(conn, ("get k", NIL), ("multi", OK), ("subscribe a", QUEUED), ("psubscribe *", QUEUED))
            asks(other, ("publish a early", 0))
            asks(conn, ("exec", [pushed(conn, "subscribe a 1"), pushed(conn, "psubscribe * 2")]))
            asks(other, ("publish a hi", 2))
            told(conn, "message a hi", "pmessage * a hi")


@case(since=26)
def publish_in_a_transaction(chapter: int) -> None:
    """All of it reaches the others, in its order, when EXEC is done and not before; of one that is not done nothing."""
    with talking(chapter, 3) as (conn, ear, other):
        listens(ear, "x", "y")
        asks(conn, ("multi", OK), ("publish x 1", QUEUED), ("incr n", QUEUED), ("publish y 2", QUEUED),
             ("publish none 3", QUEUED), ("publish x 4", QUEUED))  # fmt: skip
        asks(other, ("publish x 0", 1))
        asks(conn, ("exec", [1, 1, 1, 0, 1]))
        told(ear, "message x 0", "message x 1", "message y 2", "message x 4")
        asks(conn, ("multi", OK), ("publish x no", QUEUED), ("discard", OK), ("watch k", OK))
        asks(other, ("set k v", OK))
        asks(conn, ("multi", OK), ("publish x no", QUEUED), ("exec", NIL), ("multi", OK),
             ("publish x", bad_count("publish")), ("publish x no", QUEUED), ("exec", ANY),
             ("publish x 5", 1))  # fmt: skip
        told(ear, "message x 5")


# ---- order ----


@case(since=26)
def a_message_to_oneself_is_in_front_of_the_reply(chapter: int) -> None:
    """Also in a pipeline, and in a transaction: there it is in the array, in front of the reply to its PUBLISH."""
    with talking(chapter, 1, 3) as (conn,):
        listens(conn, "x")
        says(conn, "psubscribe [x]", "psubscribe [x] 2")
        message = b"".join(resp.encode(pushed(conn, row), 3) for row in ("message x hi", "pmessage [x] x hi"))
        raw(conn, b"publish x hi\r\n", message + b":2\r\n")
        n = 3000
        raw(conn, (b"publish x hi\r\n" + b"get none\r\n") * n, (message + b":2\r\n" + b"_\r\n") * n)
        raw(conn, b"multi\r\nget none\r\n" + b"publish x hi\r\n" * 2 + b"exec\r\n" + b"publish x hi\r\n",
            b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n_\r\n" + (message + b":2\r\n") * 2 + message + b":2\r\n")


@case(since=26)
def a_large_message_to_oneself(chapter: int) -> None:
    """In front of its reply, and of the large replies behind it, alone and in a transaction."""
    with talking(chapter, 2, 3) as (conn, other):
        text, big = filled(3 * MIB), filled(6 * MIB, 1)
        other.ask("set", "big", big, expect=OK)
        listens(conn, "x")
        message = Push([b"message", b"x", text])
        inner = asked(chapter, "get", "big") + asked(chapter, "publish", "x", text) + asked(chapter, "get", "big")
        wanted = b"".join(resp.encode(each, 3) for each in (big, message, 1, big))
        bodies = exchange([(conn, inner * 2, 8)])[0]
        if b"".join(bodies) != wanted * 2:
            fail(f"large replies and a message to oneself come as {[body[:60] for body in bodies]}")
        conn.send(asked(chapter, "multi") + inner)
        for reply in (OK, QUEUED, QUEUED, QUEUED):
            conn.recv(reply)
        conn.send(asked(chapter, "exec"))
        conn.expect_bytes(b"*3\r\n" + wanted)


@case(since=26)
def one_publisher_is_heard_in_its_order(chapter: int) -> None:
    """Thousands of messages in one write, on several channels, to those that listen to one, to all, to a pattern."""
    n = 6000
    with talking(chapter, 4) as (conn, all, one, other):
        listens(all, "c0", "c1", "c2")
        listens(one, "c1")
        listens(other, "c[02]", kind="psubscribe")
        sent = [(f"c{i * 7 % 3}", f"{i}" + "x" * (i % 60)) for i in range(n)]
        conn.pipeline([["publish", *each] for each in sent], [2] * n)
        for ear, form, mine in ((all, b"message", "c0c1c2"), (one, b"message", "c1"), (other, b"pmessage", "c0c2")):
            head = [form] if form == b"message" else [form, b"c[02]"]
            ear.expect_bytes(b"".join(resp.encode([*head, name, text]) for name, text in sent if name in mine))


@case(since=26)
def several_publishers_at_once(chapter: int) -> None:
    """Each listener hears every message, those of one publisher in their order; and all that listen to the same channel
    hear the same order."""
    publishers, n = 4, 900
    with start(chapter) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect()) for _ in range(5)]
        for i, ear in enumerate(ears):
            if i % 2:
                hello(ear, 3)
            listens(ear, "x")
            if i > 2:
                says(ear, "psubscribe *", "psubscribe * 2")

        def publish(number: int) -> None:
            with server.connect() as conn:
                for first in range(0, n, 100 + 50 * number):
                    texts = range(first, min(n, first + 100 + 50 * number))
                    conn.pipeline([["publish", "x", f"{number} {i}"] for i in texts], [len(ears) + 2] * len(texts))

        threads = [threading.Thread(target=publish, args=(i,)) for i in range(publishers)]
        for thread in threads:
            thread.start()
        heard: List[List[bytes]] = []
        for i, ear in enumerate(ears):
            came: List[List[bytes]] = [ear.recv() for _ in range(publishers * n * (1 + (i > 2)))]  # type: ignore[misc]
            for form in (b"message", b"pmessage")[: 1 + (i > 2)]:
                heard.append([each[-1] for each in came if each[0] == form])
        for thread in threads:
            thread.join()
    for number in range(publishers):
        hers = [text for text in heard[0] if text.startswith(b"%d " % number)]
        if hers != [b"%d %d" % (number, i) for i in range(n)]:
            fail(f"the messages of one of {publishers} publishers come in another order than hers")
    if any(each != heard[0] for each in heard):
        fail("of two that listen to the same channel one hears another order than the other")


@case(since=26)
def messages_behind_a_reply_that_is_being_sent(chapter: int) -> None:
    """A listener asks for 20 MB, and does not read. What is published then comes behind all of the reply; and what it
    asks for next, behind the messages."""
    n = 400
    big = filled(20 * MIB)
    with start(chapter) as server, ExitStack() as stack:
        slow, quick, other = [stack.enter_context(server.connect(rcvbuf=size)) for size in (SMALL, None, None)]
        other.ask("set", "big", big, expect=OK)
        for again, conn in enumerate((slow, quick)):
            hello(conn, 3)
            listens(conn, "x")
            conn.send(asked(chapter, "get", "big"))
            wait_until(lambda: readable(conn), "the reply is answered in part")
            texts = [b"%d" % i + filled(i * 10) for i in range(n)]
            other.pipeline([["publish", "x", text] for text in texts], [1] * n)
            conn.send(asked(chapter, "incr", "n") + asked(chapter, "get", "n") + asked(chapter, "unsubscribe"))
            still_serves(server)
            conn.recv(big)
            told(conn, *(("message", "x", text) for text in texts))
            conn.recv(1 + again)
            conn.recv(b"%d" % (1 + again))
            told(conn, "unsubscribe x 0")


@case(since=26)
def a_listener_in_version_2_that_is_slow(chapter: int) -> None:
    """It asks for a large value and listens then, all in one write; what is published comes behind that, while it reads
    a little at a time."""
    big = filled(3 * MIB)
    with start(chapter) as server, server.connect(rcvbuf=SMALL) as conn, server.connect() as other:
        other.ask("set", "big", big, expect=OK)
        conn.send(asked(chapter, "get", "big") * 3 + asked(chapter, "subscribe", "x") + asked(chapter, "ping", "me"))
        conn.recv(big)
        conn.recv(big)
        conn.recv(big)
        told(conn, "subscribe x 1")
        conn.recv([b"pong", b"me"])
        wanted = b""
        for i in range(60):
            text = filled(50_000 + i)
            other.ask("publish", "x", text, expect=1)
            wanted += resp.encode([b"message", b"x", text])
        for at in range(0, len(wanted), 70_001):
            conn.expect_bytes(wanted[at : at + 70_001])


@case(since=26, perhaps="a request is answered though messages wait: the reply goes behind them")
def a_request_behind_messages_that_are_not_read(chapter: int) -> None:
    """5 MB wait for a listener that asks for something then. What it has ended is ended before it reads; the
    answer comes behind the messages, and then no message more."""
    texts = [filled(MIB, i) for i in range(5)]
    for version in (2, 3):
        for line in ("ping me", "unsubscribe x", "reset", "quit"):
            with talking(chapter, 2, version) as (conn, other):
                listens(conn, "x")
                for text in texts:
                    other.ask("publish", "x", text, expect=1)
                conn.send(asked(chapter, *line.split()))
                if line in ("unsubscribe x", "reset"):
                    wait_until(lambda: other.ask("pubsub", "numsub", "x") == [b"x", 0],  # noqa: B023
                               f"{line} is done, though messages wait in front of its reply")  # fmt: skip
                told(conn, *(("message", "x", text) for text in texts))
                conn.recv({"ping me": [b"pong", b"me"] if version == 2 else b"me", "reset": RESET, "quit": OK,
                           "unsubscribe x": pushed(conn, "unsubscribe x 0")}[line])  # fmt: skip
                asks(other, ("publish x late", int(line == "ping me")))


@case(since=26, perhaps="what is published before a request is answered comes before its reply, what is published "
                        "later, behind it; one queue for both")  # fmt: skip
def replies_between_messages_that_are_not_read(chapter: int) -> None:
    """Requests behind 5 MB that wait, alone, in a transaction, to publish to oneself and with what is large; a message
    of another in between; what is malformed at the end: each reply is where it was made."""
    big, texts = filled(3 * MIB, 7), [filled(MIB, i) for i in range(5)]
    for last in ("quit", "malformed"):
        with talking(chapter, 2, 3) as (conn, other):
            other.ask("set", "big", big, expect=OK)
            listens(conn, "x")
            for text in texts:
                other.ask("publish", "x", text, expect=1)
            lines = ("incr n", "publish x mine", "multi", "get n", "publish x mine", "publish x too", "exec", "exec",
                     "incr n")  # fmt: skip
            conn.send(b"".join(asked(chapter, *line.split()) for line in lines))
            wait_until(lambda: other.ask("get", "n") == b"2", "all requests are done")  # noqa: B023
            asks(other, ("publish x between", 1))
            conn.send(asked(chapter, "multi") + asked(chapter, "get", "big") + asked(chapter, "publish", "x", "mine"))
            conn.send(asked(chapter, "exec") + (conn.codec.bad if last == "malformed" else asked(chapter, "quit")))
            told(conn, *(("message", "x", text) for text in texts))
            mine, too = (resp.encode(pushed(conn, f"message x {word}"), 3) for word in ("mine", "too"))
            conn.expect_bytes(b":1\r\n" + mine + b":1\r\n+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n$1\r\n1\r\n" + mine
                              + b":1\r\n" + too + b":1\r\n-ERR EXEC without MULTI\r\n:2\r\n")  # fmt: skip
            told(conn, "message x between")
            conn.expect_bytes(b"+OK\r\n" + b"+QUEUED\r\n" * 2 + b"*2\r\n" + resp.encode(big, 3) + mine + b":1\r\n")
            conn.recv_body()  # OK, or an error
            conn.expect_closed()


@case(since=26)
def messages_of_any_bytes(chapter: int) -> None:
    """In names, patterns and texts: no byte means anything, none is lost; and empty ones."""
    every = bytes(range(256))
    for version in (2, 3):
        with talking(chapter, 2, version) as (conn, other):
            for i, name in enumerate((b"", every, b"\r\n", b"$3\r\nabc\r\n", b"\0", b"\0\0", b"x" * 100_000)):
                conn.send(asked(chapter, "subscribe", name))
                conn.recv(pushed(conn, ("subscribe", name, str(i + 1))) if name != b"-" else ANY)
                for text in (b"", every, b"\r\n*1\r\n", b"\0", filled(3000)):
                    other.ask("publish", name, text, expect=1)
                    told(conn, ("message", name, text))
            other.ask("publish", every[:-1], "x", expect=0)
            other.ask("publish", b"\0\0\0", "x", expect=0)
            conn.send(asked(chapter, "psubscribe", b"\0*\xff"))
            conn.recv(pushed(conn, ("psubscribe", b"\0*\xff", "8")))
            other.ask("publish", every, "x", expect=2)
            told(conn, ("message", every, "x"), ("pmessage", b"\0*\xff", every, "x"))


@case(since=26, time_limit=60)
def large_messages(chapter: int) -> None:
    """Of 1 MB, of 5, of 24, to a listener by name and to one by a pattern, in either version."""
    with start(chapter) as server, ExitStack() as stack:
        ears = [stack.enter_context(server.connect(seconds=20)) for _ in range(2)]
        other = stack.enter_context(server.connect(seconds=20))
        hello(ears[1], 3)
        listens(ears[0], "x")
        listens(ears[1], "?", kind="psubscribe")
        for size in (MIB, 5 * MIB, 24 * MIB):
            text = filled(size)
            other.ask("publish", "x", text, expect=2)
            for ear, head in zip(ears, ([b"message"], [b"pmessage", b"?"])):
                ear.recv(pushed(ear, [*head, b"x", text]))
        asks(other, ("publish x bye", 2))
        told(ears[0], "message x bye")
        told(ears[1], "pmessage ? x bye")


@case(since=26, inside=True)
def messages_in_small_pieces(chapter: int) -> None:
    """Each call on a socket moves a few bytes, or none (cases/interrupt.c): nothing is torn, wherever a message, or a
    reply between two, is cut."""
    with start(chapter, env=preload("interrupt")) as server, ExitStack() as stack:
        conn, two, other = [stack.enter_context(server.connect()) for _ in range(3)]
        hello(conn, 3)
        listens(conn, "x")
        listens(two, "x*", kind="psubscribe")
        for i in range(80):
            text = filled(i * 37 % 700)
            other.send(asked(chapter, "publish", "x", text) * 3)
            if i % 3 == 0:
                conn.send(asked(chapter, "echo", f"{i}"))
            came = [conn.recv() for _ in range(3 + (i % 3 == 0))]
            message = Push([b"message", b"x", text])
            if [each for each in came if each != b"%d" % i] != [message] * 3 or len(came) > 3 and b"%d" % i not in came:
                fail(f"three messages, and the reply to echo {i}, come as {conn.codec.show(came)}")
            for _ in range(3):
                two.recv([b"pmessage", b"x*", b"x", text])
                other.recv(2)


# ---- pauses ----


@case(since=26)
def a_pause_of_writes_holds_publish(chapter: int) -> None:
    """As others would hear of it; also an EXEC with a PUBLISH in its queue. Listening is no write."""
    with start(chapter) as server, ExitStack() as stack:
        conn, ear, one, two = [stack.enter_context(server.connect()) for _ in range(4)]
        asks(two, ("multi", OK), ("get k", QUEUED), ("publish x exec", QUEUED))
        asks(conn, ("client pause 1000000 write", OK))
        one.send(asked(chapter, "publish", "x", "hi"))
        two.send(asked(chapter, "exec"))
        listens(ear, "x")
        one.expect_silence(0.05)
        if readable(two) or readable(ear):
            fail("a message is published while a pause holds what writes")
        assert (flags(conn, one), flags(conn, two), flags(conn, ear)) == ("b", "xb", "P")
        asks(conn, ("pubsub numsub x", [b"x", 1]), ("client unpause", OK))
        one.recv(1)
        two.recv([None, 1])
        came = sorted(ear.recv()[2] for _ in range(2))  # type: ignore[index]
        assert came == [b"exec", b"hi"], came


@case(since=26)
def a_pause_holds_no_messages(chapter: int) -> None:
    """Of all requests: SUBSCRIBE waits, too; but who listens already goes on to be sent what was published before,
    also while a request of its own is held."""
    text = filled(8 * MIB)
    with start(chapter) as server, ExitStack() as stack:
        conn, ear, late = [stack.enter_context(server.connect()) for _ in range(3)]
        listens(ear, "x")
        asks(conn, ("publish x first", 1))
        conn.ask("publish", "x", text, expect=1)
        asks(conn, ("client pause 1000000 all", OK))
        ear.send(asked(chapter, "ping"))
        late.send(asked(chapter, "subscribe", "x"))
        told(ear, "message x first", ("message", "x", text))
        ear.expect_silence(0.05)
        late.expect_silence(0.05)
        conn.send(asked(chapter, "client", "unpause"))
        late.expect_silence(0.05)
        conn.close()


@case(since=26)
def a_listener_whose_request_is_held(chapter: int) -> None:
    """While a pause holds a request of its own, a listener is sent what happens: here that another looks for a key in
    vain. The reply comes behind that, when the pause has ended."""
    with start(chapter) as server, ExitStack() as stack:
        conn, ear, other = [stack.enter_context(server.connect()) for _ in range(3)]
        hello(ear, 3)
        listens(ear, "__keyevent@0__:keymiss")
        asks(conn, ("config set notify-keyspace-events Em", OK), ("client pause 1000000 write", OK))
        ear.send(asked(chapter, "incr", "n"))
        wait_until(lambda: flags(conn, ear) == "Pb", "the listener's request is held")
        for name in ("one", "two"):
            asks(other, (f"get {name}", NIL))
            told(ear, f"message __keyevent@0__:keymiss {name}")
        asks(conn, ("client unpause", OK))
        ear.recv(1)


# ---- random ones ----


class Group(NamedTuple):
    """Messages that come in any order."""

    rows: Sequence[object]


class Heard:
    """Who listens to what, as a model: what each of n connections must get, in order, since it was read last."""

    PATTERNS = ("*", "a*", "?", "[ab]", "*b", "ab", "a?c*", "[^a]*")
    CHANNELS = ("a", "b", "ab", "abc", "xb", "c", "cc")

    def __init__(self, n: int) -> None:
        self.topics: List[Dict[str, List[str]]] = [{"": [], "p": []} for _ in range(n)]
        self.version = [2] * n
        self.queue: List[List[Tuple[int, object]]] = [[] for _ in range(n)]

    def put(self, who: int, value: object) -> None:
        """The connection gets this, in the version that it speaks now."""
        self.queue[who].append((self.version[who], value))

    def push(self, who: int, *items: object) -> object:
        return Push(items) if self.version[who] == 3 else list(items)

    def count(self, who: int) -> int:
        return sum(map(len, self.topics[who].values()))

    def is_restricted(self, who: int) -> bool:
        return self.version[who] == 2 and self.count(who) > 0

    def subscribe(self, who: int, kind: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.topics[who][kind]:
                self.topics[who][kind].append(name)
            self.put(who, self.push(who, f"{kind}subscribe".encode(), name.encode(), self.count(who)))

    def unsubscribe(self, who: int, kind: str, names: Sequence[str]) -> None:
        word, mine = f"{kind}unsubscribe".encode(), self.topics[who][kind]
        if not names and mine:
            left = self.count(who) - len(mine)
            self.put(who, ([name.encode() for name in mine], word, left))
            mine.clear()
        elif not names:
            self.put(who, self.push(who, word, None, self.count(who)))
        for name in names:
            if name in mine:
                mine.remove(name)
            self.put(who, self.push(who, word, name.encode(), self.count(who)))

    def publish(self, channel: str, text: bytes) -> int:
        """Everybody gets it who listens. Returns how often."""
        n = 0
        for who, topics in enumerate(self.topics):
            if channel in topics[""]:
                self.put(who, self.push(who, b"message", channel.encode(), text))
                n += 1
            fits = [p for p in topics["p"] if fits_pattern(p, channel)]
            if fits:
                self.put(who, Group([self.push(who, b"pmessage", p.encode(), channel.encode(), text) for p in fits]))
                n += len(fits)
        return n

    def reset(self, who: int) -> None:
        self.topics[who] = {"": [], "p": []}
        self.version[who] = 2


def fits_pattern(pattern: str, channel: str) -> bool:
    return re.fullmatch(fnmatch.translate(pattern.replace("[^", "[!")), channel) is not None


def reads(conn: Conn, queue: List[Tuple[int, object]]) -> None:
    """Reads all that waits for the connection, and compares it."""
    for version, value in queue:
        conn.version = version
        if isinstance(value, Group):
            came = [conn.recv() for _ in value.rows]
            if sorted(map(repr, came)) != sorted(map(repr, value.rows)) or type(came[0]) is not type(value.rows[0]):
                fail(f"of one message come {conn.codec.show(came)}", expected=conn.codec.show(list(value.rows)))
        elif isinstance(value, tuple):
            names, word, left = value
            seen = [conn.recv() for _ in names]
            if [each[::2] for each in seen] != [  # type: ignore[index]
                [word, left + len(names) - 1 - i] for i in range(len(names))
            ] or sorted(each[1] for each in seen) != sorted(names):  # type: ignore[index]
                fail(f"the end of all subscriptions: {conn.codec.show(seen)}", expected=f"{names}, and {left} left")
        else:
            conn.recv(value)
    queue.clear()


class Draw:
    """Random listeners and publishers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.n = rng, 0

    def names(self, kind: str, least: int, most: int) -> List[str]:
        choice = Heard.PATTERNS if kind else Heard.CHANNELS
        return [self.rng.choice(choice) for _ in range(self.rng.randint(least, most))]

    def text(self) -> bytes:
        self.n += 1
        return b"%d:" % self.n + filled(self.rng.choice([0, 0, 5, 100, 3000, 40_000 if self.n % 50 == 0 else 1]))

    def words(self) -> List[Arg]:
        """A request. Most of them publish."""
        rng, kind, chance = self.rng, self.rng.choice(["", "p"]), self.rng.random()
        if chance < 0.5:
            return ["publish", rng.choice(Heard.CHANNELS), self.text()]
        if chance < 0.68:
            return [f"{kind}subscribe", *self.names(kind, 1, 3)]
        if chance < 0.84:
            return [f"{kind}unsubscribe", *self.names(kind, 0 if rng.random() < 0.3 else 1, 2)]
        return rng.choice([["ping"], ["ping", "hi"], ["hello", "2"], ["hello", "3"], ["reset"], ["echo", "x"],
                           ["pubsub", "numpat"], ["get", "k"]])  # type: ignore[list-item]


def expects(model: Heard, who: int, words: Sequence[Arg]) -> None:
    """Puts down what comes of a request, for all."""
    name, rest = str(words[0]), [str(word) for word in words[1:2]]
    if name.endswith("unsubscribe"):
        model.unsubscribe(who, name[: -len("unsubscribe")], [str(word) for word in words[1:]])
    elif name.endswith("subscribe"):
        model.subscribe(who, name[: -len("subscribe")], [str(word) for word in words[1:]])
    elif name == "ping" and model.is_restricted(who):
        model.put(who, [b"pong", rest[0].encode() if rest else b""])
    elif name == "reset":
        model.reset(who)
        model.put(who, RESET)
    elif model.is_restricted(who):
        full = "pubsub|numpat" if name == "pubsub" else name
        model.put(who, Err(4, f"ERR Can't execute '{full}': {ALLOWED}"))
    elif name == "publish":
        n = model.publish(rest[0], to_bytes(words[2]))
        model.put(who, n)
    elif name == "hello":
        model.version[who] = int(rest[0])
        model.put(who, ANY)
    elif name == "pubsub":
        model.put(who, len({pattern for topics in model.topics for pattern in topics["p"]}))
    else:
        model.put(who, NIL if name == "get" else rest[0].encode() if rest else PONG)


@case(since=26, time_limit=60)
def random_listeners(chapter: int) -> None:
    """Six connections publish, begin to listen and end, in either version, and read now and then, against a model:
    each gets exactly what it says, in that order."""
    rng = random.Random(seed())
    for _ in range(2):
        with start(chapter) as server, ExitStack() as stack:
            conns = [stack.enter_context(server.connect()) for _ in range(6)]
            model, draw = Heard(6), Draw(rng)
            before: List[str] = []
            for _ in range(1500):
                who = rng.randrange(6)
                words = draw.words()
                before.append(f"{who}: {conns[who].codec.show_request(array(*words))[:150]}")
                conns[who].send(array(*words))
                expects(model, who, words)
                try:
                    for each in {who, *rng.sample(range(6), rng.randrange(2))}:
                        reads(conns[each], model.queue[each])
                except AssertionError as e:
                    raise explained_by(e, before) from None
            for who, conn in enumerate(conns):
                reads(conn, model.queue[who])


@case(since=26, ours="it is Redis that ours is compared with", time_limit=300)
def random_listeners_beside_redis(chapter: int) -> None:
    """The same connections talk to Redis, with transactions: the bytes that each gets must be the same, but for the
    order of patterns, and of names where all end."""
    settings.needs(redis.NAME)
    rng = random.Random(seed())
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other, ExitStack() as stack:
        pairs = [(stack.enter_context(server.connect()), stack.enter_context(other.connect())) for _ in range(5)]
        draw, before, n = Draw(rng), [], 0
        end = time.monotonic() + 2
        while time.monotonic() < end:
            who = rng.randrange(len(pairs))
            batch = [draw.words()]
            if rng.random() < 0.15:
                batch = [["multi"], *(words for words in (draw.words() for _ in range(rng.randrange(6)))
                                      if words[0] not in ("hello", "reset")), ["exec"]]  # fmt: skip
            before += [f"{who}: {pairs[who][0].codec.show_request(array(*words))[:150]}" for words in batch]
            n += 1
            mark = b"<mark %d>" % n
            for conn in pairs[who]:
                conn.send(b"".join(array(*words) for words in batch) + array("ping", mark))
            whole = [[up_to(conn, mark) for conn in pairs[who]]]
            for pair in pairs[:who] + pairs[who + 1 :]:
                for conn in pair:
                    conn.send(array("ping", mark))
                whole.append([up_to(conn, mark) for conn in pair])
            for here, there in whole:
                if batch[0][0] != "hello" and in_order(here) != in_order(there):
                    fail("behind\n" + "\n".join(before[-60:]) + f"\ncomes {here[:600]!r}", "",
                         f"{there[:600]!r}, as Redis says; the seed was {seed()}")  # fmt: skip


def up_to(conn: Conn, mark: bytes) -> bytes:
    """All that comes, up to the answer to a PING with this mark."""
    until = b"$%d\r\n%s\r\n" % (len(mark), mark)
    while not conn.buffer.endswith(until):
        if conn.ended or not conn._fill(time.monotonic() + limit(5)):
            fail(f"no answer comes to a ping; so far {bytes(conn.buffer[-300:])!r}")
    data = conn.recv_exactly(len(conn.buffer))
    conn.unanswered.clear()
    return data


PIECE = re.compile(rb"[*>]([34])\r\n\$\d+\r\n(pmessage|p?unsubscribe)\r\n")


def in_order(data: bytes) -> List[object]:
    """The bytes in pieces. What one message is for several patterns is put into one order, and so are the names of all
    subscriptions that are ended together."""
    pieces: List[Tuple[bytes, bytes, bytes]] = []  # what it is, what of it those beside it share, the bytes
    at = 0
    while at < len(data):
        match, parts = PIECE.match(data, at), [at]
        for _ in range(1 + int(match[1]) if match else 1):
            parts.append(end_of(data, parts[-1]))
        kind = match[2] if match else b""
        pieces.append((kind, data[parts[3] : parts[-1]] if kind == b"pmessage" else b"", data[at : parts[-1]]))
        at = parts[-1]
    ordered: List[object] = []
    for (kind, _), run in itertools.groupby(pieces, lambda piece: piece[:2]):
        found = [piece for _, _, piece in run]
        if kind.endswith(b"unsubscribe"):
            ends = [piece.rpartition(b":") for piece in found]
            ordered += [sorted(name for name, _, _ in ends), [count for _, _, count in ends]]
        else:
            ordered += sorted(found) if kind else found
    return ordered


def end_of(data: bytes, at: int) -> int:
    """Where the value's head ends, and of a string its bytes."""
    end = data.index(b"\r\n", at) + 2
    return end + int(data[at + 1 : end]) + 2 if data[at : at + 1] == b"$" and data[at + 1 : at + 2] != b"-" else end


@case(since=26)
def whoever_is_killed_hears_nothing_more(chapter: int) -> None:
    """Not even what is published by the next request in the same write."""
    with talking(chapter, 3) as (one, two, conn):
        listens(one, "x")
        listens(two, "x*", kind="psubscribe")
        requests = [["publish", "x", "hi"], ["client", "kill", "type", "pubsub"], ["publish", "x", "no"]]
        conn.pipeline(requests, expect=[2, 2, 0])
        for each, row in ((one, "message x hi"), (two, "pmessage x* x hi")):
            if each.read_to_end() not in (b"", resp.encode(pushed(each, row), 2)):
                fail("a listener that is killed is sent more than what was published before")
