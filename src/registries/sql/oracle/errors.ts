import type { SqlErrorMeaning } from "../dialect.ts";
import * as meanings from "../meanings.ts";

const { config, login } = meanings;

const unknownService: SqlErrorMeaning = {
  ...meanings.starting,
  says: "has no such service",
  advice: "correct its name in the registry URL, or wait until its database is open",
};
const noQuota: SqlErrorMeaning = {
  ...meanings.full,
  says: "gives this user no more space",
  advice: "raise the quota with ALTER USER … QUOTA … ON its tablespace",
};
const noCursor: SqlErrorMeaning = {
  ...meanings.connections,
  says: "gives a session no more cursors",
  advice: "raise OPEN_CURSORS to 50 or more",
};

/** The codes of the server (ORA) and of the driver (NJS). `lost`: the connection broke, before or after the operation was done. */
const known = meanings.byCode<SqlErrorMeaning | "lost">(
  [login, "NJS-101 ORA-01005 ORA-01017 ORA-28040"],
  [{ ...login, advice: "set the user's password again: only its verifier of before 11g is stored" }, "NJS-116"],
  [{ ...login, says: "does not let this user in", advice: "grant CREATE SESSION" }, "ORA-01045"],
  [{ ...login, says: "has locked this user", advice: "unlock it with ALTER USER … ACCOUNT UNLOCK" }, "ORA-28000"],
  [{ ...login, says: "lets the user's password not count any more", advice: "set another" }, "ORA-28001"],
  [meanings.rights, "ORA-01031 ORA-01720 ORA-41900"],
  [meanings.missing, "ORA-00904 ORA-00942"],
  [config("is too old for the driver's thin mode", "name one of version 19c or newer"), "NJS-138"],
  [config("cannot be named so", "correct the registry URL"), "NJS-512 NJS-515"],
  [
    config(
      "asks for Oracle's own encryption, which the driver's thin mode does not have",
      "let the server take TLS, and write tls=true",
    ),
    "NJS-533",
  ],
  [
    config(
      "takes no names as long as those of this namespace's tables",
      "choose a namespace of at most 9 characters, or raise COMPATIBLE to 12.2 or higher",
    ),
    "ORA-00972",
  ],
  [config("does not hold every text", "name a database in the character set AL32UTF8"), "ORA-01482"],
  [meanings.text, "ORA-01438 ORA-01461 ORA-12899 ORA-24816"],
  [meanings.readOnly, "ORA-01456 ORA-16000 ORA-16456"],
  [meanings.full, "ORA-00257 ORA-01652 ORA-01653 ORA-01654 ORA-01658 ORA-01691 ORA-19809 ORA-25153 ORA-30036"],
  [noQuota, "ORA-01536 ORA-01950"],
  [meanings.memory, "ORA-04031"],
  [meanings.connections, "ORA-00018 ORA-00020 ORA-02391 ORA-12516 ORA-12519 ORA-12520"],
  [noCursor, "ORA-01000"],
  [meanings.starting, "ORA-01033 ORA-01034 ORA-01035 ORA-01109 ORA-12526 ORA-12528"],
  [unknownService, "NJS-518 ORA-12505 ORA-12514"],
  [meanings.slow, "NJS-123 ORA-01013"],
  [meanings.raced, "ORA-00001 ORA-00054 ORA-00060 ORA-02049 ORA-04020 ORA-04021 ORA-08177 ORA-30006"],
  ["lost", "ORA-00028 ORA-01012 ORA-01089 ORA-01092 ORA-02396 ORA-03113 ORA-03114 ORA-03135 ORA-12170 ORA-12535"],
  ["lost", "ORA-12537 ORA-12541 ORA-12547 ORA-12570 ORA-12637 ORA-25408"],
);

/** Errors whose text contains the code that matters: the refusal of a listener, and an error inside the server. */
const [refusal, inside] = ["NJS-511", "ORA-00604"];

/** The meaning of an error of Oracle, of its listener or of the driver. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  const code = codeOf(error);
  if (code === undefined) return undefined;
  const meaning = known.get(code);
  if (meaning === "lost") return undefined;
  // The driver itself reports what happened to the connection.
  return meaning ?? (code.startsWith("ORA-") ? { ...meanings.starting, says: "failed" } : undefined);
}

/** Whether a CREATE failed because the object exists. */
export function isAlreadyThere(error: unknown): boolean {
  return ["ORA-00955", "ORA-01408"].includes(codeOf(error) ?? "");
}

/** Whether the connection is useless from now on. */
export function cameToNothing(error: unknown): boolean {
  const code = codeOf(error);
  return code === undefined || known.get(code) === "lost" || (code.startsWith("NJS-") && known.get(code) === undefined);
}

/** The error with a message of one line, without links, values of rows, and connection numbers. */
export function oneLine(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [first = "", ...rest] = error.message.replace(/\.? ?\(CONNECTION_ID=[^)]*\)/g, "").split("\n");
  const second = rest.find((line) => !line.startsWith(inside)) ?? "Help:";
  const isWhole = !/^(?:NJS-|ORA-00604)/.test(first) || second.startsWith("Help:");
  error.message = isWhole ? first : `${first}: ${second.trim()}`;
  return error;
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  if (!/^(?:ORA|NJS)-\d+$/.test(error.code)) return undefined;
  if (error.code !== refusal && error.code !== inside) return error.code;
  const [, inner] = /\bORA-(?!00604)(\d+)/.exec(error.message) ?? [];
  return inner === undefined ? error.code : `ORA-${inner.padStart(5, "0")}`;
}
