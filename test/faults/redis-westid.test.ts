import type { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimKey, Grant, Registry } from "../../src/rule/registry.ts";
import { workerJson } from "../../src/api/codec.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { eventually } from "../support/holder.ts";
import { JavaPeer } from "../support/java-peer.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import { openRedis, recordAt, redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "default";
const layout = defaultLayout.fingerprint;
const skew = 1000;
const limits = { maxWindow: 60_000, maxClockSkew: skew };

/** A small generator of random numbers, so that a run can be repeated. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "Redis beside westid", () => {
  let server: RedisServer;
  let client: Redis;
  let registry: Registry;

  beforeAll(async () => {
    server = await RedisServer.start();
    client = server.client();
  });
  afterAll(() => server.remove());

  beforeEach(async () => {
    await client.flushall();
    registry = await openRedis(server.url());
    await registry.init({ new: true, namespace, layout, ...limits });
  });
  afterEach(() => registry.close());

  const claim = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, ...wish });

  const make = (options: SnowleaseOptions = {}): Promise<Maker> =>
    startMaker({ registry: server.url(), namespace, window: 900, ...options });

  /** What stands at the keys of westid that are none of ours, with how long they last. */
  async function foreignKeys(): Promise<Map<string, string>> {
    const keys = [...(await client.keys("workerId:use:*")), ...(await client.keys("workerId:pid:*"))];
    const found = new Map<string, string>();
    for (const key of keys.toSorted()) {
      if (key.includes("lease@")) continue;
      const workerId = /use:(\d+)$/.exec(key)?.[1];
      const record = workerId === undefined ? undefined : await recordAt(client, `workerId:window:${workerId}`);
      if (record !== undefined && (await client.get(key)) === [record["pid"], record["ip"], record["host"]].join("x")) {
        continue;
      }
      found.set(key, `${await client.ttl(key)} ${(await client.dumpBuffer(key))?.toString("base64")}`);
    }
    return found;
  }

  test("keys of ours are out of westid's sight, but for those that say that a number is taken", async () => {
    const request = claim();
    const grant = await granted(registry, request);
    expect(await client.get("workerId:use:0")).toBe("4711x10.0.0.1xalpha");
    expect(await client.exists("workerId:pid:10.0.0.1")).toBe(0);
    expect(await client.lrange("workerId:pid:lease@10.0.0.1", 0, -1)).toEqual(["4711x0"]);
    await registry.release({ ...keyOf(request, grant), clock: Date.now() });
    expect(await client.exists("workerId:pid:lease@10.0.0.1")).toBe(0);
    for (const key of await client.keys("*")) expect(await client.ttl(key)).toBe(-1);
  });

  test("a wanted number that westid has is held, by whom is told, and `workers` shows it", async () => {
    const java = new JavaPeer(client, 815, "192.0.2.7", "old-app-3");
    await java.take(7);
    const before = await foreignKeys();
    const refused = snowlease({ registry: server.url(), namespace, workerId: 7, claimTimeout: 0 });
    await expect(refused).rejects.toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringMatching(/Worker 7 .*old-app-3 \(192\.0\.2\.7\), pid 815/),
    });
    expect(await registry.workers(namespace, { state: "foreign" })).toMatchObject([
      { workerId: 7, state: "foreign", holder: { host: "old-app-3", ip: "192.0.2.7", pid: 815 } },
    ]);
    const found = await registry.worker(namespace, 7);
    expect(found).toMatchObject({ state: "foreign", holder: { pid: 815 } });
    // What keeps no window shows none.
    expect(found && workerJson(found)).toMatchObject({ from: null, until: null });
    expect(await foreignKeys()).toEqual(before);
  });

  test.each(["", "x", "7", "nonsense", "1x2", "1x2x3x4", "\u0000", "é", "x".repeat(5000)])(
    "whatever a stranger wrote at `use:N` (%j), it is left alone, shown in one line, and never claimed",
    async (value) => {
      await client.set("workerId:use:0", value);
      const before = await foreignKeys();
      expect(await granted(registry, claim())).toMatchObject({ workerId: 1 });
      expect(await registry.claim(claim({ workerId: 0 }))).toMatchObject({ outcome: "foreign", workerId: 0 });
      expect(await registry.workers(namespace)).toMatchObject([{ state: "foreign" }, { state: "live" }]);
      expect(await registry.forceRelease({ namespace, workerId: 0, force: true })).toEqual({ outcome: "absent" });
      expect(await foreignKeys()).toEqual(before);
    },
  );

  test("a number that westid took away under its holder is lost at the next renewal; the lease takes another one", async () => {
    const one = await make();
    const java = new JavaPeer(client, 99);
    await java.take(one.snowflake.lease.workerId, true);
    const before = await foreignKeys();
    await eventually(
      async () => one.snowflake.lease.workerId,
      (workerId) => workerId !== java.workerId,
    );
    await eventually(
      async () => one.snowflake.lease.state,
      (state) => state === "held",
    );
    expect(one.snowflake.lease.workerId).not.toBe(java.workerId);
    expect(await foreignKeys()).toEqual(before);
    await one.stop();
    expect(new Set(one.ids).size).toBe(one.ids.length);
  });

  test("a number whose `use` key was deleted under its holder is lost at the next renewal; the lease takes another one", async () => {
    const one = await make();
    const { workerId } = one.snowflake.lease;
    await client.del(`workerId:use:${workerId}`);
    await eventually(
      async () => one.snowflake.lease.workerId,
      (now) => now !== workerId,
    );
    await one.stop();
    await one.snowflake.close();
    expect(new Set(one.ids).size).toBe(one.ids.length);
  });

  const takes: Record<string, () => Promise<JavaPeer | undefined>> = {
    "taken away and left": async () => {
      const java = new JavaPeer(client, 99);
      await java.take(0, true);
      return java;
    },
    deleted: async () => {
      await client.del("workerId:use:0");
      return undefined;
    },
  };
  for (const [how, take] of Object.entries(takes)) {
    test(`what was ${how} under a holder opens only when nobody's clock can have been there`, async () => {
      const request = claim({ window: 200 });
      const grant = await granted(registry, request);
      const java = await take();
      const key = keyOf(request, grant);
      expect(await registry.renew({ ...key, clock: Date.now(), window: 200 })).toEqual({
        outcome: "lost",
        reason: "taken",
      });
      await java?.leave();
      await eventually(
        () => registry.worker(namespace, 0),
        (record) => record?.state === "free",
      );
      const next = await granted(registry, claim({ workerId: 0 }));
      expect(next.from).toBeGreaterThanOrEqual(next.clock + skew);
    });
  }

  test("with foreigners seen: a number that was ours all the time opens at once, any other when their clocks have passed", async () => {
    const request = claim();
    const held = await granted(registry, request);
    expect(held.from).toBeLessThanOrEqual(held.clock);
    const java = new JavaPeer(client, 99);
    await java.take(5);
    expect(await registry.claim(claim({ workerId: 5 }))).toMatchObject({ outcome: "foreign" });
    await java.leave();

    const left = await granted(registry, claim({ workerId: 5 }));
    expect(left.from).toBeGreaterThanOrEqual(left.clock + skew);
    expect(left.until - left.from).toBeGreaterThanOrEqual(2000);
    const unused = await granted(registry, claim({ workerId: 6 }));
    expect(unused.from).toBeGreaterThanOrEqual(unused.clock + skew);

    const used = { until: held.from };
    await registry.release({ ...keyOf(request, held), clock: Date.now(), used });
    const again = await granted(registry, claim({ workerId: 0 }));
    expect(again.from).toBeLessThanOrEqual(again.clock);
    // The next process asks the server, not what this one remembers.
    const other = await openRedis(server.url());
    onTestFinished(() => other.close());
    const third = await granted(other, claim({ workerId: 8 }));
    expect(third.from).toBeGreaterThanOrEqual(third.clock + skew);
  });

  test("what westid took under a holder is not deleted by its give-back, nor by an operator", async () => {
    const requests = [claim({ window: 50 }), claim({ window: 50 })] as const;
    const grants = [await granted(registry, requests[0]), await granted(registry, requests[1])] as const;
    for (const workerId of [0, 1]) await new JavaPeer(client, 90 + workerId).take(workerId, true);
    const before = await foreignKeys();
    await registry.release({ ...keyOf(requests[0], grants[0]), clock: Date.now(), used: { until: grants[0].from } });
    const { fence } = grants[1];
    await registry.forceRelease({ namespace, workerId: 1, force: true, fence, resetWindow: true });
    expect(await registry.workers(namespace, { state: "free" })).toEqual([]);
    expect(await foreignKeys()).toEqual(before);
  });

  test.each([
    ["as one that this host had", {}],
    ["as one that is wanted first", { preferred: [0], holder: { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" } }],
    ["as the one that rested longest", { holder: { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" } }],
  ])("what we had, and westid has now, is not claimed again: %s", async (_, wish) => {
    const pool = { first: 0, last: 1 };
    for (const workerId of [0, 1]) {
      const request = claim({ pool, workerId });
      const grant = await granted(registry, request);
      await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
    }
    const java = new JavaPeer(client, 99);
    expect(await java.start()).toBe(0);
    const before = await foreignKeys();
    expect(await granted(registry, claim({ pool, ...wish }))).toMatchObject({ workerId: 1 });
    expect(await registry.claim(claim({ pool, ...wish }))).toMatchObject({ outcome: "exhausted" });
    expect(await foreignKeys()).toEqual(before);
  });

  test("`beside=westid`: so before one was ever seen", async () => {
    const careful = await openRedis(server.url("?beside=westid"));
    onTestFinished(() => careful.close());
    const request = claim();
    const grant = await granted(careful, request);
    expect(grant.from).toBeGreaterThanOrEqual(grant.clock + skew);
    // What we held all the time we know.
    const used = { until: grant.from };
    await careful.release({ ...keyOf(request, grant), clock: Date.now(), used });
    await eventually(
      () => careful.worker(namespace, 0),
      (record) => (record?.until ?? Infinity) <= Date.now(),
    );
    const again = await granted(careful, claim({ workerId: 0 }));
    expect(again.from).toBeLessThanOrEqual(again.clock);
  });

  test("a band of one's own: westid in 0 to 511, everybody else in 512 to 1023, open at once", async () => {
    for (let pid = 1; pid <= 512; pid++) await new JavaPeer(client, pid).take(pid - 1);
    const before = await foreignKeys();
    const pool = { first: 512, last: 1023 };
    const grants: Grant[] = [];
    // Where all of them ask at once, a busy machine sends the last ones after their clocks are too old.
    for (let i = 0; i < 512; i += 32) {
      grants.push(...(await Promise.all(Array.from({ length: 32 }, () => granted(registry, claim({ pool }))))));
    }
    expect(grants.map(({ workerId }) => workerId).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 512 }, (_, i) => 512 + i),
    );
    expect(grants.every(({ from, clock }) => from <= clock)).toBe(true);
    expect(await registry.claim(claim({ pool }))).toMatchObject({ outcome: "exhausted", pool });
    expect(await foreignKeys()).toEqual(before);
    expect(await registry.workers(namespace, { state: "foreign" })).toHaveLength(512);
  });

  test("numbers of a pool that begins at 0 go back to westid, though more of another pool have rested longer", async () => {
    const careful = await openRedis(server.url("?beside=westid"));
    onTestFinished(() => careful.close());
    for (let workerId = 512; workerId < 812; workerId++) await granted(careful, claim({ workerId, window: 1 }));
    const pool = { first: 0, last: 511 };
    await granted(careful, claim({ pool, window: 1 }));
    await eventually(
      () => careful.worker(namespace, 0),
      (record) => (record?.until ?? Infinity) + skew < Date.now(),
    );
    const holder = { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" };
    expect(await granted(careful, claim({ pool, holder }))).toMatchObject({ workerId: 1 });
    expect(await client.exists("workerId:use:0")).toBe(0);
  });

  test("what westid left is found again when nothing else is free, wherever it was met first", async () => {
    const peers = Array.from({ length: 200 }, (_, i) => new JavaPeer(client, i + 1));
    for (const peer of peers) await peer.start();
    // Whoever may have any of these has met them all, in this order.
    const low = { first: 0, last: 99 };
    const high = { first: 100, last: 199 };
    for (const pool of [low, high])
      expect(await registry.claim(claim({ pool }))).toMatchObject({ outcome: "exhausted" });
    await peers[150]?.leave();
    // A few of them are looked at each time.
    const found = await eventually(
      () => registry.claim(claim({ pool: high })),
      ({ outcome }) => outcome === "granted",
    );
    expect(found).toMatchObject({ workerId: 150 });
    expect(await registry.claim(claim({ pool: low }))).toMatchObject({ outcome: "exhausted" });
  });

  test.each([1, 2, 3, 4, 5, 6])(
    "side by side at random, run %i: nothing of westid's is touched, and no window meets its time",
    async (seed) => {
      const random = randomFrom(seed);
      const careful = await openRedis(server.url("?beside=westid"));
      onTestFinished(() => careful.close());
      const live: { key: ClaimKey; from: number; until: number }[] = [];
      const peers: { peer: JavaPeer; since: number }[] = [];
      /** When whom may have used a number: [from, until). */
      const javaSpans: { workerId: number; from: number; until: number }[] = [];
      const windows: { workerId: number; from: number; until: number }[] = [];
      const pool = { first: 0, last: 23 };
      // A clock that is ahead as far as a clock may be.
      const javaNow = (): number => Date.now() + skew - 1;
      let pid = 0;

      for (let step = 0; step < 600; step++) {
        const before = await foreignKeys();
        const action = random(10);
        if (action < 4) {
          const wanted = random(3) === 0 ? random(24) : undefined;
          const holder = { host: `h${random(3)}`, ip: "10.0.0.1", pid: 5000 + step, instance: "" };
          const request = claim({ pool, workerId: wanted, holder, window: 20 + random(60), clock: Date.now() });
          const answer = await careful.claim(request);
          if (answer.outcome === "granted") {
            expect(before.has(`workerId:use:${answer.workerId}`)).toBe(false);
            live.push({ key: keyOf(request, answer), from: answer.from, until: answer.until });
            windows.push({ workerId: answer.workerId, from: answer.from, until: answer.until });
          }
        } else if (action < 6 && live.length > 0) {
          const held = live[random(live.length)];
          if (held === undefined) continue;
          const answer = await registry.renew({ ...held.key, clock: Date.now(), window: 20 + random(60) });
          const { workerId } = held.key;
          if (answer.outcome === "renewed") windows.push({ workerId, from: held.from, until: answer.until });
        } else if (action < 8 && live.length > 0) {
          const [held] = live.splice(random(live.length), 1);
          if (held === undefined) continue;
          const used = random(2) === 0 ? { until: held.from } : undefined;
          await registry.release({ ...held.key, clock: Date.now(), used });
        } else if (action === 8 && peers.length < 12) {
          const peer = new JavaPeer(client, ++pid, "10.0.0.1");
          const since = Date.now();
          await peer.start();
          peers.push({ peer, since });
          continue;
        } else if (peers.length > 0) {
          const [gone] = peers.splice(random(peers.length), 1);
          const workerId = gone?.peer.workerId ?? -1;
          javaSpans.push({ workerId, from: gone?.since ?? 0, until: javaNow() + 1 });
          await gone?.peer.leave();
          continue;
        }
        expect(await foreignKeys()).toEqual(before);
      }
      for (const { peer, since } of peers) {
        javaSpans.push({ workerId: peer.workerId ?? -1, from: since, until: javaNow() + 1 });
      }
      expect(windows.length).toBeGreaterThan(100);
      expect(javaSpans.length).toBeGreaterThan(20);
      // A westid that came first to a number that we had left opens there by its own clock; what is ours comes after it, always.
      const met = windows.filter(({ workerId, from, until }) =>
        javaSpans.some(
          (span) => span.workerId === workerId && from >= span.from && from < span.until && until > span.from,
        ),
      );
      expect(met).toEqual([]);
    },
  );
});
