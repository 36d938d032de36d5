"""What cases say to a server of any chapter: requests, and the replies that must come."""
from __future__ import annotations

import os
import resource
import select
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from harness import Conn, Server, Status, fail, limit, settings, wait_until
from harness.codec import codec
from harness.wire import DONE, Arg

__tracebackhide__ = settings.__tracebackhide__

Request = Tuple[Arg, ...]

SMALL = 4096  # a receive buffer that is full at once
ROOM = 200  # descriptors that pytest needs besides its connections


def start(chapter: int, **options: object) -> Server:
    """A server that closes no connection only because the test is slow."""
    env: Dict[str, str] = {"IDLE_TIMEOUT_MS": "0", **options.pop("env", {})}  # type: ignore[dict-item]
    return Server(chapter, env=env, **options)  # type: ignore[arg-type]


def naming(chapter: int, word: Arg) -> Request:
    """A request with this word in it."""
    return (word,) if codec(chapter).is_text else ("get", word)


def printed_done(chapter: int) -> str:
    """What the client of 09 and later prints for it."""
    return "(str) OK\n" if codec(chapter).is_resp else "(nil)\n"


def talk(chapter: int, n: int, tag: str = "", size: int = 0) -> Tuple[List[Request], List[object]]:
    """n requests and their replies, which tell one request from another (04 always says world).

    tag keeps apart what several connections say. size pads each text or value to that many bytes.
    """
    requests: List[Request] = []
    replies: List[object] = []
    for i in range(n):
        text = f"{tag}:{i - i % 2 if codec(chapter).has_commands else i}".ljust(size, ".").encode()
        if codec(chapter).is_text:
            requests.append((text,))
            replies.append(codec(chapter).said(text))
        elif i % 2 == 0:
            requests.append(("set", f"{tag}key", text))
            replies.append(DONE)
        else:
            requests.append(("get", f"{tag}key"))
            replies.append(Status(0, text))
    return requests, replies


def too_much(chapter: int) -> Tuple[List[Request], List[object]]:
    """Requests whose replies are more than the buffers of two kernels hold, and these replies.

    From 07 on nearly all of it is replies: requests of a few bytes ask for a large value.
    """
    if codec(chapter).is_text:
        return talk(chapter, 3000, "much", 1500)
    value = b"m" * (codec(chapter).large)
    n = (8 << 20) // len(value)
    requests: List[Request] = [("set", "much", value)] + [("get", "much")] * n
    return requests, [DONE] + [Status(0, value)] * n


def encode(chapter: int, requests: Sequence[Request]) -> bytes:
    """The bytes of these requests, one after the other."""
    request = codec(chapter).request
    return b"".join(request(*args) for args in requests)


def asked(chapter: int, *words: Arg) -> bytes:
    """The bytes of one request."""
    return codec(chapter).request(*words)


def answered(chapter: int, value: object, *words: Arg) -> bytes:
    """The bytes of a reply. words are those of the request, where it is a `set` (RESP has another nothing for it)."""
    return codec(chapter).reply(value, *words)


def encode_replies(chapter: int, replies: Sequence[object]) -> bytes:
    """The bytes of these replies, one after the other."""
    reply = codec(chapter).reply
    return b"".join(reply(value) for value in replies)


def say(conn: Conn, n: int = 2, tag: str = "say") -> None:
    """n requests on a connection, each after the reply to the one before."""
    for request, reply in zip(*talk(conn.chapter, n, tag)):
        conn.ask(*request, expect=reply)


def ask(conn: Conn, text: bytes = b"hello") -> None:
    """One request, and its answer."""
    if not conn.codec.has_messages:
        conn.send(text)
        conn.expect_bytes(conn.codec.said(text))
        conn._answered(len(conn.unanswered))
    else:
        say(conn, 1)


def still_serves(server: Server) -> None:
    """A new connection gets its answers, and in time."""
    with server.connect(seconds=2) as conn:
        say(conn, tag="still")


def end_input(conn: Conn) -> None:
    """Shuts down our sending side, if the server has not hung up already."""
    with suppress(OSError):
        conn.shutdown_write()


def many(wanted: int) -> int:
    """As many connections as wanted, fewer where this process may not have so many.

    Call it before the server is started: it raises the limit, which the server inherits.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + ROOM if hard == resource.RLIM_INFINITY else min(hard, wanted + ROOM)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - ROOM)


def watched() -> bool:
    """Do the programs run under a sanitizer or valgrind, which need memory and time of their own?

    The sandbox of the exercises is gone by the time that a program runs.
    """
    sandbox = any(word.endswith("sandbox.py") for word in settings.wrapper())
    return bool(os.environ.get("SAN") or (os.environ.get("WRAPPER") and not sandbox))


def readable(conn: Conn) -> bool:
    """Has anything come on the connection that was not taken yet?"""
    return bool(conn.buffer) or bool(select.select([conn.sock], [], [], 0)[0])


def is_closed(conn: Conn) -> bool:
    """Has the server closed the connection, on which something has come?"""
    try:
        return not conn.sock.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


def uses_no_cpu(server: Server, who: str) -> None:
    """Fails where the server uses processor time again and again although nothing happens.

    One quiet stretch is enough, at whose end the server sleeps: what it still had to do at first does not count, and a
    server that had no processor for so long has not been quiet.
    """
    spent: List[int] = []
    for _ in range(12):
        before = server.cpu_ms()
        time.sleep(0.15)
        spent.append(server.cpu_ms() - before)
        with open(f"/proc/{server.pid}/stat") as f:
            sleeps = f.read().rpartition(")")[2].split()[0] == "S"
        if spent[-1] <= 20 and sleeps:
            return
    fail(
        f"with {who} and nothing to do, the server used {spent} ms of processor time, in 150 ms each",
        "does poll() return again and again for something that the loop does not do? While a reply waits to be "
        "written ask for POLLOUT, and only then; for POLLIN until the input has ended; and look away from accept() "
        "while it fails.",
        "none, once it has done what there was to do",
    )


def preload(name: str) -> Dict[str, str]:
    """The environment that puts tests/cases/NAME.c between a program and libc."""
    source = Path(__file__).with_name(f"{name}.c")
    library = settings.build_dir() / f"{name}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        mine = f"{library}.{os.getpid()}"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        done = subprocess.run(
            [*compiler, "-std=gnu11", "-O2", "-Wall", "-shared", "-fPIC", str(source), "-o", mine, "-ldl"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            fail(f"{source.name} does not compile:\n{done.stdout}")
        os.replace(mine, library)
    options = os.environ.get("ASAN_OPTIONS", "")
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": f"{options}:verify_asan_link_order=0".strip(":")}


class Counts:
    """Counts the calls of a server (cases/count.c): Counts().env goes to start().

    reset() begins anew; polls (epoll_wait too), accepts, reads, writes and controls (epoll_ctl) are what it has done
    since; moved, the bytes that memmove has moved; most_accepts, how often it has ever called accept between two polls.
    """

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(56))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"COUNT_FILE": self.file.name, **preload("count")}
        self.before: Tuple[int, ...] = (0,) * 7

    def reset(self) -> None:
        self.before = (*self._read()[:6], 0)

    def _read(self) -> Tuple[int, ...]:
        self.file.seek(0)
        return struct.unpack("=7Q", self.file.read(56))

    def __getattr__(self, name: str) -> int:
        index = ("polls", "accepts", "reads", "writes", "controls", "moved", "most_accepts").index(name)
        return self._read()[index] - self.before[index]


class Sends:
    """Notes in which round of its loop a server sends to which of its descriptors (cases/sends.c): Sends().env goes to
    start(). reset() begins anew; since() is what was sent since, as pairs of round and descriptor."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.truncate(16 + (16 << 14))
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"SENDS_FILE": self.file.name, **preload("sends")}
        self.before = 0

    def reset(self) -> None:
        self.before = len(self._all())

    def since(self) -> List[Tuple[int, int]]:
        return self._all()[self.before :]

    def _all(self) -> List[Tuple[int, int]]:
        self.file.seek(0)
        words = struct.unpack(f"={2 + (2 << 14)}Q", self.file.read(16 + (16 << 14)))
        return [(words[2 + 2 * i], words[3 + 2 * i]) for i in range(words[1])]


class Rounds:
    """Measures the rounds of a server's loop (cases/rounds.c): Rounds().env goes to start(). reset() begins anew;
    longest_ms() is the processor time of the longest round since."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(16))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"ROUNDS_FILE": self.file.name, **preload("rounds")}

    def reset(self) -> None:
        self.file.seek(0)
        self.file.write(bytes(16))
        self.file.flush()

    def longest_ms(self) -> float:
        self.file.seek(0)
        return struct.unpack("=2Q", self.file.read(16))[1] / 1000


class Hold:
    """Holds a server while it reads a request that contains WORD (cases/hold.c): Hold().env goes to start()."""

    WORD = "hold-here"

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(4))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"HOLD_FILE": self.file.name, **preload("hold")}

    def is_held(self) -> bool:
        self.file.seek(0)
        return struct.unpack("=i", self.file.read(4))[0] == 1

    def release(self) -> None:
        """The server goes on."""
        self.file.seek(0)
        self.file.write(struct.pack("=i", 2))
        self.file.flush()


@contextmanager
def paused(server: Server) -> Iterator[None]:
    """The server is stopped (SIGSTOP) for the time of the block, asleep if it comes to rest. Its waiting calls end with
    EINTR, and find all that was sent meanwhile, in that order: on a busy machine the kernel takes its time even from
    one process to the other."""
    patience = time.monotonic() + 0.1
    while _state(server.pid) != "S" and time.monotonic() < patience:
        time.sleep(0.0005)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _state(server.pid) == "T", "the server stops")
        yield
        _delivered(server.port)
    finally:
        os.kill(server.pid, signal.SIGCONT)


def _delivered(port: int, patience: float = 0.05) -> None:
    """Waits until nothing is on its way to that port, or what is does not move: the other side is full."""
    before, since = _unacknowledged(port), time.monotonic()
    while any(before) and time.monotonic() < since + patience:
        time.sleep(0.001)
        now = _unacknowledged(port)
        if now != before:
            before, since = now, time.monotonic()


def _unacknowledged(port: int) -> List[str]:
    """What /proc/net/tcp says of the queues of those who are connected with the port, "" of an empty one."""
    with open("/proc/net/tcp") as f:
        rows = [line.split(maxsplit=5) for line in f if f":{port:04X} " in line]
    return [row[4].partition(":")[0].strip("0") for row in rows if row[2].endswith(f":{port:04X}")]


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


class Numbered:
    """Requests with the same words, in which ###### stands for a number."""

    def __init__(self, numbers: Sequence[int], words: Sequence[Arg]) -> None:
        self.numbers, self.words = numbers, words

    def encode(self, chapter: int) -> List[bytes]:
        """The bytes of each."""
        parts = asked(chapter, *self.words).split(b"######")
        return [(b"%06d" % i).join(parts) for i in self.numbers]


def numbered(numbers: Sequence[int], *words: Arg) -> Numbered:
    """Requests with these words, in which ###### stands for the number."""
    return Numbered(numbers, words)


def bulk(conn: Conn, requests: Numbered, reply: object) -> None:
    """Sends requests that all have this reply."""
    data = requests.encode(conn.chapter)
    answer = answered(conn.chapter, reply, *requests.words)
    for i in range(0, len(data), 1000):
        part = data[i : i + 1000]
        conn.send(b"".join(part), list(map(len, part)))
        conn.expect_bytes(answer * len(part))


class Hammer:
    """Connections that send and read without a pause in the background: `with Hammer(server):`.

    When the block begins the server has answered each of them.
    """

    def __init__(self, server: Server, connections: int = 2) -> None:
        self.server = server
        self.data = encode(server.chapter, talk(server.chapter, 500, "hammer")[0])
        self.stopping = False
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(connections)]
        self.started = threading.Semaphore(0)

    def __enter__(self) -> "Hammer":
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            if not self.started.acquire(timeout=limit(5)):
                fail(
                    "the server answers none of a flood of requests",
                    "does it read as long as anything comes, before it writes? Each connection gets a turn, not "
                    "all of them.",
                    "each of the clients that ask without a pause gets answers",
                )
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping = True
        for thread in self.threads:
            thread.join(limit(5))

    def _work(self) -> None:
        at, answered = 0, False
        try:
            with socket.create_connection(("127.0.0.1", self.server.port), limit(5)) as sock:
                sock.setblocking(False)
                while not self.stopping:
                    can_read, can_write, _ = select.select([sock], [sock], [], 0.1)
                    if can_read:
                        if not sock.recv(1 << 16):
                            return
                        if not answered:
                            self.started.release()
                        answered = True
                    if can_write:
                        at = (at + sock.send(self.data[at:])) % len(self.data)
        except OSError:
            pass  # the server has ended, which some tests want
