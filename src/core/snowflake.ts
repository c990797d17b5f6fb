import { monotonic, WallGate, type Clock } from "./clock.ts";
import { type Encoding, encodings, type EncodingName, Neighbours } from "./encoding.ts";
import { shown, SnowleaseError } from "./errors.ts";
import type { Layout } from "./layout.ts";
import type { Lease, Ledger, Tenure } from "./lease.ts";
import { firstWholeTick, RecentTicks } from "./recent.ts";
import type { Checkpoint, Usage } from "./registry.ts";
import { defaultRollback, rollbackRung, type RollbackOptions } from "./rollback.ts";
import { timeText } from "./window.ts";

/** How a generator behaves at its limits. */
export interface SnowflakeOptions {
  readonly rollback?: Partial<RollbackOptions> | undefined;
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

const littleEndian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/**
 * Makes IDs on a lease, in wall mode: an ID's timestamp is the tick that the wall clock shows, never a later one.
 *
 * A tick is opened once and then handed out sequence by sequence: opening checks that it lies wholly in the lease's window and
 * starts behind what was ever used in it. All the rest of the safety lies in what the registry persisted before.
 */
export class Snowflake implements Ledger {
  readonly lease: Lease;
  readonly #layout: Layout;
  readonly #clock: Clock;
  readonly #gate: WallGate;
  readonly #rollback: RollbackOptions;

  /** The tenure that the memory below belongs to. */
  #generation = 0;
  #memory: RecentTicks;
  #sealed = 0;
  /** Highest wall clock reading in this tenure, Unix ms. */
  #seen = 0;
  #rung: string | undefined;

  /** The open tick: sequences from #next to #last may be handed out while the monotonic clock is before #deadline. */
  #tick = -1;
  #next = 0;
  #last = -1;
  #deadline = 0n;

  /** The ID being made, as two words and as a bigint: one 32-bit store makes the next one where the sequence fits the low word. */
  readonly #words = new Uint32Array(2);
  readonly #id: BigUint64Array = new BigUint64Array(this.#words.buffer);
  readonly #narrow: boolean;
  readonly #shift: number;
  readonly #unit: number;
  #low = 0;
  #base = 0n;
  readonly #neighbours = new Neighbours();

  /** Takes over the accounting of this lease. CONFIG_INVALID when it has a generator already. */
  constructor(lease: Lease, options: SnowflakeOptions = {}) {
    lease.attach(this);
    this.lease = lease;
    this.#layout = lease.layout;
    this.#clock = lease.clock;
    this.#gate = new WallGate(lease.clock);
    this.#rollback = {
      maxWait: options.rollback?.maxWait ?? defaultRollback.maxWait,
      maxTell: options.rollback?.maxTell ?? defaultRollback.maxTell,
    };
    this.#shift = this.#layout.shiftOf("sequence");
    this.#unit = 2 ** this.#shift;
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
    if (this.#next > this.#last || this.#clock.nanos() >= this.#deadline) this.#openOrThrow();
    return this.#take();
  }

  /** The next ID as text, decimal unless told otherwise. Throws like `next`. */
  nextString(format: EncodingName = "decimal"): string {
    if (format === "decimal") return this.next().toString();
    if (this.#next > this.#last || this.#clock.nanos() >= this.#deadline) this.#openOrThrow();
    const text = this.#neighbours.at(this.#next, format);
    if (text === undefined) return this.#takeString(format);
    this.#next++;
    return text;
  }

  /**
   * The next ID; waits for the next tick, the clock or the window where `next` throws a retryable error and waiting is likely to
   * help. Rejects with that error after `timeout`, and with the signal's reason when it is aborted.
   */
  async nextAsync(options: WaitOptions = {}): Promise<bigint> {
    const { signal, timeout = defaultWait } = options;
    if (!(timeout >= 0)) throw invalid("timeout", "to be a number of ms from 0", timeout);
    const deadline = monotonic(this.#clock) + timeout;
    for (;;) {
      signal?.throwIfAborted();
      if (this.#next <= this.#last && this.#clock.nanos() < this.#deadline) return this.#take();
      const error = this.#open();
      if (error === undefined) return this.#take();
      const left = deadline - monotonic(this.#clock);
      if (!this.#worthWaiting(error) || left <= 0) throw error;
      const ms = Math.min(error.details.retryAfterMs ?? left, left);
      // Only the clock ends a full tick; a listener on the lease for each such wait would pile up until the next renewal.
      if (error.code === "SEQUENCE_EXHAUSTED") await this.#clock.sleep(ms, { signal });
      else await this.#sleepOrChange(ms, signal);
    }
  }

  /**
   * Fills an array from its start with as many IDs as the clock allows now: what is left of the present tick. Returns how many.
   * Throws like `next` when there is none at all.
   */
  fill(target: BigUint64Array): number {
    if (!(target instanceof BigUint64Array)) throw invalid("target", "to be a BigUint64Array", target);
    if (target.length === 0) return 0;
    if (this.#next > this.#last || this.#clock.nanos() >= this.#deadline) this.#openOrThrow();
    const count = Math.min(target.length, this.#last - this.#next + 1);
    const first = this.#base + (BigInt(this.#next) << BigInt(this.#shift));
    this.#next += count;
    countUp(target, count, first, this.#shift);
    return count;
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
    const tick = this.#memory.highest;
    if (tick < 0) return undefined;
    return { timestamp: this.#layout.timeOf(tick), sequence: this.#memory.sequenceOf(tick) };
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
    const known = tenure !== undefined && this.#memory.floor >= firstWholeTick(this.#layout, tenure.floor);
    return { until, checkpoint, recents: known ? this.#memory.handOver(until) : undefined };
  }

  #begin(tenure: Tenure): void {
    this.#generation = tenure.generation;
    this.#memory = RecentTicks.after(this.#layout, tenure);
    this.#seen = tenure.since;
    this.#rung = undefined;
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

  #takeString(format: EncodingName): string {
    const encoding = encodings[format] as Encoding | undefined;
    if (encoding?.encode === undefined) {
      throw invalid("format", `to be one of ${Object.keys(encodings).join(", ")}`, format);
    }
    const sequence = this.#next;
    const text = encoding.encode(this.#take());
    // Not from the first ID of a tick: it may be the only one, and learning costs more than it saves then.
    if (this.#unit === 1 && sequence > 0) this.#neighbours.learn(sequence, format, text);
    return text;
  }

  #openOrThrow(): void {
    let error = this.#open();
    const { spin } = this.#clock;
    if (error?.code === "SEQUENCE_EXHAUSTED" && this.#layout.tick === 1 && spin !== undefined) {
      spin(this.#layout.timeOf(this.#tick + 1), longestSpin);
      error = this.#open();
    }
    if (error !== undefined) throw error;
  }

  /** Opens the tick that the wall clock shows, or says why there is none. */
  #open(): SnowleaseError | undefined {
    const layout = this.#layout;
    this.#settle();
    this.#last = -1;
    this.#next = 0;
    this.#tick = -1;
    const { tenure } = this.lease;
    if (tenure === undefined || tenure.generation === this.#sealed) return this.#gone();
    if (tenure.generation !== this.#generation) this.#begin(tenure);

    const wall = this.#gate.read();
    const tick = layout.tickOf(wall);
    if (tick > layout.maxTick) return this.#outlived();
    const begin = layout.timeOf(tick);
    if (tick < this.#memory.floor || begin < tenure.floor) return this.#below(wall, tenure);
    if (!(begin + layout.tick <= tenure.until)) return this.#expired(wall, tenure);
    if (wall < this.#seen) {
      if (this.#rung !== "continue") this.lease.noteRollback(this.#seen - wall, "continue");
      this.#rung = "continue";
    } else {
      this.#seen = wall;
      this.#rung = undefined;
    }

    this.#tick = tick;
    this.#next = this.#memory.sequenceOf(tick) + 1;
    const end = layout.timeOf(tick + 1);
    if (this.#next > layout.maxSequence) return this.#full(end - wall);
    this.#last = layout.maxSequence;
    // Not up to the end of a long tick: a clock that is set back in it has to be noticed.
    this.#deadline = this.#gate.before(wall + 1);
    this.#base = layout.encode(tick, tenure.workerId, 0);
    this.#id[0] = this.#base;
    this.#low = this.#words[0] as number;
    this.#neighbours.forget();
    return undefined;
  }

  #gone(): SnowleaseError {
    const { lease } = this;
    if (lease.state === "switching") {
      return new SnowleaseError(
        "LEASE_EXPIRED",
        `Worker ${lease.workerId} of namespace \`${lease.namespace}\` was given up and another worker ID is being claimed; try again.`,
      );
    }
    return new SnowleaseError(
      "LEASE_LOST",
      `The lease of worker ${lease.workerId} of namespace \`${lease.namespace}\` has ended (${lease.state}); make a new generator.`,
    );
  }

  #outlived(): SnowleaseError {
    return new SnowleaseError(
      "LAYOUT_EXPIRED",
      `The timestamp bits of the layout ${this.#layout.fingerprint} ran out on ${timeText(this.#layout.endOfLife)}; move to another layout.`,
    );
  }

  #expired(wall: number, { workerId, until }: Tenure): SnowleaseError {
    return new SnowleaseError(
      "LEASE_EXPIRED",
      `The window of worker ${workerId} ended at ${timeText(until)} and the clock shows ${timeText(wall)}; IDs go on when a renewal succeeds.`,
      { until, clock: wall },
    );
  }

  #full(retryAfterMs: number): SnowleaseError {
    return new SnowleaseError(
      "SEQUENCE_EXHAUSTED",
      `All ${this.#layout.maxSequence + 1} sequences of this tick are used; the next tick begins in ${retryAfterMs} ms.`,
      { retryAfterMs },
    );
  }

  /** The clock shows less than this lease may use: not yet, or no more. */
  #below(wall: number, tenure: Tenure): SnowleaseError {
    const layout = this.#layout;
    const floor = layout.timeOf(Math.max(this.#memory.floor, firstWholeTick(layout, tenure.floor)));
    const remaining = floor - wall;
    const behind = this.#seen - wall;
    if (behind <= 0) {
      return new SnowleaseError(
        "WINDOW_NOT_OPEN",
        `The window of worker ${tenure.workerId} opens at ${timeText(floor)}, in ${remaining} ms.`,
        { retryAfterMs: remaining, from: floor },
      );
    }
    const rung = rollbackRung(behind, remaining, this.#rollback);
    if (this.#rung !== rung) this.lease.noteRollback(behind, rung);
    this.#rung = rung;
    return new SnowleaseError(
      "CLOCK_ROLLBACK",
      `The clock was set back by ${behind} ms, to before what worker ${tenure.workerId} may use again; it is usable in ${remaining} ms` +
        (this.lease.state === "switching"
          ? ", or as soon as another worker ID is claimed."
          : ": wait, or ask another server."),
      { retryAfterMs: remaining, behindMs: behind },
    );
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

function invalid(name: string, rule: string, value: unknown): SnowleaseError {
  return new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` ${rule}, got ${shown(value)}.`);
}

/**
 * Writes `count` IDs that follow each other: first, first + 2^shift, ... An ID below 0x7fe0... read as a float64 is a finite
 * number, and the next bit pattern is the next representable number as long as the exponent stays: adding one unit in the last
 * place steps the ID, without a bigint in the loop. (Sequences lie in the mantissa's 52 bits, so the exponent stays.)
 */
function countUp(target: BigUint64Array, count: number, first: bigint, shift: number): void {
  const step = 1n << BigInt(shift);
  target[0] = first;
  if (count > 1) target[1] = first + step;
  if (count <= 2) return;
  const floats = new Float64Array(target.buffer, target.byteOffset, count);
  const start = floats[0] as number;
  const unit = (floats[1] as number) - start;
  if (!Number.isFinite(start + count * unit)) {
    for (let i = 2; i < count; i++) target[i] = first + BigInt(i) * step;
    return;
  }
  // Eight chains of additions, so that one need not wait for the one before. Not out of a destructured array: V8 then takes them
  // for values of any kind and boxes every sum, which costs seven times as much.
  let a = start;
  let b = start + unit;
  let c = start + 2 * unit;
  let d = start + 3 * unit;
  let e = start + 4 * unit;
  let f = start + 5 * unit;
  let g = start + 6 * unit;
  let h = start + 7 * unit;
  const eight = 8 * unit;
  let i = 0;
  for (; i + 8 <= count; i += 8) {
    floats[i] = a;
    floats[i + 1] = b;
    floats[i + 2] = c;
    floats[i + 3] = d;
    floats[i + 4] = e;
    floats[i + 5] = f;
    floats[i + 6] = g;
    floats[i + 7] = h;
    a += eight;
    b += eight;
    c += eight;
    d += eight;
    e += eight;
    f += eight;
    g += eight;
    h += eight;
  }
  for (; i < count; i++) floats[i] = start + i * unit;
}
