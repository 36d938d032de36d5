"""22-events: how many events of each kind there were, counted where all changes are told."""
from __future__ import annotations

import time
from typing import Dict

from grading import Submission, points
from harness import Conn, Server
from harness.resp import split_inline

# A command, and the events that Redis tells of it. Each begins where the one before has ended.
TOLD = [
    ("set k v", "set"), ("set k v ex 100", "set expire"), ("set k v keepttl", "set"), ("setex k 10 v", "set expire"),
    ("psetex k 10000 v", "set expire"), ("getset k v", "set"), ("getex k ex 100", "expire"),
    ("getex k persist", "persist"), ("getex k pxat 5", "del"), ("setnx k 1", "set"), ("incr k", "incrby"),
    ("decrby k 3", "incrby"), ("incrbyfloat k 0.5", "incrbyfloat"), ("append k 1", "append"),
    ("append other x", "append"), ("setrange other 5 y", "setrange"), ("msetnx m 1 n 2", "set set"),
    ("mset a 1 b 2 a 3", "set set set"), ("expire a 100", "expire"), ("pexpireat a 3000000000000", "expire"),
    ("persist a", "persist"), ("expire a -1", "del"),
    ("getdel b", "del"), ("zadd z 1 a 2 b 3 c", "zadd"), ("zadd z incr 1 a", "zincr"), ("zincrby z 1 b", "zincr"),
    ("zadd y 0 a 0 b 0 c 0 d 0 e", "zadd"), ("zpopmin y", "zpopmin"), ("zpopmax y", "zpopmax"),
    ("zremrangebylex y [b [b", "zremrangebylex"), ("zremrangebyrank y 0 0", "zremrangebyrank"),
    ("zremrangebyscore y 0 9", "zremrangebyscore del"),
    ("zrem z a", "zrem"), ("zrem z b c", "zrem del"), ("rename k l", "rename_from rename_to"),
    ("renamenx l k", "rename_from rename_to"), ("copy k l", "copy_to"), ("copy k other replace", "copy_to"),
    ("move k 3", "move_from move_to"), ("del l other none", "del del"), ("set k v pxat 1", "set expire"),
    ("get k", "expired"), ("mset a 1 b 2", "set set"), ("unlink a", "del"), ("rename b c", "rename_from rename_to"),
    ("flushdb", "flushdb"), ("swapdb 0 3", "swapdb swapdb"), ("flushall", "flushdb"),
]  # fmt: skip


def events(conn: Conn) -> Dict[str, int]:
    """The lines of `info events`."""
    told = bytes(conn.ask("info", "events")).decode()  # type: ignore[arg-type]
    return {name: int(n) for name, n in (line.split(":") for line in told.split("\r\n") if ":" in line)}


@points(4, "each command")
def test_each_command(work: Submission) -> None:
    """One command after the other, and `info events` behind each."""
    with Server(22) as server, server.connect() as conn:
        before = events(conn)
        for line, names in TOLD:
            conn.ask(*split_inline(line.encode()))
            now = events(conn)
            more = sorted(name for name in now for _ in range(now[name] - before.get(name, 0)))
            work.expect(
                more == sorted(names.split()),
                came=f"`{line}` tells of {' '.join(more) or 'nothing'}",
                expected=names,
                cause="is the name that of the kind of event, and does the right function count it?",
            )
            before = now


@points(2, "no event")
def test_no_event(work: Submission) -> None:
    """Commands that change nothing; the section beside the others; and `config resetstat`."""
    with Server(22) as server, server.connect() as conn:
        for line in ("set k v xx", "set k v", "set k w nx", "get k", "del none", "expire none 5", "persist k", "incr k",
                     "zrem z a", "move k 0", "rename k k", "copy none k", "getdel none", "swapdb 1 1"):  # fmt: skip
            conn.ask(*line.split())
        work.expect(events(conn) == {"set": 1}, came=f"`info events`: {events(conn)}",
                    expected="one `set`, and no other line", cause="which of them has changed anything?")  # fmt: skip
        for words in ([], ["all"], ["stats", "EVENTS"]):
            told = bytes(conn.ask("info", *words)).decode()  # type: ignore[arg-type]
            work.expect("# Events\r\nset:1\r\n" in told, came=f"`info {' '.join(words)}` has no # Events with set:1",
                        expected="it is a section as the others are")  # fmt: skip
        conn.ask("config", "resetstat")
        work.expect(events(conn) == {}, came=f"after `config resetstat`: {events(conn)}", expected="no line")
        told = bytes(conn.ask("info", "persistence")).decode()  # type: ignore[arg-type]
        work.expect("rdb_changes_since_last_save:1\r\n" in told,
                    came="`config resetstat` has set the changes to 0, too",
                    expected="rdb_changes_since_last_save:1")  # fmt: skip
        conn.ask("set", "k", "v", "px", "1")
        time.sleep(0.01)
        conn.ask("get", "k")
        work.expect(events(conn) == {"set": 1, "expire": 1, "expired": 1},
                    came=f"after a key has expired: {events(conn)}",
                    expected="set, expire and expired, once each")  # fmt: skip


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """Some tests of chapter 22."""
    work.chapter_tests("22-info or every_change or counters_begin")
