import { type EventEmitter, once } from "node:events";
import { type ServerAddress, whereOf } from "../url.ts";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { within } from "../deadline.ts";
import { sameTarget } from "./client.ts";
import {
  databaseError,
  isElsewhere,
  isReply,
  isUnsent,
  passes,
  replyBehind,
  replyError,
  silentError,
} from "./errors.ts";
import type { RedisSettings } from "./address.ts";

/** What a Redis answers with, its texts as bytes. */
export type Reply = Uint8Array | number | null | readonly Reply[];

/** A command and its arguments. */
export type Command = readonly [name: string, ...args: (string | number | Uint8Array)[]];

/** What is used of a client of ioredis, 5.9 or 6, of one server or of a cluster. */
interface Client {
  readonly status: string;
  connect(): Promise<unknown>;
  disconnect(): void;
  callBuffer(name: string, ...args: readonly (string | number | Uint8Array)[]): Promise<unknown>;
  on(event: string, listener: (error: unknown) => void): unknown;
  once(event: string, listener: () => void): unknown;
  /** Only a cluster has them. */
  nodes?(role: "all" | "master"): readonly object[];
}

interface Driver {
  readonly Redis: new (options: object) => Client;
  readonly Cluster: new (nodes: readonly object[], options: object) => Client;
}

/** A Redis, or what stands for one. It is connected to when there is something to ask. */
export interface Connection {
  /** For messages: no password. */
  readonly where: string;
  readonly cluster: boolean;
  /** When an operation that begins now has to be over: on the monotonic clock, ms. */
  deadline(): number;
  /**
   * Sends commands one behind the other over one connection, and gives their replies; one that is an error is its Error. Sends them
   * again only where they were refused for now.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE when nobody answered in time.
   */
  send(deadline: number, ...commands: readonly Command[]): Promise<readonly (Reply | Error)[]>;
  /** The client itself, for a lock. */
  client(deadline: number): Promise<Client>;
  close(): Promise<void>;
}

interface ConnectionOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
  readonly clock?: Clock | undefined;
}

/** @throws SnowleaseError DRIVER_MISSING */
export async function openConnection(
  address: ServerAddress,
  settings: RedisSettings,
  { operationTimeout, clock = systemClock }: ConnectionOptions,
): Promise<Connection> {
  const client =
    address.client === undefined
      ? makeClient(await loadDriver(), address, settings, operationTimeout)
      : (sameTarget(address.client, rules(operationTimeout), clusterRules(operationTimeout)) as Client);
  const where = whereOf(address.servers);
  /** What the client last said about its connection: it says it to nobody who waits. */
  let said: unknown;
  let attempt: Promise<void> | undefined;
  /** Whether the present connection is in the database that was asked for: the driver stays in database 0 where the server refuses it. */
  let placed = false;
  let closed = false;
  client.on("error", (error: unknown) => (said = error));
  client.on("ready", () => letGo(client));

  const isReady = (): boolean => client.status === "ready" && placed;

  async function connect(): Promise<void> {
    placed = false;
    await connected(client);
    if (settings.database > 0) {
      try {
        await client.callBuffer("select", settings.database);
      } catch (error) {
        client.disconnect();
        throw isReply(error) ? databaseError(error, where, settings.database) : error;
      }
    }
    placed = true;
  }

  async function ready(deadline: number): Promise<void> {
    // Of several tries the last one that said why it failed is told: time may run out in the middle of another.
    said = undefined;
    for (let pause = firstPause; ; pause = nextPause(pause)) {
      if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
      const left = deadline - monotonic(clock);
      if (left <= 0) throw silentError(where, operationTimeout, false, said);
      if (isReady()) return;
      attempt ??= connect().finally(() => (attempt = undefined));
      const failed = await within(left, attempt).then(nothing, (error: unknown) => error);
      if (isSnowleaseError(failed) && !passes(failed.cause)) throw failed;
      said ??= failed;
      const reply = replyBehind(said);
      const refused = reply && replyError(reply, where);
      if (refused?.code === "UNAUTHORIZED" || refused?.code === "FORBIDDEN") throw refused;
      if (!isReady()) await clock.sleep(Math.min(pause, Math.max(0, deadline - monotonic(clock))));
    }
  }

  async function exchange(commands: readonly Command[], deadline: number): Promise<(Reply | Error)[]> {
    const left = Math.max(1, deadline - monotonic(clock));
    const sent = commands.map(([name, ...args]) => {
      return (client.callBuffer(name, ...args) as Promise<Reply>).catch(refusal);
    });
    try {
      return await within(left, Promise.all(sent));
    } catch (error) {
      // One that had little time left says nothing about the connection, on which others may wait.
      if (left >= operationTimeout / 2) client.disconnect();
      throw silentError(where, operationTimeout, true, error);
    }
  }

  return {
    where,
    cluster: address.scheme === "redis+cluster",

    deadline: () => monotonic(clock) + operationTimeout,

    async send(deadline, ...commands) {
      try {
        for (let pause = firstPause; ; pause = nextPause(pause)) {
          if (closed || !isReady()) await ready(deadline);
          const replies = await exchange(commands, deadline);
          const [first] = replies;
          if (!passes(first) || monotonic(clock) + pause >= deadline) return replies;
          if (isElsewhere(first)) client.disconnect();
          await clock.sleep(pause);
        }
      } finally {
        // One may be connecting still; the nodes of a cluster are connected to one by one.
        if (client.status !== "ready" || client.nodes !== undefined) letGo(client);
      }
    },

    async client(deadline) {
      await ready(deadline);
      return client;
    },

    async close() {
      closed = true;
      client.disconnect();
    },
  };
}

/** Resolves when the client can be used; rejects when that failed. */
async function connected(client: Client): Promise<void> {
  if (client.status === "wait" || client.status === "end" || client.status === "close") {
    await client.connect();
    return;
  }
  const failed = new AbortController();
  client.once("end", () => failed.abort());
  await once(client as unknown as EventEmitter, "ready", { signal: failed.signal });
}

function nothing(): undefined {}

/** What a server answered that is an error; what became of the connection is none. */
function refusal(error: unknown): Error {
  if (isReply(error) || isUnsent(error)) return error;
  throw error;
}

/** A connection does not keep a program alive that has nothing else to do: whoever waits for a reply has a timer that does. */
function letGo(client: Client): void {
  for (const node of client.nodes?.("all") ?? [client]) {
    const { stream } = node as { readonly stream?: { unref?(): void } };
    stream?.unref?.();
  }
}

async function loadDriver(): Promise<Driver> {
  try {
    return (await import("ioredis")) as unknown as Driver;
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      "A Redis registry needs a driver that is not installed: run `npm install ioredis redlock@4`.",
      {},
      { cause },
    );
  }
}

/** How a connection of ours behaves, wherever it leads. */
function rules(operationTimeout: number): Readonly<Record<string, unknown>> {
  return {
    connectTimeout: operationTimeout,
    commandTimeout: operationTimeout,
    // A polite end would wait for that of a peer which may be cut off, and look ready meanwhile.
    disconnectTimeout: 0,
    // A command that waited for a connection, or lost it, would be sent when nobody waits for it any more.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Whoever asks next connects.
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    lazyConnect: true,
  };
}

/** The same of a client of a whole cluster. */
function clusterRules(operationTimeout: number): Readonly<Record<string, unknown>> {
  return {
    enableOfflineQueue: false,
    clusterRetryStrategy: () => null,
    lazyConnect: true,
    slotsRefreshTimeout: operationTimeout,
  };
}

function makeClient(
  { Redis, Cluster }: Driver,
  { scheme, servers, user, password }: ServerAddress,
  settings: RedisSettings,
  operationTimeout: number,
): Client {
  const common = {
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
    ...(settings.tls && { tls: {} }),
    db: settings.database,
    ...rules(operationTimeout),
  };
  if (scheme === "redis+cluster") {
    return new Cluster(servers, { ...clusterRules(operationTimeout), redisOptions: common });
  }
  if (scheme === "redis+sentinel") {
    return new Redis({
      ...common,
      sentinels: servers,
      name: settings.primary ?? "",
      ...(settings.sentinelUser !== undefined && { sentinelUsername: settings.sentinelUser }),
      ...(settings.sentinelPassword !== undefined && { sentinelPassword: settings.sentinelPassword }),
      ...(settings.tls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
    });
  }
  const [{ host, port } = { host: "localhost", port: 6379 }] = servers;
  return new Redis({ ...common, host, port });
}
