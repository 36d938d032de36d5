"""The crash lab: plays thousands of crashes to a server, and sees whether it keeps its promises.

    python3 tests/crash/check.py --policy always --states 5000            the server of the last chapter
    python3 tests/crash/check.py --policy always --server redis-server    another one

1. *Record.* Clients change keys (workload.py), while recorder.c writes down what the server does to its files and
   when it answers. In the middle the server is killed and started again.
2. *Enumerate.* states.py tells from that which states of the disk a crash could have left.
3. *Check.* For each of them: the files are made, the server is started on them, and its keys are read. They must be
   those after a first part of all steps, in their order, each step whole; with `always`, after all that had been
   answered before the crash; with `everysec`, after all that had been answered two seconds before it. Then some more
   is written, the server is killed and started once more, and must have the same keys and what was added.

What fails is told with the state's name. The recording stays in build/crash; to see a state again:

    python3 tests/crash/check.py --show build/crash/always 812:zeros.790.1024:all
"""
from __future__ import annotations

import argparse
import itertools
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_left, bisect_right
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.servers import HERE, Client, Clock, Error, FastClock, Server, Trouble, recorder
from crash.states import Disk, Record, Recording, State, read_calls, read_records, write_disk
from crash.workload import REWRITE, Found, Step, Workload

ROOT = HERE.parents[1]
WINDOW = {"always": 0.0, "everysec": 2.0, "no": float("inf")}  # seconds in which what was answered may be lost
FAILING_WINDOW = 3.0  # the same of `everysec`, where a sync has failed, which is made up for a second later
ADDED = [(b"added:%d" % n, b"v%d" % n) for n in range(3)]  # keys that are written after a crash
FULL = "short,write:{next}:ENOSPC"  # as a disk does that becomes full
KINDS = {  # calls that are made to fail, and with what
    "open": ("EIO", "ENOSPC"), "write": ("EIO", "short", FULL), "fdatasync": ("EIO",), "fsync": ("EIO",),
    "ftruncate": ("EIO",), "rename": ("EIO", "ENOSPC"), "unlink": ("EIO",), "mkdir": ("ENOSPC",),
}  # fmt: skip
REWRITE_S = 0.3  # that a workload takes at least, so that the log can be written anew in its middle
KILL = {"always": signal.SIGKILL, "everysec": signal.SIGTERM, "no": signal.SIGTERM}  # where nothing may be lost
JOBS = 2  # states that are checked at once
WORKLOADS = 6  # in which calls fail, at once
Call = Tuple[str, int]  # what FAIL is to be, and in which start of the server
Looked = Tuple[List[Found], str]  # what a server has on a disk, and what is wrong with it or its second start


class Run(NamedTuple):
    """A workload that was recorded."""

    policy: str
    records: List[Record]
    workload: Workload
    starts: List[int]  # when the server was started, nanoseconds of the monotonic clock
    says: str  # how the server has ended, where it has ended by itself
    calls: List[Dict[str, int]]  # of each start: how many there were of each kind


def scratch() -> "tempfile.TemporaryDirectory[str]":
    """A new folder, in memory where that is possible: the lab plays the disk."""
    return tempfile.TemporaryDirectory(prefix="crash-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def record(
    command: Sequence[str], policy: str, *, rounds: int, seed: int, seconds: float = 0, writers: int = 3,
    starts: int = 2, fail: str = "", fail_in: int = 0, slow_ms: int = 0, rewrite: str = "", fast: bool = False,
) -> Run:  # fmt: skip
    """Plays a workload of so many rounds, which take so many seconds at least, and records it. The server is killed
    and started again between its parts. `fail` and `slow_ms` are what recorder.c is told, in the part `fail_in` or in
    all; `rewrite` is for Workload.play(); `fast` gives it a FastClock. Trouble where it does not come up again, or has
    lost something, that no failing call is to blame for."""
    workload, says, began, calls = Workload(writers, seed), "", [], []
    with scratch() as folder:
        top, recording = Path(folder, "files"), Path(folder, "recording")
        top.mkdir()
        clock = FastClock(Path(folder, "clock")) if fast else Clock()
        env = {"LD_PRELOAD": clock.preload + recorder(), "RECORD_DIR": str(top), "RECORD_FILE": str(recording)}
        env.update({**clock.env, **({"SLOW_FSYNC_MS": str(slow_ms)} if slow_ms else {})})
        for part in range(starts):
            clock.sleep(0.001)  # so that no record of the start before is as late
            began.append(clock.ns())
            try:
                more = {"FAIL": fail} if fail and part == fail_in else {}
                with Server(command, top, policy, {**env, **more}) as server:
                    problem = workload.go_on(server, policy == "always") if part else ""
                    if problem:
                        raise Trouble(problem)
                    if not workload.play(server, rounds // starts, seconds / rounds, rewrite, clock):
                        says += f"start {part + 1}: {server.ending()}\n"
                    server.kill(KILL[policy], clock)
            except Trouble as trouble:
                says += f"start {part + 1}: {trouble}\n"
                if not fail or part != fail_in:
                    raise
            calls.append(read_calls(recording))
        records = read_records(recording)
    workload.learn()
    return Run(policy, records, workload, began, says, calls)


class Checker:
    """Plays the states of a run to a server, and judges."""

    def __init__(self, run: Run, command: Sequence[str], window: Optional[float] = None) -> None:
        self.run, self.command = run, command
        self.window = WINDOW[run.policy] if window is None else window
        self.recording = Recording(run.records)
        self._sent = [each.ns for each in run.records if each.op == "s"]
        self._answered = [self._of_steps(writer.steps) for writer in run.workload.writers]

    def _of_steps(self, steps: Sequence[Step]) -> Tuple[List[int], List[int]]:
        """The records with which the steps were answered whole, as far as they were, and their times."""
        sent: Dict[Tuple[int, int], List[Tuple[int, int]]] = {}  # start and port -> bytes so far, with each record
        for index, each in enumerate(self.run.records):
            if each.op == "s":
                before = sent.setdefault((self._start(each.ns), each.at), [(0, 0)])
                before.append((before[-1][0] + each.size, index))
        found = []
        for step in steps:
            if step.end >= 0:
                to_it = sent[self._start(step.ns), step.port]
                found.append(to_it[bisect_left(to_it, (step.end, 0))][1])
        return found, [self.run.records[index].ns for index in found]

    def _start(self, ns: int) -> int:
        """The start of the server that was the last one then."""
        return bisect_right(self.run.starts, ns) - 1

    def least(self, cut: int) -> List[int]:
        """How many steps of each writer a crash at this cut must leave: it comes right before the next record."""
        records = self.run.records
        latest = records[min(cut, len(records) - 1)].ns - self.window * 1e9
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

    def _looked_at(self, disk: Disk, folder: Path) -> Looked:
        try:
            return self.look(disk, folder)
        except Trouble as trouble:
            return [], str(trouble)

    def _judge(self, state: State, looked: Looked) -> str:
        return self._judged(looked, *self._asked(state))

    def _asked(self, state: State) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        """How many steps of each writer have to be there, and the starts of the server that the crash may have been in:
        one that has told nobody anything leaves what the one before it has left."""
        before = self.run.records[state.cut - 1].ns
        start = self._start(before)
        silent = bisect_right(self._sent, before) == bisect_right(self._sent, self.run.starts[start])
        return tuple(self.least(state.cut)), (start, start - 1) if silent and start else (start,)

    def _judged(self, looked: Looked, least: Sequence[int], starts: Sequence[int]) -> str:
        found, problem = looked
        wrong = [self.run.workload.wrong(found, least, start) if found else "" for start in starts]
        return (wrong[0] if all(wrong) else "") or problem

    def check_all(self, states: Iterator[State], n: int) -> Tuple[int, Dict[State, str]]:
        """Checks states until n different disks have been: how many there were, and what is wrong with which. Of what
        is the same on the disk as a state before, only the judgement is made, since more may have been answered
        before it."""
        looked: Dict[int, Looked] = {}
        problems: Dict[Tuple[int, Tuple[Tuple[int, ...], Tuple[int, ...]]], str] = {}
        wrong: Dict[int, Tuple[State, str]] = {}

        def look(disk: Disk) -> None:
            with scratch() as folder:
                looked[_key(disk)] = self._looked_at(disk, Path(folder))

        with ThreadPoolExecutor(JOBS) as pool:
            more = True
            while more and len(looked) < n:
                new: Dict[int, Disk] = {}
                judged: List[Tuple[State, int]] = []
                while more and len(new) < min(64, n - len(looked)):
                    state = next(states, None)
                    more = state is not None
                    if state:
                        disk = self.recording.disk(state)
                        judged.append((state, _key(disk)))
                        if _key(disk) not in looked:
                            new[_key(disk)] = disk
                list(pool.map(look, new.values()))
                for state, key in judged:
                    asked = self._asked(state)
                    if (key, asked) not in problems:
                        problems[key, asked] = self._judged(looked[key], *asked)
                    problem = problems[key, asked]
                    if problem:
                        wrong.setdefault(key, (state, problem))
        return len(looked), dict(wrong.values())


def _key(disk: Disk) -> int:
    return hash(tuple(sorted(disk.items())))


# ---- what is typed ----


def told(wrong: Dict[State, str], where: Path) -> str:
    """What is wrong, one example of each kind, and how to see it."""
    kinds: Dict[str, List[Tuple[State, str]]] = {}
    again = f"python3 tests/crash/check.py --show {os.path.relpath(where)}"
    for state, problem in wrong.items():
        kinds.setdefault(problem.partition(":")[0], []).append((state, problem))
    lines = []
    for kind, found in kinds.items():
        state, problem = found[0]
        lines.append(f"  {kind}: {len(found)} states, for example {state}\n    {problem[:600]}")
        lines.append(f"    to see it again: {again} {state}")
    return "\n".join(lines)


def keep(run: Run, command: Sequence[str], where: Path) -> None:
    """Writes a run into a folder, for --show."""
    where.mkdir(parents=True, exist_ok=True)
    (where / "run.pickle").write_bytes(pickle.dumps((run, list(command))))


LEGEND = """\
The last records before the crash (o open, m mkdir, w write, t truncate, b and e: begin and end of an fsync,
r rename, u unlink, s sent to a client, x a call that failed, p a process begins):"""


def show(where: Path, text: str, kept: Optional[Path]) -> int:
    """Prints a state of a run that was kept: what was recorded up to its cut, the files, and what is wrong."""
    run, command = pickle.loads((where / "run.pickle").read_bytes())
    checker, state = Checker(run, command), State.parse(text)
    changes = {each.index: each for each in checker.recording.writes + checker.recording.names}
    print(LEGEND)
    for index in range(max(0, state.cut - 30), state.cut):
        record = run.records[index]
        change = changes.get(index)
        safe = "" if change is None else "  safe" if change.safe <= state.cut else "  OPEN"
        error = f" {os.strerror(record.error)}" if record.error > 0 else ""
        words = f"{record.name} {record.data[:50]!r}" if record.data else record.name
        print(f"  {index:5} {record.op} at {record.at:<6} size {record.size:<6} {words}{error}{safe}")
    disk = checker.recording.disk(state)
    print(f"The disk in state {state}:")
    for name, content in disk.items():
        print(f"  {name}{'/' if content is None else f', {len(content)} bytes'}")
    if kept:
        kept.mkdir(parents=True)
        write_disk(disk, kept)
        print(f"It is in {kept}")
    print(f"Answered before: {checker.least(state.cut)} steps of the writers")
    problem = checker.check(state)
    print(f"The server: {problem or 'has all that it must have'}")
    return int(bool(problem))


def crashes(command: Sequence[str], policy: str, n: int, seed: int, where: Path, **how: Any) -> bool:
    """Records a workload, as record() says, and plays n states of it. True where nothing is wrong."""
    start, seconds = time.monotonic(), 6 if policy != "always" else 4 if how.get("rewrite") else 0
    run = record(command, policy, rounds=max(10, n // 12), seed=seed, seconds=seconds, **how)
    keep(run, command, where)
    checker = Checker(run, command)
    done, wrong = checker.check_all(checker.recording.sample(n, seed), n)
    took = time.monotonic() - start
    said = f"{len(run.records)} records, {done} states in {took:.0f} s, {len(wrong)} wrong"
    print(f"{policy}, seed {seed}: {said}", flush=True)
    if wrong:
        print(told(wrong, where))
    return not wrong


class Failing:
    """Short workloads, and in each of them calls that fail: `fail` says which, in the start `fail_in`. `rewrite` is for
    Workload.play(). Of each, so many states are checked. Runs in which something is wrong are kept in folders of
    `where`."""

    def __init__(
        self, command: Sequence[str], policy: str, *, states: int, seed: int, where: Path, rewrite: str = "",
    ) -> None:  # fmt: skip
        self._command, self._policy, self._rewrite = command, policy, rewrite
        self._states, self._seed, self._where = states, seed, where

    def _record(self, fail: str = "", fail_in: int = 0) -> Run:
        rounds, seconds = (8, REWRITE_S if self._rewrite else 0) if self._policy == "always" else (40, 4)
        return record(self._command, self._policy, rounds=rounds, seed=self._seed, seconds=seconds, fail=fail,
                      fail_in=fail_in, rewrite=self._rewrite, fast=seconds > 0)  # fmt: skip

    def calls(self, most: int) -> Tuple[List[Call], int]:
        """What can be made to fail: of each kind the first call, the second, up to the last where none fails; alone, or
        all from it on. Of more than `most` calls the seed draws so many. The second is how many there are in all."""
        rng, found, there_are = random.Random(self._seed), [], 0
        for start, made in enumerate(self._record().calls):
            for kind, errors in KINDS.items():
                for error, more in itertools.product(errors, ("", ":+")):
                    there_are += made[kind]
                    drawn = sorted(rng.sample(range(1, made[kind] + 1), min(most, made[kind])))
                    found += [(f"{kind}:{n}:{error.format(next=n + 1)}{more}", start) for n in drawn]
        return found, there_are

    def play(self, calls: Sequence[Call]) -> Tuple[int, str]:
        """How many of them have failed, and what has gone wrong."""
        with ThreadPoolExecutor(WORKLOADS) as pool:
            results = list(pool.map(lambda call: self._play(*call), calls))
        return sum(failed for failed, _ in results), "\n".join(wrong for _, wrong in results if wrong)

    def _play(self, fail: str, start: int) -> Tuple[bool, str]:
        what = f"  with FAIL={fail} in start {start + 1}:"
        try:
            run = self._record(fail, start)
        except Trouble as trouble:
            return True, f"{what} {trouble}"
        if not any(record.error for record in run.records):
            return False, ""
        window = 0 if self._policy == "always" else float("inf") if "+" in fail else FAILING_WINDOW
        checker = Checker(run, self._command, window)
        _, wrong = checker.check_all(checker.recording.sample(self._states, self._seed), self._states)
        if not wrong:
            return True, ""
        where = self._where / f"{fail}-in-{start + 1}"
        keep(run, self._command, where)
        return True, f"{what} {run.says}\n{told(wrong, where)}"


def kills(command: Sequence[str], policy: str, n: int, seed: int, rewrite: str = "") -> bool:
    """Starts the server n times on the same files and kills it under load; `rewrite` is for Workload.play(). True where
    nothing is lost."""
    workload, rng = Workload(8, seed), random.Random(seed)
    start, steps = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:  # on a disk, not in memory
        for number in range(n):
            with Server(command, Path(folder), policy) as server:
                problem = workload.go_on(server, policy == "always", forget=True)
                if problem:
                    print(f"after kill {number} of {n}, seed {seed}: {problem}")
                    return False
                if number % 100 == 99:
                    with Client(server) as client:
                        client.ask((b"flushall",))
                    workload = Workload(8, seed + number)
                most = rng.choice([0.05, REWRITE_S]) if rewrite else 0.05
                timer = threading.Timer(rng.uniform(0.001, most), server.kill)
                timer.start()
                workload.play(server, 1 << 30, 0, rewrite)
                timer.join()
                steps += sum(step.end >= 0 for writer in workload.writers for step in writer.steps)
    print(f"{policy}: killed {n} times in {time.monotonic() - start:.0f} s, {steps} steps answered, nothing lost")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=list(WINDOW), default="always")
    parser.add_argument("--states", type=int, default=0, metavar="N", help="check N different states")
    parser.add_argument("--failing", type=int, default=0, metavar="N", help="let N calls of each kind fail")
    parser.add_argument("--kill", type=int, default=0, metavar="N", help="kill it under load N times in a row")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.randrange(1 << 30)))
    parser.add_argument("--slow-ms", type=int, default=0, help="milliseconds that each fsync takes longer")
    parser.add_argument("--rewrite", choices=list(REWRITE), default="", help="the log is written anew, again and again")
    parser.add_argument("--show", nargs=2, metavar=("FOLDER", "STATE"), help="a state of a run before, see above")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="with --show: leave its files there")
    parser.add_argument("--server", nargs=argparse.REMAINDER, help="the command of another server, at the end")
    args = parser.parse_args()
    if args.show:
        return show(Path(args.show[0]), args.show[1], args.keep)
    command = args.server or [str(max((ROOT / "build" / "test").glob("[0-9][0-9]/server")))]
    where = ROOT / "build" / "crash" / args.policy
    good = True
    try:
        if args.states or not (args.failing or args.kill):
            good = crashes(command, args.policy, args.states or 5000, args.seed, where,
                           slow_ms=args.slow_ms, rewrite=args.rewrite) and good  # fmt: skip
        if args.failing:
            start = time.monotonic()
            anew = args.rewrite if args.rewrite == "bgrewriteaof" else ""  # the other one may leave the log off
            failing = Failing(command, args.policy, states=8, seed=args.seed, where=where, rewrite=anew)
            calls, there_are = failing.calls(args.failing)
            total, wrong = failing.play(calls)
            took = time.monotonic() - start
            said = f"{total} workloads with a failing call"
            said += f", of {there_are} (ARGS='--failing 1000' plays all)," if len(calls) < there_are else ""
            print(f"{args.policy}, seed {args.seed}: {said} in {took:.0f} s", flush=True)
            print(wrong or "  nothing is wrong")
            good = not wrong and good
        if args.kill:
            good = kills(command, args.policy, args.kill, args.seed, args.rewrite) and good
    except Trouble as trouble:
        print(f"the server, without any crash of the disk: {trouble}")
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
