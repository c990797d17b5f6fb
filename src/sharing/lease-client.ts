import { ignoreRefusal } from "../id/errors.ts";
import type { Lease, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { isOver } from "../lease/lease-view.ts";
import { firstWholeTick } from "../id/layout.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { SharedAllocator } from "./shared-allocator.ts";
import { BlockTicks } from "./block-ticks.ts";

/** How far ahead of the clock blocks are prefetched, ms. */
const prefetchLength = 5000;
/** How often more blocks are prefetched, ms. */
const prefetchInterval = 1000;
/** For how many spans the client requests more blocks, when the blocks of one span do not suffice. */
const spansRequested = 4;
/** How often the client polls for requests of other threads, ms: while there are other threads, and while there are none. */
const [pollIntervalShared, pollIntervalAlone] = [5, 200];

/**
 * The blocks of a lease that another process lends. Prefetches a few blocks before they are needed, and requests more when those of a span
 * are used up. Blocks are in shared memory, so that other threads of this process can take them, too; only this client requests them.
 */
export class LeaseClient implements Share {
  /**
   * Resolves when the first blocks are there. Rejects with the lender's error.
   * @param shared whether other threads take blocks, too.
   */
  static async open(lease: Lease, shared: boolean = false): Promise<LeaseClient> {
    const blocks = new LeaseClient(lease);
    await blocks.#prefetch();
    void blocks.#keep();
    if (shared) void blocks.#listen();
    return blocks;
  }

  /** Blocks that the client took from the lender, and that no generator has taken yet. */
  readonly allocator: SharedAllocator;
  readonly #lease: Lease;
  readonly #participant: number;
  /** The claim that the prefetched blocks belong to; 0: none. */
  #generation = 0;
  /** The span after the last one with prefetched blocks. */
  #nextSpan = 0;
  /** How many blocks of each span were prefetched. */
  #blocksPerSpan = 1;
  #isRequesting = false;

  private constructor(lease: Lease) {
    this.#lease = lease;
    this.allocator = SharedAllocator.create(lease.layout, true);
    this.#participant = this.allocator.join(lease.clock.now());
    this.#follow();
    lease.onChange(() => {
      if (this.#follow()) void this.#prefetch().catch(ignoreRefusal);
    });
  }

  attach(generator: UsageTracker): void {
    this.#lease.attach(generator);
  }

  ticks(snapshot: LeaseSnapshot): BlockTicks {
    const want = (span: number, held: number): void => void this.#requestMore(span, held);
    return new BlockTicks(this.allocator, this.#participant, snapshot, want);
  }

  get #isOver(): boolean {
    return isOver(this.#lease.state);
  }

  /** Follows the lease. Returns whether it has a new claim, for which no blocks are prefetched yet. */
  #follow(): boolean {
    const { snapshot } = this.#lease;
    if (this.#isOver) this.allocator.finish();
    if (snapshot === undefined) {
      if (this.#generation > 0) this.allocator.end();
      this.#generation = 0;
      return false;
    }
    if (snapshot.generation === this.#generation) {
      this.allocator.write(snapshot);
      return false;
    }
    this.#generation = snapshot.generation;
    this.#nextSpan = 0;
    // Only the lender knows which earlier ticks may be used.
    const first = firstWholeTick(this.#lease.layout, snapshot.knownFrom);
    this.allocator.begin({ ...snapshot, first }, snapshot.store);
    return true;
  }

  #othersAt(span: number): number {
    return this.allocator.expected(span + 1, this.#participant);
  }

  async #keep(): Promise<void> {
    const { clock } = this.#lease;
    while (!this.#isOver) {
      await clock.sleep(prefetchInterval, { signal: this.#lease.signal, keepAlive: false });
      // A generator without blocks reports the cause.
      await this.#prefetch().catch(ignoreRefusal);
    }
  }

  /**
   * Acts for the generators of other threads, which cannot do this themselves: requests blocks, and gives up a worker ID whose window is
   * out of reach.
   */
  async #listen(): Promise<void> {
    const { clock, signal } = this.#lease;
    const { allocator } = this;
    while (!this.#isOver) {
      const others = this.#othersAt(allocator.blockLayout.spanAt(clock.now()));
      if (others >= this.#blocksPerSpan) void this.#prefetch().catch(ignoreRefusal);
      await clock.sleep(others === 0 ? pollIntervalAlone : pollIntervalShared, { signal, keepAlive: false });
      allocator.beat();
      const wanted = allocator.wanted();
      if (wanted !== undefined) void this.#requestMore(wanted.span, wanted.held);
      const behind = allocator.reported(this.#generation) - clock.now();
      if (behind > 0 && this.#generation > 0) this.#lease.noteRollback(behind, "switch");
    }
  }

  /** Takes one block for each participant, of every span up to `prefetchLength` ahead of the clock. */
  async #prefetch(): Promise<void> {
    const { layout, clock } = this.#lease;
    if (this.#generation === 0) return;
    const { blockLayout } = this.allocator;
    const generation = this.#generation;
    const present = blockLayout.spanAt(clock.now());
    const before = this.#blocksPerSpan;
    this.#blocksPerSpan = Math.min(blockLayout.blocks, 1 + this.#othersAt(present));
    // Participants that joined since then have no prefetched blocks yet.
    const more = this.#blocksPerSpan - before;
    if (more > 0 && this.#nextSpan > present)
      await this.#take(generation, present, this.#nextSpan - present, more, before);
    const ahead = Math.max(1, Math.ceil(prefetchLength / layout.tick / blockLayout.ticks));
    // After the clock was set back, the client has no blocks for its time, and takes them again.
    const first = this.#nextSpan > present + ahead + 1 ? present : Math.max(present, this.#nextSpan);
    const spans = present + ahead - first + 1;
    if (spans <= 0) return;
    // The lender gives none after the end of the window: the client requests those after a renewal.
    const given = await this.#take(generation, first, spans, this.#blocksPerSpan, this.#blocksPerSpan - 1);
    if (generation === this.#generation) this.#nextSpan = first + given;
  }

  async #requestMore(span: number, held: number): Promise<void> {
    if (this.#isRequesting) return;
    this.#isRequesting = true;
    await this.#take(this.#generation, span, spansRequested, Math.max(1, held), held)
      .catch(ignoreRefusal)
      .finally(() => (this.#isRequesting = false));
  }

  /** Takes blocks and puts them into the allocator; returns the number of spans up to the last one with blocks. */
  async #take(generation: number, first: number, spans: number, blocks: number, held: number): Promise<number> {
    const taken = (await this.#lease.takeBlocks({ first, spans, blocks, held })) ?? [];
    if (generation !== this.#generation) return 0;
    for (const [i, more] of taken.entries()) if (more !== 0) this.allocator.put(first + i, more);
    return taken.findLastIndex((blocks) => blocks !== 0) + 1;
  }
}
