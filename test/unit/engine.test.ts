import { describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { inOneStep } from "../../src/registries/engine/in-one-step.ts";
import { init } from "../../src/registries/engine/namespace.ts";
import { erase, pinAll, seal, separate } from "../../src/registries/engine/operator.ts";
import {
  type Operation,
  type Outcome,
  stateOf,
  type StoreChanges,
  type StoreView,
} from "../../src/registries/engine/port.ts";
import { MemoryNamespace } from "../../src/registries/memory/namespace.ts";
import { defaultLimits } from "../../src/rule/limits.ts";
import { eraMark, newNamespace } from "../../src/rule/new-namespace.ts";
import { infoOf } from "../../src/rule/quarantine.ts";
import type { Grant } from "../../src/rule/registry.ts";
import { sealedEra } from "../../src/rule/removal.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";

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
