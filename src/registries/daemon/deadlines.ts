import { type Clock, monotonic } from "../../lease/clock.ts";

interface PendingCall {
  /** On the monotonic clock, ms. */
  readonly end: number;
  readonly tooLate: () => void;
}

/**
 * Tells of what takes too long. One sleep watches over all that waits: one for each, which is broken off when the answer comes, would cost as
 * much as asking.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #waiting = new Set<PendingCall>();
  /** When the next sleep ends. */
  #wakes = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `tooLate` after `ms`, unless the function that is returned was called before. */
  within(ms: number, tooLate: () => void): () => void {
    const waiting: PendingCall = { end: monotonic(this.#clock) + ms, tooLate };
    this.#waiting.add(waiting);
    this.#watch(waiting.end);
    return () => void this.#waiting.delete(waiting);
  }

  #watch(end: number): void {
    if (end >= this.#wakes) return;
    this.#wakes = end;
    const ms = end - monotonic(this.#clock);
    void this.#clock.sleep(ms, { keepAlive: false }).then(() => {
      // One that was to end sooner has taken its place.
      if (this.#wakes === end) this.#look();
    });
  }

  #look(): void {
    this.#wakes = Infinity;
    const now = monotonic(this.#clock);
    let next = Infinity;
    for (const waiting of this.#waiting) {
      if (waiting.end > now) next = Math.min(next, waiting.end);
      else if (this.#waiting.delete(waiting)) waiting.tooLate();
    }
    if (next < Infinity) this.#watch(next);
  }
}
