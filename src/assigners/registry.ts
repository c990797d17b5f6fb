import { addressOfClient, openRegistry, parseAddress } from "../registries/index.ts";
import type { WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid, withSource } from "../id/errors.ts";
import { Lease } from "../lease/lease.ts";
import type { Registry } from "../rule/registry.ts";
import type { ClientWithSettings, RegistryClient } from "../registries/driver-client.ts";

/**
 * Any worker ID of the pool, as a lease of the registry that is named here: a registry URL (a daemon's, too) or a driver's ready
 * client, opened for the lease and closed with it, or a registry, which stays open. CONFIG_INVALID for a URL with a query: options
 * are those of `snowlease`.
 */
export function registryAssigner(target: string | Registry | RegistryClient | ClientWithSettings): WorkerIdAssigner {
  return {
    name: "registry",
    async assign({ options }, signal) {
      const { lease, clock, makeToken } = options;
      if (typeof target === "object" && "claim" in target) {
        return Lease.claim({ registry: target, clock, makeToken }, lease, signal);
      }
      const address = withSource("the registry of the assigner", () => {
        return typeof target === "object" ? addressOfClient(target) : parseAddress(target);
      });
      const [parameter] = Object.keys(address.parameters);
      if (parameter !== undefined) {
        throw configInvalid(
          `Expected the registry URL ${address.redacted} of an assigner to have no query, got one with \`${parameter}\`; give it to snowlease() as an option.`,
        );
      }
      const { operationTimeout } = lease;
      const registry = await openRegistry(address, { operationTimeout, clock });
      try {
        return await Lease.claim({ registry, clock, makeToken, onEnd: () => registry.close() }, lease, signal);
      } catch (error) {
        await registry.close().catch(() => undefined);
        throw error;
      }
    },
  };
}
