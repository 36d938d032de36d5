"""The front door: what make says and does, for those who know it, mistype it, or lack a tool.

Most tests use a workbook in small: the real Makefile and tools, three chapters of a few lines and a test file each.
"""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Dict, List, NamedTuple

import pytest

from harness import fail, limit, wait_until
from harness.settings import ROOT, needs

import check
import door

pytestmark = pytest.mark.inside

SERVER_C = """#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "outer.h"
static void leave(int sig) { _exit(sig - sig); }
int main(void) {
    signal(SIGTERM, leave);
    const char *port = getenv("PORT");
    fprintf(stderr, "listening on 127.0.0.1:%s\\n", port ? port : "1234");
    printf("chapter CHAPTER, inner %d\\n", k_inner);
    fflush(stdout);
    pause();
}
"""
CLIENT_C = '#include <stdio.h>\nint main(void) { puts("server says: world"); }\n'
README = """# Chapter NN: A stand-in

## What it adds
Nothing at all, but `in full`. And no more.

## Build and run
```sh
cc -O2 -g -Wall -Wextra -I../../common server.c -o server
cc -O2 -g -Wall -Wextra -I../../common client.c -o client
```
"""
SESSION = "# A session.\n$ ./client\nserver says: world\nserver| chapter CHAPTER, inner 1\n"
TEST = "import os\ndef test_it():\n    assert os.access(os.environ['WORKBOOK_BUILD'] + '/NN/server', os.X_OK)\n"
CHAPTERS = ["03", "04", "06"]


class Done(NamedTuple):
    """What a make printed, and its exit status."""

    out: str
    err: str
    status: int


def environment(**changes: str) -> Dict[str, str]:
    """A plain environment: nothing of the make or pytest that runs this."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**env, "PYTHON": sys.executable, "JOBS": "2", **changes}


def make(*words: str, cwd: Path = ROOT, **env: str) -> Done:
    """Runs make as a user would type it."""
    done = subprocess.run(
        ["make", *words], cwd=cwd, env=environment(**env), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=limit(60),
    )  # fmt: skip
    return Done(done.stdout, done.stderr, done.returncode)


def refusal(*words: str, cwd: Path = ROOT, **env: str) -> str:
    """The one line that make answers with, without make's own words around it; fails where it says or does more."""
    done = make(*words, cwd=cwd, **env)
    assert done.status != 0, f"make {' '.join(words)} was not refused:\n{done.out}{done.err}"
    assert done.out == "" and done.err.count("\n") == 1, f"not one line:\n{done.out}{done.err}"
    line = re.fullmatch(r"Makefile:\d+: \*\*\* (.*)\.  Stop\.\n", done.err)
    return line[1] if line else fail(f"not an error of the Makefile: {done.err}")


def good(*words: str, cwd: Path = ROOT, **env: str) -> str:
    """What make prints on standard output; fails where its status is not 0."""
    done = make(*words, cwd=cwd, **env)
    assert done.status == 0, f"make {' '.join(words)} failed:\n{done.out}{done.err}"
    return done.out


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workbook in small, in a folder with a blank in its name, for tests that only look."""
    return workbook(tmp_path_factory.mktemp("small") / "a workbook")


@pytest.fixture(scope="module")
def small_door(untouched: Path) -> ModuleType:
    """The door of that workbook, to be asked without a make."""
    spec = importlib.util.spec_from_file_location("small_door", untouched / "tests" / "tools" / "door.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(untouched: Path, tmp_path: Path) -> Path:
    """Another, to work in."""
    return Path(shutil.copytree(untouched, tmp_path / "a workbook"))


@pytest.fixture(scope="module")
def once_built(untouched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, to be copied with the times of its files."""
    top = shutil.copytree(untouched, tmp_path_factory.mktemp("built") / "a workbook")
    good("build", cwd=Path(top))
    return Path(top)


@pytest.fixture
def built(once_built: Path, tmp_path: Path) -> Path:
    """Another, with its programs in build/test."""
    return Path(shutil.copytree(once_built, tmp_path / "a built workbook"))


def workbook(top: Path) -> Path:
    """Writes a workbook in small."""
    (top / "common").mkdir(parents=True)
    (top / "common" / "outer.h").write_text('#include "inner.h"\n')
    (top / "common" / "inner.h").write_text("enum { k_inner = 1 };\n")
    shutil.copy(ROOT / "Makefile", top)
    shutil.copy(ROOT / ".gitignore", top)
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("tools", "learn", "harness"):
        shutil.copytree(ROOT / "tests" / folder, top / "tests" / folder, ignore=ignore)
    (top / "tests" / "sessions").mkdir()
    for chapter in CHAPTERS:
        folder = top / "chapters" / chapter
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "chapters" / "03" / "Makefile", folder)
        (folder / "server.c").write_text(SERVER_C.replace("CHAPTER", chapter))
        (folder / "client.c").write_text(CLIENT_C)
        (folder / "README.md").write_text(README.replace("NN", chapter))
        (top / "tests" / f"test_{chapter}.py").write_text(TEST.replace("NN", chapter))
        (top / "tests" / "sessions" / f"{chapter}-stand-in.session").write_text(SESSION.replace("CHAPTER", chapter))
    return top


TOOLS = "sh env make awk sed cat basename cmp dirname echo ln ls mkdir mv nproc realpath rm setarch test true uname"


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what every system has: no compiler, no Python, no valgrind."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS.split():
        (folder / name).symlink_to(shutil.which(name) or fail(f"there is no {name}"))
    return str(folder)


# ---- help ---------------------------------------------------------------------------------------


def test_help_lists_every_target_and_variable() -> None:
    text = good("help")
    internal = {"all", "help", "build"}
    for word in set(door.PLAIN) - internal:
        assert re.search(rf"make {word}\b(?!-\d)", text), f"make help does not mention make {word}"
    for word in set(door.OF_CHAPTERS + door.OF_EXERCISES) - internal:
        assert re.search(rf"make {word}-\d\d", text), f"make help does not mention make {word}-NN"
    assert "make diff-06-11" in text and "make 07" in text
    for variable in door.VARIABLES:
        assert re.search(rf"\b{variable}\b", text), f"make help does not mention {variable}="


def test_help_mentions_nothing_that_is_not_there() -> None:
    for goal in sorted(set(re.findall(r"\bmake ([a-z]+(?:-[a-z0-9-]+)?|\d\d)", good("help")))):
        door.goal_is_there(goal, "")


def test_variables_that_texts_and_tools_speak_of_are_known() -> None:
    """`make forward-07 FROM=09` must not be refused."""
    patterns = ("*.md", ".github/*.md", "book/**/*.md", "tests/**/*.md", "tests/**/*.py")
    texts = [path for pattern in patterns for path in ROOT.glob(pattern)]
    lines = "\n".join(path.read_text(encoding="utf-8") for path in texts if path.name != Path(__file__).name)
    said = {name for _, name in re.findall(r"\bmake ([a-z]+(?:-[a-z0-9{}-]+)?) ([A-Z_]+)=", lines)}
    assert {"FROM", "SERVER", "SUBMISSIONS"} <= said and said - set(door.VARIABLES) == set()


def test_help_fits_a_terminal() -> None:
    assert max(map(len, good("help").splitlines())) <= 100


# ---- mistakes -----------------------------------------------------------------------------------

TYPOS = {
    "15": "make 15: there is no chapter 15, they are 03 to 06: make 06",
    "3": "make 3: chapters have two digits: make 03",
    "02": "make 02: chapters 01 and 02 are text alone, the programs begin with 03: make 03",
    "test-3": "make test-3: chapters have two digits: make test-03",
    "test-15": "make test-15: there is no chapter 15, they are 03 to 06: make test-06",
    "demo-003": "make demo-003: there is no chapter 003, they are 03 to 06: make demo-06",
    "diff-03-21": "make diff-03-21: there is no chapter 21, they are 03 to 06: make diff-03-06",
    "diff-3-04": "make diff-3-04: chapters have two digits: make diff-03-04",
    "diff-06-03": "make diff-06-03: the earlier chapter comes first: make diff-03-06",
    "diff-06-06": "make diff-06-06: these are not two chapters; make diff-06 compares with the one before",
    "run": "make run: of which chapter? For example: make run-06",
    "run 04": "make run: this is one word: make run-04",
    "test 04": "make test: this is one word: make test-04",
    "test04": "make test04: there is no such target, did you mean make test-04? (make help lists all)",
    "tset": "make tset: there is no such target, did you mean make test? (make help lists all)",
    "hlep": "make hlep: there is no such target, did you mean make help? (make help lists all)",
    "asna": "make asna: there is no such target, did you mean make asan? (make help lists all)",
    "chek-all": "make chek-all: there is no such target, did you mean make check-all? (make help lists all)",
    "check": "make check: there are no exercises in this copy of the workbook",
    "tset-04": "make tset-04: there is no such target, did you mean make test-04? (make help lists all)",
    "frobnicate": "make frobnicate: there is no such target (make help lists all)",
    "it's": "make it's: there is no such target (make help lists all)",
    "03 tset": "make tset: there is no such target, did you mean make test? (make help lists all)",
    "test-04 SEVER=x": "there is no variable SEVER, did you mean SERVER=? (make help has them)",
    "test-04 SRV=my/bad": "there is no variable SRV, did you mean SERVER=? (make help has them)",
    "test-04 CFLAGS=-O3 SERVER=true": "there is no variable CFLAGS (make help has them)",
    "test-04 HEADER=x": "there is no variable HEADER, did you mean HEADERS=? (make help has them)",
    "test-04 SERVER=nowhere/server": "make test-04: SERVER=nowhere/server: there is no such program",
    "test-04 SERVER=true CLIENT=./Makefile": "make test-04: CLIENT=./Makefile may not be executed: chmod +x ./Makefile",
    "test-04 WRAPPER=valgrnd": "make test-04: WRAPPER=valgrnd: there is no such program",
    "test-04 HEADERS=nowhere": "HEADERS=nowhere: there is no such folder",
    "test-04 HEADERS=chapters": "HEADERS=chapters: none of the headers of common/ is in that folder",
    "test-04 TEST_TIME_FACTOR=x": "TEST_TIME_FACTOR=x: not a number above 0, such as 4 or 0.5",
    "test-04 TEST_TIME_FACTOR=0.0": "TEST_TIME_FACTOR=0.0: not a number above 0, such as 4 or 0.5",
    "test-04 JOBS=0": "JOBS=0: not a whole number from 1 on",
    "class-check N=all": "N=all: not a whole number from 1 on",
    "03 CC=nocc": "make 03: there is no compiler nocc; without CC= it is cc",
}


@pytest.mark.parametrize("typed", TYPOS)
def test_a_typo_gets_one_line_that_says_what_to_do(
    typed: str, untouched: Path, small_door: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(untouched)
    given = dict(word.split("=") for word in typed.split() if "=" in word)
    assert small_door.main([word for word in typed.split() if "=" not in word], given) == TYPOS[typed]


@pytest.mark.parametrize("typed", ["test-3", "it's", "03 tset", "test-04 SRV=my/bad", "03 CC=nocc"])
def test_make_asks_the_door(typed: str, untouched: Path) -> None:
    assert refusal(*typed.split(), cwd=untouched) == TYPOS[typed]
    assert not (untouched / "build").exists(), "something was built all the same"


def test_variables_as_make_has_them(untouched: Path) -> None:
    value = "it's \\ \"a b\" $x\t="
    assert door.variables(r"A=x\ y B:=\\\ C=") == {"A": "x y", "B": "\\ C="}
    for words in ([f"ARGS={value}", "N=5"], ["SERVER=true", f"ARGS={value}"]):
        assert refusal("-n", "test-04", *words, "X=1", cwd=untouched) == "there is no variable X (make help has them)"
        good("-n", "test-04", *words, cwd=untouched, SRV="in the environment")


def test_a_make_that_is_too_old(untouched: Path) -> None:
    line = refusal("03", "MAKE_VERSION=3.81", cwd=untouched)
    assert line == "this is GNU Make 3.81, and 4.0 or later is needed (macOS: brew install make, then gmake)"


def test_check_without_a_name_asks_which_exercise() -> None:
    assert "which exercise?" in refusal("check") and "make check-all" in refusal("check")


# ---- tools that are missing ---------------------------------------------------------------------


def test_missing_compiler(small: Path, bare_path: str) -> None:
    for goal in ("all", "03", "demo", "run-03", "test-03"):
        line = refusal(goal, cwd=small, PATH=bare_path)
        assert line == f"make {goal}: a C compiler is missing: sudo apt-get install gcc libc6-dev"
    assert "make demo" in good("help", cwd=small, PATH=bare_path)


LISTENS = """\
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("listening on 127.0.0.1:%d" % server.getsockname()[1], file=sys.stderr, flush=True)
while True:
    server.accept()[0].close()
"""


def test_a_program_from_elsewhere_needs_no_compiler(small: Path, bare_path: str) -> None:
    (small / "a server.py").write_text(LISTENS)
    server = f'{sys.executable} "a server.py"'
    (small / "tests" / "test_03.py").write_text(
        f"import os\ndef test_it():\n    assert os.environ['SERVER'] == {server!r} and os.environ['CLIENT'] == 'true'\n"
    )
    out = good("test-03", f"SERVER={server}", "CLIENT=true", cwd=small, PATH=bare_path)
    assert "1 passed, 0 failed" in out


def test_a_program_from_elsewhere_that_cannot_be_tested(small: Path) -> None:
    """It says so at once, not once for every test."""
    (small / "a server.py").write_text("raise SystemExit('no such port')\n")
    done = make("test-03", f'SERVER={sys.executable} "a server.py"', "CLIENT=true", cwd=small)
    assert done.status != 0 and "No test was run" in done.err and "no such port" in done.err
    assert "passed" not in done.out


def python_as(path: Path, options: str) -> None:
    """Writes a Python that has these options."""
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
    path.chmod(0o755)


def test_missing_pytest(built: Path, tmp_path: Path) -> None:
    python = tmp_path / "python-without-pytest"
    python_as(python, "-I -S")
    for goal in ("test", "test-03", "asan"):
        line = refusal(goal, cwd=built, PYTHON=str(python))
        says = f"PYTHON={python} is no Python 3.9 or later with pytest; unset it, and others are tried"
        assert line == f"make {goal}: {says}"


@pytest.mark.parametrize(
    "second, found",
    [
        ("", "python3.9\n"),
        ("-I -S", "pytest for Python 3.9 or later is missing: sudo apt-get install python3-pytest\n"),
    ],
    ids=["behind one without", "nowhere"],
)
def test_a_python_with_pytest_is_looked_for(second: str, found: str, tmp_path: Path) -> None:
    script = (ROOT / "tests/tools/findpython.sh").read_text().replace("/usr/bin/python3 ", "python3.9 ")
    (tmp_path / "findpython.sh").write_text(script)
    python_as(tmp_path / "python3", "-I -S")
    python_as(tmp_path / "python3.9", second)
    command = [shutil.which("sh") or "sh", str(tmp_path / "findpython.sh"), "pytest"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == (found, int(bool(second)))


def test_missing_valgrind_and_clang_format(small: Path, bare_path: str) -> None:
    cc = {"CC": shutil.which("cc") or "cc", "PATH": bare_path}
    line = refusal("valgrind", cwd=small, **cc)
    assert line == "make valgrind: valgrind is missing: sudo apt-get install valgrind"
    line = refusal("format", cwd=small, PATH=bare_path)
    assert line == "make format: clang-format is missing: sudo apt-get install clang-format"


# ---- running a server ---------------------------------------------------------------------------


def test_busy_port(small: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal("run-03", f"PORT={port}", cwd=small)
    assert (
        line
        == f"make run-03: port {port} is in use: stop the server that has it, or take another: make run-03 PORT=2345"
    )


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_run_is_the_server_in_the_foreground(by: str, small: Path) -> None:
    words, env = (["PORT=0"], {}) if by == "argument" else ([], {"PORT": "0"})
    process = subprocess.Popen(
        ["make", "run-06", *words], cwd=small, env=environment(**env), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines == ["chapters/06: client server\n", "listening on 127.0.0.1:0\n", "chapter 06, inner 1\n"]
        os.killpg(process.pid, signal.SIGINT)
        process.wait(limit(5))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# ---- building -----------------------------------------------------------------------------------


def git(top: Path, *words: str) -> str:
    """What git prints."""
    needs("git")
    return subprocess.run(
        ["git", *words], cwd=top, env=environment(), check=True, capture_output=True, text=True
    ).stdout


def test_make_builds_every_chapter_beside_its_sources(small: Path) -> None:
    git(small, "init", "-q")
    git(small, "add", "-A")
    assert good("04", cwd=small) == "chapters/04: client server\n"
    assert not (small / "chapters" / "03" / "server").exists()
    good("clean", cwd=small)
    lines = good(cwd=small).splitlines()
    assert sorted(lines[:-1]) == [f"chapters/{chapter}: client server" for chapter in CHAPTERS]
    assert "make demo" in lines[-1] and "make help" in lines[-1]
    for chapter in CHAPTERS:
        assert os.access(small / "chapters" / chapter / "server", os.X_OK)
    good("build", cwd=small)
    assert "?? " not in git(small, "status", "--porcelain"), "what make builds is not ignored by git"
    assert good(cwd=small).splitlines() == lines[-1:], "built again, though nothing had changed"
    good("clean", cwd=small)
    assert git(small, "status", "--porcelain", "--ignored").count("!! ") == 0, "make clean has left something"


def test_the_real_gitignore_covers_every_program() -> None:
    programs = [str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("chapters/*/*.c")]
    sources = [program + ".c" for program in programs]
    needs("git")
    done = subprocess.run(["git", "check-ignore", *programs, *sources], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip("needs a clone of the repository")
    assert sorted(done.stdout.split()) == sorted(programs)


def test_a_change_builds_what_depends_on_it(small: Path) -> None:
    def built() -> List[str]:
        return sorted(line[len("build/test/") :] for line in good("build-03", "B=build/test", cwd=small).splitlines())

    def change(path: str) -> None:
        soon = time.time() + 2
        os.utime(small / path, (soon, soon))

    assert built() == ["03/client", "03/server"]
    assert built() == []
    change("common/inner.h")
    assert built() == ["03/client", "03/server"]
    past = time.time() - 60
    os.utime(small / "common/inner.h", (past, past))
    os.utime(small / "chapters/03/client.c", (past, past))
    change("chapters/03/server.c")
    assert built() == ["03/server"]
    assert make("build-03", "CC=gcc -DNDEBUG", cwd=small).out.count("build/test/03/") == 2, "another way to compile"


def test_headers_of_the_learner_come_first_everywhere(small: Path) -> None:
    (small / "my").mkdir()
    (small / "my" / "inner.h").write_text("enum { k_inner = 2 };\n")
    (small / "tests" / "test_03.py").write_text(
        "import os, subprocess\n"
        "def test_it():\n"
        "    p = subprocess.Popen([os.environ['WORKBOOK_BUILD'] + '/03/server'], stdout=subprocess.PIPE, text=True)\n"
        "    line = p.stdout.readline()\n"
        "    p.kill()\n"
        "    p.wait()\n"
        "    assert line == 'chapter 03, inner 2\\n'\n"
    )
    assert "1 passed, 0 failed" in good("test-03", "HEADERS=my", cwd=small)
    (small / "my" / "inner.h").write_text("enum { k_inner = 3 };\n")
    assert "0 passed, 1 failed" in make(
        "test-03", "HEADERS=my", cwd=small
    ).out, "a change of the header was not noticed"


def test_a_program_that_does_not_compile(small: Path) -> None:
    source = small / "chapters" / "03" / "server.c"
    source.write_text("int main(void) { int unused; }\n")
    done = make("build-03", cwd=small)
    assert done.status != 0 and "unused variable" in done.out + done.err
    assert "03/client" in make("-k", "build-03", cwd=small).out + done.out
    assert [path.name for path in (small / "build/test/03").glob("server*")] == []
    assert "\nNothing was tested: mend the first error" in make("test-03", cwd=small).out


def test_two_makes_may_build_the_same_folder(small: Path) -> None:
    makes = [
        subprocess.Popen(["make", "-s", "build", "B=build/x"], cwd=small, env=environment(), stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.wait(limit(60)) for process in makes] == [0, 0]
    assert sorted(path.name for path in (small / "build/x/03").iterdir()) == ["client", "server"]


def test_sanitizers_are_built_in(small: Path) -> None:
    good("build-03", "B=build/asan", "SAN=address,undefined", cwd=small)
    symbols = (small / "build/asan/03/client").read_bytes()
    assert b"__asan" in symbols and b"__ubsan" in symbols


def test_valgrind_finds_a_leak_in_a_lab_program(built: Path) -> None:
    needs("valgrind")
    lab = built / "chapters/03/test_lab.c"
    lab.write_text("#include <stdlib.h>\nchar *volatile p;\nint main(void) { p = malloc(9); free(p); p = NULL; }\n")
    assert "valgrind build/test/03/test_lab" in good("valgrind", cwd=built)
    lab.write_text(lab.read_text().replace("free(p);", ""))
    done = make("valgrind", cwd=built)
    assert done.status != 0 and "9 bytes in 1 blocks are definitely lost" in done.err


# ---- demo ---------------------------------------------------------------------------------------


def test_demo_plays_every_chapter(built: Path) -> None:
    out = good("demo", cwd=built)
    for chapter in CHAPTERS:
        assert f"Chapter {chapter}. A stand-in\nNothing at all, but in full.\n" in out
        assert f"  server| chapter {chapter}, inner 1\n" in out
    assert "  $ ./client\n  server says: world\n" in out
    assert "All 3 chapters did just what their sessions say" in out
    out = good("demo-04", cwd=built)
    assert "Chapter 04" in out and "Chapter 03" not in out


def test_demo_says_what_differs(built: Path) -> None:
    session = built / "tests/sessions/04-stand-in.session"
    session.write_text(session.read_text().replace("says: world", "says: word"))
    done = make("demo", cwd=built)
    assert done.status != 0
    assert "-server says: word\n+server says: world\n" in done.err
    assert "tests/sessions/04-stand-in.session:2: $ ./client" in done.err
    assert "chapter 04 is not as its session says" in done.err
    assert "Chapter 06" not in done.out


def test_demo_survives_a_server_that_does_not_start(small: Path) -> None:
    source = small / "chapters/04/server.c"
    source.write_text('#include <stdio.h>\nint main(void) { fputs("bind: no\\n", stderr); return 1; }\n')
    done = make("demo-04", cwd=small)
    assert done.status != 0 and "bind: no" in done.err and "Traceback" not in done.err


# ---- testing ------------------------------------------------------------------------------------


def test_counts_are_summed(built: Path) -> None:
    (built / "tests/test_04.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "@pytest.mark.skip\n"
        "def test_not(): pass\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_error(broken): pass\n"
    )
    (built / "tests/test_unreadable.py").write_text("def test_it(:\n")
    (built / "tests/test_dies.py").write_text("import os\ndef test_it(): os._exit(0)\ndef test_other(): pass\n")
    (built / "tests/test_broken.py").write_text("def test_that_has_a_target_of_its_own(): assert 0\n")
    done = make("test", cwd=built)
    assert done.status != 0 and "test_broken" not in done.out
    assert re.search(r"^3 passed, 4 failed, 1 skipped \(\d+ s\)$", done.out, re.M)
    for name, counts in [
        ("03", "1 passed, 0 failed"),
        ("04", "1 passed, 2 failed, 1 skipped"),
        ("unreadable", "0 passed, 1 failed"),
        ("dies", "0 passed, 1 failed"),
    ]:
        assert re.search(rf"^test_{name}.py +{counts} +\d+\.\d s$", done.out, re.M), f"{name}: {done.out}"
    assert "failed: tests/test_04.py::test_bad\n" in done.out
    assert "failed: tests/test_04.py::test_error\n" in done.out
    assert "assert 1 == 2" in done.out


def test_a_file_in_parts(built: Path) -> None:
    (built / "tests/test_03.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n): assert n != 7\n"
    )
    done = subprocess.run(
        [sys.executable, "tests/tools/runtests.py", "--split", "03"], cwd=built, env=environment(), capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1 and re.search(r"^19 passed, 1 failed ", done.stdout, re.M), done.stdout
    assert len(re.findall(r"^test_03.py ", done.stdout, re.M)) == 4, "two jobs, four parts"


def test_servers_notice_ctrl_c_also_when_run_in_the_background(built: Path) -> None:
    (built / "tests/test_03.py").write_text(
        "import signal\ndef test_it(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    done = subprocess.run(
        ["sh", "-c", "trap '' INT; make test-03"], cwd=built, env=environment(), capture_output=True, text=True
    )
    assert "1 passed, 0 failed" in done.stdout, done.stdout


def test_arguments_for_pytest(built: Path) -> None:
    (built / "tests/test_03.py").write_text("def test_one(): pass\ndef test_two(): assert 0\n")
    assert "1 passed, 0 failed" in good("test-03", "ARGS=-k 'one or other'", cwd=built)
    done = make("test-03", "ARGS=-k nosuch", cwd=built)
    assert done.status != 0 and "nothing was tested" in done.out
    assert "tests/cases/" in done.out, "where the names are"


CARRIED = "import pytest\ndef test_new(): pass\n@pytest.mark.carried\ndef test_carried(): pass\n"


def test_what_is_carried_is_left_out_of_make_test_alone(built: Path) -> None:
    for chapter in CHAPTERS:
        (built / f"tests/test_{chapter}.py").write_text(CARRIED)
    assert "\n3 passed, 0 failed" in good("test", cwd=built)
    for goal, passed in (("test-all", 6), ("test-04", 2)):
        assert f"\n{passed} passed, 0 failed" in good(goal, cwd=built)
    (built / "a server.py").write_text(LISTENS)
    assert "\n6 passed, 0 failed" in good("test", f'SERVER={sys.executable} "a server.py"', cwd=built)


def test_files_run_side_by_side(built: Path, tmp_path: Path) -> None:
    for mine, other in (("03", "04"), ("04", "03")):
        (built / f"tests/test_{mine}.py").write_text(
            "import pathlib, time\n"
            "def test_it():\n"
            f"    pathlib.Path({str(tmp_path)!r}, {mine!r}).touch()\n"
            "    end = time.monotonic() + 20\n"
            f"    while not pathlib.Path({str(tmp_path)!r}, {other!r}).exists():\n"
            "        assert time.monotonic() < end\n"
            "        time.sleep(0.01)\n"
        )
    (built / "tests/test_06.py").unlink()
    assert "2 passed, 0 failed" in good("test", cwd=built)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing_behind(sig: signal.Signals, built: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    (built / "tests/test_03.py").write_text(
        "import os, subprocess\n"
        "def test_it():\n"
        "    p = subprocess.Popen(['sleep', '60'])\n"
        f"    open({str(pids)!r}, 'w').write(f'{{p.pid}} {{os.getpid()}}\\n')\n"
        "    try:\n"
        "        p.wait()\n"
        "    finally:\n"
        "        p.kill()\n"
        "        p.wait()\n"
    )
    process = subprocess.Popen(
        ["make", "test"], cwd=built, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), "the test did not start", 30)
        os.killpg(process.pid, sig)
        wait_until(lambda: process.poll() is not None, "make did not end", 20)
        alive = [pid for pid in pids.read_text().split() if os.path.exists(f"/proc/{pid}")]
        assert process.returncode != 0
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in alive), f"{alive} live on", 20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


# ---- check --------------------------------------------------------------------------------------

CHECK = """
import sys
sys.path.insert(0, "tests/tools")
import check
S = check.Step
check.STEPS = [
    S("good", "sh", "echo 3 passed, 0 failed"), S("missing", "no-such-tool", "true"), S("bad", "sh", "false"),
]
check.STEPS = check.STEPS[: int(sys.argv[1])]
sys.exit(check.main())
"""


@pytest.mark.parametrize(
    "steps, ci, status, total",
    [
        (1, "", 0, "3 passed, 0 failed"),
        (2, "", 0, "3 passed, 0 failed"),
        (2, "true", 1, "3 passed, 1 failed"),
        (3, "", 1, "3 passed, 1 failed"),
        (3, "true", 1, "3 passed, 2 failed"),
    ],
)
def test_check_sums_up(steps: int, ci: str, status: int, total: str, small: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(steps)], cwd=small, env=environment(CI=ci), capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (status, total), done.stdout + done.stderr
    table = lines[lines.index("=== make check-all ===") + 1 : -1]
    assert len(table) == steps and re.match(r"good +ok ", table[0])
    if steps > 1:
        word = "FAILED" if ci else "left out"
        assert re.match(rf"missing +{word} .*no-such-tool missing: sudo apt-get install no-such-tool", table[1])
    if steps > 2:
        assert re.match(r"bad +FAILED ", table[2])


def test_every_step_of_check_is_a_target() -> None:
    for step in check.STEPS:
        words = step.command.split()
        if words[0] == "make":
            assert words[1] in door.PLAIN, step
        else:
            assert (ROOT / words[1]).is_file(), step


def plain(small: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the tool that compiles with the lines of the READMEs."""
    return subprocess.run(
        [sys.executable, "tests/tools/readme_lines.py", "gcc"], cwd=small, env=environment(), capture_output=True,
        text=True
    )


def test_the_lines_of_the_readmes(small: Path) -> None:
    done = plain(small)
    assert (done.returncode, done.stdout) == (
        0, "".join(f"chapters/{chapter}: ok\n" for chapter in CHAPTERS)
    ), done.stderr
    assert not (small / "chapters/03/server").exists()


@pytest.mark.parametrize(
    "path, old, new, complaint",
    [
        ("chapters/03/server.c", "pause();", "int unused; pause();", "unused variable"),
        ("chapters/03/README.md", "client.c -o client", "client.c -o x", "no line that compiles client.c"),
        ("chapters/03/README.md", "-O2", "-O3", "its Makefile runs"),
        ("chapters/03/Makefile", "-O2", "-O3", "its Makefile runs"),
    ],
)
def test_a_readme_that_is_wrong(path: str, old: str, new: str, complaint: str, small: Path) -> None:
    text = (small / path).read_text()
    assert old in text
    for chapter in CHAPTERS[1:]:
        shutil.rmtree(small / "chapters" / chapter)
    (small / path).write_text(text.replace(old, new))
    done = plain(small)
    if done.returncode == 0 or complaint not in done.stdout:
        fail(f"not noticed: {complaint}\n{done.stdout}{done.stderr}")
