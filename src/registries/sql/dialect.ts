import type { ErrorCode } from "../../id/errors.ts";
import type { SqlSettings } from "./address.ts";

/** What a parameter may be, and what a column holds once a driver has read it. */
export type SqlValue = number | string | boolean | Uint8Array | null;

/** A row by column name, in lower case. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** The parameters of a statement by name: `:host` is `host`. */
export type SqlParameters = Readonly<Record<string, SqlValue | undefined>>;

/** A statement with what stands for its parameters. */
export interface SqlStatement {
  readonly text: string;
  readonly parameters: SqlParameters;
  /** It has to change one row: otherwise it fails, raced. */
  readonly swaps?: boolean;
}

/** Committed here, but the server says that it did not wait for whom it should have. */
export class Unconfirmed extends Error {}

/** What is done around statements. */
export interface TransactionEdges {
  /** They begin a transaction: READ COMMITTED, and as durable as a session may ask for. */
  readonly begins?: boolean;
  /** They end it, where none of them fails. */
  readonly commits?: boolean;
}

/** What a statement came to. */
export interface SqlResult {
  readonly rows: readonly SqlRow[];
  /** Rows that it changed; for an UPDATE those that it found. */
  readonly count: number;
}

/** One connection. Its errors are the driver's own: see `Dialect.meaningOf`. */
export interface SqlConnection {
  /** Expressions that depend on the server, for braces in statements. */
  readonly names: Readonly<Record<string, string>>;
  /**
   * Runs statements one after the other, up to the first that fails: in one round trip where the server takes several at once.
   * @throws Beaten where the server does not tell by itself that a row is not as it was; Unconfirmed.
   */
  run(statements: readonly SqlStatement[], around: TransactionEdges): Promise<readonly SqlResult[]>;
  /** What a server answers after that was not committed, whatever it was asked before. */
  rollback(): Promise<void>;
  /** Whether it keeps the program alive. */
  hold(held: boolean): void;
  /** Whether it can still be used. */
  readonly usable: boolean;
  /** Ends it at once, whatever it is doing. */
  destroy(): void;
}

/** Where to connect to. */
export interface SqlTarget extends SqlSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Deadline of one operation, ms: the server gives a transaction up after as long. */
  readonly operationTimeout: number;
  /** A ready client that knows how to connect there. */
  readonly client?: object | undefined;
}

/** What an error of a server means. In none of these cases was anything committed. */
export interface SqlErrorMeaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
  /** Whether the same may be asked again: soon it may be possible. */
  readonly passes?: true;
  /** Another transaction was faster: decide again. */
  readonly raced?: true;
  /** A table or column is not there: `snowlease init` makes it. */
  readonly missing?: true;
}

/** A kind of database. */
export interface Dialect {
  /** Its folder in `sql/`. */
  readonly kind: "mysql" | "oracle" | "postgres";
  /** For messages. */
  readonly title: string;
  /** The driver's package. */
  readonly driver: string;
  /** Loads the driver, unless a ready client brings it. Rejects where it is not installed. */
  load(client: object | undefined): Promise<unknown>;
  /** Begins to connect: a session that can be given up before it is ready. `driver`: what `load` gave. */
  connect(driver: unknown, target: SqlTarget): Connecting;
  /** What the server said, or undefined where it was not the server, or nothing is known of it: then what was done is not known. */
  meaningOf(error: unknown): SqlErrorMeaning | undefined;
  /** Whether two identities name the same server and data. */
  sameServer(stored: string, seen: string): boolean;
  /** What acknowledged writes survive, from the statement `session.promise`. */
  promiseOf(row: SqlRow): string;
}

/** A session that is on its way. */
export interface Connecting {
  readonly ready: Promise<SqlConnection>;
  /** Gives it up. */
  destroy(): void;
}
