#!/usr/bin/env python3
"""What learners do with exercises.

    learner.py start NN-slug           copies the starter to my/NN-slug; overwrites nothing
    learner.py check NN-slug [-- ...]  builds and grades my/NN-slug; what follows -- goes to pytest
    learner.py watch NN-slug           checks at every save
    learner.py hint NN-slug            shows the next hint
    learner.py solution NN-slug        shows the solution, once all tests were passed or with INSIST=yes
    learner.py reset NN-slug           puts the work aside and begins anew
    learner.py list | progress | next

Learners type make start-NN-slug and so on; make help lists that.
"""
from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

import changeform  # noqa: E402
import exercises  # noqa: E402
import pristine  # noqa: E402
from exercises import Exercise  # noqa: E402
from layout import ROOT, Problem, quit_with  # noqa: E402

MY = ROOT / "my"
LOOK_EVERY = 0.3  # seconds, for watch
BAR = 20  # columns
# Files in my/: for editors (clangd), and for a git repository of the learner's own.
FOR_TOOLS = {
    "compile_flags.txt": "-std=gnu11\n-Wall\n-Wextra\n-I../common\n",
    ".gitignore": "# Programs, and what the workbook's tools keep for themselves.\n"
    "server\nclient\ntest_*\n!test_*.*\navl_show\n*.o\n.lock\n.new-*\n",
}
COMMANDS = "\n---\n\n{build}In the project's folder, `make check-{name}` grades it, `make hint-{name}` gives a hint.\n"
STARS = {1: "*", 2: "**", 3: "***", 4: "****"}


# ---- what was done so far ----


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
            for exercise in exercises.all_exercises():
                if exercise.old_name in self.states:
                    self.states.setdefault(exercise.name, self.states.pop(exercise.old_name))
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
        old = self.my / exercise.old_name
        return old if old.is_dir() else self.my / exercise.name

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


def listing(known: List[Exercise], notebook: Notebook) -> str:
    """make exercises: a line each."""
    lines = [f"{'exercise':<28}{'':<9}{'points':>7}  {'':<5}{'min':>4}  kind     title"]
    chapter = ""
    for exercise in known:
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


def drawing(known: List[Exercise], notebook: Notebook) -> str:
    """make progress: a bar for each chapter, and one for all."""
    lines = []
    for chapter in sorted({exercise.chapter for exercise in known}):
        lines.append(_row(chapter, [exercise for exercise in known if exercise.chapter == chapter], notebook))
    return "\n".join([*lines, _row("all", known, notebook)])


def _row(name: str, known: List[Exercise], notebook: Notebook) -> str:
    best = sum(min(notebook.states.get(e.name, State()).best, e.points) for e in known)
    most = sum(e.points for e in known)
    passed = sum(notebook.word(e) == "passed" for e in known)
    return f"  {name:<4} {bar(best, most)} {best:>4} of {most:>4} points, {passed} of {len(known)} passed"


def next_one(known: List[Exercise], notebook: Notebook) -> Optional[Exercise]:
    """The one to go on with: the latest that was checked and not passed, another that was started, or else the first
    that was not, by chapter and difficulty."""
    open_ones = [exercise for exercise in known if notebook.word(exercise) != "passed"]
    begun = [exercise for exercise in open_ones if notebook.started(exercise)]
    if begun:
        return max(begun, key=lambda exercise: notebook.states.get(exercise.name, State()).checked)
    return open_ones[0] if open_ones else None


# ---- the learner's commands ----


def start(exercise: Exercise) -> int:
    folder = Notebook(MY).folder(exercise)
    if folder.exists():
        print(f"my/{exercise.name} is there already, and nothing was changed. To go on: make check-{exercise.name}")
        print(f"To begin anew: make reset-{exercise.name} (it puts your files aside)")
        return 1
    lay_out(exercise, folder)
    return 0


def lay_out(exercise: Exercise, folder: Path) -> None:
    """Writes the starter, and says what to do with it."""
    fresh = folder.with_name(f".new-{exercise.name}-{os.getpid()}")
    exercises.write_tree(exercise.starter(), fresh)
    for name, text in FOR_TOOLS.items():
        if not (folder.parent / name).exists():
            (folder.parent / name).write_text(text, encoding="utf-8")
    with open(fresh / "README.md", "a", encoding="utf-8") as readme:
        readme.write(COMMANDS.format(name=exercise.name, build="`make` here builds it. " * bool(exercise.programs)))
    fresh.rename(folder)
    print(f"{exercise.title} ({exercise.kind}, {exercise.points} points, some {exercise.minutes} minutes)")
    print(f"  the task:        my/{exercise.name}/README.md")
    print(f"  yours to change: {', '.join(f'my/{exercise.name}/{name}' for name in exercise.submit)}")
    if exercise.programs:
        print(f"  to build it:     make -C my/{exercise.name}")
    print(f"  to grade it:     make check-{exercise.name} (or make watch-{exercise.name}: at every save)")
    print(f"  if you are lost: make hint-{exercise.name}")


def check(exercise: Exercise, arguments: List[str]) -> int:
    """Grades, prints, takes down. ARGS may select tests; then the score counts for nothing."""
    from copies import of_the_chapter
    from grade import How, grade
    from reporting import report, total

    notebook = started(exercise)
    result = grade(notebook.folder(exercise), exercise, How(arguments=arguments))
    print(report(result, selected=bool(arguments)), end="\n\n")
    if arguments:
        status = {test.status for test in result.tests}
        return 0 if result.built and "failed" not in status and status != {"not run"} else 1
    copied = of_the_chapter(exercises.hand_in(exercise, notebook.folder(exercise)).tree, exercise)
    if copied:
        print(f"{', '.join(copied)}: this is the chapter's own file, and has no points when it is graded. Find the one "
              f"place in the starter. To begin anew: make reset-{exercise.name}")  # fmt: skip
        return 1
    notebook.note(exercise, result.score, result.passed)
    if result.passed:
        print(f"Passed: {total(result)}.")
        others = (
            f"How others would do it: make solution-{exercise.name}. And then" if exercise.has_solution else "And now"
        )
        print(f"{others}: make next")
        return 0
    if result.built:
        print(f"{total(result)}. A hint: make hint-{exercise.name}")
    else:
        print(f"Mend what the compiler says first, the rest may follow from it. Then: make check-{exercise.name}")
    return 1


def started(exercise: Exercise) -> Notebook:
    notebook = Notebook(MY)
    if not notebook.started(exercise):
        raise Problem(f"there is no my/{exercise.name} yet: make start-{exercise.name}")
    return notebook


def watch(exercise: Exercise) -> int:
    """Grades at every save, until Ctrl-C."""
    folder = started(exercise).folder(exercise)
    seen: Optional[Dict[str, int]] = None  # so that the first look grades, whatever is there
    print(f"Watching my/{exercise.name}: save a file and it is graded. Ctrl-C ends this.", flush=True)
    try:
        while True:
            if stamps(folder) != seen:
                time.sleep(LOOK_EVERY / 3)  # an editor may write several files
                seen = stamps(folder)
                print(f"\n=== {time.strftime('%H:%M:%S')} {exercise.name} ===", flush=True)
                check(exercise, [])
            time.sleep(LOOK_EVERY)
    except KeyboardInterrupt:
        print()
    return 0


def stamps(folder: Path) -> Dict[str, int]:
    """When each source was saved. Programs that the learner builds there do not count."""
    found = {}
    for path in [*folder.glob("*.*"), *folder.glob("src/*")]:
        try:
            found[str(path)] = path.stat().st_mtime_ns
        except OSError:
            pass  # an editor is replacing it
    return found


def hint(exercise: Exercise) -> int:
    notebook = Notebook(MY)
    state, hints = notebook[exercise.name], exercise.hints
    number = min(state.hints + 1, len(hints))
    first = 1 if state.hints == len(hints) else number  # who has seen all of them sees all of them again
    for each in range(first, number + 1):
        print(f"Hint {each} of {len(hints)} for {exercise.name}\n\n{hints[each - 1]}\n")
    if number < len(hints):
        print(f"Try it before you ask for more: make hint-{exercise.name}")
    else:
        print(f"There are no more. All of them again: make hint-{exercise.name}")
        if exercise.has_solution:
            print(f"The solution, when you have passed: make solution-{exercise.name}")
    with notebook.changing():
        notebook[exercise.name].hints = number
    return 0


def solution(exercise: Exercise) -> int:
    state = Notebook(MY)[exercise.name]
    if exercise.has_solution and not state.passed and not os.environ.get("INSIST"):
        left = len(exercise.hints) - state.hints
        print(f"You have not passed {exercise.name} yet.")
        if left > 0:
            print(f"Hints that you have not seen: {left}. The next: make hint-{exercise.name}")
        print("To see the solution all the same:")
        print(f"  make solution-{exercise.name} INSIST=yes")
        return 1
    before, after = exercise.starter(), exercise.tree("solution")
    fresh = {name: text for name, text in after.items() if name not in before}
    print(f"What the solution of {exercise.name} changes in the starter. There are other ways.\n")
    print(changeform.unified(before, {**before, **{n: text for n, text in after.items() if n not in fresh}}), end="")
    for name, text in fresh.items():
        print(f"\n=== {name}, which is new ===\n{text}", end="")
    return 0


def reset(exercise: Exercise) -> int:
    notebook = Notebook(MY)
    folder = notebook.folder(exercise)
    if folder.exists():
        kept = MY / ".before"
        kept.mkdir(exist_ok=True)
        number = 1 + len(list(kept.glob(f"{exercise.name}-*")))
        folder.rename(kept / f"{exercise.name}-{number}")
        print(f"Your files are in my/.before/{exercise.name}-{number} now.")
    lay_out(exercise, folder)
    return 0


# ---- all exercises ----


def known() -> List[Exercise]:
    found = exercises.all_exercises()
    if not found:
        raise Problem("there are no exercises in this copy of the workbook")
    return found


def show_list() -> int:
    print(listing(known(), Notebook(MY)))
    print(
        "\nmake start-NN-slug begins one, make next chooses. Difficulty: from * to ****; min: minutes that it may take"
    )
    return 0


def show_progress() -> int:
    print(drawing(known(), Notebook(MY)))
    return 0


def show_next() -> int:
    notebook = Notebook(MY)
    exercise = next_one(known(), notebook)
    if exercise is None:
        print("You have passed all exercises. What about a chapter of your own?")
    elif notebook.started(exercise):
        best = notebook[exercise.name].best
        print(f"Go on with {exercise.name}, {exercise.title}: {best} of {exercise.points} points so far.")
        print(f"  make check-{exercise.name}    or a hint: make hint-{exercise.name}")
    else:
        print(f"Next is {exercise.name}, {exercise.title}: {exercise.kind}, some {exercise.minutes} minutes.")
        print(f"  make start-{exercise.name}")
    return 0


# ---- the command line ----

OF_ONE: Dict[str, Callable[[Exercise], int]] = {
    "start": start, "hint": hint, "watch": watch, "solution": solution, "reset": reset,
}  # fmt: skip
OF_ALL: Dict[str, Callable[[], int]] = {"list": show_list, "progress": show_progress, "next": show_next}


def main(argv: List[str]) -> int:
    os.umask(0o022)
    command, words = (argv or [""])[0], argv[1:]
    arguments = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    try:
        if command in OF_ALL and not words:
            return OF_ALL[command]()
        if command != "hint":
            pristine.check()
        if command in OF_ONE and len(words) == 1:
            return OF_ONE[command](exercises.find(words[0]))
        if command == "check" and len(words) == 1:
            return check(exercises.find(words[0]), arguments)
    except Problem as problem:
        quit_with(str(problem), 1)
    except KeyboardInterrupt:
        quit_with("interrupted", 130)
    except BrokenPipeError:  # a pager that was left: no failure of what only shows something
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if command in OF_ALL else 1
    quit_with((__doc__ or "").strip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
