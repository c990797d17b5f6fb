import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe } from "vitest";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";

const given = process.env["REDIS_URL"];

describe.skipIf(given === undefined && redisMissing !== undefined)(redisMissing ?? "on a real server", () => {
  let server: RedisServer | undefined;
  beforeAll(async () => {
    if (given === undefined) server = await RedisServer.start();
  });
  afterAll(() => server?.remove());

  runConformance("redis", async () => ({
    // A server that somebody else owns may know every name that was used before.
    namespace: `t${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`,
    // A quarantine that a check waits for has no time to wait for an old primary.
    open: () => openRedis(`${given ?? server?.url() ?? ""}?maxLag=0`, patience),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
  }));
});
