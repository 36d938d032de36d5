#!/usr/bin/env python3
"""measure.py: what a message costs the server beside 0, 10, 100 and 1000 idle connections.

Starts ./server four times. One connection sends messages, each after the answer to the one before; the idle ones
are connected and say nothing. The server tells at its end how often it called poll(), and for how many slots.
"""
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import time
from typing import IO

MESSAGES = 10_000
MESSAGE = struct.pack("<I", 5) + b"hello"


def ask(sock: socket.socket) -> None:
    sock.sendall(MESSAGE)
    got = b""
    while len(got) < len(MESSAGE):
        got += sock.recv(100)


def listening_port(log: IO[str]) -> int:
    """Waits until the server says where it listens."""
    for _ in range(500):
        log.seek(0)
        found = re.search(r"^listening on .*:(\d+)$", log.read(), re.M)
        if found:
            return int(found[1])
        time.sleep(0.01)
    raise SystemExit("./server does not say where it listens")


def measure(idle: int) -> None:
    with tempfile.TemporaryFile("w+") as log:  # a file takes any number of lines at once
        server = subprocess.Popen(["./server"], env={**os.environ, "PORT": "0"}, stderr=log)
        port = listening_port(log)
        busy = socket.create_connection(("127.0.0.1", port))
        ask(busy)
        others = [socket.create_connection(("127.0.0.1", port)) for _ in range(idle)]
        for _ in range(MESSAGES):
            ask(busy)
        for sock in [busy, *others]:
            sock.close()
        server.send_signal(signal.SIGTERM)
        _, server.returncode, used = os.wait4(server.pid, 0)
        log.seek(0)
        found = re.search(r"^polls=(\d+) slots=(\d+)$", log.read(), re.M)
    polls, slots = (int(found[1]), int(found[2])) if found else (0, 0)
    micros = (used.ru_utime + used.ru_stime) * 1e6 / MESSAGES
    print(f"{idle:5} {MESSAGES:9} {polls:7} {slots / polls if polls else 0:15.1f} {micros:15.2f}", flush=True)


soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
print(" idle  messages   polls  slots per poll  us per message")
for number in (0, 10, 100, 1000):
    measure(number)
