import { historyKept, type Registry } from "../rule/registry.ts";

/** How the tokens begin of those claims that clear up: one in 256. */
const dutiful = "00";
/** How long a process that cleared up leaves that to others, ms: in some stores, all that is on record is looked through. */
const pause = 24 * 3_600_000;

/**
 * The same registry, which forgets the claims that were kept long enough: at some claims, behind their answer, and once a day at most.
 * Where it fails, the next such claim does it.
 */
export function pruning(registry: Registry): Registry {
  /** When each namespace was cleared up, by the registry's clock, Unix ms. */
  const cleared = new Map<string, number>();
  return {
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      const { namespace, token } = request;
      if (answer.outcome === "granted" && token.startsWith(dutiful)) {
        const { clock } = answer;
        if (clock - (cleared.get(namespace) ?? -Infinity) >= pause) {
          cleared.set(namespace, clock);
          registry.prune(namespace, clock - historyKept).catch(() => cleared.delete(namespace));
        }
      }
      return answer;
    },
  };
}
