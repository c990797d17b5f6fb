import type mysql2 from "mysql2";
import type { ClientTarget } from "../../store-kind.ts";
import { SnowleaseError } from "../../../id/errors.ts";

/** The settings of a pool that say where the server is, how to reach it, and which user logs in. */
const placeSettings = [
  "host",
  "port",
  "socketPath",
  "localAddress",
  "stream",
  "ssl",
  "user",
  "database",
  "passwordSha1",
  "password",
  "password2",
  "password3",
  "authPlugins",
  "authSwitchHandler",
  "enableCleartextPlugin",
] as const;

type MysqlConfig = mysql2.ConnectionOptions & Readonly<Record<string, unknown>>;

/** A ready pool of mysql2 or mysql2/promise. */
export function mysqlPool(client: object): ClientTarget | undefined {
  const config = configOf(client);
  if (config === undefined) return undefined;
  const { host = "localhost", port = 3306, socketPath, user, database } = config;
  if (database === undefined) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      "Expected a pool with a `database`, in which the registry's tables are.",
    );
  }
  const servers = [socketPath === undefined ? { host, port } : { host: socketPath, port: 0 }];
  return { scheme: "mysql", servers, user, path: database };
}

/** The settings of the pool's own connections that a registry takes over. */
export function poolConfig(client: object): mysql2.ConnectionOptions {
  const config = configOf(client) ?? {};
  const given = placeSettings.filter((name) => config[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, config[name]]));
}

/** The settings of the pool's connections. A pool of mysql2/promise contains the pool itself. */
function configOf(client: object): MysqlConfig | undefined {
  const { pool = client } = client as { readonly pool?: object };
  const { config, getConnection } = pool as Partial<Record<string, unknown>>;
  const found: unknown = Object(config).connectionConfig;
  return typeof getConnection === "function" && typeof found === "object" && found !== null
    ? (found as MysqlConfig)
    : undefined;
}
