import { checkInteger, refuse } from "../id/check.ts";
import { monotonic, type Clock } from "../lease/clock.ts";
import { WallGate } from "./wall-gate.ts";
import { type Encoding, encodings, type EncodingName } from "../id/encodings.ts";
import type { SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { LeaseView, Lease, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { IncrementalEncoder } from "./incremental-encoder.ts";
import { notHeldError } from "./generator-errors.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { fillIds } from "./fill.ts";
import { type TextOptions, DecimalWriter } from "./decimal-writer.ts";
import { type Mode, type SnowflakeOptions, TickAllocator } from "./tick-allocator.ts";
import { littleEndian, lowerWord, upperWord } from "../id/endianness.ts";

/** How long an asynchronous call may wait. */
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** ms; then the call rejects with what it waited for. Default 5 s. */
  readonly timeout?: number | undefined;
}

const defaultWait = 5000;

/** Who waits for the next tick. */
interface TickWaiter {
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  /** Without an ID: to see for itself. */
  readonly answer: (id: bigint | undefined) => void;
}

/** A full 1-ms tick is waited out by spinning; twice its length has passed only when the clock stands still. */
const longestSpin = 2;

/**
 * Who waits for the next tick may have what is left of the last few: of so many ms, the present tick included, and of so many ticks at
 * least. A busy event loop comes back after some ms; what it missed by then is not lost to the layout's ceiling.
 */
const [lookBackMs, lookBackTicks] = [20, 5];

/** The most that `take` makes at once: 128 MiB. */
const mostTaken = 2 ** 24;

/**
 * Makes IDs on a lease. In wall mode an ID's timestamp is the tick that the wall clock shows, never a later one. In lead mode it is a
 * counter that never goes back: the clock's tick or, where the sequences of that one are used, the next, up to the end of the
 * lease's window.
 *
 * A tick is opened once and then handed out sequence by sequence: opening checks that it lies wholly in the lease's window and
 * starts behind what was ever used in it. All the rest of the safety lies in what the registry persisted before.
 */
export class Snowflake<Held extends LeaseView = Lease> implements UsageTracker {
  readonly lease: Held;
  readonly mode: Mode;
  readonly #isAlone: boolean;
  /** How many ticks who waits may go back. */
  readonly #ticksBack: number;
  readonly #layout: Layout;
  readonly #clock: Clock;
  readonly #gate: WallGate;
  readonly #allocator: TickAllocator;

  /** Of the open tick, sequences from #next to #last may be handed out while the monotonic clock is before #deadline: at first, one. */
  #next = 0;
  #last = -1;
  #deadline = 0n;
  /** What the wall clock showed when the tick was opened; 0: none is open. */
  #openedAt = 0;
  /** What the wall clock showed when the lease was last asked whether its store still stands. */
  #storeCheckedAt = 0;
  #snapshot: LeaseSnapshot | undefined;

  /** The ID being made, as two words and as a bigint: one 32-bit store makes the next one where the sequence fits the low word. */
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

  /**
   * Takes over the accounting of this lease, or of a share of it. CONFIG_INVALID when it has a generator already, and for a lease that
   * others use without a share of it.
   */
  constructor(lease: Held, options: SnowflakeOptions = {}) {
    this.#allocator = new TickAllocator(lease, options);
    if (options.share === undefined && lease.snapshot?.shared) {
      refuse("lease", "to be this generator's alone", "one that others use");
    }
    (options.share ?? lease).attach(this);
    this.lease = lease;
    this.mode = this.#allocator.mode;
    this.#isAlone = options.share === undefined;
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
   * The next ID. Never blocks, but for spinning to the next tick where a 1-ms tick is full.
   *
   * Throws SEQUENCE_EXHAUSTED (tick full), CLOCK_ROLLBACK, WINDOW_NOT_OPEN, LEASE_EXPIRED, each with `details.retryAfterMs`
   * where waiting helps; LEASE_LOST when the lease has ended; LAYOUT_EXPIRED when the timestamp bits have run out.
   */
  next(): bigint {
    if (!this.#isOpen()) this.#openOrThrow();
    return this.#take();
  }

  /**
   * The next ID as a number, exact. Throws like `next`, and CONFIG_INVALID where the layout has more than the 53 bits of one: `safe53`
   * and `scene` have not.
   */
  nextNumber(): number {
    if (!this.#fitsNumber) refuse("layout", "to have at most 53 bits", this.#layout.fingerprint);
    if (!this.#isOpen()) this.#openOrThrow();
    return this.#baseNumber + this.#next++ * this.#unit;
  }

  /** The next ID as text, decimal unless told otherwise. Throws like `next`. */
  nextString(format: EncodingName = "decimal"): string {
    if (format === "decimal") return this.next().toString();
    if (!this.#isOpen()) this.#openOrThrow();
    const text = this.#encoder.at(this.#next, format);
    if (text === undefined) return this.#takeString(format);
    this.#next++;
    return text;
  }

  /**
   * The next ID. Where all sequences of the present tick are used, it may carry one of the last few ticks in which some are left, and
   * so be less than the ID before it: who waits gets all that the layout can give. Waits for the next tick, the clock or the window where `next`
   * throws a retryable error and waiting is likely to help. Rejects with that error after `timeout`, and with the signal's reason when it is aborted.
   */
  async nextAsync(options: WaitOptions = {}): Promise<bigint> {
    const { signal, timeout = defaultWait } = options;
    if (!(timeout >= 0)) refuse("timeout", "to be a number of ms from 0", timeout);
    let deadline = Infinity;
    // Behind those who wait already: who never pauses would else leave them nothing.
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
          // Only the clock ends a full tick; a listener on the lease for each such wait would pile up until the next renewal.
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

  /**
   * Fills an array from its start with as many IDs as may be made now: in wall mode what is left of the open tick (and where the lease
   * is shared, of blocks), in lead mode what is left of the window. Returns how many. Throws like `next` when there is none at all.
   */
  fill(target: BigUint64Array): number {
    if (!(target instanceof BigUint64Array)) refuse("target", "to be a BigUint64Array", target);
    if (target.length === 0) return 0;
    if (!this.#isOpen()) this.#openOrThrow();
    let made = this.#fillFrom(target, 0);
    if (!this.#hasMore) return made;
    while (made < target.length && this.#open() === undefined) made += this.#fillFrom(target, made);
    return made;
  }

  /** Up to so many IDs: as `fill`, in an array that is no longer than they are. At most 2^24 at once. */
  take(count: number): BigUint64Array {
    checkInteger("count", count, 0, mostTaken);
    const target = new BigUint64Array(this.mode === "lead" ? count : Math.min(count, this.#layout.maxSequence + 1));
    return target.subarray(0, this.fill(target));
  }

  /**
   * Fills a buffer from its start with as many IDs as `fill` would make and as it has room for, as decimal text, each followed by a
   * line feed, or between the two texts told. Returns how many bytes were written. Throws like `next` when there is no ID at all.
   */
  fillText(target: Uint8Array, options?: TextOptions): number {
    if (!(target instanceof Uint8Array)) refuse("target", "to be a Uint8Array", target);
    const texts = new DecimalWriter(options);
    if (!this.#isOpen()) this.#openOrThrow();
    let end = this.#textFrom(target, 0, texts);
    if (!this.#hasMore) return end;
    while (this.#next > this.#allocator.last && this.#open() === undefined) {
      end = this.#textFrom(target, end, texts);
    }
    return end;
  }

  /** Whether there may be something left when the open tick, or this share of it, is used up. */
  get #hasMore(): boolean {
    return this.mode === "lead" || !this.#isAlone;
  }

  /** Gives the worker ID back; no ID is made after this, whatever becomes of the call. */
  close(): Promise<void> {
    return this.lease.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** For the lease: the newest tick handed out, and the highest sequence in it. */
  checkpoint(): Checkpoint | undefined {
    this.#allocator.note(this.#next);
    return this.#allocator.checkpoint();
  }

  /** For the lease: hands out nothing more in this claim, and tells what was handed out. */
  seal(): Usage | undefined {
    this.#allocator.leave(this.#next);
    [this.#next, this.#last] = [0, -1];
    this.#openedAt = 0;
    return this.#allocator.seal();
  }

  /** The next ID of the open tick. */
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

  /** Fills an array, from `start`, with what the open tick has; returns how many. */
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

  /** Writes what the open tick has and the buffer has room for, from `at`; returns where it ends. */
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
    const encoding = encodings[format] as Encoding | undefined;
    if (encoding?.encode === undefined) {
      refuse("format", `to be one of ${Object.keys(encodings).join(", ")}`, format);
    }
    const sequence = this.#next;
    const text = encoding.encode(this.#take());
    // Not from the first ID of a tick: it may be the only one, and learning costs more than it saves then.
    if (this.#unit === 1 && sequence > 0) this.#encoder.learn(sequence, format, text);
    return text;
  }

  /** Whether there is an ID for which the clock need not be read. */
  #isOpen(): boolean {
    return this.#next <= this.#last && this.#clock.nanos() < this.#deadline;
  }

  #openOrThrow(): void {
    let error = this.#open();
    const { spin } = this.#clock;
    const full = error !== undefined && this.#isFull(error);
    if (full && this.#layout.tick === 1 && spin !== undefined) {
      spin(this.#layout.timeOf(this.#allocator.tick + 1), longestSpin);
      error = this.#open();
    }
    if (error !== undefined) throw error;
  }

  /**
   * Opens a tick, or says why there is none.
   * @param ticks in wall mode, how many ticks to look through for one that is not full, the present one first.
   */
  #open(ticks: number = 1): SnowleaseError | undefined {
    let { snapshot } = this.lease;
    let wall = this.#clock.now();
    // How long the tick stays open is asked when it is to make a second ID: many make but one.
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
    // Behind the reading of the clock: a store that takes the place of this one later grants no time before that.
    if (wall !== this.#storeCheckedAt) {
      this.#storeCheckedAt = wall;
      this.lease.look();
      ({ snapshot } = this.lease);
    }
    if (snapshot === undefined) return notHeldError(this.lease);
    const error = this.#allocator.turn(wall, snapshot, ticks);
    if (error !== undefined) return error;
    const { tick, next, rollbacks } = this.#allocator;
    this.#layout.put(this.#words, tick, snapshot.workerId, 0, rollbacks);
    this.#low = this.#words[lowerWord] as number;
    // An ID that is 0 looks like none at all. It counts as used: the sequence behind it may be another generator's.
    if (next === 0 && this.#low === 0 && this.#words[upperWord] === 0) {
      this.#next = 1;
      return this.#open(ticks);
    }
    if (this.#fitsNumber) this.#baseNumber = Number(this.#id[0]);
    this.#next = next;
    this.#last = next;
    // Not up to the end of a long tick: a clock that is set back in it has to be noticed.
    this.#openedAt = wall;
    this.#snapshot = snapshot;
    this.#encoder.forget();
    return undefined;
  }

  /** Gives those who wait for the next tick an ID each, in the order in which they came; nobody any more where it is not the tick that is full. */
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

  /** Whether it is the tick that is full: the next one ends it. */
  #isFull({ code }: SnowleaseError): boolean {
    return code === "SEQUENCE_EXHAUSTED" && this.mode === "wall";
  }

  #worthWaiting({ code, retryable }: SnowleaseError): boolean {
    return code === "CLOCK_ROLLBACK" ? this.#allocator.isWaiting || this.lease.state === "switching" : retryable;
  }

  /** Sleeps, and wakes early when the lease changes. */
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
