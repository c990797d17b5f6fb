import type { PoolBounds } from "../../core/layout.ts";
import type { PoolView } from "../../core/pool.ts";
import type { HolderLabel } from "../../core/registry.ts";
import type { Stored } from "../../core/window.ts";
import type { Sql } from "./database.ts";
import type { Row } from "./driver.ts";

/** The columns of a holder's label. */
export interface HolderColumns {
  readonly host: string | null;
  readonly ip: string | null;
  readonly pid: number | null;
  readonly instance: string | null;
}

/** The columns of a record. */
interface RecordColumns extends HolderColumns {
  readonly worker_id: number;
  readonly fence: number;
  readonly token: string | null;
  readonly from_ms: number;
  readonly until_ms: number;
  readonly seen_clock: number;
  readonly clean: number;
  readonly floor_ms: number;
  readonly checkpoint_timestamp: number | null;
  readonly checkpoint_sequence: number | null;
  readonly claimed_at: number | null;
  readonly released_at: number | null;
  readonly pinned: string | null;
  readonly owner: string | null;
  readonly recents_from: number | null;
  readonly recents: Uint8Array | null;
}

/** The records of one namespace inside one transaction. */
export class Records implements PoolView {
  readonly #sql: Sql;
  readonly #namespaceId: number;
  readonly #ripe: number;
  #bands: readonly PoolBounds[] | undefined;

  /** `ripe`: a window that ended by then has passed for whoever claims. Only a claim needs it. */
  constructor(sql: Sql, namespaceId: number, ripe = 0) {
    this.#sql = sql;
    this.#namespaceId = namespaceId;
    this.#ripe = ripe;
  }

  byToken(token: string): Stored | undefined {
    return this.#one("claim.by-token", { token });
  }

  byId(workerId: number): Stored | undefined {
    return this.#one("record.get", { worker_id: workerId });
  }

  firstUnused({ first, last }: PoolBounds): number | undefined {
    const gap = this.#gapOf(first);
    return gap === undefined || gap.first > last ? undefined : Math.max(gap.first, first);
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return this.#oldestOf("claim.oldest", pool, { limit });
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#oldestOf("claim.oldest-of-host", pool, { host, limit });
  }

  keptFor({ first, last }: PoolBounds, ip: string, limit: number): readonly Stored[] {
    const within = { namespace_id: this.#namespaceId, pool_first: first, pool_last: last };
    return this.#sql.all("claim.kept-for", { ...within, owner: ip, limit }).map(recordOf);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return [pool, ...this.#otherBands(pool)]
      .map((band) => this.#one("claim.newest-of-host", { ...within(band, pool), host }))
      .reduce((a, b) => (b !== undefined && b.until > (a?.until ?? -1) ? b : a), undefined);
  }

  /** Stores a record; `band`: the pool that it was just claimed from. */
  put(record: Stored, band?: PoolBounds): void {
    this.#sql.run("record.put", {
      namespace_id: this.#namespaceId,
      band: band === undefined ? null : bandOf(band),
      ...columnsOf(record),
    });
  }

  /** Takes a number out of the gap that it lies in, before its first record is stored. */
  fillGap(workerId: number): void {
    const gap = this.#gapOf(workerId);
    if (gap === undefined || gap.first > workerId) return;
    if (gap.last > workerId) this.#putGap(workerId + 1, gap.last);
    else this.#sql.run("record.delete-gap", { namespace_id: this.#namespaceId, last: gap.last });
    if (gap.first < workerId) this.#putGap(gap.first, workerId - 1);
  }

  /** Takes a record away that was never claimed, so that its number is unused again. */
  forget(workerId: number): void {
    this.#sql.run("record.delete", { namespace_id: this.#namespaceId, worker_id: workerId });
    this.#putGap(workerId, workerId);
  }

  #one(statement: string, parameters: Row): Stored | undefined {
    const row = this.#sql.get(statement, { namespace_id: this.#namespaceId, ...parameters });
    return row && recordOf(row);
  }

  #gapOf(workerId: number): PoolBounds | undefined {
    const row = this.#sql.get("record.gap-of", { namespace_id: this.#namespaceId, worker_id: workerId });
    return row && { first: Number(row["first"]), last: Number(row["last"]) };
  }

  #putGap(first: number, last: number): void {
    this.#sql.run("record.put-gap", { namespace_id: this.#namespaceId, first, last });
  }

  /**
   * The band of the pool itself comes first: as long as it has a window that has passed, nothing else is looked at. The others
   * matter after a pool was widened, narrowed or moved: then numbers of this pool are still filed under the one before.
   */
  #oldestOf(
    statement: string,
    pool: PoolBounds,
    { limit, ...host }: { readonly limit: number; readonly host?: string },
  ): readonly Stored[] {
    const find = (band: PoolBounds, limit: number): readonly Stored[] =>
      this.#sql
        .all(statement, { namespace_id: this.#namespaceId, ...within(band, pool), ...host, limit })
        .map(recordOf);
    const [first] = find(pool, 1);
    if (first !== undefined && first.until <= this.#ripe) return [first];
    return [pool, ...this.#otherBands(pool)]
      .flatMap((band) => find(band, limit))
      .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId)
      .slice(0, limit);
  }

  #otherBands(pool: PoolBounds): readonly PoolBounds[] {
    this.#bands ??= this.#listBands();
    const own = bandOf(pool);
    return this.#bands.filter((b) => b.first <= pool.last && b.last >= pool.first && bandOf(b) !== own);
  }

  #listBands(): readonly PoolBounds[] {
    const bands: PoolBounds[] = [];
    for (let band = ""; ;) {
      const next = this.#sql.get("claim.next-band", { namespace_id: this.#namespaceId, band });
      if (next === undefined) return bands;
      band = String(next["band"]);
      const [first = 0, last = 0] = band.split("-").map(Number);
      bands.push({ first, last });
    }
  }
}

function bandOf({ first, last }: PoolBounds): string {
  return `${first}-${last}`;
}

function within(band: PoolBounds, { first, last }: PoolBounds): Row {
  return { band: bandOf(band), pool_first: first, pool_last: last };
}

/** A row of the table `worker` as the record that it holds. */
export function recordOf(columns: Row): Stored {
  const row = columns as Row & RecordColumns;
  const { checkpoint_timestamp, checkpoint_sequence, recents_from, recents } = row;
  return {
    workerId: row.worker_id,
    fence: row.fence,
    token: row.token ?? undefined,
    from: row.from_ms,
    until: row.until_ms,
    seenClock: row.seen_clock,
    clean: row.clean === 1,
    floor: row.floor_ms,
    checkpoint:
      checkpoint_timestamp === null
        ? undefined
        : { timestamp: checkpoint_timestamp, sequence: checkpoint_sequence ?? 0 },
    holder: row.host === null ? undefined : holderOf(row),
    claimedAt: row.claimed_at ?? undefined,
    releasedAt: row.released_at ?? undefined,
    pinned: row.pinned ?? undefined,
    owner: row.owner ?? undefined,
    recents: recents_from === null ? undefined : { from: recents_from, bytes: recents ?? new Uint8Array() },
  };
}

function columnsOf(record: Stored): Row & RecordColumns {
  const { checkpoint, holder, recents } = record;
  return {
    worker_id: record.workerId,
    fence: record.fence,
    token: record.token ?? null,
    from_ms: record.from,
    until_ms: record.until,
    seen_clock: record.seenClock,
    clean: record.clean ? 1 : 0,
    floor_ms: record.floor,
    checkpoint_timestamp: checkpoint?.timestamp ?? null,
    checkpoint_sequence: checkpoint?.sequence ?? null,
    host: holder?.host ?? null,
    ip: holder?.ip ?? null,
    pid: holder?.pid ?? null,
    instance: holder?.instance ?? null,
    claimed_at: record.claimedAt ?? null,
    released_at: record.releasedAt ?? null,
    pinned: record.pinned ?? null,
    owner: record.owner ?? null,
    recents_from: recents?.from ?? null,
    recents: recents?.bytes ?? null,
  };
}

/** A holder's label, from its columns. */
export function holderOf({ host, ip, pid, instance }: HolderColumns): HolderLabel {
  return { host: host ?? "", ip: ip ?? "", pid: pid ?? 0, instance: instance ?? "" };
}
