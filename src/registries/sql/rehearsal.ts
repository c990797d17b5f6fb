import { unusedRecord } from "../../rule/pin.ts";
import { rowOf } from "./assign.ts";
import { noteClaim, noteEnd } from "./history.ts";
import { poolName } from "./records.ts";
import type { Space } from "./namespace-state.ts";
import { together, type Unit } from "./transaction.ts";
import { add, put } from "./write.ts";

/** Ends a transaction that came to its end, so that nothing of it stays. */
class TakenBack extends Error {}

/** The number of no pool. */
const nobodys = -1;

/**
 * Writes what a claim, its renewal and its release write, and takes all of it back: rights on the tables, and what else may stand in
 * the way of a write there.
 */
export async function rehearse(unit: Unit, space: Space): Promise<void> {
  const { clock } = space;
  const holder = { host: "doctor", ip: "", pid: 0, instance: "" };
  const token = crypto.randomUUID();
  const record = { ...unusedRecord(nobodys), fence: 1, token, from: clock, until: clock, holder, claimedAt: clock };
  const row = rowOf(holder);
  const { pid, ip, hostname } = row;
  const columns = { worker_id: nobodys, pid, ip, hostname };
  const pool = poolName({ first: nobodys, last: nobodys });
  const work = unit.transaction(async () => {
    await together([
      unit.change("meta.add", { name: pool, value: pool }),
      add(unit, space, record, pool),
      unit.change("assign.add", columns),
      noteClaim(unit, record, undefined),
    ]);
    await together([
      unit.swap("meta.set", { name: pool, value: pool, version: 1 }),
      put(unit, space, { record, version: 1, era: space.era, pool, row }, record),
      unit.swap("assign.replace", { ...columns, old_pid: pid, old_ip: ip, old_hostname: hostname }),
      noteEnd(unit, record, clock, "released"),
      unit.change("assign.remove", columns),
    ]);
    throw new TakenBack();
  });
  await work.catch((error: unknown) => {
    if (!(error instanceof TakenBack)) throw error;
  });
}
