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
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

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
from website_text import Node, Term, Text, bare, terms_of  # noqa: E402

PARTS = Path(__file__).resolve().parent / "website"
NAME = "A Redis-like server in C"
MOST_DIFFERENT = 700  # lines; two stages that differ in more have no page of their own
STARS = "★★★★"
MINUTES = (30, 60, 120)
class Entry(NamedTuple):
    """A line of the side bar."""

    url: str
    number: str
    title: str


class Stage(NamedTuple):
    """Where the book builds an item: a chapter and a step."""

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
    """The page of a file or folder of the workbook."""
    if path in ("README.md", "."):
        return "about.html"
    path = re.sub(r"^\.(?=\w)", "", path)
    if path.endswith("README.md"):
        return path[: -len("README.md")] + "index.html"
    if path.endswith((".md", ".svg")):
        return re.sub(r"\.md$", ".html", path)
    return path + ("/index.html" if (ROOT / path).is_dir() or (ROOT / ("." + path)).is_dir() else ".html")


def link(page: str, target: str) -> str:
    """The address of one page as seen from another."""
    file, _, anchor = target.partition("#")
    return posixpath.relpath(file, posixpath.dirname(page) or ".") + ("#" + anchor if anchor else "")


def beside(page: str, links: Sequence[Tuple[str, str]]) -> str:
    """What goes with a page: a list of links, each (address, words)."""
    items = "".join(f'<li><a href="{link(page, url)}">{words}</a></li>' for url, words in links)
    return f'<ul class="beside-it">{items}</ul>'


def neighbours(row: Sequence[Entry], url: str) -> Tuple[Optional[Entry], Optional[Entry]]:
    """What comes before a page in a row, and what comes next."""
    at = next((i for i, entry in enumerate(row) if entry.url == url), None)
    return (None, None) if at is None else (row[at - 1] if at else None, [*row, None][at + 1])


def split_title(text: str) -> Tuple[str, str]:
    """"Chapter 06. The event loop" as ("06", "The event loop")."""
    found = re.match(r"(?:Chapter|Appendix) (\w+)[.:] (.*)", text)
    return (found.group(1), found.group(2)) if found else ("", text)


def table(rows: Iterable[Sequence[str]], head: Sequence[str], kind: str = "") -> str:
    """A table of HTML cells."""
    top = "".join(f"<th>{h}</th>" for h in head)
    body = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


class Site:
    """All pages, by their addresses."""

    def __init__(self) -> None:
        self.pages: Dict[str, str] = {}
        self.wanted: List[str] = []  # files and folders that something links to
        self.index: List[List[str]] = []  # title, address, where, text: what can be found
        self.texts: Dict[str, Text] = {}
        self.built: Dict[Tuple[str, str], List[Stage]] = defaultdict(list)  # (file, item) -> steps
        self.side: List[Tuple[str, List[Entry]]] = []
        self.all_exercises = exercises.all_exercises()
        self.terms: List[Term] = []

    # ---- what the pages are made of ----

    def page(self, url: str, title: str, body: str, kind: str, crumbs: Sequence[Tuple[str, str]] = (),
             sections: Sequence[Tuple[int, str, str]] = (), around: Sequence[Optional[Entry]] = (None, None)) -> None:  # fmt: skip
        """Adds a page: its body within the shell."""
        if url in self.pages:
            raise Problem(f"two pages want to be {url}")
        trail = "".join(f'<li><a href="{link(url, u)}">{t}</a></li>' for u, t in crumbs)
        steps = [
            f'<a rel="{rel}" href="{link(url, e.url)}"><span>{word}</span> {e.number} {escape(e.title, False)}</a>'
            for e, rel, word in zip(around, ("prev", "next"), ("Before", "Next")) if e
        ]  # fmt: skip
        done = '<p class="done" hidden><label><input type="checkbox"> I have finished this chapter</label></p>'
        self.pages[url] = part("page.html").format(
            title=escape(title if title == NAME else f"{title} · {NAME}", False), kind=kind, url=url, name=NAME,
            root="../" * url.count("/"), side=self.sidebar(url, sections), body=body,
            crumbs=f'<nav aria-label="Where this is"><ol class="crumbs">{trail}</ol></nav>' if trail else "",
            finish=done if kind == "chapter" else "",
            around=f'<nav class="around" aria-label="Before and next">{"".join(steps)}</nav>' if steps else "",
        )  # fmt: skip

    def sidebar(self, url: str, sections: Sequence[Tuple[int, str, str]]) -> str:
        inner = "".join(f'<li class="h{n}"><a href="#{a}">{h}</a></li>' for n, a, h in sections if n in (2, 3))
        out = []
        for title, entries in self.side:
            items = []
            for entry in entries:
                here = entry.url == url
                below = f"<ol>{inner}</ol>" if here and inner else ""
                number = f"<b>{entry.number}</b> " if entry.number else ""
                items.append(
                    f'<li data-page="{entry.url}"><a href="{link(url, entry.url)}"{" aria-current=page" * here}>'
                    f"{number}{escape(entry.title, False)}</a>{below}</li>"
                )
            out.append(f'<p>{title}</p><ol class="entries">{"".join(items)}</ol>')
        return "".join(out)

    def text(self, path: str) -> Text:
        """The Markdown file, ready to be made into HTML."""
        if path not in self.texts:
            url = url_of(path)
            text = Text(book_blocks.read(ROOT / path), lambda t: self.href(path, t), lambda a, t: self.figure(path, a, t))
            text.source = lambda file, number: self.href(path, posixpath.relpath(file, posixpath.dirname(path) or ".")) + (
                f"#L{number}" if number else ""
            )
            text.place = lambda row: self.places(path, row)
            self.texts[path] = text
        return self.texts[path]

    def href(self, path: str, target: str) -> str:
        """A link in the Markdown file `path`, as its page has it."""
        if re.match(r"[a-z]+:", target):
            return target
        file, _, anchor = target.partition("#")
        if not file:
            return target
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        if not (ROOT / there).exists():
            raise BookError(f"{path}: there is no {target}")
        while (ROOT / there).is_dir() and there != "chapters":  # a folder is told of in its README, or in one above
            there = f"{there}/README.md" if (ROOT / there / "README.md").exists() else posixpath.dirname(there) or "."
        self.wanted.append(there)
        return link(url_of(path), url_of(there)) + ("#" + anchor if anchor else "")

    def figure(self, path: str, alt: str, target: str) -> str:
        """A picture with its title. It can be opened by itself, and follows the colours of the system."""
        href = self.href(path, target)
        svg = (ROOT / path).parent.joinpath(target).read_text(encoding="utf-8")
        title = re.search(r"<title[^>]*>(.*?)</title>", svg, re.S)
        size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
        if not title or not size:
            raise BookError(f"{path}: the picture {target} has no title or no viewBox")
        image = f'<img src="{href}" alt="{escape(alt)}" width="{size[1]}" height="{size[2]}">'
        return f'<figure class="drawing"><a href="{href}">{image}</a><figcaption>{title[1].strip()}</figcaption></figure>'

    def places(self, path: str, row: List[str]) -> List[str]:
        """Where the lines are that a row of a stage's table of changes names."""
        name = Path(path).parent.name
        file, kind, names, change, _ = row
        stage = before(name) if change == "gone" else name
        there = f"chapters/{stage}/{file}"
        lines = {item.key: item.code for item in source(there).items}
        return [f"{link(url_of(path), url_of(there))}#L{lines[kind, n]}" for n in re.findall(r"`([^`]+)`", names)]

    def find(self, text: Text, nodes: Sequence[Node], url: str, where: str) -> None:
        """Puts the sections of a page into the index of the search."""
        title, anchor, words, at = where, "", [], 0
        for node in [*nodes, Node("h2", "")]:
            if re.match(r"h[1-3]$", node.kind):
                self.index += [[title, url + anchor, where, " ".join(words)]] if words else []
                if node.html:
                    _, name, html = text.headings[at]
                    title, anchor, words = bare(html), f"#{name}", []
            elif node.kind in ("p", "list", "table", "quote", "predict", "answer"):
                words.append(bare(re.sub(r"<(figure|pre).*?</\1>", " ", node.html, flags=re.S)))
            at += bool(re.match(r"h\d$", node.kind))

    # ---- pages of text ----

    def road(self) -> None:
        """Reads the book, and says in which order its pages come."""
        for path in book_blocks.paths(ROOT / "book"):
            text = self.text(str(path.relative_to(ROOT)))
            for view in text.views.values():
                for name in view.names if view.number else ():
                    file = view.file if view.file.startswith("common/") else view.file.rpartition("/")[2]
                    step = Stage(text.page.chapter, view.number, f"{url_of(str(path.relative_to(ROOT)))}#step-{view.number}")
                    self.built[file, name].append(step)
        entries = [self.entry(str(p.relative_to(ROOT))) for p in book_blocks.paths(ROOT / "book")]
        book = [e for e in entries if e.url.startswith("book/") and e.url.count("/") == 1 and e.url != "book/index.html"]
        self.chapters = [e for e in book if e.number.isdigit()]
        told = {e.number for e in self.chapters}  # a stage that the book does not tell of yet stands for its chapter
        self.chapters += [self.entry(f"chapters/{c}/README.md") for c in chapters() if c not in told]
        self.chapters.sort(key=lambda e: e.number)
        self.appendices = [e for e in book if e.number and not e.number.isdigit()]
        rest = [e for e in book if not e.number]
        own = [("book/index.html", "How to use this book"), ("exercises/index.html", "Exercises")]
        own += [("chapters/index.html", "Stages and differences")]
        teach = sorted((e for e in entries if e.url.count("/") > 1), key=lambda e: (not e.url.endswith("index.html"), e.url))
        beside = [Entry(u, "", t) for u, t in own] + rest + [Entry("about.html", "", "About this workbook")]
        self.side = [("The road", self.chapters), ("Appendices", self.appendices), ("Beside it", beside)]
        self.side += [("Teaching", teach)] if teach else []
        self.terms = terms_of(self.text("book/glossary.md").page)
        for term in self.terms:
            self.index.append([term.name, f"book/glossary.html#{term.anchor}", "Glossary", term.sentence])

    def entry(self, path: str) -> Entry:
        title = next((t[2:] for t in self.text(path).page.lines if t.startswith("# ")), path)
        return Entry(url_of(path), *split_title(title))

    def markdown(self, path: str) -> None:
        """The page of a Markdown file."""
        url, text, entry = url_of(path), self.text(path), self.entry(path)
        chapter = text.page.chapter
        around = neighbours(self.chapters + self.appendices, url)
        if path != "book/glossary.md":
            text.know(self.terms, link(url, "book/glossary.html"))
        nodes = text.nodes()
        html = [node.html for node in nodes]
        if chapter in chapters():
            html.insert(1, self.beside_chapter(url, chapter))
        self.find(text, nodes, url, f"{entry.number} {entry.title}".strip())
        self.page(url, entry.title, "\n".join(html), "chapter" if chapter else "text", (), text.headings, around)

    def beside_chapter(self, url: str, name: str) -> str:
        """What goes with a chapter."""
        count = sum(e.chapter == name for e in self.all_exercises)
        stage = f"chapters/{name}/index.html"
        old = before(name)
        links = [(stage, f"The stage: chapters/{name}")]
        links += [(f"diffs/{old}-{name}.html", f"What changes since {old}")] if old else []
        links += [(f"exercises/index.html#chapter-{name}", f"{count} exercises")] if count else []
        return beside(url, links)

    # ---- stages ----

    def stage(self, name: str) -> None:
        """The page of a stage: its README, and its files."""
        path, url = f"chapters/{name}/README.md", f"chapters/{name}/index.html"
        text = self.text(path)
        nodes = text.nodes()
        names = [p.name for p in sources(name)] + ["Makefile"]
        files = []
        for file in names:
            self.file(f"chapters/{name}/{file}", [(url, f"Stage {name}")])
            lines = source(f"chapters/{name}/{file}").code_lines() if file.endswith(".c") else ""
            files.append((f'<a href="{file}.html">{file}</a>', lines and f"{lines} lines of code"))
        joined = [h for h in headers.joining(name)]
        files += [(f'<a href="{link(url, f"common/{h}.html")}">common/{h}</a>', "joins common/ here") for h in joined]
        extra = '<h2 id="files">Files</h2>' + table(files, ("file", ""))
        old = before(name)
        chapter = next(e for e in self.chapters if e.number == name)
        links = [(chapter.url, "The chapter that builds it")] if chapter.url != url else []
        links += [(f"diffs/{old}-{name}.html", f"All that changes since {old}, side by side")] if old else []
        html = [nodes[0].html.replace(">Chapter ", ">Stage "), *(n.html for n in nodes[1:])]
        html.insert(1, beside(url, links))
        row = [Entry(f"chapters/{c}/index.html", "Stage", c) for c in chapters()]
        self.find(text, nodes, url, f"Stage {name}")
        self.page(url, f"Stage {name}", "\n".join(html) + extra, "text", [("chapters/index.html", "Stages")], text.headings,
                  neighbours(row, url))  # fmt: skip

    def file(self, path: str, crumbs: List[Tuple[str, str]]) -> None:
        """A source with line numbers; its functions lead to where the book builds them."""
        url = url_of(path)
        if url in self.pages:
            return
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        extra: Dict[int, str] = {}
        if re.match(r"(chapters/\d\d|common)/[^/]+\.[ch]$", path):
            stage = path.split("/")[1] if path.startswith("chapters") else "99"
            file = path if path.startswith("common/") else path.rpartition("/")[2]
            for item in source(path).of_kind(*stages.DECLARED):
                steps = [s for s in self.built.get((file, item.name), []) if s.chapter <= stage]
                last = {s.chapter: s for s in steps}  # one of each chapter
                links = "".join(f'<a href="{link(url, s.url)}" title="Chapter {s.chapter}, step {s.step}">{c}</a>'
                                for c, s in last.items())  # fmt: skip
                if links:
                    extra[item.code] = f'<span class="built">built in {links}</span>'
                where = f"{item.kind}, {path}"
                self.index.append([item.name, steps[0].url if steps else f"{url}#L{item.code}", where, ""])
        parts = [website_code.Line(t, "", n, extra.get(n, "")) for n, t in enumerate(lines, 1)]
        body = website_code.code(parts, website_code.language(path), "L")
        title = path.rpartition("/")[2]
        heading = f'<h1 id="file"><code>{escape(path, False)}</code></h1>'
        self.page(url, f"{title} of {path.split('/')[1]}" if path.startswith("chapters/") else title,
                  f'{heading}<figure class="listing whole">{body}</figure>', "wide", crumbs)  # fmt: skip

    def differences(self) -> None:
        """A page for any two stages that do not differ in too much, and one that leads to them and to the stages."""
        names, url = chapters(), "chapters/index.html"
        grid: List[List[str]] = []
        for old in names[:-1]:
            row = [f"<b>{old}</b>"]
            for new in names[1:]:
                pair = [(source(f"chapters/{old}/{f}"), source(f"chapters/{new}/{f}")) for f in PAIR]
                count = sum(sum(stagediff.changed_lines(a, b)) for a, b in pair) if old < new else 0
                there = old < new and (count <= MOST_DIFFERENT or before(new) == old)
                if there:
                    self.difference(old, new)
                row.append(f'<a href="{link(url, f"diffs/{old}-{new}.html")}">{count}</a>' if there else f"{count or ''}")
            grid.append(row)
        stage_rows = []
        for name in names:
            title = next(e.title for e in self.chapters if e.number == name)
            files = ", ".join(f'<a href="{name}/{p.name}.html">{p.name}</a>' for p in sources(name))
            stage_rows.append((f'<a href="{name}/index.html">{name}</a>', escape(title, False), files))
        body = (
            '<h1 id="stages">Stages and differences</h1><p>Every stage is a complete server and client. What a chapter does '
            "not teach is byte for byte what it was in the chapter before.</p>"
            + table(stage_rows, ("stage", "chapter", "sources"))
            + '<h2 id="any-two">Any two side by side</h2><p>From the stage on the left to the one above: how many lines of '
            "<code>server.c</code> and <code>client.c</code> come and go. Where that number is no link, "
            "<code>make diff-03-14</code> shows it in a terminal.</p>".replace("03-14", f"{names[0]}-{names[-1]}")
            + table(grid, ["", *names[1:]], "grid")
        )
        self.page(url, "Stages and differences", body, "text", (), [(2, "any-two", "Any two side by side")])

    def difference(self, old: str, new: str) -> None:
        """One stage beside another."""
        url = f"diffs/{old}-{new}.html"
        rows, parts = [], []
        readme = self.text(f"chapters/{new}/README.md")
        said = stages.rows("\n".join(readme.page.lines), "README.md") if old == before(new) else []
        purposes = {(r.file, r.kind, n): readme.inline(r.what_for) for r in said for n in r.names}
        for file in PAIR:
            a, b = (source(f"chapters/{name}/{file}") for name in (old, new))
            lines = {(i.kind, i.name): i.code for i in b.items}
            for each in stages.changes(a, b):
                shown = f"<code>{escape(each.name, False)}</code>"
                if each.new:
                    shown = f'<a href="#{file}-{lines[each.key]}">{shown}</a>'
                rows.append((file, each.kind, shown, f'<span class="{each.change}">{each.change}</span>',
                             purposes.get((file, *each.key), "")))  # fmt: skip
            opcodes = stagediff.opcodes(a, b)
            if all(op[0] == "equal" for op in opcodes):
                parts.append(f'<h2 id="{file}">{file}</h2><p>It is the same.</p>')
                continue
            body = website_code.beside(a.text.splitlines(), b.text.splitlines(), opcodes, "c", f"{file}-")
            come, go = stagediff.changed_lines(a, b)
            label = f'<a href="{link(url, f"chapters/{old}/{file}.html")}">{old}/{file}</a> <span>to</span> '
            label += f'<a href="{link(url, f"chapters/{new}/{file}.html")}">{new}/{file}</a>'
            label += f" <span>{come} lines come, {go} go</span>"
            parts.append(f'<h2 id="{file}">{file}</h2><figure class="listing whole sides"><figcaption>{label}</figcaption>{body}</figure>')
        joined = [h for name in chapters() if old < name <= new for h in headers.joining(name)]
        more = ", ".join(f'<a href="{link(url, f"common/{h}.html")}">{h}</a>' for h in joined)
        top = f'<h1 id="diff">From stage {old} to stage {new}</h1>'
        top += f"<p>Headers that join <code>common/</code>: {more}.</p>" if more else ""
        top += table(rows, ("file", "kind", "name", "change", "what for")) if rows else ""
        row = [Entry(f"diffs/{a}-{b}.html", "", f"From {a} to {b}") for a, b in zip(chapters(), chapters()[1:])]
        self.page(url, f"From {old} to {new}", top + "".join(parts), "wide",
                  [("chapters/index.html", "Stages"), (f"chapters/{new}/index.html", f"Stage {new}")], (), neighbours(row, url))  # fmt: skip

    # ---- exercises ----

    def exercise_pages(self) -> None:
        """A page for each, and one with all of them, to choose from."""
        index, rows = "exercises/index.html", []
        entries = [Entry(f"chapters/{e.chapter}/exercises/{e.slug}/index.html", e.name, e.title) for e in self.all_exercises]
        for entry, each in zip(entries, self.all_exercises):
            folder = f"chapters/{each.chapter}/exercises/{each.slug}"
            text, hints = self.text(f"{folder}/README.md"), self.text(f"{folder}/hints.md")
            nodes = text.nodes()
            facts = f"<b>{each.kind}</b> <span>{stars(each)}</span> <span>{each.minutes} minutes</span> "
            facts += f"<span>{each.points} points</span> <span>hand in <code>{'</code>, <code>'.join(each.submit)}</code></span>"
            commands = f"make start-{each.name}    # copies what it begins with to my/{each.name}\n"
            commands += f"make check-{each.name}    # builds and grades what stands there\n"
            typed = Text.frame(website_code.plain(commands, "sh"), "", "to type", "sh")
            html = [nodes[0].html, f'<p class="facts">{facts}</p>', typed, *(node.html for node in nodes[1:])]
            html.append('<h2 id="hints">Hints</h2>' + hints_html(hints))
            chapter = next(e for e in self.chapters if e.number == each.chapter)
            crumbs = [(index, "Exercises"), (chapter.url, f"Chapter {each.chapter}")]
            self.find(text, nodes, entry.url, f"Exercise {each.name}")
            self.page(entry.url, each.title, "\n".join(html), "text", crumbs, text.headings, neighbours(entries, entry.url))
            long = next((m for m in MINUTES if each.minutes <= m), "more")
            classes = f"c-{each.chapter} k-{each.kind} d-{each.difficulty} m-{long}"
            cells_ = [f'<a href="{link(index, entry.url)}">{each.name}</a>', escape(each.title, False), each.kind,
                      stars(each), str(each.minutes), str(each.points)]  # fmt: skip
            first = f' id="chapter-{each.chapter}"' if not rows or f"c-{each.chapter}" not in rows[-1] else ""
            rows.append(f'<tr class="{classes}"{first}>{"".join(f"<td>{c}</td>" for c in cells_)}</tr>')
        head = "".join(f"<th>{h}</th>" for h in ("exercise", "title", "kind", "difficulty", "minutes", "points"))
        grid = f'<div class="scroll"><table class="choice"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        body = f'<h1 id="exercises">Exercises</h1><p>{len(rows)} exercises with a grader. <code>make next</code> chooses one.</p>'
        self.page(index, "Exercises", body + self.filters() + grid, "text")

    def filters(self) -> str:
        """Radio buttons that leave some rows out, by rules of CSS alone."""
        found = self.all_exercises
        groups = [
            ("c", "Chapter", [(c, c) for c in sorted({e.chapter for e in found})]),
            ("k", "Kind", [(k, k) for k in exercises.KINDS if any(e.kind == k for e in found)]),
            ("d", "Difficulty", [(str(d), STARS[:d]) for d in sorted({e.difficulty for e in found})]),
            ("m", "Minutes", [*((str(m), f"up to {m}") for m in MINUTES), ("more", "more")]),
        ]
        out, rules = [], []
        for key, legend, options in groups:
            radios = [f'<label><input type="radio" name="{key}" id="f-{key}" checked>all</label>']
            for value, shown in options:
                radios.append(f'<label><input type="radio" name="{key}" id="f-{key}-{value}">{shown}</label>')
                wanted = [f".{key}-{value}"]
                if key == "m" and value != "more":
                    wanted = [f".m-{m}" for m in MINUTES if m <= int(value)]
                others = "".join(f":not({w})" for w in wanted)
                rules.append(f"body:has(#f-{key}-{value}:checked) .choice tbody tr{others}{{display:none}}")
            out.append(f"<fieldset><legend>{legend}</legend>{''.join(radios)}</fieldset>")
        return f'<style>{"".join(rules)}</style><form class="filters" aria-label="Which exercises">{"".join(out)}</form>'

    # ---- home, and the rest ----

    def home(self) -> None:
        """What it is, the two commands, the road."""
        text = self.text("README.md")
        lead = " ".join(re.match(r"# .*?\n\n(.*?)\n\n", "\n".join(text.page.lines), re.S)[1].split())  # type: ignore[index]
        sentences = re.split(r"(?<=\.) (?=[A-Z])", lead)
        commands = [website_code.plain(block.code, "sh") for block in text.page.blocks[:2]]
        sizes = {c: source(f"chapters/{c}/server.c").code_lines() for c in chapters()}
        said = {re.sub(r"\W", "", row[0][:3]): row[2] for row in map(cells, self.text("book/README.md").page.lines)
                if len(row) == 3 and re.match(r"\d\d$", row[0])}  # fmt: skip
        road = []
        for entry in self.chapters:
            lines = sizes.get(entry.number)
            width = f'<span class="size" style="--share:{lines / max(sizes.values()):.3f}">{lines}</span>' if lines else ""
            about = f"<span>{text.inline(said.get(entry.number, ''))}</span>"
            road.append(f'<li data-page="{entry.url}"><a href="{entry.url}"><b>{entry.number}</b> '
                        f"<strong>{escape(entry.title, False)}</strong></a> {about}{width}</li>")  # fmt: skip
        beside = "".join(f'<li><a href="{e.url}">{escape(e.title, False)}</a></li>' for _, es in self.side[1:] for e in es)
        body = part("home.html").format(
            title=NAME, lead=text.inline(" ".join(sentences[:3])), first=self.chapters[0].url, number=self.chapters[0].number,
            commands="".join(Text.frame(c, "", "to type", "sh") for c in commands), road="".join(road),
            beside=f'<h2 id="more">Beside the road</h2><ul class="columns">{beside}</ul>',
        )  # fmt: skip
        self.page("index.html", NAME, body, "home")

    def build(self) -> None:
        """All pages."""
        self.road()
        for name in chapters():
            self.stage(name)
        self.differences()
        self.exercise_pages()
        for path in book_blocks.paths(ROOT / "book"):
            self.markdown(str(path.relative_to(ROOT)))
        self.home()
        for header in headers.headers():
            self.file(f"common/{header}", [("common/index.html", "common/")])
        self.wanted += ["README.md", "common/README.md"]
        while self.wanted:
            path = self.wanted.pop()
            if url_of(path) in self.pages or path.endswith(".svg"):
                continue
            if path.endswith(".md"):
                self.markdown(path)
            else:
                self.file(path, [])

    def write(self, target: Path) -> int:
        """Writes the pages and what goes with them; returns how many bytes that are."""
        shutil.rmtree(target, ignore_errors=True)
        files = dict(self.pages)
        for name in ("style.css", "script.js", "icon.svg"):
            files[name] = part(name)
        self.index.sort(key=lambda e: (not e[1].startswith("book/"), e[1]))
        known = {(e[0], e[1]): e for e in self.index}  # an item that stays for many chapters is found once
        rows = ",\n".join(json.dumps(e, ensure_ascii=False) for e in known.values())
        files["search.js"] = f"search.index = [\n{rows}\n];\n"
        for path in sorted((ROOT / "book" / "figures").glob("*.svg")):
            files[f"book/figures/{path.name}"] = path.read_text(encoding="utf-8")
        for name, text in sorted(files.items()):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return sum(len(text.encode()) for text in files.values())


def stars(exercise: exercises.Exercise) -> str:
    return f'<span title="difficulty {exercise.difficulty} of 4">{STARS[: exercise.difficulty]}</span>'


def hints_html(text: Text) -> str:
    """The hints, each folded."""
    out: List[str] = []
    for node in text.nodes():
        if node.kind == "h2":
            out.append(f"</div></details><details class=hint><summary>Hint {node.text}</summary><div>")
        elif out:
            out.append(node.html)
    return "\n".join(out)[len("</div></details>") :] + "</div></details>"


def main(argv: List[str]) -> int:
    start = time.monotonic()
    target = Path(argv[0]) if argv else ROOT / "build" / "site"
    try:
        site = Site()
        site.build()
        size = site.write(target)
    except (Problem, ValueError) as problem:
        quit_with(str(problem), 1)
    where = os.path.relpath(target)
    print(f"{where}/index.html: {len(site.pages)} pages, {size / 1e6:.1f} MB, in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
