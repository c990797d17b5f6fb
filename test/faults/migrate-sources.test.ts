import zookeeper from "node-zookeeper-client";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Layout, layouts } from "../../src/id/layout.ts";
import { applyPlan, revertPlan, unpinAll } from "../../src/ops/migrate/apply.ts";
import { makePlan, type Plan } from "../../src/ops/migrate/plan.ts";
import { planText, readPlan } from "../../src/ops/migrate/plan-file.ts";
import type { SourceKind } from "../../src/ops/migrate/source.ts";
import { readSource } from "../../src/ops/migrate/sources.ts";
import { migrationStatus, prepareFinish } from "../../src/ops/migrate/status.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { textOf } from "../support/failures.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** One bit more than the sources hand out, so that something is left to lease beside each of them. */
const layout = Layout.parse("timestamp:40,worker:11,sequence:12@1490346283706/1");
const numbers = 1024;
const namespace = "orders";

/** Reads a source, and makes a plan of it. */
async function planned(from: Exclude<SourceKind, "ip">, url: string) {
  const { findings, source } = await readSource(from, url, { numbers, operationTimeout: 20_000 });
  const about = { namespace, layout, from, source, sourceLayout: layout, numbers, now: Date.now() };
  return { findings, ...(await makePlan(findings, about)) };
}

/** Goes through a whole migration with a plan, there and back. Returns the pins that are not merely within reach of the source. */
async function whole(plan: Plan): Promise<unknown[]> {
  const registry = memoryRegistry();
  await registry.init({ namespace, layout: plan.layout });
  const request = { registry, plan: readPlan(planText(plan), "plan.json") };
  await applyPlan(request);
  const pins = (await registry.workers(namespace, { limit: 10_000 })).map(({ workerId, owner, until, pinned = "" }) => {
    return [workerId, owner, until, pinned.replace(/^migration: /, "")];
  });
  const { pins: due, staying } = await prepareFinish(request, 1000, true);
  expect(due.length + staying).toBe(pins.length);
  await unpinAll(registry, namespace, due);
  await applyPlan(request);
  await revertPlan(request);
  expect(await registry.workers(namespace)).toEqual([]);
  return pins.filter(([, , , reason]) => !/can hand it out again|^handed out by|^kept for/.test(String(reason)));
}

/** The error for a URL. */
async function refused(from: Exclude<SourceKind, "ip">, url: string): Promise<unknown> {
  return planned(from, url).then(() => "nothing", textOf);
}

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "worker IDs in Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());
  beforeEach(async () => {
    await server.client().flushall();
  });

  /** Every key, with all that a copy of it would need. */
  async function everything(): Promise<unknown> {
    const client = server.client();
    const keys = (await client.keys("*")).toSorted();
    return Promise.all(keys.map(async (key) => [key, await client.dumpBuffer(key), await client.pttl(key)]));
  }

  async function westid(workerId: number, pid: number, ip: string, host: string): Promise<void> {
    await server.client().set(`workerId:use:${workerId}`, `${pid}x${ip}x${host}`);
    await server.client().rpush(`workerId:pid:${ip}`, `${pid}x${workerId}`);
  }

  test("westid: its worker IDs are pinned without an owner, since it hands them out again once given back", async () => {
    await westid(0, 811, "10.0.0.7", "alpha");
    await westid(1, 812, "10.0.0.7", "alpha");
    await westid(2, 44, "10.0.0.8", "boxxer-x");
    await server.client().set("workerId:use:5", "somebody");
    await server.client().hset("workerId:use:6", "a", "b");
    // Its key is gone, but a program at that address still takes it. The list of a lease belongs to no program.
    await server.client().rpush("workerId:pid:10.0.0.9", "77x8", "no pair");
    await server.client().rpush("workerId:pid:lease@10.0.0.9", "78x9");
    const before = await everything();
    const { plan, findings, outlook } = await planned("westid-redis", server.url());
    expect(await whole(plan)).toEqual([
      [0, undefined, 0, "retired, used by alpha/811 (10.0.0.7)"],
      [1, undefined, 0, "retired, used by alpha/812 (10.0.0.7)"],
      [2, undefined, 0, "retired, used by boxxer-x/44 (10.0.0.8)"],
      [5, undefined, 0, "taken at workerId:use:5 by an unknown program"],
      [6, undefined, 0, "taken at workerId:use:6 by an unknown program"],
      [8, undefined, 0, "retired, used by 10.0.0.9/77 (10.0.0.9)"],
    ]);
    expect(findings.remarks.toSorted()).toEqual([
      'workerId:pid:10.0.0.9 has "no pair" and not {pid}x{N}: left out.',
      'workerId:use:5 is "somebody" and not {pid}x{ip}x{hostname}: pinned for no host.',
      "workerId:use:6 is no text and not {pid}x{ip}x{hostname}: pinned for no host.",
    ]);
    expect(outlook).toMatchObject({ collisions: [], kept: 0, renumbered: 4, retired: 1024, left: 1024 });
    expect(await everything()).toEqual(before);
  });

  test("westid on the same Redis as the leases: its entry stays, and the host gets another worker ID", async () => {
    await westid(0, 811, "10.0.0.7", "alpha");
    const before = await everything();
    const registry = await openRedis(server.url());
    try {
      await registry.init({ new: true, namespace: "default", layout: layouts.westid.fingerprint });
      const { findings, source } = await readSource("westid-redis", server.url(), {
        numbers: 1024,
        operationTimeout: 20_000,
      });
      const own = layouts.westid;
      const about = { namespace: "default", layout: own, sourceLayout: own, numbers, sharesStore: true } as const;
      const now = (await registry.ping()).clock;
      const { plan, outlook } = await makePlan(findings, { ...about, from: "westid-redis", source, registry, now });
      expect(outlook).toMatchObject({ collisions: [], kept: 0 });
      expect(await applyPlan({ registry, plan })).toMatchObject({ pinned: 1 });
      const holder = { host: "alpha", ip: "10.0.0.7", pid: 1, instance: "" };
      const request = claimRequest({ namespace: "default", holder, clock: Date.now() });
      expect(await granted(registry, request)).toMatchObject({ workerId: 1 });
      expect(await migrationStatus({ registry, plan })).toMatchObject({ moved: 1, old: 0, conflict: 0 });
      await expect(revertPlan({ registry, plan })).rejects.toMatchObject({ code: "WORKER_ID_HELD" });
      await revertPlan({ registry, plan }, true);
    } finally {
      await registry.close();
    }
    const theirs = (await everything()) as [key: string][];
    const keys = new Set((before as [key: string][]).map(([key]) => key));
    expect(theirs.filter(([key]) => keys.has(key))).toEqual(before);
  });

  test("CosId: every number that was ever given out is pinned, and no host takes one over", async () => {
    const client = server.client();
    await client.hset("cosid:{orders}:itc_idx", { "10.0.0.7:8080": "0|1795000000000", "pod-1:8080": "2|0", odd: "x" });
    await client.hset("cosid:{orders}:revert", { 1: "1795000000000" });
    await client.set("cosid:{orders}:adder", "3");
    const before = await everything();
    const { plan, findings } = await planned("cosid-redis", server.url());
    expect(await whole(plan)).toEqual([
      [0, undefined, 0, "retired, used by 10.0.0.7:8080 (10.0.0.7)"],
      [1, undefined, 0, "given out by CosId"],
      [2, undefined, 0, "retired, used by pod-1:8080"],
      [3, undefined, 0, "given out by CosId"],
    ]);
    expect(findings.remarks).toEqual(['cosid:{orders}:itc_idx has "x" for "odd" and not id|lastMs: left out.']);
    expect((await planned("cosid-redis", server.url("?namespace=orders"))).plan.hosts).toEqual(plan.hosts);
    await client.hset("cosid:{bills}:itc_idx", { a: "0|0" });
    expect(await refused("cosid-redis", server.url())).toMatch(/^CONFIG_INVALID: Expected one namespace of CosId/);
    await client.del("cosid:{bills}:itc_idx");
    expect(await everything()).toEqual(before);
    await client.set("cosid:{bills}:itc_idx", "a text");
    expect(await refused("cosid-redis", server.url("?namespace=bills"))).toMatch(/^NOT_FOUND: There is no key cosid:/);
  });

  test("a user with read rights only is enough", async () => {
    const client = server.client();
    await client.call(
      "ACL",
      "SETUSER",
      "reader",
      "on",
      ">look",
      "~*",
      "resetchannels",
      "-@all",
      "+@read",
      "+@connection",
    );
    await westid(2, 44, "10.0.0.8", "boxxer");
    await client.hset("cosid:{orders}:itc_idx", { "10.0.0.7:8080": "0|0" });
    const url = server.url().replace("//", "//reader:look@");
    expect((await planned("westid-redis", url)).plan.hosts).toHaveLength(1);
    expect((await planned("cosid-redis", url)).plan.hosts).toHaveLength(1);
    const denied = ((await client.call("ACL", "LOG")) as unknown[][]).map(
      (entry) => entry[entry.indexOf("object") + 1],
    );
    // The driver does that: it checks whether the server has loaded its data.
    expect(denied.filter((command) => command !== "info")).toEqual([]);
  });

  test("missing sources, and URLs of another kind, are reported in one line", async () => {
    expect(await refused("westid-redis", server.url())).toMatch(/^NOT_FOUND: There is no key workerId:use:N/);
    expect(await refused("cosid-redis", server.url())).toMatch(/^NOT_FOUND: There is no key cosid:/);
    expect(await refused("leaf", server.url())).toMatch(
      /^CONFIG_INVALID: Expected `--from leaf` with a URL of zookeeper/,
    );
    expect(await refused("westid-redis", server.url("?name=x"))).toMatch(
      /^CONFIG_INVALID: Expected the URL of westid-redis without/,
    );
  });
});

describe.each(databases)("worker IDs in $name", ({ missing, start, dialect }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
    let server: DatabaseServer;
    const tables = ["workerid_assign", "WORKER_NODE", "cosid_machine"];
    const auto = dialect === "mysql" ? "BIGINT NOT NULL AUTO_INCREMENT" : "BIGSERIAL";
    beforeAll(async () => {
      server = await start();
      await server.query(
        "CREATE TABLE workerid_assign (worker_id INT NOT NULL PRIMARY KEY, pid INT NOT NULL, ip VARCHAR(15) NOT NULL, hostname VARCHAR(60) NOT NULL, create_time TIMESTAMP NOT NULL)",
      );
      await server.query(
        `CREATE TABLE WORKER_NODE (ID ${auto}, HOST_NAME VARCHAR(64) NOT NULL, PORT VARCHAR(64) NOT NULL, TYPE INT NOT NULL, LAUNCH_DATE DATE NOT NULL, PRIMARY KEY (ID))`,
      );
      await server.query(
        "CREATE TABLE cosid_machine (name VARCHAR(100) NOT NULL PRIMARY KEY, namespace VARCHAR(100) NOT NULL, machine_id INT NOT NULL, last_timestamp BIGINT NOT NULL, instance_id VARCHAR(100) NOT NULL, distribute_time BIGINT NOT NULL, revert_time BIGINT NOT NULL)",
      );
    });
    afterAll(() => server.remove());

    /** Every row of every table that may be a source. */
    async function everything(): Promise<unknown> {
      return Promise.all(tables.map((table) => server.query(`SELECT * FROM ${table} ORDER BY 1`)));
    }

    test("westid: its worker IDs are pinned without an owner; ours on the same table are left out", async () => {
      const rows = ["(3, 44, '10.0.0.7', 'alpha'", "(4, 45, '10.0.0.8', 'beta'", "(9, 46, 'lease@0a1b2c3d4', 'ours'"];
      for (const row of rows) await server.query(`INSERT INTO workerid_assign VALUES ${row}, CURRENT_TIMESTAMP)`);
      await server.query("INSERT INTO workerid_assign VALUES (5, 1, 'unknown', 'no address', CURRENT_TIMESTAMP)");
      const before = await everything();
      const { plan } = await planned("westid-sql", server.url());
      expect(await whole(plan)).toEqual([
        [3, undefined, 0, "retired, used by alpha/44 (10.0.0.7)"],
        [4, undefined, 0, "retired, used by beta/45 (10.0.0.8)"],
        [5, undefined, 0, "retired, used by no address/1"],
      ]);
      expect(await everything()).toEqual(before);
    });

    test("uid-generator: all numbers that were ever given out are burnt for good", async () => {
      for (const host of ["10.0.0.7", "10.0.0.8", "10.0.0.7", "docker-1"]) {
        await server.query(
          `INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE) VALUES ('${host}', '1-2', 2, CURRENT_DATE)`,
        );
      }
      // A deleted row and a failed start use up numbers, too; a crash of PostgreSQL up to 32 more.
      await server.query(
        `INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE) VALUES ('gone', '1-2', 2, CURRENT_DATE)`,
      );
      await server.query("DELETE FROM WORKER_NODE WHERE HOST_NAME = 'gone'");
      const before = await everything();
      const { plan, findings } = await planned("uid-generator", server.url());
      const highest = dialect === "postgres" ? 5 + 32 : 5;
      expect(findings.reach).toEqual({ next: "above", highest });
      const burnt = "burnt by uid-generator, which may have used times ahead of the clock";
      expect(await whole(plan)).toEqual([
        [1, undefined, 0, burnt],
        [2, undefined, 0, "retired, used by 10.0.0.8"],
        [3, undefined, 0, "retired, used by 10.0.0.7"],
        [4, undefined, 0, "retired, used by docker-1"],
        // Its row is gone, but the counter counts it.
        [5, undefined, 0, "burnt by uid-generator, which may have used times ahead of the clock"],
      ]);
      const registry = memoryRegistry();
      await registry.init({ namespace, layout: plan.layout });
      await applyPlan({ registry, plan });
      const { pins, staying } = await prepareFinish({ registry, plan }, 1000, true);
      // Number 0 (never one of its own), numbers that PostgreSQL may skip, and those for its next starts.
      expect([pins.length, staying]).toEqual([1 + highest - 5 + 16, 5]);
      expect(await everything()).toEqual(before);
    });

    test("CosId: every machine ID of the namespace is pinned without an owner", async () => {
      await server.query(
        "INSERT INTO cosid_machine VALUES ('orders.0', 'orders', 0, 1795000000000, '10.0.0.7:80', 1, 0)",
      );
      await server.query("INSERT INTO cosid_machine VALUES ('orders.1', 'orders', 1, 1795000000000, '', 1, 2)");
      await server.query("INSERT INTO cosid_machine VALUES ('bills.0', 'bills', 0, 0, 'x:80', 1, 0)");
      const before = await everything();
      const { plan } = await planned("cosid-sql", server.url("?namespace=orders"));
      expect(await whole(plan)).toEqual([
        [0, undefined, 0, "retired, used by 10.0.0.7:80 (10.0.0.7)"],
        [1, undefined, 0, "given out by CosId"],
      ]);
      expect(await refused("cosid-sql", server.url())).toMatch(
        /Expected one namespace of CosId, got orders, bills|bills, orders/,
      );
      expect(await refused("cosid-sql", server.url("?namespace=none"))).toMatch(/^NOT_FOUND: There is no machine ID/);
      expect(await everything()).toEqual(before);
    });

    test("a user with read rights only is enough", async () => {
      const isMysql = dialect === "mysql";
      await server.query(isMysql ? "CREATE USER reader@'%'" : "CREATE ROLE reader LOGIN");
      for (const table of tables) {
        await server.query(`GRANT SELECT ON ${table} TO reader${isMysql ? "@'%'" : ""}`);
        await server.query(`DELETE FROM ${table}`);
      }
      if (!isMysql) await server.query("GRANT SELECT ON SEQUENCE worker_node_id_seq TO reader");
      if (!isMysql) await server.query("ALTER ROLE reader SET default_transaction_read_only = on");
      const time = "CURRENT_TIMESTAMP";
      await server.query(`INSERT INTO workerid_assign VALUES (3, 44, '10.0.0.7', 'alpha', ${time})`);
      await server.query(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE) VALUES ('a', '1', 2, CURRENT_DATE)",
      );
      await server.query("INSERT INTO cosid_machine VALUES ('orders.0', 'orders', 0, 0, '10.0.0.7:80', 1, 0)");
      const url = server.url().replace(/\/\/[^@]+@/, "//reader@");
      for (const from of ["westid-sql", "uid-generator", "cosid-sql"] as const) {
        expect((await planned(from, url)).plan.hosts, from).toHaveLength(1);
      }
    });

    test("a table that is missing or belongs to another program is reported in one line", async () => {
      const before = await server.query("SELECT * FROM cosid_machine");
      await server.query("ALTER TABLE cosid_machine RENAME TO kept_machine");
      expect(await refused("cosid-sql", server.url())).toMatch(
        /^NOT_FOUND: There is no table cosid_machine as it should be at/,
      );
      await server.query("CREATE TABLE cosid_machine (other INT)");
      expect(await refused("cosid-sql", server.url())).toMatch(
        /^NOT_FOUND: There is no table cosid_machine as it should be at/,
      );
      await server.query("DROP TABLE cosid_machine");
      await server.query("ALTER TABLE kept_machine RENAME TO cosid_machine");
      expect(await server.query("SELECT * FROM cosid_machine")).toEqual(before);
    });
  });
});

driveStandIn();

describe.skipIf(oracleStandIn.missing !== undefined)(
  oracleStandIn.missing ?? "worker IDs in Oracle (a stand-in)",
  () => {
    test("westid, uid-generator and CosId: read as on any other database, and left unchanged", async () => {
      const server = await oracleStandIn.start();
      try {
        const text = "VARCHAR2(100) NOT NULL";
        for (const statement of [
          `CREATE TABLE workerid_assign (worker_id NUMBER(10) PRIMARY KEY, pid NUMBER(10) NOT NULL, ip ${text}, hostname ${text}, create_time TIMESTAMP NOT NULL)`,
          `CREATE TABLE WORKER_NODE (ID NUMBER(19) PRIMARY KEY, HOST_NAME ${text})`,
          `CREATE TABLE cosid_machine (name ${text}, namespace ${text}, machine_id NUMBER(10), last_timestamp NUMBER(19), instance_id VARCHAR2(100), distribute_time NUMBER(19), revert_time NUMBER(19))`,
          "INSERT INTO workerid_assign VALUES (3, 44, '10.0.0.7', 'alpha', CURRENT_TIMESTAMP)",
          "INSERT INTO workerid_assign VALUES (9, 46, 'lease@0a1b2c3d4', 'ours', CURRENT_TIMESTAMP)",
          "INSERT INTO WORKER_NODE VALUES (2, '10.0.0.8')",
          "INSERT INTO cosid_machine VALUES ('orders.0', 'orders', 0, 1795000000000, '10.0.0.7:80', 1, 0)",
        ]) {
          await server.query(statement);
        }
        const everything = (): Promise<unknown> =>
          Promise.all(
            ["workerid_assign", "WORKER_NODE", "cosid_machine"].map((table) =>
              server.query(`SELECT * FROM ${table} ORDER BY 1`),
            ),
          );
        const before = await everything();
        expect(await whole((await planned("westid-sql", server.url())).plan)).toEqual([
          [3, undefined, 0, "retired, used by alpha/44 (10.0.0.7)"],
        ]);
        expect(await whole((await planned("uid-generator", server.url())).plan)).toEqual([
          [1, undefined, 0, "burnt by uid-generator, which may have used times ahead of the clock"],
          [2, undefined, 0, "retired, used by 10.0.0.8"],
        ]);
        expect(await whole((await planned("cosid-sql", server.url())).plan)).toEqual([
          [0, undefined, 0, "retired, used by 10.0.0.7:80 (10.0.0.7)"],
        ]);
        expect(await everything()).toEqual(before);
      } finally {
        await server.remove();
      }
    });
  },
);

describe.skipIf(zooKeeperMissing !== undefined)(zooKeeperMissing ?? "worker IDs of Leaf in ZooKeeper", () => {
  type Client = ReturnType<typeof zookeeper.createClient>;
  let ensemble: ZooKeeper;
  let client: Client;
  const url = (query = ""): string => ensemble.url(query);

  beforeAll(async () => {
    ensemble = await ZooKeeper.start();
    client = zookeeper.createClient(ensemble.url().replace(/^zookeeper:\/\//, ""));
    await new Promise<void>((resolve) => {
      client.once("connected", () => resolve());
      client.connect();
    });
  });
  afterAll(async () => {
    client.close();
    await ensemble.remove();
  });

  function made(path: string, text = "", mode = zookeeper.CreateMode.PERSISTENT): Promise<void> {
    return new Promise((resolve, reject) => {
      client.create(path, Buffer.from(text), mode, (error) => (error ? reject(new Error(String(error))) : resolve()));
    });
  }

  /** Every node below a path: its content, and how often it and its children were written. */
  async function everything(path = "/snowflake"): Promise<unknown[]> {
    const [data, stat] = await new Promise<[string, unknown]>((resolve, reject) => {
      client.getData(path, (error, data, stat) =>
        error ? reject(new Error(String(error))) : resolve([String(data), stat]),
      );
    });
    const children = await new Promise<string[]>((resolve, reject) => {
      client.getChildren(path, (error, names) => (error ? reject(new Error(String(error))) : resolve(names)));
    });
    const below = await Promise.all(children.toSorted().map((name) => everything(`${path}/${name}`)));
    return [[path, data, JSON.stringify(stat)], ...below.flat()];
  }

  test("a host keeps its worker ID, after its recorded times; worker ID 0 has no owner", async () => {
    expect(await refused("leaf", url())).toMatch(/^NOT_FOUND: There is no node in \/snowflake\/NAME\/forever/);
    const timestamp = Date.now();
    for (const path of ["/snowflake", "/snowflake/orders", "/snowflake/orders/forever"]) await made(path);
    const sequential = zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
    for (const ip of ["10.0.0.6", "10.0.0.7", "10.0.0.8"]) {
      const text = JSON.stringify({ ip, port: "8080", timestamp });
      await made(`/snowflake/orders/forever/${ip}:8080-`, text, sequential);
    }
    await made("/snowflake/orders/forever/10.0.0.9:8080-", "no JSON", sequential);
    await made("/snowflake/orders/forever/stray");
    // A deleted node counts, too: the next node gets a number above it.
    await made("/snowflake/orders/forever/10.0.0.10:8080-", "", sequential);
    await new Promise<void>((resolve) =>
      client.remove("/snowflake/orders/forever/10.0.0.10:8080-0000000005", () => resolve()),
    );
    const before = await everything();
    const { plan, findings } = await planned("leaf", url());
    expect(findings.reach).toEqual({ next: "above", highest: 5 });
    expect(await whole(plan)).toEqual([
      [0, undefined, 0, "retired, used by 10.0.0.6:8080 (10.0.0.6)"],
      [1, "10.0.0.7", timestamp + 3000, "used by 10.0.0.7:8080 (10.0.0.7)"],
      [2, "10.0.0.8", timestamp + 3000, "used by 10.0.0.8:8080 (10.0.0.8)"],
      [3, "10.0.0.9", 0, "used by 10.0.0.9:8080 (10.0.0.9)"],
    ]);
    expect(findings.remarks.toSorted()).toEqual([
      "/snowflake/orders/forever/10.0.0.9:8080-0000000003 holds no timestamp: its last use is not known.",
      "/snowflake/orders/forever/stray is not {ip}:{port}-{sequence} up to 1023: left out.",
    ]);
    await made("/snowflake/bills");
    expect(await refused("leaf", url())).toMatch(/^CONFIG_INVALID: Expected one name below \/snowflake, got/);
    expect((await planned("leaf", url("?name=orders"))).plan.hosts).toEqual(plan.hosts);
    await new Promise<void>((resolve) => client.remove("/snowflake/bills", () => resolve()));
    const but = (list: unknown[]): unknown[] => list.slice(1);
    expect(but(await everything())).toEqual(but(before));
  });
});
