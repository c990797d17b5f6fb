import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Address, Holders, init, limits, namespace, passQuarantine, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

/** A replica holds the same at once; a primary forgets that it had one after a second. */
const quick = ["--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "1"];
const none = "0".repeat(40);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis and its replica", () => {
  let one: RedisServer;
  let other: RedisServer;
  /** Between them. */
  let link: FaultProxy;
  /** Where clients find the primary. */
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

  /** Claims a worker ID that was never claimed, and so not that of another claim whose window ended meanwhile. */
  async function claim(): Promise<void> {
    await granted(registry, claimRequest({ window: limits.maxWindow, reuse: "never" }));
  }

  /** The other is the primary now, for all. */
  async function promote(): Promise<void> {
    await one.kill();
    await other.promote();
    address.move(other.port);
    await registry.close();
    registry = await openRedis(other.url("?maxLag=0"));
  }

  test("promoted though it had fallen behind: those it knows and those it never heard of make no ID twice", async () => {
    await other.follow(link.port);
    const url = `${address.url}?maxLag=0`;
    const options = { pool: "0-2", claimTimeout: 20_000 };
    const known = await holders.run(url, options);
    await eventually(
      async () => other.client().exists(`workerId/${namespace}:window:${known.begun.workerId}`),
      (found) => found === 1,
    );
    link.set(blackHole);
    // What these are granted, the other will never know: it hands the same numbers out again.
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
    // All three numbers are held again, the forgotten ones by others.
    expect(new Set([newcomer.begun.workerId, switched.workerId, back.workerId]).size).toBe(3);
    await sleep(300);
    await holders.expectDistinct();
  });

  test("promoted with all there was: a quarantine all the same, since nobody can tell", async () => {
    await other.follow(link.port);
    await claim();
    await one.client().wait(1, 0);
    await promote();
    expect((await failure(registry.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
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
    // Each time the server took another id, and each time it was the same data.
    expect(new Set(ids).size).toBe(4);
    expect(await quarantineOf(one)).toBe(0);
  });

  test("a replica that takes writes has the primary's id and its `meta`, and grants nothing all the same", async () => {
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

  test("made a replica of one that had fallen behind, and the primary again: what it forgot in between is noticed", async () => {
    await other.follow(link.port);
    link.set(blackHole);
    await claim();
    await other.promote();
    await one.follow(other.port);
    await one.promote();
    // It lost its claim, is the same process as ever, and soon has an id that came from nobody.
    await eventually(
      () => one.replication(),
      (told) => told.get("master_replid2") === none,
    );
    expect(await one.client().exists(`workerId/${namespace}:window:0`)).toBe(0);
    expect((await failure(registry.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
  });

  /** Promoted by an operator, long enough ago to have an id that came from nobody. */
  async function promotedLongAgo(server: RedisServer): Promise<void> {
    await server.promote();
    await eventually(
      () => server.replication(),
      (told) => told.get("master_replid2") === none,
    );
  }

  test("a replica that takes writes, cut off in silence, asked by ours, and promoted long after: what it missed is noticed", async () => {
    await other.follow(link.port);
    await claim();
    await one.client().wait(1, 0);
    await other.client().config("SET", "replica-read-only", "no");
    link.set(blackHole);
    const below = await openRedis(other.url("?maxLag=0"));
    onTestFinished(() => below.close());
    // It notes that it does not know all, and since when; and then that is long ago.
    expect((await failure(below.claim(claimRequest({ window: 1000 })))).code).toBe("QUARANTINE");
    await passQuarantine(other);
    const missed = await granted(registry, claimRequest({ window: limits.maxWindow }));
    await promotedLongAgo(other);
    const { code, details } = await failure(below.claim(claimRequest({ window: 1000 })));
    expect(code).toBe("QUARANTINE");
    expect(details["until"]).toBeGreaterThan(missed.until);
  });

  test("made a replica that its primary cannot reach, and the primary again: what was granted in between is noticed", async () => {
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
