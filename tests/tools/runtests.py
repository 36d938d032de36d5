"""Runs test files side by side, a pytest for each, the longest first, and counts.

    runtests.py --all            every tests/test_*.py but those of OWN_TARGET, which have targets of their own
    runtests.py --new            what judges the programs: without those of OF_THE_TOOLS, and without the cases that are
                                 carried, as harness/carried.py says
    runtests.py 07 stages ...    tests/test_07.py and tests/test_stages.py
    runtests.py 07 -- -x -k get  what follows -- goes to pytest
    runtests.py --split book     each file in parts, side by side

One chapter by itself is for somebody who builds it: the first thing to mend is shown, the others are counted by their
cause, and after a while the run ends. -- --everything shows all, as --all does.

The programs are there already (make has built them; where one chapter is tested and compared with another, the harness
has make build the other); WORKBOOK_BUILD says where. With SAN=thread or
SAN=address,undefined they are built with sanitizers, and where the files are fewer than the jobs, each is cut into
parts. JOBS says how many at once.

With TEST_AGAIN=1, as make check-all has it in CI, what failed runs once more when all else is done, by itself: on a
shared machine a limit may have been too short. What passes then is counted, and named.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
JOBS = int(os.environ.get("JOBS") or 1 + len(os.sched_getaffinity(0)))  # a test waits now and then
OWN_TARGET = ["broken", "book", "exercises", "classroom", "cheats", "site"]
OF_THE_TOOLS = ["front_door", "harness", "messages", "tools"]  # which judge no program of a chapter
NOT_CARRIED = ["-m", "not carried"]
COLUMNS = 80  # of a terminal
MANY = 5  # more failures than that are no accident
FILE_LIMIT = 1200  # seconds for one file: tests have limits of their own, this one is for pytest itself
SLOWER = {"address,undefined": 4, "thread": 8}  # how much longer tests may take under sanitizers

NEEDS = "Skipped: needs "  # how the reason begins, see needs() of the harness
KINDS = ["passed", "xpassed", "failed", "error", "skipped", "xfailed"]

running: List["subprocess.Popen[bytes]"] = []


class Counts(NamedTuple):
    """The outcome of one file."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + f", {self.skipped} skipped" * bool(self.skipped)


class Outcome(NamedTuple):
    """What became of one file's tests."""

    name: str
    counts: Counts
    seconds: float
    output: str
    failures: Tuple[str, ...] = ()
    needs: Tuple[str, ...] = ()  # what each test that was left out needs


class Tally:
    """A pytest plugin that leaves the outcome in a file, and runs a part of the tests: "0/3" is every third."""

    def __init__(self, path: str, part: str) -> None:
        self.path = path
        self.number, self.parts = map(int, part.split("/"))

    def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> None:
        mine = items[self.number :: self.parts]
        if self.parts > 1:
            config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % self.parts != self.number])
        items[:] = mine

    def pytest_sessionfinish(self, session: Any) -> None:
        stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
        ids = {kind: [getattr(report, "nodeid", "") for report in stats.get(kind, [])] for kind in KINDS}
        reasons = [str(report.longrepr[2]) for report in stats.get("skipped", [])]
        ids["needs"] = [reason[len(NEEDS) :] for reason in reasons if reason.startswith(NEEDS)]
        Path(self.path).write_text(json.dumps(ids))


def pytest_with_tally(path: str, part: str, *arguments: str) -> int:
    """What the process of one file, or of a part of it, does."""
    import pytest

    sys.path.pop(0)  # this script's folder
    return int(pytest.main(list(arguments), plugins=[Tally(path, part)]))


def environment(build: Path, prebuilt: bool) -> Dict[str, str]:
    """What the tests and the programs that they start find in their environment."""
    gone = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "TEST_AGAIN", "PYTHONDONTWRITEBYTECODE")
    env = {k: v for k, v in os.environ.items() if k not in gone}
    # Hundreds of pytests are started, for faults and the like: the cases are compiled once, and not among the sources.
    env.update(WORKBOOK_BUILD=str(build), PYTHONPYCACHEPREFIX=str(ROOT / "build" / "pycache"))
    env.update({"WORKBOOK_PREBUILT": "1"} if prebuilt else {})
    if env.get("SAN"):
        env.setdefault("TEST_TIME_FACTOR", str(SLOWER.get(env["SAN"], 4)))
        env.setdefault("ASAN_OPTIONS", "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1")
        env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        env.setdefault("TSAN_OPTIONS", "second_deadlock_stack=1")
    return env


def fixed_addresses() -> List[str]:
    """The words to put before a command so that the thread sanitizer finds the addresses it wants.

    It gives up where the kernel spreads a program's memory too widely (vm.mmap_rnd_bits above 28).
    """
    words = ["setarch", os.uname().machine, "-R"]
    try:
        allowed = subprocess.run(words + ["true"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        allowed = False
    return words if allowed else []


def run(
    name: str, env: Dict[str, str], options: List[str], shown: bool, only: Tuple[str, ...] = (), part: str = "0/1"
) -> Outcome:
    """Runs one test file, or only some of its tests; shown: what pytest prints goes straight to the terminal."""
    reports = Path(env["WORKBOOK_BUILD"]) / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    stem = f"test_{name}" + f"-{part.replace('/', '-')}" * (part != "0/1")
    tally, text = (reports / f"{stem}.{ending}" for ending in ("json", "txt"))
    tally.unlink(missing_ok=True)
    command = fixed_addresses() if env.get("SAN") == "thread" else []
    command += [sys.executable, __file__, "--tally", str(tally), part, "-q", "-p", "no:cacheprovider"]
    command += ["--color=yes"] * (sys.stdout.isatty() and "NO_COLOR" not in env)
    command += [*(only or [f"tests/test_{name}.py"]), *options]
    teach = {"WORKBOOK_TEACH": "1"} if shown and name.isdigit() else {}
    start = time.monotonic()
    with open(text, "wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**env, **teach}, stdin=subprocess.DEVNULL, stdout=None if shown else out,
            stderr=None if shown else subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    running.append(process)
    try:
        status = process.wait(FILE_LIMIT)
    except subprocess.TimeoutExpired:
        stop([process])
        status = process.returncode
    counts, failures, needs = read_tally(tally, status)
    return Outcome(name, counts, time.monotonic() - start, text.read_text(errors="backslashreplace"), failures, needs)


def read_tally(path: Path, status: int) -> Tuple[Counts, Tuple[str, ...], Tuple[str, ...]]:
    """The counts, the names of the tests that failed, and what those need that were left out. A pytest that broke down
    is one failure."""
    ids: Dict[str, List[str]] = {kind: [] for kind in (*KINDS, "needs")}
    if path.exists():
        ids.update(json.loads(path.read_text()))
    failures = tuple(dict.fromkeys(ids["failed"] + ids["error"]))
    if not failures and (status not in (0, 5) or not path.exists()):  # 5: nothing was selected
        failures = (f"pytest ended with status {status}",)
    passed = len(ids["passed"]) + len(ids["xpassed"])
    return Counts(passed, len(failures), len(ids["skipped"]) + len(ids["xfailed"])), failures, tuple(ids["needs"])


def stop(processes: List["subprocess.Popen[bytes]"]) -> None:
    """Ends pytests as Ctrl-C does, so that they end their servers; after a while by force."""
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    for process in processes:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def longest_first(names: List[str], times: Dict[str, float]) -> List[str]:
    """By the last run; before there is one, later chapters and the workbook's own tests first."""
    return sorted(names[::-1], key=lambda name: -times.get(name, 1e9))


def read_times(path: Path) -> Dict[str, float]:
    """Seconds of each file in earlier runs."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def report(outcome: Outcome) -> None:
    """One line; where something failed, all that pytest printed."""
    print(f"test_{outcome.name + '.py':16} {str(outcome.counts):32} {outcome.seconds:6.1f} s", flush=True)
    if outcome.counts.failed:
        print(outcome.output, flush=True)


def run_all(names: List[str], env: Dict[str, str], options: List[str], split: bool) -> List[Outcome]:
    """All files, JOBS at a time."""
    parts = 2 * JOBS if split else JOBS if env.get("SAN") and len(names) < JOBS else 1
    if len(names) * parts == 1:
        return [run(names[0], env, options, shown=True)]
    times_file = Path(env["WORKBOOK_BUILD"]) / "reports" / "times.json"
    times = read_times(times_file)
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        waiting = [
            pool.submit(run, name, env, options, False, (), f"{number}/{parts}")
            for name in longest_first(names, times)
            for number in range(parts)
        ]
        try:
            for done in concurrent.futures.as_completed(waiting):
                outcomes.append(done.result())
                report(outcomes[-1])
        except KeyboardInterrupt:
            for future in waiting:
                future.cancel()
            stop(running)
            raise
    if options in ([], NOT_CARRIED) and parts == 1:
        times.update({outcome.name: round(outcome.seconds, 1) for outcome in outcomes})
        times_file.write_text(json.dumps(times))
    return outcomes


def once_more(outcomes: List[Outcome], env: Dict[str, str], options: List[str]) -> List[Outcome]:
    """Runs what failed by itself, where it is little; what passes now is a failure no longer."""
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    if len(failures) > MANY or not all("::" in failure for failure in failures):
        return outcomes
    after = []
    for first in outcomes:
        if first.failures:
            second = run(first.name, env, options, False, first.failures)
            report(second)
            for failure in sorted(set(first.failures) - set(second.failures)):
                print(f"passed at the second try: {failure}")
            counts = Counts(first.counts.passed + second.counts.passed, second.counts.failed, first.counts.skipped)
            first = first._replace(counts=counts, failures=second.failures)
        after.append(first)
    return after


def what_is_wrong_with_theirs(names: List[str]) -> str:
    """Starts the server that SERVER= names, once: where it does not come up, every test would fail, each after its
    time limit. Returns what is wrong, "" where all is well or nothing of the kind is to be tested."""
    chapter = next((name for name in names if name.isdigit()), "")
    if not os.environ.get("SERVER") or not chapter:
        return ""
    sys.path.insert(0, str(TESTS))
    from harness import Server

    from harness.failure import explained
    from harness.process import kill_all

    try:
        Server(int(chapter)).__enter__()
    except AssertionError as problem:
        return "\n".join(explained(problem).lesson(COLUMNS))
    finally:
        kill_all()
    return ""


def left_out(outcomes: List[Outcome]) -> str:
    """One line about the tests that need what this machine has not; "" where there are none."""
    needs = Counter(need for outcome in outcomes for need in outcome.needs)
    parts = [f"{count} {'need' if count > 1 else 'needs'} {need}" for need, count in sorted(needs.items())]
    return f"left out: {', '.join(parts)}" if parts else ""


def total(outcomes: List[Outcome]) -> Counts:
    """The sum over all files."""
    return Counts(*(sum(column) for column in zip(*(outcome.counts for outcome in outcomes))))


def main() -> int:
    if sys.argv[1:2] == ["--tally"]:
        return pytest_with_tally(*sys.argv[2:])
    parser = argparse.ArgumentParser(usage="runtests.py (--all | --new | [--split] NAME...) [-- pytest options]")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--split", action="store_true")
    parser.add_argument("names", nargs="*")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args, options = parser.parse_args(words[:cut]), words[cut + 1 :]
    names = args.names
    if args.new and not (os.environ.get("SERVER") or os.environ.get("CLIENT") or os.environ.get("HEADERS")):
        options = NOT_CARRIED + options  # what the tables of changes say holds for our own programs
    if args.all or args.new:
        files = sorted(path.stem[len("test_") :] for path in TESTS.glob("test_*.py"))
        names = [name for name in files if name not in OWN_TARGET + OF_THE_TOOLS * args.new]
    missing = [name for name in names if not (TESTS / f"test_{name}.py").exists()]
    if missing or not names:
        print(f"there is no tests/test_{(missing or ['*'])[0]}.py", file=sys.stderr)
        return 2
    # Also SIGINT: a shell that runs us in the background has it ignored, and the servers would inherit that.
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.default_int_handler)
    start = time.monotonic()
    try:
        wrong = what_is_wrong_with_theirs(names)
        if wrong:
            print(f"No test was run, since SERVER={os.environ['SERVER']} cannot be tested:\n\n{wrong}", file=sys.stderr)
            return 1
        env = environment(Path(os.environ.get("WORKBOOK_BUILD", "build/test")).resolve(), args.all or args.new)
        outcomes = run_all(names, env, options, args.split)
        if os.environ.get("TEST_AGAIN") == "1":
            outcomes = once_more(outcomes, env, options)
    except KeyboardInterrupt:
        stop(running)
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has left, as head does
        stop(running)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    counts = total(outcomes)
    for outcome in outcomes if len(outcomes) > 1 else []:
        for failure in outcome.failures:
            print(f"failed: {failure}")
    if left_out(outcomes):
        print(left_out(outcomes))
    print(f"{counts} ({time.monotonic() - start:.0f} s)" + "; nothing was tested" * (not any(counts)))
    if options not in ([], NOT_CARRIED) and not any(counts):
        print("No test that can run here fits ARGS. Their names: functions in tests/test_NN.py and tests/cases/.")
    return 0 if any(counts) and not counts.failed else 1


if __name__ == "__main__":
    sys.exit(main())
