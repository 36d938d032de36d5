"""Pytests that begin where another has been: a process has started Python and imported tests once, and each run is a
fork of it. That takes half of what a pytest with one short test takes otherwise.

    with Warm(["tests/test_28.py"]) as warm:
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
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Dict, Iterable, NamedTuple, Optional, Sequence, Set

import pytest

from layout import ROOT


class Ended(NamedTuple):
    """What came of a pytest: its exit status, None where it has crashed; and what it said."""

    status: Optional[int]
    said: str
    late: bool


class Warm:
    """The process that is forked, which has imported these test files, and with that of the last chapter all cases.
    Where one cannot be imported, the pytest that runs it says so. Threads may have it run several pytests at once."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._running: Set[int] = set()

    def __enter__(self) -> "Warm":
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "socket"))
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._address, *self._files], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout
        self._process.stdout.readline()  # it listens
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its input
        self._folder.cleanup()

    def pytest(self, words: Sequence[str], env: Dict[str, str], seconds: float, alone: bool = False) -> Ended:
        """Runs a pytest with these words; alone: with processes and a network of its own (learn/namespaces.py).
        One that takes longer is ended."""
        with socket.socket(socket.AF_UNIX) as sock, tempfile.TemporaryFile("w+", errors="backslashreplace") as said:
            sock.connect(self._address)
            request = json.dumps([list(words), env, alone]).encode()
            socket.send_fds(sock, [b"%8d" % len(request)], [said.fileno()])
            sock.sendall(request)
            lines, late = sock.makefile("r"), True
            pid = int(lines.readline() or 0)
            self._running.add(pid)
            try:
                late = not select.select([sock], [], [], seconds)[0]
            finally:
                if late:  # or we are interrupted
                    self._end([pid])
            status = lines.readline()
            self._running.discard(pid)
            said.seek(0)
            return Ended(int(status) if status else None, said.read(), late)

    def end(self) -> None:
        """Ends all that is under way."""
        self._end(self._running)

    def _end(self, pids: Iterable[int]) -> None:
        """Ends pytests as Ctrl-C does, so that they end their servers; after a while by force."""
        alive = [pid for pid in tuple(pids) if pid]
        for sig in (signal.SIGINT, signal.SIGKILL):
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.killpg(pid, sig)
            end = time.monotonic() + 15
            while alive and time.monotonic() < end:
                time.sleep(0.01)
                alive = [pid for pid in alive if os.path.exists(f"/proc/{pid}")]


def serve(address: str, *files: str) -> None:
    """Imports, and forks for each that connects, until our input ends."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *files])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        gc.freeze()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            conn, _ = listener.accept()
            with conn:
                if not os.fork():
                    listener.close()
                    run(conn)


def run(conn: socket.socket) -> None:
    """The fork: runs what it is told to, says its number first and its exit status at last, and ends."""
    status = 3
    os.setsid()  # a signal for it is one for what it has started
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        head, (said,), *_ = socket.recv_fds(conn, 8, 1)
        with conn.makefile("rb") as stream:
            words, env, alone = json.loads(stream.read(int(head)))
        for fd, targets in ((os.open(os.devnull, os.O_RDONLY), (0,)), (said, (1, 2))):
            for target in targets:
                os.dup2(fd, target)
            os.close(fd)
        os.environ.clear()
        os.environ.update(env)
        tempfile.tempdir = None  # it may have another TMPDIR
        conn.sendall(b"%d\n" % os.getpid())
        if alone:
            import namespaces  # where the tests have found it

            namespaces.alone()
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
    serve(*sys.argv[1:])
