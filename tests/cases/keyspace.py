"""The key space as Redis keeps it (22 and later): sixteen databases, keys that go from one name or database to another,
and what clients ask about keys. All that does not say `ours` holds for Redis as well: make test-22 SERVER=redis-server.
"""
from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from typing import Dict, List, Tuple

from harness import ANY, AnyOrder, Between, Conn, Err, fail
from harness.resp import NIL, OK, Simple, arity, array

from . import COUNTED, case
from .replies import filled
from .resp import NO_INT, SYNTAX, WRONG, as_pairs, asks, bad_count, hello, raw
from .talk import bulk, numbered, paused, say, start, watched

PERHAPS = "each database has a table of its own, and each connection the number of the one that it has chosen"

OUT_OF_RANGE = Err(4, "ERR DB index is out of range")
NO_INT32 = Err(4, "ERR value is out of range, value must between -2147483648 and 2147483647")
NO_KEY = Err(4, "ERR no such key")
SAME = Err(4, "ERR source and destination objects are the same")
NO_DB = [
    ("16", OUT_OF_RANGE), ("-1", OUT_OF_RANGE), ("2147483647", OUT_OF_RANGE), ("-2147483648", OUT_OF_RANGE),
    ("2147483648", NO_INT32), ("-2147483649", NO_INT32), ("x", NO_INT), ("''", NO_INT), ("1.0", NO_INT), ("01", NO_INT),
    ("+1", NO_INT), ("99999999999999999999", NO_INT),
]  # fmt: skip
NONE, STRING, ZSET = Simple(b"none"), Simple(b"string"), Simple(b"zset")
LONG = Between(900, 1000)  # seconds left of a thousand


def info(conn: Conn, section: str) -> Dict[str, str]:
    """The lines of a section of INFO."""
    told = conn.ask("info", section)
    assert isinstance(told, bytes)
    return dict(line.split(":", 1) for line in told.decode().split("\r\n") if ":" in line)


def own_db(conn: Conn) -> int:
    """The database of a connection, as the server tells."""
    told = conn.ask("client", "info")
    assert isinstance(told, bytes)
    return int(dict(word.split(b"=", 1) for word in told.split())[b"db"])


# ---- databases ----


@case(since=22)
def sixteen_databases(chapter: int) -> None:
    """Each has keys of its own. A connection begins in number 0 and stays where it went last."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for i in range(16):
            asks(conn, (f"select {i}", OK), ("dbsize", 0), ("get k", None), (f"set k {i}", OK),
                 (f"set only{i} v", OK))  # fmt: skip
            assert own_db(conn) == i
        for i in (15, 0, 7):
            asks(conn, (f"select {i}", OK), ("get k", b"%d" % i), ("keys *", AnyOrder([b"k", b"only%d" % i])),
                 ("exists k only0 only15 only7", 2), ("dbsize", 2))  # fmt: skip
        asks(other, ("get k", b"0"), ("select 3", OK), ("del k", 1), ("get k", None))
        asks(conn, ("get k", b"7"), ("select 3", OK), ("get k", None), ("get only3", b"v"))
        with server.connect() as third:
            asks(third, ("get only0", b"v"), ("get k", b"0"))
            third.pipeline([["select", "5"], ["get", "k"], ["select", "6"], ["get", "k"]], [OK, b"5", OK, b"6"])
            hello(third, 3)
            asks(third, ("get k", b"6"))


@case(since=22)
def no_such_database(chapter: int) -> None:
    """Each kind of wrong number has its own text, and the connection stays where it was."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("select 2", OK), ("set k v", OK))
        for number, error in NO_DB:
            asks(conn, (f"select {number}", error), ("get k", b"v"))
        asks(conn, ("select", bad_count("select")), ("select 1 2", bad_count("select")), ("get k", b"v"))


@case(since=22)
def the_same_key_in_two_databases(chapter: int) -> None:
    """Each has a TTL of its own, or none; what is done to one is not done to the other."""
    with start(chapter) as server, server.connect() as zero, server.connect() as one:
        asks(one, ("select 1", OK), ("set k one ex 1000", OK), ("set gone one", OK),
             ("set both one px 1", OK))  # fmt: skip
        asks(zero, ("set k zero", OK), ("ttl k", -1), ("persist k", 0), ("expire k 5000", 1),
             ("set gone zero px 1", OK), ("set both zero px 1", OK))  # fmt: skip
        asks(one, ("ttl k", LONG), ("persist k", 1), ("ttl k", -1), ("expire k 1000", 1))
        asks(zero, ("ttl k", Between(4900, 5000)), ("pexpire k 0", 1), ("get k", None), ("ttl k", -2))
        asks(one, ("get k", b"one"), ("ttl k", LONG), ("get gone", b"one"), ("ttl gone", -1))
        while zero.ask("exists", "gone", "both") or one.ask("exists", "both"):
            pass
        asks(zero, ("set k again", OK), ("ttl k", -1), ("flushdb", OK), ("set gone back", OK),
             ("ttl gone", -1))  # fmt: skip
        asks(one, ("get k", b"one"), ("ttl k", LONG), ("get gone", b"one"), ("dbsize", 2),
             ("get both", None))  # fmt: skip
        asks(one, ("flushdb", OK), ("set k new", OK), ("ttl k", -1))


@case(since=22, perhaps=COUNTED)
def info_of_each_database(chapter: int) -> None:
    """A line for each that has a key: how many, and how many of them have a TTL."""
    with start(chapter) as server, server.connect() as conn:
        assert info(conn, "keyspace") == {}
        for db, keys, expires in ((0, 3, 0), (4, 20, 7), (15, 1, 1)):
            asks(conn, (f"select {db}", OK))
            for i in range(keys):
                asks(conn, (f"set k{i} v" + " ex 1000" * (i < expires), OK))
        asks(conn, ("set k0 v", OK), ("set k0 v ex 1000", OK), ("set k0 v ex 2000", OK),
             ("expire k0 1000", 1))  # fmt: skip
        lines = info(conn, "keyspace")
        assert list(lines) == ["db0", "db4", "db15"], lines
        for db, text in ((0, "keys=3,expires=0"), (4, "keys=20,expires=7"), (15, "keys=1,expires=1")):
            if not re.fullmatch(text + r",avg_ttl=\d+", lines[f"db{db}"]):
                fail(f"info keyspace: db{db}:{lines[f'db{db}']}", "", f"db{db}:{text},avg_ttl=...")
        asks(conn, ("persist k0", 1), ("select 4", OK), ("persist k0", 1), ("set k1 v", OK), ("getdel k2", b"v"),
             ("unlink k3", 1), ("rename k4 k5", OK), ("expire k5 -1", 1), ("select 0", OK),
             ("flushdb", OK))  # fmt: skip
        lines = info(conn, "keyspace")
        assert [text.rpartition(",")[0] for text in lines.values()] == ["keys=16,expires=1", "keys=1,expires=0"], lines
        asks(conn, ("flushall", OK))
        assert info(conn, "keyspace") == {}


# ---- from one database to another ----


@case(since=22)
def move(chapter: int) -> None:
    """The value and its TTL go along. Not onto a key that is there, not into its own database."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        asks(other, ("select 9", OK))
        asks(conn, ("set k v", OK), ("move k 9", 1), ("get k", None), ("dbsize", 0), ("move k 9", 0))
        asks(other, ("get k", b"v"), ("ttl k", -1), ("dbsize", 1))
        asks(conn, ("set k new ex 1000", OK), ("move k 9", 0), ("get k", b"new"), ("ttl k", LONG))
        asks(other, ("get k", b"v"), ("ttl k", -1), ("del k", 1))
        asks(conn, ("move k 9", 1), ("ttl k", -2), ("set k back", OK), ("ttl k", -1))
        asks(other, ("get k", b"new"), ("ttl k", LONG), ("move k 0", 0), ("move k 15", 1), ("select 15", OK),
             ("ttl k", LONG), ("persist k", 1), ("select 9", OK))  # fmt: skip
        bulk(conn, numbered(range(3000), "zadd", "z", "######", "n######"), 1)
        asks(conn, ("expire z 1000", 1), ("move z 9", 1), ("type z", NONE), ("zadd z 1 a", 1),
             ("ttl z", -1))  # fmt: skip
        asks(other, ("zcard z", 3000), ("zscore z n002999", 2999.0), ("ttl z", LONG), ("move z 0", 0))


@case(since=22)
def move_and_its_errors(chapter: int) -> None:
    """First the number is looked at, then whether it is another database, then the key."""
    with start(chapter) as server, server.connect() as conn:
        for key in ("k", "none"):
            asks(conn, ("set k v", OK), (f"move {key} 0", SAME), (f"move {key}", bad_count("move")),
                 (f"move {key} 1 2", bad_count("move")),
                 *((f"move {key} {n}", error) for n, error in NO_DB))  # fmt: skip
        asks(conn, ("get k", b"v"), ("select 3", OK), ("move k 3", SAME), ("move k 0", 0),
             ("move none 0", 0))  # fmt: skip


@case(since=22)
def swapdb(chapter: int) -> None:
    """Everybody who is in one of the two sees the keys of the other at once, with their TTLs."""
    with start(chapter) as server, server.connect() as zero, server.connect() as one:
        asks(one, ("select 1", OK), ("set a one ex 1000", OK), ("set b one", OK))
        bulk(zero, numbered(range(2000), "set", "key:######", "v"), None)
        asks(zero, ("set a zero", OK), ("swapdb 0 1", OK), ("get a", b"one"), ("ttl a", LONG),
             ("dbsize", 2))  # fmt: skip
        asks(one, ("get a", b"zero"), ("ttl a", -1), ("dbsize", 2001), ("get b", None), ("get key:001999", b"v"),
             ("set c one", OK))  # fmt: skip
        assert own_db(one) == 1 and own_db(zero) == 0
        asks(zero, ("get c", None), ("swapdb 1 0", OK), ("get c", b"one"), ("swapdb 0 0", OK), ("swapdb 5 5", OK),
             ("dbsize", 2002), ("swapdb 14 1", OK), ("swapdb 14 0", OK), ("ttl a", LONG), ("dbsize", 2))  # fmt: skip
        asks(one, ("dbsize", 0), ("set x v", OK), ("select 14", OK), ("dbsize", 2002))
        lines = info(zero, "keyspace")
        kept = {db: text.rpartition(",")[0] for db, text in lines.items()}
        assert kept == {"db0": "keys=2,expires=1", "db1": "keys=1,expires=0", "db14": "keys=2002,expires=0"}, lines


@case(since=22)
def swapdb_and_its_errors(chapter: int) -> None:
    """Both numbers are read before either is looked up."""
    first, second = (Err(4, f"ERR invalid {which} DB index") for which in ("first", "second"))
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("swapdb", bad_count("swapdb")), ("swapdb 0", bad_count("swapdb")),
             ("swapdb 0 1 2", bad_count("swapdb")), ("swapdb x 99", first), ("swapdb x y", first),
             ("swapdb 0 y", second), ("swapdb 99 y", second), ("swapdb 2147483648 0", first),
             ("swapdb 0 -2147483649", second), ("swapdb '' 0", first), ("swapdb 0 1.5", second),
             ("swapdb 0 16", OUT_OF_RANGE), ("swapdb 16 0", OUT_OF_RANGE), ("swapdb -1 -1", OUT_OF_RANGE),
             ("swapdb 16 16", OUT_OF_RANGE), ("get k", b"v"))  # fmt: skip


@case(since=22)
def flushdb_and_flushall(chapter: int) -> None:
    """One leaves the other databases as they are, the other does not. What comes then is new."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for one, every in (("flushdb", "flushall"), ("FLUSHDB sync", "flushall ASYNC"),
                           ("flushdb async", "flushall sync")):  # fmt: skip
            for db in (0, 15, 1):
                asks(conn, (f"select {db}", OK))
                bulk(conn, numbered(range(1500), "set", "key:######", "v"), None)
                bulk(conn, numbered(range(500), "expire", "key:######", "1000"), 1)
                asks(conn, ("zadd z 1 a", 1))
            asks(conn, (one, OK), ("dbsize", 0), ("select 15", OK), ("dbsize", 1501),
                 ("ttl key:000000", LONG))  # fmt: skip
            asks(other, ("dbsize", 1501), ("ttl key:000499", LONG), (one, OK), ("ttl key:000499", -2),
                 ("dbsize", 0))  # fmt: skip
            asks(conn, ("dbsize", 1501), ("zscore z a", 1.0), ("set key:000001 new", OK),
                 ("ttl key:000001", -1))  # fmt: skip
            asks(other, (every, OK), ("set key:000002 v", OK), ("ttl key:000002", -1), (every, OK))
            asks(conn, ("dbsize", 0), ("keys *", []), ("set key:000003 v", OK), ("ttl key:000003", -1),
                 (every, OK))  # fmt: skip
        for line in ("flushdb now", "flushall x", "flushdb sync async", "flushall async async", "flushall ''"):
            asks(conn, ("set k v", OK), (line, SYNTAX), ("get k", b"v"))


# ---- other names ----


@case(since=22)
def rename(chapter: int) -> None:
    """The new name has the value and the TTL of the old one, whatever it had before."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("rename none k", NO_KEY), ("rename none none", NO_KEY), ("renamenx none k", NO_KEY),
             ("renamenx none none", NO_KEY), ("set a v", OK), ("rename a b", OK), ("get a", None), ("get b", b"v"),
             ("rename b b", OK), ("renamenx b b", 0), ("get b", b"v"), ("ttl b", -1), ("dbsize", 1))  # fmt: skip
        for value, told in (("set", STRING), ("zadd", ZSET)):
            for mine, theirs in ((False, False), (False, True), (True, False), (True, True)):
                make = "set a v" if value == "set" else "zadd a 1 n"
                asks(conn, ("flushall", OK), (make, OK if value == "set" else 1), ("zadd b 5 other", 1))
                asks(conn, *[("expire a 1000", 1)] * mine, *[("expire b 5000", 1)] * theirs)
                asks(conn, ("renamenx a b", 0), ("ttl a", LONG if mine else -1), ("zscore b other", 5.0),
                     ("rename a b", OK), ("type b", told), ("ttl b", LONG if mine else -1), ("type a", NONE),
                     ("ttl a", -2), ("rename b b", OK), ("ttl b", LONG if mine else -1), ("renamenx b a", 1),
                     ("ttl a", LONG if mine else -1), ("set b new", OK), ("ttl b", -1), ("dbsize", 2))  # fmt: skip
        asks(conn, ("rename a", bad_count("rename")), ("renamenx a b c", bad_count("renamenx")))


@case(since=22)
def rename_many(chapter: int) -> None:
    """Names of any length, while the table grows and shrinks: each is found by its new name, and by no other."""
    n = 2500
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "v######"), None)
        bulk(conn, numbered(range(0, n, 2), "expire", "key:######", "1000"), 1)
        bulk(conn, numbered(range(n), "rename", "key:######", "a much longer name than before:######"), OK)
        asks(conn, ("dbsize", n), ("exists key:000000 key:002499", 0))
        bulk(conn, numbered(range(n), "renamenx", "a much longer name than before:######", "######"), 1)
        conn.pipeline([["get", f"{i:06}"] for i in range(n)], [b"v%06d" % i for i in range(n)])
        conn.pipeline([["ttl", f"{i:06}"] for i in range(n)], [LONG if i % 2 == 0 else -1 for i in range(n)])
        bulk(conn, numbered(range(1, n), "rename", "######", "000000"), OK)
        asks(conn, ("dbsize", 1), ("get 000000", b"v%06d" % (n - 1)), ("ttl 000000", -1))


@case(since=22)
def copy(chapter: int) -> None:
    """Both keys have a value of their own then, and the same TTL; into another database where it is asked for."""
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        asks(other, ("select 3", OK))
        asks(conn, ("set a v", OK), ("copy a b", 1), ("get b", b"v"), ("ttl b", -1), ("append a w", 2), ("get b", b"v"),
             ("expire a 1000", 1), ("ttl b", -1), ("copy a b", 0), ("copy a b replace", 1), ("get b", b"vw"),
             ("ttl b", LONG), ("persist a", 1), ("ttl b", LONG), ("COPY a b REPLACE", 1), ("ttl b", -1),
             ("zadd z 1 x 2 y", 2), ("expire z 1000", 1), ("copy z a replace replace", 1), ("ttl a", LONG),
             ("zadd a 3 z", 1), ("zrem z x", 1), ("zrange a 0 -1", [b"x", b"y", b"z"]),
             ("zrange z 0 -1", [b"y"]))  # fmt: skip
        asks(conn, ("copy a a db 3", 1), ("copy a a DB 3", 0), ("copy b a db 3", 0), ("copy b a db 3 replace", 1),
             ("copy z z replace db 3", 1), ("copy z other db 0", 1), ("copy z other db 3 db 0 replace", 1),
             ("dbsize", 4))  # fmt: skip
        asks(other, ("get a", b"vw"), ("ttl a", -1), ("zscore z y", 2.0), ("ttl z", LONG), ("dbsize", 2),
             ("del a", 1))  # fmt: skip
        bulk(conn, numbered(range(3000), "zadd", "big", "######", "n######"), 1)
        asks(conn, ("copy big more", 1), ("del big", 1), ("zcard more", 3000), ("zrank more n001234", 1234),
             ("set long " + "x" * 5000, OK), ("copy long a db 3", 1), ("del long", 1))  # fmt: skip
        asks(other, ("get a", b"x" * 5000), ("strlen a", 5000))


@case(since=22)
def what_is_replaced_is_there_until_then(chapter: int) -> None:
    """A long value is copied onto a key, and another is given its name, behind others that are copied as well. Whoever
    looks meanwhile finds the old value or the new one, and never none."""
    with start(chapter) as server, ExitStack() as stack:
        *others, writer, reader = [stack.enter_context(server.connect()) for _ in range(5)]
        long = filled(200_000)
        for words in (["copy", "long", "y", "replace"], ["rename", "gone", "y"]):
            writer.pipeline([["set", name, long] for name in ("long", "gone")] + [["set", "y", "old"]], [OK] * 3)
            for conn in (*others, reader):
                say(conn)
            with paused(server):
                for conn in others:
                    conn.send(array("copy", "long", f"copy{others.index(conn)}", "replace"))
                writer.send(array(*words))
                reader.send(array("strlen", "y") * 20)
            seen = [reader.recv(ANY) for _ in range(20)]
            for conn in others:
                conn.recv(1)
            writer.recv(1 if words[0] == "copy" else OK)
            if not set(seen) <= {3, len(long)}:
                fail(
                    f"while {' '.join(words)!r} was under way, 20 times `strlen y` said {seen}",
                    "is the old value dropped before the command waits for a turn of its own? First find out whether "
                    "it must wait, then change anything.",
                    f"3 or {len(long)} each time: y is never missing",
                )
            reader.ask("strlen", "y", expect=len(long))


@case(since=22)
def copy_and_its_errors(chapter: int) -> None:
    """Options first, each as it comes; then whether it is the same key; then the key itself."""
    with start(chapter) as server, server.connect() as conn:
        for key in ("k", "none"):
            asks(conn, ("set k v", OK), (f"copy {key}", bad_count("copy")), (f"copy {key} {key}", SAME),
                 (f"copy {key} {key} db 0 replace", SAME), (f"copy {key} l db", SYNTAX),
                 (f"copy {key} l nonsense", SYNTAX), (f"copy {key} {key} nonsense", SYNTAX),
                 (f"copy {key} l replace db 16 nonsense", OUT_OF_RANGE), (f"copy {key} l nonsense db 16", SYNTAX),
                 (f"copy {key} l replace db", SYNTAX),
                 *((f"copy {key} {key} db {n}", error) for n, error in NO_DB))  # fmt: skip
        asks(conn, ("copy none l", 0), ("copy none k replace", 0), ("get k", b"v"), ("copy none k db 1", 0),
             ("dbsize", 1))  # fmt: skip


# ---- what clients ask about keys ----


@case(since=23,
      perhaps="draw a bucket, then a key of its chain; and again where the bucket is empty or the key is "
              "over")  # fmt: skip
def randomkey(chapter: int) -> None:
    """One of the keys of this database, each in its turn; none where there is none, or all are past their time."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("randomkey", None), ("select 2", OK), ("randomkey", None), ("set only v", OK))
        asks(conn, *[("randomkey", b"only")] * 20, ("select 0", OK), ("randomkey", None))
        keys = {b"key:%06d" % i for i in range(20)}
        bulk(conn, numbered(range(20), "set", "key:######", "v"), None)
        drawn = {key for _ in range(10) for key in conn.pipeline([["randomkey"]] * 400)}
        if drawn != keys:
            fail(f"of 20 keys, 4000 times `randomkey` drew {len(drawn & keys)}, and {len(drawn - keys)} others")
        asks(conn, ("pexpireat key:000000 1", 1))
        conn.pipeline([["pexpire", key, "1"] for key in sorted(keys)[2:]])
        while conn.ask("exists", "key:000019"):
            pass
        asks(conn, *[("randomkey", b"key:000001")] * 30, ("pexpire key:000001 1", 1))
        while conn.ask("exists", "key:000001"):
            pass
        asks(conn, ("randomkey", None), ("randomkey", None))
        hello(conn, 3)
        raw(conn, b"randomkey\r\n", b"_\r\n")


@case(since=23, perhaps="draw among the buckets that there are, in both tables while one is moved")
def randomkey_in_a_table_that_has_shrunk(chapter: int) -> None:
    """Of many keys few are left: each is drawn, about as often as the others, and nobody waits for long."""
    n, left = 20_000, [7, 4321, 12_345, 19_999]
    with start(chapter) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "v"), None)
        bulk(conn, numbered([i for i in range(n) if i not in left], "del", "key:######"), 1)
        drawn = Counter(map(bytes, conn.pipeline([["randomkey"]] * 2000)))  # type: ignore[arg-type]
        if set(drawn) != {b"key:%06d" % i for i in left} or min(drawn.values()) < 150:
            fail(f"4 keys of {n} are left; 2000 times `randomkey` drew {dict(drawn)}", "", "each 150 times at least")


@case(since=22)
def touch_and_unlink(chapter: int) -> None:
    """They count keys of this database, touch one that is named twice both times."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("touch", bad_count("touch")), ("touch none", 0), ("set a v", OK), ("zadd z 1 n", 1),
             ("touch a z none a", 3), ("select 1", OK), ("touch a z", 0), ("unlink a z", 0), ("select 0", OK),
             ("unlink a none a z", 2), ("dbsize", 0), ("unlink", bad_count("unlink")))  # fmt: skip


@case(since=22)
def object_encoding(chapter: int) -> None:
    """The names that Redis has for how a value is kept, which clients look at."""
    with start(chapter) as server, server.connect() as conn:
        for value, name in (
            ("1", b"int"), ("-5", b"int"), ("0", b"int"), ("123456789012", b"int"), ("9223372036854775807", b"int"),
            ("9223372036854775808", b"embstr"), ("01", b"embstr"), ("1.5", b"embstr"), ("v", b"embstr"),
            ("", b"embstr"), ("x" * 44, b"embstr"), ("x" * 45, b"raw"), ("x" * 5000, b"raw"),
        ):  # fmt: skip
            conn.ask("set", "k", value, expect=OK)
            conn.ask("object", "encoding", "k", expect=name)
        asks(conn, ("set k 5", OK), ("incr k", 6), ("object encoding k", b"int"), ("zadd z 1 a", 1),
             ("object encoding z", b"listpack"), ("OBJECT ENCODING none", None), ("zadd w 1 " + "x" * 64, 1),
             ("object encoding w", b"listpack"), ("zadd w 1 " + "x" * 65, 1),
             ("object encoding w", b"skiplist"))  # fmt: skip
        bulk(conn, numbered(range(127), "zadd", "z", "1", "n######"), 1)
        asks(conn, ("object encoding z", b"listpack"), ("zadd z 1 one-more", 1),
             ("object encoding z", b"skiplist"))  # fmt: skip


@case(since=22)
def object_and_its_errors(chapter: int) -> None:
    """A key that is not there is nil. Who does not know a subcommand of Redis says so as Redis would."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK), ("object", bad_count("object")), ("object refcount k", 1))
        for name in ("nosuch", "", "idletime", "freq", "help"):
            unknown = Err(4, f"ERR unknown subcommand '{name}'. Try OBJECT HELP.")
            conn.ask("object", name, *["k"] * (name != "help"),
            expect=ANY if known(conn, f"object|{name}") else unknown)
        for name in ("encoding", "idletime", "refcount"):
            asks(conn, (f"object {name} none", None), (f"object {name}", bad_count(f"object|{name}")),
                 (f"object {name.upper()} k more", bad_count(f"object|{name}")))  # fmt: skip
        hello(conn, 3)
        raw(conn, b"object encoding none\r\n", b"_\r\n")


@case(since=22)
def memory_usage(chapter: int) -> None:
    """What a key takes, in bytes: redis-cli --memkeys asks for it. Of pairs some are looked at, or all."""
    with start(chapter) as server, server.connect() as conn:

        def usage(*words: str) -> int:
            size = conn.ask("memory", "usage", *words)
            assert isinstance(size, int), size
            return size

        def within(what: str, size: int, low: int, high: int) -> None:
            if not low <= size <= high:
                fail(f"memory usage of {what} is {size}", "", f"{low} to {high}")

        asks(conn, ("memory usage none", None), ("set k v", OK), ("zadd z 1 n", 1))
        within("a key and a value of one letter", usage("k"), 10, 150)
        for size in (100, 5000, 1_000_000):
            conn.ask("set", "k", "x" * size, expect=OK)
            within(f"a value of {size} bytes", usage("k"), size, size * 5 // 4 + 150)
        one = usage("z")
        within("a set of one pair", one, 10, 800)
        bulk(conn, numbered(range(5000), "zadd", "z", "######", "name ######" + "x" * 50), 1)
        every = usage("z", "samples", "0")
        within("a set of 5001 pairs with names of 61 bytes", every, 5000 * 80, 5000 * 250)
        for words in ([], ["SAMPLES", "1000"], ["samples", "5001"], ["samples", "9223372036854775807"]):
            within(f"the same set, {words}", usage("z", *words), every * 3 // 4, every * 5 // 4)
        assert usage("z", "samples", "3", "samples", "0") == every
        asks(conn, ("zadd z 9999999 " + "x" * 9000, 1))  # the last one
        assert usage("z", "samples", "0") > every + 9000 > usage("z", "samples", "5") + 8000
        asks(conn, ("del z k", 2), ("memory usage z", None), ("memory usage none samples -1", SYNTAX),
             ("memory usage none samples x", NO_INT), ("memory usage none samples", SYNTAX),
             ("memory usage none nosuch 1", SYNTAX), ("memory usage", bad_count("memory|usage")),
             ("memory", bad_count("memory")))  # fmt: skip


@case(since=22, inside=True, ours="Redis counts no deadline")
def memory_usage_is_what_the_server_takes(chapter: int) -> None:
    """A deadline costs, too. Over many keys, and in a large set, the sum is what the server has grown by."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v", OK))
        plain = conn.ask("memory", "usage", "k")
        asks(conn, ("expire k 1000", 1))
        dated = conn.ask("memory", "usage", "k")
        assert isinstance(plain, int) and isinstance(dated, int)
        if dated < plain + 24:
            fail(f"memory usage of a key is {plain}, and {dated} with a deadline")
        before = server.rss_kb()
        bulk(conn, numbered(range(50_000), "zadd", "z", "######", "name ######" + "x" * 50), 1)
        told, grown = conn.ask("memory", "usage", "z", "samples", "0"), (server.rss_kb() - before) << 10
        assert isinstance(told, int)
        if not watched() and not grown * 3 // 4 <= told <= grown * 5 // 4:
            fail(f"for a set that the server has grown by {grown} for, memory usage says {told}")


def known(conn: Conn, name: str) -> bool:
    """Does the server have this command?"""
    return conn.ask("command", "info", name) != [None]


READ, FAST, WRITE, DENY = b"readonly", b"fast", b"write", b"denyoom"
COMMANDS: Dict[str, Tuple[int, List[bytes], int, int, int]] = {
    "select": (2, [FAST], 0, 0, 0), "move": (3, [WRITE, FAST], 1, 1, 1), "swapdb": (3, [WRITE, FAST], 0, 0, 0),
    "rename": (3, [WRITE], 1, 2, 1), "renamenx": (3, [WRITE, FAST], 1, 2, 1), "copy": (-3, [WRITE, DENY], 1, 2, 1),
    "randomkey": (1, [READ], 0, 0, 0), "touch": (-2, [READ, FAST], 1, -1, 1), "unlink": (-2, [WRITE, FAST], 1, -1, 1),
    "object": (-2, [], 0, 0, 0), "scan": (-2, [READ], 0, 0, 0), "expire": (-3, [WRITE, FAST], 1, 1, 1),
    "pexpire": (-3, [WRITE, FAST], 1, 1, 1), "expireat": (-3, [WRITE, FAST], 1, 1, 1),
    "pexpireat": (-3, [WRITE, FAST], 1, 1, 1), "ttl": (2, [READ, FAST], 1, 1, 1), "pttl": (2, [READ, FAST], 1, 1, 1),
    "expiretime": (2, [READ, FAST], 1, 1, 1), "pexpiretime": (2, [READ, FAST], 1, 1, 1),
    "persist": (2, [WRITE, FAST], 1, 1, 1), "set": (-3, [WRITE, DENY], 1, 1, 1), "setex": (4, [WRITE, DENY], 1, 1, 1),
    "psetex": (4, [WRITE, DENY], 1, 1, 1), "setnx": (3, [WRITE, DENY, FAST], 1, 1, 1),
    "getex": (-2, [WRITE, FAST], 1, 1, 1), "getdel": (2, [WRITE, FAST], 1, 1, 1),
    "getset": (3, [WRITE, DENY, FAST], 1, 1, 1), "flushdb": (-1, [WRITE], 0, 0, 0), "flushall": (-1, [WRITE], 0, 0, 0),
    "dbsize": (1, [READ, FAST], 0, 0, 0), "keys": (2, [READ], 0, 0, 0), "type": (2, [READ, FAST], 1, 1, 1),
    "exists": (-2, [READ, FAST], 1, -1, 1), "object|encoding": (3, [READ], 2, 2, 1),
    "object|refcount": (3, [READ], 2, 2, 1), "object|idletime": (3, [READ], 2, 2, 1),
    "time": (1, [FAST], 0, 0, 0), "memory": (-2, [], 0, 0, 0),
    "memory|usage": (-3, [READ], 2, 2, 1),
}  # fmt: skip


@case(since=22, perhaps="COMMAND INFO has six fields of each command, from its table: add the new rows there")
def command_describes_the_new_ones(chapter: int) -> None:
    """Arities, places of keys, and which of the flags read, fast, write and denyoom; wrong counts, too."""
    with start(chapter) as server, server.connect() as conn:
        told_of = {name: row for name, row in COMMANDS.items() if name.encode().partition(b"|")[0] in arity(chapter)}
        rows = conn.ask("command", "info", *told_of)
        assert isinstance(rows, list)
        for (name, (count, flags, first, last, step)), row in zip(told_of.items(), rows):
            if row is None:
                fail(f"command info {name}: there is none")
            told = (row[1], sorted(bytes(flag) for flag in row[2] if flag in (READ, FAST, WRITE, DENY)), *row[3:6])
            if told != (count, sorted(flags), first, last, step):
                fail(f"command info {name}: {told}", "", str((count, sorted(flags), first, last, step)))
        assert set(map(str.encode, told_of)) >= set(as_pairs(conn.ask("command", "docs", *told_of)))
        for name, (count, *_) in told_of.items():
            words, fewest = name.split("|"), abs(count) - 1
            for n in (fewest, *[fewest + 2] * (count > 0)):
                if n >= len(words):
                    conn.send(array(*words, *["1"] * (n - len(words))))
                    conn.recv(bad_count(name))


@case(since=24)
def settings_of_the_key_space(chapter: int) -> None:
    """active-expire-effort from 1 to 10; the number of databases is what it is."""
    failed = "ERR CONFIG SET failed (possibly related to argument '{}') - {}"
    name = "active-expire-effort"
    between, no_int = (Err(4, failed.format(name, why)) for why in (
        "argument must be between 1 and 10 inclusive", "argument couldn't be parsed into an integer"))  # fmt: skip
    no_option = "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"
    fixed = Err(4, failed.format("databases", "can't set immutable config"))
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("config get databases", [b"databases", b"16"]), (f"config get {name}", [name.encode(), b"1"]),
             ("config set databases 3", fixed), (f"CONFIG SET {name.upper()} 10", OK),
             ("config get active-expire*", [name.encode(), b"10"]))  # fmt: skip
        for value, error in (("0", between), ("11", between), ("-1", between), ("99999999999", between), ("x", no_int),
                             ("1.5", no_int), ("''", no_int)):  # fmt: skip
            asks(conn, (f"config set {name} {value}", error),
                 (f"config get {name}", [name.encode(), b"10"]))  # fmt: skip
        asks(conn, (f"config set {name} 3 nosuch 1", Err(4, no_option)),
             (f"config set {name} 3 databases 2", fixed),
             (f"config set {name} 3 {name} 4", Err(4, failed.format(name, "duplicate parameter"))),
             (f"config get {name}", [name.encode(), b"10"]),
             *((f"config set {name} {n}", OK) for n in range(1, 11)))  # fmt: skip


@case(since=22)
def a_set_that_sets_nothing_is_nil(chapter: int) -> None:
    """The null of the version that the connection has asked for."""
    with start(chapter) as server, server.connect() as conn:
        asks(conn, ("set k v xx", NIL), ("set k v nx", OK), ("set k w nx", NIL), ("get k", b"v"))
        raw(conn, b"set k w nx\r\n", b"$-1\r\n")
        hello(conn, 3)
        raw(conn, b"set k w nx\r\n", b"_\r\n")
        raw(conn, b"getex none\r\ngetdel none\r\ngetset none v\r\nset l v get\r\n", b"_\r\n" * 4)
        asks(conn, ("zadd z 1 a", 1), ("set z v nx", NIL), ("get z", WRONG), ("setnx z v", 0))
