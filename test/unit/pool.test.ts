import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";
import { look, type Decision, type PoolRead, type PoolView } from "../../src/rule/pool.ts";
import { decideClaim } from "../support/decide-claim.ts";
import type { ClaimRequest, HolderLabel } from "../../src/rule/registry.ts";
import type { Stored } from "../../src/rule/window.ts";
import { MemoryRecords } from "../../src/registries/memory/records.ts";

const info = { id: "0f", layout: "a", maxWindow: 600_000, maxClockSkew: 10_000 };
const now = 1_700_000_000_000;
const era = { era: "1-a", quarantineEnd: 0, opensAt: 0 };
const state = { ...era, info, clock: now };

function on(host: string): HolderLabel {
  return { host, ip: "192.0.2.1", pid: 1, instance: "" };
}

function request(options: Partial<ClaimRequest> = {}): ClaimRequest {
  const pool = { first: 0, last: 3 };
  const holder = on("alpha");
  return { namespace: "orders", token: "new", pool, holder, clock: now, window: 60_000, layout: "a", ...options };
}

/** A record whose window ended one second ago. */
function free(workerId: number, options: Partial<Stored> = {}): Stored {
  const until = now - 1000;
  return {
    workerId,
    fence: 1,
    from: 0,
    until,
    seenClock: until,
    clean: true,
    knownFrom: until,
    holder: on("beta"),
    era: era.era,
    ...options,
  };
}

/** The same, held for another minute. */
function held(workerId: number, options: Partial<Stored> = {}): Stored {
  return free(workerId, { token: `t${workerId}`, until: now + 60_000, clean: false, ...options });
}

/** Records as a plain list: what an index has to be equal to. */
class PlainView implements PoolView {
  readonly #records: readonly Stored[];

  constructor(records: readonly Stored[]) {
    this.#records = records;
  }

  byToken(token: string): Stored | undefined {
    return this.#records.find((record) => record.token === token);
  }

  byId(workerId: number): Stored | undefined {
    return this.#records.find((record) => record.workerId === workerId);
  }

  firstUnused({ first, last }: PoolBounds): number | undefined {
    for (let id = first; id <= last; id++) if (this.byId(id) === undefined) return id;
    return undefined;
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return this.#sorted(pool).slice(0, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#ofHost(pool, host).slice(0, limit);
  }

  pinnedFor({ first, last }: PoolBounds, ip: string, limit: number): readonly Stored[] {
    const kept = this.#records.filter(({ workerId, owner }) => owner === ip && workerId >= first && workerId <= last);
    return kept.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId).slice(0, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#ofHost(pool, host).at(-1);
  }

  #ofHost(pool: PoolBounds, host: string): readonly Stored[] {
    return this.#sorted(pool).filter(({ holder }) => holder?.host === host);
  }

  #sorted({ first, last }: PoolBounds): readonly Stored[] {
    const inPool = this.#records.filter(({ workerId, pinned }) => {
      return pinned === undefined && workerId >= first && workerId <= last;
    });
    return inPool.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
  }
}

/** A view that answers only the reads of one batch. */
function batchView(view: PoolView, reads: readonly PoolRead[]): PoolView {
  const named = reads.map((read) => JSON.stringify(read));
  return new Proxy(view, {
    get: (_, name: keyof PoolView) => {
      return (...input: unknown[]): unknown => {
        expect(named).toContain(JSON.stringify([name, ...input]));
        return (view[name] as (...input: unknown[]) => unknown).apply(view, input);
      };
    },
  });
}

/** A decision in one step. A store that reads in batches comes to the same. */
function decide(records: readonly Stored[], options: Partial<ClaimRequest> = {}, namespace = state): Decision {
  const view = new PlainView(records);
  const decision = decideClaim(view, request(options), namespace);
  let asked: readonly PoolRead[] = [];
  const inBatches = decideClaim(view, request(options), namespace, (reads) =>
    batchView(view, (asked = [...asked, ...reads])),
  );
  expect(inBatches).toEqual(decision);
  return decision;
}

/** The worker ID that is granted; how it is refused otherwise. */
function chosen(records: readonly Stored[], options: Partial<ClaimRequest> = {}): number | string {
  const { answer } = decide(records, options);
  return answer.outcome === "granted" ? answer.workerId : answer.outcome;
}

describe("which worker ID a claim gets", () => {
  it("the one it has, when its token asks again, whatever else it now asks for", () => {
    const records = [held(2, { token: "new", until: now - 5 })];
    const { answer, store } = decide(records, { workerId: 3, reuse: "never" });
    expect(answer).toMatchObject({ outcome: "granted", workerId: 2, fence: 1, until: now - 5 });
    expect(store).toBeUndefined();
  });

  it("none, when its token asks again after a quarantine, or after a renewal with a turn", () => {
    const held2 = held(2, { token: "new" });
    expect(decide([{ ...held2, turn: "t" }]).answer).toEqual({ outcome: "lost", reason: "cloned" });
    expect(decide([{ ...held2, era: "0-a" }]).answer).toEqual({ outcome: "lost", reason: "forgotten" });
    expect(decide([{ ...held2, era: "0-a", turn: "t" }]).answer).toEqual({ outcome: "lost", reason: "forgotten" });
    // Renewed by a holder that sends no turns.
    expect(decide([{ ...held2, renewals: 3 }]).answer).toMatchObject({ outcome: "granted", workerId: 2 });
  });

  it("with the receipt of what is stored, the same one when its token asks again", () => {
    const { answer, store } = decide([]);
    const limits = "600000.10000";
    const receipt = `1.0f.1-a.0.1.new.0.${now + 60_000}.${limits}`;
    expect(answer).toMatchObject({ outcome: "granted", receipt });
    expect(decide([store ?? held(0)]).answer).toMatchObject({ outcome: "granted", receipt });
    const renewed = held(0, { token: "new", renewals: 2, until: now + 90_000 });
    expect(decide([renewed]).answer).toMatchObject({ receipt: `1.0f.1-a.0.1.new.2.${now + 90_000}.${limits}` });
  });

  it("in a new era under a fence above its end, and with no turn or number of renewals of the claim before", () => {
    const later = { era: "2-a", quarantineEnd: now - 5, opensAt: now - 5, info, clock: now };
    const before = free(2, { renewals: 9, turn: "t", recents: { from: 0, bytes: Uint8Array.of(1) } });
    const { answer, store } = decide([before], { workerId: 2 }, later);
    expect(answer).toMatchObject({ outcome: "granted", fence: now - 4, from: now - 5 });
    expect(answer).not.toHaveProperty("recents");
    expect(store).toMatchObject({ era: "2-a", fence: now - 4, from: now - 5, knownFrom: now - 5, clean: false });
    expect([store?.turn, store?.renewals]).toEqual([undefined, undefined]);
    const same = decide([before], { workerId: 2 });
    expect([same.store?.turn, same.store?.renewals]).toEqual([undefined, undefined]);
  });

  it("in a new era, not one whose window has not passed, however it was given back", () => {
    const later = { era: "2-a", quarantineEnd: now - 5, opensAt: now - 5, info, clock: now };
    const ahead = free(2, { until: now + 500 });
    expect(decide([ahead], { workerId: 2, lead: 500 }).answer).toMatchObject({ outcome: "granted" });
    expect(decide([ahead], { workerId: 2, lead: 500 }, later).answer).toMatchObject({ outcome: "held" });
  });

  it("a preferred one, then one that its host used, then one never used, then the oldest", () => {
    const own = free(2, { holder: on("alpha") });
    const others = [free(0), free(1, { until: now - 2000 })];
    expect(chosen([own, ...others], { preferred: [0] })).toBe(0);
    expect(chosen([own, ...others])).toBe(2);
    expect(chosen(others)).toBe(2);
    expect(chosen([...others, free(2), free(3)])).toBe(1);
  });

  it("the first preferred one that is free and in the pool, of the first few", () => {
    expect(chosen([held(0), free(1, { pinned: "kept" })], { preferred: [0, 1, 7, 3] })).toBe(3);
    const many = Array.from({ length: look }, () => 0);
    expect(chosen([held(0)], { preferred: [...many, 3] })).toBe(1);
  });

  it("none that is pinned", () => {
    const pinned = [0, 1, 2].map((id) => free(id, { pinned: "kept", holder: on("alpha") }));
    expect(chosen(pinned)).toBe(3);
    expect(decide([...pinned, held(3)]).answer).toMatchObject({ outcome: "exhausted", freeAt: now + 60_000 });
    expect(decide([...pinned, free(3, { pinned: "kept" })]).answer).toMatchObject({
      outcome: "exhausted",
      freeAt: undefined,
    });
  });

  it("one further down the index, when a clock that was set back can only continue there", () => {
    const ahead = { until: now + 500, seenClock: now + 500 };
    const recents = { from: now - 100, bytes: Uint8Array.of(1) };
    const records = [0, 1, 2].map((id) => free(id, ahead));
    expect(chosen([...records, free(3, { until: now + 600, knownFrom: now - 100, recents })])).toBe(3);
  });

  it("none of a full pool, and when the first one comes free", () => {
    const full = [3, 1, 2, 4].map((minutes, id) => held(id, { until: now + minutes * 60_000 }));
    const pool = { first: 0, last: 3 };
    expect(decide(full)).toEqual({ answer: { outcome: "exhausted", pool, freeAt: now + 60_000, clock: now } });
    expect(decide(full, { workerId: 2 }).answer).toMatchObject({ outcome: "held", workerId: 2, freeAt: now + 120_000 });
  });

  it("with `reuse: never`, only one that nobody used", () => {
    const own = free(0, { holder: on("alpha") });
    expect(chosen([own], { reuse: "never", preferred: [0] })).toBe(1);
    const all = [0, 1, 2, 3].map((id) => free(id));
    expect(decide(all, { reuse: "never" }).answer).toEqual({
      outcome: "exhausted",
      pool: { first: 0, last: 3 },
      clock: now,
    });
  });

  it("tells of a rollback of its host, whichever worker ID it gets", () => {
    const own = held(0, { holder: on("alpha"), seenClock: now + 700 });
    expect(decide([own]).answer).toMatchObject({ outcome: "granted", workerId: 1, rollback: 700 });
    expect(decide([held(0, { seenClock: now + 700 })]).answer).not.toHaveProperty("rollback");
  });

  it("tells the store what to write, and over what", () => {
    const before = free(2);
    const { store } = decide([before], { workerId: 2 });
    expect(decide([before], { workerId: 2 }).before).toBe(before);
    expect(store).toMatchObject({ workerId: 2, fence: 2, token: "new", holder: on("alpha"), clean: false });
    expect(decide([before], { workerId: 1 }).before).toBeUndefined();
  });

  it("not a wanted one that was used, where numbers are disposable", () => {
    expect(decide([free(3)], { workerId: 3, reuse: "never" }).answer).toMatchObject({
      outcome: "exhausted",
      pool: { first: 3, last: 3 },
    });
    expect(decide([], { workerId: 3, reuse: "never" }).answer).toMatchObject({ outcome: "granted", workerId: 3 });
  });

  it("never one that is no integer", () => {
    for (const wrong of [1.5, Number.NaN]) expect(chosen([], { preferred: [wrong] })).toBe(0);
  });
});

/** The numbers that records have, and two more. */
const all = { first: 0, last: 14 };
const anyPool = fc
  .tuple(fc.nat(all.last), fc.nat(all.last))
  .map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));

const anyRecord = fc.record({
  workerId: fc.nat(12),
  until: fc.integer({ min: now - 3, max: now + 3 }),
  host: fc.constantFrom("alpha", "beta"),
  token: fc.option(fc.constantFrom("t0", "t1", "t2"), { nil: undefined }),
  pinned: fc.option(fc.constant("kept"), { nil: undefined }),
  forget: fc.boolean(),
});

describe("the memory registry's indexes", () => {
  it("answer like a plain list, after any changes", () => {
    fc.assert(
      fc.property(fc.array(anyRecord, { maxLength: 40 }), anyPool, fc.nat(9), (changes, pool, limit) => {
        const records = new MemoryRecords();
        const plain = new Map<number, Stored>();
        for (const { workerId, host, forget, ...rest } of changes) {
          if (forget) {
            records.forget(workerId);
            plain.delete(workerId);
            continue;
          }
          // A token has one worker ID.
          const taken = [...plain.values()].some((other) => other.token === rest.token && other.workerId !== workerId);
          const record = free(workerId, { ...rest, token: taken ? undefined : rest.token, holder: on(host) });
          records.put(record);
          plain.set(workerId, record);
        }
        const view = new PlainView([...plain.values()]);
        for (let id = 0; id <= 13; id++) expect(records.byId(id)).toBe(view.byId(id));
        for (const token of ["t0", "t1", "t2"]) expect(records.byToken(token)).toBe(view.byToken(token));
        expect(records.firstUnused(pool)).toBe(view.firstUnused(pool));
        expect(records.oldest(pool, limit)).toEqual(view.oldest(pool, limit));
        for (const host of ["alpha", "beta", "gamma"]) {
          expect(records.oldestOfHost(pool, host, limit)).toEqual(view.oldestOfHost(pool, host, limit));
          expect(records.newestOfHost(pool, host)).toBe(view.newestOfHost(pool, host));
        }
        expect([...records.ascending(-1)].map(({ workerId }) => workerId)).toEqual(
          [...plain.keys()].toSorted((a, b) => a - b),
        );
      }),
      { numRuns: 500 },
    );
  });

  it("find the oldest of a pool behind thousands of older records of other pools", () => {
    const records = new MemoryRecords();
    for (let id = 0; id < 3000; id++) records.put(free(id, { until: now - 5000, holder: on("alpha") }));
    const pool = { first: 3000, last: 3009 };
    const own = [3, 1, 2].map((age) => free(3000 + age, { until: now - age, holder: on("alpha") }));
    for (const record of own) records.put(record);
    for (let id = 4000; id < 7000; id++) records.put(free(id, { until: now - 1, holder: on("alpha") }));
    const [oldest, newest, middle] = own;
    expect(records.oldest(pool, 2)).toEqual([oldest, middle]);
    expect(records.oldestOfHost(pool, "alpha", 9)).toEqual([oldest, middle, newest]);
    expect(records.newestOfHost(pool, "alpha")).toBe(newest);
    expect(records.newestOfHost(pool, "beta")).toBeUndefined();
  });
});
