import {
  Agent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestPlain,
  type RequestOptions,
} from "node:http";
import { Agent as SecureAgent, request as requestSecure } from "node:https";
import { monotonic, type Clock } from "../../clock.ts";
import { configInvalid, type ErrorCode, isUnanswered, shown, SnowleaseError } from "../../id/errors.ts";
import { firstPause, nextPause } from "../backoff.ts";
import { receiptHeader, receiptPattern } from "../../api/call.ts";
import { anyProblem, knownCode } from "../../api/problem.ts";
import type { Schema } from "../../api/schema.ts";
import { answerTo } from "../http-answer.ts";
import { Deadlines } from "../deadlines.ts";
import { type ClientTls, tlsError } from "../client-tls.ts";

interface ApiCall<Answer> {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** For the header of receipts. */
  readonly receipt: string | undefined;
  /** The form of a success; undefined: there is nothing to read. */
  readonly answer: Schema<Answer> | undefined;
  /** Whether to send the call again if the daemon may have got it. */
  readonly repeatable: boolean;
}

/** The answer to a call. */
export interface Reply<Answer> {
  readonly answer: Answer;
  readonly receipt: string | undefined;
}

/** Sends calls to the first daemon that answers. */
export interface Transport {
  /**
   * Rejects with the daemon's refusal, restored as an error, or with REGISTRY_UNAVAILABLE if no daemon answered in time. If a daemon
   * cannot be reached, answers nonsense, says to wait, refuses the token or serves another registry, the next address gets the call at
   * once. Rejects with OTHER_REGISTRY only if each address answered it.
   */
  call<Answer>(call: ApiCall<Answer>): Promise<Reply<Answer>>;
  close(): void;
}

export interface TransportOptions {
  /** Deadline of one call, over all addresses and repetitions, ms. */
  readonly operationTimeout: number;
  readonly clock: Clock;
  /** For addresses without a login. */
  readonly token?: string | undefined;
  readonly tls: ClientTls;
}

/** Longest answer that the client reads, bytes. */
const longestAnswer = 4 * 1024 * 1024;
/** The most idle connections that stay open, and the most connections at once. */
const agentOptions = { keepAlive: true, maxSockets: 32 };

interface DaemonTarget {
  /** Without user and password. */
  readonly shown: string;
  readonly options: RequestOptions;
  readonly headers: OutgoingHttpHeaders;
  readonly path: string;
  readonly send: typeof requestPlain;
  readonly agent: Agent;
}

type CallOutcome<Answer> =
  | ({ readonly outcome: "answered" } & Reply<Answer>)
  /** The daemon refused, and every other daemon would refuse, too. */
  | { readonly outcome: "refused"; readonly error: SnowleaseError }
  | FailedCall;

/** The call was not applied. If it was `sent`, this is not known. */
interface FailedCall {
  readonly outcome: "failed";
  readonly error: SnowleaseError;
  readonly sent: boolean;
  /** A repetition fails, too, until an operator changes the daemon or the client's settings. */
  readonly lasting?: boolean;
  /** The error is the daemon's own answer. */
  readonly told?: boolean;
}

export function httpTransport(addresses: readonly string[], options: TransportOptions): Transport {
  const { operationTimeout, clock } = options;
  const targets = addresses.map((address) => parseTarget(address, options));
  if (targets.length === 0)
    throw new SnowleaseError("CONFIG_INVALID", "Expected at least one address of a daemon, got none.");
  /** The address that answered last. It is the first one to ask. */
  let favourite = 0;
  let closed = false;
  const deadlines = new Deadlines(clock);

  /** Asks each address in turn, until one gives an answer that no other address would change. */
  async function round<Answer>(
    call: ApiCall<Answer>,
    deadline: number,
  ): Promise<Exclude<CallOutcome<Answer>, FailedCall> | readonly FailedCall[]> {
    const start = favourite;
    const failures: FailedCall[] = [];
    for (let i = 0; i < targets.length; i++) {
      const at = (start + i) % targets.length;
      const target = targets[at] as DaemonTarget;
      // A silent daemon must leave the other daemons their share of the time.
      const share = (deadline - monotonic(clock)) / (targets.length - i);
      if (share <= 0) break;
      const attempt = await exchange(target, call, share, deadlines);
      if (attempt.outcome === "answered") favourite = at;
      if (attempt.outcome !== "failed") return attempt;
      failures.push(attempt);
      if (attempt.sent && !call.repeatable) break;
    }
    return failures;
  }

  return {
    async call(call) {
      const deadline = monotonic(clock) + operationTimeout;
      /** Why the registry behind a daemon did not answer. The last attempt may be too short to get this reason again. */
      let why: SnowleaseError | undefined;
      for (let pause = firstPause; ; pause = nextPause(pause)) {
        if (closed) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "This registry was closed; open it again.");
        const attempt = await round(call, deadline);
        if ("outcome" in attempt) {
          if (attempt.outcome === "answered") return attempt;
          throw attempt.error;
        }
        const mayRepeat = call.repeatable || !attempt.some(({ sent }) => sent);
        const wait = mayRepeat ? Math.max(pause, passesIn(attempt)) : Infinity;
        const failure = tellingOf(attempt, targets.length);
        if (failure?.told === true && isUnanswered(failure.error)) why = failure.error;
        if (monotonic(clock) + wait >= deadline) {
          const { error = late(targets, operationTimeout) } = failure ?? {};
          throw isUnanswered(error) ? (why ?? error) : error;
        }
        await clock.sleep(wait);
      }
    },

    close() {
      closed = true;
      for (const { agent } of targets) agent.destroy();
    },
  };
}

/** The failure that says most. A daemon's answer says more than the silence of another one. `asked`: the number of addresses. */
function tellingOf(failures: readonly FailedCall[], asked: number): FailedCall | undefined {
  const here = failures.filter(({ error }) => error.code !== "OTHER_REGISTRY");
  if (here.length === 0 && failures.length === asked) return failures[0];
  if (here.length < failures.length) return tellingOf(here, asked);
  const refused = failures.findLast(({ error }) => !isUnanswered(error));
  return refused ?? failures.find(({ told }) => told) ?? failures[0];
}

/** In how many ms one of the daemons may have another answer; Infinity: not within an operation. */
function passesIn(failures: readonly FailedCall[]): number {
  const errors = failures.filter(({ lasting }) => lasting !== true).map(({ error }) => error);
  // A full pool or a quarantine is the registry's answer, and the same behind all daemons.
  if (errors.some((error) => !isUnanswered(error) && error.code !== "RATE_LIMITED")) return Infinity;
  return Math.min(...errors.map(({ details }) => details.retryAfterMs ?? 0));
}

function parseTarget(address: string, { token, tls }: TransportOptions): DaemonTarget {
  if (address.startsWith("unix:")) {
    const agent = new Agent(agentOptions);
    const options = { socketPath: address.slice("unix:".length), host: "localhost" };
    return { shown: address, options, headers: bearing(token), path: "", send: requestPlain, agent };
  }
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    // An address that cannot be parsed may contain a password.
    const what = "Expected a daemon's address like http://HOST:PORT or unix:PATH, got another text.";
    throw new SnowleaseError("CONFIG_INVALID", what);
  }
  const secure = url.protocol === "https:";
  const { protocol, host, hostname, port, pathname, username, password } = url;
  const path = pathname.replace(/\/$/, "");
  if (path === "/v1") {
    throw configInvalid(
      `Expected the address of a daemon without a path of its calls, got ${shown(`${protocol}//${host}/v1`)}; leave out /v1.`,
    );
  }
  const hasLogin = username !== "" || password !== "";
  return {
    shown: `${protocol}//${host}${path}`,
    options: {
      host: hostname.replace(/^\[|\]$/g, ""),
      ...(port !== "" && { port }),
      ...(hasLogin && { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` }),
    },
    headers: bearing(hasLogin ? undefined : token),
    path,
    send: secure ? requestSecure : requestPlain,
    agent: secure ? new SecureAgent({ ...agentOptions, ...tls, rejectUnauthorized: true }) : new Agent(agentOptions),
  };
}

function bearing(token: string | undefined): OutgoingHttpHeaders {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** One request to one address. Never rejects. */
async function exchange<Answer>(
  target: DaemonTarget,
  call: ApiCall<Answer>,
  timeout: number,
  deadlines: Deadlines,
): Promise<CallOutcome<Answer>> {
  const body = call.body === undefined ? undefined : JSON.stringify(call.body);
  const request = target.send({
    ...target.options,
    agent: target.agent,
    method: call.method,
    path: target.path + call.path,
    headers: {
      ...target.headers,
      ...(call.receipt !== undefined && receiptPattern.test(call.receipt) && { [receiptHeader]: call.receipt }),
      ...(body !== undefined && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
    },
  });
  let sent = false;
  request.once("socket", (socket) => {
    if (!socket.connecting) sent = true;
    else socket.once("connect", () => (sent = true));
  });
  try {
    const [response, text] = await answerTo(request, body, { timeout, deadlines, longest: longestAnswer });
    return read(target, call, response, text);
  } catch (cause) {
    request.destroy();
    const untrusted = tlsError(`The daemon at ${target.shown}`, cause);
    if (untrusted !== undefined) return { outcome: "failed", error: untrusted, sent: false, lasting: true };
    const { advice, lasting } = adviceOn(cause);
    const why = `did not answer: ${reasonOf(cause)}; ${advice}`;
    return { outcome: "failed", error: unavailable(target, why, { cause, lasting }), sent, lasting };
  }
}

function read<Answer>(
  target: DaemonTarget,
  call: ApiCall<Answer>,
  response: IncomingMessage,
  text: string,
): CallOutcome<Answer> {
  const { statusCode: status = 0, headers } = response;
  if (status >= 200 && status < 300) {
    const receipt = headers[receiptHeader]?.toString();
    if (call.answer === undefined) return { outcome: "answered", answer: undefined as Answer, receipt };
    const parsed = call.answer.safeParse(json(text));
    if (parsed.success) return { outcome: "answered", answer: parsed.data, receipt };
    const [issue] = parsed.error.issues;
    return nonsense(target, `${call.method} ${call.path}: ${issue?.path.join(".")} ${issue?.message}`);
  }
  const told = anyProblem.safeParse(json(text));
  if (!told.success) return nonsense(target, `status ${status}, ${shown(headers["content-type"])}`);
  const { detail, retryAfterMs, details } = told.data;
  const code = knownCode(told.data.code, status);
  const newer = `The daemon at ${target.shown} calls it ${told.data.code}, which only a newer version knows.`;
  const message = code === told.data.code ? detail : `${detail} ${newer}`;
  const error = new SnowleaseError(code, message, { ...details, ...(retryAfterMs !== undefined && { retryAfterMs }) });
  // The registry behind the daemon may have applied the call.
  if (isUnanswered(error)) return { outcome: "failed", error, sent: true, told: true };
  // The same holds for a newer daemon, whose error code this version does not know.
  if (status === 500 && code !== told.data.code)
    return { outcome: "failed", error, sent: true, lasting: true, told: true };
  // Another daemon may know the token, have the version that the registry needs, or serve the registry that granted the lease.
  if ([401, 403, 500].includes(status) || code === "OTHER_REGISTRY")
    return { outcome: "failed", error, sent: false, lasting: true, told: true };
  // In its answer to a question, such as whether it is ready, the daemon speaks of its own clock.
  const isFinal = aboutCaller.has(code) && call.method !== "GET";
  if (![408, 429, 503].includes(status) || isFinal) return { outcome: "refused", error };
  return { outcome: "failed", error, sent: false, told: true };
}

/**
 * Refusals that depend on the caller's clock, or on the holder of the worker ID that the caller names. Another daemon would refuse, too.
 */
const aboutCaller: ReadonlySet<ErrorCode> = new Set(["WORKER_ID_HELD", "CLOCK_SKEW", "CLOCK_ROLLBACK"]);

/** If several addresses of one name all refuse, Node makes an error without a message. */
function reasonOf(cause: unknown): string {
  const { message = "", code = "no reason given" } = cause as Partial<NodeJS.ErrnoException>;
  return message || code;
}

/** What an operator can do about the failure, and whether it lasts until then. */
function adviceOn(cause: unknown): { readonly advice: string; readonly lasting: boolean } {
  const { code = "" } = cause as NodeJS.ErrnoException;
  if (code === "EACCES") return { advice: "join the group that its socket is for", lasting: true };
  return { advice: "check that it runs, and that a daemon is what listens there", lasting: false };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function nonsense<Answer>(target: DaemonTarget, what: string): CallOutcome<Answer> {
  const error = unavailable(target, `gave an answer that is not a snowlease daemon's (${what}); check the address`);
  return { outcome: "failed", error, sent: true };
}

function unavailable(
  { shown: address }: DaemonTarget,
  what: string,
  { cause, lasting = false }: { readonly cause?: unknown; readonly lasting?: boolean } = {},
): SnowleaseError {
  const details = { address, ...(lasting && { lasting }) };
  return new SnowleaseError("REGISTRY_UNAVAILABLE", `The daemon at ${address} ${what}.`, details, { cause });
}

function late(targets: readonly DaemonTarget[], timeout: number): SnowleaseError {
  const where = targets.map(({ shown }) => shown).join(", ");
  const what = `No daemon at ${where} answered within ${timeout} ms; check that one runs.`;
  return new SnowleaseError("REGISTRY_UNAVAILABLE", what);
}
