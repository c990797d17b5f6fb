import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Layout, layouts } from "../../src/id/layout.ts";
import { makePlan, type Plan } from "../../src/ops/migrate/plan.ts";
import { planText, readPlan } from "../../src/ops/migrate/plan-file.ts";
import type { SourceContents, SourceKind } from "../../src/ops/migrate/source.ts";
import { readSource } from "../../src/ops/migrate/sources.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { textOf } from "../support/failures.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { RedisCluster } from "../support/redis-groups.ts";

/** As many numbers as the layout has: what a source holds is told, whatever comes of it. */
const westid = layouts.westid;

async function read(from: Exclude<SourceKind, "ip">, url: string, layout = westid): Promise<SourceContents> {
  const how = { numbers: layout.pool.last + 1, operationTimeout: 20_000 };
  return (await readSource(from, url, how)).findings;
}

/** A plan of a source, as it is read back from its file. */
async function planned(from: Exclude<SourceKind, "ip">, url: string, layout = westid): Promise<Plan> {
  const findings = await read(from, url, layout);
  const about = { namespace: "orders", layout, from, source: "there", now: Date.now() };
  const old = { sourceLayout: layout, numbers: layout.pool.last + 1 };
  // Where nothing is left to lease it is refused, which is another's test.
  const { plan } = await makePlan({ ...findings, reach: { next: "none", highest: -1 } }, { ...about, ...old });
  return readPlan(planText(plan), "plan.json");
}

async function refused(from: Exclude<SourceKind, "ip">, url: string, layout = westid): Promise<unknown> {
  return planned(from, url, layout).then((plan) => plan, textOf);
}

const shown = ({ makers }: Pick<SourceContents, "makers">): unknown[] =>
  makers.map(({ workerId, name, address }) => [workerId, name, address]);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "numbers of a fleet in Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());
  beforeEach(async () => {
    await server.client().flushall();
  });

  test("westid: a number that stands in a list is one that a program there takes again", async () => {
    const client = server.client();
    await client.set("workerId:use:1", "811x10.0.0.7xalpha");
    await client.rpush("workerId:pid:10.0.0.7", "811x1", "700x1");
    await client.set("workerId:use:2", "44x10.0.0.8xbeta");
    await client.rpush("workerId:pid:10.0.0.9", "77x2", "78x5", "no pair");
    await client.rpush("workerId:pid:lease@10.0.0.9", "78x9");
    await client.set("workerId:pid:odd", "no list");
    const findings = await read("westid-redis", server.url());
    expect(shown(findings).toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual([
      [1, "alpha/811", "10.0.0.7"],
      [2, "10.0.0.9/77", "10.0.0.9"],
      [2, "beta/44", "10.0.0.8"],
      [5, "10.0.0.9/78", "10.0.0.9"],
    ]);
    expect(findings.remarks.toSorted()).toEqual([
      'workerId:pid:10.0.0.9 has "no pair" and not {pid}x{N}: left out.',
      "workerId:pid:odd is no list: left out.",
    ]);
    const plan = await planned("westid-redis", server.url());
    expect(plan.hosts.filter(({ workerId }) => workerId === 2).map(({ renumbered }) => renumbered)).toEqual([
      expect.stringContaining("collides"),
      expect.stringContaining("collides"),
    ]);
  });

  test("westid: all of a long list, and of many keys, counts", async () => {
    const client = server.client();
    await client.rpush("workerId:pid:10.0.0.7", ...Array.from({ length: 2500 }, (_, i) => `${100 + i}x${i % 1024}`));
    const others = Array.from({ length: 20_000 }, (_, i) => [`workerId:other:${i}`, "x"]).flat();
    await client.mset(others);
    await client.mset(Array.from({ length: 1024 }, (_, i) => [`workerId:use:${i}`, `${i + 1}x10.0.1.1xbeta`]).flat());
    const { makers } = await read("westid-redis", server.url());
    expect(makers).toHaveLength(2048);
    expect(new Set(makers.map(({ workerId }) => workerId)).size).toBe(1024);
  });

  test("westid: a fleet of 12 bits is read with its layout, and refused with another", async () => {
    await server.client().set("workerId:use:4000", "9x10.0.0.9xlate");
    const message = await refused("westid-redis", server.url());
    expect(message).toMatch(
      /^CONFIG_INVALID: Expected worker IDs from 0 to 1023 .*got 4000 of late\/9 in there; name the layout .*12 bits/,
    );
    const wide = Layout.parse("timestamp:41,worker:12,sequence:10@1490346283706/1");
    expect((await planned("westid-redis", server.url(), wide)).hosts).toMatchObject([{ workerId: 4000 }]);
  });

  test.each([
    ["172.17.0.1", "Docker"],
    ["127.0.1.1", "loopback"],
    ["254.128.0.0", "first 4 bytes of an IPv6 address"],
    ["32.1.13.184", "first 4 bytes of an IPv6 address"],
  ])("westid: %s is no address to know a host by", async (ip, why) => {
    const client = server.client();
    await client.set("workerId:use:1", `811x${ip}xalpha`);
    await client.rpush(`workerId:pid:${ip}`, "811x1");
    const findings = await read("westid-redis", server.url());
    expect(shown(findings)).toEqual([[1, "alpha/811", undefined]]);
    expect(findings.remarks).toEqual([expect.stringMatching(new RegExp(`^${ip} does not identify a host: .*${why}`))]);
  });

  test("CosId: a namespace whose instances have all given back, or that only counted, is found", async () => {
    const client = server.client();
    const ranges = async (): Promise<unknown> =>
      (await planned("cosid-redis", server.url())).retired.map(({ first, last }) => [first, last]);
    await client.set("cosid:{orders}:adder", "6");
    expect(await ranges()).toEqual([[0, 6]]);
    await client.del("cosid:{orders}:adder");
    await client.hset("cosid:{orders}:revert", { 4: "1795000000000" });
    expect(await ranges()).toEqual([[0, 4]]);
    // The counters of its segments are none of its machine IDs'.
    await client.set("cosid:{orders.invoice}.adder", "1000");
    expect(await ranges()).toEqual([[0, 4]]);
    await client.hset("cosid:{bills}:itc_idx", { a: "0|0" });
    expect(await refused("cosid-redis", server.url())).toMatch(/^CONFIG_INVALID: Expected one namespace of CosId/);
    await client.hset("cosid:{orders}:revert", { 5000: "0" });
    expect(await refused("cosid-redis", server.url("?namespace=orders"))).toMatch(
      /^CONFIG_INVALID: Expected worker IDs from 0 to 1023 .*got 5000/,
    );
  });

  test("keys that are spread over the nodes of a cluster are all read", async () => {
    const cluster = await RedisCluster.start();
    try {
      const registry = await openRedis(cluster.url());
      await registry.close();
      for (let n = 0; n < 20; n++) {
        const { owner } = await cluster.ownerOf(`workerId:use:${n}`);
        await owner.client().set(`workerId:use:${n}`, `${n + 1}x10.0.0.${n + 1}xhost-${n}`);
        const { owner: other } = await cluster.ownerOf(`workerId:pid:10.0.1.${n}`);
        await other.client().rpush(`workerId:pid:10.0.1.${n}`, `7x${100 + n}`);
      }
      const { makers } = await read("westid-redis", cluster.url());
      const numbers = Array.from({ length: 20 }, (_, i) => i);
      expect(makers.map(({ workerId }) => workerId)).toEqual([...numbers, ...numbers.map((n) => 100 + n)]);
      const { owner } = await cluster.ownerOf("cosid:{orders}:adder");
      await owner.client().set("cosid:{orders}:adder", "6");
      expect((await read("cosid-redis", cluster.url())).retired).toMatchObject([{ first: 0, last: 6 }]);
    } finally {
      await cluster.remove();
    }
  });

  test("a source that holds nothing is NOT_FOUND, whichever it is", async () => {
    const client = server.client();
    expect(await refused("westid-redis", server.url())).toMatch(/^NOT_FOUND: There is no key workerId:use:N/);
    expect(await refused("cosid-redis", server.url())).toMatch(/^NOT_FOUND: There is no key cosid:/);
    expect(await refused("cosid-redis", server.url("?namespace=x"))).toMatch(/^NOT_FOUND: There is no key cosid:/);
    await client.set("cosid:{orders}:adder", "-1");
    expect(await refused("cosid-redis", server.url())).toMatch(/^NOT_FOUND: There is no key cosid:/);
  });
});

describe.each(databases)("numbers of a fleet in $name", ({ missing, start, dialect }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
    let server: DatabaseServer;
    const tables = ["workerid_assign", "WORKER_NODE", "cosid_machine"];
    const auto = dialect === "mysql" ? "BIGINT NOT NULL AUTO_INCREMENT" : "BIGSERIAL";
    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.remove());
    beforeEach(async () => {
      for (const table of tables) await server.query(`DROP TABLE IF EXISTS ${table}`);
      await server.query(
        "CREATE TABLE workerid_assign (worker_id INT NOT NULL PRIMARY KEY, pid INT NOT NULL, ip VARCHAR(15) NOT NULL, hostname VARCHAR(60) NOT NULL, create_time TIMESTAMP NOT NULL)",
      );
      await server.query(`CREATE TABLE WORKER_NODE (ID ${auto}, HOST_NAME VARCHAR(64) NOT NULL, PRIMARY KEY (ID))`);
      await server.query(
        "CREATE TABLE cosid_machine (name VARCHAR(100) NOT NULL PRIMARY KEY, namespace VARCHAR(100) NOT NULL, machine_id INT NOT NULL, last_timestamp BIGINT NOT NULL, instance_id VARCHAR(100) NOT NULL)",
      );
    });

    test("uid-generator: its counter counts, also where the rows are gone", async () => {
      const uid = layouts.uid;
      for (const host of ["10.0.0.7", "10.0.0.8", "gone", "gone"]) {
        await server.query(`INSERT INTO WORKER_NODE (HOST_NAME) VALUES ('${host}')`);
      }
      await server.query("DELETE FROM WORKER_NODE WHERE HOST_NAME = 'gone'");
      const retired = async (): Promise<unknown> => (await planned("uid-generator", server.url(), uid)).retired;
      expect(await retired()).toMatchObject([{ first: 1, last: 4, forGood: true }]);
      await server.query("DELETE FROM WORKER_NODE");
      expect(await retired()).toMatchObject([{ first: 1, last: 4, forGood: true }]);
    });

    test.skipIf(dialect !== "postgres")("uid-generator: a sequence that this user cannot read is told", async () => {
      await server.query("INSERT INTO WORKER_NODE (HOST_NAME) VALUES ('a')");
      await server.query("CREATE ROLE looker LOGIN");
      await server.query("GRANT SELECT ON WORKER_NODE TO looker");
      const url = server.url().replace(/\/\/[^@]+@/, "//looker@");
      expect(await refused("uid-generator", url, layouts.uid)).toMatch(
        /^FORBIDDEN: The sequence worker_node_id_seq .*run `GRANT SELECT ON SEQUENCE worker_node_id_seq TO \w+`/,
      );
      await server.query("GRANT SELECT ON SEQUENCE worker_node_id_seq TO looker");
      expect((await planned("uid-generator", url, layouts.uid)).hosts).toHaveLength(1);
    });

    test("CosId: a number above the layout is refused, also one that was given back", async () => {
      for (const [id, instance] of [
        [0, "10.0.0.7:80"],
        [5000, ""],
      ] as const) {
        await server.query(`INSERT INTO cosid_machine VALUES ('orders.${id}', 'orders', ${id}, 0, '${instance}')`);
      }
      expect(await refused("cosid-sql", server.url())).toMatch(
        /^CONFIG_INVALID: Expected worker IDs from 0 to 1023 .*got 5000 \(given out by CosId\) in there; name the layout .*13 bits/,
      );
      const wide = Layout.parse("timestamp:38,worker:13,sequence:12@1577203200000/1");
      expect((await planned("cosid-sql", server.url(), wide)).retired).toHaveLength(2);
    });

    test("a source that holds nothing is NOT_FOUND, whichever it is", async () => {
      const row = "INSERT INTO workerid_assign VALUES (9, 46, 'lease@0a1b2c3d4', 'ours', CURRENT_TIMESTAMP)";
      for (const statement of ["SELECT 1", row]) {
        await server.query(statement);
        expect(await refused("westid-sql", server.url())).toMatch(/^NOT_FOUND: There is no row of a westid program/);
      }
      expect(await refused("uid-generator", server.url())).toMatch(/^NOT_FOUND: There is no row in table WORKER_NODE/);
      expect(await refused("cosid-sql", server.url())).toMatch(/^NOT_FOUND: There is no machine ID/);
    });
  });
});
