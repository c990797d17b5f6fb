import { type ErrorCode, SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { sqliteCode } from "./driver.ts";

/** SQLite's result codes that mean that somebody else has a lock. */
const busyCodes: ReadonlySet<number> = new Set([5 /* BUSY */, 15 /* PROTOCOL: a race for the log's index */]);

const access = "check the permissions of the file and of its folder, where SQLite keeps two more files beside it";
const space = "free some space";
/** What has to come before anybody may start without what is stored. */
const stopAll: string =
  "stop every process that uses it, wait until their windows have passed (11 minutes with the default limits)";
const damaged = `${stopAll}, and move it with its -wal and -shm out of the way: a new one is then made`;

interface FileFailure {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
}

/** What SQLite tells only in the text: its code 1 is for every statement that it could not do. */
const missing = /\bno such (?:table|column|index)\b|\bhas no column\b/;
const incomplete: FileFailure = {
  code: "SCHEMA_INCOMPATIBLE",
  says: "lacks a part of what this version of Snowlease needs",
  advice: `it was changed by hand, or made by another version: ${stopAll}, and put a copy back, or name another file`,
};

/** SQLite's primary result codes, and what they mean here. Nothing was written in any of these cases. */
const known: Readonly<Record<number, FileFailure>> = {
  3: { code: "CONFIG_INVALID", says: "may not be used", advice: access },
  8: { code: "CONFIG_INVALID", says: "is read-only", advice: access },
  10: {
    code: "REGISTRY_UNAVAILABLE",
    says: "cannot be read or written",
    advice: "check the disk, and whether it is full",
  },
  11: { code: "REGISTRY_UNAVAILABLE", says: "is damaged", advice: damaged },
  13: { code: "REGISTRY_UNAVAILABLE", says: "cannot grow: the disk is full", advice: space },
  14: { code: "CONFIG_INVALID", says: "cannot be opened", advice: access },
  26: { code: "CONFIG_INVALID", says: "is not a database", advice: "name another file" },
};

const other: FileFailure = { code: "REGISTRY_UNAVAILABLE", says: "did not answer", advice: "try again" };

/** Whether an operation failed only because another connection has a lock, and so changed nothing. */
export function isBusy(error: unknown): boolean {
  return busyCodes.has(sqliteCode(error) ?? 0);
}

/** Whether SQLite could not make sense of a file. */
export function isDamage(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === 11 || code === 26;
}

/** Whether a table, a column or an index is not there. */
export function isIncomplete(error: unknown): boolean {
  return error instanceof Error && missing.test(error.message);
}

/** A driver's error as ours. One that is not in the table leaves open what was done: REGISTRY_UNAVAILABLE. */
export function fileError(cause: unknown, path: string): SnowleaseError {
  if (cause instanceof SnowleaseError) return cause;
  const said = cause instanceof Error ? cause.message : String(cause);
  const { code, says, advice } = isIncomplete(cause) ? incomplete : (known[sqliteCode(cause) ?? 0] ?? other);
  const details = { path, ...(isDamage(cause) && { lasting: true }) };
  return new SnowleaseError(code, `The registry file \`${path}\` ${says} (${said}); ${advice}.`, details, { cause });
}

/** What SQLite found wrong in a file. */
export function damageError(said: string, path: string): SnowleaseError {
  return new SnowleaseError("REGISTRY_UNAVAILABLE", `The registry file \`${path}\` is damaged (${said}); ${damaged}.`, {
    path,
    lasting: true,
  });
}

/** A failure to commit: the changes may be there after a restart, or not. */
export function commitError(cause: unknown, path: string): SnowleaseError {
  const { message } = fileError(cause, path);
  return new SnowleaseError("REGISTRY_UNAVAILABLE", message, { path }, { cause });
}

/** A file of an open registry was taken away: what this process writes, no process that starts now would see. */
export function removedError(removed: string, path: string): SnowleaseError {
  const what =
    removed === path || !/-(?:wal|shm)$/.test(removed)
      ? `The registry file \`${removed}\``
      : `\`${removed}\`, where the registry file \`${path}\` has what was written last,`;
  const index = what.startsWith("The") ? "" : `, remove \`${path}-shm\` if it is still there`;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${what} was removed or replaced while a process had it open: put it back, or ${stopAll}${index}, and start them again.`,
    { path },
  );
}

/** Another registry stands in place of the one that was open. Nothing that was done meanwhile counts. */
export function replacedError(path: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry file \`${path}\` was replaced by another one while it was open: try again, which opens that one.`,
    { path },
  );
}

/** A pool whose limits are new, of which none of the records that are filed so far is free. */
export function unfiledError(path: string, { first, last }: PoolBounds, operationTimeout: number): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry file \`${path}\` is being sorted for the pool ${first}-${last}, whose limits are new, and none of the worker IDs that were looked at within ${operationTimeout} ms is free: try again, which goes on from there.`,
    { path },
  );
}

/** The lock could not be had, and nobody who had it wrote anything meanwhile. */
export function busyError(path: string, operationTimeout: number): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry file \`${path}\` was locked for ${operationTimeout} ms in which no process wrote to it, and this one has changed nothing: look for a process that is stopped in a transaction of it, or a tool like sqlite3 that left one open (\`fuser ${path}\` lists both), let it go on or end it, and try again.`,
    { path },
  );
}
