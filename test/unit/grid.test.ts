import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { defaultLayout, Layout, layouts } from "../../src/id/layout.ts";
import { Grid, type SharedTenure } from "../../src/sharing/shared-allocator.ts";

const now = 1_790_000_000_000;
const tick = defaultLayout.tickOf(now);

function tenure(generation: number, over: Partial<SharedTenure> = {}): SharedTenure {
  return {
    generation,
    workerId: 7,
    fence: generation,
    from: now,
    until: now + 60_000,
    floor: now,
    first: tick,
    since: now,
    ...over,
  };
}

/** The numbers of the lanes. */
function listed(lanes: number): number[] {
  return Array.from({ length: 32 }, (_, lane) => lane).filter((lane) => ((lanes >>> lane) & 1) === 1);
}

describe("a grid", () => {
  test("cuts every layout into lanes of one length that cover its sequences", () => {
    for (const layout of Object.values(layouts)) {
      const { lanes, sequences, ticks } = Grid.create(layout).cut;
      expect(Number.isInteger(sequences)).toBe(true);
      expect(lanes * sequences).toBe(layout.maxSequence + 1);
      expect(ticks * layout.tick).toBeGreaterThanOrEqual(64);
    }
    expect(Grid.create(defaultLayout).cut).toEqual({ ticks: 64, lanes: 32, sequences: 128 });
    expect(Grid.create(layouts.uid).cut).toEqual({ ticks: 1, lanes: 32, sequences: 256 });
    const tiny = new Layout({
      epoch: 0,
      fields: [
        { name: "timestamp", bits: 41 },
        { name: "worker", bits: 5 },
        { name: "sequence", bits: 2 },
      ],
    });
    expect(Grid.create(tiny).cut).toEqual({ ticks: 64, lanes: 4, sequences: 1 });
  });

  test("has nothing to take before a tenure begins, before its first tick, and after its end", () => {
    const grid = Grid.create(defaultLayout);
    const span = grid.cut.spanOf(tick);
    expect(grid.take(1, span, 1)).toBe(0);
    grid.begin(tenure(1));
    expect(grid.take(1, span - 1, 1)).toBe(0);
    expect(grid.take(1, span, 1)).toBe(1);
    expect(grid.take(0, span, 1)).toBe(0);
    expect(grid.take(2, span, 1)).toBe(0);
    grid.end();
    for (const each of [span, span + 1, span + 300]) expect(grid.take(1, each, 1)).toBe(0);
    expect(grid.read().tenure).toBeUndefined();
  });

  test("gives a lane of a span once, and leaves those that are to be spared", () => {
    const grid = Grid.create(defaultLayout);
    grid.begin(tenure(1));
    const span = grid.cut.spanOf(tick);
    expect(listed(grid.take(1, span, 3))).toEqual([0, 1, 2]);
    expect(listed(grid.take(1, span, 100, 4))).toEqual(listed(0x0fff_fff8));
    expect(grid.take(1, span, 1, 4)).toBe(0);
    expect(listed(grid.take(1, span, 100))).toEqual([28, 29, 30, 31]);
    expect(grid.take(1, span, 1)).toBe(0);
  });

  test("forgets a span once one that shares its word was taken, and never gives it again", () => {
    const grid = Grid.create(defaultLayout);
    grid.begin(tenure(1));
    const span = grid.cut.spanOf(tick);
    expect(grid.take(1, span + 256, 1)).toBe(1);
    expect(grid.take(1, span, 1)).toBe(0);
    expect(grid.take(1, span + 1, 1)).toBe(1);
  });

  test("knows the last tick of which anything was taken", () => {
    const grid = Grid.create(defaultLayout);
    grid.begin(tenure(1));
    expect(grid.newest()).toBeUndefined();
    const span = grid.cut.spanOf(tick);
    grid.take(1, span + 3, 1);
    grid.take(1, span, 1);
    expect(grid.newest()).toBe((span + 4) * 64 - 1);
    expect(grid.end()).toBe((span + 4) * 64 - 1);
    grid.begin(tenure(2));
    expect(grid.end()).toBeUndefined();
  });

  test("shows every member the tenure as it is, and another version after each change", () => {
    const grid = Grid.create(defaultLayout);
    const member = new Grid(defaultLayout, grid.buffer);
    grid.begin(tenure(1));
    const first = member.read();
    expect(first.tenure).toEqual(tenure(1));
    grid.write({ until: now + 90_000 });
    expect(member.version).not.toBe(first.version);
    expect(member.read().tenure).toEqual(tenure(1, { until: now + 90_000 }));
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
    "that a lender leaves in the middle of `%s` shows one tenure or none, and is taken from in none but that",
    (way) => {
      const [next, later] = [
        tenure(2, { workerId: 9 }),
        tenure(1, { until: now + 90_000, from: now + 1, floor: now + 1 }),
      ];
      for (let step = 0; ; step++) {
        const grid = Grid.create(defaultLayout);
        grid.begin(tenure(1));
        if (way === "begin") grid.end();
        const died = diesAt(step, () => {
          if (way === "write") grid.write({ until: later.until, from: later.from, floor: later.floor });
          else if (way === "end") grid.end();
          else grid.begin(next);
        });
        const member = new Grid(defaultLayout, grid.buffer);
        let seen: SharedTenure | undefined;
        // It may look as often as it likes, but not without end.
        expect(diesAt(1000, () => (seen = member.read().tenure))).toBe(false);
        const possible = { write: [tenure(1), later], end: [tenure(1), undefined], begin: [undefined, next] }[way];
        expect(possible).toContainEqual(seen);
        const span = grid.cut.spanOf(tick);
        for (const generation of [1, 2]) {
          const lanes = member.take(generation, span, 1);
          if (lanes !== 0) expect(generation).toBe(seen?.generation);
        }
        if (!died) break;
      }
    },
  );

  test("whatever is taken in whatever order, by members of whichever tenure: no lane of a tenure's span goes out twice", () => {
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
        const grid = Grid.create(defaultLayout);
        let generation = 1;
        grid.begin(tenure(generation));
        const base = grid.cut.spanOf(tick);
        const seen = new Set<string>();
        let newest = -1;
        for (const each of steps) {
          if (each === "switch") {
            expect(grid.end() ?? -1).toBe(newest);
            grid.begin(tenure(++generation));
            newest = -1;
            continue;
          }
          const asked = each.stale ? generation - 1 : generation;
          const lanes = grid.take(asked, base + each.span, each.want);
          if (each.stale || each.span < 0) expect(lanes).toBe(0);
          for (const lane of listed(lanes)) {
            const key = `${generation}/${each.span}/${lane}`;
            expect(seen).not.toContain(key);
            seen.add(key);
          }
          // One who comes too late has spoilt lanes for others, at most.
          newest = Math.max(newest, grid.newest() ?? -1);
        }
      }),
    );
  });
});
