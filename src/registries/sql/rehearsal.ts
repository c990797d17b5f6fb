import { unusedRecord } from "../../rule/pin.ts";
import { together } from "../together.ts";
import { rowOf, take } from "./assign.ts";
import { conditions, type SqlNamespace } from "./namespace.ts";
import { columnsOf, endedColumns, inPool } from "./records.ts";
import { drawVersion } from "./version.ts";

/** Rolls back a transaction whose statements all succeeded. */
class TakenBack extends Error {}

/** A worker ID that is in no pool. */
const workerId = -1;

/** Writes what a claim, its renewal and its release write, and rolls all of it back. This shows missing rights and other obstacles. */
export async function rehearse(state: SqlNamespace): Promise<void> {
  const { clock, made, tx } = state;
  const holder = { host: "doctor", ip: "", pid: 0, instance: "" };
  const token = crypto.randomUUID();
  const claim = { fence: 1, token, renewals: 1, turn: token, era: made.era.era, from: clock, until: clock };
  const record = { ...unusedRecord(workerId), ...claim, holder, claimedAt: clock };
  const columns = { ...columnsOf(record, inPool), ...conditions(state) };
  const ended = { workerId, fence: 1, from: clock, until: clock, holder, claimedAt: clock, endedAt: clock } as const;
  const row = rowOf(holder);
  const entry = { name: "next:rehearsal", value: "0" };
  const version = drawVersion();
  const work = tx.atomically(async () => {
    await together([
      tx.change("meta.add", { ...entry, new_version: version }),
      tx.swap("record.add", { ...columns, new_version: version }),
      take(tx, record, undefined),
      tx.change("history.add", endedColumns({ ...ended, end: "taken-over" }, true)),
    ]);
    await together([
      tx.swap("meta.set", { ...entry, version }),
      tx.swap("record.put", { ...columns, version }),
      take(tx, record, row),
      tx.change("history.supersede", { worker_id: workerId, fence: 1 }),
      tx.change("assign.remove", { worker_id: workerId, ...row }),
    ]);
    throw new TakenBack();
  });
  await work.catch((error: unknown) => {
    if (!(error instanceof TakenBack)) throw error;
  });
}
