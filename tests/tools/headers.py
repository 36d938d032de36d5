#!/usr/bin/env python3
"""The headers of common/: who builds them, who uses them.

    headers.py table    prints the table of common/README.md, keeping what it says under "holds"
    headers.py check    prints what breaks the rules below; exit status 1 where something does

Rules: the first line is `// name.h: built in chapter NN` and the comment goes on to say what it is;
a header includes only headers of its own chapter or earlier ones, and so does a chapter; the chapter
that builds a header uses it; nothing else defines what a header defines; a header keeps no state;
every function has a comment; the table of common/README.md is true. "Uses" means that a program of
the chapter (server, client, labs) includes the header, directly or through another one.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, List, Set, Tuple

import csource
import pristine
from layout import ROOT, Problem, all_sources, cells, chapters, quit_with, sources, span

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
                result[name] = pristine.text(path, root)
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
        for source in sources(chapter, root):
            for name in closure(source, root):
                found[name].add(chapter)
    return {name: sorted(used) for name, used in found.items()}


def readme_rows(root: Path = ROOT) -> Dict[str, List[str]]:
    """Header -> cells of its row in common/README.md."""
    path = root / "common" / "README.md"
    rows: Dict[str, List[str]] = {}
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        row = cells(line)
        if row == TITLE:
            inside = True
        elif not row:
            inside = False
        elif inside and not set(row[0]) <= set(":- "):
            for name in re.findall(r"\w+\.h\b(?!\))", row[0]):
                rows[name] = row
    return rows


def uses(names: List[str], root: Path = ROOT) -> str:
    """["04", "06", "07"] as "04, 06 on" where 07 is the last chapter: a new one changes nothing here."""
    first = len(names) - 1
    while first > 0 and int(names[first - 1]) + 1 == int(names[first]):
        first -= 1
    if not names or names[-1] != chapters(root)[-1]:
        return span(names)
    return ", ".join(filter(None, [span(names[:first]), f"{names[first]} on"]))


def table(root: Path = ROOT) -> str:
    """The table as it should be; "holds" is kept where there is a row already."""
    rows, used = readme_rows(root), users(root)
    order = sorted(headers(root), key=lambda h: (built_in(headers(root)[h])[0], h))
    lines = ["| " + " | ".join(TITLE) + " |", "| --- | --- | --- | --- |"]
    for name in order:
        holds = rows[name][2] if len(rows.get(name, [])) == len(TITLE) else ""
        built = ", ".join(built_in(headers(root)[name]))
        lines.append(f"| [{name}]({name}) | {built} | {holds} | {uses(used[name], root)} |")
    return "\n".join(lines)


def table_problems(root: Path = ROOT) -> List[str]:
    rows, used, found = readme_rows(root), users(root), []
    readme, hint = "common/README.md", "`python3 tests/tools/headers.py table` prints the table"
    for name, path in headers(root).items():
        row = rows.pop(name, None)
        if row is None or len(row) != len(TITLE):
            found.append(f"{readme}: no row for {name}; {hint}")
            continue
        for column, truth in ((1, ", ".join(built_in(path))), (3, uses(used[name], root))):
            if row[column] != truth:
                found.append(
                    f"{readme}: {name}, {TITLE[column]}: the table says `{row[column]}`, "
                    f"the sources say `{truth}`; {hint}"
                )
        if not row[2]:
            found.append(f"{readme}: {name}: the column `holds` is empty")
    found += [f"{readme}: there is no {name} in common/; {hint}" for name in rows]
    return found


def include_problems(root: Path = ROOT) -> List[str]:
    """Files that include what is not there, or what only a later chapter builds."""
    known, found = headers(root), []
    for path in all_sources(root):
        own = built_in(path)[0] if path.suffix == ".h" else path.parent.name
        for name in included(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}: includes {name}"
            if name not in known:
                found.append(f"{where}, which is not in common/")
            elif built_in(known[name])[0] > own:
                built = built_in(known[name])[0]
                found.append(f"{where}, which chapter {built} builds; here is chapter {own}")
    for name, used in users(root).items():
        built = built_in(known[name])[0]
        if built in chapters(root) and built not in used:
            found.append(
                f"common/{name}: built in chapter {built}, but no program of that chapter uses it "
                f"(used by {span(used) or 'nobody'})"
            )
    return found


def comment_problems(path: Path) -> List[str]:
    """A header that does not say what it is, a function that does not say what it does."""
    shown = f"common/{path.name}"
    source = csource.read(path, shown)
    built_in(path)
    opening = source.of_kind("file")[0].text
    rest = FIRST.match(opening).group(3) + opening.partition("\n")[2]
    found = []
    if len(re.findall(r"\w\w+", rest)) < 4:
        found.append(f"{shown}:1: the comment must go on to say what the header is")
    for item in source.of_kind("function"):
        if not item.comment.strip():
            found.append(f"{shown}:{item.first}: `{item.name}` has no comment above it")
    return found


def state_problems(path: Path) -> List[str]:
    """Variables that live longer than a call and may change."""
    shown = f"common/{path.name}"
    source = csource.read(path, shown)
    bare = source.bare.splitlines()
    found = []
    for item in source.of_kind("variable", "table"):
        code = "\n".join(bare[item.code - 1 : item.last]).partition("=")[0]
        if not constant(code):
            found.append(f"{shown}:{item.code}: `{item.name}` is state; it must be passed in")
    for item in source.of_kind("function"):
        for number in range(item.code, item.last + 1):
            line = bare[number - 1]
            if re.match(r"\s+(static|extern|_Thread_local|__thread)\b", line) and not constant(line):
                found.append(f"{shown}:{number}: `{item.name}` keeps state: {line.strip()}")
    return found + [
        f"{shown}:{item.code}: `{item.name}` is state of another file; it must be passed in"
        for item in source.of_kind("declaration")
        if bare[item.code - 1].startswith("extern")
    ]


def constant(declaration: str) -> bool:
    """What is declared cannot change: const stands behind the last *."""
    declarator = declaration.partition("=")[0]
    return bool(re.search(r"\bconst\b", declarator.rpartition("*")[2]))


def copy_problems(root: Path = ROOT) -> List[str]:
    """Headers outside of common/, and what two headers, or a header and a later chapter, define."""
    found = [f"{p.relative_to(root)}: headers live in common/" for p in root.glob("chapters/*/*.h")]
    owner: Dict[Tuple[str, str], Path] = {}
    for path in all_sources(root):
        shown = str(path.relative_to(root))
        for item in csource.read(path, shown).of_kind("function", "type", "constant"):
            other = owner.setdefault(item.key, path) if path.suffix == ".h" else owner.get(item.key)
            if other in (None, path):
                continue
            later = path.suffix == ".h" or built_in(other)[0] <= path.parent.name
            if later and not (path.suffix == ".c" and item.kind == "constant"):
                found.append(f"{shown}:{item.code}: `{item.name}` is in common/{other.name} already")
    return found


def problems(root: Path = ROOT) -> List[str]:
    found = include_problems(root) + table_problems(root) + copy_problems(root)
    for path in headers(root).values():
        found += comment_problems(path) + state_problems(path)
    return found


def main(argv: List[str], root: Path = ROOT) -> int:
    try:
        if argv == ["table"]:
            print(table(root))
            return 0
        if argv == ["check"]:
            found = problems(root)
            print("\n".join(found) or "The headers keep all the rules.")
            return 1 if found else 0
        quit_with("usage: headers.py table | check")
    except (Problem, csource.Unreadable) as problem:
        quit_with(str(problem))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
