import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holders, init, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { claimRequest } from "../support/claims.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { Sentinels } from "../support/redis-groups.ts";

const quick = ["--repl-diskless-sync-delay", "0"];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that sentinels watch", () => {
  let holders: Holders;
  const running: { remove(): Promise<void> }[] = [];

  beforeEach(() => {
    holders = new Holders();
  });
  afterEach(async () => {
    await holders.kill();
    await Promise.all(running.splice(0).map((each) => each.remove()));
  });

  async function started<Server extends { remove(): Promise<void> }>(start: Promise<Server>): Promise<Server> {
    const server = await start;
    running.push(server);
    return server;
  }

  test.each(["killed with -9", "stopped, and woken"])("its primary %s: no ID twice", async (how) => {
    const [primary, replica] = [await started(RedisServer.start(quick)), await started(RedisServer.start(quick))];
    await replica.follow(primary.port);
    const sentinels = await started(Sentinels.watch(primary));
    const url = sentinels.url("?maxLag=0");
    const registry = await openRedis(url);
    running.push({ remove: () => registry.close() });
    await init(registry);
    const options = { pool: "0-2", claimTimeout: 30_000 };
    const before = [await holders.run(url, options), await holders.run(url, options)];
    await sleep(400);
    if (how === "stopped, and woken") primary.process.signal("SIGSTOP");
    else await primary.kill();

    // One that comes now waits for the other to be promoted, and then until its quarantine is over.
    const newcomer = await holders.run(url, options);
    const quarantine = await quarantineOf(replica);
    expect((await replica.replication()).get("role")).toBe("master");
    expect(newcomer.begun.from).toBeGreaterThanOrEqual(quarantine);
    expect(newcomer.begun.fence).toBeGreaterThan(quarantine);
    for (const { holder, begun } of before) {
      const back = await eventually(
        () => holder.ask("state"),
        ({ until, state }) => state === "held" && until > quarantine,
      );
      expect(back.from).toBeGreaterThanOrEqual(quarantine);
      expect(back.fence).toBeGreaterThanOrEqual(begun.fence);
      expect(back.failures).toHaveProperty("LEASE_EXPIRED");
    }

    // The old one is back, still takes itself for the primary, and is made a replica: whoever asks the sentinels finds the other.
    if (how === "stopped, and woken") primary.process.signal("SIGCONT");
    else await primary.start();
    await sleep(500);
    await primary.follow(replica.port);
    expect(await registry.claim(claimRequest({ window: 500 }))).toMatchObject({ outcome: "granted" });
    await sleep(300);
    await holders.expectDistinct();
  });

  test("no sentinel knows a primary of that name: it says so, at once", async () => {
    const primary = await started(RedisServer.start(quick));
    const replica = await started(RedisServer.start(quick));
    await replica.follow(primary.port);
    const sentinels = await started(Sentinels.watch(primary));
    const registry = await openRedis(sentinels.url().replace(/\/[^/]+$/, "/nobody"), 60_000);
    running.push({ remove: () => registry.close() });
    const error = await failure(registry.claim(claimRequest()));
    expect(error.code).toBe("CONFIG_INVALID");
    expect(error.message).toMatch(
      / watches no primary of the name behind it in the registry URL \(.*\); correct that name\.$/,
    );
  });

  test("the primary that they name cannot be reached: that address is named, not theirs", async () => {
    const primary = await started(RedisServer.start(quick));
    const replica = await started(RedisServer.start(quick));
    await replica.follow(primary.port);
    const sentinels = await started(Sentinels.watch(primary));
    // Nobody is left to take its place.
    await Promise.all([primary.kill(), replica.kill()]);
    const registry = await openRedis(sentinels.url(), 1000);
    running.push({ remove: () => registry.close() });
    const { code, message } = await failure(registry.claim(claimRequest()));
    expect(code).toBe("REGISTRY_UNAVAILABLE");
    expect(message).toMatch(/^The sentinels [\d.:,]+ name a primary that cannot be reached from here: /);
    expect(message).toContain(` 127.0.0.1:${primary.port} (connect ECONNREFUSED `);
  });
});
