"""A plain Python model of the server of chapter 17, for random commands: replies and texts as Redis has them."""
from __future__ import annotations

import bisect
import fnmatch
import random
import re
import time
from typing import Any, List, Optional, Sequence, Set, Tuple

from . import redis, resp, settings
from .model import (
    BAD_INTS, INT64_MAX, INT64_MIN, KEYS, LIMITS, MILLISECONDS, NAMES, OFFSETS, SCORES, SECONDS, Command,
    Generator, Model, ZSet, _Wrong,
)  # fmt: skip
from .resp import NO_FLOAT, NO_INT, OK, PONG, SYNTAX, WRONG_TYPE, Score, Simple, parse_double, parse_int
from .wire import ERR_ARG, ERR_TYPE, ERR_UNKNOWN, AnyOrder, Between, Err, OneOf, to_bytes

__tracebackhide__ = settings.__tracebackhide__

NO_RANGE = "ERR min or max is not a float"
OVERFLOW = "ERR increment or decrement would overflow"


def wrong(text: str) -> _Wrong:
    """An error with this text, to be raised."""
    return _Wrong(Err(ERR_ARG, text))


def integer(text: bytes) -> int:
    value = parse_int(text)
    if value is None:
        raise wrong(NO_INT)
    return value


class RespModel(Model):
    """The server of 17."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ghosts: Set[bytes] = set()  # keys that have expired

    def do(self, *args: resp.Arg) -> object:
        """Executes a command; returns the reply to expect (possibly a pattern)."""
        words = [to_bytes(a) for a in args]
        self._expire()
        name = words[0].lower()
        method = getattr(self, f"do_{name.decode('latin-1')}", None) if re.fullmatch(b"[a-z]+", name) else None
        if method is None:
            return Err(ERR_UNKNOWN, resp.unknown(words))
        count = resp.arity(self.chapter)[name]
        if len(words) < -count if count < 0 else len(words) != count:
            return self.bad_count(name.decode())
        try:
            return method(*words[1:])
        except _Wrong as e:
            return e.reply

    def leaves(self, client: int) -> None:
        """That connection has ended."""

    def bad_count(self, name: str) -> Err:
        return Err(ERR_ARG, f"ERR wrong number of arguments for '{name}' command")

    # ---- strings ----

    def string(self, key: bytes) -> Optional[bytes]:
        """The value of a key; None where there is none."""
        value = self.values.get(key)
        if isinstance(value, dict):
            raise _Wrong(Err(ERR_TYPE, WRONG_TYPE))
        return value

    def do_get(self, key: bytes) -> object:
        return self.string(key)

    def do_set(self, key: bytes, value: bytes, *more: bytes) -> object:
        if more:
            return Err(ERR_ARG, SYNTAX)
        super().do_set(key, value)
        return OK

    def do_mget(self, *keys: bytes) -> object:
        return [None if isinstance(self.values.get(key), dict) else self.values.get(key) for key in keys]

    def do_mset(self, *pairs: bytes) -> object:
        if len(pairs) % 2:
            return self.bad_count("mset")
        for key, value in zip(pairs[::2], pairs[1::2]):
            super().do_set(key, value)
        return OK

    def add(self, key: bytes, amount: int) -> object:
        text = self.string(key)
        value = integer(b"0" if text is None else text) + amount
        if not INT64_MIN <= value <= INT64_MAX:
            return Err(ERR_ARG, OVERFLOW)
        self.values[key] = b"%d" % value
        return value

    def do_incr(self, key: bytes) -> object:
        return self.add(key, 1)

    def do_decr(self, key: bytes) -> object:
        return self.add(key, -1)

    def do_incrby(self, key: bytes, amount: bytes) -> object:
        return self.add(key, integer(amount))

    def do_decrby(self, key: bytes, amount: bytes) -> object:
        if integer(amount) == INT64_MIN:
            return Err(ERR_ARG, "ERR decrement would overflow")
        return self.add(key, -integer(amount))

    def do_append(self, key: bytes, more: bytes) -> object:
        self.values[key] = (self.string(key) or b"") + more
        return len(self.values[key])

    def do_strlen(self, key: bytes) -> object:
        return len(self.string(key) or b"")

    # ---- keys ----

    def do_del(self, *keys: bytes) -> object:
        there = [key for key in dict.fromkeys(keys) if key in self.values]
        for key in there:
            self._remove(key)
        return len(there)

    do_unlink = do_del

    def do_exists(self, *keys: bytes) -> object:
        return sum(key in self.values for key in keys)

    def do_type(self, key: bytes) -> object:
        value = self.values.get(key)
        return Simple(b"none" if value is None else b"zset" if isinstance(value, dict) else b"string")

    def do_keys(self, pattern: bytes) -> object:
        """Of patterns that the generator makes: no backslash, and ! is no sign."""
        matcher = re.compile(fnmatch.translate(pattern.decode("latin-1")), re.DOTALL)
        return AnyOrder([key for key in self.values if matcher.match(key.decode("latin-1"))])

    def _expire(self) -> None:
        before = set(self.values)
        super()._expire()
        self.ghosts |= before - set(self.values)

    def do_dbsize(self) -> object:
        """Redis counts what has expired, too, as long as nobody has come upon it."""
        return Between(len(self.values), len(self.values) + len(self.ghosts - set(self.values)))

    def do_flushdb(self, *how: bytes) -> object:
        if how and (len(how) > 1 or how[0].lower() not in (b"async", b"sync")):
            return Err(ERR_ARG, SYNTAX)
        for keys in (self.values, self.deadlines, self.ghosts):
            keys.clear()
        return OK

    do_flushall = do_flushdb

    # ---- connections ----

    def do_ping(self, *text: bytes) -> object:
        return self.bad_count("ping") if len(text) > 1 else text[0] if text else PONG

    def do_echo(self, text: bytes) -> object:
        return text

    # ---- sorted sets ----

    def zset(self, key: bytes) -> ZSet:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise _Wrong(Err(ERR_TYPE, WRONG_TYPE))
        return value

    def pairs(self, key: bytes) -> List[Tuple[float, bytes]]:
        return sorted((score, name) for name, score in self.zset(key).items())

    def do_zadd(self, key: bytes, *more: bytes) -> object:
        if len(more) % 2:
            return Err(ERR_ARG, SYNTAX)
        scores = [parse_double(text) for text in more[::2]]
        if None in scores:
            return Err(ERR_ARG, NO_FLOAT)
        zset = self.zset(key)
        before = len(zset)
        zset.update(zip(more[1::2], scores))  # type: ignore[arg-type]
        self.values[key] = zset
        return len(zset) - before

    def do_zincrby(self, key: bytes, amount: bytes, name: bytes) -> object:
        if amount.lower() in (b"nx", b"xx", b"gt", b"lt", b"ch", b"incr"):
            return Err(ERR_ARG, SYNTAX)  # it is read as `zadd` is, and then has a score too few
        more = parse_double(amount)
        if more is None:
            return Err(ERR_ARG, NO_FLOAT)
        zset = self.zset(key)
        score = zset.get(name, 0.0) + more
        if score != score:
            return Err(ERR_ARG, "ERR resulting score is not a number (NaN)")
        zset[name] = score + 0.0
        self.values[key] = zset
        return Score(score)

    def do_zrem(self, key: bytes, *names: bytes) -> object:
        zset = self.zset(key)
        there = [name for name in dict.fromkeys(names) if name in zset]
        for name in there:
            del zset[name]
        if there and not zset:
            self._remove(key)
        return len(there)

    def do_zscore(self, key: bytes, name: bytes) -> object:
        score = self.zset(key).get(name)
        return None if score is None else Score(score)

    def do_zcard(self, key: bytes) -> object:
        return len(self.zset(key))

    def do_zrank(self, key: bytes, name: bytes) -> object:
        score = self.zset(key).get(name)
        return None if score is None else self.pairs(key).index((score, name))

    def do_zrevrank(self, key: bytes, name: bytes) -> object:
        rank = self.do_zrank(key, name)
        return None if rank is None else len(self.zset(key)) - 1 - rank  # type: ignore[operator]

    def range(self, low: bytes, high: bytes) -> "Tuple[float, bool, float, bool]":
        """Two ends, and whether each belongs to what is between them."""
        ends: List[object] = []
        for text in (low, high):
            number = text[1:] if text[:1] == b"(" else text
            value = parse_double(number)
            if value is None and not re.fullmatch(rb"[+-]?[0-9]+e-[0-9]+", number):  # nearly 0 is 0, here
                raise wrong(NO_RANGE)
            value = value or 0.0
            ends += [value, text[:1] != b"("]
        return tuple(ends)  # type: ignore[return-value]

    def between(self, key: bytes, low: bytes, high: bytes) -> List[Tuple[float, bytes]]:
        least, also, most, too = self.range(low, high)
        return [
            pair for pair in self.pairs(key)
            if (least < pair[0] or also and least == pair[0]) and (pair[0] < most or too and pair[0] == most)
        ]  # fmt: skip

    def do_zcount(self, key: bytes, low: bytes, high: bytes) -> object:
        return len(self.between(key, low, high))

    def shown(self, pairs: Sequence[Tuple[float, bytes]], scores: bool) -> List[object]:
        return [each for score, name in pairs for each in ([name, Score(score)] if scores else [name])]

    def do_zrange(self, key: bytes, first: bytes, last: bytes, *more: bytes) -> object:
        if any(word.lower() != b"withscores" for word in more):
            return Err(ERR_ARG, SYNTAX)
        begin, end = integer(first), integer(last)
        pairs = self.pairs(key)
        begin = max(0, begin + len(pairs) if begin < 0 else begin)
        end = end + len(pairs) if end < 0 else end
        return self.shown(pairs[begin : max(begin, end + 1)], bool(more))

    def do_zrangebyscore(self, key: bytes, low: bytes, high: bytes, *more: bytes) -> object:
        scores, offset, count, rest = False, 0, -1, list(more)
        while rest:
            if rest[0].lower() == b"withscores":
                scores = True
                del rest[0]
            elif rest[0].lower() == b"limit" and len(rest) >= 3:
                offset, count = integer(rest[1]), integer(rest[2])
                del rest[:3]
            else:
                return Err(ERR_ARG, SYNTAX)
        found = self.between(key, low, high)
        if offset < 0:
            return []
        return self.shown(found[offset : None if count < 0 else offset + count], scores)

    def do_zquery(self, key: bytes, score: bytes, name: bytes, offset: bytes, limit: bytes) -> object:
        value, move, most = parse_double(score), parse_int(offset), parse_int(limit)
        errors = [NO_FLOAT] * (value is None) + [NO_INT] * (None in (move, most))
        options: List[object] = [Err(ERR_ARG, text) for text in errors]
        if not isinstance(self.values.get(key, {}), dict):
            options.append(Err(ERR_TYPE, WRONG_TYPE))
        if options:
            return OneOf(*options)
        assert value is not None and move is not None and most is not None
        pairs = self.pairs(key)
        start = bisect.bisect_left(pairs, (value, name)) + move
        return [] if start < 0 or most <= 0 else self.shown(pairs[start : start + most], True)

    # ---- time to live ----

    def expire_in(self, name: str, key: bytes, amount: bytes, more: Sequence[bytes], unit: int) -> object:
        """With NX and XX; GT and LT are for cases in which the clock stands still."""
        options = {word.lower() for word in more}
        for word in more:
            if word.lower() not in (b"nx", b"xx"):
                said = word.decode("utf-8", "surrogateescape")
                return Err(ERR_ARG, f"ERR Unsupported option {said}")
        if len(options) > 1:
            return Err(ERR_ARG, "ERR NX and XX, GT or LT options at the same time are not compatible")
        value = integer(amount) * unit
        late = max(self.clock(), time.time_ns() // 1_000_000) + value > INT64_MAX  # Redis has times of day
        if not INT64_MIN <= value <= INT64_MAX or late:
            return Err(ERR_ARG, f"ERR invalid expire time in '{name}' command")
        if key not in self.values or options == {b"xx" if key not in self.deadlines else b"nx"}:
            return 0
        if value <= 0:
            self._remove(key)
        else:
            self.deadlines[key] = self.clock() + value
        return 1

    def do_expire(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self.expire_in("expire", key, amount, more, 1000)

    def do_pexpire(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self.expire_in("pexpire", key, amount, more, 1)


# ---- random commands ----

RANGES = [*SCORES, b"(1", b"(2", b"(-1", b"(0.1", b"(inf", b"-inf", b"+inf", b"+inf", b"-inf"]
NUMBERS = [b"0", b"1", b"-1", b"41", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775000"]
PATTERNS = [b"*", b"*", b"k*", b"?", b"*:*", b"[a-z]", b"list:[12]", b"none", b"", b"k?y", b"?*"]
# how often each is drawn
WEIGHTS = {
    b"set": 4, b"get": 4, b"del": 2, b"zadd": 16, b"zquery": 6, b"zrem": 3, b"zscore": 2, b"mset": 2, b"incr": 2,
    b"zrange": 4, b"zrangebyscore": 4, b"zcount": 2, b"flushdb": 0, b"flushall": 0,
}  # fmt: skip
NO_COMMANDS = (b"", b"gets", b"ge", b"get\0", b"set\0x", b"keyz", b"\xff", b"x" * 300, b"g\r\nt")
ALONE = (b"keys", b"dbsize", b"mset", b"mget", b"exists", b"del", b"unlink")  # look at other keys, too


class RespGenerator(Generator):
    """Random commands of chapter 17 over a few keys that collide often; rng decides everything."""

    MODEL, WEIGHTS = RespModel, WEIGHTS

    def __init__(self, chapter: int, rng: random.Random) -> None:
        super().__init__(chapter, rng)
        names = [name for name in resp.arity(chapter) if hasattr(self.MODEL, f"do_{name.decode()}")]
        self.names = [name for name in names for _ in range(self.WEIGHTS.get(name, 1))]

    def command(self, keys: Sequence[bytes] = tuple(KEYS), alone: bool = True) -> Command:
        """The next command, on one of keys; alone=False: none that looks at other keys."""
        pick, rng = self.rng.choice, self.rng
        name = pick(self.names)
        if name in ALONE and not alone:
            name = b"get"
        if alone and rng.random() < 0.002:
            name = pick([b"flushdb", b"flushall"])
        words = [name, *self.arguments(name, keys)]
        fault = rng.random()
        if fault < 0.03:
            fewer = fault < 0.02 and len(words) > 1 and name != b"keys"  # of none, the codec would make `keys *`
            words = words[:-1] if fewer else words + [b"x"]
        elif fault < 0.045:
            words[0] = pick(list(filter(redis.tells_apart, NO_COMMANDS)))
        elif fault < 0.14:
            words[0] = pick([name.upper(), name.title(), name.swapcase()])
        return words

    def arguments(self, name: bytes, keys: Sequence[bytes]) -> List[bytes]:
        """What stands behind the name."""
        pick, rng = self.rng.choice, self.rng

        def some(one: "Sequence[bytes]") -> List[bytes]:
            return [pick(one) for _ in range(rng.choice([1, 1, 2, 3]))]

        def number(good: Sequence[bytes], bad: Sequence[bytes], often: float = 0.04) -> bytes:
            return pick(bad if rng.random() < often else good)

        key = self._argument(name, 1, keys)
        if name in (b"keys", b"dbsize", b"flushdb", b"flushall", b"ping", b"echo"):
            return {b"keys": [pick(PATTERNS)], b"echo": [key], b"ping": [key] * rng.randrange(2)}.get(name, [])
        if name in (b"mget", b"exists", b"del", b"unlink"):
            return some(keys) if len(keys) > 1 else [key]
        if name == b"mset":
            return [word for each in some(keys) for word in (each, self._value())]
        if name == b"zadd":
            return [key, *(w for each in some(NAMES) for w in (self._argument(name, 2, keys), each))]
        if name == b"zrem":
            return [key, *some(NAMES)]
        if name == b"set":
            return [key, pick(NUMBERS) if rng.random() < 0.3 else self._value()]
        if name == b"append":
            return [key, pick([b"", b"1", b"x", b"\0", b"-"])]
        if name in (b"incrby", b"decrby"):
            return [key, number(NUMBERS, BAD_INTS)]
        if name in (b"expire", b"pexpire"):
            options = [pick([b"nx", b"xx", b"NX"]) for _ in range(2) if rng.random() < 0.15]
            return [key, number(SECONDS if name == b"expire" else MILLISECONDS, BAD_INTS, 0.1), *options]
        if name == b"zquery":
            return [key, self._argument(b"zadd", 2, keys), pick(NAMES), number(OFFSETS, BAD_INTS, 0.03),
                    number(LIMITS, BAD_INTS, 0.03)]  # fmt: skip
        if name == b"zincrby":
            amount = pick([b"nx", b"CH"]) if rng.random() < 0.03 else self._argument(b"zadd", 2, keys)
            return [key, amount, pick(NAMES)]
        if name == b"zcount":
            return [key, self._range(), self._range()]
        if name == b"zrange":
            return [key, number(OFFSETS, BAD_INTS), number(OFFSETS, BAD_INTS), *[b"withscores"] * rng.randrange(2)]
        if name == b"zrangebyscore":
            limit = [b"LIMIT", number(OFFSETS, BAD_INTS), number(LIMITS, BAD_INTS)] * (rng.random() < 0.4)
            return [key, self._range(), self._range(), *[b"WITHSCORES"] * rng.randrange(2), *limit]
        return [key] + [pick(NAMES)] * (name in (b"zscore", b"zrank", b"zrevrank"))

    def _range(self) -> bytes:
        return self.rng.choice([b"x", b"nan", b"(x", b"1x"] if self.rng.random() < 0.03 else RANGES)
