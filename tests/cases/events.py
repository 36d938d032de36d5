"""Events of the key space (26 and later): what happens to a key is published, for those who want to hear of it. All
that does not say `ours` holds for Redis as well: make test-26 SERVER=redis-server.
"""
from __future__ import annotations

import random
import re
import time
from contextlib import ExitStack
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from harness import ANY, Conn, Err, Server, fail, redis, seed, settings
from harness.grammar import RespGenerator
from harness.model import KEYS
from harness.resp import NIL, NOT_IN_REDIS, OK, arity, array, split_inline
from harness.resp_model import RespModel
from harness.wire import Arg, to_bytes

from . import case
from .beside_redis import _is_known
from .clock import Clock
from .expiry import INSIDE, standing
from .replies import filled
from .resp import asks, hello, raw
from .talk import Counts, paused, start, still_serves
from .transactions import QUEUED, Draw

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "an event is published where the change is made, once it is made, and only if it is one; to __keyspace@N__:key "
    "first, then to __keyevent@N__:event"
)

NAME = "notify-keyspace-events"
CHANNEL = re.compile(rb"__key(space|event)@([0-9]+)__:(.*)", re.DOTALL)
MARK = b"that was all"  # a channel

Event = Tuple[str, bytes, int]  # what has happened, to which key, in which database
Message = Tuple[bytes, bytes]  # where it was published, and what


def want(conn: Conn, classes: str) -> None:
    """From now on, events of these classes are published."""
    conn.ask("config", "set", NAME, classes, expect=OK)


class Listener:
    """A connection that hears all that is published."""

    def __init__(self, server: Server) -> None:
        self.conn = server.connect()
        self.marks = 0
        self.conn.ask("psubscribe", "*", expect=[b"psubscribe", b"*", 1])

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()

    def mark(self) -> List[Arg]:
        """The next request that is to stand behind what is heard: see until()."""
        self.marks += 1
        return ["publish", MARK, b"%d" % self.marks]

    def until(self, mark: int) -> List[Message]:
        """What is published up to this mark."""
        messages: List[Message] = []
        while messages[-1:] != [(MARK, b"%d" % mark)]:
            came = self.conn.recv()
            assert isinstance(came, list) and came[:2] == [b"pmessage", b"*"] and len(came) == 4, came
            messages.append((came[2], came[3]))
        return messages[:-1]

    def messages(self, conn: Conn) -> List[Message]:
        """What has been published until now. `conn` publishes the mark behind it."""
        conn.ask(*self.mark())
        return self.until(self.marks)

    def events(self, conn: Conn) -> List[Event]:
        """The same, where both sides of each event are wanted."""
        return both_sides(self.messages(conn))


def one_side(message: Message) -> Event:
    """The event in a message."""
    match = CHANNEL.fullmatch(message[0])
    if not match:
        fail(f"{message[1]!r} is published to {message[0]!r}", expected="__keyspace@N__:key or __keyevent@N__:event")
    assert match
    event, key = (message[1], match[3]) if match[1] == b"space" else (match[3], message[1])
    return event.decode("latin-1"), key, int(match[2])


def both_sides(messages: Sequence[Message]) -> List[Event]:
    """The events in messages: of each the side of the key, then that of the event."""
    events = [one_side(message) for message in messages]
    sides = [channel.startswith(b"__keyspace") for channel, _ in messages]
    if events[::2] != events[1::2] or sides != [True, False] * (len(sides) // 2):
        fail(f"published are {[channel for channel, _ in messages]}",
             expected="of each event __keyspace@N__:key, and behind it __keyevent@N__:event")  # fmt: skip
    return events[::2]


def shown(events: Sequence[Event]) -> str:
    """As in the tables below: `event key`, behind an @ the database, where it is not 0."""
    return ", ".join(f"{event} {key.decode('latin-1')}{f'@{db}' if db else ''}" for event, key, db in events)


def expect_events(what: str, got: Sequence[Event], expected: str) -> None:
    if shown(got) != expected:
        fail(f"{what}: {shown(got) or 'no event'}", expected=expected or "no event")


def words_of(line: str) -> List[Arg]:
    return list(split_inline(line.encode("latin-1")))


# ---- which are wanted ----


@case(since=26, perhaps="A stands for g$lshzxetd; what is told is A, or those of them that are set and n; then K, E, m")
def letters_have_a_normal_form(chapter: int) -> None:
    """In any order and number. A stands for all letters but K, E, m and n, and hides an n."""
    rng, every = random.Random(seed()), "g$lshzxetd"
    with start(chapter) as server, server.connect() as conn:
        asks(conn, (f"config get {NAME}", [NAME.encode(), b""]))
        drawn = ["", "A", "K", "E", "m", "n", "AKE", "KEA", "EKA", "KEAnm", "AAAA", "nA", "An", "mEK", "KEg$lshzxetd",
                 "KEg$lshzxet", "dtexzhsl$g", "g$lshzxetdnKEm", "mn", "Kn", "xE", "Ex", "KKEE", "$$$", "Kd", "tK",
                 every + "n", every[1:] + "A"]  # fmt: skip
        drawn += ["".join(rng.choice(every + "KEmnA" * (i % 2)) for _ in range(i % 30)) for i in range(600)]
        for letters in drawn:
            has = set(letters) | set(every if "A" in letters else "")
            normal = "A" if has >= set(every) else "".join(each for each in every + "n" if each in has)
            normal += "".join(each for each in "KEm" if each in has)
            conn.pipeline([["config", "set", NAME, letters], ["config", "get", NAME]], [OK, [NAME.encode(), normal]])


@case(since=26)
def a_letter_that_is_none(chapter: int) -> None:
    """Nothing is set then, nor where another setting in the request is wrong."""
    error = Err(4, f"ERR CONFIG SET failed (possibly related to argument '{NAME}') - Invalid event class character. "
                "Use 'Ag$lshzxeKEtmdn'.")  # fmt: skip
    kept = (f"config get {NAME}", [NAME.encode(), b"gxE"])
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        want(conn, "xEg")
        for letters in ("KEAx1", "a", "k", "KEG", " KEA", "KEA ", "K E", "KEA\n", "*", "KEA,x", "yes", "N", "M"):
            conn.ask("config", "set", NAME, letters, expect=error)
            asks(conn, kept)
        asks(conn, (f"config set {NAME} KEA timeout x", ANY), kept, (f"config set timeout x {NAME} KEA", ANY), kept,
             (f"config set {NAME} KEA {NAME} E", ANY), kept, (f"config set {NAME} KEA nosuch 1", ANY), kept,
             ("set k v", OK), ("del k", 1))  # fmt: skip
        assert listener.messages(conn) == [(b"__keyevent@0__:del", b"k")]


@case(since=26)
def a_side_and_a_class_are_needed(chapter: int) -> None:
    """Without K and without E nothing is published, nor without a class; A is neither n nor m."""
    space, event = (b"__keyspace@0__:k", b"set"), (b"__keyevent@0__:set", b"k")
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        for classes, expected in (
            ("", []), ("K", []), ("E", []), ("KE", []), ("$", []), ("A", []), ("Anm", []), ("g$z", []), ("KEg", []),
            ("KElshzxetd", []), ("K$", [space]), ("$K", [space]), ("E$", [event]), ("KE$", [space, event]),
            ("E$K", [space, event]), ("KEA", [space, event]), ("KA", [space]), ("AE", [event]), ("", []),
            ("Kn", [(space[0], b"new")]), ("En", [(b"__keyevent@0__:new", b"k")]), ("n", []), ("m", []),
            ("Km", [(space[0], b"keymiss")]), ("Em", [(b"__keyevent@0__:keymiss", b"k")]),
            ("EnK$m", [(space[0], b"keymiss"), (b"__keyevent@0__:keymiss", b"k"), (space[0], b"new"),
                       (b"__keyevent@0__:new", b"k"), space, event]),
        ):  # fmt: skip
            asks(conn, ("flushall", OK))
            want(conn, classes)
            asks(conn, ("get k", None), ("set k v", OK))
            got = listener.messages(conn)
            if got != expected:
                fail(f"{NAME} is {classes!r}, k is missed and set: {got} is published", expected=f"{expected}")


@case(since=26)
def channels_have_the_number_of_the_database(chapter: int) -> None:
    """And the key as it is, whatever bytes are in it."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        want(conn, "KE$")
        for db in (0, 1, 9, 10, 15):
            asks(conn, (f"select {db}", OK))
            for key in (b"k", b"", b"two words\r\n", b"\0*?[", b"__keyspace@7__:k", b"k" * 100_000):
                conn.ask("set", key, "v", expect=OK)
                got = listener.messages(conn)
                if got != [(b"__keyspace@%d__:%s" % (db, key), b"set"), (b"__keyevent@%d__:set" % db, key)]:
                    fail(f"{key[:40]!r} is set in {db}: {[(channel[:60], what[:40]) for channel, what in got]}")


@case(since=26)
def who_listens_to_one_channel(chapter: int) -> None:
    """Of a key, or of an event, in one database: nothing else is heard. A message as any other."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        names = [b"__keyspace@0__:k", b"__keyevent@1__:del", MARK]
        other.send(array("subscribe", *names))
        for i, name in enumerate(names):
            other.recv([b"subscribe", name, i + 1])
        want(conn, "KEA")
        asks(conn, ("set k v", OK), ("set l v", OK), ("del l", 1), ("expire k 100", 1), ("select 1", OK),
             ("set k v", OK), ("set l v", OK), ("del l", 1), ("rename k l", OK), ("del k l", 1), ("select 0", OK),
             ("del k", 1), ("publish __keyspace@0__:k hi", 1))  # fmt: skip
        conn.ask("publish", MARK, "", expect=1)
        for channel, what in ((names[0], "set"), (names[0], "expire"), (names[1], "l"), (names[1], "l"),
                              (names[0], "del"), (names[0], "hi"), (MARK, "")):  # fmt: skip
            other.expect_bytes(array("message", channel, what))


@case(since=26)
def the_setting_in_a_transaction(chapter: int) -> None:
    """From its place on."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        asks(conn, ("multi", OK), ("set k v", QUEUED), (f"config set {NAME} KEA", QUEUED), ("append k v", QUEUED),
             (f"config set {NAME} ''", QUEUED), ("del k", QUEUED), ("exec", [OK, OK, 2, OK, 1]))  # fmt: skip
        expect_events("the three requests", listener.events(conn), "append k")


# ---- what each command says ----

# Requests, one after the other, and their events, all but misses. Where there are none, nothing was changed.
SAID: List[Tuple[str, str]] = [
    ("set k v", "new k, set k"), ("set k v", "set k"), ("set k w get", "set k"), ("set k v ex 100", "set k, expire k"),
    ("set k v keepttl", "set k"), ("set k v px 100000", "set k, expire k"), ("set k v xx", "set k"),
    ("set k v exat 4000000000", "set k, expire k"), ("set k v pxat 4000000000000 xx get", "set k, expire k"),
    ("set k v nx", ""), ("set k v nx get", ""), ("set none v xx", ""), ("set k v ex 0", ""), ("set k v nonsense", ""),
    ("set l v nx", "new l, set l"), ("setnx l v", ""), ("setnx m v", "new m, set m"),
    ("setex m 100 v", "set m, expire m"),
    ("setex n 100 v", "new n, set n, expire n"), ("psetex n 100000 v", "set n, expire n"), ("setex n -1 v", ""),
    ("getset n w", "set n"), ("getex n", ""), ("getex n persist", ""), ("getex n ex 100", "expire n"),
    ("getex n persist", "persist n"), ("getex n px 100000", "expire n"), ("getex n pxat 4000000000000", "expire n"),
    ("getex n exat 1", "del n"), ("getdel m", "del m"), ("get k", ""), ("strlen k", ""),
    ("mset a 1 k 2 b 3 a 4", "new a, set a, set k, new b, set b, set a"), ("msetnx c 1 a 2", ""),
    ("msetnx c 1 d 2 c 3", "new c, set c, new d, set d, set c"), ("mset a 1 b", ""),
    ("incr a", "incrby a"), ("decr a", "incrby a"), ("incrby a 0", "incrby a"), ("decrby a 7", "incrby a"),
    ("incr e", "new e, incrby e"), ("decr f", "new f, incrby f"), ("incrby g 5", "new g, incrby g"),
    ("decrby h 5", "new h, incrby h"), ("incr l", ""), ("incrby a x", ""), ("incrby a 9223372036854775807", "incrby a"),
    ("incrby a 9223372036854775807", ""), ("incrbyfloat b 0.5", "incrbyfloat b"),
    ("incrbyfloat i 0", "new i, incrbyfloat i"), ("incrbyfloat l 1", ""),
    ("append l x", "append l"), ("append l ''", "append l"), ("append j ''", "new j, append j"),
    ("append o x", "new o, append o"), ("setrange l 1 xyz", "setrange l"), ("setrange l 0 v", "setrange l"),
    ("setrange l 0 ''", ""), ("setrange p 3 x", "new p, setrange p"), ("setrange none 3 ''", ""),
    ("setrange l -1 x", ""), ("getrange l 0 -1", ""),
    ("del none", ""), ("del c d none c", "del c, del d"), ("unlink e none f", "del e, del f"), ("unlink e f", ""),
    ("rename g q", "new q, rename_from g, rename_to q"), ("rename q l", "new l, rename_from q, rename_to l"),
    ("rename l l", ""), ("rename none l", ""), ("renamenx l h", ""), ("renamenx l l", ""),
    ("renamenx l g", "new g, rename_from l, rename_to g"),
    ("copy g l", "new l, copy_to l"), ("copy g l", ""), ("copy g l replace", "new l, copy_to l"),
    ("copy g g", ""), ("copy g g db 1", "new g@1, copy_to g@1"), ("copy g g db 1", ""),
    ("copy g g db 1 replace", "new g@1, copy_to g@1"),
    ("move g 1", ""), ("move h 1", "new h@1, move_from h, move_to h@1"), ("move h 1", ""), ("move g 0", ""),
    ("expire k 100", "expire k"), ("expire k 100 nx", ""), ("pexpire k 100000 xx", "expire k"), ("expire k 50 gt", ""),
    ("expireat k 4000000000 gt", "expire k"), ("pexpireat k 4000000000000", "expire k"), ("expire none 100", ""),
    ("expire k x", ""), ("persist k", "persist k"), ("persist k", ""), ("persist none", ""), ("expire k 100 xx", ""),
    ("expire k -1 xx", ""), ("expire k -1", "del k"), ("expire l 0", "del l"), ("pexpireat i 1", "del i"),
    ("expireat j 1", "del j"), ("pexpire j -1", ""),
    ("zadd z 1 a", "new z, zadd z"), ("zadd z 1 a", ""), ("zadd z 2 a 1 b", "zadd z"), ("zadd z ch 2 a", ""),
    ("zadd z nx 3 a", ""), ("zadd z nx 3 a 3 c", "zadd z"), ("zadd z xx 3 d", ""), ("zadd z xx 3 a", "zadd z"),
    ("zadd z gt 2 a", ""), ("zadd z lt 2 a", "zadd z"), ("zadd y xx 1 a", ""), ("zadd z incr 1 a", "zincr z"),
    ("zadd z incr 0 a", ""), ("zadd z nx incr 1 a", ""), ("zadd y incr 1 a", "new y, zincr y"), ("zadd z x a", ""),
    ("zincrby z 1 a", "zincr z"), ("zincrby z 0 a", ""), ("zincrby z 0 e", "zincr z"),
    ("zincrby x 0 a", "new x, zincr x"), ("zincrby x inf a", "zincr x"), ("zincrby x -inf a", ""),
    ("zadd a 1 a", ""), ("append z x", ""), ("set x v", "set x"), ("getset z v", ""), ("zrank z a", ""),
    ("zrem z none", ""), ("zrem none a", ""), ("zrem z a none b", "zrem z"), ("zrem y a", "zrem y, del y"),
    ("zrem z c e", "zrem z, del z"), ("zrem z a", ""),
    ("zadd z 1 a 2 b 3 c 4 d 5 e 6 f", "new z, zadd z"), ("zremrangebyrank z 0 0", "zremrangebyrank z"),
    ("zremrangebyscore z 2 2", "zremrangebyscore z"), ("zremrangebyrank z 4 9", ""), ("zremrangebyscore z 9 9", ""),
    ("zremrangebyrank z 1 3", "zremrangebyrank z"), ("zremrangebyrank z 0 -1", "zremrangebyrank z, del z"),
    ("zremrangebyrank z 0 -1", ""), ("zadd z 1 a 2 b 3 c 4 d 5 e", "new z, zadd z"), ("expire z 100", "expire z"),
    ("zremrangebyscore z 1 4", "zremrangebyscore z"), ("persist z", "persist z"),
    ("zremrangebyscore z 5 5", "zremrangebyscore z, del z"), ("zremrangebyscore z 5 5", ""),
    ("zadd z 0 a 0 b 0 c 0 d", "new z, zadd z"), ("zremrangebylex z [a [c", "zremrangebylex z"),
    ("zremrangebylex z [a [c", ""), ("zremrangebylex z - +", "zremrangebylex z, del z"),
    ("zremrangebylex z - +", ""), ("zadd z 1 a 2 b 3 c 4 d 5 e 6 f 7 g", "new z, zadd z"), ("zpopmin z", "zpopmin z"),
    ("zpopmax z", "zpopmax z"), ("zpopmin z 0", ""), ("zpopmax z 4", "zpopmax z"), ("zpopmin z 9", "zpopmin z, del z"),
    ("zpopmin z", ""), ("zpopmax z 2", ""), ("zadd z 1 a", "new z, zadd z"), ("zpopmax z", "zpopmax z, del z"),
    ("touch a", ""), ("keys *", ""), ("scan 0", ""), ("randomkey", ""), ("type a", ""), ("object encoding a", ""),
    ("select 3", ""), ("set k v", "new k@3, set k@3"), ("swapdb 3 4", ""), ("set k v", "new k@3, set k@3"),
    ("move k 4", ""), ("move k 5", "new k@5, move_from k@3, move_to k@5"), ("flushdb", ""), ("select 4", ""),
    ("expire k 0", "del k@4"), ("set k v", "new k@4, set k@4"), ("flushdb", ""), ("set k v", "new k@4, set k@4"),
    ("select 0", ""), ("flushall", ""), ("flushall", ""), ("set k v", "new k, set k"), ("del k", "del k"),
]  # fmt: skip


@case(since=26)
def what_each_command_says(chapter: int) -> None:
    """The events of nearly two hundred requests, in order; `new` in front of the first of a key. Where nothing is
    changed, nothing is said. All commands that change keys are among them."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        lacking = with_flag(conn, b"write") - {line.split()[0] for line, _ in SAID}
        assert not lacking, f"SAID lacks {lacking}"
        want(conn, "KEAn")
        for line, expected in SAID:
            asks(conn, (line, ANY))
            expect_events(line, listener.events(conn), expected)


def with_flag(conn: Conn, flag: bytes) -> Set[str]:
    """The commands of the chapter that have this flag."""
    rows = conn.ask("command", "info", *(name for name in arity(conn.chapter) if name not in NOT_IN_REDIS))
    assert isinstance(rows, list)
    return {row[0].decode() for row in rows if flag in [bytes(each) for each in row[2]]}


@case(since=26)
def what_each_command_says_in_a_transaction(chapter: int) -> None:
    """The same, each in an EXEC of its own, and all in one. Before it, nothing."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other, Listener(server) as listener:
        want(conn, "KEAn")
        for line, expected in SAID:
            conn.pipeline([["multi"], words_of(line), ["exec"]], [OK, ANY, ANY])
            expect_events(f"{line}, in a transaction", listener.events(conn), expected)
        conn.pipeline([["multi"], *(words_of(line) for line, _ in SAID)])
        expect_events("requests that wait for EXEC", listener.events(other), "")
        asks(conn, ("exec", ANY))
        expect_events("all in one", listener.events(conn), ", ".join(events for _, events in SAID if events))
        for last in ("discard", "exec"):
            conn.pipeline([["multi"], ["set", "k", "v"], ["set"] if last == "exec" else ["ping"], [last]])
            expect_events("a transaction that is not done", listener.events(conn), "")


CLASS_OF: Dict[str, str] = {
    **dict.fromkeys("del rename_from rename_to move_from move_to copy_to expire persist".split(), "g"),
    **dict.fromkeys("set append setrange incrby incrbyfloat".split(), "$"),
    **dict.fromkeys(
        "zadd zincr zrem zpopmin zpopmax zremrangebyrank zremrangebyscore zremrangebylex".split(), "z"),
    "expired": "x", "new": "n", "keymiss": "m",
}  # fmt: skip


@case(since=26)
def each_class_by_itself(chapter: int) -> None:
    """Of the same requests, and others that miss a key, only what is in the classes that are wanted."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        requests = [words_of(line) for line, _ in SAID] + [["get", "none"], ["flushall"]]
        want(conn, "KEAnm")
        conn.pipeline(requests)
        every = listener.messages(conn)
        assert set(CLASS_OF) - {event for event, _, _ in both_sides(every)} == {"expired"}
        for wanted in ("Kg", "E$", "KEz", "KEx", "En", "Km", "KElshetd", "g$zm", "Kg$", "KEzn", "EA", "KEg$znm"):
            letters = wanted.replace("A", "g$lshzxetd")
            sides = ["__keyspace"] * ("K" in letters) + ["__keyevent"] * ("E" in letters)
            expected = [each for each in every if CLASS_OF[one_side(each)[0]] in letters
                        and each[0].startswith(tuple(side.encode() for side in sides))]  # fmt: skip
            want(conn, wanted)
            conn.pipeline(requests)
            got = listener.messages(conn)
            if got != expected:
                at = next((i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]), len(expected))
                fail(f"{NAME} is {wanted}: message {at + 1} of {len(got)} is {got[at : at + 1]}",
                     expected=f"{len(expected)} messages, and in that place {expected[at : at + 1]}")  # fmt: skip


# ---- keys that are missed ----

# How often each says that `none` is not there.
MISSES: List[Tuple[str, int]] = [
    ("get none", 1), ("mget none k none", 2), ("exists none k none", 2), ("touch none k none", 2), ("ttl none", 1),
    ("pttl none", 1), ("expiretime none", 1), ("pexpiretime none", 1), ("type none", 1), ("strlen none", 1),
    ("getrange none 0 1", 1), ("zscore none a", 1), ("zmscore none a b", 1), ("zcard none", 1), ("zrank none a", 1),
    ("zrevrank none a", 1), ("zcount none 0 1", 1), ("zlexcount none - +", 1), ("zrange none 0 -1", 1),
    ("zrange none 0 1 byscore", 1), ("zrevrange none 0 -1", 1), ("zrangebyscore none 0 1", 1),
    ("zrevrangebyscore none 1 0", 1), ("zrangebylex none - +", 1), ("zrevrangebylex none + -", 1), ("zscan none 0", 1),
    ("getex none", 1), ("getex none ex 100", 1), ("getdel none", 1), ("copy none l", 1), ("copy none l replace", 1),
    ("set none v xx get", 1),
]  # fmt: skip
# These say nothing: they are to change it, ask about something else, or are wrong.
NO_MISSES = [
    "del none", "unlink none", "expire none 100", "expireat none 4000000000", "persist none", "rename none k",
    "renamenx none l", "move none 1", "zrem none a", "zremrangebyrank none 0 -1", "zremrangebyscore none 0 1",
    "zremrangebylex none - +", "zpopmin none", "zpopmax none", "zadd none xx 1 a", "set none v xx",
    "setrange none 0 ''",
    "copy k none2 db 99", "incrby none x", "object encoding none", "object refcount none", "object idletime none",
    "memory usage none", "watch none", "unwatch", "scan 0", "keys none", "randomkey", "dbsize", "get",
    "getrange none x 1",
    "zrange none x 1", "zscan none x", "command docs none", "select 0",
]  # fmt: skip


@case(since=26, perhaps="a miss is what INFO counts: of commands that read a key, each key that is not there")
def who_says_that_a_key_is_missed(chapter: int) -> None:
    """Commands that read it, each time that they do; not those that change it, nor `object`, `memory` and `watch`."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        lacking = with_flag(conn, b"readonly") - {line.split()[0] for line in (*dict(MISSES), *NO_MISSES)}
        assert not lacking, f"MISSES lacks {lacking}"
        asks(conn, ("set k v", OK))
        want(conn, "KEAnm")
        own = [("zquery none 0 '' 0 10", 1)] * INSIDE  # Redis has it as a script
        for line, times in [*MISSES, *own, *((line, 0) for line in NO_MISSES)]:
            asks(conn, (line, ANY))
            expect_events(line, listener.events(conn), ", ".join(["keymiss none"] * times))
        for line, _ in MISSES:
            if line.split()[0] not in ("getex", "getdel", "copy", "set"):
                asks(conn, (line.replace("none", "k"), ANY))
                expect_events(f"{line}, where k is in the place of none", listener.events(conn), "")
        asks(conn, ("mget a k b a", ANY))
        expect_events("mget a k b a", listener.events(conn), "keymiss a, keymiss b, keymiss a")


@case(since=26, perhaps="publish the misses of a request before what it changes")
def a_miss_comes_before_the_change(chapter: int) -> None:
    """GETSET, and SET with GET: first the key is read, then it is set."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        want(conn, "KEAnm")
        for line, expected in (
            ("getset k v", "keymiss k, new k, set k"), ("set k v get", "keymiss k, new k, set k"),
            ("set k v nx get", "keymiss k, new k, set k"),
            ("set k v get ex 100", "keymiss k, new k, set k, expire k"),
        ):  # fmt: skip
            asks(conn, (line, NIL))
            expect_events(line, listener.events(conn), expected)
            asks(conn, ("flushall", OK), ("multi", OK), (line, QUEUED), ("exec", [None]), ("flushall", OK))
            expect_events(f"{line}, in a transaction", listener.events(conn), expected)


@case(since=26, perhaps="what a request has missed is not published until it is answered: one that is refused because "
                        "it is slow is asked again, and misses the same keys then")  # fmt: skip
def a_slow_request_misses_a_key_once(chapter: int) -> None:
    """A value of megabytes behind a key that is not there, or in front; alone, in a pipeline, in a transaction."""
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        big = filled(4 << 20)
        conn.pipeline([["set", "big", big], ["set", "k", "v"]], [OK, OK])
        want(conn, "KEAnm")
        for line, expected in (
            ("mget none big", "none"), ("mget big none", "none"), ("mget none big none2 big none", "none none2 none"),
            ("mget big big", ""), ("mget a b c d e k big k f", "a b c d e f"), ("get none", "none"), ("get big", ""),
        ):  # fmt: skip
            words = words_of(line)
            told = ", ".join(f"keymiss {key}" for key in expected.split())
            conn.pipeline([words])
            expect_events(line, listener.events(conn), told)
            conn.pipeline([["get", "a"], words, ["mget", "b", "c"], words, ["get", "d"]])
            around = [f"keymiss {key}" for key in f"a {expected} b c {expected} d".split()]
            expect_events(f"{line}, twice in a pipeline", listener.events(conn), ", ".join(around))
            conn.pipeline([["multi"], ["get", "a"], words, ["get", "b"], ["exec"]])
            around = [f"keymiss {key}" for key in f"a {expected} b".split()]
            expect_events(f"{line}, in a transaction", listener.events(conn), ", ".join(around))


@case(since=26)
def misses_in_a_transaction(chapter: int) -> None:
    """In their places between what is changed; none where EXEC does nothing."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other, Listener(server) as listener:
        want(conn, "KEAnm")
        lines = ["get a", "set k v", "mget b k c", "object encoding d", "exists a", "memory usage d", "del k", "get k",
                 "config resetstat", "ttl e", "copy a b", "zcard f"]  # fmt: skip
        told = ("keymiss a, new k, set k, keymiss b, keymiss c, keymiss a, del k, keymiss k, keymiss e, keymiss a, "
                "keymiss f")  # fmt: skip
        for _ in range(2):
            asks(conn, ("multi", OK), *((line, QUEUED) for line in lines))
            expect_events("requests that wait for EXEC", listener.events(other), "")
            asks(conn, ("exec", ANY))
            expect_events(", ".join(lines), listener.events(conn), told)
        asks(conn, ("multi", OK), ("get a", QUEUED), ("discard", OK),
             ("multi", OK), ("get a", QUEUED), ("get", ANY), ("exec", ANY),
             ("watch k", OK), ("set k v", OK), ("multi", OK), ("get a", QUEUED), ("exec", NIL))  # fmt: skip
        expect_events("three transactions that are not done", listener.events(conn), "new k, set k")


# ---- keys whose time is up ----

# k's time is up, and l is there. What these say then.
STALE: List[Tuple[str, str]] = [
    ("get k", "expired k, keymiss k"), ("mget l k k", "expired k, keymiss k, keymiss k"),
    ("exists k", "expired k, keymiss k"), ("touch k", "expired k, keymiss k"), ("ttl k", "expired k, keymiss k"),
    ("type k", "expired k, keymiss k"), ("strlen k", "expired k, keymiss k"), ("getex k", "expired k, keymiss k"),
    ("getdel k", "expired k, keymiss k"), ("copy k l replace", "expired k, keymiss k"),
    ("object encoding k", "expired k"), ("del k k", "expired k"), ("unlink k", "expired k"),
    ("expire k 100", "expired k"), ("persist k", "expired k"), ("move k 1", "expired k"), ("rename k l", "expired k"),
    ("zrem k a", "expired k"), ("set k v xx", "expired k"), ("randomkey", "expired k"), ("scan 0", "expired k"),
    ("set k v", "expired k, new k, set k"), ("set k v nx", "expired k, new k, set k"),
    ("setnx k v", "expired k, new k, set k"), ("mset l v k v", "set l, expired k, new k, set k"),
    ("msetnx k v", "expired k, new k, set k"), ("incr k", "expired k, new k, incrby k"),
    ("incrbyfloat k 1", "expired k, new k, incrbyfloat k"), ("append k x", "expired k, new k, append k"),
    ("setrange k 1 x", "expired k, new k, setrange k"), ("zadd k 1 a", "expired k, new k, zadd k"),
    ("rename l k", "expired k, new k, rename_from l, rename_to k"),
    ("renamenx l k", "expired k, new k, rename_from l, rename_to k"),
    ("copy l k", "expired k, new k, copy_to k"), ("copy l k replace", "expired k, new k, copy_to k"),
    ("flushdb", ""), ("flushall", ""), ("swapdb 0 1", ""), ("keys *", ""), ("dbsize", ""), ("get l", ""),
]  # fmt: skip
EXPIRES = "`expired` is said when the key is deleted: whoever comes upon it deletes it, or the cycle does"


@case(since=26, inside=INSIDE, perhaps=EXPIRES)
def a_stale_key_is_deleted(chapter: int) -> None:
    """That its time is up says nothing; that somebody comes upon it does, before anything else that is done."""
    with standing(chapter) as (clock, server, conn), Listener(server) as listener:
        want(conn, "KEAnm")
        for line, expected in STALE:
            asks(conn, ("flushall", OK), ("set l v", OK), ("set k v px 100", OK))
            listener.events(conn)
            marks = [f"publish '{MARK.decode()}' {listener.marks + i}" for i in (1, 2)]
            conn_late(clock, conn, [marks[0], *[line] * (60 if line == "randomkey" else 1), marks[1]])
            listener.marks += 2
            expect_events("the time of k is up", both_sides(listener.until(listener.marks - 1)), "")
            expect_events(f"k is stale, and then {line}", both_sides(listener.until(listener.marks)), expected)


@case(since=26, inside=INSIDE, perhaps="a watch ends when its key changes, and its copy of the name is freed: that "
                                       "copy must not be read any more, as a miss that is noted would do")  # fmt: skip
def a_watched_key_that_expires_is_no_miss(chapter: int) -> None:
    """It is EXEC that comes upon it. A long name is given back to the kernel at once, so who reads it then crashes."""
    with standing(chapter) as (clock, server, conn):
        for name in (b"k", filled(2 << 20)):
            want(conn, "KEm")
            conn.pipeline([["set", name, "v", "px", "100"], ["watch", name], ["multi"], ["ping"]])
            clock.passes(101)
            assert conn.pipeline([["echo", clock.WORD], ["exec"]])[1] is None, "a watched key has expired"
        still_serves(server)


def conn_late(clock: Clock, conn: Conn, lines: Sequence[str]) -> None:
    """These requests, all in one write, before which 101 ms pass: no cycle has come by since."""
    clock.passes(101)
    conn.pipeline([["echo", clock.WORD], *map(words_of, lines)])


@case(since=26, inside=INSIDE, perhaps=EXPIRES)
def the_cycle_deletes_a_key(chapter: int) -> None:
    """Nobody asks for it. Nothing is said until its time is up, then once; x is the class, and no other."""
    with standing(chapter) as (clock, server, conn), Listener(server) as listener:
        for classes in ("KEx", "KEAnm", "KEg$lshzetdnm"):
            want(conn, "")
            asks(conn, ("select 1", OK), ("set other v px 5000", OK), ("select 2", OK), ("set k v px 100", OK))
            want(conn, classes)
            clock.step(99)
            expect_events("a millisecond before its time is up", listener.events(conn), "")
            got: List[Event] = []
            for _ in range(20):
                clock.step(100)
                got += listener.events(conn)
            expect_events(f"the time of k is up, {NAME} is {classes}", got, "expired k@2" if "x" in classes or "A" in
                          classes else "")  # fmt: skip


@case(since=26, inside=INSIDE, perhaps=EXPIRES)
def the_cycle_deletes_many_keys(chapter: int) -> None:
    """In three databases, all at the same time: each is said once."""
    n = 400
    with standing(chapter) as (clock, server, conn), Listener(server) as listener:
        for db in (0, 7, 15):
            asks(conn, (f"select {db}", OK))
            conn.pipeline([["set", f"key:{i}", "v", *["px", "100"] * (i % 4 > 0)] for i in range(n)], [OK] * n)
        want(conn, "KEA")
        got: List[Event] = []
        for _ in range(300):
            clock.step(100)
            got += listener.events(conn)
            if len(got) >= 3 * n * 3 // 4:
                break
        clock.step(500)
        got += listener.events(conn)
        due = [("expired", b"key:%d" % i, db) for db in (0, 7, 15) for i in range(n) if i % 4 > 0]
        if sorted(got) != sorted(due):
            fail(f"{len(due)} keys are due; {len(got)} events are heard, {len(set(got) & set(due))} of the right ones")


# ---- who hears itself ----


def said_to_itself(key: str, *events: str) -> bytes:
    """What a listener to __keyspace@0__:* hears, in version 3, of these events."""
    pattern, channel = "__keyspace@0__:*", f"__keyspace@0__:{key}"
    return b"".join(b">" + array("pmessage", pattern, channel, event)[1:] for event in events)


def listen_to_itself(conn: Conn, classes: str) -> None:
    hello(conn, 3)
    want(conn, classes)
    raw(conn, array("psubscribe", "__keyspace@0__:*"), b">3\r\n$10\r\npsubscribe\r\n$16\r\n__keyspace@0__:*\r\n:1\r\n")


@case(since=26, perhaps="what a request publishes for its own connection goes into the replies, in front of its own")
def its_own_events_stand_in_front_of_the_reply(chapter: int) -> None:
    """To a connection that listens, in version 3; also in a transaction, between the replies of others."""
    say = said_to_itself
    with start(chapter) as server, server.connect() as conn:
        listen_to_itself(conn, "KAn")
        for line, came in (
            ("set k v", say("k", "new", "set") + b"+OK\r\n"),
            ("get k", b"$1\r\nv\r\n"),
            ("setex k 100 v", say("k", "set", "expire") + b"+OK\r\n"),
            ("persist k", say("k", "persist") + b":1\r\n"),
            ("append k w", say("k", "append") + b":2\r\n"),
            ("rename k l", say("l", "new") + say("k", "rename_from") + say("l", "rename_to") + b"+OK\r\n"),
            ("mset a 1 b 2", say("a", "new", "set") + say("b", "new", "set") + b"+OK\r\n"),
            ("incr a", say("a", "incrby") + b":2\r\n"),
            ("del a b l", say("a", "del") + say("b", "del") + say("l", "del") + b":3\r\n"),
            ("del a", b":0\r\n"),
            ("multi", b"+OK\r\n"), ("set a 1", b"+QUEUED\r\n"), ("get a", b"+QUEUED\r\n"), ("incr a", b"+QUEUED\r\n"),
            ("del a none", b"+QUEUED\r\n"),
            ("exec", b"*4\r\n" + say("a", "new", "set") + b"+OK\r\n$1\r\n1\r\n" + say("a", "incrby") + b":2\r\n"
             + say("a", "del") + b":1\r\n"),
        ):  # fmt: skip
            raw(conn, array(*words_of(line)), came)
        sent = [["set", "k", "v"], ["get", "k"], ["ping"], ["del", "k"], ["exists", "k"]]
        came = say("k", "new", "set") + b"+OK\r\n$1\r\nv\r\n+PONG\r\n" + say("k", "del") + b":1\r\n:0\r\n"
        raw(conn, b"".join(array(*words) for words in sent) * 500, came * 500)


@case(since=26, ours="Redis writes some of these behind the reply, and others within it")
def its_own_events_are_never_within_the_reply(chapter: int) -> None:
    """Of commands that reply first and change then, or miss keys in the middle of an array."""
    say, big = said_to_itself, filled(1 << 20)
    with start(chapter) as server, server.connect() as conn:
        listen_to_itself(conn, "KAm")
        for line, came in (
            ("set k v", say("k", "set") + b"+OK\r\n"), ("set k w get", say("k", "set") + b"$1\r\nv\r\n"),
            ("getex k ex 100", say("k", "expire") + b"$1\r\nw\r\n"), ("expire k 100", say("k", "expire") + b":1\r\n"),
            ("getdel k", say("k", "del") + b"$1\r\nw\r\n"), ("zadd z 1 a 2 b", say("z", "zadd") + b":2\r\n"),
            ("zpopmin z", say("z", "zpopmin") + b"*2\r\n$1\r\na\r\n,1\r\n"),
            ("zpopmax z 5", say("z", "zpopmax", "del") + b"*1\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
            ("get none", say("none", "keymiss") + b"_\r\n"),
            ("mget a b a", say("a", "keymiss") + say("b", "keymiss") + say("a", "keymiss") + b"*3\r\n_\r\n_\r\n_\r\n"),
        ):  # fmt: skip
            raw(conn, array(*words_of(line)), came)
        conn.send(array("set", "big", big))
        conn.expect_bytes(say("big", "set") + b"+OK\r\n")
        conn.send(array("mget", "a", "big", "b"))
        conn.expect_bytes(say("a", "keymiss") + say("b", "keymiss"))
        conn.expect_bytes(b"*3\r\n_\r\n$%d\r\n%s\r\n_\r\n" % (len(big), big))


# ---- random ones ----


@case(since=26)
def who_listens_knows_all_keys(chapter: int) -> None:
    """Random commands in several databases, on keys of which some expire: by the events alone, a listener knows which
    keys there are."""
    rng = random.Random(seed())
    there: Set[Tuple[bytes, int]] = set()
    with start(chapter) as server, server.connect() as conn, Listener(server) as listener:
        want(conn, "KEAn")
        generator = RespGenerator(chapter, rng)

        def hear() -> None:
            for event, key, db in listener.events(conn):
                if event == "new":
                    there.add((key, db))
                elif (key, db) not in there:
                    fail(f"{event} of {key!r} in {db}, which is not there by the events before",
                         expected="`new` in front of the first event of a key")  # fmt: skip
                if event in ("del", "expired", "rename_from", "move_from"):
                    there.remove((key, db))

        for _ in range(15):
            conn.pipeline(list(no_flushes(generator, rng, 100)))
            hear()
        for _ in range(20):
            for db in range(16):  # whoever asks for a stale key deletes it
                conn.pipeline([["select", f"{db}"], *(["exists", key] for key, its in there if its == db)])
            hear()
            left = {(key, db) for db in range(16)
                    for key in conn.pipeline([["select", f"{db}"], ["keys", "*"]])[1]}  # type: ignore[attr-defined]
            if there == left:
                return
    fail(f"by the events there are {sorted(there)}", expected=f"{sorted(left)}, as `keys *` says")


def no_flushes(generator: RespGenerator, rng: random.Random, n: int) -> Iterator[Sequence[Arg]]:
    """Random commands, without those that take all keys away and say nothing, and what Redis has as a script."""
    while n > 0:
        words = generator.command() if rng.random() < 0.9 else generator.soon(rng.choice(KEYS))
        if to_bytes(words[0]).lower() not in (b"flushdb", b"flushall", b"swapdb", b"publish", *NOT_IN_REDIS):
            n -= 1
            yield words


@case(since=26, ours="it is Redis that ours is compared with", time_limit=120)
def random_events_beside_redis(chapter: int) -> None:
    """Random commands in random databases, sent to ours and to Redis: after each, the same was heard."""
    settings.needs(redis.NAME)
    rng, generator = random.Random(seed()), RespGenerator(chapter, random.Random(seed() + 1))
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other, ExitStack() as stack:
        pair = [(stack.enter_context(each.connect()), stack.enter_context(Listener(each))) for each in (server, other)]
        for conn, _ in pair:
            want(conn, "KEAnm")
        before: List[str] = []
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            batch = [words for words in (generator.command() for _ in range(rng.choice([1, 20, 50])))
                     if is_even(words)]  # fmt: skip
            for conn, listener in pair:
                conn.pipeline([request for words in batch for request in (words, listener.mark())])
            first = pair[0][1].marks - len(batch) + 1
            for number, words in enumerate(batch, first):
                before.append(pair[0][0].codec.show_request(array(*words)))
                same_events(before, *(listener.until(number) for _, listener in pair))


@case(since=26, ours="it is Redis that ours is compared with", time_limit=120)
def random_events_of_transactions_beside_redis(chapter: int) -> None:
    """Three clients with transactions and watched keys, in any order, talk to ours and to Redis."""
    settings.needs(redis.NAME)
    rng, model = random.Random(seed()), RespModel(chapter)
    with start(chapter) as server, Server(chapter, command=[redis.NAME], early=True) as other, ExitStack() as stack:
        draw = Draw(chapter, rng)
        sides = []
        for each in (server, other):
            conns = [stack.enter_context(each.connect()) for _ in range(4)]
            want(conns[3], "KEAnm")
            sides.append((conns, stack.enter_context(Listener(each))))
        before: List[str] = []
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            number = model.client = rng.randrange(3)
            words = draw.words(model.in_multi())
            if not is_even(words):
                continue
            model.do(*words)
            before.append(f"{number}: {sides[0][0][0].codec.show_request(array(*words))}")
            for conns, _ in sides:
                conns[number].ask(*words)
            same_events(before, *(listener.messages(conns[3]) for conns, listener in sides))


def is_even(words: Sequence[bytes]) -> bool:
    """Does Redis know the command, and find no stale key in its own time? What is published to the channel without a
    name, Redis compares with no pattern."""
    return _is_known(words) and not (words[0].lower() == b"publish" and words[1:2] == [b""])


def same_events(before: Sequence[str], here: Sequence[Message], there: Sequence[Message]) -> None:
    if here != there:
        fail("behind\n" + "\n".join(f"  {line[:200]}" for line in before[-30:]) + f"\nis published {here}", "",
             f"{there}, as Redis says; the seed was {seed()}")  # fmt: skip


# ---- what it costs ----


@case(since=26, inside=True)
def where_nobody_wants_events(chapter: int) -> None:
    """They are off and somebody listens, or they are on and nobody does: each request is one round, and one write."""
    n, counts = 100, Counts()
    with start(chapter, env=counts.env) as server, server.connect() as conn, ExitStack() as stack:
        for classes, listens in (("", False), ("KEAnm", False), ("", True), ("KE", True), ("KEx", True)):
            want(conn, classes)
            listener = stack.enter_context(Listener(server)) if listens else None
            counts.reset()
            for i in range(n):
                asks(conn, (f"set k {i}", OK), ("get none", None), ("del k", 1))
            if counts.writes > 3 * n or counts.polls > 3 * n + 5:
                fail(f"{NAME} is {classes!r}, {'somebody' if listens else 'nobody'} listens: to answer {3 * n} "
                     f"requests the server has polled {counts.polls} times and written {counts.writes} times")
            if listener:
                assert listener.messages(conn) == []
                listener.conn.close()


def listen_to(conn: Conn, patterns: Sequence[str]) -> None:
    """All of these, by one request."""
    told = [array("psubscribe", pattern, "")[:-6] + b":%d\r\n" % (i + 1) for i, pattern in enumerate(patterns)]
    raw(conn, array("psubscribe", *patterns), b"".join(told))


@case(since=26, perhaps="what events cost is no part of what a transaction was priced at: let them not end its "
                        "allowance, or refuse it before the first")  # fmt: skip
def who_listens_does_not_cut_a_transaction(chapter: int) -> None:
    """Ten thousand SETs in an EXEC, and somebody who listens to fifty patterns: all are done, or else none is."""
    n = 10_000
    with start(chapter) as server, server.connect(seconds=20) as conn, server.connect() as other:
        listen_to(other, [f"__keyspace@0__:user:{i}:*" for i in range(50)])
        want(conn, "KEA")
        conn.pipeline([["multi"], *(["set", f"key:{i}", "v"] for i in range(n))])
        came = conn.ask("exec")
        done = conn.ask("dbsize")
        if done != (n if came == [OK] * n else 0):
            fail(f"of {n} SETs in a transaction {done} are done", expected=f"{n}, or none and an error for the EXEC")


@case(since=26, ours="Redis serves nobody until a whole read of a pipeline is done", time_limit=60,
      perhaps="what an event is compared with is work of the turn in which it is published: a turn ends when it has "
              "had its work")  # fmt: skip
def ten_thousand_patterns(chapter: int) -> None:
    """A `del` of many keys ends, and a pipeline of them is many turns: others are served in between. All is heard. One
    listener whose patterns all match, and who does not read, is closed."""
    n, names = 10_000, [f"key:{i}" for i in range(200)]
    event = "__keyevent@0__:del"

    def fill() -> None:
        want(conn, "")
        conn.pipeline([["set", name, "v"] for name in names], [OK] * len(names))
        want(conn, "KEA")

    def hear() -> None:
        other.expect_bytes(b"".join(array("pmessage", event, event, name) for name in names))
        other.unanswered.clear()

    with start(chapter) as server, ExitStack() as stack:
        conn, probe, other, deaf = (stack.enter_context(server.connect(seconds=30)) for _ in range(4))
        listen_to(other, [*(f"__keyevent@0__:none:{i:05}" for i in range(n)), event])
        fill()
        conn.ask("del", *names, expect=len(names))
        probe.ask("dbsize", expect=0)
        hear()
        fill()
        with paused(server):
            conn.send(b"".join(array("del", name) for name in names))
        seen: Set[object] = set()
        while 0 not in seen:
            seen.add(probe.ask("dbsize"))
        conn.expect_bytes(b":1\r\n" * len(names))
        hear()
        if len(seen) < 10:
            fail(f"while {len(names)} keys were deleted, each by a request, another client saw {len(seen)} numbers of "
                 "keys", expected="10 at least, so that others are served in between")  # fmt: skip
        fill()
        listen_to(deaf, [f"[_{i:05}]*" for i in range(n)])
        conn.ask("del", *names, expect=len(names))
        server.wait_line(re.compile("^closing a subscriber that does not read"))
        probe.ask("dbsize", expect=0)
        hear()
        still_serves(server)
