<?php
// Asks a server through phpredis: PORT says where. What does not hold is printed, and ends it with status 1.

function check($what, $got, $expect) {
    if ($got !== $expect) {
        echo "$what: ", var_export($got, true), ", not ", var_export($expect, true), "\n";
        exit(1);
    }
}

$r = new Redis();
$r->connect("127.0.0.1", (int)getenv("PORT"));
$has_transactions = getenv("TRANSACTIONS") === "1";

check("ping", $r->ping("hi"), "hi");
check("set", $r->set("k", "v"), true);
check("get", $r->get("k"), "v");
check("get none", $r->get("none"), false);
check("mset", $r->mset(["a" => "1", "b" => "2"]), true);
check("mget", $r->mget(["a", "none", "b"]), ["1", false, "2"]);
check("incr", $r->incr("n", 41), 41);
check("zadd", $r->zAdd("z", 1, "a", 2.5, "b"), 2);
check("zrange", $r->zRange("z", 0, -1, true), ["a" => 1.0, "b" => 2.5]);
check("zincrby", $r->zIncrBy("z", 2, "a"), 3.0);
check("expire", $r->expire("k", 100), true);
check("ttl", $r->ttl("k") > 90, true);
check("type", $r->type("z"), Redis::REDIS_ZSET);
check("incr of a text", $r->incr("k"), false);
check("its error", rtrim($r->getLastError(), "\0"), "ERR value is not an integer or out of range");
$r->clearLastError();
check("config get", array_keys($r->config("GET", "TIMEOUT")), ["TIMEOUT"]);
check("info", (int)$r->info()["cluster_enabled"], 0);
check("client list", count($r->client("list")), 1);
check("auth", $r->auth(["default", "x"]), true);
check("pipeline", $r->pipeline()->set("p", "1")->incr("p")->get("p")->exec(), [true, 2, "2"]);

if ($has_transactions) {
    check("multi", $r->multi()->set("k", "v")->get("k")->incr("m")->exec(), [true, "v", 1]);
    check("an error in it", $r->multi()->incr("k")->get("k")->exec(), [false, "v"]);
    $r->clearLastError();
    $r->multi()->set("k", "new");
    check("discard", $r->discard(), true);
    check("get behind it", $r->get("k"), "v");
    $other = new Redis();
    $other->connect("127.0.0.1", (int)getenv("PORT"));
    check("watch", $r->watch("k"), true);
    check("set by another", $other->set("k", "w"), true);
    check("exec of what has changed", $r->multi()->set("k", "new")->exec(), false);
    $r->watch(["k", "m"]);
    check("exec of what has not", $r->multi()->set("k", "v")->exec(), [true]);
    $r->watch("k");
    check("unwatch", $r->unwatch(), true);
    $other->set("k", "v");
    check("exec behind it", $r->multi()->get("k")->exec(), ["v"]);
    $other->close();
} else {
    // multi() asks at once, and returns false where it is refused. What follows on the connection is refused, too, for a
    // moment, or until exec().
    check("multi", $r->multi(), false);
    $text = "ERR MULTI is not supported here; use a pipeline without a transaction";
    check("its error", rtrim($r->getLastError(), "\0"), $text);
    check("set behind it", $r->set("k", "new"), false);
    $r->clearLastError();
    check("discard", $r->rawCommand("DISCARD"), false);
    check("get behind it", $r->get("k"), "v");
    $r->clearLastError();
    // In a pipeline MULTI, the commands and EXEC go in one write.
    $r->pipeline()->multi()->set("k", "new")->exec()->exec();
    check("the value behind a refused transaction", $r->get("k"), "v");
}
check("flushall", $r->flushAll(), true);
