import type { ErrorCode } from "../../id/errors.ts";
import type { Durability } from "../../rule/registry.ts";
import type { SqlSettings } from "./settings.ts";

/** A value of a parameter. */
export type SqlValue = number | string | Uint8Array | null;

/** A row that a driver has read, by column name in lower case. */
export type SqlRow = Readonly<Record<string, SqlValue | boolean>>;

/** The parameters of a statement by name: `:host` is `host`. */
export type SqlParameters = Readonly<Record<string, SqlValue | undefined>>;

/** A statement with its parameters. */
export interface SqlStatement {
  readonly text: string;
  readonly parameters: SqlParameters;
  /** The statement has to change exactly one row. Otherwise the transaction is beaten. */
  readonly swaps?: boolean;
}

/** The answer to a commit does not say whether it lasts: the server did not wait for its standby, or was cut off from its cluster. */
export class Unconfirmed extends Error {}

/** What surrounds the statements of one round trip. */
export interface TransactionEdges {
  /** A transaction begins before the statements: READ COMMITTED, with the highest durability that a session may ask for. */
  readonly begins?: boolean;
  /** The transaction is committed after the statements, if none of them fails. */
  readonly commits?: boolean;
}

/** The result of a statement. */
export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** How many rows the statement changed. For an UPDATE, how many it found. */
  readonly count: number;
}

/** One connection. It throws the driver's errors: see `Dialect.meaningOf`. */
export interface SqlConnection {
  /** Connects, logs in, and configures the session. Called once, before everything else. */
  open(): Promise<void>;
  /** The expressions of this server for the names in braces in statements. */
  readonly names: Readonly<Record<string, string>>;
  /**
   * Runs statements in their order, up to the first one that fails. This takes one round trip if the server accepts several at once.
   * @throws Beaten if the driver reports another count of changed rows than a statement requires. Unconfirmed.
   */
  run(statements: readonly SqlStatement[], around: TransactionEdges): Promise<readonly SqlResult[]>;
  /** If the server answers this, it has not committed the open transaction. */
  rollback(): Promise<void>;
  /** `held`: the connection keeps the process alive. */
  hold(held: boolean): void;
  /** Whether it can run statements. */
  readonly usable: boolean;
  /** Closes the connection at once, even while it opens or runs a statement. */
  destroy(): void;
}

/** The target of a connection. */
export interface SqlTarget extends SqlSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Deadline of one operation, ms. The server ends a transaction that takes longer. */
  readonly operationTimeout: number;
  /** A ready client that can connect there. */
  readonly client?: object | undefined;
}

/** The meaning of a server's error. With any of them, nothing was committed. */
export interface SqlErrorMeaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
  /** The state may pass. A later attempt may succeed. */
  readonly passes?: true;
  /** Another transaction was faster. The operation reads again. */
  readonly raced?: true;
  /** A table or column is missing: `snowlease init` creates it. */
  readonly missing?: true;
}

/** A kind of database. */
export interface Dialect {
  /** Its folder in `sql/`. */
  readonly kind: "mysql" | "oracle" | "postgres";
  /** For messages. */
  readonly title: string;
  /** The place that names the certificates, for messages. Default: the URL. */
  readonly certificates?: string;
  /** Loads the driver, unless a ready client brings it. Rejects with DRIVER_MISSING. */
  load(client: object | undefined): Promise<unknown>;
  /** A connection that is not open yet. `driver`: the result of `load`. */
  connection(driver: unknown, target: SqlTarget): SqlConnection;
  /** The meaning of an error of the server. Undefined for any other error: then the operation may have been done or not. */
  meaningOf(error: unknown): SqlErrorMeaning | undefined;
  /** Whether two identities name the same server and data. */
  sameServer(stored: string, seen: string): boolean;
  /** Whether the servers of the first identity became those of the second, and forgot nothing. If so, the second identity is stored. */
  goesOn?(stored: string, seen: string): boolean;
  /**
   * Whether the tables of a deleted namespace can be dropped under a lock on them. The lock prevents a new namespace of this name in these
   * tables. Absent: no. `identity`: the identity of the server.
   */
  dropsTables?(identity: string): boolean;
  /** Which faults acknowledged writes survive, from the statement `session.durability`. */
  durabilityOf(row: SqlRow): Durability;
}
