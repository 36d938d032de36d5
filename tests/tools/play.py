#!/usr/bin/env python3
"""Plays sessions against the real programs and shows where they differ.

    python3 tests/tools/play.py NAME...          plays them, prints one line each
    python3 tests/tools/play.py --show NAME...   prints each command and what it gives, as it happens

NAME is a file (a .session, or a .md with console blocks), the name of a session in tests/sessions
without its ending, or a chapter's number for all of its sessions there, or else for that of its README.md. Exit status
1 where one differs.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import List

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.session import SESSIONS, SessionError, load, play  # noqa: E402
from harness.settings import ROOT  # noqa: E402
from layout import coloured  # noqa: E402

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


def show(kind: str, text: str) -> None:
    """Prints what is typed or heard; the server's lines are told apart by `server|`, and by a colour."""
    print(coloured(f"server| {text}" if kind == "server" else text, COLOURS[kind]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays sessions.")
    parser.add_argument("--show", action="store_true", help="print what is typed and what it gives")
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
