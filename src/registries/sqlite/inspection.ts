import { SnowleaseError } from "../../id/errors.ts";
import type { SqliteConnection, SqliteDriver } from "./driver.ts";
import { fileError, isBusy, isDamage, isIncomplete, fileRemovedError } from "./errors.ts";
import { beside, hasLog, isThere } from "./file.ts";
import type { FileLock } from "./lock.ts";
import { checkSchema, lacksLayout } from "./schema.ts";
import { statementTexts } from "./statements.ts";

/**
 * Refuses a file that is another program's, or damaged. Reads it without any lock or log: opening a database with a write-ahead log
 * leaves traces, and such a file has to stay as it is to the byte, with nothing beside it.
 */
export function refuseForeign(driver: SqliteDriver, path: string): void {
  for (let look = 1; look <= 2; look++) {
    const error = problemOf(driver, path);
    if (error instanceof SnowleaseError || isIncomplete(error)) throw fileError(error, path);
    // Not there yet, or Node 22.13, whose SQLite opens no file this way.
    if (!isDamage(error)) return;
    // A file in use may look damaged. Then a log or journal is beside it, and opening it shows more; without one, a second look does.
    if (hasLog(path)) return;
    if (look === 2) throw fileError(error, path);
  }
}

/** What is wrong with a file. */
function problemOf(driver: SqliteDriver, path: string): unknown {
  let frozen: SqliteConnection | undefined;
  try {
    frozen = driver.openFrozen(path);
    if (checkSchema(frozen, path) === "new") return undefined;
    // A statement cannot be prepared where a table, a column or an index is missing. What an older version left out is added after this.
    if (lacksLayout(frozen)) return undefined;
    for (const [, text] of statementTexts()) frozen.prepare(text);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    frozen?.close();
  }
}

/**
 * Refuses a registry whose log was removed while other processes have it open: their last writes are only in that log. Other processes
 * have it open where its lock cannot be had alone; its log is then there, except for the moment in which one of them opens it.
 */
export async function refuseRemovedLog(driver: SqliteDriver, path: string, lock: FileLock): Promise<void> {
  const [log, index] = beside(path);
  // SQLite creates the log before the index and removes it after the index: a removed log is missing before and after a look at it.
  if (!isThere(log) && isThere(index) && !isThere(log)) throw fileRemovedError(log, path);
  await lock.whenFree(() => isThere(log) || lockAlone(driver, path), { otherwise: () => fileRemovedError(log, path) });
}

/** Takes a registry's lock for a moment, which fails where another connection has it open. Done only while it has no log. */
function lockAlone(driver: SqliteDriver, path: string): void {
  const connection = driver.open(path);
  try {
    connection.exec("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; SELECT 1 FROM sqlite_schema");
  } catch (error) {
    // Any other error shows when the registry is opened.
    if (isBusy(error)) throw error;
  } finally {
    connection.close();
  }
}
