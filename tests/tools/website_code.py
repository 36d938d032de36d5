"""Code as HTML: colours, line numbers, lines that change, lines that unfold, terminals, two versions side by side."""
from __future__ import annotations

import difflib
import re
from functools import lru_cache
from html import escape
from itertools import count, groupby
from typing import Container, Dict, List, NamedTuple, Sequence, Set, Tuple

from harness.session import EXIT, HERE_DOC
from stagediff import Opcode

# What is coloured, by the element that it becomes: i comment, u string, b keyword, var constant, em what is called;
# bdi is not broken at the end of a row.
# The text has been escaped before.
C_WORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long
    register return short signed sizeof static static_assert struct switch typedef union unsigned void volatile while
    bool size_t ssize_t nfds_t socklen_t u?int(8|16|32|64|ptr)_t atomic_int atomic_bool pthread_t pthread_mutex_t
    pthread_cond_t sig_atomic_t time_t _Atomic _Noreturn"""
PYTHON_WORDS = """False None True and as assert async await break class continue def del elif else except finally for
    from global if import in is lambda nonlocal not or pass raise return try while with yield"""
SH_WORDS = "if then else elif fi for while until do done case esac in function exec exit export"


def _words(words: str) -> str:
    return rf"(?P<b>\b(?:{'|'.join(words.split())})\b)"


_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_HASH = r"(?P<i>(?<![^\s])\#[^\n]*)"
GRAMMARS = {
    "c": r"(?P<i>//[^\n]*|/\*.*?\*/)|(?P<u>" + _QUOTED + r"|(?<=include )&lt;[^\n]+?&gt;)|" + _words(C_WORDS)
    + r"|(?P<b2>^[ ]*\#[ ]*\w+)|(?P<var>\b(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)[uUlL]*\b|\b(?:k_\w+|[A-Z][A-Z0-9_]+)\b)"
    r"|(?P<em>\b\w+(?=\())|(?P<bdi>-&gt;)",
    "python": _HASH + r"|(?P<u>[rbf]*(?:\"\"\".*?\"\"\"|" + _QUOTED + "))|" + _words(PYTHON_WORDS)
    + r"|(?P<var>\b\d[\w.]*\b)|(?P<em>\b\w+(?=\())",
    "sh": _HASH + "|(?P<u>" + _QUOTED + ")|" + _words(SH_WORDS) + r"|(?P<var>\$\w+|\$\{[^}]*\}|\b[A-Z_]{2,}(?==))",
    "hex": r"(?P<b>^(?:&lt;|&gt;|=))|(?P<u>\"[^\"\n]*\")|(?P<em>\b[uif]\d+ \S+)|(?P<i>   +\S[^\n]*$)",
    "make": _HASH + r"|(?P<b>^[\w.%$()/ -]+:(?!=))|(?P<var>\$\([^)]*\)|\$[@<^*]|^[A-Z_]+(?=\s*[:+?]?=))",
}  # fmt: skip
LANGUAGES = {name: re.compile(grammar, re.M | re.S) for name, grammar in GRAMMARS.items()}
SUFFIXES = {".c": "c", ".h": "c", ".py": "python", ".sh": "sh", "Makefile": "make"}
WORD = re.compile(r"\w+|[^\w\s]")
CONTEXT = 3  # lines that are shown above and below what differs
Columns = Dict[int, Set[int]]  # by the index of the line


class Line(NamedTuple):
    """One line of code."""

    text: str
    mark: str = ""  # ins: it comes; del: it goes
    number: int = 0  # in the file; 0 where it is not there
    folded: bool = False  # it is not shown until it is asked for
    extra: str = ""  # HTML behind it


def language(file: str) -> str:
    return next((lang for suffix, lang in SUFFIXES.items() if file.endswith(suffix)), "text")


@lru_cache(maxsize=None)
def coloured(text: str, lang: str) -> Sequence[str]:
    """The lines of a text as HTML."""

    def paint(found: "re.Match[str]") -> str:
        tag = str(found.lastgroup).rstrip("2")
        return "\n".join(f"<{tag}>{line}</{tag}>" for line in found[0].split("\n"))

    html = escape(text, False)
    return (LANGUAGES[lang].sub(paint, html) if lang in LANGUAGES else html).split("\n")


def element(line: Line, html: str, name: str = "") -> str:
    """One line; with a name, it has an id where it has a number: name12."""
    tag = line.mark or "span"
    here = f' id="{name}{line.number}"' if name and line.number else ""
    number = f' data-n="{line.number}"' if line.number else ""
    return f"<{tag}{here}{number}>{html}{line.extra}\n</{tag}>"


def fold(pre: str, size: int) -> str:
    return f"<details><summary>{size} line{'s' * (size != 1)} more</summary>{pre}</details>" if size else ""


def code(lines: Sequence[Line], lang: str, name: str = "") -> str:
    """The lines as HTML."""
    html = zip(lines, coloured("\n".join(line.text for line in lines), lang))
    out = []
    for folded, run in groupby(html, lambda each: each[0].folded):
        rows = [element(*each, name) for each in run]
        pre = f"<pre>{''.join(rows)}</pre>"
        out.append(fold(pre, len(rows)) if folded and len(rows) > 1 else pre)
    return f'<div class="code">{"".join(out)}</div>'


def plain(text: str, lang: str) -> str:
    """A text as it is."""
    return code([Line(line) for line in text.splitlines()], lang)


def terminal(text: str) -> str:
    """A session: what is typed, what is printed, and in which of the two terminals."""
    out = []
    who, document, interrupted = "cli", "", False  # document: the word that ends what is typed into a command
    for line in text.splitlines():
        prompt = "" if document else re.match(r"(?:server)?\$ |server\||server(?=\^C)|", line)[0]  # type: ignore[index]
        typed = bool(document) or prompt.endswith("$ ")
        if not document and not (interrupted and EXIT.match(line)):
            who = "srv" if prompt.startswith("server") else "cli"
        interrupted = prompt == "server"
        tag = "kbd" if typed else "i" if line.startswith("# ") else "b" if interrupted or EXIT.match(line) else ""
        html = escape(line[len(prompt) :], False)
        html = f"<{tag}>{html}</{tag}>" if tag else html
        out.append((who, f"<s>{prompt}</s>{html}\n" if prompt else f"{html}\n"))
        opens = HERE_DOC.search(line) if prompt else None
        document = opens[2] if opens and typed else "" if line.strip() == document else document
    runs = groupby(out, lambda each: each[0])
    pres = (f'<pre class="{who}">{"".join(html for _, html in run)}</pre>' for who, run in runs)
    return f'<div class="code term">{"".join(pres)}</div>'


# ---- two versions side by side ----


def differing(old: Sequence[str], new: Sequence[str]) -> Tuple[Columns, Columns]:
    """Where a line has become another that is much like it: which columns differ, in the old and in the new one."""
    columns: Tuple[Columns, Columns] = ({}, {})
    words = [set(WORD.findall(line)) for line in new]
    at = 0  # lines of `new` that are taken
    for i, line in enumerate(old):
        mine = set(WORD.findall(line))
        near = [(len(mine & words[j]) / len(mine | words[j]), -j) for j in range(at, min(at + 40, len(new))) if mine]
        alike, j = max(near, default=(0.0, 0))
        if alike < 0.4 or len(mine) < 2:
            continue
        at = 1 - j
        both = [re.findall(r"\w+|\s+|.", text) for text in (line, new[-j])]
        for tag, *spans in difflib.SequenceMatcher(None, *both, False).get_opcodes():
            for side, number, pieces, (x, y) in zip(columns, (i, -j), both, (spans[:2], spans[2:])):
                if tag != "equal":
                    side.setdefault(number, set()).update(range(len("".join(pieces[:x])), len("".join(pieces[:y]))))
    return columns


def marked(html: str, columns: Container[int]) -> str:
    """A line of HTML with these columns of its text marked."""
    at = count()
    pieces = re.findall(r"<[^>]*>|&\w+;|.", html) if columns else [html]
    out = (f"<mark>{piece}</mark>" if piece[:1] != "<" and next(at) in columns else piece for piece in pieces)
    return "".join(out).replace("</mark><mark>", "")


def beside(
    old: Sequence[str], new: Sequence[str], opcodes: Sequence[Opcode], name: str, numbered: bool = True
) -> str:
    """Two C sources side by side, as the opcodes of stagediff have it; what stays is folded but for a few lines. The
    lines of the old one have numbers where they are all of one file."""
    was, now = (coloured("\n".join(text), "c") for text in (old, new))

    def side(start: str, html: Sequence[str], first: int, end: int, mark: str = "", columns: Columns = {}) -> str:
        ids = name if html is now else ""
        rows = (marked(html[at], columns.get(at - first, ())) for at in range(first, end))
        known = numbered or html is now
        lines = (element(Line("", mark, known * number), row, ids) for number, row in enumerate(rows, first + 1))
        return f'<pre {start}>{"".join(lines)}</pre>'

    def same(a: int, b: int, size: int) -> str:
        both = side('aria-hidden="true" class="was"', was, a, a + size) + side('class="now"', now, b, b + size)
        return f'<div class="hunk same">{both}</div>' if size else ""

    out: List[str] = []
    for number, (tag, a1, a2, b1, b2) in enumerate(opcodes):
        if tag != "equal":
            left, right = differing(old[a1:a2], new[b1:b2])
            both = side('class="was"', was, a1, a2, "del", left) + side('class="now"', now, b1, b2, "ins", right)
            out.append(f'<div class="hunk">{both}</div>')
            continue
        head, tail = CONTEXT * (number > 0), CONTEXT * (number < len(opcodes) - 1)
        if a2 - a1 <= head + tail + 4:
            head, tail = a2 - a1, 0
        size = a2 - a1 - head - tail
        out += [same(a1, b1, head), fold(same(a1 + head, b1 + head, size), size), same(a2 - tail, b2 - tail, tail)]
    return f'<div class="code beside">{"".join(out)}</div>'
