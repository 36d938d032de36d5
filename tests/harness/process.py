"""Servers, clients and lab programs as processes: started, watched, ended, never left behind."""
from __future__ import annotations

import atexit
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from typing import (
    TYPE_CHECKING, Callable, ClassVar, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union,
)  # fmt: skip

from . import bounded, diagnose, redis, settings
from .build import program
from .codec import codec
from .failure import (
    LISTENING, NO_CAUSE, READY, SERVER_ENDED, Cause, Failure, Lesson, cause, explained, signal_name, status_text,
)  # fmt: skip
from .settings import fail, limit

if TYPE_CHECKING:
    from .conn import Conn

__tracebackhide__ = settings.__tracebackhide__

SANITIZER = re.compile(r"^==\d+==|: runtime error: |^SUMMARY: \w+Sanitizer|^WARNING: ThreadSanitizer")
OWN_VARIABLES = ("PORT", "HOST", "BIND", "HASH_SEED", "IDLE_TIMEOUT_MS")
MOST_LINES = 200_000  # of a server's log; the rest is read and dropped
MOST_LINE = 1 << 16  # bytes; what is longer counts as several

_alive: Set["Server"] = set()
_taken: Deque[int] = deque()  # descriptors, see free_port()


class Result(NamedTuple):
    """What a program printed (undecodable bytes as surrogates), and its exit status."""

    stdout: str
    stderr: str
    status: int


class Server:
    """A running server: `with Server(7) as server:`.

    env adds to the environment (without PORT and the like of the caller's). nofile is the number of
    descriptors that it may have. closed are descriptors of 0, 1 and 2 that it is started without; then
    nothing of its log may be seen. command and cwd replace the chapter's program ($SERVER or built).
    One that is early, from the middle of a chapter, may not say where it listens, nor know port 0.
    On leaving the context it gets SIGTERM; from chapter 06 on it must exit with 0. It fails when
    the server crashed, or when a sanitizer or valgrind reported anything.
    """

    count_once: ClassVar[Optional[Callable[[Cause], None]]] = None  # told of faults at the end of tests of others

    def __init__(
        self,
        chapter: int,
        *,
        env: Optional[Mapping[str, str]] = None,
        nofile: Optional[int] = None,
        closed: Sequence[int] = (),
        command: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        port: Optional[int] = None,
        early: bool = False,
    ) -> None:
        self.chapter = chapter
        self._early = early or bool(closed)
        self.env = dict(env or {})
        self.nofile = nofile
        self.closed = closed
        self.command = list(command) if command else program(chapter, "server")
        self.cwd = cwd
        self.port = port or 0
        self.host = "127.0.0.1"
        self.past: Deque[bytes] = deque(maxlen=settings.PAST)  # the last requests whose replies were looked at
        self._fixed_port = port is not None
        self._lines: List[str] = []
        self._news = threading.Condition()
        self._ended = False  # the server closed its output
        self._stopped = False  # stop() was called: the test looks at the status itself

    # ---- starting and ending ----

    def __enter__(self) -> "Server":
        for attempt in range(5):
            self._start()
            problem = self._wait_listening()
            if not problem:
                return self
            why = diagnose.not_listening(self)
            self._kill()
            taken = "in use" in "\n".join(self.lines)
            if self._fixed_port or not (taken and (settings.foreign("server") or self._early)):
                break
        raise Failure(problem, [
            ("expected", [f"it listens on {self.asked_host}:{self.asked_port or 'a port of its choice'}, as PORT "
                          "and BIND say, "
                          "and prints `listening on ADDRESS:PORT` on standard error, or just listens"]),
            ("command", [" ".join(self.command)]), *self._log(),
        ], why)  # fmt: skip

    def _start(self) -> None:
        port = self.port
        if (settings.foreign("server") or self._early) and not self._fixed_port:
            port = free_port()  # it may not know what port 0 means, or cannot say which one it has
        env = clean_env({"PORT": str(port), **self.env})
        words = self.command + redis.options(self.command, env)
        if self.nofile is not None:
            words = ["sh", "-c", f'ulimit -n {self.nofile} && exec "$@"', "sh"] + words
        words = without(self.closed, words)
        self._lines, self._ended = [], False
        self.asked_port = int(env["PORT"]) if env["PORT"].isdigit() else 0
        self.asked_host = env.get("BIND", self.host)
        try:
            self._process = subprocess.Popen(
                words, env=env, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as e:
            fail(f"the server cannot be started: {e}")
        _alive.add(self)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout
        size = 0
        for raw in iter(lambda: stdout.readline(MOST_LINE), b""):
            size += len(raw)
            with self._news:
                if len(self._lines) < MOST_LINES and size < bounded.MOST_OUTPUT:
                    self._lines.append(raw.decode(errors="backslashreplace").rstrip("\n"))
                self._news.notify_all()
        stdout.close()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _wait_listening(self) -> str:
        """Returns what is wrong, or "" with .port set."""
        end, late = time.monotonic() + limit(10), time.monotonic() + limit(2)
        while True:
            over = time.monotonic() > end  # a last look comes after the end: both may have been held up
            for line in self.lines:
                match = LISTENING.match(line)
                if match:
                    self.port = int(match.group(2))
                    return self._not_its_own()
            if not self.alive():
                self._reader.join(limit(2))
                return f"the server ended at once ({status_text(self._process.returncode)})"
            if (settings.foreign("server") or self._early) and _listens(self.asked_port):
                self.port = self.asked_port
                return self._not_its_own()
            ports = [port for _, port in diagnose.listens_on(self.pid)] if time.monotonic() > late else []
            if ports and self.asked_port not in ports:  # it may have begun to since we looked
                return f"nobody listens on port {self.asked_port}"
            if over:
                return f"the server did not come up within {limit(10):g} s"
            self._wait_news()

    def _not_its_own(self) -> str:
        """What is wrong where the port of a submission belongs to another program than was started, or ""."""
        if "SUBMISSION" not in os.environ or not os.path.exists("/proc/net/tcp"):
            return ""
        end = time.monotonic() + limit(1)  # it may say that it listens a moment before it does
        while time.monotonic() < end:
            members = _session(self.pid)
            ports = {port for pid in members for _, port in diagnose.listens_on(pid)}
            for pid in members:  # a submission has a user of its own, where the grader is root
                if not diagnose.may_look(pid):
                    ports.update(diagnose.ports_of_its_user(pid))
            if self.port in ports or not self.alive():
                return ""
            self._wait_news()
        return f"port {self.port} is not its own: the program that was started listens on no such port"

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        """Ends the server. What has failed in the test is said with what the server has to do with it."""
        if error is not None and not isinstance(error, Exception):
            self._kill()  # interrupted: leave at once
            return
        state = diagnose.what_it_does(self) if error is not None and not self._stopped else NO_CAUSE
        try:
            problem = self._problem_at_end()
        finally:
            self._kill()
        if error is not None and self.log:
            print(f"server of chapter {self.chapter:02}, {self._log_text()}")
        if isinstance(error, (AssertionError, OSError)):
            raise self._in_full(error, problem, state) from None
        if problem:
            raise problem from error

    def _in_full(self, error: Exception, problem: Optional[Failure], state: Cause) -> Exception:
        """A failure of the test, with what was wrong with the server's run, and its state then for a cause."""
        if isinstance(error, Lesson):
            return error.ended(problem) if problem else error
        failed = explained(error)
        if problem:
            blocks = [*failed.blocks, ("and", problem.what.split("\n")), *problem.blocks]
            better = problem.what.startswith(SERVER_ENDED) and self.exit_status() != 0
            failed = Failure(failed.what, blocks, failed.why if failed.why and not better else problem.why)
        elif not failed.why and "LD_PRELOAD" not in self.env:  # with a clock of ours it may well be busy
            failed = Failure(failed.what, failed.blocks, state)
        return self._with_the_last_request(failed)

    def _with_the_last_request(self, failed: Failure) -> Failure:
        """A failure that does not say what was sent: at least the last request whose reply was looked at."""
        if not self.past or any(title == "sent" for title, _ in failed.blocks):
            return failed
        last = codec(self.chapter).show_request(self.past[-1])
        return Failure(failed.what, [("sent", [f"{last}, as the last of the requests that were answered"]),
                                     *failed.blocks], failed.why)  # fmt: skip

    def _problem_at_end(self) -> Optional[Failure]:
        """Ends the server unless stop() did; returns what was wrong with its run, or None."""
        crashed = False
        if not self._stopped:
            crashed = not self.alive()
            status = self._terminate(signal.SIGTERM, limit(1 if Server.count_once else 10))
            if status is None and Server.count_once and diagnose.is_busy(self.pid):  # it is about to end
                status = self._terminate(signal.SIGTERM, limit(9))
            if status is None:
                return self._said_once(diagnose.NO_SIGTERM, f"the server did not end within {limit(10):g} s of SIGTERM")
            crashed = crashed or status < 0 and status != -signal.SIGTERM  # it was dying already
        self._kill_group()  # what it has started may still hold its output
        self._reader.join(limit(2))
        status = self._process.returncode
        report = self.sanitizer_report()
        if crashed:
            return Failure(f"{SERVER_ENDED} ({status_text(status)})", self._log(report), diagnose.how_it_ended(self))
        if report:
            return Failure("the server's run has findings", self._log(report), cause("the report names the line"))
        if status != 0 and codec(self.chapter).has_loop and not self._stopped:
            return self._said_once(
                diagnose.NO_STATUS, f"after SIGTERM the server must exit with status 0, not with {status_text(status)}"
            )
        return None

    def _said_once(self, why: Cause, what: str) -> Optional[Failure]:
        """A fault at the end of a test about something else: no failure where somebody counts these."""
        if Server.count_once is None:
            return Failure(what, self._log(), why)
        Server.count_once(why)
        return None

    def _log(self, report: str = "") -> List[Tuple[str, List[str]]]:
        """What the server printed, or a report in it, as a block."""
        lines = report.splitlines() if report else [line[:200] for line in self.lines[-20:]]
        return [("printed", lines or ["nothing"])]

    def _terminate(self, sig: int, seconds: float) -> Optional[int]:
        """Its exit status after the signal, None where it stays."""
        self._process.send_signal(sig)
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def _kill(self) -> None:
        """Ends the server and all that it has started, whatever happened."""
        self._kill_group()
        self._process.wait()
        self._reader.join(5)
        _alive.discard(self)

    def stop(self, sig: int = signal.SIGTERM, seconds: float = 5.0) -> int:
        """Sends the signal and returns the exit status (minus the signal where it was killed)."""
        self._stopped = True
        status = self._terminate(sig, limit(seconds))
        if status is None:
            raise Failure(f"the server did not end within {limit(seconds):g} s of {signal_name(sig)}",
                          [("expected", ["it ends, with exit status 0"])], diagnose.stays(self, sig))  # fmt: skip
        self._reader.join(limit(2))
        assert status is not None
        return status

    def wait_end(self, seconds: float = 5.0) -> int:
        """The exit status (minus the signal) of a server that ends by itself."""
        try:
            status = self._process.wait(limit(seconds))
        except subprocess.TimeoutExpired:
            fail(f"the server has not ended by itself after {limit(seconds):g} s")
        self._stopped = True
        self._reader.join(limit(2))
        return status

    def exit_status(self) -> Optional[int]:
        """Its exit status, None while it runs."""
        return self._process.poll()

    # ---- looking at it ----

    def connect(self, **options: object) -> "Conn":
        """A new connection to it."""
        from .conn import Conn

        return Conn(self, **options)  # type: ignore[arg-type]

    @property
    def lines(self) -> List[str]:
        """All lines that it has printed, standard output and standard error merged."""
        with self._news:
            return list(self._lines)

    @property
    def log(self) -> List[str]:
        """The lines without those of every start."""
        return [line for line in self.lines if line != READY and not LISTENING.match(line)]

    def wait_line(self, text: Union[str, "re.Pattern[str]"], times: int = 1, seconds: float = 5.0) -> str:
        """Waits until the log has that many lines equal to text (or that a pattern finds).

        Returns the last of them.
        """
        end = time.monotonic() + limit(seconds)
        while True:
            ended = self._ended
            found = [s for s in self.lines if (s == text if isinstance(text, str) else text.search(s))]
            if len(found) >= times:
                return found[times - 1]
            if ended or time.monotonic() > end:
                wanted = text if isinstance(text, str) else f"/{text.pattern}/"
                fail(f"the server did not print {f'{times} times ' * (times > 1)}the line\n"
                     f"  {wanted}\n{self._log_text()}")  # fmt: skip
            self._wait_news()

    def wait_log(self, count: int, seconds: float = 5.0) -> List[str]:
        """Waits until .log has that many lines; returns it, shorter after the limit."""
        end = time.monotonic() + limit(seconds)
        while len(self.log) < count and not self._ended and time.monotonic() < end:
            self._wait_news()
        return self.log

    def _wait_news(self) -> None:
        with self._news:
            self._news.wait(0.02)

    def alive(self) -> bool:
        """Is the process still running?"""
        return self._process.poll() is None

    def fd_count(self) -> int:
        """The number of its open descriptors (Linux)."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def workers_sleep(self) -> bool:
        """Do all of its threads but the first one wait for something (Linux)?"""
        for worker in set(os.listdir(f"/proc/{self.pid}/task")) - {str(self.pid)}:
            with open(f"/proc/{self.pid}/task/{worker}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] != "S":
                    return False
        return True

    def rss_kb(self) -> int:
        """Its memory in RAM, KiB (Linux)."""
        with open(f"/proc/{self.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

    def peak_kb(self) -> int:
        """The most memory in RAM that it has had so far, KiB (Linux)."""
        with open(f"/proc/{self.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))

    def reset_peak(self) -> None:
        """Has peak_kb() begin anew (Linux)."""
        with open(f"/proc/{self.pid}/clear_refs", "w") as f:
            f.write("5")

    def cpu_ms(self) -> int:
        """The processor time that it has used, milliseconds, in steps of 10 (Linux)."""
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")

    def sanitizer_report(self) -> str:
        """The report of a sanitizer or of valgrind in its output, or ""."""
        lines = self.lines
        first = next((i for i, line in enumerate(lines) if SANITIZER.search(line)), None)
        return "" if first is None else "\n".join("  " + s for s in lines[first : first + 60])

    def _log_text(self) -> str:
        lines = self.lines
        if not lines:
            return "it printed nothing"
        last = lines[-20:]
        title = "it printed:" if len(lines) == len(last) else f"the last {len(last)} lines that it printed:"
        return "\n".join([title] + ["  " + line[:200] for line in last])


def run_program(
    chapter: int,
    name: str,
    args: Sequence[Union[str, bytes]] = (),
    *,
    stdin: Union[str, bytes, None] = None,
    closed: Sequence[int] = (),
    env: Optional[Mapping[str, str]] = None,
    seconds: float = 10.0,
) -> Result:
    """Runs "server" (one that is to fail at start-up), "client" or a lab program to its end, without
    the descriptors of 0, 1 and 2 that are closed."""
    data = stdin.encode(errors="surrogateescape") if isinstance(stdin, str) else (stdin or b"")
    words = without(closed, [*program(chapter, name), *args])
    try:
        process = subprocess.Popen(
            words, env=clean_env(env or {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        fail(f"{name} cannot be started: {e}")
    talk = bounded.communicate(process, data, limit(seconds))
    out, err = talk.out, talk.err
    if talk.late or talk.too_much:
        why = f"did not end within {limit(seconds):g} s" if talk.late else f"prints more than {len(out + err) >> 20} MB"
        raise Failure(f"{name} of chapter {chapter:02} {why}", [
            ("started", [" ".join([*(f"{key}={value}" for key, value in (env or {}).items()), _show(words)])]),
            ("expected", [f"it ends within {limit(seconds):g} s"]),
            ("printed", [f"standard output: {out[-400:]!r}", f"standard error: {err[-400:]!r}"]),
        ], diagnose.runs_on(name, env or {}))  # fmt: skip
    result = Result(out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape"), process.returncode)
    if result.status < 0 or any(SANITIZER.search(line) for line in result.stderr.splitlines()):
        fail(f"{name} failed ({status_text(result.status)}): {_show(words)}\n{result.stderr[-4000:]}")
    return result


def run_client(
    chapter: int,
    args: Sequence[Union[str, bytes]],
    server: object,
    stdin: Union[str, bytes, None] = None,
    *,
    env: Optional[Mapping[str, str]] = None,
    seconds: float = 10.0,
) -> Result:
    """Runs the chapter's client against server (a Server, anything with .port, or a port).

    Returns (stdout, stderr, status). Fails where it crashes or does not end in time.
    """
    port = server if isinstance(server, int) else getattr(server, "port")
    env = {"PORT": str(port), **(env or {})}
    return run_program(chapter, "client", args, stdin=stdin, env=env, seconds=seconds)


def without(closed: Sequence[int], words: Sequence[Union[str, bytes]]) -> List[Union[str, bytes]]:
    """The command line, started with these descriptors closed."""
    closing = " ".join(f"{fd}>&-" for fd in closed)
    return ["sh", "-c", f'exec "$@" {closing}', "sh", *words] if closed else [*words]


def at_port(port: int) -> Optional[Server]:
    """The server that was started at this port, None where it was not the harness that started it."""
    return next((server for server in _alive if server.port == port), None)


def kill_all() -> None:
    """Ends every server that is still there (at exit, or when pytest is interrupted)."""
    for server in list(_alive):
        server._kill()


atexit.register(kill_all)


def clean_env(changes: Mapping[str, str]) -> Dict[str, str]:
    """The environment of a program: the caller's without PORT and the like, then the changes."""
    env = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
    env.update(changes)
    return env


def free_port() -> int:
    """A port that was free a moment ago, and is below those that the system gives to clients and to PORT=0: what runs
    beside this test does not take it by chance. Nor does another test that asks here, for the next 64 that this one
    takes: an abstract Unix socket with the port's number is bound meanwhile, and only one process can have it."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
            end = int(f.read().split()[0])
    except OSError:
        end = 32768
    for port in [*random.SystemRandom().sample(range(10000, max(end, 10100)), 50), 0]:
        with socket.socket() as s:
            taken = socket.socket(socket.AF_UNIX)
            try:
                s.bind(("127.0.0.1", port))
                taken.bind(f"\0workbook-port-{s.getsockname()[1]}")
            except OSError:
                taken.close()
                continue
            _taken.append(taken.detach())
            if len(_taken) > 64:
                os.close(_taken.popleft())
            return s.getsockname()[1]
    raise Failure("no port of 127.0.0.1 is free")


def _session(leader: int) -> List[int]:
    """A process, and all that it has started."""
    found = []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            with open(f"/proc/{pid}/stat") as f:
                found += [pid] * (int(f.read().rpartition(")")[2].split()[3]) == leader)
        except OSError:
            pass  # it has ended
    return found


def _listens(port: int) -> bool:
    """Does anything listen there? Looks without connecting where the system allows it."""
    try:
        rows: List[str] = []
        for table in ("tcp", "tcp6"):
            if os.path.exists(f"/proc/net/{table}"):
                with open(f"/proc/net/{table}") as f:
                    rows += f.readlines()[1:]
        if rows:
            return any(r.split()[1].endswith(f":{port:04X}") and r.split()[3] == "0A" for r in rows)
    except OSError:
        pass
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


def _show(words: Sequence[Union[str, bytes]]) -> str:
    return " ".join(w if isinstance(w, str) else repr(w)[2:-1] for w in words)
