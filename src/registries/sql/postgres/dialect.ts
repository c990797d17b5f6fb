import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type pg from "pg";
import {
  type TransactionEdges,
  type Dialect,
  type SqlResult,
  type SqlRow,
  type SqlConnection,
  type SqlStatement,
  type SqlTarget,
  Unconfirmed,
  type SqlValue,
} from "../dialect.ts";
import { driverMissing } from "../../driver-missing.ts";
import { integerLiteral, named, sessionStatements, withLiterals } from "../statements.ts";
import { poolConfig } from "./client.ts";
import { meaningOf } from "./errors.ts";

type PgDriver = Pick<typeof pg, "Client">;

type PgAnswer = pg.QueryResult<SqlRow>;

/** A client, with the properties that its type leaves out. */
type PgClient = pg.Client & { ref(): void; unref(): void; readonly connection: { readonly stream: Duplex } };

const statement = sessionStatements("postgres");

/** PostgreSQL 13 and newer. */
export const postgres: Dialect = {
  kind: "postgres",
  title: "PostgreSQL",
  meaningOf,

  async load(client) {
    try {
      return client ?? (await import("pg")).default;
    } catch (cause) {
      throw driverMissing("PostgreSQL", "pg", cause);
    }
  },

  connection: (driver, target) => new PostgresConnection(driver as PgDriver, target),

  sameServer(stored, seen) {
    const [cluster = "", timeline] = stored.split("/");
    const [seenCluster = "", seenTimeline] = seen.split("/");
    // Not every user may read the cluster's number.
    return timeline === seenTimeline && (cluster === "" || seenCluster === "" || cluster === seenCluster);
  },

  dropsTables: () => true,

  durabilityOf({ fsync, full_page_writes: wholePages, standbys }) {
    if (fsync !== "on" || wholePages !== "on") {
      const durability =
        "Acknowledged writes survive kill -9 of this server, and may be lost with its machine (fsync or full_page_writes off).";
      return { durability, lossy: true };
    }
    const durability =
      standbys !== ""
        ? "Acknowledged writes survive kill -9 and power loss of this server and of its synchronous standbys; another server in its place starts a quarantine."
        : "Acknowledged writes survive kill -9 and power loss of this server; there is no synchronous standby, and another server in its place starts a quarantine.";
    return { durability };
  },
};

/** The types of columns: booleans, bytes, and integers up to 64 bits; any other type is read as text. */
const [booleanType, bytesType, numberTypes] = [16, 17, new Set([20, 21, 23])];

class PostgresConnection implements SqlConnection {
  readonly #client: PgClient;
  readonly #begin: string;
  usable = true;
  /** Whether the server warned since the last commit began. The important warning says that the server did not wait for a standby. */
  #warned = false;
  names: Readonly<Record<string, string>> = {};

  constructor(driver: PgDriver, target: SqlTarget) {
    const { client: pool, host, port, user, password, database, tls, ca, cert, key, operationTimeout } = target;
    const ssl = tls && {
      rejectUnauthorized: true,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && key !== undefined && { cert, key }),
    };
    const own: pg.ClientConfig = { host, port, user, password, database, ssl };
    const { stream = () => new Socket(), ...config } = pool === undefined ? own : poolConfig(pool);
    this.#client = new driver.Client({ ...config, database, stream, application_name: "snowlease" }) as PgClient;
    this.#begin = named(statement("begin"), { timeout: String(operationTimeout) });
    this.#client.on("error", () => (this.usable = false));
    this.#client.on("end", () => (this.usable = false));
    // The severity is in the server's language. The code of a plain notice has the class 00.
    this.#client.on("notice", ({ code }) => (this.#warned ||= code?.startsWith("00") !== true));
  }

  async open(): Promise<void> {
    await this.#client.connect();
    const [answer] = await this.run([{ text: statement("open"), parameters: {} }], {});
    const [{ standby, tells_system, encoding } = {} as SqlRow] = answer?.rows ?? [];
    if (standby === true) throw refused("25006", "the server is a standby");
    if (encoding !== "UTF8") throw refused("22P05", `the database has the encoding ${String(encoding)}`);
    this.names = { identity: statement(tells_system === true ? "identity" : "identity-in-part") };
  }

  async run(statements: readonly SqlStatement[], { begins, commits }: TransactionEdges): Promise<readonly SqlResult[]> {
    const texts = statements.map((one) => {
      const text = withLiterals(one, literal);
      return one.swaps ? named(statement("one-row"), { statement: text }) : text;
    });
    const all = [...(begins ? [this.#begin] : []), ...texts, ...(commits ? [statement("commit")] : [])];
    const types = { getTypeParser: (type: number) => this.#reader(type) };
    this.#warned = false;
    const answer: PgAnswer | PgAnswer[] = await this.#client.query<SqlRow>({ text: all.join(";\n"), types });
    const answers = Array.isArray(answer) ? answer : [answer];
    if (commits) {
      if (answers.pop()?.command !== "COMMIT") throw refused("40000", "the transaction was rolled back");
      if (this.#warned) throw new Unconfirmed("committed here only, without its standby");
    }
    return answers.slice(answers.length - texts.length).map(({ rows, rowCount }) => ({ rows, count: rowCount ?? 0 }));
  }

  async rollback(): Promise<void> {
    await this.#client.query(statement("rollback"));
  }

  hold(held: boolean): void {
    if (held) this.#client.ref();
    else this.#client.unref();
  }

  destroy(): void {
    const usable = this.usable;
    this.usable = false;
    // Log off if possible, but do not wait for the answer.
    if (usable) this.#client.end().catch(() => undefined);
    const { stream } = this.#client.connection;
    if (stream instanceof Socket) stream.destroySoon();
    else stream.destroy();
  }

  #reader(type: number): (text: string) => SqlRow[string] {
    if (numberTypes.has(type)) return Number;
    if (type === booleanType) return (text) => text === "t";
    if (type === bytesType) return this.#client.getTypeParser(bytesType) as (text: string) => SqlValue;
    return (text) => text;
  }
}

/**
 * A value as a literal. The server's settings for backslashes do not matter to it. A text has no function around it, because the server
 * would then use no index.
 */
export function literal(value: SqlValue): string {
  if (value instanceof Uint8Array) return `decode('${Buffer.from(value).toString("hex")}', 'hex')`;
  if (typeof value !== "string") return integerLiteral(value);
  if (value.includes("\0")) throw refused("22021", "a text with a character 0");
  return `E'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
}

/** An error as the server would report it. */
function refused(code: string, message: string): Error {
  return Object.assign(new Error(message), { severity: "ERROR", code });
}
