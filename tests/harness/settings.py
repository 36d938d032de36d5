"""Where things are, how long to wait, and the seed: everything that the environment decides.

SERVER, CLIENT     command lines of programs to test in place of the chapter's own
WORKBOOK_BUILD     folder with NN/server, NN/client and the lab programs (default build/test)
WORKBOOK_PREBUILT  1: the programs are there already, make is not called
WRAPPER            put before every program, e.g. "valgrind -q --error-exitcode=99"
TEST_TIME_FACTOR   multiplies every time limit (sanitizers, valgrind, a loaded machine)
TEST_SEED          repeats a random test
"""
from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Callable, Container, List, Optional

from .failure import Failure, cause

__tracebackhide__ = lambda excinfo: excinfo.errisinstance(AssertionError)  # noqa: E731

ROOT = Path(__file__).resolve().parents[2]
START_DIR = Path.cwd()
CHAPTERS = sorted(
    int(path.relative_to(ROOT).parts[1])
    for server in ("server.c", "src/server.h") for path in ROOT.glob(f"chapters/[0-9][0-9]/{server}")
)  # fmt: skip


_seed: Optional[int] = None
PAST = 400  # requests before a failure that it may look at
seed_used = False  # has this test asked for the seed? (conftest resets it before each test)


def fail(text: str, why: str = "", expected: str = "") -> None:
    """Ends the test with what happened, a likely cause, and what should have happened."""
    raise Failure(text, [("expected", [expected] if expected else [])], cause(why))


def needs(*tools: str) -> None:
    """Leaves the test out where one of these programs is not installed; with CI set, fails it."""
    import pytest  # here, since the tools that use the harness do without it

    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing and os.environ.get("CI"):
        fail(f"{', '.join(missing)} must be installed where CI is set")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def between(chapter: int, chapters: Container[int]) -> bool:
    """Is the chapter before it one of these, too, and a later one? `make test` leaves out there what holds for all."""
    earlier = [each for each in CHAPTERS if each < chapter]
    return bool(earlier) and earlier[-1] in chapters and any(later in chapters for later in CHAPTERS if later > chapter)


def build_dir() -> Path:
    """The folder that holds NN/server and the other programs, absolute."""
    return START_DIR / os.environ.get("WORKBOOK_BUILD", str(ROOT / "build" / "test"))


def foreign(name: str) -> List[str]:
    """The words of $SERVER or $CLIENT for the name "server" or "client"; empty where not set."""
    given = os.environ.get(name.upper()) if name in ("server", "client") else None
    return shlex.split(given) if given else []


def wrapper() -> List[str]:
    """The words of $WRAPPER."""
    return shlex.split(os.environ.get("WRAPPER", ""))


def limit(seconds: float) -> float:
    """A time limit in seconds, multiplied by TEST_TIME_FACTOR."""
    return seconds * float(os.environ.get("TEST_TIME_FACTOR", "1"))


def seed() -> int:
    """The seed of this run: TEST_SEED, or one chosen once. A failing test that asked prints it."""
    global _seed, seed_used
    seed_used = True
    if _seed is None:
        _seed = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1, 2**31))
    return _seed


IN_VAIN = [
    (r"idle|stalled|timed out|nothing moves|hung up on", "nobody closes a connection that is idle: does poll() wait no "
     "longer than until the first of them is due, and are then all closed that are due?"),
    (r"closed|closes|gone|have left|nothing is left", "is a descriptor lost? Each connection must be closed once, also "
     "after a reset, an error, or a client that has left before its answer. ls -l /proc/PID/fd shows which are open."),
    (r"accepted", "does the server come back to accept() while other connections are open?"),
    (r"expire",
     "keys go by themselves when their time is over: does the loop wake up for the first deadline, and remove every "
     "key that is due, not one only?"),
    (r"worker|set is freed",
     "is there a thread that waits for work, and is it woken (pthread_cond_signal) for each piece of it?"),
    (r"reads the",
     "the server does not come to this request: does it read each connection on which something has come?"),
    (r"has left|signal",
     "SIGTERM and SIGINT end the server, whatever it is doing: is the flag looked at in each round?"),
    (r"answer|listens|all has been read",
     "does it come back to wait for all of its connections, and read what has come?"),
]  # fmt: skip  # what is waited for, and what may be wrong where it does not happen


def wait_until(condition: Callable[[], object], what: str, seconds: float = 5.0) -> None:
    """Asks again and again until condition() is true; fails with `what` after the limit.

    For events that nothing announces (a descriptor count, a file); elsewhere wait for the event.
    """
    end = time.monotonic() + limit(seconds)
    while not condition():
        if time.monotonic() > end:
            fail(f"it has not happened after {limit(seconds):g} s", _why_in_vain(what), what)
        time.sleep(0.002)


def _why_in_vain(what: str) -> str:
    """What may be wrong where this does not happen."""
    return next((why for pattern, why in IN_VAIN if re.search(pattern, what)), "")


def python() -> str:
    """How to call this Python in a line to type."""
    found = shutil.which("python3")
    same = found and os.path.realpath(found) == os.path.realpath(sys.executable)
    return "python3" if same else sys.executable


def again(*words: str, seed_too: bool = False) -> str:
    """A line to type: this Python with these words, under the variables that matter now."""
    variables = [f"TEST_SEED={seed()}"] if seed_too else []
    if build_dir() != ROOT / "build" / "test":
        folder = str(build_dir()).replace(f"{START_DIR}/", "", 1)
        variables += [f"WORKBOOK_BUILD={shlex.quote(folder)}", "WORKBOOK_PREBUILT=1"]
    for name in ("SERVER", "CLIENT", "WRAPPER", "TEST_TIME_FACTOR"):
        if os.environ.get(name):
            variables.append(f"{name}={shlex.quote(os.environ[name])}")
    return " ".join([*variables, python(), *map(shlex.quote, words)])


def repeat_line(test: str = "") -> str:
    """The line to type that runs a test (default: the current one) again, with its seed."""
    test = test or os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    return again("-m", "pytest", test, seed_too=seed_used)
