import { type RegistryAddress, type ServerAddress, settingsOf, whereOf } from "./address.ts";
import { shown, SnowleaseError } from "../id/errors.ts";

/*
 * A driver's ready client in place of a registry URL. It is asked where it connects to and how it logs in, and for nothing else: a
 * registry's connections have to send nothing late, queue nothing and be cut off at a deadline, and must not hold up others'.
 */

/** A `Redis` or `Cluster` of ioredis. */
export interface RedisClient {
  readonly options: object;
  readonly duplicate: unknown;
  readonly callBuffer: unknown;
}

/** A `Pool` of pg. */
export interface PostgresPool {
  readonly options: object;
  readonly totalCount: number;
}

/** A pool of mysql2 or mysql2/promise. */
export interface MysqlPool {
  readonly getConnection: unknown;
  readonly releaseConnection: unknown;
}

/**
 * A driver's ready client. Connections are made anew, to where it connects and with its login; it is itself neither used, changed nor
 * closed, and may be closed already.
 */
export type RegistryClient = RedisClient | PostgresPool | MysqlPool;

/** A ready client with settings that would stand in the query of a registry URL: for what they mean, see docs/registries. */
export interface ClientWithSettings {
  readonly client: RegistryClient;
  /** Redis. */
  readonly wait?: number | undefined;
  /** Redis, PostgreSQL, MySQL and MariaDB. */
  readonly beside?: "westid" | undefined;
  /** Redis; ms, or text with its unit. */
  readonly maxLag?: number | string | undefined;
  /** PostgreSQL, MySQL and MariaDB. */
  readonly poolSize?: number | undefined;
}

/** Where a client connects to. */
export type ClientTarget = Pick<ServerAddress, "kind" | "scheme" | "servers" | "user" | "path"> & {
  readonly client: object;
};

/** What a client has itself. */
const itsOwn: readonly string[] = ["tls", "tlsCa", "sentinelUser", "sentinelPassword"];

/**
 * The address of a client.
 * @param beside its settings by name, as a URL would have them.
 * @throws SnowleaseError CONFIG_INVALID for one that its store does not have, or that the client has itself.
 */
export function clientAddress(target: ClientTarget, beside: object): RegistryAddress {
  const { kind, scheme, servers, user, path } = target;
  const names = settingsOf[kind].filter((name) => !itsOwn.includes(name));
  const given = Object.entries(beside).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!names.includes(name)) {
      const advice = itsOwn.includes(name) ? "give it to the client itself" : `there are ${names.join(", ")}`;
      throw new SnowleaseError("CONFIG_INVALID", `Expected no \`${name}\` beside a ready client; ${advice}.`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` to be a number or a text, got ${shown(value)}.`);
    }
  }
  const login = user === undefined ? "" : `${encodeURIComponent(user)}:***@`;
  const text = `${scheme}://${login}${whereOf(servers)}${path === "" ? "" : `/${path}`}`;
  const settings = Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
  return { ...target, password: undefined, settings, parameters: {}, text, redacted: text };
}

/** What was passed that is none of these, for messages: it may hold a password anywhere inside. */
export function classText(value: unknown): string {
  const name: unknown = Object(Object(value).constructor).name;
  const plain = typeof name !== "string" || name === "" || name === "Object" || name === "Function";
  return plain
    ? `a value of the type ${typeof value}`
    : `an object of the class ${shown(name).replace(/ \(string\)$/, "")}`;
}
