#!/usr/bin/env python3
"""Carries a change of one chapter's server.c and client.c through all later chapters.

    forward.py NN               what changed in chapter NN since the last commit (git HEAD)
    forward.py NN --base REV    what changed since that commit
    forward.py NN --from MM     goes on after a conflict in chapter MM has been resolved
    forward.py NN --dry-run     says what would happen and writes nothing

    make forward-NN [BASE=REV] [FROM=MM] [DRY=1]      the same; make hands them on as environment

Stage by stage, as a hand would do it: what chapter 06 became is carried into 07 by `git merge-file`
(base: 06 as it was in the commit), then what 07 became into 08, and so on. So a conflict that was
resolved in one chapter need not be resolved again in the next. It follows that

- running it again does no harm: what a chapter has already, it does not get twice;
- a change that a later chapter has of its own and that is not committed goes on from there, too;
- where a chapter has no use for the change (the code is gone there), the road ends.

It stops at the first chapter with a conflict, with git's markers in its file. At the end it mends the faults and
the exercises that no longer fit, as `changes.py carry` does. Nothing is committed: look at it with `git diff`,
run the tests, then commit. Exit status 1 for a conflict, 2 for a mistake.
"""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import changes
from changes import committed, conflicts, git, merge
from layout import PAIR, ROOT, Problem, chapter, chapters, quit_with


class Road:
    """The texts of all stages, as they were in the commit and as they become."""

    def __init__(self, root: Path, rev: str):
        self.root, self.rev = root, rev
        self.was: Dict[str, str] = {}
        self.now: Dict[str, str] = {}

    def load(self, path: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        old = committed(self.root, self.rev, path)
        self.now[path] = text
        self.was[path] = text if old is None else old  # a stage that was never committed

    def texts(self, path: str) -> Tuple[str, str]:
        if path not in self.now:
            self.load(path)
        return self.was[path], self.now[path]


def check_start(root: Path, rev: str, first: str) -> None:
    if git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}").returncode:
        raise Problem(f"git knows no commit {rev} here")
    for file in PAIR:
        path = f"chapters/{first}/{file}"
        if committed(root, rev, path) is None:
            raise Problem(f"{path} is not in {rev}: commit it first, or say which commit has it (BASE=REV)")
        left = conflicts((root / path).read_text(encoding="utf-8"))
        if left:
            raise Problem(f"{path}:{left[0]}: a conflict is left here; resolve it first")


def forward(root: Path, start: str, rev: str, resume: Optional[str], dry: bool) -> int:
    first = resume or start
    if resume and resume <= start:
        raise Problem(f"FROM names the chapter where it stopped, later than {start}")
    check_start(root, rev, first)
    road = Road(root, rev)
    known = chapters(root)
    stages = known[known.index(first) :]
    for here, there in zip(stages, stages[1:]):
        texts = {f: road.texts(f"chapters/{here}/{f}") for f in PAIR}
        changed = [f for f, (was, now) in texts.items() if was != now]
        if not changed:
            later = " or later ones" if there < known[-1] else ""
            print(f"Chapter {here} is as it is in {rev}: nothing to carry to chapter {there}{later}.")
            return 0
        if not all([step(road, here, there, file, dry) for file in changed]):
            written = [f"chapters/{c}" for c in stages[1 : stages.index(there) + 1]]
            tell_next(start, there, "" if rev == "HEAD" else f" BASE={rev}", written, dry)
            return 1
    if len(stages) == 1:
        print(f"Chapter {first} is the last one: there is nowhere to carry it.")
    elif dry:
        print(f"Up to chapter {stages[-1]} without a conflict. Nothing was written.")
    else:
        print(f"Carried to chapter {stages[-1]}. Look at it with `git diff`, and run `make test`.")
    return 0


def step(road: Road, here: str, there: str, file: str, dry: bool) -> bool:
    """Carries one file one chapter further. Returns whether there was no conflict."""
    source, target = f"chapters/{here}/{file}", f"chapters/{there}/{file}"
    base, theirs = road.texts(source)
    ours = road.texts(target)[1]
    left = conflicts(ours)
    if left:
        raise Problem(f"{target}:{left[0]}: a conflict is left here; resolve it, then FROM={there}")
    labels = (target, f"{source} in {road.rev}", f"{source} now")
    merged, clean = merge(ours, base, theirs, labels)
    if not dry and merged != ours:
        (road.root / target).write_text(merged, encoding="utf-8")
    road.now[target] = merged
    if clean:
        print(f"{target}: {'takes the change' if merged != ours else 'has it already'}")
        return True
    for line in conflicts(merged):
        print(f"{target}:{line}: conflict" + (" (in the text as it would be)" if dry else ""))
    return False


def tell_next(start: str, there: str, base: str, written: List[str], dry: bool) -> None:
    if dry:
        print(f"It would stop in chapter {there}. Nothing was written.")
        return
    print(
        f"It stops here. Edit the files in chapters/{there} until what stands between the markers\n"
        f"(<<<<<<< ||||||| ======= >>>>>>>) is what chapter {there} should have, and take the markers\n"
        f"out. Then go on with\n"
        f"    make forward-{start} FROM={there}{base}\n"
        f"or give it up, with all that is not committed in these folders:\n"
        f"    git checkout -- {' '.join(written)}"
    )


def main(argv: List[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Carries a change through all later chapters.")
    parser.add_argument("chapter")
    parser.add_argument("--base", default=os.environ.get("BASE") or "HEAD", metavar="REV")
    parser.add_argument("--from", dest="resume", default=os.environ.get("FROM"), metavar="MM")
    parser.add_argument("--dry-run", action="store_true", default=bool(os.environ.get("DRY")))
    args = parser.parse_args(argv)
    try:
        start = chapter(args.chapter, root)
        resume = chapter(args.resume, root) if args.resume else None
        status = forward(root, start, args.base, resume, args.dry_run)
        return status if status or args.dry_run else min(1, changes.carry(root, args.base))
    except Problem as problem:
        quit_with(str(problem))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
