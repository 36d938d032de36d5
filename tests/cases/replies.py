"""Large replies (09 and later), and what the server's memory does meanwhile."""
from __future__ import annotations

import functools
from typing import List, Sequence

from harness import Conn, Server, fail, settings

from .talk import asked, bulk, numbered, watched

__tracebackhide__ = settings.__tracebackhide__

LIMIT = 32 << 20  # of a message, in bytes
MIB = 1 << 20


def memory_below(server: Server, before_kb: int, bound_mib: int, what: str) -> None:
    """Fails where the server's memory has grown by more than that.

    Sanitizers have memory of their own; other languages have collectors that take their time.
    """
    if settings.foreign("server"):
        bound_mib = 4 * bound_mib + 64
    grown = (server.rss_kb() - before_kb) >> 10
    if grown > bound_mib and not watched():
        fail(
            f"{what}: the server's memory has grown by {grown} MiB",
            "is something kept that is used no more: a buffer as large as its largest message, a reply that was taken "
            "back, memory for a length that was only announced? Or is something never freed?",
            f"at most {bound_mib} MiB more than before",
        )


def filled(size: int, tag: int = 0) -> bytes:
    """Bytes of that many, of every value, where a shift or a swap of a part shows."""
    block = _block(tag)
    return (block * (size // len(block) + 1))[:size]


@functools.lru_cache(maxsize=None)
def _block(tag: int) -> bytes:
    return b"".join(b"%06x" % (tag << 16 | i) + bytes([i % 256, tag]) for i in range(1009))


# ---- long replies ----


def reply_size(conn: Conn, value: object) -> int:
    """The bytes of a reply that the limit is compared with."""
    return len(conn.codec.reply(value)) - conn.codec.head


def long_request(conn: Conn) -> bytes:
    """A request that takes long, and has an empty list for its reply: `keys` that looks into 131,072 buckets, as there
    were many keys and are none. From 23 on a table shrinks, so there are many keys, and none that it looks for."""
    if conn.codec.has_scan:
        bulk(conn, numbered(range(70_000), "set", "key:######", ""), None)
        return asked(conn.chapter, "keys", "none*")
    bulk(conn, numbered(range(140_000), "set", "key:######", ""), None)
    bulk(conn, numbered(range(140_000), "del", "key:######"), 1)
    return asked(conn.chapter, "keys")


def fill_keys(conn: Conn, total: int, n: int, beside: Sequence[bytes] = ()) -> List[bytes]:
    """Sets n keys, so that the reply to `keys`, with those that are there beside them, has `total` bytes."""
    names = [b"%c" % (65 + i) * (total // n - 100_000) for i in range(n)]
    room = total - reply_size(conn, [*names, *beside])
    names = [name + name[:1] * (room // n + (i < room % n)) for i, name in enumerate(names)]
    assert reply_size(conn, [*names, *beside]) == total
    for name in names:
        conn.ask("set", name, "", expect=None)
    return names
