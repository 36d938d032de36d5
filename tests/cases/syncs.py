"""When what has changed is on the disk (27 and later): a disk whose syncs take as long as a test wants, or fail."""
from __future__ import annotations

import mmap
import os
import re
import signal
import struct
import tempfile
from contextlib import contextmanager
from typing import Iterator, NamedTuple, Tuple

from harness import Conn, Server, fail, settings, wait_until
from harness.resp import OK, array
from harness.wire import Err

from . import case
from .append_only import FIRST, MANIFEST, Folder, batch, log_of, ready
from .clock import Clock
from .durability import do, limit_files, marked, passes_until, standing
from .resp import asks
from .talk import preload

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "what a sync is not known to have brought to the disk stays in memory, and whoever ends the log, or asks for "
    "more than before, waits until it is there"
)

MISCONF = Err(4, "MISCONF Errors writing to the AOF file: Input/output error")
FULL = 10  # bytes: where a file may not be larger, nothing of a log can be written, in a new file neither


class Disk:
    """Decides over the calls of fdatasync() and fsync() of a server (cases/disk.c): `Disk().env` goes to standing()."""

    FIELDS = ("held", "failing", "calls", "over", "synced", "alarm", "fsyncs")

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(8 * len(self.FIELDS)))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.map = mmap.mmap(self.file.fileno(), 8 * len(self.FIELDS))
        self.env = {"DISK_FILE": self.file.name, **preload("disk")}

    def _set(self, name: str, value: int) -> None:
        struct.pack_into("=q", self.map, 8 * self.FIELDS.index(name), value)

    def _get(self, name: str) -> int:
        return struct.unpack_from("=q", self.map, 8 * self.FIELDS.index(name))[0]

    def hold(self) -> None:
        """The next call does not come back until release()."""
        self._set("held", 1)

    def is_held(self) -> bool:
        return self._get("held") == 2

    def release(self) -> None:
        self._set("held", 0)

    def fail(self, times: int = 1) -> None:
        """So many calls from now on fail, and bring nothing to the disk."""
        self._set("failing", times)

    def fail_fsync(self, n: int) -> None:
        """The n-th call of fsync() from now on fails."""
        self._set("fsyncs", n)

    def has_failed_fsync(self) -> bool:
        """Has it?"""
        return self._get("fsyncs") == 0

    @property
    def synced(self) -> int:
        """How many bytes the file had when the last of these calls began that did not fail."""
        return self._get("synced")

    def is_done(self, server: Server) -> bool:
        """Are all calls over, and has the worker nothing left to do?"""
        return self._get("over") == self._get("calls") and server.workers_sleep()

    def wait_alarm(self, server: Server) -> None:
        """Waits, while a call is held, until the alarm goes off that the server sets when it is to end."""
        wait_until(lambda: self._get("alarm") == 2 or not server.alive(), "the alarm behind SIGTERM goes off")


class Standing(NamedTuple):
    """A server whose clocks and disk are ours, and what it takes to use it."""

    folder: Folder
    disk: Disk
    clock: Clock
    server: Server
    conn: Conn

    @property
    def size(self) -> int:
        """Bytes of the last file of its log."""
        return self.folder.last.stat().st_size

    def marks(self, size: int, begin: int = 0) -> None:
        """Time passes until the log, which has batches from this byte on, says that so many bytes are on the disk."""
        what = f"a mark says that {size} bytes are on the disk"
        passes_until(self.clock, lambda: marked(self.folder, size, begin), what)

    def held(self) -> None:
        """Time passes until a sync begins, and that is held."""
        self.disk.hold()
        passes_until(self.clock, self.disk.is_held, "a sync begins")

    def released(self) -> None:
        """The sync that is held is over, and the server can know."""
        self.disk.release()
        wait_until(lambda: self.disk.is_done(self.server), "a sync comes to its end")


@contextmanager
def on_a_disk(chapter: int, fsync: str, log: bytes = b"") -> Iterator[Standing]:
    """A server that has its log in a folder of its own, on a disk of ours. It may find a log."""
    with Folder(chapter) as folder:
        disk = Disk()
        if log:
            folder.write(log)
        with standing(folder, fsync, disk.env) as (clock, server, conn):
            yield Standing(folder, disk, clock, server, conn)


def expect_again(folder: Folder, *expected: Tuple[str, object]) -> None:
    """A server that is started on the log answers like this, and takes more. So does the next one."""
    for i in range(2):
        with folder.server() as server, server.connect() as conn:
            ready(conn)
            asks(conn, *expected, ("get again", b"0" if i else None), ("set again 0", OK))
            server.stop(signal.SIGKILL)


# ---- another policy ----


@case(since=27, inside=True, perhaps="CONFIG SET appendfsync syncs what was written before, and answers then")
def asked_for_more(chapter: int) -> None:
    """To `always` from another policy: when OK comes, what was answered before is on the disk; and so is each change
    from then on."""
    for fsync in ("no", "everysec"):
        with on_a_disk(chapter, fsync) as it:
            do(it.conn, "set before v", "config set appendfsync always")
            if it.disk.synced < it.size:
                fail(f"from {fsync} to always: OK comes, and of {it.size} bytes {it.disk.synced} are on the disk")
            for i in range(3):
                do(it.conn, f"set after {i}")
                if it.disk.synced < it.size:
                    fail(f"from {fsync} to always: SET is answered then, and of {it.size} bytes {it.disk.synced} are "
                         "on the disk")  # fmt: skip
            it.server.stop(signal.SIGKILL)
            expect_again(it.folder, ("get before", b"v"), ("get after", b"2"))


@case(since=27, inside=True)
def asked_for_more_during_a_sync(chapter: int) -> None:
    """From `everysec` to `always` while a sync goes on, and a change waits for it that was answered: OK comes when both
    are over."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        it.held()
        do(it.conn, "set waits v")
        it.clock.rest()
        it.conn.send(array("config", "set", "appendfsync", "always"))
        wait_until(lambda: it.clock.until_ms == 0, "the server begins a round")
        it.disk.release()
        it.conn.recv(OK)
        if it.disk.synced < it.size or [b"SET", b"waits", b"v"] not in it.folder.commands():
            fail(f"to always: OK comes, of {it.size} bytes {it.disk.synced} are on the disk, and in the log is "
                 f"{it.folder.commands()}")  # fmt: skip
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get k", b"v"), ("get waits", b"v"))


@case(since=27, inside=True)
def asked_for_less(chapter: int) -> None:
    """From `always`, and from `no` to `everysec`: what is answered then is written, and with `everysec` a mark says
    soon that it is on the disk."""
    for fsync, then in (("always", "no"), ("always", "everysec"), ("no", "everysec")):
        with on_a_disk(chapter, fsync) as it:
            do(it.conn, "set before v", f"config set appendfsync {then}", "set after v")
            size, told = it.size, it.folder.batches()[-1].synced
            if told > max(it.disk.synced, len(batch(b"", 0))):  # a file begins with a mark
                fail(f"from {fsync} to {then}: of {size} bytes {it.disk.synced} are on the disk, and the log says that "
                     f"{told} are")  # fmt: skip
            if then == "everysec":
                it.marks(size)
                assert it.disk.synced >= size
            do(it.conn, "set last v")
            it.server.stop(signal.SIGKILL)
            expect_again(it.folder, ("get before", b"v"), ("get after", b"v"), ("get last", b"v"))


@case(since=27, inside=True, perhaps="an error is the answer, and the policy stays what it was")
def asked_for_what_the_disk_refuses(chapter: int) -> None:
    """From `no`, where the sync fails: nobody has the bytes any more that may be lost. So no other policy is to be had,
    however often somebody asks, until the log begins anew with all keys."""
    with on_a_disk(chapter, "no") as it:
        do(it.conn, "set k v")
        it.disk.fail()
        for then in ("always", "everysec", "always"):
            came = it.conn.ask("config", "set", "appendfsync", then)
            if not isinstance(came, Err) or "appendfsync" not in str(came.text):
                fail(f"the disk has failed, and CONFIG SET appendfsync {then} is answered by {came!r}",
                     expected="an error that names appendfsync")  # fmt: skip
            asks(it.conn, ("config get appendfsync", [b"appendfsync", b"no"]), (f"set {then} v", OK))
        do(it.conn, "config set appendonly no", "config set appendonly yes", "config set appendfsync always", "set l w")
        assert it.disk.synced == it.size
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get k", b"v"), ("get always", b"v"), ("get l", b"w"))


@case(since=27, inside=True)
def asked_for_more_on_a_failing_disk(chapter: int) -> None:
    """From `everysec` to `always`, where the sync fails: what was answered before goes into a new file, which is on the
    disk when OK comes."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set before v")
        it.disk.fail()
        do(it.conn, "config set appendfsync always", "set after v")
        assert len(it.folder.names) == 2 and it.disk.synced == it.size
        asks(it.conn, ("config get appendfsync", [b"appendfsync", b"always"]))
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get before", b"v"), ("get after", b"v"))


@case(since=27, inside=True, perhaps="an error is the answer: with `always`, a server that cannot write has to end")
def asked_for_more_where_nothing_works(chapter: int) -> None:
    """From `everysec` to `always`, where the sync fails, and the new file, too: an error, and the server lives on. When
    the disk has recovered, OK."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set before v")
        it.disk.fail()
        limit_files(it.server, FULL)
        came = it.conn.ask("config", "set", "appendfsync", "always")
        if not isinstance(came, Err) or "appendfsync" not in str(came.text):
            fail(f"no sync and no new file, and CONFIG SET appendfsync always is answered by {came!r}",
                 expected="an error that names appendfsync")  # fmt: skip
        asks(it.conn, ("config get appendfsync", [b"appendfsync", b"everysec"]), ("get before", b"v"))
        limit_files(it.server)
        passes_until(it.clock, lambda: it.conn.ask("config", "set", "appendfsync", "always") == OK, "OK comes")
        do(it.conn, "set after v")
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get before", b"v"), ("get after", b"v"))


@case(since=27, inside=True, perhaps="an error is the answer: with `always`, a server that cannot write has to end")
def asked_for_more_on_a_full_disk(chapter: int) -> None:
    """From `everysec` or `no` to `always`, where something cannot be written: an error, and nothing else happens. When
    the disk has room again, OK."""
    for fsync in ("everysec", "no"):
        for known in (True, False):
            with on_a_disk(chapter, fsync) as it:
                do(it.conn, "set k v")
                limit_files(it.server, FULL)
                if known:
                    do(it.conn, "set k w")
                    came = it.conn.ask("config", "set", "appendfsync", "always")
                else:
                    it.conn.send(array("set", "k", "w") + array("config", "set", "appendfsync", "always"))
                    it.conn.recv(OK)
                    came = it.conn.recv()
                if not isinstance(came, Err) or "appendfsync" not in str(came.text):
                    fail(f"the disk is full, and CONFIG SET appendfsync always is answered by {came!r}",
                         expected="an error that names appendfsync")  # fmt: skip
                asks(it.conn, ("config get appendfsync", [b"appendfsync", fsync.encode()]), ("get k", b"w"))
                limit_files(it.server)
                passes_until(it.clock, lambda: it.conn.ask("config", "set", "appendfsync", "always") == OK, "OK comes")
                do(it.conn, "set l w")
                it.server.stop(signal.SIGKILL)
                expect_again(it.folder, ("get k", b"w"), ("get l", b"w"))


# ---- while a sync goes on ----


@case(since=27, inside=True, perhaps="while writes wait for a sync, look every few milliseconds whether it is over")
def what_waits_for_a_sync(chapter: int) -> None:
    """With `everysec`: what changes during a sync is written right after it, not at the next second; or after two
    seconds, if it goes on so long, and INFO counts that."""

    def waits(line: str, ms: int, otherwise: str) -> None:
        it.held()
        size = it.size
        do(it.conn, line)
        it.clock.step(ms)
        if it.size != size:
            fail(otherwise)

    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        waits("set waits v", 55, "while a sync goes on, the log is written: the kernel would have everybody wait")
        it.released()
        for _ in range(2):
            it.clock.step(10)
        if [b"SET", b"waits", b"v"] not in it.folder.commands():
            fail("a sync has been over for 20 ms, and what has waited for it is not in the log")

        waits("set waits w", 1980, "a sync goes on for less than two seconds, and the log is written")
        it.clock.step(30)
        info = it.conn.ask("info", "persistence")
        assert isinstance(info, bytes)
        if [b"SET", b"waits", b"w"] not in it.folder.commands() or b"aof_delayed_fsync:1\r\n" not in info:
            fail(f"a sync takes longer than two seconds: in the log is {it.folder.commands()}, and INFO says {info!r}",
                 expected="what has waited is written, and counted")  # fmt: skip
        it.released()
        waits("set waits x", 1980, "the sync before took longer than two seconds, and the next one is not waited for")
        it.released()
        it.clock.step(10)
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get k", b"v"), ("get waits", b"x"))


# ---- a sync that fails ----


@case(since=27, inside=True, perhaps="what was not synced leaves the file before anything else, and stays in memory")
def a_failed_sync_leaves_the_file(chapter: int) -> None:
    """With `everysec`: what the kernel takes for written, and is not, is cut off at once. Killed then, the server has
    what was synced; not killed, it goes on in a new file, and has all."""
    for killed in (True, False):
        with on_a_disk(chapter, "everysec") as it:
            do(it.conn, "set k v")
            size = it.size
            it.marks(size)
            do(it.conn, "set k w", "set l w")
            it.disk.fail()
            limit_files(it.server, FULL)  # there is no new file yet
            passes_until(it.clock, lambda: it.size == size or any("fdatasync" in line for line in it.server.log),
                         "a sync fails")  # fmt: skip
            it.clock.rest()
            if it.size != size:
                fail(f"a sync has failed, {size} bytes were synced before, and the log has {it.size}",
                     expected=f"the log is cut to {size} bytes")  # fmt: skip
            asks(it.conn, ("get k", b"w"), ("set k x", MISCONF))
            if not killed:
                limit_files(it.server)
                passes_until(it.clock, lambda: len(it.folder.names) == 2, "the log goes on in a new file")
                do(it.conn, "set m x")
            it.server.stop(signal.SIGKILL)
            if killed:
                expect_again(it.folder, ("get k", b"v"), ("get l", None))
            else:
                expect_again(it.folder, ("get k", b"w"), ("get l", b"w"), ("get m", b"x"))


@case(since=27, inside=True,
      perhaps="a manifest that was renamed and not synced may be what a crash leaves: no later file takes a number "
              "that stands in it")  # fmt: skip
def what_is_perhaps_named_stays(chapter: int) -> None:
    """The last sync of a new manifest fails, and the log goes on in another new file. Until that is named, the first
    one stays as it is: it is perhaps part of the log."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        it.marks(it.size)
        do(it.conn, "set k w")
        it.disk.fail()
        it.disk.fail_fsync(4)  # of the new file, the directory, the new manifest, and the directory again
        passes_until(it.clock, it.disk.has_failed_fsync, "a manifest is renamed, and the directory is not synced")
        first = {path.name: path.read_bytes() for path in it.folder.log.iterdir() if path.suffix == ".aof"}
        passes_until(it.clock, lambda: not isinstance(it.conn.ask("set", "k", "x"), Err), "the log goes on")
        for name in first:
            path = it.folder.log / name
            if name != FIRST and path.exists() and path.read_bytes() != first[name]:
                fail(f"{name} is written anew, and the manifest on the disk perhaps names it", expected="another name")
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get k", b"x"))


NOT_ON = Err(4, "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check "
                "server logs.")  # fmt: skip


@case(since=27, inside=True, time_limit=60, perhaps="a file that is given up is closed, whatever it is given up for")
def no_descriptor_is_left(chapter: int) -> None:
    """A new file cannot be written, and then can; the log is turned off and on; in vain, since another server has it,
    or since there is no manifest. Each time the server has as many descriptors as before."""

    def same(what: str, server: Server, before: int) -> None:
        if server.fd_count() != before:
            fail(f"{what}: the server has {server.fd_count()} descriptors, and had {before}")

    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        it.marks(it.size)
        before = it.server.fd_count()
        do(it.conn, "set k w")
        it.disk.fail()
        limit_files(it.server, FULL)
        passes_until(it.clock, lambda: any("fdatasync" in line for line in it.server.log), "a sync fails")
        for _ in range(3):
            it.clock.step(1000)
        same("a new file cannot be written", it.server, before)
        limit_files(it.server)
        passes_until(it.clock, lambda: len(it.folder.names) == 2, "the log goes on in a second file")
        same("the log goes on in a second file", it.server, before)
        for _ in range(3):
            do(it.conn, "config set appendonly no", "config set appendonly yes")
        same("the log was turned off and on", it.server, before)
        with it.folder.server(APPENDONLY="no") as server, server.connect() as conn:
            asks(conn, ("get k", None))
            before = server.fd_count()
            asks(conn, *[("config set appendonly yes", NOT_ON)] * 3)
            same("another server has the log", server, before)
    with Folder(chapter) as folder:
        folder.write(batch(log_of("SELECT 0", "SET k v", "SET l w"), 0) * 3)
        (folder.log / MANIFEST).unlink()
        with folder.server(APPENDONLY="no") as server, server.connect() as conn:
            asks(conn, ("config set appendonly yes", NOT_ON))
            before = server.fd_count()  # with the directory
            asks(conn, *[("config set appendonly yes", NOT_ON)] * 3)
            same("there is no manifest", server, before)


@case(since=27, inside=True, perhaps="what is synced leaves the buffer: the batch that is open then moves to its front")
def keys_expire_when_a_sync_is_over(chapter: int) -> None:
    """In one round of the loop a key expires, which is written down, and what was written before is on the disk."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        it.marks(it.size)
        it.disk.hold()
        it.conn.send(array("set", "k", "w") + array("set", "gone", "v", "px", "1950"))  # for one round
        it.conn.expect_bytes(b"+OK\r\n" * 2)
        it.clock.step(1000)  # not held(), where a late worker costs another second
        wait_until(it.disk.is_held, "a sync begins")
        it.released()
        for _ in range(10):  # at the last of these steps, the cycle comes by, and the log looks at its sync
            it.clock.step(100)
        do(it.conn, "set l w")
        it.clock.step(1000)
        asks(it.conn, ("get k", b"w"), ("get gone", None), ("get l", b"w"))
        it.server.stop(signal.SIGKILL)
        expect_again(it.folder, ("get k", b"w"), ("get gone", None), ("get l", b"w"))


@case(since=27, inside=True, perhaps="a log that is turned off has no errors any more")
def turned_off_on_a_full_disk(chapter: int) -> None:
    """Requests that write were refused, and are done again when there is no log."""
    with on_a_disk(chapter, "everysec") as it:
        do(it.conn, "set k v")
        limit_files(it.server, FULL)
        do(it.conn, "set k w")
        asks(it.conn, ("set k x", Err(4, "MISCONF Errors writing to the AOF file: File too large")),
             ("config set appendonly no", OK), ("set k y", OK), ("get k", b"y"))  # fmt: skip


# ---- the end ----


@case(since=27, inside=True, perhaps="where there is a log, the alarm behind SIGTERM does not end the server")
def the_end_waits_for_the_disk(chapter: int) -> None:
    """However long a sync takes: told to end, the server ends when all that was answered is on the disk, what waits for
    the sync too, and with status 0."""
    for fsync in ("everysec", "always"):
        with on_a_disk(chapter, fsync) as it:
            if fsync == "always":
                it.disk.hold()
                it.conn.send(array("set", "waits", "v"))
                wait_until(it.disk.is_held, "a sync begins")
            else:
                do(it.conn, "set k v")
                it.held()
                do(it.conn, "set waits v")
            os.kill(it.server.pid, signal.SIGTERM)
            it.disk.wait_alarm(it.server)
            it.disk.release()
            status = it.server.wait_end()
            last = it.folder.batches()[-1]
            if status or not marked(it.folder, last.offset):
                fail(f"with {fsync} the server ends with status {status}, and in the log is {it.folder.batches()}",
                     expected="status 0, and a mark at the end that says that all is on the disk")  # fmt: skip
            assert it.disk.synced >= last.offset
            expect_again(it.folder, ("get waits", b"v"))


@case(since=27, inside=True, perhaps="a sync that goes on may fail: wait for it, and look")
def the_end_on_a_failing_disk(chapter: int) -> None:
    """The last sync fails, or the one that goes on when the server is told to end: the log ends in a new file, and
    nothing is lost."""
    for goes_on in (False, True):
        with on_a_disk(chapter, "everysec") as it:
            do(it.conn, "set k v")
            it.disk.fail()
            if goes_on:
                it.held()
                os.kill(it.server.pid, signal.SIGTERM)
                it.disk.wait_alarm(it.server)
                it.disk.release()
                status = it.server.wait_end()
            else:
                status = it.server.stop(signal.SIGTERM)
            if status or len(it.folder.names) != 2:
                fail(f"a sync fails at the end: {it.server.log}, and the manifest is {it.folder.manifest}",
                     expected="status 0, and all in a new file")  # fmt: skip
            expect_again(it.folder, ("get k", b"v"))


@case(since=27, inside=True, perhaps="where the end of the log cannot be written, that is said, and the status is 1")
def the_end_says_what_is_lost(chapter: int) -> None:
    """Nothing can be written, in a new file neither: a line says how many bytes of the log are lost, and the exit
    status is 1. What is written already is on the disk."""
    for fsync, marked_before in (("everysec", True), ("everysec", False), ("no", False)):
        with on_a_disk(chapter, fsync) as it:
            do(it.conn, "set k v")
            if marked_before:
                it.marks(it.size)
            limit_files(it.server, FULL)
            do(it.conn, "set l w")
            status = it.server.stop(signal.SIGTERM)
            lost, mark = len(batch(log_of("SELECT 0", "SET l w"), 0)), len(batch(b"", 0))
            said = re.search(r"(\d+) bytes .*lost", "\n".join(it.server.log))
            if status != 1 or not said or int(said[1]) not in (lost, lost + mark):
                fail(f"with {fsync} the server ends with status {status}: {it.server.log}",
                     expected=f"status 1, and a line that says that {lost} bytes are lost")  # fmt: skip
            if it.disk.synced < it.size:
                fail(f"with {fsync} the server ends, and of {it.size} bytes that are written {it.disk.synced} are on "
                     "the disk")  # fmt: skip
            expect_again(it.folder, ("get k", b"v"), ("get l", None))


@case(since=27, inside=True, perhaps="with `no`, what is written is not kept: after a sync that fails nobody has it")
def the_end_with_no(chapter: int) -> None:
    """The last sync fails: what it was for may be lost, a line says so, and the exit status is 1."""
    with on_a_disk(chapter, "no") as it:
        do(it.conn, "set k v")
        it.disk.fail()
        status, said = it.server.stop(signal.SIGTERM), "\n".join(it.server.log)
        if status != 1 or "may be lost" not in said or "nothing is lost" in said:
            fail(f"with no the last sync fails, and the server ends with status {status}: {it.server.log}",
                 expected="status 1, and a line that says what may be lost")  # fmt: skip
        expect_again(it.folder, ("get k", b"v"))


# ---- the start ----


@case(since=27, inside=True, perhaps="a log that goes on says soon that all in front of it is on the disk")
def a_mark_follows_what_was_there(chapter: int) -> None:
    """Behind a torn tail, and behind what Redis has written, a server says what it has found and synced. What is wrong
    there later is damage, and no torn tail; what is torn behind it is dropped, as ever."""
    value = "0123456789"
    theirs = log_of("SELECT 0", "SET k v", f"SET last {value}")
    ours = batch(log_of("SELECT 0", "SET k v"), 0)
    ours += batch(log_of("SELECT 0", f"SET last {value}"), len(ours))
    for what, kept, torn in (
        ("batches", ours, b""), ("batches and a torn tail", ours, ours[:70]),
        ("commands of Redis", theirs, b""), ("commands of Redis and half of one", theirs, log_of("SET last w")[:20]),
    ):  # fmt: skip
        with on_a_disk(chapter, "everysec", kept + torn) as it:
            it.marks(len(kept), len(kept) if kept == theirs else 0)
            data = it.folder.last.read_bytes()
            if kept == theirs and it.disk.synced <= len(kept):
                fail(f"behind {what}: a batch behind them is not on the disk, and so no torn tail behind it is known")
            it.server.stop(signal.SIGKILL)
            at = data.index(b"$10\r\n" + value.encode())
            it.folder.write(data[:at] + b"$90" + data[at + 3 :])  # a command that seems to be cut
            it.folder.refused(FIRST)
            it.folder.write(data + b"?" * 600)
            expect_again(it.folder, ("get k", b"v"), ("get last", value.encode()))
