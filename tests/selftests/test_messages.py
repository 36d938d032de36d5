"""What the tests say to servers that are wrong the way a beginner's are: the first screen names the cause."""
from __future__ import annotations

import functools
import importlib
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List

import pytest

import faults
import test_03
import test_04
import test_05
import test_06
import test_07
import test_09
import test_11
import test_12
import test_13
from cases import abuse, cases, earlier, keyspace, new, processes, resp, talk
from harness import Server, fail, settings, teach
from harness.diagnose import NO_STATUS
from harness.failure import Failure, Lesson, cause, explained

pytestmark = pytest.mark.inside
SCREEN_ROWS = 24
FAULTS = {name: faults.read(name) for name in faults.names()}


SINCE = (
    (4, test_04), (4, abuse), (5, test_05), (6, test_06), (7, test_07), (9, test_09), (11, test_11), (12, test_12),
    (13, test_13), (20, resp),
    (22, keyspace),
)  # fmt: skip


@functools.lru_cache(maxsize=None)
def case_names(chapter: int) -> Dict[str, object]:
    """The cases that the server of a beginner meets."""
    modules = [test_03, processes]
    for since, module in SINCE:
        modules += [module] * (chapter >= since)
    found = [case for module in modules for case in cases(chapter, module)]
    return {case.id: case.values[0] for case in found}  # type: ignore[attr-defined]


class Item:
    """As much of a pytest item as a report asks for."""

    def __init__(self, chapter: int, name: str) -> None:
        self.name, self.nodeid = name, f"tests/test_{chapter:02}.py::test_new[{name}]"
        self.function = case_names(chapter)[name]


def screen(lines: List[str]) -> str:
    """The lines as a terminal has them; more than fit are a failure."""
    rows = [line[i : i + teach.COLUMNS] for line in lines for i in range(0, max(1, len(line)), teach.COLUMNS)]
    assert len(rows) <= SCREEN_ROWS, f"{len(rows)} rows:\n" + "\n".join(rows)
    return "\n".join(rows)


def built(name: str, folder: Path) -> str:
    """A server with a fault; what SERVER= takes."""
    faults.build(FAULTS[name], folder, settings.build_dir())
    return str(folder / name[:2] / "server")


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.says])
def test_the_cause_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that fails first says what was tried, what came and was expected, why, and what to type."""
    monkeypatch.setenv("SERVER", built(name, tmp_path))
    text = first_screen(FAULTS[name].case, int(name[:2]), monkeypatch)
    assert " ".join(FAULTS[name].says.split()) in " ".join(text.split()), text


def test_the_cause_is_named_in_other_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program says that never listens is named."""
    monkeypatch.setenv("SERVER", shlex.join([sys.executable, "-c", "raise NotImplementedError"]))
    assert "NotImplementedError" in first_screen("starts_where_it_is_told", 4, monkeypatch)


def first_screen(case: str, chapter: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of the one case that fails."""
    monkeypatch.setenv("TEST_TIME_FACTOR", str(settings.limit(0.3)))
    monkeypatch.setattr(Server, "count_once", None)
    item = Item(chapter, case)
    try:
        item.function(chapter)  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001  (as a run of pytest takes any)
        teacher = teach.Teacher(0)
        teacher.note(item, explained(error))  # type: ignore[arg-type]
        text = screen(teacher.report())
    else:
        fail(f"{case} passes")
    assert "AssertionError" not in text
    for title in ("tried ", "came ", "expected ", "perhaps ", "next "):
        assert f"\n{title}" in text, f"no {title}:\n{text}"
    return text


def run_all(name: str, folder: Path, *options: str, factor: str = "1") -> List[str]:
    """make test-NN for this server."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    env.update(SERVER=built(name, folder), CLIENT="true", WORKBOOK_BUILD=str(folder / "build"), WORKBOOK_TEACH="1")
    env["TEST_TIME_FACTOR"] = str(settings.limit(float(factor)))
    words = [sys.executable, "-m", "pytest", "-q", f"tests/test_{name[:2]}.py", *options]
    done = subprocess.run(
        words, cwd=settings.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 1, done.stdout
    return done.stdout.splitlines()


@pytest.mark.time_limit(60)
def test_a_run_ends_with_the_first_thing_to_mend(tmp_path: Path) -> None:
    """One client at a time: the rest is counted by cause, without waiting for each."""
    lines = run_all("06-one-at-a-time", tmp_path, "--patience=2", "-k", "03- or 04- or 05- or abuse-")
    text = screen(lines[-SCREEN_ROWS + 1 :])
    assert lines[1] == "The first thing to mend" and "two clients at once" in lines[2]
    assert "another connection is open" in text and "\nBehind it\n" in text
    assert "were not run yet. " in text and "ARGS=--everything" in text.replace("\n", "")
    assert "servers had to be killed: SIGTERM" in text
    assert re.match(r"\d+ failed, ", lines[-1])


def test_a_run_goes_from_simple_to_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server cannot do without, what is new, what came before, abuse; tests of one place stay as they are."""
    written = [
        ("test_03", "starts"), ("abuse", "one"), ("test_04", "cut"), ("test_11", "test_vector"), ("test_11", "new"),
        ("test_07", "random_old"), ("test_07", "old"), ("readme", "two"), ("test_11", "random_new"),
        ("test_11", "test_lab_program_sees"), ("test_11", "test_lab_program"), ("leaks", "three"),
        ("test_11", "test_silence_ends"), ("test_11", "test_silence_begins"),
    ]  # fmt: skip
    items = []
    for module, name in written:
        since = 10 if "old" in name else 11
        function = SimpleNamespace(__module__=f"cases.{module}", __name__=name)
        if not name.startswith("test_"):
            function.chapters = [since, 11]
        items.append(SimpleNamespace(name=name, function=function, nodeid=f"tests/test_11.py::test_x[{name}]"))
    monkeypatch.setattr(Server, "count_once", None)
    teach.Teacher(0).pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert " ".join(item.name for item in items) == (
        "starts cut new random_new test_lab_program test_silence_begins old random_old test_vector one two three "
        "test_silence_ends test_lab_program_sees"
    )


def test_everything_on_request(tmp_path: Path) -> None:
    """For maintainers: all tests, in full, with tracebacks."""
    lines = run_all("04-never-replies", tmp_path, "--everything", "-k", "one_request or a_second_request", factor="0.1")
    text = "\n".join(lines)
    assert "The first thing to mend" not in text and "2 failed" in text
    assert text.count("-- to repeat this test --") == 2 and text.count("-- tried --") == 2
    assert "tests/test_04.py:" in text


# ---- the parts ----


def test_a_failure_in_its_parts() -> None:
    failed = Failure(
        "no reply within 5 s (chapter 07)",
        [("sent", ["get k"]), ("expected", ["(nil)"]), ("came", ["nothing"]), ("printed", ["a", "b"])],
        cause("does it wait? It has 12 bytes more. Look."),
    )
    assert failed.why.key == "does it wait?" and failed.why.short == "does it wait?"
    assert failed.lesson(80) == [
        "sent      get k", "came      no reply within 5 s", "expected  (nil)", "printed   a", "          b",
        "perhaps   does it wait? It has 12 bytes more. Look.",
    ]  # fmt: skip
    assert str(failed.within("step 2: ")).startswith("step 2: no reply")
    assert cause("only 3 of 9 bytes.").key == cause("only 4 of 1,000 bytes.").key


def test_a_caret_stays_where_a_block_is_cut() -> None:
    rows = [f"{i:04x}" for i in range(9)]
    failed = Failure("other bytes", [("came", [*rows[:6], "   ^^", *rows[6:]])])
    assert failed.lesson(80, 4) == ["came      other bytes", "          0000", "          0005", "             ^^"]


@pytest.mark.parametrize(
    "error, came, perhaps",
    [
        (AssertionError(), "this does not hold: assert x", ""),
        (AssertionError("assert x in y\n + detail"), "this does not hold: x in y", ""),
        (ConnectionRefusedError(111, "Connection refused"), "the connection was refused", "nobody listens"),
        (ConnectionResetError(104, "Connection reset"), "the connection broke: Connection reset", "crash"),
        (TimeoutError(), "nothing came", "wait for something else"),
        (OSError(24, "Too many open files"), "the system says: [Errno 24]", ""),
        (KeyError("x"), "the test itself stumbled, KeyError: 'x'", "unlike what was expected"),
    ],
)
def test_any_exception_is_explained(error: BaseException, came: str, perhaps: str) -> None:
    failed = explained(error, "assert x")
    assert failed.what.startswith(came) and perhaps in failed.why.words


def test_two_sides_of_an_assertion() -> None:
    failed = explained(
        AssertionError("assert [1, 2] == [1]\n  Left contains one more item: 2\n  Use -v to get more diff")
    )
    assert str(failed) == "[1, 2]\n  expected  [1]\n  in detail   Left contains one more item: 2"


def test_a_server_that_has_to_be_killed_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a test about something else that is no failure; nobody waits long for one that does nothing more."""
    monkeypatch.setenv("SERVER", built("06-one-at-a-time", tmp_path))
    monkeypatch.setattr(Server, "count_once", None)
    teacher = teach.Teacher(0)
    began = time.monotonic()
    for _ in range(2):
        with Server(6) as server, server.connect() as conn:
            talk.ask(conn)
    assert list(teacher.once.items()) == [(NO_STATUS.words, 2)] and time.monotonic() - began < settings.limit(8)


def test_what_is_laid_out_stays_so() -> None:
    """The lessons of the graders come through a server that ends."""
    with pytest.raises(Lesson) as failed, Server(4):
        raise Lesson("", [("came", ["another line"]), ("expected", ["this one"])])
    assert str(failed.value) == "came      another line\nexpected  this one"


def what_may_fail() -> Dict[str, object]:
    """All cases, and the tests of the chapters that are none."""
    found = {case.id: case.values[0] for chapter in settings.CHAPTERS  # type: ignore[attr-defined]
             for case in [*new(chapter), *earlier(chapter)]}  # fmt: skip
    for chapter in settings.CHAPTERS:
        module = importlib.import_module(f"test_{chapter:02}")
        found.update({f"{chapter:02}-{name}": test for name, test in vars(module).items()
                      if name.startswith("test_") and getattr(test, "__module__", "") == module.__name__})  # fmt: skip
    return found


def test_a_likely_cause_is_short() -> None:
    """Whatever fails without a cause of its own has one, which is no longer than a screen has room for."""
    for name, function in what_may_fail().items():
        words = teach.fallback(function)
        assert words or name.endswith(("test_session", "test_vector", "test_new", "test_earlier")), name
        assert len(Failure("x", why=cause(words)).lesson(teach.COLUMNS)) <= 5, name


def test_what_is_expected_is_in_the_docstring() -> None:
    def function() -> None:
        """A. It is so: yes."""

    failure = teach.with_cause(SimpleNamespace(function=function), Failure("x"))  # type: ignore[arg-type]
    assert failure.blocks == [("expected", ["yes"])]


def test_a_lab_program_is_named() -> None:
    """With the line that builds and runs it, where a chapter has one."""
    assert teach.of_a_lab_program("08").endswith(": make 08 && chapters/08/test_hashtable")
    assert teach.of_a_lab_program("18") == teach.LAB
