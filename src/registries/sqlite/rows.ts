import type { Era } from "../../rule/era.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { HistoryRow, HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { SqliteRow } from "./driver.ts";

/* The rows of the tables as the rule sees them, and back. */

/** A row of the statement `namespace.find`. */
export function namespaceOf(row: SqliteRow): Omit<NewNamespace, "receiptKey"> {
  const [maxWindow, maxClockSkew] = [Number(row["max_window"]), Number(row["max_clock_skew"])];
  const info = { id: String(row["id"]), layout: String(row["layout"]), maxWindow, maxClockSkew };
  return { info, era: eraOf(row) };
}

/** The inverse of `eraColumns`. */
export function eraOf(row: SqliteRow): Era {
  const [quarantineEnd, opensAt] = [Number(row["quarantine_end"]), Number(row["opens_at"])];
  return { era: String(row["era"]), quarantineEnd, opensAt };
}

/** An era as columns. */
export function eraColumns({
  era,
  quarantineEnd,
  opensAt,
}: Era): Readonly<Record<"era" | "quarantine_end" | "opens_at", string | number>> {
  return { era, quarantine_end: quarantineEnd, opens_at: opensAt };
}

/** The columns of a record that stay while a claim goes on. */
interface ClaimColumns extends HolderColumns, SqliteRow {
  readonly fence: number;
  readonly token: string | null;
  readonly claimed_at: number | null;
  readonly released_at: number | null;
  readonly pinned: string | null;
  readonly owner: string | null;
}

/** The other columns of a record. */
interface WindowColumns extends SqliteRow {
  readonly from_ms: number;
  readonly until_ms: number;
  readonly seen_clock: number;
  readonly clean: number;
  readonly known_from_ms: number;
  readonly began_ms: number | null;
  readonly checkpoint_timestamp: number | null;
  readonly checkpoint_sequence: number | null;
  readonly era: string | null;
  readonly renewals: number;
  readonly turn: string | null;
  readonly recents_from: number | null;
  readonly recents: Uint8Array | null;
}

type RecordColumns = { readonly worker_id: number } & ClaimColumns & WindowColumns;

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
    began: row.began_ms ?? undefined,
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

/** Whether `columnsOfClaim` returns the same for both. A renewal keeps the holder's object. */
export function isSameClaim(a: Stored, b: Stored): boolean {
  const isOne = a.fence === b.fence && a.token === b.token && a.holder === b.holder && a.claimedAt === b.claimedAt;
  return isOne && a.releasedAt === b.releasedAt && a.pinned === b.pinned && a.owner === b.owner;
}

/** With `columnsOfWindow`, the inverse of `recordOfRow`. */
export function columnsOfClaim(record: Stored): ClaimColumns {
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

export function columnsOfWindow(record: Stored): WindowColumns {
  const { checkpoint, recents } = record;
  return {
    from_ms: record.from,
    until_ms: record.until,
    seen_clock: record.seenClock,
    clean: record.clean ? 1 : 0,
    known_from_ms: record.knownFrom,
    began_ms: record.began ?? null,
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
type HolderColumns = { readonly [Name in keyof HolderLabel]: HolderLabel[Name] | null };

function holderOf({ host, ip, pid, instance }: HolderColumns): HolderLabel {
  return { host: host ?? "", ip: ip ?? "", pid: pid ?? 0, instance: instance ?? "" };
}

function holderColumns(holder: HolderLabel | undefined): HolderColumns {
  const { host = null, ip = null, pid = null, instance = null } = holder ?? {};
  return { host, ip, pid, instance };
}

/** The columns of a claim that has ended. */
interface EndedColumns extends HolderColumns, SqliteRow {
  readonly worker_id: number;
  readonly fence: number;
  readonly from_ms: number;
  readonly until_ms: number;
  readonly continued_from: number | null;
  readonly claimed_at: number;
  readonly ended_at: number | null;
  readonly ended_by: NonNullable<HistoryRow["end"]> | null;
}

export function endedColumns(row: HistoryRow): EndedColumns {
  const { workerId, fence, from, until, continuedFrom, holder, claimedAt, endedAt, end } = row;
  const window = { from_ms: from, until_ms: until, continued_from: continuedFrom ?? null };
  const ending = { ended_at: endedAt ?? null, ended_by: end ?? null };
  return { worker_id: workerId, fence, ...window, ...holderColumns(holder), claimed_at: claimedAt, ...ending };
}

/** The inverse of `endedColumns`. */
export function endedOf(columns: SqliteRow): HistoryRow {
  const row = columns as EndedColumns;
  return {
    workerId: row.worker_id,
    fence: row.fence,
    from: row.from_ms,
    until: row.until_ms,
    continuedFrom: row.continued_from ?? undefined,
    holder: holderOf(row),
    claimedAt: row.claimed_at,
    endedAt: row.ended_at ?? undefined,
    end: row.ended_by ?? undefined,
  };
}
