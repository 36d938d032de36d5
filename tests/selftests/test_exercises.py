"""The machinery of the exercises: bounds, grading, the learner's commands. test_solutions.py tests the exercises."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence

import pytest

TESTS = Path(__file__).parents[1]
import changeform
import compiling
import exercises
import grade as grading_tool
import grading
import learner
import reporting
from compiling import Kept
from confine import Confinement, Limits
from grade import How, Result
from harness import limit, wait_until
from harness.settings import ROOT
from layout import Problem

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(60)]
SAMPLE = "04-buffered-reads"

# ---- what the files say ----


def test_an_exercise_that_is_not_there() -> None:
    with pytest.raises(Problem, match=f"there is no exercise 04-bufered-reads, did you mean {SAMPLE}"):
        exercises.find("04-bufered-reads")


def test_a_starter_is_complete_in_itself(tmp_path: Path) -> None:
    """It builds with its own Makefile, in any folder."""
    exercises.write_tree(exercises.find(SAMPLE).starter(), tmp_path / "x")
    done = subprocess.run(["make", "-C", str(tmp_path / "x")], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert os.access(tmp_path / "x" / "server", os.X_OK)


def test_only_plain_files_are_handed_in(tmp_path: Path) -> None:
    exercise = exercises.find(SAMPLE)
    (tmp_path / "client.c").write_text("not to be changed")
    for make, why in (
        (lambda path: path.symlink_to("/etc/passwd"), "no plain file"),
        (lambda path: path.mkdir(), "no plain file"),
        (lambda path: path.write_bytes(bytes(exercises.MOST_SUBMITTED + 1)), "larger than 1 MB"),
    ):
        make(tmp_path / "server.c")
        handed = exercises.hand_in(exercise, tmp_path)
        assert handed.tree == exercise.starter() and handed.taken == [] and why in handed.remarks[0]
        (tmp_path / "server.c").rmdir() if (tmp_path / "server.c").is_dir() else (tmp_path / "server.c").unlink()
    assert "there is no server.c" in exercises.hand_in(exercise, tmp_path).remarks[0]
    assert "there is no server.c" in exercises.hand_in(exercise, tmp_path / "nowhere").remarks[0]


SPLIT = {  # a workbook with one exercise in a stage of several files
    "common/base.h": "enum { k_base = 1 };\n",
    "chapters/05/src/server.h": '#include "base.h"\n\nint one(void);\n',
    "chapters/05/src/main.c": '#include "server.h"\n\nint main(void) {\n    return one() - k_base;\n}\n',
    "chapters/05/src/one.c": '#include "server.h"\n\nint one(void) {\n    return 1;\n}\n',
    "chapters/05/client.c": "int main(void) {\n}\n",
    "chapters/05/exercises/it/exercise.conf":
        "[exercise]\ntitle = It\nkind = mend\ndifficulty = 1\nminutes = 1\npoints = 1\n"
        "submit = src/*.c src/*.h notes.c *.md\n",
    "chapters/05/exercises/it/starter.change": "@@ src/one.c, one()\n-    return 1;\n+    return 2;\n",
    "chapters/05/exercises/it/README.md": "# It\n",
}  # fmt: skip


@pytest.fixture
def split(tmp_path: Path) -> exercises.Exercise:
    exercises.write_tree(SPLIT, tmp_path / "workbook")
    return exercises.find("05-it", tmp_path / "workbook")


def test_a_server_of_several_files_is_built(split: exercises.Exercise, tmp_path: Path) -> None:
    """By its own Makefile and by the grader; what was kept is not taken for another file."""
    tree, folder = split.starter(), tmp_path / "x"
    src = ["src/main.c", "src/one.c", "src/server.h"]
    assert sorted(tree) == ["Makefile", "README.md", "base.h", "client.c", *src]
    exercises.write_tree(tree, folder)
    assert exercises.read_folder(folder) == tree and str(folder / "src/one.c") in learner.stamps(folder)
    done = subprocess.run(["make", "-C", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    counter, kept = compiling.compile_counter(tmp_path, False), Kept(tmp_path / "kept")
    for text, status in ((tree["src/one.c"], 1), (tree["src/one.c"].replace("2", "1"), 0)):
        (folder / "src/one.c").write_text(text)
        built = compiling.compile_program([], tmp_path, folder, "server", tmp_path / "server", counter, kept=kept)
        assert built == (True, "") and subprocess.run([tmp_path / "server"]).returncode == status


HANDED = {  # files that are handed in, those that are taken, and what is said
    "main.c base.h": ("src/main.c", ["src/one.c, src/server.h"]),
    "src/main.c src/one.c src/server.h src/more.c src/more.md stray.c": (
        "src/main.c src/more.c src/one.c src/server.h", []
    ),
    "server.h one.c main.c notes.c client.c": ("notes.c src/main.c src/one.c src/server.h", []),
    "client.c notes.txt": ("", []),
}


@pytest.mark.parametrize("files", HANDED)
def test_several_files_are_handed_in(files: str, split: exercises.Exercise, tmp_path: Path) -> None:
    """Also without their folder, which uploads lose; never what stands beside them."""
    taken, lacking = HANDED[files]
    exercises.write_tree(dict.fromkeys(files.split(), "mine"), tmp_path / "x")
    handed = exercises.hand_in(split, tmp_path / "x")
    remarks = [f"these were not handed in, and the starter's were taken: {names}" for names in lacking]
    assert handed.taken == taken.split() and [r for r in handed.remarks if "notes.c" not in r] == remarks
    assert {name for name, text in handed.tree.items() if text == "mine"} == set(handed.taken)


def test_a_link_in_place_of_src_is_not_followed(split: exercises.Exercise, tmp_path: Path) -> None:
    exercises.write_tree({"main.c": "not mine"}, tmp_path / "other")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "src").symlink_to(tmp_path / "other")
    assert exercises.hand_in(split, tmp_path / "x").taken == []


def test_points_are_read_from_the_source() -> None:
    source = '@points(2, "a b", instructor=True)\ndef test_x(work):\n    """Tries\n    this."""\n'
    assert exercises.graded_tests(source, "t") == [("test_x", 2, "a b", "Tries this.", True)]
    with pytest.raises(Problem, match="t:1: test_x has no @points"):
        exercises.graded_tests("def test_x(work): pass\n", "t")


def test_every_exercise_can_be_read() -> None:
    """Also by those who have no solutions."""
    for exercise in exercises.all_exercises():
        assert exercise.title and exercise.hints and exercise.tests and exercise.points
        assert exercise.starter()["README.md"].startswith("# ")


# ---- bounds ----


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every user may pass through, as that of a submission."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="test-exercises-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def sh(confined: Confinement, command: str, seconds: float, most: int = 1 << 18) -> compiling.Ran:
    """Runs a command of the shell as a submission."""
    return compiling.run_bounded([*confined.wrapper(), "sh", "-c", command], seconds, most)


def test_a_program_has_a_home_and_no_more(scratch: Path) -> None:
    with Confinement(scratch) as confined:
        said = sh(confined, "pwd; echo $HOME $TMPDIR; id -u; ulimit -c; touch here ../there", 10).output
    lines = said.splitlines()
    assert lines[:2] == [str(scratch / "home"), f"{scratch}/home {scratch}/home"]
    assert lines[2:4] == [str(confined.uid if os.getuid() == 0 else os.getuid()), "0"]
    assert (scratch / "home" / "here").exists()
    if os.getuid() == 0:
        assert "there" in lines[4] and not (scratch / "there").exists()


def test_submissions_have_users_of_their_own(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    with Confinement(folders[0]) as a, Confinement(folders[1]) as b:
        with Confinement(folders[2]) as c:
            uids = {a.uid, b.uid, c.uid, a.guest_uid, b.guest_uid, c.guest_uid}
        assert len(uids) == 6 and None not in uids


def test_what_is_limited(scratch: Path) -> None:
    limits = Limits(address_space=300, file=1, cpu=1, descriptors=50)
    tries = {
        "head -c 2000000 /dev/zero >big; test $? -ne 0 && stat -c %s big": "1048576",
        "ulimit -n; ulimit -Hn": "50\n50",
        "ulimit -v": str(300 << 10),
        "while :; do :; done": "",
    }
    with Confinement(scratch, limits) as confined:
        for command, wanted in tries.items():
            began = time.monotonic()
            ran = sh(confined, command, 30)
            assert wanted in ran.output and not ran.late, (command, ran)
            assert time.monotonic() - began < limit(15)


def test_time_and_output_end(scratch: Path) -> None:
    with Confinement(scratch) as confined:
        ran = sh(confined, "echo begun; exec sleep 60", 0.5)
        assert (ran.late, ran.output) == (True, "begun\n")
        ran = sh(confined, "yes", 30, most=10_000)
        assert ran.too_much and len(ran.output) == 10_000
        ran = sh(confined, "(sleep 60; echo late) & echo begun", 0.5)
        assert ran.late and ran.output == "begun\n", "whoever holds the output open is not waited for"


def test_nothing_is_left_behind(scratch: Path) -> None:
    """Neither of what has left its session, nor of what goes on starting others until there is no more."""
    with Confinement(scratch, Limits(processes=40)) as confined:
        command = "setsid sleep 77 & setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 77 & done' 2>/dev/null & echo"
        sh(confined, command, 1)
        wait_until(lambda: len(confined.members()) > 20, "processes are started", 10)
        assert len(confined.members()) <= 41
    assert confined.members() == {}


def test_memory_of_all_together_is_watched(scratch: Path) -> None:
    """Each process is small enough, all of them are not."""
    command = "for i in 1 2 3 4 5 6; do head -c 40000000 /dev/zero | tail -c 39000000 | sleep 9 & done; wait"
    with Confinement(scratch, Limits(memory=100)) as confined:
        began = time.monotonic()
        sh(confined, command, 9)
        assert [event.what for event in confined.events][:1] and time.monotonic() - began < limit(8)
        assert re.match(r"its processes used \d+ MB of memory, 100 are allowed", confined.events[0].what)


def test_disk_is_watched(scratch: Path) -> None:
    with Confinement(scratch, Limits(disk=10)) as confined:
        sh(confined, "for i in 1 2 3 4 5; do head -c 5000000 /dev/zero >$i; done; sleep 20", 20)
        assert "wrote more than 10 MB" in confined.events[0].what


# ---- answers ----


@pytest.mark.parametrize(
    "given, right",
    [
        ("the server", "server"), ("EADDRINUSE (Address already in use)", "EADDRINUSE"), ("about 60s", 60),
        ("10,81", 10.81),
        ("a) 1", "a"), ("a) 1", 1), ("4,096 bytes", 4096), ("(B).", "b"), ("b: it spins", "b"),
        ("~ 1,234,567", 1234567),
        ("`accept()`", "accept"), ("a", "a"), ("-1", -1), ("1e3", 1000),
    ],
)  # fmt: skip
def test_a_right_answer_in_other_words(given: str, right: object) -> None:
    assert grading.same_answer(given, right) and grading.can_be_read(given, [right])


@pytest.mark.parametrize(
    "given, right",
    [("the server", "client"), ("c", "b"), ("abc", "a"), ("10,81", 1081), ("b: it is", "a"), ("11", 1), ("1,2,3", 123)],
)
def test_a_wrong_answer_stays_wrong(given: str, right: object) -> None:
    assert not grading.same_answer(given, right)


def test_what_cannot_be_read_is_not_called_wrong() -> None:
    assert not grading.can_be_read("lots", [5]) and not grading.can_be_read("maybe", ["a", "b"])
    assert grading.can_be_read("6", [5]) and grading.can_be_read("c", ["a", "b"])
    assert grading.can_be_read("x", ["server"])


# ---- submissions that mean no good ----

LISTENS = (
    '#include "net.h"\n#include <signal.h>\n#include <sys/wait.h>\nint main(void) {\n    tcp_listen(env_ip("BIND"),'
    " env_port());\n"
)
HOSTILE = {
    "does not compile": "int main(void) { return 0 }\n",
    "hangs": "int main(void) { for (;;) {} }\n",
    "crashes": "int main(void) { *(volatile int *)0 = 0; }\n",
    "prints": '#include <stdio.h>\nint main(void) { for (;;) puts("again and again and again and again"); }\n',
    "prints one line": "#include <stdio.h>\nint main(void) { for (;;) putchar('x'); }\n",
    "forks": "#include <unistd.h>\nint main(void) { for (;;) fork(); }\n",
    "uses memory": LISTENS + "    for (;;) { char *volatile p = malloc(1 << 20); memset(p, 1, 1 << 20); }\n}\n",
    "uses memory in parts": (
        LISTENS
        + "    for (int i = 0; i < 20; i++) {\n        if (fork() == 0) {\n            char *volatile p = malloc(50 <<"
        " 20);\n            memset(p, 1, 50 << 20);\n            pause();\n        }\n    }\n    for (;;)"
        " pause();\n}\n"
    ),
    "kills": LISTENS + "    kill(getppid(), SIGKILL);\n    for (;;) pause();\n}\n",
    "reads what it may not": '#include "/etc/shadow"\nint main(void) {}\n',
    "compiles without end": '#include "server.c"\n#include "server.c"\nint main(void) {}\n',
    "answers nothing": LISTENS + "    for (;;) pause();\n}\n",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Callable[[str], Result]]":
    """Grades those submissions side by side, each by one test, with short limits."""
    top = tmp_path_factory.mktemp("hostile")
    with ThreadPoolExecutor(4) as pool:
        found: "Dict[str, Future[Result]]" = {}
        for name, text in HOSTILE.items():
            if name == "reads what it may not" and os.getuid() != 0:
                continue
            factor = 8 if "memory" in name else 0.4  # it may take a while to use it up, and is ended when it has
            how = How(only=["test_one_by_one"], variables={"TEST_TIME_FACTOR": str(factor * limit(1))})
            (top / name).mkdir()
            (top / name / "server.c").write_text(text)
            found[name] = pool.submit(grading_tool.grade, top / name, SAMPLE, how)
        yield lambda name: found[name].result() if name in found else pytest.skip("it may read that")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_submission_gets_no_points_and_a_lesson(name: str, hostile: Callable[[str], Result]) -> None:
    result = hostile(name)
    text = reporting.report(result)
    assert (result.score, result.passed) == (0, False)
    assert "Traceback" not in text and "sandbox.py" not in text and "/grade-" not in text, text
    assert len(text) < 100_000
    unbuilt = name in ("does not compile", "reads what it may not", "compiles without end")
    assert result.built == (not unbuilt), text
    words = {
        "does not compile": r"server.c:1:\d+: error: expected .;.",
        "hangs": "did not come up within",
        "crashes": "killed by SIGSEGV(.|\n)+find it   make check-.* SAN=address,undefined",
        "prints": "again and again",
        "reads what it may not": "Permission denied",
        "compiles without end": "nested",
        "uses memory in parts": r"used \d+ MB of memory, 512 are allowed",
        "answers nothing": "no reply within",
    }.get(name, "came ")
    assert re.search(words, text), text
    if not unbuilt:
        assert f'again     make check-{SAMPLE} ARGS="-k test_one_by_one"' in text


def test_a_submission_without_files_is_the_starter(tmp_path: Path) -> None:
    result = grading_tool.grade(tmp_path, SAMPLE, How(only=["test_one_by_one"]))
    assert result.built and not result.passed and "there is no server.c; the starter's was taken" in result.remarks
    (test,) = [test for test in result.tests if test.name == "test_one_by_one"]
    assert test.status == "failed" and re.search(r"called read\(\) 200 times", test.lesson), test.lesson


# ---- what graders work with ----

MADE_UP_CONF = """\
[exercise]
title = Made up
kind = explain
difficulty = 1
minutes = 1
points = 20
submit = server.c answers.md attack.py
programs = server
"""
MADE_UP_ANSWERS = """\
# Answers

## 1 How many bytes has the length?

answer:

## 2

answer:

## 3

Why? Write some lines here.
"""
HANDED_IN = """\
# Answers

## 1 How many bytes has the length?

answer: `4,096` bytes

## 2

answer: (B).

## 3

Why? Write some lines here.
Because a stream has no messages.

## 5

answer: b: it spins
"""
ATTACK = """\
import os, socket
with socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))) as sock:
    sock.sendall(b"\\5\\0\\0\\0hello")
    print(sock.recv(100)[4:].decode())
"""
MADE_UP_GRADER = '''
from __future__ import annotations

from grading import Submission, points
from harness import Server, wait_until


@points(1, "counts")
def test_counts(work: Submission) -> None:
    """Counting."""
    with work.count() as counted, Server(4) as server, server.connect() as conn:
        conn.ask("a", expect=b"world")
        assert counted["read"] == 2 and counted["write"] == 1 and counted["accept"] == 1, counted.now()
        assert counted["read_bytes"] == 5
        counted.reset()
        conn.ask("b", expect=b"world")
        wait_until(lambda: counted["write_bytes"] in (9, 18), "what was written is counted, before the signal comes")
    assert counted["read"] >= 2 and counted.now()["write"] == 1 and counted["close"] <= 1
    assert counted["malloc"] == 0


WORLD = '@@ server.c\\n-    const char reply[] = "world";\\n+    const char reply[] = "{}";\\n'


@points(1, "builds a variant")
def test_variant(work: Submission) -> None:
    """A variant."""
    build = work.variant(WORLD.format("moon"))
    with build.server() as server, server.connect() as conn:
        conn.ask("a", expect=b"moon")
    text = '#include "wire.h"\\n#include <stdio.h>\\nint main(void) { puts("x"); return 3; }\\n'
    path = work.build({"x.c": text}, "x")
    assert work.run([path]) == ("x\\n", "", 3)


@points(1, "attacks a stage")
def test_attack(work: Submission) -> None:
    """An attack."""
    with work.stage_server(4, WORLD.format("weak")) as weak:
        assert work.run_ok(["python3", work.path / "attack.py"], env={"PORT": str(weak.port)}).out == "weak\\n"
    with work.stage_server() as strong:
        assert work.run_ok(["python3", work.path / "attack.py"], env={"PORT": str(strong.port)}).out == "world\\n"
    with work.running(["sh", "-c", "echo one; echo two; exec sleep 60"]) as attack:
        assert attack.wait_line("tw") == "two" and attack.lines == ["one", "two"] and attack.alive()
    with work.running(["sh", "-c", "exit 3"]) as attack:
        assert attack.wait() == 3


@points(1, "answers")
def test_answers(work: Submission) -> None:
    """Answers."""
    work.expect_answer(1, 4096, form="a number of bytes")
    work.expect_answer(2, ["b", "c"], form="a letter")
    work.expect_answer(5, "b", form="a letter")
    assert work.answer(3).text == "Because a stream has no messages." and work.answer(3).words == 5


@points(5, "why", instructor=True)
def test_why(work: Submission) -> None:
    """A free text."""
    work.expect_text(3, words=4)


@points(1, "sources")
def test_sources(work: Submission) -> None:
    """Sources."""
    assert "chapter 04" in work.source("server.c") and "chapter 04" not in work.code("server.c")
    assert work.source("nothing.c") == "" and "answer:\\n" in work.starter("answers.md")


@points(1, "the lesson of a wrong answer")
def test_wrong_answer(work: Submission) -> None:
    """Asked."""
    work.expect_answer(1, 4, form="a number of bytes", cause="think of wire.h")


@points(1, "the lesson of an answer that is missing")
def test_missing_answer(work: Submission) -> None:
    """Asked."""
    work.expect_answer(4, 4, form="a number")


@points(1, "the lesson of the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter."""
    work.chapter_tests("test_limit_a_signal_ends")
    work.chapter_tests("client_prints_what")


@points(1, "the lesson of an assertion")
def test_assertion(work: Submission) -> None:
    """Asserted."""
    assert 1 + 1 == 3


@points(1, "the lesson of a mistake of the grader")
def test_mistake(work: Submission) -> None:
    """Stumbled."""
    {}["nothing"]


@points(1, "the lesson of a program that hangs")
def test_hangs(work: Submission) -> None:
    """Hangs."""
    work.run(["sh", "-c", "echo so far; exec cat /dev/zero >/dev/null"], seconds=2)


@points(1, "the lesson of a program that Python cannot read")
def test_syntax(work: Submission) -> None:
    """Cannot be read."""
    (work.shared / "a.py").write_text("one = 1\\nif one\\n    two = 2\\n")
    work.run(["python3", work.shared / "a.py"])


@points(1, "the lesson of a program that prints")
def test_prints(work: Submission) -> None:
    """Prints."""
    work.run(["yes"])


@points(1, "the lesson of what does not compile")
def test_compile(work: Submission) -> None:
    """Compiles."""
    work.variant(files={"server.c": "int main(void) { return x; }"})


@points(1, "the lesson of the harness")
def test_harness(work: Submission) -> None:
    """Harness."""
    with Server(4) as server, server.connect() as conn:
        conn.ask("hello", expect=b"moon")


@points(1, "the lesson of a connection that breaks")
def test_breaks(work: Submission) -> None:
    """Breaks."""
    raise ConnectionResetError(104, "Connection reset by peer")
'''


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The result of an exercise that tries all that a grader may call, in a workbook of its own."""
    root = tmp_path_factory.mktemp("made-up") / "a workbook"
    ignore = shutil.ignore_patterns("__pycache__", "sessions", "bench", "broken", "vectors")
    shutil.copytree(ROOT / "tests", root / "tests", ignore=ignore)
    shutil.copytree(ROOT / "tests/vectors", root / "tests/vectors")
    shutil.copytree(ROOT / "common", root / "common")
    shutil.copytree(ROOT / "chapters/04", root / "chapters/04", ignore=shutil.ignore_patterns("exercises"))
    folder = root / "chapters/04/exercises/made-up"
    folder.mkdir(parents=True)
    (folder / "exercise.conf").write_text(MADE_UP_CONF)
    (folder / "README.md").write_text("# Made up\n")
    new = changeform.record({}, {"answers.md": MADE_UP_ANSWERS})
    (folder / "starter.change").write_text(changeform.as_text([], new))
    (root / "tests/exercises/test_04_made-up.py").write_text('"""Made up."""' + MADE_UP_GRADER)
    handed_in = root / "handed in"
    handed_in.mkdir()
    (handed_in / "answers.md").write_text(HANDED_IN)
    (handed_in / "attack.py").write_text(ATTACK)
    return grading_tool.grade(handed_in, exercises.find("04-made-up", root))


def test_graders_can_do_all_that_they_are_promised(made_up: Result) -> None:
    assert made_up.built and made_up.remarks == ["there is no server.c; the starter's was taken"], made_up
    assert {test.lesson for test in made_up.tests[:6]} == {""}, [test.lesson for test in made_up.tests[:6]]
    assert made_up.score == 5 and made_up.for_instructor == 5 and made_up.most == 21


LESSONS = {
    "test_wrong_answer": (
        "tried     question 1 of answers.md\ncame      answer: `4,096` bytes\n"
        "expected  a number of bytes, but not this one\nperhaps   think of wire.h"
    ),
    "test_missing_answer": (
        "tried     question 4 of answers.md\ncame      no answer\nexpected  a section `## 4` with an answer in it"
    ),
    "test_chapter": " of the tests of chapter 04\ncame      there is no client of chapter 04: ./client",
    "test_assertion": "tried     Asserted.\ncame      (1 + 1)\nexpected  3",
    "test_mistake": "tried     Stumbled.\ncame      the test itself stumbled, KeyError: 'nothing'",
    "test_hangs": (
        "          it uses the processor all the time, so it is in a loop that does not end\n"
        "          it printed last:\n          so far"
    ),
    "test_syntax": "came      a.py, line 2: ",
    "test_prints": "came      yes printed more than 1 MB and was ended\nperhaps   a loop that never ends?",
    "test_compile": "came      server.c does not compile with it:\n          server.c: In function",
    "test_harness": "sent      hello\n          0000  05 00",
    "test_breaks": "came      the connection broke: Connection reset by peer",
}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_says_what_was_tried_and_came(name: str, made_up: Result) -> None:
    (test,) = [test for test in made_up.tests if test.name == name]
    assert test.status == "failed"
    assert LESSONS[name] in test.lesson, test.lesson
    assert "Traceback" not in test.lesson and 'File "' not in test.lesson and test.lesson.startswith("tried ")


def test_there_is_something_to_print_for_the_instructor(made_up: Result) -> None:
    text = reporting.report(made_up)
    assert re.search(r"handed in +5 for the instructor +why", text), text
    assert "The others that failed, each by its command:" in text
    assert reporting.total(made_up) == "5 of 21 points, and 5 that the instructor gives"


# ---- the learner's commands ----


@pytest.fixture
def my(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(learner, "MY", tmp_path / "my")
    monkeypatch.delenv("INSIST", raising=False)
    monkeypatch.setattr(learner.pristine, "check", lambda: None)  # whoever maintains the workbook changes sources
    return tmp_path / "my"


def test_my_can_be_a_git_repository(my: Path) -> None:
    """And editors find base.h in it. What a learner has put there stays."""
    my.mkdir(exist_ok=True)
    (my / "compile_flags.txt").write_text("mine")
    assert learner.main(["start", SAMPLE]) == 0
    assert (my / "compile_flags.txt").read_text() == "mine"
    subprocess.run(["git", "init", "-q", str(my)], check=True)
    for name in ("server", "test_avl"):
        (my / SAMPLE / name).write_text("a program")
    words = ["git", "-C", str(my), "status", "--short", "-uall"]
    said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    assert f"{SAMPLE}/server.c" in said.stdout and not re.search(r"/server$|test_avl|\.lock", said.stdout, re.M)


@pytest.mark.parametrize("folder, file", [("chapters", "chapters/09/server.c"), ("common", "common/zset.h")])
def test_editors_find_the_headers(folder: str, file: str) -> None:
    flags = (ROOT / folder / "compile_flags.txt").read_text().split()
    words = ["cc", *flags, "-fsyntax-only", str(ROOT / file)]
    done = subprocess.run(words, cwd=ROOT / folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_start_overwrites_nothing(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learner.main(["start", SAMPLE]) == 0
    assert f"make check-{SAMPLE}" in capsys.readouterr().out
    last = (my / SAMPLE / "README.md").read_text().splitlines()[-1]
    assert "`make` here" in last and f"`make check-{SAMPLE}`" in last and f"`make hint-{SAMPLE}`" in last
    (my / SAMPLE / "server.c").write_text("mine")
    assert learner.main(["start", SAMPLE]) == 1
    assert "is there already, and nothing was changed" in capsys.readouterr().out
    assert (my / SAMPLE / "server.c").read_text() == "mine"
    for number in (1, 2):
        (my / SAMPLE / "server.c").write_text(f"mine {number}")
        assert learner.main(["reset", SAMPLE]) == 0
        assert (my / ".before" / f"{SAMPLE}-{number}" / "server.c").read_text() == f"mine {number}"
        assert (my / SAMPLE / "server.c").read_text() == exercises.find(SAMPLE).starter()["server.c"]


def test_hints_one_after_another(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hints = exercises.find(SAMPLE).hints
    for number in (1, 2, 3):
        assert learner.main(["hint", SAMPLE]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"Hint {number} of 3") and hints[number - 1] in out
    assert "There are no more" in out
    assert learner.main(["hint", SAMPLE]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Hint 1 of 3") and all(hint in out for hint in hints), "all of them again"


def test_the_solution_only_for_those_who_passed_or_insist(
    my: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learner.main(["solution", SAMPLE]) == 1
    out = capsys.readouterr().out
    assert f"make solution-{SAMPLE} INSIST=yes" in out and "have not seen: 3." in out and "+++" not in out
    learner.Notebook(my).note(exercises.find(SAMPLE), 10, True)
    assert learner.main(["solution", SAMPLE]) == 0
    assert "+++ server.c" in capsys.readouterr().out
    (my / ".state").unlink()
    monkeypatch.setenv("INSIST", "yes")
    assert learner.main(["solution", SAMPLE]) == 0


def test_check_before_start(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        learner.main(["check", SAMPLE])
    assert end.value.code == 1
    assert capsys.readouterr().err == f"there is no my/{SAMPLE} yet: make start-{SAMPLE}\n"


def test_check_takes_down_what_came_of_it(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learner.main(["start", SAMPLE]) == 0
    assert learner.main(["check", SAMPLE]) == 1
    out = capsys.readouterr().out
    assert re.search(r"passed +2 of 2 +answers as before", out) and "of 10 points. A hint" in out, out
    exercise = exercises.find(SAMPLE)
    state = learner.Notebook(my)[SAMPLE]
    assert (state.passed, learner.Notebook(my).word(exercise)) == (False, "started") and 0 < state.best < 10
    exercises.write_tree(exercise.tree("solution"), my / SAMPLE)
    assert learner.main(["check", SAMPLE, "--", "-k", "one_by_one"]) == 0
    assert "few reads" not in capsys.readouterr().out
    assert not learner.Notebook(my)[SAMPLE].passed, "one test is not all"
    assert learner.main(["check", SAMPLE]) == 0
    assert "Passed: 10 of 10 points." in capsys.readouterr().out
    assert learner.Notebook(my).word(exercise) == "passed"


def test_the_lists(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = exercises.all_exercises()
    assert learner.main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(exercise.name in out for exercise in everything) and "passed" not in out
    assert learner.main(["next"]) == 0
    assert f"make start-{everything[0].name}" in capsys.readouterr().out
    learner.main(["start", SAMPLE])
    capsys.readouterr()
    assert learner.main(["next"]) == 0
    assert f"Go on with {SAMPLE}" in capsys.readouterr().out
    for exercise in everything:
        learner.Notebook(my).note(exercise, exercise.points, True)
    assert learner.main(["progress"]) == 0
    assert "####################" in capsys.readouterr().out.splitlines()[-1]
    assert learner.main(["next"]) == 0
    assert "You have passed all exercises" in capsys.readouterr().out


def test_a_broken_state_is_an_empty_one(my: Path) -> None:
    my.mkdir()
    for text in ("", "[]", "{", '{"04-x": 7}', '{"04-x": {"unknown": 1, "best": 3}}'):
        (my / ".state").write_text(text)
        assert learner.Notebook(my)["04-x"].hints == 0


def test_a_name_of_the_first_edition_is_understood(my: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, a state and a submission that bear it are those of the exercise."""
    exercise = next(each for each in exercises.all_exercises() if each.old_name != each.name)
    assert exercises.find(exercise.old_name) == exercise
    assert capsys.readouterr().err == f"{exercise.old_name} is {exercise.name} now\n"
    exercises.write_tree(exercise.starter(), my / exercise.old_name)
    (my / ".state").write_text(f'{{"{exercise.old_name}": {{"best": 3}}}}')
    notebook = learner.Notebook(my)
    assert (notebook[exercise.name].best, notebook.folder(exercise)) == (3, my / exercise.old_name)
    assert grading_tool.handed_in(my, []) == {exercise.name: my / exercise.old_name}


def test_two_checks_at_once_are_both_noted(tmp_path: Path) -> None:
    """Each notebook was read before the other was written, as where one check takes longer than another."""
    my, first, second = tmp_path / "my", exercises.find(SAMPLE), exercises.find("07-mset")
    notebooks = learner.Notebook(my), learner.Notebook(my)
    notebooks[0].note(first, 3, False)
    notebooks[1].note(second, 4, True)
    both = learner.Notebook(my)
    assert (both[first.name].best, both[second.name].best, both[second.name].passed) == (3, 4, True)


def test_watch_grades_at_every_save(my: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(TESTS / 'learn')!r}); import learner, pathlib\n"
    code += f"learner.MY = pathlib.Path({str(my)!r})\nlearner.check = lambda e, a: print('graded', flush=True)\n"
    code += f"sys.exit(learner.main(['watch', {SAMPLE!r}]))\n"
    learner.main(["start", SAMPLE])
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        lines: List[str] = []
        for text in (None, "one", "two"):
            if text:
                (my / SAMPLE / "server.c").write_text(text)
            while "graded\n" not in lines:
                lines.append(process.stdout.readline())
                assert lines[-1]
            lines.clear()
        process.send_signal(2)
        assert process.wait(limit(10)) == 0
    finally:
        process.kill()
        process.wait()


def test_the_goals_reach_the_tool() -> None:
    for goal, words in (
        ("start-04-buffered-reads", "learner.py start 04-buffered-reads"),
        ("check-04-buffered-reads", "learner.py check 04-buffered-reads -- -k x"),
        ("exercises", "learner.py list"),
    ):
        done = subprocess.run(["make", "-n", goal, "ARGS=-k x"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert words in " ".join(done.stdout.replace("\\\n", " ").split()), done.stdout


# ---- building ----


def test_what_is_built_again_is_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept is taken for the same sources only: for another header, it is another program."""
    sources, kept = tmp_path / "sources", Kept(tmp_path / "kept")
    sources.mkdir()
    kept.folder.mkdir()
    (sources / "status.h").write_text("enum { k_status = 3 };\n")
    (sources / "through.h").write_text('#include "status.h"\n')
    (sources / "one.c").write_text('#include "through.h"\nint main(void) { return k_status; }\n')
    counter = compiling.compile_counter(tmp_path, False)
    ran, run_bounded = [], compiling.run_bounded
    monkeypatch.setattr(compiling, "run_bounded", lambda words, *more: ran.append(words) or run_bounded(words, *more))

    def build() -> "tuple[int, int]":
        """How often the compiler was called, and the status with which the program ends."""
        ran.clear()
        built = compiling.compile_program([], tmp_path, sources, "one", tmp_path / "bin/one", counter, kept=kept)
        assert built == (True, "")
        return len(ran), subprocess.run([tmp_path / "bin/one"]).returncode

    assert [build(), build()] == [(2, 3), (0, 3)]
    for name in ("two.c", "more.h"):  # no part of it
        (sources / name).write_text("this is no program\n")
    assert build() == (0, 3)
    (sources / "status.h").write_text("enum { k_status = 4 };\n")
    assert [build(), build()] == [(2, 4), (0, 4)]
    (sources / "one.c").write_text('#include "through.h"\nint main(void) { return k_status; } // the same\n')
    assert build() == (2, 4)


def test_what_is_the_chapters_is_built_quickly(tmp_path: Path) -> None:
    """Not what was changed, nor what takes code from a header of common/ that was, nor a program of one file."""
    exercise = exercises.find("22-uses")
    tree, kept = exercise.stage(), Kept(tmp_path / "kept", ["-O1"]).of_chapter("22")
    exercises.write_tree(tree, tmp_path)
    files = sorted(name for name in tree if name.endswith(".c") and name.startswith("src/"))

    def flags() -> "dict[str, Sequence[str]]":
        return {name: kept.how_fast(tmp_path, name) for name in files}

    assert flags() == dict.fromkeys(files, compiling.QUICKLY) and kept.how_fast(tmp_path, "client.c") == ["-O1"]
    for changed, some in ((files[0], files[0]), ("src/server.h", ""), ("clock_wall.h", "clock_wall.h")):
        (tmp_path / changed).write_text(tree[changed] + "// changed\n")
        slowly = [name for name, given in flags().items() if given == ["-O1"]]
        assert slowly == [name for name in files if some in (name, *compiling.needs(tmp_path, name))]
        assert bool(slowly) == bool(some)
        (tmp_path / changed).write_text(tree[changed])
