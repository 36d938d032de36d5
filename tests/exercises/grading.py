"""What a grader works with: points, the submission, lessons. README.md in this folder shows how to write one.

    from grading import Submission, points
    from harness import Server

    @points(3, "counts reads")
    def test_fewer_reads(work: Submission) -> None:
        "A thousand messages in one write."
        with work.count("read") as counted, Server(4) as server, server.connect() as conn:
            conn.pipeline([(b"hello",)] * 1000, [b"world"] * 1000)
        work.expect(counted["read"] < 500, tried="...", came=f"{counted['read']} reads", expected="...", cause="...")
"""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

import pytest

import changeform
import compiling
import exercises
import sources
from harness import Conn, Server, diagnose, limit, settings
from harness.bounded import communicate
from harness.failure import Cause, Lesson
from harness.process import clean_env, status_text
from layout import ROOT, Problem
from lessons import cleaned

__tracebackhide__ = settings.__tracebackhide__

MOST_OUTPUT = 1 << 20  # bytes that work.run() takes of one program
_F = TypeVar("_F", bound=Callable[..., None])


def points(n: int, title: str, *, instructor: bool = False) -> Callable[[_F], _F]:
    """What a test is worth, and what a table calls it.

    instructor: the test only sees whether there is something to mark; the points are given by a human.
    """
    return pytest.mark.points(n, title, instructor)


def fail(tried: str = "", came: object = "", expected: object = "", cause: str = "") -> None:
    """Ends the test with a lesson. tried is the docstring of the test where it is not given."""
    if "Unknown cmd" in str(came) and "Unknown cmd" not in str(expected):
        cause = "the server does not know this command: is it in k_commands, with its name and its number of arguments?"
    said = [("tried", tried), ("came", came), ("expected", expected)]
    raise Lesson("", [(title, str(text).splitlines()) for title, text in said], Cause("", cause))


class Ran(NamedTuple):
    """What a program printed, and its exit status (minus the signal where it was killed)."""

    out: str
    err: str
    status: int


class Answer(NamedTuple):
    """A section of answers.md: what stands behind `answer:`, and what the learner wrote beside it."""

    number: str
    answer: str
    text: str

    @property
    def words(self) -> int:
        return len(re.findall(r"\w\w+", self.text))


class Counted:
    """Calls counted since the beginning or the last reset: counted["read"]. tests/exercises/count.c lists the names.

    A read counts when it returns, any other call when it is made. So who has just got a reply finds the write counted
    that brought it, though perhaps not its bytes, and not the read that waits for the next request.
    """

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self.all = compiling.counters()
        unknown = [name for name in names if name not in self.all]
        assert not unknown, f"nobody counts {unknown[0]}; counted are {', '.join(self.all)}"
        self.names = list(names) or self.all
        handle, self.file = tempfile.mkstemp(prefix="count-", dir=folder)
        os.write(handle, bytes(8 * len(self.all)))
        os.fchmod(handle, 0o666)  # the submission may have another user
        os.close(handle)
        self.before = dict.fromkeys(self.all, 0)
        self.fixed: Optional[Dict[str, int]] = None

    def _read(self) -> Dict[str, int]:
        if self.fixed is None:
            return dict(zip(self.all, struct.unpack(f"={len(self.all)}Q", Path(self.file).read_bytes())))
        return self.fixed

    def now(self) -> Dict[str, int]:
        """What has been counted so far, by name."""
        read = self._read()
        return {name: read[name] - self.before[name] for name in self.names}

    def __getitem__(self, name: str) -> int:
        return self.now()[name]

    def reset(self) -> None:
        """Begins anew."""
        self.before = self._read()

    def __enter__(self) -> "Counted":
        self.outer = os.environ.get("CALLS_FILE")
        os.environ["CALLS_FILE"] = self.file
        return self

    def __exit__(self, *_: object) -> None:
        self.fixed = self._read()
        os.unlink(self.file)
        if self.outer is None:
            del os.environ["CALLS_FILE"]
        else:
            os.environ["CALLS_FILE"] = self.outer


def rounds_at_rest(server: Server, counted: Counted, other: Conn, most: int) -> int:
    """How often the server waits in a tenth of a second in which nothing happens, and `other` hears nothing: in one
    such stretch, where it is `most` and the server sleeps at its end, else in the last of six. At first, bytes may
    still be on their way; and a server that had no processor for so long has not been quiet."""
    rounds = 0
    for _ in range(6):
        counted.reset()
        other.expect_silence(0.1)
        rounds = counted["poll"]
        with open(f"/proc/{server.pid}/stat") as f:
            sleeps = f.read().rpartition(")")[2].split()[0] == "S"
        if rounds <= most and sleeps:
            return rounds
    return max(rounds, most + 1)


class Background:
    """A program that runs while the test does something else: `with work.running([...]) as attack:`. It is killed at
    the end of the block, unless it ended before."""

    def __init__(self, words: Sequence[str], shown: str, env: Mapping[str, str]) -> None:
        self.words, self.shown, self.env = list(words), shown, env
        self.printed = bytearray()

    def __enter__(self) -> "Background":
        self._process = subprocess.Popen(
            self.words, env=clean_env(self.env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as pipe:
            for chunk in iter(lambda: os.read(pipe.fileno(), 1 << 16), b""):
                if len(self.printed) < MOST_OUTPUT:
                    self.printed += chunk

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()
        self._reader.join(5)

    @property
    def lines(self) -> List[str]:
        """The lines that it has printed so far, standard output and standard error merged."""
        return bytes(self.printed).decode("utf-8", "replace").splitlines()

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_line(self, text: str, seconds: float = 5.0) -> str:
        """Waits for a line that holds the text and returns it; fails where it does not come."""
        end = time.monotonic() + limit(seconds)
        while True:
            ended = not self._reader.is_alive()
            for line in self.lines:
                if text in line:
                    return line
            if ended or time.monotonic() > end:
                last = "\n".join(self.lines[-5:])
                fail("", f"{self.shown} did not print {text!r}" + (f"; it printed\n{last}" if last else ""))
            time.sleep(0.01)

    def wait(self, seconds: float = 10.0) -> int:
        """Waits for its end and returns its exit status; fails where it goes on."""
        try:
            return self._process.wait(limit(seconds))
        except subprocess.TimeoutExpired:
            fail("", f"{self.shown} did not end within {limit(seconds):g} s")
            raise


class Build:
    """Programs built from changed sources: work.variant() and work.stage() return one."""

    def __init__(self, work: "Submission", folder: Path, chapter: int, guest: bool) -> None:
        self.work, self.folder, self.chapter, self.guest = work, folder, chapter, guest

    def program(self, name: str) -> str:
        """The path of a program."""
        return str(self.folder / "bin" / name)

    def command(self, name: str) -> List[str]:
        """The program in its bounds: words for Server(command=...)."""
        return [*self.work.wrapper(guest=self.guest), self.program(name)]

    def server(self, **options: Any) -> Server:
        """Its server: `with build.server() as server:`; options as for Server."""
        return Server(self.chapter, command=self.command("server"), **options)

    def run(self, name: str, *args: str, **options: Any) -> Ran:
        """Runs one of its programs; options as for work.run."""
        return self.work.run([self.program(name), *args], guest=self.guest, **options)


class Submission:
    """What is graded: the starter with the learner's files over it, built. The fixture `work`."""

    def __init__(self) -> None:
        self.path = Path(os.environ["SUBMISSION"])
        self.scratch = self.path.parent
        self.shared = self.scratch / "tmp"  # files that the submission and the grader both write
        self.exercise = exercises.find(os.environ["GRADE_EXERCISE"])
        self.chapter = int(self.exercise.chapter)
        self.programs = self.exercise.programs
        self._wrappers: Dict[str, List[str]] = json.loads(os.environ["GRADE_WRAPPERS"])
        folder, *flags = json.loads(os.environ.get("GRADE_KEPT", "[null]"))
        self._kept = compiling.Kept(Path(folder), flags) if folder else None
        self._made = 0

    # ---- saying ----

    def expect(
        self, condition: object, *, tried: str = "", came: object = "", expected: object = "", cause: str = ""
    ) -> None:
        """Ends the test with this lesson unless the condition holds."""
        if not condition:
            fail(tried, came, expected, cause)

    def fail(self, *, tried: str = "", came: object = "", expected: object = "", cause: str = "") -> None:
        """Ends the test with this lesson."""
        fail(tried, came, expected, cause)

    # ---- its files ----

    def source(self, name: str) -> str:
        """The text of a file, "" where there is none."""
        path = self.path / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def code(self, name: str) -> str:
        """The text of a C file without comments and without what stands in strings."""
        try:
            return sources.strip(self.source(name), name)
        except sources.Unreadable:
            return self.source(name)

    def starter(self, name: str) -> str:
        """The text of a file of the starter, "" where there is none."""
        return self.exercise.starter().get(name, "")

    def program(self, name: str) -> str:
        """The path of a program that was built."""
        return str(settings.build_dir() / f"{self.chapter:02}" / name)

    # ---- running ----

    def wrapper(self, guest: bool = False) -> List[str]:
        """The words that keep a program within its bounds."""
        return self._wrappers["guest" if guest else "own"]

    @property
    def python(self) -> str:
        """A Python that the submission's user may run."""
        theirs = [sys.executable, "/usr/bin/python3", shutil.which("python3") or ""]
        return next((path for path in theirs if path and open_to_all(Path(path))), sys.executable)

    def _python_words(self, argv: Sequence[Union[str, Path]]) -> List[str]:
        """The words of a command; "python3" is one that may be run. Fails with the line where Python cannot read it."""
        words = [str(word) for word in argv]
        if words[0] != "python3":
            return words
        script = Path(words[1]) if len(words) > 1 else Path()
        if script.suffix == ".py" and script.is_file():
            try:
                compile(script.read_bytes(), script.name, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                line, text = getattr(error, "lineno", None), (getattr(error, "text", "") or "").rstrip()
                what = getattr(error, "msg", str(error))
                came = f"{script.name}, line {line}: {what}" if line else f"{script.name}: {what}"
                fail("", came + f"\n    {text.strip()}" * bool(text), "a program that Python can read")
        return [self.python, *words[1:]]

    def run(
        self, argv: Sequence[Union[str, Path]], *, stdin: Union[str, bytes] = b"", seconds: float = 10.0,
        env: Optional[Mapping[str, str]] = None, guest: bool = False,
    ) -> Ran:  # fmt: skip
        """Runs a program within its bounds to its end; fails where it does not come, or prints more than 1 MB.

        "python3" as the first word stands for a Python that may be run. The current folder is a scratch folder.
        """
        words = self._python_words(argv)
        shown = cleaned(shlex.join(str(word) for word in argv))
        process = subprocess.Popen(
            self.wrapper(guest) + words, env=clean_env(env or {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        hung: List[str] = []  # where it waits when its time is nearly up
        nearly = max(limit(seconds) - 1, limit(seconds) / 2)
        watch = threading.Timer(nearly, lambda: hung.append(where_it_waits(process.pid)))
        watch.start()
        talk = communicate(process, data, limit(seconds), MOST_OUTPUT)
        watch.cancel()
        out, err = (text.decode("utf-8", "surrogateescape") for text in (talk.out, talk.err))
        if talk.late:
            last = (err or out)[-400:]
            where = f"\n{hung[0]}" if hung and hung[0] else ""
            late = f"{shown} did not end within {limit(seconds):g} s{where}"
            fail("", late + f"\nit printed last:\n{last}" * bool(last))
        if talk.too_much:
            fail("", f"{shown} printed more than {MOST_OUTPUT >> 20} MB and was ended", cause="a loop that never ends?")
        return Ran(out, err, process.returncode)

    def running(self, argv: Sequence[Union[str, Path]], *, env: Optional[Mapping[str, str]] = None) -> Background:
        """Runs a program within its bounds beside the block: .lines, .wait_line(), .alive(), .wait()."""
        words = self._python_words(argv)
        return Background([*self.wrapper(), *words], cleaned(shlex.join(str(word) for word in argv)), env or {})

    def run_ok(self, argv: Sequence[Union[str, Path]], **options: Any) -> Ran:
        """As run(); fails with what it printed where its exit status is not 0."""
        ran = self.run(argv, **options)
        if ran.status:
            shown = cleaned(shlex.join(str(word) for word in argv))
            said = (ran.out + ran.err)[-2000:]
            fail("", f"{shown} ended with {status_text(ran.status)}, and printed:\n{said}", "exit status 0")
        return ran

    def count(self, *names: str) -> Counted:
        """`with work.count("read") as counted, Server(4) as server:` counts the calls of programs started inside."""
        return Counted(names, self.shared)

    # ---- building more ----

    def variant(
        self, change: str = "", programs: Optional[Sequence[str]] = None,
        files: Optional[Mapping[str, str]] = None, flags: Sequence[str] = (),
    ) -> Build:  # fmt: skip
        """Builds the submission with a change (tests/changes.md); files are added or replaced whole. What does not
        compile fails with the compiler's words."""
        return self._build(exercises.read_folder(self.path), change, programs, files, flags, self.chapter, guest=False)

    def stage(
        self, chapter: Optional[int] = None, change: str = "",
        programs: Sequence[str] = ("server",), files: Optional[Mapping[str, str]] = None,
    ) -> Build:  # fmt: skip
        """Builds programs of a chapter as it stands, or with changes (a weak victim). They run as another user than the
        submission where that is possible, so an attack cannot simply kill them."""
        number = self.chapter if chapter is None else chapter
        folder = ROOT / "chapters" / f"{number:02}"
        names = exercises.of_stage([f"{name}.c" for name in programs], folder.name)
        tree = self.exercise.with_headers({name: (folder / name).read_text(encoding="utf-8") for name in names})
        return self._build(tree, change, programs, files, (), number, guest=True)

    def stage_server(
        self, chapter: Optional[int] = None, change: str = "", **options: Any
    ) -> Server:
        """The server of a chapter as it stands, or with changes: `with work.stage_server(6) as victim:`."""
        return self.stage(chapter, change).server(**options)

    def build(
        self, files: Mapping[str, str], name: str, chapter: Optional[int] = None, flags: Sequence[str] = ()
    ) -> str:
        """Builds NAME.c, which is among `files` or the learner's, against the learner's files; returns its path.

        chapter: NAME.c comes from that chapter, unless `files` has it.
        """
        more = dict(files)
        if chapter is not None and f"{name}.c" not in more:
            more[f"{name}.c"] = (ROOT / "chapters" / f"{chapter:02}" / f"{name}.c").read_text(encoding="utf-8")
        return self.variant("", [name], more, flags).program(name)

    def _build(
        self, tree: Dict[str, str], change: str, programs: Optional[Sequence[str]],
        files: Optional[Mapping[str, str]], flags: Sequence[str], chapter: int, guest: bool,
    ) -> Build:  # fmt: skip
        tree = self.exercise.with_headers({**edited(tree, change), **(files or {})})
        self._made += 1
        folder = self.scratch / f"build-{self._made}"
        exercises.write_tree(tree, folder / "src")
        threads = self.exercise.threads or chapter >= 14
        counter = compiling.compile_counter(self.scratch, threads)
        for name in self.programs if programs is None else programs:
            home = Path(next(word[5:] for word in self.wrapper(guest) if word.startswith("home=")))
            built = compiling.compile_program(
                self.wrapper(guest), home, folder / "src", name, folder / "bin" / name, counter,
                threads=threads, flags=flags, kept=self._kept and self._kept.of_chapter(f"{chapter:02}"),
            )  # fmt: skip
            if not built.ok:
                cause = "did a function or a type change its name?"
                file = f"{name}.c" if f"{name}.c" in tree else name
                fail("", f"{file} does not compile with it:\n{built.words}", cause=cause)
        return Build(self, folder, chapter, guest)

    # ---- the chapter's own tests ----

    def chapter_tests(self, k: str, chapter: Optional[int] = None, seconds: float = 120.0) -> None:
        """Runs the chapter's tests that -k selects against the submission; fails with the first lesson. Each test
        has a limit of its own; `seconds` is one for pytest itself."""
        number = self.chapter if chapter is None else chapter
        results = self.scratch / "out" / f"chapter-{self._made}.json"
        self._made += 1
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-q", "--tb=no"]
        env = {**os.environ, "GRADE_RESULTS": str(results)}
        process = subprocess.Popen(
            [*words, f"tests/test_{number:02}.py", "-k", k], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        talk = communicate(process, b"", limit(seconds))
        entries = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        for entry in entries:
            if entry.get("status") == "failed":
                tried = [entry["tried"], f"{entry['test']}{entry['case']} of the tests of chapter {number:02}"]
                raise Lesson(entry["what"], [("tried", tried), *entry["blocks"]], Cause("", entry["why"]))
        if talk.late:
            came = f"the tests of chapter {number:02} did not end within {limit(seconds):g} s"
            fail("", came, cause="does the server hang?")
        ran = any("status" in entry for entry in entries)
        assert ran, f"no test of chapter {number:02} is called {k}: {talk.out!r}"

    # ---- answers.md ----

    def answers(self, file: str = "answers.md") -> Dict[str, Answer]:
        """The sections `## 1`, `## 2` of answers.md, by number. What the starter has already does not count as text."""
        given = set(self.starter(file).splitlines())
        found = {}
        parts = re.split(r"^## +(\w+)\b.*$", self.source(file), flags=re.M)[1:]
        for number, body in zip(parts[::2], parts[1::2]):
            answer = re.search(r"^answer:[ \t]*(.*)$", body, re.M | re.I)
            text = [line for line in body.splitlines() if line not in given and not re.match(r"answer:", line, re.I)]
            found[number] = Answer(number, answer[1].strip() if answer else "", "\n".join(text).strip())
        return found

    def answer(self, number: Union[int, str], file: str = "answers.md") -> Answer:
        """One section; fails where it is missing or nothing stands behind `answer:` nor beside it."""
        found = self.answers(file).get(str(number))
        if found is not None and not (found.answer or found.text):
            fail(f"question {number} of {file}", "nothing yet", f"an answer in the section `## {number}`")
        if found is None:
            fail(f"question {number} of {file}", "no answer", f"a section `## {number}` with an answer in it")
        assert found
        return found

    def expect_answer(
        self, number: Union[int, str], right: Union[str, float, Sequence[Union[str, float]]], *, form: str,
        cause: str = "", within: float = 0.0, file: str = "answers.md",
    ) -> None:  # fmt: skip
        """The line `answer: x` of a section must be (one of) `right`: letters in any case, quotes and blanks left out;
        a number also with a tolerance `within`. form says what kind of answer it is, and does not give it away."""
        given = self.answer(number, file).answer
        rights = [right] if isinstance(right, (str, int, float)) else list(right)
        if not any(same_answer(given, each, within) for each in rights):
            came = f"answer: {given}" if given else "nothing behind `answer:`"
            if given and not can_be_read(given, rights):
                fail(f"question {number} of {file}", f"{came}, which cannot be read as {form}", f"{form}, and no more")
            fail(f"question {number} of {file}", came, f"{form}, but not this one" if given else form, cause)

    def expect_text(self, number: Union[int, str], words: int = 20, file: str = "answers.md") -> None:
        """A section must hold a text of so many words; what it says is for the instructor to mark."""
        has = self.answer(number, file).words
        if has < words:
            wanted = f"{words} words or more, in sentences of your own"
            fail(f"question {number} of {file}", f"{has} {'word' if has == 1 else 'words'}", wanted)


ABOUT = re.compile(r"^\s*(?:about|around|roughly|approximately|approx\.?|circa|ca\.?|some|~)\s*", re.I)
LABEL = re.compile(r"[`'\"(]*([a-z])[`'\")]*\s*[-:.)]\s*(?=\S)(?![a-z]\b\.)", re.I)  # "b: it spins", "a) 1"
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.I)


def without_marks(text: str) -> str:
    """The words of an answer: no quotes, blanks, or full stop; no article before them, no remark in brackets behind."""
    text = re.sub(r"(?<=\w)\s*\([^()]*\)\s*[.,;]?\s*$", "", text)
    text = re.sub(r"^[\s`'\"(]*(?:the|an?)\s+(?=\w)", "", text, flags=re.I)
    return re.sub(r"[\s`'\"()_]+", "", text).rstrip(".,;").lower()


def numbers(given: str) -> List[float]:
    """What a number may mean: 4,096 is one of thousands, or has a comma for a point; 10,81 only the latter."""
    text = re.sub(r"[\s`'\"()_]+", "", ABOUT.sub("", re.sub(r"^\s*[a-z]\)\s*", "", given, flags=re.I)))
    found = NUMBER.match(text)
    if not found:
        return []
    forms = [found[0].replace(",", ".")] if found[0].count(",") == 1 and "." not in found[0] else []
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?|[^,]*", found[0].rstrip(","), re.I):
        forms.insert(0, found[0].replace(",", ""))
    return [float(form) for form in forms]


def letter(given: str) -> str:
    """The letter that an answer is, alone or with a reason behind it; "" where it is none."""
    label, plain = LABEL.match(given), re.sub(r"[\s`'\"()_]+", "", given).rstrip(".,;:").lower()
    return label[1].lower() if label else plain if len(plain) == 1 else ""


def is_letter(right: Union[str, float]) -> bool:
    return isinstance(right, str) and len(right) == 1 and right.isalpha()


def same_answer(given: str, right: Union[str, float], within: float = 0.0) -> bool:
    """Is it the same answer but for letter case, quotes, blanks, a full stop, an article? Numbers as numbers."""
    if isinstance(right, str) and is_letter(right):
        return letter(given) == right.lower()
    if isinstance(right, str):
        return without_marks(given) == without_marks(right)
    return any(abs(number - right) <= within for number in numbers(given))


def can_be_read(given: str, rights: Sequence[Union[str, float]]) -> bool:
    """Has it the form of an answer, be it right or wrong?"""
    if all(map(is_letter, rights)):
        return bool(letter(given))
    return bool(numbers(given)) or any(isinstance(right, str) for right in rights)


def edited(tree: Dict[str, str], change: str) -> Dict[str, str]:
    """The tree with a change (tests/changes.md)."""
    try:
        return changeform.apply(tree, changeform.parse(change, "the variant"))
    except Problem as problem:
        fail("", str(problem), "these lines stand there, as in the starter")


def where_it_waits(pid: int) -> str:
    """What a program does that does not end."""
    if diagnose.is_busy(pid):
        return "it uses the processor all the time, so it is in a loop that does not end"
    calls = sorted({call.name for call in diagnose.waits_in(pid)})
    where = f" in {', '.join(calls)}()" if calls else ""
    return f"it waits{where} for something that does not come"


def open_to_all(path: Path) -> bool:
    """May every user run it?"""
    try:
        real = path.resolve()
        return os.getuid() != 0 or all(each.stat().st_mode & 0o001 for each in (real, *real.parents))
    except OSError:
        return False
