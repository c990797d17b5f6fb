import type { SqlErrorMeaning } from "../dialect.ts";
import { meanings } from "../errors.ts";

const { login, rights, noDatabase, missing, readOnly, full, connections, starting, raced, slow, text } = meanings;

/** Numbers of errors that MySQL and MariaDB share, but for a few, and what they mean here. */
const known: Readonly<Record<number, SqlErrorMeaning>> = {
  1020: raced,
  1021: full,
  1036: readOnly,
  1040: connections,
  1044: rights,
  1045: login,
  1049: noDatabase,
  1050: raced,
  1053: starting,
  1054: missing,
  1062: raced,
  1114: full,
  1129: { ...login, says: "has shut this host out", advice: "run FLUSH HOSTS there" },
  1130: login,
  1142: rights,
  1143: rights,
  1146: missing,
  1203: connections,
  1205: raced,
  1213: raced,
  1226: connections,
  1227: rights,
  // How `session.one-row` fails.
  1242: raced,
  1251: login,
  1264: text,
  1290: readOnly,
  1317: slow,
  1366: text,
  1370: rights,
  1406: text,
  1412: raced,
  1524: login,
  1665: {
    code: "CONFIG_INVALID",
    says: "cannot log what it is asked to do",
    advice:
      "set binlog_format to ROW or MIXED there, or grant this user BINLOG ADMIN (in MySQL SESSION_VARIABLES_ADMIN)",
  },
  1698: login,
  1792: readOnly,
  1836: readOnly,
  1927: starting,
  1969: slow,
  3024: slow,
};

/** What MySQL or MariaDB said. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  // What became of the connection has a number of the operating system, or none.
  if (!(error instanceof Error) || !("errno" in error) || !("sqlState" in error)) return undefined;
  if (typeof error.errno !== "number" || error.errno < 1000) return undefined;
  return known[error.errno] ?? { ...starting, says: "failed" };
}
