import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { historyRowOf } from "./records.ts";
import { together, type Unit } from "./transaction.ts";

/** Adds the row of a claim that was just granted, and ends the one of the claim before. */
export async function noteClaim(unit: Unit, claim: Stored, before: Stored | undefined): Promise<void> {
  const { workerId, fence, from, until, recents, holder, claimedAt } = claim;
  if (holder === undefined || claimedAt === undefined) return;
  const isFirst = before === undefined || before.fence === 0;
  await together([
    isFirst || noteEnd(unit, before, claimedAt, "taken-over"),
    isFirst || unit.change("history.supersede", { worker_id: workerId, fence: before.fence }),
    unit.change("history.add", {
      worker_id: workerId,
      fence,
      from_ms: from,
      until_ms: until,
      continued_from: recents?.from,
      ...holder,
      claimed_at: claimedAt,
    }),
  ]);
}

/** Notes how a claim ended and where its window then stood, unless that was noted before. */
export async function noteEnd(
  unit: Unit,
  { workerId, fence, until }: Stored,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): Promise<void> {
  const key = { worker_id: workerId, fence };
  await unit.change("history.end", { ...key, until_ms: until, ended_at: endedAt, ended_by: end });
}

/** The claims of a worker ID, oldest first. */
export async function listClaims(unit: Unit, workerId: number, range: HistoryRange): Promise<readonly HistoryRow[]> {
  const { from = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER, limit = 1000 } = range;
  const rows = await unit.all("history.list", {
    worker_id: workerId,
    from_ms: from,
    until_ms: until,
    limit: Math.min(limit, 10_000),
  });
  return rows.map(historyRowOf).toReversed();
}
