"""Where the tools find chapters, programs and headers; how they give up; colours in a terminal."""
from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import List, NoReturn, Optional

ROOT = Path(__file__).resolve().parents[2]
PAIR = ("server.c", "client.c")


class Problem(Exception):
    """What a user did wrong or has to do next, in words for the terminal."""


def chapters(root: Path = ROOT) -> List[str]:
    """The chapters that have programs: ["03", "04", ...]."""
    return sorted(p.parent.name for p in root.glob("chapters/[0-9][0-9]/server.c"))


def chapter(number: str, root: Path = ROOT) -> str:
    """The chapter that someone typed ("7" and "07" are the same), or Problem."""
    known = chapters(root)
    name = number.zfill(2)
    if name not in known:
        span = f"chapters go from {known[0]} to {known[-1]}" if known else "there are no chapters yet"
        raise Problem(f"there is no chapter {number}: {span}")
    return name


def before(name: str, root: Path = ROOT) -> Optional[str]:
    """The chapter before; None for the first."""
    earlier = [c for c in chapters(root) if c < name]
    return earlier[-1] if earlier else None


def sources(name: str, root: Path = ROOT) -> List[Path]:
    """All C files of a chapter: the pair first, then the lab programs."""
    files = sorted((root / "chapters" / name).glob("*.c"))
    return sorted(files, key=lambda p: (PAIR.index(p.name) if p.name in PAIR else 9, p.name))


def all_sources(root: Path = ROOT) -> List[Path]:
    return sorted(root.glob("common/*.h")) + [p for c in chapters(root) for p in sources(c, root)]


def span(names: List[str]) -> str:
    """["04", "06", "07", "08"] as "04, 06 to 08"."""
    runs: List[List[str]] = []
    for name in sorted(set(names)):
        if runs and int(runs[-1][-1]) + 1 == int(name):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(r) for r in runs]
    return ", ".join(parts)


def cells(line: str) -> List[str]:
    """The cells of one row of a Markdown table (\\| is no border); [] where the line is none."""
    line = line.strip()
    if not line.startswith("|"):
        return []
    return [c.strip() for c in re.split(r"(?<!\\)\|", line.strip("|"))]


def quit_with(message: str, status: int = 2) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(status)


def has_colours() -> bool:
    """Is standard output a terminal that wants colours?"""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def coloured(text: str, code: str, wanted: Optional[bool] = None) -> str:
    """The text in a colour, "31" for red; where it is not said otherwise, if the terminal has colours."""
    return f"\033[{code}m{text}\033[0m" if (has_colours() if wanted is None else wanted) else text
