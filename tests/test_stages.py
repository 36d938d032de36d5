"""The rules for the repetition between stages; tests/tools/stages.py says what they are."""
from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path
from typing import List, Set

import pytest

import cases
from harness import carried, wire
from harness.session import SESSIONS
from harness.settings import CHAPTERS

import book_blocks
import complete
import csource
import stages
from layout import PAIR, ROOT, all_sources, before, chapters

pytestmark = pytest.mark.inside
LATER = chapters()[1:]
FILES = [str(p.relative_to(ROOT)) for p in all_sources()]


def none(problems: list) -> None:
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


@pytest.mark.parametrize("path", FILES)
def test_the_tools_can_read_it(path: str) -> None:
    try:
        csource.read(ROOT / path, path)
    except csource.Unreadable as problem:
        pytest.fail(str(problem), pytrace=False)


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("chapters/")])
def test_a_program_says_of_which_chapter_it_is(path: str) -> None:
    _, chapter, name = path.split("/")
    assert (ROOT / path).read_text().startswith(f"// {name}, chapter {chapter}: ")


@pytest.mark.parametrize("name", LATER)
def test_the_readme_says_what_has_changed(name: str) -> None:
    try:
        none(stages.table_problems(ROOT, name))
    except stages.Problem as problem:
        pytest.fail(str(problem), pytrace=False)


@pytest.mark.parametrize("file", PAIR)
@pytest.mark.parametrize("name", LATER)
def test_what_stays_keeps_its_place(name: str, file: str) -> None:
    old, new = (stages.pair(ROOT, c, file) for c in (before(name), name))
    none(stages.order_problems(old, new))


@pytest.mark.parametrize("file", PAIR)
@pytest.mark.parametrize("name", LATER)
def test_banners_change_with_their_section_only(name: str, file: str) -> None:
    old, new = (stages.pair(ROOT, c, file) for c in (before(name), name))
    none(stages.remark_problems(old, new))


@pytest.mark.parametrize("path", FILES)
def test_functions_are_short(path: str) -> None:
    none(stages.long_functions(csource.read(ROOT / path, path)))


def test_no_stage_adds_too_much() -> None:
    none(stages.size_problems(ROOT))


@pytest.mark.parametrize("name", chapters())
def test_a_stage_lacks_nothing(name: str) -> None:
    none(complete.missing(ROOT, name))


def test_what_a_stage_lacks_is_said_in_one_list(tmp_path: Path) -> None:
    """With its row in the README; and nothing of it is there. The stage before has all its commands but one."""
    (tmp_path / "common").symlink_to(ROOT / "common")
    for chapter in chapters()[-2:]:
        (tmp_path / "chapters" / chapter).mkdir(parents=True)
        source = (ROOT / "chapters" / chapters()[-1] / "server.c").read_text()
        if chapter == chapters()[-1]:
            source = source.replace(" k_commands[] = {\n", ' k_commands[] = {\n    {"newest", 2, do_get},\n')
        (tmp_path / "chapters" / chapter / "server.c").write_text(source)
    (tmp_path / "tests" / "vectors").mkdir(parents=True)
    said = complete.missing(tmp_path, chapters()[-1])
    lines = stages.pair(tmp_path, chapters()[-1], "server.c").code_lines()
    for part in (
        "README.md: its heading", "README.md: a session", "Makefile", "-slug.md: the text", "Contents: a row",
        "Makefile",
        f"| ... | ... | {lines} |", f"cases({int(chapters()[-1])})", ".fault", "exercises/slug/",
        "| `newest ...` | ... |",
        "that sends `newest`", 'b"newest": 2,', "keyspace_model.py: do_newest",
    ):  # fmt: skip
        assert any(part in text for text in said), f"{part} is not in {said}"
    assert len(said) == 13


def test_a_heading_is_that_of_its_own_stage(tmp_path: Path) -> None:
    """A README that was copied from the chapter before says so still."""
    (tmp_path / "common").symlink_to(ROOT / "common")
    for chapter in chapters()[-2:]:
        shutil.copytree(ROOT / "chapters" / chapter, tmp_path / "chapters" / chapter)
    shutil.copy(tmp_path / "chapters" / chapters()[-2] / "README.md", tmp_path / "chapters" / chapters()[-1])
    (tmp_path / "tests" / "vectors").mkdir(parents=True)
    assert "its heading" in complete.missing(tmp_path, chapters()[-1])[0]


PAGES = [
    path
    for pattern in ("*.md", ".github/*.md", "chapters/**/*.md", "common/*.md", "tests/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_pages_outside_the_book(path: Path) -> None:
    """The book's own are checked with its text."""
    none(book_blocks.prose_problems(book_blocks.read(path)))


def test_the_tools_are_named() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    tools = [path for folder in ("tools", "learn") for path in sorted((ROOT / "tests" / folder).glob("*.*"))]
    named = {path.name: re.sub("^(book|website)_.*", r"\1_*.py", path.name) for path in tools}
    assert [name for name, there in named.items() if f"`{there}`" not in text] == []


SHARED = [
    pytest.param(function, id=f"{name}.{function.__name__}")
    for name in sorted(path.stem for path in Path(cases.__file__).parent.glob("*.py"))
    for function in vars(importlib.import_module(f"cases.{name}")).values()
    if getattr(function, "__module__", "") == f"cases.{name}" and hasattr(function, "looks_at")
]


@pytest.mark.parametrize("case", SHARED)
def test_what_a_case_looks_at_is_in_a_table(case: cases.Case) -> None:
    """A misspelt name would never bring the case back."""
    for pattern in case.looks_at.split() * (case.looks_at != carried.OWN):  # type: ignore[attr-defined]
        assert any(carried.touches(chapter, pattern) for chapter in CHAPTERS), f"no table of changes has {pattern}"


def test_what_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "CHAPTERS", [7, 8, 9, 10, 11])
    monkeypatch.setattr(
        carried, "changed", {7: ["f"], 8: ["g_x"], 9: [], 10: ["main", "client.main"], 11: []}.__getitem__
    )

    def without(left_out: Set[str], first: int, last: int, looks_at: str) -> List[int]:
        chapters = range(first, last + 1)
        marks = {c: {mark.name for mark in carried.carried(c, chapters, looks_at)} for c in carried.CHAPTERS}
        return [c for c in carried.CHAPTERS if c in chapters and not marks[c] & left_out]

    def ran(first: int, last: int, looks_at: str) -> List[int]:
        return without({"carried"}, first, last, looks_at)

    def sanitized(first: int, last: int, looks_at: str) -> List[int]:
        return without({"carried", "again"}, first, last, looks_at)

    assert ran(7, 99, "f") == [7, 11], "where it begins, and in the last stage"
    assert ran(7, 10, "f") == [7, 10], "in the last that has it"
    assert ran(7, 99, "f g_*") == [7, 8, 11], "where something is changed"
    assert ran(3, 99, "server.main") == [7, 11] and ran(3, 99, "client.main") == [7, 10, 11]
    assert ran(8, 99, carried.OWN) == sanitized(8, 99, carried.OWN) == [8, 9, 10, 11]
    assert sanitized(7, 99, "f g_*") == [7, 8, 11], "where it changes for the last time"
    assert sanitized(3, 99, "client.main") == [7, 11], "what the last but one changes is run in the last"
    monkeypatch.setattr(carried, "changed", {7: [], 8: ["f"], 9: ["f"], 10: [], 11: []}.__getitem__)
    assert ran(7, 99, "f") == [7, 8, 9, 11] and sanitized(7, 99, "f") == [7, 9, 11]
    monkeypatch.setattr(carried, "PART_3", 8)
    assert ran(7, 99, "f") == [7, 9, 11]


def test_the_road_says_how_long_each_server_is() -> None:
    none(stages.road_problems(ROOT))


# ---- the contract: sessions ----


def sessions(*numbers: int) -> str:
    """What these chapters' sessions say."""
    paths = [path for n in numbers for path in sorted(SESSIONS.glob(f"{n:02}-*.session"))]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapters_script_names_its_sessions(chapter: int) -> None:
    script = (ROOT / "tests" / f"test_{chapter:02}.py").read_text(encoding="utf-8")
    listed = re.findall(r'"(\d\d-[\w-]+)"', script.partition("SESSIONS = [")[2].partition("]\n")[0])
    assert sorted(listed) == sorted(path.stem for path in SESSIONS.glob(f"{chapter:02}-*.session"))


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if chapter >= 7])
def test_every_command_is_in_a_session(chapter: int) -> None:
    """In one of this chapter, or of one before it that speaks the same language."""
    same = [c for c in CHAPTERS if c <= chapter and (c < wire.RESP_FROM) == (chapter < wire.RESP_FROM)]
    source = (ROOT / "chapters" / f"{chapter:02}" / "server.c").read_text()
    names = re.findall(r'^    \{"([a-z|]+)",', source.partition("k_commands[] = {")[2].partition("\n};")[0], re.M)
    typed = re.findall(r"(?:^> |\./client |\\n)([a-z]+(?: [a-z]+)?)", sessions(*same).lower(), re.M)  # \\n: in bytes
    said = {words for each in typed for words in (each, each.split()[0])}
    assert names and [name for name in names if name.replace("|", " ") not in said] == []


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if chapter >= wire.RESP_FROM])
def test_every_error_is_in_a_session(chapter: int) -> None:
    """The texts are those of Redis, and programs look at them."""
    source = (ROOT / "chapters" / f"{chapter:02}" / "server.c").read_text()
    texts = re.findall(r'"((?:ERR|WRONG|NO|EXECABORT)\w* [^"]*)"', re.sub(r'"\s*\n\s*"', "", source))
    said = sessions(*(c for c in CHAPTERS if wire.RESP_FROM <= c <= chapter))
    texts = [text for text in texts if text != "ERR the pattern takes too long"]  # which it may be, need not
    missing = [text for text in texts if not all(part in said for part in re.split(r"%(?:\.\*)?[a-z]+", text))]
    assert texts and missing == []
