import { SqliteDatabase, type SqliteDatabaseOptions } from "./database.ts";

/** The database at a path. Opens the path again if another file has replaced the open one. */
export async function openReopening(
  options: SqliteDatabaseOptions,
): Promise<Pick<SqliteDatabase, "read" | "write" | "close">> {
  let database = await SqliteDatabase.open(options);
  let opening: Promise<void> | undefined;
  let isClosed = false;

  /** Closes the replaced file last. Otherwise SQLite would remove the log of the new file while that is not open. */
  async function openNext(replaced: SqliteDatabase): Promise<void> {
    // Holders may have used the windows of the old file up to now.
    const earliest = options.clock.now() + 1;
    database = await SqliteDatabase.open({ ...options, earliest });
    await replaced.close();
  }

  async function run<Answer>(operation: (database: SqliteDatabase) => Promise<Answer>): Promise<Answer> {
    const used = database;
    try {
      return await operation(used);
    } catch (error) {
      // The operation ran on a file that no other process sees, so it does not count.
      if (isClosed || !used.isReplaced) throw error;
    }
    if (database === used) await (opening ??= openNext(used).finally(() => (opening = undefined)));
    return operation(database);
  }

  return {
    read: (work) => run((database) => database.read(work)),
    write: (work) => run((database) => database.write(work)),
    async close() {
      isClosed = true;
      await opening?.catch(() => undefined);
      await database.close();
    },
  };
}
