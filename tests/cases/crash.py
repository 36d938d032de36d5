"""Crashes and failing disks (27 and later): a sample of what `make crash` plays. The lab is in tests/crash/, and its
README.md says how to read what it finds.

Its servers are preloaded with a recorder, so these cases are left out where a sanitizer or valgrind looks on.
"""
from __future__ import annotations

import random
from pathlib import Path
from typing import Dict, List, Sequence

from crash.check import Checker, Failing, keep, record, scratch, told
from crash.servers import Server as Started
from crash.servers import Trouble
from crash.states import Disk, State, read_disk, write_disk
from harness import fail, seed, settings
from harness.build import program

from . import case
from .talk import watched

__tracebackhide__ = settings.__tracebackhide__
FIRST_BATCH = 100  # bytes that the first batch of a file has at least
PERHAPS = (
    "is what a reply speaks of on the disk before the reply leaves: written, the file synced, and the names of all "
    "files that count, by a sync of their folder? The line `to see it again` shows what was done to the files, in "
    "order, and what of it was OPEN, that is, not safe"
)


def _play(chapter: int, policy: str, rounds: int, states: int, seconds: float = 0, rewrite: str = "") -> None:
    """Records a workload, and fails where one of so many states of its disk is not what the server promises. `rewrite`
    is for Workload.play()."""
    if watched():
        return
    command = program(chapter, "server")
    try:
        run = record(command, policy, rounds=rounds, seed=seed(), seconds=seconds, rewrite=rewrite)
    except Trouble as trouble:
        fail(f"killed with SIGKILL while it writes, and started again: {trouble}")
    checker = Checker(run, command)
    done, wrong = checker.check_all(checker.recording.sample(states, seed()), states)
    if rewrite and not wrong:  # the steps of a rewrite are about names: all states in which some are lost
        lost = [state for state in checker.recording.states() if state.lost]
        done, wrong = checker.check_all(iter(lost), len(lost))
    if wrong:
        folder = settings.build_dir() / "crash" / policy
        keep(run, command, folder)
        fail(f"of {done} states of the disk that a crash may leave, with `{policy}`:\n{told(wrong, folder)}")


@case(since=27, inside=True)
def a_crash_takes_nothing_that_was_answered(chapter: int) -> None:
    """With `always`: clients change keys, a recorder notes what the server does to its files, and from that states of
    the disk are made that a crash could leave. On each of them the server starts, has all that was answered before
    the crash and no half of anything, takes more, is killed, and has that, too."""
    _play(chapter, "always", rounds=24, states=150)


@case(since=27, inside=True)
def a_crash_leaves_a_first_part(chapter: int) -> None:
    """The same with `everysec`: what is there is all up to some request, in the order in which they were done."""
    _play(chapter, "everysec", rounds=30, states=80, seconds=1.2)


@case(since=28, inside=True, time_limit=60,
      perhaps="each step of a rewrite leaves a log that is whole: the new file counts when it is on the disk, the base "
              "when it and its name are, and nothing is deleted before the manifest that does without it is safe")
def a_crash_while_the_log_is_written_anew(chapter: int) -> None:
    """With both: server and child write at once, files come, get their names, and are deleted. Whenever the crash
    comes, the log is whole."""
    _play(chapter, "always", rounds=24, states=150, seconds=0.6, rewrite="bgrewriteaof")
    _play(chapter, "everysec", rounds=30, states=80, seconds=1.2, rewrite="bgrewriteaof")


@case(since=27, inside=True)
def a_failing_disk_makes_no_reply_a_lie(chapter: int) -> None:
    """With `always`, where one call of the system fails: the server goes on or ends, and of the states that a crash
    may leave then none lacks what was answered, or has what was refused. What was to be synced when that failed is
    never taken for safe, as the kernel has forgotten it."""
    if watched():
        return
    calls = [f"{kind}:{n}:{error}" for kind, n, error in (
        ("open", 4, "EMFILE"), ("write", 2, "ENOSPC"), ("write", 4, "short"), ("write", 5, "ENOSPC:+"),
        ("fdatasync", 1, "EIO"), ("fdatasync", 3, "EIO"), ("fdatasync", 2, "EIO:+"), ("fsync", 3, "EIO"),
        # a sync fails, and so does the new file
        *(("fdatasync", 2, f"EIO,open:{n}:EMFILE:+") for n in (6, 7, 8)),
        ("rename", 1, "ENOSPC"), ("mkdir", 1, "EACCES"),
    )]  # fmt: skip
    _failing(chapter, calls, (0, 1))


def _failing(chapter: int, calls: List[str], starts: Sequence[int], rewrite: str = "") -> None:
    """Fails where the server breaks its promise since one of these calls has failed, in one of these starts."""
    where = settings.build_dir() / "crash"
    failing = Failing(program(chapter, "server"), "always", states=6, seed=seed(), where=where, rewrite=rewrite)
    _, wrong = failing.play([(call, start) for call in calls for start in starts])
    if wrong:
        fail(f"calls of the system that fail, with `always`:\n{wrong}")


@case(since=28, inside=True, time_limit=60)
def a_failing_rewrite_makes_no_reply_a_lie(chapter: int) -> None:
    """The same, where a call of the rewrite fails, of the server's or of its child's: the old files count, or the new
    ones, and a sync of the directory that has failed leaves open which."""
    if watched():
        return
    calls = [*(f"fsync:{n}:EIO" for n in range(4, 14)), *(f"rename:{n}:EIO" for n in range(2, 6)),
             "open:6:EMFILE", "open:8:ENOSPC", "write:8:ENOSPC", "unlink:1:EIO"]  # fmt: skip
    _failing(chapter, calls, (0,), "bgrewriteaof")


@case(since=27, inside=True,
      perhaps="a file that is not the last was synced to its end, and so was all that a batch behind it calls "
              "synced: where such bytes are not right, to start without them would be a hole in history")  # fmt: skip
def damage_is_no_torn_tail(chapter: int) -> None:
    """Bytes that were safe have changed: the server does not start, the second time neither, and leaves the files as
    they are. An earlier file that is cut or gone, zeros and flipped bits in it, and in the last one in front of what
    is safe."""
    if watched():
        return
    command = program(chapter, "server")
    run = record(command, "always", rounds=12, seed=seed(), fail="fdatasync:4:EIO")
    recording = Checker(run, command).recording
    disk = recording.disk(State(len(run.records)))
    for what, damaged in _damages(disk, random.Random(seed())).items():
        with scratch() as folder:
            write_disk(damaged, Path(folder))
            for start in ("starts", "starts the second time"):
                try:
                    Started(command, Path(folder), "always").kill()
                    fail(f"{what}: the server {start}")
                except Trouble:
                    pass
                if read_disk(Path(folder)) != damaged:
                    fail(f"{what}: it does not start, and has changed the files")


def _damages(disk: Disk, rng: random.Random) -> Dict[str, Disk]:
    """The disk with each of some damages."""
    found: Dict[str, Disk] = {}
    logs: List[str] = sorted(name for name in disk if name.endswith(".incr.aof"))
    assert len(logs) == 2, "the sync that fails makes it go on in a second file"

    def damage(what: str, name: str, content: bytes) -> None:
        found[f"{name} {what}"] = {**disk, name: content}

    for name in logs:
        content = disk[name] or b""
        known = len(content) if name == logs[0] else FIRST_BATCH  # of its last batch nothing says that it was synced
        for at in (0, rng.randrange(known - 20), known - 20):
            flipped = bytes([content[at] ^ 1 << rng.randrange(8)])
            damage(f"with one bit of byte {at} flipped", name, content[:at] + flipped + content[at + 1 :])
            damage(f"with 20 zeros from byte {at} on", name, content[:at] + bytes(20) + content[at + 20 :])
    content = disk[logs[0]] or b""
    for size in (0, rng.randrange(len(content)), len(content) - 1):
        damage(f"cut to {size} bytes of {len(content)}", logs[0], content[:size])
    damage("with a byte more", logs[0], content + b"#")
    for name in logs:
        found[f"{name} gone"] = {each: content for each, content in disk.items() if each != name}
    return found
