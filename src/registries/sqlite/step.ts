import type { Step } from "../in-one-step/store.ts";
import type { Uptime } from "./clock-guard.ts";
import type { SqliteRow } from "./driver.ts";
import { eraColumns, eraOf, SqliteNamespace } from "./namespace.ts";
import type { SqliteTransaction } from "./transaction.ts";

/** A transaction as a step of one operation. `isFiled`: as of the namespace that a claim looked at. */
export function stepIn(
  transaction: SqliteTransaction,
  uptime: () => Uptime | undefined,
): Step & Pick<SqliteNamespace, "isFiled"> {
  const { sql, now, waited } = transaction;
  let namespace: SqliteNamespace | undefined;
  const open = (row: SqliteRow): SqliteNamespace => (namespace = new SqliteNamespace(transaction, row, uptime));

  return {
    now,
    waited,
    get isFiled() {
      return namespace?.isFiled !== false;
    },
    find(name) {
      const row = sql.get("namespace.find", { name });
      return row && open(row);
    },
    noted(name) {
      const row = sql.get("namespace.noted", { name });
      return row && eraOf(row);
    },
    note: (name, era) => void sql.run("namespace.note", { name, ...eraColumns(era) }),
    create(name, { info, era, receiptKey }) {
      const { id = null, layout, maxWindow, maxClockSkew } = info;
      const fixed = { layout, max_window: maxWindow, max_clock_skew: maxClockSkew, created_at: now };
      const row = sql.get("namespace.add", { name, id, receipt_key: receiptKey, ...fixed, ...eraColumns(era) });
      if (row === undefined) throw new Error(`the namespace ${name} could not be added`);
      sql.run("namespace.forget-note", { name });
      sql.run("namespace.add-gap", { namespace_id: row["namespace_id"] ?? null });
      return open(row);
    },
    remove(name) {
      const namespace_id = sql.get("namespace.find", { name })?.["namespace_id"] ?? null;
      for (const name of ["erase.gaps", "erase.bands", "erase.namespace"]) sql.run(name, { namespace_id });
    },
  };
}
