"""The two languages that the chapters speak, behind one face: our binary protocol up to 19, RESP from 20 on.

A case says what it sends as lists of strings and what it expects as values (see wire); codec(chapter) makes bytes of
both. What differs between the languages stands here, and nowhere in the cases.
"""
from __future__ import annotations

import functools
import struct
from contextlib import suppress
from typing import Dict, List, Optional, Sequence, Tuple

from . import redis, resp, wire
from .wire import RESP_FROM, Arg, WireError

__tracebackhide__ = lambda excinfo: excinfo.errisinstance(AssertionError)  # noqa: E731

LONGEST = 512 << 20  # bytes of a string that is well-formed, although ours take less


class Language:
    """What the programs of a chapter can do, under names: the one place where a chapter's number is compared."""

    def __init__(self, chapter: int) -> None:
        self.chapter = chapter
        self.is_hello = chapter == 3  # one answer to whatever comes, then the end
        self.is_echo = chapter == 5  # bytes come back as they are; the client talks on three connections
        self.has_messages = chapter not in (3, 5)
        self.has_poll = chapter >= 5  # all connections are waited for at once
        self.has_loop = chapter >= 6  # no client waits for another
        self.sends_all_first = chapter == 6  # the client reads when all its requests are sent
        self.is_text = chapter < 7  # a client says something, and means nothing by it
        self.has_commands = chapter >= 7
        self.has_hashtable = chapter >= 8
        self.has_values = chapter >= 9  # replies say what they are, and may be long
        self.has_tree = chapter >= 10
        self.has_sorted_sets = chapter >= 11
        self.has_idle_timeout = chapter >= 12  # and a client that connects again
        self.has_ttl = chapter >= 13
        self.has_workers = chapter >= 14
        self.has_epoll = chapter >= 18
        self.has_loans = chapter >= 19  # connections borrow their buffers
        self.is_resp = chapter >= RESP_FROM
        self.has_options = chapter >= 21  # forty commands more, with all of Redis's options
        self.has_keyspace = chapter >= wire.KEYSPACE_FROM  # databases, and deadlines as times of the wall clock
        self.has_scan = chapter >= 23  # walks, and tables that shrink
        self.has_cycle = chapter >= 24  # keys go for which nobody asks
        self.has_transactions = chapter >= wire.TRANSACTIONS_FROM
        self.replies = "text" if self.is_text else "value" if self.has_values else "status"
        self.large = 1 << 20 if self.has_values else 4000  # bytes of a value that is large

    def said(self, text: bytes) -> bytes:
        """What the server says to a text (03 to 06)."""
        return b"world" if self.chapter in (3, 4) else text


    def later(self, value: object) -> object:
        """A reply, or several, in the words of this chapter where they are those of 07."""
        if isinstance(value, wire.Status) and self.has_values:
            return value.later
        if isinstance(value, wire.OneOf):
            return wire.OneOf(*map(self.later, value.options))
        return value


class Binary(Language):
    """Messages behind their length, little-endian (04 to 19)."""

    head = 4  # bytes of a message in front of its body
    half = b"\5\0"  # the beginning of a request
    refusal = b""  # what comes before the server hangs up on something malformed
    bad = wire.u32(2**32 - 1)  # malformed already, whatever comes behind it

    def request(self, *args: Arg) -> bytes:
        """A request: the strings of a command (07 on) or one text (04 to 06)."""
        return wire.request(*args) if self.has_commands else wire.frame(wire.to_bytes(args[0]))

    def reply(self, value: object, *words: Arg) -> bytes:
        """The reply with this value to a request of these words."""
        return wire.frame(wire.encode_reply(self.chapter, self.later(value)))

    greeting, welcome = b"", b""  # what our client sends first, and the reply to it

    def to_client(self, value: object) -> bytes:
        """A reply as our client is given it."""
        return self.reply(value)

    def printed(self, value: object, *words: Arg) -> str:
        """What the client (09 on) prints for the reply to these words."""
        return wire.client_text(self.later(value)).decode(errors="surrogateescape")

    def typed(self, words: Sequence[bytes]) -> bytes:
        """The request that the client makes of these words."""
        return wire.request(*words)

    def shown_by_client(self, reply: object) -> bytes:
        """What the client prints for a reply."""
        return wire.client_text(reply)

    def words(self, request: bytes) -> List[bytes]:
        """The strings of a request. WireError where it is malformed, or has none (before 07)."""
        if self.is_text:
            raise WireError(0, "a message is no command")
        return wire.decode_request(request[4:])

    def request_end(self, data: bytes, at: int = 0) -> int:
        """Where the request ends that begins there; -1 where it is not whole."""
        if len(data) - at < 4:
            return -1
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        return end if end <= len(data) else -1

    def announced(self, data: bytes) -> int:
        """How long the first request is, as far as that is known."""
        return 4 + struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0

    def begin_reply(self) -> "_FrameEnd":
        """Something that finds the end of the next reply."""
        return _FrameEnd(wire.max_msg(self.chapter))

    def decode(self, body: bytes, version: int = 2) -> object:
        """The value of a reply. WireError where it is malformed."""
        return wire.decode_reply(self.chapter, body)

    def whole(self, body: bytes) -> bytes:
        """The message with this body."""
        return wire.frame(body)

    def expected(self, value: object, request: Optional[bytes]) -> object:
        """What a case expects, as this language has it."""
        return self.later(value)

    def show_request(self, request: bytes) -> str:
        """A request in one line."""
        if self.request_end(request) < 0:
            return incomplete(request)
        return wire.show_request(self.chapter, request[4:])

    def show(self, value: object) -> str:
        """A reply in one line."""
        if self.is_text and isinstance(value, bytes):
            return wire.show_bytes(value)
        return wire.show_value(value)

    def malformed(self) -> Dict[str, bytes]:
        """Requests that must be refused, by what is wrong with them."""
        return wire.malformed_requests(self.chapter)

    def malformed_replies(self) -> Dict[str, bytes]:
        """What our client must answer with an error message, by what is wrong. Then the peer closes."""
        return wire.malformed_replies(self.chapter)

    def announce(self, size: int) -> bytes:
        """The beginning of a long request, and of one of its strings."""
        return wire.u32(size) + (wire.u32(2) + wire.u32(3) + b"get" + wire.u32(size - 15))[: 99 if size > 15 else 0]

    @property
    def most(self) -> int:
        """Bytes of the longest string that a `set` of the key k may carry."""
        return wire.max_msg(self.chapter) - len(wire.body("set", "k", ""))

    # Numbers that Redis reads and we did not, and the other way round.
    more_doubles: Sequence[bytes] = ()
    fewer_doubles: Sequence[bytes] = ()

    def parse_double(self, text: bytes) -> Optional[float]:
        """A double, or None."""
        return wire.parse_double(text)


class Resp(Language):
    """RESP (20 and later), and Redis itself."""

    head = 0
    half = b"*3\r\n$3"
    bad = b"*9999999999\r\n"
    refusal = resp.encode(wire.Err(4, resp.PROTOCOL + "invalid multibulk length"))

    def request(self, *args: Arg) -> bytes:
        """A request. `keys` of the chapters before is `keys *`."""
        if len(args) == 1 and wire.to_bytes(args[0]).lower() == b"keys":
            args = (*args, b"*")
        return resp.array(*redis.spoken(args))

    def reply(self, value: object, *words: Arg) -> bytes:
        """The reply with this value to a request of these words."""
        return resp.encode(resp.plain(self._expected(value, words)))

    def later(self, value: object) -> object:
        """A reply, or several, in the words of this chapter where they are those of 07."""
        return resp.OK if value is wire.DONE else super().later(value)

    greeting = resp.array("hello", "3")
    welcome = resp.encode(resp.Map([(b"server", b"redis"), (b"proto", 3)]), 3)

    def to_client(self, value: object) -> bytes:
        """A reply as our client is given it, which has asked for version 3."""
        return resp.encode(value, 3)

    def printed(self, value: object, *words: Arg) -> str:
        """What the client prints for the reply to these words."""
        value = resp.plain(self._expected(value, words))
        return self.shown_by_client(value).decode(errors="surrogateescape")

    def typed(self, words: Sequence[bytes]) -> bytes:
        """The request that the client makes of these words."""
        return resp.array(*words)

    def shown_by_client(self, value: object) -> bytes:
        """What the client prints for a reply."""
        if isinstance(value, list):
            kind, items = b"arr", value
            if isinstance(value, resp.Map):
                kind, items = b"map", [each for pair in value for each in pair]
            elif isinstance(value, resp.Push):
                kind = b"push"
            inner = b"".join(map(self.shown_by_client, items))
            return b"(%s) len=%d\n%s(%s) end\n" % (kind, len(value), inner, kind)
        if isinstance(value, resp.Score):
            value = value.value
        if isinstance(value, wire.Err):
            return b"(err) %s\n" % (value.text or "").encode(errors="surrogateescape")
        return wire.client_text(bytes(value) if isinstance(value, bytes) else value)

    def words(self, request: bytes) -> List[bytes]:
        """The strings of a request. WireError where it is malformed."""
        words, end = resp.take_request(request, limit=LONGEST)
        if end < 0:
            raise WireError(0, "it is not whole")
        return redis.meant(words)

    def request_end(self, data: bytes, at: int = 0) -> int:
        """Where the request ends that begins there; -1 where it is not whole, or is none."""
        with suppress(WireError):
            return resp.request_end(data, at, limit=LONGEST)
        return -1

    def announced(self, data: bytes) -> int:
        """How long the first request is, as far as that is known."""
        return max(0, self.request_end(data))

    def begin_reply(self) -> resp.ReplyEnd:
        """Something that finds the end of the next reply."""
        return resp.ReplyEnd()

    def decode(self, body: bytes, version: int = 2) -> object:
        """The value of a reply. WireError where it is malformed."""
        return resp.decode(body, version)

    def whole(self, body: bytes) -> bytes:
        """The message with this body, which is itself."""
        return body

    def expected(self, value: object, request: Optional[bytes]) -> object:
        """What a case expects, as RESP has it."""
        value = self.later(value)
        words: List[bytes] = []
        if request and resp.depends_on_words(value):
            with suppress(WireError):
                words = redis.meant(resp.take_request(request, limit=LONGEST)[0])
        return resp.expected(value, words)

    def _expected(self, value: object, words: Sequence[Arg]) -> object:
        return resp.expected(self.later(value), [wire.to_bytes(word) for word in words])

    def show_request(self, request: bytes) -> str:
        """A request in one line."""
        try:
            words, end = resp.take_request(request, limit=LONGEST)
        except WireError as e:
            return f"a malformed request ({e})"
        return incomplete(request) if end < 0 else wire.show_args(redis.meant(words))

    def show(self, value: object) -> str:
        """A reply in one line."""
        if isinstance(value, wire.Err):
            return f"(err) {'' if value.text is None else value.text}"
        return wire.show_value(value)

    def malformed(self) -> Dict[str, bytes]:
        """Requests that must be refused, by what is wrong with them."""
        return {name: data for name, (data, _) in resp.MALFORMED.items()}

    def malformed_replies(self) -> Dict[str, bytes]:
        """What our client must answer with an error message, by what is wrong. Then the peer closes."""
        return {**resp.BAD_REPLIES, **resp.CUT_REPLIES}

    def announce(self, size: int) -> bytes:
        """The beginning of a long request, and of one of its strings."""
        return b"*2\r\n$3\r\nget\r\n$%d\r\n" % (size - 30)

    @property
    def most(self) -> int:
        """Bytes of the longest string that a `set` of the key k may carry."""
        return wire.max_msg(self.chapter) - len(resp.array("set", "k", "")) - 7

    more_doubles = (b"0x10", b"0x1p3", b"0X10", b"infinity", b"-infinity", b"Infinity")
    fewer_doubles = (b"2e-324", b"1e-400", b"-1e-400")

    def parse_double(self, text: bytes) -> Optional[float]:
        """A double, or None."""
        return resp.parse_double(text)


class _FrameEnd:
    """Looks for the end of a message behind its length."""

    def __init__(self, most: int) -> None:
        self.most = most

    def find(self, data: bytearray) -> int:
        """Where it ends, -1 where it is not whole yet. WireError at an impossible length."""
        if len(data) < 4:
            return -1
        (n,) = struct.unpack_from("<I", data)
        if n > self.most:
            raise WireError(0, f"a reply of {n} bytes is announced, {self.most} are allowed")
        return 4 + n if len(data) >= 4 + n else -1


@functools.lru_cache(maxsize=None)
def codec(chapter: int) -> "Binary | Resp":
    """The language of a chapter."""
    return Binary(chapter) if chapter < RESP_FROM else Resp(chapter)


def requests(language: "Binary | Resp", data: bytes, most: int = 1 << 30) -> List[bytes]:
    """The whole requests at the beginning of the data, at most so many."""
    found: List[bytes] = []
    at = 0
    while len(found) < most:
        end = language.request_end(data, at)
        if end < 0:
            break
        found.append(data[at:end])
        at = end
    return found


def incomplete(request: bytes) -> str:
    """One that is not whole, in a line."""
    return f"{len(request)} bytes of an incomplete request"


def split_replies(language: "Binary | Resp", data: bytes) -> Tuple[List[bytes], bytes]:
    """The bodies of the whole replies at the beginning of the data, and what is left over."""
    bodies, left = [], bytearray(data)
    with suppress(WireError):
        while left:
            end = language.begin_reply().find(left)
            if end < 0:
                break
            bodies.append(bytes(left[language.head : end]))
            del left[:end]
    return bodies, bytes(left)
