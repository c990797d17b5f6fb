import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { historyRowOf } from "./records.ts";
import type { Transaction } from "./transaction.ts";
import { together } from "../together.ts";

/** Adds the row of a new claim, and ends the row of the claim before it. */
export async function noteClaim(tx: Transaction, claim: Stored, before: Stored | undefined): Promise<void> {
  const { workerId, fence, from, until, recents, holder, claimedAt } = claim;
  if (holder === undefined || claimedAt === undefined) return;
  const isFirst = before === undefined || before.fence === 0;
  await together([
    isFirst || noteEnd(tx, before, claimedAt, "taken-over"),
    isFirst || tx.change("history.supersede", { worker_id: workerId, fence: before.fence }),
    tx.change("history.add", {
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

/** Notes how a claim ended and where its window then stood; changes nothing where that was noted before. */
export async function noteEnd(
  tx: Transaction,
  { workerId, fence, until }: Stored,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): Promise<void> {
  const key = { worker_id: workerId, fence };
  await tx.change("history.end", { ...key, until_ms: until, ended_at: endedAt, ended_by: end });
}

/** The claims of a worker ID, oldest first. */
export async function listClaims(
  tx: Transaction,
  workerId: number,
  range: HistoryRange,
): Promise<readonly HistoryRow[]> {
  const { from = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER, limit = 1000 } = range;
  const rows = await tx.all("history.list", {
    worker_id: workerId,
    from_ms: from,
    until_ms: until,
    limit: Math.min(limit, 10_000),
  });
  return rows.map(historyRowOf).toReversed();
}
