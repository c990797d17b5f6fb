import { resolve } from "node:path";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { StoreFile } from "../../store-file.ts";
import { type PartOutcome, WriteBatches, type WriteTransactions } from "./batches.ts";
import { loadDriver, type SqliteConnection, type SqliteDriver } from "./driver.ts";
import { commitError, fileError, removedError, replacedError } from "./errors.ts";
import { alignModes, makePrivateFile, warnOfExposure } from "./file-mode.ts";
import { beside, isThere, prepareFile } from "./file.ts";
import { refuseForeign, refuseRemovedLog } from "./inspection.ts";
import { FileLock } from "./lock.ts";
import { checkSchema, createSchema } from "./schema.ts";
import { PreparedStatements } from "./statements.ts";
import type { TransactionWork } from "./transaction.ts";

/** Takes the lock for reading, at once: see `Database.#transaction`. */
const beginReading = "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1";
const beginWriting = "BEGIN IMMEDIATE";

export interface DatabaseOptions {
  readonly path: string;
  readonly clock: Clock;
  /** How long an operation may wait for its turn and the lock while nobody writes, ms. */
  readonly operationTimeout: number;
  /** No window begins before it, Unix ms. */
  readonly earliest?: number | undefined;
}

/** One connection to a registry's file: one transaction at a time, and never a blocked event loop while others have the lock. */
export class Database {
  /** Opens a registry's file, or makes it. */
  static async open(options: DatabaseOptions): Promise<Database> {
    const path = prepareFile(options.path);
    const driver = await loadDriver();
    const lock = new FileLock(path, options.operationTimeout);
    if (isThere(path)) {
      refuseForeign(driver, path);
      await refuseRemovedLog(driver, path, lock);
    } else makePrivateFile(path);
    const database = new Database(driver, lock, { ...options, path }, resolve(options.path));
    try {
      await database.#prepare();
      alignModes(path);
      warnOfExposure(path);
      return database;
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  readonly path: string;
  /** As it was named: a link on the way may come to point elsewhere. */
  readonly #name: string;
  readonly #clock: Clock;
  readonly #lock: FileLock;
  readonly #earliest: number;
  readonly #connection: SqliteConnection;
  readonly #sql: PreparedStatements;
  /** The files that were opened, the registry first; others under their names are another registry. */
  #files: readonly StoreFile[] = [];
  /** Ends when all operations so far have. */
  #queue: Promise<unknown> = Promise.resolve();
  #queued = 0;
  readonly #batches: WriteBatches;
  #closed: Promise<void> | undefined;

  private constructor(
    driver: SqliteDriver,
    lock: FileLock,
    { path, clock, earliest = 0 }: DatabaseOptions,
    name: string,
  ) {
    this.path = path;
    this.#earliest = earliest;
    this.#name = name;
    this.#clock = clock;
    this.#lock = lock;
    const run: WriteTransactions["run"] = (work) => this.#inTurn(beginWriting, work);
    this.#batches = new WriteBatches({ run, part: (work) => this.#part(work) }, clock);
    try {
      this.#connection = driver.open(path);
    } catch (error) {
      throw fileError(error, path);
    }
    this.#sql = new PreparedStatements(this.#connection);
  }

  /** Whether another registry stands in place of the one that is open. */
  get isReplaced(): boolean {
    return this.#files[0]?.isReplaced === true;
  }

  /** Runs a transaction that changes something: durable once this resolves. */
  write<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#closed === undefined ? this.#batches.write(work) : Promise.reject(closedError(this.path));
  }

  /** Runs a transaction that sees one state of the registry. */
  read<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return this.#closed === undefined ? this.#inTurn(beginReading, work) : Promise.reject(closedError(this.path));
  }

  /** Lets what was asked before end, then closes the file. Repeatable. */
  close(): Promise<void> {
    this.#closed ??= this.#queue.then(() => this.#end());
    return this.#closed;
  }

  /**
   * libsql has no call that ends a statement: until its statements are collected as garbage, a closed connection of that driver
   * keeps its two or three file descriptors open, and its share of the file. So nothing here holds on to them, and a turn of the
   * event loop lets those go that were collected: without it, 1000 registries opened and closed in a row kept 3000 descriptors,
   * with it some 100.
   */
  async #end(): Promise<void> {
    try {
      // So that the file is whole without its log: what remains of the log lies there until the statements are collected.
      const isOurs = this.#files.every((file) => !file.isReplaced);
      if (isOurs && !this.#lock.isWanted) this.#connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // Others are at work in it, or it is not ours: then it is theirs to do.
    }
    this.#connection.close();
    this.#sql.clear();
    await new Promise((resolve) => setImmediate(resolve));
  }

  async #prepare(): Promise<void> {
    // Waiting is up to `#lock`, which does not block the event loop.
    this.#connection.exec("PRAGMA busy_timeout = 0");
    const isNew = await this.read(() => this.#isNew());
    if (isNew) {
      // It is made when the millisecond has passed in which holders of a file that stood here before may not have seen this one yet.
      await systemClock.sleep(2);
      await this.#inTurn("BEGIN EXCLUSIVE", ({ now }) => this.#isNew() && this.#create(now));
    }
    // Only now: the header of a registry tells what it is without its log. Durable means that the log is synced at each commit.
    await this.#lock.whenFree(() => {
      this.#connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    });
    // The log is only there, and its own, once this connection has looked through it.
    await this.read(() => {
      this.#isNew();
      const mode = this.#connection.prepare("PRAGMA journal_mode").get()?.["journal_mode"];
      if (mode !== "wal") throw new Error("a write-ahead log is not possible there");
    });
    const names = [this.#name, ...beside(this.path)];
    const missing = names.find((name) => !isThere(name));
    this.#files = names.map((name) => StoreFile.at(name)).filter((file) => file !== undefined);
    if (missing !== undefined || this.#files.length < names.length) throw removedError(missing ?? this.path, this.path);
  }

  #isNew(): boolean {
    return checkSchema(this.#connection, this.path) === "new";
  }

  #create(now: number): void {
    createSchema(this.#connection);
    this.#sql.run("registry.make", { made_at: now });
  }

  #inTurn<Answer>(begin: string, work: TransactionWork<Answer>): Promise<Answer> {
    const askedOn = monotonic(this.#clock);
    const behindOthers = this.#queued > 0;
    this.#queued++;
    const tryOnce = (waits: boolean): Answer => {
      const waited = waits || behindOthers ? Math.floor(monotonic(this.#clock) - askedOn) : 0;
      return this.#transaction(begin, work, waited);
    };
    const isWrite = begin === beginWriting;
    const before = isWrite ? this.#queue.then(() => this.#batches.gather()) : this.#queue;
    const answer = before.then(() => this.#lock.whenFree(tryOnce, { inTurn: isWrite }));
    this.#queue = answer.catch(() => undefined).finally(() => this.#queued--);
    return answer;
  }

  /**
   * `begin` has to take the lock, for the statements behind it must not fail on one: libsql leaves a prepared statement that did
   * so open until it is collected as garbage, and with it the state of the file that it saw. Every transaction after that would
   * be refused as long as others write (BUSY_SNAPSHOT).
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
      throw commitError(error, this.path);
    }
    // Others see only what was written to the files that they would open.
    this.#checkFiles();
    return answer;
  }

  #part<Answer>(work: () => Answer): PartOutcome<Answer> {
    this.#connection.exec("SAVEPOINT part");
    try {
      const answer = work();
      this.#connection.exec("RELEASE part");
      return { answer };
    } catch (error) {
      try {
        this.#connection.exec("ROLLBACK TO part; RELEASE part");
      } catch {
        // SQLite has rolled back by itself: nothing of the transaction is left to go on with.
        throw error;
      }
      return { error };
    }
  }

  #checkFiles(): void {
    if (this.isReplaced) throw replacedError(this.path);
    const gone = this.#files.find(({ state }) => state !== "same");
    if (gone !== undefined) throw removedError(gone.identity.path, this.path);
  }

  #rollback(): void {
    try {
      this.#connection.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself, as it does on a full disk; the first error is the one to tell.
    }
  }
}

function closedError(path: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry file \`${path}\` was closed by this process: open it again.`,
  );
}
