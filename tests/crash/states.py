"""Which states of the disk may a crash leave? Told from a recording (recorder.c) of what a server has done to its
files.

The model, which is stricter than any one file system:

- A crash may come between any two records. What is recorded behind that *cut* has not happened.
- A write is *safe* when an fsync of its file has begun after it, and has ended well before the cut. An fsync that
  fails makes no write safe, now or later: the kernel forgets that those pages were still to be written. So the next
  fsync, though it ends well, is for later writes alone.
- The same holds of another size, and of a name that appears, moves or goes, which an fsync of its folder makes safe;
  but here a sync that has failed may be tried again. To move a name from one folder to another is two changes, one in
  each.
- What is safe stays. What is not is *open*: each part of it may be on the disk or not, in any order.

All combinations are too many. Of the open writes of a cut these are tried: all, none, all but one, all but those of
one file; and of the last one in each file: cut off at each 512 bytes and at some odd places, a sector of it zeros or
garbage, and the size of all of them without their bytes. Open names come and go independently of each other.

A state has a name, CUT:WRITES:NAMES. `812:zeros.790.1024:lost.640` says: the crash came when 812 records had been
made; all open writes are there, but the one of record 790 has zeros from offset 1024 of its file to the end of that
sector; and what record 640 has done to a name is undone.
"""
from __future__ import annotations

import itertools
import random
import struct
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

SECTOR = 512
CHECKPOINT = 32  # writes of a file; see _writes_of()
HEAD = struct.Struct("=cBHiQQQQ")  # struct record
KINDS = ("open", "write", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "mkdir")  # k_kind_names
FIRST = 4096  # where the first one is in a recording; how long all are is said at its beginning
CREATED, TRUNCATED = 1, 2
NEVER = 1 << 62
MANY_NAMES = 4  # of so many open names every subset is tried; of more, all, none, and each one lost or kept alone
CHANGES = "owtmrus"  # records behind which a crash is another one than before them; b, since time has passed
Disk = Dict[str, Optional[bytes]]  # names relative to the folder -> bytes, None of a folder


class Record(NamedTuple):
    """One of a recording: struct record. `size` is that of data, or of what was sent; `at`, of the end of an fsync, the
    index of its begin."""

    op: str
    flags: int
    error: int
    ns: int
    ino: int
    at: int
    size: int
    name: str
    data: bytes


class Change:
    """What a record has done to a file (data at an offset, or None: its size is now `at`), or to names in a folder:
    `name` is now that of `file`, and `gone` of none. Safe at all cuts from `safe` on."""

    def __init__(self, number: int, target: int, **what: object) -> None:
        self.number = number  # of the record; negative for what a move does to the folder that it leaves
        self.index = abs(number)
        self.target = target  # the file or folder whose fsync makes it safe
        self.at = 0
        self.data: Optional[bytes] = None
        self.name = self.gone = ""
        self.file = 0
        self.safe = NEVER
        self.__dict__.update(what)


class State(NamedTuple):
    """One of the states that a crash may leave."""

    cut: int
    writes: str = "all"
    lost: Tuple[int, ...] = ()  # numbers of changes of names that are undone

    def __str__(self) -> str:
        return f"{self.cut}:{self.writes}:{'.'.join(['lost', *map(str, self.lost)]) if self.lost else 'all'}"

    @staticmethod
    def parse(text: str) -> "State":
        cut, writes, names = text.split(":")
        return State(int(cut), writes, tuple(map(int, names.split(".")[1:])))

    @property
    def kind(self) -> str:
        return self.writes.partition(".")[0] + "+names" * bool(self.lost)


def read_calls(path: Path) -> Dict[str, int]:
    """How many calls of each kind the server of a recording has made since it was started last."""
    with path.open("rb") as file:
        return dict(zip(KINDS, struct.unpack("=8x8Q", file.read(72))))


def read_records(path: Path) -> List[Record]:
    """All of a recording, in the order in which it happened."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), sys.byteorder)
        file.seek(FIRST)
        data = file.read(size)
    at, begins = 0, {}
    found: List[Record] = []
    while at < len(data):
        op, flags, name_len, error, ns, ino, where, size = HEAD.unpack_from(data, at)
        start = at + HEAD.size + name_len
        at = start + (size if op in b"wr" else 0)
        if op == b"b":
            begins[where] = len(found)
        where = begins[where] if op == b"e" else where
        name = data[start - name_len : start].decode()
        found.append(Record(op.decode(), flags, error, ns, ino, where, size, name, data[start:at]))
    return found


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


class Recording:
    """What a server has done to a folder, which held `before` (all of it safe) when it began."""

    def __init__(self, records: Sequence[Record], before: Optional[Disk] = None) -> None:
        self.records = list(records)
        self.writes: List[Change] = []
        self.names: List[Change] = []
        # Files and folders have numbers of our own: the kernel gives the number of an inode again when it is free.
        self._free = itertools.count(1)
        self.first: Dict[int, Optional[bytes]] = {}  # number -> bytes at first, None of a folder
        self.at_first: Dict[str, int] = {}
        for name, content in sorted({"": None, **(before or {})}.items()):
            self.at_first[name] = self._new(content)
        self._now = dict(self.at_first)  # names as the running server sees them
        self._inodes: Dict[int, int] = {}
        self._open: Dict[int, List[Change]] = {}  # of a file or folder: changes that no fsync has been for yet
        self._syncs: Dict[int, int] = {}  # begin of an fsync -> file or folder
        for index, record in enumerate(self.records):
            self._follow(index, record)
        self._checkpoints: Dict[int, Tuple[List[Change], List[bytes]]] = {}

    def _new(self, content: Optional[bytes]) -> int:
        number = next(self._free)
        self.first[number] = content
        return number

    def _follow(self, index: int, record: Record) -> None:
        now = self._now
        if record.op in "om":
            if record.op == "m" or record.flags & CREATED:
                now[record.name] = self._new(None if record.op == "m" else b"")
                self._named(index, record.name, now[record.name])
            if record.op == "o":
                self._inodes[record.ino] = now[record.name]
        if record.op in "wt" or (record.op == "o" and record.flags & TRUNCATED):
            file = self._inodes[record.ino]
            self._add(self.writes, Change(index, file, at=record.at, data=record.data if record.op == "w" else None))
        elif record.op == "r":
            target = record.data.decode()
            now[target] = now.pop(record.name)
            if folder_of(target) == folder_of(record.name):
                self._named(index, target, now[target], record.name)
            else:
                self._named(index, target, now[target])
                self._named(-index, record.name, 0, record.name)
        elif record.op == "u":
            del now[record.name]
            self._named(index, record.name, 0, record.name)
        elif record.op == "b":
            self._syncs[index] = self._inodes[record.ino]
        elif record.op == "e":
            self._synced(index, record)

    def _named(self, number: int, name: str, file: int, gone: str = "") -> None:
        self._add(self.names, Change(number, self._now[folder_of(name)], name=name, file=file, gone=gone))

    def _add(self, to: List[Change], change: Change) -> None:
        to.append(change)
        self._open.setdefault(change.target, []).append(change)

    def _synced(self, index: int, record: Record) -> None:
        """An fsync has ended: it was for all that was done before its begin. If it has failed, no other one will be
        for the bytes that were written; for sizes and names, the next."""
        target, later = self._syncs[record.at], []
        for change in self._open.get(target, []):
            if change.index > record.at or (record.error and change.data is None):
                later.append(change)
            elif not record.error:
                change.safe = index + 1
        self._open[target] = later

    # ---- states ----

    def states(self) -> Iterator[State]:
        """All that the model has, from the last cut to the first: what is the same on the disk later has more answers
        before it. Two may be the same on the disk."""
        for cut in range(len(self.records), 0, -1):
            if self.records[cut - 1].op in CHANGES + "b":
                names = self._open_names(cut)
                for writes in self._ways(cut):
                    yield State(cut, writes)
                for lost in names:
                    yield State(cut, "all", lost)
                    yield State(cut, "none", lost)

    def sample(self, n: int, seed: int) -> Iterator[State]:
        """States in an order that the seed decides: one of each kind in turn, so that the rare ones come early. It is
        up to the caller to end it after n different ones."""
        kinds: Dict[str, List[State]] = {}
        for state in self.states():
            kinds.setdefault(state.kind, []).append(state)
        rng = random.Random(seed)
        for each in kinds.values():
            rng.shuffle(each)
        turns = itertools.zip_longest(*(kinds[kind] for kind in sorted(kinds)))
        return (state for turn in turns for state in turn if state)

    def _open_names(self, cut: int) -> Iterator[Tuple[int, ...]]:
        """Sets of changes of names that may be lost, but for the empty one."""
        numbers = [each.number for each in self.names if each.index < cut < each.safe]
        if len(numbers) <= MANY_NAMES:
            for size in range(1, len(numbers) + 1):
                yield from itertools.combinations(numbers, size)
            return
        yield tuple(numbers)
        for number in numbers:
            yield (number,)
            yield tuple(other for other in numbers if other != number)

    def _ways(self, cut: int) -> Iterator[str]:
        """What may have happened to the open writes of a cut."""
        open_writes = [each for each in self.writes if each.index < cut < each.safe]
        yield "all"
        if open_writes:
            yield "none"
        last: Dict[int, Change] = {}
        for each in open_writes:
            last[each.target] = each
            if len(open_writes) > 1:
                yield f"drop.{each.index}"
        for each in last.values():
            if len(last) > 1:
                yield f"file.{each.index}"
            if each.data:
                yield f"size.{each.index}"
                yield from self._torn(each)

    @staticmethod
    def _torn(write: Change) -> Iterator[str]:
        size = len(write.data or b"")
        sectors = range(write.at // SECTOR * SECTOR, write.at + size, SECTOR)
        odd = {write.at + 1, write.at + size // 2, write.at + size - 1}
        for at in sorted(odd | set(sectors)):
            if write.at < at < write.at + size:
                yield f"cut.{write.index}.{at}"
        for at in sectors:
            yield f"zeros.{write.index}.{at}"
            yield f"garbage.{write.index}.{at}"

    def disk(self, state: State) -> Disk:
        """What is on the disk then."""
        names = dict(self.at_first)
        for each in self.names:
            if each.index < state.cut and (each.safe <= state.cut or each.number not in state.lost):
                names.pop(each.gone, None)
                if each.file:
                    names[each.name] = each.file
        found: Disk = {}
        for name, file in sorted(names.items()):
            if name and (folder_of(name) == "" or folder_of(name) in found):  # a folder takes along what is in it
                found[name] = None if self.first[file] is None else bytes(self._content(file, state))
        return found

    def _content(self, file: int, state: State) -> bytearray:
        """The bytes of a file then."""
        way, *numbers = state.writes.split(".")
        index, at = (*map(int, numbers), 0, 0)[:2]
        writes, known = self._writes_of(file)
        mine = any(each.index == index for each in writes)
        start = 0  # from here on it is not the same in all states
        while start < len(writes) and writes[start].safe <= state.cut:
            start += 1
        content = bytearray(known[start // CHECKPOINT])
        for each in writes[start // CHECKPOINT * CHECKPOINT :]:
            if each.index >= state.cut:
                break
            data = each.data
            if each.safe > state.cut:
                if way == "none" or (way == "file" and mine) or (way == "drop" and each.index == index):
                    continue
                if data is not None and mine and (way == "size" or each.index == index):
                    data = _damaged(data, way, at - each.at)
            _apply(content, each.at, data)
        return content

    def _writes_of(self, file: int) -> Tuple[List[Change], List[bytes]]:
        """What is written to the file, and what is in it after none, CHECKPOINT, twice CHECKPOINT of these..."""
        if file not in self._checkpoints:
            writes = [each for each in self.writes if each.target == file]
            content = bytearray(self.first[file] or b"")
            known = [bytes(content)]
            for number, each in enumerate(writes, 1):
                _apply(content, each.at, each.data)
                if number % CHECKPOINT == 0:
                    known.append(bytes(content))
            self._checkpoints[file] = writes, known
        return self._checkpoints[file]


def _damaged(data: bytes, way: str, at: int) -> bytes:
    """What is left of the data of a write. `at` is where in it."""
    if way == "cut":
        return data[:at]
    if way == "size":
        return bytes(len(data))
    if way not in ("zeros", "garbage"):
        return data
    start, end = max(at, 0), min(at + SECTOR, len(data))
    return data[:start] + (b"\0" if way == "zeros" else b"\xa5") * (end - start) + data[end:]


def _apply(content: bytearray, at: int, data: Optional[bytes]) -> None:
    if data is None:
        content[at:] = bytes(max(0, at - len(content)))
    else:
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(data)] = data


def write_disk(disk: Disk, folder: Path) -> None:
    """Makes the files of a state below a folder."""
    for name, content in sorted(disk.items()):
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)



def read_disk(folder: Path) -> Disk:
    """The files that are below a folder."""
    files = folder.rglob("*")
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in files}
