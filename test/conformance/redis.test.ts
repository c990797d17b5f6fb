import { setTimeout as sleep } from "node:timers/promises";
import { lacksOf } from "../../src/proof/lacks.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { runConformance } from "../support/run-conformance.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace } from "../support/subject.ts";

onServerOf("redis", { missing: redisMissing, start: () => RedisServer.start() }, {}, (server) => {
  runConformance("redis", async () => ({
    namespace: newNamespace(),
    // A check that waits for the end of a quarantine has no time to wait for an old primary.
    open: () => openRedis(`${server().url()}?maxLag=0`),
    pause: sleep,
    now: Date.now,
    lacks: lacksOf("redis"),
  }));
});
