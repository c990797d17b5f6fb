import { didYouMean } from "../id/did-you-mean.ts";
import { shown, SnowleaseError } from "../id/errors.ts";
import { type Taker, translated } from "./familiar-tls.ts";
import type { StoreKind } from "./store-kind.ts";
import { controlCharacter, type UrlText } from "./url.ts";
import type { StoreParameters } from "./url-parameters.ts";

/**
 * Reads a registry URL: `SCHEME:`, then the part that the scheme's store defines, and a query like `?name=value&name=value`,
 * percent-decoded.
 * @throws SnowleaseError CONFIG_INVALID, never with a password in it.
 */
export function readUrl(text: string, stores: readonly StoreKind[]): { readonly kind: string } {
  const schemes = stores.flatMap((store) => Object.keys(store.schemes));
  const aliases = new Map(stores.flatMap((store) => Object.entries(store.aliases ?? {})));
  const refuse = (rule: string): never => {
    throw new SnowleaseError("CONFIG_INVALID", `Expected the registry URL ${rule}, got ${redact(text, schemes)}.`);
  };
  const decode = (part: string): string => {
    try {
      return decodeURIComponent(part);
    } catch {
      return refuse("to have only whole percent-encoded characters; a `%` itself is written %25");
    }
  };
  const [, prefix = "", rest = ""] = (typeof text === "string" && /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(text)) || [];
  const scheme = aliases.get(prefix.toLowerCase()) ?? prefix.toLowerCase();
  const store = stores.find((store) => Object.hasOwn(store.schemes, scheme));
  if (store === undefined) {
    const meant = meantUrl(text, stores) ?? didYouMean(scheme, [...schemes, ...aliases.keys()])?.concat(":");
    const advice = meant === undefined ? "" : `, perhaps ${meant}`;
    return refuse(`to start with one of ${schemes.map((scheme) => `${scheme}:`).join(" ")}${advice}`);
  }
  if (controlCharacter.test(text) || text.trimEnd() !== text) {
    refuse("to have no control characters or space at its end");
  }
  if (rest.includes("#")) refuse("to have no `#`; in a path write %23");

  const [, body = "", queryText] = /^([^?]*)(?:\?(.*))?$/s.exec(rest) ?? [];
  const { kind, parameters: own, grammar } = store;
  const given = queryText === undefined ? new Map<string, string>() : readQuery(queryText, refuse, decode);
  const taker = { own: own ?? {}, scheme };
  const known = inOwnTerms(given, taker, refuse);
  const { socket: form } = store.schemes[scheme] ?? {};
  const named = [...known].filter(([name]) => form?.parameters.includes(name));
  if (named.length > 1) refuse(`to name one socket, not \`${named.map(([name]) => name).join("` and `")}\``);
  const query = [...known].filter(([name]) => !form?.parameters.includes(name));
  const plain = `${scheme}:${body}`;
  const parts = grammar({ ...store.schemes[scheme], scheme, body, path: named[0]?.[1], refuse, decode });
  // `fromEntries` defines properties, so `__proto__` is an ordinary name.
  const divided = (isOwn: boolean): Readonly<Record<string, string>> =>
    Object.fromEntries(query.filter(([name]) => Object.hasOwn(own ?? {}, name) === isOwn));
  return {
    kind,
    text: plain,
    ...parts,
    redacted: withPlace(parts.redacted ?? plain, Object.fromEntries(query), own),
    parameters: divided(false),
    ...(own && { settings: divided(true) }),
  } as { readonly kind: string };
}

/** The default port of a daemon. */
const daemonPort = 7070;

/** The URL for a text without a scheme: a host with the usual port of a store, the name of a scheme, or the path of a file. */
function meantUrl(text: unknown, stores: readonly StoreKind[]): string | undefined {
  if (typeof text !== "string") return undefined;
  const known = stores.flatMap(({ schemes }) => Object.entries(schemes));
  const ports = known.map(([scheme, { port }]) => ({ scheme, port: scheme === "http" ? daemonPort : port }));
  // This text contains neither a user nor a password.
  const port = /^(?:[\w.-]+|\[[\da-f:.]+\]):(\d{1,5})(?:\/\w*)?$/i.exec(text)?.[1];
  const usual = ports.find((each) => port !== undefined && each.port === Number(port));
  if (usual !== undefined) return `${usual.scheme}://${text}`;
  const [, word = ""] = /^([\w+]+)(?:\/\/.*)?$/s.exec(text) ?? [];
  const named = ports.find(({ scheme }) => scheme === word.toLowerCase());
  if (named !== undefined)
    return named.port === undefined ? `${named.scheme}:` : `${named.scheme}://HOST:${named.port}`;
  return /^[\w./-]+\.(?:db|sqlite3?)$/.test(text) ? `sqlite:${text}` : undefined;
}

/** The text of a URL that messages show, with the parameters that say which registry is meant. */
export function withPlace(
  redacted: string,
  settings: Readonly<Record<string, string>>,
  parameters: StoreParameters = {},
): string {
  const place = Object.entries(settings).filter(([name]) => parameters[name]?.isPlace);
  if (place.length === 0) return redacted;
  return `${redacted}?${place.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
}

function readQuery(query: string, refuse: UrlText["refuse"], decode: UrlText["decode"]): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  for (const part of query.split("&")) {
    const [encoded = "", ...value] = part.split("=");
    const name = decode(encoded);
    if (name === "" || value.length === 0) refuse("to have a query like ?name=value&name=value");
    if (pairs.has(name)) refuse(`to have the query parameter ${shown(name)} once`);
    pairs.set(name, decode(value.join("=")));
  }
  return pairs;
}

/** The query, in which our parameters replace other programs' parameters about encryption. */
function inOwnTerms(
  query: ReadonlyMap<string, string>,
  taker: Taker,
  refuse: UrlText["refuse"],
): ReadonlyMap<string, string> {
  const all = new Map<string, string>();
  for (const [name, value] of query) {
    const translation = translated(name, value, taker) ?? ([name, value] as const);
    if (typeof translation === "string") return refuse(translation);
    const [ours, meant] = translation;
    if ((all.get(ours) ?? meant) !== meant) refuse(`to say one thing of \`${ours}\`, and \`${name}\` says another`);
    all.set(ours, meant);
  }
  return all;
}

/** The part of an unreadable text that messages may show. All text up to the last `@` may be a password, and so may the query. */
function redact(text: unknown, schemes: readonly string[]): string {
  if (typeof text !== "string") return shown(text);
  const [prefix = "", slashes] = /^[a-z][a-z0-9+.-]*:(\/\/)?/i.exec(text) ?? [];
  // If nothing else shows that this is a scheme, it may be a user before a password.
  const known = slashes !== undefined || schemes.some((scheme) => prefix.toLowerCase().startsWith(`${scheme}:`));
  const rest = known ? text.slice(prefix.length) : text;
  return shown(`${known ? prefix : ""}${rest.replace(/^.*@/s, "***@").replace(/\?.*$/s, "?***")}`);
}
