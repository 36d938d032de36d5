"""What a reply that is well-formed and wrong may come of: told by the command, by what was sent about its key before,
and by the two values."""
from __future__ import annotations

import struct
import time
from typing import List, Optional, Sequence, Set, Tuple

from . import resp, wire
from .codec import Binary, Resp
from .wire import AnyOrder, Err, Status

Words = List[bytes]
EXPIRES = (b"expire", b"pexpire", b"expireat", b"pexpireat", b"setex", b"psetex")
WRITES = (b"set", b"del", b"unlink", b"zadd", b"append", b"incr", b"setnx", b"getset", *EXPIRES, b"persist")
NUMBERS = (
    b"del", b"zadd", b"zrem", b"expire", b"pexpire", b"ttl", b"pttl", b"persist", b"exists", b"unlink", b"strlen",
    b"append", b"incr", b"decr", b"incrby", b"decrby", b"zcard", b"zcount", b"dbsize",
)  # fmt: skip


def _tag_of(value: object) -> Optional[int]:
    """The tag of a reply with this value, None where any may come."""
    if isinstance(value, AnyOrder):
        return wire.ARR
    try:
        return wire.encode_value(value)[0]
    except TypeError:
        return None


TAGS = ("nil", "an error", "a string", "an integer", "an array", "a double")


def why_malformed(chapter: int, body: bytes, expected: object) -> str:
    """What may have gone wrong with a reply that cannot be decoded, where this was expected, or ""."""
    if chapter >= wire.RESP_FROM:
        return (
            "a reply begins with its type, + - : $ or *; then comes a number or a text, and \\r\\n. A string has its "
            "length in front, and \\r\\n behind it, too."
        )
    if chapter < 9:
        if len(body) < 4:
            return "does the length count the four bytes of the status, too? It says how many bytes follow it."
        swapped = struct.unpack(">I", body[:4])[0]
        if swapped <= wire.RES_NX:
            return "the status is big-endian; all numbers of the protocol are little-endian"
        return "a reply begins with its status in four bytes: 0 OK, 1 an error, 2 no such key. Then comes the data."
    if not body:
        return "the reply is empty: it must hold at least a tag, and (nil) is the tag 0 alone"
    tag = body[0]
    (n,) = struct.unpack_from("<I", body, 1) if len(body) >= 5 else (0,)
    swapped = struct.unpack_from(">I", body, 1)[0] if len(body) >= 5 else 0
    if tag in (wire.STR, wire.ARR) and n > len(body) >= swapped:
        return "the length behind the tag is big-endian; all numbers of the protocol are little-endian"
    wanted = _tag_of(expected)
    if wanted is not None and tag != wanted and tag < len(TAGS):
        return f"the tag is {tag}, which is {TAGS[tag]}: {TAGS[wanted]} is expected, and that has the tag {wanted}"
    if tag == wire.INT and len(body) == 5 + swapped or tag == wire.INT and len(body) == 5 + n:
        return (
            "the tag is that of an integer, and what follows looks like a string: is it the right tag? "
            "Strings have 2"
        )
    if tag == wire.INT and len(body) == 5:
        return "an integer has eight bytes (i64) behind its tag; here there are four"
    if tag == wire.ERR and len(body) >= 9 and struct.unpack_from("<I", body, 1)[0] == len(body) - 5:
        return "an error has its code (i32) between the tag and the text: tag 1, code, length, text"
    if tag > wire.DBL:
        return (
            "the reply begins with no tag: 0 nil, 1 error, 2 string, 3 integer, 4 "
            "array" + ", 5 double" * (chapter >= 11)
        )
    return "is each part of the reply as long as the protocol says, and does its length count all of it and no more?"


def why_wrong(
    language: "Binary | Resp", words: Words, expected: object, got: object, past: Sequence[Words],
    beside: Sequence[object] = (),
) -> str:  # fmt: skip
    """A likely cause. words are those of the request, past those of the requests before it, beside the replies that
    are expected before and after it."""
    expected, got = _plain(expected), _plain(got)
    name, key = words[0].lower() if words else b"", words[1] if len(words) > 1 else b""
    about = [one for one in past if key in one[1:2] or one[0].lower() in (b"del", b"mset") and key in one[1:]]
    return (
        _another_reply(language.chapter, name, got, about, beside)
        or _taken_for_malformed(got)
        or _by_command(language, name, words, expected, got, about, any(one[0].lower() == b"select" for one in past))
        or _by_values(language, expected, got)
    )


def _plain(value: object) -> object:
    """A value without what a status, a version of RESP or a pattern makes of it."""
    if isinstance(value, Status):
        return {0: value.data or b"", 1: Err(0, (value.data or b"").decode("latin-1"))}.get(value.status)
    if isinstance(value, wire.OneOf):
        return _plain(value.options[0])
    if isinstance(value, resp.Score):
        return value.value
    if isinstance(value, resp.Nil):
        return None
    return [_plain(one) for one in value] if type(value) is list else value


def _another_reply(chapter: int, name: bytes, got: object, about: List[Words], beside: Sequence[object]) -> str:
    """It is the reply to something else."""
    if not isinstance(got, bytes) or not got:
        return ""
    sets = [one[2] for one in about if one[0].lower() == b"set" and len(one) == 3]
    if name == b"get" and got in sets[:-1] and got != sets[-1]:
        older = ", in the older table, too, while the larger one is filled" if chapter >= 8 else ""
        return f"this is an older value of the key: does `set` replace the value of a key that is there already{older}?"
    if name != b"get" and any(wire.same(other, got) for other in beside):
        return (
            "this is the reply to another request of the same write: are the replies sent in the order of the "
            "requests, and are the bytes of a request that has its reply taken out of the buffer?"
        )
    return ""


def _taken_for_malformed(got: object) -> str:
    """The server has seen no request in what was sent."""
    if isinstance(got, Err) and (got.text or "").startswith(resp.PROTOCOL):
        return (
            "the server takes a request for malformed that is not: does it pass over the \\r\\n behind a string, too? "
            "And where it does not begin with *, it is a line of words."
        )
    return ""


# ---- what each command may have wrong ----


def _by_command(
    language: "Binary | Resp", name: bytes, words: Words, expected: object, got: object, about: List[Words],
    selected: bool,
) -> str:  # fmt: skip
    """What the command tells; selected says whether another database was chosen."""
    spoken = name.decode("latin-1")
    tagged = 9 <= language.chapter < wire.RESP_FROM
    if isinstance(expected, Err):
        return _should_refuse(language, name, words, expected, got, about)
    if isinstance(got, Err):
        return _should_accept(language, name, words, got, about)
    if name in NUMBERS and not isinstance(got, int) and isinstance(expected, (int, wire.Between)):
        form = "tag 3 and eight bytes" if tagged else "a colon, its digits and \\r\\n"
        return f"`{spoken}` answers with an integer ({form})"
    if name == b"get":
        return _get(language.chapter, expected, got, about, selected)
    if name in (b"ttl", b"pttl"):
        return _ttl(name, expected, got, about)
    if name in (b"expire", b"pexpire"):
        if expected == 1:
            return f"`{spoken}` answers 1 where the key is there; it was set before. Is it gone already?"
        if expected == 0 and _was_given_time(about):
            return f"the key has expired: `{spoken}` must not find it any more, and answers 0"
        return f"`{spoken}` answers 0 where there is no such key"
    if name == b"persist":
        if expected == 0 and _was_given_time(about):
            return (
                "`persist` answers 1 only where it takes a deadline away: not twice, not after `set`, not for a key "
                "that has expired"
            )
        return "`persist` answers 1 where it takes a deadline away, and 0 for a key without one, or no key"
    if name == b"del" and language.chapter < 9:
        return "`del` answers with status 0, whether or not the key was there"
    if name in (b"del", b"unlink", b"exists"):
        return _del(spoken, expected, got, about)
    if name == b"keys":
        return _keys(language.chapter, expected, got)
    if name[:1] == b"z":
        return _zset(name, words, expected, got, about, tagged)
    if name in (b"incr", b"decr", b"incrby", b"decrby"):
        return f"`{spoken}` answers with the number after the change, and a key that is not there counts from 0"
    if name == b"set" and language.chapter < 9:
        return "`set` answers with status 0 and no data"
    if name == b"set" and expected is None and not isinstance(got, bytes):
        return "`set` answers (nil), the tag 0"
    return ""


def _should_refuse(
    language: "Binary | Resp", name: bytes, words: Words, expected: Err, got: object, about: List[Words]
) -> str:
    """An error must come."""
    spoken = name.decode("latin-1")
    if language.chapter < 9:
        if name in (b"get", b"set", b"del"):
            return f"`{spoken}` has a fixed number of arguments: with fewer or more it is an error, status 1"
        return (
            "there is no command of exactly this name: compare all of its bytes, and its length. Status 1, "
            "Unknown cmd"
        )
    if isinstance(got, Err):
        if language.chapter >= wire.RESP_FROM:
            return (
                "an error of Redis has a text of its own, word for word: what follows the code may be all that "
                "differs"
            )
        return f"the error is right, its code is not: {wire.ERROR_NAMES.get(expected.code, '')}"
    if expected.code == wire.ERR_TYPE:
        other = "sorted set" if name[:1] != b"z" else "string"
        return (
            f"the key holds a {other}, and `{spoken}` is not for those: each key has a type, and each command looks at "
            f"it before it looks at the value{code(language, 3)}"
        )
    if expected.code == wire.ERR_2BIG:
        return f"the reply is larger than a message may be: an error comes in its place{code(language, 2)}"
    if expected.code == wire.ERR_ARG and b"" in words[1:]:
        return f"the server accepts an empty text for a number{code(language, 4)}"
    if expected.code == wire.ERR_ARG:
        return (
            f"the server accepts what it must refuse: is one of the arguments no number, or out of range, or is their "
            f"count wrong for `{wire.show_bytes(name)}`?{code(language, 4)}"
        )
    return f"there is no command of exactly this name: compare all of its bytes, and its length{code(language, 1)}"


def code(language: "Binary | Resp", number: int) -> str:
    """An error's number, where errors have one."""
    return f". The error is {number}." if 9 <= language.chapter < wire.RESP_FROM else ""


def _should_accept(language: "Binary | Resp", name: bytes, words: Words, got: Err, about: List[Words]) -> str:
    """An error has come instead of something else."""
    text, spoken = got.text or "", name.decode("latin-1")
    if "unknown" in text.lower() or got.code == wire.ERR_UNKNOWN and 9 <= language.chapter < wire.RESP_FROM:
        if words and words[0] != name:
            return "the server does not know the command: a name may come in letters of any case"
        return f"the server does not know `{spoken}`: it is a command of this chapter"
    if name == b"set" and any(one[0].lower() == b"zadd" for one in about):
        return "`set` replaces a value of any type: the sorted set that was there goes"
    return f"the server refuses what it must accept: {text or 'an error'}"


def _get(chapter: int, expected: object, got: object, about: List[Words], selected: bool) -> str:
    """A `get` that is no error on either side."""
    if selected and expected != got and chapter >= wire.KEYSPACE_FROM and not _was_given_time(about):
        return (
            "each connection has a database that it has chosen, and each database has keys of its own: is "
            "`select` kept?"
        )
    last = _last_write(about)
    if expected is None and got == b"":
        return "nil and a string of no bytes are two things: is nil written as what it is?"
    if expected is None and isinstance(got, bytes):
        if _was_given_time(about):
            return (
                "the time of this key is over, and it is still found: compare its deadline with the clock whenever "
                "a key is looked up. The timer may come later."
            )
        if last == b"del" and any(got in one[2:3] for one in about):
            return "`del` has answered, and the key is still there: is it taken out of " + (
                "the table that it is in, the older one too?" if chapter >= 8 else "the map?")  # fmt: skip
        return (
            "the server finds a key that should not be there: are keys compared by all of their bytes, and by "
            "length?"
        )
    if got is None and isinstance(expected, bytes):
        if _was_given_time(about):
            if last in (b"set", b"persist"):
                return (
                    f"the key is gone although `{last.decode()}` came after its deadline was set: that must take "
                    "the deadline away, also where a timer waits for it"
                )
            return (
                "the key is gone before its time: `expire` counts seconds and `pexpire` milliseconds, from the moment "
                "of the request"
            )
        more = ", in the older table too, while the larger one is filled" if chapter >= 8 else ""
        return (
            f"the server does not find what was set: is the key looked for where `set` has put it{more}? Are all bytes "
            "of two keys compared?"
        )
    return ""


def _ttl(name: bytes, expected: object, got: object, about: List[Words]) -> str:
    """A `ttl` or `pttl` with a wrong number."""
    low, high = (expected.low, expected.high) if isinstance(expected, wire.Between) else (expected, expected)
    if not isinstance(got, int) or not isinstance(low, int) or not isinstance(high, int):
        return ""
    last = _last_write(about)
    if low == high == -2:
        return "-2 says that there is no such key" + (
            ": its time is over, whether or not a timer has been "
            "round" if got != -1 and _was_given_time(about) else "; -1 is for one "
            "without a deadline")  # fmt: skip
    if low == high == -1:
        why = f": `{last.decode()}` takes the deadline away" if last in (b"set", b"persist") and got >= 0 else ""
        return f"-1 says that the key is there and has no deadline{why or '; -2 is for a key that is not there'}"
    if got == -1:
        return "the deadline is lost, or was never kept: the key has one, and is here without (-1)"
    if got == -2:
        return "the key is gone before its time (-2): `expire` counts seconds and `pexpire` milliseconds"
    if got and high > 0 and low <= got * 1000 <= high * 1000 + 999 or low * 900 <= got <= high * 1000 + 999:
        unit = "seconds" if name == b"ttl" else "milliseconds"
        return (
            f"seconds or milliseconds? `{name.decode()}` answers in {unit}, and `expire` takes seconds, `pexpire` "
            "milliseconds"
        )
    if got < 0:
        return "the time that is left is never negative: a key whose deadline has passed is not there (-2)"
    if abs(got) > 10 * abs(high) or _is_a_time(got - high, 1 if name == b"ttl" else 1000):
        return "is this the deadline itself? What is left is the deadline without the time of now."
    if name == b"ttl" and got in (low - 1, high + 1):
        return "`ttl` rounds to the nearest second: (milliseconds + 500) / 1000"
    return (
        "what is left is the deadline without the time of now: is the last `expire` or `pexpire` the one that "
        "counts?"
    )


def _is_a_time(number: int, units: int) -> bool:
    """Is it about now, in units of a second, by the wall clock or by the one that counts from the machine's start?"""
    return any(abs(number - now * units) < 60 * units for now in (time.time(), time.monotonic()))


def _del(spoken: str, expected: object, got: object, about: List[Words]) -> str:
    """A command that counts the keys that are there."""
    if isinstance(expected, int) and isinstance(got, int):
        if got > expected and _was_given_time(about):
            return f"`{spoken}` counts a key whose time is over: that one is not there any more"
        if got > expected:
            return f"`{spoken}` answers with the number of keys that were there: 0 where there was none"
        return f"`{spoken}` does not find a key that was set: it answers with the number of keys that were there"
    return ""


def _keys(chapter: int, expected: object, got: object) -> str:
    """Keys that are missing or too many."""
    wanted = expected.items if isinstance(expected, wire.AnyOrder) else expected
    if not isinstance(wanted, list):
        return ""
    if not isinstance(got, list):
        return "`keys` answers with an array, also where it is empty"
    there: Set[bytes] = {item for item in got if isinstance(item, bytes)}
    missing = [item for item in wanted if item not in there]
    extra = [item for item in there if item not in wanted]
    if len(there) < len(got):
        return "a key is listed twice: is it in both tables, or is one bucket visited twice?"
    if missing and extra:
        return "other keys than were set: are a key's bytes copied, or does it point into a buffer that is used again?"
    if extra:
        dead = ", one whose time is over" if chapter >= 13 else ""
        return f"{len(extra)} too many, {wire.show_bytes(extra[0])} for one: a key that was deleted{dead} is not listed"
    if missing:
        return (
            f"{len(missing)} are missing, {wire.show_bytes(missing[0])} for one: `keys` walks through every bucket of "
            f"both "
            "tables, and through each chain to its end"
        )
    return ""


def _zset(
    name: bytes, words: Words, expected: object, got: object, about: List[Words], tagged: bool
) -> str:
    """A command for sorted sets."""
    if not tagged and isinstance(expected, float) and isinstance(got, bytes):
        got = _number(got)
    if name == b"zadd" and isinstance(expected, int):
        if expected == 0:
            return "`zadd` answers 1 for a name that is new, and 0 for one that was there, whose score it changes"
        return "`zadd` answers 1: this name was not in the set. Was it removed from both the tree and the table?"
    if name == b"zrem":
        return "`zrem` answers 1 where the name was in the set, else 0; another `zrem` of it finds nothing"
    if name in (b"zscore", b"zincrby"):
        if isinstance(expected, float) and isinstance(got, int):
            return "a score is a double (tag 5), not an integer"
        if isinstance(expected, float) and isinstance(got, bytes):
            return "a score is sent as a double: tag 5 and its eight bytes, no text"
        if isinstance(expected, float) and isinstance(got, float):
            return _another_double(expected, got, about)
        if got is None:
            return "the name is in the set: is it looked for by all of its bytes?"
        if expected is None:
            return "there is no such name in the set, or no set: the answer is nil"
        return ""
    if name == b"zquery" and isinstance(expected, list):
        return _zquery(expected, got, tagged)
    if name in (b"zcard", b"zcount", b"zrank", b"zrevrank"):
        return "the names of a set are counted once each, and ranks begin at 0"
    return ""


def _another_double(expected: float, got: float, about: List[Words]) -> str:
    scores = [one[2] for one in about if one[0].lower() == b"zadd" and len(one) > 3]
    if scores and any(_number(text) == got for text in scores[:-1]) and _number(scores[-1]) != got:
        return "this is an older score: `zadd` for a name that is there changes its score, and its place in the tree"
    if abs(got) < 1e15 and got == int(got):
        return "is the score kept as an integer? It is a double, read by strtod(), bit for bit"
    return "is the score kept as a double, and not as a float? All 64 bits come back"


def _number(text: bytes) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def _zquery(expected: List[object], got: object, tagged: bool) -> str:
    """Names and scores in a list."""
    if got is None:
        return "`zquery` answers with an array, an empty one where there is no set, or no pair"
    if not isinstance(got, list):
        return "`zquery` answers with an array: name, score, name, score ..."
    if not tagged:
        got = [_number(one) if i % 2 and isinstance(one, bytes) else one for i, one in enumerate(got)]
    if len(got) == 1 and len(expected) == 2 and got == expected[:1]:
        return "a score is missing: `limit` counts pairs of name and score, and behind each name comes its score"
    if 2 * len(got) == len(expected) and got == expected[::2]:
        return "the scores are missing: behind each name comes its score" + ", a double (tag 5)" * tagged
    if got and tagged and [type(one) for one in got[:2]] != [bytes, float]:
        return "the array holds name and score in turn: a string (tag 2), then a double (tag 5)"
    pairs, wanted = _pairs(got), _pairs(expected)
    if got and 2 * len(got) == len(expected) and got == expected[: len(got)]:
        return "does `limit` count elements? it counts pairs of name and score"
    if sorted(pairs) == sorted(wanted):
        if sorted(pairs) == pairs != wanted or [score for _, score in pairs] == [score for _, score in wanted]:
            return (
                "equal scores: there the names decide, byte by byte (memcmp), and a shorter one comes before a "
                "longer"
            )
        return (
            "the order is wrong: pairs go by score, and where scores are equal by name. Is a score compared as a "
            "number?"
        )
    if len(pairs) > len(wanted) and pairs[: len(wanted)] == wanted:
        return "more pairs than `limit` asks for: it counts pairs of name and score"
    if pairs and pairs == wanted[len(wanted) - len(pairs) :]:
        return (
            "the first pairs are missing: an `offset` of 0 is the first pair that is not less than (score, name), and "
            "1 the one behind it"
        )
    if pairs and wanted and set(pairs) != set(wanted):
        return (
            "it begins at the wrong place: at the first pair that is not less than (score, name); then `offset` moves "
            "it, "
            "backwards where negative, and `limit` counts pairs"
        )
    if not pairs:
        return (
            "nothing comes, where pairs are: the first is the one that is not less than (score, name), and `offset` "
            "moves "
            "on from there, backwards where negative"
        )
    if not wanted:
        return "nothing should come: an offset past either end is the empty array, and so is a limit of 0 or less"
    return "pairs are missing: from the first on, `limit` of them come, or as many as there are"


def _pairs(items: List[object]) -> List[Tuple[object, object]]:
    return [(items[i], items[i + 1]) for i in range(0, len(items) - 1, 2)]


def _last_write(about: List[Words]) -> bytes:
    """The last command that changed the key."""
    return next((one[0].lower() for one in reversed(about) if one[0].lower() in WRITES), b"")


def _was_given_time(about: List[Words]) -> bool:
    return any(one[0].lower() in EXPIRES for one in about)


# ---- what two values tell ----


def _by_values(language: "Binary | Resp", expected: object, got: object) -> str:
    """What the values alone tell."""
    if isinstance(expected, resp.Simple) and not isinstance(got, Err):
        return f"this command has a short text for an answer: +{expected.decode()} and the end of a line"
    if isinstance(expected, bytes) and isinstance(got, bytes):
        if expected.startswith(got) and b"\0" in expected[len(got) : len(got) + 1]:
            return "is it taken for a C string? it may hold any bytes, also NUL"
        if expected.startswith(got) or got.startswith(expected):
            return "only the end differs: is the length right?"
        if len(expected) == len(got) and language.chapter < 7:
            return "other bytes of the right number: is the reply made anew for each message?"
        if len(expected) == len(got):
            return (
                "other bytes of the right number: is the value copied, or does it point into a buffer that is "
                "used again?"
            )
        return "another value than was set: is it kept with its own length, apart from all others?"
    if expected is None and got == b"":
        return "nil and a string of no bytes are two things: is nil written as what it is?"
    if expected is None and isinstance(got, bytes):
        return "the server finds a key that should not be there"
    if got is None and isinstance(expected, (bytes, float)):
        return "the server does not find what should be there"
    return ""
