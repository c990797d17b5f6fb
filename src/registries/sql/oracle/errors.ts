import type { SqlErrorMeaning } from "../dialect.ts";
import { meanings } from "../errors.ts";
import { namesOf } from "../statements.ts";

const { login, rights, missing, readOnly, full, memory, connections, starting, raced, slow, text } = meanings;

const unknownService: SqlErrorMeaning = {
  ...starting,
  says: "has no such service",
  advice: "correct its name in the registry URL, or wait until its database is open",
};
const noQuota: SqlErrorMeaning = {
  ...full,
  says: "gives this user no more space",
  advice: "raise the quota with ALTER USER … QUOTA … ON its tablespace",
};

const noCursor: SqlErrorMeaning = {
  ...connections,
  says: "gives a session no more cursors",
  advice: "raise OPEN_CURSORS to 50 or more",
};
/** As long as names were before version 12.2. */
const [longestName, longestPrefix] = [30, Math.max(...Object.values(namesOf("x")).map((name) => name.length - 1))];

/** Codes of the server (ORA) and of the driver (NJS), and what they mean here. `lost`: the connection broke, before or after it was done. */
const known: Readonly<Record<string, SqlErrorMeaning | "lost">> = {
  "NJS-101": login,
  "NJS-116": { ...login, advice: "set the user's password again: only its verifier of before 11g is stored" },
  "NJS-123": slow,
  "NJS-138": {
    code: "CONFIG_INVALID",
    says: "is too old for the driver's thin mode",
    advice: "name one of version 19c or newer",
  },
  "NJS-512": { code: "CONFIG_INVALID", says: "cannot be named so", advice: "correct the registry URL" },
  "NJS-515": { code: "CONFIG_INVALID", says: "cannot be named so", advice: "correct the registry URL" },
  "NJS-518": unknownService,
  "NJS-533": {
    code: "CONFIG_INVALID",
    says: "asks for Oracle's own encryption, which the driver's thin mode does not have",
    advice: "let the server take TLS, and write tls=true",
  },
  "ORA-00001": raced,
  "ORA-00018": connections,
  "ORA-00020": connections,
  "ORA-00028": "lost",
  "ORA-00054": raced,
  "ORA-00060": raced,
  "ORA-00257": full,
  "ORA-00904": missing,
  "ORA-00942": missing,
  "ORA-00972": {
    code: "CONFIG_INVALID",
    says: "takes no names as long as those of this namespace's tables",
    advice: `choose a namespace of at most ${longestName - longestPrefix} characters, or raise COMPATIBLE to 12.2 or higher`,
  },
  "ORA-01000": noCursor,
  "ORA-01005": login,
  "ORA-01012": "lost",
  "ORA-01013": slow,
  "ORA-01017": login,
  "ORA-01031": rights,
  "ORA-01033": starting,
  "ORA-01034": starting,
  "ORA-01035": starting,
  "ORA-01045": { ...login, says: "does not let this user in", advice: "grant CREATE SESSION" },
  "ORA-01089": "lost",
  "ORA-01092": "lost",
  "ORA-01109": starting,
  "ORA-01438": text,
  "ORA-01456": readOnly,
  "ORA-01461": text,
  "ORA-01482": {
    code: "CONFIG_INVALID",
    says: "does not hold every text",
    advice: "name a database in the character set AL32UTF8",
  },
  "ORA-01536": noQuota,
  "ORA-01652": full,
  "ORA-01653": full,
  "ORA-01654": full,
  "ORA-01658": full,
  "ORA-01691": full,
  "ORA-01720": rights,
  "ORA-01950": noQuota,
  "ORA-02049": raced,
  "ORA-02391": connections,
  "ORA-02396": "lost",
  "ORA-03113": "lost",
  "ORA-03114": "lost",
  "ORA-03135": "lost",
  "ORA-04020": raced,
  "ORA-04021": raced,
  "ORA-04031": memory,
  "ORA-08177": raced,
  "ORA-12170": "lost",
  "ORA-12505": unknownService,
  "ORA-12514": unknownService,
  "ORA-12516": connections,
  "ORA-12519": connections,
  "ORA-12520": connections,
  "ORA-12526": starting,
  "ORA-12528": starting,
  "ORA-12535": "lost",
  "ORA-12537": "lost",
  "ORA-12541": "lost",
  "ORA-12547": "lost",
  "ORA-12570": "lost",
  "ORA-12637": "lost",
  "ORA-12899": text,
  "ORA-16000": readOnly,
  "ORA-16456": readOnly,
  "ORA-19809": full,
  "ORA-24816": text,
  "ORA-25153": full,
  "ORA-25408": "lost",
  "ORA-28000": { ...login, says: "has locked this user", advice: "unlock it with ALTER USER … ACCOUNT UNLOCK" },
  "ORA-28001": { ...login, says: "lets the user's password not count any more", advice: "set another" },
  "ORA-28040": login,
  "ORA-30006": raced,
  "ORA-30036": full,
  "ORA-41900": rights,
};

/** Codes behind which another one tells more. */
const refusal = "NJS-511";
const inside = "ORA-00604";

/** What Oracle, its listener or the driver said. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  const code = codeOf(error);
  if (code === undefined) return undefined;
  const meaning = known[code];
  if (meaning === "lost") return undefined;
  // What became of the connection is told by the driver.
  return meaning ?? (code.startsWith("ORA-") ? { ...starting, says: "failed" } : undefined);
}

/** Whether a statement that makes something found it made. */
export function isAlreadyThere(error: unknown): boolean {
  return ["ORA-00955", "ORA-01408"].includes(codeOf(error) ?? "");
}

/** Whether nothing can be asked on this connection any more. */
export function cameToNothing(error: unknown): boolean {
  const code = codeOf(error);
  return code === undefined || known[code] === "lost" || (code.startsWith("NJS-") && known[code] === undefined);
}

/** The error with a message of one line: what follows are links, values of rows, and numbers of connections. */
export function oneLine(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const [first = "", ...rest] = error.message.replace(/\.? ?\(CONNECTION_ID=[^)]*\)/g, "").split("\n");
  const second = rest.find((line) => !line.startsWith(inside));
  const more =
    (first.startsWith("NJS-") || first.startsWith(inside)) && second !== undefined && !second.startsWith("Help:");
  error.message = more ? `${first}: ${second.trim()}` : first;
  return error;
}

/** A listener's refusal has a code of its own in its text, and so has what went wrong inside of the server. */
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  if (!/^(?:ORA|NJS)-\d+$/.test(error.code)) return undefined;
  const [, inner] =
    ((error.code === refusal || error.code === inside) && /\bORA-(?!00604)(\d+)/.exec(error.message)) || [];
  return inner === undefined ? error.code : `ORA-${inner.padStart(5, "0")}`;
}
