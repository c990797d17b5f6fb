import { SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { HistoryRow, HolderLabel } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { type AssignRow, assignRow } from "./assign.ts";
import type { SqlParameters, SqlRow } from "./dialect.ts";

/** A record as a row of the table of windows. */
export interface StoredRow {
  readonly record: Stored;
  readonly version: number;
  /** The era of the last write. A record of an older era was written before this server took the place of another one. */
  readonly era: number;
  /** The name of its number's band; undefined before the first claim. */
  readonly pool: string | undefined;
  /** The row that Java processes see. */
  readonly assignRow: AssignRow | undefined;
}

/** Records of numbers that other programs have taken are filed under this. */
export const foreign = "foreign";

/** The prefix of the address under which a record is filed while it is pinned for a host. */
const ownerPlace = "owner:";

/** The records that are pinned for an address are filed under this. */
export function ownersPlace(ip: string): string {
  return ownerPlace + ip;
}

/** The longest text of a holder's label that is stored. */
const longestLabel = 255;

/** A pool's name. */
export function poolName({ first, last }: PoolBounds): string {
  return `${first}-${last}`;
}

/** A holder's label as it is stored. */
export function shortenedLabel({ host, ip, pid, instance }: HolderLabel): HolderLabel {
  return { host: clipped(host), ip: clipped(ip), pid, instance: clipped(instance) };
}

function clipped(text: string): string {
  return text.length <= longestLabel ? text : Array.from(text).slice(0, longestLabel).join("");
}

/** Reads a row of the table of windows. */
export function storedRowOf(row: SqlRow): StoredRow {
  const timestamp = maybeNumber(row, "checkpoint_timestamp");
  const begin = maybeNumber(row, "recents_from");
  const filed = maybeText(row, "filed");
  const record: Stored = {
    workerId: numberOf(row, "worker_id"),
    fence: numberOf(row, "fence"),
    token: maybeText(row, "token"),
    from: numberOf(row, "from_ms"),
    until: numberOf(row, "until_ms"),
    seenClock: numberOf(row, "seen_clock"),
    clean: numberOf(row, "clean") === 1,
    knownFrom: numberOf(row, "floor_ms"),
    checkpoint:
      timestamp === undefined ? undefined : { timestamp, sequence: maybeNumber(row, "checkpoint_sequence") ?? 0 },
    holder: maybeNumber(row, "claimed_at") === undefined ? undefined : holderOf(row),
    claimedAt: maybeNumber(row, "claimed_at"),
    releasedAt: maybeNumber(row, "released_at"),
    pinned: maybeText(row, "pinned"),
    owner: filed?.startsWith(ownerPlace) === true ? filed.slice(ownerPlace.length) : undefined,
    recents: begin === undefined ? undefined : { from: begin, bytes: bytesOf(row, "recents") },
  };
  return {
    record,
    version: numberOf(row, "version"),
    era: numberOf(row, "era"),
    pool: maybeText(row, "pool"),
    assignRow: assignRow(row, "assign_"),
  };
}

/** The columns of a record. `pool`: the name of its band. `filed`: where it is filed unless it is pinned. */
export function columnsOf(record: Stored, pool: string | undefined, filed: string | undefined): SqlParameters {
  const { checkpoint, holder, recents, pinned, owner } = record;
  return {
    worker_id: record.workerId,
    pool,
    filed: pinned === undefined ? filed : owner && ownersPlace(owner),
    fence: record.fence,
    token: record.token,
    from_ms: record.from,
    until_ms: record.until,
    seen_clock: record.seenClock,
    clean: record.clean ? 1 : 0,
    floor_ms: record.knownFrom,
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
  const text = (name: string): string => maybeText(row, name) ?? "";
  return { host: text("host"), ip: text("ip"), pid: maybeNumber(row, "pid") ?? 0, instance: text("instance") };
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a value that is no integer. */
export function numberOf(row: SqlRow, name: string): number {
  const number = maybeNumber(row, name);
  if (number !== undefined) return number;
  throw odd(row, name);
}

function maybeNumber(row: SqlRow, name: string): number | undefined {
  const value = row[name];
  if (value === null || value === undefined) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw odd(row, name);
}

/** A text, or undefined where there is none. */
export function maybeText(row: SqlRow, name: string): string | undefined {
  const value = row[name];
  if (value === null || value === undefined) return undefined;
  if (typeof value === "string") return value;
  throw odd(row, name);
}

function bytesOf(row: SqlRow, name: string): Uint8Array {
  const value = row[name];
  // A driver has its own kind of bytes.
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  if (value === null || value === undefined) return new Uint8Array();
  throw odd(row, name);
}

function odd(row: SqlRow, name: string): SnowleaseError {
  const id = row["worker_id"];
  const what = typeof id === "number" ? `worker ${id}` : "the namespace";
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry keeps something at \`${name}\` of ${what} that Snowlease never wrote: put it right in its table.`,
  );
}
