"""The text and the code are one: tests/tools/book.py checks it, book/README.md says how."""
from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

import book
import book_blocks
import book_edition
import book_edits
import book_skeleton
import book_steps
import book_units
from layout import ROOT, all_sources, chapters

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(180)]
PAGES = [str(p.relative_to(ROOT / "book")) for p in book_blocks.paths(ROOT / "book")]
OWN = [name for name in PAGES if name not in book.FOREIGN]
PARTS = 3  # of the blocks of a page: the commands of one may take a minute together


def none(problems: List[str]) -> None:
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


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
    none(book.play(book_blocks.read(ROOT / "book" / name)))


@pytest.mark.parametrize("name", OWN)
def test_exercises_are_those_that_are_there(name: str) -> None:
    none(book.exercise_problems(book_blocks.read(ROOT / "book" / name)))


@pytest.mark.parametrize("name", OWN)
def test_limits_of_a_chapter(name: str) -> None:
    none(book_edition.problems(book_blocks.read(ROOT / "book" / name), ROOT))


@pytest.mark.parametrize("name", OWN)
def test_update_has_nothing_to_do(name: str, tmp_path: Path) -> None:
    """What update would write is what is there, to the byte."""
    text = (ROOT / "book" / name).read_text(encoding="utf-8")
    page = book_blocks.read(ROOT / "book" / name)
    page.path = tmp_path / Path(name).name
    book_blocks.rewrite(page, {b.line: b.code for b in page.blocks})
    assert page.path.read_text(encoding="utf-8") == text
    assert book.step_updates(page)[0] == {}


# ---- the machinery, on the real stages ----


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in all_sources(ROOT)])
def test_sources_fall_into_units(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    found = book_units.units(text, path)
    assert book_units.join(found) == text
    for unit in found:
        assert found[book_units.find(found, book_units.label(unit, found), path)] is unit


@pytest.mark.parametrize("name", [n for n in chapters() if n in ("03", "04", "05", "10")])
def test_a_skeleton_is_a_walk(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}-walk.md").write_text(book_skeleton.markdown(name), encoding="utf-8")
    page = book_blocks.read(tmp_path / f"{name}-walk.md")
    none(book.problems(page))
    assert book.update(page) == ([], [])


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

## What changed since chapter 03

| file | kind | name | change | what for |
| --- | --- | --- | --- | --- |
| server.c | function | `twice` | changed | x |
| server.c | function | `new_way` | new | x |
| server.c | function | `old_way` | gone | x |
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

In `server.c`:

```c step server.c replace twice
static int twice(int n) {
    int two = k_two;
    // ...
}
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

In `server.c`:

```c step server.c replace main
int main(void) {
    struct pair pair = {k_one, 2};
    return twice(new_way(&pair));
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


def walk(project: Path, *changes: str) -> str:
    """The problems of the walk, after some replacements: old, new, old, new."""
    text = WALK
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in text
        text = text.replace(old, new)
    return "\n\n".join(book.walk_problems(page(project, text)))


def test_a_walk_that_is_right(project: Path) -> None:
    assert walk(project) == ""


def test_a_step_with_other_code(project: Path) -> None:
    assert "new_way differs from the sources" in walk(project, "pair->a + more", "pair->a - more")


def test_a_step_with_another_comment(project: Path) -> None:
    assert "new_way differs from the sources" in walk(project, "// The new way.", "// The new  way.")


def test_a_step_that_is_missing(project: Path) -> None:
    start, end = WALK.index("```c step server.c add"), WALK.index("```text step")
    found = walk(project, WALK[start:end], "")
    assert "after this step server.c does not compile" in found and "'new_way'" in found
    assert "server.c lacks new_way" in found


def test_a_walk_without_steps(project: Path) -> None:
    found = "".join(book.walk_problems(page(project, "# Four\n")))
    assert "common/more.h is not there" in found and "server.c still has old_way" in found
    assert "server.c has another top, includes, k_one, twice, main" in found


def test_a_step_that_does_not_compile(project: Path) -> None:
    found = walk(project, "remove old_way with-next", "remove old_way")
    line = WALK[: WALK.index("```text step")].count("\n") + 1
    assert f"04-four.md:{line}: after this step server.c does not compile" in found
    assert "with-next" not in found


def test_the_text_says_which_steps_only_compile_together(project: Path) -> None:
    """The reader compiles after each step, and does not see `with-next`."""
    line = WALK[: WALK.index("```text step")].count("\n") + 1
    silent = (
        f"04-four.md:{line}: after this step server.c compiles no more until line {line + 6}, and the text above it "
        "does not say so; write there: the next two edits compile together"
    )
    said = " (this edit and the next compile together)"
    assert walk(project, said, "") == silent
    behind = "In `server.c`:\n\n```c step server.c replace main"
    assert walk(project, said, "", behind, "The two edits compile together. " + behind) == silent  # too late
    for text in ("this edit and the next one compile together", "the two edits compile only together",
                 "the edits of this section compile together"):  # fmt: skip
        assert walk(project, said[2:-1], text) == "", text
    for text, number in (("this edit and the next two compile together", 3), ("one edit: they compile together", 1)):
        assert f"the text says that {number} edits compile together" in walk(project, said[2:-1], text)


def test_steps_that_compile_one_by_one_need_no_announcement(project: Path) -> None:
    """`with-next` may also keep two steps together that compile alone; the text above a run may count these too."""
    add = "In `server.c`:\n\n```c step server.c add new_way after=twice"
    assert walk(project, add, add + " with-next") == ""
    assert walk(project, add, "Three edits compile together. " + add + " with-next",
                " (this edit and the next compile together)", "") == ""  # fmt: skip
    assert "says that 2 edits" in walk(project, add, "Two edits compile together. " + add + " with-next",
                                       " (this edit and the next compile together)", "")  # fmt: skip


def test_steps_before_what_they_use(project: Path) -> None:
    first, second = WALK.index("```c step server.c replace k_one"), WALK.index("```c step server.c replace twice")
    third = WALK.index("```c step server.c add new_way")
    text = WALK[:first] + WALK[second:third] + WALK[first:second] + WALK[third:]
    found = "\n".join(book.walk_problems(page(project, text)))
    assert "does not compile" in found and "k_two" in found


def test_warnings_count_but_for_what_is_unused(project: Path) -> None:
    found = walk(project, "```c step server.c replace main", "```c step server.c replace new_way provisional\n"
                 "static int new_way(struct pair *pair) {\n    return pair->a < 1u;\n}\n```\n\n"
                 "```c step server.c replace new_way\n```\n\n```c step server.c replace main")  # fmt: skip
    assert "the block is empty" in found
    steps = [book_steps.Compilation("a.c", (("a.c", f"{code}\n"),)) for code in (
        "static void unused(int n) {}", "int f(int n) { return n < 1u; }",
    )]  # fmt: skip
    assert [bool(book_steps.compile_one(job)) for job in steps] == [False, True]


def test_a_lost_change_of_a_client(project: Path) -> None:
    (project / "chapters/04/client.c").write_text(CLIENT + "\nint other;\n")
    assert "client.c lacks other" in walk(project)


def test_a_lab_program_is_part_of_the_stage(project: Path) -> None:
    (project / "chapters/04/test_more.c").write_text(CLIENT)
    assert "test_more.c is not there" in walk(project)


def test_provisional_steps(project: Path) -> None:
    early = (
        "```c step server.c add new_way after=twice provisional\n"
        "static int new_way(struct pair *pair) {\n    return pair->a;\n}\n```\n\n"
    )
    final = "```c step server.c add new_way after=twice"
    assert walk(project, final, early + "Then `new_way`:\n\n```c step server.c replace new_way") == ""
    assert "server.c has another new_way" in walk(project, WALK[WALK.index(final) : WALK.index("```text step")], early)
    assert "not provisional" in walk(project, final, final + " provisional")
    assert "is it `provisional`?" in walk(
        project, final, early.replace(" provisional", "").replace("new_way", "newer") + final
    )


def test_the_text_says_where_a_step_goes(project: Path) -> None:
    start = WALK.index("In `server.c`:\n\n```c step server.c add new_way")
    for text, right in (("After `twice`:", True), ("In the server:", False), ("", False), ("We add `new_way`.", True)):
        found = "\n".join(
            book.walk_problems(page(project, WALK[:start] + WALK[start:].replace("In `server.c`:", text, 1)))
        )
        assert (found == "") is right, text
        assert right or "does not say where this goes: it names none of server.c, twice, new_way" in found


def test_new_code_says_itself_where_it_goes(project: Path) -> None:
    code = "In `server.c`:\n\n```c step server.c add new_way after=twice\n"
    bare, said = code[code.index("```") :], "@@ server.c: after twice @@\n"
    assert walk(project, code, bare + said) == ""
    found = walk(project, code, bare + said.replace("twice", "main"))
    assert "this is not where it goes: @@ server.c: after main @@; write @@ server.c: after twice @@" in found
    where = "```c step server.c replace twice\n"
    assert "@@ server.c: after k_one @@; write nothing" in walk(project, where, where + "@@ server.c: after k_one @@\n")
    at = WALK.index(code)
    empty = page(project, WALK[:at] + bare + said + WALK[WALK.index("```\n", at + len(code)) :])
    assert book.update(empty) == (["04-four.md:%d: c step server.c add new_way after=twice" % empty.blocks[4].line], [])
    assert said + "// The new way.\n" in empty.path.read_text(encoding="utf-8")
    banner = book_blocks.Block(empty.path, 1, 0, "", "", 1, "c step server.c add a after=banner:the-poll-set".split())
    assert book_steps.label(book_steps.parse(banner)) == "@@ server.c: after the banner the poll set @@"


def test_what_stands_elsewhere_in_the_end(project: Path) -> None:
    found = walk(project, "add new_way after=twice", "add new_way after=pair")
    assert "another order: new_way stands where banner:talk should" in found


@pytest.mark.parametrize("old, new, why", [
    ("after=twice", "after=thrice", "there is no thrice in server.c"),
    ("after=twice", "", "write it as c step FILE add"),
    ("add new_way after=twice", "append new_way", "a step is one of"),
    ("add new_way after", "add other_way after", "there is no other_way in the code of the block"),
    ("add new_way after=twice", "add new_way after=twice loudly", "says nothing here"),
    ("replace main", "replace twice,main", "do not follow one another"),
    ("remove old_way", "remove older_way", "there is no older_way"),
    ("static void old_way(void) {\n", "static void older_way(void) {\n", "no line of old_way"),
    ("step common/more.h new", "step common/most.h new", "the chapter has no common/most.h"),
    ("step server.c replace main", "step test.c replace main", "the chapter has no test.c"),
    ("step server.c add new_way", "step server.c add twice,new_way", "there is no twice in the code of the block"),
    ("    int two = k_two;\n    // ...", "    // ...\n    return n * two;", "these change"),
    ("    int two = k_two;\n    // ...", "    int two = k_three;\n    // ...", "differs from the sources"),
    ("struct pair {\n    int a;", "\nstruct pair {\n    int a;", "one blank line between"),
])  # fmt: skip
def test_steps_that_cannot_be_applied(project: Path, old: str, new: str, why: str) -> None:
    found = walk(project, old, new)
    assert why in found


def test_what_the_readme_declares_must_be_shown(project: Path) -> None:
    """Steps that lead to the stage show all of it; this is for what a table declares beyond."""
    path = project / "chapters/04/README.md"
    path.write_text(README + "| server.c | function | `other` | new | x |\n")
    assert "function `other` of server.c is new, but no step or listing shows it" in walk(project)


def test_update_writes_steps_anew(project: Path) -> None:
    text = WALK.replace("pair->a + more", "pair->a - more").replace("return twice(new", "return twice(old")
    text = text.replace("static void old_way(void) {\n", "")
    one = page(project, text)
    changed, left = book.update(one)
    assert len(changed) == 3 and left == []
    assert one.path.read_text() == WALK
    assert book.update(book_blocks.read(one.path)) == ([], [])


def test_update_fills_empty_steps_and_keeps_elisions(project: Path) -> None:
    code = WALK[WALK.index("// The new way.") : WALK.index("```\n\nIn `server.c` (")]
    one = page(project, WALK.replace(code, ""))
    book.update(one)
    assert one.path.read_text() == WALK
    server = project / "chapters/04/server.c"
    server.write_text(server.read_text().replace("int two = k_two;", "int two = k_two + 0;"))
    assert len(book.update(book_blocks.read(one.path))[0]) == 1
    assert "    int two = k_two + 0;\n    // ...\n" in one.path.read_text()
    none(book.walk_problems(book_blocks.read(one.path)))


def test_a_skeleton_finds_an_order(project: Path) -> None:
    text = book_skeleton.markdown("04", project)
    none(book.walk_problems(page(project, text)))
    assert text.index("step common/more.h") < text.index("step server.c")
    assert book_skeleton.markdown("03", project).count(" new\n") == 3


# ---- edits ----

EDIT = """\
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
LAST = WALK[WALK.index("In `server.c`:\n\n```c step server.c replace main") :]


def test_an_edit_shows_what_changes(project: Path) -> None:
    assert walk(project, LAST, EDIT) == ""
    assert walk(project, LAST, EDIT.replace(" int main(void) {\n", "").replace(" }\n", "")) == ""
    assert (
        walk(
            project,
            LAST,
            EDIT.replace("@@ server.c: main @@\n", "In `main`:\n", 1).replace(
                "```diff step server.c edit main\nIn `main`:\n", "In `main`:\n\n```diff step server.c edit main\n"
            ),
        )
        == ""
    )
    gap = EDIT.replace("-    old_way();\n", "     // ...\n")
    assert "old_way" in walk(project, LAST, gap)  # it is still called, and gone


def test_an_edit_in_two_parts(project: Path) -> None:
    first = EDIT.replace("-    return twice(k_one);\n", "").replace(
        "+    return twice(new_way(&pair));\n }\n", "     return twice(k_one);\n }\n"
    )
    second = (
        "\nThen `main` again:\n\n```diff step server.c edit main\n     struct pair pair = {k_one, 2};\n-    return"
        " twice(k_one);\n+    return twice(new_way(&pair));\n```\n"
    )
    assert walk(project, LAST, first + second) == ""
    found = walk(project, LAST, first)
    assert "server.c has another main" in found
    line = WALK[: WALK.index(LAST)].count("\n") + 1
    assert (
        f"04-four.md:{line} wrote main last; the sources have (+):" in found
        and "+     return twice(new_way(&pair));" in found
    )


@pytest.mark.parametrize("old, new, offset, why", [
    ("-    old_way();", "-    older_way();", 2, "these lines are not there"),
    (" int main(void) {\n", " int main(void) {\n     // ...\n     int no;\n", 4,
     "these lines are not there, behind those above"),
    ("-    old_way();", "*    old_way();", 3, "begins with none of blank, - and +"),
    ("-    old_way();", "-    // ...", 3, "so it has no - or + in front"),
    ("+    struct pair pair = {k_one, 2};\n+    return twice(new_way(&pair));\n", "", 0, "main"),
    ("edit main", "edit mine", 0, "there is no mine in server.c"),
    ("@@ server.c: main @@", "@@ client.c @@", 0, "names none of server.c, main"),
    ("edit main", "edit twice,main", 0, "do not follow one another"),
    ("edit main", "edit main provisional", 0, "needs no `provisional`"),
    ("diff step server.c edit", "c step server.c edit", 0, "write it as diff step FILE edit"),
])  # fmt: skip
def test_edits_that_cannot_be_applied(project: Path, old: str, new: str, offset: int, why: str) -> None:
    assert old in EDIT
    found = walk(project, LAST, EDIT.replace(old, new, 1))
    assert why in found
    assert f"04-four.md:{WALK[: WALK.index(LAST)].count(chr(10)) + 1 + offset}" in found


def test_lines_that_are_there_twice() -> None:
    text = "f {\n    a;\n    b;\n    a;\n}\n"
    with pytest.raises(book_edits.EditError, match="are there 2 times"):
        book_edits.patched("-    a;\n", text)
    assert book_edits.patched("     b;\n-    a;\n", text) == "f {\n    a;\n    b;\n}\n"
    assert book_edits.patched(" f {\n-    a;\n     // ...\n-    a;\n+    c;\n", text) == "f {\n    b;\n    c;\n}\n"
    with pytest.raises(book_edits.EditError, match="only new lines"):
        book_edits.patched("+    c;\n", text)
    with pytest.raises(book_edits.EditError, match="changes nothing"):
        book_edits.patched("     b;\n", text)


def test_edits_that_the_tool_writes() -> None:
    """Between any two versions of a text, also where lines repeat."""
    lines = ["int f(void) {", "    a();", "", "    if (x) {", "        a();", "    }", "    b();", "    a();", "}"]
    for first in range(len(lines)):
        for second in range(first, len(lines)):
            for new in (["    c();"], [], ["    a();"], ["", "    }"]):
                now = lines[:first] + new + lines[second:]
                if now != lines:
                    old, wanted = "\n".join(lines) + "\n", "".join(line + "\n" for line in now)
                    assert book_edits.patched(book_edits.diff(old, wanted, "f"), old) == wanted


def test_an_empty_edit_is_written(project: Path) -> None:
    code = EDIT[EDIT.index("@@") : EDIT.index("```\n")]
    one = page(project, WALK.replace(LAST, EDIT.replace(code, "")))
    assert book.update(one)[1] == []
    assert one.path.read_text().endswith(EDIT)
    none(book.walk_problems(book_blocks.read(one.path)))


def test_what_remains_and_edits_to_a_folder(project: Path) -> None:
    one = page(project, WALK.replace(LAST, ""))
    assert LAST.partition("\n")[2] in book.remains(one) + "\n"
    whole = page(project, WALK)
    assert book.remains(whole) == ""
    book.apply_steps(whole, None, project / "my")
    mine = project / "my" / "server.c"
    mine.write_text(
        mine.read_text().replace('say("twice");', 'say("thrice");').replace("}\n", "}\n\nint more_of_it;\n", 1)
    )
    said = book.edits_to(whole, len(book.steps_of(whole)), project / "my")
    assert "-    say(\"twice\");\n+    say(\"thrice\");\n" in said
    assert "```c step server.c add more_of_it" in said and "provisional" in said


# ---- supplied files ----


def test_a_supplied_file_is_not_typed(project: Path) -> None:
    (project / "chapters/04/test_more.c").write_text(
        '#include "more.h"\n\n// All of it.\nint main(void) {\n    return more(1);\n}\n'
    )
    assert "test_more.c is not there" in walk(project)
    supplied = (
        "\nThe test, `test_more.c`:\n\n```c supplied test_more.c main bare\nint main(void) {\n    return"
        " more(1);\n}\n```\n"
    )
    text = WALK + supplied
    assert "\n".join(book.walk_problems(page(project, text)) + book.block_problems(page(project, text))) == ""
    assert len(book.steps_of(page(project, text))) == 8 and "04-four" in str(page(project, text).path)
    wrong = text.replace("return more(1)", "return more(2)")
    assert "differs from the source" in "\n".join(book.block_problems(page(project, wrong)))
    early = text.replace("# Four\n", "# Four\n" + supplied, 1)
    found = "\n".join(book.walk_problems(page(project, early)))
    assert "test_more.c does not compile" in found and "is there already" in found


def test_a_program_is_supplied_over_the_one_that_is_there(project: Path) -> None:
    """Where a stage brings more of one pattern than anybody wants to type."""
    block = "\n`server.c` is supplied:\n\n```c supplied server.c main over\n" + "{}```\n"
    code = book.listing(page(project, WALK), page(project, WALK + block.format("")).blocks[-1])
    text = WALK[: WALK.index("```c step server.c")] + block.format(code)
    rest = page(project, text)
    assert "server.c" not in "\n".join(book.walk_problems(rest) + book.block_problems(rest))
    plain = "\n".join(book.walk_problems(page(project, text.replace(" over\n", "\n"))))
    assert "is there already: write `over`" in plain
    new = "# Four\n\n`more.h`:\n\n```c supplied common/more.h over\n```\n"
    assert "common/more.h is not there: no `over`" in "\n".join(book.walk_problems(page(project, new)))


def test_a_command_copies_what_is_supplied(project: Path) -> None:
    """Several files at once, of which nothing is shown; the reader types the command."""
    block = "\nCopy it:\n\n```sh supplied\n{}\n```\n"
    text = WALK[: WALK.index("```c step server.c")] + block.format("cp ../chapters/04/server.c .")
    one = page(project, text)
    assert "server.c" not in "\n".join(book.walk_problems(one) + book.block_problems(one))
    assert book.steps_of(one)[-1].file == "server.c"
    two = "# Four\n" + block.format("cp ../common/more.h common\ncp ../chapters/04/server.c .")
    assert "\n".join(book.walk_problems(page(project, two))) == ""
    for wrong in ("../common/more.h .", "../chapters/05/server.c .", "/etc/passwd .", "../common/more.h"):
        found = "\n".join(book.walk_problems(page(project, "# Four\n" + block.format(f"cp {wrong}"))))
        assert "write it as cp" in found or "copies nothing" in found, (wrong, found)
    assert "the chapter has no none.c" in "\n".join(
        book.walk_problems(page(project, "# Four\n" + block.format("cp ../chapters/04/none.c .")))
    )


# ---- programs from the middle of a chapter ----

EARLY = """\
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

Then `main`:

```diff step server.c edit main
-    printf("one\\n");
+    printf("two\\n");
```

```console here
$ ./server
two
[exit 3]
server$ ./server
```

```text output "./server" in=here exit=3
two
```
"""


def test_a_session_with_the_program_so_far(project: Path) -> None:
    text = EARLY.replace("server$ ./server\n", "")
    none(book.play(page(project, text)) + book.block_problems(page(project, text)))
    found = "\n".join(book.play(page(project, text.replace("\ntwo\n[exit", "\nthree\n[exit"))))
    assert "-three\n+two" in found
    assert "ended at once" in "\n".join(book.play(page(project, EARLY)))
    assert "prints something else" in "\n".join(
        book.block_problems(page(project, text.replace("two\n```\n", "one\n```\n")))
    )
    wrong = text.replace('printf("two', 'no_such_thing("two')
    with pytest.raises(book_blocks.BookError, match="server.c as it is here does not compile"):
        book.play(page(project, wrong))


NAIVE = """\
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
"""


def test_a_server_that_says_nothing_and_ends(project: Path) -> None:
    """One that has its port written into it, prints to standard output, and serves a single client."""
    text = (
        f"# Three\n\n`server.c`:\n\n```c step server.c new provisional\n{NAIVE}```\n\n```console here\nserver$"
        " ./server\n"
    )
    text += "$ bash -c ': </dev/tcp/127.0.0.1/'$PORT\nserver| somebody\nserver| [exit 5]\n```\n"
    none(book.play(page(project, text, "03-three.md")))
    assert "[exit 6]\n+[exit 5]" in "\n".join(book.play(page(project, text.replace("exit 5", "exit 6"), "03-three.md")))
    assert "ended in the middle" in "\n".join(
        book.play(page(project, text.replace("server| [exit 5]\n", ""), "03-three.md"))
    )


# ---- what a chapter holds to ----

STOP = "\nIt runs:\n\n```console here\n$ ./server\n```\n\nWhat is still wrong: it says the same thing.\n\n"


def limits(project: Path, text: str) -> str:
    return "\n".join(book_edition.problems(page(project, text), project))


def test_a_page_that_is_too_short_hears_where_to_lie_until_it_is_finished(project: Path) -> None:
    found = limits(project, STOP)
    assert "words; a chapter has 2500 to 4300. A page that is not finished yet" in found
    assert "BOOK=dir python3 tests/tools/book.py check NN" in found


def test_a_readme_is_named_with_its_folder(tmp_path: Path) -> None:
    for name, where in (("README.md", "teaching/README.md:1"), ("lectures.md", "lectures.md:1")):
        path = tmp_path / "teaching" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("```sh\n```\n")
        assert book_blocks.read(path).blocks[0].where == where


def test_the_pace(project: Path) -> None:
    step = "Then `main`:\n\n```diff step server.c edit main\n-    one\n+    two\n```\n\n"
    assert "th edit" not in limits(project, step * 10 + STOP + step * 10 + STOP)
    found = limits(project, step * 10 + STOP + step * 11 + STOP)
    assert "the 11th edit since the last stop" in found and "04-four.md:" in found
    assert "nothing is played after this last edit" in limits(project, STOP + step)
    assert "no sentence follows" in limits(project, step + STOP.partition("What")[0] + step + STOP)
    for no in ("```console 03", "```console"):  # programs of another state than the reader's
        assert "the 11th edit" in limits(project, step * 6 + STOP.replace("```console here", no) + step * 6 + STOP)
    assert "is played after" not in limits(project, step + STOP.replace(" here", ""))


def test_old_lines(project: Path) -> None:
    found = limits(project, WALK)
    assert "of the lines in changing steps stay as they were" in found
    edits = "\n".join(f"Now `{name}`:\n\n```diff step server.c edit {name}\n```\n" for name in ("twice", "main"))
    start, end = WALK.index("In `server.c`:\n\n```c step server.c replace twice"), WALK.index(
        "In `server.c`:\n\n```c step server.c add new_way"
    )
    one = page(project, (WALK[:start] + edits.split("\nNow `main`")[0] + WALK[end:]).replace(LAST, EDIT))
    book.update(one)
    measured = book_edition.measure(book_blocks.read(one.path), project)
    assert (measured.old is not None) and measured.old < 0.5


def test_predictions_figures_and_length(project: Path) -> None:
    figure = "<svg><title>a</title><desc>b</desc><style>@media (prefers-color-scheme: dark) {}</style></svg>"
    for name in ("a", "b", "c"):
        (project / "book" / f"{name}.svg").write_text(figure)
    text = "![a](a.svg) ![b](b.svg)\n![c](c.svg)\n\n" + "word " * 2500
    predict = "> **Predict:** how many?\n\n```console\n$ echo 1\n1\n```\n\n"

    def kinds(text: str) -> str:
        found = limits(project, text)
        words = ("words;", "predictions (", "no session", "figures (", "dark mode", "title")
        return " ".join(word for word in words if word in found)

    assert kinds(text + "\n\n" + predict * 3) == "" == kinds(text + "\n\n" + predict * 5)
    assert kinds(text + "\n\n" + predict * 2) == "predictions (" == kinds(text + "\n\n" + predict * 6)
    assert kinds(text + "\n\n" + predict * 3 + "> **Predict:** why?\n\n## Next\n\n" + predict) == "no session"
    assert kinds("![a](a.svg) ![b](b.svg) ![b](b.svg) " + "word " * 2500 + "\n\n" + predict * 3) == "figures ("
    for other in (text.replace("word ", "", 2400), text * 2):
        assert kinds(other + "\n\n" + predict * 3) == "words;"
    body, work = text + "\n\n" + predict * 3, "\n\n## {}\n\n" + "word " * 2500
    assert kinds(body + work.format("Exercises") + work.format("Check yourself")) == ""
    assert kinds(body + work.format("Exercises") + work.format("How Redis does it")) == "words;"
    (project / "book" / "a.svg").write_text(figure.replace("dark", "light"))
    assert kinds(text + "\n\n" + predict * 3) == "dark mode"


def test_all_chapters_in_a_table(project: Path) -> None:
    text, found = book_edition.report([page(project, WALK)], project)
    row = text.splitlines()[2].split()
    assert row[:4] == ["04-four.md", "25", "7", "0"] and row[-1] == "problems" and len(found) == int(row[-2]) > 2


# ---- exercises ----


def test_exercises_that_the_text_names_otherwise(project: Path) -> None:
    folder = project / "chapters/04/exercises/hunt-it"
    folder.mkdir(parents=True)
    conf = "[exercise]\ntitle = It\nkind = mend\ndifficulty = 1\nminutes = 1\npoints = 1\nsubmit = server.c\n"
    (folder / "exercise.conf").write_text(conf)

    def said(text: str, name: str = "04-four.md") -> str:
        return "\n".join(book.exercise_problems(page(project, text, name)))

    line = "- [`04-hunt-it`](../chapters/04/exercises/hunt-it/README.md): Mend: it is gone.\n"
    text = f"# Four\n\n## Exercises\n\n{book.TO_DO}\n\n{line}\n## Check yourself\n"
    assert said(text) == ""
    assert "does not name 04-hunt-it" in said(text.replace(line, "- `04-hunt-it`: it is gone.\n"))
    assert "does not name 04-hunt-it" in said(text.replace(line, "") + line)
    assert "there is no exercise 04-hunt-her" in said(text.replace(line, line + line.replace("-it", "-her")))
    assert "leads to ../chapters/04/README.md" in said(text.replace("exercises/hunt-it/", ""))
    assert "must begin with `Mend: `" in said(text.replace("Mend: ", ""))
    assert "must begin: To do one" in said(text.replace("To do one", "Do"))
    assert "does not name 04-hunt-it" in said("# Four\n")
    assert "no hint for 04-hunt-it" in said("# Hints\n", "A1-hints.md")
    assert said("# Hints\n\n- `04-hunt-it`: Look.\n", "A1-hints.md") == said("# Three\n", "03-three.md") == ""


# ---- blocks ----


def blocks(project: Path, text: str) -> str:
    return "\n".join(book.block_problems(page(project, text)))


@pytest.mark.parametrize("info", ["", "c", "text", "python", "console2", "c listening server.c", "hex x"])
def test_a_block_that_is_nothing(project: Path, info: str) -> None:
    assert "a block must be one of" in blocks(project, f"```{info}\nint x;\n```\n")


def test_listings(project: Path) -> None:
    good = "```c listing chapters/04/server.c {}\n{}```\n"
    way = "// The new way.\nstatic int new_way(struct pair *pair) {\n    return pair->a + more(pair->b);\n}\n"
    assert blocks(project, good.format("new_way", way)) == ""
    assert blocks(project, good.format("new_way bare", way.partition("\n")[2])) == ""
    assert blocks(project, good.format("pair,k_one", "struct pair {\n    // ...\n")) == ""
    assert blocks(project, good.format("top", "// server.c, chapter 04: two\n")) == ""
    assert blocks(project, good.format("", SERVER_4)) == ""
    assert blocks(project, good.format('lines "static int new_way" .. "}"', way.partition("\n")[2])) == ""
    assert "differs" in blocks(project, good.format("new_way", way.replace("a +", "a  +")))
    assert "differs" in blocks(project, good.format("new_way", way.replace("pair->a + more", "// ...")))
    assert "there is no thrice" in blocks(project, good.format("thrice", way))
    assert "no lines" in blocks(project, good.format('lines "static long" .. "}"', way))
    assert "there is no file" in blocks(project, "```c listing chapters/05/server.c main\n```\n")


def test_listings_are_refreshed(project: Path) -> None:
    one = page(
        project, "```c listing server.c twice\nstatic int twice(int n) {\n    // ...\n    return n * 2;\n}\n```\n"
    )
    assert len(book.update(one)[0]) == 1
    assert one.path.read_text().splitlines()[2:4] == ["    // ...", "    return n * two;"]


def test_diffs(project: Path) -> None:
    shown = (
        " static int twice(int n) {\n-    int two = 2;\n+    int two = k_two;\n     say(\"twice\");\n"
        "     return n * two;\n }\n"
    )
    assert blocks(project, f"```diff 03 04 server.c twice\n{shown}```\n") == ""
    assert "differs" in blocks(project, f"```diff 03 04 server.c twice\n{shown.replace('k_two', '3')}```\n")
    assert "is the same" in blocks(project, "```diff 03 04 client.c\n```\n")
    assert "is written" in blocks(project, "```diff 03 client.c\n```\n")
    one = page(project, "- in a list\n\n  ```diff 03 04 server.c twice\n  ```\n")
    book.update(one)
    assert blocks(project, one.path.read_text()) == "" and "\n  -    int two = 2;\n" in one.path.read_text()


def test_outputs(project: Path) -> None:
    block = '```text output "{}" {}\n{}\n```\n'
    assert blocks(project, block.format("echo a; echo b", "in=root", "a\nb")) == ""
    assert blocks(project, block.format("echo a; echo b; echo c", "in=root", "a\n...")) == ""
    assert blocks(project, block.format("echo a; exit 3", "in=root exit=3", "a")) == ""
    assert blocks(project, block.format("echo took 12 ms at 0x7ffe1234", "in=root", "took 99 ms at 0x12345678")) == ""
    assert blocks(project, block.format("echo 12 of 30", "in=root loose", "13 of 40")) == ""
    assert blocks(project, block.format("true", "in=root needs=nosuchtool", "x")) == ""
    assert "something else" in blocks(project, block.format("echo 12 of 30", "in=root", "13 of 40"))
    assert "something else" in blocks(project, block.format("echo a; echo b", "in=root", "a"))
    assert "ended with status 3, not 0" in blocks(project, block.format("exit 3", "in=root", ""))
    assert "is written" in blocks(project, block.format("true", "quick", ""))


def test_programs_of_the_text(project: Path) -> None:
    text = (
        "```c sketch program=hi.c\n#include <stdio.h>\nint main(void) {\n    printf(\"hi\\n\");\n}\n```\n\n"
        '```text output "./hi"\nhi\n```\n'
    )
    assert blocks(project, text) == ""
    assert "does not compile" in blocks(project, text.replace("int main(void)", "int main(voida)"))
    assert "something else" in blocks(project, text.replace("printf(\"hi", "printf(\"ho"))


def test_a_program_edited_from_another(project: Path) -> None:
    text = (
        "```c sketch program=hi.c\n#include <stdio.h>\nint main(void) {\n    printf(\"hi\\n\");\n}\n```\n\n"
        "```diff sketch program=ho.c from=hi.c\n-    printf(\"hi\\n\");\n+    printf(\"ho\\n\");\n```\n\n"
        '```text output "./ho"\nho\n```\n'
    )
    assert blocks(project, text) == ""
    assert "something else" in blocks(project, text.replace("\nho\n", "\nhi\n"))
    assert "not there as it is now" in blocks(project, text.replace('-    printf("hi', '-    printf("ha'))
    assert "no block above" in blocks(project, text.replace("from=hi.c", "from=ha.c"))


def test_sketches(project: Path) -> None:
    assert blocks(
        project, "```c sketch\nfor each client\n```\n```text drawing\n->\n```\n```text sketch\nx\n```\n"
    ) == ""
    assert blocks(project, "```c sketch compiles\nint x;\n```\n") == ""
    assert "does not compile" in blocks(project, "```c sketch compiles\nint x\n```\n")
    assert "a sketch is" in blocks(project, "```c sketch compile\nint x;\n```\n")


def test_compile_lines(project: Path) -> None:
    line = "cc -O2 -g -Wall -Wextra -I../../common server.c -o server"
    assert blocks(project, f"```sh\n{line}   # now\n```\n") == ""
    assert blocks(project, f"```sh\n{line.replace('../../', '')}\n```\n") == ""
    assert "no README has" in blocks(project, f"```sh\n{line.replace('-g ', '')}\n```\n")


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
])  # fmt: skip
def test_prose_that_is_wrong(project: Path, text: str, why: str) -> None:
    (project / "book" / "one.svg").write_text("<svg/>")
    assert why in "\n".join(book_blocks.prose_problems(page(project, f"# Four\n\n{text}\n")))


def test_prose_that_is_right(project: Path) -> None:
    (project / "book" / "one.svg").write_text("<svg/>")
    text = (
        "# `set`: a key, twice!\n\n## Same\n\n## Same\n\n[x](#set-a-key-twice) [y](#same-1) [z](../common/base.h)\n"
        "![one](one.svg) <https://example.org> [w](https://example.org) `<b>` `[a](b)` 1 < 2 > 0\n\n<details>\n"
        "<summary>Hint</summary>\n\nx\n\n</details>\n\n| a |\n| :-- |\n| 1 |\n\n```c sketch\n[a](b.md) <b>\n```\n"
    )
    none(book_blocks.prose_problems(page(project, text)))


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
    none(book.play(console(tmp_path, SESSION.format("", "server says: [0] v"))))
    none(book.play(console(tmp_path, SESSION.format(" fresh", "server says: [2]"))))
    none(book.play(console(tmp_path, SESSION.format(" 08", "server says: [2]"))))
    assert "07-try.md:7" in "".join(book.play(console(tmp_path, SESSION.format("", "server says: [1]"))))
    with pytest.raises(book_blocks.BookError):
        book.play(console(tmp_path, SESSION.format(" 99", "")))


def test_a_file_that_was_typed_is_there_later(tmp_path: Path) -> None:
    typed = "```console\n$ cat > say.sh <<'EOF'\necho $1\necho two\nEOF\n```\n\n"
    used = "```console fresh\n$ sh say.sh one\none\ntwo\n```\n"
    none(book.play(console(tmp_path, typed + used)))
    assert "07-try.md:2" in "".join(book.play(console(tmp_path, used + typed)))
    asks = 'import socket\nsocket.create_connection(("127.0.0.1", 1234))\n'
    typed = f"```console\n$ cat > ask.py <<'EOF'\n{asks}EOF\n```\n\n"
    none(book.play(console(tmp_path, typed + "```console fresh\nserver$ ./server\n$ python3 ask.py\n```\n")))


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
    none(book.play(book_blocks.read(one.path)))


# ---- the command line ----


def test_the_command_line(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("BOOK", str(project / "book"))
    monkeypatch.setattr(book.build, "ensure_built", lambda number: None)
    monkeypatch.setattr(book_edition, "problems", lambda page, root: [])
    page(project, WALK.replace("more(pair->b)", "less(pair->b)"))
    assert book.main(["check", "4"]) == 1 and "new_way differs" in capsys.readouterr().out
    assert book.main(["update"]) == 0 and "changed 04-four.md:" in capsys.readouterr().out
    assert book.main(["check"]) == 0 and "agree" in capsys.readouterr().out
    assert book.main(["update", "04-four.md"]) == 0 and "Nothing to change" in capsys.readouterr().out
    assert book.main(["steps", "04"]) == 0 and "server.c replace twice" in capsys.readouterr().out
    there = project / "my"
    assert book.main(["apply", "04", "0", str(there / "0")]) == 0
    assert book.main(["apply", "04", "5", str(there / "5")]) == 0
    assert book.main(["apply", "04", str(there / "all")]) == 0
    said = [(there / name / "server.c").read_text() for name in ("0", "5", "all")]
    assert said[0] == SERVER_3 and said[2] == SERVER_4 and "old_way" in said[1] and "new_way" in said[1]
    assert (there / "all" / "common" / "more.h").read_text() == MORE
    for wrong in (
        [], ["apply", "04", str(there / "all")], ["apply", "04", "9", str(there / "9")], ["check", "05"], ["skeleton"],
        ["skeleton", "7"],
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            book.main(wrong)
