"""What is freed is merged a few blocks at a time, so that no allocation ever has to merge very many (08 and later)."""
from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from harness import fail, settings

from . import case
from .talk import bulk, done, numbered, preload, say, start, watched

__tracebackhide__ = settings.__tracebackhide__


class Merges:
    """Counts the blocks that one allocation has to merge (cases/merges.c): Merges().env goes to start()."""

    def __init__(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(bytes(16))
        self.file.flush()
        os.chmod(self.file.name, 0o666)  # the server may run as another user
        self.env = {"MERGES_FILE": self.file.name, **preload("merges")}

    def most(self) -> int:
        """The most blocks that were set aside at any time."""
        return int.from_bytes(Path(self.file.name).read_bytes()[8:16], sys.byteorder)


def tells() -> bool:
    """Is this glibc, and no sanitizer with an allocator of its own?"""
    return platform.libc_ver()[0] == "glibc" and not watched()


@case(since=8, inside=True)
def merged_a_few_at_a_time(chapter: int) -> None:
    """Twenty thousand keys are deleted, turn by turn. Nothing but the server's own tidying merges them."""
    if not tells():
        return
    merges, n = Merges(), 20_000
    with start(chapter, env=merges.env) as server, server.connect() as conn:
        bulk(conn, numbered(range(n), "set", "key:######", "value"), done(chapter))
        bulk(conn, numbered(range(n), "del", "key:######"), done(chapter) if chapter < 9 else 1)
        say(conn)
    if merges.most() > n // 4:
        fail(f"{n} keys were deleted, and {merges.most()} of the freed blocks waited to be merged in one go")
