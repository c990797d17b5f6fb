import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import type { SqlErrorMeaning } from "./dialect.ts";

/** Names a registry in messages, without its password. */
export interface SqlPlace {
  readonly title: string;
  readonly where: string;
  /** The registry URL, for people. */
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
  const what =
    cause === undefined
      ? `no namespace \`${namespace}\` in its tables; where it was lost, stop each process that leases from it first`
      : `not all tables of namespace \`${namespace}\` (${said(cause)}); where they were lost, stop each process that leases from them first`;
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `${title} ${where} has ${what}; run \`snowlease init --registry '${url}' --namespace ${namespace}\`.`,
    { missing: true },
    { cause },
  );
}

/** No table exists, so nothing can be noted about the namespace. Its holders get an answer that needs no note. */
export class NoTables extends SnowleaseError {
  constructor(place: SqlPlace) {
    super("SCHEMA_INCOMPATIBLE", missingTables(place).message);
  }
}

/** Whether an operation failed because tables are missing. */
export function isMissingTables(error: unknown): boolean {
  return isSnowleaseError(error, "SCHEMA_INCOMPATIBLE") && error.details["missing"] === true;
}

/** Another version of Snowlease created the tables. */
export function otherSchema({ title, where, namespace }: SqlPlace, stored: number, known: number): SnowleaseError {
  const advice = stored > known ? "update Snowlease" : "run the version that made them, or use another namespace";
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The tables of namespace \`${namespace}\` in ${title} ${where} are of version ${stored}, and this Snowlease knows version ${known}; ${advice}.`,
    { stored, known },
  );
}

/** The server did not answer in time, or the connection broke. `unknown`: the operation may have been done. */
export function silentError(title: string, timeout: number, unknown: boolean, cause?: unknown): SnowleaseError {
  const text = said(cause);
  // A broken connection ends before the deadline.
  const within = unknown && text !== "" ? "" : ` within ${timeout} ms`;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${title} did not answer${within}${text === "" ? "" : ` (${text})`}${unknown ? "; whether it did what was asked is not known" : ", nothing was changed"}; look whether it runs and can be reached.`,
    {},
    { cause },
  );
}

function said(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  if (cause.message !== "") return cause.message;
  return "code" in cause && typeof cause.code === "string" ? cause.code : "";
}
