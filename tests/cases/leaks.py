"""What programs give back when they end (clients from 03 on, servers from 06 on: those end by themselves). A
session in which everything happens to a server, and one for a client, are run twice: with each block and
descriptor counted (leaks.c), and in programs that are built with the address sanitizer.
"""
from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

import pytest

from harness import Conn, Err, Server, Status, fail, limit, settings, wait_until, wire
from harness.build import program, sources
from harness.codec import codec
from harness import fake
from harness.fake import FakeServer, replies
from harness.process import SANITIZER, clean_env, free_port
from harness.resp import OK
from harness.wire import DONE, frame

from . import case
from .client_errors import good_talk
from .talk import bulk, encode, numbered, preload, say, start, talk, too_much, watched

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = (
    "what malloc() or accept() has given is freed or closed once, on every way out: build with "
    "-fsanitize=address"
)

# ---- what is left ----


class Left:
    """Counts what a program leaves behind: Left().env goes to it, look() says what is wrong, or ""."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(8 * 12))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the program may run as another user
        self.env = {"LEAKS_FILE": self.file.name, **preload("leaks")}

    def look(self) -> str:
        self.file.seek(0)
        ended, fds, blocks, size, *sizes = struct.unpack("=12Q", self.file.read(8 * 12))
        if not ended:
            return "it did not end by itself"
        wrong = []
        if blocks:
            first = ", ".join(str(n) for n in sizes[:blocks])
            wrong.append(f"{blocks} blocks of memory, {size} bytes (sizes: {first}{', ...' * (blocks > 8)})")
        if fds:
            wrong.append(f"{fds} open descriptors")
        return " and ".join(wrong)


def checked_program(chapter: int, name: str, sanitizer: str = "address") -> List[str]:
    """The chapter's program, built with a sanitizer; skips where there is none."""
    folder = settings.build_dir() / "leaks"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another pytest may build beside us
        if not _finds(sanitizer, folder, compiler):
            what = {"address": "leaks", "thread": "races"}[sanitizer]
            if os.environ.get("CI"):
                fail(f"where CI is set, {compiler[0]} must build programs that find their {what} "
                     f"(-fsanitize={sanitizer})")  # fmt: skip
            pytest.skip(f"needs a compiler whose programs find their {what} (-fsanitize={sanitizer})")
        stage, own = sources(chapter), settings.build_dir() / "include"  # of make test HEADERS=
        include = own if (own / "base.h").exists() else stage.parents[1] / "common"
        one = stage / f"{name}.c"
        files = [one] if one.exists() else sorted(stage.glob("src/*.c"))
        target = folder / f"{name}-{chapter:02}-{sanitizer}"
        newest = max(path.stat().st_mtime for path in [*files, *stage.glob("src/*.h"), *include.glob("*.h")])
        if not target.exists() or target.stat().st_mtime < newest:
            _compile(compiler, files, target, include, sanitizer)
    return [str(target)]


def _compile(compiler: Sequence[str], files: Sequence[Path], target: Path, include: Path, sanitizer: str) -> None:
    words = [
        *compiler, "-std=gnu11", "-g", f"-fsanitize={sanitizer}", f"-I{include}", *map(str, files), "-o", str(target),
        "-pthread",
    ]  # fmt: skip
    built = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode:
        fail(f"{files[0]} does not build with -fsanitize={sanitizer}:\n{built.stdout}")


LEAK = "#include <stdlib.h>\nint main(void) { *(void *volatile *)malloc(8) = 0; return 0; }\n"
RACE = """#include <pthread.h>
static volatile int n;
static void *f(void *arg) { n++; return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); n++; return pthread_join(t, 0); }
"""
FINDS = {"address": (LEAK, "LeakSanitizer: detected memory leaks"), "thread": (RACE, "ThreadSanitizer: data race")}


def _finds(sanitizer: str, folder: Path, compiler: Sequence[str]) -> bool:
    """Can this compiler build a program with the sanitizer, and does it see a fault here? Asked once a folder."""
    answer = folder / f"finds-{sanitizer}"
    if not answer.exists():
        text, report = FINDS[sanitizer]
        source = folder / f"{sanitizer}.c"
        source.write_text(text)
        finds = False
        with suppress(AssertionError):
            _compile(compiler, [source], folder / sanitizer, folder, sanitizer)
            ran = subprocess.run([str(folder / sanitizer)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            finds = report in ran.stdout
        answer.write_text("yes" if finds else "no")
    return answer.read_text() == "yes"


# ---- what happens to a server ----


def everything(server: Server, stack: ExitStack) -> None:
    """Every way in which a connection, a key or a message may end; what stays, stays until the server ends."""
    chapter = server.chapter
    conn = stack.enter_context(server.connect())
    say(conn)
    if codec(chapter).has_options:
        _asked_by_tools(server, conn)
    _connections(server, stack)
    if codec(chapter).has_commands:
        _strings(conn)
    if codec(chapter).has_values:
        _large(conn)
    if codec(chapter).has_sorted_sets:
        _sets(conn)
    if codec(chapter).has_ttl:
        _deadlines(conn)
    if codec(chapter).has_workers:
        _for_the_pool(server, conn)
    if codec(chapter).has_keyspace:
        _databases(server, conn)
    if chapter >= wire.TRANSACTIONS_FROM:
        _transactions(server, stack)
    if chapter >= wire.MESSAGES_FROM:
        _listeners(server, stack)
    say(conn)


def _connections(server: Server, stack: ExitStack) -> None:
    chapter = server.chapter
    good = encode(chapter, talk(chapter, 3, "c")[0])
    bad = [wire.u32(wire.max_msg(chapter) + 1) + b"xyz", codec(chapter).bad]
    if codec(chapter).has_commands:
        bad += list(codec(chapter).malformed().values())
    before = server.fd_count()
    for data in [b"", good[:2], good[:4], good[:-1], good, good + b"\1", *bad, *(good + wrong for wrong in bad[:2])]:
        for how in ("close", "reset", "half"):
            with server.connect() as conn:
                conn.send_some(data)
                if how == "reset":
                    conn.reset()
                elif how == "half":
                    with suppress(OSError):
                        conn.shutdown_write()
                    conn.read_to_end()
    for how in ("close", "reset"):  # with replies unread
        conn = server.connect(rcvbuf=4096)
        conn.send_some(encode(chapter, too_much(chapter)[0][:20]), 0.02)
        conn.reset() if how == "reset" else conn.close()
    wait_until(lambda: server.fd_count() == before, "the connections that have gone are closed")
    for data in [b"", good[:2], good[:-1], *bad[:3]]:  # these stay
        stack.enter_context(server.connect()).send_some(data)
    stack.enter_context(server.connect(rcvbuf=4096)).send_some(encode(chapter, too_much(chapter)[0][:20]), 0.02)


def _strings(conn: Conn) -> None:
    chapter = conn.chapter
    conn.ask("set", "k", "v", expect=DONE)
    for value in ("", "x" * 3000, "y"):
        conn.ask("set", "k", value, expect=DONE)
        conn.ask("get", "k", expect=Status(0, value.encode()))
    for words in (["del", "k"], ["del", "k"], ["get", "none"], ["nonsense"], ["get"], ["set", "k"], ["del", "k", "k"]):
        conn.ask(*words)
    bulk(conn, numbered(range(3000), "set", "key:######", "value"), DONE)  # the table grows
    bulk(conn, numbered(range(0, 3000, 2), "del", "key:######"), 1 if codec(chapter).has_values else Status(0, b""))


def _large(conn: Conn) -> None:
    conn.ask("set", "large", b"x" * (4 << 20), expect=None)
    conn.ask("get", "large", expect=b"x" * (4 << 20))
    conn.ask("set", "large", b"small", expect=None)
    if conn.codec.has_tree:
        return  # the code is the same from there on
    names = [b"%02d" % i + b"n" * (1 << 20) for i in range(33)]
    for name in names:
        conn.ask("set", name, "", expect=None)
    conn.ask("keys", expect=Err(2))
    for name in names:
        conn.ask("del", name, expect=1)


def _sets(conn: Conn) -> None:
    bulk(conn, numbered(range(300), "zadd", "z", "1.5", "name:######"), 1)
    conn.ask("zadd", "z", "2", "name:000000", expect=0)
    conn.ask("zadd", "z", "2", "name:000000", expect=0)
    conn.ask("zscore", "z", "name:000000", expect=2.0)
    conn.ask("zquery", "z", "1", "", "0", "10")
    bulk(conn, numbered(range(0, 300, 3), "zrem", "z", "name:######"), 1)
    for words in (
        ["zrem", "z", "none"], ["zrem", "none", "a"], ["zscore", "none", "a"], ["zscore", "z", "none"],
        ["zadd", "z", "nan", "a"],
        ["zadd", "new", "x", "a"], ["zadd", "z", "1." + "0" * 100, "a"], ["zadd", "z", "1" * 100 + "x", "a"],
        ["zadd", "large", "1", "a"], ["zadd", "z", "1"], ["zquery", "z", "0", "", "x", "1"], ["get", "z"],
    ):  # fmt: skip
        conn.ask(*words)
    conn.ask("zadd", "short", "1", "only", expect=1)
    conn.ask("zrem", "short", "only", expect=1)  # and the key with it
    for name in ("gone", "replaced", "stays"):
        bulk(conn, numbered(range(50), "zadd", name, "1", "name:######"), 1)
    conn.ask("del", "gone", expect=1)
    conn.ask("set", "replaced", "by a string")


def _deadlines(conn: Conn) -> None:
    bulk(conn, numbered(range(500), "set", "t:######", ""), None)
    bulk(conn, numbered(range(500), "pexpire", "t:######", "600000"), 1)
    bulk(conn, numbered(range(0, 100), "del", "t:######"), 1)
    bulk(conn, numbered(range(100, 200), "persist", "t:######"), 1)
    bulk(conn, numbered(range(200, 300), "set", "t:######", "x"), None)
    bulk(conn, numbered(range(300, 400), "pexpire", "t:######", "0"), 1)
    bulk(conn, numbered(range(400, 450), "pexpire", "t:######", "1"), 1)
    conn.ask("zadd", "soon", "1", "a", expect=1)
    conn.ask("pexpire", "soon", "1", expect=1)
    conn.ask("zadd", "later", "1", "a", expect=1)
    conn.ask("expire", "later", "600", expect=1)
    for words in (["expire", "none", "1"], ["pexpire", "later", "x"], ["ttl", "none"], ["persist", "none"]):
        conn.ask(*words)
    wait_until(lambda: conn.ask("pttl", "soon") == -2 and conn.ask("pttl", "t:000449") == -2, "keys expire")


def _for_the_pool(server: Server, conn: Conn) -> None:
    """Sets that the loop does not free itself: deleted, replaced, expired; of two that stay one goes with the end. And
    strings: were they all left, the end would not wait for them."""
    for name in ("big1", "big2", "big3", "big4", "big5"):
        bulk(conn, numbered(range(10_001), "zadd", name, "1", "n######"), 1)
    conn.ask("pexpire", "big2", "1", expect=1)
    wait_until(lambda: conn.ask("pttl", "big2") == -2, "the large set expires")
    conn.ask("set", "big3", "x")
    conn.ask("del", "big1", expect=1)
    for _ in range(4):
        conn.ask("set", "string", b"x" * (31 << 20))
        conn.ask("del", "string", expect=1)
    wait_until(server.workers_sleep, "the workers have freed what was deleted")


def _asked_by_tools(server: Server, conn: Conn) -> None:
    """Names, and texts about the server and its clients; a flush that workers carry out, of keys with a TTL, too."""
    with server.connect() as named:
        for name in ("first", "second-and-longer", "third"):
            named.ask("client", "setname", name, expect=OK)
        for line in ("info", "info stats", "client list", "client info", "config get *", "command docs get", "keys t*"):
            named.ask(*line.split())
    bulk(conn, numbered(range(3000), "set", "t:######", "value", "ex", "600"), OK)
    conn.ask("flushall", expect=OK)
    bulk(conn, numbered(range(10), "set", "t:######", "value", "ex", "600"), OK)
    conn.ask("flushall", "sync", expect=OK)
    wait_until(server.workers_sleep, "the workers have freed what was flushed")


def _databases(server: Server, conn: Conn) -> None:
    """Keys with a deadline and without that go to another name or database, are copied, flushed, expire; some stay."""
    for db in range(1, 16):
        conn.ask("select", db, expect=OK)
        bulk(conn, numbered(range(100), "set", "t:######", "value", "ex", "600"), OK)
        for line in (
            "zadd z 1 a 2 b", "expire z 600", "rename z y", "copy y z", "copy t:000001 z replace", "rename t:000002 y",
            "copy y z db 0 replace", "renamenx y t:000003", "getdel t:000004", "getset t:000005 longer-than-before",
            "getex t:000006 pxat 1", "getex t:000007 persist", "setex t:000008 500 v", "set t:000009 v keepttl",
            "append t:000010 longer-than-before", "ttl t:000010", "pexpire t:000011 1", "zadd new 1 a",
            "expire new 600", "move new 0", "move t:000012 0", "swapdb 1 15", "zadd t:000013 1 a",
            "set t:000014 v pxat 1", "set t:000014 v pxat 1 nx",
            "expire t:000015 -1", "persist t:000016", "rename t:000017 a-much-longer-name-than-it-had-before",
        ):  # fmt: skip
            conn.ask(*line.split())
        wait_until(lambda: conn.ask("exists", "t:000011") == 0, "a key expires")
        conn.ask("set", "gone", "v", "pxat", "1", expect=OK)
        conn.pipeline([*[["randomkey"], ["scan", "0", "count", "1000"]] * conn.codec.has_scan, ["keys", "t*"]])
        if db % 3 == 0:
            bulk(conn, numbered(range(2000 * (db % 2)), "set", "t:######", "v", "ex", "600"), OK)
            conn.ask("flushdb", expect=OK)
    conn.ask("select", "0", expect=OK)
    wait_until(server.workers_sleep, "the workers have freed what was flushed")  # else the end leaves it to the kernel


def _transactions(server: Server, stack: ExitStack) -> None:
    """Done, given up, refused, watched in vain; one ends with its connection, and one with the server."""
    conn, stays = server.connect(), stack.enter_context(server.connect())
    with conn:
        for lines in (
            "multi, set t v, get t, zadd tz 1 a 2 b, copy tz tz2, zrange tz 0 -1, exec", "multi, set t w, discard",
            "multi, set t w, nosuch, set t x, exec", "watch t tz none, multi, incr n, exec", "watch t none, unwatch",
            "watch t tz, set t y, multi, set t z, exec", "multi, exec", "multi, set t w, exec x",
            "multi, set t w, reset", "watch once, set once v, multi, exec",
        ):  # fmt: skip
            for line in lines.split(", "):
                conn.ask(*line.split())
        conn.ask("watch", "t", "tz", expect=OK)
        for each in (conn, stays):
            each.ask("multi", expect=OK)
            each.ask("set", "t", "v" * 1000)


def _listeners(server: Server, stack: ExitStack) -> None:
    """They listen, and listen no more; one leaves, one has messages that it does not read."""
    talks, ear, stays = (stack.enter_context(server.connect()) for _ in range(3))
    with server.connect() as leaves:
        for conn in (ear, stays, leaves):
            for line in ("subscribe x", "psubscribe x*", "subscribe y", "unsubscribe y", "psubscribe y*"):
                conn.ask(*line.split())
        for conn, words in ((ear, "punsubscribe y*"), (ear, "unsubscribe x"), (stays, "unsubscribe none")):
            conn.ask(*words.split())
        talks.ask("publish", "x", "hi" * 1000, expect=5)
    wait_until(lambda: talks.ask("pubsub", "numsub", "x") == [b"x", 1], "the one that has left listens no more")
    bulk(talks, numbered(range(100), "publish", "x", "######"), 3)


Watch = Callable[[], "Optional[Left]"]


def _ends(server: Server, left: "Optional[Left]", what: str) -> None:
    """Fails unless the server ends with status 0 on SIGTERM and has given back what it took."""
    status = server.stop(signal.SIGTERM)
    if status != 0:
        fail(f"{what} must end with status 0 on SIGTERM, not {status}:\n" + "\n".join(server.log[-40:]))
    wrong = left.look() if left else ""
    if wrong:
        fail(f"{what} has ended and not given back {wrong}")


def _server_sessions(chapter: int, command: Optional[List[str]], watch: Watch) -> None:
    left = watch()
    with start(chapter, command=command, env=left.env if left else {}) as server, ExitStack() as stack:
        everything(server, stack)
        if codec(chapter).has_workers:  # the signal comes while this is still queued
            stack.enter_context(server.connect()).ask("del", "big4", expect=1)
        _ends(server, left, "a server to which everything has happened")
    left = watch()
    with start(chapter, command=command, env=left.env if left else {}, nofile=20) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(30)]
        say(conns[0])
        _ends(server, left, "a server that is out of descriptors")
    if codec(chapter).has_hashtable:
        left = watch()
        with start(chapter, command=command, env=left.env if left else {}) as server, server.connect() as conn:
            n = 4096 + 8  # tables grow where there are eight times as many keys as buckets: this one has just begun to
            bulk(conn, numbered(range(n), "set", "key:######", ""), DONE)
            if codec(chapter).has_sorted_sets:
                bulk(conn, numbered(range(n - 2), "zadd", "z", "1", "name:######"), 1)
                conn.ask("del", "z", expect=1)
                conn.ask("set", "another", "", expect=None)
            _ends(server, left, "a server whose table is growing")
    if codec(chapter).has_idle_timeout:
        left = watch()
        env = {**(left.env if left else {}), "IDLE_TIMEOUT_MS": "40"}
        with start(chapter, command=command, env=env) as server, ExitStack() as stack:
            before = server.fd_count()
            late = stack.enter_context(server.connect(rcvbuf=4096))
            late.send_some(encode(chapter, too_much(chapter)[0][:20]), 0.02)
            conns = [stack.enter_context(server.connect()) for _ in range(4)]
            for conn, data in zip(conns, (b"", codec(chapter).half[:1], codec(chapter).half, codec(chapter).bad)):
                conn.send_some(data)
            for conn in conns:
                conn.read_to_end()
            wait_until(lambda: server.fd_count() == before, "connections on which nothing moves are closed")
            _ends(server, left, "a server that has closed idle connections")


@case(since=6, inside=True, time_limit=40)
def servers_give_everything_back(chapter: int) -> None:
    """When one ends by SIGTERM, no block and no descriptor is left, whether a pointer still leads there or not."""
    if not watched():  # a sanitizer has an allocator of its own
        _server_sessions(chapter, None, Left)


@case(since=6, inside=True, time_limit=60)
def servers_with_a_sanitizer(chapter: int) -> None:
    """The same, for what no count sees: memory that is used after it was freed, or behind its end."""
    if not watched():  # they all have one then
        _server_sessions(chapter, checked_program(chapter, "server"), lambda: None)


# ---- what happens to a client ----


def _client_runs(chapter: int) -> "List[Tuple[str, List[str], bytes, Callable[[socket.socket], None], int]]":
    """What, arguments, standard input, the server's part, the exit status."""
    good = good_talk(chapter)

    def says(*raw: bytes) -> Callable[[socket.socket], None]:
        return fake.replies(*raw, chapter=chapter)

    def serve(sock: socket.socket) -> None:
        if codec(chapter).is_hello:
            sock.recv(64)
            sock.sendall(b"world")
        elif codec(chapter).is_echo:
            while sock.send(sock.recv(64)):
                pass
        else:
            first = good.replies[0][len(codec(chapter).welcome) :]  # the greeting is answered before
            fake.replies(first, *good.replies[1:], chapter=chapter)(sock)

    runs = [("a good talk", list(good.args), good.stdin, serve, 0)]
    if codec(chapter).has_commands and not codec(chapter).has_values:
        return runs + [("a reply as long as may be", ["get", "k"], b"", says(frame(wire.u32(0) + b"x" * 4092)), 0)]
    if not codec(chapter).has_values:
        return runs
    language = codec(chapter)
    nil, deep = language.to_client(None), frame((b"\4" + wire.u32(1)) * 900 + b"\0")
    if codec(chapter).is_resp:
        deep = b"*1\r\n" * 900 + nil

    long, too_long = (b"set k " + b"x" * n + b"\nget k\n" for n in (3_000_000, 33 << 20))

    return runs + [
        ("one command", ["set", "k", "v" * 100_000], b"", says(language.to_client(b"y" * 300_000)), 0),
        ("an array", ["keys"], b"", says(deep), 0),
        ("too many arguments", ["x"] * 1025, b"", says(nil), int(not codec(chapter).is_resp)),
        ("many lines", [], b"get k\n" * 50, says(*[nil] * 50), 0),
        ("long lines and replies", [], long, says(nil, language.to_client(b"y" * 3_000_000)), 0),
        ("lines that cannot be sent", [], b'set k "\nget \0\n' + b"x " * 1025 + b"\nget k", says(nil, nil, nil), 1),
        ("no line", [], b"", says(), 0),
    ] + [("a line that is too long", [], too_long, says(nil), 1)] * (not codec(chapter).has_tree)


def _client_sessions(chapter: int, command: List[str], watch: Watch) -> None:
    for what, args, stdin, handler, status in _client_runs(chapter):
        left = watch()
        with FakeServer(handler) as server:
            done = subprocess.run(
                [*command, *args], input=stdin, env=clean_env({"PORT": str(server.port), **(left.env if left else {})}),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit(10),
            )  # fmt: skip
        errors = done.stderr.decode(errors="backslashreplace")
        if done.returncode != status or any(SANITIZER.search(line) for line in errors.splitlines()):
            fail(f"{what}: the client must end with status {status}, not {done.returncode}:\n{errors[-4000:]}")
        wrong = left.look() if left else ""
        if wrong:
            fail(f"{what}: the client has ended and not given back {wrong}")


@case(since=3, inside=True)
def clients_give_everything_back(chapter: int) -> None:
    """When one ends, no block and no descriptor is left; also where nobody listens."""
    if watched():
        return
    _client_sessions(chapter, program(chapter, "client"), Left)
    if not codec(chapter).is_hello:  # 03 opens its socket itself
        left = Left()
        words = ["get", "k"] if codec(chapter).has_commands else []
        done = subprocess.run(
            [*program(chapter, "client"), *words], env=clean_env({"PORT": str(free_port()), **left.env}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit(10),
        )  # fmt: skip
        wrong = left.look()
        if done.returncode != 1 or "descriptor" in wrong:
            fail(
                f"nobody listens: the client ends with status {done.returncode} and has not given back {wrong}",
                "is the socket closed where connect() fails? Whoever tries again has lost one each time.",
                "status 1, and no descriptor is left",
            )


@case(since=3, inside=True, time_limit=60)
def clients_with_a_sanitizer(chapter: int) -> None:
    """The same, for what no count sees; and with replies that are wrong."""
    if watched():
        return
    command = checked_program(chapter, "client")
    _client_sessions(chapter, command, lambda: None)
    if not codec(chapter).has_values:
        return
    bad = [data for data in codec(chapter).malformed_replies().values() if len(data) > 4][:12]
    for data in bad:
        with FakeServer(replies(data, chapter=chapter)) as server:
            done = subprocess.run(
                [*command, "get", "k"], env=clean_env({"PORT": str(server.port)}), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit(10),
            )  # fmt: skip
        if done.returncode != 1 or len(done.stderr.splitlines()) != 1:
            fail(
                f"a malformed reply, {data[:40].hex(' ')}: the client ends "
                f"with {done.returncode}:\n{done.stderr.decode()[-4000:]}"
            )
