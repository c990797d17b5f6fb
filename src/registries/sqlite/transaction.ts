import type { StoreFile } from "../../store-file.ts";
import type { SqliteStatements } from "./statements.ts";

/** One transaction, from the moment at which it has the lock. */
export interface SqliteTransaction {
  readonly sql: SqliteStatements;
  /** The open file, by which a holder tells this registry from another one. */
  readonly file: StoreFile | undefined;
  /** No window begins before this, Unix ms. */
  readonly earliest: number;
  /** The registry's clock, read under the lock. */
  readonly now: number;
  /** How long the operation waited for its turn and the lock, on the monotonic clock, whole ms. */
  readonly waited: number;
}

/** The code of one transaction. Synchronous, so that nothing else of this process runs in between. */
export type TransactionWork<Answer> = (transaction: SqliteTransaction) => Answer;
