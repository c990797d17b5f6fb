import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { openRedis, redisProgram } from "../support/redis.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";

const source = await findServer("redis", redisProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openRedis);

  runConformance("redis", async () => ({
    namespace: server.newNamespace(),
    // A quarantine that a check waits for has no time to wait for an old primary.
    open: () => openRedis(server.url("?maxLag=0"), patience),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
  }));
});
