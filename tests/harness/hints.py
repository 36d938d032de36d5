"""What a reply that is well-formed and wrong may come of: told by the command, by what was sent about its key before,
and by the two values. CAUSES has the causes, in rows of a test and words."""
from __future__ import annotations

import struct
import time
from functools import cached_property
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import resp, wire
from .codec import Binary, Resp
from .wire import AnyOrder, Between, Err, Status

Words = List[bytes]
COUNTED = (  # what answers with an integer
    "del zadd zrem expire pexpire ttl pttl persist exists unlink strlen append incr decr incrby decrby zcard zcount "
    "dbsize"
)
RESP_INTEGER = "a colon, its digits and \\r\\n"
EXPIRES = ("expire", "pexpire", "expireat", "pexpireat", "setex", "psetex")
WRITES = ("set", "del", "unlink", "zadd", "append", "incr", "setnx", "getset", *EXPIRES, "persist")


def _tag_of(value: object) -> Optional[int]:
    """The tag of a reply with this value, None where any may come."""
    if isinstance(value, AnyOrder):
        return wire.ARR
    try:
        return wire.encode_value(value)[0]
    except TypeError:
        return None


TAGS = ("nil", "an error", "a string", "an integer", "an array", "a double")


def why_malformed(language: "Binary | Resp", body: bytes, expected: object) -> str:
    """What may have gone wrong with a reply that cannot be decoded, where this was expected, or ""."""
    if language.is_resp:
        return (
            "a reply begins with its type, + - : $ or *; then comes a number or a text, and \\r\\n. A string has its "
            "length in front, and \\r\\n behind it, too."
        )
    if not language.has_values:
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
            "the tag is that of an integer, and what follows looks like a string: is it the right tag? Strings have 2"
        )
    if tag == wire.INT and len(body) == 5:
        return "an integer has eight bytes (i64) behind its tag; here there are four"
    if tag == wire.ERR and len(body) >= 9 and struct.unpack_from("<I", body, 1)[0] == len(body) - 5:
        return "an error has its code (i32) between the tag and the text: tag 1, code, length, text"
    if tag > wire.DBL:
        return (
            "the reply begins with no tag: 0 nil, 1 error, 2 string, 3 integer, 4 "
            "array" + ", 5 double" * language.has_sorted_sets
        )
    return "is each part of the reply as long as the protocol says, and does its length count all of it and no more?"


class Wrong:
    """A reply that is wrong, and what is known of it."""

    def __init__(
        self, language: "Binary | Resp", words: Words, expected: object, got: object, past: Sequence[Words],
        beside: Sequence[object],
    ) -> None:  # fmt: skip
        self.language, self.words, self.beside = language, words, beside
        self.tagged = language.has_values and not language.is_resp
        self.expected: Any = _plain(expected)
        self.got: Any = _plain(got)
        self.name = _name(words) if words else ""
        key = words[1] if len(words) > 1 else b""
        self.about = [one for one in past if key in one[1 : None if _name(one) in ("del", "mset") else 2]]
        self.selected = any(_name(one) == "select" for one in past)
        self.timed = any(_name(one) in EXPIRES for one in self.about)
        self.last = next((_name(one) for one in reversed(self.about) if _name(one) in WRITES), "")  # change of the key

    def code(self, number: int) -> str:
        """An error's number, where errors have one."""
        return f". The error is {number}." if self.tagged else ""

    # ---- an error ----

    @property
    def said(self) -> str:
        return self.got.text or ""

    @property
    def unknown(self) -> bool:
        """Does the server not know the command?"""
        return "unknown" in self.said.lower() or self.tagged and self.got.code == wire.ERR_UNKNOWN

    # ---- a value ----

    def given(self, value: object) -> bool:
        """Was the key given this value before?"""
        return any(value in one[2:3] for one in self.about)

    @property
    def is_an_older_value(self) -> bool:
        values = [one[2] for one in self.about if _name(one) == "set" and len(one) == 3]
        return self.got in values[:-1] and self.got != values[-1]

    # ---- a time to live ----

    @property
    def range(self) -> Tuple[Any, Any]:
        """From where to where a number may be."""
        either = self.expected
        return (either.low, either.high) if isinstance(either, Between) else (either, either)

    @property
    def units(self) -> int:
        """How many of them are a second."""
        return 1 if self.name == "ttl" else 1000

    @property
    def is_in_another_unit(self) -> bool:
        low, high = self.range
        too_small = self.got and high > 0 and low <= self.got * 1000 <= high * 1000 + 999
        return too_small or low * 900 <= self.got <= high * 1000 + 999

    @property
    def is_a_deadline(self) -> bool:
        """Is it about now, by the wall clock or by the one that counts from the machine's start?"""
        more = self.got - self.range[1]
        near = any(abs(more - now * self.units) < 60 * self.units for now in (time.time(), time.monotonic()))
        return near or abs(self.got) > 10 * abs(self.range[1])

    # ---- a list of keys ----

    @property
    def keys(self) -> Any:
        return self.expected.items if isinstance(self.expected, AnyOrder) else self.expected

    @cached_property
    def missing(self) -> List[bytes]:
        return [item for item in self.keys if item not in self.got]

    @cached_property
    def extra(self) -> List[bytes]:
        return [item for item in self.got if isinstance(item, bytes) and item not in self.keys]

    # ---- scores; pairs of name and score ----

    @property
    def score(self) -> object:
        """What came; a number where RESP has it as a text."""
        text = not self.tagged and isinstance(self.expected, float) and isinstance(self.got, bytes)
        return _number(self.got) if text else self.got

    @property
    def is_an_older_score(self) -> bool:
        scores = [_number(one[2]) for one in self.about if _name(one) == "zadd" and len(one) > 3]
        return self.score in scores[:-1] and scores[-1] != self.score

    @cached_property
    def items(self) -> List[object]:
        """The list that came, with its scores as numbers."""
        if self.tagged:
            return self.got
        return [_number(one) if i % 2 and isinstance(one, bytes) else one for i, one in enumerate(self.got)]

    @cached_property
    def pairs(self) -> List[Tuple[Any, Any]]:
        return _pairs(self.items)

    @cached_property
    def wanted(self) -> List[Tuple[Any, Any]]:
        return _pairs(self.expected)

    @property
    def is_ordered_by_less(self) -> bool:
        """Is it in another order of equal scores, or sorted by the first of each pair?"""
        by_name = sorted(self.pairs) == self.pairs != self.wanted
        return by_name or [score for _, score in self.pairs] == [score for _, score in self.wanted]


def why_wrong(
    language: "Binary | Resp", words: Words, expected: object, got: object, past: Sequence[Words],
    beside: Sequence[object] = (),
) -> str:  # fmt: skip
    """A likely cause, or "". words are those of the request, past those of the requests before it, beside the replies
    that are expected before and after it."""
    w = Wrong(language, words, expected, got, past, beside)
    for causes in CAUSES:
        if (not causes.commands or w.name in causes.commands.split()) and causes.applies(w):
            found = next((text for test, text in causes.rows if test(w)), "")
            if found:
                return found if isinstance(found, str) else found(w)
    return ""


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


def _name(words: Words) -> str:
    return words[0].lower().decode("latin-1")


def _number(text: bytes) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def _pairs(items: Sequence[object]) -> List[Tuple[object, object]]:
    return list(zip(items[::2], items[1::2]))


# ---- the causes -------------------------------------------------------------------------------

Text = Union[str, Callable[[Wrong], str]]


class Causes(NamedTuple):
    """Causes of one kind: the commands that they are for (all of them where there is none) and when they apply; then
    rows, of which the first counts whose test holds. Where none holds, the next ones are asked."""

    commands: str
    applies: Callable[[Wrong], object]
    rows: Sequence[Tuple[Callable[[Wrong], object], Text]]


def one(commands: str, applies: Callable[[Wrong], object], words: Text) -> Causes:
    """Of one cause."""
    return Causes(commands, applies, [(always, words)])


def always(w: Wrong) -> bool:
    return True


def both(w: Wrong, kind: type) -> bool:
    """Are what is expected and what came of this type?"""
    return isinstance(w.expected, kind) and isinstance(w.got, kind)


CAUSES = [
    Causes("", lambda w: isinstance(w.got, bytes) and w.got, [
        (lambda w: w.name == "get" and w.is_an_older_value, lambda w: (
            "this is an older value of the key: does `set` replace the value of a key that is there "
            f"already{w.language.has_hashtable * ', in the older table, too, while the larger one is filled'}?")),
        (lambda w: w.name != "get" and any(wire.same(other, w.got) for other in w.beside),
            "this is the reply to another request of the same write: are the replies sent in the order of the "
            "requests, and are the bytes of a request that has its reply taken out of the buffer?"),
    ]),
    one("", lambda w: isinstance(w.got, Err) and w.said.startswith(resp.PROTOCOL),
        "the server takes a request for malformed that is not: does it pass over the \\r\\n behind a string, too? And "
        "where it does not begin with *, it is a line of words."),
    # ---- an error must come ----
    Causes("", lambda w: isinstance(w.expected, Err), [
        (lambda w: not w.language.has_values and w.name in ("get", "set", "del"), lambda w:
            f"`{w.name}` has a fixed number of arguments: with fewer or more it is an error, status 1"),
        (lambda w: not w.language.has_values,
            "there is no command of exactly this name: compare all of its bytes, and its length. Status 1, Unknown "
            "cmd"),
        (lambda w: isinstance(w.got, Err) and not w.tagged,
            "an error of Redis has a text of its own, word for word: what follows the code may be all that differs"),
        (lambda w: isinstance(w.got, Err), lambda w:
            f"the error is right, its code is not: {wire.ERROR_NAMES.get(w.expected.code, '')}"),
        (lambda w: w.expected.code == wire.ERR_TYPE, lambda w: (
            f"the key holds a {'string' if w.name[:1] == 'z' else 'sorted set'}, and `{w.name}` is not for those: each "
            f"key has a type, and each command looks at it before it looks at the value{w.code(3)}")),
        (lambda w: w.expected.code == wire.ERR_2BIG, lambda w:
            f"the reply is larger than a message may be: an error comes in its place{w.code(2)}"),
        (lambda w: w.expected.code == wire.ERR_ARG and b"" in w.words[1:], lambda w:
            f"the server accepts an empty text for a number{w.code(4)}"),
        (lambda w: w.expected.code == wire.ERR_ARG, lambda w: (
            "the server accepts what it must refuse: is one of the arguments no number, or out of range, or is their "
            f"count wrong for `{wire.show_bytes(w.name.encode('latin-1'))}`?{w.code(4)}")),
        (always, lambda w:
            f"there is no command of exactly this name: compare all of its bytes, and its length{w.code(1)}"),
    ]),
    # ---- an error has come ----
    Causes("", lambda w: isinstance(w.got, Err), [
        (lambda w: w.unknown and w.words and w.words[0] != w.name.encode("latin-1"),
            "the server does not know the command: a name may come in letters of any case"),
        (lambda w: w.unknown, lambda w: f"the server does not know `{w.name}`: it is a command of this chapter"),
        (lambda w: w.name == "set" and any(_name(one) == "zadd" for one in w.about),
            "`set` replaces a value of any type: the sorted set that was there goes"),
        (always, lambda w: f"the server refuses what it must accept: {w.said or 'an error'}"),
    ]),
    # ---- what each command may have wrong ----
    one(COUNTED, lambda w: not isinstance(w.got, int) and isinstance(w.expected, (int, Between)),
        lambda w: f"`{w.name}` answers with an integer ({'tag 3 and eight bytes' if w.tagged else RESP_INTEGER})"),
    Causes("get", always, [
        (lambda w: w.language.has_keyspace and w.selected and w.expected != w.got and not w.timed,
            "each connection has a database that it has chosen, and each database has keys of its own: is `select` "
            "kept?"),
    ]),
    Causes("get", lambda w: w.expected is None and isinstance(w.got, bytes), [
        (lambda w: w.got == b"", "nil and a string of no bytes are two things: is nil written as what it is?"),
        (lambda w: w.timed,
            "the time of this key is over, and it is still found: compare its deadline with the clock whenever a key "
            "is looked up. The timer may come later."),
        (lambda w: w.last == "del" and w.given(w.got), lambda w: (
            "`del` has answered, and the key is still there: is it taken out of the "
            f"{'table that it is in, the older one too?' if w.language.has_hashtable else 'map?'}")),
        (always,
            "the server finds a key that should not be there: are keys compared by all of their bytes, and by length?"),
    ]),
    Causes("get", lambda w: w.got is None and isinstance(w.expected, bytes), [
        (lambda w: w.timed and w.last in ("set", "persist"), lambda w: (
            f"the key is gone although `{w.last}` came after its deadline was set: that must take the deadline away, "
            "also where a timer waits for it")),
        (lambda w: w.timed,
            "the key is gone before its time: `expire` counts seconds and `pexpire` milliseconds, from the moment of "
            "the request"),
        (always, lambda w: (
            "the server does not find what was set: is the key looked for where `set` has put "
            f"it{w.language.has_hashtable * ', in the older table too, while the larger one is filled'}? Are all bytes "
            "of two keys compared?")),
    ]),
    Causes("ttl pttl", lambda w: all(isinstance(each, int) for each in (*w.range, w.got)), [
        (lambda w: w.range == (-2, -2) and w.got != -1 and w.timed,
            "-2 says that there is no such key: its time is over, whether or not a timer has been round"),
        (lambda w: w.range == (-2, -2), "-2 says that there is no such key; -1 is for one without a deadline"),
        (lambda w: w.range == (-1, -1) and w.last in ("set", "persist") and w.got >= 0, lambda w:
            f"-1 says that the key is there and has no deadline: `{w.last}` takes the deadline away"),
        (lambda w: w.range == (-1, -1),
            "-1 says that the key is there and has no deadline; -2 is for a key that is not there"),
        (lambda w: w.got == -1, "the deadline is lost, or was never kept: the key has one, and is here without (-1)"),
        (lambda w: w.got == -2,
            "the key is gone before its time (-2): `expire` counts seconds and `pexpire` milliseconds"),
        (lambda w: w.is_in_another_unit, lambda w: (
            f"seconds or milliseconds? `{w.name}` answers in {'seconds' if w.name == 'ttl' else 'milliseconds'}, and "
            "`expire` takes seconds, `pexpire` milliseconds")),
        (lambda w: w.got < 0,
            "the time that is left is never negative: a key whose deadline has passed is not there (-2)"),
        (lambda w: w.is_a_deadline,
            "is this the deadline itself? What is left is the deadline without the time of now."),
        (lambda w: w.name == "ttl" and w.got in (w.range[0] - 1, w.range[1] + 1),
            "`ttl` rounds to the nearest second: (milliseconds + 500) / 1000"),
        (always,
            "what is left is the deadline without the time of now: is the last `expire` or `pexpire` the one that "
            "counts?"),
    ]),
    Causes("expire pexpire", always, [
        (lambda w: w.expected == 1, lambda w:
            f"`{w.name}` answers 1 where the key is there; it was set before. Is it gone already?"),
        (lambda w: w.expected == 0 and w.timed, lambda w:
            f"the key has expired: `{w.name}` must not find it any more, and answers 0"),
        (always, lambda w: f"`{w.name}` answers 0 where there is no such key"),
    ]),
    Causes("persist", always, [
        (lambda w: w.expected == 0 and w.timed,
            "`persist` answers 1 only where it takes a deadline away: not twice, not after `set`, not for a key that "
            "has expired"),
        (always, "`persist` answers 1 where it takes a deadline away, and 0 for a key without one, or no key"),
    ]),
    one("del", lambda w: not w.language.has_values,
        "`del` answers with status 0, whether or not the key was there"),
    Causes("del unlink exists", lambda w: both(w, int), [
        (lambda w: w.got > w.expected and w.timed, lambda w:
            f"`{w.name}` counts a key whose time is over: that one is not there any more"),
        (lambda w: w.got > w.expected, lambda w:
            f"`{w.name}` answers with the number of keys that were there: 0 where there was none"),
        (always, lambda w:
            f"`{w.name}` does not find a key that was set: it answers with the number of keys that were there"),
    ]),
    Causes("keys", lambda w: isinstance(w.keys, list), [
        (lambda w: not isinstance(w.got, list), "`keys` answers with an array, also where it is empty"),
        (lambda w: len({item for item in w.got if isinstance(item, bytes)}) < len(w.got),
            "a key is listed twice: is it in both tables, or is one bucket visited twice?"),
        (lambda w: w.missing and w.extra,
            "other keys than were set: are a key's bytes copied, or does it point into a buffer that is used again?"),
        (lambda w: w.extra, lambda w: (
            f"{len(w.extra)} too many, {wire.show_bytes(w.extra[0])} for one: a key that was "
            f"deleted{w.language.has_ttl * ', one whose time is over'} is not listed")),
        (lambda w: w.missing, lambda w: (
            f"{len(w.missing)} are missing, {wire.show_bytes(w.missing[0])} for one: `keys` walks through every bucket "
            "of both tables, and through each chain to its end")),
    ]),
    # ---- sorted sets ----
    Causes("zadd", lambda w: isinstance(w.expected, int), [
        (lambda w: w.expected == 0,
            "`zadd` answers 1 for a name that is new, and 0 for one that was there, whose score it changes"),
        (always, "`zadd` answers 1: this name was not in the set. Was it removed from both the tree and the table?"),
    ]),
    one("zrem", always,
        "`zrem` answers 1 where the name was in the set, else 0; another `zrem` of it finds nothing"),
    Causes("zscore zincrby", lambda w: isinstance(w.expected, float), [
        (lambda w: isinstance(w.score, int), "a score is a double (tag 5), not an integer"),
        (lambda w: isinstance(w.score, bytes), "a score is sent as a double: tag 5 and its eight bytes, no text"),
    ]),
    Causes("zscore zincrby", lambda w: isinstance(w.expected, float) and isinstance(w.score, float), [
        (lambda w: w.is_an_older_score,
            "this is an older score: `zadd` for a name that is there changes its score, and its place in the tree"),
        (lambda w: abs(w.score) < 1e15 and w.score == int(w.score),
            "is the score kept as an integer? It is a double, read by strtod(), bit for bit"),
        (always, "is the score kept as a double, and not as a float? All 64 bits come back"),
    ]),
    Causes("zscore zincrby", always, [
        (lambda w: w.score is None, "the name is in the set: is it looked for by all of its bytes?"),
        (lambda w: w.expected is None, "there is no such name in the set, or no set: the answer is nil"),
    ]),
    Causes("zquery", lambda w: isinstance(w.expected, list), [
        (lambda w: w.got is None, "`zquery` answers with an array, an empty one where there is no set, or no pair"),
        (lambda w: not isinstance(w.got, list), "`zquery` answers with an array: name, score, name, score ..."),
        (lambda w: len(w.items) == 1 and len(w.expected) == 2 and w.items == w.expected[:1],
            "a score is missing: `limit` counts pairs of name and score, and behind each name comes its score"),
        (lambda w: 2 * len(w.items) == len(w.expected) and w.items == w.expected[::2], lambda w: (
            "the scores are missing: behind each name comes its score" + ", a double (tag 5)" * w.tagged)),
        (lambda w: w.items and w.tagged and [type(one) for one in w.items[:2]] != [bytes, float],
            "the array holds name and score in turn: a string (tag 2), then a double (tag 5)"),
        (lambda w: w.items and 2 * len(w.items) == len(w.expected) and w.items == w.expected[: len(w.items)],
            "does `limit` count elements? it counts pairs of name and score"),
        (lambda w: sorted(w.pairs) == sorted(w.wanted) and w.is_ordered_by_less,
            "equal scores: there the names decide, byte by byte (memcmp), and a shorter one comes before a longer"),
        (lambda w: sorted(w.pairs) == sorted(w.wanted),
            "the order is wrong: pairs go by score, and where scores are equal by name. Is a score compared as a "
            "number?"),
        (lambda w: len(w.pairs) > len(w.wanted) and w.pairs[: len(w.wanted)] == w.wanted,
            "more pairs than `limit` asks for: it counts pairs of name and score"),
        (lambda w: w.pairs and w.pairs == w.wanted[len(w.wanted) - len(w.pairs) :],
            "the first pairs are missing: an `offset` of 0 is the first pair that is not less than (score, name), and "
            "1 the one behind it"),
        (lambda w: w.pairs and w.wanted and set(w.pairs) != set(w.wanted),
            "it begins at the wrong place: at the first pair that is not less than (score, name); then `offset` moves "
            "it, backwards where negative, and `limit` counts pairs"),
        (lambda w: not w.pairs,
            "nothing comes, where pairs are: the first is the one that is not less than (score, name), and `offset` "
            "moves on from there, backwards where negative"),
        (lambda w: not w.wanted,
            "nothing should come: an offset past either end is the empty array, and so is a limit of 0 or less"),
        (always, "pairs are missing: from the first on, `limit` of them come, or as many as there are"),
    ]),
    one("zcard zcount zrank zrevrank", always,
        "the names of a set are counted once each, and ranks begin at 0"),
    one("incr decr incrby decrby", always,
        lambda w: f"`{w.name}` answers with the number after the change, and a key that is not there counts from 0"),
    Causes("set", always, [
        (lambda w: not w.language.has_values, "`set` answers with status 0 and no data"),
        (lambda w: w.expected is None and not isinstance(w.got, bytes), "`set` answers (nil), the tag 0"),
    ]),
    # ---- what two values tell ----
    one("", lambda w: isinstance(w.expected, resp.Simple),
        lambda w: f"this command has a short text for an answer: +{w.expected.decode()} and the end of a line"),
    Causes("", lambda w: both(w, bytes), [
        (lambda w: w.expected.startswith(w.got) and b"\0" in w.expected[len(w.got) : len(w.got) + 1],
            "is it taken for a C string? it may hold any bytes, also NUL"),
        (lambda w: w.expected.startswith(w.got) or w.got.startswith(w.expected),
            "only the end differs: is the length right?"),
        (lambda w: len(w.expected) == len(w.got) and not w.language.has_commands,
            "other bytes of the right number: is the reply made anew for each message?"),
        (lambda w: len(w.expected) == len(w.got),
            "other bytes of the right number: is the value copied, or does it point into a buffer that is used again?"),
        (always, "another value than was set: is it kept with its own length, apart from all others?"),
    ]),
    Causes("", always, [
        (lambda w: w.expected is None and w.got == b"",
            "nil and a string of no bytes are two things: is nil written as what it is?"),
        (lambda w: w.expected is None and isinstance(w.got, bytes),
            "the server finds a key that should not be there"),
        (lambda w: w.got is None and isinstance(w.expected, (bytes, float)),
            "the server does not find what should be there"),
    ]),
]  # fmt: skip
