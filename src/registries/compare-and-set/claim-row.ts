import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

/* A live claim has no row of history: its record says everything. It gets one in the write that ends it. */

/** The row of the live claim of this record; undefined where that has ended. */
export function presentRow(record: Stored): HistoryRow | undefined {
  const { workerId, token, fence, from, until, knownFrom, holder, claimedAt } = record;
  if (token === undefined || holder === undefined || claimedAt === undefined) return undefined;
  const continuedFrom = knownFrom < from ? knownFrom : undefined;
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

/** The claims of a worker ID with this record, oldest first. `pages`: the rows of those that have ended, the newest first. */
export async function selectClaims(
  record: Stored,
  pages: AsyncIterable<readonly HistoryRow[]>,
  { from = -Infinity, until = Infinity, limit = 1000 }: HistoryRange,
): Promise<HistoryRow[]> {
  const most = Math.min(limit, 10_000);
  const fits = (row: HistoryRow): boolean => row.until > from && (row.continuedFrom ?? row.from) < until;
  const present = presentRow(record);
  const found = (present === undefined ? [] : [present]).filter(fits);
  for await (const rows of pages) {
    found.push(...rows.filter(fits));
    // Windows follow one another: older ones ended earlier.
    if (found.length >= most || (rows.at(-1)?.until ?? 0) <= from) break;
  }
  return found.slice(0, most).toReversed();
}
