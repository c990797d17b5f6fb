import { droppedBeside } from "../../rule/drop.ts";
import { together } from "../compare-and-set/decide.ts";
import type { NamespaceDrop } from "../compare-and-set/store.ts";
import type { SqlSettings } from "./address.ts";
import type { SqlPlace } from "./errors.ts";
import { conditions, droppedLayoutEntry, setEntry, type SqlNamespace } from "./namespace-state.ts";
import { storedRowOf } from "./records.ts";
import { namesOf } from "./statements.ts";
import type { Transaction } from "./transaction.ts";

/** The tables of a namespace, in the order in which a trial's are deleted: without the last one there is no namespace. */
const tables = [
  ["window", "drop.window-table"],
  ["history", "drop.history-table"],
  ["assign", "drop.assign-table"],
  ["meta", "drop.meta-table"],
] as const;

/**
 * How a namespace ends. Its tables stay, without rows but for the note: `init` fills them again. `state`: the namespace as the attempt
 * has read it.
 */
export function sqlDrop(
  tx: Transaction,
  { namespace }: SqlPlace,
  state: () => SqlNamespace,
  { beside }: Pick<SqlSettings, "beside">,
): NamespaceDrop {
  return {
    async contents() {
      const { clock, beside: wasSeen } = state();
      if (beside !== undefined || wasSeen) throw droppedBeside(namespace);
      const row = await tx.get("drop.obstacle", { clock, limit: 1 });
      // A claim that runs at the same time may leave the first record: only its commit shows it.
      return { obstacle: row && storedRowOf(row).record, isUsed: true };
    },

    async drop({ era, quarantineEnd, opensAt, layout = "" }) {
      const present = state();
      const { clock } = present;
      await tx.write(() => [
        tx.swap("drop.begin", { value: era, clock, ...conditions(present) }),
        setEntry(present, "quarantineEnd", quarantineEnd),
        setEntry(present, "opensAt", opensAt),
        setEntry(present, droppedLayoutEntry, layout),
        tx.change("drop.windows", { clock }),
        tx.change("drop.history", {}),
        tx.change("drop.assign", {}),
        tx.change("drop.meta", {}),
      ]);
    },

    async dropFinally() {
      const names = namesOf(namespace);
      const found = await together(tables.map(([name]) => tx.get("meta.exists", { table_name: names[name] ?? "" })));
      for (const [i, [, statement]] of tables.entries()) {
        if (found[i]?.["present"] === 1) await tx.change(statement, {});
      }
    },
  };
}
