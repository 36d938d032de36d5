"""A plain model of one sorted set (11 and later): a sorted list."""
from __future__ import annotations

import bisect
from typing import Dict, List, Sequence, Tuple

from harness import Conn, settings, wire
from harness.model import INT64_MAX

__tracebackhide__ = settings.__tracebackhide__

ALL = ("-inf", "", 0, INT64_MAX)  # what follows `zquery key` for the whole set


class Pairs:
    """One sorted set in Python: by name in a dict, by (score, name) in a sorted list."""

    def __init__(self) -> None:
        self.scores: Dict[bytes, float] = {}
        self.pairs: List[Tuple[float, bytes]] = []

    def add(self, score: float, name: bytes) -> int:
        new = not self.remove(name)
        self.scores[name] = score + 0.0
        bisect.insort(self.pairs, (score + 0.0, name))
        return int(new)

    def remove(self, name: bytes) -> int:
        if name not in self.scores:
            return 0
        del self.pairs[bisect.bisect_left(self.pairs, (self.scores.pop(name), name))]
        return 1

    def query(self, score: float, name: bytes, offset: int = 0, limit: int = INT64_MAX) -> List[object]:
        at = bisect.bisect_left(self.pairs, (score, name)) + offset
        if at < 0 or limit <= 0:
            return []
        return [value for pair in self.pairs[at : at + limit] for value in (pair[1], pair[0])]


def add_all(conn: Conn, key: str, pairs: Sequence[Tuple[wire.Arg, wire.Arg]]) -> None:
    """Adds (score, name) pairs whose names are new."""
    conn.pipeline([("zadd", key, score, name) for score, name in pairs], [1] * len(pairs))
