"""Programs that are wrong on purpose: the faults in tests/broken/, what they say of themselves, how they are built.

tests/broken/README.md says how a fault is written; changes.py lists, shows and builds them.
"""
from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

import changeform
import compiled
import headers
from changeform import Change, Tree
from compiled import compiler
from layout import ROOT, Problem, files_of, server_of, sources

KEYS = ("fault", "symptom", "test")
OPTIONAL = ("says", "time_factor", "tries")
FLAGS = "-std=gnu11 -g -O0 -pthread -w"


class Fault(NamedTuple):
    """What a .fault file says."""

    name: str
    fault: str
    symptom: str
    test: List[str]  # words for pytest
    case: str  # the case that a beginner with this fault meets first, "" where that is not looked at
    says: str  # words of what is said then
    time_factor: str  # TEST_TIME_FACTOR for the wrong program
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
    case, colon, says = said.get("says", "").partition(": ")
    if "says" in said and not (colon and re.fullmatch(r"\w+", case)):
        raise Problem(f"{where}: write `says: CASE: WORDS`, the case that fails first and words of what is said then")
    time_factor, tries = said.get("time_factor", "1"), int(said.get("tries", "1"))
    return Fault(name, said["fault"], said["symptom"], test, case, says, time_factor, tries, change)


# ---- building ----


def sound(chapter: str, root: Path = ROOT) -> Tree:
    """The sources that a fault of a chapter may be in, by their paths: its programs, all headers; where the server is
    several files, the Makefile that keeps them together."""
    several = (root / "chapters" / chapter / "src").is_dir()
    paths = [*sources(chapter, root), *sorted((root / "common").glob("*.h"))]
    paths += [root / "chapters" / chapter / "Makefile"] * several
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def programs(chapter: str, root: Path = ROOT) -> Dict[str, List[str]]:
    """The programs of a chapter, and the files that each is made of, as paths from the root."""
    server, files = server_of(chapter, root), files_of(chapter, root)
    made = {"server": server, **{Path(file).stem: [file] for file in files if file not in server}}
    return {name: [f"chapters/{chapter}/{file}" for file in files] for name, files in made.items()}


def build(fault: Fault, folder: Path, right: Path) -> List[str]:
    """Builds in `folder`/NN the programs of the fault's chapter that have it. All others are links to what is
    in `right`. Returns the names of those with the fault, of which the Makefile may be one: tests find it in
    `folder`/src."""
    before = sound(fault.chapter)
    after = changeform.apply(before, fault.change)
    for path, text in after.items():
        (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / path).write_text(text, encoding="utf-8")
    for path in [*right.glob("[0-9][0-9]"), *right.glob("*.so")]:
        if path.name != fault.chapter:
            link(path, folder / path.name)
    made = f"chapters/{fault.chapter}/Makefile"
    built = ["Makefile"] * (before.get(made) != after.get(made))
    for name, files in programs(fault.chapter).items():
        program = Path(fault.chapter, name)
        used = {header for file in files for header in headers.closure(ROOT / file)}
        if all(before.get(path) == after.get(path) for path in [*files, *(f"common/{header}" for header in used)]):
            link(right / program, folder / program)
            continue
        (folder / program).unlink(missing_ok=True)
        (folder / program).parent.mkdir(exist_ok=True)
        compile_program(fault, name, files, folder, after)
        built.append(name)
    if not built:
        raise Problem(f"{fault.where}: no program of chapter {fault.chapter} has the fault in it")
    return built


def compile_program(fault: Fault, name: str, files: Sequence[str], folder: Path, texts: Tree) -> None:
    """Of a server of several files only those are compiled that no fault before had as they are."""
    flags, headers_of_all = FLAGS.split(), sorted(item for item in texts.items() if item[0].endswith(".h"))

    def cc(*words: str) -> None:
        done = subprocess.run([*compiler(), *flags, *words], cwd=folder / "src", capture_output=True, text=True)
        if done.returncode:
            raise Problem(f"{fault.where}: {name} does not compile with the fault:\n{done.stderr}")

    objects = []
    for file in (file for file in files if file.endswith(".c")):
        kept = compiled.place(folder.parent / "kept", flags, texts[file], headers_of_all)
        make = functools.partial(lambda file, target: cc("-Icommon", "-c", file, "-o", str(target)), file)
        objects.append(str(compiled.keep(kept.with_suffix(".o"), make)))
    cc(*objects, "-o", str(folder / fault.chapter / name))


def link(target: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target.resolve())


def test_line(fault: Fault, folder: Path) -> str:
    """What a person types to see the test fail. findpython.sh takes a Python that has pytest."""
    variables = " ".join(f"{k}={shlex.quote(v)}" for k, v in environment(folder, fault.time_factor).items())
    return f"{variables} sh tests/tools/findpython.sh pytest -m pytest {shlex.join(fault.test)}"


def environment(folder: Path, factor: str = "1") -> Dict[str, str]:
    """The variables under which pytest tests the programs in that folder."""
    return {"WORKBOOK_BUILD": str(folder), "WORKBOOK_PREBUILT": "1", "TEST_TIME_FACTOR": factor}
