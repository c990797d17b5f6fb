import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing } from "../support/redis.ts";
import { RedisCluster } from "../support/redis-groups.ts";
import { freePort } from "../support/servers.ts";
import { runConformance } from "../support/run-conformance.ts";

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis cluster", () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.remove());

  runConformance("redis+cluster", async () => ({
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    // A quarantine that a check waits for has no time to wait for an old primary.
    open: () => openRedis(`${cluster.url()}?maxLag=0`),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
  }));

  test("the keys of a namespace lie together, those of another elsewhere", async () => {
    const registry = await openRedis(cluster.url());
    const prefixes = { default: "{workerId}", billing: "{workerId/billing}", invoices: "{workerId/invoices}" };
    for (const [name, prefix] of Object.entries(prefixes)) {
      await registry.init({ new: true, namespace: name, layout: claimRequest().layout, ...limits });
      const request = claimRequest({ namespace: name, window: 500 });
      await registry.release({ ...keyOf(request, await granted(registry, request)), clock: Date.now() });
      const { owner, slot } = await cluster.ownerOf(prefix);
      const keys = (await owner.client().keys("*")).filter((key) => key.startsWith(prefix));
      expect(keys).toEqual(expect.arrayContaining([`${prefix}:meta`, `${prefix}:window:0`, `${prefix}:resting`]));
      expect(await owner.client().call("CLUSTER", "COUNTKEYSINSLOT", slot)).toBe(keys.length);
    }
    // A node takes its part back without a command; its epoch tells.
    const { owner } = await cluster.ownerOf(prefixes.billing);
    const [, epoch] = /cluster_my_epoch:(\d+)/.exec(String(await owner.client().call("CLUSTER", "INFO"))) ?? [];
    expect(await owner.client().hget(`${prefixes.billing}:meta`, "received")).toMatch(
      new RegExp(`^\\w+/\\w+/0/${epoch}$`),
    );
    expect((await registry.ping()).durability).toContain("not across a partition");
    await registry.close();
  });

  test("nodes that announce addresses which cannot be reached: those are named, not the node that answered", async () => {
    const hidden = await RedisCluster.start();
    try {
      const port = await freePort();
      for (const node of hidden.nodes) await node.client().config("SET", "cluster-announce-port", String(port));
      for (const node of hidden.nodes) {
        await eventually(
          async () => JSON.stringify(await node.client().call("CLUSTER", "SLOTS")),
          (slots) => slots.split(`127.0.0.1",${port},`).length === 1 + hidden.nodes.length,
        );
      }
      const registry = await openRedis(hidden.url(), 2000);
      const { code, message } = await failure(registry.describe("any"));
      await registry.close();
      expect(code).toBe("REGISTRY_UNAVAILABLE");
      expect(message).toMatch(
        /^The cluster [\d.:,]+ announces nodes that cannot be reached from here: .*; look whether they run, and set cluster-announce-ip and cluster-announce-port there /,
      );
      expect(message).toContain(`127.0.0.1:${port} (connect ECONNREFUSED `);
    } finally {
      await hidden.remove();
    }
  });

  test("its slot moved to another node while holders make IDs: a quarantine there, and no ID twice", async () => {
    const holders = new Holders();
    try {
      const url = cluster.url("?maxLag=0");
      const registry = await openRedis(url);
      await init(registry);
      await registry.close();
      const options = { pool: "10-12", claimTimeout: 30_000 };
      const before = [await holders.run(url, options), await holders.run(url, options)];
      await sleep(300);
      const prefix = `{workerId/${namespace}}`;
      const { slot, owner } = await cluster.ownerOf(prefix);
      const target = cluster.nodes.find((node) => node !== owner) ?? owner;
      await cluster.move(slot, owner, target);

      const newcomer = await holders.run(url, options);
      const quarantine = Number(await target.client().hget(`${prefix}:meta`, "quarantineEnd"));
      expect(newcomer.begun.from).toBeGreaterThanOrEqual(quarantine);
      expect(newcomer.begun.fence).toBeGreaterThan(quarantine);
      for (const { holder, begun } of before) {
        const back = await eventually(
          () => holder.ask("state"),
          ({ until }) => until > quarantine,
        );
        expect(back).toMatchObject({ state: "held", workerId: begun.workerId, fence: begun.fence });
        expect(back.from).toBeGreaterThanOrEqual(quarantine);
        expect(back.failures).toHaveProperty("LEASE_EXPIRED");
      }
      await sleep(300);
      await holders.expectDistinct();
    } finally {
      await holders.kill();
    }
  });
});
