"""The model of the crash lab (tests/crash/states.py) on made-up recordings: what stays, and what may be lost; and its
recorder, where a program has a child; and its clock."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Set

import pytest

from crash.servers import FastClock, recorder
from crash.states import CREATED, Disk, Record, Recording, State, read_calls, read_records
from harness import limit

pytestmark = pytest.mark.inside
EIO = 5


def record(op: str, ino: int = 1, *, name: str = "", data: bytes = b"", at: int = 0, error: int = 0) -> Record:
    flags = CREATED if op == "o" and name else 0
    return Record(op, flags, error, 0, ino, at, len(data), name, data)


def fsync(index: int, ino: int = 1, error: int = 0) -> List[Record]:
    """An fsync whose begin is the record with this index."""
    return [record("b", ino), record("e", ino, at=index, error=error)]


FOLDER = record("o", 9)  # the folder itself, opened


def contents(records: List[Record], name: str = "f") -> Set[object]:
    """What the file may hold after all of these, None where it may be missing."""
    recording = Recording(records)
    end = len(records)
    return {recording.disk(state).get(name) for state in recording.states() if state.cut == end or end - 1 == state.cut}


def test_what_was_not_synced_is_lost_or_torn() -> None:
    found = contents([FOLDER, record("o", name="f"), *fsync(2, 9), record("w", data=b"abcd")])
    assert {b"", b"abcd", b"a", b"ab", b"abc", b"\0\0\0\0", b"\xa5\xa5\xa5\xa5"} == found


def test_what_was_synced_stays() -> None:
    made = [FOLDER, record("o", name="f"), *fsync(2, 9), record("w", data=b"abcd"), *fsync(5)]
    assert contents([*made, record("s")]) == {b"abcd"}


def test_an_fsync_is_not_for_what_is_written_while_it_goes_on() -> None:
    made = [FOLDER, record("o", name="f"), *fsync(2, 9), record("w", data=b"ab"), record("b")]
    found = contents([*made, record("w", data=b"cd", at=2), record("e", at=5), record("s")])
    assert b"ab" in found and b"abcd" in found and b"" not in found


def test_a_failed_fsync_is_not_made_good_by_the_next() -> None:
    made = [FOLDER, record("o", name="f"), *fsync(2, 9), record("w", data=b"ab"), *fsync(5, error=EIO)]
    found = contents([*made, record("w", data=b"cd", at=2), *fsync(8), record("s")])
    assert b"\0\0cd" in found and all(content and content[2:] == b"cd" for content in found)  # type: ignore[index]


@pytest.mark.parametrize("after, missing", [([], True), (fsync(2, 9, EIO), True), (fsync(2, 9), False)])
def test_a_name_is_safe_when_its_folder_is(after: List[Record], missing: bool) -> None:
    assert (None in contents([FOLDER, record("o", name="f"), *after, record("s")])) == missing


def test_a_rename_is_all_or_nothing() -> None:
    made = [FOLDER, record("o", name="t"), record("w", data=b"new"), *fsync(3), *fsync(5, 9)]
    recording = Recording([*made, record("r", name="t", data=b"f"), record("s")])
    disks = [recording.disk(state) for state in recording.states() if state.cut == len(recording.records)]
    assert {"f": b"new"} in disks and {"t": b"new"} in disks and all(len(disk) == 1 for disk in disks)


def test_a_move_between_folders_may_leave_both_names_or_none() -> None:
    made = [FOLDER, record("m", name="d"), record("o", name="t"), *fsync(3, 9)]
    recording = Recording([*made, record("r", name="t", data=b"d/f"), record("s")])
    found = [sorted(recording.disk(state)) for state in recording.states() if state.cut == len(recording.records)]
    assert all(names in found for names in (["d", "d/f"], ["d", "t"], ["d", "d/f", "t"], ["d"]))


def test_a_folder_takes_along_what_is_in_it() -> None:
    disk: Disk = Recording([record("m", name="d"), record("o", name="d/f"), record("s")]).disk(State(3, "all", (0,)))
    assert disk == {}


def test_the_number_of_an_inode_is_given_again() -> None:
    made = [record("o", name="f"), record("w", data=b"old"), record("u", name="f")]
    recording = Recording([*made, record("o", name="g"), record("w", data=b"new")])
    assert recording.disk(State(5)) == {"g": b"new"}


def test_states_have_names_and_a_repeatable_order() -> None:
    recording = Recording([FOLDER, record("o", name="f"), record("w", data=b"x" * 2000), record("s")])
    names, again, other = ([str(state) for state in recording.sample(100, seed)] for seed in (1, 1, 2))
    assert names == again != other
    assert [str(State.parse(name)) for name in names] == names
    assert {"4:cut.2.512:all", "4:zeros.2.1536:all", "4:none:all", "4:all:lost.1"} <= set(names)


# ---- the recorder, and a child of fork() ----


def recorded(program: str, folder: Path) -> List[Record]:
    """What a program of Python does to the files of its folder."""
    files, recording = folder / "files", folder / "recording"
    files.mkdir()
    env = {**os.environ, "LD_PRELOAD": recorder(), "RECORD_DIR": str(files), "RECORD_FILE": str(recording)}
    subprocess.run([sys.executable, "-c", program], cwd=files, env=env, check=True, timeout=limit(20))
    return read_records(recording)


def test_a_child_is_recorded_when_it_has_closed_what_it_has(tmp_path: Path) -> None:
    records = recorded("""if True:
        import os
        log, base = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in "lb")
        if os.fork() == 0:
            os.dup2(base, log)
            os.closerange(log + 1, 1 << 16)
            os.write(log, b"of the child")
            os.fsync(log)
            os._exit(0)
        os.wait()
        os.write(log, b"of the parent")
    """, tmp_path)
    log, base = (record.ino for record in records if record.op == "o")
    done = [(record.op, record.ino, record.data) for record in records[3:]]
    expected = [("w", base, b"of the child"), ("b", base, b""), ("e", base, b""), ("w", log, b"of the parent")]
    assert done == expected and records[5].at == 4  # the end knows its begin


def test_a_child_may_be_killed_at_any_time(tmp_path: Path) -> None:
    records = recorded("""if True:
        import os, time
        fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(30):
            child = os.fork()
            while child == 0:
                os.write(fd, b"x" * 20_000)
            time.sleep(0.002)
            os.kill(child, 9)
            os.wait()
            os.write(fd, b"end")
    """, tmp_path)
    assert sum(record.data == b"end" for record in records) == 30
    assert any(record.size == 20_000 for record in records)


def test_calls_are_counted_by_their_kind(tmp_path: Path) -> None:
    recorded("""if True:
        import os
        fd = os.open("f", os.O_WRONLY | os.O_CREAT)
        for _ in range(3):
            os.write(fd, b"x")
        os.fsync(fd)
        os.rename("f", "g")
    """, tmp_path)
    calls = {"open": 1, "write": 3, "fsync": 1, "rename": 1}
    assert {kind: n for kind, n in read_calls(tmp_path / "recording").items() if n} == calls


# ---- the clock ----


def test_a_fast_clock_goes_on_only_while_the_clients_pause(tmp_path: Path) -> None:
    clock = FastClock(tmp_path / "clock")
    program = "import time; print(time.monotonic_ns(), time.time_ns())"
    command, env = [sys.executable, "-c", program], {**os.environ, **clock.env, "LD_PRELOAD": clock.preload[:-1]}

    def shown() -> List[int]:
        done = subprocess.run(command, env=env, check=True, timeout=limit(20), stdout=subprocess.PIPE)
        return list(map(int, done.stdout.split()))

    first, began = shown(), time.monotonic()
    assert shown() == first and first[0] == clock.ns()
    clock.sleep(2)
    took = time.monotonic() - began
    assert [after - before for before, after in zip(first, shown())] == [2_000_000_000] * 2 and took < limit(1.5)
