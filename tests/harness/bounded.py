"""Talks to a process within bounds: a program under test may hang, or print without end."""
from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Dict, List, NamedTuple

MOST_OUTPUT = 64 << 20  # bytes of one stream that are kept of any program
CHUNK = 1 << 16


class Talk(NamedTuple):
    """What a process printed; late: it did not end in time; too_much: it printed more than it may."""

    out: bytes
    err: bytes
    late: bool
    too_much: bool


def communicate(
    process: "subprocess.Popen[bytes]", data: bytes = b"", seconds: float = 10.0, most: int = MOST_OUTPUT
) -> Talk:
    """As process.communicate(), for a process that leads a session: ends all of it where it is late or prints more
    than `most` bytes, and does not wait for what it may have started elsewhere. The process is reaped in any case."""
    end = time.monotonic() + seconds
    kept: Dict[object, List[bytes]] = {process.stdout: [], process.stderr: []}
    ended = False
    try:
        closed = _exchange(process, data, end, most, kept)
        ended = closed and _ends(process, end - time.monotonic())
    finally:
        if not ended:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
    too_much = _size(kept) > most
    out, err = (b"".join(kept[pipe])[:most] if pipe else b"" for pipe in (process.stdout, process.stderr))
    return Talk(out, err, not ended and not too_much, too_much)


def _size(kept: Dict[object, List[bytes]]) -> int:
    return sum(len(chunk) for chunks in kept.values() for chunk in chunks)


def _exchange(
    process: "subprocess.Popen[bytes]", data: bytes, end: float, most: int, kept: Dict[object, List[bytes]]
) -> bool:
    """Writes and reads until the output is closed; False where time is up before, or it is too much."""
    size, view = 0, memoryview(data)
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            if pipe:
                selector.register(pipe, selectors.EVENT_READ)
        if process.stdin and data:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        elif process.stdin:
            process.stdin.close()
        while any(key.events == selectors.EVENT_READ for key in selector.get_map().values()):
            left = end - time.monotonic()
            if left <= 0 or size > most:
                return False
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    view = view[_write(key.fd, view) :]
                    finished = not view
                else:
                    chunk = os.read(key.fd, CHUNK)
                    kept[key.fileobj].append(chunk)
                    size += len(chunk)
                    finished = not chunk
                if finished:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
    return size <= most


def _write(fd: int, view: memoryview) -> int:
    """Writes some of it; where nobody reads any longer, the rest counts as written."""
    try:
        return os.write(fd, view[:CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(view)


def _ends(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True
