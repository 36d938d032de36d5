"""A log that is written anew (28 and later): what changes meanwhile, what fails, who waits, and what is left of it."""
from __future__ import annotations

import errno
import mmap
import os
import random
import re
import resource
import signal
import struct
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Dict, Iterator, List, Optional

from harness import Conn, Server, fail, limit, redis, seed, settings, wait_until
from harness.diagnose import may_look
from harness.grammar import RespGenerator
from harness.resp import OK, PONG, Simple, array
from harness.wire import Err

from . import case
from .append_only import Folder, batches, commands_of, everything, expect_all, ready
from .beside_redis import _is_known
from .clock import Clock
from .durability import DATED, POLICIES, do, marked, no_fault, redis_on
from .resp import asks
from .syncs import on_a_disk
from .talk import bulk, numbered, paused, preload, start, still_serves, uses_no_cpu, watched
from .transactions import QUEUED, Draw

__tracebackhide__ = settings.__tracebackhide__
OURS = "it looks at the files of our log, at the child, and at calls that fail"
PERHAPS = (
    "a child writes all keys as they were at fork(); what changes from then on goes into a new file; a manifest names "
    "both when both are on the disk, and up to then the old files count"
)

TEMP = "temp-appendonly.base"
BEGUN = Simple(b"Background append only file rewriting started")
SCHEDULED = Simple(b"Background append only file rewriting scheduled")
STARTED = re.compile(r"rewriting started by pid (\d+)")
AT_FORK, AT_WRITE = 1, 2  # the child has all descriptors of the server; it writes into its file
LONGER_MS = 25  # than fork() takes: what a client may wait
KEYS = 200_000


class Disk:
    """What the calls of a server, and of its child, come to (cases/calls.c): Disk().env goes to start()."""

    def __init__(self, hold: int = 0) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(64))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.map = mmap.mmap(self.file.fileno(), 64)
        self.env = {"DISK_FILE": self.file.name, **preload("calls")}
        self.hold(hold)

    def hold(self, where: int) -> None:
        """The next child stops itself there."""
        struct.pack_into("=q", self.map, 40, where)

    def slow(self, ms: int) -> None:
        """Each sync takes so long from now on."""
        struct.pack_into("=q", self.map, 48, ms)

    def fail(self, kind: str, n: int, error: int, *, child: bool = False) -> None:
        """The n-th call of this kind from now on fails, of the server or of its child."""
        struct.pack_into("=16sqqq", self.map, 0, kind.encode(), n, child, error)

    def works(self) -> bool:
        """No call fails any more. Has none?"""
        left = struct.unpack_from("=q", self.map, 16)[0]
        struct.pack_into("=q", self.map, 16, 0)
        return left > 0


def with_all(*envs: Dict[str, str]) -> Dict[str, str]:
    """The environment that preloads what each of these does."""
    found = {key: value for env in envs for key, value in env.items()}
    return {**found, "LD_PRELOAD": ":".join(env["LD_PRELOAD"] for env in envs)}


@contextmanager
def timeless(folder: Folder, fsync: str, disk: Optional[Disk] = None) -> Iterator["tuple[Clock, Server, Conn]"]:
    """A server whose clocks are ours, with a log in the folder, and a connection."""
    clock = Clock()
    env = with_all(clock.env, *([disk.env] if disk else []))
    with folder.server(fsync, **env) as server, server.connect() as conn:
        ready(conn)
        yield clock, server, conn


def info(conn: Conn, section: str = "persistence") -> Dict[str, str]:
    """What INFO says of the log, or of something else."""
    came = conn.ask("info", section)
    assert isinstance(came, bytes), came
    return dict(line.split(":", 1) for line in came.decode().split("\r\n") if ":" in line)


def goes_on(conn: Conn) -> bool:
    """Is the log being written anew, or about to be?"""
    came = info(conn)
    return "1" in (came["aof_rewrite_in_progress"], came["aof_rewrite_scheduled"])


def over(conn: Conn, status: str = "", clock: Optional[Clock] = None) -> str:
    """Waits until no rewrite goes on. Returns how the last one has ended; fails where that is another status."""

    def is_over() -> bool:
        if clock:
            clock.step(100)
        return not goes_on(conn)

    wait_until(is_over, "the rewrite is over", 20)
    came = info(conn)["aof_last_bgrewrite_status"]
    if status not in ("", came):
        fail(f"the rewrite is over, and INFO says aof_last_bgrewrite_status:{came}", expected=status)
    return came


def children(server: Server) -> List[int]:
    """Those that the server says it has started."""
    return [int(found[1]) for found in map(STARTED.search, server.lines) if found]


def state_of(pid: int) -> str:
    """The state of a process: T where it is stopped; "" where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0].replace("Z", "")
    except OSError:
        return ""


def gone(pid: int) -> None:
    """Waits until the child has ended."""
    wait_until(lambda: not state_of(pid), "the child of the server has ended", 5)


def expect_no_sockets(child: int) -> None:
    """Fails where the child has a socket, or what epoll watches: it could have them of the server alone."""
    if may_look(child):
        held = [os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")]
        if any(what.startswith(("socket:", "anon_inode:")) for what in held):
            fail(f"while the child writes, it has {', '.join(held)}", expected="its file, and 0, 1 and 2")


def begins(server: Server, conn: Conn) -> int:
    """Has a rewrite begin whose child stops itself (Disk.hold). Returns the child, when it has."""
    before = len(children(server))
    conn.ask("bgrewriteaof", expect=BEGUN)
    wait_until(lambda: len(children(server)) > before, "a child is started")
    child = children(server)[-1]
    wait_until(lambda: state_of(child) in "T", "the child has come to where it stops itself")
    return child


def change(conn: Conn, rng: random.Random, n: int = 100, known: bool = False) -> None:
    """Random changes, in all databases, with deadlines and transactions; of commands that Redis has, too."""
    draw, generator = Draw(conn.chapter, rng), RespGenerator(conn.chapter, rng)
    for make in (lambda: draw.words(False), generator.command):
        conn.pipeline([words for words in (make() for _ in range(n)) if not known or _is_known(words)])
        conn.ask("discard")
    conn.ask("select", str(rng.randrange(4)))
    conn.ask("set", f"dated:{rng.randrange(9)}", "v", "pxat", DATED)


def expect_files(folder: Folder, what: str) -> None:
    """Fails where the folder has a file that the manifest does not name, or has not one that it names."""
    lines = [line.split() for line in folder.manifest.splitlines()]
    named = sorted([words[1] for words in lines if words[5] != "h"] + ["appendonly.aof.manifest"])
    there = sorted(path.name for path in folder.log.iterdir())
    if there != named:
        fail(f"{what}, the folder has {', '.join(there)}", expected=", ".join(named))


def restarted(folder: Folder, what: str, before: object) -> None:
    """Starts a server on the log: it has all that was there before, and no file of a rewrite is left over."""
    with folder.server() as server, server.connect() as conn:
        expect_all(f"{what}, after a restart", everything(conn), before)  # type: ignore[arg-type]
        if (folder.log / TEMP).exists():
            fail(f"{what}, after a restart, the folder has {TEMP}", expected="it is deleted at the start")
        server.stop(signal.SIGKILL)


# ---- what changes meanwhile ----


@case(since=28, inside=True, time_limit=60)
def random_changes_meanwhile(chapter: int) -> None:
    """Before a rewrite, while its child is held, while it writes, and behind it: after SIGKILL, all of them are there;
    with `everysec`, after SIGTERM."""
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        before: Dict[object, object] = {}
        for fsync in (*POLICIES, "always"):
            disk = Disk()
            with folder.server(fsync, **disk.env) as server, server.connect() as conn:
                expect_all(f"before {fsync}", everything(conn), before)  # type: ignore[arg-type]
                change(conn, rng)
                for where in (AT_WRITE, AT_FORK):
                    disk.hold(where)
                    child = begins(server, conn)
                    change(conn, rng)
                    disk.hold(0)
                    os.kill(child, signal.SIGCONT)
                    change(conn, rng)
                    over(conn, "ok")
                    change(conn, rng)
                expect_files(folder, f"with {fsync}, the log was written anew twice")
                before = everything(conn)  # type: ignore[assignment]
                server.stop(signal.SIGTERM if fsync == "everysec" else signal.SIGKILL)
        restarted(folder, "the log was written anew eight times", before)


@case(since=28, time_limit=60)
def redis_reads_what_was_written_anew(chapter: int) -> None:
    """And writes it anew itself; then we read that. Each has the keys, values and deadlines of the other one."""
    settings.needs(redis.NAME, "redis-check-aof")
    rng = random.Random(seed())
    with Folder(chapter) as folder:
        before: Dict[object, object] = {}
        for who in ("we", "Redis", "we", "Redis"):
            with folder.server() if who == "we" else redis_on(folder) as server, server.connect() as conn:
                expect_all(f"{who} read it", everything(conn), before)  # type: ignore[arg-type]
                change(conn, rng, known=True)
                conn.ask("mset", "who", who, "k", "v", expect=OK)
                conn.ask("bgrewriteaof")
                change(conn, rng, known=True)
                over(conn, "ok")
                change(conn, rng, known=True)
                before = everything(conn)  # type: ignore[assignment]
                server.stop(signal.SIGKILL)
            no_fault(folder)
        restarted(folder, "Redis has written it anew", before)


@case(since=28, inside=True, perhaps="the file of the base is the child's: the server closes its own copy. A child "
                                     "that has ended has no number any more")  # fmt: skip
def nothing_is_left_of_a_rewrite(chapter: int) -> None:
    """However often the log is written anew: no descriptor, and no child to which a signal would be sent at the end."""
    disk = Disk()
    with Folder(chapter) as folder, folder.server("everysec", **disk.env) as server, server.connect() as conn:
        ready(conn)
        do(conn, "set k v")
        before = server.fd_count()
        for _ in range(3):
            conn.ask("bgrewriteaof", expect=BEGUN)
            over(conn, "ok")
        if server.fd_count() != before:
            fail(f"after three rewrites the server has {server.fd_count()} descriptors, and had {before}")
        before_the_end = everything(conn)
        do(conn, "config set appendonly no", "get k")
        if server.stop(signal.SIGTERM) != 0:
            fail("after three rewrites, the server does not end as it should", expected="exit status 0")
        restarted(folder, "after three rewrites", before_the_end)


@case(since=28, inside=True, perhaps="fork() comes at the end of the round: what EXEC does is done as a whole before")
def asked_for_in_a_transaction(chapter: int) -> None:
    """It begins behind EXEC: all that the transaction has done is in the base, and nothing of it in the new file."""
    with Folder(chapter) as folder:
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, ("multi", OK), ("set a 1", QUEUED), ("bgrewriteaof", QUEUED), ("set b 2", QUEUED),
                 ("exec", [OK, SCHEDULED, OK]))  # fmt: skip
            over(conn, "ok")
            base, last = (commands_of((folder.log / name).read_bytes()) for name in folder.names[:2])
            for words in ([b"SET", b"a", b"1"], [b"SET", b"b", b"2"]):
                if words not in base or words in last:
                    fail(f"the base has {base[:6]}, and the file behind it {last}", expected=f"{words} in the base")
            server.stop(signal.SIGKILL)


# ---- nobody waits ----


class Probe:
    """A client that gets, sets and connects without a pause, and knows how long it has waited at most: `with`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.longest_ms, self.asked = 0.0, 0
        self._stopping = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join(limit(20))

    def _work(self) -> None:
        with self.server.connect(seconds=20) as conn:
            while not self._stopping:
                key, began = f"key:{self.asked % 1000:06}", time.monotonic()
                conn.ask("get", key)
                conn.ask("set", key, str(self.asked))
                if self.asked % 20 == 0:
                    with self.server.connect(seconds=20) as other:
                        other.ask("ping", expect=PONG)
                self.longest_ms = max(self.longest_ms, (time.monotonic() - began) * 1000)
                self.asked += 1
                time.sleep(0.0005)


@case(since=28, inside=True, time_limit=120,
      perhaps="the child writes, and a worker waits for the disk: what changes meanwhile waits in memory")  # fmt: skip
def nobody_waits(chapter: int) -> None:
    """While 200,000 keys are written anew, with a disk that takes 300 ms for each sync, too: what a client waits is
    what fork() takes, and 25 ms."""
    if watched():
        return  # another measure of time
    for slow_ms in (0, 300):
        disk = Disk()
        with Folder(chapter) as folder, folder.server("everysec", **disk.env) as server, server.connect() as conn:
            ready(conn)
            bulk(conn, numbered(range(KEYS), "set", "key:######", "a value of some bytes"), OK)
            disk.slow(slow_ms)
            tries = []
            while len(tries) < 10:  # other programs only make it longer
                with Probe(server) as alone:
                    wait_until(lambda: alone.asked >= 300, "the probe has asked for a while", 20)
                conn.ask("bgrewriteaof")
                with Probe(server) as probe:
                    over(conn, "ok")
                fork_ms = int(info(conn, "stats")["latest_fork_usec"]) / 1000
                tries.append(probe.longest_ms - fork_ms - max(LONGER_MS, 2 * alone.longest_ms))
                if tries[-1] <= 0:
                    break
                said = (f"a client waits for {probe.longest_ms:.0f} ms, and for {alone.longest_ms:.0f} ms otherwise; "
                        f"fork() takes {fork_ms:.0f} ms")  # fmt: skip
            else:
                fail(f"while the log is written anew, with a sync of {slow_ms} ms, {said}",
                     expected=f"at most what fork() takes, and {LONGER_MS} ms")  # fmt: skip
            disk.slow(0)


# ---- what fails ----


def again(folder: Folder, server: Server, conn: Conn, what: str, clock: Optional[Clock] = None) -> None:
    """After a rewrite that has failed: nothing is left of it, the log goes on, another one works; and after SIGKILL all
    is there."""
    if (folder.log / TEMP).exists():
        fail(f"{what}: the rewrite has failed, and {TEMP} is still there")
    do(conn, "select 2", "set behind it")
    before = everything(conn)
    conn.ask("bgrewriteaof")
    do(conn, "incr more")
    over(conn, "ok", clock)
    do(conn, "incr more")
    expect_files(folder, f"{what}, and another rewrite")
    before = everything(conn)
    server.stop(signal.SIGKILL)
    restarted(folder, what, before)


@case(since=28, inside=True, time_limit=60)
def a_child_that_fails(chapter: int) -> None:
    """It is killed, its disk is full, or fails: the rewrite has the status err, and nothing else has happened."""
    rng = random.Random(seed())
    killed = re.compile("Background AOF rewrite terminated by signal 9")
    error = re.compile("Background AOF rewrite terminated with error")
    for fsync in ("always", "no"):
        for what in ("killed", "limit", "write 1", "write 3", "fdatasync 1", "fsync 1"):
            kind, _, n = what.partition(" ")
            disk = Disk(hold=AT_WRITE)
            with Folder(chapter) as folder, folder.server(fsync, **disk.env) as server, server.connect() as conn:
                ready(conn)
                change(conn, rng, 20)
                if kind == "fdatasync":  # comes after many bytes
                    do(conn, "select 0", f"setrange big {(32 << 20) - 1} x", "copy big large")
                if n:
                    disk.fail(kind, int(n), errno.ENOSPC if kind == "write" else errno.EIO, child=True)
                child = begins(server, conn)
                disk.hold(0)
                change(conn, rng, 20)
                if kind == "limit":
                    resource.prlimit(child, resource.RLIMIT_FSIZE, (100, 100))
                os.kill(child, signal.SIGKILL if kind == "killed" else signal.SIGCONT)
                over(conn, "err")
                if n and disk.works():
                    fail(f"the child has not called {kind} {n} times")
                server.wait_line(killed if kind == "killed" else error)
                again(folder, server, conn, what)


@case(since=28, inside=True, time_limit=120)
def a_step_that_fails(chapter: int) -> None:
    """Each call that the server makes for a rewrite fails once: whatever the rewrite comes to, nothing is lost, the log
    goes on, and another rewrite leaves no file behind."""
    for fsync in ("everysec", "always"):
        for kind in ("open", "fsync", "fdatasync", "rename", "ftruncate"):
            for n in range(1, 12):
                if not _fails_at(chapter, fsync, kind, n):
                    break
            else:
                fail(f"for one rewrite {kind} is called more than ten times")


def _fails_at(chapter: int, fsync: str, kind: str, n: int) -> bool:
    """A rewrite in which a call fails. False where it has not so many of them."""
    disk, what = Disk(), f"with {fsync}, call {n} of {kind}"
    with Folder(chapter) as folder, timeless(folder, fsync, disk) as (clock, server, conn):
        do(conn, "set k v", f"set d v pxat {DATED}")
        clock.step(1000)
        disk.fail(kind, n, errno.ENOSPC if kind == "open" else errno.EIO)
        conn.ask("bgrewriteaof", expect=BEGUN)
        for number in range(3):
            conn.ask("set", f"during:{number}", "v")
            clock.step(100)
        over(conn, clock=clock)
        if disk.works():
            return False

        def is_written() -> bool:
            clock.step(1000)
            return not isinstance(conn.ask("set", "again", what), Err)

        wait_until(is_written, f"{what} has failed once, and requests that write are done again")
        again(folder, server, conn, what, clock)
    return True


# ---- the end in the middle ----


@case(since=28, inside=True, time_limit=60, perhaps="a rewrite that is given up leaves the worker to the syncs")
def syncs_go_on_after_a_failure(chapter: int) -> None:
    """A sync fails while a written base waits for the worker. The rewrite is given up, and later syncs are not."""
    disk = Disk(AT_WRITE)
    with Folder(chapter) as folder, folder.server("everysec", **disk.env) as server, server.connect() as conn:
        ready(conn)
        do(conn, "set k 1")
        child = begins(server, conn)
        wait_until(lambda: len(folder.manifest.splitlines()) == 2, "the log goes on in a second file")
        disk.hold(0)
        disk.slow(1000)
        do(conn, "set k 2")
        wait_until(lambda: info(conn)["aof_pending_bio_fsync"] == "1", "a sync has begun", 5)
        disk.slow(0)
        disk.fail("fdatasync", 1, errno.EIO)
        os.kill(child, signal.SIGCONT)

        def given_up() -> bool:
            conn.ask("set", "k", "3")  # which is written, or refused, when the sync has failed
            return info(conn)["aof_last_bgrewrite_status"] == "err"

        wait_until(given_up, "a sync has failed, and the rewrite is given up", 10)
        wait_until(lambda: info(conn)["aof_last_write_status"] == "ok", "the log goes on in a third file", 10)
        do(conn, "set k 4")
        size = max(part.end for part in folder.batches() if part.commands)
        wait_until(lambda: marked(folder, size), f"a mark says that {size} bytes are on the disk", 10)


@case(since=28, inside=True)
def given_up_before_it_begins(chapter: int) -> None:
    """It waits for a sync, and the log is turned off: that is no failure of a rewrite."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        it.held()
        it.conn.ask("bgrewriteaof", expect=BEGUN)
        it.clock.rest()
        it.conn.send(array("config", "set", "appendonly", "no"))
        it.disk.release()
        it.conn.recv(OK)
        said = [line for line in it.server.log if "rewrit" in line]
        if said or goes_on(it.conn) or info(it.conn)["aof_last_bgrewrite_status"] != "ok":
            fail(f"a rewrite that has not begun is given up: {said}", expected="nothing is said, and the status is ok")
        it.server.stop(signal.SIGKILL)


@case(since=28, inside=True, perhaps="a log that is turned on is a new one: it has a size of its own, and nobody has "
                                     "asked for another")  # fmt: skip
def turned_off_and_on(chapter: int) -> None:
    """It has grown meanwhile, and has been turned off in the same moment in which a rewrite was asked for. It is not
    written anew for either."""
    with Folder(chapter) as folder, folder.server("everysec") as server, server.connect() as conn, \
            server.connect() as other:  # fmt: skip
        ready(conn)
        do(conn, "set k v")
        do(other, "get k")
        with paused(server):
            conn.send(array("multi") + array("bgrewriteaof") + array("exec"))
            other.send(array("config", "set", "appendonly", "no"))
        conn.recv(OK)
        conn.recv(QUEUED)
        conn.recv([Simple(b"Background append only file rewriting scheduled")])
        other.recv(OK)
        conn.ask("set", "k", b"v" * 100_000, expect=OK)
        do(conn, "config set appendonly yes", "get k")
        came = info(conn)
        if goes_on(conn) or children(server):
            fail("the log is written anew as soon as it is turned on")
        if not 100_000 < int(came["aof_base_size"]) <= int(came["aof_current_size"]):
            fail(f"INFO says aof_base_size:{came['aof_base_size']} of a new log of {came['aof_current_size']} bytes")


@case(since=28, inside=True)
def told_to_end_in_the_middle(chapter: int) -> None:
    """By SIGTERM, or that there is to be no log: the child is killed, its file deleted, and the log has all."""
    for fsync in POLICIES:
        for way in ("SIGTERM", "appendonly no"):
            disk = Disk(hold=AT_WRITE)
            with Folder(chapter) as folder:
                with folder.server(fsync, **disk.env) as server, server.connect() as conn:
                    do(conn, "set k v", "zadd z 1 a", f"set d v pxat {DATED}")
                    child = begins(server, conn)
                    do(conn, "set k w", "select 3", "incr n")
                    before = everything(conn)
                    if way == "SIGTERM":
                        if server.stop(signal.SIGTERM):
                            fail("told to end while the log is written anew, it ends with another status than 0")
                    else:
                        do(conn, "config set appendonly no", "set k lost")
                        assert not goes_on(conn) and isinstance(conn.ask("bgrewriteaof"), Err)
                    gone(child)
                    if (folder.log / TEMP).exists():
                        fail(f"after {way}, the folder has {TEMP}")
                    server.stop(signal.SIGKILL)
                restarted(folder, f"with {fsync}, after {way}", before)


@case(since=28, inside=True,
      perhaps="the child is told by the kernel when its parent ends (prctl), and looks whether it has ended before; "
              "it closes what it has of the server")  # fmt: skip
def killed_in_the_middle(chapter: int) -> None:
    """SIGKILL: the child ends as well, wherever it is; another server can have the port, and has all keys."""
    for where in (AT_WRITE, AT_FORK):
        disk = Disk(hold=where)
        with Folder(chapter) as folder:
            with folder.server("always", **disk.env) as server, server.connect() as conn:
                do(conn, "set k v", "zadd z 1 a")
                child = begins(server, conn)
                port = server.port
                if where == AT_WRITE:
                    do(conn, "set k w", f"set d v pxat {DATED}")
                before = everything(conn)
                server.stop(signal.SIGKILL)
                if where == AT_FORK:  # it has not asked the kernel yet to be told
                    disk.hold(AT_WRITE)
                    os.kill(child, signal.SIGCONT)
                gone(child)
            with start(chapter, env=folder.env(), port=port) as server, server.connect() as conn:
                expect_all("killed in the middle, after a restart", everything(conn), before)
                expect_files(folder, "killed in the middle, after a restart")


@case(since=28, inside=True, perhaps="the child has copies of all descriptors: it closes them; and until it has, epoll "
                                    "does not forget one that the server closes, unless it is told to")  # fmt: skip
def clients_that_leave_meanwhile(chapter: int) -> None:
    """By themselves, or since the server closes: the child knows nothing of them. They are at their end at once."""
    for where in (AT_FORK, AT_WRITE):
        disk = Disk(hold=where)
        with Folder(chapter) as folder, folder.server("no", **disk.env) as server, ExitStack() as stack:
            conn, *others = [stack.enter_context(server.connect()) for _ in range(7)]
            ready(conn)
            for other in others:
                other.ask("ping", expect=PONG)
            number = others[0].ask("client", "id")
            child = begins(server, conn)
            for other in others[3:]:
                other.close()
            conn.ask("client", "kill", "id", number, expect=1)
            others[1].ask("quit", expect=OK)  # and waits until we close
            others[1].expect_closed()
            wait_until(lambda: conn.ask("client", "list").count(b"\n") == 3, "who has left is closed")  # type: ignore
            if where == AT_WRITE:
                others[0].expect_closed()
                expect_no_sockets(child)
            uses_no_cpu(server, "clients that have left while the log is written anew")
            still_serves(server)
            others[2].ask("ping", expect=PONG)
            disk.hold(0)
            os.kill(child, signal.SIGCONT)
            over(conn, "ok")
            others[2].ask("ping", expect=PONG)


# ---- when it begins ----


@case(since=28, inside=True,
      perhaps="it begins when the log is longer than auto-aof-rewrite-min-size, and has grown by so many percent of "
              "what it was after the last one; after a failure a minute later, and "
              "after each one more in a row twice as late")  # fmt: skip
def by_itself(chapter: int) -> None:
    """Not before the log has grown by as much as is set, and then at once. A child that fails is not tried again for a
    minute, however long the log becomes, a second one in a row not for two, until one has not failed."""
    page, most = b"x" * 10_000, 100_000  # the size is looked at now and then
    disk = Disk()
    with Folder(chapter) as folder, timeless(folder, "no", disk) as (clock, server, conn):

        def grow(until: float, begun: int, what: str) -> None:
            """Writes until the log has so many bytes: a rewrite may begin in the last ones only."""
            while int(info(conn)["aof_current_size"]) < until:
                conn.ask("set", f"page:{random.randrange(100)}", page)
                if len(children(server)) > begun or goes_on(conn):
                    fail(f"the log has {info(conn)['aof_current_size']} bytes, and is written anew", expected=what)

        def begins_now(begun: int, what: str) -> None:
            size = int(info(conn)["aof_current_size"])
            while int(info(conn)["aof_current_size"]) < size + 3 * most and len(children(server)) == begun:
                conn.ask("set", "page:1", page)
                if not goes_on(conn):
                    clock.step(1)
            if len(children(server)) == begun:
                fail(f"the log has {info(conn)['aof_current_size']} bytes, and is not written anew", expected=what)

        def fails(begun: int, what: str) -> None:
            disk.hold(AT_WRITE)
            begins_now(begun, what)
            os.kill(children(server)[-1], signal.SIGKILL)
            over(conn, "err", clock)
            disk.hold(0)

        def waits(begun: int, minutes: int, what: str) -> None:
            for _ in range(59):
                for _ in range(20):
                    conn.ask("set", "page:2", page)
                clock.step(minutes * 1000)
                if len(children(server)) > begun:
                    fail(f"{what}, and the log is written anew sooner than {minutes} minutes later")
            clock.step(minutes * 1000 + 1000)

        for i in range(100):
            conn.ask("set", f"page:{i}", page)
        do(conn, "config set auto-aof-rewrite-min-size 2000000 auto-aof-rewrite-percentage 100")
        grow(1_990_000, 0, "not below auto-aof-rewrite-min-size, 2000000")
        begins_now(0, "it has more than auto-aof-rewrite-min-size, 2000000")
        over(conn, "ok", clock)
        do(conn, "config set auto-aof-rewrite-min-size 1 auto-aof-rewrite-percentage 150")
        size = int(info(conn)["aof_base_size"])
        if size < 100 * len(page):
            fail(f"INFO says aof_base_size:{size}", expected="what 100 pages take, the size after the last rewrite")
        grow(2.5 * size - 20_000, 1, f"when it has grown by 150 % of {size}")
        fails(1, f"it has grown by 150 % of {size}")
        waits(2, 1, "the child was killed")
        fails(2, "the child was killed a minute ago, and the log is long")
        waits(3, 2, "the second child in a row was killed")
        begins_now(3, "the second child was killed two minutes ago, and the log is long")
        over(conn, "ok", clock)
        do(conn, "config set auto-aof-rewrite-percentage 1")
        fails(4, "it has grown by 1 %")
        waits(5, 1, "the child was killed, and the one before it was not")
        begins_now(5, "the child was killed a minute ago, and the one before it had written the log anew")
        over(conn, "ok", clock)


@case(since=28, inside=True)
def what_info_says_meanwhile(chapter: int) -> None:
    """How long it goes on, how the last one has ended, and how long that took. Behind it the server sleeps, for
    ever."""
    disk = Disk(hold=AT_WRITE)
    with Folder(chapter) as folder, timeless(folder, "everysec", disk) as (clock, server, conn):
        do(conn, "set k v")
        child = begins(server, conn)
        clock.step(5000)
        came = {key: value for key, value in info(conn).items() if "rewrite" in key}
        assert came == {
            "aof_rewrite_in_progress": "1", "aof_rewrite_scheduled": "0", "aof_last_rewrite_time_sec": "-1",
            "aof_current_rewrite_time_sec": "5", "aof_last_bgrewrite_status": "ok",
        }, came  # fmt: skip
        came_error = conn.ask("bgrewriteaof")
        assert isinstance(came_error, Err) and "already in progress" in str(came_error.text), came_error
        disk.hold(0)
        os.kill(child, signal.SIGCONT)
        over(conn, "ok", clock)
        came = info(conn)
        assert came["aof_last_rewrite_time_sec"] in "56" and came["aof_current_rewrite_time_sec"] == "-1", came
        assert 0 < int(came["aof_base_size"]) <= int(came["aof_current_size"]), came

        def sleeps() -> bool:
            clock.step(1000)
            return clock.until_ms is None

        wait_until(sleeps, "the log is written anew, and the server waits for its clients alone")
        rounds = clock.rounds
        for _ in range(5):
            clock.step(1000)
        if clock.rounds != rounds:
            fail(f"nothing happens for five seconds, and the loop has {clock.rounds - rounds} rounds")


@case(since=28, inside=True, perhaps="what the log has grown by is told from its size at the start")
def by_itself_after_a_start(chapter: int) -> None:
    """A log that is long when the server starts is not written anew for that, but when it has doubled."""
    page = b"x" * 10_000
    with Folder(chapter) as folder:
        with folder.server("no") as server, server.connect() as conn:
            for _ in range(30):
                conn.ask("set", "page", page)
            server.stop(signal.SIGKILL)
        with timeless(folder, "no") as (clock, server, conn):
            do(conn, "config set auto-aof-rewrite-min-size 1")
            for _ in range(10):
                conn.ask("set", "page", page)
                clock.step(100)
            if children(server) or goes_on(conn):
                fail(f"the log had 300,000 bytes at first, has {info(conn)['aof_current_size']}, and is written anew",
                     expected="not before it has grown by 100 %")  # fmt: skip
            for _ in range(30):
                conn.ask("set", "page", page)
            over(conn, "ok", clock)
            assert children(server), info(conn)


# ---- what is left of it ----


@case(since=28, inside=True, perhaps="what the manifest calls history is deleted when that manifest is on the disk")
def history_is_deleted_at_the_start(chapter: int) -> None:
    """A server was killed before it had deleted the old files, or when the base had its name, and no manifest had that:
    a start does it, and nothing else is deleted."""
    with Folder(chapter) as folder:
        with folder.server() as server, server.connect() as conn:
            do(conn, "set k v")
            server.stop(signal.SIGKILL)
        manifest = folder.manifest
        for name in ("appendonly.aof.7.base.aof", "appendonly.aof.7.incr.aof", "other"):
            folder.put(name, b"nothing that could be read")
        old = (f"file appendonly.aof.7.{kind}.aof seq 7 type h\n" for kind in ("base", "incr"))
        folder.manifest = manifest + "".join(old)
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            conn.ask("get", "k", expect=b"v")
            there = {path.name for path in folder.log.iterdir()}
            expected = {"appendonly.aof.manifest", "other", *(line.split()[1] for line in manifest.splitlines())}
            if there != expected:
                fail(f"two files are history; after the start, the folder has {', '.join(sorted(there))}",
                     expected=", ".join(sorted(expected)))  # fmt: skip


@case(since=28, inside=True, perhaps="the manifest that names the new file says how long the one in front of it is")
def the_old_file_has_a_size(chapter: int) -> None:
    """While the child is held, both files count. If the old one loses its end, a start says so."""
    disk = Disk(hold=AT_WRITE)
    with Folder(chapter) as folder, folder.server(**disk.env) as server, server.connect() as conn:
        do(conn, "set k v", "set k w")
        begins(server, conn)
        do(conn, "set k x")
        server.stop(signal.SIGKILL)
        old = folder.log / folder.names[-2]
        last = batches(old.read_bytes())[-1]
        folder.put(old.name, old.read_bytes()[: last.offset])
        folder.refused("Bad file format", old.name)
