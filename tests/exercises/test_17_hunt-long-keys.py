"""17-hunt-long-keys: what was remembered of one request is not taken for another, and no key is hashed twice."""
from __future__ import annotations

import itertools

from grading import Submission, points
from harness import Server

LONG = 2000
COUNTED = """\
@@ hash.h, str_hash()
 static inline uint32_t str_hash(const struct hash_key *key, const uint8_t *data, size_t len) {
+    static const char *volatile text = "";
+    static volatile int sink;
+    sink = __builtin_strcmp(text, text);
"""


@points(3, "long and short keys")
def test_long_and_short(work: Submission) -> None:
    """One client sets and gets long keys and short ones, each command after the reply to the one before."""
    keys = [b"s", b"short", b"x" * 1024, b"x" * 1025, b"x" * LONG, b"y" * LONG]
    with Server(17) as server, server.connect() as conn:
        for first, second in itertools.permutations(keys, 2):
            conn.ask("set", first, b"first", expect=None)
            conn.ask("set", second, b"the second value", expect=None)
            conn.ask("get", first, expect=b"first")
            conn.ask("get", second, expect=b"the second value")
            conn.ask("del", first, expect=1)
            conn.ask("get", second, expect=b"the second value")
            conn.ask("del", first, expect=0)
            conn.ask("del", second, expect=1)
        conn.ask("keys", expect=[])


@points(2, "batches")
def test_batches(work: Submission) -> None:
    """The chapter's tests of requests that come together."""
    work.chapter_tests("each_command_behind_each or keys_of_every_length or together_as_one_by_one")


@points(3, "hashed once, and not too early")
def test_hashed_once(work: Submission) -> None:
    """Counts how often a key is hashed: for a thousand short keys, and for long ones that wait behind a request which
    takes long, round after round."""
    built = work.variant(COUNTED)
    n = 1000
    with work.count("strcmp") as counted, built.server() as server, server.connect() as conn:
        conn.pipeline([("get", f"key{i}") for i in range(n)], [None] * n)
    work.expect(
        counted["strcmp"] <= n + n // 10,
        came=f"for {n} requests, keys were hashed {counted['strcmp']} times",
        expected="each key once",
        cause="is what parse_next() has hashed still used?",
    )
    pairs = 4000  # their reply is more than the work of a turn
    with work.count("strcmp") as counted, built.server() as server, server.connect() as conn:
        conn.pipeline([("zadd", "large", f"{i}", f"n{i}") for i in range(pairs)], [1] * pairs)
        counted.reset()
        slow = ("zquery", "large", "0", "", "0", "1000000")
        found = [part for i in range(pairs) for part in (f"n{i}".encode(), float(i))]
        requests = [slow] * 10 + [("get", b"x" * LONG)] * 10
        conn.pipeline(requests, [found] * 10 + [None] * 10)
        came = counted.now()["strcmp"]
    work.expect(
        came <= 150,
        came=f"for 10 requests that take long and 10 with long keys behind them, keys were hashed {came} times",
        expected="150 times at most: a long key is hashed when its request has its turn, not in advance",
        cause="10 turns end with a request that takes long; what was parsed behind it is parsed again in the next one",
    )
