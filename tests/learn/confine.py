"""Keeps what a submission starts within bounds, and ends all of it.

    with Confinement(scratch) as confined:
        subprocess.run(confined.wrapper() + [program, ...])

Where the grader is root, each submission gets a user id of its own that nobody else has, since limits on processes
count by user and do not bind root. Elsewhere its processes are the grader's own and are told by a word in their
environment. A thread looks several times a second at what all of them use together: memory in RAM (a limit on address
space binds single processes, and would break sanitizers), and the disk space of their folder.

Where the kernel has namespaces for us (namespaces.py), a submission sees its own folder and the system, and nothing
of the workbook or of other submissions; /tmp is its own and goes with it. The compiler and the grader run in such
namespaces too, so each submission has a network of its own, no process of anybody else is to be seen there, and all
that it has started ends with the first process in there. A class is graded in no other way (needed_for_a_class()).
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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Dict, Iterator, List, NamedTuple, Optional, Tuple

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tools"))

from layout import ROOT, Problem  # noqa: E402

SANDBOX = Path(__file__).resolve().parent / "sandbox.py"
NAMESPACES = SANDBOX.with_name("namespaces.py")
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
        if can_be_others():
            self._reserve_user()
        else:
            self._others = threads_of_user(os.getuid())
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
        taken = {entry.pw_uid for entry in pwd.getpwall()} | {user for _, user in processes()}
        for uid in range(FIRST_UID, FIRST_UID + UIDS):
            if taken & {uid, uid + GUEST}:
                continue
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
        if isolated():
            words += [f"sees={self.scratch.resolve()}", f"hide={os.pathsep.join([str(ROOT), *hidden()])}"]
        if self.uid is not None:
            words.append(f"uid={self.guest_uid if guest else self.uid}")
        values = {
            "as": limits.address_space, "nproc": limits.processes + self._others * (limits.processes > 0),
            "fsize": limits.file, "cpu": limits.cpu, "nofile": limits.descriptors,
        }  # fmt: skip
        words += [f"{name}={value}" for name, value in values.items() if value]
        return [sys.executable, "-I", "-S", str(SANDBOX), *words, "--"]

    # ---- watching ----

    def members(self) -> Dict[int, int]:
        """The processes of the submission that are alive: process -> user."""
        found = {}
        for pid, user in processes():
            with suppress(OSError):  # gone, or somebody else's
                mine = user in (self.uid, self.guest_uid) if self.uid is not None else self._has_token(pid)
                if mine and not has_ended(pid):
                    found[pid] = user
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
            for uid in set(members.values()) if self.uid is not None else ():
                as_user(uid, "os.kill(-1, 9)")  # all at once, but for the process that does it
            for sig in (signal.SIGSTOP, signal.SIGKILL):  # who is stopped starts no other
                for pid in members:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, sig)
            time.sleep(0.01)


# ---- what the kernel lets us do ----


def hidden() -> List[str]:
    """Folders with the work of others, which the program that grades a class names."""
    return [folder for folder in os.environ.get("GRADE_HIDDEN", "").split(os.pathsep) if folder]


@lru_cache(maxsize=None)
def isolated() -> bool:
    """May a grader have a network and processes of its own, and show a submission the system and its folder alone?"""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name in ("home", "home.tmp", f"home.tmp/{Path(folder).name}"):
            (Path(folder) / name).mkdir()
        words = ["id=try", f"home={folder}/home", f"sees={folder}", f"hide={ROOT}", "--", "/bin/sh", "-c", "exit 7"]
        command = [*ALONE, sys.executable, "-I", "-S", str(SANDBOX), *words]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 7


def alone() -> List[str]:
    """The words to put before a grader or compiler, so that what it starts meets nothing of another submission."""
    return ALONE if isolated() else []


def needed_for_a_class() -> None:
    """Raises Problem where submissions could see the graders, and each other."""
    if not isolated():
        raise Problem(
            "a class is graded in isolation, and the kernel gives us no namespaces for that: grade as root, or in a "
            "container as book/teaching/README.md has it (What confines a submission)"
        )


def can_be_read() -> bool:
    """Can a submission read the workbook here, with its graders and solutions?"""
    return not isolated() and (not can_be_others() or as_user(FIRST_UID, f"os.listdir({str(SANDBOX.parent)!r})") == 0)


@lru_cache(maxsize=None)
def can_be_others() -> bool:
    """Are we root, and not one of a container that has no other users?"""
    return os.getuid() == 0 and as_user(FIRST_UID, "") == 0


def as_user(uid: int, code: str) -> int:
    """Runs a line of Python as another user; returns the exit status."""
    become = f"import os; os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid}); "
    words = [sys.executable, "-I", "-S", "-c", become + code]
    return subprocess.run(words, cwd="/", stderr=subprocess.DEVNULL).returncode


def sanitized(limits: Limits) -> Limits:
    """The limits for programs with a sanitizer: it reserves address space without using it."""
    return replace(limits, address_space=0, memory=4 * limits.memory)


# ---- processes ----


def processes() -> Iterator[Tuple[int, int]]:
    """Every process, and its user."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                yield int(name), os.stat(f"/proc/{name}").st_uid


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


def threads_of_user(uid: int) -> int:
    """How many threads all processes of a user have. Limits on processes count them."""
    count = 0
    for pid, user in processes():
        with suppress(OSError):
            count += len(os.listdir(f"/proc/{pid}/task")) if user == uid else 0
    return count


def small_enough(folder: Path, most_mib: int) -> bool:
    """Is what lies in the folder within the limits on size and number?"""
    files = size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):
                size += os.lstat(os.path.join(top, name)).st_blocks * 512
            if files > MOST_FILES or most_mib and size > most_mib << 20:
                return False
    return True
