"""A connection that speaks the protocol, and whose failures explain themselves.

Every wait has a limit: `seconds` (times TEST_TIME_FACTOR) in which not one byte moved.
"""
from __future__ import annotations

import selectors
import socket
import struct
import time
from types import TracebackType
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple, Type, Union

from . import settings, wire
from .settings import fail, limit
from .wire import Arg, Err, Status

if TYPE_CHECKING:
    from .process import Server

__tracebackhide__ = settings.__tracebackhide__

ANY = object()  # expect=ANY: whatever comes
SHOWN = 1 << 18  # bytes of what was sent that a failure looks at


class Conn:
    """A TCP connection to a server (or a port) of a chapter; also a context manager.

    rcvbuf sets a small receive buffer, in bytes (for clients that do not read).
    """

    def __init__(
        self,
        server: Union["Server", int],
        chapter: Optional[int] = None,
        *,
        seconds: float = 5.0,
        rcvbuf: Optional[int] = None,
    ) -> None:
        self.port = server if isinstance(server, int) else server.port
        self.chapter = chapter if chapter is not None else getattr(server, "chapter")
        self.seconds = seconds
        self.ended = ""  # "closed" or "reset" once the peer did that
        self.broken = False  # a reset met us while sending
        self.buffer = bytearray()  # received, not yet taken
        self.unanswered = bytearray()  # sent, the reply not yet taken
        self.answered = 0  # bytes sent before these
        self.cuts: List[int] = []  # where each send began, in bytes sent
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if rcvbuf is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(limit(seconds))
        try:
            self.sock.connect(("127.0.0.1", self.port))
        except OSError as e:
            self.sock.close()
            fail(f"cannot connect to 127.0.0.1:{self.port}: {e}: is the server still running?")
        self.sock.setblocking(False)

    def __enter__(self) -> "Conn":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    # ---- asking ----

    def ask(self, *args: Arg, expect: object = ANY) -> object:
        """Sends one request and returns its reply; with expect=, fails where it is another.

        A request is the strings of a command (07 on) or one text (04 to 06).
        """
        self.send(self.encode(args))
        return self.recv(expect)

    def pipeline(
        self, requests: Sequence[Sequence[Arg]], expect: Optional[Sequence[object]] = None
    ) -> List[object]:
        """Sends all requests while reading; returns all replies, compared with expect where given."""
        data = b"".join(map(self.encode, requests))
        bodies = exchange([(self, data, len(requests))])[0]
        wanted = [ANY] * len(requests) if expect is None else expect
        assert len(wanted) == len(requests), "expect has another length than requests"
        replies: List[object] = []
        for i, body in enumerate(bodies):
            where = f"reply {i + 1} of {len(bodies)}: "
            replies.append(self.check(body, wanted[i], requests[i], where))
        return replies

    def recv(self, expect: object = ANY) -> object:
        """Waits for the next message and returns it decoded; with expect=, compares it."""
        sent = self._first_unanswered()
        return self.check(self.recv_body(), expect, sent)

    def recv_body(self) -> bytes:
        """Waits for the next message and returns its body as it is."""
        return exchange([(self, b"", 1)])[0][0]

    def encode(self, args: Sequence[Arg]) -> bytes:
        """The framed request of this chapter."""
        if self.chapter >= 7:
            return wire.request(*args)
        (text,) = args
        return wire.frame(wire.to_bytes(text))

    # ---- raw bytes ----

    def send(self, data: bytes) -> None:
        """Sends the bytes, reading nothing meanwhile.

        Where the server hangs up meanwhile the rest is dropped, and the next recv tells.
        """
        self._note_sent(data)
        view = memoryview(data)
        while view:
            sent = self._try_send(view)
            view = view[sent:]
            if not sent and not self._ready(selectors.EVENT_WRITE, limit(self.seconds)):
                self._fail(f"the server took no byte for {limit(self.seconds):g} s")

    def send_some(self, data: bytes, seconds: float = 0.2) -> int:
        """Sends as much as the server takes until it takes nothing for that time. Returns bytes."""
        view = memoryview(data)
        while view:
            sent = self._try_send(view)
            view = view[sent:]
            if not sent and not self._ready(selectors.EVENT_WRITE, seconds):
                break
        done = len(data) - len(view)
        self._note_sent(data[:done])
        return done

    def send_pieces(self, data: bytes, size: int = 1, gap: float = 0.0005) -> None:
        """Sends the bytes in pieces of that size, with a gap in seconds that lets each be read."""
        for i in range(0, len(data), size):
            self.send(data[i : i + size])
            time.sleep(gap)

    def recv_exactly(self, n: int) -> bytes:
        """Waits for n bytes and returns them."""
        while len(self.buffer) < n:
            self._wait_input(n, f"{len(self.buffer)} of {n} bytes")
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def expect_bytes(self, expected: bytes) -> None:
        """Waits for exactly these bytes; shows the first wrong one."""
        end = time.monotonic() + limit(self.seconds)
        while len(self.buffer) < len(expected) and expected.startswith(bytes(self.buffer)):
            if self.ended or not self._fill(end):
                break
        got = bytes(self.buffer[: len(expected)])
        if got != expected:
            mark = _first_difference(expected, got)
            what = "other bytes came back" if len(got) > mark else self._shortage(mark, len(expected))
            self._fail(what, expected=wire.hexdump(expected), mark=mark)
        del self.buffer[: len(expected)]
        self._answered(sum(4 + len(b) for b in wire.split_frames(bytes(self.unanswered))[0]))

    # ---- the end of a connection ----

    def expect_closed(self, reset_ok: bool = True) -> None:
        """Waits until the server closes; fails where bytes come first, or nothing happens.

        A reset counts as closing (the server had unread input) unless reset_ok is False.
        """
        end = time.monotonic() + limit(self.seconds)
        while not self.ended and not self.buffer:
            if not self._fill(end):
                self._fail(f"the connection is still open after {limit(self.seconds):g} s",
                           expected=["the connection closed by the server"])  # fmt: skip
        if self.buffer:
            self._fail("bytes came where the connection should be closed", mark=0,
                       expected=["the connection closed by the server"])  # fmt: skip
        if self.ended == "reset" and not reset_ok:
            self._fail("the connection was reset, not closed",
                       cause="was it closed with input unread, or did the server crash?")  # fmt: skip

    def expect_silence(self, seconds: float = 0.1) -> None:
        """Fails where a byte or the end arrives within this short time."""
        self._fill(time.monotonic() + limit(seconds))
        if self.buffer or self.ended:
            what = "bytes came" if self.buffer else f"the connection was {self.ended}"
            self._fail(f"{what} where the server should wait", mark=0 if self.buffer else None)

    def read_to_end(self) -> bytes:
        """Everything until the server closes (or resets: see .ended)."""
        while not self.ended:
            if not self._fill(time.monotonic() + limit(self.seconds)):
                self._fail(f"the connection is still open after {limit(self.seconds):g} s")
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def shutdown_write(self) -> None:
        """Ends our sending side; the server sees the end of input."""
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes with a reset instead of an orderly end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        """Closes; twice does no harm."""
        self.sock.close()

    # ---- comparing and explaining ----

    def check(
        self, body: bytes, expect: object, request: Union[bytes, Sequence[Arg], None] = None, where: str = ""
    ) -> object:
        """Decodes a reply body and compares it; fails with an explanation. Returns the value."""
        if isinstance(request, (list, tuple)):
            request = self.encode(request)
        problem, mark, note = "", None, ""
        value: object = None
        try:
            value = wire.decode_reply(self.chapter, body)
        except wire.WireError as e:
            problem, mark, note = "the reply is malformed", e.offset, str(e)
        if expect is not ANY and not problem and not wire.same(expect, value):
            problem = "the reply is wrong"
            plain = wire.nearest(expect, value)
            plain = plain.encode() if isinstance(plain, str) else plain
            mark = _first_difference(wire.encode_reply(self.chapter, plain), body)
        if not problem:
            return value
        lines = [f"{where}{problem} (chapter {self.chapter:02})"]
        lines += _block("sent", _show_sent(self.chapter, request or b""))
        if expect is not ANY:
            lines += _block("expected", [self._show(expect)])
        if not note:
            lines += _block("received", [self._show(value)])
        lines += _block("its bytes", wire.hexdump(wire.u32(len(body)) + body, 4 + (mark or 0), note))
        why = "" if expect is ANY or note else _why(expect, value)
        lines += _block("perhaps", [why] if why else [])
        fail("\n".join(lines))
        return None

    def _show(self, value: object) -> str:
        if self.chapter < 7 and isinstance(value, bytes):
            return wire.show_bytes(value)
        return wire.show_value(value)

    def _fail(
        self, what: str, *, expected: Sequence[str] = (), mark: Optional[int] = None, cause: str = ""
    ) -> None:
        """Fails with what was sent, what has come, and a likely cause."""
        lines = [f"{what} (chapter {self.chapter:02})"]
        lines += _block("sent", _show_sent(self.chapter, bytes(self.unanswered[:SHOWN]), self._pieces()))
        lines += _block("expected", expected)
        if self.buffer:
            lines += _block("received", wire.hexdump(bytes(self.buffer), mark))
        else:
            lines += _block("received", ["nothing"])
        lines += _block("perhaps", [cause or self._cause()])
        fail("\n".join(lines))

    def _cause(self) -> str:
        """A likely cause in plain words."""
        got = len(self.buffer)
        several = len(wire.split_frames(bytes(self.unanswered[:SHOWN]))[0]) > 1
        if got >= 4:
            (n,) = struct.unpack_from("<I", self.buffer)
            (swapped,) = struct.unpack_from(">I", self.buffer)
            if n > wire.max_msg(self.chapter) >= swapped:
                return "the length is big-endian; all numbers of the protocol are little-endian"
            if n == got:
                return "does the length count its own four bytes? it must count only what follows"
        if self._pieces() > 1 and self._first_unanswered_is_whole():
            return f"does the server handle a request that arrives in {self._pieces()} pieces?"
        if self.ended == "reset":
            return "did the server crash, or close with a request unread?"
        if self.ended and got:
            return "the connection ended inside a reply: was all of it written before the close?"
        if self.ended:
            return "did the server crash, or take the request for malformed?"
        if several:
            return "does the server answer every request that lies in its buffer before it waits again?"
        if got:
            return "the server stopped inside a reply: does it go on where a write took only a part?"
        return "does the server wait for more input, or has it not written its reply yet?"

    # ---- the machinery ----

    def _shortage(self, got: int, n: int) -> str:
        if self.ended:
            return f"the connection was {self.ended} after {got} of {n} bytes"
        return f"only {got} of {n} bytes came, then nothing for {limit(self.seconds):g} s"

    def _first_unanswered(self) -> bytes:
        frames, _ = wire.split_frames(bytes(self.unanswered[:SHOWN]))
        return wire.frame(frames[0]) if frames else bytes(self.unanswered[:SHOWN])

    def _first_unanswered_is_whole(self) -> bool:
        data = self.unanswered
        return len(data) >= 4 and len(data) - 4 >= struct.unpack_from("<I", data)[0]

    def _note_sent(self, data: bytes) -> None:
        if data:
            self.cuts.append(self.answered + len(self.unanswered))
            self.unanswered += data

    def _answered(self, n: int) -> None:
        """The first n bytes of what was sent have had their answer."""
        n = min(n, len(self.unanswered))
        del self.unanswered[:n]
        self.answered += n
        if not self.unanswered:
            self.cuts.clear()

    def _pieces(self) -> int:
        """In how many pieces was the first request sent that has no answer yet?"""
        size = len(self.unanswered)
        if size >= 4:
            size = min(size, 4 + struct.unpack_from("<I", self.unanswered)[0])
        return 1 + sum(self.answered < cut < self.answered + size for cut in self.cuts)

    def _take_message(self) -> Optional[bytes]:
        """The next complete body from the buffer, or None. Fails at an impossible length."""
        if len(self.buffer) < 4:
            return None
        (n,) = struct.unpack_from("<I", self.buffer)
        if n > wire.max_msg(self.chapter):
            self._fail(f"a reply of {n} bytes is announced, {wire.max_msg(self.chapter)} are allowed", mark=0)
        if len(self.buffer) < 4 + n:
            return None
        body = bytes(self.buffer[4 : 4 + n])
        del self.buffer[: 4 + n]
        if len(self.unanswered) >= 4:
            self._answered(4 + struct.unpack_from("<I", self.unanswered)[0])
        return body

    def _wait_input(self, n: int, what: str) -> None:
        if self.ended or not self._fill(time.monotonic() + limit(self.seconds)) or self.ended:
            if len(self.buffer) < n:
                self._fail(self._shortage(len(self.buffer), n))

    def _fill(self, end: float) -> bool:
        """Waits for input until `end` and takes it; False where none came. The end is input too."""
        if not self._ready(selectors.EVENT_READ, end - time.monotonic()):
            return False
        self._try_recv()
        return True

    def _ready(self, event: int, seconds: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, event)
            return bool(selector.select(max(seconds, 0)))

    def _try_send(self, view: memoryview) -> int:
        try:
            return self.sock.send(view[: 1 << 20])
        except BlockingIOError:
            return 0
        except (ConnectionResetError, BrokenPipeError):
            self.broken = True
            return len(view)  # what was received before can still be read

    def _try_recv(self) -> None:
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.ended = "reset"
            return
        self.buffer += data
        if not data:
            self.ended = "reset" if self.broken else "closed"


def exchange(jobs: Sequence[Tuple[Conn, bytes, int]]) -> List[List[bytes]]:
    """For each (connection, bytes, n): writes the bytes and reads n messages, all at the same time.

    Returns the bodies of each job. Fails where a connection ends early, or where nothing moves on
    any for the limit.
    """
    replies: List[List[bytes]] = [[] for _ in jobs]
    views = [memoryview(data) for _, data, _ in jobs]
    with selectors.DefaultSelector() as selector:
        for i, (conn, data, _) in enumerate(jobs):
            conn._note_sent(data)
            selector.register(conn.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, i)
        open_jobs = set(range(len(jobs)))
        while True:
            for i in list(open_jobs):
                conn, _, wanted = jobs[i]
                while len(replies[i]) < wanted:
                    body = conn._take_message()
                    if body is None:
                        break
                    replies[i].append(body)
                if len(replies[i]) == wanted and (not views[i] or conn.ended):
                    open_jobs.remove(i)
                    selector.unregister(conn.sock)
                elif conn.ended:
                    _fail_short(conn, len(replies[i]), wanted)
                else:
                    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if views[i] else 0)
                    selector.modify(conn.sock, events, i)
            if not open_jobs:
                return replies
            ready = selector.select(limit(jobs[0][0].seconds))
            if not ready:
                i = min(open_jobs)
                _fail_short(jobs[i][0], len(replies[i]), jobs[i][2])
            for key, events in ready:
                i = key.data
                if events & selectors.EVENT_READ:
                    jobs[i][0]._try_recv()
                if events & selectors.EVENT_WRITE:
                    views[i] = views[i][jobs[i][0]._try_send(views[i]) :]


def _fail_short(conn: Conn, have: int, wanted: int) -> None:
    """A message did not come whole."""
    got = len(conn.buffer)
    if got >= 4:
        what = conn._shortage(got, 4 + struct.unpack_from("<I", conn.buffer)[0])
    elif got:
        what = conn._shortage(got, 4)
    elif conn.ended:
        what = f"the connection was {conn.ended} without a reply"
    else:
        what = f"no reply within {limit(conn.seconds):g} s"
    if wanted > 1:
        what = f"reply {have + 1} of {wanted}: {what}"
    conn._fail(what, mark=got if got else None)


def _why(expected: object, got: object) -> str:
    """What may have gone wrong where a reply is well-formed but another one, or ""."""
    if isinstance(expected, Status):
        found = lambda reply: reply.data if reply.status == 0 else None  # noqa: E731
        if isinstance(got, Status) and 1 not in (expected.status, got.status):
            return _why(found(expected), found(got))
    if isinstance(expected, bytes) and isinstance(got, bytes):
        if expected.startswith(got) and b"\0" in expected[len(got) : len(got) + 1]:
            return "is it taken for a C string? it may hold any bytes, also NUL"
        if expected.startswith(got) or got.startswith(expected):
            return "only the end differs: is the length right?"
    if expected is None and isinstance(got, bytes):
        return "the server finds a key that should not be there"
    if got is None and isinstance(expected, (bytes, float)):
        return "the server does not find what should be there"
    if isinstance(expected, Err) and not isinstance(got, Err):
        return "the server accepts what it must refuse"
    if isinstance(expected, Err) and isinstance(got, Err) and expected.code != got.code:
        return f"the error is right, its code is not: {wire.ERROR_NAMES.get(expected.code, '')}"
    if isinstance(got, Err):
        return "the server refuses what it must accept"
    if isinstance(expected, float) and isinstance(got, int):
        return "a score is a double (tag 5), not an integer"
    if isinstance(expected, list) and isinstance(got, list) and 2 * len(got) == len(expected):
        return "does `limit` count elements? it counts pairs of name and score"
    return ""


def _first_difference(expected: bytes, got: bytes) -> int:
    """The index of the first byte that differs or is missing."""
    both = min(len(expected), len(got))
    return next((i for i in range(both) if expected[i] != got[i]), both)


def _show_sent(chapter: int, data: bytes, pieces: int = 1) -> List[str]:
    """What was sent, decoded and in hex: the first requests, and how many there are."""
    if not data:
        return ["nothing"]
    if chapter in (3, 5):
        return wire.hexdump(data)
    frames, rest = wire.split_frames(data)
    lines = [wire.show_request(chapter, body) for body in frames[:3]]
    if len(frames) > 3:
        more = " or more" if len(data) == SHOWN else ""
        lines.append(f"... {len(frames)} requests{more} in all")
    elif rest:
        lines.append(f"{len(rest)} bytes of an incomplete request")
    if pieces > 1:
        lines.append(f"in {pieces} pieces")
    first = wire.frame(frames[0]) if frames else data
    return lines + wire.hexdump(first)


def _block(title: str, lines: Sequence[str]) -> List[str]:
    """Indented lines under a title in the margin."""
    return [f"  {title if i == 0 else '':<10}{line}".rstrip() for i, line in enumerate(lines)]
