"""Cases, one module an idea. A case is a function of the chapter: it holds for that in which the idea comes, and in
the words of each later one.

    @pytest.mark.parametrize("case", new(7))
    def test_new(case: Case) -> None:
        case(7)

gives chapter 07 every case that it begins, each as a test with the names of module and case; earlier(7) gives those of
the chapters before that still hold. `make test-07` and `make test-all` run them all; `make test` leaves out what is
carried, as harness/carried.py says.

A case looks at what `at` names, or else at what LOOKS_AT of its module does: functions, types, tables and constants,
under the names that any chapter gives them; where neither is there, at all of them. `do_*` stands for all that begin
so, `client.main` for that of client.c alone.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Callable, List, Optional, Sequence, Tuple, TypeVar

import pytest

from harness.carried import OWN, carried
from harness.wire import RESP_FROM

assert OWN  # for the modules

Case = Callable[[int], None]
_F = TypeVar("_F", bound=Case)


def case(
    since: int, until: int = 99, *, but: int = 0, at: str = "", inside: bool = False,
    time_limit: Optional[float] = None, binary: bool = False, ours: str = "",
) -> Callable[[_F], _F]:  # fmt: skip
    """Marks a function as a case of the chapters from since to until, without the chapter `but`.

    at is what it looks at, where that is not what its module does; inside is for what looks inside this project's
    programs; time_limit is the test's own, in seconds. A case that is binary rests on the bytes of our own protocol,
    which ends where RESP begins. ours says why a case holds for our servers and not for Redis; where OURS of its module
    does, it holds for all of them.
    """

    def mark(function: _F) -> _F:
        nonlocal until
        until = min(until, RESP_FROM - 1) if binary else until
        function.__dict__["chapters"] = [chapter for chapter in range(since, until + 1) if chapter != but]
        function.__dict__["looks_at"] = at or getattr(sys.modules[function.__module__], "LOOKS_AT", "*")
        marks = [pytest.mark.inside] if inside else []
        marks += [pytest.mark.time_limit(time_limit)] if time_limit else []
        reason = ours or getattr(sys.modules[function.__module__], "OURS", "")
        marks += [pytest.mark.ours(reason)] if reason else []
        function.__dict__["marks"] = marks
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
    names = [f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)]
    for module in modules or map(importlib.import_module, names):
        for name, function in vars(module).items():
            own = getattr(function, "__module__", "") == module.__name__
            if own and chapter in getattr(function, "chapters", ()):
                marks = function.marks + carried(chapter, function.chapters, function.looks_at)
                id = name if modules else f"{module.__name__.rpartition('.')[2]}-{name}"
                found.append((pytest.param(function, id=id, marks=marks), min(function.chapters)))
    return found
