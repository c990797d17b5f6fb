import { type ClientTls, clientTlsParameters, readClientTls, type TlsFileNames } from "../client-tls.ts";
import type { ServerAddress } from "../url.ts";
import {
  anyText,
  beside,
  integer,
  readParameters,
  refuse,
  type StoreParameters,
  time,
  truth,
} from "../url-parameters.ts";

/** The settings of a Redis registry: parameters of its URL, and the parts of its path. */
export interface RedisSettings extends ClientTls {
  readonly wait: number;
  readonly beside: "westid" | undefined;
  /** Ms. */
  readonly maxLag: number;
  readonly tls: boolean;
  readonly sentinelUser: string | undefined;
  readonly sentinelPassword: string | undefined;
  readonly database: number;
  /** The name of the primary that the sentinels watch. */
  readonly primary: string | undefined;
}

/** The parameters of a Redis URL, as they are written there. */
interface RedisValues extends Omit<RedisSettings, "database" | "primary" | keyof ClientTls>, Required<TlsFileNames> {
  readonly db: number | undefined;
}

const database = integer(0, 1_000_000, { meaning: "Database number." });

export const parameters: StoreParameters<RedisValues> = {
  wait: integer(0, 100, { default: "0", meaning: "Replicas that have to confirm each claim and renewal." }),
  beside,
  maxLag: time("0", "1h", {
    // How long `min-replicas-max-lag` lets an old primary take writes.
    default: "12s",
    meaning: "How long an old primary may go on after another was promoted.",
  }),
  tls: truth({
    default: "false",
    meaning: "TLS for sentinels and clusters, too, with the certificate checked; `rediss:` has it.",
    clientHas: true,
  }),
  ...clientTlsParameters("a server that asks for one"),
  db: integer(0, 1_000_000, {
    meaning: "Database number, with redis+unix: alone, whose path is that of the socket; without it, 0.",
    clientHas: true,
    isPlace: true,
  }),
  sentinelUser: anyText({
    meaning: "For the sentinels themselves; without it, their user `default`.",
    clientHas: true,
  }),
  sentinelPassword: anyText({ meaning: "For the sentinels themselves.", secret: true, clientHas: true }),
};

/** Reads the settings of a Redis URL. @throws SnowleaseError CONFIG_INVALID */
export function readRedisSettings({ scheme, path, settings }: ServerAddress): RedisSettings {
  const values = readParameters(parameters, settings);
  const { wait, maxLag, sentinelUser, sentinelPassword } = values;
  const tls = scheme === "rediss" || values.tls;
  const sentinel = scheme === "redis+sentinel";
  const cluster = scheme === "redis+cluster";
  const unix = scheme === "redis+unix";
  const [primary, numberText = ""] = sentinel ? path.split("/") : [undefined, unix ? (settings["db"] ?? "") : path];
  if (values.db !== undefined && !unix) {
    refuse(
      "`db`",
      "only with redis+unix:; of other servers, the database stands behind the address, /NUMBER",
      values.db,
    );
  }
  if (unix && tls) refuse("`tls`", "not to be true with redis+unix:, which no network sees", "true");
  if (primary === "") {
    refuse("the URL of sentinels", "to end with the name of the primary, /NAME or /NAME/DATABASE", path);
  }
  if (scheme === "rediss" && settings["tls"] === "false") refuse("`tls`", "not to be false with rediss:", "false");
  if (sentinelPassword !== undefined && !sentinel) {
    refuse("`sentinelPassword`", "only with redis+sentinel:", "***");
  }
  if (sentinelUser !== undefined && (sentinelUser === "" || sentinelPassword === undefined)) {
    refuse("`sentinelUser`", "to be a name, together with `sentinelPassword`", sentinelUser);
  }
  const number = numberText === "" ? 0 : database.read(numberText);
  if (number === undefined) return refuse("the database in the URL", database.rule, numberText);
  if (cluster && number !== 0) refuse("the database of a cluster", "to be 0", numberText);
  if (cluster && wait > 0) {
    const rule = "not with redis+cluster:, whose nodes forward nothing; set min-replicas-to-write there";
    refuse("`wait`", rule, settings["wait"]);
  }
  const files = readClientTls(values, tls, "rediss: or tls=true");
  const own = { wait, beside: values.beside, maxLag, sentinelUser, sentinelPassword };
  return { ...own, tls, ...files, database: number, primary };
}
