import type { Access } from "../../api/call.ts";
import { shown } from "../../id/errors.ts";
import type { Tokens } from "../../serving/tokens.ts";
import { HttpRefusal } from "../problem.ts";

const realm = 'realm="snowlease"';

/**
 * Lets a request pass, or throws. A route without a namespace is for tokens of all namespaces (`*`), but for `any`, and where it is `partly`
 * for tokens of some.
 * @param authorization the header: `Bearer TOKEN`, or `Basic` with the token as its password.
 * @returns what tells this client from others; it is no secret.
 * @throws SnowleaseError UNAUTHORIZED for no known token; FORBIDDEN when its rights are not enough.
 */
export function admit(
  tokens: Tokens,
  authorization: string | null,
  access: Exclude<Access, "open">,
  namespace: string | undefined,
  partly: boolean = false,
): string {
  const token = tokenOf(authorization);
  if (token === undefined) throw unknown("none came", `Bearer ${realm}, Basic ${realm}, charset="UTF-8"`);
  const client = tokens.clientOf(token);
  if (client === undefined) {
    throw unknown("another came", `Bearer ${realm}, error="invalid_token", Basic ${realm}`);
  }
  const hasRole = tokens.hasRole(client, access);
  if (!(partly ? hasRole : tokens.may(client, access, namespace))) throw insufficient(access, namespace, hasRole);
  return client;
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

function insufficient(access: Exclude<Access, "open">, namespace: string | undefined, hasRole: boolean): HttpRefusal {
  const role = access === "any" ? "of any role" : `of the role \`${access}\``;
  const where =
    namespace === undefined ? "all namespaces" : `namespace ${shown(namespace).replace(/ \(string\)$/, "")}`;
  const advice = "use another token, or add a line for this one to the daemon's file of tokens";
  return new HttpRefusal(403, "FORBIDDEN", `Expected a token ${role} for ${where}; ${advice}.`, {
    headers: { "www-authenticate": `Bearer ${realm}, error="insufficient_scope"` },
    // For a client that goes on without: a FORBIDDEN of the store behind the daemon, or for another namespace, has no role.
    ...(!hasRole && { details: { role: access } }),
  });
}
