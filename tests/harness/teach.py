"""make test-NN for a server that is being built: the first thing to mend, and behind it the rest, counted by cause.

The tests of a chapter go from simple to hard: that it answers at all, then what the chapter brings, then what the
chapters before have brought, abuse and resources at the end. So the first failure is the one to mend first. The others
run on for a while, to be counted. Ending on SIGTERM has a test of its own: the others say it once, and go on by killing
the server.
"""
from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import pytest

from . import redis, settings
from .failure import NO_CAUSE, Cause, Failure, cause, explained, laid_out
from .process import Server
from .session import load

COLUMNS, ROWS = 80, 20  # of a terminal of 24, without the last line of dots, the counts, what make says and the prompt
FITS = [(4, 3), (3, 3), (3, 1), (2, 1), (1, 1)]  # rows of a block and causes behind the first, what fits is taken
PATIENCE = 10.0  # seconds in which the other tests are counted
UNKNOWN = ["the tests know no likely cause. strace -f ./server shows each call that the server makes."]
SENT = "what was sent last stands above, what came below it: send it by hand (the chapter's client, or nc), and look"
LAB = (
    "the program of the chapter's folder prints the line that does not hold: build it there with make, and run it by "
    "itself"
)
STARTS = "starts_where_it_is_told"  # without it nothing else can be tested


FIRST = ("test_03", "test_05", "test_06", "resp", "test_04")  # nothing works without these
LESSONS = (
    "test_07", "test_08", "test_09", "test_11", "test_12", "test_13", "files", "turns", "ttl", "keyspace", "scan",
    "expiry", "transactions", "pubsub", "inboxes", "events", "batches", "crowd", "loans",
    "durability", "settings", "crash",
)  # fmt: skip


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
    is_case = hasattr(function, "chapters")
    if is_case and module in FIRST:
        return 0, 2 + FIRST.index(module), getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
    if is_case and module in LESSONS:
        chapter = re.search(r"test_(\d\d)\.py::", item.nodeid)
        old = chapter and int(chapter[1]) - 1 in getattr(function, "chapters", ())
        return (2 if old else 1), LESSONS.index(module) + len(LESSONS) * name.startswith("random")
    if is_case:
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
    """The same failure, with the likely cause of its case where it has none of its own, and with what was expected:
    where it does not tell, that is the last sentence of what the case says of itself."""
    function = function_of(item)
    why = failure.why or cause(fallback(function))
    says = " ".join((getattr(function, "__doc__", None) or "").split())
    blocks = failure.blocks
    if says and not any(title == "expected" for title, _ in blocks):
        last = re.split(r"(?<=[.:;])\s+", says)[-1].rstrip(".")
        if not re.match(r"Those |The thread", last) and not re.search(r"\.(py|c)\b|tests/", last):  # of how, not what
            blocks = [*blocks, ("expected", [last])]
    return Failure(failure.what, blocks, why)


def fallback(function: Any) -> str:
    """What is usually wrong where this case or test fails: as it says, or as its module does."""
    module = getattr(function, "__module__", "")
    words = getattr(function, "perhaps", "") or getattr(sys.modules.get(module), "PERHAPS", "")
    if words or hasattr(function, "chapters"):
        return words or SENT
    chapter = re.fullmatch(r"test_(\d\d)", module)
    return of_a_lab_program(chapter[1]) if chapter and function.__name__ not in ("test_session", "test_vector") else ""


def of_a_lab_program(chapter: str) -> str:
    """What to do where one fails; with the line to type where the chapter has one that tests."""
    programs = [path.stem for path in settings.ROOT.glob(f"chapters/{chapter}/test_*.c")]
    if len(programs) != 1:
        return LAB
    run = f"make {chapter} && chapters/{chapter}/{programs[0]}"
    return f"{programs[0]} prints the line that does not hold, and calls fewer functions than a server: {run}"


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
        self.once: Dict[str, int] = {}  # faults that are said once, and how many tests met them
        Server.count_once = self.count_once

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

    def count_once(self, why: Cause) -> None:
        self.once[why.words] = self.once.get(why.words, 0) + 1

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
        for words, count in self.once.items():
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
