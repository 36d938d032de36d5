"""Proposes the walk of a chapter: an order of small steps that all compile, as Markdown."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import book_edits
import book_steps
import book_units
from book_blocks import Block
from book_steps import Files, Step
from book_units import Unit
from layout import ROOT

WHOLE = 60  # lines up to which a new header is one step
SMALL = 24  # lines up to which neighbours that are new go into one step


@dataclass
class Op:
    """One change of a file. `units` are the new texts, `names` what they replace or what goes."""

    file: str
    verb: str
    units: List[Unit]
    names: List[str]
    provisional: bool = False
    last: bool = False  # only when all else is done

    @property
    def lines(self) -> int:
        return sum(unit.text.count("\n") + 1 for unit in self.units)


# ---- what has to happen to a file ----


def operations(file: str, old: Sequence[Unit], new: Sequence[Unit]) -> List[Op]:
    ops: List[Op] = []
    at = 0
    while at < len(new):
        unit = new[at]
        was = book_units.index_of(old, unit)
        follower = new[at + 1] if at + 1 < len(new) else None
        if was is None:
            run = [unit]
            if unit.kind in ("banner", "comment") and follower:
                next_was = book_units.index_of(old, follower)
                if next_was is None:
                    run.append(follower)
                elif old[next_was].text != follower.text:
                    ops.append(Op(file, "replace", [unit, follower], [book_units.label(old[next_was], old, new)]))
                    at += 2
                    continue
            ops.append(Op(file, "add", run, []))
            at += len(run)
            continue
        if old[was].text != unit.text:
            run, names = [unit], [book_units.label(old[was], old, new)]
            next_was = book_units.index_of(old, follower) if follower else None
            if unit.kind == "banner" and follower:
                if next_was is None:
                    run.append(follower)
                elif next_was == was + 1 and old[next_was].text != follower.text:
                    run.append(follower)
                    names.append(book_units.label(old[next_was], old, new))
            ops.append(Op(file, "replace", run, names))
            at += len(run)
            continue
        at += 1
    gone: List[List[Unit]] = []
    for number, unit in enumerate(old):
        if book_units.index_of(new, unit) is None:
            if gone and old[number - 1] is gone[-1][-1] and gone[-1][-1].kind in ("banner", "comment"):
                gone[-1].append(unit)
            else:
                gone.append([unit])
    # What calls others stands below them, so it goes first.
    ops += [Op(file, "remove", [], [book_units.label(u, old, new) for u in run]) for run in reversed(gone)]
    return ops


def new_file(file: str, final: Sequence[Unit]) -> List[Op]:
    """A file that is not there yet: whole where it is small, else its head and the rest one by one."""
    lines = book_units.join(final).count("\n")
    if lines <= WHOLE:
        return [Op(file, "new", list(final), [])]
    head = 1
    while head < len(final) and final[head].kind in ("includes", "constant", "enum", "directive"):
        head += 1
    return [Op(file, "new", list(final[:head]), [])] + operations(file, final[:head], final)


# ---- carrying out ----


def step_of(op: Op, files: Files, final: Files) -> Step:
    target = final[op.file]
    code = book_units.join(op.units)
    words = ["text" if op.verb == "remove" else "c", "step", op.file, op.verb]
    if op.verb == "add":
        now = files[op.file]
        words.append(",".join(book_units.label(u, target, now) for u in op.units))
        spot = book_units.index_of(target, op.units[0])
        before = [u for u in target[:spot] if book_units.index_of(now, u) is not None]
        words.append("after=" + book_units.label(now[book_units.index_of(now, before[-1])], target, now))
    elif op.verb in ("replace", "remove"):
        words.append(",".join(op.names))
    if op.verb == "remove":
        now = files[op.file]
        code = "".join(now[book_units.find(now, name, op.file)].signature + "\n" for name in op.names)
    if op.provisional:
        words.append("provisional")
    elif op.verb == "replace":
        now = files[op.file]
        first, last = (book_units.find(now, name, op.file) for name in (op.names[0], op.names[-1]))
        edit = book_edits.diff(book_units.join(now[first : last + 1]), code, f"{op.file}: {', '.join(op.names)}")
        if worth_it(edit, code):
            code, words[0], words[3] = edit, "diff", "edit"
    info = " ".join(words)
    block = Block(Path("skeleton.md"), 0, 0, info, code, code.count("\n"), words)
    return book_steps.parse(block)


def worth_it(edit: str, code: str) -> bool:
    """Is the edit shorter than the whole item, and does anything of it stay?"""
    return book_edits.shares(edit)[0] > 0 and edit.count("\n") - 1 < 1.5 * code.count("\n")


def attempt(ops: Sequence[Op], files: Files, final: Files) -> Tuple[Optional[Files], str, Files]:
    """(the files after these, "") where that compiles, else (None, what the compiler says)."""
    trial = {name: found for name, found in files.items()}
    try:
        for op in ops:
            book_steps.apply(step_of(op, trial, final), trial, final)
    except (book_steps.StepError, book_units.UnitError) as problem:
        return None, f"error: {problem}", trial
    for job in book_steps.compilations(trial, {op.file for op in ops}):
        text = book_steps.compile_one(job)
        if text:
            return None, text, trial
    return trial, "", trial


def related(text: str, trial: Files, group: Sequence[Op], pending: Sequence[Op]) -> Optional[Op]:
    """The pending operation that the compiler's first complaint asks for."""
    left = [op for op in pending if op not in group]
    for line in text.splitlines():
        found = re.match(r"([\w./]+):(\d+):\d+: (?:fatal )?error: (.*)", line)
        if not found:
            continue
        file, number, message = found.group(1), int(found.group(2)), found.group(3)
        for name in re.findall(r"'(?:struct |enum |union )?(\w+)'", message):
            for op in left:
                if op.verb != "remove" and any(name == u.name or name in u.members for u in op.units):
                    return op
        at = 0
        for unit in trial.get(file, []):
            at += unit.text.count("\n") + 1
            if number < at:
                for op in left:
                    if (
                        op.file == file
                        and any(u.same(unit) for u in op.units)
                        or op.file == file
                        and unit.label in op.names
                    ):
                        return op
                break
    return left[0] if left else None


def grow(seed: Op, pending: Sequence[Op], files: Files, final: Files, limit: int) -> Optional[List[Op]]:
    """The operations that must come together with this one; None where they are more than `limit`."""
    group = [seed]
    while len(group) <= limit:
        after, text, trial = attempt(group, files, final)
        if after is not None:
            return group
        more = related(text, trial, group, pending)
        if more is None:
            return None
        group.append(more)
        group.sort(key=pending.index)
    return None


def order(ops: List[Op], files: Files, final: Files) -> Tuple[List[List[Op]], Files]:
    """Groups of operations in an order in which each compiles: single ones wherever that can be."""
    pending, groups = list(ops), []
    while pending:
        chosen: Optional[List[Op]] = None
        for op in pending:
            if op.last and len(pending) > 1:
                continue
            if attempt([op], files, final)[0] is not None:
                chosen = [op]
                break
        if chosen is None:
            for op in pending:
                limit = len(chosen) - 1 if chosen else len(pending)
                chosen = grow(op, pending, files, final, limit) or chosen
                if chosen and len(chosen) == 2:
                    break
        if chosen is None:
            chosen = list(pending)
        for op in chosen:
            book_steps.apply(step_of(op, files, final), files, final)
        pending = [op for op in pending if op not in chosen]
        groups.append(chosen)
    return groups, files


def include_ops(file: str, ops: List[Op], files: Files, final: Files) -> List[Op]:
    """Where old includes are needed until the end, first has both old and new ones, for the time being."""
    for number, op in enumerate(ops):
        if op.verb == "replace" and op.units[-1].kind == "includes" and attempt([op], files, final)[0] is None:
            now = files[file]
            old = now[book_units.find(now, "includes", file)].text
            both = merge_includes(old, op.units[-1].text)
            extra = Op(file, "replace", [Unit("includes", "", both)], ["includes"], True)
            if both == old:
                ops[number : number + 1] = []
            else:
                ops[number] = extra
            return ops + [Op(file, "replace", op.units, op.names, False, True)]
    return ops


def merge_includes(old: str, new: str) -> str:
    """The includes of both, each part (<..> and "..") sorted as ours are."""
    lines = set(old.splitlines()) | set(new.splitlines())
    parts = [sorted(l for l in lines if "<" in l), sorted(l for l in lines if '"' in l)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def files_in_order(first: Files, final: Files) -> List[str]:
    """Headers that others need first, then labs, then the pair."""
    names = [n for n in final if n not in first or book_units.join(first[n]) != book_units.join(final[n])]
    texts = {n: book_units.join(final[n]) for n in final}
    headers = sorted((n for n in names if n.endswith(".h")), key=lambda n: (len(book_steps.closure(n, texts)), n))
    labs = sorted(n for n in names if n.endswith(".c") and n not in ("server.c", "client.c"))
    return headers + labs + [n for n in ("server.c", "client.c") if n in names]


def plan(first: Files, final: Files) -> List[List[Op]]:
    files = {name: list(found) for name, found in first.items()}
    groups: List[List[Op]] = []
    for file in files_in_order(first, final):
        if file in files:
            ops = include_ops(file, operations(file, files[file], final[file]), files, final)
        else:
            ops = new_file(file, final[file])
        found, files = order(ops, files, final)
        groups += merge_small(found, final)
    return groups


def merge_small(groups: List[List[Op]], final: Files) -> List[List[Op]]:
    """Puts new neighbours that are short into one step."""
    result: List[List[Op]] = []
    for group in groups:
        last = result[-1][0] if result and len(result[-1]) == 1 else None
        op = group[0]
        if len(group) == 1 and last and op.verb == "add" and last.verb in ("add", "new") and op.file == last.file:
            target = final[op.file]
            behind = book_units.index_of(target, last.units[-1])
            if book_units.index_of(target, op.units[0]) == behind + 1:
                head = last.verb == "new" and op.units[0].kind in ("type", "variable", "table", "constant")
                if last.lines + op.lines <= (WHOLE - 10 if head else SMALL):
                    result[-1] = [Op(op.file, last.verb, last.units + op.units, [])]
                    continue
        result.append(group)
    return result


# ---- printing ----


def sentence(step: Step, op: Op) -> str:
    file, names = step.file, [said(name) for name in op.names]
    shown = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1] if names else ""
    if op.verb == "new":
        return f"A new file, `{file}`:"
    if op.verb == "add":
        return f"In `{file}`, after {said(step.after)}:"
    if op.verb == "remove":
        return f"In `{file}`, {shown} can go:"
    return f"In `{file}`, {shown} {'become' if len(names) > 1 or op.names == ['includes'] else 'becomes'}:"


def between(files: Files, target: Files, final: Optional[Files] = None) -> str:
    """The blocks that lead from some files to others, file by file, whether each step compiles or not.

    What is not as in `final` is marked provisional."""
    final = final or target
    out: List[str] = []
    now = {name: list(found) for name, found in files.items()}
    for file in target:
        ops = operations(file, now[file], target[file]) if file in now else new_file(file, target[file])
        for op in ops:
            step = step_of(op, now, target)
            book_steps.apply(step, now, target)
            info = step.block.info
            if step.verb in ("new", "add", "replace") and any(u not in final.get(file, []) for u in op.units):
                info += " provisional"
            out += [sentence(step, op), "", f"```{info}", step.block.code.rstrip("\n"), "```", ""]
    return "\n".join(out)


def said(name: str) -> str:
    """A name as a sentence has it."""
    kind, _, plain = name.rpartition(":")
    if kind in ("banner", "comment"):
        return f"the {kind} *{plain.replace('-', ' ')}*"
    return {"top": "the opening comment", "includes": "the includes"}.get(name, f"`{plain}`")


def markdown(name: str, root: Path = ROOT) -> str:
    """The walk of a chapter, with a placeholder for each sentence."""
    first, final = book_steps.start(name, root), book_steps.stage(name, root)
    out = ["## The walk", ""]
    files = {n: list(found) for n, found in first.items()}
    heading = ""
    for group in plan(first, final):
        if group[0].file != heading:
            heading = group[0].file
            out += [f"### {heading}", ""]
        if len(group) > 1:
            out += [f"The next {len(group)} edits go together; compile after the last.", ""]
        for number, op in enumerate(group):
            step = step_of(op, files, final)
            book_steps.apply(step, files, final)
            info = step.block.info + (" with-next" if number < len(group) - 1 else "")
            out += [sentence(step, op), "", f"```{info}", step.block.code.rstrip("\n"), "```", ""]
    return "\n".join(out)
