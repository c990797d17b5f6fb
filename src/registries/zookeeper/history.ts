import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { Write } from "./session.ts";
import { type Nodes, numberOf } from "./nodes.ts";
import { readRow, rowBytes } from "./records.ts";

/*
 * A live claim has no row: its record says everything. It gets one in the transaction that ends it, so that each row is written once.
 * Fences mostly rise by one, so rows are found by their names, page by page: a list of them could be longer than a server sends. They
 * are listed only behind an empty page, to find the next one: they were pruned, an operator deleted some, or the fence jumped.
 */

/** Rows that are read at once. */
const page = 100;

/** The row of the live claim of this record. */
function presentRow({ workerId, fence, from, until, knownFrom, holder, claimedAt }: Stored): HistoryRow | undefined {
  if (holder === undefined || claimedAt === undefined) return undefined;
  return {
    workerId,
    fence,
    from,
    until,
    continuedFrom: knownFrom < from ? knownFrom : undefined,
    holder,
    claimedAt,
  };
}

/** The write of the row of a claim that ends. None where it has ended before. `until`: where its window then stands. */
export function endOf(
  nodes: Nodes,
  before: Stored | undefined,
  until: number,
  endedAt: number,
  end: NonNullable<HistoryRow["end"]>,
): Write[] {
  const row = before?.token === undefined ? undefined : presentRow(before);
  if (row === undefined) return [];
  const path = nodes.row(row.workerId, row.fence);
  return [{ op: "create", path, data: rowBytes({ ...row, until, endedAt, end }) }];
}

/** The claims of the worker ID with this record, oldest first. */
export async function listClaims(
  connection: ZooKeeperConnection,
  deadline: number,
  nodes: Nodes,
  record: Stored,
  { from = -Infinity, until = Infinity, limit = 1000 }: HistoryRange,
): Promise<HistoryRow[]> {
  const most = Math.min(limit, 10_000);
  const found: HistoryRow[] = [];
  const take = (row: HistoryRow): void => {
    if (found.length < most && row.until > from && (row.continuedFrom ?? row.from) < until) found.push(row);
  };
  const present = record.token === undefined ? undefined : presentRow(record);
  if (present !== undefined) take(present);
  const newest = record.fence - (present === undefined ? 0 : 1);
  for await (const rows of rowPages(connection, deadline, nodes, record.workerId, newest)) {
    for (const row of rows) take(row);
    // Windows follow one another: older ones ended earlier.
    if (found.length >= most || (rows.at(-1)?.until ?? 0) <= from) break;
  }
  return found.toReversed();
}

/** Deletes the rows of claims whose window ended before a time, except the newest row. Returns how many rows it deleted. */
export async function pruneClaims(
  connection: ZooKeeperConnection,
  deadline: number,
  nodes: Nodes,
  { workerId, fence }: Stored,
  before: number,
): Promise<number> {
  const old: HistoryRow[] = [];
  for await (const rows of rowPages(connection, deadline, nodes, workerId, fence - 1)) {
    old.push(...rows.filter((row) => row.until < before));
  }
  // The oldest first: where this is interrupted, it leaves no gap.
  const paths = old.toReversed().map((row) => nodes.row(workerId, row.fence));
  let pruned = 0;
  while (pruned < paths.length) {
    const some = paths.slice(pruned, pruned + page);
    await connection.exchange(deadline, (session) => Promise.all(some.map((path) => session.remove(path))));
    pruned += some.length;
  }
  return pruned;
}

/** The rows of a worker ID from this fence down, newest first; a page without rows is left out. */
async function* rowPages(
  connection: ZooKeeperConnection,
  deadline: number,
  nodes: Nodes,
  workerId: number,
  newest: number,
): AsyncGenerator<readonly HistoryRow[], void, undefined> {
  for (let fence = newest; fence > 0;) {
    const paths = Array.from({ length: Math.min(page, fence) }, (_, i) => nodes.row(workerId, fence - i));
    const read = await connection.exchange(deadline, (session) => Promise.all(paths.map((path) => session.get(path))));
    const rows = read.flatMap((node, i) => (node === undefined ? [] : [readRow(node, paths[i] ?? "")]));
    fence -= page;
    if (rows.length > 0) yield rows;
    else if (fence > 0) fence = await highestRow(connection, deadline, nodes.rows(workerId), fence);
  }
}

/** The highest fence of a row up to this one; 0 where there is none. */
async function highestRow(
  connection: ZooKeeperConnection,
  deadline: number,
  path: string,
  highest: number,
): Promise<number> {
  const names = (await connection.exchange(deadline, (session) => session.list(path))) ?? [];
  return names.reduce((found, name) => {
    const fence = numberOf(name) ?? 0;
    return fence > highest ? found : Math.max(found, fence);
  }, 0);
}
