// A process of repeats.mjs: one generator, by a clock that this file moves, and with a seeded Math.random, so that it makes the same IDs in
// each run.

import { once } from "node:events";
import { generators } from "./peers/generators.mjs";

/** What the clock shows first: not a whole second, which would be a special case for IDs of seconds. */
const start = Date.UTC(2026, 0, 1) + 300;
/** A generator that reads the clock so often for one ID waits for it: the clock then moves on by 1 ms. */
const patience = 100;

async function makeSnowlease(id, registry) {
  // Like the others not before the clock is this file's.
  const { snowlease } = await import("snowlease");
  // Timers keep the machine's time, so nothing renews a window here: 60 s is the default of a worker ID that the registry picks, and
  // longer than a process goes on by the clock of this script. Nor does a claim wait for the window of a process that was killed.
  const options = { registry, window: "60s", claimTimeout: 0 };
  const ids = await snowlease(id === undefined ? options : { ...options, workerId: id });
  return { next: ids.next, close: ids.close };
}

/** Takes the place of the wall clock and of the monotonic one. Only the wall clock is ever set back. */
function takeClock() {
  const RealDate = Date;
  let wall = start;
  let mono = 0;
  let reads = 0;
  const clock = {
    waited: 0,
    pass(ms) {
      wall += ms;
      mono += ms;
    },
    setBack(by) {
      wall -= by;
    },
    /** A call ended: what it read does not count as waiting for the next one. */
    called() {
      reads = 0;
    },
  };
  const read = () => {
    if (++reads <= patience) return;
    reads = 0;
    clock.waited++;
    clock.pass(1);
  };
  const now = () => {
    read();
    return wall;
  };
  globalThis.Date = class extends RealDate {
    static now = now;
    constructor(...args) {
      if (args.length === 0) super(now());
      else super(...args);
    }
  };
  process.hrtime.bigint = () => {
    read();
    return BigInt(mono) * 1_000_000n;
  };
  return clock;
}

/** A generator of the same numbers in each run (mulberry32). */
function seedRandom(seed) {
  let state = seed;
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Makes IDs as the steps say: the clock goes back by `back`, then `count` IDs are asked for within `ms` milliseconds. How many in
 * a millisecond differs between two processes: with equal numbers, a counter that never starts again would look worse than it is.
 */
async function makeIds({ next, clock, seed, perMillisecond, steps }) {
  const ids = [];
  let threw = 0;
  const waitedBefore = clock.waited;
  const mean = perMillisecond;
  let tick = 0;
  for (const { back = 0, ms, count } of steps) {
    clock.setBack(back);
    let left = count;
    for (let last = tick + ms - 1; left > 0; tick++) {
      const many = tick >= last ? left : Math.min(left, (tick * 7 + seed * mean) % (2 * mean + 1));
      left -= many;
      // All of a millisecond at once, as requests ask for them: some answer promises.
      const promises = [];
      for (let i = 0; i < many; i++) {
        try {
          const id = next();
          if (id instanceof Promise) promises.push(id);
          else ids.push(BigInt(id));
        } catch {
          threw++;
        }
        clock.called();
      }
      for (const id of await Promise.all(promises)) ids.push(BigInt(id));
      clock.pass(1);
    }
  }
  clock.pass(1000); // The next situation begins afresh.
  return { ids: BigUint64Array.from(ids), threw, waited: clock.waited - waitedBefore };
}

async function beGenerator({ name, id, seed, pid, registry, perMillisecond, asked }) {
  if (pid !== undefined) Object.defineProperty(process, "pid", { value: pid });
  seedRandom(seed);
  const clock = takeClock();
  let generator;
  try {
    generator = name === undefined ? await makeSnowlease(id, registry) : await generators[name].make(id);
  } catch (error) {
    process.send({ refused: error.code ?? error.message });
    return;
  }
  const situations = {};
  for (const [title, steps] of Object.entries(asked)) {
    situations[title] = await makeIds({ next: generator.next, clock, seed, perMillisecond, steps });
  }
  process.send({ situations });
  await once(process, "message");
  await generator.close();
  process.disconnect();
}

process.once("message", (job) => void beGenerator(job));
