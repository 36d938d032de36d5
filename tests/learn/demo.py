"""make demo: plays a session of each chapter on the screen, with the real programs.

    demo.py 03 04 ...

A chapter's session is tests/sessions/NN-demo.session, or the first of its sessions by name, or that of its README.md.
What a chapter adds is the first sentence under "What it adds" in its README.md. On a terminal the lines come one
after another, so that eyes can follow.
"""
from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import List, Tuple

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "tools")]

from harness.session import SessionError, load, play  # noqa: E402
from harness.settings import ROOT  # noqa: E402
from layout import coloured  # noqa: E402
from play import COLOURS, find  # noqa: E402

os.environ["WORKBOOK_PREBUILT"] = "1"  # by make, a moment ago

SECONDS = 10.0  # for all that is shown
LONGEST_PAUSE = 0.08


def about(chapter: str) -> Tuple[str, str]:
    """A chapter's title, and in one sentence what it adds."""
    readme = ROOT / "chapters" / chapter / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    title = re.search(r"^# (?:Chapter )?(?:\d\d[.:]? )?(.*)", text, re.M)
    sentence = re.search(r"^## What it adds\s+(.+?[.!?])(?=\s|$)", text, re.M | re.S)
    words = " ".join(sentence[1].split()) if sentence else ""
    return f"Chapter {chapter}. {title[1] if title else ''}".rstrip(" ."), re.sub(r"[`*]", "", words)


def session_of(chapter: str) -> str:
    """The file of the session to play."""
    files = find(chapter)
    return next((path for path in files if path.endswith("-demo.session")), files[0])


def say(kind: str, text: str) -> None:
    """Prints one thing, in its colour on a terminal."""
    print(coloured(text, COLOURS[kind]), flush=True)


def show(chapter: str, pause: float) -> str:
    """Plays and prints a chapter's session. Returns what is wrong, or "".

    The session is played first and printed then: a pause in the middle could be one that a server's timers notice.
    """
    heard: List[Tuple[str, str]] = []
    path = session_of(chapter)
    try:
        differences = play(load(path), lambda kind, text: heard.append((kind, text)))
        problem = "\n\n".join(differences)
    except (AssertionError, SessionError) as e:
        problem = str(e)
    title, sentence = about(chapter)
    say("title", title)
    say("output", "\n".join(textwrap.wrap(sentence, 100)))
    for kind, text in heard:
        time.sleep(pause)
        mark = "  server| " if kind == "server" else "  "
        say(kind, "\n".join(mark + part for part in text.split("\n")))
    print(flush=True)
    return problem


def main() -> int:
    chapters = sys.argv[1:]
    lines = sum(len(Path(session_of(chapter)).read_text(encoding="utf-8").splitlines()) for chapter in chapters)
    pause = min(LONGEST_PAUSE, SECONDS / 2 / max(lines, 1)) if sys.stdout.isatty() else 0.0
    for chapter in chapters:
        problem = show(chapter, pause)
        if problem:
            print(f"{problem}\n\nmake demo: chapter {chapter} is not as its session says", file=sys.stderr)
            print(f"(see above; make test-{chapter} may tell more)", file=sys.stderr)
            return 1
    if len(chapters) > 1:
        print(f"All {len(chapters)} chapters did just what their sessions say. Next: make test, or make help.")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background, for the servers' sake
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader has left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
