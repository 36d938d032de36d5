"""What is wrong with a folder of pages: tags and ids, links that lead nowhere, what is loaded from elsewhere."""
from __future__ import annotations

import posixpath
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Dict, List, Optional, Tuple
from urllib.parse import unquote

VOID = ("meta", "link", "input", "img", "br", "hr")
LINKS = {"a": "href", "script": "src", "link": "href", "img": "src", "iframe": "src", "object": "data"}
NOT_WITHIN = {"p": ("p", "div", "ul", "ol", "pre", "table", "figure", "details"), "a": ("a",)}
ELSEWHERE = re.compile(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)|\b(href|src)=\"//")


class Reader(HTMLParser):
    """One page: what it links to, what can be linked to, what is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.open: List[str] = []
        self.ids: List[str] = []
        self.links: List[str] = []
        self.problems: List[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self.open]
        self.problems += [f"the id {name} is there {n} times" for name, n in Counter(self.ids).items() if n > 1]

    def wrong(self, why: str) -> None:
        self.problems.append(f"line {self.getpos()[0]}: {why}")

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        said = {name: value or "" for name, value in attrs}
        for outer, inner in NOT_WITHIN.items():
            if outer in self.open and tag in inner:
                self.wrong(f"<{tag}> within <{outer}>")
        if tag not in VOID:
            self.open.append(tag)
        if "id" in said:
            self.ids.append(said["id"])
        if tag in LINKS:
            target = said.get(LINKS[tag], "")
            self.links.append(target)
            if tag != "a" and re.match("[a-z]+:|//", target):
                self.wrong(f"<{tag}> loads {target}")
        if tag == "img" and not said.get("alt", "").strip():
            self.wrong(f"the picture {said.get('src')} has no alternative text")

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] != [tag]:
            self.wrong(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if re.search(r"&(?!\w+;|#)|<", data) and not {"script", "style"} & set(self.open):
            self.wrong(f"a bare & or <: {data[:40]!r}")


def problems(folder: Path) -> List[str]:
    """All that is wrong with the pages of a folder."""
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip
    pages: Dict[str, Reader] = {name: Reader(text) for name, text in texts.items() if name.endswith(".html")}
    found: List[str] = []
    for name, page in pages.items():
        found += [f"{name}: {problem}" for problem in page.problems]
        for target in page.links:
            if re.match(r"(https?|mailto):", target):
                continue
            file, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(file))) if file else name
            if path not in texts or not target:
                found.append(f"{name}: there is no {target or 'target of a link'}")
            elif anchor and path in pages and unquote(anchor) not in pages[path].ids:
                found.append(f"{name}: nothing has the id of {target}")
    for name, text in texts.items():
        hit = ELSEWHERE.search(text) if name.endswith((".css", ".js", ".svg")) and name != "search.js" else None
        found += [f"{name}: {hit[0]} may load something from elsewhere"] if hit else []
    return found
