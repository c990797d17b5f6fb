import type { Layout } from "../id/layout.ts";
import type { LeaseSnapshot } from "../lease/lease.ts";
import { RecentTicks, type Ticks } from "../generator/recent-ticks.ts";
import { BlockLayout, type Blocks } from "./block-layout.ts";
import type { SharedAllocator } from "./shared-allocator.ts";

/** Takes blocks from the allocator, or from a lease client; returns 0 when there are none now. */
export type TakeBlocks = (span: number, held: number) => Blocks;

/**
 * The ticks of one of several generators: for each tick, the sequences of the blocks that the generator took of the tick's span, in the
 * order in which it took them.
 */
export class BlockTicks implements Ticks {
  readonly #blockLayout: BlockLayout;
  readonly #none: number;
  readonly #take: TakeBlocks;
  /** Number of used sequences of a tick, less one; counts the sequences of the generator's blocks in order. */
  readonly #used: RecentTicks;
  /** Blocks by span. Spans that the memory of ticks no longer reaches are deleted. */
  readonly #held: Map<number, number[]> = new Map();

  /** @param from Unix ms from which on ticks may be used. */
  constructor(layout: Layout, from: number, take: TakeBlocks) {
    this.#blockLayout = new BlockLayout(layout);
    this.#none = layout.maxSequence + 1;
    this.#take = take;
    this.#used = new RecentTicks(layout, from);
  }

  get floor(): number {
    return this.#used.floor;
  }

  get highest(): number {
    return this.#used.highest;
  }

  sequenceOf(tick: number): number {
    return this.#used.sequenceOf(tick);
  }

  nextOf(tick: number): number {
    const { sequences } = this.#blockLayout;
    const next = this.#used.sequenceOf(tick) + 1;
    const blocks = this.#blocksOf(this.#blockLayout.spanOf(tick));
    const at = Math.floor(next / sequences);
    if (at >= blocks.length && !this.#takeMore(this.#blockLayout.spanOf(tick), blocks)) return this.#none;
    return (blocks[at] ?? 0) * sequences + (next % sequences);
  }

  /** The last sequence of this sequence's block. */
  lastOf(sequence: number): number {
    const { sequences } = this.#blockLayout;
    return sequence - (sequence % sequences) + sequences - 1;
  }

  raise(tick: number, sequence: number): void {
    const { sequences } = this.#blockLayout;
    const at = this.#blocksOf(this.#blockLayout.spanOf(tick)).indexOf(Math.floor(sequence / sequences));
    this.#used.raise(tick, at * sequences + (sequence % sequences));
  }

  #blocksOf(span: number): number[] {
    const known = this.#held.get(span);
    if (known !== undefined) return known;
    const blocks: number[] = [];
    this.#held.set(span, blocks);
    const oldest = this.#blockLayout.spanOf(this.#used.floor);
    for (const other of this.#held.keys()) if (other < oldest) this.#held.delete(other);
    return blocks;
  }

  #takeMore(span: number, blocks: number[]): boolean {
    const taken = this.#take(span, blocks.length);
    for (let block = 0; block < this.#blockLayout.blocks; block++)
      if (((taken >>> block) & 1) === 1) blocks.push(block);
    return taken !== 0;
  }
}

/**
 * The ticks of one generator, which takes its blocks from the allocator.
 * @param want called where no block is left, so that a lease client requests more.
 */
export function blockTicks(
  layout: Layout,
  allocator: SharedAllocator,
  participant: number,
  { generation, knownFrom }: LeaseSnapshot,
  want: (span: number, held: number) => void = (span, held) => allocator.want(span, held),
): BlockTicks {
  return new BlockTicks(layout, knownFrom, (span, held) => {
    allocator.note(participant, span);
    const blocks = allocator.take(
      generation,
      span,
      Math.max(1, held),
      allocator.blockLayout.spare(held, allocator.expected(span)),
    );
    if (blocks === 0) want(span, held);
    return blocks;
  });
}
