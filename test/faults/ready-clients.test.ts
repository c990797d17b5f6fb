import { once } from "node:events";
import { Socket } from "node:net";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis-5";
import mysql from "mysql2";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { registryAssigner } from "../../src/assigners/registry.ts";
import type { ClientWithSettings, RegistryClient } from "../../src/registries/driver-client.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { MariadbServer, mariadbMissing } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { hostile, openByClient } from "../support/ready-clients.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { RedisCluster, Sentinels } from "../support/redis-groups.ts";

const namespace = "orders";

async function prepare(registry: Registry): Promise<void> {
  await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
  await registry.close();
}

/** Leases by a ready client, directly and through an assigner, makes IDs, and gives all of it back. */
async function leaseBy(client: RegistryClient | ClientWithSettings, options: SnowleaseOptions = {}): Promise<void> {
  const one = await snowlease({ ...options, registry: client, namespace });
  const two = await snowlease({ ...options, registry: "memory:", assigner: registryAssigner(client), namespace });
  expect(one.lease.workerId).not.toBe(two.lease.workerId);
  const made = [...one.take(500), ...two.take(500)];
  expect(new Set(made).size).toBe(1000);
  await one.close();
  await two.close();
  expect([one.lease.state, two.lease.state]).toEqual(["closed", "closed"]);
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a ready client of ioredis", () => {
  const running: { remove(): Promise<void> }[] = [];
  let server: RedisServer;
  let clients: Record<string, () => Redis | Redis5 | Cluster | Cluster5>;
  let nodes: { host: string; port: number }[];
  let sentinels: { host: string; port: number }[];

  async function started<Server extends { remove(): Promise<void> }>(start: Promise<Server>): Promise<Server> {
    const started = await start;
    running.push(started);
    return started;
  }

  beforeAll(async () => {
    server = await started(RedisServer.start());
    const replica = await started(RedisServer.start(["--repl-diskless-sync-delay", "0"]));
    await replica.follow(server.port);
    const watch = await started(Sentinels.watch(server));
    const cluster = await started(RedisCluster.start());
    nodes = cluster.nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
    sentinels = watch.ports.map((port) => ({ host: "127.0.0.1", port }));
    const alone = { ...hostile, port: server.port } as const;
    const watched = { ...hostile, sentinels, name: "ids", role: "slave" } as const;
    const whole = { lazyConnect: true, scaleReads: "slave", redisOptions: hostile } as const;
    clients = {
      "one server": () => new Redis(alone),
      "one server, ioredis 5": () => new Redis5(alone),
      sentinels: () => new Redis(watched),
      "sentinels, ioredis 5": () => new Redis5(watched),
      "a cluster": () => new Cluster(nodes, whole),
      "a cluster, ioredis 5": () => new Cluster5(nodes, whole),
    };
    await prepare(await openByClient(new Redis(alone)));
    await prepare(await openByClient(new Cluster(nodes, whole)));
  });
  afterAll(() => Promise.all(running.map((each) => each.remove())));

  test.each([
    "one server",
    "one server, ioredis 5",
    "sentinels",
    "sentinels, ioredis 5",
    "a cluster",
    "a cluster, ioredis 5",
  ])("of %s leases worker IDs, and is left as it was", async (kind) => {
    const client = clients[kind]?.() ?? expect.fail(kind);
    onTestFinished(() => client.disconnect());
    const before = client.status;
    await leaseBy(client);
    expect(client.status).toBe(before);
  });

  test("that is in use goes on, also during a transaction and as a subscriber", async () => {
    const client = new Redis({ port: server.port });
    onTestFinished(() => client.disconnect());
    const [id] = [await client.client("ID"), await client.watch("theirs")];
    await leaseBy(client);
    expect(await client.multi().set("theirs", "1").exec()).toEqual([[null, "OK"]]);
    expect(await client.client("ID")).toBe(id);
    await client.subscribe("news");
    const heard = once(client, "message");
    await leaseBy(client);
    await server.client().publish("news", "all is well");
    expect(await heard).toEqual(["news", "all is well"]);
  });

  test("that was closed works all the same, and stays closed", async () => {
    const client = new Redis({ port: server.port });
    await client.quit();
    await leaseBy(client);
    expect(client.status).toBe("end");
  });

  test("that would wait for ever: an operation still ends at its deadline, and no command arrives late", async () => {
    const proxy = await FaultProxy.start(server.port);
    onTestFinished(() => proxy.stop());
    const client = new Redis({ ...hostile, port: proxy.port, commandTimeout: 60_000 });
    const registry = await openByClient(client, 300);
    onTestFinished(() => registry.close());
    await registry.describe(namespace);
    proxy.set({ refuse: true });
    proxy.reset();
    const pinned = registry.pin(namespace, 1000, "late");
    await expect(pinned).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    proxy.heal();
    expect(await registry.worker(namespace, 1000)).toBeUndefined();
  });

  test("with settings beside it", async () => {
    const client = new Redis({ port: server.port, lazyConnect: true });
    const registry = await openByClient({ client, wait: 1 });
    onTestFinished(() => registry.close());
    expect((await registry.ping()).durability).toContain("as long as its replicas number at most 1");
    await leaseBy({ client, wait: 1 });
    const refused = leaseBy({ client, wait: 3 }, { operationTimeout: 300 });
    await expect(refused).rejects.toThrow(/had \d of 3 replicas confirm/);
  });
});

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "a ready pool of pg", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
    await prepare(await openByClient(new pg.Pool({ connectionString: server.url() })));
  });
  afterAll(() => server.remove());

  test("leases worker IDs while all connections of the pool are taken, and leaves the pool as it was", async () => {
    const pool = new pg.Pool({ host: "127.0.0.1", port: server.port, user: "postgres", max: 1 });
    const taken = await pool.connect();
    await taken.query("BEGIN ISOLATION LEVEL SERIALIZABLE; SET TIME ZONE 'Asia/Tokyo'");
    await leaseBy(pool);
    expect(await taken.query("SHOW TIME ZONE")).toMatchObject({ rows: [{ TimeZone: "Asia/Tokyo" }] });
    await taken.query("COMMIT");
    taken.release();
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0]);
    expect((await pool.query("SELECT 7 AS seven")).rows).toEqual([{ seven: 7 }]);
    await pool.end();
    await leaseBy(pool);
    expect(pool.ended).toBe(true);
  });

  test("with a stream of the program", async () => {
    let streams = 0;
    const stream = (): Socket => {
      streams++;
      return new Socket();
    };
    const pool = new pg.Pool({ connectionString: server.url(), stream });
    await leaseBy(pool);
    expect(streams).toBeGreaterThan(0);
  });
});

describe.skipIf(mariadbMissing !== undefined)(mariadbMissing ?? "a ready pool of mysql2", () => {
  let server: MariadbServer;
  beforeAll(async () => {
    server = await MariadbServer.start();
    const pool = mysql.createPool(server.url());
    await prepare(await openByClient(pool));
    await pool.promise().end();
  });
  afterAll(() => server.remove());

  test("with callbacks or promises leases worker IDs, and stays as it was", async () => {
    const settings = { host: "127.0.0.1", port: server.port, user: "root", database: "snowlease", connectionLimit: 1 };
    const pool = mysql.createPool({ ...settings, rowsAsArray: true, bigNumberStrings: true, supportBigNumbers: true });
    const promised = pool.promise();
    const taken = await promised.getConnection();
    await taken.query("SET time_zone = '+09:00'");
    await leaseBy(pool);
    await leaseBy(promised);
    expect((await taken.query("SELECT @@time_zone"))[0]).toEqual([["+09:00"]]);
    taken.release();
    expect((await promised.query("SELECT 7"))[0]).toEqual([[7]]);
    await promised.end();
    await leaseBy(promised);
  });
});
