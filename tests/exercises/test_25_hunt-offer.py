"""25-hunt-offer: exec looks at each key that is watched, since any of them may have expired unnoticed."""
from __future__ import annotations

import time
from typing import Sequence

from grading import Submission, points
from harness import Conn, Server
from harness.resp import OK, Simple


def watched(conn: Conn, keys: Sequence[str]) -> None:
    """Sets an offer of 5 ms and watches it among others, all in one turn; waits until it is over."""
    conn.pipeline([("set", "offer", "open", "px", "5"), ("watch", *keys), ("multi",), ("echo", "sold")],
                  [OK, OK, OK, Simple(b"QUEUED")])  # fmt: skip
    time.sleep(0.008)


@points(4, "after the end")
def test_offer(work: Submission) -> None:
    """An offer of 5 ms is watched with other keys, that are there or not, in each order; exec comes after 8 ms. Ten
    times each, beside 20,000 keys with a long time to live, since the cycle may have deleted the offer meanwhile."""
    orders = (("offer",), ("stock", "offer"), ("offer", "stock"), ("none", "offer"), ("offer", "none"))
    with Server(25) as server, server.connect() as conn:
        conn.ask("mset", "stock", "7", "other", "1")
        conn.pipeline([("set", f"key:{i}", "v", "ex", "100000") for i in range(20_000)], [OK] * 20_000)
        for keys in orders:
            for _ in range(10):
                watched(conn, keys)
                got = conn.ask("exec")
                work.expect(
                    got is None, came=f"watch {' '.join(keys)}, and the offer has expired: the transaction was done",
                    expected="nil: one of the keys is gone", cause="at which of the keys does exec look?",
                )  # fmt: skip


@points(2, "unchanged")
def test_unchanged(work: Submission) -> None:
    """Keys that are not there, that were stale when the watch began, and that nobody has changed."""
    with Server(25) as server, server.connect() as conn:
        conn.ask("mset", "stock", "7", "other", "1")
        conn.ask("set", "stale", "v", "pxat", "1")
        for keys in (("stock", "other"), ("none",), ("none", "stock"), ("stale", "stock"), ("stock", "none", "none2")):
            conn.ask("watch", *keys)
            conn.ask("multi")
            conn.ask("echo", "sold")
            got = conn.ask("exec")
            work.expect(
                got == [b"sold"], came=f"watch {' '.join(keys)}, and none has changed: exec answers nil",
                expected="the transaction is done", cause="what has changed about a key that was not there before?",
            )  # fmt: skip


@points(2, "changed by another")
def test_changed(work: Submission) -> None:
    """Another client changes one of three watched keys: sets it, deletes it, gives it a time to live."""
    with Server(25) as server, server.connect() as conn, server.connect() as other:
        for line in ("set b 2", "del b", "expire b 100", "append b x", "rename b d", "flushdb"):
            conn.ask("mset", "a", "1", "b", "1", "c", "1")
            conn.ask("watch", "a", "b", "c")
            other.ask(*line.split())
            conn.ask("multi")
            conn.ask("echo", "sold")
            got = conn.ask("exec")
            work.expect(
                got is None, came=f"another client said {line}: the transaction was done", expected="nil",
            )  # fmt: skip
