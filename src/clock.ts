import { setTimeout } from "node:timers/promises";

/** The source of time. Always an argument, so that a test can freeze it, step it and set it back. */
export interface Clock {
  /** The wall clock in whole Unix ms. It may jump in either direction at any time; safety does not depend on it. */
  now(): number;
  /** The monotonic clock: nanoseconds since an arbitrary point. */
  nanos(): bigint;
  /** Resolves after `ms` on the monotonic clock, or at once when the signal aborts: check the signal afterwards. */
  sleep(ms: number, options?: SleepOptions): Promise<void>;
  /**
   * Blocks the thread until the wall clock shows `wall`, for at most `atMost` ms. A clock that does not move by itself has no `spin`: the
   * generator then throws instead.
   */
  spin?(wall: number, atMost: number): void;
}

/** Options of a sleep. */
export interface SleepOptions {
  readonly signal?: AbortSignal | undefined;
  /** Whether this sleep keeps the process alive. Default true. */
  readonly keepAlive?: boolean | undefined;
}

/** Longest delay that `setTimeout` accepts, ms; a longer one fires at once. */
export const longestTimer = 2_147_483_647;

/** The machine's clocks. */
export const systemClock: Clock = {
  now: () => Date.now(),
  nanos: process.hrtime.bigint,
  async sleep(ms, { signal, keepAlive = true } = {}) {
    const delay = Math.min(Math.max(0, ms), longestTimer);
    await setTimeout(delay, undefined, { signal, ref: keepAlive }).catch(() => undefined);
  },
  spin(wall, atMost) {
    const deadline = process.hrtime.bigint() + BigInt(Math.ceil(atMost * 1e6));
    while (Date.now() < wall && process.hrtime.bigint() < deadline);
  },
};

/** A larger difference between the clocks' progress counts as a step, ms; a smaller one is the jitter of a busy machine. */
export const stepTolerance = 250;

/** What both clocks show at a moment, ms. */
export type BothClocks = readonly [wall: number, mono: number];

/**
 * The clocks are read again if the process was stopped for longer than this between two readings, ms; and how often they are read at most.
 */
const [together, mostReadings] = [5, 10];

/** Reads both clocks at one moment: on a busy machine, a process may be stopped between two readings for longer than `stepTolerance`. */
export function bothClocks(clock: Clock): BothClocks {
  let best: BothClocks = [0, 0];
  let least = Infinity;
  for (let readings = 0; readings < mostReadings && least > together; readings++) {
    const before = monotonic(clock);
    const wall = clock.now();
    const apart = monotonic(clock) - before;
    if (apart >= least) continue;
    best = [wall, before + apart / 2];
    least = apart;
  }
  return best;
}

/** How far the wall clock has gone ahead of the monotonic one in between, ms; negative if it fell behind. */
export function jumpBetween([wall, mono]: BothClocks, [laterWall, laterMono]: BothClocks): number {
  return Math.round(laterWall - wall - (laterMono - mono));
}

/** The monotonic clock in ms. */
export function monotonic(clock: Clock): number {
  return Number(clock.nanos()) / 1e6;
}
