import { Socket } from "node:net";
import type pg from "pg";
import type { ClientTarget } from "../../store-kind.ts";

/** The used part of a ready pool. */
interface PgPool {
  readonly options: object;
  readonly Client: typeof pg.Client;
}

/** A client of the pool, with the properties that its type leaves out. */
type PgProbe = pg.Client & {
  readonly connection?: object;
  readonly connectionParameters: Readonly<Record<"ssl" | "options" | "sslnegotiation", unknown>>;
};

/** A ready pool of pg. A pool of pg-native is refused: its connections cannot be closed at once. */
export function postgresPool(client: object): ClientTarget | undefined {
  const { options, Client, totalCount } = client as Partial<Record<string, unknown>>;
  if (typeof options !== "object" || options === null || typeof Client !== "function" || typeof totalCount !== "number")
    return undefined;
  const probe = probeOf(client as PgPool);
  if (probe.connection === undefined) return undefined;
  const { host, port, user, database = "" } = probe;
  return { scheme: "postgres", servers: [{ host, port }], user, path: database };
}

/** The settings of the pool's own connections, after the driver has read the connection string and the environment. */
export function poolConfig(client: object): pg.ClientConfig {
  const { host, port, user, password, database, connectionParameters } = probeOf(client as PgPool);
  const { ssl, options, sslnegotiation } = connectionParameters;
  const { enableChannelBinding, stream } = (client as PgPool).options as pg.ClientConfig;
  const config = { host, port, user, password, database, ssl, options, sslnegotiation, enableChannelBinding, stream };
  return config as pg.ClientConfig;
}

/** A client as the pool creates it. It never connects. */
function probeOf({ options, Client }: PgPool): PgProbe {
  const own = { ...Object.getOwnPropertyDescriptors(options), stream: { value: () => new Socket(), enumerable: true } };
  return new Client(Object.defineProperties({}, own)) as PgProbe;
}
