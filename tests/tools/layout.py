"""Where the tools find chapters, programs and headers; how they give up; colours in a terminal."""
from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Iterable, Iterator, List, NoReturn, Optional, Tuple

ROOT = Path(__file__).resolve().parents[2]
# chapter -> its number in the first edition
RENUMBERED = {"17": "15", "18": "16", "19": "16", "20": "17", "21": "17", "22": "18", "23": "18", "24": "18"}


class Problem(Exception):
    """What a user did wrong or has to do next, in words for the terminal."""


def chapters(root: Path = ROOT) -> List[str]:
    """The chapters that have programs: ["03", "04", ...]."""
    return sorted(p.name for p in root.glob("chapters/[0-9][0-9]") if server_of(p.name, root))


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


def server_of(name: str, root: Path = ROOT) -> List[str]:
    """The files of a chapter's server, as paths in its folder: server.c, or all of src/ with the headers first."""
    folder = root / "chapters" / name
    if (folder / "server.c").exists():
        return ["server.c"]
    return [f"src/{path.name}" for end in "hc" for path in sorted(folder.glob(f"src/*.{end}"))]


def pair_of(name: str, root: Path = ROOT) -> List[str]:
    """The files of a chapter's server and client, as paths in its folder."""
    return [file for file in files_of(name, root) if file.startswith(("src/", "server.", "client."))]


def made_of(program: str, files: Iterable[str]) -> List[str]:
    """The .c files that a program is made of: NAME.c, or those of src/ for a server of several among these files."""
    there, alone = sorted(files), f"{program}.c"
    several = [file for file in there if re.match(r"src/.*\.c$", file)] if program == "server" else []
    return several if several and alone not in there else [alone]


def files_of(name: str, root: Path = ROOT) -> List[str]:
    """All C files of a chapter, as paths in its folder: the server's, client.c, the lab programs."""
    server = server_of(name, root)
    others = sorted(path.name for path in (root / "chapters" / name).glob("*.c"))
    return server + sorted({*others} - {*server}, key=lambda file: (file != "client.c", file))


def sources(name: str, root: Path = ROOT) -> List[Path]:
    """Where the C files of a chapter are, in the same order."""
    return [root / "chapters" / name / file for file in files_of(name, root)]


def all_sources(root: Path = ROOT) -> List[Path]:
    return sorted(root.glob("common/*.h")) + [p for c in chapters(root) for p in sources(c, root)]


def span(names: List[str], there: List[str]) -> str:
    """["04", "06", "07", "08"] as "04, 06 to 08": of the chapters that there are, these follow each other."""
    runs: List[List[str]] = []
    following = dict(zip(there, there[1:]))
    for name in sorted(set(names)):
        if runs and following.get(runs[-1][-1]) == name:
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


def table_rows(text: str, *title: str) -> Iterator[Tuple[int, List[str]]]:
    """Number and cells of each row in the tables of a page whose first row ends with these cells."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        row = cells(line)
        if row[-len(title) :] == list(title):
            inside = True
        elif not row:
            inside = False
        elif inside and not set(row[0]) <= set(":- "):
            yield number, row


def quit_with(message: str, status: int = 2) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(status)


def has_colours() -> bool:
    """Is standard output a terminal that wants colours?"""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def coloured(text: str, code: str, wanted: Optional[bool] = None) -> str:
    """The text in a colour, "31" for red; where it is not said otherwise, if the terminal has colours."""
    return f"\033[{code}m{text}\033[0m" if (has_colours() if wanted is None else wanted) else text
