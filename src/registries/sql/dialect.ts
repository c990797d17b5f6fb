import type { ErrorCode } from "../../id/errors.ts";
import type { Durability } from "../../rule/registry.ts";
import type { SqlSettings } from "./settings.ts";

/** A value of a parameter. */
export type SqlValue = number | string | Uint8Array | null;

/** What a driver has read, by column name in lower case. */
export type SqlRow = Readonly<Record<string, SqlValue | boolean>>;

/** The parameters of a statement by name: `:host` is `host`. */
export type SqlParameters = Readonly<Record<string, SqlValue | undefined>>;

/** A statement with its parameters. */
export interface SqlStatement {
  readonly text: string;
  readonly parameters: SqlParameters;
  /** It has to change exactly one row: otherwise the transaction is beaten. */
  readonly swaps?: boolean;
}

/** The answer to a commit leaves open whether it lasts: the server did not wait for its standby, or was cut off from its cluster. */
export class Unconfirmed extends Error {}

/** What goes around the statements of one round trip. */
export interface TransactionEdges {
  /** A transaction begins before them: READ COMMITTED, and as durable as a session may ask for. */
  readonly begins?: boolean;
  /** The transaction is committed behind them, where none of them fails. */
  readonly commits?: boolean;
}

/** The result of a statement. */
export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** How many rows it changed; of an UPDATE, how many it found. */
  readonly count: number;
}

/** One connection. It throws the driver's errors: see `Dialect.meaningOf`. */
export interface SqlConnection {
  /** Connects, logs in, and sets the session up: once, before all else. */
  open(): Promise<void>;
  /** Expressions of this server, for the names in braces in statements. */
  readonly names: Readonly<Record<string, string>>;
  /**
   * Runs statements in their order, up to the first that fails: in one round trip where the server takes several at once.
   * @throws Beaten where the driver counts another number of rows than a statement has to change; Unconfirmed.
   */
  run(statements: readonly SqlStatement[], around: TransactionEdges): Promise<readonly SqlResult[]>;
  /** Where the server answers this, nothing that was still open is committed. */
  rollback(): Promise<void>;
  /** `held`: the connection keeps the process alive. */
  hold(held: boolean): void;
  /** Whether it can run statements. */
  readonly usable: boolean;
  /** Closes it at once, also while it opens and in the middle of a statement. */
  destroy(): void;
}

/** Where to connect to. */
export interface SqlTarget extends SqlSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Deadline of one operation, ms. The server ends a transaction after that time. */
  readonly operationTimeout: number;
  /** A ready client that knows how to connect there. */
  readonly client?: object | undefined;
}

/** The meaning of a server's error. With any of them, nothing was committed. */
export interface SqlErrorMeaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
  /** The state may pass: a later attempt may succeed. */
  readonly passes?: true;
  /** Another transaction was faster: the operation reads again. */
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
  /** Where its certificates are named, for messages. Default: in the URL. */
  readonly certificates?: string;
  /** Loads the driver, unless a ready client brings it. Rejects with DRIVER_MISSING. */
  load(client: object | undefined): Promise<unknown>;
  /** A connection that is not open yet. `driver`: the result of `load`. */
  connection(driver: unknown, target: SqlTarget): SqlConnection;
  /** The meaning of an error of the server. Undefined for any other error: whether the operation was done is then unknown. */
  meaningOf(error: unknown): SqlErrorMeaning | undefined;
  /** Whether two identities name the same server and data. */
  sameServer(stored: string, seen: string): boolean;
  /** Whether the servers of the first identity went on as those of the second, and forgot nothing: it is stored in its place. */
  goesOn?(stored: string, seen: string): boolean;
  /**
   * Whether the tables of a namespace that is gone can be dropped under a lock on them, so that none of its name is made anew in them
   * meanwhile. Absent: no. `identity`: of the server.
   */
  dropsTables?(identity: string): boolean;
  /** What acknowledged writes survive, from the statement `session.durability`. */
  durabilityOf(row: SqlRow): Durability;
}
