import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

/* A live claim has no row of history, because its record contains everything. The write that ends the claim adds its row. */

/** The row of the live claim of this record. Undefined if that claim has ended. */
export function presentRow(record: Stored): HistoryRow | undefined {
  const { workerId, token, fence, from, until, knownFrom, began = knownFrom, holder, claimedAt } = record;
  if (token === undefined || holder === undefined || claimedAt === undefined) return undefined;
  const continuedFrom = began < from ? began : undefined;
  return { workerId, fence, from, until, continuedFrom, holder, claimedAt };
}

/** The row of a claim that ends. Undefined if it has already ended. `until`: the end of its window after that. */
export function endedRow(
  before: Stored | undefined,
  until: number,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): HistoryRow | undefined {
  const row = before && presentRow(before);
  return row && { ...row, until, endedAt, end };
}
