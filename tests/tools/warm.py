"""Pytests that begin where another has been: a process has started Python and imported the chapters' tests once, and
each run is a fork of it. That takes half of what a pytest with one short test takes otherwise.

    with Warm() as warm:
        ended = warm.pytest(["tests/test_07.py", "-k", "demo"], environment, 60)

The environment is that of the run alone: no module of tests may look at it while it is imported.
"""
from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Sequence

import pytest

from layout import ROOT, Problem


class Ended(NamedTuple):
    """What came of a pytest: its exit status, None where it has crashed; and what it said."""

    status: Optional[int]
    said: str
    late: bool


class Warm:
    """The process that is forked. Threads may have it run several pytests at once."""

    def __enter__(self) -> "Warm":
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "socket"))
        words = [sys.executable, __file__, self._address]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self.__exit__()
            raise Problem("the tests of the chapters cannot be imported: python3 -m pytest --collect-only shows why")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its input
        self._folder.cleanup()

    def pytest(self, words: Sequence[str], env: Dict[str, str], seconds: float) -> Ended:
        """Runs a pytest with these words. One that takes longer is ended."""
        with socket.socket(socket.AF_UNIX) as sock, tempfile.TemporaryFile("w+", errors="backslashreplace") as said:
            sock.connect(self._address)
            request = json.dumps([list(words), env]).encode()
            socket.send_fds(sock, [b"%8d" % len(request)], [said.fileno()])
            sock.sendall(request)
            lines, late = sock.makefile("r"), False
            pid = int(lines.readline() or 0)
            if pid and not select.select([sock], [], [], seconds)[0]:
                late = True
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)  # conftest.py ends its servers
            status = lines.readline()
            said.seek(0)
            return Ended(int(status) if status else None, said.read(), late)


def serve(address: str) -> None:
    """Imports, and forks for each that connects, until our input ends."""
    files = sorted(map(str, ROOT.glob("tests/test_[0-9][0-9].py")))
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        collected = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *files])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        gc.freeze()
        print("ready" if collected == 0 else "failed", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            conn, _ = listener.accept()
            with conn:
                if not os.fork():
                    listener.close()
                    run(conn)


def run(conn: socket.socket) -> None:
    """The fork: runs what it is told to, says its number first and its exit status at last, and ends."""
    status = 3
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        head, (said,), *_ = socket.recv_fds(conn, 8, 1)
        with conn.makefile("rb") as stream:
            words, env = json.loads(stream.read(int(head)))
        for fd, targets in ((os.open(os.devnull, os.O_RDONLY), (0,)), (said, (1, 2))):
            for target in targets:
                os.dup2(fd, target)
            os.close(fd)
        os.environ.clear()
        os.environ.update(env)
        conn.sendall(b"%d\n" % os.getpid())
        status = int(pytest.main(words))
    finally:
        from harness.process import kill_all  # as the tests have imported it

        kill_all()
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(OSError):
            conn.sendall(b"%d\n" % status)
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
