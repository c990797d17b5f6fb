import type { Layout } from "../id/layout.ts";
import type { GrantingStore } from "../rule/registry.ts";
import { StoreFile } from "../store-file.ts";

/*
 * One lease, many generators: its embedded time is cut into spans of some ticks, and the sequences of each span into blocks. A block
 * of a span belongs to whoever took it first, for all ticks of that span, and counts as used from then on, whatever becomes of its
 * taker. So generators never meet, and no ID costs a word between them.
 *
 * The allocator lies in shared memory, a word for every 256th span: which of these it is, and a bit for each of its blocks. A word only ever
 * turns to a later span, and its bits are only ever set, each by one atomic step; who took a block while the claim changed finds that out
 * afterwards, and leaves it. No clock, lock or message decides who gets what.
 *
 * Threads can end in the middle of anything. So none ever waits for another one: the claim is written beside the one that others
 * read, and then turned to in one step.
 *
 * An allocator may also be a set of prefetched blocks that another process lends: all count as taken but for those that were put there, and each of
 * them is put there once.
 */

/** At most so many blocks: the bits that share a word with the number of their span. */
const mostBlocks = 32;
/** How long a span is where a tick is shorter, ms: one who takes the last free block keeps others waiting for so long. */
const spanLength = 64;
/** How many spans are remembered: more than the 10 s in which a clock that goes back is continued. */
const spans = 256;
/** How many generators are told apart; where there are more, some share a number, and fewer blocks are left for those that join late. */
const participants = 64;

const allBlocks = 0xffff_ffff;
const all32 = BigInt(allBlocks);
/** No span is later than this one, and it has no block left. */
const ended = 2n ** 64n - 1n;
/** The round of a word that is of no span yet, or of the last one that there can be: in two thousand years. */
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

/** Where cells lie that have these names, from `first` on. */
function indexCells<Name extends string>(names: readonly Name[], first: number): Readonly<Record<Name, number>> {
  return Object.fromEntries(names.map((name, i) => [name, first + i])) as Record<Name, number>;
}
const cellOf = indexCells(cells, 0);

const snapshotCells = ["generation", "workerId", "fence", "from", "until", "knownFrom", "first", "since"] as const;
/** The claim is in the one of these, by turns, that the version tells. */
const snapshotCellsOf = [
  indexCells(snapshotCells, cells.length),
  indexCells(snapshotCells, cells.length + snapshotCells.length),
] as const;
const allCells = cells.length + 2 * snapshotCells.length;

/** The worker ID of an allocator and its window, as `LeaseSnapshot` has them. `first`: the first tick of which a block could be taken. */
export type SharedLeaseSnapshot = Readonly<Record<(typeof snapshotCells)[number], number>>;

/** Blocks of a span as bits: block 0 is the lowest. */
export type Blocks = number;

/** How a layout's ticks and sequences are cut. */
export class BlockLayout {
  /** Ticks in a span. */
  readonly ticks: number;
  /** Blocks in a span. */
  readonly blocks: number;
  /** Sequences in a block. */
  readonly sequences: number;

  constructor({ tick, maxSequence }: Layout) {
    this.ticks = Math.max(1, Math.ceil(spanLength / tick));
    this.blocks = Math.min(mostBlocks, maxSequence + 1);
    this.sequences = (maxSequence + 1) / this.blocks;
  }

  spanOf(tick: number): number {
    return Math.floor(tick / this.ticks);
  }

  /** How many blocks of a span one who has `held` of them leaves to so many others: a quarter at most, and none where it has none. */
  spare(held: number, others: number): number {
    return held === 0 ? 0 : Math.min(others, Math.floor(this.blocks / 4));
  }

  blockOf(sequence: number): number {
    return Math.floor(sequence / this.sequences);
  }
}

/**
 * The blocks of one lease, in memory that threads can share. One thread, the lender, begins and ends claims; all take blocks.
 */
export class SharedAllocator {
  /**
   * An allocator in which nothing can be taken yet.
   * @param prefetched whether only what was put there can be taken.
   */
  static create(layout: Layout, prefetched: boolean = false): SharedAllocator {
    const allocator = new SharedAllocator(layout, new SharedArrayBuffer(8 * (allCells + participants + spans)));
    Atomics.store(allocator.#cells, cellOf.prefetched, BigInt(prefetched));
    allocator.#words.fill(ended);
    return allocator;
  }

  readonly buffer: SharedArrayBuffer;
  readonly blockLayout: BlockLayout;
  readonly #cells: BigInt64Array;
  /** For each generator, the span of which it wanted a block last; 0: this number is free. */
  readonly #participants: BigInt64Array;
  readonly #words: BigUint64Array;

  /** @param buffer that of the lender's allocator. */
  constructor(layout: Layout, buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.blockLayout = new BlockLayout(layout);
    this.#cells = new BigInt64Array(buffer, 0, allCells);
    this.#participants = new BigInt64Array(buffer, 8 * allCells, participants);
    this.#words = new BigUint64Array(buffer, 8 * (allCells + participants));
  }

  /** Another one after each change of the claim. */
  get version(): number {
    return this.#cell("version");
  }

  /** Adds a participant, from this span on; returns its number. */
  join(span: number): number {
    const participant = Number(Atomics.add(this.#cells, cellOf.joined, 1n)) % participants;
    this.note(participant, span - 1);
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
   * How many generators that wanted blocks not long ago have yet to want one of this span. One that was ended without a word, as a
   * thread may be, is no longer expected when all spans that are remembered have passed.
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

  /** Whether there will be no claim any more. */
  get isOver(): boolean {
    return this.#cell("ended") === 1;
  }

  /** Tells that the lender's thread is there. The lender's alone. */
  beat(): void {
    Atomics.add(this.#cells, cellOf.beats, 1n);
  }

  /** How often the lender has told so. */
  get beats(): number {
    return this.#cell("beats");
  }

  /** Tells everybody so. The lender's alone. */
  finish(): void {
    Atomics.store(this.#cells, cellOf.ended, 1n);
    this.write({});
  }

  /** Tells the lender that the clock shows less than this claim can bridge: it was at `seen` before, Unix ms. */
  report(generation: number, seen: number): void {
    Atomics.store(this.#cells, cellOf.seen, BigInt(seen));
    Atomics.store(this.#cells, cellOf.beyond, BigInt(generation));
  }

  /** Where a member had seen the clock, when it was set back too far for this claim, Unix ms: said once for each report. */
  reported(generation: number): number | undefined {
    return Number(Atomics.exchange(this.#cells, cellOf.beyond, 0n)) === generation ? this.#cell("seen") : undefined;
  }

  /** Asks the lease client for blocks of a span; `held`: how many the asking participant has of it. */
  want(span: number, held: number): void {
    Atomics.store(this.#cells, cellOf.held, BigInt(held));
    Atomics.store(this.#cells, cellOf.wanted, BigInt(span));
  }

  /** What was wanted since this was asked last. */
  wanted(): { readonly span: number; readonly held: number } | undefined {
    const span = Number(Atomics.exchange(this.#cells, cellOf.wanted, 0n));
    return span === 0 ? undefined : { span, held: this.#cell("held") };
  }

  /** The claim as it is now; undefined while there is none. */
  read(): { readonly version: number; readonly snapshot: SharedLeaseSnapshot | undefined } {
    for (;;) {
      const { version } = this;
      const snapshot = Object.fromEntries(snapshotCells.map((name) => [name, this.#snapshotCell(name, version)]));
      // Otherwise the lender has turned to the next one, and may be overwriting this one.
      if (version === this.version) {
        return { version, snapshot: snapshot["generation"] === 0 ? undefined : (snapshot as SharedLeaseSnapshot) };
      }
    }
  }

  /**
   * Lets blocks be taken, from `snapshot.first` on. The lender's alone, after `end`.
   * @param store what granted the window, where members can look whether it still stands.
   * @param used blocks that were used before there was an allocator, by span.
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

  /** Lets everybody know what a renewal has made of the window. The lender's alone. */
  write(snapshot: Partial<SharedLeaseSnapshot>): void {
    const { version } = this;
    const places = placesOf(version + 1);
    for (const name of snapshotCells) {
      Atomics.store(this.#cells, places[name], BigInt(snapshot[name] ?? this.#snapshotCell(name, version)));
    }
    Atomics.store(this.#cells, cellOf.version, BigInt(version + 1));
  }

  /** The file at this path that granted the window of the present claim. The path is not kept here: it is the same for all claims. */
  storeAt(path: string): StoreFile {
    const [device, inode] = [cellOf.device, cellOf.inode].map((cell) =>
      BigInt.asUintN(64, Atomics.load(this.#cells, cell)),
    );
    return new StoreFile({ path, device: device ?? 0n, inode: inode ?? 0n });
  }

  /** Ends the claim: no block is taken after this. Returns the last tick of which one was, or undefined. The lender's alone. */
  end(): number | undefined {
    this.write({ generation: 0 });
    return this.#lastTick((at) => Atomics.exchange(this.#words, at, ended));
  }

  /** The last tick of which a block was taken so far, or undefined. */
  newest(): number | undefined {
    return this.#lastTick((at) => Atomics.load(this.#words, at));
  }

  /**
   * Takes the lowest blocks of a span that are free; 0 when there are none, the span is forgotten, or `generation` is over.
   * @param want how many; fewer are taken when no more are left.
   * @param spare how many are to be left for others.
   */
  take(generation: number, span: number, want: number, spare: number = 0): Blocks {
    const round = roundOf(span);
    if (!(round > noRound && round < lastRound)) return 0;
    const at = span % spans;
    for (;;) {
      const word = Atomics.load(this.#words, at);
      const present = Number(word >> 32n);
      if (present > round) return 0;
      const unknown = this.#cell("prefetched") === 1 ? allBlocks : 0;
      const taken = present === round ? Number(word & all32) : unknown;
      const blocks = lowestFree(taken, this.blockLayout.blocks, want, spare);
      if (blocks === 0) return 0;
      if (Atomics.compareExchange(this.#words, at, word, wordOf(round, (taken | blocks) >>> 0)) !== word) continue;
      // Where the claim has changed, the blocks are the next one's, and nobody's.
      return this.#snapshotCell("generation", this.version) === generation ? blocks : 0;
    }
  }

  /** Adds prefetched blocks of a span, each once in a claim. Blocks of a span that is forgotten are lost. Only the lender calls this. */
  put(span: number, blocks: Blocks): void {
    const round = roundOf(span);
    if (!(round > noRound && round < lastRound)) return;
    const at = span % spans;
    for (;;) {
      const word = Atomics.load(this.#words, at);
      const present = Number(word >> 32n);
      if (present > round) return;
      const taken = present === round ? Number(word & all32) : allBlocks;
      if (Atomics.compareExchange(this.#words, at, word, wordOf(round, (taken & ~blocks) >>> 0)) === word) return;
    }
  }

  #cell(name: (typeof cells)[number]): number {
    return Number(Atomics.load(this.#cells, cellOf[name]));
  }

  /**
   * A cell of the claim of a version. It may be of a later version by the time that it is read; but where a later one has the same
   * generation, no claim has ended in between.
   */
  #snapshotCell(name: (typeof snapshotCells)[number], version: number): number {
    return Number(Atomics.load(this.#cells, placesOf(version)[name]));
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

function placesOf(version: number): Readonly<Record<(typeof snapshotCells)[number], number>> {
  return snapshotCellsOf[version % 2 === 0 ? 0 : 1];
}

/** How many spans have shared the word of this one, up to it; that of none is `noRound`. */
function roundOf(span: number): number {
  return Math.floor(span / spans) + 1;
}

function wordOf(round: number, blocks: Blocks): bigint {
  return (BigInt(round) << 32n) | BigInt(blocks);
}

function lowestFree(taken: Blocks, blocks: number, want: number, spare: number): Blocks {
  let free = blocks;
  for (let rest = taken; rest !== 0; rest &= rest - 1) free--;
  let left = Math.min(want, free - spare);
  let found = 0;
  for (let block = 0; block < blocks && left > 0; block++) {
    const bit = 1 << block;
    if ((taken & bit) !== 0) continue;
    found |= bit;
    left--;
  }
  return found >>> 0;
}
