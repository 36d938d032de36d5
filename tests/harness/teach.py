"""make test-NN for a server that is being built: the first thing to mend, and behind it the rest, counted by cause.

The tests of a chapter go from simple to hard: that it answers at all, then what the chapter brings, then what the
chapters before have brought, abuse and resources at the end. So the first failure is the one to mend first. The others
run on for a while, to be counted; none waits long for a cause that is known by then. Ending on SIGTERM has a test of
its own: the others say it once, and go on by killing the server.
"""
from __future__ import annotations

import os
import re
import shlex
import textwrap
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import pytest

from . import perhaps, redis, settings
from .failure import NO_CAUSE, Cause, Failure, cause, explained, laid_out
from .session import load

COLUMNS, ROWS = 80, 20  # of a terminal of 24, without the last line of dots, the counts, what make says and the prompt
FITS = [(4, 3), (3, 3), (3, 1), (2, 1), (1, 1)]  # rows of a block and causes behind the first, what fits is taken
PATIENCE = 10.0  # seconds in which the other tests are counted
UNKNOWN = ["the tests know no likely cause. strace -f ./server shows each call that the server makes."]
STARTS = "starts_where_it_is_told"  # without it nothing else can be tested


FIRST = ("basics", "resp", "framing")  # nothing works without these
LESSONS = ("strings", "replies", "zsets", "idle", "ttl", "keyspace", "scan", "expiry", "batches", "crowd")


class Bad(NamedTuple):
    """A test that failed."""

    nodeid: str
    tried: str
    failure: Failure


def function_of(item: pytest.Item) -> Any:
    """The function that a test calls: the case, where it is one."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("case") or getattr(item, "function", None)


def place(item: pytest.Item) -> Tuple[int, ...]:
    """Where a test stands among those of its chapter; tests of one place keep their order."""
    function = function_of(item)
    module, name = getattr(function, "__module__", "").rpartition(".")[2], getattr(function, "__name__", "")
    if name in (STARTS, "test_session"):
        return 0, (STARTS, "test_session").index(name)
    if module in FIRST:
        return 0, 2 + FIRST.index(module), getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
    if module in LESSONS:
        chapter = re.search(r"test_(\d\d)\.py::", item.nodeid)
        old = chapter and int(chapter[1]) - 1 in getattr(function, "chapters", ())
        return (2 if old else 1), LESSONS.index(module) + len(LESSONS) * name.startswith("random")
    if not re.fullmatch(r"test_\d\d", module):
        return 4, 0
    if name == "test_vector":
        return 3, 0
    if name.endswith("_ends"):  # of what another test began, some seconds ago
        return 4, 0
    return (5 if "lab_program_" in name else 1), 2 * len(LESSONS)


def tried(item: pytest.Item) -> str:
    """What a test does, in a sentence or two: its name in words, and what its docstring says."""
    vector = getattr(getattr(item, "callspec", None), "params", {}).get("vector")
    function = function_of(item)
    name = vector.name if vector else getattr(function, "__name__", item.name)
    if name == "test_session":
        name = item.callspec.params["name"]  # type: ignore[attr-defined]
        return f"session {name}: {load(name).title}"
    words = re.sub(r"^test_", "", name).replace("_", " ").replace("-", " ")
    text = vector.note if vector else " ".join((getattr(function, "__doc__", None) or "").split())
    return f"{words}: {text}" if text else words


def with_cause(item: pytest.Item, failure: Failure) -> Failure:
    """The same failure, with the likely cause of its case where it has none of its own."""
    function = function_of(item)
    says = " ".join((getattr(function, "__doc__", None) or "").split())
    return perhaps.perhaps(getattr(function, "__module__", ""), getattr(function, "__name__", ""), failure, says)


def next_line(nodeid: str) -> str:
    """What to type to see this test alone."""
    name = re.sub(r".*::\w+\[(.*)\]$|.*::", r"\1", nodeid)
    line = make_line(nodeid, f"-k {name}") if re.fullmatch(r"[\w.+-]+", name) else ""
    return line or settings.repeat_line(nodeid)


def make_line(nodeid: str, options: str) -> str:
    """What to type to run the tests of the same chapter with these options; "" where it is in no chapter's tests."""
    chapter = re.search(r"test_(\d\d)\.py::", nodeid)
    if not chapter:
        return ""
    words = ["make", f"test-{chapter[1]}"]
    for variable in ("SERVER", "CLIENT"):
        if os.environ.get(variable):
            words.append(f"{variable}={shlex.quote(os.environ[variable])}")
    if settings.seed_used:
        words.append(f"TEST_SEED={settings.seed()}")
    return " ".join([*words, f'ARGS="{options}"' if " " in options else f"ARGS={options}"])


class Teacher:
    """The pytest plugin."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.bad: List[Bad] = []
        self.not_run = self.left_out = 0
        self.stop_at = float("inf")
        self.next = ""
        settings.remarks = {}

    # ---- running ----

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        items.sort(key=place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if time.monotonic() < self.stop_at:
            return None
        self.not_run += 1
        return True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[Any]") -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()
        if report.failed and call.excinfo:
            self.note(item, explained(call.excinfo.value, statement(call.excinfo)))

    def note(self, item: pytest.Item, failure: Failure) -> None:
        """Takes down a failure; the first one sets the time that is left."""
        failure = with_cause(item, failure)
        if not self.bad:
            self.next = next_line(item.nodeid)
            self.stop_at = time.monotonic() + (0 if f"[{STARTS}]" in item.nodeid else self.patience)
        self.bad.append(Bad(item.nodeid, tried(item), failure))
        if failure.why:
            settings.known.add(failure.why.key)

    # ---- the report ----

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        if self.bad:
            terminalreporter.ensure_newline()
            terminalreporter.write("\n".join(self.report()) + "\n")
        elif self.left_out:
            terminalreporter.ensure_newline()
            terminalreporter.write_line(left_out(self.left_out))

    def report(self) -> List[str]:
        """All of it, no more than fits on a screen."""
        first, others = self.with_a_cause(self.bad[0]), self.others()
        lines: List[str] = []
        for block, causes in FITS:
            lesson = first.failure.lesson(COLUMNS, block)
            lines = ["The first thing to mend", *sentences("tried", first.tried, max(2, block)), *lesson]
            lines += [] if first.failure.why else laid_out("perhaps", UNKNOWN, COLUMNS)
            lines += [f"{'next':<10}{self.next}", *self.behind(others, causes), *self.missing()]
            if sum(map(rows, lines)) <= ROWS:
                break
        return lines

    def with_a_cause(self, first: Bad) -> Bad:
        """A session shows what differs, and not why. The first test that fails with a cause may know."""
        causes = [bad.failure.why for bad in self.bad if bad.failure.why]
        if "::test_session[" not in first.nodeid or not causes:
            return first
        return first._replace(failure=Failure(first.failure.what, first.failure.blocks, causes[0]))

    def others(self) -> List[Tuple[Cause, int]]:
        """The causes of the other failures and how often each was met, the first thing's own first."""
        counts: Dict[str, int] = {}
        words: Dict[str, Cause] = {}
        for bad in self.bad[1:]:
            why = bad.failure.why or cause(bad.failure.what.split("\n")[0])
            counts[why.key] = counts.get(why.key, 0) + 1
            words.setdefault(why.key, why)
        mine = self.with_a_cause(self.bad[0]).failure.why.key
        return [(words[key], counts[key]) for key in sorted(counts, key=lambda key: (key != mine, -counts[key]))]

    def behind(self, others: List[Tuple[Cause, int]], most: int) -> List[str]:
        """What else failed, by cause; and what was said once."""
        lines = []
        mine = self.with_a_cause(self.bad[0]).failure.why or NO_CAUSE
        for why, count in others[:most]:
            same = "for the same cause" if mine and why.key == mine.key else why.short
            lines.append(cut(f"{count:6} more: {same}"))
        if len(others) > most:
            rest = sum(count for _, count in others[most:])
            lines.append(f"{rest:6} more, of {len(others) - most} other cause{'s' * (len(others) > most + 1)}")
        for words, count in (settings.remarks or {}).items():
            lines.append(cut(f"{count:6} servers had to be killed: {words}"))
        return ["Behind it"] + lines if lines else lines

    def missing(self) -> List[str]:
        """What was not run."""
        if self.not_run:
            line = make_line(self.bad[0].nodeid, "--everything") or "ARGS=--everything"
            return [f"{self.not_run} were not run yet. All of them, with each failure in full: {line}"]
        return [left_out(self.left_out)] if self.left_out else []


def left_out(count: int) -> str:
    more = ", or rest on limits of our own," if redis.is_tested() else ""
    return f"SERVER= is set: {count} tests that look inside this project{more} were left out"


def statement(excinfo: Any) -> str:
    """The line of code that raised."""
    try:
        return str(excinfo.traceback[-1].statement).strip()
    except Exception:  # noqa: BLE001  (there may be no source)
        return ""


def sentences(title: str, text: str, most: int) -> List[str]:
    """A text beside its title, cut after some rows."""
    lines = textwrap.wrap(text, COLUMNS - 10)
    return laid_out(title, lines[:most] if len(lines) <= most else [*lines[: most - 1], lines[most - 1] + " ..."])


def cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 4] + " ..."


def rows(line: str) -> int:
    """The rows that a line takes on the screen."""
    return max(1, -(-len(line) // COLUMNS))
