import { shown, SnowleaseError } from "../id/errors.ts";

interface AddressText {
  /** Without the query, as it was given: it may hold a password. */
  readonly text: string;
  /** `text` for people: no password, no token. */
  readonly redacted: string;
  /** The query, decoded. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Where a registry is, read from a registry URL. */
export type RegistryAddress = AddressText &
  (
    | { readonly kind: "sqlite"; /** As given, decoded: may be relative. */ readonly path: string }
    | { readonly kind: "unix"; /** Likewise. */ readonly path: string; readonly token?: string | undefined }
    | { readonly kind: "memory" }
    | {
        readonly kind: "http";
        /** http or https, one or more, without trailing slash, in the order of preference; may hold user and password. */
        readonly urls: readonly string[];
        /** For those without a login; no part of the URL, but of the configuration around it. */
        readonly token?: string | undefined;
        /** The parameters of the query that are this kind's own, as given. */
        readonly settings: Readonly<Record<string, string>>;
      }
    | ServerAddress
  );

/** Servers of a store with their login. */
export interface ServerAddress {
  readonly kind: "redis" | "mysql" | "oracle" | "postgres" | "zookeeper";
  /** How they are reached: `rediss` is TLS, `redis+sentinel` names sentinels, `redis+cluster` some nodes. */
  readonly scheme: ServerScheme;
  readonly servers: readonly { readonly host: string; readonly port: number }[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** What stands behind the servers, decoded and without the slash before it: a database, a name, a node. */
  readonly path: string;
  /** The parameters of the query that are this kind of store's own, as given. */
  readonly settings: Readonly<Record<string, string>>;
  /** A driver's ready client, which connects and logs in there: with what else it knows, a password too. */
  readonly client?: object | undefined;
}

const embedded = ["sqlite", "memory", "http", "https", "unix"] as const;

/** The schemes of servers, each with the port where the URL names none. */
const ports = {
  redis: 6379,
  rediss: 6379,
  "redis+sentinel": 26_379,
  "redis+cluster": 6379,
  mysql: 3306,
  oracle: 1521,
  postgres: 5432,
  zookeeper: 2181,
} as const;
type ServerScheme = keyof typeof ports;

/** The parameters of a query that only one kind of store has: see there for what they mean. */
const sqlSettings = ["poolSize", "beside", "tls", "tlsCa"];
export const settingsOf: Readonly<Record<ServerAddress["kind"] | "http", readonly string[]>> = {
  http: ["tlsCa", "tlsCert", "tlsKey"],
  redis: ["wait", "beside", "maxLag", "tls", "sentinelUser", "sentinelPassword"],
  zookeeper: ["sessionTimeout", "tls", "tlsCa"],
  mysql: sqlSettings,
  oracle: sqlSettings,
  postgres: sqlSettings,
};
const present: readonly string[] = [...embedded, ...Object.keys(ports)];

/** What fits `sun_path` on Linux with its closing 0, bytes. */
const maxSocketPath = 107;
const controlCharacter = /[\u0000-\u001f\u007f]/;

/**
 * Reads a registry URL: `sqlite:PATH`, `memory:`, `unix:PATH`, `http://…` or `https://…`, several of these separated by
 * commas (a later one may leave out the scheme); with a query at the end. Paths and query are percent-decoded, so a `?`, `#`
 * or `%` in a path is written `%3F`, `%23`, `%25`.
 * @throws SnowleaseError CONFIG_INVALID, never with a password in it.
 */
export function parseAddress(text: string): RegistryAddress {
  const [, prefix = "", rest = ""] = (typeof text === "string" && /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(text)) || [];
  const scheme = prefix.toLowerCase();
  const kind = embedded.find((kind) => kind === scheme);
  if (!present.includes(scheme))
    return refuse(`to start with one of ${present.map((kind) => `${kind}:`).join(" ")}`, text);
  if (controlCharacter.test(text) || text.trimEnd() !== text)
    refuse("to have no control characters or space at its end", text);
  if (rest.includes("#")) refuse("to have no `#`; in a path write %23", text);

  const end = rest.indexOf("?");
  const body = end < 0 ? rest : rest.slice(0, end);
  const parameters = end < 0 ? {} : parseQuery(rest.slice(end + 1), text);
  const clean = `${scheme}:${body}`;
  if (kind === "http" || kind === "https") {
    const [first = "", ...others] = clean.split(",");
    const parts = [first, ...others.map((part) => (part.includes("://") ? part : `${kind}://${part}`))];
    const urls = parts.map((part) => parseUrl(part, text));
    const redacted = urls.map(withoutUser).join(",");
    return { kind: "http", urls: urls.map(textOf), text: clean, redacted, ...divided("http", parameters) };
  }
  if (kind === "memory") {
    if (body !== "") refuse("to be just `memory:`, with or without a query", text);
    return { kind, text: clean, redacted: clean, parameters };
  }
  if (kind === undefined) return parseServers(scheme as ServerScheme, body, parameters, text);
  return { kind, path: parsePath(kind, body, text), text: clean, redacted: clean, parameters };
}

function parseServers(
  scheme: ServerScheme,
  body: string,
  query: Readonly<Record<string, string>>,
  text: string,
): RegistryAddress {
  const [, login, list = "", path = ""] = /^\/\/(?:([^@/]*)@)?([^@/]+)(?:\/(.*))?$/.exec(body) ?? [];
  const servers = list.split(",").map((part) => {
    const [, six, name = "", port = ports[scheme]] =
      /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(part) ?? [];
    return { host: six ?? name, port: Number(port) };
  });
  if (servers.some(({ host, port }) => host === "" || port < 1 || port > 65_535)) {
    refuse(`to be like ${scheme}://USER:PASSWORD@HOST:PORT/NAME, with more HOST:PORT separated by commas`, text);
  }
  // Or else a slash in a password would make a path of what follows it, which is shown.
  if (path.includes("@")) refuse("to have `@`, `/` and `:` of a user, password or name as %40, %2F and %3A", text);
  const [user = "", ...rest] = login?.split(":") ?? [];
  const kind = kindOf(scheme);
  const where = `${list}${path === "" ? "" : `/${path}`}`;
  return {
    kind,
    scheme,
    servers,
    user: user === "" ? undefined : decode(user, text),
    password: rest.length === 0 ? undefined : decode(rest.join(":"), text),
    path: decode(path, text),
    text: `${scheme}:${body}`,
    redacted: `${scheme}://${login === undefined ? "" : rest.length === 0 ? "***@" : `${user}:***@`}${where}`,
    ...divided(kind, query),
  };
}

/** Servers, for people. */
export function whereOf(servers: ServerAddress["servers"]): string {
  const texts = servers.map(({ host, port }) => {
    // A socket in the file system has no port.
    return port === 0 ? host : `${host.includes(":") ? `[${host}]` : host}:${port}`;
  });
  return texts.join(",");
}

/** The parameters of a query: those of this kind of store alone, and all others. */
function divided(
  kind: ServerAddress["kind"] | "http",
  query: Readonly<Record<string, string>>,
): Pick<ServerAddress, "settings"> & Pick<AddressText, "parameters"> {
  const those = (wanted: boolean): Record<string, string> =>
    Object.fromEntries(Object.entries(query).filter(([name]) => settingsOf[kind].includes(name) === wanted));
  return { settings: those(true), parameters: those(false) };
}

function kindOf(scheme: ServerScheme): ServerAddress["kind"] {
  switch (scheme) {
    case "mysql":
    case "oracle":
    case "postgres":
    case "zookeeper":
      return scheme;
    default:
      return "redis";
  }
}

/** The address of a file or socket whose path is at hand, so that nothing in it needs encoding. */
export function pathAddress(kind: "sqlite" | "unix", path: string): RegistryAddress {
  const text = `${kind}:${path.replace(/[%?#]/g, encodeURIComponent)}`;
  return { kind, path: checkPath(kind, path, text), text, redacted: text, parameters: {} };
}

function parsePath(kind: "sqlite" | "unix", body: string, text: string): string {
  if (body.startsWith("//") && !body.startsWith("///")) {
    refuse(`to have a path, ${kind}:./relative or ${kind}:///absolute, and no host`, text);
  }
  const path = body.startsWith("//") ? body.slice(2) : body;
  if (/^\/?~/.test(path)) refuse("to have a path without `~`, which is not expanded; write it out", text);
  return checkPath(kind, decode(path, text), text);
}

function checkPath(kind: "sqlite" | "unix", path: string, text: string): string {
  if (path === "" || controlCharacter.test(path)) refuse("to have a path without control characters", text);
  // SQLite itself gives these a meaning: a database in memory would forget every window.
  if (kind === "sqlite" && /^(:|file:)/i.test(path)) {
    refuse("to name a file (one whose name begins so is written ./NAME); for a registry in memory use `memory:`", text);
  }
  if (kind === "unix" && new TextEncoder().encode(path).length > maxSocketPath) {
    refuse(`to have a socket path of at most ${maxSocketPath} bytes`, text);
  }
  return path;
}

function parseUrl(part: string, text: string): URL {
  const url = /^https?:\/\/[^/\\\s]\S*$/i.test(part) && URL.canParse(part) ? new URL(part) : undefined;
  if (url === undefined || url.hostname === "" || url.port === "0") {
    return refuse("to be a list of addresses like http://HOST:PORT, separated by commas", text);
  }
  return url;
}

function textOf(url: URL): string {
  return url.href.replace(/\/$/, "");
}

function withoutUser(url: URL): string {
  const { username, password, protocol, host, pathname } = url;
  // A user alone may be a token.
  const user = password !== "" && username !== "" ? `${username}:***@` : `${username}${password}` === "" ? "" : "***@";
  return `${protocol}//${user}${host}${pathname}`.replace(/\/$/, "");
}

function parseQuery(query: string, text: string): Readonly<Record<string, string>> {
  const pairs = new Map<string, string>();
  for (const part of query.split("&")) {
    const at = part.indexOf("=");
    const name = decode(at < 0 ? part : part.slice(0, at), text);
    if (name === "" || at < 0) refuse("to have a query like ?name=value&name=value", text);
    if (pairs.has(name)) refuse(`to have the query parameter ${shown(name)} once`, text);
    pairs.set(name, decode(part.slice(at + 1), text));
  }
  // Defines properties, so that `__proto__` is a name like any other.
  return Object.fromEntries(pairs);
}

function decode(part: string, text: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return refuse("to have only whole percent-encoded characters; a `%` itself is written %25", text);
  }
}

/** What may be shown of a text that could not be read: everything up to the last `@` may be a password, and so may the query. */
function redact(text: unknown): string {
  if (typeof text !== "string") return shown(text);
  const [prefix = ""] = /^[a-z+]+:(\/\/)?/i.exec(text) ?? [];
  const known = present.some((kind) => prefix.toLowerCase().startsWith(`${kind}:`));
  const rest = known ? text.slice(prefix.length) : text;
  return shown(`${known ? prefix : ""}${rest.replace(/^.*@/s, "***@").replace(/\?.*$/s, "?***")}`);
}

function refuse(rule: string, text: unknown): never {
  throw new SnowleaseError("CONFIG_INVALID", `Expected the registry URL ${rule}, got ${redact(text)}.`);
}
