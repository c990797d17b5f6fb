import { describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { inOneStep } from "../../src/registries/engine/in-one-step.ts";
import { claim } from "../../src/registries/engine/claim.ts";
import { init } from "../../src/registries/engine/namespace.ts";
import { erase, pinAll, seal, separate } from "../../src/registries/engine/operator.ts";
import {
  type Operation,
  type Outcome,
  type Replacement,
  stateOf,
  type StoreChanges,
  type StoreView,
} from "../../src/registries/engine/port.ts";
import { MemoryNamespace } from "../../src/registries/memory/namespace.ts";
import { defaultLimits } from "../../src/rule/limits.ts";
import { eraMark, newNamespace } from "../../src/rule/new-namespace.ts";
import { infoOf } from "../../src/rule/quarantine.ts";
import type { Grant, Registry } from "../../src/rule/registry.ts";
import type { Stored } from "../../src/rule/window.ts";
import { sealedEra } from "../../src/rule/removal.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { stubRegistry } from "../support/stub-registry.ts";

const namespace = "orders";
const clock = 1_700_000_000_000;
const made = newNamespace(defaultLayout.fingerprint, defaultLimits, clock, undefined);
const sealed = { ...made, era: sealedEra(stateOf(made, clock), eraMark) };
const title = "The store";

function spaceOf(stands = made): MemoryNamespace {
  return Object.assign(new MemoryNamespace({ made: stands }), { clock });
}

/** Runs an operation on what stands; changes nothing. */
function decided<Answer>(operation: Operation<Answer>, view: StoreView): Outcome<Answer> {
  let next = operation.next();
  while (next.done !== true) next = operation.next(view);
  return next.value;
}

describe("a removal", () => {
  const { era } = sealed.era;
  const request = { namespace, era };
  const { id } = sealed.info;

  test("seals the namespace once", () => {
    const { answer, changes } = decided(seal({ namespace, era: made.era.era }, []), spaceOf());
    expect(answer).toBe(id);
    expect(changes?.becomes?.made?.era.opensAt).toBe(8.64e15);
    expect(decided(seal(request, []), spaceOf(sealed))).toEqual({ answer: id, changes: undefined });
  });

  test.each([
    ["a pin", pinAll(namespace, [{ workerId: 7, reason: "kept" }], title)],
    ["a separation", separate(request, { title, sent: [] })],
    ["an init", init({ namespace, layout: defaultLayout.fingerprint }, title)],
  ])("that is under way refuses %s", (_, operation) => {
    expect(() => decided<unknown>(operation as Operation<unknown>, spaceOf(sealed))).toThrow(
      expect.objectContaining({ code: "QUARANTINE" }),
    );
  });

  test("remembers the last use before it forgets anything, and notes it at its end", () => {
    const last = sealed.era.quarantineEnd + 1000;
    const space = spaceOf(sealed);
    const first = decided(erase(request, { id, last }), space);
    expect(first).toMatchObject({
      answer: false,
      changes: { becomes: { made: { era: { quarantineEnd: last, era } } } },
    });
    if (first.changes !== undefined) space.commit(first.changes);
    const second = decided(erase(request, { id, last }), space);
    expect(second).toMatchObject({ answer: false, changes: { becomes: { noted: { quarantineEnd: last } } } });
    expect(second.changes?.becomes?.made).toBeUndefined();
    const forgotten = decided(erase({ ...request, forget: true }, { id, last }), space);
    expect(forgotten.changes?.becomes).toEqual({ made: undefined, noted: undefined });
  });

  test("ends where another operator has ended it, and touches nothing that was made since", () => {
    const nothing = { answer: true };
    expect(decided(erase(request, { id: "another", last: 0 }), spaceOf())).toEqual(nothing);
    const gone = Object.assign(new MemoryNamespace({}), { clock });
    expect(decided(erase(request, { id, last: 0 }), gone)).toEqual(nothing);
  });

  test("goes no further where the store was put back to a copy from before it", () => {
    expect(() => decided(erase(request, { id, last: 0 }), spaceOf())).toThrow(
      expect.objectContaining({ code: "WORKER_ID_HELD" }),
    );
  });
});

describe("an attempt behind one whose answer was lost", () => {
  test("takes a namespace that it separated itself for its own work, and no other one", () => {
    const request = { namespace, era: made.era.era };
    const { changes } = decided(separate(request, { title, sent: [] }), spaceOf());
    const stands = changes?.becomes?.made ?? made;
    const again = (sent: StoreChanges | undefined) =>
      decided(separate(request, { title, sent: sent === undefined ? [] : [sent] }), spaceOf(stands));
    expect(again(changes)).toEqual({ answer: infoOf(stateOf(stands, clock)) });
    for (const sent of [undefined, decided(separate(request, { title, sent: [] }), spaceOf()).changes]) {
      expect(() => again(sent)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
    }
  });

  test("goes on with a removal that it began itself, and refuses an era that it did not expect", () => {
    const request = { namespace, era: made.era.era };
    const { changes } = decided(seal(request, []), spaceOf());
    const stands = changes?.becomes?.made ?? made;
    expect(decided(seal(request, changes === undefined ? [] : [changes]), spaceOf(stands))).toEqual({
      answer: made.info.id,
      changes: undefined,
    });
    expect(() => decided(seal(request, []), spaceOf(stands))).toThrow(
      expect.objectContaining({ code: "CONFIG_INVALID" }),
    );
    const other = { ...made, era: { ...made.era, era: "5-a" } };
    expect(() => decided(seal(request, changes === undefined ? [] : [changes]), spaceOf(other))).toThrow(
      expect.objectContaining({ code: "CONFIG_INVALID" }),
    );
  });
});

test("a claim that nobody could serve makes no namespace, and what it remembers is noted all the same", async () => {
  const clocks = fakeClock();
  const claim = (wish = {}) => claimRequest({ namespace, clock: clocks.now(), ...wish });
  const { receipt: recall } = await granted(memoryRegistry({ clock: clocks }), claim());
  for (const [code, wish] of Object.entries({ CLOCK_SKEW: { clock: 0 }, CONFIG_INVALID: { window: 1e9 } })) {
    const registry = memoryRegistry({ clock: clocks });
    await expect(registry.claim(claim({ recall, ...wish }))).rejects.toMatchObject({ code });
    expect(await registry.describe(namespace)).toBeUndefined();
    await expect(registry.claim(claim())).rejects.toMatchObject({ code: "QUARANTINE" });
  }
});

test("the history finds a window that ends late behind one that ends early, since an operator has reset the first", async () => {
  const clocks = fakeClock();
  const registry = memoryRegistry({ clock: clocks });
  const use = async (window: number): Promise<Grant> => {
    const request = claimRequest({ namespace, workerId: 0, clock: clocks.now(), window });
    const grant = await granted(registry, request);
    await registry.release({ ...keyOf(request, grant), clock: clocks.now() });
    return grant;
  };
  const { until: late, fence } = await use(60_000);
  await registry.forceRelease({ namespace, workerId: 0, force: true, fence, resetWindow: true });
  await clocks.advance(1000);
  expect((await use(1000)).until).toBeLessThan(late - 10_000);
  const rows = await registry.history(namespace, 0, { from: late - 1, limit: 1 });
  expect(rows.map(({ until }) => until)).toEqual([late]);
});

test("an operation that waited for its turn judges the caller's clock as it stands then", async () => {
  const space = spaceOf();
  const registry = inOneStep({
    kind: "test",
    title,
    atomically: async (_, __, work) => work({ waited: 500, view: space, commit: (changes) => space.commit(changes) }),
    prune: async () => ({ pruned: 0, isDone: true }),
    ping: async () => ({ clock, durability: "None." }),
    close: async () => undefined,
  });
  const asked = claimRequest({ namespace, layout: defaultLayout.fingerprint, clock: clock - 500, window: 1000 });
  expect(await registry.claim(asked)).toMatchObject({ outcome: "granted", until: clock + 1000 });
  expect(await registry.worker(namespace, 0)).toMatchObject({ seenClock: clock });
});

describe("beside programs that keep no windows", () => {
  const java = { host: "java", ip: "192.0.2.9", pid: 7, instance: "" };

  /** A registry in which such programs have taken some worker IDs; in those of `marked`, they see that ours has them. 3 is never used. */
  function beside({
    taken = [],
    marked = [],
    records = [],
    lateness,
  }: {
    readonly taken?: readonly number[];
    readonly marked?: readonly number[];
    readonly records?: readonly Stored[];
    readonly lateness?: number;
  }): { readonly registry: Registry; readonly stored: Replacement[] } {
    const stored: Replacement[] = [];
    const others = {
      seen: true,
      takenBy: (id: number) => (taken.includes(id) ? java : undefined),
      isMarked: (id: number) => marked.includes(id),
    };
    const found: Readonly<Record<string, (input: unknown) => unknown>> = {
      byId: (id) => records.find(({ workerId }) => workerId === id),
      firstUnused: () => 3,
      page: () => ({ rows: records, next: undefined }),
      oldestOfHost: () => [],
      pinnedFor: () => [],
    };
    const registry = stubRegistry(
      {
        read: async (reads) => ({
          clock,
          standing: { made },
          others,
          lateness,
          found: reads.map(([name, input]) => found[name]?.(input)),
        }),
        commit: async (changes) => void stored.push(...changes.records),
      },
      { hasOthers: true },
    );
    return { registry, stored };
  }

  const ask = (wish = {}) => claimRequest({ namespace, clock, ...wish });

  test("a claim takes none of theirs, and says whose a number is that it names", async () => {
    const { registry, stored } = beside({ taken: [5] });
    expect(await registry.claim(ask({ workerId: 5 }))).toEqual({
      outcome: "foreign",
      workerId: 5,
      holder: java,
      clock,
    });
    expect(stored).toEqual([]);
    expect(await registry.claim(ask({ preferred: [5] }))).toMatchObject({ outcome: "granted", workerId: 3 });
  });

  test("a number that one of them may just have had opens once no clock is behind", async () => {
    const { registry, stored } = beside({});
    const { maxClockSkew } = made.info;
    const { from, until } = await granted(registry, ask({ window: 60_000 }));
    expect([from, until]).toEqual([clock + maxClockSkew, clock + maxClockSkew + 60_000]);
    expect(stored).toMatchObject([{ workerId: 3, after: { from, until, knownFrom: from } }]);
  });

  test("it opens as much later as the claim may be stored later, and ends no later than any window may", async () => {
    const { maxClockSkew, maxWindow } = made.info;
    const { registry } = beside({ lateness: 700 });
    const opens = clock + 700 + maxClockSkew;
    expect(await granted(registry, ask({ window: 60_000 }))).toMatchObject({ from: opens, until: opens + 60_000 });
    expect(await granted(registry, ask({ window: maxWindow }))).toMatchObject({
      from: opens,
      until: clock + maxClockSkew + maxWindow,
    });
  });

  test("a holder keeps its number as long as they see that it has it", async () => {
    const request = ask({ workerId: 5 });
    const { stored, registry: first } = beside({ marked: [5] });
    const key = keyOf(request, await granted(first, request));
    const records = stored.flatMap(({ after }) => (after === undefined ? [] : [after]));
    const renewal = { ...key, clock, window: 60_000 };
    expect(await beside({ records, marked: [5] }).registry.renew(renewal)).toMatchObject({ outcome: "renewed" });
    const gone = beside({ records });
    expect(await gone.registry.renew(renewal)).toEqual({ outcome: "lost" });
    expect(gone.stored).toEqual([]);
  });

  test("theirs are listed as foreign, and ours as marked", async () => {
    const records = await Promise.all(
      [4, 5].map(async (workerId) => {
        const { registry, stored } = beside({});
        await granted(registry, ask({ workerId }));
        return stored[0]?.after as Stored;
      }),
    );
    const passed = records.map((record) => ({ ...record, until: clock }));
    const { registry } = beside({ records: passed, taken: [4], marked: [5] });
    expect(await registry.workers(namespace, { state: "foreign" })).toMatchObject([{ workerId: 4, holder: java }]);
    expect(await registry.worker(namespace, 5)).toMatchObject({ state: "free", marked: true });
    expect(await beside({ taken: [9] }).registry.worker(namespace, 9)).toMatchObject({
      state: "foreign",
      holder: java,
    });
  });
});

test("a store that makes no namespace for a claim says why, and notes what the claimer remembers", async () => {
  const refusal = new SnowleaseError("SCHEMA_INCOMPATIBLE", "There are no tables.");
  const space = (): StoreView => Object.assign(new MemoryNamespace({}), { clock, refusal });
  const ask = (wish = {}) => claimRequest({ namespace, clock, ...wish });
  expect(decided(claim(ask(), { title }), space())).toEqual({ answer: refusal, changes: undefined });
  const registry = memoryRegistry({ clock: fakeClock({ start: clock }) });
  const { receipt: recall } = await granted(registry, ask());
  const { answer, changes } = decided(claim(ask({ recall }), { title }), space());
  expect(answer).toMatchObject({ code: "QUARANTINE", message: expect.stringContaining("has no namespace") as string });
  expect(changes?.becomes?.noted).toBeDefined();
});
