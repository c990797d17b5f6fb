import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { PoolView } from "../../rule/pool.ts";
import type { HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { Bands } from "./bands.ts";
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
  readonly #bands: Bands | undefined;
  readonly #ripe: number;

  /** Only a claim needs the bands, and `ripe`: a window that ended by then has passed for the claimer. */
  constructor(sql: Sql, namespaceId: number, bands?: Bands, ripe = 0) {
    this.#sql = sql;
    this.#namespaceId = namespaceId;
    this.#bands = bands;
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

  pinnedFor({ first, last }: PoolBounds, ip: string, limit: number): readonly Stored[] {
    const within = { namespace_id: this.#namespaceId, pool_first: first, pool_last: last };
    return this.#sql.all("claim.kept-for", { ...within, owner: ip, limit }).map(recordOf);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#names(pool)
      .map((band) => this.#one("claim.newest-of-host", { ...within(pool), band, host }))
      .reduce((a, b) => (b !== undefined && b.until > (a?.until ?? -1) ? b : a), undefined);
  }

  /** Stores a record. The first claim of a number files it in its band, and there it stays. */
  put(record: Stored): void {
    this.#sql.run("record.put", {
      namespace_id: this.#namespaceId,
      band: this.#bands?.nameAt(record.workerId) ?? null,
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

  /** One whose window has passed is enough; of those that rest or are held, the first few tell more. */
  #oldestOf(
    statement: string,
    pool: PoolBounds,
    { limit, ...host }: { readonly limit: number; readonly host?: string },
  ): readonly Stored[] {
    const find = (limit: number): readonly Stored[] =>
      this.#names(pool)
        .flatMap((band) =>
          this.#sql.all(statement, { namespace_id: this.#namespaceId, ...within(pool), band, ...host, limit }),
        )
        .map(recordOf)
        .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId)
        .slice(0, limit);
    const [first] = find(1);
    return first !== undefined && first.until <= this.#ripe ? [first] : find(limit);
  }

  #names(pool: PoolBounds): readonly string[] {
    return this.#bands?.namesIn(pool) ?? [];
  }
}

function within({ first, last }: PoolBounds): Row {
  return { pool_first: first, pool_last: last };
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
    knownFrom: row.floor_ms,
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
    floor_ms: record.knownFrom,
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
