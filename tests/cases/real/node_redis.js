// Asks a server through node-redis: PORT says where. What does not hold ends it with status 1, and says where.
"use strict";
const assert = require("assert");
const { createClient } = require("redis");

async function main() {
    const url = `redis://127.0.0.1:${process.env.PORT}`;
    const client = createClient({ url });
    client.on("error", (error) => assert.fail(error));
    await client.connect();
    assert.strictEqual(await client.set("k", "v"), "OK");
    assert.strictEqual(await client.get("k"), "v");
    assert.strictEqual(await client.get("none"), null);
    assert.deepStrictEqual(await client.mGet(["k", "none"]), ["v", null]);
    assert.strictEqual(await client.incrBy("n", 41), 41);
    assert.strictEqual(await client.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]), 2);
    assert.deepStrictEqual((await client.zRangeWithScores("z", 0, -1)).map((pair) => ({ ...pair })), [
        { value: "a", score: 1 },
        { value: "b", score: 2.5 },
    ]);
    assert.strictEqual(Number(await client.expire("k", 100)), 1);
    assert((await client.ttl("k")) > 90);
    const info = await client.clientInfo();
    for (const name of ["id", "db", "sub", "psub", "multi", "qbuf", "totMem", "argvMem", "omem"]) {
        assert(Number.isInteger(info[name]), `clientInfo().${name} is ${info[name]}`);
    }
    await assert.rejects(client.incr("k"), /not an integer/);
    const replies = await client.multi().set("p", "1").incr("p").get("p").execAsPipeline();
    assert.deepStrictEqual(replies, ["OK", 2, "2"]);
    if (process.env.TRANSACTIONS === "1") {
        const [set, value] = await client.multi().set("key", "value").get("key").exec();
        assert.deepStrictEqual([set, value], ["OK", "value"]);
        await client.executeIsolated(async (isolated) => {
            await isolated.watch("key");
            await client.set("key", "other");
            const { WatchError } = require("redis");
            await assert.rejects(isolated.multi().set("key", "new").exec(), WatchError);
            await isolated.watch("key");
            assert.deepStrictEqual(await isolated.multi().get("key").exec(), ["other"]);
        });
    } else {
        await assert.rejects(client.multi().set("k", "new").exec());
        assert.strictEqual(await client.get("k"), "v"); // nothing of it was done
    }
    await client.flushAll();
    await client.quit();
}

main().catch((error) => {
    console.log(error);
    process.exit(1);
});
