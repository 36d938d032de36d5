"""Publishes and listens through redis-py, to a server of chapter 26 or later, as the README of redis-py shows it. PORT
says where. An assertion that does not hold says the rest."""
from __future__ import annotations

import os
import queue
import threading
from typing import Any, Dict, List, Optional

import redis

PORT = int(os.environ["PORT"])
SECONDS = 5 * float(os.environ.get("TEST_TIME_FACTOR", "1"))


def row(kind: str, channel: Optional[bytes], data: object, pattern: Optional[bytes] = None) -> Dict[str, object]:
    """A message as redis-py has it."""
    return {"type": kind, "pattern": pattern, "channel": channel, "data": data}


def messages(p: "redis.client.PubSub", n: int) -> List[Any]:
    """The next ones."""
    found: List[Any] = []
    while len(found) < n:
        message = p.get_message(timeout=SECONDS)
        assert message is not None, f"only {found} of {n} messages came"
        found.append(message)
    return found


def get_message(r: "redis.Redis") -> None:
    """Confirmations and messages, one by one."""
    p = r.pubsub()
    p.subscribe("my-first-channel", "my-second-channel")
    p.psubscribe("my-*")
    assert messages(p, 3) == [row("subscribe", b"my-first-channel", 1), row("subscribe", b"my-second-channel", 2),
                              row("psubscribe", b"my-*", 3)]  # fmt: skip
    assert r.publish("my-first-channel", "some data") == 2 and r.publish("other", "x") == 0
    assert messages(p, 2) == [row("message", b"my-first-channel", b"some data"),
                              row("pmessage", b"my-first-channel", b"some data", b"my-*")]  # fmt: skip
    assert sorted(r.pubsub_channels()) == [b"my-first-channel", b"my-second-channel"]
    assert r.pubsub_channels("*first*") == [b"my-first-channel"] and r.pubsub_numpat() == 1
    assert r.pubsub_numsub("my-first-channel", "none") == [(b"my-first-channel", 1), (b"none", 0)]
    p.ping("still there")
    assert messages(p, 1) == [row("pong", None, b"still there")]
    every = bytes(range(256)) * 100
    assert r.publish("my-second-channel", every) == 2 and [each["data"] for each in messages(p, 2)] == [every, every]
    p.unsubscribe()
    assert {each["type"] for each in messages(p, 2)} == {"unsubscribe"} and p.subscribed
    p.punsubscribe()
    assert messages(p, 1) == [row("punsubscribe", b"my-*", 0)] and not p.subscribed
    p.close()
    assert r.pubsub_numpat() == 0


def handlers(r: "redis.Redis") -> None:
    """Messages go to functions, confirmations to nobody."""
    heard: List[Any] = []
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe(**{"my-channel": heard.append})
    assert p.get_message(timeout=SECONDS) is None
    assert r.publish("my-channel", "awesome data") == 1
    while not heard:
        assert p.get_message(timeout=SECONDS) is None
    assert heard == [row("message", b"my-channel", b"awesome data")]
    p.close()


def listen(r: "redis.Redis") -> None:
    """A loop over all that comes; it ends when nothing is listened to any more."""
    p = r.pubsub()
    p.subscribe("news")
    n, publisher = 1000, threading.Thread(target=lambda: [r.publish("news", i) for i in range(n)])
    heard: List[object] = []
    for message in p.listen():
        if message["type"] == "subscribe":
            publisher.start()
        elif message["type"] == "message":
            heard.append(int(message["data"]))
            if len(heard) == n:
                p.unsubscribe("news")
    publisher.join()
    assert heard == list(range(n)) and r.publish("news", "late") == 0
    p.close()


def run_in_thread(r: "redis.Redis") -> None:
    """A thread of redis-py's reads, and calls a function; it is stopped by another."""
    heard: "queue.Queue[Any]" = queue.Queue()
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe(**{"my-channel": heard.put})
    p.psubscribe(**{"your-*": heard.put})
    thread = p.run_in_thread(sleep_time=0.001, daemon=True)
    while not r.pubsub_numpat():
        pass  # nobody has read the confirmations yet
    assert r.publish("my-channel", "one") == 1 and r.publish("your-channel", "two") == 1
    assert [heard.get(timeout=SECONDS)["data"] for _ in range(2)] == [b"one", b"two"]
    thread.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()


def in_a_pipeline(r: "redis.Redis") -> None:
    """PUBLISH in a transaction, and the messages of its keys."""
    p = r.pubsub()
    p.subscribe("news")
    assert messages(p, 1) == [row("subscribe", b"news", 1)]
    assert r.pipeline().set("k", "v").publish("news", "k is set").publish("none", "x").execute() == [True, 1, 0]
    assert messages(p, 1) == [row("message", b"news", b"k is set")]
    assert [each["sub"] for each in r.client_list() if "P" in each["flags"]] == ["1"]
    assert r.config_set("notify-keyspace-events", "KEA")
    p.psubscribe("__key*__:*")
    assert messages(p, 1)[0]["type"] == "psubscribe" and r.set("k", "w") and r.delete("k") == 1
    assert [(each["channel"], each["data"]) for each in messages(p, 4)] == [
        (b"__keyspace@0__:k", b"set"), (b"__keyevent@0__:set", b"k"), (b"__keyspace@0__:k", b"del"),
        (b"__keyevent@0__:del", b"k")]  # fmt: skip
    assert r.config_set("notify-keyspace-events", "")
    p.close()


if __name__ == "__main__":
    client = redis.Redis(port=PORT, health_check_interval=1)
    for what in (get_message, handlers, listen, run_in_thread, in_a_pipeline):
        what(client)
