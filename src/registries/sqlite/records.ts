import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { PoolView } from "../../rule/pool.ts";
import type { ClaimRequest, HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { SqliteBands } from "./bands.ts";
import type { SqliteRow } from "./driver.ts";
import type { SqliteStatements } from "./statements.ts";

/** The records of one namespace during one transaction. */
export class SqliteRecords implements PoolView {
  readonly #sql: SqliteStatements;
  readonly #now: number;
  #bands: SqliteBands | undefined;
  #ripe = 0;
  #isFiled = true;

  /** `sql`: the statements of the namespace. */
  constructor(sql: SqliteStatements, now: number) {
    this.#sql = sql;
    this.#now = now;
  }

  /** False: some records of the claim's pool are not in the indexes yet in which the claim looks for them. */
  get isFiled(): boolean {
    return this.#isFiled;
  }

  /** Prepares the bands that a claim looks into, and files some records of its pool there. */
  prepare({ pool, workerId, clock }: ClaimRequest): void {
    this.#bands = new SqliteBands(this.#sql);
    // A window that ended by then has passed for the claimer and the registry.
    this.#ripe = Math.min(clock, this.#now);
    // A claim of one worker ID looks at no other.
    if (workerId === undefined) this.#isFiled = this.#bands.prepare(pool);
    else this.#bands.include(workerId, pool);
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
    return this.#oldestOf("claim.oldest", pool, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#oldestOf("claim.oldest-of-host", pool, limit, { host });
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return this.#sql.all("claim.pinned-for", { ...limitsOf(pool), owner: ip, limit }).map(recordOfRow);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#namesIn(pool)
      .map((band) => this.#one("claim.newest-of-host", { ...limitsOf(pool), band, host }))
      .reduce((a, b) => (b !== undefined && b.until > (a?.until ?? -1) ? b : a), undefined);
  }

  /** Stores a record. The first claim of a worker ID files it in its band, and there it stays. */
  put(record: Stored, before: Stored | undefined): void {
    const { workerId } = record;
    if (before === undefined) this.#fillGap(workerId);
    // Most writes are renewals.
    if (before !== undefined && isSameClaim(record, before)) {
      this.#sql.run("record.put-window", { worker_id: workerId, ...columnsOfWindow(record) });
      return;
    }
    const band = this.#bands?.nameAt(workerId) ?? null;
    this.#sql.run("record.put", { worker_id: workerId, band, ...columnsOfClaim(record), ...columnsOfWindow(record) });
  }

  forget(workerId: number): void {
    this.#sql.run("record.delete", { worker_id: workerId });
    this.#sql.run("record.put-gap", { first: workerId, last: workerId });
  }

  /** Takes a worker ID out of the gap that it is in. */
  #fillGap(workerId: number): void {
    const gap = this.#gapOf(workerId);
    if (gap === undefined || gap.first > workerId) return;
    if (gap.last > workerId) this.#sql.run("record.put-gap", { first: workerId + 1, last: gap.last });
    else this.#sql.run("record.delete-gap", { last: gap.last });
    if (gap.first < workerId) this.#sql.run("record.put-gap", { first: gap.first, last: workerId - 1 });
  }

  #one(statement: string, parameters: SqliteRow): Stored | undefined {
    const row = this.#sql.get(statement, parameters);
    return row && recordOfRow(row);
  }

  #gapOf(workerId: number): PoolBounds | undefined {
    return this.#sql.get("record.gap-of", { worker_id: workerId }) as (SqliteRow & PoolBounds) | undefined;
  }

  /** One record is enough where its window has passed; of those that rest or are held, the first few matter. */
  #oldestOf(statement: string, pool: PoolBounds, limit: number, host: SqliteRow = {}): readonly Stored[] {
    const find = (limit: number): readonly Stored[] =>
      this.#namesIn(pool)
        .flatMap((band) => this.#sql.all(statement, { ...limitsOf(pool), band, ...host, limit }))
        .map(recordOfRow)
        .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId)
        .slice(0, limit);
    const [first] = find(1);
    return first !== undefined && first.until <= this.#ripe ? [first] : find(limit);
  }

  #namesIn(pool: PoolBounds): readonly string[] {
    return this.#bands?.namesIn(pool) ?? [];
  }
}

function limitsOf({ first, last }: PoolBounds): SqliteRow {
  return { pool_first: first, pool_last: last };
}

type RecordColumns = { readonly worker_id: number } & ReturnType<typeof columnsOfClaim> &
  ReturnType<typeof columnsOfWindow>;

/** A row of the table `worker` as a record. */
export function recordOfRow(columns: SqliteRow): Stored {
  const row = columns as RecordColumns;
  const { checkpoint_timestamp: timestamp, checkpoint_sequence: sequence, recents_from: from, recents } = row;
  return {
    workerId: row.worker_id,
    fence: row.fence,
    token: row.token ?? undefined,
    from: row.from_ms,
    until: row.until_ms,
    seenClock: row.seen_clock,
    clean: row.clean === 1,
    knownFrom: row.known_from_ms,
    checkpoint: timestamp === null ? undefined : { timestamp, sequence: sequence ?? 0 },
    holder: row.host === null ? undefined : holderOf(row),
    claimedAt: row.claimed_at ?? undefined,
    releasedAt: row.released_at ?? undefined,
    pinned: row.pinned ?? undefined,
    owner: row.owner ?? undefined,
    era: row.era ?? undefined,
    renewals: row.renewals,
    turn: row.turn ?? undefined,
    recents: from === null ? undefined : { from, bytes: recents ?? new Uint8Array() },
  };
}

/** Whether `columnsOfClaim` gives the same for both. A renewal keeps the holder's object. */
function isSameClaim(a: Stored, b: Stored): boolean {
  const isOne = a.fence === b.fence && a.token === b.token && a.holder === b.holder && a.claimedAt === b.claimedAt;
  return isOne && a.releasedAt === b.releasedAt && a.pinned === b.pinned && a.owner === b.owner;
}

/** Of a record's columns, those that stay while a claim goes on. With `columnsOfWindow`, the inverse of `recordOfRow`. */
function columnsOfClaim(record: Stored) {
  return {
    fence: record.fence,
    token: record.token ?? null,
    ...holderColumns(record.holder),
    claimed_at: record.claimedAt ?? null,
    released_at: record.releasedAt ?? null,
    pinned: record.pinned ?? null,
    owner: record.owner ?? null,
  };
}

/** The other columns of a record. */
function columnsOfWindow(record: Stored) {
  const { checkpoint, recents } = record;
  return {
    from_ms: record.from,
    until_ms: record.until,
    seen_clock: record.seenClock,
    clean: record.clean ? 1 : 0,
    known_from_ms: record.knownFrom,
    checkpoint_timestamp: checkpoint?.timestamp ?? null,
    checkpoint_sequence: checkpoint?.sequence ?? null,
    era: record.era ?? null,
    renewals: record.renewals ?? 0,
    turn: record.turn ?? null,
    recents_from: recents?.from ?? null,
    recents: recents?.bytes ?? null,
  };
}

/** The columns of a holder's label; all of them are null where there is none. */
export type HolderColumns = { readonly [Name in keyof HolderLabel]: HolderLabel[Name] | null };

export function holderOf({ host, ip, pid, instance }: HolderColumns): HolderLabel {
  return { host: host ?? "", ip: ip ?? "", pid: pid ?? 0, instance: instance ?? "" };
}

export function holderColumns(holder: HolderLabel | undefined): HolderColumns {
  const { host = null, ip = null, pid = null, instance = null } = holder ?? {};
  return { host, ip, pid, instance };
}
