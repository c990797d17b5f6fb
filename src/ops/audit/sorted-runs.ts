import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configInvalid } from "../../id/errors.ts";

/** Words of a record, uint32 each: upper and lower half of the ID, and its place relative to the run's first place. */
const recordWords = 3;
const recordBytes = recordWords * Uint32Array.BYTES_PER_ELEMENT;
const two32 = 2 ** 32;
/** Digits for the sort, the least significant first: word of the record, shift, bits. */
const digits = [
  [1, 0, 11],
  [1, 11, 11],
  [1, 22, 10],
  [0, 0, 11],
  [0, 11, 11],
  [0, 22, 10],
] as const;
/** Least buffer of a run while runs are merged, bytes. */
const leastBuffer = 4096;

/** IDs in ascending order, equal ones in the order in which they were added. The arrays are reused for the next IDs. */
export interface SortedIds {
  readonly count: number;
  readonly uppers: Uint32Array;
  readonly lowers: Uint32Array;
  readonly places: Float64Array;
}

/**
 * IDs with their places, sorted in bounded memory: 24 bytes for each ID of a run, and 4 KiB for each run to merge thousands of them.
 * Further IDs are on disk, in sorted runs of 12 bytes an ID.
 */
export class SortedRuns {
  readonly #folder: string;
  readonly #runLength: number;
  /** The arrays grow up to a run, because most inputs are small. */
  #records = new Uint32Array(4096 * recordWords);
  #spare = new Uint32Array(0);
  #count = 0;
  /** The place to which the records of this run are relative. */
  #first = 0;
  readonly #written: { readonly first: number; readonly count: number }[] = [];
  #file: number | undefined;

  /**
   * @param runLength IDs that are sorted in memory at a time, a power of two from 4096.
   * @param folder for IDs that do not fit into memory. Default: the system's folder for temporary files.
   */
  constructor(runLength: number = 2 ** 21, folder: string = tmpdir()) {
    this.#runLength = runLength;
    this.#folder = folder;
  }

  /** Adds an ID by its halves. Each place must be above the last one. @throws SnowleaseError CONFIG_INVALID for a full disk */
  add(upper: number, lower: number, place: number): void {
    if (this.#count === this.#runLength || place - this.#first >= two32) this.#spill();
    if (this.#count === 0) this.#first = place;
    const at = this.#count++ * recordWords;
    if (at === this.#records.length) this.#grow();
    this.#records[at] = upper;
    this.#records[at + 1] = lower;
    this.#records[at + 2] = place - this.#first;
  }

  /** All added IDs. It may be called once. @throws SnowleaseError CONFIG_INVALID for a disk that cannot be read */
  *merged(): Generator<SortedIds> {
    const last = new Run(this.#first, this.#sorted(), this.#count);
    this.#spare = new Uint32Array(0);
    const size = Math.max(leastBuffer, Math.floor((this.#runLength * recordBytes) / this.#written.length));
    let offset = 0;
    const runs = this.#written.map(({ first, count }) => {
      const records = new Uint32Array(Math.floor(size / recordBytes) * recordWords);
      const run = new Run(first, records, 0, { offset, left: count });
      offset += count * recordBytes;
      return run;
    });
    yield* merge([...runs, last], (run) => this.#onDisk(() => run.refill(this.#file)));
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  /** Writes the IDs in memory as a sorted run. */
  #spill(): void {
    if (this.#count === 0) return;
    const bytes = new Uint8Array(this.#sorted().buffer, 0, this.#count * recordBytes);
    this.#onDisk(() => {
      this.#file ??= unnamedFile(this.#folder);
      for (let done = 0; done < bytes.length;) done += writeSync(this.#file, bytes, done);
    });
    this.#written.push({ first: this.#first, count: this.#count });
    this.#count = 0;
  }

  #grow(): void {
    const larger = new Uint32Array(this.#records.length * 2);
    larger.set(this.#records);
    this.#records = larger;
  }

  /** A radix sort. It keeps the order of equal IDs, and takes a third of the time of a sort by comparison. */
  #sorted(): Uint32Array<ArrayBuffer> {
    const count = this.#count;
    let from = this.#records;
    let to = this.#spare.length === from.length ? this.#spare : new Uint32Array(from.length);
    for (const [word, shift, bits] of digits) {
      const mask = 2 ** bits - 1;
      const ends = new Uint32Array(mask + 1);
      for (let at = word; at < count * recordWords; at += recordWords) {
        const digit = ((from[at] as number) >>> shift) & mask;
        ends[digit] = (ends[digit] as number) + 1;
      }
      // Skip a digit that all IDs have in common. IDs of a few hours have the same upper bits.
      if (ends.includes(count)) continue;
      let next = 0;
      for (let digit = 0; digit <= mask; digit++) {
        const size = ends[digit] as number;
        ends[digit] = next;
        next += size;
      }
      for (let at = 0; at < count * recordWords; at += recordWords) {
        const digit = ((from[at + word] as number) >>> shift) & mask;
        const place = ends[digit] as number;
        ends[digit] = place + 1;
        to[place * recordWords] = from[at] as number;
        to[place * recordWords + 1] = from[at + 1] as number;
        to[place * recordWords + 2] = from[at + 2] as number;
      }
      [from, to] = [to, from];
    }
    this.#records = from;
    this.#spare = to;
    return from;
  }

  #onDisk<Result>(work: () => Result): Result {
    try {
      return work();
    } catch (error) {
      throw configInvalid(
        `Temporary files in \`${this.#folder}\` cannot be written: ${(error as Error).message}; free 12 bytes per ID there, or name another folder with TMPDIR.`,
        error,
      );
    }
  }
}

/** A sorted run. A part of it is in memory. */
class Run {
  /** The present ID and its place. */
  upper = 0;
  lower = 0;
  place = 0;
  readonly #first: number;
  readonly #records: Uint32Array;
  #count: number;
  #next = 0;
  readonly #rest: { offset: number; left: number };

  constructor(first: number, records: Uint32Array, count: number, rest = { offset: 0, left: 0 }) {
    this.#first = first;
    this.#records = records;
    this.#count = count;
    this.#rest = rest;
  }

  /** Goes to the next ID. False if memory has no more. */
  advance(): boolean {
    if (this.#next === this.#count) return false;
    const at = this.#next++ * recordWords;
    this.upper = this.#records[at] as number;
    this.lower = this.#records[at + 1] as number;
    this.place = this.#first + (this.#records[at + 2] as number);
    return true;
  }

  /** Reads more, and goes to the next ID. False at the end of the run. */
  refill(file: number | undefined): boolean {
    const { offset, left } = this.#rest;
    if (left === 0 || file === undefined) return false;
    const count = Math.min(left, this.#records.length / recordWords);
    const bytes = new Uint8Array(this.#records.buffer, 0, count * recordBytes);
    for (let done = 0; done < bytes.length;) {
      const read = readSync(file, bytes, done, bytes.length - done, offset + done);
      if (read === 0) throw new Error("the file has become shorter");
      done += read;
    }
    this.#rest.offset += bytes.length;
    this.#rest.left -= count;
    this.#count = count;
    this.#next = 0;
    return this.advance();
  }
}

const batchLength = 8192;

/** Merges runs by a heap, with the lowest ID on top. An earlier run must have the earlier places. */
function* merge(runs: readonly Run[], refill: (run: Run) => boolean): Generator<SortedIds> {
  const uppers = new Uint32Array(batchLength);
  const lowers = new Uint32Array(batchLength);
  const places = new Float64Array(batchLength);
  const heap: Run[] = [];
  for (const run of runs) if (run.advance() || refill(run)) heap.push(run);
  for (let at = heap.length >> 1; at-- > 0;) sink(heap, at);
  let count = 0;
  for (let top = heap[0]; top !== undefined; top = heap[0]) {
    uppers[count] = top.upper;
    lowers[count] = top.lower;
    places[count++] = top.place;
    if (count === batchLength) {
      yield { count, uppers, lowers, places };
      count = 0;
    }
    if (!top.advance() && !refill(top)) {
      const moved = heap.pop() as Run;
      if (heap.length > 0) heap[0] = moved;
    }
    sink(heap, 0);
  }
  if (count > 0) yield { count, uppers, lowers, places };
}

/** Moves the run at `at` down the heap until no lower run is below it. */
function sink(heap: Run[], at: number): void {
  const run = heap[at];
  if (run === undefined) return;
  for (let least = 2 * at + 1; least < heap.length; least = 2 * at + 1) {
    if (least + 1 < heap.length && isBefore(heap[least + 1] as Run, heap[least] as Run)) least++;
    const child = heap[least] as Run;
    if (!isBefore(child, run)) break;
    heap[at] = child;
    at = least;
  }
  heap[at] = run;
}

function isBefore(one: Run, other: Run): boolean {
  if (one.upper !== other.upper) return one.upper < other.upper;
  return one.lower === other.lower ? one.place < other.place : one.lower < other.lower;
}

/** A file without a name. It disappears with this process, however the process ends. */
function unnamedFile(folder: string): number {
  const own = mkdtempSync(join(folder, "snowlease-"));
  try {
    return openSync(join(own, "runs"), "wx+", 0o600);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}
