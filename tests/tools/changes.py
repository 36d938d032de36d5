#!/usr/bin/env python3
"""All changes that the workbook keeps: the faults of tests/broken/ and the trees of the exercises.

    changes.py list [WORD]       their names; with a word, those that have it in their name or text
    changes.py show NAME         one of them as a unified diff
    changes.py tree NAME DIR     writes what it makes into the folder DIR, to be edited
    changes.py record NAME DIR   writes down anew what makes DIR of what NAME builds on; NAME may be new
    changes.py check [NAME ...]  do they fit, and is none like another?
    changes.py carry [REV]       after a change of stages or headers since REV (HEAD): mends all that no longer fit
    changes.py make FAULT        builds the programs with that fault, and prints the line that runs the test which fails
                                 for them

NAME is NN-slug for a fault, NN-slug/starter, NN-slug/solution or NN-slug/wrong/NAME for a tree of an exercise.
tests/changes.md describes the form, and what to do where carry stops.
"""
from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
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
MARKER = re.compile(r"^(<{7}|\|{7}|={7}|>{7})( |$)", re.M)
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
        raise Problem(f"there is no change {name}{f', did you mean {near}?' if near else ''} (changes.py list)")
    return known[name]


# ---- git ----


def git(root: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    try:
        command = ["git", "-C", str(root), *args]
        return subprocess.run(command, capture_output=True, encoding="utf-8")
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
    lines = [text.count("\n", 0, m.start()) + 1 for m in MARKER.finditer(text)]
    begins = [text.count("\n", 0, m.start()) + 1 for m in re.finditer(r"^<{7} ", text, re.M)]
    return begins or lines[:1]


# ---- looking ----


def show_list(word: str = "") -> int:
    for kept in all_changes():
        head = "".join(f"    {line}\n" for line in kept.change().head if line)
        if word in f"{kept.name}\n{kept.path.read_text(encoding='utf-8')}":
            print(f"{kept.name}\n{head}", end="")
    return 0


def show(name: str) -> int:
    kept = find(name)
    print(changeform.unified(kept.base(), kept.tree()), end="")
    return 0


def make(name: str) -> int:
    fault, folder = faults.read(name), ROOT / "build" / "broken" / name
    line = test_line(fault, folder)
    subprocess.run(["make", "-s", "-C", str(ROOT), f"build-{fault.chapter}"], check=True)
    print(f"built {', '.join(faults.build(fault, folder, ROOT / 'build' / 'test'))}; the test that must fail:")
    print(line)
    return 0


def test_line(fault: faults.Fault, folder: Path) -> str:
    """What runs the test of a fault, with a Python that has pytest: the first on PATH need not."""
    found = subprocess.run(["sh", str(ROOT / "tests/tools/findpython.sh"), "pytest"], capture_output=True, text=True)
    if found.returncode:
        raise Problem(found.stderr.strip())
    variables = " ".join(f"{k}={shlex.quote(v)}" for k, v in faults.environment(folder, fault.hurry).items())
    return f"{variables} {shlex.join([found.stdout.strip(), '-m', 'pytest', *fault.test])}"


# ---- writing ----


def write_tree(name: str, folder: str) -> int:
    if Path(folder).exists() and any(Path(folder).iterdir()):
        raise Problem(f"{folder} is not empty")
    kept = find(name)
    exercises.write_tree(kept.exercise.tree(kept.which) if kept.which else kept.tree(), Path(folder))
    print(f"{name} is in {folder}. When you have changed it:")
    print(f"    python3 tests/tools/changes.py record {name} {folder}")
    print("(another name there makes a new change of the same tree)")
    return 0


def record(name: str, folder: str, root: Path = ROOT) -> int:
    kept = Kept(name, root)
    base = kept.base()
    edited = read_edited(Path(folder), base, kept)
    hunks = changeform.record(base, edited)
    if not hunks:
        raise Problem(f"{folder} is what {name} builds on: nothing was written")
    kept.write(hunks)
    print(f"wrote {kept.path.relative_to(root)}")
    return 0


def read_edited(folder: Path, base: Tree, kept: Kept) -> Tree:
    """The texts of an edited tree, without what is built, without what is made anew each time, and without headers of
    common/ that are there because something includes them."""
    if not folder.is_dir():
        raise Problem(f"there is no folder {folder}")
    programs = kept.exercise.programs if kept.which else ()
    tree = {name: base[name] for name in KEPT if name in base}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in (*tree, *programs) and not path.name.startswith("."):
            try:
                text = path.read_bytes().decode("utf-8")
            except UnicodeDecodeError:
                print(f"{path} is no text and was left out", file=sys.stderr)
                continue
            header = kept.root / "common" / name
            if name in base or not header.exists() or header.read_text(encoding="utf-8") != text:
                tree[name] = text
                left = conflicts(text)
                if left:
                    raise Problem(f"{path}:{left[0]}: a conflict is left here; resolve it first")
    return tree


# ---- checking ----


def check(names: List[str], root: Path = ROOT) -> List[str]:
    """What is wrong with the changes: each must fit, and make something that no other change of the same tree makes."""
    found = [f"{path.relative_to(root)}: no file of an exercise is called that" for path in strays(root)]
    unfit: List[str] = []
    seen: Dict[Tuple[str, Tuple[Tuple[str, str], ...]], str] = {}
    for kept in all_changes(root):
        if names and kept.name not in names or kept.below in unfit:
            unfit += [kept.name] * (kept.below in unfit)
            continue
        try:
            base, tree = kept.base(), kept.tree()
            if kept.which.startswith("wrong/"):
                kept.exercise.wrong(kept.which[len("wrong/") :])
        except Problem as problem:
            found.append(str(problem))
            unfit.append(kept.name)
            continue
        shown = str(kept.path.relative_to(root))
        made = tuple(sorted((name, text) for name, text in tree.items() if text != base.get(name)))
        key = (kept.name[:2] if not kept.which else kept.name.partition("/")[0], made)
        if tree == base:
            found.append(f"{shown}: changes nothing")
        elif kept.which not in ("starter", "solution") and key in seen:
            found.append(f"{shown}: makes the same as {seen[key]}")
        seen[key] = shown
    return found


def strays(root: Path) -> List[Path]:
    """What lies in the folders of exercises and is none of theirs."""
    files = [path for path in root.glob("chapters/[0-9][0-9]/exercises/*/**/*") if path.is_file()]
    return [path for path in files if not OF_EXERCISE.fullmatch("/".join(path.relative_to(root).parts[4:]))]


# ---- carrying ----


def at_commit(root: Path, rev: str, folder: Path) -> None:
    """Writes the sources and changes as they are in a commit into the folder."""
    present = [name for name in ("chapters", "common", "tests/broken") if committed(root, rev, name) is not None]
    command = ["git", "-C", str(root), "archive", rev, *present]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise Problem(f"git archive: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder)


def carry(root: Path, rev: str) -> int:
    """Mends every change whose base is another than in the commit. Returns how many a person has to look at."""
    kept_ones, stuck, waiting, carried = all_changes(root), [], [], 0
    beside: List[str] = []
    with tempfile.TemporaryDirectory() as was:
        at_commit(root, rev, Path(was))
        for kept in kept_ones:
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
    elif kept_ones:
        print(f"Faults and exercises: {carried or 'none'} had to be mended, all fit.")
    return len(stuck)


def carry_one(before: Kept, kept: Kept, rev: str, beside: List[str]) -> bool:
    """Mends one change; says whether that was needed. Problem where a person has to decide; `beside` gets the places
    where it still fits, next to something that has changed."""
    if not before.is_there() or not kept.is_there():
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
            places += [f"{name}:{line} ({function_at(merged[name], line)})" for line in conflicts(merged[name])]
    return merged, places


def function_at(text: str, line: int) -> str:
    """What begins in column 0 and is in the conflict that begins on this line, or else last above it."""
    rows = text.split("\n")
    size = next((i for i, row in enumerate(rows[line:]) if row.startswith("|||||||")), 0)
    found = [row for row in [*rows[line : line + size], *reversed(rows[:line])] if re.match(r"[A-Za-z]", row)]
    name = re.search(r"(\w+)\s*\(", found[0]) if found else None
    return f"{name[1]}()" if name else found[0].rstrip(" {") if found else "the top"


# ---- the command line ----


def main(argv: List[str]) -> int:
    os.umask(0o022)
    command, words = (argv or [""])[0], argv[1:]
    try:
        if command == "list" and len(words) <= 1:
            return show_list(*words)
        if command == "check":
            found = check([find(word).name for word in words])
            print("\n".join(found) or f"All {len(words) or len(all_changes())} changes fit.")
            return 1 if found else 0
        if command == "carry" and len(words) <= 1:
            return 1 if carry(ROOT, *(words or ["HEAD"])) else 0
        if command in ("show", "make") and len(words) == 1:
            return {"show": show, "make": make}[command](*words)
        if command in ("tree", "record") and len(words) == 2:
            return {"tree": write_tree, "record": record}[command](*words)
    except Problem as problem:
        quit_with(str(problem), 1)
    quit_with((__doc__ or "").strip())


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader may leave, as head does
    sys.exit(main(sys.argv[1:]))
