"""What cases say to a server of any chapter: requests, and the replies that must come."""
from __future__ import annotations

import os
import resource
from typing import Dict, List, Sequence, Tuple

from harness import Conn, Server, Status, wire
from harness.wire import Arg

Request = Tuple[Arg, ...]

ROOM = 200  # descriptors that pytest needs besides its connections


def start(chapter: int, **options: object) -> Server:
    """A server that closes no connection only because the test is slow."""
    env: Dict[str, str] = {"IDLE_TIMEOUT_MS": "0", **options.pop("env", {})}  # type: ignore[dict-item]
    return Server(chapter, env=env, **options)  # type: ignore[arg-type]


def done(chapter: int) -> object:
    """The reply to a `set`."""
    return Status(0, b"") if chapter < 9 else None


def found(chapter: int, value: bytes) -> object:
    """The reply to a `get` of a key that is there."""
    return Status(0, value) if chapter < 9 else value


def missing(chapter: int) -> object:
    """The reply to a `get` of a key that is not there."""
    return Status(2, b"") if chapter < 9 else None


def talk(chapter: int, n: int, tag: str = "", size: int = 0) -> Tuple[List[Request], List[object]]:
    """n requests and their replies, which tell one request from another (04 always says world).

    tag keeps apart what several connections say. size pads each text or value to that many bytes.
    """
    requests: List[Request] = []
    replies: List[object] = []
    for i in range(n):
        text = f"{tag}:{i - i % 2 if chapter >= 7 else i}".ljust(size, ".").encode()
        if chapter < 7:
            requests.append((text,))
            replies.append(b"world" if chapter == 4 else text)
        elif i % 2 == 0:
            requests.append(("set", f"{tag}key", text))
            replies.append(done(chapter))
        else:
            requests.append(("get", f"{tag}key"))
            replies.append(found(chapter, text))
    return requests, replies


def encode(chapter: int, requests: Sequence[Request]) -> bytes:
    """The bytes of these requests, one after the other."""
    if chapter >= 7:
        return b"".join(wire.request(*args) for args in requests)
    return b"".join(wire.frame(wire.to_bytes(text)) for (text,) in requests)


def encode_replies(chapter: int, replies: Sequence[object]) -> bytes:
    """The bytes of these replies, one after the other."""
    return b"".join(wire.frame(wire.encode_reply(chapter, reply)) for reply in replies)


def say(conn: Conn, n: int = 2, tag: str = "say") -> None:
    """n requests on a connection, each after the reply to the one before."""
    for request, reply in zip(*talk(conn.chapter, n, tag)):
        conn.ask(*request, expect=reply)


def still_serves(server: Server) -> None:
    """A new connection gets its answers, and in time."""
    with server.connect(seconds=2) as conn:
        say(conn, tag="still")


def many(wanted: int) -> int:
    """As many connections as wanted, fewer where this process may not have so many.

    Call it before the server is started: it raises the limit, which the server inherits.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + ROOM if hard == resource.RLIM_INFINITY else min(hard, wanted + ROOM)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - ROOM)


def watched() -> bool:
    """Do the programs run under a sanitizer or valgrind, which need memory and time of their own?"""
    return bool(os.environ.get("SAN") or os.environ.get("WRAPPER"))
