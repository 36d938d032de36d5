"""Cases that several chapters share, one module a theme. A case is a function of the chapter.

    from cases import abuse, cases, framing

    @pytest.mark.parametrize("case", cases(7, framing, abuse))
    def test_network(case: Case) -> None:
        case(7)

gives chapter 07 every case of these modules (of all, where none is named) that holds for it, each as a test with the
case's name. `make test-07` and
`make test-all` run them all; `make test` leaves out what is carried, as harness/carried.py says.

A case looks at what `at` names, or else at what LOOKS_AT of its module does: functions, types, tables and constants,
under the names that any chapter gives them; where neither is there, at all of them. `do_*` stands for all that begin
so, `client.main` for that of client.c alone.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Callable, List, Optional, TypeVar

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


def cases(chapter: int, *modules: ModuleType) -> "List[object]":
    """The cases of the modules, or of all, that hold for the chapter, for pytest.mark.parametrize."""
    found: List[object] = []
    names = [] if modules else [f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)]
    for module in [*modules, *map(importlib.import_module, names)]:
        for name, function in vars(module).items():
            own = getattr(function, "__module__", "") == module.__name__
            if own and chapter in getattr(function, "chapters", ()):
                marks = function.marks + carried(chapter, function.chapters, function.looks_at)
                # unique where all are asked for
                id = name if modules else f"{module.__name__.rpartition('.')[2]}-{name}"
                found.append(pytest.param(function, id=id, marks=marks))
    assert found, f"chapter {chapter} has no case in {', '.join(m.__name__ for m in modules) or 'any module'}"
    return found
