import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { granted } from "../support/claims.ts";
import { JavaPeer } from "../support/java-peer.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { elsewhere, numbers, testReturns } from "../support/westid-returns.ts";

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "worker IDs that go back to westid in Redis", () => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await RedisServer.start();
    client = server.client();
  });
  afterAll(() => server.remove());

  const tools = testReturns({
    async fresh() {
      await client.flushall();
      return "default";
    },
    url: (query) => server.url(query),
    open: (query) => openRedis(server.url(query)),
    async taken() {
      const found = await Promise.all(numbers.map((n) => client.exists(`workerId:use:${n}`)));
      return numbers.filter((n) => found[n] === 1);
    },
    java: () => new JavaPeer(client, 99),
  });

  test("a holder whose worker ID went back loses it at its next renewal, even if a Java process looks exactly like that holder", async () => {
    const keys = await tools.crash(8);
    await tools.outlast();
    await granted(tools.registry, tools.claim({ holder: elsewhere }));
    const left = await tools.taken();
    const [one = -1, two = -1] = numbers.filter((n) => !left.includes(n));
    const java = new JavaPeer(client, 4711, "10.0.0.1", "alpha");
    await java.take(one);
    for (const n of [one, two]) {
      const renewal = { ...tools.keyFor(keys, n), clock: Date.now(), window: 300 };
      expect(await tools.registry.renew(renewal)).toEqual({ outcome: "lost", reason: "taken" });
      await tools.registry.release({ ...tools.keyFor(keys, n), clock: Date.now(), used: undefined });
      expect(await tools.registry.renew(renewal)).toEqual({ outcome: "lost", reason: "released" });
    }
    expect(await client.get(`workerId:use:${one}`)).toBe(java.value);
    expect(await tools.registry.worker(tools.namespace, one)).toMatchObject({
      state: "foreign",
      fence: tools.keyFor(keys, one).fence,
    });
    expect(await tools.registry.claim(tools.claim({ workerId: one }))).toMatchObject({ outcome: "foreign" });
  });

  test("a worker ID that a Java process took over, a pinned one, and a renewed one stay as they are", async () => {
    const keys = await tools.crash(8);
    await new JavaPeer(client, 815).take(0, true);
    await tools.registry.pin(tools.namespace, 1, "kept");
    await tools.outlast();
    await tools.registry.renew({ ...tools.keyFor(keys, 2), clock: Date.now(), window: 60_000 });
    const pinned = await client.get("workerId:use:1");
    for (let i = 0; i < 5; i++) await granted(tools.registry, tools.claim({ holder: elsewhere, window: 60_000 }));
    expect((await tools.taken()).slice(0, 3)).toEqual([0, 1, 2]);
    expect(await client.get("workerId:use:0")).toBe("815x10.0.0.1xalpha");
    expect(await client.get("workerId:use:1")).toBe(pinned);
  });
});
