import { Socket } from "node:net";
import type pg from "pg";
import type { ClientTarget } from "../../store-kind.ts";

/** What is used of a ready pool. */
interface PgPool {
  readonly options: object;
  readonly Client: typeof pg.Client;
}

/** What a pool's clients connect with, as far as their types leave it out. */
type PgProbe = pg.Client & {
  readonly connection?: object;
  readonly connectionParameters: Readonly<Record<"ssl" | "options" | "sslnegotiation", unknown>>;
};

/** A ready pool of pg; none of pg-native, whose connections cannot be cut off. */
export function postgresPool(client: object): ClientTarget | undefined {
  const { options, Client, totalCount } = client as Partial<Record<string, unknown>>;
  if (typeof options !== "object" || options === null || typeof Client !== "function" || typeof totalCount !== "number")
    return undefined;
  const probe = probeOf(client as PgPool);
  if (probe.connection === undefined) return undefined;
  const { host, port, user, database = "" } = probe;
  return { scheme: "postgres", servers: [{ host, port }], user, path: database };
}

/** What to connect with where a pool does: a connection string and the environment are read as the driver reads them. */
export function poolConfig(client: object): pg.ClientConfig {
  const { host, port, user, password, database, connectionParameters } = probeOf(client as PgPool);
  const { ssl, options, sslnegotiation } = connectionParameters;
  const { enableChannelBinding, stream } = (client as PgPool).options as pg.ClientConfig;
  const config = { host, port, user, password, database, ssl, options, sslnegotiation, enableChannelBinding, stream };
  return config as pg.ClientConfig;
}

/** A client as the pool makes it, which connects to nowhere. */
function probeOf({ options, Client }: PgPool): PgProbe {
  const own = { ...Object.getOwnPropertyDescriptors(options), stream: { value: () => new Socket(), enumerable: true } };
  return new Client(Object.defineProperties({}, own)) as PgProbe;
}
