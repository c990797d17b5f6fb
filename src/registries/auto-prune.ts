import { type Registry } from "../rule/registry.ts";
import { historyKept } from "../rule/limits.ts";

/** A claim whose token begins so prunes: one in 256. */
const pruningPrefix = "00";
/** A process prunes a namespace once in this time, ms: some stores read all of the history for it. */
const pause = 24 * 3_600_000;

/** The same registry, which prunes claims older than `historyKept`: after some claims, once a day at most, or again after a failure. */
export function autoPruned(registry: Registry): Registry {
  /** When this process pruned each namespace, by the registry's clock, Unix ms. */
  const prunedAt = new Map<string, number>();
  return {
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      const { namespace, token } = request;
      if (answer.outcome !== "granted" || !token.startsWith(pruningPrefix)) return answer;
      const { clock } = answer;
      if (clock - (prunedAt.get(namespace) ?? -Infinity) >= pause) {
        prunedAt.set(namespace, clock);
        registry.prune(namespace, clock - historyKept).catch(() => prunedAt.delete(namespace));
      }
      return answer;
    },
  };
}
