"""Rewrites of a C function that change nothing that it does: decoys for a hunt (hunts.py).

    for function in rewrites(text):     the text of one function, as csource gives it
        ...                             the same function, written otherwise in one place

Each kind looks for a form that our style has and that can be told by its text alone: both sides of a comparison are
names or numbers, so nothing is evaluated twice or in another order; a name is changed where it is a local variable
that stands in no comment, no string and no macro which takes names of members.
"""
from __future__ import annotations

import re
from typing import Iterator

import csource

OPERAND = r"[A-Za-z_]\w*(?:(?:->|\.)\w+)*"
TURNED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
COMPARISON = re.compile(rf"(?<=if \()({OPERAND}) (==|!=|[<>]=?) ({OPERAND}|\d+)(?=\) \{{| &&| \|\|)")
NOT = re.compile(r"(?<=if \()!(\w+)(?=\) \{)")
ADDED = re.compile(rf"^( +)({OPERAND}) ([-+])= ({OPERAND}|\d+);$", re.M)
STEP = re.compile(r"(?<=; )(?:\+\+(\w+)|(\w+)\+\+)(?=\) \{)")
CONSTANT = r"    [a-z]\w* \w+ = (?:\d+|NULL|true|false);\n"
TWO = re.compile(rf"^({CONSTANT})({CONSTANT})", re.M)
LOCAL = r"(?:^ +|for \()(?:const )?(?:struct |enum )?[a-z]\w* \*?{}(?: = |;)"
NAMES = {
    "arr": "header", "connfd": "accepted", "end": "past", "ent": "record", "err": "reason", "fd": "descriptor",
    "found": "seen", "i": "k", "left": "rest", "len": "length", "link": "owner", "n": "count", "nargs": "given",
    "node": "member", "one": "yes", "p": "from", "pos": "place", "ready": "awake", "rv": "result", "size": "amount",
    "slot": "at", "start": "first",
}  # fmt: skip
TAKES_MEMBERS = re.compile(r"\b(container_of|offsetof|atomic_\w+)\b")


def rewrites(text: str) -> Iterator[str]:
    """The function, each time written otherwise in one place."""
    code = csource.strip(text)
    for found in COMPARISON.finditer(code):
        yield put(text, found, f"{found[3]} {TURNED[found[2]]} {found[1]}")
    for found in NOT.finditer(code):
        if re.search(rf"\*{found[1]}\b(?: =|[;,)])", code):
            yield put(text, found, f"{found[1]} == NULL")
    for found in ADDED.finditer(code):
        yield put(text, found, f"{found[1]}{found[2]} = {found[2]} {found[3]} {found[4]};")
    for found in STEP.finditer(code):
        yield put(text, found, f"{found[1] or found[2]} += 1")
    for found in TWO.finditer(code):
        yield put(text, found, found[2] + found[1])
    for old, new in NAMES.items():
        if re.search(LOCAL.format(old), code, re.M):
            yield from renamed(text, code, old, new)


def put(text: str, found: "re.Match[str]", new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def renamed(text: str, code: str, old: str, new: str) -> Iterator[str]:
    """The function with another name for a local variable, where that is safe."""
    word = re.compile(rf"\b{old}\b")
    only_in_code = len(word.findall(text)) == len(word.findall(code))
    free = not re.search(rf"\b{new}\b|\b(?:struct|enum) {old}\b", text)
    if only_in_code and free and not TAKES_MEMBERS.search(text):
        yield re.sub(rf"(?<![\w.>]){old}\b", new, text)
