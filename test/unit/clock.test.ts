import { fc } from "../support/fast-check.ts";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../src/clock.ts";
import { WallGate } from "../../src/generator/wall-gate.ts";

const millisecond = 1_000_000n;

/** A wall clock and a monotonic one of nanoseconds. Each reading takes a while: the value is the one of its end. */
class Clocks implements Clock {
  /** On the monotonic clock. */
  time: bigint;
  /** Added to the monotonic clock by the wall clock, ns. */
  offset: bigint;
  latency = 0n;

  constructor(offset: bigint, time = 0n) {
    this.offset = offset;
    this.time = time;
  }

  now(): number {
    this.time += this.latency;
    return Number((this.time + this.offset) / millisecond);
  }

  nanos(): bigint {
    this.time += this.latency;
    return this.time;
  }

  async sleep(): Promise<void> {}

  /** The time at which the wall clock shows `wall`, if nobody sets it. */
  endOf(wall: number): bigint {
    return BigInt(wall) * millisecond - this.offset;
  }
}

const start = 1_700_000_000_000n * millisecond;

/** Waits of up to 3 ms, most of them short, and readings of up to 20 us. */
const readings = fc.record({
  wait: fc.oneof(fc.bigInt({ min: 0n, max: 3n * millisecond }), fc.bigInt({ min: 0n, max: 2000n })),
  latency: fc.bigInt({ min: 0n, max: 20_000n }),
});

describe("WallGate", () => {
  it("reads the wall clock", () => {
    const clocks = new Clocks(start + 999_999n);
    const gate = new WallGate(clocks);
    expect(gate.read()).toBe(1_700_000_000_000);
    clocks.time += 1n;
    expect(gate.read()).toBe(1_700_000_000_001);
  });

  it("never takes the wall clock to be before a time that it already shows, whenever and however slowly it was read", () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -start, max: start }),
        fc.bigInt({ min: 0n, max: millisecond }),
        fc.array(readings, { minLength: 1, maxLength: 100 }),
        (time, fraction, steps) => {
          const clocks = new Clocks(start + fraction - time, time);
          const gate = new WallGate(clocks);
          for (const { wait, latency } of steps) {
            clocks.time += wait;
            clocks.latency = latency;
            const wall = gate.read();
            for (const ahead of [1, 2, 1000])
              expect(gate.before(wall + ahead) <= clocks.endOf(wall + ahead)).toBe(true);
          }
        },
      ),
    );
  });

  it("comes as close to the end of a tick as the latest reading in any millisecond did", () => {
    const clocks = new Clocks(start);
    const gate = new WallGate(clocks);
    gate.read();
    expect(gate.before(1_700_000_000_001)).toBe(0n);
    clocks.time += 990_000n;
    gate.read();
    expect(gate.before(1_700_000_000_001)).toBe(990_000n);
    clocks.time += 310_000n;
    gate.read();
    expect(gate.before(1_700_000_000_002)).toBe(1_990_000n);
  });

  it("counts the monotonic clock to the ns, wherever that begins", () => {
    const far = 2n ** 63n - 1n;
    fc.assert(
      fc.property(
        fc.bigInt({ min: -far, max: far - 2n ** 53n }),
        fc.bigInt({ min: 0n, max: 2n ** 52n }),
        (time, by) => {
          const clocks = new Clocks(start - time, time);
          const gate = new WallGate(clocks);
          clocks.time += by;
          const wall = gate.read();
          // The first reading of all tells no more than that the millisecond has not ended yet.
          expect(gate.before(wall + 1)).toBe(clocks.time);
        },
      ),
    );
  });

  it("loses nothing by a reading that was interrupted", () => {
    const clocks = new Clocks(start);
    const gate = new WallGate(clocks);
    clocks.time += 999_000n;
    gate.read();
    clocks.latency = 50n * millisecond;
    const wall = gate.read();
    expect(clocks.endOf(wall + 1) - gate.before(wall + 1)).toBe(1000n);
  });

  it.each([1n, 2n, 3_600_000n, -1n, -2n, -3_600_000n])("forgets what it knew when the clock is set by %d ms", (by) => {
    const clocks = new Clocks(start);
    const gate = new WallGate(clocks);
    clocks.time += 999_999n;
    gate.read();
    clocks.time += 1n;
    clocks.offset += by * millisecond;
    const wall = gate.read();
    expect(gate.before(wall + 1) <= clocks.endOf(wall + 1)).toBe(true);
    clocks.time += 999_999n;
    gate.read();
    expect(gate.before(wall + 1)).toBe(clocks.endOf(wall + 1) - 1n);
  });

  it("is wrong by less than a millisecond and a reading's length after any setting of the clock", () => {
    const setting = fc.oneof(
      fc.constant(0n),
      fc.bigInt({ min: -3n * millisecond, max: 3n * millisecond }),
      fc.bigInt({ min: -start / 2n, max: start / 2n }),
    );
    const steps = fc.array(fc.record({ reading: readings, setting }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(steps, (history) => {
        const clocks = new Clocks(start);
        const gate = new WallGate(clocks);
        for (const { reading, setting } of history) {
          clocks.time += reading.wait;
          clocks.latency = reading.latency;
          if (clocks.offset + setting > 0n) clocks.offset += setting;
          const wall = gate.read();
          const late = gate.before(wall + 1) - clocks.endOf(wall + 1);
          expect(late < millisecond + 3n * reading.latency).toBe(true);
        }
      }),
    );
  });
});

describe("the machine's clock", () => {
  it("sleeps until the time is over, or until it is woken", async () => {
    const before = systemClock.nanos();
    await systemClock.sleep(5);
    // A timer may fire up to a millisecond early.
    expect(systemClock.nanos() - before).toBeGreaterThanOrEqual(4n * millisecond);
    const woken = new AbortController();
    const sleeping = systemClock.sleep(3_600_000, { signal: woken.signal });
    woken.abort();
    await sleeping;
    await systemClock.sleep(3_600_000, { signal: woken.signal });
  });

  it("spins until the wall clock shows a time", () => {
    const wall = systemClock.now() + 2;
    systemClock.spin?.(wall, 10_000);
    expect(systemClock.now()).toBeGreaterThanOrEqual(wall);
  });

  it("does not spin for longer than it may", () => {
    const before = systemClock.nanos();
    systemClock.spin?.(systemClock.now() + 3_600_000, 2);
    expect(systemClock.nanos() - before).toBeGreaterThanOrEqual(2n * millisecond);
  });
});
