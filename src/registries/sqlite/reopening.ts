import { SqliteDatabase, type SqliteDatabaseOptions } from "./database.ts";
import type { TransactionWork } from "./transaction.ts";

/** The database at a path. Opens the path again where another file has taken the place of the open one. */
export class ReopeningDatabase {
  static async open(options: SqliteDatabaseOptions): Promise<ReopeningDatabase> {
    return new ReopeningDatabase(options, await SqliteDatabase.open(options));
  }

  readonly #options: SqliteDatabaseOptions;
  #database: SqliteDatabase;
  #opening: Promise<void> | undefined;
  #isClosed = false;

  private constructor(options: SqliteDatabaseOptions, database: SqliteDatabase) {
    this.#options = options;
    this.#database = database;
  }

  /** Runs a transaction that may write. Resolves once the writes are durable. */
  write<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#run((database) => database.write(work));
  }

  /** Runs a transaction that sees one state of the registry. */
  read<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#run((database) => database.read(work));
  }

  /** Closes the file once all earlier operations have ended. Repeatable. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#opening?.catch(() => undefined);
    await this.#database.close();
  }

  async #run<Answer>(run: (database: SqliteDatabase) => Promise<Answer>): Promise<Answer> {
    const database = this.#database;
    try {
      return await run(database);
    } catch (error) {
      // The operation ran on a file that no other process sees: it does not count.
      if (this.#isClosed || !database.isReplaced) throw error;
    }
    await this.#follow(database);
    return run(this.#database);
  }

  async #follow(replaced: SqliteDatabase): Promise<void> {
    if (this.#database !== replaced) return;
    this.#opening ??= this.#openNext(replaced).finally(() => (this.#opening = undefined));
    await this.#opening;
  }

  /** Closes the replaced file last: SQLite would remove the log of the new one while that is not open. */
  async #openNext(replaced: SqliteDatabase): Promise<void> {
    // Holders may have used the windows of the old file up to now.
    const earliest = this.#options.clock.now() + 1;
    this.#database = await SqliteDatabase.open({ ...this.#options, earliest });
    await replaced.close();
  }
}
