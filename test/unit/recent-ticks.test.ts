import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { firstWholeTick, Layout, layouts } from "../../src/id/layout.ts";
import { listRecents, memorySpan, RecentTicks } from "../../src/generator/recent-ticks.ts";

const { westid } = layouts;
/** Ticks of 10 ms, so that a window may begin inside one. */
const coarse = Layout.parse("timestamp:39,sequence:8,worker:16@1409529600000/10");
/** Sequences that take four bytes each: a full memory is too large to be handed over. */
const wide = Layout.parse("timestamp:40,worker:1,sequence:22@1490346283706/1");

/** 2023-11-14T22:13:20Z. */
const now = 1_700_000_000_000;
/** The size limit of a request body. */
const maxBytes = 44_000;

const anyLayout = fc.constantFrom(westid, coarse, wide);

/** The moves of a holder: it goes on in time, or back a little, and uses sequences of its tick. */
const anyUse = fc.record({
  step: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: -50, max: 50 }) },
    { weight: 2, arbitrary: fc.integer({ min: -11_000, max: 11_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
  ),
  sequence: fc.nat(255),
});

/** The highest sequence ever used in each tick, by any holder of the worker ID. */
class Used {
  readonly #ticks = new Map<number, number>();

  raise(tick: number, sequence: number): void {
    this.#ticks.set(tick, Math.max(sequence, this.of(tick)));
  }

  of(tick: number): number {
    return this.#ticks.get(tick) ?? -1;
  }

  get highest(): number {
    return Math.max(-1, ...this.#ticks.keys());
  }

  /** Every tick that was used, and its neighbours. */
  get around(): number[] {
    return [...this.#ticks.keys()].flatMap((tick) => [tick - 1, tick, tick + 1]);
  }
}

function expectSame(memory: RecentTicks, used: Used): void {
  for (const tick of used.around)
    if (tick >= memory.floor) expect([tick, memory.sequenceOf(tick)]).toEqual([tick, used.of(tick)]);
}

/** The end of a given-back window: after the highest tick handed out, and never before its begin. */
function closing(layout: Layout, from: number, { highest }: RecentTicks): number {
  return highest < 0 ? from : Math.max(from, layout.timeOf(highest + 1));
}

describe("the memory of recent ticks", () => {
  it("knows every tick from its begin on, like a plain map, and the begin never sinks", () => {
    fc.assert(
      fc.property(
        anyLayout,
        fc.array(anyUse, { maxLength: 100 }),
        fc.integer({ min: 1, max: 12_000 }),
        (layout, uses, span) => {
          const memory = new RecentTicks(layout, now, undefined, span);
          const used = new Used();
          let time = now;
          let { floor } = memory;
          expect(floor).toBe(firstWholeTick(layout, now));
          for (const { step, sequence } of uses) {
            time = Math.max(now - 20_000, time + step);
            const tick = layout.tickOf(time);
            if (tick >= memory.floor) used.raise(tick, sequence);
            memory.raise(tick, sequence);
            expect(memory.floor).toBeGreaterThanOrEqual(floor);
            ({ floor } = memory);
            expect(memory.highest).toBe(used.highest);
          }
          expectSame(memory, used);
          const reach = Math.ceil(span / layout.tick);
          expect(floor).toBe(Math.max(firstWholeTick(layout, now), used.highest - reach));
        },
      ),
    );
  });

  it("handed from holder to holder, knows the use of each of them", () => {
    const holders = fc.array(fc.array(anyUse, { maxLength: 40 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(anyLayout, fc.integer({ min: now, max: now + 9 }), holders, (layout, begin, turns) => {
        const used = new Used();
        let [from, time] = [begin, begin];
        let known = begin;
        let memory = new RecentTicks(layout, from);
        for (const uses of turns) {
          for (const { step, sequence } of uses) {
            time = Math.max(begin, time + step);
            const tick = layout.tickOf(time);
            if (tick < memory.floor || layout.timeOf(tick) < known) continue;
            memory.raise(tick, sequence);
            used.raise(tick, sequence);
          }
          const until = closing(layout, from, memory);
          const recents = memory.handOver(until);
          // The registry requires this of a release.
          expect(recents.from).toBeGreaterThanOrEqual(known);
          expect(recents.from).toBeLessThanOrEqual(until);
          expect(recents.bytes.length).toBeLessThanOrEqual(maxBytes);
          const { floor } = memory;
          memory = new RecentTicks(layout, recents.from, recents);
          expect(memory.floor).toBe(floor);
          expectSame(memory, used);
          [from, known] = [until, recents.from];
        }
      }),
    );
  });

  it("lists the used ticks, in ascending order", () => {
    const memory = new RecentTicks(westid, now);
    const first = westid.tickOf(now);
    for (const [tick, sequence] of [
      [first + 300, 4095],
      [first, 0],
      [first + 7, 128],
      [first + 7, 127],
    ] as const) {
      memory.raise(tick, sequence);
    }
    expect(listRecents(westid, memory.handOver(now + 301))).toEqual([
      [first, 0],
      [first + 7, 128],
      [first + 300, 4095],
    ]);
  });

  it("hands over only a begin if nothing was used", () => {
    for (const layout of [westid, coarse, wide]) {
      const recents = new RecentTicks(layout, now + 3).handOver(now + 3);
      expect(recents).toEqual({ from: now + 3, bytes: Uint8Array.of(1) });
      expect(new RecentTicks(layout, recents.from, recents).highest).toBe(-1);
    }
  });

  it("begins with the first tick that lies wholly in the window", () => {
    const tick = coarse.tickOf(now);
    expect(new RecentTicks(coarse, now).floor).toBe(tick);
    expect(new RecentTicks(coarse, now + 1).floor).toBe(tick + 1);
    expect(new RecentTicks(coarse, 0).floor).toBe(0);
  });

  it("that is too long is handed over in full from a later begin on", () => {
    const memory = new RecentTicks(wide, now);
    const first = wide.tickOf(now);
    for (let i = 0; i <= memorySpan; i++) memory.raise(first + i, wide.maxSequence - i);
    const until = now + memorySpan + 1;
    const recents = memory.handOver(until);
    expect(recents.bytes.length).toBeLessThanOrEqual(maxBytes);
    expect(recents.bytes.length).toBeGreaterThan(maxBytes / 2);
    expect(recents.from).toBeGreaterThan(now);
    const next = new RecentTicks(wide, recents.from, recents);
    expect(wide.timeOf(next.floor)).toBe(recents.from);
    for (let i = 0; i <= memorySpan; i++) {
      if (first + i >= next.floor) expect(next.sequenceOf(first + i)).toBe(wide.maxSequence - i);
    }
    expect(next.highest).toBe(first + memorySpan);
  });

  it("of the default layout always fits whole", () => {
    const memory = new RecentTicks(westid, now);
    for (let i = 0; i <= memorySpan; i++) memory.raise(westid.tickOf(now) + i, westid.maxSequence);
    expect(memory.handOver(now + memorySpan + 1).from).toBe(now);
  });
});

describe("recents that cannot be read", () => {
  const { bytes } = (() => {
    const memory = new RecentTicks(westid, now);
    memory.raise(westid.tickOf(now) + 200, 4095);
    return memory.handOver(now + 201);
  })();

  const damaged: [what: string, bytes: Uint8Array][] = [
    ["version missing", Uint8Array.of()],
    ["version 2", Uint8Array.of(2, ...bytes.slice(1))],
    ["cut off", bytes.slice(0, -1)],
    ["cut off", bytes.slice(0, 3)],
    ["sequence 4096", Uint8Array.of(1, 0, 128, 32)],
    ["cut off", Uint8Array.of(1, 255, 255, 255, 255, 255, 255, 255, 255)],
  ];

  it.each(damaged)("are refused: %s", (what, damage) => {
    expect(() => new RecentTicks(westid, now, { from: now, bytes: damage })).toThrow(
      expect.objectContaining({ code: "SCHEMA_INCOMPATIBLE", message: expect.stringContaining(`(${what}`) as string }),
    );
  });

  it("are either refused, or read as ascending ticks with sequences that fit", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (any) => {
        try {
          const pairs = listRecents(westid, { from: now, bytes: Uint8Array.of(1, ...any) });
          for (const [, sequence] of pairs) expect(sequence).toBeLessThanOrEqual(westid.maxSequence);
          const ticks = pairs.map(([tick]) => tick);
          expect(ticks).toEqual(ticks.toSorted((a, b) => a - b));
        } catch (error) {
          if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
        }
      }),
    );
  });
});
