import { type ServerAddress, whereOf } from "../url.ts";
import { monotonic, systemClock } from "../../clock.ts";
import { isSnowleaseError } from "../../id/errors.ts";
import { tlsError } from "../client-tls.ts";
import type { Dialect } from "./dialect.ts";
import { type SqlPlace, serverError, silentError } from "./errors.ts";
import { within } from "../deadline.ts";
import { SqlConnections } from "./connections.ts";
import { readSqlSettings, type SqlSettings } from "./settings.ts";
import { loadSchema, loadStatements, type Names, namesOf, type SqlSchema } from "./statements.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { Transaction } from "./transaction.ts";
import { Beaten, Changed, operate, type Operated, Unanswered } from "../engine/operate.ts";

/** The tools of one attempt at an operation. */
export interface SqlTools {
  readonly tx: Transaction;
  readonly place: SqlPlace;
}

/** A database that runs operations, each within its deadline. */
export interface SqlDatabase extends Operated {
  readonly dialect: Dialect;
  /** Host and port, for messages. */
  readonly where: string;
  readonly settings: SqlSettings;
  readonly schema: SqlSchema;
  /** The names of a namespace's tables. */
  namesOf(namespace: string): Names;
  /**
   * Runs the work of one attempt, on a connection that nothing else uses meanwhile.
   * @throws Beaten, Changed, Unanswered, SnowleaseError
   */
  attempt<Answer>(namespace: string, deadline: number, work: (tools: SqlTools) => Promise<Answer>): Promise<Answer>;
  /** Runs an operation as such attempts. */
  execute<Answer>(
    namespace: string,
    options: { readonly repeatable: boolean },
    work: (tools: SqlTools) => Promise<Answer>,
  ): Promise<Answer>;
  /** Runs `work` in another database of the server, on a connection that nothing else uses. Rejects with any of its errors. */
  visit<Answer>(database: string, namespace: string, work: (tx: Transaction) => Promise<Answer>): Promise<Answer>;
  close(): void;
}

/** Where the database is. */
export type SqlAddress = ServerAddress & { /** For people. */ readonly redacted: string };

/** How long connecting may take before the next attempt, ms. A server whose queue is full forgets waiting clients. */
const longestGreeting = 2000;

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
  const title = `${dialect.title} ${where}`;
  const target = { ...settings, host, port, user, password, operationTimeout, client };
  const driver = await dialect.load(client);
  const patience = Math.min(operationTimeout / 3, longestGreeting);
  const connections = new SqlConnections(() => dialect.connection(driver, target), settings.poolSize, patience, clock);
  const statements = loadStatements(dialect.kind);
  const certificates = client === undefined ? dialect.certificates : "set `ssl` of the client that you pass";
  const names = (namespace: string): Names => namesOf(namespace, { kind: dialect.kind, schema: settings.schema });

  /** What an error means for the operation. `wrote`: a commit has no answer. */
  function failure(cause: unknown, place: SqlPlace, wrote: boolean): unknown {
    if (isSnowleaseError(cause) || cause instanceof Changed || cause instanceof Unanswered) return cause;
    if (wrote) return new Unanswered("the answer to a commit was lost", { cause });
    const meaning = dialect.meaningOf(cause);
    if (cause instanceof Beaten || meaning?.raced === true)
      return new Beaten("another transaction was faster", { cause });
    const told = meaning === undefined ? tlsError(title, cause, certificates) : serverError(meaning, cause, place);
    const lasts = told !== undefined && meaning?.passes !== true;
    return new Unanswered("the attempt came to no end", { cause, wrote: false, told, lasts });
  }

  const database: SqlDatabase = {
    title,
    clock,
    operationTimeout,
    dialect,
    where,
    settings,
    schema: loadSchema(dialect.kind),
    namesOf: names,
    silent: ({ cause }, isUnknown) => silentError(title, operationTimeout, isUnknown, cause),

    async attempt(namespace, deadline, work) {
      const place: SqlPlace = { title: dialect.title, where, url: redacted, namespace };
      const connection = await connections.take(deadline).catch((error: unknown) => {
        throw failure(error, place, false);
      });
      const tx = new Transaction(connection, statements, names(namespace));
      try {
        return await within(Math.max(1, deadline - monotonic(clock)), work({ tx, place }));
      } catch (error) {
        throw failure(error, place, tx.unclear);
      } finally {
        connections.giveBack(connection, tx.settled);
      }
    },

    execute: (namespace, options, work) =>
      operate(database, options, ({ deadline }) => database.attempt(namespace, deadline, work)),

    async visit(name, namespace, work) {
      const connection = dialect.connection(driver, { ...target, database: name });
      const visited = connection.open().then(() => work(new Transaction(connection, statements, names(namespace))));
      return within(operationTimeout, visited).finally(() => connection.destroy());
    },

    close: () => connections.close(),
  };
  return database;
}
