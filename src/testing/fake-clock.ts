import { configInvalid, shown } from "../id/errors.ts";
import type { Clock } from "../clock.ts";

/** A clock that moves only by these methods. */
export interface FakeClock extends Clock {
  /**
   * Moves the wall clock and the monotonic clock on together by `ms`. The clocks stop at each sleeper that is due on the way, in order,
   * so that the woken code runs. That code reads the time at which its sleep was to end, and may sleep again. Await this call before the
   * next one.
   */
  advance(ms: number): Promise<void>;
  /** Sets the wall clock by `ms`, forward or back, as an operator or a time server would. No sleeper wakes. */
  step(ms: number): void;
}

/** Nanoseconds, rounded up: a sleeper that wakes a fraction too early would have to sleep again. */
const nanosIn = (ms: number): bigint => BigInt(Math.ceil(ms * 1e6));

/** Lets all code run that waits only for promises. Kept at load time, since a test runner may replace the global function. */
const nextTurn = setImmediate;
const settled = (): Promise<void> => new Promise((resolve) => nextTurn(resolve));

/**
 * A clock for tests. It has no `spin`: a generator that would spin throws instead.
 * @param options.start the first time of the wall clock, Unix ms; default 2023-11-14T22:13:20Z.
 * @throws SnowleaseError CONFIG_INVALID if `options` is not an object.
 */
export function fakeClock(options: { readonly start?: number } = {}): FakeClock {
  // Destructuring treats a number as an object without `start`.
  if (typeof options !== "object" || options === null) {
    throw configInvalid(
      `Expected the options of \`fakeClock\` to be an object, got ${shown(options)}; pass one like { start: 1_700_000_000_000 }.`,
    );
  }
  const { start = 1_700_000_000_000 } = options;
  const sleepers = new Set<{ readonly due: bigint; readonly wake: () => void }>();
  let nanos = 0n;
  let offset = start;

  const next = (until: bigint): { due: bigint; wake: () => void } | undefined =>
    [...sleepers].filter(({ due }) => due <= until).toSorted((a, b) => Number(a.due - b.due))[0];

  return {
    now: () => Math.floor(offset + Number(nanos) / 1e6),
    nanos: () => nanos,

    sleep(ms, { signal } = {}) {
      if (signal?.aborted) return Promise.resolve();
      if (ms <= 0) return settled();
      return new Promise((resolve) => {
        const wake = (): void => {
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: nanos + nanosIn(ms), wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      });
    },

    async advance(ms) {
      const target = nanos + nanosIn(Math.max(0, ms));
      for (;;) {
        await settled();
        const sleeper = next(target);
        if (sleeper === undefined) break;
        if (sleeper.due > nanos) nanos = sleeper.due;
        sleeper.wake();
      }
      if (target > nanos) nanos = target;
    },

    step(ms) {
      offset += ms;
    },
  };
}
