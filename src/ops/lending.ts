import type { ClaimKey, Registry } from "../rule/registry.ts";
import { Layout } from "../id/layout.ts";
import type { LeaseServer } from "../sharing/lease-server.ts";
import type { LeaseLender } from "./ids.ts";

/** A registry whose claims may ask for a share of this process's own leases. */
export interface LendingRegistry extends Registry {
  readonly takeBlocks: NonNullable<Registry["takeBlocks"]>;
  /** Whether a claim is a share of a lease of this process, so that others use the worker ID, too. */
  lends(key: ShareKey): boolean;
}

/** A share has no receipt. A holder with one has its own lease, from a copy of the registry that granted the same worker ID and fence. */
export interface ShareKey extends Pick<ClaimKey, "namespace" | "workerId" | "fence"> {
  readonly receipt?: string | undefined;
}

/** Passes claims of shares, and later calls for these shares, to the leases of `lender`. Passes all other calls to the registry. */
export function lendingRegistry(registry: Registry, lender: Pick<LeaseLender, "lend" | "lent">): LendingRegistry {
  function serverOf(key: ShareKey): LeaseServer | undefined {
    const server = key.receipt === undefined ? lender.lent(key.namespace) : undefined;
    return server?.lends(key) === true ? server : undefined;
  }

  return {
    ...registry,
    async claim(request) {
      if (request.shared !== true) return registry.claim(request);
      const { namespace, layout, limits } = request;
      return (await lender.lend(namespace, { layout: Layout.parse(layout), limits })).claim(request);
    },
    renew: (request) => (serverOf(request) ?? registry).renew(request),
    release: (request) => (serverOf(request) ?? registry).release(request),
    takeBlocks: async (request) => serverOf(request)?.takeBlocks(request) ?? { outcome: "lost" },
    lends: (key) => serverOf(key) !== undefined,
  };
}
