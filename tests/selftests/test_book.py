"""The text and the code are one: tests/tools/book.py checks it, .github/WRITING.md says how."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

import book
import book_blocks
import book_compile
import book_edition
import book_record
import book_steps
import sources
import take
from layout import ROOT, all_sources, chapters

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(420)]
PAGES = [str(p.relative_to(ROOT / "book")) for p in book_blocks.paths(ROOT / "book")]
OWN = [name for name in PAGES if name not in book.FOREIGN]
PARTS = 3  # of the blocks of a page: the commands of one may take a minute together


def none(problems: List[str]) -> None:
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


def says(problems: List[str], why: str) -> None:
    """One of the problems is that; for "" there is none."""
    found = "\n\n".join(problems)
    assert why in found and (why or not found)


# ---- the book ----


@pytest.mark.parametrize("name", PAGES)
def test_links_and_pictures(name: str) -> None:
    none(book_blocks.prose_problems(book_blocks.read(ROOT / "book" / name)))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", OWN)
def test_blocks_are_what_the_sources_say(name: str, part: int) -> None:
    none(book.block_problems(book_blocks.read(ROOT / "book" / name), part=part, parts=PARTS))


@pytest.mark.parametrize("name", OWN)
def test_steps_lead_to_the_stage(name: str) -> None:
    none(book.walk_problems(book_blocks.read(ROOT / "book" / name)))


@pytest.mark.parametrize("name", OWN)
def test_sessions(name: str) -> None:
    none(book.play_page(book_blocks.read(ROOT / "book" / name)))


@pytest.mark.parametrize("name", OWN)
def test_exercises_and_limits_of_a_chapter(name: str) -> None:
    page = book_blocks.read(ROOT / "book" / name)
    none(book.exercise_problems(page) + book_edition.problems(page, ROOT))


@pytest.mark.parametrize("name", OWN)
def test_update_has_nothing_to_do(name: str, tmp_path: Path) -> None:
    """What update would write is what is there, to the byte."""
    text = (ROOT / "book" / name).read_text(encoding="utf-8")
    page = book_blocks.read(ROOT / "book" / name)
    page.path = tmp_path / Path(name).name
    book_blocks.rewrite(page, {b.line: b.code for b in page.blocks})
    assert page.path.read_text(encoding="utf-8") == text
    assert book.step_updates(page) == {}


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in all_sources(ROOT)])
def test_units_are_found_by_their_labels(path: str) -> None:
    found = sources.units((ROOT / path).read_text(encoding="utf-8"), path)
    for unit in found:
        assert found[sources.find(found, sources.label(unit, found), path)] is unit


@pytest.mark.parametrize("name", chapters())
def test_recorded_steps_lead_to_the_stage(name: str, tmp_path: Path) -> None:
    first, final = book_steps.start(name), book_steps.stage(name)
    (tmp_path / f"{name}-walk.md").write_text(book_record.record(first, final, final), encoding="utf-8")
    steps = book.steps_of(book_blocks.read(tmp_path / f"{name}-walk.md"))
    walked = book_steps.walk(steps, first, final, compiled_too=False)
    assert walked.complete and not any(step.provisional for step in steps)
    none(walked.problems + walked.left)


# ---- the machinery, on a project of two small chapters ----

BASE = """\
// base.h: built in chapter 03
#pragma once

#include <stdio.h>

// Says it.
static inline void say(const char *text) {
    puts(text);
}
"""

SERVER_3 = """\
// server.c, chapter 03: one

#include <stdlib.h>

#include "base.h"

enum {
    k_one = 1,
};

// ---- talk: what is said ----

static void old_way(void) {
    say("old");
}

static int twice(int n) {
    int two = 2;
    say("twice");
    return n * two;
}

int main(void) {
    old_way();
    return twice(k_one);
}
"""

SERVER_4 = """\
// server.c, chapter 04: two

#include <stdlib.h>

#include "base.h"
#include "more.h"

enum {
    k_one = 1,
    k_two = 2, // more
};

struct pair {
    int a;
    int b;
};

// ---- talk: what is said ----

static int twice(int n) {
    int two = k_two;
    say("twice");
    return n * two;
}

// The new way.
static int new_way(struct pair *pair) {
    return pair->a + more(pair->b);
}

int main(void) {
    struct pair pair = {k_one, 2};
    return twice(new_way(&pair));
}
"""

MORE = """\
// more.h: built in chapter 04
#pragma once

// One more.
static inline int more(int n) {
    return n + 1;
}
"""

CLIENT = """\
// client.c, chapter 03: none

int main(void) {
}
"""

README = """\
# Chapter 04

```sh
cc -O2 -g -Wall -Wextra -I../../common server.c -o server
```
"""

WALK = """\
# Four

## The walk

A header, `more.h`:

```c step common/more.h new
// more.h: built in chapter 04
#pragma once

// One more.
static inline int more(int n) {
    return n + 1;
}
```

In `server.c`:

```c step server.c replace top,includes
// server.c, chapter 04: two

#include <stdlib.h>

#include "base.h"
#include "more.h"
```

In `server.c`:

```c step server.c replace k_one
enum {
    k_one = 1,
    k_two = 2, // more
};

struct pair {
    int a;
    int b;
};
```

```diff step server.c edit twice
@@ server.c: twice @@
-    int two = 2;
+    int two = k_two;
```

In `server.c`:

```c step server.c add new_way after=twice
// The new way.
static int new_way(struct pair *pair) {
    return pair->a + more(pair->b);
}
```

In `server.c` (this edit and the next compile together):

```text step server.c remove old_way with-next
static void old_way(void) {
```

```diff step server.c edit main
@@ server.c: main @@
 int main(void) {
-    old_way();
-    return twice(k_one);
+    struct pair pair = {k_one, 2};
+    return twice(new_way(&pair));
 }
```
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two chapters; their book is in book/, and book.py looks nowhere else."""
    files = {
        "common/base.h": BASE, "common/more.h": MORE, "chapters/03/server.c": SERVER_3, "chapters/03/client.c": CLIENT,
        "chapters/04/server.c": SERVER_4, "chapters/04/client.c": CLIENT, "chapters/04/README.md": README,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "book").mkdir()
    monkeypatch.setattr(book, "ROOT", tmp_path)
    return tmp_path


def page(project: Path, text: str, name: str = "04-four.md") -> book_blocks.Page:
    (project / "book" / name).write_text(text, encoding="utf-8")
    return book_blocks.read(project / "book" / name)


def walk(project: Path, old: str, new: str) -> str:
    """The problems of the walk, after a replacement."""
    assert old in WALK
    return "\n\n".join(book.walk_problems(page(project, WALK.replace(old, new))))


def from_to(first: str, last: str) -> str:
    """The walk from the first text up to the last."""
    return WALK[WALK.index(first) : WALK.index(last)]


def line_of(text: str) -> int:
    return WALK[: WALK.index(text)].count("\n") + 1


# ---- steps ----

ADD, EDIT = "```c step server.c add new_way after=twice", "```diff step server.c edit main\n"
STEP = from_to("In `server.c`:\n\n" + ADD, "In `server.c` (")
EARLY = STEP.replace("twice\n", "twice provisional\n", 1).replace(" + more(pair->b)", "")
LATER = STEP.replace("add new_way after=twice", "replace new_way")
SAID = " (this edit and the next compile together)"
HERE = "@@ server.c: after twice @@"
REMOVE = line_of("```text step")


def test_a_walk_that_is_right(project: Path) -> None:
    for old, new in (
        ("", ""), (STEP, EARLY + LATER), (ADD, f"{ADD}\n{HERE}"), (SAID, " (both edits compile only together)"),
        ("In `server.c`:\n\n" + ADD, "We add `new_way`:\n\n" + ADD), (" int main(void) {\n-", "-"),
        (STEP, STEP.replace("twice\n", "twice with-next\n", 1).replace("In", "Three edits compile together. In")),
    ):  # fmt: skip
        assert walk(project, old, new) == "", new


WRONG_WALKS = [
    # what a step says is not what the sources have
    ("pair->a + more", "pair->a - more", "new_way differs from the sources (+):"),
    ("// The new way.", "// The new  way.", "new_way differs from the sources (+):"),
    (STEP, "", "after this step server.c does not compile"),
    (STEP, "", "server.c lacks new_way"),
    (WALK, "# Four\n", "common/more.h is not there"),
    (WALK, "# Four\n", "server.c has another top, includes, k_one, twice, main"),
    (WALK, "# Four\n", "server.c still has old_way"),
    ("remove old_way with-next", "remove old_way", f"04-four.md:{REMOVE}: after this step server.c does not"),
    (STEP, EARLY, "server.c has another new_way"),
    (STEP, EARLY, f"04-four.md:{line_of(ADD)} wrote new_way last; the sources have (+):"),
    (STEP, EARLY.replace("new_way", "newer").replace(" provisional", "") + STEP, "is it `provisional`?"),
    ("after=twice", "after=twice provisional", "this is what the finished server.c has, so it is not provisional"),
    ("add new_way after=twice", "add new_way after=pair", "server.c has another order than the sources"),
    ("-    old_way();\n", "     // ...\n", "old_way"),
    # it cannot be applied
    ("after=twice", "after=thrice", "there is no thrice in server.c"),
    ("after=twice", "", "write it as c step FILE add NAME,.. after=NAME [provisional] [with-next]"),
    ("add new_way after=twice", "append new_way", "a step is one of"),
    ("add new_way after", "add other_way after", "there is no other_way in the code"),
    ("after=twice", "after=twice loudly", "write it as c step FILE add"),
    ("replace k_one", "replace k_one,main", "do not follow one another"),
    ("replace k_one", "replace k_one with-next\n\n```\n\n```c step server.c replace k_one", "the block is empty"),
    ("remove old_way", "remove older_way", "there is no older_way"),
    ("static void old_way(void) {\n", "static void older_way(void) {\n", "this is no line of old_way"),
    ("step common/more.h new", "step common/most.h new", "the chapter has no common/most.h"),
    ("step server.c edit main", "step test.c edit main", "the chapter has no test.c"),
    ("add new_way after", "add twice,new_way after", "there is no twice in the code"),
    ("struct pair {\n    int a;", "\nstruct pair {\n    int a;", "one blank line between"),
    (STEP, STEP + STEP, "new_way would be in server.c twice"),
    ("step server.c replace top,includes", "step server.c new", "server.c is there already"),
    ("more.h new", "more.h replace more", "there is no common/more.h yet; its first step is `new`"),
    # edits
    ("-    old_way();", "-    older_way();", f"04-four.md:{line_of(EDIT) + 2}: server.c, main: these lines"),
    ("-    old_way();", "*    old_way();", f"04-four.md:{line_of(EDIT) + 3}: server.c, main: begins with none of"),
    ("edit main", "edit mine", "there is no mine in server.c"),
    ("@@ server.c: main @@\n", "", "its first line must say what changes, as in @@ server.c: main @@"),
    ("edit main", "edit main provisional", "write it as diff step FILE edit NAME,.. [with-next]"),
    ("diff step server.c edit main", "c step server.c edit main", "write it as diff step FILE edit"),
    # what the reader is told
    (SAID, "", f":{REMOVE}: after this step server.c compiles no more until line {line_of(EDIT)},"),
    (SAID, "", "write there: the next 2 edits compile together"),
    ("In `server.c`:\n\n" + ADD, ADD, "does not say where this goes: it names none of server.c, twice, new_way"),
    ("In `server.c`:\n\n" + ADD, "In the server:\n\n" + ADD, "does not say where this goes"),
    (ADD, f"{ADD}\n@@ server.c: after main @@", f"after main @@; write {HERE}"),
    ("replace k_one\n", f"replace k_one\n{HERE}\n", "write nothing"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, why", WRONG_WALKS)
def test_walks_that_are_wrong(project: Path, old: str, new: str, why: str) -> None:
    assert why in walk(project, old, new)


def test_warnings_count_but_for_what_is_unused() -> None:
    codes = ("static void unused(int n) {}\n", "int f(int n) { return n < 1u; }\n")
    assert [bool(book_compile.words(book_compile.job("a.c", {"a.c": code}))) for code in codes] == [False, True]


@pytest.mark.parametrize("file, text, why", [
    ("client.c", CLIENT + "\nint other;\n", "client.c lacks other"),
    ("test_more.c", CLIENT, "test_more.c is not there"),
])  # fmt: skip
def test_what_a_stage_has_more(project: Path, file: str, text: str, why: str) -> None:
    (project / "chapters/04" / file).write_text(text)
    assert why in walk(project, "", "")


def test_update_writes_steps_anew(project: Path) -> None:
    one = page(project, WALK.replace("pair->a + more", "pair->a - more").replace("k_two = 2,", "k_two = 3,"))
    changed, left = book.update_page(one)
    assert len(changed) == 2 and left == []
    assert one.path.read_text() == WALK
    assert book.update_page(book_blocks.read(one.path)) == ([], [])


# ---- a server of several files ----

SPLIT = {
    "server.h": '// server.h, chapter 04: two files\n#pragma once\n\n#include "base.h"\n\n// one.c\nint one(void);\n',
    "main.c": '// main.c, chapter 04: the loop\n#include "server.h"\n\nint main(void) {\n    return one();\n}\n',
    "one.c": '// one.c, chapter 04: a number\n#include "server.h"\n\nint one(void) {\n    return 7;\n}\n',
}


@pytest.fixture
def split(project: Path) -> Path:
    """The server of 04 is several files, and its page makes them of the one of 03."""
    (project / "chapters/04/server.c").unlink()
    (project / "chapters/04/src").mkdir()
    for name, text in SPLIT.items():
        (project / "chapters/04/src" / name).write_text(text, encoding="utf-8")
    final = book_steps.stage("04", project)
    page(project, "# Four\n\n" + book_record.record(book_steps.start("04", project), final, final))
    return project


def test_steps_to_a_server_of_several_files(split: Path) -> None:
    """server.c goes with its last item; from then on the files of src/ are the server, and are linked as well."""
    written = book_blocks.read(split / "book/04-four.md")
    assert [problem for problem in book.walk_problems(written) if "does not say where" not in problem] == []
    server = book.programs_here(written, len(written.lines), ["server"])["server"]
    assert subprocess.run([server]).returncode == 7
    said = book.walk_problems(page(split, "\n".join(written.lines).replace("\nint one(void) {", "\nint won(void) {")))
    assert any("after this step server does not compile" in each and "undefined reference" in each for each in said)
    copied = "# Four\n\n```sh supplied\ncp ../chapters/04/src/one.c src\n```\n"
    assert [step.file for step in book.steps_of(page(split, copied))] == ["src/one.c"]


def test_listings_and_lines_of_a_server_of_several_files(split: Path) -> None:
    line = "cc -O2 -g -Wall -Wextra -I../../common src/*.c -o server"
    (split / "chapters/04/README.md").write_text(f"```sh\n{line}\n```\n", encoding="utf-8")
    good = f"```c listing src/one.c one\nint one(void) {{\n    return 7;\n}}\n```\n\n```sh\n{line}\n```\n"
    assert book.block_problems(page(split, good)) == []
    assert len(book.block_problems(page(split, good.replace("7", "8").replace("-O2", "-O3")))) == 2


MOVES = """\
# Four

```sh step src/server.c rename from=server.c
mkdir src
mv server.c src
```

```c step src/one.c new
// one.c, chapter 04: a number
```

They move from `src/server.c`; one is no longer `static`:

```text step src/one.c move old_way,twice from=src/server.c provisional
static void old_way(void) {
int twice(int n) {
```

```text output "tail -n 4 src/one.c" in=here
    int two = 2;
    say("twice");
    return n * two;
}
```
"""


def test_code_moves_from_file_to_file(split: Path) -> None:
    """And a command of the text finds the files as they are above it."""
    moved = page(split, MOVES)
    files = book_steps.texts_of(book.after(moved, book.steps_of(moved)))
    assert "server.c" not in files and "twice(int n)" not in files["src/server.c"]
    assert files["src/one.c"] == (
        '// one.c, chapter 04: a number\n\nstatic void old_way(void) {\n    say("old");\n}\n\n'
        'int twice(int n) {\n    int two = 2;\n    say("twice");\n    return n * two;\n}\n'
    )
    assert book.block_problems(moved) == []


@pytest.mark.parametrize("old, new, why", [
    ("old_way,twice", "old_way,thrice", "no thrice in src/server.c"),
    ("old_way,twice", "old_way", "show a line of each of old_way, as it is in src/one.c"),
    ("int twice(int n) {", "long twice(int n) {", "show a line of each of old_way,twice"),
    ("from=src/server.c", "from=src/two.c", "there is no src/two.c"),
    ("from=src/server.c", "", "write it as text step FILE move NAME,.. from=FILE"),
    ("src/server.c rename", "src/server.c remove", "write it as text step FILE remove"),
    ("provisional", "", "is it `provisional`?"),
])  # fmt: skip
def test_code_that_cannot_move(split: Path, old: str, new: str, why: str) -> None:
    assert any(why in problem for problem in book.walk_problems(page(split, MOVES.replace(old, new))))


# ---- supplied files ----

TAKE = "\n```sh take {}\nmake take-04-all\n```\n\nIt brings a pair. Look at `main`.\n\n"
SUPPLIED = "\n`{0}` is supplied:\n\n```c supplied {0} {1}\n```\n"
COPIED = "\nCopy it:\n\n```sh supplied\ncp {}\n```\n"
HEADER = WALK[: WALK.index("In `server.c`")]


@pytest.mark.parametrize("text, why", [
    ("# Four\n" + SUPPLIED.format("common/more.h", "more") + TAKE.format("server.c"), ""),
    (HEADER + SUPPLIED.format("server.c", "k_one"), "server.c is there already, and what a reader has typed stays"),
    ("# Four\n\n```c supplied\n```\n", "write it as c supplied FILE"),
    ("# Four\n" + COPIED.format("../common/more.h common") + TAKE.format("server.c"), ""),
    ("# Four\n" + COPIED.format("../common/more.h common\ncp ../chapters/04/server.c ."), "is there already"),
    (COPIED.format("../common/more.h ."), "write it as cp"),
    (COPIED.format("../chapters/05/server.c ."), "write it as cp"),
    (COPIED.format("/etc/passwd ."), "write it as cp"),
    (COPIED.format("../common/more.h"), "copies nothing"),
    (COPIED.format("../chapters/04/none.c ."), "the chapter has no none.c"),
])  # fmt: skip
def test_supplied_files(project: Path, text: str, why: str) -> None:
    says(book.walk_problems(page(project, text)), why)


# ---- takes ----

ALL = "# Four\n" + TAKE.format("common/more.h server.c")
FIRST = "# Four\n\nThis and the next edit compile together.\n"
FIRST += TAKE.format("common/more.h server.c but=new_way with-next")
FOLDS = from_to("In `server.c`:\n\n```c step server.c replace top", "In `server.c`:\n\n" + ADD)
IN_PART = f"{HEADER}{TAKE.format('')}<details>\n<summary>The edits</summary>\n\n{FOLDS}</details>\n\n"
IN_PART += WALK[WALK.index("In `server.c`:\n\n" + ADD) :]

REST = WALK[WALK.index("In `server.c`") :].replace(" (this edit and the next compile together)", "")
AT_ONCE = f"{HEADER}{TAKE.format('')}<details>\n\n{REST}\n</details>\n"


@pytest.mark.parametrize("text, old, new, why", [
    (ALL, "", "", ""),
    (FIRST + STEP, "", "", ""),
    (FIRST + STEP, "This and the next edit compile together.", "", "and the text above it does not say so"),
    (FIRST + STEP, " with-next", "", "after this step server.c does not compile"),
    (FIRST, "", "", "`with-next`, but no step comes next"),
    (FIRST + STEP, "new_way", "newer_way", "there is no newer_way in server.c"),
    (ALL, "server.c", "other.c", "the chapter has no other.c"),
    (ALL, "server.c\n", "server.c quickly\n", "write it as sh take"),
    (ALL, "make take-04-all", "make take-05-all", "a take holds one line, as make take-04-name"),
    (ALL, "make take-04-all", "make take-04-all MY=x", "a take holds one line"),
    (IN_PART, "", "", ""),
    (IN_PART, "In `server.c`:\n\n```c step server.c replace k_one", "```c step server.c replace k_one", ""),
    (AT_ONCE, "", "", ""),
    (ALL, "common/more.h server.c", "server.c common/more.h", ""),
    (IN_PART, TAKE.format(""), "", "a step in <details> is part of a take"),
    (IN_PART, "+    int two = k_two;", "+    int two = k_three;", "does not compile"),
])  # fmt: skip
def test_takes_are_steps_of_a_walk(project: Path, text: str, old: str, new: str, why: str) -> None:
    one = page(project, text.replace(old, new, 1) if old else text)
    says(book.walk_problems(one), why)
    none(book.block_problems(one))


@pytest.mark.parametrize("text", ["", "It brings a pair.", "One. Two. Three. Four.", "## A. B. C.", "<details>"])
def test_a_take_says_what_to_look_at(project: Path, text: str) -> None:
    one = page(project, ALL.replace("It brings a pair. Look at `main`.", text))
    says(book.block_problems(one), "below a take stand two sentences")


RETURN, MINE = "    return n", '    say("mine");\n    return n'
BESIDE = "static int own(void) {\n    return 1;\n}\nstatic int twice(int n) {"
HALFWAY = SERVER_4[: SERVER_4.index("// The new way.")] + SERVER_3[SERVER_3.index("int main") :]


def taken(project: Path, text: str, server: str, name: str = "04-all") -> str:
    """What a take says that is carried out on a server of the reader's, who has all else as the book has it."""
    page(project, text)
    for file, code in {"server.c": server, "client.c": CLIENT, "common/base.h": BASE}.items():
        (project / "my" / file).parent.mkdir(parents=True, exist_ok=True)
        (project / "my" / file).write_text(code, encoding="utf-8")
    try:
        return take.take(name, project / "my")
    except take.Problem as problem:
        assert (project / "my/server.c").read_text(encoding="utf-8") == server
        return str(problem)


@pytest.fixture
def small_book(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOOK", str(project / "book"))
    return project


@pytest.mark.parametrize("text, server", [(ALL, SERVER_4), (IN_PART, "")])
def test_a_take_is_made(small_book: Path, text: str, server: str) -> None:
    """The difference is shown, new files are named, and what to look at is said. The second time nothing is done."""
    said = taken(small_book, text, SERVER_3)
    steps = [step for step in book.steps_of(book_blocks.read(small_book / "book/04-four.md"))]
    last = max(number for number, step in enumerate(steps) if step.take)
    after = book_steps.texts_of(book.after(book_blocks.read(small_book / "book/04-four.md"), steps[: last + 1]))
    assert (small_book / "my/server.c").read_text() == (server or after["server.c"])
    assert "\n-    int two = 2;\n+    int two = k_two;\n" in said and said.endswith("\nIt brings a pair. Look at main.")
    assert ("my/common/more.h: new, 7 lines" in said) == (text == ALL)
    assert taken(small_book, text, (small_book / "my/server.c").read_text()).endswith("nothing was changed")


def test_what_the_reader_has_changed_elsewhere_stays(small_book: Path) -> None:
    mine = [
        server.replace("static int twice(int n) {", BESIDE).replace(RETURN, MINE).replace(top, "// my server")
        for server, top in ((SERVER_3, SERVER_3.split("\n")[0]), (SERVER_4, SERVER_4.split("\n")[0]))
    ]
    taken(small_book, ALL, mine[0])
    assert (small_book / "my/server.c").read_text() == mine[1]


@pytest.mark.parametrize("old, new, why", [
    ('say("old")', 'say("my own")', "server.c: old_way() goes, and you have changed it"),
    ("int two = 2;", "int two = 1 + 1;", "twice() changes, and you have changed it at the same place: these l"),
    ("twice", "double_of", "server.c: twice() changes, and is not there: has it another name?"),
    ("static void old_", "struct pair {\n};\n\nstatic void old_", "type pair comes, and you have one of your own"),
    ("    k_one = 1,", "    k_one = 1, // one", "server.c: the list with k_one changes, and you have changed it"),
    ("int main(void) {", "int main(void)\n  {{", "server.c:23: this item never ends"),
])  # fmt: skip
def test_what_a_take_cannot_place_is_named(small_book: Path, old: str, new: str, why: str) -> None:
    assert old in SERVER_3
    assert why in taken(small_book, ALL, SERVER_3.replace(old, new))
    assert not (small_book / "my/common/more.h").exists()


def test_a_take_asks_whether_the_reader_is_so_far(small_book: Path) -> None:
    """Where all that is missing are new functions, a reader who has none of them may have given them other names."""
    text = FIRST + EARLY + TAKE.replace("04-all", "04-last").format("server.c")
    one = page(small_book, text)
    first = book_steps.texts_of(book.after(one, book.steps_of(one)[:2]))
    said = taken(small_book, text, first["server.c"], "04-last")
    assert "new_way() changes, and is not there" in said and "\nOr have you come no further than line 5 of 04-" in said


@pytest.mark.parametrize("name, server, why", [
    ("04-none", SERVER_3, "there is no take 04-none: chapter 04 has 04-all"),
    ("05-all", SERVER_3, "there is no take 05-all: its chapter has none"),
    ("04-all", SERVER_3, "not so far yet: it is nearest to the end of chapter 03; take-04-all is for line 73 of 04"),
    ("04-all", HALFWAY, f'line {line_of("```diff")} of 04-four.md, under "The walk"; take-04-all is for'),
])  # fmt: skip
def test_takes_that_are_refused(small_book: Path, name: str, server: str, why: str) -> None:
    said = taken(small_book, WALK + ALL.partition("\n")[2], server, name)
    assert why in said and "\n" not in said
    with pytest.raises(take.Problem, match="there is no folder"):
        take.take("04-all", small_book / "nowhere")


@pytest.mark.parametrize("name", chapters())
def test_a_stage_can_be_taken_from_the_one_before(name: str) -> None:
    was, now = book_steps.start(name), book_steps.stage(name)
    mine = book_steps.texts_of(was)
    stay = {file: text for file, text in mine.items() if file in now}
    assert take.merged(mine, was, now) == ({**stay, **book_steps.texts_of(now)}, [])


ONE_FILE = """\
// server.c, chapter 04: one file

#include "base.h"

static struct {
    int conns;
} g_data;

static int count(void) {
    return g_data.conns;
}

static void greet(void) {
    say("hi");
    g_data.conns++;
}

int main(void) {
    greet();
    return count();
}
"""
CONN = """\
// conn.c: who is there

#include "server.h"

static int g_conns;

int count(void) {
    return g_conns;
}

void greet(void) {
    say("hi");
    g_conns++;
}
"""
MAIN = """\
// main.c: where it begins

#include "server.h"

int main(void) {
    greet();
    return count();
}
"""
HEADER_4 = '#include "base.h"\n\nint count(void);\nvoid greet(void);\n'
SEVERAL = {"src/conn.c": CONN, "src/main.c": MAIN, "src/server.h": HEADER_4}


@pytest.mark.parametrize("was, now, mine, wanted", [
    ("AbC", "bAC", "AbC", "bAC"),  # one that moves
    ("ABC", "BxC", "ABoC", "BxoC"),
    ("AB", "xAB", "AB", "xAB"),
    ("AB", "B", "AB", "B"),
    ("AbC", "ACB", "AbC", "ACB"),
    ("ABC", "ACB", "AbC", "ACb"),  # changed by the reader, and moves
])  # fmt: skip
def test_items_come_go_and_move(was: str, now: str, mine: str, wanted: str) -> None:
    """A letter is a function; a small one has another text than the large one."""

    def text(letters: str) -> str:
        return "\n".join(f"int {each.lower()}(void) {{\n    return {each.isupper():d};\n}}\n" for each in letters)

    files = [{"a.c": sources.units(text(each))} for each in (was, now)]
    assert take.merged({"a.c": text(mine)}, *files) == ({"a.c": text(wanted)}, [])


@pytest.mark.parametrize("was, now, mine, wanted", [
    ("abcd", "cd abe", "abcd", "cd abe"),  # a list is cut in two
    ("abcx yz", "ab cxyz", "abcx yz", "ab cxyz"),
    ("ab cd", "abcd", "ab cd", "abcd"),
    ("abcd", "abc de", "abcdo", "abco de"),
])  # fmt: skip
def test_lists_are_cut_and_joined(was: str, now: str, mine: str, wanted: str) -> None:
    """A letter is a declaration; a blank ends a list."""

    def text(lists: str) -> str:
        return "\n".join("".join(f"int {each}(void);\n" for each in one) for one in lists.split())

    files = [{"a.h": sources.units(text(each))} for each in (was, now)]
    assert take.merged({"a.h": text(mine)}, *files) == ({"a.h": text(wanted)}, [])


def test_a_take_may_end_a_file(project: Path) -> None:
    step, files = book.steps_of(page(project, TAKE.format("server.c")))[0], {"server.c": sources.units(SERVER_3)}
    book_steps.apply(step, files, {})
    assert files == {}
    with pytest.raises(book_steps.StepError, match="the chapter has no server.c"):
        book_steps.apply(step, files, {})


def cut(server: str) -> Tuple[Dict[str, str], str]:
    """What becomes of a reader's server.c where the stage has several files, and what cannot be done."""
    was, now = {"server.c": sources.units(ONE_FILE)}, {file: sources.units(text) for file, text in SEVERAL.items()}
    found, problems = take.merged({"server.c": server, "client.c": CLIENT}, was, now)
    assert found.pop("client.c") == CLIENT
    return found, "\n".join(problems)


def test_one_file_becomes_several() -> None:
    """What the reader has changed goes along, and what is theirs stands behind what stood above it."""
    assert cut(ONE_FILE) == (SEVERAL, "")
    own = "{}void own(void) {{\n    {} = 0;\n}}\n"
    more = 'say("hi");\n    {0} += count();'
    server = ONE_FILE.replace('say("hi");', more.format("g_data.conns"))
    found, problems = cut(server.replace("int main", own.format("static ", "g_data.conns") + "\nint main"))
    conn = CONN.replace('say("hi");', more.format("g_conns")) + "\n" + own.format("static ", "g_conns")
    assert (found, problems) == ({**SEVERAL, "src/conn.c": conn}, "")


@pytest.mark.parametrize("old, new, why", [
    ("    int conns;", "    int conns;\n    int more;", "server.c: variable g_data goes, and you have changed it"),
    ('say("hi");', "g_data.more++;\n    say(0);", "src/conn.c: greet() would speak of g_data.more, which is gone"),
    ("static void greet(void) {", "static void greet() {", "src/conn.c: greet() changes, and you have changed it at"),
    ("greet(", "hello(", "src/conn.c: greet() changes, and is not there: has it another name?"),
])  # fmt: skip
def test_what_cannot_be_cut_is_named(old: str, new: str, why: str) -> None:
    assert old in ONE_FILE and why in cut(ONE_FILE.replace(old, new))[1]


TAKES = [(name, block.code.split("take-")[1].strip()) for name in OWN for block in book_blocks.read(
    ROOT / "book" / name).blocks if block.takes]  # fmt: skip


@pytest.mark.parametrize("name, each", TAKES)
def test_takes_of_the_book(name: str, each: str, tmp_path: Path) -> None:
    """Carried out where the page has it, on the programs of the page, a take gives those that the page has then."""
    found, *_ = take.find(each)
    for file, text in book_steps.texts_of(found.was).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    take.take(each, tmp_path)
    for file, text in book_steps.texts_of(found.now).items():
        assert (tmp_path / file).read_text(encoding="utf-8") == text


# ---- programs from the middle of a chapter ----

MIDDLE = """\
# Four

A first `server.c`:

```c step server.c replace main provisional
int main(void) {
    printf("one\\n");
    return 3;
}
```

```console here
$ ./server
one
[exit 3]
```

```diff step server.c edit main
@@ server.c: main @@
-    printf("one\\n");
+    printf("two\\n");
```

```console here
$ ./server
two
[exit 3]
```

```text output "./server" in=here exit=3
two
```
"""
NAIVE = """\
# Three

`server.c`:

```c step server.c new provisional
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(1234)};
    bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    listen(fd, 1);
    int connfd = accept(fd, NULL, NULL);
    printf("somebody\\n");
    close(connfd);
    return 5;
}
```

```console here
server$ ./server
$ bash -c ': </dev/tcp/127.0.0.1/'$PORT
server| somebody
server| [exit 5]
```
"""


SMALL = """\
# Four

`common/more.h`, for now:

```c step common/more.h new provisional
// more.h: built in chapter 04
#pragma once

// One more.
static inline int more(int n) {
    return n + 2;
}
```

```c sketch program=show.c
#include <stdio.h>

#include "more.h"

int main(void) {
    printf("%d\\n", more(5));
}
```

```text output "./show" in=here
7
```
"""


LATE = '    listen(fd, 1);\n    usleep(300000);\n    fprintf(stderr, "listening on 127.0.0.1:1234\\n");\n'
SLOW = NAIVE.replace("    listen(fd, 1);\n", LATE)
SLOW = SLOW.replace("./server\n", "./server\nserver| listening on 127.0.0.1:1234\n")


@pytest.mark.parametrize("name, text, old, new, why", [
    ("04-four.md", MIDDLE, "", "", ""),
    ("04-four.md", SMALL, "", "", ""),  # a program of the text, with a header that is not finished
    ("04-four.md", SMALL, "n + 2", "n + 3", "- 7\n    + 8"),
    ("04-four.md", MIDDLE, "\ntwo\n[exit", "\nthree\n[exit", "-three\n+two"),
    ("04-four.md", MIDDLE, "two\n[exit 3]\n", "two\n[exit 3]\nserver$ ./server\n", "ended at once"),
    ("04-four.md", MIDDLE, "two\n```\n", "one\n```\n", "prints something else"),
    ("04-four.md", MIDDLE, 'printf("two', 'no_such("two', "server.c as it is here does not compile"),
    # one that has its port written into it, prints to standard output, and serves a single client
    ("03-three.md", NAIVE, "", "", ""),
    ("03-three.md", SLOW, "", "", ""),  # it listens before it says so
    ("03-three.md", NAIVE, "[exit 5]", "[exit 6]", "[exit 6]\n+[exit 5]"),
    ("03-three.md", NAIVE, "server| [exit 5]\n", "", "ended in the middle"),
    ("03-three.md", NAIVE.replace("return 5", "abort()"), "[exit 5]", "[exit 139]", ""),  # a crash is a crash
    ("03-three.md", NAIVE.replace("return 5", "abort()"), "[exit 5]", "[exit 141]", "[exit 141]\n+[exit 134]"),
])  # fmt: skip
def test_programs_of_the_steps_so_far(project: Path, name: str, text: str, old: str, new: str, why: str) -> None:
    one = page(project, text.replace(old, new) if old else text, name)
    found = book.block_problems(one)
    try:
        found += book.play_page(one)
    except book_blocks.BookError as problem:
        found.append(str(problem))
    says(found, why)


# ---- a chapter of two pages ----

AGAIN = """\
# Four, again

```console here
$ cat greeting
hello
$ ./server
two
[exit 3]
```

```diff step server.c edit main
@@ server.c: main @@
-    printf("two\\n");
+    printf("three\\n");
```

```text output "./server" in=here exit=3
three
```
"""


def test_a_second_page_goes_on_from_the_first(project: Path) -> None:
    """With its steps, and with the files that the reader has typed in its sessions."""
    one = page(project, MIDDLE + "\n```console\n$ cat > greeting <<'EOF'\nhello\nEOF\n```\n")
    two, one = page(project, AGAIN, "04b-more.md"), page(project, "\n".join(one.lines))
    assert (one.chapter, one.slug, one.goes_on, one.earlier) == ("04", "four", True, None)
    assert (two.chapter, two.slug, two.goes_on, two.earlier and two.earlier.path) == ("04", "more", False, one.path)
    assert len(book.steps_of(one)) == 2 and len(book.steps_of(two)) == 3
    assert book.block_problems(one) + book.play_page(one) + book.block_problems(two) + book.play_page(two) == []
    says(book.walk_problems(one), "")
    says(book.walk_problems(two), "04b-more.md: after the last step this is not as in chapters/04:")
    says(book.play_page(page(project, AGAIN.replace("hello", "goodbye"), "04b-more.md")), "-goodbye\n+hello")
    short = book_edition.problems(two, project)  # each has a third of the least
    assert [problem.partition("; ")[2].partition(". ")[0] for problem in short if "words" in problem] == [
        "a chapter has 833 to 4300"]


# ---- what a chapter holds to ----

STOP = "\nIt runs:\n\n```console here\n$ ./server\n```\n\nWhat is still wrong: it says the same thing.\n\n"
CHANGE = "Then:\n\n```diff step server.c edit main\n@@ main @@\n-    one\n+    two\n```\n\n"
DRAWING = "<svg><title>a</title><desc>b</desc><style>@media (prefers-color-scheme: dark) {}</style></svg>"
PREDICT = "> **Predict:** how many?\n\n```console\n$ echo 1\n1\n```\n\n"
TRIED = "```text captured\n$ python3 pause.py\n```\n\n"
FOLDED = f"```sh take\nmake take-04-less\n```\n\nIt changes. Look.\n\n<details>\n\n{CHANGE * 3}</details>\n\n"
WORDS = "word " * 2500
PICTURES = "![a](a.svg) ![b](b.svg)\n![c](c.svg)\n\n"
CHAPTER = f"{PICTURES}{WORDS}\n\n{PREDICT * 3}"


@pytest.mark.parametrize("text, why", [
    (CHAPTER, ""),
    (CHAPTER + PREDICT * 2, ""),
    (f"{CHAPTER}## Exercises\n\n{WORDS}\n\n## Check yourself\n\n{WORDS}", ""),
    (CHAPTER + CHANGE * 5 + STOP + CHANGE * 5 + STOP, ""),
    (CHAPTER + CHANGE * 3 + TRIED + CHANGE * 3 + STOP, ""),
    (CHAPTER + CHANGE * 3 + FOLDED + CHANGE * 2 + STOP, ""),
    (CHAPTER + CHANGE + STOP.replace(" here", ""), ""),  # behind the last step that is the stage
    (CHAPTER.replace("word ", "", 2400), "words; a chapter has 2500 to 4300. A page that is not finished yet"),
    (CHAPTER + WORDS, "words; a chapter has 2500 to 4300"),
    (f"{CHAPTER}## How Redis does it\n\n{WORDS}", "words; a chapter has"),
    (CHAPTER.replace(PREDICT, "", 1), "2 predictions (`> **Predict:** ..`); a chapter has 3 to 5"),
    (CHAPTER + PREDICT * 3, "6 predictions"),
    (CHAPTER + "> **Predict:** why?\n\n## Next\n\n" + PREDICT, "no session or output follows that answers"),
    (CHAPTER.replace("c.svg", "b.svg"), "2 figures (SVG); a chapter has 3 or more"),
    (CHAPTER.replace("c.svg", "light.svg"), "the figure light.svg has no dark mode (prefers-color-scheme: dark)"),
    (CHANGE * 5 + STOP + CHANGE * 6 + STOP, "6 edits; here at most 5, then a run"),
    (CHANGE * 3 + TRIED.replace("$ ", "") + CHANGE * 3 + STOP, "6 edits"),
    (STOP + FOLDED, "nothing is played after this last edit"),
    (CHANGE * 6 + STOP.replace("console here", "console 03") + CHANGE * 6 + STOP, "12 edits"),
    (CHANGE * 6 + STOP.replace("console here", "console") + CHANGE * 6 + STOP, "12 edits"),
    (STOP + CHANGE, "nothing is played after this last edit"),
    (CHANGE + STOP.partition("What")[0] + CHANGE + STOP, "no sentence follows it"),
])  # fmt: skip
def test_limits_of_a_small_chapter(project: Path, text: str, why: str) -> None:
    for name in ("a", "b", "c"):
        (project / "book" / f"{name}.svg").write_text(DRAWING)
    (project / "book" / "light.svg").write_text(DRAWING.replace("dark", "light"))
    says(book_edition.problems(page(project, text), project), why)


@pytest.mark.parametrize("text, why", [
    (CHAPTER, ""),
    (f"> **Aside:** {'word ' * 10}\n> {'word ' * 10}\n", ""),
    (f"> **Aside:** [word](a.md) {'word ' * 59}\n", ""),
    (f"> **Aside:** {'word ' * 19}\n", "04-four.md:1: an aside of 19 words; it has 20 to 60"),
    (f"One.\n\n> **Aside:** {'word ' * 30}\n> {'word ' * 31}\n", "04-four.md:3: an aside of 61 words"),
    ("A word (one two `three` four five six).", ""),
    ("A word\n(one two three\nfour five six seven).", "04-four.md:2: more than 6 words in parentheses (one two"),
    ("`main(1, 2, 3, 4, 5, 6, 7)`, [a](b-c-d.md), ![one\ntwo (a b c d e f g)](a.svg)", ""),
    (f"> **Aside:** (one two three four five six seven) {'word ' * 20}", ""),
    ("## Exercises\n\n(one two three four five six seven)", ""),
])  # fmt: skip
def test_two_voices(project: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str) -> None:
    monkeypatch.setattr(book_edition, "WHOLE", {"four": ("server.c", "main")})
    says(book_edition.voice_problems(page(project, text)), why)
    monkeypatch.setattr(book_edition, "WHOLE", {})
    says(book_edition.voice_problems(page(project, text)), "" if "paren" in why else why)


def test_asides_do_not_make_a_chapter_longer(project: Path) -> None:
    assert book_blocks.words(page(project, f"One two.\n\n> **Aside:** {WORDS}\n> {WORDS}\n\nThree.\n")) == 3


MAIN = "int main(void) {\n    two\n}\n"
LISTING = f"```c listing server.c main\n{MAIN}```\n\n"
ADDED = f"```c step server.c add main after=twice\n{MAIN}```\n\n"
OTHER = LISTING.replace("server", "client") + LISTING.replace("main", "twice") + LISTING.replace("two", "// ...")


@pytest.mark.parametrize("text, lines", [
    (CHANGE + LISTING, ""),
    (ADDED, ""),
    (ADDED.replace("after=twice", "after=twice provisional") + CHANGE + LISTING, ""),
    (CHANGE + OTHER + LISTING, ""),
    (CHANGE + LISTING + LISTING, "line 9, 15"),
    (LISTING + CHANGE, "line 1"),
    (ADDED + LISTING, "line 1, 7"),
    (ADDED + CHANGE, "line 1"),
    (CHANGE + OTHER, "line nowhere"),
    (f"{FOLDED.replace(CHANGE * 3, ADDED)}", "line nowhere"),
])  # fmt: skip
def test_a_function_is_shown_whole(project: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: str) -> None:
    monkeypatch.setattr(book_edition, "WHOLE", {"four": ("server.c", "main")})
    why = "behind its last edit (c listing server.c main); it does in " if lines else ""
    says(book_edition.whole_problems(page(project, text)), why + lines)


def test_the_pages_that_show_a_function_whole_are_there() -> None:
    assert set(book_edition.WHOLE) <= {re.sub(r"^\d\d[b-e]?-|\.md$", "", name) for name in PAGES}


# ---- exercises ----

HUNT = "- [`04-hunt-it`](../chapters/04/exercises/hunt-it/README.md): Mend: it is gone.\n"
SECTION = f"# Four\n\n## Exercises\n\n{book.TO_DO}\n\n{HUNT}\n## Check yourself\n"


@pytest.mark.parametrize("text, name, why", [
    (SECTION, "04-four.md", ""),
    (SECTION.replace(HUNT, "- `04-hunt-it`: it is gone.\n"), "04-four.md", "does not name 04-hunt-it"),
    (SECTION.replace(HUNT, "") + HUNT, "04-four.md", "does not name 04-hunt-it"),
    (SECTION.replace(HUNT, HUNT + HUNT.replace("-it", "-her")), "04-four.md", "there is no exercise 04-hunt-her"),
    (SECTION.replace("exercises/hunt-it/", ""), "04-four.md", "leads to ../chapters/04/README.md"),
    (SECTION.replace("Mend: ", ""), "04-four.md", "must begin with `Mend: `"),
    (SECTION.replace("To do one", "Do"), "04-four.md", "must begin: To do one"),
    ("# Four\n", "04-four.md", "does not name 04-hunt-it"),
    ("# Hints\n", "A1-hints.md", "no hint for 04-hunt-it"),
    ("# Hints\n\n- `04-hunt-it`: Look.\n", "A1-hints.md", ""),
    ("# Three\n", "03-three.md", ""),
])  # fmt: skip
def test_exercises_that_the_text_names(project: Path, text: str, name: str, why: str) -> None:
    folder = project / "chapters/04/exercises/hunt-it"
    folder.mkdir(parents=True)
    conf = "[exercise]\ntitle = It\nkind = mend\ndifficulty = 1\nminutes = 1\npoints = 1\nsubmit = server.c\n"
    (folder / "exercise.conf").write_text(conf)
    says(book.exercise_problems(page(project, text, name)), why)


# ---- blocks ----

LISTED = "```c listing chapters/04/server.c {}\n{}```\n"
WAY = from_to("// The new way.", "```\n\nIn `server.c` (")
BARE = WAY.partition("\n")[2]
RUN = '```text output "{}" {}\n{}\n```\n'
HI = '```c sketch program=hi.c\n#include <stdio.h>\nint main(void) {\n    printf("hi\\n");\n}\n```\n\n'
HO = '```diff sketch program=ho.c from=hi.c\n-    printf("hi\\n");\n+    printf("ho\\n");\n```\n\n'
LINE = "```sh\ncc -O2 -g -Wall -Wextra -I../../common server.c -o server   # now\n```\n"


@pytest.mark.parametrize("text, why", [
    *((f"```{info}\nint x;\n```\n", "a block must be one of") for info in (
        "", "c", "text", "python", "console2", "c listening server.c", "hex x", "diff 03 04 server.c",
    )),
    (LISTED.format("new_way", WAY), ""),
    (LISTED.format("new_way bare", BARE), ""),
    (LISTED.format("pair,k_one", "struct pair {\n    // ...\n"), ""),
    (LISTED.format("top", "// server.c, chapter 04: two\n"), ""),
    (LISTED.format("", SERVER_4), ""),
    (LISTED.format('lines "static int new_way" .. "}"', BARE), ""),
    (LISTED.format("new_way", WAY.replace("a +", "a  +")), "differs"),
    (LISTED.format("new_way", WAY.replace("pair->a + more", "// ...")), "differs"),
    (LISTED.format("pair,k_one", "struct pairs {\n    // ...\n"), "no such lines any more:\n    struct pairs {"),
    (LISTED.format("thrice", WAY), "there is no thrice"),
    (LISTED.format('lines "static long" .. "}"', WAY), "no lines"),
    ("```c listing chapters/05/server.c main\n```\n", "there is no file"),
    (RUN.format("echo a; echo b", "in=root", "a\nb"), ""),
    (RUN.format("echo a; echo b; echo c", "in=root", "a\n..."), ""),
    (RUN.format("echo a; exit 3", "in=root exit=3", "a"), ""),
    (RUN.format("echo took 12 ms at 0x7ffe1234", "in=root", "took 99 ms at 0x12345678"), ""),
    (RUN.format("echo 12 of 30", "in=root loose", "13 of 40"), ""),
    (RUN.format("true", "in=root needs=nosuchtool", "x"), ""),
    (RUN.format("echo 12 of 30", "in=root", "13 of 40"), "something else"),
    (RUN.format("echo a; echo b", "in=root", "a"), "something else"),
    (RUN.format("exit 3", "in=root", ""), "ended with status 3, not 0"),
    (RUN.format("true", "quick", ""), "is written"),
    (HI + RUN.format("./hi", "", "hi"), ""),
    (HI.replace("(void)", "(voida)") + RUN.format("./hi", "", "hi"), "does not compile"),
    (HI + RUN.format("./hi", "", "ho"), "something else"),
    (HI + HO + RUN.format("./ho", "", "ho"), ""),
    (HI + HO + RUN.format("./ho", "", "hi"), "something else"),
    (HI + HO.replace('-    printf("hi', '-    printf("ha'), "not there as it is now"),
    (HI + HO.replace("from=hi.c", "from=ha.c"), "no block above"),
    ("```c sketch\nfor each client\n```\n```text drawing\n->\n```\n```text sketch\nx\n```\n", ""),
    ("```c sketch compile\nint x;\n```\n", "a sketch is"),
    (LINE, ""),
    (LINE.replace("../../", ""), ""),
    (LINE.replace("-g ", ""), "no README has this compile line"),
])  # fmt: skip
def test_blocks(project: Path, text: str, why: str) -> None:
    says(book.block_problems(page(project, text)), why)


def test_listings_are_refreshed(project: Path) -> None:
    one = page(project, "- in a list\n\n  ```c listing server.c new_way\n  ```\n")
    assert len(book.update_page(one)[0]) == 1
    assert one.path.read_text().splitlines()[3:5] == ["  // The new way.", "  static int new_way(struct pair *pair) {"]
    assert book.block_problems(book_blocks.read(one.path)) == []


def test_a_readme_is_named_with_its_folder(tmp_path: Path) -> None:
    for name, where in (("README.md", "teaching/README.md:1"), ("lectures.md", "lectures.md:1")):
        path = tmp_path / "teaching" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("```sh\n```\n")
        assert book_blocks.read(path).blocks[0].where == where


@pytest.mark.parametrize("text, why", [
    ("[a](b.md)", "there is no file b.md"),
    ("![a tree](b.svg)", "there is no picture b.svg"),
    ("![](one.svg)", "has no alternative text"),
    ("![a](04-four.md)", "pictures are SVG"),
    ("[a](#nowhere)", "has no heading #nowhere"),
    ("[a](04-four.md#nowhere)", "has no heading #nowhere"),
    ("[a][b]", "nothing defines the link"),
    ("a <b>bold</b> word", "raw HTML: <b>"),
    ("<!-- to do -->", "raw HTML"),
    ("<img src='x'>", "raw HTML"),
    ("<details open>", "raw HTML"),
    ("| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |", "four.md:7: not a table"),
    ("| a | b |", "not a table"),
    ("# `set`: a key, twice!\n\n## Same\n\n## Same\n\n[x](#set-a-key-twice) [y](#same-1) [z](../common/base.h)\n"
     "![one](one.svg) <https://example.org> [w](https://example.org) `<b>` `[a](b)` 1 < 2 > 0\n\n<details>\n"
     "<summary>Hint</summary>\n\nx\n\n</details>\n\n| a |\n| :-- |\n| 1 |\n\n```c sketch\n[a](b.md) <b>\n```\n", ""),
])  # fmt: skip
def test_prose(project: Path, text: str, why: str) -> None:
    (project / "book" / "one.svg").write_text("<svg/>")
    says(book_blocks.prose_problems(page(project, f"# Four\n\n{text}\n")), why)


def test_a_block_without_an_end(project: Path) -> None:
    with pytest.raises(book_blocks.BookError, match="never closed"):
        page(project, "```c sketch\nint x;\n")


# ---- sessions: the real programs ----


def console(tmp_path: Path, text: str) -> book_blocks.Page:
    path = tmp_path / "07-try.md"
    path.write_text(text, encoding="utf-8")
    return book_blocks.read(path)


SESSION = "```console\n$ ./client set k v\nserver says: [0]\n```\n\n```console{}\n$ ./client get k\n{}\n```\n"


def test_blocks_of_a_chapter_are_one_session(tmp_path: Path) -> None:
    none(book.play_page(console(tmp_path, SESSION.format("", "server says: [0] v"))))
    none(book.play_page(console(tmp_path, SESSION.format(" fresh", "server says: [2]"))))
    none(book.play_page(console(tmp_path, SESSION.format(" 08", "server says: [2]"))))
    assert "07-try.md:7" in "".join(book.play_page(console(tmp_path, SESSION.format("", "server says: [1]"))))
    with pytest.raises(book_blocks.BookError):
        book.play_page(console(tmp_path, SESSION.format(" 99", "")))


def test_a_file_that_was_typed_is_there_later(tmp_path: Path) -> None:
    typed = "```console\n$ cat > say.sh <<'EOF'\necho $1\necho two\nEOF\n```\n\n"
    used = "```console fresh\n$ sh say.sh one\none\ntwo\n```\n"
    none(book.play_page(console(tmp_path, typed + used)))
    assert "07-try.md:2" in "".join(book.play_page(console(tmp_path, used + typed)))
    asks = 'import socket\nsocket.create_connection(("127.0.0.1", 1234))\n'
    typed = f"```console\n$ cat > ask.py <<'EOF'\n{asks}EOF\n```\n\n"
    none(book.play_page(console(tmp_path, typed + "```console fresh\nserver$ ./server\n$ python3 ask.py\n```\n")))


def test_play_writes_what_commands_print(tmp_path: Path) -> None:
    text = (
        "```console\nserver$ ./server\n$ ./client set k v\n\n# now\n$ ./client get k\nold\n$ ./client"
        " <<'E'\nx\nE\nserver^C\n[exit 0]\n```\n"
    )
    one = console(tmp_path, text)
    book_blocks.rewrite(one, book.fill(one))
    lines = one.path.read_text().splitlines()
    assert lines[2:8] == [
        "$ ./client set k v", "server says: [0]", "", "# now", "$ ./client get k", "server says: [0] v"
    ]
    assert lines[8:11] == ["$ ./client <<'E'", "x", "E"]
    none(book.play_page(book_blocks.read(one.path)))


# ---- the command line ----


def test_the_command_line(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("BOOK", str(project / "book"))
    monkeypatch.setattr(book.build, "ensure_built", lambda number: None)
    monkeypatch.setattr(book_edition, "problems", lambda page, root: [])
    page(project, WALK.replace("more(pair->b)", "less(pair->b)"))

    def prints(words: str, *args: str) -> int:
        status = book.main(list(args))
        said = capsys.readouterr().out
        assert words in said, said
        return status

    assert prints("new_way differs", "check", "4") == 1
    assert prints("changed 04-four.md:", "update") == prints("Nothing to change", "update", "04-four.md") == 0
    assert prints("agree", "check") == prints("server.c edit twice", "steps", "04") == 0
    my = project / "my"
    for place in (("0",), ("5",), ()):
        assert prints("client.c", "apply", "04", *place, str(my / "".join(place))) == 0
    texts = [(my / name / "server.c").read_text() for name in ("0", "5", "")]
    assert texts[0] == SERVER_3 and texts[2] == SERVER_4 and "old_way" in texts[1] and "new_way" in texts[1]
    assert (my / "common" / "more.h").read_text() == MORE
    assert prints(WALK[WALK.index(EDIT) :], "record", "04", "6") == prints("Nothing", "record", "04", "7") == 0
    (my / "server.c").write_text(SERVER_4.replace('say("twice");', 'say("thrice");').replace("}\n", "}\n\nint a;\n", 1))
    assert prints('-    say("twice");\n+    say("thrice");\n', "record", "04", "7", str(my)) == 0
    assert prints(f"add a after=twice provisional\n{HERE}\nint a;\n", "record", "04", "7", str(my)) == 0
    for wrong in ("", "check 05", "record 04 9", f"apply 04 {my}", f"apply 04 9 {my}/9"):
        with pytest.raises(SystemExit):
            book.main(wrong.split())
