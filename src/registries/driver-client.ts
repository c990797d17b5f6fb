import { configInvalid, shown } from "../id/errors.ts";
import type { StoreKind } from "./store-kind.ts";
import { withPlace } from "./read-url.ts";
import { whereOf } from "./url.ts";
import type { StoreParameters } from "./url-parameters.ts";

/*
 * A driver's ready client in place of a registry URL. Only its target and its login are read. The registry makes its own connections,
 * because these send nothing late, queue nothing, end at a deadline, and never delay the program's connections.
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
 * A driver's ready client. The registry makes connections of its own to the same target, with the same login. It never uses, changes or
 * closes this client, which may be closed already.
 */
export type RegistryClient = RedisClient | PostgresPool | MysqlPool;

/** A ready client, with parameters that a registry URL has in its query. docs/registries describes them. */
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

/**
 * The address of a ready client of one of these stores; undefined for anything else.
 * @param settings the parameters that a URL would have in its query, by name.
 * @throws SnowleaseError CONFIG_INVALID for a parameter that the store does not have, or that the client has itself.
 */
export function clientAddress(client: unknown, settings: object, stores: readonly StoreKind[]): object | undefined {
  if (typeof client !== "object" || client === null) return undefined;
  for (const { kind, parameters = {}, clientTarget } of stores) {
    const target = clientTarget?.(client);
    if (target === undefined) continue;
    const { scheme, servers, user, path } = target;
    const login = user === undefined ? "" : `${encodeURIComponent(user)}:***@`;
    const text = `${scheme}://${login}${whereOf(servers)}${path === "" ? "" : `/${path}`}`;
    const own = { settings: settingsBeside(settings, parameters), parameters: {} };
    const redacted = withPlace(text, own.settings, parameters);
    return { ...target, ...own, kind, client, password: undefined, text, redacted };
  }
  return undefined;
}

function settingsBeside(settings: object, parameters: StoreParameters): Readonly<Record<string, string>> {
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  const names = Object.keys(parameters).filter((name) => !parameters[name]?.clientHas);
  for (const [name, value] of given) {
    if (!names.includes(name)) {
      const advice = Object.hasOwn(parameters, name) ? "give it to the client itself" : `there are ${names.join(", ")}`;
      throw configInvalid(`Expected no \`${name}\` beside a ready client; ${advice}.`);
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw configInvalid(`Expected \`${name}\` to be a number or a text, got ${shown(value)}.`);
    }
  }
  const text = (name: string, value: unknown): string =>
    String(value) + (typeof value === "number" ? (parameters[name]?.unit ?? "") : "");
  return Object.fromEntries(given.map(([name, value]) => [name, text(name, value)]));
}

/** The class of a value, for messages: the value may hold a password. */
export function classText(value: unknown): string {
  const name: unknown = Object(Object(value).constructor).name;
  const plain = typeof name !== "string" || name === "" || name === "Object" || name === "Function";
  return plain
    ? `a value of the type ${typeof value}`
    : `an object of the class ${shown(name).replace(/ \(string\)$/, "")}`;
}
