#!/usr/bin/env python3
"""Carries a change of one chapter's server and client through all later chapters.

    make forward-NN            what changed in chapter NN since the last commit (git HEAD)
    make forward-NN FROM=MM    goes on after a conflict in chapter MM has been resolved

Stage by stage, as a hand would do it: what chapter 06 became is carried into 07 by `git merge-file`
(base: 06 as it was in the commit), then what 07 became into 08, and so on. So a conflict that was
resolved in one chapter need not be resolved again in the next. It follows that

- running it again does no harm: what a chapter has already, it does not get twice;
- a change that a later chapter has of its own and that is not committed goes on from there, too;
- where a chapter has no use for the change (the code is gone there), the road ends.

Where the next chapter has no such file, since server.c became the files of src/, each function goes to the file that
has it there, `static` or not. What is nowhere, or new, or speaks of a variable that is gone there, is named: that is to
be done by hand.

It stops at the first chapter with a conflict, with git's markers in its file. At the end it mends the faults and
the exercises that no longer fit, as `changes.py carry` does. Nothing is committed: look at it with `git diff`,
run the tests, then commit. Exit status 1 for a conflict, 2 for a mistake.
"""
from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import changes
import sources
import stages
from changes import committed, conflicts, git, merge
from layout import ROOT, Problem, chapter, chapters, pair_of, quit_with, server_of
from sources import Unit, without_static


def as_committed(root: Path, name: str) -> Dict[str, str]:
    """Server and client of a chapter by their paths, as they were; as they are where it was never committed."""
    paths = [f"chapters/{name}/{file}" for file in pair_of(name, root)]
    was = {path: committed(root, "HEAD", path) for path in paths}
    return {path: text or "" if any(was.values()) else read(root, path) for path, text in was.items()}


def read(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""


def check_start(root: Path, first: str) -> None:
    if git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
        raise Problem("there is no commit yet: what changed is what is not committed")
    for file in pair_of(first, root):
        path = f"chapters/{first}/{file}"
        if committed(root, "HEAD", path) is None and not file.startswith("src/"):
            raise Problem(f"{path} is not in HEAD: commit it first")
        for line in conflicts(read(root, path))[:1]:
            raise Problem(f"{path}:{line}: a conflict is left here; resolve it first")


def forward(root: Path, start: str, resume: Optional[str]) -> int:
    first = resume or start
    if resume and resume <= start:
        raise Problem(f"FROM names the chapter where it stopped, later than {start}")
    check_start(root, first)
    known = chapters(root)
    road = known[known.index(first) :]
    before = {name: as_committed(root, name) for name in road}
    for here, there in zip(road, road[1:]):
        changed = [path for path, was in before[here].items() if read(root, path) != was]
        if not changed:
            later = " or later ones" if there < known[-1] else ""
            print(f"Chapter {here} is as it is in HEAD: nothing to carry to chapter {there}{later}.")
            return 0
        for path in before[there]:
            for line in conflicts(read(root, path))[:1]:
                raise Problem(f"{path}:{line}: a conflict is left here; resolve it, then FROM={there}")
        if not all([step(root, there, path, before[here][path]) for path in changed]):
            tell_next(start, there, [f"chapters/{name}" for name in road[1 : road.index(there) + 1]])
            return 1
    if len(road) == 1:
        print(f"Chapter {first} is the last one: there is nowhere to carry it.")
    else:
        print(f"Carried to chapter {road[-1]}. Look at it with `git diff`, and run `make test`.")
    return 0


def step(root: Path, there: str, source: str, base: str) -> bool:
    """Carries one file one chapter further. Returns whether there was no conflict."""
    file, theirs = source.split("/", 2)[2], read(root, source)
    target = f"chapters/{there}/{file}"
    if (root / target).exists() or (base == "" and file.startswith("src/")):
        return put(root, target, merge(read(root, target), base, theirs, labels(target, source))[0])
    return by_unit(root, there, source, base, theirs)


def labels(target: str, source: str) -> Tuple[str, str, str]:
    return target, f"{source} in HEAD", f"{source} now"


def put(root: Path, path: str, text: str) -> bool:
    """Writes a file, and says what that was. Returns whether there is no conflict in it."""
    news = text != read(root, path)
    if news:
        (root / path).write_text(text, encoding="utf-8")
    for line in conflicts(text):
        print(f"{path}:{line}: conflict")
    if not conflicts(text):
        print(f"{path}: {'takes the change' if news else 'has it already'}")
    return not conflicts(text)


# ---- to another file ----


def by_unit(root: Path, there: str, source: str, base: str, theirs: str) -> bool:
    """Carries what changed to the files that have it in that chapter."""
    files = {path: read(root, path) for path in (f"chapters/{there}/{file}" for file in server_of(there, root))}
    wanted, fine = dict(files), True
    was, now = ({item.key: raw(text, item) for item in items(text, source)} for text in (base, theirs))
    known = {item.name for path, text in files.items() for item in items(text, path)}
    state = [name for kind, name in now if kind == "variable" and name not in known]
    for key in [key for key in {**was, **now} if was.get(key) != now.get(key)]:
        old, new = was.get(key, ""), now.get(key, "")
        places = [(p, raw(text, item)) for p, text in files.items() for item in items(text, p) if item.key == key]
        lines = "\n".join(line for line in new.splitlines() if line not in old.splitlines())
        lacking = [name for name in state if re.search(rf"\b{name}\b", lines)]
        if without_static(new) in [without_static(text) for _, text in places] or not (new or places):
            print(f"chapters/{there}: has `{key[1]}` as it is now")
        elif old and new and len(places) == 1 and not lacking:
            path, ours = places[0]
            if without_static(ours) == ours:
                old, new = without_static(old), without_static(new)
            wanted[path] = wanted[path].replace(ours, merge(ours, old, new, labels(path, source))[0], 1)
        else:
            change = "has changed" if old and new else "is new" if new else "is gone"
            where = " and ".join(path for path, _ in places) or "nowhere"
            where += "".join(f", and `{name}` nowhere" for name in lacking)
            print(f"{source}: {key[0]} `{key[1]}` {change}; in chapter {there} it is {where}: see to that by hand")
            fine = False
    return all([put(root, path, text) for path, text in wanted.items() if text != files[path]]) and fine


def items(text: str, path: str) -> List[Unit]:
    return sources.parse(text, path).of_kind(*sources.DECLARED, *stages.ADDED_FREELY)


def raw(text: str, item: Optional[Unit]) -> str:
    """Its lines, of a constant with the comma."""
    return "".join(text.splitlines(True)[item.first - 1 : item.last]) if item else ""


def tell_next(start: str, there: str, written: List[str]) -> None:
    print(
        f"It stops here. Edit the files in chapters/{there} until what stands between the markers\n"
        f"(<<<<<<< ||||||| ======= >>>>>>>) is what chapter {there} should have, and take the markers\n"
        f"out. Then go on with\n"
        f"    make forward-{start} FROM={there}\n"
        f"or give it up, with all that is not committed in these folders:\n"
        f"    git checkout -- {' '.join(written)}"
    )


def main(argv: List[str], root: Path = ROOT) -> int:
    try:
        if len(argv) != 1:
            raise Problem("usage: [FROM=MM] forward.py NN")
        start, resume = chapter(argv[0], root), os.environ.get("FROM")
        done = forward(root, start, chapter(resume, root) if resume else None)
        return done or min(1, changes.carry("HEAD", root))
    except (Problem, sources.Unreadable) as problem:
        quit_with(str(problem))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
