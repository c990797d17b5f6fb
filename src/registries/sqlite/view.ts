import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { Layout } from "../../id/layout.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import { byAge } from "../../rule/pool.ts";
import type { GrantingStore, HistoryRow, WorkerState } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { Part, Replacement, Standing, StoreChanges, StoreView } from "../engine/port.ts";
import { acceptedClock, type Uptime } from "./clock-guard.ts";
import type { SqliteRow } from "./driver.ts";
import {
  columnsOfClaim,
  columnsOfWindow,
  endedColumns,
  endedOf,
  eraColumns,
  eraOf,
  isSameClaim,
  namespaceOf,
  recordOfRow,
} from "./rows.ts";
import { type SqliteStatements, statementsFor } from "./statements.ts";
import type { SqliteTransaction } from "./transaction.ts";

/** How many rows one step returns, and looks at. SQLite blocks the event loop meanwhile, a few ms for so many rows. */
const [mostReturned, mostLookedAt] = [250, 10_000];
/** How many entries of an index a claim looks at: at first, and at most. Entries of other pools may come first. */
const [firstEntries, mostEntries] = [16, 1000];
/**
 * In a pool of up to this size, a claim looks at each record. In a larger pool, it looks at so many ranges with a random start, of so many
 * records.
 */
const [smallPool, ranges, rangeLength] = [1024, 4, 256];
/** How many rows one step of a removal deletes. */
const eraseBatch = 500;
/** The key of a namespace that does not exist. */
const none = -1;

/** A worker ID and the end of its window, Unix ms, from an index. */
export interface AgedNumber {
  readonly workerId: number;
  readonly until: number;
}

/** What a search without the lock has found in a pool: the oldest of all records, or one whose window has passed. */
export interface PoolSearch {
  readonly places: readonly AgedNumber[];
  readonly isAll: boolean;
}

/** A claim has to know the oldest records of a whole pool. These are too many to look at while others wait for the lock. */
export class Unsearched extends Error {
  readonly pool: PoolBounds;
  readonly limit: number;

  constructor(pool: PoolBounds, limit: number) {
    super("the pool was not searched");
    this.pool = pool;
    this.limit = limit;
  }
}

/** The contents of a name, during one transaction. */
export class SqliteView implements StoreView {
  readonly clock: number;
  readonly standing: Standing;
  readonly store: GrantingStore | undefined;
  readonly #transaction: SqliteTransaction;
  readonly #name: string;
  readonly #row: SqliteRow | undefined;
  readonly #uptime: () => Uptime | undefined;
  /** The search was made before this transaction. */
  readonly #searched: PoolSearch | undefined;
  readonly #records = new Map<number, Stored | undefined>();
  #sql: SqliteStatements;
  /** The oldest records of the pool, after a look at all of it. */
  #oldest: readonly Stored[] | undefined;
  #accepted: ReturnType<typeof acceptedClock>;

  constructor(
    transaction: SqliteTransaction,
    name: string,
    { uptime, searched }: { readonly uptime: () => Uptime | undefined; readonly searched?: PoolSearch | undefined },
  ) {
    const { sql, now, file } = transaction;
    this.#transaction = transaction;
    this.#name = name;
    this.#uptime = uptime;
    this.#searched = searched;
    this.#row = sql.get("namespace.find", { name });
    this.#sql = statementsFor(sql, Number(this.#row?.["namespace_id"] ?? none));
    this.clock = now;
    this.store = file;
    this.standing = this.#row === undefined ? { noted: this.#noted() } : { made: this.#made(this.#row) };
  }

  /** The key is read only when needed, because few operations ask for it. */
  #made(row: SqliteRow): NewNamespace {
    const key = (): string => String(this.#sql.get("namespace.receipt-key")?.["receipt_key"]);
    return {
      ...namespaceOf(row),
      get receiptKey() {
        return key();
      },
    };
  }

  #noted(): Era | undefined {
    const row = this.#transaction.sql.get("namespace.noted", { name: this.#name });
    return row && eraOf(row);
  }

  /**
   * No holder gets the tick in which the registry was made, because holders of an earlier file at this path may have used it. A tick of 1
   * ms has passed before the first claim. With such a tick, windows may begin earlier, for clocks that are set back.
   */
  readonly earliest = (layout: string): number => {
    const { sql, earliest } = this.#transaction;
    if (Layout.parse(layout).tick === 1) return earliest;
    return Math.max(Number(sql.get("registry.made")?.["made_at"]), earliest);
  };

  checkClock({ maxClockSkew }: Pick<NamespaceLimits, "maxClockSkew">): void {
    const { sql, now } = this.#transaction;
    const [boot, ahead] = [this.#row?.["clock_boot"] ?? undefined, Number(this.#row?.["clock_ahead"])];
    this.#accepted = acceptedClock(sql, { maxClockSkew, boot, ahead }, now, this.#uptime());
    if (this.#row !== undefined) this.#noteClock();
  }

  #noteClock(): void {
    if (this.#accepted !== undefined) this.#sql.run("clock.accept", this.#accepted);
    this.#accepted = undefined;
  }

  commit({ becomes, records }: StoreChanges): void {
    const { sql } = this.#transaction;
    if (becomes !== undefined && becomes.made === undefined) {
      if (this.standing.made !== undefined && !this.#erase()) return;
      if (becomes.noted !== undefined) sql.run("namespace.note", { name: this.#name, ...eraColumns(becomes.noted) });
      return;
    }
    if (becomes?.made !== undefined) this.#put(becomes.made);
    for (const record of records) if (record.after !== record.before) this.#replace(record);
  }

  byToken(token: string): Stored | undefined {
    return this.#one("claim.by-token", { token });
  }

  /** Returns one object for each record, because an operation replaces the same object that it read. */
  byId(workerId: number): Stored | undefined {
    if (!this.#records.has(workerId)) this.#records.set(workerId, this.#one("record.get", { worker_id: workerId }));
    return this.#records.get(workerId);
  }

  firstUnused({ first, last }: PoolBounds): number | undefined {
    // A namespace that does not exist has no gaps.
    if (this.#row === undefined) return first;
    const gap = this.#gapOf(first);
    return gap === undefined || gap.first > last ? undefined : Math.max(gap.first, first);
  }

  oldest(pool: PoolBounds, limit: number, everywhere?: true): readonly Stored[] {
    if (everywhere === true) return this.#oldest ?? this.#foundBefore(pool, limit);
    const { places, isAll } = this.#placesIn("claim.oldest", pool, limit);
    const isSmall = pool.last - pool.first < smallPool;
    const found = isAll ? places : isSmall ? this.numbers(pool.first, pool.last, smallPool) : this.#byLot(pool, places);
    const records = this.#recordsAt(found.toSorted(byAge), limit);
    if (isAll || isSmall) this.#oldest = records;
    return records;
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#recordsAt(this.#placesIn("claim.oldest-of-host", pool, limit, { host }).places, limit);
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    const { first, last } = pool;
    return this.#recordsOf(this.#sql.all("claim.pinned-for", { owner: ip, first, last, limit }).map(placeOf));
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    const [newest] = this.#placesIn("claim.newest-of-host", pool, 1, { host }).places;
    return newest && this.byId(newest.workerId);
  }

  page(after: number, limit: number, state: WorkerState | undefined): Part<Stored> {
    const most = Math.min(limit, mostReturned);
    // Among the records of all states, few may have this state.
    const end = state && this.#sql.get("workers.last-of", { after, rows: mostLookedAt })?.["worker_id"];
    const range = state === undefined ? {} : { now: this.clock, last: end ?? Number.MAX_SAFE_INTEGER };
    const rows = this.#sql.all(`workers.${state ?? "all"}`, { after, ...range, limit: most }).map(recordOfRow);
    const next = rows.length === most ? rows.at(-1)?.workerId : end;
    return { rows, next: next === undefined ? undefined : Number(next) };
  }

  ended(workerId: number, before: number, limit: number): Part<HistoryRow> {
    const most = Math.min(limit, mostReturned);
    const rows = this.#sql.all("history.list", { worker_id: workerId, before, limit: most }).map(endedOf);
    return { rows, next: rows.length === most ? rows.at(-1)?.fence : undefined };
  }

  /** The first records between two worker IDs that are not pinned, in ascending order. */
  numbers(first: number, last: number, limit: number): readonly AgedNumber[] {
    return this.#sql.all("claim.numbers", { first, last, limit }).map(placeOf);
  }

  /** A window that ended before or at this time has passed by each clock that may claim, Unix ms. */
  get passed(): number {
    return this.clock - (this.standing.made?.info.maxClockSkew ?? 0);
  }

  /** Deletes claims, as the registry's `prune` does. Returns how many. */
  prune(before: number, limit: number): number {
    return this.#sql.run("history.prune", { before, limit });
  }

  #put({ info, era, receiptKey }: NewNamespace): void {
    const { sql, now } = this.#transaction;
    const own = { id: info.id ?? null, receipt_key: receiptKey, ...eraColumns(era) };
    if (this.#row !== undefined) {
      this.#sql.run("namespace.put", own);
      return;
    }
    const { layout, maxWindow, maxClockSkew } = info;
    const fixed = { layout, max_window: maxWindow, max_clock_skew: maxClockSkew, created_at: now };
    const row = sql.get("namespace.add", { name: this.#name, ...own, ...fixed });
    this.#sql = statementsFor(sql, Number(row?.["namespace_id"]));
    sql.run("namespace.forget-note", { name: this.#name });
    this.#sql.run("namespace.add-gap");
    this.#noteClock();
  }

  #replace({ workerId, before, after, ended }: Replacement): void {
    const key = { worker_id: workerId };
    if (ended !== undefined) this.#sql.run("history.put", endedColumns(ended));
    if (after === undefined) {
      this.#sql.run("record.delete", key);
      this.#sql.run("record.put-gap", { first: workerId, last: workerId });
      return;
    }
    if (before === undefined) this.#fillGap(workerId);
    else if (before.fence !== after.fence) this.#sql.run("history.supersede", { ...key, fence: before.fence });
    const window = { ...key, ...columnsOfWindow(after) };
    // Most writes are renewals.
    if (before !== undefined && isSameClaim(after, before)) this.#sql.run("record.put-window", window);
    else this.#sql.run("record.put", { ...window, ...columnsOfClaim(after) });
  }

  /**
   * Deletes a part of what the namespace has. With the last part, it deletes the namespace itself. Returns whether it was the last part.
   */
  #erase(): boolean {
    const batch = { limit: eraseBatch };
    const isLast = ["erase.history", "erase.worker"].every((name) => this.#sql.run(name, batch) < eraseBatch);
    if (isLast) for (const name of ["erase.gaps", "erase.namespace"]) this.#sql.run(name);
    return isLast;
  }

  /** Removes a worker ID from its gap. */
  #fillGap(workerId: number): void {
    const gap = this.#gapOf(workerId);
    if (gap === undefined || gap.first > workerId) return;
    if (gap.last > workerId) this.#sql.run("record.put-gap", { first: workerId + 1, last: gap.last });
    else this.#sql.run("record.delete-gap", { last: gap.last });
    if (gap.first < workerId) this.#sql.run("record.put-gap", { first: gap.first, last: workerId - 1 });
  }

  #gapOf(workerId: number): PoolBounds | undefined {
    return this.#sql.get("record.gap-of", { worker_id: workerId }) as (SqliteRow & PoolBounds) | undefined;
  }

  #one(statement: string, parameters: SqliteRow): Stored | undefined {
    const row = this.#sql.get(statement, parameters);
    return row && recordOfRow(row);
  }

  /** The first entries of an index that belong to a pool. `isAll`: no other entry of the pool would come before these. */
  #placesIn(
    statement: string,
    pool: PoolBounds,
    limit: number,
    of: SqliteRow = {},
  ): { readonly places: readonly AgedNumber[]; readonly isAll: boolean } {
    let places: readonly AgedNumber[] = [];
    for (const most of [firstEntries, mostEntries]) {
      const entries = this.#sql.all(statement, { ...of, limit: most }).map(placeOf);
      places = entries.filter(({ workerId }) => isIn(pool, workerId)).slice(0, limit);
      if (places.length === limit || entries.length < most) return { places, isAll: true };
    }
    return { places, isAll: false };
  }

  /** For a large pool whose records come after many others: some random ones. */
  #byLot({ first, last }: PoolBounds, places: readonly AgedNumber[]): readonly AgedNumber[] {
    const found = new Map(places.map((place) => [place.workerId, place]));
    for (let i = 0; i < ranges; i++) {
      const begin = first + Math.floor(Math.random() * (last - first + 1));
      for (const place of this.numbers(begin, last, rangeLength)) found.set(place.workerId, place);
    }
    return [...found.values()];
  }

  /**
   * What the search has found. @throws Unsearched if there was no search, or another claim has taken the worker ID that it had found free.
   */
  #foundBefore(pool: PoolBounds, limit: number): readonly Stored[] {
    const { places = [], isAll = false } = this.#searched ?? {};
    const records = this.#recordsOf(places);
    // If the search saw all records, none was free. A renewal since then is no reason to search again, because holders renew all the time.
    const stands = isAll || places.some(({ workerId, until }) => this.byId(workerId)?.until === until);
    if (!stands) throw new Unsearched(pool, limit);
    return records.toSorted(byAge);
  }

  /** If the window of the first record has passed by each clock that may claim, this record is enough. Otherwise the first few matter. */
  #recordsAt(places: readonly AgedNumber[], limit: number): readonly Stored[] {
    const [first] = places;
    const isOver = first !== undefined && first.until <= this.passed;
    return this.#recordsOf(isOver ? [first] : places.slice(0, limit));
  }

  #recordsOf(places: readonly AgedNumber[]): readonly Stored[] {
    return places.map(({ workerId }) => this.byId(workerId)).filter((record) => record !== undefined);
  }
}

function placeOf(row: SqliteRow): AgedNumber {
  return { workerId: Number(row["worker_id"]), until: Number(row["until_ms"]) };
}
