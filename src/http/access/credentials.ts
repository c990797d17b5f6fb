import type { Access } from "../../api/call.ts";
import type { Tokens } from "../../serving/tokens.ts";
import { HttpRefusal } from "../problem.ts";

const realm = 'realm="snowlease"';

/**
 * Lets a request pass, or throws. A route without a namespace needs a token of all namespaces (`*`), except with access `any`.
 * @param authorization the header: `Bearer TOKEN`, or `Basic` with the token as its password.
 * @returns a text that identifies the client. It is not a secret.
 * @throws SnowleaseError UNAUTHORIZED without a known token; FORBIDDEN when its rights are not enough.
 */
export function admit(
  tokens: Tokens,
  authorization: string | null,
  access: Exclude<Access, "open">,
  namespace: string | undefined,
): string {
  const token = tokenOf(authorization);
  if (token === undefined) throw unknown("none came", `Bearer ${realm}, Basic ${realm}, charset="UTF-8"`);
  const client = tokens.clientOf(token);
  if (client === undefined) {
    throw unknown("another came", `Bearer ${realm}, error="invalid_token", Basic ${realm}`);
  }
  if (!tokens.may(client, access, namespace)) throw insufficient(access, namespace);
  return client;
}

function tokenOf(authorization: string | null): string | undefined {
  const [, scheme = "", credentials = ""] = /^(bearer|basic) +([\x21-\x7e]+) *$/i.exec(authorization ?? "") ?? [];
  if (scheme.toLowerCase() !== "basic") return credentials || undefined;
  const login = Buffer.from(credentials, "base64").toString();
  const at = login.indexOf(":");
  // If a URL has only a token, the token is the user name.
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
    details: { role: access },
  });
}
