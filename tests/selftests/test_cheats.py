"""A class with cheats in it: what they hand in gets nothing, and those beside them get what is theirs.

Each cheat does what it says and has no server of its own, so any point is one that was not earned. The class is graded
in a copy of the workbook whose graders everybody may write to: there, nothing but the namespaces keeps a hand off them.
"""
from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
import confine
import exercises
import grade

from harness.settings import limit
from layout import Problem

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(240)]
NAME = "04-buffered-reads"
ORDINARY = 61999  # a user who is not root
LEFT = "/tmp/left-for-a-friend-of-mine"
TOP = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

static int another_port(void) {
    char line[300];
    for (int i = 0; i < 40; i++, usleep(100 * 1000)) {
        FILE *f = fopen("/proc/net/tcp", "r");
        while (f && fgets(line, sizeof(line), f)) {
            unsigned port, state;
            if (sscanf(line, "%*d: %*8x:%x %*x:%*x %x", &port, &state) == 2 && state == 10) {
                return (int)port;
            }
        }
        if (f) {
            fclose(f);
        }
    }
    return 1;
}
"""
CHEATS = {
    "reads-the-solution": r"""
int main(void) {
    if (access("ROOT/chapters/04/exercises/buffered-reads/solution.change", R_OK) == 0 &&
        system("/usr/bin/python3 -B ROOT/tests/tools/changes.py tree 04-buffered-reads/solution $HOME/s >/dev/null &&"
               "cc -I $HOME/s $HOME/s/server.c -o $HOME/s/server") == 0) {
        char path[500];
        snprintf(path, sizeof(path), "%s/s/server", getenv("HOME"));
        execl(path, path, (char *)NULL);
    }
    return 1;
}
""",
    "prints-a-classmates-port": r"""
int main(void) {
    fprintf(stderr, "listening on 127.0.0.1:%d\n", another_port());
    for (;;) {
        pause();
    }
}
""",
    "asks-a-classmates-server": r"""
int main(void) {
    int port = another_port(), fd = socket(AF_INET, SOCK_STREAM, 0), client, to, up, down;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, b = a;
    socklen_t len = sizeof(a);
    char bytes[5000];
    b.sin_port = htons(port);
    bind(fd, (struct sockaddr *)&a, sizeof(a));
    listen(fd, 10);
    getsockname(fd, (struct sockaddr *)&a, &len);
    fprintf(stderr, "listening on 127.0.0.1:%d\n", ntohs(a.sin_port));
    while ((client = accept(fd, NULL, NULL)) >= 0) {
        to = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(to, (struct sockaddr *)&b, sizeof(b)) == 0) {
            fcntl(client, F_SETFL, O_NONBLOCK);
            fcntl(to, F_SETFL, O_NONBLOCK);
            do {
                up = recv(client, bytes, sizeof(bytes), 0);
                send(to, bytes, up > 0 ? up : 0, MSG_NOSIGNAL);
                down = recv(to, bytes, sizeof(bytes), 0);
                send(client, bytes, down > 0 ? down : 0, MSG_NOSIGNAL);
            } while (up != 0 && down != 0);
        }
        close(client);
        close(to);
    }
}
""",
    "rewrites-a-grader": r"""
int main(void) {
    FILE *f = fopen("ROOT/tests/exercises/test_04_buffered-reads.py", "a");
    if (f) {
        fprintf(f, "\nfor each in [each for each in globals() if each.startswith(\"test_\")]:\n"
                   "    globals()[each].__code__ = (lambda work: None).__code__\n");
        fclose(f);
    }
    return 1;
}
""",
    "writes-its-own-results": r"""
int main(int argc, char **argv) {
    char path[500];
    snprintf(path, sizeof(path), "%.400s/../../out/results", argv[argc - 1]);
    *strstr(path, "/server") = ' ';
    memmove(strchr(path, ' '), strchr(path, ' ') + 7, strlen(strchr(path, ' ') + 7) + 1);
    FILE *f = fopen(path, "a");
    const char *tests[] = {"answers_as_before", "few_reads", "one_by_one", "across_the_end"};
    for (int i = 0; f && i < 4; i++) {
        fprintf(f, "{\"test\": \"test_%s\", \"status\": \"passed\", \"lesson\": \"\", ", tests[i]);
        fprintf(f, "\"from\": 0, \"to\": 0}\n");
    }
    return 1;
}
""",
    "ends-its-grader": r"""
int main(void) {
    ptrace(PTRACE_ATTACH, getppid(), 0, 0);
    kill(getppid(), SIGKILL);
    kill(-1, SIGKILL);
    return 1;
}
""",
    "leaves-things-in-tmp": r"""
int main(void) {
    FILE *f = fopen("LEFT", "w");
    if (f) {
        fputs("the solution begins with\n", f);
        fclose(f);
    }
    return 1;
}
""",
    "compiles-the-solution-in": r"""
__asm__(".incbin \"ROOT/chapters/04/exercises/buffered-reads/solution.change\"");
int main(void) {
    return 1;
}
""",
}  # fmt: skip


class Class(NamedTuple):
    """A class that was graded."""

    root: Path  # the workbook that graded it
    before: Dict[str, bytes]  # its graders, before
    rows: Dict[str, Dict[str, str]]  # student -> line of grades.csv
    out: Path


def graders(root: Path) -> Dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "tests" / "exercises").glob("*.py")}


@pytest.fixture(scope="module", params=["root", "ordinary"])
def graded(request: pytest.FixtureRequest) -> Iterator[Class]:
    """The class, graded by root and by an ordinary user, three submissions at a time."""
    if (request.param == "root") != (os.getuid() == 0) and os.getuid() != 0:
        pytest.skip("only root can be root")
    if not confine.isolated():
        pytest.skip("the kernel has no namespaces for us, so no class is graded")
    top = Path(tempfile.mkdtemp(prefix="cheats-"))
    root, handed = top / "workbook", top / "class"
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache", "broken", "vectors", "bench")
    shutil.copytree(ROOT / "tests", root / "tests", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "vectors", root / "tests" / "vectors")
    shutil.copytree(ROOT / "common", root / "common")
    shutil.copytree(ROOT / "chapters" / "04", root / "chapters" / "04")
    exercise = exercises.find(NAME)
    exercises.write_tree(exercise.tree("solution"), handed / "ann" / NAME)
    for name, text in CHEATS.items():
        exercises.write_tree(exercise.starter(), handed / name / NAME)
        source = (TOP + text).replace("ROOT", str(root)).replace("LEFT", LEFT)
        (handed / name / NAME / "server.c").write_text(source)
    user = ORDINARY if request.param == "ordinary" and os.getuid() == 0 else os.getuid()
    for path in [top, *top.rglob("*")]:
        os.chown(path, user, user if user == ORDINARY else -1)
        path.chmod(0o777 if path.is_dir() else 0o666)
    words = [confined_python(), str(root / "tests/learn/grade.py"), "all", str(handed)]
    words += ["--out", str(top / "out"), "-j", "3"]
    become = {"user": user, "group": user, "extra_groups": []} if user == ORDINARY else {}
    try:
        done = subprocess.run(
            words, cwd=top, env={**os.environ, "TEST_TIME_FACTOR": str(limit(1)), "HOME": str(top)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=limit(200), **become,
        )  # type: ignore[call-overload]  # fmt: skip
        assert done.returncode == 0, done.stdout
        with open(top / "out" / "grades.csv", newline="", encoding="utf-8") as file:
            rows = {row["submission"]: row for row in csv.DictReader(file)}
        yield Class(root, graders(ROOT), rows, top / "out")
    finally:
        shutil.rmtree(top)
        Path(LEFT).unlink(missing_ok=True)


def confined_python() -> str:
    """A Python that the ordinary user may run."""
    return "/usr/bin/python3" if os.getuid() == 0 else sys.executable


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_gets_nothing(graded: Class, name: str) -> None:
    assert graded.rows[name]["total"] == "0", (graded.out / name / "transcript.txt").read_text(encoding="utf-8")


def test_a_port_of_somebody_else_is_no_port() -> None:
    """Where there are no namespaces: the harness asks whose port it is."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import sys, socket; sys.path[:0] = ['tests']; from harness import Server\n"
            "theirs = socket.create_server(('127.0.0.1', 0)); port = theirs.getsockname()[1]\n"
            "words = ['sh', '-c', f'echo listening on 127.0.0.1:{port} >&2; sleep 60']\n"
            "Server(4, command=words).__enter__()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "SUBMISSION": folder}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit(20),
        )  # fmt: skip
    assert "is not its own: the program that was started listens on no such port" in done.stdout


def test_the_others_are_graded_as_ever(graded: Class) -> None:
    row = graded.rows["ann"]
    transcript = (graded.out / "ann" / "transcript.txt").read_text(encoding="utf-8")
    assert (row["total"], row["percent"], row["note"]) == ("10", "100.0", ""), transcript
    assert graders(graded.root) == graded.before
    assert not Path(LEFT).exists()


def test_where_the_kernel_has_no_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class is refused, and of a submission by itself it is said what it could have read."""
    exercise = exercises.find(NAME)
    exercises.write_tree(exercise.tree("solution"), tmp_path / "ann" / NAME)
    monkeypatch.setattr(confine, "isolated", lambda: False)
    monkeypatch.setattr(confine, "as_user", lambda uid, code: 0)
    with pytest.raises(Problem, match="a class is graded in isolation, .*: grade as root, or in a container"):
        grade.grade_all(tmp_path, tmp_path / "out", [], 2)
    result = grade.grade_exercise(exercise, tmp_path / "ann" / NAME).result
    assert result.passed and grade.notes_on(result) == [grade.READABLE]
