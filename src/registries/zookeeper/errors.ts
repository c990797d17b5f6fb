import { type ErrorCode, SnowleaseError } from "../../id/errors.ts";

/** The protocol's error codes that this registry expects. */
export const codes = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
} as const;

/** An error that a server, or the driver, returned. */
export class ReplyError extends Error {
  readonly code: number;

  constructor(code: number, name: string) {
    super(name);
    this.code = code;
  }
}

interface ReplyMeaning {
  readonly code: ErrorCode;
  readonly says: string;
  readonly advice: string;
}

const rights = "the user needs all rights on its nodes: use its login, or another chroot";

/** The meaning of some codes. With each of them, the server wrote nothing. */
const known: Readonly<Record<number, ReplyMeaning>> = {
  [codes.noAuth]: { code: "FORBIDDEN", says: "does not let this user do that", advice: rights },
  [codes.invalidAcl]: { code: "CONFIG_INVALID", says: "does not take ACLs of such a login", advice: "leave it out" },
  [codes.authFailed]: { code: "UNAUTHORIZED", says: "refused the login", advice: "correct the one in the URL" },
};
const toLogIn = "write USER:PASSWORD@ before its address";
const anonymous: ReplyMeaning = { code: "UNAUTHORIZED", says: "wants a login", advice: toLogIn };
const failure: ReplyMeaning = { code: "REGISTRY_UNAVAILABLE", says: "failed", advice: "look at its log" };

/** The error for a reply of a server. If the code is not in the table, the server may have done the call. */
export function replyError(cause: ReplyError, where: string, login: boolean): SnowleaseError {
  const isAnonymous = cause.code === codes.noAuth && !login;
  const { code, says, advice } = isAnonymous ? anonymous : (known[cause.code] ?? failure);
  return new SnowleaseError(code, `ZooKeeper ${where} ${says} (${cause.message}); ${advice}.`, {}, { cause });
}

/** The error if the ensemble did not answer in time. `sent`: the operation may have been done. `more`: what else to check. */
export function silentError(
  where: string,
  timeout: number,
  sent: boolean,
  cause?: unknown,
  more: string = "",
): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${cause.message})` : "";
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `ZooKeeper ${where} did not answer within ${timeout} ms${said}${sent ? "; whether it did what was asked is not known" : ", nothing was changed"}; look whether a majority of it runs and can be reached${more}.`,
    {},
    { cause },
  );
}

/** The error if the ensemble answers, but has not answered all calls of an operation. */
export function slowError(where: string, timeout: number): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `ZooKeeper ${where} did not answer all that was asked within ${timeout} ms; whether it did that is not known; try again, or set a longer operationTimeout.`,
  );
}

/** The error for a node with a value that this registry did not write. */
export function foreignNode(path: string, what: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `ZooKeeper holds at \`${path}\` ${what}, which Snowlease never wrote: put it right, or use another namespace or chroot.`,
  );
}

/** The error if an operator deleted a node that each write expects. */
export function missingNode(path: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `ZooKeeper has no node \`${path}\` any more, which each write to this namespace expects: create it again, empty, or use another namespace or chroot.`,
  );
}

/** The error for a node that another version of Snowlease wrote. */
export function otherSchema(path: string, stored: number, known: number): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `What ZooKeeper holds at \`${path}\` is of version ${stored}, and this Snowlease knows version ${known}; run the version that wrote it, or use another namespace.`,
    { stored, known },
  );
}
