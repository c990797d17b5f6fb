import { type ServerAddress, whereOf } from "../url.ts";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Connecting, type Dialect, type SqlConnection } from "./dialect.ts";
import { type SqlPlace, serverError, silentError } from "./errors.ts";
import { TooLate } from "../deadline.ts";
import { Connections, Unheard } from "./connections.ts";
import { parseSettings, type SqlSettings } from "./address.ts";
import { loadMigrations, loadStatements, namesOf } from "./statements.ts";
import { Transaction } from "./transaction.ts";
import { Beaten, Changed } from "../compare-and-set/store.ts";

/** How an operation is done. */
interface ExecuteOptions {
  /** Whether it may be done again where it is not known whether it was done: it then finds out by itself. */
  readonly repeatable: boolean;
}

/** What a piece of work is given. */
export interface SqlTry {
  readonly tx: Transaction;
  readonly place: SqlPlace;
  /** How often others were faster. */
  readonly races: number;
  /** How long the operation had to wait, ms: the asker's clock went on meanwhile. */
  readonly waited: number;
}

/** A database on which operations are done, each within its deadline. */
export interface Database {
  readonly dialect: Dialect;
  /** Its host and port, for messages. */
  readonly where: string;
  readonly settings: SqlSettings;
  readonly migrations: readonly (readonly string[])[];
  /**
   * Does a piece of work on a connection; again where others were faster, where nobody could be reached, or where the server says
   * that it may soon be possible. Nothing that may have been done is done twice unless it is `repeatable`.
   */
  execute<Answer>(
    namespace: string,
    options: ExecuteOptions,
    work: (attempt: SqlTry) => Promise<Answer>,
  ): Promise<Answer>;
  close(): void;
}

export interface DatabaseOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
  readonly clock?: Clock | undefined;
}

/** A shorter wait than that, ms, is nothing that a request may not spend on its way; nobody's clock is compared that finely. */
const longestOnTheWay = 1000;

/** How long a server may take to let a client in before that knocks once more, ms. One whose queue is full forgets who waits. */
const longestGreeting = 2000;

/** Where the database is. */
export type SqlAddress = ServerAddress & { /** For people. */ readonly redacted: string };

/** Longest pause before a second try, ms: for a lost race, and for a server that does not answer. */
const [racePause, firstPause, longestPause] = [4, 25, 800];
/** Of a deadline that leaves time for more than a few tries: what a crowd that comes again too often needs is quiet. */
const pauseShare = 1 / 20;

/** @throws SnowleaseError CONFIG_INVALID, DRIVER_MISSING */
export async function openDatabase(
  dialect: Dialect,
  address: SqlAddress,
  { operationTimeout, clock = systemClock }: DatabaseOptions,
): Promise<Database> {
  const settings = parseSettings(address);
  const [{ host, port } = { host: "localhost", port: 0 }] = address.servers;
  const where = whereOf(address.servers);
  const { user, password, client } = address;
  const target = { ...settings, host, port, user, password, operationTimeout, client };
  const connect = await driverOf(dialect, client);
  const patience = Math.min(operationTimeout / 3, longestGreeting);
  const connections = new Connections(() => connect(target), settings.poolSize, patience, clock);
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
          // Once it may have been done, it may have been, whatever becomes of the tries after that.
          unclear ||= isUnclear(tx);
          const meaning = isOurs(error) ? undefined : dialect.meaningOf(error);
          // What a server said at one try tells more than its silence at the next.
          if (!(error instanceof TooLate || (error instanceof Unheard && last !== undefined))) last = error;
          const final = meaning !== undefined && !meaning.raced && !meaning.passes;
          if (unclear && (final || !repeatable)) throw silentError(place, operationTimeout, true, last);
          if (final) throw serverError(meaning, error, place);
          const raced = error instanceof Beaten || meaning?.raced === true;
          const wait = raced ? Math.random() * racePause * 2 ** Math.min(races, 4) : pause * (0.5 + Math.random() / 2);
          if (error instanceof TooLate || monotonic(clock) + wait >= deadline) {
            const told = raced || isOurs(last) ? undefined : dialect.meaningOf(last);
            throw told === undefined || told.raced || unclear
              ? silentError(place, operationTimeout, unclear, raced ? new Error("others were faster") : last)
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

/** A function of its own, since the compiler believes that nothing is assigned in a callback. */
function isUnclear(tx: Transaction | undefined): boolean {
  return tx?.unclear === true;
}

async function driverOf(
  dialect: Dialect,
  client: object | undefined,
): Promise<(target: Parameters<Dialect["connect"]>[1]) => Connecting> {
  try {
    const driver = await dialect.load(client);
    return (target) => dialect.connect(driver, target);
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      `A registry in ${dialect.title} needs a driver that is not installed: run \`npm install ${dialect.driver}\`.`,
      {},
      { cause },
    );
  }
}
