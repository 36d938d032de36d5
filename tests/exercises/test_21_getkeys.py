"""21-getkeys: COMMAND GETKEYS, as Redis has it, from the table of commands."""
from __future__ import annotations

from typing import Sequence, Tuple, Union

from grading import Submission, points
from harness import Conn, Server

INVALID = b"-ERR Invalid command specified\r\n"
NO_KEYS = b"-ERR The command has no key arguments\r\n"
COUNT = b"-ERR Invalid number of arguments specified for command\r\n"
TOO_FEW = b"-ERR wrong number of arguments for 'command|getkeys' command\r\n"

Request = Union[str, Sequence[bytes]]


def array(args: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args)


def keys(conn: Conn, request: Sequence[bytes]) -> bytes:
    """The bytes that come back for `command getkeys` and this request; an `echo` behind it shows where they end."""
    mark = array([b"echo", b"\0mark\0"])
    end = mark.partition(b"echo\r\n")[2]
    conn.send(array([b"command", b"getkeys", *request]) + mark)
    came = b""
    while not came.endswith(end):
        came += conn.recv_exactly(1)
    conn.unanswered.clear()
    return came[: -len(end)]


def check(work: Submission, server: Server, rows: Sequence[Tuple[Request, bytes]], cause: str) -> None:
    """Each of these requests has this reply."""
    with server.connect() as conn:
        for request, reply in rows:
            words = request.encode().split() if isinstance(request, str) else request
            came = keys(conn, words)
            shown = b" ".join(words).decode("latin-1")
            work.expect(
                came == reply, came=f"command getkeys {shown[:100]}: {came[:200]!r}", expected=repr(reply[:200]),
                cause=cause,
            )  # fmt: skip


@points(2, "the keys")
def test_keys(work: Submission) -> None:
    """Commands with one key, and with many, next to each other or every second argument."""
    rows = [
        ("get k", [b"k"]), ("GET k", [b"k"]), ("set k v", [b"k"]), ("set k v ex 10", [b"k"]), ("incr n", [b"n"]),
        ("zadd board 1 ann 2 bob", [b"board"]), ("zrange board 0 -1 withscores", [b"board"]), ("expire k 1", [b"k"]),
        ("mget a", [b"a"]), ("mget a b c a", [b"a", b"b", b"c", b"a"]), ("del a b", [b"a", b"b"]),
        ("Exists k k", [b"k", b"k"]), ("mset a 1", [b"a"]), ("mset a 1 b 2 c 3", [b"a", b"b", b"c"]),
        ("mset a 1 b", [b"a", b"b"]), ("msetnx a 1 b 2", [b"a", b"b"]),
    ]  # fmt: skip
    with Server(21) as server:
        check(work, server, [(request, array(found)) for request, found in rows],
              "which columns of the table say where keys are?")  # fmt: skip


@points(2, "the errors")
def test_errors(work: Submission) -> None:
    """No such command, no keys, too few arguments or too many; and which of these is said first."""
    rows = [
        ("nosuch k", INVALID), ("client nosuch", INVALID), ("client nosuch x", INVALID), ("config x y z", INVALID),
        ("client|id x", INVALID), ("client|setname x", INVALID), ("command|getkeys get k", INVALID),
        ("command nosuch", INVALID), ("ge k", INVALID), ("getk k", INVALID),
        ("ping x", NO_KEYS), ("ping x y z", NO_KEYS), ("keys *", NO_KEYS), ("dbsize x", NO_KEYS),
        ("client id", NO_KEYS), ("client setname a b", NO_KEYS), ("CLIENT ID x", NO_KEYS), ("config get x", NO_KEYS),
        ("command getkeys get k", NO_KEYS), ("command getkeys", NO_KEYS), ("hello 99 x", NO_KEYS),
        ("get k l", COUNT), ("set k", COUNT), ("mset a", COUNT), ("zadd board 1", COUNT), ("zrange board 0", COUNT),
        ("", TOO_FEW), ("get", TOO_FEW), ("nosuch", TOO_FEW), ("ping", TOO_FEW), ("client", TOO_FEW), ("del", TOO_FEW),
    ]  # fmt: skip
    with Server(21) as server:
        check(work, server, rows, "in which order does the server itself look at a request?")


@points(2, "the whole table")
def test_whole_table(work: Submission) -> None:
    """Every command of your own table, with too few arguments, enough, and too many: what its row says."""
    rows = []
    with Server(21) as server:
        with server.connect() as conn:
            commands = conn.ask("command")
        in_full = isinstance(commands, list) and len(commands) >= 50
        work.expect(in_full, came=f"`command` says: {str(commands)[:100]}", expected="what it said in the starter")
        assert isinstance(commands, list)
        for row in [each for command in commands for each in [command, *command[9]]]:
            name, arity, first, last, step = bytes(row[0]), row[1], row[3], row[4], row[5]
            words = name.split(b"|")
            for n in sorted({max(abs(arity) + more, len(words), 2) for more in (-1, 0, 1, 6)}):
                request = words + [b"arg%d" % i for i in range(len(words), n)]
                if first > 0:
                    places = range(first, (n - 1 if last == -1 else last) + 1, step)
                    right = n == arity if arity > 0 else n >= -arity
                    reply = array([request[i] for i in places]) if right else COUNT
                else:
                    reply = INVALID if row[9] and len(words) == 1 else NO_KEYS
                rows.append((request, reply))
        check(work, server, rows, "what do the columns of this row say, and how does do_request() go by them?")


@points(1, "any bytes")
def test_any_bytes(work: Submission) -> None:
    """Keys of any bytes, an empty one, 100,000 of them; version 3 of RESP; nothing of it is executed."""
    odd = [b"", b"\r\n", b"a\0b", b"$3\r\nabc", bytes(range(256)), b"x" * 100_000]
    many = [b"%d" % i for i in range(100_000)]
    cause = "a key is a string like others"
    with Server(21) as server, server.connect() as conn:
        check(work, server, [([b"mget", *odd], array(odd)), ([b"set", b"\n", b"v"], array([b"\n"]))], cause)
        conn.send(array([b"command", b"getkeys", b"del", *many]))
        conn.expect_bytes(array(many))
        conn.unanswered.clear()
        conn.version = 3
        conn.ask("hello", "3")
        conn.send(b"command getkeys mget a b\nset there 1\ncommand getkeys del there\nget there\n")
        conn.expect_bytes(array([b"a", b"b"]) + b"+OK\r\n" + array([b"there"]) + b"$1\r\n1\r\n")
        conn.send(b"command getkeys set no 1\nget no\ncommand getkeys quit now\nping\n")
        conn.expect_bytes(array([b"no"]) + b"_\r\n" + NO_KEYS + b"+PONG\r\n")
        conn.unanswered.clear()


@points(1, "the table knows it")
def test_in_the_table(work: Submission) -> None:
    """`command info command|getkeys`: the name and the arity; and `command help`."""
    with Server(21) as server, server.connect() as conn:
        conn.send(b"command info command|getkeys\n")
        conn.expect_bytes(b"*1\r\n*10\r\n$15\r\ncommand|getkeys\r\n:-4\r\n")
    with Server(21) as server, server.connect() as conn:
        lines = conn.ask("command", "help")
        work.expect(
            isinstance(lines, list) and any(bytes(line).startswith(b"GETKEYS") for line in lines),
            came=f"`command help` says {str(lines)[:300]}", expected="a line that begins with GETKEYS",
        )  # fmt: skip
