import type { Layout } from "../id/layout.ts";
import type { GrantingStore } from "../rule/registry.ts";
import { StoreFile } from "../store-file.ts";
import { BlockLayout, type Blocks, lowestFree } from "./block-layout.ts";

/*
 * One lease, many generators: its embedded time is cut into spans of some ticks, and the sequences of each span into blocks. A block of a
 * span belongs to the generator that took it first, for all ticks of that span, and counts as used from then on. So generators never make
 * the same ID, and do not communicate for each ID.
 *
 * Shared memory has one word for every 256th span: the word's present span, and a bit for each taken block of it. A word only turns to
 * later spans, and its bits are only set, each by one atomic step. A taker of blocks checks afterwards whether the claim changed meanwhile,
 * and then discards them. No clock, lock or message decides which generator gets a block.
 *
 * Threads can end at any step, so no thread waits for another: the lender writes a new claim beside the one that others read, and then
 * publishes it in one step.
 *
 * In an allocator of prefetched blocks, which another process lends, all blocks count as taken, except those that were put there, each once.
 */

/** How many spans are remembered: more than the 10 s in which a generator continues after a clock went back. */
const spans = 256;
/** How many generators have numbers of their own. Further ones share numbers, and fewer blocks are left for those that join late. */
const participants = 64;

const allBlocks = 0xffff_ffff;
const all32 = BigInt(allBlocks);
/** The highest word: no later span exists, and none of its blocks is free. */
const ended = 2n ** 64n - 1n;
/** Rounds of a word without a span, and of the last possible span, in two thousand years. */
const [noRound, lastRound] = [0, 2 ** 32 - 1];

const cells = [
  "version",
  "joined",
  "beats",
  "ended",
  "seen",
  "beyond",
  "prefetched",
  "wanted",
  "held",
  "device",
  "inode",
] as const;

/** The cells of a claim. There are two sets of them, used in turn; the version shows which one is current. */
const snapshotCells = ["generation", "workerId", "fence", "from", "until", "knownFrom", "first", "since"] as const;
const allCells = cells.length + 2 * snapshotCells.length;

type NamedCell = (typeof cells)[number];
type SnapshotCell = (typeof snapshotCells)[number];

const cellOf = Object.fromEntries([...cells, ...snapshotCells].map((name, i) => [name, i])) as Readonly<
  Record<NamedCell | SnapshotCell, number>
>;

function snapshotCellOf(name: SnapshotCell, version: number): number {
  return cellOf[name] + (version % 2) * snapshotCells.length;
}

/** The worker ID and window of an allocator, as in `LeaseSnapshot`. `first`: the first tick with blocks. */
export type SharedLeaseSnapshot = Readonly<Record<SnapshotCell, number>>;

/** The blocks of one lease, in memory that threads can share. One thread, the lender, begins and ends claims; all threads take blocks. */
export class SharedAllocator {
  /**
   * Makes an allocator without blocks.
   * @param prefetched whether blocks are free only after `put`.
   */
  static create(layout: Layout, prefetched: boolean = false): SharedAllocator {
    const allocator = new SharedAllocator(layout, new SharedArrayBuffer(8 * (allCells + participants + spans)));
    Atomics.store(allocator.#cells, cellOf.prefetched, BigInt(prefetched));
    allocator.#words.fill(ended);
    return allocator;
  }

  readonly layout: Layout;
  readonly buffer: SharedArrayBuffer;
  readonly blockLayout: BlockLayout;
  readonly #cells: BigInt64Array;
  /** For each generator, the last span of which it wanted a block; 0: this number is free. */
  readonly #participants: BigInt64Array;
  readonly #words: BigUint64Array;

  /** @param buffer of the lender's allocator. */
  constructor(layout: Layout, buffer: SharedArrayBuffer) {
    this.layout = layout;
    this.buffer = buffer;
    this.blockLayout = new BlockLayout(layout);
    this.#cells = new BigInt64Array(buffer, 0, allCells);
    this.#participants = new BigInt64Array(buffer, 8 * allCells, participants);
    this.#words = new BigUint64Array(buffer, 8 * (allCells + participants));
  }

  /** Changes with each change of the claim. */
  get version(): number {
    return this.#cell("version");
  }

  /** Adds a participant from the span of this Unix ms on; returns its number. */
  join(ms: number): number {
    const participant = Number(Atomics.add(this.#cells, cellOf.joined, 1n)) % participants;
    this.note(participant, this.blockLayout.spanAt(ms) - 1);
    return participant;
  }

  /** Notes that this participant wants blocks of a span. */
  note(participant: number, span: number): void {
    Atomics.store(this.#participants, participant, BigInt(span));
  }

  /** Notes that this participant wants no more blocks. */
  leave(participant: number): void {
    Atomics.store(this.#participants, participant, 0n);
  }

  /**
   * How many participants will probably still want blocks of this span: those that recently wanted blocks of an earlier one. A participant
   * that ended without `leave`, as a terminated thread does, no longer counts after as many spans as are remembered.
   * @param but a participant that is not counted.
   */
  expected(span: number, but?: number): number {
    let count = 0;
    for (let participant = 0; participant < participants; participant++) {
      if (participant === but) continue;
      const last = Number(Atomics.load(this.#participants, participant));
      if (last < span && last > span - spans) count++;
    }
    return count;
  }

  /** Whether the last claim has ended. */
  get isOver(): boolean {
    return this.#cell("ended") === 1;
  }

  /** Reports that the lender's thread is alive. Only the lender calls this. */
  beat(): void {
    Atomics.add(this.#cells, cellOf.beats, 1n);
  }

  /** How often the lender has reported that it is alive. */
  get beats(): number {
    return this.#cell("beats");
  }

  /** Reports that the last claim has ended. Only the lender calls this. */
  finish(): void {
    Atomics.store(this.#cells, cellOf.ended, 1n);
    this.write({});
  }

  /** Reports to the lender that the clock went back too far for this claim, from `seen`, Unix ms. */
  report(generation: number, seen: number): void {
    Atomics.store(this.#cells, cellOf.seen, BigInt(seen));
    Atomics.store(this.#cells, cellOf.beyond, BigInt(generation));
  }

  /** The clock before a participant saw it go back too far for this claim, Unix ms; returned once for each report, otherwise 0. */
  reported(generation: number): number {
    return Number(Atomics.exchange(this.#cells, cellOf.beyond, 0n)) === generation ? this.#cell("seen") : 0;
  }

  /** Asks the lease client for blocks of a span; `held`: how many the asking participant has of it. */
  want(span: number, held: number): void {
    Atomics.store(this.#cells, cellOf.held, BigInt(held));
    Atomics.store(this.#cells, cellOf.wanted, BigInt(span));
  }

  /** What participants asked for since the last call. */
  wanted(): { readonly span: number; readonly held: number } | undefined {
    const span = Number(Atomics.exchange(this.#cells, cellOf.wanted, 0n));
    return span === 0 ? undefined : { span, held: this.#cell("held") };
  }

  /** The present claim; undefined while there is none. */
  read(): { readonly version: number; readonly snapshot: SharedLeaseSnapshot | undefined } {
    for (;;) {
      const { version } = this;
      const snapshot = Object.fromEntries(snapshotCells.map((name) => [name, this.#snapshotCell(name, version)]));
      // Otherwise the lender has published a new version, and may be overwriting this one.
      if (version === this.version) {
        return { version, snapshot: snapshot["generation"] === 0 ? undefined : (snapshot as SharedLeaseSnapshot) };
      }
    }
  }

  /**
   * Makes blocks free, from `snapshot.first` on. Only the lender calls this, after `end`.
   * @param store that granted the window, so that participants can check that it still stands.
   * @param used blocks used before this allocator existed, by span.
   */
  begin(
    snapshot: SharedLeaseSnapshot,
    store?: GrantingStore,
    used: Iterable<readonly [span: number, blocks: Blocks]> = [],
  ): void {
    const { device = 0n, inode = 0n } = store instanceof StoreFile ? store.identity : {};
    Atomics.store(this.#cells, cellOf.device, device);
    Atomics.store(this.#cells, cellOf.inode, inode);
    const before = this.blockLayout.spanOf(snapshot.first) - 1;
    for (let at = 0; at < spans; at++) Atomics.store(this.#words, at, wordOf(roundOf(before - at), allBlocks));
    for (const [span, blocks] of used) Atomics.store(this.#words, span % spans, wordOf(roundOf(span), blocks));
    this.write(snapshot);
  }

  /** Publishes changes of the claim. Only the lender calls this. */
  write(snapshot: Partial<SharedLeaseSnapshot>): void {
    const { version } = this;
    for (const name of snapshotCells) {
      const value = snapshot[name] ?? this.#snapshotCell(name, version);
      Atomics.store(this.#cells, snapshotCellOf(name, version + 1), BigInt(value));
    }
    Atomics.store(this.#cells, cellOf.version, BigInt(version + 1));
  }

  /** The file that granted the window of the present claim. Its path is not stored here: all claims have the same. */
  storeAt(path: string): StoreFile {
    const unsigned = (cell: number): bigint => BigInt.asUintN(64, Atomics.load(this.#cells, cell));
    return new StoreFile({ path, device: unsigned(cellOf.device), inode: unsigned(cellOf.inode) });
  }

  /**
   * Ends the claim: no block can be taken after this. Returns the last tick with a taken block, or undefined. Only the lender calls this.
   */
  end(): number | undefined {
    this.write({ generation: 0 });
    return this.#lastTick((at) => Atomics.exchange(this.#words, at, ended));
  }

  /** The last tick with a taken block, or undefined. */
  newest(): number | undefined {
    return this.#lastTick((at) => Atomics.load(this.#words, at));
  }

  /**
   * Takes the lowest free blocks of a span; 0 when there are none, the span is forgotten, or `generation` is over.
   * @param want how many blocks; takes fewer if fewer are left.
   * @param spare how many blocks to leave for others.
   */
  take(generation: number, span: number, want: number, spare: number = 0): Blocks {
    const blocks = this.#change(span, (taken) => taken | lowestFree(taken, this.blockLayout.blocks, want, spare));
    // If the claim has changed, these blocks belong to the new claim: leave them unused.
    return blocks !== 0 && this.#snapshotCell("generation", this.version) === generation ? blocks : 0;
  }

  /** The same for a generator that has `held` blocks of the span: leaves some for `others` and for the other participants. */
  takeShare(generation: number, span: number, want: number, held: number, others: number = 0): Blocks {
    return this.take(generation, span, want, this.blockLayout.spare(held, others + this.expected(span)));
  }

  /** Adds prefetched blocks of a span, each once in a claim. Drops blocks of forgotten spans. Only the lender calls this. */
  put(span: number, blocks: Blocks): void {
    this.#change(span, (taken) => taken & ~blocks);
  }

  /** Changes which blocks of a span are taken, in one step. Returns the changed blocks: none if the span is forgotten. */
  #change(span: number, change: (taken: Blocks) => Blocks): Blocks {
    const round = roundOf(span);
    if (!(round > noRound && round < lastRound)) return 0;
    const at = span % spans;
    const unknown = this.#cell("prefetched") === 1 ? allBlocks : 0;
    for (;;) {
      const word = Atomics.load(this.#words, at);
      const present = Number(word >> 32n);
      if (present > round) return 0;
      const before = present === round ? Number(word & all32) : unknown;
      const after = change(before) >>> 0;
      if (after === before) return 0;
      if (Atomics.compareExchange(this.#words, at, word, wordOf(round, after)) === word) return (after ^ before) >>> 0;
    }
  }

  #cell(name: NamedCell): number {
    return Number(Atomics.load(this.#cells, cellOf[name]));
  }

  /**
   * A cell of the claim of a version. It may already hold a later version; but if that has the same generation, no claim has ended in
   * between.
   */
  #snapshotCell(name: SnapshotCell, version: number): number {
    return Number(Atomics.load(this.#cells, snapshotCellOf(name, version)));
  }

  #lastTick(wordAt: (at: number) => bigint): number | undefined {
    const before = this.blockLayout.spanOf(this.#snapshotCell("first", this.version)) - 1;
    let last = before;
    for (let at = 0; at < spans; at++) {
      const word = wordAt(at);
      if (word !== ended) last = Math.max(last, (Number(word >> 32n) - 1) * spans + at);
    }
    return last === before ? undefined : (last + 1) * this.blockLayout.ticks - 1;
  }
}

/** The position of a span among the spans that share its word, from 1. */
function roundOf(span: number): number {
  return Math.floor(span / spans) + 1;
}

function wordOf(round: number, blocks: Blocks): bigint {
  return (BigInt(round) << 32n) | BigInt(blocks);
}
