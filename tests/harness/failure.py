"""What a failure says, in its parts, and how it is laid out.

A Failure has what happened in one line, then blocks (sent, came, expected, ..), then a likely cause. The report that
shows it adds what was tried and what to type next. All failures go through here: explained() takes any exception.
"""
from __future__ import annotations

import re
import signal
import socket
import subprocess
import textwrap
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

Block = Tuple[str, Sequence[str]]

ORDER = ["tried", "typed", "sent", "came", "its bytes", "expected"]  # in a lesson, then others, and then:
LAST = ["printed", "and"]
TYPED = ("typed", "command", "started", "again")  # not folded
LISTENING = re.compile(r"^listening on (\S*):(\d+)$")
READY = "Ready to accept connections"  # from 27 on
SERVER_ENDED = "the server ended in the middle of the test"


class Cause(NamedTuple):
    """A likely cause. Failures with the same key have the same one; words are for people."""

    key: str
    words: str

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def short(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=[.?!:])\s", self.words, maxsplit=1)[0].rstrip(":")


NO_CAUSE = Cause("", "")


def cause(words: str) -> Cause:
    """A cause whose first sentence, without its numbers, is the key."""
    return Cause(re.sub(r"\d[\d,]*", "N", Cause("", words).short), words)


class Failure(AssertionError):
    """A failed test: what happened, blocks of lines under titles, a likely cause."""

    def __init__(self, what: str, blocks: Iterable[Block] = (), why: Cause = NO_CAUSE) -> None:
        self.what, self.why = what, why
        self.blocks = [(title, list(lines)) for title, lines in blocks if lines]
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        for title, text in self.blocks + [("perhaps", [self.why.words] if self.why else [])]:
            lines += [f"  {line}" for line in laid_out(title, text)]
        return "\n".join(lines)

    def within(self, where: str) -> "Failure":
        """The same failure, with where it happened in front."""
        return Failure(where + self.what, self.blocks, self.why)

    def and_also(self, title: str, text: str) -> "Failure":
        """The same failure, with what else is known."""
        return Failure(self.what, [*self.blocks, (title, text.splitlines())], self.why)

    def lesson(self, width: int = 96, most: int = 0) -> List[str]:
        """The blocks with their titles in the margin. most is the number of lines that a block may have, 0 for any."""
        came, *more = re.sub(r" \(chapter \d\d\)$", "", self.what).split("\n")
        blocks: Dict[str, List[str]] = {}
        for title, text in self.blocks:
            blocks.setdefault(title, []).extend(text)
        said = [came, *(line.strip() for line in more)] if self.what else []
        blocks["came"] = [*said, *blocks.get("came", [])]
        if blocks["came"][1:] == ["nothing"]:
            del blocks["came"][1:]
        others = [title for title in blocks if title not in ORDER + LAST]
        lines: List[str] = []
        for title in ORDER + others + LAST:
            if title in blocks:
                fold = 0 if title in TYPED else width
                lines += shortened(laid_out(title if title != "its bytes" else "", blocks[title], fold), most)
        return lines + (laid_out("perhaps", [self.why.words], width) if self.why else [])


class Lesson(Failure):
    """A failure that says all itself: nothing is added to it but how the server ended."""

    def __str__(self) -> str:
        return "\n".join(self.lesson())

    def ended(self, problem: Failure) -> Lesson:
        """The same lesson, with what was wrong with its server's end."""
        return Lesson(
            self.what, [*self.blocks, ("and", problem.what.split("\n")), *problem.blocks], self.why or problem.why
        )


def laid_out(title: str, text: Sequence[str], width: int = 0) -> List[str]:
    """Lines beside a title in a margin of ten columns; with a width, sentences are folded and columns are not."""
    lines: List[str] = []
    for line in text:
        words = width and len(line) + 10 > width and "  " not in line.strip() and "^^" not in line
        lines += textwrap.wrap(line, width - 10, break_long_words=False, break_on_hyphens=False) if words else [line]
    return [f"{title if i == 0 else '':<10}{line}".rstrip() for i, line in enumerate(lines)]


def shortened(lines: List[str], most: int) -> List[str]:
    """At most so many lines; one with a caret and the one above it stay."""
    if not most or len(lines) <= most:
        return lines
    caret = next((i for i, line in enumerate(lines) if "^^" in line), -1)
    if caret < most:
        return lines[: max(most, caret + 1)]
    return lines[: max(1, most - 2)] + lines[max(1, caret - 1) : caret + 1]


def explained(error: BaseException, statement: str = "") -> Failure:
    """Any exception as a failure. statement is the line of the test where it came from."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, AssertionError) or type(error).__module__.startswith("_pytest"):
        text = str(error) or f"this does not hold: {statement}"
        first, *rest = re.sub(r"^assert (?=[^\n])", "this does not hold: ", text).split("\n")
        rest = [line for line in rest if line.strip() and "Use -v to get" not in line]
        sides = re.fullmatch(r"this does not hold: (.+) == (.+)", first)
        if sides and first.count(" == ") == 1:
            return Failure(sides[1], [("expected", [sides[2]]), ("in detail", rest)])
        return Failure(first, [("in detail", rest)])
    if isinstance(error, ConnectionRefusedError):
        why = cause(
            "nobody listens there: does the server still run, and does it listen on the address that was asked for?"
        )
        return Failure("the connection was refused", why=why)
    if isinstance(error, ConnectionError):
        return Failure(f"the connection broke: {error.strerror}", why=cause("did the server crash, or hang up?"))
    if isinstance(error, (TimeoutError, socket.timeout, subprocess.TimeoutExpired)):
        return Failure("nothing came in the time that there is", why=cause("does the server wait for something else?"))
    if isinstance(error, OSError):
        return Failure(f"the system says: {error}")
    return Failure(f"the test itself stumbled, {type(error).__name__}: {error}",
                   why=cause("what came is so unlike what was expected that the test is lost"))  # fmt: skip


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def status_text(status: int) -> str:
    """An exit status in words."""
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"
