import { type EventEmitter, once } from "node:events";
import type { ServerAddress } from "../url.ts";
import { driverMissing } from "../driver-missing.ts";
import { sameTarget } from "./client.ts";
import type { RedisSettings } from "./settings.ts";

/** What a Redis answers, its texts as bytes. */
export type RedisReply = Uint8Array | number | null | readonly RedisReply[];

/** A command and its arguments. */
export type RedisCommand = readonly [name: string, ...args: (string | number | Uint8Array)[]];

/** The used part of a client of ioredis, 5.9 or 6, for one server or a cluster. */
export interface IoredisClient {
  readonly status: string;
  connect(): Promise<unknown>;
  disconnect(): void;
  callBuffer(...command: RedisCommand): Promise<unknown>;
  on(event: string, listener: (error: unknown, place?: unknown) => void): unknown;
  once(event: string, listener: () => void): unknown;
  /** Present for a cluster. */
  nodes?(role: "all" | "master"): readonly object[];
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient;
}

/** A client that does not connect before it is asked to. @throws SnowleaseError DRIVER_MISSING */
export async function makeClient(
  { client, scheme, servers, user, password }: ServerAddress,
  settings: RedisSettings,
  operationTimeout: number,
): Promise<IoredisClient> {
  const single = {
    connectTimeout: operationTimeout,
    commandTimeout: operationTimeout,
    // A graceful end would wait for a peer that may be cut off, and the client would look ready meanwhile.
    disconnectTimeout: 0,
    // Otherwise a command without a connection would be sent later, when its caller no longer waits.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // The next operation connects.
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
    // The package is a function with properties. Some bundlers show the function alone, some mocks the properties.
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

/** A connection does not keep the program alive: the timer of a caller that waits does. */
export function unrefClient(client: IoredisClient): void {
  for (const node of client.nodes?.("all") ?? [client]) {
    const { stream } = node as { readonly stream?: { unref?(): void } };
    stream?.unref?.();
  }
}
