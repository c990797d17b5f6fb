import { isSnowleaseError } from "../id/errors.ts";
import type { Lease, Ledger, Tenure } from "../lease/lease.ts";
import { firstWholeTick } from "../id/layout.ts";
import type { Share } from "../generator/tick-allocator.ts";
import { Grid } from "./shared-allocator.ts";
import { type LaneTicks, laneTicks } from "./blocks.ts";

/** How far ahead of the clock lanes are kept in stock, ms: so long nothing need be asked. */
const stockLength = 5000;
/** How often the stock is filled up, ms. */
const fillInterval = 1000;
/** Of how many spans more lanes are asked when those of one do not suffice. */
const rush = 4;
/** How often a keeper looks for what other threads want, ms: while there are any, and while there are none. */
const [shortLook, longLook] = [5, 200];

/**
 * The lanes of a lease that another process lends: a few are always there before they are needed, more are asked for when those of a
 * span are used up. They lie in shared memory, so that the threads of this process can take of them, too; only this one asks.
 */
export class BorrowedLanes implements Share {
  /**
   * Resolves when the first lanes are there. Rejects with what the lender refuses.
   * @param shared whether other threads are to take of them.
   */
  static async open(lease: Lease, shared: boolean = false): Promise<BorrowedLanes> {
    const lanes = new BorrowedLanes(lease);
    await lanes.#fill();
    void lanes.#keep();
    if (shared) void lanes.#listen();
    return lanes;
  }

  /** Those that were taken from the lender, and that no generator has yet. */
  readonly grid: Grid;
  readonly #lease: Lease;
  readonly #seat: number;
  /** The tenure that the stock is of; 0: none. */
  #generation = 0;
  /** The span behind the last one of which lanes were taken. */
  #next = 0;
  /** How many lanes of each span were put in stock. */
  #each = 1;
  #isRushing = false;

  private constructor(lease: Lease) {
    this.#lease = lease;
    this.grid = Grid.create(lease.layout, true);
    this.#seat = this.grid.join(this.grid.cut.spanOf(lease.layout.tickOf(lease.clock.now())));
    this.#follow();
    lease.onChange(() => {
      if (this.#follow()) void this.#fillQuietly();
    });
  }

  attach(generator: Ledger): void {
    this.#lease.attach(generator);
  }

  ticks(tenure: Tenure): LaneTicks {
    return laneTicks(this.#lease.layout, this.grid, this.#seat, tenure, (span, held) => void this.#rush(span, held));
  }

  get #isOver(): boolean {
    const { state } = this.#lease;
    return state !== "held" && state !== "switching";
  }

  /** Makes the stock one of what the lease has become. Whether that is another tenure, of which there is nothing yet. */
  #follow(): boolean {
    const { tenure } = this.#lease;
    if (this.#isOver) this.grid.finish();
    if (tenure === undefined) {
      if (this.#generation > 0) this.grid.end();
      this.#generation = 0;
      return false;
    }
    const { generation, workerId, fence, from, until, floor, since, store } = tenure;
    if (generation === this.#generation) {
      this.grid.write({ from, until, floor });
      return false;
    }
    this.#generation = generation;
    this.#next = 0;
    // What may be used before it is the lender's to know.
    const first = firstWholeTick(this.#lease.layout, floor);
    this.grid.begin({ generation, workerId, fence, from, until, floor, first, since }, store);
    return true;
  }

  /** How many generators of other threads there are. */
  #othersAt(span: number): number {
    return this.grid.expected(span + 1, this.#seat);
  }

  async #keep(): Promise<void> {
    const { clock } = this.#lease;
    while (!this.#isOver) {
      await clock.sleep(fillInterval, { signal: this.#lease.signal, keepAlive: false });
      await this.#fillQuietly();
    }
  }

  /** Does for the generators of other threads what they cannot: asks for lanes, and gives up a worker ID with a window out of reach. */
  async #listen(): Promise<void> {
    const { clock, layout } = this.#lease;
    const { grid } = this;
    while (!this.#isOver) {
      const others = this.#othersAt(grid.cut.spanOf(layout.tickOf(clock.now())));
      if (others >= this.#each) void this.#fillQuietly();
      await clock.sleep(others === 0 ? longLook : shortLook, { signal: this.#lease.signal, keepAlive: false });
      grid.beat();
      const wanted = grid.wanted();
      if (wanted !== undefined) void this.#rush(wanted.span, wanted.held);
      const behind = (grid.reported(this.#generation) ?? 0) - clock.now();
      if (behind > 0 && this.#generation > 0) this.#lease.noteRollback(behind, "switch");
    }
  }

  /** Takes a lane of every span up to so far ahead of the clock, for each of those who use them. */
  async #fill(): Promise<void> {
    const { layout, clock } = this.#lease;
    if (this.#generation === 0) return;
    const { cut } = this.grid;
    const generation = this.#generation;
    const present = cut.spanOf(layout.tickOf(clock.now()));
    const before = this.#each;
    this.#each = Math.min(cut.lanes, 1 + this.#othersAt(present));
    // Of what is in stock, those who have joined since have nothing yet.
    const more = this.#each - before;
    if (more > 0 && this.#next > present) await this.#take(generation, present, this.#next - present, more, before);
    const ahead = Math.max(1, Math.ceil(stockLength / layout.tick / cut.ticks));
    // A clock that was set back finds none, and takes them anew.
    const first = this.#next > present + ahead ? present : Math.max(present, this.#next);
    const spans = present + ahead - first + 1;
    if (spans <= 0) return;
    // None are given beyond the end of the window: those are asked for when it was extended.
    const given = await this.#take(generation, first, spans, this.#each, this.#each - 1);
    if (generation === this.#generation) this.#next = first + given;
  }

  async #rush(span: number, held: number): Promise<void> {
    if (this.#isRushing) return;
    this.#isRushing = true;
    try {
      await this.#take(this.#generation, span, rush, Math.max(1, held), held);
    } catch (error) {
      if (!isSnowleaseError(error)) throw error;
    } finally {
      this.#isRushing = false;
    }
  }

  /** Puts into the stock what is given; returns up to which of the spans there was something. */
  async #take(generation: number, first: number, spans: number, lanes: number, held: number): Promise<number> {
    const taken = (await this.#lease.takeLanes({ first, spans, lanes, held })) ?? [];
    if (generation !== this.#generation) return 0;
    for (const [i, more] of taken.entries()) if (more !== 0) this.grid.put(first + i, more);
    return taken.findLastIndex((lanes) => lanes !== 0) + 1;
  }

  /** What stands in its way, the generator finds out by having no lanes. */
  async #fillQuietly(): Promise<void> {
    try {
      await this.#fill();
    } catch (error) {
      if (!isSnowleaseError(error)) throw error;
    }
  }
}
