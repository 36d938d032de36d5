"""What make says and does, for those who know it, mistype it, or lack a tool; and the picture on the first page.

Most tests use a workbook in small: the real Makefile and tools, three chapters of a few lines and a test file each.
"""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from html import unescape
from pathlib import Path
from typing import Dict, List, NamedTuple

import pytest

from cases.clock import Clock
from cases.real_clients import cli
from harness import fail, limit, settings, wait_until
from harness.settings import ROOT, needs

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
    line = re.fullmatch(r"[\w./]+:\d+: \*\*\* (.*)\.  Stop\.\n", done.err)
    return line[1] if line and done.out == "" else fail(f"make {' '.join(words)} says\n{done.out}{done.err}")


def good(*words: str, cwd: Path = ROOT, **env: str) -> str:
    """What make prints on standard output; fails where its status is not 0."""
    done = make(*words, cwd=cwd, **env)
    assert done.status == 0, f"make {' '.join(words)} failed:\n{done.out}{done.err}"
    return done.out


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workbook in small, in a folder with a blank in its name, for tests that only look."""
    return workbook(tmp_path_factory.mktemp("small") / "a workbook")


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
    shutil.copy(ROOT / "tests" / "conftest.py", top / "tests")
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


TOOLS = "sh env grep make awk sed cat basename cmp dirname echo ln ls mkdir mv nproc realpath rm test true"


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what every system has: no compiler, no Python, no valgrind."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS.split():
        (folder / name).symlink_to(shutil.which(name) or fail(f"there is no {name}"))
    return str(folder)


# ---- the first page ----

TYPED = re.compile(r'"i ty"[^>]*>(.*?)</text>(\n.*five seconds later.*)?((?:\n<text [^>]*"r a"[^>]*>.*</text>)*)')


@pytest.mark.time_limit(60)  # it may have to build the server
def test_the_session_of_the_first_page_is_played() -> None:
    """What its picture shows is what redis-cli prints beside the last server."""
    picture, last = (ROOT / "book/figures/front-session.svg").read_text(encoding="utf-8"), settings.CHAPTERS[-1]
    shown = [(line, later, re.findall(">(.*)</text>", replies)) for line, later, replies in TYPED.findall(picture)]
    starts = f"make run-{last} IDLE_TIMEOUT_MS=0"
    listening = ["listening on 127.0.0.1:1234", "Ready to accept connections"]
    assert shown[:2] == [(starts, "", listening), ("redis-cli -p 1234", "", [])] and len(shown) == 7
    needs("redis-cli")
    clock = Clock()
    with clock.server(last) as server:
        server.wait_line(listening[1])
        for line, later, replies in shown[2:]:
            clock.step(5000 if later else 100)
            assert cli(server, stdin=f"{line}\n".encode()).splitlines() == list(map(unescape, replies)), line


# ---- help ---------------------------------------------------------------------------------------


def test_help_names_every_target_and_no_other() -> None:
    text = good("help")
    named = set(re.findall(r"\bmake ([a-z0-9]+(?:-[a-z0-9-]+)?)", text))
    rules = "".join((ROOT / path).read_text() for path in MAKEFILES).replace("\\\n", "")
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)", rules, re.M)).split())
    numbered = {f"{goal}-07" for goal in re.findall(r"^\$\(CHAPTERS:%=([a-z]+)-%\):", rules, re.M)}
    unsaid = {"$(CHAPTERS)", "all", "help", "build", "build-07", "always", *VERBS, *FOLDERS}
    assert (phony | numbered) - unsaid - named == set()
    exercises = {f"{verb}-04-buffered-reads" for verb in VERBS}
    others = {"07", "test-08", "diff-07", "diff-06-11", "take-09-lines", *exercises}
    assert named - phony - numbered == others
    assert max(map(len, text.splitlines())) <= 100


def test_variables_that_texts_and_tools_speak_of_are_known() -> None:
    """`make forward-07 FROM=09` must not be refused."""
    patterns = ("*.md", ".github/*.md", "book/**/*.md", "tests/**/*.md", "tests/**/*.py")
    texts = [path for pattern in patterns for path in ROOT.glob(pattern)]
    lines = "\n".join(path.read_text(encoding="utf-8") for path in texts if path.name != Path(__file__).name)
    said = {name for _, name in re.findall(r"\bmake ([a-z]+(?:-[a-z0-9{}-]+)?) ([A-Z_]+)=", lines)}
    assert {"FROM", "SERVER", "SUBMISSIONS"} <= said <= set(good("help").split())


# ---- mistakes -----------------------------------------------------------------------------------

MAKEFILES = ("Makefile", "tests/tools/upkeep.mk", "tests/tools/whole.mk")
VERBS = {"start", "check", "watch", "hint", "solution", "reset"}
FOLDERS = {"book", "chapters", "common", "tests"}
NONE = "there is no such target: make help lists all, chapters are 03 to 06"
REFUSED = {
    "17": f"make 17: {NONE}",
    "3": "make 3: chapters have two digits: make 03",
    "test-3": "make test-3: chapters have two digits: make test-03",
    "run": f"make run: {NONE}",
    "tset": f"make tset: {NONE}",
    "tests": f"make tests: {NONE}",
    "it's": f"make it's: {NONE}",
    "test 04": "this is one word: make test-04",
    "check": "make check: which exercise? For example make check-04-buffered-reads (make exercises lists all)",
    "test-04 SEVER=x": "there is no variable SEVER (make help has them)",
    "test-04 CFLAGS=-O3 SERVER=true": "there is no variable CFLAGS (make help has them)",
    "test-04 HEADERS=nowhere": "HEADERS=nowhere: there is no header of common/ in that folder",
    "test-04 HEADERS=chapters": "HEADERS=chapters: there is no header of common/ in that folder",
    "03 CC=nocc": "make 03: nocc is missing: sudo apt-get install nocc",
    "03 MAKE_VERSION=3.81":
        "this is GNU Make 3.81, and 4.0 or later is needed (macOS: brew install make, then gmake)",
}  # fmt: skip


@pytest.mark.parametrize("typed", REFUSED)
def test_a_mistake_gets_one_line_that_says_what_to_do(typed: str, untouched: Path) -> None:
    assert refusal(*typed.split(), cwd=untouched) == REFUSED[typed]
    assert not (untouched / "build").exists(), "something was built all the same"


@pytest.mark.parametrize(
    "words, says",
    [
        (["SERVER=nowhere/server"], "cannot be tested"),
        (["SERVER=true", "CLIENT=true", "TEST_TIME_FACTOR=x"], "TEST_TIME_FACTOR=x: not a number"),
        ([f'SERVER={sys.executable} -c "raise SystemExit(7)"', "CLIENT=true"], "the server ended at once"),
    ],
)
def test_a_server_that_cannot_be_tested(words: List[str], says: str, built: Path) -> None:
    """It says so at once, not once for every test."""
    done = make("test-03", *words, cwd=built)
    assert done.status != 0 and says in done.err and "passed" not in done.out, done


def test_variables_may_have_any_value(untouched: Path) -> None:
    good("-n", "test-04", "ARGS=it's \\ \"a b\" $$x\t=", "SERVER=a b", cwd=untouched, SRV="in the environment")


# ---- tools that are missing ---------------------------------------------------------------------


def test_missing_tools(built: Path, bare_path: str) -> None:
    for goal in ("all", "03", "demo", "run-03", "test-03"):
        line = refusal(goal, cwd=built, PATH=bare_path)
        missed = goal.replace("run-", "")
        assert line == f"make {missed}: cc is missing: sudo apt-get install gcc libc6-dev"
    assert "make demo" in good("help", cwd=built, PATH=bare_path)
    cc = {"CC": shutil.which("cc") or "cc", "PATH": bare_path}
    line = refusal("format", cwd=built, **cc)
    assert line == "make format: clang-format is missing: sudo apt-get install clang-format"


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
        "import os\ndef test_it():\n"
        f"    assert os.environ['SERVER'] == {server!r} and os.environ.get('CLIENT', 'true') == 'true'\n"
    )
    for client in ([], ["CLIENT=true"]):  # without one, a test that needs it builds it
        assert "1 passed in" in good("test-03", f"SERVER={server}", *client, cwd=small, PATH=bare_path)


def python_as(path: Path, options: str) -> None:
    """Writes a Python that has these options."""
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
    path.chmod(0o755)


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


# ---- running a server ---------------------------------------------------------------------------


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
    sources = [str(path.relative_to(ROOT)) for path in ROOT.glob("chapters/*/**/*.c")]
    programs = [source[: -len(".c")] for source in sources if "/src/" not in source]
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


def several_files(top: Path) -> Path:
    """Makes the server of 06 one of two files with a header; returns their folder."""
    chapter = top / "chapters" / "06"
    src = chapter / "src"
    src.mkdir()
    source = (chapter / "server.c").read_text()
    (chapter / "server.c").unlink()
    (src / "server.h").write_text("void leave(int sig);\n")
    (src / "end.c").write_text('#include <unistd.h>\n#include "server.h"\nvoid leave(int sig) { _exit(sig - sig); }\n')
    source = re.sub("static void leave.*\n", '#include "server.h"\n', source)
    (src / "main.c").write_text(source)
    makefile = (chapter / "Makefile").read_text().replace(" server.c", " src/*.c")
    (chapter / "Makefile").write_text(makefile.replace("*.h)", "*.h src/*.h)"))
    (chapter / "README.md").write_text(README.replace("NN", "06").replace(" server.c", " src/*.c"))
    return src


def test_a_server_of_several_files(small: Path) -> None:
    src = several_files(small)

    def built() -> str:
        return good("build-06", "B=build/test", cwd=small).replace("build/test/06/", "")

    assert sorted(built().split()) == ["client", "server"] and built() == ""
    for path in (src / "server.h", src / "end.c"):
        os.utime(path, (time.time() + 2,) * 2)
        assert built() == "server\n", f"{path.name} was changed"
        os.utime(path, (time.time() - 60,) * 2)
    (src / "more.c").touch()
    assert built() == "server\n", "a file has come"
    (src / "more.c").unlink()
    assert built() == "server\n", "a file has gone"
    assert good("06", cwd=small) == "chapters/06: client server\n" and good("06", cwd=small) == ""
    assert "1 passed in" in good("test-06", cwd=small) and "chapter 06, inner 1" in good("demo-06", cwd=small)
    (small / "my" / "src").mkdir(parents=True)
    for name in ("inner.h", "src/server.h"):
        shutil.copy(small / "common/inner.h", small / "my" / name)
    assert "server| chapter 06, inner 1" in good("demo-06", "HEADERS=my", cwd=small)
    assert refusal("test-06", "HEADERS=my/src", cwd=small) == (
        "HEADERS=my/src: server.h belongs to one server, and HEADERS replaces headers of common/ alone"
    )
    good("clean", cwd=small)
    assert not (small / "chapters/06/server").exists()


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
    assert "1 passed in" in good("test-03", "HEADERS=my", cwd=small)
    (small / "my" / "inner.h").write_text("enum { k_inner = 3 };\n")
    assert "1 failed in" in make("test-03", "HEADERS=my", cwd=small).out, "a change of the header was not noticed"


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
    own = built / "tests/selftests"
    own.mkdir()
    (own / "test_unreadable.py").write_text("def test_it(:\n")
    (own / "test_dies.py").write_text("import os\ndef test_it(): os._exit(0)\ndef test_other(): pass\n")
    (own / "test_broken.py").write_text("def test_that_has_a_target_of_its_own(): assert 0\n")
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
    assert "1 passed in" in done.stdout, done.stdout


def test_arguments_for_pytest(built: Path) -> None:
    (built / "tests/test_03.py").write_text("def test_one(): pass\ndef test_two(): assert 0\n")
    assert "1 passed, 1 deselected in" in good("test-03", "ARGS=-k 'one or other'", cwd=built)
    done = make("test-03", "ARGS=-k nosuch", cwd=built)
    assert done.status != 0 and "No test that can run here fits." in done.out
    assert "cases/" in done.out, "where the names are"


BETWEEN = "import pytest\ndef test_new(): pass\n@pytest.mark.between\ndef test_old(): pass\n"


@pytest.mark.time_limit(60)  # five runs of make test
def test_make_test_runs_a_case_at_its_ends(built: Path) -> None:
    for chapter in CHAPTERS:
        (built / f"tests/test_{chapter}.py").write_text(BETWEEN)
    assert "\n3 passed, 0 failed" in good("test", cwd=built)
    assert "\n6 passed, 0 failed" in good("test-all", cwd=built)
    assert "\n2 passed in" in good("test-04", cwd=built)
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
    assert "3 passed, 0 failed" in good("test", cwd=built)


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


# ---- all checks ---------------------------------------------------------------------------------

CHECKS = """
checks := good missing bad
needs.missing = no-such-tool
good: ; @echo good is done
bad: ; @false
"""


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize("checks, status", [("good", 0), ("good missing", 0), ("good missing bad", 2)])
def test_check_all_sums_up(checks: str, status: int, ci: str, small: Path) -> None:
    with open(small / "tests/tools/whole.mk", "a") as makefile:
        makefile.write(CHECKS.replace("good missing bad", checks))
    done = make("check-all", cwd=small, CI=ci)
    table = re.sub(r"\d+ s\n", "N s\n", done.out.partition("=== make check-all ===\n")[2])
    rows = ["good: ok, N s\n", "missing: left out, since no-such-tool is missing\n", "bad: FAILED, N s\n"]
    assert table == "".join(rows[: len(checks.split())]), done
    assert done.status == (2 if ci and "missing" in checks else status) and "good is done\n" in done.out


def test_the_checks_are_targets() -> None:
    checks = re.search(r"^checks := ((?:.*\\\n)*.*)", (ROOT / "tests/tools/whole.mk").read_text(), re.M)
    assert checks and len(checks[1].replace("\\", "").split()) > 15
    good("-n", *checks[1].replace("\\", "").split())


@pytest.mark.parametrize(
    "path, old, new, complaint",
    [
        ("chapters/03/server.c", "pause();", "pause();", ""),
        ("chapters/03/server.c", "pause();", "int unused; pause();", "unused variable"),
        ("chapters/03/README.md", "-Wextra", "-Wextra --no-such", "no-such"),
    ],
)
def test_the_lines_of_the_readmes(path: str, old: str, new: str, complaint: str, small: Path) -> None:
    (small / path).write_text((small / path).read_text().replace(old, new))
    done = make("readme-lines", cwd=small)
    assert (done.status == 0) == (not complaint) and complaint in done.out, done
    assert not (small / "chapters/03/server").exists()
