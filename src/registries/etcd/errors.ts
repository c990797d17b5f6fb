import { type ErrorCode, shown, SnowleaseError } from "../../id/errors.ts";

/** The status codes of gRPC that this registry distinguishes. */
const status = { permissionDenied: 7, unauthenticated: 16 } as const;

/** Cancelled, unknown, too late, internal, unavailable: the member could not complete the call, or does not know whether it did. */
const unsure: ReadonlySet<number> = new Set([1, 2, 4, 13, 14]);

/** A refusal that a member answered. */
export class EtcdRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }

  /** The login is too old, or an operator has changed the users since. */
  get asksForLogin(): boolean {
    return this.code === status.unauthenticated || /revision of auth store is old/.test(this.message);
  }

  /** The call may have been done, and another member may answer. */
  get isUnsure(): boolean {
    return unsure.has(this.code);
  }
}

interface ReplyMeaning {
  readonly code: ErrorCode;
  readonly advice: string;
}

const unavailable: ReplyMeaning = {
  code: "REGISTRY_UNAVAILABLE",
  advice: "look whether a majority of its members runs and can be reached",
};

/** The meaning of a refusal, by its status and text. Nothing was written. */
function meaningOf({ code, message }: EtcdRefusal, hasLogin: boolean): ReplyMeaning {
  if (/database space exceeded/.test(message)) {
    const advice = "compact and defragment it or raise its quota, then `etcdctl alarm disarm`";
    return { code: "REGISTRY_UNAVAILABLE", advice };
  }
  if (/user name is empty/.test(message) || (code === status.unauthenticated && !hasLogin)) {
    return { code: "UNAUTHORIZED", advice: "write USER:PASSWORD@ before its address" };
  }
  if (/authentication failed|invalid user ID or password/.test(message) || code === status.unauthenticated) {
    return { code: "UNAUTHORIZED", advice: "correct the login in the URL" };
  }
  if (code === status.permissionDenied) {
    return { code: "FORBIDDEN", advice: "the user needs to read and write all keys under the prefix of the URL" };
  }
  return unavailable;
}

/** The error for a refusal of a member. */
export function replyError(cause: EtcdRefusal, where: string, hasLogin: boolean): SnowleaseError {
  const { code, advice } = meaningOf(cause, hasLogin);
  return new SnowleaseError(code, `etcd ${where} refused: ${cause.message}; ${advice}.`, {}, { cause });
}

/** The error if no member answered in time. `sent`: the operation may have been done. `more`: what else to check. */
export function silentError(
  where: string,
  timeout: number,
  sent: boolean,
  cause?: unknown,
  more: string = "",
): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${cause.message})` : "";
  const done = sent ? "whether it did what was asked is not known" : "nothing was changed";
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `etcd ${where} did not answer within ${timeout} ms${said}; ${done}; ${unavailable.advice}${more}.`,
    {},
    { cause },
  );
}

/** The error for a server that is not etcd, or an etcd before 3.4. */
export function nonsense(where: string, answer: unknown): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${where} answers ${shown(answer)}, as no etcd since 3.4 does: check what runs at this address.`,
  );
}

/** The error for a key with a value that this registry did not write. */
export function foreignKey(key: string, what: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `etcd holds at \`${key}\` ${what}, which Snowlease never wrote: put it right, or use another namespace or prefix.`,
  );
}

/** The error for a key that another version of Snowlease wrote. */
export function otherSchema(key: string, stored: number, known: number): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `What etcd holds at \`${key}\` is of version ${stored}, and this Snowlease knows version ${known}; run the version that wrote it, or use another namespace.`,
    { stored, known },
  );
}
