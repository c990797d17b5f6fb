import { existsSync } from "node:fs";
import type { RegistryAddress } from "../core/address.ts";
import { systemClock } from "../core/clock.ts";
import { defaultLimits, type Registry } from "../core/registry.ts";
import { checkClaim } from "../core/window.ts";
import { openRegistry, type RegistryOptions } from "./index.ts";

/** A registry that is opened when it is first asked something: an embedded one is not made for what is refused before that. */
export interface DeferredRegistry extends Registry {
  /** Opens it now. Rejects with what the store refuses with; it is tried again at the next call then. */
  open(): Promise<void>;
}

/**
 * The registry at an address, not opened yet. A claim that no new registry could grant is refused before a file is made for it.
 * It has no `acceptClock`: that is for an operator, who opens the registry.
 */
export function deferredRegistry(address: RegistryAddress, options: RegistryOptions): DeferredRegistry {
  const { clock = systemClock } = options;
  let opening: Promise<Registry> | undefined;

  async function opened(): Promise<Registry> {
    opening ??= openRegistry(address, options);
    try {
      return await opening;
    } catch (error) {
      opening = undefined;
      throw error;
    }
  }

  return {
    kind: address.kind === "http" || address.kind === "unix" ? "daemon" : address.kind,
    open: async () => void (await opened()),
    init: async (request) => (await opened()).init(request),
    describe: async (namespace) => (await opened()).describe(namespace),

    async claim(request) {
      if (opening === undefined && address.kind === "sqlite" && !existsSync(address.path)) {
        checkClaim(request, clock.now(), { ...defaultLimits, ...request.limits, layout: request.layout });
      }
      return (await opened()).claim(request);
    },

    renew: async (request) => (await opened()).renew(request),
    release: async (request) => (await opened()).release(request),
    workers: async (namespace, page) => (await opened()).workers(namespace, page),
    worker: async (namespace, workerId) => (await opened()).worker(namespace, workerId),
    history: async (namespace, workerId, range) => (await opened()).history(namespace, workerId, range),
    forceRelease: async (request) => (await opened()).forceRelease(request),
    pin: async (namespace, workerId, reason) => (await opened()).pin(namespace, workerId, reason),
    unpin: async (namespace, workerId) => (await opened()).unpin(namespace, workerId),
    prune: async (namespace, before) => (await opened()).prune(namespace, before),
    ping: async () => (await opened()).ping(),
    close: async () => (await opening?.catch(() => undefined))?.close(),
  };
}
