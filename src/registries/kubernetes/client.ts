import { Agent, type OutgoingHttpHeaders, request as requestPlain } from "node:http";
import { Agent as SecureAgent, request as requestSecure } from "node:https";
import { z } from "zod";
import { shown, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";
import { type AnswerClock, answerClock } from "../answer-clock.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { tlsError } from "../client-tls.ts";
import { Unanswered } from "../engine/operate.ts";
import { Deadlines } from "../deadlines.ts";
import { answerTo } from "../http-answer.ts";
import type { Cluster, Login } from "./cluster.ts";
import { ApiRefusal, silentError } from "./errors.ts";

/** Advice that says where the certificates are named. */
const certificates = "look at the certificates that the kubeconfig or the pod's service account names";

/** A request to the API server. */
interface ServerCall {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With the query. */
  readonly path: string;
  readonly body?: object | undefined;
  /** Whether the request may change something. */
  readonly writes: boolean;
  /** On the monotonic clock, ms. */
  readonly deadline: number;
}

interface ApiAnswer {
  readonly json: unknown;
  /** Absent if the server does not send its time. */
  readonly clock: AnswerClock | undefined;
}

/** The API server of a cluster. */
export interface ApiClient {
  /** For messages. */
  readonly where: string;
  readonly clock: Clock;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /**
   * Sends a request until the server answers it. If the server throttles a request, sends it again at the time that the server names.
   * @throws ApiRefusal; Unanswered if a call that `writes` may have been done; SnowleaseError for every other failure.
   */
  call(call: ServerCall): Promise<ApiAnswer>;
  /** Resolves after this many ms. */
  pause(ms: number): Promise<void>;
  close(): void;
}

/** Longest answer that the registry reads, bytes: a page of records with all of their recents and their history. */
const longestAnswer = 64 * 1024 * 1024;
/** The least time that one request gets, ms. */
const leastShare = 50;
/** The most idle connections that stay open, and the most connections at once. */
const agentOptions = { keepAlive: true, maxSockets: 32 };
const unauthorized = 401;

const statusShape = z.object({
  kind: z.literal("Status"),
  message: z.string().default(""),
  reason: z.string().default(""),
  code: z.int().optional(),
  details: z
    .object({
      causes: z.array(z.object({ reason: z.string().default("") })).default([]),
      retryAfterSeconds: z.number().optional(),
    })
    .optional(),
});

/** A request without an answer, or an answer that does not say what was done. */
interface Silence {
  readonly cause: unknown;
  /** The call may have been done. */
  readonly sent: boolean;
  /** How long the server asks to wait, ms. */
  readonly pause?: number | undefined;
}

export function clientOf(
  cluster: Cluster,
  { operationTimeout, clock }: { readonly operationTimeout: number; readonly clock: Clock },
): ApiClient {
  const { host, port, isSecure, base, servername, isVerified } = cluster;
  const where = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const deadlines = new Deadlines(clock);
  const send = isSecure ? requestSecure : requestPlain;
  let agent: { readonly of: string; readonly agent: Agent } | undefined;
  let closed = false;

  /** Connections with these certificates. New connections replace them when the certificates of the cluster or the user are renewed. */
  function agentFor({ ca, cert, key }: Login): Agent {
    const of = JSON.stringify([ca, cert, key]);
    if (agent?.of === of) return agent.agent;
    // Requests in progress keep their sockets.
    dropIdle();
    const tls = { ca, cert, key, servername, rejectUnauthorized: isVerified };
    agent = { of, agent: isSecure ? new SecureAgent({ ...agentOptions, ...tls }) : new Agent(agentOptions) };
    return agent.agent;
  }

  function dropIdle(): void {
    for (const sockets of Object.values(agent?.agent.freeSockets ?? {})) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** One request. @throws ApiRefusal */
  async function exchange(
    { method, path, body, writes }: ServerCall,
    login: Login,
    timeout: number,
  ): Promise<ApiAnswer | Silence> {
    const text = body && JSON.stringify(body);
    const headers: OutgoingHttpHeaders = { accept: "application/json", "user-agent": "snowlease" };
    if (login.token !== undefined) headers["authorization"] = `Bearer ${login.token}`;
    if (text !== undefined) {
      headers["content-type"] = method === "PATCH" ? "application/json-patch+json" : "application/json";
      headers["content-length"] = Buffer.byteLength(text);
    }
    const both = [clock.now(), monotonic(clock)] as const;
    const request = send({ host, port, agent: agentFor(login), method, path: base + path, headers });
    let sent = false;
    request.once("socket", (socket) => {
      if (!socket.connecting) sent = true;
      else socket.once(isSecure ? "secureConnect" : "connect", () => (sent = true));
    });
    try {
      const [response, answer] = await answerTo(request, text, { timeout, deadlines, longest: longestAnswer });
      const json = parsed(answer);
      const status = response.statusCode ?? 0;
      if (status < 300) return { json, clock: answerClock(response.headers.date, both) };
      const told = statusShape.safeParse(json);
      const { message = `status ${status}`, reason = "", details } = told.data ?? {};
      const refusal = new ApiRefusal(
        status,
        reason,
        message,
        (details?.causes ?? []).map((each) => each.reason),
      );
      const seconds = Number(response.headers["retry-after"] ?? details?.retryAfterSeconds);
      const pause = Number.isFinite(seconds) ? 1000 * seconds : undefined;
      if (refusal.isThrottled) return { cause: refusal, sent: false, pause: pause ?? 1000 };
      if (refusal.isUnsure) return { cause: refusal, sent: writes, pause };
      throw refusal;
    } catch (cause) {
      if (cause instanceof ApiRefusal) throw cause;
      request.destroy();
      // The server's address may have moved. The other connections are then silent, too.
      dropIdle();
      return { cause, sent };
    }
  }

  return {
    where,
    clock,
    operationTimeout,

    async call(call) {
      const { deadline, writes } = call;
      let refused: Login | undefined;
      let wasSilent = false;
      for (let pause = firstPause; ; pause = nextPause(pause)) {
        if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
        const left = deadline - monotonic(clock);
        // A connection may be silent because the server's address has moved. So half of the time is left for a new connection. A slow
        // server gets no third request.
        const share = Math.max(leastShare, writes || wasSilent ? left : left / 2);
        const login = await cluster.login(refused);
        let answer: ApiAnswer | Silence;
        try {
          answer = await exchange(call, login, share);
        } catch (error) {
          if (!(error instanceof ApiRefusal) || error.status !== unauthorized || refused !== undefined) throw error;
          // The token may have been replaced. Nothing was done.
          refused = login;
          continue;
        }
        if ("json" in answer) return answer;
        const { cause, sent } = answer;
        if (sent && writes) throw new Unanswered(cause instanceof Error ? cause.message : "no answer", { cause });
        const untrusted =
          cause instanceof ApiRefusal ? undefined : tlsError(`Kubernetes ${where}`, cause, certificates);
        if (untrusted !== undefined) throw untrusted;
        wasSilent = true;
        const wait = answer.pause ?? pause;
        if (monotonic(clock) + wait >= deadline) {
          // If the server is there but has no time, its own answer says so.
          throw cause instanceof ApiRefusal ? cause : silentError(where, operationTimeout, false, cause);
        }
        await clock.sleep(wait);
      }
    },

    pause: (ms) => clock.sleep(ms),

    close() {
      closed = true;
      agent?.agent.destroy();
    },
  };
}

function parsed(answer: string): unknown {
  try {
    return JSON.parse(answer);
  } catch {
    throw new Error(`it answers ${shown(answer)}, as no API server does`);
  }
}
