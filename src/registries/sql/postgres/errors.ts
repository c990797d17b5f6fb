import type { SqlErrorMeaning } from "../dialect.ts";
import { meanings, meaningsOf } from "../errors.ts";

const { login, rights, noDatabase, missing, readOnly, full, memory, connections, starting, raced, slow, text } =
  meanings;

const noUtf8: SqlErrorMeaning = {
  code: "CONFIG_INVALID",
  says: "does not hold every text",
  advice: "name a database with the encoding UTF8",
};
const noFiles: SqlErrorMeaning = {
  ...full,
  says: "cannot read or write its files",
  advice: "look at its log and its disk",
};

/** SQLSTATEs, or their classes. `session.one-row` fails with 22012. */
const known = meaningsOf<SqlErrorMeaning>(
  [text, "22"],
  [noUtf8, "22P05"],
  [raced, "22012 23505 40 42P07 55P03"],
  [readOnly, "25006 55000"],
  [slow, "25P03 57014"],
  [login, "28"],
  [noDatabase, "3D000 3F000"],
  [rights, "42501"],
  [missing, "42703 42P01"],
  [full, "53100"],
  [memory, "53200"],
  [connections, "53300"],
  [starting, "57P01 57P02 57P03"],
  [noFiles, "58"],
);

/** The meaning of an error of PostgreSQL. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  const state = stateOf(error);
  if (state === undefined) return undefined;
  return known.get(state) ?? known.get(state.slice(0, 2)) ?? { ...starting, says: "failed" };
}

/** The SQLSTATE of an error of the server; undefined for an error of the connection. */
function stateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("severity" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
