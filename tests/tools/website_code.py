"""Code as HTML: colours, line numbers, lines that change, parts that unfold, terminals."""
from __future__ import annotations

import difflib
import re
from functools import lru_cache
from html import escape
from typing import Dict, List, NamedTuple, Sequence, Tuple, Union

from harness.session import EXIT, HERE_DOC

# What is coloured, by the element that it becomes: i comment, u string, b keyword, var constant, em what is called.
C_WORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long
    register return short signed sizeof static static_assert struct switch typedef union unsigned void volatile while
    bool size_t ssize_t nfds_t socklen_t u?int(8|16|32|64|ptr)_t atomic_int atomic_bool pthread_t pthread_mutex_t
    pthread_cond_t sig_atomic_t time_t _Atomic _Noreturn"""
PYTHON_WORDS = """False None True and as assert async await break class continue def del elif else except finally for
    from global if import in is lambda nonlocal not or pass raise return try while with yield"""
SH_WORDS = "if then else elif fi for while until do done case esac in function exec exit export set"


def _words(words: str) -> str:
    return rf"(?P<b>\b(?:{'|'.join(words.split())})\b)"


_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
_HASH = r"(?P<i>(?<![^\s])\#[^\n]*)"
GRAMMARS = {
    "c": r"(?P<i>//[^\n]*|/\*.*?\*/)|(?P<u>" + _QUOTED + r"|(?<=include )<[^>\n]+>)|" + _words(C_WORDS)
    + r"|(?P<b2>^[ ]*\#[ ]*\w+)|(?P<var>\b(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)[uUlL]*\b|\b(?:k_\w+|[A-Z][A-Z0-9_]+)\b)"
    r"|(?P<em>\b\w+(?=\())",
    "python": _HASH + r"|(?P<u>[rbf]*(?:\"\"\".*?\"\"\"|" + _QUOTED + "))|" + _words(PYTHON_WORDS)
    + r"|(?P<var>\b\d[\w.]*\b)|(?P<em>\b\w+(?=\())",
    "sh": _HASH + "|(?P<u>" + _QUOTED + ")|" + _words(SH_WORDS) + r"|(?P<var>\$\w+|\$\{[^}]*\}|\b[A-Z_]{2,}(?==))",
    "make": _HASH + r"|(?P<b>^[\w.%$()/ -]+:(?!=))|(?P<var>\$\([^)]*\)|\$[@<^*]|^[A-Z_]+(?=\s*[:+?]?=))",
    "hex": r"(?P<b>^[<>=])|(?P<u>\"[^\"\n]*\")|(?P<em>\b[uif]\d+ \S+)|(?P<i>   +\S[^\n]*$)",
    "yaml": _HASH + r"|(?P<b>^[ -]*[\w-]+(?=:))|(?P<u>" + _QUOTED + ")",
}  # fmt: skip
LANGUAGES = {name: re.compile(grammar, re.M | re.S) for name, grammar in GRAMMARS.items()}
SUFFIXES = {".c": "c", ".h": "c", ".py": "python", ".sh": "sh", ".yml": "yaml", ".md": "text"}
PLAIN = ("text", "diff", "console", "ini", "json", "toml", "")


class Line(NamedTuple):
    """One line of code."""

    text: str
    mark: str = ""  # ins: it comes; del: it goes
    number: int = 0  # in the file of the stage; 0 where it is not there
    extra: str = ""  # HTML behind it


class Fold(NamedTuple):
    """Lines that are there and are not shown until they are asked for."""

    lines: List[Line]
    what: str


class Heading(NamedTuple):
    """A line between parts that do not follow one another."""

    text: str


Part = Union[Line, Fold, Heading]


def language(file: str) -> str:
    name = file.rpartition("/")[2]
    return "make" if name == "Makefile" else SUFFIXES.get(name[name.rfind(".") :], "text")


@lru_cache(maxsize=None)
def tokens(text: str, lang: str) -> Tuple[Tuple[Tuple[str, str], ...], ...]:
    """The lines of a text, each as (element or "", characters)."""
    lines: List[List[Tuple[str, str]]] = [[]]

    def put(tag: str, piece: str) -> None:
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((tag, part))

    at = 0
    for found in LANGUAGES[lang].finditer(text) if lang in LANGUAGES else ():
        put("", text[at : found.start()])
        put((found.lastgroup or "").rstrip("2"), found.group())
        at = found.end()
    put("", text[at:])
    return tuple(tuple(line) for line in lines)


def line_html(pieces: Sequence[Tuple[str, str]], words: Sequence[Tuple[int, int]] = ()) -> str:
    out, at = [], 0
    for tag, text in pieces:
        cuts = sorted({0, len(text), *(x - at for span in words for x in span if 0 < x - at < len(text))})
        html = ""
        for a, b in zip(cuts, cuts[1:]):
            marked = any(x <= at + a < y for x, y in words)
            html += f"<mark>{escape(text[a:b], False)}</mark>" if marked else escape(text[a:b], False)
        out.append(f"<{tag}>{html}</{tag}>" if tag else html)
        at += len(text)
    return "".join(out)


@lru_cache(maxsize=None)
def html_lines(text: str, lang: str) -> Tuple[str, ...]:
    return tuple(line_html(pieces) for pieces in tokens(text, lang))


def code(parts: Sequence[Part], lang: str, name: str = "") -> str:
    """The parts as HTML; with a name, lines that have a number have an id: name12."""
    flat = [line for part in parts for line in (part.lines if isinstance(part, Fold) else [part])]
    coloured = iter(html_lines("\n".join(x.text for x in flat if isinstance(x, Line)), lang))
    out: List[str] = []
    run: List[str] = []

    def end_run() -> None:
        if run:
            out.append(f"<pre>{''.join(run)}</pre>")
            run.clear()

    def one(line: Line) -> str:
        tag = line.mark or "span"
        here = f' id="{name}{line.number}"' if name and line.number else ""
        number = f' data-n="{line.number}"' if line.number else ""
        return f"<{tag}{here}{number}>{next(coloured)}{line.extra}\n</{tag}>"

    for part in parts:
        if isinstance(part, Line):
            run.append(one(part))
        elif isinstance(part, Heading):
            end_run()
            out.append(f'<p class="at">{escape(part.text)}</p>')
        elif part.lines:
            end_run()
            inside = "".join(one(line) for line in part.lines)
            out.append(f"<details><summary>{escape(part.what)}</summary><pre>{inside}</pre></details>")
    end_run()
    return f'<div class="code">{"".join(out)}</div>'


def plain(text: str, lang: str, first: int = 0) -> str:
    """A text as it is; numbered where `first` says with what to begin."""
    return code([Line(t, "", first + i if first else 0) for i, t in enumerate(text.splitlines())], lang)


def stay(lines: List[Line]) -> Fold:
    return Fold(lines, f"{len(lines)} line{'s' * (len(lines) != 1)} that stay{'s' * (len(lines) == 1)}")


# ---- two terminals ----


def terminal(text: str) -> str:
    """A session: what is typed, what is printed, and in which of the two terminals."""
    out: List[str] = []
    now, here, interrupted = "cli", "", False
    for line in text.splitlines():
        prompt, typed = "", ""
        if here:
            typed, here = line, "" if line.strip() == here else here
        elif line.startswith("$ "):
            who, prompt, typed = "cli", "$ ", line[2:]
        elif line.startswith("server$ "):
            who, prompt, typed = "srv", "server$ ", line[8:]
        elif line.startswith(("server|", "server^C")):
            who = "srv"
        elif not (interrupted and EXIT.match(line)):
            who = "cli"
        document = HERE_DOC.search(line) if prompt else None
        here = document.group(2) if document else here
        interrupted = line.rstrip() == "server^C"
        if typed or prompt:
            body = f"<s>{prompt}</s><kbd>{escape(typed, False)}</kbd>"
        elif line.startswith("server|"):
            body = f"<s>server|</s>{escape(line[7:], False)}"
        else:
            aside = "i" if line.startswith("# ") else "b" if EXIT.match(line) or interrupted else ""
            body = f"<{aside}>{escape(line, False)}</{aside}>" if aside else escape(line, False)
        if not out or who != now:
            out += ["</pre>"] * bool(out) + [f'<pre class="{who}">']
        out.append(body + "\n")
        now = who
    return f'<div class="code term">{"".join(out)}</pre></div>'


# ---- two versions side by side ----


def similar_words(old: Sequence[str], new: Sequence[str]) -> Dict[Tuple[str, int], Tuple[Tuple[int, int], ...]]:
    """Which columns differ in lines that were others before: ("del", index) or ("ins", index) -> columns."""
    found: Dict[Tuple[str, int], Tuple[Tuple[int, int], ...]] = {}
    at = 0
    for i, line in enumerate(old):
        mine = re.findall(r"\w+|[^\w\s]", line)
        best, where = 0.5, -1
        for j in range(at, min(at + 40, len(new))):
            other = re.findall(r"\w+|[^\w\s]", new[j])
            common = sum(min(mine.count(w), other.count(w)) for w in set(mine))
            if mine and 2 * common / (len(mine) + len(other)) > best:
                best, where = 2 * common / (len(mine) + len(other)), j
        if where < 0 or len(mine) < 2:
            continue
        a, b = (re.findall(r"\w+|\s+|[^\w\s]", x) for x in (line, new[where]))
        spans: Tuple[List[Tuple[int, int]], List[Tuple[int, int]]] = ([], [])
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, False).get_opcodes():
            for side, words, x, y in ((0, a, i1, i2), (1, b, j1, j2)):
                if tag != "equal" and x < y:
                    spans[side].append((len("".join(words[:x])), len("".join(words[:y]))))
        found["del", i], found["ins", where] = tuple(spans[0]), tuple(spans[1])
        at = where + 1
    return found


def beside(old: Sequence[str], new: Sequence[str], opcodes: Sequence[Tuple[str, int, int, int, int]], lang: str,
           name: str, context: int = 3) -> str:  # fmt: skip
    """The two texts side by side, as the opcodes of stagediff have it; what stays is folded but for a few lines."""
    texts = {"was": "\n".join(old), "now": "\n".join(new)}
    html = {side: html_lines(text, lang) for side, text in texts.items()}

    def lines(tag: str, side: str, first: int, end: int, marks: Dict, twin: str = "") -> str:
        out = []
        for at in range(first, end):
            here = f' id="{name}{at + 1}"' if side == "now" else ""
            words = marks.get((tag, at - first))
            body = line_html(tokens(texts[side], lang)[at], words) if words else html[side][at]
            out.append(f'<{tag}{here} data-n="{at + 1}">{body}\n</{tag}>')
        return f'<pre class="{side}"{twin}>{"".join(out)}</pre>'

    def same(a: int, b: int, size: int) -> str:
        if size <= 0:
            return ""
        left = lines("span", "was", a, a + size, {}, ' aria-hidden="true"')
        return f'<div class="hunk same">{left}{lines("span", "now", b, b + size, {})}</div>'

    out: List[str] = []
    for number, (tag, a1, a2, b1, b2) in enumerate(opcodes):
        if tag != "equal":
            marks = similar_words(old[a1:a2], new[b1:b2])
            left, right = (lines("del", "was", a1, a2, marks), lines("ins", "now", b1, b2, marks))
            out.append(f'<div class="hunk">{left}{right}</div>')
            continue
        head = context if number else 0
        tail = context if number < len(opcodes) - 1 else 0
        if a2 - a1 <= head + tail + 4:
            out.append(same(a1, b1, a2 - a1))
            continue
        folded = lines("span", "now", b1 + head, b2 - tail, {})
        count = a2 - a1 - head - tail
        out.append(same(a1, b1, head))
        out.append(f"<details><summary>{count} lines that are the same</summary>{folded}</details>")
        out.append(same(a2 - tail, b2 - tail, tail))
    return f'<div class="code beside">{"".join(out)}</div>'
