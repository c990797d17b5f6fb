import { SnowleaseError } from "../id/errors.ts";
import type { Lease, Ledger, Tenure } from "../lease/lease.ts";
import { RecentTicks } from "../generator/recent.ts";
import type { Checkpoint, Usage } from "../rule/registry.ts";
import { defaultRollback } from "../generator/rollback.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { Grid, type Lanes } from "./shared-allocator.ts";
import { type LaneTicks, laneTicks } from "./blocks.ts";

/** How often the ledger looks whether a generator of another thread or process has met a clock that went back too far, ms. */
const listenInterval = 200;
/** No lanes are given for spans further ahead, ms. */
export const furthest = 8000;

/**
 * The accounting of a lease that many generators use: what was taken of its grid counts as used, emitted or not. What came before
 * is told as lanes, too: so nobody can continue behind this holder, which knows what it lent, not what became of it.
 */
export class SharedLedger implements Ledger, Share {
  readonly grid: Grid;
  /** Taken by the first generator of this thread: one that only lends makes no IDs. */
  #seat: number | undefined;
  readonly #lease: Lease;
  /** The tenure that can be taken from; 0: none. */
  #generation = 0;
  #from = 0;
  #until = 0;
  #usage: Usage | undefined;
  /** The generators of this thread. */
  readonly #locals: Ledger[] = [];

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
    if (lease.tenure?.shared === true) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `The lease of worker ${lease.workerId} is borrowed from another process, which accounts for it; let snowlease({ shared: true }) take lanes of it for the threads of this one.`,
      );
    }
    lease.attach(this);
    this.#lease = lease;
    this.#knowsAll = knowsAll;
    this.#maxTell = maxTell;
    this.grid = Grid.create(lease.layout);
    this.#follow();
    lease.onChange(() => this.#follow());
    void this.#listen();
  }

  attach(local: Ledger): void {
    this.#locals.push(local);
  }

  ticks(tenure: Tenure): LaneTicks {
    const { layout, clock } = this.#lease;
    this.#seat ??= this.grid.join(this.grid.cut.spanOf(layout.tickOf(clock.now())));
    return laneTicks(layout, this.grid, this.#seat, tenure);
  }

  checkpoint(): Checkpoint | undefined {
    return this.#checkpointAt(this.grid.newest());
  }

  seal(): Usage | undefined {
    if (this.#generation === 0) return this.#usage;
    this.#generation = 0;
    for (const local of this.#locals) local.seal();
    const { layout } = this.#lease;
    const newest = this.grid.end();
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
    while (!this.grid.isOver) {
      await clock.sleep(listenInterval, { signal: this.#over.signal, keepAlive: false });
      this.grid.beat();
      const behind = Math.max((this.grid.reported(this.#generation) ?? 0) - clock.now(), this.#outOfReach());
      if (behind > 0 && this.#generation > 0) this.#lease.noteRollback(behind, "switch");
    }
  }

  /** How far the clock is behind the lanes that were taken, where that is too far; their takers get no others until then. ms. */
  #outOfReach(): number {
    const { clock, layout } = this.#lease;
    const newest = this.grid.newest();
    const behind = newest === undefined ? 0 : layout.timeOf(newest) - furthest - clock.now();
    return behind > this.#maxTell ? behind : 0;
  }

  /** Makes the grid tell what the lease has become. */
  #follow(): void {
    const { tenure, state } = this.#lease;
    if (state !== "held" && state !== "switching") {
      this.seal();
      this.grid.finish();
      this.#over.abort();
    }
    if (tenure === undefined) return;
    const { generation, workerId, fence, from, until, floor, since, store } = tenure;
    [this.#from, this.#until] = [from, until];
    if (generation === this.#generation) {
      this.grid.write({ from, until, floor });
      return;
    }
    this.#generation = generation;
    this.#usage = undefined;
    const memory = RecentTicks.after(this.#lease.layout, tenure);
    const first = memory.floor;
    this.grid.begin({ generation, workerId, fence, from, until, floor, first, since }, store, this.#lanesOf(memory));
  }

  /** The lanes of what was used, by whomever, before this. */
  #lanesOf(memory: RecentTicks): ReadonlyMap<number, Lanes> {
    const { cut } = this.grid;
    const used = new Map<number, Lanes>();
    for (let tick = memory.floor; tick <= memory.highest; tick++) {
      const sequence = memory.sequenceOf(tick);
      if (sequence < 0) continue;
      const span = cut.spanOf(tick);
      used.set(span, Math.max(used.get(span) ?? 0, 2 ** (cut.laneOf(sequence) + 1) - 1));
    }
    return used;
  }
}
