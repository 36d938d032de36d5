"""Chapter 10: the AVL tree. The pair is that of chapter 09, unchanged."""
from __future__ import annotations

import re

import pytest

from cases import Case, earlier
from cases.labs import lab_passes
from harness import check_session, run_program
from harness.settings import ROOT
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 10. The rules are in book/protocol.md.
SESSIONS = [pytest.param("10-demo", marks=pytest.mark.inside), "10-keys", "10-pair"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(10))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 10)


# All that came before, as far as it still holds.
@pytest.mark.parametrize("case", earlier(10))
def test_earlier(case: Case) -> None:
    case(10)


@pytest.mark.inside
@pytest.mark.skipif(not (ROOT / "chapters" / "09").exists(), reason="chapter 09 is not in this copy of the workbook")
@pytest.mark.parametrize("name", ["server.c", "client.c"])
def test_the_pair_is_that_of_chapter_09(name: str) -> None:
    """But for the first comment, which says so."""
    old, new = ((ROOT / "chapters" / chapter / name).read_text() for chapter in ("09", "10"))
    head = re.compile(r"\A(//.*\n)+")
    assert head.sub("", new) == head.sub("", old)
    assert "unchanged" in head.match(new)[0]  # type: ignore[index]


# ---- the lab programs ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """Insertion and removal at every position of every size and shape, and random runs."""
    lab_passes(10, "test_avl")


@pytest.mark.inside
def test_avl_show() -> None:
    """Draws the tree after each step. The drawing itself is in the sessions."""
    numbers = [str(i * 37 % 101) for i in range(40)]
    out, err, status = run_program(10, "avl_show", numbers + ["-" + n for n in numbers] + ["-1", "5", "5"])
    assert (err, status) == ("", 0)
    steps = re.findall(r"^(insert|delete) (\d+)(.*)", out, re.M)
    assert steps == [(verb, n, "") for verb in ("insert", "delete") for n in numbers] + [
        ("delete", "1", ": it is not there"), ("insert", "5", ""), ("insert", "5", ": it is there already"),
    ]  # fmt: skip
    there = set()
    for (verb, n, _), drawing in zip(steps, re.split(r"^(?:insert|delete) .*\n", out, flags=re.M)[1:]):
        (there.add if verb == "insert" else there.discard)(int(n))
        labels = re.findall(r"(\d+)\((\d+),(\d+)\)", drawing)
        assert sorted(int(val) for val, _, _ in labels) == sorted(there)
        columns = sorted((drawing_column(drawing, label[0]), int(label[0])) for label in labels)
        assert [val for _, val in columns] == sorted(there), "from left to right in order"
        if labels:
            assert int(labels[0][2]) == len(there) and 2 * int(labels[0][1]) - 1 == len(drawing.strip("\n").split("\n"))
        else:
            assert drawing.strip() == "(empty)"


def drawing_column(drawing: str, number: str) -> int:
    """Where in its line the number stands."""
    (line,) = [line for line in drawing.split("\n") if re.search(rf"\b{number}\(", line)]
    return re.search(rf"\b{number}\(", line).start()  # type: ignore[union-attr]


@pytest.mark.inside
def test_avl_show_without_numbers() -> None:
    """It says how it is used; with something else than numbers, what is wrong."""
    out, err, status = run_program(10, "avl_show")
    assert (out.count("\n"), err, status) == (1, "", 0) and out.startswith("usage: ./avl_show ")
    for word in ("x", "", "-", "--1", "1x", "+1", " 1", "1.5", "1000000", "99999999999999999999"):
        out, err, status = run_program(10, "avl_show", ["1", word])
        assert (out, err.count("\n"), status) == ("", 1, 1) and word in err
