import { describe, expect, it, onTestFinished } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Layout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";
import { coded, start, thrown } from "../support/generator.ts";

// The bits of `uid` and `sonyflake` with an epoch of their own; `start` is the beginning of a second.
const layouts = [
  ["1 s", Layout.parse("timestamp:28,worker:22,sequence:13@1690000000000/1000")],
  ["10 ms", Layout.parse("timestamp:39,sequence:8,worker:16@1690000000000/10")],
] as const;

/** The ways to make IDs. The last three make them on the lease of another generator. */
const ways = ["wall", "lead", "shared", "thread", "child", "thread of a child"] as const;
type Way = (typeof ways)[number];

interface Maker {
  next(): bigint;
}

interface Setting {
  readonly clock: FakeClock;
  readonly registry: Registry;
  readonly maker: Maker;
  readonly lease: { readonly from: number; readonly until: number };
  readonly close: () => Promise<void>;
}

async function open(way: Way, layout: Layout, clock: FakeClock, store: Registry, window: number): Promise<Setting> {
  // Renewals fail here: a window ends at its first end.
  const registry: Registry = { ...store, renew: () => Promise.reject(new Error("cut off")) };
  const options: SnowleaseOptions = { registry, clock, layout, workerId: 7, window, claimTimeout: 0 };
  const opened: { close(): Promise<void> }[] = [];
  const keep = <Ids extends { close(): Promise<void> }>(ids: Ids): Ids => {
    opened.unshift(ids);
    return ids;
  };
  const close = async (): Promise<void> => {
    for (const ids of opened.splice(0)) await ids.close();
  };
  onTestFinished(close);
  const rest = { clock, registry: store, close };
  if (way === "wall" || way === "lead") {
    const ids = keep(await snowlease({ ...options, mode: way }));
    return { ...rest, maker: ids, lease: ids.lease };
  }
  const ids = keep(await snowlease({ ...options, shared: true }));
  const { lease, blocks } = ids;
  if (way === "shared") return { ...rest, maker: ids, lease };
  if (way === "thread") return { ...rest, maker: keep(joinLease(ids.share(), { clock })), lease };
  if (!(blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
  const child = keep(
    await snowlease({
      registry: leaseServer(lease, blocks),
      borrow: true,
      clock,
      layout,
      claimTimeout: 0,
      shared: true,
    }),
  );
  return { ...rest, maker: way === "child" ? child : keep(joinLease(child.share(), { clock })), lease };
}

/** More IDs than any window here has: a generator that makes this many repeats some. */
const most = 100_000;

/** All IDs that are available now, and the reason why there are no more. */
function drain(maker: Maker): { readonly made: bigint[]; readonly why: string } {
  const made: bigint[] = [];
  for (;;) {
    try {
      made.push(maker.next());
    } catch (error) {
      if (!isSnowleaseError(error)) throw error;
      return { made, why: error.code };
    }
    if (made.length > most) expect.fail("They never end.");
  }
}

/** All IDs while the clock goes on for this long, in steps of a fifth of a tick; and all reasons for refusals. */
async function drainFor(ms: number, { clock, maker }: Setting, { tick }: Layout): Promise<[bigint[], Set<string>]> {
  const all: bigint[] = [];
  const reasons = new Set<string>();
  for (let passed = 0; passed < ms; passed += tick / 5) {
    const { made, why } = drain(maker);
    all.push(...made);
    reasons.add(why);
    await clock.advance(tick / 5);
  }
  expect(new Set(all).size).toBe(all.length);
  return [all, reasons];
}

describe.each(layouts)("with ticks of %s", (_, layout) => {
  const { tick } = layout;
  const perTick = layout.maxSequence + 1;
  const inside = tick / 10;

  /** How many IDs it makes of this many ticks. A thread leaves a block to its lender. */
  function expectCount(made: readonly bigint[], way: Way, ticks: number): void {
    // A child asks for more blocks when it uses the first of them.
    if (way.endsWith("child")) expect(made.length).toBeGreaterThanOrEqual((ticks * perTick) / 32);
    else expect(made.length).toBe(ticks * perTick * (way === "thread" ? 31 / 32 : 1));
  }

  it.each(ways)("a window that begins and ends inside one: %s", async (way) => {
    const clock = fakeClock({ start: start + inside });
    const store = memoryRegistry({ clock });
    const before = await open("wall", layout, clock, store, 4 * tick);
    before.maker.next();
    await clock.advance(4 * tick);
    const setting = await open(way, layout, clock, store, 4 * tick);
    const { from, until } = setting.lease;
    expect([from, until]).toEqual([start + inside + 4 * tick, start + inside + 8 * tick]);

    if (way !== "lead") expect(thrown(() => setting.maker.next())).toEqual(coded("WINDOW_NOT_OPEN"));
    const [all, reasons] = await drainFor(6 * tick, setting, layout);
    const ticks = all.map((id) => (layout.decompose(id).timestamp - start) / tick);
    expect(new Set(ticks)).toEqual(new Set([5, 6, 7]));
    expectCount(all, way, 3);
    expect(reasons).toContain("LEASE_EXPIRED");
  });

  it.each(ways)("a full one: %s", async (way) => {
    const clock = fakeClock({ start: start + inside });
    const setting = await open(way, layout, clock, memoryRegistry({ clock }), 8 * tick);
    const { made } = drain(setting.maker);
    const ticks = new Set(made.map((id) => (layout.decompose(id).timestamp - start) / tick));
    const wholeTicks = 8;
    if (way === "lead") {
      expectCount(made, way, wholeTicks);
      expect(ticks.size).toBe(wholeTicks);
    } else {
      expect(thrown(() => setting.maker.next())).toEqual(coded("SEQUENCE_EXHAUSTED", { retryAfterMs: tick - inside }));
      expect(ticks).toEqual(new Set([0]));
      expectCount(made, way, 1);
      await clock.advance(tick - inside);
      expect(layout.decompose(setting.maker.next()).timestamp).toBe(start + tick);
    }
  });

  it("a full one that all generators share has each of its IDs once", async () => {
    const clock = fakeClock({ start });
    const store = memoryRegistry({ clock });
    const ids = await snowlease({ registry: store, clock, layout, workerId: 7, window: 60_000, shared: true });
    onTestFinished(() => ids.close());
    if (!(ids.blocks instanceof SharedUsageTracker)) expect.fail("It is borrowed.");
    const registry = leaseServer(ids.lease, ids.blocks);
    const child = await snowlease({ registry, clock, layout, borrow: true, shared: true });
    onTestFinished(() => child.close());
    const makers = [joinLease(child.share(), { clock }), child, joinLease(ids.share(), { clock }), ids];
    await clock.advance(10_000);
    const begin = clock.now();
    const all: bigint[] = [];
    for (let passed = 0; passed < 10 * tick; passed += tick / 5) {
      for (const maker of makers) all.push(...drain(maker).made);
      await clock.advance(tick / 5);
    }
    expect(new Set(all).size).toBe(all.length);
    const counts = new Map<number, number>();
    for (const id of all) {
      const { timestamp } = layout.decompose(id);
      counts.set(timestamp, (counts.get(timestamp) ?? 0) + 1);
    }
    expect(Math.min(...counts.keys())).toBe(begin);
    expect(Math.max(...counts.values())).toBe(perTick);
  });

  it.each(ways)("the last one of the layout: %s", async (way) => {
    const clock = fakeClock({ start: layout.endOfLife - 2 * tick });
    const store = memoryRegistry({ clock });
    const setting = await open(way, layout, clock, store, 8 * tick);
    const [all, reasons] = await drainFor(4 * tick, setting, layout);
    const ticks = new Set(all.map((id) => layout.tickOf(layout.decompose(id).timestamp)));
    expect(ticks).toEqual(new Set([layout.maxTick - 1, layout.maxTick]));
    expectCount(all, way, 2);
    expect(reasons).toContain("LAYOUT_EXPIRED");
    await setting.close();
    expect(await store.worker("default", 7)).toMatchObject({ clean: true });
    await expect(open(way, layout, clock, store, 8 * tick)).rejects.toEqual(coded("LAYOUT_EXPIRED"));
  });
});
