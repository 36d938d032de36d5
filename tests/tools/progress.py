"""What a learner has done so far: my/.state, and how the lists look that show it."""
from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from exercises import Exercise
from layout import ROOT

BAR = 20  # columns
STARS = {1: "*", 2: "**", 3: "***", 4: "****"}


@dataclass
class State:
    """One exercise: hints seen, the best score, whether all tests were passed, which check was the latest (a count)."""

    hints: int = 0
    best: int = 0
    checked: int = 0
    passed: bool = False


class Notebook:
    """The states of all exercises, kept in a file. A file that cannot be read counts as empty."""

    def __init__(self, my: Path = ROOT / "my") -> None:
        self.my = my
        self.path = my / ".state"
        self.states: Dict[str, State] = {}
        self._read()

    def _read(self) -> None:
        self.states = {}
        try:
            for name, said in json.loads(self.path.read_text(encoding="utf-8")).items():
                known = {key: value for key, value in said.items() if key in State.__dataclass_fields__}
                self.states[name] = State(**known)
        except (OSError, ValueError, TypeError, AttributeError):
            self.states = {}

    def __getitem__(self, name: str) -> State:
        return self.states.setdefault(name, State())

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Changes are made in this block. Several checks may run at once, so the file is read anew and written while
        no other does; and as a whole, so that nothing can be half written."""
        self.my.mkdir(exist_ok=True)
        with open(self.my / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield
            fresh = self.path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps({name: asdict(state) for name, state in self.states.items()}, indent=1) + "\n")
            os.replace(fresh, self.path)

    def folder(self, exercise: Exercise) -> Path:
        return self.my / exercise.name

    def started(self, exercise: Exercise) -> bool:
        return self.folder(exercise).is_dir()

    def note(self, exercise: Exercise, score: int, passed: bool) -> None:
        """A check gave this score."""
        with self.changing():
            state = self[exercise.name]
            state.best, state.passed = max(state.best, score), state.passed or passed
            state.checked = 1 + max(each.checked for each in self.states.values())

    def word(self, exercise: Exercise) -> str:
        """passed, started, or nothing."""
        state = self.states.get(exercise.name, State())
        return "passed" if state.passed else "started" if self.started(exercise) else ""


def listing(exercises: List[Exercise], notebook: Notebook) -> str:
    """make exercises: a line each."""
    lines = [f"{'exercise':<28}{'':<9}{'points':>7}  {'':<5}{'min':>4}  kind     title"]
    chapter = ""
    for exercise in exercises:
        lines += [""] * (exercise.chapter != chapter)
        chapter = exercise.chapter
        best = notebook.states.get(exercise.name, State()).best
        points = f"{best or '-'}/{exercise.points}"
        lines.append(
            f"{exercise.name:<28}{notebook.word(exercise):<9}{points:>7}  {STARS[exercise.difficulty]:<5}"
            f"{exercise.minutes:>4}  {exercise.kind:<8} {exercise.title}"
        )
    return "\n".join(lines)


def bar(part: int, whole: int) -> str:
    """part of whole, drawn."""
    full = BAR * part // whole if whole else 0
    return "#" * full + "." * (BAR - full)


def drawing(exercises: List[Exercise], notebook: Notebook) -> str:
    """make progress: a bar for each chapter, and one for all."""
    lines = []
    for chapter in sorted({exercise.chapter for exercise in exercises}):
        lines.append(_row(chapter, [exercise for exercise in exercises if exercise.chapter == chapter], notebook))
    return "\n".join([*lines, _row("all", exercises, notebook)])


def _row(name: str, exercises: List[Exercise], notebook: Notebook) -> str:
    best = sum(min(notebook.states.get(e.name, State()).best, e.points) for e in exercises)
    most = sum(e.points for e in exercises)
    passed = sum(notebook.word(e) == "passed" for e in exercises)
    return f"  {name:<4} {bar(best, most)} {best:>4} of {most:>4} points, {passed} of {len(exercises)} passed"


def next_one(exercises: List[Exercise], notebook: Notebook) -> Optional[Exercise]:
    """The one to go on with: the latest that was checked and not passed, another that was started, or else the first
    that was not, by chapter and difficulty."""
    open_ones = [exercise for exercise in exercises if notebook.word(exercise) != "passed"]
    begun = [exercise for exercise in open_ones if notebook.started(exercise)]
    if begun:
        return max(begun, key=lambda exercise: notebook.states.get(exercise.name, State()).checked)
    return open_ones[0] if open_ones else None
