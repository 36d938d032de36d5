"""The Markdown of the book as HTML. What .github/WRITING.md does not allow is an error."""
from __future__ import annotations

import posixpath
import re
from collections import Counter
from functools import lru_cache
from html import escape, unescape
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

import book_blocks
import sources
import stages
import website_code
import website_steps
from book_blocks import LINK, BookError, Page
from layout import ROOT, before, cells
from website_code import Line

BLOCK = re.compile(
    r"""(?P<fenced>\0\d+\n)                                        # stands for a block of book_blocks
    | (?P<heading>\#{1,6}[ ].*\n)
    | (?P<typed>(?:[ ]{4}.*\n|\n+(?=[ ]{4}))+)
    | (?P<quote>(?:>.*\n)+)
    | (?P<table>(?:[ ]*\|.*\n)+)
    | (?P<list>(?:[-*+]|\d+[.)])[ ]+\S.*\n(?:[ ]{2,}.*\n|\n+(?=[ ]{2}|(?:[-*+]|\d+[.)])[ ])|(?![|>\#]|[ ]*\0).+\n)*)
    | (?P<details></?(?:details|summary)>.*\n)
    | (?P<unknown>[ ]{0,3}(?:\*\*\*|___|---|===)\s*\n|\[\^.*\n|\[[^\]]+\]:\s.*\n|~~~.*\n|<.*\n)
    | (?P<paragraph>.+\n(?:(?![ ]*(?:[-*+]|1[.)])[ ]|[ ]*[|\0]|>|\#{1,6}[ ]|</?details>).+\n)*)
    | \n""",
    re.X,
)
INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<link>{LINK.pattern})"
    r"|<(?P<auto>https?://[^>\s]+)>"
    r"|\*\*(?P<strong>(?=\S)(?:`[^`]*`|[^`])+?(?<=\S))\*\*"
    r"|(?<![\w*])\*(?P<em>(?=[^\s*])(?:`[^`]*`|[^`*])+?(?<=\S))\*(?![\w*])"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<plain>[^`!\[<*\\]+|.)",
    re.S,
)
NUMERIC = re.compile(r"([-+]?[\d.,]+( ?(%|x|s|ms|µs|ns|MB|MiB|KiB))?)?$")
TERM = re.compile(r"^- \*\*(.+?)\*\* \((.*?)\): (.*)", re.S)
GLOSSARY, STAGES = "book/glossary.md", "chapters/index.html"
EVERYDAY = ("case", "fork", "join", "load", "stage", "turn", "walk")  # terms whose word often means something else
KNOWN = (*website_code.LANGUAGES, "text", "ini", "json", "yaml", "toml", "")  # what a block without more words may be


@lru_cache(maxsize=None)
def source(path: str) -> sources.Source:
    return sources.read(ROOT / path, path)


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


class Entry(NamedTuple):
    """A page as others name it: in the side bar, as the one before or the next."""

    url: str
    number: str
    title: str

    @property
    def name(self) -> str:
        return f"{self.number} {self.title}".strip()


class Term(NamedTuple):
    """A term of the glossary."""

    name: str
    chapter: str  # that introduces it
    sentence: str

    @property
    def anchor(self) -> str:
        return "term-" + re.sub(r"[^\w-]+", "-", self.name.lower()).strip("-")

    def is_meant(self, chapter: str) -> bool:
        """Is it likely to be this term where a page has the word? Before its chapter, a plain word may be just that."""
        early = bool(chapter) and self.chapter[:2] > chapter and re.fullmatch(r"[a-z]+", self.name)
        return not early and self.name not in EVERYDAY and not re.search(r"[(),]", self.name)


def bare(html: str) -> str:
    """The text of some HTML."""
    html = re.sub(r"</(td|th|li|p|summary)>", " ", html)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def terms_of(page: Page) -> List[Term]:
    """The terms of the glossary, each with its first sentence."""
    found = []
    items = re.split(r"\n(?=- |\n|#)", "\n".join(line for _, line in page.prose))
    for hit in filter(None, map(TERM.match, (item.strip() for item in items))):
        said = bare(re.sub(r"\]\([^)]*\)|[`*\[\]]", "", hit[3]))
        found.append(Term(hit[1], re.sub(r"\W.*", "", hit[2].lstrip("[")), re.split(r"(?<=[.:]) (?=[A-Z])", said)[0]))
    return found


def sort_of(html: str) -> str:
    """What a piece of a page is: ? asks, a shows what happens, p says it, n is an aside, . is none of these."""
    kind = re.match(r'<p>|<div class="(predict)|<figure class="listing (session|output|captured)|<(aside)', html)
    return "." if not kind else "?" if kind[1] else "a" if kind[2] else "n" if kind[3] else "p"


def beside(pieces: Sequence[str]) -> str:
    """Pieces of a page; an aside behind a paragraph, and those that go on behind it, are one, for there is a margin."""
    kinds = "".join(map(sort_of, pieces))
    runs = ["\n".join(pieces[run.start() : run.end()]) for run in re.finditer("pn(p(?!n))*|.", kinds)]
    return "\n".join(f'<div class="noted">\n{run}\n</div>' if "\n<aside" in run else run for run in runs)


def frame(body: str, label: str, what: str, kind: str = "", anchor: str = "") -> str:
    """A block of code with its label."""
    here = f' id="{anchor}"' if anchor else ""
    itself = f'<a class="self" href="#{anchor}">{anchor.replace("-", " ")}</a> ' if anchor else ""
    caption = f"{itself}{label} <span>{escape(what)}</span>" if what else itself + label
    caption = f"<figcaption>{caption.strip()}</figcaption>" if caption else ""
    return f'<figure class="{f"listing {kind}".strip()}"{here}>{caption}{body}</figure>'


def table(rows: Sequence[Sequence[str]], head: Sequence[str], kind: str = "text") -> str:
    """A table of cells that are HTML; columns of numbers are aligned, but for the first."""
    number = [" class=n" * all(NUMERIC.match(bare(cell)) for cell in column) for column in zip(*rows)]
    number[:1] = [""]

    def line(tag: str, row: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for cell, kind in zip(row, number))}</tr>"

    top = f"<thead>{line('th', head)}</thead>" if any(head) else ""
    body = "".join(line("td", row) for row in rows)
    return f'<div class="scroll"><table class="{kind}">{top}<tbody>{body}</tbody></table></div>'


class Text:
    """One page of Markdown. `wanted` is told of every file that it links to."""

    def __init__(self, path: str, wanted: List[str]) -> None:
        self.path, self.wanted, self.url = path, wanted, url_of(path)
        self.page = book_blocks.read(ROOT / path)
        self.blocks = {block.line: block for block in self.page.blocks}
        self.views = website_steps.views(self.page)

    @property
    def entry(self) -> Entry:
        """"# Chapter 06. The event loop" is ("06", "The event loop")."""
        title = next((line[2:] for line in self.page.lines if line.startswith("# ")), self.path)
        _, number, title = ["", "", *re.split(r"^(?:Chapter|Appendix) (\w+)[.:] ", title)][-3:]
        return Entry(self.url, number, title)

    def address(self, file: str) -> str:
        """The page of another file; it will be made."""
        self.wanted.append(file)
        return link(self.url, url_of(file))

    def href(self, target: str) -> str:
        file, _, anchor = target.partition("#")
        if not file or re.match(r"[a-z]+:", target):
            return target
        there = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), file))
        if not (ROOT / there).exists():
            raise BookError(f"{self.path}: there is no {target}")
        while (ROOT / there).is_dir() and there != "chapters":  # a folder is told of in its README, or in one above
            readme = posixpath.join(there, "README.md")
            there = readme if (ROOT / readme).exists() else posixpath.dirname(there)
        return self.address(there) + ("#" + anchor if anchor else "")

    def figure(self, alt: str, target: str) -> str:
        """A picture with its title. It can be opened by itself, and follows the colours of the system."""
        href, svg = self.href(target), (ROOT / self.path).parent.joinpath(target).read_text(encoding="utf-8")
        title = re.search(r"<title[^>]*>(.*?)</title>", svg, re.S)
        size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
        if not title or not size:
            raise BookError(f"{self.path}: the picture {target} has no title or no viewBox")
        image = f'<img src="{href}" alt="{escape(alt)}" width="{size[1]}" height="{size[2]}">'
        says_it = svg.count(f">{title[1]}<") > 1  # in the picture, too
        caption = " ".join([*self.numbered("Figure"), *([] if says_it else [title[1].strip()])])
        caption = f"<figcaption>{caption}</figcaption>" if caption else ""
        return f'<figure class="drawing"><a href="{href}">{image}</a>{caption}</figure>'

    def numbered(self, what: str) -> List[str]:
        """The number of the next figure or listing of a chapter or an appendix: ["<span>Figure 06.1</span>"]."""
        self.counts[what] += 1
        return [f"<span>{what} {self.entry.number}.{self.counts[what]}</span>"] if self.entry.number else []

    def places(self, file: str, kind: str, names: str, change: str, _: str) -> List[str]:
        """Where the lines are that a row of a stage's table of changes names."""
        name = Path(self.path).parent.name
        there = f"chapters/{before(name) if change == 'gone' else name}/{file}"
        lines = {item.key: item.code for item in source(there).items}
        return [f"{self.address(there)}#L{lines[kind, each]}" for each in re.findall(r"`([^`]+)`", names)]

    # ---- blocks ----

    def html(self, terms: Sequence[Term] = ()) -> str:
        """The page; the first mention of each term leads to the glossary."""
        self.terms = {t.name.lower(): t for t in terms if t.is_meant(self.page.chapter)}  # not linked yet
        names = sorted((re.escape(name).replace("\\ ", r"\s+") for name in self.terms), key=len, reverse=True)
        self.known = re.compile(rf"(?<![\w-])({'|'.join(names)})(e?s)?(?![\w-])" if names else "(?!)", re.I)
        lines = dict(self.page.prose)
        lines.update({line: f"{' ' * block.indent}\0{line}" for line, block in self.blocks.items()})
        self.anchors = iter(book_blocks.anchors(self.page))
        self.counts: Dict[str, int] = Counter()
        return self.render("".join(lines[number] + "\n" for number in sorted(lines)))

    def render(self, text: str) -> str:
        """The HTML of some blocks. What a prediction asks for is folded: what happens, and the sentence on it."""
        found = [each for each in BLOCK.finditer(text) if each.lastgroup]
        pieces = [getattr(self, str(each.lastgroup))(each[0]) for each in found]
        out = []
        for run in re.finditer(r"(\?)(a*(?:pn?)?)|[^?]+", "".join(map(sort_of, pieces))):
            if not run[1]:
                out.append(beside(pieces[run.start() : run.end()]))
                continue
            out.append(pieces[run.start()])
            if run[2]:
                summary = "<summary>Answered? See what happens</summary>"
                answer = beside(pieces[run.start(2) : run.end()])
                out.append(f'<details class="answer">{summary}\n{answer}\n</details>')
        return "\n".join(out)

    def heading(self, text: str) -> str:
        level, anchor = len(text) - len(text.lstrip("#")), next(self.anchors)
        title = self.inline(text.strip("# \n"))
        title = re.sub(r"^(Chapter \w+|Appendix \w+)[.:] ", r'<span class="kicker">\1</span> ', title)
        return f'<h{level} id="{anchor}">{title}</h{level}>'

    def paragraph(self, text: str) -> str:
        text = re.sub(r"[ ]*\n[ ]*", "\n", text.strip())
        picture = LINK.fullmatch(text)
        if picture and picture[1]:
            return self.figure(" ".join(picture[2].split()), picture[3])
        return f"<p>{self.inline(text, True)}</p>"

    def typed(self, text: str) -> str:
        return frame(website_code.plain(re.sub("^ {4}", "", text.strip("\n"), flags=re.M), "sh"), "", "")

    def quote(self, text: str) -> str:
        html = self.render(re.sub("^> ?", "", text, flags=re.M))
        if text.startswith(book_blocks.ASIDE):
            return f'<aside role="note">{html}</aside>'
        return f'<div class="predict">{html}</div>' if "**Predict:**" in text else f"<blockquote>{html}</blockquote>"

    def details(self, text: str) -> str:
        return re.sub(r"(?<=<summary>).*(?=</summary>)", lambda found: self.inline(found[0]), text.strip())

    def unknown(self, text: str) -> str:
        raise BookError(f"{self.path}: .github/WRITING.md knows no such line: {text.strip()}")

    def list(self, text: str) -> str:
        loose = "\n\n" in text.strip()
        items = []
        for item in re.split(r"^(?=(?:[-*+]|\d+[.)]) )", text, flags=re.M)[1:]:
            marker = len(item) - len(item.split(None, 1)[1])
            html = self.render(re.sub(rf"^ {{1,{marker}}}", "", item[marker:], flags=re.M))
            html = html if loose else re.sub("</?p>", "", html)
            term = TERM.match(item) if self.path == GLOSSARY else None
            here = f' id="{Term(term[1], "", "").anchor}"' if term else ""
            items.append(f"<li{here}>{html}</li>\n")
        first = re.split(r"\D", text)[0]
        tag, start = "ol" if first else "ul", f' start="{first}"' if first not in ("", "1") else ""
        return f"<{tag}{start}>\n{''.join(items)}</{tag}>"

    def table(self, text: str) -> str:
        rows = [[cell.replace("\\|", "|") for cell in cells(line)] for line in text.splitlines()]
        head, rule = rows[0], " ".join(rows[1] if rows[1:] else [])
        if any(len(row) != len(head) for row in rows) or not re.fullmatch("(---+ ?)+", rule):
            raise BookError(f"{self.path}: a table has | --- | below its head, and all rows as many cells: {head}")
        html = [[self.inline(cell) for cell in row] for row in rows]
        for row, shown in zip(rows[2:], html[2:] if head == stages.TITLE else ()):
            links = iter(self.places(*row))
            shown[2] = re.sub("<code>.*?</code>", lambda code: f'<a href="{next(links)}">{code[0]}</a>', shown[2])
        return table(html[2:], html[0])

    # ---- what is in a line ----

    def inline(self, text: str, terms: bool = False) -> str:
        """The HTML of a text; with `terms`, what the glossary knows is linked to it."""

        def html(found: "re.Match[str]") -> str:
            kind = str(found.lastgroup)
            said = found[kind]
            if kind == "code":
                inside = re.sub(r"^ (.*\S.*) $", r"\1", found["inside"].replace("\n", " "))
                return f"<code>{escape(inside, False)}</code>"
            if kind == "link":
                picture, label, target = LINK.fullmatch(said).groups()  # type: ignore[union-attr]
                if picture:
                    raise BookError(f"{self.path}: the picture {target} is not a paragraph of its own")
                return f'<a href="{escape(self.href(target))}">{self.inline(label)}</a>'
            if kind == "auto":
                return f'<a href="{escape(said)}">{escape(said, False)}</a>'
            if kind in ("strong", "em"):
                return f"<{kind}>{self.inline(said, terms)}</{kind}>"
            if kind == "plain" and terms:
                return self.known.sub(self.term, escape(said, False))
            return escape(said, False)

        return INLINE.sub(html, text)

    def term(self, found: "re.Match[str]") -> str:
        """The first mention of a term as a link, any other as it is."""
        term = self.terms.pop(" ".join(found[1].lower().split()), None)
        if not term:
            return found[0]
        href = link(self.url, f"{url_of(GLOSSARY)}#{term.anchor}")
        return f'<a class="term" href="{href}" aria-description="{escape(term.sentence)}">{found[0]}</a>'

    # ---- fenced blocks ----

    def fenced(self, text: str) -> str:
        block = self.blocks[int(text[1:])]
        kind, lang, words = block.kind, block.lang, block.words
        if block.line in self.views:
            return self.view(self.views[block.line])
        if not (kind or lang in KNOWN and len(words) < 2):
            raise BookError(f"{block.where}: .github/WRITING.md knows no such block: {block.info}")
        if kind == "console":
            stage = next((word for word in words[1:] if word.isdigit()), self.page.chapter)
            whose = "with what is typed so far" if "here" in words else f"with the programs of {stage}" if stage else ""
            return frame(website_code.terminal(block.code), "a session", whose, "session")
        if lang == "diff":
            marks = {"+": "ins", "-": "del"}
            lines = [Line(line[1:], marks.get(line[:1], "")) for line in block.code.splitlines()]
            body = website_code.code(lines, "c")
        else:
            body = website_code.plain(block.code, lang)
        program = next((f"<b>{word[8:]}</b>" for word in words if word.startswith("program=")), "")
        label, what = {
            "output": lambda: (f"<kbd>{escape(words[2])}</kbd>", "prints"),
            "hex": lambda: (f"<b>{escape(words[1])}</b>", "bytes"),
            "sh": lambda: ("", "to type"),
            "sketch": lambda: (program, "a program to try" if program else "a sketch" * (lang == "c")),
        }.get(kind, lambda: ("", ""))()
        return frame(body, label, what, kind or lang)

    def view(self, view: website_steps.View) -> str:
        at = [line.number for line in view.lines if line.number and not view.number]
        if view.file.endswith((".c", ".h")):
            at = [item.code for item in source(view.file).items if item.name in view.names] or at
        href = self.address(view.file) + (f"#L{at[0]}" if at else "")
        file = re.search(r"(src/)?[^/]*$", view.file)
        label = f'<a href="{href}">{escape(file[0] if file else "")}</a>'
        shown = website_steps.some([name for name in view.names if name not in ("top", "includes")] or view.names)
        label += f" <b>{escape(shown)}</b>" if shown else ""
        body = website_code.code(view.lines, website_code.language(view.file))
        label = label if view.number else " ".join([*self.numbered("Listing"), label])
        kind = f"{'step ' * bool(view.number)}numbered{' edit' * view.edit}"
        return frame(body, label, view.what, kind, f"step-{view.number}" if view.number else "")
