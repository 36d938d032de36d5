"""A plain Python model of the server of 20 and later, for random commands: replies and texts as Redis has them, from 22
on with databases and deadlines that are dates, from 25 on with transactions."""
from __future__ import annotations

import fnmatch
import functools
import math
import re
import time
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import redis, resp, settings
from .codec import codec
from .model import Model, ZSet, _Wrong, monotonic_ms
from .resp import NIL, NO_FLOAT, NO_INT, OK, PONG, SYNTAX, WRONG_TYPE, Score, Simple, parse_double, parse_int
from .wire import (
    ERR_ARG, ERR_TYPE, ERR_UNKNOWN, INT64_MAX, INT64_MIN, AnyOrder, Between, Err, OneOf, show_double, to_bytes,
)  # fmt: skip

__tracebackhide__ = settings.__tracebackhide__

DATABASES = 16
AT_ONCE = (b"multi", b"exec", b"discard", b"watch", b"quit", b"reset")  # these do not wait in a queue
QUEUED = Simple(b"QUEUED")
NO_RANGE = "ERR min or max is not a float"
OVERFLOW = "ERR increment or decrement would overflow"
NO_DB, SAME = "ERR DB index is out of range", "ERR source and destination objects are the same"
NO_INT32 = "ERR value is out of range, value must between -2147483648 and 2147483647"
# unit -> (milliseconds, is it a date?)
UNITS = {b"ex": (1000, False), b"px": (1, False), b"exat": (1000, True), b"pxat": (1, True)}


def wrong(text: str) -> _Wrong:
    """An error with this text, to be raised."""
    return _Wrong(Err(ERR_ARG, text))


def integer(text: bytes) -> int:
    value = parse_int(text)
    if value is None:
        raise wrong(NO_INT)
    return value


def index(text: bytes, error: str = "") -> int:
    """A number of 32 bits."""
    value = parse_int(text)
    if value is None or not -(2**31) <= value < 2**31:
        raise wrong(error or (NO_INT if value is None else NO_INT32))
    return value


def score(text: bytes) -> float:
    value = parse_double(text)
    if value is None:
        raise wrong(NO_FLOAT)
    return value


def bound(text: bytes) -> Tuple[float, bool]:
    """An end of a range, and whether it belongs to it: read as strtod() does, blanks in front too; nothing is 0."""
    text = redis.read_of_bound(text)
    number = (text[1:] if text[:1] == b"(" else text).lstrip()
    value = parse_double(number)
    if value is None and re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", number, re.IGNORECASE):
        value = float(number)  # what becomes 0 or infinite
    if value is None and text not in (b"", b"("):
        raise wrong(NO_RANGE)
    return value or 0.0, text[:1] != b"("


def name_bound(text: bytes) -> Tuple[Tuple[int, bytes], bool]:
    """An end of a range of names, and whether it belongs to it. Behind a sign nothing may stand, but for a NUL."""
    if text[:1] in (b"-", b"+") and text[1:2] in (b"", b"\0"):
        return (-1 if text[:1] == b"-" else 1, b""), False
    if text[:1] not in (b"[", b"("):
        raise wrong("ERR min or max not valid string range item")
    return (0, text[1:]), text[:1] == b"["


def wall_ms() -> int:
    """The clock by which keys expire from 22 on."""
    return time.time_ns() // 1_000_000


class Since(int):
    """A deadline that was counted from now on: the server has looked at the clock a little earlier than the model."""


class Noted(dict):
    """By keys, and says which of them has changed, what it was set to or not."""

    changed: Callable[[bytes], None]

    def __setitem__(self, key: bytes, value: object) -> None:
        super().__setitem__(key, value)
        self.changed(key)

    def __delitem__(self, key: bytes) -> None:
        super().__delitem__(key)
        self.changed(key)

    def pop(self, key: bytes, *default: object) -> object:
        was_there = key in self
        value = super().pop(key, *default)
        if was_there:
            self.changed(key)
        return value

    def clear(self) -> None:
        for key in list(self):
            del self[key]


class Standing:
    """What a client has begun: requests that wait since its MULTI, and keys that it watches."""

    def __init__(self) -> None:
        self.queue: Optional[List[Sequence[bytes]]] = None
        self.spoiled = self.touched = False
        self.watched: Set[Tuple[int, bytes]] = set()


class Database:
    """One of the sixteen; before 22 there is one."""

    def __init__(self, changed: "Callable[[Database, bytes], None]" = lambda database, key: None) -> None:
        self.values: Dict[bytes, Union[bytes, ZSet]] = Noted()
        self.deadlines: Dict[bytes, int] = Noted()
        for each in (self.values, self.deadlines):
            each.changed = functools.partial(changed, self)  # type: ignore[attr-defined]
        self.ghosts: Set[bytes] = set()  # keys that have expired

    def put(self, key: bytes, value: Union[bytes, ZSet], deadline: Optional[int] = None) -> None:
        """A value takes the place of what is there, with its deadline or without one."""
        self.values[key] = value
        self.deadlines.pop(key, None)
        if deadline is not None:
            self.deadlines[key] = deadline


class RespModel(Model):
    """The server. `client` is the number of the connection that asks."""

    def __init__(self, chapter: int, clock: Optional[Callable[[], int]] = None, slack_ms: int = 0) -> None:
        super().__init__(chapter, clock or (wall_ms if codec(chapter).has_keyspace else monotonic_ms), slack_ms)
        self.databases = [Database(self.changed) for _ in range(DATABASES)]
        self.selected: Dict[int, int] = {}
        self.standings: Dict[int, Standing] = {}
        self._look_at(0)

    def do(self, *args: resp.Arg) -> object:
        """Executes a command in the database of the client, whose keys `values` are until the next; returns the reply
        to expect (possibly a pattern)."""
        words = [to_bytes(a) for a in args]
        self._expire()
        self._look_at(self.selected.get(self.client, 0))
        name = words[0].lower()
        count = resp.arity(self.chapter).get(name)
        queue, error = self.standing.queue, None
        if count is None or not self.knows(name.decode()):
            error = Err(ERR_UNKNOWN, resp.unknown(words))
        elif len(words) < -count if count < 0 else len(words) != count:
            error = self.bad_count(name.decode())
        if error:
            self.standing.spoiled = queue is not None
            return error
        if queue is not None and name not in AT_ONCE:
            queue.append(words)
            return QUEUED
        return self.done(words)

    def done(self, words: Sequence[bytes]) -> object:
        """Executes a command that there is, with a number of words that is right."""
        try:
            return self.command(words[0].lower().decode())(*words[1:])
        except _Wrong as e:
            return e.reply

    def command(self, name: str) -> Callable[..., object]:
        """What executes it."""
        return functools.partial(SHORT[name], self) if name in SHORT else getattr(self, f"do_{name}")

    @classmethod
    def knows(cls, name: str) -> bool:
        """Can it tell what this command answers?"""
        return name in SHORT or hasattr(cls, f"do_{name}")

    def leaves(self, client: int) -> None:
        """Who gets its number begins in the first database."""
        self.selected.pop(client, None)
        self.standings.pop(client, None)

    # ---- transactions ----

    @property
    def standing(self) -> Standing:
        """That of the client who asks."""
        return self.standings.setdefault(self.client, Standing())

    def in_multi(self) -> bool:
        """Do requests of the client wait?"""
        return self.standing.queue is not None

    def changed(self, database: Database, key: bytes) -> None:
        """Whoever watches the key has to know."""
        where = self.databases.index(database), key
        for each in self.standings.values():
            each.touched = each.touched or where in each.watched

    def end(self, without: str) -> Standing:
        """Ends the client's transaction, which is returned."""
        standing = self.standing
        if standing.queue is None:
            raise wrong(without)
        self.standings[self.client] = Standing()
        return standing

    def do_multi(self) -> object:
        if self.in_multi():
            raise wrong("ERR MULTI calls can not be nested")
        self.standing.queue = []
        return OK

    def do_discard(self) -> object:
        self.end("ERR DISCARD without MULTI")
        return OK

    def do_exec(self) -> object:
        standing = self.end("ERR EXEC without MULTI")
        if standing.spoiled:
            raise wrong("EXECABORT Transaction discarded because of previous errors.")
        if standing.touched:
            return NIL
        replies = []
        for words in standing.queue or []:
            self._expire()
            self._look_at(self.selected.get(self.client, 0))
            replies.append(self.done(words))
        return replies

    def do_watch(self, *keys: bytes) -> object:
        if self.in_multi():
            raise wrong("ERR WATCH inside MULTI is not allowed")
        self.standing.watched |= {(self.selected.get(self.client, 0), key) for key in keys}
        return OK

    def do_publish(self, channel: bytes, message: bytes) -> object:
        """Nobody listens in a random test: who does, cases/pubsub.py knows."""
        return 0

    def do_unwatch(self) -> object:
        self.standing.touched = False
        self.standing.watched = set()
        return OK

    def bad_count(self, name: str) -> Err:
        return Err(ERR_ARG, f"ERR wrong number of arguments for '{name}' command")

    def _look_at(self, number: int) -> None:
        self.here = self.databases[number]
        self.values, self.deadlines = self.here.values, self.here.deadlines

    def _expire(self) -> None:
        for number, database in enumerate(self.databases):
            if database.deadlines:
                before = set(database.values)
                self._look_at(number)
                super()._expire()
                database.ghosts |= before - set(database.values)

    # ---- strings ----

    def string(self, key: bytes) -> Optional[bytes]:
        """The value of a key; None where there is none."""
        value = self.values.get(key)
        if isinstance(value, dict):
            raise _Wrong(Err(ERR_TYPE, WRONG_TYPE))
        return value

    def do_set(self, key: bytes, value: bytes, *more: bytes) -> object:
        words, unit, amount = self.options(more, (b"nx", b"xx", b"get", b"keepttl"))
        date = self.date("set", amount, unit) if unit else None
        old = self.string(key) if b"get" in words else self.values.get(key)
        if b"nx" in words and old is not None or b"xx" in words and old is None:
            return NIL if b"get" not in words or old is None else old
        self.here.put(key, value, self.deadlines.get(key) if b"keepttl" in words else date)
        return OK if b"get" not in words else NIL if old is None else old

    def options(self, more: Sequence[bytes], flags: Sequence[bytes]) -> Tuple[Set[bytes], bytes, bytes]:
        """What is given of the flags, and a unit with its number; of the same unit twice, the last number counts."""
        units = UNITS if self.language.has_keyspace else (b"ex", b"px")
        found: Set[bytes] = set()
        amount, words = b"", list(more)
        while words:
            name = words.pop(0).lower()
            if name in units and words and not found & set(UNITS) - {name}:
                amount = words.pop(0)
            elif name not in flags:
                raise wrong(SYNTAX)
            found.add(name)
        unit = next(iter(found & set(UNITS)), b"")
        if unit and found & {b"keepttl", b"persist"} or {b"nx", b"xx"} <= found:
            raise wrong(SYNTAX)
        return found, unit, amount

    def date(self, command: str, text: bytes, unit: bytes) -> int:
        """The deadline that a command other than those of `expire` sets: it must be after 1970."""
        scale, absolute = UNITS[unit]
        amount = integer(text) * scale
        if amount <= 0 or amount > INT64_MAX or not absolute and amount + self.wall() > INT64_MAX:
            raise wrong(f"ERR invalid expire time in '{command}' command")
        return amount if absolute else Since(amount + self.clock())

    def wall(self) -> int:
        """The time of day, by which Redis decides what is too late."""
        return self.clock() if self.language.has_keyspace else wall_ms()

    def do_getset(self, key: bytes, value: bytes) -> object:
        old = self.string(key)
        self.here.put(key, value)
        return old

    def set_with_time(self, command: str, unit: bytes, key: bytes, amount: bytes, value: bytes) -> object:
        self.here.put(key, value, self.date(command, amount, unit))
        return OK

    def do_getdel(self, key: bytes) -> object:
        old = self.string(key)
        self.do_del(key)
        return old

    def do_getex(self, key: bytes, *more: bytes) -> object:
        words, unit, amount = self.options(more, (b"persist",))
        value = self.string(key)
        if value is not None and unit:
            self.live_until(key, self.date("getex", amount, unit))
        elif b"persist" in words:
            self.deadlines.pop(key, None)
        return value

    def do_mget(self, *keys: bytes) -> object:
        return [None if isinstance(self.values.get(key), dict) else self.values.get(key) for key in keys]

    def do_mset(self, *pairs: bytes) -> object:
        if len(pairs) % 2:
            return self.bad_count("mset")
        for key, value in zip(pairs[::2], pairs[1::2]):
            self.here.put(key, value)
        return OK

    def do_msetnx(self, *pairs: bytes) -> object:
        if len(pairs) % 2:
            return self.bad_count("msetnx")
        if any(key in self.values for key in pairs[::2]):
            return 0
        self.do_mset(*pairs)
        return 1

    def do_getrange(self, key: bytes, first: bytes, last: bytes) -> object:
        begin, end = integer(first), integer(last)
        text = self.string(key) or b""
        if begin < 0 and end < 0 and begin > end:
            return b""
        begin, end = (max(0, at + len(text)) if at < 0 else at for at in (begin, end))
        return text[begin : end + 1]

    def do_setrange(self, key: bytes, offset: bytes, more: bytes) -> object:
        at = integer(offset)
        if at < 0:
            raise wrong("ERR offset is out of range")
        text = self.string(key) or b""
        if more and at + len(more) > resp.MAX_STRING:
            raise wrong("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
        if more:
            self.values[key] = text[:at].ljust(at, b"\0") + more + text[at + len(more) :]
        return len(self.values.get(key, b""))

    def do_incrbyfloat(self, key: bytes, amount: bytes) -> object:
        text = self.string(key)
        value, more = resp.long_double(b"0" if text is None else text), resp.long_double(amount)
        if value is None or more is None:
            raise wrong(NO_FLOAT)
        if math.inf in (abs(value), abs(more)):
            raise wrong("ERR increment would produce NaN or Infinity")
        self.values[key] = resp.long_double_text(value + more)
        return self.values[key]

    def add(self, key: bytes, amount: int) -> object:
        text = self.string(key)
        value = integer(b"0" if text is None else text) + amount
        if not INT64_MIN <= value <= INT64_MAX:
            return Err(ERR_ARG, OVERFLOW)
        self.values[key] = b"%d" % value
        return value

    def do_decrby(self, key: bytes, amount: bytes) -> object:
        if integer(amount) == INT64_MIN:
            return Err(ERR_ARG, "ERR decrement would overflow")
        return self.add(key, -integer(amount))

    def do_append(self, key: bytes, more: bytes) -> object:
        self.values[key] = (self.string(key) or b"") + more
        return len(self.values[key])

    # ---- keys ----

    def do_del(self, *keys: bytes) -> object:
        there = [key for key in dict.fromkeys(keys) if key in self.values]
        for key in there:
            self._remove(key)
        return len(there)

    def do_type(self, key: bytes) -> object:
        value = self.values.get(key)
        return Simple(b"none" if value is None else b"zset" if isinstance(value, dict) else b"string")

    def do_keys(self, pattern: bytes) -> object:
        """Of patterns that are drawn: no backslash, and ! is no sign."""
        matcher = re.compile(fnmatch.translate(pattern.decode("latin-1")), re.DOTALL)
        return AnyOrder([key for key in self.values if matcher.match(key.decode("latin-1"))])

    def do_dbsize(self) -> object:
        """Redis counts what has expired, too, as long as nobody has come upon it."""
        return Between(len(self.values), len(self.values) + len(self.here.ghosts - set(self.values)))

    def do_randomkey(self) -> object:
        return OneOf(*self.values) if self.values else None

    def do_scan(self, cursor: bytes, *more: bytes) -> object:
        """One step of a pass says little; run_model_test looks at the whole. Here are the errors."""
        number = parse_int(cursor)
        if number is None or not 0 <= number < 2**63:
            return Err(ERR_ARG, "ERR invalid cursor")
        words = list(more)
        while words:
            name = words.pop(0).lower()
            if not words or name not in (b"count", b"match", b"type"):
                return Err(ERR_ARG, SYNTAX)
            if name == b"count" and integer(words[0]) < 1:
                return Err(ERR_ARG, SYNTAX)
            del words[0]
        return ScanStep(set(self.values))

    def rename(self, key: bytes, new: bytes, over: bool) -> int:
        if key not in self.values:
            raise wrong("ERR no such key")
        if not over and new in self.values:
            return 0
        if key == new:
            return 1
        value, deadline = self.values[key], self.deadlines.get(key)
        self._remove(key)
        self.here.put(new, value, deadline)
        return 1

    def do_copy(self, key: bytes, new: bytes, *more: bytes) -> object:
        words, there, replace = list(more), self.here, False
        while words:
            name = words.pop(0).lower()
            if name == b"db" and words:
                there = self.database(words.pop(0))
            elif name != b"replace":
                return Err(ERR_ARG, SYNTAX)
            replace = replace or name == b"replace"
        if there is self.here and key == new:
            return Err(ERR_ARG, SAME)
        value = self.values.get(key)
        if value is None or new in there.values and not replace:
            return 0
        there.put(new, type(value)(value), self.deadlines.get(key))  # a copy: sets are changed in their place
        return 1

    # ---- connections and databases ----

    def do_ping(self, *text: bytes) -> object:
        return self.bad_count("ping") if len(text) > 1 else text[0] if text else PONG

    def database(self, text: bytes) -> Database:
        number = index(text)
        if not 0 <= number < (DATABASES if self.language.has_keyspace else 1):
            raise wrong(NO_DB)
        return self.databases[number]

    def do_select(self, number: bytes) -> object:
        self.database(number)
        self.selected[self.client] = int(number)
        return OK

    def do_swapdb(self, first: bytes, second: bytes) -> object:
        one, two = index(first, "ERR invalid first DB index"), index(second, "ERR invalid second DB index")
        if not all(0 <= number < DATABASES for number in (one, two)):
            return Err(ERR_ARG, NO_DB)
        for number, key in [(number, key) for number in {one, two} for key in self.values_of(one, two)]:
            if one != two:
                self.changed(self.databases[number], key)
        self.databases[one], self.databases[two] = self.databases[two], self.databases[one]
        return OK

    def values_of(self, *numbers: int) -> Set[bytes]:
        """The keys of some databases."""
        return {key for number in numbers for key in self.databases[number].values}

    def do_flushdb(self, *how: bytes) -> object:
        if how and (len(how) > 1 or how[0].lower() not in (b"async", b"sync")):
            return Err(ERR_ARG, SYNTAX)
        for keys in (self.values, self.deadlines, self.here.ghosts):
            keys.clear()
        return OK

    def do_flushall(self, *how: bytes) -> object:
        reply = self.do_flushdb(*how)
        if reply == OK:
            for database in self.databases:
                for keys in (database.values, database.deadlines, database.ghosts):
                    keys.clear()
        return reply

    def do_move(self, key: bytes, number: bytes) -> object:
        there = self.database(number)
        if there is self.here:
            return Err(ERR_ARG, SAME)
        if key not in self.values or key in there.values:
            return 0
        there.put(key, self.values[key], self.deadlines.get(key))
        self._remove(key)
        return 1

    # ---- sorted sets ----

    def zset(self, key: bytes) -> ZSet:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise _Wrong(Err(ERR_TYPE, WRONG_TYPE))
        return value

    def pairs(self, key: bytes) -> List[Tuple[float, bytes]]:
        return sorted((score, name) for name, score in self.zset(key).items())

    def do_zadd(self, key: bytes, *more: bytes) -> object:
        words = list(more)
        flags: Set[bytes] = set()
        while words and words[0].lower() in (b"nx", b"xx", b"gt", b"lt", b"ch", b"incr"):
            flags.add(words.pop(0).lower())
        if not words or len(words) % 2:
            return Err(ERR_ARG, SYNTAX)
        if {b"nx", b"xx"} <= flags:
            return Err(ERR_ARG, "ERR XX and NX options at the same time are not compatible")
        if len(flags & {b"gt", b"lt", b"nx"}) > 1:
            return Err(ERR_ARG, "ERR GT, LT, and/or NX options at the same time are not compatible")
        if b"incr" in flags and len(words) > 2:
            return Err(ERR_ARG, "ERR INCR option supports a single increment-element pair")
        scores = list(map(score, words[::2]))
        zset = self.zset(key)
        results = [self.zadd_one(zset, flags, name, value) for value, name in zip(scores, words[1::2])]
        if zset and {"new", "changed"} & set(results):
            self.values[key] = zset
        if b"incr" in flags:
            return None if results[0] is None else Score(zset[words[1]])
        return sum(result == "new" or b"ch" in flags and result == "changed" for result in results)

    def zadd_one(self, zset: ZSet, flags: Set[bytes], name: bytes, value: float) -> Optional[str]:
        """Whether it was new or changed, "" for the same score as before; None where an option forbids it."""
        old = zset.get(name)
        if b"nx" in flags if old is not None else b"xx" in flags:
            return None
        if b"incr" in flags and old is not None:
            value += old
            if value != value:
                raise wrong("ERR resulting score is not a number (NaN)")
        if old is not None and (b"gt" in flags and value <= old or b"lt" in flags and value >= old):
            return None
        zset[name] = value + 0.0
        return "new" if old is None else "changed" if value != old else ""

    def do_zrem(self, key: bytes, *names: bytes) -> object:
        zset = self.zset(key)
        there = [name for name in dict.fromkeys(names) if name in zset]
        for name in there:
            del zset[name]
            self.changed(self.here, key)
        if there and not zset:
            self._remove(key)
        return len(there)

    def between(self, key: bytes, low: bytes, high: bytes) -> List[Tuple[float, bytes]]:
        (least, also), (most, too) = bound(low), bound(high)
        return [
            pair for pair in self.pairs(key)
            if (least < pair[0] or also and least == pair[0]) and (pair[0] < most or too and pair[0] == most)
        ]  # fmt: skip

    def named_between(self, key: bytes, low: bytes, high: bytes) -> List[Tuple[float, bytes]]:
        """Of a set whose scores are all the same."""
        (least, also), (most, too) = name_bound(low), name_bound(high)
        return [
            (value, name) for value, name in self.pairs(key)
            if (least < (0, name) or also and least == (0, name)) and ((0, name) < most or too and (0, name) == most)
        ]  # fmt: skip

    def placed_between(self, key: bytes, first: bytes, last: bytes, back: bool = False) -> List[Tuple[float, bytes]]:
        begin, end = integer(first), integer(last)
        found = self.pairs(key)[:: -1 if back else 1]
        begin, end = max(0, begin + len(found) * (begin < 0)), end + len(found) * (end < 0)
        return found[begin : max(begin, end + 1)]

    def do_zrange(self, key: bytes, low: bytes, high: bytes, *more: bytes, flags: Sequence[bytes] = ()) -> object:
        """Or with these flags one of its kin, which takes no others."""
        given, kinds, limit, words = set(flags), {b"byscore", b"bylex"}, None, list(more)
        while words:
            name = words.pop(0).lower()
            free = not flags and (name == b"rev" and name not in given or name in kinds and not kinds & given)
            if name == b"limit" and len(words) >= 2:
                limit = integer(words.pop(0)), integer(words.pop(0))
            elif name == b"withscores" or free:
                given.add(name)
            else:
                return Err(ERR_ARG, SYNTAX)
        back = b"rev" in given
        if not kinds & given and limit and limit[1] != -1:
            raise wrong("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
        if {b"withscores", b"bylex"} <= given:
            raise wrong("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
        if kinds & given:
            between = self.between if b"byscore" in given else self.named_between
            found = between(key, *((high, low) if back else (low, high)))[:: -1 if back else 1]
            offset, count = limit or (0, -1)
            found = found[offset : None if count < 0 else offset + count] if offset >= 0 else []
        else:
            found = self.placed_between(key, low, high, back)
        return self.shown(found, b"withscores" in given)

    def take_out(self, key: bytes, pairs: Sequence[Tuple[float, bytes]]) -> object:
        return self.do_zrem(key, *(name for _, name in pairs))

    def pop(self, key: bytes, back: bool, *count: bytes) -> object:
        if len(count) > 1:
            return Err(ERR_ARG, SYNTAX)
        number = parse_int(count[0]) if count else 1
        if number is None or number < 0:
            return Err(ERR_ARG, "ERR value is out of range, must be positive")
        found = self.pairs(key)[:: -1 if back else 1][:number]
        self.take_out(key, found)
        return self.shown(found, True)

    def do_zscan(self, key: bytes, cursor: bytes, *more: bytes) -> object:
        """One step, as of SCAN: some of the pairs, and errors. Where there is no such key, no option is looked at."""
        step = self.do_scan(cursor)
        pairs = {} if isinstance(step, Err) else self.zset(key)
        if pairs:
            step = Err(ERR_ARG, SYNTAX) if b"type" in map(bytes.lower, more[::2]) else self.do_scan(cursor, *more)
        return step if isinstance(step, Err) else PairsStep(pairs)

    def shown(self, pairs: Sequence[Tuple[float, bytes]], scores: bool) -> List[object]:
        return [each for value, name in pairs for each in ([name, Score(value)] if scores else [name])]

    def do_zquery(self, key: bytes, score: bytes, name: bytes, offset: bytes, limit: bytes) -> object:
        value, move, most = parse_double(score), parse_int(offset), parse_int(limit)
        errors: List[object] = [Err(ERR_ARG, NO_FLOAT)] * (value is None)
        errors += [Err(ERR_ARG, NO_INT)] * (None in (move, most))
        errors += [Err(ERR_TYPE, WRONG_TYPE)] * (not isinstance(self.values.get(key, {}), dict))
        if errors:
            return OneOf(*errors)
        assert value is not None and move is not None and most is not None
        pairs = self.pairs(key)
        start = sum(pair < (value, name) for pair in pairs) + move
        return [] if start < 0 or most <= 0 else self.shown(pairs[start : start + most], True)

    # ---- time to live ----

    def live_until(self, key: bytes, date: int) -> None:
        """Gives the key a deadline; deletes it where that is over."""
        now = self.clock()
        if date > now:
            self.deadlines[key] = date
            return
        self._remove(key)
        if date >= now - self.slack_ms:  # to the server it may not have been over
            self.here.ghosts.add(key)

    def expire_at(self, command: str, unit: bytes, key: bytes, amount: bytes, *more: bytes) -> object:
        options = {word.lower() for word in more}
        for word in more:
            if word.lower() not in (b"nx", b"xx", b"gt", b"lt"):
                return Err(ERR_ARG, f"ERR Unsupported option {word.decode('utf-8', 'surrogateescape')}")
        if b"nx" in options and len(options) > 1:
            return Err(ERR_ARG, "ERR NX and XX, GT or LT options at the same time are not compatible")
        if {b"gt", b"lt"} <= options:
            return Err(ERR_ARG, "ERR GT and LT options at the same time are not compatible")
        scale, absolute = UNITS[unit]
        value = integer(amount) * scale
        if not INT64_MIN <= value <= INT64_MAX or not absolute and value + self.wall() > INT64_MAX:
            return Err(ERR_ARG, f"ERR invalid expire time in '{command}' command")
        date, old = value if absolute else Since(value + self.clock()), self.deadlines.get(key)
        later = old is not None and date > old  # no deadline is later than never
        forbidden = (
            (b"nx" in options and old is not None) or (b"xx" in options and old is None)
            or (b"gt" in options and not later) or (b"lt" in options and old is not None and date >= old)
        )  # fmt: skip
        if key not in self.values or forbidden:
            return 0
        self.live_until(key, date)
        return 1

    def date_of(self, key: bytes, unit: int) -> object:
        date = self.deadlines.get(key)
        if date is None:
            return -1 if key in self.values else -2
        low = date - self.slack_ms * isinstance(date, Since)
        return Between((low + unit // 2) // unit, (date + unit // 2) // unit)


def _rank(names: List[bytes], name: bytes) -> Optional[int]:
    return names.index(name) if name in names else None


# What is said in one expression, by command.
SHORT: Dict[str, Callable[..., object]] = {
    "get": lambda m, key: m.string(key),
    "setnx": lambda m, key, value: int(m.do_set(key, value, b"nx") == OK),
    "setex": lambda m, *args: m.set_with_time("setex", b"ex", *args),
    "psetex": lambda m, *args: m.set_with_time("psetex", b"px", *args),
    "incr": lambda m, key: m.add(key, 1),
    "decr": lambda m, key: m.add(key, -1),
    "incrby": lambda m, key, amount: m.add(key, integer(amount)),
    "strlen": lambda m, key: len(m.string(key) or b""),
    "unlink": lambda m, *keys: m.do_del(*keys),
    "exists": lambda m, *keys: sum(key in m.values for key in keys),
    "touch": lambda m, *keys: sum(key in m.values for key in keys),
    "rename": lambda m, key, new: m.rename(key, new, True) and OK,
    "renamenx": lambda m, key, new: m.rename(key, new, False),
    "echo": lambda m, text: text,
    "zincrby": lambda m, key, amount, name: m.do_zadd(key, b"incr", amount, name),
    "zscore": lambda m, key, name: Score(m.zset(key)[name]) if name in m.zset(key) else None,
    "zcard": lambda m, key: len(m.zset(key)),
    "zrank": lambda m, key, name: _rank([each for _, each in m.pairs(key)], name),
    "zrevrank": lambda m, key, name: _rank([each for _, each in m.pairs(key)][::-1], name),
    "zcount": lambda m, key, low, high: len(m.between(key, low, high)),
    "zlexcount": lambda m, key, low, high: len(m.named_between(key, low, high)),
    "zmscore": lambda m, key, *names: [Score(m.zset(key)[name]) if name in m.zset(key) else None for name in names],
    "zrangebyscore": lambda m, *args: m.do_zrange(*args, flags=[b"byscore"]),
    "zrangebylex": lambda m, *args: m.do_zrange(*args, flags=[b"bylex"]),
    "zrevrange": lambda m, *args: m.do_zrange(*args, flags=[b"rev"]),
    "zrevrangebyscore": lambda m, *args: m.do_zrange(*args, flags=[b"rev", b"byscore"]),
    "zrevrangebylex": lambda m, *args: m.do_zrange(*args, flags=[b"rev", b"bylex"]),
    "zremrangebyrank": lambda m, key, *ends: m.take_out(key, m.placed_between(key, *ends)),
    "zremrangebyscore": lambda m, key, *ends: m.take_out(key, m.between(key, *ends)),
    "zremrangebylex": lambda m, key, *ends: m.take_out(key, m.named_between(key, *ends)),
    "zpopmin": lambda m, key, *count: m.pop(key, False, *count),
    "zpopmax": lambda m, key, *count: m.pop(key, True, *count),
    "expire": lambda m, *args: m.expire_at("expire", b"ex", *args),
    "pexpire": lambda m, *args: m.expire_at("pexpire", b"px", *args),
    "expireat": lambda m, *args: m.expire_at("expireat", b"exat", *args),
    "pexpireat": lambda m, *args: m.expire_at("pexpireat", b"pxat", *args),
    "expiretime": lambda m, key: m.date_of(key, 1000),
    "pexpiretime": lambda m, key: m.date_of(key, 1),
}


class ScanStep:
    """Expects what a step of SCAN replies: a cursor, and some of these keys, perhaps one of them twice."""

    def __init__(self, keys: Set[bytes]) -> None:
        self.keys = keys
        self.example = [b"0", sorted(keys)]

    def is_met_by(self, got: object) -> bool:
        """Is it two strings, of which the second is an array of some of the keys?"""
        if not isinstance(got, list) or len(got) != 2 or not isinstance(got[1], list) or not isinstance(got[0], bytes):
            return False
        return got[0].isdigit() and int(got[0]) < 2**64 and set(got[1]) <= self.keys

    def shown(self) -> str:
        return f"a cursor, and some of {len(self.keys)} keys"


class PairsStep(ScanStep):
    """Expects what a step of ZSCAN replies: a cursor, and some of these pairs."""

    def __init__(self, pairs: ZSet) -> None:
        super().__init__(set(pairs))
        self.pairs = dict(pairs)
        self.example = [b"0", [each for name in sorted(pairs) for each in (name, show_double(pairs[name]).encode())]]

    def is_met_by(self, got: object) -> bool:
        """Has each name its own score behind it?"""
        if not isinstance(got, list) or len(got) != 2 or not isinstance(got[1], list):
            return False
        names, scores = got[1][::2], got[1][1::2]
        return super().is_met_by([got[0], names]) and all(
            Score(self.pairs[name]).is_met_by(value) for name, value in zip(names, scores)
        )
