"""A connection that speaks the protocol, and whose failures explain themselves.

Every wait has a limit: `seconds` (times TEST_TIME_FACTOR) in which not one byte moved.
"""
from __future__ import annotations

import select
import selectors
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Deque, List, Optional, Sequence, Tuple, Union

from . import diagnose, hints, resp, settings, wire
from .codec import codec, requests
from .failure import NO_CAUSE, Cause, Failure, cause
from .settings import limit
from .wire import Arg

if TYPE_CHECKING:
    from .process import Server

__tracebackhide__ = settings.__tracebackhide__

ANY = object()  # expect=ANY: whatever comes


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
        host: str = "127.0.0.1",
    ) -> None:
        self.process = None if isinstance(server, int) else server
        self.port = server if isinstance(server, int) else server.port
        self.chapter = chapter if chapter is not None else getattr(server, "chapter")
        self.codec = codec(self.chapter)
        self.version = 2  # of RESP, from 20 on
        self.seconds = seconds
        self.ended = ""  # "closed" or "reset" once the peer did that
        self.broken = False  # a reset met us while sending
        self.half_closed = False  # we have ended our input
        self.wanted: Sequence[object] = ()  # the replies that are waited for now
        past: Optional[Deque[bytes]] = getattr(self.process, "past", None)
        self.past = deque(maxlen=settings.PAST) if past is None else past  # the last requests, of all connections
        self.buffer = bytearray()  # received, not yet taken
        self.reply = self.codec.begin_reply()  # looks for the end of the next one
        self.unanswered = bytearray()  # sent, the reply not yet taken
        self.answered = 0  # bytes sent before these
        self.cuts: List[int] = []  # where each send began, in bytes sent
        self._sizes: Deque[int] = deque()  # of the requests in `unanswered`, where all were sent as whole requests
        self._sized = 0  # their sum
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if rcvbuf is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(limit(seconds))
        try:
            self.sock.connect((host, self.port))
        except OSError as e:
            self.sock.close()
            what = f"cannot connect to {host}:{self.port}: {e.strerror or e}"
            expected = [("expected", ["the server accepts the connection"])]
            raise Failure(what, expected, diagnose.unreachable(host, self.port, self.server())) from None
        self.sock.setblocking(False)

    def __enter__(self) -> "Conn":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- asking ----

    def ask(self, *args: Arg, expect: object = ANY) -> object:
        """Sends one request and returns its reply; with expect=, fails where it is another.

        A request is the strings of a command (07 on) or one text (04 to 06).
        """
        data = self.encode(args)
        self.send(data, [len(data)])
        return self.recv(expect)

    def pipeline(self, requests: Sequence[Sequence[Arg]], expect: Optional[Sequence[object]] = None) -> List[object]:
        """Sends all requests while reading; returns all replies, compared with expect where given."""
        encoded = list(map(self.encode, requests))
        wanted = [ANY] * len(requests) if expect is None else list(map(self.codec.later, expect))
        assert len(wanted) == len(requests), "expect has another length than requests"
        self.wanted = wanted
        data = b"".join(encoded)
        self._note_sent(data, list(map(len, encoded)))
        bodies = _move([(self, data, len(requests))])[0]
        replies: List[object] = []
        for i, body in enumerate(bodies):
            where = f"reply {i + 1} of {len(bodies)}: "
            beside = [*wanted[max(i - 1, 0) : i], *wanted[i + 1 : i + 2]]
            replies.append(self.check(body, wanted[i], encoded[i], where, beside))
        return replies

    def recv(self, expect: object = ANY) -> object:
        """Waits for the next message and returns it decoded; with expect=, compares it."""
        sent = self._first_unanswered()
        expect = self.codec.later(expect)
        self.wanted = [expect]
        in_one = not self.cuts or self.cuts[-1] <= self.answered
        pieces = len(self._pieces()) if not in_one and self._first_unanswered_is_whole() else 1
        return self.check(self.recv_body(), expect, sent, pieces=pieces)

    def recv_body(self) -> bytes:
        """Waits for the next message and returns its body as it is."""
        return exchange([(self, b"", 1)])[0][0]

    def encode(self, args: Sequence[Arg]) -> bytes:
        """The request in the language of this chapter."""
        return self.codec.request(*args)

    # ---- raw bytes ----

    def send(self, data: bytes, sizes: Sequence[int] = ()) -> None:
        """Sends the bytes, reading nothing meanwhile. sizes may say of which requests they are made.

        Where the server hangs up meanwhile the rest is dropped, and the next recv tells.
        """
        self._note_sent(data, sizes)
        view = memoryview(data)
        while view:
            sent = self._try_send(view)
            view = view[sent:]
            if not sent and not self._ready(select.POLLOUT, limit(self.seconds)):
                self._fail(f"the server took no byte for {limit(self.seconds):g} s",
                           expected=["the server reads what is sent"])  # fmt: skip

    def send_some(self, data: bytes, seconds: float = 0.2) -> int:
        """Sends as much as the server takes until it takes nothing for that time. Returns bytes."""
        view = memoryview(data)
        while view:
            sent = self._try_send(view)
            view = view[sent:]
            if not sent and not self._ready(select.POLLOUT, seconds):
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
        self._drop(n)
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
            rows = [row for row in wire.hexdump(expected, mark) if "^^" not in row]
            self._fail(what, expected=rows, mark=mark, why=diagnose.other_bytes(self, expected, got))
        self._drop(len(expected))
        known = self._are_sized()
        self._answered(self._sized if known else sum(map(len, requests(self.codec, bytes(self.unanswered)))))

    def _drop(self, n: int) -> None:
        """The first n bytes that came are taken, whatever they are."""
        del self.buffer[:n]
        self.reply = self.codec.begin_reply()

    # ---- the end of a connection ----

    def expect_refused(self, text: str = "") -> None:
        """Waits until the server hangs up on what it was sent; in RESP it says why before that, in these words."""
        if self.codec.refusal:
            body = self.recv_body()
            got = resp.decode(body, self.version) if body[:1] == b"-" else None
            said = got.text or "" if isinstance(got, wire.Err) else ""
            if not said.startswith(resp.PROTOCOL) or text and said != resp.PROTOCOL + text:
                self._fail("the server does not say what is wrong with the request", why=cause(
                    "a request that is none has an error for an answer, -ERR Protocol error: and what is wrong; then "
                    "the server closes the connection"),
                    expected=[f"-{resp.PROTOCOL}{text or '...'}"], came=body)  # fmt: skip
        self.expect_closed()

    def expect_closed(self, reset_ok: bool = True) -> None:
        """Waits until the server closes; fails where bytes come first, or nothing happens.

        A reset counts as closing (the server had unread input) unless reset_ok is False.
        """
        end = time.monotonic() + limit(self.seconds)
        while not self.ended and not self.buffer:
            if not self._fill(end):
                self._fail(f"the connection is still open after {limit(self.seconds):g} s",
                           expected=["the server closes the connection"], why=diagnose.still_open(self))  # fmt: skip
        if self.buffer:
            self._fail("bytes came where the connection should be closed", mark=0,
                       expected=["the server closes the connection"], why=diagnose.talks_on(self))  # fmt: skip
        if self.ended == "reset" and not reset_ok:
            self._fail("the connection was reset, not closed", expected=["the server closes the connection in good "
                                                                         "order"],
                       why=cause("was it closed with input unread, or did the server crash?"))  # fmt: skip

    def expect_silence(self, seconds: float = 0.1) -> None:
        """Fails where a byte or the end arrives within this short time."""
        self._fill(time.monotonic() + limit(seconds))
        if self.buffer or self.ended:
            what = "bytes came" if self.buffer else f"the connection was {self.ended}"
            self._fail(f"{what} where the server should wait", mark=0 if self.buffer else None,
                       expected=["nothing yet: the server waits for the rest"],
                       why=diagnose.too_early(self))  # fmt: skip

    def read_to_end(self) -> bytes:
        """Everything until the server closes (or resets: see .ended)."""
        while not self.ended:
            if not self._fill(time.monotonic() + limit(self.seconds)):
                self._fail(f"the connection is still open after {limit(self.seconds):g} s",
                           expected=["the server closes the connection"], why=diagnose.still_open(self))  # fmt: skip
        data = bytes(self.buffer)
        self.buffer.clear()
        return data

    def shutdown_write(self) -> None:
        """Ends our sending side; the server sees the end of input."""
        self.half_closed = True
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
        self, body: bytes, expect: object, request: Union[bytes, Sequence[Arg], None] = None, where: str = "",
        beside: Sequence[object] = (), pieces: int = 1,
    ) -> object:  # fmt: skip
        """Decodes a reply body and compares it; fails with an explanation. Returns the value.

        beside are the replies that are expected before and after it.
        """
        if isinstance(request, (list, tuple)):
            request = self.encode(request)
        expect = expect if expect is ANY else self.codec.expected(expect, request)
        problem, mark, note, why = "", None, "", ""
        value: object = None
        try:
            value = self.codec.decode(body, self.version)
        except wire.WireError as e:
            problem, mark, note = "the reply is malformed", e.offset, str(e)
            why = hints.why_malformed(self.codec, body, expect)
        if expect is not ANY and not problem and not wire.same(expect, value):
            problem = "the reply is wrong"
            plain = wire.nearest(expect, value)
            plain = plain.encode() if isinstance(plain, str) else plain
            mark = _first_difference(self.codec.reply(plain)[self.codec.head :], body)
            words = self.words_of([request or b""])
            past = self.words_of(list(self.past))
            why = hints.why_wrong(self.codec, words[0] if words else [], expect, value, past, beside)
            if pieces > 1 and not self.codec.head:  # a length is easily seen to be missing, a line is not
                why = diagnose.in_pieces(pieces)
        self._remember(request)
        if not problem:
            return value
        came = [] if note else [self._show(value)]
        raise Failure(
            f"{where}{problem} (chapter {self.chapter:02})",
            [
                ("sent", _show_sent(self.chapter, request or b"")),
                ("expected", [] if expect is ANY else [self._show(expect)]),
                ("came", came),
                ("its bytes", wire.hexdump(self.codec.whole(body), self.codec.head + (mark or 0), note)),
            ],
            cause(why),
        )

    def _show(self, value: object) -> str:
        return self.codec.show(value)

    def _remember(self, request: Optional[bytes]) -> None:
        """Notes a request, so that a later failure can tell what came before it."""
        if self.codec.has_commands and request and len(request) < 1000:
            self.past.append(request)

    def words_of(self, requests: Sequence[bytes]) -> List[List[bytes]]:
        """The strings of those that have any."""
        found = []
        for request in requests if self.codec.has_commands else ():
            with suppress(wire.WireError, struct.error):
                found.append(self.codec.words(request))
        return found

    def _fail(
        self, what: str, *, expected: Sequence[str] = (), mark: Optional[int] = None, why: Cause = NO_CAUSE,
        came: bytes = b"",
    ) -> None:  # fmt: skip
        """Fails with what was sent, what has come, and a likely cause."""
        raise Failure(
            f"{what} (chapter {self.chapter:02})",
            [
                ("sent", self._sent()),
                ("expected", expected),
                ("came", wire.hexdump(came or bytes(self.buffer), mark) if came or self.buffer else ["nothing"]),
                ("printed", self._said_at_the_end()),
            ],
            why or diagnose.no_reply(self),
        )

    def _sent(self) -> List[str]:
        """What was sent and has no answer yet."""
        lines = _show_sent(self.chapter, bytes(self.unanswered[:diagnose.SHOWN]), self._pieces())
        if not self.unanswered and self.answered:
            lines = ["nothing more: all that was sent has had its answer"]
        if self.half_closed:
            lines[-1] += ", and the client has ended its input"
        return lines

    def _said_at_the_end(self) -> List[str]:
        """The last that the server printed, where it has hung up on us."""
        server = self.server() if self.ended else None
        return [line[:200] for line in server.log[-2:]] if server else []

    def server(self) -> "Optional[Server]":
        """The server at the other end, where it is one that the harness has started."""
        from .process import at_port

        return self.process or at_port(self.port)

    def own_port(self) -> int:
        """Our port."""
        return self.sock.getsockname()[1]

    # ---- the machinery ----

    def _shortage(self, got: int, n: int) -> str:
        if self.ended:
            return f"the connection was {self.ended} after {got} of {n} bytes"
        if not got:
            return f"none of {n} bytes came within {limit(self.seconds):g} s"
        return f"only {got} of {n} bytes came, then nothing for {limit(self.seconds):g} s"

    def _first_unanswered(self) -> bytes:
        if self._are_sized() and self._sizes and self._sizes[0] <= diagnose.SHOWN:
            return bytes(self.unanswered[: self._sizes[0]])
        data = bytes(self.unanswered[:diagnose.SHOWN])
        return next(iter(requests(self.codec, data, 1)), data)

    def _first_unanswered_is_whole(self) -> bool:
        return self.codec.request_end(self.unanswered) >= 0

    def _are_sized(self) -> bool:
        """Is it known, without a look at what was sent, where each request of it ends?"""
        return self._sized == len(self.unanswered)  # a test may have changed these

    def _note_sent(self, data: bytes, sizes: Sequence[int] = ()) -> None:
        if data:
            if not self.unanswered:
                self._sizes.clear()
                self._sized = 0
            if sizes and self._are_sized():
                self._sizes.extend(sizes)
                self._sized += len(data)
            self.cuts.append(self.answered + len(self.unanswered))
            self.unanswered += data

    def _answered(self, n: int) -> None:
        """The first n bytes of what was sent have had their answer."""
        n = min(n, len(self.unanswered))
        if self._are_sized():
            left = n
            while left > 0 and self._sizes:
                left -= self._sizes.popleft()
            self._sized -= n - left  # no longer true where a request was cut in two
        del self.unanswered[:n]
        self.answered += n
        if not self.unanswered:
            self.cuts.clear()

    def _pieces(self) -> List[int]:
        """The sizes in bytes of the pieces in which the first request was sent that has no answer yet."""
        size = min(len(self.unanswered), self.codec.announced(self.unanswered) or len(self.unanswered))
        ends = [cut - self.answered for cut in self.cuts if 0 < cut - self.answered < size] + [size]
        return [end - begin for begin, end in zip([0, *ends], ends)]

    def _take_message(self) -> Optional[bytes]:
        """The next complete body from the buffer, or None. Fails at an impossible length."""
        try:
            end = self.reply.find(self.buffer)
        except wire.WireError as e:
            self._fail(str(e), mark=e.offset, expected=self._expected(0))
        if end < 0:
            return None
        body = bytes(self.buffer[self.codec.head : end])
        del self.buffer[:end]
        self.reply = self.codec.begin_reply()
        first = self._sizes[0] if self._sizes and self._are_sized() else self.codec.announced(self.unanswered)
        self._answered(first)
        return body

    def _wait_input(self, n: int, what: str) -> None:
        if self.ended or not self._fill(time.monotonic() + limit(self.seconds)) or self.ended:
            if len(self.buffer) < n:
                self._fail(self._shortage(len(self.buffer), n), expected=[f"{n} bytes"])

    def _expected(self, index: int) -> List[str]:
        """One of the replies that are waited for, in a line."""
        wanted = self.wanted[index] if index < len(self.wanted) else ANY
        return ["a reply" if wanted is ANY else self._show(wanted)]

    def _fill(self, end: float) -> bool:
        """Waits for input until `end` and takes it; False where none came. The end is input too."""
        if not self._ready(select.POLLIN, end - time.monotonic()):
            return False
        self._try_recv()
        return True

    def _ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.sock, event)
        return bool(poll.poll(max(seconds, 0) * 1000))

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
    for conn, data, _ in jobs:
        conn._note_sent(data)
    return _move(jobs)


def _move(jobs: Sequence[Tuple[Conn, bytes, int]]) -> List[List[bytes]]:
    """exchange(), of what is noted already."""
    if len(jobs) == 1 and not jobs[0][1]:
        return [_receive(jobs[0][0], jobs[0][2])]
    replies: List[List[bytes]] = [[] for _ in jobs]
    views = [memoryview(data) for _, data, _ in jobs]
    with selectors.DefaultSelector() as selector:
        for i, (conn, _, _) in enumerate(jobs):
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
            i = min(open_jobs)
            ready = selector.select(limit(jobs[0][0].seconds))
            if not ready:
                _fail_short(jobs[i][0], len(replies[i]), jobs[i][2])
            for key, events in ready:
                i = key.data
                if events & selectors.EVENT_READ:
                    jobs[i][0]._try_recv()
                if events & selectors.EVENT_WRITE:
                    views[i] = views[i][jobs[i][0]._try_send(views[i]) :]


def _receive(conn: Conn, wanted: int) -> List[bytes]:
    """n messages from one connection to which nothing is to be written."""
    bodies: List[bytes] = []
    while len(bodies) < wanted:
        body = conn._take_message()
        if body is not None:
            bodies.append(body)
        elif conn.ended or not conn._fill(time.monotonic() + limit(conn.seconds)):
            _fail_short(conn, len(bodies), wanted)
    return bodies


def _fail_short(conn: Conn, have: int, wanted: int) -> None:
    """A message did not come whole."""
    got = len(conn.buffer)
    if conn.codec.head == 0 and got:
        what = f"the connection was {conn.ended}" if conn.ended else f"nothing more came for {limit(conn.seconds):g} s"
        what += f" after {got} bytes, which are not the whole reply"
    elif got >= 4:
        what = conn._shortage(got, 4 + struct.unpack_from("<I", conn.buffer)[0])
    elif got:
        what = conn._shortage(got, 4)
    elif conn.ended:
        what = f"the connection was {conn.ended} without a reply"
    else:
        what = f"no reply within {limit(conn.seconds):g} s"
    if wanted > 1:
        what = f"reply {have + 1} of {wanted}: {what}"
    conn._fail(what, mark=got if got else None, expected=conn._expected(have))


def _first_difference(expected: bytes, got: bytes) -> int:
    """The index of the first byte that differs or is missing."""
    both = min(len(expected), len(got))
    return next((i for i in range(both) if expected[i] != got[i]), both)


def _show_sent(chapter: int, data: bytes, pieces: Sequence[int] = ()) -> List[str]:
    """What was sent, decoded and in hex: the first requests, and how many there are."""
    if not data:
        return ["nothing"]
    language = codec(chapter)
    if not language.has_messages:
        return wire.hexdump(data)
    whole = requests(language, data)
    rest = len(data) - sum(map(len, whole))
    lines = [language.show_request(each) for each in whole[:3]]
    if len(whole) > 3:
        more = " or more" if len(data) == diagnose.SHOWN else ""
        lines.append(f"... {len(whole)} requests{more} in all")
    elif rest:
        lines.append(language.show_request(data[-rest:]))
    if len(pieces) > 4:
        lines.append(f"in {len(pieces)} pieces")
    elif len(pieces) > 1:
        lines.append(f"in pieces of {', '.join(map(str, pieces[:-1]))} and {pieces[-1]} bytes")
    return lines + wire.hexdump(whole[0] if whole else data)
