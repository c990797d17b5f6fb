import { type ServerAddress, whereOf } from "../url.ts";
import { monotonic, systemClock } from "../../clock.ts";
import { isSnowleaseError } from "../../id/errors.ts";
import { tlsError } from "../client-tls.ts";
import type { Dialect } from "./dialect.ts";
import { type SqlPlace, serverError, silentError } from "./errors.ts";
import { TooLate, within } from "../deadline.ts";
import { SqlConnections, Unheard } from "./connections.ts";
import { readSqlSettings, type SqlSettings } from "./settings.ts";
import { loadSchema, loadStatements, type Names, namesOf, type SqlSchema } from "./statements.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { Transaction } from "./transaction.ts";
import { Beaten, Changed, Unanswered } from "../engine/operate.ts";

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
  readonly schema: SqlSchema;
  /** Of the tables of a namespace. */
  namesOf(namespace: string): Names;
  /**
   * Runs `work` with a connection; again where other writers were faster, where the server did not answer, or where its state may
   * pass. `repeatable`: whether another attempt may follow one with an unknown answer, and finds out by itself whether it was done.
   */
  execute<Answer>(
    namespace: string,
    options: { readonly repeatable: boolean },
    work: (attempt: SqlTry) => Promise<Answer>,
  ): Promise<Answer>;
  /** Runs `work` in another database of the server, over a connection for that alone. Rejects with any error of it. */
  visit<Answer>(database: string, namespace: string, work: (tx: Transaction) => Promise<Answer>): Promise<Answer>;
  close(): void;
}

/** Where the database is. */
export type SqlAddress = ServerAddress & { /** For people. */ readonly redacted: string };

/** Ignore waits below this, ms: normal network delay. */
const longestOnTheWay = 1000;

/** How long connecting may take before the next try, ms. A server with a full queue forgets clients that wait. */
const longestGreeting = 2000;

/** Longest pause before the second attempt, ms: after a lost race, and where the server does not answer. */
const [racePause, firstPause, longestPause] = [4, 25, 800];
/** Longest pause, as a part of the deadline, where that is longer: a server in front of a crowd needs fewer attempts. */
const pauseShare = 1 / 20;

const dialects: Readonly<Record<Dialect["kind"], () => Promise<Dialect>>> = {
  mysql: async () => (await import("./mysql/dialect.ts")).mysql,
  oracle: async () => (await import("./oracle/dialect.ts")).oracle,
  postgres: async () => (await import("./postgres/dialect.ts")).postgres,
};

/** @throws SnowleaseError CONFIG_INVALID, DRIVER_MISSING */
export async function openDatabase(
  address: SqlAddress,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<SqlDatabase> {
  const dialect = await dialects[address.kind as Dialect["kind"]]();
  const settings = readSqlSettings(address);
  const { user, password, client, servers, redacted } = address;
  const [{ host, port } = { host: "localhost", port: 0 }] = servers;
  const where = whereOf(servers);
  const target = { ...settings, host, port, user, password, operationTimeout, client };
  const driver = await dialect.load(client);
  const patience = Math.min(operationTimeout / 3, longestGreeting);
  const connections = new SqlConnections(() => dialect.connection(driver, target), settings.poolSize, patience, clock);
  const statements = loadStatements(dialect.kind);
  const certificates = client === undefined ? dialect.certificates : "set `ssl` of the client that you pass";
  const names = (namespace: string): Names => namesOf(namespace, { kind: dialect.kind, schema: settings.schema });

  return {
    dialect,
    where,
    settings,
    schema: loadSchema(dialect.kind),
    namesOf: names,

    async execute(namespace, { repeatable }, work) {
      const place: SqlPlace = { title: dialect.title, where, url: redacted, namespace };
      const tables = names(namespace);
      const begun = monotonic(clock);
      const deadline = begun + operationTimeout;
      let races = 0;
      let unclear = false;
      let last: unknown;
      for (let pause = firstPause; ;) {
        const attempt: { tx?: Transaction } = {};
        try {
          return await connections.use(
            deadline,
            (connection) => {
              attempt.tx = new Transaction(connection, statements, tables);
              const waited = Math.floor(monotonic(clock) - begun);
              return work({ tx: attempt.tx, place, races, waited: waited < longestOnTheWay ? 0 : waited });
            },
            () => attempt.tx?.settled === true,
          );
        } catch (thrown) {
          const error: unknown = thrown instanceof Unanswered ? thrown.cause : thrown;
          if (isSnowleaseError(error)) throw error;
          if (error instanceof Changed && monotonic(clock) < deadline) continue;
          // Once an answer is unknown, it stays unknown, whatever later attempts answer.
          unclear ||= attempt.tx?.unclear === true;
          const meaning = dialect.meaningOf(error);
          const untrusted =
            unclear || meaning !== undefined ? undefined : tlsError(`${place.title} ${where}`, error, certificates);
          if (untrusted !== undefined) throw untrusted;
          // An error of the server tells more than its silence at a later attempt.
          if (!(error instanceof TooLate || (error instanceof Unheard && last !== undefined))) last = error;
          const final = meaning !== undefined && !meaning.raced && !meaning.passes;
          if (unclear && (final || !repeatable)) throw silentError(place, operationTimeout, true, last);
          if (final) throw serverError(meaning, error, place);
          const raced = error instanceof Beaten || meaning?.raced === true;
          const wait = raced ? Math.random() * racePause * 2 ** Math.min(races, 4) : pause * (0.5 + Math.random() / 2);
          if (error instanceof TooLate || monotonic(clock) + wait >= deadline) {
            const told = raced ? undefined : dialect.meaningOf(last);
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

    async visit(name, namespace, work) {
      const connection = dialect.connection(driver, { ...target, database: name });
      const visited = connection.open().then(() => work(new Transaction(connection, statements, names(namespace))));
      return within(operationTimeout, visited).finally(() => connection.destroy());
    },

    close: () => connections.close(),
  };
}
