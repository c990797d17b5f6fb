import { SnowleaseError } from "../id/errors.ts";
import type { Lease, UsageTracker, LeaseSnapshot } from "../lease/lease.ts";
import { RecentTicks } from "../generator/recent.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { SharedAllocator, type Blocks } from "./shared-allocator.ts";
import { type BlockTicks, blockTicks } from "./blocks.ts";

/** How often the ledger looks whether a generator of another thread or process has met a clock that went back too far, ms. */
const listenInterval = 200;
/** No blocks are given for spans further ahead, ms. */
export const longestAhead = 8000;

/**
 * The accounting of a lease that many generators use: what was taken of its allocator counts as used, emitted or not. What came before
 * is told as blocks, too: so nobody can continue behind this holder, which knows what it lent, not what became of it.
 */
export class SharedUsageTracker implements UsageTracker, Share {
  readonly allocator: SharedAllocator;
  /** Taken by the first generator of this thread: one that only lends makes no IDs. */
  #participant: number | undefined;
  readonly #lease: Lease;
  /** The claim that can be taken from; 0: none. */
  #generation = 0;
  #from = 0;
  #until = 0;
  #usage: Usage | undefined;
  /** The generators of this thread. */
  readonly #locals: UsageTracker[] = [];

  readonly #knowsAll: boolean;
  readonly #maxTell: number;
  /** Ends the sleeps. */
  readonly #over = new AbortController();

  /**
   * Takes over the accounting of this lease. CONFIG_INVALID when it has a generator already.
   * @param knowsAll whether nobody else uses the worker ID: only then it is given back with a word on what was used.
   * @param maxTell how far the clock may go back before the lease is given up, ms.
   */
  constructor(lease: Lease, knowsAll: boolean, maxTell: number = defaultRollback.maxTell) {
    if (lease.snapshot?.shared === true) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `The lease of worker ${lease.workerId} is borrowed from another process, which accounts for it; let snowlease({ shared: true }) take blocks of it for the threads of this one.`,
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
    const { layout, clock } = this.#lease;
    this.#participant ??= this.allocator.join(this.allocator.blockLayout.spanOf(layout.tickOf(clock.now())));
    return blockTicks(layout, this.allocator, this.#participant, snapshot);
  }

  checkpoint(): Checkpoint | undefined {
    return this.#checkpointAt(this.allocator.newest());
  }

  seal(): Usage | undefined {
    if (this.#generation === 0) return this.#usage;
    this.#generation = 0;
    for (const local of this.#locals) local.seal();
    const { layout } = this.#lease;
    const newest = this.allocator.end();
    const until = newest === undefined ? this.#from : Math.min(layout.timeOf(newest + 1), this.#until);
    const usage = { until: Math.max(this.#from, until), checkpoint: this.#checkpointAt(newest) };
    this.#usage = this.#knowsAll ? usage : undefined;
    return this.#usage;
  }

  /** Of the newest tick, or the last one that lies in the window: what was taken behind that, nobody may use. */
  #checkpointAt(newest: number | undefined): Checkpoint | undefined {
    if (newest === undefined) return undefined;
    const { layout } = this.#lease;
    const last = Math.min(newest, layout.tickOf(this.#until - layout.tick));
    const timestamp = layout.timeOf(last);
    return timestamp < this.#from ? undefined : { timestamp, sequence: layout.maxSequence };
  }

  /** Does what a generator of another thread cannot: gives up a worker ID whose window begins too far ahead of the clock. */
  async #listen(): Promise<void> {
    const { clock } = this.#lease;
    while (!this.allocator.isOver) {
      await clock.sleep(listenInterval, { signal: this.#over.signal, keepAlive: false });
      this.allocator.beat();
      const behind = Math.max((this.allocator.reported(this.#generation) ?? 0) - clock.now(), this.#outOfReach());
      if (behind > 0 && this.#generation > 0) this.#lease.noteRollback(behind, "switch");
    }
  }

  /** How far the clock is behind the blocks that were taken, where that is too far; their takers get no others until then. ms. */
  #outOfReach(): number {
    const { clock, layout } = this.#lease;
    const newest = this.allocator.newest();
    const behind = newest === undefined ? 0 : layout.timeOf(newest) - longestAhead - clock.now();
    return behind > this.#maxTell ? behind : 0;
  }

  /** Makes the allocator tell what the lease has become. */
  #follow(): void {
    const { snapshot, state } = this.#lease;
    if (state !== "held" && state !== "switching") {
      this.seal();
      this.allocator.finish();
      this.#over.abort();
    }
    if (snapshot === undefined) return;
    const { generation, workerId, fence, from, until, knownFrom, since, store } = snapshot;
    [this.#from, this.#until] = [from, until];
    if (generation === this.#generation) {
      this.allocator.write({ from, until, knownFrom });
      return;
    }
    this.#generation = generation;
    this.#usage = undefined;
    const memory = RecentTicks.after(this.#lease.layout, snapshot);
    const first = memory.floor;
    this.allocator.begin(
      { generation, workerId, fence, from, until, knownFrom, first, since },
      store,
      this.#blocksOf(memory),
    );
  }

  /** The blocks of what was used, by whomever, before this. */
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
