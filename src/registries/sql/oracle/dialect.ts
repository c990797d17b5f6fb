import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import type oracledb from "oracledb";
import { shown, SnowleaseError } from "../../../id/errors.ts";
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
import { Beaten } from "../../engine/operate.ts";
import { driverMissing } from "../../driver-missing.ts";
import { named, placeholder, sessionStatements } from "../statements.ts";
import { cameToNothing, isAlreadyThere, meaningOf, oneLine } from "./errors.ts";

type OracleDriver = typeof oracledb;

const statement = sessionStatements("oracle");

/** How long a connection may take to log off, ms. */
const farewell = 1000;

/** Every setting of the driver that a program may have changed globally. */
const ofConnections = { connectionClass: "", edition: "", events: false, externalAuth: false, stmtCacheSize: 30 };
const ofStatements = {
  autoCommit: false,
  dbObjectAsPojo: false,
  fetchArraySize: 100,
  keepInStmtCache: true,
  maxRows: 0,
  prefetchRows: 2,
};

/** Oracle 19c and newer, through the driver's thin mode, without client libraries. */
export const oracle: Dialect = {
  kind: "oracle",
  title: "Oracle",
  certificates: "name authorities in NODE_EXTRA_CA_CERTS, or a wallet in `tlsCa`",
  meaningOf,

  async load() {
    try {
      return (await import("oracledb")).default;
    } catch (cause) {
      throw driverMissing("Oracle", "oracledb", cause);
    }
  },

  connection: (driver, target) => new OracleConnection(driver as OracleDriver, target),

  sameServer(stored, seen) {
    const [name, life = ""] = stored.split("/");
    const [seenName, seenLife = ""] = seen.split("/");
    // A switchover loses nothing: the name changes, the incarnation stays. For a user who may not read the incarnation, the names are
    // compared.
    return life !== "" && seenLife !== "" ? life === seenLife : name === seenName;
  },

  durabilityOf(row) {
    const survives = "Acknowledged writes survive kill -9 and power loss of this server (COMMIT WRITE IMMEDIATE WAIT)";
    const whole = !String(row["identity"]).endsWith("/");
    const durability = whole
      ? `${survives}; after a failover, a restore or a flashback of the database there is a quarantine, and a standby that lags may lack them.`
      : `${survives}; another database in its place starts a quarantine, and only the next renewal of a holder shows that one was restored or flashed back in place (this user may not read v$database).`;
    return { durability };
  },
};

/**
 * The connection that is being opened. The driver does not show its sockets, and waits for an answer before it closes a busy connection.
 */
const connecting = new AsyncLocalStorage<OracleConnection>();
subscribe("net.client.socket", (message) => {
  connecting.getStore()?.adopt((message as { readonly socket: Socket }).socket);
});

class OracleConnection implements SqlConnection {
  readonly #driver: OracleDriver;
  readonly #target: SqlTarget;
  #connection: oracledb.Connection | undefined;
  #socket: Socket | undefined;
  #running = 0;
  #ended = false;
  names: Readonly<Record<string, string>> = {};

  constructor(driver: OracleDriver, target: SqlTarget) {
    this.#driver = driver;
    this.#target = target;
  }

  /** Takes over a socket that the driver opened for this connection. A listener may redirect to another socket. */
  adopt(socket: Socket): void {
    this.#socket = socket;
    socket.on("error", () => undefined);
    if (this.#ended) this.#cut();
  }

  async open(): Promise<void> {
    await connecting.run(this, () => this.#connect());
    await this.#do("settings");
    const { identity, database_role: role, charset } = await this.#introduction();
    if (role !== null && role !== "PRIMARY") throw refused("ORA-16000", `the database is a ${String(role)}`);
    if (charset !== "AL32UTF8" && charset !== "UTF8") {
      throw refused("ORA-01482", `the database has the character set ${String(charset)}`);
    }
    const { schema } = this.#target;
    if (schema !== undefined) await this.#one({ text: named(statement("schema"), { schema }), parameters: {} });
    this.names = { identity: `'${String(identity).replaceAll("'", "''")}'` };
  }

  async #connect(): Promise<void> {
    const { host, port, user, password, database, tls, ca, cert, operationTimeout } = this.#target;
    if (!/^[\w.$#-]+$/.test(database)) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected the registry URL to end with the name of a service, like freepdb1.example.org, got ${shown(database)}.`,
      );
    }
    // The driver accepts certificates only together with a private key, as Oracle's wallets contain it.
    if (cert !== undefined || (ca !== undefined && !ca.includes("PRIVATE KEY-----"))) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        "Expected `tlsCa` of an Oracle registry to be a wallet (ewallet.pem with a private key) and neither `tlsCert` nor `tlsKey` beside it, since its driver takes no bare certificates; put the client's own ones into the wallet, and name those to trust in the environment variable NODE_EXTRA_CA_CERTS.",
      );
    }
    const place = `(ADDRESS=(PROTOCOL=${tls ? "tcps" : "tcp"})(HOST=${host})(PORT=${port}))`;
    this.#running++;
    try {
      this.#connection = await this.#driver.getConnection({
        ...ofConnections,
        user,
        password,
        connectString: `(DESCRIPTION=${place}(CONNECT_DATA=(SERVICE_NAME=${database})))`,
        // In whole seconds. The deadline of the operation comes first.
        connectTimeout: Math.ceil(operationTimeout / 1000),
        ...(ca !== undefined && { walletContent: ca }),
      });
      this.#connection.callTimeout = operationTimeout;
    } catch (error) {
      throw oneLine(error);
    } finally {
      this.#running--;
    }
  }

  /** What the server says about itself. A user who may read `v$database` learns more. */
  async #introduction(): Promise<SqlRow> {
    const ask = async (identity: string): Promise<SqlRow> => {
      const text = named(statement("open"), { identity: statement(identity) });
      return (await this.#one({ text, parameters: {} })).rows[0] ?? {};
    };
    try {
      return await ask("identity");
    } catch (error) {
      const code = meaningOf(error)?.code;
      if (code !== "SCHEMA_INCOMPATIBLE" && code !== "FORBIDDEN") throw error;
      return ask("identity-in-part");
    }
  }

  get usable(): boolean {
    return !this.#ended && this.#socket?.destroyed !== true;
  }

  /** A transaction begins with the first change, as READ COMMITTED. If the server has another default, that is as safe, but slower. */
  async run(statements: readonly SqlStatement[], { commits }: TransactionEdges): Promise<readonly SqlResult[]> {
    const results: SqlResult[] = [];
    for (const statement of statements) {
      const result = await this.#one(statement);
      if (statement.swaps && result.count !== 1) throw new Beaten("a row is not as it was");
      results.push(result);
    }
    if (commits) await this.#commit();
    return results;
  }

  /** An error does not say whether the commit was done: the call may have been interrupted, or the error may come after the commit. */
  async #commit(): Promise<void> {
    try {
      await this.#do("commit");
    } catch (cause) {
      throw new Unconfirmed(cause instanceof Error ? cause.message : "", { cause });
    }
  }

  async #one({ text, parameters }: SqlStatement): Promise<SqlResult> {
    if (this.#connection === undefined || this.#ended) throw new Error("the connection was closed");
    const bound = Object.fromEntries(
      [...text.matchAll(placeholder)].map(([, name = ""]) => [name, this.#bind(name, parameters[name] ?? null)]),
    );
    this.#running++;
    try {
      const { rows, metaData, rowsAffected } = await this.#connection.execute<SqlValue[]>(text, bound, {
        ...ofStatements,
        outFormat: this.#driver.OUT_FORMAT_ARRAY,
        fetchTypeHandler: ({ dbType }) => this.#typeOf(dbType),
      });
      const names = (metaData ?? []).map(({ name }) => name.toLowerCase());
      const named = (cells: SqlValue[]): SqlRow => Object.fromEntries(cells.map((cell, i) => [names[i] ?? "", cell]));
      return { rows: (rows ?? []).map(named), count: rowsAffected ?? 0 };
    } catch (error) {
      // Oracle has no IF NOT EXISTS before version 23.
      if (/^CREATE\s/.test(text) && isAlreadyThere(error)) return { rows: [], count: 0 };
      if (cameToNothing(error)) this.#cut();
      throw oneLine(error);
    } finally {
      this.#running--;
    }
  }

  /** The type in which the driver reads a column: a BLOB as bytes, any other column as it is. */
  #typeOf(dbType: oracledb.DbType | undefined): oracledb.FetchTypeResponse | undefined {
    const { BUFFER, DB_TYPE_BLOB } = this.#driver;
    return dbType && { type: dbType === DB_TYPE_BLOB ? BUFFER : dbType };
  }

  /** A value with its type, because the driver cannot guess the type of NULL. */
  #bind(name: string, value: SqlValue): oracledb.BindParameter {
    const { BUFFER, NUMBER, STRING } = this.#driver;
    if (value instanceof Uint8Array) return { type: BUFFER, val: Buffer.from(value) };
    if (value === null) return { type: name === "recents" ? BUFFER : STRING, val: null };
    if (typeof value === "string") return { type: STRING, val: value };
    return { type: NUMBER, val: value };
  }

  async rollback(): Promise<void> {
    await this.#do("rollback");
  }

  async #do(name: string): Promise<void> {
    await this.#one({ text: statement(name), parameters: {} });
  }

  hold(held: boolean): void {
    if (held) this.#socket?.ref();
    else this.#socket?.unref();
  }

  destroy(): void {
    if (this.#ended) return;
    if (this.#connection === undefined || this.#running > 0 || !this.usable) return this.#cut();
    this.#ended = true;
    // Log off if possible, but do not wait for the answer.
    setTimeout(() => this.#cut(), farewell).unref();
    this.#connection.close().then(
      () => this.#cut(),
      () => this.#cut(),
    );
  }

  #cut(): void {
    this.#ended = true;
    // The driver notices this only through an error. Without one, it waits for a socket that connects, or logs off over a closed one.
    this.#socket?.destroy(new Error("it was given up"));
  }
}

/** An error as the server would report it. */
function refused(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
