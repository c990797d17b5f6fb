import { type ServerAddress, whereOf } from "../url.ts";
import { monotonic, systemClock } from "../../clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { tlsError } from "../client-tls.ts";
import { within } from "../deadline.ts";
import {
  connectClient,
  type IoredisClient,
  makeClient,
  type RedisCommand,
  type RedisReply,
  unrefClient,
} from "./driver.ts";
import {
  databaseError,
  isElsewhere,
  isReply,
  isTemporary,
  isUnsent,
  nonsenseError,
  replyBehind,
  replyError,
  isExhausted,
  placeOfFailure,
  silentError,
  unreachedError,
} from "./errors.ts";
import { readRedisSettings, type RedisSettings } from "./settings.ts";

/** Errors that another attempt to connect does not change. */
const hopeless: ReadonlySet<string> = new Set(["UNAUTHORIZED", "FORBIDDEN", "CONFIG_INVALID"]);

/** One Redis server, the primary behind sentinels, or a cluster. The first operation connects. */
export interface RedisConnection {
  /** For messages, without a password. */
  readonly where: string;
  readonly cluster: boolean;
  readonly settings: RedisSettings;
  /** Deadline of one operation, including the connection, ms. */
  readonly operationTimeout: number;
  /** When an operation that begins now must end, on the monotonic clock, ms. */
  deadline(): number;
  /**
   * Sends the commands in this order over one connection. An error reply becomes an `Error` in the result. If the server refused the
   * commands only for now, sends them again.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE when the deadline passes.
   */
  send(deadline: number, ...commands: readonly RedisCommand[]): Promise<readonly (RedisReply | Error)[]>;
  /** The client itself, connected. */
  client(deadline: number): Promise<IoredisClient>;
  close(): Promise<void>;
}

/** @throws SnowleaseError CONFIG_INVALID for impossible settings, DRIVER_MISSING */
export async function openConnection(address: ServerAddress, operationTimeout: number): Promise<RedisConnection> {
  const settings = readRedisSettings(address);
  const client = await makeClient(address, settings, operationTimeout);
  const where = whereOf(address.servers);
  const certificates = address.client === undefined ? undefined : "set `tls` of the client that you pass";
  /** Why the client failed to connect. The client emits this error and does not reject a promise with it. */
  let emitted: unknown;
  let attempt: Promise<void> | undefined;
  /** Whether this connection uses the wanted database. The driver stays in database 0 if the server refuses another one. */
  let selected = false;
  let closed = false;
  /** Addresses that a cluster or sentinels announced and that the client could not reach since then, each with the reason. */
  const unreached = new Map<string, string>();
  /** Addresses of the URL that the client could not reach. If these are all of them, the announced addresses do not matter. */
  const named = new Set<string>();
  client.on("error", (error: unknown) => {
    // The last sentinel's failure says more than the error "all sentinels are unreachable".
    if (emitted === undefined || !isExhausted(error)) emitted = error;
    if (address.scheme === "redis+sentinel") noteUnreached(placeOfFailure(error), error);
  });
  client.on("node error", (error: unknown, place?: unknown) => noteUnreached(String(place), error));
  client.on("ready", () => unrefClient(client));

  /** The driver reports each failure to connect. Errors name the addresses of the URL in any case. */
  function noteUnreached(place: string | undefined, error: unknown): void {
    const isNamed = address.servers.some(({ host, port }) => `${host}:${port}` === place);
    if (place === undefined || isReply(error)) return;
    if (isNamed) return void named.add(place);
    unreached.set(place, error instanceof Error ? error.message : String(error));
  }

  const silence = (sent: boolean, cause: unknown): SnowleaseError =>
    unreached.size > 0 && named.size < address.servers.length && !sent
      ? unreachedError(where, unreached, address.scheme === "redis+cluster", cause)
      : silentError(where, operationTimeout, { sent, tls: settings.tls }, cause);

  const isReady = (): boolean => client.status === "ready" && selected;

  async function connect(): Promise<void> {
    selected = false;
    await connectClient(client);
    if (settings.database > 0) {
      try {
        await client.callBuffer("select", settings.database);
      } catch (error) {
        client.disconnect();
        throw isReply(error) ? databaseError(error, where, settings.database) : error;
      }
    }
    selected = true;
  }

  async function ready(deadline: number): Promise<void> {
    // The error says why the last failed attempt failed, because the deadline may pass during another attempt.
    emitted = undefined;
    unreached.clear();
    named.clear();
    for (let pause = firstPause; ; pause = nextPause(pause)) {
      if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
      const left = deadline - monotonic(systemClock);
      if (left <= 0) throw silence(false, emitted);
      if (isReady()) return;
      attempt ??= connect().finally(() => (attempt = undefined));
      const failed: unknown = await within(left, attempt).catch((error: unknown) => error);
      if (isSnowleaseError(failed) && !isTemporary(failed.cause)) throw failed;
      emitted ??= failed;
      const reply = replyBehind(emitted);
      const refused = reply && replyError(reply, where);
      if (refused !== undefined && hopeless.has(refused.code)) throw refused;
      const untrusted = tlsError(`Redis ${where}`, emitted, certificates);
      if (untrusted !== undefined) throw untrusted;
      const nonsense = nonsenseError(where, emitted);
      if (nonsense !== undefined) throw nonsense;
      if (!isReady()) await systemClock.sleep(Math.min(pause, Math.max(0, deadline - monotonic(systemClock))));
    }
  }

  /** `refused`: the earlier reply to the same commands. */
  async function exchange(
    commands: readonly RedisCommand[],
    deadline: number,
    refused: RedisReply | Error | undefined,
  ): Promise<(RedisReply | Error)[]> {
    const left = Math.max(1, deadline - monotonic(systemClock));
    const replies = commands.map((command) => (client.callBuffer(...command) as Promise<RedisReply>).catch(errorReply));
    try {
      return await within(left, Promise.all(replies));
    } catch (error) {
      // Only a long silence shows that a connection is dead. Other operations may use this one.
      if (left >= operationTimeout / 2) client.disconnect();
      throw silence(true, refused ?? error);
    }
  }

  return {
    where,
    cluster: address.scheme === "redis+cluster",
    settings,
    operationTimeout,

    deadline: () => monotonic(systemClock) + operationTimeout,

    async send(deadline, ...commands) {
      try {
        let refused: readonly (RedisReply | Error)[] | undefined;
        for (let pause = firstPause; ; pause = nextPause(pause)) {
          if (closed || !isReady()) {
            try {
              await ready(deadline);
            } catch (error) {
              // The refusal says more than an error about the deadline.
              const isLate = isSnowleaseError(error) && error.code === "REGISTRY_UNAVAILABLE" && !closed;
              if (refused !== undefined && isLate) return refused;
              throw error;
            }
          }
          const replies = await exchange(commands, deadline, refused?.[0]);
          const [first] = replies;
          if (!isTemporary(first) || monotonic(systemClock) + pause >= deadline) return replies;
          if (isElsewhere(first)) client.disconnect();
          refused = replies;
          await systemClock.sleep(pause);
        }
      } finally {
        // The client may still be connecting, and a cluster connects to its nodes one by one.
        if (client.status !== "ready" || client.nodes !== undefined) unrefClient(client);
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

/** An error that the server replied with, as a reply. Rethrows an error of the connection. */
function errorReply(error: unknown): Error {
  if (isReply(error) || isUnsent(error)) return error;
  throw error;
}
