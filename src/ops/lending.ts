import type { ClaimKey, Registry } from "../rule/registry.ts";
import { Layout } from "../id/layout.ts";
import type { LeaseServer } from "../sharing/lease-server.ts";
import type { LeaseLender } from "./ids.ts";

/** A registry whose claims may also ask for a share of this process's own leases. */
export interface LendingRegistry extends Registry {
  readonly takeBlocks: NonNullable<Registry["takeBlocks"]>;
  /** Whether a claim is a share of a lease of this process: the worker ID is not the claimer's alone. */
  lends(key: ShareKey): boolean;
}

/** A share has no receipt: a holder that sends one leased by itself, of a copy of the registry that granted the same worker ID and fence. */
export interface ShareKey extends Pick<ClaimKey, "namespace" | "workerId" | "fence"> {
  readonly receipt?: string | undefined;
}

/** Passes claims that ask for a share, and what follows on them, to the leases of `lender`; everything else to the registry. */
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
