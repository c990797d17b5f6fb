import { resolve } from "node:path";
import { type Clock, monotonic, systemClock } from "../../clock.ts";
import { StoreFile } from "../../store-file.ts";
import { WriteBatches } from "./batches.ts";
import { loadSqlite, type SqliteConnection, type SqliteDriver } from "./driver.ts";
import { closedError, commitError, fileError, fileRemovedError, fileReplacedError } from "./errors.ts";
import { alignModes, makePrivateFile, warnOfExposure } from "./file-mode.ts";
import { beside, isThere, prepareFile } from "./file.ts";
import { warnOfNewFile } from "./scope.ts";
import { refuseForeign, refuseRemovedLog } from "./inspection.ts";
import { FileLock } from "./lock.ts";
import { checkSchema, createSchema } from "./schema.ts";
import { statementsOn } from "./statements.ts";
import type { TransactionWork } from "./transaction.ts";

/** Takes the lock for reading at once: see `#transaction`. */
const beginReading = "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1";
const beginWriting = "BEGIN IMMEDIATE";

export interface SqliteDatabaseOptions {
  readonly path: string;
  readonly clock: Clock;
  /** How long an operation waits for the lock while no process writes, ms. */
  readonly operationTimeout: number;
  /** No window begins before this, Unix ms. Default 0. */
  readonly earliest?: number | undefined;
}

/** One connection to a registry's file. It runs one transaction at a time. It waits for the lock without blocking the event loop. */
export class SqliteDatabase {
  /** Opens a registry's file, or creates it. */
  static async open(options: SqliteDatabaseOptions): Promise<SqliteDatabase> {
    const path = prepareFile(options.path);
    const name = resolve(options.path);
    const driver = await loadSqlite();
    const lock = new FileLock(path, options.operationTimeout);
    let isMade = false;
    if (isThere(path)) {
      refuseForeign(driver, path);
      await refuseRemovedLog(driver, path, lock);
    } else isMade = makePrivateFile(path);
    const database = new SqliteDatabase(driver, lock, { ...options, path });
    try {
      await database.#prepare(name);
      alignModes(path);
      warnOfExposure(path);
      if (isMade) warnOfNewFile(path);
      return database;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  /** The path, with links resolved. */
  readonly #path: string;
  readonly #clock: Clock;
  readonly #lock: FileLock;
  readonly #earliest: number;
  readonly #connection: SqliteConnection;
  readonly #sql: ReturnType<typeof statementsOn>;
  /** The files that were opened, the registry first. Other files under the same names are another registry. */
  readonly #files: StoreFile[] = [];
  /** Settles when all operations so far have ended. */
  #queue: Promise<unknown> = Promise.resolve();
  #queued = 0;
  readonly #batches: WriteBatches;
  #closed: Promise<void> | undefined;

  private constructor(driver: SqliteDriver, lock: FileLock, { path, clock, earliest = 0 }: SqliteDatabaseOptions) {
    this.#path = path;
    this.#earliest = earliest;
    this.#clock = clock;
    this.#lock = lock;
    this.#batches = new WriteBatches(
      { run: (work) => this.#inTurn(beginWriting, work), part: (work, failed) => this.#part(work, failed) },
      clock,
    );
    try {
      this.#connection = driver.open(path);
    } catch (error) {
      throw fileError(error, path);
    }
    this.#sql = statementsOn(this.#connection);
  }

  /** Whether another registry has replaced the open one. */
  get isReplaced(): boolean {
    return this.#files[0]?.isReplaced === true;
  }

  /** Runs a transaction that may write. Resolves once the writes are durable. */
  write<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#closed === undefined ? this.#batches.write(work) : Promise.reject(closedError(this.#path));
  }

  /** Runs a transaction that sees one state of the registry. */
  read<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#closed === undefined ? this.#inTurn(beginReading, work) : Promise.reject(closedError(this.#path));
  }

  /** Closes the file once all earlier operations have ended. Repeatable. */
  close(): Promise<void> {
    this.#closed ??= this.#queue.then(() => this.#end());
    return this.#closed;
  }

  /**
   * libsql has no call that ends a statement. A closed connection keeps its file descriptors open until its statements are collected as
   * garbage. So this object forgets its statements, and a turn of the event loop releases the collected ones. When 1000 registries were
   * opened and closed in a row, 3000 descriptors stayed open without that turn, and some 100 with it.
   */
  async #end(): Promise<void> {
    try {
      // Makes the file complete without its log, which stays until the statements are collected.
      const isOurs = this.#files.every((file) => !file.isReplaced);
      if (isOurs && !this.#lock.isWanted) this.#connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // Another process uses the file. It does this when it closes the file.
    }
    this.#connection.close();
    this.#sql.clear();
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** `name`: the path as given, because a link in it may point elsewhere later. */
  async #prepare(name: string): Promise<void> {
    // `#lock` waits instead, without blocking the event loop.
    this.#connection.exec("PRAGMA busy_timeout = 0");
    if (await this.read(() => this.#isNew())) {
      // Holders of an earlier file may notice the new file up to a millisecond late.
      await systemClock.sleep(2);
      await this.#inTurn("BEGIN EXCLUSIVE", ({ sql, now }) => {
        if (!this.#isNew()) return;
        createSchema(this.#connection);
        sql.run("registry.make", { made_at: now });
      });
    }
    // Not earlier, because the header of a registry has to be readable without a log. FULL syncs the log at each commit.
    await this.#lock.whenFree(() => {
      this.#connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    });
    // This connection has its log only after its first read.
    await this.read(() => {
      this.#isNew();
      const mode = this.#connection.prepare("PRAGMA journal_mode").get()?.["journal_mode"];
      if (mode !== "wal") throw new Error("a write-ahead log is not possible there");
    });
    for (const each of [name, ...beside(this.#path)]) {
      const file = StoreFile.at(each);
      if (file === undefined) throw fileRemovedError(each, this.#path);
      this.#files.push(file);
    }
  }

  #isNew(): boolean {
    return checkSchema(this.#connection, this.#path) === "new";
  }

  #inTurn<Answer>(begin: string, work: TransactionWork<Answer>): Promise<Answer> {
    const requestedAt = monotonic(this.#clock);
    const behindOthers = this.#queued > 0;
    this.#queued++;
    const tryOnce = (waits: boolean): Answer => {
      const waited = waits || behindOthers ? Math.floor(monotonic(this.#clock) - requestedAt) : 0;
      return this.#transaction(begin, work, waited);
    };
    const answer = this.#queue.then(async () => {
      const inTurn = begin === beginWriting;
      if (inTurn) await this.#batches.gather();
      return this.#lock.whenFree(tryOnce, { inTurn });
    });
    this.#queue = answer.catch(() => undefined).finally(() => this.#queued--);
    return answer;
  }

  /**
   * `begin` has to take the lock. If a prepared statement fails on the lock, libsql keeps it open until it is collected as garbage,
   * together with the state of the file that it saw. SQLite would then refuse every later transaction while other processes write
   * (BUSY_SNAPSHOT).
   */
  #transaction<Answer>(begin: string, work: TransactionWork<Answer>, waited: number): Answer {
    this.#checkFiles();
    let answer: Answer;
    try {
      this.#connection.exec(begin);
      const [file] = this.#files;
      answer = work({ sql: this.#sql, file, earliest: this.#earliest, now: this.#clock.now(), waited });
    } catch (error) {
      this.#rollback();
      throw error;
    }
    try {
      this.#connection.exec("COMMIT");
    } catch (error) {
      this.#rollback();
      throw commitError(error, this.#path);
    }
    // Other processes see the writes only if they are in the files that these processes would open.
    this.#checkFiles();
    return answer;
  }

  #part<Answer>(work: () => Answer, failed: (error: unknown) => Answer): Answer {
    this.#connection.exec("SAVEPOINT part");
    try {
      const answer = work();
      this.#connection.exec("RELEASE part");
      return answer;
    } catch (error) {
      try {
        this.#connection.exec("ROLLBACK TO part; RELEASE part");
      } catch {
        // SQLite has already rolled back the whole transaction.
        throw error;
      }
      return failed(error);
    }
  }

  #checkFiles(): void {
    for (const file of this.#files) {
      const { state } = file;
      if (state === "same") continue;
      const isOther = state === "replaced" && file === this.#files[0];
      throw isOther ? fileReplacedError(this.#path) : fileRemovedError(file.identity.path, this.#path);
    }
  }

  #rollback(): void {
    try {
      this.#connection.exec("ROLLBACK");
    } catch {
      // SQLite has already rolled back, as it does on a full disk. The caller throws the first error.
    }
  }
}
