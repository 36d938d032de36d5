#!/usr/bin/env python3
"""Plays sessions against the real programs and shows where they differ.

    python3 tests/tools/play.py NAME...          plays them, prints one line each
    python3 tests/tools/play.py --show NAME...   prints each command and what it gives, as it happens
    python3 tests/tools/play.py --demo NN ...    shows a session of each chapter, and what it adds: make demo

NAME is a file (a .session, or a .md with console blocks), the name of a session in tests/sessions
without its ending, or a chapter's number for all of its sessions there, or else for that of its README.md. Exit status
1 where one differs.
"""
from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.session import SESSIONS, SessionError, load, play  # noqa: E402
from harness.settings import ROOT  # noqa: E402
from layout import coloured  # noqa: E402

PAUSE = 0.03  # seconds between the lines of a demonstration, so that eyes can follow
COLOURS = {"title": "1;4", "command": "1", "output": "0", "server": "36", "difference": "31"}


def find(name: str) -> List[str]:
    """The files that a name stands for. Exits with one line where there is none."""
    if Path(name).is_file():
        return [name]
    files = sorted(SESSIONS.glob(f"{name}-*.session")) if name.isdigit() else []
    files += [path for path in [SESSIONS / f"{name}.session"] if path.is_file()]
    files = files or [path for path in [ROOT / "chapters" / name / "README.md"] if path.is_file()]
    if not files:
        known = " ".join(sorted(path.stem for path in SESSIONS.glob("*.session")))
        sys.exit(f"play.py: there is no session {name}; there are: {known or 'none yet'}")
    return [str(path) for path in files]


def show(kind: str, text: str, margin: str = "") -> None:
    """Prints what is typed or heard; the server's lines are told apart by `server|`, and by a colour."""
    print(coloured(margin + (f"server| {text}" if kind == "server" else text), COLOURS[kind]), flush=True)


def about(chapter: str) -> Tuple[str, str]:
    """A chapter's title, and in one sentence what it adds, as its README.md has them."""
    readme = ROOT / "chapters" / chapter / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    title = re.search(r"^# (?:Chapter )?(?:\d\d[.:]? )?(.*)", text, re.M)
    sentence = re.search(r"^## What it adds\s+(.+?[.!?])(?=\s|$)", text, re.M | re.S)
    words = " ".join(sentence[1].split()) if sentence else ""
    return f"Chapter {chapter}. {title[1] if title else ''}".rstrip(" ."), re.sub(r"[`*]", "", words)


def demonstrate(chapter: str) -> bool:
    """Shows a chapter's demonstration, or else the first of its sessions. Did it go as it should?

    It is played first and printed then: a pause in the middle could be one that a server's timers notice.
    """
    files = find(chapter)
    heard: List[Tuple[str, str]] = []
    try:
        path = next((path for path in files if path.endswith("-demo.session")), files[0])
        problem = "\n\n".join(play(load(path), lambda kind, text: heard.append((kind, text))))
    except (AssertionError, SessionError) as e:
        problem = str(e)
    title, sentence = about(chapter)
    show("title", title)
    show("output", "\n".join(textwrap.wrap(sentence, 100)))
    for kind, text in heard:
        time.sleep(PAUSE if sys.stdout.isatty() else 0)
        for line in text.split("\n"):
            show(kind, line, "  ")
    print(flush=True)
    if problem:
        print(f"{problem}\n\nmake demo: chapter {chapter} is not as its session says", file=sys.stderr)
        print(f"(see above; make test-{chapter} may tell more)", file=sys.stderr)
    return not problem


def demo(chapters: List[str]) -> int:
    os.environ["WORKBOOK_PREBUILT"] = "1"  # by make, a moment ago
    if not all(map(demonstrate, chapters)):
        return 1
    if len(chapters) > 1:
        print(f"All {len(chapters)} chapters did just what their sessions say. Next: make test, or make help.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays sessions.")
    parser.add_argument("--show", action="store_true", help="print what is typed and what it gives")
    parser.add_argument("--demo", action="store_true", help="show a session of each chapter, slowly")
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
    if options.demo:
        return demo(options.names)
    failed = 0
    for path in [path for name in options.names for path in find(name)]:
        try:
            session = load(path)
        except SessionError as e:
            sys.exit(f"play.py: {e}")
        if options.show:
            show("title", f"Chapter {session.chapter:02}. {session.title}")
        differences = play(session, show if options.show else None)
        for text in differences:
            show("difference", "\n" + text)
        if options.show:
            print()
        else:
            print(f"{path}: {'differs' if differences else 'as it should be'}")
        failed += bool(differences)
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background, for the servers' sake
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader has left, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
