import type { NamespaceInfo } from "../../rule/limits.ts";
import type { StoreStep } from "../in-one-step/store.ts";
import type { Uptime } from "./clock-guard.ts";
import type { SqliteRow } from "./driver.ts";
import { SqliteNamespace } from "./namespace.ts";
import type { SqliteTransaction } from "./transaction.ts";

/** A transaction as a step of one operation. */
export class SqliteStep implements StoreStep {
  readonly now: number;
  readonly waited: number;
  readonly #transaction: SqliteTransaction;
  readonly #uptime: () => Uptime | undefined;
  #namespace: SqliteNamespace | undefined;

  constructor(transaction: SqliteTransaction, uptime: () => Uptime | undefined) {
    this.now = transaction.now;
    this.waited = transaction.waited;
    this.#transaction = transaction;
    this.#uptime = uptime;
  }

  /** False after a claim: some records of its pool are not filed yet, so that the claim did not see them. */
  get isFiled(): boolean {
    return this.#namespace?.isFiled !== false;
  }

  find(name: string): SqliteNamespace | undefined {
    const row = this.#transaction.sql.get("namespace.find", { name });
    return row && this.#open(row);
  }

  create(name: string, { layout, maxWindow, maxClockSkew }: NamespaceInfo): SqliteNamespace {
    const limits = { max_window: maxWindow, max_clock_skew: maxClockSkew };
    const row = this.#transaction.sql.get("namespace.add", { name, layout, ...limits, created_at: this.now });
    if (row === undefined) throw new Error(`the namespace ${name} could not be added`);
    this.#transaction.sql.run("namespace.add-gap", { namespace_id: row["namespace_id"] ?? null });
    return this.#open(row);
  }

  #open(row: SqliteRow): SqliteNamespace {
    this.#namespace = new SqliteNamespace(this.#transaction, row, this.#uptime);
    return this.#namespace;
  }
}
