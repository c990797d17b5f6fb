import type { HistoryRange, HistoryRow } from "../../core/registry.ts";
import type { Stored } from "../../core/window.ts";
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

/** The claims of a worker ID, oldest first. */
export function listClaims(
  sql: Sql,
  namespaceId: number,
  workerId: number,
  range: HistoryRange,
): readonly HistoryRow[] {
  const { from = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER, limit = 1000 } = range;
  const key = { namespace_id: namespaceId, worker_id: workerId };
  return sql
    .all("history.list", { ...key, from_ms: from, until_ms: until, limit: Math.min(limit, 10_000) })
    .map(historyRow)
    .toReversed();
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
