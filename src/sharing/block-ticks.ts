import type { LeaseSnapshot } from "../lease/lease.ts";
import { RecentTicks, type Ticks } from "../generator/recent-ticks.ts";
import type { BlockLayout } from "./block-layout.ts";
import type { SharedAllocator } from "./shared-allocator.ts";

/**
 * The ticks of one of several generators: for each tick, the sequences of the blocks that the generator took of the tick's span, in the
 * order in which it took them.
 */
export class BlockTicks implements Ticks {
  readonly #allocator: SharedAllocator;
  readonly #participant: number;
  readonly #generation: number;
  readonly #want: (span: number, held: number) => void;
  readonly #blockLayout: BlockLayout;
  /** Number of used sequences of a tick, less one; counts the sequences of the generator's blocks in order. */
  readonly #used: RecentTicks;
  /** Blocks by span. Spans that the memory of ticks no longer reaches are deleted. */
  readonly #held: Map<number, number[]> = new Map();

  /** @param want called when no block is left, so that a lease client requests more. */
  constructor(
    allocator: SharedAllocator,
    participant: number,
    { generation, knownFrom }: LeaseSnapshot,
    want: (span: number, held: number) => void = (span, held) => allocator.want(span, held),
  ) {
    this.#allocator = allocator;
    this.#participant = participant;
    this.#generation = generation;
    this.#want = want;
    this.#blockLayout = allocator.blockLayout;
    this.#used = new RecentTicks(allocator.layout, knownFrom);
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
    const span = this.#blockLayout.spanOf(tick);
    const blocks = this.#blocksOf(span);
    const at = Math.floor(next / sequences);
    if (at >= blocks.length && !this.#takeMore(span, blocks)) return this.#allocator.layout.maxSequence + 1;
    return (blocks[at] ?? 0) * sequences + (next % sequences);
  }

  /** The last sequence of this sequence's block. */
  lastOf(sequence: number): number {
    const { sequences } = this.#blockLayout;
    return sequence - (sequence % sequences) + sequences - 1;
  }

  raise(tick: number, sequence: number): void {
    const { sequences } = this.#blockLayout;
    const at = this.#blocksOf(this.#blockLayout.spanOf(tick)).indexOf(this.#blockLayout.blockOf(sequence));
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
    const held = blocks.length;
    this.#allocator.note(this.#participant, span);
    const taken = this.#allocator.takeShare(this.#generation, span, Math.max(1, held), held);
    for (let block = 0; block < this.#blockLayout.blocks; block++)
      if (((taken >>> block) & 1) === 1) blocks.push(block);
    if (taken === 0) this.#want(span, held);
    return taken !== 0;
  }
}
