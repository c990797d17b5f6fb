import { SnowleaseError } from "../../id/errors.ts";
import type { SqliteConnection, SqliteDriver } from "./driver.ts";
import { fileError, isBusy, isDamage, isIncomplete, fileRemovedError } from "./errors.ts";
import { beside, hasLog, isThere } from "./file.ts";
import type { FileLock } from "./lock.ts";
import { checkSchema } from "./schema.ts";
import { statementTexts } from "./statements.ts";

/**
 * Refuses a file that is damaged, or belongs to another program. Reads it without any lock or log, because opening a database with a
 * write-ahead log leaves traces. Such a file must not change in any byte, and no file may appear beside it.
 */
export function refuseForeign(driver: SqliteDriver, path: string): void {
  for (let look = 1; look <= 2; look++) {
    const error = problemOf(driver, path);
    if (error instanceof SnowleaseError || isIncomplete(error)) throw fileError(error, path);
    // The file does not exist yet, or this is Node 22.13, whose SQLite cannot open a file this way.
    if (!isDamage(error)) return;
    // A file in use may look damaged. If a log or journal is beside it, opening the file shows more. Without one, a second look decides.
    if (hasLog(path)) return;
    if (look === 2) throw fileError(error, path);
  }
}

/** What is wrong with a file. */
function problemOf(driver: SqliteDriver, path: string): unknown {
  let frozen: SqliteConnection | undefined;
  try {
    frozen = driver.openFrozen(path);
    // A statement cannot be prepared if a table, a column or an index is missing.
    if (checkSchema(frozen, path) === "ours") for (const [, text] of statementTexts()) frozen.prepare(text);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    frozen?.close();
  }
}

/**
 * Refuses a registry whose log was removed while other processes have it open, because their last writes are only in that log. If this
 * process cannot get the lock alone, others have the registry open. Its log then exists, except for the moment in which one of them opens
 * it.
 */
export async function refuseRemovedLog(driver: SqliteDriver, path: string, lock: FileLock): Promise<void> {
  const [log, index] = beside(path);
  // SQLite creates the log before the index and removes it after the index. So if the log was removed, it is missing both before and after
  // the look at the index.
  if (!isThere(log) && isThere(index) && !isThere(log)) throw fileRemovedError(log, path);
  await lock.whenFree(() => isThere(log) || lockAlone(driver, path), { otherwise: () => fileRemovedError(log, path) });
}

/**
 * Takes a registry's lock for a moment. This fails if another connection has the registry open. Only used while the registry has no log.
 */
function lockAlone(driver: SqliteDriver, path: string): void {
  const connection = driver.open(path);
  try {
    connection.exec("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; SELECT 1 FROM sqlite_schema");
  } catch (error) {
    // Any other error appears when the registry is opened.
    if (isBusy(error)) throw error;
  } finally {
    connection.close();
  }
}
