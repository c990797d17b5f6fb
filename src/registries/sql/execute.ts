import { type ServerAddress, whereOf } from "../url.ts";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import type { Dialect, SqlConnection } from "./dialect.ts";
import { type SqlPlace, serverError, silentError } from "./errors.ts";
import { TooLate } from "../deadline.ts";
import { SqlConnections, Unheard } from "./connections.ts";
import { readSqlSettings, type SqlSettings } from "./address.ts";
import { loadMigrations, loadStatements, namesOf } from "./statements.ts";
import { Transaction } from "./transaction.ts";
import { Beaten, Changed } from "../compare-and-set/store.ts";

/** How an operation is done. */
interface ExecuteOptions {
  /** Whether another attempt may follow one with an unknown answer, and finds out by itself whether it was done. */
  readonly repeatable: boolean;
}

/** What one attempt at an operation works with. */
export interface SqlTry {
  readonly tx: Transaction;
  readonly place: SqlPlace;
  /** How often other writers were faster. */
  readonly races: number;
  /** How long the operation had to wait, ms: its caller's clock went on meanwhile. */
  readonly waited: number;
}

/** A database on which operations are done, each within its deadline. */
export interface SqlDatabase {
  readonly dialect: Dialect;
  /** Its host and port, for messages. */
  readonly where: string;
  readonly settings: SqlSettings;
  readonly migrations: readonly (readonly string[])[];
  /**
   * Runs `work` with a connection; again where other writers were faster, where the server did not answer, or where its state may
   * pass. Work that may have been done is repeated only where it is `repeatable`.
   */
  execute<Answer>(
    namespace: string,
    options: ExecuteOptions,
    work: (attempt: SqlTry) => Promise<Answer>,
  ): Promise<Answer>;
  close(): void;
}

export interface SqlOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
  readonly clock?: Clock | undefined;
}

/** Ignore waits below this, ms: normal network delay. */
const longestOnTheWay = 1000;

/** How long connecting may take before the next try, ms. A server with a full queue forgets clients that wait. */
const longestGreeting = 2000;

/** Where the database is. */
export type SqlAddress = ServerAddress & { /** For people. */ readonly redacted: string };

/** Longest pause before the second attempt, ms: after a lost race, and where the server does not answer. */
const [racePause, firstPause, longestPause] = [4, 25, 800];
/** Longest pause, as a part of the deadline, where that is longer: a server in front of a crowd needs fewer attempts. */
const pauseShare = 1 / 20;

/** @throws SnowleaseError CONFIG_INVALID, DRIVER_MISSING */
export async function openDatabase(
  dialect: Dialect,
  address: SqlAddress,
  { operationTimeout, clock = systemClock }: SqlOptions,
): Promise<SqlDatabase> {
  const settings = readSqlSettings(address);
  const [{ host, port } = { host: "localhost", port: 0 }] = address.servers;
  const where = whereOf(address.servers);
  const { user, password, client } = address;
  const target = { ...settings, host, port, user, password, operationTimeout, client };
  const driver = await driverOf(dialect, client);
  const patience = Math.min(operationTimeout / 3, longestGreeting);
  const connections = new SqlConnections(() => dialect.connect(driver, target), settings.poolSize, patience, clock);
  const statements = loadStatements(dialect.kind);

  return {
    dialect,
    where,
    settings,
    migrations: loadMigrations(dialect.kind),

    async execute(namespace, { repeatable }, work) {
      const names = namesOf(namespace);
      const place: SqlPlace = { title: dialect.title, where, url: address.redacted, namespace };
      const begun = monotonic(clock);
      const deadline = begun + operationTimeout;
      let races = 0;
      let unclear = false;
      let last: unknown;
      for (let pause = firstPause; ;) {
        let tx: Transaction | undefined;
        try {
          const attempt = (connection: SqlConnection): ReturnType<typeof work> => {
            tx = new Transaction(connection, statements, names);
            const waited = Math.floor(monotonic(clock) - begun);
            return work({ tx, place, races, waited: waited < longestOnTheWay ? 0 : waited });
          };
          return await connections.use(deadline, attempt, () => tx?.settled === true);
        } catch (error) {
          if (isSnowleaseError(error)) throw error;
          if (error instanceof Changed && monotonic(clock) < deadline) continue;
          // Once an answer is unknown, it stays unknown, whatever later attempts answer.
          unclear ||= isUnclear(tx);
          const meaning = isOurs(error) ? undefined : dialect.meaningOf(error);
          // An error of the server tells more than its silence at a later attempt.
          if (!(error instanceof TooLate || (error instanceof Unheard && last !== undefined))) last = error;
          const final = meaning !== undefined && !meaning.raced && !meaning.passes;
          if (unclear && (final || !repeatable)) throw silentError(place, operationTimeout, true, last);
          if (final) throw serverError(meaning, error, place);
          const raced = error instanceof Beaten || meaning?.raced === true;
          const wait = raced ? Math.random() * racePause * 2 ** Math.min(races, 4) : pause * (0.5 + Math.random() / 2);
          if (error instanceof TooLate || monotonic(clock) + wait >= deadline) {
            const told = raced || isOurs(last) ? undefined : dialect.meaningOf(last);
            throw told === undefined || told.raced || unclear
              ? silentError(place, operationTimeout, unclear, raced ? new Error("other writers were faster") : last)
              : serverError(told, last, place);
          }
          if (raced) races++;
          else pause = Math.min(2 * pause, Math.max(longestPause, pauseShare * operationTimeout));
          await clock.sleep(wait);
        }
      }
    },

    close: () => connections.close(),
  };
}

function isOurs(error: unknown): boolean {
  return error instanceof Beaten || error instanceof Changed || error instanceof TooLate;
}

/** A function of its own: the compiler does not see assignments in a callback. */
function isUnclear(tx: Transaction | undefined): boolean {
  return tx?.unclear === true;
}

async function driverOf(dialect: Dialect, client: object | undefined): Promise<unknown> {
  try {
    return await dialect.load(client);
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      `A registry in ${dialect.title} needs a driver that is not installed: run \`npm install ${dialect.driver}\`.`,
      {},
      { cause },
    );
  }
}
