"""Is what was handed in for a hunt the chapter's own file? A hunt has decoys (decoys.py): functions that are written
otherwise than in the chapter, and right. Who has looked for the fault leaves them alone; a copy has none of them.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, List

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import csource  # noqa: E402
from changeform import Tree  # noqa: E402
from exercises import Exercise  # noqa: E402


def functions(text: str, name: str) -> Dict[str, str]:
    return {item.name: item.text for item in csource.parse(text, name).items if item.kind == "function"}


def bare(text: str) -> List[str]:
    """The words of some C code: comments, blanks and new lines make no difference."""
    return re.findall(r"\w+|[^\w\s]", re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S))


def from_the_book(handed: Tree, given: Tree, right: Tree, sound: Tree) -> List[str]:
    """The files that had the fault and in which every decoy is written as in the chapter (`sound`) again: what was
    handed in is the chapter's file, or a copy of it with changes elsewhere."""
    found = []
    for name in sound:
        if given[name] == right[name] or not name.endswith((".c", ".h")):
            continue
        theirs, ours = functions(right[name], name), functions(sound[name], name)
        altered = [function for function in ours if theirs[function] != ours[function]]
        try:
            has = functions(handed.get(name, ""), name)
            same = all(bare(has.get(function, "")) == bare(ours[function]) for function in altered)
        except csource.Unreadable:  # not laid out as ours is
            same = bare(handed[name]) == bare(sound[name])
        found += [name] * same
    return found


def of_the_chapter(handed: Tree, exercise: Exercise) -> List[str]:
    """The files of a public hunt in which all that is otherwise in the starter is as in the chapter: the fault, and
    every decoy. Nothing is said of an exercise that has no decoys."""
    if "-hunt-" not in exercise.name:
        return []
    starter, found = exercise.starter(), []
    for name, text in exercise.stage().items():
        if starter.get(name, text) == text or not name.endswith((".c", ".h")):
            continue
        given, ours = functions(starter[name], name), functions(text, name)
        altered = [function for function in ours if given.get(function) != ours[function]]
        try:
            has = functions(handed.get(name, ""), name)
            same = all(bare(has.get(function, "")) == bare(ours[function]) for function in altered)
        except csource.Unreadable:  # not laid out as ours is
            same = bare(handed[name]) == bare(text)
        found += [name] * (same and len(altered) > 1)
    return found
