import { type Clock, monotonic } from "../clock.ts";

interface PendingCall {
  /** On the monotonic clock, ms. */
  readonly end: number;
  readonly tooLate: () => void;
}

/** Reports calls that take too long. One sleep watches all calls, because a sleep for each call would cost as much as the call. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #waiting = new Set<PendingCall>();
  #wakes = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `tooLate` after `ms`, unless the caller calls the returned function before. */
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
      // A sleep for an earlier deadline may have replaced this one.
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
