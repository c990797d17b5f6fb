import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { assumedLimits, defaultLimits } from "../../src/rule/limits.ts";
import { examine } from "../../src/ops/doctor/doctor.ts";
import { endQuarantine as endQuarantineIn, quarantineReport } from "../../src/ops/quarantine.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace, passQuarantine, quarantineOf, timesOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const layout = defaultLayout.fingerprint;
/** How long a server waits that knows nothing of a namespace any more. */
const longest = assumedLimits.maxWindow + 2 * assumedLimits.maxClockSkew;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis that may have forgotten", () => {
  let server: RedisServer;
  let registry: Registry;
  let holders: Holders;
  let url: string;

  async function begin(options?: readonly string[]): Promise<void> {
    server = await RedisServer.start(options);
    url = server.url("?maxLag=0");
    registry = await openRedis(url);
    await init(registry);
  }

  beforeEach(() => {
    holders = new Holders();
  });
  afterEach(async () => {
    await holders.kill();
    await registry.close();
    await server.remove();
  });

  async function restart(): Promise<void> {
    await server.kill();
    await server.start();
  }

  /** Ten minutes that the test does not wait for. */
  const endQuarantine = (): Promise<number> => passQuarantine(server);

  test("an operator sees a quarantine of which the server has only a note, and can end it before and after the namespace is made", async () => {
    server = await RedisServer.start();
    registry = await openRedis(server.url("?maxLag=0"));
    const skew = { noted: assumedLimits.maxClockSkew, made: limits.maxClockSkew };
    for (const kind of ["noted", "made"] as const) {
      const name = `${namespace}_${kind}`;
      const { details } = await failure(registry.claim(claimRequest({ namespace: name })));
      const noted = await quarantineReport(registry, name, Date.now);
      const { era = "", until } = details as { era?: string; until?: number };
      expect(noted).toMatchObject({ id: undefined, era, quarantineUntil: until });

      if (kind === "made") await registry.init({ namespace: name, layout, ...limits });
      expect(await quarantineReport(registry, name, Date.now)).toMatchObject({ era, quarantineUntil: until });
      const other = endQuarantineIn(registry, { namespace: name, era: `${era}0` });
      expect(await failure(other)).toMatchObject({ code: "CONFIG_INVALID" });
      expect((await quarantineReport(registry, name, Date.now)).quarantineUntil).toBe(until);
      await endQuarantineIn(registry, { namespace: name, era });
      const ended = await quarantineReport(registry, name, Date.now);
      expect(ended).toMatchObject({ era, quarantineEnd: expect.any(Number) as number });
      expect(ended.quarantineUntil).toBeLessThanOrEqual(ended.clock + 2 * skew[kind] + 1);
    }
  });

  test("the command for a namespace that may be new ends nothing once a holder has proved that it is not", async () => {
    await begin();
    const request = claimRequest({ window: limits.maxWindow });
    const grant = await granted(registry, request);
    const { receipt } = grant;
    await server.client().flushall();
    const newcomer = await failure(registry.claim(claimRequest({ window: 500 })));
    expect(newcomer.message).toMatch(/ holds nothing of namespace .* it is new, or .*, or if none ever did, run `/);
    const renewal = { ...keyOf(request, grant), clock: Date.now(), window: 500, receipt };
    const proved = await failure(registry.renew(renewal));
    expect(proved.message).toMatch(/ has no namespace .*, and a holder proves that it had one: (?!.*none ever did)/);
    const { era = "" } = newcomer.details as { era?: string };
    const late = endQuarantineIn(registry, { namespace, era });
    expect(await failure(late)).toMatchObject({ code: "CONFIG_INVALID" });
    // From now on a newcomer is told of it, too, and asking again begins no other quarantine.
    const { until, era: present } = (await failure(registry.claim(claimRequest({ window: 500 })))).details;
    expect([until, present]).toEqual([proved.details["until"], proved.details["era"]]);
    const again = await failure(registry.renew({ ...renewal, clock: Date.now() }));
    expect([again.details["until"], again.details["era"]]).toEqual([until, present]);
  });

  test("killed with -9 and started again with all it had: nothing is granted or renewed until every window has passed", async () => {
    await begin();
    const options = { pool: "0-2" };
    const running = [await holders.run(url, options), await holders.run(url, options)];
    const crashed = await holders.run(url, options);
    await sleep(400);
    await crashed.holder.kill();
    const killed = Date.now();
    await restart();
    const hasty = holders.add(url, options);
    await expect(hasty.ask("start")).rejects.toMatchObject({ code: "QUARANTINE" });
    // It waits, and gets the number of the one that crashed: the only one that nobody has.
    const patient = holders.add(url, { ...options, claimTimeout: 20_000 });
    const started = patient.ask("start");

    const ends: number[] = [];
    for (const { holder, begun } of running) {
      const stopped = await eventually(
        () => holder.ask("state"),
        ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
      );
      expect(stopped).toMatchObject({ state: "held", fence: begun.fence });
      expect(stopped.events).toContainEqual(expect.objectContaining({ name: "renew-failed", code: "QUARANTINE" }));
      ends.push(stopped.until);
    }
    const quarantine = await quarantineOf(server);
    expect(quarantine).toBeGreaterThanOrEqual(killed + limits.maxWindow + 2 * limits.maxClockSkew);

    for (const [i, { holder, begun }] of running.entries()) {
      const back = await eventually(
        () => holder.ask("state"),
        ({ until }) => until > quarantine,
      );
      expect(back).toMatchObject({ state: "held", workerId: begun.workerId, fence: begun.fence });
      expect(back.from).toBeGreaterThanOrEqual(quarantine);
      await eventually(
        async () => timesOf(holder),
        (times) => (times.at(-1) ?? 0) >= quarantine,
      );
      // It used its window to the end, and nothing behind it.
      const times = timesOf(holder);
      expect(times.some((time) => time > killed)).toBe(true);
      expect(times.filter((time) => time >= (ends[i] ?? 0) && time < quarantine)).toEqual([]);
      // Whoever asks later is told who made each of these, before and behind.
      const rows = await registry.history(namespace, begun.workerId);
      expect(rows.map(({ fence, end }) => [fence, end])).toEqual([1, 2].map(() => [begun.fence, undefined]));
      const untold = times.filter((time) => !rows.some(({ from, until }) => from <= time && time < until));
      expect(untold).toEqual([]);
    }
    const late = await started;
    expect(late.workerId).toBe(crashed.begun.workerId);
    expect(late.from).toBeGreaterThanOrEqual(quarantine);
    expect(late.fence).toBeGreaterThan(quarantine);
    await patient.ask("make", { count: 1000 });
    await holders.expectDistinct();
  });

  test("a holder that is idle all the while goes on after it, and gives back", async () => {
    await begin();
    const idle = holders.add(url);
    const begun = await idle.ask("start");
    await idle.ask("make", { count: 1000 });
    await restart();
    const quarantine = await eventually(
      () => quarantineOf(server),
      (end) => end > 0,
    );
    const renewedBy = async (time: number): Promise<void> => {
      await eventually(
        () => idle.ask("state"),
        ({ until }) => until > time,
      );
    };
    // Renewed twice at least: what it says it has used is still what it used before.
    await renewedBy(quarantine + 2 * limits.maxWindow);
    const made = await idle.ask("make", { count: 1000 });
    expect(made).toMatchObject({ workerId: begun.workerId, fence: begun.fence });
    expect(made.error).toBeUndefined();
    const another = holders.add(url);
    expect((await another.ask("start")).workerId).not.toBe(begun.workerId);
    await idle.ask("close");
    expect(await registry.worker(namespace, begun.workerId)).toMatchObject({ state: "free", clean: true });

    // Idle from its claim on, it gives back what it never used.
    await restart();
    const next = await eventually(
      () => quarantineOf(server),
      (end) => end > quarantine,
    );
    await eventually(
      () => another.ask("state"),
      ({ until }) => until > next,
    );
    await another.ask("close");
    await holders.expectDistinct();
  });

  test.each(["started again with nothing saved", "flushed"])("%s: renewals begin the quarantine too", async (how) => {
    await begin(["--appendonly", "no"]);
    const { holder, begun } = await holders.run(url);
    await sleep(200);
    if (how === "flushed") await server.client().flushall();
    else await restart();
    // Nobody claims: it must not take a newcomer for the holder to ever go on.
    await eventually(
      () => holder.ask("state"),
      ({ events }) => events.some(({ code }) => code === "QUARANTINE"),
    );
    expect(await quarantineOf(server)).toBeGreaterThan(Date.now() + longest - 60_000);
    const { details } = await failure(registry.claim(claimRequest()));
    expect(details.retryAfterMs).toBeGreaterThan(longest - 60_000);
    await eventually(
      () => holder.ask("state"),
      ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
    );

    const ended = await endQuarantine();
    const back = await eventually(
      () => holder.ask("state"),
      ({ events }) => events.some(({ name }) => name === "switched"),
    );
    expect(back.events).toContainEqual(expect.objectContaining({ name: "lost", code: "LEASE_LOST" }));
    expect(back.from).toBeGreaterThanOrEqual(ended);
    expect(back.fence).toBeGreaterThan(Math.max(ended, begun.fence));
    await holder.ask("make", { count: 1000 });
    await holders.expectDistinct();
  });

  test("flushed: the doctor says what the next claim meets", async () => {
    await begin();
    await server.client().flushall();
    const findings = await examine({ open: () => openRedis(url), named: true, namespace, now: Date.now });
    expect(findings.find(({ check }) => check === "namespace")).toMatchObject({
      status: "warn",
      detail: expect.stringContaining("a first claim starts a quarantine") as string,
    });
    expect(await failure(registry.claim(claimRequest()))).toMatchObject({ code: "QUARANTINE" });
  });

  test("without its `meta`: a quarantine as long as any may have to be, and no right to continue behind it", async () => {
    await begin();
    const { holder, begun } = await holders.run(url, { pool: "0-0" });
    const [request, at] = [claimRequest({ workerId: 1, window: 500 }), Date.now()];
    const grant = await granted(registry, request);
    const recents = { from: grant.from, bytes: Uint8Array.of(1) };
    await registry.release({ ...keyOf(request, grant), clock: at, used: { until: grant.from + 1, recents } });
    await server.client().del(`workerId/${namespace}:meta`);
    // Not even one that was told other limits makes it shorter.
    await registry.init({ namespace, layout, maxWindow: 500, maxClockSkew: 1000 });
    const { code, details } = await failure(registry.claim(claimRequest({ window: 500 })));
    expect(code).toBe("QUARANTINE");
    expect(details.retryAfterMs).toBeGreaterThan(longest - 60_000);
    await eventually(
      () => holder.ask("state"),
      ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
    );

    const ended = await endQuarantine();
    // The namespace now has windows of 500 ms at most, and this holder asks for longer ones.
    expect((await failure(registry.claim(claimRequest({ window: limits.maxWindow })))).code).toBe("CONFIG_INVALID");
    const next = await granted(registry, claimRequest({ workerId: 1, window: 500 }));
    expect(next).toMatchObject({ workerId: 1 });
    expect(next.recents).toBeUndefined();
    expect(next.from).toBeGreaterThanOrEqual(ended);
    expect(next.fence).toBeGreaterThan(ended);
    expect((await holder.ask("state")).fence).toBe(begun.fence);
    await holders.expectDistinct();
  });

  test("without the record of one worker ID: its holder loses the lease, and nobody gets the number", async () => {
    await begin();
    const { holder, begun } = await holders.run(url, { pool: "0-1", operationTimeout: 10_000 });
    // Its renewal would prove that the record is gone, and begin a quarantine.
    holder.signal("SIGSTOP");
    await server.client().del(`workerId/${namespace}:window:${begun.workerId}`);
    const refusal = await registry.claim(claimRequest({ workerId: begun.workerId, window: 500 }));
    holder.signal("SIGCONT");
    expect(refusal).toMatchObject({ outcome: "foreign", workerId: begun.workerId });
    const back = await eventually(
      () => holder.ask("state"),
      ({ workerId }) => workerId !== begun.workerId,
    );
    expect(back.events).toContainEqual(expect.objectContaining({ name: "lost", code: "LEASE_LOST" }));
    // Its next window begins later than usual: by now, whoever keeps no window may have been seen to take numbers here.
    const before = holder.ids().length;
    await eventually(
      async () => holder.ids().length,
      (count) => count > before + 1000,
    );
    const only = { first: begun.workerId, last: begun.workerId };
    expect(await registry.claim(claimRequest({ pool: only, window: 500 }))).toMatchObject({ outcome: "exhausted" });
    await holders.expectDistinct();
  });

  test("who never heard that its window was raised behind it gives back all the same, and the number rests", async () => {
    await begin();
    const at = Date.now();
    const request = claimRequest({ window: 1000 });
    const grant = await granted(registry, request);
    const key = keyOf(request, grant);
    await restart();
    const ask = { ...key, clock: at, window: 1000 };
    expect((await failure(registry.renew(ask))).code).toBe("QUARANTINE");
    const quarantine = await quarantineOf(server);
    await sleep(quarantine - Date.now());
    expect(await registry.renew({ ...ask, clock: Date.now() })).toMatchObject({ outcome: "renewed" });
    // That answer was lost.
    const checkpoint = { timestamp: grant.until - 2, sequence: 7 };
    const recents = { from: grant.from, bytes: Uint8Array.of(1) };
    const used = { until: grant.until - 1, checkpoint, recents };
    expect(await registry.release({ ...key, clock: Date.now(), used })).toEqual({ outcome: "released" });
    const record = await registry.worker(namespace, grant.workerId);
    expect(record).toMatchObject({ clean: false, releasedAt: expect.any(Number) });
    expect(record?.from).toBeGreaterThanOrEqual(quarantine);
    expect(record?.until).toBeGreaterThan(quarantine);
  });

  test("a clean give-back before it is continued by nobody after it", async () => {
    await begin();
    const at = Date.now();
    const request = claimRequest({ window: 1000 });
    const grant = await granted(registry, request);
    const recents = { from: grant.from, bytes: Uint8Array.of(1) };
    await registry.release({ ...keyOf(request, grant), clock: at, used: { until: grant.until, recents } });
    await restart();
    const back = claimRequest({ clock: at, window: 1000, workerId: grant.workerId });
    expect((await failure(registry.claim(back))).code).toBe("QUARANTINE");
    const quarantine = await quarantineOf(server);
    await sleep(quarantine - Date.now());
    const next = await granted(registry, claimRequest({ window: 1000, workerId: grant.workerId }));
    expect(next.recents).toBeUndefined();
    expect(next.from).toBeGreaterThanOrEqual(quarantine);
    expect(next.fence).toBeGreaterThan(quarantine);
  });

  test("`init` ends no quarantine, whatever it is told", async () => {
    await begin();
    await granted(registry, claimRequest({ window: 500 }));
    await restart();
    const claim = (): Promise<unknown> => registry.claim(claimRequest({ window: 500 }));
    async function expectKept(): Promise<void> {
      await registry.init({ namespace, layout, ...limits });
      expect((await failure(claim())).code).toBe("QUARANTINE");
      expect((await failure(init(registry))).code).toBe("CONFIG_INVALID");
      expect((await failure(claim())).code).toBe("QUARANTINE");
    }
    expect((await failure(claim())).code).toBe("QUARANTINE");
    await expectKept();
    // Not even before anybody has noticed the restart.
    await restart();
    await expectKept();

    await server.client().flushall();
    expect((await failure(claim())).code).toBe("QUARANTINE");
    await expectKept();
    await server.client().flushall();
    await expectKept();
    // Where nothing is recorded it is an operator's word that counts.
    await server.client().flushall();
    await init(registry);
    expect(await claim()).toMatchObject({ outcome: "granted", fence: 1 });
  });

  test("windows of a namespace without limits are waited for while it is known, and those of any once it is not", async () => {
    await begin();
    const waits = async (claim: Partial<ClaimRequest> = {}): Promise<number> => {
      const { code, details } = await failure(registry.claim(claimRequest({ namespace: "usual", ...claim })));
      expect(code).toBe("QUARANTINE");
      return details.retryAfterMs as number;
    };
    const usual = defaultLimits.maxWindow + 2 * defaultLimits.maxClockSkew;
    expect([usual, longest]).toEqual([140_000, 620_000]);
    for (const make of [
      () => registry.init({ namespace: "usual", layout, new: true }),
      () => granted(registry, claimRequest({ namespace: "usual" })),
    ]) {
      await make();
      expect(await registry.describe("usual")).toMatchObject(defaultLimits);
    }
    await restart();
    const known = await waits();
    expect(known).toBeLessThanOrEqual(usual);
    expect(known).toBeGreaterThan(usual - 60_000);

    await server.client().flushall();
    // No limits that a caller expects make it shorter.
    expect(await waits({ limits: { maxWindow: 5000 } })).toBeGreaterThan(longest - 60_000);
    // The namespace that is made anew is known, but not what was granted before.
    expect(await registry.init({ namespace: "usual", layout })).toMatchObject(defaultLimits);
    await restart();
    expect(await waits()).toBeGreaterThan(longest - 60_000);
    await passQuarantine(server, "usual");
    expect(await granted(registry, claimRequest({ namespace: "usual", window: 120_000 }))).toBeDefined();
    const { code } = await failure(registry.claim(claimRequest({ namespace: "usual", window: 120_001 })));
    expect(code).toBe("CONFIG_INVALID");
  });

  test("a claim after a quarantine makes the namespace with the usual limits, not with those that were assumed", async () => {
    await begin();
    const claim = (window: number): ClaimRequest => claimRequest({ namespace: "fresh", window });
    for (const window of [120_000, 120_001]) {
      expect((await failure(registry.claim(claim(window)))).code).toBe("QUARANTINE");
    }
    await passQuarantine(server, "fresh");
    expect((await failure(registry.claim(claim(120_001)))).code).toBe("CONFIG_INVALID");
    await granted(registry, claim(120_000));
    expect(await registry.describe("fresh")).toMatchObject(defaultLimits);
  });

  test("limits that a server which forgot them would not wait out are refused", async () => {
    await begin();
    for (const [name, value] of [
      ["maxWindow", assumedLimits.maxWindow + 1],
      ["maxClockSkew", assumedLimits.maxClockSkew + 1],
    ] as const) {
      const longer = { [name]: value };
      expect((await failure(registry.init({ namespace: "other", layout, ...longer }))).code).toBe("CONFIG_INVALID");
      const claim = claimRequest({ namespace: "other", limits: longer });
      expect((await failure(registry.claim(claim))).code).toBe("CONFIG_INVALID");
      expect(await registry.describe("other")).toBeUndefined();
    }
  });

  test("holders ask it some five times a window while it lasts, and all go on", async () => {
    await begin();
    const [window, count, measured] = [20_000, 100, 4000];
    await registry.init({ new: true, namespace: "many", layout, maxWindow: window, maxClockSkew: 2000 });
    const terms = { layout: defaultLayout, window, claimTimeout: 0, maxWait: 500, operationTimeout: 5000 } as const;
    const options = { ...terms, namespace: "many", pool: { first: 0, last: count - 1 }, holder: claimRequest().holder };
    const makeToken = (): string => randomBytes(16).toString("hex");
    const host = { registry, clock: systemClock, makeToken };
    const held = await Promise.all(
      Array.from({ length: count }, () => Lease.claim(host, { ...options, reuse: "any", onLost: "switch" })),
    );
    onTestFinished(async () => {
      await Promise.all(held.map((lease) => lease.orphan()));
    });
    const before = held.map(({ workerId, until }) => ({ workerId, until }));
    await restart();
    // Each is told of the quarantine, at once.
    expect(await Promise.all(held.map((lease) => lease.renew()))).toEqual(held.map(() => false));
    const client = server.client();
    const asked = async (): Promise<number> =>
      Number(/calls=(\d+)/.exec((await client.info("commandstats")).match(/cmdstat_evalsha:.*/)?.[0] ?? "")?.[1] ?? 0);
    const [begun, calls] = [Date.now(), await asked()];
    await sleep(measured);
    const windows = (Date.now() - begun) / window;
    expect((await asked()) - calls).toBeLessThan(count * 7 * windows);
    // It ends sooner than they were told, and before their windows do.
    await passQuarantine(server, "many");
    await eventually(
      async () => held.map(({ until }) => until),
      (ends) => ends.every((until, i) => until > (before[i]?.until ?? 0)),
    );
    expect(Date.now()).toBeLessThan(Math.min(...before.map(({ until }) => until)));
    expect(held.map(({ workerId, state }) => ({ workerId, state }))).toEqual(
      before.map(({ workerId }) => ({ workerId, state: "held" })),
    );
  });
});
