import type { Layout } from "../id/layout.ts";
import type { Store } from "../rule/registry.ts";
import { StoreFile } from "../store-file.ts";

/*
 * One lease, many generators: its embedded time is cut into spans of some ticks, and the sequences of each span into lanes. A lane
 * of a span belongs to whoever took it first, for all ticks of that span, and counts as used from then on, whatever becomes of its
 * taker. So generators never meet, and no ID costs a word between them.
 *
 * The grid lies in shared memory, a word for every 256th span: which of these it is, and a bit for each of its lanes. A word only ever
 * turns to a later span, and its bits are only ever set, each by one atomic step; who took a lane while the tenure changed finds that out
 * afterwards, and leaves it. No clock, lock or message decides who gets what.
 *
 * Threads can end in the middle of anything. So none ever waits for another one: the tenure is written beside the one that others
 * read, and then turned to in one step.
 *
 * A grid may also be a stock of lanes that another process lends: all count as taken but for those that were put there, and each of
 * them is put there once.
 */

/** At most so many lanes: the bits that share a word with the number of their span. */
const mostLanes = 32;
/** How long a span is where a tick is shorter, ms: one who takes the last free lane keeps others waiting for so long. */
const spanLength = 64;
/** How many spans are remembered: more than the 10 s in which a clock that goes back is continued. */
const spans = 256;
/** How many generators are told apart; where there are more, some share a seat, and fewer lanes are left to those who come late. */
const seats = 64;

const allLanes = 0xffff_ffff;
const all32 = BigInt(allLanes);
/** No span is later than this one, and it has no lane left. */
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
  "stock",
  "wanted",
  "held",
  "device",
  "inode",
] as const;

/** Where cells lie that have these names, from `first` on. */
function placed<Name extends string>(names: readonly Name[], first: number): Readonly<Record<Name, number>> {
  return Object.fromEntries(names.map((name, i) => [name, first + i])) as Record<Name, number>;
}
const cellOf = placed(cells, 0);

const tenureCells = ["generation", "workerId", "fence", "from", "until", "floor", "first", "since"] as const;
/** The tenure is in the one of these, by turns, that the version tells. */
const tenureCellsOf = [
  placed(tenureCells, cells.length),
  placed(tenureCells, cells.length + tenureCells.length),
] as const;
const allCells = cells.length + 2 * tenureCells.length;

/** The worker ID of a grid and its window, as `Tenure` has them. `first`: the first tick of which a lane could be taken. */
export type SharedTenure = Readonly<Record<(typeof tenureCells)[number], number>>;

/** Lanes of a span as bits: lane 0 is the lowest. */
export type Lanes = number;

/** How a layout's ticks and sequences are cut. */
export class Cut {
  /** Ticks in a span. */
  readonly ticks: number;
  /** Lanes in a span. */
  readonly lanes: number;
  /** Sequences in a lane. */
  readonly sequences: number;

  constructor({ tick, maxSequence }: Layout) {
    this.ticks = Math.max(1, Math.ceil(spanLength / tick));
    this.lanes = Math.min(mostLanes, maxSequence + 1);
    this.sequences = (maxSequence + 1) / this.lanes;
  }

  spanOf(tick: number): number {
    return Math.floor(tick / this.ticks);
  }

  /** How many lanes of a span one who has `held` of them leaves to so many others: a quarter at most, and none where it has none. */
  spare(held: number, others: number): number {
    return held === 0 ? 0 : Math.min(others, Math.floor(this.lanes / 4));
  }

  laneOf(sequence: number): number {
    return Math.floor(sequence / this.sequences);
  }
}

/**
 * The lanes of one lease, in memory that threads can share. One thread, the lender, begins and ends tenures; all take lanes.
 */
export class Grid {
  /**
   * A grid in which nothing can be taken yet.
   * @param stock whether only what was put there can be taken.
   */
  static create(layout: Layout, stock: boolean = false): Grid {
    const grid = new Grid(layout, new SharedArrayBuffer(8 * (allCells + seats + spans)));
    Atomics.store(grid.#cells, cellOf.stock, BigInt(stock));
    grid.#words.fill(ended);
    return grid;
  }

  readonly buffer: SharedArrayBuffer;
  readonly cut: Cut;
  readonly #cells: BigInt64Array;
  /** For each generator, the span of which it wanted a lane last; 0: nobody's seat. */
  readonly #seats: BigInt64Array;
  readonly #words: BigUint64Array;

  /** @param buffer that of the lender's grid. */
  constructor(layout: Layout, buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.cut = new Cut(layout);
    this.#cells = new BigInt64Array(buffer, 0, allCells);
    this.#seats = new BigInt64Array(buffer, 8 * allCells, seats);
    this.#words = new BigUint64Array(buffer, 8 * (allCells + seats));
  }

  /** Another one after each change of the tenure. */
  get version(): number {
    return this.#cell("version");
  }

  /** Gives a generator a seat, from this span on. */
  join(span: number): number {
    const seat = Number(Atomics.add(this.#cells, cellOf.joined, 1n)) % seats;
    this.note(seat, span - 1);
    return seat;
  }

  /** Notes that the generator of this seat wants lanes of a span. */
  note(seat: number, span: number): void {
    Atomics.store(this.#seats, seat, BigInt(span));
  }

  /** The generator of this seat wants no more. */
  leave(seat: number): void {
    Atomics.store(this.#seats, seat, 0n);
  }

  /**
   * How many generators that wanted lanes not long ago have yet to want one of this span. One that was ended without a word, as a
   * thread may be, is no longer expected when all spans that are remembered have passed.
   * @param but a seat that does not count.
   */
  expected(span: number, but?: number): number {
    let count = 0;
    for (let seat = 0; seat < seats; seat++) {
      if (seat === but) continue;
      const last = Number(Atomics.load(this.#seats, seat));
      if (last < span && last > span - spans) count++;
    }
    return count;
  }

  /** Whether there will be no tenure any more. */
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

  /** Tells the lender that the clock shows less than this tenure can bridge: it was at `seen` before, Unix ms. */
  report(generation: number, seen: number): void {
    Atomics.store(this.#cells, cellOf.seen, BigInt(seen));
    Atomics.store(this.#cells, cellOf.beyond, BigInt(generation));
  }

  /** Where a member had seen the clock, when it was set back too far for this tenure, Unix ms: said once for each report. */
  reported(generation: number): number | undefined {
    return Number(Atomics.exchange(this.#cells, cellOf.beyond, 0n)) === generation ? this.#cell("seen") : undefined;
  }

  /** Tells who keeps a stock that lanes of a span are wanted, by one who has so many of them. */
  want(span: number, held: number): void {
    Atomics.store(this.#cells, cellOf.held, BigInt(held));
    Atomics.store(this.#cells, cellOf.wanted, BigInt(span));
  }

  /** What was wanted since this was asked last. */
  wanted(): { readonly span: number; readonly held: number } | undefined {
    const span = Number(Atomics.exchange(this.#cells, cellOf.wanted, 0n));
    return span === 0 ? undefined : { span, held: this.#cell("held") };
  }

  /** The tenure as it is now; undefined while there is none. */
  read(): { readonly version: number; readonly tenure: SharedTenure | undefined } {
    for (;;) {
      const { version } = this;
      const tenure = Object.fromEntries(tenureCells.map((name) => [name, this.#tenureCell(name, version)]));
      // Otherwise the lender has turned to the next one, and may be overwriting this one.
      if (version === this.version) {
        return { version, tenure: tenure["generation"] === 0 ? undefined : (tenure as SharedTenure) };
      }
    }
  }

  /**
   * Lets lanes be taken, from `tenure.first` on. The lender's alone, after `end`.
   * @param store what granted the window, where members can look whether it still stands.
   * @param used lanes that were used before there was a grid, by span.
   */
  begin(tenure: SharedTenure, store?: Store, used: Iterable<readonly [span: number, lanes: Lanes]> = []): void {
    const { device = 0n, inode = 0n } = store instanceof StoreFile ? store.identity : {};
    Atomics.store(this.#cells, cellOf.device, device);
    Atomics.store(this.#cells, cellOf.inode, inode);
    const before = this.cut.spanOf(tenure.first) - 1;
    for (let at = 0; at < spans; at++) Atomics.store(this.#words, at, wordOf(roundOf(before - at), allLanes));
    for (const [span, lanes] of used) Atomics.store(this.#words, span % spans, wordOf(roundOf(span), lanes));
    this.write(tenure);
  }

  /** Lets everybody know what a renewal has made of the window. The lender's alone. */
  write(tenure: Partial<SharedTenure>): void {
    const { version } = this;
    const places = placesOf(version + 1);
    for (const name of tenureCells) {
      Atomics.store(this.#cells, places[name], BigInt(tenure[name] ?? this.#tenureCell(name, version)));
    }
    Atomics.store(this.#cells, cellOf.version, BigInt(version + 1));
  }

  /** The file at this path that granted the window of the present tenure. The path is not kept here: it is the same for all tenures. */
  storeAt(path: string): StoreFile {
    const [device, inode] = [cellOf.device, cellOf.inode].map((cell) =>
      BigInt.asUintN(64, Atomics.load(this.#cells, cell)),
    );
    return new StoreFile({ path, device: device ?? 0n, inode: inode ?? 0n });
  }

  /** Ends the tenure: no lane is taken after this. Returns the last tick of which one was, or undefined. The lender's alone. */
  end(): number | undefined {
    this.write({ generation: 0 });
    return this.#lastTick((at) => Atomics.exchange(this.#words, at, ended));
  }

  /** The last tick of which a lane was taken so far, or undefined. */
  newest(): number | undefined {
    return this.#lastTick((at) => Atomics.load(this.#words, at));
  }

  /**
   * Takes the lowest lanes of a span that are free; 0 when there are none, the span is forgotten, or `generation` is over.
   * @param want how many; fewer are taken when no more are left.
   * @param spare how many are to be left for others.
   */
  take(generation: number, span: number, want: number, spare: number = 0): Lanes {
    const round = roundOf(span);
    if (!(round > noRound && round < lastRound)) return 0;
    const at = span % spans;
    for (;;) {
      const word = Atomics.load(this.#words, at);
      const present = Number(word >> 32n);
      if (present > round) return 0;
      const unknown = this.#cell("stock") === 1 ? allLanes : 0;
      const taken = present === round ? Number(word & all32) : unknown;
      const lanes = lowestFree(taken, this.cut.lanes, want, spare);
      if (lanes === 0) return 0;
      if (Atomics.compareExchange(this.#words, at, word, wordOf(round, (taken | lanes) >>> 0)) !== word) continue;
      // Where the tenure has changed, the lanes are the next one's, and nobody's.
      return this.#tenureCell("generation", this.version) === generation ? lanes : 0;
    }
  }

  /** Puts lanes of a span into a stock, each of them once in a tenure. Those of a span that is forgotten are lost. The lender's alone. */
  put(span: number, lanes: Lanes): void {
    const round = roundOf(span);
    if (!(round > noRound && round < lastRound)) return;
    const at = span % spans;
    for (;;) {
      const word = Atomics.load(this.#words, at);
      const present = Number(word >> 32n);
      if (present > round) return;
      const taken = present === round ? Number(word & all32) : allLanes;
      if (Atomics.compareExchange(this.#words, at, word, wordOf(round, (taken & ~lanes) >>> 0)) === word) return;
    }
  }

  #cell(name: (typeof cells)[number]): number {
    return Number(Atomics.load(this.#cells, cellOf[name]));
  }

  /**
   * A cell of the tenure of a version. It may be of a later version by the time that it is read; but where a later one has the same
   * generation, no tenure has ended in between.
   */
  #tenureCell(name: (typeof tenureCells)[number], version: number): number {
    return Number(Atomics.load(this.#cells, placesOf(version)[name]));
  }

  #lastTick(wordAt: (at: number) => bigint): number | undefined {
    const before = this.cut.spanOf(this.#tenureCell("first", this.version)) - 1;
    let last = before;
    for (let at = 0; at < spans; at++) {
      const word = wordAt(at);
      if (word !== ended) last = Math.max(last, (Number(word >> 32n) - 1) * spans + at);
    }
    return last === before ? undefined : (last + 1) * this.cut.ticks - 1;
  }
}

function placesOf(version: number): Readonly<Record<(typeof tenureCells)[number], number>> {
  return tenureCellsOf[version % 2 === 0 ? 0 : 1];
}

/** How many spans have shared the word of this one, up to it; that of none is `noRound`. */
function roundOf(span: number): number {
  return Math.floor(span / spans) + 1;
}

function wordOf(round: number, lanes: Lanes): bigint {
  return (BigInt(round) << 32n) | BigInt(lanes);
}

function lowestFree(taken: Lanes, lanes: number, want: number, spare: number): Lanes {
  let free = lanes;
  for (let rest = taken; rest !== 0; rest &= rest - 1) free--;
  let left = Math.min(want, free - spare);
  let found = 0;
  for (let lane = 0; lane < lanes && left > 0; lane++) {
    const bit = 1 << lane;
    if ((taken & bit) !== 0) continue;
    found |= bit;
    left--;
  }
  return found >>> 0;
}
