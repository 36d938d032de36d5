"""RESP, the language of Redis (20 and later): requests, replies of version 2 and 3, and the texts of its errors.

A value is None (null), Err, Simple (+OK), bytes, int, float, bool, a list, or a Map (a list of pairs). Of a score a
test says the number; on the wire of version 2 it is a string, of version 3 a double.
"""
from __future__ import annotations

import functools
import math
import re
import struct
from fractions import Fraction
from typing import Dict, List, Optional, Sequence, Tuple, Union

from .wire import (
    ERR_2BIG, ERR_ARG, ERR_TYPE, ERR_UNKNOWN, AnyOrder, Arg, Between, Err, OneOf, WireError, left_over, parse_int,
    show_bytes, show_double, to_bytes,
)  # fmt: skip

MAX_ARGS = 1 << 20  # strings of a request, as Redis has it before version 7.0.10
MAX_STRING = 32 << 20  # bytes of a value
MAX_INLINE = 64 << 10  # bytes of a line
MAX_DEPTH = 100

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NO_INT = "ERR value is not an integer or out of range"
NO_FLOAT = "ERR value is not a valid float"
TOO_BIG = "ERR the reply is too big"  # of ours: Redis has no such limit
SYNTAX = "ERR syntax error"
PROTOCOL = "ERR Protocol error: "

# Commands of ours by the chapter that brings them, and the number of strings that each asks for: so many, or with a
# minus at least so many. From 21 on that is what Redis asks for; 20 has no options, and one key or pair in each.
SINCE: Dict[int, Dict[bytes, int]] = {
    20: {
        b"get": 2, b"set": 3, b"del": 2, b"keys": 2, b"zadd": 4, b"zrem": 3, b"zscore": 3, b"zquery": 6,
        b"expire": 3, b"pexpire": 3, b"ttl": 2, b"pttl": 2, b"persist": 2, b"ping": -1, b"echo": 2, b"quit": -1,
        b"hello": -1, b"select": 2, b"command": -1,
    },
    21: {
        b"set": -3, b"del": -2, b"zadd": -4, b"zrem": -3, b"expire": -3, b"pexpire": -3, b"client": -2,
        b"config": -2, b"info": -1, b"dbsize": 1, b"flushdb": -1, b"flushall": -1, b"exists": -2, b"unlink": -2,
        b"type": 2, b"mget": -2, b"mset": -3, b"incr": 2, b"decr": 2, b"incrby": 3, b"decrby": 3, b"append": 3,
        b"strlen": 2, b"zcard": 2, b"zrank": 3, b"zrevrank": 3, b"zincrby": 4, b"zcount": 4, b"zrange": -4,
        b"zrangebyscore": -4, b"auth": -2, b"reset": 1, b"msetnx": -3, b"incrbyfloat": 3, b"getrange": 4,
        b"setrange": 4, b"zmscore": -3, b"zlexcount": 4, b"zrangebylex": -4, b"zrevrange": -4,
        b"zrevrangebyscore": -4, b"zrevrangebylex": -4, b"zremrangebyrank": 4, b"zremrangebyscore": 4,
        b"zremrangebylex": 4, b"zpopmin": -2, b"zpopmax": -2,
    },
    22: {
        b"move": 3, b"swapdb": 3, b"rename": 3, b"renamenx": 3, b"copy": -3, b"touch": -2, b"object": -2,
        b"expireat": -3, b"pexpireat": -3, b"expiretime": 2, b"pexpiretime": 2,
        b"setex": 4, b"psetex": 4, b"setnx": 3, b"getset": 3, b"getdel": 2, b"getex": -2, b"time": 1, b"memory": -2,
    },
    23: {b"scan": -2, b"zscan": -3, b"randomkey": 1},
    25: {b"multi": 1, b"exec": 1, b"discard": 1, b"watch": -2, b"unwatch": 1},
    26: {b"subscribe": -2, b"unsubscribe": -1, b"psubscribe": -2, b"punsubscribe": -1, b"publish": 3, b"pubsub": -2},
    28: {b"bgrewriteaof": 1},
}  # fmt: skip
EVERY = {name: count for names in SINCE.values() for name, count in names.items()}


@functools.lru_cache(maxsize=None)
def arity(chapter: int) -> Dict[bytes, int]:
    """The commands of a chapter."""
    return {name: count for since, names in SINCE.items() if since <= chapter for name, count in names.items()}


NOT_IN_REDIS = (b"zquery",)
WITHOUT_KEYS = (
    b"keys", b"ping", b"echo", b"quit", b"hello", b"select", b"command", b"client", b"config", b"info", b"dbsize",
    b"flushdb", b"flushall", b"swapdb", b"randomkey", b"scan", b"time", b"auth", b"reset",
    b"multi", b"exec", b"discard", b"unwatch",
    b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"publish", b"pubsub",
)  # fmt: skip


def keys(words: Sequence[bytes]) -> Sequence[bytes]:
    """The keys that a command names."""
    name = words[0].lower() if words else b""
    if name not in EVERY or name in WITHOUT_KEYS:
        return []
    if name in (b"del", b"unlink", b"exists", b"touch", b"mget", b"watch"):
        return words[1:]
    if name in (b"rename", b"renamenx", b"copy", b"object", b"memory"):
        return words[2:3] if name in (b"object", b"memory") else words[1:3]
    return words[1::2] if name in (b"mset", b"msetnx") else words[1:2]


class Simple(bytes):
    """A simple string: +OK."""

    def shown(self) -> str:
        return f"(simple) {self.decode('latin-1')}"


class Map(list):
    """A map of version 3: its pairs, in order."""


class Push(list):
    """What a connection gets that speaks version 3, without having asked for it now."""


SCORE = re.compile(r"-?(inf|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)")


class Score:
    """Expects a number, however the version of the protocol has it."""

    def __init__(self, value: float) -> None:
        self.value = float(value)

    def is_met_by(self, got: object) -> bool:
        """Is it the same double, bit for bit but for the sign of 0?"""
        if type(got) is bytes:
            text = got.decode("latin-1")
            if not SCORE.fullmatch(text):
                return False
            got = float(text)
        return type(got) is float and struct.pack("<d", got + 0.0) == struct.pack("<d", self.value + 0.0)

    def shown(self) -> str:
        return f"(number) {show_double(self.value)}"


class Nil:
    """Expects nil, also as the answer to a `set` (of that, None says that it is done)."""

    def is_met_by(self, got: object) -> bool:
        """Is it nil?"""
        return got is None

    def shown(self) -> str:
        return "(nil)"


OK, PONG, NIL = Simple(b"OK"), Simple(b"PONG"), Nil()


# ---- requests ---------------------------------------------------------------------------------


def array(*args: Arg) -> bytes:
    """A request: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if type(arg) is bytes else arg.encode() if type(arg) is str else to_bytes(arg)
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
WORD = re.compile(rb"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\'|[^'\\]|\\(?!'))*)'|([^ \t\r\n"']+))""", re.DOTALL)


def split_inline(line: bytes) -> List[bytes]:
    """The words of a line, quoted as redis-cli does. WireError where the quotes are not in balance."""
    words: List[bytes] = []
    at, ended = 0, True
    while line[at:].strip():
        ended = ended or line[at] in b" \t\r\n"  # before a word, more of them are blanks
        match = WORD.match(line, at)
        if not match:
            raise WireError(at, "unbalanced quotes in request")
        quoted = match[3] is None
        piece = match[3] if not quoted else _unescaped(match[1]) if match[1] is not None else _single(match[2])
        if ended:
            words.append(piece)
        else:
            words[-1] += piece
        at, ended = match.end(), quoted
        if quoted and line[at : at + 1].strip():
            raise WireError(at, "unbalanced quotes in request")
    return words


def _unescaped(text: bytes) -> bytes:
    def one(match: "re.Match[bytes]") -> bytes:
        code = match[1]
        return bytes([int(code[1:], 16)]) if len(code) == 3 else ESCAPES.get(code, code)

    return re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", one, text, flags=re.DOTALL)


def _single(text: bytes) -> bytes:
    return text.replace(b"\\'", b"'")


def take_request(data: bytes, at: int = 0, most: int = MAX_ARGS, limit: int = 32 << 20) -> Tuple[List[bytes], int]:
    """The strings of the request that begins there, and where it ends: -1 where it is not whole, then these are the
    strings that have come. WireError, in Redis's words, where it is malformed.

    most is the number of strings that there may be, limit the bytes of a string.
    """
    words: List[bytes] = []
    if data[at : at + 1] != b"*":
        end = data.find(b"\n", at)
        if (end if end >= 0 else len(data)) - at > MAX_INLINE:
            raise WireError(at, "too big inline request")
        return (split_inline(data[at:end]), end + 1) if end >= 0 else (words, -1)
    end = _array_end(data, at, most, limit, words)
    return words, end


def request_end(data: bytes, at: int = 0, most: int = MAX_ARGS, limit: int = 32 << 20) -> int:
    """Where the request ends that begins there, as take_request() says it; its strings are not copied."""
    if data[at : at + 1] != b"*":
        return take_request(data, at, most, limit)[1]
    return _array_end(data, at, most, limit, None)


def _array_end(data: bytes, at: int, most: int, limit: int, words: Optional[List[bytes]]) -> int:
    """Where the array ends that begins there, -1 where it is not whole. Its strings go to words."""
    try:
        count, at = _head(data, at, STAR, "invalid multibulk length", most)
        for _ in range(count):
            size, at = _head(data, at, DOLLAR, "invalid bulk length", limit)
            if size < 0:
                raise WireError(at, "invalid bulk length")
            if at + size + 2 > len(data):
                return -1
            if words is not None:
                words.append(data[at : at + size])
            at += size + 2
    except _NotWhole:
        return -1
    return at


def understood(data: bytes, most: int = MAX_ARGS, limit: int = 32 << 20) -> Tuple[List[List[bytes]], str, int]:
    """All requests in a stream, empty ones too; why there are no more: Redis's words, or "" where more may come; and
    how many bytes they take."""
    requests: List[List[bytes]] = []
    used = 0
    try:
        while used < len(data):
            words, end = take_request(data, used, most, limit)
            if end < 0:
                break
            if data[used : used + 1] != b"*" and words and words[0].lower() in (b"post", b"host:"):
                raise WireError(used, "HTTP is not spoken here")
            requests.append(words)
            used = end
    except WireError as e:
        return requests, str(e), used
    return requests, "", used


class _NotWhole(Exception):
    """A line whose end has not come."""


STAR, DOLLAR, ZERO = b"*$0"


def _head(data: bytes, at: int, kind: int, what: str, most: int) -> Tuple[int, int]:
    """The number behind * or $, and where the next thing begins. _NotWhole where the line is not."""
    end = data.find(b"\r", at)
    if at + 2 <= end < at + 6 and end + 1 < len(data) and data[at] == kind:  # nearly all
        digits = data[at + 1 : end]
        if digits.isdigit() and (digits[0] != ZERO or end == at + 2) and int(digits) <= most:
            return int(digits), end + 2
    if end < 0 and len(data) - at > MAX_INLINE:
        raise WireError(at, "too big mbulk count string" if kind == STAR else "too big bulk count string")
    if end < 0 or end + 1 == len(data):
        raise _NotWhole
    if data[at] != kind:
        found = b" " if data[at] < 32 else data[at : at + 1]
        raise WireError(at, f"expected '{chr(kind)}', got '{found.decode('utf-8', 'surrogateescape')}'")
    value = parse_int(data[at + 1 : end])
    if value is None or value > most:
        raise WireError(at, what)
    return value, end + 2


# ---- replies ----------------------------------------------------------------------------------


def encode(value: object, version: int = 2) -> bytes:
    """A reply."""
    three = version == 3
    if value is None or isinstance(value, Nil):
        return b"_\r\n" if three else b"$-1\r\n"
    if isinstance(value, Score):
        value = value.value
    if isinstance(value, Err):
        text = "ERR" if value.text is None else value.text
        return b"-%s\r\n" % text.encode("utf-8", "surrogateescape")
    if isinstance(value, Simple):
        return b"+%s\r\n" % value
    if isinstance(value, bool):
        return (b"#t\r\n" if value else b"#f\r\n") if three else b":%d\r\n" % value
    if isinstance(value, (bytes, str)):
        return b"$%d\r\n%s\r\n" % (len(to_bytes(value)), to_bytes(value))
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, float):
        text = number(value)
        return b",%s\r\n" % text if three else encode(text)
    if isinstance(value, Map):
        head = b"%%%d\r\n" % len(value) if three else b"*%d\r\n" % (2 * len(value))
        return head + b"".join(encode(each, version) for pair in value for each in pair)
    if isinstance(value, Push) and three:
        return b">%d\r\n" % len(value) + b"".join(encode(each, version) for each in value)
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(encode(each, version) for each in value)
    raise TypeError(f"not a value: {value!r}")


def number(value: float) -> bytes:
    """A double as Redis writes it: 17 digits, fewer where the rest are zeros."""
    if math.isinf(value):
        return b"inf" if value > 0 else b"-inf"
    return b"%.17g" % value


class ReplyEnd:
    """Looks for the end of the next reply in a buffer that grows, each byte once."""

    def __init__(self) -> None:
        self.at, self.pending = 0, 1

    def find(self, data: bytearray) -> int:
        """Where it ends, -1 where it is not whole yet. WireError where it can never be."""
        while self.pending:
            line = data.find(b"\r\n", self.at)
            if line < 0 or line + 2 > len(data):
                if len(data) - self.at > MAX_INLINE and data[self.at] not in b"+-":
                    raise WireError(self.at, "a line without an end")
                return -1
            kind, text = data[self.at : self.at + 1], bytes(data[self.at + 1 : line])
            after = line + 2
            if kind in (b"$", b"=") and text != b"-1":
                after += _size(text, self.at) + 2
                if after > len(data):
                    return -1
                if data[after - 2 : after] != b"\r\n":
                    raise WireError(after - 2, "a string must end with \\r\\n where its length says")
            elif kind in (b"*", b"~", b">") and text != b"-1":
                self.pending += _size(text, self.at)
            elif kind == b"%":
                self.pending += 2 * _size(text, self.at)
            elif kind not in (b"$", b"*", b"+", b"-", b":", b"_", b"#", b","):
                raise WireError(self.at, f"{show_bytes(bytes(kind))} begins no reply")
            self.at, self.pending = after, self.pending - 1
        return self.at


def _size(text: bytes, at: int) -> int:
    if not text.isdigit() or len(text) > 10:
        raise WireError(at + 1, f"{show_bytes(text)} is no length")
    return int(text)


INTEGER = re.compile(rb"-?[0-9]{1,19}")


def decode(data: bytes, version: int = 2) -> object:
    """A reply that is whole. WireError where it is malformed, or of version 3 and that was not asked for."""
    value, at = _value(data, 0, version, 0)
    if at != len(data):
        raise WireError(at, left_over(len(data) - at))
    return value


def _value(data: bytes, at: int, version: int, depth: int) -> Tuple[object, int]:
    if depth > MAX_DEPTH:
        raise WireError(at, f"arrays are nested more than {MAX_DEPTH} deep")
    line = data.find(b"\r\n", at)
    if line < 0:
        raise WireError(at, "no \\r\\n behind this")
    kind, text, after = data[at : at + 1], data[at + 1 : line], line + 2
    if kind == b"+":
        return Simple(text), after
    if kind == b"-":
        return error(text.decode("utf-8", "surrogateescape")), after
    if kind == b":":
        if not INTEGER.fullmatch(text):
            raise WireError(at + 1, f"{show_bytes(text)} is no integer")
        return int(text), after
    if kind in (b"$", b"*") and text == b"-1" and version == 2:
        return None, after
    if kind == b"$":
        end = after + _size(text, at)
        if data[end : end + 2] != b"\r\n":
            raise WireError(end, "a string must end with \\r\\n where its length says")
        return data[after:end], end + 2
    if kind in (b"*", b"%", b"~", b">"):
        if kind != b"*" and version == 2:
            raise WireError(at, "a type of version 3, which this connection has not asked for (HELLO 3)")
        items: List[object] = []
        at = after
        for _ in range(_size(text, at) * (2 if kind == b"%" else 1)):
            item, at = _value(data, at, version, depth + 1)
            items.append(item)
        if kind == b">":
            return Push(items), at
        return (items if kind != b"%" else Map(zip(items[::2], items[1::2]))), at
    if version == 3:
        if kind == b"=":
            end = after + _size(text, at)
            return data[after + 4 : end], end + 2
        if kind == b"_" and not text:
            return None, after
        if kind == b"#" and text in (b"t", b"f"):
            return text == b"t", after
        if kind == b",":
            if not Score(math.nan).is_met_by(text) and not re.fullmatch(rb"-?(inf|[0-9.e+-]+)", text):
                raise WireError(at + 1, f"{show_bytes(text)} is no double")
            return float(text), after
    elif kind in (b"_", b"#", b","):
        raise WireError(at, "a type of version 3, which this connection has not asked for (HELLO 3)")
    raise WireError(at, f"{show_bytes(kind)} begins no reply")


def error(text: str) -> Err:
    """An error reply, with the code that the same mistake has in the chapters before."""
    if text.startswith("ERR unknown command"):
        return Err(ERR_UNKNOWN, text)
    return Err({WRONG_TYPE: ERR_TYPE, TOO_BIG: ERR_2BIG}.get(text, ERR_ARG), text)


# ---- numbers --------------------------------------------------------------------------------------


def parse_double(text: bytes) -> Optional[float]:
    """A double as Redis reads it: whatever strtod() takes, but for blanks, NaN, and what becomes 0 or infinite."""
    if re.fullmatch(rb"[+-]?inf(inity)?", text, re.IGNORECASE):
        return float(text)
    if re.fullmatch(rb"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", text, re.IGNORECASE):
        digits, value = text[2:].lower().split(b"p")[0].lstrip(b"x"), float.fromhex(text.decode())
    elif re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        digits, value = text.lower().split(b"e")[0], float(text)
    else:
        return None
    vanished = value == 0 and bool(digits.strip(b"+-0."))
    return None if math.isinf(value) or vanished else value + 0.0


def long_double(text: bytes) -> Union[Fraction, float, None]:
    """A long double of x86, with 64 bits for its digits, as Redis reads it; inf is a float."""
    if re.fullmatch(rb"[+-]?inf(inity)?", text, re.IGNORECASE):
        return float(text)
    if re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?", text):
        value = _to_64_bits(Fraction(text.decode()))
        return value if abs(value) < 2**16384 else None
    value = parse_double(text)  # hexadecimal, or nothing
    return None if value is None else Fraction(value)


def _to_64_bits(value: Fraction) -> Fraction:
    if value == 0:
        return value
    bits = abs(value).numerator.bit_length() - abs(value).denominator.bit_length() - 64
    unit = Fraction(2) ** (bits if abs(value) < Fraction(2) ** (bits + 64) else bits + 1)
    return round(value / unit) * unit


def long_double_text(value: Fraction) -> bytes:
    """A sum as Redis writes it: 17 digits behind the point, without the zeros at their end."""
    units = round(_to_64_bits(value) * 10**17)
    text = f"{'-' * (units < 0)}{abs(units) // 10**17}.{abs(units) % 10**17:017}".rstrip("0").rstrip(".")
    return text.encode()


# ---- what the cases of 07 to 19 expect, in Redis's words ----------------------------------------


def expected(value: object, words: Sequence[bytes]) -> object:
    """What a case of the chapters before expects of these words, as RESP has it."""
    if type(value) is bytes:  # nearly all
        return value
    name = words[0].lower() if words else b""
    if value is None and name == b"set":
        return OK
    if isinstance(value, Err) and words:
        return OneOf(*(Err(value.code, text) for text in texts(value.code, words))) if _is_free(value) else value
    if isinstance(value, float):
        return Score(value)
    if isinstance(value, list) and type(value) is list:
        return [expected(each, ()) for each in value]
    if isinstance(value, OneOf):
        return OneOf(*(expected(each, words) for each in value.options))
    return value


def depends_on_words(value: object) -> bool:
    """Does expected() look at the words for this value?"""
    return value is None or isinstance(value, (Err, OneOf))


def _is_free(value: Err) -> bool:
    return value.text in (None, "Unknown cmd") or value.code == ERR_2BIG


def texts(code: int, words: Sequence[bytes]) -> List[str]:
    """What Redis may say to these words, where the protocol of the chapters before has this code."""
    name = words[0].lower()
    if code == ERR_UNKNOWN:
        return [unknown(words)]
    if code == ERR_2BIG:
        return [TOO_BIG]
    if code == ERR_TYPE:
        return [WRONG_TYPE]
    count = EVERY.get(name, 0)
    if count and (len(words) < -count if count < 0 else len(words) != count):
        return [f"ERR wrong number of arguments for '{name.decode()}' command"]
    shown = name.decode("latin-1")
    if name in (b"expire", b"pexpire") and len(words) > 3:
        bad = next((word for word in words[3:] if word.lower() not in (b"nx", b"xx", b"gt", b"lt")), b"")
        return [f"ERR Unsupported option {bad.decode('utf-8', 'surrogateescape')}"]
    return {
        b"zadd": [NO_FLOAT, SYNTAX], b"zquery": [NO_FLOAT, NO_INT],
        b"expire": [NO_INT, f"ERR invalid expire time in '{shown}' command"],
        b"pexpire": [NO_INT, f"ERR invalid expire time in '{shown}' command"],
    }.get(name, [NO_INT])  # fmt: skip


def unknown(words: Sequence[bytes]) -> str:
    """What Redis says to a command that it does not know: the beginning of all, up to their first NULs."""
    texts = [word.split(b"\0")[0] for word in words]
    args = b""
    for text in texts[1:]:
        if len(args) >= 128:
            break
        args += b"'%s' " % text[: 128 - len(args)]
    said = b"ERR unknown command '%s', with args beginning with: %s" % (texts[0][:128], args)
    return re.sub(rb"[\r\n]", b" ", said).decode("utf-8", "surrogateescape")


# ---- requests that are none ---------------------------------------------------------------------

MALFORMED: Dict[str, Tuple[bytes, str]] = {
    "a count that is no number": (b"*x\r\n$3\r\nget\r\n", "invalid multibulk length"),
    "a count with a blank": (b"* 1\r\n$4\r\nping\r\n", "invalid multibulk length"),
    "a count with a plus": (b"*+1\r\n$4\r\nping\r\n", "invalid multibulk length"),
    "a count with a zero in front": (b"*01\r\n$4\r\nping\r\n", "invalid multibulk length"),
    "a length with a zero in front": (b"*1\r\n$04\r\nping\r\n", "invalid bulk length"),
    "a count of -0": (b"*-0\r\nPING\r\n", "invalid multibulk length"),
    "an empty line in place of a string": (b"*1\r\n\r\n", "expected '$', got ' '"),
    "an empty count": (b"*\r\n$4\r\nping\r\n", "invalid multibulk length"),
    "a count of 2^31": (b"*2147483648\r\n$3\r\nget\r\n", "invalid multibulk length"),
    "a count beyond 64 bits": (b"*99999999999999999999\r\n", "invalid multibulk length"),
    "an integer in place of a string": (b"*2\r\n$3\r\nget\r\n:1\r\n", "expected '$', got ':'"),
    "a string without its length": (b"*1\r\nping\r\n", "expected '$', got 'p'"),
    "an array within": (b"*1\r\n*1\r\n$4\r\nping\r\n", "expected '$', got '*'"),
    "a length that is no number": (b"*1\r\n$x\r\nping\r\n", "invalid bulk length"),
    "a length with a blank": (b"*1\r\n$ 4\r\nping\r\n", "invalid bulk length"),
    "an empty length": (b"*1\r\n$\r\nping\r\n", "invalid bulk length"),
    "a length of -1": (b"*1\r\n$-1\r\n", "invalid bulk length"),
    "a length of 2^40": (b"*2\r\n$3\r\nget\r\n$1099511627776\r\nk\r\n", "invalid bulk length"),
    "a length beyond 64 bits": (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
    "quotes that do not end": (b'get "k\r\n', "unbalanced quotes in request"),
    "single quotes that do not end": (b"get 'k\r\n", "unbalanced quotes in request"),
    "quotes that end inside of a word": (b'get "k"x\r\n', "unbalanced quotes in request"),
}
# The same, for which more bytes behind them may end the line after all.
ENDLESS: Dict[str, Tuple[bytes, str]] = {
    "a count without an end": (b"*" + b"1" * (MAX_INLINE + 100), "too big mbulk count string"),
    "a length without an end": (b"*1\r\n$" + b"1" * (MAX_INLINE + 100), "too big bulk count string"),
    "a line without an end": (b"g" * (MAX_INLINE + 100), "too big inline request"),
}


# Replies that are wrong, for clients; and some that are not whole.
BAD_REPLIES: Dict[str, bytes] = {
    "no type": b"hello\r\n",
    "an empty line": b"\r\n",
    "a type that is none": b"@1\r\n",
    "an integer that is none": b":1x\r\n",
    "an empty integer": b":\r\n",
    "an integer beyond 64 bits": b":9223372036854775808\r\n",
    "a double that is none": b",1.5.5\r\n",
    "a double of 64 digits, more than we have room for": b"," + b"1" * 64 + b"\r\n",
    "a truth value that is none": b"#x\r\n",
    "something behind nothing": b"_x\r\n",
    "a length that is no number": b"$x\r\n",
    "a length below -1": b"$-2\r\n",
    "a length with a plus": b"$+1\r\nx\r\n",
    "a length beyond 64 bits": b"$99999999999999999999\r\n",
    "a string of 2^40 bytes": b"$1099511627776\r\n",
    "a string that is longer than its length": b"$2\r\nabc\r\n",
    "a string that is shorter than its length": b"$4\r\nabc\r\nxyz",
    "a text that is shorter than the name of its form": b"=3\r\nabc\r\n",
    "a count below -1": b"*-2\r\n",
    "a count of 2^40": b"*1099511627776\r\n",
    "a wrong value in an array": b"*2\r\n_\r\n?\r\n",
    "nested 100000 deep": b"*1\r\n" * 100_000 + b"_\r\n",
}
CUT_REPLIES: Dict[str, bytes] = {
    "nothing": b"",
    "a type alone": b"+",
    "a line without an end": b"+OK",
    "half of an end": b"+OK\r",
    "a string without its bytes": b"$5\r\n",
    "a string without its last byte": b"$5\r\nabcd",
    "a string without its end": b"$5\r\nabcde",
    "an array without its last value": b"*2\r\n:1\r\n",
    "a map without a value": b"%1\r\n+a\r\n",
}


# ---- comparing ------------------------------------------------------------------------------------


def plain(value: object) -> object:
    """A value without patterns, to look for the first byte that differs."""
    if isinstance(value, OneOf):
        return plain(value.options[0])
    if isinstance(value, AnyOrder):
        return [plain(each) for each in value.items]
    if isinstance(value, Between):
        return value.low
    return getattr(value, "example", value)
