import { isSnowleaseError } from "../core/errors.ts";
import type { Lease, Ledger, Tenure } from "../core/lease.ts";
import type { Share } from "../core/tick-book.ts";
import { Cut, type Lanes } from "./grid.ts";
import { LaneTicks } from "./lanes.ts";

/** How far ahead of the clock lanes are kept in stock, ms: so long nothing need be asked. */
const stockLength = 5000;
/** How often the stock is filled up, ms. */
const fillInterval = 1000;
/** Of how many spans more lanes are asked when those of one do not suffice. */
const rush = 4;

/**
 * The lanes of a lease that another process lends: a few are always there before they are needed, more are asked for when those of a
 * span are used up.
 */
export class BorrowedLanes implements Share {
  /** Resolves when the first lanes are there. Rejects with what the lender refuses. */
  static async open(lease: Lease): Promise<BorrowedLanes> {
    const lanes = new BorrowedLanes(lease);
    await lanes.#fill();
    void lanes.#keep();
    return lanes;
  }

  readonly #lease: Lease;
  readonly #cut: Cut;
  /** The tenure that the stock is of. */
  #generation = 0;
  /** Lanes that were taken, and that no generator has yet. */
  readonly #stock: Map<number, Lanes> = new Map();
  /** The span behind the last one of which lanes were taken. */
  #next = 0;
  #isRushing = false;

  private constructor(lease: Lease) {
    this.#lease = lease;
    this.#cut = new Cut(lease.layout);
    lease.onChange(() => {
      if (lease.tenure !== undefined && lease.tenure.generation !== this.#generation) void this.#fillQuietly();
    });
  }

  attach(generator: Ledger): void {
    this.#lease.attach(generator);
  }

  ticks({ generation, floor }: Tenure): LaneTicks {
    return new LaneTicks(this.#lease.layout, floor, (span, held) => {
      if (generation !== this.#generation) return 0;
      const lanes = this.#stock.get(span) ?? 0;
      this.#stock.delete(span);
      if (lanes === 0) void this.#rush(span, held);
      return lanes;
    });
  }

  async #keep(): Promise<void> {
    const { clock } = this.#lease;
    while (this.#lease.state === "held" || this.#lease.state === "switching") {
      await clock.sleep(fillInterval, { signal: this.#lease.signal, keepAlive: false });
      await this.#fillQuietly();
    }
  }

  /** Takes a lane of every span up to so far ahead of the clock. */
  async #fill(): Promise<void> {
    const { tenure, layout, clock } = this.#lease;
    if (tenure === undefined) return;
    if (tenure.generation !== this.#generation) {
      this.#generation = tenure.generation;
      this.#stock.clear();
      this.#next = 0;
    }
    const present = this.#cut.spanOf(layout.tickOf(clock.now()));
    for (const span of this.#stock.keys()) if (span < present) this.#stock.delete(span);
    const ahead = Math.max(1, Math.ceil(stockLength / layout.tick / this.#cut.ticks));
    // A clock that was set back finds none, and takes them anew.
    const first = this.#next > present + ahead ? present : Math.max(present, this.#next);
    const spans = present + ahead - first + 1;
    if (spans <= 0) return;
    // None are given beyond the end of the window: those are asked for when it was extended.
    const given = await this.#take(tenure.generation, first, spans, 1, 0);
    if (tenure.generation === this.#generation) this.#next = first + given;
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
    for (const [i, more] of taken.entries()) {
      if (more !== 0) this.#stock.set(first + i, ((this.#stock.get(first + i) ?? 0) | more) >>> 0);
    }
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
