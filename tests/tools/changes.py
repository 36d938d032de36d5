#!/usr/bin/env python3
"""All changes that the workbook keeps: the faults of tests/broken/ and the trees of the exercises.

    changes.py list [WORD]       their names; with a word, those that have it in their name or text
    changes.py show NAME         one of them as a unified diff
    changes.py tree NAME DIR     writes what it makes into the folder DIR, to be edited
    changes.py record NAME DIR   writes down anew what makes DIR of what NAME builds on; NAME may be new
    changes.py check             do they fit, and is none like another?
    changes.py carry [REV]       after a change of stages or headers since REV (HEAD): mends all that no longer fit
    changes.py make FAULT        builds the programs with that fault, and prints the line that runs the test which fails

NAME is NN-slug for a fault, NN-slug/starter, NN-slug/solution or NN-slug/wrong/NAME for a tree of an exercise.
tests/changes.md describes the form, and what to do where carry stops.
"""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import changeform
import exercises
import faults
from changeform import Change, Tree
from layout import ROOT, Problem, quit_with

HEADS = {
    "fault": ("fault: ", "symptom: ", "test: tests/test_NN.py -k "), "wrong": ("fault: ", "fails: test_", "says: ")
}
OF_EXERCISE = re.compile(r"README\.md|hints\.md|key\.md|exercise\.conf|(starter|solution|wrong/[a-z0-9-]+)\.change")
MARKER = re.compile(r"(<{7}|\|{7}|={7}|>{7})( |$)")
KEPT = ("README.md", "Makefile")  # of an exercise's tree: made anew each time, so never recorded


@dataclass(frozen=True)
class Kept:
    """A change that the workbook keeps, by its name."""

    name: str
    root: Path = ROOT

    @property
    def which(self) -> str:
        """starter, solution or wrong/NAME; "" for a fault."""
        return self.name.partition("/")[2]

    @property
    def exercise(self) -> exercises.Exercise:
        name = self.name.partition("/")[0]
        exercise = exercises.Exercise(name[:2], name[3:], self.root)
        return exercise if exercise.folder.is_dir() else exercises.find(name, self.root)

    @property
    def path(self) -> Path:
        return self.exercise.path(self.which) if self.which else faults.path_of(self.name, self.root)

    def base(self) -> Tree:
        """What it builds on."""
        return self.exercise.base(self.which) if self.which else faults.sound(self.name[:2], self.root)

    def change(self) -> Change:
        if not self.path.exists():
            raise Problem(f"there is no {self.path.relative_to(self.root)}")
        return self.exercise.change(self.which) if self.which else faults.read(self.name, self.root).change

    def tree(self) -> Tree:
        return changeform.apply(self.base(), self.change())

    @property
    def below(self) -> str:
        """The name of the change that this one builds on, "" for one that builds on a stage."""
        under = {"": "", "starter": "", "solution": "starter"}.get(self.which, "solution")
        return under and f"{self.name.partition('/')[0]}/{under}"

    def is_there(self) -> bool:
        try:
            return self.path.exists()
        except Problem:  # an exercise that is not there
            return False

    def write(self, hunks: List[changeform.Hunk]) -> None:
        """Writes the change down. What it says of itself stays; what is new gets lines to fill in."""
        kind = "" if self.which in ("starter", "solution") else "wrong" if self.which else "fault"
        head = self.change().head if self.path.exists() else list(HEADS.get(kind, ()))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(changeform.as_text(head, hunks), encoding="utf-8")


def all_changes(root: Path = ROOT) -> List[Kept]:
    """Each behind the one that it builds on."""
    found = [Kept(name, root) for name in faults.names(root)]
    for exercise in exercises.all_exercises(root):
        ways = ["starter", "solution", *(f"wrong/{name}" for name in exercise.wrong_names())]
        found += [Kept(f"{exercise.name}/{way}", root) for way in ways if exercise.path(way).exists()]
    return found


def find(name: str) -> Kept:
    known = {kept.name: kept for kept in all_changes()}
    if name not in known:
        near = exercises.nearest(name, known)
        raise Problem(f"there is no change {name}{f', did you mean {near}?' if near else ''}")
    return known[name]


# ---- git ----


def git(root: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(["git", "-C", str(root), *args], capture_output=True, encoding="utf-8")
    except FileNotFoundError:
        raise Problem("git is needed for this: apt-get install git") from None


def committed(root: Path, rev: str, path: str) -> Optional[str]:
    """A file as it is in a commit; None where the commit has no such file."""
    found = git(root, "show", f"{rev}:./{path}")
    return found.stdout if found.returncode == 0 else None


def merge(ours: str, base: str, theirs: str, labels: Tuple[str, str, str]) -> Tuple[str, bool]:
    """A three-way merge; the text, and whether it is free of conflicts."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for file, text in zip(files, (ours, base, theirs)):
            file.write_text(text, encoding="utf-8")
        names = [word for label in labels for word in ("-L", label)]
        found = git(Path(folder), "merge-file", "-p", "--diff3", *names, *map(str, files))
    if found.returncode < 0 or found.returncode > 127:
        raise Problem(f"git merge-file: {found.stderr.strip()}")
    return found.stdout, found.returncode == 0


def conflicts(text: str) -> List[int]:
    """The lines on which conflicts begin (or, half resolved, where a marker is left)."""
    marks = [(number, line[0]) for number, line in enumerate(text.split("\n"), 1) if MARKER.match(line)]
    return [number for number, sign in marks if sign == "<"] or [number for number, _ in marks[:1]]


# ---- looking and writing ----


def show_list(word: str = "") -> None:
    for kept in all_changes():
        if word in f"{kept.name}\n{kept.path.read_text(encoding='utf-8')}":
            print("\n    ".join([kept.name, *filter(None, kept.change().head)]))


def show(name: str) -> None:
    kept = find(name)
    print(changeform.unified(kept.base(), kept.tree()), end="")


def make(name: str) -> None:
    fault, folder = faults.read(name), ROOT / "build" / "broken" / name
    subprocess.run(["make", "-s", "-C", str(ROOT), f"build-{fault.chapter}"], check=True)
    print(f"built {', '.join(faults.build(fault, folder, ROOT / 'build' / 'test'))}; the test that must fail:")
    print(faults.test_line(fault, folder))


def write_tree(name: str, folder: str) -> None:
    if Path(folder).exists() and any(Path(folder).iterdir()):
        raise Problem(f"{folder} is not empty")
    kept = find(name)
    exercises.write_tree(kept.exercise.tree(kept.which) if kept.which else kept.tree(), Path(folder))
    print(f"{name} is in {folder}. When you have changed it:")
    print(f"    python3 tests/tools/changes.py record {name} {folder}")
    print("(another name there makes a new change of the same tree)")


def record(name: str, folder: str, root: Path = ROOT) -> None:
    kept = Kept(name, root)
    base = kept.base()
    hunks = changeform.record(base, read_edited(Path(folder), base, kept))
    if not hunks:
        raise Problem(f"{folder} is what {name} builds on: nothing was written")
    kept.write(hunks)
    print(f"wrote {kept.path.relative_to(root)}")


def read_edited(folder: Path, base: Tree, kept: Kept) -> Tree:
    """The texts of an edited tree, without what is built, without what is made anew each time, and without headers of
    common/ that are there because something includes them."""
    if not folder.is_dir():
        raise Problem(f"there is no folder {folder}")
    programs = kept.exercise.programs if kept.which else ()
    tree = {name: base[name] for name in KEPT if name in base}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in (*tree, *programs) or path.name.startswith("."):
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            print(f"{path} is no text and was left out", file=sys.stderr)
            continue
        for line in conflicts(text):
            raise Problem(f"{path}:{line}: a conflict is left here; resolve it first")
        header = kept.root / "common" / name
        if name in base or not header.exists() or header.read_text(encoding="utf-8") != text:
            tree[name] = text
    return tree


# ---- checking ----


def check(root: Path = ROOT) -> List[str]:
    """What is wrong with the changes: each must fit, and make something that no other change of the same tree makes."""
    found = [f"{path.relative_to(root)}: no file of an exercise is called that" for path in strays(root)]
    unfit: List[str] = []
    seen: Dict[object, Path] = {}
    bases: Dict[str, Tree] = {}  # what changes build on: the sources of a chapter for its faults, starters, solutions
    for kept in all_changes(root):
        if kept.below in unfit:
            unfit.append(kept.name)
            continue
        shown = kept.path.relative_to(root)
        try:
            under = kept.below or (kept.name if kept.which else kept.name[:2])
            base = bases[under] if under in bases else bases.setdefault(under, kept.base())
            tree = changeform.apply(base, kept.change())
            if kept.which.startswith("wrong/"):
                kept.exercise.wrong(kept.which[len("wrong/") :])
        except Problem as problem:
            found.append(str(problem))
            unfit.append(kept.name)
            continue
        bases[kept.name] = kept.exercise.with_headers(tree) if kept.which == "starter" else tree
        made = tuple(sorted((name, text) for name, text in tree.items() if text != base.get(name)))
        key = (kept.below or kept.name[:2] + kept.which, made)
        if tree == base:
            found.append(f"{shown}: changes nothing")
        elif key in seen:
            found.append(f"{shown}: makes the same as {seen[key]}")
        seen[key] = shown
    return found


def show_check() -> int:
    found = check()
    print("\n".join(found) or f"All {len(all_changes())} changes fit.")
    return len(found)


def strays(root: Path) -> List[Path]:
    """What lies in the folders of exercises and is none of theirs."""
    files = [path for path in root.glob("chapters/[0-9][0-9]/exercises/*/**/*") if path.is_file()]
    return [path for path in files if not OF_EXERCISE.fullmatch("/".join(path.relative_to(root).parts[4:]))]


# ---- carrying ----


def carry(rev: str = "HEAD", root: Path = ROOT) -> int:
    """Mends every change whose base is another than in the commit. Returns how many a person has to look at."""
    stuck: List[str] = []
    waiting: List[str] = []
    beside: List[str] = []
    carried = 0
    with tempfile.TemporaryDirectory() as was:
        if git(root, "archive", f"--output={was}/all.tar", rev).returncode:
            raise Problem(f"git knows no commit {rev}")
        shutil.unpack_archive(f"{was}/all.tar", was)
        for kept in all_changes(root):
            if kept.below in stuck + waiting:
                waiting.append(kept.name)
                continue
            try:
                carried += carry_one(Kept(kept.name, Path(was)), kept, rev, beside)
            except Problem as problem:
                print(problem)
                stuck.append(kept.name)
    if beside:
        print("These fit, but the source has changed right beside them. Look whether they still say what they mean:")
        print("".join(f"    {line}\n" for line in beside), end="")
        print("To change one: changes.py tree NAME DIR, edit DIR, then changes.py record NAME DIR.")
    if stuck:
        waits = f"; {len(waiting)} others wait for these" if waiting else ""
        print(f"To be decided: {', '.join(stuck)}{waits}. tests/changes.md says how to go on.")
    else:
        print(f"Faults and exercises: {carried or 'none'} had to be mended, all fit.")
    return len(stuck)


def carry_one(before: Kept, kept: Kept, rev: str, beside: List[str]) -> bool:
    """Mends one change; says whether that was needed. Problem where a person has to decide; `beside` gets the places
    where it still fits, next to something that has changed."""
    if not before.is_there():
        return False  # new, so it fits what is there now or the check tells
    was, base = before.base(), kept.base()
    if base == was:
        return False
    shown = kept.path.relative_to(kept.root)
    merged, places = merged_trees(was, before.tree(), base, ("now", f"in {rev}", kept.name))
    try:
        changeform.apply(base, kept.change())
        beside += [f"{kept.name}: {', '.join(places)}"] * bool(places)
        return False
    except Problem as problem:
        if kept.path.read_text(encoding="utf-8") != before.path.read_text(encoding="utf-8"):
            hint = f"{shown} is not as it is in {rev}: record it anew, or take that back and carry again."
            raise Problem(f"{problem}\n{hint}") from None
    if places:
        folder = kept.root / "build" / "changes" / kept.name
        shutil.rmtree(folder, ignore_errors=True)
        exercises.write_tree(merged, folder)
        here = folder.relative_to(kept.root)
        lines = "".join(f"\n    {here}/{place}: conflict" for place in places)
        raise Problem(
            f"{shown}: the source has changed where this does{lines}\n"
            f"    then: python3 tests/tools/changes.py record {kept.name} {here}"
        )
    kept.write(changeform.record(base, merged))
    print(f"{shown}: carried")
    return True


def merged_trees(was: Tree, mine: Tree, now: Tree, labels: Tuple[str, str, str]) -> Tuple[Tree, List[str]]:
    """What a change makes of `now` that made `mine` of `was`; and the places where that is for a person to say."""
    merged, places = dict(now), []
    for name in {**was, **mine}:
        old, ours, theirs = was.get(name), mine.get(name), now.get(name)
        if ours == old:
            continue
        if old != theirs and None in (old, ours, theirs):
            places.append(f"{name}, which came or went")
        elif ours is None:
            del merged[name]
        elif old is None or theirs is None:
            merged[name] = ours
        else:
            merged[name], _ = merge(theirs, old, ours, labels)
            places += [f"{name}:{line}" for line in conflicts(merged[name])]
    return merged, places


# ---- the command line ----


def main(argv: List[str]) -> int:
    os.umask(0o022)
    commands = {  # what is called, with how many words, from .. to
        "list": (show_list, 0, 1), "show": (show, 1, 1), "make": (make, 1, 1), "tree": (write_tree, 2, 2),
        "record": (record, 2, 2), "check": (show_check, 0, 0), "carry": (carry, 0, 1),
    }  # fmt: skip
    run, least, most = commands.get((argv or [""])[0], (None, 0, 0))
    if not run or not least <= len(argv) - 1 <= most:
        quit_with((__doc__ or "").strip())
    try:
        return min(1, run(*argv[1:]) or 0)
    except Problem as problem:
        quit_with(str(problem), 1)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader may leave, as head does
    sys.exit(main(sys.argv[1:]))
