"""A server and its clients, as the crash lab needs them: quickly started on a folder, killed, talked to."""
from __future__ import annotations

import itertools
import mmap
import os
import random
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

HERE = Path(__file__).resolve().parent
CLOCK = HERE.parent / "cases" / "clock.c"
PORTS = itertools.cycle(random.sample(range(20000, 32000), 4000))
LOOK_S = 0.02  # between two looks whether a reply has come, or the server has gone
FAST = 10  # times as fast as ours, while clients pause: FastClock
READY = re.compile(rb"listening on [\d.]+:(\d+)|(Ready to accept connections)")
Words = Tuple[bytes, ...]


class Trouble(Exception):
    """The server does not start, or does not answer: why."""


def patience() -> float:
    """For how many seconds a server may do nothing."""
    return 10 * float(os.environ.get("TEST_TIME_FACTOR", "1"))


def recorder() -> str:
    return preloaded(HERE / "recorder.c")


def preloaded(source: Path) -> str:
    """The library made of this file, which is compiled where it is older."""
    folder = Path(os.environ.get("WORKBOOK_BUILD", HERE.parents[1] / "build" / "test")).resolve()
    library = folder / f"{source.stem}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        mine = f"{library}.{os.getpid()}.{threading.get_ident()}"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        words = ["-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", "-pthread", str(source), "-o", mine, "-ldl"]
        subprocess.run([*compiler, *words], check=True)
        os.replace(mine, library)
    return str(library)


class Clock:
    """What the time is, for a server and its clients: that of the machine."""

    preload = ""  # a library, with a colon behind it
    env: Dict[str, str] = {}

    def ns(self) -> int:
        """The monotonic clock."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def waited(self, seconds: float) -> None:
        """So long a client has waited for the server."""


class FastClock(Clock):
    """The clocks of a server, which its clients set: they run FAST times as fast as ours while the clients pause, so
    nobody waits long for a timer, and stand still while they are at work, so on a busy machine none goes off early."""

    def __init__(self, file: Path) -> None:
        self.preload = f"{preloaded(CLOCK)}:"
        self.env = {"CLOCK_FILE": str(file)}
        file.write_bytes(bytes(4096))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 4096)
        self._wall_ahead = time.time_ns() - time.monotonic_ns()
        self._set(time.monotonic_ns())

    def _set(self, ns: int) -> None:
        struct.pack_into("=qq", self._map, 0, ns, ns + self._wall_ahead)

    def ns(self) -> int:
        return struct.unpack_from("=q", self._map)[0]

    def sleep(self, seconds: float) -> None:
        end, step = self.ns() + round(seconds * 1e9), FAST * 1_000_000
        while self.ns() < end:
            time.sleep(0.001)
            self._set(min(self.ns() + step, end))

    def waited(self, seconds: float) -> None:
        self._set(self.ns() + round(seconds * 1e9))


class Server:
    """A running server with its files in `folder`: `with Server(command, folder, "always") as server:`. It is killed
    at the end. Trouble where it does not come up. A redis-server is told on its command line what ours are told by
    variables."""

    def __init__(
        self, command: Sequence[str], folder: Path, policy: str, env: Optional[Dict[str, str]] = None,
    ) -> None:  # fmt: skip
        words = list(command)
        self.port = 0
        if Path(words[0]).name == "redis-server":
            self.port = _free_port()
            options = f"--port {self.port} --dir {folder} --appendonly yes --appendfsync {policy} --save"
            words += [*options.split(), "", "--aof-use-rdb-preamble", "no", "--enable-debug-command", "no"]
        said = {"PORT": "0", "DIR": str(folder), "APPENDONLY": "yes", "APPENDFSYNC": policy, "IDLE_TIMEOUT_MS": "0"}
        self.said = b""
        self._process = subprocess.Popen(
            words, env={**os.environ, **said, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            self._wait_ready()
            self._wait_loaded()
        except BaseException:
            self.kill()
            raise

    def _wait_ready(self) -> None:
        end = time.monotonic() + patience()
        while True:
            found = READY.search(self.said)
            if found:
                self.port = int(found[1] or self.port)
                return
            if not self._read(end - time.monotonic()):
                self._process.wait(patience())
                raise Trouble(f"does not start: {self.last_words()}")

    def _wait_loaded(self) -> None:
        """It may listen while it loads."""
        try:
            with Client(self) as client:
                while True:
                    (reply,) = client.ask((b"exists", b"order"))
                    if not isinstance(reply, Error) or not reply.startswith(b"LOADING"):
                        return
                    time.sleep(0.001)
        except Trouble:
            raise Trouble(f"does not start: {self.ending()}") from None

    def _read(self, seconds: float) -> bool:
        """Takes in what it says. False at the end of that."""
        assert self._process.stdout
        fd = self._process.stdout.fileno()
        if not select.select([fd], [], [], max(0, seconds))[0]:
            raise Trouble(f"does not start: not ready after {patience():g} s: {self.last_words()}")
        more = os.read(fd, 1 << 16)
        self.said += more
        return bool(more)

    def last_words(self, lines: int = 2) -> str:
        """The last lines that it has printed, without the numbers and dates of redis-server."""
        said = re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ . ", "", self.said.decode(errors="replace"), flags=re.M)
        kept = [line for line in said.split("\n") if line and not line.startswith(("WARNING", "Server init"))]
        return " / ".join(kept[-lines:]) or "it says nothing"

    def ending(self, seconds: float = 1) -> str:
        """How it has ended by itself, or that it has not."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return "it has closed the connection, and goes on"
        while self._read(1):
            pass
        return f"status {status}: {self.last_words()}"

    def kill(self, sig: int = signal.SIGKILL, clock: Clock = Clock()) -> None:
        """kill -9, at any time: what it has not written is gone. Another signal may wait for a timer."""
        if self._process.poll() is None:
            self._process.send_signal(sig)
        end = time.monotonic() + patience()
        while True:
            try:
                self._process.wait(LOOK_S)
                return
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    raise
                clock.waited(LOOK_S)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout
        self._process.stdout.close()


def _free_port() -> int:
    """One that the kernel gives to nobody by itself."""
    for port in PORTS:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError


class Client:
    """A connection. `taken` are the bytes of all replies so far that are whole."""

    def __init__(self, server: Server, clock: Clock = Clock()) -> None:
        self._clock = clock
        try:
            self._sock = socket.create_connection(("127.0.0.1", server.port), patience())
        except OSError as error:
            raise Trouble(f"it does not accept: {error}") from None
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self._sock.getsockname()[1]
        self.taken = 0
        self._buffer = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, requests: Sequence[Words]) -> None:
        """Sends them all. Where the server has gone, that is noticed when a reply is asked for."""
        try:
            self._sock.sendall(b"".join(encode(words) for words in requests))
        except OSError:
            pass

    def reply(self) -> object:
        """The next one: bytes, a number, None, a list; an Error. Trouble where the server has gone."""
        while True:
            whole = decode(self._buffer)
            if whole:
                value, end = whole
                self._buffer = self._buffer[end:]
                self.taken += end
                return value
            self._wait_readable()
            try:
                more = self._sock.recv(1 << 16)
            except OSError:
                more = b""
            if not more:
                raise Trouble("it has closed the connection")
            self._buffer += more

    def _wait_readable(self) -> None:
        end = time.monotonic() + patience()
        while not select.select([self._sock], [], [], LOOK_S)[0]:
            self._clock.waited(LOOK_S)
            if time.monotonic() > end:
                raise Trouble(f"no reply in {patience():g} s")

    def ask(self, *requests: Words) -> List[object]:
        """The replies to these requests, which are sent as one piece."""
        self.send(requests)
        return [self.reply() for _ in requests]


class Error(bytes):
    """A reply that is an error: its text."""


def encode(words: Words) -> bytes:
    """A request in RESP."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def decode(data: bytes, at: int = 0) -> Optional[Tuple[object, int]]:
    """The reply in RESP that begins there, and its end; None where it is not whole."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    kind, text, at = data[at : at + 1], data[at + 1 : line_end], line_end + 2
    if kind in b"+-":
        return (Error(text) if kind == b"-" else text), at
    number = int(text)
    if kind == b":" or number < 0:
        return (number if kind == b":" else None), at
    if kind == b"$":
        return (data[at : at + number], at + number + 2) if len(data) >= at + number + 2 else None
    values: List[object] = []
    for _ in range(number):
        whole = decode(data, at)
        if not whole:
            return None
        values.append(whole[0])
        at = whole[1]
    return values, at
