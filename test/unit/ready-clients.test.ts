import { Cluster, Redis } from "ioredis";
import { Redis as Redis5, Cluster as Cluster5 } from "ioredis-5";
import mysql from "mysql2";
import type promised from "mysql2/promise";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ServerAddress } from "../../src/registries/url.ts";
import { addressOfClient, type RegistryAddress } from "../../src/registries/index.ts";
import type { ClientWithSettings, RegistryClient } from "../../src/registries/driver-client.ts";
import { resolveConfig } from "../../src/config/config.ts";
import { sameTarget } from "../../src/registries/redis/client.ts";
import { poolConfig as mysqlConfig } from "../../src/registries/sql/mysql/client.ts";
import { poolConfig as postgresConfig } from "../../src/registries/sql/postgres/client.ts";
import { thrown } from "../support/generator.ts";
import { hostile } from "../support/ready-clients.ts";

const secret = "s3cret";
const lazyConnect = true;

/** Not connected, as it would be if nobody had asked it anything. */
function pool(config: pg.PoolConfig): pg.Pool {
  return new pg.Pool(config);
}

function mysqlPool(options: mysql.PoolOptions): mysql.Pool {
  const made = mysql.createPool(options);
  onTestFinished(() => new Promise<void>((resolve) => made.end(() => resolve())));
  return made;
}

type ClientAddress = ServerAddress & RegistryAddress;
const addressOf = (given: RegistryClient | ClientWithSettings): ClientAddress =>
  addressOfClient(given) as ClientAddress;

describe("where a ready client connects to", () => {
  test.each<[string, Redis | Redis5 | Cluster | Cluster5, string]>([
    [
      "one server",
      new Redis({ host: "h", port: 7, db: 3, username: "ada", password: secret, lazyConnect }),
      "redis://ada:***@h:7/3",
    ],
    ["one server by URL", new Redis(`redis://:${secret}@h:7/3`, { lazyConnect }), "redis://h:7/3"],
    ["by TLS", new Redis({ host: "::1", tls: {}, lazyConnect }), "rediss://[::1]:6379/0"],
    ["a socket", new Redis({ path: "/run/redis.sock", lazyConnect }), "redis:///run/redis.sock/0"],
    ["ioredis 5", new Redis5({ host: "h", lazyConnect }), "redis://h:6379/0"],
    [
      "sentinels",
      new Redis({
        sentinels: [{ host: "a", port: 1 }, { host: "b" }],
        name: "ids",
        sentinelPassword: secret,
        lazyConnect,
      }),
      "redis+sentinel://a:1,b:26379/ids/0",
    ],
    [
      "a cluster",
      new Cluster([{ host: "a", port: 1 }, 2, `redis://:${secret}@c:3`], { lazyConnect }),
      "redis+cluster://a:1,127.0.0.1:2,c:3",
    ],
    ["a cluster of ioredis 5", new Cluster5(["a:1"], { lazyConnect }), "redis+cluster://a:1"],
  ])("ioredis, %s", (_, client, url) => {
    expect(addressOf(client)).toMatchObject({ kind: "redis", client, redacted: url, text: url });
  });

  test.each<[string, pg.PoolConfig, string]>([
    ["settings", { host: "h", port: 7, user: "ada", password: secret, database: "ids" }, "postgres://ada:***@h:7/ids"],
    ["a URL", { connectionString: `postgres://ada:${secret}@h:7/ids` }, "postgres://ada:***@h:7/ids"],
    ["a socket", { host: "/run/pg", user: "ada" }, "postgres://ada:***@/run/pg:5432/ada"],
  ])("pg, by %s", (_, config, url) => {
    expect(addressOf(pool(config))).toMatchObject({ kind: "postgres", redacted: url });
  });

  test("pg, by the environment", () => {
    vi.stubEnv("PGHOST", "h").stubEnv("PGUSER", "ada").stubEnv("PGPASSWORD", secret).stubEnv("PGDATABASE", "ids");
    onTestFinished(() => void vi.unstubAllEnvs());
    const client = pool({});
    expect(addressOf(client).redacted).toBe("postgres://ada:***@h:5432/ids");
    expect(postgresConfig(client)).toMatchObject({ host: "h", user: "ada", password: secret, database: "ids" });
  });

  test("mysql2, with callbacks and with promises, by settings and by a URL", () => {
    const settings = { host: "h", port: 7, user: "ada", password: secret, database: "ids" };
    const callbacks = mysqlPool(settings);
    const byUrl = mysqlPool({ uri: `mysql://ada:${secret}@h:7/ids` });
    for (const client of [callbacks, callbacks.promise(), byUrl]) {
      expect(addressOf(client)).toMatchObject({ kind: "mysql", redacted: "mysql://ada:***@h:7/ids" });
      expect(mysqlConfig(client)).toEqual({ ...settings, ssl: false, enableCleartextPlugin: false });
    }
    const theirs: promised.Pool = callbacks.promise();
    expect(resolveConfig({ options: { registry: theirs }, env: {} }).registryFrom).toBe("named");
  });
});

describe("what is taken of a ready client", () => {
  /** Settings as they are told apart: a function by its text. */
  const told = (settings: object): Record<string, string> =>
    Object.fromEntries(
      Object.entries(settings)
        .filter(([, value]) => value !== undefined)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => [
          name,
          typeof value === "object" && value !== null ? JSON.stringify(told(value)) : String(value),
        ]),
    );
  const ours = { commandTimeout: 7, enableOfflineQueue: false, lazyConnect };

  test.each<[string, typeof Redis]>([
    ["6", Redis],
    ["5.9", Redis5 as unknown as typeof Redis],
  ])("ioredis %s: where and who, and nothing of how", (_, Driver) => {
    const places = { host: "h", port: 7, username: "ada", password: secret, db: 3, tls: { servername: "x" } };
    const theirs = new Driver({ ...hostile, ...places, role: "slave" });
    const made = sameTarget(theirs, [places], ours, {}) as Redis;
    expect(told(made.options)).toEqual(told(new Driver({ ...places, ...ours }).options));
  });

  test.each<[string, typeof Cluster]>([
    ["6", Cluster],
    ["5.9", Cluster5 as unknown as typeof Cluster],
  ])("ioredis %s, a cluster: of its nodes, too", (_, Driver) => {
    const places = { username: "ada", password: secret };
    const node = { host: "a", port: 1, password: secret };
    const theirs = new Driver([{ ...node, ...hostile }], {
      lazyConnect,
      scaleReads: "slave",
      maxRedirections: 1,
      enableAutoPipelining: true,
      natMap: {},
      redisOptions: { ...hostile, ...places },
    });
    const made = sameTarget(theirs, [node], ours, { lazyConnect }) as Cluster;
    const expected = new Driver([node], { lazyConnect, natMap: {}, redisOptions: { ...places, ...ours } });
    expect(told(made.options)).toEqual(told(expected.options));
    expect(told({ nodes: Reflect.get(made, "startupNodes") })).toEqual(told({ nodes: [node] }));
  });

  test("ioredis, a list: the addresses that are asked for alone", () => {
    const [a, b] = [{ host: "a" }, { host: "b", port: 2 }];
    const sentinels = new Redis({ sentinels: [a, b], name: "ids", lazyConnect });
    const watched = sameTarget(sentinels, [{ host: "a", port: 26_379 }], ours, {}) as Redis;
    expect(watched.options.sentinels).toEqual([a]);
    const nodes = new Cluster([a, b, 3, "d:4"], { lazyConnect });
    const asked = [b, { host: "127.0.0.1", port: 3 }, { host: "d", port: 4 }];
    const cluster = sameTarget(nodes, asked, ours, { lazyConnect }) as Cluster;
    expect(Reflect.get(cluster, "startupNodes")).toEqual([b, 3, "d:4"]);
  });

  test("pg: where and who, also by a URL that says how", () => {
    const connectionString = `postgres://ada:${secret}@h:7/ids?query_timeout=1&application_name=theirs&options=-c%20search_path%3Dx`;
    const client = pool({ connectionString, statement_timeout: 1, max: 1, keepAlive: true });
    expect(JSON.parse(JSON.stringify(postgresConfig(client)))).toEqual({
      host: "h",
      port: 7,
      user: "ada",
      password: secret,
      database: "ids",
      options: "-c search_path=x",
      ssl: false,
    });
  });

  test("pg: a password that is asked for each time", () => {
    const password = (): string => secret;
    expect(postgresConfig(pool({ user: "ada", password })).password).toBe(password);
  });
});

describe("settings beside a ready client", () => {
  const client = new Redis({ lazyConnect });

  test("are those of its URL's query", () => {
    const { settings, redacted } = addressOf({ client, wait: 2, maxLag: "5s", beside: "westid" });
    expect(settings).toEqual({ wait: "2", maxLag: "5s", beside: "westid" });
    // A number is in ms.
    expect(addressOf({ client, maxLag: 5000 })).toMatchObject({ settings: { maxLag: "5000ms" } });
    expect(redacted).toBe("redis://localhost:6379/0");
    expect(addressOf({ client: pool({ user: "ada" }), poolSize: 2 }).settings).toEqual({ poolSize: "2" });
  });

  test.each<[object, RegExp]>([
    [{ client, poolSize: 2 }, /no `poolSize` beside a ready client; there are wait, beside, maxLag;/],
    [{ client, toString: "x" }, /no `toString` beside a ready client; there are/],
    [{ client, tls: true }, /no `tls` beside a ready client; give it to the client itself;/],
    [{ client, sentinelPassword: secret }, /no `sentinelPassword` beside/],
    [{ client, wait: true }, /`wait` to be a number or a text, got `true`/],
    [
      { client: new Redis({ lazyConnect, keyPrefix: "app:" }) },
      /without `keyPrefix`.*duplicate\(\{ keyPrefix: "" \}\)/,
    ],
    [new Cluster([`redis://:${secret}@a`], { lazyConnect, keyPrefix: "app:" }), /without `keyPrefix`/],
    [new Cluster([{ host: "a" }], { lazyConnect, redisOptions: { keyPrefix: "app:" } }), /without `keyPrefix`/],
    [new pg.Client({ password: secret }), /got an object of the class `Client`; name the registry by its URL/],
    [{ client: new Map([["password", secret]]) }, /got an object of the class `Map`/],
    [{ password: secret }, /got a value of the type object/],
    [[secret], /got an object of the class `Array`/],
  ])("%# are refused where they make no sense", (given, message) => {
    const error = thrown(() => resolveConfig({ options: { registry: given }, env: {} }));
    expect(error.code).toBe("CONFIG_INVALID");
    expect(error.message).toMatch(message);
    expect(error.message).toMatch(/; correct the option `registry`\.$/);
    expect(JSON.stringify([error.message, error.details])).not.toContain(secret);
  });

  test("a pool of mysql2 needs a database", () => {
    expect(() => addressOf(mysqlPool({ password: secret }))).toThrow(/a pool with a `database`/);
  });
});
