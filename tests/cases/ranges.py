"""What commands for ranges cost the others (21 and later): parts of large strings, pairs that are taken out of sets."""
from __future__ import annotations

from typing import List, Tuple

from harness import Conn, fail, limit, resp, settings
from harness.resp import OK, Score
from harness.wire import Arg

from . import SHARES, case
from .replies import LIMIT, filled
from .talk import Rounds, asked, paused, start, watched

__tracebackhide__ = settings.__tracebackhide__
PERHAPS = SHARES

MANY = 100_000  # pairs


def a_set(conn: Conn, key: str, n: int, score: str = "1") -> None:
    """Pairs whose names have their numbers."""
    pairs = (b"$1\r\n%s\r\n$11\r\nname:%06d\r\n" % (score.encode(), i) for i in range(n))
    data = b"*%d\r\n$4\r\nzadd\r\n$%d\r\n%s\r\n" % (2 * n + 2, len(key), key.encode()) + b"".join(pairs)
    conn.send(data, [len(data)])
    conn.recv()


@case(since=21, ours="Redis answers all that it has read from one client before it looks at the next")
def they_wait_for_turns_of_their_own(chapter: int) -> None:
    """What takes long is known before it is done: bytes that come into a value, or go out of it; pairs that go. What
    another client has sent comes in between."""
    slow: List[Tuple[Arg, ...]] = [
        ("setrange", "#", 200_000, "x"), ("getrange", "big", 1, 200_000), ("zremrangebyrank", "#", 0, 999),
        ("zremrangebyscore", "#", 1, 1), ("zpopmin", "#", 999),
    ]  # fmt: skip
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for words in slow:
            conn.ask("flushall", expect=OK)
            conn.ask("set", "big", filled(300_000), expect=OK)
            for i in range(3):
                if str(words[0]).startswith("z"):
                    a_set(conn, f"#{i}", 2000)
                    a_set(conn, f"#{i}", 1200, "2")
            other.ask("get", "mark", expect=resp.NIL)
            requests = [[f"#{i}" if word == "#" else word for word in words] for i in range(3)]
            with paused(server):
                conn.send(b"".join(asked(chapter, *each) for each in [*requests, ["get", "mark"]]))
                other.send(asked(chapter, "set", "mark", "v"))
            for _ in range(3):
                conn.recv()
            conn.recv(b"v")
            other.recv(OK)


@case(since=21, inside=True, time_limit=60,
      perhaps="where more pairs go than stay, copy those that stay: the old set dies as a whole, and a worker frees it")
def very_many_pairs_go_at_once(chapter: int) -> None:
    """All of them, or all but a few, which stay, and so does the TTL: others wait no longer than for a large value."""
    if watched():
        return
    rounds = Rounds()
    with start(chapter, env=rounds.env) as server, server.connect() as conn:
        for words, left in (("zremrangebyrank z 0 -1", 0), ("zremrangebyrank z 100 -101", 200),
                            ("zremrangebyscore z (0 +inf", 0)):  # fmt: skip
            tries: List[float] = []
            while not tries or tries[-1] > limit(25) and len(tries) < 3:
                a_set(conn, "z", MANY)
                conn.ask("expire", "z", 1000, expect=1)
                rounds.reset()
                conn.ask(*words.split(), expect=MANY - left)
                tries.append(rounds.longest_ms())
                conn.ask("zcard", "z", expect=left)
                ttl = conn.ask("ttl", "z")
                if ttl not in ((999, 1000) if left else (-2,)):
                    fail(f"{words} leaves {left} pairs, and a TTL of {ttl} seconds")
                if left == 200:
                    ends = [f"name:{i:06}".encode() for i in (0, 99, MANY - 100, MANY - 1)]
                    conn.ask("zmscore", "z", *ends, "name:000100", expect=[Score(1)] * 4 + [None])
                conn.ask("del", "z")
            if tries[-1] > limit(25):
                fail(f"{words}: a round of the loop took {min(tries):.0f} ms of processor time",
                     expected=f"at most {limit(25):.0f} ms, as others wait for it")  # fmt: skip


@case(since=21, ours="Redis has no such limit", time_limit=40)
def pairs_stay_where_the_reply_is_too_big(chapter: int) -> None:
    """`zpopmax` of more than a reply may have is an error, and nothing has changed."""
    with start(chapter) as server, server.connect() as conn:
        for i in range(9):
            conn.ask("zadd", "z", i, filled(4 << 20, i), expect=1)
        conn.ask("zpopmax", "z", 9, expect=resp.error(resp.TOO_BIG))
        conn.ask("zpopmin", "z", 100, expect=resp.error(resp.TOO_BIG))
        conn.ask("zcard", "z", expect=9)
        conn.ask("zpopmax", "z", expect=[filled(4 << 20, 8), Score(8)])
        conn.ask("zcard", "z", expect=8)


@case(since=21, ours="Redis's strings have up to 512 MiB")
def a_value_grows_to_its_limit(chapter: int) -> None:
    """With zeros, by a byte far behind its end; not beyond the limit, and nothing is made then."""
    too_big = resp.error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    with start(chapter) as server, server.connect() as conn:
        conn.ask("setrange", "none", 536870911, "x", expect=too_big)
        conn.ask("setrange", "none", LIMIT, "x", expect=too_big)
        conn.ask("exists", "none", expect=0)
        conn.ask("set", "k", "ab", expect=OK)
        conn.ask("setrange", "k", LIMIT - 1, "x", expect=LIMIT)
        conn.ask("setrange", "k", 1, "AB", expect=LIMIT)
        conn.ask("getrange", "k", 0, 4, expect=b"aAB\0\0")
        conn.ask("getrange", "k", -3, -1, expect=b"\0\0x")
        conn.ask("setrange", "k", LIMIT, "x", expect=too_big)
        conn.ask("strlen", "k", expect=LIMIT)
