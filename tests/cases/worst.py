"""The worst request of every command (16 and later): what one client may cost the others, row by row of the table."""
from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from functools import partial
from typing import Callable, Dict, List, Sequence, Tuple

from harness import Conn, fail, limit, resp, settings
from harness.codec import codec
from harness.grammar import GRAMMAR
from harness.model import COMMANDS

from . import case
from .replies import LIMIT, filled
from .talk import Rounds, asked, bulk, numbered, start, watched

__tracebackhide__ = settings.__tracebackhide__

PERHAPS = (
    "is the price of this request known before it is paid: its own bytes, those that it asks for, what it looks at, "
    "copies or frees? What is more than the work of a turn waits for a turn of its own, one a round for all clients"
)

ROUND_MS = 25  # of processor time, at most, or twice what one large value costs alone
ALONE_MB = 3 * LIMIT >> 20  # of memory for one client with such requests
MOST = 5  # rows that one run has of a long table
TIMES, BESIDE = 3, 6  # requests of a client in one go; clients that send theirs at once
WORDS = {
    "key": "k", "pair": "k v", "anykey": "k", "name": "m", "scored": "1 m", "value": "v", "score": "0", "offset": "0",
    "text": "hi",
    "limit": "9223372036854775807", "seconds": "100", "ms": "100000", "pattern": "*", "end": "1", "place": "0",
    "int": "1", "more": "v", "amount": "1", "db": "1", "zero": "0", "date": "4000000000", "datems": "4000000000000",
    "cursor": "0", "fraction": "0.5", "start": "33000000", "flat": "k", "lex": "-",
}  # fmt: skip  # what is short and right, for each word of a signature
SIGNATURES: Dict[str, str] = {name: words for names in GRAMMAR.values() for name, words in names.items()}
# What takes longer all by itself is named in the chapter's README: so many times as long.
NAMED: Dict[str, float] = {"keys": 3, "keys *": 3}
A_MILLION_STRINGS = 4.0

Row = Tuple[str, Callable[[], bytes], int]  # what it is, a request, how often it is sent in one go
Play = Tuple[Conn, bytes, int]  # who sends what, and how many replies come


def rows(chapter: int) -> List[Row]:
    """For each command the largest requests that the protocol lets: an argument as long as a message may be, as many
    arguments as it may have, and what asks for the most with the fewest bytes, three times in one go."""
    found: List[Row] = []
    is_resp = codec(chapter).is_resp
    table = resp.arity(chapter) if is_resp else {n: c for n, (since, c) in COMMANDS.items() if since <= chapter}
    for name, count in table.items():
        command = name.decode()
        if command in ("quit", "auth", "hello", "reset") or command.endswith("subscribe"):
            continue  # they are about the connection
        signature = [word.lstrip("+") for word in SIGNATURES.get(command, "key").split() if word[0] != "*"]
        words = [part for word in signature for part in WORDS[word].split()][: None if count < 0 else count - 1]
        if words:
            last = LIMIT - 100 - sum(map(len, words))
            found.append((f"{command} long", partial(long_one, chapter, [command, *words[:-1]], last), 1))
        if count < 0:
            unit = WORDS[signature[-1]].split() if signature and command in SIGNATURES else ["get"]
            found.append((f"{command} many", partial(many_in_one, chapter, [command, *words[: -len(unit)]], unit), 1))
    large = [("get", "big"), *(("zquery", name, "0", "", "0", WORDS["limit"]) for name in ("z", "names"))]
    large += [("keys", "*")] if is_resp else [("keys",)]
    large += [("getrange", "big", "0", "-1"), ("setrange", "grown", "33000000", "x")] if is_resp else []
    found += [(" ".join(words[:2]), partial(asked, chapter, *words), TIMES) for words in large]
    return found


def some(table: List[Row]) -> List[Row]:
    """All of them, where they are few; else other ones in each run."""
    few = [row for row in table if row[2] == 1]
    if len(few) > MOST:
        few = random.Random(settings.seed()).sample(few, MOST)
    return few + [row for row in table if row[2] > 1]


def long_one(chapter: int, words: Sequence[str], last: int) -> bytes:
    """A request whose last argument has so many bytes: of a number digits."""
    return asked(chapter, *words, b"1" * last)


def many_in_one(chapter: int, words: Sequence[str], unit: Sequence[str]) -> bytes:
    """A request with as many strings as there may be, of RESP."""
    n = (resp.MAX_ARGS - len(words)) // len(unit)
    head, one = (asked(chapter, *each).split(b"\r\n", 1)[1] for each in (words, unit))
    return b"*%d\r\n" % (len(words) + n * len(unit)) + head + one * n


def prepare(conn: Conn) -> None:
    """Values that make requests worth it: a large string, a set of many pairs and one of long names, many keys."""
    conn.ask("set", "big", filled(LIMIT - 100))
    bulk(conn, numbered(range(20_000), "zadd", "z", "1", "name:######"), 1)
    bulk(conn, numbered(range(100), "zadd", "names", "1", b"######" + filled(100_000)), 1)
    bulk(conn, numbered(range(20_000), "set", "key:######", ""), None if not conn.codec.is_resp else resp.OK)


def play(conn: Conn, data: bytes, replies: int) -> None:
    """Sends the requests while it reads the replies."""
    sender = threading.Thread(target=conn.send, args=(data,))
    sender.start()
    for _ in range(replies):
        conn.recv_body()
    sender.join()


def together(plays: Sequence[Play]) -> None:
    """Several clients, each with its requests, at once."""
    threads = [threading.Thread(target=play, args=each) for each in plays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@case(since=16, inside=True, time_limit=120)
def the_worst_request_of_every_command(chapter: int) -> None:
    """For each command of the table the largest request that there is, from one client and from several at once.

    No round of the loop takes longer than a single large value does, so others wait no longer; memory stays bounded.
    """
    if watched():
        return  # another measure of time
    rounds = Rounds()
    with start(chapter, env=rounds.env) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(seconds=20)) for _ in range(BESIDE)]
        prepare(conns[0])
        def longest_ms(plays: Sequence[Play]) -> float:
            rounds.reset()
            together(plays)
            return rounds.longest_ms()

        def holds(what: str, plays: Sequence[Play], named: float = 1.0) -> None:
            tries, before_kb = [], server.rss_kb()
            server.reset_peak()
            while len(tries) < 3:  # other programs only make it longer
                tries.append(longest_ms(plays))
                if tries[-1] <= bound_ms * named:
                    break
            else:
                fail(f"{what}: a round of the loop took {min(tries):.0f} ms of processor time",
                     expected=f"at most {bound_ms * named:.0f} ms, as others wait for it")  # fmt: skip
            grown, room = (server.peak_kb() - before_kb) >> 10, ALONE_MB * len(plays)
            if grown > room:
                fail(f"{what}: the server's memory has grown by {grown} MiB", expected=f"at most {room} MiB")

        get = asked(chapter, "get", "big")
        alone_ms = max(longest_ms([(conns[0], get, 1)]) for _ in range(3))
        bound_ms = limit(max(ROUND_MS, 2 * alone_ms))
        table = [(what, make(), times) for what, make, times in some(rows(chapter))]
        for what, data, times in table:
            named = A_MILLION_STRINGS if what.endswith(" many") else NAMED.get(what, 1.0)
            holds(what, [(conns[0], data * times, times)], named)
        long_ones = [data for what, data, times in table if what.endswith(" long")]
        for i in range(0, len(long_ones), BESIDE):
            plays = [(conn, data, 1) for conn, data in zip(conns, long_ones[i:])]
            holds(f"{len(plays)} clients with long requests", plays)
        for what, data, times in table:
            if times > 1:
                holds(f"{BESIDE} clients with {what}", [(conn, data, 1) for conn in conns], NAMED.get(what, 1.0))
