import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout, Layout } from "../../src/id/layout.ts";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";
import type { ClaimRequest, Grant, Lost, Refusal, Registry } from "../../src/rule/registry.ts";
import { storedToken } from "../../src/rule/token.ts";
import { snowlease } from "../../src/snowlease.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { namespace, passQuarantine } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const layout = defaultLayout.fingerprint;
/** More than one claim looks through. */
const size = 300;
const pool = { first: 512, last: 512 + size - 1 };
const newcomer = { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" };

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis whose indexes were deleted by hand", () => {
  let server: RedisServer;
  let registry: Registry;

  beforeEach(async () => {
    server = await RedisServer.start();
    registry = await openRedis(server.url("?maxLag=0"));
    await registry.init({ new: true, namespace, layout, maxWindow: 60_000, maxClockSkew: 500 });
  });
  afterEach(async () => {
    await registry.close();
    await server.remove();
  });

  const ask = (wish: Partial<ClaimRequest> = {}): ClaimRequest => claimRequest({ pool, window: 60_000, ...wish });

  /** Every number of the pool, claimed once. */
  async function useAll(window: number): Promise<Grant[]> {
    const grants: Grant[] = [];
    for (let workerId = pool.first; workerId <= pool.last; workerId++) {
      grants.push(await granted(registry, ask({ window, workerId })));
    }
    return grants;
  }

  async function forget(...patterns: string[]): Promise<void> {
    for (const pattern of patterns) {
      const keys = await server.client().keys(`workerId/${namespace}:${pattern}`);
      expect(keys).not.toEqual([]);
      await server.client().del(keys);
    }
  }

  /** Claims until one is granted or none is promised, as a caller with a `claimTimeout` does. */
  async function insist(wish: Partial<ClaimRequest> = {}): Promise<Grant | Lost | Refusal> {
    for (let tries = 0; ; tries++) {
      const answer = await registry.claim(ask({ holder: newcomer, ...wish, clock: Date.now() }));
      if (answer.outcome !== "exhausted" || answer.freeAt === undefined || answer.freeAt > answer.clock + 1000)
        return answer;
      expect(tries).toBeLessThan(size);
    }
  }

  test.each(["resting*", "resting*|host*"])(
    "%s: every number that is free is found again, each once",
    async (patterns) => {
      const grants = await useAll(1);
      await sleep(20);
      await forget(...patterns.split("|"));
      // Its holder lives, and files this one anew.
      const [first] = grants;
      const request = ask({ workerId: first?.workerId });
      const live = await granted(registry, request);
      const found = new Set<number>();
      for (let i = 1; i < size; i++) {
        const answer = await insist();
        if (answer.outcome !== "granted") throw new Error(`Number ${i} was refused: ${JSON.stringify(answer)}`);
        found.add(answer.workerId);
      }
      expect(found.size).toBe(size - 1);
      expect(found).not.toContain(live.workerId);
      expect(await insist()).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) as number });
    },
  );

  test("none is free yet: the answer says when the first will be, and none is granted before", async () => {
    const grants = await useAll(60_000);
    await forget("resting*", "host*");
    const soonest = Math.min(...grants.map(({ until }) => until));
    expect(await insist()).toMatchObject({ outcome: "exhausted", freeAt: soonest });
    const [grant] = grants;
    expect((await registry.worker(namespace, grant?.workerId ?? 0))?.fence).toBe(grant?.fence);
  });

  test("a program that leases gets a number", async () => {
    await useAll(1);
    await sleep(20);
    await forget("resting*", "host*");
    const url = server.url("?maxLag=0");
    const ids = await snowlease({ registry: url, namespace, pool: "512-811", window: 30_000, claimTimeout: 10_000 });
    expect(ids.lease.workerId).toBeGreaterThanOrEqual(pool.first);
    await ids.close();
  });

  test("pinned numbers and those of Java processes are granted to nobody all the same", async () => {
    await useAll(1);
    await sleep(20);
    await registry.pin(namespace, pool.first, "kept");
    await server.client().set(`workerId/${namespace}:use:${pool.first + 1}`, "811x10.0.0.7xalpha");
    await forget("resting*", "host*");
    const found = new Set<number>();
    for (;;) {
      const answer = await insist();
      if (answer.outcome !== "granted") break;
      found.add(answer.workerId);
    }
    expect(found.size).toBe(size - 2);
    for (const kept of [pool.first, pool.first + 1]) expect(found).not.toContain(kept);
  });

  test("a pool of which all are pinned is refused at once", async () => {
    for (let n = 0; n < 5; n++) await registry.pin(namespace, n, "kept");
    const answer = await registry.claim(ask({ pool: { first: 0, last: 4 } }));
    expect(answer).toMatchObject({ outcome: "exhausted" });
    expect(answer).not.toHaveProperty("freeAt", expect.anything());
  });

  test("the index of tokens names present claims alone, however the others ended", async () => {
    const requests = Array.from({ length: 6 }, () => ask({ workerId: 600, window: 1 }));
    for (const request of requests) {
      // It takes over from the one before.
      await granted(registry, { ...request, clock: Date.now() });
      await sleep(20);
    }
    const released = ask({ workerId: 601 });
    await registry.release({ ...keyOf(released, await granted(registry, released)), clock: Date.now() });
    await granted(registry, ask({ workerId: 602 }));
    await registry.forceRelease({ namespace, workerId: 602, force: true });
    const present = requests.at(-1)?.token ?? "";
    expect(await server.client().hgetall(`workerId/${namespace}:token`)).toEqual({ [storedToken(present)]: "600" });
  });

  test("`unused` is deleted: a quarantine, since records may have been, too; then every number is there", async () => {
    const request = ask({ workerId: 600 });
    const held = await granted(registry, request);
    await forget("unused");
    const { code } = await failure(registry.claim(ask()));
    expect(code).toBe("QUARANTINE");
    const now = await passQuarantine(server);
    const next = await granted(registry, ask());
    expect(next).toMatchObject({ workerId: pool.first });
    expect(next.from).toBeGreaterThanOrEqual(now);
    const renewal = await registry.renew({ ...keyOf(request, held), clock: Date.now(), window: 60_000 });
    expect(renewal).toMatchObject({ outcome: "renewed" });
    const others = new Set<number>();
    // One that waits for all others comes with a clock that seems to be behind.
    while (others.size < size - 2) others.add((await granted(registry, ask())).workerId);
    expect(await registry.claim(ask())).toMatchObject({ outcome: "exhausted" });
  });
});

describe.skipIf(redisMissing !== undefined)(
  redisMissing ?? "a pool in Redis that was narrowed to 1000 of 20,000 numbers",
  () => {
    const [wide, narrow] = [
      { first: 0, last: 19_999 },
      { first: 4000, last: 4999 },
    ];
    const whole = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000").fingerprint;
    let server: RedisServer;
    let registry: Registry;
    let hosts = 0;

    beforeAll(async () => {
      server = await RedisServer.start(["--appendonly", "no"]);
      registry = await openRedis(server.url("?maxLag=0"));
    });
    afterAll(async () => {
      await registry.close();
      await server.remove();
    });

    const ask = (inside: PoolBounds, name: string, host = `new-${hosts++}`): ClaimRequest =>
      claimRequest({ namespace: name, layout: whole, pool: inside, window: 60_000, holder: { ...newcomer, host } });

    /** Each number has a record, as claims from the wide pool left it: the first so many of the narrow one live, and all others, or free for long. */
    async function fill(name: string, live: number, outside: boolean, { first, last } = narrow): Promise<void> {
      await registry.init({ new: true, namespace: name, layout: whole });
      await granted(registry, { ...ask(wide, name), workerId: 0 });
      const script = `
      local prefix = KEYS[1]
      local record = cmsgpack.unpack(redis.call('HGET', prefix .. 'window:0', 'record'))
      local now = record['until']
      for n = 1, ${wide.last} do
        local inside = n >= ${first} and n <= ${last}
        local isLive = inside and n < ${first + live} or not inside and ${outside}
        record.host, record.from, record['until'] = 'host-' .. n % 100, n, isLive and now + 600000 + n or n
        -- As those are that go on unused outside: older than any inside, and some are pinned.
        record.pinned = not inside and n % 50 == 7 and 'kept' or nil
        redis.call('HSET', prefix .. 'window:' .. n, 'record', cmsgpack.pack(record), 'token', isLive and 't' .. n or '')
        if not record.pinned then
          redis.call('ZADD', prefix .. 'resting', record['until'], n)
          redis.call('ZADD', prefix .. 'host:' .. record.host, record['until'], n)
        end
      end
      redis.call('DEL', prefix .. 'unused')
      redis.call('ZADD', prefix .. 'unused', 9007199254740991, ${wide.last + 1})`;
      await server.client().eval(script, 1, `workerId/${name}:`);
    }

    /** How many commands the server does for something, those inside of scripts included. */
    async function commandsOf(work: () => Promise<unknown>): Promise<number> {
      const count = async (): Promise<number> =>
        [...(await server.client().info("commandstats")).matchAll(/calls=(\d+)/g)].reduce(
          (sum, [, n]) => sum + Number(n),
          0,
        );
      const before = await count();
      await work();
      return (await count()) - before;
    }

    test.each([
      { name: "full-free", live: 1000, outside: false },
      { name: "full-live", live: 1000, outside: true },
      { name: "half", live: 500, outside: true },
      { name: "empty", live: 0, outside: false },
    ])("$name: a claim looks at no number outside of it", async ({ name, live, outside }) => {
      await fill(name, live, outside);
      const got = new Set<number>();
      for (let i = 0; i < 10; i++) {
        const answer = await registry.claim(ask(narrow, name, "host-77"));
        expect(answer.outcome).toBe(live === 1000 ? "exhausted" : "granted");
        if (answer.outcome === "granted") got.add(answer.workerId);
      }
      let answer = await registry.claim(ask(narrow, name));
      for (; answer.outcome === "granted"; answer = await registry.claim(ask(narrow, name))) got.add(answer.workerId);
      expect(answer).toMatchObject({ outcome: "exhausted", freeAt: expect.any(Number) });
      expect(got.size).toBeLessThanOrEqual(1000 - live);
      expect(got.size).toBeGreaterThanOrEqual(1000 - live - 2);
      for (const workerId of got) expect(Math.floor(workerId / 1000)).toBe(4);
      // By number: no more than it has.
      expect(await commandsOf(() => registry.claim(ask(narrow, name)))).toBeLessThan(1200);
      // Widened again: what lay outside is found, with its windows.
      const again = await registry.claim(ask(wide, name));
      if (outside) expect(again).toMatchObject({ outcome: "exhausted" });
      else expect(again).toMatchObject({ outcome: "granted", fence: 2 });
      expect(await commandsOf(() => registry.claim(ask(wide, name)))).toBeLessThan(1200);
    });

    test("the last free number of a large pool is found behind all older ones of other pools, and then the pool is exhausted", async () => {
      // As many numbers as three scripts look at.
      const inside = { first: 15_000, last: 17_999 };
      await fill("large", 2999, false, inside);
      const grant = await granted(registry, ask(inside, "large"));
      expect(grant).toMatchObject({ workerId: inside.last, fence: 2 });
      const answer = await registry.claim(ask(inside, "large"));
      // The windows of all others end later.
      expect(answer).toMatchObject({ outcome: "exhausted", freeAt: grant.until });
    });

    test("records that were deleted by hand hide no free number behind them", async () => {
      const inside = { first: 0, last: 99 };
      await fill("hidden", 0, true, inside);
      const keys = Array.from({ length: 20 }, (_, n) => `workerId/hidden:window:${n}`);
      await server.client().del(keys);
      expect(await granted(registry, ask(inside, "hidden"))).toMatchObject({ workerId: 20, fence: 2 });
    });
  },
);
