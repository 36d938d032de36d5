#!/usr/bin/env python3
"""Makes a server use far more memory than the client has sent."""
import socket
import struct
import sys


def request(*words: bytes) -> bytes:
    """A request of the chapter: the length, the number of strings, the strings."""
    body = struct.pack("<I", len(words)) + b"".join(struct.pack("<I", len(word)) + word for word in words)
    return struct.pack("<I", len(body)) + body


def main() -> None:
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    sock.settimeout(5)
    sock.sendall(request(b"set", b"k", b"hello"))
    sock.recv(5)
    sock.sendall(request(b"get", b"k"))
    sock.recv(1)


main()
