import { checkInteger, refuse } from "../id/check.ts";
import { isSnowleaseError } from "../id/errors.ts";
import type { Snowflake } from "./snowflake.ts";

/** How many IDs a ring holds, and when it is filled. */
export interface RingOptions {
  /** It holds so many times the IDs of a tick, as a power of two: `sequences << boost`. 0 up to 2^24 IDs in all; default 3. */
  readonly boost?: number | undefined;
  /** Filled when no more than this percentage of it is left, 0 to 100, as soon as nothing else runs. Default 50. */
  readonly paddingFactor?: number | undefined;
  /**
   * Filled every so many ms, too, and IDs that the clock has left behind are dropped, so that none lags it by much more than that.
   * Default: never.
   */
  readonly scheduleInterval?: number | undefined;
  /** Called when a scheduled refill finds no room. */
  readonly onFull?: (() => void) | undefined;
  /** Called when an ID is taken and there is none, before the ring is filled for it; what it throws, the taker gets. */
  readonly onEmpty?: (() => void) | undefined;
}

/** The size of the largest ring, 128 MiB. */
const mostBits = 24;

/** Longest sleep that a timer honours, ms. */
const longestTimer = 2 ** 31 - 1;

/**
 * IDs that are prepared, on a generator in lead mode: taking one is reading an array, without a look at a clock. A ring is full from
 * the start, where the generator can make IDs then. They count as used from when they are prepared, and those that are left when the lease ends are nobody's.
 *
 * Their timestamps rise, but may lag the clock by as long as they lie here; they stay good when the window has passed, since they lie in
 * it. Whoever reads the generator itself beside the ring gets later ones.
 */
export class Ring {
  readonly ids: Snowflake;
  /** How many IDs it holds. */
  readonly size: number;
  readonly #slots: BigUint64Array;
  readonly #mask: number;
  readonly #padding: number;
  readonly #options: RingOptions;
  /** Ends the sleeps. */
  readonly #stop = new AbortController();
  /** The claim whose IDs these are. */
  #generation: number | undefined;
  /** Where the next one lies, and how many there are from there. */
  #head = 0;
  #left = 0;
  #soon = false;

  /** @throws SnowleaseError CONFIG_INVALID, also for a generator that is not in lead mode. */
  constructor(ids: Snowflake, options: RingOptions = {}) {
    const { lease, mode } = ids;
    const { sequenceBits, maxSequence } = lease.layout;
    if (mode !== "lead") refuse("ids", "to be a generator in lead mode", mode);
    const { boost = 3, paddingFactor = 50, scheduleInterval } = options;
    checkInteger("boost", boost, 0, Math.max(0, mostBits - sequenceBits));
    checkInteger("paddingFactor", paddingFactor, 0, 100, "percent");
    if (scheduleInterval !== undefined) checkInteger("scheduleInterval", scheduleInterval, 1, longestTimer, "ms");
    this.ids = ids;
    this.size = (maxSequence + 1) * 2 ** boost;
    this.#slots = new BigUint64Array(this.size);
    this.#mask = this.size - 1;
    this.#padding = Math.floor((this.size * paddingFactor) / 100);
    this.#options = options;
    this.#refillQuietly();
    lease.onChange(() => this.#follow());
    this.#follow();
    if (scheduleInterval !== undefined) void this.#refillEvery(scheduleInterval);
  }

  /** How many IDs are prepared now. */
  get left(): number {
    return this.#left;
  }

  /** The next ID. Throws like `Snowflake.next` where there is none and none can be made, and what `onEmpty` throws. */
  next(): bigint {
    if (this.#left === 0) {
      // In case that what follows throws: the next taker may have more luck.
      void this.#refillSoon();
      this.#options.onEmpty?.();
      this.#refill();
    }
    const id = this.#slots[this.#head] as bigint;
    this.#head = (this.#head + 1) & this.#mask;
    if (--this.#left === this.#padding) void this.#refillSoon();
    return id;
  }

  /** Gives the worker ID back; no ID is taken after this, whatever becomes of the call. */
  close(): Promise<void> {
    return this.ids.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Fills what is free. Throws where nothing is left and nothing can be made. */
  #refill(): void {
    try {
      while (this.#left < this.size) {
        const tail = (this.#head + this.#left) & this.#mask;
        const end = tail < this.#head ? this.#head : this.size;
        this.#left += this.ids.fill(this.#slots.subarray(tail, end));
        this.#generation = this.ids.lease.snapshot?.generation;
      }
    } catch (error) {
      if (this.#left === 0 || !isSnowleaseError(error)) throw error;
    }
  }

  async #refillSoon(): Promise<void> {
    if (this.#soon) return;
    this.#soon = true;
    await this.#pause(0);
    this.#soon = false;
    this.#refillQuietly();
  }

  async #refillEvery(interval: number): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#pause(interval);
      if (this.#lags()) this.#left = 0;
      if (this.#left === this.size) this.#options.onFull?.();
      this.#refillQuietly();
    }
  }

  #pause(ms: number): Promise<void> {
    return this.ids.lease.clock.sleep(ms, { signal: this.#stop.signal, keepAlive: false });
  }

  /** What stands in its way, the next taker is told. */
  #refillQuietly(): void {
    try {
      if (!this.#stop.signal.aborted) this.#refill();
    } catch (error) {
      if (!isSnowleaseError(error)) throw error;
    }
  }

  /** Whether the clock has left the next ID behind. */
  #lags(): boolean {
    const { clock, layout } = this.ids.lease;
    if (this.#left === 0) return false;
    const now = clock.now();
    return layout.decompose(this.#slots[this.#head] as bigint, now).timestamp + layout.tick <= now;
  }

  /** Drops what was prepared on a lease that has ended or was switched since, and makes use of a window that was extended. */
  #follow(): void {
    const { snapshot, state } = this.ids.lease;
    if (snapshot?.generation !== this.#generation) this.#left = 0;
    if (snapshot !== undefined && this.#left <= this.#padding) void this.#refillSoon();
    if (state !== "held" && state !== "switching") this.#stop.abort();
  }
}
