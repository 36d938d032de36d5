"""All changes that the workbook keeps fit; and how they are read, put in, recorded, checked and carried."""
from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from harness.settings import needs

import changes
import faults
import forward
from changeform import apply, as_text, parse, record
from layout import Problem

pytestmark = pytest.mark.inside


@pytest.mark.time_limit(60)
def test_all_changes_fit() -> None:
    """Every fault, starter, solution and wrong solution is built from the sources as they are now."""
    found = changes.check([])
    if found:
        pytest.fail("\n\n".join(found), pytrace=False)


# ---- the form ----

SOURCE = """\
#include <stdio.h>

enum {
    k_max = 5, // why
};

// A point.
struct pt {
    int x;
};

// Says one.
static int one(void) {
    int x = 1; // one
    return x;
}

static int two(void) {
    int x = 1;
    return x;
}

int main(void) {
    // all of it
    return one() + two();
}
"""

EDITS = {
    "@@ a.c, two()\n-    int x = 1;\n+    int x = 2;\n": [
        ("two(void) {\n    int x = 1;", "two(void) {\n    int x = 2;")
    ],
    "@@ a.c, one()\n     int x = 1;\n+    x++;\n     return x;\n": [("// one\n", "// one\n    x++;\n")],
    "@@ a.c, pt\n     int x;\n+    int y;\n": [("    int x;\n}", "    int x;\n    int y;\n}")],
    "@@ a.c\n-    k_max = 5,\n+    k_max = 6,\n": [("    k_max = 5, // why", "    k_max = 6,")],
    "@@ a.c, after one()\n+static int x;\n+\n+static int y;\n": [
        ("\n\nstatic int two", "\n\nstatic int x;\n\nstatic int y;\n\nstatic int two")
    ],
    "@@ a.c, before pt\n+struct q;\n": [("// A point.", "struct q;\n\n// A point.")],
    "@@ a.c, without two()\n": [("\nstatic int two(void) {\n    int x = 1;\n    return x;\n}\n", "")],
    "# twice\n@@ a.c, one()\n-// Says one.\n\n@@ a.c, main()\n-    // all of it\n": [
        ("// Says one.\n", ""),
        ("    // all of it\n", ""),
    ],
}


@pytest.mark.parametrize("text", EDITS)
def test_a_change_is_put_in(text: str) -> None:
    after = SOURCE
    for old, new in EDITS[text]:
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    assert apply({"a.c": SOURCE, "b": "x"}, parse(text, "p")) == {"a.c": after, "b": "x"}


def test_files_come_and_go() -> None:
    change = parse("says: a\n  b\n\n@@ new.py, new\n+import os\n+\n\n@@ a.c, gone\n", "p")
    assert change.said() == {"says": "a b"}
    assert apply({"a.c": SOURCE}, change) == {"new.py": "import os\n\n"}
    assert str(change) == "says: a\n  b\n\n@@ new.py, new\n+import os\n+\n\n@@ a.c, gone\n"


@pytest.mark.parametrize(
    "text, why",
    [
        ("@@ b.c, f()\n-x\n", "p:1: there is no b.c to change"),
        ("@@ a.c, three()\n-x\n", "p:1: a.c has no function three()"),
        ("@@ a.c, one\n-x\n", "p:1: a.c has no one"),
        ("@@ a.c\n-    return x;\n", "p:1: these lines stand 2 times together in a.c"),
        ("@@ a.c, one()\n-    return y;\n", "p:1: these lines stand no times in one() of a.c"),
        ("@@ a.c, pt\n-    int x;\n\n@@ a.c, pt\n-    int x;\n", "a.c: two hunks change line 9:     int x;"),
        ("@@ a.c, main()\n-\n", "p:1: these lines stand no times in main()"),
        ("@@ a.c, one()\n     return x;\n", "p:1: @@ a.c, one() cannot have such lines"),
        ("@@ a.c, one()\n", "p:1: changes nothing"),
        ("@@ a.c, without one()\n-x\n", "p:1: @@ a.c, without one() cannot have such lines"),
        ("@@ a.c, new\n+x\n", "p:1: makes a.c, which is there already"),
        ("@@ -3,4 +3,5 @@\n+x\n", "p:1: not `@@ FILE, PLACE`"),
        ("@@ a.c\n*x\n", "p:2: not understood: *x"),
    ],
)
def test_a_change_that_does_not_fit_says_where(text: str, why: str) -> None:
    with pytest.raises(Problem, match=re.escape(why)):
        apply({"a.c": SOURCE}, parse(text, "p"))


def test_a_head_that_is_not_understood() -> None:
    with pytest.raises(Problem, match="p:2: not understood: what"):
        parse("fault: x\nwhat\n\n@@ a.c\n-x\n", "p").said()


# ---- recording ----


@pytest.mark.parametrize("text", EDITS)
def test_what_is_recorded_is_as_short_as_by_hand(text: str) -> None:
    after = apply({"a.c": SOURCE}, parse(text, "p"))
    assert len(as_text([], record({"a.c": SOURCE}, after)).splitlines()) <= len(text.splitlines())


def test_what_is_recorded_names_the_place() -> None:
    after = SOURCE.replace("    return x;\n}\n\nint main", "    return x + 1;\n}\n\nint main")
    after = after.replace(
        "\n// Says one.", "\n// No more.\nstatic int no_more(void) {\n    return 0;\n}\n\n// Says one."
    )
    after = after.replace(
        "    int x;\n};", "    int x;\n    int y;\n};"
    ).replace("<stdio.h>", "<stdio.h>\n#include <stdlib.h>")
    text = as_text([], record({"a.c": SOURCE}, {"a.c": after}))
    assert re.findall("^@@.*", text, re.M) == ["@@ a.c", "@@ a.c, pt", "@@ a.c, after pt", "@@ a.c, two()"]
    assert "\n-    return x;\n+    return x + 1;\n" in text and "\n #include <stdio.h>\n+#include <stdlib.h>\n" in text


def test_what_is_recorded_can_be_put_in(seed: int) -> None:
    """Any change: files that come and go, blank lines, lines that look like a change, no newline at the end."""
    rng = random.Random(seed)
    lines = ["a", "b", "", " ", "- c", "+ c", "@@ d", "\f", "é", "# e", "x // y", "// z", "    // z"]

    def text(ends: List[str]) -> str:
        body = "".join(rng.choice(lines) + "\n" for _ in range(rng.randrange(40)))
        return body + rng.choice(ends)

    for _ in range(300):
        before = {name: text(["", "last"]) or "x\n" for name in rng.sample(["p.c", "q.h", "r", "s"], 3)}
        after = {name: text([""]) or "x\n" for name in rng.sample(["p.c", "q.h", "r", "s"], 3)}
        for name in before:
            if name in after and rng.random() < 0.7:
                rows = before[name].split("\n")
                rows[rng.randrange(len(rows)) : 1] = [rng.choice(lines)]
                after[name] = "\n".join(rows)
        change = as_text([], record(before, after))
        assert apply(before, parse(change, "p")) == after, change


def test_what_is_recorded_of_sources_can_be_put_in(seed: int) -> None:
    """The same for C: items and lines that come, go, change, in any order."""
    rng = random.Random(seed)
    parts = SOURCE.split("\n\n") + ["static int g_n;", "// ---- more ----", "static int f(void) {\n    return 3;\n}"]
    for _ in range(200):
        before, after = ("\n\n".join(rng.sample(parts, rng.randint(3, len(parts)))) + "\n" for _ in range(2))
        after = after.replace(rng.choice(["int x = 1;", "return x;", "    int x;\n", "k_max"]), "y;")
        if before != after:
            change = as_text([], record({"a.c": before}, {"a.c": after}))
            assert apply({"a.c": before}, parse(change, "p")) == {"a.c": after}, change


# ---- the tool ----

CONF = (
    "[exercise]\ntitle = T\nkind = build\ndifficulty = 1\nminutes = 1\npoints = 1\nsubmit = server.c\nprograms ="
    " server\n"
)
FILES = {
    "common/base.h": (
        "// base.h: built in chapter 03\n\n// Zero.\nstatic inline int zero(void) {\n    (void)0;\n    return 0;\n}\n"
    ),
    "chapters/03/server.c": '#include "base.h"\n\n' + SOURCE,
    "chapters/03/client.c": "int main(void) {\n    return 0;\n}\n",
    "chapters/03/exercises/ex/exercise.conf": CONF,
    "chapters/03/exercises/ex/README.md": "# T\n",
    "chapters/03/exercises/ex/starter.change": "@@ server.c, two()\n-    return x;\n+    return x + 1;\n",
    "chapters/03/exercises/ex/solution.change": "@@ server.c, two()\n-    return x + 1;\n+    return x;\n",
    "chapters/03/exercises/ex/wrong/a.change": (
        "fault: a\nfails: test_a\nsays: a\n\n@@ server.c, one()\n-    return x;\n+    return 9;\n"
    ),
    "chapters/03/exercises/ex/wrong/b.change": (
        "fault: b\nfails: test_a\nsays: b\n\n@@ server.c, two()\n-    return x;\n+    return 9;\n"
    ),
    "tests/broken/03-ones.fault": (
        "fault: a\nsymptom: b\ntest: tests/test_03.py\n\n@@ common/base.h, zero()\n-    return 0;\n+    return 1;\n"
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workbook with a stage, an exercise and a fault, committed."""
    needs("git")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        me = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *me, *words], check=True)
    return tmp_path


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert text.count(old) == 1, f"{old!r} in {path}"
    (root / path).write_text(text.replace(old, new))


WRONG = "chapters/03/exercises/ex/wrong"


def test_the_check_sees_what_is_wrong(root: Path) -> None:
    assert changes.check([], root) == []
    edit(root, f"{WRONG}/a.change", "one()", "two()")
    assert changes.check([], root) == [f"{WRONG}/b.change: makes the same as {WRONG}/a.change"]
    edit(root, f"{WRONG}/b.change", "return 9", "return x")
    assert changes.check([], root) == [f"{WRONG}/b.change: changes nothing"]
    edit(root, f"{WRONG}/b.change", "fails:", "fail:")
    assert "b.change: its first lines must say `fails: ...`" in changes.check([], root)[0]
    (root / WRONG / "c.patch").write_text("x")
    assert changes.check([], root)[0] == f"{WRONG}/c.patch: no file of an exercise is called that"
    (root / WRONG / "c.patch").unlink()
    edit(root, "chapters/03/exercises/ex/starter.change", "-    return x;", "-    return z;")
    (problem,) = changes.check([], root)  # what builds on it is not looked at
    assert problem.startswith("chapters/03/exercises/ex/starter.change:1: these lines stand no times in two()")


def test_a_tree_is_edited_and_recorded(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "edit"
    kept = changes.Kept("03-ex/solution", root)
    monkeypatch.setattr(changes, "find", lambda name: changes.Kept(name, root))
    changes.write_tree(kept.name, str(folder))
    with pytest.raises(Problem, match="is not empty"):
        changes.write_tree(kept.name, str(folder))
    edit(folder, "server.c", "int x = 1; // one", "int x = 3;")
    (folder / "notes.md").write_text("new\n")
    (folder / "server").write_bytes(b"\x7fELF\xff")
    changes.record(kept.name, str(folder), root)
    text = kept.path.read_text()
    assert "@@ server.c, one()\n-    int x = 1; // one\n+    int x = 3;\n" in text and text.endswith(
        "@@ notes.md, new\n+new\n"
    )
    assert "base.h" not in text and kept.exercise.tree("solution")["notes.md"] == "new\n"
    (folder / "notes.md").write_text("newer\n")
    changes.record("03-ex/wrong/new", str(folder), root)
    text = (root / WRONG / "new.change").read_text()
    assert text == "fault: \nfails: test_\nsays: \n\n@@ notes.md\n-new\n+newer\n"
    (root / WRONG / "new.change").write_text(text.replace("fault: ", "fault: too new"))
    changes.record("03-ex/wrong/new", str(folder), root)
    assert (root / WRONG / "new.change").read_text().startswith("fault: too new\n")
    (folder / "server.c").write_text("<<<<<<< a\n=======\n>>>>>>> b\n")
    with pytest.raises(Problem, match="server.c:1: a conflict is left here"):
        changes.record(kept.name, str(folder), root)


def test_a_fault_is_recorded(root: Path, tmp_path: Path) -> None:
    (tmp_path / "f" / "chapters" / "03").mkdir(parents=True)
    (tmp_path / "f" / "common").mkdir()
    for name in ("chapters/03/server.c", "chapters/03/client.c", "common/base.h"):
        (tmp_path / "f" / name).write_text(FILES[name].replace("return 0", "return 7"))
    changes.record("03-ones", str(tmp_path / "f"), root)
    assert faults.read("03-ones", root).fault == "a"
    assert set(faults.changed(faults.read("03-ones", root), root)) == {"common/base.h", "chapters/03/client.c"}


def test_the_line_that_make_prints_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first Python on PATH has no pytest."""
    for name, options in (("python3", "-I -S"), ("python3.14", "")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("PYTHON", raising=False)
    fault, folder = faults.read(faults.names()[0]), tmp_path / "a folder"
    *variables, python, _, _ = before = shlex.split(changes.test_line(fault, folder).split(" tests/")[0])
    assert before[-2:] == ["-m", "pytest"] and f"WORKBOOK_BUILD={folder}" in variables
    assert subprocess.run([python, "-c", "import pytest"]).returncode == 0
    assert changes.test_line(fault, folder).endswith(shlex.join(fault.test))
    monkeypatch.setenv("PYTHON", str(tmp_path / "python3"))
    with pytest.raises(Problem, match="is no Python 3.9 or later with pytest"):
        changes.test_line(fault, folder)


# ---- carrying ----


def test_changes_that_fit_stay_as_they_are(root: Path, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.read_text() for path in root.glob("**/*.change")}
    edit(root, "chapters/03/server.c", "k_max = 5", "k_max = 6")
    assert forward.main(["03"], root) == 0
    assert {path: path.read_text() for path in root.glob("**/*.change")} == before
    assert "Faults and exercises: none had to be mended, all fit." in capsys.readouterr().out


def test_a_change_is_carried(root: Path, capsys: pytest.CaptureFixture) -> None:
    """Its function has another name now, and the lines that it needs to be found are others."""
    edit(root, "chapters/03/server.c", "static int two(void)", "static int deux(void)")
    edit(root, "chapters/03/server.c", "one() + two()", "one() + deux()")
    edit(root, "common/base.h", "static inline int zero(void)", "static inline int null(void)")
    assert len(changes.check([], root)) == 2
    assert changes.carry(root, "HEAD") == 0
    said = capsys.readouterr().out
    assert f"{WRONG}/b.change: carried" in said and "Faults and exercises: 4 had to be mended, all fit." in said
    assert "@@ server.c, deux()\n-    return x;\n+    return 9;\n" in (root / WRONG / "b.change").read_text()
    assert (root / WRONG / "a.change").read_text() == FILES[f"{WRONG}/a.change"]
    assert changes.check([], root) == []
    assert changes.carry(root, "HEAD") == 0  # once more does no harm
    assert changes.check([], root) == []


def test_carrying_stops_where_a_person_must_decide(root: Path, capsys: pytest.CaptureFixture) -> None:
    text = (root / "chapters/03/server.c").read_text().replace(
        "    return x;\n}\n\nint main", "    return x * 7;\n}\n\nint main"
    )
    (root / "chapters/03/server.c").write_text(text)
    assert forward.main(["03"], root) == 1
    said = capsys.readouterr().out
    assert re.search(r"build/changes/03-ex/starter/server.c:\d+ \(two\(\)\): conflict", said), said
    assert "To be decided: 03-ex/starter; 3 others wait for these." in said
    folder = root / "build/changes/03-ex/starter"
    merged = (folder / "server.c").read_text()
    (folder / "server.c").write_text(re.sub(r"<{7}.*>{7}[^\n]*", "    return x * 7 + 1;", merged, flags=re.S))
    changes.record("03-ex/starter", str(folder), root)
    assert changes.carry(root, "HEAD") == 1
    assert "To be decided: 03-ex/solution; 2 others wait for these." in capsys.readouterr().out


def test_what_was_mended_by_hand_is_not_written_over(root: Path, capsys: pytest.CaptureFixture) -> None:
    edit(root, "common/base.h", "return 0;", "return 0 + 0;")
    fault = root / "tests/broken/03-ones.fault"
    by_hand = FILES["tests/broken/03-ones.fault"].replace("-    return 0;", "-    return 0 + 0;")
    fault.write_text(by_hand)
    assert changes.carry(root, "HEAD") == 0
    fault.write_text(by_hand.replace("0 + 0", "zero"))
    assert changes.carry(root, "HEAD") == 1
    assert "03-ones.fault is not as it is in HEAD: record it anew" in capsys.readouterr().out


def test_what_changed_right_beside_is_named(root: Path, capsys: pytest.CaptureFixture) -> None:
    edit(root, "common/base.h", "(void)0;", "(void)1;")
    assert changes.carry(root, "HEAD") == 0
    said = capsys.readouterr().out
    assert said.count("right beside") == 1 and "\n    03-ones: common/base.h:" in said
    assert "changes.py record NAME DIR" in said
