import { createHash } from "node:crypto";
import type { HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { SqlRow } from "./dialect.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The table that Java processes share. It has one row for each worker ID that is taken. A Java process takes over rows with its own
 * address, and looks for the row's pid on its own machine. So our rows contain a marker instead of an address.
 */

/** A row of that table, without worker ID and time. */
export interface AssignRow {
  readonly pid: number;
  readonly ip: string;
  readonly hostname: string;
}

const marker = "lease@";
/** The limits of its columns: the longest texts, in characters, and the largest number. */
const [longestIp, longestHost] = [15, 60];
export const largestInt = 0x7fff_ffff;

/** The row of a record's present or last holder. */
export function rowOf({ host, pid }: HolderLabel): AssignRow {
  const hash = createHash("sha256").update(host).digest("hex");
  // The table may be older than Snowlease, and have any character set. Some databases store an empty text as NULL.
  const hostname = Array.from(host, (char) => (/[\x20-\x7e]/.test(char) ? char : "?")).slice(0, longestHost);
  return {
    pid: Math.min(Math.max(0, Math.trunc(pid)), largestInt),
    ip: (marker + hash).slice(0, longestIp),
    hostname: hostname.join("").trim() || "?",
  };
}

/** Whether the holder of this record wrote the row. */
export function isOurs(row: AssignRow | undefined, { fence, holder }: Stored): boolean {
  if (row === undefined || fence === 0 || holder === undefined) return false;
  const own = rowOf(holder);
  return row.pid === own.pid && row.ip === own.ip && row.hostname === own.hostname;
}

/** Whether another program has taken the worker ID: Snowlease did not write the row. */
export function isForeign(row: AssignRow | undefined, record: Stored | undefined): row is AssignRow {
  return row !== undefined && (record === undefined || !isOurs(row, record));
}

/** The program that took the worker ID, for people. */
export function foreignHolder({ pid, ip, hostname }: AssignRow): HolderLabel {
  return { host: hostname, ip, pid, instance: "" };
}

/** The row from the columns of the table, or from those of a join (`prefix`). */
export function assignRow(row: SqlRow, prefix: "" | "assign_"): AssignRow | undefined {
  const [pid, ip, hostname] = [row[`${prefix}pid`], row[`${prefix}ip`], row[`${prefix}hostname`]];
  if (pid === null || pid === undefined) return undefined;
  return { pid: Number(pid), ip: String(ip), hostname: String(hostname) };
}

/** The row of a worker ID without a record. */
export async function readRow(tx: Transaction, workerId: number): Promise<AssignRow | undefined> {
  const row = await tx.get("assign.get", { worker_id: workerId });
  return row && assignRow(row, "");
}

/** Shows Java processes that the worker ID is taken. */
export async function take(
  tx: Transaction,
  { workerId, holder }: Stored,
  before: AssignRow | undefined,
): Promise<void> {
  if (holder === undefined) return;
  const row = { worker_id: workerId, ...rowOf(holder) };
  const old = before && { old_pid: before.pid, old_ip: before.ip, old_hostname: before.hostname };
  if (old === undefined) await tx.change("assign.add", row);
  else await tx.swap("assign.replace", { ...row, ...old });
}
