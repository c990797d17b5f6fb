import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import type { SqlErrorMeaning } from "./dialect.ts";

type SharedMeaning =
  | "login"
  | "rights"
  | "noDatabase"
  | "missing"
  | "readOnly"
  | "full"
  | "memory"
  | "connections"
  | "starting"
  | "raced"
  | "slow"
  | "text";

const unavailable = "REGISTRY_UNAVAILABLE";

/** The meanings that all dialects share. */
export const meanings: Readonly<Record<SharedMeaning, SqlErrorMeaning>> = {
  login: {
    code: "UNAUTHORIZED",
    says: "refused the login",
    advice: "correct user and password, or the server's list of users that may connect",
  },
  rights: {
    code: "FORBIDDEN",
    says: "does not let this user do that",
    advice:
      "grant SELECT, INSERT, UPDATE and DELETE on the tables workerid_*, and CREATE to the user that runs `snowlease init` (or what its `--print` shows)",
  },
  noDatabase: { code: "CONFIG_INVALID", says: "has no such database", advice: "correct its name, or create it" },
  missing: { code: "SCHEMA_INCOMPATIBLE", says: "", advice: "", missing: true },
  readOnly: { code: unavailable, says: "is read-only", advice: "name the server that takes writes", passes: true },
  full: { code: unavailable, says: "has no space left", advice: "free some, on its disk" },
  memory: { code: unavailable, says: "has no memory left", advice: "look what it is doing" },
  connections: {
    code: unavailable,
    says: "has no connection left",
    advice: "raise its limit of connections, or lower `poolSize` in the processes that use it",
    passes: true,
  },
  starting: { code: unavailable, says: "is starting or stopping", advice: "try again", passes: true },
  raced: { code: unavailable, says: "let other transactions go first", advice: "try again", raced: true },
  slow: {
    code: unavailable,
    says: "gave up what took too long",
    advice: "look what else it is doing, or raise `operationTimeout`",
    passes: true,
  },
  text: {
    code: "CONFIG_INVALID",
    says: "cannot store what it was given",
    advice: "shorten it, or take the odd characters out of host, instance or reason",
  },
};

/** The meaning of each code, from the codes of each meaning: separated by spaces. */
export function meaningsOf<Meaning>(
  ...groups: readonly (readonly [meaning: Meaning, codes: string])[]
): ReadonlyMap<string, Meaning> {
  return new Map(groups.flatMap(([meaning, codes]) => codes.split(" ").map((code) => [code, meaning] as const)));
}

/** Names a registry in messages, without its password. */
export interface SqlPlace {
  readonly title: string;
  readonly where: string;
  /** The registry URL for people. */
  readonly url: string;
  readonly namespace: string;
}

/** The error for what a server answered. Nothing was changed. */
export function serverError(meaning: SqlErrorMeaning, cause: unknown, place: SqlPlace): SnowleaseError {
  if (meaning.missing) return missingTables(place, cause);
  const { code, says, advice } = meaning;
  return new SnowleaseError(code, `${place.title} ${place.where} ${says} (${said(cause)}); ${advice}.`, {}, { cause });
}

/** Tables, or parts of them, are missing. */
export function missingTables({ title, where, url, namespace }: SqlPlace, cause?: unknown): SnowleaseError {
  const what = cause === undefined ? "" : ` (${said(cause)})`;
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `${title} ${where} has not all tables of namespace \`${namespace}\`${what}; run \`snowlease init --registry '${url}' --namespace ${namespace}\`.`,
    { missing: true },
    { cause },
  );
}

/** Whether an operation failed because tables are missing. */
export function isMissingTables(error: unknown): boolean {
  return isSnowleaseError(error, "SCHEMA_INCOMPATIBLE") && error.details["missing"] === true;
}

/** Another version of Snowlease created the tables. */
export function otherSchema({ title, where, url, namespace }: SqlPlace, stored: number, known: number): SnowleaseError {
  const advice =
    stored > known
      ? "update Snowlease"
      : `run \`snowlease init --registry '${url}' --namespace ${namespace}\`, which upgrades them`;
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The tables of namespace \`${namespace}\` in ${title} ${where} are of version ${stored}, and this Snowlease knows version ${known}; ${advice}.`,
    { stored, known },
  );
}

/** The server did not answer in time, or the connection broke. `unknown`: the operation may have been done. */
export function silentError(
  { title, where }: SqlPlace,
  timeout: number,
  unknown: boolean,
  cause?: unknown,
): SnowleaseError {
  const text = said(cause);
  // A broken connection ends before the deadline.
  const within = unknown && text !== "" ? "" : ` within ${timeout} ms`;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${title} ${where} did not answer${within}${text === "" ? "" : ` (${text})`}${unknown ? "; whether it did what was asked is not known" : ", nothing was changed"}; look whether it runs and can be reached.`,
    {},
    { cause },
  );
}

function said(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  if (cause.message !== "") return cause.message;
  return "code" in cause && typeof cause.code === "string" ? cause.code : "";
}
