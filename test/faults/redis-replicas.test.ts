import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Address, Holders, init, limits, namespace, passQuarantine, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

/** A replica is up to date at once; a primary forgets its replica after a second. */
const quick = ["--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "1"];
const none = "0".repeat(40);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis and its replica", () => {
  let one: RedisServer;
  let other: RedisServer;
  /** The link between them. */
  let link: FaultProxy;
  /** The address at which clients find the primary. */
  let address: Address;
  let registry: Registry;
  let holders: Holders;

  beforeEach(async () => {
    holders = new Holders();
    [one, other] = await Promise.all([RedisServer.start(quick), RedisServer.start(quick)]);
    link = await FaultProxy.start(one.port);
    address = await Address.of(one.port);
    registry = await openRedis(`${address.url}?maxLag=0`);
    await init(registry);
  });
  afterEach(async () => {
    await holders.kill();
    await registry.close();
    await address.stop();
    await link.stop();
    await Promise.all([one.remove(), other.remove()]);
  });

  /** Claims a worker ID that was never claimed, and so not that of a claim whose window ended meanwhile. */
  async function claim(): Promise<void> {
    await granted(registry, claimRequest({ window: limits.maxWindow, reuse: "never" }));
  }

  /** The other server is the primary now, for all. */
  async function promote(): Promise<void> {
    await one.kill();
    await other.promote();
    address.move(other.port);
    await registry.close();
    registry = await openRedis(other.url("?maxLag=0"));
  }

  test("promoted although it lagged: the holders that it knows and those that it lacks make no ID twice", async () => {
    await other.follow(link.port);
    const url = `${address.url}?maxLag=0`;
    const options = { pool: "0-2", claimTimeout: 20_000 };
    const known = await holders.run(url, options);
    await eventually(
      async () => other.client().exists(`workerId/${namespace}:window:${known.begun.workerId}`),
      (found) => found === 1,
    );
    link.set(blackHole);
    // The other server will never know these grants: it grants the same worker IDs again.
    const living = await holders.run(url, options);
    const crashed = await holders.run(url, options);
    await sleep(500);
    const last = await crashed.holder.ask("state");
    await crashed.holder.kill();
    await promote();

    expect((await failure(registry.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
    const quarantine = await quarantineOf(other);
    expect(quarantine).toBeGreaterThanOrEqual(last.until);
    const newcomer = await holders.run(url, options);
    const back = await eventually(
      () => known.holder.ask("state"),
      ({ until }) => until > quarantine,
    );
    expect(back).toMatchObject({ workerId: known.begun.workerId, fence: known.begun.fence });
    const switched = await eventually(
      () => living.holder.ask("state"),
      ({ events }) => events.some(({ name }) => name === "switched"),
    );
    const begun = [known, living, crashed].map((each) => each.begun);
    const highest = Math.max(...begun.map(({ fence }) => fence), quarantine);
    for (const after of [newcomer.begun, switched]) {
      expect(after.fence).toBeGreaterThan(highest);
      expect(after.from).toBeGreaterThanOrEqual(quarantine);
    }
    // All three worker IDs are held again, the forgotten ones by other holders.
    expect(new Set([newcomer.begun.workerId, switched.workerId, back.workerId]).size).toBe(3);
    await sleep(300);
    await holders.expectDistinct();
  });

  test("promoted with all the data: a quarantine all the same, since the server cannot know that", async () => {
    await other.follow(link.port);
    await claim();
    await one.client().wait(1, 0);
    await promote();
    expect((await failure(registry.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
  });

  test("with `wait`, a pin and its end are answered once the replica has them: promoted, it knows both", async () => {
    await other.follow(link.port);
    const careful = await openRedis(`${address.url}?maxLag=0&wait=1`, 9000);
    onTestFinished(() => careful.close());
    await careful.pin(namespace, 3, "kept");
    await careful.pin(namespace, 4, "kept");
    expect(await careful.unpin(namespace, 4)).toBe(true);
    link.set(blackHole);
    for (const late of [() => careful.pin(namespace, 5, "late"), () => careful.unpin(namespace, 3)]) {
      expect(await failure(late())).toMatchObject({
        code: "REGISTRY_UNAVAILABLE",
        message: expect.stringContaining("had 0 of 1 replicas confirm") as string,
      });
    }
    await promote();
    const pins = await Promise.all([3, 4, 5].map((workerId) => registry.worker(namespace, workerId)));
    expect(pins.map((record) => record?.pinned)).toEqual(["kept", undefined, undefined]);
  });

  test("a first replica comes, the last one leaves, another comes: no quarantine", async () => {
    const request = claimRequest({ window: limits.maxWindow });
    const key = keyOf(request, await granted(registry, request));
    const ids: (string | undefined)[] = [];
    const goesOn = async (): Promise<void> => {
      ids.push((await one.replication()).get("master_replid"));
      expect((await one.replication()).get("master_replid2")).toBe(none);
      await claim();
      expect(await registry.renew({ ...key, clock: Date.now(), window: 1000 })).toMatchObject({ outcome: "renewed" });
    };
    await goesOn();
    await other.follow(link.port);
    await goesOn();
    await other.promote();
    await eventually(
      () => one.replication(),
      (told) => told.get("master_replid") !== ids[1],
    );
    await goesOn();
    await other.follow(link.port);
    await goesOn();
    // Each time the server took another replication ID for the same data.
    expect(new Set(ids).size).toBe(4);
    expect(await quarantineOf(one)).toBe(0);
  });

  test("a writable replica has the primary's id and its `meta`, but grants nothing", async () => {
    await other.follow(link.port);
    await claim();
    const id = (await other.replication()).get("master_replid");
    await eventually(
      () => other.client().hget(`workerId/${namespace}:meta`, "replId"),
      (stored) => stored === id,
    );
    await other.client().config("SET", "replica-read-only", "no");
    const below = await openRedis(other.url("?maxLag=0"));
    onTestFinished(() => below.close());
    for (let i = 0; i < 2; i++) {
      expect((await failure(below.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
    }
  });

  test("made a replica of a lagging server, and the primary again: the loss in between is noticed", async () => {
    await other.follow(link.port);
    link.set(blackHole);
    await claim();
    await other.promote();
    await one.follow(other.port);
    await one.promote();
    // It lost its claim, is still the same process, and soon has a replication ID that comes from no other server.
    await eventually(
      () => one.replication(),
      (told) => told.get("master_replid2") === none,
    );
    expect(await one.client().exists(`workerId/${namespace}:window:0`)).toBe(0);
    expect((await failure(registry.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
  });

  /** Promoted by an operator, so long ago that its replication ID comes from no other server. */
  async function promotedLongAgo(server: RedisServer): Promise<void> {
    await server.promote();
    await eventually(
      () => server.replication(),
      (told) => told.get("master_replid2") === none,
    );
  }

  test("a writable replica, cut off in silence, asked by one of our registries, and promoted long after: its gap is noticed", async () => {
    await other.follow(link.port);
    await claim();
    await one.client().wait(1, 0);
    await other.client().config("SET", "replica-read-only", "no");
    link.set(blackHole);
    const below = await openRedis(other.url("?maxLag=0"));
    onTestFinished(() => below.close());
    // It notes that it does not know everything, and since when; then that is long ago.
    expect((await failure(below.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
    await passQuarantine(other);
    const missed = await granted(registry, claimRequest({ window: limits.maxWindow }));
    await promotedLongAgo(other);
    const { code, details } = await failure(below.claim(claimRequest({ window: 1000 })));
    expect(code).toBe("QUARANTINE");
    expect(details["until"]).toBeGreaterThan(missed.until);
  });

  test("made a replica that its primary cannot reach, and the primary again: the loss of the grants in between is noticed", async () => {
    await other.follow(one.port);
    await claim();
    await other.promote();
    const way = await FaultProxy.start(other.port);
    onTestFinished(() => way.stop());
    way.set(blackHole);
    await one.client().replicaof("127.0.0.1", way.port);
    const above = await openRedis(other.url("?maxLag=0"));
    onTestFinished(() => above.close());
    expect((await failure(above.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
    await passQuarantine(other);
    const missed = await granted(above, claimRequest({ window: limits.maxWindow }));
    await promotedLongAgo(one);
    const { code, details } = await failure(registry.claim(claimRequest({ window: 1000 })));
    expect(code).toBe("QUARANTINE");
    expect(details["until"]).toBeGreaterThan(missed.until);
  });
});
