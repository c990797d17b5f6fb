import { isIP } from "node:net";
import { addressOfClient, parseAddress, type RegistryAddress } from "../registries/index.ts";
import type { WorkerIdAssigner } from "../lease/assigner.ts";
import { durationOf } from "../id/duration.ts";
import { Layout } from "../id/layout.ts";
import { namespacePattern, namespaceRule } from "../id/namespace.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import { parsePool } from "../id/notation.ts";
import type { Registry } from "../rule/registry.ts";

/* No zod here: loading it would be a third of the time to a process's first ID. */

/** A kind of value that an option may take. */
export interface Kind<Value> {
  /** Reads a given value, as it is or as a text; undefined if it is not of this kind. May throw a SnowleaseError that says more. */
  readonly read: (given: unknown) => Value | undefined;
  /** What a value has to be. The text follows "Expected `name`". It may depend on the given value. */
  readonly rule: string | ((given: unknown) => string);
  /** Stands for such a value in `--help`; undefined for a flag without one. */
  readonly value?: string;
}

/** Longest delay that a timer accepts, ms. */
const longest = 2 ** 31 - 1;
const decimal = "(?:0|[1-9][0-9]{0,9})";
const integerPattern = new RegExp(`^${decimal}$`);
const hostAndPortPattern = new RegExp(`^(\\[[0-9a-fA-F:.]+\\]|[^\\s:/[\\]]+):(${decimal})$`);

export function matching(value: string, pattern: RegExp, rule: Kind<string>["rule"]): Kind<string> {
  return { value, rule, read: (given) => (typeof given === "string" && pattern.test(given) ? given : undefined) };
}

export function oneOf<const Word extends string>(...words: readonly Word[]): Kind<Word> {
  return {
    value: words.join("|"),
    rule: `to be one of ${words.join(", ")}`,
    read: (given) => words.find((word) => word === given),
  };
}

export function integer(value: string, least = 0, most: number = longest): Kind<number> {
  return {
    value,
    rule: `to be an integer from ${least} to ${most}`,
    read: (given) =>
      within(typeof given === "string" && integerPattern.test(given) ? Number(given) : given, least, most),
  };
}

export function duration(least: number): Kind<number> {
  return {
    value: "TIME",
    rule: `to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from ${least} to ${longest} ms`,
    read: (given) => within(typeof given === "string" ? durationOf(given) : given, least),
  };
}

function within(number: unknown, least: number, most: number = longest): number | undefined {
  return typeof number === "number" && Number.isInteger(number) && number >= least && number <= most
    ? number
    : undefined;
}

export const registryUrl: Kind<RegistryAddress | Registry> = {
  value: "URL",
  rule: "to be a registry URL such as sqlite:/var/lib/snowlease/registry.db, a registry, or a driver's ready client",
  read(given) {
    if (typeof given === "string") return parseAddress(given);
    if (hasMethods<Registry>(given, "claim", "renew", "release", "close")) return given;
    return isObject(given) ? addressOfClient(given) : undefined;
  },
};

export const namespace: Kind<string> = matching("NAME", namespacePattern, namespaceRule);

export const layout: Kind<Layout> = {
  value: "LAYOUT",
  rule: "to be a preset's name or a notation",
  read(given) {
    if (typeof given === "string") return Layout.parse(given);
    return given instanceof Layout ? given : undefined;
  },
};

export const pool: Kind<PoolBounds> = {
  value: "RANGE",
  rule: "to be a range of worker IDs such as 512-1023",
  read(given) {
    if (typeof given === "string") return parsePool(given);
    if (!isRecord(given)) return undefined;
    const { first, last, ...others } = given;
    if (!isWhole(first) || !isWhole(last) || Object.keys(others).length > 0) return undefined;
    return { first, last };
  },
};

export const truth: Kind<boolean> = {
  rule: "to be true or false",
  read(given) {
    if (given === "true" || given === "false") return given === "true";
    return typeof given === "boolean" ? given : undefined;
  },
};

export const ipAddress: Kind<string> = {
  value: "ADDRESS",
  rule: "to be an IPv4 or IPv6 address",
  // An IPv6 address with a zone is valid on one link only.
  read: (given) => (typeof given === "string" && isIP(given) !== 0 && !given.includes("%") ? given : undefined),
};

/** The address at which no other host can reach a server. */
const loopback = "127.0.0.1";

export const hostAndPort: Kind<{ host: string; port: number }> = {
  value: "[HOST:]PORT",
  rule: `to be a port from 0 to 65535, or HOST:PORT, such as ${loopback}:7070 or [::1]:7070`,
  read(given) {
    const isPort = typeof given === "number" || (typeof given === "string" && integerPattern.test(given));
    const text = isPort ? `${loopback}:${given}` : given;
    const [, host = "", port = "65536"] = (typeof text === "string" && hostAndPortPattern.exec(text)) || [];
    return Number(port) < 65_536 ? { host: host.replace(/^\[|\]$/g, ""), port: Number(port) } : undefined;
  },
};

/** Where a server listens: an address, or the path of a Unix socket. */
export type ListenPlace = { readonly host: string; readonly port: number } | { readonly socket: string };

export const listenPlace: Kind<ListenPlace> = {
  value: "[HOST:]PORT|PATH",
  rule: `to be a port from 0 to 65535, HOST:PORT, such as ${loopback}:7071, or the path of a socket, with a \`/\` in it`,
  read(given) {
    if (typeof given !== "string" || !given.includes("/")) return hostAndPort.read(given);
    const socket = path.read(given);
    return socket === undefined ? undefined : { socket };
  },
};

export const hostNames: Kind<readonly string[]> = {
  value: "NAMES",
  rule: "to be names of hosts, separated by commas, such as snowlease.example.org",
  read(given) {
    const names: readonly unknown[] = typeof given === "string" ? given.split(",") : Array.isArray(given) ? given : [];
    const isName = (name: unknown): name is string =>
      typeof name === "string" && name.length < 254 && /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/i.test(name);
    return names.length > 0 && names.every(isName) ? names.map((name) => name.toLowerCase()) : undefined;
  },
};

export const path: Kind<string> = matching("PATH", /^[^\u0000-\u001f\u007f]+$/, "to be a path");
export const label: Kind<string> = matching(
  "TEXT",
  /^[^\u0000-\u001f\u007f]{1,255}$/,
  "to be 1 to 255 characters, none of them a control character",
);

export const assigner: Kind<WorkerIdAssigner | string> = {
  value: "PATH",
  rule: "to be the path of a module whose default export is a WorkerIdAssigner, or a WorkerIdAssigner",
  read: (given) => (hasMethods<WorkerIdAssigner>(given, "assign") ? given : path.read(given)),
};

export const workerId: Kind<number | string> = {
  value: "NUMBER",
  rule: "to be a worker ID",
  read: (given) =>
    typeof given === "string" || (typeof given === "number" && Number.isFinite(given)) ? given : undefined,
};

export const fields: Kind<Record<string, number>> = {
  rule: "to be an object of integers",
  read(given) {
    const isGood = isRecord(given) && Object.values(given).every((value) => isWhole(value) && value >= 0);
    return isGood ? ({ ...given } as Record<string, number>) : undefined;
  },
};

export const properties: Kind<Record<string, unknown>> = {
  rule: "to be an object",
  read: (given) => (isRecord(given) ? { ...given } : undefined),
};

function isObject(given: unknown): given is object {
  return typeof given === "object" && given !== null;
}

/** Whether it is an object of names and values, and not one of another kind, such as an array. */
function isRecord(given: unknown): given is Record<string, unknown> {
  return Object.prototype.toString.call(given) === "[object Object]";
}

function isWhole(given: unknown): given is number {
  return Number.isSafeInteger(given);
}

function hasMethods<Type>(given: unknown, ...methods: readonly (keyof Type)[]): given is Type {
  return isObject(given) && methods.every((name) => typeof Reflect.get(given, name) === "function");
}
