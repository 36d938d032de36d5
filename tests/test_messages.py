"""What the tests say to servers that are wrong the way a beginner's are: the first screen names the cause."""
from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List

import pytest

import beginners
from beginners import BEGINNERS
from cases import abuse, basics, cases, framing, idle, keyspace, processes, replies, resp, strings, ttl, zsets
from harness import Server, fail, perhaps, settings, teach
from harness.failure import Failure, cause, explained
from harness.process import NO_STATUS, free_port

pytestmark = pytest.mark.inside
SCREEN_ROWS = 24
HERE = Path(__file__).parent


SINCE = (
    (4, framing), (4, abuse), (7, strings), (9, replies), (11, zsets), (12, idle), (13, ttl), (17, resp),
    (18, keyspace),
)  # fmt: skip


@functools.lru_cache(maxsize=None)
def case_names(chapter: int) -> Dict[str, object]:
    """The cases that beginners' servers meet."""
    modules = [basics, processes]
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


@pytest.mark.parametrize("name", BEGINNERS)
def test_the_cause_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that fails first says what was tried, what came and was expected, why, and what to type."""
    beginner = BEGINNERS[name]
    monkeypatch.setenv("SERVER", beginners.make(name, tmp_path, free_port()))
    monkeypatch.setenv("TEST_TIME_FACTOR", str(settings.limit(0.3)))
    monkeypatch.setattr(settings, "remarks", None)
    monkeypatch.setattr(settings, "known", set())
    monkeypatch.setattr(settings, "framed", set())
    item = Item(beginner.chapter, beginner.case)
    try:
        item.function(beginner.chapter)  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001  (as a run of pytest takes any)
        teacher = teach.Teacher(0)
        teacher.note(item, explained(error))  # type: ignore[arg-type]
        text = screen(teacher.report())
    else:
        fail(f"{beginner.case} passes")
    words = " ".join(text.split())
    assert " ".join(beginner.says.split()) in words, text
    assert "AssertionError" not in text
    for title in ("tried ", "came ", "expected ", "perhaps ", "next "):
        assert f"\n{title}" in text, f"no {title}:\n{text}"


def run_all(name: str, folder: Path, *options: str, factor: str = "1") -> List[str]:
    """make test-NN for this server."""
    beginner = BEGINNERS[name]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    env.update(SERVER=beginners.make(name, folder, free_port()), CLIENT="true", WORKBOOK_BUILD=str(folder / "build"))
    env["TEST_TIME_FACTOR"] = str(settings.limit(float(factor)))
    words = [sys.executable, "tests/tools/runtests.py", f"{beginner.chapter:02}", "--", *options]
    done = subprocess.run(
        words, cwd=settings.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 1, done.stdout
    return done.stdout.splitlines()


def test_a_run_ends_with_the_first_thing_to_mend(tmp_path: Path) -> None:
    """One client at a time: the rest is counted by cause, without waiting for each."""
    lines = run_all("one-at-a-time", tmp_path, "--patience=2", "-k", "basics- or framing- or abuse-")
    text = screen(lines[-SCREEN_ROWS + 1 :])
    assert lines[1] == "The first thing to mend" and "two clients at once" in lines[2]
    assert "another connection is open" in text and "\nBehind it\n" in text
    assert "were not run yet. " in text and "ARGS=--everything" in text.replace("\n", "")
    assert "servers had to be killed: SIGTERM" in text
    assert lines[-1].split(" (")[0].endswith("failed")


def test_a_run_goes_from_simple_to_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server cannot do without, what is new, what came before, abuse; tests of one place stay as they are."""
    written = [
        ("basics", "starts"), ("abuse", "one"), ("framing", "cut"), ("test_11", "test_vector"), ("zsets", "new"),
        ("strings", "random_old"), ("strings", "old"), ("readme", "two"), ("zsets", "random_new"),
        ("test_11", "test_lab_program_sees"), ("test_11", "test_lab_program"), ("leaks", "three"),
        ("test_11", "test_silence_ends"), ("test_11", "test_silence_begins"),
    ]  # fmt: skip
    items = []
    for module, name in written:
        since = 10 if "old" in name else 11
        function = SimpleNamespace(__module__=f"cases.{module}", __name__=name, chapters=[since, 11])
        items.append(SimpleNamespace(name=name, function=function, nodeid=f"tests/test_11.py::test_x[{name}]"))
    monkeypatch.setattr(settings, "remarks", None)
    teach.Teacher(0).pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    assert " ".join(item.name for item in items) == (
        "starts cut new random_new test_lab_program test_silence_begins old random_old test_vector one two three "
        "test_silence_ends test_lab_program_sees"
    )


def test_everything_on_request(tmp_path: Path) -> None:
    """For maintainers: all tests, in full, with tracebacks."""
    lines = run_all("never-replies", tmp_path, "--everything", "-k", "one_request or a_second_request", factor="0.1")
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


def test_a_known_cause_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another test has met it: a moment is enough to see that it is the same."""
    monkeypatch.setenv("SERVER", beginners.make("one-at-a-time", tmp_path, free_port()))
    monkeypatch.setattr(settings, "known", set())
    monkeypatch.setattr(settings, "framed", set())
    monkeypatch.setattr(settings, "remarks", {})
    monkeypatch.setenv("TEST_TIME_FACTOR", str(settings.limit(0.5)))
    took = []
    with Server(6) as server, server.connect() as first:
        basics.ask(first)
        for _ in range(2):
            began = time.monotonic()
            with server.connect(seconds=5) as conn, pytest.raises(Failure) as failed:
                basics.ask(conn)
            took.append(time.monotonic() - began)
            settings.known.add(failed.value.why.key)
    assert took[0] > settings.limit(5) and took[1] < settings.limit(4), took
    assert list(settings.remarks or {}) == [NO_STATUS.words]


def test_what_is_laid_out_stays_so() -> None:
    """The lessons of the graders come through a server that ends."""
    said = "came      another line\nexpected  this one"
    with pytest.raises(AssertionError) as failed, Server(4):
        raise AssertionError(said)
    assert str(failed.value) == said


def plain(tree: ast.AST) -> List[str]:
    """The functions in which something fails without a cause."""
    found = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            bare = isinstance(node, ast.Assert) and "isinstance" not in ast.unparse(node.test)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "fail":
                bare = len(node.args) < 2 or getattr(node.args[1], "value", "x") == ""
            if bare:
                found.append(function.name)
    return found


def test_what_has_no_cause_of_its_own_is_named() -> None:
    """A `fail` without a cause, a bare assertion: harness/perhaps.py knows one, and names none that is not there."""
    paths = [*HERE.glob("cases/*.py"), *HERE.glob("test_[01]*.py")]
    modules = {path.stem: ast.parse(path.read_text()) for path in paths}
    known = {**perhaps.PERHAPS, **perhaps._OF_OTHERS}
    missing = [f"{name}.{function}" for name, tree in modules.items() for function in plain(tree)
               if name not in known and f"{name}.{function}" not in known and name != "__init__"]  # fmt: skip
    assert missing == []
    there = {f"{name}.{node.name}" for name, tree in modules.items() for node in ast.walk(tree)
             if isinstance(node, ast.FunctionDef)}  # fmt: skip
    assert [name for name in perhaps.PERHAPS if name not in there and name not in modules] == []


@pytest.mark.parametrize("name", sorted(perhaps.PERHAPS))
def test_a_likely_cause_is_short(name: str) -> None:
    module, _, case = name.partition(".")
    failure = perhaps.perhaps(f"cases.{module}", case, Failure("x"), "A. It is so: yes.")
    assert failure.why.words and len(failure.lesson(teach.COLUMNS)) <= 8, failure
    assert ("expected", ["yes"]) in failure.blocks


def test_a_lab_program_is_named() -> None:
    """With the line that builds and runs it, where a chapter has one."""
    failed = perhaps.perhaps("test_08", "test_lab_program", Failure("x"))
    assert failed.why.words.endswith(": make 08 && chapters/08/test_hashtable")
    assert perhaps.perhaps("test_16", "test_lab_program", Failure("x")).why.words == perhaps.LAB
