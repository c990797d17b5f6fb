import { type ErrorCode, shown, SnowleaseError } from "../../id/errors.ts";
import { silenceAdvice } from "../client-tls.ts";

/** What an error reply means for the registry. */
interface RedisErrorMeaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
  /** The server did not run the command, but may run it soon. The registry may send it again. */
  readonly temporary?: true;
  /** Another server may be the primary now. The registry must look up its address again. */
  readonly elsewhere?: true;
}

const unavailable = "REGISTRY_UNAVAILABLE";
const later = { code: unavailable, advice: "try again", temporary: true } as const;
const login = { code: "UNAUTHORIZED", advice: "correct user and password, or the ACL of the server" } as const;
const clusterNode: RedisErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "is a node of a cluster",
  advice: "write redis+cluster: in the registry URL, or pass a client for a cluster",
};

const noCluster: RedisErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "is no cluster",
  advice: "write redis: and the address of the primary",
};
const noSentinel: RedisErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "is no sentinel",
  advice: "name the sentinels, or write redis: and the address of the primary",
};

const daemonOfOurs: RedisErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "is a Snowlease daemon, which makes IDs in the Redis protocol, and leases worker IDs over HTTP",
  advice: "write the address where it listens for HTTP, such as http://HOST:7070",
};

const noPrimary: RedisErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "watches no primary of the name behind it in the registry URL",
  advice: "correct that name",
};

/**
 * Meanings by the first word of an error reply. With each of these replies the server wrote nothing, except inside a script: see
 * `meaningOf`.
 */
const meanings: Readonly<Record<string, RedisErrorMeaning>> = {
  NOAUTH: { ...login, says: "wants a login" },
  WRONGPASS: { ...login, says: "refused the login" },
  NOPERM: {
    code: "FORBIDDEN",
    says: "does not let this user do that",
    advice: "the user needs EVAL, EVALSHA, INFO, TIME and the commands of the scripts on the keys of the namespace",
  },
  MOVED: clusterNode,
  CROSSSLOT: clusterNode,
  OOM: { code: unavailable, says: "has no memory left", advice: "raise maxmemory" },
  READONLY: { ...later, says: "is a replica", advice: "name the primary, or its sentinels", elsewhere: true },
  LOADING: { ...later, says: "is loading its data" },
  MASTERDOWN: { ...later, says: "has lost its primary", elsewhere: true },
  CLUSTERDOWN: { ...later, says: "is a cluster that is down" },
  TRYAGAIN: { ...later, says: "is moving keys" },
  BUSY: { ...later, says: "is busy with another script" },
  MISCONF: { code: unavailable, says: "cannot save its data", advice: "look at its log and its disk" },
  NOREPLICAS: { ...later, says: "has too few replicas to take writes", advice: "look at its replicas" },
  WRONGTYPE: { code: "SCHEMA_INCOMPATIBLE", says: "holds a key of another program", advice: "use another namespace" },
};

/** The error for an error reply. An unknown reply does not say whether the server wrote something. */
export function replyError(cause: Error, where: string): SnowleaseError {
  const found = scriptFinding(cause.message);
  if (found !== undefined) return failed("SCHEMA_INCOMPATIBLE", `Redis ${where} holds ${found}.`, cause);
  const { code, says, advice } = meaningOf(cause) ?? { code: unavailable, says: "failed", advice: "try again" };
  return failed(code, `Redis ${where} ${says} (${cause.message}); ${advice}.`, cause);
}

/** What a script found before it wrote anything: the errors of `sql/redis/includes/namespace.lua`. */
function scriptFinding(message: string): string | undefined {
  const [, word, text = ""] = /\b(NONSENSE|VERSION|MISPLACED) (.*?)(?: script: |$)/.exec(message) ?? [];
  const [first = "", second = "", ...rest] = text.split(" ");
  if (word === "NONSENSE") {
    const value = rest.join(" ");
    return `${value === "" ? "nothing" : shown(value)} as \`${second}\` at the key \`${first}\`, which Snowlease never wrote: put it right by hand`;
  }
  if (word === "VERSION") {
    return `this namespace in version ${text}, and this Snowlease knows version 1; run the version that wrote it, or use another namespace`;
  }
  if (word === undefined || second === "") return undefined;
  const key = [second, ...rest].join(" ");
  return `a ${first} at the key \`${key}\`, where Snowlease needs its own: another program wrote it, and it was left as it is; use another namespace`;
}

/** The error for a refused SELECT. If the server has fewer databases, it would leave the connection in database 0. */
export function databaseError(cause: Error, where: string, database: number): SnowleaseError {
  if (meaningOf(cause) !== undefined) return replyError(cause, where);
  const text = `Redis ${where} has no database ${database} (${cause.message}); name one below its setting \`databases\`.`;
  return failed("CONFIG_INVALID", text, cause);
}

/** The error for a server that is not a Redis, with the words of the driver; undefined for any other failure. */
export function nonsenseError(where: string, cause: unknown): SnowleaseError | undefined {
  if (!(cause instanceof Error) || !/^(?:Unknown RESP type|Protocol error, got)/.test(cause.message)) return undefined;
  const text = `${where} answers as no Redis does (${cause.message.replace(/\. .*$/, "")}), nothing was changed; look what listens there, and correct the address.`;
  return failed(unavailable, text, cause);
}

/** The error for a deadline that passed. `sent`: the server may have run the command. `tls`: the connection used TLS. */
export function silentError(
  where: string,
  timeout: number,
  { sent, tls }: { readonly sent: boolean; readonly tls: boolean },
  cause?: unknown,
): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${cause.message})` : "";
  // The driver notices a broken connection before the deadline.
  const after = sent && said !== "" ? "" : ` within ${timeout} ms`;
  const done = sent ? "; whether it did what was asked is not known" : ", nothing was changed";
  const text = `Redis ${where} did not answer${after}${said}${done}; look whether it runs and can be reached${silenceAdvice(tls && !sent)}.`;
  return failed(unavailable, text, cause);
}

/**
 * The error if the client could not reach nodes of a cluster, or the primary behind sentinels, at the announced addresses. It has the
 * reasons.
 */
export function unreachedError(
  where: string,
  places: ReadonlyMap<string, string>,
  isCluster: boolean,
  cause: unknown,
): SnowleaseError {
  const [[first, reason] = ["", ""], ...others] = places;
  const list = [first, ...others.map(([place]) => place)].join(", ");
  const [who, settings] = isCluster
    ? [`The cluster ${where} announces nodes`, "cluster-announce-ip and cluster-announce-port"]
    : [`The sentinels ${where} name a primary`, "`sentinel monitor` and replica-announce-ip"];
  return failed(
    unavailable,
    `${who} that cannot be reached from here: ${list} (${reason}), nothing was changed; look whether they run, and set ${settings} there to what this host reaches, or pass a ready client with \`natMap\`.`,
    cause,
  );
}

/** The address to which a connection failed; undefined if the driver does not report it. */
export function placeOfFailure(cause: unknown): string | undefined {
  const { address, port } = cause as { readonly address?: unknown; readonly port?: unknown };
  return typeof address === "string" && typeof port === "number" ? `${address}:${port}` : undefined;
}

/** Whether the driver reports only that it has asked each sentinel. */
export function isExhausted(cause: unknown): boolean {
  return cause instanceof Error && /^All sentinels are unreachable and retry is disabled\.$/.test(cause.message);
}

/** An error whose cause leaves out the driver's command, because its arguments may contain a login or the token of a lease. */
function failed(code: ErrorCode, text: string, cause: unknown): SnowleaseError {
  if (!(cause instanceof Error)) return new SnowleaseError(code, text, {}, { cause });
  const { name, message, stack } = cause;
  return new SnowleaseError(code, text, {}, { cause: Object.assign(new Error(message), { name, stack }) });
}

/** Whether the server refused a command for now, without running it. */
export function isTemporary(cause: unknown): boolean {
  return isUnsent(cause) || (cause instanceof Error && meaningOf(cause)?.temporary === true);
}

/** Whether the server that refused a command is not the primary, or is no longer the primary. */
export function isElsewhere(cause: unknown): boolean {
  return cause instanceof Error && meaningOf(cause)?.elsewhere === true;
}

/** Whether the driver did not send a command, because its connection had just ended. */
export function isUnsent(cause: unknown): cause is Error {
  return cause instanceof Error && /isn't (?:writeable|ready) and enableOfflineQueue/.test(cause.message);
}

/** Whether the server does not have the script, or has it no longer. */
export function isUnknownScript(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith("NOSCRIPT");
}

/** Whether the server replied with this error. If not, the connection failed. */
export function isReply(cause: unknown): cause is Error {
  return cause instanceof Error && cause.name === "ReplyError";
}

/** The server's reply behind an error of the driver. The driver may report only that it could not use any of several servers. */
export function replyBehind(cause: unknown): Error | undefined {
  if (isReply(cause)) return cause;
  if (!(cause instanceof Error)) return undefined;
  const { lastNodeError } = cause as { readonly lastNodeError?: unknown };
  if (isReply(lastNodeError)) return lastNodeError;
  const said = / Last error: ((?:NOAUTH|WRONGPASS|NOPERM|ERR unknown command|ERR No such master) .*)$/s.exec(
    cause.message,
  )?.[1];
  return said === undefined ? undefined : new Error(said, { cause });
}

function meaningOf({ message }: Error): RedisErrorMeaning | undefined {
  // Inside a script, Redis and Valkey have different words for these two errors. The script's writes stay. A worker ID that was claimed
  // then rests, as if its holder had died.
  if (/The user executing the script|ACL failure in script/.test(message)) return meanings["NOPERM"];
  if (message.includes("non local key in a cluster node")) return clusterNode;
  if (message.includes("cluster support disabled")) return noCluster;
  if (message.includes("this is Snowlease")) return daemonOfOurs;
  if (/unknown command '?sentinel\b/i.test(message)) return noSentinel;
  if (message.includes("No such master with that name")) return noPrimary;
  // A script that passes on an error puts a word before it.
  return meanings[/^(?:ERR )?([A-Z]+)\b/.exec(message)?.[1] ?? ""];
}
