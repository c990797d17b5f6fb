import type { RegistryAddress } from "./address.ts";
import { classText, clientAddress, type ClientTarget } from "./driver-client.ts";
import { type Clock, systemClock } from "../lease/clock.ts";
import { SnowleaseError } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";
import { redisClient } from "./redis/client.ts";
import { mysqlPool } from "./sql/mysql/client.ts";
import { postgresPool } from "./sql/postgres/client.ts";
import { tidying } from "./auto-prune.ts";

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
export async function openRegistry(address: RegistryAddress, options: RegistryOptions): Promise<Registry> {
  const registry = await openStore(address, options);
  // A daemon does so itself, and lets nobody but administrators.
  return registry.kind === "daemon" ? registry : tidying(registry);
}

async function openStore(
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

/** Each knows a ready client of its driver by its shape. */
const clients: readonly ((client: object) => ClientTarget | undefined)[] = [redisClient, postgresPool, mysqlPool];

/**
 * The address of a driver's ready client, or of one with settings: `{ client, ...settings }`.
 * @throws SnowleaseError CONFIG_INVALID for anything else, without saying what is in it.
 */
export function addressOfClient(given: object): RegistryAddress {
  const alone = targetOf(given);
  if (alone !== undefined) return clientAddress(alone, {});
  const { client = given, ...settings } = given as { readonly client?: unknown };
  const target = targetOf(client);
  if (target !== undefined) return clientAddress(target, settings);
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected a registry, or a ready client (of ioredis, or a pool of pg or mysql2), got ${classText(client)}; name the registry by its URL.`,
  );
}

function targetOf(client: unknown): ClientTarget | undefined {
  if (typeof client !== "object" || client === null) return undefined;
  for (const known of clients) {
    const target = known(client);
    if (target !== undefined) return target;
  }
  return undefined;
}
