"""The tools in tests/tools/ on small made-up stages: each rule is seen to hold and to fail."""
from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

from harness.settings import needs

TOOLS = Path(__file__).parents[1] / "tools"
import forward
import headers
import layout
import stagediff
import sources
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


# ---- sources: what a file consists of ----


def items(text: str) -> List[str]:
    return [f"{i.kind} {i.name}".strip() for i in sources.parse(text).items]


def test_units_of_a_stage() -> None:
    assert items(SERVER) == [
        "file", "include stdio.h", "include string.h", "include base.h", "constant k_max_msg",
        "constant k_other", "type conn", "variable g_data", "table k_primes", "banner requests",
        "function one", "function two", "banner main", "function main",
    ]
    found = sources.units(SERVER)
    assert [unit.label for unit in found] == [
        "top", "includes", "k_max_msg", "conn", "g_data", "k_primes", "banner:requests", "one", "two", "banner:main",
        "main",
    ]
    assert sources.join(found) == SERVER
    assert [found[sources.find(found, name)].label for name in ("k_other", "constant:k_other", "struct:conn")] == [
        "k_max_msg", "k_max_msg", "conn"
    ]


KINDS = {
    "#define A 1\n#define F(x) \\\n    (x)\n#pragma once\n": "constant A, constant F, directive #pragma once",
    "enum { A, B = 1 << 3, C };\n": "constant A, constant B, constant C",
    "// all\nenum {\n    // of A\n    A = 1 +\n        2,\n    // group\n\n    B,\n};\n": (
        "comment all, constant A, comment group, constant B"
    ),
    "enum state { ON, OFF };\n": "type state",
    "typedef void (*fn)(int);\ntypedef int g(int);\ntypedef struct {\n    int x;\n} pt;\n": "type fn, type g, type pt",
    "struct conn;\nint later(struct conn *c);\nextern int x;\n": "declaration conn, declaration later, declaration x",
    "// conn.c\nint one(void);\n\n// it.c, chapter 03: no top\n": "comment conn.c, declaration one, comment it.c, "
    "chapter 03: no top",
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
    with pytest.raises(sources.Unreadable, match=rf"^x\.c:{line}: .*{re.escape(why)}"):
        sources.parse(text, "x.c")


def item(text: str, name: str) -> sources.Unit:
    (found,) = (item for item in sources.parse(text).items if item.name == name)
    return found


def test_text_and_lines_of_an_item() -> None:
    one = item(SERVER, "one")
    assert one.text == "// Says one.\nstatic int one(void) {\n    return 1;\n}\n"
    assert one.comment == "// Says one.\n"
    assert SERVER.splitlines(True)[one.first - 1 : one.last] == one.text.splitlines(True)
    assert item(SERVER, "k_other").text == "    k_other = 7 // why\n"
    assert item("enum { A, B = 4 };\n", "A").text == "A"
    off, on = "// clang-format off\n", "// clang-format on\n"
    assert item(f"int x;\n\n{off}int t[] = {{1}};\n{on}", "t").text.endswith(on)


def test_a_unit_is_found_by_name() -> None:
    found = sources.units("// later\nstatic int f(void);\nint g(void);\n\nstruct f {\n};\n\n#define A 1\n#define B 2\n")
    assert [unit.label for unit in found] == ["declaration:f", "f", "A"]
    assert [sources.find(found, name) for name in ("B", "f", "g", "declaration:f")] == [2, 1, 0, 0]
    found += sources.units("static int f(void) {\n    return 1;\n}\n")
    with pytest.raises(sources.UnitError, match="f is more than one thing in x: write type:f or function:f"):
        sources.find(found, "f", "x")
    with pytest.raises(sources.UnitError, match="there is no three in x"):
        sources.find(found, "three", "x")
    with pytest.raises(sources.UnitError, match="one blank line between two items"):
        sources.units("int x;\n\n\nint y;\n")


def test_lines_of_code() -> None:
    text = "// a\n\nint x; // b\n/* c\n\n*/\nstatic void t_check(void) {\n    // d\n    x++;\n}\n"
    assert sources.parse(text).code_lines() == 4
    assert sources.parse(text).code_lines(checks=False) == 1
    assert sources.parse(text).code_lines(braces=False) == 3
    text = "int t[] = {\n    1,\n};\nvoid f(void)\n{\n    do {\n    } while (t[0]);\n}  // end\n"
    assert (sources.parse(text).code_lines(), sources.parse(text).code_lines(braces=False)) == (8, 5)


# ---- stages: what changed and what the README says ----


def found(root: Path, name: str = "04") -> str:
    """What `stages.py check` says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        stages.main(["check", name], root)
    return out.getvalue().replace("The stages keep all the rules.\n", "")


def table(root: Path, name: str) -> str:
    return "\n".join(map(str, stages.table(root, name)))


def test_stages_that_keep_the_rules(root: Path) -> None:
    assert found(root, "03") == found(root, "04") == found(root, "05") == ""
    assert stages.table_text(root, "04").startswith("Nothing:")


DECLARED = [
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


@pytest.mark.parametrize("old, new, row", DECLARED)
def test_a_change_must_be_declared(root: Path, old: str, new: str, row: str) -> None:
    for name in ("04", "05"):
        edit(root, f"chapters/{name}/server.c", old, new)
    assert f"| server.c | {row} | ... |" in found(root)
    assert table(root, "04") == f"| server.c | {row} | ... |"
    readme(root, "04", f"| server.c | {row} | because |\n")
    assert found(root) == ""
    assert table(root, "04") == f"| server.c | {row} | because |"
    readme(root, "05", f"| server.c | {row} | because |\n")
    assert "chapters/05/README.md:7: the table says that" in found(root, "05")


STDIO, STRING = "#include <stdio.h>\n", "#include <string.h>\n"
FIRST, SECOND = "    k_max_msg = 4096,\n", "    k_other = 7, // why\n"
ONE = "// ---- requests: all of them ----\n\n// Says one.\nstatic int one(void) {\n    return 1;\n"
BANNER = "-// ---- requests: all of them ----\n      +// ---- requests: some of them ----"
ROW = "| server.c | function | `one` | changed | x |"
LONG = "int main(void) {\n"

RULES = [  # an edit of the stage, the row of its table, what is said; "" where it may be so
    ("// Adds one and two.", "// Something else.", "", ""),
    (STRING, "#include <stdlib.h>\n" + STRING, "", ""),
    (SECOND, SECOND.replace(" //", "     //"), "", ""),
    ("// A connection.", "struct conn;\n\n// A connection.", "", ""),
    ("// A connection.", "static_assert(1, \"x\");\n\n// A connection.", "", ""),
    (ONE, ONE.replace("all", "some").replace("1;", "2;"), ROW, ""),
    (ONE, ONE.replace("all", "some"), "", BANNER),
    ("all of them ----", "some of them ----", "", "04/server.c:29: besides what the table names, a stage keeps"),
    ("// A connection.", "// A note.\n\n// A connection.", "", "+// A note."),
    ("// ---- main ----\n\n", "", "", "make it what chapters/03/server.c has (-).\n      -// ---- main ----"),
    (STDIO + STRING, STRING + STDIO, "", "+include `string.h`"),
    (FIRST + SECOND, SECOND + FIRST, "", "+constant `k_other`"),
    ("}\n\nstatic int two", "}\nstatic int two", "", "-(a blank line)"),
    ("}\n\nstatic int two", "}\n\n\nstatic int two", "", "04/server.c:36: one blank line between two items"),
    ("    return 1;", "    return  1;", "", "04/server.c:32: function `one` has changed since chapter 03, and"),
    ("    return 1;", "    return  1;", "", "make it what chapter 03 has. Only blanks and line ends differ:"),
    ("    return 1;", "    return 1; // why", "", "Only comments differ:"),
    ("    return 1;", "    return 2;", "", "What differs:\n      -     return 1;\n      +     return 2;"),
    ("    return 1;", "    return 2;", ROW.replace("changed", "new"), "04/README.md:7: the table says that function"),
    ("    return 1;", "    return 2;", ROW.replace(" x", ""), "README.md:7: the column `what for` is empty"),
    ("    return 1;", "    return 2;", ROW + " y |", "04/README.md:7: a row has 5 cells, this one 6"),
    ("    return 1;", "    return 2;", ROW.replace("`", ""), "04/README.md:7: the name must be in backticks: one"),
    ("    return 1;", "    return 2;", ROW.replace("server.c", "lab.c"), "of lab.c is changed, and that is not so"),
    ("    return 1;", "    return 2;", ROW.replace("`one`", "`two`, `one`"), "`two` of server.c is changed, and"),
    (LONG, LONG + "    x();\n" * 57, ROW.replace("one", "main"), ""),
    (LONG, LONG + "    x();\n" * 58, "", "`main` has 61 lines, the limit is 60"),
    ("    int fd;\n};", "    int fd;\n", "", "column 0 inside the item"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, row, why", RULES)
def test_rules(root: Path, old: str, new: str, row: str, why: str) -> None:
    edit(root, "chapters/04/server.c", old, new)
    readme(root, "04", f"{row}\n" if row else "")
    said = found(root)
    assert why in said and bool(said) == bool(why), said


def test_a_prototype_goes_with_its_function(root: Path) -> None:
    edit(root, "chapters/03/server.c", "// Says one.", "static int two(void);\n\n// Says one.")
    edit(root, "chapters/04/server.c", "// Says one.", "static int two(int n);\n\n// Says one.")
    assert "| server.c | declaration | `two` | changed | ... |" in found(root)
    edit(root, "chapters/04/server.c", "int two(void) {", "int two(int n) {")
    readme(root, "04", "| server.c | function | `two` | changed | x |\n")
    assert found(root) == ""


def test_the_table_keeps_what_is_still_true(root: Path) -> None:
    edit(root, "chapters/04/server.c", "    k_other = 7,", "    k_a = 1,\n    k_b = 2,\n    k_other = 8,")
    edit(root, "chapters/04/client.c", "hello", "world")
    shared = "| server.c | constant | `k_b`, `k_old`, `k_a` | new | a \\| b |\n"
    readme(root, "04", shared + "| client.c | type | `t` | gone | x |\n")
    assert stages.table_text(root, "04") == (
        TITLE
        + "| server.c | constant | `k_b`, `k_a` | new | a \\| b |\n"
        + "| server.c | constant | `k_other` | changed | ... |\n"
        + "| client.c | function | `main` | changed | ... |"
    )


def test_a_readme_must_have_the_heading(root: Path) -> None:
    edit(root, "chapters/04/README.md", "since chapter 03", "since chapter 02")
    assert 'no heading "What changed since chapter 03"' in found(root)


# ---- a stage of several files ----


def of_server(*names: str) -> str:
    units = sources.units(SERVER)
    return sources.join([units[sources.find(units, name)] for name in names])


HEAD = "#include <stdio.h>\n\n#include \"base.h\"\n#include \"server.h\"\n\n"
SPLIT = {
    "src/server.h": "// server.h, chapter 05: what the files share\n#pragma once\n\n// A connection.\nstruct conn {\n"
    "    int fd;\n};\n\n// numbers.c\nint one(void);\nint two(void);\n",
    "src/main.c": "// main.c, chapter 05: starts\n\n" + HEAD + of_server("g_data", "main"),
    "src/numbers.c": "// numbers.c, chapter 05: one and two\n\n" + HEAD
    + of_server("k_max_msg", "k_primes", "one", "two").replace("static int ", "int "),
}


@pytest.fixture
def split(root: Path) -> Path:
    """03 and 04 as before, 05 and 06 with a server of several files."""
    for name in ("05", "06"):
        for file, text in SPLIT.items():
            write(root, f"chapters/{name}/{file}", text.replace("chapter 05", f"chapter {name}"))
        write(root, f"chapters/{name}/client.c", CLIENT.replace("chapter 03", f"chapter {name}"))
        write(root, f"chapters/{name}/lab.c", CLIENT)
        readme(root, name, "")
    (root / "chapters/05/server.c").unlink()
    return root


def test_where_the_files_of_a_stage_are(split: Path) -> None:
    assert layout.chapters(split) == ["03", "04", "05", "06"]
    assert layout.server_of("04", split) == ["server.c"]
    assert layout.files_of("05", split) == ["src/server.h", "src/main.c", "src/numbers.c", "client.c", "lab.c"]
    assert list(stages.whole_size(split, "05")) == [f"chapters/05/{file}" for file in SPLIT] + ["common/base.h"]


MOVED = [  # edits of chapter 06 (or 05) with the row that they need
    ("05", {"src/numbers.c": ("return 1;", "return 2;")}, "src/numbers.c | function | `one` | changed"),
    ("06", {"src/numbers.c": ("return 1;", "return 2;")}, "src/numbers.c | function | `one` | changed"),
    ("05", {"src/main.c": ("    int n;\n", "    int n, m;\n")}, "src/main.c | variable | `g_data` | changed"),
    ("05", {"src/main.c": ("int main", "int new(void) {\n}\n\nint main")}, "src/main.c | function | `new` | new"),
    ("05", {"src/server.h": ("    int fd;", "    long fd;")}, "src/server.h | type | `conn` | changed"),
    ("06", {"src/server.h": ("int one(void)", "long one(void)"), "src/numbers.c": ("int one(void)", "long one(void)")},
     "src/numbers.c | function | `one` | changed"),
    ("06", {"src/numbers.c": ("\n// Says one.\nint one(void) {\n    return 1;\n}\n", ""),
            "src/main.c": ("int main", "// Says one.\nint one(void) {\n    return 1;\n}\n\nint main"),
            "src/server.h": ("int one(void);\nint two(void);", "int two(void);\n\n// main.c\nint one(void);")},
     "src/main.c | function | `one` | moved"),
]  # fmt: skip


@pytest.mark.parametrize("name, edits, row", MOVED)
def test_a_change_in_one_of_several_files(split: Path, name: str, edits: Dict[str, Tuple[str, str]], row: str) -> None:
    assert found(split, "05") == found(split, "06") == ""
    for file, (old, new) in edits.items():
        edit(split, f"chapters/{name}/{file}", old, new)
    assert table(split, name) == f"| {row} | ... |"
    readme(split, name, f"| {row} | because |\n")
    assert found(split, name) == ""


def test_state_that_has_moved_to_its_owner(split: Path) -> None:
    """`g_data.n` is `n` where the file has such a variable, and only there; comments may stand further left."""
    edit(split, "chapters/04/server.c", "return 1;", "return g_data.n;")
    edit(split, "chapters/04/server.c", "k_max_msg = 4096,", "k_max_msg = 4096,  // at most")
    edit(split, "chapters/05/src/numbers.c", "k_max_msg = 4096,", "k_max_msg = 4096, // at most")
    edit(split, "chapters/05/src/numbers.c", "return 1;", "return n;")
    assert table(split, "05") == "| src/numbers.c | function | `one` | changed | ... |"
    edit(split, "chapters/05/src/numbers.c", "// Says one.", "static int n;\n\n// Says one.")
    assert table(split, "05") == "| src/numbers.c | variable | `n` | new | ... |"


def test_the_order_in_each_file_stays(split: Path) -> None:
    edit(split, "chapters/06/src/server.h", "int one(void);\nint two(void);", "int two(void);\nint one(void);")
    assert "chapters/06/src/server.h:10: besides what the table names" in found(split, "06")


def test_diff_of_several_files(split: Path, capsys: pytest.CaptureFixture) -> None:
    edit(split, "chapters/05/src/numbers.c", "return 1;", "return 2;")
    said = report(split, capsys, "05")
    names = [line for line in said.splitlines() if line.startswith("+++")]
    assert names == [f"+++ chapters/05/{file}" for file in [*SPLIT, "client.c"]]
    assert "-    return 1;\n+int one(void) {\n+    return 2;" in said and "-static int two" not in said
    edit(split, "chapters/06/src/numbers.c", "return 1;", "return 3;")
    assert "--- chapters/05/src/numbers.c\n+++ chapters/06/src/numbers.c" in report(split, capsys, "06")


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


def test_tables_that_the_sources_decide(root: Path) -> None:
    rows = [f"| [{n}](chapters/{n}) | idea | server | 26 |\n" for n in ("03", "04", "05")]
    head = "# Title\n\n| a | b |\n| --- | --- |\n| [03](x) | 1 |\n\n"
    head += "| chapter | idea | can | lines of the server |\n| --- | --- | --- | --- |\n"
    write(root, "README.md", head + "".join(rows) + "\n| [04](x) | 1 |\n")
    base = "| [base.h](base.h) | 03 | things | 03 on |\n"
    write(root, "common/README.md", ROWS + base)
    assert stages.page_problems(root) == []
    edit(root, "chapters/04/server.c", "    return 1;", "    int x = 1;\n    return x;")
    write(root, "common/io.h", header("io.h", "04", "io"))
    edit(root, "chapters/04/server.c", '"base.h"', '"base.h"\n#include "io.h"')
    edit(root, "common/README.md", base, base.replace("03 on", "03") + base.replace("base", "gone"))
    assert [said.partition(":")[0] for said in stages.page_problems(root)] == ["README.md", "common/README.md"]
    stages.main(["update"], root)
    assert stages.page_problems(root) == []
    written = (root / "README.md").read_text(encoding="utf-8")
    assert written == head + rows[0] + rows[1].replace("26", "28") + rows[2] + "\n| [04](x) | 1 |\n"
    assert (root / "common/README.md").read_text() == ROWS + base + "| [io.h](io.h) | 04 | ... | 04 |\n"
    write(root, "README.md", head + rows[0])
    with pytest.raises(layout.Problem, match=r"has no row \[NN\]\(chapters/NN\) for 04, 05"):
        stages.road(root)


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
    return "".join(f"{line}\n" for line in out + lines[at:])


@pytest.mark.parametrize("context", [0, 3])
def test_a_diff_leads_from_one_to_the_other(context: int) -> None:
    known = layout.chapters()
    for pair in [*zip(known, known[1:]), (known[0], known[-1])]:
        for old, new in stagediff.side_by_side(*(stages.stage(layout.ROOT, name) for name in pair)):
            diff = stagediff.unified(old, new, context)
            assert (apply(old.text, diff) if diff else old.text) == new.text


def test_a_diff_never_mixes_functions() -> None:
    old = sources.parse("void a(void) {\n    x();\n    y();\n}\n")
    new = sources.parse("void b(void) {\n    x();\n    z();\n}\n\nvoid a(void) {\n    x();\n    y();\n}\n")
    assert [line for line in stagediff.unified(old, new) if line[0] == "-"] == ["--- source"]


def report(root: Path, capsys: pytest.CaptureFixture, *args: str) -> str:
    assert stagediff.main(list(args), root) == 0
    return capsys.readouterr().out


def test_diff_shows_table_headers_and_both_programs(
    root: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(layout, "has_colours", lambda: True)
    assert "\033[32m+    return 2;" in report(root, capsys, "04")
    assert "join common/: io.h" in report(root, capsys, "03", "05")
    assert "join common/: none" in report(root, capsys, "05")
    assert "from nothing" in report(root, capsys, "03")


@pytest.mark.parametrize(
    "args, why",
    [
        (["17"], "there is no chapter 17: chapters go from 03 to 05"),
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
    assert "Chapter 03 is as it is in HEAD: nothing to carry to chapter 04 or later" in capsys.readouterr().out
    edit(repo, "chapters/05/server.c", "    return 1;", "    return 11;")
    assert forward.main(["05"], repo) == 0
    assert "the last one" in capsys.readouterr().out


def test_forward_stops_at_a_conflict_and_goes_on(
    repo: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(repo, "chapters/04/server.c", "    return 1;", "    return 4;")
    edit(repo, "chapters/05/server.c", "    return 1;", "    return 4;")
    commit(repo)
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    edit(repo, "chapters/03/client.c", "hello", "world")
    assert forward.main(["03"], repo) == 1
    said = capsys.readouterr().out
    assert "chapters/04/server.c:33: conflict\n" in said and "make forward-03 FROM=04\n" in said
    assert has(repo, "04", "    return 4;\n||||||| chapters/03/server.c in HEAD\n    return 1;\n=======\n")
    assert has(repo, "04", "world", "client.c") and has(repo, "05", "hello", "client.c")

    for number in ("", "04"):  # not resolved yet
        monkeypatch.setenv("FROM", number)
        with pytest.raises(SystemExit):
            forward.main(["03"], repo)
        assert "chapters/04/server.c:33: a conflict is left here" in capsys.readouterr().err

    path = repo / "chapters/04/server.c"
    path.write_text(re.sub(r"<{7}.*>{7}[^\n]*", "    return 44;", path.read_text(), flags=re.S))
    assert forward.main(["03"], repo) == 0
    assert has(repo, "05", "return 44;") and has(repo, "05", "world", "client.c")


def test_forward_ends_where_nobody_needs_it(repo: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("04", "05"):
        edit(repo, f"chapters/{name}/server.c", "    return 1;", "    return 11;")
    commit(repo)
    edit(repo, "chapters/03/server.c", "    return 1;", "    return 11;")
    assert forward.main(["03"], repo) == 0
    assert "Chapter 04 is as it is in HEAD: nothing to carry to chapter 05." in capsys.readouterr().out


TO_SRC = [  # edits of chapter 04, what 05 has then in which file of src/, what is said
    ([("    return 1;", "    return 11;"), ("    int n;", "    int n, m;")],
     {"numbers.c": "\nint one(void) {\n    return 11;\n", "main.c": "static struct {\n    int n, m;\n"}, "Carried to"),
    ([("k_max_msg = 4096,", "k_max_msg = 32,"), ("    int fd;", "    long fd;")],
     {"numbers.c": "enum {\n    k_max_msg = 32,\n    k_other = 7, // why\n", "server.h": "    long fd;\n"}, "Carried"),
    ([("static int two", "static int new(void) {\n}\n\nstatic int two"), ("    return 1;", "    return 11;")],
     {"numbers.c": "    return 11;\n"}, "function `new` is new; in chapter 05 it is nowhere: see to that by hand"),
    ([("    return k_primes[0];", "    return 5;")], {"numbers.c": "<<<<<<< chapters/05/src/numbers.c\n    return k_p"},
     "chapters/05/src/numbers.c:24: conflict"),
    ([("int main(void) {\n", "int main(void) {\n    g_data.n++;\n")], {"main.c": "    state.n = one()"},
     "`main` has changed; in chapter 05 it is chapters/05/src/main.c, and `g_data` nowhere: see to that by hand"),
    ([("#include <stdio.h>\n", "")], {}, "05/src/main.c and chapters/05/src/numbers.c: see to that by hand"),
    ([("#include <string.h>\n", "")], {}, "Chapter 05 is as it is in HEAD"),
]  # fmt: skip


@pytest.mark.parametrize("edits, there, why", TO_SRC)
def test_forward_from_one_file_to_several(
    split: Path, capsys: pytest.CaptureFixture, edits: List[Tuple[str, str]], there: Dict[str, str], why: str
) -> None:
    if "conflict" in why:
        edit(split, "chapters/05/src/numbers.c", "    return k_primes[0];", "    return k_primes[1];")
    main = split / "chapters/05/src/main.c"
    main.write_text(main.read_text().replace("g_data", "state" if "`g_data`" in why else "g_data"))
    git(split, "init", "-q")
    commit(split)
    for old, new in edits:
        edit(split, "chapters/04/server.c", old, new)
    done = forward.main(["04"], split)
    said = capsys.readouterr().out
    assert why in said and (done == 0) == ("conflict" not in why and "by hand" not in why)
    for file, text in there.items():
        assert has(split, "05", text, f"src/{file}")
        assert done or has(split, "06", text, f"src/{file}")


@pytest.mark.parametrize(
    "args, why",
    [(["07"], "there is no chapter 07"), (["04"], "FROM names the chapter where it stopped"), ([], "usage:")],
)
def test_forward_mistakes(
    repo: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, args: List[str], why: str
) -> None:
    monkeypatch.setenv("FROM", "03")
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


# ---- headers ----


ROWS = "| header | built in | holds | used by |\n| --- | --- | --- | --- |\n"
SERVER_03, BASE = "chapters/03/server.c", "common/base.h"

HEADERS = [  # edits, what is said
    ([], []),
    ([(SERVER_03, '"base.h"', '"base.h"\n#include "gone.h"')],
     [f"{SERVER_03}: includes gone.h, which is not in common/"]),
    ([(SERVER_03, '"base.h"', '"base.h"\n#include "io.h"')],
     [f"{SERVER_03}: includes io.h, which chapter 04 builds; here is chapter 03"]),
    ([(BASE, "#pragma once\n", '#pragma once\n\n#include "io.h"\n')],
     [f"{BASE}: includes io.h, which chapter 04 builds; here is chapter 03"]),
    ([("chapters/04/server.c", '#include "io.h"\n', "")],
     ["common/io.h: built in chapter 04, but no program of that chapter uses it (used by 05)"]),
    ([(BASE, "//\n// What all the programs here need.\n", "")],
     [f"{BASE}:1: the comment must go on to say what the header is"]),
    ([(BASE, "// Returns nothing.\n", "")], [f"{BASE}:6: `one_of_base` has no comment above it"]),
    ([(BASE, "#pragma once\n", "#pragma once\n\nextern int n;\n")],
     [f"{BASE}:6: `n` is state of another file; it must be passed in"]),
    ([(BASE, "one_of_base", "two")],
     [f"chapters/0{n}/server.c:{36 + (n > 3)}: `two` is in {BASE} already" for n in (3, 4, 5)]),
    ([("common/io.h", "one_of_io", "one_of_base")], ["common/io.h:7: `one_of_base` is in common/base.h already"]),
]  # fmt: skip


@pytest.mark.parametrize("edits, said", HEADERS)
def test_rules_of_headers(root: Path, edits: List[Tuple[str, str, str]], said: List[str]) -> None:
    write(root, "common/io.h", header("io.h", "04", "one_of_io"))
    for name in ("04", "05"):
        edit(root, f"chapters/{name}/server.c", '"base.h"', '"base.h"\n#include "io.h"')
    for each in edits:
        edit(root, *each)
    assert headers.problems(root) == said


def test_a_header_of_one_chapter(split: Path) -> None:
    assert headers.problems(split) == []
    assert headers.users(split) == {"base.h": ["03", "04", "05", "06"]}
    write(split, "chapters/04/own.h", "")
    assert headers.problems(split) == ["chapters/04/own.h: headers live in common/"]


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


def test_spans() -> None:
    there = [f"{number:02}" for number in range(3, 13)]
    assert layout.span(["04", "06", "07", "08", "10", "11"], there) == "04, 06 to 08, 10, 11"
    assert layout.span(["04", "06", "08"], ["03", "04", "06", "08"]) == "04 to 08"
    assert layout.span([], there) == ""
