import { readFileSync } from "node:fs";
import type { ServerAddress } from "../../core/address.ts";
import { refuse, truthOf } from "../../core/settings.ts";

/** What only an SQL registry has: parts of its URL. */
export interface SqlSettings {
  /** Most connections at once. From 1 to 100; default 4. */
  readonly poolSize: number;
  /** TLS, with certificate and host name checked. Default: none. */
  readonly tls: boolean;
  /** The certificates to trust (PEM). Default: those that Node trusts. */
  readonly tlsCa: string | undefined;
  readonly database: string;
}

const usualPoolSize = "4";

/** Reads the settings of an SQL URL. @throws SnowleaseError CONFIG_INVALID */
export function parseSettings({ servers, path, settings }: ServerAddress): SqlSettings {
  const { poolSize = usualPoolSize, tlsCa } = settings;
  if (servers.length !== 1) refuse("the URL", "to name one server", `${servers.length} servers`);
  if (path === "" || path.includes("/")) refuse("the URL", "to end with the name of a database, /NAME", path);
  if (!/^\d{1,3}$/.test(poolSize) || Number(poolSize) < 1 || Number(poolSize) > 100) {
    refuse("`poolSize`", "to be an integer from 1 to 100", poolSize);
  }
  const tls = truthOf("tls", settings["tls"]) ?? false;
  if (tlsCa !== undefined && !tls) refuse("`tlsCa`", "only with tls=true", tlsCa);
  const certificates = tlsCa === undefined ? undefined : readCertificates(tlsCa);
  return { poolSize: Number(poolSize), tls, tlsCa: certificates, database: path };
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return refuse("`tlsCa`", "to name a file that can be read", file);
  }
}
