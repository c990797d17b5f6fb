import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type Access, type Role, roles } from "../api/call.ts";
import { SnowleaseError } from "../id/errors.ts";
import { readGuardedFile } from "./guarded-file.ts";
import type { Log } from "./log.ts";

export interface Tokens {
  /** A text that identifies the client with this token. It is not a secret. Undefined: the daemon does not know the token. */
  clientOf(token: string): string | undefined;
  /** Whether a client has this access now. Without a namespace, it needs a token of all namespaces (`*`), except for `any`. */
  may(client: string, access: Exclude<Access, "open">, namespace: string | undefined): boolean;
  /** Whether the token of a client is still in the file. */
  knows(client: string): boolean;
}

/** One line: a role of a token, and its namespaces. */
interface TokenRight {
  readonly sha256: Buffer;
  readonly role: Role;
  readonly namespaces: RegExp;
}

/** The namespaces of a token, as a name in which `*` stands for any characters. */
export const tokenGlob: RegExp = /^[a-z0-9_*]{1,32}$/;

/** A new token, and its line for a file of tokens. */
export function makeToken(role: Role, namespaces: string): { readonly token: string; readonly line: string } {
  const token = randomBytes(32).toString("hex");
  return { token, line: `${createHash("sha256").update(token).digest("hex")} ${role} ${namespaces}` };
}

/**
 * The tokens in a file of lines `TOKEN-SHA256 ROLE [NAMESPACE-GLOB]`, where `#` begins a comment. A token may have several lines. The
 * file is read at once, and again with `reload`.
 * @throws SnowleaseError CONFIG_INVALID. If `reload` throws, the tokens stay as they were.
 */
export function tokenFile(path: string, log: Log): Tokens & { reload(): void } {
  const read = (): readonly TokenRight[] => parseTokens(readGuardedFile(path, "tokens", log), path);
  let grants = read();
  let rights = rightsOf(grants);

  return {
    reload() {
      grants = read();
      rights = rightsOf(grants);
    },

    clientOf(token) {
      const sha256 = createHash("sha256").update(token).digest();
      // Always compare all tokens, so that the duration reveals nothing.
      const own = grants.filter((grant) => timingSafeEqual(grant.sha256, sha256));
      return own.length > 0 ? sha256.toString("hex") : undefined;
    },

    may: (client, access, namespace) =>
      (rights.get(client) ?? []).some(({ role, namespaces }) =>
        access === "any"
          ? namespace === undefined || namespaces.test(namespace)
          : (role === access || role === "admin") && namespaces.test(namespace ?? ""),
      ),

    knows: (client) => rights.has(client),
  };
}

/** @throws SnowleaseError CONFIG_INVALID. It names the number of the line but does not quote the line, which may contain a token. */
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
    if (!tokenGlob.test(glob)) refuse("the last of letters, digits, `_` and `*`");
    const namespaces = new RegExp(`^${glob.replace(/\*+/g, "[^]*")}$`);
    grants.push({ sha256: Buffer.from(sha256, "hex"), role: known, namespaces });
  }
  if (grants.length > 0) return grants;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `The file ${path} has no token, so that no client could do anything; add a line TOKEN-SHA256 ROLE.`,
  );
}

/** Client -> rights of its token. */
function rightsOf(grants: readonly TokenRight[]): ReadonlyMap<string, readonly TokenRight[]> {
  const rights = new Map<string, TokenRight[]>();
  for (const grant of grants) {
    const client = grant.sha256.toString("hex");
    rights.set(client, [...(rights.get(client) ?? []), grant]);
  }
  return rights;
}
