"""A plain Python model of the server from chapter 07 on, a generator of random commands, and
the test that plays them against both.

The model answers as the protocol says: errors by their code only, `keys` in any order. Its clock
(milliseconds) is handed in. Keys are bytes -> bytes, or bytes -> {name: score} for a sorted set.
"""
from __future__ import annotations

import bisect
import random
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import settings, wire
from .codec import codec
from .conn import Conn, exchange
from .failure import Failure, explained
from .process import Server
from .wire import (
    ERR_2BIG, ERR_ARG, ERR_TYPE, ERR_UNKNOWN, INT64_MAX, INT64_MIN, AnyOrder, Between, Err, OneOf, Status, parse_double,
    parse_int,
)  # fmt: skip

assert INT64_MIN  # for those who draw from here

__tracebackhide__ = settings.__tracebackhide__

Command = List[bytes]
ZSet = Dict[bytes, float]

# name -> (since chapter, number of strings with the name itself)
COMMANDS = {
    b"get": (7, 2), b"set": (7, 3), b"del": (7, 2), b"keys": (9, 1),
    b"zadd": (11, 4), b"zrem": (11, 3), b"zscore": (11, 3), b"zquery": (11, 6),
    b"expire": (13, 3), b"pexpire": (13, 3), b"ttl": (13, 2), b"pttl": (13, 2), b"persist": (13, 2),
}  # fmt: skip


def monotonic_ms() -> int:
    """The default clock."""
    return time.monotonic_ns() // 1_000_000


class _Wrong(Exception):
    """Ends a command with an error reply."""

    def __init__(self, reply: object) -> None:
        self.reply = reply


class Model:
    """The server. slack_ms widens what ttl and pttl may answer, for a real server's clock."""

    client = 0  # who asks, where that makes a difference

    def __init__(self, chapter: int, clock: Callable[[], int] = monotonic_ms, slack_ms: int = 0) -> None:
        self.chapter, self.language = chapter, codec(chapter)
        self.clock = clock
        self.slack_ms = slack_ms
        self.values: Dict[bytes, Union[bytes, ZSet]] = {}
        self.deadlines: Dict[bytes, int] = {}

    def do(self, *args: wire.Arg) -> object:
        """Executes a command; returns the reply to expect (possibly a pattern)."""
        words = [wire.to_bytes(a) for a in args]
        self._expire()
        since, count = COMMANDS.get(words[0].lower(), (99, 0))
        if since > self.chapter:
            return self._error(ERR_UNKNOWN, "Unknown cmd")
        if len(words) != count:
            return self._error(ERR_ARG)
        method = getattr(self, "do_" + words[0].lower().decode())
        try:
            reply = method(*words[1:])
        except _Wrong as e:
            return e.reply
        if isinstance(reply, (list, AnyOrder)):
            items = reply if isinstance(reply, list) else reply.items
            if len(wire.encode_value(items)) > wire.max_msg(self.chapter):
                return Err(ERR_2BIG)
        return reply

    def _error(self, code: int, text: Optional[str] = None) -> object:
        if not self.language.has_values:
            return Status(wire.RES_ERR, None if text is None else text.encode())
        return Err(code, text)

    def _expire(self) -> None:
        now = self.clock()
        for key in [k for k, deadline in self.deadlines.items() if now > deadline]:
            self._remove(key)

    def _remove(self, key: bytes) -> None:
        del self.values[key]
        self.deadlines.pop(key, None)

    # ---- strings ----

    def do_get(self, key: bytes) -> object:
        value = self.values.get(key)
        if not self.language.has_values:
            return Status(wire.RES_NX, b"") if value is None else Status(wire.RES_OK, value)
        return Err(ERR_TYPE) if isinstance(value, dict) else value

    def do_set(self, key: bytes, value: bytes) -> object:
        self.values[key] = value
        self.deadlines.pop(key, None)
        return Status(wire.RES_OK, b"") if not self.language.has_values else None

    def do_del(self, key: bytes) -> object:
        found = key in self.values
        if found:
            self._remove(key)
        return Status(wire.RES_OK, b"") if not self.language.has_values else int(found)

    def do_keys(self) -> object:
        return AnyOrder(list(self.values))

    # ---- sorted sets ----

    def _zset(self, key: bytes, bad_argument: bool = False) -> ZSet:
        """The set at key, {} where there is none. Two errors at once: the protocol leaves which."""
        value = self.values.get(key, {})
        errors = [Err(ERR_ARG)] * bad_argument + [Err(ERR_TYPE)] * (not isinstance(value, dict))
        if errors:
            raise _Wrong(errors[0] if len(errors) == 1 else OneOf(*errors))
        assert isinstance(value, dict)
        return value

    def do_zadd(self, key: bytes, score: bytes, name: bytes) -> object:
        value = parse_double(score)
        zset = self._zset(key, value is None)
        assert value is not None
        new = name not in zset
        zset[name] = value
        self.values[key] = zset
        return int(new)

    def do_zrem(self, key: bytes, name: bytes) -> object:
        zset = self._zset(key)
        if name not in zset:
            return 0
        del zset[name]
        if not zset:
            self._remove(key)
        return 1

    def do_zscore(self, key: bytes, name: bytes) -> object:
        return self._zset(key).get(name)

    def do_zquery(self, key: bytes, score: bytes, name: bytes, offset: bytes, limit: bytes) -> object:
        value, move, most = parse_double(score), parse_int(offset), parse_int(limit)
        zset = self._zset(key, None in (value, move, most))
        assert value is not None and move is not None and most is not None
        pairs = sorted((s, n) for n, s in zset.items())
        start = bisect.bisect_left(pairs, (value, name)) + move
        if start < 0 or most <= 0:
            return []
        return [v for s, n in pairs[start : start + most] for v in (n, s)]

    # ---- time to live ----

    def _expire_in(self, key: bytes, amount: bytes, unit: int) -> object:
        value = parse_int(amount)
        if value is None:
            return Err(ERR_ARG)
        late = self.clock() + value * unit > INT64_MAX
        if key not in self.values:
            return OneOf(0, Err(ERR_ARG)) if late else 0
        if late:
            return Err(ERR_ARG)
        if value <= 0:
            self._remove(key)
        else:
            self.deadlines[key] = self.clock() + value * unit
        return 1

    def do_expire(self, key: bytes, amount: bytes) -> object:
        return self._expire_in(key, amount, 1000)

    def do_pexpire(self, key: bytes, amount: bytes) -> object:
        return self._expire_in(key, amount, 1)

    def _left(self, key: bytes, unit: int) -> object:
        if key not in self.values:
            return -2
        if key not in self.deadlines:
            return -1
        left = self.deadlines[key] - self.clock()
        low, high = max(left - self.slack_ms, 0), left + self.slack_ms
        return Between(*((ms + unit // 2) // unit for ms in (low, high)))

    def do_ttl(self, key: bytes) -> object:
        return self._left(key, 1000)

    def do_pttl(self, key: bytes) -> object:
        return self._left(key, 1)

    def do_persist(self, key: bytes) -> object:
        return int(self.deadlines.pop(key, None) is not None)


# ---- random commands --------------------------------------------------------------------------

KEYS = [b"k", b"K", b"", b"key", b"k\0", b"\xff\xfe", b"list:1", b"list:2", b"a b", b"z" * 200, b"0", b"-1"]
NAMES = [b"", b"a", b"b", b"aa", b"ab", b"a\0", b"\xff", b"name", b"Name", b"n" * 100, b"1", b"2"]
SCORES = [
    b"0", b"-0", b"0.0", b"1", b"1", b"-1", b"1.0000000000000002", b"0.9999999999999999", b"0.1",
    b"0.3", b"1e300", b"-1e300", b"5e-324", b"-1e-400", b"inf", b"-inf", b"+Inf", b"+1", b".5", b"5.",
    b"1E3", b"2", b"3", b"-2.5", b"9007199254740993", b"1e15",
]  # fmt: skip
BAD_SCORES = [b"", b" 1", b"1 ", b"1x", b"nan", b"-nan", b"0x10", b"1e400", b"-1e400", b"1,5", b"1\0",
              b"+", b".", b"e5", b"in", b"inf\0", b"--1", b"1e"]  # fmt: skip
BAD_INTS = [b"", b" 1", b"1 ", b"1x", b"+", b"-", b"+1", b"1.0", b"0x1", b"9223372036854775808",
            b"-9223372036854775809", b"99999999999999999999", b"1\0", b"--1", b"007", b"-01",
            b"00", b"-0"]  # fmt: skip
OFFSETS = [b"0", b"0", b"0", b"1", b"-1", b"2", b"-2", b"5", b"-5", b"-12", b"12",
           b"9223372036854775807", b"-9223372036854775808", b"4294967296"]  # fmt: skip
LIMITS = [b"10", b"10", b"1", b"2", b"100", b"0", b"-1", b"9223372036854775807", b"-9223372036854775808", b"4294967297"]
# far enough that nothing expires during a test, or at once
SECONDS = [b"1000", b"100000", b"2147483648", b"1000000000000", b"0", b"-1", b"-9223372036854775808",
           b"9223372036854775807", b"9223372036854776"]  # fmt: skip
MILLISECONDS = [b"1000000", b"2147483648", b"4294967296", b"1000000000000000", b"0", b"-1",
                b"-9223372036854775808", b"9223372036854775807"]  # fmt: skip
NO_COMMANDS = [b"", b"gets", b"ge", b"get\0", b"set\0x", b"keyz", b"\xff", b"x" * 300]
SOON = 4  # milliseconds: more than the shortest TTLs


class Generator:
    """Random commands of a chapter over a few keys that collide often; rng decides everything."""

    def __init__(self, chapter: int, rng: random.Random) -> None:
        self.chapter, self.rng = chapter, rng
        names = [n for n, (since, _) in COMMANDS.items() if since <= chapter]
        weights = {b"set": 4, b"get": 4, b"zadd": 16, b"zquery": 8, b"zrem": 2, b"zscore": 2}
        self.names = [n for n in names for _ in range(weights.get(n, 1))]

    def command(self, keys: Sequence[bytes] = tuple(KEYS), alone: bool = True) -> Command:
        """The next command, on one of keys; alone=False: none that looks at other keys."""
        pick = self.rng.choice
        name = pick(self.names)
        if name == b"keys" and not alone:
            name = b"get"
        words = [name] + [self._argument(name, i, keys) for i in range(1, COMMANDS[name][1])]
        fault = self.rng.random()
        if fault < 0.02:
            words = words[:-1] if len(words) > 1 and fault < 0.01 else words + [b"x"]
        elif fault < 0.04:
            words[0] = pick(NO_COMMANDS)
        elif fault < 0.14:
            words[0] = pick([name.upper(), name.title(), name.swapcase()])
        return words

    def soon(self, key: bytes) -> Command:
        """Gives a key that is there a few milliseconds to live."""
        return [b"pexpire", key, b"%d" % self.rng.randrange(1, SOON)]

    def _argument(self, name: bytes, i: int, keys: Sequence[bytes]) -> bytes:
        pick, rng = self.rng.choice, self.rng
        if i == 1:  # strings and sets meet on the same key, but not always: sets are to grow
            half = (len(keys) + 1) // 2
            mine = keys[-half:] if name.startswith(b"z") else keys[:half]
            return pick(mine if rng.random() < 0.9 else keys)
        if name == b"set":
            return self._value()
        if name in (b"expire", b"pexpire"):
            return pick(BAD_INTS if rng.random() < 0.1 else SECONDS if name == b"expire" else MILLISECONDS)
        if (name, i) in ((b"zadd", 2), (b"zquery", 2)):
            if rng.random() < 0.3:
                return b"%d" % rng.randrange(-3, 4)
            return pick(BAD_SCORES if rng.random() < 0.06 else SCORES)
        if name == b"zquery" and i >= 4:
            return pick(BAD_INTS if rng.random() < 0.03 else OFFSETS if i == 4 else LIMITS)
        return pick(NAMES)

    def _value(self) -> bytes:
        size = self.rng.choice([0, 1, 3, 3, 10, 10, 50, 300, 3000])
        if size == 3000 and codec(self.chapter).has_values and self.rng.random() < 0.1:
            size = self.rng.choice([4096, 70000])
        piece = bytes(self.rng.getrandbits(8) for _ in range(min(size, 16)))
        return piece * max(size // 16, 1)


# ---- the test ---------------------------------------------------------------------------------


def run_model_test(
    server: Server,
    chapter: int,
    operations: int = 5000,
    connections: int = 1,
    pipelined: bool = False,
    seed: Optional[int] = None,
) -> None:
    """Plays random commands against the server and the model, and compares every reply.

    One batch of commands (one command where not pipelined) goes to each connection in turn; every
    other round all connections are busy at once, each on keys of its own, so that the outcome stays
    determined. From chapter 13 on some keys are left to expire, after a few milliseconds.
    At the end the whole key space is compared. The chapter decides the commands and the form of
    the replies; start a server of chapter 12 on with IDLE_TIMEOUT_MS=0.
    """
    _Play(server, chapter, connections, pipelined, settings.seed() if seed is None else seed).run(operations)


class _Play:
    """One run of the model test."""

    def __init__(self, server: Server, chapter: int, connections: int, pipelined: bool, seed: int) -> None:
        self.chapter, self.language, self.pipelined, self.seed = chapter, codec(chapter), pipelined, seed
        self.rng = random.Random(seed)
        model, generator = Model, Generator
        if self.language.is_resp:
            from .grammar import RespGenerator as generator  # they build on these
            from .resp_model import RespModel as model
        self.generator = generator(chapter, self.rng)
        self.model = model(chapter, slack_ms=int(settings.limit(20_000)))
        self.conns = [Conn(server, chapter) for _ in range(connections)]
        self.done = 0
        self.history: List[Tuple[int, int, Command, object]] = []

    def run(self, operations: int) -> None:
        try:
            together = False
            while self.done < operations:
                self._round(together and len(self.conns) > 1)
                together = not together
                if self.language.has_scan and self.rng.random() < 0.02:
                    self._scan(self.rng.randrange(len(self.conns)))
                if self.language.has_ttl and self.rng.random() < 0.05:
                    self._let_expire()
            self._compare_all()
        finally:
            for conn in self.conns:
                conn.close()

    def _round(self, together: bool) -> None:
        batches = []
        for i in range(len(self.conns)):
            keys = KEYS[i :: len(self.conns)] if together else KEYS
            keys = keys or [b"of %d" % i]
            count = self.rng.choice([1, 2, 5, 20, 100, 500]) if self.pipelined else 1
            batches.append([self.generator.command(keys, alone=not together) for _ in range(count)])
        if together:
            self._play(list(enumerate(batches)))
        else:
            for i, batch in enumerate(batches):
                self._play([(i, batch)])

    def _play(self, batches: Sequence[Tuple[int, List[Command]]]) -> None:
        """Sends the batches at once, then compares connection by connection."""
        jobs = [(self.conns[i], b"".join(self.conns[i].encode(c) for c in batch), len(batch)) for i, batch in batches]
        try:
            bodies = exchange(jobs)
        except AssertionError as e:
            raise self._with_context(e, None) from None
        for (i, batch), replies in zip(batches, bodies):
            for command, body in zip(batch, replies):
                self.done += 1
                self.model.client = i
                expected = self.model.do(*command)
                self.history.append((self.done, i, command, expected))
                try:
                    self.conns[i].check(body, expected, command, f"operation {self.done}: ")
                except AssertionError as e:
                    raise self._with_context(e, command) from None
        del self.history[:-5000]

    def _let_expire(self) -> None:
        """Gives some keys a few milliseconds, waits until these are over."""
        keys = self.rng.sample(KEYS, 3)
        commands = [self.generator.soon(key) for key in keys]
        last = self.model.clock() + SOON
        self._play([(0, commands)])
        last = max(last, *(self.model.deadlines.get(key, 0) for key in keys))
        while self.model.clock() <= last + 1:  # a server may go by another clock, whose milliseconds begin elsewhere
            time.sleep(0.001)

    def _scan(self, i: int) -> None:
        """A whole pass of SCAN, while nothing changes: all keys of the database, and no others."""
        conn, words, found = self.conns[i], [b"scan", b"0", b"count", b"%d" % self.rng.choice([1, 3, 10, 1000])], set()
        self.model.client = i
        self.model.do("ping")
        try:
            for _ in range(10_000):
                words[1], keys = conn.ask(*words)  # type: ignore[misc]
                found.update(keys)
                if words[1] == b"0":
                    break
            seen = conn.codec.reply(sorted(found))
            conn.check(seen, AnyOrder(list(self.model.values)), words, "all steps together: ")
        except AssertionError as e:
            raise self._with_context(e, None) from None

    def _compare_all(self) -> None:
        if self.language.has_keyspace:
            for number in range(16):
                self._play([(0, [[b"select", b"%d" % number]])])
                self._compare_one()
        else:
            self._compare_one()

    def _compare_one(self) -> None:
        commands: List[Command] = [[b"get", key] for key in KEYS]
        if self.language.has_values:
            commands.append([b"keys"] + [b"*"] * (self.language.is_resp))
        if self.language.has_sorted_sets:
            commands += [[b"zquery", key, b"-inf", b"", b"0", b"1000"] for key in KEYS]
        if self.language.has_ttl:
            commands += [[b"pttl", key] for key in KEYS]
        self._play([(0, commands)])

    def _with_context(self, error: AssertionError, command: Optional[Command]) -> Failure:
        """The failure with the commands before it, those on the same key, and the seed."""
        failure = explained(error)
        if self.history:
            failure = failure.and_also("before", "\n".join(self._before(command)))
        return failure.and_also("seed", str(self.seed))

    def _before(self, command: Optional[Command]) -> List[str]:
        rows = self.history
        if command and len(command) > 1:
            rows = [row for row in rows if len(row[2]) > 1 and row[2][1] == command[1]]
        lines = ["on that key, the latest first:" if command else "what was answered last, the latest first:"]
        for number, i, words, reply in rows[:-13:-1]:
            said = f"{wire.show_args(words)} -> {wire.show_value(reply)}"
            lines.append(f"{number:6} connection {i}: {said}")
        return lines
