import { configInvalid } from "../id/errors.ts";
import type { Lease, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { isOver } from "../lease/lease-view.ts";
import { RecentTicks } from "../generator/recent-ticks.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { Share } from "../generator/tick-allocator.ts";
import type { Blocks } from "./block-layout.ts";
import { SharedAllocator } from "./shared-allocator.ts";
import { BlockTicks } from "./block-ticks.ts";

/** How often the tracker checks whether a generator of another thread or process saw the clock go back too far, ms. */
const listenInterval = 200;
/** How far ahead of the clock blocks may be taken, ms. */
export const longestAhead = 8000;

/**
 * The usage of a lease with several generators: blocks taken from its allocator count as used, with or without IDs. Earlier usage is
 * converted to blocks, too, so no holder can continue after this one: it knows which blocks were taken, not which IDs were made.
 */
export class SharedUsageTracker implements UsageTracker, Share {
  readonly allocator: SharedAllocator;
  /** Joined by the first generator of this thread: a thread that only lends makes no IDs. */
  #participant: number | undefined;
  readonly #lease: Lease;
  /** The claim whose blocks can be taken. */
  #claim: LeaseSnapshot | undefined;
  #usage: Usage | undefined;
  readonly #locals: UsageTracker[] = [];

  readonly #knowsAll: boolean;
  readonly #maxTell: number;
  readonly #over = new AbortController();

  /**
   * Takes over the accounting of this lease. CONFIG_INVALID when it has a generator already.
   * @param knowsAll whether all users of the worker ID are known: only then the give-back says what was used.
   * @param maxTell how far the clock may go back before the lease gives up its worker ID, ms.
   */
  constructor(lease: Lease, knowsAll: boolean, maxTell: number = defaultRollback.maxTell) {
    if (lease.snapshot?.shared === true) {
      throw configInvalid(
        `Another process lends the lease of worker ${lease.workerId} and accounts for it; call snowlease({ shared: true }) to share its blocks with the threads of this process.`,
      );
    }
    lease.attach(this);
    this.#lease = lease;
    this.#knowsAll = knowsAll;
    this.#maxTell = maxTell;
    this.allocator = SharedAllocator.create(lease.layout);
    this.#follow();
    lease.onChange(() => this.#follow());
    void this.#listen();
  }

  attach(local: UsageTracker): void {
    this.#locals.push(local);
  }

  ticks(snapshot: LeaseSnapshot): BlockTicks {
    this.#participant ??= this.allocator.join(this.#lease.clock.now());
    return new BlockTicks(this.allocator, this.#participant, snapshot);
  }

  checkpoint(): Checkpoint | undefined {
    return this.#claim && this.#checkpointIn(this.#claim, this.allocator.newest());
  }

  seal(): Usage | undefined {
    const claim = this.#claim;
    if (claim === undefined) return this.#usage;
    this.#claim = undefined;
    for (const local of this.#locals) local.seal();
    const newest = this.allocator.end();
    const end = newest === undefined ? claim.from : Math.min(this.#lease.layout.timeOf(newest + 1), claim.until);
    const usage = { until: Math.max(claim.from, end), checkpoint: this.#checkpointIn(claim, newest) };
    this.#usage = this.#knowsAll ? usage : undefined;
    return this.#usage;
  }

  /** The checkpoint of the newest tick, or of the last tick in the window: blocks after that must not be used. */
  #checkpointIn({ from, until }: LeaseSnapshot, newest: number | undefined): Checkpoint | undefined {
    if (newest === undefined) return undefined;
    const { layout } = this.#lease;
    const timestamp = layout.timeOf(Math.min(newest, layout.tickOf(until - layout.tick)));
    return timestamp < from ? undefined : { timestamp, sequence: layout.maxSequence };
  }

  /**
   * Acts for the generators of other threads, which cannot do this themselves: gives up a worker ID whose window begins too far ahead of
   * the clock.
   */
  async #listen(): Promise<void> {
    const { clock } = this.#lease;
    while (!this.allocator.isOver) {
      await clock.sleep(listenInterval, { signal: this.#over.signal, keepAlive: false });
      this.allocator.beat();
      if (this.#claim === undefined) continue;
      const behind = Math.max(this.allocator.reported(this.#claim.generation) - clock.now(), this.#outOfReach());
      if (behind > 0) this.#lease.noteRollback(behind, "switch");
    }
  }

  /**
   * How far the clock is behind the taken blocks, ms; 0 if that is not too far. Until the clock reaches them, their takers get no other
   * blocks.
   */
  #outOfReach(): number {
    const { clock, layout } = this.#lease;
    const newest = this.allocator.newest();
    const behind = newest === undefined ? 0 : layout.timeOf(newest) - longestAhead - clock.now();
    return behind > this.#maxTell ? behind : 0;
  }

  /** Copies the state of the lease to the allocator. */
  #follow(): void {
    const { snapshot, state } = this.#lease;
    if (isOver(state)) {
      this.seal();
      this.allocator.finish();
      this.#over.abort();
    }
    if (snapshot === undefined) return;
    const isKnown = snapshot.generation === this.#claim?.generation;
    this.#claim = snapshot;
    if (isKnown) return this.allocator.write(snapshot);
    this.#usage = undefined;
    const memory = RecentTicks.after(this.#lease.layout, snapshot);
    this.allocator.begin({ ...snapshot, first: memory.floor }, snapshot.store, this.#blocksOf(memory));
  }

  /** The blocks that contain everything used before. */
  #blocksOf(memory: RecentTicks): ReadonlyMap<number, Blocks> {
    const { blockLayout } = this.allocator;
    const used = new Map<number, Blocks>();
    for (let tick = memory.floor; tick <= memory.highest; tick++) {
      const sequence = memory.sequenceOf(tick);
      if (sequence < 0) continue;
      const span = blockLayout.spanOf(tick);
      used.set(span, Math.max(used.get(span) ?? 0, 2 ** (blockLayout.blockOf(sequence) + 1) - 1));
    }
    return used;
  }
}
