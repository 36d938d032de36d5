"""The tools in tests/tools/ on small made-up stages: each rule is seen to hold and to fail."""
from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import List, Sequence

import pytest

from harness.settings import needs

TOOLS = Path(__file__).parent / "tools"
import csource
import forward
import headers
import layout
import runtests
import stagediff
import stages

pytestmark = pytest.mark.inside

SERVER = """\
// server.c, chapter 03: made up
//
// Adds one and two.

#include <stdio.h>
#include <string.h>

#include "base.h"

enum {
    k_max_msg = 4096,
    k_other = 7, // why
};

// A connection.
struct conn {
    int fd;
};

static struct {
    int n;
} g_data;

static const int k_primes[] = {
    2,
    3,
};

// ---- requests: all of them ----

// Says one.
static int one(void) {
    return 1;
}

static int two(void) {
    return k_primes[0];
}

// ---- main ----

int main(void) {
    g_data.n = one() + two();
}
"""
CLIENT = """\
// client.c, chapter 03: made up

#include <stdio.h>

int main(void) {
    puts("hello");
}
"""
TITLE = "| file | kind | name | change | what for |\n| --- | --- | --- | --- | --- |\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Chapters 03, 04, 05 with the same pair, and one header."""
    (tmp_path / "common").mkdir()
    write(tmp_path, "common/base.h", header("base.h", "03", "one_of_base"))
    for name, earlier in (("03", None), ("04", "03"), ("05", "04")):
        write(tmp_path, f"chapters/{name}/server.c", SERVER.replace("chapter 03", f"chapter {name}"))
        write(tmp_path, f"chapters/{name}/client.c", CLIENT.replace("chapter 03", f"chapter {name}"))
        if earlier:
            readme(tmp_path, name, "")
    return tmp_path


def header(name: str, chapter: str, function: str, include: str = "") -> str:
    return (
        f"// {name}: built in chapter {chapter}\n//\n// What all the programs here need.\n#pragma once\n\n"
        + (f'#include "{include}"\n\n' if include else "")
        + f"// Returns nothing.\nstatic inline void {function}(void) {{\n}}\n"
    )


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def readme(root: Path, name: str, rows: str) -> None:
    text = f"# Chapter {name}\n\n## What changed since chapter {int(name) - 1:02}\n\n{TITLE}{rows}"
    write(root, f"chapters/{name}/README.md", text)


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert text.count(old) == 1, f"{old!r} in {path}"
    write(root, path, text.replace(old, new))


# ---- csource: what a file consists of ----


def items(text: str) -> List[str]:
    return [f"{i.kind} {i.name}".strip() for i in csource.parse(text).items]


def test_items_of_a_stage() -> None:
    assert items(SERVER) == [
        "file", "include stdio.h", "include string.h", "include base.h", "constant k_max_msg",
        "constant k_other", "type conn", "variable g_data", "table k_primes", "banner requests",
        "function one", "function two", "banner main", "function main",
    ]


KINDS = {
    "#define A 1\n#define F(x) \\\n    (x)\n#pragma once\n": "constant A, constant F, directive #pragma once",
    "enum { A, B = 1 << 3, C };\n": "constant A, constant B, constant C",
    "enum {\n    // of A\n    A = 1 +\n        2,\n    // group\n\n    B,\n};\n": (
        "constant A, comment group, constant B"
    ),
    "enum state { ON, OFF };\n": "type state",
    "typedef void (*fn)(int);\ntypedef int g(int);\ntypedef struct {\n    int x;\n} pt;\n": "type fn, type g, type pt",
    "struct conn;\nint later(struct conn *c);\nextern int x;\n": "declaration conn, declaration later, declaration x",
    'static int (*hook)(int);\nchar buf[4];\nchar *who = "a;{";\n': "variable hook, variable buf, variable who",
    "static const unsigned k_none = 5;\n": "constant k_none",
    "static const struct {\n    int (*f)(int);\n} k_tab[] = {\n    {1},\n};\n": "table k_tab",
    "static const char *const k_names[] = {\n    0,\n};\nstatic const int buf[4];\n": "table k_names, variable buf",
    '_Static_assert(sizeof(int) == 4, "int, small");\n': "assert sizeof(int) == 4",
    "__attribute__((format(printf, 1, 2)))\nvoid f(char *f, ...) {\nout:\n    return;\n}\n": "function f",
    "int cmp(int a,\n        int b) {\n    return a == '\"' || b == '{';\n}\n": "function cmp",
    "int x;\n\n// clang-format off\nint t[] = {\n    1,\n};\n// clang-format on\n": "variable x, table t",
    "int x;\n\n// ---- timers: due ----\n// More.\n\n// note\n\nint y;\n": (
        "variable x, banner timers, comment note, variable y"
    ),
}


@pytest.mark.parametrize("text", KINDS)
def test_kinds(text: str) -> None:
    assert ", ".join(items(text)) == KINDS[text]


@pytest.mark.parametrize(
    "text, line, why",
    [
        ("int f(void) {\n    if (1) {\n}\n\nint g(void) {\n}\n", 5, "inside the item that begins in line 1"),
        ("int f(void) {\n    return 1;\n", 1, "never ends"),
        ("    int x;\n", 1, "starts in column 0"),
        ("int x;\n\n    // note\n", 3, "belongs in column 0"),
        ("FOO(x);\n", 1, "neither function"),
        ("int a, b;\n", 1, "one variable"),
        ("int x;\n}\n", 2, "closes nothing"),
        ("int x;\n\n/* open\n", 3, "never closed"),
        ("char *s = \"open;\n", 1, "never closed"),
        ("int x;\n\n// ---- banner ----\nint y;\n", 3, "blank line below"),
        ("int f(void) {\n    return 1;\n}\nint f(void) {\n    return 1;\n}\n", 4, "stands in line 1 already"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, line: int, why: str) -> None:
    with pytest.raises(csource.Unreadable, match=rf"^x\.c:{line}: .*{re.escape(why)}"):
        csource.parse(text, "x.c")


def test_text_and_lines_of_an_item() -> None:
    source = csource.parse(SERVER)
    one = source.find("one")
    assert one.text == "// Says one.\nstatic int one(void) {\n    return 1;\n}\n"
    assert one.comment == "// Says one.\n"
    assert source.text.splitlines(True)[one.first - 1 : one.last] == one.text.splitlines(True)
    assert source.find("k_other").text == "    k_other = 7 // why\n"
    with pytest.raises(KeyError):
        source.find("three")


def test_a_prototype_gives_way_to_its_function() -> None:
    source = csource.parse("static int f(void);\n\nstatic int f(void) {\n    return 1;\n}\n")
    assert source.find("f").kind == "function"
    assert source.find("f", "declaration").text == "static int f(void);\n"


def test_what_belongs_to_an_item() -> None:
    off, on = "// clang-format off\n", "// clang-format on\n"
    assert csource.parse(f"int x;\n\n{off}int t[] = {{1}};\n{on}").find("t").text.endswith(on)
    assert csource.parse("enum { A, B = 4 };\n").find("A").text == "A"


def test_lines_of_code() -> None:
    text = "// a\n\nint x; // b\n/* c\n\n*/\nstatic void t_check(void) {\n    // d\n    x++;\n}\n"
    assert csource.parse(text).code_lines() == 4
    assert csource.parse(text).code_lines(checks=False) == 1
    assert csource.parse(text).code_lines(braces=False) == 3
    text = "int t[] = {\n    1,\n};\nvoid f(void)\n{\n    do {\n    } while (t[0]);\n}  // end\n"
    assert (csource.parse(text).code_lines(), csource.parse(text).code_lines(braces=False)) == (8, 5)


def test_every_character_of_a_stage_has_a_place() -> None:
    source = csource.parse(SERVER)
    nobodys = set(range(1, len(SERVER.splitlines()) + 1))
    for item in source.items:
        nobodys -= set(range(item.first, item.last + 1))
    left = {SERVER.splitlines()[n - 1] for n in nobodys}
    assert left == {"", "enum {", "};"}


# ---- stages: what changed and what the README says ----


def found(root: Path, name: str = "04") -> str:
    return "\n\n".join(stages.problems(root, name))


def test_stages_that_keep_the_rules(root: Path) -> None:
    assert found(root, "03") == found(root, "04") == found(root, "05") == ""
    assert stages.table(root, "04").startswith("Nothing:")


EDITS = [
    ("static int two", "static int three(void) {\n    return 3;\n}\n\nstatic int two", "function | `three` | new"),
    ("    return 1;", "    return 2 - 1;", "function | `one` | changed"),
    ("// Says one.", "// Says 1.", "function | `one` | changed"),
    ("// Says one.\nstatic int one(void) {\n    return 1;\n}\n\n", "", "function | `one` | gone"),
    ("    k_other = 7, // why", "    k_other = 7, // why\n    k_new = 1,", "constant | `k_new` | new"),
    ("    k_max_msg = 4096,", "    k_max_msg = 32,", "constant | `k_max_msg` | changed"),
    ("    k_max_msg = 4096,\n", "", "constant | `k_max_msg` | gone"),
    ("    int n;", "    int n;\n    int more;", "variable | `g_data` | changed"),
    ("    int fd;", "    long fd;", "type | `conn` | changed"),
    ("    3,\n", "    3,\n    5,\n", "table | `k_primes` | changed"),
    ("#include <string.h>\n", "", "include | `string.h` | gone"),
]


@pytest.mark.parametrize("old, new, row", EDITS)
def test_a_change_must_be_declared(root: Path, old: str, new: str, row: str) -> None:
    for name in ("04", "05"):
        edit(root, f"chapters/{name}/server.c", old, new)
    assert f"| server.c | {row} | ... |" in found(root)
    sources = [stages.pair(root, n, "server.c") for n in ("03", "04")]
    assert len(stages.must_be_declared(stages.changes(*sources))) == 1
    readme(root, "04", f"| server.c | {row} | because |\n")
    assert found(root) == ""
    assert stages.table(root, "04") == TITLE + f"| server.c | {row} | because |"
    readme(root, "05", f"| server.c | {row} | because |\n")
    assert "chapters/05/README.md:7: the table says that" in found(root, "05")


def test_messages_name_both_sides(root: Path) -> None:
    edit(root, "chapters/04/server.c", "    return 1;", "    return  1;")
    said = found(root)
    assert said.startswith("chapters/04/server.c:32: function `one` has changed since chapter 03, and ")
    assert "and chapters/04/README.md does not say so" in said
    assert "make it what chapters/03/server.c has. Only blanks" in said
    assert "      -     return 1;\n      +     return  1;" in said
    readme(root, "04", "| server.c | function | `one` | new | x |\n")
    assert "chapters/04/README.md:7 says `new`" in found(root)


@pytest.mark.parametrize(
    "old, new",
    [
        ("// Adds one and two.", "// Something else."),
        ("#include <string.h>", "#include <stdlib.h>\n#include <string.h>"),
        ("// A connection.", "struct conn;\n\n// A connection."),
    ],
)
def test_what_is_free(root: Path, old: str, new: str) -> None:
    edit(root, "chapters/04/server.c", old, new)
    assert found(root) == ""


STDIO, STRING = "#include <stdio.h>\n", "#include <string.h>\n"
FIRST, SECOND = "    k_max_msg = 4096,\n", "    k_other = 7, // why\n"


@pytest.mark.parametrize(
    "old, new, why",
    [
        (STDIO + STRING, STRING + STDIO, "has moved"),
        (FIRST + SECOND, SECOND + FIRST, "has moved"),
        ("}\n\nstatic int two", "}\nstatic int two", "the lines between `one` and `two`"),
        ("all of them ----", "some of them ----", "the banner `requests` is new or reworded"),
        ("// A connection.", "// A note.\n\n// A connection.", "the comment `A note.` is new or reworded"),
        ("// ---- main ----\n\n", "", "the banner `main` is gone or reworded"),
    ],
)
def test_what_must_stay(root: Path, old: str, new: str, why: str) -> None:
    edit(root, "chapters/04/server.c", old, new)
    assert why in found(root)


def test_a_prototype_goes_with_its_function(root: Path) -> None:
    edit(root, "chapters/03/server.c", "// Says one.", "static int two(void);\n\n// Says one.")
    edit(root, "chapters/04/server.c", "// Says one.", "static int two(int n);\n\n// Says one.")
    assert "| server.c | declaration | `two` | changed | ... |" in found(root)
    edit(root, "chapters/04/server.c", "int two(void) {", "int two(int n) {")
    readme(root, "04", "| server.c | function | `two` | changed | x |\n")
    assert found(root) == ""


def test_a_banner_may_change_with_its_section(root: Path) -> None:
    edit(root, "chapters/04/server.c", "all of them ----", "some of them ----")
    edit(root, "chapters/04/server.c", "    return 1;", "    return 2;")
    readme(root, "04", "| server.c | function | `one` | changed | x |\n")
    assert found(root) == ""


def test_the_table_keeps_what_is_still_true(root: Path) -> None:
    edit(root, "chapters/04/server.c", "    k_other = 7,", "    k_a = 1,\n    k_b = 2,\n    k_other = 8,")
    edit(root, "chapters/04/client.c", "hello", "world")
    shared = "| server.c | constant | `k_b`, `k_old`, `k_a` | new | a \\| b |\n"
    readme(root, "04", shared + "| client.c | type | `t` | gone | x |\n")
    assert stages.table(root, "04") == (
        TITLE
        + "| server.c | constant | `k_b`, `k_a` | new | a \\| b |\n"
        + "| server.c | constant | `k_other` | changed | |\n"
        + "| client.c | function | `main` | changed | |"
    )


@pytest.mark.parametrize(
    "row, why",
    [
        ("| lab.c | function | `f` | new | x |", "`lab.c` must be one of server.c, client.c"),
        ("| server.c | functions | `f` | new | x |", "`functions` must be one of"),
        ("| server.c | function | `f` | added | x |", "`added` must be one of new, changed, gone"),
        ("| server.c | function | f | new | x |", "the name must be in backticks"),
        ("| server.c | function | `f` | new | x | y |", "a row has 5 cells, this one 6"),
    ],
)
def test_rows_that_cannot_be_understood(row: str, why: str) -> None:
    with pytest.raises(layout.Problem, match=re.escape(f"R:3: {why}")):
        stages.rows(TITLE + row, "R")


def test_a_row_must_say_what_for(root: Path) -> None:
    edit(root, "chapters/04/server.c", "    return 1;", "    return 2;")
    readme(root, "04", "| server.c | function | `one` | changed | |\n")
    assert "`what for` is empty" in found(root)


def test_a_readme_must_have_the_heading(root: Path) -> None:
    edit(root, "chapters/04/README.md", "since chapter 03", "since chapter 02")
    assert 'no heading "What changed since chapter 03"' in found(root)


def test_long_functions() -> None:
    def of(lines: int, head: str = "    {") -> List[str]:
        body = "        x();\n" * (lines - 4)
        return stages.long_functions(csource.parse(f"void f(void) {{\n{head}\n{body}    }}\n}}\n"))

    assert of(60) == []
    assert "`f` has 61 lines, the limit is 60" in of(61)[0]
    assert of(200, "    switch (x) {") == []
    assert of(200, "    int t[] = {") == []


def test_what_a_stage_adds_has_a_limit(root: Path) -> None:
    lines = stages.whole_size(root, "05")
    assert list(lines) == ["chapters/05/server.c", "common/base.h"]
    assert stages.size_problems(root) == []
    long = "static inline void base_check(void) {\n" + "    f();\n" * stages.MAX_GROWTH + "}\n"
    write(root, "common/base.h", header("base.h", "03", "one_of_base") + "\n// For tests.\n" + long)
    assert stages.whole_size(root, "05") == lines
    edit(root, "common/base.h", "one_of_base(void) {\n}", "(void) {\n" + "    {\n    }\n" * stages.MAX_GROWTH + "}")
    assert stages.size_problems(root) == [], "braces alone are not substance"
    edit(root, "common/base.h", "    {\n    }\n" * stages.MAX_GROWTH, "    f();\n" * stages.MAX_GROWTH)
    assert stages.size_problems(root) == [], "the first chapter adds to nothing, the others have it too"
    edit(
        root, "chapters/05/server.c", "int main(",
        "void long(void) {\n" + "    f();\n" * stages.MAX_GROWTH + "}\n\nint main(",
    )  # fmt: skip
    assert f"the limit is {stages.MAX_GROWTH}" in stages.size_problems(root)[0]


def test_the_road_says_how_long_each_server_is(root: Path) -> None:
    rows = [f"| [{n}](chapters/{n}) | idea | server | 26 |\n" for n in ("03", "04", "05")]
    head = "# Title\n\n| a | b |\n| --- | --- |\n| [03](x) | 1 |\n\n"
    head += "| chapter | idea | can | lines of server.c |\n| --- | --- | --- | --- |\n"
    write(root, "README.md", head + "".join(rows) + "\n| [04](x) | 1 |\n")
    assert stages.road_problems(root) == []
    edit(root, "chapters/04/server.c", "    return 1;", "    int x = 1;\n    return x;")
    (wrong,) = stages.road_problems(root)
    assert wrong == "README.md:10: the server.c of chapter 04 has 27 lines of code: " \
        "write 27 for 26, or make book-update"
    assert stages.write_road(root) == ["README.md:10: 27 lines of code in chapter 04"]
    assert stages.road_problems(root) == [] and stages.write_road(root) == []
    written = (root / "README.md").read_text(encoding="utf-8")
    assert written == head + rows[0] + rows[1].replace("26", "27") + rows[2] + "\n| [04](x) | 1 |\n"
    write(root, "README.md", head + rows[0])
    assert [p.partition(" has ")[2][:21] for p in stages.road_problems(root)] == [
        "no row for chapter 04", "no row for chapter 05",
    ]  # fmt: skip
    write(root, "README.md", "# Title\n")
    assert "has no table" in stages.road_problems(root)[0]


# ---- stagediff ----


def apply(old: str, diff: List[str]) -> str:
    """What `patch` does."""
    lines, out, at = old.splitlines(), [], 0
    for line in diff[2:]:
        hunk = re.match(r"@@ -(\d+)(?:,(\d+))? ", line)
        if hunk:
            start = int(hunk.group(1)) - (hunk.group(2) != "0")
            out += lines[at:start]
            at = start
        elif line[0] in " -":
            assert lines[at] == line[1:]
            at += 1
        if line[0] in " +":
            out.append(line[1:])
    return "\n".join(out + lines[at:]) + "\n"


def test_a_diff_leads_from_one_to_the_other() -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)

    def source() -> csource.Source:
        picked = sorted(rng.sample(range(12), rng.randrange(1, 10)))
        parts = ["// x.c\n"]
        for n in picked:
            body = "".join(f"    x += {rng.randrange(3)};\n" for _ in range(rng.randrange(5)))
            if n % 3 == 0:
                parts.append(f"enum {{\n    k_a{n},\n    k_b{n} = {rng.randrange(2)},\n}};\n")
            else:
                parts.append(f"// f{n}\nstatic void f{n}(void) {{\n{body}}}\n")
        return csource.parse("\n".join(parts))

    for _ in range(300):
        old, new = source(), source()
        diff = stagediff.unified(old, new, context=rng.randrange(4))
        assert (apply(old.text, diff) if diff else old.text) == new.text


def test_a_diff_never_mixes_functions() -> None:
    old = csource.parse("void a(void) {\n    x();\n    y();\n}\n")
    new = csource.parse("void b(void) {\n    x();\n    z();\n}\n\nvoid a(void) {\n    x();\n    y();\n}\n")
    assert [line for line in stagediff.unified(old, new) if line[0] == "-"] == ["--- source"]


def test_a_diff_keeps_an_enum_together() -> None:
    old = csource.parse("enum {\n    k_a = 1,\n};\n\nint x;\n")
    new = csource.parse("enum {\n    k_b = 1,\n};\n\nvoid f(void) {\n}\n\nint x;\n")
    assert stagediff.unified(old, new, context=0)[2:] == [
        "@@ -2 +2 @@ k_a = 1,", "-    k_a = 1,", "+    k_b = 1,",
        "@@ -3,0 +4,3 @@", "+", "+void f(void) {", "+}",
    ]


def report(root: Path, capsys: pytest.CaptureFixture, *args: str) -> str:
    assert stagediff.main(list(args), root) == 0
    return capsys.readouterr().out


def test_diff_shows_table_headers_and_both_programs(root: Path, capsys: pytest.CaptureFixture) -> None:
    write(root, "common/io.h", header("io.h", "04", "io"))
    edit(root, "chapters/04/server.c", "    return 1;", "    return 2;")
    edit(root, "chapters/04/client.c", "hello", "world")
    readme(root, "04", "| server.c | function | `one` | changed | says two |\n")
    said = report(root, capsys, "4")
    order = [
        "  changed  function  one  says two",
        "join common/: io.h",
        "--- chapters/03/server.c",
        "@@ static int one(void) {",
        "-    return 1;\n+    return 2;",
        "+++ chapters/04/client.c",
        "--- /dev/null\n+++ common/io.h",
    ]
    assert sorted(order, key=said.index) == order
    assert "\033" not in said
    assert "\033[32m+    return 2;" in report(root, capsys, "04", "--color", "always")
    assert "join common/: io.h" in report(root, capsys, "03", "05")
    assert "join common/: none" in report(root, capsys, "05")
    assert "from nothing" in report(root, capsys, "03")


@pytest.mark.parametrize(
    "args, why",
    [
        (["15"], "there is no chapter 15: chapters go from 03 to 05"),
        (["x"], "there is no chapter x"),
        (["05", "04"], "the earlier one first"),
    ],
)
def test_diff_of_what_is_not_there(root: Path, capsys: pytest.CaptureFixture, args: List[str], why: str) -> None:
    with pytest.raises(SystemExit) as left:
        stagediff.main(args, root)
    said = capsys.readouterr()
    assert (left.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert why in said.err


def test_commands_run_by_themselves() -> None:
    command = [sys.executable, str(TOOLS / "stagediff.py"), "99"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("there is no chapter 99: ")


# ---- forward ----


@pytest.fixture
def repo(root: Path) -> Path:
    git(root, "init", "-q")
    commit(root)
    return root


def git(root: Path, *args: str) -> str:
    needs("git")
    me = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(root), *me, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")


def has(root: Path, name: str, text: str, file: str = "server.c") -> bool:
    return text in (root / "chapters" / name / file).read_text()


def test_forward_carries_a_change_to_the_end(repo: Path, capsys: pytest.CaptureFixture) -> None:
    edit(repo, "chapters/05/server.c", "    return k_primes[0];", "    return k_primes[1];")
    commit(repo)
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    edit(repo, "chapters/03/client.c", "hello", "world")
    assert forward.main(["3"], repo) == 0
    assert has(repo, "04", "return 11;") and has(repo, "05", "return 11;") and has(repo, "05", "k_primes[1]")
    assert has(repo, "05", "world", "client.c")
    assert has(repo, "05", "chapter 05: made up")
    assert "Carried to chapter 05." in capsys.readouterr().out
    before = git(repo, "diff")
    assert forward.main(["3"], repo) == 0  # once more does no harm
    assert git(repo, "diff") == before
    assert "chapters/04/server.c: has it already" in capsys.readouterr().out


def test_forward_without_a_change(repo: Path, capsys: pytest.CaptureFixture) -> None:
    assert forward.main(["03"], repo) == 0
    said = "Chapter 03 is as it is in HEAD: nothing to carry to chapter 04 or later ones.\n"
    assert capsys.readouterr().out == said
    edit(repo, "chapters/05/server.c", "    return 1;", "    return 11;")
    assert forward.main(["05"], repo) == 0
    assert "the last one" in capsys.readouterr().out


def test_forward_from_an_older_commit(repo: Path) -> None:
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    commit(repo)
    assert forward.main(["03"], repo) == 0
    assert not has(repo, "04", "return 11;")
    assert forward.main(["03", "--base", "HEAD~1"], repo) == 0
    assert has(repo, "05", "return 11;")


def test_forward_stops_at_a_conflict_and_goes_on(repo: Path, capsys: pytest.CaptureFixture) -> None:
    edit(repo, "chapters/04/server.c", "    return 1;", "    return 4;")
    edit(repo, "chapters/05/server.c", "    return 1;", "    return 4;")
    commit(repo)
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    edit(repo, "chapters/03/client.c", "hello", "world")

    assert forward.main(["03", "--dry-run"], repo) == 1
    assert not has(repo, "04", "<<<<<<<") and "Nothing was written" in capsys.readouterr().out

    assert forward.main(["03"], repo) == 1
    said = capsys.readouterr().out
    assert "chapters/04/server.c:33: conflict\n" in said and "make forward-03 FROM=04\n" in said
    assert has(repo, "04", "    return 4;\n||||||| chapters/03/server.c in HEAD\n    return 1;\n=======\n")
    assert has(repo, "04", "world", "client.c") and has(repo, "05", "hello", "client.c")

    for args in (["03"], ["03", "--from", "04"]):  # not resolved yet
        with pytest.raises(SystemExit):
            forward.main(args, repo)
        assert "chapters/04/server.c:33: a conflict is left here" in capsys.readouterr().err

    path = repo / "chapters/04/server.c"
    path.write_text(re.sub(r"<{7}.*>{7}[^\n]*", "    return 44;", path.read_text(), flags=re.S))
    assert forward.main(["03", "--from", "04"], repo) == 0
    assert has(repo, "05", "return 44;") and has(repo, "05", "world", "client.c")


def test_forward_dry_run_writes_nothing(repo: Path, capsys: pytest.CaptureFixture) -> None:
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    before = git(repo, "diff")
    assert forward.main(["03", "--dry-run"], repo) == 0
    assert git(repo, "diff") == before
    said = capsys.readouterr().out
    assert "chapters/05/server.c: takes the change" in said and "Nothing was written" in said


def test_forward_ends_where_nobody_needs_it(repo: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("04", "05"):
        edit(repo, f"chapters/{name}/server.c", "    return 1;", "    return 11;")
    commit(repo)
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    assert forward.main(["03"], repo) == 0
    assert "Chapter 04 is as it is in HEAD: nothing to carry to chapter 05." in capsys.readouterr().out


@pytest.mark.parametrize(
    "args, why",
    [
        (["07"], "there is no chapter 07"),
        (["03", "--base", "nonsense"], "git knows no commit nonsense"),
        (["04", "--from", "03"], "FROM names the chapter where it stopped"),
    ],
)
def test_forward_mistakes(repo: Path, capsys: pytest.CaptureFixture, args: List[str], why: str) -> None:
    with pytest.raises(SystemExit) as left:
        forward.main(args, repo)
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_forward_of_a_chapter_that_was_never_committed(repo: Path, capsys: pytest.CaptureFixture) -> None:
    git(repo, "rm", "-q", "--cached", "chapters/03/client.c")
    git(repo, "commit", "-q", "-m", "x")
    with pytest.raises(SystemExit):
        forward.main(["03"], repo)
    assert "chapters/03/client.c is not in HEAD: commit it first" in capsys.readouterr().err


def test_forward_from_make(repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    edit(repo, "chapters/04/server.c", "    return 1;", "    return 11;")
    monkeypatch.setenv("FROM", "04")
    monkeypatch.setenv("DRY", "1")
    assert forward.main(["03"], repo) == 0
    assert not has(repo, "05", "return 11;")
    assert "chapters/05/server.c: takes the change" in capsys.readouterr().out


# ---- headers ----


ROWS = "| header | built in | holds | used by |\n| --- | --- | --- | --- |\n"


def test_headers_that_keep_the_rules(root: Path) -> None:
    write(root, "common/README.md", ROWS + "| [base.h](base.h) | 03 | things | 03 on |\n")
    assert headers.problems(root) == []
    assert headers.table(root) == (root / "common/README.md").read_text().rstrip()


@pytest.mark.parametrize(
    "row, why",
    [
        ("", "no row for base.h"),
        ("| base.h | 04 | things | 03 on |", "the table says `04`, the sources say `03`"),
        ("| base.h | 03 | things | 03, 04 |", "the table says `03, 04`, the sources say `03 on`"),
        ("| base.h | 03 | | 03 on |", "`holds` is empty"),
        ("| base.h | 03 | x | 03 on |\n| old.h | 03 | x | 03 |", "there is no old.h"),
    ],
)
def test_the_table_of_headers(root: Path, row: str, why: str) -> None:
    write(root, "common/README.md", ROWS + row + "\n")
    said = headers.table_problems(root)
    assert len(said) == 1 and why in said[0]


def test_includes(root: Path) -> None:
    write(root, "common/io.h", header("io.h", "04", "io"))
    write(root, "common/net.h", header("net.h", "03", "net", include="io.h"))
    edit(root, "chapters/03/server.c", '"base.h"', '"base.h"\n#include "io.h"\n#include "gone.h"')
    assert headers.include_problems(root) == [
        "common/net.h: includes io.h, which chapter 04 builds; here is chapter 03",
        "chapters/03/server.c: includes io.h, which chapter 04 builds; here is chapter 03",
        "chapters/03/server.c: includes gone.h, which is not in common/",
        "common/io.h: built in chapter 04, but no program of that chapter uses it (used by 03)",
        "common/net.h: built in chapter 03, but no program of that chapter uses it (used by nobody)",
    ]


def test_uses_have_an_open_end(root: Path) -> None:
    cases = {"03 on": "03 04 05", "03, 05 on": "03 05", "04 on": "04 05", "05 on": "05", "03, 04": "03 04", "": ""}
    assert {headers.uses(names.split(), root): names for names in cases.values()} == cases


def test_uses_go_through_headers(root: Path) -> None:
    write(root, "common/io.h", header("io.h", "03", "io"))
    edit(root, "common/base.h", "#pragma once\n", '#pragma once\n\n#include "io.h"\n')
    assert headers.users(root) == {"base.h": ["03", "04", "05"], "io.h": ["03", "04", "05"]}


@pytest.mark.parametrize("first", ["// other.h: built in chapter 03", "// base.h", "#pragma once"])
def test_the_first_line_of_a_header(root: Path, first: str) -> None:
    edit(root, "common/base.h", "// base.h: built in chapter 03", first)
    with pytest.raises(layout.Problem, match="the first line must be"):
        headers.built_in(root / "common/base.h")


def test_comments_of_a_header(root: Path) -> None:
    path = root / "common/base.h"
    assert headers.comment_problems(path) == []
    edit(root, "common/base.h", "//\n// What all the programs here need.\n", "")
    edit(root, "common/base.h", "// Returns nothing.\n", "")
    assert [p.partition(": ")[2] for p in headers.comment_problems(path)] == [
        "the comment must go on to say what the header is",
        "`one_of_base` has no comment above it",
    ]


@pytest.mark.parametrize(
    "line, state",
    [
        ("static int n;", True),
        ("static int t[] = {1};", True),
        ("static const char *p = 0;", True),
        ("extern int n;", True),
        ("static const int t[] = {1};", False),
        ("static const char *const p = 0;", False),
        ("static inline int g(void) {\n    static int n;\n    return n;\n}", True),
        ("static inline int g(void) {\n    static const int n = 1;\n    return n;\n}", False),
    ],
)
def test_state_of_a_header(root: Path, line: str, state: bool) -> None:
    path = root / "common/base.h"
    path.write_text(path.read_text() + f"\n{line}\n")
    assert bool(headers.state_problems(path)) == state


def test_copies(root: Path) -> None:
    assert headers.copy_problems(root) == []
    write(root, "common/io.h", header("io.h", "04", "one"))
    write(root, "chapters/04/own.h", "")
    said = headers.copy_problems(root)
    assert "chapters/04/own.h: headers live in common/" in said
    # chapter 03 wrote it out before there was a header
    assert [p.partition(":")[0] for p in said[1:]] == ["chapters/04/server.c", "chapters/05/server.c"]


def test_spans() -> None:
    assert layout.span(["04", "06", "07", "08", "10", "11"]) == "04, 06 to 08, 10, 11"
    assert layout.span([]) == ""


# ---- parts of a file ----


def test_parts_of_a_file() -> None:
    """Together they are the whole, each test in one of them."""
    items = list("abcdefgh")
    left_out: List[str] = []

    class Config:
        hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))

    mine = []
    for number in range(3):
        part = list(items)
        runtests.Tally("", f"{number}/3").pytest_collection_modifyitems(Config(), part)
        mine += part
    assert sorted(mine) == items and sorted(left_out) == sorted(items * 2)


# ---- the second try ----


def test_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(passed: int, *failures: str) -> runtests.Outcome:
        return runtests.Outcome("07", runtests.Counts(passed, len(failures)), 1.0, "", failures)

    def run(name: str, env: object, options: object, shown: bool, only: Sequence[str]) -> runtests.Outcome:
        return result(len(only) - 1, "f::always")

    monkeypatch.setattr(runtests, "run", run)
    (both,) = runtests.once_more([result(8, "f::always", "f::once")], {}, [])
    assert both.counts == (9, 1, 0) and both.failures == ("f::always",)
    for hopeless in [result(0, "pytest ended with status 3"), result(8, *(f"f::{n}" for n in range(6)))]:
        assert runtests.once_more([hopeless], {}, []) == [hopeless]
