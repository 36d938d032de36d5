"""Time to live (13 and later): expire, pexpire, ttl, pttl, persist, and keys that are past their time.

A key must be seen up to its deadline and by no command afterwards, whether or not the server's timer has
got round to it. Deadlines here are far away, or known to be over: a key that is sent a TTL of n ms
between the times a and b lives until a + n at least, and is gone at b + n + 2.
"""
from __future__ import annotations

import time

from harness import Between, Err, limit, settings, wire
from harness.codec import codec
from harness.model import INT64_MAX

from . import case
from .idle import now_ms
from .talk import start

__tracebackhide__ = settings.__tracebackhide__

GONE = 2  # ms after a deadline, when the whole milliseconds of any clock have passed it
FAR = 10**9  # ms: twelve days


def until(ms: float) -> None:
    """Lets the time come."""
    while now_ms() < ms:
        time.sleep(max(0.0002, (ms - now_ms()) / 1000))


def about(ms: int) -> Between:
    """What `pttl` may answer some time after it was set to that."""
    return Between(ms - int(limit(20_000)), ms)


@case(since=20)
def deadlines_too_late_for_a_time_of_day(chapter: int) -> None:
    """Redis's deadlines are times of day, so what is refused is more than 2^63 ms less the years since 1970."""
    now = int(time.time() * 1000)
    least, most = INT64_MAX - now + 10_000, INT64_MAX - now - 1_000_000  # what is refused, and what is not
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        conn.ask("pexpire", "k", str(FAR), expect=1)
        for ms in (least, least + 10**11, INT64_MAX):
            for command, amount in (("pexpire", ms), ("expire", ms // 1000)):
                for key in ("k", "none"):
                    late = Err(wire.ERR_ARG, f"ERR invalid expire time in '{command}' command")
                    conn.ask(command, key, str(amount), expect=late)
            for unit, amount in (("px", ms), ("EX", ms // 1000)) if codec(chapter).has_options else ():
                late = Err(wire.ERR_ARG, "ERR invalid expire time in 'set' command")
                conn.ask("set", "k", "other", unit, str(amount), expect=late)
        conn.pipeline([["get", "k"], ["pttl", "k"], ["get", "none"]], [b"v", about(FAR), None])
        sets = [["set", "k", "v", "PX", str(most)]] * codec(chapter).has_options
        for words in (["pexpire", "k", str(most)], *sets):
            conn.ask(*words)
            conn.ask("pttl", "k", expect=about(most))
