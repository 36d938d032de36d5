"""The servers that are measured, and the load on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "bench"
sys.path[1:1] = [str(ROOT / "tests"), str(ROOT / "tests" / "tools")]

import changeform  # noqa: E402
import exercises  # noqa: E402
import harness  # noqa: E402
from harness.codec import codec  # noqa: E402

Result = Dict[str, float]
CHAPTERS = harness.settings.CHAPTERS
LAST = CHAPTERS[-1]
PROTOCOLS = {0: "echo", 4: "world", 5: "raw", 6: "echo", 7: "status", 8: "status"}  # in the words of load.c


def processor_of(role: str) -> int:
    """Where a role runs: the server on the first processor, the load on the last, a probe between them, where there
    is one."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[{"server": 0, "probe": len(cpus) // 2, "load": -1}[role]]


def hurry() -> bool:
    """Gives this process real-time priority, so that it waits for no other program; False where it may not have it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    except OSError:
        return False


def may_hurry() -> bool:
    """Would hurry() succeed?"""
    allowed = hurry()
    if allowed:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return allowed


def compiled(source: Path, name: str, include: Optional[Path] = None, more: Sequence[Path] = ()) -> Path:
    """Builds one program into build/bench/, of a file and of `more` where there are several; returns its path. Ends
    with the compiler's message."""
    BUILD.mkdir(parents=True, exist_ok=True)
    out = BUILD / name
    includes = [f"-I{path}" for path in (include, ROOT / "common") if path]
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-g", *includes]
    if subprocess.run([*command, str(source), *map(str, more), "-o", str(out), "-pthread", "-lm"]).returncode != 0:
        raise SystemExit(f"{source} does not compile")
    return out


def variant(name: str, program: str, file: str, old: str, new: str) -> Path:
    """Builds `program` with one line changed, of itself or of a header (paths from the root); returns its path.

    chapters/NN/server.c stands for all of src/ where the server is there; the line may be in any file of it.
    """
    stage = ROOT / Path(program).parent
    own = [stage / part for part in exercises.of_stage([Path(program).name], stage.name)]
    paths = [*(ROOT / "common").glob("*.h"), *own]
    tree = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    change = changeform.parse(f"@@ {file}\n-{old}\n+{new}\n", name)
    folder = BUILD / f"{name}-src"
    for path, text in changeform.apply(tree, change).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    first, *more = [folder / path.relative_to(ROOT) for path in own if path.suffix == ".c"]
    return compiled(first, name, folder / "common", more)


@dataclass(frozen=True)
class Candidate:
    """A server to measure: what to run, and the chapter whose protocol it speaks (0: it echoes)."""

    name: str
    command: Tuple[str, ...]
    chapter: int

    @property
    def protocol(self) -> str:
        return PROTOCOLS.get(self.chapter, "tagged" if self.chapter < 20 else "resp")

    @property
    def echoes(self) -> bool:
        """It sends messages, and knows no commands."""
        return self.chapter < 7


def chapter(number: int) -> Candidate:
    return Candidate(f"{number:02d}", (str(ROOT / f"build/test/{number:02d}/server"),), number)


def redis() -> List[Candidate]:
    """redis-server; none where it is not installed."""
    path = shutil.which("redis-server")
    return [Candidate("redis", (path,), LAST)] if path else []


class Server(harness.Server):
    """A running candidate: with Server(candidate) as server: server.load(mix="get"); `settings` are variables of its
    environment."""

    def __init__(self, candidate: Candidate, settings: Optional[Dict[str, str]] = None) -> None:
        env = {"IDLE_TIMEOUT_MS": "0", **(settings or {})}
        super().__init__(candidate.chapter, env=env, command=candidate.command, cwd=str(BUILD), early=True)
        self.candidate = candidate

    def __enter__(self) -> "Server":
        super().__enter__()
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            os.sched_setaffinity(int(thread), {processor_of("server")})
        return self

    def encode(self, *words: object) -> bytes:
        """One command, in the candidate's protocol."""
        return codec(self.chapter).request(*words)

    def exchange(self, times: int, value: object, *words: object) -> Tuple[bytes, int]:
        """The same command many times, and the size of the replies with this value to it."""
        return self.encode(*words) * times, len(codec(self.chapter).reply(value, *words)) * times

    def ask(self, *words: object) -> object:
        """The reply to one command on a connection of its own."""
        with self.connect() as conn:
            return conn.ask(*words)

    def start_load(self, probe: bool = False, **options: object) -> "subprocess.Popen[str]":
        """Starts the load generator; an option fill=True becomes --fill. A probe waits for no other program, where
        the system allows that."""
        words = [str(BUILD / "load"), "--port", str(self.port), "--proto", self.candidate.protocol]
        for name, value in options.items():
            words.append("--" + name.replace("_", "-"))
            words += [] if value is True else [str(value)]

        def prepare() -> None:
            os.sched_setaffinity(0, {processor_of("probe" if probe else "load")})
            if probe:
                hurry()

        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=prepare)

    def load(self, **options: object) -> Result:
        """Runs the load generator to its end; returns its figures."""
        return finish(self.start_load(**options))

    def fill(self, mix: str, keys: int, **options: object) -> None:
        """Sends a command for each key, in pipelines."""
        self.load(mix=mix, fill=True, keys=keys, pipeline=100, **options)


def finish(process: "subprocess.Popen[str]") -> Result:
    """Waits for a load generator; returns its figures. Ends where a reply was wrong."""
    out, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"the load generator failed: {' '.join(map(str, process.args))}")
    return json.loads(out)
