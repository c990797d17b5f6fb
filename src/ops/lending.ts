import type { ClaimKey, Registry } from "../rule/registry.ts";
import type { LeaseServer } from "../sharing/lease-server.ts";
import type { LeaseLender } from "./ids.ts";

/** A registry whose claims may also ask for a share of this process's own leases. */
export interface LendingRegistry extends Registry {
  readonly takeBlocks: NonNullable<Registry["takeBlocks"]>;
  /** Whether a claim is a share of a lease of this process: the worker ID is not the claimer's alone. */
  lends(key: Pick<ClaimKey, "namespace" | "workerId" | "fence">): boolean;
}

/** Passes claims that ask for a share, and what follows on them, to the leases of `lender`; everything else to the registry. */
export function lendingRegistry(registry: Registry, lender: Pick<LeaseLender, "lend" | "lent">): LendingRegistry {
  function serverOf(key: Pick<ClaimKey, "namespace" | "workerId" | "fence">): LeaseServer | undefined {
    const server = lender.lent(key.namespace);
    return server?.lends(key) === true ? server : undefined;
  }

  /** A share has no receipt: a holder that sends one leased by itself, of a copy of the registry that granted the same worker ID and fence. */
  const holderOf = (request: ClaimKey & { readonly receipt?: string | undefined }): Registry =>
    (request.receipt === undefined ? serverOf(request) : undefined) ?? registry;

  return {
    ...registry,
    claim: async (request) =>
      request.shared === true ? (await lender.lend(request.namespace)).claim(request) : registry.claim(request),
    renew: (request) => holderOf(request).renew(request),
    release: (request) => holderOf(request).release(request),
    takeBlocks: async (request) => serverOf(request)?.takeBlocks(request) ?? { outcome: "lost" },
    lends: (key) => serverOf(key) !== undefined,
  };
}
