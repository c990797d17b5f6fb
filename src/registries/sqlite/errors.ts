import { type ErrorCode, SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { sqliteCode } from "./driver.ts";

const access = "check the permissions of the file and of its folder, where SQLite keeps two more files beside it";
/** What to do before a process may start without the stored windows. */
const stopAll =
  "stop every process that uses it, wait until their windows have passed (2 min 20 s with the default limits)";
const damaged = `${stopAll}, and move it with its -wal and -shm out of the way: a new one is then made`;

/** What a failure of SQLite means for the registry. */
interface FileFailure {
  /** Default: REGISTRY_UNAVAILABLE. */
  readonly code?: ErrorCode;
  readonly says: string;
  readonly advice: string;
}

const incomplete: FileFailure = {
  code: "SCHEMA_INCOMPATIBLE",
  says: "lacks a part of what this version of Snowlease needs",
  advice: `it was changed by hand, or made by another version: ${stopAll}, and put a copy back, or name another file`,
};

/** By SQLite's primary result code. In each of these cases SQLite has written nothing. */
const failures: Readonly<Record<number, FileFailure>> = {
  3: { code: "CONFIG_INVALID", says: "may not be used", advice: access },
  8: { code: "CONFIG_INVALID", says: "is read-only", advice: access },
  10: { says: "cannot be read or written", advice: "check the disk, and whether it is full" },
  11: { says: "is damaged", advice: damaged },
  13: { says: "cannot grow: the disk is full", advice: "free some space" },
  14: { code: "CONFIG_INVALID", says: "cannot be opened", advice: access },
  26: { code: "CONFIG_INVALID", says: "is not a database", advice: "name another file" },
};

/** Whether an operation failed only because another connection has a lock. Then it has changed nothing. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  // BUSY, and PROTOCOL: a race for the log's index.
  return code === 5 || code === 15;
}

/** Whether SQLite could not read the contents of a file. */
export function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === 11 || code === 26;
}

/** Whether a table, a column or an index is missing. */
export function isIncomplete(error: unknown): boolean {
  // By the text, because SQLite uses code 1 for every statement that it cannot run.
  return error instanceof Error && /\bno such (?:table|column|index)\b|\bhas no column\b/.test(error.message);
}

/** A driver's error as a SnowleaseError. With a code that is not in the table, the operation may have been applied. */
export function fileError(cause: unknown, path: string): SnowleaseError {
  if (cause instanceof SnowleaseError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  const other: FileFailure = { says: "did not answer", advice: "try again" };
  const failure = isIncomplete(cause) ? incomplete : (failures[sqliteCode(cause) ?? 0] ?? other);
  const { code = "REGISTRY_UNAVAILABLE", says, advice } = failure;
  const details = { path, ...(isDamage(cause) && { lasting: true }) };
  return new SnowleaseError(code, `The registry file \`${path}\` ${says} (${text}); ${advice}.`, details, { cause });
}

function unavailable(path: string, says: string): SnowleaseError {
  return new SnowleaseError("REGISTRY_UNAVAILABLE", `The registry file \`${path}\` ${says}`, { path });
}

/** `found`: the damage that SQLite found in the file. */
export function damageError(found: string, path: string): SnowleaseError {
  const message = `The registry file \`${path}\` is damaged (${found}); ${damaged}.`;
  return new SnowleaseError("REGISTRY_UNAVAILABLE", message, { path, lasting: true });
}

/** A failed commit: after a restart the changes may be there. */
export function commitError(cause: unknown, path: string): SnowleaseError {
  return new SnowleaseError("REGISTRY_UNAVAILABLE", fileError(cause, path).message, { path }, { cause });
}

/** A file of an open registry was removed. A process that starts now does not see what this one writes. */
export function fileRemovedError(removed: string, path: string): SnowleaseError {
  const isBeside = removed !== path && /-(?:wal|shm)$/.test(removed);
  const what = isBeside
    ? `\`${removed}\`, where the registry file \`${path}\` has what was written last,`
    : `The registry file \`${removed}\``;
  const index = isBeside ? `, remove \`${path}-shm\` if it is still there` : "";
  const advice = `put it back, or ${stopAll}${index}, and start them again`;
  const message = `${what} was removed or replaced while a process had it open: ${advice}.`;
  return new SnowleaseError("REGISTRY_UNAVAILABLE", message, { path });
}

/** Another registry has replaced the open one. What was done since then does not count. */
export function fileReplacedError(path: string): SnowleaseError {
  return unavailable(path, "was replaced by another one while it was open: try again, which opens that one.");
}

/** This process has closed the registry. */
export function closedError(path: string): SnowleaseError {
  return unavailable(path, "was closed by this process: open it again.");
}

/** A claim found worker IDs of a large pool free, but each time another claim had taken the worker ID by then. */
export function takenError(path: string, { first, last }: PoolBounds, operationTimeout: number): SnowleaseError {
  return unavailable(
    path,
    `has other claims that were faster: each worker ID of the pool ${first}-${last} that this one found free within ${operationTimeout} ms was taken; try again.`,
  );
}

/** The lock was not free, and the process that has it wrote nothing meanwhile. */
export function busyError(path: string, operationTimeout: number): SnowleaseError {
  return unavailable(
    path,
    `was locked for ${operationTimeout} ms in which no process wrote to it, and this one has changed nothing: look for a process that is stopped in a transaction of it, or a tool like sqlite3 that left one open (\`fuser ${path}\` lists both), let it go on or end it, and try again.`,
  );
}
