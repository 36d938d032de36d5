"""08-flood: keys that turn the table of a server with FNV-1a into a list, and are harmless where the hash has a key."""
from __future__ import annotations

from typing import List

from grading import Submission, points
from harness import Status

DONE = Status(0, b"")

# Every entry that a lookup passes shows as a call of strcmp(), which is counted.
COUNTING = """\
@@ hashtable.h, after h_insert()
+// Has each step be counted.
+static inline bool one_step(void) {
+    static const char *volatile text = "";
+    return __builtin_strcmp(text, text) == 0;
+}

@@ hashtable.h, h_lookup()
-        if (cur->hcode == key->hcode && cur->key_len == key->key_len && eq(cur, key)) {
+        if (one_step() && cur->hcode == key->hcode && cur->key_len == key->key_len && eq(cur, key)) {
"""


def keys_of(work: Submission, n: int) -> List[bytes]:
    """What attack.py prints, looked at."""
    tried = f"python3 attack.py {n}"
    out = work.run_ok(["python3", work.path / "attack.py", str(n)], seconds=10).out
    keys = [line.encode("utf-8", "surrogateescape") for line in out.split("\n")]
    keys = keys[:-1] if keys[-1] == b"" else keys
    work.expect(len(keys) == n, tried=tried, came=f"{len(keys)} lines", expected=f"{n} lines, each a key")
    work.expect(
        len(set(keys)) == n, tried=tried, came=f"only {len(set(keys))} of the {n} keys are different",
        expected="all are: a key that is there already makes no chain longer",
    )
    longest = max(keys, key=len)
    work.expect(len(longest) <= 200, tried=tried, came=f"a key of {len(longest)} bytes", expected="200 bytes at most")
    work.expect(b"" not in keys, tried=tried, came="an empty line", expected="keys of at least one byte")
    return keys


def steps(work: Submission, keys: List[bytes], weak: bool) -> float:
    """Sets all keys, gets all; returns how many entries a lookup passes on average."""
    files = {"hash.h": work.starter("hash.h")} if weak else {}
    build = work.stage(8, COUNTING, files=files)
    n = len(keys)
    with work.count("strcmp") as counted, build.server() as server, server.connect(seconds=20) as conn:
        conn.pipeline([("set", key, b"%d" % i) for i, key in enumerate(keys)], [DONE] * n)
        counted.reset()
        conn.pipeline([("get", key) for key in keys], [Status(0, b"%d" % i) for i in range(n)])
        return counted["strcmp"] / n


def expect_slow(work: Submission, n: int) -> List[bytes]:
    """The keys must be bad for the weak server."""
    keys = keys_of(work, n)
    passed = steps(work, keys, weak=True)
    work.expect(
        passed >= n / 4, tried=f"the {n} keys, set in a server with FNV-1a, and then one get of each",
        came=f"a lookup passed {passed:.1f} entries on average",
        expected=f"{n // 4} at least; all in one bucket would be {n // 2}",
        cause=("they meet, but in several buckets: how many are there at this number of keys?" if passed > n / 100
               else "is it the same function, and the bits that the table looks at?"),
    )  # fmt: skip
    return keys


@points(1, "different keys")
def test_keys(work: Submission) -> None:
    """attack.py prints as many keys as it is asked for, all different."""
    for n in (1, 500):
        keys_of(work, n)


@points(3, "five hundred keys")
def test_five_hundred(work: Submission) -> None:
    """500 keys are set in a server with FNV-1a, and asked for: how many entries do these lookups pass?"""
    expect_slow(work, 500)


@points(3, "two thousand keys")
def test_two_thousand(work: Submission) -> None:
    """2000 keys are set in a server with FNV-1a, and asked for."""
    expect_slow(work, 2000)


@points(2, "harmless where the hash has a key")
def test_keyed(work: Submission) -> None:
    """500 keys that are bad for FNV-1a, in the server of the chapter: its hash has a key that nobody knows."""
    keys = expect_slow(work, 500)
    passed = steps(work, keys, weak=False)
    work.expect(
        passed <= 5, came=f"a lookup passed {passed:.1f} entries on average in the server of the chapter",
        expected="5 at most: these keys are spread as any others are",
    )
