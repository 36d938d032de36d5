"""Writes steps: the blocks that lead from some programs to others, for the author to order, split and explain."""
from __future__ import annotations

from typing import Iterator, List, Sequence, Tuple

import sources
from book_steps import Files, edit, place
from sources import Unit

WHOLE = 60  # lines up to which a new file is one step
HEAD = ("top", "includes", "constant", "group", "directive")  # what the first step of a longer one holds


def record(files: Files, target: Files, final: Files) -> str:
    """The blocks file by file, headers first; whether each compiles is not looked at.

    What is not as in `final` is marked provisional."""
    out: List[str] = []
    gone = [file for file in files if file not in target and file not in final]
    for file in [*sorted(target, key=lambda name: name.endswith(".c")), *gone]:
        wanted = target.get(file, [])
        if file in files:
            now, blocks = list(files[file]), []
        else:
            now = beginning(wanted)
            blocks = [(f"c step {file} new", sources.join(now), now)]
        for info, code, units in [*blocks, *steps(file, now, wanted)]:
            provisional = any(unit not in final.get(file, []) for unit in units)
            out.append(f"```{info}{' provisional' * provisional}\n{code}```\n")
    return "\n".join(out)


def beginning(wanted: Sequence[Unit]) -> List[Unit]:
    """What the first step of a new file holds: all of it where that is short."""
    if sources.join(wanted).count("\n") <= WHOLE:
        return list(wanted)
    return list(wanted[: next((at for at, unit in enumerate(wanted) if unit.kind not in HEAD), 1)])


def steps(file: str, now: List[Unit], wanted: Sequence[Unit]) -> Iterator[Tuple[str, str, List[Unit]]]:
    """The steps that make `wanted` of `now`: info string, code, and the units that are written whole."""
    olds = sources.partners(now, wanted)
    before, stay = list(now), sources.staying(len(now), olds)
    for at, old in enumerate(before):  # what moves, or is in a list soon, or in none
        if at not in stay and any(sources.alike(old, unit) for unit in wanted):
            yield f"text step {file} remove {sources.label(old, now, wanted)}", old.signature + "\n", []
            now.remove(old)
    for unit, at in zip(wanted, olds):  # what a list loses is in another soon
        if at in stay and sources.alike(before[at], unit) < len(before[at].members):
            yield changed(file, now, now.index(before[at]), unit, wanted)
    run: List[Unit] = []  # new ones that go into one step: a banner is nothing by itself
    for at, unit in enumerate(wanted):
        was = sources.index_of(now, unit)
        if was is None:
            run.append(unit)
            following = wanted[at + 1 : at + 2]
            if unit.kind in ("banner", "comment") and following and sources.index_of(now, following[0]) is None:
                continue
            above = wanted[at - len(run)]
            spot = sources.index_of(now, above)
            assert spot is not None
            now[spot + 1 : spot + 1] = run
            names = ",".join(sources.label(each, now, wanted) for each in run)
            after = sources.label(above, now, wanted)
            yield f"c step {file} add {names} after={after}", f"{place(file, after)}\n{sources.join(run)}", run
            run = []
        elif now[was].text != unit.text:
            yield changed(file, now, was, unit, wanted)
    for unit in reversed([unit for unit in now if sources.index_of(wanted, unit) is None]):
        yield f"text step {file} remove {sources.label(unit, now, wanted)}", unit.signature + "\n", []


def changed(file: str, now: List[Unit], at: int, unit: Unit, wanted: Sequence[Unit]) -> Tuple[str, str, List[Unit]]:
    """The step that makes this unit of one that is there."""
    name = sources.label(now[at], now, wanted)
    old, now[at] = now[at], unit
    return f"diff step {file} edit {name}", edit(old.text, unit.text, f"{file}: {name}"), []
