import type { WorkerRecord, WorkerState } from "../../rule/registry.ts";
import { shownRecord } from "../../rule/window.ts";
import type { Sql } from "./database.ts";
import { recordOf } from "./records.ts";

/** Records that one read returns, and records that it looks at for those of one state: SQLite blocks the event loop for so long, a few ms. */
const mostReturned = 250;
const mostLookedAt = 10_000;

/** A page to read. */
export interface WorkersAsked {
  readonly state: WorkerState | undefined;
  readonly after: number;
  readonly limit: number;
}

/** Some records, in ascending order. `next`: where to go on; undefined at the end. */
export interface WorkersRead {
  readonly records: readonly WorkerRecord[];
  readonly next: number | undefined;
}

/** One short read of a page. */
export function readWorkers(
  sql: Sql,
  namespaceId: number,
  { state, after, limit }: WorkersAsked,
  now: number,
): WorkersRead {
  const most = Math.min(limit, mostReturned);
  const page = { namespace_id: namespaceId, after };
  const last =
    state === undefined ? undefined : sql.get("workers.last-of", { ...page, rows: mostLookedAt })?.["worker_id"];
  const within = state === undefined ? {} : { now, last: last ?? Number.MAX_SAFE_INTEGER };
  const rows = sql.all(`workers.${state ?? "all"}`, { ...page, ...within, limit: most });
  const records = rows.map((row) => shownRecord(recordOf(row), now));
  const next = rows.length === most ? records.at(-1)?.workerId : last;
  return { records, next: next === undefined ? undefined : Number(next) };
}
