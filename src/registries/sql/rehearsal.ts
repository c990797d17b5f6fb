import { unusedRecord } from "../../rule/pin.ts";
import { rowOf, take } from "./assign.ts";
import { noteClaim, noteEnd } from "./history.ts";
import { poolName } from "./records.ts";
import type { SqlNamespace } from "./namespace-state.ts";
import { together } from "../together.ts";
import { drawVersion } from "./version.ts";
import { add, put } from "./write.ts";

/** Takes a transaction back whose statements all succeeded. */
class TakenBack extends Error {}

/** A number that is in no pool. */
const workerId = -1;

/**
 * Writes what a claim, its renewal and its release write, and takes all of it back: missing rights and other obstacles show.
 */
export async function rehearse(state: SqlNamespace): Promise<void> {
  const { clock, tx } = state;
  const holder = { host: "doctor", ip: "", pid: 0, instance: "" };
  const token = crypto.randomUUID();
  const claim = { fence: 1, token, renewals: 1, turn: token, era: state.era, from: clock, until: clock };
  const record = { ...unusedRecord(workerId), ...claim, holder, claimedAt: clock };
  const row = rowOf(holder);
  const name = poolName({ first: workerId, last: workerId });
  const version = drawVersion();
  const work = tx.atomically(async () => {
    await together([
      tx.change("meta.add", { name, value: name, new_version: version }),
      add(state, record, name, version),
      take(tx, record, undefined),
      noteClaim(tx, record, undefined),
    ]);
    await together([
      tx.swap("meta.set", { name, value: name, version }),
      put(state, { record, version, band: name, assignRow: row }, record),
      take(tx, record, row),
      noteEnd(tx, record, clock, "released"),
      tx.change("assign.remove", { worker_id: workerId, ...row }),
    ]);
    throw new TakenBack();
  });
  await work.catch((error: unknown) => {
    if (!(error instanceof TakenBack)) throw error;
  });
}
