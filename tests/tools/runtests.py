"""Runs test files side by side, a pytest for each (warm.py), and sums up.

    runtests.py 03 04 stages [--split 24] [-- pytest options]      07 for tests/test_07.py,
                                                                  stages for tests/selftests/test_stages.py

What stands behind --split is cut into parts that run side by side. What takes longest begins: these, selftests, later
chapters. JOBS says how many run at once. What a file prints is shown where something failed; the end counts, and names
what failed.
"""
from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Dict, List, NamedTuple, Optional, Tuple

from warm import Warm

JOBS = int(os.environ.get("JOBS") or 1 + len(os.sched_getaffinity(0)))  # a test waits now and then
LIMIT = 2400  # seconds for one pytest: tests have limits of their own, this one is for pytest itself


class Outcome(NamedTuple):
    """What became of a file's tests."""

    passed: int
    skipped: int
    failures: List[str]
    needs: Dict[str, int]  # what is not installed -> how many tests were left out for that
    output: str

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed" + f", {self.skipped} skipped" * bool(self.skipped)


def file_of(name: str) -> str:
    return f"tests/test_{name}.py" if name.isdigit() else f"tests/selftests/test_{name}.py"


def run(name: str, part: str, options: List[str], warm: Warm) -> Tuple[Outcome, float]:
    """Runs a part of one test file; returns its outcome and how many seconds that took."""
    words = ["-q", "-rfEs", "-p", "no:cacheprovider", file_of(name)]
    words += [f"--part={part}"] * (part != "0/1")
    words += ["--color=yes"] * (sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    start = time.monotonic()
    ended = warm.pytest([*words, *options], dict(os.environ), LIMIT)
    return read(file_of(name), ended.said, ended.status), time.monotonic() - start


def read(file: str, output: str, status: Optional[int]) -> Outcome:
    """The outcome, by pytest's summary. A pytest that broke down is one failure."""
    plain = re.sub(r"\033\[[\d;]*m", "", output)
    summary = plain.rpartition(" short test summary info ")[2]
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (\w+)", plain.rstrip().rpartition("\n")[2])}
    failures = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", summary, re.M)
    if not failures and (status not in (0, 5) or status == 0 and not counts):  # 5: nothing was selected
        failures = [f"{file}: pytest {'has crashed' if status is None else f'ended with status {status}'}"]
    needs = {what: int(n) for n, what in re.findall(r"^SKIPPED \[(\d+)\] .*: needs (.*)$", summary, re.M)}
    passed, skipped = counts.get("passed", 0), counts.get("skipped", 0) + counts.get("xfailed", 0)
    return Outcome(passed, skipped, failures, needs, output)


def run_all(work: List[Tuple[str, str]], options: List[str]) -> List[Outcome]:
    """All of it, JOBS at a time, with a line for each as it is done."""
    outcomes = []
    last = max((file_of(name) for name, _ in work), default="tests/conftest.py")  # of chapters, which has all cases
    with Warm([last]) as warm, ThreadPoolExecutor(JOBS) as pool:
        names = {pool.submit(run, name, part, options, warm): name for name, part in work}
        try:
            for done in as_completed(names):
                outcome, seconds = done.result()
                outcomes.append(outcome)
                print(f"test_{names[done] + '.py':16} {str(outcome):32} {seconds:6.1f} s", flush=True)
                if outcome.failures:
                    print(outcome.output, flush=True)
        finally:  # also of Ctrl-C
            for future in names:
                future.cancel()
            warm.end()
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(usage="runtests.py [NAME ...] [--split NAME ...] [-- pytest options]")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--split", nargs="+", default=[])
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args, options = parser.parse_args(words[:cut]), words[cut + 1 :]
    parts = 2 * JOBS
    work = [(name, f"{number}/{parts}") for name in args.split for number in range(parts)]
    work += [(name, "0/1") for name in sorted(args.names, key=lambda name: (not name.isdigit(), name), reverse=True)]
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGINT is ignored in the background of a script
        signal.signal(sig, signal.default_int_handler)
    start = time.monotonic()
    try:
        outcomes = run_all(work, options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    needs = sum((Counter(outcome.needs) for outcome in outcomes), Counter())
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    total = Outcome(sum(o.passed for o in outcomes), sum(o.skipped for o in outcomes), failures, needs, "")
    for failure in failures:
        print(f"failed: {failure}")
    if needs:
        print("left out: " + ", ".join(f"{count} need {what}" for what, count in sorted(needs.items())))
    nothing = not any((total.passed, total.skipped, failures))
    print(f"{total} ({time.monotonic() - start:.0f} s)" + "; nothing was tested" * nothing)
    return 1 if failures or nothing else 0


if __name__ == "__main__":
    sys.exit(main())
