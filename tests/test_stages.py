"""The rules for the repetition between stages; tests/tools/stages.py says what they are."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import csource  # noqa: E402
import stages  # noqa: E402
from layout import PAIR, ROOT, all_sources, before, chapters  # noqa: E402

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


def test_the_road_says_how_long_each_server_is() -> None:
    none(stages.road_problems(ROOT))
