import { z } from "zod";
import { parseAddress, type RegistryAddress } from "./core/address.ts";
import type { WorkerIdAssigner } from "./core/assigner.ts";
import { Layout, type PoolBounds } from "./core/layout.ts";
import { parsePool } from "./core/notation.ts";
import type { Registry } from "./core/registry.ts";
import { addressOfClient } from "./registries/index.ts";

/** A kind of value that an option may take. */
export interface Kind<Value> {
  /** Reads what was given, as it is or as a text. */
  readonly schema: z.ZodType<Value>;
  /** What a value has to be: goes on after "Expected `name`". */
  readonly rule: string;
  /** Stands for such a value in `--help`; undefined for a flag without one. */
  readonly value?: string;
}

/** Longest delay that a timer honours, ms. */
const longest = 2 ** 31 - 1;
const decimal = "(?:0|[1-9][0-9]{0,9})";
const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const durationPattern = new RegExp(`^(${decimal})(ms|s|m|h)?$`);

export function matching(value: string, pattern: RegExp, rule: string): Kind<string> {
  return { value, rule, schema: z.string().regex(pattern) };
}

export function oneOf<const Word extends string>(...words: readonly Word[]): Kind<Word> {
  return { value: words.join("|"), rule: `to be one of ${words.join(", ")}`, schema: z.literal(words) };
}

export function integer(value: string): Kind<number> {
  const text = z
    .string()
    .regex(new RegExp(`^${decimal}$`))
    .transform(Number);
  const schema = z.union([z.number(), text]).pipe(z.int().min(0).max(longest));
  return { value, rule: `to be an integer from 0 to ${longest}`, schema };
}

export function duration(least: number): Kind<number> {
  const text = z
    .string()
    .regex(durationPattern)
    .transform((given) => {
      const [, number, unit = "ms"] = durationPattern.exec(given) ?? [];
      return Number(number) * (units[unit] ?? Number.NaN);
    });
  return {
    value: "TIME",
    rule: `to be a time from ${least} to ${longest} ms: a whole number of ms, or one with its unit like 500ms, 2s, 1m, 1h`,
    schema: z.union([z.number(), text]).pipe(z.int().min(least).max(longest)),
  };
}

/** An object with these methods. */
function having<Value>(...methods: readonly string[]): z.ZodType<Value> {
  return z.custom<Value>(
    (value) =>
      typeof value === "object" &&
      value !== null &&
      methods.every((name) => typeof Reflect.get(value, name) === "function"),
  );
}

export const registryUrl: Kind<RegistryAddress | Registry> = {
  value: "URL",
  rule: "to be a registry URL such as sqlite:./registry.db, a registry, or a driver's ready client",
  schema: z.union([
    having<Registry>("claim", "renew", "release", "close"),
    z.string().transform(parseAddress),
    having<object>().transform(addressOfClient),
  ]),
};

export const layout: Kind<Layout> = {
  value: "LAYOUT",
  rule: "to be a preset's name or a notation",
  schema: z.union([z.instanceof(Layout), z.string().transform(Layout.parse)]),
};

export const pool: Kind<PoolBounds> = {
  value: "RANGE",
  rule: "to be a range of worker IDs such as 512-1023",
  schema: z.union([z.strictObject({ first: z.int(), last: z.int() }), z.string().transform(parsePool)]),
};

export const truth: Kind<boolean> = {
  rule: "to be true or false",
  schema: z.union([z.boolean(), z.literal(["true", "false"]).transform((text) => text === "true")]),
};

export const ipAddress: Kind<string> = {
  value: "ADDRESS",
  rule: "to be an IPv4 or IPv6 address",
  schema: z.union([z.ipv4(), z.ipv6()]),
};

export const hostAndPort: Kind<{ host: string; port: number }> = {
  value: "HOST:PORT",
  rule: "to be HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070",
  schema: z
    .string()
    .regex(new RegExp(`^(?:\\[[0-9a-fA-F:.]+\\]|[^\\s:/[\\]]+):${decimal}$`))
    .transform((text) => {
      const at = text.lastIndexOf(":");
      return { host: text.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(text.slice(at + 1)) };
    })
    .refine(({ port }) => port < 65_536),
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
  schema: z.union([having<WorkerIdAssigner>("assign"), path.schema]),
};

export const workerId: Kind<number | string> = {
  value: "NUMBER",
  rule: "to be a worker ID",
  schema: z.union([z.number(), z.string()]),
};

export const fields: Kind<Record<string, number>> = {
  rule: "to be an object of integers",
  schema: z.record(z.string(), z.int().min(0)),
};

export const properties: Kind<Record<string, unknown>> = {
  rule: "to be an object",
  schema: z.record(z.string(), z.unknown()),
};
