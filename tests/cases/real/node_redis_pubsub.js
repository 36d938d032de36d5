// Publishes and listens through node-redis, to a server of chapter 26 or later, as its guide shows it: PORT says where.
// What does not hold ends it with status 1, and says where.
"use strict";
const assert = require("assert");
const { createClient } = require("redis");

// Something to give to subscribe(): its heard(n) waits until n messages have come.
function ear() {
    const messages = [];
    let wake = () => {};
    const listener = (...args) => {
        messages.push(args);
        wake();
    };
    listener.heard = async (n) => {
        while (messages.length < n) {
            await new Promise((resolve) => (wake = resolve));
        }
        return messages;
    };
    return listener;
}

async function main() {
    const client = createClient({ url: `redis://127.0.0.1:${process.env.PORT}` });
    client.on("error", (error) => assert.fail(error));
    await client.connect();
    const subscriber = client.duplicate();
    subscriber.on("error", (error) => assert.fail(error));
    await subscriber.connect();

    const news = ear(), other = ear(), all = ear(), bytes = ear();
    await subscriber.subscribe("news", news);
    await subscriber.subscribe(["news", "sport"], other);
    await subscriber.pSubscribe("n*s", all);
    assert.strictEqual(await client.publish("news", "hi"), 2);
    assert.strictEqual(await client.publish("sport", "1:0"), 1);
    assert.strictEqual(await client.publish("none", "x"), 0);
    assert.deepStrictEqual(await news.heard(1), [["hi", "news"]]);
    assert.deepStrictEqual(await other.heard(2), [["hi", "news"], ["1:0", "sport"]]);
    assert.deepStrictEqual(await all.heard(1), [["hi", "news"]]);
    assert.deepStrictEqual((await client.pubSubChannels()).sort(), ["news", "sport"]);
    assert.deepStrictEqual({ ...(await client.pubSubNumSub(["news", "none"])) }, { news: 1, none: 0 });
    assert.strictEqual(await client.pubSubNumPat(), 1);

    const every = Buffer.from(Array.from({ length: 70000 }, (_, i) => i % 256));
    await subscriber.subscribe("bytes", bytes, true);
    assert.strictEqual(await client.publish("bytes", every), 1);
    assert((await bytes.heard(1))[0][0].equals(every));

    const many = [];
    for (let i = 0; i < 2000; i++) {
        many.push(client.publish("sport", `${i}`));
    }
    assert((await Promise.all(many)).every((n) => n === 1));
    const heard = (await other.heard(2002)).slice(2);
    assert.deepStrictEqual(heard, many.map((_, i) => [`${i}`, "sport"]));

    await subscriber.unsubscribe("news", news);
    assert.strictEqual(await client.publish("news", "again"), 2);
    assert.deepStrictEqual((await other.heard(2003))[2002], ["again", "news"]);
    await subscriber.unsubscribe();
    await subscriber.pUnsubscribe("n*s");
    assert.strictEqual(await client.publish("news", "late"), 0);
    assert.strictEqual((await news.heard(1)).length, 1);
    assert.strictEqual(await subscriber.ping(), "PONG");
    const [set, told] = await client.multi().set("k", "v").publish("news", "k is set").exec();
    assert.deepStrictEqual([set, told], ["OK", 0]);
    await subscriber.quit();
    await client.quit();
}

main().catch((error) => {
    console.log(error);
    process.exit(1);
});
