import { addressOfClient, openRegistry, parseAddress } from "../registries/index.ts";
import type { WorkerIdAssigner } from "../lease/assigner.ts";
import { configInvalid, withSource } from "../id/errors.ts";
import { Lease } from "../lease/lease.ts";
import type { Registry } from "../rule/registry.ts";
import type { ClientWithSettings, RegistryClient } from "../registries/driver-client.ts";

/**
 * Assigns any worker ID of the pool, as a lease of this registry. A registry URL (also of a daemon) or a driver's ready client is opened
 * for the lease and closed with it; a registry stays open. CONFIG_INVALID for a URL with a query: give options to `snowlease`.
 */
export function registryAssigner(target: string | Registry | RegistryClient | ClientWithSettings): WorkerIdAssigner {
  return {
    name: "registry",
    async assign({ options }, signal) {
      const { lease, clock, makeToken } = options;
      if (typeof target === "object" && "claim" in target) {
        return Lease.claim({ registry: target, clock, makeToken }, lease, signal);
      }
      const address = withSource("the registry of the assigner", () =>
        typeof target === "object" ? addressOfClient(target) : parseAddress(target),
      );
      const [parameter] = Object.keys(address.parameters);
      if (parameter !== undefined) {
        throw configInvalid(
          `Expected the registry URL ${address.redacted} of an assigner to have no query, got one with \`${parameter}\`; give it to snowlease() as an option.`,
        );
      }
      const registry = await openRegistry(address, { operationTimeout: lease.operationTimeout, clock });
      try {
        return await Lease.claim({ registry, clock, makeToken, onEnd: () => registry.close() }, lease, signal);
      } catch (error) {
        await registry.close().catch(() => undefined);
        throw error;
      }
    },
  };
}
