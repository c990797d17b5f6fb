import type { StoreFile } from "../../store-file.ts";
import type { SqliteStatements } from "./statements.ts";

/** One transaction, from the moment at which it has the lock: then its clock is read, and its wait ends. */
export interface SqliteTransaction {
  /** The registry's clock, Unix ms. */
  readonly now: number;
  /** How long it waited for its turn, ms. */
  readonly waited: number;
  readonly sql: SqliteStatements;
  /** The open file, by which a holder tells this registry from another one. */
  readonly file: StoreFile | undefined;
  /** No window begins before this, Unix ms. */
  readonly earliest: number;
}

/** The code of one transaction. Synchronous, so that nothing else of this process runs in between. */
export type TransactionWork<Answer> = (transaction: SqliteTransaction) => Answer;
