"""What a server is told when it starts (27 and later): a file in the form of redis.conf, words of the command line, the
environment; and settings of the log, which clients may change.
"""
from __future__ import annotations

import random
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from harness import Conn, Result, Server, fail, run_program, seed, settings
from harness.build import program
from harness.process import free_port
from harness.resp import OK
from harness.wire import Err

from . import case
from .append_only import ready
from .talk import start
from .transactions import QUEUED

__tracebackhide__ = settings.__tracebackhide__
OURS = "Redis says in other words what is wrong in a file, and looks for nothing in its environment"
PERHAPS = (
    "the environment goes before the file, the command line before both; what is wrong is said in one line, with the "
    "file, the number of the line and the name of the setting"
)

# Nothing of this is in the environment where it is empty.
NONE = {name: "" for name in ("PORT", "BIND", "APPENDONLY", "APPENDFSYNC", "DIR", "IDLE_TIMEOUT_MS")}

NAMES = (
    "active-expire-effort appenddirname appendfilename appendfsync appendonly bind client-output-buffer-limit "
    "databases dir notify-keyspace-events port timeout daemonize tcp-keepalive"
).split()

# Every line of the redis.conf of Redis 7.0 that is no comment.
STOCK = """\
bind 127.0.0.1 -::1
protected-mode yes
port 0
tcp-backlog 511
timeout 0
tcp-keepalive 300
daemonize no
pidfile /var/run/redis_6379.pid
loglevel notice
logfile ""
databases 16
always-show-logo no
set-proc-title yes
proc-title-template "{title} {listen-addr} {server-mode}"
stop-writes-on-bgsave-error yes
rdbcompression yes
rdbchecksum yes
dbfilename dump.rdb
rdb-del-sync-files no
dir ./
replica-serve-stale-data yes
replica-read-only yes
repl-diskless-sync yes
repl-diskless-sync-delay 5
repl-diskless-sync-max-replicas 0
repl-diskless-load disabled
repl-disable-tcp-nodelay no
replica-priority 100
acllog-max-len 128
lazyfree-lazy-eviction no
lazyfree-lazy-expire no
lazyfree-lazy-server-del no
replica-lazy-flush no
lazyfree-lazy-user-del no
lazyfree-lazy-user-flush no
oom-score-adj no
oom-score-adj-values 0 200 800
disable-thp yes
appendonly no
appendfilename "appendonly.aof"
appenddirname "appendonlydir"
appendfsync everysec
no-appendfsync-on-rewrite no
auto-aof-rewrite-percentage 100
auto-aof-rewrite-min-size 64mb
aof-load-truncated yes
aof-use-rdb-preamble yes
aof-timestamp-enabled no
slowlog-log-slower-than 10000
slowlog-max-len 128
latency-monitor-threshold 0
notify-keyspace-events ""
hash-max-listpack-entries 512
hash-max-listpack-value 64
list-max-listpack-size -2
list-compress-depth 0
set-max-intset-entries 512
zset-max-listpack-entries 128
zset-max-listpack-value 64
hll-sparse-max-bytes 3000
stream-node-max-bytes 4096
stream-node-max-entries 100
activerehashing yes
client-output-buffer-limit normal 0 0 0
client-output-buffer-limit replica 256mb 64mb 60
client-output-buffer-limit pubsub 32mb 8mb 60
hz 10
dynamic-hz yes
aof-rewrite-incremental-fsync yes
rdb-save-incremental-fsync yes
jemalloc-bg-thread yes
"""


@contextmanager
def a_file(text: str) -> Iterator[Path]:
    """A file with this text, alone in a folder."""
    with tempfile.TemporaryDirectory(prefix="settings-") as folder:
        Path(folder).chmod(0o777)  # the server may run as another user
        path = Path(folder) / "redis.conf"
        path.write_bytes(text.encode("latin-1"))
        yield path


@contextmanager
def told(chapter: int, text: str, *words: str, **env: str) -> Iterator[Tuple[Server, Conn]]:
    """A server that is started with such a file, further words of the command line and an environment, in the folder
    of the file; and a connection."""
    with a_file(text) as path:
        command = [*program(chapter, "server"), str(path), *words]
        with start(chapter, env={**NONE, "PORT": "0", **env}, command=command, cwd=str(path.parent)) as server:
            with server.connect() as conn:
                yield server, conn


def value_of(conn: Conn, name: str) -> str:
    came = conn.ask("config", "get", name)
    assert isinstance(came, list) and len(came) == 2 and isinstance(came[1], bytes), (name, came)
    return came[1].decode()


def expect_values(conn: Conn, **expected: str) -> None:
    """Fails where settings have other values; _ stands for -."""
    for name, value in ((name.replace("_", "-"), value) for name, value in expected.items()):
        came = value_of(conn, name)
        if came != value:
            fail(f"{name} is {came!r}", expected=repr(value))


def ends(chapter: int, *args: str, **env: str) -> Result:
    """What the server says that ends at once."""
    return run_program(chapter, "server", args, env={**NONE, "PORT": "0", **env}, seconds=5)


def refused(came: Result, start: str, *words: str) -> None:
    """Fails where the server has not ended with status 1 and one line that begins so, and has these words."""
    lines = came.stderr.splitlines()
    if came.status != 1 or len(lines) != 1 or not lines[0].startswith(start) or any(w not in lines[0] for w in words):
        expected = f"exit status 1, and one line that begins with {start!r}" + f", with {words}" * bool(words)
        fail(f"exit status {came.status}, and on standard error: {came.stderr.strip()!r}", expected=expected)


# ---- the file ----


@case(since=27)
def the_file_of_redis_itself_will_do(chapter: int) -> None:
    """What is passed over is named, in one line."""
    with told(chapter, STOCK) as (server, conn):
        expect_values(conn, timeout="0", appendonly="no", appendfsync="everysec", notify_keyspace_events="")
        lines = [line for line in server.lines if "passed over" in line]
        if len(lines) != 1 or any(name not in lines[0] for name in ("tcp-keepalive", "hz", "loglevel")):
            fail(f"of what is passed over the server says {lines}", expected="one line that names hz, loglevel, ...")
        if "appendonly" in lines[0] or "databases" in lines[0]:
            fail(f"the server passes over what it goes by: {lines[0]}")


@case(since=27)
def a_line_is_words_as_a_client_types_them(chapter: int) -> None:
    """Quotes and what they mean, blanks in front, letters of either size, comments, lines that end with CR LF, a last
    one that does not end; and a comment longer than any buffer."""
    text = "\r\n".join([
        "# appendonly yes", "   # appendonly yes", f"#{'x' * 200_000}", "", "  \t ", "\tTimeOut  '60'  ",
        r'notify-keyspace-events "\x4bEA"', 'dir "two words"', "CLIENT-output-buffer-limit pubsub '2mb' 1mb 5",
        "appendfsync ALWAYS",
    ])  # fmt: skip
    with a_file(text) as path:
        (path.parent / "two words").mkdir()
        command = [*program(chapter, "server"), path.name]
        with start(chapter, env={**NONE, "PORT": "0"}, command=command, cwd=str(path.parent)) as server:
            with server.connect() as conn:
                limits = "normal 0 0 0 slave 268435456 67108864 60 pubsub 2097152 1048576 5"
                expect_values(
                    conn, timeout="60", appendfsync="always", appendonly="no", notify_keyspace_events="AKE",
                    client_output_buffer_limit=limits, dir=str((path.parent / "two words").resolve()),
                )  # fmt: skip


@case(since=27)
def the_last_of_two_lines_counts(chapter: int) -> None:
    with told(chapter, "timeout 10\nappendfsync no\ntimeout 20\nappendfsync always\n") as (_, conn):
        expect_values(conn, timeout="20", appendfsync="always")


@case(since=27)
def a_timeout_may_be_years(chapter: int) -> None:
    """As many seconds as CONFIG SET takes, not only as many milliseconds."""
    with told(chapter, "timeout 2147483647\n") as (_, conn):
        expect_values(conn, timeout="2147483647")
    with told(chapter, "", "--timeout", "2147484") as (_, conn):
        expect_values(conn, timeout="2147484")


@case(since=27)
def the_environment_goes_before_the_file_and_words_before_both(chapter: int) -> None:
    text = "timeout 10\nappendfsync no\nappendonly no\nnotify-keyspace-events A\n"
    with told(chapter, text) as (_, conn):
        expect_values(conn, timeout="10", appendfsync="no", appendonly="no", notify_keyspace_events="A")
    env = {"IDLE_TIMEOUT_MS": "20000", "APPENDFSYNC": "always", "APPENDONLY": "yes"}
    with told(chapter, text, **env) as (_, conn):
        expect_values(conn, timeout="20", appendfsync="always", appendonly="yes")
    words = "--timeout 30 --appendfsync everysec --notify-keyspace-events KE$".split()
    with told(chapter, text, *words, **env) as (_, conn):
        expect_values(conn, timeout="30", appendfsync="everysec", appendonly="yes", notify_keyspace_events="$KE")


@case(since=27)
def the_file_says_where_to_listen(chapter: int) -> None:
    """Unless BIND and PORT do. An address with a - in front may lack."""
    rows: Sequence[Tuple[Dict[str, str], str]] = (({}, "127.0.0.2"), ({"BIND": "127.0.0.3"}, "127.0.0.3"))
    for env, host in rows:
        port = free_port()
        with a_file(f"port {port}\nbind 127.0.0.2 -::1\n") as path:
            command = [*program(chapter, "server"), str(path)]
            with start(chapter, env={**NONE, **env}, command=command, cwd=str(path.parent)) as server:
                said = [line for line in server.lines if line.startswith("listening on ")]
                if said != [f"listening on {host}:{port}"]:
                    fail(f"the server says {said}", expected=f"listening on {host}:{port}")
    with told(chapter, "port 1\n") as (server, _):  # PORT is 0
        assert server.port > 1


@case(since=27)
def a_log_where_the_file_says(chapter: int) -> None:
    with a_file("appendonly yes\ndir data\n") as path:
        (path.parent / "data").mkdir()
        command = [*program(chapter, "server"), "redis.conf"]
        for expected in (None, b"v"):
            with start(chapter, env={**NONE, "PORT": "0"}, command=command, cwd=str(path.parent)) as server:
                with server.connect() as conn:
                    ready(conn)
                    conn.ask("get", "k", expect=expected)
                    conn.ask("set", "k", "v", expect=OK)
        names = sorted(each.name for each in path.parent.iterdir())
        if names != ["data", "redis.conf"] or not (path.parent / "data/appendonlydir").is_dir():
            fail(f"in the folder are {names}", expected="the log in data/appendonlydir, and nothing beside it")


@case(since=27)
def protected_mode_keeps_others_out(chapter: int) -> None:
    """Nobody gives a password here, so with it there is no address but those of this machine."""
    rows: Sequence[Tuple[str, Dict[str, str]]] = (
        ("protected-mode yes\nbind 0.0.0.0\n", {}), ("protected-mode yes\n", {"BIND": "0.0.0.0"}),
    )  # fmt: skip
    for text, env in rows:
        with a_file(text) as path:
            refused(ends(chapter, str(path), **env), "protected-mode yes: ", "0.0.0.0")
    with told(chapter, "protected-mode yes\nbind 127.0.0.1\n"):
        pass
    with told(chapter, "protected-mode yes\nbind 0.0.0.0\n", "--protected-mode", "no"):
        pass


# ---- what is wrong ----

WRONG: List[Tuple[str, str, str]] = [  # a line, the name that is said, and a part of why
    ("port abc", "port", "integer"), ("port 65536", "port", "between 0 and 65535"), ("port", "port", "arguments"),
    ("port 1 2", "port", "arguments"), ("port 1 # mine", "port", "arguments"), ("bind ::1", "bind", "IPv4"),
    ("bind -::1", "bind", "IPv4"), ("bind 127.0.0.1 127.0.0.2", "bind", "one address"),
    ("timeout -1", "timeout", "between"), ("timeout x", "timeout", "integer"), ("dir nowhere", "dir", "No such file"),
    ("dir /dev/null", "dir", "Not a dir"),
    ("appendonly maybe", "appendonly", "'yes' or 'no'"), ("appendfsync often", "appendfsync", "everysec, always, no"),
    ("appenddirname log", "appenddirname", "appendonlydir"), ("appendfilename a", "appendfilename", "appendonly.aof"),
    ("databases 17", "databases", "16"), ("save 60 1", "save", '""'), ("maxmemory 1gb", "maxmemory", "0"),
    ("aof-load-truncated no", "aof-load-truncated", "yes"), ("daemonize yes", "daemonize", "no"),
    ("logfile server.log", "logfile", '""'), ("notify-keyspace-events Q", "notify-keyspace-events", "class"),
    ("client-output-buffer-limit pubsub 1mb", "client-output-buffer-limit", "arguments"),
    ("active-expire-effort 11", "active-expire-effort", "between 1 and 10"),
    ("requirepass x", "requirepass", "no such"),
    ("replicaof 127.0.0.1 6379", "replicaof", "no such"), ('"" 1', "", "no such"), (f"{'x' * 100} 1", "xxx", "no such"),
]  # fmt: skip


@case(since=27, time_limit=60)
def a_wrong_line_is_named_and_nothing_begins(chapter: int) -> None:
    for line, name, why in WRONG:
        with a_file(f"timeout 0\n\n# the next one is wrong\n{line}\n") as path:
            came = ends(chapter, str(path))
            refused(came, f"{path}, line 4: '{name}", why)
            words = [word.strip('"') for word in line.split()]
            if "#" not in line:
                refused(ends(chapter, f"--{words[0]}", *words[1:]), f"command line: '{name}", why)


@case(since=27)
def a_quote_that_is_not_closed(chapter: int) -> None:
    for line in ('dir "a', "dir 'a", 'dir "a"b', '"'):
        with a_file(f"{line}\n") as path:
            refused(ends(chapter, str(path)), f"{path}, line 1: ", "quote")


@case(since=27, time_limit=60)
def a_name_that_is_misspelt_is_known(chapter: int) -> None:
    """A letter that lacks, that is there twice, is another one, or two in the wrong order."""
    rng = random.Random(seed())
    for name in NAMES:
        at = rng.randrange(1, len(name) - 1)
        swapped = name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :]
        before, behind = name[:at], name[at + 1 :]
        changed = rng.choice([before + behind, before + name[at] + name[at:], f"{before}q{behind}", swapped])
        if changed != name:
            with a_file(f"{changed.upper()} 1\n") as path:
                refused(ends(chapter, str(path)), f"{path}, line 1: '{changed.upper()}'", f"nearest: {name}")


@case(since=27)
def words_that_are_no_settings(chapter: int) -> None:
    """What was ignored before 27."""
    with a_file("") as path:
        rows: Sequence[Tuple[Sequence[str], str]] = (
            (["nowhere.conf"], "nowhere.conf: No such file"), ([str(path.parent)], f"{path.parent}: Is a directory"),
            (["-v"], "-v: "), (["-p", "1234"], "-p: "), ([str(path), "1234"], "1234: "), ([str(path), "-x"], "-x: "),
            (["--port"], "command line: 'port': wrong number"), (["--"], "command line: '': no such setting"),
            (["--prot", "0"], "command line: 'prot': no such setting; nearest: port"),
            (["--port", "0", "--help"], "command line: 'help'"),
        )  # fmt: skip
        for words, said in rows:
            refused(ends(chapter, *words), said)
    for word in ("-h", "--help"):
        came = ends(chapter, word)
        if came.status != 0 or came.stderr or len(came.stdout.splitlines()) != 2 or "usage: " not in came.stdout:
            fail(f"{word}: exit status {came.status}, {came.stdout!r} {came.stderr!r}", expected="two lines, status 0")


# ---- the log, as a setting and in INFO ----


@case(since=27, ours="Redis would take over the log of another server")
def a_log_that_cannot_be_turned_on(chapter: int) -> None:
    """Then none of the settings that were sent with it is set."""
    with a_file("") as path:
        env = {**NONE, "PORT": "0", "IDLE_TIMEOUT_MS": "0", "DIR": str(path.parent)}
        first = start(chapter, env={**env, "APPENDONLY": "yes"})
        with first, start(chapter, env=env) as other, other.connect() as conn:
            conn.ask("set", "k", "v", expect=OK)
            failed = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF."
            for words in (["timeout", "7", "appendonly", "yes"], ["appendonly", "yes", "timeout", "7"]):
                conn.ask("config", "set", *words, expect=Err(4, f"{failed} Check server logs."))
                expect_values(conn, timeout="0", appendonly="no", dir=str(path.parent.resolve()))
            conn.ask("get", "k", expect=b"v")


@case(since=27, ours="Redis turns it off and on there")
def a_transaction_does_not_turn_the_log(chapter: int) -> None:
    """Its effects are together in the log, which cannot end or begin within them."""
    with a_file("") as path:
        for first, then in (("yes", "no"), ("no", "yes")):
            env = {**NONE, "PORT": "0", "IDLE_TIMEOUT_MS": "0", "DIR": str(path.parent), "APPENDONLY": first}
            with start(chapter, env=env) as server, server.connect() as conn:
                word = "on" if then == "yes" else "off"
                why = f"(possibly related to argument 'appendonly') - Unable to turn {word} AOF. Check server logs."
                conn.ask("multi", expect=OK)
                for words in (["set", "k", first], ["config", "set", "appendonly", then], ["set", "l", first]):
                    conn.ask(*words, expect=QUEUED)
                conn.ask("exec", expect=[OK, Err(4, f"ERR CONFIG SET failed {why}"), OK])
                expect_values(conn, appendonly=first)
        with start(chapter, env={**env, "APPENDONLY": "yes"}) as server, server.connect() as conn:
            ready(conn)
            conn.ask("mget", "k", "l", expect=[b"yes", b"yes"])


def numbers(conn: Conn) -> Dict[str, str]:
    """What INFO says of persistence."""
    text = conn.ask("info", "persistence")
    assert isinstance(text, bytes)
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


@case(since=27, ours="sizes of files that Redis writes otherwise")
def info_knows_the_files(chapter: int) -> None:
    """With `always`, all that was answered is in them."""
    with told(chapter, "appendfsync always\n", IDLE_TIMEOUT_MS="0") as (_, conn):
        assert numbers(conn)["aof_enabled"] == "0" and "aof_current_size" not in numbers(conn)
        conn.ask("set", "k", "v" * 1000, expect=OK)
        conn.ask("config", "set", "appendonly", "yes", expect=OK)
        log = Path(value_of(conn, "dir")) / "appendonlydir"
        for _ in range(3):
            conn.ask("append", "k", "w")
            said = numbers(conn)
            sizes = {path.name: path.stat().st_size for path in log.iterdir() if path.suffix == ".aof"}
            base = sum(size for name, size in sizes.items() if ".base." in name)
            came = [said.get(name) for name in ("aof_enabled", "aof_last_write_status", "aof_base_size")]
            most = base if chapter < 28 else sum(sizes.values())  # from 28 on, what the log had at the start
            if came[:2] != ["1", "ok"] or not base <= int(came[2] or 0) <= most:
                fail(f"INFO has {came}, and the files are {sizes}", expected=f"enabled, ok, and a base of {base} bytes")
            # once a second, a mark is written behind what was answered
            if not sum(sizes.values()) - 200 <= int(said["aof_current_size"]) <= sum(sizes.values()):
                fail(f"aof_current_size is {said['aof_current_size']}, and the files are {sizes}")
        conn.ask("config", "set", "appendonly", "no", expect=OK)
        assert numbers(conn)["aof_enabled"] == "0" and "aof_current_size" not in numbers(conn)
