"""Chapter 08: hashtables. All that 07 says, and no slower with many keys, whoever has chosen them."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cases import Case, earlier, new
from cases.labs import lab_passes, lab_sees
from harness import check_session
from harness.settings import ROOT
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 08. The rules are in book/protocol.md.
SESSIONS = ["08-demo", "08-many", "08-seed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(8))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 8)


# What no transcript can say, pieces, time, memory, random commands: tests/cases/, since=8.
@pytest.mark.parametrize("case", new(8))
def test_new(case: Case) -> None:
    case(8)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(8))
def test_earlier(case: Case) -> None:
    case(8)


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """The table against its model at every size, and the work of each call counted."""
    lab_passes(8, "test_hashtable")


@pytest.mark.inside
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("return link ? link : h_lookup(&hmap->older, key, eq);", "return link;"),
        ("hmap->resizing_pos++;", "hmap->resizing_pos++, work--;"),
    ],
    ids=["lookup in one table only", "empty buckets cost nothing"],
)
def test_lab_program_sees(right: str, wrong: str) -> None:
    lab_sees(8, "test_hashtable", "hashtable.h", right, wrong)


# ---- container_of ----


@pytest.mark.inside
@pytest.mark.parametrize(
    "line, compiles",
    [
        ("struct entry *a = container_of(node, struct entry, node);", True),
        ("const struct entry *a = container_of((const struct hnode *)node, struct entry, node);", True),
        ("struct entry *a = container_of((const struct hnode *)node, struct entry, node);", False),
        ("struct entry *a = container_of(&number, struct entry, node);", False),
        ("struct entry *a = container_of((void *)node, struct entry, node);", False),
    ],
    ids=["node", "const node", "const is not cast away", "another member", "any pointer"],
)
def test_container_of_looks_at_types(tmp_path: Path, line: str, compiles: bool) -> None:
    """What is no node of an entry does not lead to one, and what was const stays const."""
    source = tmp_path / "types.c"
    source.write_text(
        f"""#include "hashtable.h"
#include "intrusive.h"
struct entry {{
    int before;
    struct hnode node;
}};
int look(struct hnode *node, int number);
int look(struct hnode *node, int number) {{
    {line}
    return a->before + number + (node != NULL);
}}
"""
    )
    cc = os.environ.get("CC", "cc").split()
    common = os.environ.get("HEADERS", str(ROOT / "common"))
    command = [
        *cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{common}", f"-I{ROOT / 'common'}", "-c", str(source)
    ]
    done = subprocess.run([*command, "-o", str(tmp_path / "types.o")], stderr=subprocess.PIPE, text=True)
    assert (done.returncode == 0) == compiles, done.stderr or f"it compiles: {line}"
