import { randomBytes } from "node:crypto";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { systemClock } from "../../src/clock.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry, RenewRequest } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace, passQuarantine, quarantineOf, timesOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { eventually, type HolderProcess, type HolderState } from "../support/holder.ts";
import { copyOfKeys, dumped } from "../support/redis-copy.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const layout = defaultLayout.fingerprint;
const token = (): string => randomBytes(16).toString("hex");

/** An older copy of a server's data. */
type PutBack = () => Promise<void>;

const keysOf = (names: string): string => `workerId/${namespace}:${names}`;

/** Ways in which an operator puts an older copy back. Each makes the copy, and returns how to put it back. */
const restores: readonly {
  readonly how: string;
  readonly copy: (server: RedisServer) => Promise<PutBack>;
  /** Claims that the copy does not know are gone. */
  readonly isWhole: boolean;
}[] = [
  {
    how: "all keys by RESTORE, in the place of the present ones",
    isWhole: true,
    copy: (server) => copyOfKeys(server, keysOf("*")),
  },
  {
    how: "`meta` and the records alone by RESTORE with REPLACE",
    isWhole: false,
    async copy(server) {
      const values = [...(await dumped(server, keysOf("meta"))), ...(await dumped(server, keysOf("window:*")))];
      return async () => {
        for (const [key, value] of values) await server.client().restore(key, 0, value, "REPLACE");
      };
    },
  },
  {
    how: "all keys by RESTORE, after FLUSHALL",
    isWhole: true,
    async copy(server) {
      const values = await dumped(server, keysOf("*"));
      return async () => {
        const steps = server.client().multi().flushall();
        for (const [key, value] of values) steps.restore(key, 0, value);
        await steps.exec();
      };
    },
  },
  {
    how: "an RDB file that the running server loads",
    isWhole: true,
    async copy(server) {
      await server.client().save();
      return async () => {
        await server.client().call("DEBUG", "RELOAD", "NOSAVE");
      };
    },
  },
  {
    how: "an RDB file, with a restart, which Redis itself shows",
    isWhole: true,
    async copy(server) {
      const file = join(server.process.folder, "dump.rdb");
      await server.client().save();
      copyFileSync(file, `${file}.old`);
      return async () => {
        await server.kill();
        copyFileSync(`${file}.old`, file);
        await server.start();
      };
    },
  },
];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that an older copy was put back into", () => {
  let server: RedisServer;
  let registry: Registry;
  let holders: Holders;
  let url: string;

  beforeEach(async () => {
    holders = new Holders();
    server = await RedisServer.start(["--appendonly", "no", "--enable-debug-command", "yes"]);
    url = server.url("?maxLag=0");
    registry = await openRedis(url);
  });
  afterEach(async () => {
    await holders.kill();
    await registry.close();
    await server.remove();
  });

  const eraOf = async (): Promise<string | undefined> => (await registry.describe(namespace))?.era;

  /** Waits until a holder's window reaches a time. */
  const reaches = (holder: HolderProcess, time: number): Promise<HolderState> =>
    eventually(
      () => holder.ask("state"),
      ({ until }) => until > time,
    );

  /** Waits until a holder met an error. */
  const met = (holder: HolderProcess, code: string): Promise<HolderState> =>
    eventually(
      () => holder.ask("state"),
      ({ events }) => events.some((event) => event.code === code),
    );

  test.each(restores)("$how: a renewal begins one quarantine, and no ID is made twice", async ({ copy, isWhole }) => {
    await init(registry);
    const { holder: old, begun } = await holders.run(url, { pool: "0-0" });
    const putBack = await copy(server);
    const era = await eraOf();
    // The copy lacks a renewal of this holder, and the claim of the next one.
    await reaches(old, begun.until);
    const copied = await old.ask("state");
    await reaches(old, copied.until);
    const { holder: young, begun: unknown } = await holders.run(url, { pool: "8-9" });
    await putBack();

    await old.ask("renew");
    await met(old, "QUARANTINE");
    const quarantine = await quarantineOf(server);
    expect(quarantine).toBeGreaterThan(Math.max(unknown.until, Date.now()));
    const present = await eraOf();
    expect(present).not.toBe(era);
    // The number of the young holder is free in the copy.
    for (const workerId of [unknown.workerId, 5]) {
      expect((await failure(registry.claim(claimRequest({ workerId, window: 500 })))).code).toBe("QUARANTINE");
    }
    // With the young holder's number it would have taken over, before that one asks.
    const newcomer = holders.add(url, { pool: "9-9", claimTimeout: 20_000 });
    const started = await newcomer.ask("start");
    await newcomer.ask("run");
    expect(started.from).toBeGreaterThanOrEqual(quarantine);
    expect(started.fence).toBeGreaterThan(quarantine);
    const back = await reaches(old, quarantine);
    expect(back).toMatchObject({ state: "held", workerId: begun.workerId, fence: begun.fence });
    expect(back.from).toBeGreaterThanOrEqual(quarantine);
    const after = await reaches(young, quarantine);
    const lost = after.events.filter(({ name }) => name === "lost").map(({ reason }) => reason);
    expect(lost).toEqual(isWhole ? ["forgotten"] : []);
    // The evidence of both is covered by the one quarantine.
    expect([await eraOf(), await quarantineOf(server)]).toEqual([present, quarantine]);
    await sleep(300);
    await holders.expectDistinct();
  });

  test("a number that was granted twice: the older holder ends at its next renewal, and says which times are in doubt", async () => {
    await init(registry);
    const putBack = await restores[0]?.copy(server);
    const { holder: older, begun } = await holders.run(url, { pool: "8-8", onLost: "stop" });
    await older.ask("pause");
    // Else its next renewal may come before the claim, and begin the quarantine.
    older.signal("SIGSTOP");
    await putBack?.();
    const wish = claimRequest({ workerId: 8, window: limits.maxWindow });
    const twin = await granted(registry, wish);
    older.signal("SIGCONT");
    expect(twin).toMatchObject({ workerId: begun.workerId, fence: begun.fence });
    const { events } = await met(older, "LEASE_LOST");
    const loss = events.find(({ name }) => name === "lost");
    expect(loss?.reason).toBe("forgotten");
    expect(loss?.doubt?.from).toBeLessThanOrEqual(Math.min(...timesOf(older)));
    expect(loss?.doubt?.until).toBeLessThanOrEqual(twin.until);
    expect((await older.ask("make", { count: 1 })).error?.code).toBe("LEASE_LOST");
    // The other one keeps its window, and no more than that.
    const renewal = { ...keyOf(wish, twin), window: limits.maxWindow };
    const { code } = await failure(registry.renew({ ...renewal, clock: Date.now(), receipt: twin.receipt }));
    expect(code).toBe("QUARANTINE");
    await passQuarantine(server);
    expect(await registry.renew({ ...renewal, clock: Date.now(), receipt: twin.receipt })).toMatchObject({
      outcome: "renewed",
    });
  });

  test("the receipts of holders that are older than the copy, or were given back since, begin nothing", async () => {
    await registry.init({ new: true, namespace, layout });
    const asked = claimRequest({ window: 60_000 });
    const grant = await granted(registry, asked);
    const renewal: RenewRequest = { ...keyOf(asked, grant), clock: Date.now(), window: 60_000, receipt: grant.receipt };
    const turn = token();
    const { receipt } = (await registry.renew({ ...renewal, nextTurn: turn })) as { receipt?: string };
    const other = claimRequest({ window: 60_000 });
    const given = await granted(registry, other);
    const before = await registry.describe(namespace);
    const putBack = await restores[0]?.copy(server);
    await granted(registry, claimRequest({ window: 60_000 }));
    await registry.release({ ...keyOf(other, given), clock: Date.now(), receipt: given.receipt });
    await putBack?.();
    expect(await registry.renew({ ...renewal, turn, nextTurn: token(), receipt })).toMatchObject({
      outcome: "renewed",
    });
    expect(await registry.release({ ...keyOf(other, given), clock: Date.now(), receipt: given.receipt })).toEqual({
      outcome: "released",
    });
    expect(await registry.claim(claimRequest({ recall: receipt, window: 60_000 }))).toMatchObject({
      outcome: "granted",
    });
    expect(await registry.describe(namespace)).toEqual(before);
  });

  test("a claim that recalls a forgotten lease begins the quarantine, even by a wrong clock", async () => {
    await init(registry);
    const putBack = await restores[0]?.copy(server);
    const { receipt: recall, until } = await granted(registry, claimRequest({ window: limits.maxWindow }));
    const era = await eraOf();
    await putBack?.();
    const wrong = claimRequest({ recall, window: 500, clock: Date.now() + 60_000 });
    for (const claim of [wrong, claimRequest({ window: 500 })]) {
      expect((await failure(registry.claim(claim))).code).toBe("QUARANTINE");
    }
    expect(await eraOf()).not.toBe(era);
    expect(await quarantineOf(server)).toBeGreaterThan(until);
  });

  test("an operator ends the quarantine: fences are above that time, and no late evidence begins another", async () => {
    await registry.init({ new: true, namespace, layout, maxWindow: 600_000, maxClockSkew: 500 });
    const asked = claimRequest({ window: 600_000 });
    const grant = await granted(registry, asked);
    const putBack = await restores[0]?.copy(server);
    const forgotten = claimRequest({ window: 600_000 });
    const young = await granted(registry, forgotten);
    const renewal = { ...keyOf(asked, grant), window: 600_000 };
    const { receipt } = (await registry.renew({ ...renewal, clock: Date.now() })) as { receipt?: string };
    await putBack?.();
    const { code, details } = await failure(registry.renew({ ...renewal, clock: Date.now(), receipt }));
    expect([code, details.retryAfterMs]).toEqual(["QUARANTINE", expect.any(Number)]);
    expect(details.retryAfterMs).toBeGreaterThan(540_000);
    const { era = "", quarantineEnd = 0 } = (await registry.describe(namespace)) ?? {};
    const end = (name: string) => registry.endQuarantine?.({ namespace, era: name });
    expect((await failure(end("1-a") ?? Promise.resolve())).code).toBe("CONFIG_INVALID");
    const ended = await end(era);
    expect(ended).toMatchObject({ era, quarantineEnd });
    await sleep(Math.max(0, (ended?.quarantineUntil ?? 0) - Date.now()) + 20);
    const back = await registry.renew({ ...renewal, clock: Date.now(), receipt });
    expect(back).toMatchObject({ outcome: "renewed", from: ended?.quarantineUntil });
    const late = { ...keyOf(forgotten, young), window: 600_000, receipt: young.receipt };
    expect(await registry.renew({ ...late, clock: Date.now() })).toEqual({ outcome: "lost", reason: "forgotten" });
    expect((await granted(registry, claimRequest({ window: 1000 }))).fence).toBe((ended?.quarantineUntil ?? 0) + 1);
    expect(await registry.describe(namespace)).toMatchObject({ era, quarantineEnd });
  });

  test("two copies of one holder: the second to renew is lost", async () => {
    await registry.init({ new: true, namespace, layout });
    const one = token();
    // Copies have one token; each draws its turns by itself.
    const copied: Registry = {
      ...registry,
      claim: (asked) => registry.claim({ ...asked, token: one }),
      renew: (asked) => registry.renew({ ...asked, token: one }),
    };
    const host = { registry: copied, clock: systemClock, makeToken: token };
    const terms = {
      layout: defaultLayout,
      window: 60_000,
      claimTimeout: 0,
      maxWait: 500,
      operationTimeout: 5000,
    } as const;
    const options = { ...terms, namespace, pool: defaultLayout.pool, holder: claimRequest().holder };
    const copies: Lease[] = [];
    for (let i = 0; i < 2; i++) copies.push(await Lease.claim(host, { ...options, reuse: "any", onLost: "stop" }));
    onTestFinished(async () => {
      await Promise.all(copies.map((lease) => lease.orphan()));
    });
    const [first, second] = copies;
    if (first === undefined || second === undefined) throw new Error("There are two.");
    expect([second.workerId, second.fence]).toEqual([first.workerId, first.fence]);
    const lost: unknown[] = [];
    second.on("lost", ({ reason }) => lost.push(reason));
    expect([await first.renew(), await first.renew(), await second.renew()]).toEqual([true, true, false]);
    expect([lost, second.state, first.state]).toEqual([["cloned"], "lost", "held"]);
    expect(await first.renew()).toBe(true);
    // An image from before the first renewal gets nothing of the renewed window.
    const again = claimRequest({ token: one });
    expect(await registry.claim(again)).toEqual({ outcome: "lost", reason: "cloned" });
  });

  test("nothing is left: a give-back is answered at once, and makes nothing", async () => {
    await init(registry);
    const asked = claimRequest({ window: limits.maxWindow });
    const grant = await granted(registry, asked);
    await server.client().flushall();
    const release = { ...keyOf(asked, grant), clock: Date.now(), receipt: grant.receipt };
    expect(await registry.release(release)).toEqual({ outcome: "lost", reason: "forgotten" });
    expect(await server.client().keys("*")).toEqual([]);
  });

  test("a namespace that was made anew after a flush, by an operator's word: the first renewal shows that it is not new", async () => {
    await init(registry);
    const asked = claimRequest({ workerId: 0, window: limits.maxWindow });
    const grant = await granted(registry, asked);
    await server.client().flushall();
    await init(registry);
    // The number is taken as if its holder's window had passed: only the id of the namespace shows that this is another one.
    const first = claimRequest({ workerId: 0, window: limits.maxWindow });
    const { from, ...given } = await granted(registry, first);
    await registry.release({ ...keyOf(first, { from, ...given }), clock: Date.now(), used: { until: from } });
    const twin = await granted(registry, claimRequest({ workerId: 0, window: limits.maxWindow }));
    expect(twin.fence).toBeGreaterThan(grant.fence);
    const renewal = { ...keyOf(asked, grant), window: limits.maxWindow, clock: Date.now(), receipt: grant.receipt };
    expect(await registry.renew(renewal)).toEqual({
      outcome: "lost",
      reason: "forgotten",
      doubt: {
        from: grant.until - limits.maxWindow - limits.maxClockSkew,
        until: Math.min(twin.until, grant.until),
      },
    });
    expect((await failure(registry.claim(claimRequest({ window: 500 })))).code).toBe("QUARANTINE");
    expect(await quarantineOf(server)).toBeGreaterThan(grant.until);
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that was replaced, and does not know yet", () => {
  const quick = ["--repl-diskless-sync-delay", "0"];
  let one: RedisServer;
  let other: RedisServer;
  let link: FaultProxy;
  const open: Registry[] = [];

  beforeEach(async () => {
    [one, other] = await Promise.all([RedisServer.start(quick), RedisServer.start(quick)]);
    link = await FaultProxy.start(one.port);
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((registry) => registry.close()));
    await link.stop();
    await Promise.all([one.remove(), other.remove()]);
  });

  async function opened(server: RedisServer, query: string, timeout = 1500): Promise<Registry> {
    const registry = await openRedis(server.url(`?maxLag=0${query}`), timeout);
    open.push(registry);
    return registry;
  }

  test.each([
    ["`wait`", "at first", "&wait=1", "0"],
    ["`wait`", "in an era that covers the evidence", "&wait=1", "0"],
    ["min-replicas-to-write", "at first", "", "2"],
    ["min-replicas-to-write", "in an era that covers the evidence", "", "2"],
  ])("with %s it tells no holder of the new one that its lease is forgotten, %s", async (_, when, query, replicas) => {
    const before = await opened(one, "");
    await before.init({ new: true, namespace, layout, maxWindow: 600_000, maxClockSkew: 2000 });
    await other.follow(link.port);
    const asked = claimRequest({ workerId: 0, window: 600_000 });
    const { fence } = await granted(before, asked);
    await one.client().wait(1, 0);
    link.set(blackHole);
    await other.promote();
    const after = await opened(other, "");
    expect((await failure(after.claim(claimRequest()))).code).toBe("QUARANTINE");
    await passQuarantine(other);
    await after.forceRelease({ namespace, workerId: 0, force: true, fence, resetWindow: true });
    const wish = claimRequest({ workerId: 0, window: 600_000 });
    const grant = await granted(after, wish);

    const renewal = { ...keyOf(wish, grant), window: 600_000, receipt: grant.receipt };
    if (when !== "at first") {
      // Without either, an old primary cannot be told from one that was put back.
      expect(await before.renew({ ...renewal, clock: Date.now() })).toMatchObject({ reason: "forgotten" });
    }
    await one.client().config("SET", "min-replicas-to-write", replicas);
    const late = await opened(one, query);
    expect((await failure(late.renew({ ...renewal, clock: Date.now() }))).code).toBe("REGISTRY_UNAVAILABLE");
    expect(await after.renew({ ...renewal, clock: Date.now() })).toMatchObject({ outcome: "renewed" });
  });

  test("an older copy put back while a replica follows: the replica has the era, and its promotion begins its own", async () => {
    const registry = await opened(one, "&wait=1");
    await other.follow(one.port);
    await init(registry);
    const asked = claimRequest({ window: limits.maxWindow });
    const grant = await granted(registry, asked);
    const putBack = await restores[0]?.copy(one);
    const renewal = { ...keyOf(asked, grant), window: limits.maxWindow };
    const { receipt } = (await registry.renew({ ...renewal, clock: Date.now() })) as { receipt?: string };
    await putBack?.();
    expect((await failure(registry.renew({ ...renewal, clock: Date.now(), receipt }))).code).toBe("QUARANTINE");
    const { era, quarantineEnd = 0 } = (await registry.describe(namespace)) ?? {};
    await one.client().wait(1, 0);
    expect(await other.client().hmget(`workerId/${namespace}:meta`, "era", "opensAt")).toEqual([
      era,
      `${quarantineEnd}`,
    ]);
    await one.kill();
    await other.promote();
    const after = await opened(other, "");
    expect((await failure(after.renew({ ...renewal, clock: Date.now(), receipt }))).code).toBe("QUARANTINE");
    const promoted = (await after.describe(namespace)) ?? {};
    expect(promoted).toMatchObject({ quarantineEnd: expect.any(Number) });
    // The same evidence begins nothing more.
    expect((await failure(after.renew({ ...renewal, clock: Date.now(), receipt }))).code).toBe("QUARANTINE");
    expect(await after.describe(namespace)).toEqual(promoted);
    // `quarantineEnd` says what is covered.
    await other.client().hset(`workerId/${namespace}:meta`, "opensAt", Date.now());
    expect(await after.renew({ ...renewal, clock: Date.now(), receipt })).toMatchObject({ outcome: "renewed" });
  });
});
