import type { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { defaultLimits } from "../../src/rule/limits.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { passQuarantine } from "../support/failover.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const namespace = "orders";
const layout = defaultLayout.fingerprint;
const { maxClockSkew } = defaultLimits;

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "keys of a namespace that others write", () => {
  let server: RedisServer;
  let client: Redis;
  let registry: Registry;

  beforeAll(async () => {
    server = await RedisServer.start();
    client = server.client();
  });
  afterAll(() => server.remove());

  beforeEach(async () => {
    await client.flushall();
    registry = await openRedis(server.url());
    await registry.init({ new: true, namespace, layout });
  });
  afterEach(() => registry.close());

  const claim = (workerId: number): ReturnType<typeof claimRequest> =>
    claimRequest({ namespace, workerId, window: 60_000 });

  test("a number whose key was deleted under its holder opens when no clock of a Java process can be behind it", async () => {
    const request = claim(7);
    const grant = await granted(registry, request);
    expect(grant.from).toBeLessThanOrEqual(grant.clock);
    await client.del("workerId/orders:use:7");
    const key = keyOf(request, grant);
    expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toMatchObject({ outcome: "lost" });
    await registry.forceRelease({ namespace, workerId: 7, fence: grant.fence, force: true, resetWindow: true });
    const next = await granted(registry, claim(7));
    expect(next.from).toBeGreaterThanOrEqual(next.clock + maxClockSkew);
  });

  test("what a later version keeps there is neither read nor changed", async () => {
    const request = claim(7);
    const grant = await granted(registry, request);
    await client.hset("workerId/orders:meta", "schema", "9");
    const before = await client.dumpBuffer("workerId/orders:window:7");
    const key = { ...keyOf(request, grant), clock: Date.now() };
    for (const call of [
      () => registry.claim(claim(8)),
      () => registry.renew({ ...key, window: 60_000 }),
      () => registry.release(key),
      () => registry.describe(namespace),
    ])
      await expect(call()).rejects.toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
    expect(await client.dumpBuffer("workerId/orders:window:7")).toEqual(before);
    expect(await client.exists("workerId/orders:window:8")).toBe(0);
  });

  test("a give-back behind a quarantine says nothing of the times before it, also where a renewal was not heard", async () => {
    const request = claim(7);
    const grant = await granted(registry, request);
    const key = keyOf(request, grant);
    const renew = (): ReturnType<Registry["renew"]> => registry.renew({ ...key, clock: Date.now(), window: 60_000 });
    await client.hset("workerId/orders:meta", "runId", "another", "replId", "another");
    await expect(renew()).rejects.toMatchObject({ code: "QUARANTINE" });
    const end = await passQuarantine(server, namespace);
    expect(await renew()).toMatchObject({ outcome: "renewed", from: end });
    // That answer was lost.
    const used = { until: end - 1, checkpoint: { timestamp: end - 2, sequence: 7 } };
    expect(await registry.release({ ...key, clock: Date.now(), used })).toEqual({ outcome: "released" });
    expect(await registry.worker(namespace, 7)).toMatchObject({ clean: false });
  });
});
