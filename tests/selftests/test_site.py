"""make site: the pages are whole, say what the sources say, and work in a browser."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List

import pytest

from harness.settings import ROOT, needs

import book
import book_blocks
import book_steps
import exercises
import sources
import website
import website_check
import website_code
import website_text
from book_blocks import BookError
from layout import Problem, chapters, server_of

pytestmark = [pytest.mark.inside, pytest.mark.time_limit(120)]

CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("[0-9][0-9]*-*.md"))
STAGES = chapters()
MANY = next(name for name in CHAPTERS if name.startswith("06"))  # has nearly all that a chapter can have
TWO_VOICES = next(name for name in CHAPTERS if name.startswith("03"))
PAGES = [
    "index.html", "about.html", "exercises/index.html", "chapters/index.html", "book/index.html", "book/glossary.html",
    "book/protocol.html", "book/bench.html", "book/teaching/index.html", "book/A4-when-stuck.html",
    f"chapters/{STAGES[5]}/index.html", f"chapters/{STAGES[-1]}/{server_of(STAGES[-1])[-1]}.html",
    "common/hashtable.h.html",
    f"diffs/{STAGES[2]}-{STAGES[3]}.html", f"diffs/{STAGES[-2]}-{STAGES[-1]}.html",
    "chapters/08/exercises/flood/index.html", *(f"book/{name}.html" for name in CHAPTERS),
]  # fmt: skip
LARGEST = 200_000  # bytes of a chapter without its figures
CHECKS = re.findall(r"^  async (\w+)\(", Path(__file__).with_suffix(".js").read_text(encoding="utf-8"), re.M)
CHROMIUM = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom",
]  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "site"
    tool = str(ROOT / "tests/tools/website.py")
    subprocess.run([sys.executable, tool, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


# ---- the files ----


def test_every_page_is_whole(site: Path) -> None:
    assert website_check.problems(site) == []


def test_an_address_of_the_first_edition_leads_on(site: Path) -> None:
    old = {path.name for path in (site / "book").glob("1[5-8]-*.html") if "has another number now" in path.read_text()}
    assert len(old) == 4


def test_what_is_no_site_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Problem, match="holds something else"):
        website.Site().write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_chapter_is_small(site: Path) -> None:
    sizes = {name: (site / "book" / f"{name}.html").stat().st_size for name in CHAPTERS}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_numbered_lines_are_those_of_the_files(site: Path) -> None:
    """A line with a number stands there in the reader's file after that step, or in the source that a listing shows."""
    looked = 0
    for name in CHAPTERS:
        source = book_blocks.read(ROOT / "book" / f"{name}.md")
        steps = iter(book.steps_of(source))
        files, final = book_steps.start(source.chapter), book_steps.stage(source.chapter)
        for _ in book.steps_of(source.earlier) if source.earlier else ():
            book_steps.apply(next(steps), files, final)
        page = (site / "book" / f"{name}.html").read_text(encoding="utf-8")
        for block in re.findall(r'<figure class="listing [^"]*numbered.*?</figure>', page, re.S):
            top = r'<figcaption>(<a class="self".*?</a> |<span>Listing .*?</span> )?<a href="\.\./([^"#]+)\.html'
            path = re.search(top, block)
            assert path, block[:300]
            lines = (ROOT / path[2]).read_text(encoding="utf-8").splitlines()
            if path[1] and not path[1].startswith("<span>"):
                for step in steps:
                    book_steps.apply(step, files, final)
                    if not step.copied:
                        break
                lines = sources.join(files.get(step.file, [])).splitlines()
            for number, html in re.findall(r'<(?:span|ins) data-n="(\d+)">(.*?)\n</(?:span|ins)>', block, re.S):
                text = unescape(re.sub(r"<[^>]*>", "", html))
                assert text == lines[int(number) - 1], f"{name}: {path[2]}:{number}"
                looked += 1
        assert all(step.copied for step in steps)  # what is only copied shows no lines
    assert looked > 6000


def test_each_function_leads_to_where_it_is_built(site: Path) -> None:
    """From the last server to the book, and from there back."""
    last = STAGES[-1]
    pages = "".join((site / f"chapters/{last}/{file}.html").read_text(encoding="utf-8") for file in server_of(last))
    found = re.findall(r'id="L(\d+)"[^\n]*<span class="built">built in (.*?)</span>', pages)
    assert len(found) > 80
    for line, links in found:
        numbered = False  # a step that only takes lines out has none that is there at the end
        for file, anchor in re.findall(r'href="(?:\.\./)+(book/[^"]+)#(step-\d+)"', links):
            step = re.search(rf'id="{anchor}">.*?</figure>', (site / file).read_text(encoding="utf-8"), re.S)
            assert step, f"line {line}: {file}#{anchor}"
            numbered |= bool(re.search(r"/(server|src/\w+)\.[ch]\.html#L", step[0]))
        assert numbered, f"line {line}: {links}"


def test_a_table_of_changes_leads_to_its_lines(site: Path) -> None:
    page = (site / "chapters/08/index.html").read_text(encoding="utf-8")
    for name, change in (("entry_lookup", "changed"), ("slice_dup", "gone"), ("k_max_freed", "new")):
        row = re.search(rf'href="([^"#]+)#L(\d+)"><code>{name}</code>.*?<td>{change}</td>', page)
        assert row, name
        file = ROOT / "chapters" / ("07" if change == "gone" else "08") / Path(row[1]).name[: -len(".html")]
        assert name in file.read_text(encoding="utf-8").splitlines()[int(row[2]) - 1]


def test_a_server_that_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of several is shown beside what it took over; all files are listed on top."""
    exercises.write_tree({
        "chapters/04/server.c": "static int one(void) {\n    return 1;\n}\n\nint main(void) {\n    return one();\n}\n",
        "chapters/05/src/server.h": "int one(void);\n", "chapters/05/src/one.c": "int one(void) {\n    return 2;\n}\n",
        "chapters/05/src/main.c": '#include "server.h"\n\nint main(void) {\n    return one();\n}\n',
        "chapters/04/client.c": "int main(void) {\n}\n", "chapters/05/client.c": "int main(void) {\n}\n",
    }, tmp_path)  # fmt: skip
    monkeypatch.setattr(website, "ROOT", tmp_path)
    monkeypatch.setattr(website.headers, "joining", lambda name: [])
    pages = website.Site()
    pages.text = lambda path: SimpleNamespace(inline=str)
    pages.difference("04", "05")
    page = pages.pages["diffs/04-05.html"]
    top = re.findall(r'<td><a href="#([\w.-]+)">([\w./]+)</a></td><td>(.*?)</td>', page)
    assert top == [
        ("src-server.h", "src/server.h", "1 lines come, 0 go"), ("src-main.c", "src/main.c", "2 lines come, 0 go"),
        ("src-one.c", "src/one.c", "2 lines come, 2 go"), ("client.c", "client.c", "the same"),
    ]  # fmt: skip
    assert '<a href="#src-one.c-1"><code>one</code></a>' in page and 'id="src-one.c-1"' in page
    assert '04/server.c.html">04/server.c</a> <span>to</span> <a href="../chapters/05/src/one.c.html">05/' in page
    assert "<td>include</td>" not in page, "what a new file includes is no change"
    old = re.search(r'<pre class="was"><del>.*?</pre>', page, re.S)
    assert old and "data-n" not in old[0], "the old lines do not stand together in one file"
    assert website.program_of("chapters/05/src/one.c") == website.program_of("chapters/04/server.c") == "server.c"


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


def test_a_difference_holds_both_files(site: Path) -> None:
    """Of a file that two stages have, one side has all lines of the one, the other all of the other, with their
    numbers; words are marked in a few."""
    looked: List[str] = []
    for old, new in zip(STAGES, STAGES[1:]):
        page = (site / f"diffs/{old}-{new}.html").read_text(encoding="utf-8")
        for name, figure in re.findall(r'<h2 id="([\w-]+\.c)">.*?</h2>(.*?)(?=<h2|</main>)', page, re.S):
            file = name.replace("src-", "src/")
            if not all((ROOT / "chapters" / stage / file).exists() for stage in (old, new)):
                continue
            looked.append(file)
            for side, stage, mark in (("was", old, "del"), ("now", new, "ins")):
                shown = "".join(re.findall(rf'<pre [^>]*class="{side}">(.*?)</pre>', figure, re.S))
                found = re.findall(r'<(span|ins|del)(?: id="\S*")? data-n="(\d+)">(.*?)\n</\1>', shown, re.S)
                numbered = [(int(number), unescape(re.sub("<[^>]*>", "", html))) for _, number, html in found]
                lines = (ROOT / "chapters" / stage / file).read_text(encoding="utf-8").splitlines()
                assert numbered == list(enumerate(lines, 1)) or "It is the same" in figure, f"{old}-{new}: {file}"
                assert {tag for tag, _, html in found if tag != "span" or "<mark>" in html} <= {mark}
        assert 'class="was"' in page and "<mark>" in page
    assert "lines more</summary>" in page and {"server.c", "client.c", "src/conn.c"} <= {*looked}


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


def test_an_aside_is_beside_its_paragraph(tmp_path: Path) -> None:
    aside, x = '<aside role="note"><p><strong>Aside:</strong> {}</p></aside>', "\n\n> **Aside:** "
    html = render(tmp_path, f"A.\n\nB.{x}b.\n> c.\n\nC.\n\nD.{x}d.\n\n- e{x}e.\n\n> **Predict:** f?\n\n"
                  f"```console\n$ g\n```\n\nG.{x}g.\n\nH.")  # fmt: skip
    b, d, e, g = (aside.format(said) for said in ("b.\nc.", "d.", "e.", "g."))
    assert re.sub("<figure.*?</figure>", "", html, flags=re.S).split("\n") == [
        "<p>A.</p>", '<div class="noted">', "<p>B.</p>", *b.split("\n"), "<p>C.</p>", "</div>",
        '<div class="noted">', "<p>D.</p>", d, "</div>", "<ul>", "<li>e</li>", "</ul>", e,
        '<div class="predict"><p><strong>Predict:</strong> f?</p></div>',
        '<details class="answer"><summary>Answered? See what happens</summary>', "",
        '<div class="noted">', "<p>G.</p>", g, "</div>", "</details>", "<p>H.</p>",
    ]  # fmt: skip


def test_the_first_mention_of_a_term_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(
        "- **event loop** ([05](5.md#a)): Waits for all. More.\n- **key** ([07b](7b.md)): A name\n  of `a` value.\n"
        "- **block (a call)** ([02](2.md)): To wait.\n- **turn** ([05](5.md)): A round of the loop.\n"
    )
    terms = website_text.terms_of(book_blocks.read(tmp_path / "glossary.md"))
    assert [(t.name, t.chapter, t.sentence) for t in terms][:2] == [
        ("event loop", "05", "Waits for all."), ("key", "07b", "A name of a value."),
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


@pytest.mark.parametrize("body, why", [
    ("<p><b>x</p>", "closes <b>"), ("<p>x", "</main> closes <p>"),
    ('<a href="none.html">x</a>', "there is no none.html"), ('<a href="#none">x</a>', "nothing has the id of #none"),
    ('<img src="https://x.org/x.png" alt="x">', "loads https"),
    ('<p id="a">x</p><p id="a">y</p>', "is there 2 times"), ('<img src="index.html">', "no alternative text"),
    ("<p>a & b</p>", "a bare &"), ("<p>x<ul></ul></p>", "<ul> within <p>"),
    ('<a href="index.html"><a href="index.html">x</a></a>', "<a> within <a>"),
])  # fmt: skip
def test_the_checker_notices(body: str, why: str, tmp_path: Path) -> None:
    shell = '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1>{}</main></body></html>'
    (tmp_path / "index.html").write_text(shell.format("<p>x</p>"))
    assert website_check.problems(tmp_path) == []
    (tmp_path / "index.html").write_text(shell.format(body))
    assert why in "\n".join(website_check.problems(tmp_path))


# ---- in a browser ----


def printed(folder: Path, address: str, *options: str) -> str:
    """A page, after its scripts, as Chromium prints it; the scripts have said nothing on the console."""
    needs(CHROMIUM[0])
    command = [*CHROMIUM, *options, f"--user-data-dir={folder}", address]
    env = {**os.environ, "HOME": str(folder)}  # it keeps things there, too
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line and "frame is sandboxed" not in line]
    assert said == []
    return done.stdout


@pytest.fixture(scope="module")
def results(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """What test_site.js has found wrong, by its checks."""
    text = (ROOT / "book" / f"{MANY}.md").read_text(encoding="utf-8")
    copies = [("chapters/03/server.c.html", ".whole", (ROOT / "chapters/03/server.c").read_text(encoding="utf-8"))]
    for number, (what, code) in enumerate(re.findall(r"^```\w+ step (.*?)\n(.*?)^```$", text, re.S | re.M), 1):
        if "common/mem.h new" in what:
            copies.append((f"book/{MANY}.html", f"#step-{number}", code))
        elif what.startswith("server.c edit") and len(copies) < 3:  # only what comes
            new = "".join(line[1:] + "\n" for line in code.splitlines() if line.startswith("+"))
            copies.append((f"book/{MANY}.html", f"#step-{number}", new))
    assert len(copies) > 2
    given = {"chapter": f"book/{MANY}.html", "asides": f"book/{TWO_VOICES}.html", "pages": PAGES, "copies": copies}
    said = json.dumps(given).replace("</", "<\\/")
    page = site.parent / "checks.html"
    page.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body><script>const given = {said};</script>'
        '<script src="test_site.js"></script>', encoding="utf-8",
    )  # fmt: skip
    shutil.copy(Path(__file__).with_suffix(".js"), page.parent)
    html = printed(tmp_path_factory.mktemp("browser"), page.as_uri(), "--allow-file-access-from-files")
    found = re.search(r'<pre id="results">(.*?)</pre>', html, re.S)
    assert found, html
    return json.loads(unescape(found[1]))


@pytest.mark.time_limit(300)
@pytest.mark.parametrize("check", CHECKS)
def test_in_a_browser(check: str, results: Dict[str, str]) -> None:
    assert results[check] == ""


def test_search_works_from_the_file_system(site: Path, tmp_path: Path) -> None:
    """Where a page may read no other file, but for scripts."""
    html = (site / "index.html").read_text(encoding="utf-8")
    typed = """onload = () => {
        document.querySelector(".search input").value = "backpressure";
        document.querySelector(".search input").dispatchEvent(new Event("input"));
    }"""
    page = site / "typed.html"
    page.write_text(html.replace("</body>", f"<script>{typed}</script></body>"), encoding="utf-8")
    try:
        assert printed(tmp_path, page.as_uri(), "--virtual-time-budget=5000").count('role="option"') > 1
    finally:
        page.unlink()
