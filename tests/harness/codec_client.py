"""Our client (07 and later) in Python, around the codec: what sessions are played with where SERVER= names a server in
any language and CLIENT= no client. Nothing is compiled.

    PORT=1234 python3 tests/harness/codec_client.py 09 get k
"""
from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import types
from pathlib import Path
from typing import List, Optional

if __name__ == "__main__":  # started for each command of a session: what else is in the package need not be read
    sys.modules["harness"] = types.ModuleType("harness")
    sys.modules["harness"].__path__ = [str(Path(__file__).resolve().parent)]

from harness import resp, wire  # noqa: E402
from harness.codec import codec  # noqa: E402

SUBSCRIBING = (b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe")  # messages answer them


class Client:
    """A connection to the server that HOST and PORT name, made anew where that has closed it."""

    def __init__(self, chapter: int) -> None:
        self.codec = codec(chapter)
        self.selected: List[bytes] = []  # the last command that has chosen a database
        self.in_multi = False
        self.connect()

    def connect(self) -> None:
        host, port = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "1234"))
        try:
            self.sock = socket.create_connection((host, port))
        except OSError as e:
            raise SystemExit(f"connect {host}:{port}: {e.strerror}") from None
        self.data = bytearray()
        if self.codec.greeting:
            self.sock.sendall(self.codec.greeting)
            self.read()
        if self.selected:
            self.ask(self.selected)

    def read(self) -> object:
        """The next reply, in either version of RESP."""
        reply = self.codec.begin_reply()
        try:
            while (end := reply.find(self.data)) < 0:
                more = self.sock.recv(1 << 16)
                if not more:
                    raise SystemExit("the server closed the connection without a whole answer")
                self.data += more
            body = bytes(self.data[self.codec.head : end])
            del self.data[:end]
            return self.codec.decode(body, 2 if body.startswith((b"$-1", b"*-1")) else 3)
        except wire.WireError as e:
            raise SystemExit(f"bad reply: {e}") from None

    def ask(self, words: List[bytes]) -> object:
        """The reply to a command."""
        with contextlib.suppress(OSError):
            self.sock.sendall(self.codec.typed(words))
        return self.read()

    def show(self, value: object) -> None:
        sys.stdout.buffer.write(self.codec.shown_by_client(value))
        sys.stdout.buffer.flush()

    def hear(self) -> object:
        """The next reply. Messages that come before it are printed."""
        while isinstance(value := self.read(), resp.Push):
            self.show(value)
        return value

    def listen(self) -> None:
        """Prints what comes until the server closes the connection."""
        while self.data or not self.hung_up(None):
            self.show(self.read())

    def hung_up(self, seconds: Optional[float] = 0) -> bool:
        """Has the server closed the connection, while no reply is due, or does it within this time?"""
        return bool(select.select([self.sock], [], [], seconds)[0]) and not self.sock.recv(1, socket.MSG_PEEK)

    def run(self, words: List[bytes]) -> bool:
        """Asks, and prints the reply and the messages that come with it. Returns whether there are messages alone."""
        if self.codec.has_idle_timeout and self.hung_up():
            print("the server has closed the connection: connecting again", file=sys.stderr)
            self.connect()
        name = words[0].lower()
        pings = name in SUBSCRIBING and not self.in_multi  # the reply to the ping says that all messages are there
        with contextlib.suppress(OSError):
            self.sock.sendall(self.codec.typed(words) + (self.codec.typed([b"ping"]) if pings else b""))
        reply = self.hear()
        failed = isinstance(reply, wire.Err)
        if name in (b"select", b"reset") and not failed:
            self.selected = words if name == b"select" else []
        if name in (b"multi", b"exec", b"discard", b"reset"):
            self.in_multi = name == b"multi"
        if name == b"quit":
            self.hung_up(1)  # so that what is typed next does not come before the end that was asked for
        if failed or not pings:
            self.show(reply)
        if failed and pings:
            self.hear()
        while self.data:
            self.show(self.read())
        return pings and not failed


def main(chapter: int, words: List[bytes]) -> int:
    if words:
        client = Client(chapter)
        if client.run(words):
            client.listen()
        return 0
    client, status = Client(chapter), 0
    for line in sys.stdin.buffer:
        try:
            split = resp.split_inline(line)
        except wire.WireError:
            print("not sent: a quote that is not closed, or has more behind it", file=sys.stderr)
            status = 1
            continue
        if split:
            client.run(split)
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [os.fsencode(word) for word in sys.argv[2:]]))
