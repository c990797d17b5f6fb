import { isSnowleaseError } from "../id/errors.ts";
import { readReceipt } from "../rule/receipt.ts";
import type { Registry, RemoveRequest } from "../rule/registry.ts";
import { BoundedMap } from "./bounded-map.ts";

/** Receipts that are kept of a namespace. */
const mostKept = 256;
/** Namespaces whose receipts are kept. */
const mostNamespaces = 1000;
/** A recall costs most registries a read: one claim in this time bears one, ms by the claimers' clocks. */
const pause = 1000;

interface Remembered {
  readonly receipt: string;
  readonly until: number;
}

interface RememberedNamespace {
  /** By the token of a claim, the newest last. An older copy grants the same worker ID and fence again. */
  readonly receipts: BoundedMap<string, Remembered>;
  /** When a claim bore one, by the claimer's clock. */
  recalledAt: number;
  /**
   * The claim that was granted with the last recall. It was stored in the step that compared that recall: its receipt shows each older copy
   * that was put back since, however many claims that copy has granted meanwhile.
   */
  anchor: (Remembered & { readonly claim: string }) | undefined;
}

/**
 * The same registry for many clients, which remembers the receipts of its answers: a claim bears one of a lease that was not given back, so
 * that a registry which went back in time is found out by its next claim, or a second later.
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
        // The store may have no place for what this holder proves: a namespace that is gone.
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
        // A namespace of this name that is made later never granted these.
        kept.delete(request.namespace);
      },
    }),
  };
}
