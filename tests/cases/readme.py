"""What the README.md of a chapter and the sessions of tests/sessions promise (03 and later)."""
from __future__ import annotations

import os
import re
import subprocess

from harness import settings
from harness.session import check_session
from harness.settings import ROOT

from . import OWN, case

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = OWN


@case(since=3)
def sessions(chapter: int) -> None:
    """Those of tests/sessions, which any implementation can play."""
    for path in sorted((ROOT / "tests" / "sessions").glob(f"{chapter:02}-*.session")):
        check_session(str(path))


@case(since=3, inside=True)
def readme_session(chapter: int) -> None:
    check_session(str(ROOT / "chapters" / f"{chapter:02}" / "README.md"))


@case(since=3, inside=True)
def readme_compile_lines(chapter: int) -> None:
    """They are the very lines that make runs."""
    folder = ROOT / "chapters" / f"{chapter:02}"
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    shown = re.findall(r"^cc .*", (folder / "README.md").read_text(encoding="utf-8"), re.M)
    made = subprocess.run(
        ["make", "-n", "-B", "CC=cc"], cwd=folder, env=env, text=True, check=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    assert sorted(shown) == sorted(re.findall(r"^cc .*", made, re.M))
