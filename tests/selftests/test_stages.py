"""The rules for the repetition between stages; tests/tools/stages.py says what they are."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Dict

import pytest

from harness import model, resp, wire
from harness.resp_model import RespModel
from harness.session import SESSIONS
from harness.settings import CHAPTERS, between
from harness.vectors import load_vectors

import book_blocks
import sources
import stages
from layout import ROOT, all_sources, before, chapters, server_of

pytestmark = pytest.mark.inside
VECTORS = load_vectors()
NOT_MODELLED = (  # no keys, or a number that is free: cases ask for them
    "quit", "hello", "auth", "reset", "select", "command", "client", "config", "info", "time", "memory",
    "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "pubsub", "bgrewriteaof",
)  # fmt: skip
FILES = [str(p.relative_to(ROOT)) for p in all_sources()]


def none(problems: list) -> None:
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)


@pytest.mark.parametrize("path", FILES)
def test_a_source_is_units(path: str) -> None:
    try:
        sources.units((ROOT / path).read_text(encoding="utf-8"), path)
        none(stages.long_functions(sources.read(ROOT / path, path)))
    except sources.UnitError as problem:
        pytest.fail(str(problem), pytrace=False)


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("chapters/")])
def test_a_program_says_of_which_chapter_it_is(path: str) -> None:
    """Of a server of several files server.h does; the others may stay as they are from stage to stage."""
    _, chapter, *_, name = path.split("/")
    said = [f"// {name}, chapter {chapter}: "] + [f"// {name}: "] * ("/src/" in path and name != "server.h")
    assert (ROOT / path).read_text().startswith(tuple(said))


@pytest.mark.parametrize("name", chapters())
def test_a_stage_is_the_one_before_and_what_its_table_names(name: str) -> None:
    try:
        none(stages.problems(ROOT, name))
    except (stages.Problem, sources.UnitError) as problem:
        pytest.fail(str(problem), pytrace=False)


def test_no_stage_adds_too_much() -> None:
    none(stages.size_problems(ROOT))


@pytest.mark.parametrize("name", chapters())
def test_a_stage_lacks_nothing(name: str) -> None:
    """What it must have besides its programs, in the order in which CONTRIBUTING.md has it."""
    readme, contents = stages.readme(ROOT, name), (ROOT / "book" / "README.md").read_text(encoding="utf-8")
    there = {
        f'chapters/{name}/README.md: its heading, "# Chapter {name}: ..."': f"# Chapter {name}: " in readme,
        f"chapters/{name}/README.md: a session, in a console block": "\n```console" in readme,
        f"chapters/{name}/Makefile": (ROOT / "chapters" / name / "Makefile").exists(),
        f"tests/test_{name}.py": (ROOT / f"tests/test_{name}.py").exists(),
        f"book/README.md, Contents: a row | {name} | ...": f"\n| {name} | " in contents,
        f"book/{name}-slug.md: the text": list((ROOT / "book").glob(f"{name}-*.md")),
        f"tests/broken/{name}-slug.fault: a wrong server": list((ROOT / "tests/broken").glob(f"{name}-*.fault")),
        f"chapters/{name}/exercises/slug/: an exercise": list((ROOT / "chapters" / name).glob("exercises/*/*.conf")),
    }
    none([f"chapter {name} lacks {what}" for what, found in there.items() if not found])


def server_text(name: str) -> str:
    return "".join((ROOT / "chapters" / name / file).read_text(encoding="utf-8") for file in server_of(name))


def commands(name: str) -> Dict[str, int]:
    """The commands of a stage's server, and how many strings each has with its own name: with a minus, at least."""
    rows = re.findall(r'^ *\{"(\w+)", (-?\d+),.* do_\w+[,}]', server_text(name), re.MULTILINE)
    return {word: int(count) for word, count in rows}


@pytest.mark.parametrize("name", chapters())
def test_a_new_command_is_in_contract_vectors_and_models(name: str) -> None:
    number, earlier = int(name), commands(before(name) or name)
    protocol = (ROOT / "book/protocol.md").read_text(encoding="utf-8")
    row = " ".join(re.findall(rf"^\| {name} \|.*", protocol, re.MULTILINE))
    sent = {word for vector in VECTORS if vector.first == number for word in vector.commands()}
    lacking = []
    for word, count in commands(name).items() if before(name) else ():
        if word in earlier:
            continue
        there = {f"book/protocol.md, Commands: a row | {name} | `{word} ...`": re.search(rf"\b{word}\b", row)}
        there[f"tests/vectors/{name}-slug.json: a vector that sends it"] = word in sent
        if number < wire.RESP_FROM:
            entry = f'tests/harness/model.py: do_{word}, and in COMMANDS b"{word}": ({number}, {count})'
            there[entry] = model.COMMANDS.get(word.encode()) == (number, count)
        else:
            entry = f'tests/harness/resp.py: in SINCE, under {number}, b"{word}": {count}'
            there[entry] = resp.SINCE.get(number, {}).get(word.encode()) == count
            there[f"a do_{word} in RespModel, or to be NOT_MODELLED in this file"] = (
                word in NOT_MODELLED or RespModel.knows(word)
            )
        lacking += [f"`{word}` of chapter {name} lacks {what}" for what, found in there.items() if not found]
    none(lacking)


PAGES = [
    path
    for pattern in ("*.md", ".github/*.md", "chapters/**/*.md", "common/*.md", "tests/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_pages_outside_the_book(path: Path) -> None:
    """The book's own are checked with its text."""
    none(book_blocks.prose_problems(book_blocks.read(path)))


def test_make_test_runs_a_case_where_it_begins_and_in_the_last_stage() -> None:
    last = CHAPTERS[-1]
    assert [each for each in CHAPTERS if each >= 7 and not between(each, range(7, 100))] == [7, last]
    assert [each for each in (3, 4, 5, 7, 8, 9) if not between(each, [3, 4, 5, 7, 8, 9])] == [3, 7, 9]


def test_the_tables_of_the_pages_are_true() -> None:
    none(stages.page_problems(ROOT))


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
    source = server_text(f"{chapter:02}")
    names = re.findall(r'^    \{"([a-z|]+)",', source.partition("k_commands[] = {")[2].partition("\n};")[0], re.M)
    typed = re.findall(r"(?:^> |\./client |\\n)([a-z]+(?: [a-z]+)?)", sessions(*same).lower(), re.M)  # \\n: in bytes
    said = {words for each in typed for words in (each, each.split()[0])}
    assert names and [name for name in names if name.replace("|", " ") not in said] == []


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if chapter >= wire.RESP_FROM])
def test_every_error_is_in_a_session(chapter: int) -> None:
    """The texts are those of Redis, and programs look at them."""
    source = server_text(f"{chapter:02}")
    texts = re.findall(r'"((?:ERR|WRONG|NO|EXECABORT)\w* [^"]*)"', re.sub(r'"\s*\n\s*"', "", source))
    said = sessions(*(c for c in CHAPTERS if wire.RESP_FROM <= c <= chapter))
    texts = [text for text in texts if text != "ERR the pattern takes too long"]  # which it may be, need not
    missing = [text for text in texts if not all(part in said for part in re.split(r"%(?:\.\*)?[a-z]+", text))]
    assert texts and missing == []
