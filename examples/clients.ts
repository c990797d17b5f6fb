// A client that the service has already, in place of a registry's URL: where it connects to and how it logs in is taken from it. The
// registry's own connections are made anew, so the client is neither used nor closed.
//
//   REDIS_URL=redis://localhost npx tsx examples/clients.ts        after `snowlease init --new` there
//   POSTGRES_URL=… or MYSQL_URL=…                                  after `snowlease init` there
import { Redis } from "ioredis";
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import {
  type ClientWithSettings,
  type MysqlPool,
  type PostgresPool,
  type RedisClient,
  type RegistryClient,
  snowlease,
} from "snowlease";

const { POSTGRES_URL, MYSQL_URL, REDIS_URL = "redis://localhost" } = process.env;

/** Whatever the service keeps its data in. */
function makeClient(): { readonly client: RegistryClient; readonly end: () => unknown } {
  if (POSTGRES_URL !== undefined) {
    const pool = new Pool({ connectionString: POSTGRES_URL });
    return { client: pool satisfies PostgresPool, end: () => pool.end() };
  }
  if (MYSQL_URL !== undefined) {
    const pool = createPool(MYSQL_URL);
    return { client: pool satisfies MysqlPool, end: () => pool.end() };
  }
  const redis = new Redis(REDIS_URL);
  return { client: redis satisfies RedisClient, end: () => redis.disconnect() };
}

const { client, end } = makeClient();
// With what the query of a URL would say, where there is anything to say: here nothing.
const registry: ClientWithSettings = { client };
const ids = await snowlease({ registry, namespace: "orders" });
console.log(String(await ids.nextAsync()));
await ids.close();
await end();
