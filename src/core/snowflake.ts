import { checkInteger, refuse } from "./check.ts";
import { monotonic, WallGate, type Clock } from "./clock.ts";
import { type Encoding, encodings, type EncodingName, Neighbours } from "./encoding.ts";
import type { SnowleaseError } from "./errors.ts";
import type { Layout } from "./layout.ts";
import type { Holding, Lease, Ledger, Tenure } from "./lease.ts";
import { firstWholeTick, RecentTicks, type Ticks } from "./recent.ts";
import { clockSetBack, notHeld, tickFull, windowPassed, windowToCome, windowUsedUp } from "./refusals.ts";
import type { Checkpoint, Usage } from "./registry.ts";
import { defaultRollback, rollbackRung, type RollbackOptions } from "./rollback.ts";
import { writeRun } from "./run.ts";
import { checkSpread, firstSequence } from "./spread.ts";
import { type TextOptions, TextRun } from "./text-run.ts";

/** wall: timestamps never lead the clock. lead: they may, as far as the lease's window reaches. */
export type Mode = "wall" | "lead";

/** How a generator takes its ticks, and what it does at its limits. */
export interface SnowflakeOptions {
  /** Default `wall`. */
  readonly mode?: Mode | undefined;
  /**
   * With how many different sequences a tick may begin, a power of two up to the sequences of a tick; default 1, they all begin at 0.
   * With `spread: 2^k` also the IDs of a generator that makes one now and then are even in `id % 2^k`, in a layout that ends with
   * the sequence. A tick has up to `spread - 1` IDs less.
   */
  readonly spread?: number | undefined;
  readonly rollback?: Partial<RollbackOptions> | undefined;
  /** What others leave to this generator, where it is not the only one on its lease. Then neither `lead` nor `spread`. */
  readonly share?: Share | undefined;
}

/** A generator's share of a lease. */
export interface Share {
  /** Whom the lease has to tell when it ends. */
  attach(ledger: Ledger): void;
  /** What the generator may use of the ticks of a tenure. */
  ticks(tenure: Tenure): Ticks;
}

/** How long an asynchronous call may wait. */
export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** ms; then the call rejects with what it waited for. Default 5 s. */
  readonly timeout?: number | undefined;
}

const defaultWait = 5000;

/** A full 1-ms tick is waited out by spinning; twice its length has passed only when the clock stands still. */
const longestSpin = 2;

/**
 * Who waits for the next tick may have what is left of the last few: of so many ms, the present tick included, and of so many ticks at
 * least. A busy event loop comes back after some ms; what it missed by then is not lost to the layout's ceiling.
 */
const [fewMs, fewTicks] = [20, 5];

const littleEndian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

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
export class Snowflake<Held extends Holding = Lease> implements Ledger {
  readonly lease: Held;
  readonly mode: Mode;
  readonly #spread: number;
  /** How many ticks who waits may go back. */
  readonly #few: number;
  readonly #layout: Layout;
  readonly #clock: Clock;
  readonly #gate: WallGate;
  readonly #rollback: RollbackOptions;
  readonly #share: Share | undefined;

  /** The tenure that the memory below belongs to. */
  #generation = 0;
  /** What was used with the present value of the rollback bits; a layout without them has but one. */
  #memory: Ticks;
  #rollbacks = 0;
  /** The newest that was used with smaller values. */
  #counted: Checkpoint | undefined;
  #sealed = 0;
  /** Highest wall clock reading in this tenure, Unix ms. */
  #seen = 0;
  #rung: string | undefined;

  /** The open tick: sequences from #next to #last may be handed out while the monotonic clock is before #deadline. */
  #tick = -1;
  #next = 0;
  #last = -1;
  #deadline = 0n;
  /** What the wall clock showed when the tick was opened; 0 once #deadline was told from it. */
  #opened = 0;

  /** The ID being made, as two words and as a bigint: one 32-bit store makes the next one where the sequence fits the low word. */
  readonly #words = new Uint32Array(2);
  readonly #id: BigUint64Array = new BigUint64Array(this.#words.buffer);
  readonly #float: Float64Array = new Float64Array(this.#words.buffer);
  readonly #narrow: boolean;
  readonly #shift: number;
  readonly #unit: number;
  #low = 0;
  #base = 0n;
  readonly #fitsNumber: boolean;
  #baseNumber = 0;
  readonly #neighbours = new Neighbours();

  /**
   * Takes over the accounting of this lease, or of a share of it. CONFIG_INVALID when it has a generator already, and for a lease that
   * others use without a share of it.
   */
  constructor(lease: Held, options: SnowflakeOptions = {}) {
    const { mode = "wall", spread = 1, share } = options;
    if (mode !== "wall" && mode !== "lead") refuse("mode", "to be wall or lead", mode);
    this.#spread = checkSpread(spread, lease.layout);
    if (share !== undefined && mode !== "wall") refuse("mode", "to be wall where a lease is shared", mode);
    if (share !== undefined && spread !== 1) refuse("spread", "to be 1 where a lease is shared", spread);
    if (share === undefined && lease.tenure?.shared)
      refuse("lease", "to be this generator's alone", "one that others use");
    (share ?? lease).attach(this);
    this.lease = lease;
    this.#share = share;
    this.mode = mode;
    this.#layout = lease.layout;
    this.#few = Math.max(fewTicks, Math.ceil(fewMs / this.#layout.tick));
    this.#clock = lease.clock;
    this.#gate = new WallGate(lease.clock);
    this.#rollback = {
      maxWait: options.rollback?.maxWait ?? defaultRollback.maxWait,
      maxTell: options.rollback?.maxTell ?? defaultRollback.maxTell,
    };
    this.#shift = this.#layout.shiftOf("sequence");
    this.#unit = 2 ** this.#shift;
    this.#fitsNumber = this.#layout.totalBits <= 53;
    this.#narrow = littleEndian && this.#shift + this.#layout.sequenceBits <= 32;
    this.#memory = new RecentTicks(this.#layout, 0);
    const { tenure } = lease;
    if (tenure !== undefined) this.#begin(tenure);
  }

  /**
   * The next ID. Never blocks, but for spinning to the next tick where a 1-ms tick is full.
   *
   * Throws SEQUENCE_EXHAUSTED (tick full), CLOCK_ROLLBACK, WINDOW_NOT_OPEN, LEASE_EXPIRED, each with `details.retryAfterMs`
   * where waiting helps; LEASE_LOST when the lease has ended; LAYOUT_EXPIRED when the timestamp bits have run out.
   */
  next(): bigint {
    const nanos = this.#clock.nanos();
    if (this.#next > this.#last || nanos >= this.#deadline) this.#openOrThrow(nanos);
    return this.#take();
  }

  /**
   * The next ID as a number, exact. Throws like `next`, and CONFIG_INVALID where the layout has more than the 53 bits of one: `safe53`
   * and `scene` have not.
   */
  nextNumber(): number {
    if (!this.#fitsNumber) refuse("layout", "to have at most 53 bits", this.#layout.fingerprint);
    const nanos = this.#clock.nanos();
    if (this.#next > this.#last || nanos >= this.#deadline) this.#openOrThrow(nanos);
    return this.#baseNumber + this.#next++ * this.#unit;
  }

  /** The next ID as text, decimal unless told otherwise. Throws like `next`. */
  nextString(format: EncodingName = "decimal"): string {
    if (format === "decimal") return this.next().toString();
    const nanos = this.#clock.nanos();
    if (this.#next > this.#last || nanos >= this.#deadline) this.#openOrThrow(nanos);
    const text = this.#neighbours.at(this.#next, format);
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
    const deadline = monotonic(this.#clock) + timeout;
    for (;;) {
      signal?.throwIfAborted();
      const nanos = this.#clock.nanos();
      if (this.#next <= this.#last && nanos < this.#deadline) return this.#take();
      const error = this.#open(nanos, this.#few);
      if (error === undefined) return this.#take();
      const left = deadline - monotonic(this.#clock);
      if (!this.#worthWaiting(error) || left <= 0) throw error;
      const ms = Math.min(error.details.retryAfterMs ?? left, left);
      // Only the clock ends a full tick; a listener on the lease for each such wait would pile up until the next renewal.
      if (error.code === "SEQUENCE_EXHAUSTED" && this.mode === "wall") await this.#clock.sleep(ms, { signal });
      else await this.#sleepOrChange(ms, signal);
    }
  }

  /**
   * Fills an array from its start with as many IDs as may be made now: in wall mode what is left of the open tick (and where the lease
   * is shared, of lanes), in lead mode what is left of the window. Returns how many. Throws like `next` when there is none at all.
   */
  fill(target: BigUint64Array): number {
    if (!(target instanceof BigUint64Array)) refuse("target", "to be a BigUint64Array", target);
    if (target.length === 0) return 0;
    const nanos = this.#clock.nanos();
    if (this.#next > this.#last || nanos >= this.#deadline) this.#openOrThrow(nanos);
    let made = this.#fillFrom(target, 0);
    if (!this.#hasMore) return made;
    while (made < target.length && this.#open(this.#clock.nanos()) === undefined) made += this.#fillFrom(target, made);
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
    const texts = new TextRun(options);
    const nanos = this.#clock.nanos();
    if (this.#next > this.#last || nanos >= this.#deadline) this.#openOrThrow(nanos);
    let end = this.#textFrom(target, 0, texts);
    if (!this.#hasMore) return end;
    while (this.#next > this.#last && this.#open(this.#clock.nanos()) === undefined) {
      end = this.#textFrom(target, end, texts);
    }
    return end;
  }

  /** Whether there may be something left when the open tick, or this share of it, is used up. */
  get #hasMore(): boolean {
    return this.mode === "lead" || this.#share !== undefined;
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
    this.#settle();
    const { tenure } = this.lease;
    if (tenure !== undefined && tenure.generation !== this.#generation) this.#begin(tenure);
    return this.#newest();
  }

  /** For the lease: hands out nothing more in this tenure, and tells what was handed out. */
  seal(): Usage | undefined {
    const checkpoint = this.checkpoint();
    this.#last = -1;
    this.#next = 0;
    this.#tick = -1;
    this.#sealed = this.#generation;
    const { from, tenure } = this.lease;
    const until = checkpoint === undefined ? from : Math.max(from, checkpoint.timestamp + this.#layout.tick);
    // A renewal raised the window's begin after a quarantine: what is remembered from before is nobody's to continue.
    const whole = tenure !== undefined && this.#memory.floor >= firstWholeTick(this.#layout, tenure.floor);
    const known = whole && this.#layout.maxRollback === 0;
    const recents = known && this.#memory instanceof RecentTicks ? this.#memory.handOver(until) : undefined;
    return { until, checkpoint, recents };
  }

  #begin(tenure: Tenure): void {
    this.#generation = tenure.generation;
    this.#memory = this.#share?.ticks(tenure) ?? RecentTicks.after(this.#layout, tenure);
    this.#rollbacks = 0;
    this.#counted = undefined;
    this.#seen = tenure.since;
    this.#rung = undefined;
  }

  /** The newest that was used in this tenure, with any value of the rollback bits. */
  #newest(): Checkpoint | undefined {
    const { highest } = this.#memory;
    const timestamp = this.#layout.timeOf(highest);
    if (highest < 0 || timestamp < (this.#counted?.timestamp ?? 0)) return this.#counted;
    return { timestamp, sequence: this.#memory.sequenceOf(highest) };
  }

  /** Brings what was handed out of the open tick into the memory. */
  #settle(): void {
    if (this.#tick >= 0 && this.#next > 0) this.#memory.raise(this.#tick, this.#next - 1);
  }

  /** The next ID of the open tick. */
  #take(): bigint {
    const sequence = this.#next++;
    if (!this.#narrow) return this.#base + (BigInt(sequence) << BigInt(this.#shift));
    this.#words[0] = this.#low + sequence * this.#unit;
    return this.#id[0] as bigint;
  }

  /** Fills an array, from `start`, with what the open tick has; returns how many. */
  #fillFrom(target: BigUint64Array, start: number): number {
    const count = Math.min(target.length - start, this.#last - this.#next + 1);
    const sequence = this.#next;
    this.#next += count;
    if (this.#narrow) {
      this.#words[0] = this.#low + sequence * this.#unit;
      const first = this.#float[0] as number;
      this.#words[0] = this.#low + (sequence + 1) * this.#unit;
      if (writeRun(target, start, count, first, (this.#float[0] as number) - first)) return count;
    }
    for (let i = 0; i < count; i++) target[start + i] = this.#base + (BigInt(sequence + i) << BigInt(this.#shift));
    return count;
  }

  /** Writes what the open tick has and the buffer has room for, from `at`; returns where it ends. */
  #textFrom(target: Uint8Array, at: number, texts: TextRun): number {
    const step = BigInt(this.#unit);
    while (this.#next <= this.#last) {
      const first = this.#base + BigInt(this.#next) * step;
      const count = Math.min(texts.fitting(first, step, target.length - at), this.#last - this.#next + 1);
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
    if (this.#unit === 1 && sequence > 0) this.#neighbours.learn(sequence, format, text);
    return text;
  }

  #openOrThrow(nanos: bigint): void {
    let error = this.#open(nanos);
    const { spin } = this.#clock;
    const full = error?.code === "SEQUENCE_EXHAUSTED" && this.mode === "wall";
    if (full && this.#layout.tick === 1 && spin !== undefined) {
      spin(this.#layout.timeOf(this.#tick + 1), longestSpin);
      error = this.#open(this.#clock.nanos());
    }
    if (error !== undefined) throw error;
  }

  /**
   * Opens a tick, or says why there is none.
   * @param nanos the monotonic clock, read a moment ago.
   * @param ticks in wall mode, how many ticks to look through for one that is not full, the present one first.
   */
  #open(nanos: bigint, ticks: number = 1): SnowleaseError | undefined {
    // Told when a second ID is asked for: at one ID a tick it would be a fifth of its cost.
    if (this.#opened > 0 && this.#next <= this.#last) {
      this.#deadline = this.#gate.before(this.#opened + 1);
      this.#opened = 0;
      if (nanos < this.#deadline) return undefined;
    }
    this.#settle();
    this.#last = -1;
    this.#next = 0;
    this.#tick = -1;
    const { tenure } = this.lease;
    if (tenure === undefined || tenure.generation === this.#sealed) return notHeld(this.lease);
    if (tenure.generation !== this.#generation) this.#begin(tenure);

    const wall = this.#gate.read(nanos);
    const error = this.mode === "wall" ? this.#follow(wall, tenure, ticks) : this.#lead(wall, tenure);
    if (error !== undefined) return error;
    // Not up to the end of a long tick: a clock that is set back in it has to be noticed.
    this.#deadline = 0n;
    this.#opened = wall;
    this.#base = this.#layout.encode(this.#tick, tenure.workerId, 0, this.#rollbacks);
    if (this.#fitsNumber) this.#baseNumber = Number(this.#base);
    this.#id[0] = this.#base;
    this.#low = this.#words[0] as number;
    // An ID that is 0 looks like none at all. Worker 0 would make it once in each wrap.
    if (this.#base === 0n && this.#next === 0) this.#next = 1;
    this.#neighbours.forget();
    return undefined;
  }

  /** Turns to the tick that the wall clock shows, or says why it is none. */
  #follow(wall: number, tenure: Tenure, ticks: number): SnowleaseError | undefined {
    const layout = this.#layout;
    const tick = layout.tickOf(wall);
    if (tick > layout.maxTick) return layout.expiredAt(wall);
    const begin = layout.timeOf(tick);
    if (begin < tenure.floor) return this.#below(wall, tenure);
    if (tick < this.#memory.floor && !this.#count(wall, tenure)) return this.#below(wall, tenure);
    if (!(begin + layout.tick <= tenure.until)) return windowPassed(tenure, wall);
    this.#see(wall);
    if (this.#turnTo(tick) || this.#turnToEarlier(tick, ticks, tenure)) return undefined;
    this.#tick = tick;
    // One that led the clock may have used up the next ones, too.
    let free = tick + 1;
    while (this.#memory.sequenceOf(free) >= layout.maxSequence) free++;
    return tickFull(layout, layout.timeOf(free) - wall);
  }

  /** Turns to the tick that the counter has come to: not before the clock's, nor before any that was used. */
  #lead(wall: number, tenure: Tenure): SnowleaseError | undefined {
    const layout = this.#layout;
    let tick = Math.max(layout.tickOf(wall), firstWholeTick(layout, tenure.from), this.#memory.highest);
    if (this.#memory.sequenceOf(tick) >= layout.maxSequence) tick++;
    if (tick > layout.maxTick) return layout.expiredAt(layout.timeOf(tick));
    if (!(layout.timeOf(tick + 1) <= tenure.until)) {
      const passed = layout.timeOf(layout.tickOf(wall) + 1) > tenure.until;
      return passed ? windowPassed(tenure, wall) : windowUsedUp(tenure, wall, this.lease.renewsIn);
    }
    this.#see(wall);
    this.#turnTo(tick);
    return undefined;
  }

  /** What the clock going back means to others; the mode has decided what it means here. */
  #see(wall: number): void {
    if (wall >= this.#seen) {
      this.#seen = wall;
      this.#rung = undefined;
    } else if (this.#rung !== "continue" && this.#rung !== "count") {
      this.lease.noteRollback(this.#seen - wall, "continue");
      this.#rung = "continue";
    }
  }

  /** Turns to this tick, behind what was used in it; false when that is all. */
  #turnTo(tick: number): boolean {
    const next = this.#memory.nextOf(tick);
    if (next > this.#layout.maxSequence) return false;
    this.#tick = tick;
    this.#next = next === 0 ? firstSequence(tick, this.#spread) : next;
    this.#last = this.#memory.lastOf(next);
    return true;
  }

  /** Turns to the newest tick before `tick`, since this lease was claimed, in which sequences are left. */
  #turnToEarlier(tick: number, ticks: number, { floor, since }: Tenure): boolean {
    const layout = this.#layout;
    const first = Math.max(this.#memory.floor, firstWholeTick(layout, floor), layout.tickOf(since), tick - ticks + 1);
    for (let earlier = tick - 1; earlier >= first; earlier--) if (this.#turnTo(earlier)) return true;
    return false;
  }

  /** Raises the rollback bits, with which every tick of the window is unused again; false when they have no higher value. */
  #count(wall: number, tenure: Tenure): boolean {
    if (this.#rollbacks >= this.#layout.maxRollback) return false;
    this.#counted = this.#newest();
    this.#rollbacks++;
    this.#memory = this.#share?.ticks(tenure) ?? new RecentTicks(this.#layout, tenure.floor);
    this.lease.noteRollback(this.#seen - wall, "count");
    this.#rung = "count";
    return true;
  }

  /** The clock shows less than this lease may use: not yet, or no more. */
  #below(wall: number, tenure: Tenure): SnowleaseError {
    const layout = this.#layout;
    const floor = layout.timeOf(Math.max(this.#memory.floor, firstWholeTick(layout, tenure.floor)));
    const remaining = floor - wall;
    const behind = this.#seen - wall;
    if (behind <= 0) return windowToCome(tenure, floor, remaining);
    const rung = rollbackRung(behind, remaining, this.#rollback);
    if (this.#rung !== rung) this.lease.noteRollback(behind, rung);
    this.#rung = rung;
    return clockSetBack(this.lease, behind, remaining);
  }

  #worthWaiting({ code, retryable }: SnowleaseError): boolean {
    return code === "CLOCK_ROLLBACK" ? this.#rung === "wait" || this.lease.state === "switching" : retryable;
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
