"""Keeps what a submission starts within bounds, and ends all of it.

    with Confinement(scratch) as confined:
        subprocess.run(confined.wrapper() + [program, ...])

Where the grader is root, each submission gets a user id of its own that nobody else has, since limits on processes
count by user and do not bind root. Elsewhere its processes are the grader's own and are told by a word in their
environment. A thread looks several times a second at what all of them use together: memory in RAM (a limit on address
space binds single processes, and would break sanitizers), and the disk space of their folder.

Where the kernel has namespaces for us (namespaces.py), a submission sees its own folder and the system, and nothing
of the workbook or of other submissions; /tmp is its own and goes with it. The grader runs in such namespaces too, so
each submission has a network of its own, and no process of anybody else is to be seen there. What is missing of that
is said by lacking().
"""
from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Dict, List, NamedTuple, Optional

SANDBOX = Path(__file__).resolve().parent / "sandbox.py"
NAMESPACES = SANDBOX.with_name("namespaces.py")
ROOT = SANDBOX.parents[2]
sys.path.insert(0, str(SANDBOX.parents[1]))

from harness.bounded import communicate  # noqa: E402

FIRST_UID, UIDS = 61000, 1000
GUEST = UIDS  # what is added for the second user of a submission, whom the first cannot harm
ALONE = [sys.executable, "-I", "-S", str(NAMESPACES), "--"]
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
LOOK_EVERY = 0.2  # seconds
MOST_FILES = 10_000  # in the folder of a submission


@dataclass(frozen=True)
class Limits:
    """What a submission may use. Sizes in MiB, times in seconds; 0 is no limit."""

    address_space: int = 1024  # of a process
    memory: int = 512  # in RAM, of all processes together
    processes: int = 128
    file: int = 64
    disk: int = 256
    cpu: int = 60  # of a process
    descriptors: int = 4096


class Event(NamedTuple):
    """Something for which all processes were ended, and when (time.monotonic())."""

    at: float
    what: str


class Confinement:
    """The bounds of one submission. scratch is a folder of the grader that every user may pass through."""

    def __init__(self, scratch: Path, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.token = secrets.token_hex(8)
        self.home = scratch / "home"
        self.guest_home = scratch / "guest"
        self.scratch = scratch
        self.uid: Optional[int] = None
        self.events: List[Event] = []
        self._lock: Optional[IO[str]] = None
        self._others = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Confinement":
        if os.getuid() == 0:
            self._reserve_user()
        else:
            self._others = len(threads_of_user(os.getuid()))
        for folder, uid in ((self.home, self.uid), (self.guest_home, self.guest_uid)):
            for each in (folder, folder.with_name(f"{folder.name}.tmp")):
                each.mkdir(mode=0o700)
                if uid is not None:
                    os.chown(each, uid, uid)
            inside = str(self.scratch.resolve())
            if inside.startswith("/tmp/"):  # the place where the folder of the submission is shown
                (folder.with_name(f"{folder.name}.tmp") / inside[5:]).mkdir(parents=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self.kill_all()
        if self._lock:
            self._lock.close()

    @property
    def guest_uid(self) -> Optional[int]:
        return None if self.uid is None else self.uid + GUEST

    def _reserve_user(self) -> None:
        """Takes a user id that no account, no process and no other grader has."""
        folder = Path(tempfile.gettempdir()) / "workbook-users"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != 0 or folder.is_symlink():
            raise RuntimeError(f"{folder} belongs to somebody else")
        taken = {entry.pw_uid for entry in pwd.getpwall()} | users_with_processes()
        for uid in range(FIRST_UID, FIRST_UID + UIDS):
            if taken & {uid, uid + GUEST}:
                continue
            if not can_become(uid):  # root of a container with few users
                self._others = len(threads_of_user(0))
                return
            lock = open(folder / str(uid), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self.uid, self._lock = uid, lock
            return
        raise RuntimeError("no user id is free for this submission")

    # ---- starting ----

    def wrapper(self, *, guest: bool = False, limits: Optional[Limits] = None) -> List[str]:
        """The words to put before a command. guest: as the second user, for programs that are not the learner's."""
        limits = limits or self.limits
        words = [f"id={self.token}", f"home={self.guest_home if guest else self.home}"]
        if can_hide_files():
            words += [f"sees={self.scratch.resolve()}", f"hide={os.pathsep.join([str(ROOT), *hidden()])}"]
        if self.uid is not None:
            words.append(f"uid={self.guest_uid if guest else self.uid}")
        values = {
            "as": limits.address_space, "nproc": limits.processes + self._others * (limits.processes > 0),
            "fsize": limits.file, "cpu": limits.cpu, "nofile": limits.descriptors,
        }  # fmt: skip
        words += [f"{name}={value}" for name, value in values.items() if value]
        return [sys.executable, "-I", "-S", str(SANDBOX), *words, "--"]

    def run(self, command: List[str], seconds: float, most: int = 1 << 18) -> "Ran":
        """Runs a command within the bounds; its output (both streams) is cut at `most` bytes."""
        return run_bounded(self.wrapper() + command, seconds, most)

    # ---- watching ----

    def members(self) -> Dict[int, int]:
        """The processes of the submission that are alive: process -> user."""
        found = {}
        for pid in pids():
            try:
                user = os.stat(f"/proc/{pid}").st_uid
                mine = user in (self.uid, self.guest_uid) if self.uid is not None else self._has_token(pid)
                if mine and not has_ended(pid):
                    found[pid] = user
            except OSError:
                pass  # gone, or somebody else's
        return found

    def _has_token(self, pid: int) -> bool:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"WORKBOOK_CONFINED={self.token}\0".encode() in file.read()

    def _watch(self) -> None:
        looks = 0
        while not self._stopping.wait(LOOK_EVERY):
            looks += 1
            used = sum(map(rss_kib, self.members())) >> 10
            if self.limits.memory and used > self.limits.memory:
                self._end(f"its processes used {used} MB of memory, {self.limits.memory} are allowed")
            elif looks % 5 == 0 and not all(small_enough(place, self.limits.disk) for place in self._places()):
                self._end(f"it wrote more than {self.limits.disk} MB, or {MOST_FILES} files")
                for place in self._places():
                    shutil.rmtree(place, ignore_errors=True)

    def _places(self) -> List[Path]:
        """Where it may write."""
        return [self.home, self.home.with_name(f"{self.home.name}.tmp")]

    def _end(self, what: str) -> None:
        self.events.append(Event(time.monotonic(), what))
        self.kill_all()

    # ---- ending ----

    def kill_all(self) -> None:
        """Ends every process of the submission, also of those that go on starting others."""
        for _ in range(100):
            members = self.members()
            if not members:
                return
            for pid in members:
                signal_to(pid, signal.SIGSTOP)
            for uid in set(members.values()) if self.uid is not None else ():
                kill_user(uid)
            for pid in members:
                signal_to(pid, signal.SIGKILL)
            time.sleep(0.01)


# ---- what the kernel lets us do ----


def hidden() -> List[str]:
    """Folders with the work of others, which the program that grades a class names."""
    return [folder for folder in os.environ.get("GRADE_HIDDEN", "").split(os.pathsep) if folder]


@lru_cache(maxsize=None)
def can_hide_files() -> bool:
    """May a submission be shown its own folder and the system alone?"""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("home", "home.tmp", f"home.tmp/{Path(folder).name}"):
            (Path(folder) / name).mkdir()
        words = ["id=try", f"home={folder}/home", f"sees={folder}", f"hide={ROOT}", "--", "/bin/sh", "-c", "exit 7"]
        command = [sys.executable, "-I", "-S", str(SANDBOX), *words]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 7


@lru_cache(maxsize=None)
def can_be_alone() -> bool:
    """May a grader have a network and processes of its own?"""
    return subprocess.run([*ALONE, "/bin/sh", "-c", "exit 7"], stderr=subprocess.DEVNULL).returncode == 7


def alone() -> List[str]:
    """The words to put before a grader, so that nothing that it starts meets anything of another submission."""
    return ALONE if can_be_alone() else []


def lacking() -> List[str]:
    """What does not keep a submission from cheating on this machine, in sentences for the instructor."""
    found = []
    if not can_hide_files():
        readable = os.getuid() != 0 or as_user(FIRST_UID, f"os.listdir({str(SANDBOX.parents[1] / 'exercises')!r})") == 0
        mend = "grade as root, and" if os.getuid() else "first"
        if readable:
            found.append(f"submissions can read the workbook, its graders and solutions: {mend} chmod -R go-rwx {ROOT}")
    if os.getuid() != 0 and not can_be_alone():
        found.append("submissions run as your own user, and can change the graders and each other: grade as root")
    return found


class Ran(NamedTuple):
    """What came of a command."""

    status: int
    output: str
    late: bool
    too_much: bool


def run_bounded(command: List[str], seconds: float, most: int) -> Ran:
    """Runs a command without input to its end, which comes by force after that time or that much output."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    talk = communicate(process, b"", seconds, most)
    return Ran(process.returncode, talk.out.decode("utf-8", "replace"), talk.late, talk.too_much)


def sanitized(limits: Limits) -> Limits:
    """The limits for programs with a sanitizer: it reserves address space without using it."""
    return replace(limits, address_space=0, memory=4 * limits.memory)


# ---- processes ----


def pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def rss_kib(pid: int) -> int:
    """Its memory in RAM; 0 where it has gone."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * PAGE_KIB
    except (OSError, IndexError):
        return 0


def has_ended(pid: int) -> bool:
    """Is nothing left of it but an exit status that nobody has asked for?"""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in "ZX"


def users_with_processes() -> "set[int]":
    found = set()
    for pid in pids():
        try:
            found.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            pass
    return found


def threads_of_user(uid: int) -> Dict[int, int]:
    """The threads of all processes of a user: thread -> process. Limits on processes count them."""
    found = {}
    for pid in pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                found.update({int(thread): pid for thread in os.listdir(f"/proc/{pid}/task")})
        except OSError:
            pass
    return found


def signal_to(pid: int, sig: int) -> None:
    try:
        os.kill(pid, sig)
    except (ProcessLookupError, PermissionError):
        pass


def as_user(uid: int, code: str) -> int:
    """Runs a line of Python as another user; returns the exit status."""
    become = f"import os; os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid}); "
    words = [sys.executable, "-I", "-S", "-c", become + code]
    return subprocess.run(words, cwd="/", stderr=subprocess.DEVNULL).returncode


def can_become(uid: int) -> bool:
    return as_user(uid, "") == 0


def kill_user(uid: int) -> None:
    """Kills all processes of a user at once: a process of that user does, whom its own signal spares."""
    as_user(uid, "os.kill(-1, 9)")


def small_enough(folder: Path, most_mib: int) -> bool:
    """Is what lies in the folder within the limits on size and number?"""
    files = size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            files += 1
            try:
                size += os.lstat(os.path.join(top, name)).st_blocks * 512
            except OSError:
                pass
            if files > MOST_FILES or most_mib and size > most_mib << 20:
                return False
    return True
