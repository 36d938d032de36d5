"""Asks a server of chapter 22 or later about keys through redis-py: databases, times to live, other names, and SCAN if
it has that. PORT says where. An assertion that does not hold says the rest."""
from __future__ import annotations

import datetime
import os
import time

import redis

PORT = int(os.environ["PORT"])


def databases(r: "redis.Redis") -> None:
    two, five = (redis.Redis(port=PORT, db=db) for db in (2, 5))
    assert two.set("k", "two") and five.set("k", "five") and r.get("k") is None
    assert (two.get("k"), five.get("k"), two.dbsize()) == (b"two", b"five", 1)
    assert two.move("k", 5) is False and two.set("m", "v", ex=100) and two.move("m", 5) is True
    assert five.ttl("m") > 90 and not two.exists("m") and r.swapdb(2, 5) and two.get("k") == b"five"
    assert [r.info("keyspace")[f"db{db}"]["keys"] for db in (2, 5)] == [2, 1]
    assert sorted(row["db"] for row in r.client_list()) == ["0", "2", "5"]
    assert two.flushdb() and (two.dbsize(), five.dbsize()) == (0, 1)
    assert r.flushall(asynchronous=True) and five.keys() == []
    try:
        redis.Redis(port=PORT, db=16).ping()
    except redis.ResponseError as e:
        assert "DB index is out of range" in str(e), e
    else:
        raise AssertionError("database 16")


def times(r: "redis.Redis") -> None:
    hour, when = datetime.timedelta(hours=1), datetime.datetime.now() + datetime.timedelta(days=1)
    assert r.set("k", "v", ex=hour) and 3500 < r.ttl("k") <= 3600
    assert r.set("k", "w", keepttl=True) and r.ttl("k") > 3500
    assert r.set("k", "x", get=True) == b"w" and r.ttl("k") == -1 and r.set("k", "y", nx=True) is None
    assert r.set("k", "v", xx=True, px=hour) and r.pttl("k") > 3_500_000 and r.set("none", "v", xx=True) is None
    assert r.set("k", "v", exat=int(when.timestamp())) and r.expiretime("k") == int(when.timestamp())
    assert r.expireat("k", when) and r.pexpiretime("k") == int(when.timestamp()) * 1000 and r.expiretime("none") == -2
    assert not r.expire("k", 100, nx=True) and not r.expire("k", 100, gt=True) and r.expire("k", 100, lt=True, xx=True)
    assert r.getex("k", persist=True) == b"v" and r.ttl("k") == -1 and r.getex("k", ex=50) == b"v" and r.ttl("k") > 40
    assert r.setex("k", 100, "v") and r.psetex("k", 100_000, "w") and r.persist("k") and r.getdel("k") == b"w"
    assert r.setnx("k", "v") is True and r.setnx("k", "w") is False and r.getset("k", "new") == b"v"
    assert r.pexpire("k", 1) and r.expire("none", 1) is False
    while r.exists("k"):
        time.sleep(0.001)
    assert r.get("k") is None and r.info("stats")["expired_keys"] >= 1 and r.expireat("z", 1) is False


def names(r: "redis.Redis") -> None:
    assert r.set("a", "v", ex=100) and r.rename("a", "b") and r.ttl("b") > 90 and r.set("c", "v")
    assert r.renamenx("b", "c") is False and r.copy("b", "c") is False and r.copy("b", "c", replace=True) is True
    assert r.ttl("c") > 90 and r.copy("b", "b", destination_db="3")
    assert r.touch("b", "c", "none") == 2 and r.object("encoding", "b") == b"embstr" and r.object("refcount", "b") == 1
    assert r.object("encoding", "none") is None and r.object("idletime", "b") in (0, 1) and r.flushdb()
    try:
        r.rename("none", "b")
    except redis.ResponseError as e:
        assert "no such key" in str(e), e
    else:
        raise AssertionError("rename")


def walks(r: "redis.Redis") -> None:
    if "scan" not in r.command():
        return
    assert r.randomkey() is None and r.set("k", "v") and r.randomkey() == b"k" and r.delete("k")
    pipe = r.pipeline(transaction=False)
    for i in range(3000):
        pipe.set(f"key:{i}", i)
    pipe.zadd("zset", {"a": 1}).set("brief", "v", pxat=1).execute()
    assert set(r.scan_iter()) == {b"zset", *(b"key:%d" % i for i in range(3000))}
    assert set(r.scan_iter(match="key:*7", count=100)) == {b"key:%d" % i for i in range(3000) if i % 10 == 7}
    assert list(r.scan_iter(_type="zset", count=1000)) == [b"zset"]
    cursor, found = r.scan(count=10)
    assert isinstance(cursor, int) and cursor > 0 and 1 <= len(found) < 100


def settings(r: "redis.Redis") -> None:
    assert r.config_get("databases") == {"databases": "16"} and r.config_resetstat()
    if r.config_get("active-expire-effort"):
        assert r.config_set("active-expire-effort", 5) and r.config_get("active-expire-effort") == {
            "active-expire-effort": "5"}  # fmt: skip
    assert r.get("none") is None and r.info("stats")["keyspace_misses"] == 1


if __name__ == "__main__":
    client = redis.Redis(port=PORT)
    for ask in (databases, times, names, walks, settings):
        ask(client)
        client.flushall()
