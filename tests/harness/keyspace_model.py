"""A plain Python model of the server of chapter 18, for random commands: databases, and deadlines that are dates."""
from __future__ import annotations

import random
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import resp, settings
from .model import BAD_INTS, INT64_MAX, INT64_MIN, KEYS, SOON, Command, ZSet
from .resp import NIL, NO_INT, OK, SYNTAX, WRONG_TYPE, Simple, parse_int
from .resp_model import NUMBERS, RespGenerator, RespModel, integer, wrong
from .wire import ERR_ARG, AnyOrder, Between, Err, OneOf

__tracebackhide__ = settings.__tracebackhide__

DATABASES = 16
NO_DB, SAME = "ERR DB index is out of range", "ERR source and destination objects are the same"
NO_KEY = "ERR no such key"
NO_INT32 = "ERR value is out of range, value must between -2147483648 and 2147483647"
EMBEDDED = 44  # bytes of the longest string that Redis keeps in one piece with its header


def wall_ms() -> int:
    """The clock by which keys expire."""
    return time.time_ns() // 1_000_000


def index(text: bytes, error: str = "") -> int:
    """A number of 32 bits; of a database, where it is in range."""
    value = parse_int(text)
    if value is None or not -(2**31) <= value < 2**31:
        raise wrong(error or (NO_INT if value is None else NO_INT32))
    return value


class Since(int):
    """A deadline that was counted from now on: the server has looked at the clock a little earlier than the model."""


class Appended(bytes):
    """A string that `append` has changed in its place."""


def _plain(value: object) -> object:
    """A reply says nothing of the past of a string."""
    return bytes(value) if isinstance(value, Appended) else value


class Grown(dict):
    """A sorted set that has once been too large for Redis's compact form."""


class Database:
    """One of the sixteen."""

    def __init__(self) -> None:
        self.values: Dict[bytes, Union[bytes, ZSet]] = {}
        self.deadlines: Dict[bytes, int] = {}
        self.ghosts: Set[bytes] = set()


class KeyspaceModel(RespModel):
    """The server of 18. `client` is the number of the connection that asks."""

    def __init__(self, chapter: int, clock: Callable[[], int] = wall_ms, slack_ms: int = 0) -> None:
        super().__init__(chapter, clock, slack_ms)
        self.databases = [Database() for _ in range(DATABASES)]
        self.selected: Dict[int, int] = {}

    def do(self, *args: resp.Arg) -> object:
        """Executes a command in the database of the client; that is the one whose keys `values` are until the next."""
        self._look_at(self.selected.get(self.client, 0))
        reply = super().do(*args)
        return [_plain(item) for item in reply] if type(reply) is list else _plain(reply)

    def leaves(self, client: int) -> None:
        """Who gets its number begins in the first database."""
        self.selected.pop(client, None)

    def _look_at(self, number: int) -> None:
        database = self.databases[number]
        self.values, self.deadlines, self.ghosts = database.values, database.deadlines, database.ghosts

    def _expire(self) -> None:
        """In all databases, so that a command may look into another one."""
        here = self.selected.get(self.client, 0)
        for number, database in enumerate(self.databases):
            if database.deadlines:
                self._look_at(number)
                super()._expire()
        self._look_at(here)

    # ---- databases ----

    def database(self, text: bytes) -> Database:
        number = index(text)
        if not 0 <= number < DATABASES:
            raise wrong(NO_DB)
        return self.databases[number]

    def do_select(self, number: bytes) -> object:
        self.database(number)
        self.selected[self.client] = int(number)
        return OK

    def do_swapdb(self, first: bytes, second: bytes) -> object:
        numbers = index(first, "ERR invalid first DB index"), index(second, "ERR invalid second DB index")
        if not all(0 <= number < DATABASES for number in numbers):
            return Err(ERR_ARG, NO_DB)
        one, two = (self.databases[number] for number in numbers)
        self.databases[numbers[0]], self.databases[numbers[1]] = two, one
        return OK

    def do_flushall(self, *how: bytes) -> object:
        reply = self.do_flushdb(*how)
        if reply == OK:
            self.databases = [Database() for _ in range(DATABASES)]
        return reply

    def do_move(self, key: bytes, number: bytes) -> object:
        there = self.database(number)
        if there.values is self.values:
            return Err(ERR_ARG, SAME)
        if key not in self.values or key in there.values:
            return 0
        self._put(there, key, self.values[key], self.deadlines.get(key))
        self._remove(key)
        return 1

    def _put(self, there: Database, key: bytes, value: Union[bytes, ZSet], deadline: Optional[int]) -> None:
        """A value takes the place of what is there, and brings its deadline with it."""
        there.values[key] = value
        there.deadlines.pop(key, None)
        if deadline is not None:
            there.deadlines[key] = deadline

    # ---- keys ----

    def _rename(self, key: bytes, new: bytes, over: bool) -> bool:
        if key not in self.values:
            raise wrong(NO_KEY)
        if not over and new in self.values:
            return False
        if key != new:
            here = self.databases[self.selected.get(self.client, 0)]
            self._put(here, new, self.values[key], self.deadlines.get(key))
            self._remove(key)
        return True

    def do_rename(self, key: bytes, new: bytes) -> object:
        self._rename(key, new, True)
        return OK

    def do_renamenx(self, key: bytes, new: bytes) -> object:
        return int(self._rename(key, new, False))

    def do_copy(self, key: bytes, new: bytes, *more: bytes) -> object:
        here = self.databases[self.selected.get(self.client, 0)]
        words, there, replace = list(more), here, False
        while words:
            if words[0].lower() == b"replace":
                replace = True
                del words[0]
            elif words[0].lower() == b"db" and len(words) > 1:
                there = self.database(words[1])
                del words[:2]
            else:
                return Err(ERR_ARG, SYNTAX)
        if there is here and key == new:
            return Err(ERR_ARG, SAME)
        value = self.values.get(key)
        if value is None or new in there.values and not replace:
            return 0
        self._put(there, new, type(value)(value), self.deadlines.get(key))  # a copy: sets are changed in their place
        return 1

    def do_touch(self, *keys: bytes) -> object:
        return self.do_exists(*keys)

    def do_randomkey(self) -> object:
        return OneOf(*self.values) if self.values else None

    def do_scan(self, cursor: bytes, *more: bytes) -> object:
        """One step of a pass says little; Pass looks at the whole. Here are the errors, and a table without keys."""
        number = parse_int(cursor)
        if number is None or not 0 <= number < 2**63:
            return Err(ERR_ARG, "ERR invalid cursor")
        words = list(more)
        while words:
            name = words[0].lower()
            if len(words) < 2 or name not in (b"count", b"match", b"type"):
                return Err(ERR_ARG, SYNTAX)
            if name == b"count" and integer(words[1]) < 1:
                return Err(ERR_ARG, SYNTAX)
            del words[:2]
        return Step(set(self.values))

    def do_object(self, what: bytes, *keys: bytes) -> object:
        name = what.lower().decode("latin-1")
        if name != "encoding":
            return Err(ERR_ARG, f"ERR unknown subcommand '{what.decode('latin-1')}'. Try OBJECT HELP.")
        if len(keys) != 1:
            return self.bad_count("object|encoding")
        value = self.values.get(keys[0])
        if value is None:
            return None
        if isinstance(value, dict):
            large = len(value) > 128 or any(len(name) > 64 for name in value)
            now, once = b"skiplist" if large else b"listpack", b"skiplist" if isinstance(value, Grown) else None
        else:
            short = b"embstr" if len(value) <= EMBEDDED else b"raw"
            now, once = short if parse_int(value) is None else b"int", b"raw" if isinstance(value, Appended) else None
        return OneOf(now, once) if once else now  # Redis goes by what a value has been, a server may go by what it is

    # ---- strings ----

    def do_append(self, key: bytes, more: bytes) -> object:
        new = key not in self.values
        length = super().do_append(key, more)
        if not new:
            self.values[key] = Appended(self.values[key])  # type: ignore[arg-type]
        return length

    def do_set(self, key: bytes, value: bytes, *more: bytes) -> object:
        words, unit, deadline = self._options(more, (b"nx", b"xx", b"get", b"keepttl")), None, None
        if b"nx" in words and b"xx" in words:
            return Err(ERR_ARG, SYNTAX)
        unit = next((name for name in UNITS if name in words), None)
        if b"keepttl" in words and unit:
            return Err(ERR_ARG, SYNTAX)
        if unit:
            deadline = self._date("set", words[unit], unit)
        old = self.values.get(key)
        if b"get" in words:
            old = self.string(key)
        if (b"nx" in words and old is not None) or (b"xx" in words and old is None):
            return NIL if b"get" not in words or old is None else old
        kept = self.deadlines.get(key) if b"keepttl" in words else deadline
        self._set(key, value, kept)
        return OK if b"get" not in words else NIL if old is None else old

    def _set(self, key: bytes, value: bytes, deadline: Optional[int] = None) -> None:
        self._put(self.databases[self.selected.get(self.client, 0)], key, value, deadline)

    def _options(self, words: Sequence[bytes], flags: Sequence[bytes]) -> Dict[bytes, bytes]:
        """Flags, and one unit with its number; of the same unit twice, the last number."""
        found: Dict[bytes, bytes] = {}
        i = 0
        while i < len(words):
            name = words[i].lower()
            if name in flags:
                found[name] = b""
            elif name in UNITS and i + 1 < len(words) and not set(UNITS) & set(found) - {name}:
                i += 1
                found[name] = words[i]
            else:
                raise wrong(SYNTAX)
            i += 1
        return found

    def _date(self, command: str, text: bytes, unit: bytes) -> int:
        """The deadline that a command other than those of `expire` sets: it must be after 1970."""
        scale, absolute = UNITS[unit]
        amount = integer(text)
        late = f"ERR invalid expire time in '{command}' command"
        date = amount * scale + (0 if absolute else self.clock())
        if amount <= 0 or amount * scale > INT64_MAX or date > INT64_MAX:
            raise wrong(late)
        return date if absolute else Since(date)

    def do_setex(self, key: bytes, amount: bytes, value: bytes) -> object:
        self._set(key, value, self._date("setex", amount, b"ex"))
        return OK

    def do_psetex(self, key: bytes, amount: bytes, value: bytes) -> object:
        self._set(key, value, self._date("psetex", amount, b"px"))
        return OK

    def do_setnx(self, key: bytes, value: bytes) -> object:
        if key in self.values:
            return 0
        self._set(key, value)
        return 1

    def do_getset(self, key: bytes, value: bytes) -> object:
        old = self.string(key)
        self._set(key, value)
        return old

    def do_getdel(self, key: bytes) -> object:
        old = self.string(key)
        if old is not None:
            self._remove(key)
        return old

    def do_getex(self, key: bytes, *more: bytes) -> object:
        words = self._options(more, (b"persist",))
        unit = next((name for name in UNITS if name in words), None)
        if b"persist" in words and unit:
            return Err(ERR_ARG, SYNTAX)
        value = self.string(key)
        if value is None:
            return None
        if unit:
            self._live_until(key, self._date("getex", words[unit], unit))
        elif b"persist" in words:
            self.deadlines.pop(key, None)
        return value

    # ---- sorted sets ----

    def _grown(self, key: bytes) -> None:
        zset = self.values.get(key)
        if isinstance(zset, dict) and (len(zset) > 128 or any(len(name) > 64 for name in zset)):
            self.values[key] = zset if isinstance(zset, Grown) else Grown(zset)

    def do_zadd(self, key: bytes, *more: bytes) -> object:
        reply = super().do_zadd(key, *more)
        self._grown(key)
        return reply

    def do_zincrby(self, key: bytes, amount: bytes, name: bytes) -> object:
        reply = super().do_zincrby(key, amount, name)
        self._grown(key)
        return reply

    # ---- time to live ----

    def _live_until(self, key: bytes, date: int) -> None:
        """Gives the key a deadline; deletes it where that is over."""
        now = self.clock()
        if date > now:
            self.deadlines[key] = date
            return
        self._remove(key)
        if date >= now - self.slack_ms:  # to the server it may not have been over
            self.ghosts.add(key)

    def _expire_at(self, command: str, key: bytes, amount: bytes, more: Sequence[bytes], unit: bytes) -> object:
        for word in more:
            if word.lower() not in (b"nx", b"xx", b"gt", b"lt"):
                said = word.decode("utf-8", "surrogateescape")
                return Err(ERR_ARG, f"ERR Unsupported option {said}")
        options = {word.lower() for word in more}
        if b"nx" in options and len(options) > 1:
            return Err(ERR_ARG, "ERR NX and XX, GT or LT options at the same time are not compatible")
        if {b"gt", b"lt"} <= options:
            return Err(ERR_ARG, "ERR GT and LT options at the same time are not compatible")
        scale, absolute = UNITS[unit]
        value = integer(amount) * scale
        date = value if absolute else Since(value + self.clock())
        if not INT64_MIN <= value <= INT64_MAX or date > INT64_MAX:
            return Err(ERR_ARG, f"ERR invalid expire time in '{command}' command")
        if key not in self.values:
            return 0
        old = self.deadlines.get(key)
        if (b"nx" in options and old is not None) or (b"xx" in options and old is None):
            return 0
        order = b"gt" if b"gt" in options else b"lt"
        if order in options and old is not None:
            near = abs(date - old) < self.slack_ms and (isinstance(date, Since) or isinstance(old, Since))
            if near:
                self.deadlines[key] = max(date, old, key=int)
                return OneOf(0, 1)  # nearly the same time: which is later is not known
            if date <= old if order == b"gt" else date >= old:
                return 0
        elif b"gt" in options:
            return 0  # no deadline is later than never
        self._live_until(key, date)
        return 1

    def do_expire(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self._expire_at("expire", key, amount, more, b"ex")

    def do_pexpire(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self._expire_at("pexpire", key, amount, more, b"px")

    def do_expireat(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self._expire_at("expireat", key, amount, more, b"exat")

    def do_pexpireat(self, key: bytes, amount: bytes, *more: bytes) -> object:
        return self._expire_at("pexpireat", key, amount, more, b"pxat")

    def _date_of(self, key: bytes, unit: int) -> object:
        if key not in self.values:
            return -2
        date = self.deadlines.get(key)
        if date is None:
            return -1
        low = date - self.slack_ms * isinstance(date, Since)
        return Between((low + unit // 2) // unit, (date + unit // 2) // unit)

    def do_expiretime(self, key: bytes) -> object:
        return self._date_of(key, 1000)

    def do_pexpiretime(self, key: bytes) -> object:
        return self._date_of(key, 1)


# unit -> (milliseconds, is it a date?)
UNITS = {b"ex": (1000, False), b"px": (1, False), b"exat": (1000, True), b"pxat": (1, True)}


class Step:
    """Expects what a step of SCAN replies: a cursor, and some of these keys, perhaps one of them twice."""

    def __init__(self, keys: Set[bytes]) -> None:
        self.keys = keys
        self.example = [b"0", sorted(keys)]

    def is_met_by(self, got: object) -> bool:
        """Is it two strings, of which the second is an array of some of the keys?"""
        if not isinstance(got, list) or len(got) != 2 or not isinstance(got[1], list) or not isinstance(got[0], bytes):
            return False
        cursor = parse_int(got[0]) if got[0].isdigit() else None
        return got[0].isdigit() and (cursor is not None or int(got[0]) < 2**64) and set(got[1]) <= self.keys

    def shown(self) -> str:
        return f"a cursor, and some of {len(self.keys)} keys"


# ---- random commands ----

# What is given as a time, by its unit: so far away that nothing expires during a test, and so far from each other that
# it is known which of a date and a time from now on is the later one.
FAR = {
    b"ex": [b"1000", b"100000", b"2147483648", b"1000000000000"],
    b"px": [b"1000000", b"100000000", b"4294967296", b"1000000000000000"],
    b"exat": [b"4000000000", b"9000000000", b"50000000000", b"9223372036854775"],
    b"pxat": [b"4000000000499", b"4000000000500", b"9000000000000", b"9223372036854775807"],
}
# long over, or more than there is
OVER = [b"1", b"1000000000", b"0", b"-1", b"-9223372036854775808", b"9223372036854776", b"9223370399119966"]
SET_OPTIONS = [b"nx", b"xx", b"get", b"keepttl", b"KeepTTL", b"GET"]
OPTIONS = [b"nx", b"xx", b"gt", b"lt", b"NX", b"GT"]
INDEXES = [b"0", b"0", b"1", b"1", b"2", b"3", b"15"]
BAD_INDEXES = [b"16", b"-1", b"x", b"", b"1.5", b"2147483648", b"99999999999999999999", b"01"]
EVERYWHERE = (b"swapdb", b"flushdb", b"flushall", b"randomkey", b"scan")  # not only about keys of their own


class KeyspaceGenerator(RespGenerator):
    """Random commands of chapter 18 over a few keys that collide often, in a few databases."""

    MODEL = KeyspaceModel
    WEIGHTS = {
        **RespGenerator.WEIGHTS, b"zadd": 8, b"zquery": 2, b"zrange": 2, b"zrangebyscore": 2, b"set": 8, b"select": 2,
        b"expire": 3, b"pexpire": 3, b"expireat": 4, b"pexpireat": 8, b"pexpiretime": 6, b"expiretime": 2, b"pttl": 2,
        b"ttl": 2, b"move": 4, b"copy": 4, b"rename": 4, b"renamenx": 2, b"getex": 4,
    }  # fmt: skip

    def command(self, keys: Sequence[bytes] = tuple(KEYS), alone: bool = True) -> Command:
        """The next command, on one of keys; alone=False: none that looks at other keys."""
        words = super().command(keys, alone)
        return [b"ping"] if not alone and words[0].lower() in EVERYWHERE else words

    def soon(self, key: bytes) -> Command:
        """Gives a key that is there a few milliseconds to live."""
        near = wall_ms() + self.rng.randrange(1, SOON)
        return super().soon(key) if self.rng.random() < 0.5 else [b"pexpireat", key, b"%d" % near]

    def arguments(self, name: bytes, keys: Sequence[bytes]) -> List[bytes]:
        """What stands behind the name."""
        pick, rng = self.rng.choice, self.rng

        def some(one: Sequence[bytes], chance: float) -> List[bytes]:
            words = []
            while rng.random() < chance:
                words.append(pick(one))
            return words

        def number(good: Sequence[bytes], bad: Sequence[bytes], often: float = 0.06) -> bytes:
            return pick(bad if rng.random() < often else good)

        def date(unit: bytes) -> bytes:
            dated = unit in (b"exat", b"pxat")
            return number((OVER if dated else OVER[2:]) if rng.random() < 0.15 else FAR[unit], BAD_INTS, 0.04)

        def unit() -> List[bytes]:
            name = pick(sorted(UNITS))
            return [pick([name, name.upper()]), date(name)]

        key = self._argument(b"set", 1, keys)
        if name == b"randomkey":
            return []
        if name == b"select":
            return [number(INDEXES, BAD_INDEXES)]
        if name == b"swapdb":
            return [number(INDEXES, BAD_INDEXES), number(INDEXES, BAD_INDEXES)]
        if name == b"move":
            return [self._argument(b"get" if rng.random() < 0.7 else b"zadd", 1, keys), number(INDEXES, BAD_INDEXES)]
        if name in (b"rename", b"renamenx"):
            return [pick(keys), pick(keys)]
        if name == b"copy":
            words = [pick(keys), pick(keys)]
            while rng.random() < 0.5:
                words += [b"replace"] if rng.random() < 0.5 else [b"DB", number(INDEXES, BAD_INDEXES)]
            return words + some([b"db", b"nonsense"], 0.03)
        if name == b"touch":
            return [pick(keys) for _ in range(rng.choice([1, 1, 2, 3]))] if len(keys) > 1 else [key]
        if name == b"object":
            return [pick([b"encoding", b"ENCODING"]), pick(keys)]
        if name == b"scan":
            more = some([b"count", b"match", b"count 0", b"count x", b"count 5", b"type string", b"nonsense 1"], 0.2)
            return [pick([b"0", b"0", b"0", b"x", b"-1x", b"17"]), *(word for part in more for word in part.split())]
        if name == b"set":
            words = [key, pick(NUMBERS) if rng.random() < 0.3 else self._value()]
            while rng.random() < 0.35:
                words += unit() if rng.random() < 0.5 else [pick(SET_OPTIONS)]
            return words + some([b"nonsense", b"ex", b"persist"], 0.02)
        if name in (b"setex", b"psetex"):
            return [key, date(b"ex" if name == b"setex" else b"px"), self._value()]
        if name in (b"setnx", b"getset"):
            return [key, self._value()]
        if name == b"getex":
            words = unit() if rng.random() < 0.5 else some([b"persist", b"PERSIST"], 0.4)
            return [key, *words, *some([b"persist", b"keepttl", b"nx"], 0.03)]
        if name in (b"expire", b"pexpire", b"expireat", b"pexpireat"):
            which = {b"expire": b"ex", b"pexpire": b"px", b"expireat": b"exat", b"pexpireat": b"pxat"}[name]
            return [pick(keys), date(which), *some(OPTIONS, 0.35), *some([b"ch", b""], 0.01)]
        if name in (b"expiretime", b"pexpiretime", b"ttl", b"pttl", b"persist"):
            return [pick(keys)]
        if name == b"getdel":
            return [key]
        return super().arguments(name, keys)
