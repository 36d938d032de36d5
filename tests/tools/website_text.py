"""The Markdown of the book as HTML. What book/README.md does not allow is an error, with its place."""
from __future__ import annotations

import re
from html import escape, unescape
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import stages
import website_code
import website_steps
from book_blocks import FENCE, LINK, Block, BookError, Page
from layout import cells
from website_code import Heading, Line

Lines = List[Tuple[int, str]]  # number in the file, text
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
ITEM = re.compile(r"( {0,3})([-*+]|\d{1,3}[.)])( +)(\S.*)")
UNKNOWN = re.compile(r" {0,3}(\*\*\*|___|---|===)\s*$|\[\^|\[[^\]]+\]:\s|~~~|<(?!/?(details|summary)>)")
INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=ticks)(?!`))"
    rf"|(?P<link>{LINK.pattern})"
    r"|<(?P<auto>https?://[^>\s]+)>"
    r"|\*\*(?P<strong>(?=\S)(?:`[^`]*`|[^`])+?(?<=\S))\*\*"
    r"|(?<![\w*])\*(?P<em>(?=[^\s*])(?:`[^`]*`|[^`*])+?(?<=\S))\*(?![\w*])"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])",
    re.S,
)
NUMERIC = re.compile(r"[-+]?[\d.,]+( ?(%|x|s|ms|µs|ns|MB|MiB|KiB))?$")
ANSWERS = ("console", "output", "captured", "p")
TERM = re.compile(r"^- \*\*(.+?)\*\* \((.*?)\): (.*)", re.S)


class Node(NamedTuple):
    """A piece of a page: p, h2, list, table, quote, figure, block, predict, ..."""

    kind: str
    html: str
    text: str = ""


class Term(NamedTuple):
    """A term of the glossary."""

    name: str
    anchor: str
    chapter: str  # that introduces it
    sentence: str

    def is_meant(self, chapter: str) -> bool:
        """Is it likely to be this term where a page has the word? Before its chapter, a plain word may be just that."""
        return not chapter or self.chapter <= chapter or not re.fullmatch(r"[a-z]+", self.name)


def bare(html: str) -> str:
    """The text of some HTML."""
    html = re.sub(r"</(td|th|li|p|summary)>", " ", html)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def slug(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")


def terms_of(page: Page) -> List[Term]:
    """The terms of the glossary, each with its first sentence."""
    found = []
    items = re.split(r"\n(?=- |\n|#)", "\n".join(line for _, line in page.prose))
    for hit in filter(None, map(TERM.match, (item.strip() for item in items))):
        said = bare(re.sub(r"\]\([^)]*\)|[`*\[\]]", "", hit.group(3)))
        sentence = re.split(r"(?<=[.:]) (?=[A-Z])", said)[0]
        chapter = re.sub(r"\W.*", "", hit.group(2).lstrip("["))
        found.append(Term(hit.group(1), f"term-{slug(hit.group(1))}", chapter, sentence))
    return found


class Text:
    """One page of Markdown; `href` makes a link of (target), `figure` the HTML of a picture of (alt, target)."""

    def __init__(self, page: Page, href: Callable[[str], str], figure: Callable[[str, str], str]):
        self.page, self.href, self.figure = page, href, figure
        self.blocks: Dict[int, Block] = {block.line: block for block in page.blocks}
        self.views = website_steps.views(page)
        self.anchors: List[str] = []
        self.headings: List[Tuple[int, str, str]] = []  # level, anchor, HTML
        self.terms: Dict[str, Term] = {}  # not linked yet on this page
        self.glossary = ""
        self.terms_pattern: Optional["re.Pattern[str]"] = None
        self.source = lambda file, number: ""  # the address of a line of a source
        self.place = lambda row: [""]  # the addresses of what a row of a table What changed names

    def know(self, terms: List[Term], glossary: str) -> None:
        """Has the first mention of each term become a link into the page of the glossary."""
        self.glossary = glossary
        plain = [t for t in terms if not re.search(r"[(),]", t.name) and t.is_meant(self.page.chapter)]
        self.terms = {t.name.lower(): t for t in plain}
        names = sorted((re.escape(t.name).replace("\\ ", r"\s+") for t in plain), key=len, reverse=True)
        self.terms_pattern = re.compile(rf"(?<![\w-])({'|'.join(names)})(e?s)?(?![\w-])", re.I) if names else None

    def error(self, number: int, why: str) -> BookError:
        return BookError(f"{self.page.path.name}:{number}: {why}")

    def nodes(self) -> List[Node]:
        return self.render(list(enumerate(self.page.lines, 1)))

    def html(self) -> str:
        return "\n".join(node.html for node in self.nodes())

    # ---- blocks ----

    def render(self, lines: Lines) -> List[Node]:
        """The nodes of some lines, predictions with their answers folded."""
        out: List[Node] = []
        at = 0
        while at < len(lines):
            number, line = lines[at]
            heading = HEADING.match(line)
            if not line.strip():
                at += 1
            elif number in self.blocks and FENCE.match(line):
                block = self.blocks[number]
                out.append(Node(block.kind or "block", self.block(block)))
                at += block.count + 2
            elif heading:
                out.append(self.heading(len(heading.group(1)), heading.group(2), number))
                at += 1
            elif line.startswith("    "):
                end = self.until(lines, at, lambda text: text.strip() and not text.startswith("    "))
                text = "\n".join(t[4:] for _, t in lines[at:end]).rstrip()
                out.append(Node("block", self.frame(website_code.plain(text, "sh"), "", "")))
                at = end
            elif line.startswith(">"):
                end = self.until(lines, at, lambda text: not text.startswith(">"))
                inner = self.render([(n, re.sub("^> ?", "", t)) for n, t in lines[at:end]])
                predict = "**Predict:**" in line
                html = "".join(node.html for node in inner)
                html = f'<div class="predict">{html}</div>' if predict else f"<blockquote>{html}</blockquote>"
                out.append(Node("predict" if predict else "quote", html))
                at = end
            elif line.lstrip().startswith("|"):
                end = self.until(lines, at, lambda text: not text.lstrip().startswith("|"))
                out.append(Node("table", self.table(lines[at:end])))
                at = end
            elif ITEM.match(line):
                node, at = self.list(lines, at)
                out.append(node)
            elif re.match(r"</?(details|summary)>", line):
                out.append(Node("html", re.sub(r"(?<=<summary>).*(?=</summary>)", lambda m: self.inline(m[0]), line)))
                at += 1
            elif UNKNOWN.match(line):
                raise self.error(number, f"book/README.md knows no such line: {line}")
            else:
                end = self.until(lines, at, self.ends_paragraph)
                out.append(self.paragraph("\n".join(text.strip() for _, text in lines[at:end]), number))
                at = end
        return self.folded(out)

    @staticmethod
    def until(lines: Lines, at: int, ends: Callable[[str], object]) -> int:
        end = at + 1
        while end < len(lines) and not ends(lines[end][1]):
            end += 1
        return end

    @staticmethod
    def ends_paragraph(text: str) -> bool:
        return not text.strip() or re.match(r" {0,3}([-*+] |1[.)] )|\||>|#{1,6} | *```|</?details>", text) is not None

    @staticmethod
    def folded(nodes: List[Node]) -> List[Node]:
        """What a prediction asks for is hidden: the session or output behind it, and the sentence on it."""
        out: List[Node] = []
        while nodes:
            out.append(nodes.pop(0))
            answer: List[Node] = []
            while out[-1].kind == "predict" and nodes and nodes[0].kind in ANSWERS:
                answer.append(nodes.pop(0))
                if answer[-1].kind == "p":
                    break
            if answer:
                inside = "\n".join(node.html for node in answer)
                summary = "<summary>Answered? See what happens</summary>"
                out.append(Node("answer", f'<details class="answer">{summary}\n{inside}\n</details>'))
        return out

    def heading(self, level: int, text: str, number: int) -> Node:
        anchor = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).lower()
        anchor = re.sub(r"[^\w\- ]", "", anchor).replace(" ", "-")
        times = sum(1 for a in self.anchors if re.fullmatch(re.escape(anchor) + r"(-\d+)?", a))
        anchor = f"{anchor}-{times}" if anchor in self.anchors else anchor
        self.anchors.append(anchor)
        html = self.inline(text, number)
        self.headings.append((level, anchor, html))
        title = re.sub(r"^(Chapter \d\d|Appendix \w+)[.:] ", r'<span class="kicker">\1</span> ', html)
        link = f'<a class="self" href="#{anchor}" aria-label="Link to this section">#</a>'
        return Node(f"h{level}", f'<h{level} id="{anchor}">{title}{link}</h{level}>', text)

    def paragraph(self, text: str, number: int) -> Node:
        picture = LINK.fullmatch(text)
        if picture and picture.group(1):
            return Node("figure", self.figure(" ".join(picture.group(2).split()), picture.group(3)))
        return Node("p", f"<p>{self.inline(text, number, True)}</p>", text)

    def list(self, lines: Lines, at: int) -> Tuple[Node, int]:
        """The list that begins in a line; what belongs to an item is indented, but for the rest of a paragraph."""
        first = ITEM.match(lines[at][1])
        assert first
        items: List[Lines] = []
        blank = loose = False
        while at < len(lines):
            number, text = lines[at]
            item, indent = ITEM.match(text), len(text) - len(text.lstrip())
            if item and indent == len(first[1]) and item[2][-1] == first[2][-1]:
                loose = loose or blank
                inside = len(text) - len(item[4])
                items.append([(number, item[4])])
            elif not text.strip():
                items[-1].append((number, ""))
            elif indent >= inside or not (blank or item or self.ends_paragraph(text)):
                loose = loose or blank
                items[-1].append((number, text[min(indent, inside) :]))
            else:
                break
            blank = not text.strip()
            at += 1
        html = "\n".join(self.item(item, loose) for item in items)
        tag = "ol" if first[2][0].isdigit() else "ul"
        start = f' start="{first[2][:-1]}"' if tag == "ol" and first[2] != "1." else ""
        return Node("list", f"<{tag}{start}>\n{html}\n</{tag}>"), at

    def item(self, lines: Lines, loose: bool) -> str:
        nodes = self.render(lines)
        html = "\n".join(n.html if loose or n.kind != "p" else n.html[len("<p>") : -len("</p>")] for n in nodes)
        term = re.match(r"\*\*(.+?)\*\* \(", lines[0][1]) if self.page.path.name == "glossary.md" else None
        return f'<li id="term-{slug(term.group(1))}">{html}</li>' if term else f"<li>{html}</li>"

    def table(self, lines: Lines) -> str:
        rows = [[cell.replace("\\|", "|") for cell in cells(text)] for _, text in lines]
        if len(rows) < 2 or not all(re.fullmatch(r"-{3,}", cell) for cell in rows[1]):
            raise self.error(lines[0][0], "the second row of a table is | --- | --- |")
        for (number, _), row in zip(lines, rows):
            if len(row) != len(rows[0]):
                raise self.error(number, f"a row of {len(row)} cells in a table of {len(rows[0])} columns")
        head, body = rows[0], rows[2:]
        numeric = [i and body and all(NUMERIC.match(r[i]) or not r[i] for r in body) for i in range(len(head))]
        attribute = [' class="n"' if n else "" for n in numeric]
        changes = head == stages.TITLE

        def cell(tag: str, row: List[str], i: int) -> str:
            text = self.inline(row[i], lines[0][0])
            if changes and tag == "td" and i == 2:
                links = iter(self.place(row))
                text = re.sub(r"<code>.*?</code>", lambda m: f'<a href="{next(links)}">{m[0]}</a>', text)
            return f"<{tag}{attribute[i]}>{text}</{tag}>"

        def row_html(tag: str, row: List[str]) -> str:
            return f"<tr>{''.join(cell(tag, row, i) for i in range(len(row)))}</tr>"

        top = f"<thead>{row_html('th', head)}</thead>" if any(head) else ""
        below = "".join(row_html("td", row) for row in body)
        return f'<div class="scroll"><table>{top}<tbody>{below}</tbody></table></div>'

    # ---- what is in a line ----

    def inline(self, text: str, number: int = 0, terms: bool = False) -> str:
        out, at = [], 0
        for found in INLINE.finditer(text):
            out.append(self.plain(text[at : found.start()], terms))
            at = found.end()
            if found["code"]:
                inside = found["inside"].replace("\n", " ")
                inside = inside[1:-1] if inside[0] == inside[-1] == " " and inside.strip() else inside
                out.append(f"<code>{escape(inside, False)}</code>")
            elif found["link"]:
                picture, label, target = LINK.fullmatch(found["link"]).groups()  # type: ignore[union-attr]
                if picture:
                    raise self.error(number, f"the picture {target} is not a paragraph of its own")
                out.append(f'<a href="{escape(self.href(target))}">{self.inline(label, number)}</a>')
            elif found["auto"]:
                out.append(f'<a href="{escape(found["auto"])}">{escape(found["auto"], False)}</a>')
            elif found["strong"]:
                out.append(f"<strong>{self.inline(found['strong'], number, terms)}</strong>")
            elif found["em"]:
                out.append(f"<em>{self.inline(found['em'], number, terms)}</em>")
            else:
                out.append(escape(found["escaped"], False))
        return "".join(out) + self.plain(text[at:], terms)

    def plain(self, text: str, terms: bool) -> str:
        if not terms or not self.terms_pattern:
            return escape(text, False)
        out, at = [], 0
        for found in self.terms_pattern.finditer(text):
            term = self.terms.pop(" ".join(found.group(1).lower().split()), None)
            if term:
                href = f"{self.glossary}#{term.anchor}"
                said = escape(term.sentence)
                out += [escape(text[at : found.start()], False)]
                out += [f'<a class="term" href="{href}" aria-description="{said}">{escape(found.group(), False)}</a>']
                at = found.end()
        return "".join(out) + escape(text[at:], False)

    # ---- fenced blocks ----

    def block(self, block: Block) -> str:
        kind, lang = block.kind, block.lang
        try:
            if kind in ("step", "supplied", "listing"):
                view = self.views[block.line] if block.line in self.views else website_steps.listing(self.page, block)
                return self.view(view)
        except BookError as problem:
            raise BookError(str(problem) if ":" in str(problem) else f"{block.where}: {problem}") from None
        if kind == "console":
            stage = next((w for w in block.words[1:] if w.isdigit()), self.page.chapter)
            what = f"with the programs of {stage}" if stage else ""
            what = "with what is typed so far" if "here" in block.words else what
            return self.frame(website_code.terminal(block.code), "a session", what)
        if kind == "diff":
            marks = {"+": "ins", "-": "del"}
            lines = block.code.splitlines()
            parts = [Heading("…") if x == "@@" else Line(x[1:], marks.get(x[:1], "")) for x in lines]
            old, new, file, *name = block.words[1:]
            label = f"<b>{escape(file)}</b> {escape(' '.join(name))}"
            return self.frame(website_code.code(parts, website_code.language(file)), label, f"from {old} to {new}")
        body = website_code.plain(block.code, "text" if lang == "diff" else lang)
        if kind == "output":
            return self.frame(body, f"<kbd>{escape(block.words[2])}</kbd>", "prints", "output")
        program = next((w[8:] for w in block.words if w.startswith("program=")), "")
        what = {"sketch": "a program to try" if program else "a sketch", "captured": "captured", "drawing": ""}
        if kind in what:
            return self.frame(body, f"<b>{program}</b>" if program else "", what[kind] if lang == "c" else "", kind)
        if kind == "hex":
            return self.frame(body, f"<b>{escape(block.words[1])}</b>", "bytes", "hex")
        known = lang in website_code.LANGUAGES or lang in website_code.PLAIN
        if kind not in ("sh", "") or len(block.words) > 1 or not known:
            raise BookError(f"{block.where}: book/README.md knows no such block: {block.info}")
        return self.frame(body, "", "to type" if lang == "sh" else "", lang)

    def view(self, view: website_steps.View) -> str:
        first = next((x.number for x in view.parts if isinstance(x, Line) and x.number), 0)
        shown = website_steps.some(view.names)
        label = f'<a href="{self.source(view.file, first)}">{escape(view.file.rpartition("/")[2])}</a>'
        label += f" <b>{escape(shown)}</b>" if shown else ""
        anchor = f"step-{view.number}" if view.number else ""
        body = website_code.code(view.parts, website_code.language(view.file))
        kind = "step numbered" if anchor else "numbered"
        return self.frame(body, label, view.what, kind + " edit" * view.edit, anchor)

    @staticmethod
    def frame(body: str, label: str, what: str, kind: str = "", anchor: str = "") -> str:
        """A block of code with its label."""
        label += f" <span>{escape(what)}</span>" if what else ""
        if anchor:
            label = f'<a class="self" href="#{anchor}">{anchor.replace("-", " ")}</a> {label}'
        caption = f"<figcaption>{label.strip()}</figcaption>" if label else ""
        here = f' id="{anchor}"' if anchor else ""
        return f'<figure class="{f"listing {kind}".strip()}"{here}>{caption}{body}</figure>'
