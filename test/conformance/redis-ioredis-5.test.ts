import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { runConformance } from "../support/run-conformance.ts";

// The oldest driver that package.json allows, instead of the newest.
vi.mock("ioredis", () => import("ioredis-5"));

test("the driver is the oldest that a user may have installed", async () => {
  const { peerDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
  const { version } = JSON.parse(readFileSync("node_modules/ioredis-5/package.json", "utf8"));
  expect(peerDependencies.ioredis).toBe(`>=${version} <7`);
  expect((await import("ioredis")).Redis).toBe((await import("ioredis-5")).Redis);
});

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "with ioredis 5.9 on a real server", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.remove());

  runConformance("redis", async () => ({
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    open: () => openRedis(server.url("?maxLag=0")),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
  }));
});
