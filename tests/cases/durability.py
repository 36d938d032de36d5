"""What is on the disk (27 and later): a server is ended in all ways, its files are cut, changed, or too large, and
what it has when it is started again must be what it has told its clients.
"""
from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from harness import ANY, Conn, Server, fail, limit, redis, seed, settings, wait_until
from harness.build import program
from harness.grammar import RespGenerator
from harness.resp import OK, PONG, array
from harness.wire import Err

from . import case
from .append_only import (
    FIRST, MANIFEST, Folder, Words, batch, batches, everything, expect_all, first_answer, log_of,
    ready, run_up, shown,
)  # fmt: skip
from .beside_redis import _is_known
from .clock import Clock
from .events import words_of
from .resp import asks
from .talk import start, watched
from .transactions import QUEUED, Draw

__tracebackhide__ = settings.__tracebackhide__
OURS = "Redis has no sums in its log, and drops or takes what is refused here"
PERHAPS = (
    "what a request has changed is appended to the log as an effect, in a batch with a sum, and written before its "
    "reply leaves; at the start, all batches are done again, in order"
)

POLICIES = ("always", "everysec", "no")
DATED = "4000000000000"  # far away, in milliseconds since 1970


@contextmanager
def standing(
    folder: Folder, fsync: str = "no", more: Optional[Dict[str, str]] = None,
) -> Iterator[Tuple[Clock, Server, Conn]]:  # fmt: skip
    """A server with a log in the folder whose clocks are ours, that may be given a limit for its files, and a
    connection. `more` has another library that is preloaded, and what that needs."""
    clock = Clock()
    command = ["sh", "-c", 'trap "" XFSZ && exec "$@"', "sh", *program(folder.chapter, "server")]
    env = {**clock.env, "PORT": "0", **folder.env(fsync), **(more or {})}
    env["LD_PRELOAD"] = ":".join(each["LD_PRELOAD"] for each in (clock.env, more) if each)
    with start(folder.chapter, env=env, command=command) as server, server.connect() as conn:
        ready(conn)
        yield clock, server, conn


def passes_until(clock: Clock, condition: Callable[[], object], what: str) -> None:
    """Time passes, second by second, until this is so. A worker may take longer, since the disk has its own time."""

    def is_so() -> object:
        clock.step(1000)
        return condition()

    wait_until(is_so, what)


def limit_files(server: Server, size: int = resource.RLIM_INFINITY) -> None:
    """From now on, each write that makes a file larger than so many bytes fails, and leaves it as large."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def do(conn: Conn, *lines: str) -> None:
    """Requests, whatever the replies are, but for errors."""
    for line in lines:
        came = conn.ask(*words_of(line))
        if isinstance(came, Err):
            fail(f"{line}: {came.text}")


def expect_effects(what: str, got: Sequence[Words], expected: str) -> None:
    """Fails where these are other commands; their names and options may be written in any way."""
    if [shown([words]).lower() for words in got] != [line.lower() for line in expected.split(", ") if line]:
        fail(f"{what}: in the log is {shown(got) or 'nothing'}", expected=expected or "nothing")


def in_the_log(folder: Folder) -> List[Words]:
    """What is in it, without the databases."""
    return [words for _, words in folder.effects()]


# ---- it is there again ----


@case(since=27)
def all_is_there_again(chapter: int) -> None:
    """After SIGKILL: what the kernel has is written, though the server is gone. With `everysec`, and in any case, after
    SIGTERM."""
    for fsync in POLICIES:
        with Folder(chapter) as folder:
            with folder.server(fsync) as server, server.connect() as conn:
                do(conn, "set k v", "set n 41", "incr n", f"set d v pxat {DATED}", "zadd z 1 a -inf b 0.1 c",
                   "select 9", "mset k other l \"two\\r\\nwords\"", "set none v", "del none")  # fmt: skip
                before = everything(conn)
                assert len(before) == 6, before
                server.stop(signal.SIGTERM if fsync == "everysec" else signal.SIGKILL)
            for _ in range(2):
                with folder.server(fsync) as server, server.connect() as conn:
                    expect_all(f"with {fsync}, after a restart", everything(conn), before)
                    do(conn, "select 5", "append grows x")
                    before = everything(conn)


@case(since=27, perhaps="what the log does when it is done again is nobody's request: nothing of it is left over")
def the_first_request_after_a_start(chapter: int) -> None:
    """It is in the log where it changes something, and not where it does not, whatever the last one in the log was."""
    with Folder(chapter) as folder:
        for line in ("SET n 1", "INCR n", f"SET n 1 PXAT {DATED}", "ZADD z 1 a", "DEL none", "EXEC"):
            for first, expected in (("get n", ""), ("incr n", "incr n"), ("set k v", "SET k v"), ("multi", "")):
                data = log_of("SELECT 0", "MULTI", "SET n 1", line) + log_of("EXEC") * (line != "EXEC")
                folder.write(data)
                with folder.server() as server, server.connect() as conn:
                    first_answer(conn, *words_of(first))
                    expect_effects(f"behind {line}, {first}", in_batches_behind(folder, data)[1:], expected)
                    server.stop(signal.SIGKILL)


@case(since=27, time_limit=60)
def random_commands_come_back(chapter: int) -> None:
    """All that a random client has changed, by each command that writes, in transactions too; killed, or ended."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            with folder.server(rng.choice(["always", "no"])) as server, server.connect() as conn:
                draw = Draw(chapter, rng)
                for _ in range(6):
                    conn.pipeline([draw.words(False) for _ in range(100)])
                    conn.ask("discard")
                generator = RespGenerator(chapter, rng)
                for _ in range(6):
                    conn.pipeline([generator.command() for _ in range(100)])
                conn.ask("discard")
                before = everything(conn)
                server.stop(sig)
            with folder.server() as server, server.connect() as conn:
                expect_all(f"after signal {sig.value} and a restart", everything(conn), before)
                server.stop(signal.SIGKILL)


# ---- what goes into the log ----


@case(since=27, perhaps="a time from now on becomes a date, a rounded number its result, EXPIRE in the past DEL")
def effects_not_requests(chapter: int) -> None:
    """What was changed, and so that it is the same at any time: dates, no spans; results, where they were rounded."""
    soon = 4_000_000_000_000 - Clock().wall_ms
    with Folder(chapter) as folder, standing(folder) as (clock, _, conn):
        now = clock.wall_ms
        done = 0
        for line, expected in (
            ("set k v", "SET k v"), ("set k v ex 100", f"SET k v PXAT {now + 100_000}"),
            ("set k w px 100500 get", f"SET k w PXAT {now + 100_500}"), ("set k v keepttl", "SET k v KEEPTTL"),
            ("set k v xx exat 4000000000", f"SET k v PXAT {DATED}"), (f"set k v pxat {DATED}", f"SET k v PXAT {DATED}"),
            ("setex k 7 v", f"SET k v PXAT {now + 7000}"), ("psetex k 77 v", f"SET k v PXAT {now + 77}"),
            ("getset k x", "SET k x"), ("setnx m 1", "SET m 1"), ("incrbyfloat m 0.1", "SET m 1.1 KEEPTTL"),
            (f"pexpire k {soon}", f"PEXPIREAT k {DATED}"), ("expire k 5", f"PEXPIREAT k {now + 5000}"),
            ("expireat k 4000000000 gt", f"PEXPIREAT k {DATED}"), ("getex k ex 9", f"PEXPIREAT k {now + 9000}"),
            ("getex k persist", "PERSIST k"), ("expire k 5 nx", f"PEXPIREAT k {now + 5000}"),
            ("persist k", "persist k"), ("expire k -1", "DEL k"), ("set k v", "SET k v"),
            (f"pexpireat k {now - 1}", "DEL k"),
            ("set k v", "SET k v"), (f"getex k pxat {now - 1}", "DEL k"), ("set k v", "SET k v"),
            ("getdel k", "DEL k"), ("mset a 1 b 2", "mset a 1 b 2"), ("INCR a", "INCR a"), ("append b x", "append b x"),
            ("zadd z nx 1 a 2 b", "zadd z nx 1 a 2 b"), ("zincrby z 0.1 a", "zincrby z 0.1 a"),
            ("zpopmin z", "zpopmin z"), ("rename b c", "rename b c"), ("copy c d replace", "copy c d replace"),
            ("move d 3", "move d 3"), ("swapdb 3 4", "swapdb 3 4"), ("del a c none", "del a c none"),
            ("flushdb", "flushdb"), ("flushall", "flushall"),
        ):  # fmt: skip
            do(conn, line)
            effects = in_the_log(folder)
            expect_effects(line, effects[done:], expected)
            done = len(effects)


@case(since=27)
def nothing_for_what_changed_nothing(chapter: int) -> None:
    """Reads, conditions that are not met, keys that are not there, errors: the log does not grow."""
    with Folder(chapter) as folder, standing(folder, "always") as (_, server, conn):
        do(conn, "set k v", "set n 1", f"set d v pxat {DATED}", "zadd z 1 a 2 b")
        size = folder.last.stat().st_size
        for line in (
            "get k", "exists k", "ttl d", "touch k", "zrange z 0 -1", "scan 0", "dbsize", "ping", "select 3",
            "select 0", "set k w nx", "set none w xx", "setnx k w", "msetnx k 1 new 2", "getex k",
            "getex none ex 5", "getdel none", "del none", "unlink none", "expire none 5", "expire k 5 xx",
            "pexpireat d 1000000000000 gt", "persist k", "setrange none 0 \"\"", "zadd z 1 a", "zadd z gt 0 a",
            "zadd none xx 1 a", "zrem z none",
            "zrem none a", "zpopmin none", "zremrangebyrank z 5 9", "zremrangebyscore z 7 8", "renamenx k n",
            "copy k n", "copy none x", "move none 1", "incr k", "zadd k 1 a", "zadd z x a", "set k", "nosuch",
            "set k v ex 0", "rename none x", "publish news hello", "config get *", "watch k", "unwatch", "multi",
            "get k", "exec", "multi", "set k w", "discard", "multi", "del none", "exec", "multi", "exec",
        ):  # fmt: skip
            conn.ask(*words_of(line))
            if folder.last.stat().st_size != size:
                fail(f"{line} has changed nothing, and in the log is {shown(in_the_log(folder)[4:])}",
                     expected="the log is as it was")  # fmt: skip


@case(since=27)
def each_effect_in_its_database(chapter: int) -> None:
    """Three connections in three databases, in one round: what they have done is done again in these, in order."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        with folder.server("always") as server, ExitStack() as stack:
            conns = [stack.enter_context(server.connect()) for _ in range(3)]
            for db, conn in enumerate(conns):
                do(conn, f"select {5 * db}")
            wanted, sent = {db: 0 for db in (0, 5, 10)}, []
            for i in range(60):
                number = rng.randrange(3)
                conns[number].send(array("set", "k", str(i)))
                sent.append(number)
            for number in sent:
                conns[number].recv(OK)
            do(conns[0], "swapdb 0 5", "set k swapped", "move k 7", "set k last")
            for i, number in enumerate(sent):
                wanted[5 * number] = i
            effects = [(db, words) for db, words in folder.effects() if words[0].lower() == b"set"][:60]
            for db in (0, 5, 10):
                mine = [int(words[2]) for at, words in effects if at == db]
                if mine != [i for i, number in enumerate(sent) if 5 * number == db]:
                    fail(f"database {db} has in the log {mine}", expected="what was sent to it, in order")
            before = everything(conns[0])
            server.stop(signal.SIGKILL)
        assert before[7, b"k"][0] == b"swapped" and before[0, b"k"][0] == b"last"
        assert before[10, b"k"][0] == b"%d" % wanted[10]
        with folder.server() as server, server.connect() as conn:
            expect_all("after a restart", everything(conn), before)


@case(since=27, perhaps="MULTI goes in front of the first effect, EXEC behind the last, and both into one batch")
def a_transaction_is_one_batch(chapter: int) -> None:
    """From MULTI to EXEC, in each database that it selects. One without an effect is not there at all."""
    with Folder(chapter) as folder, standing(folder, "always") as (_, server, conn), server.connect() as other:
        for lines, expected in (
            (["multi", "set k 1", "incr k", "get k", "exec"], "SELECT 0, MULTI, SET k 1, incr k, EXEC"),
            (["multi", "set k 2", "exec"], "SELECT 0, MULTI, SET k 2, EXEC"),
            (["multi", "get k", "del none", "exec"], ""),
            (["multi", "set k 3", "discard"], ""),
            (["multi", "set k 4", "incr z x", "exec"], ""),
            (["multi", "select 3", "set k 5", "select 0", "set l 6", "exec"],
             "SELECT 3, MULTI, SET k 5, SELECT 0, SET l 6, EXEC"),
            (["watch k", "OTHER set k 7", "multi", "set k 8", "exec"], "SELECT 0, SET k 7"),
            (["multi", "set k 9", "config set appendfsync always", "incr k", "exec"],
             "SELECT 0, MULTI, SET k 9, incr k, EXEC"),
            (["multi", "get k", "expire k 100", "incrbyfloat k 0.5", "incr k", "expire k -1", "exec"], ANY),
        ):  # fmt: skip
            done = len(folder.commands())
            for line in lines:
                who = other if line.startswith("OTHER ") else conn
                who.ask(*words_of(line.replace("OTHER ", "")))
            came = folder.commands()[done:]
            if expected is not ANY:
                expect_effects("; ".join(lines), came, str(expected))
            names = [words[0].upper() for words in came]
            for part in [part for part in folder.batches() if part.commands]:
                inside = [words[0].upper() for words in part.commands]
                if inside.count(b"MULTI") != inside.count(b"EXEC"):
                    fail(f"a batch is {shown(part.commands)}", expected="all from MULTI to EXEC")
        assert names[1:] == [b"MULTI", b"PEXPIREAT", b"SET", b"DEL", b"EXEC"], names
        before = everything(conn)
        server.stop(signal.SIGKILL)
        with folder.server() as server, server.connect() as conn:
            expect_all("after a restart", everything(conn), before)


@case(since=27, perhaps="a key whose time is over is deleted by name, in front of what found it; replay knows no time")
def an_expired_key_is_deleted_by_name(chapter: int) -> None:
    """By the cycle, or by a request that finds it: DEL stands in front of what the request has done then."""
    with Folder(chapter) as folder:
        with standing(folder) as (clock, server, conn):
            do(conn, "config set active-expire-effort 1", "set k v px 100", "set cycle v px 100", "set stays v px 101",
               "multi", "set in v px 1", "exec")  # fmt: skip
            done = len(in_the_log(folder))
            os.kill(server.pid, signal.SIGSTOP)
            conn.send(array("append", "k", "w") + array("get", "stays") + array("get", "in"))
            clock.leap(101)
            os.kill(server.pid, signal.SIGCONT)
            conn.recv(1)
            conn.recv(b"v")
            conn.recv(None)
            clock.step(1000)
            clock.step(1000)
            effects = in_the_log(folder)[done:]
            gone = [words[1] for words in effects if words[0].upper() == b"DEL"]
            if sorted(gone) != [b"cycle", b"in", b"k", b"stays"]:
                fail(f"the time of four keys is over, and in the log is {shown(effects)}", expected="DEL of each, once")
            mine = [words for words in effects if words[1] == b"k"]
            expect_effects("a key that has expired is appended to", mine, "DEL k, append k w")
            before = everything(conn)
            assert list(before) == [(0, b"k")], before
            server.stop(signal.SIGKILL)
        with folder.server() as server, server.connect() as conn:
            expect_all("after a restart", everything(conn), before)


@case(since=27)
def nothing_expires_but_by_the_file(chapter: int) -> None:
    """While the log is done again, a key is there until the log deletes it, however late it is. Then time goes on."""
    with Folder(chapter) as folder:
        folder.write(log_of(
            "SELECT 0", "SET k v PXAT 1000", "APPEND k w", "PERSIST k", "SET gone v", "PEXPIREAT gone 1000",
            "SET n 1 PXAT 5", "INCR n", "RENAME n m", f"PEXPIREAT m {DATED}", "SET z 1 PXAT 1", "DEL z", "ZADD z 1 a",
        ))  # fmt: skip
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get k", b"vw"), ("ttl k", -1), ("get m", b"2"), ("pexpiretime m", int(DATED)),
                 ("get gone", None), ("zcard z", 1))  # fmt: skip
            wait_until(lambda: [b"DEL", b"gone"] in folder.commands(), "what has expired meanwhile is deleted")


# ---- the form ----


@case(since=27, perhaps="#BATCH: is followed by 10 and 20 digits; the sum is of the offset, the line and the commands")
def batches_and_their_sums(chapter: int) -> None:
    """Nothing else is in the file; with `always`, each batch says that all in front of it is on the disk."""
    with Folder(chapter) as folder:
        for fsync in POLICIES:
            with folder.server(fsync) as server, server.connect() as conn:
                for i in range(5):
                    do(conn, f"set k {i}")
                    parts = folder.batches()
                    if fsync != "everysec" and [b"SET", b"k", b"%d" % i] not in parts[-1].commands:
                        fail(f"the last batch is {shown(parts[-1].commands)}", expected=f"SET k {i}: it was answered")
                    told = [part.end for part in parts[:-1] if part.commands]
                    if fsync == "always" and parts[-1].synced < max(told, default=0):
                        fail(f"a batch at byte {parts[-1].offset} says that {parts[-1].synced} are on the disk",
                             expected="all batches before it are, with `always`")  # fmt: skip
                    if any(part.commands and part.commands[0][0] != b"SELECT" for part in parts):
                        fail(f"a batch is {shown(parts[-1].commands)}", expected="SELECT is the first command of each")
                done = len(parts)
                conn.pipeline([["incr", "n"]] * 100)
                parts = folder.batches()[done:]
                if sum(bool(part.commands) for part in parts) > 50:
                    fail(f"100 requests in one write make {len(parts)} batches", expected="one for each round")
            last = folder.batches()[-1]
            if last.commands or last.synced != last.offset:
                fail(f"the server was ended, and the last batch has the commands {shown(last.commands)}, and says that "
                     f"{last.synced} of {last.offset} bytes in front of it are on the disk",
                     expected="a mark: no commands, and all is on the disk")  # fmt: skip
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get n", b"300"))


@case(since=27, perhaps="everysec: a worker syncs once a second, and the next batch, or a mark, says how far")
def a_mark_says_what_is_on_the_disk(chapter: int) -> None:
    """Within two seconds of the last change. With nothing to say the file does not grow, and the server sleeps."""
    for fsync in POLICIES:
        with Folder(chapter) as folder, standing(folder, fsync) as (clock, _, conn):
            for i in range(3):
                do(conn, f"set k {i}")
                size = max(part.end for part in folder.batches() if part.commands)
                if fsync == "no":  # nobody knows what is on the disk
                    clock.step(2000)
                else:
                    passes_until(clock, lambda: marked(folder, size), f"a mark says that {size} bytes are on the disk")
                size = folder.last.stat().st_size
                for _ in range(3):
                    clock.step(1000)
                if folder.last.stat().st_size != size or clock.until_ms is not None:
                    fail(f"with {fsync} nothing has changed, and the log has grown, or the server waits for a time",
                         expected="the server waits for its clients, for ever")  # fmt: skip


def marked(folder: Folder, size: int, begin: int = 0) -> bool:
    """Is the last batch, of those from this byte on, a mark that says that so many bytes are on the disk?"""
    parts = batches(folder.last.read_bytes()[begin:], begin)
    return bool(parts) and not parts[-1].commands and parts[-1].synced >= size


# ---- torn tails ----


def small_log(folder: Folder, *lines: str) -> bytes:
    """The log of a server that was killed, nothing of which is known to be on the disk."""
    with folder.server("no") as server, server.connect() as conn:
        do(conn, *lines)
        server.stop(signal.SIGKILL)
    return folder.last.read_bytes()


def started_on(chapter: int, logs: Sequence[bytes]) -> List[bytes]:
    """What becomes of each of these logs where a server starts on it, and is killed then. Two are under way at once."""

    def left_of(log: bytes) -> bytes:
        with Folder(chapter) as folder:
            folder.write(log)
            came, status = run_up(chapter, folder.env("no"))
            if status is not None:
                fail(f"on a log of {len(log)} bytes no server starts: {came}", expected="it goes on with what is whole")
            return folder.last.read_bytes()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(left_of, logs))


def in_batches(data: bytes) -> List[Words]:
    """The commands of a file that is nothing but batches."""
    return [words for part in batches(data) for words in part.commands]


def in_batches_behind(folder: Folder, data: bytes) -> List[Words]:
    """The commands that a server has appended to these bytes."""
    return [words for part in batches(folder.last.read_bytes()[len(data) :], len(data)) for words in part.commands]


@case(since=27, time_limit=60, perhaps="what is not whole is cut off the file before anything is appended")
def cut_at_every_byte(chapter: int) -> None:
    """A log that ends anywhere is what it was up to the last whole batch; and so is what is appended then."""
    with Folder(chapter) as folder:
        data = small_log(folder, "set k v", "multi", "set l 1", "incr l", "exec")
        ends = [0, *(part.end for part in batches(data))]
        begin = next(part.offset for part in batches(data) if part.commands)
        logs = [data[:size] for size in range(len(data) + 1) if size >= begin or size % 8 == 0]
        for log, left in zip(logs, started_on(chapter, logs)):
            whole = data[: max(end for end in ends if end <= len(log))]
            if in_batches(left) != in_batches(whole) or not left.startswith(whole):
                fail(f"of {len(data)} bytes {len(log)} are there: in the log is {shown(in_batches(left)) or 'nothing'}",
                     expected=shown(in_batches(whole)) or "nothing")  # fmt: skip
        for size in (0, 50, ends[-2] - 1, ends[-2] + 1, ends[-1] - 25, ends[-1] - 1):
            folder.write(data[:size])
            with folder.server("no") as server, server.connect() as conn:
                do(conn, "set new v")
                server.stop(signal.SIGKILL)
            keys = {words[1] for words in in_batches(data[: max(end for end in ends if end <= size)]) if b"v" in words}
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                came = conn.ask("keys", "*")
                if sorted(came) != sorted({*keys, b"new"}):  # type: ignore[type-var]
                    fail(f"after a cut at byte {size}, SET new v and a restart there is {came!r}")


@case(since=27)
def what_a_machine_leaves_at_the_end(chapter: int) -> None:
    """Zeros, or anything, behind the last batch or in its place: dropped, with a line that says how many bytes."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        data = small_log(folder, "set k v", "set l w")
        last = batches(data)[-1].offset
        for size, rest in (
            (len(data), bytes(1)), (len(data), bytes(12)), (len(data), bytes(4096)), (len(data), b"*"),
            (len(data), b"#"), (len(data), b"?" + bytes(rng.randrange(256) for _ in range(600))), (last, bytes(4096)),
            (len(data) - 30, bytes(30)), (last + 60, bytes(10_000)), (len(data), b"#BATCH:0000000000 "),
            (len(data), data[last:]),
        ):  # fmt: skip
            whole = data[:last] if size < len(data) else data
            folder.write(data[:size] + rest)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get k", b"v"), ("get l", b"w" if size == len(data) else None))
                line = server.wait_line(re.compile("dropped"))
                dropped = size + len(rest) - len(whole)
                if any(word not in line for word in (FIRST, str(dropped), str(len(whole)))):
                    fail(f"behind byte {len(whole)} are {dropped} bytes that are no batch: {line}",
                         expected="a line with the file, that byte, and how many are dropped")  # fmt: skip


# ---- damage ----


@case(since=27, time_limit=60, perhaps="it is damage where a batch further on says that more was synced")
def a_flipped_bit(chapter: int) -> None:
    """In a log that was closed: refused, with the file and where, and the file is as it was. Only the mark at its end
    may be dropped."""
    with Folder(chapter) as folder:
        with folder.server() as server, server.connect() as conn:
            do(conn, "set k v", "set l w", "select 7", "multi", "incr n", "incr n", "exec", "set k last")
        data = folder.last.read_bytes()
        parts = batches(data)
        for at in sorted({*range(0, len(data), 7), *(part.offset + 1 for part in parts)}):
            damaged = bytearray(data)
            damaged[at] ^= 1 << at % 8
            folder.write(bytes(damaged))
            part = next(part for part in parts if at < part.end)
            if part is parts[-1]:
                with folder.server() as server, server.connect() as conn:
                    ready(conn)
                    asks(conn, ("get k", b"v"), ("select 7", OK), ("get n", b"2"), ("get k", b"last"))
            else:
                came = folder.refused(FIRST, "truncate")
                if f"byte {part.offset}:" not in came or folder.last.read_bytes() != damaged:
                    fail(f"a bit at byte {at} is wrong: {came.strip()}",
                         expected=f"byte {part.offset} is named, and the file is as it was")  # fmt: skip


@case(since=27)
def what_was_synced_is_not_torn(chapter: int) -> None:
    """A wrong batch is damage where one behind it says that it was on the disk; else all behind it is dropped."""
    with Folder(chapter) as folder:
        first = batch(log_of("SELECT 0", "SET k v"), 0)
        second = batch(log_of("SELECT 0", "SET l w"), len(first))
        third = len(first) + len(second)
        for synced, refused in ((0, False), (len(first), False), (len(first) + 1, True), (third, True)):
            data = first + second[:60] + b"?" + second[61:] + batch(log_of("SELECT 0", "SET m x"), third, synced)
            folder.write(data)
            if refused:
                folder.refused(FIRST, f"byte {len(first)}:")
                assert folder.last.read_bytes() == data
            else:
                assert in_batches(started_on(chapter, [data])[0])[1:] == [[b"SET", b"k", b"v"]]
        moved = batch(log_of("SELECT 0", "SET l w"), 0)  # whole, but of another place
        assert in_batches(started_on(chapter, [first + moved])[0])[1:] == [[b"SET", b"k", b"v"]]


@case(since=27)
def an_earlier_file_is_whole(chapter: int) -> None:
    """Each file but the last has the size that the manifest says, or no server starts. None of them is ever cut."""
    first, second = "appendonly.aof.1.incr.aof", "appendonly.aof.2.incr.aof"
    with Folder(chapter) as folder:
        parts = batch(log_of("SELECT 0", "SET k v"), 0)
        parts += batch(log_of("SELECT 0", "SET l w"), len(parts))
        last = batch(log_of("SELECT 0", "APPEND l x"), 0)
        whole = batches(parts)[0].end
        for data, size, rest, fine in (
            (parts, len(parts), last, True), (parts[:-1], len(parts), last, False),
            (parts[:whole], len(parts), last, False), (b"", len(parts), last, False),
            (parts + bytes(7), len(parts), last, False),
            (parts + last, len(parts), b"", False), (parts, len(parts), last[:-3], True),
            (parts, len(parts), b"", True), (parts[:-1], None, last, False),
            (parts[:whole] + bytes(50), None, last, False), (parts, None, last, True),
        ):  # fmt: skip
            told = "" if size is None else f" size {size}"
            folder.manifest = f"file {first} seq 1 type i{told}\nfile {second} seq 2 type i\n"
            folder.put(first, data)
            folder.put(second, rest)
            if not fine:
                folder.refused(first)
                assert (folder.log / first).read_bytes() == data, "a file that is not the last was changed"
                continue
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get k", b"v"), ("get l", b"wx" if rest == last else b"w"))
            assert (folder.log / first).read_bytes() == data


@case(since=27)
def a_manifest_that_is_wrong(chapter: int) -> None:
    """No server starts: it would not know which files count. What Redis may write into it besides is passed over."""
    line = f"file {FIRST} seq 1 type i\n"
    with Folder(chapter) as folder:
        data = small_log(folder, "set k v")
        for text in (
            "", "\n", line[:-1], f"{line}\n", f"file {FIRST} seq 1 type\n", f"file {FIRST} seq 1\n",
            f"file {FIRST} seq x type i\n", f"file {FIRST} seq 0 type i\n", f"file {FIRST} seq -1 type i\n",
            f"file {FIRST} seq 1 type x\n", f"file ../{FIRST} seq 1 type i\n", f"file '{FIRST} seq 1 type i\n",
            line + line, f"file nosuch seq 1 type i\n{line.replace('seq 1', 'seq 2')}",
            f"{line}file {FIRST} seq 1 type b\n",
            "file nosuch seq 1 type i\n", f"{line}file nosuch seq 2 type i\n",
        ):  # fmt: skip
            folder.write(data)
            folder.manifest = text
            folder.refused("nosuch" if "nosuch" in text else MANIFEST)
            if folder.manifest != text or (folder.log / FIRST).read_bytes() != data:
                fail(f"the manifest was {text!r}, and a file is another one now")
        for text in (
            line, f"# a remark\n{line}", f"FILE {FIRST} Seq 1 TYPE i\n", f'file "{FIRST}" seq 1 type i\n',
            f"file {FIRST} seq 1 type i color red\n", f"file gone seq 7 type h\n{line}",
            f"type i seq 1 file {FIRST}\n",
        ):  # fmt: skip
            folder.write(data)
            folder.manifest = text
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get k", b"v"))
        (folder.log / MANIFEST).unlink()
        folder.refused(FIRST)


@case(since=27)
def two_servers_on_one_log(chapter: int) -> None:
    """The second one says so, and ends. The first one goes on; when it is gone, however, another may have the log."""
    with Folder(chapter) as folder:
        with folder.server() as server, server.connect() as conn:
            do(conn, "set k v")
            folder.refused("another server", str(folder.path))
            do(conn, "set l w")
            server.stop(signal.SIGKILL)
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get k", b"v"), ("get l", b"w"))


# ---- files of Redis ----


@case(since=27)
def without_batches(chapter: int) -> None:
    """A log of Redis has none: its last command may be cut, or a transaction open, and is dropped. All else that is no
    command is damage."""
    whole = log_of("SELECT 0", "SET k v", "MULTI", "SET l 1", "INCR l", "EXEC")
    with Folder(chapter) as folder:
        for rest in (
            b"", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab", b"*", b"*3", log_of("MULTI"), log_of("MULTI", "SET k 2"),
            log_of("MULTI", "SET k 2", "EXEC")[:-1], bytes(12), bytes(4096), b"#TS:16", b"#TS:1600000000\r\n",
        ):  # fmt: skip
            folder.write(whole + rest)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get k", b"v"), ("get l", b"2"), ("set m x", OK))
                server.stop(signal.SIGKILL)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get k", b"v"), ("get l", b"2"), ("get m", b"x"))
        more = log_of("SET m x")
        for rest, at in (
            (b"!!!\r\n" + more, 0), (b"# a note\n" + more, 0), (b"\r\n" + more, 0), (bytes(12) + more, 0),
            (log_of("nosuch k") + more, 0),
            (log_of("SET k") + more, 0), (log_of("INCR k") + more, 0), (log_of("SELECT 16") + more, 0),
            (log_of("GET k") + more, 0), (b"*1\r\n$x\r\n" + more, 0), (log_of("SET k 2") + b"GET" + more, 27),
            (b"*0\r\n" + more, 0),
        ):  # fmt: skip
            data = whole + b"#TS:1600000000\r\n" + whole + rest
            folder.write(data)
            came = folder.refused(FIRST)
            if f"byte {len(data) - len(rest) + at}:" not in came or folder.last.read_bytes() != data:
                fail(f"behind {len(data) - len(rest)} bytes is {rest!r}: {came.strip()}",
                     expected=f"byte {len(data) - len(rest) + at} is named, and the file is as it was")  # fmt: skip


def redis_on(folder: Folder) -> Server:
    """Redis, with its log in this folder."""
    return Server(folder.chapter, command=[redis.NAME], env=folder.env(), early=True)


def no_fault(folder: Folder) -> None:
    """Fails where the program of Redis that looks at logs finds anything wrong."""
    done = subprocess.run(["redis-check-aof", str(folder.log / MANIFEST)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit(20))  # fmt: skip
    if done.returncode:
        fail(f"redis-check-aof: {done.stdout.decode(errors='replace')[-600:]}", expected="all files are valid")


@case(since=27, time_limit=60)
def redis_and_we_take_turns(chapter: int) -> None:
    """On one log: each has what the other one has left, and appends to it. Redis finds no fault in our files."""
    settings.needs(redis.NAME, "redis-check-aof")
    rng = random.Random(seed())
    for redis_first in (False, True):
        with Folder(chapter) as folder:
            before = {}
            for i in range(3):
                theirs = (i % 2 == 0) == redis_first
                with redis_on(folder) if theirs else folder.server() as server, server.connect() as conn:
                    who = "Redis" if theirs else "we"
                    expect_all(f"turn {i}, of {who}", everything(conn), before)
                    draw = Draw(chapter, rng)
                    batch_of = [words for words in (draw.words(False) for _ in range(150)) if _is_known(words)]
                    conn.pipeline(batch_of)
                    conn.ask("discard")
                    conn.ask("mset", "k", str(i), "turn", str(i))
                    before = everything(conn)
                    server.stop(signal.SIGKILL)
                no_fault(folder)
            if redis_first:
                continue
            with open(folder.last, "ab") as file:
                file.write(log_of("MULTI", "SET k 99"))
            with folder.server() as server, server.connect() as conn:
                expect_all("behind our batches Redis was killed in a transaction", everything(conn), before)
            no_fault(folder)


# ---- where it cannot be written ----


@case(since=27, perhaps="a write that fails is undone, its bytes stay in memory, and are tried again each second")
def writes_are_refused_while_the_disk_is_full(chapter: int) -> None:
    """And reads are not. When there is room again, all that was answered is in the log."""
    for fsync in ("everysec", "no"):
        with Folder(chapter) as folder:
            with standing(folder, fsync) as (clock, server, conn):
                do(conn, "set k v", "zadd z 1 a")
                size = folder.last.stat().st_size
                limit_files(server, size + 30)  # a part of the next batch fits
                do(conn, "incr answered")
                limit_files(server, 10)
                error = Err(4, "MISCONF Errors writing to the AOF file: File too large")
                for line in ("set k w", "del k", "ping", "zadd z 2 b", "flushall", "expire k 1"):
                    asks(conn, (line, error))
                asks(conn, ("get k", b"v"), ("zcard z", 1), ("exists answered", 1), ("echo x", b"x"))
                do(conn, "multi", "get k")
                asks(conn, ("exec", [b"v"]))
                assert folder.last.stat().st_size == size, "a part of a batch is in the file"
                batches(folder.last.read_bytes())
                clock.step(1000)
                clock.step(1000)
                asks(conn, ("set k w", error))
                limit_files(server)
                for _ in range(3):
                    clock.step(1000)
                asks(conn, ("set k x", OK), ("incr answered", 2), ("ping", PONG))
                before = everything(conn)
                server.stop(signal.SIGTERM if fsync == "everysec" else signal.SIGKILL)  # a sync may go on
            with folder.server() as server, server.connect() as conn:
                expect_all(f"with {fsync}, after a restart", everything(conn), before)
            with folder.server() as server, server.connect() as conn:
                expect_all(f"with {fsync}, after one more", everything(conn), before)


@case(since=27, perhaps="with `always` a reply leaves after a sync that works: of this file, of a new one, or never")
def always_goes_on_in_a_new_file_or_ends(chapter: int) -> None:
    """A client never gets an answer for what is not on the disk; where a new file works, it notices nothing."""
    with Folder(chapter) as folder:
        with standing(folder, "always") as (_, server, conn):
            do(conn, "set k v")
            size = folder.last.stat().st_size
            limit_files(server, size + 30)
            do(conn, "incr k2")
            limit_files(server)
            do(conn, "set k w")
            if len(folder.names) != 2 or f"seq 1 type i size {size}" not in folder.manifest:
                fail(f"the manifest is {folder.manifest}", expected="two files, and the size of the first one")
            limit_files(server, 10)
            conn.send(array("set", "k", "lost"))
            if server.wait_end() != 1 or conn.read_to_end():
                fail("nothing can be written, and a reply has left, or the server goes on", expected="exit status 1")
            if not any("always" in line for line in server.log):
                fail(f"the last words of the server: {server.log}", expected="they say what is wrong, and what to do")
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get k", b"w"), ("get k2", b"1"))


# ---- kill it ----


@case(since=27, time_limit=60)
def twenty_times_killed(chapter: int) -> None:
    """Under load, at any moment: what was answered is there, and nothing that was not sent."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        counts = [0] * 4  # what each client was told last
        for i in range(20):
            with folder.server(("always", "no")[i % 2]) as server:
                with server.connect() as conn:
                    ready(conn)
                    for number, told in enumerate(counts):
                        got = int(conn.ask("get", f"count:{number}") or 0)  # type: ignore[call-overload]
                        if not told <= got <= told + 1:
                            fail(f"start {i + 1}: a client was told {told}, and has {got} now")
                        counts[number] = got
                threads = [threading.Thread(target=_count, args=(server, number, counts)) for number in range(4)]
                for thread in threads:
                    thread.start()
                wanted = sum(counts) + rng.randrange(1, 200)
                wait_until(lambda: sum(counts) >= wanted, "the server is under load")
                server.stop(signal.SIGKILL)
                for thread in threads:
                    thread.join()


def _count(server: Server, number: int, counts: List[int]) -> None:
    """Counts in a key of the server until it is gone, by a transaction now and then."""
    with suppress(AssertionError), server.connect() as conn:
        while True:
            if counts[number] % 10 == 9:
                conn.send(array("multi") + array("incr", f"count:{number}") + array("exec"))
                conn.recv(OK)
                conn.recv(QUEUED)
                got = conn.recv()
                counts[number] = got[0]  # type: ignore[index]
            else:
                counts[number] = conn.ask("incr", f"count:{number}")  # type: ignore[assignment]


# ---- while it is loaded ----


@case(since=27, time_limit=60, perhaps="loading goes on a few milliseconds in each round of the loop")
def while_it_loads(chapter: int) -> None:
    """All that reads or writes is refused; what asks for neither is answered. It can be told to end, too."""
    error = Err(4, "LOADING Redis is loading the dataset in memory")
    members = b"".join(b"$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(20_000))
    with Folder(chapter) as folder:
        folder.write(b"*20002\r\n$4\r\nZADD\r\n$1\r\nz\r\n" + members + log_of("COPY z y REPLACE") * 5000)
        with folder.server() as server, server.connect() as conn:
            asks(conn, ("get n", error), ("ping", error), ("set k v", error), ("echo x", b"x"), ("dbsize", error),
                 ("select 1", OK))  # fmt: skip
            info = conn.ask("info", "persistence")
            if not isinstance(info, bytes) or b"loading:1\r\n" not in info:
                fail(f"INFO says {info!r}", expected="loading:1")
            conn.send(array("get", "n"))
            if server.stop(signal.SIGTERM):
                fail("a server that is told to end while it loads ends with another status than 0")
        times = 200_000
        data = log_of("SELECT 0") + log_of("INCR n") * times
        folder.write(data)
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get n", b"%d" % times), ("ping", PONG))
            server.stop(signal.SIGKILL)
        assert in_batches_behind(folder, data) == []


@case(since=27, inside=True, perhaps="a log without a byte is loaded, too; only then does it go on")
def files_that_are_empty(chapter: int) -> None:
    """However long it takes to open them, the log goes on behind them. One is a pipe, to which somebody comes late."""
    with Folder(chapter) as folder:
        names = [f"appendonly.aof.{i}.incr.aof" for i in (1, 2, 3)]
        folder.manifest = "".join(f"file {name} seq {i} type i\n" for i, name in enumerate(names, 1))
        for name in names:
            folder.put(name, b"")
        late = folder.log / names[1]
        late.unlink()
        os.mkfifo(late)
        late.chmod(0o666)
        writer = threading.Timer(0.1, lambda: late.open("wb").close())
        writer.start()
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            do(conn, "set k v")
            server.stop(signal.SIGKILL)
        writer.join()
        if b"SET" not in folder.last.read_bytes():
            fail(f"after `set k v`, the last file has {folder.last.read_bytes()!r}", expected="a batch with SET k v")


# ---- turned on, and off ----


@case(since=27, time_limit=60, perhaps="the log begins with a base: all keys of all databases, with their dates")
def turned_on_while_keys_are_there(chapter: int) -> None:
    """The base has all of them, whatever they are; the manifest names it first, and files of before are gone."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        with start(chapter, env={"DIR": str(folder.path), "APPENDFSYNC": "always"}) as server, server.connect() as conn:
            draw = Draw(chapter, rng)
            conn.pipeline([draw.words(False) for _ in range(200)])
            conn.ask("discard")
            big = [word for i in range(200) for word in (f"{rng.choice([i, i / 3, '-inf'])}", f"name {i}" + "x" * 6000)]
            conn.ask("zadd", "big", *big, expect=200)
            conn.ask("mset", "empty", "", "", "no name", b"\0\r\n", b"*1\r\n\xff", "long", "x" * 1_100_000, expect=OK)
            do(conn, f"pexpireat long {DATED}", f"pexpireat big {DATED}", "select 15", "set k v")
            for turn in range(1, 4):
                do(conn, "config set appendonly yes", "select 3", f"set turn {turn}", "select 15", "incr n")
                names = sorted(path.name for path in folder.log.iterdir())
                if names != [f"appendonly.aof.{turn}.base.aof", f"appendonly.aof.{turn}.incr.aof", MANIFEST]:
                    fail(f"turned on {turn} times, the folder has {names}", expected="a base, a file of changes")
                base = (folder.log / names[0]).read_bytes()
                for batch in batches(base if turn == 3 else b""):
                    size = batch.end - batch.offset
                    if size > 1_200_000 and not any(b"long" in words for words in batch.commands):
                        fail(f"a batch of the base has {size} bytes", expected="about a MiB at most")
                if folder.manifest.splitlines()[0] != f"file {names[0]} seq {turn} type b size {len(base)}":
                    fail(f"the manifest is {folder.manifest}", expected=f"the base first, and its size, {len(base)}")
                before = everything(conn)
                if turn < 3:
                    do(conn, "config set appendonly no", "select 3", "set turn lost", "config set appendonly no")
            server.stop(signal.SIGKILL)
        for _ in range(2):
            with folder.server() as server, server.connect() as conn:
                expect_all("after a restart", everything(conn), before)
        (folder.log / names[0]).write_bytes(base[:-30])
        folder.refused(names[0])


@case(since=27, time_limit=60, perhaps="what a request has done may be longer than the request that was allowed")
def effects_above_our_limits(chapter: int) -> None:
    """The longest requests and values, that become longer in the log, are read again: as changes, and in a base."""
    with Folder(chapter) as folder:
        with folder.server("no") as server, server.connect() as conn:
            ready(conn)
            longest = b"x" * ((32 << 20) - len(array("set", "k", "", "px", DATED[:8])) - 7)
            conn.ask("set", "k", longest, "px", DATED[:8], expect=OK)
            do(conn, "append full x", f"setrange full {(32 << 20) - 1} x")
            server.stop()
        for turned in (False, True):
            with folder.server("no") as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("strlen k", len(longest)), ("strlen full", 32 << 20))
                if not turned:
                    do(conn, "config set appendonly no", "config set appendonly yes")
                server.stop()


@case(since=27, inside=True, time_limit=120, perhaps="refuse a log with a string whose length does not fit an entry")
def a_value_that_is_too_long_is_not_cut(chapter: int) -> None:
    """Redis keeps strings of up to 512 MB. A log with one that ours cannot keep is refused."""
    size = 1 << 28
    with Folder(chapter) as folder:
        folder.write(log_of("set a b") + b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % size)
        with folder.last.open("r+b") as file:
            file.seek(size, os.SEEK_END)  # zeros
            file.write(b"\r\n")
        folder.refused("byte 27: ")

@case(since=27, inside=True, perhaps="a base has the key in front of so many pairs that they are as long as it is")
def a_long_key_with_many_pairs(chapter: int) -> None:
    """Turned on, the log has a sorted set of many small pairs, and not its long key again for each few of them."""
    key, n = b"k" * 1_000_000, 50_000
    with Folder(chapter) as folder:
        with folder.server(APPENDONLY="no") as server, server.connect() as conn:
            pairs = [word for i in range(n) for word in (b"%d" % i, b"m%d" % i)]
            conn.ask("zadd", key, *pairs, expect=n)
            do(conn, "config set appendonly yes")
            size = sum(path.stat().st_size for path in folder.log.iterdir())
            if size > 8_000_000:
                fail(f"a sorted set whose key has 1 MB, and whose {n} pairs have as much, makes a log of {size} bytes",
                     expected="some megabytes")  # fmt: skip
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            conn.ask("zcard", key, expect=n)
            conn.ask("zscore", key, b"m49999", expect=b"49999")



@case(since=27, perhaps="a new file has a number, and a name, that no file before it has")
def names_that_do_not_go_with_numbers(chapter: int) -> None:
    """Somebody has written the manifest anew. What is new does not overwrite what is there."""
    for name in ("appendonly.aof.2.incr.aof", "appendonly.aof.1.base.aof", "appendonly.aof.2.base.aof"):
        with Folder(chapter) as folder:
            folder.write(log_of("select 0", "set k v"), name)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                do(conn, "incr n", "config set appendonly no", "config set appendonly yes", "incr n")
                server.stop(signal.SIGKILL)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, ("get n", b"2"), ("get k", b"v"))


@case(since=27, perhaps="a base is on the disk before the manifest names it; where that fails, the old files count")
def turned_on_in_vain(chapter: int) -> None:
    """On a disk that is full: an error, the log stays off, and its files are what they were."""
    with Folder(chapter) as folder:
        with standing(folder) as (_, server, conn):
            do(conn, "set k v", "config set appendonly no", "set k lost")
            data, manifest = folder.last.read_bytes(), folder.manifest
            limit_files(server, 10)
            came = conn.ask("config", "set", "appendonly", "yes")
            if not isinstance(came, Err):
                fail(f"nothing can be written, and CONFIG SET appendonly yes is answered by {came!r}")
            asks(conn, ("config get appendonly", [b"appendonly", b"no"]), ("set k w", OK))
            if folder.manifest != manifest or folder.last.read_bytes() != data:
                fail(f"the manifest is {folder.manifest}", expected=f"it is {manifest}")
            server.stop(signal.SIGKILL)
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("get k", b"v"))


@case(since=27)
def turned_off_within_a_transaction(chapter: int) -> None:
    """It may be refused. If it is not, what was done before is in the log, and nothing that is done behind it."""
    with Folder(chapter) as folder:
        for name in ("first", "second"):
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                do(conn, "multi", f"set {name} 1", "config set appendonly no", f"set {name} 2")
                refused = [isinstance(reply, Err) for reply in conn.ask("exec")]  # type: ignore[attr-defined]
                assert refused in ([False, False, False], [False, True, False]), refused
                do(conn, "config set appendonly yes", "incr n")
                before = everything(conn)
                server.stop(signal.SIGKILL)
            with folder.server() as server, server.connect() as conn:
                expect_all("after a restart", everything(conn), before)
                do(conn, "multi", f"set {name} 3", "config set appendonly no", f"set {name} 4")
                refused = [isinstance(reply, Err) for reply in conn.ask("exec")]  # type: ignore[attr-defined]
                server.stop(signal.SIGKILL)
            with folder.server() as server, server.connect() as conn:
                ready(conn)
                asks(conn, (f"get {name}", b"4" if refused[1] else b"3"))


# ---- what it costs ----


@case(since=27, inside=True, time_limit=60, perhaps="what is on the disk is not kept, and its room is given back")
def memory_after_all_is_synced(chapter: int) -> None:
    """What waits for a sync is in memory, up to then and no longer."""
    if watched():
        return
    for fsync in POLICIES:
        with Folder(chapter) as folder, standing(folder, fsync) as (clock, server, conn):
            do(conn, "set k v")
            before = server.rss_kb()
            for _ in range(12):
                conn.ask("set", "k", b"x" * 1_000_000, expect=OK)
            do(conn, "set k v")
            passes_until(clock, lambda: server.rss_kb() < before + 4000,
                         f"with {fsync}, 12 MB of what was written are given back")  # fmt: skip
