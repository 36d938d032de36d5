"""Requests on strings, put together with their replies, and keys that have the same hash (07 and later)."""
from __future__ import annotations

from typing import Dict, List, Tuple

from harness import Conn, Status, settings
from harness.wire import DELETED, DONE, MISSING, NOT_THERE

__tracebackhide__ = settings.__tracebackhide__


class Script:
    """Requests on a few keys and the replies that must come, put together in one go."""

    def __init__(self, chapter: int) -> None:
        self.chapter = chapter
        self.now: Dict[bytes, bytes] = {}  # what the server holds after the last request
        self.requests: List[Tuple[bytes, ...]] = []
        self.replies: List[object] = []

    def ask(self, reply: object, *words: bytes) -> None:
        self.requests.append(words)
        self.replies.append(reply)

    def set(self, key: bytes, value: bytes) -> None:
        self.now[key] = value
        self.ask(DONE, b"set", key, value)

    def get(self, key: bytes) -> None:
        there = key in self.now
        self.ask(Status(0, self.now[key]) if there else MISSING, b"get", key)

    def delete(self, key: bytes) -> None:
        there = self.now.pop(key, None) is not None
        self.ask(DELETED if there else NOT_THERE, b"del", key)

    def play(self, conn: Conn, batch: int = 10_000) -> None:
        """Sends all requests, a batch at a time, and compares the replies."""
        for i in range(0, len(self.requests), batch):
            conn.pipeline(self.requests[i : i + batch], self.replies[i : i + batch])
        self.requests, self.replies = [], []


BAD_SEEDS = ["0", "x", "0" * 31, "0" * 33, "0" * 31 + "g", "0x" + "0" * 30, "-" + "0" * 31]
BAD_SEEDS += [" " + "0" * 31, "0" * 31 + " ", "0" * 15 + " " + "0" * 16]

# Pairs of keys that have the same hash where the first 16 digits of HASH_SEED are the number k0 of
# SipHash-1-3, the other 16 are k1, and the lower 32 bits are taken.
SEED = "000102030405060708090a0b0c0d0e0f"
SAME_HASH = (
    "00fd5b01fd5d 01478c0260ca 01c3d7036946 005c720218d0 0105a4039c2f 0004a100f16f 00bf6f036797 "
    "02f63b03aa1d 009ec4024ef0 key:028b86key:028ea7 key:01531dkey:015589 key:007fd7key:031a57 "
    "long-prefix:001e29long-prefix:01ff14 long-prefix:00735clong-prefix:027b03"
)
