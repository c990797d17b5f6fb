import { resolve } from "node:path";
import { readSql, readStatements } from "../../assets.ts";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { StoreFile } from "../../store-file.ts";
import { Batches, type PartEnd, type Transactions } from "./batches.ts";
import { type Connection, type Driver, loadDriver, type Parameters, type Row, type Statement } from "./driver.ts";
import { commitError, fileError, isBusy, isDamage, isIncomplete, removedError, replacedError } from "./errors.ts";
import { alignModes, makePrivateFile, warnOfExposure } from "./file-mode.ts";
import { beside, hasLog, isLogGone, isThere, prepareFile } from "./file.ts";
import { Lock } from "./lock.ts";

/** Stands in the file's header: "Snow". */
const applicationId = 0x536e6f77;
/** Version of `sql/sqlite/schema.sql`, in the file's header. */
export const schemaVersion = 1;

/** Takes the lock for reading, at once: see `Database.#transaction`. */
const beginReading = "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1";
const beginWriting = "BEGIN IMMEDIATE";

/** The files of `sql/sqlite` that hold statements. */
const statementFiles = ["band", "claim", "clock", "history", "namespace", "ping", "record", "registry", "workers"];

/** The statements of `sql/sqlite`, by file and name: `claim.oldest`. */
export interface Sql {
  get(name: string, parameters?: Parameters): Row | undefined;
  all(name: string, parameters?: Parameters): readonly Row[];
  /** Returns how many rows it changed. */
  run(name: string, parameters?: Parameters): number;
}

/** What happens inside one transaction. Synchronous, so that nothing else of this process comes in between. */
export type Work<Answer> = (moment: Moment) => Answer;

/** The time at which a transaction has what it needs. */
export interface Moment {
  readonly sql: Sql;
  /** The file that is open, by which a holder tells it from another one. */
  readonly file: StoreFile | undefined;
  /** No window begins before it, Unix ms. */
  readonly earliest: number;
  /** The registry's clock, read under the lock. */
  readonly now: number;
  /** How long the operation waited for its turn and the lock, on the monotonic clock, whole ms. */
  readonly waited: number;
}

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
    const lock = new Lock(path, options.operationTimeout);
    if (isThere(path)) {
      refuseForeign(driver, path);
      await refuseTaken(driver, path, lock);
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
  readonly #lock: Lock;
  readonly #earliest: number;
  readonly #connection: Connection;
  readonly #statements = new Map<string, Statement>();
  readonly #sql: Sql;
  /** The files that were opened, the registry first; others under their names are another registry. */
  #files: readonly StoreFile[] = [];
  /** Ends when all operations so far have. */
  #queue: Promise<unknown> = Promise.resolve();
  #queued = 0;
  readonly #batches: Batches;
  #closed: Promise<void> | undefined;

  private constructor(driver: Driver, lock: Lock, { path, clock, earliest = 0 }: DatabaseOptions, name: string) {
    this.path = path;
    this.#earliest = earliest;
    this.#name = name;
    this.#clock = clock;
    this.#lock = lock;
    const run: Transactions["run"] = (work) => this.#inTurn(beginWriting, work);
    this.#batches = new Batches({ run, part: (work) => this.#part(work) }, clock);
    try {
      this.#connection = driver.open(path);
    } catch (error) {
      throw fileError(error, path);
    }
    this.#sql = preparedOn(this.#connection, this.#statements);
  }

  /** Whether another registry stands in place of the one that is open. */
  get isReplaced(): boolean {
    return this.#files[0]?.isReplaced === true;
  }

  /** Runs a transaction that changes something: durable once this resolves. */
  write<Answer>(work: Work<Answer>): Promise<Answer> {
    return this.#closed === undefined ? this.#batches.write(work) : Promise.reject(closedError(this.path));
  }

  /** Runs a transaction that sees one state of the registry. */
  read<Answer>(work: Work<Answer>): Promise<Answer> {
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
    this.#statements.clear();
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
    this.#connection.exec(
      `${readSql("sqlite/schema.sql")} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion}`,
    );
    this.#sql.run("registry.make", { made_at: now });
  }

  #inTurn<Answer>(begin: string, work: Work<Answer>): Promise<Answer> {
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
  #transaction<Answer>(begin: string, work: Work<Answer>, waited: number): Answer {
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

  #part<Answer>(work: () => Answer): PartEnd<Answer> {
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

/** The texts of `sql/sqlite` by file and name. */
function* statementTexts(): Generator<readonly [name: string, text: string]> {
  for (const file of statementFiles) {
    for (const [section, text] of readStatements(`sqlite/${file}.sql`)) yield [`${file}.${section}`, text];
  }
}

/** Each statement is prepared when it is first used: libsql never ends one before it is collected as garbage. */
function preparedOn(connection: Connection, statements: Map<string, Statement>): Sql {
  const texts = new Map(statementTexts());

  function statement(name: string): Statement {
    let found = statements.get(name);
    if (found === undefined) {
      found = connection.prepare(texts.get(name) ?? "");
      statements.set(name, found);
    }
    return found;
  }

  return {
    get: (name, parameters) => statement(name).get(parameters),
    all: (name, parameters) => statement(name).all(parameters),
    run: (name, parameters) => statement(name).run(parameters),
  };
}

/**
 * Looks at a file as it lies there, so that one which is not ours, or damaged, stays as it is to the byte, with nothing beside
 * it: opening a database with a write-ahead log leaves traces.
 */
function refuseForeign(driver: Driver, path: string): void {
  for (let look = 1; look <= 2; look++) {
    const error = lookAt(driver, path);
    if (error instanceof SnowleaseError || isIncomplete(error)) throw fileError(error, path);
    // Not there yet, or Node 22.13, whose SQLite opens no file this way.
    if (!isDamage(error)) return;
    // What looks damaged may be at work: then there is a log or journal beside it, and opening it tells; or there was one a
    // moment ago, and a second look tells.
    if (hasLog(path)) return;
    if (look === 2) throw fileError(error, path);
  }
}

/**
 * Refuses a registry whose log was taken away from those who have it open: what they wrote last stands there alone. Others have it
 * open where its lock cannot be had alone, and then its log is there, but for the moment in which one of them opens it.
 */
async function refuseTaken(driver: Driver, path: string, lock: Lock): Promise<void> {
  const [log] = beside(path);
  if (isLogGone(path)) throw removedError(log, path);
  await lock.whenFree(() => isThere(log) || lockAlone(driver, path), { otherwise: () => removedError(log, path) });
}

/** Takes a registry's lock for a moment, which fails where another connection has it open. Done only while it has no log. */
function lockAlone(driver: Driver, path: string): void {
  const connection = driver.open(path);
  try {
    connection.exec("PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; SELECT 1 FROM sqlite_schema");
  } catch (error) {
    // What else is wrong with it shows when it is opened.
    if (isBusy(error)) throw error;
  } finally {
    connection.close();
  }
}

/** What is wrong with a file as it lies there. */
function lookAt(driver: Driver, path: string): unknown {
  let frozen: Connection | undefined;
  try {
    frozen = driver.openFrozen(path);
    // What cannot be prepared lacks a table, a column or an index.
    if (checkSchema(frozen, path) === "ours") for (const [, text] of statementTexts()) frozen.prepare(text);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    frozen?.close();
  }
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE when it is not empty and not a registry of this version. */
function checkSchema(connection: Connection, path: string): "new" | "ours" {
  const pragma = (name: string): number => Number(connection.prepare(`PRAGMA ${name}`).get()?.[name]);
  const [application, version] = [pragma("application_id"), pragma("user_version")];
  if (application === applicationId && version === schemaVersion) return "ours";
  const tables = connection.prepare("SELECT name FROM sqlite_schema LIMIT 1").all();
  if (application === 0 && version === 0 && tables.length === 0) return "new";
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    application === applicationId
      ? `The registry file \`${path}\` has the schema ${version}, and this version of Snowlease knows ${schemaVersion}: upgrade it, or name another file.`
      : `The file \`${path}\` is the SQLite database of another program: name another file for the registry.`,
    { path },
  );
}

function closedError(path: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry file \`${path}\` was closed by this process: open it again.`,
  );
}
