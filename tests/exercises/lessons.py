"""A pytest plugin (-p lessons): what became of each test, in words that teach, as lines of JSON in $GRADE_RESULTS.

    {"begin": "test_fewer_reads"}
    {"test": "test_fewer_reads", "status": "failed", "lesson": "came      ...", "seconds": 0.4, "from": .., "to": ..}

status is passed, failed or skipped. A lesson has no traceback: it is what the assertion says, or in plain words
what happened instead.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
import time
from typing import Any, Dict, Iterator, List, Sequence

import pytest

MOST_LINES, MOST_COLUMNS = 60, 200
FOLD = 96  # columns of a sentence
LOG_LINES = 8
TITLED = re.compile(r"(tried|came|expected|perhaps) {2,}\S")  # a line that has its title already
LOGGED = re.compile(r"it printed( nothing|:)|the last \d+ lines that it printed:")

_began = 0.0  # when the test began that runs now


class Lesson(AssertionError):
    """A failure that says all itself: blocks under the titles of a lesson."""


def block(title: str, text: object) -> List[str]:
    """The lines of a text beside a title in the margin; sentences are folded, what is laid out in columns is not."""
    lines: List[str] = []
    for line in str(text).splitlines() or [""]:
        lines += [line] if len(line) <= FOLD or "  " in line else textwrap.wrap(line, FOLD, break_long_words=False)
    return [f"{title if i == 0 else '':<10}{line}".rstrip() for i, line in enumerate(lines)]


def explained(value: BaseException, statement: str = "") -> str:
    """The lesson of an exception. statement is the line of the test where it came from."""
    if isinstance(value, Lesson):
        return str(value)
    if isinstance(value, AssertionError) and getattr(value, "blocks", None):
        return "\n".join(value.lesson(FOLD + 10))  # a failure of the harness, in its parts
    if isinstance(value, AssertionError):
        text = str(value) or f"this does not hold: {statement}"
        return in_blocks(re.sub(r"^assert (?=[^\n])", "this does not hold: ", text, flags=re.M))
    if isinstance(value, pytest.fail.Exception):
        return in_blocks(str(value))
    if isinstance(value, ConnectionError):
        came = block("came", f"the connection broke: {value.strerror}")
        return "\n".join(came + block("perhaps", "did the server crash, or hang up?"))
    if isinstance(value, (TimeoutError, subprocess.TimeoutExpired)):
        return "\n".join(block("came", "nothing, within the time that there is"))
    if isinstance(value, OSError):
        return "\n".join(block("came", f"the system says: {value}"))
    words = f"the grader stumbled, {type(value).__name__}: {value}"
    return "\n".join(block("came", words) + block("perhaps", "what came is so unlike what it expects that it is lost"))


def in_blocks(text: str) -> str:
    """What the harness says: a line, then blocks, which it indents. Here they stand in the margin."""
    first, *rest = text.split("\n")
    titled = TITLED.match(first)
    lines = [first] if titled else block("came", first)
    rest = [line for line in rest if line.strip() and not line.startswith("  Use -v to get")]
    title = ""  # of what follows, while it is what the server printed
    for line in rest:
        if LOGGED.fullmatch(line):
            title = "printed"
            lines += block(title, "nothing") * line.endswith("nothing")
        elif title and line.startswith("  "):
            lines += block(title, line[2:])
            title = " "
        elif line.startswith("and the server"):
            lines += block("and", line[4:])
            title = ""
        else:
            lines.append(line[2:] if line.startswith("  ") and not titled else line)
    return "\n".join(lines)


def cleaned(text: str) -> str:
    """The text without the grader's own folders and wrapper, cut to what a terminal can show."""
    text = text.partition("Shadow bytes around")[0].rstrip()  # the end of a sanitizer's report tells nobody anything
    text = re.sub(r"\S+ -I -S \S*sandbox\.py .*? -- ", "", text)
    if "SUBMISSION" in os.environ:
        scratch = re.escape(os.path.dirname(os.environ["SUBMISSION"]))
        text = re.sub(scratch + r"(/build-\d+)?/(bin|src|home|guest)(/\d\d)?/", "./", text)
    lines = [line if len(line) <= MOST_COLUMNS else line[:MOST_COLUMNS] + " ..." for line in text.splitlines()]
    return "\n".join(lines[:MOST_LINES] + ["..."] * (len(lines) > MOST_LINES))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "points(n, title, instructor): what a test of a grader is worth")


def record(entry: Dict[str, object]) -> None:
    """Adds a line to the results."""
    with open(os.environ["GRADE_RESULTS"], "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(json.dumps(entry) + "\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _began
    _began = time.monotonic()
    record({"begin": _name(item)})
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[Any]") -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.passed and report.when != "call":
        return
    lesson = ""
    if report.failed and call.excinfo:
        lesson = explained(call.excinfo.value, _statement(call.excinfo))
        if not re.search("^printed ", lesson, re.M):  # the same lines need not be there twice
            lesson = "\n".join([lesson, *_log(report.capstdout)])
    elif report.skipped and call.excinfo:
        lesson = "\n".join(block("skipped", call.excinfo.value))
    record({
        "test": _name(item), "tried": _tried(item), "case": item.name[len(_name(item)) :], "status": report.outcome,
        "lesson": cleaned(lesson), "seed": _seed(), "from": _began, "to": time.monotonic(),
    })  # fmt: skip


def _name(item: pytest.Item) -> str:
    """The test's function: all cases of a parametrized one count as one test."""
    return getattr(item, "originalname", None) or item.name


def _tried(item: pytest.Item) -> str:
    """What the test does, for one of the chapter's that a grader runs."""
    from harness import teach

    return teach.tried(item)


def _statement(excinfo: Any) -> str:
    """The line of code that raised."""
    try:
        return str(excinfo.traceback[-1].statement).strip()
    except Exception:  # noqa: BLE001  (there may be no source)
        return ""


def _log(printed: str) -> Sequence[str]:
    """The end of what the harness printed beside the failure: the server's own output."""
    lines = [line.strip() for line in printed.strip().splitlines()[-LOG_LINES:]]
    short = [line if len(line) <= FOLD else line[: FOLD - 4] + " ..." for line in lines]
    return block("printed", "\n".join(short)) if lines else []


def _seed() -> int:
    """The seed of the test where it asked for one, or 0."""
    from harness import settings

    return settings.seed() if settings.seed_used else 0


def pytest_collectreport(report: "pytest.CollectReport") -> None:
    if report.failed:
        words = str(report.longrepr).strip().splitlines() or ["the tests cannot be read"]
        record({"broken": re.sub(r"^E +", "", words[-1])})
