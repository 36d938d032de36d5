"""Tests of the tests: each program that is wrong on purpose (tests/broken/) must fail the test that is
meant for it, and the right one must pass it: `make test` sees to that, but for the cases that it leaves out.

    make broken                                  all of them
    make broken ARGS="-k 07-name-ends-at-nul"    one

Every fault is a pytest of its own, some at a time, with one or a few tests and always the same seed. All are forks of
one (tools/warm.py).
"""
from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple

import pytest

import faults
from layout import Problem, chapters
from warm import Warm

from harness import settings
from harness.build import ensure_built

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(100)]
NAMES = faults.names()
CHAPTERS = sorted({name[:2] for name in NAMES})
LIMIT = 60.0  # seconds for one pytest


class Outcome(NamedTuple):
    """What one pytest said."""

    passed: int
    failed: List[str]  # the messages
    errors: List[str]  # outside of the tests themselves: setup, collection, pytest itself


def run_pytest(warm: Warm, words: List[str], report: Path, env: Dict[str, str]) -> Outcome:
    """Runs these tests, up to the first failure, under these variables."""
    ours = ("SERVER", "CLIENT", "HEADERS", "WRAPPER", "SAN", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
    clean = {k: v for k, v in os.environ.items() if k not in ours}
    report.unlink(missing_ok=True)
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    ended = warm.pytest([*options, *words], {**clean, "TEST_SEED": "1", **env}, settings.limit(LIMIT))
    if ended.late:
        return Outcome(0, [], [f"pytest took longer than {settings.limit(LIMIT):g} s\n{ended.said}"])
    failed: List[str] = []
    errors: List[str] = []
    passed = 0
    for test in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        failed += map(text_of, test.findall("failure"))
        errors += map(text_of, test.findall("error"))
        passed += all(test.find(kind) is None for kind in ("failure", "error", "skipped"))
    if ended.status not in (0, 1, pytest.ExitCode.NO_TESTS_COLLECTED):
        errors.append(f"pytest ended with status {ended.status}\n{ended.said}")
    return Outcome(passed, failed, errors)


def text_of(report: ElementTree.Element) -> str:
    return f"{report.get('message', '')}\n{report.text or ''}".strip()


def try_wrong(name: str, warm: Warm) -> Outcome:
    """Builds the wrong programs and runs the test that must fail."""
    fault = faults.read(name)
    folder = settings.build_dir() / "broken" / name
    faults.build(fault, folder, settings.build_dir())
    outcome = Outcome(0, [], [])
    for _ in range(fault.tries):
        outcome = run_pytest(warm, fault.test, folder / "report.xml", faults.environment(folder, fault.time_factor))
        if outcome.failed or outcome.errors:
            break
    return outcome


def try_right(chapter: str, warm: Warm) -> Outcome:
    """Runs those tests of the chapter's faults that `make test` leaves out, with the right programs."""
    passed, failed, errors = 0, [], []
    wanted: Dict[str, List[str]] = {}  # a file -> expressions for -k
    nodes: List[str] = []
    for fault in (faults.read(name) for name in NAMES if name[:2] == chapter):
        path, *options = fault.test
        if options:
            wanted.setdefault(path, []).append(f"({options[1]})")
        else:
            nodes.append(path)
    runs = [[path, "-k", " or ".join(dict.fromkeys(names))] for path, names in wanted.items()]
    runs += [list(dict.fromkeys(nodes))] if nodes else []
    for i, words in enumerate(runs):
        report = settings.build_dir() / "broken" / f"right-{chapter}-{i}.xml"
        env = {"WORKBOOK_BUILD": str(settings.build_dir()), "WORKBOOK_PREBUILT": "1"}
        outcome = run_pytest(warm, [*words, "-m", "between"], report, env)
        passed, failed, errors = passed + outcome.passed, failed + outcome.failed, errors + outcome.errors
    return Outcome(passed, failed, errors)


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> "Iterator[Dict[str, Future[Outcome]]]":
    """All that was selected, under way: name of a fault, or number of a chapter -> its outcome."""
    items = [item for item in request.session.items if "outcomes" in getattr(item, "fixturenames", ())]
    selected = [item.callspec.params["name"] for item in items]
    (settings.build_dir() / "broken").mkdir(parents=True, exist_ok=True)
    jobs = int(os.environ.get("JOBS") or max(2, len(os.sched_getaffinity(0))))
    every = f"tests/test_{CHAPTERS[-1]}.py"
    with Warm([every]) as warm, ThreadPoolExecutor(2 * jobs + 1) as pool:  # what is wrong often waits
        found = {name: pool.submit(try_right if name in CHAPTERS else try_wrong, name, warm) for name in selected}
        try:
            yield found
        finally:
            for future in found.values():
                future.cancel()


@pytest.fixture(scope="session", autouse=True)
def built(request: pytest.FixtureRequest) -> None:
    """The right programs of the chapters that are looked at are there (make has built them, or does so now)."""
    items = [item for item in request.session.items if "outcomes" in getattr(item, "fixturenames", ())]
    for chapter in sorted({item.callspec.params["name"][:2] for item in items}):  # type: ignore[attr-defined]
        ensure_built(int(chapter))


def no_problem(call: Callable[[], Outcome]) -> Outcome:
    """What it returns; a Problem fails the test with its text."""
    try:
        return call()
    except Problem as problem:
        pytest.fail(str(problem), pytrace=False)


# ---- each fault ----


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_right_program_passes(name: str, outcomes: "Dict[str, Future[Outcome]]") -> None:
    outcome = no_problem(outcomes[name].result)
    if outcome.failed or outcome.errors:
        text = "\n\n".join(outcome.failed + outcome.errors)
        pytest.fail(f"chapter {name} as it is fails the tests that faults must fail\n\n{text}", pytrace=False)


@pytest.mark.parametrize("name", NAMES)
def test_the_wrong_program_fails(name: str, outcomes: "Dict[str, Future[Outcome]]") -> None:
    outcome = no_problem(outcomes[name].result)
    if outcome.failed and not outcome.errors:
        return
    fault = faults.read(name)
    words = "\n".join(outcome.errors) or f"passed {outcome.passed} tests and failed none"
    pytest.fail(
        f"{fault.where}: {fault.fault}\nThe program with this fault must fail\n"
        f"    {' '.join(fault.test)}\nand did not: {words}\n"
        f"    python3 tests/tools/changes.py make {name}\nbuilds it and shows how to run the test.",
        pytrace=False,
    )


# ---- all of them ----


def test_every_chapter_and_every_structure_has_faults() -> None:
    every = [faults.read(name) for name in NAMES]
    paths = {hunk.file for fault in every for hunk in fault.change.hunks}
    for chapter in chapters():
        assert sum(fault.chapter == chapter for fault in every) >= 2, f"chapter {chapter} has fewer than 2 faults"
    structures = "io wire request hash hashtable buf serial avl avl_offset zset dlist heap thread_pool"
    for name in structures.split():
        assert f"common/{name}.h" in paths, f"no fault is in common/{name}.h"
    assert any(path.endswith("client.c") for path in paths)


# ---- forks of one pytest ----

TESTS = """\
import os, signal, time
def test_environment():
    assert sorted(os.environ) == ["ALONE", "PYTEST_CURRENT_TEST"]
def test_hangs():
    time.sleep(60)
def test_crashes():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_comes_of_a_fork_is_told(tmp_path: Path) -> None:
    """It has its own environment; one that hangs is ended, and one that crashes has no status."""
    (tmp_path / "test_it.py").write_text(TESTS)
    with Warm(["tests/test_03.py"]) as warm:
        for name, status, late, seconds in (
            ("environment", 0, False, 30), ("hangs", pytest.ExitCode.INTERRUPTED, True, 1), ("crashes", None, False, 30)
        ):  # fmt: skip
            words = ["-q", "-p", "no:cacheprovider", f"{tmp_path}/test_it.py::test_{name}"]
            ended = warm.pytest(words, {"ALONE": "1"}, settings.limit(seconds))
            assert (ended.status, ended.late) == (status, late), ended.said


# ---- the format ----

GOOD = """\
fault: f() returns too much.
symptom: Whatever one does,
  it is too much.
test: tests/test_03.py -k "a or b"
says: a_case: is it: less?
time_factor: 0.5
tries: 2

@@ chapters/03/a.c, f()
-    return x;
+    return x + 1;
"""


def test_a_fault_is_read() -> None:
    fault = faults.parse("03-too-much", GOOD)
    assert fault[:8] == (
        "03-too-much", "f() returns too much.", "Whatever one does, it is too much.",
        ["tests/test_03.py", "-k", "a or b"], "a_case", "is it: less?", "0.5", 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("fault: f()", "falt: f()", "03-too-much.fault: says nothing about `fault`"),
        ("time_factor: ", "factor: ", "03-too-much.fault: nobody knows `factor`"),
        ("test: ", "# test: ", "says nothing about `test`"),
        ("test_03.py", "test_04.py", "the test must be tests/test_03.py::NAME or"),
        ("a_case: is", "is", "write `says: CASE: WORDS`"),
        (GOOD[GOOD.index("@@") :], "", "changes nothing"),
    ],
)
def test_a_fault_that_is_not_understood_is_refused(old: str, new: str, why: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(Problem, match=re.escape(why)):
        faults.parse("03-too-much", GOOD.replace(old, new))
