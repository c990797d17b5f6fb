import type { SqlErrorMeaning } from "../dialect.ts";
import { meanings } from "../errors.ts";

const { login, rights, noDatabase, missing, readOnly, full, memory, connections, starting, raced, slow, text } =
  meanings;

/** SQLSTATEs, or their classes, and what they mean here. */
const known: Readonly<Record<string, SqlErrorMeaning>> = {
  "22": text,
  // How `session.one-row` fails.
  "22012": raced,
  "22P05": {
    code: "CONFIG_INVALID",
    says: "does not hold every text",
    advice: "name a database with the encoding UTF8",
  },
  "23505": raced,
  "25006": readOnly,
  "25P03": slow,
  "28": login,
  "3D000": noDatabase,
  "3F000": noDatabase,
  "40": raced,
  "42501": rights,
  "42703": missing,
  "42P01": missing,
  "42P07": raced,
  "53100": full,
  "53200": memory,
  "53300": connections,
  "55000": readOnly,
  "55P03": raced,
  "57014": slow,
  "57P01": starting,
  "57P02": starting,
  "57P03": starting,
  "58": { ...full, says: "cannot read or write its files", advice: "look at its log and its disk" },
};

/** What PostgreSQL said. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  const state = stateOf(error);
  return state === undefined
    ? undefined
    : (known[state] ?? known[state.slice(0, 2)] ?? { ...starting, says: "failed" });
}

/** The SQLSTATE of what a server said; undefined for what became of the connection. */
function stateOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("severity" in error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
