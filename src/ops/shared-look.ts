import { type Clock, monotonic } from "../clock.ts";

/** Times in ms. */
interface SharedLookOptions {
  readonly clock: Clock;
  /** Shortest time between two looks. An earlier caller gets the result of the last look. */
  readonly interval: number;
  /** How long a caller waits. After that, the look itself goes on, and the next caller gets its result. */
  readonly patience: number;
}

/** A look at a registry, shared by all callers that wait for it. */
export class SharedLook {
  readonly #options: SharedLookOptions;
  readonly #look: () => Promise<unknown>;
  #looking: Promise<unknown> | undefined;
  #lookedAt = -Infinity;

  /** @param look must not reject. */
  constructor(options: SharedLookOptions, look: () => Promise<unknown>) {
    this.#options = options;
    this.#look = look;
  }

  /** Waits for a look. False: it takes longer than `patience`. */
  async wait(): Promise<boolean> {
    const { clock, interval, patience } = this.#options;
    if (this.#looking === undefined && monotonic(clock) - this.#lookedAt < interval) return true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      this.#lookedAt = monotonic(clock);
    });
    const done = new AbortController();
    const late = clock.sleep(patience, { signal: done.signal, keepAlive: false }).then(() => false);
    const inTime = await Promise.race([this.#looking.then(() => true), late]);
    done.abort();
    return inTime;
  }
}
