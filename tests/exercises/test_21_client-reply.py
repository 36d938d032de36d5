"""21-client-reply: CLIENT REPLY ON, OFF and SKIP, as Redis has them."""
from __future__ import annotations

from grading import Submission, points
from harness import Server


def talk(work: Submission, server: Server, sent: bytes, came: bytes) -> None:
    """These lines have these replies, in one write and one line after the other."""
    lines = sent.splitlines(keepends=True)
    for how, parts in (("in one write", [sent]), ("one after the other", lines)):
        with server.connect() as conn:
            for part in parts:
                conn.send(part)
            conn.shutdown_write()
            got = conn.read_to_end()
        work.expect(
            got == came,
            came=f"{how}, {b'; '.join(line.strip() for line in lines)!r} had the replies {got!r}",
            expected=repr(came),
            cause="which replies are taken back, and when does that begin and end?",
        )


@points(2, "off and on")
def test_off_and_on(work: Submission) -> None:
    """Commands between `off` and `on` are executed, and have no reply."""
    with Server(21) as server:
        lines = b"set a 1\nclient reply off\nincr a\nget a\nclient reply on\nget a\n"
        talk(work, server, lines, b"+OK\r\n+OK\r\n$1\r\n2\r\n")
        talk(work, server, b"client reply on\nping\n", b"+OK\r\n+PONG\r\n")
        talk(work, server, b"client reply off\nclient reply off\nping\nCLIENT REPLY ON\nping\n", b"+OK\r\n+PONG\r\n")
        talk(work, server, b"client reply off\nping\nquit\n", b"")


@points(2, "skip")
def test_skip(work: Submission) -> None:
    """One reply is skipped: that of the next command."""
    with Server(21) as server:
        talk(work, server, b"client reply skip\nping\necho 2\n", b"$1\r\n2\r\n")
        lines = b"ping\nclient reply skip\nping\nping\nclient reply skip\nping\necho e\n"
        talk(work, server, lines, b"+PONG\r\n+PONG\r\n$1\r\ne\r\n")
        talk(work, server, b"client reply skip\nclient reply skip\necho 1\necho 2\n", b"$1\r\n2\r\n")
        talk(work, server, b"client reply skip\nclient reply on\nping\n", b"+OK\r\n+PONG\r\n")
        lines = b"client reply off\nclient reply skip\nping\nping\nclient reply on\nping\n"
        talk(work, server, lines, b"+OK\r\n+PONG\r\n")


@points(2, "errors, and large replies")
def test_errors(work: Submission) -> None:
    """Errors are silent as well. A wrong word behind `client reply`, or none, is an error, and changes nothing."""
    syntax, count = b"-ERR syntax error\r\n", b"-ERR wrong number of arguments for 'client|reply' command\r\n"
    with Server(21) as server:
        talk(work, server, b"client reply off\nno such\nget\nclient reply x\nclient reply on\n", b"+OK\r\n")
        talk(work, server, b"client reply skip\nno such\nping\n", b"+PONG\r\n")
        talk(work, server, b"client reply maybe\nping\n", syntax + b"+PONG\r\n")
        talk(work, server, b"client reply\nclient reply on x\nping\n", count * 2 + b"+PONG\r\n")
        with server.connect() as conn:
            value = b"x" * 3_000_000
            conn.send(b"*3\r\n$3\r\nset\r\n$1\r\nb\r\n$%d\r\n%s\r\n" % (len(value), value))
            conn.send(b"client reply skip\nget b\nclient reply off\n" + b"keys *\nget b\n" * 20)
            conn.send(b"client reply on\nping\n")
            conn.shutdown_write()
            got = conn.read_to_end()
        work.expect(
            got == b"+OK\r\n+OK\r\n+PONG\r\n",
            came=f"{len(got)} bytes, the last of which are {got[-30:]!r}",
            expected="17 bytes: OK for `set`, OK for `on`, and PONG",
        )


@points(1, "others")
def test_others(work: Submission) -> None:
    """A connection is silent; one that was there before, and one that comes later, are not."""
    with Server(21) as server, server.connect() as before, server.connect() as silent:
        before.ask("echo", "x", expect="x")
        silent.send(b"client reply off\nset k v\n")
        before.ask("echo", "x", expect="x")
        with server.connect() as later:
            later.ask("echo", "x", expect="x")
        silent.send(b"client reply on\nget k\n")
        silent.expect_bytes(b"+OK\r\n$1\r\nv\r\n")
        silent.unanswered.clear()


@points(1, "the table")
def test_table(work: Submission) -> None:
    """`command info client|reply`: the name and the arity."""
    with Server(21) as server, server.connect() as conn:
        conn.send(b"command info client|reply\n")
        begin = b"*1\r\n*10\r\n$12\r\nclient|reply\r\n:3\r\n"
        conn.expect_bytes(begin)
        conn.unanswered.clear()
