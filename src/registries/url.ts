/*
 * The grammar of registry URLs. This file knows no store: the `address.ts` of each store chooses one of these grammars.
 */

/** What an address of this scheme may name. */
export interface Scheme {
  /** The port if a URL names none. Absent: the store has no ports. */
  readonly port?: number;
  /** Requests are always sent with TLS. */
  readonly encrypted?: true;
  /** The addresses of a URL name other servers, to which most requests go. */
  readonly announces?: true;
  /** What the addresses of a list are, such as "members of one cluster". Absent: an address names only one. */
  readonly list?: string;
  /** What to write instead of a list, if people expect one. */
  readonly insteadOfList?: string;
  /** A socket in the file system can replace HOST:PORT. Absent: the store has no such socket. */
  readonly socket?: SocketForm;
}

/** How a URL names a socket: as the host, `%2Fpath`, or in its query. */
interface SocketForm {
  /** The names in the query, as the store's drivers spell them. */
  readonly parameters: readonly string[];
  /** What the socket is, for messages. */
  readonly what: string;
  /** The path names a folder. The port selects one of several sockets in it. */
  readonly hasPort?: true;
}

/** A registry URL without its query, while it is read. */
export interface UrlText extends Scheme {
  /** In lower case. */
  readonly scheme: string;
  readonly body: string;
  /** The path of a socket in the query. */
  readonly path?: string | undefined;
  /** @throws SnowleaseError CONFIG_INVALID: "Expected the registry URL to …", never with a password in it. */
  readonly refuse: (rule: string) => never;
  readonly decode: (part: string) => string;
}

/** Reads the part after the scheme. `redacted`: the URL for people, if the text may contain a secret. */
export type Grammar<Parts> = (url: UrlText) => Parts & { readonly redacted?: string };

/** The parameters in the query that only this store has, as given. */
interface OwnSettings {
  readonly settings: Readonly<Record<string, string>>;
}

/** Servers with a login. */
export interface ServerParts extends OwnSettings {
  /** How to reach the servers, if a store has several schemes. */
  readonly scheme: string;
  readonly servers: readonly { readonly host: string; readonly port: number }[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** The part after the servers, decoded and without the slash before it: a database, a name, a node. */
  readonly path: string;
  /** A driver's ready client, which connects and logs in there. It also has other settings, such as a password. */
  readonly client?: object | undefined;
}

export interface ServerAddress extends ServerParts {
  readonly kind: string;
}

/** Addresses of HTTP servers. */
export interface UrlParts extends OwnSettings {
  /** One or more, without trailing slash, in the order of preference. They may contain user and password. */
  readonly urls: readonly string[];
}

/** A path in the file system. */
export interface PathParts {
  /** As given, decoded. It may be relative. */
  readonly path: string;
}

export const controlCharacter: RegExp = /[\u0000-\u001f\u007f]/;

/** Nothing after the scheme. */
export const none: Grammar<object> = ({ scheme, body, refuse }) => {
  if (body !== "") refuse(`to be just \`${scheme}:\`, with or without a query`);
  return {};
};

/**
 * A path, percent-decoded. A `?`, `#` or `%` in it is written `%3F`, `%23`, `%25`.
 * @param check returns the rule that a path breaks. Undefined: the path is valid.
 */
export function path(check: (path: string) => string | undefined): Grammar<PathParts> {
  return ({ scheme, body, refuse, decode }) => {
    if (body.startsWith("//") && !body.startsWith("///")) {
      refuse(`to have a path, ${scheme}:./relative or ${scheme}:///absolute, and no host`);
    }
    // Two programs with such a list in different orders would use two files.
    if (/,[a-z][a-z0-9+.-]*:/i.test(body)) refuse("to have one path; a comma in its name is written %2C");
    const encoded = body.startsWith("//") ? body.slice(2) : body;
    if (/^\/?~/.test(encoded)) refuse("to have a path without `~`, which is not expanded; write it out");
    const path = decode(encoded);
    if (path === "" || controlCharacter.test(path)) refuse("to have a path without control characters");
    const rule = check(path);
    return rule === undefined ? { path } : refuse(rule);
  };
}

/** `//HOST:PORT/…`, several separated by commas. All after the first may omit the scheme. */
export const urls: Grammar<Omit<UrlParts, "settings">> = ({ scheme, list, body, refuse }) => {
  const [first = "", ...others] = `${scheme}:${body}`.split(",");
  const parts = [first, ...others.map((part) => (part.includes("://") ? part : `${scheme}://${part}`))];
  const urls = parts.map((part) => {
    const url = /^https?:\/\/[^/\\\s]\S*$/i.test(part) && URL.canParse(part) ? new URL(part) : undefined;
    return url === undefined || url.hostname === "" || url.port === "0"
      ? refuse(`to be an address like http://HOST:PORT, or several (${list}), separated by commas`)
      : url;
  });
  return { urls: urls.map(({ href }) => href.replace(/\/$/, "")), redacted: urls.map(shownUrl).join(",") };
};

/** An address of an HTTP server for people: no password, no token. */
export function shownUrl({ username, password, protocol, host, pathname }: URL): string {
  // A user alone may be a token.
  const user = password !== "" && username !== "" ? `${username}:***@` : `${username}${password}` === "" ? "" : "***@";
  return `${protocol}//${user}${host}${pathname}`.replace(/\/$/, "");
}

/**
 * `//USER:PASSWORD@HOST:PORT/PATH`. If the scheme has lists, more HOST:PORT follow, separated by commas. If the scheme has sockets, the
 * path of one can replace the host.
 */
export const servers: Grammar<Omit<ServerParts, "settings">> = (url) => {
  const { scheme, port: usualPort = 0, list, insteadOfList, socket, path: named, body, refuse, decode } = url;
  if (body.split("@").length > 2) refuse("to have `@`, `/` and `:` of a user, password or name as %40, %2F and %3A");
  const [, login, given = "", path = ""] = /^\/\/(?:([^@/]*)@)?([^@/]*)(?:\/(.*))?$/.exec(body) ?? [];
  const hosts = named === undefined ? given : withSocket(given, named, url);
  if (list === undefined && hosts.includes(",")) {
    refuse(`to name one server, because several would grant the same worker IDs: ${insteadOfList}`);
  }
  const isSocket = socket !== undefined && /^%2F/i.test(hosts);
  const servers = isSocket
    ? [socketOf(hosts, url)]
    : hosts.split(",").map((part) => {
        const [, six, name = "", port = usualPort] =
          /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(part) ?? [];
        return { host: six ?? name, port: Number(port) };
      });
  if (!isSocket && servers.some(({ host, port }) => host === "" || port < 1 || port > 65_535)) {
    const more = list === undefined ? "" : `, with more HOST:PORT (${list}) separated by commas`;
    const instead = socket === undefined ? "" : `, or with ${socket.what} as %2FPATH in place of HOST:PORT`;
    refuse(`to be like ${scheme}://USER:PASSWORD@HOST:PORT/NAME${more}${instead}, with ports up to 65535`);
  }
  // Without this check, a slash in a password would turn the rest of it into a path, and messages show paths.
  if (path.includes("@")) refuse("to have `@`, `/` and `:` of a user, password or name as %40, %2F and %3A");
  const { shownLogin, ...who } = loginOf(login, decode);
  const redacted = `${scheme}://${shownLogin}${hosts}${path === "" ? "" : `/${path}`}`;
  return { scheme, servers, ...who, path: decode(path), redacted };
};

/** `//USER:PASSWORD@/path/of/a/socket`. */
export const socket: Grammar<Omit<ServerParts, "settings">> = ({ scheme, body, refuse, decode }) => {
  const [, login, encoded = ""] = /^\/\/(?:([^@/]*)@)?((?:\/|%2F)[^@]+)$/i.exec(body) ?? [];
  const host = decode(encoded);
  if (host === "" || controlCharacter.test(host)) refuse(`to be like ${scheme}://USER:PASSWORD@/path/of/the/socket`);
  const { shownLogin, ...who } = loginOf(login, decode);
  return { scheme, servers: [{ host, port: 0 }], ...who, path: "", redacted: `${scheme}://${shownLogin}${encoded}` };
};

function loginOf(
  login: string | undefined,
  decode: UrlText["decode"],
): Pick<ServerParts, "user" | "password"> & { /** Without the password. */ readonly shownLogin: string } {
  const [user = "", ...rest] = login?.split(":") ?? [];
  return {
    user: user === "" ? undefined : decode(user),
    password: rest.length === 0 ? undefined : decode(rest.join(":")),
    shownLogin: login === undefined ? "" : rest.length === 0 ? "***@" : `${user}:***@`,
  };
}

/** The host part of a URL whose query names a socket. Drivers require a host before the path, and ignore it. */
function withSocket(hosts: string, path: string, { socket, refuse }: UrlText): string {
  const { parameters: [parameter] = [], hasPort } = socket ?? {};
  if (!path.startsWith("/")) {
    refuse(`to name a host before the path, and in \`${parameter}\` only the whole path of a socket`);
  }
  const [, port = ""] =
    /^(?:localhost)?(:\d{1,5})?$/i.exec(hosts) ?? refuse(`to name either a host or \`${parameter}\``);
  return `${encodeURIComponent(path)}${hasPort ? port : ""}`;
}

function socketOf(
  hosts: string,
  { socket, port = 0, scheme, refuse, decode }: UrlText,
): ServerParts["servers"][number] {
  const [, encoded = "", own] = /^([^:]+)(?::(\d{1,5}))?$/.exec(hosts) ?? [];
  const host = decode(encoded);
  const isPlain = host !== "" && !controlCharacter.test(host) && (socket?.hasPort || own === undefined);
  if (!isPlain) refuse(`to be like ${scheme}://USER:PASSWORD@%2FPATH/NAME with ${socket?.what}`);
  return { host, port: socket?.hasPort ? Number(own ?? port) : 0 };
}

/** Servers, for people. */
export function whereOf(servers: ServerParts["servers"]): string {
  const texts = servers.map(({ host, port }) => {
    // A socket in the file system has no port.
    return port === 0 ? host : `${host.includes(":") ? `[${host}]` : host}:${port}`;
  });
  return texts.join(",");
}
