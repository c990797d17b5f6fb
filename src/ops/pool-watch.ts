import { setImmediate as turn } from "node:timers/promises";
import { type Clock, monotonic } from "../lease/clock.ts";
import { asSnowleaseError, SnowleaseError } from "../id/errors.ts";
import { Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import type { NamespaceInfo, Registry, WorkerRecord, WorkerState } from "../rule/registry.ts";
import { Growth, type PoolForecast } from "./forecast.ts";

/** What may be said of a worker ID; `unused`: never claimed. */
export type CellState = WorkerState | "unused";

/** How many worker IDs are in each state. */
type PoolCounts = Readonly<Record<CellState, number>>;

/** Worker IDs `first` to `last` of a pool: one where it has no more than the picture has cells. */
export interface Cell extends PoolBounds {
  readonly counts: PoolCounts;
  /** Of a cell of one that was ever used or pinned; without recents. */
  readonly record?: WorkerRecord | undefined;
}

/** How a pool looks. Times in Unix ms. */
export interface Picture {
  readonly namespace: string;
  readonly info: NamespaceInfo;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  /** Worker IDs of a cell: 1 in a pool of 1024 or less. */
  readonly cellSize: number;
  /** In ascending order, all of the same size but the last one, as far as the pool was read. */
  readonly cells: readonly Cell[];
  readonly counts: PoolCounts;
  /** Live worker IDs in ascending order, the first 1000 of them; without recents. */
  readonly holders: readonly WorkerRecord[];
  /** Live worker IDs whose holder is late: less than a third of the window is left, and a third is when it is renewed. */
  readonly overdue: Overdue;
  /** When the first of those that rest comes free. */
  readonly freeAt: number | undefined;
  /** Which part of the pool was read at least once, 0 to 1: a large one takes several looks. */
  readonly read: number;
  /** The registry's clock at this look. */
  readonly clock: number;
  /** This machine's clock less the registry's, ms. */
  readonly offset: number;
  /** How long the registry took to answer, ms. */
  readonly latency: number;
  /** What acknowledged writes survive there. */
  readonly promise: string;
  readonly forecast: PoolForecast | undefined;
}

/** Holders that are late with their renewals. */
interface Overdue {
  readonly count: number;
  /** The one of them whose window ends first; without recents. */
  readonly first: WorkerRecord | undefined;
}

/** What a look came to. */
export interface Look {
  /** As last seen; undefined while there is nothing: the namespace does not exist, or the registry never answered. */
  readonly picture: Picture | undefined;
  /** Why the picture is not of now. */
  readonly problem: SnowleaseError | undefined;
}

/** One time through a pool, page by page. */
interface Lap {
  readonly info: NamespaceInfo;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  readonly growth: Growth;
  readonly holders: WorkerRecord[];
  overdue: Overdue;
  freeAt: number | undefined;
  /** The registry's clock at the last look. */
  clock: number;
  /** Worker IDs of a cell. */
  readonly size: number;
  /** The last worker ID that was read. */
  after: number;
  /** The cell that is being counted. */
  open: { first: number; counts: Record<CellState, number>; record: WorkerRecord | undefined };
}

/** Worker IDs of the largest pool in which each has a cell of its own. */
const mostSingle = 1024;
/** Cells of a larger pool: each says more, and the page of all of them is to stay small. */
const mostCells = 512;
/** What is left of a window when a renewal that was due was not made, as a share of it. */
const late = 1 / 3;
const mostHolders = 1000;
const pageSize = 1000;
/** What one look may read, as pages and as ms: a pool of 1024 takes two pages, and one of millions many looks. */
const pagesALook = 32;
const timeALook = 250;
/** How long the registry may take before a look goes without it, ms. */
const patience = 3000;
/** However many look, the registry is asked no more often than this, ms. */
const interval = 900;
/** How often the forecast is made anew, ms: it is about days. */
const forecastInterval = 600_000;

/** Watches the pool of one namespace: reads it again at each look, so much at a time that nobody waits long for it. */
export class PoolWatch {
  readonly #registry: Registry;
  readonly #namespace: string;
  readonly #clock: Clock;
  readonly #bounds: PoolBounds | undefined;
  #lap: Lap | undefined;
  #cells: Cell[] = [];
  /** The last time through the whole pool. */
  #last: Lap | undefined;
  #forecast: PoolForecast | undefined;
  #forecastAt = -Infinity;
  #look: Look = { picture: undefined, problem: undefined };
  #lookedAt = -Infinity;
  #looking: Promise<Look> | undefined;

  /** @param bounds the worker IDs to show. Default: all of the namespace's layout. */
  constructor(registry: Registry, namespace: string, clock: Clock, bounds?: PoolBounds) {
    this.#registry = registry;
    this.#namespace = namespace;
    this.#clock = clock;
    this.#bounds = bounds;
  }

  /** Looks, for 3 s at most. Never rejects: what goes wrong stands beside what was last seen. */
  async look(): Promise<Look> {
    if (this.#looking === undefined && monotonic(this.#clock) - this.#lookedAt < interval) return this.#look;
    this.#looking ??= this.#ask().finally(() => {
      this.#looking = undefined;
      this.#lookedAt = monotonic(this.#clock);
    });
    const done = new AbortController();
    const late = this.#clock.sleep(patience, { signal: done.signal, keepAlive: false }).then((): Look => {
      const what = `The registry did not answer within ${patience} ms; this is what was last seen of it.`;
      return { ...this.#look, problem: new SnowleaseError("REGISTRY_UNAVAILABLE", what) };
    });
    const look = await Promise.race([this.#looking, late]);
    done.abort();
    return look;
  }

  /** Looks until the whole pool was read, however long that takes. Never rejects, either. */
  async lookThrough(): Promise<Look> {
    let look = await this.#ask();
    while (look.problem === undefined && look.picture !== undefined && look.picture.read < 1) look = await this.#ask();
    return look;
  }

  async #ask(): Promise<Look> {
    try {
      this.#look = { picture: await this.#read(), problem: undefined };
    } catch (cause) {
      this.#look = { ...this.#look, problem: asSnowleaseError(cause) };
    }
    return this.#look;
  }

  async #read(): Promise<Picture | undefined> {
    const [sent, started] = [this.#clock.now(), monotonic(this.#clock)];
    const { clock, promise } = await this.#registry.ping();
    const latency = monotonic(this.#clock) - started;
    const offset = Math.round(sent + latency / 2 - clock);
    const info = await this.#registry.describe(this.#namespace);
    if (info === undefined) return undefined;
    if (this.#lap?.info.layout !== info.layout) this.#lap = undefined;
    this.#lap ??= this.#begin(info, clock);
    this.#lap.clock = clock;
    const lap = await this.#goOn(this.#lap);
    const { layout, pool, size } = lap;
    const { holders, overdue, freeAt } = this.#last ?? lap;
    return {
      namespace: this.#namespace,
      info,
      layout,
      pool,
      cellSize: size,
      cells: [...this.#cells],
      counts: sum(this.#cells),
      holders: [...holders],
      overdue,
      freeAt,
      read: this.#last !== undefined ? 1 : (this.#cells.length * size) / Math.max(1, pool.last - pool.first + 1),
      clock,
      offset,
      latency,
      promise,
      forecast: this.#forecast,
    };
  }

  #begin(info: NamespaceInfo, clock: number): Lap {
    const layout = Layout.parse(info.layout);
    const { first, last } = this.#bounds ?? layout.pool;
    const pool = { first, last: Math.min(last, layout.pool.last) };
    const count = pool.last - first + 1;
    const size = count <= mostSingle ? 1 : Math.ceil(count / mostCells);
    const lap: Lap = {
      info,
      layout,
      pool,
      size,
      growth: new Growth(clock),
      holders: [],
      overdue: { count: 0, first: undefined },
      freeAt: undefined,
      clock,
      after: first - 1,
      open: empty(first, Math.min(first + size - 1, pool.last)),
    };
    if (this.#cells[0]?.first !== first || this.#cells[0].last !== Math.min(first + size - 1, pool.last)) {
      this.#cells = [];
      this.#last = undefined;
    }
    return lap;
  }

  /** Reads on, to the end of the pool or of what one look may take. */
  async #goOn(lap: Lap): Promise<Lap> {
    const { pool, growth } = lap;
    const deadline = monotonic(this.#clock) + timeALook;
    for (let pages = 0; pages < pagesALook && monotonic(this.#clock) <= deadline; pages++) {
      const page = await this.#registry.workers(this.#namespace, { after: lap.after, limit: pageSize });
      for (const { recents: _, ...record } of page) {
        if (record.workerId > pool.last) break;
        this.#count(lap, record);
        growth.add(record);
      }
      lap.after = page.at(-1)?.workerId ?? pool.last;
      // Some registries answer without waiting for anything: others are to have their turn, however much is read.
      await turn();
      if (page.length === pageSize && lap.after < pool.last) continue;
      await this.#end(lap);
      break;
    }
    return lap;
  }

  #count(lap: Lap, record: WorkerRecord): void {
    while (record.workerId >= lap.open.first + lap.size) this.#close(lap);
    lap.open.counts[record.state]++;
    lap.open.counts.unused--;
    if (lap.size === 1) lap.open.record = record;
    if (record.state === "resting") lap.freeAt = Math.min(record.until, lap.freeAt ?? Infinity);
    if (record.state !== "live") return;
    if (lap.holders.length < mostHolders) lap.holders.push(record);
    if (record.until - lap.clock >= (record.until - record.seenClock) * late) return;
    const { count, first = record } = lap.overdue;
    lap.overdue = { count: count + 1, first: first.until <= record.until ? first : record };
  }

  /** Puts the cell that was counted in its place, and opens the next one. */
  #close(lap: Lap): void {
    const { pool, size } = lap;
    const { first, counts, record } = lap.open;
    const last = Math.min(first + size - 1, pool.last);
    this.#cells[(first - pool.first) / size] = { first, last, counts, record };
    lap.open = empty(first + size, Math.min(last + size, pool.last));
  }

  async #end(lap: Lap): Promise<void> {
    while (lap.open.first <= lap.pool.last) this.#close(lap);
    this.#last = lap;
    this.#lap = undefined;
    if (monotonic(this.#clock) - this.#forecastAt < forecastInterval) return;
    const { free, unused } = sum(this.#cells);
    // A picture without a forecast is worth showing.
    this.#forecast = await lap.growth.forecast(this.#registry, this.#namespace, free + unused).catch(() => undefined);
    this.#forecastAt = monotonic(this.#clock);
  }
}

function empty(first: number, last: number): Lap["open"] {
  const unused = Math.max(0, last - first + 1);
  return { first, counts: { live: 0, resting: 0, free: 0, pinned: 0, foreign: 0, unused }, record: undefined };
}

function sum(cells: readonly Cell[]): PoolCounts {
  const total = { live: 0, resting: 0, free: 0, pinned: 0, foreign: 0, unused: 0 };
  for (const { counts } of cells) {
    for (const state of Object.keys(total) as CellState[]) total[state] += counts[state];
  }
  return total;
}
