"""The headers of common/: who builds them, who uses them, and their rules.

The first line is `// name.h: built in chapter NN` and the comment goes on to say what it is; a header includes only
headers of its own chapter or earlier ones, and so does a chapter; the chapter that builds a header uses it; nothing
else defines what a header defines; a header names no state of other files; every function has a comment; the table of
common/README.md is true. "Uses" means that a program of the chapter (server, client, labs) includes the header,
directly or through another one. tests/selftests/test_headers.py compiles them besides, and looks for state.
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Set, Tuple

import layout
import sources
from layout import ROOT, Problem, all_sources, chapters, span, table_rows

FIRST = re.compile(r"// (\S+): built in chapters? (\d\d(?:(?:, | and )\d\d)*)\b(.*)")
TITLE = ["header", "built in", "holds", "used by"]


def headers(root: Path = ROOT) -> Dict[str, Path]:
    return {p.name: p for p in sorted((root / "common").glob("*.h"))}


def built_in(path: Path) -> List[str]:
    """The chapters that the first line names: ["08"], or ["04", "07"] where a later one adds to it."""
    with path.open(encoding="utf-8") as file:
        line = file.readline().rstrip("\n")
    found = FIRST.match(line)
    if not found or found.group(1) != path.name:
        raise Problem(
            f"common/{path.name}:1: the first line must be `// {path.name}: built in chapter NN`, "
            f"it is `{line}`"
        )
    return re.findall(r"\d\d", found.group(2))


def included(text: str) -> List[str]:
    """The names in the `#include ".."` lines of a source."""
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)


def with_headers(tree: Dict[str, str], root: Path = ROOT) -> Dict[str, str]:
    """The texts, by file name, and those of the headers of common/ that they include, directly or through others."""
    result, waiting = dict(tree), list(tree)
    while waiting:
        for name in included(result[waiting.pop()]):
            path = root / "common" / name
            if name not in result and path.exists():
                result[name] = path.read_text(encoding="utf-8")
                waiting.append(name)
    return result


def closure(path: Path, root: Path = ROOT) -> List[str]:
    """The headers of common/ that a file includes, directly or through others, each once."""
    return sorted(set(with_headers({path.name: path.read_text(encoding="utf-8")}, root)) - {path.name})


def joining(name: str, root: Path = ROOT) -> List[str]:
    """The headers that join common/ in a chapter."""
    return [h for h, path in headers(root).items() if built_in(path)[0] == name]


def users(root: Path = ROOT) -> Dict[str, List[str]]:
    """Header -> the chapters that use it."""
    found: Dict[str, Set[str]] = {name: set() for name in headers(root)}
    for chapter in chapters(root):
        for source in layout.sources(chapter, root):
            for name in closure(source, root):
                found[name].add(chapter)
    return {name: sorted(used) for name, used in found.items()}


def uses(names: List[str], root: Path = ROOT) -> str:
    """["04", "06", "07"] as "04, 06 on" where 07 is the last chapter: a new one changes nothing here."""
    there = chapters(root)
    first = len(names)
    while first > 0 and names[first - 1 :] == there[first - 1 - len(names) :]:
        first -= 1
    return ", ".join(filter(None, [span(names[:first], there), f"{names[first]} on" if names[first:] else ""]))


def page(root: Path = ROOT) -> str:
    """common/README.md with its table as it should be: `holds` and the order of the rows are kept."""
    lines = (root / "common" / "README.md").read_text(encoding="utf-8").splitlines()
    there = list(table_rows("\n".join(lines), *TITLE))
    if not there:
        raise Problem(f"common/README.md: there must be a table, | {' | '.join(TITLE)} |, of one row at least")
    holds = {re.sub(r"^\[|\].*", "", row[0]): row[2] for _, row in there}
    known, used = headers(root), users(root)
    order = [name for name in holds if name in known] + [name for name in known if name not in holds]
    rows = [
        (f"[{name}]({name})", ", ".join(built_in(known[name])), holds.get(name, "..."), uses(used[name], root))
        for name in order
    ]
    lines[there[0][0] - 1 : there[-1][0]] = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


# ---- rules ----


def chapter_of(path: Path, root: Path) -> str:
    """The chapter of a program, or the one that builds a header."""
    parts = path.relative_to(root).parts
    return built_in(path)[0] if parts[0] == "common" else parts[1]


def include_problems(root: Path = ROOT) -> List[str]:
    """Files that include what is not there, or what only a later chapter builds."""
    known, found = headers(root), []
    for path in all_sources(root):
        own = chapter_of(path, root)
        for name in included(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}: includes {name}"
            if name not in known and not (path.parent / name).exists():
                found.append(f"{where}, which is not in common/")
            elif name in known and built_in(known[name])[0] > own:
                found.append(f"{where}, which chapter {built_in(known[name])[0]} builds; here is chapter {own}")
    for name, used in users(root).items():
        built = built_in(known[name])[0]
        if built in chapters(root) and built not in used:
            found.append(
                f"common/{name}: built in chapter {built}, but no program of that chapter uses it "
                f"(used by {span(used, chapters(root)) or 'nobody'})"
            )
    return found


def text_problems(path: Path) -> List[str]:
    """A header that does not say what it is, a function that does not say what it does, state of another file."""
    shown = f"common/{path.name}"
    source = sources.read(path, shown)
    built_in(path)
    opening = source.of_kind("file")[0].text
    rest = FIRST.match(opening).group(3) + opening.partition("\n")[2]
    found = []
    if len(re.findall(r"\w\w+", rest)) < 4:
        found.append(f"{shown}:1: the comment must go on to say what the header is")
    for item in source.items:
        if item.kind == "function" and not item.comment.strip():
            found.append(f"{shown}:{item.first}: `{item.name}` has no comment above it")
        if item.kind == "declaration" and item.signature.startswith("extern"):
            found.append(f"{shown}:{item.code}: `{item.name}` is state of another file; it must be passed in")
    return found


def copy_problems(root: Path = ROOT) -> List[str]:
    """Headers outside of common/, and what two headers, or a header and a later chapter, define."""
    found = [f"{p.relative_to(root)}: headers live in common/" for p in root.glob("chapters/*/*.h")]
    owner: Dict[Tuple[str, str], Path] = {}
    for path in all_sources(root):
        shown, shared = str(path.relative_to(root)), path.parent == root / "common"
        for item in sources.read(path, shown).of_kind("function", "type", "constant"):
            other = owner.setdefault(item.key, path) if shared else owner.get(item.key)
            if other in (None, path):
                continue
            later = shared or built_in(other)[0] <= chapter_of(path, root)
            if later and (shared or item.kind != "constant"):
                found.append(f"{shown}:{item.code}: `{item.name}` is in common/{other.name} already")
    return found


def problems(root: Path = ROOT) -> List[str]:
    found = include_problems(root) + copy_problems(root)
    return found + [problem for path in headers(root).values() for problem in text_problems(path)]
