import { addressOfClient, openRegistry } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";

/** Options that a program may set for its client of ioredis, and that must not affect a registry. */
export const hostile = {
  connectTimeout: 1,
  commandTimeout: 1,
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  maxRetriesPerRequest: null,
  enableReadyCheck: false,
  enableAutoPipelining: true,
  stringNumbers: true,
  readOnly: true,
  connectionName: "theirs",
  retryStrategy: (): number => 1,
  reconnectOnError: (): 2 => 2,
  lazyConnect: true,
} as const;

/** A registry with a driver's ready client. */
export function openByClient(client: object, operationTimeout = 5000): Promise<Registry> {
  return openRegistry(addressOfClient(client), { operationTimeout });
}
