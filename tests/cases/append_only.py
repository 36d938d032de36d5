"""The append-only file (27 and later) as a test sees it: a folder of its own for the log of a server, what is in its
files, and all that a server has, so that before and after a restart can be compared.
"""
from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from harness import Conn, Server, fail, limit, settings, wait_until
from harness.build import program
from harness.process import clean_env, free_port
from harness.resp import array, split_inline
from harness.wire import Arg, Err

from .talk import start

__tracebackhide__ = settings.__tracebackhide__

Words = List[bytes]
All = Dict[Tuple[int, bytes], Tuple[object, object]]  # by database and key: its value, and its deadline

MANIFEST = "appendonly.aof.manifest"
FIRST = "appendonly.aof.1.incr.aof"
HEAD = re.compile(rb"#BATCH:([0-9]{10}) ([0-9]{20})\r\n")
TAIL = re.compile(rb"#CRC:([0-9a-f]{16})\r\n")
POLY = 0x95AC9329AC4BC9B5  # CRC-64 of Jones, from the lowest bit on
DATABASES = 16
MEMORY = "/dev/shm"  # a file system without a disk, where fsync costs nothing


def _table() -> List[int]:
    """What each byte adds to the sum."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ POLY * (value & 1)
        table.append(value)
    return table


TABLE = _table()


def crc64(data: bytes, crc: int = 0) -> int:
    """The sum of Redis, of these bytes behind those of `crc`."""
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def batch(commands: bytes, offset: int, synced: int = 0) -> bytes:
    """A batch, as it has to be where it begins at this byte of its file."""
    data = b"#BATCH:%010d %020d\r\n" % (len(commands), synced) + commands
    return data + b"#CRC:%016x\r\n" % crc64(offset.to_bytes(8, "little") + data)


def commands_of(data: bytes) -> List[Words]:
    """The commands in these bytes of a log, lines with # left out. Fails where they are none."""
    found, pos = [], 0
    while pos < len(data):
        end = data.find(b"\n", pos) + 1
        first, count = data[pos : pos + 1], data[pos + 1 : end].strip()
        if not end or first not in b"#*" or first == b"*" and not count.isdigit():
            fail(f"at byte {pos} of the log is no command: {data[pos : pos + 60]!r}")
        pos = end
        if first == b"*":
            words = []
            for _ in range(int(count)):
                end = data.index(b"\n", pos) + 1
                size = int(data[pos + 1 : end])
                words.append(data[end : end + size])
                pos = end + size + 2
            found.append(words)
    return found


def shown(commands: Sequence[Words]) -> str:
    """Commands as they are typed, with a comma between."""
    return ", ".join(b" ".join(words).decode("latin-1") for words in commands)


class Batch(NamedTuple):
    """A part of the log that is done as a whole. A mark has no commands."""

    offset: int  # where it begins in its file
    synced: int  # how many bytes of the file were on the disk, by its first line
    commands: List[Words]
    end: int  # where the next one begins


def batches(data: bytes, offset: int = 0) -> List[Batch]:
    """All of a file, or from this byte of it on. Fails where it is anything else, or a sum is wrong."""
    found, pos = [], 0
    while pos < len(data):
        head = HEAD.match(data, pos)
        if not head:
            fail(f"at byte {pos} of {len(data)} no batch begins: {data[pos : pos + 60]!r}")
            return found
        end = head.end() + int(head[1])
        tail = TAIL.match(data, end)
        if not tail or int(tail[1], 16) != crc64((offset + pos).to_bytes(8, "little") + data[pos:end]):
            fail(f"the batch at byte {pos} has a wrong sum, or none: {data[pos : end + 23][-80:]!r}")
            return found
        found.append(Batch(offset + pos, int(head[2]), commands_of(data[head.end() : end]), offset + tail.end()))
        pos = tail.end()
    return found


def run_up(chapter: int, env: Dict[str, str]) -> Tuple[str, Optional[int]]:
    """What a server prints until it answers, and is killed then, or has ended; and its exit status, None if killed."""
    port, end = free_port(), time.monotonic() + limit(10)
    with tempfile.TemporaryFile() as out, subprocess.Popen(
        program(chapter, "server"), env=clean_env({"PORT": str(port), **env}), stdin=subprocess.DEVNULL, stdout=out,
        stderr=subprocess.STDOUT, close_fds=False,
    ) as server:  # fmt: skip
        while server.poll() is None and not _answers(port) and time.monotonic() < end:
            time.sleep(0.003)
        status = server.poll()
        server.kill()
        server.wait()
        out.seek(0)
        return out.read().decode(errors="backslashreplace"), status


def _answers(port: int) -> bool:
    """Does a server listen there that has loaded its log?"""
    try:
        with socket.create_connection(("127.0.0.1", port), limit(5)) as sock:
            sock.sendall(array("get", ""))
            came = sock.recv(100)
            return bool(came) and not came.startswith(b"-LOADING")
    except OSError:
        return False


class Folder:
    """A folder for the log of a server, gone at the end: `with Folder(27) as folder, folder.server() as server:`."""

    def __init__(self, chapter: int) -> None:
        self.chapter = chapter
        self.path = Path(tempfile.mkdtemp(prefix="log-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self.path.chmod(0o777)  # the server may run as another user
        self.log = self.path / "appendonlydir"

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    # ---- servers ----

    def env(self, fsync: str = "always", **more: str) -> Dict[str, str]:
        return {"APPENDONLY": "yes", "APPENDFSYNC": fsync, "DIR": str(self.path), **more}

    def server(self, fsync: str = "always", **more: str) -> Server:
        """A server that has its log here, with more in its environment."""
        return start(self.chapter, env=self.env(fsync, **more))

    def refused(self, *words: str) -> str:
        """What a server prints that is started on this log. Fails where it goes on, or does not say these words."""
        came, status = run_up(self.chapter, self.env())
        if status != 1 or any(word not in came for word in words):
            what = "the server starts" if status is None else f"the server ends with exit status {status}"
            fail(f"{what}, and on the screen is: {came.strip() or 'nothing'}",
                 expected=f"exit status 1, and lines with {', '.join(words)}")  # fmt: skip
        return came

    # ---- files ----

    @property
    def manifest(self) -> str:
        return (self.log / MANIFEST).read_text(encoding="utf-8")

    @manifest.setter
    def manifest(self, text: str) -> None:
        self.log.mkdir(exist_ok=True)
        self.put(MANIFEST, text.encode())

    @property
    def names(self) -> List[str]:
        """The files that the manifest names, in order."""
        return [line.split()[1] for line in self.manifest.splitlines()]

    @property
    def last(self) -> Path:
        """The file at whose end the log grows."""
        return self.log / self.names[-1]

    def write(self, data: bytes, name: str = FIRST) -> None:
        """Makes this the whole log."""
        self.manifest = f"file {name} seq 1 type i\n"
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Makes this the content of a file of the log. The server may run as another user."""
        path = self.log / name
        path.write_bytes(data)
        with suppress(PermissionError):
            self.log.chmod(0o777)
            path.chmod(0o666)

    def commands(self) -> List[Words]:
        """What is in all files, in order."""
        return commands_of(b"".join((self.log / name).read_bytes() for name in self.names))

    def effects(self) -> List[Tuple[int, Words]]:
        """The same, and in which database each is done, without SELECT."""
        db, found = 0, []
        for words in self.commands():
            if words[0].lower() == b"select":
                db = int(words[1])
            else:
                found.append((db, words))
        return found

    def batches(self) -> List[Batch]:
        """Those of the last file, marks too."""
        return batches(self.last.read_bytes())


def log_of(*lines: str) -> bytes:
    """Commands as they stand in a log that Redis has written."""
    return b"".join(array(*split_inline(line.encode("latin-1"))) for line in lines)


def first_answer(conn: Conn, *words: Arg) -> object:
    """The reply to a request that is sent until the log is loaded: to the first request that is done."""
    came: List[object] = []

    def is_loaded() -> bool:
        came[:] = [conn.ask(*words)]
        return not (isinstance(came[0], Err) and str(came[0].text).startswith("LOADING"))

    wait_until(is_loaded, "the log is loaded", 20)
    return came[0]


def ready(conn: Conn) -> None:
    """Waits until the log is loaded."""
    first_answer(conn, "get", "")


def everything(conn: Conn) -> All:
    """All keys of all databases."""
    ready(conn)
    found: All = {}
    for db in range(DATABASES):
        conn.ask("select", str(db))
        keys = conn.ask("keys", "*")
        assert isinstance(keys, list)
        asked: List[List[Arg]] = [["type", key] for key in keys]
        kinds = conn.pipeline(asked)
        asked = [["get", key] if kind == b"string" else ["zrange", key, "0", "-1", "withscores"]
                 for key, kind in zip(keys, kinds)]  # fmt: skip
        values, times = conn.pipeline(asked), conn.pipeline([["pexpiretime", key] for key in keys])
        found.update({(db, key): (value, time) for key, value, time in zip(keys, values, times)})
    conn.ask("select", "0")
    return found


def expect_all(what: str, got: All, expected: All) -> None:
    """Fails where these are not the same, with the first key that differs."""
    for where in sorted({*got, *expected}):
        if got.get(where) != expected.get(where):
            db, key = where
            fail(f"{what}: {key!r} of database {db} is {_value(got.get(where))}",
                 expected=_value(expected.get(where)))  # fmt: skip


def _value(value: Optional[Tuple[object, object]]) -> str:
    return "not there" if value is None else f"{str(value[0])[:200]}, with the deadline {value[1]}"
