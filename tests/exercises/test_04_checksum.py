"""04-checksum: messages carry the sum of their bytes, and both sides look at it."""
from __future__ import annotations

import socket
from typing import List

from grading import Submission, points
from harness import Server, run_client, wire
from harness.fake import FakeServer


def summed(text: bytes, sum_: int = -1) -> bytes:
    """A message with its sum, or with another one."""
    return wire.frame(text) + wire.u32(sum(text) if sum_ < 0 else sum_)


def read_summed(sock: socket.socket) -> bytes:
    """A whole message with its sum, as it came; less at the end of the input."""
    data = b""
    while len(data) < 4 or len(data) < 8 + int.from_bytes(data[:4], "little"):
        more = sock.recv(1)
        if not more:
            break
        data += more
    return data


WORLD = summed(b"world")


@points(4, "right sums")
def test_right_sums(work: Submission) -> None:
    """Messages of 0 to 4096 bytes, with bytes of all values, and right sums. Each has its answer, `world` with the sum
    552."""
    texts = [b"hello", b"", b"\0\0\0", b"\x7f\x80", bytes(range(256)), b"x" * 4096, b"\xff" * 4096]
    with Server(4) as server:
        for text in texts:
            with server.connect(seconds=2) as conn:
                conn.send(summed(text))
                try:
                    got = conn.recv_exactly(len(WORLD))
                except AssertionError:
                    got = bytes(conn.buffer)
                causes = ["which bytes are added? those of the text, no others"]
                if text and max(text) > 127:
                    causes = ["how much do bytes of 128 and more add?"]
                if len(text) * max(text, default=0) > 0xFFFF:
                    causes.append("is there a type that holds the sum of so many?")
                log = "".join(server.log[-1:])
                work.expect(
                    got == WORLD,
                    came=f"to {len(text)} bytes with the sum {sum(text)}: {got.hex(' ') or 'nothing'}"
                    + f"; the server printed {log[:40]}" * bool(log),
                    expected=WORLD.hex(" "),
                    cause=" ".join(causes),
                )


@points(3, "wrong sums")
def test_wrong_sums(work: Submission) -> None:
    """Messages whose sum is wrong: `bad checksum`, no answer, and the end of the connection. The next client is
    served."""
    right = sum(b"hello")
    cases = [
        (summed(b"hello", right + 1), "the sum is one too large"),
        (summed(b"hello", right - 1), "the sum is one too small"),
        (summed(b"hello", right + (1 << 16)), "its third byte is changed"),
        (summed(b"hellp", right), "a byte of the text is changed"),
        (wire.frame(b"hello") + right.to_bytes(4, "big"), "the sum is the wrong way round"),
        (summed(b"", 1), "the text is empty, the sum is 1"),
    ]  # fmt: skip
    with Server(4) as server:
        for number, (data, what) in enumerate(cases):
            with server.connect(seconds=2) as conn:
                conn.send(data)
                lines = 3 * number + 1
                server.wait_log(lines, 2)
                try:
                    got = conn.read_to_end()
                except AssertionError:
                    got = bytes(conn.buffer)
                work.expect(
                    not got,
                    came=f"{what}, and the message was answered: {got!r}",
                    expected="no answer",
                    cause="who compares the sum that came with that of the text?",
                )
                line = "".join(server.log[lines - 1 : lines])
                work.expect(
                    line == "bad checksum",
                    came=f"{what}; the server printed {line!r}",
                    expected="bad checksum",
                )
                work.expect(
                    conn.ended,
                    came=f"{what}, and the connection is still open",
                    expected="the connection is closed",
                )
            with server.connect(seconds=2) as conn:
                conn.send(WORLD)
                conn.expect_bytes(WORLD)
            server.wait_log(lines + 2)


@points(2, "cut anywhere")
def test_cut(work: Submission) -> None:
    """Two messages byte by byte, cut at each place, a hundred in one write; and messages that break off, also in their
    sum."""
    both = summed(b"hello") + summed(b"bye")
    with Server(4) as server:
        with server.connect(seconds=2) as conn:
            conn.send_pieces(both)
            conn.expect_bytes(WORLD * 2)
            for i in range(len(both)):
                conn.send(both[:i])
                conn.send(both[i:])
                conn.expect_bytes(WORLD * 2)
            conn.send(both * 50)
            conn.expect_bytes(WORLD * 100)
        server.wait_line("EOF")
        said = len(server.log)
        for i in (2, 6, 9, 10, 12):
            with server.connect(seconds=2) as conn:
                conn.send(both[:i])
                conn.shutdown_write()
                conn.expect_closed()
            said += 1
            line = server.wait_log(said)[-1]
            work.expect(
                line == "unexpected EOF",
                came=f"a message of 13 bytes broke off after {i}; the server printed {line!r}",
                expected="unexpected EOF",
            )


@points(3, "the client")
def test_client(work: Submission) -> None:
    """The client with your server; then with one whose second answer has a wrong sum."""
    heard: List[bytes] = []
    wrong = b""

    def listen(sock: socket.socket) -> None:
        for answer in (summed(b"\xff" * 4096), wrong, WORLD):
            heard.append(read_summed(sock))
            sock.sendall(answer)

    with Server(4) as server:
        ran = run_client(4, [], server)
        work.expect(
            ran == ("server says: world\n" * 3, "", 0),
            came=f"with your server: {ran}",
            expected="server says: world, three times",
        )
    for wrong, what in (
        (summed(b"moon", 1), "wrong"), (summed(b"moon", sum(b"moon") + 256), "wrong in its second byte")
    ):
        del heard[:]
        with FakeServer(listen) as fake:
            ran = run_client(4, [], fake)
        sent = [summed(b"hello1"), summed(b"hello2")]
        work.expect(
            heard[:2] == sent,
            came="the other server heard " + ", ".join(data.hex(" ") for data in heard[:2]),
            expected=", ".join(data.hex(" ") for data in sent),
        )
        work.expect(
            "moon" not in ran.stdout,
            came=f"an answer `moon` whose sum is {what} was printed",
            expected="it is not printed",
            cause="who looks at the sums of answers?",
        )
        work.expect(
            ran.status == 1 and len(ran.stderr.splitlines()) == 1 and not any(heard[2:]),
            came=f"the answer's sum is {what}: exit status {ran.status}, on standard error {ran.stderr!r}",
            expected="one line on standard error and status 1, and no further message",
        )
