"""Sessions: transcripts of two terminals, parsed and played. tests/README.md has the grammar."""
from __future__ import annotations

import difflib
import itertools
import os
import re
import shlex
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from . import bounded, build, redis, settings
from .codec import codec
from .failure import Failure
from .process import LISTENING, READY, Server, clean_env, free_port
from .settings import ROOT, fail, limit

__tracebackhide__ = settings.__tracebackhide__

SHOWN_PORT = "1234"  # what every port of a session's server is called in a transcript
HERE_DOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
EXIT = re.compile(r"^\[exit (\d+)\]$")
CLIENT = re.compile(r"(\w+=\S* )*\./client")  # what asks for commands, and prints a prompt for each
CRASHES = {128 + each for each in (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)}
PATIENCE = 5.0  # seconds for a line that the server is to print
LISTED, CAME = "the session", "what came"  # the heads of a diff
COLUMN = 31  # characters of each side of a difference
QUIET = 0.05  # seconds without another line after which a server is taken to have said all
SESSIONS = ROOT / "tests" / "sessions"
Listener = Callable[[str, str], None]  # kind ("command", "output", "server"), text


@dataclass
class Step:
    """One thing typed, and what must follow it.

    kind is "run" (`$ `), "start" (`server$ `), "lines" (`server| `) or "interrupt" (`server^C`). typed are the commands
    that are typed into a client which runs (`> `), as steps of the kind "type".
    """

    kind: str
    line: int  # in the file, from 1
    command: str = ""
    output: List[str] = field(default_factory=list)
    status: int = 0
    typed: List["Step"] = field(default_factory=list)


@dataclass
class Session:
    """A file's steps. title is the text of its first comment.

    programs are those of a walk that is half done, by name, in place of the chapter's: such a server may print
    nothing, take another port than it is told, end by itself; and none runs before the session starts one.
    files are in the folder from the beginning.
    """

    path: str
    chapter: int
    steps: List[Step]
    title: str = ""
    programs: Optional[Dict[str, Path]] = None
    files: Dict[str, str] = field(default_factory=dict)


class SessionError(ValueError):
    """A file that is not written as a session is."""


# ---- parsing ----------------------------------------------------------------------------------


def parse(text: str, first_line: int = 1) -> List[Step]:
    """The steps of a transcript. SessionError names the line that is none."""
    steps: List[Step] = []
    here: Optional[str] = None  # the word that ends a here-document
    waits_for_exit: Optional[Step] = None  # after server^C
    for number, line in enumerate(text.split("\n"), first_line):
        step = steps[-1] if steps else None
        if here is not None and step:
            step.command += "\n" + line
            here = None if line.strip() == here else here
        elif line.startswith("$ "):
            steps.append(Step("run", number, line[2:]))
            found = HERE_DOC.search(line)
            here = found.group(2) if found else None
        elif re.match(r">( |$)", line) and step and step.kind == "run" and CLIENT.fullmatch(step.command):
            step.typed.append(Step("type", number, line[2:]))
        elif line.startswith("server$ "):
            steps.append(Step("start", number, line[8:].strip()))
        elif line.rstrip() == "server^C":
            steps.append(Step("interrupt", number))
            waits_for_exit = steps[-1]
            continue
        elif re.match(r"server\|( |$)", line):
            if not step or step.kind != "lines":
                steps.append(Step("lines", number))
            steps[-1].output.append(line[8:])
            continue
        elif line.startswith("# ") or line == "#":
            continue
        elif EXIT.match(line) and (waits_for_exit or step):
            target = waits_for_exit or step
            assert target and EXIT.match(line)
            target.status = int(line[6:-1])
        elif step and step.kind == "run":
            (step.typed[-1] if step.typed else step).output.append(line)
        elif line.strip():
            raise SessionError(f"line {number}: this is no command and no output of one: {line}")
        if line.strip():
            waits_for_exit = None
    if here is not None:
        raise SessionError(f"line {steps[-1].line}: the here-document does not end with {here}")
    for step in steps:
        if step.kind == "run":
            _strip_blank((step.typed[-1] if step.typed else step).output)
    return steps


def console_blocks(markdown: str) -> List[Tuple[int, str]]:
    """The ```console blocks: the line number of each one's first line, and its text."""
    blocks: List[Tuple[int, str]] = []
    lines: List[str] = []
    start, fence, indent = 0, "", 0
    for number, line in enumerate(markdown.split("\n"), 1):
        opening = re.match(r"^( *)(`{3,}|~{3,})\s*(\S*)", line)
        if not fence and opening:
            indent, fence = len(opening.group(1)), opening.group(2)
            start, lines = (number + 1 if opening.group(3) == "console" else 0), []
        elif fence and re.match(r"^ *" + fence[0] + "{%d,}\\s*$" % len(fence), line):
            if start:
                blocks.append((start, "\n".join(lines)))
            fence = ""
        elif fence:
            lines.append(line[indent:] if not line[:indent].strip() else line)
    return blocks


def load(path: str, chapter: Optional[int] = None) -> Session:
    """Reads a .session file, the one with this name in tests/sessions, or all console blocks of a Markdown file as
    one session.

    The chapter is that of the name (NN-slug.session, book/NN-slug.md) or of the folder
    (chapters/NN/README.md), unless given.
    """
    named = SESSIONS / f"{path}.session"
    path = str(named) if named.is_file() else path
    text = Path(path).read_text(encoding="utf-8")
    if chapter is None:
        file = Path(path).resolve()
        found = re.match(r"(\d\d)\D", file.name) or re.match(r"(\d\d)$", file.parent.name)
        if not found:
            raise SessionError(f"{path}: neither the name nor the folder tells the chapter")
        chapter = int(found.group(1))
    try:
        if str(path).endswith(".md"):
            steps = [step for line, block in console_blocks(text) for step in parse(block, line)]
            return Session(str(path), chapter, steps)
        first = re.match(r"# (.*)", text)
        return Session(str(path), chapter, parse(text), first.group(1) if first else "")
    except SessionError as e:
        raise SessionError(f"{path}: {e}") from None


# ---- playing ----------------------------------------------------------------------------------


def check_session(path: str, chapter: Optional[int] = None) -> None:
    """Plays a file, or the session of tests/sessions with this name; fails with what came beside what was expected at
    the first difference, and says where there are more."""
    try:
        session = load(path, chapter)
    except SessionError as e:
        fail(str(e))
        return
    differences = play(session)
    if differences:
        raise _first_of(differences)


def _first_of(differences: Sequence[str]) -> Failure:
    """The first difference, expected and actual side by side, and the places of the others."""
    place, *lines, again = differences[0].split("\n")
    where, typed = re.fullmatch(r"(.*:\d+): (.*)", place).groups()  # type: ignore[union-attr]
    diff = [line for line in lines if line not in (f"--- {LISTED}", f"+++ {CAME}")]
    rows = side_by_side(diff) if len(diff) < len(lines) else lines  # no diff, but something that went wrong
    elsewhere = [difference.split("\n")[0] for difference in differences[1:]]
    return Failure(f"{where} differs", [("typed", [typed]), ("differs", rows), ("again", [again.partition(": ")[2]]),
                                        ("also", elsewhere)])  # fmt: skip


def side_by_side(diff: Sequence[str]) -> List[str]:
    """A unified diff in two columns, as wide as a terminal has room for."""
    rows: List[Tuple[str, str, str]] = []
    gone: List[str] = []
    new: List[str] = []
    for line in [*diff, " "]:
        if line[:1] in "+-":
            (gone if line[0] == "-" else new).append(line[1:])
            continue
        rows += [("|", left, right) for left, right in itertools.zip_longest(gone, new, fillvalue="")]
        gone, new = [], []
        rows += [(" ", line[1:], line[1:])] * line.startswith(" ")
    first = next(at for at, (sign, *_) in enumerate(rows) if sign == "|")
    rows = rows[max(0, first - 1) : -1]  # with one that is the same in front: there is not room for all
    cut = [(sign, *_cut(left, right)) for sign, left, right in rows]
    wide = max(len("expected"), *(len(left) for _, left, _ in cut))
    lines = [f"{left:<{wide}}  {sign}  {right}".rstrip() for sign, left, right in cut]
    return [f"{'expected':<{wide}}     came", *lines]


def _cut(left: str, right: str) -> Tuple[str, str]:
    """Two lines, as much of them as there is room for: where they differ."""
    same = len(os.path.commonprefix([left, right]))
    skipped = max(0, min(same - COLUMN // 3, max(len(left), len(right)) - COLUMN)) if left != right else 0
    shown = [f"...{text[skipped + 3:]}" if skipped else text for text in (left, right)]
    first, second = (text if len(text) <= COLUMN else text[: COLUMN - 3] + "..." for text in shown)
    return first, second


def play(session: Session, listener: Optional[Listener] = None) -> List[str]:
    """Plays a session; returns the differences, each with file, line, command and a unified diff.

    The listener hears what is typed and printed as it happens.
    """
    with tempfile.TemporaryDirectory(prefix="session-") as folder:
        return _Player(session, folder, listener or (lambda kind, text: None)).play()


class _Player:
    """The two terminals of one session."""

    def __init__(self, session: Session, folder: str, listener: Listener) -> None:
        self.session, self.folder, self.listener = session, folder, listener
        self.differences: List[str] = []
        self.server: Optional[Server] = None
        self.port = free_port()  # before the first server: nobody listens there
        self.listed = Step("lines", 0)  # what the session has listed of this server's lines so far
        self.heard = 0  # server lines that the listener has heard
        self.differs = False  # one difference a server is enough: the rest follows from it

    def play(self) -> List[str]:
        step = Step("start", 1, "./server")
        try:
            self._furnish()
            if self.session.programs is None and not any(step.kind == "start" for step in self.session.steps):
                self._new_server(step)
            for step in self.session.steps:
                getattr(self, "_" + step.kind)(step)
            self._end_server()
        except AssertionError as e:
            self._differ(step, str(self._in_full(e)))
        finally:
            if self.server:
                self.server.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)  # only end it
        return self.differences

    def _in_full(self, failed: AssertionError) -> AssertionError:
        """What went wrong, with what the server has to do with it, and what it printed. Ends the server."""
        server, self.server = self.server, None
        if server:
            try:
                server.__exit__(type(failed), failed, None)
            except Failure as e:
                said = any(title == "printed" for title, _ in e.blocks)
                return e if said else e.and_also("printed", "\n".join(server.log[-20:]) or "nothing")
        return failed

    def _furnish(self) -> None:
        """Puts the chapter's programs into the folder, so that ./server and the like are there."""
        self._write_files()
        for name, path in (self.session.programs or {}).items():
            (Path(self.folder) / name).symlink_to(path)
        if self.session.programs is not None:
            return
        chapter = self.session.chapter
        typed = [name for step in self.session.steps for name in re.findall(r"\./(\w+)", step.command)]
        for name in sorted({"server", *typed}):
            if name not in ("server", "client") and not (ROOT / f"chapters/{chapter:02}/{name}.c").exists():
                continue  # the shell will say that there is no such program
            words = _program(chapter, name)
            path = Path(self.folder) / name
            if len(words) == 1 and not settings.foreign(name):
                path.symlink_to(words[0])
            else:
                folder = shlex.quote(str(settings.START_DIR))
                variables = {"PORT": "$PORT", "APPENDONLY": "${APPENDONLY:-no}", "DIR": "${DIR:-.}",
                             "APPENDFSYNC": "${APPENDFSYNC:-everysec}"}  # fmt: skip
                told = " ".join(f'"{word}"' for word in redis.options(words, variables))
                path.write_text(f'#!/bin/sh\ncd {folder} && exec {shlex.join(words)} {told} "$@"\n')
                path.chmod(0o755)

    def _write_files(self) -> None:
        for name, text in self.session.files.items():
            (Path(self.folder) / name).write_text(self._with_port(text), encoding="utf-8")

    def _with_port(self, typed: str) -> str:
        """What was typed, with the port of this session's server for 1234."""
        real = rf"\g<1>{self.port}"
        return re.sub(r"""(PORT=|localhost[: ]|127\.0\.0\.\d(?:[: ]|["'], ))1234\b""", real, typed)

    # ---- steps ----

    def _start(self, step: Step) -> None:
        self._end_server()
        self.listener("command", f"server$ {step.command}")
        self._new_server(step)

    def _new_server(self, step: Step) -> None:
        words, env = shlex.split(step.command), {}
        while words and re.match(r"\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        port = env.pop("PORT", SHOWN_PORT)
        if settings.foreign("server"):
            env.setdefault("DIR", self.folder)  # it does not run in there
        early = self.session.programs is not None
        server = Server(
            0 if early else self.session.chapter, env=env, command=words, cwd=self.folder,
            port=None if port == SHOWN_PORT else int(port), early=early,
        )  # fmt: skip
        server.__enter__()
        self.server, self.port = server, server.port
        self._write_files()
        self.listed, self.heard, self.differs = Step("lines", step.line), 0, False

    def _run(self, step: Step) -> None:
        self._hear_server()
        self.listener("command", f"$ {step.command}")
        process = subprocess.Popen(
            ["sh", "-c", self._with_port(step.command)], cwd=self.folder,
            env=clean_env({"PORT": str(self.port), "LC_ALL": "C.UTF-8"}),
            stdin=subprocess.PIPE if step.typed else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        typed = "".join(each.command + "\n" for each in step.typed)
        raw, _, late, too_much = bounded.communicate(process, typed.encode(), limit(90))
        lines = self._normal(raw.decode(errors="backslashreplace"))
        if late or too_much:
            lines.append(f"(ended after {limit(90):g} s)" if late else "(ended: it prints without end)")
        self._compare(step, lines, process.returncode)

    def _lines(self, step: Step) -> None:
        if self.server is None:
            fail("no server is running here")
            return
        self.listed.line = step.line
        ended = EXIT.match(step.output[-1])
        self.listed.output += step.output[:-1] if ended else step.output
        count = len(self.listed.output)
        self._server_lines(count)
        self._hear_server(count)
        self._compare_server(count)
        if ended:
            status = self.server.wait_end(PATIENCE)
            status = status if status >= 0 else 128 - status
            if status in CRASHES and int(ended[1]) in CRASHES:
                status = int(ended[1])  # which of them it is depends on what lies in memory
            self._compare_lines(step, [ended.group()], [f"[exit {status}]"])

    def _interrupt(self, step: Step) -> None:
        self._hear_server()
        self.listener("command", "server^C")
        if self.server is None:
            fail("no server is running here")
            return
        self._compare(step, [], self.server.stop(signal.SIGINT))

    def _end_server(self) -> None:
        """Ends the server of before, after a last look at what it printed."""
        if self.server is None:
            return
        if self.listed.output:
            if self.server.alive():
                self.server.wait_log(len(self.server.log) + 1, seconds=QUIET)
            self._compare_server(None)
        self._hear_server()
        server, self.server = self.server, None
        server.__exit__(None, None, None)

    # ---- comparing ----

    def _compare(self, step: Step, lines: List[str], status: int) -> None:
        """Compares a command's output and exit status with the session."""
        status = status if status >= 0 else 128 - status
        got = lines + [f"[exit {status}]"] * (status != 0)
        parts = [step, *step.typed]
        self._tell(parts, got)
        for part in parts[:-1]:
            if not self._compare_lines(part, part.output, got[: len(part.output)]):
                return
            del got[: len(part.output)]
        self._compare_lines(parts[-1], parts[-1].output + [f"[exit {step.status}]"] * (step.status != 0), got)

    def _tell(self, parts: Sequence[Step], got: Sequence[str]) -> None:
        """Tells the listener what was printed, behind each command that was typed as many lines as it is to print."""
        left = list(got)
        for part in parts:
            if part.kind == "type":
                self.listener("command", f"> {part.command}")
            more = len(part.output) if part is not parts[-1] else len(left)
            for line in left[:more]:
                self.listener("output", line)
            del left[:more]

    def _compare_server(self, count: Optional[int]) -> None:
        """Compares the first `count` lines that the server printed, or all, with those listed."""
        if not self.differs:
            got = self._server_lines(0)[:count]
            self.differs = not self._compare_lines(self.listed, self.listed.output, got)

    def _compare_lines(self, step: Step, expected: List[str], got: List[str]) -> bool:
        """Notes a difference; returns True where there is none. A listed line that ends with ` ~` has any end."""
        pairs = itertools.zip_longest(expected, got[: len(expected)], fillvalue="")
        free = [listed if listed.endswith(" ~") and came.startswith(listed[:-1]) else came for listed, came in pairs]
        got = free[: len(got)] + got[len(expected) :]
        if got == expected:
            return True
        diff = difflib.unified_diff(expected, got, LISTED, CAME, lineterm="")
        self._differ(step, "\n".join(diff))
        return False

    def _differ(self, step: Step, text: str) -> None:
        typed = {"run": "$ ", "type": "> ", "start": "server$ ", "interrupt": "server^C", "lines": "server|"}[step.kind]
        typed += step.command.split("\n")[0]
        path = _short(self.session.path)
        again = settings.again("tests/tools/play.py", "--show", path)
        self.differences.append(f"{path}:{step.line}: {typed}\n{text}\nto see it again: {again}")

    # ---- the server's terminal ----

    def _server_lines(self, count: int) -> List[str]:
        """What the server printed, as the session shows it, once there are `count` lines."""
        assert self.server
        with_listening = any(LISTENING.match(line) for line in self.listed.output)
        with_ready = READY in self.listed.output
        if with_listening:
            with suppress(Failure):  # a difference will say so
                self.server.wait_line(LISTENING, seconds=PATIENCE)
        if with_ready:
            self.server.wait_line(READY)
        self.server.wait_log(count - with_listening - with_ready, PATIENCE)
        lines = [line for line in self.server.lines if (with_ready or line != READY)
                 and (with_listening or not LISTENING.match(line))]  # fmt: skip
        return self._normal("".join(line + "\n" for line in lines))

    def _hear_server(self, count: Optional[int] = None) -> None:
        """Tells the listener the server's lines that it has not heard yet."""
        if self.server:
            lines = self._server_lines(0)[self.heard : count]
            self.heard += len(lines)
            for line in lines:
                self.listener("server", line)

    def _normal(self, text: str) -> List[str]:
        """The lines of a text, the real port shown as 1234, without blank lines around."""
        names = r"((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):|PORT=|port )"
        text = re.sub(rf"{names}{self.port}\b", rf"\g<1>{SHOWN_PORT}", text)
        lines = text.split("\n")
        if lines[-1]:
            lines.append("(no newline at the end)")
        else:
            lines.pop()
        _strip_blank(lines)
        return lines


def _program(chapter: int, name: str) -> List[str]:
    """The command line of a program. What is typed goes through the codec where the server is somebody's own, and no
    client is named."""
    if name == "client" and settings.foreign("server") and not settings.foreign(name) and codec(chapter).has_commands:
        return [settings.python(), str(ROOT / "tests/harness/codec_client.py"), f"{chapter:02}"]
    return build.program(chapter, name)


def _strip_blank(lines: List[str]) -> None:
    """Takes the blank lines off the end."""
    while lines and not lines[-1].strip():
        lines.pop()


def _short(path: str) -> str:
    """The path as seen from the project's root where it lies inside."""
    full = Path(path).resolve()
    return str(full.relative_to(ROOT)) if ROOT in full.parents else str(path)
