"""Programs and libraries that are made for Redis (20 and later), each where it is installed; elsewhere a line says that
it was left out. They hold for Redis as well: make test-21 SERVER=redis-server.
"""
from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import socket
import struct
import subprocess
import tempfile
import termios
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

import pytest

from harness import Conn, Server, fail, limit, redis, resp, settings
from harness.codec import codec
from harness.process import free_port
from harness.settings import ROOT, needs, wait_until

from . import case
from .talk import start

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = "start the server yourself and give the same line to this program; MONITOR of a Redis shows what it sends"

HERE = Path(__file__).parent


def run(words: Sequence[str], stdin: bytes = b"", seconds: float = 15, **env: str) -> str:
    """What a program prints, both streams; fails where it does not end in time, or not well."""
    try:
        done = subprocess.run(
            words, input=stdin, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=limit(seconds),
        )  # fmt: skip
    except subprocess.TimeoutExpired as e:
        fail(f"{shlex.join(words)[:200]} does not end within {limit(seconds):g} s; so far {(e.stdout or b'')[-500:]!r}")
    text = done.stdout.decode(errors="backslashreplace")
    if done.returncode:
        fail(f"{shlex.join(words)[:200]} ends with status {done.returncode}:\n{text[-2000:]}")
    return text


def transactions(chapter: int) -> str:
    """Whether the server has them, as the programs are told."""
    return str(int(codec(chapter).has_transactions or redis.is_tested()))


def left_out(what: str) -> None:
    """For what is no program in the PATH."""
    if os.environ.get("CI"):
        fail(f"{what} must be installed where CI is set")
    pytest.skip(f"needs {what}")


def cli(server: Server, *words: str, stdin: bytes = b"") -> str:
    """What redis-cli prints, as on a terminal."""
    return run(["redis-cli", "-p", str(server.port), "--no-raw", *words], stdin)


# ---- redis-cli ----


@case(since=20)
def redis_cli_with_a_few_arguments(chapter: int) -> None:
    """A command, and what it makes of the kinds of replies that all stages have, in either version."""
    needs("redis-cli")
    with start(chapter) as server:
        for version in ("-2", "-3"):
            for words, printed in (
                (["ping"], "PONG"), (["set", "k", "two words"], "OK"), (["get", "k"], '"two words"'),
                (["get", "none"], "(nil)"), (["keys", "*"], '1) "k"'), (["ttl", "k"], "(integer) -1"),
                (["get"], "(error) ERR wrong number of arguments for 'get' command"),
                (["zadd", "z", "1.5", "a"], "(integer) 1"),
                (["zscore", "z", "a"], '"1.5"' if version == "-2" else "(double) 1.5"),
                (["del", "z"], "(integer) 1"), (["del", "k"], "(integer) 1"),
            ):  # fmt: skip
                shown = cli(server, version, *words)
                if shown.rstrip("\n") != printed:
                    fail(f"redis-cli {version} {shlex.join(words)} prints\n{shown}\nnot\n{printed}")
        assert run(["redis-cli", "-p", str(server.port), "-x", "set", "k"], b"a\0\xff\n") == "OK\n"
        assert cli(server, "get", "k") == '"a\\x00\\xff\\n"\n'


@case(since=21)
def redis_cli_with_arguments(chapter: int) -> None:
    """A command, and what it makes of each kind of reply, in either version."""
    needs("redis-cli")
    with start(chapter) as server:
        for version in ("-2", "-3"):
            for words, printed in (
                (["ping"], "PONG"), (["set", "k", "two words"], "OK"), (["get", "k"], '"two words"'),
                (["get", "none"], "(nil)"), (["incr", "n"], "(integer) 1"), (["keys", "x*"], "(empty array)"),
                (["mget", "k", "none"], '1) "two words"\n2) (nil)'), (["incr", "k"], f"(error) {resp.NO_INT}"),
                (["get"], "(error) ERR wrong number of arguments for 'get' command"),
                (["zadd", "z", "1.5", "a", "2", "b"], "(integer) 2"), (["zrange", "z", "0", "-1"], '1) "a"\n2) "b"'),
                (["zscore", "z", "a"], '"1.5"' if version == "-2" else "(double) 1.5"),
                (["config", "get", "appendonly"], ['1) "appendonly"\n2) "no"', '1# "appendonly" => "no"']),
                (["flushall"], "OK"),
            ):  # fmt: skip
                shown = cli(server, version, *words)
                if shown.rstrip("\n") not in ([printed] if isinstance(printed, str) else printed):
                    fail(f"redis-cli {version} {shlex.join(words)} prints\n{shown}\nnot\n{printed}")
        assert cli(server, "-r", "3", "incr", "n") == "(integer) 1\n(integer) 2\n(integer) 3\n"
        assert run(["redis-cli", "-p", str(server.port), "get", "n"]) == "3\n"
        assert run(["redis-cli", "-p", str(server.port), "-x", "set", "k"], b"a\0\xff\n") == "OK\n"
        assert cli(server, "get", "k") == '"a\\x00\\xff\\n"\n'
        assert "# Keyspace" in run(["redis-cli", "-p", str(server.port), "info"])


@case(since=21)
def redis_cli_reads_commands(chapter: int) -> None:
    """Lines of standard input."""
    needs("redis-cli")
    lines = b'set k "a b"\nget k\nnosuch x\n\nzadd z 1 a\nzrange z 0 -1 withscores\ndel k z\n'
    with start(chapter) as server:
        shown = cli(server, stdin=lines)
    unknown = resp.unknown([b"nosuch", b"x"])
    expect = f'OK\n"a b"\n(error) {unknown}\n\n(integer) 1\n1) "a"\n2) "1"\n(integer) 2\n'
    if [line for line in shown.split("\n") if line] != [line for line in expect.split("\n") if line]:
        fail(f"redis-cli with commands on standard input prints\n{shown}\nnot\n{expect}")


@case(since=25)
def redis_cli_and_transactions(chapter: int) -> None:
    """Lines of standard input, and an array in an array."""
    needs("redis-cli")
    with start(chapter) as server:
        shown = cli(server, stdin=b"multi\nset k v\nmget k none\nnosuch\nexec\nmulti\nset k v\nmget k none\nexec\n")
        lines = [line.strip() for line in shown.split("\n") if line.strip()]
        unknown = resp.unknown([b"nosuch"]).strip()
        if lines != ["OK", "QUEUED", "QUEUED", f"(error) {unknown}",
                     "(error) EXECABORT Transaction discarded because of previous errors.", "OK", "QUEUED", "QUEUED",
                     "1) OK", '2) 1) "v"', "2) (nil)"]:  # fmt: skip
            fail(f"redis-cli with a transaction on standard input prints\n{shown}")


@case(since=26)
def redis_cli_listens(chapter: int) -> None:
    """Messages as they come, in either version, to a file and to a terminal, until it is interrupted."""
    needs("redis-cli")
    with start(chapter) as server, server.connect() as conn:
        for version in ("-2", "-3"):
            for command, name, head, count in (
                ("subscribe", "news", '1) "message"\n2) "news"\n3) ', ["pubsub", "numsub", "other"]),
                ("psubscribe", "n*", '1) "pmessage"\n2) "n*"\n3) "news"\n4) ', ["pubsub", "numpat"]),
            ):  # fmt: skip
                shown = f'1) "{command}"\n2) "{name}"\n3) (integer) 1\n1) "{command}"\n2) "other"\n3) (integer) 2\n'
                shown += f'{head}"hi"\n{head}"two\\r\\nlines"\n'
                words = ["redis-cli", "-p", str(server.port), version, "--no-raw", command, name, "other"]
                with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
                    try:
                        wait_until(lambda: conn.ask(*count) in (2, [b"other", 1]), "redis-cli listens")
                        conn.ask("publish", "news", "hi", expect=1)
                        conn.ask("publish", "news", "two\r\nlines", expect=1)
                        printed = printed_by(process, shown.count("\n") + 1)
                    finally:
                        process.kill()
                if re.sub("(?m)^Reading messages.*\n", "", printed) != shown:
                    fail(f"{shlex.join(words)} prints\n{printed}\nnot\n{shown}")
                wait_until(lambda: conn.ask("publish", "news", "late") == 0, "redis-cli has gone")
        with on_a_terminal(server) as (_, terminal):
            _shows(terminal, f"127.0.0.1:{server.port}> ")
            os.write(terminal, b"subscribe news\r")
            _shows(terminal, "3) (integer) 1")
            conn.ask("publish", "news", "on a terminal", expect=1)
            _shows(terminal, '3) "on a terminal"')
            os.write(terminal, b"\3")
            wait_until(lambda: conn.ask("publish", "news", "late") == 0, "redis-cli listens no more after Ctrl-C")


def printed_by(process: "subprocess.Popen[bytes]", lines: int) -> str:
    """What a program prints, up to so many lines."""
    assert process.stdout
    printed, end = b"", time.monotonic() + limit(5)
    while printed.count(b"\n") < lines:
        if not select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0]:
            break
        some = os.read(process.stdout.fileno(), 4096)
        if not some:
            break
        printed += some
    return printed.decode(errors="backslashreplace")


@case(since=21, time_limit=120)
def redis_cli_pipe(chapter: int) -> None:
    """Mass insertion, and every reply is counted: a million commands where CI is set."""
    needs("redis-cli")
    n = 1_000_000 if os.environ.get("CI") else 50_000
    with start(chapter) as server:
        head = b"*3\r\n$3\r\nSET\r\n$11\r\nkey:"
        data = b"".join([head + b"%07d\r\n$1\r\nv\r\n" % i for i in range(n)])
        shown = run(["redis-cli", "-p", str(server.port), "--pipe"], data, 100)
        if f"errors: 0, replies: {n}" not in shown:
            fail(f"redis-cli --pipe with {n} commands prints\n{shown}")
        with server.connect() as conn:
            conn.ask("dbsize", expect=n)


@case(since=21)
def redis_cli_on_a_terminal(chapter: int) -> None:
    """It asks for the docs of all commands, shows its prompt, and hints at arguments; Ctrl-D ends it."""
    with start(chapter) as server, on_a_terminal(server) as (pid, terminal):
        prompt = f"127.0.0.1:{server.port}> "
        _shows(terminal, prompt)
        for typed, shown in (("set k v", "OK"), ("get k", '"v"'), ("incr k", resp.NO_INT), ("zcard none",
        "(integer) 0")):
            os.write(terminal, typed.encode() + b"\r")
            _shows(terminal, f"{shown}\r\n{prompt}")
        os.write(terminal, b"\4")
        wait_until(lambda: _has_ended(pid), "redis-cli on a terminal ends at Ctrl-D")


@contextmanager
def on_a_terminal(server: Server, *words: str) -> Iterator[Tuple[int, int]]:
    """redis-cli on a terminal of its own: its number, and the other end of the terminal. It is killed in the end."""
    needs("redis-cli")
    with tempfile.TemporaryDirectory() as home:
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", HOME=home)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
            try:
                os.execvp("redis-cli", ["redis-cli", "-p", str(server.port), *words])
            finally:
                os._exit(127)
        try:
            yield pid, terminal
        finally:
            if not _has_ended(pid):
                os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)


def _has_ended(pid: int) -> bool:
    """Has this child of ours? It can still be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _shows(terminal: int, text: str, pattern: bool = False) -> None:
    """Waits until the terminal shows this, or what this pattern fits."""
    shown, end = b"", time.monotonic() + limit(5)
    form = re.compile((text if pattern else re.escape(text)).encode())
    while not form.search(re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", shown)):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            fail(f"redis-cli on a terminal does not show {text!r}; so far {shown[-500:]!r}")
        shown += os.read(terminal, 4096)


@case(since=21)
def redis_cli_stat(chapter: int) -> None:
    """It prints a line every so often: keys, memory, clients, blocked clients, requests, connections."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("mset", "a", "1", "b", "2", expect=resp.OK)
        with on_a_terminal(server, "--stat", "-i", "0.05") as (_, terminal):
            _shows(terminal, r"\r\n2 +\d+\.\d\d[KM] +2 +0 +\d+ \(\+1\) +2 ", pattern=True)


@case(since=23)
def redis_cli_weighs_keys(chapter: int) -> None:
    """--memkeys asks for the memory of each key."""
    needs("redis-cli")
    with start(chapter) as server, server.connect() as conn:
        asked = [("set", f"key:{i}", "x" * 10) for i in range(50)] + [("set", "large", "x" * 5000)]
        conn.pipeline(asked, [resp.OK] * len(asked))
        conn.ask("zadd", "board", 1, "ann", 2, "bob", expect=2)
        shown = run(["redis-cli", "-p", str(server.port), "--memkeys"])
        sizes = {name: conn.ask("memory", "usage", name) for name in ("large", "board")}
        for found in (f"""string found '"large"' has {sizes["large"]} bytes""",
                      f"""zset found '"board"' has {sizes["board"]} bytes"""):  # fmt: skip
            if found not in shown or "arning" in shown:
                fail(f"redis-cli --memkeys does not print {found}, or warns:\n{shown}")


@case(since=23)
def redis_cli_walks(chapter: int) -> None:
    """-n chooses a database, --scan walks through it, with a pattern and a type; --bigkeys looks at every key."""
    needs("redis-cli")
    with start(chapter) as server, server.connect() as conn:
        conn.ask("select", "5", expect=resp.OK)
        conn.pipeline([["set", f"key:{i}", "x" * i] for i in range(300)], [resp.OK] * 300)
        conn.ask("zadd", "board", 1, "ann", 2, "bob", expect=2)
        conn.ask("set", "brief", "v", "px", "1", expect=resp.OK)
        wait_until(lambda: conn.ask("exists", "brief") == 0, "a key expires")
        plain = ["redis-cli", "-p", str(server.port), "-n", "5"]
        for words, printed in (
            (["get", "key:3"], ["xxx"]), (["--scan"], ["board", *(f"key:{i}" for i in range(300))]),
            (["--scan", "--pattern", "*9"], [f"key:{i}" for i in range(9, 300, 10)]), (["-n", "4", "--scan"], []),
            (["dbsize"], ["301"]), (["-n", "4", "get", "key:3"], [""]), (["move", "key:7", "4"], ["1"]),
        ):  # fmt: skip
            shown = run([*plain, *words])
            if sorted(shown.split("\n")) != sorted([*printed, ""]):
                fail(f"redis-cli -n 5 {shlex.join(words)} prints\n{shown[:500]}\nnot\n{printed[:50]}")
        shown = run([*plain, "--bigkeys"])
        for found in ("""Biggest string found '"key:299"' has 299 bytes""", """zset found '"board"' has 2 members"""):
            if found not in shown:
                fail(f"redis-cli -n 5 --bigkeys does not print {found}:\n{shown}")


# ---- redis-benchmark ----


@case(since=21, time_limit=60)
def redis_benchmark(chapter: int) -> None:
    """Its tests for the commands that we have, one request at a time and in pipelines; it checks no reply, but errors
    are counted here."""
    needs("redis-benchmark")
    with start(chapter) as server, server.connect() as conn:
        for more in ("", "-P 16", "-P 16 -r 1000", "--threads 2", "-k 0 -n 500"):
            words = f"redis-benchmark -p {server.port} -n 4000 -c 20 -t ping,set,get,incr,mset,zadd --csv {more}"
            rows = run(words.split(), seconds=40).strip().split("\n")
            fields = [row.split('"') for row in rows if row.startswith('"') and "rps" not in row]
            tests = {field[1]: float(field[3]) for field in fields}
            names = {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "ZADD", "MSET (10 keys)"}
            if set(tests) != names or min(tests.values()) <= 0:
                fail(f"{words} prints\n" + "\n".join(rows))
        stats = conn.ask("info", "stats")
        assert isinstance(stats, bytes)
        errors = re.search(rb"total_error_replies:(\d+)", stats)
        assert not errors or int(errors[1]) == 0, stats
        conn.ask("type", "counter:__rand_int__", expect=resp.Simple(b"string"))


# ---- libraries ----


@case(since=21)
def redis_py(chapter: int) -> None:
    """real/redis_py.py: strings, sorted sets, deadlines, errors, pipelines, what a server says of itself, threads."""
    ask_through_redis_py(chapter, "redis_py.py")


@case(since=22)
def redis_py_and_keys(chapter: int) -> None:
    """real/redis_py_keys.py: databases, times to live, other names, scan_iter, counters."""
    ask_through_redis_py(chapter, "redis_py_keys.py")


@case(since=26)
def redis_py_and_messages(chapter: int) -> None:
    """real/redis_py_pubsub.py: get_message, handlers, listen, run_in_thread, messages of keys."""
    ask_through_redis_py(chapter, "redis_py_pubsub.py")


def ask_through_redis_py(chapter: int, script: str) -> None:
    found = subprocess.run(["sh", str(ROOT / "tests/tools/findpython.sh"), "redis"], stdout=subprocess.PIPE, text=True,
                           stderr=subprocess.DEVNULL)  # fmt: skip
    if found.returncode:
        left_out("python3-redis")
    with start(chapter) as server:
        words = [found.stdout.strip(), str(HERE / "real" / script)]
        run(words, PORT=str(server.port), TRANSACTIONS=transactions(chapter))


@case(since=21)
def phpredis(chapter: int) -> None:
    """real/phpredis.php: strings, sorted sets, deadlines, errors, pipelines, transactions or what `multi` gets."""
    needs("php")
    if subprocess.run(["php", "-r", "exit(extension_loaded('redis') ? 0 : 1);"]).returncode:
        left_out("php-redis")
    with start(chapter) as server:
        run(["php", str(HERE / "real/phpredis.php")], PORT=str(server.port), TRANSACTIONS=transactions(chapter))


@case(since=21)
def node_redis(chapter: int) -> None:
    """real/node_redis.js: strings, sorted sets, deadlines, what `client info` says, transactions or what it gets for
    `multi`."""
    ask_through_node_redis(chapter, "node_redis.js")


@case(since=26)
def node_redis_and_messages(chapter: int) -> None:
    """real/node_redis_pubsub.js: duplicate, subscribe with one or several listeners, pSubscribe, messages of any bytes,
    thousands of them, and the end of all."""
    ask_through_node_redis(chapter, "node_redis_pubsub.js")


def ask_through_node_redis(chapter: int, script: str) -> None:
    """The module is looked for where NODE_PATH says, else where Debian has it."""
    needs("node")
    path = os.environ.get("NODE_PATH", "/usr/share/nodejs")
    found = subprocess.run(
        ["node", "-e", "require('redis')"], env={**os.environ, "NODE_PATH": path}, stderr=subprocess.DEVNULL
    )
    if found.returncode:
        left_out("node-redis")
    with start(chapter) as server:
        run(["node", str(HERE / "real" / script)], NODE_PATH=path, PORT=str(server.port),
            TRANSACTIONS=transactions(chapter))  # fmt: skip


@case(since=21)
def hiredis(chapter: int) -> None:
    """real_hiredis.c, built here: bytes of any value, errors, arrays, pipelines, a large value, version 3, QUIT."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        built = subprocess.run(
            [*compiler, "-std=gnu11", "-Wall", str(HERE / "real_hiredis.c"), "-o", f"{folder}/real", "-lhiredis"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if built.returncode and re.search("hiredis.h: No such file|cannot find -lhiredis", built.stdout):
            left_out("libhiredis-dev")
        if built.returncode:
            fail(f"real_hiredis.c does not compile:\n{built.stdout}")
        with start(chapter) as server:
            run([f"{folder}/real"], PORT=str(server.port))


# ---- a proxy ----

NUTCRACKER = """\
ours:
  listen: 127.0.0.1:{}
  hash: md5
  distribution: ketama
  auto_eject_hosts: false
  redis: true
  servers:
   - 127.0.0.1:{}:1
   - 127.0.0.1:{}:1
"""


@case(since=21)
def two_servers_behind_nutcracker(chapter: int) -> None:
    """It spreads keys over both, takes commands with many keys apart, and puts the replies together."""
    needs("nutcracker")
    n = 300
    with ExitStack() as stack:
        servers = [stack.enter_context(start(chapter)) for _ in range(2)]
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        port, stats = free_port(), free_port()
        Path(folder, "conf.yml").write_text(NUTCRACKER.format(port, *(server.port for server in servers)))
        words = ["nutcracker", "-c", f"{folder}/conf.yml", "-o", f"{folder}/log", "-s", str(stats), "-a", "127.0.0.1"]
        proxy = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(proxy.wait)
        stack.callback(proxy.kill)
        asked: List[Tuple[str, ...]] = [("set", f"key:{i}", f"value {i}") for i in range(n)]
        wait_until(lambda: _accepts(port), "nutcracker listens")
        with Conn(port, chapter) as conn:
            conn.pipeline(asked, [resp.OK] * n)
            conn.pipeline([("get", f"key:{i}") for i in range(n)], [b"value %d" % i for i in range(n)])
            keys = [f"key:{i}" for i in range(n + 5)]
            conn.ask("mget", *keys, expect=[b"value %d" % i for i in range(n)] + [None] * 5)
            conn.ask("mset", "a", "1", "b", "2", "c", "3", "d", "4", expect=resp.OK)
            conn.ask("incr", "a", expect=2)
            conn.ask("zadd", "z", 1, "one", 2, "two", expect=2)
            conn.ask("zrange", "z", 0, -1, "withscores", expect=[b"one", 1.0, b"two", 2.0])
            conn.ask("get", "z", expect=resp.error(resp.WRONG_TYPE))
            conn.ask("expire", "z", 100, expect=1)
            there = []
            for server in servers:
                with server.connect() as own:
                    size = own.ask("dbsize")
                    assert isinstance(size, int)
                    there.append(size)
            if sum(there) != n + 5 or min(there) < n // 10:
                fail(f"{n + 5} keys were set through nutcracker; the two servers have {there}")
            conn.ask("del", *keys, "a", "b", "c", "d", "z", expect=n + 5)


def _accepts(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0
