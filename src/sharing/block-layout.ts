import type { Layout } from "../id/layout.ts";

/** Most blocks of a span: their bits share a word with the number of the span. */
const mostBlocks = 32;
/** Length of a span if ticks are shorter, ms. When one generator takes the last free block, the others wait for this long. */
const spanLength = 64;

/** Blocks of a span as bits: block 0 is the lowest. */
export type Blocks = number;

/** How the ticks and sequences of a layout are divided into spans and blocks. */
export class BlockLayout {
  /** Ticks in a span. */
  readonly ticks: number;
  /** Blocks in a span. */
  readonly blocks: number;
  /** Sequences in a block. */
  readonly sequences: number;
  readonly #layout: Layout;

  constructor(layout: Layout) {
    const { tick, maxSequence } = layout;
    this.#layout = layout;
    this.ticks = Math.max(1, Math.ceil(spanLength / tick));
    this.blocks = Math.min(mostBlocks, maxSequence + 1);
    this.sequences = (maxSequence + 1) / this.blocks;
  }

  spanOf(tick: number): number {
    return Math.floor(tick / this.ticks);
  }

  /** The span of a Unix ms. */
  spanAt(ms: number): number {
    return this.spanOf(this.#layout.tickOf(ms));
  }

  /**
   * How many blocks of a span a generator that has `held` of them leaves for `others`: at most a quarter, and none while it has no block
   * itself.
   */
  spare(held: number, others: number): number {
    return held === 0 ? 0 : Math.min(others, Math.floor(this.blocks / 4));
  }

  blockOf(sequence: number): number {
    return Math.floor(sequence / this.sequences);
  }
}

/** The lowest free blocks, up to `want`; leaves `spare` of them free. */
export function lowestFree(taken: Blocks, blocks: number, want: number, spare: number): Blocks {
  let free = blocks;
  // If nothing was prefetched for a span, all its 32 bits are taken, also the bits of blocks that do not exist.
  for (let rest = taken & (2 ** blocks - 1); rest !== 0; rest &= rest - 1) free--;
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
