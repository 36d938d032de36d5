"""Logs of chapter 27 in their form of batches, for graders: made, read, and judged as 27-log-check asks for.

    log = Log()
    log.add([b"set", b"k", b"v"])                # one batch
    log.mark()                                   # all so far is on the disk
    judge(log.data)                              # Found(batches=2, commands=1, whole=..., end="whole")
"""
from __future__ import annotations

import re
from typing import Iterator, List, NamedTuple, Optional, Sequence

from cases.append_only import batch, commands_of, crc64

HEAD, TAIL = 40, 23  # bytes of the lines in front of and behind the commands
Command = List[bytes]


def command(words: Sequence[bytes]) -> bytes:
    """A command as it stands in a log: the number of words, and each with its length."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Log:
    """A log that grows, batch by batch."""

    def __init__(self) -> None:
        self.data = b""
        self.synced = 0  # what the batches say

    def add(self, *commands: Sequence[bytes]) -> int:
        """Appends a batch of these commands. Returns where it begins."""
        offset = len(self.data)
        self.data += batch(b"".join(map(command, commands)), offset, self.synced)
        return offset

    def mark(self) -> None:
        """Appends a batch without commands: all that is in front of it is on the disk."""
        self.synced = len(self.data)
        self.add()


class Batch(NamedTuple):
    """A batch that is whole: where it begins and ends, how much it says was on the disk, its commands."""

    begin: int
    end: int
    synced: int
    commands: List[Command]


def batch_at(data: bytes, pos: int) -> Optional[Batch]:
    """The batch that begins there, None where none does that is whole."""
    head = re.match(rb"#BATCH:(\d{10}) (\d{20})\r\n", data[pos : pos + HEAD])
    if not head:
        return None
    end = pos + HEAD + int(head[1])
    tail = b"#CRC:%016x\r\n" % crc64(pos.to_bytes(8, "little") + data[pos:end])
    if data[end : end + TAIL] != tail:
        return None
    return Batch(pos, end + TAIL, int(head[2]), commands_of(data[pos + HEAD : end]))


def batches(data: bytes) -> Iterator[Batch]:
    """The batches from the beginning on, up to what is not right."""
    pos = 0
    while True:
        found = batch_at(data, pos)
        if not found:
            return
        yield found
        pos = found.end


class Found(NamedTuple):
    """What there is to say of a log: what is whole of it, and what follows, whole (nothing), torn or damaged."""

    batches: int
    commands: int
    whole: int  # bytes
    end: str


def judge(data: bytes) -> Found:
    """What logcheck has to say of a log: README.md of 27-log-check has the rules."""
    whole = list(batches(data))
    end = whole[-1].end if whole else 0
    behind = (batch_at(data, end + found.start()) for found in re.finditer(rb"#BATCH:", data[end:]))
    what = "whole" if end == len(data) else "damaged" if any(b and b.synced > end for b in behind) else "torn"
    return Found(len(whole), sum(len(each.commands) for each in whole), end, what)
