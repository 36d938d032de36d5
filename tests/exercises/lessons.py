"""What became of each test of a grader, as lines of JSON in $GRADE_RESULTS: a plugin of pytest (conftest.py).

    {"begin": "test_fewer_reads"}
    {"test": "test_fewer_reads", "status": "failed", "what": .., "blocks": [["came", [..]], ..], "why": .., "from": ..}

status is passed, failed or skipped. What failed is told in the parts of a Failure (harness/failure.py); there is no
traceback in it.
"""
from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Dict, Iterator

import pytest

from harness import settings, teach
from harness.failure import Failure, explained

MOST_LINES, MOST_COLUMNS = 60, 2000  # of a block
LOG_LINES, LOG_COLUMNS = 8, 92

_began = 0.0  # when the test began that runs now


def cleaned(text: str) -> str:
    """The text without the grader's own folders and wrapper, cut where it is longer than anybody reads."""
    text = text.partition("Shadow bytes around")[0].rstrip()  # the end of a sanitizer's report tells nobody anything
    text = re.sub(r"\S+ -I -S \S*sandbox\.py .*? -- ", "", text)
    if "SUBMISSION" in os.environ:
        scratch = re.escape(os.path.dirname(os.environ["SUBMISSION"]))
        text = re.sub(scratch + r"(/build-\d+)?/(bin|src|home|guest)(/\d\d)?/", "./", text)
    lines = [shortened(line, MOST_COLUMNS) for line in text.splitlines()]
    return "\n".join(lines[:MOST_LINES] + ["..."] * (len(lines) > MOST_LINES))


def shortened(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[:columns] + " ..."


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "points(n, title, instructor): what a test of a grader is worth")


def record(**entry: object) -> None:
    """Adds a line to the results."""
    with open(os.environ["GRADE_RESULTS"], "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(json.dumps(entry) + "\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _began
    _began = time.monotonic()
    record(begin=_name(item))
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[Any]") -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.passed and report.when != "call":
        return
    record(
        test=_name(item), tried=teach.tried(item), case=item.name[len(_name(item)) :], status=report.outcome,
        seed=settings.seed() if settings.seed_used else 0, **{"from": _began, "to": time.monotonic()},
        **parts(report, call),
    )  # fmt: skip


def parts(report: pytest.TestReport, call: "pytest.CallInfo[Any]") -> Dict[str, object]:
    """What a test has to say that was not passed."""
    if report.passed or not call.excinfo:
        return {}
    if report.skipped:
        failed = Failure("", [("skipped", str(call.excinfo.value).splitlines())])
    else:
        failed = explained(call.excinfo.value, teach.statement(call.excinfo))
        if not any(title == "printed" for title, _ in failed.blocks):  # what the harness printed of the server
            log = [shortened(line.strip(), LOG_COLUMNS) for line in report.capstdout.strip().splitlines()]
            failed = failed.and_also("printed", "\n".join(log[-LOG_LINES:]))
    blocks = [(title, cleaned("\n".join(lines)).splitlines()) for title, lines in failed.blocks]
    return {"what": cleaned(failed.what), "blocks": blocks, "why": cleaned(failed.why.words)}


def _name(item: pytest.Item) -> str:
    """The test's function: all cases of a parametrized one count as one test."""
    return getattr(item, "originalname", None) or item.name


def pytest_collectreport(report: "pytest.CollectReport") -> None:
    if report.failed:
        words = str(report.longrepr).strip().splitlines() or ["the tests cannot be read"]
        record(broken=re.sub(r"^E +", "", words[-1]))
