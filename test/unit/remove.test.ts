import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { removeNamespace } from "../../src/ops/remove.ts";
import { Unanswered } from "../../src/registries/engine/operate.ts";
import type { Standing } from "../../src/registries/engine/port.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import {
  type Era,
  forgottenUntil,
  isOfRemoved,
  isSealed,
  neverOpens,
  nextEra,
  openedEra,
  removedEra,
} from "../../src/rule/era.ts";
import { newNamespace } from "../../src/rule/new-namespace.ts";
import type { Registry, WorkerRecord } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { stubRegistry } from "../support/stub-registry.ts";

const namespace = "orders";
const hour = 3_600_000;
const layout = defaultLayout.fingerprint;

async function sqliteRegistry(clock: FakeClock): Promise<Registry> {
  const folder = mkdtempSync(join(tmpdir(), "sl-remove-"));
  const address = parseAddress(`sqlite:${join(folder, "registry.db")}`);
  const registry = await openRegistry(address, { operationTimeout: 20_000, clock });
  onTestFinished(async () => {
    await registry.close();
    rmSync(folder, { recursive: true });
  });
  return registry;
}

async function remove(registry: Registry, options: object = {}): Promise<void> {
  const { era = "" } = (await registry.describe(namespace)) ?? {};
  await registry.remove?.({ namespace, era, ...options });
}

describe.each<[string, (clock: FakeClock) => Promise<Registry>]>([
  ["memory", async (clock) => memoryRegistry({ clock })],
  ["sqlite", sqliteRegistry],
])("the removal of a namespace in %s", (_, open) => {
  test("covers windows that were granted before the clock was set back", async () => {
    const clock = fakeClock();
    const registry = await open(clock);
    const { until, fence } = await granted(registry, claimRequest({ namespace, layout, clock: clock.now() }));
    clock.step(-hour);
    await remove(registry);
    const { quarantineUntil } = await registry.init({ namespace, layout });
    expect(quarantineUntil).toBeGreaterThanOrEqual(Math.max(until, fence));
  });

  test("leaves nothing to a later removal that forgets", async () => {
    const clock = fakeClock();
    const registry = await open(clock);
    await registry.init({ namespace, layout, new: true });
    await remove(registry, { forget: true });
    expect(await registry.init({ namespace, layout, new: true })).not.toHaveProperty("quarantineEnd");
  });
});

test("what a removed namespace granted stays covered in each later era, whatever clocks showed in between", () => {
  const limits = { maxWindow: 100, maxClockSkew: 10 };
  const { info } = newNamespace(layout, limits, 1000, undefined);
  const removed = removedEra({ era: "5-a", quarantineEnd: 9000, opensAt: neverOpens }, () => "b");
  expect(removed).toMatchObject({ quarantineEnd: 9000, opensAt: 9000 });
  expect([isOfRemoved(removed), forgottenUntil(removed.era)]).toEqual([true, 9000]);
  // A clock that is ahead for a moment, then right again.
  const later = nextEra(removed, 50_000, limits, () => "c");
  expect([isOfRemoved(later), forgottenUntil(later.era)]).toEqual([false, 9000]);
  expect(openedEra({ ...later, info, clock: 2000 }).opensAt).toBe(9000);
  expect(openedEra({ ...later, info, clock: 20_000 }).opensAt).toBe(20_021);
  expect(openedEra({ ...removed, info, clock: 2000 }).opensAt).toBe(9000);
  const again = removedEra({ ...later, quarantineEnd: 60_000, opensAt: neverOpens }, () => "d");
  expect(forgottenUntil(again.era)).toBe(60_000);
  expect(again.era.length).toBeLessThanOrEqual(64);
});

test("an era that begins while a namespace is removed stays closed, and its quarantine ends at a time of the clock", () => {
  const sealed: Era = { era: "5-a", quarantineEnd: 9000, opensAt: neverOpens };
  const next = nextEra(sealed, 10_000, { maxWindow: 100, maxClockSkew: 10 }, () => "b");
  expect(next).toEqual({ era: "10000-b", quarantineEnd: 10_120, opensAt: neverOpens });
});

/** A store in which a test looks at each write, and changes it. */
function stubStore(records: readonly Partial<WorkerRecord>[] = []) {
  const made = newNamespace(layout, {}, 1000, undefined);
  const stub = {
    standing: { made } as Standing,
    records: [...records],
    /** Called behind each write. */
    written: async (_: "era" | "erase"): Promise<void> => undefined,
    get state(): Era | undefined {
      return stub.standing.made?.era;
    },
    set opensAt(opensAt: number) {
      const { made: present = made } = stub.standing;
      stub.standing = { made: { ...present, era: { ...present.era, opensAt } } };
    },
  };
  const registry = stubRegistry({
    read: async (reads) => ({
      clock: 1000,
      standing: stub.standing,
      found: reads.map(([name]) => (name === "page" ? { rows: stub.records, next: undefined } : undefined)),
    }),
    async commit({ becomes }) {
      if (becomes?.made !== undefined) {
        stub.standing = becomes;
        return stub.written("era");
      }
      if (stub.records.splice(0, 1).length === 0) stub.standing = becomes ?? {};
      return stub.written("erase");
    },
  });
  return { stub, registry, era: made.era.era };
}

describe("a removal that is interrupted", () => {
  test("by lost answers goes on", async () => {
    const { stub, registry, era } = stubStore([{ workerId: 1, until: 5, fence: 1 }]);
    let writes = 0;
    stub.written = async () => {
      if (writes++ % 2 === 0) throw new Unanswered("lost");
    };
    await registry.remove?.({ namespace, era });
    expect([stub.state, stub.records]).toEqual([undefined, []]);
    expect(isSealed(stub.standing.noted ?? { opensAt: neverOpens })).toBe(false);
  });

  test("among its records still knows the last window when it is repeated", async () => {
    const records = [
      { workerId: 1, until: 8_000_000, fence: 1 },
      { workerId: 2, until: 5, fence: 7 },
    ];
    const { stub, registry, era } = stubStore(records);
    stub.written = async (what) => (what === "erase" ? Promise.reject(new Error("gone")) : undefined);
    await expect(registry.remove?.({ namespace, era })).rejects.toThrow("gone");
    expect(stub.records).toHaveLength(1);
    expect(stub.state?.opensAt).toBe(neverOpens);
    stub.written = async () => undefined;
    await registry.remove?.({ namespace, era: stub.state?.era ?? "" });
    expect(stub.standing.noted).toMatchObject({ quarantineEnd: 8_000_000, opensAt: 8_000_000 });
  });

  test("leaves a namespace of its name that was made since", async () => {
    const { stub, registry, era } = stubStore([{ workerId: 1, until: 5, fence: 1 }]);
    const { info: later } = newNamespace(layout, {}, 2000, undefined);
    stub.written = async (what) => {
      const { made } = stub.standing;
      if (what === "era" && made !== undefined) stub.standing = { made: { ...made, info: later } };
    };
    await registry.remove?.({ namespace, era });
    expect(stub.records).toHaveLength(1);
    expect(stub.standing.made?.info.id).toBe(later.id);
  });

  test("is no quarantine that an operator ends, and takes no pin and no init", async () => {
    const { stub, registry, era } = stubStore([{ workerId: 1, until: 5, fence: 1 }]);
    stub.written = async (what) => (what === "erase" ? Promise.reject(new Error("gone")) : undefined);
    await expect(registry.remove?.({ namespace, era })).rejects.toThrow("gone");
    const sealed = stub.state?.era ?? "";
    const ending = registry.endQuarantine?.({ namespace, era: sealed });
    await expect(ending).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("is being removed") as string,
    });
    await expect(registry.init({ namespace, layout })).rejects.toMatchObject({
      code: "QUARANTINE",
      message: expect.stringContaining("snowlease remove") as string,
    });
    await expect(registry.pin(namespace, 1, "kept")).rejects.toMatchObject({ code: "QUARANTINE" });
    expect(stub.state?.era).toBe(sealed);
  });

  test("ends where an operator opens the namespace meanwhile", async () => {
    const { stub, registry, era } = stubStore([{ workerId: 1, until: 5, fence: 1 }]);
    stub.written = async (what) => {
      if (what === "erase") stub.opensAt = 2000;
    };
    await expect(registry.remove?.({ namespace, era })).rejects.toMatchObject({ code: "WORKER_ID_HELD" });
    expect(stub.state).toBeDefined();
  });
});

describe("an operator who removes a namespace", () => {
  test("is refused while a window is open, in another era, and where the registry cannot do it", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    await granted(registry, claimRequest({ namespace, layout, window: 30_000, clock: clock.now() }));
    const { era = "" } = (await registry.describe(namespace)) ?? {};
    const ask = (other: object = {}, where: Registry = registry) =>
      removeNamespace(where, { namespace, era, ...other }, "staging");
    await expect(ask()).rejects.toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringMatching(/staging is in use: a holder has/) as string,
    });
    await expect(ask({ era: "1-a" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await expect(ask({ namespace: "none" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { remove: _, ...without } = registry;
    await expect(ask({}, { ...without, kind: "own" })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("own") as string,
    });
    await clock.advance(30_000);
    await ask();
    expect(await registry.describe(namespace)).toBeUndefined();
  });

  test("is refused where a program without windows has a worker ID", async () => {
    const registry = memoryRegistry();
    await registry.init({ namespace, layout, new: true });
    const { era = "" } = (await registry.describe(namespace)) ?? {};
    const beside: Registry = {
      ...registry,
      workers: async (_, { state } = {}) => (state === "foreign" ? [{ workerId: 3 } as WorkerRecord] : []),
    };
    await expect(removeNamespace(beside, { namespace, era }, "staging")).rejects.toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringMatching(/westid.* worker 3 of namespace `orders`/) as string,
    });
  });
});
