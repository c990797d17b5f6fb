import { checkInteger, refuse } from "../id/check.ts";
import { monotonic, type Clock } from "../clock.ts";
import { WallGate } from "./wall-gate.ts";
import { checkDuration, type Duration } from "../id/duration.ts";
import { type Encoding, encodings, type EncodingName } from "../id/encodings.ts";
import { type SnowleaseError, timeText } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { LeaseView, Lease, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { IncrementalEncoder } from "./incremental-encoder.ts";
import { notHeldError } from "./generator-errors.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { fillIds } from "./fill.ts";
import { type TextOptions, DecimalWriter } from "./decimal-writer.ts";
import { type Mode, type SnowflakeOptions, TickAllocator } from "./tick-allocator.ts";
import { littleEndian, lowerWord, upperWord } from "../id/endianness.ts";

const defaultTimeout = 5000;

/** How long an asynchronous call may wait. */
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** After this time the call rejects with the error that made it wait. Default: 5 s. */
  readonly timeout?: Duration | undefined;
}

/** Whether a generator makes IDs. */
export interface Health {
  readonly ok: boolean;
  /** For people: until when, or why not. */
  readonly detail: string;
}

/** A caller that waits for the next tick. */
interface TickWaiter {
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  /** If the answer has no ID, the caller tries again by itself. */
  readonly answer: (id: bigint | undefined) => void;
}

/**
 * A waiting caller may use sequences that a busy event loop left unused in the last ticks: of this many ms, and at least of this many
 * ticks.
 */
const [lookBackMs, lookBackTicks] = [20, 5];

/**
 * Makes IDs on a lease. In wall mode an ID's timestamp is the tick of the wall clock, never a later one. In lead mode it is a counter that
 * never goes back: the clock's tick or, if its sequences are used, the next one, up to the end of the lease's window.
 *
 * The generator opens a tick, which must lie wholly in the lease's window, and hands out its unused sequences one by one. The rest of the
 * safety comes from what the registry persisted before.
 */
export class Snowflake<Held extends LeaseView = Lease> implements UsageTracker {
  readonly lease: Held;
  readonly mode: Mode;
  /** Whether there may be IDs left when the open tick, or this share of it, is used up. */
  readonly #hasMore: boolean;
  /** How many ticks a waiting caller may go back. */
  readonly #ticksBack: number;
  readonly #layout: Layout;
  readonly #clock: Clock;
  readonly #gate: WallGate;
  readonly #allocator: TickAllocator;

  /** Sequences #next to #last of the open tick may be handed out while the monotonic clock is before #deadline. At first only one. */
  #next = 0;
  #last = -1;
  #deadline = 0n;
  /** The wall clock when the tick was opened; 0: no tick is open. */
  #openedAt = 0;
  /** The wall clock when the lease last checked that its store was not replaced. */
  #storeCheckedAt = 0;
  #snapshot: LeaseSnapshot | undefined;
  /** Why no tick could be opened the last time. */
  #lastRefusal: SnowleaseError | undefined;

  /** The ID being made, as two words and as a bigint: one 32-bit store makes the next ID if the sequence fits the low word. */
  readonly #words = new Uint32Array(2);
  readonly #id: BigUint64Array = new BigUint64Array(this.#words.buffer);
  readonly #float: Float64Array = new Float64Array(this.#words.buffer);
  readonly #narrow: boolean;
  readonly #shift: number;
  readonly #unit: number;
  #low = 0;
  readonly #fitsNumber: boolean;
  #baseNumber = 0;
  readonly #encoder = new IncrementalEncoder();
  readonly #queue: TickWaiter[] = [];

  /** @throws SnowleaseError CONFIG_INVALID when the lease has a generator already, and for a shared lease without `options.share`. */
  constructor(lease: Held, options: SnowflakeOptions = {}) {
    this.#allocator = new TickAllocator(lease, options);
    if (options.share === undefined && lease.snapshot?.shared) {
      refuse("lease", "to be this generator's alone", "one that others use");
    }
    (options.share ?? lease).attach(this);
    this.lease = lease;
    this.mode = this.#allocator.mode;
    this.#hasMore = this.mode === "lead" || options.share !== undefined;
    this.#layout = lease.layout;
    this.#ticksBack = Math.max(lookBackTicks, Math.ceil(lookBackMs / this.#layout.tick));
    this.#clock = lease.clock;
    this.#gate = new WallGate(lease.clock);
    this.#shift = this.#layout.shiftOf("sequence");
    this.#unit = 2 ** this.#shift;
    this.#fitsNumber = this.#layout.totalBits <= 53;
    this.#narrow = littleEndian && this.#shift + this.#layout.sequenceBits <= 32;
  }

  /**
   * The next ID. Never blocks, except for spinning to the next tick if a 1-ms tick is full.
   *
   * Throws SEQUENCE_EXHAUSTED (tick full), CLOCK_ROLLBACK, WINDOW_NOT_OPEN, LEASE_EXPIRED, each with `details.retryAfterMs` if waiting
   * helps; LEASE_LOST when the lease has ended; LAYOUT_EXPIRED when the timestamp bits have run out.
   *
   * Like `nextNumber` and `close`, it works without the generator in front of it: `defaultFn(ids.next)`.
   */
  readonly next = (): bigint => {
    if (!this.#isOpen()) this.#openOrThrow();
    return this.#take();
  };

  /** The next ID as an exact number. Throws like `next`, and CONFIG_INVALID if an ID may have more than 53 bits, as in most layouts. */
  readonly nextNumber = (): number => {
    if (!this.#fitsNumber) refuse("layout", "to have at most 53 bits", this.#layout.fingerprint);
    if (!this.#isOpen()) this.#openOrThrow();
    return this.#baseNumber + this.#next++ * this.#unit;
  };

  /** The next ID as text, by default decimal. Throws like `next`. */
  nextString(format: EncodingName = "decimal"): string {
    if (format === "decimal") return this.next().toString();
    if (!this.#isOpen()) this.#openOrThrow();
    const text = this.#encoder.at(this.#next, format);
    if (text === undefined) return this.#takeString(format);
    this.#next++;
    return text;
  }

  /**
   * The next ID. Waits for the next tick, the clock or the window if `next` throws a retryable error and waiting is likely to help. If the
   * present tick is full, the ID may carry one of the last few ticks that has sequences left. It may then be less than the ID before.
   * Rejects with that error after `timeout`, and with the signal's reason when it is aborted.
   */
  async nextAsync(options: WaitOptions = {}): Promise<bigint> {
    const { signal } = options;
    const timeout = checkDuration("timeout", options.timeout ?? defaultTimeout, 0);
    let deadline = Infinity;
    // Queue behind existing waiters; otherwise a busy caller starves them.
    let queues = this.#queue.length > 0 && signal === undefined && timeout > this.#layout.tick;
    for (let ms = 0; ;) {
      signal?.throwIfAborted();
      if (!queues) {
        if (this.#isOpen()) return this.#take();
        const error = this.#open(this.#ticksBack);
        if (error === undefined) return this.#take();
        const now = monotonic(this.#clock);
        if (deadline === Infinity) deadline = now + timeout;
        const left = deadline - now;
        if (!this.#worthWaiting(error) || left <= 0) throw error;
        ms = Math.min(error.details.retryAfterMs ?? left, left);
        queues = this.#isFull(error) && signal === undefined && ms < left;
        if (!queues) {
          // Only the clock ends a full tick. Listeners on the lease for such waits would accumulate until the next renewal.
          if (this.#isFull(error)) await this.#clock.sleep(ms, { signal });
          else await this.#sleepOrChange(ms, signal);
          continue;
        }
      }
      if (deadline === Infinity) deadline = monotonic(this.#clock) + timeout;
      const id = await new Promise<bigint | undefined>((answer) => {
        this.#queue.push({ deadline, answer });
        if (this.#queue.length === 1) void this.#serve(ms);
      });
      if (id !== undefined) return id;
      queues = false;
    }
  }

  /** Like `nextAsync`, as text, by default decimal. */
  async nextStringAsync(format: EncodingName = "decimal", options: WaitOptions = {}): Promise<string> {
    const encoding = encodingOf(format);
    return encoding.encode(await this.nextAsync(options));
  }

  /**
   * Fills an array from its start with as many IDs as can be made now: in wall mode the rest of the open tick or of the share's blocks, in
   * lead mode the rest of the window. Returns their number. Throws like `next` when there is none.
   */
  fill(target: BigUint64Array): number {
    if (!(target instanceof BigUint64Array)) refuse("target", "to be a BigUint64Array", target);
    if (target.length === 0) return 0;
    if (!this.#isOpen()) this.#openOrThrow();
    let made = this.#fillFrom(target, 0);
    while (this.#hasMore && made < target.length && this.#open() === undefined) made += this.#fillFrom(target, made);
    return made;
  }

  /** Up to `count` IDs, at most 2^24 (128 MiB): like `fill`, in an array of their number. */
  take(count: number): BigUint64Array {
    checkInteger("count", count, 0, 2 ** 24);
    const target = new BigUint64Array(this.mode === "lead" ? count : Math.min(count, this.#layout.maxSequence + 1));
    return target.subarray(0, this.fill(target));
  }

  /**
   * Like `fill`, as decimal text in a buffer, each ID followed by a line feed, or between the texts of `options`. Returns the number of
   * bytes written.
   */
  fillText(target: Uint8Array, options?: TextOptions): number {
    if (!(target instanceof Uint8Array)) refuse("target", "to be a Uint8Array", target);
    const texts = new DecimalWriter(options);
    if (!this.#isOpen()) this.#openOrThrow();
    let end = this.#textFrom(target, 0, texts);
    while (this.#hasMore && this.#next > this.#allocator.last && this.#open() === undefined) {
      end = this.#textFrom(target, end, texts);
    }
    return end;
  }

  /**
   * Whether the generator makes IDs now, for a readiness probe. Reports the error that `next` would throw, unless that ends with the
   * present tick. Sends no request and uses no sequence. If the clock was set back too far, the lease switches or ends, as at a call of
   * `next`. If the result is not `ok`, another instance of the service may do better. An instance whose `lease.signal` is aborted has to be
   * started again.
   */
  health(): Health {
    const { workerId, namespace, until } = this.lease;
    const error = this.#refusal();
    const { state, failure, blocksFailure } = this.lease;
    const isTrying = state === "held" || state === "switching";
    const failed = isTrying ? (failure ?? blocksFailure) : undefined;
    const lastTry = failed === undefined ? "" : ` The last try failed: ${failed.message}`;
    if (error !== undefined) return { ok: false, detail: `${error.message}${lastTry}` };
    const detail = `Worker ${workerId} of namespace \`${namespace}\` makes IDs until ${timeText(until)}, longer with each renewal.`;
    return { ok: true, detail: `${detail}${lastTry}` };
  }

  #refusal(): SnowleaseError | undefined {
    const { snapshot, blocksFailure } = this.lease;
    if (snapshot === undefined) return notHeldError(this.lease);
    // The process that lends the lease gives no more blocks.
    const isShort = blocksFailure !== undefined && this.#lastRefusal?.code === "SEQUENCE_EXHAUSTED";
    return isShort ? this.#lastRefusal : this.#allocator.refusalAt(this.#clock.now(), snapshot);
  }

  /** Gives the worker ID back. No ID is made after this call, even if it rejects. */
  readonly close = (): Promise<void> => {
    return this.lease.close();
  };

  /** Call it before a snapshot of the process or its machine, so that no copy makes the same IDs: `Lease.suspend`. */
  suspend(this: Snowflake): Promise<void> {
    return this.lease.suspend();
  }

  /** Call it after the snapshot, in each copy: `Lease.resume`. */
  resume(this: Snowflake): Promise<void> {
    return this.lease.resume();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  checkpoint(): Checkpoint | undefined {
    this.#allocator.note(this.#next);
    return this.#allocator.checkpoint();
  }

  seal(): Usage | undefined {
    this.#allocator.leave(this.#next);
    [this.#next, this.#last] = [0, -1];
    this.#openedAt = 0;
    return this.#allocator.seal();
  }

  #take(): bigint {
    const sequence = this.#next++;
    if (!this.#narrow) return this.#base + (BigInt(sequence) << BigInt(this.#shift));
    this.#words[0] = this.#low + sequence * this.#unit;
    return this.#id[0] as bigint;
  }

  /** The ID of sequence 0 in the open tick. */
  get #base(): bigint {
    this.#words[lowerWord] = this.#low;
    return this.#id[0] as bigint;
  }

  /** Fills an array, from `start`, with IDs of the open tick; returns their number. */
  #fillFrom(target: BigUint64Array, start: number): number {
    const count = Math.min(target.length - start, this.#allocator.last - this.#next + 1);
    const sequence = this.#next;
    this.#next += count;
    if (this.#narrow) {
      this.#words[0] = this.#low + sequence * this.#unit;
      const first = this.#float[0] as number;
      this.#words[0] = this.#low + (sequence + 1) * this.#unit;
      if (fillIds(target, start, count, first, (this.#float[0] as number) - first)) return count;
    }
    for (let i = 0; i < count; i++) target[start + i] = this.#base + (BigInt(sequence + i) << BigInt(this.#shift));
    return count;
  }

  /** Writes IDs of the open tick into the buffer, from `at`, as far as there is room; returns the index after the last byte. */
  #textFrom(target: Uint8Array, at: number, texts: DecimalWriter): number {
    const step = BigInt(this.#unit);
    while (this.#next <= this.#allocator.last) {
      const first = this.#base + BigInt(this.#next) * step;
      const count = Math.min(texts.fitting(first, step, target.length - at), this.#allocator.last - this.#next + 1);
      if (count === 0) break;
      this.#next += count;
      at = texts.write(target, at, count, first, step);
    }
    return at;
  }

  #takeString(format: EncodingName): string {
    const encoding = encodingOf(format);
    const sequence = this.#next;
    const text = encoding.encode(this.#take());
    // Do not learn from the first ID of a tick: it may be the only one.
    if (this.#unit === 1 && sequence > 0) this.#encoder.learn(sequence, format, text);
    return text;
  }

  /** Whether an ID can be made without reading the wall clock. */
  #isOpen(): boolean {
    return this.#next <= this.#last && this.#clock.nanos() < this.#deadline;
  }

  #openOrThrow(): void {
    let error = this.#open();
    const { spin } = this.#clock;
    if (error !== undefined && this.#isFull(error) && this.#layout.tick === 1 && spin !== undefined) {
      // The 2 ms pass only if the clock stands still.
      spin(this.#layout.timeOf(this.#allocator.tick + 1), 2);
      error = this.#open();
    }
    if (error !== undefined) throw error;
  }

  /** Opens a tick, or returns why none can be opened. `ticks`: as in `TickAllocator.turn`. */
  #open(ticks: number = 1): SnowleaseError | undefined {
    let { snapshot } = this.lease;
    let wall = this.#clock.now();
    // Compute the deadline of the tick only for its second ID: many callers make only one.
    if (wall === this.#openedAt && snapshot === this.#snapshot && this.#next <= this.#allocator.last) {
      wall = this.#gate.read();
      if (wall === this.#openedAt) {
        this.#last = this.#allocator.last;
        this.#deadline = this.#gate.before(wall + 1);
        return undefined;
      }
    }
    this.#allocator.leave(this.#next);
    this.#next = 0;
    this.#last = -1;
    this.#openedAt = 0;
    // Check the store after reading the clock: a store that replaces this one later grants no time before that reading.
    if (wall !== this.#storeCheckedAt) {
      this.#storeCheckedAt = wall;
      this.lease.look();
      ({ snapshot } = this.lease);
    }
    if (snapshot === undefined) return notHeldError(this.lease);
    const error = this.#allocator.turn(wall, snapshot, ticks);
    this.#lastRefusal = error;
    if (error !== undefined) return error;
    const { tick, next, rollbacks } = this.#allocator;
    this.#layout.put(this.#words, tick, snapshot.workerId, 0, rollbacks);
    this.#low = this.#words[lowerWord] as number;
    // Skip the ID 0: it looks like no ID. It counts as used, because the next sequence may belong to another generator.
    if (next === 0 && this.#low === 0 && this.#words[upperWord] === 0) {
      this.#next = 1;
      return this.#open(ticks);
    }
    if (this.#fitsNumber) this.#baseNumber = Number(this.#id[0]);
    this.#next = next;
    this.#last = next;
    // Do not keep a long tick open to its end: the generator has to notice a clock that is set back in it.
    this.#openedAt = wall;
    this.#snapshot = snapshot;
    this.#encoder.forget();
    return undefined;
  }

  /** Gives an ID to each waiting caller, in order of arrival. Sends the rest back to try again if the tick is not full. */
  async #serve(ms: number): Promise<void> {
    const queue = this.#queue;
    while (queue.length > 0) {
      await this.#clock.sleep(ms);
      const waiting = queue.splice(0);
      let error: SnowleaseError | undefined;
      let served = 0;
      while (served < waiting.length && (this.#isOpen() || (error = this.#open(this.#ticksBack)) === undefined)) {
        waiting[served++]?.answer(this.#take());
      }
      const now = error !== undefined && this.#isFull(error) ? monotonic(this.#clock) : Infinity;
      ms = error?.details.retryAfterMs ?? 0;
      for (const waiter of waiting.slice(served)) {
        if (waiter.deadline > now) {
          queue.push(waiter);
          ms = Math.min(ms, waiter.deadline - now);
        } else waiter.answer(undefined);
      }
    }
  }

  /** Whether the next tick helps. */
  #isFull({ code }: SnowleaseError): boolean {
    return code === "SEQUENCE_EXHAUSTED" && this.mode === "wall";
  }

  #worthWaiting({ code, retryable }: SnowleaseError): boolean {
    return code === "CLOCK_ROLLBACK" ? this.#allocator.isWaiting || this.lease.state === "switching" : retryable;
  }

  async #sleepOrChange(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    signal?.addEventListener("abort", wake, { once: true });
    const remove = this.lease.onChange(wake);
    await this.#clock.sleep(ms, { signal: woken.signal });
    remove();
    signal?.removeEventListener("abort", wake);
  }
}

/** @throws SnowleaseError CONFIG_INVALID */
function encodingOf(format: EncodingName): Encoding {
  const encoding = encodings[format] as Encoding | undefined;
  if (encoding?.encode !== undefined) return encoding;
  return refuse("format", `to be one of ${Object.keys(encodings).join(", ")}`, format);
}
