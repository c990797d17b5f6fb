import { firstWholeTick, type Layout } from "../id/layout.ts";
import { isSnowleaseError, SnowleaseError } from "../id/errors.ts";
import type { LeaseSnapshot } from "../lease/lease.ts";
import type { Recents } from "../rule/registry.ts";

/** How much embedded time a generator remembers, ms. When a clock goes back by less, the generator continues after the used sequences. */
export const memorySpan = 10_000;

/** Recents must fit a request body of 64 KiB as base64, with room for the rest. */
const maxBytes = 44_000;

const formatVersion = 1;

/** Which sequences of each tick a generator may use, and which it has used. */
export interface Ticks {
  /** Lowest tick that may still be used. */
  readonly floor: number;
  /** Highest tick ever used; -1 when there was none. */
  readonly highest: number;
  /** Number of used sequences of a tick at or above the floor, less one. */
  sequenceOf(tick: number): number;
  /** The first sequence of a tick that may be used now; above the layout's highest when there is none. */
  nextOf(tick: number): number;
  /** The last sequence that may be used together with this one, which `nextOf` returned. */
  lastOf(sequence: number): number;
  /** Notes that all sequences of a tick from `nextOf` to this one were handed out. */
  raise(tick: number, sequence: number): void;
}

/**
 * The highest sequence of each tick in the 10 s up to the highest used one. The floor only rises: a tick at or above it that is not listed
 * is unused.
 */
export class RecentTicks implements Ticks {
  /** The memory of a holder. Recents that are unreadable or have times after `from` are ignored: the holder then begins at `from`. */
  static after(layout: Layout, { from, knownFrom, recents }: LeaseSnapshot): RecentTicks {
    if (recents === undefined) return new RecentTicks(layout, knownFrom);
    try {
      const memory = new RecentTicks(layout, knownFrom, recents);
      if (memory.highest < firstWholeTick(layout, from)) return memory;
    } catch (error) {
      if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
    }
    return new RecentTicks(layout, from);
  }

  readonly #layout: Layout;
  readonly #span: number;
  readonly #mask: number;
  /** Pairs of a tick and its highest sequence, adjacent because reaching memory is most of the cost of a first ID. */
  readonly #slots: Float64Array;
  readonly #from: number;
  #highest = -1;

  /**
   * @param from Unix ms from which on this memory is complete.
   * @param inherited recents of the previous holder: listed ticks count as used.
   * @param span how far the memory reaches below the highest tick, ms.
   */
  constructor(layout: Layout, from: number, inherited?: Recents, span: number = memorySpan) {
    this.#layout = layout;
    this.#span = Math.ceil(span / layout.tick);
    // More slots than ticks in the span: the highest and the lowest tick must not share a slot. A power of two, for a fast remainder.
    const slots = 2 ** Math.ceil(Math.log2(this.#span + 1));
    this.#mask = slots - 1;
    this.#slots = new Float64Array(2 * slots).fill(-1);
    this.#from = firstWholeTick(layout, from);
    if (inherited !== undefined)
      for (const [tick, sequence] of decodeEntries(layout, inherited)) this.raise(tick, sequence);
  }

  get floor(): number {
    return Math.max(this.#from, this.#highest - this.#span);
  }

  get highest(): number {
    return this.#highest;
  }

  sequenceOf(tick: number): number {
    // Fast path: most calls ask for a later tick, and need not read the memory, which is slow to reach.
    if (tick > this.#highest) return -1;
    const slot = 2 * (tick & this.#mask);
    return this.#slots[slot] === tick ? (this.#slots[slot + 1] as number) : -1;
  }

  nextOf(tick: number): number {
    return this.sequenceOf(tick) + 1;
  }

  lastOf(): number {
    return this.#layout.maxSequence;
  }

  /** Ignores ticks below the floor. */
  raise(tick: number, sequence: number): void {
    if (tick < this.floor || sequence <= this.sequenceOf(tick)) return;
    if (tick > this.#highest) this.#highest = tick;
    const slot = 2 * (tick & this.#mask);
    this.#slots[slot] = tick;
    this.#slots[slot + 1] = sequence;
  }

  /** Recents for a release with this `until`. A list that is too long loses its beginning, and `from` rises: no use is forgotten. */
  handOver(until: number): Recents {
    const { floor } = this;
    const entries: [tick: number, sequence: number][] = [];
    for (let tick = floor; tick <= this.#highest; tick++) {
      const sequence = this.sequenceOf(tick);
      if (sequence >= 0) entries.push([tick, sequence]);
    }
    for (let first = floor; ; first = entries[0]?.[0] ?? this.#highest + 1) {
      const bytes = encodeEntries(first, entries);
      if (bytes.length <= maxBytes) return { from: Math.min(this.#layout.timeOf(first), until), bytes };
      entries.splice(0, Math.ceil(entries.length / 4));
    }
  }
}

/** The pairs of tick and highest sequence in recents, ascending by tick. */
export function listRecents(
  layout: Layout,
  recents: Recents,
): ReadonlyArray<readonly [tick: number, sequence: number]> {
  return [...decodeEntries(layout, recents)];
}

/*
 * The bytes: a version, then for each used tick in ascending order the number of unused ticks since the one before (or since the first
 * whole tick at or after `from`), and its highest sequence; each number as LEB128.
 */
function encodeEntries(first: number, entries: ReadonlyArray<readonly [tick: number, sequence: number]>): Uint8Array {
  const bytes: number[] = [formatVersion];
  let next = first;
  for (const [tick, sequence] of entries) {
    writeNumber(bytes, tick - next);
    writeNumber(bytes, sequence);
    next = tick + 1;
  }
  return Uint8Array.from(bytes);
}

function writeNumber(bytes: number[], value: number): void {
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
}

function* decodeEntries(layout: Layout, { from, bytes }: Recents): Generator<readonly [number, number]> {
  if (bytes[0] !== formatVersion) throw unreadable(`version ${bytes[0] ?? "missing"}`);
  let at = 1;
  const number = (): number => {
    for (let value = 0, unit = 1; at < bytes.length && unit < 2 ** 49; unit *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 127) * unit;
      if (byte < 128) return value;
    }
    throw unreadable(`cut off at byte ${at}`);
  };
  for (let tick = firstWholeTick(layout, from); at < bytes.length; tick++) {
    tick += number();
    const sequence = number();
    if (sequence > layout.maxSequence) throw unreadable(`sequence ${sequence}`);
    yield [tick, sequence];
  }
}

function unreadable(what: string): SnowleaseError {
  const why = `The registry's recent sequences cannot be read (${what}): they were written by another version, or damaged`;
  const advice = "release the worker ID with `snowlease release WORKER_ID` and wait until its window has passed.";
  return new SnowleaseError("SCHEMA_INCOMPATIBLE", `${why}; ${advice}`);
}
