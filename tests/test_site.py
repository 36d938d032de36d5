"""make site: the pages are whole, say what the sources say, and work in a browser."""
from __future__ import annotations

import functools
import http.server
import json
import os
import re
import resource
import subprocess
import sys
import threading
from html import unescape
from pathlib import Path
from typing import Dict, Iterator, List

import pytest

from devtools import Browser
from harness.settings import ROOT, limit

import book
import book_blocks
import book_steps
import book_units
import website_check
import website_code
import website_steps
import website_text
from book_blocks import BookError
from layout import chapters

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(60)]

CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("[0-9][0-9]-*.md"))
STAGES = chapters()
MANY = next(name for name in CHAPTERS if name.startswith("06"))  # has nearly all that a chapter can have
PAGES = [
    "index.html", "about.html", "exercises/index.html", "chapters/index.html", "book/index.html", "book/glossary.html",
    "book/protocol.html", "book/bench.html", "book/teaching/index.html", "book/A4-when-stuck.html",
    f"chapters/{STAGES[5]}/index.html", f"chapters/{STAGES[-1]}/server.c.html", "common/hashtable.h.html",
    f"diffs/{STAGES[2]}-{STAGES[3]}.html", f"diffs/{STAGES[-2]}-{STAGES[-1]}.html",
    "chapters/08/exercises/flood/index.html", *(f"book/{name}.html" for name in CHAPTERS),
]  # fmt: skip
SECONDS = 10  # of a processor, for all pages
LARGEST = 200_000  # bytes of a chapter without its figures


def make_site(folder: Path, **env: str) -> Path:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/tools/website.py"), str(folder)], env={**os.environ, **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < limit(SECONDS)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_site(tmp_path_factory.mktemp("site") / "site", PYTHONHASHSEED="1")


# ---- the files ----


def test_every_page_is_whole(site: Path) -> None:
    assert website_check.problems(site) == []


def test_the_same_input_gives_the_same_bytes(site: Path, tmp_path: Path) -> None:
    other = make_site(tmp_path / "elsewhere" / "site", PYTHONHASHSEED="2", LC_ALL="C", TZ="Asia/Tokyo")
    both = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (site, other)]
    assert both[0] == both[1]


def test_what_is_no_site_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tool = [sys.executable, str(ROOT / "tests/tools/website.py"), str(tmp_path)]
    done = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "holds something else" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_chapter_is_small(site: Path) -> None:
    for name in CHAPTERS:
        page = (site / "book" / f"{name}.html").read_bytes()
        assert len(page) < LARGEST, name
        assert re.findall(rb'<link rel="stylesheet" href="([^"]*)"|<script src="([^"]*)"', page) == [
            (b"../style.css", b""), (b"", b"../script.js"),
        ]  # fmt: skip


def test_numbered_lines_are_those_of_the_files(site: Path) -> None:
    """A line with a number stands there in the reader's file after that step, or in the source that a listing shows."""
    looked = 0
    for name in CHAPTERS:
        source = book_blocks.read(ROOT / "book" / f"{name}.md")
        steps = iter(book.steps_of(source))
        files, final = book_steps.start(source.chapter), book_steps.stage(source.chapter)
        page = (site / "book" / f"{name}.html").read_text(encoding="utf-8")
        for block in re.findall(r'<figure class="listing [^"]*numbered.*?</figure>', page, re.S):
            path = re.search(r'<figcaption>(<a class="self".*?</a> )?<a href="\.\./([^"#]+)\.html', block)
            assert path, block[:300]
            lines = (ROOT / path[2]).read_text(encoding="utf-8").splitlines()
            if path[1]:
                for step in steps:
                    book_steps.apply(step, files, final)
                    if not step.copied:
                        break
                lines = book_units.join(files[step.file]).splitlines()
            for number, html in re.findall(r'<(?:span|ins) data-n="(\d+)">(.*?)\n</(?:span|ins)>', block, re.S):
                text = unescape(re.sub(r"<[^>]*>", "", html))
                assert text == lines[int(number) - 1], f"{name}: {path[2]}:{number}"
                looked += 1
        assert all(step.copied for step in steps)  # what is only copied shows no lines
    assert looked > 6000


def test_each_function_leads_to_where_it_is_built(site: Path) -> None:
    """From the last server to the book, and from there back."""
    last = STAGES[-1]
    page = (site / f"chapters/{last}/server.c.html").read_text(encoding="utf-8")
    found = re.findall(r'id="L(\d+)"[^\n]*<span class="built">built in (.*?)</span>', page)
    assert len(found) > 80
    for line, links in found:
        numbered = False  # a step that only takes lines out has none that is there at the end
        for file, anchor in re.findall(r'href="\.\./\.\./(book/[^"]+)#(step-\d+)"', links):
            step = re.search(rf'id="{anchor}">.*?</figure>', (site / file).read_text(encoding="utf-8"), re.S)
            assert step, f"line {line}: {file}#{anchor}"
            numbered |= "server.c.html#L" in step[0]
        assert numbered, f"line {line}: {links}"


def test_a_table_of_changes_leads_to_its_lines(site: Path) -> None:
    page = (site / "chapters/08/index.html").read_text(encoding="utf-8")
    for name, change in (("entry_lookup", "changed"), ("slice_dup", "gone"), ("k_max_freed", "new")):
        row = re.search(rf'href="([^"#]+)#L(\d+)"><code>{name}</code>.*?<td>{change}</td>', page)
        assert row, name
        file = ROOT / "chapters" / ("07" if change == "gone" else "08") / Path(row[1]).name[: -len(".html")]
        assert name in file.read_text(encoding="utf-8").splitlines()[int(row[2]) - 1]


def test_solutions_are_nowhere(site: Path) -> None:
    """A line that only a solution has, of each exercise that has one, stands on no page of its folder."""
    looked = 0
    for change in ROOT.glob("chapters/*/exercises/*/solution.change"):
        text = "".join(p.read_text(encoding="utf-8") for p in (site / change.relative_to(ROOT).parent).glob("*.html"))
        known = "".join(p.read_text(encoding="utf-8") for p in change.parent.glob("*.md"))
        lines = [line[1:].strip() for line in change.read_text(encoding="utf-8").splitlines() if line.startswith("+")]
        own = [line for line in lines if len(line) > 24 and line not in known]
        assert not [line for line in own if line in unescape(re.sub(r"<[^>]*>", "", text))], change
        looked += len(own)
    assert looked > 1000


def test_colours_can_be_told_apart() -> None:
    """Text has a contrast of 4.5 at least with what is behind it, in both modes (WCAG 2.2, 1.4.3)."""
    css = (ROOT / "tests/tools/website/style.css").read_text(encoding="utf-8")
    parts = re.split(r"@media screen|\n  }\n}", css)[:2]
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in parts)
    texts = ["ink", "soft", "accent", "comment", "string", "word", "constant", "call"]
    pairs = [(t, b) for t in texts for b in ("paper", "tint", "ins", "del", "wash")]
    pairs += [("ink", "ins-mark"), ("ink", "del-mark"), ("word", "ins-mark"), ("comment", "ins-mark")]
    terminal = ("screen-ink", "screen-soft", "server", "client")
    pairs += [(t, b) for t in terminal for b in ("screen", "screen-server")] + [("paper", "accent")]
    assert len(dark) > 15
    for colours in (light, {**light, **dark}):
        weak = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
        assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


# ---- the text ----


class Text(website_text.Text):
    """A page whose links lead nowhere."""

    def href(self, target: str) -> str:
        return target

    def figure(self, alt: str, target: str) -> str:
        return f"<img {target}>"


def render(tmp_path: Path, text: str) -> str:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return Text(str(path), []).html()


@pytest.mark.parametrize("text, html", [
    ("A *b* **c** `d < e`.", "<p>A <em>b</em> <strong>c</strong> <code>d &lt; e</code>.</p>"),
    ("2 * 3 * 4 and a_b_c", "<p>2 * 3 * 4 and a_b_c</p>"),
    ("`` a`b `` \\* <https://x.org/>", '<p><code>a`b</code> * <a href="https://x.org/">https://x.org/</a></p>'),
    ("[`a` b](c.md#d)", '<p><a href="c.md#d"><code>a</code> b</a></p>'),
    ("## A b: c?\n### A b: c?", '<h2 id="a-b-c">A b: c?</h2>\n<h3 id="a-b-c-1">A b: c?</h3>'),
    ("- a\n  b\n- c", "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>"),
    ("- a\n\n- c", "<ul>\n<li><p>a</p></li>\n<li><p>c</p></li>\n</ul>"),
    ("1. a\n   - b\n2. c", "<ol>\n<li>a\n<ul>\n<li>b</li>\n</ul></li>\n<li>c</li>\n</ol>"),
    ("1. a\n\n       x", '<ol>\n<li><p>a</p>\n<figure class="listing"><div class="code"><pre>'
     "<span>x\n</span></pre></div></figure></li>\n</ol>"),
    ("0. a", '<ol start="0">\n<li>a</li>\n</ol>'),
    ("> a\n> b", "<blockquote><p>a\nb</p></blockquote>"),
    ("![a\nb](c.svg)", "<img c.svg>"),
    ("| a | b |\n| --- | --- |\n| `x\\|y` | 1 |",
     '<div class="scroll"><table class="text"><thead><tr><th>a</th><th class=n>b</th></tr></thead><tbody><tr>'
     '<td><code>x|y</code></td><td class=n>1</td></tr></tbody></table></div>'),
])  # fmt: skip
def test_markdown(text: str, html: str, tmp_path: Path) -> None:
    assert render(tmp_path, text) == html


@pytest.mark.parametrize("text, why", [
    ("a\n\n<b>c</b>", "page.md: .github/WRITING.md knows no such line: <b>c</b>"),
    ("a\n\n---", "page.md: .github/WRITING.md knows no such line: ---"),
    ("[^1]: note", "page.md: .github/WRITING.md knows no such line"),
    ("```rust\nx\n```", "1: .github/WRITING.md knows no such block: rust"),
    ("```c stepp server.c new\n```", "1: .github/WRITING.md knows no such block"),
    ("| a |\n| b |", "page.md: a table has | --- | below its head"),
    ("| a |\n| --- |\n| b | c |", "page.md: a table has | --- | below its head"),
    ("a ![b](c.svg) d", "page.md: the picture c.svg is not a paragraph of its own"),
])  # fmt: skip
def test_what_is_unknown_is_an_error(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BookError, match=re.escape(why)):
        render(tmp_path, text)


def test_a_prediction_folds_its_answer(tmp_path: Path) -> None:
    html = render(tmp_path, "> **Predict:** what?\n\n```console\n$ ls\nx\n```\n\nIt was x.\n\nThen on.")
    folded = re.search(r'what\?.*<details class="answer">(.*)</details>\s*<p>Then on', html, re.S)
    assert folded and re.search(r"<kbd>ls</kbd>.*It was x\.</p>", folded[1], re.S)


def test_the_first_mention_of_a_term_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(
        "- **event loop** ([05](5.md#a)): Waits for all. More.\n- **key** ([07](7.md)): A name\n  of `a` value.\n"
        "- **block (a call)** ([02](2.md)): To wait.\n- **turn** ([05](5.md)): A round of the loop.\n"
    )
    terms = website_text.terms_of(book_blocks.read(tmp_path / "glossary.md"))
    assert [(t.name, t.chapter, t.sentence) for t in terms][:2] == [
        ("event loop", "05", "Waits for all."), ("key", "07", "A name of a value."),
    ]  # fmt: skip
    for chapter, linked in (("05", ["event loop"]), ("07", ["event loop", "keys"])):
        path = tmp_path / f"{chapter}-page.md"
        path.write_text("Its `key` and *keys*, all keys\nblock in turn the event\nloop; [a key](x.md) too.\n")
        term = r'<a class="term" href="[^"]*book/glossary.html#term-[\w-]+" aria-description="[^"]+">(.*?)</a>'
        found = re.findall(term, Text(str(path), []).html(terms), re.S)
        assert sorted(" ".join(each.split()) for each in found) == linked


def test_the_two_terminals() -> None:
    html = website_code.terminal(
        "server$ ./server\n$ cat <<'E'\nserver| no\nE\nout\nserver| hello\nserver^C\n[exit 130]\n$ x\n[exit 1]\n"
    )
    plain = re.sub(r"<(?!/?pre)[^>]*>", "", html)
    assert plain == (
        '<pre class="srv">server$ ./server\n</pre><pre class="cli">$ cat &lt;&lt;\'E\'\nserver| no\nE\nout\n</pre>'
        '<pre class="srv">server| hello\nserver^C\n[exit 130]\n</pre><pre class="cli">$ x\n[exit 1]\n</pre>'
    )


def test_an_edit_unfolds_what_it_leaves_out() -> None:
    old = ["int f(void) {", "    a();", "    b();", "}"]
    now = [website_code.Line(text.replace("b", "c"), "", number) for number, text in enumerate(old, 5)]
    lines = website_steps.edit("@@ f.c: f @@\n     // ...\n-    b();\n+    c();\n     // ...\n", old, now)
    assert [(line.text.strip(), line.mark, line.number, line.folded) for line in lines] == [
        ("int f(void) {", "", 5, True), ("a();", "", 6, True), ("b();", "del", 0, False), ("c();", "ins", 7, False),
        ("}", "", 8, True),
    ]  # fmt: skip


def test_what_stays_between_two_differences_is_folded() -> None:
    lines = [f"line{i};" for i in range(30)]
    opcodes = [("replace", 0, 1, 0, 1), ("equal", 1, 29, 1, 29), ("replace", 29, 30, 29, 30)]
    html = website_code.beside(lines, ["a;", *lines[1:29], "b;"], opcodes, "f-")
    folded = re.search(r"<details><summary>22 lines more</summary>(.*)</details>", html, re.S)
    assert folded and re.findall(r'id="f-(\d+)"', folded[1]) == [str(i) for i in range(5, 27)]


def test_what_differs_in_a_line_is_marked() -> None:
    old, new = ["a", "    call(one, two);", "z"], ["a", "    call(one, three);", "    more();", "z"]
    opcodes = [("equal", 0, 1, 0, 1), ("replace", 1, 2, 1, 3), ("equal", 2, 3, 3, 4)]
    html = website_code.beside(old, new, opcodes, "f-")
    assert re.findall(r"<mark>(.*?)</mark>", html) == ["two", "three"]
    assert re.findall(r'<ins id="(f-\d)" data-n="\d">', html) == ["f-2", "f-3"]


@pytest.mark.parametrize("body, why", [
    ("<p><b>x</p>", "closes <b>"), ("<p>x", "</main> closes <p>"),
    ('<a href="none.html">x</a>', "there is no none.html"), ('<a href="#none">x</a>', "nothing has the id of #none"),
    ('<img src="https://x.org/x.png" alt="x">', "loads https"),
    ('<p id="a">x</p><p id="a">y</p>', "is there 2 times"), ('<img src="index.html">', "no alternative text"),
    ("<p>a & b</p>", "a bare &"), ("<h3>x</h3>", "below <h1>"), ("<p>x<ul></ul></p>", "<ul> within <p>"),
])  # fmt: skip
def test_the_checker_notices(body: str, why: str, tmp_path: Path) -> None:
    shell = '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1>{}</main></body></html>'
    (tmp_path / "index.html").write_text(shell.format("<p>x</p>"))
    assert website_check.problems(tmp_path) == []
    (tmp_path / "index.html").write_text(shell.format(body))
    assert why in "\n".join(website_check.problems(tmp_path))


# ---- in a browser ----


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a web server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(window: Browser, address: str) -> Iterator[Browser]:
    """A window of 1400 pixels that shows nothing yet; at the end it has loaded and said nothing that it should not."""
    window.look(1400)
    window.said.clear()
    window.asked.clear()
    yield window
    assert window.said == []
    assert [url for url in window.asked if not url.startswith((address, "file:"))] == []


def test_no_page_is_wider_than_the_window(browser: Browser, address: str) -> None:
    """Nor is any code with line numbers or any session wider than its block: long lines go on below."""
    wide: List[str] = []
    blocks = "[...document.querySelectorAll(':is(.numbered, .whole, .session) .code')]"
    cut = f"{blocks}.some(e => e.scrollWidth > e.clientWidth)"
    for name in PAGES:
        browser.open(address + name)
        for width in (360, 800, 1200, 1400):
            browser.look(width)
            if browser.run(f"document.documentElement.scrollWidth > innerWidth || {cut}"):
                wide.append(f"{name} at {width}")
    assert wide == []


def test_tooltips_fit_a_phone(browser: Browser, address: str) -> None:
    browser.look(360)
    browser.open(f"{address}book/{MANY}.html")
    shown = browser.run(
        """[...document.querySelectorAll("a.term")].filter((term) => !term.closest("details")).map((term) => {
            term.focus({focusVisible: true});
            const style = getComputedStyle(term, "::after");
            return [term.textContent, style.content.length > 9, document.documentElement.scrollWidth <= innerWidth];
        })"""
    )
    assert len(shown) > 10 and [each for each in shown if not each[1] or not each[2]] == []


def test_search_finds(browser: Browser, address: str) -> None:
    browser.open(f"{address}book/{MANY}.html")
    assert not [url for url in browser.asked if url.endswith("search.js")]
    browser.press("/")
    browser.type("hm_lookup")
    browser.until("document.querySelectorAll('#found [role=option]').length > 1")
    assert "hm_lookup" in browser.run("document.querySelector('[aria-selected=true] b').textContent")
    browser.press("ArrowDown")
    browser.press("ArrowUp")
    browser.press("Enter")
    browser.until("location.pathname.includes('08-hashtables') && location.hash.startsWith('#step-')")
    browser.press("/")
    browser.type("slowly nonsense xyzzy")
    browser.until("document.querySelector('#found').textContent.includes('Nothing')")
    browser.press("Escape")
    assert browser.run("document.querySelector('#found').hidden && document.activeElement === document.body")


def test_copy_copies(browser: Browser, address: str) -> None:
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def copied(figure: str) -> str:
        browser.click(f"{figure} .copy")
        browser.until(f"document.querySelector({json.dumps(figure + ' .copy')}).textContent === 'Copied'")
        return str(browser.run("navigator.clipboard.readText()"))

    browser.open(f"{address}book/{MANY}.html")
    page = next((ROOT / "book").glob(f"{MANY}.md")).read_text(encoding="utf-8")
    steps = re.findall(r"^```(\w+) step (.*?)\n(.*?)^```$", page, re.S | re.M)
    number = next(i for i, (_, what, _) in enumerate(steps, 1) if what == "common/mem.h new")
    assert copied(f"#step-{number}") == steps[number - 1][2]
    number = next(i for i, (_, what, _) in enumerate(steps, 1) if what.startswith("server.c edit"))
    new = [line[1:] for line in steps[number - 1][2].splitlines() if line.startswith("+")]
    assert copied(f"#step-{number}") == "".join(line + "\n" for line in new)
    browser.open(f"{address}chapters/03/server.c.html")
    assert copied(".whole") == (ROOT / "chapters/03/server.c").read_text(encoding="utf-8")
    browser.open(f"{address}chapters/03/index.html")
    assert copied(".listing:has(.term)").startswith("./client")


def test_progress_is_kept(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.run("localStorage.clear()")
    browser.open(address)
    assert browser.run("document.querySelector('#continue').hidden")
    browser.open(f"{address}book/glossary.html")
    place = "document.querySelector('#side [aria-current]').getBoundingClientRect()"
    assert browser.run(f"{place}.top > 0 && {place}.bottom < innerHeight")  # the side bar shows where this is
    browser.open(f"{address}book/{MANY}.html#half-an-answer")
    browser.until("localStorage.getItem('workbook:place').includes('half-an-answer')")
    assert browser.run("document.querySelector('#side .here').textContent") == "Half an answer"
    browser.click(".done input")
    browser.open(address)
    assert "Half an answer" in browser.run("document.querySelector('#continue').textContent")
    ticks = browser.run("[...document.querySelectorAll('.road .tick')].map(e => e.textContent.slice(0, 2))")
    assert ticks == [MANY[:2]]
    browser.click("#continue")
    browser.until("location.hash === '#half-an-answer'")
    assert browser.run("document.querySelector('.done input').checked")
    browser.click(".done input")
    assert browser.run("document.querySelectorAll('#side .tick').length") == 0


def test_dark_mode_follows_the_system(browser: Browser, address: str) -> None:
    seen: Dict[str, List[int]] = {}
    for scheme in ("light", "dark"):
        browser.look(1400, scheme=scheme)
        browser.open(f"{address}book/{MANY}.html")
        colours = browser.run(
            "[document.body, document.querySelector('.code')].map(e => getComputedStyle(e).backgroundColor)"
        )
        seen[scheme] = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert min(seen["light"]) > 600 and max(seen["dark"]) < 150


def test_the_keyboard_goes_everywhere(browser: Browser, address: str) -> None:
    browser.look(800)
    browser.open(f"{address}book/{MANY}.html")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    browser.press("Enter")
    browser.until("document.activeElement.id === 'main'")
    browser.run("document.querySelector('.menu').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('#side').matches(':popover-open')")
    browser.press("Escape")
    browser.until("!document.querySelector('#side').matches(':popover-open')")
    browser.run("document.querySelector('.answer summary').focus()")
    browser.press("Enter")
    browser.until("document.querySelector('.answer').open")


def test_all_but_search_works_without_scripts(browser: Browser, address: str) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.look(800)
        browser.open(f"{address}exercises/index.html")
        count = "[...document.querySelectorAll('.choice tbody tr')].filter(e => e.offsetParent).length"
        every = browser.run(count)
        browser.click("label:has(#k-mend)")
        mend = browser.run(count)
        browser.click("label:has(#c-08)")
        assert every > mend > browser.run(count) > 0
        browser.click(".menu")
        assert browser.run("document.querySelector('#side').matches(':popover-open')")
        browser.open(f"{address}book/{MANY}.html")
        browser.click(".answer summary")
        assert browser.run("document.querySelector('.answer').open")
        assert browser.run("document.querySelector('.search').hidden && !document.querySelector('.copy')")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_it_opens_from_the_file_system(browser: Browser, site: Path) -> None:
    browser.open(f"file://{site}/index.html")
    browser.click(".button")
    browser.until("location.pathname.endsWith('/book/01-introduction.html')")
    browser.call("Page.bringToFront")
    browser.until("document.hasFocus()")
    browser.press("/")
    browser.type("backpressure")
    browser.until("document.querySelectorAll('#found [role=option]').length > 1")


def test_paper(browser: Browser, address: str) -> None:
    """A chapter on paper: no side bar, all answers, the figures, nothing cut off."""
    browser.look(700, media="print", scheme="dark")
    browser.open(f"{address}book/{MANY}.html")
    shown = (
        "['.bar', '#side', 'footer', '.copy', '.done']"
        ".filter(e => document.querySelector(e).getClientRects().length)"
    )
    assert browser.run(shown) == []
    assert browser.run("getComputedStyle(document.body).color") == "rgb(36, 39, 43)"
    assert browser.run("document.querySelector('.answer .code').getBoundingClientRect().height") > 20
    assert browser.run("[...document.querySelectorAll('.code')].every(e => e.scrollWidth <= e.clientWidth + 1)")
    assert len(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]) > 100_000
