import { SnowleaseError } from "../id/errors.ts";
import { type Era, type EraMark, isSealed, type NamespaceState, neverOpens, nextEra } from "./era.ts";
import type { Registry } from "./registry.ts";

/*
 * The removal of a namespace makes the store forget every window that it granted there. So the store stops granting before it forgets the
 * first window. When it has forgotten the last one, it notes an era under the name: a later namespace of this name begins after all these
 * windows, whatever the clock shows then. A removal that was interrupted in between is repeated.
 */

/** How many rows are read at once. */
const page = 1000;

/** The era with which the removal of a namespace begins. */
export function sealedEra(state: NamespaceState, mark: EraMark): Era {
  return { ...nextEra(state, state.clock, state.info, mark), opensAt: neverOpens };
}

/**
 * The era of a sealed namespace, with the last use added: if the removal is interrupted among the records and repeated, it still knows the
 * last use. Undefined if the era has it already. `last`: the result of `lastUse`.
 */
export function rememberedEra({ era, quarantineEnd, opensAt }: Era, last: number): Era | undefined {
  return quarantineEnd >= last ? undefined : { era, quarantineEnd: last, opensAt };
}

/**
 * The end of the last window that was granted in a namespace, or its highest fence if that is higher: both count in Unix ms. The result
 * does not change while the namespace is sealed.
 */
export async function lastUse(registry: Pick<Registry, "workers">, namespace: string): Promise<number> {
  let last = 0;
  for (let after: number | undefined = -1; after !== undefined;) {
    const records = await registry.workers(namespace, { after, limit: page });
    for (const { until, fence } of records) last = Math.max(last, until, fence);
    after = records.length < page ? undefined : records.at(-1)?.workerId;
  }
  return last;
}

/** Ends the removal if the store was put back to a copy from before it: grants may go on. @throws SnowleaseError WORKER_ID_HELD */
export function checkSealed(namespace: string, era: Era): void {
  if (isSealed(era)) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Namespace \`${namespace}\` is not as it was when its removal began (the store was put back to an older copy, say), so its removal did not go on; look with \`snowlease quarantine\`, stop each process that uses it, and remove it again.`,
    { namespace },
  );
}
