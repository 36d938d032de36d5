#!/usr/bin/env python3
"""The book in a browser: make site.

    website.py [FOLDER]     writes the pages to FOLDER, build/site where it is not said

Static pages, made from the Markdown and the sources alone; they open from the file system or any web server, and load
nothing from elsewhere. The same sources give the same bytes. What is no part of this copy of the workbook (the pages
for instructors in a handout, say) is no part of its site, and solutions of exercises never are.
"""
from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import sys
import time
from collections import defaultdict
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import book_blocks  # noqa: E402
import csource  # noqa: E402
import exercises  # noqa: E402
import headers  # noqa: E402
import stagediff  # noqa: E402
import stages  # noqa: E402
import website_code  # noqa: E402
from book_blocks import BookError  # noqa: E402
from layout import PAIR, ROOT, Problem, before, cells, chapters, quit_with, sources  # noqa: E402
from website_text import Node, Text, bare, terms_of  # noqa: E402

PARTS = Path(__file__).resolve().parent / "website"
NAME = "A Redis-like server in C"
MOST_DIFFERENT = 700  # lines; two stages that differ in more have no page of their own
STARS = "★★★★"
MINUTES = (30, 60, 120)
EXERCISES, STAGES = "exercises/index.html", "chapters/index.html"
Link = Tuple[str, str]  # address, HTML


class Entry(NamedTuple):
    """A page as others name it: in the side bar, as the one before or the next."""

    url: str
    number: str
    title: str


class Built(NamedTuple):
    """Where the book builds an item."""

    chapter: str
    step: int
    url: str


@lru_cache(maxsize=None)
def source(path: str) -> csource.Source:
    return csource.read(ROOT / path, path)


@lru_cache(maxsize=None)
def part(name: str) -> str:
    """A file that goes into the pages, or beside them."""
    return (PARTS / name).read_text(encoding="utf-8")


def url_of(path: str) -> str:
    """The page of a file of the workbook."""
    if path == "README.md":
        return "about.html"
    path = re.sub(r"^\.(?=\w)", "", path)  # web servers hide what begins with a dot
    for end, becomes in ("README.md", "index.html"), (".md", ".html"), (".svg", ".svg"), ("chapters", STAGES):
        if path.endswith(end):
            return path[: -len(end)] + becomes
    return path + ".html"


def link(page: str, target: str) -> str:
    """The address of one page as seen from another."""
    file, _, anchor = target.partition("#")
    return posixpath.relpath(file, posixpath.dirname(page) or ".") + ("#" + anchor if anchor else "")


def a(page: str, target: str, html: str) -> str:
    return f'<a href="{link(page, target)}">{html}</a>'


def items(page: str, links: Iterable[Link], kind: str) -> str:
    """A list of links."""
    return f'<ul class="{kind}">{"".join(f"<li>{a(page, *each)}</li>" for each in links)}</ul>'


def table(rows: Iterable[Sequence[str]], head: Sequence[str], kind: str = "") -> str:
    """A table of cells that are HTML."""
    top = "".join(f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def typed(commands: str) -> str:
    return Text.frame(website_code.plain(commands, "sh"), "", "to type", "sh")


def neighbours(row: Sequence[Entry], url: str) -> Tuple[Optional[Entry], Optional[Entry]]:
    """What comes before a page in a row, and what comes next."""
    at = next((i for i, entry in enumerate(row) if entry.url == url), None)
    return (None, None) if at is None else (row[at - 1] if at else None, [*row, None][at + 1])


class Site:
    """All pages, by their addresses."""

    def __init__(self) -> None:
        self.pages: Dict[str, str] = {}
        self.wanted: List[str] = ["README.md", "common/README.md"]  # files that something links to
        self.index: List[Sequence[str]] = []  # title, address, where, text: what can be found
        self.texts: Dict[str, Text] = {}
        self.built: Dict[Tuple[str, str], List[Built]] = defaultdict(list)  # (file, item) -> steps
        self.side: List[Tuple[str, List[Entry]]] = []
        self.exercises = exercises.all_exercises()
        self.book = [str(path.relative_to(ROOT)) for path in book_blocks.paths(ROOT / "book")]

    # ---- what pages are made of ----

    def page(self, url: str, title: str, body: str, kind: str = "text", crumbs: Iterable[Link] = (),
             sections: Iterable[Tuple[int, str, str]] = (), row: Sequence[Entry] = ()) -> None:  # fmt: skip
        """Adds a page; `row` are those that it stands among."""
        trail = "".join(f"<li>{a(url, *crumb)}</li>" for crumb in crumbs)
        around = "".join(
            f'<a rel="{rel}" href="{link(url, e.url)}"><span>{word}</span> {e.number} {escape(e.title, False)}</a>'
            for e, rel, word in zip(neighbours(row, url), ("prev", "next"), ("Before", "Next")) if e
        )  # fmt: skip
        self.pages[url] = part("page.html").format(
            title=escape(title if title == NAME else f"{title} · {NAME}", False), kind=kind, url=url, name=NAME,
            root="../" * url.count("/"), side=self.sidebar(url, sections), body=body,
            crumbs=f'<nav aria-label="Where this is"><ol class="crumbs">{trail}</ol></nav>' if trail else "",
            finish=part("done.html") if kind == "chapter" else "",
            around=f'<nav class="around" aria-label="Before and next">{around}</nav>' if around else "",
        )  # fmt: skip

    def sidebar(self, url: str, sections: Iterable[Tuple[int, str, str]]) -> str:
        inner = "".join(f'<li class="h{n}"><a href="#{to}">{html}</a></li>' for n, to, html in sections if n in (2, 3))

        def line(entry: Entry) -> str:
            here, number = entry.url == url, f"<b>{entry.number}</b> " if entry.number else ""
            return (
                f'<li data-page="{entry.url}"><a href="{link(url, entry.url)}"{" aria-current=page" * here}>'
                f"{number}{escape(entry.title, False)}</a>{f'<ol>{inner}</ol>' if here and inner else ''}</li>"
            )

        return "".join(f"<p>{title}</p><ol>{''.join(map(line, entries))}</ol>" for title, entries in self.side)

    def text(self, path: str) -> Text:
        """The Markdown file, ready to be made into HTML."""
        if path not in self.texts:
            page = book_blocks.read(ROOT / path)
            text = Text(page, lambda target: self.href(path, target), lambda *said: self.figure(path, *said))
            text.source = lambda file, number: self.address(path, file) + (f"#L{number}" if number else "")
            text.place = lambda row: self.places(path, row)
            self.texts[path] = text
        return self.texts[path]

    def address(self, path: str, file: str) -> str:
        """The page of one file as seen from that of another; it will be made."""
        self.wanted.append(file)
        return link(url_of(path), url_of(file))

    def href(self, path: str, target: str) -> str:
        """A link in the Markdown file `path`, as its page has it."""
        file, _, anchor = target.partition("#")
        if not file or re.match(r"[a-z]+:", target):
            return target
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if not (ROOT / there).exists():
            raise BookError(f"{path}: there is no {target}")
        while (ROOT / there).is_dir() and there != "chapters":  # a folder is told of in its README, or in one above
            readme = posixpath.join(there, "README.md")
            there = readme if (ROOT / readme).exists() else posixpath.dirname(there)
        return self.address(path, there) + ("#" + anchor if anchor else "")

    def figure(self, path: str, alt: str, target: str) -> str:
        """A picture with its title. It can be opened by itself, and follows the colours of the system."""
        href = self.href(path, target)
        svg = (ROOT / path).parent.joinpath(target).read_text(encoding="utf-8")
        title = re.search(r"<title[^>]*>(.*?)</title>", svg, re.S)
        size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
        if not title or not size:
            raise BookError(f"{path}: the picture {target} has no title or no viewBox")
        image = f'<img src="{href}" alt="{escape(alt)}" width="{size[1]}" height="{size[2]}">'
        caption = f"<figcaption>{title[1].strip()}</figcaption>"
        return f'<figure class="drawing"><a href="{href}">{image}</a>{caption}</figure>'

    def places(self, path: str, row: List[str]) -> List[str]:
        """Where the lines are that a row of a stage's table of changes names."""
        name = Path(path).parent.name
        file, kind, names, change, _ = row
        there = f"chapters/{before(name) if change == 'gone' else name}/{file}"
        lines = {item.key: item.code for item in source(there).items}
        return [f"{self.address(path, there)}#L{lines[kind, n]}" for n in re.findall(r"`([^`]+)`", names)]

    def find(self, nodes: Sequence[Node], url: str, where: str) -> None:
        """Puts the sections of a page into the index of the search."""
        title, anchor, words = where, "", []
        for node in [*nodes, Node("h2", "")]:
            if node.kind in ("h1", "h2", "h3"):
                self.index += [(title, url + anchor, where, " ".join(words))] if words else []
                title, words = bare(re.sub("<a class=.self.*?</a>", "", node.html)), []
                anchor = "#" + "".join(re.findall(r'^<h\d id="(.*?)">', node.html))
            elif node.kind in ("p", "list", "table", "quote", "predict", "answer"):
                words.append(bare(re.sub(r"<(figure|pre).*?</\1>", " ", node.html, flags=re.S)))

    # ---- pages of text ----

    def road(self) -> None:
        """Reads the book, and says in which order its pages come."""
        for path in self.book:
            for view in self.text(path).views.values():
                file = view.file if view.file.startswith("common/") else Path(view.file).name
                step = Built(self.text(path).page.chapter, view.number, f"{url_of(path)}#step-{view.number}")
                for name in view.names if view.number else ():
                    self.built[file, name].append(step)
        entries = [self.entry(path) for path in self.book if path != "book/README.md"]
        entries.sort(key=lambda e: not e.url.endswith("index.html"))
        pages = [e for e in entries if e.url.count("/") == 1]
        self.chapters = [e for e in pages if e.number.isdigit()]
        told = [e.number for e in self.chapters]  # a stage that the book does not tell of yet stands for its chapter
        self.chapters += [self.entry(f"chapters/{c}/README.md") for c in chapters() if c not in told]
        self.chapters.sort(key=lambda e: e.number)
        self.appendices = [e for e in pages if e.number and not e.number.isdigit()]
        beside = [Entry("book/index.html", "", "How to use this book"), Entry(EXERCISES, "", "Exercises")]
        beside += [Entry(STAGES, "", "Stages and differences"), *(e for e in pages if not e.number)]
        beside += [Entry("about.html", "", "About this workbook")]
        self.side = [("The road", self.chapters), ("Appendices", self.appendices), ("Beside it", beside)]
        teaching = [e for e in entries if e not in pages]
        self.side += [("Teaching", teaching)] if teaching else []
        self.terms = terms_of(self.text("book/glossary.md").page)
        self.index += [(t.name, f"book/glossary.html#{t.anchor}", "Glossary", t.sentence) for t in self.terms]

    def entry(self, path: str) -> Entry:
        """"# Chapter 06. The event loop" is ("06", "The event loop")."""
        title = next((line[2:] for line in self.text(path).page.lines if line.startswith("# ")), path)
        number = re.match(r"(?:Chapter|Appendix) (\w+)[.:] ", title)
        return Entry(url_of(path), number[1] if number else "", title[number.end() :] if number else title)

    def of_chapter(self, name: str) -> Entry:
        return next(entry for entry in self.chapters if entry.number == name)

    def markdown(self, path: str) -> None:
        """The page of a Markdown file."""
        url, text, entry = url_of(path), self.text(path), self.entry(path)
        name = text.page.chapter
        if path != "book/glossary.md":
            text.know(self.terms, link(url, "book/glossary.html"))
        nodes = text.nodes()
        html = [node.html for node in nodes]
        if name in chapters():
            count, old = sum(e.chapter == name for e in self.exercises), before(name)
            links = [(f"chapters/{name}/index.html", f"The stage: chapters/{name}")]
            links += [(f"diffs/{old}-{name}.html", f"What changes since {old}")] if old else []
            links += [(f"{EXERCISES}#chapter-{name}", f"{count} exercises")] if count else []
            html.insert(1, items(url, links, "beside-it"))
        self.find(nodes, url, f"{entry.number} {entry.title}".strip())
        row = self.chapters + self.appendices
        self.page(url, entry.title, "\n".join(html), "chapter" if name else "text", (), text.headings, row)

    # ---- stages ----

    def stage(self, name: str) -> None:
        """The page of a stage: its README, and its files."""
        url, text, old = f"chapters/{name}/index.html", self.text(f"chapters/{name}/README.md"), before(name)
        files = []
        for file in [path.name for path in sources(name)] + ["Makefile"]:
            path = f"chapters/{name}/{file}"
            self.file(path, [(url, f"Stage {name}")])
            lines = f"{source(path).code_lines()} lines of code" if file.endswith(".c") else ""
            files.append((a(url, url_of(path), file), lines))
        files += [(a(url, f"common/{h}.html", f"common/{h}"), "joins common/ here") for h in headers.joining(name)]
        links = [(self.of_chapter(name).url, "The chapter that builds it")] if self.of_chapter(name).url != url else []
        links += [(f"diffs/{old}-{name}.html", f"All that changes since {old}, side by side")] if old else []
        nodes = text.nodes()
        html = [nodes[0].html.replace(">Chapter ", ">Stage "), items(url, links, "beside-it")]
        html += [*(node.html for node in nodes[1:]), '<h2 id="files">Files</h2>', table(files, ("file", ""))]
        row = [Entry(f"chapters/{c}/index.html", "Stage", c) for c in chapters()]
        self.find(nodes, url, f"Stage {name}")
        self.page(url, f"Stage {name}", "\n".join(html), "text", [(STAGES, "Stages")], text.headings, row)

    def file(self, path: str, crumbs: Iterable[Link] = ()) -> None:
        """A source with line numbers; its functions lead to where the book builds them."""
        url, name, extra = url_of(path), Path(path).name, {}
        if re.match(r"(chapters/\d\d|common)/[^/]+\.[ch]$", path):
            stage = path.split("/")[1] if path.startswith("chapters") else chapters()[-1]
            for item in source(path).of_kind(*stages.DECLARED):
                key = (path if path.startswith("common/") else name, item.name)
                steps = [step for step in self.built.get(key, []) if step.chapter <= stage]
                links = [a(url, step.url, chapter) for chapter, step in {s.chapter: s for s in steps}.items()]
                if links:
                    extra[item.code] = f'<span class="built">built in {" ".join(links)}</span>'
                there = steps[0].url if steps else f"{url}#L{item.code}"
                self.index.append((item.name, there, f"{item.kind}, {path}", ""))
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        parts = [website_code.Line(text, "", number, extra.get(number, "")) for number, text in enumerate(lines, 1)]
        body = f'<h1 id="file"><code>{escape(path, False)}</code></h1><figure class="listing whole">'
        body += website_code.code(parts, website_code.language(path), "L") + "</figure>"
        title = f"{name} of {path.split('/')[1]}" if path.startswith("chapters/") else name
        self.page(url, title, body, "wide", crumbs)

    def stage_index(self) -> None:
        """All stages, and a page for any two that do not differ in too much."""
        names, grid = chapters(), []
        for old in names[:-1]:
            row = [f"<b>{old}</b>"]
            for new in names[1:]:
                pair = [(source(f"chapters/{old}/{f}"), source(f"chapters/{new}/{f}")) for f in PAIR]
                count = sum(sum(stagediff.changed_lines(*each)) for each in pair) if old < new else 0
                if old < new and (count <= MOST_DIFFERENT or before(new) == old):
                    self.difference(old, new)
                    row.append(a(STAGES, f"diffs/{old}-{new}.html", str(count)))
                else:
                    row.append(str(count or ""))
            grid.append(row)
        rows = []
        for name in names:
            files = ", ".join(a(STAGES, f"chapters/{name}/{p.name}.html", p.name) for p in sources(name))
            rows.append((a(STAGES, f"chapters/{name}/index.html", name), escape(self.of_chapter(name).title), files))
        body = part("stages.html").format(
            stages=table(rows, ("stage", "chapter", "sources")), any_two=table(grid, ["", *names[1:]], "grid"),
            diff=f"make diff-{names[0]}-{names[-1]}",
        )  # fmt: skip
        self.page(STAGES, "Stages and differences", body, "text", (), [(2, "any-two", "Any two side by side")])

    def difference(self, old: str, new: str) -> None:
        """One stage beside another."""
        url, readme = f"diffs/{old}-{new}.html", self.text(f"chapters/{new}/README.md")
        said = stages.rows("\n".join(readme.page.lines), "README.md") if old == before(new) else []
        purposes = {(r.file, r.kind, n): readme.inline(r.what_for) for r in said for n in r.names}
        rows, parts = [], []
        for file in PAIR:
            was, now = (source(f"chapters/{name}/{file}") for name in (old, new))
            for each in stages.changes(was, now):
                name = f"<code>{escape(each.name, False)}</code>"
                name = f'<a href="#{file}-{each.new.code}">{name}</a>' if each.new else name
                change = f'<span class="{each.change}">{each.change}</span>'
                rows.append((file, each.kind, name, change, purposes.get((file, *each.key), "")))
            opcodes = stagediff.opcodes(was, now)
            parts.append(f'<h2 id="{file}">{file}</h2>')
            if all(op[0] == "equal" for op in opcodes):
                parts.append("<p>It is the same.</p>")
                continue
            label = " <span>to</span> ".join(a(url, f"chapters/{s}/{file}.html", f"{s}/{file}") for s in (old, new))
            label += " <span>{} lines come, {} go</span>".format(*stagediff.changed_lines(was, now))
            body = website_code.beside(was.text.splitlines(), now.text.splitlines(), opcodes, "c", f"{file}-")
            parts.append(f'<figure class="listing whole sides"><figcaption>{label}</figcaption>{body}</figure>')
        joined = [h for name in chapters() if old < name <= new for h in headers.joining(name)]
        top = f'<h1 id="diff">From stage {old} to stage {new}</h1>'
        if joined:
            names = ", ".join(a(url, f"common/{h}.html", h) for h in joined)
            top += f"<p>Headers that join <code>common/</code>: {names}.</p>"
        top += table(rows, ("file", "kind", "name", "change", "what for")) if rows else ""
        crumbs = [(STAGES, "Stages"), (f"chapters/{new}/index.html", f"Stage {new}")]
        row = [Entry(f"diffs/{x}-{y}.html", "", f"From {x} to {y}") for x, y in zip(chapters(), chapters()[1:])]
        self.page(url, f"From {old} to {new}", top + "".join(parts), "wide", crumbs, (), row)

    # ---- exercises ----

    def exercise(self, each: exercises.Exercise, row: Sequence[Entry]) -> None:
        """The page of an exercise: its task, and hints that are folded."""
        url, text = url_of(f"{each.where}/README.md"), self.text(f"{each.where}/README.md")
        facts = [f"<b>{each.kind}</b>", stars(each), f"{each.minutes} minutes", f"{each.points} points"]
        facts.append("hand in " + ", ".join(f"<code>{name}</code>" for name in each.submit))
        nodes = text.nodes()
        html = [nodes[0].html, f'<p class="facts">{"".join(f"<span>{fact}</span> " for fact in facts)}</p>']
        html.append(typed(f"make start-{each.name}    # copies what it begins with to my/{each.name}\n"
                          f"make check-{each.name}    # builds and grades what stands there\n"))  # fmt: skip
        html += [*(node.html for node in nodes[1:]), '<h2 id="hints">Hints</h2>']
        hints = self.text(f"{each.where}/hints.md").nodes()
        for number in each_hint(hints):
            inside = "\n".join(node.html for node in number[1:])
            html.append(f"<details class=hint><summary>Hint {number[0].text}</summary><div>{inside}</div></details>")
        self.find(nodes, url, f"Exercise {each.name}")
        crumbs = [(EXERCISES, "Exercises"), (self.of_chapter(each.chapter).url, f"Chapter {each.chapter}")]
        self.page(url, each.title, "\n".join(html), "text", crumbs, text.headings, row)

    def exercise_index(self) -> None:
        """A page for each exercise, and one with all of them: radio buttons leave some rows out, by CSS alone."""
        entries = [Entry(url_of(f"{e.where}/README.md"), e.name, e.title) for e in self.exercises]
        rows, rules, boxes = [], [], []
        for entry, each in zip(entries, self.exercises):
            self.exercise(each, entries)
            kind = f"c-{each.chapter} k-{each.kind} d-{each.difficulty} " + " ".join(
                f"m-{minutes}" for minutes in MINUTES if each.minutes <= minutes
            )
            first = f' id="chapter-{each.chapter}"' if f"c-{each.chapter} " not in "".join(rows) else ""
            row = (a(EXERCISES, entry.url, each.name), escape(each.title, False), each.kind, stars(each))
            row += (str(each.minutes), str(each.points))
            rows.append(f'<tr class="{kind}"{first}>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>')
        for key, legend, options in (
            ("c", "Chapter", {e.chapter: e.chapter for e in self.exercises}),
            ("k", "Kind", {kind: kind for kind in exercises.KINDS}),
            ("d", "Difficulty", {str(i): STARS[:i] for i in range(1, len(STARS) + 1)}),
            ("m", "Minutes", {str(minutes): f"up to {minutes}" for minutes in MINUTES}),
        ):
            radios = [f'<label><input type="radio" name="{key}" checked>all</label>']
            for value, shown in options.items():
                radios.append(f'<label><input type="radio" name="{key}" id="{key}-{value}">{shown}</label>')
                rules.append(f"body:has(#{key}-{value}:checked) .choice tbody tr:not(.{key}-{value}){{display:none}}")
            boxes.append(f"<fieldset><legend>{legend}</legend>{''.join(radios)}</fieldset>")
        body = part("exercises.html").format(
            count=len(rows), rules="".join(rules), boxes="".join(boxes), rows="\n".join(rows)
        )
        self.page(EXERCISES, "Exercises", body)

    # ---- home, and all together ----

    def home(self) -> None:
        """What it is, the two commands, the road."""
        text = self.text("README.md")
        about = " ".join("\n".join(text.page.lines).split("\n\n")[1].split())
        lead = " ".join(re.split(r"(?<=\.) (?=[A-Z])", about)[:3])
        rows = [row for row in map(cells, self.text("book/README.md").page.lines) if len(row) == 3]
        builds = {number: text.inline(what) for number, _, what in rows}
        sizes = {name: source(f"chapters/{name}/server.c").code_lines() for name in chapters()}
        road = []
        for entry in self.chapters:
            name = f"<b>{entry.number}</b> <strong>{escape(entry.title, False)}</strong>"
            size = sizes.get(entry.number, 0)
            bar = f'<span class="size" style="--share:{size / max(sizes.values()):.3f}">{size}</span>' if size else ""
            said = f"<span>{builds.get(entry.number, '')}</span>"
            road.append(f'<li data-page="{entry.url}">{a("", entry.url, name)} {said}{bar}</li>')
        more = [(entry.url, escape(entry.title, False)) for _, entries in self.side[1:] for entry in entries]
        body = part("home.html").format(
            title=NAME, lead=text.inline(lead), first=self.chapters[0].url, number=self.chapters[0].number,
            commands="".join(typed(block.code) for block in text.page.blocks[:2]),
            road="".join(road), more=items("", more, "columns"),
        )  # fmt: skip
        self.page("index.html", NAME, body, "home")

    def build(self) -> None:
        """All pages: first those that are always there, then what they link to."""
        self.road()
        self.home()
        for name in chapters():
            self.stage(name)
        self.stage_index()
        self.exercise_index()
        for header in headers.headers():
            self.file(f"common/{header}", [("common/index.html", "common/")])
        self.wanted += self.book
        while self.wanted:
            path = self.wanted.pop()
            if url_of(path) not in self.pages and not path.endswith(".svg"):
                self.markdown(path) if path.endswith(".md") else self.file(path)

    def write(self, target: Path) -> int:
        """Writes the pages and what goes with them; returns how many bytes that are."""
        if target.exists() and any(target.iterdir()) and not (target / "search.js").exists():
            raise Problem(f"{target} holds something else: name a folder that is empty, or none")
        shutil.rmtree(target, ignore_errors=True)
        files = {**self.pages, **{name: part(name) for name in ("style.css", "script.js", "icon.svg")}}
        index = {entry[:2]: entry for entry in self.index}  # an item that stays for many chapters is found once
        found = sorted(index.values(), key=lambda entry: (not entry[1].startswith("book/"), entry[1], entry[0]))
        rows = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in found)
        files["search.js"] = f"search.index = [\n{rows}\n];\n"
        for path in (ROOT / "book" / "figures").glob("*.svg"):
            files[f"book/figures/{path.name}"] = path.read_text(encoding="utf-8")
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
        return sum(len(text.encode()) for text in files.values())


def stars(exercise: exercises.Exercise) -> str:
    return f'<span role="img" aria-label="difficulty {exercise.difficulty} of 4">{STARS[: exercise.difficulty]}</span>'


def each_hint(nodes: Sequence[Node]) -> List[List[Node]]:
    """The nodes of each hint, its heading first."""
    found: List[List[Node]] = []
    for node in nodes:
        found += [[node]] if node.kind == "h2" else []
        if found and node is not found[-1][0]:
            found[-1].append(node)
    return found


def main(argv: List[str]) -> int:
    start = time.monotonic()
    target = Path(argv[0]) if argv else ROOT / "build" / "site"
    try:
        site = Site()
        site.build()
        size = site.write(target)
    except (Problem, ValueError, OSError) as problem:
        quit_with(str(problem), 1)
    where, seconds = os.path.relpath(target), time.monotonic() - start
    print(f"{where}/index.html: {len(site.pages)} pages, {size / 1e6:.1f} MB, in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
