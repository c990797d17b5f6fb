import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { readSource } from "../../src/ops/migrate/sources.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const { westid } = layouts;

/** A claim of a host whose window does not pass meanwhile. */
const claimOf = (host: string): ReturnType<typeof claimRequest> =>
  claimRequest({
    namespace: "default",
    layout: westid.fingerprint,
    window: 120_000,
    holder: { host, ip: "10.0.0.5", pid: 4711, instance: "" },
  });

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "our own leases beside a westid fleet", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());

  const makers = async (): Promise<unknown[]> => {
    const how = { numbers: westid.pool.last + 1, operationTimeout: 60_000 };
    const { findings } = await readSource("westid-redis", server.url(), how);
    return findings.makers.map(({ workerId, name, address }) => [workerId, name, address]);
  };

  test("what they left there is no program of the old scheme", async () => {
    const client = server.client();
    const registry = await openRedis(server.url());
    try {
      await registry.init({ new: true, namespace: "default", layout: westid.fingerprint });
      expect(await granted(registry, claimOf("live"))).toMatchObject({ workerId: 0 });
      // Given back without a word of what was used: its window goes on, and the key with it.
      const rests = claimOf("rests");
      const grant = await granted(registry, rests);
      await registry.release({ ...keyOf(rests, grant), clock: Date.now() });
      expect(await granted(registry, claimOf("over"))).toMatchObject({ workerId: 2 });
    } finally {
      await registry.close();
    }
    expect(await client.exists("workerId:use:0", "workerId:use:1", "workerId:use:2")).toBe(3);
    expect(await makers()).toEqual([]);
    // Java takes a number over that stands in the list of its own address, whoever has it.
    await client.set("workerId:use:2", "12x10.0.0.8xjava");
    await client.set("workerId:use:3", "13x10.0.0.8xjava");
    expect(await makers()).toEqual([
      [2, "java/12", "10.0.0.8"],
      [3, "java/13", "10.0.0.8"],
    ]);
  });
});
