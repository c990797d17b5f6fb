import { shown, SnowleaseError } from "../id/errors.ts";

/* What stores have in common that read settings of their own from a registry URL. */

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Refuses a part of a registry URL: "Expected `wait` to be …, got …". A name of a parameter comes in backticks. */
export function refuse(name: string, rule: string, got: unknown): never {
  throw new SnowleaseError("CONFIG_INVALID", `Expected ${name} ${rule}, got ${shown(got)}; correct the registry URL.`);
}

/** A time in ms: a number, or one with its unit. NaN for any other text. */
export function timeOf(text: string): number {
  const [, number, unit = "ms"] = /^(\d{1,7})(ms|s|m|h)?$/.exec(text) ?? [];
  return Number(number) * (units[unit] ?? Number.NaN);
}

/** A truth value, or undefined where there is none. @throws SnowleaseError CONFIG_INVALID */
export function truthOf(name: string, text: string | undefined): boolean | undefined {
  if (text === undefined || text === "true" || text === "false")
    return text === undefined ? undefined : text === "true";
  return refuse(`\`${name}\``, "to be true or false", text);
}

/** How servers of a registry URL are reached. */
export interface Tls {
  /** TLS, with certificate and host name checked. Default: none. */
  readonly tls: boolean;
  /** The certificates to trust (PEM). Default: those that Node trusts. */
  readonly tlsCa: string | undefined;
}

/** `tls` and `tlsCa`, which names a file. @throws SnowleaseError CONFIG_INVALID */
export function tlsOf(settings: Readonly<Record<string, string>>, read: (file: string) => string): Tls {
  const { tlsCa } = settings;
  const tls = truthOf("tls", settings["tls"]) ?? false;
  if (tlsCa === undefined) return { tls, tlsCa };
  if (!tls) return refuse("`tlsCa`", "only with tls=true", tlsCa);
  try {
    return { tls, tlsCa: read(tlsCa) };
  } catch {
    return refuse("`tlsCa`", "to name a file that can be read", tlsCa);
  }
}
