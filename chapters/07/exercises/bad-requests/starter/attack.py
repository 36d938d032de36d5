#!/usr/bin/env python3
"""Reads from a server what the client before has sent."""
import re
import socket
import struct
import sys


def string(data: bytes) -> bytes:
    """A string of a request: its length, its bytes."""
    return struct.pack("<I", len(data)) + data


def request(*words: bytes) -> bytes:
    """An honest request."""
    body = struct.pack("<I", len(words)) + b"".join(string(word) for word in words)
    return struct.pack("<I", len(body)) + body


def receive(sock: socket.socket, n: int) -> bytes:
    """n bytes, or fewer where the connection ends."""
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            break
        data += more
    return data


def reply(sock: socket.socket) -> bytes:
    """The status and the data of the next reply; nothing where the connection ends."""
    head = receive(sock, 4)
    return receive(sock, struct.unpack("<I", head)[0]) if len(head) == 4 else b""


def main() -> None:
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    sock.settimeout(5)
    sock.sendall(request(b"set", b"stolen", b"hello"))
    reply(sock)
    sock.sendall(request(b"get", b"stolen"))
    found = re.search(rb"secret=([0-9a-f]{32})", reply(sock))
    print(found[1].decode() if found else "nothing")


main()
