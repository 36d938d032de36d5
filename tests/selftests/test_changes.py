"""All changes that the workbook keeps fit; and how they are read, put in, recorded, checked and carried."""
from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from harness.settings import needs

import changes
import faults
import forward
from changeform import apply, as_text, parse, record
from layout import ROOT, Problem

pytestmark = pytest.mark.inside


@pytest.mark.time_limit(60)
def test_all_changes_fit() -> None:
    """Every fault, starter, solution and wrong solution is built from the sources as they are now."""
    found = changes.check()
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
    "@@ a.c, one()\n     int x = 1; // one\n+    x++;\n": [("// one\n", "// one\n    x++;\n")],
    "@@ a.c, pt\n     int x;\n+    int y;\n": [("    int x;\n}", "    int x;\n    int y;\n}")],
    "@@ a.c\n-    k_max = 5, // why\n+    k_max = 6,\n": [("    k_max = 5, // why", "    k_max = 6,")],
    "@@ a.c, after one()\n+static int x;\n+\n+static int y;\n": [
        ("\n\nstatic int two", "\n\nstatic int x;\n\nstatic int y;\n\nstatic int two")
    ],
    "@@ a.c, without two()\n": [("\nstatic int two(void) {\n    int x = 1;\n    return x;\n}\n", "")],
    "@@ a.c, one()\n-// Says one.\n     // ...\n-    return x;\n+    return 1;\n": [
        ("// Says one.\n", ""), ("x = 1; // one\n    return x;", "x = 1; // one\n    return 1;"),
    ],
    "@@ a.c, without two()\n\n@@ a.c, main()\n-    // all of it\n": [
        ("\nstatic int two(void) {\n    int x = 1;\n    return x;\n}\n", ""), ("    // all of it\n", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", EDITS)
def test_a_change_is_put_in_and_recorded_again(text: str) -> None:
    after = SOURCE
    for old, new in EDITS[text]:
        assert after.count(old) == 1, old
        after = after.replace(old, new)
    assert apply({"a.c": SOURCE, "b": "x"}, parse(text, "p")) == {"a.c": after, "b": "x"}
    assert as_text([], record({"a.c": SOURCE}, {"a.c": after})) == text


def test_what_no_record_says() -> None:
    """What a person may write: in front of an item, a remark, one hunk that builds on another."""
    text = "# why\n\n@@ a.c, before pt\n+struct q {\n+};\n# more\n\n@@ a.c, q\n struct q {\n+    int i;\n"
    after = SOURCE.replace("// A point.", "struct q {\n    int i;\n};\n\n// A point.")
    assert apply({"a.c": SOURCE}, parse(text, "p")) == {"a.c": after}


def test_files_come_and_go() -> None:
    text = "says: a\n  b\n\n@@ a.c, gone\n\n@@ src/new.py, new\n+import os\n+\n"
    change = parse(text, "p")
    assert change.said() == {"says": "a b"}
    after = {"src/new.py": "import os\n\n"}
    assert apply({"a.c": SOURCE}, change) == after
    assert as_text(change.head, record({"a.c": SOURCE}, after)) == text


@pytest.mark.parametrize(
    "text, why",
    [
        ("@@ b.c, f()\n-x\n", "p:1: there is no b.c to change"),
        ("@@ a.c, three()\n-x\n", "p:1: a.c has no function three()"),
        ("@@ a.c, one\n-x\n", "p:1: a.c has no one"),
        ("@@ a.c\n-    return x;\n", "p:2: a.c: these lines are there 2 times: show one more that stays"),
        ("@@ a.c, one()\n-    return y;\n", "p:2: a.c, one(): these lines are not there as it is now"),
        ("@@ a.c, one()\n-    return x;\n // ...\n-    int x;\n", "p:4: a.c, one(): these lines are not there, behind"),
        ("@@ a.c, one()\n-    int x = 1;\n", "the line most like the first: int x = 1; // one"),
        ("@@ a.c, one()\n-    int x = 1;\n     return x;\n", "-     int x = 1;\n    +     int x = 1; // one"),
        ("@@ a.c, pt\n-    int x;\n\n@@ a.c, pt\n-    int x;\n", "p:5: a.c, pt: these lines are not there"),
        ("@@ a.c, one()\n+    return z;\n", "p:2: a.c, one(): only new lines: show one that is there"),
        ("@@ a.c, one()\n     return x;\n", "changes nothing: no line begins with - or +"),
        ("@@ a.c, one()\n", "changes nothing: no line begins with - or +"),
        ("@@ a.c, one()\n-    // ...\n", "p:2: a.c, one(): `// ...` stands for lines that stay"),
        ("@@ a.c, without one()\n-x\n", "p:1: @@ a.c, without one() cannot have such lines"),
        ("@@ a.c, after one()\n", "p:1: changes nothing"),
        ("@@ a.c, new\n+x\n", "p:1: makes a.c, which is there already"),
        ("@@ -3,4 +3,5 @@\n+x\n", "p:1: not `@@ FILE, PLACE`"),
        ("@@ a.c\n*x\n", "p:2: not understood: *x"),
        ("fault: x\nwhat\n\n@@ a.c\n-x\n", "p:2: not understood: what"),
    ],
)
def test_a_change_that_does_not_fit_says_where(text: str, why: str) -> None:
    with pytest.raises(Problem, match=re.escape(why)):
        change = parse(text, "p")
        change.said()
        apply({"a.c": SOURCE}, change)


# ---- recording ----


def test_all_changes_can_be_recorded_anew(seed: int) -> None:
    """Of those that are kept, some in each run; record() looks itself whether what it returns makes the same tree."""
    every = changes.all_changes()
    for kept in random.Random(seed).sample(every, 100):
        assert record(kept.base(), kept.tree()), kept.name


def test_what_is_recorded_can_be_put_in(seed: int) -> None:
    """Files that come and go, blank lines, lines that look like a change, items in any order: record() looks itself."""
    rng = random.Random(seed)
    lines = ["a", "b", "", " ", "- c", "+ c", "@@ d", "\f", "é", "# e", "x // y", "// z", "    // z"]
    parts = SOURCE.split("\n\n") + ["static int g_n;", "// ---- more ----", "static int f(void) {\n    return 3;\n}"]

    def text() -> str:
        return "".join(rng.choice(lines) + "\n" for _ in range(rng.randrange(1, 40)))

    def source() -> str:
        return "\n\n".join(rng.sample(parts, rng.randint(3, len(parts)))).rstrip("\n") + "\n"

    for _ in range(200):
        before = {"a.c": source(), **{name: text() for name in rng.sample(["p.c", "q.h", "r", "s"], 3)}}
        new = source().replace(rng.choice(["int x = 1;", "return x;", "    int x;\n", "k_max"]), "y;")
        after = {"a.c": new, **{name: text() for name in rng.sample(["p.c", "q.h", "r", "s"], 3)}}
        for name in sorted(set(before) & set(after) - {"a.c"}):
            rows = before[name].split("\n")
            rows[rng.randrange(len(rows)) : 1] = [rng.choice(lines)]
            after[name] = "\n".join(rows)
        record(before, after)


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
    assert changes.check(root) == []
    edit(root, f"{WRONG}/a.change", "one()", "two()")
    assert changes.check(root) == [f"{WRONG}/b.change: makes the same as {WRONG}/a.change"]
    edit(root, f"{WRONG}/b.change", "return 9", "return x")
    assert changes.check(root) == [f"{WRONG}/b.change: changes nothing"]
    edit(root, f"{WRONG}/b.change", "fails:", "fail:")
    assert "b.change: its first lines must say `fails: ...`" in changes.check(root)[0]
    (root / WRONG / "c.patch").write_text("x")
    assert changes.check(root)[0] == f"{WRONG}/c.patch: no file of an exercise is called that"
    (root / WRONG / "c.patch").unlink()
    edit(root, "chapters/03/exercises/ex/starter.change", "-    return x;", "-    return z;")
    (problem,) = changes.check(root)  # what builds on it is not looked at
    assert problem.startswith("chapters/03/exercises/ex/starter.change:2: server.c, two(): these lines are not there")


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
    changed = {hunk.file for hunk in faults.read("03-ones", root).change.hunks}
    assert changed == {"common/base.h", "chapters/03/client.c"}


def test_the_line_that_make_prints_can_be_run(tmp_path: Path) -> None:
    """Also where the name of the folder has a blank, and the first Python has no pytest."""
    line = faults.test_line(faults.read(faults.names()[0]), tmp_path / "a folder")
    done = subprocess.run(f"{line} --collect-only -q", shell=True, cwd=ROOT, capture_output=True, text=True)
    assert re.search(r"^tests/test_03.py::", done.stdout, re.M) and done.returncode == 0, done.stdout + done.stderr


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
    assert len(changes.check(root)) == 2
    assert changes.carry("HEAD", root) == 0
    said = capsys.readouterr().out
    assert f"{WRONG}/b.change: carried" in said and "Faults and exercises: 4 had to be mended, all fit." in said
    assert "@@ server.c, deux()\n-    return x;\n+    return 9;\n" in (root / WRONG / "b.change").read_text()
    assert (root / WRONG / "a.change").read_text() == FILES[f"{WRONG}/a.change"]
    assert changes.check(root) == []
    assert changes.carry("HEAD", root) == 0  # once more does no harm
    assert changes.check(root) == []


def test_carrying_stops_where_a_person_must_decide(root: Path, capsys: pytest.CaptureFixture) -> None:
    text = (root / "chapters/03/server.c").read_text().replace(
        "    return x;\n}\n\nint main", "    return x * 7;\n}\n\nint main"
    )
    (root / "chapters/03/server.c").write_text(text)
    assert forward.main(["03"], root) == 1
    said = capsys.readouterr().out
    assert re.search(r"build/changes/03-ex/starter/server.c:\d+: conflict", said), said
    assert "To be decided: 03-ex/starter; 3 others wait for these." in said
    folder = root / "build/changes/03-ex/starter"
    merged = (folder / "server.c").read_text()
    (folder / "server.c").write_text(re.sub(r"<{7}.*>{7}[^\n]*", "    return x * 7 + 1;", merged, flags=re.S))
    changes.record("03-ex/starter", str(folder), root)
    assert changes.carry("HEAD", root) == 1
    assert "To be decided: 03-ex/solution; 2 others wait for these." in capsys.readouterr().out


def test_what_was_mended_by_hand_is_not_written_over(root: Path, capsys: pytest.CaptureFixture) -> None:
    edit(root, "common/base.h", "return 0;", "return 0 + 0;")
    fault = root / "tests/broken/03-ones.fault"
    by_hand = FILES["tests/broken/03-ones.fault"].replace("-    return 0;", "-    return 0 + 0;")
    fault.write_text(by_hand)
    assert changes.carry("HEAD", root) == 0
    fault.write_text(by_hand.replace("0 + 0", "zero"))
    assert changes.carry("HEAD", root) == 1
    assert "03-ones.fault is not as it is in HEAD: record it anew" in capsys.readouterr().out


def test_what_changed_right_beside_is_named(root: Path, capsys: pytest.CaptureFixture) -> None:
    edit(root, "common/base.h", "(void)0;", "(void)1;")
    assert changes.carry("HEAD", root) == 0
    said = capsys.readouterr().out
    assert said.count("right beside") == 1 and "\n    03-ones: common/base.h:" in said
    assert "changes.py record NAME DIR" in said
