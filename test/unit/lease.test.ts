import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import type { LeaseEvents } from "../../src/lease/events.ts";
import { layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseHost, type LeaseOptions } from "../../src/lease/lease.ts";
import type { Grant, Registry, Renewal } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { snowlease } from "../../src/snowlease.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

const window = 60_000;
const here = { host: "here", ip: "", pid: 1, instance: "" };
const elsewhere = { ...here, host: "elsewhere" };

let tokens = 0;

function claim(
  registry: Registry,
  clock: FakeClock,
  options: Partial<LeaseOptions> = {},
  host: Partial<LeaseHost> = {},
  signal?: AbortSignal,
): Promise<Lease> {
  return Lease.claim(
    { registry, clock, makeToken: () => (++tokens).toString(16).padStart(32, "0"), ...host },
    {
      namespace: "default",
      layout: layouts.westid,
      pool: { first: 0, last: 7 },
      window,
      claimTimeout: 0,
      maxWait: 500,
      operationTimeout: 1000,
      reuse: "any",
      onLost: "switch",
      holder: here,
      ...options,
    },
    signal,
  );
}

async function newWorld(): Promise<{ clock: FakeClock; registry: Registry }> {
  const clock = fakeClock();
  return { clock, registry: memoryRegistry({ clock }) };
}

/** An operator ends the claim and keeps its number back; the lease is told at its next renewal. */
async function takeAway(registry: Registry, lease: Lease): Promise<void> {
  const { workerId } = lease;
  await registry.pin("default", workerId, "taken away");
  await registry.forceRelease({ namespace: "default", workerId, force: true });
  await lease.renew();
}

/** Names of the events as they come. */
function namesOf(lease: Lease): string[] {
  const names: string[] = [];
  const all: (keyof LeaseEvents)[] = ["renewed", "renew-failed", "lost", "switched", "released", "clock.jump"];
  for (const name of all) lease.on(name, () => names.push(name));
  return names;
}

/** A registry that does not answer while it is cut off. */
function cutOff(registry: Registry): Registry & { off: boolean } {
  const cut = { ...registry, off: false };
  const unless = <Request, Answer>(call: (request: Request) => Promise<Answer>) => {
    return async (request: Request): Promise<Answer> => {
      if (cut.off) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is cut off.");
      return call(request);
    };
  };
  return Object.assign(cut, {
    claim: unless(registry.claim),
    renew: unless(registry.renew),
    release: unless(registry.release),
  });
}

describe("console.log", () => {
  it("shows what a lease has, and no token", async () => {
    const { clock, registry } = await newWorld();
    const lease = await claim(registry, clock);
    const shown = inspect(lease);
    expect(shown).toMatch(/^Lease \{\s+state: 'held',\s+namespace: 'default',\s+workerId: 0,\s+fence: 1,\s+from: '20/);
    expect(shown).not.toMatch(/[\da-f]{32}/);
    expect(Object.keys(lease)).toEqual([]);
    await lease.close();
    expect(inspect({ lease })).toContain("state: 'closed'");
  });
});

describe("a lease", () => {
  it("is renewed after a third of its window, again and again", async () => {
    const { clock, registry } = await newWorld();
    const lease = await claim(registry, clock);
    const { until } = lease;
    await clock.advance(window / 3 - 1);
    expect(lease.until).toBe(until);
    await clock.advance(1);
    expect(lease.until).toBe(until + window / 3);
    await clock.advance(10 * window);
    expect(lease.until).toBe(until + window / 3 + 10 * window);
    await lease.orphan();
  });

  it.each([
    [119_997, 39_999],
    [120_000, 40_000],
    [600_000, 40_000],
  ])("of a window of %i ms is renewed after %i ms: 40 s at the latest", async (length, due) => {
    const { clock, registry } = await newWorld();
    await registry.init({ namespace: "default", layout: layouts.westid.fingerprint, maxWindow: 600_000 });
    const lease = await claim(registry, clock, { window: length });
    for (let i = 0; i < 3; i++) {
      const { until } = lease;
      await clock.advance(due - 1);
      expect(lease.until).toBe(until);
      await clock.advance(1);
      expect(lease.until).toBe(clock.now() + length);
    }
    await lease.orphan();
  });

  it("fails closed when the registry does not answer, and goes on when it does", async () => {
    const { clock, registry } = await newWorld();
    const cut = cutOff(registry);
    const ids = new Snowflake(await claim(cut, clock));
    const names = namesOf(ids.lease);
    cut.off = true;
    await clock.advance(window - 1);
    expect(() => ids.next()).not.toThrow();
    await clock.advance(1);
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "LEASE_EXPIRED", retryable: true }));
    expect(new Set(names)).toEqual(new Set(["renew-failed"]));
    cut.off = false;
    await clock.advance(1000);
    expect(() => ids.next()).not.toThrow();
    expect(ids.lease).toMatchObject({ state: "held", fence: 1 });
    await ids.close();
  });

  it("moves to another worker ID when it is lost, as one thing", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock));
    const names = namesOf(ids.lease);
    const first = ids.next();
    await takeAway(registry, ids.lease);
    await clock.advance(0);
    expect(names).toEqual(["lost", "switched"]);
    expect(ids.lease).toMatchObject({ state: "held", workerId: 1, fence: 1 });
    expect(layouts.westid.decompose(ids.next())).toMatchObject({ workerId: 1, sequence: 0 });
    expect(layouts.westid.decompose(first)).toMatchObject({ workerId: 0, sequence: 0 });
    const seen: LeaseEvents["acquired"][] = [];
    ids.lease.on("acquired", (event) => seen.push(event));
    expect(seen).toMatchObject([{ workerId: 1, fence: 1 }]);
    await ids.close();
  });

  it("ends when it is lost and may not move: its signal says so, and nothing more is made", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock, { onLost: "stop" }));
    await takeAway(registry, ids.lease);
    expect(ids.lease.state).toBe("lost");
    expect(ids.lease.signal.reason).toMatchObject({ code: "LEASE_LOST" });
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    await ids.close();
    expect(ids.lease.state).toBe("lost");
  });

  it("tries for as long as it takes to get another worker ID", async () => {
    const { clock, registry } = await newWorld();
    const pool = { first: 0, last: 1 };
    const other = new Snowflake(await claim(registry, clock, { pool }));
    const ids = new Snowflake(await claim(registry, clock, { pool }));
    await takeAway(registry, ids.lease);
    await clock.advance(5000);
    expect(ids.lease.state).toBe("switching");
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "LEASE_EXPIRED", retryable: true }));
    await other.close();
    await clock.advance(3000);
    expect(ids.lease.state).toBe("held");
    expect(ids.lease.workerId).toBe(other.lease.workerId);
    await ids.close();
  });

  it("takes no notice of a renewal that is answered after it has moved", async () => {
    const { clock, registry } = await newWorld();
    const answers: ((answer: Renewal) => void)[] = [];
    const slow = { ...registry, renew: () => new Promise<Renewal>((resolve) => answers.push(resolve)) };
    const ids = new Snowflake(await claim(slow, clock), { rollback: { maxTell: 10_000 } });
    ids.next();
    void ids.lease.renew();
    clock.step(-11_000 - 5000);
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "CLOCK_ROLLBACK" }));
    await clock.advance(0);
    expect(ids.lease).toMatchObject({ state: "held", workerId: 1 });
    const { until } = ids.lease;
    answers[0]?.({ outcome: "renewed", from: 0, until: until + 1e6, clock: clock.now() });
    await clock.advance(0);
    expect(ids.lease.until).toBe(until);
    await ids.close();
  });

  it("is renewed at once when the clock has stepped past its window", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock));
    await clock.advance(1100);
    clock.step(120_000);
    await clock.advance(1000);
    expect(() => ids.next()).not.toThrow();
    await ids.close();
  });

  it("is renewed in time when it was granted less than it asked for", async () => {
    const { clock, registry } = await newWorld();
    const held = await claim(registry, clock, { window: 3000 });
    const lender = leaseServer(held, new SharedUsageTracker(held, true));
    const lease = await claim(lender, clock);
    const ids = new Snowflake(lease, { share: await LeaseClient.open(lease) });
    for (let second = 0; second < 20; second++) {
      await clock.advance(1000);
      expect(() => ids.next()).not.toThrow();
    }
    await ids.close();
  });
});

describe("a lease whose window opened later than it was granted", () => {
  it("is renewed at once: so the registry learns that the window is in use", async () => {
    const { clock, registry } = await newWorld();
    await registry.init({ namespace: "default", layout: layouts.westid.fingerprint, maxClockSkew: 10_000 });
    await registry.pin("default", 3, "kept", { ip: "192.0.2.3" });
    const holder = { ...here, ip: "192.0.2.3" };
    const claiming = claim(registry, clock, { holder, openTimeout: 10_000 });
    await clock.advance(10_000);
    const lease = await claiming;
    expect(await registry.worker("default", 3)).toMatchObject({ from: clock.now(), seenClock: clock.now() - 10_000 });
    await clock.advance(1);
    expect((await registry.worker("default", 3))?.seenClock).toBeGreaterThanOrEqual(lease.from);
    await lease.close();
  });
});

describe("the end of a lease", () => {
  it("comes once, however often it is asked for, and ends what was opened for it", async () => {
    const { clock, registry } = await newWorld();
    let ends = 0;
    const lease = await claim(registry, clock, {}, { onEnd: async () => void ends++ });
    const names = namesOf(lease);
    await Promise.all([lease.close(), lease.close(), lease.orphan()]);
    await clock.advance(5 * window);
    expect(names).toEqual(["released"]);
    expect(ends).toBe(1);
    expect(await registry.worker("default", 0)).toMatchObject({ state: "free", fence: 1 });
  });

  it("hands nothing out any more, though the registry cannot be told", async () => {
    const { clock, registry } = await newWorld();
    const cut = cutOff(registry);
    let ends = 0;
    const ids = new Snowflake(await claim(cut, clock, {}, { onEnd: async () => void ends++ }));
    ids.next();
    cut.off = true;
    const closing = ids.close();
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    await expect(closing).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(ends).toBe(1);
    expect(await registry.worker("default", 0)).toMatchObject({ state: "live", clean: false });
  });

  it("leaves the worker ID to rest when it is orphaned", async () => {
    const { clock, registry } = await newWorld();
    const lease = await claim(registry, clock);
    const { until } = lease;
    await lease.orphan();
    await clock.advance(window - 1);
    expect(await registry.worker("default", 0)).toMatchObject({ state: "live", until, clean: false });
    await clock.advance(1);
    expect(await registry.worker("default", 0)).toMatchObject({ state: "free", until });
  });

  it("while another worker ID is being claimed gives that one back, unused", async () => {
    const { clock, registry } = await newWorld();
    const granted: (() => void)[] = [];
    let slow = false;
    const held = {
      ...registry,
      async claim(request: Parameters<Registry["claim"]>[0]) {
        const answer = await registry.claim(request);
        if (slow) await new Promise<void>((resolve) => granted.push(resolve));
        return answer;
      },
    };
    const lease = await claim(held, clock);
    slow = true;
    await takeAway(registry, lease);
    expect(lease.state).toBe("switching");
    const closing = lease.close();
    await clock.advance(0);
    for (const go of granted) go();
    await closing;
    expect(await registry.worker("default", 1)).toMatchObject({ state: "free", clean: true });
    await clock.advance(5 * window);
    expect(await registry.workers("default", { state: "live" })).toEqual([]);
  });

  it("of a claim that nobody waits for any more gives the grant back, recents and all", async () => {
    const { clock, registry } = await newWorld();
    const before = new Snowflake(await claim(registry, clock));
    before.next();
    await before.close();
    const stored = await registry.worker("default", 0);
    const stop = new AbortController();
    const late = {
      ...registry,
      async claim(request: Parameters<Registry["claim"]>[0]) {
        const answer = await registry.claim(request);
        stop.abort(new Error("nobody waits"));
        return answer;
      },
    };
    await expect(claim(late, clock, {}, {}, stop.signal)).rejects.toThrow("nobody waits");
    expect(await registry.worker("default", 0)).toMatchObject({ state: "free", clean: true, recents: stored?.recents });
  });

  it("is not called clean when an operator had ended the claim", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock));
    ids.next();
    const names = namesOf(ids.lease);
    await registry.forceRelease({ namespace: "default", workerId: 0, force: true });
    await ids.close();
    expect(names).toEqual([]);
    expect(await registry.worker("default", 0)).toMatchObject({ clean: false });
  });
});

describe("listeners that act", () => {
  it("may close the lease on a rollback: the next holder repeats nothing", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock));
    const made = [ids.next()];
    await clock.advance(2000);
    made.push(ids.next());
    let closing: Promise<void> | undefined;
    ids.lease.on("clock.rollback", () => {
      closing = ids.close();
    });
    clock.step(-2000);
    made.push(ids.next());
    await clock.advance(0);
    await closing;
    expect(() => ids.next()).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    const next = new Snowflake(await claim(registry, clock, { workerId: 0, holder: elsewhere }));
    for (let i = 0; i < 3; i++) made.push(next.next());
    expect(new Set(made).size).toBe(6);
    await next.close();
  });

  it("may make IDs on a rollback", async () => {
    const { clock, registry } = await newWorld();
    const ids = new Snowflake(await claim(registry, clock));
    const made = [ids.next()];
    await clock.advance(2000);
    made.push(ids.next());
    ids.lease.on("clock.rollback", () => made.push(ids.next()));
    clock.step(-1500);
    made.push(ids.next());
    await clock.advance(0);
    expect(new Set(made).size).toBe(4);
    expect(made).toHaveLength(4);
    await ids.close();
  });

  it("may close the lease when it is lost", async () => {
    for (const onLost of ["switch", "stop"] as const) {
      const { clock, registry } = await newWorld();
      const lease = await claim(registry, clock, { onLost });
      let closing: Promise<void> | undefined;
      lease.on("lost", () => {
        closing = lease.close();
      });
      await takeAway(registry, lease);
      await clock.advance(0);
      await closing;
      expect(lease.state).toBe(onLost === "switch" ? "closed" : "lost");
      await clock.advance(5 * window);
      expect(await registry.workers("default", { state: "live" })).toEqual([]);
    }
  });
});

describe("a registry's answers", () => {
  const changes: Partial<Grant>[] = [
    { workerId: 1024 },
    { workerId: -1 },
    { workerId: 1.5 },
    { until: Number.NaN },
    { until: 0 },
    { from: Number.NaN },
    { from: Infinity },
    { fence: Number.NaN },
    { recents: { from: Number.MAX_SAFE_INTEGER, bytes: Uint8Array.of(1) } },
  ];
  for (const change of changes) {
    it(`that make no sense lease nothing: ${inspect(change)}`, async () => {
      const { clock, registry } = await newWorld();
      const broken: Registry = {
        ...registry,
        claim: async (request) => ({ ...(await registry.claim(request)), ...change }) as Grant,
      };
      await expect(claim(broken, clock)).rejects.toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    });
  }

  it("that make no sense renew nothing", async () => {
    const { clock, registry } = await newWorld();
    const broken: Registry = {
      ...registry,
      renew: async () => ({ outcome: "renewed", from: 0, until: Number.NaN, clock: 0 }),
    };
    const lease = await claim(broken, clock);
    const { until } = lease;
    expect(await lease.renew()).toBe(false);
    expect(lease.until).toBe(until);
    await lease.close();
  });

  /** Worker 1 was used by a holder before, and what is told of its recents cannot be read, or cannot be true. */
  function garbled(registry: Registry, bytes: Uint8Array): Registry {
    return {
      ...registry,
      async claim(request) {
        const answer = await registry.claim(request);
        return answer.outcome === "granted" && answer.recents !== undefined
          ? { ...answer, recents: { ...answer.recents, bytes } }
          : answer;
      },
    };
  }

  const unreadable = [
    Uint8Array.of(),
    Uint8Array.of(2),
    Uint8Array.of(1, 128),
    Uint8Array.of(1, 0, 255, 255, 3),
    Uint8Array.of(1, 255, 255, 255, 255, 7, 0),
  ];
  for (const bytes of unreadable) {
    it(`with recents that are worth nothing (${bytes.join(" ")}) are not taken for "nothing was used"`, async () => {
      const { clock, registry } = await newWorld();
      const before = new Snowflake(await claim(registry, clock, { workerId: 1 }));
      const used = [before.next(), before.next(), before.next()];
      await before.close();
      const ids = new Snowflake(await claim(garbled(registry, bytes), clock, { workerId: 1 }));
      // The tick is the one that the holder before used, and its recents are all that tells where to go on.
      expect(() => ids.next()).toThrow(expect.objectContaining({ code: "WINDOW_NOT_OPEN", retryable: true }));
      await clock.advance(1);
      expect(used).not.toContain(ids.next());
      await ids.close();
      expect(await registry.worker("default", 1)).toMatchObject({ state: "free", clean: true });
    });
  }

  it("with recents that are worth nothing leave snowlease() usable", async () => {
    const { clock, registry } = await newWorld();
    const before = new Snowflake(await claim(registry, clock, { workerId: 1 }));
    before.next();
    await before.close();
    await clock.advance(1);
    const ids = await snowlease({ registry: garbled(registry, Uint8Array.of(2)), clock, workerId: 1 });
    expect(() => ids.next()).not.toThrow();
    await ids.close();
  });
});
