import { checkInteger, checkTruth, refuse } from "./check.ts";
import { configInvalid, shown, SnowleaseError, timeText } from "./errors.ts";
import { bitsOf, type IdentityField, joinFields, namesOf, ones, placeFields } from "./fields.ts";
import {
  checkField,
  formatPool,
  type LayoutField,
  type LayoutSpec,
  type PresetName,
  presetNames,
  presets,
  readNotation,
  writeNotation,
} from "./notation.ts";
import type { PoolBounds } from "./pool-bounds.ts";
import { lowerWord, upperWord } from "./endianness.ts";

export type { LayoutField, LayoutSpec, PoolBounds };

/** The parts of an ID. */
export interface IdParts {
  /** Unix ms of the start of the ID's tick. */
  readonly timestamp: number;
  /** The worker ID: the identity fields, concatenated from the top down. */
  readonly workerId: number;
  readonly sequence: number;
  /** Each identity field by name: `{ datacenter: 11, worker: 26 }`. */
  readonly fields: Readonly<Record<string, number>>;
  /** How often the clock had gone back; only in a layout with rollback bits. */
  readonly rollback?: number;
}

/** Input of `compose`: `timestamp`, `sequence`, and either `workerId` or every identity field by its name. */
export interface ComposeParts {
  /** Unix ms; any millisecond of the tick. */
  readonly timestamp: number;
  readonly sequence: number;
  /** Default 0, the only value for a layout without rollback bits. */
  readonly rollback?: number;
  readonly workerId?: number;
  readonly [identityField: string]: number | undefined;
}

/** Worker IDs and sequences fit int32, and together they stay exact doubles: the arithmetic below relies on it. */
const maxPartBits = 31;
/** The last Unix ms that a JavaScript Date can show. */
const maxDate = 8_640_000_000_000_000;
const latestEpoch = Date.UTC(2100, 0);
const secondsIn2000 = Date.UTC(2000, 0) / 1000;

/** The fields that are not part of the worker ID. */
const ownFields: ReadonlySet<string> = new Set(["timestamp", "rollback", "sequence"]);

// The halves of an ID, to cut bits without BigInt arithmetic: half the time of a DataView.
const id64 = new BigUint64Array(1);
const halves = new Uint32Array(id64.buffer);
const two32 = 2 ** 32;

/** Bits of an ID, at most 31, from its halves: 5 ns faster than divisions. */
function extractBits(upper: number, lower: number, shift: number, mask: number): number {
  if (shift >= 32) return (upper >>> (shift - 32)) & mask;
  return (shift === 0 ? lower : (upper << (32 - shift)) | (lower >>> shift)) & mask;
}

/**
 * The bits of an ID as data: fields from the top bit down, epoch, tick. Immutable.
 *
 * The worker ID of a lease is every identity field (all but `timestamp`, `rollback` and `sequence`) concatenated from the top down: with 5
 * bits of datacenter above 5 bits of worker, worker ID 33 is datacenter 1, worker 1.
 */
export class Layout {
  /** The name of the preset that equals this layout. */
  readonly name: PresetName | undefined;
  readonly fields: readonly LayoutField[];
  /** Unix ms of tick 0. */
  readonly epoch: number;
  /** Length of a tick in ms. */
  readonly tick: number;
  /**
   * The canonical notation, such as `timestamp:41,worker:10,sequence:12@1490346283706/1`. Layouts with equal fingerprints make equal IDs.
   */
  readonly fingerprint: string;
  /** The bits of an ID: 63 in a layout of 64 bits, whose top bit stays 0. */
  readonly totalBits: number;
  readonly sequenceBits: number;
  readonly maxSequence: number;
  /** 0: the layout has no rollback bits. */
  readonly maxRollback: number;
  /** Total bits of the identity fields. */
  readonly workerBits: number;
  /** The last tick that fits; in a layout that wraps, the last tick that has a date. */
  readonly maxTick: number;
  /** Milliseconds after which the timestamp starts again at 0; undefined if it does not. */
  readonly wrap: number | undefined;
  /** Every worker ID that fits: 0 to 2^workerBits - 1; 0 alone in a layout without identity fields. */
  readonly pool: PoolBounds;
  /** The first Unix ms that no longer fits. */
  readonly endOfLife: number;

  readonly #identity: readonly IdentityField[];
  readonly #maxId: bigint;
  /** Number of ticks that the timestamp bits distinguish. */
  readonly #ticks: number;
  // Rollback and sequence together are one number, the count. It splits the worker ID. From the top: timestamp, high, count, low.
  readonly #timestampShift: number;
  readonly #highShift: number;
  readonly #highMask: number;
  readonly #countShift: number;
  readonly #countMask: number;
  readonly #lowMask: number;
  // The same shifts as factors.
  readonly #timestampScale: number;
  readonly #highScale: number;
  readonly #countScale: number;

  /** @throws SnowleaseError CONFIG_INVALID, which names the rule that `spec` breaks. */
  constructor(spec: LayoutSpec) {
    if (!Array.isArray(spec?.fields)) refuse("fields", "to be a list, the top field first", spec?.fields);
    this.fields = Object.freeze(Array.from(spec.fields, checkField));
    this.epoch = checkEpoch(spec.epoch);
    this.tick = checkInteger("tick", spec.tick ?? 1, 1, 60_000, "ms");

    const names = this.fields.map((field) => field.name);
    const wrong = (rule: string): never => refuse("fields", rule, namesOf(this.fields));
    if (names[0] !== "timestamp") wrong("to start with `timestamp`");
    if (!names.includes("sequence")) wrong("to have a `sequence`");
    if (new Set(names).size < names.length) wrong("to have every name once");
    if (names.includes("rollback") && names.indexOf("rollback") !== names.indexOf("sequence") - 1) {
      wrong("to have `rollback` directly above `sequence`");
    }

    const identity = this.fields.filter(({ name }) => !ownFields.has(name));
    const width = checkInteger("total bits", bitsOf(this.fields), 1, checkTruth("wraps", spec.wraps) ? 63 : 64);
    // The top bit of 64 is the sign of a 64-bit column: it stays 0, and half of the timestamps are left.
    this.totalBits = Math.min(width, 63);
    this.workerBits = bitsOf(identity);
    const timestampBits = this.totalBits - this.shiftOf("timestamp");
    const rollbackBits = bitsOf(this.fields.filter(({ name }) => name === "rollback"));
    this.sequenceBits = this.totalBits - this.workerBits - timestampBits - rollbackBits;
    const sign = width - this.totalBits;
    checkInteger("timestamp bits", timestampBits + sign, 21 + sign, 47 + sign);
    checkInteger("rollback bits", rollbackBits, 0, 8);
    checkInteger("sequence bits", this.sequenceBits, 1, maxPartBits - rollbackBits);
    checkInteger("identity bits", this.workerBits, 0, maxPartBits, "all fields but timestamp, rollback and sequence");

    this.#ticks = 2 ** timestampBits;
    this.wrap = spec.wraps === true ? this.#ticks * this.tick : undefined;
    this.maxTick = this.wrap === undefined ? this.#ticks - 1 : Math.floor((maxDate - this.epoch) / this.tick) - 1;
    this.maxSequence = ones(this.sequenceBits);
    this.maxRollback = ones(rollbackBits);
    this.pool = Object.freeze({ first: 0, last: 2 ** this.workerBits - 1 });
    this.endOfLife = this.timeOf(this.maxTick + 1);
    checkInteger("end of life", this.endOfLife, 1, maxDate, "Unix ms; epoch + 2^timestamp bits * tick");

    this.#identity = placeFields(identity);
    this.#maxId = 2n ** BigInt(this.totalBits) - 1n;
    this.#timestampShift = this.shiftOf("timestamp");
    this.#countShift = this.shiftOf("sequence");
    this.#countMask = ones(this.sequenceBits + rollbackBits);
    this.#highShift = this.#countShift + this.sequenceBits + rollbackBits;
    this.#highMask = ones(this.#timestampShift - this.#highShift);
    this.#lowMask = ones(this.#countShift);
    this.#timestampScale = 2 ** this.#timestampShift;
    this.#highScale = 2 ** this.#highShift;
    this.#countScale = 2 ** this.#countShift;

    const { fields, epoch, tick } = this;
    this.fingerprint = writeNotation({ fields, epoch, tick, wraps: this.wrap !== undefined });
    this.name = presetNames.find((name) => presets[name] === this.fingerprint);
    Object.freeze(this);
  }

  /**
   * Reads a preset's name or a notation: `name:bits` from the top field down, then `@` and the epoch in Unix ms; `/` and the length of a
   * tick in ms, if it is not 1; `/wraps` if the timestamp wraps. Numbers are plain decimal. @throws SnowleaseError CONFIG_INVALID
   */
  static parse(text: string): Layout {
    return new Layout(readNotation(text));
  }

  /** The tick that contains the Unix ms `ms`. Unchecked: negative before the epoch, above `maxTick` past the end of life. */
  tickOf(ms: number): number {
    return Math.floor((ms - this.epoch) / this.tick);
  }

  /** Unix ms of the start of `tick`. */
  timeOf(tick: number): number {
    return this.epoch + tick * this.tick;
  }

  /** Why no ID can be made at the Unix ms `ms`, or undefined: WINDOW_NOT_OPEN before the epoch, LAYOUT_EXPIRED from `endOfLife` on. */
  refusalAt(ms: number): SnowleaseError | undefined {
    if (ms >= this.epoch && ms < this.endOfLife) return undefined;
    if (ms < this.epoch) {
      const times = `The clock shows ${timeText(ms)}, and the layout ${this.fingerprint} begins at ${timeText(this.epoch)}, its epoch`;
      const details = { retryAfterMs: this.epoch - ms, from: this.epoch, clock: ms };
      return new SnowleaseError("WINDOW_NOT_OPEN", `${times}; set the clock if it is wrong, or wait.`, details);
    }
    const message = `The timestamp bits of the layout ${this.fingerprint} ran out on ${timeText(this.endOfLife)}; move to another layout.`;
    return new SnowleaseError("LAYOUT_EXPIRED", message, { endOfLife: this.endOfLife });
  }

  /**
   * Makes an ID of integers that the caller has checked: `tick` 0 to `maxTick`, `workerId` within `pool`, `sequence` 0 to `maxSequence`,
   * `rollback` 0 to `maxRollback`. For unchecked values use `compose`.
   */
  encode(tick: number, workerId: number, sequence: number, rollback: number = 0): bigint {
    this.put(halves, tick, workerId, sequence, rollback);
    return id64[0] as bigint;
  }

  /** Writes the ID that `encode` returns into the two words of a 64-bit number, for a generator's hot path. */
  put(words: Uint32Array, tick: number, workerId: number, sequence: number, rollback: number): void {
    const high = Math.floor(workerId / this.#countScale);
    const low = workerId - high * this.#countScale;
    const count = rollback * (this.maxSequence + 1) + sequence;
    const rest = high * this.#highScale + count * this.#countScale + low;
    // `scaled` and `rest` are exact doubles, but their sum is not. Their halves never carry.
    const scaled = (this.wrap === undefined ? tick : tick % this.#ticks) * this.#timestampScale;
    const scaledUpper = Math.floor(scaled / two32);
    const restUpper = Math.floor(rest / two32);
    words[upperWord] = scaledUpper + restUpper;
    words[lowerWord] = scaled - scaledUpper * two32 + (rest - restUpper * two32);
  }

  /**
   * Makes an ID of `parts`. @throws SnowleaseError CONFIG_INVALID for a value out of range, a timestamp before the epoch, a missing or
   * unknown field; LAYOUT_EXPIRED for a timestamp at or past `endOfLife`.
   */
  compose(parts: ComposeParts): bigint {
    const { timestamp, sequence, rollback = 0, workerId, ...fields } = parts;
    checkInteger("timestamp", timestamp, this.epoch, Number.MAX_SAFE_INTEGER, "Unix ms, from the layout's epoch");
    if (timestamp >= this.endOfLife) {
      const rule = `to be before ${this.endOfLife} (${timeText(this.endOfLife)}, the layout's end of life)`;
      refuse("timestamp", rule, timestamp, "LAYOUT_EXPIRED");
    }
    checkInteger("sequence", sequence, 0, this.maxSequence, `${this.sequenceBits} bits`);
    checkInteger("rollback", rollback, 0, this.maxRollback);
    if (workerId === undefined) return this.encode(this.tickOf(timestamp), this.join(fields), sequence, rollback);
    if (Object.keys(fields).length > 0) refuse("parts", "to have either `workerId` or identity fields", parts);
    return this.encode(this.tickOf(timestamp), this.#checkWorkerId(workerId), sequence, rollback);
  }

  /**
   * Takes an ID apart.
   * @param at Unix ms within half a wrap of the time at which the ID was made. Required if the timestamp wraps, otherwise ignored.
   * @throws SnowleaseError CONFIG_INVALID when `id` is not a bigint from 0 to 2^totalBits - 1, or `at` is missing.
   */
  decompose(id: bigint, at?: number): IdParts {
    if (typeof id !== "bigint" || id < 0n || id > this.#maxId) {
      refuse("id", `to be a bigint from 0 to ${this.#maxId} (${this.totalBits} bits)`, id);
    }
    id64[0] = id;
    const upper = halves[upperWord] as number;
    const lower = halves[lowerWord] as number;
    const shift = this.#timestampShift;
    const tick = shift >= 32 ? upper >>> (shift - 32) : upper * (two32 / this.#timestampScale) + (lower >>> shift);
    const count = extractBits(upper, lower, this.#countShift, this.#countMask);
    const high = extractBits(upper, lower, this.#highShift, this.#highMask);
    const workerId = (high << this.#countShift) | (lower & this.#lowMask);
    const timestamp = this.timeOf(this.wrap === undefined ? tick : this.#unwrapped(tick, at));
    const fields = this.#fieldsOf(workerId);
    if (this.maxRollback === 0) return { timestamp, workerId, sequence: count, fields };
    return { timestamp, workerId, sequence: count & this.maxSequence, fields, rollback: count >>> this.sequenceBits };
  }

  /**
   * The smallest and the largest possible ID of the ticks that overlap [fromTime, toTime), Unix ms, for queries like `WHERE id BETWEEN
   * first AND last`. Times before the epoch or past the end of life are left out.
   * @throws SnowleaseError CONFIG_INVALID when nothing is left, or for a layout that wraps, whose IDs have no order.
   */
  rangeOf(fromTime: number, toTime: number): { readonly first: bigint; readonly last: bigint } {
    if (this.wrap !== undefined) refuse("layout", "to be one whose timestamp does not wrap", this.fingerprint);
    const first = Math.max(0, this.tickOf(fromTime));
    const last = Math.min(this.maxTick, Math.ceil((toTime - this.epoch) / this.tick) - 1);
    // Also true if a time is NaN.
    if (!(fromTime < toTime && first <= last)) {
      const rule = `to be a time before \`toTime\`, with a part of the span from ${this.epoch} to ${this.endOfLife} (Unix ms)`;
      refuse("fromTime", rule, { fromTime, toTime });
    }
    const newest = this.encode(last, this.pool.last, this.maxSequence, this.maxRollback);
    return { first: this.encode(first, 0, 0), last: newest };
  }

  /** The identity fields of a worker ID. @throws SnowleaseError CONFIG_INVALID when it is not within `pool`. */
  split(workerId: number): Record<string, number> {
    return this.#fieldsOf(this.#checkWorkerId(workerId));
  }

  /** The inverse of `split`. @throws SnowleaseError CONFIG_INVALID when a field is missing, unknown or out of range. */
  join(fields: Readonly<Record<string, number | undefined>>): number {
    const complete = this.#identity.every(({ name }) => Object.hasOwn(fields, name));
    if (!complete || Object.keys(fields).length > this.#identity.length) {
      refuse("identity fields", `to be exactly ${namesOf(this.#identity) || "none"}`, fields);
    }
    return joinFields(this.#identity, fields);
  }

  /**
   * The worker IDs left when some identity fields are fixed: `{ datacenter: 3 }` in `twitter` leaves 96 to 127. The fixed fields must be
   * the topmost, because a pool is one range.
   * @param pool intersected with the result; default: all worker IDs.
   * @throws SnowleaseError CONFIG_INVALID for an unknown name, a value out of range, a gap, or when no worker ID is left.
   */
  narrow(fixed: Readonly<Record<string, number>>, pool: PoolBounds = this.pool): PoolBounds {
    this.#checkWorkerId(pool.first, "pool.first");
    checkInteger("pool.last", pool.last, pool.first, this.pool.last, `${this.workerBits} bits`);
    const unknown = Object.keys(fixed).find((name) => !this.#identity.some((field) => field.name === name));
    if (unknown !== undefined) {
      const names = namesOf(this.#identity) || "no identity fields";
      refuse(
        "fixed fields",
        `to be fields of the layout ${this.fingerprint}, which has ${names} and no ${unknown}`,
        fixed,
      );
    }
    const count = Object.keys(fixed).length;
    const leading = this.#identity.slice(0, count);
    if (leading.length < count || leading.some(({ name }) => !Object.hasOwn(fixed, name))) {
      refuse("fixed fields", `to be the topmost of ${namesOf(this.#identity)}, without a gap`, fixed);
    }
    const size = 2 ** (this.workerBits - bitsOf(leading));
    const start = joinFields(leading, fixed) * size;
    const first = Math.max(start, pool.first);
    const last = Math.min(start + size - 1, pool.last);
    if (first <= last) return { first, last };
    const range = formatPool({ first: start, last: start + size - 1 });
    return refuse("pool", `to overlap with ${range}, the worker IDs of the fixed fields`, formatPool(pool));
  }

  /** Number of bits below the field `name`. @throws SnowleaseError CONFIG_INVALID when there is no such field. */
  shiftOf(name: string): number {
    const index = this.fields.findIndex((field) => field.name === name);
    if (index < 0) refuse("field", `to be one of ${namesOf(this.fields)}`, name);
    return bitsOf(this.fields.slice(index + 1));
  }

  #fieldsOf(workerId: number): Record<string, number> {
    const top = this.#identity[0];
    const next = this.#identity[1];
    if (top === undefined) return {};
    // Object literals are the fastest, and fastest with a key that is written out; most layouts have only the field `worker`.
    if (next === undefined) return top.name === "worker" ? { worker: workerId } : { [top.name]: workerId };
    if (next.shift === 0) return { [top.name]: workerId >>> top.shift, [next.name]: workerId & next.mask };
    return Object.fromEntries(this.#identity.map(({ name, shift, mask }) => [name, (workerId >>> shift) & mask]));
  }

  /** The tick with this timestamp that is nearest to `at`. */
  #unwrapped(tick: number, at: number | undefined): number {
    if (at === undefined || !Number.isInteger(at) || at < this.epoch || at > maxDate) {
      const got = at === undefined ? "" : `, which ${shown(at)} is not`;
      const wraps = `The timestamp of the layout ${this.fingerprint} starts again every ${this.wrap} ms`;
      throw configInvalid(`${wraps}; tell a time near the ID's making (\`at\`, Unix ms)${got}.`);
    }
    return tick + Math.max(0, Math.round((this.tickOf(at) - tick) / this.#ticks)) * this.#ticks;
  }

  #checkWorkerId(workerId: number, name = "workerId"): number {
    return checkInteger(name, workerId, 0, this.pool.last, `${this.workerBits} bits`);
  }
}

/** The presets by name; `westid` is the default. */
export const layouts: { readonly [Name in PresetName]: Layout } = Object.fromEntries(
  presetNames.map((name) => [name, Layout.parse(name)]),
) as { [Name in PresetName]: Layout };

/** `westid`. */
export const defaultLayout: Layout = layouts.westid;

/** The first tick that lies wholly at or after `ms`. */
export function firstWholeTick(layout: Layout, ms: number): number {
  return Math.max(0, Math.ceil((ms - layout.epoch) / layout.tick));
}

/**
 * Refuses a number that in seconds is a time from 2000 to 2100. In ms it is a time in January or February 1970, which is surely a mistake.
 */
function checkEpoch(epoch: unknown): number {
  const checked = checkInteger("epoch", epoch, 0, latestEpoch, "Unix ms, up to the year 2100");
  if (checked >= secondsIn2000 && checked <= latestEpoch / 1000) {
    throw configInvalid(
      `Expected \`epoch\` in Unix ms, got ${checked}, which is ${timeText(checked)}; in seconds it would be ${timeText(checked * 1000)}: write ${checked * 1000}.`,
    );
  }
  return checked;
}
