import { fc } from "../support/fast-check.ts";
import { describe, expect, test, vi } from "vitest";
import { defaultLayout, Layout, layouts } from "../../src/id/layout.ts";
import { lowestFree } from "../../src/sharing/block-layout.ts";
import { SharedAllocator, type SharedLeaseSnapshot } from "../../src/sharing/shared-allocator.ts";

const now = 1_790_000_000_000;
const tick = defaultLayout.tickOf(now);

function snapshot(generation: number, over: Partial<SharedLeaseSnapshot> = {}): SharedLeaseSnapshot {
  return {
    generation,
    workerId: 7,
    fence: generation,
    from: now,
    until: now + 60_000,
    knownFrom: now,
    first: tick,
    since: now,
    ...over,
  };
}

/** The numbers of the blocks. */
function listed(blocks: number): number[] {
  return Array.from({ length: 32 }, (_, block) => block).filter((block) => ((blocks >>> block) & 1) === 1);
}

describe("an allocator", () => {
  test("cuts every layout into blocks of one length that cover its sequences", () => {
    for (const layout of Object.values(layouts)) {
      const { blocks, sequences, ticks } = SharedAllocator.create(layout).blockLayout;
      expect(Number.isInteger(sequences)).toBe(true);
      expect(blocks * sequences).toBe(layout.maxSequence + 1);
      expect(ticks * layout.tick).toBeGreaterThanOrEqual(64);
    }
    expect(SharedAllocator.create(defaultLayout).blockLayout).toEqual({ ticks: 64, blocks: 32, sequences: 128 });
    expect(SharedAllocator.create(layouts.uid).blockLayout).toEqual({ ticks: 1, blocks: 32, sequences: 256 });
    const tiny = new Layout({
      epoch: 0,
      fields: [
        { name: "timestamp", bits: 41 },
        { name: "worker", bits: 5 },
        { name: "sequence", bits: 2 },
      ],
    });
    expect(SharedAllocator.create(tiny).blockLayout).toEqual({ ticks: 64, blocks: 4, sequences: 1 });
  });

  test("has nothing to take before a snapshot begins, before its first tick, and after its end", () => {
    const allocator = SharedAllocator.create(defaultLayout);
    const span = allocator.blockLayout.spanOf(tick);
    expect(allocator.take(1, span, 1)).toBe(0);
    allocator.begin(snapshot(1));
    expect(allocator.take(1, span - 1, 1)).toBe(0);
    expect(allocator.take(1, span, 1)).toBe(1);
    expect(allocator.take(0, span, 1)).toBe(0);
    expect(allocator.take(2, span, 1)).toBe(0);
    allocator.end();
    for (const each of [span, span + 1, span + 300]) expect(allocator.take(1, each, 1)).toBe(0);
    expect(allocator.read().snapshot).toBeUndefined();
  });

  test("gives a block of a span once, and leaves the spare ones", () => {
    const allocator = SharedAllocator.create(defaultLayout);
    allocator.begin(snapshot(1));
    const span = allocator.blockLayout.spanOf(tick);
    expect(listed(allocator.take(1, span, 3))).toEqual([0, 1, 2]);
    expect(listed(allocator.take(1, span, 100, 4))).toEqual(listed(0x0fff_fff8));
    expect(allocator.take(1, span, 1, 4)).toBe(0);
    expect(listed(allocator.take(1, span, 100))).toEqual([28, 29, 30, 31]);
    expect(allocator.take(1, span, 1)).toBe(0);
  });

  test("finds the free blocks of a layout that has fewer than 32", () => {
    // As where blocks were prefetched: all bits stand for taken blocks, but for those that came.
    expect(lowestFree(0xffff_fffe, 8, 1, 0)).toBe(0b1);
    expect(lowestFree(0xffff_fff0, 8, 32, 1)).toBe(0b111);
    expect(lowestFree(0xffff_ffff, 8, 1, 0)).toBe(0);
    expect(lowestFree(0xffff_fffe, 32, 1, 0)).toBe(0b1);
  });

  test("forgets a span after a later span of its word was taken, and never gives it again", () => {
    const allocator = SharedAllocator.create(defaultLayout);
    allocator.begin(snapshot(1));
    const span = allocator.blockLayout.spanOf(tick);
    expect(allocator.take(1, span + 256, 1)).toBe(1);
    expect(allocator.take(1, span, 1)).toBe(0);
    expect(allocator.take(1, span + 1, 1)).toBe(1);
  });

  test("knows the last tick with a taken block", () => {
    const allocator = SharedAllocator.create(defaultLayout);
    allocator.begin(snapshot(1));
    expect(allocator.newest()).toBeUndefined();
    const span = allocator.blockLayout.spanOf(tick);
    allocator.take(1, span + 3, 1);
    allocator.take(1, span, 1);
    expect(allocator.newest()).toBe((span + 4) * 64 - 1);
    expect(allocator.end()).toBe((span + 4) * 64 - 1);
    allocator.begin(snapshot(2));
    expect(allocator.end()).toBeUndefined();
  });

  test("shows every member the present snapshot, and a new version after each change", () => {
    const allocator = SharedAllocator.create(defaultLayout);
    const member = new SharedAllocator(defaultLayout, allocator.buffer);
    allocator.begin(snapshot(1));
    const first = member.read();
    expect(first.snapshot).toEqual(snapshot(1));
    allocator.write({ until: now + 90_000 });
    expect(member.version).not.toBe(first.version);
    expect(member.read().snapshot).toEqual(snapshot(1, { until: now + 90_000 }));
  });

  /** What a thread leaves that is terminated before its n-th step on shared memory, counted from 0; false where it has fewer. */
  function diesAt(step: number, run: () => void): boolean {
    let steps = 0;
    const names = ["load", "store", "add", "exchange", "compareExchange"] as const;
    const spies = names.map((name) => {
      const real = Atomics[name] as (...args: unknown[]) => never;
      return vi.spyOn(Atomics, name as "load").mockImplementation((...args: unknown[]) => {
        if (steps++ === step) throw new Error("terminated");
        return real(...args);
      });
    });
    try {
      run();
      return false;
    } catch {
      return true;
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  }

  test.each(["write", "end", "begin"] as const)(
    "that a lender leaves in the middle of `%s` shows one snapshot or none, and is taken from in none but that",
    (way) => {
      const [next, later] = [
        snapshot(2, { workerId: 9 }),
        snapshot(1, { until: now + 90_000, from: now + 1, knownFrom: now + 1 }),
      ];
      for (let step = 0; ; step++) {
        const allocator = SharedAllocator.create(defaultLayout);
        allocator.begin(snapshot(1));
        if (way === "begin") allocator.end();
        const died = diesAt(step, () => {
          if (way === "write") allocator.write({ until: later.until, from: later.from, knownFrom: later.knownFrom });
          else if (way === "end") allocator.end();
          else allocator.begin(next);
        });
        const member = new SharedAllocator(defaultLayout, allocator.buffer);
        let seen: SharedLeaseSnapshot | undefined;
        // It may look as often as it likes, but not without end.
        expect(diesAt(1000, () => (seen = member.read().snapshot))).toBe(false);
        const possible = { write: [snapshot(1), later], end: [snapshot(1), undefined], begin: [undefined, next] }[way];
        expect(possible).toContainEqual(seen);
        const span = allocator.blockLayout.spanOf(tick);
        for (const generation of [1, 2]) {
          const blocks = member.take(generation, span, 1);
          if (blocks !== 0) expect(generation).toBe(seen?.generation);
        }
        if (!died) break;
      }
    },
  );

  test("gives no block of a snapshot's span twice, for any order of requests by members of any snapshot", () => {
    const step = fc.oneof(
      {
        weight: 12,
        arbitrary: fc.record({
          span: fc.integer({ min: -3, max: 600 }),
          want: fc.integer({ min: 1, max: 40 }),
          stale: fc.boolean(),
        }),
      },
      { weight: 1, arbitrary: fc.constant("switch" as const) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const allocator = SharedAllocator.create(defaultLayout);
        let generation = 1;
        allocator.begin(snapshot(generation));
        const base = allocator.blockLayout.spanOf(tick);
        const seen = new Set<string>();
        let newest = -1;
        for (const each of steps) {
          if (each === "switch") {
            expect(allocator.end() ?? -1).toBe(newest);
            allocator.begin(snapshot(++generation));
            newest = -1;
            continue;
          }
          const asked = each.stale ? generation - 1 : generation;
          const blocks = allocator.take(asked, base + each.span, each.want);
          if (each.stale || each.span < 0) expect(blocks).toBe(0);
          for (const block of listed(blocks)) {
            const key = `${generation}/${each.span}/${block}`;
            expect(seen).not.toContain(key);
            seen.add(key);
          }
          // A late taker makes blocks unusable, at most.
          newest = Math.max(newest, allocator.newest() ?? -1);
        }
      }),
    );
  });
});
