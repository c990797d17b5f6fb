import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { Sql } from "./database.ts";
import type { Row } from "./driver.ts";
import { holderOf, type HolderColumns } from "./records.ts";

interface ClaimColumns extends HolderColumns {
  readonly worker_id: number;
  readonly fence: number;
  readonly from_ms: number;
  readonly until_ms: number;
  readonly continued_from: number | null;
  readonly claimed_at: number;
  readonly ended_at: number | null;
  readonly ended_by: HistoryRow["end"] | null;
}

/** Adds the row of a claim that was just granted, and ends the one of the claim before. */
export function noteClaim(sql: Sql, namespaceId: number, claim: Stored, before: Stored | undefined): void {
  const { workerId, fence, from, until, recents, holder, claimedAt } = claim;
  if (holder === undefined || claimedAt === undefined) return;
  const { host, ip, pid, instance } = holder;
  const key = { namespace_id: namespaceId, worker_id: workerId };
  if (before !== undefined) {
    noteEnd(sql, namespaceId, before, claimedAt, "taken-over");
    sql.run("history.supersede", { ...key, fence: before.fence });
  }
  const window = { from_ms: from, until_ms: until, continued_from: recents?.from ?? null };
  sql.run("history.add", { ...key, fence, ...window, host, ip, pid, instance, claimed_at: claimedAt });
}

/** Notes how a claim ended and where its window then stood, unless that was noted before. */
export function noteEnd(
  sql: Sql,
  namespaceId: number,
  { workerId, fence, until }: Stored,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): void {
  const key = { namespace_id: namespaceId, worker_id: workerId, fence };
  sql.run("history.end", { ...key, until_ms: until, ended_at: endedAt, ended_by: end });
}

/** Rows that one read returns: SQLite blocks the event loop for so long, a few ms. */
const mostReturned = 250;

/** A page of the claims of a worker ID, newest first: those whose fence is lower than `before`. */
export interface ClaimsAsked extends Omit<HistoryRange, "limit"> {
  readonly before: number | undefined;
  readonly limit: number;
}

/** Some claims, newest first. `next`: the `before` to go on with; undefined at the end. */
export interface ClaimsRead {
  readonly rows: readonly HistoryRow[];
  readonly next: number | undefined;
}

/** One short read of a page. */
export function readClaims(
  sql: Sql,
  namespaceId: number,
  workerId: number,
  {
    from = Number.MIN_SAFE_INTEGER,
    until = Number.MAX_SAFE_INTEGER,
    before = Number.MAX_SAFE_INTEGER,
    limit,
  }: ClaimsAsked,
): ClaimsRead {
  const most = Math.min(limit, mostReturned);
  const range = { from_ms: from, until_ms: until, before };
  const rows = sql
    .all("history.list", { namespace_id: namespaceId, worker_id: workerId, ...range, limit: most })
    .map(historyRow);
  return { rows, next: rows.length === most ? rows.at(-1)?.fence : undefined };
}

function historyRow(columns: Row): HistoryRow {
  const row = columns as Row & ClaimColumns;
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
