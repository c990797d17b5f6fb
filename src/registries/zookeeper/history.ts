import type { HistoryRange, HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { Write } from "./session.ts";
import type { Nodes } from "./nodes.ts";
import { readRow, rowBytes } from "./records.ts";

/*
 * A claim that goes on has no row: its record says all of it. It gets one in the step that ends it, so that no row is ever written
 * twice. Fences rise by one, so rows are found by their names, a page at a time, down to a page that is empty; a list of them could
 * be longer than a server sends.
 */

/** Rows that are read at once. */
const page = 100;

/** The row of the claim whose record this is, while it goes on. */
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

/** The write of the row of a claim that ends with `until`; none where it has ended before. */
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
  for (let fence = record.fence - (present === undefined ? 0 : 1); fence > 0 && found.length < most; fence -= page) {
    const rows = await readRows(connection, deadline, nodes, record.workerId, fence);
    for (const row of rows) take(row);
    // Windows follow one another: what is older ended before.
    if ((rows.at(-1)?.until ?? 0) <= from) break;
  }
  return found.toReversed();
}

/** Deletes the rows of claims whose window ended before a time, but for the newest of all. Returns how many went. */
export async function pruneClaims(
  connection: ZooKeeperConnection,
  deadline: number,
  nodes: Nodes,
  { workerId, fence }: Stored,
  before: number,
): Promise<number> {
  const old: HistoryRow[] = [];
  for (let newest = fence - 1; newest > 0; newest -= page) {
    const rows = await readRows(connection, deadline, nodes, workerId, newest);
    if (rows.length === 0) break;
    old.push(...rows.filter((row) => row.until < before));
  }
  // The oldest first: a gap of a page would hide what is behind it.
  const paths = old.toReversed().map((row) => nodes.row(workerId, row.fence));
  let pruned = 0;
  while (pruned < paths.length) {
    const some = paths.slice(pruned, pruned + page);
    await connection.exchange(deadline, (session) => Promise.all(some.map((path) => session.remove(path))));
    pruned += some.length;
  }
  return pruned;
}

/** A page of rows, from this fence down. One is missing where somebody deleted its claim's record by hand. */
async function readRows(
  connection: ZooKeeperConnection,
  deadline: number,
  nodes: Nodes,
  workerId: number,
  newest: number,
): Promise<HistoryRow[]> {
  const paths = Array.from({ length: Math.min(page, newest) }, (_, i) => nodes.row(workerId, newest - i));
  const read = await connection.exchange(deadline, (session) => Promise.all(paths.map((path) => session.get(path))));
  return read.flatMap((node, i) => (node === undefined ? [] : [readRow(node, paths[i] ?? "")]));
}
