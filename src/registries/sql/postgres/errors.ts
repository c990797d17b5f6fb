import type { SqlErrorMeaning } from "../dialect.ts";
import * as meanings from "../meanings.ts";

/** SQLSTATEs, or their classes. `session.one-row` fails with 22012. */
const known = meanings.byCode<SqlErrorMeaning>(
  [meanings.text, "22"],
  [meanings.config("does not hold every text", "name a database with the encoding UTF8"), "22P05"],
  [meanings.raced, "22012 23505 40 42P07 55P03"],
  [meanings.readOnly, "25006 55000"],
  [meanings.slow, "25P03 57014"],
  [meanings.login, "28"],
  [meanings.noDatabase, "3D000"],
  [meanings.config("has no such schema", "create it, correct `schema`, or name one with it"), "3F000"],
  [meanings.rights, "42501"],
  [meanings.missing, "42703 42P01"],
  [meanings.full, "53100"],
  [meanings.memory, "53200"],
  [meanings.connections, "53300"],
  [meanings.starting, "57P01 57P02 57P03"],
  [{ ...meanings.full, says: "cannot read or write its files", advice: "look at its log and its disk" }, "58"],
);

/** The meaning of an error of PostgreSQL. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  const state = stateOf(error);
  if (state === undefined) return undefined;
  return known.get(state) ?? known.get(state.slice(0, 2)) ?? { ...meanings.starting, says: "failed" };
}

/** The SQLSTATE of an error of the server; undefined for an error of the connection. */
function stateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("severity" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
