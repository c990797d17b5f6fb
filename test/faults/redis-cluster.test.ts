import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace } from "../support/failover.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, type RedisServer } from "../support/redis.ts";
import { RedisCluster } from "../support/redis-groups.ts";
import { runConformance } from "../support/run-conformance.ts";

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis cluster", () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.remove());

  runConformance("redis+cluster", async () => ({
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    // A check that waits for the end of a quarantine has no time to wait for an old primary.
    open: () => openRedis(`${cluster.url()}?maxLag=0`),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
  }));

  test("the keys of one namespace are on one node, those of another elsewhere", async () => {
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
    // A node takes its slots back without a command; its epoch shows that.
    const { owner } = await cluster.ownerOf(prefixes.billing);
    const [, epoch] = /cluster_my_epoch:(\d+)/.exec(String(await owner.client().call("CLUSTER", "INFO"))) ?? [];
    expect(await owner.client().hget(`${prefixes.billing}:meta`, "received")).toMatch(
      new RegExp(`^\\w+/\\w+/0/${epoch}$`),
    );
    expect((await registry.ping()).durability).toContain("not across a partition");
    await registry.close();
  });

  test("its slot moves to another node while holders make IDs: a quarantine there, and no ID twice", async () => {
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

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis cluster with a replica of each primary", () => {
  const promoted = (node: RedisServer): Promise<unknown> =>
    eventually(
      () => node.replication(),
      (told) => told.get("role") === "master",
    );
  type TakeOver = (cluster: RedisCluster, primary: RedisServer, successor: RedisServer) => Promise<unknown>;
  const takeovers: Record<string, TakeOver> = {
    "once the primary was killed": async (_, primary, successor) => {
      await primary.kill();
      await promoted(successor);
      // Without a replica the successor takes no write.
      await primary.start();
    },
    "once the primary stood still": async (_, primary, successor) => {
      primary.process.signal("SIGSTOP");
      await promoted(successor);
      primary.process.signal("SIGCONT");
    },
    "on an operator's command": async (cluster, primary, successor) => {
      await eventually(
        () => cluster.failOver(primary),
        (isBegun) => isBegun,
      );
      await promoted(successor);
    },
  };

  test.each(Object.entries(takeovers))(
    "the replica takes its place %s while holders make IDs: a quarantine, and no ID twice",
    { timeout: 120_000 },
    async (_, takeOver) => {
      const cluster = await RedisCluster.start({}, [], true);
      const holders = new Holders();
      try {
        const url = cluster.url("?maxLag=5s");
        const registry = await openRedis(url);
        await init(registry);
        expect((await registry.ping()).durability).toContain("holds across a partition");
        await registry.close();
        const options = { pool: "10-12", claimTimeout: 60_000 };
        const before = [await holders.run(url, options), await holders.run(url, options)];
        await sleep(300);
        const prefix = `{workerId/${namespace}}`;
        const { owner } = await cluster.ownerOf(prefix);
        const [successor = owner] = cluster.shardOf(owner).filter((node) => node !== owner);
        await takeOver(cluster, owner, successor);

        const newcomer = await holders.run(url, options);
        const quarantine = Number(await successor.client().hget(`${prefix}:meta`, "quarantineEnd"));
        expect(newcomer.begun.from).toBeGreaterThanOrEqual(quarantine);
        for (const { holder, begun } of before) {
          const back = await eventually(
            () => holder.ask("state"),
            ({ until }) => until > quarantine,
          );
          expect(back).toMatchObject({ state: "held", workerId: begun.workerId });
          expect(back.from).toBeGreaterThanOrEqual(quarantine);
        }
        await sleep(300);
        await holders.expectDistinct();
      } finally {
        await holders.kill();
        await cluster.remove();
      }
    },
  );
});
