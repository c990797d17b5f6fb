import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

/* A live claim has no row of history: its record says everything. It gets one in the write that ends it. */

/** The row of the live claim of this record; undefined where that has ended. */
export function presentRow(record: Stored): HistoryRow | undefined {
  const { workerId, token, fence, from, until, knownFrom, began = knownFrom, holder, claimedAt } = record;
  if (token === undefined || holder === undefined || claimedAt === undefined) return undefined;
  const continuedFrom = began < from ? began : undefined;
  return { workerId, fence, from, until, continuedFrom, holder, claimedAt };
}

/** The row of a claim that ends; undefined where it has ended before. `until`: where its window then stands. */
export function endedRow(
  before: Stored | undefined,
  until: number,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): HistoryRow | undefined {
  const row = before && presentRow(before);
  return row && { ...row, until, endedAt, end };
}
