"""Starting the servers that are measured, and putting load on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "bench"

Result = Dict[str, float]


def processors() -> List[int]:
    """Those that this program may use. The first is the server's, the last the client's; one in between, where
    there is one, that of a probe."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return []


def pin(role: str) -> None:
    """Runs in the child: binds it to its processor, where there are two and the system can."""
    cpus = processors()
    if len(cpus) > 1:
        os.sched_setaffinity(0, {cpus[{"server": 0, "probe": len(cpus) // 2, "load": -1}[role]]})


def hurry() -> bool:
    """Gives this process real-time priority, so that it waits for no other program; False where it may not have it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    except (OSError, AttributeError):
        return False


def may_hurry() -> bool:
    """Would hurry() succeed?"""
    allowed = hurry()
    if allowed:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return allowed


def compiled(source: Path, name: str, include: Optional[Path] = None) -> Path:
    """Builds one program into build/bench/; returns its path. Ends with the compiler's message."""
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / name
    includes = [f"-I{path}" for path in (include, ROOT / "common") if path]
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-g", *includes]
    subprocess.run([*command, str(source), "-o", str(out), "-pthread", "-lm"], check=True)
    return out


def variant(name: str, file: str, old: str, new: str, program: str) -> Path:
    """Builds `program` with one line of `file` changed (paths from the root); returns its path."""
    folder = BUILD / f"{name}-src"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "common", folder)
    changed = folder / Path(file).name
    text = (ROOT / file).read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{file}: expected to find once: {old}")
    changed.write_text(text.replace(old, new))
    source = folder / Path(program).name
    if source != changed:
        shutil.copy(ROOT / program, source)
    return compiled(source, name, folder)


@dataclass(eq=False)
class Candidate:
    """A server to measure: what to run, and the protocol it speaks (load.c knows them)."""

    name: str
    command: List[str]
    proto: str
    port_option: bool = False  # it takes --port, as redis-server does, and no PORT


def redis() -> Optional[Candidate]:
    """redis-server without persistence; None where it is not installed."""
    path = shutil.which("redis-server")
    if not path:
        return None
    return Candidate("redis", [path, "--save", "", "--appendonly", "no"], "resp", port_option=True)


def chapter(number: int) -> Candidate:
    proto = {4: "world", 5: "raw", 6: "echo", 7: "status", 8: "status"}.get(number, "tagged" if number < 17 else "resp")
    return Candidate(f"{number:02d}", [str(ROOT / "build/test" / f"{number:02d}/server")], proto)


class Server:
    """A running candidate: with Server(candidate) as server: server.load(mix="get")"""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def __enter__(self) -> "Server":
        command = self.candidate.command + (["--port", str(self.port)] if self.candidate.port_option else [])
        env = {**os.environ, "PORT": str(self.port), "IDLE_TIMEOUT_MS": "0"}
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=BUILD, preexec_fn=lambda: pin("server"),
        )  # fmt: skip
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise SystemExit(f"{self.candidate.name} does not come up: {command[0]}")
                time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start_load(self, probe: bool = False, **options: object) -> "subprocess.Popen[str]":
        """Starts the load generator; an option fill=True becomes --fill. A probe waits for no other program, where
        the system allows that."""
        words = [str(BUILD / "load"), "--port", str(self.port), "--proto", self.candidate.proto]
        words += ["--pid", str(self.process.pid)]
        for name, value in options.items():
            words.append("--" + name.replace("_", "-"))
            words += [] if value is True else [str(value)]

        def prepare() -> None:
            pin("probe" if probe else "load")
            if probe:
                hurry()

        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=prepare)

    def load(self, **options: object) -> Result:
        """Runs the load generator to its end; returns its figures."""
        return finish(self.start_load(**options))

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def encode(self, *words: bytes) -> bytes:
        """One command, in the candidate's protocol."""
        if self.candidate.proto == "resp":
            return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        body = len(words).to_bytes(4, "little") + b"".join(len(w).to_bytes(4, "little") + w for w in words)
        return len(body).to_bytes(4, "little") + body

    def ask(self, *words: str) -> bytes:
        """Sends one command on a connection of its own; returns what comes back first."""
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(self.encode(*(word.encode() for word in words)))
            return sock.recv(4096)

    def set_all(self, keys: Sequence[bytes]) -> float:
        """Sets keys in pipelines of 1000; returns the server's processor time for each, in nanoseconds (Linux)."""
        expected = b"+OK\r\n" if self.candidate.proto == "resp" else b"\1\0\0\0\0"
        before = self.cpu_ns()
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            for i in range(0, len(keys), 1000):
                batch = [self.encode(b"set", key, b"v") for key in keys[i : i + 1000]]
                sock.sendall(b"".join(batch))
                replies = sock.recv(5 * len(batch), socket.MSG_WAITALL)
                if replies != expected * len(batch):
                    raise SystemExit(
                        f"{self.candidate.name} answered to a set of {keys[i]!r} and others: {replies[:99]!r}"
                    )
        return (self.cpu_ns() - before) / len(keys)

    def cpu_ns(self) -> int:
        """The processor time of all of its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks)


def finish(process: "subprocess.Popen[str]") -> Result:
    """Waits for a load generator; returns its figures. Ends where a reply was wrong."""
    out, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"the load generator failed: {' '.join(map(str, process.args))}")
    return json.loads(out)
