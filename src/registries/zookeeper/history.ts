import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { selectClaims } from "../compare-and-set/claim-row.ts";
import { endedRow, presentRow } from "../engine/history.ts";
import type { Exchange, Write } from "./session.ts";
import { type Nodes, numberOf } from "./nodes.ts";
import { jsonBytes, readRow } from "./records.ts";

/*
 * Each row is written once. Fences mostly rise by one, so rows are found by their names, page by page: a list of them could be longer than a server sends. They
 * are listed only behind an empty page, to find the next one: they were pruned, an operator deleted some, or the fence jumped.
 */

/** Rows that are read at once. */
const page = 100;

/** The write of the row of a claim that ends. None where it has ended before. `until`: where its window then stands. */
export function endOf(
  nodes: Nodes,
  before: Stored | undefined,
  until: number,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): Write[] {
  const row = endedRow(before, until, endedAt, end);
  return row === undefined ? [] : [{ op: "create", path: nodes.row(row.workerId, row.fence), data: jsonBytes(row) }];
}

/** The claims of the worker ID with this record, oldest first. */
export function listClaims(
  exchange: Exchange,
  nodes: Nodes,
  record: Stored,
  range: HistoryRange,
): Promise<HistoryRow[]> {
  const newest = record.fence - (presentRow(record) === undefined ? 0 : 1);
  return selectClaims(record, rowPages(exchange, nodes, record.workerId, newest), range);
}

/** Deletes the rows of claims whose window ended before a time, except the newest row. Returns how many rows it deleted. */
export async function pruneClaims(
  exchange: Exchange,
  nodes: Nodes,
  { workerId, fence }: Stored,
  before: number,
): Promise<number> {
  const old: HistoryRow[] = [];
  for await (const rows of rowPages(exchange, nodes, workerId, fence - 1)) {
    old.push(...rows.filter((row) => row.until < before));
  }
  // The oldest first: where this is interrupted, it leaves no gap.
  const paths = old.toReversed().map((row) => nodes.row(workerId, row.fence));
  for (let at = 0; at < paths.length; at += page) {
    const some = paths.slice(at, at + page);
    await exchange((session) => Promise.all(some.map((path) => session.remove(path))));
  }
  return paths.length;
}

/** The rows of a worker ID from this fence down, newest first; a page without rows is left out. */
async function* rowPages(
  exchange: Exchange,
  nodes: Nodes,
  workerId: number,
  newest: number,
): AsyncGenerator<readonly HistoryRow[], void, undefined> {
  for (let fence = newest; fence > 0;) {
    const paths = Array.from({ length: Math.min(page, fence) }, (_, i) => nodes.row(workerId, fence - i));
    const read = await exchange((session) => Promise.all(paths.map((path) => session.get(path))));
    const rows = read.flatMap((node, i) => (node === undefined ? [] : [readRow(node, paths[i] ?? "")]));
    fence -= page;
    if (rows.length > 0) yield rows;
    else if (fence > 0) fence = await highestRow(exchange, nodes.rows(workerId), fence);
  }
}

/** The highest fence of a row up to this one; 0 where there is none. */
export async function highestRow(exchange: Exchange, path: string, highest: number = Infinity): Promise<number> {
  const names = (await exchange((session) => session.list(path))) ?? [];
  const fences = names.map((name) => numberOf(name) ?? 0);
  return Math.max(0, ...fences.filter((fence) => fence <= highest));
}
