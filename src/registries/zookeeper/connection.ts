import { type ServerAddress, whereOf } from "../url.ts";
import { monotonic, systemClock } from "../../clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { silenceAdvice, tlsError } from "../client-tls.ts";
import { replyError, ReplyError, silentError, slowError } from "./errors.ts";
import { Beaten, Unanswered } from "../engine/operate.ts";
import type { Exchange } from "./session.ts";
import type { ZooKeeperSettings } from "./settings.ts";
import { loadDriver, type SessionKey, Wire } from "./wire.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { TooLate, within } from "../deadline.ts";

/**
 * How long a try to connect waits for an answer at first, ms. A server that is just starting may accept a connection and never answer on
 * it. After each try that was too short, the next one waits twice as long.
 */
const firstPatience = 2000;

/** A connection to an ensemble. It opens at the first call, and stays open as long as its session can live. */
export interface ZooKeeperConnection {
  /** For messages, without a password. */
  readonly where: string;
  /** Deadline of one operation, including the connection, ms. */
  readonly operationTimeout: number;
  /** The deadline of an operation that begins now, on the monotonic clock, ms. */
  deadline(): number;
  /**
   * Waits for a connection, and sends all calls of one attempt over it. The versions of nodes are counters, so they come again if an
   * operator puts an older copy under the ensemble. Such a restore ends each connection. So a write depends only on reads over the same
   * connection.
   * @throws Unanswered when the connection ended before the answer, Beaten when it ended between two exchanges, SnowleaseError when no
   * answer came in time.
   */
  exchanges(deadline: number): Promise<Exchange>;
  close(): Promise<void>;
}

/** @throws SnowleaseError DRIVER_MISSING */
export async function openConnection(
  { servers, user, password }: ServerAddress,
  settings: ZooKeeperSettings,
  operationTimeout: number,
): Promise<ZooKeeperConnection> {
  const driver = await loadDriver();
  const { sessionTimeout } = settings;
  const where = whereOf(servers);
  const login = user === undefined ? undefined : `${user}:${password ?? ""}`;
  /** The server to try next. The first one is random. */
  let turn = Math.floor(Math.random() * servers.length);
  let wire: Wire | undefined;
  let connecting: Promise<void> | undefined;
  let session: SessionKey | undefined;
  let sessionNumber = 0;
  let heard = -Infinity;
  /** Why the last try to connect failed; a `ReplyError` if the server refused this client. */
  let said: unknown;
  const disagreement = (): SnowleaseError | undefined => tlsError(`ZooKeeper ${where}`, said);
  /** The same, after this client has tried each server. */
  const lastingFailure = (): SnowleaseError | undefined => (connecting === undefined ? disagreement() : undefined);
  let asking = 0;
  let closed = false;

  function connect(): Promise<void> {
    connecting ??= keepTrying().finally(() => (connecting = undefined));
    return connecting;
  }

  async function keepTrying(): Promise<void> {
    const share = Math.max(50, Math.floor(operationTimeout / servers.length));
    let patience = firstPatience;
    for (let pause = firstPause; ; pause = nextPause(pause)) {
      for (let tries = 0; tries < servers.length; tries++) {
        // No call is waiting, and there is no session left to keep.
        if (closed || (asking === 0 && monotonic(systemClock) > heard + sessionTimeout)) return;
        const began = monotonic(systemClock);
        if ((await tryOne(Math.min(share, patience))) || said instanceof ReplyError) return;
        if (monotonic(systemClock) - began >= patience) patience *= 2;
      }
      if (disagreement() !== undefined) return;
      await systemClock.sleep(pause, { keepAlive: false });
    }
  }

  async function tryOne(patience: number): Promise<boolean> {
    const server = servers[turn++ % servers.length] ?? { host: "localhost", port: 2181 };
    const opened = new Wire(driver, server, { ...settings, session, login });
    wire = opened;
    opened.hold(asking > 0);
    try {
      await opened.connected(patience);
    } catch (error) {
      said = error;
      // The next try opens a new session.
      if (opened.expired) session = undefined;
      return false;
    }
    said = undefined;
    if (session === undefined) sessionNumber++;
    session = opened.session;
    void opened.ended.then((error) => {
      said = error;
      ({ heard } = opened);
      if (opened.expired) session = undefined;
      if (!closed) void connect();
    });
    return true;
  }

  async function ready(deadline: number): Promise<Wire> {
    for (;;) {
      if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
      if (wire?.isConnected) return wire;
      const left = deadline - monotonic(systemClock);
      const refusal = said instanceof ReplyError ? replyError(said, where, login !== undefined) : lastingFailure();
      if (refusal !== undefined) {
        // The next operation tries again.
        said = undefined;
        throw refusal;
      }
      if (left <= 0) throw silentError(where, operationTimeout, false, said, silenceAdvice(settings.tls));
      await within(left, connect()).catch(() => undefined);
    }
  }

  /** Keeps the process alive while a caller waits. */
  async function awaited<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    asking++;
    wire?.hold(true);
    try {
      return await work();
    } finally {
      asking--;
      wire?.hold(asking > 0);
    }
  }

  return {
    where,
    operationTimeout,

    deadline: () => monotonic(systemClock) + operationTimeout,

    async exchanges(deadline) {
      const used = await awaited(() => ready(deadline));
      return (calls) =>
        awaited(async () => {
          if (!used.isConnected) throw new Beaten("the connection ended behind what was read");
          const began = monotonic(systemClock);
          const left = deadline - began;
          // A process that was stopped must not send an old decision.
          if (left <= 0) throw slowError(where, operationTimeout);
          const answers = calls(used.calls(sessionNumber));
          const lost = used.ended.then((error): never => {
            throw new Unanswered(error.message, { cause: error });
          });
          return within(left, Promise.race([answers, lost])).catch((error: unknown) => {
            if (error instanceof ReplyError) throw replyError(error, where, login !== undefined);
            if (!(error instanceof TooLate)) throw error;
            // A call that had little time left proves nothing about the connection. Other calls may wait on it.
            const isShort = left < operationTimeout / 2;
            if (used.heard > (isShort ? deadline - operationTimeout : began)) throw slowError(where, operationTimeout);
            if (!isShort) used.end(new Error("no answer"));
            throw silentError(where, operationTimeout, true);
          });
        });
    },

    async close() {
      closed = true;
      await wire?.close();
    },
  };
}
