"""Cases. A case is a function of the chapter: it holds for that which begins it, and in the words of each later one.
Those of a chapter's own idea stand in its test_NN.py; those that many chapters share, and those of 17 and later, here,
one module an idea.

    @pytest.mark.parametrize("case", new(7))
    def test_new(case: Case) -> None:
        case(7)

gives chapter 07 every case that it begins, each as a test with the names of its file and its own; earlier(7) gives
those of the chapters before that still hold. `make test-07` and `make test-all` run them all; `make test` runs a case
in the chapter that begins it and in the last that has it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Callable, List, Optional, Sequence, Tuple, TypeVar, Union

import pytest

from harness.settings import ROOT, between
from harness.wire import RESP_FROM

Case = Callable[[int], None]
_F = TypeVar("_F", bound=Case)
_G = TypeVar("_G", bound=Callable[..., None])

# Likely causes that several share.
CLIENT = (
    "of the client: replies go to standard output, one line about what went wrong to standard error; then it ends "
    "with status 1, otherwise with 0. book/protocol.md says the rest, under Clients."
)
COUNTED = (
    "INFO counts while things happen: look where the counter goes up, and whether a key is looked up twice for one "
    "command"
)
SPINS = (
    "is the timeout of poll() or epoll_wait() what is left until the next thing is due, rounded up to a millisecond, "
    "and -1 where nothing is?"
)
SHARES = "a turn does a part of a client's work, then others have theirs: what is left is done in the next round"


def case(
    since: int, until: int = 99, *, but: Union[int, Tuple[int, ...]] = (), each: bool = False, files: bool = False,
    inside: bool = False, time_limit: Optional[float] = None, binary: bool = False, ours: str = "", perhaps: str = "",
) -> Callable[[_F], _F]:  # fmt: skip
    """Marks a function as a case of the chapters from since to until, without the chapter, or those, of `but`.

    each is for what looks at files that every chapter has of its own; files for what holds where the server is many
    files, in src/; inside for what looks inside this project's
    programs; time_limit is the test's own, in seconds. A case that is binary rests on the bytes of our own protocol,
    which ends where RESP begins. ours says why a case holds for our servers and not for Redis; where OURS of its module
    does, it holds for all of them. perhaps is a likely cause of a failure that has none of its own; where a case has
    none, PERHAPS of its module is.
    """

    def mark(function: _F) -> _F:
        nonlocal until
        until = min(until, RESP_FROM - 1) if binary else until
        function.__dict__["chapters"] = [
            chapter for chapter in range(since, until + 1)
            if chapter not in (but if isinstance(but, tuple) else (but,))
            and (not files or (ROOT / f"chapters/{chapter:02}/src").exists())
        ]  # fmt: skip
        function.__dict__["each"] = each
        function.__dict__["perhaps"] = perhaps
        marks = [pytest.mark.inside] if inside else []
        marks += [pytest.mark.time_limit(time_limit)] if time_limit else []
        reason = ours or getattr(sys.modules[function.__module__], "OURS", "")
        marks += [pytest.mark.ours(reason)] if reason else []
        function.__dict__["marks"] = marks
        return function

    return mark


def perhaps(words: str) -> Callable[[_G], _G]:
    """Marks a test that is no case with a likely cause of its failures."""

    def mark(function: _G) -> _G:
        function.__dict__["perhaps"] = words
        return function

    return mark


def new(chapter: int) -> "List[object]":
    """The cases that the chapter begins, for pytest.mark.parametrize."""
    return [each for each, begins in _holding(chapter) if begins == chapter]


def earlier(chapter: int) -> "List[object]":
    """The cases of earlier chapters that hold for this one, for pytest.mark.parametrize."""
    return [each for each, begins in _holding(chapter) if begins < chapter]


def cases(chapter: int, *modules: ModuleType) -> "List[object]":
    """The cases of these modules that hold for the chapter."""
    return [each for each, _ in _holding(chapter, modules)]


def _holding(chapter: int, modules: Sequence[ModuleType] = ()) -> "List[Tuple[object, int]]":
    """The cases of the modules, or of all, that hold for the chapter, and the chapter that begins each."""
    found: "List[Tuple[object, int]]" = []
    own = sorted(path.stem for path in Path(__file__).parents[1].glob("test_[0-9][0-9].py"))
    names = [name for name in own if int(name[5:]) <= chapter]
    names += [f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)]
    for module in modules or map(importlib.import_module, names):
        for name, function in _of_module(module, len(vars(module))):
            if chapter in function.chapters:
                skipped = between(chapter, function.chapters) and not function.each
                marks = function.marks + [pytest.mark.between] * skipped
                id = name if modules else f"{re.split('[._]', module.__name__, maxsplit=1)[1]}-{name}"
                found.append((pytest.param(function, id=id, marks=marks), min(function.chapters)))
    return found


@functools.lru_cache(maxsize=None)
def _of_module(module: ModuleType, size: int) -> "List[Tuple[str, Case]]":
    """The cases that the module defines; `size` is how many names it has so far, while it is imported."""
    return [(name, each) for name, each in vars(module).items()
            if getattr(each, "__module__", "") == module.__name__ and hasattr(each, "chapters")]  # fmt: skip
