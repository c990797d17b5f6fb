import { createHash, timingSafeEqual } from "node:crypto";
import { type Access, type Role, roles } from "../../api/call.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { readGuardedFile } from "./guarded-file.ts";
import type { Log } from "../log.ts";
import { HttpRefusal } from "../problem.ts";

export interface Tokens {
  /**
   * Lets a request pass, or throws. A route without a namespace is for tokens of all namespaces (`*`), but for `any`.
   * @param authorization the header: `Bearer TOKEN`, or `Basic` with the token as its password.
   * @returns what tells this client from others; it is no secret.
   * @throws SnowleaseError UNAUTHORIZED for no known token; FORBIDDEN when its rights are not enough.
   */
  admit(authorization: string | null, access: Exclude<Access, "open">, namespace: string | undefined): string;
}

/** One line: what a token may do, and where. */
interface TokenRight {
  readonly sha256: Buffer;
  readonly role: Role;
  readonly namespaces: RegExp;
}

const realm = 'realm="snowlease"';

/**
 * The tokens in a file: lines of `TOKEN-SHA256 ROLE [NAMESPACE-GLOB]`, and `#` before what is a comment. A token may have several
 * lines. The file is read at once, and again with `reload`.
 * @throws SnowleaseError CONFIG_INVALID, also of `reload`, which then leaves everything as it was.
 */
export function tokenFile(path: string, log: Log): Tokens & { reload(): void } {
  const read = (): readonly TokenRight[] => parseTokens(readGuardedFile(path, "tokens", log), path);
  let grants = read();

  return {
    reload() {
      grants = read();
    },

    admit(authorization, access, namespace) {
      const token = tokenOf(authorization);
      if (token === undefined) throw unknown("none came", `Bearer ${realm}, Basic ${realm}, charset="UTF-8"`);
      const sha256 = createHash("sha256").update(token).digest();
      // All of them, however early one fits: how long it takes tells nothing.
      const own = grants.filter((grant) => timingSafeEqual(grant.sha256, sha256));
      if (own.length === 0) throw unknown("another came", `Bearer ${realm}, error="invalid_token", Basic ${realm}`);
      const suffices = ({ role, namespaces }: TokenRight): boolean =>
        access === "any"
          ? namespace === undefined || namespaces.test(namespace)
          : (role === access || role === "admin") && namespaces.test(namespace ?? "");
      if (!own.some(suffices)) throw insufficient(access, namespace);
      return sha256.toString("hex");
    },
  };
}

/** @throws SnowleaseError CONFIG_INVALID that names the line, and nothing that stands in it: it may be a token. */
export function parseTokens(text: string, path: string): readonly TokenRight[] {
  const grants: TokenRight[] = [];
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const words = line
      .replace(/(?:^|\s)#.*$/, "")
      .split(/\s+/)
      .filter(Boolean);
    if (words.length === 0) continue;
    const [sha256 = "", role, glob = "*"] = words;
    const refuse = (rule: string): never => {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected line ${i + 1} of ${path} to be TOKEN-SHA256 ROLE [NAMESPACE-GLOB], ${rule}; correct it.`,
      );
    };
    if (words.length > 3) refuse("and no more");
    if (!/^[0-9a-f]{64}$/i.test(sha256)) refuse("the first of 64 hexadecimal digits (printf %s TOKEN | sha256sum)");
    const known = roles.find((known) => known === role) ?? refuse(`with one of the roles ${roles.join(", ")}`);
    if (!/^[a-z0-9_*]{1,32}$/.test(glob)) refuse("the last of letters, digits, `_` and `*`");
    const namespaces = new RegExp(`^${glob.replace(/\*+/g, "[^]*")}$`);
    grants.push({ sha256: Buffer.from(sha256, "hex"), role: known, namespaces });
  }
  if (grants.length > 0) return grants;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `The file ${path} has no token, so that no client could do anything; add a line TOKEN-SHA256 ROLE.`,
  );
}

function tokenOf(authorization: string | null): string | undefined {
  const [, scheme = "", credentials = ""] = /^(bearer|basic) +([\x21-\x7e]+) *$/i.exec(authorization ?? "") ?? [];
  if (scheme.toLowerCase() !== "basic") return credentials || undefined;
  const login = Buffer.from(credentials, "base64").toString();
  const at = login.indexOf(":");
  // A token that is alone in a URL is the user there.
  return login.slice(at + 1) || login.slice(0, Math.max(0, at)) || undefined;
}

function unknown(what: string, challenge: string): HttpRefusal {
  return new HttpRefusal(
    401,
    "UNAUTHORIZED",
    `Expected a token that this daemon knows, ${what}; send it as \`Authorization: Bearer TOKEN\`, or give it as SNOWLEASE_TOKEN or in the URL, http://:TOKEN@HOST:PORT.`,
    { headers: { "www-authenticate": challenge } },
  );
}

function insufficient(access: Exclude<Access, "open">, namespace: string | undefined): HttpRefusal {
  const role = access === "any" ? "of any role" : `of the role \`${access}\``;
  const where = namespace === undefined ? "all namespaces" : "this namespace";
  return new HttpRefusal(403, "FORBIDDEN", `Expected a token ${role} for ${where}; use another one.`, {
    headers: { "www-authenticate": `Bearer ${realm}, error="insufficient_scope"` },
  });
}
