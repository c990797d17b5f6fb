import { type ErrorCode, shown, SnowleaseError } from "../../id/errors.ts";

interface Meaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
  /** Whether the same command may be sent again: it was not applied, and soon it may be. */
  readonly passes?: true;
  /** Whether another server may be the primary by now: its address is to be looked up anew. */
  readonly elsewhere?: true;
}

const login = "correct user and password, or the ACL of the server";
const rights = "the user needs EVAL, EVALSHA, INFO, TIME and the commands of the scripts on the keys of the namespace";

/** The first word of a reply that is an error. In none of these cases was anything written, but see below. */
const known: Readonly<Record<string, Meaning>> = {
  NOAUTH: { code: "UNAUTHORIZED", says: "wants a login", advice: login },
  WRONGPASS: { code: "UNAUTHORIZED", says: "refused the login", advice: login },
  NOPERM: { code: "FORBIDDEN", says: "does not let this user do that", advice: rights },
  MOVED: {
    code: "CONFIG_INVALID",
    says: "is a node of a cluster",
    advice: "write redis+cluster: in the registry URL, or pass a client for a cluster",
  },
  CROSSSLOT: {
    code: "CONFIG_INVALID",
    says: "is a node of a cluster",
    advice: "write redis+cluster: in the registry URL, or pass a client for a cluster",
  },
  OOM: { code: "REGISTRY_UNAVAILABLE", says: "has no memory left", advice: "raise maxmemory" },
  READONLY: {
    code: "REGISTRY_UNAVAILABLE",
    says: "is a replica",
    advice: "name the primary, or its sentinels",
    passes: true,
    elsewhere: true,
  },
  LOADING: { code: "REGISTRY_UNAVAILABLE", says: "is loading its data", advice: "try again", passes: true },
  MASTERDOWN: {
    code: "REGISTRY_UNAVAILABLE",
    says: "has lost its primary",
    advice: "try again",
    passes: true,
    elsewhere: true,
  },
  CLUSTERDOWN: { code: "REGISTRY_UNAVAILABLE", says: "is a cluster that is down", advice: "try again", passes: true },
  TRYAGAIN: { code: "REGISTRY_UNAVAILABLE", says: "is moving keys", advice: "try again", passes: true },
  BUSY: { code: "REGISTRY_UNAVAILABLE", says: "is busy with another script", advice: "try again", passes: true },
  MISCONF: { code: "REGISTRY_UNAVAILABLE", says: "cannot save its data", advice: "look at its log and its disk" },
  NOREPLICAS: {
    code: "REGISTRY_UNAVAILABLE",
    says: "has too few replicas to take writes",
    advice: "look at its replicas",
    passes: true,
  },
  WRONGTYPE: { code: "SCHEMA_INCOMPATIBLE", says: "holds a key of another program", advice: "use another namespace" },
};

/** The error that a Redis answered with. One that is not in the table leaves open what was done. */
export function replyError(cause: Error, where: string): SnowleaseError {
  // What a script of ours found before it wrote anything.
  const [, key, field, value = ""] = /NONSENSE (\S+) (\S+) (.*?)(?: script: |$)/.exec(cause.message) ?? [];
  if (key !== undefined) {
    return new SnowleaseError(
      "SCHEMA_INCOMPATIBLE",
      `Redis ${where} holds ${value === "" ? "nothing" : shown(value)} as \`${field}\` at the key \`${key}\`, which Snowlease never wrote: put it right by hand.`,
      {},
      { cause: withoutCommand(cause) },
    );
  }
  const [, version] = /\bVERSION (.*?)(?: script: |$)/.exec(cause.message) ?? [];
  if (version !== undefined) {
    return new SnowleaseError(
      "SCHEMA_INCOMPATIBLE",
      `What Redis ${where} holds of this namespace is of version ${version}, and this Snowlease knows version 1; run the version that wrote it, or use another namespace.`,
      {},
      { cause: withoutCommand(cause) },
    );
  }
  const [, type, place] = /MISPLACED (\S+) (.*?)(?: script: |$)/.exec(cause.message) ?? [];
  if (place !== undefined) {
    return new SnowleaseError(
      "SCHEMA_INCOMPATIBLE",
      `Redis ${where} holds a ${type} at the key \`${place}\`, where something of ours belongs: it is another program's, and was left as it is; use another namespace.`,
      {},
      { cause: withoutCommand(cause) },
    );
  }
  const { code, says, advice } = meaningOf(cause) ?? {
    code: "REGISTRY_UNAVAILABLE",
    says: "failed",
    advice: "try again",
  };
  return new SnowleaseError(
    code,
    `Redis ${where} ${says} (${cause.message}); ${advice}.`,
    {},
    { cause: withoutCommand(cause) },
  );
}

/** What SELECT was refused with. A server that has fewer databases would leave the connection in database 0. */
export function databaseError(cause: Error, where: string, database: number): SnowleaseError {
  if (meaningOf(cause) !== undefined) return replyError(cause, where);
  return new SnowleaseError(
    "CONFIG_INVALID",
    `Redis ${where} has no database ${database} (${cause.message}); name one below its setting \`databases\`.`,
    {},
    { cause: withoutCommand(cause) },
  );
}

/** A driver's error less the command that it names: its arguments may be a login, or the token of a lease. */
function withoutCommand(cause: unknown): unknown {
  if (!(cause instanceof Error)) return cause;
  const { name, message, stack } = cause;
  return Object.assign(new Error(message), { name, stack });
}

/** Whether a command was refused for now, and not applied. */
export function passes(cause: unknown): boolean {
  return isUnsent(cause) || (cause instanceof Error && meaningOf(cause)?.passes === true);
}

/** Whether it was refused by a server that is not the primary (any more). */
export function isElsewhere(cause: unknown): boolean {
  return cause instanceof Error && meaningOf(cause)?.elsewhere === true;
}

/** Whether the driver refused to send a command over a connection that had just ended. */
export function isUnsent(cause: unknown): cause is Error {
  return cause instanceof Error && /isn't (?:writeable|ready) and enableOfflineQueue/.test(cause.message);
}

/** Whether the script is not known there (any more). */
export function isUnknownScript(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith("NOSCRIPT");
}

/** Whether this is what a server said, and not what became of the connection. */
export function isReply(cause: unknown): cause is Error {
  return cause instanceof Error && cause.name === "ReplyError";
}

/** What a server said, also where the driver only tells that it could use none of several. */
export function replyBehind(cause: unknown): Error | undefined {
  if (isReply(cause)) return cause;
  if (!(cause instanceof Error)) return undefined;
  const { lastNodeError } = cause as { readonly lastNodeError?: unknown };
  if (isReply(lastNodeError)) return lastNodeError;
  const said = / Last error: ((?:NOAUTH|WRONGPASS|NOPERM) .*)$/s.exec(cause.message)?.[1];
  return said === undefined ? undefined : new Error(said, { cause });
}

function meaningOf({ message }: Error): Meaning | undefined {
  // Inside a script the refusal is worded otherwise. What the script did before it stays; a claim then rests, as if its holder had died.
  if (message.includes("The user executing the script")) return known["NOPERM"];
  if (message.includes("non local key in a cluster node")) return known["CROSSSLOT"];
  // A script that passes on what a command was refused with puts a word before it.
  return known[/^(?:ERR )?([A-Z]+)\b/.exec(message)?.[1] ?? ""];
}

/** Nobody answered in time. `sent`: it may have been done all the same. */
export function silentError(where: string, timeout: number, sent: boolean, cause?: unknown): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${cause.message})` : "";
  // A connection that broke off did not take until then.
  const within = sent && said !== "" ? "" : ` within ${timeout} ms`;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `Redis ${where} did not answer${within}${said}${sent ? "; whether it did what was asked is not known" : ", nothing was changed"}; look whether it runs and can be reached.`,
    {},
    { cause: withoutCommand(cause) },
  );
}
