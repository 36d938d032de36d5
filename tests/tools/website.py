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
import re
import shutil
import sys
import time
from collections import defaultdict
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Dict, Iterable, List, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import book_blocks  # noqa: E402
import exercises  # noqa: E402
import headers  # noqa: E402
import stagediff  # noqa: E402
import stages  # noqa: E402
import website_code  # noqa: E402
from exercises import Exercise  # noqa: E402
from layout import (  # noqa: E402
    RENUMBERED, ROOT, Problem, before, cells, chapters, files_of, quit_with, server_of,
)  # fmt: skip
from website_text import GLOSSARY, STAGES, Entry, Text, bare, frame, link, source, table, terms_of, url_of  # noqa: E402

PARTS = Path(__file__).resolve().parent / "website"
NAME = "A Redis-like server in C"
STARS = "★★★★"
MINUTES = (30, 60, 120)
EXERCISES = "exercises/index.html"
# page -> its address in the first edition, which leads on to it
FIRST_EDITION = {
    "book/17-waiting-for-memory.html": "book/15-waiting-for-memory.html",
    "book/18-ten-thousand-connections.html": "book/16-ten-thousand-connections.html",
    "book/20-resp.html": "book/17-resp.html", "book/22-two-doors.html": "book/18-keyspace.html",
}  # fmt: skip
HEADING = re.compile(r'<h([1-6]) id="(.*?)">(.*?)</h\1>', re.S)
Link = Tuple[str, str]  # address, HTML


def part(name: str) -> str:
    """A file that goes into the pages, or beside them."""
    return (PARTS / name).read_text(encoding="utf-8")


def a(page: str, target: str, html: str) -> str:
    return f'<a href="{link(page, target)}">{html}</a>'


def items(page: str, links: Iterable[Link], kind: str) -> str:
    """A list of links."""
    inside = "".join(f"<li>{a(page, *each)}</li>" for each in links)
    return f'<ul class="{kind}">{inside}</ul>' if inside else ""


def program_of(path: str) -> str:
    """Under which name it is noted where a file's items are built: server.c stands for all files of a server."""
    file = re.sub(r"^chapters/\d\d/", "", path)
    return "server.c" if file.startswith("src/") else file


def typed(commands: str) -> str:
    return frame(website_code.plain(commands, "sh"), "", "to type", "sh")


class Site:
    """All pages, by their addresses."""

    def __init__(self) -> None:
        self.pages: Dict[str, str] = {}
        self.wanted: List[str] = ["README.md", "common/README.md"]  # files that something links to
        self.index: List[Sequence[str]] = []  # title, address, where, text: what can be found
        self.text = lru_cache(maxsize=None)(lambda path: Text(path, self.wanted))  # each file is read once
        self.built: Dict[Tuple[str, str], List[Link]] = defaultdict(list)  # (file, item) -> address, chapter
        self.side: List[Tuple[str, List[Entry]]] = []
        self.exercises = exercises.all_exercises()
        self.book = [str(path.relative_to(ROOT)) for path in book_blocks.paths(ROOT / "book")]

    # ---- what pages are made of ----

    def page(self, url: str, title: str, body: str, kind: str = "text", crumbs: Iterable[Link] = (),
             row: Sequence[Entry] = ()) -> None:  # fmt: skip
        """Adds a page; `row` are those that it stands among."""
        near = next((each for each in zip([None, *row], row, [*row[1:], None]) if each[1].url == url), ())
        around = "".join(
            f'<a rel="{rel}" href="{link(url, entry.url)}"><span>{word}</span> {escape(entry.name, False)}</a>'
            for rel, word, entry in zip(("prev", "", "next"), ("Before", "", "Next"), near) if rel and entry
        )  # fmt: skip
        trail = "".join(f"<li>{a(url, *crumb)}</li>" for crumb in crumbs)
        linked = r'<h\1 id="\2">\3<a class="self" href="#\2" aria-label="Link to this section">#</a></h\1>'
        self.pages[url] = part("page.html").format(
            title=escape(title if title == NAME else f"{title} · {NAME}", False), kind=kind, url=url, name=NAME,
            root="../" * url.count("/"), side=self.sidebar(url, body), body=HEADING.sub(linked, body),
            crumbs=f'<nav aria-label="Where this is"><ol class="crumbs">{trail}</ol></nav>' if trail else "",
            around=f'<nav class="around" aria-label="Before and next">{around}</nav>' if around else "",
        )  # fmt: skip

    def sidebar(self, url: str, body: str) -> str:
        """All pages by their sorts, and the sections of this one."""
        sections = [found for found in HEADING.findall(body) if found[0] in "23"]
        inner = "".join(f'<li class="h{level}"><a href="#{to}">{html}</a></li>' for level, to, html in sections)
        inner = f"<ol>{inner}</ol>" if inner else ""

        def line(entry: Entry) -> str:
            current, below = (" aria-current=page", inner) if entry.url == url else ("", "")
            title = (f"<b>{entry.number}</b> " if entry.number else "") + escape(entry.title, False)
            return f'<li data-page="{entry.url}"><a href="{link(url, entry.url)}"{current}>{title}</a>{below}</li>'

        return "".join(f"<p>{title}</p><ol>{''.join(map(line, entries))}</ol>" for title, entries in self.side)

    def findable(self, url: str, where: str, html: str, top: str) -> str:
        """Puts the sections of a page into the index of the search, without code and answers; `top` below its title."""
        parts = HEADING.split(re.sub(r"<(figure|pre|details).*?</\1>", " ", html, flags=re.S))
        for anchor, title, said in zip(parts[2::4], parts[3::4], parts[4::4]):
            if bare(said):
                self.index.append((bare(title), f"{url}#{anchor}", where, bare(said)))
        return html.replace("</h1>", f"</h1>{top}", 1)

    # ---- pages of text ----

    def road(self) -> None:
        """Reads the book, and says in which order its pages come."""
        for text in map(self.text, self.book):
            for view in text.views.values():
                step = f"{text.url}#step-{view.number}", text.page.chapter
                there = {item.name for item in source(view.file).items} if view.number else set()
                for name in view.names:
                    if name in there:  # a first version may be in a file that does not keep it
                        self.built[program_of(view.file), name].append(step)
        entries = [self.text(path).entry for path in self.book if path != "book/README.md"]
        untold = {c: self.text(f"chapters/{c}/README.md").entry for c in chapters()}
        self.by_number = {**untold, **{e.number: e for e in entries}}  # a stage that no chapter tells of stands for it
        self.chapters = [self.by_number[number] for number in sorted(self.by_number) if number[:1].isdigit()]
        self.appendices = [e for e in entries if e.number and not e.number[:1].isdigit()]
        beside = [Entry("book/index.html", "", "How to use this book"), Entry(EXERCISES, "", "Exercises")]
        beside += [Entry(STAGES, "", "Stages and differences")]
        beside += [e for e in entries if not e.number and e.url.count("/") == 1]
        beside += [Entry("about.html", "", "About this workbook")]
        teaching = sorted((e for e in entries if e.url.count("/") > 1), key=lambda e: not e.url.endswith("index.html"))
        self.side = [("The road", self.chapters), ("Appendices", self.appendices), ("Beside it", beside)]
        self.side += [("Teaching", teaching)] if teaching else []
        self.terms = terms_of(self.text(GLOSSARY).page)
        self.index += [(t.name, f"{url_of(GLOSSARY)}#{t.anchor}", "Glossary", t.sentence) for t in self.terms]

    def markdown(self, path: str) -> None:
        """The page of a Markdown file."""
        text = self.text(path)
        url, name, entry = text.url, text.page.chapter, text.entry
        links: List[Link] = []
        if name in chapters():
            count, old = sum(each.chapter == name for each in self.exercises), before(name)
            links = [(f"chapters/{name}/index.html", f"The stage: chapters/{name}")]
            links += [(f"diffs/{old}-{name}.html", f"What changes since {old}")] if old else []
            links += [(f"{EXERCISES}#chapter-{name}", f"{count} exercises")] if count else []
        html = text.html(self.terms if path != GLOSSARY else ())
        html = self.findable(url, entry.name, html, items(url, links, "beside-it"))
        self.page(url, entry.title, html, "chapter" if name else "text", (), self.chapters + self.appendices)

    # ---- stages ----

    def stage(self, name: str) -> None:
        """The page of a stage: its README, and its files."""
        text, old, chapter = self.text(f"chapters/{name}/README.md"), before(name), self.by_number[name]
        url, files = text.url, []
        for file in [*files_of(name), "Makefile"]:
            path = f"chapters/{name}/{file}"
            self.file(path)
            lines = f"{source(path).code_lines()} lines of code" if file.endswith((".c", ".h")) else ""
            files.append((a(url, url_of(path), file), lines))
        files += [(a(url, f"common/{h}.html", f"common/{h}"), "joins common/ here") for h in headers.joining(name)]
        links = [(chapter.url, "The chapter that builds it")] if chapter.url != url else []
        links += [(f"diffs/{old}-{name}.html", f"All that changes since {old}, side by side")] if old else []
        html = re.sub("<p>Read: .*?</p>", "", text.html().replace(">Chapter ", ">Stage ", 1))
        html = self.findable(url, f"Stage {name}", html, items(url, links, "beside-it"))
        html += '<h2 id="files">Files</h2>' + table(files, ("file", ""))
        row = [Entry(f"chapters/{c}/index.html", "Stage", c) for c in chapters()]
        self.page(url, f"Stage {name}", html, "text", [(STAGES, "Stages")], row)

    def file(self, path: str) -> None:
        """A source with line numbers; its functions lead to where the book builds them."""
        (folder, _, name), url, extra = path.rpartition("/"), url_of(path), {}
        found = re.fullmatch(r"chapters/(\d\d)(/src)?", folder)
        stage, name = (found[1], path[len("chapters/NN/") :]) if found else ("", name)
        crumb = (f"chapters/{stage}/index.html", f"Stage {stage}") if stage else (f"{folder}/index.html", "common/")
        crumbs = [crumb] if stage or folder == "common" else []
        for item in source(path).of_kind(*stages.DECLARED) if crumbs and name.endswith((".c", ".h")) else ():
            steps = self.built.get((program_of(path), item.name), [])
            early = [(step, chapter) for step, chapter in steps if chapter <= (stage or chapter)]
            links = " ".join(a(url, *last) for last in {chapter: (step, chapter) for step, chapter in early}.values())
            if links:
                extra[item.code] = f'<span class="built">built in {links}</span>'
            self.index.append((item.name, early[0][0] if early else f"{url}#L{item.code}", f"{item.kind}, {path}", ""))
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        parts = [website_code.Line(text, "", at, False, extra.get(at, "")) for at, text in enumerate(lines, 1)]
        code = website_code.code(parts, website_code.language(path), "L")
        body = f'<h1 id="file"><code>{escape(path, False)}</code></h1><figure class="listing whole">{code}</figure>'
        title = f"{name} of {path.split('/')[1]}" if path.startswith("chapters/") else name
        self.page(url, title, body, "wide", crumbs)

    def stage_index(self) -> None:
        """All stages, and a page for what each changes."""
        rows = []
        for name in chapters():
            files = ", ".join(a(STAGES, *each) for each in sources_of(name))
            row = [a(STAGES, f"chapters/{name}/index.html", name), escape(self.by_number[name].title), files, ""]
            old = before(name)
            if old:
                self.difference(old, name)
                row[3] = a(STAGES, f"diffs/{old}-{name}.html", f"from {old} to {name}")
            rows.append(row)
        body = part("stages.html").format(
            stages=table(rows, ("stage", "chapter", "sources", "what changes")),
            diff=f"make diff-{chapters()[0]}-{chapters()[-1]}",
        )  # fmt: skip
        self.page(STAGES, "Stages and differences", body)

    def difference(self, old: str, new: str) -> None:
        """A stage beside the one before."""
        url, inline = f"diffs/{old}-{new}.html", self.text(f"chapters/{new}/README.md").inline
        earlier, rows, parts, sizes = stages.stage(ROOT, old), [], [], []
        for was, now in stagediff.side_by_side(earlier, stages.stage(ROOT, new)):
            pages = [path for path in (*was.path.split(", "), now.path) if path.startswith("chapters/")]
            file = pages[-1][len("chapters/NN/") :]
            here, lines = file.replace("/", "-"), {item.key: item.code for item in now.items}
            for change, kind, item, purpose in stagediff.rows_of(ROOT, old, new, file):
                if file not in earlier and kind not in stages.DECLARED:
                    continue
                name = f"<code>{escape(item, False)}</code>"
                name = name if change == "gone" else f'<a href="#{here}-{lines[kind, item]}">{name}</a>'
                rows.append((file, kind, name, f'<span class="{change}">{change}</span>', inline(purpose)))
            label = " <span>to</span> ".join(a(url, url_of(path), path[len("chapters/") :]) for path in pages)
            size = "{} lines come, {} go".format(*stagediff.changed_lines(was, now))
            label += f" <span>{size}</span>"
            sides, opcodes = (was.text.splitlines(), now.text.splitlines()), stagediff.opcodes(was, now)
            body = website_code.beside(*sides, opcodes, f"{here}-", was is earlier.get(file))
            body = f'<figure class="listing whole sides"><figcaption>{label}</figcaption>{body}</figure>'
            same = was.text == now.text
            parts.append(f'<h2 id="{here}">{file}</h2>' + ("<p>It is the same.</p>" if same else body))
            sizes.append((f'<a href="#{here}">{file}</a>', "the same" if same else size))
        joined = headers.joining(new)
        top = f'<h1 id="diff">From stage {old} to stage {new}</h1>'
        if joined:
            names = ", ".join(a(url, f"common/{h}.html", h) for h in joined)
            top += f"<p>Headers that join <code>common/</code>: {names}.</p>"
        top += table(sizes, ("file", "")) if len(sizes) > 2 else ""
        top += table(rows, ("file", "kind", "name", "change", "what for"))
        crumbs = [(STAGES, "Stages"), (f"chapters/{new}/index.html", f"Stage {new}")]
        row = [Entry(f"diffs/{x}-{y}.html", "", f"From {x} to {y}") for x, y in zip(chapters(), chapters()[1:])]
        self.page(url, f"From {old} to {new}", top + "".join(parts), "wide", crumbs, row)

    # ---- exercises ----

    def exercise(self, each: Exercise, row: Sequence[Entry]) -> None:
        """The page of an exercise: its task, and hints that are folded."""
        text, chapter = self.text(f"{each.where}/README.md"), self.by_number[each.chapter]
        hand_in = "hand in " + ", ".join(f"<code>{name}</code>" for name in each.submit)
        facts = f"<b>{each.kind}</b>", stars(each), f"{each.minutes} minutes", f"{each.points} points", hand_in
        commands = f"make start-{each.name}    # copies what it begins with to my/{each.name}\n"
        commands += f"make check-{each.name}    # builds and grades what stands there\n"
        top = f'<p class="facts">{"".join(f"<span>{fact}</span> " for fact in facts)}</p>{typed(commands)}'
        html = self.findable(text.url, f"Exercise {each.name}", text.html(), top) + '<h2 id="hints">Hints</h2>'
        for number, hint in enumerate(HEADING.split(self.text(f"{each.where}/hints.md").html())[4::4], 1):
            html += f"<details class=hint><summary>Hint {number}</summary><div>{hint}</div></details>"
        crumbs = [(EXERCISES, "Exercises"), (chapter.url, f"Chapter {each.chapter}")]
        self.page(text.url, each.title, html, "text", crumbs, row)

    def exercise_index(self) -> None:
        """A page for each exercise, and one with all of them: radio buttons leave some rows out, by CSS alone."""
        entries = [Entry(url_of(f"{e.where}/README.md"), e.name, e.title) for e in self.exercises]
        rows, boxes, rules, chapter = [], "", "", ""
        for entry, each in zip(entries, self.exercises):
            self.exercise(each, entries)
            here = f' id="chapter-{each.chapter}"' if each.chapter != chapter else ""
            chapter = each.chapter
            keys = [f"c-{chapter}", f"k-{each.kind}", f"d-{each.difficulty}"]
            keys += [f"m-{most}" for most in MINUTES if each.minutes <= most]
            name = f'<span class="{" ".join(keys)}"{here}>{a(EXERCISES, entry.url, each.name)}</span>'
            title = escape(each.title, False)
            rows.append((name, title, each.kind, stars(each), str(each.minutes), str(each.points)))
        radio = '<label><input type="radio" name="{}"{}>{}</label>'.format
        for legend, options in (
            ("Chapter", {f"c-{each.chapter}": each.chapter for each in self.exercises}),
            ("Kind", {f"k-{kind}": kind for kind in exercises.KINDS}),
            ("Difficulty", {f"d-{i}": STARS[:i] for i in range(1, len(STARS) + 1)}),
            ("Minutes", {f"m-{most}": f"up to {most}" for most in MINUTES}),
        ):
            choices = radio(legend, " checked", "all")
            choices += "".join(radio(legend, f' id="{key}"', shown) for key, shown in options.items())
            boxes += f"<fieldset><legend>{legend}</legend>{choices}</fieldset>"
            for key in options:
                rules += f"body:has(#{key}:checked) .choice tbody tr:not(:has(.{key})){{display:none}}"
        shown = table(rows, ("exercise", "title", "kind", "difficulty", "minutes", "points"), "choice")
        body = part("exercises.html").format(count=len(rows), rules=rules, boxes=boxes, table=shown)
        self.page(EXERCISES, "Exercises", body)

    # ---- home, and all together ----

    def home(self) -> None:
        """What it is, the two commands, the road."""
        text = self.text("README.md")
        sections = HEADING.split(text.html())  # of each heading its level, anchor and title, and the text below
        first = sections[4].partition("</p>")[0].replace("<p>", "").strip()
        lead = " ".join(re.split(r"(?<=\.)\s(?=[A-Z])", first)[:3])
        commands = sections[sections.index("two-commands") + 2]
        rows = map(cells, self.text("book/README.md").page.lines)
        builds = {row[0]: text.inline(row[2]) for row in rows if len(row) == 3}
        sizes = {name: stages.server_lines(ROOT, name) for name in chapters()}
        road = []
        for url, number, title in self.chapters:
            name = a("", url, f"<b>{number}</b> <strong>{escape(title, False)}</strong>")
            size = sizes.get(number, 0)
            bar = f'<span class="size" style="--share:{size / max(sizes.values()):.3f}">{size}</span>' if size else ""
            road.append(f'<li data-page="{url}">{name} <span>{builds.get(number, "")}</span>{bar}</li>')
        more = [(entry.url, escape(entry.title, False)) for _, entries in self.side[1:] for entry in entries]
        body = part("home.html").format(
            title=NAME, lead=lead, first=self.chapters[0].url, number=self.chapters[0].number, commands=commands,
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
        self.wanted += self.book + [f"common/{header}" for header in headers.headers()]
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
        for url in self.pages:
            number = re.match(r"chapters/(\d\d)(?=/exercises/)", url)
            old = url.replace(number[1], RENUMBERED.get(number[1], number[1]), 1) if number else FIRST_EDITION.get(url)
            if old and old not in self.pages:
                files[old] = part("moved.html").format(to=link(old, url))
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
        return sum(len(text.encode()) for text in files.values())


def sources_of(name: str) -> List[Link]:
    """The sources of a stage; all files in src/ are together one link, to the page of the stage."""
    server = server_of(name)
    links = [(url_of(f"chapters/{name}/{file}"), file) for file in files_of(name)]
    src = [(f"chapters/{name}/index.html#files", f"src/ ({len(server)} files)")]
    return links if len(server) == 1 else src + links[len(server) :]


def stars(exercise: Exercise) -> str:
    return f'<span role="img" aria-label="difficulty {exercise.difficulty} of 4">{STARS[: exercise.difficulty]}</span>'


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
