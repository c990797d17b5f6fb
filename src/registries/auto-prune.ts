import { type Registry } from "../rule/registry.ts";
import { historyKept } from "../rule/limits.ts";

/** A claim prunes if its token begins with this: one claim in 256. */
const pruningPrefix = "00";
/** A process prunes a namespace at most once in this time, ms, because some stores read the whole history to prune. */
const pause = 24 * 3_600_000;

/** The same registry, but some of its claims prune claims older than `historyKept`: at most once a day, or again after a failure. */
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
