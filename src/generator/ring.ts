import { checkInteger, refuse } from "../id/check.ts";
import { checkDuration, type Duration } from "../id/duration.ts";
import { longestTimer } from "../clock.ts";
import { ignoreRefusal, isSnowleaseError } from "../id/errors.ts";
import { isOver, type LeaseSnapshot } from "../lease/lease-view.ts";
import type { Snowflake } from "./snowflake.ts";

/** The size of a ring, and when it is refilled. */
export interface RingOptions {
  /** Size as a power of two times the IDs of a tick: `sequences << boost`. 0 up to 2^24 IDs in all; default 3. */
  readonly boost?: number | undefined;
  /** Refills when at most this percentage of the IDs is left, 0 to 100, as soon as the event loop is idle. Default 50. */
  readonly paddingFactor?: number | undefined;
  /** Also refills at this interval, at least 1 ms, and drops IDs older than the clock's tick. Default: never. */
  readonly scheduleInterval?: Duration | undefined;
  /** Called when a scheduled refill finds the ring full. */
  readonly onFull?: (() => void) | undefined;
  /** Called when an ID is taken from an empty ring, before the refill. `next` throws its errors. */
  readonly onEmpty?: (() => void) | undefined;
}

/** The size of the largest ring in bits, 128 MiB. */
const mostBits = 24;

/**
 * IDs prepared by a generator in lead mode: taking one reads an array and no clock. The ring fills at once, if it can. Prepared IDs count
 * as used; IDs left when the lease ends are lost.
 *
 * Timestamps rise, but lag the clock by as long as IDs stay in the ring. IDs stay valid after the window has passed, because their
 * timestamps are inside it. IDs taken directly from the generator are later than those in the ring.
 */
export class Ring {
  readonly ids: Snowflake;
  /** How many IDs it holds. */
  readonly size: number;
  readonly #slots: BigUint64Array;
  readonly #mask: number;
  readonly #padding: number;
  readonly #options: RingOptions;
  readonly #stop = new AbortController();
  /** The claim that made these IDs. */
  #generation: number | undefined;
  /** Index of the next ID, and the number of IDs from there. */
  #head = 0;
  #left = 0;
  #soon = false;

  /** @throws SnowleaseError CONFIG_INVALID, also for a generator that is not in lead mode. */
  constructor(ids: Snowflake, options: RingOptions = {}) {
    const { lease, mode } = ids;
    const { sequenceBits, maxSequence } = lease.layout;
    if (mode !== "lead") refuse("ids", "to be a generator in lead mode", mode);
    const { boost = 3, paddingFactor = 50 } = options;
    checkInteger("boost", boost, 0, Math.max(0, mostBits - sequenceBits));
    checkInteger("paddingFactor", paddingFactor, 0, 100, "percent");
    const { scheduleInterval } = options;
    const interval =
      scheduleInterval === undefined ? undefined : checkDuration("scheduleInterval", scheduleInterval, 1, longestTimer);
    this.ids = ids;
    this.size = (maxSequence + 1) * 2 ** boost;
    this.#slots = new BigUint64Array(this.size);
    this.#mask = this.size - 1;
    this.#padding = Math.floor((this.size * paddingFactor) / 100);
    this.#options = options;
    this.#refillQuietly();
    lease.onChange(() => this.#follow());
    this.#follow();
    if (interval !== undefined) void this.#refillEvery(interval);
  }

  /** How many IDs are prepared now. */
  get left(): number {
    return this.#left;
  }

  /** The next ID. Throws like `Snowflake.next` if the ring is empty and no ID can be made, and throws the errors of `onEmpty`. */
  next(): bigint {
    if (this.#left === 0) {
      // First, because the next lines may throw: the next call then may find IDs.
      void this.#refillSoon();
      this.#options.onEmpty?.();
      this.#refill();
    }
    const id = this.#slots[this.#head] as bigint;
    this.#head = (this.#head + 1) & this.#mask;
    if (--this.#left === this.#padding) void this.#refillSoon();
    return id;
  }

  /** Gives the worker ID back. No ID is taken after this call, even if it rejects. */
  close(): Promise<void> {
    return this.ids.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Fills the free slots. Throws if the ring is empty and no ID can be made. */
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

  /** Ignores errors: the next `next` call throws them. */
  #refillQuietly(): void {
    try {
      if (!this.#stop.signal.aborted) this.#refill();
    } catch (error) {
      ignoreRefusal(error);
    }
  }

  /** Whether the next ID is older than the clock's tick. */
  #lags(): boolean {
    const { clock, layout } = this.ids.lease;
    const now = clock.now();
    return this.#nextTimestamp(now) + layout.tick <= now;
  }

  /** Whether the next ID lies before the begin of the window, which a quarantine may have raised. */
  #isClosed({ from }: LeaseSnapshot): boolean {
    return this.#nextTimestamp(this.ids.lease.clock.now()) < from;
  }

  /** The time of the next ID, Unix ms; Infinity if none is left. */
  #nextTimestamp(now: number): number {
    if (this.#left === 0) return Infinity;
    return this.ids.lease.layout.decompose(this.#slots[this.#head] as bigint, now).timestamp;
  }

  /** Drops IDs of a lease that has ended or switched, and of a window that begins later now. Refills when a window was extended. */
  #follow(): void {
    const { snapshot, state } = this.ids.lease;
    if (snapshot?.generation !== this.#generation || (snapshot && this.#isClosed(snapshot))) this.#left = 0;
    if (snapshot !== undefined && this.#left <= this.#padding) void this.#refillSoon();
    if (isOver(state)) this.#stop.abort();
  }
}
