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
  /** Number of used sequences of a tick, less one. */
  sequenceOf(tick: number): number;
  /** The first sequence of a tick that may be used now; above the layout's highest when there is none. */
  nextOf(tick: number): number;
  /** The last sequence that may be used together with this one, which `nextOf` returned. */
  lastOf(sequence: number): number;
  /** Notes that all sequences of a tick from `nextOf` to this one were handed out. */
  raise(tick: number, sequence: number): void;
}

/**
 * The highest sequence handed out in each recent tick: a ring over the 10 s below the highest used tick. Its floor only rises, so a tick at
 * or above the floor that is not listed is unused.
 */
export class RecentTicks implements Ticks {
  /**
   * The memory of a holder that may use [knownFrom, until). `recents` lists what was used before `from`. Unreadable recents, and recents
   * with times after `from`, are ignored: the holder then begins at `from`.
   */
  static after(
    layout: Layout,
    { from, knownFrom, recents }: Pick<LeaseSnapshot, "from" | "knownFrom" | "recents">,
  ): RecentTicks {
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
    // More slots than ticks in the span: the highest and the lowest tick must not share a slot. A power of two, because a remainder of
    // doubles costs as much as reading a clock.
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

  /** Highest sequence used in a tick at or above the floor; -1 when the tick is unused. */
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

  /** Notes that all sequences of a tick up to this one were handed out. Ignores ticks below the floor. */
  raise(tick: number, sequence: number): void {
    if (tick < this.floor || sequence <= this.sequenceOf(tick)) return;
    if (tick > this.#highest) this.#highest = tick;
    const slot = 2 * (tick & this.#mask);
    this.#slots[slot] = tick;
    this.#slots[slot + 1] = sequence;
  }

  /**
   * Recents for a give-back of the window with this `until`. A list that is too long loses its beginning, and `from` rises: a shorter
   * memory is safe, a cut one is not.
   */
  handOver(until: number): Recents {
    const { floor } = this;
    const entries: number[] = [];
    for (let tick = floor; tick <= this.#highest; tick++) {
      const sequence = this.sequenceOf(tick);
      if (sequence >= 0) entries.push(tick, sequence);
    }
    let first = floor;
    let bytes = encodeEntries(first, entries);
    while (bytes.length > maxBytes) {
      entries.splice(0, Math.ceil(entries.length / 8) * 2);
      first = entries[0] ?? this.#highest + 1;
      bytes = encodeEntries(first, entries);
    }
    return { from: Math.min(this.#layout.timeOf(first), until), bytes };
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
 * whole tick at or after `from`), and its highest sequence; each number in groups of 7 bits, lowest first, the top bit set while more
 * follow (LEB128).
 */
function encodeEntries(first: number, entries: readonly number[]): Uint8Array {
  const bytes: number[] = [formatVersion];
  let next = first;
  for (let i = 0; i < entries.length; i += 2) {
    const tick = entries[i] ?? 0;
    writeNumber(bytes, tick - next);
    writeNumber(bytes, entries[i + 1] ?? 0);
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
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry's recent sequences cannot be read (${what}): they were written by another version, or damaged; ` +
      `release the worker ID with \`snowlease release WORKER_ID\` and wait until its window has passed.`,
  );
}
