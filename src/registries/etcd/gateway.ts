import { Agent, type OutgoingHttpHeaders, request as requestPlain } from "node:http";
import { Agent as SecureAgent, request as requestSecure } from "node:https";
import { z } from "zod";
import { shown, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";
import { type AnswerClock, answerClock } from "../answer-clock.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { silenceAdvice, tlsError } from "../client-tls.ts";
import { Unanswered } from "../engine/operate.ts";
import { Deadlines } from "../deadlines.ts";
import { answerTo } from "../http-answer.ts";
import { type ServerAddress, whereOf } from "../url.ts";
import type { EtcdSettings } from "./settings.ts";
import { replyError, EtcdRefusal, silentError } from "./errors.ts";

/*
 * The JSON gateway that every etcd has since 3.4, on the port of its clients. It takes calls of etcd's protocol as POST requests.
 */

/** The members of a cluster. */
export interface Gateway {
  /** For messages, without a password. */
  readonly where: string;
  /**
   * Sends a call to the member that answered last. If that member is silent, sends it to the next one.
   * @throws Unanswered if a call that `writes` may have been done, SnowleaseError for every other failure.
   */
  call(path: string, body: object, options: CallOptions): Promise<GatewayAnswer>;
  close(): void;
}

interface CallOptions {
  /** On the monotonic clock, ms. */
  readonly deadline: number;
  readonly writes: boolean;
}

interface GatewayAnswer {
  readonly json: unknown;
  /** Absent if the member does not send its time. */
  readonly clock?: AnswerClock | undefined;
}

/** Longest answer that the registry reads, bytes: a page of records with all of their recents. */
const longestAnswer = 64 * 1024 * 1024;
/** The least time that a silent member gets before the registry asks the next one, ms. */
const leastShare = 50;
/** The most idle connections that stay open, and the most connections at once. */
const agentOptions = { keepAlive: true, maxSockets: 32 };

const refusal = z.object({ message: z.string(), code: z.int() });
const login = z.object({ token: z.string() });

/** A request without an answer. */
interface Silence {
  readonly cause: unknown;
  /** The call may have been done. */
  readonly sent: boolean;
  /** Every member that was asked disagrees on TLS. */
  readonly untrusted?: SnowleaseError | undefined;
}

export function gatewayTo(
  { servers, user, password }: ServerAddress,
  { tls }: Pick<EtcdSettings, "tls">,
  { operationTimeout, clock }: { readonly operationTimeout: number; readonly clock: Clock },
): Gateway {
  const where = whereOf(servers);
  const agent =
    tls === undefined
      ? new Agent(agentOptions)
      : new SecureAgent({ ...agentOptions, ...tls, rejectUnauthorized: true });
  const send = tls === undefined ? requestPlain : requestSecure;
  const deadlines = new Deadlines(clock);
  const hasLogin = user !== undefined;
  /** The member that answered last. The first one is random. */
  let favourite = Math.floor(Math.random() * servers.length);
  let token: Promise<string> | undefined;
  let closed = false;

  /** One request to one member. @throws EtcdRefusal */
  async function exchange(
    member: number,
    path: string,
    body: object,
    timeout: number,
    headers: OutgoingHttpHeaders,
  ): Promise<GatewayAnswer | Silence> {
    const text = JSON.stringify(body);
    const { host, port } = servers[member] ?? { host: "localhost", port: 2379 };
    const both = [clock.now(), monotonic(clock)] as const;
    const request = send({
      host,
      port,
      agent,
      method: "POST",
      path: `/v3/${path}`,
      headers: { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(text) },
    });
    let sent = false;
    request.once("socket", (socket) => {
      if (!socket.connecting) sent = true;
      else socket.once(tls === undefined ? "connect" : "secureConnect", () => (sent = true));
    });
    try {
      const [response, answer] = await answerTo(request, text, { timeout, deadlines, longest: longestAnswer });
      const json = parsed(answer);
      const told = refusal.safeParse(json);
      if (told.success) throw new EtcdRefusal(told.data.code, told.data.message);
      return { json, clock: answerClock(response.headers.date, both) };
    } catch (cause) {
      if (cause instanceof EtcdRefusal) throw cause;
      request.destroy();
      return { cause, sent };
    }
  }

  /** One request to each member in turn, until one answers. @throws EtcdRefusal */
  async function round(
    path: string,
    body: object,
    { deadline, writes }: CallOptions,
    headers: OutgoingHttpHeaders,
  ): Promise<GatewayAnswer | Silence> {
    let silence: Silence = { cause: undefined, sent: false };
    const start = favourite;
    for (let i = 0; i < servers.length; i++) {
      const member = (start + i) % servers.length;
      const share = (deadline - monotonic(clock)) / (servers.length - i);
      if (share <= 0) break;
      const answer = await exchange(member, path, body, Math.max(leastShare, share), headers).catch(
        (error: unknown) => {
          // Another member may be connected to the majority.
          if (error instanceof EtcdRefusal && error.isUnsure) return { cause: error, sent: true };
          throw error;
        },
      );
      if ("json" in answer) {
        favourite = member;
        return answer;
      }
      const untrusted = answer.cause instanceof EtcdRefusal ? undefined : tlsError(`etcd ${where}`, answer.cause);
      const all = i === 0 || silence.untrusted !== undefined;
      silence = { cause: answer.cause, sent: silence.sent || answer.sent, untrusted: all ? untrusted : undefined };
      favourite = (member + 1) % servers.length;
      if (answer.sent && writes) break;
    }
    return silence;
  }

  /** Sends a call until a member answers, or until the deadline. @throws EtcdRefusal, Unanswered, SnowleaseError */
  async function persist(
    path: string,
    body: object,
    options: CallOptions,
    headers: OutgoingHttpHeaders = {},
  ): Promise<GatewayAnswer> {
    const { deadline, writes } = options;
    for (let pause = firstPause; ; pause = nextPause(pause)) {
      if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
      const answer = await round(path, body, options, headers);
      if ("json" in answer) return answer;
      const { cause, sent, untrusted } = answer;
      if (sent && writes) throw new Unanswered(cause instanceof Error ? cause.message : "no answer", { cause });
      if (untrusted !== undefined) throw untrusted;
      if (monotonic(clock) + pause >= deadline)
        throw silentError(where, operationTimeout, false, cause, silenceAdvice(tls !== undefined));
      await clock.sleep(pause);
    }
  }

  function authorized(options: CallOptions): Promise<string> {
    token ??= persist("auth/authenticate", { name: user, password }, { ...options, writes: false })
      .then(({ json }) => login.parse(json).token)
      .catch((error: unknown) => {
        token = undefined;
        throw error;
      });
    return token;
  }

  async function attempt(path: string, body: object, options: CallOptions): Promise<GatewayAnswer> {
    return persist(path, body, options, hasLogin ? { authorization: await authorized(options) } : {});
  }

  return {
    where,

    async call(path, body, options) {
      try {
        try {
          return await attempt(path, body, options);
        } catch (error) {
          if (!hasLogin || !(error instanceof EtcdRefusal) || !error.asksForLogin) throw error;
          token = undefined;
          return await attempt(path, body, options);
        }
      } catch (error) {
        throw error instanceof EtcdRefusal ? replyError(error, where, hasLogin) : error;
      }
    },

    close() {
      closed = true;
      agent.destroy();
    },
  };
}

function parsed(answer: string): unknown {
  try {
    return JSON.parse(answer);
  } catch {
    throw new Error(`it answers ${shown(answer)}, as no etcd since 3.4 does`);
  }
}
