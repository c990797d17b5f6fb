import { describe, expect, it } from "vitest";
import { bothClocks, type Clock, jumpBetween, systemClock } from "../../src/clock.ts";

/** Clocks of a process that is stopped for `stops` ms, one after the other, each between two readings. */
function stoppedClock(stops: readonly number[]): Clock {
  let ms = 1_000_000;
  const left = [...stops];
  return {
    ...systemClock,
    now() {
      const wall = ms;
      ms += left.shift() ?? 0;
      return wall;
    },
    nanos: () => BigInt(ms) * 1_000_000n,
  };
}

describe("both clocks", () => {
  it("show no jump where the process is stopped between two readings", () => {
    const clock = stoppedClock([0, 400, 900, 0, 300, 0]);
    const seen = bothClocks(clock);
    expect(jumpBetween(seen, bothClocks(clock))).toBe(0);
    expect(jumpBetween(seen, bothClocks(clock))).toBe(0);
  });

  it("are the closest readings of a process that is stopped each time", () => {
    const clock = stoppedClock([]);
    const seen = bothClocks(clock);
    const stops = [800, 600, 30, 700, 900, 800, 800, 800, 800, 800];
    expect(Math.abs(jumpBetween(seen, bothClocks(stoppedClock(stops))))).toBeLessThan(30);
  });

  it("show a jump of the wall clock", () => {
    let offset = 0;
    const clock = { ...systemClock, now: () => Date.now() + offset };
    const seen = bothClocks(clock);
    offset = 5000;
    expect(jumpBetween(seen, bothClocks(clock))).toBeGreaterThan(4900);
  });
});
