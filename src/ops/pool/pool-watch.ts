import { type Clock, monotonic } from "../../clock.ts";
import { asSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Registry, WorkerRecord } from "../../rule/registry.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import { Growth, type PoolForecast } from "./forecast.ts";
import { SharedLook } from "../shared-look.ts";
import { allUnused, countRecord, isOverdue, type PoolCounts, type PoolState, sumOf } from "./pool-counts.ts";
import { PoolReader, poolWithin } from "./pool-reader.ts";

/** Worker IDs `first` to `last` of a pool. A cell of a small pool has one worker ID. */
export interface Cell extends PoolBounds {
  readonly counts: PoolCounts;
  /** The record of the only worker ID of the cell, without recents. Undefined if it was never used or pinned, or the cell has several. */
  readonly record?: WorkerRecord | undefined;
}

/** A picture of a pool. Times in Unix ms. */
export interface Picture {
  readonly namespace: string;
  readonly info: NamespaceInfo;
  readonly layout: Layout;
  readonly pool: PoolBounds;
  /** Number of worker IDs of a cell. It is 1 in a pool of 1024 or less. */
  readonly cellSize: number;
  /** The cells in ascending order, as far as the pool was read. All have the same size, except that the last may be smaller. */
  readonly cells: readonly Cell[];
  readonly counts: PoolCounts;
  /** The first 1000 live worker IDs in ascending order, without recents. */
  readonly holders: readonly WorkerRecord[];
  /** Live worker IDs with less than a third of their window left. Their holders are late with a renewal. `first`: its window ends first. */
  readonly overdue: { readonly count: number; readonly first: WorkerRecord | undefined };
  /** Time at which the first resting worker ID becomes free. */
  readonly freeAt: number | undefined;
  /** The part of the pool that was read at least once, 0 to 1. A large pool takes several looks. */
  readonly read: number;
  /** The registry's clock at this look. */
  readonly clock: number;
  /** This machine's clock minus the registry's, ms. */
  readonly offset: number;
  /** How long the registry took to answer, ms. */
  readonly latency: number;
  readonly durability: string;
  readonly forecast: PoolForecast | undefined;
}

export interface Look {
  /** The last picture. Undefined if the namespace does not exist, or the registry has never answered. */
  readonly picture: Picture | undefined;
  /** Why the picture is outdated. */
  readonly problem: SnowleaseError | undefined;
}

/** One reading of a pool from its first worker ID to its last. */
interface PoolReading extends Pick<Picture, "info" | "layout" | "pool" | "cellSize"> {
  readonly reader: PoolReader;
  readonly growth: Growth;
  readonly holders: WorkerRecord[];
  overdue: Picture["overdue"];
  freeAt: number | undefined;
  /** The registry's clock at the last look. */
  clock: number;
  /** The cell whose count is in progress. */
  open: OpenCell;
}

interface OpenCell extends Cell {
  readonly counts: Record<PoolState, number>;
  record: WorkerRecord | undefined;
}

/** Size of the largest pool in which each worker ID has its own cell. */
const mostSingle = 1024;
/** Most cells of a larger pool. Each of them has a longer label, and the page must stay small. */
const mostCells = 512;
const mostHolders = 1000;
/** A look ends after this many pages or ms. A pool of 1024 takes two pages, a pool of millions many looks. */
const pagesALook = 32;
const timeALook = 100;
/** How long a caller waits for the registry before it gets the last picture, ms. */
const patience = 3000;
/** Shortest time between two looks at the registry, ms. */
const interval = 900;
/** Time between two forecasts, ms. It is long, because a forecast is about days. */
const forecastInterval = 600_000;

/** Watches the pool of one namespace. A look reads a part of it, so that it is quick. */
export class PoolWatch {
  readonly #registry: Registry;
  readonly #namespace: string;
  readonly #clock: Clock;
  readonly #bounds: PoolBounds | undefined;
  readonly #shared: SharedLook;
  #reading: PoolReading | undefined;
  #cells: Cell[] = [];
  /** The last complete reading of the pool. */
  #last: PoolReading | undefined;
  #forecast: PoolForecast | undefined;
  #forecastAt = -Infinity;
  #look: Look = { picture: undefined, problem: undefined };

  /** @param bounds the worker IDs to show. Default: all worker IDs of the namespace's layout. */
  constructor(registry: Registry, namespace: string, clock: Clock, bounds?: PoolBounds) {
    this.#registry = registry;
    this.#namespace = namespace;
    this.#clock = clock;
    this.#bounds = bounds;
    this.#shared = new SharedLook({ clock, interval, patience }, () => this.#ask());
  }

  /** Looks for at most 3 s. Never rejects. After an error, the result has the error and the last picture. */
  async look(): Promise<Look> {
    if (await this.#shared.wait()) return this.#look;
    const what = `The registry did not answer within ${patience} ms; this is what was last seen of it.`;
    return { ...this.#look, problem: new SnowleaseError("REGISTRY_UNAVAILABLE", what) };
  }

  /** Looks until the whole pool is read, however long that takes. Never rejects. */
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
    const { clock, durability } = await this.#registry.ping();
    const latency = monotonic(this.#clock) - started;
    const offset = Math.round(sent + latency / 2 - clock);
    const info = await this.#registry.describe(this.#namespace);
    if (info === undefined) return undefined;
    if (this.#reading?.info.layout !== info.layout) this.#reading = undefined;
    this.#reading ??= this.#begin(info, clock);
    this.#reading.clock = clock;
    const reading = await this.#goOn(this.#reading);
    const { layout, pool, cellSize } = reading;
    const { holders, overdue, freeAt } = this.#last ?? reading;
    return {
      namespace: this.#namespace,
      info,
      layout,
      pool,
      cellSize,
      cells: [...this.#cells],
      counts: sumOf(this.#cells.map(({ counts }) => counts)),
      holders: [...holders],
      overdue,
      freeAt,
      read: this.#last !== undefined ? 1 : (this.#cells.length * cellSize) / Math.max(1, pool.last - pool.first + 1),
      clock,
      offset,
      latency,
      durability,
      forecast: this.#forecast,
    };
  }

  #begin(info: NamespaceInfo, clock: number): PoolReading {
    const layout = Layout.parse(info.layout);
    const pool = poolWithin(layout, this.#bounds);
    const count = pool.last - pool.first + 1;
    const cellSize = count <= mostSingle ? 1 : Math.ceil(count / mostCells);
    const open = openCell(pool, pool.first, cellSize);
    if (this.#cells[0]?.first !== open.first || this.#cells[0].last !== open.last) {
      this.#cells = [];
      this.#last = undefined;
    }
    return {
      info,
      layout,
      pool,
      cellSize,
      reader: new PoolReader(this.#registry, this.#namespace, pool),
      growth: new Growth(clock),
      holders: [],
      overdue: { count: 0, first: undefined },
      freeAt: undefined,
      clock,
      open,
    };
  }

  /** Reads more of the pool, up to its end or to the limits of one look. */
  async #goOn(reading: PoolReading): Promise<PoolReading> {
    const { reader, growth } = reading;
    const deadline = monotonic(this.#clock) + timeALook;
    for (let pages = 0; pages < pagesALook && monotonic(this.#clock) <= deadline && !reader.isDone; pages++) {
      for (const { recents: _, ...record } of await reader.page()) {
        this.#count(reading, record);
        growth.add(record);
      }
    }
    if (reader.isDone) await this.#end(reading);
    return reading;
  }

  #count(reading: PoolReading, record: WorkerRecord): void {
    while (record.workerId > reading.open.last) this.#close(reading);
    countRecord(reading.open.counts, record);
    if (reading.cellSize === 1) reading.open.record = record;
    if (record.state === "resting") reading.freeAt = Math.min(record.until, reading.freeAt ?? Infinity);
    if (record.state !== "live") return;
    if (reading.holders.length < mostHolders) reading.holders.push(record);
    if (!isOverdue(record, reading.clock)) return;
    const { count, first = record } = reading.overdue;
    reading.overdue = { count: count + 1, first: first.until <= record.until ? first : record };
  }

  /** Stores the finished cell, and opens the next one. */
  #close(reading: PoolReading): void {
    const { pool, cellSize, open } = reading;
    this.#cells[(open.first - pool.first) / cellSize] = open;
    reading.open = openCell(pool, open.first + cellSize, cellSize);
  }

  async #end(reading: PoolReading): Promise<void> {
    while (reading.open.first <= reading.pool.last) this.#close(reading);
    this.#last = reading;
    this.#reading = undefined;
    if (monotonic(this.#clock) - this.#forecastAt < forecastInterval) return;
    const { free, unused } = sumOf(this.#cells.map(({ counts }) => counts));
    // A picture is useful even without a forecast.
    this.#forecast = await reading.growth
      .forecast(this.#registry, this.#namespace, free + unused)
      .catch(() => undefined);
    this.#forecastAt = monotonic(this.#clock);
  }
}

function openCell(pool: PoolBounds, first: number, size: number): OpenCell {
  const bounds = { first, last: Math.min(first + size - 1, pool.last) };
  return { ...bounds, counts: allUnused(bounds), record: undefined };
}
