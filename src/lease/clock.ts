import { lowerWord, upperWord } from "../id/endianness.ts";

/** The source of time. Always an argument, so that a test can freeze it, step it and set it back. */
export interface Clock {
  /** The wall clock in whole Unix ms. It may jump in either direction at any time; safety does not depend on it. */
  now(): number;
  /** The monotonic clock: nanoseconds since an arbitrary point. */
  nanos(): bigint;
  /** Resolves after `ms` on the monotonic clock, or at once when the signal aborts: check the signal afterwards. */
  sleep(ms: number, options?: SleepOptions): Promise<void>;
  /**
   * Blocks the thread until the wall clock shows at least `wall`, for at most `atMost` ms. A clock that does not move by itself
   * lacks it; the generator then throws where it would spin.
   */
  spin?(wall: number, atMost: number): void;
}

/** Options of a sleep. */
export interface SleepOptions {
  readonly signal?: AbortSignal | undefined;
  /** Whether this sleep keeps the process alive. Default true. */
  readonly keepAlive?: boolean | undefined;
}

/** Longest delay that `setTimeout` honours; a longer one fires at once. */
const longestTimer = 2_147_483_647;

/** The machine's clocks. */
export const systemClock: Clock = {
  now: () => Date.now(),
  nanos: process.hrtime.bigint,
  sleep(ms, { signal, keepAlive = true } = {}) {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(Math.max(0, ms), longestTimer));
      if (!keepAlive) timer.unref();
      signal?.addEventListener("abort", done, { once: true });
    });
  },
  spin(wall, atMost) {
    const deadline = process.hrtime.bigint() + BigInt(Math.ceil(atMost * 1e6));
    while (Date.now() < wall && process.hrtime.bigint() < deadline);
  },
};

// A reading of the monotonic clock as two words: reckoning with bigints would be a third of what a tick's first ID costs.
const reading = new BigInt64Array(1);
const words = new Uint32Array(reading.buffer);

/** The monotonic clock in ms. */
export function monotonic(clock: Clock): number {
  return Number(clock.nanos()) / 1e6;
}

/**
 * Tells from the monotonic clock, which is cheaper to read, whether the wall clock still shows the same tick.
 *
 * Both clocks run at the same rate (Linux slews them together), so there is one unknown: the monotonic time at which the wall
 * clock was 0. Each reading of both says that it was not before some time, and the latest of these is kept. Only while it proves
 * that a tick has not ended is the wall clock left alone: a timestamp made from it does not lead the clock, and does not lag it.
 * A wall clock that was set back only makes the proof fail early. One that was set forward contradicts it, and it starts anew;
 * less than a millisecond may go unnoticed.
 */
export class WallGate {
  readonly #clock: Clock;
  /** Both clocks are counted from here. */
  readonly #nanos: bigint;
  readonly #upper: number;
  readonly #lower: number;
  readonly #wall: number;
  /** The wall clock showed #wall so many ns after #nanos, or later. At first later than any, so that the first reading sets it. */
  #zero = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#nanos = clock.nanos();
    reading[0] = this.#nanos;
    this.#upper = words[upperWord] as number;
    this.#lower = words[lowerWord] as number;
    this.#wall = clock.now();
  }

  /** Reads the wall clock, Unix ms. */
  read(): number {
    const since = this.#since();
    const wall = this.#clock.now();
    const begin = (wall - this.#wall) * 1e6;
    const least = since - begin;
    // Looked at once more where there is doubt: reading the wall clock may have taken any time.
    const contradicted = least < this.#zero && this.#since() - begin < this.#zero;
    if (least - 1e6 > this.#zero || contradicted) this.#zero = least - 1e6;
    return wall;
  }

  /** The reading of the monotonic clock before which the wall clock is known to show less than `wall` still. */
  before(wall: number): bigint {
    return this.#nanos + BigInt(Math.floor((wall - this.#wall) * 1e6 + this.#zero));
  }

  /** How many ns after the gate was made this is: exact for a hundred days. */
  #since(): number {
    reading[0] = this.#clock.nanos();
    return (((words[upperWord] as number) - this.#upper) | 0) * 2 ** 32 + ((words[lowerWord] as number) - this.#lower);
  }
}
