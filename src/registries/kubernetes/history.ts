import { readRows, withRows } from "./records.ts";
import type { StoredObjects } from "./stored-objects.ts";

/**
 * Deletes the ended claims of a worker ID whose window ended before a time, Unix ms. The last claim stays. Returns how many claims it
 * deleted.
 */
export async function pruneRows(objects: StoredObjects, workerId: number, before: number): Promise<number> {
  const record = await objects.byId(workerId);
  const row = record && objects.rows.get(record);
  if (row === undefined) return 0;
  const rows = readRows(row);
  const kept = rows.filter(({ fence, until }) => fence === row.record.fence || until >= before);
  if (kept.length < rows.length) await objects.leases.replace(row.object, withRows(row, kept));
  return rows.length - kept.length;
}
