import { afterEach, beforeEach, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { examine } from "../../src/ops/doctor/doctor.ts";
import type { ClaimKey, ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { besideJava } from "./beside-java.ts";
import { claimRequest, granted, keyOf } from "./claims.ts";
import { eventually } from "./holder.ts";

const layout = defaultLayout.fingerprint;
const skew = 1000;
/** The same number of worker IDs as Java processes have. */
const pool = { first: 0, last: 7 };
export const numbers: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];
export const elsewhere = { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" };

/** A store that Java processes of westid use, too. */
interface SharedStore {
  /** Prepares the store for a namespace that never existed. Returns its name. */
  fresh(): Promise<string>;
  url(query: string): string;
  open(query: string): Promise<Registry>;
  /** The worker IDs that a Java process finds taken. */
  taken(namespace: string): Promise<number[]>;
  java(namespace: string): {
    readonly workerId: number | undefined;
    start(last: number): Promise<number>;
    leave(): Promise<void>;
  };
}

/** Other tools for the tests of one store. */
interface ReturnsTools {
  readonly registry: Registry;
  readonly namespace: string;
  claim(wish?: Partial<ClaimRequest>): ClaimRequest;
  taken(): Promise<number[]>;
  crash(count: number): Promise<ClaimKey[]>;
  outlast(): Promise<void>;
  keyFor(keys: readonly ClaimKey[], n: number): ClaimKey;
}

/** Tests of worker IDs that go back to Java processes, on any store. Several stores may run them at the same time. */
export function testReturns(store: SharedStore): ReturnsTools {
  let namespace: string;
  let registry: Registry;

  beforeEach(async () => {
    namespace = await store.fresh();
    registry = await store.open("?beside=westid");
    await registry.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
  });
  afterEach(() => registry.close());

  const taken = (): Promise<number[]> => store.taken(namespace);

  const claim = (wish: Partial<ClaimRequest> = {}): ClaimRequest =>
    claimRequest({ namespace, pool, window: 300, ...wish });

  /** How many free worker IDs look taken to a Java process, according to `doctor`. */
  async function looksTaken(): Promise<string | undefined> {
    const found = await examine({ open: () => store.open(""), namespace, named: true, now: Date.now });
    const { detail = "" } = found.find(({ check }) => check === "pool") ?? {};
    return / (\d+) free ones still look taken to Java/.exec(detail)?.[1];
  }

  /** Claims worker IDs, and gives none back, like holders that are killed. */
  async function crash(count: number, from: Registry = registry, within = pool): Promise<ClaimKey[]> {
    const requests = Array.from({ length: count }, () => claim({ pool: within, window: 1000 }));
    return Promise.all(requests.map(async (request) => keyOf(request, await granted(from, request))));
  }

  /** Waits until no clock can show a time in any window any more. */
  async function outlast(): Promise<void> {
    const ends = (await registry.workers(namespace)).map(({ until }) => until);
    await eventually(
      async () => (await registry.ping()).clock,
      (clock) => clock > Math.max(...ends) + skew,
    );
  }

  const keyFor = (keys: readonly ClaimKey[], n: number): ClaimKey => {
    const found = keys.find(({ workerId }) => workerId === n);
    if (found === undefined) throw new Error(`nobody held ${n}`);
    return found;
  };

  test("a Java process starts again once holders of ours are gone: a few numbers go back with each claim", async () => {
    await crash(8);
    await expect(store.java(namespace).start(pool.last)).rejects.toThrow("used up");
    await outlast();
    expect(await looksTaken()).toBe("8");
    const { workerId } = await granted(registry, claim({ holder: elsewhere, window: 60_000 }));
    const left = await taken();
    expect(left).toContain(workerId);
    expect(left).toHaveLength(4);
    expect(await looksTaken()).toBe("3");
    const java = store.java(namespace);
    expect(left).not.toContain(await java.start(pool.last));
    expect(await registry.worker(namespace, java.workerId ?? -1)).toMatchObject({ state: "foreign" });
  });

  test("none goes back while a clock may show a time in its window", async () => {
    await crash(7);
    const claimed = await eventually(
      async () => {
        const { clock } = await registry.ping();
        const before = await registry.workers(namespace);
        await registry.claim(claim({ holder: elsewhere, workerId: 7, window: 20 }));
        const late = (await registry.ping()).clock;
        const left = new Set(await taken());
        for (const { workerId, until } of before)
          if (!left.has(workerId)) expect(until + skew).toBeLessThanOrEqual(late);
        return clock - Math.min(...before.map(({ until }) => until));
      },
      (since) => since > skew + 1000,
    );
    expect(claimed).toBeGreaterThan(skew);
    expect(await taken()).not.toContain(0);
  });

  test("the claims that follow give back the rest; such a number is claimed again when nothing else is left, and opens late", async () => {
    const keys = await crash(8);
    await outlast();
    const ids = [];
    for (let i = 0; i < 3; i++)
      ids.push((await granted(registry, claim({ holder: elsewhere, window: 60_000 }))).workerId);
    expect(await taken()).toEqual(ids.toSorted((a, b) => a - b));
    const before = await registry.workers(namespace);
    const late = await granted(registry, claim({ holder: elsewhere }));
    expect(ids).not.toContain(late.workerId);
    expect(late.from).toBeGreaterThanOrEqual(late.clock + skew);
    expect(late.from).toBeLessThanOrEqual(late.clock + skew + 1000);
    expect(late.from).toBeGreaterThan(before.find(({ workerId }) => workerId === late.workerId)?.until ?? Infinity);
    expect(late.fence).toBeGreaterThan(keyFor(keys, late.workerId).fence);
  });

  test.for([
    ["none was ever seen and none is said to be there", "", pool],
    ["the pool begins above the numbers that they take first", "?beside=westid", { first: 2, last: 7 }],
  ] as const)("where %s, numbers stay as they are", async ([, query, within], { onTestFinished }) => {
    namespace = await store.fresh();
    const open = await store.open(query);
    onTestFinished(() => open.close());
    await open.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
    await crash(within.last - within.first + 1, open, within);
    const before = await taken();
    await outlast();
    await granted(open, claim({ pool: within, holder: elsewhere }));
    expect(await taken()).toEqual(before);
  });

  test("a renewal and the claims that give its number back: one of them comes first", async ({ onTestFinished }) => {
    const other = await store.open("");
    onTestFinished(() => other.close());
    for (let round = 0; round < 3; round++) {
      const keys = await crash(8);
      await outlast();
      const claims = [0, 1].map(() => registry.claim(claim({ holder: elsewhere })));
      const renewals = await Promise.all(keys.map((key) => other.renew({ ...key, clock: Date.now(), window: 60_000 })));
      await Promise.all(claims);
      const left = await taken();
      for (const [i, { workerId, fence }] of keys.entries()) {
        if (renewals[i]?.outcome !== "renewed") continue;
        expect(left).toContain(workerId);
        expect(await registry.worker(namespace, workerId)).toMatchObject({ state: "live", fence });
        await registry.forceRelease({ namespace, workerId, fence, force: true, resetWindow: true });
      }
      await outlast();
    }
  });

  test("IDs of both, with clocks as far apart as they may be: not one twice", async () => {
    const made = await besideJava({
      url: store.url(`?beside=westid&namespace=${namespace}`),
      skew,
      start: async () => {
        const java = store.java(namespace);
        await java.start(3);
        return { workerId: java.workerId ?? -1, leave: () => java.leave() };
      },
    });
    expect(made.starts).toBeGreaterThanOrEqual(4);
    expect(new Set(made.ids).size).toBe(made.ids.length);
  });

  return {
    get registry() {
      return registry;
    },
    get namespace() {
      return namespace;
    },
    claim,
    taken,
    crash,
    outlast,
    keyFor,
  };
}
