"""What is wrong with what was typed after make, in one line; nothing where all is well.

    door.py GOALS VARIABLES      "test-07" "SERVER=my/server CC=clang", as make has them

The Makefile asks before it does anything. Which goals there are is read from it and from upkeep.mk. Variables count
where they stand on make's command line; what the environment has besides is left alone.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterable, List

ROOT = Path(__file__).resolve().parents[2]
RULES = [
    rule
    for file in ("Makefile", "tests/tools/upkeep.mk")
    for rule in re.findall(r"^([a-z][a-z% -]*):(?!=)", (ROOT / file).read_text(encoding="utf-8"), re.M)
]
GOALS = {goal for rule in RULES for goal in rule.split()}
PLAIN = sorted(goal for goal in GOALS if "%" not in goal)
OF_EXERCISES = ["start", "check", "hint", "watch", "solution", "reset"]
OF_CHAPTERS = sorted({goal[:-2] for goal in GOALS if goal.endswith("-%")} - set(OF_EXERCISES))
CHAPTERS = sorted(path.parent.name for path in ROOT.glob("chapters/[0-9][0-9]/server.c"))
EXERCISES = sorted(
    f"{path.parts[-4]}-{path.parts[-2]}" for path in ROOT.glob("chapters/[0-9][0-9]/exercises/*/exercise.conf")
)
VARIABLES = """SERVER CLIENT HEADERS ARGS PORT BIND HOST IDLE_TIMEOUT_MS HASH_SEED TEST_SEED TEST_TIME_FACTOR WRAPPER
    CC SAN B JOBS PYTHON NO_COLOR INSIST ROSTER SUBMISSION SUBMISSIONS EXERCISE OUT CHAPTERS N SITE FROM BASE DRY
    BOOK CI TEST_AGAIN""".split()

# What each goal cannot do without; NN-name stands for -07 and the like.
NEEDS = {
    "cc": "all NN run test demo build broken asan tsan bench bench-quick bench-full book-check check watch valgrind "
    "exercises-check grade grade-all hunts class-check fuzz redis-check",
    "pytest": "test broken fuzz redis-check asan tsan ubsan book-check check watch exercises-check grade "
    "grade-all hunts class-check site-check",
    "clang": "ubsan",
    "valgrind": "valgrind",
    "clang-format": "format format-check",
}


class Refused(Exception):
    """What is wrong, and what to do instead."""


def nearest(word: str, words: Iterable[str]) -> str:
    """The one that a slip of the fingers may have made this word of, or ""."""
    return next(iter(difflib.get_close_matches(word, list(words), 1, 0.65)), "")


# ---- variables ----------------------------------------------------------------------------------


def variables(text: str) -> Dict[str, str]:
    """The variables of make's command line. A blank in a value has a backslash before it."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|\S)+", text)]
    return {name: value for name, value in (re.split(r"\s*(?:::?|\+|\?)?=", word, maxsplit=1) for word in words)}


def known(name: str) -> None:
    """A misspelt variable would be passed over, and a test would look at another program than was meant."""
    if name not in VARIABLES:
        near = nearest(name.upper(), VARIABLES)
        raise Refused(f"there is no variable {name}{f', did you mean {near}=?' if near else ''} (make help has them)")


def runnable(name: str, command: str, chapter: str) -> None:
    """Is the program there that SERVER, CLIENT or WRAPPER names?"""
    program = re.sub(r"\bNN\b", chapter, command.split()[0]) if command.split() else ""
    if "/" in program and os.path.isfile(program) and not os.access(program, os.X_OK):
        raise Refused(f"{name}={program} may not be executed: chmod +x {program}")
    if program and not shutil.which(program):
        raise Refused(f"{name}={program}: there is no such program")


def headers(folder: str) -> None:
    """Has the folder that HEADERS names a header of common/?"""
    if not os.path.isdir(folder):
        raise Refused(f"HEADERS={folder}: there is no such folder")
    if not {path.name for path in Path(folder).glob("*.h")} & {path.name for path in ROOT.glob("common/*.h")}:
        raise Refused(f"HEADERS={folder}: none of the headers of common/ is in that folder")


def number(name: str, value: str) -> None:
    """Is it the number that this variable has to be?"""
    if name in ("JOBS", "N") and not re.fullmatch(r"0*[1-9][0-9]*", value):
        raise Refused(f"{name}={value}: not a whole number from 1 on")
    if name == "TEST_TIME_FACTOR" and not re.fullmatch(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?", value):
        raise Refused(f"{name}={value}: not a number above 0, such as 4 or 0.5")


# ---- goals --------------------------------------------------------------------------------------


def chapter(number: str, goal: str) -> None:
    """Is there such a chapter? goal has {} for its number."""
    if number in CHAPTERS:
        return
    if "0" + number in CHAPTERS:
        raise Refused(f"chapters have two digits: make {goal.format('0' + number)}")
    if number.zfill(2) in ("01", "02"):
        first = goal.format(CHAPTERS[0])
        raise Refused(f"chapters 01 and 02 are text alone, the programs begin with {CHAPTERS[0]}: make {first}")
    last = goal.format(CHAPTERS[-1])
    raise Refused(f"there is no chapter {number}, they are {CHAPTERS[0]} to {CHAPTERS[-1]}: make {last}")


def two_chapters(earlier: str, later: str) -> None:
    """Can these be compared?"""
    chapter(earlier, f"diff-{{}}-{later}")
    chapter(later, f"diff-{earlier}-{{}}")
    if earlier == later:
        raise Refused(f"these are not two chapters; make diff-{later} compares with the one before")
    if earlier > later:
        raise Refused(f"the earlier chapter comes first: make diff-{later}-{earlier}")


def exercise(verb: str, name: str) -> None:
    """Is there such an exercise?"""
    if name in EXERCISES:
        return
    if not EXERCISES:
        raise Refused("there are no exercises in this copy of the workbook")
    example = f"make {verb}-{EXERCISES[0]} (make exercises lists all)"
    if not name:
        other = "; what checks the whole workbook, in half an hour, is make check-all"
        raise Refused(f"which exercise? For example: {example}{other * (f'{verb}-all' in PLAIN)}")
    near = nearest(name, EXERCISES)
    if near:
        raise Refused(f"there is no exercise {name}, did you mean make {verb}-{near}? (make exercises lists all)")
    own = [each for each in EXERCISES if each.startswith(name[:2] + "-")]
    if own:
        raise Refused(f"there is no exercise {name}; those of chapter {name[:2]} are {', '.join(own)}")
    raise Refused(f"there is no exercise {name}, for example: {example}")


def goal_is_there(goal: str, after: str) -> None:
    """Can make do this? after is the next goal, which may belong to this one."""
    verb, _, rest = goal.partition("-")
    if (goal in OF_EXERCISES and after in EXERCISES) or (goal in OF_CHAPTERS and after in CHAPTERS):
        raise Refused(f"this is one word: make {goal}-{after}")
    if goal in PLAIN:
        return
    if verb in OF_EXERCISES:
        return exercise(verb, rest)
    if goal in OF_CHAPTERS:
        raise Refused(f"of which chapter? For example: make {goal}-{CHAPTERS[-1]}")
    two = re.fullmatch(r"diff-(\d+)-(\d+)", goal)
    if two:
        return two_chapters(two[1], two[2])
    one = re.fullmatch(r"(|(?:%s)-)(\d+)" % "|".join(OF_CHAPTERS), goal)
    if one:
        return chapter(one[2], one[1] + "{}")
    if verb == "test" and list(ROOT.glob(f"tests/**/test_{rest}.py")):
        return None
    if goal in EXERCISES:
        raise Refused(f"to begin it, make start-{goal}; to grade it, make check-{goal}")
    stem, ending = re.fullmatch(r"(.*?)[-_]?((?:\d.*)?)", goal).groups()  # type: ignore[union-attr]
    near = nearest(stem, OF_EXERCISES if ending in EXERCISES else OF_CHAPTERS) if ending else nearest(goal, PLAIN)
    meant = f", did you mean make {near}{'-' * bool(ending)}{ending}?" * bool(near)
    raise Refused(f"there is no such target{meant} (make help lists all)")


def can_be_done(goal: str, env: Dict[str, str]) -> None:
    """Is what the goal needs there: tools, programs, folders, a free port?"""
    stem = re.sub(r"-\d\d.*", "", re.sub(r"^\d\d$", "NN", goal))
    stem = "test" if stem.startswith("test-") else stem
    needed = [tool for tool, goals in NEEDS.items() if stem in goals.split()]
    if stem in ("test", "demo") and env.get("SERVER") and env.get("CLIENT"):
        needed.remove("cc")
    for tool in needed:
        cc = env.get("CC") or "cc"
        if tool == "pytest":
            done = subprocess.run(["sh", str(ROOT / "tests/tools/findpython.sh"), tool], env=env, capture_output=True)
            if done.returncode:
                raise Refused(done.stderr.decode().strip())
        elif tool == "cc" and not shutil.which(cc.split()[0], path=env.get("PATH")):
            if cc.split()[0] not in ("cc", "gcc", "clang"):
                raise Refused(f"there is no compiler {cc.split()[0]}; without CC= it is cc")
            raise Refused(
                f"a C compiler is missing: sudo apt-get install {cc.replace('cc', 'gcc', cc == 'cc')} libc6-dev"
            )
        elif tool != "cc" and not shutil.which(tool, path=env.get("PATH")):
            raise Refused(f"{tool} is missing: sudo apt-get install {tool}")
    for wanted, name, each in (("grade", "SUBMISSION", "exercise"), ("grade-all", "SUBMISSIONS", "student")):
        folder = env.get(name, "")
        if goal == wanted and not os.path.isdir(folder):
            usage = f"make {goal} {name}=folder, with a folder for each {each} in it"
            raise Refused(f"{folder or name + '='} is no folder: {usage}")
    if goal == "hunts" and not env.get("ROSTER") and not os.path.isdir(env.get("SUBMISSIONS", "")):
        usage = "ROSTER=class.csv, a line for each student, makes them; SUBMISSIONS=folder grades what comes back"
        raise Refused(usage)
    for name in ("SERVER", "CLIENT", "WRAPPER"):
        runnable(name, env.get(name, ""), goal[5:] if stem == "test" and goal != stem else CHAPTERS[0])
    if stem == "run":
        free(env.get("PORT") or "1234", goal)


def free(port: str, goal: str) -> None:
    """Can a server listen there? What else may be wrong with it, the server says."""
    try:
        socket.create_server(("127.0.0.1", int(port))).close()
    except (ValueError, OverflowError):
        pass
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise Refused(f"port {port} is in use: stop the server that has it, or take another: make {goal} PORT=2345")


def main(goals: List[str], given: Dict[str, str]) -> str:
    """What is wrong, or ""."""
    env = {**os.environ, **given}
    goal = ""
    try:
        for name in given:
            known(name)
            if given[name]:
                number(name, given[name])
        for goal, after in zip(goals, goals[1:] + [""]):
            goal_is_there(goal, after)
        for goal in goals or ["all"]:
            can_be_done(goal, env)
        goal = ""
        if env.get("HEADERS"):
            headers(env["HEADERS"])
    except Refused as problem:
        return f"make {goal}: {problem}" if goal else str(problem)
    return ""


if __name__ == "__main__":
    print(main(sys.argv[1].split(), variables(sys.argv[2])), end="")
