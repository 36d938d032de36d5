"""Random commands of 20 and later, with their options: GRAMMAR says what stands behind each name. The model of our
tests answers them (run_model_test), and Redis itself (cases/beside_redis.py)."""
from __future__ import annotations

import random
import time
from typing import Dict, List, Sequence, Union

from . import redis, resp
from .codec import codec
from .model import (
    BAD_INTS, BAD_SCORES, KEYS, LIMITS, NAMES, NO_COMMANDS, OFFSETS, SCORES, SOON, Command, Generator,
)  # fmt: skip

Words = Sequence[Union[bytes, str]]  # a str may be several words

# by the chapter that brings it. A word is drawn from VOCABULARY; *word stands for none of these most of the time, or
# for a few, +word for one to three.
GRAMMAR: Dict[int, Dict[str, str]] = {
    20: {
        "get": "key", "set": "key value", "del": "key", "keys": "all", "ping": "*text", "echo": "key",
        "select": "zero", "persist": "key", "ttl": "key", "pttl": "key", "expire": "key seconds", "pexpire": "key ms",
        "zscore": "key name", "zrem": "key name", "zadd": "key scored", "zquery": "key score name offset limit",
    },
    21: {
        "set": "key value *set", "del": "+key", "unlink": "+key", "exists": "+key", "mget": "+key", "mset": "+pair",
        "incr": "key", "decr": "key", "incrby": "key int", "decrby": "key int", "append": "key more", "strlen": "key",
        "type": "key", "keys": "pattern", "dbsize": "", "flushdb": "*how", "flushall": "*how",
        "expire": "key seconds *expire", "pexpire": "key ms *expire", "zcard": "key", "zrank": "key name",
        "zrevrank": "key name", "zrem": "key +name", "zadd": "key *zadd +scored", "zincrby": "key amount name",
        "zcount": "key end end", "zrange": "key place place *zrange", "zrangebyscore": "key end end *byscore",
        "msetnx": "+pair", "incrbyfloat": "key fraction", "getrange": "key place place", "setrange": "key start more",
        "zmscore": "key +name", "zrevrange": "key place place *zrevrange", "zrevrangebyscore": "key end end *byscore",
        "zremrangebyrank": "key place place", "zremrangebyscore": "key end end", "zpopmin": "key *count",
        "zpopmax": "key *count", "zlexcount": "flat lex lex", "zrangebylex": "flat lex lex *bylex",
        "zrevrangebylex": "flat lex lex *bylex", "zremrangebylex": "flat lex lex",
    },
    22: {
        "select": "db", "move": "key db", "swapdb": "db db", "rename": "anykey anykey", "renamenx": "anykey anykey",
        "copy": "anykey anykey *copy", "touch": "+key", "setnx": "key value", "set": "key value *set *dates",
        "getset": "key value", "getdel": "key", "getex": "key *getex",
        "setex": "key seconds value", "psetex": "key ms value", "expireat": "anykey date *expireat",
        "pexpireat": "anykey datems *expireat", "expiretime": "anykey", "pexpiretime": "anykey",
    },
    23: {"randomkey": "", "scan": "cursor *scan", "zscan": "key cursor *zscan"},
    25: {"multi": "", "exec": "", "discard": "", "watch": "+anykey", "unwatch": ""},
    26: {"publish": "key text"},
}  # fmt: skip
TRANSACTIONS = GRAMMAR[25]  # cases/transactions.py draws them, where it knows who is in one
OFTEN = {"zadd": 16, "set": 6, "get": 4, "expireat": 3, "pexpireat": 3, "zquery": 3, "zrem": 3, "copy": 2, "move": 2,
         "rename": 2, "pexpiretime": 2}  # fmt: skip
RARELY = {"flushdb": 0.05, "flushall": 0.05, "swapdb": 0.3}
OF_ALL_KEYS = ("keys", "dbsize", "flushdb", "flushall", "swapdb", "randomkey", "scan")

# Times are so far away that nothing expires during a test, or over; and so far from each other that it is known which
# of a date and of a time from now on is the later one.
INTS = ["0", "1", "-1", "41", "9223372036854775807", "-9223372036854775808", "9223372036854775000"]
LATER = ["4000000000", "9000000000", "50000000000"]  # seconds
VOCABULARY: Dict[str, Words] = {
    "name": NAMES, "score": SCORES, "amount": SCORES, "offset": OFFSETS, "limit": LIMITS,
    "place": [*OFFSETS, *SCORES[:6]], "end": [*SCORES, "(1", "(2", "(-1", "(0.1", "(inf", "-inf", "+inf"],
    "int": INTS, "value": INTS,
    "more": ["", "1", "x", "\0", "-"],
    "all": ["*"],
    "pattern": ["*", "*", "k*", "?", "*:*", "[a-z]", "list:[12]", "none", "", "k?y", "?*"],
    "lex": ["-", "+", "-", "+", "[", "(", "[a", "(a", "[aa", "(b", "[name", "(n", b"[\xff", b"(a\0", "[2"],
    "bylex": ["limit 0 2", "limit 1 -1", "LIMIT 1 1", "limit -1 1"],
    "fraction": ["0.5", "-1.25", "0.1", "-0.1", "3", "1e3", "1.5e-3", "1e17", "-1e20", "inf", "0x1.8p1", "+5", "."],
    "start": ["0", "1", "2", "5", "30", "-1", "9223372036854775807"],
    "count": ["0", "1", "2", "3", "100"],
    "text": ["hi", "\r\n"],
    "how": ["async", "SYNC", "now"],
    "zero": ["0", "0", "x", "-1", ""],
    "db": ["0", "0", "1", "1", "2", "3", "15", "16"],
    "seconds": ["1000", "100000", "2000000000", "0", "-1", "9223372036854776", "9223370399119966"],
    "ms": ["1000000", "100000000", "4294967296", "0", "-1", "9223372036854775807", "-9223372036854775808"],
    "date": [*LATER, "9223372036854775", "1", "0", "-1", "9223372036854776"],
    "datems": ["4000000000499", "4000000000500", "9000000000000", "9223372036854775807", "1", "0", "-5"],
    "expire": ["nx", "xx", "NX"],
    "expireat": ["nx", "xx", "gt", "lt", "GT"],
    "set": ["nx", "xx", "get", "keepttl", "KeepTTL", "GET", "ex 1000", "px 100000", "EX 0", "px -1"],
    "dates": ["exat 4000000000", "pxat 4000000000500", "EXAT 9000000000", "pxat 0", "exat -1", "pxat 1"],
    "getex": ["persist", "PERSIST", "ex 1000", "px 100000", "exat 4000000000", "PXAT 4000000000500", "exat 1", "ex 0"],
    "zadd": ["nx", "xx", "gt", "lt", "ch", "incr", "CH"],
    "zrange": ["withscores", "byscore", "rev", "limit 0 2", "limit 1 -1", "REV"],
    "zrevrange": ["withscores", "WITHSCORES", "limit 0 -1"],
    "byscore": ["withscores", "limit 0 2", "limit 1 1", "limit -1 1", "WithScores"],
    "copy": ["replace", "db 1", "DB 0", "db 2", "db 16"],
    "cursor": ["0", "0", "0", "17"],
    "zscan": ["count 5", "match a*", "MATCH *", "count 1000"],
    "scan": ["count 5", "count 1", "match k*", "type string", "type zset"],
}  # fmt: skip
BAD: Dict[str, Words] = {
    **dict.fromkeys(("int", "seconds", "ms", "date", "datems", "offset", "limit", "place"), BAD_INTS),
    "score": BAD_SCORES, "amount": ["nx", "CH", "x"], "end": ["x", "nan", "(x", "1x"],
    "db": ["-1", "x", "", "1.5", "2147483648", "99999999999999999999", "01"],
    "cursor": ["x", "-1x", "99999999999999999999"],
    "lex": ["a", "", "x", "+x"], "bylex": ["nonsense", "withscores", "rev", "limit 1"], "start": BAD_INTS,
    "fraction": ["", "x", b" 1", b"1 ", "nan", "1x", "1e5000"], "count": ["-1", "x", "1 2"],
    "zrevrange": ["rev", "byscore", "limit 0 1"], "zscan": ["type zset", "count 0", "match", "novalues"],
    "expire": ["nonsense", "ch", ""], "expireat": ["nonsense", "ch", ""], "zadd": ["nonsense"],
    "copy": ["nonsense", "db"],
    "set": ["nonsense", "ex", "persist", "ex x", "ex 9223370399119966"], "dates": ["exat x", "exat"],
    "getex": ["keepttl", "nx", "ex", "ex x", "pxat -1"], "zrange": ["nonsense", "limit x 1", "limit 1"],
    "byscore": ["nonsense", "rev", "limit 1 x"], "scan": ["nonsense 1", "match", "count 0", "count x"],
}  # fmt: skip


def flat(keys: Sequence[bytes]) -> bytes:
    """The key of a set of theirs in which all scores are 0: only of such a one Redis says what BYLEX finds."""
    return b"flat:" + keys[0]


class RespGenerator(Generator):
    """Random commands over a few keys that collide often; rng decides everything."""

    def __init__(self, chapter: int, rng: random.Random) -> None:
        self.chapter, self.rng = chapter, rng
        self.grammar: Dict[str, str] = {}
        for rows in (GRAMMAR[since] for since in GRAMMAR if since <= chapter):
            self.grammar.update(rows)
        self.names = [name for name in self.grammar if name not in TRANSACTIONS for _ in range(OFTEN.get(name, 1))]

    def command(self, keys: Sequence[bytes] = tuple(KEYS), alone: bool = True) -> Command:
        """The next command, on some of keys; alone=False: none that looks at other keys."""
        pick, rng = self.rng.choice, self.rng
        name = pick(self.names)
        if rng.random() > RARELY.get(name, 1) or not alone and name in OF_ALL_KEYS:
            name = "get"
        if "flat" in self.grammar[name] and rng.random() < 0.5:
            return [b"zadd", flat(keys), b"0", pick(NAMES), b"0", pick(NAMES)]
        words = [name.encode(), *(word for part in self.grammar[name].split() for word in self.some(name, part, keys))]
        fault = rng.random()
        if fault < 0.03:
            fewer = fault < 0.02 and len(words) > 1 and name != "keys"  # of none, the codec would make `keys *`
            takes_more = resp.arity(self.chapter)[words[0]] == resp.EVERY[words[0]]  # as many as Redis
            words = words[:-1] if fewer else [*words, b"x"] if takes_more else words
        elif fault < 0.045:
            words[0] = pick(list(filter(redis.tells_apart, [*NO_COMMANDS, b"g\r\nt"])))
        elif fault < 0.14:
            words[0] = pick([words[0].upper(), words[0].title(), words[0].swapcase()])
        return words

    def some(self, name: str, part: str, keys: Sequence[bytes]) -> List[bytes]:
        """The words that a part of a row stands for."""
        kind, words = part.lstrip("*+"), []
        count = self.rng.choice([1, 1, 2, 3]) if part[0] == "+" else 1
        while self.rng.random() < 0.35 if part[0] == "*" else count:
            words += self.word(name, kind, keys)
            count -= 1
        return words

    def word(self, name: str, kind: str, keys: Sequence[bytes]) -> List[bytes]:
        """One of a kind, with those that belong to it."""
        pick, rng = self.rng.choice, self.rng
        if kind == "pair":
            return [*self.word(name, "key", keys), *self.word(name, "value", keys)]
        if kind == "scored":
            return [*self.word(name, "score", keys), *self.word(name, "name", keys)]
        if kind == "key":  # strings and sets meet on the same key, but not always: sets are to grow
            half = (len(keys) + 1) // 2
            return [pick(keys if rng.random() < 0.1 else keys[-half:] if name[0] == "z" else keys[:half])]
        if kind == "flat":
            return [flat(keys)]
        if kind == "anykey":
            return [pick(keys)]
        if kind == "value" and rng.random() < 0.7:
            return [self._value()]
        if kind in ("score", "amount", "end") and rng.random() < 0.3:
            return [b"%d" % rng.randrange(-3, 4)]
        word = pick(BAD[kind] if kind in BAD and rng.random() < 0.05 else VOCABULARY[kind])
        return [word] if isinstance(word, bytes) else word.encode("latin-1").split(b" ")

    def soon(self, key: bytes) -> Command:
        """Gives a key that is there a few milliseconds to live."""
        if not codec(self.chapter).has_keyspace or self.rng.random() < 0.5:
            return super().soon(key)
        return [b"pexpireat", key, b"%d" % (time.time_ns() // 1_000_000 + self.rng.randrange(1, SOON))]
