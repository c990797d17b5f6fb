import { connect, isIP, type Socket } from "node:net";
import type mysql2 from "mysql2";
import {
  type TransactionEdges,
  type Dialect,
  type SqlResult,
  type SqlRow,
  type SqlConnection,
  type SqlStatement,
  type SqlTarget,
  type SqlValue,
  Unconfirmed,
} from "../dialect.ts";
import { whereOf } from "../../url.ts";
import { driverMissing } from "../../driver-missing.ts";
import { integerLiteral, named, sessionStatements, withLiterals } from "../statements.ts";
import { poolConfig } from "./client.ts";
import { checkCluster, checkPrimaries, clusterOf, galera, goesOn, isClusterNode } from "./cluster.ts";
import { isUnclear, meaningOf } from "./errors.ts";

type MysqlDriver = typeof mysql2;

const statement = sessionStatements("mysql");

/** The identity of a MySQL. */
const serverUuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** How long the server keeps an idle session, s. A running client closes it much sooner. */
const idleTimeout = 60;

/** MySQL 8.0 and newer, MariaDB 10.6 and newer. */
export const mysql: Dialect = {
  kind: "mysql",
  title: "MySQL",
  meaningOf,

  async load() {
    try {
      return (await import("mysql2")).default;
    } catch (cause) {
      throw driverMissing("MySQL", "mysql2", cause);
    }
  },

  connection: (driver, target) => new MysqlConnection(driver as MysqlDriver, target),

  sameServer: (stored, seen) => stored === seen,
  goesOn,
  // Only for a single MariaDB: locks do not exist on the other nodes of its clusters, nor on the next primary of a group of MySQL.
  dropsTables: (identity) => !identity.startsWith(galera) && !serverUuid.test(identity),

  durabilityOf({ flush_log: flushLog, log_bin: logBin, sync_binlog: syncLog, identity }) {
    if (clusterOf(String(identity)) !== undefined) {
      const all =
        flushLog === 1
          ? "and kill -9 and power loss of all nodes that are set up like this one (innodb_flush_log_at_trx_commit=1)"
          : "and may be lost with all nodes at once (innodb_flush_log_at_trx_commit is not 1)";
      const durability = `Acknowledged writes survive the loss of this node while its cluster goes on, ${all}; a cluster that is formed anew starts a quarantine.`;
      return { durability, lossy: flushLog !== 1 };
    }
    let lossy = true;
    let survives = "kill -9 and power loss of this server (innodb_flush_log_at_trx_commit=1)";
    if (flushLog !== 1) {
      survives = "the end of the client, and may be lost with this server (innodb_flush_log_at_trx_commit is not 1)";
    } else if (logBin !== 0 && syncLog !== 1) {
      survives = "kill -9 of this server, and may be lost with its machine (sync_binlog is not 1)";
    } else lossy = false;
    const durability = `Acknowledged writes survive ${survives}; another server in its place starts a quarantine, and a replica that lags may lack them.`;
    return { durability, lossy };
  },
};

function targetConfig({
  host,
  port,
  user,
  password,
  database,
  tls,
  ca,
  cert,
  key,
}: SqlTarget): mysql2.ConnectionOptions {
  const ssl = {
    rejectUnauthorized: true,
    verifyIdentity: true,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && key !== undefined && { cert, key }),
  };
  const login = { ...(user !== undefined && { user }), ...(password !== undefined && { password }) };
  const place = host.startsWith("/") ? { socketPath: host } : { host, port };
  const stream = tls && isIP(host) !== 0 && { stream: () => numberedSocket(host, port) };
  return { ...place, ...login, database, ...(tls && { ssl }), ...stream };
}

/**
 * A socket to an address without a name. Node checks the certificate against the name of the socket, or against `localhost` if it has none.
 */
function numberedSocket(host: string, port: number): Socket {
  return Object.assign(connect({ host, port, noDelay: true, keepAlive: true }), { _host: host });
}

class MysqlConnection implements SqlConnection {
  readonly #connection: mysql2.Connection & { readonly stream?: Socket };
  readonly #lockTimeout: number;
  /** For messages. */
  readonly #where: string;
  usable = true;
  names: Readonly<Record<string, string>> = {};

  constructor(driver: MysqlDriver, target: SqlTarget) {
    const { client, operationTimeout } = target;
    this.#where = whereOf([target]);
    this.#connection = driver.createConnection({
      ...(client === undefined ? targetConfig(target) : poolConfig(client)),
      connectTimeout: operationTimeout,
      charset: "utf8mb4",
      supportBigNumbers: true,
      dateStrings: true,
      multipleStatements: true,
    });
    this.#lockTimeout = Math.max(1, Math.floor(operationTimeout / 1000));
    for (const event of ["error", "end"]) this.#connection.on(event, () => (this.usable = false));
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#connection.connect((error) => (error === null || error === undefined ? resolve() : reject(error)));
    });
    const timeouts = { lock_timeout: String(this.#lockTimeout), idle_timeout: String(idleTimeout) };
    const texts = [
      named(statement("open"), timeouts),
      statement("isolation"),
      statement("server"),
      statement("settings"),
    ];
    const [, , server, found] = await this.#all(...texts);
    const isMaria = /mariadb/i.test(String(server?.[0]?.["server_version"]));
    const settings = new Map(found?.map((row) => [String(row["Variable_name"]), String(row["Value"])]));
    checkPrimaries(settings, isMaria, this.#where);
    if (settings.get("binlog_format") === "STATEMENT") {
      await this.#all(statement("log-rows")).catch((error: unknown) => {
        if (meaningOf(error)?.code !== "FORBIDDEN") throw error;
      });
    }
    const isNode = isClusterNode(settings);
    const identity = statement(isNode ? "identity-of-cluster" : isMaria ? "identity-in-part" : "identity");
    this.names = { ...timeouts, identity };
    if (!isNode) return;
    const [rows] = await this.#all(named(statement("cluster"), this.names), statement("read-latest"));
    checkCluster(rows?.[0], this.#where);
  }

  async run(statements: readonly SqlStatement[], { begins, commits }: TransactionEdges): Promise<readonly SqlResult[]> {
    const texts = begins ? [statement("begin")] : [];
    const places = statements.map((one) => {
      const place = texts.push(withLiterals(one, literal)) - 1;
      if (one.swaps) texts.push(statement("one-row"));
      return place;
    });
    if (commits) texts.push(statement("commit"));
    const answer = await this.#query(texts.join(";\n")).catch((error: unknown) => {
      throw commits && isUnclear(error) ? new Unconfirmed(error.message, { cause: error }) : error;
    });
    const answers = (texts.length > 1 ? answer : [answer]) as unknown[];
    return places.map((place) => resultOf(answers[place]));
  }

  /** The rows of each of these statements, in one round trip. */
  async #all(...texts: string[]): Promise<readonly (readonly SqlRow[])[]> {
    const answers = await this.run(
      texts.map((text) => ({ text, parameters: {} })),
      {},
    );
    return answers.map(({ rows }) => rows);
  }

  async rollback(): Promise<void> {
    await this.#query(statement("rollback"));
  }

  #query(sql: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#connection.query({ sql }, (error, answer) => {
        if (error === null) return resolve(answer);
        if (error.fatal) this.usable = false;
        // This property contains the whole statement, with its tokens.
        delete (error as { sql?: string }).sql;
        reject(error);
      });
    });
  }

  hold(held: boolean): void {
    if (held) this.#connection.stream?.ref();
    else this.#connection.stream?.unref();
  }

  destroy(): void {
    this.usable = false;
    this.#connection.destroy();
  }
}

function resultOf(answer: unknown): SqlResult {
  if (Array.isArray(answer)) return { rows: answer as readonly SqlRow[], count: 0 };
  return { rows: [], count: (answer as mysql2.ResultSetHeader).affectedRows };
}

/**
 * A value as a literal in hex digits, so that the server's settings for quotes and backslashes do not matter. The driver would send bound
 * integers as DOUBLE.
 */
export function literal(value: SqlValue): string {
  if (typeof value === "string") return `_utf8mb4 X'${Buffer.from(value, "utf8").toString("hex")}'`;
  if (value instanceof Uint8Array) return `X'${Buffer.from(value).toString("hex")}'`;
  return integerLiteral(value);
}
