"""Programs that are wrong on purpose: the faults in tests/broken/, what they say of themselves, how they are built.

tests/broken/README.md says how a fault is written; changes.py lists, shows and builds them.
"""
from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple

import changeform
import headers
from changeform import Change, Tree
from layout import ROOT, Problem, sources

KEYS = ("fault", "symptom", "test")
OPTIONAL = ("hurry", "tries")
FLAGS = "-std=gnu11 -g -O0 -pthread -w"


class Fault(NamedTuple):
    """What a .fault file says."""

    name: str
    fault: str
    symptom: str
    test: List[str]  # words for pytest
    hurry: str  # TEST_TIME_FACTOR for the wrong program
    tries: int  # the test sees the fault in one of so many runs, if the machine is busy
    change: Change

    @property
    def chapter(self) -> str:
        return self.name[:2]

    @property
    def where(self) -> str:
        return self.change.where


# ---- reading ----


def names(root: Path = ROOT) -> List[str]:
    """All faults, in the order of chapters."""
    return sorted(path.stem for path in root.glob("tests/broken/*.fault"))


def path_of(name: str, root: Path = ROOT) -> Path:
    return root / "tests" / "broken" / f"{name}.fault"


def read(name: str, root: Path = ROOT) -> Fault:
    """The fault; Problem where its file is not as it should be."""
    path = path_of(name, root)
    if not path.exists():
        raise Problem(f"there is no {path.relative_to(root)}; changes.py list shows what there is")
    return parse(name, path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Fault:
    where = f"tests/broken/{name}.fault"
    if not re.fullmatch(r"\d\d-[a-z0-9-]+", name):
        raise Problem(f"{where}: must be called NN-slug.fault, NN being the chapter")
    change = changeform.parse(text, where)
    said = change.said()
    missing = [key for key in KEYS if not said.get(key)]
    unknown = [key for key in said if key not in KEYS + OPTIONAL]
    if missing or unknown:
        raise Problem(
            f"{where}: " + (f"says nothing about `{missing[0]}`" if missing else f"nobody knows `{unknown[0]}`")
        )
    if not change.hunks:
        raise Problem(f"{where}: changes nothing")
    test = shlex.split(said["test"])
    file = f"tests/test_{name[:2]}.py"
    if not test[0].startswith(file) or (len(test) > 1 and (len(test), test[1]) != (3, "-k")):
        raise Problem(f'{where}: the test must be {file}::NAME or {file} -k "EXPRESSION"')
    hurry, tries = said.get("hurry", "1"), int(said.get("tries", "1"))
    return Fault(name, said["fault"], said["symptom"], test, hurry, tries, change)


# ---- building ----


def sound(chapter: str, root: Path = ROOT) -> Tree:
    """The sources that a fault of a chapter may be in, by their paths: its programs, all headers."""
    paths = [*sources(chapter, root), *sorted((root / "common").glob("*.h"))]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def changed(fault: Fault, root: Path = ROOT) -> Tree:
    """The files that the fault changes, with the fault in them; Problem where it no longer fits."""
    before = sound(fault.chapter, root)
    after = changeform.apply(before, fault.change)
    return {name: text for name, text in after.items() if text != before.get(name)}


def build(fault: Fault, folder: Path, right: Path) -> List[str]:
    """Builds in `folder`/NN the programs of the fault's chapter that have it. All others are links to what is
    in `right`. Returns the names of those with the fault."""
    paths = changed(fault)
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*right.glob("[0-9][0-9]"), *right.glob("*.so")]:
        if path.name != fault.chapter:
            link(path, folder / path.name)
    target = folder / fault.chapter
    target.mkdir(exist_ok=True)
    include = folder / "include"
    include.mkdir(exist_ok=True)
    for header in (ROOT / "common").glob("*.h"):
        link(header, include / header.name)
    for path, text in paths.items():
        copy = include / Path(path).name if path.startswith("common/") else target / Path(path).name
        copy.unlink(missing_ok=True)
        copy.write_text(text, encoding="utf-8")
    built = []
    for source in sources(fault.chapter):
        name = source.stem
        mine = [f"chapters/{fault.chapter}/{name}.c"] + [f"common/{h}" for h in headers.closure(source, ROOT)]
        if not any(path in paths for path in mine):
            link(right / fault.chapter / name, target / name)
            continue
        copy = target / f"{name}.c"
        (target / name).unlink(missing_ok=True)
        words = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS.split(), f"-I{include}"]
        words += [str(copy if mine[0] in paths else source), "-o", str(target / name)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Problem(f"{fault.where}: {name}.c does not compile with the fault:\n{done.stdout}")
        built.append(name)
    if not built:
        raise Problem(f"{fault.where}: no program of chapter {fault.chapter} has the fault in it")
    return built


def link(target: Path, path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target.resolve())


def environment(folder: Path, factor: str = "1") -> Dict[str, str]:
    """The variables under which pytest tests the programs in that folder."""
    return {"WORKBOOK_BUILD": str(folder), "WORKBOOK_PREBUILT": "1", "TEST_TIME_FACTOR": factor}
