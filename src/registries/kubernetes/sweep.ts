import { isObstacle } from "../../rule/drop.ts";
import type { LeaseNames } from "./objects.ts";
import { type KubernetesStore, readAt, recordsOf } from "./store.ts";

/**
 * Deletes what is left of a namespace that was dropped, as long as none of its name is made. A record whose window has not passed stays: a
 * claim or a renewal wrote it at the same time, and the next namespace grants its worker ID behind that window. `final`: nothing stays.
 */
export async function sweep(store: KubernetesStore, names: LeaseNames, final: boolean): Promise<void> {
  const all = await store.run(({ leases }) => recordsOf(leases, names));
  for (const { record } of all) {
    await store.run(async ({ leases }) => {
      const { state, clock } = await store.read(leases, names);
      const found = await readAt(leases, names, record.workerId);
      if (state !== undefined || found === undefined) return;
      if (final || !isObstacle(found.record, clock)) await leases.remove(found.object);
    });
  }
  await store.run(async ({ leases }) => {
    const hints = await leases.get(names.hints);
    if (hints !== undefined) await leases.remove(hints);
  });
}
