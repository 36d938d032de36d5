"""Asks a server through redis-py: PORT says where. An assertion that does not hold says the rest."""
from __future__ import annotations

import os
import threading

import redis

PORT = int(os.environ["PORT"])
TRANSACTIONS = os.environ["TRANSACTIONS"] == "1"  # has the server these?


def strings(r: "redis.Redis") -> None:
    assert r.ping() is True and r.echo("hi") == b"hi"
    assert r.set("k", "v") is True and r.get("k") == b"v" and r.get("none") is None
    every = bytes(range(256))
    assert r.set(every, every) and r.get(every) == every and r.strlen(every) == 256
    assert r.mset({"a": 1, "b": 2}) is True and r.mget("a", "none", "b") == [b"1", None, b"2"]
    assert (r.incr("n"), r.incrby("n", 41), r.decr("n"), r.append("n", "0")) == (1, 42, 41, 3)
    assert r.exists("a", "b", "a", "none") == 3 and r.delete("a", "b", "none") == 2 and r.unlink("n") == 1
    assert r.type("k") == b"string" and r.type("none") == b"none"


def sorted_sets(r: "redis.Redis") -> None:
    assert r.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3 and r.zcard("z") == 3
    assert r.zscore("z", "b") == 2.5 and r.zscore("z", "none") is None and r.zrank("z", "c") == 2
    assert r.zrange("z", 0, -1, withscores=True) == [(b"a", 1.0), (b"b", 2.5), (b"c", float("inf"))]
    assert r.zrangebyscore("z", "(1", "+inf") == [b"b", b"c"] and r.zcount("z", 1, 2.5) == 2
    assert r.zrangebyscore("z", "-inf", "+inf", start=1, num=1, withscores=True) == [(b"b", 2.5)]
    assert r.zrem("z", "a", "b", "none") == 2 and r.type("z") == b"zset"


def deadlines(r: "redis.Redis") -> None:
    assert r.ttl("k") == -1 and r.ttl("none") == -2 and r.expire("k", 100) and 90 < r.ttl("k") <= 100
    assert r.pexpire("k", 50_000) and 40_000 < r.pttl("k") <= 50_000 and r.persist("k") and r.ttl("k") == -1


def errors(r: "redis.Redis") -> None:
    for call, text in (
        (lambda: r.incr("k"), "value is not an integer or out of range"),
        (lambda: r.zadd("k", {"a": 1}), "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (lambda: r.execute_command("get"), "wrong number of arguments for 'get' command"),
        (lambda: r.execute_command("nosuch", "x"), "unknown command"),
    ):
        try:
            call()
        except redis.ResponseError as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)


def pipelines(r: "redis.Redis") -> None:
    pipe = r.pipeline(transaction=False)
    for i in range(5000):
        pipe.set(f"p:{i}", i).get(f"p:{i}")
    assert pipe.execute() == [each for i in range(5000) for each in (True, b"%d" % i)]
    pipe = r.pipeline(transaction=False)
    pipe.set("k", "v").incr("k").get("k")
    replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == b"v", replies
    assert r.delete(*(f"p:{i}" for i in range(5000))) == 5000


def transactions(r: "redis.Redis") -> None:
    """What pipeline() sends where nothing else is said, as the README of redis-py shows it."""
    pipe = r.pipeline()
    assert pipe.set("foo", "bar").get("bing").incr("n").execute() == [True, None, 1]
    pipe = r.pipeline()
    for i in range(3000):
        pipe.set(f"t:{i}", "x" * 20).incr("n")
    assert pipe.execute()[-1] == 3001 and r.delete(*(f"t:{i}" for i in range(3000))) == 3000
    pipe = r.pipeline().set("foo", "bar").incr("foo").get("foo")
    replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError) and replies[2] == b"bar", replies
    try:
        r.pipeline().set("foo", "no").execute_command("NOSUCH").execute()
    except redis.ResponseError as e:
        assert "unknown command" in str(e), e
    else:
        raise AssertionError("an unknown command in a transaction is an error")
    assert r.get("foo") == b"bar"
    watch_loops(r)
    assert r.delete("foo", "n", "counter") == 3


def watch_loops(r: "redis.Redis") -> None:
    """The value is read behind WATCH, written in a transaction, and all of it again where somebody was faster."""
    tries = 0
    with r.pipeline() as pipe:
        while True:
            try:
                pipe.watch("counter")
                value = int(pipe.get("counter") or 0)
                if tries == 0:
                    r.incrby("counter", 40)  # on a connection of its own
                pipe.multi()
                pipe.set("counter", value + 1)
                assert pipe.execute() == [True]
                break
            except redis.WatchError:
                tries += 1
    assert tries == 1 and r.get("counter") == b"41", tries

    def add(pipe: "redis.client.Pipeline") -> None:
        value = int(pipe.get("counter"))
        pipe.multi()
        pipe.set("counter", value + 1)

    assert r.transaction(add, "counter") == [True] and r.get("counter") == b"42"
    with r.pipeline() as pipe:
        pipe.watch("counter")
        pipe.unwatch()
        r.set("counter", 1)
        assert pipe.incr("counter").execute() == [2]


def refused_transactions(r: "redis.Redis") -> None:
    """In the chapters without them: one exception, and nothing is done. Then all goes on."""
    for n in (1, 3, 3000):
        pipe = r.pipeline()
        for i in range(n):
            pipe.set(f"t:{i}", "x" * 20).incr("n")
        try:
            pipe.execute()
        except redis.ResponseError as e:
            assert str(e) == "MULTI is not supported here; use a pipeline without a transaction", e
        else:
            raise AssertionError("a transaction is refused")
        assert r.exists("n", *(f"t:{i}" for i in range(n))) == 0
        assert r.set("n", 1) and r.pipeline(transaction=False).incr("n").delete("n").execute() == [2, 1]


def about_itself(r: "redis.Redis") -> None:
    info = r.info()
    assert info["redis_version"].count(".") == 2 and info["db0"]["keys"] == r.dbsize(), info
    assert r.info("keyspace")["db0"]["expires"] == 0
    assert r.config_get("save") == {"save": ""} and r.config_get("none") == {}
    assert r.client_setname("app") and r.client_getname() in (b"app", "app") and r.client_id() > 0
    assert [row["name"] for row in r.client_list()].count("app") == 1
    me = r.client_info()
    assert me["name"] == "app" and me["id"] == r.client_id() and me["sub"] == me["psub"] == 0 and me["multi"] == -1, me
    assert me["argv-mem"] >= 0 and me["tot-mem"] >= me["qbuf"] > 0 and int(me["redir"]) == -1, me
    assert info["used_memory"] > 0 and info["cluster_enabled"] == 0 and info["loading"] == 0, info
    assert info["blocked_clients"] == 0 and r.config_get("TIMEOUT") == {"TIMEOUT": r.config_get("timeout")["timeout"]}
    assert r.command_list(module="x") == [] and r.command_list(pattern="zad*") in ([b"zadd"], ["zadd"])
    assert r.execute_command("AUTH", "default", "x") in (True, b"OK")
    commands = r.command()
    assert commands["get"]["arity"] == 2 and r.command_count() == len(commands), commands["get"]
    assert sorted(r.keys("k*")) == [b"k"] and r.flushdb() and r.keys() == [] and r.flushall()


def many(pool: "redis.ConnectionPool") -> None:
    """Twenty threads that count together."""
    def count() -> None:
        r = redis.Redis(connection_pool=pool)
        for _ in range(100):
            r.incr("together")

    threads = [threading.Thread(target=count) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redis.Redis(connection_pool=pool).get("together") == b"2000"


if __name__ == "__main__":
    client = redis.Redis(port=PORT, db=0)
    with_multi = transactions if TRANSACTIONS else refused_transactions
    for ask in (strings, sorted_sets, deadlines, errors, pipelines, with_multi, about_itself):
        ask(client)
    many(client.connection_pool)
    texts = redis.Redis(port=PORT, decode_responses=True)
    assert texts.set("ü", "ß") and texts.get("ü") == "ß"
