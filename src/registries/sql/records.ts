import { SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { HistoryRow, HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { type AssignRow, assignRow } from "./assign.ts";
import type { SqlParameters, SqlRow } from "./dialect.ts";
import type { Transaction } from "./transaction.ts";

/** A record as a row of the table of windows. */
export interface StoredRow {
  readonly record: Stored;
  readonly version: number;
  /** The row that Java processes see. */
  readonly assignRow: AssignRow | undefined;
}

/**
 * The names under which the indexes list records: the records that claims may take, and those of worker IDs that other programs have or may
 * have.
 */
export const inPool = "pool";
export const foreign = "foreign";

/** The prefix of a host's address. Both together are the name under which the indexes list the records that are pinned for this host. */
export const ownerPlace = "owner:";

/** The limits of a search that is not limited to a pool. */
export const everyNumber: PoolBounds = { first: 0, last: Number.MAX_SAFE_INTEGER };

/** The longest text of a holder's label that is stored. */
const longestLabel = 255;

/** A holder's label as it is stored. */
export function shortenedLabel({ host, ip, pid, instance }: HolderLabel): HolderLabel {
  return { host: clipped(host), ip: clipped(ip), pid, instance: clipped(instance) };
}

function clipped(text: string): string {
  return text.length <= longestLabel ? text : Array.from(text).slice(0, longestLabel).join("");
}

/** Reads the record of a worker ID. */
export async function readRecord(tx: Transaction, workerId: number): Promise<StoredRow | undefined> {
  const row = await tx.get("record.get", { worker_id: workerId });
  return row && storedRowOf(row);
}

/** Reads a row of the table of windows. */
export function storedRowOf(row: SqlRow): StoredRow {
  const timestamp = maybeNumber(row, "checkpoint_timestamp");
  const claimedAt = maybeNumber(row, "claimed_at");
  const begin = maybeNumber(row, "recents_from");
  const filedUnder = textOf(row, "filed_under");
  const record: Stored = {
    workerId: numberOf(row, "worker_id"),
    fence: numberOf(row, "fence"),
    token: maybeText(row, "token"),
    renewals: numberOf(row, "renewals"),
    turn: maybeText(row, "turn"),
    era: maybeText(row, "era"),
    from: numberOf(row, "from_ms"),
    until: numberOf(row, "until_ms"),
    seenClock: numberOf(row, "seen_clock"),
    clean: numberOf(row, "clean") === 1,
    knownFrom: numberOf(row, "known_from_ms"),
    began: maybeNumber(row, "began_ms"),
    checkpoint:
      timestamp === undefined ? undefined : { timestamp, sequence: maybeNumber(row, "checkpoint_sequence") ?? 0 },
    holder: claimedAt === undefined ? undefined : holderOf(row),
    claimedAt,
    releasedAt: maybeNumber(row, "released_at"),
    pinned: maybeText(row, "pinned"),
    owner: filedUnder.startsWith(ownerPlace) ? filedUnder.slice(ownerPlace.length) : undefined,
    recents: begin === undefined ? undefined : { from: begin, bytes: bytesOf(row) },
  };
  return { record, version: numberOf(row, "version"), assignRow: assignRow(row, "assign_") };
}

/** The columns of a record. `filedUnder`: the name under which the indexes list the record if it is not pinned. */
export function columnsOf(record: Stored, filedUnder: string): SqlParameters {
  const { checkpoint, holder, recents, pinned, owner } = record;
  return {
    worker_id: record.workerId,
    era: record.era,
    filed_under: pinned === undefined ? filedUnder : owner && ownerPlace + owner,
    fence: record.fence,
    token: record.token,
    renewals: record.renewals ?? 0,
    turn: record.turn,
    from_ms: record.from,
    until_ms: record.until,
    seen_clock: record.seenClock,
    clean: record.clean ? 1 : 0,
    known_from_ms: record.knownFrom,
    began_ms: record.began,
    checkpoint_timestamp: checkpoint?.timestamp,
    checkpoint_sequence: checkpoint?.sequence,
    host: holder?.host,
    ip: holder?.ip,
    pid: holder?.pid,
    instance: holder?.instance,
    claimed_at: record.claimedAt,
    released_at: record.releasedAt,
    pinned,
    recents_from: recents?.from,
    recents: recents?.bytes,
  };
}

/** The columns of a claim that has ended. `newest`: whether no later claim of its worker ID was granted. */
export function endedColumns(row: HistoryRow, newest: boolean): SqlParameters {
  return {
    worker_id: row.workerId,
    fence: row.fence,
    from_ms: row.from,
    until_ms: row.until,
    continued_from: row.continuedFrom,
    ...row.holder,
    claimed_at: row.claimedAt,
    ended_at: row.endedAt,
    ended_by: row.end,
    newest: newest ? 1 : 0,
  };
}

/** Reads a row of the history. */
export function historyRowOf(row: SqlRow): HistoryRow {
  return {
    workerId: numberOf(row, "worker_id"),
    fence: numberOf(row, "fence"),
    from: numberOf(row, "from_ms"),
    until: numberOf(row, "until_ms"),
    continuedFrom: maybeNumber(row, "continued_from"),
    holder: holderOf(row),
    claimedAt: numberOf(row, "claimed_at"),
    endedAt: maybeNumber(row, "ended_at"),
    end: maybeText(row, "ended_by") as HistoryRow["end"],
  };
}

function holderOf(row: SqlRow): HolderLabel {
  const [host, ip, instance] = [textOf(row, "host"), textOf(row, "ip"), textOf(row, "instance")];
  return { host, ip, pid: maybeNumber(row, "pid") ?? 0, instance };
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE if the value is not an integer. */
export function numberOf(row: SqlRow, name: string): number {
  const number = maybeNumber(row, name);
  if (number === undefined) throw odd(row, name);
  return number;
}

function maybeNumber(row: SqlRow, name: string): number | undefined {
  const value = row[name] ?? undefined;
  if (value === undefined || (typeof value === "number" && Number.isSafeInteger(value))) return value;
  throw odd(row, name);
}

/** A text. Empty if there is none, because some databases store an empty text as NULL. */
export function textOf(row: SqlRow, name: string): string {
  return maybeText(row, name) ?? "";
}

function maybeText(row: SqlRow, name: string): string | undefined {
  const value = row[name] ?? undefined;
  if (value === undefined || typeof value === "string") return value;
  throw odd(row, name);
}

function bytesOf(row: SqlRow): Uint8Array {
  const value = row["recents"] ?? new Uint8Array();
  // A driver has its own type for bytes.
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  throw odd(row, "recents");
}

function odd(row: SqlRow, name: string): SnowleaseError {
  const id = row["worker_id"];
  const what = typeof id === "number" ? `worker ${id}` : "the namespace";
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry keeps something at \`${name}\` of ${what} that Snowlease never wrote: put it right in its table.`,
  );
}
