import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { lossyStore } from "../support/late-store.ts";
import { openRedis, redisProgram } from "../support/redis.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { findServer, shareServer } from "../support/store-server.ts";

/** A client of a server that has the text of each script: the first call of one would be answered that it lacks it. */
async function openWarm(url: string): Promise<Registry> {
  const registry = await openRedis(url, patience);
  const key = { namespace: "none", workerId: 0, fence: 1, token: "0".repeat(32) };
  const clock = Date.now();
  await Promise.allSettled([
    registry.renew({ ...key, clock, window: 1000 }),
    registry.release({ ...key, clock }),
    registry.forceRelease({ ...key, force: true }),
    registry.unpin(key.namespace, 0),
  ]);
  return registry;
}

const source = await findServer("redis", redisProgram);

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openRedis);

  runConformance("redis", async () => {
    // A quarantine that a check waits for has no time to wait for an old primary.
    const url = server.url("?maxLag=0");
    return {
      namespace: server.newNamespace(),
      open: () => openRedis(url, patience),
      pause: sleep,
      now: Date.now,
      ...(server.own && { lossy: () => lossyStore({ url, mark: /EVALSHA/, open: openWarm }) }),
      lacks: { "creates-namespaces": "a Redis without a namespace's keys may have lost them: only `init` makes one" },
    };
  });
});
