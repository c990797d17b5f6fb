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

/** Worker IDs `first` to `last` of a pool: one where it has no more than the picture has cells. */
export interface Cell extends PoolBounds {
  readonly counts: PoolCounts;
  /** The record of the only worker ID of the cell, without recents; absent where it was never used or pinned. */
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
  /** Live worker IDs with less than a third of their window left: their holders are late with a renewal. `first`: ends first. */
  readonly overdue: { readonly count: number; readonly first: WorkerRecord | undefined };
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
  readonly durability: string;
  readonly forecast: PoolForecast | undefined;
}

export interface Look {
  /** As last seen; undefined while there is nothing: the namespace does not exist, or the registry never answered. */
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
  /** The cell that is being counted. */
  open: OpenCell;
}

interface OpenCell extends Cell {
  readonly counts: Record<PoolState, number>;
  record: WorkerRecord | undefined;
}

/** Worker IDs of the largest pool in which each has a cell of its own. */
const mostSingle = 1024;
/** Cells of a larger pool: each says more, and the page of all of them is to stay small. */
const mostCells = 512;
const mostHolders = 1000;
/** A look ends after so many pages, or so many ms: a pool of 1024 takes two pages, a pool of millions many looks. */
const pagesALook = 32;
const timeALook = 100;
/** How long the registry may take before a look goes without it, ms. */
const patience = 3000;
/** Shortest time between two looks at the registry, ms. */
const interval = 900;
/** How often the forecast is made anew, ms: it is about days. */
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
  /** The last time through the whole pool. */
  #last: PoolReading | undefined;
  #forecast: PoolForecast | undefined;
  #forecastAt = -Infinity;
  #look: Look = { picture: undefined, problem: undefined };

  /** @param bounds the worker IDs to show. Default: all of the namespace's layout. */
  constructor(registry: Registry, namespace: string, clock: Clock, bounds?: PoolBounds) {
    this.#registry = registry;
    this.#namespace = namespace;
    this.#clock = clock;
    this.#bounds = bounds;
    this.#shared = new SharedLook({ clock, interval, patience }, () => this.#ask());
  }

  /** Looks for 3 s at most. Never rejects: the answer holds the error and what was last seen. */
  async look(): Promise<Look> {
    if (await this.#shared.wait()) return this.#look;
    const what = `The registry did not answer within ${patience} ms; this is what was last seen of it.`;
    return { ...this.#look, problem: new SnowleaseError("REGISTRY_UNAVAILABLE", what) };
  }

  /** Looks until the whole pool was read, however long that takes. Never rejects. */
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

  /** Reads on, to the end of the pool or of what one look may take. */
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

  /** Puts the cell that was counted in its place, and opens the next one. */
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
    // A picture without a forecast is worth showing.
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
