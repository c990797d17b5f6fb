import { createHash } from "node:crypto";
import type { HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { SqlRow } from "./dialect.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The table that Java processes share: a row a number that is taken. They take over rows that bear their own address, and judge a
 * pid by looking at their own machine; so ours bear a marker that is nobody's address.
 */

/** A row, less its number and its time. */
export interface AssignRow {
  readonly pid: number;
  readonly ip: string;
  readonly hostname: string;
}

const marker = "lease@";
/** What its columns hold. */
const [longestIp, longestHost, largestPid] = [15, 60, 0x7fff_ffff];

/** The row of a record's present or last holder. */
export function rowOf({ host, pid }: HolderLabel): AssignRow {
  const hash = createHash("sha256").update(host).digest("hex");
  // The table may be older than we are, and of any character set. An empty text is none in some databases.
  const hostname = Array.from(host, (char) => (/[\x20-\x7e]/.test(char) ? char : "?")).slice(0, longestHost);
  return {
    pid: Math.min(Math.max(0, Math.trunc(pid)), largestPid),
    ip: (marker + hash).slice(0, longestIp),
    hostname: hostname.join("").trim() || "?",
  };
}

/** Whether a row is that of this record's holder. */
export function isOurs(row: AssignRow | undefined, { fence, holder }: Stored): boolean {
  if (row === undefined || fence === 0 || holder === undefined) return false;
  const own = rowOf(holder);
  return row.pid === own.pid && row.ip === own.ip && row.hostname === own.hostname;
}

/** Whether somebody else has taken the number: whatever is not ours. */
export function isForeign(row: AssignRow | undefined, record: Stored | undefined): row is AssignRow {
  return row !== undefined && (record === undefined || !isOurs(row, record));
}

/** Who took it, for people. */
export function foreignHolder({ pid, ip, hostname }: AssignRow): HolderLabel {
  return { host: hostname, ip, pid, instance: "" };
}

/** The row in columns of the table itself, or of a join (`prefix`). */
export function assignRow(row: SqlRow, prefix: "" | "assign_"): AssignRow | undefined {
  const [pid, ip, hostname] = [row[`${prefix}pid`], row[`${prefix}ip`], row[`${prefix}hostname`]];
  if (pid === null || pid === undefined) return undefined;
  return { pid: Number(pid), ip: String(ip), hostname: String(hostname) };
}

/** The row of a number that has no record here. */
export async function readRow(tx: Transaction, workerId: number): Promise<AssignRow | undefined> {
  const row = await tx.get("assign.get", { worker_id: workerId });
  return row && assignRow(row, "");
}
