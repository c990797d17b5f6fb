import { isSnowleaseError } from "../id/errors.ts";
import { readReceipt } from "../rule/receipt.ts";
import type { Registry, RemoveRequest } from "../rule/registry.ts";
import { BoundedMap } from "./bounded-map.ts";

/** The highest count of receipts that are kept for a namespace. */
const mostKept = 256;
/** The highest count of namespaces whose receipts are kept. */
const mostNamespaces = 1000;
/** A recall costs most registries a read. So at most one claim in this time sends one, ms by the claimers' clocks. */
const pause = 1000;

interface Remembered {
  readonly receipt: string;
  readonly until: number;
}

interface RememberedNamespace {
  /** By the token of a claim, the newest last. An older copy of the store grants the same worker ID and fence again. */
  readonly receipts: BoundedMap<string, Remembered>;
  /** When a claim last sent a recall, by the claimer's clock. */
  recalledAt: number;
  /**
   * The claim that was granted with the last recall. Its step compared that recall, then stored the claim. So its receipt reveals each
   * older copy that was put back since then, also after that copy granted many claims.
   */
  anchor: (Remembered & { readonly claim: string }) | undefined;
}

/**
 * The same registry for many clients. It remembers the receipts of its answers. A claim sends the receipt of a lease that was not released.
 * So the next claim, or one a second later, detects that the registry went back in time.
 */
export function recalling<Recalled extends Registry>(registry: Recalled): Recalled {
  /** By name. */
  const kept = new BoundedMap<string, RememberedNamespace>(mostNamespaces);

  function remember(namespace: string, claim: string, receipt: string | undefined, until: number): void {
    if (receipt === undefined) return;
    let remembered = kept.get(namespace);
    if (remembered === undefined) {
      remembered = { receipts: new BoundedMap<string, Remembered>(mostKept), recalledAt: -Infinity, anchor: undefined };
      kept.set(namespace, remembered);
    }
    remembered.receipts.set(claim, { receipt, until });
    if (remembered.anchor?.claim === claim) remembered.anchor = { claim, receipt, until };
  }

  function recallFor(namespace: string, clock: number): string | undefined {
    const remembered = kept.get(namespace);
    if (remembered === undefined || Math.abs(clock - remembered.recalledAt) < pause) return undefined;
    const { receipts, anchor } = remembered;
    const isOpen = ({ until }: Remembered): boolean => until > clock;
    const recalled = anchor && isOpen(anchor) ? anchor : [...receipts.values()].findLast(isOpen);
    if (recalled !== undefined) remembered.recalledAt = clock;
    return recalled?.receipt;
  }

  return {
    ...registry,

    async claim(request) {
      const { namespace, clock } = request;
      const recall = request.recall === undefined ? recallFor(namespace, clock) : undefined;
      const answer = await registry.claim({ ...request, recall: request.recall ?? recall });
      if (answer.outcome !== "granted") return answer;
      remember(namespace, request.token, answer.receipt, answer.until);
      const { receipt, until } = answer;
      const remembered = kept.get(namespace);
      if (recall !== undefined && receipt !== undefined && remembered !== undefined) {
        remembered.anchor = { claim: request.token, receipt, until };
      }
      return answer;
    },

    async renew(request) {
      const { namespace } = request;
      const answer = await registry.renew(request).catch((error: unknown) => {
        // The store may not keep what this holder proves, because the namespace is gone.
        const { until = 0 } = readReceipt(request.receipt) ?? {};
        if (isSnowleaseError(error, "QUARANTINE")) remember(namespace, request.token, request.receipt, until);
        throw error;
      });
      if (answer.outcome === "renewed") remember(namespace, request.token, answer.receipt, answer.until);
      return answer;
    },

    async release(request) {
      const answer = await registry.release(request);
      const remembered = kept.get(request.namespace);
      remembered?.receipts.delete(request.token);
      if (remembered?.anchor?.claim === request.token) remembered.anchor = undefined;
      return answer;
    },

    ...(registry.remove !== undefined && {
      async remove(request: RemoveRequest) {
        await registry.remove?.(request);
        // A later namespace of this name did not grant these.
        kept.delete(request.namespace);
      },
    }),
  };
}
