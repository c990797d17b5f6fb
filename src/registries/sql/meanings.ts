import type { SqlErrorMeaning } from "./dialect.ts";

/* What errors of servers mean: the meanings that dialects share, and how a dialect lists its codes. */

/** A setting, a name or a label has to change. */
export const config = (says: string, advice: string): SqlErrorMeaning => ({ code: "CONFIG_INVALID", says, advice });
const down = (says: string, advice: string): SqlErrorMeaning => ({ code: "REGISTRY_UNAVAILABLE", says, advice });
/** A state that the server may leave by itself. */
export const passing = (says: string, advice: string): SqlErrorMeaning => ({ ...down(says, advice), passes: true });

export const login: SqlErrorMeaning = {
  code: "UNAUTHORIZED",
  says: "refused the login",
  advice: "correct user and password, or the server's list of users that may connect",
};
export const rights: SqlErrorMeaning = {
  code: "FORBIDDEN",
  says: "does not let this user do that",
  advice:
    "grant SELECT, INSERT, UPDATE and DELETE on the tables workerid_*, and CREATE to the user that runs `snowlease init` (or what its `--print` shows)",
};
export const noDatabase: SqlErrorMeaning = config("has no such database", "correct its name, or create it");
export const missing: SqlErrorMeaning = { code: "SCHEMA_INCOMPATIBLE", says: "", advice: "", missing: true };
export const readOnly: SqlErrorMeaning = passing("is read-only", "name the server that takes writes");
export const full: SqlErrorMeaning = down("has no space left", "free some, on its disk");
export const memory: SqlErrorMeaning = down("has no memory left", "look what it is doing");
export const connections: SqlErrorMeaning = passing(
  "has no connection left",
  "raise its limit of connections, or lower `poolSize` in the processes that use it",
);
export const starting: SqlErrorMeaning = passing("is starting or stopping", "try again");
export const raced: SqlErrorMeaning = { ...down("let other transactions go first", "try again"), raced: true };
export const slow: SqlErrorMeaning = passing(
  "gave up what took too long",
  "look what else it is doing, or raise `operationTimeout`",
);
export const text: SqlErrorMeaning = config(
  "cannot store what it was given",
  "shorten it, or take the odd characters out of host, instance or reason",
);

/** The meaning of each code, from the codes of each meaning, which spaces separate. */
export function byCode<Meaning>(
  ...groups: readonly (readonly [meaning: Meaning, codes: string])[]
): ReadonlyMap<string, Meaning> {
  return new Map(groups.flatMap(([meaning, codes]) => codes.split(" ").map((code) => [code, meaning] as const)));
}
