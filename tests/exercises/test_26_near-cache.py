"""26-near-cache: a cache that keeps values until it is told of a change: never an old one, few requests."""
from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from typing import Callable, Dict, Iterator, List, Sequence

from grading import Submission, points
from harness import Conn, Err, Server, limit
from harness.process import clean_env

CLOSE_WAIT = 8  # in /proc/net/tcp: the other side has closed
OLD = "is an event taken in before the question is answered, wherever its bytes are by then?"


class Pair:
    """A connection of the cache's, and the one that goes on from there to the server."""

    def __init__(self, cache: socket.socket, server: socket.socket) -> None:
        self.cache, self.server = cache, server
        self.ends = [(sock.getsockname()[1], sock.getpeername()[1]) for sock in (cache, server)]  # our port, and theirs

    def is_quiet(self) -> bool:
        """Is nothing on its way, in either direction? What is in the cache's socket has come, be it read or not."""
        for ours, theirs in self.ends:
            for one, other in ((ours, theirs), (theirs, ours)):
                sent = row_of(one, other).get("unacknowledged", 0)
                if sent > row_of(other, one).get("unread", 0):
                    return False
        return not select.select([self.cache, self.server], [], [], 0)[0]


class Proxy:
    """Stands between the cache and the server, and forwards what they say, piece by piece. Before it forwards the piece
    with the number `at`, it calls `act`; what the server then says besides goes first, or on the same connection with
    the piece, in one."""

    def __init__(self, server: Server) -> None:
        self.target = server.port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs: List[Pair] = []
        self.asked = 0  # bytes that the cache has sent
        self.pieces = 0
        self.at = -1
        self.act: Callable[[], List[bytes]] = lambda: []  # returns what the server says of it
        self.told = bytearray()  # all that the server has said
        self.lock = threading.RLock()
        self.ended = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.ended = True
        self.thread.join()
        self.listener.close()
        for pair in list(self.pairs):
            self._end(pair)

    def cut(self, pair: Pair) -> None:
        """Ends a connection; comes back when the cache's side knows it."""
        with self.lock:
            with suppress(OSError):
                pair.cache.shutdown(socket.SHUT_RDWR)
            ours, theirs = pair.ends[0]
            wait(lambda: row_of(theirs, ours).get("state", CLOSE_WAIT) >= CLOSE_WAIT)
            self._end(pair)

    def hear(self, what: List[bytes]) -> None:
        """Waits until all that the server has said is in the cache's sockets, with this in it."""
        wait(lambda: all(each in self.told for each in what))
        wait(self.is_quiet)

    def is_quiet(self) -> bool:
        with self.lock:
            return all(pair.is_quiet() for pair in self.pairs)

    def begin(self, at: int, act: Callable[[], List[bytes]]) -> None:
        """Counts the pieces from here on."""
        with self.lock:
            self.pieces, self.at, self.act = 0, at, act

    def _end(self, pair: Pair) -> None:
        if pair in self.pairs:
            self.pairs.remove(pair)
        pair.cache.close()
        pair.server.close()

    def _run(self) -> None:
        while not self.ended:
            with self.lock:
                pairs = list(self.pairs)
            sockets = [sock for pair in pairs for sock in (pair.server, pair.cache)]
            with suppress(OSError, ValueError):  # one was cut meanwhile
                ready = select.select([self.listener, *sockets], [], [], 0.02)[0]
                with self.lock:
                    if self.listener in ready:
                        self._accept()
                    for pair in pairs:
                        for sock in (pair.server, pair.cache):
                            if sock in ready and pair in self.pairs:
                                self._forward(pair, sock)

    def _accept(self) -> None:
        cache = self.listener.accept()[0]
        cache.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs.append(Pair(cache, socket.create_connection(("127.0.0.1", self.target))))

    def _forward(self, pair: Pair, sock: socket.socket) -> None:
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._end(pair)
            return
        self.pieces += 1
        said = self._act() if self.pieces - 1 == self.at else {}
        with suppress(OSError):
            if sock is pair.cache:
                self.asked += len(data)
                if pair in self.pairs:
                    self._tell(pair, said.pop(pair, b""))
                    pair.server.sendall(data)
            else:
                data += said.pop(pair, b"")
            for other, more in said.items():
                self._tell(other, more)
            if sock is pair.server and pair in self.pairs:
                self._tell(pair, data)

    def _tell(self, pair: Pair, data: bytes) -> None:
        if data:
            pair.cache.sendall(data)
            self.told += data

    def _act(self) -> Dict[Pair, bytes]:
        """Has it happen; what the server says of it."""
        said: Dict[Pair, bytes] = {}
        what, end = self.act(), time.monotonic() + limit(1)
        while not all(any(each in data for data in said.values()) for each in what) and time.monotonic() < end:
            by = {pair.server: pair for pair in self.pairs}
            for sock in select.select(list(by), [], [], 0.02)[0]:
                said[by[sock]] = said.get(by[sock], b"") + sock.recv(1 << 16)
        return said


def wait(condition: Callable[[], bool]) -> None:
    """Waits until it holds, for a second at most: where it never does, the cache was not told."""
    end = time.monotonic() + limit(1)
    while not condition() and time.monotonic() < end:
        time.sleep(0.0005)


def row_of(port: int, peer: int) -> Dict[str, int]:
    """What /proc/net/tcp says of one side of a connection: its state, and bytes in its queues."""
    with open("/proc/net/tcp") as file:
        for line in file:
            words = line.split(maxsplit=5)
            if words[1].endswith(f":{port:04X}") and words[2].endswith(f":{peer:04X}"):
                sent, unread = words[4].split(":")
                return {"state": int(words[3], 16), "unacknowledged": int(sent, 16), "unread": int(unread, 16)}
    return {}


class Cached:
    """cache.py behind Proxy, a connection to the server itself, and what is asked of both."""

    def __init__(self, work: Submission, server: Server, proxy: Proxy, conn: Conn) -> None:
        self.work, self.server, self.proxy, self.conn = work, server, proxy, conn
        self.process = subprocess.Popen(
            [*work.wrapper(), work.python, str(work.path / "cache.py"), str(proxy.port)], env=clean_env({}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.line = b""

    def close(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def ask(self, key: str) -> str:
        """Its answer to the question about a key."""
        with suppress(BrokenPipeError):
            assert self.process.stdin and self.process.stdout
            self.process.stdin.write(key.encode() + b"\n")
            self.process.stdin.flush()
            pipe, end = self.process.stdout.fileno(), time.monotonic() + limit(5)
            while not self.line.endswith(b"\n") and select.select([pipe], [], [], end - time.monotonic())[0]:
                more = os.read(pipe, 1 << 16)
                self.line += more
                if not more or time.monotonic() > end:
                    break
        line, self.line = self.line, b""
        if line.endswith(b"\n"):
            return line.decode("utf-8", "replace").rstrip("\n")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        if self.process.poll() is None:
            self.work.fail(came=f"no answer to the question about {key} within {limit(5):g} s", expected="an answer",
                           cause="does it wait for a reply that does not come, as that of subscribe?")  # fmt: skip
        assert self.process.stderr
        last = self.process.stderr.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        came = [f"cache.py has ended, at the question about {key}", *last]
        self.work.fail(came="\n".join(came), expected="an answer")
        return ""

    def change(self, line: str, keys: str) -> List[bytes]:
        """Another client does something to these keys; what the cache is told then, if it listens to anything."""
        assert not isinstance(self.conn.ask(*line.split()), Err), line
        return self.told_of(keys)

    def told_of(self, keys: str) -> List[bytes]:
        """How what it is told of these keys ends. All that the server has to say is written then."""
        self.conn.ask("ping")
        lines = self.info()
        listens = lines["pubsub_channels"] != "0" or lines["pubsub_patterns"] != "0"
        return [key.encode() + b"\r\n" for key in keys.split()] if listens else []

    def rest(self) -> None:
        """Waits until all that the cache has said is answered, and the answer is in its socket."""
        wait(self.proxy.is_quiet)
        for _ in range(2):
            self.conn.ask("ping")
        wait(self.proxy.is_quiet)

    def info(self) -> Dict[str, str]:
        text = bytes(self.conn.ask("info", "stats")).decode()  # type: ignore[call-overload]
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def lookups(self) -> int:
        """How often the server has looked up a key so far."""
        lines = self.info()
        return int(lines["keyspace_hits"]) + int(lines["keyspace_misses"])

    def happens(self, line: str, keys: str) -> None:
        """As change(); comes back when the cache has been told."""
        self.proxy.told.clear()
        self.proxy.hear(self.change(line, keys))

    def expect(self, key: str, value: str, after: str, cause: str = OLD) -> None:
        """It must answer with this value."""
        got = self.ask(key)
        self.work.expect(
            got == value, came=f"{after}: the answer about {key} is {got[:80]}", expected=value, cause=cause,
        )  # fmt: skip


@contextmanager
def cached(work: Submission, keys: Sequence[str] = (), value: str = "v") -> Iterator[Cached]:
    """A server that has these keys, and a cache that has just begun."""
    with Server(26, env={"IDLE_TIMEOUT_MS": "0"}) as server, server.connect() as conn:
        for key in keys:
            conn.ask("set", key, value)
        proxy = Proxy(server)
        try:
            cache = Cached(work, server, proxy, conn)
            try:
                yield cache
            finally:
                cache.close()
        finally:
            proxy.close()


@points(3, "few requests")
def test_few(work: Submission) -> None:
    """Twenty keys, half of them not there, are asked for fifty times each; then one of them changes."""
    keys = [f"key:{i}" for i in range(20)]
    with cached(work, keys[:10]) as cache:
        before = cache.lookups()
        for key in keys:
            cache.expect(key, "v" if key in keys[:10] else "(nil)", "asked for the first time")
        lookups, asked = cache.lookups() - before, cache.proxy.asked
        work.expect(
            lookups <= 20, came=f"20 keys are asked for the first time: the server has looked up {lookups}",
            expected="20 lookups",
        )  # fmt: skip
        for _ in range(49):
            for key in keys:
                cache.expect(key, "v" if key in keys[:10] else "(nil)", "nothing has happened")
        more, sent = cache.lookups() - before - lookups, cache.proxy.asked - asked
        work.expect(
            more == 0 and sent == 0,
            came=f"asked for 49 times more: the server has looked up {more} keys, and you have sent {sent} bytes",
            expected="nothing is sent: what was answered is kept, also that a key is not there",
        )  # fmt: skip
        for key in ("key:3", "key:13", "another"):
            cache.happens(f"set {key} new", key)
            before = cache.lookups()
            for each in keys:
                cache.ask(each)
            lookups, most = cache.lookups() - before, int(key in keys)
            work.expect(
                lookups <= most, came=f"{key} has changed, 20 keys are asked for: the server has looked up {lookups}",
                expected=f"{most} at most: the others are as they were", cause="what does an event drop?",
            )  # fmt: skip


@points(2, "all that happens to a key")
def test_values(work: Submission) -> None:
    """A key is asked for, another client changes it in some way, and it is asked for again."""
    lines = (
        "set k 1", "append k 2", "incr k", "setrange k 0 9", "getset k 7", "del k", "setex k 100 8", "getdel k",
        "mset k 5", "rename k gone", "rename gone k", "copy k k2 replace", "pexpire k 0", "incrbyfloat k 1.5",
        "psetex k 30 short", "set user__:7 a", "append user__:7 b", "del user__:7", "set k2 last",
    )  # fmt: skip
    with cached(work) as cache:
        for line in lines:
            first, *others = line.split()[1:]
            keys = [key for key in ("k", "k2", "gone", "user__:7") if key in (first, *others)]
            told = "k2" if "copy" in line else " ".join(keys)
            for key in keys:
                cache.ask(key)
            cache.happens(line, told)
            if "short" in line:  # it is deleted, and the cache told, when it is asked for after its end
                cache.ask("k")
                cache.proxy.told.clear()
                wait(lambda: cache.conn.ask("get", "k") is None)
                cache.proxy.hear(cache.told_of("k"))
            for key in keys:
                now = cache.conn.ask("get", key)
                value = "(nil)" if now is None else bytes(now).decode()  # type: ignore[call-overload]
                cache.expect(
                    key, value, line, "which events have you asked for, and what is the name of the key in them?"
                )


@points(3, "at each moment")
def test_moments(work: Submission) -> None:
    """While a key is asked for the first time, another client sets it: before the request passes, before the reply
    does, and so on, one moment for each key. Then it is asked for again."""
    with cached(work, [f"key:{at}" for at in range(12)], "old") as cache:
        cache.ask("first")
        for at in range(12):
            key, happened = f"key:{at}", []

            def act() -> List[bytes]:
                happened.append(True)
                return cache.change(f"set {key} new", key)

            cache.rest()
            cache.proxy.begin(at, act)
            cache.ask(key)
            cache.rest()
            if not happened:
                break
            cache.expect(key, "new", f"{key} was set before piece {at + 1} of what you and the server said about it")
        cache.proxy.at = -1
        cache.happens("set first new", "first")
        cache.expect("first", "new", "a key that was asked for before has changed")


@points(2, "lost connections")
def test_lost(work: Submission) -> None:
    """Each connection of the cache is cut, one after the other; then, in the middle of a question; then the server is
    another one. Each time a key changes while nobody can tell the cache, and once more afterwards."""
    missed = "what is kept when a connection is lost, and whom does the new one tell?"
    with cached(work, ["k", "other"]) as cache:
        cache.ask("k")
        for number in range(len(cache.proxy.pairs) or 1):
            cache.conn.ask("set", "k", "old")
            cache.ask("k")
            for pair in cache.proxy.pairs[number : number + 1] or cache.proxy.pairs[-1:]:
                cache.proxy.cut(pair)
            cache.conn.ask("set", "k", "missed")
            cache.expect("k", "missed", "the connection was cut, and the key was set", missed)
            cache.happens("set k again", "k")
            cache.expect("k", "again", "after the connection was cut the key was set twice", missed)

        def cut() -> List[bytes]:
            for pair in list(cache.proxy.pairs):
                cache.proxy.cut(pair)
            return []

        cache.rest()
        cache.proxy.begin(0, cut)
        cache.expect("other", "v", "the connection was cut in the middle of the question", missed)
        cache.proxy.at = -1
        cache.ask("k")
        with Server(26, env={"IDLE_TIMEOUT_MS": "0"}) as server, server.connect() as conn:
            conn.ask("set", "k", "of the new server")
            cache.proxy.target, cache.conn = server.port, conn
            cut()
            cache.expect("k", "of the new server", "the server is another one", missed)
            cache.happens("set k again", "k")
            cache.expect("k", "again", "the server is another one, and the key was set", missed)
