import type { StoreFile } from "../../store-file.ts";
import type { SqliteStatements } from "./statements.ts";

/** One transaction, from the moment when it has the lock. Its clock is read at that moment, and its wait ends. */
export interface SqliteTransaction {
  /** The registry's clock, Unix ms. */
  readonly now: number;
  /** How long the operation waited for its turn, ms. */
  readonly waited: number;
  readonly sql: SqliteStatements;
  /** The open file. It shows a holder whether this is the same registry as before. */
  readonly file: StoreFile | undefined;
  /** No window begins before this, Unix ms. */
  readonly earliest: number;
}

/** The code of one transaction. It is synchronous, so no other code of this process runs in between. */
export type TransactionWork<Answer> = (transaction: SqliteTransaction) => Answer;
