#!/usr/bin/env python3
"""What a stage still lacks: all that it must have, in one list, with what to write.

    complete.py [NN ...]     of these stages, or of all

Prints nothing else; exit status 1 where something is missing. .github/CONTRIBUTING.md says how a stage is added.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Dict, List

if not importlib.util.find_spec("pytest"):  # it is needed below, and another Python may have it
    finder = str(Path(__file__).resolve().with_name("findpython.sh"))
    os.execvp("sh", ["sh", finder, "pytest", *sys.argv])

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import stages  # noqa: E402
from harness import model, resp, wire  # noqa: E402
from harness.keyspace_model import KeyspaceModel  # noqa: E402
from harness.resp_model import RespModel  # noqa: E402
from harness.vectors import Vector, load_vectors  # noqa: E402
from layout import ROOT, before, cells, chapter, chapters, quit_with  # noqa: E402

TEST = '''\
    """Chapter {0}: {1}."""
    from __future__ import annotations

    import pytest

    from cases import Case, earlier, new
    from harness import check_session
    from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

    assert vector_servers  # a fixture

    # What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch
    # them, python3 tests/tools/play.py --show {0}. The rules are in book/protocol.md.
    SESSIONS = ["{0}-demo"]


    @pytest.mark.parametrize("name", SESSIONS)
    def test_session(name: str) -> None:
        check_session(name)


    @pytest.mark.parametrize("vector", vector_cases({2}))
    def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
        vector_servers.play(vector, {2})


    @pytest.mark.parametrize("case", new({2}))
    def test_new(case: Case) -> None:
        case({2})


    @pytest.mark.parametrize("case", earlier({2}))
    def test_earlier(case: Case) -> None:
        case({2})'''

NOT_MODELLED = (  # no keys, or a number that is free: cases ask for them
    "quit", "hello", "auth", "reset", "select", "command", "client", "config", "info", "time", "memory",
)  # fmt: skip


def commands(root: Path, name: str) -> Dict[str, int]:
    """The commands of a stage's server, and how many strings each has with its own name: with a minus, at least."""
    text = (root / "chapters" / name / "server.c").read_text(encoding="utf-8")
    return {word: int(count) for word, count in re.findall(r'^ *\{"(\w+)", (-?\d+),.* do_\w+[,}]', text, re.MULTILINE)}


def column(path: Path, pattern: str) -> List[List[str]]:
    """The rows of the tables in a page whose first cell matches."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [row for row in map(cells, lines) if row and re.match(pattern, row[0])]


@functools.lru_cache(None)
def vectors(root: Path) -> List[Vector]:
    """All vectors, read once."""
    return load_vectors(root / "tests" / "vectors")


def missing(root: Path, name: str) -> List[str]:
    """What a stage lacks."""
    readme = stages.readme(root, name)
    heading = re.search(rf"^# Chapter {name}: (.+)", readme, re.MULTILINE)
    title = heading[1] if heading else "..."
    found = []

    def lacks(condition: object, text: str) -> None:
        found.extend([] if condition else [text])

    folder = root / "chapters" / name
    lacks(heading, f'chapters/{name}/README.md: its heading, "# Chapter {name}: ..."')
    lacks(re.search(r"^```console", readme, re.MULTILINE), f"chapters/{name}/README.md: a session, in a console block")
    lacks((folder / "Makefile").exists(), f"chapters/{name}/Makefile: as that of the chapter before")
    pages = sorted((root / "book").glob(f"{name}-*.md"))
    page = pages[0].name if pages else f"{name}-slug.md"
    lacks(pages, f"book/{page}: the text; tests/tools/book.py skeleton {name} prints steps that lead to the stage")
    row = f"| {name} | [{title}]({page}) | ... |"
    lacks(column(root / "book/README.md", f"{name}$"), f"book/README.md, Contents: a row\n    {row}")
    lines = stages.pair(root, name, "server.c").code_lines()
    row = f"| [{name}](chapters/{name}) | ... | ... | {lines} |"
    lacks(column(root / "README.md", rf"\[{name}\]"), f"README.md, The road: a row\n    {row}")
    test = TEST.format(name, title[0].lower() + title[1:].rstrip('?.!'), int(name))
    lacks((root / f"tests/test_{name}.py").exists(), f"tests/test_{name}.py: what is new, and all that holds\n{test}")
    faults = list((root / "tests/broken").glob(f"{name}-*.fault"))
    lacks(
        faults, f"tests/broken/{name}-slug.fault: a wrong server that a test must catch; tests/changes.md has the form"
    )
    exercises = list(folder.glob("exercises/*/exercise.conf"))
    lacks(exercises, f"chapters/{name}/exercises/slug/: an exercise; tests/exercises/README.md says how one is made")
    return found + missing_of_commands(root, name)


def missing_of_commands(root: Path, name: str) -> List[str]:
    """What a stage's new commands lack."""
    earlier = before(name, root)
    old = commands(root, earlier) if earlier else {}
    said = " ".join(row[1] for row in column(root / "book/protocol.md", f"{name}$"))
    found: List[str] = []
    speaks_resp = int(name) >= wire.RESP_FROM
    has_databases = int(name) >= wire.KEYSPACE_FROM
    known, file = (KeyspaceModel, "keyspace_model.py") if has_databases else (RespModel, "resp_model.py")
    new = {word: count for word, count in commands(root, name).items() if word not in old}
    sent = " ".join(vector.looks_at() for vector in vectors(root) * bool(new) if vector.first == int(name))
    for word, count in new.items():
        arguments = " ...".ljust(5) * (count > 1)
        if not re.search(rf"\b{word}\b", said):
            row = f"| {name} | `{word}{arguments.rstrip()}` | ... |"
            found.append(f"book/protocol.md, Commands: a row\n    {row}")
        if not re.search(rf"\bdo_{word}\b", sent):
            found.append(
                f"tests/vectors/{name}-slug.json: a vector that sends `{word}`; tests/vectors/README.md has the form"
            )
        if speaks_resp and resp.SINCE.get(int(name), {}).get(word.encode()) != count:
            found.append(f'tests/harness/resp.py: in SINCE, under {name}\n    b"{word}": {count},')
        elif not speaks_resp and model.COMMANDS.get(word.encode()) != (int(name), count):
            entry = f'b"{word}": ({int(name)}, {count}),'
            found.append(f"tests/harness/model.py: do_{word}, and in COMMANDS\n    {entry}")
        if speaks_resp and word not in NOT_MODELLED and not hasattr(known, f"do_{word}"):
            found.append(
                f"tests/harness/{file}: do_{word}, for random tests; or, where no model can tell the reply, the name "
                "in NOT_MODELLED of tests/tools/complete.py"
            )
    return found


def main(argv: List[str], root: Path = ROOT) -> int:
    lacking = [(name, text) for name in argv or chapters(root) for text in missing(root, chapter(name, root))]
    for name, text in lacking:
        print(f"chapter {name} lacks {text}")
    return 1 if lacking else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except stages.Problem as problem:
        quit_with(str(problem))
