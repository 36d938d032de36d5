"""Times to live as Redis has them (22 and later): absolute times on the wall clock, keys that go when somebody asks for
them or when the cycle comes by, and what INFO counts. Where the clock is the test's, it is Redis's as well.
"""
from __future__ import annotations

import random
from contextlib import contextmanager
from typing import Iterator, List, Sequence, Tuple

from harness import AnyOrder, Between, Conn, Err, Server, fail, redis, seed
from harness.codec import codec
from harness.resp_model import RespModel
from harness.model import INT64_MAX, INT64_MIN
from harness.resp import NIL, OK, Score, Simple, arity, split_inline
from harness.wire import to_bytes

from . import COUNTED, SPINS, case
from .clock import HOUR, IDLE, Clock, closed_now, open_still
from .keyspace import NO_KEY, info
from .resp import NO_INT, SYNTAX, WRONG, asks, bad_count
from .talk import bulk, numbered, start

PERHAPS = COUNTED

INSIDE = not redis.is_tested()  # a case with our clock looks inside our servers, and into Redis
NEVER = 3_000_000_000_000  # a time that is far away, in milliseconds since 1970: in 2065


def bad_time(name: str) -> Err:
    """What is said of a time that is none, or does not fit."""
    return Err(4, f"ERR invalid expire time in '{name}' command")


@contextmanager
def standing(chapter: int) -> Iterator[Tuple[Clock, Server, Conn]]:
    """A server whose clocks are ours, and a connection."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        yield clock, server, conn


# ---- expire and its kin ----


@case(since=22, inside=INSIDE)
def one_time_in_all_units(chapter: int) -> None:
    """Relative or absolute, in seconds or milliseconds: kept as milliseconds of the wall clock, and told in each."""
    with standing(chapter) as (clock, _, conn):
        now = clock.wall_ms
        for line, ms in (
            ("expire k 100", 100_000), ("pexpire k 100500", 100_500), (f"expireat k {now // 1000 + 7}", 7000),
            (f"pexpireat k {now + 1}", 1), ("set k v ex 5", 5000), ("set k v px 5499", 5499),
            (f"set k v exat {now // 1000 + 9}", 9000), (f"set k v pxat {now + 77}", 77), ("setex k 3 v", 3000),
            ("psetex k 1500 v", 1500), ("getex k ex 4", 4000), ("getex k px 499", 499),
            (f"getex k exat {now // 1000 + 2}", 2000), (f"getex k pxat {now + 500}", 500),
            ("expire k 2147484", 2147484000), ("EXPIRE k 4294968 nx", 2147484000), ("Expire k 4294968 xx", 4294968000),
        ):  # fmt: skip
            nothing = line.startswith("EXPIRE")
            reply = OK if "set" in line else b"v" if line.startswith("get") else int(not nothing)
            if line == "expire k 100":
                asks(conn, ("set k v", OK))
            asks(conn, (line, reply), ("pttl k", ms), ("ttl k", (ms + 500) // 1000), ("pexpiretime k", now + ms),
                 ("expiretime k", (now + ms + 500) // 1000))  # fmt: skip
        asks(conn, ("persist k", 1), *((f"{name} k", -1) for name in ("ttl", "pttl", "expiretime", "pexpiretime")),
             *((f"{name} none", -2) for name in ("ttl", "pttl", "expiretime", "pexpiretime")))  # fmt: skip


@case(since=22)
def options_of_expire(chapter: int) -> None:
    """NX XX GT LT, in any spelling and number. No TTL is longer than each."""
    with start(chapter) as server, server.connect() as conn:
        for name, unit in (("expireat", 1000), ("pexpireat", 1)):
            def row(options: str, before: int, to: int, reply: int, after: int) -> None:
                asks(conn, ("set k v" + f" pxat {before}" * (before > 0), OK),
                     (f"{name} k {to // unit} {options}", reply), ("pexpiretime k", after))  # fmt: skip

            near, far = NEVER, NEVER + 1000
            for options, plain, less, equal, more in (
                ("", True, True, True, True), ("nx", True, False, False, False), ("xx", False, True, True, True),
                ("gt", False, False, False, True), ("lt", True, True, False, False),
                ("gt xx", False, False, False, True), ("XX LT", False, True, False, False),
                ("nx NX nX", True, False, False, False), ("lt lt xx xx", False, True, False, False),
                ("Gt", False, False, False, True),
            ):  # fmt: skip
                row(options, 0, near, int(plain), near if plain else -1)
                row(options, far, near, int(less), near if less else far)
                row(options, near, near, int(equal), near)
                row(options, near, far, int(more), far if more else near)
                asks(conn, (f"{name} none {near} {options}", 0))


@case(since=22)
def options_of_expire_and_the_past(chapter: int) -> None:
    """A time that is over deletes the key, where the options let it."""
    with start(chapter) as server, server.connect() as conn:
        for when in ("expire k -1", "expire k 0", "pexpire k -5", "pexpire k 0", "expireat k 0", "expireat k -3",
                     "expireat k 1", "pexpireat k 1600000000000", "pexpireat k -9223372036854775808"):  # fmt: skip
            for options, plain, lasting in (("", 1, 1), ("nx", 1, 0), ("xx", 0, 1), ("gt", 0, 0), ("lt", 1, 1),
                                            ("xx lt", 0, 1)):  # fmt: skip
                asks(conn, ("set k v", OK), (f"{when} {options}", plain), ("exists k", 1 - plain),
                     ("set k v ex 1000", OK), (f"{when} {options}", lasting), ("exists k", 1 - lasting),
                     ("ttl k", -2 if lasting else Between(900, 1000)), ("del k", 1 - lasting), (f"{when} {options}", 0),
                     ("dbsize", 0))  # fmt: skip


@case(since=21, inside=INSIDE)
def options_of_expire_in_a_moment(chapter: int) -> None:
    """Times from now on, while the clock stands still: NX XX GT LT in the first version that has them, to the
    millisecond. No TTL is longer than each."""
    with standing(chapter) as (_, _, conn):
        for name, unit in (("expire", 1000), ("PEXPIRE", 1)):
            for options, plain, less, equal, more in (
                ("", True, True, True, True), ("nx", True, False, False, False), ("xx", False, True, True, True),
                ("gt", False, False, False, True), ("lt", True, True, False, False),
                ("GT xx", False, False, False, True), ("xx LT", False, True, False, False),
            ):  # fmt: skip
                for before, to, takes in ((0, 5, plain), (5, 4, less), (5, 5, equal), (5, 6, more)):
                    asks(conn, ("set k v", OK), *[("pexpire k 5000", 1)] * (before > 0),
                         (f"{name} k {to * 1000 // unit} {options}", int(takes)),
                         ("pttl k", (to if takes else before) * 1000 or -1),
                         (f"{name} none {to} {options}", 0))  # fmt: skip
                for before, takes in ((0, plain), (5, less)):  # a time that is over is earlier than any
                    asks(conn, ("set k v", OK), *[("pexpire k 5000", 1)] * (before > 0),
                         (f"{name} k -1 {options}", int(takes)), ("exists k", int(not takes)))  # fmt: skip


@case(since=21)
def errors_of_expire(chapter: int) -> None:
    """Options first, one by one; then those that do not go together; then the number; whether or not there is a key."""
    nx = Err(4, "ERR NX and XX, GT or LT options at the same time are not compatible")
    both = Err(4, "ERR GT and LT options at the same time are not compatible")
    with start(chapter) as server, server.connect() as conn:
        for name in ("expire", "PEXPIRE", "expireat", "PEXPIREAT")[: 4 if codec(chapter).has_keyspace else 2]:
            for key in ("k", "none"):
                asks(conn, ("set k v", OK))
                for options, error in (
                    ("nx xx", nx), ("xx nx", nx), ("nx gt", nx), ("lt nx", nx), ("gt lt", both), ("lt gt xx", both),
                    ("gt lt nx", nx), ("nx xx gt lt", nx), ("ex", Err(4, "ERR Unsupported option ex")),
                    ("nx AB lt", Err(4, "ERR Unsupported option AB")), ("'' nx", Err(4, "ERR Unsupported option ")),
                    ("nx xx nonsense", Err(4, "ERR Unsupported option nonsense")),
                    ("gt 100", Err(4, "ERR Unsupported option 100")),
                ):  # fmt: skip
                    asks(conn, (f"{name} {key} 100 {options}", error),
                         (f"{name} {key} x {options}", error))  # fmt: skip
                for number in ("x", "''", "1.5", "1e3", "01", "+1", "9223372036854775808", "-9223372036854775809"):
                    asks(conn, (f"{name} {key} {number}", NO_INT), (f"{name} {key} {number} nx", NO_INT))
                asks(conn, (f"{name} {key}", bad_count(name.lower())), ("ttl k", -1))
        if codec(chapter).has_keyspace:
            asks(conn, ("expiretime", bad_count("expiretime")), ("pexpiretime k l", bad_count("pexpiretime")))


@case(since=22, inside=INSIDE)
def the_first_and_the_last_time(chapter: int) -> None:
    """All must fit 64 bits, in milliseconds, after the wall clock has been added where it is. Nothing wraps around."""
    with standing(chapter) as (clock, _, conn):
        left = INT64_MAX - clock.wall_ms
        for name, most, sets in (
            ("expire", left // 1000, 0), ("pexpire", left, 0), ("expireat", INT64_MAX // 1000, 0),
            ("pexpireat", INT64_MAX, 0), ("set|ex", left // 1000, 1), ("set|px", left, 1),
            ("set|exat", INT64_MAX // 1000, 1), ("set|pxat", INT64_MAX, 1), ("setex", left // 1000, 1),
            ("psetex", left, 1), ("getex|ex", left // 1000, 1), ("getex|px", left, 1),
            ("getex|exat", INT64_MAX // 1000, 1), ("getex|pxat", INT64_MAX, 1),
        ):  # fmt: skip
            command, _, option = name.partition("|")
            unit = 1 if name[0] == "p" or "|p" in name else 1000
            at = most * unit + (0 if name.endswith("at") else clock.wall_ms)

            def say(number: int) -> str:
                return {"set": f"set k v {option} {number}", "getex": f"getex k {option} {number}",
                        "setex": f"setex k {number} v", "psetex": f"psetex k {number} v"}.get(
                    command, f"{command} k {number}")  # fmt: skip

            asks(conn, ("set k v", OK), (say(most), b"v" if command == "getex" else OK if sets else 1),
                 ("pexpiretime k", at), ("expiretime k", (at + 500) // 1000), ("pttl k", at - clock.wall_ms),
                 ("ttl k", (at - clock.wall_ms + 500) // 1000), ("pexpireat k 3000000000000", 1))  # fmt: skip
            too_much = [INT64_MAX // 1000 + 1, INT64_MAX - 1, INT64_MAX, 2**64 // 1000 + 5] * (unit == 1000)
            for number in [*[most + 1] * (most < INT64_MAX), *[INT64_MAX] * (most < INT64_MAX), *too_much]:
                asks(conn, (say(number), bad_time(command)), ("pexpiretime k", NEVER))
            if sets:
                for number in (0, -1, INT64_MIN, -(INT64_MAX // 1000) - 1):
                    asks(conn, (say(number), bad_time(command)), ("pexpiretime k", NEVER))
            elif unit == 1000:
                least = -(-INT64_MIN // 1000)
                for number in (least - 1, INT64_MIN):
                    asks(conn, (say(number), bad_time(command)), ("pexpiretime k", NEVER))
                asks(conn, (say(least), 1), ("exists k", 0))
            else:
                asks(conn, (say(INT64_MIN), 1), ("exists k", 0))
            asks(conn, (say(INT64_MAX + 1), NO_INT), ("del k", int(bool(sets))))


# ---- set and its kin ----


@case(since=22)
def options_of_set(chapter: int) -> None:
    """Each with each: what goes together does, in any order and spelling; all else is a syntax error."""
    times = ["ex 1000", "px 1000000", f"exat {NEVER // 1000}", f"pxat {NEVER}"]
    with start(chapter) as server, server.connect() as conn:
        for when in times:
            ttl = Between(900, 10**10)
            asks(conn, ("del k", int(when != times[0])), (f"set k v {when} nx", OK), ("ttl k", ttl),
                 (f"SET k w {when.upper()} NX", NIL), (f"set k w xx {when}", OK), (f"set k v get xx {when} get", b"w"),
                 (f"set k w {when} {when}", OK), ("ttl k", ttl), ("set k v", OK), ("ttl k", -1),
                 (f"set k w {when}", OK), ("set k x keepttl", OK), ("ttl k", ttl),
                 ("set k y KeepTTL get xx keepttl", b"x"), ("ttl k", ttl), ("set k v xx", OK), ("ttl k", -1),
                 ("set k v keepttl", OK), ("ttl k", -1))  # fmt: skip
            for bad in (*(f"{when} {other}" for other in times if other != when), f"{when} keepttl", f"keepttl {when}",
                        when.split()[0], f"nx {when.split()[0]}", f"{when} persist",
                        f"{when} {when.split()[1]}"):  # fmt: skip
                asks(conn, (f"set k bad {bad}", SYNTAX), ("get k", b"v"), ("ttl k", -1))
        for bad in ("nx xx", "xx nx", "get nx xx", "persist", "nonsense", "''", "ex", "gt", "10", "keepttl persist"):
            asks(conn, (f"set k bad {bad}", SYNTAX), (f"set none bad {bad}", SYNTAX), ("get k", b"v"),
                 ("exists none", 0))  # fmt: skip


@case(since=22)
def times_of_set(chapter: int) -> None:
    """Not a number, or none above 0; said before anybody looks at the key, its type, or NX."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd z 1 a", 1), ("set k v", OK))
        for key in ("k", "z", "none"):
            for number, wrong in (("0", 0), ("-1", 0), ("-9223372036854775808", 0), ("x", 1), ("''", 1), ("1.5", 1),
                                  ("9223372036854775808", 1), ("01", 1)):  # fmt: skip
                for unit in ("ex", "px", "exat", "PXAT"):
                    error = NO_INT if wrong else bad_time("set")
                    asks(conn, (f"set {key} w {unit} {number}", error),
                         (f"set {key} w nx {unit} {number} get", error))  # fmt: skip
                asks(conn, (f"setex {key} {number} w", NO_INT if wrong else bad_time("setex")),
                     (f"psetex {key} {number} w", NO_INT if wrong else bad_time("psetex")))  # fmt: skip
            asks(conn, (f"set {key} w ex x px", SYNTAX), (f"set {key} w ex x nonsense", SYNTAX))
        asks(conn, ("get k", b"v"), ("ttl k", -1), ("type z", Simple(b"zset")), ("dbsize", 2))


@case(since=22)
def set_and_get_at_once(chapter: int) -> None:
    """What the key had before, whether or not it is set now; and of the wrong type nothing is set."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k a get", NIL), ("get k", b"a"), ("set k b get", b"a"), ("set k c nx get", b"b"),
             ("get k", b"b"), ("set k c get xx", b"b"), ("get k", b"c"), ("set l v xx get", NIL), ("exists l", 0),
             ("set l v nx get", NIL), ("get l", b"v"), ("set k d ex 1000 get", b"c"), ("set k e get nx ex 5", b"d"),
             ("ttl k", Between(900, 1000)), ("set k f get keepttl", b"d"), ("ttl k", Between(900, 1000)),
             ("set k g get", b"f"), ("ttl k", -1), ("zadd z 1 a", 1), ("expire z 1000", 1))  # fmt: skip
        for line in ("set z v get", "set z v nx get", "set z v xx get", "set z v get ex 5", "set z v get keepttl",
                     "getset z v", "getdel z", "getex z", "getex z persist", "getex z ex 10",
                     "getex z pxat 1"):  # fmt: skip
            asks(conn, (line, WRONG), ("zscore z a", 1.0), ("ttl z", Between(900, 1000)))
        asks(conn, ("getex z ex 0", WRONG), ("getex z ex x", WRONG), ("set z v get ex 0", bad_time("set")),
             ("set z v nx", NIL), ("set z v xx", OK), ("get z", b"v"), ("ttl z", -1))  # fmt: skip


@case(since=22)
def setex_and_setnx(chapter: int) -> None:
    """They replace any type; setnx replaces none, and leaves the TTL."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("zadd k 1 a", 1), ("SETEX k 1000 v", OK), ("get k", b"v"), ("ttl k", Between(900, 1000)),
             ("psetex k 5000000 w", OK), ("get k", b"w"), ("ttl k", Between(4900, 5000)), ("setnx k x", 0),
             ("get k", b"w"), ("ttl k", Between(4900, 5000)), ("setnx l x", 1), ("get l", b"x"), ("ttl l", -1),
             ("zadd z 1 a", 1), ("psetex z 1000000 v", OK), ("type z", Simple(b"string")),
             ("setex k 10", bad_count("setex")), ("psetex k 10 v nx", bad_count("psetex")),
             ("setnx k v nx", bad_count("setnx")))  # fmt: skip


@case(since=22)
def getex(chapter: int) -> None:
    """It gives the value, and the key a new TTL, or none; nothing to a key that is not there."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("getex k", b"v"), ("ttl k", -1), ("getex k ex 1000", b"v"),
             ("ttl k", Between(900, 1000)), ("getex k", b"v"), ("ttl k", Between(900, 1000)),
             ("GETEX k PX 5000000", b"v"), ("ttl k", Between(4900, 5000)), ("getex k persist", b"v"), ("ttl k", -1),
             ("getex k persist persist", b"v"), (f"getex k pxat {NEVER}", b"v"), ("pexpiretime k", NEVER),
             (f"getex k exat {NEVER // 1000 + 1}", b"v"), ("pexpiretime k", NEVER + 1000),
             ("getex k ex 1000 ex 500", b"v"), ("ttl k", Between(400, 500)))  # fmt: skip
        for past in ("exat 1", "pxat 1", "pxat 1600000000000"):
            asks(conn, ("set k v ex 1000", OK), (f"getex k {past}", b"v"), ("dbsize", 0), ("exists k", 0),
                 ("ttl k", -2), (f"getex k {past}", None))  # fmt: skip
        asks(conn, ("set k v", OK))
        for bad in ("ex", "nx", "xx", "get", "keepttl", "nonsense", "ex 10 px 10", "persist ex 10", "ex 10 persist",
                    "ex 10 exat 10", "pxat 10 px 10", "ex x nonsense", "persist keepttl"):  # fmt: skip
            for key in ("k", "none"):
                asks(conn, (f"getex {key} {bad}", SYNTAX), ("ttl k", -1))
        for unit in ("ex", "px", "exat", "pxat"):
            for number, error in (("0", bad_time("getex")), ("-1", bad_time("getex")), ("x", NO_INT), ("''", NO_INT)):
                asks(conn, (f"getex k {unit} {number}", error), (f"getex none {unit} {number}", None),
                     ("ttl k", -1))  # fmt: skip
        asks(conn, ("getex", bad_count("getex")), ("getex k ex 10 10", SYNTAX))


@case(since=22)
def getdel_and_getset(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("getdel k", None), ("getset k a", None), ("getset k b", b"a"), ("expire k 1000", 1),
             ("getset k c", b"b"), ("ttl k", -1), ("expire k 1000", 1), ("getdel k", b"c"), ("getdel k", None),
             ("ttl k", -2), ("set k v", OK), ("ttl k", -1), ("getdel", bad_count("getdel")),
             ("getdel k k", bad_count("getdel")), ("getset k", bad_count("getset")),
             ("getset k v w", bad_count("getset")), ("get k", b"v"))  # fmt: skip


@case(since=22)
def what_keeps_the_ttl(chapter: int) -> None:
    """Whoever changes a value keeps it, whoever sets a new one takes it away."""
    kept, gone = Between(900, 1000), -1
    with start(chapter) as server, server.connect() as conn:
        for make, line, reply, ttl in (
            ("set k 5", "incr k", 6, kept), ("set k 5", "decrby k 9", -4, kept), ("set k 5", "append k 55", 3, kept),
            ("set k 5", "append k ''", 1, kept), ("set k 5", "append k " + "x" * 4000, 4001, kept),
            ("zadd k 1 a", "zadd k 2 b", 1, kept), ("zadd k 1 a", "zincrby k 1 a", Score(2), kept),
            ("zadd k 1 a 2 b", "zrem k a", 1, kept), ("set k 5", "getex k", b"5", kept),
            ("set k 5", "setnx k v", 0, kept), ("set k 5", "set k v nx", NIL, kept),
            ("set k 5", "set k v keepttl", OK, kept), ("set k 5", "touch k", 1, kept),
            ("zadd k 1 a", "set k v keepttl", OK, kept), ("set k 5", "set k " + "x" * 4000 + " keepttl", OK, kept),
            ("set k 5", "rename k k", OK, kept), ("set k 5", "set k", bad_count("set"), kept),
            ("set k 5", "expire k x", NO_INT, kept), ("set k a", "incr k", NO_INT, kept),
            ("set k 5", "zadd k 1 a", WRONG, kept), ("set k 5", "copy k other replace", 1, kept),
            ("set k 5", "set k v", OK, gone), ("set k 5", "set k v xx", OK, gone), ("zadd k 1 a", "set k v", OK, gone),
            ("set k 5", "mset other 1 k 2", OK, gone), ("set k 5", "getset k v", b"5", gone),
            ("set k 5", "getex k persist", b"5", gone), ("set k 5", "set k v get", b"5", gone),
            ("set k 5", "persist k", 1, gone),
        ):  # fmt: skip
            asks(conn, ("flushall", OK), (make, OK if make[0] == "s" else len(make.split()) // 2 - 1),
                 ("expire k 1000", 1), (line, reply), ("ttl k", ttl))  # fmt: skip


# ---- keys that are past their time ----

# A command whose key is past its time, its reply, what `ttl` and `type` say of the key then.
LATE: List[Tuple[str, object, int, str]] = [
    ("get k", None, -2, "none"), ("set k v nx", OK, -1, "string"), ("set k v xx", NIL, -2, "none"),
    ("set k v get", NIL, -1, "string"), ("set k v keepttl", OK, -1, "string"), ("setnx k v", 1, -1, "string"),
    ("set k v xx get", NIL, -2, "none"), ("setex k 1000 v", OK, 1000, "string"), ("getex k ex 100", None, -2, "none"),
    ("getex k persist", None, -2, "none"), ("getdel k", None, -2, "none"), ("getset k v", None, -1, "string"),
    ("mget k k", [None, None], -2, "none"), ("incr k", 1, -1, "string"), ("append k x", 1, -1, "string"),
    ("strlen k", 0, -2, "none"), ("zadd k 1 new", 1, -1, "zset"), ("zincrby k 2 old", Score(2), -1, "zset"),
    ("zcard k", 0, -2, "none"), ("zscore k old", None, -2, "none"), ("zrange k 0 -1", [], -2, "none"),
    ("zrem k old", 0, -2, "none"), ("exists k k", 0, -2, "none"), ("type k", Simple(b"none"), -2, "none"),
    ("touch k", 0, -2, "none"), ("ttl k", -2, -2, "none"), ("pttl k", -2, -2, "none"), ("expiretime k", -2, -2, "none"),
    ("pexpiretime k", -2, -2, "none"), ("persist k", 0, -2, "none"), ("expire k 100", 0, -2, "none"),
    ("expire k 100 nx", 0, -2, "none"), ("expire k 100 lt", 0, -2, "none"), ("pexpireat k 1", 0, -2, "none"),
    ("del k", 0, -2, "none"), ("unlink k", 0, -2, "none"), ("object encoding k", None, -2, "none"),
    ("rename k l", NO_KEY, -2, "none"), ("rename k k", NO_KEY, -2, "none"), ("renamenx k l", NO_KEY, -2, "none"),
    ("move k 1", 0, -2, "none"), ("copy k l", 0, -2, "none"), ("copy k l replace", 0, -2, "none"),
    ("rename here k", OK, -1, "string"), ("renamenx here k", 1, -1, "string"), ("copy here k", 1, -1, "string"),
    ("rename lasts k", OK, 999, "string"), ("copy lasts k", 1, 999, "string"), ("randomkey", b"here", -2, "none"),
    ("keys *", AnyOrder([b"here", b"lasts"]), -2, "none"),
    ("scan 0", [b"0", AnyOrder([b"here", b"lasts"])], -2, "none"), ("mset k v l w", OK, -1, "string"),
    ("swapdb 0 0", OK, -2, "none"),
]  # fmt: skip


@case(since=22, inside=INSIDE,
      perhaps="whoever looks a key up compares its date with the clock, removes it if that is over, and counts "
              "it")  # fmt: skip
def whoever_asks_first(chapter: int) -> None:
    """Each command as the first that comes upon a key whose time is over: for all of them it is not there. What comes
    in its place has no TTL of its own, and the key counts as expired, once."""
    for make in ("set k old", "zadd k 1 old"):
        with standing(chapter) as (clock, _, conn):
            for line, reply, ttl, kind in LATE:
                if not _has(chapter, line.split()):
                    continue
                asks(conn, ("flushall", OK), (make, OK if make[0] == "s" else 1), ("pexpire k 1000", 1),
                     ("set here v", OK), *[("set lasts v ex 1000", OK)] * (line != "randomkey"),
                     ("config resetstat", OK))  # fmt: skip
                clock.set_wall(1001)
                asks(conn, (line, reply), ("ttl k", ttl), ("type k", Simple(kind.encode())))
                counted = info(conn, "stats")["expired_keys"]
                if counted != "1":
                    fail(f"{line}, where the time of k is over: then expired_keys is {counted}", "", "1")


@case(since=22, inside=INSIDE)
def there_in_its_last_millisecond(chapter: int) -> None:
    """And not in the next one, whatever it was given its time by, and however much that was."""
    with standing(chapter) as (clock, _, conn):
        for ms in (70, 2**31 - 1, 2**31, 2**32 + 1, 2**40):
            for line in (f"set k v px {ms}", f"psetex k {ms} v", f"pexpire k {ms}", f"getex k px {ms}",
                         f"set k v pxat {clock.wall_ms + ms}", f"pexpireat k {clock.wall_ms + ms}"):  # fmt: skip
                asks(conn, ("set k v", OK))
                conn.ask(*line.split())
                clock.set_wall(ms)
                asks(conn, ("pttl k", 0), ("get k", b"v"), ("exists k", 1), ("ttl k", 0))
                clock.set_wall(1)
                asks(conn, ("pttl k", -2), ("get k", None))
                clock.set_wall(-ms - 1)


@case(since=22)
def set_in_the_past(chapter: int) -> None:
    """A `set` with a time that is over is done, and nobody sees what it has set."""
    with start(chapter) as server, server.connect() as conn:
        for when in ("pxat 1", "exat 1", "pxat 1600000000000"):
            asks(conn, ("set k old", OK), (f"set k v {when}", OK), ("get k", None), ("dbsize", 0), ("zadd k 1 a", 1),
                 (f"set k v {when} get nx", WRONG), (f"set k v {when} nx", NIL), (f"set k v {when} xx", OK),
                 ("exists k", 0), (f"set k v {when} nx", OK), ("ttl k", -2), ("incr k", 1), ("ttl k", -1),
                 (f"set k v get {when}", b"1"), ("keys *", []), ("del k", 0))  # fmt: skip


@case(since=22, inside=INSIDE)
def random_dates(chapter: int) -> None:
    """Random commands in three databases, and steps of time between them that often end right at a deadline. Every
    answer is known to the millisecond."""
    rng = random.Random(seed())
    with standing(chapter) as (clock, _, conn):
        model = RespModel(chapter, clock=lambda: clock.wall_ms)
        for _ in range(100):
            drawn = [_random_dated(rng, clock.wall_ms) for _ in range(60)]
            requests = [words for words in drawn if _has(chapter, words)]
            conn.pipeline(requests, [model.do(*words) for words in requests])
            soon = sorted(ms for each in model.databases for ms in each.deadlines.values() if ms > clock.wall_ms)[:5]
            if soon and rng.random() < 0.8:
                clock.step(max(0, rng.choice(soon) - clock.wall_ms + rng.choice([-1, 0, 0, 1, 1])))
            else:
                clock.step(rng.choice([0, 0.3, 1, 7, 400]))
        for number in range(3):
            names = ("get", "pexpiretime", "ttl")
            checks = [["select", number], ["keys", "*"], *([name, f"k{i}"] for i in range(20) for name in names)]
            conn.pipeline(checks, [model.do(*words) for words in checks])


def _has(chapter: int, words: Sequence[object]) -> bool:
    """Is there such a command in the chapter?"""
    return to_bytes(str(words[0])) in arity(chapter)


def _random_dated(rng: random.Random, now_ms: int) -> List[object]:
    """A command on one key or two of twenty, with a time that is soon, or just over."""
    key, other = f"k{rng.randrange(20)}", f"k{rng.randrange(20)}"
    ms = rng.choice([1, 2, 499, 500, 501, 1500, 10, 10**9])
    date, db = now_ms + ms - rng.choice([0, 0, 0, ms, ms + 1]), rng.randrange(3)
    option = rng.choice([[], [], [], ["nx"], ["xx"], ["gt"], ["lt"]])
    commands: List[Tuple[int, List[object]]] = [
        (6, ["pexpireat", key, date, *option]), (4, ["pexpire", key, ms, *option]), (2, ["expire", key, 1, *option]),
        (2, ["expireat", key, date // 1000 + 1, *option]), (6, ["set", key, "v"]), (3, ["set", key, "v", "pxat", date]),
        (2, ["set", key, "v", "px", ms, "nx"]), (2, ["set", key, "v", "keepttl", "get"]), (1, ["setex", key, 1, "v"]),
        (3, ["getex", key, "pxat", date]), (1, ["getex", key, "persist"]), (1, ["getdel", key]),
        (1, ["getset", key, "v"]), (2, ["append", key, "w"]), (1, ["del", key]), (1, ["persist", key]),
        (1, ["setnx", key, "v"]), (1, ["exists", key]),
        (2, ["rename", key, other]), (2, ["renamenx", key, other]), (2, ["copy", key, other, *["replace"] * (ms & 1)]),
        (2, ["copy", key, other, "db", db]), (3, ["move", key, db]), (1, ["swapdb", db, rng.randrange(3)]),
        (2, ["select", db]), (2, ["ttl", key]), (3, ["pttl", key]), (3, ["pexpiretime", key]),
        (1, ["expiretime", key]), (2, ["get", key]), (1, ["dbsize"]), (1, ["keys", "*"]), (1, ["randomkey"]),
        (1, ["mset", key, "v", other, "w"]),
    ]  # fmt: skip
    return rng.choices([words for _, words in commands], [weight for weight, _ in commands])[0]


# ---- what is counted ----


def counted(conn: Conn, *names: str) -> Tuple[int, ...]:
    """Some counters of INFO."""
    lines = {**info(conn, "stats"), **info(conn, "persistence")}
    return tuple(int(lines[name]) for name in names)


# Commands, and how many keys they have found and missed. s and n are strings, z is a sorted set.
LOOKS: List[Tuple[str, int, int]] = [
    ("get s", 1, 0), ("get none", 0, 1), ("get z", 1, 0), ("mget s none z none", 2, 2), ("strlen s", 1, 0),
    ("strlen none", 0, 1), ("exists s z none s", 3, 1), ("ttl s", 1, 0), ("ttl none", 0, 1), ("pttl s", 1, 0),
    ("expiretime s", 1, 0), ("pexpiretime none", 0, 1), ("type s", 1, 0), ("type none", 0, 1), ("touch s z none", 2, 1),
    ("object encoding s", 1, 0), ("object encoding none", 0, 1), ("object refcount s", 1, 0), ("zscore z a", 1, 0),
    ("zscore z none", 1, 0), ("zscore none a", 0, 1), ("zcard z", 1, 0), ("zcard s", 1, 0), ("zrank z a", 1, 0),
    ("zrevrank none a", 0, 1), ("zcount z 0 1", 1, 0), ("zrange z 0 -1", 1, 0), ("zrange none 0 -1", 0, 1),
    ("zrangebyscore z 0 1", 1, 0), ("zrange z x 1", 0, 0), ("getex s", 1, 0), ("getex none", 0, 1),
    ("getex none ex x", 0, 1), ("getex s ex x", 1, 0), ("getex s nonsense", 0, 0), ("getset n 1", 1, 0),
    ("getdel none", 0, 1), ("getdel z", 1, 0), ("set s v get", 1, 0), ("set none v xx get", 0, 1), ("set s v", 0, 0),
    ("set s v nx", 0, 0), ("setnx s v", 0, 0), ("setex s 100 v", 0, 0), ("mset s v n 1", 0, 0), ("incr n", 0, 0),
    ("append s x", 0, 0), ("zadd z 1 a", 0, 0), ("zincrby z 1 a", 0, 0), ("zrem z none", 0, 0), ("expire s 100", 0, 0),
    ("expire none 100", 0, 0), ("persist s", 0, 0), ("del none", 0, 0), ("unlink none", 0, 0), ("rename s s", 0, 0),
    ("renamenx none s", 0, 0), ("move none 1", 0, 0), ("move s 1", 0, 0), ("copy n s", 1, 0), ("copy none s", 0, 1),
    ("copy n s replace", 1, 0), ("copy n n", 0, 0), ("keys *", 0, 0), ("dbsize", 0, 0), ("randomkey", 0, 0),
    ("scan 0", 0, 0), ("swapdb 0 1", 0, 0),
    ("swapdb 0 1", 0, 0), ("flushdb", 0, 0),
]  # fmt: skip


@case(since=22)
def hits_and_misses(chapter: int) -> None:
    """Each key that a command looks up to read it is found or not; what looks a key up to write it does not count."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set s v", OK), ("set n 1", OK), ("zadd z 1 a", 1))
        for line, *expected in (row for row in LOOKS if _has(chapter, row[0].split())):
            before = counted(conn, "keyspace_hits", "keyspace_misses")
            conn.ask(*split_inline(line.encode()))
            after = counted(conn, "keyspace_hits", "keyspace_misses")
            got = [after[0] - before[0], after[1] - before[1]]
            if got != expected:
                fail(f"{line}: found {got[0]} keys, missed {got[1]}", "", f"found {expected[0]}, missed {expected[1]}")
            if line.startswith("move s"):
                asks(conn, ("set s v", OK))
        bulk(conn, numbered(range(20_000), "zadd", "large", "######", "name:######"), 1)
        before = counted(conn, "keyspace_hits", "keyspace_misses")
        assert len(conn.ask("zrange", "large", "0", "-1")) == 20_000  # type: ignore[arg-type]
        if counted(conn, "keyspace_hits", "keyspace_misses") != (before[0] + 1, before[1]):
            fail("a request that takes long and was put off counts its key more than once", "", "one hit")


# Commands, and how many changes each of them is: what Redis would tell as an event of the key space is one.
CHANGES: List[Tuple[str, int]] = [
    ("set k v", 1), ("set k w", 1), ("set k v nx", 0), ("set k v get", 1), ("setnx k v", 0), ("setex k 100 v", 2),
    ("mset a 1 b 2 a 3", 3), ("incr a", 1), ("incr k", 0), ("append k x", 1), ("append k ''", 1), ("get k", 0),
    ("getex k", 0), ("getex k ex 100", 1), ("getex k persist", 1), ("getex k persist", 0), ("getset k v", 1),
    ("getset none v", 1), ("getdel none", 1), ("getdel none", 0), ("expire k 100", 1), ("expire k 100 nx", 0),
    ("expire none 100", 0), ("persist k", 1), ("persist k", 0), ("expire k -1", 1), ("del k", 0), ("del a b none", 2),
    ("set k v", 1), ("unlink k", 1), ("zadd z 1 a 2 b", 1), ("zadd z 1 a 3 b 4 c", 1), ("zadd z 1 a", 0),
    ("zincrby z 1 a", 1), ("zincrby z 0 a", 0), ("zadd y inf a", 1), ("zincrby y -inf a", 0), ("zrem z none", 0),
    ("zrem z a b none", 1), ("del y", 1), ("rename z y", 2), ("rename y y", 0), ("rename none y", 0), ("copy y z", 1),
    ("copy y z", 0), ("renamenx y z", 0), ("move z 1", 2), ("move z 1", 0), ("touch y", 0), ("type y", 0),
    ("swapdb 0 1", 2), ("swapdb 1 0", 2), ("swapdb 1 1", 0), ("zrem y c", 2), ("set k v", 1), ("flushdb", 1),
    ("flushdb", 0), ("flushall", 1), ("flushall", 0), ("set k v pxat 1", 2), ("get k", 0), ("select 0", 0),
    ("dbsize", 0),
]  # fmt: skip


@case(since=22, ours="Redis counts the pairs of a set that have changed, and once for both names of a key",
      perhaps="db_changed() is called once for each thing that has happened to a key, and not where nothing has")
def every_change_counts(chapter: int) -> None:
    """rdb_changes_since_last_save: each event counts once, and what finds nothing to change is none."""
    with start(chapter) as server, server.connect() as conn:
        for line, expected in CHANGES:
            (before,) = counted(conn, "rdb_changes_since_last_save")
            conn.ask(*split_inline(line.encode()))
            (after,) = counted(conn, "rdb_changes_since_last_save")
            if after - before != expected:
                fail(f"{line}: {after - before} more changes", "", f"{expected}")


@case(since=22, inside=INSIDE)
def expired_keys(chapter: int) -> None:
    """Counted once each, whoever came upon them: a command that reads or writes, or the cycle. What is deleted by a
    command with a time in the past does not count."""
    with standing(chapter) as (clock, _, conn):
        for i in range(12):
            asks(conn, (f"set k{i} v px {1000 if i < 6 else 2000}", OK))
        clock.set_wall(1001)
        asks(conn, ("get k0", None), ("get k0", None), ("set k1 v", OK), ("incr k2", 1), ("del k3 k0", 0),
             ("exists k4", 0))  # fmt: skip
        assert counted(conn, "expired_keys", "keyspace_hits", "keyspace_misses") == (5, 0, 3)
        asks(conn, ("expire k1 -1", 1), ("set k2 v pxat 1", OK), ("get k2", None),
             ("getex k6 pxat 1", b"v"))  # fmt: skip
        assert counted(conn, "expired_keys") == (6,)
        for _ in range(20):
            clock.step(100)
        if not codec(chapter).has_cycle and INSIDE:
            asks(conn, ("exists k7 k8 k9 k10 k11", 0), ("config resetstat", OK), ("exists k5", 0))
            assert counted(conn, "expired_keys", "keyspace_misses") == (1, 1)
            return
        assert counted(conn, "expired_keys", "keyspace_hits", "keyspace_misses") == (12, 1, 4)
        asks(conn, ("dbsize", 0), ("config resetstat", OK), ("get none", None))
        assert counted(conn, "expired_keys", "keyspace_hits", "keyspace_misses") == (0, 0, 1)


@case(since=22)
def counters_begin_anew(chapter: int) -> None:
    """config resetstat: what has been counted, and not what is."""
    names = ("keyspace_hits", "keyspace_misses", "expired_keys")
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("get k", b"v"), ("get none", None), ("set k v pxat 1", OK), ("get k", None),
             ("set k v ex 1000", OK))  # fmt: skip
        assert counted(conn, *names) == (1, 2, 1)
        asks(conn, ("config resetstat", OK))
        assert set(counted(conn, *names)) == {0}
        assert counted(conn, "rdb_changes_since_last_save") > (2,) and "db0" in info(conn, "keyspace")
        assert int(info(conn, "stats")["total_commands_processed"]) < 10


# ---- keys that nobody asks for, and their last use ----


@case(since=22, until=23, inside=True, perhaps="both lookups delete a key whose time is up, and nobody else does")
def keys_nobody_asks_for_stay(chapter: int) -> None:
    """However long their time is up. They are counted, and not shown; who asks for one deletes it, and no other. And
    the server does not wake up for them."""
    n = 1000
    with standing(chapter) as (clock, _, conn):
        bulk(conn, numbered(range(n), "set", "key:######", "v", "px", "1000"), OK)
        clock.rest()
        if clock.until_ms is not None:
            fail(f"a key has a deadline, and the server waits only for {clock.until_ms - clock.now_ms} ms",
                 "nothing is done at a deadline: no timer is set for it", "it waits for a client")  # fmt: skip
        clock.step(HOUR)
        asks(conn, ("keys *", []), ("dbsize", n), ("get key:000500", None), ("dbsize", n - 1),
             ("set key:000501 v", OK), ("dbsize", n - 1), ("ttl key:000501", -1))  # fmt: skip
        assert counted(conn, "expired_keys") == (2,)
        assert info(conn, "keyspace")["db0"].startswith("keys=999,expires=998")
        for some, there in ((range(501), 0), (range(501, 502), 1), (range(502, n), 0)):
            bulk(conn, numbered(some, "touch", "key:######"), there)
        asks(conn, ("dbsize", 1))


# Commands, and whether they are a use of the key k. Small numbers are one value for all keys in Redis.
USES: List[Tuple[str, bool]] = [
    ("get k", True), ("set k 50000", True), ("set k 50000 get", True), ("set k 50000 nx", True), ("mget x k", True),
    ("mset x 1 k 50000", True), ("incr k", True), ("append k 5", True), ("strlen k", True), ("getex k", True),
    ("expire k 1000", True), ("persist k", True), ("touch k", True), ("rename k k", True), ("copy k x replace", True),
    ("setnx k v", True), ("zadd k 1 a", True), ("zscore k a", True), ("exists k", False), ("type k", False),
    ("ttl k", False), ("pttl k", False), ("expiretime k", False), ("pexpiretime k", False), ("keys *", False),
    ("object encoding k", False), ("object idletime k", False), ("memory usage k", False), ("dbsize", False),
    ("get x", False), ("scan 0", False),
]  # fmt: skip


@case(since=22, inside=INSIDE,
      perhaps="both lookups note when a key was used; what only asks about it has a third one")  # fmt: skip
def when_a_key_was_last_used(chapter: int) -> None:
    """To the second; what reads or changes its value is a use, and what only asks about the key is none."""
    with standing(chapter) as (clock, _, conn):
        for line, uses in USES:
            if not _has(chapter, line.split()):
                continue
            asks(conn, ("set k 50000", OK), ("object idletime k", 0))
            clock.step(3000)
            conn.ask(*line.split())
            clock.step(4000)
            idle = conn.ask("object", "idletime", "k")
            if idle != (4 if uses else 7):
                fail(f"{line}, 3 s after the key was set; 4 s later `object idletime` says {idle}",
                     "", "4: it was used" if uses else "7: that is no use of it")  # fmt: skip
        asks(conn, ("set k 50000", OK), ("object idletime k", 0))
        clock.step(2**31)
        asks(conn, ("object idletime k", 2**31 // 1000), ("move k 1", 1), ("select 1", OK), ("object idletime k", 0))


@case(since=22, inside=True, ours="in Redis it is half a year then")
def last_use_and_a_clock_set_back(chapter: int) -> None:
    """A use that lies in the future is one of this moment."""
    with standing(chapter) as (clock, _, conn):
        asks(conn, ("set k v", OK))
        clock.set_wall(-HOUR)
        asks(conn, ("object idletime k", 0), ("get k", b"v"))
        clock.set_wall(HOUR)
        asks(conn, ("object idletime k", HOUR // 1000))


# ---- the cycle ----


@case(since=24, inside=INSIDE,
      perhaps="the cycle looks at some keys of each database ten times a second, and goes on where many of them are "
              "over")  # fmt: skip
def keys_nobody_asks_for_go(chapter: int) -> None:
    """In each database, within a second after their time; those with more time, or without a TTL, stay."""
    with standing(chapter) as (clock, server, conn):
        for db in (0, 3, 15):
            asks(conn, (f"select {db}", OK))
            bulk(conn, numbered(range(1000), "set", "dead:######", "v", "px", "1000"), OK)
            bulk(conn, numbered(range(500), "set", "long:######", "v", "px", "100000"), OK)
            bulk(conn, numbered(range(500), "set", "ever:######", "v"), None)
        clock.step(1000)
        assert counted(conn, "expired_keys") == (0,)
        for _ in range(20):
            clock.step(50)
        dead = 3000 - counted(conn, "expired_keys")[0]
        if dead > 300:
            fail(f"3000 keys of three databases have been past their time for a second; {dead} are still there",
                 "", "at most a tenth of the keys that have a TTL")  # fmt: skip
        for db in (0, 3, 15):
            asks(conn, (f"select {db}", OK))
            bulk(conn, numbered(range(500), "pttl", "long:######"), 98_000)
            bulk(conn, numbered(range(500), "get", "ever:######"), b"v")
        clock.step(98_001)
        for _ in range(40):
            clock.step(50)
        lines = info(conn, "keyspace")
        assert list(lines) == ["db0", "db3", "db15"], lines
        assert all(500 <= int(text.split(",")[0][5:]) <= 560 for text in lines.values()), lines


@case(since=24, inside=True)
def what_the_cycle_says_of_itself(chapter: int) -> None:
    """One dead key, in a slice that sees nothing else, makes the average 5 percent, and cuts no slice short. Many dead
    keys make it nearly 100, and cut some short."""
    with standing(chapter) as (clock, _, conn):
        clock.looks_take(0.01)
        for line, n, low, high, cut in (("one", 1, 5, 5, False), ("many", 40_000, 50, 100, True)):
            bulk(conn, numbered(range(n), "set", "key:######", "v", "px", "1000"), OK)
            clock.step(1001)
            for _ in range(500):
                if conn.ask("dbsize") == 0:
                    break
                clock.step(100 if n == 1 else 1)
            told = info(conn, "stats")
            percent, times = float(told["expired_stale_perc"]), int(told["expired_time_cap_reached_count"])
            if not low <= percent <= high or cut != (times > 0):
                fail(f"after {line} of its keys had died, expired_stale_perc is {percent} and "
                     f"expired_time_cap_reached_count {times}",
                     "does each slice take a twentieth away and add a twentieth of its own share? Does it count where "
                     "its time ended it?",
                     f"{low} to {high} percent, and {'some' if cut else 'no'} slices that were cut short")  # fmt: skip
            asks(conn, ("dbsize", 0))
        asks(conn, ("config resetstat", OK))
        told = info(conn, "stats")
        assert (told["expired_stale_perc"], told["expired_time_cap_reached_count"]) == ("0.00", "0"), told


@case(since=24, inside=True)
def effort_looks_for_the_last_of_the_dead(chapter: int) -> None:
    """3 keys in a hundred die at the same time. At effort 1 that is left alone, at effort 10 they are gone soon."""
    n, dead = 40_000, 1_200
    for effort in (1, 10):
        with standing(chapter) as (clock, _, conn):
            asks(conn, (f"config set active-expire-effort {effort}", OK))
            bulk(conn, numbered(range(n), "set", "stays:######", "v", "ex", "1000"), OK)
            bulk(conn, numbered(range(dead), "set", "brief:######", "v", "px", "1"), OK)
            for _ in range(30):
                clock.step(100)
            left = conn.ask("dbsize") - n  # type: ignore[operator]
            if left > 0 if effort == 10 else left < dead // 2:
                fail(f"{dead} of {n + dead} keys are dead; at effort {effort}, {left} of them are left after 3 s",
                     "", "none" if effort == 10 else "most of them: a share as small is left alone")  # fmt: skip


@case(since=24, inside=INSIDE)
def what_was_persisted_is_not_in_the_way(chapter: int) -> None:
    """Thirty thousand keys have a TTL, and then none. One that comes afterwards goes as soon as if it were alone."""
    n = 30_000
    with standing(chapter) as (clock, _, conn):
        bulk(conn, numbered(range(n), "set", "key:######", "v", "ex", "1000"), OK)
        bulk(conn, numbered(range(n), "persist", "key:######"), 1)
        for _ in range(6):
            asks(conn, ("set brief v px 20", OK))
            for _ in range(5):
                clock.step(100)
            if conn.ask("dbsize") != n:
                fail(
                    "the only key with a TTL has been past its time for 480 ms, and is still there",
                    f"is the table of deadlines as large as when {n} keys had one? Then the cycle looks into empty "
                    f"buckets for most of its time. Let the table shrink wherever a deadline is taken away.",
                    "the cycle comes by ten times a second and looks at 20 keys: it finds the only one at once",
                )


@case(since=24, inside=INSIDE,
      perhaps="the average is taken of the keys that the cycle has looked at; with no TTL it is 0")  # fmt: skip
def the_average_ttl(chapter: int) -> None:
    """The cycle takes it of the keys that it sees; no TTL, no average."""
    with standing(chapter) as (clock, _, conn):
        bulk(conn, numbered(range(100), "set", "key:######", "v", "px", "100000"), OK)
        asks(conn, ("select 1", OK), ("set k v ex 10", OK), ("select 2", OK), ("set k v", OK))
        for _ in range(5):
            clock.step(100)
        lines = info(conn, "keyspace")
        average = {db: int(text.rpartition("=")[2]) for db, text in lines.items()}
        if not (98_000 < average["db0"] <= 100_000 and 9000 < average["db1"] <= 10_000 and average["db2"] == 0):
            fail(f"info keyspace: {lines}", "", "averages near 100000 ms, near 10000 ms, and none")
        asks(conn, ("select 1", OK), ("persist k", 1))
        for _ in range(5):
            clock.step(100)
        assert info(conn, "keyspace")["db1"] == "keys=1,expires=0,avg_ttl=0"


@case(since=24, ours="in Redis the sum overflows", inside=True, perhaps="add up in more than 64 bits, or divide before")
def the_average_of_the_latest_dates(chapter: int) -> None:
    """Three keys with the last date there is: the sum of their TTLs takes more than 64 bits, the average does not."""
    with standing(chapter) as (clock, _, conn):
        left = INT64_MAX - clock.wall_ms
        for key in ("a", "b", "c"):
            asks(conn, (f"set {key} v pxat {INT64_MAX}", OK))
        for _ in range(3):
            clock.step(100)
        average = int(info(conn, "keyspace")["db0"].rpartition("=")[2])
        if abs(average - left) > left // 1000:
            fail(f"avg_ttl={average}", "", f"nearly {left}")


@case(since=24, inside=INSIDE, perhaps="the cycle looks at more keys where more of those that it saw were over")
def keys_go_while_others_come(chapter: int) -> None:
    """Five hundred a second live for half a second. Not many more are there at any time than are alive."""
    with standing(chapter) as (clock, _, conn):
        worst = 0
        for i in range(60):
            bulk(conn, numbered(range(50 * i, 50 * i + 50), "set", "key:######", "v", "px", "500"), OK)
            clock.step(100)
            size = conn.ask("dbsize")
            assert isinstance(size, int)
            worst = max(worst, size)
        alive = 300
        if worst > alive + alive // 10 + 50:
            fail(f"at most {alive} keys were alive at any time, and {worst} were kept",
                 "", "a tenth more, and those that die between two cycles")  # fmt: skip


@case(since=24, inside=True, perhaps=SPINS)
def no_ttl_no_wake_up(chapter: int) -> None:
    """A server whose keys have no TTL sleeps until somebody asks for something; one whose keys have, wakes up ten times
    a second or less."""
    clock = Clock()
    with clock.server(chapter) as server, server.connect() as conn:
        def sleeps(why: str) -> None:
            clock.rest()
            if clock.until_ms is not None:
                fail(f"{why}, no key has a TTL; but the server waits only for {clock.until_ms - clock.now_ms} ms")

        sleeps("at the beginning")
        asks(conn, ("set k v", OK), ("select 7", OK), ("set k v", OK))
        sleeps("keys were set")
        for line in ("persist k", "set k v", "del k", "expire k -1", "getex k persist", "getdel k", "flushdb",
        "flushall",
                     "rename other k", "getset k v", "swapdb 7 8"):  # fmt: skip
            asks(conn, ("set k v ex 1000", OK), ("set other v", OK))
            clock.rest()
            if clock.until_ms is None:
                fail("a key has a TTL, and the server waits for ever")
            before = clock.rounds
            for _ in range(20):
                clock.step(50)
            if clock.rounds - before > 15:
                fail(f"a key has a TTL of 1000 s; in a second the server woke up {clock.rounds - before} times", "",
                "10 times")
            conn.ask(*line.split())
            if line.startswith("swapdb"):
                asks(conn, ("select 8", OK), ("expire k 0", 1), ("select 7", OK))
            clock.step(100)
            sleeps(f"`{line}` is done")
        asks(conn, ("set k v px 300", OK))
        for _ in range(10):
            clock.step(100)
        asks(conn, ("dbsize", 0))
        sleeps("a key has gone")
        for line in ("flushdb", "flushall", "flushall async"):  # so many that they are freed in the background
            bulk(conn, numbered(range(1500), "set", "key:######", "v", "ex", "1000"), OK)
            asks(conn, (line, OK))
            clock.step(100)
            sleeps(f"`{line}` of 1500 keys is done")


@case(since=24, inside=True, perhaps="the cycle works for some time, then others have a turn, and it comes back soon")
def dead_keys_go_and_others_do_not_wait(chapter: int) -> None:
    """A hundred thousand keys are past their time at the same moment, and nobody asks for them. They go, a million in
    ten seconds or less, and a slice of the cycle ends at its time: with 10 us for what is done between two looks at the
    clock, and a quarter of a millisecond in all, it cannot take many. So others do not wait."""
    n = 100_000
    with standing(chapter) as (clock, _, conn):
        bulk(conn, numbered(range(n), "set", "key:######", "v", "px", "1000"), OK)
        clock.looks_take(0.01)
        clock.leap(1000)
        began, left, most = clock.now_ms, n, 0
        while left:
            clock.step(1)
            now = conn.ask("dbsize")
            assert isinstance(now, int)
            most, left = max(most, left - now), now
            if clock.now_ms - began > 1000:
                fail(f"a second after their time, {left} of {n} keys are still there",
                     "", "at effort 1 a million are freed within 10 s")  # fmt: skip
        if most > 1500:
            fail(f"while {n} keys expired, a millisecond came in which {most} of them were freed",
                 "does a slice of the cycle look at the clock after every few keys, and end at its time?",
                 "25 looks at the clock, and 20 keys between two of them: 500, or a few more")  # fmt: skip


@case(since=24, inside=True)
def the_cycle_keeps_its_share(chapter: int) -> None:
    """A slice is to take a quarter of a millisecond, and a step is never cut short. Where steps take longer, by
    milliseconds or by a little, the next slice waits: at effort 1 the cycle has a quarter of the time, not more."""
    for look_ms, slice_ms in ((1, 3), (0.14, 0.42)):  # four looks: when it begins, twice between, when it has ended
        with standing(chapter) as (clock, _, conn):
            bulk(conn, numbered(range(4000), "set", "key:######", "v", "px", "1000"), OK)
            clock.looks_take(look_ms)
            clock.leap(1001)
            began = clock.now_ms
            for _ in range(100):
                clock.step(1)
            passed = clock.now_ms - began
            slices = int(info(conn, "stats")["expired_time_cap_reached_count"])
            share = slices * slice_ms / passed
            if not 0.1 < share <= 0.28:
                fail(f"in {passed:.0f} ms the cycle had {slices} slices, of {slice_ms} ms each",
                     "a slice that took too long has taken time that belongs to clients: does the next one wait for "
                     "longer, by whole milliseconds and by what is left of them?",
                     f"about one in {4 * slice_ms:.1f} ms")  # fmt: skip


# ---- the clock ----


@case(since=22, inside=INSIDE)
def the_wall_clock_is_set(chapter: int) -> None:
    """Deadlines are times of the wall clock: set forth, it takes keys away; set back, it gives them time. What is given
    a TTL then, gets it from the time that the clock shows."""
    with standing(chapter) as (clock, _, conn):
        asks(conn, ("set short v ex 60", OK), ("set long v ex 7200", OK), ("set ever v", OK))
        at = clock.wall_ms + 7_200_000
        clock.set_wall(-HOUR)
        asks(conn, ("ttl short", 3660), ("ttl long", 3 * 3600), ("pexpiretime long", at), ("set new v ex 10", OK),
             ("ttl new", 10), ("pexpiretime new", clock.wall_ms + 10_000), ("getex new px 20000", b"v"),
             ("pttl new", 20_000))  # fmt: skip
        clock.set_wall(2 * HOUR)
        asks(conn, ("get short", None), ("get new", None), ("ttl long", 3600), ("get ever", b"v"),
             ("set new v px 10", OK))  # fmt: skip
        clock.set_wall(10)
        asks(conn, ("get new", b"v"))
        clock.set_wall(0.999999)
        asks(conn, ("get new", b"v"))
        clock.set_wall(0.000001)
        asks(conn, ("get new", None))
        clock.set_wall(-2 * HOUR)
        asks(conn, ("get new", None), ("get short", None), ("pexpiretime long", at), ("get ever", b"v"))


@case(since=22, inside=INSIDE)
def what_time_it_is(chapter: int) -> None:
    """The wall clock, in seconds and the microseconds behind them; the same in both versions of the protocol."""
    with standing(chapter) as (clock, _, conn):
        for ms in (0, 1, 0.001, 999.5, 0.0005, -HOUR, HOUR * 24 * 365):
            clock.set_wall(ms)
            us = clock.wall_us
            asks(conn, ("time", [b"%d" % (us // 10**6), b"%d" % (us % 10**6)]))
        asks(conn, ("time now", bad_count("time")), ("set k v ex 10", OK),
             ("expiretime k", (clock.wall_ms + 500) // 1000 + 10))  # fmt: skip


@case(since=24, inside=INSIDE, perhaps="deadlines go by the wall clock, pauses of the cycle by the monotonic one")
def the_cycle_goes_on_when_the_clock_is_set(chapter: int) -> None:
    """Back or forth by an hour: keys that are over by the new time go, within a second, as ever."""
    for ms in (-HOUR, HOUR, -1, 1):
        with standing(chapter) as (clock, _, conn):
            bulk(conn, numbered(range(100), "set", "early:######", "v", "px", "1000"), OK)
            for _ in range(3):
                clock.step(100)
            clock.set_wall(ms)
            bulk(conn, numbered(range(100), "set", "late:######", "v", "px", "1000"), OK)
            for _ in range(20):
                clock.step(100)
            expected = 200 if ms > -HOUR else 100
            (gone,) = counted(conn, "expired_keys")
            if gone != expected:
                fail(f"the wall clock was set by {ms} ms, then two seconds passed: {gone} keys have expired",
                     "", str(expected))  # fmt: skip
            asks(conn, ("dbsize", 200 - expected))


@case(since=22, inside=True)
def timeouts_do_not_mind_the_wall_clock(chapter: int) -> None:
    """An idle connection goes by the clock that only ever goes on, while keys go by the other one."""
    for ms in (HOUR, -HOUR):
        clock = Clock()
        with clock.server(chapter, IDLE) as server, server.connect() as conn:
            asks(conn, ("set k v ex 60", OK))
            clock.set_wall(ms)
            open_still(conn, "the wall clock was set, no time has passed")
            asks(conn, ("exists k", int(ms < 0)))
            for _ in range(IDLE // 100):
                clock.step(100)
            open_still(conn, f"{IDLE} ms have passed, and not more")
            clock.step(100)
            closed_now(conn, f"{IDLE + 100} ms have passed")
