import { SnowleaseError } from "../id/errors.ts";
import { type Era, type EraMark, isSealed, type NamespaceState, neverOpens, nextEra } from "./era.ts";
import type { Registry } from "./registry.ts";

/*
 * The removal of a namespace, which makes the store forget every window that it granted in it. So the store grants nothing any more before
 * it forgets the first one, and notes an era under the name when it has forgotten the last one: a namespace that is made there later begins
 * behind all of them, whatever the clock shows then. In between the removal may be interrupted, and is repeated.
 */

/** Rows that are read at once. */
const page = 1000;

/** The era with which the removal of a namespace begins. */
export function sealedEra(state: NamespaceState, mark: EraMark): Era {
  return { ...nextEra(state, state.clock, state.info, mark), opensAt: neverOpens };
}

/**
 * The era of a sealed namespace that remembers its last use, so that a removal which is interrupted among the records, and repeated, still
 * knows it; undefined where it does already. `last`: of `lastUse`.
 */
export function rememberedEra({ era, quarantineEnd, opensAt }: Era, last: number): Era | undefined {
  return quarantineEnd >= last ? undefined : { era, quarantineEnd: last, opensAt };
}

/**
 * The end of the last window that was granted in a namespace, and its highest fence if that is higher: both count in Unix ms. It stays as
 * it is while the namespace is sealed.
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

/** The store was put back to a copy from before the removal: grants may go on, so the removal does not. @throws SnowleaseError WORKER_ID_HELD */
export function checkSealed(namespace: string, era: Era): void {
  if (isSealed(era)) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Namespace \`${namespace}\` is not as it was when its removal began (the store was put back to an older copy, say), so its removal did not go on; look with \`snowlease quarantine\`, stop each process that uses it, and remove it again.`,
    { namespace },
  );
}
