import { presentRow } from "../engine/history.ts";
import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";

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
