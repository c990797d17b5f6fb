import { Beaten } from "../engine/operate.ts";
import type { Leases } from "./leases.ts";
import type { LeaseObject, LeaseNames } from "./objects.ts";
import { objectOf } from "./records.ts";

/** Sends the writes of a claim, and the deletion of a pin, as dry runs. The API server checks the user's rights and its policies. */
export async function rehearse(leases: Leases, names: LeaseNames, facts: LeaseObject): Promise<void> {
  await ignoreRace(leases.create(objectOf(`${names.facts}-rehearsal`, names.labels, undefined, {}), true));
  await ignoreRace(leases.replace(facts, facts, true));
  await ignoreRace(leases.remove(facts, true));
}

async function ignoreRace(written: Promise<unknown>): Promise<void> {
  try {
    await written;
  } catch (error) {
    if (!(error instanceof Beaten)) throw error;
  }
}
