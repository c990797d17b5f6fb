import { type EventEmitter, once } from "node:events";
import type { ServerAddress } from "../url.ts";
import { driverMissing } from "../driver-missing.ts";
import { sameTarget } from "./client.ts";
import type { RedisSettings } from "./settings.ts";

/** A reply of Redis. Its texts are bytes. */
export type RedisReply = Uint8Array | number | null | readonly RedisReply[];

/** A command and its arguments. */
export type RedisCommand = readonly [name: string, ...args: (string | number | Uint8Array)[]];

/** The part of a client of ioredis, 5.9 or 6, that this registry uses, for one server or a cluster. */
export interface IoredisClient {
  readonly status: string;
  connect(): Promise<unknown>;
  disconnect(): void;
  callBuffer(...command: RedisCommand): Promise<unknown>;
  on(event: string, listener: (error: unknown, place?: unknown) => void): unknown;
  once(event: string, listener: () => void): unknown;
  /** Present only for a cluster. */
  nodes?(role: "all" | "master"): readonly object[];
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient;
}

/** A client that connects only on request. @throws SnowleaseError DRIVER_MISSING */
export async function makeClient(
  { client, scheme, servers, user, password }: ServerAddress,
  settings: RedisSettings,
  operationTimeout: number,
): Promise<IoredisClient> {
  const single = {
    connectTimeout: operationTimeout,
    commandTimeout: operationTimeout,
    // A graceful end would wait for a peer that may be cut off. In the meantime, the client would look ready.
    disconnectTimeout: 0,
    // Otherwise the driver keeps a command while it has no connection, and sends it when its caller no longer waits.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // No reconnect here: the next operation connects.
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    lazyConnect: true,
  };
  const cluster = {
    enableOfflineQueue: false,
    clusterRetryStrategy: () => null,
    lazyConnect: true,
    slotsRefreshTimeout: operationTimeout,
  };
  if (client !== undefined) return sameTarget(client, servers, single, cluster) as IoredisClient;

  const { Redis, Cluster } = await loadDriver();
  const { ca, cert, key } = settings;
  const tls = settings.tls ? { ca, cert, key, rejectUnauthorized: true } : undefined;
  const common = { ...single, username: user, password, tls, db: settings.database };
  if (scheme === "redis+cluster") return new Cluster(servers, { ...cluster, redisOptions: common });
  if (scheme === "redis+sentinel") {
    return new Redis({
      ...common,
      sentinels: servers,
      name: settings.primary ?? "",
      sentinelUsername: settings.sentinelUser,
      sentinelPassword: settings.sentinelPassword,
      enableTLSForSentinelMode: settings.tls,
      sentinelTLS: tls,
    });
  }
  const [{ host, port } = { host: "localhost", port: 6379 }] = servers;
  return new Redis({ ...common, ...(scheme === "redis+unix" ? { path: host } : { host, port }) });
}

async function loadDriver(): Promise<IoredisModule> {
  try {
    const module = (await import("ioredis")) as unknown as Partial<IoredisModule> & { readonly default: IoredisModule };
    // The package is a function with properties. Some bundlers show only the function, some mocks only the properties.
    return module.Redis === undefined ? module.default : (module as IoredisModule);
  } catch (cause) {
    throw driverMissing("Redis", "ioredis redlock@4", cause);
  }
}

/** Resolves when the client is ready; rejects when it cannot connect. */
export async function connectClient(client: IoredisClient): Promise<void> {
  if (["wait", "end", "close"].includes(client.status)) {
    await client.connect();
    return;
  }
  const failed = new AbortController();
  client.once("end", () => failed.abort());
  await once(client as unknown as EventEmitter, "ready", { signal: failed.signal });
}

/** A connection does not keep the program alive. The timer of a waiting caller does. */
export function unrefClient(client: IoredisClient): void {
  for (const node of client.nodes?.("all") ?? [client]) {
    const { stream } = node as { readonly stream?: { unref?(): void } };
    stream?.unref?.();
  }
}
