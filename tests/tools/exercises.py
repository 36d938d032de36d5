"""The exercises: where they lie, what their files say, and the trees of files that they are made of.

An exercise NN-slug is the folder chapters/NN/exercises/slug/ and the grader tests/exercises/test_NN_slug.py;
tests/exercises/README.md says what each file is for. A tree is a folder in memory: file -> text. There are

    stage       the files of the chapter that the exercise begins with, and the headers that they include; the files
                of a server of several are in src/, as there
    starter     what a learner starts from: the stage with starter.change
    solution    the starter with solution.change
    wrong/NAME  the solution with wrong/NAME.change

tests/changes.md says how a change is written and what carries it along.
"""
from __future__ import annotations

import ast
import configparser
import difflib
import fnmatch
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import changeform
import headers
from changeform import Change, Tree
from layout import RENUMBERED, ROOT, Problem, made_of, server_of

KINDS = ("build", "mend", "break", "measure", "explain")
NEEDED = ("title", "kind", "difficulty", "minutes", "points", "submit")
OPTIONAL = ("stage", "programs", "files", "threads", "processes", "seconds")
HINTS = ("1", "2", "3")
PROOF = ("fault", "fails", "says")
MOST_SUBMITTED = 1 << 20  # bytes of one file

MAKEFILE = """\
CC = cc
CFLAGS = -std=gnu11 -O2 -g -Wall -Wextra

all: {programs}
{rules}
clean:
\trm -f {programs}

.PHONY: all clean
"""
RULE = """
{program}: {needs} $(wildcard *.h)
\t$(CC) $(CFLAGS){threads} -I. {files} -o {program}
"""


class Graded(NamedTuple):
    """A test of a grader, as its source says: what it is worth and what it tries."""

    name: str
    points: int
    title: str
    tries: str
    instructor: bool  # the points are the instructor's to give


class Wrong(NamedTuple):
    """A wrong solution: what is wrong with it, the test that must fail, words that its lesson must hold."""

    name: str
    fault: str
    fails: str
    says: str


@dataclass(frozen=True)
class Exercise:
    """One exercise. What is read from its files is read when it is asked for; Problem where it is not right."""

    chapter: str
    slug: str
    root: Path = ROOT

    @property
    def name(self) -> str:
        return f"{self.chapter}-{self.slug}"

    @property
    def old_name(self) -> str:
        """The name that it had in the first edition, which a reader's folder may still bear; its own where another
        exercise has that name today."""
        chapter = RENUMBERED.get(self.chapter, self.chapter)
        taken = (self.root / "chapters" / chapter / "exercises" / self.slug).exists()
        return self.name if taken else f"{chapter}-{self.slug}"

    @property
    def folder(self) -> Path:
        return self.root / "chapters" / self.chapter / "exercises" / self.slug

    @property
    def where(self) -> str:
        """The folder as a message names it."""
        return f"chapters/{self.chapter}/exercises/{self.slug}"

    @property
    def grader(self) -> Path:
        return self.root / "tests" / "exercises" / f"test_{self.chapter}_{self.slug}.py"

    # ---- exercise.conf ----

    @cached_property
    def conf(self) -> Dict[str, str]:
        """The section [exercise] of exercise.conf."""
        where = f"{self.where}/exercise.conf"
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string((self.folder / "exercise.conf").read_text(encoding="utf-8"), where)
            said = dict(parser["exercise"])
        except (OSError, KeyError, configparser.Error) as error:
            raise Problem(f"{where}: {error}") from None
        missing = [key for key in NEEDED if key not in said]
        unknown = [key for key in said if key not in NEEDED + OPTIONAL]
        if missing or unknown:
            raise Problem(f"{where}: " + (f"`{missing[0]}` is missing" if missing else f"nobody knows `{unknown[0]}`"))
        for key in ("difficulty", "minutes", "points", "processes", "seconds"):
            if not said.get(key, "1").isdigit():
                raise Problem(f"{where}: {key} must be a whole number, not {said[key]}")
        if said["kind"] not in KINDS or said["difficulty"] not in "1234":
            raise Problem(f"{where}: kind is one of {', '.join(KINDS)}, difficulty is from 1 to 4")
        return said

    @property
    def title(self) -> str:
        return self.conf["title"]

    @property
    def kind(self) -> str:
        return self.conf["kind"]

    @property
    def difficulty(self) -> int:
        return int(self.conf["difficulty"])

    @property
    def minutes(self) -> int:
        return int(self.conf["minutes"])

    @property
    def points(self) -> int:
        return int(self.conf["points"])

    @property
    def submit(self) -> List[str]:
        """The files that a learner hands in; a pattern such as *.h stands for all that match."""
        return self.conf["submit"].split()

    @property
    def programs(self) -> List[str]:
        """The programs to build, each from one file NAME.c, or the server from all of src/."""
        return self.conf.get("programs", "server client").split()

    @property
    def files(self) -> List[str]:
        """The files that the starter takes from the chapter and from common/ (.h), besides what they include."""
        said = self.conf.get("files", " ".join(f"{program}.c" for program in self.programs)).split()
        return of_stage(said, self.begins_with, self.root)

    @property
    def begins_with(self) -> str:
        """The chapter whose programs the starter has."""
        return self.conf.get("stage", self.chapter)

    @property
    def threads(self) -> bool:
        return self.conf.get("threads", "no") == "yes"

    @property
    def processes(self) -> int:
        """How many processes and threads a submission may have at once."""
        return int(self.conf.get("processes", "128"))

    @property
    def seconds(self) -> int:
        """How long all tests of the grader may take together."""
        return int(self.conf.get("seconds", "90"))

    def again(self, test: str) -> str:
        """What to type to see a test of the grader alone."""
        return f'make check-{self.name} ARGS="-k {test}"'

    # ---- texts ----

    @property
    def readme(self) -> str:
        return self._text("README.md")

    @cached_property
    def hints(self) -> List[str]:
        """The hints, from a nudge to nearly the answer."""
        found = re.split(r"^## +(\d+) *$", self._text("hints.md"), flags=re.M)[1:]
        if tuple(found[::2]) != HINTS:
            raise Problem(f"{self.where}/hints.md: must have the sections ## 1, ## 2 and ## 3")
        return [text.strip("\n").rstrip() for text in found[1::2]]  # a hint may begin with indented code

    @cached_property
    def tests(self) -> List[Graded]:
        """The tests of the grader that are worth points, in their order. Reads the source, runs nothing."""
        if not self.grader.exists():
            raise Problem(f"{self.name}: there is no {self.grader.relative_to(self.root)}")
        return graded_tests(self.grader.read_text(encoding="utf-8"), self.grader.name)

    def _text(self, name: str) -> str:
        path = self.folder / name
        if not path.exists():
            raise Problem(f"{self.name}: there is no {self.where}/{name}")
        return path.read_text(encoding="utf-8")

    # ---- trees ----

    @property
    def has_solution(self) -> bool:
        """Is the solution in this copy of the workbook?"""
        return self.path("solution").exists()

    def path(self, which: str) -> Path:
        """The file that holds the change of a tree."""
        return self.folder / f"{which}.change"

    def change(self, which: str) -> Change:
        """What makes the tree of the one that it builds on; nothing at all where there is no such file."""
        path = self.path(which)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return changeform.parse(text, f"{self.where}/{path.relative_to(self.folder)}")

    def stage(self) -> Tree:
        """The chapter's files that the exercise begins with, README.md, and a Makefile where there are programs."""
        tree: Tree = {"README.md": self.readme}
        own = {hunk.file for hunk in self.change("starter").hunks if hunk.how == "new"}
        if self.programs:
            tree["Makefile"] = self.makefile()
        for name in self.files:
            shared = name.endswith(".h") and "/" not in name
            folder = self.root / ("common" if shared else f"chapters/{self.begins_with}")
            if not (folder / name).exists():
                if name in own:
                    continue
                raise Problem(f"{self.where}/exercise.conf: there is no {name} in {folder.relative_to(self.root)}")
            tree[name] = (folder / name).read_text(encoding="utf-8")
        return self.with_headers(tree)

    def makefile(self) -> str:
        """A Makefile that builds the programs."""
        programs, threads, rules = self.programs, " -pthread" * self.threads, ""
        for program in programs:
            several = made_of(program, self.files) != [f"{program}.c"]
            files, needs = ("src/*.c", "$(wildcard src/*.[ch])") if several else (f"{program}.c",) * 2
            rules += RULE.format(program=program, threads=threads, files=files, needs=needs)
        return MAKEFILE.format(programs=" ".join(programs), rules=rules)

    def with_headers(self, tree: Tree) -> Tree:
        """The tree with the headers of common/ that its files include, directly or through others."""
        return headers.with_headers(tree, self.root)

    def tree(self, which: str) -> Tree:
        """The tree "starter", "solution" or "wrong/NAME"."""
        if which == "stage":
            return self.stage()
        if which == "solution" and not self.has_solution:
            raise Problem(f"{self.name}: the solution is not in this copy of the workbook")
        if which.startswith("wrong/") and not self.path(which).exists():
            raise Problem(f"{self.name}: there is no {self.where}/{which}.change")
        tree = changeform.apply(self.base(which), self.change(which))
        return self.with_headers(tree) if which == "starter" else tree

    def base(self, which: str) -> Tree:
        """The tree that `which` builds on."""
        if which not in ("starter", "solution") and not which.startswith("wrong/"):
            raise Problem(f"{which}: a tree is starter, solution or wrong/NAME")
        return self.tree({"starter": "stage", "solution": "starter"}.get(which, "solution"))

    def starter(self) -> Tree:
        return self.tree("starter")

    # ---- wrong solutions ----

    def wrong_names(self) -> List[str]:
        return sorted(path.stem for path in self.folder.glob("wrong/*.change"))

    def wrong(self, name: str) -> Wrong:
        """What a wrong solution says about itself."""
        change = self.change(f"wrong/{name}")
        said = change.said()
        missing = [key for key in PROOF if not said.get(key)]
        if missing:
            raise Problem(f"{change.where}: its first lines must say `{missing[0]}: ...`")
        return Wrong(name, *(said[key] for key in PROOF))


# ---- finding ----


def all_exercises(root: Path = ROOT) -> List[Exercise]:
    """Every exercise, by chapter, the easy ones first."""
    return sorted(_found(root), key=lambda exercise: (exercise.chapter, exercise.difficulty, exercise.slug))


def _found(root: Path) -> List[Exercise]:
    """Every exercise. What its files say is not looked at: one that is wrong does no harm to others."""
    files = root.glob("chapters/[0-9][0-9]/exercises/*/exercise.conf")
    return [Exercise(path.parts[-4], path.parts[-2], root) for path in files]


def find(name: str, root: Path = ROOT) -> Exercise:
    """The exercise NN-slug, or Problem."""
    known = {exercise.name: exercise for exercise in _found(root)}
    if name in known:
        return known[name]
    for exercise in known.values():
        if name == exercise.old_name:
            print(f"{name} is {exercise.name} now", file=sys.stderr)
            return exercise
    near = nearest(name, known)
    raise Problem(f"there is no exercise {name}{f', did you mean {near}?' if near else ''} (make exercises lists all)")


def nearest(word: str, words: Iterable[str]) -> str:
    """The one that somebody meant who typed `word`, or ""."""
    return next(iter(difflib.get_close_matches(word, list(words), 1, 0.6)), "")


# ---- files ----


def of_stage(names: Iterable[str], chapter: str, root: Path = ROOT) -> List[str]:
    """These files of a stage; server.c stands for all files of a server of several."""
    server = server_of(chapter, root) or ["server.c"]
    return [file for name in names for file in (server if name == "server.c" else [name])]


def read_folder(folder: Path) -> Tree:
    """The text files of a folder, and of src/ in it."""
    paths = [path for each in (folder, folder / "src") for path in sorted(each.glob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def write_tree(tree: Tree, folder: Path) -> None:
    """Writes the files of a tree into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        if name.endswith((".py", ".sh")):
            (folder / name).chmod(0o755)


class Handed(NamedTuple):
    """What a submission consists of: its tree, the files that were taken, and what is to be said about it."""

    tree: Tree
    taken: List[str]
    remarks: List[str]


def hand_in(exercise: Exercise, folder: Path) -> Handed:
    """The starter with the submitted files of the folder over it; all others are as they were.

    Takes regular files alone, so that no link makes the grader read what is not the learner's.
    """
    tree, taken, remarks = exercise.starter(), [], []
    names: Set[str] = set()
    present = files_in(folder, [*tree, *exercise.submit])
    for pattern in exercise.submit:
        matches = matching(present, pattern)
        names.update(matches)
        if not matches and not set("*?[") & set(pattern):
            remarks.append(f"there is no {pattern}" + ("; the starter's was taken" if pattern in tree else ""))
    yours = [name for pattern in exercise.submit for name in matching(tree, pattern) if name.startswith("src/")]
    lacking = ", ".join(name for name in yours if name not in present)
    if lacking and any(name.startswith("src/") for name in names):
        remarks.append(f"these were not handed in, and the starter's were taken: {lacking}")
    for name in sorted(names):
        path = present[name]
        if path.is_symlink() or not path.is_file():
            remarks.append(f"{name} is no plain file and was not taken")
        elif path.stat().st_size > MOST_SUBMITTED:
            remarks.append(f"{name} is larger than {MOST_SUBMITTED >> 20} MB and was not taken")
        else:
            tree[name] = path.read_bytes().decode("utf-8", "surrogateescape")
            taken.append(name)
    return Handed(tree, taken, remarks)


def matching(names: Iterable[str], pattern: str) -> List[str]:
    """The names that a pattern stands for; its * is no slash."""
    return [name for name in fnmatch.filter(names, pattern) if name.count("/") == pattern.count("/")]


def files_in(folder: Path, known: Sequence[str]) -> Dict[str, Path]:
    """What somebody hands in, by the names that it has in a tree. Uploads lose folders: where src/ is missing, sources
    that are not known beside it are those of src/."""
    if not folder.is_dir():
        return {}
    found, src = {path.name: path for path in folder.iterdir()}, folder / "src"
    if src.is_dir() and not src.is_symlink():
        return {**found, **{f"src/{path.name}": path for path in src.iterdir()}}
    if any(name.startswith("src/") for name in known):
        lost = [name for name in found if name.endswith((".c", ".h")) and name not in known]
        found.update({f"src/{name}": found.pop(name) for name in lost})
    return found


# ---- graders ----


def graded_tests(source: str, where: str) -> List[Graded]:
    """The test functions with @points(n, "title") in the source of a grader."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise Problem(f"{where}:{error.lineno}: {error.msg}") from None
    found = []
    for item in body:
        if not isinstance(item, ast.FunctionDef) or not item.name.startswith("test_"):
            continue
        worth = _points(item)
        if worth is None:
            raise Problem(f'{where}:{item.lineno}: {item.name} has no @points(n, "title")')
        found.append(Graded(item.name, *worth[:2], " ".join((ast.get_docstring(item) or "").split()), worth[2]))
    return found


def _points(item: ast.FunctionDef) -> Optional[Tuple[int, str, bool]]:
    """What the decorator @points says: points, title, instructor."""
    for call in item.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "points":
            try:
                n, title = (ast.literal_eval(word) for word in call.args)
                named = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            except ValueError:
                return None
            return int(n), str(title), bool(named.get("instructor"))
    return None
