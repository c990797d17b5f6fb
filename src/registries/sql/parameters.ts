import { readFileSync } from "node:fs";
import type { ServerAddress } from "../address.ts";
import { refuse, type Tls, tlsOf } from "../url-parameters.ts";

/** What only an SQL registry has: parts of its URL. */
export interface SqlSettings extends Tls {
  /** Most connections at once. From 1 to 100; default 4. */
  readonly poolSize: number;
  /** `westid`: Java processes that keep no window take numbers here, too. Default: unless they are seen, nobody does. */
  readonly beside: "westid" | undefined;
  readonly database: string;
}

const usualPoolSize = "4";

/** Reads the settings of an SQL URL. @throws SnowleaseError CONFIG_INVALID */
export function parseSettings({ servers, path, settings }: ServerAddress): SqlSettings {
  const { poolSize = usualPoolSize, beside } = settings;
  if (servers.length !== 1) refuse("the URL", "to name one server", `${servers.length} servers`);
  if (path === "" || path.includes("/")) refuse("the URL", "to end with the name of a database, /NAME", path);
  if (!/^\d{1,3}$/.test(poolSize) || Number(poolSize) < 1 || Number(poolSize) > 100) {
    refuse("`poolSize`", "to be an integer from 1 to 100", poolSize);
  }
  if (beside !== undefined && beside !== "westid") refuse("`beside`", "to be westid", beside);
  return {
    poolSize: Number(poolSize),
    beside,
    database: path,
    ...tlsOf(settings, (file) => readFileSync(file, "utf8")),
  };
}
