"""What every test gets: built programs, a time limit of its own, the line that repeats it.

Markers: `time_limit(seconds)` changes a test's limit (default 20 s); `inside` is for tests that look inside this
project (stages, headers, unit programs): they are left out where SERVER= names another program; `ours(why)` is for
those that hold for our servers and not for Redis, left out where SERVER= names that; `between` is for cases that have
run in an earlier chapter and run in a later one, which make test leaves out. TEST_TIME_FACTOR multiplies all limits.

WORKBOOK_TEACH is what make test-NN sets: after the first failure the others are only counted (harness/teach.py).
"""
from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE / folder) for folder in ("tools", "learn", "exercises"))]  # for all tests

pytest.register_assert_rewrite("cases")  # its plain assertions say what did not hold
from harness import build, process, redis, settings, teach  # noqa: E402
from harness.failure import explained  # noqa: E402

DEFAULT_LIMIT = 20.0
_left_out = 0
_teacher: Optional[teach.Teacher] = None

for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of the make that runs us: tests run others
    os.environ.pop(name, None)
if "WORKBOOK_BUILD" in os.environ:
    os.environ["WORKBOOK_BUILD"] = str(settings.build_dir())  # also for what runs in another folder


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbook")
    group.addoption("--everything", action="store_true", help="show all failures in full, also for make test-NN")
    group.addoption("--part", default="0/1", metavar="I/N", help="run every Nth test, from the one with number I on")
    group.addoption("--patience", type=float, default=teach.PATIENCE, metavar="SECONDS",
                    help="for how long make test-NN counts more failures")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "time_limit(seconds): the test's own time limit (default 20)")
    config.addinivalue_line("markers", "inside: looks inside this project, left out under SERVER=")
    config.addinivalue_line("markers", "ours(why): holds for our servers and not for Redis, left out there")
    config.addinivalue_line("markers", "between: neither the first nor the last chapter that has this case")
    if os.environ.get("WORKBOOK_TEACH") and not config.option.everything:
        global _teacher
        _teacher = teach.Teacher(config.option.patience)
        config.pluginmanager.register(_teacher)
        config.option.tbstyle, config.option.reportchars, config.option.verbose = "no", "N", -1
    if "GRADE_RESULTS" in os.environ:
        config.pluginmanager.register(importlib.import_module("lessons"))  # takes down what becomes of each test
    try:
        settings.limit(1)
    except ValueError:
        raise pytest.UsageError(f"TEST_TIME_FACTOR={os.environ['TEST_TIME_FACTOR']}: not a number") from None
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "short"
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, _interrupted)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script: servers would ignore it, too
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(sig: int, frame: object) -> None:
    """Leaves through the context managers and atexit, so that no server stays behind."""
    raise KeyboardInterrupt(f"ended by {process.signal_name(sig)}")


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    global _left_out
    number, parts = map(int, config.option.part.split("/"))
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % parts != number])
    items[:] = items[number::parts]
    if not settings.foreign("server"):
        return
    left_out = ("inside", "ours") if redis.is_tested() else ("inside",)
    kept: List[pytest.Item] = []
    inside: List[pytest.Item] = []
    for item in items:
        (inside if any(map(item.get_closest_marker, left_out)) else kept).append(item)
    _left_out = len(inside)
    if _teacher:
        _teacher.left_out = _left_out
    config.hook.pytest_deselected(items=inside)
    items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the chapters of the selected test files first, outside of any test's time."""
    names = sorted({match.group(1) for item in session.items for match in [_chapter_of(item)] if match})
    if session.config.option.collectonly:
        return
    if settings.foreign("server"):
        return _start_theirs(names)
    for name in names:
        with contextlib.suppress(AssertionError):  # each test that needs the program will say so
            build.ensure_built(int(name))


def _start_theirs(names: List[str]) -> None:
    """Starts the server that SERVER= names, once: where it does not come up, every test would fail, each after its
    time limit."""
    try:
        for name in names[:1]:
            process.Server(int(name)).__enter__()
    except AssertionError as problem:
        lesson = "\n".join(explained(problem).lesson(teach.COLUMNS))
        says = f"No test was run, since SERVER={os.environ['SERVER']} cannot be tested:\n\n{lesson}"
        raise pytest.UsageError(says) from None
    finally:
        process.kill_all()


def _chapter_of(item: pytest.Item) -> Optional["re.Match[str]"]:
    return re.search(r"\btest_(\d\d)\.py::", item.nodeid)


# ---- time limits ------------------------------------------------------------------------------


def _limited(item: pytest.Item) -> Iterator[None]:
    """Ends a phase of a test that takes too long; should even that hang, ends the whole run."""
    marker = item.get_closest_marker("time_limit")
    seconds = settings.limit(float(marker.args[0]) if marker else DEFAULT_LIMIT)

    def too_long(sig: int, frame: object) -> None:
        settings.fail(f"the test took longer than its limit of {seconds:g} s")

    def hangs() -> None:
        sys.stderr.write(f"\n{item.nodeid} hangs and cannot be ended; this is where:\n")
        faulthandler.dump_traceback(file=sys.__stderr__)
        process.kill_all()
        os._exit(3)

    backstop = threading.Timer(2 * seconds + 30, hangs)
    backstop.daemon = True
    backstop.start()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        backstop.cancel()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    settings.seed_used = False
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield from _limited(item)


# ---- reports ----------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("tried", teach.tried(item)))
        report.sections += in_other_words(item, call)
        report.sections.append(("to repeat this test", settings.repeat_line(item.nodeid)))


def in_other_words(item: pytest.Item, call: pytest.CallInfo) -> List[Tuple[str, str]]:
    """What a failure does not say: a likely cause, or, of an error of the system and a bare assertion, anything."""
    if not call.excinfo or isinstance(call.excinfo.value, pytest.fail.Exception):
        return []  # a selftest, which says all itself
    error = call.excinfo.value
    failure = explained(error, teach.statement(call.excinfo))
    if isinstance(error, AssertionError) and str(error):
        why = "" if failure.why else teach.with_cause(item, failure).why.words
        return [("perhaps", why)] if why else []
    return [("in other words", str(teach.with_cause(item, failure)))]


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", exitstatus: int) -> None:
    if _left_out and not _teacher:
        terminalreporter.write_line(teach.left_out(_left_out))
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line("No test that can run here fits. Their names: functions in test_NN.py and cases/.")


@pytest.fixture
def seed() -> int:
    """The seed for a random test; TEST_SEED= repeats it."""
    return settings.seed()
