"""The crash lab: plays thousands of crashes to a server, and sees whether it keeps its promises.

    python3 tests/crash/check.py --policy always --states 5000            the server of the last chapter
    python3 tests/crash/check.py --policy always --server redis-server    another one

1. *Record.* Clients change keys (workload.py), while recorder.c writes down what the server does to its files and when it
   answers. In the middle the server is killed and started again.
2. *Enumerate.* states.py tells from that which states of the disk a crash could have left.
3. *Check.* For each of them: the files are made, the server is started on them, and its keys are read. They must be
   those after a first part of all steps, in their order, each step whole; with `always`, after all that had been answered
   before the crash; with `everysec`, after all that had been answered two seconds before it. Then some more is written,
   the server is killed and started once more, and must have the same keys and what was added.

What fails is told with the state's name. The recording stays in build/crash; to see a state again:

    python3 tests/crash/check.py --show build/crash/always 812:zeros.790.1024:all
"""
from __future__ import annotations

import argparse
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from servers import HERE, Client, Error, Server, Trouble, recorder  # noqa: E402
from states import Disk, Record, Recording, State, read_disk, read_records, write_disk  # noqa: E402
from workload import Found, Step, Workload  # noqa: E402

ROOT = HERE.parents[1]
WINDOW = {"always": 0.0, "everysec": 2.0, "no": float("inf")}  # seconds in which what was answered may be lost
ADDED = [(b"added:%d" % n, b"v%d" % n) for n in range(3)]  # keys that are written after a crash
KILL = {"always": signal.SIGKILL, "everysec": signal.SIGTERM, "no": signal.SIGTERM}  # where nothing may be lost
JOBS = 2  # states that are checked at once


class Run(NamedTuple):
    """A workload that was recorded."""

    policy: str
    records: List[Record]
    workload: Workload
    says: str  # how the server has ended, where it has ended by itself


def scratch() -> "tempfile.TemporaryDirectory[str]":
    """A new folder, in memory where that is possible: the lab plays the disk."""
    return tempfile.TemporaryDirectory(prefix="crash-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def record(
    command: Sequence[str], policy: str, *, rounds: int, seed: int, seconds: float = 0, writers: int = 3, starts: int = 2,
    fail: str = "", fail_in: int = 0, slow_ms: int = 0,
) -> Run:  # fmt: skip
    """Plays a workload of so many rounds, which take so many seconds at least, and records it. The server is killed and
    started again between its parts. `fail` and `slow_ms` are what recorder.c is told, in the part `fail_in` or in all.
    Trouble where it does not come up again, or has lost something, that no failing call is to blame for."""
    workload, says = Workload(writers, seed), ""
    with scratch() as folder:
        top, recording = Path(folder, "files"), Path(folder, "recording")
        top.mkdir()
        env = {"LD_PRELOAD": recorder(), "RECORD_DIR": str(top), "RECORD_FILE": str(recording)}
        env.update({"SLOW_FSYNC_MS": str(slow_ms)} if slow_ms else {})
        for part in range(starts):
            try:
                with Server(command, top, policy, {**env, **({"FAIL": fail} if fail and part == fail_in else {})}) as server:
                    problem = workload.go_on(server, policy == "always") if part else ""
                    if problem:
                        raise Trouble(problem)
                    if not workload.play(server, rounds // starts, seconds / rounds):
                        says += f"start {part + 1}: {server.ending()}\n"
                    server.kill(KILL[policy])
            except Trouble as trouble:
                says += f"start {part + 1}: {trouble}\n"
                if not fail or part != fail_in:
                    raise
        records = read_records(recording)
    workload.learn()
    return Run(policy, records, workload, says)


class Checker:
    """Plays the states of a run to a server, and judges."""

    def __init__(self, run: Run, command: Sequence[str]) -> None:
        self.run, self.command = run, command
        self.recording = Recording(run.records)
        self._answered = [self._of_steps(writer.steps) for writer in run.workload.writers]

    def _of_steps(self, steps: Sequence[Step]) -> Tuple[List[int], List[int]]:
        """The records with which the steps were answered whole, as far as they were, and their times."""
        sent: Dict[int, List[Tuple[int, int]]] = {}  # port of a client -> bytes so far, with each record
        for index, each in enumerate(self.run.records):
            if each.op == "s":
                before = sent.setdefault(each.at, [(0, 0)])
                before.append((before[-1][0] + each.size, index))
        with_end = [step for step in steps if step.end >= 0]
        found = [sent[step.port][bisect_left(sent[step.port], (step.end, 0))][1] for step in with_end]
        return found, [self.run.records[index].ns for index in found]

    def least(self, cut: int) -> List[int]:
        """How many steps of each writer a crash at this cut must leave: it comes right before the next record."""
        records = self.run.records
        latest = records[min(cut, len(records) - 1)].ns - WINDOW[self.run.policy] * 1e9
        return [min(bisect_left(at, cut), bisect_right(times, latest)) for at, times in self._answered]

    def look(self, disk: Disk, folder: Path) -> Tuple[List[Found], str]:
        """What the server finds on this disk, and what is wrong after some more was written and it was killed again.
        Trouble where it does not start."""
        write_disk(disk, folder)
        with Server(self.command, folder, self.run.policy) as server:
            found = self.run.workload.found(server)
            with Client(server) as client:
                added = client.ask(*((b"set", *pair) for pair in ADDED))
            server.kill(KILL[self.run.policy])
        if any(isinstance(reply, Error) for reply in added):
            return found, f"refuses writes after the crash: {added}"
        try:
            with Server(self.command, folder, self.run.policy) as server:
                again = self.run.workload.found(server)
                with Client(server) as client:
                    kept = client.ask(*((b"get", key) for key, _ in ADDED))
        except Trouble as trouble:
            return found, f"second start: {trouble}"
        if again != found:
            return found, "second start: once more has been written, other keys are there than before"
        if kept != [value for _, value in ADDED]:
            return found, f"second start: what was written and answered after the crash is lost, {kept}"
        return found, ""

    def check(self, state: State, folder: Optional[Path] = None) -> str:
        """What is wrong with what the server makes of the state; "" where nothing is."""
        with scratch() as new:
            return self._judge(state, self._looked_at(self.recording.disk(state), folder or Path(new)))

    def _looked_at(self, disk: Disk, folder: Path) -> "Tuple[List[Found], str]":
        try:
            return self.look(disk, folder)
        except Trouble as trouble:
            return [], str(trouble)

    def _judge(self, state: State, looked: "Tuple[List[Found], str]") -> str:
        found, problem = looked
        return (self.run.workload.wrong(found, self.least(state.cut)) if found else "") or problem

    def check_all(self, states: Iterator[State], n: int) -> Tuple[int, Dict[State, str]]:
        """Checks states until n different ones have been: how many there were, and what is wrong with which. A state that
        is on the disk as one before is judged again, since more may have been answered before it."""
        done: Dict[int, "Tuple[List[Found], str]"] = {}
        wrong: Dict[State, str] = {}

        def look(state: State, disk: Disk) -> None:
            with scratch() as folder:
                done[_key(disk)] = self._looked_at(disk, Path(folder))

        with ThreadPoolExecutor(JOBS) as pool:
            while len(done) < n:
                batch: Dict[int, Tuple[State, Disk]] = {}
                judged: List[State] = []
                keys: List[int] = []
                for state in states:
                    disk = self.recording.disk(state)
                    key = _key(disk)
                    judged.append(state)
                    keys.append(key)
                    if key not in done:
                        batch.setdefault(key, (state, disk))
                    if len(batch) == min(64, n - len(done)):
                        break
                if not judged:
                    break
                list(pool.map(lambda each: look(*each), batch.values()))
                for state, key in zip(judged, keys):
                    problem = self._judge(state, done[key])
                    if problem:
                        wrong[state] = problem
        return len(done), wrong


def _key(disk: Disk) -> int:
    return hash(tuple(sorted(disk.items())))
