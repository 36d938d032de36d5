"""21-hunt-behind: every request has one reply, whatever bytes an error repeats."""
from __future__ import annotations

from typing import List, Sequence

from grading import Submission, points
from harness import Server


def array(*args: bytes) -> bytes:
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args)


def replies(work: Submission, requests: Sequence[Sequence[bytes]]) -> List[bytes]:
    """The line that answers each of these requests, all of which are refused. Behind each an `echo` is sent, so that
    a line too many shows."""
    lines = []
    with Server(21) as server, server.connect() as conn:
        for i, args in enumerate(requests):
            mark = b"%d" % i
            conn.send(array(*args) + array(b"echo", mark))
            came = b""
            while came.count(b"\r\n") < 3:
                came += conn.recv_exactly(1)
            line, _, rest = came.partition(b"\r\n")
            work.expect(
                line.startswith(b"-") and rest == b"$%d\r\n%s\r\n" % (len(mark), mark),
                came=f"the request {args!r}, and behind it `echo {i}`: {came!r}",
                expected=f"one error, then {mark!r} as the reply to `echo`; a client takes any line more for a reply,"
                " and gets from there on the reply to the request before",
                cause="which bytes end an error, and who sees to it that its text holds none of them?",
            )
            conn.unanswered.clear()
            lines.append(line)
    return lines


@points(3, "commands that do not exist")
def test_no_such_command(work: Submission) -> None:
    """A command that does not exist: each of the 256 bytes in its name, then in its argument; and line ends."""
    requests = [[b"no" + bytes([byte]) + b"x"] for byte in range(256)]
    requests += [[b"no", b"a" + bytes([byte]) + b"b"] for byte in range(256)]
    requests += [[b"no\r\n+OK"], [b"no\n\n"], [b"\r\n"], [b"no", b"\r\n$1", b"\n\r"], [b"no" * 100 + b"\r\n"]]
    replies(work, requests)


@points(2, "other errors")
def test_other_errors(work: Submission) -> None:
    """A word of a family that does not exist, an option of `hello`, a setting, an option of `expire`."""
    odd = [b"x\r\n+OK", b"x\ny", b"x\ry"]
    replies(work, [[b"client", each] for each in odd])
    replies(work, [[b"hello", b"3", each] for each in odd])
    replies(work, [[b"config", b"set", each, b"1"] for each in odd])
    replies(work, [[b"expire", b"k", b"1", each] for each in odd])


@points(2, "the texts")
def test_texts(work: Submission) -> None:
    """The texts of errors, compared with those of Redis 7.0."""
    rows = [
        ([b"no"], b"-ERR unknown command 'no', with args beginning with: "),
        ([b"no", b"a b", b"c"], b"-ERR unknown command 'no', with args beginning with: 'a b' 'c' "),
        ([b"no\r\nx"], b"-ERR unknown command 'no  x', with args beginning with: "),
        ([b"no\rx", b"\n"], b"-ERR unknown command 'no x', with args beginning with: ' ' "),
        ([b"client", b"a\rb"], b"-ERR unknown subcommand 'a b'. Try CLIENT HELP."),
        ([b"config", b"set", b"a\r\nb", b"1"], b"-ERR Unknown option or number of arguments for CONFIG SET - 'a  b'"),
    ]
    for (request, expected), line in zip(rows, replies(work, [request for request, _ in rows])):
        work.expect(
            line == expected, came=f"the text of the error for {request!r}: {line!r}", expected=repr(expected),
            cause="a blank takes the place of each byte that would end the line, and all else stays",
        )  # fmt: skip
