"""The wire format (book/protocol.md): frames, requests, replies, and how messages are shown.

A reply is decoded by chapter: bytes (04 to 06), Status (07, 08), a value (09 to 19; resp has 20). A value is None
(nil), Err, bytes, int, float or a list of values. What a test expects may also be a pattern:
Err(4) and Status(1) leave the text free; OneOf, AnyOrder and Between stand for several values.
"""
from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple, Union

__tracebackhide__ = lambda excinfo: excinfo.errisinstance(AssertionError)  # noqa: E731

NIL, ERR, STR, INT, ARR, DBL = range(6)  # reply tags, 09 on
RES_OK, RES_ERR, RES_NX = range(3)  # reply status, 07 and 08
ERR_UNKNOWN, ERR_2BIG, ERR_TYPE, ERR_ARG = 1, 2, 3, 4  # error codes, 09 on
ERROR_NAMES = {1: "1 is an unknown command", 2: "2 is a reply too big", 3: "3 is a wrong type",
               4: "4 is a bad argument, or a wrong number of them"}  # fmt: skip
MAX_STRINGS = 1024
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
RESP_FROM = 20  # the first chapter that speaks RESP (see resp)
KEYSPACE_FROM = 22  # the first with databases, and deadlines on the wall clock
TRANSACTIONS_FROM = 25
MESSAGES_FROM = 26  # the first in which clients hear what others publish

Arg = Union[bytes, str, int, float]


@dataclass(frozen=True)
class Err:
    """An error reply of 09 on. Without a text it equals every error of that code."""

    code: int
    text: Optional[str] = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Err) or self.code != other.code:
            return False
        return None in (self.text, other.text) or self.text == other.text

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Status:
    """A reply of 07 and 08. Without data it equals every reply of that status. value is what it becomes in 09, where
    replies say what they are, if that does not follow from status and data."""

    status: int
    data: Optional[bytes] = None
    value: object = ...

    @property
    def later(self) -> object:
        """The reply of 09 in place of this one."""
        if self.value is not ...:
            return self.value
        return {RES_OK: self.data, RES_NX: None}.get(self.status, Err(ERR_ARG))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status) or self.status != other.status:
            return False
        return None in (self.data, other.data) or self.data == other.data

    __hash__ = None  # type: ignore[assignment]


# What the commands of 07 answer.
DONE = Status(RES_OK, b"", None)
MISSING = Status(RES_NX, b"")
DELETED, NOT_THERE = Status(RES_OK, b"", 1), Status(RES_OK, b"", 0)
UNKNOWN = Status(RES_ERR, b"Unknown cmd", Err(ERR_UNKNOWN, "Unknown cmd"))
WRONG_ARGUMENTS = Status(RES_ERR)


class OneOf:
    """Expects any of these values (where the protocol leaves a choice)."""

    def __init__(self, *options: object) -> None:
        self.options = options


class AnyOrder:
    """Expects an array of these elements in any order (`keys`)."""

    def __init__(self, items: Sequence[object]) -> None:
        self.items = list(items)


class Between:
    """Expects an integer from low to high, both included (`pttl`)."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high


class WireError(ValueError):
    """A body that is not what the protocol says; offset is the first wrong byte in the body."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset = offset


# ---- frames and requests ----------------------------------------------------------------------


def max_msg(chapter: int) -> int:
    """The largest n of a frame, in bytes."""
    return 4096 if chapter < 9 else 32 << 20


def u32(n: int) -> bytes:
    """Four bytes, little-endian."""
    return struct.pack("<I", n)


def frame(body: bytes, n: Optional[int] = None) -> bytes:
    """A message: the length and the body. n tells a lie about the length."""
    return u32(len(body) if n is None else n) + body


def to_bytes(arg: Arg) -> bytes:
    """The bytes of an argument: text as UTF-8, numbers in decimal."""
    if isinstance(arg, bytes):
        return arg
    return (arg if isinstance(arg, str) else repr(arg)).encode()


def body(*args: Arg, count: Optional[int] = None) -> bytes:
    """The body of a request (07 on). count tells a lie about the number of strings."""
    strings = [to_bytes(a) for a in args]
    out = [u32(len(strings) if count is None else count)]
    for s in strings:
        out += [u32(len(s)), s]
    return b"".join(out)


def request(*args: Arg) -> bytes:
    """A whole request (07 on): frame, count, strings."""
    return frame(body(*args))


def split_frames(data: bytes) -> Tuple[List[bytes], bytes]:
    """The bodies of the complete frames in data, and the bytes left over."""
    bodies, pos = [], 0
    while len(data) - pos >= 4:
        (n,) = struct.unpack_from("<I", data, pos)
        if n > len(data) - pos - 4:
            break
        bodies.append(bytes(data[pos + 4 : pos + 4 + n]))
        pos += 4 + n
    return bodies, bytes(data[pos:])


def malformed_requests(chapter: int) -> Dict[str, bytes]:
    """Framed requests that 07 and later must refuse by closing, by what is wrong with them."""
    room = (max_msg(chapter) - 4) // 4  # empty strings that fit into a message
    return {
        "empty message": frame(b""),
        "count cut short": frame(b"\1\0\0"),
        "count 0": frame(u32(0)),
        "count 0 and bytes after": frame(u32(0) + b"x"),
        "count 1025": frame(u32(1025) + u32(0) * min(room, 1025)),
        "count 2^32-1": frame(u32(2**32 - 1) + u32(3) + b"get"),
        "no string": frame(u32(1)),
        "length cut short": frame(u32(1) + b"\3\0"),
        "string one byte short": frame(u32(1) + u32(4) + b"get"),
        "string length 2^32-1": frame(u32(1) + u32(2**32 - 1) + b"get"),
        "string length that wraps the sum": frame(u32(2) + u32(3) + b"get" + u32(2**32 - 15) + b"k"),
        "string length 2^31": frame(u32(1) + u32(2**31) + b"get"),
        "second string missing": frame(body("get", count=2)),
        "second string one byte short": frame(u32(2) + u32(3) + b"get" + u32(2) + b"k"),
        "one byte left over": frame(body("get", "k") + b"\0"),
        "a string left over": frame(body("get", "k", "x", count=2)),
    }


def decode_request(data: bytes) -> List[bytes]:
    """The strings of a request body. WireError where it is malformed."""
    r = _Reader(data)
    count = r.u32("the count of strings")
    if not 1 <= count <= MAX_STRINGS:
        raise WireError(0, f"count {count} is not from 1 to {MAX_STRINGS}")
    strings = [r.take(r.u32("a string's length"), "a string") for _ in range(count)]
    r.end()
    return strings


# ---- replies ----------------------------------------------------------------------------------


def decode_reply(chapter: int, data: bytes) -> object:
    """A reply body as the chapter understands it. WireError where it is malformed."""
    if chapter < 7:
        return data
    return decode_status(data) if chapter < 9 else decode_value(data)


def encode_reply(chapter: int, value: object) -> bytes:
    """The body for bytes (04 to 06), a Status (07, 08) or a value (09 on)."""
    if chapter < 7:
        assert isinstance(value, bytes)
        return value
    if chapter < 9:
        assert isinstance(value, Status)
        return u32(value.status) + (value.data or b"")
    return encode_value(value)


def decode_status(data: bytes) -> Status:
    """A reply body of 07 and 08."""
    r = _Reader(data)
    status = r.u32("the status")
    if status > RES_NX:
        raise WireError(0, f"status {status} is none of 0, 1, 2")
    return Status(status, data[4:])


def decode_value(data: bytes) -> object:
    """A reply body of 09 on."""
    r = _Reader(data)
    value = _read_value(r, 0)
    r.end()
    return value


def encode_value(value: object) -> bytes:
    """The body of a reply of 09 on."""
    if value is None:
        return bytes([NIL])
    if isinstance(value, Err):
        text = (value.text or "").encode(errors="surrogateescape")
        return struct.pack("<BiI", ERR, value.code, len(text)) + text
    if isinstance(value, (bytes, str)):
        data = to_bytes(value)
        return struct.pack("<BI", STR, len(data)) + data
    if isinstance(value, int):
        return struct.pack("<Bq", INT, value)
    if isinstance(value, float):
        return struct.pack("<Bd", DBL, value)
    if isinstance(value, list):
        return struct.pack("<BI", ARR, len(value)) + b"".join(map(encode_value, value))
    raise TypeError(f"not a value: {value!r}")


def malformed_replies(chapter: int) -> Dict[str, bytes]:
    """What a client must answer with an error message, by what is wrong. Then the peer closes."""
    wrong = {
        "nothing": b"",
        "length cut short": b"\5\0",
        "body cut short": frame(b"x", 100),
        "length above the limit": u32(max_msg(chapter) + 1),
        "length 2^32-1": u32(2**32 - 1),
    }
    if 7 <= chapter < 9:
        wrong["status cut short"] = frame(b"\0\0")
        wrong["empty message"] = frame(b"")
    if chapter >= 9:
        wrong.update(
            {
                "empty message": frame(b""),
                "unknown tag": frame(b"\x09"),
                "unknown tag 255": frame(b"\xff"),
                "error cut short": frame(b"\1\1\0"),
                "error text cut short": frame(struct.pack("<BiI", ERR, 1, 9) + b"Unknown"),
                "string length cut short": frame(b"\2\1\0"),
                "string cut short": frame(b"\2" + u32(5) + b"abc"),
                "string length 2^32-1": frame(b"\2" + u32(2**32 - 1) + b"abc"),
                "integer cut short": frame(b"\3\1\2\3\4\5\6\7"),
                "array count cut short": frame(b"\4\1"),
                "array without its element": frame(b"\4" + u32(1)),
                "array count 2^32-1": frame(b"\4" + u32(2**32 - 1) + b"\0"),
                "bytes left over": frame(b"\0\0"),
                "nested 100000 deep": frame((b"\4" + u32(1)) * 100000 + b"\0"),
            }
        )
    if chapter >= 11:
        wrong["double cut short"] = frame(b"\5\0\0\0\0\0\0\0")
    return wrong


def same(expected: object, got: object) -> bool:
    """Is got what was expected? Types count (1 is not 1.0), doubles are compared bit for bit."""
    if type(expected) is bytes and type(got) is bytes:  # nearly all
        return expected == got
    if isinstance(expected, OneOf):
        return any(same(option, got) for option in expected.options)
    if isinstance(expected, Between):
        return type(got) is int and expected.low <= got <= expected.high
    if isinstance(expected, AnyOrder):
        return isinstance(got, list) and same(_order(expected.items), _order(got))
    if hasattr(expected, "is_met_by"):
        return expected.is_met_by(got)
    if isinstance(expected, str):
        expected = expected.encode()
    if type(expected) is not type(got):
        return False
    if isinstance(expected, float):
        return struct.pack("<d", expected) == struct.pack("<d", got)
    if isinstance(expected, list):
        assert isinstance(got, list)
        return len(expected) == len(got) and all(map(same, expected, got))
    return expected == got


def nearest(expected: object, got: object) -> object:
    """A plain value that the pattern allows, as close to got as it gets (to find the wrong byte)."""
    if isinstance(expected, OneOf):
        return next((o for o in expected.options if same(o, got)), nearest(expected.options[0], got))
    if isinstance(expected, Between):
        return got if same(expected, got) else expected.low
    if isinstance(expected, AnyOrder):
        missing, found = list(expected.items), []
        for item in got if isinstance(got, list) else []:
            if item in missing:
                missing.remove(item)
                found.append(item)
        return found + missing
    if isinstance(expected, Err) and expected.text is None:
        return Err(expected.code, got.text if isinstance(got, Err) else "")
    if isinstance(expected, Status) and expected.data is None:
        return Status(expected.status, got.data if isinstance(got, Status) else b"")
    if isinstance(expected, list) and isinstance(got, list):
        pad: List[object] = [None] * len(expected)
        return [nearest(e, g) for e, g in zip(expected, got + pad)]
    return expected


# ---- numbers ----------------------------------------------------------------------------------


INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")


def parse_int(text: bytes) -> Optional[int]:
    """An integer of the protocol, or None: it is read only as it would be written, also by Redis."""
    if not INTEGER.fullmatch(text):
        return None
    return int(text) if INT64_MIN <= int(text) <= INT64_MAX else None


def parse_double(text: bytes) -> Optional[float]:
    """A double of the protocol, or None. -0 becomes 0."""
    if re.fullmatch(rb"[+-]?inf", text, re.IGNORECASE):
        return float(text)
    if not re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    return None if math.isinf(value) else value + 0.0


# ---- showing ----------------------------------------------------------------------------------


def show_bytes(data: bytes, most: int = 48) -> str:
    """Bytes as a word: bare where it is plain, in quotes with escapes where not, cut where long."""
    text, shown = "", 0
    while shown < len(data) and len(text) < most:
        b = data[shown]
        text += chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}"
        shown += 1
    if shown < len(data):
        return f'"{text}"... ({len(data)} bytes)'
    plain = data and all(33 <= b < 127 and b not in b"\"'\\" for b in data)
    return text if plain else f'"{text}"'


def show_args(args: Sequence[Arg], most: int = 12) -> str:
    """A command as it would be typed."""
    words = [show_bytes(to_bytes(a)) for a in args[:most]]
    if len(args) > most:
        words.append(f"... ({len(args)} strings)")
    return " ".join(words)


def show_value(value: object, most: int = 12) -> str:
    """A reply, or what was expected of it, in one line."""
    if value is None:
        return "(nil)"
    if isinstance(value, Err):
        return f"(err) {value.code}" + ("" if value.text is None else f" {value.text}")
    if isinstance(value, Status):
        data = "" if not value.data else " " + show_bytes(value.data)
        return f"[{value.status}]{data}"
    if hasattr(value, "shown"):
        return value.shown()
    if isinstance(value, (bytes, str)):
        return f"(str) {show_bytes(to_bytes(value))}"
    if isinstance(value, bool):
        return "(true)" if value else "(false)"
    if isinstance(value, int):
        return f"(int) {value}"
    if isinstance(value, float):
        return f"(dbl) {show_double(value)}"
    if isinstance(value, OneOf):
        return " or ".join(map(show_value, value.options))
    if isinstance(value, Between):
        return f"(int) from {value.low} to {value.high}"
    if isinstance(value, AnyOrder):
        return show_value(value.items) + " in any order"
    if isinstance(value, list):
        parts = [show_value(v) for v in value[:most]] + ["..."] * (len(value) > most)
        return f"(arr) len={len(value)} [{', '.join(parts)}]"
    return repr(value)


def show_double(value: float) -> str:
    """As the client prints it: %g with the fewest digits that read back to the same number.

    From 1 to below a million it begins with 6 digits: fewer would turn 10 into 1e+01.
    """
    for digits in range(6 if 1 <= abs(value) < 1e6 else 1, 18):
        text = "%.*g" % (digits, value)
        if float(text) == value:
            return text
    return "%.17g" % value


def client_text(value: object, chapter: int = 9) -> bytes:
    """What the client prints on standard output for a reply, with the newline at the end."""
    if isinstance(value, Status):
        return b"server says: [%d]%s\n" % (value.status, b" " + value.data if value.data else b"")
    if chapter < 7:
        assert isinstance(value, bytes)
        return b"server says: " + value + b"\n"
    if isinstance(value, list):
        inner = b"".join(client_text(v) for v in value)
        return b"(arr) len=%d\n" % len(value) + inner + b"(arr) end\n"
    if isinstance(value, bytes):
        return b"(str) " + value + b"\n"
    return show_value(value).encode(errors="surrogateescape") + b"\n"


def show_request(chapter: int, data: bytes) -> str:
    """A request body in one line."""
    if chapter < 7:
        return show_bytes(data)
    try:
        return show_args(decode_request(data))
    except WireError as e:
        return f"a malformed request ({e} at byte {e.offset} of the body)"


def hexdump(data: bytes, mark: Optional[int] = None, note: str = "", most: int = 96) -> List[str]:
    """Lines of 16 bytes: offset, hex, text; a caret and a note under the byte at `mark`.

    Without a mark the first `most` bytes are shown; with one, as many up to the line after it.
    """
    rows = max(1, (len(data) + 15) // 16, 0 if mark is None else mark // 16 + 1)
    last = most // 16 if mark is None else mark // 16 + 2
    shown: List[str] = []
    for row in range(min(rows, last)):
        start = row * 16
        if mark is not None and most // 16 <= row < mark // 16 - 1:
            if shown[-1] != "...":
                shown.append("...")
            continue
        chunk = data[start : start + 16]
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in chunk)
        shown.append(f"{start:04x}  {chunk.hex(' '):<47}  {text}".rstrip())
        if mark is not None and row == mark // 16:
            shown.append(" " * (6 + 3 * (mark - start)) + "^^" + (f" {note}" if note else ""))
    return shown + ["..."] * (rows > last)


def so_many_bytes(n: int) -> str:
    """The number with its noun."""
    return f"{n:,} byte{'s' * (n != 1)}"


def left_over(n: int) -> str:
    """What is wrong with a message that is longer than what it says."""
    return f"{so_many_bytes(n)} {'is' if n == 1 else 'are'} left over"


class _Reader:
    """Takes a body apart; every shortage names the byte where it begins."""

    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def take(self, n: int, what: str) -> bytes:
        left = len(self.data) - self.pos
        if n > left:
            raise WireError(self.pos, f"{what} needs {so_many_bytes(n)}, {left} {'is' if left == 1 else 'are'} left")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def u32(self, what: str) -> int:
        return struct.unpack("<I", self.take(4, what))[0]

    def end(self) -> None:
        left = len(self.data) - self.pos
        if left:
            raise WireError(self.pos, left_over(left))


def _read_value(r: _Reader, depth: int) -> object:
    if depth > 100:
        raise WireError(r.pos, "arrays are nested more than 100 deep")
    at = r.pos
    tag = r.take(1, "a tag")[0]
    if tag == NIL:
        return None
    if tag == ERR:
        code = struct.unpack("<i", r.take(4, "an error code"))[0]
        text = r.take(r.u32("the length of an error text"), "an error text")
        return Err(code, text.decode(errors="surrogateescape"))
    if tag == STR:
        return r.take(r.u32("the length of a string"), "a string")
    if tag == INT:
        return struct.unpack("<q", r.take(8, "an integer"))[0]
    if tag == DBL:
        value = struct.unpack("<d", r.take(8, "a double"))[0]
        if math.isnan(value):
            raise WireError(at, "the double is not a number")
        return value
    if tag == ARR:
        return [_read_value(r, depth + 1) for _ in range(r.u32("the count of an array"))]
    raise WireError(at, f"{tag} is no tag")


def _order(items: Sequence[object]) -> List[object]:
    plain = [item.encode() if isinstance(item, str) else item for item in items]
    if all(type(item) is bytes for item in plain):
        return sorted(plain)  # type: ignore[type-var]
    return sorted(items, key=lambda v: (type(v).__name__, encode_value(v)))
