import type { ServerAddress } from "../address.ts";
import { refuse, timeOf, truthOf } from "../url-parameters.ts";

/** What only a Redis registry has: parameters of its URL. */
export interface RedisSettings {
  /** Replicas that have to confirm a claim or renewal before it counts (WAIT). Default 0: none is asked. */
  readonly wait: number;
  /** `westid`: Java processes that keep no window take numbers here, too. Default: unless they are seen, nobody does. */
  readonly beside: "westid" | undefined;
  /** How long an old primary may go on answering when another one was promoted, ms. Default 12 s: what `min-replicas-max-lag` lets it. */
  readonly maxLag: number;
  /** TLS, with the certificate checked. `rediss` has it, the other schemes where they say so. */
  readonly tls: boolean;
  /** Who logs in to the sentinels themselves. Default: their user `default`. */
  readonly sentinelUser: string | undefined;
  readonly sentinelPassword: string | undefined;
  /** Database number. Default 0. */
  readonly database: number;
  /** The name of the primary that the sentinels watch. */
  readonly primary: string | undefined;
}

const usualLag = 12_000;

/** Reads the settings of a Redis URL. @throws SnowleaseError CONFIG_INVALID */
export function parseSettings({ scheme, path, settings }: ServerAddress): RedisSettings {
  const sentinel = scheme === "redis+sentinel";
  const [first = "", second] = path.split("/");
  const [primary, database] = sentinel ? [first, second ?? ""] : [undefined, path];
  if (sentinel && primary === "") {
    refuse("the URL of sentinels", "to end with the name of the primary, /NAME or /NAME/DATABASE", path);
  }
  const { beside, sentinelUser, sentinelPassword } = settings;
  if (beside !== undefined && beside !== "westid") refuse("`beside`", "to be westid", beside);
  const tls = truthOf("tls", settings["tls"]);
  if (scheme === "rediss" && tls === false) refuse("`tls`", "not to be false with rediss:", settings["tls"]);
  if (sentinelPassword !== undefined && !sentinel) {
    refuse("`sentinelPassword`", "only with redis+sentinel:", "***");
  }
  if (sentinelUser !== undefined && (sentinelUser === "" || sentinelPassword === undefined)) {
    refuse("`sentinelUser`", "to be a name, together with `sentinelPassword`", sentinelUser);
  }
  const wait = integer("wait", settings["wait"] ?? "0", 100);
  const number = integer(
    "the database in the URL",
    database === "" || database === undefined ? "0" : database,
    1_000_000,
  );
  if (scheme === "redis+cluster" && number !== 0) refuse("the database of a cluster", "to be 0", database);
  if (scheme === "redis+cluster" && wait > 0) {
    refuse(
      "`wait`",
      "not with redis+cluster:, whose nodes forward nothing; set min-replicas-to-write there",
      settings["wait"],
    );
  }
  return {
    wait,
    beside,
    maxLag: duration("maxLag", settings["maxLag"]) ?? usualLag,
    tls: scheme === "rediss" || tls === true,
    sentinelUser,
    sentinelPassword,
    database: number,
    primary,
  };
}

function integer(name: string, text: string, most: number): number {
  if (/^\d{1,7}$/.test(text) && Number(text) <= most) return Number(text);
  return refuse(name.includes(" ") ? name : `\`${name}\``, `to be an integer from 0 to ${most}`, text);
}

function duration(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = timeOf(text);
  if (ms <= 3_600_000) return ms;
  return refuse(`\`${name}\``, "to be a time of at most 1h, such as 10s", text);
}
