#!/usr/bin/env python3
"""Is a folder of pages whole? Prints what is wrong; exit status 1 where something is.

    website_check.py [FOLDER]     build/site where it is not said

Every page is well-formed, every link and anchor leads somewhere within the folder, nothing is loaded from elsewhere,
and what readers with a screen reader or a keyboard need is there.
"""
from __future__ import annotations

import posixpath
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple
from urllib.parse import unquote

VOID = ("meta", "link", "input", "img", "br", "hr")
LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "object": "data", "source": "src"}
ELSEWHERE = re.compile(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)|\b(href|src)=\"//")
ROOT = Path(__file__).resolve().parents[2]


class Reader(HTMLParser):
    """One page: what it links to, what can be linked to, what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.open: List[str] = []
        self.ids: Counter = Counter()
        self.links: List[str] = []
        self.problems: List[str] = []
        self.tags: Counter = Counter()
        self.level = 0
        self.feed(text)
        self.close()
        if self.open:
            self.wrong(f"<{self.open[-1]}> is never closed")
        self.problems += [f"the id {name} is there {times} times" for name, times in self.ids.items() if times > 1]
        for tag in ("title", "main", "h1"):
            if self.tags[tag] != 1:
                self.problems.append(f"{self.tags[tag]} <{tag}>")

    def wrong(self, why: str) -> None:
        self.problems.append(f"line {self.getpos()[0]}: {why}")

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        said = dict(attrs)
        self.tags[tag] += 1
        if len(said) < len(attrs):
            self.wrong(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)
        if "p" in self.open[:-1] and tag in ("p", "div", "ul", "ol", "pre", "table", "figure", "details"):
            self.wrong(f"<{tag}> within <p>")
        if "a" in self.open[:-1] and tag == "a":
            self.wrong("<a> within <a>")
        if said.get("id") is not None:
            self.ids[str(said["id"])] += 1
        if tag in LOADS and said.get(LOADS[tag]):
            if re.match(r"[a-z]+:|//", str(said[LOADS[tag]])):
                self.wrong(f"<{tag}> loads {said[LOADS[tag]]}")
            self.links.append(str(said[LOADS[tag]]))
        if tag == "a":
            self.links.append(str(said.get("href") or ""))
        if tag == "img" and not (said.get("alt") or "").strip():
            self.wrong(f"the picture {said.get('src')} has no alternative text")
        if tag == "html" and not said.get("lang"):
            self.wrong("no language")
        heading = re.fullmatch(r"h([1-6])", tag)
        if heading:
            if int(heading[1]) > self.level + 1:
                self.wrong(f"<{tag}> below <h{self.level}>")
            self.level = int(heading[1])

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.wrong(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if re.search(r"&(?!\w+;|#)|<", data) and not {"script", "style"} & set(self.open):
            self.wrong(f"a bare & or <: {data[:40]!r}")


def problems(folder: Path) -> List[str]:
    """All that is wrong with the pages of a folder."""
    found: List[str] = []
    pages: Dict[str, Reader] = {}
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder).as_posix()
        pages[name] = Reader(path.read_text(encoding="utf-8"))
        found += [f"{name}: {problem}" for problem in pages[name].problems]
    there: Set[str] = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name, page in pages.items():
        for target in page.links:
            if re.match(r"(https?|mailto):", target):
                continue
            file, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(file))) if file else name
            if path not in there:
                found.append(f"{name}: there is no {target or 'target of a link'}")
            elif anchor and path in pages and unquote(anchor) not in pages[path].ids:
                found.append(f"{name}: nothing has the id of {target}")
    for name in sorted(there):
        if name.endswith((".css", ".js", ".svg")) and name != "search.js":
            hit = ELSEWHERE.search((folder / name).read_text(encoding="utf-8"))
            found += [f"{name}: {hit.group()} may load something from elsewhere"] if hit else []
        elif not name.endswith((".html", "search.js")):
            found.append(f"{name}: what is this?")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "site")
    print("\n".join(wrong) or "Every page is whole, and every link leads somewhere.")
    sys.exit(bool(wrong))
