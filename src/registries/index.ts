import type { RegistryAddress } from "../core/address.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { Registry } from "../core/registry.ts";

/** What every kind of store is opened with. */
export interface RegistryOptions {
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** Default: the machine's. */
  readonly clock?: Clock | undefined;
}

/**
 * Opens the registry at an address: the one place where a store is registered. Each is loaded when it is named, and its driver
 * with it. Rejects with what the store refuses with.
 */
export async function openRegistry(
  address: RegistryAddress,
  { operationTimeout, clock = systemClock }: RegistryOptions,
): Promise<Registry> {
  switch (address.kind) {
    case "memory":
      return (await import("./memory/registry.ts")).memoryRegistry({ clock });
    case "sqlite":
      return (await import("./sqlite/registry.ts")).sqliteRegistry({ path: address.path, clock, operationTimeout });
    case "redis":
      return (await import("./redis/registry.ts")).redisRegistry(address, { operationTimeout });
    case "mysql":
    case "oracle":
    case "postgres":
      return (await import("./sql/registry.ts")).sqlRegistry(address, { operationTimeout });
    case "zookeeper":
      return (await import("./zookeeper/registry.ts")).zooKeeperRegistry(address, { operationTimeout });
    case "http":
      return (await import("./daemon/registry.ts")).daemonRegistry(address.urls, {
        clock,
        operationTimeout,
        token: address.token,
        settings: address.settings,
      });
    case "unix":
      return (await import("./daemon/registry.ts")).daemonRegistry([`unix:${address.path}`], {
        clock,
        operationTimeout,
        token: address.token,
      });
  }
}
