import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { RedisCluster } from "../support/redis-groups.ts";

const layout = defaultLayout.fingerprint;
const secret = "open-sesame";

async function opened(url: string, operationTimeout?: number): Promise<Registry> {
  const registry = await openRedis(url, operationTimeout);
  onTestFinished(() => registry.close());
  return registry;
}

/** Keys that look like ours and are of no namespace: of westid, of other programs, and half of what we make. */
const others: Readonly<Record<string, string>> = {
  "workerId:use:7": "10.0.0.9:1",
  "workerId/java:use:7": "10.0.0.9:1",
  workerIdeas: "x",
  "workerIdeas:meta": "x",
  "workerId/Orders:meta": "x",
  "workerId/a/b:meta": "x",
  "workerId/default:meta": "x",
  "workerId/orders:meta:backup": "x",
  "xworkerId/orders:meta": "x",
  "{workerId/braces}:meta": "x",
};

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "the namespaces of a Redis that others use, too", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());

  test("are found among other programs' keys, and none of those breaks the list", async () => {
    const client = server.client();
    const registry = await opened(server.url("/1"));
    await client.select(1);
    await client.mset(others);
    for (let i = 0; i < 5000; i++) await client.set(`other:${i}`, "x");
    expect(await registry.namespaces?.()).toEqual([]);
    for (const namespace of ["orders", "default", "bills"]) await registry.init({ new: true, namespace, layout });
    // Records and an index without their `meta`.
    await client.hset("workerId/half:window:3", "record", "x");
    await client.zadd("workerId/half:unused", 9, "4");
    // A quarantine alone: whether the namespace ever existed is not known.
    expect(await failure(registry.claim(claimRequest({ namespace: "noted" })))).toMatchObject({ code: "QUARANTINE" });
    expect(await client.hkeys("workerId/noted:meta")).toEqual(expect.arrayContaining(["era", "quarantineEnd"]));
    expect(await registry.namespaces?.()).toEqual(["bills", "default", "orders"]);
    // Another database has its own.
    const elsewhere = await opened(server.url("/2"));
    expect(await elsewhere.namespaces?.()).toEqual([]);

    await client.set("workerId/text:meta", "of another program");
    await client.hset("workerId/damaged:meta", { layout, maxWindow: "long" });
    await client.hset("workerId/later:meta", { layout, schema: "2" });
    const all = ["bills", "damaged", "default", "later", "orders", "text"];
    expect(await registry.namespaces?.()).toEqual(all);
    expect(await registry.namespaces?.({ after: "damaged", limit: 2 })).toEqual(["default", "later"]);
    await client.select(0);
  });

  test("of a user: those that it may not read are listed, too; without SCAN it is FORBIDDEN, with what to do", async () => {
    const admin = await opened(server.url());
    for (const namespace of ["orders", "bills"]) await admin.init({ new: true, namespace, layout });
    const rights = ["+eval", "+evalsha", "+info", "+time", "+hmget", "+type"];
    const user = async (name: string, ...more: string[]): Promise<Registry> => {
      await server
        .client()
        .call(
          "ACL",
          "SETUSER",
          name,
          "reset",
          "on",
          `>${secret}`,
          "~workerId/orders:*",
          "~workerId/orders",
          ...rights,
          ...more,
        );
      return opened(`redis://${name}:${secret}@127.0.0.1:${server.port}`);
    };
    const looking = await user("looking", "+scan");
    expect(await looking.namespaces?.()).toEqual(["bills", "orders"]);
    const blind = await user("blind");
    const error = await failure(blind.namespaces?.() ?? Promise.resolve());
    expect(error).toMatchObject({ code: "FORBIDDEN" });
    expect(error.message).toMatch(/does not let this user look for namespaces \(NOPERM .*\); the user needs SCAN/);
    expect(error.message).not.toContain(secret);
    expect(await blind.describe("orders")).toMatchObject({ layout });
  });

  test("of a server with more keys than there is time for: it says so, and goes on with more time", async () => {
    const large = await RedisServer.start([]);
    onTestFinished(() => large.remove());
    const fill = "for i = 1, 1000000 do redis.call('SET', 'other:' .. i, '') end";
    await large.client().eval(fill, 0);
    const patient = await opened(large.url(), 60_000);
    await patient.init({ new: true, namespace: "orders", layout });
    expect(await patient.namespaces?.()).toEqual(["orders"]);
    const hasty = await opened(large.url(), 300);
    // Its connection is there.
    expect(await hasty.describe("orders")).toMatchObject({ layout });
    const error = await failure(hasty.namespaces?.() ?? Promise.resolve());
    expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(error.message).toMatch(/has more keys than a look at all of them has time for, 300 ms; set a longer `op/);
    expect(await hasty.describe("orders")).toMatchObject({ layout });
  });
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "the namespaces of a Redis cluster", () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start();
  });
  afterAll(() => cluster.remove());

  test("are those of every node", async () => {
    const registry = await opened(cluster.url());
    const names = ["default", ...Array.from({ length: 12 }, (_, i) => `n${String(i).padStart(2, "0")}`)];
    for (const namespace of names) await registry.init({ new: true, namespace, layout });
    const owners = new Set<unknown>();
    for (const name of names) {
      const { owner } = await cluster.ownerOf(name === "default" ? "{workerId}" : `{workerId/${name}}`);
      owners.add(owner);
    }
    expect(owners.size).toBe(cluster.nodes.length);
    expect(await registry.namespaces?.()).toEqual(names);
    expect(await registry.namespaces?.({ after: "n03", limit: 2 })).toEqual(["n04", "n05"]);
    // From a connection that has not asked each node yet.
    const another = await opened(cluster.url());
    expect(await another.namespaces?.({ limit: 3 })).toEqual(names.slice(0, 3));
    // The keys of a single server are none of a cluster's.
    const { owner } = await cluster.ownerOf("workerId/plain:meta");
    await owner.client().hset("workerId/plain:meta", { layout });
    expect(await registry.namespaces?.()).toEqual(names);
  });
});
