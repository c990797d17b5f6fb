import { readFileSync } from "node:fs";
import { refuse, truthOf } from "../core/settings.ts";

/** How servers of a registry URL are reached. */
export interface Tls {
  /** TLS, with certificate and host name checked. Default: none. */
  readonly tls: boolean;
  /** The certificates to trust (PEM). Default: those that Node trusts. */
  readonly tlsCa: string | undefined;
}

/** Reads `tls` and `tlsCa` of a registry URL, and the file that it names. @throws SnowleaseError CONFIG_INVALID */
export function tlsOf(settings: Readonly<Record<string, string>>): Tls {
  const { tlsCa } = settings;
  const tls = truthOf("tls", settings["tls"]) ?? false;
  if (tlsCa !== undefined && !tls) refuse("`tlsCa`", "only with tls=true", tlsCa);
  return { tls, tlsCa: tlsCa === undefined ? undefined : readCertificates(tlsCa) };
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return refuse("`tlsCa`", "to name a file that can be read", file);
  }
}
