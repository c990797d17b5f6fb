import { type Clock, monotonic } from "../../clock.ts";
import { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Registry } from "../../rule/registry.ts";
import { allUnused, countRecord, isOverdue, type PoolCounts } from "./pool-counts.ts";
import { PoolReader, poolWithin } from "./pool-reader.ts";

/** The last count of a namespace. */
export interface Surveyed {
  readonly layout: Layout;
  readonly counts: PoolCounts;
  /** Live holders whose renewal is overdue. */
  readonly overdue: number;
}

/** A count in progress. */
interface PoolCount extends Surveyed {
  readonly reader: PoolReader;
  readonly counts: ReturnType<typeof allUnused>;
  overdue: number;
}

/** How many pages one step may read. A pool of 1024 takes two pages, and a pool of 22 bits several hundred steps. */
const pagesPerStep = 8;
/** The least pause after a step in the background, ms. */
const leastPause = 20;
/** How long the survey goes on after a step without another step, ms. */
const mostBehind = 120_000;

/** Counts the pools of namespaces, a few pages in each step. The counts of a pool are from its last complete reading. */
export class Survey {
  readonly #registry: Registry;
  readonly #now: () => number;
  readonly #pool: PoolBounds | undefined;
  readonly #unfinished = new Map<string, PoolCount>();
  readonly #found = new Map<string, Surveyed>();
  /** Each step begins with another namespace, so that a large pool does not delay the others. */
  #turn = 0;
  #goesOn = false;
  /** Resolves after all requested steps. */
  #steps: Promise<void> = Promise.resolve();

  /** `now`: the registry's clock, Unix ms. `pool`: the worker IDs to count. Default: all worker IDs of a namespace's layout. */
  constructor(registry: Registry, now: () => number, pool?: PoolBounds) {
    this.#registry = registry;
    this.#now = now;
    this.#pool = pool;
  }

  /** Namespace -> its last complete count. */
  get found(): ReadonlyMap<string, Surveyed> {
    return this.#found;
  }

  /** Continues to count, each namespace to its end, but at most 8 pages in all. Rejects as the registry does. */
  step(namespaces: readonly string[]): Promise<void> {
    // Two steps at once would read a page twice, and count it twice.
    const step = this.#steps.then(() => this.#step(namespaces));
    this.#steps = step.catch(() => undefined);
    return step;
  }

  async #step(namespaces: readonly string[]): Promise<void> {
    const start = namespaces.length === 0 ? 0 : this.#turn % namespaces.length;
    let turns = [...namespaces.slice(start), ...namespaces.slice(0, start)];
    for (let pages = pagesPerStep; pages > 0 && turns.length > 0;) {
      const unfinished: string[] = [];
      for (const namespace of turns) {
        if (pages-- <= 0) break;
        this.#turn++;
        if (!(await this.#page(namespace))) unfinished.push(namespace);
      }
      turns = unfinished;
    }
  }

  /**
   * Finishes counts that steps began. It works a fifth of the time, for at most 2 minutes. By steps alone, pools of millions would take
   * an hour. Never rejects. If the registry does not answer, the next step tries again.
   */
  async goOn(clock: Clock): Promise<void> {
    if (this.#goesOn) return;
    this.#goesOn = true;
    const end = monotonic(clock) + mostBehind;
    try {
      while (this.#unfinished.size > 0 && monotonic(clock) < end) {
        const began = monotonic(clock);
        await this.step([...this.#unfinished.keys()]);
        const pause = Math.max(leastPause, 4 * (monotonic(clock) - began));
        await clock.sleep(pause, { keepAlive: false });
      }
    } catch {
      // Keep the present counts.
    } finally {
      this.#goesOn = false;
    }
  }

  /** Counts a page. True at the end of the pool. */
  async #page(namespace: string): Promise<boolean> {
    const count = this.#unfinished.get(namespace) ?? (await this.#begin(namespace));
    if (count === undefined) {
      this.#found.delete(namespace);
      return true;
    }
    const { layout, reader, counts } = count;
    const page = await reader.page();
    for (const record of page) countRecord(counts, record);
    const clock = this.#now();
    count.overdue += page.filter((record) => isOverdue(record, clock)).length;
    if (!reader.isDone) return false;
    this.#unfinished.delete(namespace);
    this.#found.set(namespace, { layout, counts, overdue: count.overdue });
    return true;
  }

  async #begin(namespace: string): Promise<PoolCount | undefined> {
    const info = await this.#registry.describe(namespace);
    if (info === undefined) return undefined;
    const layout = Layout.parse(info.layout);
    const pool = poolWithin(layout, this.#pool);
    const reader = new PoolReader(this.#registry, namespace, pool);
    const count = { layout, reader, counts: allUnused(pool), overdue: 0 };
    this.#unfinished.set(namespace, count);
    return count;
  }
}
