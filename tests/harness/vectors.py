"""Vectors: the examples of the protocol as data, played against servers and clients.

tests/vectors/README.md has their form. A test file plays those of its chapter with

    from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

    @pytest.mark.parametrize("vector", vector_cases(7))
    def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
        vector_servers.play(vector, 7)
"""
from __future__ import annotations

import functools
import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Set, Tuple, Union

import pytest

from . import diagnose, resp, settings, wire
from .codec import Binary, Resp, codec, requests, split_replies
from .conn import ANY, Conn, exchange
from .failure import Failure, explained
from .fake import FakeServer, replies
from .model import COMMANDS
from .process import Server, run_client

__tracebackhide__ = settings.__tracebackhide__

FOLDER = settings.ROOT / "tests" / "vectors"
CHAPTERS = [chapter for chapter in settings.CHAPTERS if chapter >= 4]
ALL_LATER = 99  # in place of a last chapter
ENV = {"IDLE_TIMEOUT_MS": "0"}  # no connection is closed only because the test is slow
LARGE = 1 << 20  # a vector that sends more is played only as it stands
# replies that a vector leaves free in part, by the field of a step that has them
FREE_REPLIES: Dict[str, Callable[[Any, "Binary | Resp"], object]] = {
    "error": lambda number, _: wire.Err(number),
    "status": lambda number, _: wire.Status(number),
    "between": lambda ends, _: wire.Between(*ends),
    "any_order": lambda items, language: wire.AnyOrder([language.decode(to_bytes(item)) for item in items]),
    "any": lambda *_: ANY,
}

BytesSpec = Union[str, List[Union[str, Dict[str, object]]]]


@dataclass(frozen=True)
class Step:
    """What one step sends on a connection, and what must come back on it, in this order."""

    connection: int = 1
    send_spec: BytesSpec = ""
    end: bool = False  # of our input
    reply_spec: BytesSpec = ""
    free: Mapping[str, object] = field(default_factory=dict)  # or one message, as one of FREE_REPLIES
    closed: bool = False
    wait_ms: int = 0
    note: str = ""

    @property
    def send(self) -> bytes:
        """The bytes to send. Not kept: those of some vectors are large."""
        return to_bytes(self.send_spec)

    @property
    def reply(self) -> bytes:
        """Whole messages; in chapter 05 bytes."""
        return to_bytes(self.reply_spec)

    def replies(self, chapter: int, version: int = 2) -> List[object]:
        """What each message in reply must be: a decoded value or a pattern (see wire)."""
        if not self.free:
            language = codec(chapter)
            bodies, rest = split_replies(language, self.reply)
            assert not rest, f"{len(rest)} bytes after the last whole message of a reply"
            values = [language.decode(body, version) for body in bodies]
            return [resp.NIL if value is None and codec(chapter).is_resp else value for value in values]
        ((kind, value),) = self.free.items()
        return [FREE_REPLIES[kind](value, codec(chapter))]


@dataclass(frozen=True)
class Vector:
    """One vector: steps for a server, or replies that a client prints."""

    file: str
    name: str
    first: int
    last: int
    shown: bool = False  # stands in book/protocol.md
    empty: bool = False  # begins with a server without keys
    env: Mapping[str, str] = field(default_factory=dict)
    version: int = 2  # of RESP, which its first step has asked for
    ours: str = ""  # why it holds for our servers and not for Redis
    note: str = ""
    steps: Sequence[Step] = ()
    prints: Sequence[Tuple[bytes, str]] = ()

    def commands(self) -> Set[str]:
        """The names of commands that stand in what it sends."""
        sent = [beginning(step.send_spec).lower() for step in self.steps]
        names = resp.EVERY if codec(self.first).is_resp else COMMANDS
        return {name.decode() for name in names if any(name in data for data in sent)}

    def holds_for(self, chapter: int) -> bool:
        return self.first <= chapter <= self.last and codec(self.first).is_resp == codec(chapter).is_resp

    def keys(self) -> Set[bytes]:
        """The keys that its commands name."""
        found = set()
        for step in self.steps if self.first >= 7 else ():
            for request in requests(codec(self.first), step.send):
                try:
                    words = codec(self.first).words(request)
                except wire.WireError:
                    continue
                _, count = COMMANDS.get(words[0].lower(), (0, 0)) if words else (0, 0)
                if codec(self.first).is_resp:
                    found |= set(resp.keys(words))
                elif len(words) == count > 1:
                    found.add(words[1])
        return found


# ---- reading ----------------------------------------------------------------------------------


def to_bytes(spec: BytesSpec) -> bytes:
    """The bytes that hex digits stand for, or a list of these, of {"hex": ..., "times": n} and of {"text": ...}."""
    if isinstance(spec, str):
        return bytes.fromhex(spec)
    return b"".join(map(_part, spec))


def beginning(spec: BytesSpec) -> bytes:
    """The same, where no part is repeated beyond the first LARGE bytes: to look at, at little cost."""
    return to_bytes(spec) if isinstance(spec, str) else b"".join(_part(part, LARGE) for part in spec)


def _part(part: Union[str, Dict[str, object]], most: int = 1 << 40) -> bytes:
    if isinstance(part, str):
        return bytes.fromhex(part)
    times = part.get("times", 1)
    assert isinstance(times, int) and set(part) - {"times"} in ({"hex"}, {"text"}), part
    data = bytes.fromhex(str(part["hex"])) if "hex" in part else str(part["text"]).encode("latin-1")
    return data * min(times, most // max(1, len(data)) + 1)


@functools.lru_cache(maxsize=None)
def load_vectors(folder: Path = FOLDER) -> List[Vector]:
    """All vectors of tests/vectors (or another folder), file by file."""
    return [
        _vector(path.name, raw)
        for path in sorted(folder.glob("*.json"))
        for raw in json.loads(path.read_text(encoding="utf-8"))
    ]


def _vector(file: str, raw: Dict[str, object]) -> Vector:
    raw = dict(raw)
    name = raw.pop("name", "?")
    try:
        first, last = (*raw.pop("chapters"), ALL_LATER)[:2]  # type: ignore[misc]
        steps = [_step(step) for step in raw.pop("steps", [])]  # type: ignore[attr-defined]
        prints = [(to_bytes(p["reply"]), p["text"]) for p in raw.pop("prints", [])]  # type: ignore[attr-defined]
        assert bool(steps) != bool(prints), "either steps or prints"
        return Vector(file, name, first, last, steps=steps, prints=prints, **raw)  # type: ignore[arg-type]
    except (AssertionError, KeyError, TypeError, ValueError) as e:
        raise ValueError(f"tests/vectors/{file}: {name}: {e!r}; tests/vectors/README.md has the form") from e


def _step(raw: Dict[str, object]) -> Step:
    raw = dict(raw)
    free = {kind: raw.pop(kind) for kind in FREE_REPLIES if kind in raw}
    assert len(free) + ("reply" in raw) <= 1, f"more than one reply in {raw}"
    specs = {f"{k}_spec": raw.pop(k) for k in ("send", "reply") if k in raw}
    step = Step(free=free, **specs, **raw)  # type: ignore[arg-type]
    beginning(step.send_spec), beginning(step.reply_spec)  # they can be read
    return step


@functools.lru_cache(maxsize=None)
def _with_chapters() -> List[Tuple[Vector, List[int]]]:
    return [(v, list(filter(v.holds_for, settings.CHAPTERS))) for v in load_vectors()]


def vector_cases(chapter: int) -> "List[object]":
    """The vectors that hold for the chapter, for pytest.mark.parametrize."""
    found = [
        pytest.param(v, id=f"{chapter:02}-{v.name}", marks=[
            *[pytest.mark.between] * settings.between(chapter, chapters),
            *([pytest.mark.ours(v.ours)] if v.ours else []),
        ])
        for v, chapters in _with_chapters()
        if chapter in chapters
    ]
    assert found, f"no vector holds for chapter {chapter}"
    return found  # type: ignore[return-value]


# ---- playing ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """A step as one way of playing has it: bytes to send, then messages to expect."""

    connection: int
    send: bytes
    replies: Tuple[object, ...]
    raw: bytes  # in place of replies in chapter 05, which has no messages
    end: bool
    closed: bool
    wait_ms: int


def turns(vector: Vector, chapter: int) -> List[Turn]:
    """The steps one by one."""
    return [
        Turn(s.connection, s.send, () if codec(chapter).is_echo else tuple(s.replies(chapter, vector.version)),
             s.reply if codec(chapter).is_echo else b"", s.end, s.closed, s.wait_ms)
        for s in vector.steps
    ]  # fmt: skip


def in_one_write(steps: Sequence[Turn]) -> List[Turn]:
    """Consecutive steps on a connection joined: all is sent before the first reply is looked at."""
    out: List[Turn] = []
    for step in steps:
        last = out[-1] if out else None
        if last and last.connection == step.connection and not (last.end or last.closed or last.wait_ms):
            step = replace(
                step, send=last.send + step.send, replies=last.replies + step.replies, raw=last.raw + step.raw
            )
            out.pop()
        out.append(step)
    return out


def pieces(data: bytes) -> Iterator[bytes]:
    """Single bytes; of long data those at the front and at the back, and some larger pieces between."""
    front, back = (len(data), len(data)) if len(data) <= 600 else (64, len(data) - 16)
    for i in range(front):
        yield data[i : i + 1]
    size = (back - front) // 5 + 1
    for i in range(front, back, size):
        yield data[i : min(i + size, back)]
    for i in range(back, len(data)):
        yield data[i : i + 1]


def play(server: object, chapter: int, script: Sequence[Turn], byte_by_byte: bool = False, version: int = 2) -> None:
    """Plays the turns once, on connections of their own. byte_by_byte: all that is sent arrives in pieces."""
    _Play(server, chapter, byte_by_byte, version).run(script)


class _Play:
    def __init__(self, server: object, chapter: int, byte_by_byte: bool, version: int) -> None:
        self.server, self.chapter, self.byte_by_byte, self.version = server, chapter, byte_by_byte, version
        self.conns: Dict[int, Conn] = {}
        self.sent: Dict[int, bytearray] = {}  # without what has been answered
        self.slow = 20  # so many bytes surely arrive alone, the others most of the time

    def run(self, script: Sequence[Turn]) -> None:
        try:
            for number, turn in enumerate(script, 1):
                try:
                    self._play(turn)
                except AssertionError as e:
                    where = f"step {number} of {len(script)}: " if len(script) > 1 else ""
                    raise explained(e).within(where) from None
                time.sleep(turn.wait_ms / 1000)
            for conn in self.conns.values():
                with suppress(OSError):
                    conn.shutdown_write()
                conn.expect_closed()  # and no byte more than was expected
        finally:
            for conn in self.conns.values():
                conn.close()

    def _play(self, turn: Turn) -> None:
        conn = self.conns.get(turn.connection)
        if conn is None:
            conn = self.conns[turn.connection] = Conn(getattr(self.server, "port"), self.chapter)
            conn.version = self.version
            self.sent[turn.connection] = bytearray()
        self.sent[turn.connection] += turn.send
        unsent = turn.send
        if self.byte_by_byte:
            for piece in pieces(turn.send):
                conn.send(piece)
                self.slow -= 1
                time.sleep(0.0002) if self.slow > 0 else os.sched_yield()  # the server reads it
            unsent = b""
        if turn.end:
            conn.send(unsent)
            unsent = b""
            with suppress(OSError):  # hung up already
                conn.shutdown_write()
        if turn.raw:
            conn.send(unsent)
            conn.expect_bytes(turn.raw)
        else:
            self._expect(conn, turn, exchange([(conn, unsent, len(turn.replies))])[0])
        if turn.closed:
            conn.expect_closed()

    def _expect(self, conn: Conn, turn: Turn, bodies: Sequence[bytes]) -> None:
        sent = self.sent[turn.connection]
        for i, (body, expected) in enumerate(zip(bodies, turn.replies), 1):
            asked = next(iter(requests(conn.codec, bytes(sent), 1)), bytes(sent))
            where = f"reply {i} of {len(turn.replies)}: " if len(turn.replies) > 1 else ""
            conn.check(body, expected, asked, where)
            del sent[: len(asked)]


class VectorServers:
    """Plays vectors; keeps a server running for each chapter that it has met."""

    def __init__(self) -> None:
        self._running: Dict[int, Server] = {}

    def __enter__(self) -> "VectorServers":
        return self

    def __exit__(self, *error: object) -> None:
        for server in self._running.values():
            server.__exit__(*error)

    def play(self, vector: Vector, chapter: int) -> None:
        """Plays it as it stands, all in one write, and one byte at a time; or a client's vector."""
        if vector.prints:
            play_client(vector, chapter)
            return
        plain = turns(vector, chapter)
        joined = in_one_write(plain)
        ways = [("", plain, False)]
        if sum(len(turn.send) for turn in plain) <= LARGE:
            ways += [(", all in one write", joined, False)] * (joined != plain)
            ways += [(", one byte at a time", plain, True)] * any(turn.send for turn in plain)
        for way, script, byte_by_byte in ways:
            try:
                with self._server(vector, chapter) as server:
                    play(server, chapter, script, byte_by_byte, vector.version)
            except AssertionError as e:
                where = f"vector {vector.name} of tests/vectors/{vector.file}{way}"
                raise explained(e).and_also("vector", where + (f"\n{vector.note}" if vector.note else "")) from None

    @contextmanager
    def _server(self, vector: Vector, chapter: int) -> Iterator[Server]:
        """The chapter's server, without the vector's keys; one of its own where the vector needs it."""
        if vector.env or vector.empty:
            with Server(chapter, env={**ENV, **vector.env}) as own:
                yield own
            return
        if chapter not in self._running:
            self._running[chapter] = Server(chapter, env=ENV).__enter__()
        server = self._running[chapter]
        try:
            keys = sorted(vector.keys())
            if keys:
                with Conn(server, chapter) as conn:
                    conn.pipeline([("del", key) for key in keys])
            yield server
        except AssertionError as e:
            if diagnose.ended(server):
                del self._running[chapter]
                server.__exit__(type(e), e, None)  # says how it ended
            raise


@pytest.fixture(scope="module")
def vector_servers() -> Iterator[VectorServers]:
    """For the tests of a file; see the head of this one."""
    with VectorServers() as servers:
        yield servers


# ---- clients ----------------------------------------------------------------------------------


def play_client(vector: Vector, chapter: int) -> None:
    """Has the client ask a server that gives these replies, and compares what it prints."""
    for reply, text in vector.prints:
        with FakeServer(replies(reply, chapter=chapter)) as server:
            result = run_client(chapter, ["get", "k"], server)
        if (result.stdout, result.status) != (text, 0):
            raise Failure("the client prints something else", [
                ("vector", [f"vector {vector.name} of "
                            f"tests/vectors/{vector.file}", *([vector.note] if vector.note else [])]),
                ("reply", wire.hexdump(reply)),
                ("expected", [f"{text!r}, exit status 0"]),
                ("came", [f"{result.stdout!r}, exit status {result.status}", f"on standard error: {result.stderr!r}"]),
            ])  # fmt: skip
