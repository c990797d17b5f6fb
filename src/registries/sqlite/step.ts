import type { Note } from "../../rule/unknown-namespace.ts";
import type { Step } from "../in-one-step/store.ts";
import type { ClockReading } from "./clock-guard.ts";
import type { SqliteRow } from "./driver.ts";
import { eraColumns, eraOf, SqliteNamespace } from "./namespace.ts";
import type { SqliteTransaction } from "./transaction.ts";

/** A transaction as a step of one operation. `isFiled`: as of the namespace that a claim looked at. */
export function stepIn(
  transaction: SqliteTransaction,
  readClocks: () => ClockReading | undefined,
): Step & Pick<SqliteNamespace, "isFiled"> {
  const { sql, now, waited } = transaction;
  let namespace: SqliteNamespace | undefined;
  const open = (row: SqliteRow): SqliteNamespace => (namespace = new SqliteNamespace(transaction, row, readClocks));

  function note(name: string, { layout, ...era }: Note): void {
    sql.run("namespace.note", { name, layout: layout ?? null, ...eraColumns(era) });
  }

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
    names: (after, limit) => sql.all("namespace.names", { after, limit }).map((row) => String(row["name"])),
    noted(name) {
      const row = sql.get("namespace.noted", { name });
      return row && { ...eraOf(row), layout: row["layout"] === null ? undefined : String(row["layout"]) };
    },
    note,
    create(name, { info, era, receiptKey }) {
      const { id = null, layout, maxWindow, maxClockSkew } = info;
      const fixed = { layout, max_window: maxWindow, max_clock_skew: maxClockSkew, created_at: now };
      const row = sql.get("namespace.add", { name, id, receipt_key: receiptKey, ...fixed, ...eraColumns(era) });
      if (row === undefined) throw new Error(`the namespace ${name} could not be added`);
      sql.run("namespace.forget-note", { name });
      sql.run("namespace.add-gap", { namespace_id: row["namespace_id"] ?? null });
      return open(row);
    },
    drop(name, kept) {
      const row = sql.get("namespace.find", { name });
      const key = { namespace_id: row?.["namespace_id"] ?? null };
      sql.run("namespace.empty-worker", key);
      sql.run("namespace.empty-band", key);
      sql.run("namespace.empty-gap", key);
      sql.run("namespace.empty-history", key);
      sql.run("namespace.empty-namespace", key);
      if (kept === undefined) sql.run("namespace.forget-note", { name });
      else note(name, kept);
    },
  };
}
